/* example.h - what the examples share, so that each main.c shows the library and little else.
 *
 * What fails ends the program with one line: status 1, 2 for wrong arguments, 77 with a SKIP line where a
 * kernel in CUDA C++ meets no NVRTC.  A program of your own would hand its errors on instead. */
#ifndef PTXPACK_EXAMPLE_H
#define PTXPACK_EXAMPLE_H
#include <stddef.h>
#include <stdint.h>
#include <ptxpack/ptxpack.h>

enum { EXAMPLE_BUFFERS = 8 };

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
/* argv[i] as a number from 1 to most; fallback where there are fewer arguments. */
uint32_t example_number(int argc, char **argv, int i, uint32_t fallback, uint32_t most);
/* Of the kernel file argv[1]: ".cu" is CUDA C++.  usage is printed where there is none. */
ptxpack_language example_language(int argc, char **argv, const char *usage);

/* count halves in [-amplitude, amplitude), in steps of amplitude / 1024; the caller frees them. */
uint16_t *example_random(size_t count, uint64_t seed, float amplitude);
/* Device memory that example_close frees: a copy of data, or, with NULL, NaNs. */
uint64_t example_upload(example *e, const void *data, size_t bytes);
/* Waits for what was launched; the caller frees what it returns. */
void *example_download(const example *e, ptxpack_deviceptr from, size_t bytes);

/* What the default stream takes between the two calls, in ms. */
void   example_start(example *e);
double example_stop(example *e);

/* One element of the result: fine when |got - want| <= allowed; NaN is not. */
void example_compare(example *e, uint64_t index, double got, double want, double allowed);
/* sum of a[i] b[i] in double precision, and of |a[i] b[i]|, which the error of a sum in f32 goes by. */
double example_dot(const uint16_t *a, const uint16_t *b, uint32_t count, double *magnitude);
/* Compares o with softmax(q k^T / sqrt(dim)) v in double precision; of large problems some rows.  All are
 * [head][sequence][dim]; causal: row i sees keys 0..i.  Returns the pairs of query and key that count. */
double example_compare_attention(example *e, const uint16_t *o, const uint16_t *q, const uint16_t *k,
                                 const uint16_t *v, uint32_t heads, uint32_t seqlen_q, uint32_t seqlen_kv,
                                 uint32_t dim, int causal);
/* One line: the problem as the format says it, right or wrong, and how fast: `work` units and `ms` a
 * launch. Returns the exit status; what was compared is forgotten. */
int  example_report(example *e, double ms, double work, const char *unit, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 5, 6)))
#endif
    ;
void example_close(example *e);
#endif
