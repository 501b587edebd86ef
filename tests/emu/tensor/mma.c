/* mma.c - mma, wmma, ldmatrix, stmatrix and movmatrix as PTX on the emulated GPU; refusals are in mma.txt. */
#include "tests/support/emu_test.h"
#include "tests/support/emu_vectors.h"
#include "tests/support/random_fixture.h"
#define BEFORE_EACH NULL
#define AFTER_EACH  NULL

enum { EXPERIMENTS = 3 }; /* experiments of a case, of different kinds */

#define HEAD(isa, sm) ".version " isa "\n.target " sm "\n.address_size 64\n"

static void expect_run(unsigned int result)
{
    if (result != 0 || emu_log()[0] != '\0')
        fail_msg("result %u: %s", result, emu_log());
}

/* ---- every mma and wgmma: the path between the table's fragments and the model's arithmetic ------------ */
static void run_case(const struct vectors_case *c, int number)
{
    static struct vectors_input in[EXPERIMENTS];
    static unsigned char        image[EXPERIMENTS * VECTORS_STRIDE];
    static uint32_t             d[VECTORS_WORDS];
    const uint64_t from = emu_buffer(sizeof image), to = emu_buffer(sizeof image), words[] = {from, to};
    memset(image, 0, sizeof image);
    for (int e = 0; e < EXPERIMENTS; e++) {
        vectors_make(c, number, (enum vectors_kind)((number + 3 * e) % VECTORS_KIND_COUNT), e, &in[e]);
        vectors_scatter(c, &in[e], image + e * VECTORS_STRIDE);
        vectors_multiply(c, &in[e]);
    }
    emu_write(from, image, sizeof image);
    emu_write(to, image, sizeof image);
    unsigned int result = emu_run(vectors_kernel(c), "k", EXPERIMENTS, vectors_threads(c), 0, words, 2);
    if (result != 0 || emu_log()[0] != '\0')
        fail_msg("%s: result %u: %s", c->name, result, emu_log());
    emu_read(image, to, sizeof image);
    for (int e = 0; e < EXPERIMENTS; e++) {
        vectors_gather(c, image + e * VECTORS_STRIDE, d);
        for (size_t i = 0; i < vectors_d_words(c); i++)
            if (d[i] != in[e].c[i])
                fail_msg("%s: experiment %d: word %zu is %08x, not %08x", c->name, e, i, d[i], in[e].c[i]);
    }
}

TEST(every_mma_is_executed)
{
    struct vectors_case c;
    int                 count = 0;
    for (; vectors_case_at(count, &c); count++) {
        emu_machine(90);
        run_case(&c, count);
    }
    printf("%d cases\n", count);
    assert_true(count > 100);
}

