/* queue.c - work that cannot be done when it is enqueued.
 *
 * With one device, whose streams are all idle, work is done by the call that enqueues it.  Otherwise, with memory that
 * other processes share, and with PTXPACK_EMU_DELAY, it goes to the queue of its stream.  The head of a queue runs when
 * it is ready: when the value or the event that it waits for is there, when no other kernel of its context runs, and
 * when the default stream lets it.  Kernels and functions of the host run on threads of their own, without the driver's
 * lock, so that a kernel may poll what a copy in another stream, another device, another process or the host writes.
 * All other work is done with the lock held, by whoever finds that it is ready: a call that enqueues or waits, the end
 * of a kernel, or, while something waits for memory to change, a thread that looks at it now and then.
 *
 * An item stays at the head of its queue while it runs. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include "api.h"
#include "tools/emu/judge/report.h"

enum { LOOK_EVERY = 50000, WAIT_FOR = 1000000 }; /* nanoseconds: at memory, for the end of something */

static uint64_t     last_sequence;
static unsigned int threads;  /* that run items, or look at memory */
static bool         looking;  /* one of them looks at memory */
static atomic_bool  ending;   /* the library is unloaded */
static atomic_ulong activity; /* items that were enqueued or ended */

struct api_item {
    struct api_work  work;
    uint64_t         sequence;  /* in the order of their calls, over all streams */
    uint64_t         begins_at; /* not before; 0: at once */
    struct api_item *next;
};

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static struct api_stream *streams; /* all of them */
static size_t             item_count;

static struct api_stream *next_stream(const struct api_stream *after)
{
    return after != NULL ? after->after : streams;
}

void api_queue_add(struct api_stream *s)
{
    s->after = streams;
    if (streams != NULL)
        streams->before = s;
    streams = s;
}

void api_queue_remove(struct api_stream *s)
{
    if (s->after != NULL)
        s->after->before = s->before;
    *(s->before != NULL ? &s->before->after : &streams) = s->after;
}

/* ---- the order ----------------------------------------------------------------------------------------- */
static bool is_blocking(const struct api_stream *s)
{
    enum { NON_BLOCKING = 1 };
    return !s->legacy && !(s->flags & NON_BLOCKING);
}

/* The default stream and the others that synchronise with it go in the order of their calls. */
static bool in_order(const struct api_stream *s)
{
    for (const struct api_stream *t = next_stream(NULL); t != NULL; t = next_stream(t)) {
        const bool related = t->handle.context == s->handle.context &&
                             ((s->legacy && is_blocking(t)) || (t->legacy && is_blocking(s)));
        if (related && t->first != NULL && t->first->sequence < s->first->sequence)
            return false;
    }
    return true;
}

bool api_stream_busy(const struct api_stream *s)
{
    bool busy = s->first != NULL;
    for (const struct api_stream *t = next_stream(NULL); s->legacy && !busy && t != NULL; t = next_stream(t))
        busy = t->handle.context == s->handle.context && is_blocking(t) && t->first != NULL;
    return busy;
}

bool api_event_pending(const void *event, uint64_t id, uint64_t ticket)
{
    for (const struct api_stream *s = next_stream(NULL); s != NULL; s = next_stream(s))
        for (const struct api_item *i = s->first; i != NULL; i = i->next)
            if (i->work.kind == API_WORK_RECORD_EVENT && i->work.as.event.event == event &&
                i->work.as.event.id == id && i->work.as.event.ticket == ticket)
                return true;
    return false;
}

bool api_event_queued(const void *event, uint64_t id)
{
    for (const struct api_stream *s = next_stream(NULL); s != NULL; s = next_stream(s))
        for (const struct api_item *i = s->first; i != NULL; i = i->next)
            if ((i->work.kind == API_WORK_RECORD_EVENT || i->work.kind == API_WORK_WAIT_EVENT) &&
                i->work.as.event.event == event && i->work.as.event.id == id)
                return true;
    return false;
}

