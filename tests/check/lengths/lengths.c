/* lengths.c - attention of sequences with lengths of their own, with packed and paged rows, against the reference.
 *
 * Cases    shapes of few and of many query rows x ways to store the rows x masks.  Each case runs on the rows of
 *          kernels.def that cover it, for several rounds of random lengths (zeros, ones and the longest among them) and random pages
 *          with ONE plan and one workspace; the later rounds are replays of one captured graph where the driver can.
 * Parts    Some shapes are only for rows of wgmma.ptx, which cut the keys of their tiles into so many parts at most.
 * Passes   Against the exact result, each head of each sequence has FlashAttention's bound (verify.h), where numbers are
 *          large with one rounding of them, and every
 *          LSE verify_lse_bound.  All that is not a row of a sequence is NaN in the inputs, and in the outputs
 *          keeps its bytes; a second launch gives the same bits; the workspace's counters are zero again.
 * Bytes    "bytes" cases have keys and values of e4m3 or int8, with descales for each head of each sequence, each head, or one.
 * Appends  "kvcache" cases launch an append and an attention in one call, in the ways of FlashAttention's tests of a cache:
 *          the new rows are NaN in the cache before it, and all bytes of q, k and v are right after it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image.h"
#include "tools/problem/random.h"
#include "tools/problem/verify.h"

enum { ROUNDS = 3, WHAT = 512 };
/* for wgmma.ptx alone, with the rows of several heads in a tile */
enum { PACKED = ATTENTION_PARTS + ATTENTION_PACK + 1 };