/* m8n8k4 of f16 in all four layouts: A B of small integers is exact in any order. */
TEST(quad_pairs_in_all_layouts)
{
    static const char *const orders[] = {"row.row", "row.col", "col.row", "col.col"};
    char                     text[4096];
    for (int i = 0; i < 4; i++) {
        uint32_t words[4][32] = {{0}}, out[8][32];
        float    a[8][4], b[4][8];
        for (int m = 0; m < 8; m++)
            for (int k = 0; k < 4; k++) {
                a[m][k] = (float)(m * 3 + k - 9);
                b[k][m] = (float)(m - 2 * k + 1);
            }
        for (int l = 0; l < 32; l++)
            for (int j = 0; j < 4; j++) {
                int   line = l % 4 + l / 16 * 4, four = j + l / 16 * 4;
                float x = i < 2 ? a[line][j] : a[four][l % 4], y = i % 2 ? b[j][line] : b[l % 4][four];
                words[j / 2][l] |= tensor_f16_of_double(x) << 16 * (j % 2);
                words[2 + j / 2][l] |= tensor_f16_of_double(y) << 16 * (j % 2);
            }
        snprintf(text, sizeof text,
                 HEAD("6.4",
                      "sm_70") ".visible .entry k(.param .u64 in, .param .u64 out) {\n.reg .b64 %%i, %%o, "
                               "%%x; .reg .b32 %%t, %%a<4>; "
                               ".reg .f32 %%d<8>;\nld.param.u64 %%i, [in]; ld.param.u64 %%o, [out]; "
                               "mov.u32 %%t, %%tid.x;\n"
                               "mul.wide.u32 %%x, %%t, 4; add.u64 %%i, %%i, %%x; add.u64 %%o, %%o, %%x;\n"
                               "ld.global.b32 %%a0, [%%i]; ld.global.b32 %%a1, [%%i+128]; ld.global.b32 "
                               "%%a2, [%%i+256];\n"
                               "ld.global.b32 %%a3, [%%i+384];\nmov.f32 %%d0, 0f40000000; mov.f32 %%d1, "
                               "%%d0; mov.f32 %%d2, %%d0;\n"
                               "mov.f32 %%d3, %%d0; mov.f32 %%d4, %%d0; mov.f32 %%d5, %%d0; mov.f32 %%d6, "
                               "%%d0; mov.f32 %%d7, %%d0;\n"
                               "mma.sync.aligned.m8n8k4.%s.f32.f16.f16.f32 "
                               "{%%d0,%%d1,%%d2,%%d3,%%d4,%%d5,%%d6,%%d7}, {%%a0,%%a1}, "
                               "{%%a2,%%a3}, {%%d0,%%d1,%%d2,%%d3,%%d4,%%d5,%%d6,%%d7};\n"
                               "st.global.f32 [%%o], %%d0; st.global.f32 [%%o+128], %%d1; st.global.f32 "
                               "[%%o+256], %%d2;\n"
                               "st.global.f32 [%%o+384], %%d3; st.global.f32 [%%o+512], %%d4; "
                               "st.global.f32 [%%o+640], %%d5;\n"
                               "st.global.f32 [%%o+768], %%d6; st.global.f32 [%%o+896], %%d7;\nret;\n}\n",
                 orders[i]);
        emu_machine(75);
        const uint64_t from = emu_buffer(sizeof words), to = emu_buffer(sizeof out), arguments[] = {from, to};
        emu_write(from, words, sizeof words);
        expect_run(emu_run(text, "k", 1, 32, 0, arguments, 2));
        emu_read(out, to, sizeof out);
        for (int l = 0; l < 32; l++)
            for (int j = 0; j < 8; j++) {
                int   m = (l & 1) + (j & 2) + l / 16 * 4, n = (j & 4) + (l & 2) + (j & 1);
                float sum = 2, got;
                for (int k = 0; k < 4; k++)
                    sum += a[m][k] * b[k][n];
                memcpy(&got, &out[j][l], sizeof got);
                if (got != sum)
                    fail_msg("%s: lane %d register %d is %g, not %g", orders[i], l, j, (double)got,
                             (double)sum);
            }
    }
}

/* ---- ldmatrix, stmatrix, movmatrix --------------------------------------------------------------------- */
/* Loads four matrices from shared memory and stores them elsewhere. */
static const char matrix_text[] = HEAD(
    "7.8",
    "sm_90") ".visible .entry k(.param .u64 in, .param .u64 out) {\n.shared .align 16 .b8 s[1024];\n.reg "
             ".b64 %%i, %%o, %%x, %%g; "
             ".reg .b32 %%t, %%a<4>, %%b<4>, %%p, %%q, %%r;\nld.param.u64 %%i, [in]; ld.param.u64 %%o, "
             "[out]; mov.u32 %%t, "
             "%%tid.x;\nmul.wide.u32 %%x, %%t, 16; add.u64 %%i, %%i, %%x; mul.wide.u32 %%x, %%t, 4; add.u64 "
             "%%o, %%o, %%x;\n"
             "mov.u32 %%p, s; mul.lo.u32 %%q, %%t, 16; add.u32 %%r, %%q, %%p;\n"
             "ld.global.v4.b32 {%%a0,%%a1,%%a2,%%a3}, [%%i]; st.shared.v4.b32 [%%r], {%%a0,%%a1,%%a2,%%a3};\n"
             "xor.b32 %%q, %%q, 48; add.u32 %%r, %%q, %%p; cvt.u64.u32 %%g, %%r; cvta.shared.u64 %%g, "
             "%%g;\nbar.warp.sync -1;\n"
             "mov.b32 %%b0, 0; mov.b32 %%b1, 0; mov.b32 %%b2, 0; mov.b32 %%b3, 0;\n"
             "ldmatrix.sync.aligned.m8n8.%s%s.b16 %s, [%s];\n"
             "st.global.b32 [%%o], %%b0; st.global.b32 [%%o+128], %%b1; st.global.b32 [%%o+256], %%b2; "
             "st.global.b32 [%%o+384], %%b3;\n"
             "stmatrix.sync.aligned.m8n8.%s%s.b16 [%%r+512], %s;\nbar.warp.sync -1;\n"
             "mul.lo.u32 %%q, %%t, 16; add.u32 %%r, %%q, %%p;\n%sld.shared.v4.b32 {%%a0,%%a1,%%a2,%%a3}, "
             "[%%r+512];\n"
             "mul.wide.u32 %%x, %%t, 12; add.u64 %%o, %%o, %%x; %sst.global.v4.b32 [%%o+512], "
             "{%%a0,%%a1,%%a2,%%a3};\n"
             "movmatrix.sync.aligned.m8n8.trans.b16 %%b0, %%b0; mul.wide.u32 %%x, %%t, 12; sub.u64 %%o, %%o, "
             "%%x;\n"
             "st.global.b32 [%%o+1024], %%b0;\nret;\n}\n";

