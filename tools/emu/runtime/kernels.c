/* kernels.c - launches, attributes of kernels, occupancy. */
#include <string.h>
#include "runtime.h"

/* ---- the arguments of <<<>>> --------------------------------------------------------------------------- */
/* They wait here while the host code evaluates the arguments of the kernel, which may launch kernels, too. */
enum { NESTED = 16 };
struct configuration {
    struct runtime_dim3 grid, block;
    size_t              shared_bytes;
    struct CUstream_st *stream;
};
static _Thread_local struct configuration waiting[NESTED];
static _Thread_local int                  depth;

runtime_result __cudaPushCallConfiguration(struct runtime_dim3 grid, struct runtime_dim3 block,
                                           size_t shared_bytes, struct CUstream_st *stream)
{
    const struct configuration mine = {grid, block, shared_bytes, stream};
    if (depth == NESTED)
        return runtime_end(RUNTIME_OUT_OF_MEMORY);
    waiting[depth++] = mine;
    return RUNTIME_OK;
}

runtime_result __cudaPopCallConfiguration(struct runtime_dim3 *grid, struct runtime_dim3 *block,
                                          size_t *shared_bytes, void *stream)
{
    if (depth == 0)
        return runtime_end(RUNTIME_MISSING_CONFIGURATION);
    const struct configuration *top = &waiting[--depth];
    *grid = top->grid;
    *block = top->block;
    *shared_bytes = top->shared_bytes;
    memcpy(stream, &top->stream, sizeof top->stream);
    return RUNTIME_OK;
}

/* ---- launches ------------------------------------------------------------------------------------------ */
static bool is_valid(struct runtime_dim3 d) { return d.x && d.y && d.z; }

static runtime_result launch(const void *function, const struct configuration *c, bool cooperative,
                             void **arguments)
{
    struct CUkern_st *kernel = NULL;
    struct CUfunc_st *of = NULL;
    RUNTIME_TRY(runtime_ready(NULL));
    RUNTIME_TRY(runtime_kernel(function, &kernel));
    RUNTIME_TRY(cuKernelGetFunction(&of, kernel));
    if (!is_valid(c->grid) || !is_valid(c->block) || c->block.x * c->block.y * c->block.z > 1024 ||
        c->shared_bytes > UINT32_MAX)
        return runtime_end(RUNTIME_INVALID_CONFIGURATION);
    unsigned int shared = (unsigned int)c->shared_bytes;
    return runtime_end(cooperative
                           ? cuLaunchCooperativeKernel(of, c->grid.x, c->grid.y, c->grid.z, c->block.x,
                                                       c->block.y, c->block.z, shared, c->stream, arguments)
                           : cuLaunchKernel(of, c->grid.x, c->grid.y, c->grid.z, c->block.x, c->block.y,
                                            c->block.z, shared, c->stream, arguments, NULL));
}

runtime_result cudaLaunchKernel(const void *function, struct runtime_dim3 grid, struct runtime_dim3 block,
                                void **arguments, size_t shared_bytes, struct CUstream_st *stream)
{
    const struct configuration c = {grid, block, shared_bytes, stream};
    return launch(function, &c, false, arguments);
}
runtime_result cudaLaunchCooperativeKernel(const void *function, struct runtime_dim3 grid,
                                           struct runtime_dim3 block, void **arguments, size_t shared_bytes,
                                           struct CUstream_st *stream)
{
    const struct configuration c = {grid, block, shared_bytes, stream};
    return launch(function, &c, true, arguments);
}
runtime_result __cudaLaunchKernel(struct CUkern_st *kernel, struct runtime_dim3 grid, struct runtime_dim3 block,
                                  void **arguments, size_t shared_bytes, struct CUstream_st *stream)
{
    const struct configuration c = {grid, block, shared_bytes, stream};
    return launch(kernel, &c, false, arguments);
}

runtime_result cudaLaunchKernelExC(const struct cudaLaunchConfig_st *config, const void *function,
                                   void **arguments)
{
    struct CUkern_st *kernel = NULL;
    struct CUfunc_st *of = NULL;
    RUNTIME_TRY(config != NULL ? runtime_ready(NULL) : (runtime_result)RUNTIME_INVALID_VALUE);
    RUNTIME_TRY(runtime_kernel(function, &kernel));
    RUNTIME_TRY(cuKernelGetFunction(&of, kernel));
    RUNTIME_TRY(config->shared_bytes <= UINT32_MAX ? RUNTIME_OK
                                                   : (runtime_result)RUNTIME_INVALID_CONFIGURATION);
    const struct CUlaunchConfig_st c = {config->grid.x,
                                        config->grid.y,
                                        config->grid.z,
                                        config->block.x,
                                        config->block.y,
                                        config->block.z,
                                        (unsigned int)config->shared_bytes,
                                        config->stream,
                                        config->attributes,
                                        config->count};
    return runtime_end(cuLaunchKernelEx(&c, of, arguments, NULL));
}

runtime_result __cudaGetKernel(struct CUkern_st **kernel, const void *function)
{
    RUNTIME_CALL(runtime_kernel(function, kernel));
}

/* ---- attributes and occupancy -------------------------------------------------------------------------- */
struct cudaFuncAttributes {
    size_t shared_bytes, constant_bytes, local_bytes;
    int    threads, registers, ptx, binary, cache, dynamic_shared, carveout, others[22];
};

runtime_result cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *function)
{
    enum { KNOWN = 10 };
    int               value[KNOWN] = {0}, device = 0;
    struct CUkern_st *kernel = NULL;
    RUNTIME_TRY(runtime_ready(&device));
    RUNTIME_TRY(runtime_kernel(function, &kernel));
    for (unsigned int i = 0; i < KNOWN; i++)
        RUNTIME_TRY(cuKernelGetAttribute(&value[i], i, kernel, device));
    const struct cudaFuncAttributes made =
        {(size_t)value[1], (size_t)value[2], (size_t)value[3], value[0], value[4], value[5],
         value[6],         value[7],         value[8],         value[9], {0}};
    *attributes = made;
    return RUNTIME_OK;
}

runtime_result cudaFuncSetCacheConfig(const void *function, unsigned int config)
{
    int               device = 0;
    struct CUkern_st *kernel = NULL;
    RUNTIME_TRY(runtime_ready(&device));
    RUNTIME_TRY(runtime_kernel(function, &kernel));
    return runtime_end(cuKernelSetCacheConfig(kernel, config, device));
}

runtime_result cudaFuncSetAttribute(const void *function, unsigned int attribute, int value)
{
    int               device = 0;
    struct CUkern_st *kernel = NULL;
    RUNTIME_TRY(runtime_ready(&device));
    RUNTIME_TRY(runtime_kernel(function, &kernel));
    return runtime_end(cuKernelSetAttribute(attribute, value, kernel, device));
}

runtime_result cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *function,
                                                                      int threads, size_t dynamic_shared,
                                                                      unsigned int flags)
{
    struct CUkern_st *kernel = NULL;
    struct CUfunc_st *of = NULL;
    RUNTIME_TRY(flags > 1 ? (runtime_result)RUNTIME_INVALID_VALUE : runtime_ready(NULL));
    RUNTIME_TRY(runtime_kernel(function, &kernel));
    RUNTIME_TRY(cuKernelGetFunction(&of, kernel));
    return runtime_end(cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, of, threads, dynamic_shared));
}
runtime_result cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function, int threads,
                                                             size_t dynamic_shared)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, dynamic_shared, 0);
}
