/* work.c - the work of streams and graphs: kernels, copies, fills, host functions. */
#include <stdlib.h>
#include "api.h"
#include "tools/emu/machine/faults.h"
#include "tools/emu/machine/arena.h"
#include "tools/emu/judge/judge.h"
#include "tools/emu/judge/report.h"

/* ---- life ---------------------------------------------------------------------------------------------- */
void api_works_free(struct api_work *works, size_t count)
{
    for (size_t i = 0; i < count; i++)
        api_work_clear(&works[i]);
    free(works);
}

void api_work_clear(struct api_work *work)
{
    if (work->kind == API_WORK_KERNEL)
        free((void *)(uintptr_t)work->as.kernel.launch.parameters);
    if (work->kind == API_WORK_GRAPH)
        api_works_free(work->as.graph.items, work->as.graph.count);
    if (work->kind == API_WORK_TASK)
        api_task_clear(work);
    memset(work, 0, sizeof *work);
    work->kind = API_WORK_EMPTY;
}

static api_result clone_kernel(struct api_work *to, const struct api_work *from)
{
    size_t bytes = from->as.kernel.launch.entry->parameter_bytes;
    void  *parameters = malloc(bytes ? bytes : 1);
    to->as.kernel.launch.parameters = parameters;
    API_WANT(parameters, API_OUT_OF_MEMORY);
    memcpy(parameters, from->as.kernel.launch.parameters, bytes);
    return API_OK;
}

static api_result clone_graph(struct api_work *to, const struct api_work *from)
{
    struct api_work *items = (struct api_work *)calloc(from->as.graph.count + 1, sizeof *items);
    to->as.graph.items = items;
    to->as.graph.count = 0;
    API_WANT(items, API_OUT_OF_MEMORY);
    for (size_t i = 0; i < from->as.graph.count; i++) {
        to->as.graph.count = i + 1;
        API_TRY(api_work_clone(&items[i], &from->as.graph.items[i]));
    }
    return API_OK;
}

api_result api_work_clone(struct api_work *to, const struct api_work *from)
{
    *to = *from;
    api_result result = API_OK;
    if (from->kind == API_WORK_KERNEL) {
        /* A function that was deleted has no parameters to copy. */
        bool live = api_handle_same(API_KIND_FUNCTION, from->as.kernel.function, from->as.kernel.function_id);
        to->as.kernel.launch.parameters = NULL;
        result = live ? clone_kernel(to, from) : API_INVALID_HANDLE;
    } else if (from->kind == API_WORK_GRAPH) {
        result = clone_graph(to, from);
    } else if (from->kind == API_WORK_TASK) {
        api_task_clone(to);
    }
    if (result != API_OK)
        api_work_clear(to);
    return result;
}

/* ---- checks -------------------------------------------------------------------------------------------- */
/* The bytes from the first to the last of one side. */
static bool extent(const struct api_side *side, size_t width, size_t height, size_t depth, uint64_t *bytes)
{
    uint64_t planes = 0, rows = 0;
    return !__builtin_mul_overflow(side->slice, depth - 1, &planes) &&
           !__builtin_mul_overflow(side->pitch, height - 1, &rows) &&
           !__builtin_add_overflow(planes, rows, bytes) && !__builtin_add_overflow(*bytes, width, bytes);
}

static api_result check_side(const struct api_work *w, const struct api_side *side)
{
    uint64_t bytes = 0;
    API_WANT(w->as.copy.width && w->as.copy.height && w->as.copy.depth, API_INVALID_VALUE);
    API_WANT(extent(side, w->as.copy.width, w->as.copy.height, w->as.copy.depth, &bytes), API_INVALID_VALUE);
    return api_memory_of(side->address, bytes) == API_MEMORY_BAD ? API_INVALID_VALUE : API_OK;
}

static api_result check_fill(const struct api_work *w)
{
    const struct api_side side = {w->as.fill.address, w->as.fill.pitch, 0};
    uint64_t              bytes = 0;
    size_t                row = 0;
    API_WANT(w->as.fill.element == 1 || w->as.fill.element == 2 || w->as.fill.element == 4, API_INVALID_VALUE);
    API_WANT(w->as.fill.width && w->as.fill.height, API_INVALID_VALUE);
    API_WANT(!__builtin_mul_overflow(w->as.fill.width, (size_t)w->as.fill.element, &row), API_INVALID_VALUE);
    API_WANT(w->as.fill.height == 1 || w->as.fill.pitch >= row, API_INVALID_VALUE);
    API_WANT(extent(&side, row, w->as.fill.height, 1, &bytes), API_INVALID_VALUE);
    return api_memory_of(side.address, bytes) == API_MEMORY_DEVICE ? API_OK : API_INVALID_VALUE;
}

