/* detail.c - the line about the last failure, kept per handle and thread, and the check for forks. */
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "internal.h"

/* Each thread remembers the failures of the few handles that failed last; slot 0 is the newest. */
enum { SLOTS = 4 };
struct detail {
    uint64_t id; /* of the handle; 0: no handle */
    char     line[PTXPACK_DETAIL_BYTES];
};
static _Thread_local struct detail details[SLOTS];

uint64_t ptxpack_new_id(void)
{
    static atomic_uint_least64_t last;
    return atomic_fetch_add(&last, 1) + 1;
}

const char *ptxpack_detail(const ptxpack *handle)
{
    uint64_t id = handle != NULL ? handle->id : 0;
    for (int i = 0; i < SLOTS; i++)
        if (details[i].id == id && details[i].line[0])
            return details[i].line;
    return "";
}

/* Slot 0 for `id`.  The line that was there moves down, and the oldest is forgotten. */
static char *newest_slot(uint64_t id)
{
    int slot = 0;
    while (slot < SLOTS - 1 && details[slot].id != id && details[slot].line[0])
        slot++;
    memmove(&details[1], &details[0], (size_t)slot * sizeof details[0]);
    details[0].id = id;
    return details[0].line;
}

ptxpack_status ptxpack_fail(const ptxpack *handle, ptxpack_status status, const char *format, ...)
{
    char    line[PTXPACK_DETAIL_BYTES]; /* the arguments may point into the slots */
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    size_t bytes = strlen(line);
    while (bytes && line[bytes - 1] == '\n')
        line[--bytes] = '\0';
    for (char *at = line; (at = strchr(at, '\n')); at++)
        *at = ' ';
    memcpy(newest_slot(handle != NULL ? handle->id : 0), line, bytes + 1);
    return status;
}

ptxpack_status ptxpack_fail_driver(const ptxpack *handle, ptxpack_cu_result result, const char *what)
{
    char text[512];
    return ptxpack_fail(handle, ptxpack_driver_status(result), "%s: %s", what,
                        ptxpack_driver_error(handle->driver, result, text, sizeof text));
}

ptxpack_status ptxpack_check_process(const ptxpack *handle)
{
    pid_t now = getpid();
    if (handle->pid == now)
        return PTXPACK_OK;
    return ptxpack_fail(handle, PTXPACK_E_FORKED, "the handle was opened in process %ld, this is its child %ld",
                        (long)handle->pid, (long)now);
}
