/* attention.c - attention forward against the double-precision reference.
 *
 * Cases    element types (fp8 with random descales) x head dims (exact and padded) x {MHA, MQA, GQA} x
 *          FlashAttention's 20 pairs of sequence lengths, and pathological data for some of them.  Each case
 *          runs with every mask, in three layouts, and on every row that covers it and that the device can run.
 * Passes   The exact result is computed for some rows: for all of them up to a limit, else for a random sample
 *          in every head.  Against it,
 *            all rows      max error <= 2 (3 with a softcap) times the error of the same maths in the element
 *                          type + FlashAttention's allowance for one sum in that type (verify.h)
 *            16-row tiles  max error <= 3 (4.5) times the error of the tile in the element type + one rounding:
 *                          long rows average many values and must be closer.  The factor is 4 (6) for fp8,
 *                          whose weights err by up to 2^-4, and differently if the reference of the softmax is
 *                          not the maximum.  16-bit weights with such a reference may err by two roundings:
 *                          where one key dominates, the weight of the standard softmax is 1, which is exact.
 *            dominated     the exact result of a row that one key dominates is its V.  If most rows are such, at most
 *                          one element of 500 in them may differ: kernels correct the sum for the rounding of large weights.  Not for
 *                          fp8 and softcaps, which have no such correction.
 *          Also, every LSE is within verify_lse_bound, rows without keys are 0 and -inf, only the output was
 *          written, a second run gave the same bits, and the workspace's counters are zero as they were before. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/attention/inspect.h"
#include "attention_judge.h"
#include "heads.h"
#include "tools/problem/random.h"

/* ---- the cases ---------------------------------------------------------------------------------- */
typedef enum data_kind {
    NORMAL,
    EQUAL,
    HUGE_VALUES,
    TINY,
    RISING,
    FALLING,
    SCALED,
    REPEATED,
    OVERFLOWING,
    CLIMBING,
    KINDS
} data_kind;
static const char *const kind_names[KINDS] = {"normal",  "equal",  "huge",     "tiny",        "rising",
                                              "falling", "scaled", "repeated", "overflowing", "climbing"};

/* The last type is tested only if a row takes it, and only with head dims that are multiples of 16. */
static const ptxpack_dtype dtypes[] = {PTXPACK_F16, PTXPACK_BF16, PTXPACK_E4M3};
/* Large pairs come first: they take longest.  Two more numbers are query heads and key heads of cases for wgmma.ptx alone, with the
 * rows of several heads in a tile. */
static const int pairs[][4] = {
    {4224, 4224},    {4096, 4096},    {1024, 1024},    {1023, 1024},    {1024, 1023},
    {640, 128},      {512, 256},      {256, 512},      {384, 256},      {256, 256},
    {799, 3},        {128, 217},      {108, 256},      {113, 211},      {113, 203},
    {128, 192},      {113, 128},      {64, 128},       {239, 1},        {1, 1},
    {1, 1328},       {4, 700},        {8, 5000},       {7, 300},        {7, 90}, /* few query rows */
    {17, 330},  /* several tiles of rows of decode.ptx, with grids in which a block has no range */
    {190, 638}, /* warpgroups whose chunks begin many blocks of keys apart */
    {16, 140, 8, 2}, {5, 300, 16, 1}, {70, 96, 16, 2}, {33, 203, 4, 2}, {1, 170, 8, 1},
    {64, 130, 4, 1}, {9, 150, 12, 2}, {3, 130, 32, 1},
};
static const int head_dims[] = {256, 192, 128, 112, 96, 80, 72, 64, 40, 32, 8};
static const int heads[][2] = {{6, 6}, {6, 2}, {6, 1}};
enum {
    PAIRS = sizeof pairs / sizeof pairs[0],
    HEAD_DIMS = sizeof head_dims / sizeof head_dims[0],
    HEADS = sizeof heads / sizeof heads[0],
    DTYPES = sizeof dtypes / sizeof dtypes[0]
};

/* Which keys a query sees, with which softcap, sinks, ALiBi or chunks.  Every case runs with the plain masks; some cases also run
 * with the others, windows smaller and larger than any tile and softcaps (mask_in_matrix). */
