/* body.c - the PTX of a kernel that calls a hook becomes the macro of the hook.
 *
 *   ld.param.u32 %r1, [ptxpack_hook_param_3];   ->   mov.b32 %my_r1, \q;         an argument of the macro
 *   ld.param.u64 %rd1, [ptxpack_hook_param_5];  ->   AUX %my_rd1, 0              an address that a launch brings
 *   st.global.f32 [%rd6], %f8;                  ->   mov.f32 \s, %my_f8;         the result
 *   @%p1 bra $L__BB0_2;                         ->   %my_on is taken away where %my_p1 is true, up to the label
 *
 * After a branch forward instructions that must not run on the other path, loads and those whose register another one
 * sets, too, are guarded by %my_on; the rest computes what nobody reads.  A hook has no branch backward, no call, and no
 * local memory: these are refused with the line of the caller's text, which .loc says. */
#include "body.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AUX_COUNT = 8, LABELS = 32, NAME = 32 };

static const struct shape {
    const char *macro, *arguments[5], *result;
    int         count; /* of arguments */
} shapes[HOOK_COUNT] = {
    {".macro SCORE_MOD s, r, b, h, q, kv, c, cf", {"\\s", "\\b", "\\h", "\\q", "\\kv"}, "mov.f32 \\s,", 5},
    {".macro MASK_MOD keep, r, b, h, q, kv, c, cf", {"\\b", "\\h", "\\q", "\\kv"}, "mov.b32 %my_result,", 4},
};

typedef struct reader {
    int         hook;
    const char *from, *end; /* the body */
    int         file;       /* the number of the caller's text in .loc */
    int         line;       /* of it, of what is being read */
    FILE       *out;        /* the macro; each of its lines has one of these numbers */
    int        *lines;
    size_t      count, room;
    char        label[LABELS][NAME]; /* where branches lead to */
    bool        passed[LABELS];
    int         labels, ahead; /* ahead: of them, those that have not been passed */
    char        result[NAME];  /* the register with the address of the result */
    bool        local;         /* there is local memory; what uses it names the line */
    char       *refusal;
    bool        no_memory;
} reader;

static ptxpack_status refuse(const reader *r, const char *what)
{
    return plan_refuse(r->refusal, PTXPACK_E_ARG, "%s:%d: %s", attention_hook_names[r->hook], r->line, what);
}

