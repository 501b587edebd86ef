/* text.c - checks that each function of ptx/inline has the same instruction as its twin, a macro of ptx/atom,
 * with the operands in the same places: d[2] of the function where the macro has %d2.
 *
 * Both are compared as text, so that the test runs anywhere: the headers after the preprocessor (inline.i,
 * which the Makefile makes) and the macros after the expander. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/support/inline_source.h"
#include "loader/inspect.h"
#include "tests/support/probe.h"
#include "tests/support/scratch.h"

enum { TEXT = 1 << 13, LAST_ARCH = 90 };

static inline_source source;
static ptxpack      *handle;

static const inline_function *function_of(const char *name)
{
    char plain[128];
    snprintf(plain, sizeof plain, "%.*s", (int)strcspn(name, "<"), name);
    const inline_function *f = inline_source_find(&source, plain);
    if (f == NULL)
        fail_msg("no function %s", plain);
    return f;
}

/* The first line of an expansion that begins with `op` and a blank, stripped. */
static void take_line(const char *text, const char *name, const char *op, char *out)
{
    char wanted[200];
    snprintf(wanted, sizeof wanted, "\n        %s ", op);
    const char *at = strstr(text, wanted);
    if (at == NULL)
        fail_msg("%s: the macro has no \"%s\"", name, op);
    snprintf(out, TEXT, "%.*s", (int)strcspn(at + 1, "\n"), at + 1);
    inline_strip(out);
}

static void probe_line(const char *name, const char *op, const probe_kernel *k, char *out)
{
    ptxpack_expansion *e = NULL;
    if (ptxpack_kernel_expand(handle, k->variant, k->symbols, k->symbol_count, &e) != PTXPACK_OK)
        fail_msg("%s: %s", name, ptxpack_detail(handle));
    take_line(ptxpack_expansion_text(e, NULL), name, op, out);
    ptxpack_expansion_free(e);
}

static void expect_same(const char *name, const char *header, const char *macro)
{
    if (strcmp(header, macro) != 0)
        fail_msg("%s:\n  inline  %s\n  macro   %s", name, header, macro);
}

/* Whether the headers have functions for such atoms: those of later architectures that are not tcgen05. */
static bool in_headers(int arch, const char *ptx)
{
    return arch <= LAST_ARCH || strncmp(ptx, "mma.sync.", 9) == 0 || strncmp(ptx, "ldmatrix.", 9) == 0 ||
           strncmp(ptx, "stmatrix.", 9) == 0;
}

static bool is_wgmma(const ptxpack_mma_atom *atom) { return strncmp(atom->ptx, "wgmma.", 6) == 0; }

/* ---- atoms whose twin is in a probe ---------------------------------------------------------------- */
/* Registers of f64 have names of their own in the probe. */
static void rename_wide(char *text)
{
    for (const char *x = "abcd"; *x != '\0'; x++)
        for (int i = 0; i < 8; i++) {
            char from[16], to[16];
            snprintf(from, sizeof from, "%c_wide%d", *x, i);
            snprintf(to, sizeof to, "%c%d", *x, i);
            inline_rename(text, from, to);
        }
}

/* The probe has the factors of A and B behind their other registers, and selects the first bytes and threads. */
static void rename_factors(const probe_mma *mma, char *header)
{
    static const char *const selectors[] = {"byte_a", "thread_a", "byte_b", "thread_b"}, *const names[] =
                                                                                             {"sfa", "sfb"};
    for (size_t i = 0; i < sizeof selectors / sizeof selectors[0]; i++)
        inline_rename(header, selectors[i], "0");
    for (int i = PROBE_A; i <= PROBE_B && mma->factors; i++) {
        char to[16];
        snprintf(to, sizeof to, "%c%d", "ab"[i], mma -> operand[i].words - 1);
        inline_rename(header, names[i], to);
    }
}

