/* log.c - reading the logs of ptxas, nvPTXCompiler and the driver's JIT. */
#include "log.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 600 };

/* Copy the line at `at` to `line` and return the start of the next; NULL at the end of the text. */
static const char *next_line(const char *at, char line[LINE])
{
    if (!*at)
        return NULL;
    size_t bytes = strcspn(at, "\n");
    snprintf(line, LINE, "%.*s", bytes < LINE ? (int)bytes : LINE - 1, at);
    return at[bytes] ? at + bytes + 1 : at + bytes;
}

/* The number in front of `unit`, as in "24 bytes stack frame"; -1 if the line has none. */
static int number_before(const char *line, const char *unit)
{
    const char *at = strstr(line, unit);
    if (at == NULL)
        return -1;
    while (at > line && isdigit((unsigned char)at[-1]))
        at--;
    return isdigit((unsigned char)*at) ? (int)strtol(at, NULL, 10) : -1;
}

static void set_if_said(int *value, int said)
{
    if (said >= 0)
        *value = said;
}

/* Whether a line is one of the two kinds that name the entry of the lines after it ("... entry function
 * 'NAME' for ...", "Function properties for NAME").  *about becomes true if that entry is ours. */
static bool names_entry(const char *line, const char *entry, bool *about)
{
    const char *at = strstr(line, "entry function '");
    size_t      bytes = strlen(entry);
    if (at != NULL)
        at += strlen("entry function '");
    else if ((at = strstr(line, "Function properties for ")) != NULL)
        at += strlen("Function properties for ");
    if (at == NULL)
        return false;
    *about = strncmp(at, entry, bytes) == 0 && (at[bytes] == '\'' || at[bytes] == '\0');
    return true;
}

/* Turn "ptxas info    : (C7510) Potential..." or "ptxas ... warning : ..." into "(C7510) Potential..." */
static const char *remark_in(const char *line)
{
    const char *code = strstr(line, "(C");
    if (code != NULL && isdigit((unsigned char)code[2]))
        return code;
    return strstr(line, "warning") != NULL ? line : NULL;
}

static void add_remark(ptxpack_resources *out, const char *remark)
{
    size_t have = strlen(out->remarks);
    if (have + strlen(remark) + 2 > sizeof out->remarks || strstr(out->remarks, remark) != NULL)
        return;
    if (have > 0)
        out->remarks[have++] = '\n';
    memcpy(out->remarks + have, remark, strlen(remark) + 1);
}

void ptxpack_log_resources(const char *log, const char *entry, ptxpack_resources *out)
{
    char line[LINE];
    bool about = true; /* the lines that follow are about our entry */
    memset(out, 0, sizeof *out);
    for (const char *at = log; (at = next_line(at, line));) {
        const char *remark = remark_in(line);
        if (remark != NULL)
            add_remark(out, remark);
        if (names_entry(line, entry, &about) || !about)
            continue;
        set_if_said(&out->stack_bytes, number_before(line, " bytes stack frame"));
        set_if_said(&out->spill_store_bytes, number_before(line, " bytes spill stores"));
        set_if_said(&out->spill_load_bytes, number_before(line, " bytes spill loads"));
        set_if_said(&out->registers, number_before(line, " registers"));
        set_if_said(&out->shared_bytes, number_before(line, " bytes smem"));
    }
}

bool ptxpack_log_knows(const char *log, const char *entry)
{
    char line[LINE];
    bool about = false;
    for (const char *at = log; !about && (at = next_line(at, line)) != NULL;)
        names_entry(line, entry, &about);
    return about;
}

int ptxpack_log_isa(const char *log)
{
    static const char says[] = "current version is '";
    const char       *at = strstr(log, says);
    int               major = 0, minor = 0;
    if (at == NULL || sscanf(at + sizeof says - 1, "%2d.%1d", &major, &minor) != 2 || major < 1 || minor < 0)
        return 0;
    return 10 * major + minor;
}

/* ---- resources as text ---------------------------------------------------------------------------- */

#define FORMAT \
    "ptxpack resources 1\nregisters %d\nshared %d\nstack %d\nspill stores %d\nspill loads %d\nremarks %d\n"

bool ptxpack_resources_write(const ptxpack_resources *r, char **text, size_t *bytes)
{
    int n = asprintf(text, FORMAT "%s", r->registers, r->shared_bytes, r->stack_bytes, r->spill_store_bytes,
                     r->spill_load_bytes, (int)strlen(r->remarks), r->remarks);
    *bytes = n < 0 ? 0 : (size_t)n;
    if (n < 0)
        *text = NULL; /* asprintf leaves it undefined */
    return n >= 0;
}

bool ptxpack_resources_read(const char *text, size_t bytes, ptxpack_resources *out)
{
    int remarks = -1;
    memset(out, 0, sizeof *out);
    if (bytes >= 2 * LINE || memchr(text, '\0', bytes) != NULL)
        return false;
    char copy[2 * LINE];
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    if (sscanf(copy, FORMAT, &out->registers, &out->shared_bytes, &out->stack_bytes, &out->spill_store_bytes,
               &out->spill_load_bytes, &remarks) != 6)
        return false;
    if (remarks < 0 || (size_t)remarks >= sizeof out->remarks || (size_t)remarks > bytes)
        return false;
    memcpy(out->remarks, copy + bytes - remarks, (size_t)remarks + 1);
    /* Writing what was read must give the same text: no other spelling is accepted. */
    char  *again = NULL;
    size_t again_bytes = 0;
    bool   same = ptxpack_resources_write(out, &again, &again_bytes) && again_bytes == bytes &&
                memcmp(again, text, bytes) == 0;
    free(again);
    return same;
}
