/* event.c - events: points in time in the work of streams. */
#include <stdlib.h>
#include <time.h>
#include "api.h"

enum { DISABLE_TIMING = 2, EVENT_FLAGS = 7, INTERPROCESS = 4, RECORD_EXTERNAL = 1 };

static void release_event(struct api_handle *h) { free(((struct api_event *)h)->tips.items); }

static struct api_event *event_of(struct CUevent_st *handle)
{
    return (struct api_event *)api_handle_get(API_KIND_EVENT, handle);
}

void api_event_stamp(struct api_event *event)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    event->recorded = true;
    event->capture_id = 0;
    event->nanoseconds = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static api_result record(struct api_context *context, struct CUevent_st *handle, struct CUstream_st *stream,
                         unsigned int flags)
{
    struct api_event  *e = event_of(handle);
    struct api_stream *s = NULL;
    API_WANT(flags <= RECORD_EXTERNAL, API_INVALID_VALUE);
    API_WANT(e, API_INVALID_HANDLE);
    API_TRY(api_stream_get(context, stream, &s));
    API_WANT(e->handle.context == s->handle.context, API_INVALID_HANDLE);
    if (s->capture != NULL && flags == RECORD_EXTERNAL) {
        struct api_work work = {.kind = API_WORK_RECORD_EVENT,
                                .context = context,
                                .as.event = {.event = e, .id = e->handle.id}};
        return api_submit(s, &work);
    }
    if (s->capture != NULL)
        return api_capture_record(s, e);
    if (s->legacy)
        API_TRY(api_capture_forbids_legacy(context));
    struct api_work work = {.kind = API_WORK_RECORD_EVENT,
                            .context = context,
                            .as.event = {e, e->handle.id, ++e->records}};
    e->capture_id = 0;
    if (api_must_queue(&work))
        return api_enqueue(s, &work);
    api_event_stamp(e); /* a kernel may still overlap with the one before it */
    return API_OK;
}

uint64_t api_event_ticket(const struct api_work *record)
{
    struct api_event *e = (struct api_event *)api_handle_same(API_KIND_EVENT, record->as.event.event,
                                                              record->as.event.id);
    return e != NULL ? ++e->records : 1;
}

static bool is_pending(const struct api_event *e) { return api_event_pending(e, e->handle.id, e->records); }

/* Until the last record of it has been reached, or it is deleted. */
static api_result wait_for_record(struct api_event *e)
{
    const uint64_t id = e->handle.id, ticket = e->records;
    while (api_event_pending(e, id, ticket))
        api_pause();
    e = (struct api_event *)api_handle_same(API_KIND_EVENT, e, id);
    return e != NULL ? e->handle.context->sticky : API_OK;
}

/* An event that was never recorded counts as completed. */
static api_result wait_for(struct CUevent_st *handle, bool query)
{
    struct api_event *e = event_of(handle);
    API_WANT(e, API_INVALID_HANDLE);
    API_TRY(e->handle.context->sticky);
    if (e->capture_id)
        return api_capture_forbids_event(e);
    API_TRY(api_capture_forbids());
    if (query && is_pending(e))
        api_progress();
    if (query && is_pending(e))
        return API_NOT_READY;
    api_work_ended(e->handle.context);
    return wait_for_record(e);
}

static api_result elapsed(float *milliseconds, struct CUevent_st *from, struct CUevent_st *to)
{
    struct api_event *a = event_of(from), *b = event_of(to);
    API_WANT(milliseconds, API_INVALID_VALUE);
    API_WANT(a && b && (a->recorded || a->records) && (b->recorded || b->records), API_INVALID_HANDLE);
    API_WANT(!((a->flags | b->flags) & DISABLE_TIMING), API_INVALID_HANDLE);
    if (a->capture_id || b->capture_id)
        return api_capture_forbids_event(a->capture_id ? a : b);
    API_WANT(!is_pending(a) && !is_pending(b), API_NOT_READY);
    *milliseconds = (float)((double)(int64_t)(b->nanoseconds - a->nanoseconds) / 1e6);
    return API_OK;
}

api_result cuEventCreate(struct CUevent_st **event, unsigned int flags)
{
    API_ENTER(API_CONTEXT);
    API_WANT(event && flags <= EVENT_FLAGS, API_INVALID_VALUE);
    API_WANT(!(flags & INTERPROCESS), flags & DISABLE_TIMING ? API_NOT_SUPPORTED : API_INVALID_VALUE);
    struct api_event *e = (struct api_event *)api_handle_new(API_KIND_EVENT, sizeof *e, call.context, NULL,
                                                             release_event);
    API_WANT(e, API_OUT_OF_MEMORY);
    e->flags = flags;
    *event = (struct CUevent_st *)e;
    return API_OK;
}

api_result cuEventDestroy_v2(struct CUevent_st *event)
{
    API_ENTER(API_INIT);
    struct api_event *e = event_of(event);
    API_WANT(e, API_INVALID_HANDLE);
    api_result sticky = e->handle.context->sticky; /* reported even for this call */
    api_handle_delete(&e->handle);
    return sticky;
}

api_result cuEventRecord(struct CUevent_st *event, struct CUstream_st *stream)
{
    API_CALL(API_CONTEXT, record(call.context, event, stream, 0));
}
api_result cuEventRecordWithFlags(struct CUevent_st *event, struct CUstream_st *stream, unsigned int flags)
{
    API_CALL(API_CONTEXT, record(call.context, event, stream, flags));
}
api_result cuEventQuery(struct CUevent_st *event) { API_CALL(API_INIT, wait_for(event, true)); }
api_result cuEventSynchronize(struct CUevent_st *event) { API_CALL(API_INIT, wait_for(event, false)); }
api_result cuEventElapsedTime(float *milliseconds, struct CUevent_st *from, struct CUevent_st *to)
{
    API_CALL(API_CONTEXT, elapsed(milliseconds, from, to));
}
api_result cuEventElapsedTime_v2(float *milliseconds, struct CUevent_st *from, struct CUevent_st *to)
{
    API_CALL(API_CONTEXT, elapsed(milliseconds, from, to));
}
