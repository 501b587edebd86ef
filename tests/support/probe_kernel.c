/* probe_kernel.c - makes an atom a kernel of ptx/probe: everything that the text needs, as symbols.
 *
 * Probes are not rows of kernels.def: they are made here, one for each atom. */
#include <stdio.h>
#include <string.h>

#include "probe.h"

enum { ROWS = 256, FIRST_ARCH = 75, FIRST_ISA = 63 /* of sm_75, which runs what older architectures run */ };

typedef enum kind { KIND_MMA, KIND_COPY, KIND_WGMMA } kind;

/* Finds or makes the row of a kind with these needs; rows outlive the kernels that are loaded from them. */
static const ptxpack_variant *find_row(kind of, int arch, int isa, bool specific, int shared)
{
    static ptxpack_variant       rows[ROWS];
    static const ptxpack_variant kinds[] = {
        [KIND_MMA] = {.id = "probe_mma", .file = "probe/mma.ptx", .threads = PROBE_LANES},
        [KIND_COPY] = {.id = "probe_copy", .file = "probe/copy.ptx", .threads = PROBE_LANES},
        [KIND_WGMMA] = {.id = "probe_wgmma", .file = "probe/wgmma.ptx", .threads = PROBE_WARP_GROUP},
    };
    ptxpack_variant row = kinds[of];
    row.op = "probe";
    row.entry = row.id;
    row.arch = arch < FIRST_ARCH ? FIRST_ARCH : arch;
    row.isa = isa < FIRST_ISA ? FIRST_ISA : isa;
    row.blocks_per_sm = 1;
    row.shared_bytes = shared;
    row.flags = specific ? PTXPACK_VARIANT_ARCH_SPECIFIC | PTXPACK_VARIANT_WHOLE_PROGRAM : 0;
    int i = 0;
    while (i < ROWS - 1 && rows[i].id != NULL &&
           (strcmp(rows[i].id, row.id) != 0 || rows[i].arch != row.arch || rows[i].isa != row.isa ||
            rows[i].flags != row.flags || rows[i].shared_bytes != row.shared_bytes))
        i++;
    rows[i] = row;
    return &rows[i];
}

static void add(probe_kernel *k, const char *name, int64_t value)
{
    if (k->symbol_count < PROBE_SYMBOLS)
        k->symbols[k->symbol_count++] = (ptxpack_symbol){name, value};
}

/* The numbers that atom/name.ptx turns into words. */
enum { NAME_ROW = PTXPACK_VALUE_TYPE_COUNT, NAME_COL };

static void add_names(probe_kernel *k)
{
#define PROBE_NAME(name, bits, cute, ptx) "T_" ptx,
    static const char *const names[] = {PTXPACK_VALUE_TYPE_MAP(PROBE_NAME)};
#undef PROBE_NAME
    for (int type = 0; type < PTXPACK_VALUE_C64; type++) /* complex numbers have the names of their parts */
        add(k, names[type], type);
    add(k, "T_row", NAME_ROW);
    add(k, "T_col", NAME_COL);
}

static void add_atom(probe_kernel *k, const ptxpack_mma_atom *atom)
{
    add_names(k);
    add(k, "M", atom->m);
    add(k, "N", atom->n);
    add(k, "K", atom->k);
    add(k, "A_TYPE", atom->a);
    add(k, "B_TYPE", atom->b);
    add(k, "C_TYPE", atom->c);
    add(k, "SATFINITE", strstr(atom->ptx, ".satfinite") != NULL);
}

/* The architecture to compile for, and the lowest PTX ISA of that with a suffix. */
static int later(int arch, int own) { return arch > own ? arch : own; }

static int suffix_isa(int arch, int isa)
{
    int needed = arch >= 121 || arch == 103 ? 88 : arch == 110 ? 90 : arch == 120 ? 87 : arch == 100 ? 86 : 0;
    return isa > needed ? isa : needed;
}

#define PROBE_SYMBOL(name, symbol) add(out, symbol, (int64_t)offsetof(arguments, name));

