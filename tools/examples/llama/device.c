/* device.c - the driver through the library's table of functions, memory, and the kernels, whose text is a part of the program. */
#include "llama.h"

#include <stdlib.h>
#include <string.h>

__asm__(".section .rodata\nllama_kernels: .incbin \"kernels.ptx\"\n.byte 0\n.previous\n");
extern const char llama_kernels[];

void try_pack(const device *d, ptxpack_status status)
{
    NEED(status == PTXPACK_OK, "%s: %s", ptxpack_status_name(status), ptxpack_detail(d->pack));
}

void try_cuda(const device *d, ptxpack_cu_result result, const char *what)
{
    char text[256];
    NEED(result == PTXPACK_CU_SUCCESS, "%s: %s", what, ptxpack_driver_error(d->cuda, result, text, sizeof text));
}

void device_open(device *d, ptxpack_dtype dtype)
{
    const ptxpack_symbol symbols[] = {{"BF16", dtype == PTXPACK_BF16}};
    const ptxpack_source source = {.size = sizeof source, .language = PTXPACK_LANGUAGE_PTX, .path = "kernels.ptx",
                                   .text = llama_kernels, .symbols = symbols, .symbol_count = 1};
    *d = (device){0};
    try_pack(d, ptxpack_open(NULL, &d->pack));
    d->cuda = ptxpack_driver_table(d->pack);
    NEED(dtype == PTXPACK_F16 || ptxpack_device(d->pack)->caps.arch >= 80, "tensors of bf16 need sm_80 or later");
    NEED(d->cuda->cuStreamBeginCapture != NULL && d->cuda->cuGraphInstantiateWithFlags != NULL && d->cuda->cuMemHostAlloc != NULL,
         "this driver has no graphs: one of CUDA 11.4 or later is needed");
    try_cuda(d, d->cuda->cuCtxSetCurrent(ptxpack_context(d->pack)), "cuCtxSetCurrent");
    try_cuda(d, d->cuda->cuStreamCreate(&d->stream, PTXPACK_CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    try_pack(d, ptxpack_program_load(d->pack, &source, &d->program));
    try_pack(d, ptxpack_program_function(d->program, "gate", &d->gate));
}

void device_close(device *d)
{
    for (size_t i = 0; i < d->owned_count; i++)
        d->cuda->cuMemFree(d->owned[i]);
    for (size_t i = 0; i < d->pinned_count; i++)
        d->cuda->cuMemFreeHost(d->pinned[i]);
    free(d->owned);
    free(d->pinned);
    d->cuda->cuStreamDestroy(d->stream);
    ptxpack_program_free(d->program);
    ptxpack_close(d->pack);
}

uint64_t device_memory(device *d, size_t bytes)
{
    ptxpack_deviceptr memory;
    d->owned = (uint64_t *)enlarge(d->owned, d->owned_count + 1, sizeof *d->owned);
    bytes = bytes != 0 ? bytes : 16;
    NEED(d->cuda->cuMemAlloc(&memory, bytes) == PTXPACK_CU_SUCCESS, "the device has no memory for %zu bytes more", bytes);
    try_cuda(d, d->cuda->cuMemsetD8(memory, 0, bytes), "cuMemsetD8");
    return d->owned[d->owned_count++] = memory;
}

void *device_pinned(device *d, size_t bytes)
{
    void *memory;
    d->pinned = (void **)enlarge(d->pinned, d->pinned_count + 1, sizeof *d->pinned);
    try_cuda(d, d->cuda->cuMemHostAlloc(&memory, bytes, PTXPACK_CU_MEMHOSTALLOC_PORTABLE), "cuMemHostAlloc");
    return d->pinned[d->pinned_count++] = memset(memory, 0, bytes);
}

void device_write(const device *d, uint64_t to, const void *from, size_t bytes)
{
    try_cuda(d, d->cuda->cuMemcpyHtoD(to, from, bytes), "cuMemcpyHtoD");
}

void enqueue_gate(const device *d, uint64_t out, uint64_t gate_up, int rows, int width)
{
    const uint32_t grid[3] = {((uint32_t)width + 2047) / 2048, (uint32_t)rows, 1}, block[3] = {256, 1, 1};
    try_pack(d, ptxpack_function_launch(d->gate, grid, block, 0, (void *[]){&out, &gate_up, &width}, d->stream));
}
