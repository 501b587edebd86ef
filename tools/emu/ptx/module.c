/* module.c - a module from end to end: its header, its declarations, and the errors of all parts. */
#include <stdarg.h>
#include <stdio.h>
#include "parse.h"

static const size_t max_text = (size_t)64 << 20;

/* ---- errors -------------------------------------------------------------------------------------------- */
static void keep_error(struct ptx_parser *p, uint32_t line, const char *format, va_list list)
{
    char text[512];
    vsnprintf(text, sizeof text, format, list);
    for (char *at = text; *at; at++) /* keep it one line, whatever the text contains */
        if ((unsigned char)*at < ' ' || (unsigned char)*at > '~')
            *at = '?';
    char said[sizeof text + 32];
    snprintf(said, sizeof said, "line %u: %s", line, text);
    ptx_errors_add(p->errors, said);
}

void ptx_note_at(struct ptx_parser *p, uint32_t line, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    keep_error(p, line, format, list);
    va_end(list);
}

void ptx_fail(struct ptx_parser *p, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    keep_error(p, p->lex.token_line, format, list);
    va_end(list);
    ptx_leave_attempt(p);
}

void ptx_fail_last(struct ptx_parser *p, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    keep_error(p, p->lex.last_line, format, list);
    va_end(list);
    ptx_leave_attempt(p);
}

void ptx_fail_at(struct ptx_parser *p, uint32_t line, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    keep_error(p, line, format, list);
    va_end(list);
    ptx_leave_attempt(p);
}

const char ptx_no_memory_text[] = "out of memory";

void ptx_no_memory(struct ptx_parser *p)
{
    if (p->errors->count == 0) /* otherwise the text is refused anyway */
        ptx_errors_add(p->errors, ptx_no_memory_text);
    longjmp(p->out, 1);
}

/* ---- memory and lists ---------------------------------------------------------------------------------- */
static void *allocate(struct ptx_parser *p, struct ptx_memory *memory, size_t count, size_t size)
{
    void *result = ptx_alloc(memory, count, size);
    if (result == NULL)
        ptx_no_memory(p);
    return result;
}

void *ptx_keep(struct ptx_parser *p, size_t count, size_t size) { return allocate(p, p->memory, count, size); }

void *ptx_scratch(struct ptx_parser *p, size_t count, size_t size)
{
    return allocate(p, p->scratch, count, size);
}

void *ptx_add(struct ptx_parser *p, struct ptx_list *list, size_t size)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 16;
        void  *items = ptx_scratch(p, capacity, size);
        if (list->count)
            memcpy(items, list->items, list->count * size);
        list->items = items;
        list->capacity = capacity;
    }
    void *item = (char *)list->items + list->count++ * size;
    memset(item, 0, size);
    return item;
}

void *ptx_take(struct ptx_parser *p, struct ptx_list *list, size_t from, size_t size, unsigned int *count)
{
    size_t n = list->count - from;
    *count = (unsigned int)n;
    if (n == 0)
        return NULL;
    void *items = ptx_keep(p, n, size);
    memcpy(items, (char *)list->items + from * size, n * size);
    list->count = from;
    return items;
}

/* ---- the header ---------------------------------------------------------------------------------------- */
/* 9.0 as 90 */
static void version(struct ptx_parser *p)
{
    unsigned int major = 0, minor = 0;
    if (!ptx_take_dot(p, "version"))
        ptx_unexpected(p, ".version");
    char text[16] = "";
    if (p->lex.kind == PTX_TOKEN_DECIMAL && p->lex.bytes < sizeof text)
        memcpy(text, p->lex.text, p->lex.bytes);
    char end;
    if (strspn(text, "0123456789.") != strlen(text) || sscanf(text, "%2u.%1u%c", &major, &minor, &end) != 2)
        ptx_unexpected(p, "a version such as 9.0");
    p->module->version = (int)(major * 10 + minor);
    ptx_next(p);
}

/* sm_90a, texmode_unified, debug */
static void target(struct ptx_parser *p)
{
    if (!ptx_take_dot(p, "target"))
        ptx_unexpected(p, ".target");
    do {
        unsigned int number;
        char         suffix = 0, end;
        const char  *word = p->lex.kind == PTX_TOKEN_WORD ? p->lex.name->text : "";
        int          parts = sscanf(word, "sm_%3u%c%c", &number, &suffix, &end);
        if ((parts == 1 || (parts == 2 && (suffix == 'a' || suffix == 'f'))) && word[3] > '0' && number >= 10) {
            if (p->module->target)
                ptx_fail(p, "a second target");
            p->module->target = (int)number;
            p->module->target_suffix = parts == 2 ? suffix : 0;
        } else if (strcmp(word, "debug") != 0 && strcmp(word, "texmode_unified") != 0 &&
                   strcmp(word, "texmode_independent") != 0 && strcmp(word, "map_f64_to_f32") != 0) {
            ptx_unexpected(p, "a target such as sm_90");
        }
        ptx_next(p);
    } while (ptx_take_mark(p, ','));
    if (!p->module->target)
        ptx_fail(p, ".target names no sm_...");
}

