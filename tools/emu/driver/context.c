/* context.c - contexts: primary and created ones, each thread's stack of them, and their limits. */
#include <stdlib.h>
#include "api.h"

/* ---- life ---------------------------------------------------------------------------------------------- */
static struct api_stream *default_stream(struct api_context *context, unsigned int flags, bool legacy)
{
    struct api_stream *s = (struct api_stream *)api_handle_new(API_KIND_STREAM, sizeof *s, context, NULL, NULL);
    if (s != NULL) {
        s->flags = flags;
        s->legacy = legacy;
    }
    return s;
}

api_result api_context_new(struct api_device *device, unsigned int flags, struct api_context **context)
{
    static const size_t limits[API_LIMITS] = {1024, 1 << 20, 8 << 20, 2, 2048, 64, 0, 0};
    API_WANT(!device->lost, API_DEVICE_UNAVAILABLE);
    struct api_context *c = (struct api_context *)api_handle_new(API_KIND_CONTEXT, sizeof *c, NULL, NULL, NULL);
    API_WANT(c, API_OUT_OF_MEMORY);
    c->device = device;
    c->flags = flags;
    memcpy(c->limits, limits, sizeof limits);
    c->legacy = default_stream(c, 0, true);
    c->per_thread = default_stream(c, 0, false);
    if (c->legacy == NULL || c->per_thread == NULL) {
        api_context_delete(c);
        return API_OUT_OF_MEMORY;
    }
    *context = c;
    return API_OK;
}

static void forget_captures(const struct api_context *context)
{
    for (struct api_handle *h = api_handle_next(API_KIND_STREAM, NULL); h != NULL;
         h = api_handle_next(API_KIND_STREAM, h))
        if (h->context == context)
            api_capture_forget((struct api_stream *)h);
}

void api_context_delete(struct api_context *context)
{
    api_abandon(context);
    forget_captures(context);
    api_peer_forget(context);
    api_work_ended(context);
    api_handle_delete_context(context);
    api_memory_free_all(context);
    if (context->device->primary == context)
        context->device->primary = NULL;
    api_handle_delete(&context->handle);
}

/* ---- each thread's stack ------------------------------------------------------------------------------- */
api_result api_current(struct api_context **context)
{
    const struct api_thread *t = api_thread();
    *context = NULL;
    API_WANT(t->depth > 0 && t->stack[t->depth - 1].context, API_INVALID_CONTEXT);
    *context = (struct api_context *)api_handle_same(API_KIND_CONTEXT, t->stack[t->depth - 1].context,
                                                     t->stack[t->depth - 1].id);
    return *context != NULL ? API_OK : API_CONTEXT_IS_DESTROYED;
}

static struct api_context *live(struct CUctx_st *handle)
{
    return (struct api_context *)api_handle_get(API_KIND_CONTEXT, handle);
}

static void put(struct api_thread *t, int at, struct api_context *context)
{
    t->stack[at].context = context;
    t->stack[at].id = context != NULL ? context->handle.id : 0;
}

static api_result push(struct api_context *context)
{
    struct api_thread *t = api_thread();
    API_WANT(context, API_INVALID_CONTEXT);
    API_WANT(t->depth < API_CONTEXT_STACK, API_OUT_OF_MEMORY);
    put(t, t->depth++, context);
    return API_OK;
}

/* The top of the stack, live or not; NULL: the stack is empty. */
static struct api_context *top(void)
{
    const struct api_thread *t = api_thread();
    return t->depth > 0 ? t->stack[t->depth - 1].context : NULL;
}

api_result cuCtxPushCurrent_v2(struct CUctx_st *context) { API_CALL(API_INIT, push(live(context))); }

api_result cuCtxPopCurrent_v2(struct CUctx_st **context)
{
    API_ENTER(API_INIT);
    struct api_thread *t = api_thread();
    API_WANT(t->depth > 0, API_INVALID_CONTEXT);
    if (context != NULL)
        *context = (struct CUctx_st *)top();
    t->depth--;
    return API_OK;
}

api_result cuCtxSetCurrent(struct CUctx_st *handle)
{
    API_ENTER(API_INIT);
    struct api_thread *t = api_thread();
    if (handle == NULL) {
        if (t->depth > 0)
            t->depth--;
        return API_OK;
    }
    struct api_context *context = live(handle);
    API_WANT(context, API_INVALID_CONTEXT);
    if (t->depth == 0)
        t->depth = 1;
    put(t, t->depth - 1, context);
    return API_OK;
}

