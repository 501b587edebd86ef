/* reference.c - attention on the CPU, in double precision, row by row.
 *
 * K and V are kept as floats (exact) in panels of eight columns, so that both products are one small
 * kernel: four rows of A times one panel of B.
 *
 *   scores   S[r][8 keys]     = Q[r][0..d) * K panel [d][8 keys]
 *   output   O[r][8 channels] = P[r][0..n) * V panel [n][8 channels] */
#include "reference.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "arrivals/arrivals.h"
#include "bias/bias.h"
#include "check.h"
#include "host/scalars.h"

enum { PANEL = 8, HALF = PANEL / 2, GROUP = 4, TASK_ROWS = 16, MAX_THREADS = 256 };

typedef double half_sum __attribute__((vector_size(HALF * sizeof(double))));
typedef float  half_row __attribute__((vector_size(HALF * sizeof(float))));

/* K and V in f32. */
typedef struct panels {
    float *k; /* [batch][heads_kv][padded_keys / 8][head_dim][8] */
    float *v; /* [batch][heads_kv][head_dim_v / 8][padded_keys][8] */
} panels;

struct attention_reference {
    ptxpack_attention_desc  desc;
    attention_geometry      geometry;
    const void             *q;
    ptxpack_descales        descales;
    const float            *sinks, *slopes; /* [heads_q]; NULL: none */
    const void             *bias;           /* NULL: none */
    const uint32_t         *bits;           /* the same */
    ptxpack_attention_hooks hooks;          /* NULL: none */
    attention_list_arrays   lists;
    attention_sequence     *sequences; /* [batch] */
    panels                  exact;
    panels rounded; /* what the rounded maths multiplies: of PTXPACK_Q8_0, f16; else the exact ones */
    size_t padded_keys;
    size_t k_size, v_size; /* floats of k and of v per batch and head */
    int    group;          /* rows that may share a pass: 1 when V is not finite */
};

/* ---- scalars ------------------------------------------------------------------------------------ */
/* Round to the precision of the element type; the range is double's, so that large scores stay finite. */
static double round_to(ptxpack_dtype type, double value)
{
    double rounded = ptxpack_to_float(type, ptxpack_from_float(type, (float)value));
    if (isinf(rounded) && !isinf(value))
        return round_to(type, value * 0x1p-24) * 0x1p24;
    return rounded;
}

/* ---- K and V as panels -------------------------------------------------------------------------- */
/* The index of the first element of a row. */
static size_t row_start(const attention_tensor *t, int64_t batch, int64_t row, int64_t head)
{
    return (size_t)(batch * t->batch + row * t->row + head * t->head);
}

/* The index of the first element of row j of a sequence of K or V. */
static size_t key_start(const attention_reference *r, int tensor, int64_t batch, int64_t j, int64_t head,
                        const int32_t *page_table)
{
    const attention_tensor   *t = &r->geometry.tensor[tensor];
    const attention_sequence *s = &r->sequences[batch];
    int64_t                   page_rows = r->desc.page_rows;
    if (r->desc.kv_rows == PTXPACK_ROWS_PAGED)
        return row_start(t, page_table[batch * r->desc.table_width + j / page_rows], j % page_rows, head);
    return row_start(t, s->cache, s->kv_row + j, head);
}

static size_t value_dim(const attention_reference *r) { return (size_t)attention_value_dim(&r->desc); }

/* Fill the panels of one batch and key head; returns whether all of V is finite. */
static bool fill_head(attention_reference *r, const void *k, const void *v, const int32_t *page_table,
                      int64_t batch, int64_t head)
{
    const attention_sequence *s = &r->sequences[batch];
    ptxpack_dtype             type = attention_kv_type(&r->desc);
    size_t                    d = (size_t)r->desc.head_dim, dv = value_dim(r), keys = (size_t)s->keys;
    size_t                    at = (size_t)batch * (size_t)r->desc.heads_kv + (size_t)head;
    bool                      finite = true;
    for (size_t j = (size_t)s->first; j < keys; j++) {
        size_t k_row = key_start(r, TENSOR_K, batch, (int64_t)j, head, page_table);
        size_t v_row = key_start(r, TENSOR_V, batch, (int64_t)j, head, page_table);
        float *k_to = r->exact.k + at * r->k_size + j / PANEL * d * PANEL + j % PANEL;
        float *v_to = r->exact.v + at * r->v_size + j * PANEL;
        for (size_t c = 0; c < d; c++)
            k_to[c * PANEL] = ptxpack_element(type, k, k_row + c);
        for (size_t c = 0; c < dv; c++) {
            float value = ptxpack_element(type, v, v_row + c);
            finite = finite && isfinite(value);
            v_to[c / PANEL * r->padded_keys * PANEL + c % PANEL] = value;
        }
    }
    return finite;
}

