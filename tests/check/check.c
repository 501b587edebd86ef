/* check.c - what the files of the checker share: names, counts, memory. */
#include "check.h"

#include <stdio.h>
#include <string.h>

enum { SHOWN_FAILURES = 50 };

bool check_wanted(const check *c, const char *name)
{
    return c->filter == NULL || strstr(name, c->filter) != NULL;
}

void check_record(check *c, const char *name, const char *what)
{
    if (what == NULL) {
        atomic_fetch_add(&c->passed, 1);
        return;
    }
    int before = atomic_fetch_add(&c->failed, 1);
    if (!c->quiet && before < SHOWN_FAILURES)
        printf("FAIL %s: %s (seed %llu)\n", name, what, (unsigned long long)c->seed);
    if (!c->quiet && before == SHOWN_FAILURES)
        puts("FAIL: more, which are only counted");
}

void check_broken(check *c, const char *name, const char *line)
{
    if (!atomic_exchange(&c->broken, true)) /* the others would only repeat it */
        check_record(c, name, line);
}

bool check_reserve(check *c, check_buffer *buffer, size_t bytes)
{
    if (buffer->bytes >= bytes)
        return true;
    device_free(&c->gpu, buffer->address);
    *buffer = (check_buffer){0, 0};
    if (!device_alloc(&c->gpu, &buffer->address, bytes + bytes / 2))
        return false;
    buffer->bytes = bytes + bytes / 2;
    return true;
}
