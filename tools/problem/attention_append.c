/* attention_append.c - new rows of k and v for an attention that appends them first. */
#include "attention_append.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/command.h"
#include "tools/device.h"

/* Prints one line on stderr; the result is false. */
#define REFUSE(...) (command_fail(subcommand, __VA_ARGS__), false)

enum { POISON = 0xff /* a NaN in all types */ };

/* ---- the descriptor ----------------------------------------------------------------------------------- */
static bool check_cache(const char *subcommand, const attention_arrays *a, const ptxpack_attention_desc *d)
{
    const attention_list *map = &a->list[ARRAY_ROW_MAP];
    if (d->dtype == PTXPACK_E4M3)
        return REFUSE("--append: --dtype is e4m3; rows of 16-bit types are appended");
    if (d->kv_rows == PTXPACK_ROWS_PACKED)
        return REFUSE("--append: k and v are packed; rows are appended to dense or paged ones");
    if (!a->list[ARRAY_LENGTHS_KV].given)
        return REFUSE("--append needs --lengths: so many keys has each sequence after it");
    for (size_t i = 0; i < map->count; i++)
        for (size_t other = 0; other < i; other++)
            if (map->values[i] == map->values[other])
                return REFUSE("--append: two sequences would write to sequence %d of --row-map",
                              (int)map->values[i]);
    return true;
}

bool attention_append_describe(const char *subcommand, const attention_append_words *words,
                               const attention_arrays *a, ptxpack_attention_desc *d, attention_new_rows *n)
{
    const bool rotary = words->rotary != OPTION_NOT_GIVEN;
    char       line[PLAN_LINE];
    if (words->rows == OPTION_NOT_GIVEN)
        return rotary || words->pairs ? REFUSE("--%s needs --append", rotary ? "rotary" : "rotary-pairs")
                                      : true;
    if (words->pairs && !rotary)
        return REFUSE("--rotary-pairs needs --rotary");
    if (words->rows < 1 || words->rows > d->seqlen_kv)
        return REFUSE("--append: %lld is not between 1 and the %d keys of a sequence", (long long)words->rows,
                      (int)d->seqlen_kv);
    if (rotary && (words->rotary < 16 || words->rotary % 16 != 0 || words->rotary > d->head_dim))
        return REFUSE("--rotary: %lld is not a multiple of 16 up to --head-dim %d", (long long)words->rotary,
                      (int)d->head_dim);
    if (rotary && words->rows != d->seqlen_q)
        return REFUSE("--rotary: q is rotated with the new rows, but --append is %lld and --seqlen-q %d",
                      (long long)words->rows, (int)d->seqlen_q);
    if (!check_cache(subcommand, a, d))
        return false;
    n->given = true;
    n->desc = (ptxpack_attention_append_desc){.size = sizeof n->desc,
                                              .seqlen_new = (int32_t)words->rows,
                                              .heads_q = rotary ? d->heads_q : 0,
                                              .rotary_dim = rotary ? (int32_t)words->rotary : 0,
                                              .positions = rotary ? d->seqlen_kv : 0,
                                              .options = words->pairs ? PTXPACK_ROPE_PAIRS : 0};
    d->append = &n->desc;
    d->size = sizeof *d;
    if (attached_describe(d, &n->whole, line) == PTXPACK_OK &&
        append_resolve(&n->whole, &n->geometry, line) == PTXPACK_OK)
        return true;
    return REFUSE("--append: %s", line);
}

/* ---- rows --------------------------------------------------------------------------------------------- */
static bool allocate(attention_new_rows *n, const size_t tensor_bytes[TENSOR_O])
{
    const append_geometry *g = &n->geometry;
    const size_t           bytes[NEW_COUNT] = {g->tensor[APPEND_K_NEW].bytes, g->tensor[APPEND_V_NEW].bytes,
                                               g->tensor[APPEND_Q].bytes, g->table_bytes, g->table_bytes};
    bool                   ok = true;
    for (int i = 0; i < NEW_COUNT && ok; i++)
        ok = bytes[i] == 0 || (n->memory[i] = malloc(bytes[i])) != NULL;
    for (int t = TENSOR_Q; t <= TENSOR_V && ok; t++)
        ok = (n->before[t] = malloc(tensor_bytes[t])) != NULL;
    return ok;
}

/* Angles as models have them: row / 10000^(2 j / D). */
static void make_angles(attention_new_rows *n)
{
    const ptxpack_attention_append_desc *d = &n->whole;
    const size_t                         half = (size_t)d->rotary_dim / 2;
    for (size_t i = 0; i < (size_t)d->positions * half; i++) {
        double angle = (double)(i / half) * pow(10000, -(double)(i % half) / (double)half);
        ptxpack_set_element(d->dtype, n->memory[NEW_COS], i, (float)cos(angle));
        ptxpack_set_element(d->dtype, n->memory[NEW_SIN], i, (float)sin(angle));
    }
}

