/* inline.c - compares each atom of ptx/inline with its twin, a macro of ptx/atom: CUDA C++ through NVRTC and
 * macro PTX get the same operands on the emulated driver, and must leave the same results, bit by bit.
 *
 * The test is skipped without NVRTC; text.c compares the same pairs as text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/support/inline_fixture.h"
#include "tests/support/probe.h"

enum { SEED = 20261122, LAST_ARCH = 90 };

/* Begins a source with these headers and what all kernels share. */
static void text_open(inline_text *t, const char *const *headers)
{
    inline_begin(t);
    for (; *headers != NULL; headers++)
        fprintf(t->out, "#include <ptxpack/inline/%s.h>\n", *headers);
    inline_append(t, "tests/inline/kernels.cu");
}

/* An atom's name as part of another name: < and > become _. */
static const char *plain(const char *name)
{
    static char out[128];
    snprintf(out, sizeof out, "%s", name);
    for (char *at = out; *at != '\0'; at++)
        if (*at == '<' || *at == '>')
            *at = '_';
    return out;
}

/* ---- the two twins --------------------------------------------------------------------------------- */
typedef struct twins {
    const char             *name;
    ptxpack_kernel         *macro;
    const ptxpack_function *function;
    uint32_t                threads;
    size_t                  shared_bytes; /* of the function; the row of the macro has its own number */
} twins;

/* Runs both on the same arguments and compares the answers; `answer` is the function's. */
static void run_twins(const twins *t, size_t x, size_t y, void *arguments, uint32_t *answer, size_t bytes)
{
    const uint32_t grid[3] = {(uint32_t)x, (uint32_t)y, 1};
    uint32_t      *wanted = (uint32_t *)malloc(bytes);
    void          *parameters[] = {arguments};
    assert_non_null(wanted);
    inline_poison();
    inline_must(
        device_status(&inline_gpu, ptxpack_kernel_launch(t->macro, grid, arguments, inline_gpu.stream)));
    inline_fetch(wanted, t->name);
    inline_run(t->function, x, y, t->threads, t->shared_bytes, parameters, answer, t->name);
    for (size_t i = 0; i < bytes / 4; i++)
        if (answer[i] != wanted[i])
            fail_msg("%s: word %zu of %zu is %08x, of the macro %08x", t->name, i, bytes / 4, answer[i],
                     wanted[i]);
    free(wanted);
}

static void load_macro(twins *t, const probe_kernel *k)
{
    inline_must(device_status(&inline_gpu, ptxpack_kernel_load(inline_gpu.handle, k->variant, k->symbols,
                                                               k->symbol_count, &t->macro)));
}

/* ---- mma ------------------------------------------------------------------------------------------- */
enum { PLANES = 4 };

static bool is_wgmma(const ptxpack_mma_atom *atom) { return strncmp(atom->ptx, "wgmma.", 6) == 0; }

static bool is_mma(const ptxpack_mma_atom *atom, probe_mma *mma)
{
    char line[PROBE_LINE];
    return atom->arch <= LAST_ARCH && !is_wgmma(atom) && probe_mma_of(atom, mma, line);
}

/* Fills `count` words with small numbers of a type of at most 32 bits. */
static void fill(random_state *random, ptxpack_value_type type, uint32_t *words, size_t count)
{
    size_t bits = (size_t)ptxpack_value_bits(type);
    memset(words, 0, count * sizeof *words);
    for (size_t i = 0; i < count * 32 / bits; i++)
        words[i * bits / 32] |= (uint32_t)probe_encode(type, probe_random(random, type)) << i * bits % 32;
}

/* Fills the words of a plane [word][lane]; f64: the low words of each register, then its high words. */
static void fill_plane(random_state *random, ptxpack_value_type type, uint32_t *words, int count)
{
    if (type != PTXPACK_VALUE_F64) {
        fill(random, type, words, (size_t)count * PROBE_LANES);
        return;
    }
    for (int lane = 0; lane < PROBE_LANES; lane++)
        for (int i = 0; i < count / 2; i++)
            probe_put(words, PROBE_LANES, lane, type, i, probe_encode(type, probe_random(random, type)));
}

static const char *register_type(ptxpack_value_type type, bool accumulator)
{
    if (type == PTXPACK_VALUE_F64)
        return "double";
    if (type == PTXPACK_VALUE_F32)
        return "float";
    return accumulator && type == PTXPACK_VALUE_S32 ? "s32" : "u32";
}