/* ---- delays -------------------------------------------------------------------------------------------- */
/* PTXPACK_EMU_DELAY: half of the items may begin at once, the others at a time up to it. */
static uint64_t delayed(void)
{
    static uint64_t state;
    const uint64_t  most = api_settings()->delay * 1000000u;
    if (most == 0)
        return 0;
    if (state == 0)
        state = api_settings()->seed * 2 + 1;
    state ^= state << 13; /* xorshift64 */
    state ^= state >> 7;
    state ^= state << 17;
    return state >> 63 ? 0 : now() + (state >> 16) % most;
}

/* ---- the end of an item -------------------------------------------------------------------------------- */
static void free_item(struct api_item *item)
{
    api_work_clear(&item->work);
    free(item);
    item_count--;
}

static void pop(struct api_stream *s, api_result result)
{
    struct api_item *item = s->first;
    s->first = item->next;
    if (s->first == NULL)
        s->last = NULL;
    s->running = false;
    if (s->late == API_OK)
        s->late = result;
    atomic_fetch_add(&activity, 1);
    free_item(item);
}

/* ---- items with a thread of their own ------------------------------------------------------------------ */
/* A kernel only polls: may something still change what it polls?  It may while it does other things in between, while
 * other work begins or ends, and for the time that the settings give. */
struct patience {
    const struct api_context *context;
    atomic_ulong              activity; /* several host threads of a launch may ask */
    atomic_ullong             since;
};

static bool may_change(void *data, bool again)
{
    const struct timespec pause = {0, LOOK_EVERY};
    struct patience      *p = (struct patience *)data;
    const unsigned long   seen = atomic_load(&activity);
    nanosleep(&pause, NULL);
    if (atomic_exchange(&p->activity, seen) != seen || !again)
        atomic_store(&p->since, now());
    return !atomic_load(&ending) && !atomic_load(&p->context->ending) &&
           now() - atomic_load(&p->since) < api_settings()->patience * 1000000000ull;
}

static api_result run_alone(const struct api_work *work, const struct api_stream *s)
{
    struct patience patience = {.context = work->context};
    if (work->kind == API_WORK_KERNEL)
        return api_work_run_kernel(work, s, may_change, &patience);
    api_unlock();
    api_work_call(work, work->context->sticky);
    api_lock();
    return API_OK;
}

static void *thread_of_item(void *argument)
{
    struct api_stream *s = (struct api_stream *)argument;
    api_lock();
    struct api_context *context = s->first->work.context;
    const bool          kernel = s->first->work.kind == API_WORK_KERNEL;
    api_result          result = run_alone(&s->first->work, s);
    if (kernel)
        context->running = false;
    pop(s, result);
    api_progress();
    threads--;
    api_moved();
    api_unlock();
    return NULL;
}

static bool start(void *(*function)(void *), void *argument)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, function, argument) != 0)
        return false;
    pthread_detach(thread);
    threads++;
    return true;
}

static void start_item(struct api_stream *s)
{
    const struct api_work *work = &s->first->work;
    s->running = true;
    if (work->kind == API_WORK_KERNEL)
        work->context->running = true;
    if (start(thread_of_item, s))
        return;
    if (work->kind == API_WORK_KERNEL)
        work->context->running = false;
    report_line(api_settings(), "no host thread for the work of a stream");
    pop(s, API_OUT_OF_MEMORY);
}

/* ---- progress ------------------------------------------------------------------------------------------ */
/* Do what is at the head of the queue, if it is ready. */
static bool advance(struct api_stream *s)
{
    if (s->first == NULL || s->running || !in_order(s) ||
        (s->first->begins_at != 0 && now() < s->first->begins_at))
        return false;
    struct api_work *work = &s->first->work;
    if (work->context->sticky != API_OK) { /* nothing runs any more in this context */
        if (work->kind == API_WORK_RECORD_EVENT)
            api_event_reach(work, true);
        pop(s, API_OK);
        return true;
    }
    bool moved = false;
    if (work->kind == API_WORK_TASK && !api_task_step(work, &moved))
        return moved;
    if (!api_work_ready(work))
        return false;
    if (work->kind == API_WORK_KERNEL || work->kind == API_WORK_HOST)
        start_item(s);
    else
        pop(s, api_work_run(work, s));
    return true;
}

