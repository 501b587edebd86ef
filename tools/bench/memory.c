/* memory.c - the kernels of ptx/probe that only benchmarks use: fill.ptx, reduce.ptx and advance.ptx.  As all probes they
 * are no rows of kernels.def: their rows are made here. */
#include "memory.h"

#include <stddef.h>

enum { THREADS = 256, LOADS = 4, BLOCKS_PER_SM = 8, FILLED = 8 /* elements of a thread */ };

typedef struct fill_arguments {
    uint64_t at;
    uint32_t count, seed;
} fill_arguments;
typedef struct reduce_arguments {
    uint64_t a, b, out, bytes;
} reduce_arguments;
typedef struct advance_arguments {
    uint64_t lengths, first;
    int32_t  steps, batch;
} advance_arguments;

static const ptxpack_variant rows[] = {
    {.id = "probe_fill",
     .op = "probe",
     .file = "probe/fill.ptx",
     .entry = "probe_fill",
     .arch = 75,
     .isa = 63,
     .threads = THREADS,
     .blocks_per_sm = 1},
    {.id = "probe_reduce",
     .op = "probe",
     .file = "probe/reduce.ptx",
     .entry = "probe_reduce",
     .arch = 75,
     .isa = 63,
     .threads = THREADS,
     .blocks_per_sm = 1},
    {.id = "probe_advance",
     .op = "probe",
     .file = "probe/advance.ptx",
     .entry = "probe_advance",
     .arch = 75,
     .isa = 63,
     .threads = THREADS,
     .blocks_per_sm = 1},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

bool bench_memory_open(bench_memory *m, device *gpu, ptxpack_dtype dtype)
{
    const ptxpack_symbol fill[] = {{"ARG_AT", offsetof(fill_arguments, at)},
                                   {"ARG_COUNT", offsetof(fill_arguments, count)},
                                   {"ARG_SEED", offsetof(fill_arguments, seed)},
                                   {"ARG_BYTES", sizeof(fill_arguments)},
                                   {"BF16", dtype == PTXPACK_BF16}};
    const ptxpack_symbol reduce[] = {{"ARG_A", offsetof(reduce_arguments, a)},
                                     {"ARG_B", offsetof(reduce_arguments, b)},
                                     {"ARG_OUT", offsetof(reduce_arguments, out)},
                                     {"ARG_BYTES", offsetof(reduce_arguments, bytes)},
                                     {"ARG_BYTES_ALL", sizeof(reduce_arguments)},
                                     {"LOADS", LOADS}};
    const ptxpack_symbol advance[] = {{"ARG_LENGTHS", offsetof(advance_arguments, lengths)},
                                      {"ARG_FIRST", offsetof(advance_arguments, first)},
                                      {"ARG_STEPS", offsetof(advance_arguments, steps)},
                                      {"ARG_BATCH", offsetof(advance_arguments, batch)},
                                      {"ARG_BYTES", sizeof(advance_arguments)}};
    *m = (bench_memory){.gpu = gpu, .sm_count = ptxpack_device(gpu->handle)->sm_count};
    return device_status(gpu, ptxpack_kernel_load(gpu->handle, &rows[0], fill, COUNT(fill), &m->fill)) &&
           device_status(gpu, ptxpack_kernel_load(gpu->handle, &rows[1], reduce, COUNT(reduce), &m->reduce)) &&
           device_status(gpu,
                         ptxpack_kernel_load(gpu->handle, &rows[2], advance, COUNT(advance), &m->advance)) &&
           device_alloc_zeros(gpu, &m->sum, sizeof(uint32_t));
}

void bench_memory_close(bench_memory *m)
{
    if (m->gpu != NULL)
        device_free(m->gpu, m->sum);
    m->sum = 0;
}

static bool launch(bench_memory *m, const ptxpack_kernel *kernel, size_t blocks, const void *arguments)
{
    const uint32_t grid[3] = {(uint32_t)blocks, 1, 1};
    return device_status(m->gpu, ptxpack_kernel_launch(kernel, grid, arguments, m->gpu->stream));
}

/* ---- random numbers ------------------------------------------------------------------------------------ */
bool bench_memory_fill(bench_memory *m, uint64_t at, size_t bytes, uint32_t seed)
{
    const fill_arguments arguments = {at, (uint32_t)(bytes / 2), seed};
    const size_t         blocks = (bytes / 2 + THREADS * FILLED - 1) / (THREADS * FILLED);
    return blocks == 0 || launch(m, m->fill, blocks, &arguments);
}

float bench_memory_element(uint32_t index, uint32_t seed)
{
    uint32_t hash = index * UINT32_C(0x9E3779B1) + seed;
    hash = (hash ^ hash >> 16) * UINT32_C(0x85EBCA6B);
    hash = (hash ^ hash >> 13) * UINT32_C(0xC2B2AE35);
    hash ^= hash >> 16;
    int32_t sum = -126;
    for (int from = 0; from < 24; from += 6)
        sum += (int32_t)(hash >> from & 63);
    return (float)sum * 0x1p-5f;
}

/* ---- what only reads, and the step of a loop ----------------------------------------------------------- */
bool bench_memory_reduce(bench_memory *m, uint64_t a, uint64_t b, size_t bytes)
{
    const reduce_arguments arguments = {a, b, m->sum, bytes};
    const size_t           tile = (size_t)THREADS * LOADS * 16, tiles = (bytes + tile - 1) / tile;
    const size_t           most = (size_t)m->sm_count * BLOCKS_PER_SM;
    return launch(m, m->reduce, tiles < 1 ? 1 : tiles < most ? tiles : most, &arguments);
}

bool bench_memory_advance(bench_memory *m, uint64_t lengths, uint64_t first, int32_t steps, int32_t batch)
{
    const advance_arguments arguments = {lengths, first, steps, batch};
    return launch(m, m->advance, ((size_t)batch + THREADS - 1) / THREADS, &arguments);
}
