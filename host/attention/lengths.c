/* lengths.c - sequences with lengths of their own: descriptors and buffers of all ages, and the checks of what the
 * fields about lengths, packed rows and pages say. */
#include "host/plan/quotient.h"
#include "op.h"

#define refuse(line, ...) plan_refuse(line, PTXPACK_E_ARG, __VA_ARGS__)

const char *const attention_array_names[ARRAY_COUNT] = {"starts_q",   "starts_kv",  "lengths_q",  "lengths_kv",
                                                        "row_map",    "left_pad",   "page_table", "sinks",
                                                        "slopes",     "bias",       "mask_bits",  "block_count",
                                                        "full_count", "block_list", "full_list",  "arrivals",
                                                        "k_own",      "v_own"};

/* ---- structs of all ages ------------------------------------------------------------------------------ */
/* What callers stated before the fields about lengths, before appends, before those about the launch, before
 * sinks, before chunks, before hooks, before biases, before lists of blocks, and before keys that arrive. */
static const plan_struct desc_struct = {
    .name = "desc",
    .type = "ptxpack_attention_desc",
    .size = sizeof(ptxpack_attention_desc),
    .older = {offsetof(ptxpack_attention_desc, q_rows), offsetof(ptxpack_attention_desc, append),
              offsetof(ptxpack_attention_desc, chunk), offsetof(ptxpack_attention_desc, head_dim_v),
              offsetof(ptxpack_attention_desc, arrival_rows)},
};
const plan_struct attention_buffers_struct = {
    .name = "buffers",
    .type = "ptxpack_attention_buffers",
    .size = sizeof(ptxpack_attention_buffers),
    .older = {offsetof(ptxpack_attention_buffers, starts_q), offsetof(ptxpack_attention_buffers, append),
              offsetof(ptxpack_attention_buffers, launch), offsetof(ptxpack_attention_buffers, sinks),
              offsetof(ptxpack_attention_buffers, aux), offsetof(ptxpack_attention_buffers, bias),
              offsetof(ptxpack_attention_buffers, block_count), offsetof(ptxpack_attention_buffers, arrivals)},
    .launch_at = offsetof(ptxpack_attention_buffers, launch),
    .launch_bits = PTXPACK_LAUNCH_OVERLAP | PTXPACK_LAUNCH_CONSTANT_KV,
};
_Static_assert(sizeof(ptxpack_attention_buffers) <= sizeof(plan_room), "plan_room has room for the buffers");

ptxpack_status attention_whole_desc(const ptxpack_attention_desc *given, ptxpack_attention_desc *whole,
                                    char line[PLAN_LINE])
{
    return plan_whole(&desc_struct, given, whole, line);
}

/* ---- the fields --------------------------------------------------------------------------------------- */
static bool is_varlen(const ptxpack_attention_desc *d)
{
    const uint32_t no_lengths = PTXPACK_SINKS | PTXPACK_ALIBI | PTXPACK_BIAS | PTXPACK_MASK_BITS |
                                PTXPACK_VALUES_IN_KEYS | PTXPACK_DESCALES_TENSOR | PTXPACK_DESCALES_HEAD |
                                PTXPACK_UNNORMALIZED;
    return d->q_rows != PTXPACK_ROWS_DENSE || d->kv_rows != PTXPACK_ROWS_DENSE ||
           (d->options & ~no_lengths) != 0;
}

/* A number that only some kinds of rows have. */
static ptxpack_status check_count(const char *name, int32_t value, bool wanted, const char *when, char *line)
{
    if (wanted && value < 1)
        return refuse(line, "%s is %d; with %s it must be at least 1", name, (int)value, when);
    if (!wanted && value != 0)
        return refuse(line, "%s is %d; without %s it must be 0", name, (int)value, when);
    return PTXPACK_OK;
}

enum { SPLIT_ROWS = 256 }; /* at least the key blocks of all warps of a row of decode.ptx, together */

