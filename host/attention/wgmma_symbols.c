/* wgmma_symbols.c - the layouts of a wgmma attention row as numbers for the PTX. */
#include "wgmma_symbols.h"

enum { ELEMENT = 2 /* bytes, of accesses */ };

/* ---- descriptors -------------------------------------------------------------------------------------- */
/* Steps along K of a K-major operand: `inside` of them in a box, `step` apart, then the next box. */
typedef struct box_steps {
    int64_t step, inside, box;
} box_steps;

static box_steps steps_of(symbol_list *list, const attention_wgmma_layout *l, const ptxpack_wgmma_operand *op)
{
    ptxpack_layout k = ptxpack_mode(&op->steps, 1);
    box_steps      s = {.step = op->step_k, .inside = l->box_columns / op->k};
    int64_t        count = ptxpack_size(&k);
    s.box = count > s.inside ? ptxpack_at(&k, s.inside) : 0;
    for (int64_t i = 0; i < count; i++)
        if (ptxpack_at(&k, i) != i % s.inside * s.step + i / s.inside * s.box) {
            symbol_refuse(list, "steps", &op->steps, "they are not the same in each box");
            break;
        }
    return s;
}

static void add_descriptors(symbol_list *list, const attention_wgmma_layout *l)
{
    box_steps      q = steps_of(list, l, &l->q_operand), k = steps_of(list, l, &l->k_operand);
    ptxpack_layout keys = ptxpack_mode(&l->v_operand.steps, 1);
    if (q.step != k.step || q.inside != k.inside)
        symbol_refuse(list, "steps", &l->q_operand.steps, "they are not those of K");
    if (keys.shape.items != 1 && !l->fp8)
        symbol_refuse(list, "keys", &l->v_operand.steps, "they have no common step");
    symbol_add_descriptor(list, "DESC_Q_LOW", "DESC_Q_HIGH", &l->q_operand);
    symbol_add_descriptor(list, "DESC_K_LOW", "DESC_K_HIGH", &l->k_operand);
    if (!l->fp8)
        symbol_add_descriptor(list, "DESC_V_LOW", "DESC_V_HIGH", &l->v_operand);
    symbol_add(list, "DESC_STEP", q.step);
    symbol_add(list, "DESC_STEPS", q.inside);
    symbol_add(list, "DESC_Q_BOX", q.box);
    symbol_add(list, "DESC_K_BOX", k.box);
    symbol_add(list, "DESC_Q_WARPGROUP", l->q_operand.step_mn);
    if (!l->fp8) /* fp8 has DESC_VT_* instead */
    {
        symbol_add(list, "DESC_V_STEP", l->v_operand.step_k);
        symbol_add(list, "DESC_V_GROUP", l->v_operand.step_mn);
    }
}

/* ---- threads ------------------------------------------------------------------------------------------ */
/* One warpgroup's part of (thread, ...): the first 128 threads. */
static ptxpack_layout one_warpgroup(const ptxpack_layout *l)
{
    ptxpack_tuple  first = ptxpack_int(TILE_WARPGROUP);
    ptxpack_layout some = ptxpack_make_layout_left(&first), threads = ptxpack_mode(l, 0);
    threads = ptxpack_composition(&threads, &some);
    return ptxpack_layout_replace(l, 0, &threads);
}

/* Q as operand A in registers: a warpgroup's rows, in the steps of its descriptors. */
static void add_q(symbol_list *list, const attention_wgmma_layout *l)
{
    static const function_names at = FUNCTION("Q_AT");
    const ptxpack_layout       *offsets = &l->access[WGMMA_ACCESS_Q].offsets;
    ptxpack_layout              threads = ptxpack_mode(offsets, 0), first = one_warpgroup(offsets);
    symbol_columns              s = symbol_box_columns(list, offsets, l->q_box_bytes);
    if (s.step != TILE_CHUNK * l->q_operand.step_k || s.inside != l->box_columns / l->q_operand.k)
        symbol_refuse(list, "columns", offsets, "they are not the steps of the descriptor");
    if (l->warpgroups > 1 &&
        ELEMENT * ptxpack_at(&threads, TILE_WARPGROUP) != TILE_CHUNK * l->q_operand.step_mn)
        symbol_refuse(list, "rows", offsets, "they are not the steps of the descriptor");
    symbol_add_function(list, &at, &first, SYMBOL_OFFSET, ELEMENT);
}