/* ---- the cases ---------------------------------------------------------------------------------------- */
static const struct shape {
    ptxpack_dtype dtype;
    int32_t       batch, seqlen_q, seqlen_kv, heads_q, heads_kv, head_dim, split_rows;
    int32_t       values;  /* head_dim_v */
    bool          in_keys; /* PTXPACK_VALUES_IN_KEYS */
} shapes[] = {
    {PTXPACK_F16, 5, 1, 700, 8, 2, 64, 0, 0, false},
    {PTXPACK_BF16, 4, 2, 300, 8, 1, 128, 0, 0, false},
    {PTXPACK_F16, 7, 3, 150, 4, 4, 112, 0, 0, false},
    {PTXPACK_BF16, 3, 4, 90, 4, 1, 256, 0, 0, false},
    {PTXPACK_BF16, 37, 1, 130, 4, 2, 64, 0, 0, false},
    {PTXPACK_F16, 2, 1, 2100, 2, 1, 128, 0, 0, false},
    {PTXPACK_BF16, 40, 2, 40, 3, 3, 40, 0, 0, false},
    {PTXPACK_F16, 2, 113, 203, 2, 1, 64, 0, 0, false},
    {PTXPACK_F16, 2, 140, 90, 1, 1, 128, 0, 0, false},
    {PTXPACK_BF16, 1, 70, 260, 2, 1, 128, 0, 0, false},
    {PTXPACK_F16, 2, 40, 120, 1, 1, 40, 0, 0, false},
    {PTXPACK_BF16, 2, 66, 70, 1, 1, 256, 0, 0, false},
    {PTXPACK_F16, 6, 1, 900, 4, 2, 64, 256, 0, false},
    {PTXPACK_BF16, 3, 2, 1100, 4, 1, 128, 512, 0, false},
    {PTXPACK_BF16, 4, 3, 600, 3, 1, 256, 256, 0, false},
    {PTXPACK_F16, 3, 40, 150, 8, 2, 64, PACKED, 0, false},
    {PTXPACK_BF16, 5, 7, 203, 8, 1, 128, PACKED, 0, false},
    {PTXPACK_BF16, 2, 30, 90, 6, 1, 256, PACKED, 0, false},
    {PTXPACK_F16, 2, 6, 140, 16, 1, 128, PACKED, 0, false},
    /* several tiles of rows share a key head: the second one is not full; four; with parts of split_rows; fewer tiles of a
     * head than key heads */
    {PTXPACK_F16, 4, 6, 330, 8, 2, 64, 0, 0, false},
    {PTXPACK_BF16, 3, 16, 270, 4, 1, 128, 0, 0, false},
    {PTXPACK_F16, 3, 5, 900, 8, 1, 128, 256, 0, false},
    {PTXPACK_F16, 1, 6, 170, 32, 8, 64, 0, 0, false},
    /* values with fewer columns, and with more; wide ones; those of the keys, of the 64 heads of a tile */
    {PTXPACK_BF16, 3, 70, 203, 4, 2, 192, 0, 128, false},
    {PTXPACK_F16, 4, 3, 150, 8, 2, 64, 0, 128, false},
    {PTXPACK_BF16, 2, 20, 90, 4, 2, 512, 0, 0, false},
    {PTXPACK_F16, 2, 2, 200, 64, 1, 576, PACKED, 512, true},
    /* parts, SHAPES_IN_PARTS of them: 2, 3 and 7 at most, several tiles of one part, those of the keys, packed heads */
    {PTXPACK_BF16, 3, 113, 203, 2, 1, 64, ATTENTION_PARTS + 2, 0, false},
    {PTXPACK_F16, 3, 70, 600, 2, 1, 128, ATTENTION_PARTS + 3, 0, false},
    {PTXPACK_BF16, 2, 40, 850, 2, 1, 128, ATTENTION_PARTS + 7, 0, false},
    {PTXPACK_BF16, 2, 66, 440, 2, 1, 256, ATTENTION_PARTS + 7, 0, false},
    {PTXPACK_F16, 3, 150, 150, 2, 2, 64, ATTENTION_PARTS + ATTENTION_ONE_PART, 0, false},
    {PTXPACK_BF16, 3, 1, 400, 16, 1, 576, ATTENTION_PARTS + ATTENTION_PACK + 4, 512, true},
    {PTXPACK_F16, 3, 7, 500, 8, 2, 64, ATTENTION_PARTS + ATTENTION_PACK + 3, 0, false},
    {PTXPACK_BF16, 3, 5, 600, 8, 1, 128, ATTENTION_PARTS + ATTENTION_PACK + 4, 0, false},
    {PTXPACK_BF16, 2, 20, 330, 4, 2, 256, ATTENTION_PARTS + ATTENTION_PACK + 3, 0, false},
};
/* Lists of blocks: shapes for them, which also have hooks, and masks, in turn. */
static const struct list_shape {
    struct shape shape;
    int32_t rows, keys, batch, head; /* of a block; block_batch and block_head in turns of the blocks of rows */
} list_shapes[] = {
    {{PTXPACK_F16, 2, 300, 400, 2, 1, 64, 0, 0, false}, 128, 128, 2, 1},
    {{PTXPACK_BF16, 1, 260, 700, 2, 2, 128, 0, 0, false}, 128, 128, 0, 1},
    {{PTXPACK_F16, 2, 130, 330, 1, 1, 256, 0, 0, false}, 128, 128, 1, 0},
    {{PTXPACK_BF16, 1, 290, 520, 2, 1, 64, 0, 0, false}, 256, 128, 0, 0},
    {{PTXPACK_F16, 1, 200, 600, 2, 1, 112, 0, 0, false}, 128, 256, 0, 1},
    {{PTXPACK_F16, 2, 150, 210, 2, 2, 128, 0, 0, false}, 64, 64, 2, 1},
    {{PTXPACK_BF16, 2, 200, 330, 2, 1, 128, 0, 0, false}, 128, 128, 2, 1},
    {{PTXPACK_F16, 2, 180, 290, 1, 1, 96, 0, 0, false}, 128, 128, 2, 0},
    {{PTXPACK_BF16, 1, 150, 400, 2, 1, 192, 0, 0, false}, 128, 160, 0, 1},
};
static const lengths_storage storages[] = {
    {"lengths", PTXPACK_ROWS_DENSE, PTXPACK_ROWS_DENSE, 0, PTXPACK_LENGTHS_KV, false, false},
    {"both lengths", PTXPACK_ROWS_DENSE, PTXPACK_ROWS_DENSE, 0, PTXPACK_LENGTHS_Q | PTXPACK_LENGTHS_KV, true,
     false},
    {"row map", PTXPACK_ROWS_DENSE, PTXPACK_ROWS_DENSE, 0, PTXPACK_LENGTHS_KV | PTXPACK_ROW_MAP, false, false},
    {"left pad", PTXPACK_ROWS_PACKED, PTXPACK_ROWS_DENSE, 0, PTXPACK_LENGTHS_KV | PTXPACK_LEFT_PAD, false,
     false},
    {"packed", PTXPACK_ROWS_PACKED, PTXPACK_ROWS_PACKED, 0, 0, false, false},
    {"packed with gaps", PTXPACK_ROWS_PACKED, PTXPACK_ROWS_PACKED, 0, PTXPACK_LENGTHS_Q | PTXPACK_LENGTHS_KV,
     false, false},
    {"pages of 1", PTXPACK_ROWS_PACKED, PTXPACK_ROWS_PAGED, 1, PTXPACK_LENGTHS_KV, false, false},
    {"pages of 4 heads first", PTXPACK_ROWS_DENSE, PTXPACK_ROWS_PAGED, 4, PTXPACK_LENGTHS_KV, true, false},
    {"pages of 16", PTXPACK_ROWS_DENSE, PTXPACK_ROWS_PAGED, 16, PTXPACK_LENGTHS_KV, false, true},
    {"pages of 16 without lengths", PTXPACK_ROWS_DENSE, PTXPACK_ROWS_PAGED, 16, 0, true, false},
    {"pages of 64 heads first", PTXPACK_ROWS_DENSE, PTXPACK_ROWS_PAGED, 64, PTXPACK_LENGTHS_KV, true, true},
    {"pages of 32 left pad", PTXPACK_ROWS_PACKED, PTXPACK_ROWS_PAGED, 32, PTXPACK_LENGTHS_KV | PTXPACK_LEFT_PAD,
     false, false},
    {"pages of 1024", PTXPACK_ROWS_DENSE, PTXPACK_ROWS_PAGED, 1024, PTXPACK_LENGTHS_Q | PTXPACK_LENGTHS_KV,
     false, false},
    /* with hooks alone: all lengths are those of the descriptor */
    {"equal", PTXPACK_ROWS_DENSE, PTXPACK_ROWS_DENSE, 0, 0, false, false},
};
static const struct masking {
    const char  *name;
    ptxpack_mask mask;
    int32_t      left, right;
    float        softcap;
    int32_t      chunk;
} masks[] = {
    {"bottom-right", PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 0, 0},
    {"full", PTXPACK_MASK_NONE, 0, 0, 0, 0},
    {"window 20,0 bottom-right", PTXPACK_MASK_WINDOW_BOTTOM_RIGHT, 20, 0, 0, 0},
    {"top-left", PTXPACK_MASK_CAUSAL_TOP_LEFT, 0, 0, 0, 0},
    {"window 33,9 top-left softcap 15", PTXPACK_MASK_WINDOW_TOP_LEFT, 33, 9, 15, 0},
    {"bottom-right chunk 40", PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 0, 40},
    {"bottom-right softcap 15 chunk 64", PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 15, 64},
};
static const lengths_append appends[] = {
    /* new rows, rotary_dim, options, packed, in place, stated */
    {"halves", 0, ALL_OF_HEAD, 0, false, false, false},
    {"pairs in place", 0, ALL_OF_HEAD, PTXPACK_ROPE_PAIRS, false, true, false},
    {"16 pairs stated", 0, 32, PTXPACK_ROPE_PAIRS, false, false, true},
    {"8 halves, positions", 0, 16, PTXPACK_LEFT_PAD, false, true, true},
    {"q at start", 0, ALL_OF_HEAD, PTXPACK_ROPE_Q_AT_START, false, false, false},
    {"copies of 1", 1, 0, 0, false, false, false},
    {"up to 5 copies", 5, 0, PTXPACK_LENGTHS_NEW, false, false, true},
    {"packed copies", 4, 0, 0, true, false, false},
    {"packed halves of k", 6, ALL_OF_HEAD, PTXPACK_LENGTHS_NEW | PTXPACK_LEFT_PAD, true, false, false},
};
enum {
    SHAPES = sizeof shapes / sizeof shapes[0],
    SHAPES_IN_PARTS = 9, /* the last ones */
    WHOLE_SHAPES = SHAPES - SHAPES_IN_PARTS,
    HOOK_STORAGES = sizeof storages / sizeof storages[0],
    STORAGES = HOOK_STORAGES - 1,
    MASKS = sizeof masks / sizeof masks[0],
    MASKS_IN_TURN = 5, /* those without chunks */
    APPENDS = sizeof appends / sizeof appends[0],
    LIST_SHAPES = sizeof list_shapes / sizeof list_shapes[0]
};

