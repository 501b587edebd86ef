/* matrices.c - ldmatrix and stmatrix of bytes, 6 and 4 bits, against the PTX ISA's fragments, bit by bit. */
#include "tests/support/emu_test.h"
#include "tests/support/random_fixture.h"
#define BEFORE_EACH NULL
#define AFTER_EACH  NULL

enum { LANES = 32, ROW = 16, REGISTERS = 4 };

struct form {
    const char *shape, *type;
    int         rows, registers, bits; /* of a matrix; of an element in shared memory */
    bool        transposes, store;
};
static const struct form forms[] = {
    {"m16n16", "b8", 16, 2, 8, true, false},
    {"m16n16", "b8x16.b6x16_p32", 16, 2, 6, true, false},
    {"m16n16", "b8x16.b4x16_p64", 16, 2, 4, true, false},
    {"m8n16", "b8x16.b6x16_p32", 8, 1, 6, false, false},
    {"m8n16", "b8x16.b4x16_p64", 8, 1, 4, false, false},
    {"m16n8", "b8", 8, 1, 8, true, true},
};

/* Thread t gives the address of row t: 16 bytes at 16 (t ^ 5). */
static int place_of(int row) { return ROW * (row ^ 5); }

/* What fills shared memory: all bytes of a row but the last ones. */
static const char *filling(const struct form *f, int unwritten)
{
    if (f->store)
        return "st.shared.v4.b32 [%s], {-1,-1,-1,-1};";
    return unwritten == 8   ? "st.shared.v2.b32 [%s], {%r0,%r1};"
           : unwritten == 4 ? "st.shared.v2.b32 [%s], {%r0,%r1}; st.shared.b32 [%s+8], %r2;"
                            : "st.shared.v4.b32 [%s], {%r0,%r1,%r2,%r3};";
}

/* An ldmatrix of rows that the input fills, whose registers are the output; or an stmatrix of the input, and the
 * output is what is in shared memory then. */
static const char *kernel(const struct form *f, int count, bool generic, int unwritten)
{
    static char              text[4096];
    static const char *const lists[] = {"{%r0}", "{%r0,%r1}", NULL, "{%r0,%r1,%r2,%r3}"};
    const char              *list = lists[count * f->registers - 1], *address = generic ? "[%g]" : "[%p]";
    snprintf(
        text, sizeof text,
        ".version 8.7\n.target sm_120a\n.address_size 64\n"
        ".visible .entry k(.param .u64 in, .param .u64 out) {\n.shared .align 16 .b8 s[512];\n"
        ".reg .b64 %%i, %%o, %%x, %%g; .reg .b32 %%t, %%s, %%q, %%p, %%r<4>;\nld.param.u64 %%i, [in]; "
        "ld.param.u64 %%o, [out]; mov.u32 %%t, %%tid.x; mul.wide.u32 %%x, %%t, 16;\n"
        "add.u64 %%i, %%i, %%x; add.u64 %%o, %%o, %%x; mov.u32 %%s, s; shl.b32 %%q, %%t, 4; add.u32 %%s, %%s, "
        "%%q;\nmov.u32 %%p, s; xor.b32 %%q, %%q, 80; add.u32 %%p, %%p, %%q; cvt.u64.u32 %%g, %%p; "
        "cvta.shared.u64 %%g, %%g;\nld.global.v4.b32 {%%r0,%%r1,%%r2,%%r3}, [%%i];\n"
        "%s\nbar.warp.sync -1;\n%s.sync.aligned.%s.x%d%s%s.%s %s, %s;\nbar.warp.sync -1;\n%s\n"
        "st.global.v4.b32 [%%o], {%%r0,%%r1,%%r2,%%r3};\nret;\n}\n",
        filling(f, unwritten), f->store ? "stmatrix" : "ldmatrix", f->shape, count,
        f->transposes ? ".trans" : "", generic ? "" : ".shared::cta", f->type, f->store ? address : list,
        f->store ? list : address, f->store ? "ld.shared.v4.b32 {%r0,%r1,%r2,%r3}, [%s];" : "");
    return text;
}

