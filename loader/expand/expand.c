/* expand.c - the macro expander: public calls, frames and the line driver. */
#include "expand.h"
#include <stdio.h>
#include <stdlib.h>
#include "internal.h"
#include "loader/missing.h"

enum { DEFAULT_DEPTH = 200, DEFAULT_MS = 10000, KEPT_BYTES = 1 << 16 };
static const size_t default_output = (size_t)64 << 20;

/* ---- frames ---------------------------------------------------------------------------------------- */

bool expand_frame_push(expander *x, enum frame_kind kind, frame **out)
{
    if (x->depth == x->options.max_depth)
        return expand_fail(x, "macros, loops and includes are nested more than %u deep", x->options.max_depth);
    if (!expand_grow(x, (void **)&x->frames, x->depth, &x->frame_cap, sizeof *x->frames))
        return false;
    frame *f = &x->frames[x->depth++];
    f->kind = kind;
    f->pos = 0;
    f->own.size = 0;
    f->held = 0;
    *out = f;
    return true;
}

bool expand_frame_hold(expander *x, frame *f)
{
    expand_release(x, f->held);
    f->held = f->source.size;
    return expand_hold(x, f->held);
}

static void expand_frame_pop(expander *x)
{
    frame *f = &x->frames[--x->depth];
    expand_release(x, f->held);
    expand_pieces_drop(x, &f->parts);
    if (f->parts.cap > KEPT_BYTES / sizeof(piece))
        expand_pieces_free(x, &f->parts);
    if (f->own.cap > KEPT_BYTES)
        expand_text_free(&f->own);
    if (f->items.cap > KEPT_BYTES)
        expand_text_free(&f->items);
}

/* The next line of a frame, without its newline; x->here becomes its position. */
static span next_line(expander *x, frame *f)
{
    const char *from = f->source.data + f->pos;
    size_t      left = f->source.size - f->pos;
    const char *end = (const char *)memchr(from, '\n', left);
    span        line = span_of(from, end != NULL ? (size_t)(end - from) : left);
    f->pos += line.size + (end != NULL);
    x->here = (place){f->first.file, f->line++, f->first.site};
    return line;
}

/* The directive that s starts with, or -1. */
static int directive_of(span s)
{
    return s.size && s.data[0] == '.' ? expand_directive_find(expand_word(s)) : -1;
}

/* Whether a line opens (+1) or closes (-1) a block, which may follow labels. */
static int block_change(span line, bool loop)
{
    size_t start = expand_skip_blank(line, 0);
    line = span_of(line.data + start, line.size - start);
    for (size_t n; (n = expand_label(line)) != 0;)
        line = expand_trim(span_of(line.data + n, line.size - n));
    int directive = directive_of(line);
    return directive < 0 ? 0 : expand_directive_block(directive, loop);
}

bool expand_take_block(expander *x, bool loop, span *body, place *first)
{
    frame *f = &x->frames[x->depth - 1];
    place  opened = x->here;
    size_t start = f->pos;
    int    depth = 1;
    *first = (place){f->first.file, f->line, f->first.site};
    while (f->pos < f->source.size) {
        size_t at = f->pos;
        depth += block_change(next_line(x, f), loop);
        if (depth)
            continue;
        *body = span_of(f->source.data + start, at - start);
        x->here = opened;
        return expand_step(x, body->size);
    }
    x->here = opened;
    return expand_fail(x, loop ? "the loop that begins here has no .endr"
                               : "the .macro that begins here has no .endm");
}

bool expand_exit(expander *x)
{
    if (x->frames[x->depth - 1].kind == FRAME_FILE)
        return expand_fail(x, ".exitm stands outside macros and loops");
    expand_condition_drop(x, x->depth);
    expand_frame_pop(x);
    return true;
}

/* ---- lines ----------------------------------------------------------------------------------------- */

/* A backslash that remains outside of strings names an unknown parameter. */
static bool warn_backslash(expander *x, span line)
{
    const char *slash = (const char *)memchr(line.data, '\\', line.size);
    if (slash == NULL || memchr(line.data, '"', (size_t)(slash - line.data)) != NULL)
        return true;
    span rest = span_of(slash, (size_t)(line.data + line.size - slash));
    return expand_warn(x, "there is nothing to put in place of \"%.*s\"", QUOTE(rest));
}

static bool emit(expander *x, span line)
{
    text *out = &x->e->out;
    while (line.size && is_blank(line.data[line.size - 1]))
        line.size--;
    if (!line.size)
        return true;
    if (!warn_backslash(x, line) || (x->options.line_info && !expand_loc_before(x, line)) ||
        !expand_map_line(x, x->here) || !expand_text_add(x, out, line.data, line.size) ||
        !expand_text_char(x, out, '\n'))
        return false;
    return !x->options.line_info || expand_loc_after(x, line);
}

