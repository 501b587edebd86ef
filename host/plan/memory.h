/* memory.h - private: what a plan checks about tensors [batch][row][head][elements] and about the addresses of a
 * launch. */
#ifndef PTXPACK_PLAN_MEMORY_H
#define PTXPACK_PLAN_MEMORY_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "loader/status.h"

enum { MEMORY_BATCH, MEMORY_ROW, MEMORY_HEAD, MEMORY_DIMENSIONS };

/* A tensor as its descriptor states it.  Its innermost elements are contiguous. */
typedef struct memory_shape {
    const char *name;
    bool        written;
    int64_t     extent[MEMORY_DIMENSIONS], stride[MEMORY_DIMENSIONS]; /* of elements; all 0: compact */
    int64_t     elements;                                             /* of the innermost dimension */
    size_t      element_bytes;
    int64_t     block; /* so many elements have element_bytes together; 0: each has */
    int64_t     step;  /* strides are multiples of so many elements; 0: of 16 bytes */
} memory_shape;

/* The same with every stride filled in (0 where the extent is 1), in bytes; and the bytes from its first element to
 * the end of its last one. */
typedef struct memory_tensor {
    int64_t  stride[MEMORY_DIMENSIONS];
    uint64_t bytes;
} memory_tensor;

/* Strides are multiples of `step`, and each steps over all elements that the smaller ones span; a single stride of
 * 0 repeats an input.  PTXPACK_E_ARG, with `line` */
ptxpack_status memory_resolve(const memory_shape *shape, memory_tensor *out, char *line);

/* An address of a launch, and the bytes from there that it needs. */
typedef struct memory_range {
    const char *name;
    uint64_t    address, bytes, alignment;
    bool        optional; /* address 0: there is none */
} memory_range;

/* PTXPACK_E_ARG, with `line`: the address is missing or misaligned, or the range wraps around. */
ptxpack_status memory_check(const memory_range *range, char *line);
/* PTXPACK_E_ARG, with `line`, if both are there and have a byte in common. */
ptxpack_status memory_refuse_overlap(const memory_range *written, const memory_range *other, char *line);
#endif
