/* launch.c - launching kernels: shapes, attributes, parameters. */
#include <stdlib.h>
#include "api.h"

/* ---- parameters ---------------------------------------------------------------------------------------- */
/* Parameters as one pointer each. */
static api_result gather(const struct emu_function *code, void **parameters, unsigned char *block)
{
    API_WANT(parameters || code->parameter_count == 0, API_INVALID_VALUE);
    for (uint32_t i = 0; i < code->parameter_count; i++) {
        API_WANT(parameters[i], API_INVALID_VALUE);
        memcpy(block + code->parameters[i].offset, parameters[i], code->parameters[i].bytes);
    }
    return API_OK;
}

/* CU_LAUNCH_PARAM_...: words in pairs until END, with the parameters as one block. */
static api_result unpack(const struct emu_function *code, void **extra, unsigned char *block)
{
    enum { END = 0, POINTER = 1, SIZE = 2, MOST = 8 };
    const void *buffer = NULL;
    size_t      bytes = 0;
    bool        sized = false;
    for (int i = 0; extra[i] != (void *)END; i += 2) {
        API_WANT(i < MOST, API_INVALID_VALUE);
        uintptr_t word = (uintptr_t)extra[i];
        API_WANT((word == POINTER || word == SIZE) && extra[i + 1], API_INVALID_VALUE);
        if (word == POINTER)
            buffer = extra[i + 1];
        else
            memcpy(&bytes, extra[i + 1], sizeof bytes);
        sized |= word == SIZE;
    }
    API_WANT(sized && (buffer || bytes == 0), API_INVALID_VALUE);
    API_WANT(bytes <= code->parameter_bytes, API_LAUNCH_OUT_OF_RESOURCES);
    if (bytes)
        memcpy(block, buffer, bytes);
    return API_OK;
}

/* A kernel that was compiled for one shape of clusters accepts no other. */
static bool cluster_fits(const struct ptx_function *text, const struct api_shape *shape)
{
    for (int i = 0; i < 3; i++) {
        unsigned int required = text->required_cluster[i] ? text->required_cluster[i] : 1;
        if (text->required_cluster[0] && shape->cluster[0] && shape->cluster[i] != required)
            return false;
    }
    return true;
}

api_result api_kernel_work(struct api_context *context, struct CUfunc_st *handle, const struct api_shape *shape,
                           void **parameters, void **extra, struct api_work *work)
{
    struct api_function *f = NULL;
    API_TRY(api_function_get(context, handle, &f));
    API_WANT(!parameters || !extra, API_INVALID_VALUE);
    API_WANT(cluster_fits(f->code->text, shape), API_INVALID_CLUSTER_SIZE);
    unsigned char *block = (unsigned char *)calloc(1, f->code->parameter_bytes + 1u);
    API_WANT(block, API_OUT_OF_MEMORY);
    api_result result = extra != NULL ? unpack(f->code, extra, block) : gather(f->code, parameters, block);
    if (result != API_OK) {
        free(block);
        return result;
    }
    *work = (struct api_work){.kind = API_WORK_KERNEL, .context = context};
    work->as.kernel.function = f;
    work->as.kernel.function_id = f->handle.id;
    struct emu_launch *launch = &work->as.kernel.launch;
    launch->entry = f->code;
    memcpy(launch->grid, shape->grid, sizeof launch->grid);
    memcpy(launch->block, shape->block, sizeof launch->block);
    memcpy(launch->cluster, shape->cluster[0] ? shape->cluster : f->cluster, sizeof launch->cluster);
    launch->dynamic_shared = shape->shared;
    launch->cooperative = shape->cooperative;
    launch->dependent = shape->dependent && api_settings()->sm >= 90;
    launch->parameters = block;
    return API_OK;
}

/* ---- launches ------------------------------------------------------------------------------------------ */
static api_result launch(struct api_context *context, struct CUfunc_st *function, const struct api_shape *shape,
                         struct CUstream_st *handle, void **parameters, void **extra)
{
    struct api_stream *stream = NULL;
    struct api_work    work;
    API_TRY(api_stream_get(context, handle, &stream));
    api_result result = api_kernel_work(context, function, shape, parameters, extra, &work);
    if (result != API_OK && stream->capture != NULL)
        stream->capture->invalid = true;
    return result == API_OK ? api_submit(stream, &work) : result;
}

