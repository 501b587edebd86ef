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

/* The number in front of `unit`, as in "24 bytes stack frame"; -1 when the line has no such thing. */
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
 * 'NAME' for ...", "Function properties for NAME"); *about: that entry is ours. */
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

/* "ptxas info    : (C7510) Potential..." or "ptxas ... warning : ...", as "(C7510) Potential..." */
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
    snprintf(out->remarks + have, sizeof out->remarks - have, "%s%s", have ? "\n" : "", remark);
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

/* ---- errors --------------------------------------------------------------------------------------- */

/* "ptxas application ptx input, line 8; error   : Unknown symbol" -> line 8, "Unknown symbol". */
static const char *error_in(const char *line, size_t *number)
{
    const char *kind = strstr(line, "error "), *where = strstr(line, ", line ");
    if (kind == NULL)
        kind = strstr(line, "fatal ");
    const char *colon = kind != NULL ? strchr(kind, ':') : NULL;
    if (colon == NULL)
        return NULL;
    *number = where != NULL && where < kind ? (size_t)strtoul(where + strlen(", line "), NULL, 10) : 0;
    colon++;
    return colon + strspn(colon, " ");
}

/* The text after "FILE(LINE): "; NULL when the line does not begin like that.  *bytes is the length of
 * FILE. */
static const char *after_place(const char *line, size_t *bytes, unsigned long *number)
{
    for (const char *open = line; (open = strchr(open, '(')) != NULL; open++) {
        char *after = NULL;
        *number = strtoul(open + 1, &after, 10);
        *bytes = (size_t)(open - line);
        if (*number && strncmp(after, "): ", 3) == 0)
            return after + 3;
    }
    return NULL;
}

/* Turns "k.cu(12): error: what" into "k.cu:12: error: what"; "nvrtc: error: what" stays. */
static bool cuda_error_in(const char *line, char *buf, size_t cap)
{
    static const char *const kinds[] = {"error", "catastrophic error", "internal error"};
    unsigned long            number = 0;
    size_t                   bytes = 0;
    const char              *what = after_place(line, &bytes, &number);
    if (strncmp(line, "nvrtc: error", strlen("nvrtc: error")) == 0)
        return snprintf(buf, cap, "%s", line) > 0;
    for (size_t i = 0; what != NULL && i < sizeof kinds / sizeof kinds[0]; i++)
        if (strncmp(what, kinds[i], strlen(kinds[i])) == 0)
            return snprintf(buf, cap, "%.*s:%lu: %s", (int)bytes, line, number, what) > 0;
    return false;
}

bool ptxpack_log_cuda_errors(const char *log, char *buf, size_t cap)
{
    char line[LINE], other[LINE];
    int  count = 0;
    for (const char *at = log; (at = next_line(at, line));)
        count += cuda_error_in(line, count ? other : buf, count ? sizeof other : cap);
    size_t have = count ? strlen(buf) : 0;
    if (count > 1)
        snprintf(buf + have, cap - have, " (and %d more)", count - 1);
    return count > 0;
}

const char *ptxpack_log_expanded_from(const void *expansion, size_t line, char *buf, size_t cap)
{
    return ptxpack_expansion_where((const ptxpack_expansion *)expansion, line, buf, cap);
}

void ptxpack_log_errors(const char *log, const ptxpack_expansion *expansion, char *buf, size_t cap)
{
    ptxpack_log_errors_of(log, expansion != NULL ? ptxpack_log_expanded_from : NULL, expansion, buf, cap);
}

void ptxpack_log_errors_of(const char *log, ptxpack_line_origin origin, const void *context, char *buf,
                           size_t cap)
{
    char   line[LINE], where[512];
    size_t number = 0;
    int    count = 0;
    snprintf(buf, cap, "no message");
    for (const char *at = log; (at = next_line(at, line));) {
        const char *what = error_in(line, &number);
        if (what == NULL || strstr(what, "aborted due to errors") != NULL)
            continue;
        if (count++)
            continue;
        const char *file = number && origin != NULL ? origin(context, number, where, sizeof where) : "";
        if (*file)
            snprintf(buf, cap, "%s: %s", file, what);
        else if (number)
            snprintf(buf, cap, "line %zu of the PTX: %s", number, what);
        else
            snprintf(buf, cap, "%s", what);
    }
    size_t have = strlen(buf);
    if (count > 1)
        snprintf(buf + have, cap - have, " (and %d more)", count - 1);
    else if (count == 0 && *log && next_line(log, line) != NULL)
        snprintf(buf, cap, "%s", line);
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