typedef struct lengths_case {
    int  shape, storage, mask, append, hook; /* append APPENDS, hook CHECK_HOOKS: none */
    int  kv;                                 /* from 1 on: keys of kv_types; 0: none */
    bool lists;                              /* of blocks, with equal lengths */
} lengths_case;

static const ptxpack_dtype kv_types[] = {(ptxpack_dtype)0, PTXPACK_E4M3, PTXPACK_INT8, PTXPACK_Q8_0};
enum { KV_TYPES = sizeof kv_types / sizeof kv_types[0] };

/* Every shape has either type with all storages, with masks in turn; in the short run with one of them, and every second one with
 * equal lengths. */
static bool bytes_in_matrix(const check *c, const lengths_case *a)
{
    const struct shape *s = &shapes[a->shape];
    const bool          few = c->brief || c->quick, equal = a->storage == STORAGES;
    if (s->values != 0 || s->head_dim > 256)
        return false; /* keys of bytes do not go with values of their own */
    if (kv_types[a->kv] == PTXPACK_Q8_0 && s->head_dim % 64 != 0)
        return false; /* blocks have no padding */
    if (s->head_dim % 16 != 0 || s->split_rows == PACKED || (a->shape + a->storage + a->kv) % MASKS != a->mask)
        return false;
    if (a->append < APPENDS && (s->head_dim % 16 != 0 || storages[a->storage].kv_rows == PTXPACK_ROWS_PACKED ||
                                (storages[a->storage].options & PTXPACK_LENGTHS_KV) == 0))
        return false;
    if (a->append < APPENDS) /* in the short run every sixth one, with shapes in turn */
        return !few || ((a->storage + a->append + a->kv) % 6 == 0 &&
                        (5 * a->storage + 7 * a->append + a->kv) % WHOLE_SHAPES == a->shape);
    return !few || (equal ? (a->shape + a->kv) % 2 == 0 : (3 * a->shape + 5 * a->kv) % STORAGES == a->storage);
}