static void write_mma(FILE *out, const ptxpack_mma_atom *atom, const probe_mma *mma)
{
    int words = atom->c == PTXPACK_VALUE_F64 ? 2 : 1;
    fprintf(out, "MMA(%s, %s, %d, %s, %d, %d)\n", atom->name, register_type(atom->c, true),
            mma->operand[PROBE_C].words / words, register_type(atom->a, false),
            mma->operand[PROBE_A].words / words, mma->operand[PROBE_B].words / words);
}

/* The last plane has arbitrary bits. */
static uint64_t give_planes(random_state *random, const probe_mma *mma, int operand)
{
    const probe_operand *o = &mma->operand[operand];
    static uint32_t      words[PLANES * PROBE_VALUES * PROBE_LANES];
    size_t               plane = (size_t)o->words * PROBE_LANES;
    for (int i = 0; i < PLANES - 1; i++)
        fill_plane(random, o->type, words + (size_t)i * plane, o->words);
    for (size_t i = (PLANES - 1) * plane; i < PLANES * plane; i++)
        words[i] = (uint32_t)random_below(random, UINT64_C(1) << 32);
    return inline_give(operand, words, PLANES * plane * sizeof *words);
}

static void one_mma(const ptxpack_mma_atom *atom, const probe_mma *mma, ptxpack_program *program,
                    random_state *random)
{
    static uint32_t   d[PLANES * PROBE_VALUES * PROBE_LANES];
    char              name[128];
    const probe_patch none = {.word = UINT32_MAX};
    probe_kernel      k;
    twins             t = {.name = atom->name, .threads = PROBE_LANES};
    snprintf(name, sizeof name, "k_%s", atom->name);
    probe_mma_kernel(atom, atom->arch, &k);
    load_macro(&t, &k);
    t.function = inline_function_of(program, name);
    size_t              bytes = PLANES * (size_t)mma->operand[PROBE_C].words * PROBE_LANES * sizeof *d;
    probe_mma_arguments arguments = {
        .a = give_planes(random, mma, PROBE_A),
        .b = give_planes(random, mma, PROBE_B),
        .c = give_planes(random, mma, PROBE_C),
        .patch = inline_give(3, &none, sizeof none),
        .d = inline_room(bytes),
    };
    run_twins(&t, 1, PLANES, &arguments, d, bytes);
}

static void mma_atoms_do_what_the_macros_do(void **state)
{
    static const char *const headers[] = {"mma_sync", NULL};
    random_state             random = random_start(SEED);
    ptxpack_mma_atom         atom;
    probe_mma                mma;
    inline_text              t;
    int                      count = 0;
    (void)state;
    text_open(&t, headers);
    for (size_t i = 0; ptxpack_mma_atom_at(i, &atom); i++)
        if (is_mma(&atom, &mma))
            write_mma(t.out, &atom, &mma);
    ptxpack_program *program = inline_load(&t);
    for (size_t i = 0; ptxpack_mma_atom_at(i, &atom); i++)
        if (is_mma(&atom, &mma)) {
            one_mma(&atom, &mma, program, &random);
            count++;
        }
    ptxpack_program_free(program);
    assert_int_equal(count, 2 + 8 + 3 + 63 + 8 + 3);
}

/* ---- complex numbers have no macro: the table's layouts and plain arithmetic ----------------------- */
enum { MOST = 16 * 16 };
typedef struct complex_matrix {
    double real[MOST], imag[MOST]; /* [row + rows column] */
} complex_matrix;

static bool is_complex(const ptxpack_mma_atom *atom)
{
    return atom->a == PTXPACK_VALUE_C64 && atom->arch <= LAST_ARCH;
}

static int parts_of(ptxpack_value_type type) { return type == PTXPACK_VALUE_GC64 ? 3 : 2; }

/* Writes 64-bit numbers to words [word][lane]: the low word of number i of a lane is word 2 i. */
static void put_double(uint32_t *words, int lane, int i, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    probe_put(words, PROBE_LANES, lane, PTXPACK_VALUE_F64, i, bits);
}