/* Takes the keys that are new out of the cache. */
static void take_out(const ptxpack_attention_desc *d, const attention_geometry *g, const attention_arrays *a,
                     int32_t i, int64_t count, void *const memory[TENSOR_O])
{
    ptxpack_attention_lengths lengths = attention_lengths_of(a);
    attention_sequence        s = attention_lengths_sequence(d, g, &lengths, i);
    for (int64_t row = s.keys > count ? s.keys - count : 0; row < s.keys; row++)
        for (int32_t head = 0; head < d->heads_kv; head++)
            for (int t = TENSOR_K; t <= TENSOR_V; t++) {
                const attention_tensor *tensor = &g->tensor[t];
                int64_t                 batch = s.cache, at = row;
                if (d->kv_rows == PTXPACK_ROWS_PAGED) {
                    batch = lengths.page_table[(int64_t)i * d->table_width + row / d->page_rows];
                    at = row % d->page_rows;
                }
                memset((uint8_t *)memory[t] +
                           attention_kv_span(d, batch * tensor->batch + at * tensor->row + head * tensor->head),
                       POISON, (size_t)attention_kv_span(d, d->head_dim));
            }
}

bool attention_append_draw(const ptxpack_attention_desc *d, const attention_geometry *g,
                           const attention_arrays *a, random_state *random, void *const tensors[TENSOR_O],
                           const ptxpack_descales *descales, attention_new_rows *n, const char **why)
{
    const size_t                    bytes[TENSOR_O] = {g->tensor[TENSOR_Q].bytes, g->tensor[TENSOR_K].bytes,
                                                       g->tensor[TENSOR_V].bytes};
    ptxpack_attention_lengths       lengths = attention_lengths_of(a);
    ptxpack_attention_append_inputs in = {.lengths_kv = lengths.lengths_kv,
                                          .lengths_new = lengths.lengths_q,
                                          .starts_new = lengths.starts_q};
    char                            line[PLAN_LINE];
    *why = "no memory for the new rows";
    if (!allocate(n, bytes))
        return false;
    for (int i = NEW_K; i <= NEW_V; i++)
        random_normal(random, d->dtype, n->memory[i], (size_t)n->geometry.tensor[APPEND_K_NEW + i].bytes / 2);
    make_angles(n);
    for (int32_t i = 0; i < d->batch; i++) {
        int64_t first, count;
        if (append_read(&n->whole, &n->geometry, &in, i, &first, &count, line) == PTXPACK_OK)
            take_out(d, g, a, i, count, tensors);
    }
    for (int t = TENSOR_Q; t <= TENSOR_V; t++)
        memcpy(n->before[t], tensors[t], bytes[t]);
    if (n->memory[NEW_Q] != NULL) {
        memcpy(n->memory[NEW_Q], tensors[TENSOR_Q], bytes[TENSOR_Q]);
        memset(n->before[TENSOR_Q], POISON, bytes[TENSOR_Q]);
    }
    in = (ptxpack_attention_append_inputs){.k_new = n->memory[NEW_K],
                                           .v_new = n->memory[NEW_V],
                                           .q = n->memory[NEW_Q],
                                           .cos = n->memory[NEW_COS],
                                           .sin = n->memory[NEW_SIN],
                                           .k_descale = descales->k,
                                           .v_descale = descales->v};
    *why = ptxpack_detail(NULL);
    return ptxpack_attention_reference_append(d, &in, tensors[TENSOR_Q], tensors[TENSOR_K], tensors[TENSOR_V],
                                              &lengths, NULL, NULL) == PTXPACK_OK;
}

/* ---- on the device ------------------------------------------------------------------------------------ */
bool attention_append_upload(device *gpu, attention_new_rows *n, ptxpack_attention_append_buffers *out)
{
    const append_geometry *g = &n->geometry;
    const size_t           bytes[NEW_COUNT] = {g->tensor[APPEND_K_NEW].bytes, g->tensor[APPEND_V_NEW].bytes,
                                               g->tensor[APPEND_Q].bytes, g->table_bytes, g->table_bytes};
    bool                   ok = true;
    for (int i = 0; i < NEW_COUNT && ok; i++)
        ok = n->memory[i] == NULL || (device_alloc(gpu, &n->device[i], bytes[i]) &&
                                      device_upload(gpu, n->device[i], n->memory[i], bytes[i]));
    *out = (ptxpack_attention_append_buffers){.size = sizeof *out,
                                              .k_new = n->device[NEW_K],
                                              .v_new = n->device[NEW_V],
                                              .q = n->device[NEW_Q],
                                              .cos = n->device[NEW_COS],
                                              .sin = n->device[NEW_SIN]};
    return ok;
}

void attention_append_release(device *gpu, attention_new_rows *n)
{
    for (int i = 0; i < NEW_COUNT; i++)
        device_free(gpu, n->device[i]);
}

void attention_append_free(attention_new_rows *n)
{
    for (int i = 0; i < NEW_COUNT; i++)
        free(n->memory[i]);
    for (int t = TENSOR_Q; t <= TENSOR_V; t++)
        free(n->before[t]);
}

/* ---- in words ----------------------------------------------------------------------------------------- */
void attention_append_report(report *r, const attention_new_rows *n)
{
    const ptxpack_attention_append_desc *d = &n->whole;
    bool                                 pairs = (d->options & PTXPACK_ROPE_PAIRS) != 0;
    report_int(r, "append", d->seqlen_new);
    report_int(r, "rotary_dim", d->rotary_dim);
    report_bool(r, "rotary_pairs", pairs);
    const char *rows = d->seqlen_new == 1 ? "row" : "rows";
    if (d->rotary_dim == 0)
        report_text(r, ".appended", "%d new %s of k and v, copied", (int)d->seqlen_new, rows);
    else
        report_text(r, ".appended", "%d new %s of k and v, %d elements of k and q rotated in %s",
                    (int)d->seqlen_new, rows, (int)d->rotary_dim, pairs ? "pairs" : "halves");
}