static bool allocate_panels(panels *p, size_t k_floats, size_t v_floats)
{
    p->k = (float *)calloc(k_floats, sizeof *p->k); /* which checks the bytes; 0 pads */
    p->v = (float *)calloc(v_floats, sizeof *p->v);
    return p->k != NULL && p->v != NULL;
}

/* Memory for the panels and the sequences. */
static ptxpack_status allocate(attention_reference *r)
{
    const ptxpack_attention_desc *d = &r->desc;
    size_t                        heads = (size_t)d->batch * (size_t)d->heads_kv, k_floats, v_floats;
    const bool                    blocks = attention_has_blocks(d);
    r->padded_keys = ((size_t)d->seqlen_kv + PANEL - 1) / PANEL * PANEL;
    r->k_size = r->padded_keys * (size_t)d->head_dim; /* < 2^41 */
    r->v_size = r->padded_keys * value_dim(r);
    r->sequences = (attention_sequence *)calloc((size_t)d->batch, sizeof *r->sequences);
    if (r->sequences == NULL || __builtin_mul_overflow(heads, r->k_size, &k_floats) ||
        __builtin_mul_overflow(heads, r->v_size, &v_floats) ||
        !allocate_panels(&r->exact, k_floats, v_floats) ||
        (blocks && !allocate_panels(&r->rounded, k_floats, v_floats)))
        return ptxpack_fail(NULL, PTXPACK_E_MEMORY, "no memory for %zu * %zu floats of the reference", heads,
                            r->k_size + r->v_size);
    return PTXPACK_OK;
}

/* The kernels multiply what f16 has of the elements of blocks. */
static void round_panels(attention_reference *r)
{
    const size_t heads = (size_t)r->desc.batch * (size_t)r->desc.heads_kv;
    if (!attention_has_blocks(&r->desc)) {
        r->rounded = r->exact;
        return;
    }
    for (size_t i = 0; i < heads * r->k_size; i++)
        r->rounded.k[i] = (float)round_to(PTXPACK_F16, r->exact.k[i]);
    for (size_t i = 0; i < heads * r->v_size; i++)
        r->rounded.v[i] = (float)round_to(PTXPACK_F16, r->exact.v[i]);
}

static ptxpack_status read_sequences(attention_reference *r, const ptxpack_attention_lengths *lengths)
{
    char line[PLAN_LINE];
    for (int32_t i = 0; i < r->desc.batch; i++) {
        ptxpack_status status = attention_read_sequence(&r->desc, &r->geometry, lengths, i, &r->sequences[i],
                                                        line);
        if (status != PTXPACK_OK)
            return ptxpack_fail(NULL, status, "%s", line);
    }
    return PTXPACK_OK;
}

static ptxpack_status check_inputs(const ptxpack_attention_desc *desc, const void *q, const void *k,
                                   const void *v, attention_reference *r)
{
    char           line[PLAN_LINE];
    ptxpack_status status = attention_whole_desc(desc, &r->desc, line);
    if (status == PTXPACK_OK)
        status = ptxpack_attention_resolve(&r->desc, &r->geometry, line);
    if (status != PTXPACK_OK)
        return ptxpack_fail(NULL, status, "%s", line);
    const bool in_keys = r->geometry.values_in_keys;
    if (q == NULL || k == NULL || (v == NULL && !in_keys))
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "%s is NULL", q == NULL ? "q" : k == NULL ? "k" : "v");
    if (in_keys && v != NULL && v != k)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "v is not k, but PTXPACK_VALUES_IN_KEYS takes it from k");
    return PTXPACK_OK;
}

