/* attention.c - attention as an operation of the spine, its public calls, and its figures. */
#include "attention.h"

#include <stdio.h>
#include <stdlib.h>

#include "arrivals/arrivals.h"
#include "bias/bias.h"
#include "cost.h"
#include "host/attention/append/attached.h"
#include "host/scalars.h"
#include "op.h"

/* Tiles run in the order of their number.  The heads of a section run together, the longest tiles first, so
 * that its keys and values stay in the L2 cache: 16 MB fit into caches of 24 MB or more. */
enum { SECTION_BYTES = 16 << 20 };

/* ---- tiles -------------------------------------------------------------------------------------- */
/* The kernels hold the numbers of rows and keys, up to a block beyond the last one, in 32-bit registers. */
static ptxpack_status check_lengths(const ptxpack_attention_desc *d, const attention_geometry *g, char *line)
{
    enum { ROW_LIMIT = INT32_MAX - 4096 };
    if (d->seqlen_kv > ROW_LIMIT || d->seqlen_q > ROW_LIMIT)
        return plan_refuse(line, PTXPACK_E_UNSUPPORTED, "%s exceeds %d",
                           d->seqlen_q > ROW_LIMIT ? "seqlen_q" : "seqlen_kv", (int)ROW_LIMIT);
    int64_t beyond = g->limited_right ? g->right_offset : g->limited_left ? d->seqlen_kv : 0;
    if (d->seqlen_q + beyond > ROW_LIMIT)
        return plan_refuse(line, PTXPACK_E_UNSUPPORTED,
                           "window: the last of seqlen_q %d rows reaches %lld keys further, beyond %d",
                           (int)d->seqlen_q, (long long)beyond, (int)ROW_LIMIT);
    return PTXPACK_OK;
}

ptxpack_status attention_count_tiles(const ptxpack_attention_desc *d, const attention_geometry *g,
                                     int64_t block_m, attention_tiles *out, char line[PLAN_LINE])
{
    int64_t        heads = (int64_t)d->batch * d->heads_q;
    int64_t        tiles = (d->seqlen_q + block_m - 1) / block_m;
    ptxpack_status status = check_lengths(d, g, line);
    if (status != PTXPACK_OK)
        return status;
    if (heads > INT32_MAX)
        return plan_refuse(line, PTXPACK_E_UNSUPPORTED, "batch %d times heads_q %d exceeds %d", (int)d->batch,
                           (int)d->heads_q, INT32_MAX);
    if (tiles > INT32_MAX / heads)
        return plan_refuse(line, PTXPACK_E_UNSUPPORTED,
                           "seqlen_q %d: %lld tiles of %lld rows in each of %lld heads exceed %d",
                           (int)d->seqlen_q, (long long)tiles, (long long)block_m, (long long)heads, INT32_MAX);
    int64_t kv_heads = SECTION_BYTES /
                       (d->seqlen_kv * attention_kv_span(d, d->head_dim + attention_value_dim(d)));
    int64_t section = (kv_heads > 0 ? kv_heads : 1) * (d->heads_q / d->heads_kv);
    *out = (attention_tiles){.tiles_q = (int32_t)tiles,
                             .heads_total = (int32_t)heads,
                             .tiles_total = (int32_t)(heads * tiles),
                             .section_heads = (int32_t)(section < heads ? section : heads)};
    return PTXPACK_OK;
}

int64_t attention_most_tiles(const ptxpack_attention_desc *d, int64_t block_m)
{
    int64_t all = d->heads_q, packed = all * (d->rows_q / block_m + d->batch);
    all *= d->batch * ((d->seqlen_q + block_m - 1) / block_m);
    return d->q_rows == PTXPACK_ROWS_PACKED && packed < all ? packed : all;
}

/* ---- the operation ------------------------------------------------------------------------------ */
static ptxpack_status resolve(const void *desc, void *geometry, char line[PLAN_LINE])
{
    return ptxpack_attention_resolve((const ptxpack_attention_desc *)desc, (attention_geometry *)geometry,
                                     line);
}

