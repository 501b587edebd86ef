/* layout_expr.c - the grammar of expressions.
 *
 *   expression = (swizzle "o" integer "o" plain | swizzle | plain) { "(" arguments ")" }
 *   plain      = primary [ ":" primary ]
 *   primary    = integer | "_" | "(" [arguments] ")" | "<" arguments ">" | call | LayoutLeft | LayoutRight
 *              | Shape "<" arguments ">", and CuTe's other names of types
 *   call       = name [ "<" [integers] ">" ] "(" [arguments] ")"
 *   arguments  = expression { "," expression } */
#include "layout_expr.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "layout_calls.h"
#include "host/layout/notation.h"
#include "loader/loader.h"

enum { NESTING = 64, VALUES = 256 };

typedef struct evaluator {
    text_reader r;
    int         nesting;
    expr_value *values; /* of the lists that are not complete yet: VALUES of them */
    int         used;
} evaluator;

static bool read_expression(evaluator *e, expr_value *out);

/* ---- lists ----------------------------------------------------------------------------------------- */
/* Expressions up to `closing`, whose opening bracket was read, on top of e->values. */
static bool read_list(evaluator *e, char closing, int *count)
{
    const char *what = closing == ')' ? "',' or ')'" : "',' or '>'";
    *count = 0;
    if (closing == ')' && reader_take(&e->r, closing))
        return true;
    do {
        if (*count == CALL_ARGUMENTS)
            return reader_error(&e->r, e->r.at, "more than %d items", CALL_ARGUMENTS);
        if (e->used == VALUES)
            return reader_error(&e->r, e->r.at, "more than %d values at once", VALUES);
        if (!read_expression(e, &e->values[e->used++]))
            return false;
        ++*count;
    } while (reader_take(&e->r, ','));
    return reader_take(&e->r, closing) || reader_expected(&e->r, what);
}

/* The library's message about a step, with the column. */
static bool settle(const evaluator *e, const char *start, const expr_value *v)
{
    return value_status(v) == PTXPACK_OK || reader_error(&e->r, start, "%s", ptxpack_detail(NULL));
}

static bool read_group(evaluator *e, char closing, expr_value *out)
{
    const char *start = e->r.at++;
    int         first = e->used, count;
    if (!read_list(e, closing, &count))
        return false;
    *out = value_join(&e->values[first], count, closing == '>');
    e->used = first;
    return settle(e, start, out);
}

/* ---- names ------------------------------------------------------------------------------------------- */
static bool is_name(const evaluator *e, const char *at)
{
    return at < e->r.end && (isalnum((unsigned char)*at) || *at == '_');
}

static bool is_text(const char *name, size_t bytes, const char *text)
{
    return strlen(text) == bytes && memcmp(name, text, bytes) == 0;
}

/* The {} that makes a value of a type in C++. */
static void skip_braces(evaluator *e)
{
    const char *at = (reader_peek(&e->r), e->r.at);
    if (reader_take(&e->r, '{') && !reader_take(&e->r, '}'))
        e->r.at = at; /* the caller then reports the brace */
}

/* LayoutLeft, LayoutRight and their older names. */
static bool read_order(const char *name, size_t bytes, expr_value *out)
{
    bool left = is_text(name, bytes, "LayoutLeft") || is_text(name, bytes, "GenColMajor");
    bool right = is_text(name, bytes, "LayoutRight") || is_text(name, bytes, "GenRowMajor");
    out->kind = EXPR_ORDER;
    out->as.right = right;
    return left || right;
}

/* CuTe's names of types: Int<8>{}, Shape<_4,Shape<_2,_3>>{}, Layout<Shape<..>,Stride<..>>{}, X. */
typedef enum type_name { TYPE_NONE, TYPE_ALL, TYPE_INTEGER, TYPE_TUPLE, TYPE_TILER, TYPE_LAYOUT } type_name;