/* The functions of the hooks that the descriptor has. */
static ptxpack_status read_hooks(attention_reference *r, const ptxpack_attention_lengths *lengths)
{
    static const ptxpack_attention_hooks none = {0};
    const ptxpack_attention_hooks *given = lengths != NULL && lengths->hooks != NULL ? lengths->hooks : &none;
    const bool                     score = r->desc.score_mod != NULL, mask = r->desc.mask_mod != NULL;
    if ((score || mask) && given->row == NULL &&
        ((score && given->score == NULL) || (mask && given->mask == NULL)))
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "hooks has no function for %s",
                            score && given->score == NULL ? "score_mod" : "mask_mod");
    r->hooks = (ptxpack_attention_hooks){.score = score ? given->score : NULL,
                                         .mask = mask ? given->mask : NULL,
                                         .row = score || mask ? given->row : NULL,
                                         .context = given->context};
    return PTXPACK_OK;
}

static ptxpack_status read_bias(attention_reference *r, const ptxpack_attention_lengths *lengths)
{
    const bool bias = attention_has_bias(&r->geometry), bits = attention_has_bits(&r->geometry);
    r->bias = bias && lengths != NULL ? lengths->bias : NULL;
    r->bits = bits && lengths != NULL ? lengths->mask_bits : NULL;
    if ((bias && r->bias == NULL) || (bits && r->bits == NULL))
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "%s is NULL",
                            attention_array_names[bias && r->bias == NULL ? ARRAY_BIAS : ARRAY_BITS]);
    return PTXPACK_OK;
}

/* The lists of blocks, if the descriptor has any. */
static ptxpack_status read_lists(attention_reference *r, const ptxpack_attention_lengths *l)
{
    if (!attention_has_lists(&r->geometry))
        return PTXPACK_OK;
    if (l == NULL || l->block_count == NULL || l->block_list == NULL)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "%s is NULL",
                            l == NULL || l->block_count == NULL ? "block_count" : "block_list");
    if ((l->full_count == NULL) != (l->full_list == NULL))
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "of full_count and full_list one alone is NULL");
    r->lists = (attention_list_arrays){{l->block_count, l->full_count}, {l->block_list, l->full_list}};
    return PTXPACK_OK;
}

/* What query heads have, of those that the descriptor asks for. */
static ptxpack_status read_heads(attention_reference *r, const ptxpack_attention_lengths *lengths)
{
    const bool sinks = attention_has_sinks(&r->geometry), alibi = attention_has_alibi(&r->geometry);
    r->sinks = sinks && lengths != NULL ? lengths->sinks : NULL;
    r->slopes = alibi && lengths != NULL ? lengths->slopes : NULL;
    if (sinks && r->sinks == NULL)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "sinks is NULL");
    if (alibi && r->slopes == NULL)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "slopes is NULL");
    for (int32_t h = 0; h < r->desc.heads_q && alibi; h++)
        if (!(r->slopes[h] >= 0 && isfinite(r->slopes[h])))
            return ptxpack_fail(NULL, PTXPACK_E_ARG, "slopes[%d] is %g, not a finite number from 0 on", (int)h,
                                (double)r->slopes[h]);
    return PTXPACK_OK;
}

ptxpack_status attention_reference_open(const ptxpack_attention_desc *desc, const void *q, const void *k,
                                        const void *v, const ptxpack_descales *descales,
                                        const ptxpack_attention_lengths *lengths, attention_reference **out)
{
    attention_reference *r = (attention_reference *)calloc(1, sizeof *r);
    *out = NULL;
    if (r == NULL)
        return ptxpack_fail(NULL, PTXPACK_E_MEMORY, "no memory for the reference");
    ptxpack_status status = check_inputs(desc, q, k, v, r);
    if (status == PTXPACK_OK)
        status = read_heads(r, lengths);
    if (status == PTXPACK_OK)
        status = read_hooks(r, lengths);
    if (status == PTXPACK_OK)
        status = read_bias(r, lengths);
    if (status == PTXPACK_OK)
        status = read_lists(r, lengths);
    if (status == PTXPACK_OK)
        status = allocate(r);
    if (status == PTXPACK_OK)
        status = read_sequences(r, lengths);
    if (status != PTXPACK_OK) {
        attention_reference_close(r);
        return status;
    }
    r->q = q;
    if (descales != NULL && r->geometry.descale_bytes != 0)
        r->descales = *descales;
    if (r->geometry.q_descale_bytes == 0)
        r->descales.q = NULL;
    r->group = GROUP;
    for (int64_t b = 0; b < r->desc.batch; b++)
        for (int64_t h = 0; h < r->desc.heads_kv; h++)
            if (!fill_head(r, k, r->geometry.values_in_keys ? k : v,
                           lengths != NULL ? lengths->page_table : NULL, b, h))
                r->group = 1;
    round_panels(r);
    *out = r;
    return PTXPACK_OK;
}