static bool covers(const ptxpack_variant *row, const void *desc)
{
    const ptxpack_attention_desc *d = (const ptxpack_attention_desc *)desc;
    const int64_t                 dim = ptxpack_variant_parameter(row, "HEAD_DIM", 0);
    return (attention_has_blocks(d) ? dim == d->head_dim : dim >= d->head_dim) &&
           attention_row_values(row) >= attention_value_dim(d) && plan_row_takes(row, d->dtype) &&
           attention_row_kv(row) == attention_desc_kv(d);
}

static void describe(const void *desc, char *text, size_t size)
{
    const ptxpack_attention_desc *d = (const ptxpack_attention_desc *)desc;
    const bool                    bytes = attention_has_codes(d);
    int at = snprintf(text, size, "dtype %s, head_dim %d%s%s", ptxpack_dtype_name(d->dtype), (int)d->head_dim,
                      bytes ? ", kv_dtype " : "", bytes ? ptxpack_dtype_name(d->kv_dtype) : "");
    if (attention_value_dim(d) != d->head_dim)
        snprintf(text + at, size - (size_t)at, ", head_dim_v %d", (int)attention_value_dim(d));
}

static size_t texts(const void *desc, ptxpack_named_text out[PLAN_TEXTS])
{
    size_t count = 0;
    for (int i = 0; i < HOOK_COUNT; i++) {
        const char *text = attention_hook((const ptxpack_attention_desc *)desc, i);
        if (text != NULL)
            out[count++] = (ptxpack_named_text){attention_hook_names[i], text};
    }
    return count;
}

static bool may_spill(const void *desc)
{
    return (((const ptxpack_attention_desc *)desc)->options & (PTXPACK_BIAS | PTXPACK_MASK_BITS)) != 0;
}

static ptxpack_status check(const plan_head *plan, const void *buffers, char line[PLAN_LINE])
{
    return ptxpack_attention_check_buffers(&((const ptxpack_attention_plan *)plan)->geometry, plan->workspace,
                                           (const ptxpack_attention_buffers *)buffers, line);
}

/* A kind is a mask, or how sequences with lengths of their own are stored, with a mask; then the masks again, with keys in
 * parts; then all of these again, with packed heads, or of decode.ptx with several tiles of rows. */
static const struct {
    const char  *name;
    ptxpack_mask mask;
    int32_t      left, right;
} masks[] = {
    {"full", PTXPACK_MASK_NONE, 0, 0},
    {"causal", PTXPACK_MASK_CAUSAL_TOP_LEFT, 0, 0},
    {"window", PTXPACK_MASK_WINDOW_TOP_LEFT, 1, 1},
    {"left", PTXPACK_MASK_WINDOW_TOP_LEFT, 1, -1}, /* a window without a limit on the right */
};
static const struct {
    const char  *name;
    ptxpack_rows rows;
    int32_t      page_rows;
    unsigned     mask;
} storages[] = {
    {"lengths", PTXPACK_ROWS_DENSE, 0, 0},        {"pages", PTXPACK_ROWS_PAGED, 64, 0},
    {"small pages", PTXPACK_ROWS_PAGED, 1, 0},    {"lengths causal", PTXPACK_ROWS_DENSE, 0, 1},
    {"lengths window", PTXPACK_ROWS_DENSE, 0, 2}, {"pages causal", PTXPACK_ROWS_PAGED, 64, 1},
    {"pages window", PTXPACK_ROWS_PAGED, 64, 2},
};
enum {
    MASKS = sizeof masks / sizeof masks[0],
    STORAGES = sizeof storages / sizeof storages[0],
    SPLITS = MASKS + STORAGES, /* all of these again, with keys in parts */
    KINDS = MASKS + STORAGES + SPLITS
};
_Static_assert(ATTENTION_BUILD_KINDS == 2 * KINDS &&
                   ATTENTION_ARRIVAL_BUILDS == ATTENTION_LIST_BUILDS + 2 * MASKS,
               "op.h numbers the builds");

/* The corners of rows for k and v of bytes, in the place of the first ones of others: e4m3 without a mask; int8 with lengths and
 * a causal mask, padded; e4m3 in small pages with a softcap, padded.  The same for blocks, which have one type and no padding. */