static ptxpack_status check_kinds(const ptxpack_attention_desc *d, char *line)
{
    const uint32_t known = PTXPACK_LENGTHS_Q | PTXPACK_LENGTHS_KV | PTXPACK_ROW_MAP | PTXPACK_LEFT_PAD |
                           PTXPACK_SINKS | PTXPACK_ALIBI | PTXPACK_BIAS | PTXPACK_MASK_BITS |
                           PTXPACK_VALUES_IN_KEYS | PTXPACK_DESCALES_TENSOR | PTXPACK_DESCALES_HEAD |
                           PTXPACK_UNNORMALIZED;
    if (d->q_rows != PTXPACK_ROWS_DENSE && d->q_rows != PTXPACK_ROWS_PACKED)
        return refuse(line, "q_rows is %d, not PTXPACK_ROWS_DENSE or PTXPACK_ROWS_PACKED", (int)d->q_rows);
    if ((unsigned)d->kv_rows > PTXPACK_ROWS_PAGED)
        return refuse(line, "kv_rows %d is not a ptxpack_rows", (int)d->kv_rows);
    if (d->split_rows < 0 || attention_split_rows(d) % SPLIT_ROWS != 0)
        return refuse(line, "split_rows %d is not 0 or a multiple of %d", (int)d->split_rows, (int)SPLIT_ROWS);
    if ((d->options & ~known) != 0)
        return refuse(line, "options has the unknown bits 0x%x", (unsigned)(d->options & ~known));
    if ((d->options & PTXPACK_ROW_MAP) != 0 && d->kv_rows != PTXPACK_ROWS_DENSE)
        return refuse(line, "PTXPACK_ROW_MAP needs dense k and v");
    if ((d->options & PTXPACK_LEFT_PAD) != 0 && d->kv_rows == PTXPACK_ROWS_PACKED)
        return refuse(line, "PTXPACK_LEFT_PAD needs dense or paged k and v; packed ones begin at starts_kv");
    return PTXPACK_OK;
}

static ptxpack_status check_pages(const ptxpack_attention_desc *d, char *line)
{
    enum { MOST_ROWS = 1024 };
    if (d->kv_rows != PTXPACK_ROWS_PAGED)
        return PTXPACK_OK;
    if ((d->page_rows & (d->page_rows - 1)) != 0 || d->page_rows > MOST_ROWS)
        return refuse(line, "page_rows %d is not a power of two up to %d", (int)d->page_rows, (int)MOST_ROWS);
    if ((int64_t)d->table_width * d->page_rows < d->seqlen_kv)
        return refuse(line, "table_width %d times page_rows %d is less than seqlen_kv %d", (int)d->table_width,
                      (int)d->page_rows, (int)d->seqlen_kv);
    if ((uint64_t)d->batch * (uint64_t)d->table_width > UINT32_MAX) /* kernels number the entries in 32 bits */
        return refuse(line, "batch %d times table_width %d exceeds the 4294967295 entries of a page table",
                      (int)d->batch, (int)d->table_width);
    return PTXPACK_OK;
}

ptxpack_status attention_check_lengths(const ptxpack_attention_desc *d, char line[PLAN_LINE])
{
    bool           packed = d->kv_rows == PTXPACK_ROWS_PACKED, paged = d->kv_rows == PTXPACK_ROWS_PAGED;
    bool           mapped = (d->options & PTXPACK_ROW_MAP) != 0;
    ptxpack_status status = check_kinds(d, line);
    if (status == PTXPACK_OK)
        status = check_count("rows_q", d->rows_q, d->q_rows == PTXPACK_ROWS_PACKED, "packed q", line);
    if (status == PTXPACK_OK)
        status = check_count("rows_kv", d->rows_kv, packed || paged || mapped,
                             "packed or paged rows, or a row map,", line);
    if (status == PTXPACK_OK)
        status = check_count("page_rows", d->page_rows, paged, "paged rows", line);
    if (status == PTXPACK_OK)
        status = check_count("table_width", d->table_width, paged, "paged rows", line);
    return status == PTXPACK_OK ? check_pages(d, line) : status;
}