/* A stream that was destroyed lives until its work has ended. */
static bool bury(void)
{
    for (struct api_stream *s = next_stream(NULL); s != NULL; s = next_stream(s))
        if (s->destroyed && s->first == NULL) {
            api_handle_delete(&s->handle);
            return true;
        }
    return false;
}

static bool someone_waits(void)
{
    for (const struct api_stream *s = next_stream(NULL); s != NULL; s = next_stream(s))
        if (s->first != NULL && !s->running)
            return true;
    return false;
}

static void *thread_that_looks(void *argument)
{
    const struct timespec pause = {0, LOOK_EVERY};
    api_lock();
    while (!atomic_load(&ending) && someone_waits()) {
        api_unlock();
        nanosleep(&pause, NULL);
        api_lock();
        api_progress();
    }
    looking = false;
    threads--;
    api_moved();
    api_unlock();
    return argument;
}

void api_progress(void)
{
    bool moved = false, again;
    do {
        again = false;
        for (struct api_stream *s = next_stream(NULL); s != NULL; s = next_stream(s))
            again |= advance(s);
        moved |= again;
    } while (again);
    while (bury())
        ;
    api_event_bury();
    if (!looking && someone_waits())
        looking = start(thread_that_looks, NULL);
    if (moved)
        api_moved();
}

/* ---- enqueueing ---------------------------------------------------------------------------------------- */
/* Takes over the work, unless it fails. */
static api_result append(struct api_stream *s, struct api_work *work)
{
    struct api_item *item = (struct api_item *)calloc(1, sizeof *item);
    API_WANT(item, API_OUT_OF_MEMORY);
    if (work->kind == API_WORK_TASK && api_task_begin(work) != API_OK) {
        free(item);
        return API_OUT_OF_MEMORY;
    }
    item_count++;
    item->work = *work;
    item->sequence = ++last_sequence;
    item->begins_at = delayed();
    memset(work, 0, sizeof *work);
    work->kind = API_WORK_EMPTY;
    if (s->last != NULL)
        s->last->next = item;
    else
        s->first = item;
    s->last = item;
    atomic_fetch_add(&activity, 1);
    if (item->work.kind == API_WORK_RECORD_EVENT && item->work.as.event.ticket == 0)
        item->work.as.event.ticket = api_event_ticket(&item->work);
    return API_OK;
}

/* The nodes of a graph become items, so that each of them may wait. */
static api_result append_graph(struct api_stream *s, const struct api_work *graph)
{
    for (size_t i = 0; i < graph->as.graph.count; i++) {
        const struct api_work *from = &graph->as.graph.items[i];
        struct api_work        work;
        if (from->kind == API_WORK_GRAPH) {
            API_TRY(append_graph(s, from));
            continue;
        }
        API_TRY(api_work_check(from));
        API_TRY(api_work_clone(&work, from));
        api_result result = append(s, &work);
        api_work_clear(&work);
        API_TRY(result);
    }
    return API_OK;
}

bool api_must_queue(const struct api_work *work)
{
    const struct emu_settings *settings = api_settings();
    return settings->device_count > 1 || settings->delay != 0 || item_count != 0 || api_memory_is_shared() ||
           api_work_waits(work);
}

api_result api_enqueue(struct api_stream *s, struct api_work *work)
{
    api_result result = work->kind == API_WORK_GRAPH ? append_graph(s, work) : append(s, work);
    api_progress();
    return result;
}

/* ---- waiting ------------------------------------------------------------------------------------------- */
static api_result take_late(struct api_stream *s)
{
    api_result late = s->late;
    s->late = API_OK;
    return late;
}