typedef struct masking {
    const char  *name;
    ptxpack_mask mask;
    int32_t      left, right;
    float        softcap;
    bool         brief; /* runs on the emulated driver, too, for every row of the table */
    uint32_t     options;
    int32_t      chunk;
} masking;
static const masking masks[] = {
    {"full", PTXPACK_MASK_NONE, 0, 0, 0, true, 0, 0},
    {"top-left", PTXPACK_MASK_CAUSAL_TOP_LEFT, 0, 0, 0, true, 0, 0},
    {"bottom-right", PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 0, true, 0, 0},
    {"window 20,0 bottom-right", PTXPACK_MASK_WINDOW_BOTTOM_RIGHT, 20, 0, 0, true, 0, 0},
    {"window 33,9 top-left softcap 15", PTXPACK_MASK_WINDOW_TOP_LEFT, 33, 9, 15, true, 0, 0},
    {"window 0,0 bottom-right", PTXPACK_MASK_WINDOW_BOTTOM_RIGHT, 0, 0, 0, false, 0, 0},
    /* the last of 64 rows sees all but the first key of a block of 128 */
    {"window 62,none top-left", PTXPACK_MASK_WINDOW_TOP_LEFT, 62, -1, 0, false, 0, 0},
    {"window none,5 bottom-right", PTXPACK_MASK_WINDOW_BOTTOM_RIGHT, -1, 5, 0, false, 0, 0},
    {"window 300,1 bottom-right", PTXPACK_MASK_WINDOW_BOTTOM_RIGHT, 300, 1, 0, false, 0, 0},
    {"window 129,64 top-left", PTXPACK_MASK_WINDOW_TOP_LEFT, 129, 64, 0, false, 0, 0},
    {"full softcap 15", PTXPACK_MASK_NONE, 0, 0, 15, false, 0, 0},
    {"bottom-right softcap 30", PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 30, false, 0, 0},
    {"bottom-right sinks", PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 0, true, PTXPACK_SINKS, 0},
    {"full sinks", PTXPACK_MASK_NONE, 0, 0, 0, false, PTXPACK_SINKS, 0},
    {"window 33,9 top-left softcap 15 sinks", PTXPACK_MASK_WINDOW_TOP_LEFT, 33, 9, 15, false, PTXPACK_SINKS, 0},
    {"bottom-right alibi", PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 0, true, PTXPACK_ALIBI, 0},
    {"full alibi", PTXPACK_MASK_NONE, 0, 0, 0, false, PTXPACK_ALIBI, 0},
    {"window 33,9 top-left softcap 15 alibi sinks", PTXPACK_MASK_WINDOW_TOP_LEFT, 33, 9, 15, false,
     PTXPACK_ALIBI | PTXPACK_SINKS, 0},
    /* within a block of keys; tiles of rows in several chunks; of one key; a multiple of every block */
    {"bottom-right chunk 48", PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 0, true, 0, 48},
    {"bottom-right chunk 1", PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 0, false, 0, 1},
    {"bottom-right softcap 15 chunk 100 sinks", PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 15, false,
     PTXPACK_SINKS, 100},
    {"bottom-right chunk 65 alibi", PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 0, false, PTXPACK_ALIBI, 65},
    {"bottom-right chunk 128", PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 0, false, 0, 128},
    {"bottom-right chunk 160", PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 0, false, 0, 160},
    {"bottom-right chunk 512", PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 0, false, 0, 512},
};
enum { MASKS = sizeof masks / sizeof masks[0], PLAIN_MASKS = 3 };

typedef struct attention_case {
    ptxpack_attention_desc desc; /* compact, without a mask */
    data_kind              kind;
    uint64_t               seed;
} attention_case;

static bool is_packed(int pair) { return pairs[pair][2] != 0; }
static bool heads_are_packed(const ptxpack_attention_desc *d)
{
    for (int pair = 0; pair < PAIRS; pair++)
        if (d->seqlen_q == pairs[pair][0] && d->seqlen_kv == pairs[pair][1])
            return is_packed(pair);
    return false;
}

/* The part for the emulated driver: every row of the table at a size with partial tiles and several turns of
 * the pipeline; a longer size and every kind of data for one or two head dims. */
static bool in_brief_matrix(const check *c, int pair, int d, int group, data_kind kind)
{
    int  rows = pairs[pair][0], keys = pairs[pair][1];
    bool partial = rows == 113 && keys == 203;
    if (heads[group][1] != 2)
        return false;
    if (is_packed(pair))
        return (d == 64 || d == 128 || d == 256) &&
               (kind == NORMAL || (kind == OVERFLOWING && rows == 33 && d != 256));
    if (rows == 1 && keys > 1 && kind == RISING) /* the maximum rises from part to part of a tile */
        return d == 64;
    if (kind != NORMAL)
        return partial && (d == 64 || (d == 128 && kind >= OVERFLOWING)) && !c->quick;
    if (rows == 256 && keys == 512)
        return (d == 64 || d == 128) && !c->quick;
    if (rows == 239)
        return d == 40 || d == 64;
    if (rows == 799) /* windows that end before the last tiles begin */
        return d == 128 && !c->quick;
    if (rows == 8) /* only in parts */
        return d == 64 && !c->quick;
    if (rows == 17 || rows == 190)
        return d == 64 || d == 128 || d == 256;
    if (rows == 7)
        return d == 64 || (keys == 300 && (d == 256 || d == 128));
    if (rows == 1 || rows == 4)
        return keys > 1 && (d == 256 || d == 128 || d == 112 || d == 64);
    return partial &&
           (d == 256 || d == 192 || d == 128 || d == 112 || d == 96 || d == 64 || d == 40 || d == 32);
}

