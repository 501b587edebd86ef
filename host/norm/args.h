/* args.h - private: the contract between host/norm/norm.c and ptx/norm/norm.ptx. */
#ifndef PTXPACK_NORM_ARGS_H
#define PTXPACK_NORM_ARGS_H
#include "host/plan/arguments.h"

/* clang-format off */
#define NORM_ARGUMENTS(X, S)                                                               \
    X(S, uint64_t, x,       "ARG_X") /* device addresses */                                \
    X(S, uint64_t, w,       "ARG_W")                                                       \
    X(S, uint64_t, r,       "ARG_R")                                                       \
    X(S, uint64_t, y,       "ARG_Y")                                                       \
    X(S, int64_t,  x_row,   "ARG_X_ROW") /* strides in bytes */                            \
    X(S, int64_t,  x_head,  "ARG_X_HEAD")                                                  \
    X(S, int64_t,  r_row,   "ARG_R_ROW")                                                   \
    X(S, int64_t,  r_head,  "ARG_R_HEAD")                                                  \
    X(S, int64_t,  y_row,   "ARG_Y_ROW")                                                   \
    X(S, int64_t,  y_head,  "ARG_Y_HEAD")                                                  \
    X(S, uint32_t, vectors, "ARG_VECTORS") /* rows heads */                                \
    X(S, uint32_t, heads,   "ARG_HEADS")                                                   \
    X(S, uint32_t, pieces,  "ARG_PIECES")  /* of 8 elements, of a vector */                \
    X(S, uint32_t, share,   "ARG_SHARE")   /* 2^share threads have a vector */             \
    X(S, float,    inverse, "ARG_INVERSE") /* 1 / columns */                               \
    X(S, float,    eps,     "ARG_EPS")
/* clang-format on */
ARGUMENT_STRUCT(NORM_ARGUMENTS, norm_arguments);
#endif
