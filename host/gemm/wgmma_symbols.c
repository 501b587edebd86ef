/* wgmma_symbols.c - the layouts of a wgmma GEMM row as numbers for the PTX. */
#include "wgmma_symbols.h"

#include "host/plan/thread_symbols.h"

enum {
    ELEMENT = 2, /* bytes */
    BOX_ROW = 128,
    OFFSET = -1, /* as axis: of offsets */
};

/* ---- operands ----------------------------------------------------------------------------------------- */
/* The names of one operand's symbols. */
typedef struct operand_names {
    const char *low, *high, *step, *tile, *parts, *part_bytes, *part, *boxes, *box_bytes, *box;
} operand_names;
#define OPERAND(x)                                                                             \
    {                                                                                          \
        "DESC_" x "_LOW", "DESC_" x "_HIGH", "DESC_" x "_STEP", "DESC_" x "_TILE", x "_PARTS", \
            x "_PART_BYTES", x "_PART", x "_BOXES", x "_BOX_BYTES", x "_BOX"                   \
    }

static void add_operand(symbol_list *list, const operand_names *names, const gemm_wgmma_operand *o)
{
    ptxpack_layout k = ptxpack_mode(&o->read.steps, 1), rows = ptxpack_mode(&o->read.steps, 0);
    for (int64_t i = 0; i < ptxpack_size(&k); i++)
        if (ptxpack_at(&k, i) != i * o->read.step_k)
            symbol_refuse(list, "steps", &o->read.steps, "those along k are not all the same");
    for (int64_t i = 0; i < ptxpack_size(&rows); i++)
        if (ptxpack_at(&rows, i) != i * o->read.step_mn)
            symbol_refuse(list, "steps", &o->read.steps, "those along the rows are not all the same");
    symbol_add(list, names->low, (int64_t)(o->read.word & 0xffffffff));
    symbol_add(list, names->high, (int64_t)(o->read.word >> 32));
    symbol_add(list, names->step, o->read.step_k);
    symbol_add(list, names->tile, o->read.step_mn);
    symbol_add(list, names->parts, o->parts);
    symbol_add(list, names->part_bytes, o->part_bytes);
    symbol_add(list, names->part, o->part_extent);
    symbol_add(list, names->boxes, o->boxes);
    symbol_add(list, names->box_bytes, o->box_bytes);
    symbol_add(list, names->box, o->box_extent);
}

/* ---- threads ------------------------------------------------------------------------------------------ */
static void add_swizzle(symbol_list *list, const gemm_wgmma_layout *l)
{
    ptxpack_layout bytes = ptxpack_recast_layout(&l->d, 8 * ELEMENT, 8);
    int64_t        field = ((int64_t)1 << bytes.swizzle.bits) - 1;
    if (bytes.shape.status != PTXPACK_OK || !bytes.composed || bytes.swizzle.shift < 0)
        symbol_refuse(list, "SWIZZLE", &l->d, "it does not mix chunks with higher bits");
    symbol_add(list, "SWIZZLE_SHIFT", bytes.swizzle.shift);
    symbol_add(list, "SWIZZLE_MASK", field << bytes.swizzle.base);
}

/* 16 columns on inside a box are an XOR, while no bit of these steps meets one of a row's address. */
static void add_columns(symbol_list *list, const gemm_wgmma_layout *l)
{
    ptxpack_layout threads = ptxpack_mode(&l->d_offsets, 0), columns = ptxpack_mode(&l->d_offsets, 1);
    int64_t        step = ELEMENT * ptxpack_at(&columns, 1), of_thread = 0, of_step = 0;
    for (int64_t i = 0; i < ptxpack_size(&threads); i++)
        of_thread |= ELEMENT * ptxpack_at(&threads, i);
    for (int64_t i = 0; i < ptxpack_size(&columns); i++) {
        of_step |= i * step;
        if (ELEMENT * ptxpack_at(&columns, i) != i * step)
            symbol_refuse(list, "columns", &l->d_offsets, "they are not all the same");
    }
    if ((of_thread & of_step) != 0 || ptxpack_size(&columns) != BOX_ROW / step)
        symbol_refuse(list, "columns", &l->d_offsets, "a step would carry into the bits of the thread");
    symbol_add(list, "D_STEP", step);
    symbol_add(list, "D_STEPS", BOX_ROW / step);
}