static type_name type_of(const char *name, size_t bytes)
{
    static const struct {
        const char *name;
        type_name   type;
    } types[] = {{"X", TYPE_ALL},       {"Underscore", TYPE_ALL}, {"Int", TYPE_INTEGER}, {"C", TYPE_INTEGER},
                 {"Shape", TYPE_TUPLE}, {"Stride", TYPE_TUPLE},   {"Step", TYPE_TUPLE},  {"Coord", TYPE_TUPLE},
                 {"Tile", TYPE_TILER},  {"Layout", TYPE_LAYOUT}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (is_text(name, bytes, types[i].name))
            return types[i].type;
    return TYPE_NONE;
}

static bool read_type(evaluator *e, const char *name, type_name type, expr_value *out)
{
    int first = e->used, count;
    if (type == TYPE_ALL) {
        *out = value_of_tuple(ptxpack_underscore());
        return true;
    }
    if (!reader_expect(&e->r, '<') || !read_list(e, '>', &count))
        return false;
    expr_value *v = &e->values[first];
    e->used = first;
    bool tuples = v[0].kind == EXPR_TUPLE && (count == 1 || v[1].kind == EXPR_TUPLE);
    if (type == TYPE_TUPLE || type == TYPE_TILER)
        *out = value_join(v, count, type == TYPE_TILER);
    else if (!tuples || count > (type == TYPE_LAYOUT ? 2 : 1))
        return reader_error(&e->r, name, "this takes <%s>", type == TYPE_LAYOUT ? "shape,stride" : "integer");
    else if (type == TYPE_INTEGER)
        *out = v[0];
    else
        *out = value_of_layout(count == 1 ? ptxpack_make_layout_left(&v[0].as.tuple)
                                          : ptxpack_make_layout(&v[0].as.tuple, &v[1].as.tuple));
    return settle(e, name, out);
}

static bool read_numbers(evaluator *e, expr_call *c)
{
    int64_t number;
    if (!reader_take(&e->r, '<') || reader_take(&e->r, '>'))
        return true;
    do {
        const char *start = (reader_peek(&e->r), e->r.at);
        if (c->numbers == CALL_ARGUMENTS)
            return reader_error(&e->r, start, "more than %d integers in <>", CALL_ARGUMENTS);
        if (!reader_integer(&e->r, &number))
            return false;
        if (number < -1 || number > INT32_MAX)
            return reader_error(&e->r, start, "%" PRId64 " in the <> of %.*s is out of range", number,
                                (int)c->name_bytes, c->name);
        c->number[c->numbers++] = (int)number;
    } while (reader_take(&e->r, ','));
    return reader_take(&e->r, '>') || reader_expected(&e->r, "',' or '>'");
}

static bool read_call(evaluator *e, const char *name, size_t bytes, expr_value *out)
{
    expr_call c = {.name = name, .name_bytes = bytes, .numbers = 0};
    int       first = e->used, shown = bytes < 60 ? (int)bytes : 60;
    if (!call_is_known(name, bytes))
        return reader_error(&e->r, name, "there is no function %.*s", shown, name);
    if (!read_numbers(e, &c) || !reader_expect(&e->r, '(') || !read_list(e, ')', &c.count))
        return false;
    c.args = &e->values[first];
    e->used = first;
    if (call_run(&c, out))
        return true;
    const char *line = ptxpack_detail(NULL);
    if (strncmp(line, name, bytes) == 0)
        return reader_error(&e->r, name, "%s", line);
    return reader_error(&e->r, name, "%.*s: %s", shown, name, line);
}

static bool read_name(evaluator *e, expr_value *out)
{
    const char *name = e->r.at;
    while (is_name(e, e->r.at))
        e->r.at++;
    size_t    bytes = (size_t)(e->r.at - name);
    type_name type = type_of(name, bytes);
    if (type == TYPE_NONE && !read_order(name, bytes, out))
        return read_call(e, name, bytes, out);
    if (type != TYPE_NONE && !read_type(e, name, type, out))
        return false;
    skip_braces(e);
    return true;
}

/* ---- expressions --------------------------------------------------------------------------------------- */
static bool read_leaf(evaluator *e, expr_value *out)
{
    const char *start = e->r.at;
    int64_t     value;
    uint64_t    kind;
    if (!reader_leaf(&e->r, &value, &kind))
        return false;
    ptxpack_tuple t = kind == PTXPACK_UNDERSCORE ? ptxpack_underscore() : ptxpack_int(value);
    if (kind != PTXPACK_UNDERSCORE)
        t.kind[0] = kind;
    if (*start == '_')
        skip_braces(e);
    *out = value_of_tuple(t);
    return settle(e, start, out);
}

static bool read_primary(evaluator *e, expr_value *out)
{
    int next = reader_peek(&e->r);
    if (next == '(')
        return read_group(e, ')', out);
    if (next == '<')
        return read_group(e, '>', out);
    if (next > 0 && isalpha(next))
        return read_name(e, out);
    if (reader_starts_leaf(&e->r))
        return read_leaf(e, out);
    return reader_expected(&e->r, "an integer, '_', '(', '<' or a function");
}

/* A value as it was read, or shape:stride. */
static bool read_plain(evaluator *e, expr_value *out)
{
    const char *start = (reader_peek(&e->r), e->r.at);
    if (!read_primary(e, out))
        return false;
    if (!reader_take(&e->r, ':'))
        return true;
    if (out->kind != EXPR_TUPLE)
        return reader_error(&e->r, start, "what is left of ':' is not a tuple of integers");
    const char *right = (reader_peek(&e->r), e->r.at);
    if (e->used == VALUES)
        return reader_error(&e->r, right, "more than %d values at once", VALUES);
    expr_value *stride = &e->values[e->used++];
    if (!read_primary(e, stride))
        return false;
    if (stride->kind != EXPR_TUPLE)
        return reader_error(&e->r, right, "what is right of ':' is not a tuple of integers");
    *out = value_of_layout(ptxpack_make_layout(&out->as.tuple, &stride->as.tuple));
    e->used--;
    return settle(e, start, out);
}

/* Sw<B,M,S>, or Sw<B,M,S> o offset o layout. */
static bool read_swizzled(evaluator *e, expr_value *out)
{
    const char     *start = e->r.at;
    ptxpack_swizzle swizzle;
    int64_t         offset;
    if (!reader_swizzle(&e->r, &swizzle))
        return false;
    if (!reader_compose(&e->r)) {
        out->kind = EXPR_SWIZZLE;
        out->as.swizzle = swizzle;
        return true;
    }
    if (!reader_integer(&e->r, &offset))
        return false;
    if (!reader_compose(&e->r))
        return reader_expected(&e->r, "'o'");
    if (!read_plain(e, out))
        return false;
    ptxpack_layout inner = expr_layout(out);
    *out = value_of_layout(ptxpack_make_composed(swizzle, offset, &inner));
    return settle(e, start, out);
}

/* Apply the value that was read to the arguments (c0,c1,...). */
static bool read_application(evaluator *e, const char *start, expr_value *out)
{
    int first = e->used, count;
    e->r.at++;
    if (!read_list(e, ')', &count))
        return false;
    expr_value coord = count == 1 ? e->values[first] : value_join(&e->values[first], count, false);
    e->used = first;
    if (!settle(e, start, &coord))
        return false;
    *out = value_apply(out, &coord);
    return settle(e, start, out);
}

static bool read_expression(evaluator *e, expr_value *out)
{
    const char *start = (reader_peek(&e->r), e->r.at);
    if (e->nesting == NESTING)
        return reader_error(&e->r, start, "nested more than %d deep", NESTING);
    e->nesting++;
    bool ok = reader_starts_swizzle(&e->r) ? read_swizzled(e, out) : read_plain(e, out);
    while (ok && reader_peek(&e->r) == '(')
        ok = read_application(e, start, out);
    e->nesting--;
    return ok;
}

ptxpack_status expr_evaluate(const char *text, size_t bytes, expr_value *value)
{
    evaluator e = {.r = reader_begin(text, bytes), .values = (expr_value *)malloc(VALUES * sizeof *e.values)};
    if (e.values == NULL)
        return ptxpack_fail(NULL, PTXPACK_E_MEMORY, "out of memory");
    bool ok = read_expression(&e, value) && reader_expect_end(&e.r);
    free(e.values);
    if (ok && value->kind == EXPR_ORDER)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "LayoutLeft and LayoutRight are only arguments");
    return ok ? PTXPACK_OK : PTXPACK_E_ARG;
}

