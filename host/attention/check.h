/* check.h - private: what a checked descriptor means, with every default filled in. */
#ifndef PTXPACK_ATTENTION_CHECK_H
#define PTXPACK_ATTENTION_CHECK_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "attention.h"
#include "hooks/hooks.h"
#include "host/plan/memory.h"
#include "host/plan/plan.h"

/* The tensors, in the order of every table about them. */
enum { TENSOR_Q, TENSOR_K, TENSOR_V, TENSOR_O, TENSOR_COUNT };
extern const char *const attention_tensor_names[TENSOR_COUNT];

/* One tensor: strides in elements (0 where the extent is 1), and the bytes from its first element to
 * the end of its last. */
typedef struct attention_tensor {
    int64_t  batch, row, head;
    uint64_t bytes;
} attention_tensor;

/* The arrays of a launch, in the order of every table about them: int32 of sequences with lengths of their own, and from
 * ARRAY_SINKS on f32 of query heads; a bias, and bits; from ARRAY_BLOCK_COUNT on int32 lists of blocks; of
 * keys that arrive their words, and tensors. */
enum {
    ARRAY_STARTS_Q,
    ARRAY_STARTS_KV,
    ARRAY_LENGTHS_Q,
    ARRAY_LENGTHS_KV,
    ARRAY_ROW_MAP,
    ARRAY_LEFT_PAD,
    ARRAY_PAGE_TABLE,
    ARRAY_SINKS,
    ARRAY_SLOPES,
    ARRAY_BIAS,
    ARRAY_BITS,
    ARRAY_BLOCK_COUNT,
    ARRAY_FULL_COUNT,
    ARRAY_BLOCK_LIST,
    ARRAY_FULL_LIST,
    ARRAY_ARRIVALS,
    ARRAY_K_OWN,
    ARRAY_V_OWN,
    ARRAY_COUNT
};
extern const char *const attention_array_names[ARRAY_COUNT];

/* Lists of blocks of keys. */
typedef struct attention_lists {
    int32_t rows, keys;             /* of a block */
    int32_t row_blocks, key_blocks; /* of a sequence */
    int32_t width;                  /* entries from list to list */
    int32_t batch, head; /* lists from sequence to sequence, and head to head; 0 where there is one */
} attention_lists;

typedef struct attention_geometry {
    attention_tensor tensor[TENSOR_COUNT];
    bool             values_in_keys; /* v is k */
    bool             unnormalized;   /* o is the sum of e^s v itself */
    float            scale;
    float            softcap;                     /* 0: none */
    bool             limited_left, limited_right; /* false: the offset means nothing */
    /* Row i attends to keys i + left <= j <= i + right; clipped so that i + offset never overflows. */
    int32_t left_offset, right_offset;
    int32_t
        chunk; /* keys; then the left limit is a row's own position: attention_first_key; 0: none, or none that binds */
    uint64_t lse_bytes;
    uint64_t descale_bytes;   /* of k's and of v's, with PTXPACK_E4M3 or kv_dtype; otherwise 0 */
    uint64_t q_descale_bytes; /* with PTXPACK_E4M3 */
    /* Sequences with lengths of their own.  Query i then attends to keys c + i - reach_left to c + i +
     * reach_right, where c is keys - queries of the sequence, or its first key. */
    bool            varlen, bottom_right;
    int32_t         reach_left, reach_right;  /* ATTENTION_NO_LIMIT: all */
    uint64_t        array_bytes[ARRAY_COUNT]; /* 0: not asked for */
    int             hook_parts[HOOK_COUNT];   /* HOOK_MOD, ..; 0: no such hook */
    attention_lists lists;                    /* .rows 0: none */
    int32_t         arrival_rows;             /* of a piece of the keys; 0: all are there */
    int32_t         early_rows, early_keys;   /* rows before that one attend to so many keys less */
} attention_geometry;

/* For tests and measurements, in a descriptor's split_rows, where callers state multiples of 256: ATTENTION_PARTS + n cuts the
 * keys of each tile into n parts where the kernel can; of 1 part it is the build that cannot split, of ATTENTION_ONE_PART the
 * one that can; n = 0 leaves the parts to the library.  With ATTENTION_PACK added, tiles have the rows of several query heads
 * that share a key head, where the kernel can; without it they never do. */