/* Whether the case belongs to the run. */
static bool in_matrix(const check *c, int pair, int dim, int group, data_kind kind)
{
    int  d = head_dims[dim], rows = pairs[pair][0], keys = pairs[pair][1];
    bool some_pair = (rows == 113 && keys == 203) || (rows == 256 && keys == 512) ||
                     (rows == 1023 && keys == 1024);
    bool some_dim = d == 64 || d == 128 || d == 40;
    if (c->brief)
        return in_brief_matrix(c, pair, d, group, kind);
    if (is_packed(pair))
        return heads[group][1] == 2 && kind == NORMAL && (!c->quick || some_dim || d == 256);
    if (kind != NORMAL)
        return some_pair && some_dim && heads[group][1] == 2 && !(c->quick && (d != 64 || rows != 256));
    if (!c->quick)
        return true;
    return heads[group][1] == 2 && (some_dim || d == 256) &&
           (some_pair || rows == 1 || rows == 239 || keys == 128);
}

/* Whether the case runs with that mask: the special masks run with normal data of grouped heads, and with
 * sequence lengths that differ. */
static bool mask_in_matrix(const check *c, const attention_case *a, int mask)
{
    const ptxpack_attention_desc *d = &a->desc;
    bool                          partial = d->seqlen_q == 113 && d->seqlen_kv == 203;
    bool few = d->seqlen_q == 4 || d->seqlen_q == 15, many = d->seqlen_q == 190 || d->seqlen_q == 256 ||
                                                             d->seqlen_q == 640 || d->seqlen_q == 799 ||
                                                             d->seqlen_q == 1023;
    if (c->mask != NULL && strstr(masks[mask].name, c->mask) == NULL)
        return false;
    if (c->brief && heads_are_packed(d)) /* of the masks that the emulated driver runs some, in turn */
        return masks[mask].brief && (mask % 2 == d->seqlen_q % 2 || d->head_dim == 64);
    if (c->brief && d->seqlen_q == 190)
        return masks[mask].chunk > 160;
    if (mask < PLAIN_MASKS)
        return true;
    if ((masks[mask].options & PTXPACK_ALIBI) != 0 && d->dtype == PTXPACK_E4M3)
        return false;
    if (masks[mask].options != 0 && (d->seqlen_q == 239 || (partial && masks[mask].mask == PTXPACK_MASK_NONE)))
        return a->kind == NORMAL || a->kind == RISING ||
               a->kind >= OVERFLOWING; /* rows without keys; references far off */
    if (a->kind != NORMAL || !(c->brief || d->heads_kv == 2))
        return false;
    /* several blocks of keys: windows that span more than one, and for some rows narrow ones */
    if (c->brief && d->seqlen_q == 256)
        return masks[mask].left > 100 || masks[mask].chunk == 160 ||
               (d->head_dim == 64 && (masks[mask].left == 20 || masks[mask].left == 62));
    if (c->brief)
        return masks[mask].brief ? partial || few || d->seqlen_q == 799 : (partial || few) && d->head_dim == 64;
    return partial || few || d->seqlen_q == 239 || heads_are_packed(d) || (many && d->seqlen_q != d->seqlen_kv);
}

/* Into how many parts rows of wgmma.ptx cut the keys of a tile.  The first is what the library chooses; on the emulated
 * driver, whose few multiprocessors would have it split small problems, it is the build that cannot. */
static const int parts_of_keys[] = {0, ATTENTION_ONE_PART, 2, 3, 7, ATTENTION_PARTS_MOST};
enum { PARTS = sizeof parts_of_keys / sizeof parts_of_keys[0] };