/* A warp's own boxes are the same for every warp, D_WARP bytes apart: D_AT leaves the warp out. */
static void add_output(symbol_list *list, const gemm_wgmma_layout *l)
{
    static const function_names at = FUNCTION("D_AT");
    const int64_t               lanes = 32, warps = 4 * l->warpgroups, apart = l->d_buffers * l->d_box_bytes;
    ptxpack_tuple               lane = ptxpack_int(lanes);
    ptxpack_layout threads = ptxpack_mode(&l->d_offsets, 0), of_lane = ptxpack_make_layout_left(&lane);
    for (int64_t i = 0; i < lanes * warps; i++)
        if (ELEMENT * ptxpack_at(&threads, i) != ELEMENT * ptxpack_at(&threads, i % lanes) + i / lanes * apart)
            symbol_refuse(list, "warps", &l->d_offsets, "they are not alike");
    of_lane = ptxpack_composition(&threads, &of_lane);
    of_lane = ptxpack_layout_flatten(&of_lane);
    of_lane = ptxpack_layout_group(&of_lane, 0, -1);
    symbol_add_function(list, &at, &of_lane, OFFSET, ELEMENT);
    symbol_add(list, "D_WARP", apart);
    symbol_add(list, "D_BOX_BYTES", l->d_box_bytes);
    symbol_add(list, "D_COLUMNS", l->d_columns);
    add_columns(list, l);
}

/* A lane's column, which is the same in all warps. */
static void add_accumulators(symbol_list *list, const gemm_wgmma_layout *l)
{
    static const function_names column = FUNCTION("C_COLUMN");
    ptxpack_layout              steps = ptxpack_mode(&l->c_place, 2);
    enum { COLUMN = 1 };
    if (steps.shape.items != 1 || steps.stride.kind[0] != COLUMN + 1)
        symbol_refuse(list, "columns", &l->c_place, "their step is not one number");
    symbol_add_function(list, &column, &l->c_place, COLUMN, 1);
    symbol_add(list, "C_COLUMNS", steps.stride.value[0]);
}

/* ---- all of it ---------------------------------------------------------------------------------------- */
size_t ptxpack_gemm_wgmma_layout_symbols(const gemm_wgmma_layout *l, gemm_build build, ptxpack_symbol *out,
                                         size_t cap)
{
    static const operand_names a = OPERAND("A"), b = OPERAND("B");
    symbol_list                list = {.out = out, .cap = cap};
    symbol_add(&list, "SMEM_A", l->smem_a);
    symbol_add(&list, "SMEM_B", l->smem_b);
    symbol_add(&list, "SMEM_D", l->smem_d);
    symbol_add(&list, "SMEM_BIAS", l->smem_bias);
    symbol_add(&list, "BAR_FULL", l->barrier[GEMM_FULL]);
    symbol_add(&list, "BAR_EMPTY", l->barrier[GEMM_EMPTY]);
    symbol_add(&list, "BOX_ROW", BOX_ROW);
    symbol_add(&list, "BLOCK_K", l->block_k);
    symbol_add(&list, "A_STAGE_BYTES", l->a_stage_bytes);
    symbol_add(&list, "B_STAGE_BYTES", l->b_stage_bytes);
    add_operand(&list, &a, &l->a[build.a_column]);
    add_operand(&list, &b, &l->b[build.b_column]);
    add_swizzle(&list, l);
    add_output(&list, l);
    add_accumulators(&list, l);
    return list.failed ? 0 : list.count;
}