static unsigned attention_codes_build(const ptxpack_variant *row, unsigned index, bool corner)
{
    const bool     bytes = attention_row_kv(row) == ATTENTION_KV_BYTES;
    const unsigned second = bytes ? ATTENTION_PAST_BUILDS + 2 * 7 + 1 : 4 * 7;
    if (attention_row_kv(row) == ATTENTION_KV_HALVES)
        return index;
    if (corner)
        index = index == 0 ? 0 : index == 4 ? second : 4 * 6 + 3;
    return bytes || index < ATTENTION_ALIBI_BUILDS ? index : 0;
}

/* Lists, and keys that arrive, of rows that take them; they return what the build is called. */
static const char *build_lists(const ptxpack_variant *row, ptxpack_attention_desc *d)
{
    if (attention_lists_missing(row) != NULL)
        return "";
    d->block_rows = (int32_t)ptxpack_variant_parameter(row, "BLOCK_M", 0);
    d->block_keys = (int32_t)ptxpack_variant_parameter(row, "BLOCK_N", 0);
    return " lists";
}

static const char *build_arrivals(const ptxpack_variant *row, ptxpack_attention_desc *d)
{
    if (attention_arrivals_missing(row) != NULL)
        return "";
    d->mask = PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT;
    d->arrival_rows = (int32_t)ptxpack_variant_parameter(row, "BLOCK_N", 0);
    return " arrivals";
}

static void build(const ptxpack_variant *row, ptxpack_dtype dtype, unsigned index, bool corner, void *desc,
                  char *name, size_t size)
{
    const bool bytes = attention_row_kv(row) == ATTENTION_KV_BYTES;
    const bool blocks = attention_row_kv(row) == ATTENTION_KV_BLOCKS;
    index = attention_codes_build(row, index, corner);
    const bool arrivals = index >= ATTENTION_ARRIVAL_BUILDS;
    index = arrivals ? 4 + 2 * (index - ATTENTION_ARRIVAL_BUILDS) : index; /* those of a causal mask */
    const bool lists = index >= ATTENTION_LIST_BUILDS;
    const bool chunk = !lists &&
                       index >= ATTENTION_CHUNK_BUILDS; /* whatever the kind's mask, with a causal one */
    const bool later = !lists && !chunk && index >= ATTENTION_PAST_BUILDS;
    const bool past = later && !bytes, int8 = later && bytes;
    const bool alibi = !lists && !chunk && !int8 && index >= ATTENTION_ALIBI_BUILDS;
    const bool sinks = !lists && !chunk && !int8 && !alibi && index >= ATTENTION_SINKS_BUILDS;
    const bool plain = index < ATTENTION_SINKS_BUILDS; /* or with a softcap */
    index -= lists   ? ATTENTION_LIST_BUILDS
             : chunk ? ATTENTION_CHUNK_BUILDS
             : later ? ATTENTION_PAST_BUILDS
             : alibi ? ATTENTION_ALIBI_BUILDS
             : sinks ? ATTENTION_SINKS_BUILDS
                     : 0;
    unsigned all = plain ? index / 4 : index / 2, kind = all % KINDS;
    bool     split = kind >= MASKS + STORAGES, packed = all >= KINDS;
    kind -= split ? MASKS + STORAGES : 0;
    unsigned mask = kind < MASKS ? kind : storages[kind - MASKS].mask;
    bool     padded = !blocks && (index & (plain ? 2 : 1)) != 0, softcap = plain && (index & 1) != 0;
    int32_t  unit = bytes ? 16 : 16 / (int32_t)ptxpack_dtype_bytes(dtype);
    int32_t  whole = (int32_t)ptxpack_variant_parameter(row, "HEAD_DIM", 0);
    bool     few = ptxpack_variant_parameter(row, "ROWS", 0) != 0; /* attention/decode.ptx */
    /* clang-format off */
    ptxpack_attention_desc d = {
        .size = sizeof d, .dtype = dtype, .batch = 1, .seqlen_q = few ? 8 : alibi && !past ? 2048 : 1024, .seqlen_kv = 1024,
        .heads_q = packed ? 4 : 1, .heads_kv = 1, .head_dim = padded ? whole - unit : whole, .mask = masks[mask].mask,
        .window_left = masks[mask].left, .window_right = masks[mask].right, .softcap = softcap ? 1 : 0,
        .split_rows = ATTENTION_PARTS + (split ? 4 : 1) + (packed ? ATTENTION_PACK : 0),
        .options = sinks ? PTXPACK_SINKS : alibi && dtype != PTXPACK_E4M3 ? PTXPACK_ALIBI : 0,
        .kv_dtype = int8 ? PTXPACK_INT8 : bytes ? PTXPACK_E4M3 : blocks ? PTXPACK_Q8_0 : (ptxpack_dtype)0,
    };
    /* clang-format on */
    if (attention_row_values(row) != whole)
        d.head_dim_v = (int32_t)attention_row_values(row);
    if (ptxpack_variant_parameter(row, "VALUES_IN_KEYS", 0) != 0)
        d.options |= PTXPACK_VALUES_IN_KEYS;
    if (past && d.mask != PTXPACK_MASK_NONE && d.window_right >= 0) {
        d.mask = mask == 1 ? PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT : PTXPACK_MASK_WINDOW_BOTTOM_RIGHT;
        d.window_right = 0;
    }
    if (chunk) {
        enum { KEYS = 64 };
        d.mask = PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT;
        d.window_left = d.window_right = 0;
        d.chunk = KEYS;
    }
    const char *keys_in = lists ? build_lists(row, &d) : arrivals ? build_arrivals(row, &d) : "";
    if (kind >= MASKS && dtype != PTXPACK_E4M3) { /* fp8 has no lengths */
        d.options |= PTXPACK_LENGTHS_KV;
        d.kv_rows = storages[kind - MASKS].rows;
        d.page_rows = storages[kind - MASKS].page_rows;
        d.rows_kv = d.table_width = d.page_rows != 0 ? d.seqlen_kv / d.page_rows : 0;
    }
    snprintf(name, size, " %s%s%s%s%s%s%s%s",
             chunk && kind < MASKS ? masks[1].name
             : kind < MASKS        ? masks[mask].name
                                   : storages[kind - MASKS].name,
             split ? " split" : "",
             !packed ? ""
             : few   ? " row tiles"
                     : " heads packed",
             softcap ? " softcap" : "", sinks ? " sinks" : "",
             past    ? " alibi past"
             : alibi ? " alibi"
             : chunk ? " chunk"
                     : keys_in,
             padded ? " padded" : "",
             int8     ? " int8"
             : bytes  ? " e4m3"
             : blocks ? " q8_0"
                      : "");
    *(ptxpack_attention_desc *)desc = d;
}