enum {
    ATTENTION_PARTS = 0x50415280,
    ATTENTION_PARTS_MOST = 64,
    ATTENTION_ONE_PART = 127,
    ATTENTION_PACK = 1 << 8
};
static inline bool attention_parts_given(const ptxpack_attention_desc *desc)
{
    return (desc->split_rows & ~(127 | ATTENTION_PACK)) == ATTENTION_PARTS;
}
/* That number; 0: the library's choice. */
static inline int32_t attention_parts_wanted(const ptxpack_attention_desc *desc)
{
    return attention_parts_given(desc) ? desc->split_rows & 127 : 0;
}
static inline bool attention_pack_wanted(const ptxpack_attention_desc *desc)
{
    return attention_parts_given(desc) && (desc->split_rows & ATTENTION_PACK) != 0;
}
/* split_rows as callers state them, otherwise 0. */
static inline int32_t attention_split_rows(const ptxpack_attention_desc *desc)
{
    return attention_parts_given(desc) ? 0 : desc->split_rows;
}

/* The columns of v and o, and of a tensor. */
static inline int32_t attention_value_dim(const ptxpack_attention_desc *desc)
{
    return desc->head_dim_v != 0 ? desc->head_dim_v : desc->head_dim;
}
static inline int32_t attention_columns(const ptxpack_attention_desc *desc, int tensor)
{
    return tensor == TENSOR_V || tensor == TENSOR_O ? attention_value_dim(desc) : desc->head_dim;
}

/* The columns of V that a kernel has. */
static inline int64_t attention_row_values(const ptxpack_variant *variant)
{
    return ptxpack_variant_parameter(variant, "VALUE_DIM", ptxpack_variant_parameter(variant, "HEAD_DIM", 0));
}

/* The element type of k and v, and of any tensor: fp8 gives a bf16 output. */
static inline ptxpack_dtype attention_kv_type(const ptxpack_attention_desc *desc)
{
    return desc->kv_dtype != 0 ? desc->kv_dtype : desc->dtype;
}
static inline ptxpack_dtype attention_tensor_type(const ptxpack_attention_desc *desc, int tensor)
{
    return tensor == TENSOR_K || tensor == TENSOR_V            ? attention_kv_type(desc)
           : tensor == TENSOR_O && desc->dtype == PTXPACK_E4M3 ? PTXPACK_BF16
                                                               : desc->dtype;
}
/* Whether k and v have another type than q: one byte an element where q has two, with descales, or blocks with scales of
 * their own. */
static inline bool attention_has_codes(const ptxpack_attention_desc *desc)
{
    return attention_kv_type(desc) != desc->dtype;
}
static inline bool attention_has_blocks(const ptxpack_attention_desc *desc)
{
    return attention_kv_type(desc) == PTXPACK_Q8_0;
}
static inline bool attention_has_bytes(const ptxpack_attention_desc *desc)
{
    return attention_has_codes(desc) && !attention_has_blocks(desc);
}
/* The bytes of so many elements of k or v. */
static inline int64_t attention_kv_span(const ptxpack_attention_desc *desc, int64_t elements)
{
    return (int64_t)ptxpack_dtype_span(attention_kv_type(desc), (size_t)elements);
}
/* What kernels take: how k and v are in memory, of a row of kernels.def (KV_BYTES) and of a descriptor. */
enum { ATTENTION_KV_BLOCKS = 0, ATTENTION_KV_BYTES = 1, ATTENTION_KV_HALVES = 2 };
static inline int64_t attention_row_kv(const ptxpack_variant *variant)
{
    return ptxpack_variant_parameter(variant, "KV_BYTES", ATTENTION_KV_HALVES);
}
static inline int64_t attention_desc_kv(const ptxpack_attention_desc *desc)
{
    return attention_has_blocks(desc)  ? ATTENTION_KV_BLOCKS
           : attention_has_bytes(desc) ? ATTENTION_KV_BYTES
                                       : ATTENTION_KV_HALVES;
}
/* From one sequence, or one key head, to the next in the descales of k and v; and how many they are. */
static inline int64_t attention_descale_batch(const ptxpack_attention_desc *desc)
{
    return (desc->options & (PTXPACK_DESCALES_TENSOR | PTXPACK_DESCALES_HEAD)) != 0 ? 0 : desc->heads_kv;
}
static inline int64_t attention_descale_head(const ptxpack_attention_desc *desc)
{
    return (desc->options & PTXPACK_DESCALES_TENSOR) != 0 ? 0 : 1;
}
static inline int64_t attention_descale_count(const ptxpack_attention_desc *desc)
{
    const int64_t heads = attention_descale_head(desc) != 0 ? desc->heads_kv : 1;
    return attention_descale_batch(desc) != 0 ? desc->batch * heads : heads;
}