/* ---- what they mean ----------------------------------------------------------------------------------- */
void attention_extents(const ptxpack_attention_desc *d, int tensor, int64_t *batches, int64_t *rows)
{
    bool         keys = tensor == TENSOR_K || tensor == TENSOR_V;
    ptxpack_rows kind = keys ? d->kv_rows : d->q_rows;
    int32_t      count = keys ? d->rows_kv : d->rows_q;
    *batches = kind == PTXPACK_ROWS_PACKED ? 1 : count != 0 ? count : d->batch;
    *rows = kind == PTXPACK_ROWS_PACKED  ? count
            : kind == PTXPACK_ROWS_PAGED ? d->page_rows
            : keys                       ? d->seqlen_kv
                                         : d->seqlen_q;
}

void attention_resolve_lengths(const ptxpack_attention_desc *d, attention_geometry *out)
{
    const uint64_t bytes = sizeof(int32_t), each = bytes * (uint64_t)d->batch, starts = each + bytes;
    const uint64_t heads = sizeof(float) * (uint64_t)d->heads_q;
    bool           window = d->mask >= PTXPACK_MASK_WINDOW_TOP_LEFT, limited = d->mask != PTXPACK_MASK_NONE;
    int32_t        left = d->window_left, right = d->window_right, most = ATTENTION_NO_LIMIT;
    out->varlen = is_varlen(d);
    out->bottom_right = d->mask == PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT ||
                        d->mask == PTXPACK_MASK_WINDOW_BOTTOM_RIGHT;
    out->reach_left = out->chunk > 0 ? 0 : window && left >= 0 && left < most ? left : most;
    out->reach_right = limited && right >= 0 && right < most ? right : most;
    out->array_bytes[ARRAY_STARTS_Q] = d->q_rows == PTXPACK_ROWS_PACKED ? starts : 0;
    out->array_bytes[ARRAY_STARTS_KV] = d->kv_rows == PTXPACK_ROWS_PACKED ? starts : 0;
    out->array_bytes[ARRAY_LENGTHS_Q] = (d->options & PTXPACK_LENGTHS_Q) != 0 ? each : 0;
    out->array_bytes[ARRAY_LENGTHS_KV] = (d->options & PTXPACK_LENGTHS_KV) != 0 ? each : 0;
    out->array_bytes[ARRAY_ROW_MAP] = (d->options & PTXPACK_ROW_MAP) != 0 ? each : 0;
    out->array_bytes[ARRAY_LEFT_PAD] = (d->options & PTXPACK_LEFT_PAD) != 0 ? each : 0;
    out->array_bytes[ARRAY_PAGE_TABLE] = d->kv_rows == PTXPACK_ROWS_PAGED ? each * (uint64_t)d->table_width : 0;
    out->array_bytes[ARRAY_SINKS] = (d->options & PTXPACK_SINKS) != 0 ? heads : 0;
    out->array_bytes[ARRAY_SLOPES] = (d->options & PTXPACK_ALIBI) != 0 ? heads : 0;
    if (d->q_rows == PTXPACK_ROWS_PACKED)
        out->lse_bytes = (uint64_t)d->heads_q * (uint64_t)d->rows_q * sizeof(float);
}

uint64_t attention_array(const attention_geometry *geometry, const ptxpack_attention_buffers *b, int id)
{
    const uint64_t all[ARRAY_COUNT] = {b->starts_q,  b->starts_kv,   b->lengths_q,  b->lengths_kv, b->row_map,
                                       b->left_pad,  b->page_table,  b->sinks,      b->slopes,     b->bias,
                                       b->mask_bits, b->block_count, b->full_count, b->block_list, b->full_list,
                                       b->arrivals,  b->k_own,       b->v_own};
    return geometry->array_bytes[id] != 0 ? all[id] : 0;
}

