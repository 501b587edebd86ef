/* task.h - what libptxpack-emu.so exports for the emulated NCCL: operations that libraries put into streams, and access
 * to device memory from them.
 *
 *   static const struct ptxpack_emu_task task = {begin, step, drop, keep, release};
 *   ptxpack_emu_stream_task(stream, &task, operation);      // or recorded, if the stream is captured
 *
 * An operation is data of the library, which the driver counts by keep and release: once for the call, and once for
 * each copy in a graph.  Each time that it is enqueued, also by the launch of a graph, begin makes a run of it, in the
 * order of the calls.  When everything before it in the stream has ended, step is called until it says TASK_DONE; a run
 * that never gets so far is dropped.  All of them are called with the driver's lock held, must not wait, and must not
 * call the driver, but for the two functions on memory. */
#ifndef PTXPACK_EMU_TASK_H
#define PTXPACK_EMU_TASK_H
#include <stdbool.h>
#include <stdint.h>

enum ptxpack_emu_progress { TASK_WAITS, TASK_MOVED, TASK_DONE };

struct ptxpack_emu_task {
    void *(*begin)(void *operation);              /* NULL: no memory, and the enqueueing call fails */
    enum ptxpack_emu_progress (*step)(void *run); /* TASK_DONE: the run has been freed */
    void (*drop)(void *run);
    void (*keep)(void *operation);
    void (*release)(void *operation);
};

#define PTXPACK_EMU_TASK_API __attribute__((visibility("default")))
/* A CUresult. */
PTXPACK_EMU_TASK_API unsigned int ptxpack_emu_stream_task(void *stream, const struct ptxpack_emu_task *task,
                                                          void *operation);
/* Bytes of memory that the driver knows, with a bit for each that says whether it is defined, from bit 0 of `defined`
 * on.  False: the range is not within one allocation. */
PTXPACK_EMU_TASK_API bool ptxpack_emu_memory_read(void *to, unsigned char *defined, uint64_t from,
                                                  uint64_t bytes);
PTXPACK_EMU_TASK_API bool ptxpack_emu_memory_write(uint64_t to, const void *from, const unsigned char *defined,
                                                   uint64_t bytes);
#endif