enum { ATTENTION_NO_LIMIT = 1 << 30, ATTENTION_MOST_VALUES = 512 /* head_dim_v */ };

static inline bool attention_has_sinks(const attention_geometry *g) { return g->array_bytes[ARRAY_SINKS] != 0; }
static inline bool attention_has_alibi(const attention_geometry *g)
{
    return g->array_bytes[ARRAY_SLOPES] != 0;
}
static inline bool attention_has_bias(const attention_geometry *g) { return g->array_bytes[ARRAY_BIAS] != 0; }
static inline bool attention_has_bits(const attention_geometry *g) { return g->array_bytes[ARRAY_BITS] != 0; }
static inline bool attention_has_hooks(const attention_geometry *g)
{
    return (g->hook_parts[HOOK_SCORE] | g->hook_parts[HOOK_MASK]) != 0;
}
/* Whether kernels have whole scores before the softmax, which a bias and a SCORE_MOD are for. */
static inline bool attention_has_whole_scores(const attention_geometry *g)
{
    return g->hook_parts[HOOK_SCORE] != 0 || attention_has_bias(g);
}
static inline bool attention_has_arrivals(const attention_geometry *g) { return g->arrival_rows != 0; }
static inline bool attention_has_lists(const attention_geometry *g) { return g->lists.rows != 0; }
/* What makes scores of what kernels have of them before a hook and the softmax. */
static inline float attention_score_scale(const attention_geometry *g)
{
    return g->softcap > 0 ? g->softcap : g->scale;
}
/* What makes them scores in base 2. */
static inline float attention_scale_log2(const attention_geometry *g)
{
    const double log2_e = 1.4426950408889634;
    return (float)((attention_has_whole_scores(g) ? 1 : attention_score_scale(g)) * log2_e);
}
/* What kernels multiply slopes by, whose scores are multiplied by the softcap or the scale later. */
static inline float attention_alibi_in(const attention_geometry *g)
{
    return attention_has_alibi(g) ? 1 / attention_score_scale(g) : 0;
}

/* Whether a kernel masks keys at either end.  With lengths in memory a limit may bind in some sequence even if not in the
 * longest one. */
static inline bool attention_masks_left(const attention_geometry *g)
{
    return g->varlen ? g->reach_left < ATTENTION_NO_LIMIT : g->limited_left;
}
static inline bool attention_masks_right(const attention_geometry *g)
{
    return g->varlen ? g->reach_right < ATTENTION_NO_LIMIT || g->reach_left < ATTENTION_NO_LIMIT
                     : g->limited_right;
}

/* The first key of a row whose left limit is key `at`, counted from the sequence's first key. */
static inline int64_t attention_first_key(const attention_geometry *g, int64_t at)
{
    return g->chunk > 0 && at > 0 ? at - at % g->chunk : at;
}

/* The descriptor as the library knows it: what an older caller does not state is 0.
 *   PTXPACK_E_ARG  NULL, or the size is not one that ever was */
ptxpack_status attention_whole_desc(const ptxpack_attention_desc *given, ptxpack_attention_desc *whole,
                                    char line[PLAN_LINE]);
/* The texts of a descriptor that are CUDA C++ become macros (hooks/cuda.c), in memory that is freed after the descriptor was used. */
typedef struct attention_translated {
    char *text[2]; /* HOOK_COUNT; NULL: as the caller gave it */
} attention_translated;
ptxpack_status attention_translate_hooks(const ptxpack *handle, ptxpack_attention_desc *desc,
                                         attention_translated *translated);
/* *whole = a caller's descriptor of any age, with its texts translated.  Also after a failure, which left the handle's line,
 * the caller frees *translated. */
ptxpack_status           attention_take_desc(const ptxpack *handle, const ptxpack_attention_desc *given,
                                             ptxpack_attention_desc *whole, attention_translated *translated);
