/* task.c - operations of other libraries in streams, and their access to memory. */
#include "api.h"
#include "task.h"
#include "tools/emu/machine/arena.h"
#include "tools/emu/machine/bits.h"

api_result api_task_begin(struct api_work *work)
{
    work->as.task.run = work->as.task.hooks->begin(work->as.task.operation);
    return work->as.task.run != NULL ? API_OK : API_OUT_OF_MEMORY;
}

bool api_task_step(struct api_work *work, bool *moved)
{
    const enum ptxpack_emu_progress progress = work->as.task.hooks->step(work->as.task.run);
    *moved = progress != TASK_WAITS;
    if (progress == TASK_DONE)
        work->as.task.run = NULL;
    return progress == TASK_DONE;
}

void api_task_clear(struct api_work *work)
{
    if (work->as.task.run != NULL)
        work->as.task.hooks->drop(work->as.task.run);
    work->as.task.hooks->release(work->as.task.operation);
}

void api_task_clone(struct api_work *work)
{
    work->as.task.run = NULL;
    work->as.task.hooks->keep(work->as.task.operation);
}

unsigned int ptxpack_emu_stream_task(void *handle, const struct ptxpack_emu_task *task, void *operation)
{
    API_ENTER(API_CONTEXT);
    struct api_stream *stream = NULL;
    struct api_work    work = {.kind = API_WORK_TASK, .context = call.context};
    API_WANT(task && operation, API_INVALID_VALUE);
    API_TRY(api_stream_get(call.context, (struct CUstream_st *)handle, &stream));
    work.as.task.hooks = task;
    work.as.task.operation = operation;
    task->keep(operation);
    return api_submit(stream, &work);
}

bool ptxpack_emu_memory_read(void *to, unsigned char *defined, uint64_t from, uint64_t bytes)
{
    if (!emu_arena_holds(from, bytes))
        return false;
    memcpy(to, (const void *)(uintptr_t)from, bytes);
    bits_copy(defined, 0, emu_arena.defined, from - emu_arena.base, bytes, false);
    return true;
}

bool ptxpack_emu_memory_write(uint64_t to, const void *from, const unsigned char *defined, uint64_t bytes)
{
    if (!emu_arena_holds(to, bytes))
        return false;
    memcpy((void *)(uintptr_t)to, from, bytes);
    bits_copy(emu_arena.defined, to - emu_arena.base, defined, 0, bytes, true);
    return true;
}