static double get_double(const uint32_t *words, int lane, int i)
{
    uint64_t bits = probe_get(words, PROBE_LANES, lane, PTXPACK_VALUE_F64, i);
    double   x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Writes a random matrix to registers by its layout; Gauss's sums have a third part. */
static size_t put_complex(random_state *random, const ptxpack_layout *layout, int parts, complex_matrix *m,
                          uint32_t *words)
{
    int values = (int)ptxpack_mode_size(layout, 1);
    for (int lane = 0; lane < PROBE_LANES; lane++)
        for (int v = 0; v < values; v++) {
            int    at = (int)ptxpack_at(layout, lane + PROBE_LANES * v);
            double part[3];
            for (int i = 0; i < parts; i++)
                put_double(words, lane, v * parts + i, part[i] = (double)random_below(random, 19) - 9);
            m->real[at] = parts == 3 ? part[0] - part[2] : part[0];
            m->imag[at] = parts == 3 ? part[0] + part[1] : part[1];
        }
    return (size_t)(values * parts * 2 * PROBE_LANES) * sizeof *words;
}

static void judge_complex(const ptxpack_mma_atom *atom, const complex_matrix *m, const uint32_t *d)
{
    int parts = parts_of(atom->d);
    for (int lane = 0; lane < PROBE_LANES; lane++)
        for (int v = 0; v < ptxpack_mode_size(&atom->c_layout, 1); v++) {
            int    at = (int)ptxpack_at(&atom->c_layout, lane + PROBE_LANES * v);
            int    row = at % atom->m, column = at / atom->m;
            double real = m[PROBE_C].real[at], imag = m[PROBE_C].imag[at], got[3];
            for (int k = 0; k < atom->k; k++) {
                double ar = m[PROBE_A].real[row + atom->m * k], ai = m[PROBE_A].imag[row + atom->m * k];
                double br = m[PROBE_B].real[column + atom->n * k], bi = m[PROBE_B].imag[column + atom->n * k];
                real += ar * br - ai * bi;
                imag += ar * bi + ai * br;
            }
            for (int i = 0; i < parts; i++)
                got[i] = get_double(d, lane, v * parts + i);
            double got_real = parts == 3 ? got[0] - got[2] : got[0];
            double got_imag = parts == 3 ? got[0] + got[1] : got[1];
            if (got_real != real || got_imag != imag)
                fail_msg("%s: (%d,%d) is %g + %g i, not %g + %g i", atom->name, row, column, got_real, got_imag,
                         real, imag);
        }
}

static void one_complex(const ptxpack_mma_atom *atom, ptxpack_program *program, random_state *random)
{
    static complex_matrix m[PROBE_OPERANDS];
    static uint32_t       words[PROBE_OPERANDS][PROBE_VALUES * PROBE_LANES];
    const ptxpack_layout *layouts[] = {&atom->a_layout, &atom->b_layout, &atom->c_layout};
    char                  name[128];
    uint64_t              at[PROBE_OPERANDS];
    size_t                bytes = 0;
    for (int i = 0; i < PROBE_OPERANDS; i++) {
        bytes = put_complex(random, layouts[i], i == PROBE_C ? parts_of(atom->d) : 2, &m[i], words[i]);
        at[i] = inline_give(i, words[i], bytes);
    }
    probe_mma_arguments arguments = {.a = at[PROBE_A],
                                     .b = at[PROBE_B],
                                     .c = at[PROBE_C],
                                     .d = inline_room(bytes)};
    void               *parameters[] = {&arguments};
    snprintf(name, sizeof name, "k_%s", atom->name);
    inline_run(inline_function_of(program, name), 1, 1, PROBE_LANES, 0, parameters, words[PROBE_C], atom->name);
    judge_complex(atom, m, words[PROBE_C]);
}

static void complex_atoms_multiply(void **state)
{
    static const char *const headers[] = {"mma_sync", NULL};
    random_state             random = random_start(SEED);
    ptxpack_mma_atom         atom;
    inline_text              t;
    int                      count = 0;
    (void)state;
    text_open(&t, headers);
    for (size_t i = 0; ptxpack_mma_atom_at(i, &atom); i++)
        if (is_complex(&atom))
            fprintf(t.out, "MMA(%s, %s, %d, c64, %d, %d)\n", atom.name,
                    parts_of(atom.d) == 3 ? "gauss64" : "c64", (int)ptxpack_mode_size(&atom.c_layout, 1),
                    (int)ptxpack_mode_size(&atom.a_layout, 1), (int)ptxpack_mode_size(&atom.b_layout, 1));
    ptxpack_program *program = inline_load(&t);
    for (size_t i = 0; ptxpack_mma_atom_at(i, &atom); i++)
        if (is_complex(&atom)) {
            one_complex(&atom, program, &random);
            count++;
        }
    ptxpack_program_free(program);
    assert_int_equal(count, 2 + 3);
}

/* ---- copies of a warp ------------------------------------------------------------------------------ */
static bool execute_copies(void *context, const probe_copy_batch *b)
{
    const size_t         n = b->experiments, lanes = sizeof(uint32_t) * PROBE_LANES;
    probe_copy_arguments arguments = {
        .image = inline_give(0, b->image, n * PROBE_IMAGE),
        .source = inline_give(1, b->source, n * PROBE_IMAGE),
        .where = inline_give(2, b->where, n * 2 * lanes),
        .words = inline_give(3, b->words, n * PROBE_COPY_WORDS * lanes),
        .after = inline_room(n * PROBE_AFTER),
    };
    run_twins((const twins *)context, n, 1, &arguments, (uint32_t *)(void *)b->after, n * PROBE_AFTER);
    return true;
}

/* Writes COPY(name, the call). */
static void write_copy(FILE *out, const ptxpack_copy_atom *atom)
{
    int  name = (int)strcspn(atom->name, "<"), bytes = (int)ptxpack_mode_size(&atom->dst, 1) / 8;
    int  from = atom->registers_src, to = atom->registers_dst;
    bool fills = strstr(atom->name, "ZFILL") != NULL;
    fprintf(out, "COPY(%s, ", plain(atom->name));
    if (atom->src_space == PTXPACK_SPACE_GLOBAL)
        fprintf(out, "(%.*s<%s>(shared, global%s), cp_async_commit(), cp_async_wait<0>()))\n", name, atom->name,
                bytes == 16  ? "u128"
                : bytes == 8 ? "u64"
                             : "u32",
                fills ? ", s[0]" : "");
    else if (atom->src_space == PTXPACK_SPACE_SHARED)
        fprintf(out, "%s(part<%d>(d), shared))\n", atom->name, to);
    else if (atom->dst_space == PTXPACK_SPACE_SHARED)
        fprintf(out, "%s(shared, part<%d>(s)))\n", atom->name, from);
    else
        fprintf(out, "%s(part<%d>(d), part<%d>(s)))\n", atom->name, to, from);
}

static void one_copy(const ptxpack_copy_atom *atom, ptxpack_program *program)
{
    char         name[160], line[PROBE_LINE] = "";
    probe_copy   copy;
    probe_kernel k;
    twins        t = {.name = atom->name, .threads = PROBE_LANES};
    snprintf(name, sizeof name, "k_%s", plain(atom->name));
    probe_copy_kernel(atom, atom->arch, &k);
    load_macro(&t, &k);
    t.function = inline_function_of(program, name);
    if (!probe_copy_of(atom, &copy, line) ||
        probe_copy_prove(&copy, execute_copies, &t, SEED, line) != PROBE_PROVEN)
        fail_msg("%s: %s", atom->name, line);
}

static void copies_do_what_the_macros_do(void **state)
{
    static const char *const headers[] = {"ldmatrix", "stmatrix", "cp_async", "shuffle", NULL};
    ptxpack_copy_atom        atom;
    inline_text              t;
    int                      count = 0;
    (void)state;
    text_open(&t, headers);
    for (size_t i = 0; ptxpack_copy_atom_at(i, &atom); i++)
        if (probe_copy_known(&atom) && !atom.arch_specific)
            write_copy(t.out, &atom);
    ptxpack_program *program = inline_load(&t);
    for (size_t i = 0; ptxpack_copy_atom_at(i, &atom); i++)
        if (probe_copy_known(&atom) && !atom.arch_specific) {
            one_copy(&atom, program);
            count++;
        }
    ptxpack_program_free(program);
    assert_int_equal(count, 2 + 1 + 6 + 6 + 8);
}

/* ---- wgmma ----------------------------------------------------------------------------------------- */
enum { A_BYTES = 2048, LEADING = 128, STRIDE = 256 }; /* the same as in tests/inline/kernels.cu */

/* Whether the atom is of width n and has these major orders; orders other than K and K are run at three widths
 * only, to save time: text.c compares them all. */
static bool is_case(const ptxpack_mma_atom *atom, int majors, int n)
{
    bool few = n == 8 || n == 64 || n == 256;
    return is_wgmma(atom) && atom->n == n && (majors == 0 || few) &&
           (majors / 2 == PTXPACK_WGMMA_K || atom->a_major == '*') &&
           (majors % 2 == PTXPACK_WGMMA_K || atom->b_major == '*');
}

static void name_wgmma(char *out, size_t cap, const ptxpack_mma_atom *atom, int majors)
{
    snprintf(out, cap, "%s_%d", atom->name, majors);
}

static void write_wgmma(FILE *out, const ptxpack_mma_atom *atom, int majors)
{
    char name[128], orders[16] = "";
    name_wgmma(name, sizeof name, atom, majors);
    if (atom->b_major == '*' && atom->a_shared)
        snprintf(orders, sizeof orders, "<%d, %d>", majors / 2, majors % 2);
    else if (atom->b_major == '*')
        snprintf(orders, sizeof orders, "<%d>", majors % 2);
    fprintf(out, "WGMMA_%s(%s, %s, %d, %d, (%s%s))\n", atom->a_shared ? "SS" : "RS", name,
            register_type(atom->c, true), atom->registers_d, atom->n, atom->name, orders);
}

static uint64_t descriptor_of(uint32_t address)
{
    const ptxpack_wgmma_fields fields = {.address = address, .leading = LEADING, .stride = STRIDE};
    uint64_t                   word = 0;
    assert_int_equal(ptxpack_wgmma_encode(&fields, &word), PTXPACK_OK);
    return word;
}

static uint64_t give_random(random_state *random, int slot, ptxpack_value_type type, size_t words)
{
    static uint32_t at[128 * PROBE_WARP_GROUP];
    assert_true(words <= sizeof at / sizeof *at);
    fill(random, type, at, words);
    return inline_give(slot, at, words * sizeof *at);
}

/* Changes the probe to one step, and to tiles of one instruction. */
static void shorten(probe_kernel *k, size_t a_bytes, size_t b_bytes)
{
    for (size_t i = 0; i < k->symbol_count; i++) {
        ptxpack_symbol *s = &k->symbols[i];
        if (strcmp(s->name, "STEPS") == 0)
            s->value = 1;
        else if (strcmp(s->name, "A_BYTES") == 0)
            s->value = (int64_t)a_bytes;
        else if (strcmp(s->name, "B_BYTES") == 0)
            s->value = (int64_t)b_bytes;
    }
}

static void one_wgmma(const ptxpack_mma_atom *atom, int majors, ptxpack_program *program, random_state *random)
{
    static uint32_t d[128 * PROBE_WARP_GROUP];
    char            name[128], entry[136];
    probe_kernel    k;
    size_t          a_bytes = atom->a_shared ? A_BYTES : 0, b_bytes = 32 * (size_t)atom->n;
    size_t          words = (size_t)atom->registers_d * PROBE_WARP_GROUP;
    twins           t = {.name = name, .threads = PROBE_WARP_GROUP, .shared_bytes = A_BYTES + b_bytes};
    const uint64_t  descriptors[] = {descriptor_of(0), descriptor_of((uint32_t)a_bytes)};
    name_wgmma(name, sizeof name, atom, majors);
    snprintf(entry, sizeof entry, "k_%s", name);
    probe_wgmma_kernel(atom, (ptxpack_wgmma_major)(majors / 2), (ptxpack_wgmma_major)(majors % 2), &k);
    shorten(&k, a_bytes, b_bytes);
    load_macro(&t, &k);
    t.function = inline_function_of(program, entry);
    probe_wgmma_arguments arguments = {
        .a = give_random(random, 0, atom->a, A_BYTES / 4),
        .b = give_random(random, 1, atom->b, b_bytes / 4),
        .a_words = give_random(random, 2, atom->a, PROBE_A_REGISTERS * PROBE_WARP_GROUP),
        .c = give_random(random, 3, atom->c, words),
        .descriptors = inline_give(4, descriptors, sizeof descriptors),
        .d = inline_room(words * sizeof *d),
    };
    run_twins(&t, 1, 1, &arguments, d, words * sizeof *d);
}

/* Runs all atoms of one width as one program. */
static int wgmma_of_width(int n, random_state *random)
{
    static const char *const headers[] = {"wgmma", NULL};
    ptxpack_mma_atom         atom;
    inline_text              t;
    int                      count = 0;
    text_open(&t, headers);
    for (size_t i = 0; ptxpack_mma_atom_at(i, &atom); i++)
        for (int majors = 0; majors < 4; majors++)
            if (is_case(&atom, majors, n))
                write_wgmma(t.out, &atom, majors);
    ptxpack_program *program = inline_load(&t);
    for (size_t i = 0; ptxpack_mma_atom_at(i, &atom); i++)
        for (int majors = 0; majors < 4; majors++)
            if (is_case(&atom, majors, n)) {
                one_wgmma(&atom, majors, program, random);
                count++;
            }
    ptxpack_program_free(program);
    return count;
}

static void wgmma_atoms_do_what_the_macros_do(void **state)
{
    random_state random = random_start(SEED);
    int          count = 0;
    (void)state;
    for (int n = 8; n <= 256; n += 8)
        count += wgmma_of_width(n, &random);
    assert_int_equal(count, 32 * 12 * 2 + 18 * 8 * 2 + 3 * 3 * (3 + 1));
}

/* ---- machine code as a GPU would run it ------------------------------------------------------------ */
/* Kernels of sm_120's atoms of narrow floats, which text.c compares with the macros. */
static void write_narrow(FILE *out)
{
    ptxpack_mma_atom atom;
    for (size_t i = 0; ptxpack_mma_atom_at(i, &atom); i++)
        if (atom.arch == 120 && atom.isa <= 90) {
            const char *type = register_type(atom.c, true);
            fprintf(out,
                    "extern \"C\" __global__ void k_%s(%s *d, u32 *a)\n{\n    %s x[%d] = {d[0], d[1]};\n"
                    "    %s(x, part<4>(a), part<2>(a + 4), x%s);\n    d[0] = x[0];\n    d[1] = x[1];\n}\n",
                    atom.name, type, type, atom.registers_d, atom.name,
                    atom.scale_vector ? ", a[6], a[7]" : "");
        }
}

/* Writes the kernels of all atoms whose lowest architecture this is; for wgmma only those of width 64. */
static void write_atoms(FILE *out, int arch)
{
    ptxpack_mma_atom  atom;
    ptxpack_copy_atom copy;
    probe_mma         mma;
    for (size_t i = 0; ptxpack_mma_atom_at(i, &atom); i++) {
        if (is_mma(&atom, &mma) && (atom.arch > 75 ? atom.arch : 75) == arch)
            write_mma(out, &atom, &mma);
        for (int majors = 0; majors < 4 && arch == 90; majors++)
            if (is_case(&atom, majors, 64))
                write_wgmma(out, &atom, majors);
    }
    for (size_t i = 0; ptxpack_copy_atom_at(i, &copy); i++)
        if (probe_copy_known(&copy) && (copy.arch > 75 ? copy.arch : 75) == arch)
            write_copy(out, &copy);
}

static void compile_for(const char *target, inline_text *t)
{
    const ptxpack_options options = {.size = sizeof options, .offline = true, .arch = target, .no_cache = true};
    ptxpack              *offline = NULL;
    ptxpack_program_info  info;
    char                 *log = NULL;
    assert_int_equal(fclose(t->out), 0);
    const ptxpack_source source = {.size = sizeof source,
                                   .language = PTXPACK_LANGUAGE_CUDA,
                                   .path = "inline_kernels.cu",
                                   .text = t->at,
                                   .bytes = t->bytes};
    if (ptxpack_open(&options, &offline) != PTXPACK_OK)
        fail_msg("%s: %s", target, ptxpack_detail(NULL));
    if (ptxpack_program_compile(offline, &source, &info, &log, NULL, NULL) != PTXPACK_OK)
        fail_msg("%s: %s", target, ptxpack_detail(offline));
    assert_true(info.cubin_bytes > 0);
    if (strstr(log, "(C75") != NULL) /* the compiler makes wgmma wait after each instruction */
        fail_msg("%s: %s", target, log);
    free(log);
    free(t->at);
    ptxpack_close(offline);
}

static void atoms_compile_for_their_lowest_architecture(void **state)
{
    static const char *const headers[] = {"mma_sync", "mma_narrow", "ldmatrix", "stmatrix",
                                          "cp_async", "shuffle",    "wgmma",    NULL};
    static const struct {
        int         arch;
        const char *target;
    } targets[] = {{75, "sm_75"},  {80, "sm_80"},    {89, "sm_89"},
                   {90, "sm_90a"}, {100, "sm_100a"}, {120, "sm_120a"}};
    (void)state;
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        inline_text t;
        text_open(&t, headers);
        write_atoms(t.out, targets[i].arch);
        if (targets[i].arch == 120)
            write_narrow(t.out);
        compile_for(targets[i].target, &t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mma_atoms_do_what_the_macros_do),
        cmocka_unit_test(complex_atoms_multiply),
        cmocka_unit_test(copies_do_what_the_macros_do),
        cmocka_unit_test(wgmma_atoms_do_what_the_macros_do),
        cmocka_unit_test(atoms_compile_for_their_lowest_architecture),
    };
    int status = inline_open("test_inline");
    if (status == 0)
        status = cmocka_run_group_tests(tests, NULL, NULL);
    inline_close();
    return status;
}