static void mma_atoms_are_the_macros(void **state)
{
    static char      macro[TEXT], header[TEXT];
    ptxpack_mma_atom atom;
    int              count = 0;
    (void)state;
    for (size_t i = 0; ptxpack_mma_atom_at(i, &atom); i++) {
        probe_mma    mma;
        probe_kernel k;
        char         line[PROBE_LINE];
        if (!in_headers(atom.arch, atom.ptx) || is_wgmma(&atom) || !probe_mma_of(&atom, &mma, line))
            continue;
        probe_mma_kernel(&atom, atom.arch, &k);
        probe_line(atom.name, atom.ptx, &k, macro);
        rename_wide(macro);
        snprintf(header, sizeof header, "%s", function_of(atom.name)->text);
        rename_factors(&mma, header);
        expect_same(atom.name, header, macro);
        count++;
    }
    /* sm_61, 70, 75, 80, 89, 90, 120; not complex numbers */
    assert_int_equal(count, 2 + 8 + 3 + 63 + 8 + 3 + 3 * 25 + 3);
}

/* ldmatrix, and the exchange of bytes: every line of the macro in the function, in the same order. */
static void one_transposing_copy(const ptxpack_copy_atom *atom, const probe_kernel *k)
{
    static char        macro[TEXT], line[TEXT];
    ptxpack_expansion *e = NULL;
    const char        *header = function_of(atom->name)->text, *end = NULL;
    int                lines = 0;
    if (ptxpack_kernel_expand(handle, k->variant, k->symbols, k->symbol_count, &e) != PTXPACK_OK)
        fail_msg("%s: %s", atom->name, ptxpack_detail(handle));
    const char *at = strstr(ptxpack_expansion_text(e, NULL), "        ldmatrix.");
    snprintf(macro, sizeof macro, "%s", at != NULL ? at : "");
    for (char *next = strtok(macro, "\n"); next != NULL; next = strtok(NULL, "\n")) {
        snprintf(line, sizeof line, "%s", next);
        inline_strip(line);
        if (strncmp(line, "ldmatrix.", 9) != 0 && strncmp(line, "prmt.", 5) != 0)
            break;
        header = strstr(header, line);
        if (header == NULL || (end != NULL && header != end))
            fail_msg("%s: the function has no \"%s\" at its place", atom->name, line);
        header = end = header + strlen(line);
        lines++;
    }
    assert_int_equal(lines, 1 + atom->registers_dst);
    assert_string_equal(header, "}");
    ptxpack_expansion_free(e);
}

static void copies_are_the_macros(void **state)
{
    static char       macro[TEXT], header[TEXT];
    ptxpack_copy_atom atom;
    int               count = 0;
    (void)state;
    for (size_t i = 0; ptxpack_copy_atom_at(i, &atom); i++) {
        probe_kernel k;
        char         bytes[16];
        if (!probe_copy_known(&atom) || strncmp(atom.ptx, "shfl.", 5) == 0)
            continue; /* the instruction is a small part of a shuffle: others.c runs shuffles */
        probe_copy_kernel(&atom, atom.arch, &k);
        if (strstr(atom.ptx, "; prmt") != NULL) {
            one_transposing_copy(&atom, &k);
            count++;
            continue;
        }
        probe_line(atom.name, atom.ptx, &k, macro);
        snprintf(header, sizeof header, "%s", function_of(atom.name)->text);
        snprintf(bytes, sizeof bytes, "%d", (int)ptxpack_mode_size(&atom.dst, 1) / 8);
        inline_rename(header, "sizeofT", bytes);
        inline_rename(header, "bytes", "s0");
        expect_same(atom.name, header, macro);
        count++;
    }
    assert_int_equal(count, 1 + 6 + 8 + 6 + 3 + 8); /* movmatrix, ldmatrix, stmatrix, cp.async */
}