void attention_reference_close(attention_reference *r)
{
    if (r == NULL)
        return;
    if (r->rounded.k != r->exact.k) {
        free(r->rounded.k);
        free(r->rounded.v);
    }
    free(r->exact.k);
    free(r->exact.v);
    free(r->sequences);
    free(r);
}

int64_t attention_reference_queries(const attention_reference *r, int32_t batch)
{
    return r->sequences[batch].queries;
}

/* ---- one group of rows -------------------------------------------------------------------------- */
/* A thread's scratch; every array has GROUP rows. */
typedef struct scratch {
    double *q;       /* [GROUP][head_dim] */
    double *s, *p;   /* [GROUP][padded_keys] */
    double *o;       /* [GROUP][head_dim_v] */
    double  v_scale; /* of the group's key head */
    /* [GROUP][blocks of keys]: of each row, how its lists have them; NULL: no lists */
    uint8_t *kinds;
} scratch;

/* out[r][8] = a[r][0..n) * b[0..n)[8], for GROUP rows of a, `a_step` apart; rows of out `out_step` apart. */
static void multiply(const double *a, size_t a_step, const float *b, size_t n, double *out, size_t out_step)
{
    for (int at = 0; at < PANEL; at += HALF) {
        half_sum sum0 = {0}, sum1 = {0}, sum2 = {0}, sum3 = {0}; /* variables, which stay in registers */
        for (size_t i = 0; i < n; i++) {
            half_row row;
            memcpy(&row, b + i * PANEL + at, sizeof row);
            const half_sum wide = __builtin_convertvector(row, half_sum);
            sum0 += wide * a[i];
            sum1 += wide * a[a_step + i];
            sum2 += wide * a[2 * a_step + i];
            sum3 += wide * a[3 * a_step + i];
        }
        memcpy(out + at, &sum0, sizeof sum0);
        memcpy(out + out_step + at, &sum1, sizeof sum1);
        memcpy(out + 2 * out_step + at, &sum2, sizeof sum2);
        memcpy(out + 3 * out_step + at, &sum3, sizeof sum3);
    }
}

/* Keys [first, end) of the sequence; 0, 0 when there are none. */
typedef struct key_range {
    size_t first, end;
} key_range;

/* The keys that each row of a group may attend to, the smallest range that holds all of them; the rows' sinks, and what
 * their scores lose with the distance from their own positions. */
typedef struct group_keys {
    key_range     row[GROUP], all;
    double        sink[GROUP];                /* -inf: none */
    double        slope[GROUP], place[GROUP]; /* slope 0: none; the row's own position */
    attention_row of[GROUP];
} group_keys;

/* What a bias adds to the scores p of a row. */
static void add_bias(const attention_reference *r, const attention_row *row, key_range seen, double *p)
{
    for (size_t j = seen.first; j < seen.end && r->bias != NULL; j++)
        p[j] += attention_bias_at(&r->desc, r->bias, row->batch, row->head, row->row, (int64_t)j);
}

/* The keys whose bits are 0 are masked. */
static void apply_bits(const attention_reference *r, const attention_row *row, key_range seen, double *p)
{
    const attention_sequence *s = &r->sequences[row->batch];
    for (size_t j = seen.first; j < seen.end && r->bits != NULL; j++)
        if (!attention_bit_at(&r->desc, r->bits, row->batch, row->head, row->row, (int64_t)j, s->queries,
                              s->keys))
            p[j] = -INFINITY;
}