static void check_matrices(int count, bool across, bool generic)
{
    static const char *const lists[] = {"{%b0}", "{%b0,%b1}", NULL, "{%b0,%b1,%b2,%b3}"};
    char                     text[4096], number[16], space[32], guard[64] = "";
    uint16_t                 in[4][8][8], out[4][32][2], stored[4][8][8], moved[32][2];
    snprintf(number, sizeof number, "x%d", count);
    snprintf(space, sizeof space, "%s%s", across ? ".trans" : "", generic ? "" : ".shared");
    if (count < 4)
        snprintf(guard, sizeof guard, "{ .reg .pred %%few; setp.lt.u32 %%few, %%t, %d; @%%few ", 8 * count);
    /* what was not stored must not be read back */
    char load[80], store[80];
    snprintf(load, sizeof load, "%s", guard);
    snprintf(store, sizeof store, "%s", count < 4 ? "@%few " : "");
    snprintf(text, sizeof text, matrix_text, number, space, lists[count - 1], generic ? "%g" : "%r", number,
             across ? ".trans.shared" : ".shared", lists[count - 1], load, store);
    if (count < 4)
        strcpy(strstr(text, "movmatrix"),
               "}\nmovmatrix.sync.aligned.m8n8.trans.b16 %b0, %b0; mul.wide.u32 %x, %t, 12; "
               "sub.u64 %o, %o, %x;\nst.global.b32 [%o+1024], %b0;\nret;\n}\n");
    for (int j = 0; j < 4 * 64; j++)
        (&in[0][0][0])[j] = (uint16_t)random_bits();
    emu_machine(90);
    const uint64_t from = emu_buffer(sizeof in), to = emu_buffer(2048), arguments[] = {from, to};
    emu_write(from, in, sizeof in);
    expect_run(emu_run(text, "k", 1, 32, 0, arguments, 2));
    emu_read(out, to, sizeof out);
    for (int j = 0; j < count; j++)
        for (int l = 0; l < 32; l++)
            for (int i = 0; i < 2; i++) { /* lane l gave the address of row l ^ 3 */
                int row = across ? 2 * (l % 4) + i : l / 4, column = across ? l / 4 : 2 * (l % 4) + i;
                assert_int_equal(out[j][l][i], in[j][row ^ 3][column]);
            }
    emu_read(stored, to + 512, (uint64_t)count * 128);
    for (int j = 0; j < count; j++)
        assert_memory_equal(stored[j], in[j], sizeof in[j]); /* back to their places */
    emu_read(moved, to + 1024, sizeof moved);
    for (int l = 0; l < 32; l++)
        for (int i = 0; i < 2; i++)
            assert_int_equal(moved[l][i],
                             in[0][(across ? l / 4 : 2 * (l % 4) + i) ^ 3][across ? 2 * (l % 4) + i : l / 4]);
}

