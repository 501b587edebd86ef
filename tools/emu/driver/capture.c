/* capture.c - recording the work of streams into a graph instead of doing it.
 *
 * A capture begins in one stream.  Other streams join it by waiting for an event that was recorded in it, and
 * must be joined to the first stream before it ends.  Each stream of a capture has its tips: the nodes that its
 * next node depends on. */
#include <stdlib.h>
#include "api.h"

enum { MODE_GLOBAL, MODE_THREAD_LOCAL, MODE_RELAXED, MODES }; /* CUstreamCaptureMode   */
enum { STATUS_NONE, STATUS_ACTIVE, STATUS_INVALIDATED };      /* CUstreamCaptureStatus */
enum { NON_BLOCKING = 1 };

static struct api_capture *captures;
static uint64_t            last_id;

/* ---- calls that are not allowed during a capture ------------------------------------------------------- */
api_result api_capture_forbids(void)
{
    const struct api_thread *t = api_thread();
    api_result               result = API_OK;
    if (t->capture_mode == MODE_RELAXED)
        return API_OK;
    for (struct api_capture *c = captures; c != NULL; c = c->next) {
        bool mine = c->thread == t && c->mode != MODE_RELAXED;
        bool others = c->thread != t && c->mode == MODE_GLOBAL && t->capture_mode == MODE_GLOBAL;
        if (mine || others) {
            c->invalid = true;
            result = API_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    return result;
}

/* A capture in a stream for which the legacy stream would wait; NULL: none. */
static struct api_capture *blocking_capture(const struct api_context *context)
{
    for (struct api_handle *h = captures != NULL ? api_handle_next(API_KIND_STREAM, NULL) : NULL; h != NULL;
         h = api_handle_next(API_KIND_STREAM, h)) {
        struct api_stream *s = (struct api_stream *)h;
        if (h->context == context && s->capture != NULL && !(s->flags & NON_BLOCKING))
            return s->capture;
    }
    return NULL;
}

api_result api_capture_forbids_legacy(struct api_context *context)
{
    struct api_capture *capture = blocking_capture(context);
    if (capture != NULL)
        capture->invalid = true;
    return capture != NULL ? API_STREAM_CAPTURE_IMPLICIT : API_OK;
}

static struct api_capture *capture_of(uint64_t id)
{
    struct api_capture *c = captures;
    while (c != NULL && c->id != id)
        c = c->next;
    return c;
}

api_result api_capture_forbids_event(const struct api_event *event)
{
    struct api_capture *capture = capture_of(event->capture_id);
    API_WANT(capture, API_INVALID_VALUE);
    capture->invalid = true;
    return API_CAPTURED_EVENT;
}

api_result api_capture_forbids_wait(struct api_context *context, struct api_stream *stream)
{
    if (stream != NULL && stream->capture != NULL) {
        stream->capture->invalid = true;
        return API_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (stream != NULL)
        return stream->legacy ? api_capture_forbids_legacy(context) : API_OK;
    for (struct api_capture *c = captures; c != NULL; c = c->next)
        if (c->origin->handle.context == context) {
            c->invalid = true;
            return API_STREAM_CAPTURE_UNSUPPORTED;
        }
    return API_OK;
}

/* ---- recording ----------------------------------------------------------------------------------------- */
static bool set_tips(struct api_stream *stream, const struct api_nodes *tips)
{
    struct api_nodes copy;
    if (!api_nodes_copy(&copy, tips))
        return false;
    free(stream->tips.items);
    stream->tips = copy;
    return true;
}

api_result api_capture_add(struct api_stream *stream, struct api_work *work)
{
    struct api_node *node = NULL;
    const bool       early = work->kind == API_WORK_KERNEL && work->as.kernel.launch.dependent;
    API_WANT(!stream->capture->invalid, API_STREAM_CAPTURE_INVALIDATED);
    if (early)
        work->as.kernel.launch.dependent = false; /* its edges say so */
    API_TRY(api_graph_add(stream->capture->graph, &stream->tips, work, &node));
    if (early)
        API_TRY(api_node_begins_early(node));
    const struct api_nodes tips = {&node, 1};
    return set_tips(stream, &tips) ? API_OK : API_OUT_OF_MEMORY;
}

api_result api_capture_record(struct api_stream *stream, struct api_event *event)
{
    struct api_nodes tips;
    API_WANT(!stream->capture->invalid, API_STREAM_CAPTURE_INVALIDATED);
    API_WANT(api_nodes_copy(&tips, &stream->tips), API_OUT_OF_MEMORY);
    free(event->tips.items);
    event->tips = tips;
    event->capture_id = stream->capture->id;
    return API_OK;
}

static api_result join(struct api_stream *stream, const struct api_event *event, struct api_capture *capture)
{
    API_WANT(!stream->legacy, API_STREAM_CAPTURE_IMPLICIT);
    API_WANT(!capture->invalid, API_STREAM_CAPTURE_INVALIDATED);
    API_WANT(set_tips(stream, &event->tips), API_OUT_OF_MEMORY);
    stream->capture = capture;
    return API_OK;
}

api_result api_capture_wait(struct api_stream *stream, struct api_event *event)
{
    struct api_capture *capture = event->capture_id ? capture_of(event->capture_id) : NULL;
    if (stream->capture == NULL)
        return capture != NULL ? join(stream, event, capture) : API_INVALID_VALUE;
    API_WANT(!stream->capture->invalid, API_STREAM_CAPTURE_INVALIDATED);
    if (capture == stream->capture) {
        for (size_t i = 0; i < event->tips.count; i++)
            API_WANT(api_nodes_add(&stream->tips, event->tips.items[i]), API_OUT_OF_MEMORY);
        return API_OK;
    }
    stream->capture->invalid = true;
    if (capture == NULL)
        return API_STREAM_CAPTURE_ISOLATION;
    capture->invalid = true;
    return API_STREAM_CAPTURE_MERGE;
}

/* ---- begin and end ------------------------------------------------------------------------------------- */
/* All streams leave the capture; the caller gets its graph. */
static void finish(struct api_capture *capture)
{
    struct api_capture **at = &captures;
    for (struct api_handle *h = api_handle_next(API_KIND_STREAM, NULL); h != NULL;
         h = api_handle_next(API_KIND_STREAM, h)) {
        struct api_stream *s = (struct api_stream *)h;
        if (s->capture == capture) {
            s->capture = NULL;
            s->tips.count = 0;
        }
    }
    while (*at != capture)
        at = &(*at)->next;
    *at = capture->next;
    capture->graph->captured = false;
    free(capture);
}

/* Mark `node` and all nodes before it.  Edges of a captured graph lead to earlier nodes, so no stack is
 * needed. */
static bool *ancestors(const struct api_graph *graph, const struct api_nodes *tips)
{
    bool *reached = (bool *)calloc(graph->nodes.count + 1, sizeof *reached);
    if (reached == NULL)
        return NULL;
    for (size_t i = 0; i < tips->count; i++)
        reached[tips->items[i]->index] = true;
    for (size_t i = graph->nodes.count; i-- > 0;)
        for (size_t k = 0; reached[i] && k < graph->nodes.items[i]->after.count; k++)
            reached[graph->nodes.items[i]->after.items[k]->index] = true;
    return reached;
}

/* Have all streams of the capture been joined to its first one? */
static api_result check_joined(const struct api_capture *capture)
{
    bool *reached = ancestors(capture->graph, &capture->origin->tips), joined = true;
    API_WANT(reached, API_OUT_OF_MEMORY);
    for (struct api_handle *h = api_handle_next(API_KIND_STREAM, NULL); h != NULL;
         h = api_handle_next(API_KIND_STREAM, h)) {
        const struct api_stream *s = (const struct api_stream *)h;
        for (size_t i = 0; s->capture == capture && i < s->tips.count; i++)
            joined = joined && reached[s->tips.items[i]->index];
    }
    free(reached);
    return joined ? API_OK : API_STREAM_CAPTURE_UNJOINED;
}

void api_capture_forget(struct api_stream *stream)
{
    struct api_capture *c = stream->capture;
    if (c != NULL && c->origin == stream) {
        struct api_graph *graph = c->graph;
        finish(c);
        api_handle_delete(&graph->handle);
    } else if (c != NULL) {
        c->invalid = true;
    }
}

/* ---- queries ------------------------------------------------------------------------------------------- */
static api_result ask(struct api_context *context, struct CUstream_st *handle, unsigned int *status,
                      uint64_t *id, struct CUgraph_st **graph, struct CUgraphNode_st *const **tips,
                      size_t *count)
{
    struct api_stream *s = NULL;
    API_WANT(status, API_INVALID_VALUE);
    API_TRY(api_stream_get(context, handle, &s));
    API_WANT(!s->legacy || !blocking_capture(context), API_STREAM_CAPTURE_IMPLICIT);
    *status = s->capture == NULL ? STATUS_NONE : s->capture->invalid ? STATUS_INVALIDATED : STATUS_ACTIVE;
    if (*status != STATUS_ACTIVE)
        return API_OK;
    if (id != NULL)
        *id = s->capture->id;
    if (graph != NULL)
        *graph = (struct CUgraph_st *)s->capture->graph;
    if (tips != NULL)
        *tips = (struct CUgraphNode_st *const *)s->tips.items;
    if (count != NULL)
        *count = s->tips.count;
    return API_OK;
}

api_result cuStreamBeginCapture_v2(struct CUstream_st *stream, unsigned int mode)
{
    API_ENTER(API_CONTEXT);
    struct api_stream *s = NULL;
    API_WANT(mode < MODES, API_INVALID_VALUE);
    API_TRY(api_stream_get(call.context, stream, &s));
    API_WANT(!s->legacy, API_STREAM_CAPTURE_UNSUPPORTED);
    API_WANT(!s->capture, API_ILLEGAL_STATE);
    struct api_capture *c = (struct api_capture *)calloc(1, sizeof *c);
    API_WANT(c, API_OUT_OF_MEMORY);
    if (api_graph_new(call.context, &c->graph) != API_OK) {
        free(c);
        return API_OUT_OF_MEMORY;
    }
    c->graph->captured = true;
    c->id = ++last_id;
    c->origin = s;
    c->mode = mode;
    c->thread = api_thread();
    c->next = captures;
    captures = c;
    s->capture = c;
    s->tips.count = 0;
    return API_OK;
}

api_result cuStreamEndCapture(struct CUstream_st *handle, struct CUgraph_st **out)
{
    API_ENTER(API_CONTEXT);
    struct api_stream *s = NULL;
    API_WANT(out, API_INVALID_VALUE);
    *out = NULL;
    API_TRY(api_stream_get(call.context, handle, &s));
    struct api_capture *c = s->capture;
    API_WANT(c, API_ILLEGAL_STATE);
    API_WANT(c->mode == MODE_RELAXED || c->thread == api_thread(), API_STREAM_CAPTURE_WRONG_THREAD);
    if (c->origin != s) {
        c->invalid = true;
        return API_STREAM_CAPTURE_UNMATCHED;
    }
    api_result        result = c->invalid ? API_STREAM_CAPTURE_INVALIDATED : check_joined(c);
    struct api_graph *graph = c->graph;
    finish(c);
    if (result == API_OK)
        *out = (struct CUgraph_st *)graph;
    else
        api_handle_delete(&graph->handle);
    return result;
}

api_result cuStreamIsCapturing(struct CUstream_st *stream, unsigned int *status)
{
    API_CALL(API_CONTEXT, ask(call.context, stream, status, NULL, NULL, NULL, NULL));
}
api_result cuStreamGetCaptureInfo(struct CUstream_st *stream, unsigned int *status, uint64_t *id)
{
    API_CALL(API_CONTEXT, ask(call.context, stream, status, id, NULL, NULL, NULL));
}
api_result cuStreamGetCaptureInfo_v2(struct CUstream_st *stream, unsigned int *status, uint64_t *id,
                                     struct CUgraph_st **graph, struct CUgraphNode_st *const **tips,
                                     size_t *count)
{
    API_CALL(API_CONTEXT, ask(call.context, stream, status, id, graph, tips, count));
}
api_result cuStreamGetCaptureInfo_v3(struct CUstream_st *stream, unsigned int *status, uint64_t *id,
                                     struct CUgraph_st **graph, struct CUgraphNode_st *const **tips,
                                     const struct CUgraphEdgeData_st **edges, size_t *count)
{
    if (edges != NULL)
        *edges = NULL; /* those of the next node are plain, unless its launch says otherwise */
    API_CALL(API_CONTEXT, ask(call.context, stream, status, id, graph, tips, count));
}

api_result cuThreadExchangeStreamCaptureMode(unsigned int *mode)
{
    API_ENTER(API_INIT);
    struct api_thread *t = api_thread();
    API_WANT(mode && *mode < MODES, API_INVALID_VALUE);
    unsigned int before = t->capture_mode;
    t->capture_mode = *mode;
    *mode = before;
    return API_OK;
}
