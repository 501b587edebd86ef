/* event.c - events: points in time in the work of streams, of this process or of others. */
#include <stdlib.h>
#include <time.h>
#include "api.h"
#include "tools/emu/ipc/event.h"
#include "tools/emu/judge/report.h"

enum { DISABLE_TIMING = 2, EVENT_FLAGS = 7, INTERPROCESS = 4, RECORD_EXTERNAL = 1 };

static size_t destroyed_events; /* that still live */

static void release_event(struct api_handle *h)
{
    struct api_event *e = (struct api_event *)h;
    destroyed_events -= e->destroyed;
    ipc_event_free(e->shared);
    free(e->tips.items);
}

struct api_event *api_event_get(struct CUevent_st *handle)
{
    struct api_event *e = (struct api_event *)api_handle_get(API_KIND_EVENT, handle);
    return e != NULL && !e->destroyed ? e : NULL;
}

/* ---- records ------------------------------------------------------------------------------------------- */
static uint64_t next_ticket(struct api_event *e)
{
    return e->shared != NULL ? ipc_event_record(e->shared) : ++e->records;
}

uint64_t api_event_last(const struct api_event *e)
{
    return e->shared != NULL ? ipc_event_last(e->shared) : e->records;
}

/* The event of the work, if it was not deleted meanwhile. */
static struct api_event *event_of(const struct api_work *w)
{
    return (struct api_event *)api_handle_same(API_KIND_EVENT, w->as.event.event, w->as.event.id);
}

uint64_t api_event_ticket(const struct api_work *record)
{
    struct api_event *e = event_of(record);
    return e != NULL ? next_ticket(e) : 1;
}

static void stamp(struct api_event *event)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    event->recorded = true;
    event->capture_id = 0;
    event->nanoseconds = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

api_result api_event_reach(const struct api_work *record, bool lost)
{
    struct api_event *e = event_of(record);
    uint64_t          ticket = record->as.event.ticket;
    API_WANT(e || ticket, API_INVALID_HANDLE); /* in a queue, it may be destroyed meanwhile */
    if (e == NULL)
        return API_OK;
    if (!lost)
        stamp(e);
    if (e->shared != NULL)
        ipc_event_end(e->shared, ticket ? ticket : next_ticket(e), lost);
    return API_OK;
}

/* ---- waiting ------------------------------------------------------------------------------------------- */
static uint64_t awaited(const struct api_work *wait, const struct api_event *e)
{
    return wait->as.event.ticket || e == NULL ? wait->as.event.ticket : api_event_last(e);
}

const char *api_event_others(const struct api_work *wait)
{
    const struct api_event *e = event_of(wait);
    return e != NULL && e->shared != NULL ? " or process" : "";
}

bool api_event_due(const struct api_work *wait)
{
    const struct api_event *e = event_of(wait);
    if (e != NULL && e->shared != NULL)
        return ipc_event_state(e->shared, awaited(wait, e)) == IPC_PENDING;
    return api_event_pending(wait->as.event.event, wait->as.event.id, awaited(wait, e));
}

api_result api_event_result(const struct api_work *wait)
{
    const struct api_event *e = event_of(wait);
    if (e == NULL || e->shared == NULL || ipc_event_state(e->shared, awaited(wait, e)) != IPC_LOST)
        return API_OK;
    report_line(
        api_settings(),
        "an event will not be reached: process %d, which recorded it, has failed, has ended or has deleted it",
        ipc_event_process(awaited(wait, e)));
    return API_EXTERNAL_DEVICE;
}

static api_result record(struct api_context *context, struct CUevent_st *handle, struct CUstream_st *stream,
                         unsigned int flags)
{
    struct api_event  *e = api_event_get(handle);
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
                            .as.event = {e, e->handle.id, next_ticket(e)}};
    e->capture_id = 0;
    if (!api_must_queue(&work))
        return api_event_reach(&work, false); /* a kernel may still overlap with the one before it */
    api_result result = api_enqueue(s, &work);
    if (result != API_OK)
        api_event_reach(&work, true);
    return result;
}

/* Waiting for the last record of it. */
static struct api_work wait_for_last(struct api_event *e)
{
    return (struct api_work){.kind = API_WORK_WAIT_EVENT, .as.event = {e, e->handle.id, api_event_last(e)}};
}

static bool is_pending(struct api_event *e)
{
    const struct api_work wait = wait_for_last(e);
    return api_event_due(&wait);
}

/* Until the last record of it has been reached, or it is deleted. */
static api_result wait_for_record(struct api_event *e)
{
    const struct api_work wait = wait_for_last(e);
    while (api_event_due(&wait))
        api_pause();
    e = event_of(&wait);
    API_WANT(e, API_OK);
    API_TRY(e->handle.context->sticky);
    return api_event_result(&wait);
}