static const plan_method *const methods[] = {&attention_mma, &attention_wgmma, &attention_decode};
_Static_assert(sizeof(attention_arguments) <= PLAN_ARGUMENT_BYTES, "plan_launch has room for the arguments");
_Static_assert(sizeof(attention_geometry) <= sizeof(plan_room), "plan_room has room for the geometry");
_Static_assert(sizeof(ptxpack_attention_desc) <= sizeof(plan_room), "plan_room has room for the descriptor");
const plan_op attention_op = {
    .name = "attention",
    .methods = methods,
    .method_count = sizeof methods / sizeof methods[0],
    .margin = ATTENTION_CLEARLY_FASTER,
    .desc_bytes = sizeof(ptxpack_attention_desc),
    .plan_bytes = sizeof(ptxpack_attention_plan),
    .geometry_at = offsetof(ptxpack_attention_plan, geometry),
    .arguments_at = offsetof(ptxpack_attention_plan, arguments),
    .resolve = resolve,
    .covers = covers,
    .describe = describe,
    .texts = texts,
    .may_spill = may_spill,
    .buffers = &attention_buffers_struct,
    .check = check,
    .builds = ATTENTION_BUILDS,
    .build = build,
};

/* ---- the public calls --------------------------------------------------------------------------- */
/* Makes the plan of a whole descriptor, and that of its append. */
static ptxpack_status make_plans(ptxpack *handle, const ptxpack_attention_desc *desc,
                                 const ptxpack_variant *row, plan_head **made)
{
    ptxpack_attention_append_desc  append;
    ptxpack_attention_append_plan *before = NULL;
    char                           line[PLAN_LINE];
    ptxpack_status                 status = PTXPACK_OK;
    *made = NULL;
    if (desc->append != NULL && (status = attached_describe(desc, &append, line)) != PTXPACK_OK)
        return ptxpack_fail(handle, status, "%s", line);
    if (desc->append != NULL)
        status = ptxpack_attention_append_plan_create(handle, &append, &before);
    if (status == PTXPACK_OK)
        status = plan_create(&attention_op, handle, desc, row, made);
    if (status == PTXPACK_OK)
        ((ptxpack_attention_plan *)*made)->append = before;
    else
        ptxpack_attention_append_plan_free(before);
    return status;
}