static bool parts_in_matrix(const check *c, const attention_case *a, const ptxpack_variant *row, int mask,
                            int parts)
{
    int  rows = a->desc.seqlen_q, keys = a->desc.seqlen_kv;
    bool wgmma = plan_method_of(row) == &attention_wgmma && a->desc.dtype != PTXPACK_E4M3;
    if (heads_are_packed(&a->desc)) /* the build that cannot split, and those that can */
        return wgmma && ptxpack_variant_parameter(row, "BLOCK_M", 0) <= 128 &&
               (parts == 0 || parts == 3 || (!c->brief && parts > 1));
    if (c->brief && rows == 8) /* only this */
        return wgmma && mask != 1 && parts >= 7 && parts != ATTENTION_ONE_PART;
    if (parts == 0 || !wgmma || a->desc.heads_kv > 2)
        return parts == 0;
    if (rows == 113 && keys == 203)
        return parts == 2 || (parts == ATTENTION_ONE_PART && mask < PLAIN_MASKS && a->kind != TINY);
    if (rows == 256 && keys == 512)
        return parts == 3 || (parts == ATTENTION_ONE_PART && mask < PLAIN_MASKS);
    return !c->brief && (rows == 8 || (rows == 1023 && keys == 1024 && a->kind == NORMAL));
}

static int key_heads_in_brief(int dim, int pair)
{ /* the emulated GPU has four multiprocessors: a block takes 3 of 2 * 6 heads, or 5/4 of a head */
    if (pairs[pair][0] == 190 && head_dims[dim] == 64) /* a block takes several tiles, in whatever order */
        return 4;
    return pairs[pair][0] != 7 ? 1 + (head_dims[dim] == 64) : pairs[pair][1] == 90 ? 6 : 5;
}

static attention_case make_case(const check *c, int dtype, int pair, int dim, int group, data_kind kind)
{
    int64_t size = (int64_t)pairs[pair][0] * pairs[pair][1];
    /* clang-format off */
    attention_case made = {
        .desc =
            {
                .size = sizeof made.desc,
                .dtype = dtypes[dtype],
                .batch = size > 2000000 || (c->brief && pairs[pair][1] != 90) ? 1 : 2,
                .seqlen_q = pairs[pair][0],
                .seqlen_kv = pairs[pair][1],
                .heads_q = is_packed(pair) ? pairs[pair][2] : !c->brief ? heads[group][0] : 2 * key_heads_in_brief(dim, pair),
                .heads_kv = is_packed(pair) ? pairs[pair][3] : !c->brief ? heads[group][1] : key_heads_in_brief(dim, pair),
                .head_dim = head_dims[dim],
                .scale = kind == SCALED ? 0.7f : 0,
            },
        .kind = kind,
        .seed = c->seed +
                (uint64_t)((((dtype * PAIRS + pair) * HEAD_DIMS + dim) * HEADS + group) * KINDS + (int)kind),
    };
    /* clang-format on */
    return made;
}

static void name_case(const attention_case *a, char name[128])
{
    const ptxpack_attention_desc *d = &a->desc;
    snprintf(name, 128, "attention %s d%d %d/%d %dx%d %s", ptxpack_dtype_name(d->dtype), (int)d->head_dim,
             (int)d->heads_q, (int)d->heads_kv, (int)d->seqlen_q, (int)d->seqlen_kv, kind_names[a->kind]);
}

/* ---- one case's data and reference -------------------------------------------------------------- */
/* Compact tensors, and the expected results of `rows`. */
typedef struct problem {
    attention_case   a;
    size_t           elements[TENSOR_COUNT];
    void            *tensor[TENSOR_COUNT]; /* q, k, v; o is not used */
    float           *scales;               /* for fp8: [q, k, v][batch][heads_kv] */
    ptxpack_descales descales;
    float           *sinks, *slopes; /* [heads_q] */
    attention_row   *rows;           /* compared rows, in order of batch, head, row */
    size_t           row_count;
    /* for masks in the matrix; want: for the mask in a.desc */
    attention_expected by_mask[MASKS], want;
} problem;

static void fill_value(const problem *p, int tensor, float value)
{
    for (size_t i = 0; i < p->elements[tensor]; i++)
        ptxpack_set_element(p->a.desc.dtype, p->tensor[tensor], i, value);
}

static void multiply_by(const problem *p, int tensor, float factor)
{
    ptxpack_dtype type = p->a.desc.dtype;
    for (size_t i = 0; i < p->elements[tensor]; i++) {
        float value = ptxpack_element(type, p->tensor[tensor], i) * factor;
        if (type != PTXPACK_BF16)
            value = fmaxf(-60000, fminf(60000, value)); /* keep it finite */
        ptxpack_set_element(type, p->tensor[tensor], i, value);
    }
}

/* Makes keys whose scores rise from `least` by `most` along the sequence, or fall: the running maximum changes
 * often. */