void                     attention_translated_free(attention_translated *translated);
extern const plan_struct attention_buffers_struct;
/* Checks the fields about lengths.  PTXPACK_E_ARG */
ptxpack_status attention_check_lengths(const ptxpack_attention_desc *desc, char line[PLAN_LINE]);
/* How many sequences (or pages) of how many rows a tensor has in memory. */
void attention_extents(const ptxpack_attention_desc *desc, int tensor, int64_t *batches, int64_t *rows);
/* Sets all that depends on these fields. */
void attention_resolve_lengths(const ptxpack_attention_desc *desc, attention_geometry *out);
/* One sequence: where its rows begin (packed; otherwise 0), how many they are, and the first that is a key. */
typedef struct attention_sequence {
    int64_t q_row, queries, kv_row, keys, first;
    int64_t cache; /* its number in dense k and v */
} attention_sequence;
/* Reads sequence `i` from arrays in host memory; NULL where nothing is asked for.  PTXPACK_E_ARG */
ptxpack_status attention_read_sequence(const ptxpack_attention_desc *desc, const attention_geometry *geometry,
                                       const ptxpack_attention_lengths *lengths, int32_t i,
                                       attention_sequence *out, char line[PLAN_LINE]);
/* For methods that take only sequences of equal lengths: NULL, or `line`. */
const char *attention_refuse_lengths(const attention_geometry *geometry, char line[PLAN_LINE]);
/* For methods that cannot sum keys in parts of split_rows: NULL, or `line`. */
const char *attention_refuse_split(const ptxpack_attention_desc *desc, char line[PLAN_LINE]);
/* For kernels whose division by the chunk takes positions below 2^30: NULL, or `line`. */
const char *attention_refuse_chunk(const ptxpack_attention_desc *desc, const attention_geometry *geometry,
                                   char line[PLAN_LINE]);
/* Checks the fields about lists of blocks, and sets what depends on them.  PTXPACK_E_ARG */
ptxpack_status attention_resolve_lists(const ptxpack_attention_desc *desc, attention_geometry *out,
                                       char line[PLAN_LINE]);
/* The arrays in host memory, of block_list and full_list; the last may be NULL. */
typedef struct attention_list_arrays {
    const int32_t *count[2], *list[2];
} attention_list_arrays;
/* What the lists of row `row` say of each block of keys. */
enum { ATTENTION_BLOCK_ABSENT, ATTENTION_BLOCK_MASKED, ATTENTION_BLOCK_FULL };
void attention_read_list(const attention_lists *lists, const attention_list_arrays *arrays, int32_t batch,
                         int32_t head, int32_t row, uint8_t *kinds);
/* Why a row takes no lists at all: NULL, or a line. */
const char *attention_lists_missing(const ptxpack_variant *row);
/* For a row whose tiles do not divide the blocks, and for what no kernel takes with lists: NULL, or `line`. */
const char *attention_refuse_lists(const attention_geometry *geometry, const ptxpack_variant *row,
                                   char line[PLAN_LINE]);
/* Checks a whole descriptor, with or without a device.  On PTXPACK_OK *out is complete, otherwise `line` names the
 * field. PTXPACK_E_ARG */
ptxpack_status ptxpack_attention_resolve(const ptxpack_attention_desc *desc, attention_geometry *out,
                                         char line[PLAN_LINE]);
/* What a launch reads and writes: q, k and v, descales; from RANGE_WRITTEN on o, lse and workspace; the arrays, unless the geometry asks
 * for none.  Returns their number. */
enum { RANGE_Q, RANGE_WRITTEN = 6, RANGE_ARRAYS = 9, RANGE_COUNT = RANGE_ARRAYS + ARRAY_COUNT };
int attention_list_memory(const attention_geometry *geometry, uint64_t workspace,
                          const ptxpack_attention_buffers *buffers, memory_range ranges[RANGE_COUNT]);
/* The same for the addresses of a launch; workspace: bytes that the plan needs. */
ptxpack_status ptxpack_attention_check_buffers(const attention_geometry *geometry, uint64_t workspace,
                                               const ptxpack_attention_buffers *buffers, char line[PLAN_LINE]);
/* Array `id` of the buffers, if the geometry asks for it; otherwise 0. */
uint64_t attention_array(const attention_geometry *geometry, const ptxpack_attention_buffers *buffers, int id);
#endif