/* What hooks and lists of blocks make of the scores p of a row; `kinds`: of its blocks of keys. */
static void apply_hooks(const attention_reference *r, const attention_row *row, int32_t q, key_range seen,
                        const uint8_t *kinds, double *p)
{
    const ptxpack_attention_hooks *hooks = &r->hooks;
    const size_t                   block = kinds != NULL ? (size_t)r->geometry.lists.keys : 1;
    if (hooks->row != NULL && seen.end > 0)
        hooks->row(hooks->context, row->batch, row->head, q, (int32_t)seen.first,
                   (int32_t)(seen.end - seen.first), p + seen.first);
    for (size_t j = seen.first; j < seen.end && hooks->row == NULL && hooks->score != NULL; j++)
        p[j] = hooks->score(hooks->context, p[j], row->batch, row->head, q, (int32_t)j);
    for (size_t j = seen.first; j < seen.end && hooks->row == NULL && hooks->mask != NULL; j++)
        if (kinds == NULL || kinds[j / block] == ATTENTION_BLOCK_MASKED)
            p[j] = hooks->mask(hooks->context, row->batch, row->head, q, (int32_t)j) ? p[j] : -INFINITY;
    for (size_t j = seen.first; j < seen.end && kinds != NULL; j++)
        if (kinds[j / block] == ATTENTION_BLOCK_ABSENT)
            p[j] = -INFINITY;
}

static const uint8_t *kinds_of(const attention_reference *r, const scratch *w, int row)
{
    return w->kinds != NULL ? w->kinds + row * r->geometry.lists.key_blocks : NULL;
}

/* P = e^(S - max S) in place over the keys `seen`, and zeros over the rest of `all`; returns the sum of P with the
 * sink, which is one of the S, and the maximum.  If all are masked, P and the sum are 0. */
static double softmax_row(double *p, key_range seen, key_range all, double sink, double *maximum)
{
    double most = sink;
    for (size_t j = seen.first; j < seen.end; j++)
        most = p[j] > most ? p[j] : most;
    double sum = sink > -INFINITY ? reference_exp(sink - most) : 0;
    for (size_t j = all.first; j < all.end; j++)
        sum += p[j] = j >= seen.first && j < seen.end && most > -INFINITY ? reference_exp(p[j] - most) : 0;
    *maximum = most;
    return sum;
}

/* S = Q K^T of the group over its keys. */
static void score_keys(const attention_reference *r, const float *k, key_range all, scratch *w)
{
    const size_t d = (size_t)r->desc.head_dim;
    for (size_t j = all.first / PANEL * PANEL; j < all.end; j += PANEL)
        multiply(w->q, d, k + j * d, d, w->s + j, r->padded_keys);
}

/* O = P V of the group over its keys. */
static void weigh_values(const attention_reference *r, const float *v, key_range all, scratch *w)
{
    size_t d = value_dim(r);
    for (size_t c = 0; c < d; c += PANEL)
        multiply(w->p + all.first, r->padded_keys, v + c * r->padded_keys + all.first * PANEL,
                 all.end - all.first, w->o + c, d);
    for (size_t i = 0; i < GROUP * d; i++)
        w->o[i] *= w->v_scale;
}

/* The keys that a query row may attend to. */
static key_range keys_of(const attention_reference *r, int32_t batch, int64_t row)
{
    const attention_geometry *g = &r->geometry;
    const attention_sequence *s = &r->sequences[batch];
    int64_t                   first = g->limited_left ? attention_first_key(g, row + g->left_offset) : 0;
    int64_t                   end = g->limited_right ? row + g->right_offset + 1 : s->keys;
    if (g->varlen) {
        int64_t diagonal = row + (g->bottom_right ? s->keys - s->queries : s->first);
        first = s->first + attention_first_key(g, diagonal - g->reach_left - s->first);
        end = diagonal + g->reach_right + 1;
    }
    first = first > s->first ? first : s->first;
    end -= row < g->early_rows ? g->early_keys : 0;
    end = end < s->keys ? end : s->keys;
    return first < end ? (key_range){(size_t)first, (size_t)end} : (key_range){0, 0};
}

static key_range join(key_range a, key_range b)
{
    if (a.end == 0 || b.end == 0)
        return a.end == 0 ? b : a;
    return (key_range){a.first < b.first ? a.first : b.first, a.end > b.end ? a.end : b.end};
}

static double alibi(const group_keys *keys, int row, size_t key)
{
    return keys->slope[row] * fabs(keys->place[row] - (double)key);
}

/* A score under the cap. */
static double capped(double s, double softcap)
{
    return softcap > 0 ? softcap * reference_tanh(s / softcap) : s;
}

