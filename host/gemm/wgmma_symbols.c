/* wgmma_symbols.c - the layouts of a wgmma GEMM row as numbers for the PTX. */
#include "wgmma_symbols.h"

enum { ELEMENT = 2 /* bytes */ };

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
    symbol_add_descriptor(list, names->low, names->high, &o->read);
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
/* A warp's own boxes are the same for every warp, D_WARP bytes apart: D_AT leaves the warp out. */
static void add_output(symbol_list *list, const gemm_wgmma_layout *l)
{
    static const function_names at = FUNCTION("D_AT");
    int64_t                     apart = l->d_buffers * l->d_box_bytes;
    symbol_add_lanes(list, &at, &l->d_offsets, apart, false);
    symbol_add(list, "D_WARP", apart);
    symbol_add(list, "D_BOX_BYTES", l->d_box_bytes);
    symbol_add(list, "D_COLUMNS", l->d_columns);
    symbol_columns s = symbol_box_columns(list, &l->d_offsets, 0);
    if (s.inside != ptxpack_mode_size(&l->d_offsets, 1))
        symbol_refuse(list, "columns", &l->d_offsets, "they are not those of one box");
    symbol_add(list, "D_STEP", s.step);
    symbol_add(list, "D_STEPS", s.inside);
}

/* A lane's column, which is the same in all warps. */
static void add_accumulators(symbol_list *list, const gemm_wgmma_layout *l)
{
    static const function_names column = FUNCTION("C_COLUMN");
    enum { COLUMN = 1 /* axis */, COLUMNS = 2 /* mode */ };
    symbol_add_function(list, &column, &l->c_place, COLUMN, 1);
    symbol_add(list, "C_COLUMNS", symbol_step(list, &l->c_place, COLUMNS, COLUMN));
}

void gemm_wgmma_row_symbols(const gemm_wgmma_layout *l, symbol_list *list)
{
    static const function_names row = FUNCTION("C_ROW");
    enum { ROW = 0 /* axis */, HALVES = 1 /* mode */ };
    symbol_add_function(list, &row, &l->c_place, ROW, 1);
    symbol_add(list, "C_ROWS", symbol_step(list, &l->c_place, HALVES, ROW));
}

/* ---- all of it ---------------------------------------------------------------------------------------- */
void gemm_wgmma_symbols(const gemm_wgmma_layout *l, bool a_column, bool b_column, symbol_list *list)
{
    static const operand_names a = OPERAND("A"), b = OPERAND("B");
    symbol_add(list, "SMEM_A", l->smem_a);
    symbol_add(list, "SMEM_B", l->smem_b);
    symbol_add(list, "SMEM_D", l->smem_d);
    symbol_add(list, "SMEM_BIAS", l->smem_bias);
    symbol_add(list, "BAR_FULL", l->barrier[GEMM_FULL]);
    symbol_add(list, "BAR_EMPTY", l->barrier[GEMM_EMPTY]);
    symbol_add(list, "BOX_ROW", TILE_BOX_ROW);
    symbol_add(list, "BLOCK_K", l->block_k);
    symbol_add(list, "A_STAGE_BYTES", l->a_stage_bytes);
    symbol_add(list, "B_STAGE_BYTES", l->b_stage_bytes);
    add_operand(list, &a, &l->a[a_column]);
    add_operand(list, &b, &l->b[b_column]);
    symbol_add_swizzle(list, &l->d, 8 * ELEMENT, "SWIZZLE_SHIFT", "SWIZZLE_MASK");
    add_output(list, l);
    add_accumulators(list, l);
}