static void fill_slope(const problem *p, bool rising, double least, double most)
{
    const ptxpack_attention_desc *d = &p->a.desc;
    size_t                        row = (size_t)d->heads_kv * (size_t)d->head_dim;
    fill_value(p, TENSOR_Q, 1);
    for (size_t i = 0; i < p->elements[TENSOR_K]; i++) {
        size_t j = i / row % (size_t)d->seqlen_kv, step = rising ? j : (size_t)d->seqlen_kv - 1 - j;
        double height = (least + most * (double)step / d->seqlen_kv) / sqrt(d->head_dim);
        ptxpack_set_element(d->dtype, p->tensor[TENSOR_K], i, (float)height);
    }
}

/* Makes rows of Q differ, eight at a time, so that the two rows of a lane climb by different amounts: by 2^64 to 2^126,
 * by more, or to sums on both sides of 2^32 in lanes that share a row. */
static void vary_rows(const problem *p)
{
    static const float            factors[] = {1, 2.5f, 0.285f, 1, 1, 0.285f, 0.285f, 2.5f, 2.5f, 0.285f};
    const ptxpack_attention_desc *d = &p->a.desc;
    size_t row = (size_t)d->heads_q * (size_t)d->head_dim, count = sizeof factors / sizeof factors[0];
    for (size_t i = 0; i < p->elements[TENSOR_Q]; i++)
        ptxpack_set_element(d->dtype, p->tensor[TENSOR_Q], i,
                            factors[i / row % (size_t)d->seqlen_q / 8 % count]);
}

/* The number of key heads of all batches: each has a descale. */
static size_t heads_of(const problem *p) { return (size_t)p->a.desc.batch * (size_t)p->a.desc.heads_kv; }

/* For fp8 a factor of 64 is too large for the 16-row tiles and the LSE: wgmma cuts off a sum 13 bits below its
 * largest product.  This moves scores of some 100 nats by up to a tenth, and the weights of keys with nearly
 * equal scores with them.  For bf16 a reference of 2^15 and more is meant: ptx/attention/wgmma_half.ptx, SS_FAR. */
static float huge_factor(ptxpack_dtype type, int tensor)
{
    if (type == PTXPACK_E4M3)
        return tensor == TENSOR_V ? 64 : 4;
    return tensor == TENSOR_V ? 8192 : type == PTXPACK_BF16 ? 128 : 64;
}

static void fill_data(problem *p)
{
    const ptxpack_attention_desc *d = &p->a.desc;
    ptxpack_dtype                 type = d->dtype;
    random_state                  random = random_start(p->a.seed);
    for (int t = TENSOR_Q; t <= TENSOR_V; t++) {
        random_normal(&random, type, p->tensor[t], p->elements[t]);
        if (p->a.kind == EQUAL)
            fill_value(p, t, 1);
        /* scores of some 10^4, so P is nearly one-hot; outputs are near the largest f16 */
        if (p->a.kind == HUGE_VALUES)
            multiply_by(p, t, huge_factor(type, t));
        if (p->a.kind == TINY)
            multiply_by(p, t, type == PTXPACK_E4M3 ? 0x1p-7f : type == PTXPACK_F16 ? 0x1p-18f : 0x1p-60f);
        if (p->a.kind == REPEATED && t != TENSOR_Q) { /* every batch repeats the first: stride 0 */
            size_t part = p->elements[t] * ptxpack_dtype_bytes(type) / (size_t)p->a.desc.batch;
            for (int b = 1; b < p->a.desc.batch; b++)
                memcpy((char *)p->tensor[t] + (size_t)b * part, p->tensor[t], part);
        }
    }
    if (p->a.kind == RISING || p->a.kind == FALLING)
        fill_slope(p, p->a.kind == RISING, 0, 60);
    /* By 2^110 each 128 keys: p overflow again and again.  From the scores that bf16 begins with, 120 can be subtracted
     * exactly. */
    if (p->a.kind == CLIMBING) {
        fill_slope(p, false, type == PTXPACK_BF16 ? 800 : 0, 0.6 * p->a.desc.seqlen_kv);
        vary_rows(p);
    }
    if (p->a.kind == OVERFLOWING) { /* by 2^46 each 128 keys: p is below 2^64, and O overflows f32 */
        fill_slope(p, false, 0, 0.25 * p->a.desc.seqlen_kv);
        multiply_by(p, TENSOR_V, 1e30f);
    }
    random_scales(&random, p->scales, 3 * heads_of(p));
    check_fill_sinks(p->sinks, d->heads_q, p->a.kind == NORMAL ? 0 : 4);
    check_fill_slopes(p->slopes, d->heads_q, p->a.kind == NORMAL ? 0 : 4);
    if (p->a.kind == CLIMBING && heads_of(p) > 1)
        p->scales[0] = 0; /* all scores of a head are 0 */
}