ptxpack_status ptxpack_attention_plan_row(ptxpack *handle, const ptxpack_attention_desc *desc,
                                          const ptxpack_variant *row, ptxpack_attention_plan **plan)
{
    ptxpack_attention_desc whole;
    attention_translated   translated;
    plan_head             *made = NULL;
    if (plan == NULL)
        return ptxpack_fail(handle, PTXPACK_E_ARG, "plan is NULL");
    ptxpack_status status = attention_take_desc(handle, desc, &whole, &translated);
    if (status == PTXPACK_OK)
        status = make_plans(handle, &whole, row, &made);
    attention_translated_free(&translated);
    *plan = (ptxpack_attention_plan *)made;
    return status;
}

ptxpack_status ptxpack_attention_plan_create(ptxpack *handle, const ptxpack_attention_desc *desc,
                                             ptxpack_attention_plan **plan)
{
    return ptxpack_attention_plan_row(handle, desc, NULL, plan);
}

void ptxpack_attention_plan_free(ptxpack_attention_plan *plan)
{
    if (plan != NULL)
        ptxpack_attention_append_plan_free(plan->append);
    free(plan);
}

size_t ptxpack_attention_workspace(const ptxpack_attention_plan *plan)
{
    return plan != NULL ? (size_t)plan->head.workspace : 0;
}

const ptxpack_kernel *ptxpack_attention_kernel(const ptxpack_attention_plan *plan)
{
    return plan != NULL ? plan->head.kernel : NULL;
}

/* Appends, and then attends; nothing is enqueued unless all is right for both. */
static ptxpack_status launch_both(const ptxpack_attention_plan *plan, const ptxpack_attention_buffers *buffers,
                                  struct CUstream_st *stream)
{
    ptxpack_attention_append_buffers append;
    char                             line[PLAN_LINE];
    bool           overlap = false, own = false; /* of the attention's buffers, of the append's */
    ptxpack_status status = plan_check_launch(&attention_buffers_struct, buffers, &overlap, line);
    if (status == PTXPACK_OK)
        status = attached_check(plan, buffers, &append, line);
    if (status == PTXPACK_OK) {
        append.launch |= buffers->launch & PTXPACK_LAUNCH_CONSTANT_KV;
        status = plan_check_launch(&append_buffers_struct, &append, &own, line);
    }
    const plan_launched launches[] = {{&plan->append->head, &append, overlap || own},
                                      {&plan->head, buffers, overlap}};
    return status == PTXPACK_OK ? plan_enqueue(launches, 2, stream)
                                : ptxpack_fail(plan->head.handle, status, "%s", line);
}

ptxpack_status ptxpack_attention_launch(const ptxpack_attention_plan    *plan,
                                        const ptxpack_attention_buffers *buffers, struct CUstream_st *stream)
{
    ptxpack_attention_buffers whole;
    char                      line[PLAN_LINE];
    if (plan == NULL)
        return plan_launch(NULL, buffers, stream);
    ptxpack_status status = plan_whole(&attention_buffers_struct, buffers, &whole, line);
    if (status == PTXPACK_OK && plan->geometry.values_in_keys && whole.v != 0 && whole.v != whole.k)
        status = plan_refuse(line, PTXPACK_E_ARG, "v is not k, but PTXPACK_VALUES_IN_KEYS takes it from k");
    if (status == PTXPACK_OK && plan->geometry.values_in_keys)
        whole.v = whole.k;
    if (status == PTXPACK_OK && plan->append != NULL)
        return launch_both(plan, &whole, stream);
    if (status == PTXPACK_OK && whole.append != NULL)
        status = plan_refuse(line, PTXPACK_E_ARG, "append is not NULL, but the plan appends nothing");
    return status == PTXPACK_OK ? plan_launch(&plan->head, &whole, stream)
                                : ptxpack_fail(plan->head.handle, status, "%s", line);
}