/* The = or == of a line "NAME = value"; 0 when the line is not an assignment. */
static size_t assignment(span rest, size_t *at)
{
    *at = expand_skip_blank(rest, 0);
    if (*at == rest.size || rest.data[*at] != '=')
        return 0;
    return *at + 1 < rest.size && rest.data[*at + 1] == '=' ? 2 : 1;
}

enum statement_kind { PLAIN, ASSIGNMENT, DIRECTIVE, CALL };
typedef struct statement {
    enum statement_kind kind;
    span                word, operands;
    bool                once;      /* "==": the symbol must be new */
    int                 directive; /* its index */
    macro              *called;
} statement;

/* The kind of a line, after its labels. */
static statement classify(const expander *x, span s)
{
    span      word = expand_word(s), rest = span_of(s.data + word.size, s.size - word.size);
    size_t    at, equals;
    statement found = {.kind = PLAIN, .word = word, .operands = rest}, *st = &found;
    if (!word.size)
        return found;
    if ((equals = assignment(rest, &at)) != 0) {
        st->kind = ASSIGNMENT;
        st->operands = span_of(rest.data + at + equals, rest.size - at - equals);
        st->once = equals == 2;
    } else if ((st->directive = expand_directive_find(word)) >= 0) {
        st->kind = DIRECTIVE;
    } else if ((st->called = expand_macro_find(x, word)) != NULL) {
        st->kind = CALL;
    }
    return found;
}

static bool run(expander *x, const statement *st)
{
    switch (st->kind) {
    case ASSIGNMENT:
        return expand_assign(x, st->word, st->operands, st->once);
    case DIRECTIVE:
        return expand_directive_run(x, st->directive, st->operands);
    case CALL:
        return expand_macro_call(x, st->called, st->operands);
    default:
        return true;
    }
}

/* In text that an .if skips, only the .if family matters.  The line was not pasted. */
static bool run_ignored(expander *x, span line)
{
    span word = expand_word(line);
    int  directive = expand_directive_find(word);
    if (directive < 0 || !expand_directive_is_condition(directive))
        return true;
    return expand_directive_run(x, directive, span_of(line.data + word.size, line.size - word.size));
}

static bool run_line(expander *x, span line)
{
    span s = expand_trim(line);
    if (!s.size)
        return true;
    if (expand_ignoring(x))
        return run_ignored(x, s);
    if (memchr(s.data, '\\', s.size) != NULL) {
        if (expand_directive_pastes_itself(directive_of(s)))
            return run_ignored(x, s);
        if (!expand_paste(x, line, &x->pasted))
            return false;
        line = span_text(&x->pasted);
        s = expand_trim(line);
    }
    span start = s;
    for (size_t n; (n = expand_label(s)) != 0;)
        s = expand_trim(span_of(s.data + n, s.size - n));
    statement st = classify(x, s);
    if (st.kind == PLAIN)
        return emit(x, line);
    return emit(x, span_of(start.data, (size_t)(s.data - start.data))) && run(x, &st);
}

/* The innermost frame has no more lines. */
static bool end_frame(expander *x)
{
    frame *f = &x->frames[x->depth - 1];
    bool   more = false;
    if (!expand_condition_closed(x, x->depth))
        return false;
    if (f->kind >= FRAME_REPT && !expand_loop_next(x, &more))
        return false;
    if (!more)
        expand_frame_pop(x);
    return true;
}

static bool run_all(expander *x, const char *path)
{
    uint32_t file;
    frame   *f;
    if (!expand_file(x, span_of(path, strlen(path)), 0, &file) || !expand_frame_push(x, FRAME_FILE, &f))
        return false;
    f->source = span_text(&x->e->files[file].stripped);
    f->first = (place){file, 1, 0};
    f->line = 1;
    while (x->depth) {
        f = &x->frames[x->depth - 1];
        if (f->pos >= f->source.size) {
            if (!end_frame(x))
                return false;
            continue;
        }
        span line = next_line(x, f);
        if (!expand_step(x, line.size) || !run_line(x, line))
            return false;
    }
    return !x->options.line_info || expand_loc_end(x);
}

/* ---- public ---------------------------------------------------------------------------------------- */

static bool is_symbol(const char *name)
{
    if (name == NULL || !*name)
        return false;
    for (const char *c = name; *c; c++)
        if (!is_name(*c) || *c == '.' || *c == '$' || (c == name && !is_name_start(*c)))
            return false;
    return true;
}

static ptxpack_status refuse(ptxpack_expansion *e, const char *what)
{
    e->error.data = strdup(what);
    return e->error.data != NULL ? PTXPACK_E_ARG : PTXPACK_E_MEMORY;
}