api_result cuCtxGetCurrent(struct CUctx_st **context)
{
    API_ENTER(API_INIT);
    API_WANT(context, API_INVALID_VALUE);
    *context = (struct CUctx_st *)top();
    return API_OK;
}

/* ---- created contexts ---------------------------------------------------------------------------------- */
enum { FLAGS = 0xff };

static api_result create(struct CUctx_st **out, unsigned int flags, int ordinal)
{
    struct api_context *context = NULL;
    API_WANT(out && flags <= FLAGS, API_INVALID_VALUE);
    struct api_device *device = api_device(ordinal);
    API_WANT(device, API_INVALID_DEVICE);
    API_TRY(api_context_new(device, flags, &context));
    api_result result = push(context);
    if (result != API_OK)
        api_context_delete(context);
    else
        *out = (struct CUctx_st *)context;
    return result;
}

api_result cuCtxCreate_v2(struct CUctx_st **context, unsigned int flags, int device)
{
    API_CALL(API_INIT | API_UNSAFE, create(context, flags, device));
}

api_result cuCtxCreate_v3(struct CUctx_st **context, struct CUexecAffinityParam_st *affinity, int count,
                          unsigned int flags, int device)
{
    API_CALL(API_INIT | API_UNSAFE,
             affinity || count ? API_UNSUPPORTED_EXEC_AFFINITY : create(context, flags, device));
}

static bool plain(const struct CUctxCreateParams_st *p)
{
    return p == NULL ||
           (p->execAffinityParams == NULL && p->numExecAffinityParams == 0 && p->cigParams == NULL);
}

api_result cuCtxCreate_v4(struct CUctx_st **context, struct CUctxCreateParams_st *parameters,
                          unsigned int flags, int device)
{
    API_CALL(API_INIT | API_UNSAFE, plain(parameters) ? create(context, flags, device) : API_NOT_SUPPORTED);
}

static api_result destroy(struct CUctx_st *handle)
{
    struct api_context *context = live(handle);
    API_WANT(context && !context->primary, API_INVALID_CONTEXT);
    if (top() == context)
        api_thread()->depth--;
    api_context_delete(context);
    return API_OK;
}

api_result cuCtxDestroy_v2(struct CUctx_st *context) { API_CALL(API_INIT, destroy(context)); }

/* ---- primary contexts ---------------------------------------------------------------------------------- */
static api_result release(int ordinal)
{
    struct api_device *device = api_device(ordinal);
    API_WANT(device, API_INVALID_DEVICE);
    if (device->primary != NULL && --device->primary->references == 0)
        api_context_delete(device->primary);
    return API_OK;
}

/* Callers that still have the handle get 709, as after the last release. */
static api_result reset(int ordinal)
{
    struct api_device *device = api_device(ordinal);
    API_WANT(device, API_INVALID_DEVICE);
    if (device->primary != NULL)
        api_context_delete(device->primary);
    return API_OK;
}

static api_result primary_flags(int ordinal, unsigned int flags)
{
    struct api_device *device = api_device(ordinal);
    API_WANT(device, API_INVALID_DEVICE);
    API_WANT(flags <= FLAGS, API_INVALID_VALUE);
    device->primary_flags = flags;
    if (device->primary != NULL)
        device->primary->flags = flags;
    return API_OK;
}

api_result cuDevicePrimaryCtxRetain(struct CUctx_st **out, int ordinal)
{
    API_ENTER(API_INIT);
    struct api_device *device = api_device(ordinal);
    API_WANT(out, API_INVALID_VALUE);
    API_WANT(device, API_INVALID_DEVICE);
    if (device->primary == NULL) {
        API_TRY(api_context_new(device, device->primary_flags, &device->primary));
        device->primary->primary = true;
    }
    device->primary->references++;
    *out = (struct CUctx_st *)device->primary;
    return API_OK;
}

api_result cuDevicePrimaryCtxRelease(int device) { API_CALL(API_INIT, release(device)); }
api_result cuDevicePrimaryCtxRelease_v2(int device) { API_CALL(API_INIT, release(device)); }
api_result cuDevicePrimaryCtxReset(int device) { API_CALL(API_INIT, reset(device)); }
api_result cuDevicePrimaryCtxReset_v2(int device) { API_CALL(API_INIT, reset(device)); }

api_result cuDevicePrimaryCtxGetState(int ordinal, unsigned int *flags, int *active)
{
    API_ENTER(API_INIT);
    const struct api_device *device = api_device(ordinal);
    API_WANT(flags && active, API_INVALID_VALUE);
    API_WANT(device, API_INVALID_DEVICE);
    *flags = device->primary_flags;
    *active = device->primary != NULL;
    return API_OK;
}

