/* example.h - what the examples share, so that each main.c shows the library and little else.
 *
 * A failure ends the program with one line: with status 1, with 2 for wrong arguments, with 77 and a SKIP line
 * when a kernel in CUDA C++ finds no NVRTC.  A program of your own would return its errors instead. */
#ifndef PTXPACK_EXAMPLE_H
#define PTXPACK_EXAMPLE_H
#include <stddef.h>
#include <stdint.h>
#include <ptxpack/ptxpack.h>

enum { EXAMPLE_BUFFERS = 12 };

typedef struct example { /* {0} at first */
    ptxpack           *pack;
    ptxpack_deviceptr  buffers[EXAMPLE_BUFFERS];
    int                buffer_count;
    struct CUevent_st *from, *to;
    uint64_t           compared, wrong, first_wrong; /* elements                     */
    double             got, want;                    /* of the first wrong one       */
    double             closest;                      /* largest error / allowed      */
} example;

void example_try(const example *e, ptxpack_status status);
/* Reads argv[i] as a number from 1 to most; returns fallback if there are fewer arguments. */
uint32_t example_number(int argc, char **argv, int i, uint32_t fallback, uint32_t most);
/* The language of the kernel file argv[1]: ".cu" is CUDA C++.  Prints usage if there is no argument. */
ptxpack_language example_language(int argc, char **argv, const char *usage);

/* Makes count halves in [-amplitude, amplitude), in steps of amplitude / 1024; the caller frees them. */
uint16_t *example_random(size_t count, uint64_t seed, float amplitude);
/* Returns device memory that example_close frees: a copy of data, or NaNs if data is NULL. */
uint64_t example_upload(example *e, const void *data, size_t bytes);
/* Waits for what was launched; the caller frees what it returns. */
void *example_download(const example *e, ptxpack_deviceptr from, size_t bytes);

/* Measure the time of the default stream between the two calls, in ms. */
void   example_start(example *e);
double example_stop(example *e);

/* Compares one element of the result: it is right when |got - want| <= allowed; NaN is wrong. */
void example_compare(example *e, uint64_t index, double got, double want, double allowed);
/* Returns the sum of a[i] b[i] in double precision, and that of |a[i] b[i]|, to which the error of an f32 sum
 * is proportional. */
double example_dot(const uint16_t *a, const uint16_t *b, uint32_t count, double *magnitude);
/* Compares o with softmax(q k^T / sqrt(dim)) v in double precision; for large problems only some rows.  All
 * tensors are [head][sequence][dim]; causal: row i sees keys 0..i.  Returns the number of pairs of query and
 * key. */
double example_compare_attention(example *e, const uint16_t *o, const uint16_t *q, const uint16_t *k,
                                 const uint16_t *v, uint32_t heads, uint32_t seqlen_q, uint32_t seqlen_kv,
                                 uint32_t dim, int causal);
/* Prints one line: the problem as the format says, whether the result is right, and the speed: `work` units and
 * `ms` of a launch.  Returns the exit status, and forgets what was compared. */
int  example_report(example *e, double ms, double work, const char *unit, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 5, 6)))
#endif
    ;
void example_close(example *e);
#endif
