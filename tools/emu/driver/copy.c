/* copy.c - the calls for copies and fills; work.c does the work. */
#include "api.h"

#include <string.h>

enum { TYPE_HOST = 1, TYPE_DEVICE = 2, TYPE_UNIFIED = 4 }; /* CUmemorytype */

static uint64_t address_of(const void *host) { return (uint64_t)(uintptr_t)host; }

/* Which side must be device memory; the other side may be any memory.  NOW: the call returns when it is done. */
enum { TO_DEVICE = 1, FROM_DEVICE = 2, NOW = 4 };

/* Memory of the host that the driver does not know: it is the caller's again when the call returns. */
static bool is_pageable(const struct api_side *side)
{
    return api_memory_of(side->address, 1) == API_MEMORY_HOST;
}

static api_result submit_copy(struct api_context *context, const struct api_work *copy, unsigned int sides,
                              struct api_stream *stream)
{
    struct api_work work = *copy;
    work.kind = API_WORK_COPY;
    work.context = context;
    if (work.as.copy.width == 0 || work.as.copy.height == 0 || work.as.copy.depth == 0)
        return API_OK;
    if (sides & TO_DEVICE)
        API_WANT(api_memory_of(work.as.copy.to.address, 1) == API_MEMORY_DEVICE, API_INVALID_VALUE);
    if (sides & FROM_DEVICE)
        API_WANT(api_memory_of(work.as.copy.from.address, 1) == API_MEMORY_DEVICE, API_INVALID_VALUE);
    const bool wait = (sides & NOW || is_pageable(&work.as.copy.to) || is_pageable(&work.as.copy.from)) &&
                      stream->capture == NULL;
    API_TRY(api_submit(stream, &work));
    return wait && api_stream_busy(stream) ? api_finish_stream(stream) : API_OK;
}

static api_result line(struct api_context *context, uint64_t to, uint64_t from, size_t bytes,
                       unsigned int sides, struct api_stream *stream)
{
    const struct api_work work = {
        .as.copy = {.to = {to, bytes, bytes}, .from = {from, bytes, bytes}, bytes, 1, 1}};
    return submit_copy(context, &work, sides, stream);
}

/* In the legacy stream, after everything that was enqueued. */
static api_result line_now(struct api_context *context, uint64_t to, uint64_t from, size_t bytes,
                           unsigned int sides)
{
    return line(context, to, from, bytes, sides | NOW, context->legacy);
}

static api_result line_in(struct api_context *context, uint64_t to, uint64_t from, size_t bytes,
                          unsigned int sides, struct CUstream_st *handle)
{
    struct api_stream *stream = NULL;
    API_TRY(api_stream_get(context, handle, &stream));
    return line(context, to, from, bytes, sides, stream);
}

api_result cuMemcpy(api_address to, api_address from, size_t bytes)
{
    API_CALL(API_CONTEXT, line_now(call.context, to, from, bytes, 0));
}
api_result cuMemcpyAsync(api_address to, api_address from, size_t bytes, struct CUstream_st *stream)
{
    API_CALL(API_CONTEXT, line_in(call.context, to, from, bytes, 0, stream));
}

/* Unified addressing: the addresses say where the memory is, and the contexts need only be alive. */
static api_result peers(struct CUctx_st *to, struct CUctx_st *from)
{
    API_WANT(api_handle_get(API_KIND_CONTEXT, to) && api_handle_get(API_KIND_CONTEXT, from),
             API_INVALID_CONTEXT);
    return API_OK;
}

api_result cuMemcpyPeer(api_address to, struct CUctx_st *to_context, api_address from,
                        struct CUctx_st *from_context, size_t bytes)
{
    API_ENTER(API_CONTEXT);
    API_TRY(peers(to_context, from_context));
    return line_now(call.context, to, from, bytes, TO_DEVICE | FROM_DEVICE);
}
api_result cuMemcpyPeerAsync(api_address to, struct CUctx_st *to_context, api_address from,
                             struct CUctx_st *from_context, size_t bytes, struct CUstream_st *stream)
{
    API_ENTER(API_CONTEXT);
    API_TRY(peers(to_context, from_context));
    return line_in(call.context, to, from, bytes, TO_DEVICE | FROM_DEVICE, stream);
}
api_result cuMemcpyHtoD_v2(api_address to, const void *from, size_t bytes)
{
    API_CALL(API_CONTEXT, line_now(call.context, to, address_of(from), bytes, TO_DEVICE));
}
api_result cuMemcpyDtoH_v2(void *to, api_address from, size_t bytes)
{
    API_CALL(API_CONTEXT, line_now(call.context, address_of(to), from, bytes, FROM_DEVICE));
}
api_result cuMemcpyDtoD_v2(api_address to, api_address from, size_t bytes)
{
    API_CALL(API_CONTEXT, line_now(call.context, to, from, bytes, TO_DEVICE | FROM_DEVICE));
}
api_result cuMemcpyHtoDAsync_v2(api_address to, const void *from, size_t bytes, struct CUstream_st *stream)
{
    API_CALL(API_CONTEXT, line_in(call.context, to, address_of(from), bytes, TO_DEVICE, stream));
}
api_result cuMemcpyDtoHAsync_v2(void *to, api_address from, size_t bytes, struct CUstream_st *stream)
{
    API_CALL(API_CONTEXT, line_in(call.context, address_of(to), from, bytes, FROM_DEVICE, stream));
}
api_result cuMemcpyDtoDAsync_v2(api_address to, api_address from, size_t bytes, struct CUstream_st *stream)
{
    API_CALL(API_CONTEXT, line_in(call.context, to, from, bytes, TO_DEVICE | FROM_DEVICE, stream));
}

