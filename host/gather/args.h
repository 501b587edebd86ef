/* args.h - private: the contract between host/gather/gather.c and ptx/gather/gather.ptx. */
#ifndef PTXPACK_GATHER_ARGS_H
#define PTXPACK_GATHER_ARGS_H
#include "host/plan/arguments.h"

/* clang-format off */
#define GATHER_ARGUMENTS(X, S)                                                             \
    X(S, uint64_t, ids,        "ARG_IDS") /* device addresses */                           \
    X(S, uint64_t, table,      "ARG_TABLE")                                                \
    X(S, uint64_t, y,          "ARG_Y")                                                    \
    X(S, int64_t,  table_row,  "ARG_TABLE_ROW") /* strides in bytes */                     \
    X(S, int64_t,  y_row,      "ARG_Y_ROW")                                                \
    X(S, uint32_t, units,      "ARG_UNITS")     /* rows pieces */                          \
    X(S, uint32_t, pieces,     "ARG_PIECES")    /* of 16 bytes, of a row */                \
    X(S, uint32_t, table_rows, "ARG_TABLE_ROWS")
/* clang-format on */
ARGUMENT_STRUCT(GATHER_ARGUMENTS, gather_arguments);
#endif
