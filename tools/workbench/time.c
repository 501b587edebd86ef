/* time.c - the time of a launch by events. */
#include "time.h"

#include <stdio.h>
#include <stdlib.h>

static bool launch(const program_launch *l)
{
    return device_status(l->gpu, ptxpack_function_launch(l->function, l->grid, l->block, l->smem, l->arguments,
                                                         l->gpu->stream));
}

/* Wait for the event that was recorded last and take its time; the watching process is told of the wait. */
static bool elapsed(const program_launch *l, double *ms)
{
    l->launching(l->context, true);
    bool ok = device_elapsed(l->gpu, ms);
    l->launching(l->context, false);
    return ok;
}

/* A launch itself may take long: the emulated driver returns when the kernel has ended. */
bool program_time_first(const program_launch *l, double *ms)
{
    l->launching(l->context, true);
    bool ok = device_sync(l->gpu) && device_start(l->gpu) && launch(l) && device_stop(l->gpu);
    l->launching(l->context, false);
    return ok && elapsed(l, ms);
}

/* ---- many ----------------------------------------------------------------------------------------- */
/* The number of launches that are enqueued at a time, so that the device need not wait for the host. */
enum { AHEAD = 32 };
typedef struct event_pairs {
    struct CUevent_st *from[AHEAD], *to[AHEAD];
} event_pairs;

static bool make_events(device *gpu, event_pairs *e)
{
    for (int i = 0; i < AHEAD; i++)
        if (!device_try(gpu, gpu->driver->cuEventCreate(&e->from[i], 0), "cuEventCreate") ||
            !device_try(gpu, gpu->driver->cuEventCreate(&e->to[i], 0), "cuEventCreate"))
            return false;
    return true;
}

static void free_events(device *gpu, event_pairs *e)
{
    for (int i = 0; i < AHEAD; i++) {
        if (e->from[i] != NULL)
            gpu->driver->cuEventDestroy(e->from[i]);
        if (e->to[i] != NULL)
            gpu->driver->cuEventDestroy(e->to[i]);
    }
}

/* Launch the kernel, or the graph. */
static bool enqueue(const program_launch *l, struct CUgraphExec_st *graph)
{
    device *gpu = l->gpu;
    return graph == NULL ? launch(l)
                         : device_try(gpu, gpu->driver->cuGraphLaunch(graph, gpu->stream), "cuGraphLaunch");
}

/* Time `count` launches, at most AHEAD. */
static bool time_some(const program_launch *l, struct CUgraphExec_st *graph, const event_pairs *e, int count,
                      double *ms)
{
    device *gpu = l->gpu;
    bool    ok = true;
    for (int i = 0; i < count && ok; i++) {
        l->launching(l->context, true); /* the emulated driver returns when the kernel has ended */
        ok = device_try(gpu, gpu->driver->cuEventRecord(e->from[i], gpu->stream), "cuEventRecord") &&
             enqueue(l, graph) &&
             device_try(gpu, gpu->driver->cuEventRecord(e->to[i], gpu->stream), "cuEventRecord");
    }
    for (int i = 0; i < count && ok; i++) {
        float time = 0;
        l->launching(l->context, true); /* the time limit starts again for the next */
        ok = device_try(gpu, gpu->driver->cuEventSynchronize(e->to[i]), "waiting for the GPU") &&
             device_try(gpu, gpu->driver->cuEventElapsedTime(&time, e->from[i], e->to[i]),
                        "cuEventElapsedTime");
        ms[i] = (double)time / (graph != NULL ? PROGRAM_GRAPH : 1);
    }
    l->launching(l->context, false);
    return ok;
}

static bool capture(const program_launch *l, struct CUgraphExec_st **exec)
{
    device                      *gpu = l->gpu;
    const struct ptxpack_driver *d = gpu->driver;
    struct CUgraph_st           *graph = NULL;
    if (d->cuStreamBeginCapture == NULL || d->cuStreamEndCapture == NULL || d->cuGraphLaunch == NULL ||
        d->cuGraphInstantiateWithFlags == NULL || d->cuGraphDestroy == NULL || d->cuGraphExecDestroy == NULL) {
        snprintf(gpu->line, sizeof gpu->line, "--graph: this driver has no graphs");
        return false;
    }
    if (!device_try(gpu, d->cuStreamBeginCapture(gpu->stream, PTXPACK_CU_CAPTURE_THREAD_LOCAL),
                    "cuStreamBeginCapture"))
        return false;
    bool ok = true;
    for (int i = 0; i < PROGRAM_GRAPH && ok; i++)
        ok = launch(l);
    ptxpack_cu_result ended = d->cuStreamEndCapture(gpu->stream, &graph);
    ok = ok && device_try(gpu, ended, "cuStreamEndCapture") &&
         device_try(gpu, d->cuGraphInstantiateWithFlags(exec, graph, 0), "cuGraphInstantiate");
    if (graph != NULL)
        d->cuGraphDestroy(graph);
    return ok;
}

/* Warm up, then time `launches` in pieces. */
static bool time_all(const program_launch *l, struct CUgraphExec_st *graph, int64_t launches, double *ms)
{
    event_pairs e = {{NULL}, {NULL}};
    int         warm = device_warm_up(l->gpu);
    bool        ok = make_events(l->gpu, &e) && (warm == 0 || time_some(l, graph, &e, warm, ms));
    for (int64_t i = 0; i < launches && ok; i += AHEAD)
        ok = time_some(l, graph, &e, (int)(launches - i < AHEAD ? launches - i : AHEAD), ms + i);
    free_events(l->gpu, &e);
    return ok;
}

bool program_time_many(const program_launch *l, int64_t launches, bool graph, program_result *result)
{
    struct CUgraphExec_st *exec = NULL;
    double                *ms = (double *)calloc((size_t)launches + AHEAD, sizeof *ms);
    if (ms == NULL) {
        snprintf(l->gpu->line, sizeof l->gpu->line, "no memory for %lld times", (long long)launches);
        return false;
    }
    bool ok = (!graph || capture(l, &exec)) && time_all(l, exec, launches, ms);
    if (ok) {
        result->launches = launches;
        result->ms = median(ms, (size_t)launches); /* sorts */
        result->least_ms = ms[0];
        result->most_ms = ms[launches - 1];
    }
    if (exec != NULL)
        l->gpu->driver->cuGraphExecDestroy(exec);
    free(ms);
    return ok;
}