/* How many rows of each head are compared: all, or as many as take about two seconds for each mask. */
static size_t rows_per_head(const ptxpack_attention_desc *d)
{
    double all = d->seqlen_q, heads_in_all = (double)d->batch * d->heads_q;
    double affordable = 4e9 / (heads_in_all * d->seqlen_kv * 4.0 * d->head_dim);
    return (size_t)(affordable >= all ? all : affordable < 96 ? fmin(96, all) : affordable);
}

/* Picks the first and last row of every head, and a random one from each of equal parts between them. */
static void pick_rows(problem *p)
{
    const ptxpack_attention_desc *d = &p->a.desc;
    random_state                  random = random_start(~p->a.seed);
    size_t                        per_head = rows_per_head(d), rows = (size_t)d->seqlen_q;
    for (size_t n = 0; n < p->row_count; n++) {
        size_t i = n % per_head, head = n / per_head, first = i * rows / per_head,
               next = (i + 1) * rows / per_head;
        size_t row = i == 0 ? 0 : i + 1 == per_head ? rows - 1 : first + random_below(&random, next - first);
        p->rows[n] = (attention_row){(int32_t)(head / (size_t)d->heads_q), (int32_t)(head % (size_t)d->heads_q),
                                     (int32_t)row};
    }
}

static void free_problem(problem *p)
{
    for (int t = 0; t < TENSOR_COUNT; t++)
        free(p->tensor[t]);
    free(p->scales);
    free(p->sinks);
    free(p->slopes);
    free(p->rows);
    for (int mask = 0; mask < MASKS; mask++) {
        free(p->by_mask[mask].ref);
        free(p->by_mask[mask].rounded);
        free(p->by_mask[mask].lse);
    }
}

static bool make_problem(const check *c, const attention_case *a, problem *p)
{
    const ptxpack_attention_desc *d = &a->desc;
    size_t dim = (size_t)d->head_dim, rows_q = (size_t)d->batch * (size_t)d->seqlen_q * (size_t)d->heads_q;
    size_t rows_kv = (size_t)d->batch * (size_t)d->seqlen_kv * (size_t)d->heads_kv;
    memset(p, 0, sizeof *p);
    p->a = *a;
    p->row_count = (size_t)d->batch * (size_t)d->heads_q * rows_per_head(d);
    bool ok = true;
    for (int t = TENSOR_Q; t <= TENSOR_V; t++) {
        p->elements[t] = (t == TENSOR_Q ? rows_q : rows_kv) * dim;
        p->tensor[t] = malloc(p->elements[t] * ptxpack_dtype_bytes(d->dtype));
        ok = ok && p->tensor[t] != NULL;
    }
    p->scales = (float *)malloc(3 * heads_of(p) * sizeof *p->scales);
    p->sinks = (float *)malloc((size_t)d->heads_q * sizeof *p->sinks);
    p->slopes = (float *)malloc((size_t)d->heads_q * sizeof *p->slopes);
    ok = ok && p->scales != NULL && p->sinks != NULL && p->slopes != NULL;
    p->descales = (ptxpack_descales){p->scales, p->scales + heads_of(p), p->scales + 2 * heads_of(p)};
    p->rows = (attention_row *)malloc(p->row_count * sizeof *p->rows);
    for (int mask = 0; mask < MASKS; mask++) {
        attention_expected *e = &p->by_mask[mask];
        if (!mask_in_matrix(c, a, mask))
            continue;
        e->ref = (double *)malloc(p->row_count * dim * sizeof(double));
        e->rounded = (double *)malloc(p->row_count * dim * sizeof(double));
        e->lse = (double *)malloc(p->row_count * sizeof(double));
        ok = ok && e->ref != NULL && e->rounded != NULL && e->lse != NULL;
    }
    if (!ok || p->rows == NULL)
        return false;
    fill_data(p);
    pick_rows(p);
    return true;
}

static void set_mask(problem *p, int mask)
{
    p->a.desc.mask = masks[mask].mask;
    p->a.desc.window_left = masks[mask].left;
    p->a.desc.window_right = masks[mask].right;
    p->a.desc.softcap = masks[mask].softcap;
    p->a.desc.options = masks[mask].options;
    p->a.desc.chunk = masks[mask].chunk;
    p->want = p->by_mask[mask];
}