/* The same, every step rounded to the element type. */
static double capped_rounded(ptxpack_dtype type, double s, double softcap)
{
    s = round_to(type, s);
    return softcap > 0 ? round_to(type, softcap * round_to(type, reference_tanh(round_to(type, s / softcap))))
                       : s;
}

/* What e^(s - most) is divided by to become a weight: `sum` of all, or e^-most, if it is to be e^s. */
static double divisor(const attention_reference *r, double sum, double most)
{
    return !r->geometry.unnormalized ? sum : most > 0 ? reference_exp(-most) : 1 / reference_exp(most);
}

static void exact_group(const attention_reference *r, const float *v, const group_keys *keys, size_t first,
                        int count, const attention_row_results *results, scratch *w)
{
    size_t d = value_dim(r);
    double sum[GROUP], most[GROUP];
    for (int i = 0; i < GROUP; i++) {
        double *s = w->s + (size_t)i * r->padded_keys, *p = w->p + (size_t)i * r->padded_keys;
        for (size_t j = keys->row[i].first; j < keys->row[i].end; j++)
            p[j] = capped(s[j], r->geometry.softcap) - alibi(keys, i, j);
        add_bias(r, &keys->of[i], keys->row[i], p);
        apply_hooks(r, &keys->of[i], (int32_t)keys->place[i], keys->row[i], kinds_of(r, w, i), p);
        apply_bits(r, &keys->of[i], keys->row[i], p);
        sum[i] = softmax_row(p, keys->row[i], keys->all, keys->sink[i], &most[i]);
    }
    weigh_values(r, v, keys->all, w);
    for (int i = 0; i < count; i++) {
        const bool   none = keys->row[i].end == 0 || most[i] == -INFINITY;
        const double by = none ? 1 : divisor(r, sum[i], most[i]);
        for (size_t c = 0; c < d && results->o != NULL; c++)
            results->o[(first + (size_t)i) * d + c] = none ? 0 : w->o[(size_t)i * d + c] / by;
        if (results->lse != NULL)
            results->lse[first + (size_t)i] = none          ? keys->sink[i]
                                              : sum[i] >= 1 ? most[i] + reference_log(sum[i])
                                                            : (double)NAN; /* the scores are not finite */
    }
}

/* A weight as the kernels multiply it with V.  fp8 has few small numbers, so that there the row's largest is
 * 256 and the sum divides the output. */
static double round_weight(ptxpack_dtype type, double p, double sum)
{
    return type == PTXPACK_E4M3 ? round_to(type, p * 0x1p8) / (0x1p8 * sum) : round_to(type, p / sum);
}

/* The same with S, P and O rounded to the element type. */
static void rounded_group(const attention_reference *r, const float *v, const group_keys *keys, size_t first,
                          int count, double *out, scratch *w)
{
    size_t        d = value_dim(r);
    ptxpack_dtype type = attention_tensor_type(&r->desc, TENSOR_O);
    for (int i = 0; i < GROUP; i++) {
        double *s = w->s + (size_t)i * r->padded_keys, *p = w->p + (size_t)i * r->padded_keys, most;
        for (size_t j = keys->row[i].first; j < keys->row[i].end; j++)
            p[j] = capped_rounded(type, s[j], r->geometry.softcap) - alibi(keys, i, j);
        add_bias(r, &keys->of[i], keys->row[i], p);
        apply_hooks(r, &keys->of[i], (int32_t)keys->place[i], keys->row[i], kinds_of(r, w, i), p);
        apply_bits(r, &keys->of[i], keys->row[i], p);
        double       sum = softmax_row(p, keys->row[i], keys->all, keys->sink[i], &most);
        const double by = sum > 0 ? divisor(r, sum, most) : 1;
        for (size_t j = keys->row[i].first; j < keys->row[i].end && sum > 0; j++)
            p[j] = round_weight(r->desc.dtype, p[j], by);
    }
    weigh_values(r, v, keys->all, w);
    for (int i = 0; i < count; i++)
        for (size_t c = 0; c < d; c++)
            out[(first + (size_t)i) * d + c] = keys->row[i].end ? round_to(type, w->o[(size_t)i * d + c]) : 0;
}

static double descale_of(const float *descales, size_t at) { return descales != NULL ? descales[at] : 1; }

