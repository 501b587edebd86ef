/* mma_args.h - private: the contracts between the host and the mma.sync kernels: the one .param struct of
 * ptx/attention/mma.ptx (mma.c), and that of ptx/attention/decode.ptx (decode.c). */
#ifndef PTXPACK_ATTENTION_MMA_ARGS_H
#define PTXPACK_ATTENTION_MMA_ARGS_H
#include "host/plan/arguments.h"

/* What these and ptx/attention/wgmma.ptx have for sequences with lengths of their own (VARLEN): arrays, and numbers. */
/* clang-format off */
#define ATTENTION_ARRAYS(X, S)                                                                         \
    X(S, uint64_t, starts_q,      "ARG_STARTS_Q")      /* device addresses; 0: not given */            \
    X(S, uint64_t, starts_kv,     "ARG_STARTS_KV")                                                     \
    X(S, uint64_t, lengths_q,     "ARG_LENGTHS_Q")                                                     \
    X(S, uint64_t, lengths_kv,    "ARG_LENGTHS_KV")                                                    \
    X(S, uint64_t, row_map,       "ARG_ROW_MAP")                                                       \
    X(S, uint64_t, left_pad,      "ARG_LEFT_PAD")                                                      \
    X(S, uint64_t, page_table,    "ARG_PAGE_TABLE")
#define ATTENTION_LENGTHS(X, S)                                                                        \
    X(S, int32_t,  reach_left,    "ARG_REACH_LEFT")    /* query i of diagonal c sees the keys */       \
    X(S, int32_t,  reach_right,   "ARG_REACH_RIGHT")   /* .. from c + i - left to c + i + right */     \
    X(S, int32_t,  bottom_right,  "ARG_BOTTOM_RIGHT")  /* 1: c = keys - queries; 0: the first key */   \
    X(S, int32_t,  lse_head,      "ARG_LSE_HEAD")      /* elements */                                  \
    X(S, int32_t,  table_width,   "ARG_TABLE_WIDTH")   /* of the page table, in pages */               \
    X(S, int32_t,  page_rows,     "ARG_PAGE_ROWS")     /* 2^PAGE_SHIFT */                              \
    X(S, int32_t,  page_shift,    "ARG_PAGE_SHIFT")

/* What they have for scores, at their ends. */
#define ATTENTION_HEADS(X, S)                                                                          \
    X(S, uint64_t, sinks,         "ARG_SINKS")         /* with SINKS: device address */                \
    X(S, uint64_t, slopes,        "ARG_SLOPES")        /* with ALIBI, from here on: device address */  \
    X(S, float,    alibi_in,      "ARG_ALIBI_IN")      /* 1 / scale, or 1 / softcap */                 \
    X(S, int32_t,  alibi_diagonal, "ARG_ALIBI_DIAGONAL") /* seqlen_kv - seqlen_q */

/* What they have at the end of all with CHUNK. */
#define ATTENTION_CHUNKS(X, S)                                                                         \
    X(S, int32_t,  chunk,         "ARG_CHUNK")         /* keys; the left limit is a row's position */  \
    X(S, int32_t,  chunk_inverse, "ARG_CHUNK_INVERSE") /* quotient_inverse */                          \
    X(S, int32_t,  chunk_shift,   "ARG_CHUNK_SHIFT")

/* What they have after that with hooks. */
typedef struct attention_aux {
    uint64_t address[8];
} attention_aux;
#define ATTENTION_HOOKS(X, S)                                                                          \
    X(S, float,         hook_scale, "ARG_HOOK_SCALE")  /* scale, or softcap */                         \
    X(S, attention_aux, aux,        "ARG_AUX")

/* What mma.sync's have at the end of all where k and v have bytes (kv_dtype). */
#define ATTENTION_BYTES(X, S)                                                                          \
    X(S, uint64_t, k_descale,     "ARG_K_DESCALE")     /* device addresses; 0: ones */                 \
    X(S, uint64_t, v_descale,     "ARG_V_DESCALE")                                                     \
    X(S, int32_t,  descale_batch, "ARG_DESCALE_BATCH") /* bytes from a sequence's to the next one's */ \
    X(S, int32_t,  descale_head,  "ARG_DESCALE_HEAD")  /* .. from a key head's */