static const struct shape *shape_of(const lengths_case *a)
{
    return a->lists ? &list_shapes[a->shape].shape : &shapes[a->shape];
}

/* On the emulated driver every shape has every storage once, with masks in turn, and some with chunks; every storage has every second append once,
 * with shapes in turn.  A quick run there is one with another schedule or on a later GPU, of texts that are run in full elsewhere:
 * every shape has every second storage, and every storage every second pair of shapes; of the hooks every second one. */
static bool in_matrix(const check *c, const lengths_case *a)
{
    const lengths_storage *s = &storages[a->storage];
    const bool             few = c->brief || c->quick, paged = s->kv_rows == PTXPACK_ROWS_PAGED;
    if (c->half && a->append == APPENDS && !a->lists && a->hook == CHECK_HOOKS &&
        (a->shape / 2 + a->storage) % 2 != 0)
        return false;
    if (c->half && !a->lists && a->hook < CHECK_TEXTS && (a->shape / 2 + a->hook / 2) % 2 != 0)
        return false;
    if (a->lists) /* every shape has every hook, or none of them, with masks in turn */
        return (2 * a->shape + a->hook) % MASKS == a->mask && (!few || (a->shape + a->hook) % 2 == 0);
    const bool own_values = shapes[a->shape].values != 0 || shapes[a->shape].head_dim > 256;
    if ((a->append < APPENDS || a->kv != 0) && own_values)
        return false; /* appends and keys of bytes do not go with them */
    if (a->shape >= WHOLE_SHAPES && (a->append < APPENDS || (paged && (s->options & PTXPACK_LEFT_PAD) != 0) ||
                                     (paged && s->page_rows < 16)))
        return false;                           /* wgmma.ptx does not take them */
    const int bias = 4 + a->hook - CHECK_TEXTS; /* in turns of its own: more hooks move no case with a bias */
    if (a->hook < CHECK_HOOKS && bias >= 4)     /* each shape has one bias, or bits; some with equal lengths */
        return a->append == APPENDS && (a->shape + a->storage + bias) % MASKS == a->mask &&
               (a->shape + a->shape / 4 + bias) % 4 == 0 &&
               (a->storage == STORAGES ? a->shape % 3 == 1
                                       : (5 * a->shape + 3 * bias) % STORAGES == a->storage);
    if (a->hook <
        CHECK_TEXTS) /* each shape has every second hook, with storages and masks in turn; or equal lengths */
        return a->append == APPENDS && (a->shape + a->storage + a->hook) % MASKS_IN_TURN == a->mask &&
               (a->storage == STORAGES
                    ? (a->shape + a->hook) % 4 == 1
                    : (a->shape + a->hook) % 2 == 0 && (5 * a->shape + 3 * a->hook) % STORAGES == a->storage);
    if (a->append == APPENDS && a->mask >= MASKS_IN_TURN)
        return !few || (a->shape + 3 * a->storage) % 10 == 5 * (a->mask - MASKS_IN_TURN);
    if (a->append == APPENDS)
        return !few || (a->shape + a->storage) % MASKS_IN_TURN == a->mask;
    if (s->kv_rows == PTXPACK_ROWS_PACKED || (s->options & PTXPACK_LENGTHS_KV) == 0)
        return false; /* there is no append to these */
    return (a->shape + a->storage + a->append) % MASKS_IN_TURN == a->mask &&
           (!few || ((a->storage + a->append) % 2 == 0 &&
                     (5 * a->storage + 7 * a->append) / 2 % WHOLE_SHAPES == a->shape));
}

/* Whether o is no mean of values: such cases have no sinks, nor huge values. */
static bool is_unnormalized(const lengths_case *a)
{
    return a->hook < CHECK_HOOKS && (check_hooks[a->hook].options & PTXPACK_UNNORMALIZED) != 0;
}

/* Whether q is large, and the scale as small: blocks have no descale that would undo it, as bytes have. */
enum { BEYOND_F16 = 20 /* powers of two */ };
static bool is_beyond_f16(const lengths_case *a)
{
    return kv_types[a->kv] == PTXPACK_Q8_0 && a->append == APPENDS && shape_of(a)->dtype == PTXPACK_BF16;
}