void probe_mma_kernel(const ptxpack_mma_atom *atom, int arch, probe_kernel *out)
{
    typedef probe_mma_arguments arguments;
    probe_mma                   mma;
    char                        line[PROBE_LINE];
    arch = atom->arch_specific ? later(arch, atom->arch) : atom->arch;
    *out = (probe_kernel){.variant = find_row(KIND_MMA, arch,
                                              atom->arch_specific ? suffix_isa(arch, atom->isa) : atom->isa,
                                              atom->arch_specific, 0)};
    add(out, "SPECIFIC", atom->arch_specific);
    PROBE_MMA_ARGUMENTS(PROBE_SYMBOL)
    add(out, "ARG_BYTES", sizeof(arguments));
    add_atom(out, atom);
    probe_mma_of(atom, &mma, line);
    add(out, "A_WORDS", mma.operand[PROBE_A].words);
    add(out, "B_WORDS", mma.operand[PROBE_B].words);
    add(out, "C_WORDS", mma.operand[PROBE_C].words);
    const char *order = strstr(atom->ptx, ".row.") != NULL ? strstr(atom->ptx, ".row.") : atom->ptx;
    const char *col = strstr(atom->ptx, ".col.");
    bool        a_col = col != NULL && (order == atom->ptx || col < order);
    bool        b_row = order != atom->ptx && (a_col || col == NULL);
    add(out, "A_ORDER", a_col ? NAME_COL : NAME_ROW);
    add(out, "B_ORDER", b_row ? NAME_ROW : NAME_COL);
    add(out, "DP", strncmp(atom->ptx, "dp", 2) == 0);
    add(out, "F8F6F4", strstr(atom->ptx, ".kind::f8f6f4") != NULL);
    add(out, "SCALE_VECTOR", mma.factors);
    add(out, "SCALE_TYPE", atom->scale);
    add(out, "BIT_XOR", mma.op == PROBE_XOR);
    add(out, "BIT_AND", mma.op == PROBE_AND);
}

/* The instructions of atom/copy_any.ptx. */
static const struct {
    const char *prefix, *symbol;
} copies[] = {{"ldmatrix.", "LDMATRIX"},
              {"stmatrix.", "STMATRIX"},
              {"movmatrix.", "MOVMATRIX"},
              {"cp.async.c", "CP_ASYNC"}, /* .ca and .cg, not .bulk */
              {"shfl.", "SHUFFLE"}};
enum { COPIES = sizeof copies / sizeof copies[0] };

static bool is_copy(const ptxpack_copy_atom *atom, int i)
{
    return strncmp(atom->ptx, copies[i].prefix, strlen(copies[i].prefix)) == 0;
}

bool probe_copy_known(const ptxpack_copy_atom *atom)
{
    bool known = false;
    for (int i = 0; i < COPIES; i++)
        known = known || is_copy(atom, i);
    return known;
}

void probe_copy_kernel(const ptxpack_copy_atom *atom, int arch, probe_kernel *out)
{
    typedef probe_copy_arguments arguments;
    arch = atom->arch_specific ? later(arch, atom->arch) : atom->arch;
    *out = (probe_kernel){.variant = find_row(KIND_COPY, arch,
                                              atom->arch_specific ? suffix_isa(arch, atom->isa) : atom->isa,
                                              atom->arch_specific, 0)};
    add(out, "SPECIFIC", atom->arch_specific);
    PROBE_COPY_ARGUMENTS(PROBE_SYMBOL)
    add(out, "ARG_BYTES", sizeof(arguments));
    add(out, "SHARED_BYTES", PROBE_IMAGE);
    for (int i = 0; i < COPIES; i++)
        add(out, copies[i].symbol, is_copy(atom, i));
    add(out, "COUNT", atom->registers_src > atom->registers_dst ? atom->registers_src : atom->registers_dst);
    add(out, "ELEMENT_BITS", atom->packed_bits ? atom->packed_bits : strstr(atom->ptx, ".b8") != NULL ? 8 : 16);
    add(out, "TRANS", strstr(atom->ptx, ".trans") != NULL);
    add(out, "BYTES", ptxpack_mode_size(&atom->dst, 1) / 8);
    add(out, "GLOBAL", strstr(atom->ptx, ".cg.") != NULL);
    add(out, "ZFILL", strstr(atom->name, "ZFILL") != NULL);
    add(out, "XOR", strstr(atom->name, "XOR4") != NULL ? 4 : 1);
}

void probe_wgmma_kernel(const ptxpack_mma_atom *atom, ptxpack_wgmma_major a_major, ptxpack_wgmma_major b_major,
                        probe_kernel *out)
{
    typedef probe_wgmma_arguments arguments;
    size_t a = atom->a_shared ? probe_wgmma_bytes(atom, PROBE_A) : 0, b = probe_wgmma_bytes(atom, PROBE_B);
    *out = (probe_kernel){.variant = find_row(KIND_WGMMA, atom->arch, atom->isa, true, (int)(a + b))};
    PROBE_WGMMA_ARGUMENTS(PROBE_SYMBOL)
    add(out, "ARG_BYTES", sizeof(arguments));
    add_atom(out, atom);
    add(out, "A_SHARED", atom->a_shared);
    add(out, "A_MN", a_major == PTXPACK_WGMMA_MN);
    add(out, "B_MN", b_major == PTXPACK_WGMMA_MN);
    add(out, "C_WORDS", atom->registers_d);
    add(out, "STEPS", PROBE_STEPS);
    add(out, "A_BYTES", (int64_t)a);
    add(out, "B_BYTES", (int64_t)b);
}
