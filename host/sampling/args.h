/* args.h - private: the contract between host/sampling/sampling.c and ptx/sampling/sampling.ptx. */
#ifndef PTXPACK_SAMPLING_ARGS_H
#define PTXPACK_SAMPLING_ARGS_H
#include "host/plan/arguments.h"

/* clang-format off */
#define SAMPLING_ARGUMENTS(X, S)                                                           \
    X(S, uint64_t, logits,     "ARG_LOGITS") /* device addresses */                        \
    X(S, uint64_t, parameters, "ARG_PARAMETERS") /* 0: all rows greedy */                  \
    X(S, uint64_t, tokens,     "ARG_TOKENS")                                               \
    X(S, int64_t,  stride,     "ARG_STRIDE") /* bytes from a row to the next */            \
    X(S, uint32_t, vocabulary, "ARG_VOCABULARY")
/* clang-format on */
ARGUMENT_STRUCT(SAMPLING_ARGUMENTS, sampling_arguments);
#endif
