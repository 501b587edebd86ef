/* ranks.c - the devices, the memory and the launches of cases that run on all ranks of a group. */
#include "ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench/memory.h"
#include "tools/progress.h"

bool ranks_said(ranks_bench *b, int32_t rank, bool ok)
{
    if (!ok && rank > 0)
        snprintf(b->rank[0].gpu.line, sizeof b->rank[0].gpu.line, "rank %d: %.480s", (int)rank,
                 b->rank[rank].gpu.line);
    return ok;
}

uint32_t ranks_seed(const ranks_bench *b, int32_t rank, int tensor, int set)
{
    const int32_t of = tensor == RANKS_Q ? 0 : rank;
    return (uint32_t)b->settings->seed * 1024 + (uint32_t)((of * RANKS_SETS + set) * RANKS_O + tensor);
}

size_t ranks_bytes(const ranks_bench *b, int32_t rank, int tensor) { return b->bytes[rank > 0][tensor]; }

uint64_t ranks_at(const ranks_bench *b, int32_t rank, int tensor, int set)
{
    return b->rank[rank].tensor[tensor] + (uint64_t)(set % RANKS_SETS) * ranks_bytes(b, rank, tensor);
}

/* ---- devices ------------------------------------------------------------------------------------------- */
static bool open_rank(ranks_bench *b, int32_t rank)
{
    const device   *first = &b->rank[0].gpu;
    ptxpack_options options = {.size = sizeof options,
                               .device = rank % b->gpus,
                               .driver = ptxpack_driver_path(first->driver)};
    if (first->emulated)
        options.ptxjit = options.driver;
    first->driver->cuCtxSetCurrent(NULL); /* a context that is current would be the handle's */
    return ranks_said(b, rank, device_open(&b->rank[rank].gpu, &options) == PTXPACK_OK);
}

static bool open_event(ranks_bench *b, int32_t rank, struct CUevent_st **event)
{
    device *gpu = &b->rank[rank].gpu;
    return ranks_said(b, rank,
                      device_attach(gpu) &&
                          device_try(gpu, gpu->driver->cuEventCreate(event, PTXPACK_CU_EVENT_DISABLE_TIMING),
                                     "cuEventCreate"));
}

bool ranks_open(ranks_bench *b)
{
    ptxpack *handles[RANKS_MOST];
    device  *first = &b->rank[0].gpu;
    int      count = 0;
    if (!device_try(first, first->driver->cuDeviceGetCount(&count), "cuDeviceGetCount"))
        return false;
    b->ranks = (int32_t)(b->settings->devices > 0 ? b->settings->devices : count);
    if (b->ranks > RANKS_MOST)
        b->ranks = RANKS_MOST;
    b->gpus = count < b->ranks ? (int32_t)count : b->ranks;
    for (; b->opened < b->ranks; b->opened++)
        if (!open_rank(b, b->opened))
            return false;
    for (int32_t r = 0; r < b->ranks; r++) {
        handles[r] = b->rank[r].gpu.handle;
        if (!open_event(b, r, &b->rank[r].done))
            return false;
    }
    return open_event(b, 0, &b->begun) &&
           device_status(first, ptxpack_parallel_devices(handles, b->ranks, &b->group));
}

static void close_case(ranks_bench *b, ranks_case *c)
{
    ptxpack_attention_plan_free(c->alone);
    ptxpack_attention_parallel_plan_free(c->prefill);
    ptxpack_parallel_decode_plan_free(c->decode);
    for (int32_t r = 0; r < b->opened; r++)
        if (device_attach(&b->rank[r].gpu))
            device_free(&b->rank[r].gpu, c->workspace[r]);
}

void ranks_close(ranks_bench *b)
{
    if (b->opened > 0 && device_attach(&b->rank[0].gpu))
        bench_rounds_free(&b->timing);
    for (size_t i = 0; i < b->count; i++)
        close_case(b, &b->cases[i]);
    ptxpack_parallel_free(b->group);
    while (b->opened > 0) {
        ranks_one *r = &b->rank[--b->opened];
        if (device_attach(&r->gpu)) {
            for (int t = 0; t < RANKS_TENSORS; t++)
                device_free(&r->gpu, r->tensor[t]);
            if (r->done != NULL)
                r->gpu.driver->cuEventDestroy(r->done);
            if (b->opened == 0 && b->begun != NULL)
                r->gpu.driver->cuEventDestroy(b->begun);
        }
        device_close(&r->gpu);
    }
    free(b->cases);
    free(b->live);
    free(b->launches);
}

