/* errors.c - results as text, the last error of each thread, types. */
#include "internal.h"
#include <stdarg.h>
#include <stdio.h>

static _Thread_local char last[NCCL_TEXT];

nccl_result nccl_error(nccl_result result, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(last, sizeof last, format, args);
    va_end(args);
    return result;
}

const char *ncclGetErrorString(nccl_result result)
{
    switch (result) {
#define TEXT(name, value, text) \
    case value:                 \
        return text;
        NCCL_RESULT_MAP(TEXT)
#undef TEXT
    default:
        return "unknown result code";
    }
}

/* Of the communicator, if it has failed, or of the last call of this thread that did. */
const char *ncclGetLastError(struct ncclComm *comm)
{
    if (comm != NULL && nccl_comm_check(comm, "ncclGetLastError") == NCCL_Success &&
        nccl_comm_failure(comm, false) != NCCL_Success)
        return comm->text;
    return last;
}

nccl_result ncclGetVersion(int *version)
{
    if (version == NULL)
        return nccl_error(NCCL_InvalidArgument, "ncclGetVersion: version is NULL");
    *version = NCCL_VERSION;
    return NCCL_Success;
}

size_t nccl_type_bytes(nccl_type type)
{
    static const size_t bytes[] = {
#define BYTES(name, value, size) [value] = size,
        NCCL_TYPE_MAP(BYTES)
#undef BYTES
    };
    return type < NCCL_TYPES ? bytes[type] : 0;
}

const char *nccl_type_name(nccl_type type)
{
    static const char *const names[] = {
#define NAME(name, value, size) [value] = "nccl" #name,
        NCCL_TYPE_MAP(NAME)
#undef NAME
    };
    return type < NCCL_TYPES ? names[type] : "unknown type";
}