/* A warp's own boxes are the same for every warp, O_WARP bytes apart: O_AT leaves the warp out. */
static void add_output(symbol_list *list, const attention_wgmma_layout *l)
{
    static const function_names at = FUNCTION("O_AT");
    const ptxpack_layout       *offsets = &l->access[WGMMA_ACCESS_O].offsets;
    int64_t                     apart = l->o_buffers * l->o_box_bytes;
    symbol_columns              s = symbol_box_columns(list, offsets, 0);
    symbol_add_lanes(list, &at, offsets, apart, true);
    symbol_add(list, "O_STEP", s.step);
    symbol_add(list, "O_STEPS", s.inside);
    symbol_add(list, "O_WARP", apart);
    symbol_add(list, "O_BUFFER_BYTES", l->o_box_bytes);
}

static void add_accumulators(symbol_list *list, const attention_wgmma_layout *l)
{
    static const function_names row = FUNCTION("C_ROW"), column = FUNCTION("C_COLUMN");
    ptxpack_layout              first = one_warpgroup(&l->c_place);
    symbol_add_function(list, &row, &first, 0, 1);
    symbol_add_function(list, &column, &first, 1, 1);
    symbol_add(list, "C_ROWS", symbol_step(list, &l->c_place, 1, 0));
    symbol_add(list, "C_COLUMNS", symbol_step(list, &l->c_place, 2, 1));
}

/* ---- all of it ---------------------------------------------------------------------------------------- */
static void add_places(symbol_list *list, const attention_wgmma_layout *l)
{
#define BARRIER_SYMBOL(name, count) "BAR_" #name,
    static const char *const barriers[WGMMA_BARRIERS] = {ATTENTION_WGMMA_BARRIERS(BARRIER_SYMBOL)};
#undef BARRIER_SYMBOL
    symbol_add(list, "BOXES", l->boxes);
    symbol_add(list, "V_BOXES", l->v_boxes);
    symbol_add(list, "BOX_COLUMNS", l->box_columns);
    symbol_add(list, "K_PIECES", l->k_pieces);
    symbol_add(list, "SMEM_Q", l->smem_q);
    symbol_add(list, "SMEM_K", l->smem_k);
    symbol_add(list, "SMEM_V", l->smem_v);
    symbol_add(list, "SMEM_O", l->smem_o);
    symbol_add(list, "Q_STAGE_BYTES", l->q_stage_bytes);
    symbol_add(list, "K_STAGE_BYTES", l->k_stage_bytes);
    symbol_add(list, "V_STAGE_BYTES", l->v_stage_bytes);
    symbol_add(list, "Q_BOX_BYTES", l->q_box_bytes);
    symbol_add(list, "KV_BOX_BYTES", l->kv_box_bytes);
    symbol_add(list, "SMEM_EXCHANGE", l->smem_exchange);
    symbol_add(list, "SMEM_BARRIERS", l->smem_barriers);
    symbol_add(list, "SMEM_MESSAGE", l->smem_message);
    symbol_add(list, "SMEM_LENGTHS", l->smem_lengths);
    for (int i = 0; i < WGMMA_BARRIERS; i++)
        symbol_add(list, barriers[i], l->barrier[i]);
}

/* V before and after it is transposed. */
static void add_transposed(symbol_list *list, const attention_wgmma_layout *l)
{
    symbol_add(list, "SMEM_RAW", l->smem_raw);
    symbol_add(list, "SMEM_DESCALES", l->smem_descales);
    ptxpack_attention_fp8_symbols(&l->transposed, list);
}

void attention_wgmma_symbols(const attention_wgmma_layout *l, symbol_list *list)
{
    add_places(list, l);
    add_descriptors(list, l);
    symbol_add_swizzle(list, &l->q, (int)(8 * l->element), "SWIZZLE_SHIFT", "SWIZZLE_MASK");
    add_accumulators(list, l);
    add_q(list, l);
    add_output(list, l);
    if (l->fp8)
        add_transposed(list, l);
}
