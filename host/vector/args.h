/* args.h - private: the contract between host/vector/vector.c and ptx/vector/add.ptx. */
#ifndef PTXPACK_VECTOR_ARGS_H
#define PTXPACK_VECTOR_ARGS_H
#include "host/plan/arguments.h"

/* clang-format off */
#define VECTOR_ARGUMENTS(X, S)                                                              \
    X(S, uint64_t, z,  "ARG_Z") /* device addresses */                                      \
    X(S, uint64_t, x,  "ARG_X")                                                             \
    X(S, uint64_t, y,  "ARG_Y")                                                             \
    X(S, uint64_t, n,  "ARG_N") /* elements */                                              \
    X(S, uint32_t, a2, "ARG_A") /* the scalar, rounded to the element type, in both halves */ \
    X(S, uint32_t, b2, "ARG_B")                                                             \
    X(S, uint32_t, c2, "ARG_C")
/* clang-format on */
ARGUMENT_STRUCT(VECTOR_ARGUMENTS, vector_arguments);
#endif
