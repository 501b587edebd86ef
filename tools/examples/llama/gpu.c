/* gpu.c - the driver through the library's table of functions.  The program runs one model: its memory is freed with the context,
 * which ptxpack_close gives back. */
#include "llama.h"

#include <string.h>

void try_pack(const gpu *d, ptxpack_status status)
{
    NEED(status == PTXPACK_OK, "%s: %s", ptxpack_status_name(status), ptxpack_detail(d->pack));
}

void try_cuda(const gpu *d, ptxpack_cu_result result, const char *what)
{
    char text[256];
    NEED(result == PTXPACK_CU_SUCCESS, "%s: %s", what, ptxpack_driver_error(d->cuda, result, text, sizeof text));
}

void gpu_open(gpu *d)
{
    *d = (gpu){0};
    try_pack(d, ptxpack_open(NULL, &d->pack));
    d->cuda = ptxpack_driver_table(d->pack);
    NEED(d->cuda->cuStreamBeginCapture != NULL && d->cuda->cuGraphInstantiateWithFlags != NULL && d->cuda->cuMemHostAlloc != NULL,
         "this driver has no graphs: one of CUDA 11.4 or later is needed");
    try_cuda(d, d->cuda->cuCtxSetCurrent(ptxpack_context(d->pack)), "cuCtxSetCurrent");
    try_cuda(d, d->cuda->cuStreamCreate(&d->stream, PTXPACK_CU_STREAM_NON_BLOCKING), "cuStreamCreate");
}

void gpu_close(gpu *d)
{
    d->cuda->cuStreamDestroy(d->stream);
    ptxpack_close(d->pack);
}

uint64_t gpu_memory(gpu *d, size_t bytes)
{
    ptxpack_deviceptr memory;
    bytes = bytes != 0 ? bytes : 16;
    NEED(d->cuda->cuMemAlloc(&memory, bytes) == PTXPACK_CU_SUCCESS, "the device has no memory for %zu bytes more", bytes);
    try_cuda(d, d->cuda->cuMemsetD8(memory, 0, bytes), "cuMemsetD8");
    return memory;
}

void *gpu_pinned(gpu *d, size_t bytes)
{
    void *memory;
    try_cuda(d, d->cuda->cuMemHostAlloc(&memory, bytes, PTXPACK_CU_MEMHOSTALLOC_PORTABLE), "cuMemHostAlloc");
    return memset(memory, 0, bytes);
}

void gpu_write(const gpu *d, uint64_t to, const void *from, size_t bytes)
{
    try_cuda(d, d->cuda->cuMemcpyHtoD(to, from, bytes), "cuMemcpyHtoD");
}
