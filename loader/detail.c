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

/* One line that a terminal takes as text: newlines and tabs become blanks, other control characters (of ASCII,
 * and U+0080 to U+009F in UTF-8), which names of files and kernels may have, \x1b. */
static void make_line(const char *text, char line[PTXPACK_DETAIL_BYTES])
{
    size_t room = PTXPACK_DETAIL_BYTES - sizeof "\\x00", used = 0;
    for (const unsigned char *p = (const unsigned char *)text; *p != '\0' && used < room; p++) {
        bool second = p > (const unsigned char *)text && p[-1] == 0xc2 && *p >= 0x80 && *p < 0xa0;
        bool first = *p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0;
        if (*p == '\n' || *p == '\t')
            line[used++] = ' ';
        else if (*p < 0x20 || *p == 0x7f || first || second)
            used += (size_t)snprintf(line + used, sizeof "\\x00", "\\x%02x", *p);
        else
            line[used++] = (char)*p;
    }
    line[used] = '\0';
}

ptxpack_status ptxpack_fail(const ptxpack *handle, ptxpack_status status, const char *format, ...)
{
    char    text[PTXPACK_DETAIL_BYTES], line[PTXPACK_DETAIL_BYTES]; /* the arguments may point into the slots */
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format != NULL ? format : "ptxpack_fail: format is NULL", arguments);
    va_end(arguments);
    size_t bytes = strlen(text);
    while (bytes && text[bytes - 1] == '\n')
        text[--bytes] = '\0';
    make_line(text, line);
    memcpy(newest_slot(handle != NULL ? handle->id : 0), line, strlen(line) + 1);
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
    return ptxpack_fail(handle, PTXPACK_E_FORKED,
                        "the handle was opened in process %ld, and this is its child %ld", (long)handle->pid,
                        (long)now);
}
