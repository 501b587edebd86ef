/* wgmma_args.h - private: the contract between host/attention/wgmma.c and ptx/attention/wgmma.ptx: the kernel's
 * one .param struct. */
#ifndef PTXPACK_ATTENTION_WGMMA_ARGS_H
#define PTXPACK_ATTENTION_WGMMA_ARGS_H
#include "mma_args.h"

/* clang-format off */
#define ATTENTION_WGMMA_ARGUMENTS(X, S)                                                                                    \
    X(S, argument_tensor_map, map_q,         "ARG_MAP_Q")         /* rank 4: head_dim, sequence, head, batch; ragged */    \
    X(S, argument_tensor_map, map_k,         "ARG_MAP_K")                                                                  \
    X(S, argument_tensor_map, map_v,         "ARG_MAP_V")                                                                  \
    X(S, argument_tensor_map, map_o,         "ARG_MAP_O")                                                                  \
    X(S, uint64_t,            lse,           "ARG_LSE")           /* device addresses; 0: not wanted */                    \
    X(S, uint64_t,            workspace,     "ARG_WORKSPACE")                                                              \
    X(S, uint64_t,            q_descale,     "ARG_Q_DESCALE")     /* of 8-bit inputs; 0: ones */                           \
    X(S, uint64_t,            k_descale,     "ARG_K_DESCALE")                                                              \
    X(S, uint64_t,            v_descale,     "ARG_V_DESCALE")                                                              \
    X(S, int32_t,             seqlen_q,      "ARG_SEQLEN_Q")                                                               \
    X(S, int32_t,             seqlen_kv,     "ARG_SEQLEN_KV")                                                              \
    X(S, int32_t,             heads_q,       "ARG_HEADS_Q")       /* with PACKED_HEADS those of tiles, below, too */       \
    X(S, int32_t,             heads_per_kv,  "ARG_HEADS_PER_KV")  /* heads_q / heads_kv, of these */                       \
    X(S, int32_t,             left_offset,   "ARG_LEFT_OFFSET")   /* row i attends to keys i + left_offset .. */           \
    X(S, int32_t,             right_offset,  "ARG_RIGHT_OFFSET")  /* .. i + right_offset, where limited */                 \
    X(S, int32_t,             tiles_q,       "ARG_TILES_Q")       /* blocks of BLOCK_M query rows a head */                \
    X(S, int32_t,             tiles_total,   "ARG_TILES_TOTAL")   /* heads_total * tiles_q; with SPLIT items */            \
    X(S, int32_t,             heads_total,   "ARG_HEADS_TOTAL")   /* batch * heads_q; with SPLIT and VARLEN of a sequence */ \
    X(S, int32_t,             section_heads, "ARG_SECTION_HEADS") /* heads whose tiles are neighbours */                   \
    X(S, float,               scale_log2,    "ARG_SCALE_LOG2")    /* scale log2(e); with softcap that in place of scale */ \
    X(S, float,               softcap_in,    "ARG_SOFTCAP_IN")    /* scale / softcap; 0 without */                         \
    ATTENTION_ARRAYS(X, S)                                        /* from here on with VARLEN */                           \
    X(S, int64_t,             lse_batch,     "ARG_LSE_BATCH")     /* elements */                                           \
    ATTENTION_LENGTHS(X, S)                                                                                                \
    X(S, int32_t,             batch,         "ARG_BATCH")                                                                  \
    X(S, int32_t,             q_apart,       "ARG_Q_APART")       /* rows from sequence to sequence, or page to page */    \
    X(S, int32_t,             k_apart,       "ARG_K_APART")                                                                \
    X(S, int32_t,             v_apart,       "ARG_V_APART")                                                                \
    X(S, int32_t,             o_apart,       "ARG_O_APART")                                                                \
    X(S, int32_t,             box_rows,      "ARG_BOX_ROWS")      /* with PAGED: of a box of K and V */                    \
    X(S, int32_t,             parts_most,    "ARG_PARTS_MOST")    /* with SPLIT, from here on: items of a tile */          \
    X(S, int32_t,             part_blocks,   "ARG_PART_BLOCKS")   /* blocks of keys in a part */                           \
    X(S, int32_t,             tile_counters, "ARG_TILE_COUNTERS") /* in the workspace, in units of 16 bytes */             \
    X(S, int32_t,             slots,         "ARG_SLOTS")         /* the same */                                           \
    X(S, int32_t,             group_shift,   "ARG_GROUP_SHIFT")   /* with PACKED_HEADS: log2 of the heads in a tile */     \
    ATTENTION_HEADS(X, S)                                                                                                  \
    ATTENTION_CHUNKS(X, S)                                                                                                 \
    ATTENTION_HOOKS(X, S)                                                                                                  \
    X(S, int32_t,             head_chunks,   "ARG_HEAD_CHUNKS")   /* with WIDE_BOXES: of 64 columns from key head to key head */ \
    ATTENTION_BIAS(X, S)\
    ATTENTION_LIST_ARRAYS(X, S)                                                                                            \
    ATTENTION_LIST_NUMBERS(X, S)                                                                                           \
    X(S, argument_tensor_map, map_own_k,     "ARG_MAP_OWN_K")     /* with ARRIVALS, from here on */                        \
    X(S, argument_tensor_map, map_own_v,     "ARG_MAP_OWN_V")                                                              \
    X(S, uint64_t,            arrivals,      "ARG_ARRIVALS")                                                               \
    X(S, int32_t,             arrival_rows,  "ARG_ARRIVAL_ROWS")                                                           \
    X(S, int32_t,             early_rows,    "ARG_EARLY_ROWS")                                                             \
    X(S, int32_t,             early_keys,    "ARG_EARLY_KEYS")                                                             \
    X(S, int32_t,             early_shift,   "ARG_EARLY_SHIFT")   /* rows of the first tile before row 0 */                \
    X(S, int32_t,             turn_first,    "ARG_TURN_FIRST")    /* keys that rows from early_rows on see in another order */ \
    X(S, int32_t,             turn_end,      "ARG_TURN_END")
/* clang-format on */
ARGUMENT_STRUCT(ATTENTION_WGMMA_ARGUMENTS, attention_wgmma_arguments);
#endif