/* ---- memory and plans ---------------------------------------------------------------------------------- */
static bool fill_rank(ranks_bench *b, int32_t rank)
{
    device      *gpu = &b->rank[rank].gpu;
    bench_memory memory = {.gpu = NULL};
    bool         ok = device_attach(gpu) && bench_memory_open(&memory, gpu, b->settings->dtype);
    for (int t = 0; t < RANKS_TENSORS && ok; t++)
        ok = device_alloc(gpu, &b->rank[rank].tensor[t], ranks_bytes(b, rank, t) * RANKS_SETS);
    for (int t = 0; t < RANKS_O && ok; t++)
        for (int set = 0; set < RANKS_SETS && ok; set++)
            ok = bench_memory_fill(&memory, ranks_at(b, rank, t, set), ranks_bytes(b, rank, t),
                                   ranks_seed(b, rank, t, set));
    ok = ok && device_sync(gpu);
    bench_memory_close(&memory);
    return ranks_said(b, rank, ok);
}

static size_t workspace_of(const ranks_case *c, int32_t rank)
{
    switch (c->kind) {
    case RANKS_ALONE:
        return rank == 0 ? ptxpack_attention_workspace(c->alone) : 0;
    case RANKS_PREFILL:
        return ptxpack_attention_parallel_workspace(c->prefill, rank);
    case RANKS_DECODE:
        return ptxpack_parallel_decode_workspace(c->decode);
    case RANKS_COPY:
        break;
    }
    return 0;
}

static bool make(ranks_bench *b, ranks_case *c)
{
    device                               *first = &b->rank[0].gpu;
    ptxpack_status                        status = PTXPACK_OK;
    const ptxpack_attention_parallel_desc desc = {.size = sizeof desc,
                                                  .shards = c->shards,
                                                  .attention = &c->desc,
                                                  .way = c->way};
    if (c->kind == RANKS_ALONE)
        status = ptxpack_attention_plan_create(first->handle, &c->desc, &c->alone);
    else if (c->kind == RANKS_PREFILL)
        status = ptxpack_attention_parallel_plan_create(b->group, &desc, &c->prefill);
    else if (c->kind == RANKS_DECODE)
        status = ptxpack_parallel_decode_plan_create(b->group, &c->desc, &c->decode);
    bool ok = device_status(first, status);
    for (int32_t r = 0; r < b->ranks && ok; r++) {
        device *gpu = &b->rank[r].gpu;
        ok = ranks_said(b, r,
                        device_attach(gpu) && device_alloc_zeros(gpu, &c->workspace[r], workspace_of(c, r)) &&
                            device_sync(gpu));
    }
    return ok;
}

/* ---- launches ------------------------------------------------------------------------------------------ */
static ptxpack_attention_buffers buffers_of(const ranks_bench *b, const ranks_case *c, int32_t rank, int set)
{
    return (ptxpack_attention_buffers){.size = sizeof(ptxpack_attention_buffers),
                                       .q = ranks_at(b, rank, RANKS_Q, set),
                                       .k = ranks_at(b, rank, RANKS_K, set),
                                       .v = ranks_at(b, rank, RANKS_V, set),
                                       .o = ranks_at(b, rank, RANKS_O, set),
                                       .lse = ranks_at(b, rank, RANKS_LSE, set),
                                       .workspace = c->kind == RANKS_ALONE ? c->workspace[rank] : 0};
}

static ptxpack_status launch_prefill(const ranks_bench *b, const ranks_case *c, int set)
{
    ptxpack_attention_parallel_buffers shared[RANKS_MOST];
    for (int32_t r = 0; r < b->ranks; r++) {
        const ptxpack_attention_buffers own = buffers_of(b, c, r, set);
        shared[r] = (ptxpack_attention_parallel_buffers){.size = sizeof shared[r],
                                                         .q = own.q,
                                                         .k = own.k,
                                                         .v = own.v,
                                                         .o = own.o,
                                                         .lse = own.lse,
                                                         .workspace = c->workspace[r],
                                                         .stream = b->rank[r].gpu.stream};
    }
    return ptxpack_attention_parallel_launch(c->prefill, shared);
}

static ptxpack_status launch_decode(const ranks_bench *b, const ranks_case *c, int set)
{
    ptxpack_attention_buffers       own[RANKS_MOST];
    ptxpack_parallel_decode_buffers shared[RANKS_MOST];
    for (int32_t r = 0; r < b->ranks; r++) {
        own[r] = buffers_of(b, c, r, set);
        shared[r] = (ptxpack_parallel_decode_buffers){.size = sizeof shared[r],
                                                      .attention = &own[r],
                                                      .workspace = c->workspace[r],
                                                      .stream = b->rank[r].gpu.stream};
    }
    return ptxpack_parallel_decode(c->decode, shared);
}