/* ---- writing -------------------------------------------------------------------------------------------- */
static void put_line(reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put_line(reader *r, const char *format, ...)
{
    va_list arguments;
    if (r->count == r->room) {
        const size_t room = r->room != 0 ? 2 * r->room : 64;
        int         *more = (int *)realloc(r->lines, room * sizeof *more);
        r->no_memory = r->no_memory || more == NULL;
        if (more == NULL)
            return;
        r->lines = more;
        r->room = room;
    }
    r->lines[r->count++] = r->line;
    va_start(arguments, format);
    vfprintf(r->out, format, arguments);
    va_end(arguments);
    fputc('\n', r->out);
}

/* Copies operands, with registers of the hook's own; false if one is special: it has no number. */
static bool own(const char *from, size_t size, char *to, size_t cap)
{
    size_t n = 0;
    for (size_t i = 0; i < size && n + 5 < cap; i++) {
        to[n++] = from[i];
        if (from[i] != '%')
            continue;
        const size_t digits = i + 1 + strspn(from + i + 1, "abcdefghijklmnopqrstuvwxyz");
        if (digits >= size || strchr("0123456789<", from[digits]) == NULL)
            return false;
        memcpy(to + n, "my_", 3);
        n += 3;
    }
    to[n] = '\0';
    return true;
}

/* ---- branches ------------------------------------------------------------------------------------------- */
static int find_label(const reader *r, const char *name, size_t size)
{
    for (int i = 0; i < r->labels; i++)
        if (strlen(r->label[i]) == size && memcmp(r->label[i], name, size) == 0)
            return i;
    return -1;
}

static int add_label(reader *r, const char *name, size_t size)
{
    if (r->labels == LABELS || size >= NAME)
        return -1;
    memcpy(r->label[r->labels], name, size);
    r->label[r->labels][size] = '\0';
    return r->labels++;
}

/* A branch to `name`, of threads where `guard` ("%p1", "!%p1", or "": all) holds. */
static ptxpack_status read_branch(reader *r, const char *guard, const char *name, size_t size)
{
    const bool negated = guard[0] == '!', always = guard[0] == '\0';
    int        label = find_label(r, name, size);
    if (label >= 0 && r->passed[label])
        return refuse(r, "a hook has no loop that the compiler does not unroll");
    if (r->ahead == 0)
        put_line(r, "mov.pred %%my_on, -1;");
    const bool first = label < 0;
    if (first && (label = add_label(r, name, size)) < 0)
        return refuse(r, "a hook has not so many branches");
    r->ahead += first;
    if (always) {
        put_line(r, "mov.pred %%my_by, %%my_on;");
        put_line(r, "mov.pred %%my_on, 0;");
    } else {
        put_line(r, "not.pred %%my_not, %%my_%s;", guard + 1 + negated);
        put_line(r, "and.pred %%my_by, %%my_on, %s%s;", negated ? "%my_not" : "%my_", negated ? "" : guard + 1);
        put_line(r, "and.pred %%my_on, %%my_on, %s%s;", negated ? "%my_" : "%my_not", negated ? guard + 2 : "");
    }
    if (first)
        put_line(r, "mov.pred %%my_to%d, %%my_by;", label);
    else
        put_line(r, "or.pred %%my_to%d, %%my_to%d, %%my_by;", label, label);
    return PTXPACK_OK;
}

/* A label: that of a branch before it, or one that a later branch leads back to. */
static ptxpack_status read_label(reader *r, const char *name, size_t size)
{
    int label = find_label(r, name, size);
    if (memcmp(name, "$L__BB", size < 6 ? size : 6) != 0)
        return PTXPACK_OK; /* of line information */
    if (label < 0) {
        if ((label = add_label(r, name, size)) < 0)
            return refuse(r, "a hook has not so many branches");
        r->passed[label] = true;
        return PTXPACK_OK;
    }
    r->passed[label] = true;
    if (--r->ahead > 0)
        put_line(r, "or.pred %%my_on, %%my_on, %%my_to%d;", label);
    return PTXPACK_OK;
}

/* ---- instructions --------------------------------------------------------------------------------------- */
/* How many instructions of the body set the register at `name`. */
static int count_writers(const reader *r, const char *name, size_t size)
{
    int count = 0;
    for (const char *at = r->from; at < r->end; at += strcspn(at, "\n") + 1) {
        const char *word = at + strspn(at, " \t");
        if (*word == '@')
            word += strcspn(word, " \t"), word += strspn(word, " \t");
        word += strcspn(word, " \t\n");
        word += strspn(word, " \t");
        count += strncmp(word, name, size) == 0 && word[size] == ',';
    }
    return count;
}

/* A load of parameter `number`: an argument, an address, or where the result goes, which nobody reads. */
static void put_parameter(reader *r, const char *to, int number)
{
    const struct shape *s = &shapes[r->hook];
    if (number < s->count)
        put_line(r, "mov.b32 %s, %s;", to, s->arguments[number]);
    else if (number < s->count + AUX_COUNT)
        put_line(r, "AUX %s, %d", to, number - s->count);
    else
        snprintf(r->result, sizeof r->result, "%.*s", NAME - 1, to);
}

/* Whether `text` is "TO, RESULT" of an instruction that copies the address of the result: TO has it then. */
static bool moves_result(reader *r, const char *text, size_t to)
{
    if (r->result[0] == '\0' || text[to] != ',' ||
        strcmp(text + to + 1 + strspn(text + to + 1, " "), r->result) != 0)
        return false;
    snprintf(r->result, sizeof r->result, "%.*s", (int)to, text);
    return true;
}

/* The store of the result. */
static ptxpack_status put_result(reader *r, const char *when, const char *text)
{
    const size_t size = strlen(r->result);
    if (size == 0 || text[0] != '[' || strncmp(text + 1, r->result, size) != 0 || text[1 + size] != ']')
        return refuse(r, "a hook writes no memory");
    put_line(r, "%s%s%s;", when, shapes[r->hook].result, strchr(text, ',') + 1);
    return PTXPACK_OK;
}

/* An instruction: its guard ("" or "@%p1 "), its name, and its operands, up to the semicolon. */
static ptxpack_status read_instruction(reader *r, const char *guard, const char *name, size_t name_size,
                                       const char *operands, size_t size)
{
    char         text[1024], own_guard[NAME + 8];
    const char  *comma = (const char *)memchr(operands, ',', size);
    const size_t first = comma != NULL ? (size_t)(comma - operands) : size;
    const bool   loads = strncmp(name, "ld.", 3) == 0,
               guarded = r->ahead > 0 && guard[0] == '\0' &&
                         (loads || strncmp(name, "st.", 3) == 0 || count_writers(r, operands, first) > 1);
    if (size >= sizeof text / 2 || !own(operands, size, text, sizeof text) ||
        !own(guard, strlen(guard), own_guard, sizeof own_guard))
        return refuse(r, "a hook does not know its thread, nor other special registers");
    if (r->ahead > 0 && guard[0] != '\0')
        return refuse(r, "a hook has no predicated instruction in a branch");
    const char *when = guarded ? "@%my_on " : own_guard;
    if (strncmp(name, "ld.param", 8) == 0) {
        text[first + 3] = '\0'; /* the register has three letters more */
        put_parameter(r, text, atoi(strstr(operands, "_param_") + strlen("_param_")));
    } else if (strncmp(name, "st.global", 9) == 0) {
        return put_result(r, when, text);
    } else if (strncmp(name, "cvta", 4) != 0 || !moves_result(r, text, strcspn(text, ","))) {
        if (guarded && loads && operands[0] == '%')
            put_line(r, "mov.b%s %.*s, 0;",
                     strncmp(operands, "%rd", 3) == 0   ? "64"
                     : strncmp(operands, "%rs", 3) == 0 ? "16"
                                                        : "32",
                     (int)first + 3, text);
        put_line(r, "%s%.*s %s;", when, (int)name_size, name, text);
    }
    return PTXPACK_OK;
}

/* A line of the body, without the blanks before it. */
static ptxpack_status read_line(reader *r, const char *at, size_t size)
{
    char guard[NAME] = "";
    char text[1024];
    int  file, line;
    if (size == 0 || at[0] == '/' || strncmp(at, "ret;", 4) == 0 || strncmp(at, ".pragma", 7) == 0)
        return PTXPACK_OK;
    if (sscanf(at, ".loc %d %d", &file, &line) == 2) {
        r->line = file == r->file ? line : r->line;
        return PTXPACK_OK;
    }
    if (at[size - 1] == ':')
        return read_label(r, at, size - 1);
    if (strncmp(at, ".reg", 4) == 0 && memmem(at, size, "%SP", 3) == NULL) {
        own(at, size, text, sizeof text);
        put_line(r, "%s", text);
        return PTXPACK_OK;
    }
    const size_t word_size = strcspn(at, " \t");
    r->local = r->local || strncmp(at, ".local", 6) == 0;
    if (r->local && (at[0] == '.' || memmem(at, size, "%SP", 3) != NULL))
        return PTXPACK_OK;
    if (strncmp(at, "call", 4) == 0 || strncmp(at, ".param", 6) == 0)
        return refuse(r, "a hook calls no function that the compiler does not inline");
    if (at[0] == '.')
        return refuse(r, "a hook declares nothing but registers");
    if (r->local && memmem(at, word_size, ".param", 6) == NULL && memmem(at, word_size, ".global", 7) == NULL &&
        (strncmp(at, "ld.", 3) == 0 || strncmp(at, "st.", 3) == 0))
        return at[0] == 's'
                   ? PTXPACK_OK /* as the kernel fills it; it is the load that needs it */
                   : refuse(r, "a hook has no memory of its own: the index of an array must be a constant");
    if (at[0] == '@') {
        snprintf(guard, sizeof guard, "%.*s", (int)word_size, at);
        at += word_size + strspn(at + word_size, " \t");
    }
    const size_t name = strcspn(at, " \t;"), blank = name + strspn(at + name, " \t"), end = strcspn(at, ";\n");
    if (strncmp(at, "bra", 3) == 0)
        return read_branch(r, guard[0] == '@' ? guard + 1 : "", at + blank, end - blank);
    return read_instruction(r, guard, at, name, at + blank, end > blank ? end - blank : 0);
}

/* ---- the kernel ----------------------------------------------------------------------------------------- */
/* The number of the caller's text, "score_mod", among the .file of the PTX. */
static int find_file(const char *ptx, const char *name)
{
    for (const char *at = strstr(ptx, ".file"); at != NULL; at = strstr(at + 1, ".file")) {
        const char  *open = strchr(at, '"'), *close = open != NULL ? strchr(open + 1, '"') : NULL;
        const size_t size = strlen(name);
        if (close != NULL && (size_t)(close - open) > size && memcmp(close - size, name, size) == 0)
            return atoi(at + strlen(".file"));
    }
    return 0;
}

static ptxpack_status read_body(reader *r)
{
    ptxpack_status status = PTXPACK_OK;
    put_line(r, "%s", shapes[r->hook].macro);
    put_line(r, ".reg .pred %%my_on, %%my_by, %%my_not, %%my_to<%d>;", LABELS);
    if (r->hook == HOOK_MASK)
        put_line(r, ".reg .b32 %%my_result;");
    for (const char *at = r->from; at < r->end && status == PTXPACK_OK; at += strcspn(at, "\n") + 1) {
        const char *word = at + strspn(at, " \t");
        status = read_line(r, word, strcspn(word, "\n"));
    }
    if (r->hook == HOOK_MASK)
        put_line(r, "setp.ne.s32 \\keep, %%my_result, 0;");
    put_line(r, ".endm");
    if (status == PTXPACK_OK && r->local)
        return refuse(r, "a hook has no memory of its own");
    return status;
}

ptxpack_status attention_hook_body(const char *ptx, int hook, char **macros, char line[PLAN_LINE])
{
    const char *entry = strstr(ptx, ".entry " BODY_KERNEL), *open = entry != NULL ? strstr(entry, "\n{") : NULL,
               *close = open != NULL ? strstr(open, "\n}") : NULL;
    reader r = {.hook = hook, .line = 1, .refusal = line, .file = find_file(ptx, attention_hook_names[hook])};
    size_t bytes;
    int    parts;
    ptxpack_status status;
    *macros = NULL;
    if (close == NULL)
        return refuse(&r, "NVRTC made no kernel of it");
    for (const char *at = ptx; at < entry; at += strcspn(at, "\n") + 1)
        if (strncmp(at, ".const", 6) == 0 || strstr(at, ".global .align") == at ||
            strstr(at, ".visible .global") == at)
            return refuse(&r, "a hook has no variable outside of its function");
    r.from = open + 2;
    r.end = close + 1;
    r.out = open_memstream(macros, &bytes);
    if (r.out == NULL)
        return plan_refuse(line, PTXPACK_E_MEMORY, "no memory for %s", attention_hook_names[hook]);
    status = read_body(&r);
    if (fclose(r.out) != 0 || r.no_memory)
        status = plan_refuse(line, PTXPACK_E_MEMORY, "no memory for %s", attention_hook_names[hook]);
    if (status == PTXPACK_OK)
        status = attention_check_hook_of(*macros, hook, r.lines, &parts, line);
    free(r.lines);
    if (status != PTXPACK_OK) {
        free(*macros);
        *macros = NULL;
    }
    return status;
}
