/* rounds.c - times cases as CUDA graphs in shuffled rounds. */
#include "rounds.h"
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "loader/inspect.h"
#include "tools/progress.h"
#include "tools/problem/random.h"

bool bench_open(device *gpu, const ptxpack_options *options) { return bench_open_either(gpu, options, false); }

bool bench_open_either(device *gpu, const ptxpack_options *options, bool allowed)
{
    char           why[sizeof gpu->line];
    ptxpack_status status = device_open_as(gpu, NULL, options);
    if (status == PTXPACK_OK && (!gpu->emulated || (allowed && *gpu->why == '\0')))
        return true;
    if (status != PTXPACK_OK && !device_absent(status))
        return false;
    snprintf(why, sizeof why, "%s", status != PTXPACK_OK ? gpu->line : gpu->why);
    char *advice = strstr(why, PTXPACK_EMULATOR_ADVICE); /* which is none here */
    if (advice != NULL)
        *advice = '\0';
    device_close(gpu);
    snprintf(gpu->line, sizeof gpu->line,
             "a benchmark needs a GPU%s%.300s (without one: `ptxpack profile` counts what is executed, "
             "`ptxpack bench "
             "layout` and `emu` time the host)",
             *why ? ": " : "", why);
    return false;
}

static bool no_memory(bench_rounds *b)
{
    snprintf(b->gpu->line, sizeof b->gpu->line, "no memory for %zu cases of %lld rounds", b->count,
             (long long)b->rounds);
    return false;
}

bool bench_capture(device *gpu, bool (*enqueue)(void *context, size_t index), void *context, size_t index,
                   struct CUgraphExec_st **out)
{
    const struct ptxpack_driver *driver = gpu->driver;
    struct CUgraph_st           *graph = NULL;
    *out = NULL;
    if (driver->cuStreamBeginCapture == NULL || driver->cuStreamEndCapture == NULL ||
        driver->cuGraphInstantiateWithFlags == NULL || driver->cuGraphLaunch == NULL)
        return true;
    if (!device_try(gpu, driver->cuStreamBeginCapture(gpu->stream, PTXPACK_CU_CAPTURE_THREAD_LOCAL),
                    "cuStreamBeginCapture"))
        return false;
    bool              ok = enqueue(context, index);
    ptxpack_cu_result ended = driver->cuStreamEndCapture(gpu->stream, &graph);
    ok = ok && device_try(gpu, ended, "cuStreamEndCapture") &&
         device_try(gpu, driver->cuGraphInstantiateWithFlags(out, graph, 0), "cuGraphInstantiate");
    if (graph != NULL && driver->cuGraphDestroy != NULL)
        driver->cuGraphDestroy(graph);
    return ok;
}

void bench_graph_free(device *gpu, struct CUgraphExec_st *graph)
{
    if (graph != NULL && gpu->driver->cuGraphExecDestroy != NULL)
        gpu->driver->cuGraphExecDestroy(graph);
}

/* Sums over two halves of a buffer that is larger than most L2 caches: on the fastest GPU some 10 us each. */
enum { BUSY_BYTES = 64 << 20, BUSY_SUMS = 16, BUSY_BYTES_EMULATED = 4096 };

static size_t busy_bytes(const bench_rounds *b) { return b->gpu->emulated ? BUSY_BYTES_EMULATED : BUSY_BYTES; }

static bool open_busy(bench_rounds *b)
{
    return bench_memory_open(&b->memory, b->gpu, PTXPACK_F16) &&
           device_alloc_zeros(b->gpu, &b->busy, busy_bytes(b));
}

static bool keep_busy(bench_rounds *b)
{
    const size_t half = busy_bytes(b) / 2;
    bool         ok = true;
    for (int i = 0; i < (b->gpu->emulated ? 1 : BUSY_SUMS) && ok; i++)
        ok = bench_memory_reduce(&b->memory, b->busy, b->busy + half, half);
    return ok;
}

static bool run_case(bench_rounds *b, size_t index, double *ms)
{
    usleep((useconds_t)b->rest_us);
    bool ok = keep_busy(b) && device_start(b->gpu) &&
              (b->graphs[index] != NULL
                   ? device_try(b->gpu, b->gpu->driver->cuGraphLaunch(b->graphs[index], b->gpu->stream),
                                "cuGraphLaunch")
                   : b->enqueue(b->context, index)) &&
              device_stop(b->gpu) && device_elapsed(b->gpu, ms);
    *ms /= b->launches_of != NULL ? b->launches_of[index] : b->launches;
    return ok;
}

static void shuffle(size_t *order, size_t count, random_state *random)
{
    for (size_t i = count; i > 1; i--) {
        size_t other = random_below(random, i), swap = order[i - 1];
        order[i - 1] = order[other];
        order[other] = swap;
    }
}

static bool run_rounds(bench_rounds *b, size_t *order)
{
    random_state random = random_start(b->seed);
    bool         ok = true;
    for (size_t i = 0; i < b->count; i++)
        order[i] = i;
    progress_begin("bench", "rounds");
    for (int64_t round = -1; round < b->rounds && ok; round++) {
        shuffle(order, b->count, &random);
        progress_step((size_t)(round + 1), (size_t)b->rounds, "rounds");
        for (size_t i = 0; i < b->count && ok; i++) {
            double ms = 0;
            ok = run_case(b, order[i], &ms);
            if (round >= 0 && ok)
                b->ms[order[i] * (size_t)b->rounds + (size_t)round] = ms;
        }
    }
    progress_end();
    return ok;
}

bool bench_rounds_run(bench_rounds *b)
{
    size_t *order = (size_t *)calloc(b->count + 1, sizeof *order);
    b->graphs = (struct CUgraphExec_st **)calloc(b->count + 1, sizeof(struct CUgraphExec_st *));
    b->ms = (double *)calloc(b->count + 1, (size_t)b->rounds * sizeof *b->ms);
    bool ok = order != NULL && b->graphs != NULL && b->ms != NULL;
    ok = (ok || no_memory(b)) && open_busy(b);
    for (size_t i = 0; i < b->count && ok; i++)
        ok = (b->live != NULL && b->live[i]) || bench_capture(b->gpu, b->enqueue, b->context, i, &b->graphs[i]);
    ok = ok && run_rounds(b, order);
    free(order);
    return ok;
}

double bench_rounds_ms(bench_rounds *b, size_t index)
{
    return median(b->ms + index * (size_t)b->rounds, (size_t)b->rounds);
}

void bench_rounds_free(bench_rounds *b)
{
    for (size_t i = 0; i < b->count && b->graphs != NULL; i++)
        bench_graph_free(b->gpu, b->graphs[i]);
    if (b->gpu != NULL) {
        device_free(b->gpu, b->busy);
        bench_memory_close(&b->memory);
    }
    free(b->graphs);
    free(b->ms);
}