/* Sinks, ALiBi, both or none of them: each in a quarter of the cases. */
static uint32_t options_of(const lengths_case *a)
{
    static const uint32_t turns[] = {0, PTXPACK_SINKS, PTXPACK_ALIBI, PTXPACK_SINKS | PTXPACK_ALIBI};
    const uint32_t        options = turns[(3 * a->shape + a->storage + a->mask) % 4];
    return is_unnormalized(a) ? options & ~(uint32_t)PTXPACK_SINKS : options;
}

static const char *kind_of(const lengths_case *a)
{
    return a->lists                 ? "blocks"
           : a->kv != 0             ? "bytes"
           : a->hook == CHECK_HOOKS ? "lengths"
           : a->hook < CHECK_TEXTS  ? "hooks"
                                    : "bias";
}

static void name_case(const lengths_case *a, char name[128])
{
    const struct shape *s = shape_of(a);
    char                split[32] = "", values[32] = "";
    const uint32_t      options = options_of(a);
    const char         *sinks = (options & PTXPACK_SINKS) != 0 ? " sinks" : "";
    const char         *alibi = (options & PTXPACK_ALIBI) != 0 ? " alibi" : "";
    if (a->lists)
        snprintf(split, sizeof split, " lists of %dx%d", (int)list_shapes[a->shape].rows,
                 (int)list_shapes[a->shape].keys);
    else if (a->shape >= WHOLE_SHAPES)
        snprintf(split, sizeof split, " %d parts",
                 (int)attention_parts_wanted(&(ptxpack_attention_desc){.split_rows = s->split_rows}));
    else if (s->split_rows > 0 && s->split_rows != PACKED)
        snprintf(split, sizeof split, " split");
    if (s->values != 0)
        snprintf(values, sizeof values, " v%d%s", (int)s->values, s->in_keys ? " in keys" : "");
    if (a->append < APPENDS)
        snprintf(name, 128, "kvcache d%d %s%s%s %d/%d %dx%dx%d%s %s, %s, %s%s%s", (int)s->head_dim,
                 ptxpack_dtype_name(s->dtype), a->kv != 0 ? " " : "",
                 a->kv != 0 ? ptxpack_dtype_name(kv_types[a->kv]) : "", (int)s->heads_q, (int)s->heads_kv,
                 (int)s->batch, (int)s->seqlen_q, (int)s->seqlen_kv, split, masks[a->mask].name,
                 appends[a->append].name, storages[a->storage].name, sinks, alibi);
    else
        snprintf(name, 128, "%s d%d%s %s%s%s %d/%d %dx%dx%d%s %s, %s%s%s%s%s", kind_of(a), (int)s->head_dim,
                 values, ptxpack_dtype_name(s->dtype), a->kv != 0 ? " " : "",
                 a->kv != 0 ? ptxpack_dtype_name(kv_types[a->kv]) : "", (int)s->heads_q, (int)s->heads_kv,
                 (int)s->batch, (int)s->seqlen_q, (int)s->seqlen_kv, split, storages[a->storage].name,
                 masks[a->mask].name, sinks, alibi, a->hook < CHECK_HOOKS ? ", " : "",
                 a->hook < CHECK_HOOKS ? check_hooks[a->hook].name : "");
}

/* The few multiprocessors of the emulated GPU would have the library cut small problems: there other shapes are whole. */
static ptxpack_attention_desc describe(const check *c, const lengths_case *a)
{
    const struct shape    *s = shape_of(a);
    const struct masking  *m = &masks[a->mask];
    ptxpack_attention_desc d = {.size = sizeof d,
                                .dtype = s->dtype,
                                .batch = s->batch,
                                .seqlen_q = s->seqlen_q,
                                .seqlen_kv = s->seqlen_kv,
                                .heads_q = s->heads_q,
                                .heads_kv = s->heads_kv,
                                .head_dim = s->head_dim,
                                .head_dim_v = s->values,
                                .mask = m->mask,
                                .window_left = m->left,
                                .window_right = m->right,
                                .softcap = m->softcap,
                                .chunk = m->chunk,
                                .options = options_of(a) | (s->in_keys ? PTXPACK_VALUES_IN_KEYS : 0),
                                .split_rows = s->split_rows != 0 ? s->split_rows
                                              : c->brief         ? ATTENTION_PARTS + 1
                                                                 : 0};
    static const uint32_t  shapes_of_descales[] = {0, PTXPACK_DESCALES_HEAD, PTXPACK_DESCALES_TENSOR};
    d.kv_dtype = kv_types[a->kv];
    if (is_beyond_f16(a))
        d.scale = ldexpf(1 / sqrtf((float)d.head_dim), -BEYOND_F16);
    d.options |= attention_has_bytes(&d) ? shapes_of_descales[(a->shape + a->storage) % 3] : 0;
    if (a->hook < CHECK_HOOKS) {
        d.score_mod = check_hooks[a->hook].score_mod;
        d.mask_mod = check_hooks[a->hook].mask_mod;
        check_describe_bias(&check_hooks[a->hook], &d);
    }
    if (a->lists) {
        const struct list_shape *l = &list_shapes[a->shape];
        const int32_t            row_blocks = (d.seqlen_q - 1) / l->rows + 1;
        d.block_rows = l->rows;
        d.block_keys = l->keys;
        d.block_width = (d.seqlen_kv - 1) / l->keys + 1 + a->shape % 2;
        d.block_batch = (int64_t)l->batch * row_blocks;
        d.block_head = (int64_t)l->head * row_blocks;
    }
    return d;
}

