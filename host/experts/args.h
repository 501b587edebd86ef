/* args.h - private: the contracts between host/experts and ptx/experts/route.ptx, combine.ptx. */
#ifndef PTXPACK_EXPERTS_ARGS_H
#define PTXPACK_EXPERTS_ARGS_H
#include "host/plan/arguments.h"

/* clang-format off */
#define EXPERTS_ROUTE_ARGUMENTS(X, S)                                                      \
    X(S, uint64_t, logits,     "ARG_LOGITS") /* device addresses */                        \
    X(S, uint64_t, starts,     "ARG_STARTS")                                               \
    X(S, uint64_t, sources,    "ARG_SOURCES")                                              \
    X(S, uint64_t, places,     "ARG_PLACES")                                               \
    X(S, uint64_t, weights,    "ARG_WEIGHTS")                                              \
    X(S, uint64_t, counters,   "ARG_COUNTERS")   /* two, zero between launches; then counts */ \
    X(S, int64_t,  stride,     "ARG_STRIDE")     /* bytes from a row to the next */        \
    X(S, uint32_t, rows,       "ARG_ROWS")                                                 \
    X(S, uint32_t, experts,    "ARG_EXPERTS")                                              \
    X(S, uint32_t, top_k,      "ARG_TOP_K")                                                \
    X(S, uint32_t, chunk_rows, "ARG_CHUNK_ROWS") /* rows that a block routes */            \
    X(S, uint32_t, chunks,     "ARG_CHUNKS")                                               \
    X(S, uint32_t, normalise,  "ARG_NORMALISE")
#define EXPERTS_COMBINE_ARGUMENTS(X, S)                                                    \
    X(S, uint64_t, y,            "ARG_Y") /* device addresses */                           \
    X(S, uint64_t, places,       "ARG_PLACES")                                             \
    X(S, uint64_t, weights,      "ARG_WEIGHTS")                                            \
    X(S, uint64_t, residual,     "ARG_RESIDUAL")                                           \
    X(S, uint64_t, out,          "ARG_OUT")                                                \
    X(S, int64_t,  y_row,        "ARG_Y_ROW") /* strides in bytes */                       \
    X(S, int64_t,  residual_row, "ARG_RESIDUAL_ROW")                                       \
    X(S, int64_t,  out_row,      "ARG_OUT_ROW")                                            \
    X(S, uint32_t, units,        "ARG_UNITS")  /* rows pieces */                           \
    X(S, uint32_t, pieces,       "ARG_PIECES") /* of 16 bytes, of a row */                 \
    X(S, uint32_t, top_k,        "ARG_TOP_K")                                              \
    X(S, uint32_t, all_places,   "ARG_ALL_PLACES")
/* clang-format on */
ARGUMENT_STRUCT(EXPERTS_ROUTE_ARGUMENTS, experts_route_arguments);
ARGUMENT_STRUCT(EXPERTS_COMBINE_ARGUMENTS, experts_combine_arguments);
#endif