/* ---- planes and volumes -------------------------------------------------------------------------------- */
struct corner {
    unsigned int type;
    const void  *host;
    api_address  device;
    size_t       x, y, z, pitch, height;
};

/* One side of a 2D or 3D copy. */
static api_result side_of(const struct corner *c, size_t width, size_t rows, struct api_side *side,
                          unsigned int device, unsigned int *sides)
{
    size_t skip = 0, plane = 0, at = 0;
    side->pitch = c->pitch ? c->pitch : width;
    API_WANT(c->type == TYPE_HOST || c->type == TYPE_DEVICE || c->type == TYPE_UNIFIED, API_INVALID_VALUE);
    API_WANT(side->pitch >= width && c->x <= side->pitch - width, API_INVALID_VALUE);
    API_WANT(!__builtin_mul_overflow(side->pitch, c->height ? c->height : rows, &side->slice) &&
                 !__builtin_mul_overflow(side->slice, c->z, &plane) &&
                 !__builtin_mul_overflow(side->pitch, c->y, &skip) &&
                 !__builtin_add_overflow(plane, skip, &at) && !__builtin_add_overflow(at, c->x, &at),
             API_INVALID_VALUE);
    side->address = c->type == TYPE_HOST ? address_of(c->host) : c->device;
    API_WANT(side->address && !__builtin_add_overflow(side->address, at, &side->address), API_INVALID_VALUE);
    *sides |= c->type == TYPE_DEVICE ? device : 0;
    return API_OK;
}

static api_result volume(const struct CUDA_MEMCPY3D_st *p, struct api_work *work, unsigned int *sides)
{
    API_WANT(p && p->srcLOD == 0 && p->dstLOD == 0, API_INVALID_VALUE);
    const struct corner from = {p->srcMemoryType, p->srcHost, p->srcDevice, p->srcXInBytes,
                                p->srcY,          p->srcZ,    p->srcPitch,  p->srcHeight};
    const struct corner to = {p->dstMemoryType, p->dstHost, p->dstDevice, p->dstXInBytes,
                              p->dstY,          p->dstZ,    p->dstPitch,  p->dstHeight};
    *work = (struct api_work){.as.copy = {.width = p->WidthInBytes, .height = p->Height, .depth = p->Depth}};
    *sides = 0;
    API_TRY(side_of(&from, p->WidthInBytes, p->Height, &work->as.copy.from, FROM_DEVICE, sides));
    return side_of(&to, p->WidthInBytes, p->Height, &work->as.copy.to, TO_DEVICE, sides);
}

static api_result copy_volume(struct api_context *context, const struct CUDA_MEMCPY3D_st *p,
                              struct CUstream_st *handle, unsigned int now)
{
    struct api_stream *stream = NULL;
    struct api_work    work;
    unsigned int       sides = 0;
    API_TRY(volume(p, &work, &sides));
    API_TRY(api_stream_get(context, handle, &stream));
    return submit_copy(context, &work, sides | now, stream);
}

static api_result copy_plane(struct api_context *context, const struct CUDA_MEMCPY2D_st *p,
                             struct CUstream_st *handle, unsigned int now)
{
    API_WANT(p, API_INVALID_VALUE);
    const struct CUDA_MEMCPY3D_st whole = {.srcXInBytes = p->srcXInBytes,
                                           .srcY = p->srcY,
                                           .srcMemoryType = p->srcMemoryType,
                                           .srcHost = p->srcHost,
                                           .srcDevice = p->srcDevice,
                                           .srcPitch = p->srcPitch,
                                           .dstXInBytes = p->dstXInBytes,
                                           .dstY = p->dstY,
                                           .dstMemoryType = p->dstMemoryType,
                                           .dstHost = p->dstHost,
                                           .dstDevice = p->dstDevice,
                                           .dstPitch = p->dstPitch,
                                           .WidthInBytes = p->WidthInBytes,
                                           .Height = p->Height,
                                           .Depth = 1};
    return copy_volume(context, &whole, handle, now);
}