static const char *name_of_head(const struct api_stream *s, char *text, size_t cap)
{
    static const char *const comparisons[] = {"at least", "equal to", "with a bit of",
                                              "with a bit off besides"};
    const struct api_work   *w = &s->first->work;
    switch (w->kind) {
    case API_WORK_WAIT_VALUE:
        snprintf(text, cap, "waits for the %s at 0x%llx to be %s 0x%llx",
                 w->as.value.wide ? "64 bits" : "32 bits", (unsigned long long)w->as.value.address,
                 comparisons[w->as.value.flags & 3], (unsigned long long)w->as.value.value);
        break;
    case API_WORK_WAIT_EVENT:
        snprintf(text, cap, "waits for an event that another stream%s has not reached", api_event_others(w));
        break;
    case API_WORK_TASK:
        snprintf(text, cap, "waits for other ranks of an NCCL communicator");
        break;
    case API_WORK_KERNEL:
        snprintf(text, cap, "%s the kernel %s", s->running ? "runs" : "waits with",
                 w->as.kernel.launch.entry->name);
        break;
    default:
        snprintf(text, cap, "%s", s->running ? "runs a function of the host" : "waits for another stream");
        break;
    }
    return text;
}

/* A call waits, and nothing begins or ends: say once what all streams are at. */
static void complain(void)
{
    static unsigned long seen;
    static uint64_t      since;
    static bool          said;
    char                 text[160];
    if (atomic_load(&activity) != seen || since == 0) {
        seen = atomic_load(&activity);
        since = now();
        said = false;
    }
    if (said || now() - since < api_settings()->patience * 1000000000ull)
        return;
    said = true;
    for (const struct api_stream *s = next_stream(NULL); s != NULL; s = next_stream(s))
        if (s->first != NULL)
            report_line(api_settings(),
                        "a call waits, and nothing has begun or ended for %llu s: a stream of device %d %s",
                        (unsigned long long)api_settings()->patience, s->handle.context->device->ordinal,
                        name_of_head(s, text, sizeof text));
}

void api_pause(void)
{
    api_progress();
    complain();
    api_wait_moved(WAIT_FOR);
}

api_result api_finish_stream(struct api_stream *s)
{
    const uint64_t id = s->handle.id;
    while (s != NULL && api_stream_busy(s)) {
        api_pause();
        s = (struct api_stream *)api_handle_same(API_KIND_STREAM, s, id);
    }
    API_WANT(s, API_OK);
    return s->handle.context->sticky != API_OK ? s->handle.context->sticky : take_late(s);
}

bool api_context_busy(const struct api_context *context)
{
    const struct api_stream *s = next_stream(NULL);
    while (s != NULL && (s->handle.context != context || s->first == NULL))
        s = next_stream(s);
    return s != NULL;
}

api_result api_finish_context(struct api_context *context)
{
    const uint64_t id = context->handle.id;
    while (context != NULL && api_context_busy(context)) {
        api_pause();
        context = (struct api_context *)api_handle_same(API_KIND_CONTEXT, context, id);
    }
    api_result late = API_OK;
    for (struct api_stream *s = next_stream(NULL); context != NULL && s != NULL; s = next_stream(s))
        if (s->handle.context == context && late == API_OK)
            late = take_late(s);
    return context != NULL && context->sticky != API_OK ? context->sticky : late;
}

/* ---- the end of a context ------------------------------------------------------------------------------ */
/* Drop the items that do not run yet and belong to the context, or to one of its streams.  True: some run. */
static bool drop_items(const struct api_context *context)
{
    bool running = false;
    for (struct api_stream *s = next_stream(NULL); s != NULL; s = next_stream(s)) {
        struct api_item **at = &s->first, *last = NULL;
        while (*at != NULL) {
            struct api_item *item = *at;
            const bool       its = s->handle.context == context || item->work.context == context;
            const bool       runs = item == s->first && s->running;
            if (its && !runs) {
                *at = item->next;
                free_item(item);
                continue;
            }
            running |= its;
            last = item;
            at = &item->next;
        }
        s->last = last;
    }
    return running;
}

void api_abandon(struct api_context *context)
{
    atomic_store(&context->ending, true);
    while (drop_items(context))
        api_wait_moved(WAIT_FOR);
}

/* The code of these threads goes with the library.  A child of fork has none of them. */
__attribute__((destructor)) static void end_threads(void)
{
    enum { TRIES = 2000 };
    if (!api_is_initialised())
        return;
    atomic_store(&ending, true);
    api_lock();
    for (int i = 0; threads && i < TRIES; i++)
        api_wait_moved(WAIT_FOR);
    api_unlock();
}
