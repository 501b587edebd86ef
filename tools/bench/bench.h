/* bench.h - what the benchmarks share: their settings. */
#ifndef PTXPACK_BENCH_H
#define PTXPACK_BENCH_H
#include <stdbool.h>
#include <stdint.h>
#include "host/attention/attention.h"
#include "host/gemm/gemm.h"
#include "tools/device.h"

enum { BENCH_LIST = 32 };
typedef struct bench_list {
    int     count;
    int32_t value[BENCH_LIST];
} bench_list;

typedef struct bench_settings {
    bench_list          head_dims, lengths;
    bench_list          sizes;       /* for gemm, and prompts for model; none: its default sizes */
    bench_list          batches;     /* for model */
    bench_list          table_rows;  /* for decode: rows of its table, from 1; none: all */
    int64_t             queries;     /* for decode: query rows of a sequence */
    bench_list          heads, keys; /* for parallel: heads of q, of k; keys of decoding */
    int64_t             devices;     /* for parallel: ranks; 0: all devices */
    double              link;        /* for parallel: GB/s of its model; 0: the library's */
    bool                lengths_given;
    const char         *part;         /* for serving: names of parts, separated by commas; NULL: all */
    const char         *model;        /* for model: the name of a shape */
    ptxpack_dtype       weights;      /* for model: of the matrices of layers; 0: as dtype */
    const char         *kernel;       /* for gemm: a row's id, or "all"; NULL: the chosen row */
    ptxpack_dtype       dtype_ab;     /* for gemm: of A and B; 0: as dtype */
    ptxpack_gemm_scales scales;       /* of e4m3 */
    bool                full, causal; /* which masks */
    /* a window that replaces them, and a softcap; all other fields are 0 */
    ptxpack_attention_desc masked;
    ptxpack_dtype          dtype, kv_dtype; /* for decode: of k and v; 0: as dtype */
    int64_t                rounds, seed;
    bool                   json;
} bench_settings;

/* Opens the GPU for a benchmark.  False with the device's line set: there is none, or PTXPACK_DEVICE or PTXPACK_DRIVER names
 * the emulated driver, whose times say nothing of a GPU. */
bool bench_open(device *gpu, const ptxpack_options *options);
/* The same, but opens the emulated driver, too, if `allowed` and PTXPACK_DEVICE or PTXPACK_DRIVER names it. */
bool bench_open_either(device *gpu, const ptxpack_options *options, bool allowed);

/* Each prints its table and returns an exit status; all but bench_layout open the device, bench_emu the
 * emulated one. */
int bench_attention(const bench_settings *settings);
int bench_decode(const bench_settings *settings);
int bench_serving(const bench_settings *settings);
int bench_parallel(const bench_settings *settings);
int bench_gemm(const bench_settings *settings);
int bench_model(const bench_settings *settings);
int bench_vector_add(const bench_settings *settings);
int bench_start_up(const bench_settings *settings);
int bench_layout(const bench_settings *settings);
int bench_emu(const bench_settings *settings);
#endif