/* ---- the reference ------------------------------------------------------------------------------------ */
typedef struct expected {
    attention_row *rows; /* of all sequences, in order of sequence, head, row */
    size_t         count;
    double        *o, *rounded, *lse;
} expected;

static void free_expected(expected *e)
{
    free(e->rows);
    free(e->o);
    free(e->rounded);
    free(e->lse);
    *e = (expected){NULL, 0, NULL, NULL, NULL};
}

static bool list_rows(const ptxpack_attention_desc *d, const attention_reference *r, expected *e)
{
    size_t most = (size_t)d->batch * (size_t)d->heads_q * (size_t)d->seqlen_q,
           dim = (size_t)attention_value_dim(d);
    e->rows = (attention_row *)calloc(most, sizeof *e->rows);
    e->o = (double *)calloc(most * dim, sizeof(double));
    e->rounded = (double *)calloc(most * dim, sizeof(double));
    e->lse = (double *)calloc(most, sizeof(double));
    if (e->rows == NULL || e->o == NULL || e->rounded == NULL || e->lse == NULL)
        return false;
    for (int32_t b = 0; b < d->batch; b++)
        for (int32_t h = 0; h < d->heads_q; h++)
            for (int32_t i = 0; i < attention_reference_queries(r, b); i++)
                e->rows[e->count++] = (attention_row){b, h, i};
    return true;
}

static bool refer(const lengths_image *image, expected *e)
{
    attention_reference         *r;
    ptxpack_attention_lengths    lengths = lengths_image_arrays(image);
    const attention_row_results *results = &(attention_row_results){NULL, NULL, NULL};
    const ptxpack_descales       descales = {NULL, image->descale[TENSOR_K], image->descale[TENSOR_V]};
    bool ok = attention_reference_open(&image->desc, lengths_image_tensor(image, TENSOR_Q),
                                       lengths_image_tensor(image, TENSOR_K),
                                       lengths_image_tensor(image, TENSOR_V), &descales, &lengths,
                                       &r) == PTXPACK_OK;
    ok = ok && list_rows(&image->desc, r, e);
    results = &(attention_row_results){e->o, e->rounded, e->lse};
    ok = ok && attention_reference_rows(r, e->rows, e->count, 1, results) == PTXPACK_OK;
    attention_reference_close(r);
    return ok;
}

/* ---- judging ------------------------------------------------------------------------------------------ */
/* What the bound allows for the last rounding: FlashAttention's number, which knows numbers of about 1, or half a unit in
 * the last place of the largest one. */
static double last_rounding(const ptxpack_attention_desc *d, const double *exact, size_t count)
{
    const double unit = d->dtype == PTXPACK_F16 ? 0x1p-11 : 0x1p-8;
    double       most = 0;
    for (size_t i = 0; i < count; i++)
        most = fmax(most, fabs(exact[i]));
    return fmax(verify_atol(d->dtype, exact, count), most * unit);
}

/* The rows of one head of one sequence from `first` on: FlashAttention's bound. */
static bool judge_head(const lengths_image *image, const expected *e, size_t first, size_t count, char *what)
{
    const ptxpack_attention_desc *d = &image->desc;
    size_t                        dim = (size_t)attention_value_dim(d);
    double                        out = 0, rounded = 0;
    for (size_t n = first; n < first + count; n++)
        for (size_t c = 0; c < dim; c++) {
            double exact = e->o[n * dim + c];
            float  got = ptxpack_element(d->dtype, lengths_image_o_row(image, &e->rows[n]), c);
            out = verify_worse(out, fabs((double)got - exact));
            rounded = verify_worse(rounded, fabs(e->rounded[n * dim + c] - exact));
        }
    double bound = verify_rtol(d) * rounded + last_rounding(d, e->o + first * dim, count * dim);
    if (out <= bound)
        return true;
    snprintf(what, WHAT, "o of sequence %d, head %d: error %.3g, allowed %.3g", (int)e->rows[first].batch,
             (int)e->rows[first].head, out, bound);
    return false;
}