/* Rows [first, first + count) of the list: at most GROUP, of one batch and key head. */
static void compute_group(const attention_reference *r, const attention_row *rows, size_t first, int count,
                          const attention_row_results *results, scratch *w)
{
    const ptxpack_attention_desc *desc = &r->desc;
    size_t                        d = (size_t)desc->head_dim;
    group_keys                    keys = {.all = {0, 0}};
    int64_t                       kv_head = rows[first].head / (desc->heads_q / desc->heads_kv);
    size_t                        kv = (size_t)rows[first].batch * (size_t)desc->heads_kv + (size_t)kv_head;
    size_t                        scales_at = (size_t)(rows[first].batch * attention_descale_batch(desc) +
                                kv_head * attention_descale_head(desc));
    double scale = r->geometry.scale * descale_of(r->descales.q, kv) * descale_of(r->descales.k, scales_at);
    w->v_scale = descale_of(r->descales.v, scales_at);
    for (int i = 0; i < GROUP; i++) { /* a short group repeats its last row */
        const attention_row *row = &rows[first + (size_t)(i < count ? i : count - 1)];
        size_t               q = row_start(&r->geometry.tensor[TENSOR_Q], row->batch,
                                           r->sequences[row->batch].q_row + row->row, row->head);
        for (size_t c = 0; c < d; c++)
            w->q[(size_t)i * d + c] = (double)ptxpack_element(desc->dtype, r->q, q + c) * scale;
        keys.row[i] = keys_of(r, row->batch, row->row);
        keys.sink[i] = r->sinks != NULL ? r->sinks[row->head] : -INFINITY;
        keys.slope[i] = r->slopes != NULL ? r->slopes[row->head] : 0;
        keys.place[i] = (double)(row->row + r->sequences[row->batch].keys - r->sequences[row->batch].queries);
        keys.of[i] = *row;
        keys.all = join(keys.all, keys.row[i]);
        if (w->kinds != NULL)
            attention_read_list(&r->geometry.lists, &r->lists, row->batch, row->head, row->row,
                                w->kinds + i * r->geometry.lists.key_blocks);
    }
    score_keys(r, r->exact.k + kv * r->k_size, keys.all, w);
    if (results->o != NULL || results->lse != NULL)
        exact_group(r, r->exact.v + kv * r->v_size, &keys, first, count, results, w);
    if (results->rounded != NULL && r->rounded.k != r->exact.k)
        score_keys(r, r->rounded.k + kv * r->k_size, keys.all, w);
    if (results->rounded != NULL)
        rounded_group(r, r->rounded.v + kv * r->v_size, &keys, first, count, results->rounded, w);
}

/* ---- all rows, on threads ----------------------------------------------------------------------- */
typedef struct row_job {
    const attention_reference   *reference;
    const attention_row         *rows;
    size_t                       count;
    const attention_row_results *results;
    atomic_size_t                next; /* the first row that no thread has taken */
    atomic_bool                  no_memory;
} row_job;

/* How many rows from `first` on can share a pass. */
static int group_size(const row_job *job, size_t first, size_t end)
{
    const attention_reference *r = job->reference;
    int32_t                    share = r->desc.heads_q / r->desc.heads_kv;
    const attention_row       *row = &job->rows[first];
    int                        count = 1;
    while (count < r->group && first + (size_t)count < end && row[count].batch == row->batch &&
           row[count].head / share == row->head / share)
        count++;
    return count;
}

static void *run_rows(void *context)
{
    row_job                   *job = (row_job *)context;
    const attention_reference *r = job->reference;
    size_t                     d = (size_t)r->desc.head_dim, keys = r->padded_keys, first;
    double      *memory = (double *)malloc(GROUP * (d + 2 * keys + value_dim(r)) * sizeof(double));
    const size_t blocks = (size_t)r->geometry.lists.key_blocks;
    uint8_t     *kinds = blocks > 0 ? (uint8_t *)malloc(GROUP * blocks) : NULL;
    if (memory == NULL || (blocks > 0 && kinds == NULL)) {
        atomic_store(&job->no_memory, true);
        free(memory);
        free(kinds);
        return NULL;
    }
    scratch w = {memory, memory + GROUP * d, memory + GROUP * (d + keys), memory + GROUP * (d + 2 * keys), 1,
                 kinds};
    while ((first = atomic_fetch_add(&job->next, TASK_ROWS)) < job->count) {
        size_t end = job->count - first < TASK_ROWS ? job->count : first + TASK_ROWS;
        for (int count; first < end; first += (size_t)count) {
            count = group_size(job, first, end);
            compute_group(r, job->rows, first, count, job->results, &w);
        }
    }
    free(memory);
    free(kinds);
    return NULL;
}