/* Of the device, or of the host and known to the driver. */
static api_result check_value(const struct api_work *w)
{
    const size_t bytes = w->as.value.wide ? 8 : 4;
    API_WANT(w->as.value.address % bytes == 0, API_INVALID_VALUE);
    return api_memory_of(w->as.value.address, bytes) == API_MEMORY_DEVICE ? API_OK : API_INVALID_VALUE;
}

api_result api_work_check(const struct api_work *w)
{
    switch (w->kind) {
    case API_WORK_KERNEL:
        API_WANT(api_handle_same(API_KIND_FUNCTION, w->as.kernel.function, w->as.kernel.function_id),
                 API_INVALID_HANDLE);
        API_WANT(!faults_now(api_settings()->faults, FAULT_LAUNCH_REFUSED), API_LAUNCH_OUT_OF_RESOURCES);
        return emu_launch_check(api_settings(), &w->as.kernel.launch);
    case API_WORK_COPY:
        API_TRY(check_side(w, &w->as.copy.to));
        return check_side(w, &w->as.copy.from);
    case API_WORK_FILL:
        return check_fill(w);
    case API_WORK_HOST:
        return w->as.host.function != NULL || w->as.host.callback != NULL ? API_OK : API_INVALID_VALUE;
    case API_WORK_WRITE_VALUE:
    case API_WORK_WAIT_VALUE:
        return check_value(w);
    case API_WORK_GRAPH:
    case API_WORK_FREE:
    case API_WORK_TASK:
    case API_WORK_EMPTY:
    case API_WORK_WAIT_EVENT:
    case API_WORK_RECORD_EVENT:
        break;
    }
    return API_OK;
}

/* ---- execution ----------------------------------------------------------------------------------------- */
void api_work_ended(struct api_context *context)
{
    judge_forget(&context->kept);
    context->works_ended++;
}

/* A kernel may overlap with the one before it in its stream, if nothing else was done in between: work in another
 * stream counts as such. */
static unsigned int run_judged(const struct api_work *w, const struct api_stream *stream,
                               emu_may_change *may_change, void *data)
{
    struct api_context *context = w->context;
    struct emu_launch   launch = w->as.kernel.launch;
    if (context->kept_stream != stream->handle.id)
        api_work_ended(context);
    context->kept_stream = stream->handle.id;
    struct judge_grid *kept = context->kept;
    const uint64_t     works_ended = context->works_ended;
    context->kept = NULL;
    launch.kept = api_settings()->sm >= 90 ? &kept : NULL;
    launch.unreachable = ~(api_device_bit(context->device) | context->peers);
    launch.may_change = may_change;
    launch.may_change_data = data;
    if (may_change != NULL)
        api_unlock();
    unsigned int result = emu_launch_run(api_settings(), &launch);
    if (may_change != NULL)
        api_lock();
    if (result || works_ended != context->works_ended)
        judge_forget(&kept);
    context->kept = kept;
    return result;
}

/* The result of a kernel: an error stays in its context until the context is destroyed, or is that of the launch
 * alone if PTXPACK_EMU_ERRORS says so. */
static api_result run_kernel(const struct api_work *w, const struct api_stream *stream,
                             emu_may_change *may_change, void *data)
{
    struct api_context *context = w->context;
    const char         *faults = api_settings()->faults;
    if (faults_now(faults, FAULT_DEVICE_LOST)) {
        context->device->lost = true;
        context->sticky = API_UNKNOWN;
    } else if (faults_now(faults, FAULT_LAUNCH_FAILURE)) {
        context->sticky = API_LAUNCH_FAILED;
    } else {
        api_result result = run_judged(w, stream, may_change, data);
        if (result == API_OUT_OF_MEMORY) { /* the context is unchanged */
            const struct emu_launch *l = &w->as.kernel.launch;
            report_line(api_settings(), "%s: no host memory for blocks of %u x %u x %u threads", l->entry->name,
                        l->block[0], l->block[1], l->block[2]);
            return result;
        }
        if (api_settings()->errors_of_launches)
            return result;
        context->sticky = result;
    }
    return API_OK;
}

api_result api_work_run_kernel(const struct api_work *w, const struct api_stream *stream,
                               emu_may_change *may_change, void *data)
{
    return run_kernel(w, stream, may_change, data);
}

static void copy_row(uint64_t to, uint64_t from, size_t bytes)
{
    bool on_device = api_memory_of(to, bytes) == API_MEMORY_DEVICE;
    memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
    if (on_device && api_memory_of(from, bytes) == API_MEMORY_DEVICE)
        emu_arena_copy_defined(to, from, bytes);
    else if (on_device)
        emu_arena_define(to, bytes, true);
}

