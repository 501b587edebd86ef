/* args.h - private: the contract between host/attention/append/append.c and ptx/kv_cache/append.ptx. */
#ifndef PTXPACK_ATTENTION_APPEND_ARGS_H
#define PTXPACK_ATTENTION_APPEND_ARGS_H
#include "host/plan/arguments.h"

/* The address of a tensor and its strides in bytes, which follow each other. */
#define APPEND_TENSOR(X, S, member, SYMBOL)               \
    X(S, uint64_t, member, "ARG_" SYMBOL)                 \
    X(S, int64_t, member##_batch, "ARG_" SYMBOL "_BATCH") \
    X(S, int64_t, member##_row, "ARG_" SYMBOL "_ROW")     \
    X(S, int64_t, member##_head, "ARG_" SYMBOL "_HEAD")

/* clang-format off */
#define APPEND_ARGUMENTS(X, S)                                                                                      \
    APPEND_TENSOR(X, S, k_new, "K_NEW")                                                                             \
    APPEND_TENSOR(X, S, v_new, "V_NEW")                                                                             \
    APPEND_TENSOR(X, S, q,     "Q")                                                                                 \
    APPEND_TENSOR(X, S, k,     "K")                                                                                 \
    APPEND_TENSOR(X, S, v,     "V")                                                                                 \
    APPEND_TENSOR(X, S, q_out, "Q_OUT")                                                                             \
    X(S, uint64_t, cos,         "ARG_COS")                                                                          \
    X(S, uint64_t, sin,         "ARG_SIN")                                                                          \
    X(S, uint64_t, lengths_kv,  "ARG_LENGTHS_KV")  /* arrays; 0: there is none */                                   \
    X(S, uint64_t, lengths_new, "ARG_LENGTHS_NEW")                                                                  \
    X(S, uint64_t, starts_new,  "ARG_STARTS_NEW")                                                                   \
    X(S, uint64_t, row_map,     "ARG_ROW_MAP")                                                                      \
    X(S, uint64_t, left_pad,    "ARG_LEFT_PAD")                                                                     \
    X(S, uint64_t, page_table,  "ARG_PAGE_TABLE")                                                                   \
    X(S, uint32_t, units,       "ARG_UNITS")       /* a unit is what a thread does: of all rows */                  \
    X(S, uint32_t, row_units,   "ARG_ROW_UNITS")   /* of a row: those of K, then of V, then of Q */                 \
    X(S, uint32_t, k_units,     "ARG_K_UNITS")     /* of K */                                                       \
    X(S, uint32_t, kv_units,    "ARG_KV_UNITS")    /* of K and V */                                                 \
    X(S, uint32_t, head_units,  "ARG_HEAD_UNITS")  /* of a head of K or Q */                                        \
    X(S, uint32_t, head_pieces, "ARG_HEAD_PIECES") /* the units of a head of V, and of K in blocks */           \
    X(S, uint32_t, rotated,     "ARG_ROTATED")     /* units of a head that are rotated, the first ones */           \
    X(S, uint32_t, batch,       "ARG_BATCH")                                                                        \
    X(S, int32_t,  seqlen_new,  "ARG_SEQLEN_NEW")                                                                   \
    X(S, int32_t,  seqlen_kv,   "ARG_SEQLEN_KV")                                                                    \
    X(S, uint32_t, caches,      "ARG_CACHES")      /* sequences or pages in k and v */                              \
    X(S, uint32_t, page_shift,  "ARG_PAGE_SHIFT")  /* log2 of the rows of a page */                                 \
    X(S, uint32_t, table_width, "ARG_TABLE_WIDTH")                                                                  \
    X(S, int32_t,  last_position, "ARG_LAST_POSITION") /* of cos and sin */                                         \
    X(S, uint32_t, table_row,   "ARG_TABLE_ROW")   /* bytes of a row of cos or sin */                               \
    X(S, uint32_t, q_step,      "ARG_Q_STEP")      /* positions from one row of q to the next: 1 or 0 */            \
    X(S, uint64_t, k_descale,   "ARG_K_DESCALE")   /* from here on where k and v are bytes; 0: ones */              \
    X(S, uint64_t, v_descale,   "ARG_V_DESCALE")                                                                    \
    X(S, uint32_t, descale_batch, "ARG_DESCALE_BATCH") /* bytes from a sequence's to the next one's */              \
    X(S, uint32_t, descale_head, "ARG_DESCALE_HEAD") /* .. from a key head's */                                     \
    X(S, uint32_t, early,       "ARG_EARLY")       /* sm_90; not 0: only new rows and q wait for the kernel before */
/* clang-format on */
ARGUMENT_STRUCT(APPEND_ARGUMENTS, append_arguments);
#endif
