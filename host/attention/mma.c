/* mma.c - the method of the rows of ptx/attention/mma.ptx. */
#include <stdio.h>
#include <string.h>

#include "arrivals/arrivals.h"
#include "bias/bias.h"
#include "cost.h"
#include "mma_layout.h"
#include "mma_symbols.h"
#include "op.h"

/* ---- symbols ------------------------------------------------------------------------------------ */
/* A problem that is limited on the left alone takes the build with both limits: its right offset never
 * binds.  With lengths in memory the limits are in memory, too. */
static void symbols(const plan_problem *problem, const void *layout, symbol_list *list)
{
    const attention_mma_layout   *l = (const attention_mma_layout *)layout;
    const ptxpack_attention_desc *desc = (const ptxpack_attention_desc *)problem->desc;
    const attention_geometry     *g = (const attention_geometry *)problem->geometry;
    symbol_add(list, "BF16", desc->dtype == PTXPACK_BF16);
    symbol_add(list, "KV_E4M3", desc->kv_dtype == PTXPACK_E4M3);
    symbol_add(list, "KV_INT8", desc->kv_dtype == PTXPACK_INT8);
    symbol_add(list, "KV_Q8_0", desc->kv_dtype == PTXPACK_Q8_0);
    symbol_add(list, "VARLEN", g->varlen);
    symbol_add(list, "PAGED", desc->kv_rows == PTXPACK_ROWS_PAGED);
    symbol_add(list, "LIMITED_LEFT", g->varlen || g->limited_left);
    symbol_add(list, "LIMITED_RIGHT", g->varlen || g->limited_right || g->limited_left);
    symbol_add(list, "CHUNK", g->chunk > 0);
    symbol_add(list, "SOFTCAP", g->softcap > 0);
    symbol_add(list, "SINKS", attention_has_sinks(g));
    symbol_add(list, "UNNORMALIZED", g->unnormalized);
    symbol_add(list, "ALIBI", attention_has_alibi(g));
    symbol_add(list, "HOOK_SCORE", g->hook_parts[HOOK_SCORE]);
    symbol_add(list, "HOOK_MASK", g->hook_parts[HOOK_MASK]);
    attention_bias_symbols(desc, g->varlen, (desc->options & PTXPACK_LEFT_PAD) == 0, list);
    symbol_add(list, "LISTS", attention_has_lists(g));
    symbol_add(list, "PADDED", desc->head_dim < l->head_dim || attention_value_dim(desc) < l->head_dim);
    symbol_add(list, "VALUES_DIFFER", attention_value_dim(desc) != desc->head_dim);
    attention_mma_symbols(l, list);
}

/* ---- the plan ----------------------------------------------------------------------------------- */
const char *attention_refuse_softcap(const plan_problem *problem, const ptxpack_variant *row,
                                     char line[PLAN_LINE])
{
    enum { TANH_ISA = 70 };
    const attention_geometry *geometry = (const attention_geometry *)problem->geometry;
    const int                 isa = problem->caps.isa;
    if (geometry->softcap == 0 || row->isa >= TANH_ISA || isa >= TANH_ISA)
        return NULL;
    snprintf(line, PLAN_LINE, "softcap needs PTX ISA 7.0, and here it is %d.%d", isa / 10, isa % 10);
    return line;
}

/* The kernel holds the byte strides of rows in 32-bit registers. */
static const char *refusal(const plan_problem *problem, const ptxpack_variant *row, char line[PLAN_LINE])
{
    const ptxpack_attention_desc *desc = (const ptxpack_attention_desc *)problem->desc;
    const attention_geometry     *geometry = (const attention_geometry *)problem->geometry;
    attention_tiles               tiles;
    if (attention_refuse_split(desc, line) != NULL || attention_refuse_reach(desc, geometry, line) != NULL ||
        attention_refuse_chunk(desc, geometry, line) != NULL ||
        attention_refuse_lists(geometry, row, line) != NULL ||
        attention_refuse_arrivals(geometry, line) != NULL)
        return line;
    for (int i = 0; i < TENSOR_COUNT; i++)
        if (geometry->tensor[i].row > INT32_MAX / 2) {
            snprintf(line, PLAN_LINE, "%s.row: stride %lld exceeds %d elements", attention_tensor_names[i],
                     (long long)geometry->tensor[i].row, INT32_MAX / 2);
            return line;
        }
    if (attention_refuse_softcap(problem, row, line) != NULL)
        return line;
    return attention_count_tiles(desc, geometry, ptxpack_variant_parameter(row, "BLOCK_M", 0), &tiles, line) ==
                   PTXPACK_OK
               ? NULL
               : line;
}