api_result cuMemcpy2D_v2(const struct CUDA_MEMCPY2D_st *copy)
{
    API_CALL(API_CONTEXT, copy_plane(call.context, copy, NULL, NOW));
}
api_result cuMemcpy2DUnaligned_v2(const struct CUDA_MEMCPY2D_st *copy)
{
    API_CALL(API_CONTEXT, copy_plane(call.context, copy, NULL, NOW));
}
api_result cuMemcpy2DAsync_v2(const struct CUDA_MEMCPY2D_st *copy, struct CUstream_st *stream)
{
    API_CALL(API_CONTEXT, copy_plane(call.context, copy, stream, 0));
}
api_result cuMemcpy3D_v2(const struct CUDA_MEMCPY3D_st *copy)
{
    API_CALL(API_CONTEXT, copy_volume(call.context, copy, NULL, NOW));
}
api_result cuMemcpy3DAsync_v2(const struct CUDA_MEMCPY3D_st *copy, struct CUstream_st *stream)
{
    API_CALL(API_CONTEXT, copy_volume(call.context, copy, stream, 0));
}

/* The contexts lie where a copy within one context has reserved words. */
api_result cuMemcpy3DPeerAsync(const struct CUDA_MEMCPY3D_PEER_st *copy, struct CUstream_st *stream)
{
    struct CUDA_MEMCPY3D_st within;
    _Static_assert(sizeof within == sizeof *copy, "both have the same layout");
    API_ENTER(API_CONTEXT);
    API_WANT(copy, API_INVALID_VALUE);
    API_TRY(peers(copy->dstContext, copy->srcContext));
    memcpy(&within, copy, sizeof within);
    return copy_volume(call.context, &within, stream, 0);
}

api_result api_copy_work(const struct CUDA_MEMCPY3D_st *p, struct api_work *work)
{
    unsigned int sides = 0;
    API_TRY(volume(p, work, &sides));
    work->kind = API_WORK_COPY;
    return API_OK;
}

/* ---- fills --------------------------------------------------------------------------------------------- */
static api_result fill(struct api_context *context, uint64_t to, size_t pitch, unsigned int value,
                       unsigned int element, size_t width, size_t height, struct CUstream_st *handle)
{
    struct api_stream *stream = NULL;
    struct api_work    work = {.kind = API_WORK_FILL, .context = context};
    API_TRY(api_stream_get(context, handle, &stream));
    API_WANT(width <= SIZE_MAX / element && to % element == 0, API_INVALID_VALUE);
    if (width == 0 || height == 0)
        return API_OK;
    work.as.fill.address = to;
    work.as.fill.pitch = height == 1 ? width * element : pitch;
    work.as.fill.width = width;
    work.as.fill.height = height;
    work.as.fill.value = value;
    work.as.fill.element = element;
    return api_submit(stream, &work);
}

#define FILL(name, name_2d, bits, type)                                                               \
    api_result name##_v2(api_address to, type value, size_t count)                                    \
    {                                                                                                 \
        API_CALL(API_CONTEXT, fill(call.context, to, 0, value, bits / 8, count, 1, NULL));            \
    }                                                                                                 \
    api_result name##Async(api_address to, type value, size_t count, struct CUstream_st *stream)      \
    {                                                                                                 \
        API_CALL(API_CONTEXT, fill(call.context, to, 0, value, bits / 8, count, 1, stream));          \
    }                                                                                                 \
    api_result name_2d##_v2(api_address to, size_t pitch, type value, size_t width, size_t height)    \
    {                                                                                                 \
        API_CALL(API_CONTEXT, fill(call.context, to, pitch, value, bits / 8, width, height, NULL));   \
    }                                                                                                 \
    api_result name_2d##Async(api_address to, size_t pitch, type value, size_t width, size_t height,  \
                              struct CUstream_st *stream)                                             \
    {                                                                                                 \
        API_CALL(API_CONTEXT, fill(call.context, to, pitch, value, bits / 8, width, height, stream)); \
    }
FILL(cuMemsetD8, cuMemsetD2D8, 8, unsigned char)
FILL(cuMemsetD16, cuMemsetD2D16, 16, unsigned short)
FILL(cuMemsetD32, cuMemsetD2D32, 32, unsigned int)
