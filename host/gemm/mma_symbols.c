/* mma_symbols.c - layouts as numbers for the PTX: digits of the thread's number, steps, swizzles. */
#include "mma_symbols.h"

enum { ELEMENT = 2, ALIGNMENT = 128 /* of shared memory, and of stages */, OFFSET = SYMBOL_OFFSET };

/* ---- steps ---------------------------------------------------------------------------------------- */
/* A step is an XOR of the address when its bits are below the alignment of shared memory and the swizzle
 * does not read them. */
static void add_xor_step(symbol_list *list, const char *name, const ptxpack_layout *offsets, int mode,
                         symbol_swizzle m)
{
    int64_t bits = symbol_step_bits(list, name, offsets, mode);
    if (bits >= ALIGNMENT || (bits & m.read) != 0)
        symbol_refuse(list, name, offsets, "the step is no XOR of the address");
    symbol_add(list, name, ELEMENT * symbol_step(list, offsets, mode, OFFSET));
}

/* ---- operands --------------------------------------------------------------------------------------- */
typedef struct operand_names {
    const char    *shift, *mask, *k_first, *loads, *lines, *step, *step_lanes, *step_k;
    function_names load_at, load_line, load_byte, at;
} operand_names;
#define OPERAND(x)                                                                                        \
    {                                                                                                     \
        x "_SWIZZLE_SHIFT", x "_SWIZZLE_MASK", x "_K_FIRST", x "_LOADS", x "_LOAD_LINES", x "_LOAD_STEP", \
            x "_STEP_LANES", x "_STEP_K", FUNCTION(x "_LOAD_AT"), FUNCTION(x "_LOAD_LINE"),               \
            FUNCTION(x "_LOAD_BYTE"), FUNCTION(x "_AT")                                                   \
    }

static void add_operand(symbol_list *list, const operand_names *names, const gemm_mma_operand *o, bool k_first)
{
    enum { LANES = 1, K = 2 };
    const ptxpack_layout *load = &o->load.offsets, *fragment = &o->fragment.offsets;
    symbol_swizzle m = symbol_add_swizzle(list, &o->tile.swizzled, 8 * ELEMENT, names->shift, names->mask);
    int            across = k_first ? LANES : K, along = k_first ? K : LANES;
    ptxpack_layout passes = ptxpack_mode(&o->load.place, across);
    int64_t        loads = ptxpack_size(&passes);
    if (ptxpack_mode_size(load, along) != 1)
        symbol_refuse(list, names->loads, load, "the threads do not copy whole lines");
    symbol_add(list, names->k_first, k_first);
    symbol_add(list, names->loads, loads);
    symbol_add(list, names->lines, loads > 1 ? passes.stride.value[0] : 0);
    symbol_add_whole_step(list, names->step, load, across, m);
    symbol_add_function(list, &names->load_at, load, OFFSET, ELEMENT);
    symbol_add_function(list, &names->load_line, &o->load.place, across - 1, 1);
    symbol_add_function(list, &names->load_byte, &o->load.place, along - 1, ELEMENT);
    symbol_add_function(list, &names->at, fragment, OFFSET, ELEMENT);
    const char *const step_names[] = {NULL, names->step_lanes, names->step_k};
    symbol_add_whole_step(list, step_names[across], fragment, across, m);
    add_xor_step(list, step_names[along], fragment, along, m);
}

/* ---- the output ------------------------------------------------------------------------------------- */
static void add_output(symbol_list *list, const gemm_mma_layout *l)
{
    enum { ROWS = 1, COLUMNS = 2 };
    static const function_names names[] = {FUNCTION("D_STORE_AT"), FUNCTION("D_STORE_COLUMN"),
                                           FUNCTION("D_COPY_AT"), FUNCTION("D_COPY_ROW"),
                                           FUNCTION("D_COPY_COLUMN")};
    symbol_swizzle              m = symbol_add_swizzle(list, &l->d.swizzled, 8 * ELEMENT, "D_SWIZZLE_SHIFT",
                                                       "D_SWIZZLE_MASK");
    ptxpack_layout              rows = ptxpack_mode(&l->d_copy.place, ROWS);
    symbol_add_function(list, &names[0], &l->d_store.offsets, OFFSET, ELEMENT);
    symbol_add_function(list, &names[1], &l->d_store.place, 1, 1);
    symbol_add_whole_step(list, "D_ROW_STEP", &l->d_store.offsets, ROWS, m);
    add_xor_step(list, "D_COLUMN_STEP", &l->d_store.offsets, COLUMNS, m);
    symbol_add_function(list, &names[2], &l->d_copy.offsets, OFFSET, ELEMENT);
    symbol_add_function(list, &names[3], &l->d_copy.place, 0, 1);
    symbol_add_function(list, &names[4], &l->d_copy.place, 1, 1);
    symbol_add(list, "D_COPIES", ptxpack_size(&rows));
    symbol_add(list, "D_COPY_ROWS", ptxpack_size(&rows) > 1 ? rows.stride.value[0] : 0);
    symbol_step_bits(list, "D_COPY_STEP", &l->d_copy.offsets, ROWS);
    symbol_add(list, "D_COPY_STEP", ELEMENT * symbol_step(list, &l->d_copy.offsets, ROWS, OFFSET));
}

void gemm_mma_symbols(const gemm_mma_layout *l, bool a_column, bool b_column, symbol_list *list)
{
    static const operand_names names[GEMM_MMA_OPERANDS] = {OPERAND("A"), OPERAND("B")};
    const int                  order[GEMM_MMA_OPERANDS] = {a_column ? GEMM_MMA_K_LAST : GEMM_MMA_K_FIRST,
                                          b_column ? GEMM_MMA_K_FIRST : GEMM_MMA_K_LAST};
    for (int i = 0; i < GEMM_MMA_OPERANDS; i++)
        add_operand(list, &names[i], &l->operand[i][order[i]], order[i] == GEMM_MMA_K_FIRST);
    add_output(list, l);
    if (l->stage_bytes % ALIGNMENT != 0 || l->smem_b % ALIGNMENT != 0)
        symbol_refuse(list, "STAGE_BYTES", &l->d.plain, "stages are not aligned");
    symbol_add(list, "SMEM_B", l->smem_b);
    symbol_add(list, "STAGE_BYTES", l->stage_bytes);
}
