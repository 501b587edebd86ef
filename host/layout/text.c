/* text.c - CuTe's notation: reading and printing tuples, layouts, swizzles and tilers. */
#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"
#include "loader/loader.h"

/* ---- reading: pieces ------------------------------------------------------------------------------- */
text_reader reader_begin(const char *text, size_t bytes) { return (text_reader){text, text + bytes, text}; }

int reader_peek(text_reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || (*r->at >= '\t' && *r->at <= '\r')))
        r->at++;
    return r->at < r->end ? (unsigned char)*r->at : -1;
}

bool reader_take(text_reader *r, char wanted)
{
    if (reader_peek(r) != (unsigned char)wanted)
        return false;
    r->at++;
    return true;
}

bool reader_error(const text_reader *r, const char *at, const char *format, ...)
{
    char    line[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    ptxpack_fail(NULL, PTXPACK_E_ARG, "column %td: %s", at - r->text + 1, line);
    return false;
}

bool reader_expected(text_reader *r, const char *what)
{
    int next = reader_peek(r);
    if (next < 0)
        return reader_error(r, r->at, "expected %s, found the end", what);
    if (next <= ' ' || next >= 0x7f)
        return reader_error(r, r->at, "expected %s, found the byte 0x%02x", what, (unsigned)next);
    return reader_error(r, r->at, "expected %s, found '%c'", what, next);
}

bool reader_expect(text_reader *r, char wanted)
{
    char what[] = {'\'', wanted, '\'', '\0'};
    return reader_take(r, wanted) || reader_expected(r, what);
}

bool reader_expect_end(text_reader *r) { return reader_peek(r) < 0 || reader_expected(r, "the end"); }

/* The byte `ahead` of the one that was peeked at, 0 past the end. */
static char ahead_of(const text_reader *r, int ahead) { return r->end - r->at > ahead ? r->at[ahead] : '\0'; }

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool reader_starts_leaf(text_reader *r)
{
    int next = reader_peek(r);
    return next == '_' || next == '-' || (next >= 0 && is_digit((char)next));
}

/* Digits with an optional '-', all without a blank in between. */
static bool read_number(text_reader *r, int64_t *value)
{
    const char *start = r->at;
    bool        negative = ahead_of(r, 0) == '-', fits = true;
    r->at += negative;
    if (!is_digit(ahead_of(r, 0)))
        return reader_expected(r, "a digit");
    for (*value = 0; is_digit(ahead_of(r, 0)); r->at++) { /* downwards: there is one more negative number */
        int digit = *r->at - '0';
        fits = fits && mul_into(*value, 10, value) && add_into(*value, -digit, value);
    }
    fits = fits && (negative || mul_into(*value, -1, value));
    int length = r->at - start < 60 ? (int)(r->at - start) : 60;
    return fits || reader_error(r, start, "%.*s does not fit 64 bits", length, start);
}

bool reader_integer(text_reader *r, int64_t *value)
{
    int next = reader_peek(r);
    if (next == '_' && (is_digit(ahead_of(r, 1)) || ahead_of(r, 1) == '-'))
        r->at++;
    else if (next != '-' && (next < 0 || !is_digit((char)next)))
        return reader_expected(r, "an integer");
    return read_number(r, value);
}

/* The path of a basis stride after its integer: "@0@1", mode 0 of mode 1.  The outermost mode comes last. */
static bool read_path(text_reader *r, uint64_t *kind)
{
    *kind = 0;
    for (int level = 0; reader_peek(r) == '@'; level++) {
        const char *start = r->at++;
        int64_t     mode;
        if (!reader_integer(r, &mode))
            return false;
        if (level == PTXPACK_TUPLE_DEPTH)
            return reader_error(r, start, "more than %d @", PTXPACK_TUPLE_DEPTH);
        if (mode < 0 || mode >= PTXPACK_TUPLE_ITEMS)
            return reader_error(r, start, "@%" PRId64 " is no mode: 0 to %d are", mode,
                                PTXPACK_TUPLE_ITEMS - 1);
        *kind = *kind << 8 | (uint64_t)(mode + 1);
    }
    return true;
}

bool reader_leaf(text_reader *r, int64_t *value, uint64_t *kind)
{
    if (!reader_starts_leaf(r))
        return reader_expected(r, "an integer, '_' or '('");
    if (*r->at == '_' && !is_digit(ahead_of(r, 1)) && ahead_of(r, 1) != '-') {
        r->at++;
        *value = 0;
        *kind = PTXPACK_UNDERSCORE;
        return true;
    }
    return reader_integer(r, value) && read_path(r, kind);
}

/* ---- reading: tuples ------------------------------------------------------------------------------- */
/* The parentheses that open before an item; *empty when the item is (), which is then read. */
static bool read_opening(text_reader *r, tuple_builder *b, bool *empty)
{
    *empty = false;
    while (reader_take(r, '(')) {
        if (b->depth == PTXPACK_TUPLE_DEPTH)
            return reader_error(r, r->at - 1, "nested more than %d deep", PTXPACK_TUPLE_DEPTH);
        build_open(b);
        if (reader_peek(r) == ')') {
            *empty = true;
            return true;
        }
    }
    return true;
}

bool reader_tuple(text_reader *r, ptxpack_tuple *t)
{
    tuple_builder b = build_begin(t);
    for (;;) {
        bool     empty;
        int64_t  value;
        uint64_t kind;
        if (!read_opening(r, &b, &empty))
            return false;
        if (t->items == PTXPACK_TUPLE_ITEMS)
            return reader_error(r, r->at, "more than %d items", PTXPACK_TUPLE_ITEMS);
        if (!empty) {
            if (!reader_leaf(r, &value, &kind))
                return false;
            build_leaf(&b, value, kind);
        }
        while (b.depth > 0 && reader_take(r, ')'))
            build_close(&b);
        if (b.depth == 0)
            return true;
        if (!reader_take(r, ','))
            return reader_expected(r, "',' or ')'");
    }
}

/* ---- reading: swizzles, layouts, tilers ---------------------------------------------------------------- */
/* Length of the name of a swizzle that comes next: Sw or Swizzle; 0: another one. */
static size_t swizzle_name(text_reader *r)
{
    static const char name[] = "Swizzle";
    size_t            bytes = 0;
    reader_peek(r);
    while (isalnum((unsigned char)ahead_of(r, (int)bytes)) && bytes < sizeof name)
        bytes++;
    return (bytes == 2 || bytes == sizeof name - 1) && memcmp(r->at, name, bytes) == 0 ? bytes : 0;
}

bool reader_starts_swizzle(text_reader *r) { return swizzle_name(r) > 0; }

bool reader_swizzle(text_reader *r, ptxpack_swizzle *swizzle)
{
    static const char *const names[] = {"B", "M", "S"};
    size_t                   name = swizzle_name(r);
    const char              *start = r->at;
    int64_t                  field[3];
    r->at += name;
    for (int i = 0; i < 3; i++)
        if (!reader_expect(r, i == 0 ? '<' : ',') || !reader_integer(r, &field[i]))
            return false;
    if (!reader_expect(r, '>'))
        return false;
    for (int i = 0; i < 3; i++)
        if (field[i] < (i == 2 ? -62 : 0) || field[i] > 62)
            return reader_error(r, start, "a swizzle's %s cannot be %" PRId64, names[i], field[i]);
    *swizzle = (ptxpack_swizzle){(int8_t)field[0], (int8_t)field[1], (int8_t)field[2]};
    return swizzle_ok(*swizzle) ||
           reader_error(r, start, "|S| of Sw<B,M,S> must not be below B, nor B + M + |S| above 62");
}

bool reader_compose(text_reader *r)
{
    if (reader_peek(r) != 'o')
        return false;
    r->at++;
    return true;
}

/* One more part of the tiler that is being built inside so many <> as the builder is deep. */
static bool add_part(const text_reader *r, const char *start, ptxpack_layout *l, layout_builder *b,
                     const ptxpack_layout *part)
{
    int first = l->shape.items, outside = b->shape.depth;
    if (part->shape.status != PTXPACK_OK)
        return reader_error(r, start, "%s", ptxpack_detail(NULL));
    if (first + part->shape.items > PTXPACK_TUPLE_ITEMS)
        return reader_error(r, start, "more than %d items", PTXPACK_TUPLE_ITEMS);
    for (int i = 0; i < part->shape.items; i++) {
        if (outside + part->shape.depth[i] > PTXPACK_TUPLE_DEPTH)
            return reader_error(r, start, "nested more than %d deep", PTXPACK_TUPLE_DEPTH);
        l->tiler[first + i] = (uint8_t)(outside + part->tiler[i]);
    }
    layout_copy(b, part, tuple_root(&part->shape));
    return true;
}

/* A layout shape:stride; or a tuple of integers and `_`, whose parentheses are <> here. */
static bool read_part(text_reader *r, ptxpack_layout *l, layout_builder *b)
{
    const char    *start = (reader_peek(r), r->at);
    ptxpack_tuple  shape, stride;
    ptxpack_layout part;
    if (!reader_tuple(r, &shape))
        return false;
    if (!reader_take(r, ':'))
        part = ptxpack_tiler_of(&shape);
    else if (reader_tuple(r, &stride))
        part = ptxpack_make_layout(&shape, &stride);
    else
        return false;
    return add_part(r, start, l, b, &part);
}

static bool read_tiler(text_reader *r, ptxpack_layout *l)
{
    layout_builder b = layout_begin(l);
    for (;;) {
        while (reader_take(r, '<')) {
            if (b.shape.depth == PTXPACK_TUPLE_DEPTH)
                return reader_error(r, r->at - 1, "nested more than %d deep", PTXPACK_TUPLE_DEPTH);
            layout_open(&b);
        }
        if (!read_part(r, l, &b))
            return false;
        while (b.shape.depth > 0 && reader_take(r, '>'))
            layout_close(&b);
        if (b.shape.depth == 0)
            return true;
        if (!reader_take(r, ','))
            return reader_expected(r, "',' or '>'");
    }
}

static ptxpack_layout read_plain(text_reader *r)
{
    ptxpack_tuple shape, stride;
    if (!reader_tuple(r, &shape))
        return layout_failed(PTXPACK_E_ARG);
    bool compact = !reader_take(r, ':');
    if (!compact && !reader_tuple(r, &stride))
        return layout_failed(PTXPACK_E_ARG);
    if (!reader_expect_end(r))
        return layout_failed(PTXPACK_E_ARG);
    if (compact && shape.depth[0] == 0 && shape.kind[0] == PTXPACK_UNDERSCORE)
        return ptxpack_tiler_of(&shape);
    return compact ? ptxpack_make_layout_left(&shape) : ptxpack_make_layout(&shape, &stride);
}

static ptxpack_layout read_composed(text_reader *r)
{
    ptxpack_swizzle swizzle;
    int64_t         offset;
    if (!reader_swizzle(r, &swizzle))
        return layout_failed(PTXPACK_E_ARG);
    if (!reader_compose(r))
        return reader_expected(r, "'o', as in Sw<B,M,S> o 0 o (8,8):(8,1)"), layout_failed(PTXPACK_E_ARG);
    if (!reader_integer(r, &offset))
        return layout_failed(PTXPACK_E_ARG);
    if (!reader_compose(r))
        return reader_expected(r, "'o'"), layout_failed(PTXPACK_E_ARG);
    ptxpack_layout inner = read_plain(r);
    return ptxpack_make_composed(swizzle, offset, &inner);
}

ptxpack_layout ptxpack_layout_parse(const char *text)
{
    ptxpack_layout l = {.composed = false};
    if (text == NULL)
        return layout_failed(operand_missing(__func__, "text"));
    text_reader r = reader_begin(text, strlen(text));
    if (reader_starts_swizzle(&r))
        return read_composed(&r);
    if (reader_peek(&r) != '<')
        return read_plain(&r);
    return read_tiler(&r, &l) && reader_expect_end(&r) ? l : layout_failed(PTXPACK_E_ARG);
}

ptxpack_tuple ptxpack_tuple_parse(const char *text)
{
    ptxpack_tuple t = {.status = PTXPACK_OK};
    if (text == NULL)
        return tuple_failed(operand_missing(__func__, "text"));
    text_reader r = reader_begin(text, strlen(text));
    return reader_tuple(&r, &t) && reader_expect_end(&r) ? t : tuple_failed(PTXPACK_E_ARG);
}

/* ---- printing --------------------------------------------------------------------------------------- */
typedef struct text_writer {
    char  *text;
    size_t cap, length;
} text_writer;

static void put(text_writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(text_writer *w, const char *format, ...)
{
    size_t  room = w->length < w->cap ? w->cap - w->length : 0;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(room > 0 ? w->text + w->length : NULL, room, format, arguments);
    va_end(arguments);
    w->length += length > 0 ? (size_t)length : 0;
}

static void put_brackets(text_writer *w, char bracket, int count)
{
    for (int i = 0; i < count; i++)
        put(w, "%c", bracket);
}

static void put_leaf(text_writer *w, int64_t value, uint64_t kind)
{
    if (kind == PTXPACK_UNDERSCORE) {
        put(w, "_");
    } else if (kind == PTXPACK_EMPTY) {
        put(w, "()");
    } else {
        put(w, "%" PRId64, value);
        for (int shift = 56; shift >= 0; shift -= 8)
            if (kind >> shift != 0)
                put(w, "@%d", (int)(kind >> shift & 0xff) - 1);
    }
}

/* A tuple or an integer inside a tuple. */
static void put_node(text_writer *w, tuple_node n)
{
    for (int i = n.begin; i < n.end; i++) {
        int before = i > n.begin ? n.t->shared[i - 1] : n.level;
        int after = i + 1 < n.end ? n.t->shared[i] : n.level;
        if (i > n.begin)
            put(w, ",");
        put_brackets(w, '(', n.t->depth[i] - before);
        put_leaf(w, n.t->value[i], n.t->kind[i]);
        put_brackets(w, ')', n.t->depth[i] - after);
    }
}

/* The parts of a tiler with their <>; any other layout is one part. */
static void put_parts(text_writer *w, const ptxpack_layout *l)
{
    const ptxpack_tuple *s = &l->shape;
    for (int begin = 0, end; begin < s->items; begin = end) {
        int level = l->tiler[begin];
        for (end = begin + 1; end < s->items && s->shared[end - 1] > level;)
            end++;
        int before = begin > 0 ? s->shared[begin - 1] : 0, after = end < s->items ? s->shared[end - 1] : 0;
        put(w, begin > 0 ? "," : "");
        put_brackets(w, '<', level - before);
        put_node(w, (tuple_node){s, begin, end, level});
        if (l->stride.kind[begin] != PTXPACK_UNDERSCORE) {
            put(w, ":");
            put_node(w, (tuple_node){&l->stride, begin, end, level});
        }
        put_brackets(w, '>', level - after);
    }
}

static size_t finish(text_writer *w)
{
    if (w->cap > 0 && w->length == 0)
        w->text[0] = '\0';
    return w->length;
}

size_t ptxpack_tuple_print(const ptxpack_tuple *t, char *text, size_t cap)
{
    GIVEN_TUPLE(t);
    text_writer w = {text, text != NULL ? cap : 0, 0};
    if (t->status == PTXPACK_OK)
        put_node(&w, tuple_root(t));
    else
        put(&w, "error");
    return finish(&w);
}

size_t ptxpack_layout_print(const ptxpack_layout *l, char *text, size_t cap)
{
    GIVEN_LAYOUT(l);
    text_writer w = {text, text != NULL ? cap : 0, 0};
    if (l->shape.status != PTXPACK_OK) {
        put(&w, "error");
        return finish(&w);
    }
    if (l->composed) {
        put(&w, "Sw<%d,%d,%d> o ", l->swizzle.bits, l->swizzle.base, l->swizzle.shift);
        put(&w, "%" PRId64 " o ", l->offset);
    }
    put_parts(&w, l);
    return finish(&w);
}