static void fill_arguments(attention_mma_arguments *a, const ptxpack_attention_desc *d,
                           const attention_geometry *g)
{
    enum { ELEMENT = sizeof(uint16_t) };
    const attention_tensor *t = g->tensor;
    *a = (attention_mma_arguments){
        .q_batch = t[TENSOR_Q].batch * ELEMENT,
        .q_row = t[TENSOR_Q].row * ELEMENT,
        .q_head = t[TENSOR_Q].head * ELEMENT,
        .k_batch = attention_kv_span(d, t[TENSOR_K].batch),
        .k_row = attention_kv_span(d, t[TENSOR_K].row),
        .k_head = attention_kv_span(d, t[TENSOR_K].head),
        .v_batch = attention_kv_span(d, t[TENSOR_V].batch),
        .v_row = attention_kv_span(d, t[TENSOR_V].row),
        .v_head = attention_kv_span(d, t[TENSOR_V].head),
        .o_batch = t[TENSOR_O].batch * ELEMENT,
        .o_row = t[TENSOR_O].row * ELEMENT,
        .o_head = t[TENSOR_O].head * ELEMENT,
        .seqlen_q = d->seqlen_q,
        .seqlen_kv = d->seqlen_kv,
        .heads_q = d->heads_q,
        .heads_per_kv = d->heads_q / d->heads_kv,
        .head_dim = d->head_dim,
        .head_dim_v = attention_value_dim(d),
        .left_offset = g->left_offset,
        .right_offset = g->limited_right ? g->right_offset : d->seqlen_kv - 1, /* never binds */
        .softcap_in = g->softcap > 0 ? g->scale / g->softcap : 0,
        .scale_log2 = attention_scale_log2(g),
        .alibi_in = attention_alibi_in(g),
        .hook_scale = attention_score_scale(g),
        .descale_batch = (int32_t)(attention_descale_batch(d) * (int64_t)sizeof(float)),
        .descale_head = (int32_t)(attention_descale_head(d) * (int64_t)sizeof(float)),
    };
}

static void fill_lengths(attention_mma_arguments *to, const ptxpack_attention_desc *d,
                         const attention_geometry *g)
{
    const attention_lengths_numbers from = attention_count_lengths(d, g);
    ATTENTION_LENGTHS(ARGUMENT_COPY, );
    to->lse_batch = attention_lse_batch(d);
}

static void fill_chunks(attention_mma_arguments *to, const attention_geometry *g)
{
    const attention_chunks_arguments from = attention_count_chunks(g);
    ATTENTION_CHUNKS(ARGUMENT_COPY, );
}

static void fill_bias(attention_mma_arguments *to, const ptxpack_attention_desc *d)
{
    const attention_bias_arguments from = attention_bias_numbers(d);
    ATTENTION_BIAS(ARGUMENT_COPY, );
}

static void fill_lists(attention_mma_arguments *to, const attention_geometry *g, int64_t block_n)
{
    const attention_list_numbers from = attention_count_lists(g, block_n);
    ATTENTION_LIST_NUMBERS(ARGUMENT_COPY, );
}

static void find_lists(attention_mma_arguments *to, const attention_geometry *g,
                       const ptxpack_attention_buffers *b)
{
    const attention_list_addresses from = attention_find_lists(g, b);
    ATTENTION_LIST_ARRAYS(ARGUMENT_COPY, );
}

