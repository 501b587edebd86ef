/* args.h - private: the contract between host/vector/vector.c and ptx/vector/add.ptx. */
#ifndef PTXPACK_VECTOR_ARGS_H
#define PTXPACK_VECTOR_ARGS_H
#include <stddef.h>
#include <stdint.h>

/* One row per member: C type, member, symbol of its byte offset. */
#define VECTOR_ARGUMENTS(X)                                                                       \
    X(uint64_t, z, "ARG_Z") /* device addresses                                               */  \
    X(uint64_t, x, "ARG_X")                                                                       \
    X(uint64_t, y, "ARG_Y")                                                                       \
    X(uint64_t, n, "ARG_N")  /* elements                                                       */ \
    X(uint32_t, a2, "ARG_A") /* the scalar, rounded to the element type, in both halves        */ \
    X(uint32_t, b2, "ARG_B")                                                                      \
    X(uint32_t, c2, "ARG_C")

typedef struct vector_arguments {
#define VECTOR_MEMBER(type, name, symbol) type name;
    VECTOR_ARGUMENTS(VECTOR_MEMBER)
#undef VECTOR_MEMBER
} vector_arguments;

/* The bytes in use; sizeof may add padding at the end, which the kernel does not declare. */
enum { VECTOR_ARGUMENT_BYTES = offsetof(vector_arguments, c2) + sizeof(uint32_t) };
#endif