/* Every rank takes queries of the next one, as the library's copies do, into where its results are. */
static bool launch_copies(ranks_bench *b, const ranks_case *c, int set)
{
    bool ok = true;
    for (int32_t r = 0; r < b->ranks && ok; r++) {
        const int32_t                next = (r + 1) % b->ranks;
        device                      *gpu = &b->rank[r].gpu, *other = &b->rank[next].gpu;
        const struct ptxpack_driver *driver = gpu->driver;
        const uint64_t               to = ranks_at(b, r, RANKS_O, set), from = ranks_at(b, next, RANKS_Q, set);
        if (!device_attach(gpu))
            ok = false;
        else if (other->context == gpu->context)
            ok = device_try(gpu, driver->cuMemcpyDtoDAsync(to, from, c->copied, gpu->stream),
                            "cuMemcpyDtoDAsync");
        else
            ok = device_try(gpu,
                            driver->cuMemcpyPeerAsync(to, gpu->context, from, other->context, c->copied,
                                                      gpu->stream),
                            "cuMemcpyPeerAsync");
        ranks_said(b, r, ok);
    }
    return ok;
}

static bool launch(ranks_bench *b, ranks_case *c, int set)
{
    device *first = &b->rank[0].gpu;
    switch (c->kind) {
    case RANKS_ALONE: {
        const ptxpack_attention_buffers buffers = buffers_of(b, c, 0, set);
        return device_status(first, ptxpack_attention_launch(c->alone, &buffers, first->stream));
    }
    case RANKS_PREFILL:
        return device_status(first, launch_prefill(b, c, set));
    case RANKS_DECODE:
        return device_status(first, launch_decode(b, c, set));
    case RANKS_COPY:
        break;
    }
    return launch_copies(b, c, set);
}

/* `waiting` goes on when what is in the stream of `before` so far is done. */
static bool follow(ranks_bench *b, int32_t waiting, int32_t before, struct CUevent_st *event)
{
    device *gpu = &b->rank[before].gpu, *other = &b->rank[waiting].gpu;
    return ranks_said(b, before,
                      device_attach(gpu) &&
                          device_try(gpu, gpu->driver->cuEventRecord(event, gpu->stream), "cuEventRecord")) &&
           ranks_said(b, waiting,
                      device_attach(other) &&
                          device_try(other, other->driver->cuStreamWaitEvent(other->stream, event, 0),
                                     "cuStreamWaitEvent"));
}

/* Decoding is short: more launches, so that how a first one begins on other devices counts as little as it does in a program. */
static int launches_of(const ranks_case *c)
{
    enum { FEW = 4, MANY = 16 };
    return c->desc.seqlen_q == 1 && c->kind != RANKS_COPY ? MANY : FEW;
}

bool ranks_enqueue(void *bench, size_t index)
{
    ranks_bench  *b = (ranks_bench *)bench;
    ranks_case   *c = &b->cases[index];
    const int32_t ranks = c->kind == RANKS_ALONE ? 1 : b->ranks;
    bool          ok = true;
    for (int32_t r = 1; r < ranks && ok; r++)
        ok = follow(b, r, 0, b->begun);
    for (int n = 0; n < launches_of(c) && ok; n++)
        ok = launch(b, c, n % RANKS_SETS);
    for (int32_t r = 1; r < ranks && ok; r++)
        ok = follow(b, 0, r, b->rank[r].done);
    return device_attach(&b->rank[0].gpu) && ok; /* the rounds go on with it */
}

/* ---- the rounds ---------------------------------------------------------------------------------------- */
bool ranks_run(ranks_bench *b)
{
    bool ok = true;
    for (int32_t r = 0; r < b->ranks && ok; r++)
        ok = fill_rank(b, r);
    progress_begin("bench", "plans and checks");
    for (size_t i = 0; i < b->count && ok; i++) {
        progress_step(i + 1, b->count, "cases");
        ok = make(b, &b->cases[i]) && ranks_enqueue(b, i) && device_sync(&b->rank[0].gpu) &&
             ranks_check(b, &b->cases[i]);
    }
    progress_end();
    b->live = (bool *)malloc(b->count + 1);
    b->launches = (int *)malloc((b->count + 1) * sizeof *b->launches);
    if (ok && (b->live == NULL || b->launches == NULL)) {
        snprintf(b->rank[0].gpu.line, sizeof b->rank[0].gpu.line, "no memory");
        return false;
    }
    if (!ok)
        return false;
    memset(b->live, true, b->count + 1);
    for (size_t i = 0; i < b->count; i++)
        b->launches[i] = launches_of(&b->cases[i]);
    b->timing = (bench_rounds){.gpu = &b->rank[0].gpu,
                               .count = b->count,
                               .rounds = b->settings->rounds,
                               .seed = (uint64_t)b->settings->seed,
                               .launches_of = b->launches,
                               .rest_us = b->rest_us,
                               .enqueue = ranks_enqueue,
                               .context = b,
                               .live = b->live};
    return device_attach(&b->rank[0].gpu) && bench_rounds_run(&b->timing);
}
