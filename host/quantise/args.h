/* args.h - private: the contract between host/quantise/quantise.c and the kernels of ptx/quantise. */
#ifndef PTXPACK_QUANTISE_ARGS_H
#define PTXPACK_QUANTISE_ARGS_H
#include "host/plan/arguments.h"

/* A vector is what has one scale. */
/* clang-format off */
#define QUANTISE_ARGUMENTS(X, S)                                                           \
    X(S, uint64_t, x,         "ARG_X") /* device addresses */                              \
    X(S, uint64_t, codes,     "ARG_CODES")                                                 \
    X(S, uint64_t, scales,    "ARG_SCALES")                                                \
    X(S, int64_t,  x_row,     "ARG_X_ROW") /* strides in bytes */                          \
    X(S, int64_t,  codes_row, "ARG_CODES_ROW")                                             \
    X(S, uint32_t, vectors,   "ARG_VECTORS") /* rows parts */                              \
    X(S, uint32_t, parts,     "ARG_PARTS")   /* vectors of a row */                        \
    X(S, uint32_t, pieces,    "ARG_PIECES")  /* of 8 elements, of a vector */              \
    X(S, uint32_t, last,      "ARG_LAST")    /* of a row's last vector */                  \
    X(S, uint32_t, share,     "ARG_SHARE")   /* 2^share threads have a vector */
/* clang-format on */
ARGUMENT_STRUCT(QUANTISE_ARGUMENTS, quantise_arguments);
#endif
