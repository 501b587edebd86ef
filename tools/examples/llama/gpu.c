/* gpu.c - the driver through the library's table of functions.  What a model allocates is freed together. */
#include "llama.h"

#include <stdlib.h>
#include <string.h>

struct gpu_piece {
    struct gpu_piece *next;
    ptxpack_deviceptr memory; /* 0: it is of the host */
    void             *pinned;
};

void try_pack(const gpu *d, ptxpack_status status)
{
    NEED(status == PTXPACK_OK, "%s: %s", ptxpack_status_name(status), ptxpack_detail(d->pack));
}

void try_cuda(const gpu *d, ptxpack_cu_result result, const char *what)
{
    char text[256];
    NEED(result == PTXPACK_CU_SUCCESS, "%s: %s", what, ptxpack_driver_error(d->cuda, result, text, sizeof text));
}

void gpu_enter(const gpu *d) { try_cuda(d, d->cuda->cuCtxSetCurrent(ptxpack_context(d->pack)), "cuCtxSetCurrent"); }

void gpu_open(gpu *d, int device)
{
    ptxpack_options options = {.size = sizeof options, .device = device};
    *d = (gpu){0};
    try_pack(d, ptxpack_open(&options, &d->pack));
    d->cuda = ptxpack_driver_table(d->pack);
    NEED(d->cuda->cuStreamBeginCapture != NULL && d->cuda->cuGraphInstantiateWithFlags != NULL && d->cuda->cuMemHostAlloc != NULL,
         "this driver has no graphs: one of CUDA 11.4 or later is needed");
    gpu_enter(d);
    try_cuda(d, d->cuda->cuStreamCreate(&d->stream, PTXPACK_CU_STREAM_NON_BLOCKING), "cuStreamCreate");
}

void gpu_need(const gpu *d, int count)
{
    int all = 0, can = 1;
    try_cuda(d, d->cuda->cuDeviceGetCount(&all), "cuDeviceGetCount");
    NEED(count <= all, "--gpus %d: the driver sees %d", count, all);
    for (int i = 0; i < count * count; i++) {
        const int reader = i / count, other = i % count;
        if (reader != other && d->cuda->cuDeviceCanAccessPeer != NULL)
            try_cuda(d, d->cuda->cuDeviceCanAccessPeer(&can, reader, other), "cuDeviceCanAccessPeer");
        NEED(can, "--gpus %d: GPU %d cannot read the memory of GPU %d", count, reader, other);
    }
}

void gpu_close(gpu *d)
{
    upload_close(d->upload);
    gpu_release(d, NULL);
    d->cuda->cuStreamDestroy(d->stream);
    ptxpack_close(d->pack);
}

void gpu_release(gpu *d, struct gpu_piece *kept)
{
    while (d->pieces != kept) {
        struct gpu_piece *last = d->pieces;
        if (last->memory != 0)
            d->cuda->cuMemFree(last->memory);
        else
            d->cuda->cuMemFreeHost(last->pinned);
        d->pieces = last->next;
        free(last);
    }
}

static void remember(gpu *d, ptxpack_deviceptr memory, void *pinned)
{
    struct gpu_piece *piece = (struct gpu_piece *)allocate(1, sizeof *piece);
    *piece = (struct gpu_piece){d->pieces, memory, pinned};
    d->pieces = piece;
}

uint64_t gpu_memory(gpu *d, size_t bytes)
{
    ptxpack_deviceptr memory;
    bytes = bytes != 0 ? bytes : 16;
    NEED(d->cuda->cuMemAlloc(&memory, bytes) == PTXPACK_CU_SUCCESS, "the device has no memory for %zu bytes more", bytes);
    remember(d, memory, NULL);
    try_cuda(d, d->cuda->cuMemsetD8(memory, 0, bytes), "cuMemsetD8");
    try_cuda(d, d->cuda->cuStreamSynchronize(NULL), "cuMemsetD8"); /* other streams do not wait for the default one */
    return memory;
}

void *gpu_pinned(gpu *d, size_t bytes)
{
    void *memory;
    try_cuda(d, d->cuda->cuMemHostAlloc(&memory, bytes, PTXPACK_CU_MEMHOSTALLOC_PORTABLE), "cuMemHostAlloc");
    remember(d, 0, memory);
    return memset(memory, 0, bytes);
}

void gpu_send(const gpu *d, uint64_t from, const gpu *other, uint64_t to, size_t bytes)
{
    if (d->pack == other->pack)
        try_cuda(d, d->cuda->cuMemcpyDtoDAsync(to, from, bytes, d->stream), "cuMemcpyDtoDAsync");
    else
        try_cuda(d, d->cuda->cuMemcpyPeerAsync(to, ptxpack_context(other->pack), from, ptxpack_context(d->pack), bytes, d->stream),
                 "cuMemcpyPeerAsync");
}
