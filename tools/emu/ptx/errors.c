/* errors.c - the errors of a text as a list of lines. */
#include <stdio.h>
#include <string.h>
#include "ptx.h"

static bool is_last(const struct ptx_errors *e, const char *line)
{
    const char *last = e->kept > 0 ? strrchr(e->text, '\n') : NULL;
    return e->kept > 0 && strcmp(last != NULL ? last + 1 : e->text, line) == 0;
}

void ptx_errors_add(struct ptx_errors *e, const char *line)
{
    const size_t bytes = strlen(line), between = e->kept > 0;
    if (e->kept < e->most && is_last(e, line))
        return;
    e->count++;
    if (e->kept > 0 && e->bytes + between + bytes >= e->cap)
        e->most = e->kept; /* no gaps */
    if (e->kept == e->most)
        return;
    if (e->cap > 0) /* the first line may be cut off */
        snprintf(e->text + e->bytes, e->cap - e->bytes, "%s%s", between ? "\n" : "", line);
    e->bytes += between + bytes;
    e->kept += e->cap > 0;
}