/* The grid is all tiles of all heads, of sequences as long as the descriptor says. */
static ptxpack_status fill(const plan_problem *problem, const ptxpack_variant *row, const void *layout,
                           plan_head *head)
{
    ptxpack_attention_plan       *plan = (ptxpack_attention_plan *)head;
    attention_mma_arguments      *a = &plan->arguments.mma;
    const ptxpack_attention_desc *desc = (const ptxpack_attention_desc *)problem->desc;
    attention_tiles               tiles;
    char                          line[PLAN_LINE];
    int64_t                       block_m = ((const attention_mma_layout *)layout)->block_m;
    ptxpack_status                status = attention_count_tiles(desc, &plan->geometry, block_m, &tiles, line);
    (void)row;
    if (status != PTXPACK_OK)
        return ptxpack_fail(problem->handle, status, "%s", line);
    fill_arguments(a, desc, &plan->geometry);
    fill_lengths(a, desc, &plan->geometry);
    fill_chunks(a, &plan->geometry);
    fill_bias(a, desc);
    fill_lists(a, &plan->geometry, ((const attention_mma_layout *)layout)->block_n);
    a->tiles_q = tiles.tiles_q;
    a->heads_total = tiles.heads_total;
    a->section_heads = tiles.section_heads;
    head->grid[0] = (uint32_t)tiles.tiles_total;
    return PTXPACK_OK;
}

static ptxpack_status address(const plan_head *plan, const void *buffers, void *arguments, uint32_t grid[3])
{
    attention_mma_arguments         *to = (attention_mma_arguments *)arguments;
    const ptxpack_attention_buffers *b = (const ptxpack_attention_buffers *)buffers;
    const attention_geometry        *g = &((const ptxpack_attention_plan *)plan)->geometry;
    const attention_addresses        from = attention_find_addresses(g, b);
    (void)grid;
    ATTENTION_ARRAYS(ARGUMENT_COPY, );
    find_lists(to, g, b);
    to->q = b->q;
    to->k = b->k;
    to->v = b->v;
    to->o = b->o;
    to->lse = b->lse;
    to->sinks = attention_array(g, b, ARRAY_SINKS);
    to->slopes = attention_array(g, b, ARRAY_SLOPES);
    memcpy(&to->aux, b->aux, sizeof to->aux);
    to->k_descale = g->descale_bytes != 0 ? b->k_descale : 0;
    to->v_descale = g->descale_bytes != 0 ? b->v_descale : 0;
    to->bias = attention_array(g, b, ARRAY_BIAS);
    to->bits = attention_array(g, b, ARRAY_BITS);
    return PTXPACK_OK;
}

static ptxpack_status derive(const ptxpack_variant *row, void *layout)
{
    return ptxpack_attention_mma_layout(row, (attention_mma_layout *)layout);
}

/* full, causal, the same padded; window, window padded; causal softcap, window softcap padded; causal sinks, window
 * sinks, lengths sinks; full ALiBi, causal ALiBi, window ALiBi padded; chunks padded, pages chunks; lengths, pages softcap padded; lists of blocks with a window padded: the other builds lie
 * between these. */
static const uint16_t corners[] = {0,   4,   2,   6,   8,   10,  5,  11, 178, 180,
                                   184, 264, 266, 269, 441, 450, 16, 23, 533};
static size_t         corners_of(const ptxpack_variant *row)
{
    enum { WITH_LISTS = 1 /* the last one */ };
    if (attention_row_kv(row) != ATTENTION_KV_HALVES)
        return (size_t)ATTENTION_BYTES_CORNERS;
    return sizeof corners / sizeof corners[0] - (attention_lists_missing(row) != NULL ? WITH_LISTS : 0);
}

static const argument_field fields[] = ARGUMENT_FIELDS(ATTENTION_MMA_ARGUMENTS, attention_mma_arguments);
const plan_method           attention_mma = {
              .file = "attention/mma.ptx",
              .ordered = true,
              PLAN_ARGUMENTS(fields, attention_mma_arguments),
              .layout_bytes = sizeof(attention_mma_layout),
              .derive = derive,
              .refusal = refusal,
              .cost = attention_row_cost,
              .symbols = symbols,
              .fill = fill,
              .address = address,
              PLAN_CORNERS(corners),
              .corners_of = corners_of,
};