/* An event that was never recorded counts as completed. */
static api_result wait_for(struct CUevent_st *handle, bool query)
{
    struct api_event *e = api_event_get(handle);
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
    struct api_event *a = api_event_get(from), *b = api_event_get(to);
    API_WANT(milliseconds, API_INVALID_VALUE);
    API_WANT(a && b && (a->recorded || a->records) && (b->recorded || b->records), API_INVALID_HANDLE);
    API_WANT(!((a->flags | b->flags) & DISABLE_TIMING), API_INVALID_HANDLE);
    if (a->capture_id || b->capture_id)
        return api_capture_forbids_event(a->capture_id ? a : b);
    API_WANT(!is_pending(a) && !is_pending(b), API_NOT_READY);
    *milliseconds = (float)((double)(int64_t)(b->nanoseconds - a->nanoseconds) / 1e6);
    return API_OK;
}

/* ---- making and destroying ----------------------------------------------------------------------------- */
/* Takes over `shared`. */
static api_result create(struct api_context *context, struct CUevent_st **event, unsigned int flags,
                         struct ipc_event *shared)
{
    struct api_event *e = (struct api_event *)api_handle_new(API_KIND_EVENT, sizeof *e, context, NULL,
                                                             release_event);
    if (e == NULL) {
        ipc_event_free(shared);
        return API_OUT_OF_MEMORY;
    }
    e->flags = flags;
    e->shared = shared;
    *event = (struct CUevent_st *)e;
    return API_OK;
}

api_result cuEventCreate(struct CUevent_st **event, unsigned int flags)
{
    API_ENTER(API_CONTEXT);
    struct ipc_event *shared = NULL;
    API_WANT(event && flags <= EVENT_FLAGS, API_INVALID_VALUE);
    API_WANT(!(flags & INTERPROCESS) || flags & DISABLE_TIMING, API_INVALID_VALUE);
    if (flags & INTERPROCESS) {
        shared = ipc_event_new();
        API_WANT(shared, API_OUT_OF_MEMORY);
    }
    return create(call.context, event, flags, shared);
}

api_result cuEventDestroy_v2(struct CUevent_st *event)
{
    API_ENTER(API_INIT);
    struct api_event *e = api_event_get(event);
    API_WANT(e, API_INVALID_HANDLE);
    api_result sticky = e->handle.context->sticky; /* reported even for this call */
    if (e->shared != NULL && api_event_queued(e, e->handle.id)) {
        e->destroyed = true; /* other processes wait for what is in the queues, and these for them */
        destroyed_events++;
    } else {
        api_handle_delete(&e->handle);
    }
    return sticky;
}

static bool bury_one(void)
{
    for (struct api_handle *h = api_handle_next(API_KIND_EVENT, NULL); h != NULL;
         h = api_handle_next(API_KIND_EVENT, h))
        if (((const struct api_event *)h)->destroyed && !api_event_queued(h, h->id)) {
            api_handle_delete(h);
            return true;
        }
    return false;
}

void api_event_bury(void)
{
    while (destroyed_events != 0 && bury_one())
        ;
}

/* ---- other processes ----------------------------------------------------------------------------------- */
api_result cuIpcGetEventHandle(struct CUipcEventHandle_st *handle, struct CUevent_st *event)
{
    API_ENTER(API_CONTEXT);
    struct ipc_handle       name;
    const struct api_event *e = api_event_get(event);
    API_WANT(handle, API_INVALID_VALUE);
    API_WANT(e && e->flags & INTERPROCESS, API_INVALID_HANDLE);
    API_WANT(ipc_event_name(e->shared, e->handle.context->device->ordinal, e->handle.id, &name),
             API_MAP_FAILED);
    memcpy(handle->reserved, &name, sizeof handle->reserved);
    return API_OK;
}

api_result cuIpcOpenEventHandle(struct CUevent_st **event, struct CUipcEventHandle_st handle)
{
    API_ENTER(API_CONTEXT);
    struct ipc_handle name;
    API_WANT(event && ipc_handle_read(&name, IPC_EVENT, handle.reserved), API_INVALID_VALUE);
    API_WANT(!ipc_handle_is_own(&name), API_INVALID_CONTEXT);
    struct ipc_event *shared = ipc_event_open(&name);
    if (shared == NULL) {
        api_report_unopened("an event", name.process);
        return API_INVALID_VALUE;
    }
    return create(call.context, event, DISABLE_TIMING, shared);
}

/* ---- the calls ----------------------------------------------------------------------------------------- */

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