static void one_wgmma(const ptxpack_mma_atom *atom, ptxpack_wgmma_major a, ptxpack_wgmma_major b)
{
    static char  macro[TEXT], wanted[2 * TEXT], header[TEXT];
    probe_kernel k;
    probe_wgmma_kernel(atom, a, b, &k);
    probe_line(atom->name, atom->ptx, &k, macro);
    inline_rename(macro, "a_desc0", "a");
    inline_rename(macro, "b_desc0", "b");
    inline_rename(macro, "accumulate", "p");
    snprintf(wanted, sizeof wanted, "{.reg.pred p;setp.ne.b32 p,accumulate,0;%s}", macro);
    snprintf(header, sizeof header, "%s", function_of(atom->name)->text);
    inline_rename(header, "a_sign", "1");
    inline_rename(header, "b_sign", "1");
    inline_rename(header, "a_major", a == PTXPACK_WGMMA_MN ? "1" : "0");
    inline_rename(header, "b_major", b == PTXPACK_WGMMA_MN ? "1" : "0");
    expect_same(atom->name, header, wanted);
}

static void wgmma_atoms_are_the_macros(void **state)
{
    ptxpack_mma_atom atom;
    int              count = 0;
    (void)state;
    for (size_t i = 0; ptxpack_mma_atom_at(i, &atom); i++)
        for (int majors = 0; majors < 4 && is_wgmma(&atom); majors++) {
            ptxpack_wgmma_major a = (ptxpack_wgmma_major)(majors / 2), b = (ptxpack_wgmma_major)(majors % 2);
            if ((a == PTXPACK_WGMMA_MN && atom.a_major != '*') ||
                (b == PTXPACK_WGMMA_MN && atom.b_major != '*'))
                continue;
            one_wgmma(&atom, a, b);
            count++;
        }
    assert_int_equal(count, 32 * (3 * (4 + 2) + 9 * 2) + 18 * 8 * 2);
}

/* ---- atoms whose text follows from the table alone ------------------------------------------------- */
/* A list of registers, such as "{x0,x1}". */
static const char *list(char x, int count)
{
    static char text[2][32];
    static int  turn;
    char       *out = text[turn ^= 1];
    int         n = 0;
    for (int i = 0; i < count; i++)
        n += snprintf(out + n, sizeof text[0] - (size_t)n, "%c%c%d", i == 0 ? '{' : ',', x, i);
    snprintf(out + n, sizeof text[0] - (size_t)n, "}");
    return out;
}

/* The operands in the manual's order. */
static void operands_of(const ptxpack_copy_atom *atom, int dims, char *out, size_t cap)
{
    const char *mask = strstr(atom->name, "MULTICAST") != NULL ? ",mask" : "";
    if (strcmp(atom->name, "SM90_BULK_COPY_G2S") == 0)
        snprintf(out, cap, "[shared],[global],bytes,[barrier];");
    else if (strcmp(atom->name, "SM90_BULK_COPY_S2G") == 0)
        snprintf(out, cap, "[global],[shared],bytes;");
    else if (strstr(atom->name, "TMA_LOAD") == NULL)
        snprintf(out, cap, "[map,%s],[shared];", list('x', dims));
    else if (strstr(atom->name, "IM2COL") != NULL)
        snprintf(out, cap, "[shared],[map,%s],[barrier],%s%s;", list('x', dims), list('y', dims - 2), mask);
    else
        snprintf(out, cap, "[shared],[map,%s],[barrier]%s,policy;", list('x', dims), mask);
}