api_result cuDevicePrimaryCtxSetFlags(int device, unsigned int flags)
{
    API_CALL(API_INIT, primary_flags(device, flags));
}
api_result cuDevicePrimaryCtxSetFlags_v2(int device, unsigned int flags)
{
    API_CALL(API_INIT, primary_flags(device, flags));
}

/* ---- queries ------------------------------------------------------------------------------------------- */
static api_result context_device(const struct api_context *context, int *device)
{
    API_WANT(device, API_INVALID_VALUE);
    API_WANT(context, API_INVALID_CONTEXT);
    *device = context->device->ordinal;
    return API_OK;
}

static api_result context_or_current(struct CUctx_st *handle, struct api_context **context)
{
    if (handle == NULL)
        return api_current(context);
    *context = live(handle);
    return *context != NULL ? API_OK : API_INVALID_CONTEXT;
}

static api_result synchronize(struct CUctx_st *handle)
{
    struct api_context *context = NULL;
    API_TRY(context_or_current(handle, &context));
    API_TRY(context->sticky);
    API_TRY(api_capture_forbids_wait(context, NULL));
    api_work_ended(context);
    return api_finish_context(context);
}

api_result cuCtxGetDevice(int *device)
{
    API_CALL(API_CONTEXT | API_ANY_STATE, context_device(call.context, device));
}

api_result cuCtxGetDevice_v2(int *device, struct CUctx_st *handle)
{
    API_ENTER(API_INIT);
    struct api_context *context = NULL;
    API_TRY(context_or_current(handle, &context));
    return context_device(context, device);
}

api_result cuCtxGetFlags(unsigned int *flags)
{
    API_ENTER(API_CONTEXT | API_ANY_STATE);
    API_WANT(flags, API_INVALID_VALUE);
    *flags = call.context->flags;
    return API_OK;
}

api_result cuCtxGetId(struct CUctx_st *handle, unsigned long long *id)
{
    API_ENTER(API_INIT);
    struct api_context *context = NULL;
    API_WANT(id, API_INVALID_VALUE);
    API_TRY(context_or_current(handle, &context));
    *id = context->handle.id;
    return API_OK;
}

api_result cuCtxSynchronize(void) { API_CALL(API_CONTEXT, synchronize(NULL)); }
api_result cuCtxSynchronize_v2(struct CUctx_st *context) { API_CALL(API_INIT, synchronize(context)); }

api_result cuCtxSetLimit(unsigned int limit, size_t value)
{
    API_ENTER(API_CONTEXT);
    enum { SYNC_DEPTH = 3, LAUNCH_COUNT = 4, L2_GRANULARITY = 5, PERSISTING_L2 = 6 };
    API_WANT(limit < API_LIMITS, API_INVALID_VALUE);
    API_WANT(limit <= L2_GRANULARITY && (limit != SYNC_DEPTH || api_settings()->sm < 90),
             API_UNSUPPORTED_LIMIT);
    API_WANT(limit != L2_GRANULARITY || value <= 128, API_INVALID_VALUE);
    call.context->limits[limit] = value;
    return API_OK;
}

api_result cuCtxGetLimit(size_t *value, unsigned int limit)
{
    API_ENTER(API_CONTEXT);
    API_WANT(value && limit < API_LIMITS, API_INVALID_VALUE);
    *value = call.context->limits[limit];
    return API_OK;
}

api_result cuCtxGetCacheConfig(unsigned int *config)
{
    API_ENTER(API_CONTEXT);
    API_WANT(config, API_INVALID_VALUE);
    *config = call.context->cache_config;
    return API_OK;
}

api_result cuCtxSetCacheConfig(unsigned int config)
{
    API_ENTER(API_CONTEXT);
    API_WANT(config <= 3, API_INVALID_VALUE);
    call.context->cache_config = config;
    return API_OK;
}

api_result cuCtxGetApiVersion(struct CUctx_st *handle, unsigned int *version)
{
    API_ENTER(API_INIT);
    struct api_context *context = NULL;
    API_WANT(version, API_INVALID_VALUE);
    API_TRY(context_or_current(handle, &context));
    *version = 3020;
    return API_OK;
}

api_result cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    API_ENTER(API_CONTEXT);
    if (least != NULL)
        *least = 0;
    if (greatest != NULL)
        *greatest = -5;
    return API_OK;
}
