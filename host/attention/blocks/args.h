/* args.h - private: the contract between host/attention/blocks/blocks.c and ptx/attention/blocks/make.ptx. */
#ifndef PTXPACK_ATTENTION_BLOCKS_ARGS_H
#define PTXPACK_ATTENTION_BLOCKS_ARGS_H
#include "host/attention/mma_args.h"

/* clang-format off */
#define BLOCKS_ARGUMENTS(X, S)                                                                          \
    ATTENTION_LIST_ARRAYS(X, S)                         /* written */                                   \
    X(S, attention_aux, aux,       "ARG_AUX")                                                           \
    X(S, int32_t,  seqlen_q,      "ARG_SEQLEN_Q")                                                       \
    X(S, int32_t,  seqlen_kv,     "ARG_SEQLEN_KV")                                                      \
    X(S, int32_t,  left_offset,   "ARG_LEFT_OFFSET")    /* row i attends to keys i + left_offset .. */  \
    X(S, int32_t,  right_offset,  "ARG_RIGHT_OFFSET")   /* .. i + right_offset */                       \
    X(S, int32_t,  rows,          "ARG_ROWS")           /* of a block */                                \
    X(S, int32_t,  keys,          "ARG_KEYS")                                                           \
    X(S, int32_t,  row_blocks,    "ARG_ROW_BLOCKS")     /* of a sequence */                             \
    X(S, int32_t,  key_blocks,    "ARG_KEY_BLOCKS")                                                     \
    X(S, int32_t,  heads,         "ARG_HEADS")          /* with lists of their own */                   \
    X(S, int32_t,  list_batch,    "ARG_LIST_BATCH")     /* lists from sequence to sequence */           \
    X(S, int32_t,  list_head,     "ARG_LIST_HEAD")      /* and from head to head */                     \
    X(S, int32_t,  list_width,    "ARG_LIST_WIDTH")     /* entries from list to list */                 \
    ATTENTION_CHUNKS(X, S)
/* clang-format on */
ARGUMENT_STRUCT(BLOCKS_ARGUMENTS, blocks_arguments);
#endif