static void bulk_copies_are_those_of_the_table(void **state)
{
    ptxpack_copy_atom atom;
    int               count = 0;
    (void)state;
    for (size_t i = 0; ptxpack_copy_atom_at(i, &atom); i++) {
        char        wanted[400], operands[200];
        const char *dims = strstr(atom.ptx, ".tensor.");
        if (strstr(atom.ptx, ".bulk") == NULL || strcmp(atom.name, "SM90_BULK_COPY_AUTO") == 0)
            continue;
        const inline_function *f = function_of(atom.name);
        if (dims != NULL && dims[8] == '<') {
            assert_string_equal(f->text, ""); /* it calls the function of the right number of dimensions */
            continue;
        }
        operands_of(&atom, dims != NULL ? dims[8] - '0' : 0, operands, sizeof operands);
        snprintf(wanted, sizeof wanted, "%s%s", atom.ptx, operands);
        expect_same(atom.name, f->text, wanted);
        count++;
    }
    assert_int_equal(count, 4 * 5 + 3 * 3 + 2);
}

/* ---- functions that are not atoms ------------------------------------------------------------------ */
typedef struct twin {
    const char *function, *file, *call;
    /* the line that is compared; NULL: the whole text, which must also be all of the function */
    const char *op;
    const char *rename; /* "from to": a word of the macro, and what the function has in its place */
} twin;

static const twin twins[] = {
    {"mbarrier_init", "mbarrier", "MBARRIER_INIT %at,%count", NULL, NULL},
    {"mbarrier_init_done", "mbarrier", "MBARRIER_INIT_DONE", NULL, NULL},
    {"mbarrier_arrive", "mbarrier", "MBARRIER_ARRIVE ,%at", NULL, NULL},
    {"mbarrier_arrive_expect", "mbarrier", "MBARRIER_ARRIVE_EXPECT %at,%bytes", NULL, NULL},
    {"mbarrier_arrive_cluster", "mbarrier", "MBARRIER_ARRIVE_CLUSTER ,%at", NULL, NULL},
    {"cluster_address", "cluster", "CLUSTER_ADDRESS %d,%shared,%rank", NULL, NULL},
    {"grid_wait", "dependent", "GRID_WAIT", NULL, NULL},
    {"grid_release", "dependent", "GRID_RELEASE", NULL, NULL},
    {"mbarrier_try_wait", "mbarrier", "MBARRIER_WAIT %at,%parity", "mbarrier.try_wait.parity.shared::cta.b64",
     "mbarrier_done p"},
    {"named_wait", "named_barrier", "NAMED_WAIT %barrier,%threads", NULL, NULL},
    {"named_arrive", "named_barrier", "NAMED_ARRIVE %barrier,%threads", NULL, NULL},
    {"tma_prefetch_map", "tma", "TMA_PREFETCH %map", NULL, NULL},
    {"SM90_TMA_LOAD_4D", "tma", "TMA_LOAD %shared,%map,%x0,%x1,%x2,%x3,%barrier,%policy", NULL, NULL},
    {"tma_store_ready", "tma", "TMA_STORE_READY", NULL, NULL},
    {"SM90_TMA_STORE_4D", "tma", "TMA_STORE ,%map,%x0,%x1,%x2,%x3,%shared", NULL, NULL},
    {"tma_store_commit", "tma", "TMA_STORE_COMMIT", NULL, NULL},
    {"tma_store_wait_read", "tma", "TMA_STORE_WAIT_READ 3", NULL, "groups 3"},
    {"wgmma_shared_ready", "wgmma", "WGMMA_SHARED_READY", NULL, NULL},
    {"wgmma_fence", "wgmma", "WGMMA_FENCE", NULL, NULL},
    {"wgmma_commit", "wgmma", "WGMMA_COMMIT", NULL, NULL},
    {"wgmma_wait", "wgmma", "WGMMA_WAIT 3", NULL, "groups 3"},
    {"ldmatrix_bytes", "ldmatrix_bytes", "LDMATRIX_BYTES_X2 %d,0,%shared,3", NULL, "offset 3"},
    {"ldmatrix_unpack_6", "ldmatrix_bytes", "LDMATRIX_BYTES_X2 %d,0,%shared,3,b8x16.b6x16_p32", NULL,
     "offset 3"},
    {"ldmatrix_unpack_4", "ldmatrix_bytes", "LDMATRIX_BYTES_X2 %d,0,%shared,3,b8x16.b4x16_p64", NULL,
     "offset 3"},
    {"SM120_16x8x32_F32E3M2E2M1F32_TN", "mma_narrow", "MMA_NARROW %d,0,%a,0,%b,0,%c,0,e3m2,e2m1", NULL, NULL},
    {"SM120_16x8x32_F32E4M3E2M3F32_TN_VS32_UE8M0", "mma_narrow",
     "MMA_MX %d,0,%a,0,%b,0,%c,0,e4m3,e2m3,%sfa,%sfb,byte_a,thread_a,byte_b,thread_b", NULL, NULL},
    {"SM120_16x8x64_F32E2M1E2M1F32_TN_VS16_UE4M3", "mma_narrow",
     "MMA_NVF4 %d,0,%a,0,%b,0,%c,0,%sfa,%sfb,byte_a,thread_a,byte_b,thread_b", NULL, NULL},
    {"cp_async_commit", "cp_async", "COPY_COMMIT", NULL, NULL},
    {"cp_async_wait", "cp_async", "COPY_WAIT 3", NULL, "groups 3"},
    {"pack_bf16x2", "pack", "PACK %d,%low,%high", NULL, NULL},
    {"pack_e4m3x2", "pack_e4m3", "PACK_E4M3 %d,%low,%high,%y,%z", "cvt.rn.satfinite.e4m3x2.f32", "e4m3_low d"},
};