static bool judge_values(const lengths_image *image, const expected *e, char *what)
{
    for (size_t first = 0, end; first < e->count; first = end) {
        for (end = first + 1; end < e->count && e->rows[end].batch == e->rows[first].batch &&
                              e->rows[end].head == e->rows[first].head;
             end++)
            continue;
        if (!judge_head(image, e, first, end - first, what))
            return false;
    }
    for (size_t n = 0; n < e->count; n++) {
        double want = e->lse[n], got = *lengths_image_lse(image, &e->rows[n]);
        if (!(fabs(got - want) <= verify_lse_bound(&image->desc, want)) && !(isinf(want) && got == want)) {
            snprintf(what, WHAT, "lse of sequence %d, head %d, row %d is %.8g, exact %.8g",
                     (int)e->rows[n].batch, (int)e->rows[n].head, (int)e->rows[n].row, got, want);
            return false;
        }
    }
    return true;
}

/* ---- running ------------------------------------------------------------------------------------------ */
static bool row_suits(const check *c, const ptxpack_variant *row, const ptxpack_attention_desc *d)
{
    char                       why[PLAN_LINE];
    const ptxpack_device_info *info = ptxpack_device(c->gpu.handle);
    attention_geometry         geometry;
    bool                       in_parts = attention_parts_wanted(d) > 1 && attention_split_rows(d) == 0;
    bool packs = plan_method_of(row) == &attention_wgmma && ptxpack_variant_parameter(row, "BLOCK_M", 0) <= 128;
    return check_row_wanted(c, row) && (!attention_pack_wanted(d) || packs) &&
           plan_row_refusal(&attention_op, c->gpu.handle, &info->caps, d, row, why) == NULL &&
           (!in_parts || (ptxpack_attention_resolve(d, &geometry, why) == PTXPACK_OK &&
                          attention_split_keys(row, d, &geometry, &info->caps, info->sm_count).used));
}

/* Of each file the rows with the smallest HEAD_DIM that takes the problem; on the emulated driver one of them, another
 * one in each case.  Tiles of many rows are slow there for few rows: they compute a third of those cases, each of the rows in
 * turn. */
static bool row_in_turn(const check *c, const ptxpack_attention_desc *d, size_t i, size_t turn)
{
    size_t                 count, suiting = 0, index = 0;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    int64_t                dim = ptxpack_variant_parameter(&rows[i], "HEAD_DIM", 0);
    bool                   wasteful = d->seqlen_q <= 4 && strcmp(rows[i].file, "attention/decode.ptx") != 0;
    if (!row_suits(c, &rows[i], d) || (c->brief && wasteful && turn % 3 != 0))
        return false;
    for (size_t other = 0; other < count; other++) {
        if (strcmp(rows[other].file, rows[i].file) != 0 || !row_suits(c, &rows[other], d))
            continue;
        int64_t others = ptxpack_variant_parameter(&rows[other], "HEAD_DIM", 0);
        if (others < dim)
            return false;
        index += others == dim && other < i;
        suiting += others == dim;
    }
    return !c->brief || index == (wasteful ? turn / 3 : turn) % suiting;
}

/* One round of lengths on the rows of kernels.def; false when the device failed. */
static bool run_rows(check *c, lengths_image *image, lengths_runs *runs, const expected *e, const char *name,
                     size_t turn, int round)
{
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    char                   full[320], what[WHAT];
    for (size_t i = 0; i < count && !atomic_load(&c->broken); i++) {
        if (!row_in_turn(c, &image->desc, i, turn))
            continue;
        snprintf(full, sizeof full, "%s, round %d %s", name, round, rows[i].id);
        if (!lengths_run(c, image, runs, i, &rows[i], what, sizeof what))
            return check_broken(c, full, what), false;
        bool good = what[0] == '\0' && judge_values(image, e, what) &&
                    lengths_image_untouched(image, what, WHAT);
        check_record(c, full, good ? NULL : what);
    }
    return true;
}