static unsigned int run(const struct form *f, int count, bool generic, int unwritten, const void *in, void *out)
{
    emu_machine(120);
    const uint64_t from = emu_buffer(LANES * ROW), to = emu_buffer(LANES * ROW), arguments[] = {from, to};
    emu_write(from, in, LANES * ROW);
    const unsigned int result = emu_run(kernel(f, count, generic, unwritten), "k", 1, LANES, 0, arguments, 2);
    if (result == 0)
        emu_read(out, to, LANES * ROW);
    return result;
}

/* Element c of 16 of a row: the first is in the lowest bits. */
static unsigned int element(const unsigned char *row, int bits, int c)
{
    unsigned int x = 0;
    for (int i = 0; i < bits; i++)
        x |= (unsigned int)(row[(bits * c + i) / 8] >> (bits * c + i) % 8 & 1) << i;
    return x;
}

/* Matrix j of lane 4 g + q.  16 x 16, loaded in columns: bytes 0 .. 3 of register s are elements (4 q .. 4 q + 3,
 * g + 8 s).  8 x 16: elements (g, 4 q .. 4 q + 3). */
static void check_load(const struct form *f, int count, bool generic)
{
    unsigned char in[LANES][ROW], out[LANES][REGISTERS][4];
    for (size_t i = 0; i < sizeof in; i++)
        (&in[0][0])[i] = (unsigned char)random_bits();
    const unsigned int result = run(f, count, generic, 16 - 2 * f->bits, in, out);
    if (result != 0 || emu_log()[0] != '\0')
        fail_msg("%s.%s: result %u: %s", f->shape, f->type, result, emu_log());
    for (int l = 0; l < LANES; l++)
        for (int r = 0; r < count * f->registers; r++)
            for (int i = 0; i < 4; i++) {
                const int j = r / f->registers, s = r % f->registers, g = l / 4, q = l % 4;
                const int row = j * f->rows + (f->transposes ? 4 * q + i : g);
                const int column = f->transposes ? g + 8 * s : 4 * q + i;
                assert_int_equal(out[l][r][i], element(in[place_of(row) / ROW], f->bits, column));
            }
}

/* 16 x 8, stored in columns: bytes of register j are elements (g, 2 q), (g, 2 q + 1), (g + 8, 2 q), (g + 8, 2 q + 1). */
static void check_store(const struct form *f, int count, bool generic)
{
    unsigned char in[LANES][REGISTERS][4], out[LANES][ROW], wanted[LANES][ROW];
    for (size_t i = 0; i < sizeof in; i++)
        (&in[0][0][0])[i] = (unsigned char)random_bits();
    memset(wanted, 0xff, sizeof wanted);
    for (int l = 0; l < LANES; l++)
        for (int j = 0; j < count; j++)
            for (int i = 0; i < 4; i++)
                wanted[place_of(8 * j + 2 * (l % 4) + i % 2) / ROW][l / 4 + 8 * (i / 2)] = in[l][j][i];
    const unsigned int result = run(f, count, generic, 0, in, out);
    if (result != 0 || emu_log()[0] != '\0')
        fail_msg("%s.%s: result %u: %s", f->shape, f->type, result, emu_log());
    assert_memory_equal(out, wanted, sizeof out);
}

TEST(every_form_moves_every_bit)
{
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        for (int count = 1; count * forms[i].registers <= REGISTERS; count *= 2)
            for (int generic = 0; generic < 2; generic++)
                (forms[i].store ? check_store : check_load)(&forms[i], count, generic);
}

/* Elements in the bytes that nothing wrote are undefined; the padding may be (the test above). */
TEST(undefined_bytes_stay_undefined)
{
    unsigned char in[LANES][ROW] = {{0}}, out[LANES][ROW];
    emu_must_end(run(&forms[0], 2, false, 4, in, out), 719, "uninitialised", "bytes");
    emu_must_end(run(&forms[1], 2, false, 8, in, out), 719, "uninitialised", "6 bits");
    emu_must_end(run(&forms[3], 4, false, 8, in, out), 719, "uninitialised", "6 bits");
}

RUN_TESTS(print_seed, NULL)