/* ---- for the kernels ---------------------------------------------------------------------------------- */
attention_lengths_numbers attention_count_lengths(const ptxpack_attention_desc *d, const attention_geometry *g)
{
    if (!g->varlen)
        return (attention_lengths_numbers){0};
    return (attention_lengths_numbers){
        .reach_left = g->reach_left,
        .reach_right = g->reach_right,
        .bottom_right = g->bottom_right,
        .lse_head = d->q_rows == PTXPACK_ROWS_PACKED ? d->rows_q : d->seqlen_q,
        .table_width = d->table_width,
        .page_rows = d->page_rows,
        .page_shift = d->page_rows > 0 ? __builtin_ctz((unsigned)d->page_rows) : 0,
    };
}

int64_t attention_lse_batch(const ptxpack_attention_desc *d)
{
    return d->q_rows == PTXPACK_ROWS_PACKED ? 0 : (int64_t)d->heads_q * d->seqlen_q;
}

attention_addresses attention_find_addresses(const attention_geometry *g, const ptxpack_attention_buffers *b)
{
    return (attention_addresses){
        .starts_q = attention_array(g, b, ARRAY_STARTS_Q),
        .starts_kv = attention_array(g, b, ARRAY_STARTS_KV),
        .lengths_q = attention_array(g, b, ARRAY_LENGTHS_Q),
        .lengths_kv = attention_array(g, b, ARRAY_LENGTHS_KV),
        .row_map = attention_array(g, b, ARRAY_ROW_MAP),
        .left_pad = attention_array(g, b, ARRAY_LEFT_PAD),
        .page_table = attention_array(g, b, ARRAY_PAGE_TABLE),
    };
}

/* ---- sequences in host memory ------------------------------------------------------------------------- */
/* Rows [*row, *row + *count) of sequence i. */
static ptxpack_status read_rows(const attention_geometry *g, const int32_t *const arrays[ARRAY_SINKS],
                                int starts, int lengths, int32_t i, int64_t in_memory, int64_t most,
                                int64_t *row, int64_t *count, char *line)
{
    const int32_t *start = arrays[starts], *length = arrays[lengths];
    *row = g->array_bytes[starts] != 0 ? start[i] : 0;
    *count = g->array_bytes[lengths] != 0  ? length[i]
             : g->array_bytes[starts] != 0 ? start[i + 1] - *row
                                           : most;
    if (*count < 0 || *count > most)
        return refuse(line, "sequence %d: %s says %lld rows, not 0 to %lld", (int)i,
                      attention_array_names[g->array_bytes[lengths] != 0 ? lengths : starts], (long long)*count,
                      (long long)most);
    if (g->array_bytes[starts] != 0 && (*row < 0 || *row + *count > in_memory))
        return refuse(line, "sequence %d: rows %lld to %lld of %s are not in the %lld rows in memory", (int)i,
                      (long long)*row, (long long)(*row + *count), attention_array_names[starts],
                      (long long)in_memory);
    return PTXPACK_OK;
}

/* The pages that the sequence's keys need; none without keys. */
static ptxpack_status check_table(const ptxpack_attention_desc *d, const int32_t *table, int32_t i,
                                  const attention_sequence *s, char *line)
{
    for (int64_t page = s->first / d->page_rows; s->first < s->keys && page * d->page_rows < s->keys; page++) {
        int32_t id = table[(int64_t)i * d->table_width + page];
        if (id < 0 || id >= d->rows_kv)
            return refuse(line, "sequence %d: page_table[%lld] is %d, not one of %d pages", (int)i,
                          (long long)page, (int)id, (int)d->rows_kv);
    }
    return PTXPACK_OK;
}

