/* stream.c - streams: making and destroying them, waiting for them, and what they call. */
#include <stdlib.h>
#include "api.h"

api_result api_stream_get(struct api_context *context, struct CUstream_st *handle, struct api_stream **stream)
{
    uintptr_t number = (uintptr_t)handle;
    *stream = number <= 1 ? context->legacy : number == 2 ? context->per_thread : NULL;
    if (*stream == NULL)
        *stream = (struct api_stream *)api_handle_get(API_KIND_STREAM, handle);
    API_WANT(*stream && !(*stream)->destroyed, API_INVALID_HANDLE);
    return (*stream)->handle.context == context ? API_OK : API_INVALID_CONTEXT;
}

/* A stream of any context, for queries and destruction. */
static api_result any_stream(struct api_context *context, struct CUstream_st *handle,
                             struct api_stream **stream)
{
    api_result result = api_stream_get(context, handle, stream);
    return result == API_INVALID_CONTEXT ? API_OK : result;
}

static void release_stream(struct api_handle *h)
{
    struct api_stream *s = (struct api_stream *)h;
    api_queue_remove(s);
    free(s->tips.items);
}

struct api_stream *api_stream_new(struct api_context *context)
{
    struct api_stream *s = (struct api_stream *)api_handle_new(API_KIND_STREAM, sizeof *s, context, NULL,
                                                               release_stream);
    if (s != NULL)
        api_queue_add(s);
    return s;
}

static api_result create(struct api_context *context, struct CUstream_st **out, unsigned int flags,
                         int priority)
{
    API_WANT(out && flags <= 1, API_INVALID_VALUE);
    struct api_stream *s = api_stream_new(context);
    API_WANT(s, API_OUT_OF_MEMORY);
    s->flags = flags;
    s->priority = priority < -5 ? -5 : priority > 0 ? 0 : priority;
    *out = (struct CUstream_st *)s;
    return API_OK;
}

static api_result wait_idle(struct api_context *context, struct CUstream_st *handle, bool query)
{
    struct api_stream *s = NULL;
    API_TRY(any_stream(context, handle, &s));
    API_TRY(api_capture_forbids_wait(s->handle.context, s));
    API_TRY(api_capture_forbids());
    if (query && api_stream_busy(s))
        api_progress();
    if (query && api_stream_busy(s))
        return API_NOT_READY;
    api_work_ended(s->handle.context);
    return api_finish_stream(s);
}

static api_result call_host(struct api_context *context, struct CUstream_st *handle,
                            api_host_function *function, api_stream_callback *callback, void *data)
{
    struct api_stream *s = NULL;
    struct api_work    work = {.kind = API_WORK_HOST, .context = context};
    API_TRY(api_stream_get(context, handle, &s));
    if (callback != NULL && s->capture != NULL)
        return api_capture_forbids_wait(context, s);
    work.as.host.function = function;
    work.as.host.callback = callback;
    work.as.host.stream = handle;
    work.as.host.data = data;
    return api_submit(s, &work);
}

/* ---- queries ------------------------------------------------------------------------------------------- */
static api_result ask(struct api_context *context, struct CUstream_st *handle, unsigned int *flags,
                      int *priority, struct CUctx_st **owner, unsigned long long *id)
{
    struct api_stream *s = NULL;
    API_WANT(flags || priority || owner || id, API_INVALID_VALUE);
    API_TRY(any_stream(context, handle, &s));
    if (flags != NULL)
        *flags = s->flags;
    if (priority != NULL)
        *priority = s->priority;
    if (owner != NULL)
        *owner = (struct CUctx_st *)s->handle.context;
    if (id != NULL)
        *id = s->handle.id;
    return API_OK;
}

api_result cuStreamCreate(struct CUstream_st **stream, unsigned int flags)
{
    API_CALL(API_CONTEXT, create(call.context, stream, flags, 0));
}
api_result cuStreamCreateWithPriority(struct CUstream_st **stream, unsigned int flags, int priority)
{
    API_CALL(API_CONTEXT, create(call.context, stream, flags, priority));
}

api_result cuStreamDestroy_v2(struct CUstream_st *stream)
{
    API_ENTER(API_INIT);
    struct api_stream *s = (struct api_stream *)api_handle_get(API_KIND_STREAM, stream);
    API_WANT(s && !s->destroyed && s != s->handle.context->legacy && s != s->handle.context->per_thread,
             API_INVALID_HANDLE);
    api_result sticky = s->handle.context->sticky; /* reported even for this call */
    api_capture_forget(s);
    s->destroyed = true;
    api_progress();
    return sticky;
}

api_result cuStreamQuery(struct CUstream_st *stream)
{
    API_CALL(API_CONTEXT, wait_idle(call.context, stream, true));
}
api_result cuStreamSynchronize(struct CUstream_st *stream)
{
    API_CALL(API_CONTEXT, wait_idle(call.context, stream, false));
}

api_result cuStreamWaitEvent(struct CUstream_st *stream, struct CUevent_st *event, unsigned int flags)
{
    API_ENTER(API_CONTEXT);
    struct api_stream *s = NULL;
    API_WANT(flags <= 1, API_INVALID_VALUE);
    API_TRY(any_stream(call.context, stream, &s));
    struct api_event *e = api_event_get(event);
    API_WANT(e, API_INVALID_HANDLE);
    if (s->capture != NULL && flags == 1) { /* external: recorded as a node */
        struct api_work work = {.kind = API_WORK_WAIT_EVENT,
                                .context = s->handle.context,
                                .as.event = {.event = e, .id = e->handle.id}};
        return api_submit(s, &work);
    }
    if (s->capture != NULL || e->capture_id)
        return api_capture_wait(s, e);
    if (api_event_last(e) == 0) /* it was never recorded, and holds nothing up */
        return API_OK;
    struct api_work work = {.kind = API_WORK_WAIT_EVENT,
                            .context = s->handle.context,
                            .as.event = {e, e->handle.id, api_event_last(e)}};
    return api_do_or_queue(s, &work);
}

api_result cuStreamAddCallback(struct CUstream_st *stream, api_stream_callback *callback, void *data,
                               unsigned int flags)
{
    API_CALL(API_CONTEXT,
             flags || !callback ? API_INVALID_VALUE : call_host(call.context, stream, NULL, callback, data));
}
api_result cuLaunchHostFunc(struct CUstream_st *stream, api_host_function *function, void *data)
{
    API_CALL(API_CONTEXT, function ? call_host(call.context, stream, function, NULL, data) : API_INVALID_VALUE);
}
api_result cuStreamGetFlags(struct CUstream_st *stream, unsigned int *flags)
{
    API_CALL(API_CONTEXT, ask(call.context, stream, flags, NULL, NULL, NULL));
}
api_result cuStreamGetPriority(struct CUstream_st *stream, int *priority)
{
    API_CALL(API_CONTEXT, ask(call.context, stream, NULL, priority, NULL, NULL));
}
api_result cuStreamGetCtx(struct CUstream_st *stream, struct CUctx_st **context)
{
    API_CALL(API_CONTEXT, ask(call.context, stream, NULL, NULL, context, NULL));
}
api_result cuStreamGetId(struct CUstream_st *stream, unsigned long long *id)
{
    API_CALL(API_CONTEXT, ask(call.context, stream, NULL, NULL, NULL, id));
}