/* ---- printing -------------------------------------------------------------------------------------- */
static void print_tuple(FILE *f, const ptxpack_tuple *t)
{
    char text[PTXPACK_LAYOUT_TEXT];
    ptxpack_tuple_print(t, text, sizeof text);
    fputs(text, f);
}

static void print_layout(FILE *f, const ptxpack_layout *l)
{
    char text[PTXPACK_LAYOUT_TEXT];
    ptxpack_layout_print(l, text, sizeof text);
    fputs(text, f);
}

static void print_values(FILE *f, const ptxpack_layout *l)
{
    int64_t size = ptxpack_size(l);
    bool    plain = true; /* offsets, not coordinates */
    for (int i = 0; i < l->stride.items; i++)
        plain = plain && (l->stride.kind[i] == 0 || l->stride.kind[i] == PTXPACK_EMPTY);
    for (int64_t i = 0; i < size && !ferror(f); i++) {
        if (i > 0)
            putc(',', f);
        if (plain) {
            fprintf(f, "%" PRId64, ptxpack_at(l, i));
        } else {
            ptxpack_tuple index = ptxpack_int(i), at = ptxpack_layout_crd2idx(l, &index);
            print_tuple(f, &at);
        }
    }
}

void expr_print(FILE *f, const expr_value *value)
{
    switch (value->kind) {
    case EXPR_TUPLE:
        print_tuple(f, &value->as.tuple);
        break;
    case EXPR_LAYOUT:
        print_layout(f, &value->as.layout);
        break;
    case EXPR_SWIZZLE:
        fprintf(f, "Sw<%d,%d,%d>", value->as.swizzle.bits, value->as.swizzle.base, value->as.swizzle.shift);
        break;
    case EXPR_SLICE:
        print_layout(f, &value->as.slice.layout);
        fputs(" + ", f);
        print_tuple(f, &value->as.slice.offset);
        break;
    case EXPR_VALUES:
        print_values(f, &value->as.layout);
        break;
    case EXPR_ORDER:
        fputs(value->as.right ? "LayoutRight" : "LayoutLeft", f);
        break;
    }
}