ptxpack_status attention_read_sequence(const ptxpack_attention_desc *d, const attention_geometry *g,
                                       const ptxpack_attention_lengths *l, int32_t i, attention_sequence *out,
                                       char line[PLAN_LINE])
{
    const ptxpack_attention_lengths none = {NULL};
    l = l != NULL ? l : &none;
    const int32_t *const arrays[ARRAY_SINKS] = {l->starts_q, l->starts_kv, l->lengths_q, l->lengths_kv,
                                                l->row_map,  l->left_pad,  l->page_table};
    for (int id = 0; id < ARRAY_SINKS; id++)
        if (g->array_bytes[id] != 0 && arrays[id] == NULL)
            return refuse(line, "%s is NULL", attention_array_names[id]);
    ptxpack_status status = read_rows(g, arrays, ARRAY_STARTS_Q, ARRAY_LENGTHS_Q, i, d->rows_q, d->seqlen_q,
                                      &out->q_row, &out->queries, line);
    if (status == PTXPACK_OK)
        status = read_rows(g, arrays, ARRAY_STARTS_KV, ARRAY_LENGTHS_KV, i, d->rows_kv, d->seqlen_kv,
                           &out->kv_row, &out->keys, line);
    if (status != PTXPACK_OK)
        return status;
    out->cache = g->array_bytes[ARRAY_ROW_MAP] != 0 ? l->row_map[i] : i;
    if (g->array_bytes[ARRAY_ROW_MAP] != 0 && (out->cache < 0 || out->cache >= d->rows_kv))
        return refuse(line, "sequence %d: row_map says %lld, not one of %d", (int)i, (long long)out->cache,
                      (int)d->rows_kv);
    out->first = g->array_bytes[ARRAY_LEFT_PAD] != 0 ? l->left_pad[i] : 0;
    out->first = out->first < 0 ? 0 : out->first < out->keys ? out->first : out->keys;
    return d->kv_rows == PTXPACK_ROWS_PAGED ? check_table(d, l->page_table, i, out, line) : PTXPACK_OK;
}

const char *attention_refuse_reach(const ptxpack_attention_desc *d, const attention_geometry *g,
                                   char line[PLAN_LINE])
{
    enum { MOST_ROWS = ATTENTION_NO_LIMIT / 2 - 4096 };
    const bool many_q = d->seqlen_q > MOST_ROWS;
    if (!g->varlen || (!many_q && d->seqlen_kv <= MOST_ROWS))
        return NULL;
    plan_refuse(line, PTXPACK_E_UNSUPPORTED, "takes lengths up to %d; %s is %d", (int)MOST_ROWS,
                many_q ? "seqlen_q" : "seqlen_kv", (int)(many_q ? d->seqlen_q : d->seqlen_kv));
    return line;
}

attention_chunks_arguments attention_count_chunks(const attention_geometry *g)
{
    attention_chunks_arguments a = {.chunk = g->chunk};
    if (g->chunk > 0)
        quotient_inverse(g->chunk, &a.chunk_inverse, &a.chunk_shift);
    return a;
}

const char *attention_refuse_chunk(const ptxpack_attention_desc *d, const attention_geometry *g,
                                   char line[PLAN_LINE])
{
    enum { MOST_KEYS = (1 << 30) - 4096 }; /* tiles have rows beyond the last one */
    if (g->chunk == 0 || d->seqlen_kv <= MOST_KEYS)
        return NULL;
    plan_refuse(line, PTXPACK_E_UNSUPPORTED, "takes up to %d keys with chunks; seqlen_kv is %d", (int)MOST_KEYS,
                (int)d->seqlen_kv);
    return line;
}

const char *attention_refuse_split(const ptxpack_attention_desc *d, char line[PLAN_LINE])
{
    if (attention_split_rows(d) == 0)
        return NULL;
    plan_refuse(line, PTXPACK_E_UNSUPPORTED, "does not sum keys in parts of split_rows");
    return line;
}

const char *attention_refuse_lengths(const attention_geometry *geometry, char line[PLAN_LINE])
{
    if (!geometry->varlen)
        return NULL;
    plan_refuse(line, PTXPACK_E_UNSUPPORTED, "does not take lengths of sequences, packed or paged rows");
    return line;
}