static void run_case(check *c, const lengths_case *a, const char *name)
{
    ptxpack_attention_desc d = describe(c, a);
    random_state           random = random_start(c->seed +
                                                 (uint64_t)((a->shape * STORAGES + a->storage) * MASKS_IN_TURN));
    bool                   appends_rows = a->append < APPENDS;
    /* A launch, and replays with other lengths: one on the emulated driver, but for the self-test, whose breaks may need certain lengths. */
    const int rounds = c->brief && (c->half || !c->quick) ? 2 : ROUNDS;
    /* Huge values have a bound without an absolute part: too close for a single row of few keys. */
    bool may_overflow = d.dtype == PTXPACK_BF16 && !appends_rows && !shapes[a->shape].in_keys &&
                        !is_unnormalized(a) && kv_types[a->kv] != PTXPACK_Q8_0 &&
                        (d.chunk == 0 || d.seqlen_q > 16);
    lengths_image image;
    lengths_runs  runs;
    expected      e = {NULL, 0, NULL, NULL, NULL};
    if (!lengths_image_open(&image, &d, &storages[a->storage]) ||
        (appends_rows && !lengths_append_open(&image, &appends[a->append])) || !lengths_runs_open(&runs)) {
        check_broken(c, name, image.line);
        lengths_append_close(c, &image);
        lengths_image_close(&image);
        return;
    }
    image.beyond_f16 = is_beyond_f16(a) ? BEYOND_F16 : 0;
    image.hook = a->hook < CHECK_HOOKS ? &check_hooks[a->hook] : NULL;
    bool ok = true;
    for (int round = 0; round < rounds && ok && !atomic_load(&c->broken); round++) {
        lengths_image_fill(&image, &random, may_overflow && round == 1);
        ok = (!appends_rows || lengths_append_fill(&image, &random)) && refer(&image, &e);
        if (!ok)
            check_broken(c, name, ptxpack_detail(NULL));
        ok = ok && run_rows(c, &image, &runs, &e, name, (size_t)(a->shape + a->storage), round);
        free_expected(&e);
    }
    lengths_runs_close(c, &runs);
    lengths_append_close(c, &image);
    lengths_image_close(&image);
}

/* ---- all cases, on threads ---------------------------------------------------------------------------- */
static void name_at(const void *cases, size_t i, char name[128])
{
    name_case((const lengths_case *)cases + i, name);
}

static void run_at(check *c, const void *cases, size_t i, void *images)
{
    char name[128];
    (void)images;
    name_at(cases, i, name);
    run_case(c, (const lengths_case *)cases + i, name);
}

static void free_nothing(check *c, void *images)
{
    (void)c;
    (void)images;
}

void check_lengths(check *c)
{
    lengths_case
        list[SHAPES * (STORAGES * (MASKS + KV_TYPES * APPENDS) + CHECK_HOOKS + KV_TYPES * HOOK_STORAGES) +
             LIST_SHAPES * (CHECK_HOOKS + 1)];
    check_cases all =
        {.op = "lengths", .cases = list, .images = 1, .name = name_at, .run = run_at, .free = free_nothing};
    for (int shape = 0; shape < SHAPES; shape++)
        for (int storage = 0; storage < STORAGES; storage++)
            for (int which = 0; which < MASKS * (APPENDS + 1); which++) {
                lengths_case a = {shape,       storage, which % MASKS, APPENDS - which / MASKS,
                                  CHECK_HOOKS, 0,       false};
                char         name[128];
                name_case(&a, name);
                if (in_matrix(c, &a) && check_wanted(c, name))
                    list[all.count++] = a;
            }
    for (int shape = 0; shape < SHAPES; shape++)
        for (int which = 0; which < HOOK_STORAGES * MASKS * CHECK_HOOKS; which++) {
            lengths_case a = {shape,   which / MASKS % HOOK_STORAGES, which % MASKS,
                              APPENDS, which / MASKS / HOOK_STORAGES, 0,
                              false};
            char         name[128];
            name_case(&a, name);
            if (in_matrix(c, &a) && check_wanted(c, name))
                list[all.count++] = a;
        }
    for (int shape = 0; shape < LIST_SHAPES; shape++)
        for (int which = 0; which < MASKS * (CHECK_HOOKS + 1); which++) {
            lengths_case a = {shape, STORAGES, which % MASKS, APPENDS, which / MASKS, 0, true};
            char         name[128];
            name_case(&a, name);
            if (in_matrix(c, &a) && check_wanted(c, name))
                list[all.count++] = a;
        }
    for (int shape = 0; shape < WHOLE_SHAPES; shape++)
        for (int which = 0; which < (APPENDS + 1) * HOOK_STORAGES * MASKS * (KV_TYPES - 1); which++) {
            lengths_case a = {shape,         which / MASKS % HOOK_STORAGES,
                              which % MASKS, which / MASKS / HOOK_STORAGES / (KV_TYPES - 1),
                              CHECK_HOOKS,   1 + which / MASKS / HOOK_STORAGES % (KV_TYPES - 1),
                              false};
            char         name[128];
            name_case(&a, name);
            if (bytes_in_matrix(c, &a) && check_wanted(c, name))
                list[all.count++] = a;
        }
    check_run_cases(c, &all);
}
