/* occupancy.c - how many blocks and clusters fit. */
#include "api.h"

static api_result blocks_of(struct api_context *context, int *blocks, struct CUfunc_st *handle, int threads,
                            size_t shared, unsigned int flags)
{
    struct api_function *f = NULL;
    API_WANT(blocks && threads > 0 && flags <= 1, API_INVALID_VALUE);
    API_TRY(api_function_get(context, handle, &f));
    *blocks = emu_function_occupancy(api_settings(), f->code, threads, shared);
    return API_OK;
}

/* The block size with the most threads on a multiprocessor; among equals the largest. */
static api_result best_block(struct api_context *context, int *grid, int *block, struct CUfunc_st *handle,
                             api_block_to_shared *shared_of, size_t shared, int limit, unsigned int flags)
{
    struct api_function *f = NULL;
    int                  best = 0, best_blocks = 0;
    API_WANT(grid && block && flags <= 1, API_INVALID_VALUE);
    API_TRY(api_function_get(context, handle, &f));
    int most = emu_function_max_threads(f->code);
    most = limit > 0 && limit < most ? limit : most;
    for (int threads = most; threads > 0; threads = (threads - 1) / 32 * 32) {
        int blocks = emu_function_occupancy(api_settings(), f->code, threads,
                                            shared_of != NULL ? shared_of(threads) : shared);
        if (blocks * threads > best * best_blocks) {
            best = threads;
            best_blocks = blocks;
        }
    }
    API_WANT(best, API_INVALID_VALUE);
    *block = best;
    *grid = best_blocks * api_settings()->sm_count;
    return API_OK;
}

api_result cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, struct CUfunc_st *function, int threads,
                                                       size_t shared)
{
    API_CALL(API_CONTEXT, blocks_of(call.context, blocks, function, threads, shared, 0));
}
api_result cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, struct CUfunc_st *function,
                                                                int threads, size_t shared, unsigned int flags)
{
    API_CALL(API_CONTEXT, blocks_of(call.context, blocks, function, threads, shared, flags));
}
api_result cuOccupancyMaxPotentialBlockSize(int *grid, int *block, struct CUfunc_st *function,
                                            api_block_to_shared *shared_of, size_t shared, int limit)
{
    API_CALL(API_CONTEXT, best_block(call.context, grid, block, function, shared_of, shared, limit, 0));
}
api_result cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, struct CUfunc_st *function,
                                                     api_block_to_shared *shared_of, size_t shared, int limit,
                                                     unsigned int flags)
{
    API_CALL(API_CONTEXT, best_block(call.context, grid, block, function, shared_of, shared, limit, flags));
}

/* The dynamic shared memory that a block may have if `blocks` must fit. */
api_result cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, struct CUfunc_st *function, int blocks,
                                                   int threads)
{
    API_ENTER(API_CONTEXT);
    const struct emu_settings *s = api_settings();
    struct api_function       *f = NULL;
    API_WANT(bytes && blocks > 0 && threads > 0, API_INVALID_VALUE);
    API_TRY(api_function_get(call.context, function, &f));
    API_WANT(emu_function_occupancy(s, f->code, threads, 0) >= blocks, API_INVALID_VALUE);
    uint64_t each = s->shared_per_sm / (unsigned int)blocks, most = s->shared_opt_in + s->shared_reserved;
    each = each < most ? each : most;
    *bytes = each > f->code->shared_bytes ? (size_t)(each - f->code->shared_bytes) / 128 * 128 : 0;
    return API_OK;
}

/* ---- clusters ------------------------------------------------------------------------------------------ */
/* The multiprocessors of the part of a GPU that holds a cluster. */
enum { PORTABLE = 8, MOST = 16 };

static api_result resident(struct api_context *context, struct CUfunc_st *handle,
                           const struct CUlaunchConfig_st *config, struct api_function **f,
                           struct api_shape *shape, int *each)
{
    API_WANT(config, API_INVALID_VALUE);
    API_WANT(api_settings()->sm >= 90, API_NOT_SUPPORTED);
    API_TRY(api_function_get(context, handle, f));
    API_TRY(api_launch_shape(config, shape));
    uint64_t threads = (uint64_t)shape->block[0] * shape->block[1] * shape->block[2];
    API_WANT(threads > 0 && threads <= 1024, API_INVALID_VALUE);
    *each = emu_function_occupancy(api_settings(), (*f)->code, (int)threads, shape->shared);
    return API_OK;
}

api_result cuOccupancyMaxPotentialClusterSize(int *size, struct CUfunc_st *function,
                                              const struct CUlaunchConfig_st *config)
{
    API_ENTER(API_CONTEXT);
    struct api_function *f = NULL;
    struct api_shape     shape;
    int                  each = 0;
    API_WANT(size, API_INVALID_VALUE);
    API_TRY(resident(call.context, function, config, &f, &shape, &each));
    *size = each == 0 ? 0 : f->code->nonportable_cluster ? MOST : PORTABLE;
    return API_OK;
}

api_result cuOccupancyMaxActiveClusters(int *clusters, struct CUfunc_st *function,
                                        const struct CUlaunchConfig_st *config)
{
    API_ENTER(API_CONTEXT);
    struct api_function *f = NULL;
    struct api_shape     shape;
    int                  each = 0;
    uint64_t             size = 1;
    API_WANT(clusters, API_INVALID_VALUE);
    API_TRY(resident(call.context, function, config, &f, &shape, &each));
    for (int i = 0; i < 3; i++)
        size *= shape.cluster[i] ? shape.cluster[i] : 1;
    API_WANT(size <= (f->code->nonportable_cluster ? MOST : PORTABLE), API_INVALID_CLUSTER_SIZE);
    uint64_t fit = (uint64_t)each * (uint64_t)api_settings()->sm_count / size;
    *clusters = (int)(each && fit == 0 ? 1 : fit); /* a cluster runs even if there are few multiprocessors */
    return API_OK;
}