/* Computes the reference for every mask on this thread alone, because cases run on several threads. */
static bool refer(const check *c, problem *p)
{
    bool ok = true;
    for (int mask = 0; mask < MASKS && ok; mask++) {
        attention_reference *reference;
        if (!mask_in_matrix(c, &p->a, mask))
            continue;
        set_mask(p, mask);
        const attention_row_results     results = {p->want.ref, p->want.rounded, p->want.lse};
        const ptxpack_attention_lengths arrays = {.sinks = p->sinks, .slopes = p->slopes};
        ok = attention_reference_open(&p->a.desc, p->tensor[TENSOR_Q], p->tensor[TENSOR_K], p->tensor[TENSOR_V],
                                      &p->descales, &arrays, &reference) == PTXPACK_OK;
        ok = ok && attention_reference_rows(reference, p->rows, p->row_count, 1, &results) == PTXPACK_OK;
        attention_reference_close(reference);
    }
    return ok;
}

/* ---- running a case ----------------------------------------------------------------------------- */
/* Runs the problem's mask in the images' layout on one row of kernels.def. */
static void run_one(check *c, const problem *p, check_images *images, const ptxpack_variant *row,
                    const char *name)
{
    check_output             out;
    char                    *what = (char *)malloc(ATTENTION_WHAT);
    const attention_compared compared = {.desc = p->a.desc,
                                         .rows = p->rows,
                                         .row_count = p->row_count,
                                         .per_head = rows_per_head(&p->a.desc),
                                         .want = p->want,
                                         .sinks = (p->a.desc.options & PTXPACK_SINKS) != 0 ? p->sinks : NULL};
    if (what == NULL) {
        check_broken(c, name, "no memory");
    } else if (!check_images_run(c, images, &p->a.desc, row, &out)) {
        check_broken(c, name, images->line);
    } else if (!out.repeats) {
        check_record(c, name, "a second run gave other bits");
    } else if (!out.clean) {
        check_record(c, name, "the workspace's counters are not zero after the launches");
    } else if (!attention_judge(&compared, &out, what) || !check_output_guards(&out, what, ATTENTION_WHAT)) {
        check_record(c, name, what);
    } else {
        check_record(c, name, NULL);
    }
    free(what);
}

/* The same for all numbers of parts. */
static void run_parts(check *c, problem *p, check_images *images, const ptxpack_variant *row, int mask,
                      const char *name)
{
    char full[352];
    for (int i = 0; i < PARTS && !atomic_load(&c->broken); i++) {
        int parts = parts_of_keys[i];
        if (!parts_in_matrix(c, &p->a, row, mask, parts))
            continue;
        bool packed = heads_are_packed(&p->a.desc);
        p->a.desc.split_rows = parts != 0 || c->brief || packed
                                   ? ATTENTION_PARTS + (parts != 0 ? (int32_t)parts : 1) +
                                         (packed ? ATTENTION_PACK : 0)
                                   : 0;
        snprintf(full, sizeof full, parts != 0 ? "%s, %d parts" : "%s", name, parts);
        run_one(c, p, images, row, full);
    }
    p->a.desc.split_rows = 0;
}

static bool is_fp8(const ptxpack_variant *row) { return ptxpack_variant_parameter(row, "FP8", 0) != 0; }

/* Whether `row` is tried: it can be taken, and it has the smallest HEAD_DIM of its kernel that suffices. */
static bool row_suits(const check *c, const ptxpack_variant *row, const ptxpack_attention_desc *d)
{
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    char                   why[PLAN_LINE];
    int64_t                dim = ptxpack_variant_parameter(row, "HEAD_DIM", 0);
    /* on the emulated driver problems of few query rows are for decode.ptx alone */
    if ((c->brief && (d->seqlen_q <= 7 || d->seqlen_q == 15) && d->seqlen_kv > 1 && !heads_are_packed(d) &&
         plan_method_of(row) != &attention_decode) ||
        plan_row_refusal(&attention_op, c->gpu.handle, &ptxpack_device(c->gpu.handle)->caps, d, row, why) !=
            NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        int64_t other = ptxpack_variant_parameter(&rows[i], "HEAD_DIM", 0);
        if (strcmp(rows[i].file, row->file) == 0 && is_fp8(&rows[i]) == is_fp8(row) && other >= d->head_dim &&
            other < dim)
            return false;
    }
    return true;
}

/* All of the matrix on the emulated driver takes an hour: there each mask runs on each row with one of the two types of 16 bits, in
 * turn, so that every row and every mask has both.  With a filter, and on rows that have one type, nothing is left out. */