/* ---- slopes -------------------------------------------------------------------------------------- */
void ptxpack_attention_alibi_slopes(int32_t heads, float *slopes)
{
    const double ln2 = 0.69314718055994531; /* 2^x without exp2: the library does not need libm */
    int32_t      power = 1;                 /* the largest power of two up to `heads` */
    while (power <= heads / 2)
        power *= 2;
    for (int32_t h = 0; h < heads && slopes != NULL; h++)
        slopes[h] = (float)reference_exp(
            ln2 * (h < power ? -8.0 * (h + 1) / power : -4.0 * (2.0 * (h - power) + 1) / power));
}

/* ---- figures ------------------------------------------------------------------------------------ */
/* The sum of min(max(row + offset, 0), keys) over rows [0, rows). */
static double ramp(double rows, double keys, double offset)
{
    double first = offset > 0 ? 0 : -offset < rows ? -offset : rows; /* rows before it add nothing */
    double full = keys - offset < rows ? keys - offset : rows;       /* rows from it on add all keys */
    double end = full > first ? full : first;
    return (end - first) * (first + end - 1 + 2 * offset) / 2 + (rows - end) * keys;
}

/* The sum of position % chunk + 1 over positions [0, n). */
static double chunk_ramp(int64_t n, int64_t chunk)
{
    const double whole = (double)(n / chunk), last = (double)(n % chunk), keys = (double)chunk;
    return (whole * keys * (keys + 1) + last * (last + 1)) / 2;
}

/* The keys that rows [0, seqlen_q) may attend to, summed: those up to the right limit minus those before the
 * left limit, which never lies beyond the right one. */
static double kept_pairs(const ptxpack_attention_desc *d, const attention_geometry *g)
{
    double rows = d->seqlen_q, keys = d->seqlen_kv;
    if (g->chunk > 0)
        return chunk_ramp(d->seqlen_kv, g->chunk) -
               chunk_ramp(g->left_offset > 0 ? g->left_offset : 0, g->chunk);
    double upto = g->limited_right ? ramp(rows, keys, g->right_offset + 1.0) : rows * keys;
    upto -= (double)g->early_rows * g->early_keys;
    return upto - (g->limited_left ? ramp(rows, keys, g->left_offset) : 0);
}

static bool resolve_given(const ptxpack_attention_desc *given, ptxpack_attention_desc *whole,
                          attention_geometry *geometry)
{
    char line[PLAN_LINE];
    return attention_whole_desc(given, whole, line) == PTXPACK_OK &&
           ptxpack_attention_resolve(whole, geometry, line) == PTXPACK_OK;
}

double ptxpack_attention_flops(const ptxpack_attention_desc *desc)
{
    ptxpack_attention_desc d;
    attention_geometry     geometry;
    if (!resolve_given(desc, &d, &geometry))
        return 0;
    return 2.0 * (d.head_dim + attention_value_dim(&d)) * d.batch * d.heads_q * kept_pairs(&d, &geometry);
}

double ptxpack_attention_bytes(const ptxpack_attention_desc *desc)
{
    ptxpack_attention_desc d;
    attention_geometry     geometry;
    if (!resolve_given(desc, &d, &geometry))
        return 0;
    double        q = (double)d.seqlen_q * d.heads_q, kv = (double)d.seqlen_kv * d.heads_kv;
    double        in = (double)ptxpack_dtype_bytes(d.dtype);
    double        out = (double)ptxpack_dtype_bytes(attention_tensor_type(&d, TENSOR_O));
    double        values = attention_value_dim(&d);
    const int64_t columns = d.head_dim + (geometry.values_in_keys ? 0 : attention_value_dim(&d));
    return (double)d.batch * (in * d.head_dim * q + kv * (double)attention_kv_span(&d, columns) +
                              out * values * q + sizeof(float) * q) +
           2.0 * (double)geometry.descale_bytes + (double)geometry.q_descale_bytes + attention_bias_traffic(&d);
}