static api_result run_copy(const struct api_work *w)
{
    const struct api_side *to = &w->as.copy.to, *from = &w->as.copy.from;
    for (size_t z = 0; z < w->as.copy.depth; z++)
        for (size_t y = 0; y < w->as.copy.height; y++)
            copy_row(to->address + z * to->slice + y * to->pitch,
                     from->address + z * from->slice + y * from->pitch, w->as.copy.width);
    return API_OK;
}

static void fill_row(void *row, unsigned int value, unsigned int element, size_t width)
{
    if (element == 1)
        memset(row, (int)(value & 0xff), width);
    else if (element == 2)
        for (size_t i = 0; i < width; i++)
            ((uint16_t *)row)[i] = (uint16_t)value;
    else
        for (size_t i = 0; i < width; i++)
            ((uint32_t *)row)[i] = value;
}

static api_result run_fill(const struct api_work *w)
{
    size_t row = w->as.fill.width * w->as.fill.element;
    for (size_t y = 0; y < w->as.fill.height; y++) {
        uint64_t at = w->as.fill.address + y * w->as.fill.pitch;
        fill_row((void *)(uintptr_t)at, w->as.fill.value, w->as.fill.element, w->as.fill.width);
        emu_arena_define(at, row, true);
    }
    return API_OK;
}

void api_work_call(const struct api_work *w, api_result sticky)
{
    struct api_thread *t = api_thread();
    t->in_callback = true;
    if (w->as.host.callback != NULL)
        w->as.host.callback(w->as.host.stream, sticky, w->as.host.data);
    else
        w->as.host.function(w->as.host.data);
    t->in_callback = false;
}

/* Later items are skipped after one has broken the context. */
static api_result run_graph(const struct api_work *w, const struct api_stream *stream)
{
    api_work_ended(w->context);
    for (size_t i = 0; i < w->as.graph.count && w->context->sticky == API_OK; i++) {
        API_TRY(api_work_check(&w->as.graph.items[i]));
        API_TRY(api_work_run(&w->as.graph.items[i], stream));
    }
    api_work_ended(w->context);
    return API_OK;
}

api_result api_work_run(const struct api_work *w, const struct api_stream *stream)
{
    if (w->kind != API_WORK_KERNEL)
        api_work_ended(w->context);
    switch (w->kind) {
    case API_WORK_KERNEL:
        return run_kernel(w, stream, NULL, NULL);
    case API_WORK_COPY:
        return run_copy(w);
    case API_WORK_FILL:
        return run_fill(w);
    case API_WORK_HOST:
        api_work_call(w, w->context->sticky);
        break;
    case API_WORK_GRAPH:
        return run_graph(w, stream);
    case API_WORK_EMPTY:
    case API_WORK_WAIT_VALUE:
    case API_WORK_TASK:
        break; /* it was ready, or has ended */
    case API_WORK_WAIT_EVENT:
        return api_event_result(w);
    case API_WORK_RECORD_EVENT:
        return api_event_reach(w, false);
    case API_WORK_WRITE_VALUE:
        api_value_write(w);
        break;
    case API_WORK_FREE:
        return api_memory_free(w->context, w->as.value.address);
    }
    return API_OK;
}

bool api_work_waits(const struct api_work *w)
{
    bool waits = w->kind == API_WORK_WAIT_VALUE || w->kind == API_WORK_TASK ||
                 (w->kind == API_WORK_WAIT_EVENT && api_event_due(w));
    for (size_t i = 0; w->kind == API_WORK_GRAPH && !waits && i < w->as.graph.count; i++)
        waits = api_work_waits(&w->as.graph.items[i]);
    return waits;
}

bool api_work_ready(const struct api_work *w)
{
    switch (w->kind) {
    case API_WORK_KERNEL:
        return !w->context->running;
    case API_WORK_WAIT_VALUE:
        return api_value_reached(w);
    case API_WORK_WAIT_EVENT:
        return !api_event_due(w);
    default:
        return true;
    }
}

api_result api_do_or_queue(struct api_stream *stream, struct api_work *work)
{
    return api_must_queue(work) ? api_enqueue(stream, work) : api_work_run(work, stream);
}

static api_result submit(struct api_stream *stream, struct api_work *work)
{
    API_TRY(api_work_check(work));
    if (stream->capture != NULL)
        return api_capture_add(stream, work);
    if (stream->legacy)
        API_TRY(api_capture_forbids_legacy(stream->handle.context));
    return api_do_or_queue(stream, work);
}

api_result api_submit(struct api_stream *stream, struct api_work *work)
{
    api_result result = submit(stream, work);
    if (result != API_OK && stream->capture != NULL)
        stream->capture->invalid = true;
    api_work_clear(work);
    return result;
}