static bool is_other_types_turn(const check *c, const ptxpack_variant *row, int mask, size_t index,
                                ptxpack_dtype dtype)
{
    return c->brief && c->filter == NULL && plan_row_takes(row, PTXPACK_BF16) &&
           plan_row_takes(row, PTXPACK_F16) && ((size_t)mask + index + (dtype == PTXPACK_BF16)) % 2 != 0;
}

/* Runs every mask and row in one layout. */
static void run_layout(check *c, problem *p, check_images *images, check_layout layout, const char *name)
{
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    char                   full[320];
    if (!check_images_fill(images, &p->a.desc, layout, p->a.kind == REPEATED, p->tensor, &p->descales, p->sinks,
                           p->slopes)) {
        check_broken(c, name, "no memory");
        return;
    }
    for (int mask = 0; mask < MASKS; mask++) {
        if (!mask_in_matrix(c, &p->a, mask) || (mask >= PLAIN_MASKS && layout == GAPPED_BSHD))
            continue;
        set_mask(p, mask);
        for (size_t i = 0; i < count && !atomic_load(&c->broken); i++) {
            if (!check_row_wanted(c, &rows[i]) || !row_suits(c, &rows[i], &images->desc) ||
                is_other_types_turn(c, &rows[i], mask, i, images->desc.dtype))
                continue;
            snprintf(full, sizeof full, "%s %s %s %s", name, masks[mask].name, check_layout_names[layout],
                     rows[i].id);
            run_parts(c, p, images, &rows[i], mask, full);
        }
    }
}

static void run_case(check *c, const attention_case *a, check_images *images)
{
    problem p;
    char    name[128];
    name_case(a, name);
    if (!make_problem(c, a, &p))
        check_broken(c, name, "no memory");
    else if (!refer(c, &p))
        check_broken(c, name, ptxpack_detail(NULL));
    bool packed = heads_are_packed(&a->desc) && a->desc.head_dim == 64 && a->desc.seqlen_q == 16;
    int  layouts = c->brief && a->desc.head_dim != 40 && !packed ? 1 : CHECK_LAYOUTS;
    for (int layout = 0; layout < layouts && !atomic_load(&c->broken); layout++)
        run_layout(c, &p, images, (check_layout)layout, name);
    free_problem(&p);
}

/* ---- all cases, on threads ---------------------------------------------------------------------- */
/* Whether a row that runs here takes fp8; prints a line when none does. */
static bool fp8_is_taken(const check *c)
{
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    char                   why[256];
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].op, "attention") == 0 && is_fp8(&rows[i]) &&
            ptxpack_variant_refusal(&rows[i], &ptxpack_device(c->gpu.handle)->caps, why, sizeof why) == NULL)
            return true;
    if (!c->quiet && !c->list)
        puts("SKIP: attention e4m3: no row of kernels.def that runs here takes it");
    return false;
}

static size_t list_cases(check *c, attention_case *cases)
{
    size_t count = 0;
    int    types = fp8_is_taken(c) ? DTYPES : DTYPES - 1;
    for (int pair = 0; pair < PAIRS; pair++)
        for (int dim = 0; dim < HEAD_DIMS; dim++)
            for (int group = 0; group < HEADS; group++)
                for (int kind = 0; kind < KINDS; kind++)
                    for (int dtype = 0; dtype < types; dtype++) {
                        char name[128];
                        if (!in_matrix(c, pair, dim, group, (data_kind)kind) ||
                            (dtypes[dtype] == PTXPACK_E4M3 && head_dims[dim] % 16 != 0))
                            continue;
                        attention_case a = make_case(c, dtype, pair, dim, group, (data_kind)kind);
                        name_case(&a, name);
                        if (check_wanted(c, name))
                            cases[count++] = a;
                    }
    return count;
}

static void name_at(const void *cases, size_t i, char name[128])
{
    name_case((const attention_case *)cases + i, name);
}

static void run_at(check *c, const void *cases, size_t i, void *images)
{
    run_case(c, (const attention_case *)cases + i, (check_images *)images);
}

static void free_images(check *c, void *images) { check_images_free(c, (check_images *)images); }

void check_attention(check *c)
{
    attention_case *cases = (attention_case *)calloc((size_t)PAIRS * HEAD_DIMS * HEADS * KINDS * DTYPES,
                                                     sizeof *cases);
    if (cases == NULL) {
        check_broken(c, "attention", "no memory");
        return;
    }
    const check_cases all = {.op = "attention",
                             .cases = cases,
                             .count = list_cases(c, cases),
                             .images = sizeof(check_images),
                             .name = name_at,
                             .run = run_at,
                             .free = free_images};
    check_run_cases(c, &all);
    free(cases);
}