static const char *read_twin(void *context, const char *path, size_t *bytes)
{
    static struct ptxpack_pack pack;
    const char                *root = (const char *)context;
    if (strcmp(path, "twin") != 0)
        return ptxpack_pack_read(&pack, path, bytes);
    *bytes = strlen(root);
    return root;
}

static void expand_twin(const twin *t, char *out)
{
    static const ptxpack_symbol symbols[] = {{"CP_ASYNC", 1}, {"ARCH", 90}, {"BF16", 1}};
    char                        text[300];
    ptxpack_expansion          *e = NULL;
    ptxpack_expand_options      options = {.size = sizeof options,
                                           .symbols = symbols,
                                           .symbol_count = sizeof symbols / sizeof symbols[0],
                                           .read = read_twin,
                                           .context = text};
    snprintf(text, sizeof text, ".include \"atom/%s.ptx\"\n// \n        %s\n", t->file, t->call);
    if (ptxpack_expand("twin", &options, &e) != PTXPACK_OK)
        fail_msg("%s: %s", t->function, e != NULL ? ptxpack_expansion_error(e) : "no memory");
    char lines[TEXT];
    snprintf(lines, sizeof lines, "\n%s", ptxpack_expansion_text(e, NULL));
    if (t->op != NULL)
        take_line(lines, t->function, t->op, out);
    else
        snprintf(out, TEXT, "%s", lines);
    inline_strip(out);
    ptxpack_expansion_free(e);
}

static void other_functions_are_the_macros(void **state)
{
    static char macro[TEXT], header[TEXT];
    (void)state;
    for (size_t i = 0; i < sizeof twins / sizeof twins[0]; i++) {
        const twin *t = &twins[i];
        char        from[32] = "", to[32] = "";
        expand_twin(t, macro);
        snprintf(header, sizeof header, "%s", function_of(t->function)->text);
        if (t->rename != NULL && sscanf(t->rename, "%31s %31s", from, to) == 2) {
            inline_rename(macro, from, to);
            inline_rename(header, from, to);
        }
        if (t->op == NULL || strstr(header, macro) == NULL)
            expect_same(t->function, header, macro);
    }
}