TEST(matrices_are_loaded_and_stored)
{
    for (int count = 1; count <= 4; count *= 2)
        for (int i = 0; i < 4; i++)
            check_matrices(count, i & 1, i & 2);
}

/* ---- wmma ---------------------------------------------------------------------------------------------- */
struct wmma {
    const char *shape, *a, *b, *c, *d, *types, *suffix;
    int         m, n, k, ra, rb, rc, rd;
};
static const struct wmma wmmas[] = {
    {"m16n16k16", "f16", "f16", "f32", "f32", "f32.f32", "", 16, 16, 16, 8, 8, 8, 8},
    {"m32n8k16", "f16", "f16", "f32", "f32", "f32.f32", "", 32, 8, 16, 8, 8, 8, 8},
    {"m8n32k16", "f16", "f16", "f16", "f16", "f16.f16", "", 8, 32, 16, 8, 8, 4, 4},
    {"m16n16k16", "f16", "f16", "f16", "f32", "f32.f16", "", 16, 16, 16, 8, 8, 4, 8},
    {"m32n8k16", "f16", "f16", "f32", "f16", "f16.f32", "", 32, 8, 16, 8, 8, 8, 4},
    {"m32n8k16", "bf16", "bf16", "f32", "f32", "f32.bf16.bf16.f32", "", 32, 8, 16, 8, 2, 8, 8},
    {"m16n16k8", "tf32", "tf32", "f32", "f32", "f32.tf32.tf32.f32", "", 16, 16, 8, 4, 4, 8, 8},
    {"m8n32k16", "s8", "s8", "s32", "s32", "s32.s8.s8.s32", ".satfinite", 8, 32, 16, 1, 4, 8, 8},
    {"m16n16k16", "u8", "u8", "s32", "s32", "s32.u8.u8.s32", "", 16, 16, 16, 2, 2, 8, 8},
    {"m8n8k4", "f64", "f64", "f64", "f64", "f64.f64.f64.f64", "", 8, 8, 4, 1, 1, 2, 2},
};

static int size_of(const char *type)
{
    return strcmp(type, "f64") == 0 ? 8 : strstr(type, "32") != NULL ? 4 : strstr(type, "8") != NULL ? 1 : 2;
}

static void encode(const char *type, double x, unsigned char *to)
{
    float    narrow = (float)x;
    uint32_t bits;
    int32_t  integer = (int32_t)x;
    memcpy(&bits, &narrow, sizeof bits);
    if (strcmp(type, "f64") == 0)
        memcpy(to, &x, 8);
    else if (strcmp(type, "f32") == 0 || strcmp(type, "tf32") == 0)
        memcpy(to, &bits, 4);
    else if (strcmp(type, "s32") == 0)
        memcpy(to, &integer, 4);
    else if (strcmp(type, "bf16") == 0)
        memcpy(to, (unsigned char *)&bits + 2, 2);
    else if (strcmp(type, "f16") == 0)
        memcpy(to, &(uint16_t){(uint16_t)tensor_f16_of_double(x)}, 2);
    else
        *to = (unsigned char)integer;
}

static void add_list(char *text, size_t cap, const char *name, int count)
{
    size_t at = strlen(text);
    for (int i = 0; i < count; i++)
        at += (size_t)snprintf(text + at, cap - at, "%s%%%s%d", i ? "," : "{", name, i);
    snprintf(text + at, cap - at, "}");
}