/* What they have at the end of all with a bias or bits (host/attention/bias/bias.h). */
#define ATTENTION_BIAS(X, S)                                                                           \
    X(S, uint64_t, bias,          "ARG_BIAS")          /* with BIAS: device address */                 \
    X(S, uint64_t, bits,          "ARG_BITS")          /* with BITS: device address */                 \
    X(S, int64_t,  bias_batch,    "ARG_BIAS_BATCH")    /* strides in bytes; 0: the same for all */     \
    X(S, int64_t,  bias_head,     "ARG_BIAS_HEAD")                                                     \
    X(S, int64_t,  bits_batch,    "ARG_BITS_BATCH")                                                    \
    X(S, int64_t,  bits_head,     "ARG_BITS_HEAD")                                                     \
    X(S, int32_t,  bias_row,      "ARG_BIAS_ROW")                                                      \
    X(S, int32_t,  bits_row,      "ARG_BITS_ROW")                                                      \
    X(S, int32_t,  bits_keys,     "ARG_BITS_KEYS")     /* with BITS 2: those that have bits */         \
    X(S, int32_t,  bits_words,    "ARG_BITS_WORDS")    /* of a row, of 32 bits */
/* What wgmma.ptx and mma.ptx have after that with lists of blocks. */
#define ATTENTION_LIST_ARRAYS(X, S)                                                                    \
    X(S, uint64_t, block_count,   "ARG_BLOCK_COUNT")   /* device addresses */                          \
    X(S, uint64_t, full_count,    "ARG_FULL_COUNT")    /* 0: there are no full ones */                 \
    X(S, uint64_t, block_list,    "ARG_BLOCK_LIST")                                                    \
    X(S, uint64_t, full_list,     "ARG_FULL_LIST")
#define ATTENTION_LIST_NUMBERS(X, S)                                                                   \
    X(S, int32_t,  list_batch,    "ARG_LIST_BATCH")    /* lists from sequence to sequence */           \
    X(S, int32_t,  list_head,     "ARG_LIST_HEAD")     /* and from head to head */                     \
    X(S, int32_t,  list_width,    "ARG_LIST_WIDTH")    /* entries from list to list */                 \
    X(S, int32_t,  list_rows,     "ARG_LIST_ROWS")     /* rows of a list: whole tiles */               \
    X(S, int32_t,  list_span,     "ARG_LIST_SPAN")     /* blocks of BLOCK_N keys in one of a list */   \
    X(S, int32_t,  list_most,     "ARG_LIST_MOST")     /* blocks of a list, at most */

#define ATTENTION_MMA_ARGUMENTS(X, S)                                                                  \
    X(S, uint64_t, q,             "ARG_Q")             /* device addresses */                          \
    X(S, uint64_t, k,             "ARG_K")                                                             \
    X(S, uint64_t, v,             "ARG_V")                                                             \
    X(S, uint64_t, o,             "ARG_O")                                                             \
    X(S, uint64_t, lse,           "ARG_LSE")           /* 0: not wanted */                             \
    X(S, int64_t,  q_batch,       "ARG_Q_BATCH")       /* strides in bytes; 0 where the extent is 1 */ \
    X(S, int64_t,  q_row,         "ARG_Q_ROW")                                                         \
    X(S, int64_t,  q_head,        "ARG_Q_HEAD")                                                        \
    X(S, int64_t,  k_batch,       "ARG_K_BATCH")                                                       \
    X(S, int64_t,  k_row,         "ARG_K_ROW")                                                         \
    X(S, int64_t,  k_head,        "ARG_K_HEAD")                                                        \
    X(S, int64_t,  v_batch,       "ARG_V_BATCH")                                                       \
    X(S, int64_t,  v_row,         "ARG_V_ROW")                                                         \
    X(S, int64_t,  v_head,        "ARG_V_HEAD")                                                        \
    X(S, int64_t,  o_batch,       "ARG_O_BATCH")                                                       \
    X(S, int64_t,  o_row,         "ARG_O_ROW")                                                         \
    X(S, int64_t,  o_head,        "ARG_O_HEAD")                                                        \
    X(S, int32_t,  seqlen_q,      "ARG_SEQLEN_Q")                                                      \
    X(S, int32_t,  seqlen_kv,     "ARG_SEQLEN_KV")                                                     \
    X(S, int32_t,  heads_q,       "ARG_HEADS_Q")                                                       \
    X(S, int32_t,  heads_per_kv,  "ARG_HEADS_PER_KV")  /* heads_q / heads_kv */                        \
    X(S, int32_t,  head_dim,      "ARG_HEAD_DIM")      /* at most the kernel's HEAD_DIM */             \
    X(S, int32_t,  right_offset,  "ARG_RIGHT_OFFSET")  /* row i attends to keys j <= i + this */       \
    X(S, int32_t,  tiles_q,       "ARG_TILES_Q")       /* blocks of BLOCK_M query rows a head */       \
    X(S, int32_t,  heads_total,   "ARG_HEADS_TOTAL")   /* batch * heads_q */                           \
    X(S, int32_t,  section_heads, "ARG_SECTION_HEADS") /* heads whose tiles are neighbours */          \
    X(S, float,    scale_log2,    "ARG_SCALE_LOG2")    /* scale, or softcap, times log2(e) */          \
    X(S, int32_t,  left_offset,   "ARG_LEFT_OFFSET")   /* with LIMITED_LEFT: and j >= i + this */      \
    X(S, float,    softcap_in,    "ARG_SOFTCAP_IN")    /* with SOFTCAP: scale / softcap */             \
    ATTENTION_ARRAYS(X, S)                             /* from here on with VARLEN */                  \
    X(S, int64_t,  lse_batch,     "ARG_LSE_BATCH")     /* elements */                                  \
    ATTENTION_LENGTHS(X, S)                                                                            \
    ATTENTION_HEADS(X, S)                                                                              \
    ATTENTION_CHUNKS(X, S)                                                                             \
    ATTENTION_HOOKS(X, S)                                                                              \
    ATTENTION_BYTES(X, S)                                                                              \
    X(S, int32_t,  head_dim_v,    "ARG_HEAD_DIM_V")    /* with VALUES_DIFFER */                              \
    ATTENTION_BIAS(X, S)\
    ATTENTION_LIST_ARRAYS(X, S)                                                                        \
    ATTENTION_LIST_NUMBERS(X, S)