ptxpack_status attention_reference_rows(const attention_reference *reference, const attention_row *rows,
                                        size_t count, int threads, const attention_row_results *results)
{
    row_job   job = {.reference = reference, .rows = rows, .count = count, .results = results};
    pthread_t helpers[MAX_THREADS];
    int       started = 0;
    size_t    tasks = (count + TASK_ROWS - 1) / TASK_ROWS;
    while (started + 1 < threads && started < MAX_THREADS && (size_t)started + 1 < tasks &&
           pthread_create(&helpers[started], NULL, run_rows, &job) == 0)
        started++;
    run_rows(&job);
    for (int i = 0; i < started; i++)
        pthread_join(helpers[i], NULL);
    if (atomic_load(&job.no_memory)) /* some rows may be missing */
        return ptxpack_fail(NULL, PTXPACK_E_MEMORY, "no memory for the rows of the reference");
    return PTXPACK_OK;
}

/* ---- the public reference: every row, in the caller's layout ------------------------------------ */
/* Rows of the descriptor that follow `n`, up to BATCH_ROWS, without those beyond a length; *n moves on. */
enum { BATCH_ROWS = 32 };
static int64_t next_rows(const attention_reference *r, int64_t total, int64_t *n,
                         attention_row list[BATCH_ROWS])
{
    int64_t count = 0, heads = r->desc.heads_q, rows = r->desc.seqlen_q;
    for (; *n < total && count < BATCH_ROWS; (*n)++) {
        attention_row row = {(int32_t)(*n / rows / heads), (int32_t)(*n / rows % heads), (int32_t)(*n % rows)};
        if (row.row < r->sequences[row.batch].queries)
            list[count++] = row;
    }
    return count;
}

/* The index of a row's lse. */
static int64_t lse_index(const attention_reference *r, const attention_row *row)
{
    const ptxpack_attention_desc *d = &r->desc;
    bool                          packed = d->q_rows == PTXPACK_ROWS_PACKED;
    return packed ? (int64_t)row->head * d->rows_q + r->sequences[row->batch].q_row + row->row
                  : attention_lse_place(d, row->batch, row->head, row->row);
}

ptxpack_status ptxpack_attention_reference_lengths(const ptxpack_attention_desc *desc, const void *q,
                                                   const void *k, const void *v,
                                                   const ptxpack_descales          *descales,
                                                   const ptxpack_attention_lengths *lengths, double *o,
                                                   double *lse)
{
    attention_reference *r;
    ptxpack_status       status = attention_reference_open(desc, q, k, v, descales, lengths, &r);
    if (status != PTXPACK_OK)
        return status;
    const attention_tensor     *t = &r->geometry.tensor[TENSOR_O];
    int64_t                     d = (int64_t)value_dim(r), n = 0, count;
    int64_t                     total = (int64_t)r->desc.batch * r->desc.heads_q * r->desc.seqlen_q;
    attention_row               list[BATCH_ROWS];
    double                      values[BATCH_ROWS * ATTENTION_MOST_VALUES], logs[BATCH_ROWS];
    const attention_row_results results = {values, NULL, logs};
    while (status == PTXPACK_OK && (count = next_rows(r, total, &n, list)) > 0) {
        status = attention_reference_rows(r, list, (size_t)count, 1, &results);
        for (int64_t i = 0; i < count && status == PTXPACK_OK; i++) {
            if (o != NULL)
                memcpy(o + row_start(t, list[i].batch, r->sequences[list[i].batch].q_row + list[i].row,
                                     list[i].head),
                       values + i * d, (size_t)d * sizeof *o);
            if (lse != NULL)
                lse[lse_index(r, &list[i])] = logs[i];
        }
    }
    attention_reference_close(r);
    return status;
}

ptxpack_status ptxpack_attention_reference(const ptxpack_attention_desc *desc, const void *q, const void *k,
                                           const void *v, const ptxpack_descales *descales, double *o,
                                           double *lse)
{
    return ptxpack_attention_reference_lengths(desc, q, k, v, descales, NULL, o, lse);
}