/* ---- all functions --------------------------------------------------------------------------------- */
static bool in_a_table(const char *name)
{
    ptxpack_mma_atom  mma;
    ptxpack_copy_atom copy;
    if (ptxpack_mma_atom_find(name, &mma) == PTXPACK_OK)
        return true;
    for (size_t i = 0; ptxpack_copy_atom_at(i, &copy); i++)
        if (strncmp(copy.name, name, strlen(name)) == 0 && strchr("<", copy.name[strlen(name)]) != NULL)
            return true;
    return false;
}

static void functions_use_their_operands_and_atoms_are_in_a_table(void **state)
{
    int atoms = 0;
    (void)state;
    for (size_t i = 0; i < source.count; i++) {
        const inline_function *f = &source.functions[i];
        if (f->used != f->operands && strncmp(f->name, "wgmma_hold", 10) != 0)
            fail_msg("%s: %d operands, %d of them in the text", f->name, f->operands, f->used);
        if (strncmp(f->name, "SM", 2) != 0)
            continue;
        atoms++;
        if (!in_a_table(f->name))
            fail_msg("%s is in no table of atoms", f->name);
    }
    assert_true(atoms > 1056 + 87 + 5);
}

/* The headers have every atom of the table up to sm_90, and those of later architectures that use registers. */
static void all_atoms_are_there(void **state)
{
    ptxpack_mma_atom  mma;
    ptxpack_copy_atom copy;
    (void)state;
    for (size_t i = 0; ptxpack_mma_atom_at(i, &mma); i++)
        if (in_headers(mma.arch, mma.ptx))
            function_of(mma.name);
    for (size_t i = 0; ptxpack_copy_atom_at(i, &copy); i++)
        if (in_headers(copy.arch, copy.ptx) && strncmp(copy.name, "Universal", 9) != 0 &&
            strcmp(copy.name, "SM90_BULK_COPY_AUTO") != 0) /* it has no instruction of its own */
            function_of(copy.name);
}

/* A reader that takes all operands as equal would prove nothing. */
static void the_reader_tells_operands_apart(void **state)
{
    const inline_function *f = function_of("SM80_16x8x8_F32TF32TF32F32_TN");
    char                   text[] = "a1 + aa1 + %a1 + a11", other[] = "d0,d01,d0";
    (void)state;
    assert_string_equal(f->text, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32{d0,d1,d2,d3},"
                                 "{a0,a1,a2,a3},{b0,b1},{c0,c1,c2,c3};");
    assert_int_equal(f->operands, 14);
    inline_strip(text);
    inline_rename(text, "a1", "x");
    assert_string_equal(text, "x+aa1+x+a11");
    inline_rename(other, "d0", "d");
    assert_string_equal(other, "d,d01,d");
}

static int open_all(void **state)
{
    ptxpack_options options = {.size = sizeof options,
                               .offline = true,
                               .arch = "sm_90a",
                               .cache_dir = scratch_folder};
    return scratch_open(state) == 0 && ptxpack_open(&options, &handle) == PTXPACK_OK ? 0 : -1;
}

static int close_all(void **state)
{
    ptxpack_close(handle);
    inline_source_free(&source);
    return scratch_close(state);
}

int main(int argc, char **argv)
{
    char        path[4096];
    const char *slash = strrchr(argv[0], '/');
    (void)argc;
    snprintf(path, sizeof path, "%.*sinline.i", slash != NULL ? (int)(slash + 1 - argv[0]) : 0, argv[0]);
    inline_source_read(&source, path);
    if (source.error[0] != '\0')
        return fprintf(stderr, "test_inline_text: %s\n", source.error), 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_reader_tells_operands_apart),
        cmocka_unit_test(mma_atoms_are_the_macros),
        cmocka_unit_test(copies_are_the_macros),
        cmocka_unit_test(wgmma_atoms_are_the_macros),
        cmocka_unit_test(bulk_copies_are_those_of_the_table),
        cmocka_unit_test(other_functions_are_the_macros),
        cmocka_unit_test(functions_use_their_operands_and_atoms_are_in_a_table),
        cmocka_unit_test(all_atoms_are_there),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