static ptxpack_status refuse_symbol(ptxpack_expansion *e, const char *name)
{
    char what[160];
    snprintf(what, sizeof what,
             "options.symbols: the name \"%.60s\" is not a letter or _, then letters, digits, _",
             name != NULL ? name : "");
    return refuse(e, what);
}

/* Check the options, fill in defaults, define the symbols. */
static ptxpack_status prepare(expander *x, const char *path, const ptxpack_expand_options *o)
{
    if (path == NULL || !*path)
        return refuse(x->e, "path: no file was named");
    if (o == NULL || o->size != sizeof *o)
        return refuse(x->e, "options.size is not sizeof(ptxpack_expand_options)");
    if (o->read == NULL)
        return refuse(x->e, "options.read is NULL");
    if (o->max_depth > PTXPACK_EXPAND_MAX_DEPTH)
        return refuse(x->e, "options.max_depth is above 1000");
    if (o->symbols == NULL && o->symbol_count)
        return refuse(x->e, "options.symbols is NULL, but symbol_count is not 0");
    x->options = *o;
    if (!o->max_depth)
        x->options.max_depth = DEFAULT_DEPTH;
    if (!o->max_output)
        x->options.max_output = default_output;
    if (!o->max_ms)
        x->options.max_ms = DEFAULT_MS;
    for (size_t i = 0; i < o->symbol_count; i++) {
        if (!is_symbol(o->symbols[i].name))
            return refuse_symbol(x->e, o->symbols[i].name);
        if (!expand_symbol_set(x, span_of(o->symbols[i].name, strlen(o->symbols[i].name)), o->symbols[i].value))
            return x->status;
    }
    return PTXPACK_OK;
}

static void release(expander *x)
{
    for (uint32_t i = 0; i < x->macro_cap; i++)
        expand_macro_free(x, x->macros[i]);
    free(x->macros);
    for (uint32_t i = 0; i < x->frame_cap; i++) {
        expand_formal_free(&x->frames[i].variable);
        expand_pieces_free(x, &x->frames[i].parts);
        expand_text_free(&x->frames[i].own);
        expand_text_free(&x->frames[i].items);
    }
    free(x->frames);
    free(x->conditions);
    free(x->info.numbers);
    expand_names_free(&x->file_names);
    expand_programs_free(x);
    expand_calls_free(x);
    expand_text_free(&x->pasted);
    expand_text_free(&x->scrubbed);
    for (uint32_t i = 0; i < x->e->file_count; i++) /* the paths are kept for the line map */
        expand_text_free(&x->e->files[i].stripped);
}

ptxpack_status ptxpack_expand(const char *path, const ptxpack_expand_options *options, ptxpack_expansion **out)
{
    if (out == NULL)
        return PTXPACK_MISSING(NULL, "out");
    expander x = {.e = (ptxpack_expansion *)calloc(1, sizeof *x.e)};
    *out = NULL;
    if (x.e == NULL)
        return PTXPACK_E_MEMORY;
    ptxpack_status status = prepare(&x, path, options);
    if (status == PTXPACK_OK) {
        if (run_all(&x, path) && expand_text_add(&x, &x.e->out, "", 0)) /* "" ends even an empty text */
            x.e->ok = true;
        status = x.status;
    }
    release(&x);
    if (status == PTXPACK_E_MEMORY) {
        ptxpack_expansion_free(x.e);
        return status;
    }
    *out = x.e;
    return status;
}

void ptxpack_expansion_free(ptxpack_expansion *e)
{
    if (e == NULL)
        return;
    for (uint32_t i = 0; i < e->file_count; i++)
        free(e->files[i].path);
    for (uint32_t i = 0; i < e->macro_text_cap; i++)
        free(e->macro_texts[i]);
    free(e->files);
    free(e->macro_texts);
    free(e->values);
    free(e->sites);
    free(e->runs);
    expand_names_free(&e->symbols);
    expand_names_free(&e->macro_names);
    expand_text_free(&e->out);
    expand_text_free(&e->error);
    expand_text_free(&e->warnings);
    free(e);
}

const char *ptxpack_expansion_text(const ptxpack_expansion *e, size_t *bytes)
{
    bool ok = e != NULL && e->ok;
    if (bytes != NULL)
        *bytes = ok ? e->out.size : 0;
    return ok ? e->out.data : NULL;
}

const char *ptxpack_expansion_error(const ptxpack_expansion *e)
{
    return e != NULL && e->error.data != NULL ? e->error.data : "";
}

const char *ptxpack_expansion_warnings(const ptxpack_expansion *e)
{
    return e != NULL && e->warnings.data != NULL ? e->warnings.data : "";
}

bool ptxpack_expansion_symbol(const ptxpack_expansion *e, const char *name, int64_t *value)
{
    return e != NULL && name != NULL && value != NULL &&
           expand_symbol_get(e, span_of(name, strlen(name)), value);
}