/* Multiplies matrices of small integers in padded memory, in every order of A and B. */
static void check_wmma(const struct wmma *x, bool a_row, bool b_row, bool c_row)
{
    char   text[4096], a[256] = "", b[256] = "", c[256] = "", d[256] = "";
    int    lda = (a_row ? x->k : x->m) + 16, ldb = (b_row ? x->n : x->k) + 16, ldc = (c_row ? x->n : x->m) + 16;
    double va[32][16], vb[16][32], vc[32][32];
    static unsigned char ma[64 * 64 * 8], mb[64 * 64 * 8], mc[64 * 64 * 8], md[64 * 64 * 8],
        expected[64 * 64 * 8];
    bool wide = x->ra == 1 && x->rc == 2, is_signed = x->a[0] != 'u';
    add_list(a, sizeof a, wide ? "wa" : "a", x->ra);
    add_list(b, sizeof b, wide ? "wb" : "b", x->rb);
    add_list(c, sizeof c, wide ? "wc" : "c", x->rc);
    add_list(d, sizeof d, wide ? "wd" : "d", x->rd);
    snprintf(text, sizeof text,
             HEAD("7.1",
                  "sm_80") ".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d) "
                           "{\n.reg .b64 %%p<4>; "
                           ".reg .b32 %%a<8>, %%b<8>, %%c<8>, %%d<8>, %%s; .reg .f64 %%wa<1>, %%wb<1>, "
                           "%%wc<2>, %%wd<2>;\n"
                           "ld.param.u64 %%p0, [a]; ld.param.u64 %%p1, [b]; ld.param.u64 %%p2, [c]; "
                           "ld.param.u64 %%p3, [d];\n"
                           "mov.u32 %%s, %d; wmma.load.a.sync.aligned.%s.%s.global.%s %s, [%%p0], %%s;\n"
                           "wmma.load.b.sync.aligned.%s.%s.%s %s, [%%p1], "
                           "%d;\nwmma.load.c.sync.aligned.%s.%s.global.%s %s, [%%p2], %d;\n"
                           "wmma.mma.sync.aligned.%s.%s.%s.%s%s %s, %s, %s, %s;\n"
                           "wmma.store.d.sync.aligned.%s.%s.global.%s [%%p3], %s, %d;\nret;\n}\n",
             lda, a_row ? "row" : "col", x->shape, x->a, a, b_row ? "row" : "col", x->shape, x->b, b, ldb,
             c_row ? "row" : "col", x->shape, x->c, c, ldc, a_row ? "row" : "col", b_row ? "row" : "col",
             x->shape, x->types, x->suffix, d, a, b, c, c_row ? "row" : "col", x->shape, x->d, d, ldc);
    for (int i = 0; i < x->m; i++)
        for (int k = 0; k < x->k; k++) {
            va[i][k] = below(9) - (is_signed ? 4 : 0);
            encode(x->a, va[i][k], ma + (a_row ? i * lda + k : k * lda + i) * size_of(x->a));
        }
    for (int k = 0; k < x->k; k++)
        for (int j = 0; j < x->n; j++) {
            vb[k][j] = below(9) - (is_signed ? 4 : 0);
            encode(x->b, vb[k][j], mb + (b_row ? k * ldb + j : j * ldb + k) * size_of(x->b));
        }
    memset(expected, 0x5a, sizeof expected);
    memset(md, 0x5a, sizeof md);
    for (int i = 0; i < x->m; i++)
        for (int j = 0; j < x->n; j++) {
            vc[i][j] = below(200) - 100;
            encode(x->c, vc[i][j], mc + (c_row ? i * ldc + j : j * ldc + i) * size_of(x->c));
            for (int k = 0; k < x->k; k++)
                vc[i][j] += va[i][k] * vb[k][j];
            encode(x->d, vc[i][j], expected + (c_row ? i * ldc + j : j * ldc + i) * size_of(x->d));
        }
    emu_machine(80);
    uint64_t    address[4];
    const void *images[4] = {ma, mb, mc, md};
    for (int i = 0; i < 4; i++) {
        address[i] = emu_buffer(sizeof ma);
        emu_write(address[i], images[i], sizeof ma);
    }
    unsigned int result = emu_run(text, "k", 1, 32, 0, address, 4);
    if (result != 0 || emu_log()[0] != '\0')
        fail_msg("%s %s: result %u: %s", x->shape, x->types, result, emu_log());
    emu_read(md, address[3], sizeof md);
    if (memcmp(md, expected, sizeof md) != 0)
        fail_msg("%s %s, %d%d%d: D differs", x->shape, x->types, a_row, b_row, c_row);
}

TEST(wmma_multiplies)
{
    for (size_t i = 0; i < sizeof wmmas / sizeof wmmas[0]; i++)
        for (int order = 0; order < 8; order++)
            check_wmma(&wmmas[i], order & 1, order & 2, order & 4);
}

RUN_TESTS(print_seed, NULL)
