/* memop.c - memory operations of streams: waiting until a word in memory has a value, and writing one. */
#include "api.h"
#include "tools/emu/machine/arena.h"

enum { GEQ, EQ, AND, NOR, COMPARISON = 3, FLUSH = 1 << 30 }; /* CUstreamWaitValue_flags */

bool api_value_reached(const struct api_work *w)
{
    const uint64_t want = w->as.value.value;
    if (api_memory_of(w->as.value.address, w->as.value.wide ? 8 : 4) != API_MEMORY_DEVICE)
        return true; /* it was freed meanwhile; a GPU would fault or go on */
    const void    *at = (const void *)(uintptr_t)w->as.value.address;
    const uint64_t is = w->as.value.wide ? __atomic_load_n((const uint64_t *)at, __ATOMIC_ACQUIRE)
                                         : __atomic_load_n((const uint32_t *)at, __ATOMIC_ACQUIRE);
    const uint64_t ones = w->as.value.wide ? UINT64_MAX : UINT32_MAX;
    switch (w->as.value.flags & COMPARISON) {
    case GEQ: /* as numbers that wrap */
        return !((is - want) & (ones ^ ones >> 1));
    case EQ:
        return is == want;
    case AND:
        return (is & want) != 0;
    default:
        return (~(is | want) & ones) != 0;
    }
}

void api_value_write(const struct api_work *w)
{
    void *at = (void *)(uintptr_t)w->as.value.address;
    if (w->as.value.wide)
        __atomic_store_n((uint64_t *)at, w->as.value.value, __ATOMIC_RELEASE);
    else
        __atomic_store_n((uint32_t *)at, (uint32_t)w->as.value.value, __ATOMIC_RELEASE);
    emu_arena_define(w->as.value.address, w->as.value.wide ? 8 : 4, true);
}

static api_result operate(struct api_context *context, struct CUstream_st *handle, struct api_work *work)
{
    struct api_stream *stream = NULL;
    API_TRY(api_stream_get(context, handle, &stream));
    work->context = context;
    return api_submit(stream, work);
}

static api_result wait_value(struct api_context *context, struct CUstream_st *stream, uint64_t address,
                             uint64_t value, unsigned int flags, bool wide)
{
    enum { CAN_FLUSH = 0 }; /* CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES */
    struct api_work work = {.kind = API_WORK_WAIT_VALUE, .as.value = {address, value, flags, wide}};
    API_WANT(!(flags & FLUSH) || CAN_FLUSH, API_NOT_SUPPORTED);
    API_WANT(flags <= COMPARISON, API_INVALID_VALUE);
    return operate(context, stream, &work);
}

static api_result write_value(struct api_context *context, struct CUstream_st *stream, uint64_t address,
                              uint64_t value, unsigned int flags, bool wide)
{
    enum { NO_MEMORY_BARRIER = 1 };
    struct api_work work = {.kind = API_WORK_WRITE_VALUE, .as.value = {address, value, flags, wide}};
    API_WANT(flags <= NO_MEMORY_BARRIER, API_INVALID_VALUE);
    return operate(context, stream, &work);
}

/* The two versions of a call differ only in what older drivers needed for them. */
#define VALUE(name, bits, function)                                                                            \
    api_result name(struct CUstream_st *stream, api_address address, uint##bits##_t value, unsigned int flags) \
    {                                                                                                          \
        API_CALL(API_CONTEXT, function(call.context, stream, address, value, flags, (bits) == 64));            \
    }
VALUE(cuStreamWaitValue32, 32, wait_value)
VALUE(cuStreamWaitValue32_v2, 32, wait_value)
VALUE(cuStreamWaitValue64, 64, wait_value)
VALUE(cuStreamWaitValue64_v2, 64, wait_value)
VALUE(cuStreamWriteValue32, 32, write_value)
VALUE(cuStreamWriteValue32_v2, 32, write_value)
VALUE(cuStreamWriteValue64, 64, write_value)
VALUE(cuStreamWriteValue64_v2, 64, write_value)