/* clang-format on */
ARGUMENT_STRUCT(ATTENTION_ARRAYS, attention_addresses);
ARGUMENT_STRUCT(ATTENTION_LENGTHS, attention_lengths_numbers);
ARGUMENT_STRUCT(ATTENTION_HEADS, attention_heads_arguments);
ARGUMENT_STRUCT(ATTENTION_CHUNKS, attention_chunks_arguments);
ARGUMENT_STRUCT(ATTENTION_BIAS, attention_bias_arguments);
ARGUMENT_STRUCT(ATTENTION_LIST_ARRAYS, attention_list_addresses);
ARGUMENT_STRUCT(ATTENTION_LIST_NUMBERS, attention_list_numbers);
ARGUMENT_STRUCT(ATTENTION_MMA_ARGUMENTS, attention_mma_arguments);

/* clang-format off */
#define ATTENTION_DECODE_ARGUMENTS(X, S)                                                               \
    X(S, uint64_t, q,             "ARG_Q")             /* device addresses */                          \
    X(S, uint64_t, k,             "ARG_K")                                                             \
    X(S, uint64_t, v,             "ARG_V")                                                             \
    X(S, uint64_t, o,             "ARG_O")                                                             \
    X(S, uint64_t, lse,           "ARG_LSE")           /* 0: not wanted */                             \
    X(S, uint64_t, workspace,     "ARG_WORKSPACE")     /* a counter for each range */                  \
    X(S, uint64_t, parts,         "ARG_PARTS")         /* in the workspace: two slots for each range */\
    ATTENTION_ARRAYS(X, S)                                                                             \
    X(S, int64_t,  q_batch,       "ARG_Q_BATCH")       /* strides in bytes; 0 where the extent is 1 */ \
    X(S, int64_t,  q_row,         "ARG_Q_ROW")                                                         \
    X(S, int64_t,  q_head,        "ARG_Q_HEAD")                                                        \
    X(S, int64_t,  k_batch,       "ARG_K_BATCH")                                                       \
    X(S, int64_t,  k_head,        "ARG_K_HEAD")                                                        \
    X(S, int64_t,  v_batch,       "ARG_V_BATCH")                                                       \
    X(S, int64_t,  v_head,        "ARG_V_HEAD")                                                        \
    X(S, int64_t,  o_batch,       "ARG_O_BATCH")                                                       \
    X(S, int64_t,  o_row,         "ARG_O_ROW")                                                         \
    X(S, int64_t,  o_head,        "ARG_O_HEAD")                                                        \
    X(S, int64_t,  lse_batch,     "ARG_LSE_BATCH")     /* with VARLEN, elements */                     \
    X(S, int32_t,  k_row,         "ARG_K_ROW")                                                         \
    X(S, int32_t,  v_row,         "ARG_V_ROW")                                                         \
    X(S, int32_t,  seqlen_q,      "ARG_SEQLEN_Q")                                                      \
    X(S, int32_t,  heads_kv,      "ARG_HEADS_KV")                                                      \
    X(S, int32_t,  head_dim,      "ARG_HEAD_DIM")      /* at most the kernel's HEAD_DIM */             \
    X(S, int32_t,  rows,          "ARG_ROWS")          /* of a key head: group * seqlen_q */           \
    X(S, int32_t,  group,         "ARG_GROUP")         /* heads_q / heads_kv */                        \
    X(S, int32_t,  group_inverse, "ARG_GROUP_INVERSE") /* 2^16 / group, rounded up */                  \
    X(S, int32_t,  first_key,     "ARG_FIRST_KEY")     /* that any row sees */                         \
    X(S, int32_t,  keys_end,      "ARG_KEYS_END")      /* no row sees this key or a later one */       \
    X(S, int32_t,  full_from,     "ARG_FULL_FROM")     /* with LIMITED: all rows see the keys from */  \
    X(S, int32_t,  full_to,       "ARG_FULL_TO")       /* .. here to here */                           \
    X(S, int32_t,  left_offset,   "ARG_LEFT_OFFSET")   /* with LIMITED: query i sees j >= i + this */  \
    X(S, int32_t,  right_offset,  "ARG_RIGHT_OFFSET")  /* .. and j <= i + this */                      \
    X(S, int32_t,  tile_blocks,   "ARG_TILE_BLOCKS")   /* key blocks of a tile */                      \
    X(S, int32_t,  blocks,        "ARG_BLOCKS")        /* of all tiles */                              \
    X(S, int32_t,  range,         "ARG_RANGE")         /* of a block of the grid */                    \
    X(S, int32_t,  order,         "ARG_ORDER")         /* whole tiles in a range, or 1 */              \
    X(S, int32_t,  tiles_apart,   "ARG_TILES_APART")   /* with order > 1: from one to the next */      \
    X(S, int32_t,  tile_padded,   "ARG_TILE_PADDED")   /* places of a tile in the list */              \
    X(S, int32_t,  part,          "ARG_PART")          /* key blocks of a part; of VARLEN if FIXED */  \
    X(S, int32_t,  fixed,         "ARG_FIXED")         /* 1: the descriptor says the part */           \
    X(S, int32_t,  tile_padded_inverse, "ARG_TILE_PADDED_INVERSE") /* quotient_inverse */              \
    X(S, int32_t,  tile_padded_shift, "ARG_TILE_PADDED_SHIFT")                                         \
    X(S, int32_t,  part_inverse,  "ARG_PART_INVERSE")                                                  \
    X(S, int32_t,  part_shift,    "ARG_PART_SHIFT")                                                    \
    X(S, int32_t,  order_inverse, "ARG_ORDER_INVERSE")                                                 \
    X(S, int32_t,  order_shift,   "ARG_ORDER_SHIFT")                                                   \
    X(S, int32_t,  heads_kv_inverse, "ARG_HEADS_KV_INVERSE")                                           \
    X(S, int32_t,  heads_kv_shift, "ARG_HEADS_KV_SHIFT")                                               \
    X(S, int32_t,  batch,         "ARG_BATCH")         /* with VARLEN, up to ranges_shift; tile_ranges always */\
    X(S, int32_t,  seqlen_kv,     "ARG_SEQLEN_KV")     /* the most keys; seqlen_q: queries */          \
    ATTENTION_LENGTHS(X, S)                                                                            \
    X(S, int32_t,  tile_ranges,   "ARG_TILE_RANGES")   /* of a tile, if all are split alike; or 1 */\
    X(S, int32_t,  range_tiles,   "ARG_RANGE_TILES")   /* of a range, if tile_ranges is 1; or 1 */     \
    X(S, int32_t,  tile_ranges_inverse, "ARG_TILE_RANGES_INVERSE")                                     \
    X(S, int32_t,  tile_ranges_shift, "ARG_TILE_RANGES_SHIFT")                                         \
    X(S, int32_t,  ranges_inverse, "ARG_RANGES_INVERSE") /* of the grid */                             \
    X(S, int32_t,  ranges_shift,  "ARG_RANGES_SHIFT")                                                  \
    X(S, float,    scale_log2,    "ARG_SCALE_LOG2")    /* scale, or softcap, times log2(e) */          \
    X(S, float,    softcap_in,    "ARG_SOFTCAP_IN")    /* with SOFTCAP: scale / softcap */             \
    X(S, int32_t,  row_tiles,     "ARG_ROW_TILES")     /* with ROW_TILES: of a key head */             \
    X(S, int32_t,  row_tiles_inverse, "ARG_ROW_TILES_INVERSE")                                         \
    X(S, int32_t,  row_tiles_shift, "ARG_ROW_TILES_SHIFT")                                             \
    X(S, int32_t,  early,         "ARG_EARLY")         /* sm_90: 0, or 1 + keys that are still written */\
    ATTENTION_HEADS(X, S)                                                                              \
    ATTENTION_CHUNKS(X, S)                                                                             \
    ATTENTION_HOOKS(X, S)                                                                              \
    ATTENTION_BYTES(X, S)                                                                              \
    X(S, int32_t,  head_dim_v,    "ARG_HEAD_DIM_V")    /* with VALUES_DIFFER */                              \
    ATTENTION_BIAS(X, S)
/* clang-format on */
ARGUMENT_STRUCT(ATTENTION_DECODE_ARGUMENTS, attention_decode_arguments);
#endif
