/* bench.h - what the benchmarks share: their settings. */
#ifndef PTXPACK_BENCH_H
#define PTXPACK_BENCH_H
#include <stdbool.h>
#include <stdint.h>
#include "host/attention/attention.h"

enum { BENCH_LIST = 32 };
typedef struct bench_list {
    int     count;
    int32_t value[BENCH_LIST];
} bench_list;

typedef struct bench_settings {
    bench_list             head_dims, lengths;
    bench_list             sizes;        /* of gemm; none: its own */
    const char            *kernel;       /* of gemm: a row's id, "all"; NULL: the chosen one */
    bool                   full, causal; /* which masks */
    ptxpack_attention_desc masked;       /* a window in their place, and a softcap; all else 0 */
    ptxpack_dtype          dtype;
    int64_t                rounds, seed;
    bool                   json;
} bench_settings;

/* Each prints its table and returns an exit status; all but bench_layout open the device, bench_emu the
 * emulated one. */
int bench_attention(const bench_settings *settings);
int bench_gemm(const bench_settings *settings);
int bench_vector_add(const bench_settings *settings);
int bench_start_up(const bench_settings *settings);
int bench_layout(const bench_settings *settings);
int bench_emu(const bench_settings *settings);
#endif