static void header(struct ptx_parser *p)
{
    version(p);
    target(p);
    p->module->address_size = 64;
    if (ptx_take_dot(p, "address_size")) {
        if (p->lex.kind != PTX_TOKEN_INTEGER || p->lex.value != 64)
            ptx_fail(p, "only .address_size 64 is supported");
        ptx_next(p);
    }
}

/* ---- the rest ------------------------------------------------------------------------------------------ */
static struct ptx_linkage linkage(struct ptx_parser *p)
{
    struct ptx_linkage l = {false, false, false, false};
    for (;;) {
        bool *is = ptx_at_dot(p, "extern")    ? &l.is_extern
                   : ptx_at_dot(p, "visible") ? &l.is_visible
                   : ptx_at_dot(p, "weak")    ? &l.is_weak
                   : ptx_at_dot(p, "common")  ? &l.is_common
                                              : NULL;
        if (is == NULL)
            return l;
        if (l.is_extern || l.is_visible || l.is_weak || l.is_common)
            ptx_fail(p, "more than one of .extern, .visible, .weak and .common");
        *is = true;
        ptx_next(p);
    }
}

static void declaration(struct ptx_parser *p)
{
    uint32_t           line = p->lex.token_line;
    struct ptx_linkage l = linkage(p);
    enum ptx_space     space = p->lex.kind == PTX_TOKEN_DOT ? ptx_space_find(p->lex.name->text) : PTX_NO_SPACE;
    if (ptx_at_dot(p, "func") || ptx_at_dot(p, "entry")) {
        bool is_entry = ptx_at_dot(p, "entry");
        if (l.is_common || (is_entry && l.is_extern))
            ptx_fail(p, "a %s is not %s", is_entry ? "kernel" : "function",
                     l.is_common ? ".common" : ".extern");
        ptx_next(p);
        ptx_function(p, l, is_entry);
    } else if (space == PTX_GLOBAL || space == PTX_CONST || space == PTX_SHARED || space == PTX_TEX) {
        if (l.is_common && space != PTX_GLOBAL)
            ptx_fail(p, "only .global variables are .common");
        ptx_next(p);
        ptx_declaration(p, space, l, line);
    } else if (space != PTX_NO_SPACE) {
        ptx_fail(p, "'.%s' belongs in a function", p->lex.name->text);
    } else {
        ptx_unexpected(p, "a variable or a function");
    }
}

static void declarations(struct ptx_parser *p)
{
    while (p->lex.kind != PTX_TOKEN_END) {
        ptx_begin(p);
        if (ptx_take_dot(p, "file"))
            ptx_debug_file(p);
        else if (ptx_take_dot(p, "loc"))
            ptx_debug_loc(p);
        else if (ptx_take_dot(p, "section"))
            ptx_debug_section(p);
        else if (ptx_take_dot(p, "pragma"))
            ptx_skip_pragma(p);
        else if (ptx_take_dot(p, "alias"))
            ptx_alias(p);
        else
            declaration(p);
    }
}

static void module(struct ptx_parser *p)
{
    struct ptx_module *m = p->module;
    ptx_scope_open(p);
    ptx_next(p);
    header(p);
    while (!ptx_attempt(p, declarations))
        ptx_skip_declaration(p);
    ptx_resolve_aliases(p);
    ptx_debug_finish(p);
    m->variables = (struct ptx_symbol **)ptx_take(p, &p->module_variables, 0, sizeof *m->variables,
                                                  &m->variable_count);
    m->functions = (struct ptx_function **)ptx_take(p, &p->functions, 0, sizeof *m->functions,
                                                    &m->function_count);
}

static bool run(struct ptx_parser *p)
{
    if (setjmp(p->out))
        return false;
    p->module = (struct ptx_module *)ptx_keep(p, 1, sizeof *p->module);
    p->module->memory = p->memory;
    module(p);
    return true;
}

struct ptx_module *ptx_parse_all(const char *text, size_t bytes, struct ptx_errors *errors)
{
    struct ptx_parser p = {.errors = errors};
    char              said[64];
    while (bytes && text[bytes - 1] == 0) /* the NUL at the end of a string is not part of the text */
        bytes--;
    p.lex.at = text;
    p.lex.end = text + bytes;
    p.lex.line = 1;
    p.memory = ptx_memory_new();
    p.scratch = ptx_memory_new();
    bool done = false;
    if (bytes > max_text) {
        snprintf(said, sizeof said, "line 1: the text has more than %zu bytes", max_text);
        ptx_errors_add(errors, said);
    } else if (p.memory != NULL && p.scratch != NULL) {
        done = run(&p);
    } else {
        ptx_errors_add(errors, ptx_no_memory_text);
    }
    ptx_memory_free(p.scratch);
    if (done)
        return p.module;
    ptx_memory_free(p.memory);
    return NULL;
}

struct ptx_module *ptx_parse(const char *text, size_t bytes, char *error, size_t cap)
{
    struct ptx_errors  errors = {.text = error, .cap = cap, .most = 1};
    struct ptx_module *module = ptx_parse_all(text, bytes, &errors);
    if (errors.count == 0)
        return module;
    ptx_free(module);
    return NULL;
}

void ptx_free(struct ptx_module *module)
{
    if (module != NULL)
        ptx_memory_free(module->memory);
}