/* clang-format off */
enum { /* CUlaunchAttributeID */
    IGNORE, ACCESS_POLICY, COOPERATIVE, SYNCHRONIZATION_POLICY, CLUSTER_DIMENSION, CLUSTER_POLICY,
    STREAM_SERIALIZATION, PROGRAMMATIC_EVENT, PRIORITY, SYNC_DOMAIN_MAP, SYNC_DOMAIN, PREFERRED_CLUSTER,
    COMPLETION_EVENT, UPDATABLE_NODE, CARVEOUT, NVLINK_SCHEDULING = 16
};
/* clang-format on */

/* Kernels run one after the other, so hints have no effect, and permission to overlap only one on the judge. */
static api_result shape_attribute(const struct CUlaunchAttribute_st *a, struct api_shape *shape)
{
    /* clang-format off */
    switch (a->id) {
    case COOPERATIVE: shape->cooperative = a->value.cooperative != 0; return API_OK;
    case CLUSTER_DIMENSION:
        API_WANT(a->value.clusterDim.x && a->value.clusterDim.y && a->value.clusterDim.z,
                 API_INVALID_CLUSTER_SIZE);
        shape->cluster[0] = a->value.clusterDim.x;
        shape->cluster[1] = a->value.clusterDim.y;
        shape->cluster[2] = a->value.clusterDim.z;
        return API_OK;
    case SYNCHRONIZATION_POLICY:
        return a->value.cooperative >= 1 && a->value.cooperative <= 4 ? API_OK : API_INVALID_VALUE;
    case STREAM_SERIALIZATION:
        shape->dependent = a->value.programmaticStreamSerializationAllowed != 0;
        return API_OK;
    case IGNORE: case ACCESS_POLICY: case CLUSTER_POLICY: case PRIORITY:
    case SYNC_DOMAIN_MAP: case SYNC_DOMAIN: case PREFERRED_CLUSTER: case CARVEOUT: case NVLINK_SCHEDULING:
        return API_OK;
    case PROGRAMMATIC_EVENT: case COMPLETION_EVENT: case UPDATABLE_NODE: return API_NOT_SUPPORTED;
    default: return API_INVALID_VALUE;
    }
    /* clang-format on */
}

api_result api_launch_shape(const struct CUlaunchConfig_st *config, struct api_shape *shape)
{
    API_WANT(config && (config->attrs || config->numAttrs == 0), API_INVALID_VALUE);
    *shape = (struct api_shape){.grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
                                .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
                                .shared = config->sharedMemBytes};
    for (unsigned int i = 0; i < config->numAttrs; i++)
        API_TRY(shape_attribute(&config->attrs[i], shape));
    return API_OK;
}

api_result cuLaunchKernel(struct CUfunc_st *function, unsigned int grid_x, unsigned int grid_y,
                          unsigned int grid_z, unsigned int block_x, unsigned int block_y, unsigned int block_z,
                          unsigned int shared_bytes, struct CUstream_st *stream, void **parameters,
                          void **extra)
{
    const struct api_shape shape = {.grid = {grid_x, grid_y, grid_z},
                                    .block = {block_x, block_y, block_z},
                                    .shared = shared_bytes};
    API_CALL(API_CONTEXT, launch(call.context, function, &shape, stream, parameters, extra));
}

api_result cuLaunchCooperativeKernel(struct CUfunc_st *function, unsigned int grid_x, unsigned int grid_y,
                                     unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                     unsigned int block_z, unsigned int shared_bytes,
                                     struct CUstream_st *stream, void **parameters)
{
    const struct api_shape shape = {.grid = {grid_x, grid_y, grid_z},
                                    .block = {block_x, block_y, block_z},
                                    .shared = shared_bytes,
                                    .cooperative = true};
    API_CALL(API_CONTEXT, launch(call.context, function, &shape, stream, parameters, NULL));
}

api_result cuLaunchKernelEx(const struct CUlaunchConfig_st *config, struct CUfunc_st *function,
                            void **parameters, void **extra)
{
    API_ENTER(API_CONTEXT);
    struct api_shape shape;
    API_TRY(api_launch_shape(config, &shape));
    return launch(call.context, function, &shape, config->hStream, parameters, extra);
}
