/* layout_expr.c - the grammar of expressions.
 *
 *   statement  = [ { type } name "=" ] expression
 *   expression = term { ("+" | "-") term }          of integers; pointer + n and layout + n, too
 *   term       = operand { ("*" | "/" | "%") operand }
 *   operand    = (swizzle "o" integer "o" plain | swizzle | pointer [ "o" plain ] | plain)
 *                { "(" arguments ")" | "." call }
 *   plain      = primary [ ":" primary ]
 *   primary    = integer | "_" | "(" [arguments] ")" | "[" arguments "]" | "<" arguments ">" | call | variable
 *              | LayoutLeft | LayoutRight | Shape "<" arguments ">", and CuTe's other names of types | "\"" text "\""
 *   pointer    = [ swizzle "_" ] [ "gmem_" | "smem_" | "rmem_" ] ("ptr[" bits "b](" address ")"
 *              | "subptr[" bits "b](" address "." bit ")") | "counting_iter(" integer ")" | "ArithTuple" tuple
 *   call       = name [ "<" [integers | type] ">" ] "(" [arguments] ")"
 *   arguments  = [name "="] expression { "," [name "="] expression }
 *
 * `cute::` before a name, and {} or () behind a type or an integer, mean nothing here. */
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
    text_reader   r;
    expr_session *session;
    int           nesting;
    expr_value   *values; /* of the lists that are not complete yet: VALUES of them */
    int           used;
} evaluator;

static bool read_expression(evaluator *e, expr_value *out);
static bool read_plain(evaluator *e, expr_value *out);
static bool read_swizzled(evaluator *e, expr_value *out);

/* ---- lists ----------------------------------------------------------------------------------------- */
/* The name of an argument in Python, "shape=", says nothing that its place does not say. */
static void skip_keyword(evaluator *e)
{
    const char *at = (reader_peek(&e->r), e->r.at);
    while (at < e->r.end && isalpha((unsigned char)*at))
        at++;
    if (at > e->r.at && at < e->r.end && *at == '=')
        e->r.at = at + 1;
}

/* Expressions up to `closing`, whose opening bracket was read, on top of e->values. */
static bool read_list(evaluator *e, char closing, int *count)
{
    const char *what = closing == ')' ? "',' or ')'" : closing == ']' ? "',' or ']'" : "',' or '>'";
    *count = 0;
    if (closing == ')' && reader_take(&e->r, closing))
        return true;
    do {
        if (*count == CALL_ARGUMENTS)
            return reader_error(&e->r, e->r.at, "more than %d items", CALL_ARGUMENTS);
        if (e->used == VALUES)
            return reader_error(&e->r, e->r.at, "more than %d values at once", VALUES);
        skip_keyword(e);
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

/* The {} or () that makes a value of a type in C++. */
static void skip_braces(evaluator *e)
{
    const char *at = (reader_peek(&e->r), e->r.at);
    if (reader_take(&e->r, '{') && !reader_take(&e->r, '}'))
        e->r.at = at; /* the caller then reports the brace */
    else if (at == e->r.at && reader_take(&e->r, '(') && !reader_take(&e->r, ')'))
        e->r.at = at; /* a layout applied to a coordinate */
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

/* Moves past a name, without "cute::" before it. */
static const char *read_word(evaluator *e, size_t *bytes)
{
    const char *name = (reader_peek(&e->r), e->r.at);
    for (;;) {
        while (is_name(e, e->r.at))
            e->r.at++;
        *bytes = (size_t)(e->r.at - name);
        if (e->r.end - e->r.at < 2 || memcmp(e->r.at, "::", 2) != 0)
            return name;
        e->r.at += 2;
        name = e->r.at;
    }
}

/* A type of elements, or a pointer to one, up to the '>'. */
static bool read_element_type(evaluator *e, expr_call *c)
{
    size_t      bytes;
    const char *name = read_word(e, &bytes);
    if (is_text(name, bytes, "const"))
        name = read_word(e, &bytes);
    c->type = session_type(e->session, name, bytes);
    if (c->type == NULL)
        return reader_error(&e->r, name, "%.*s is not an integer and not a type", bytes < 60 ? (int)bytes : 60,
                            name);
    size_t      more;
    const char *behind = e->r.at, *word = read_word(e, &more);
    if (!is_text(word, more, "const"))
        e->r.at = behind;
    reader_take(&e->r, '*');
    return reader_take(&e->r, '>') || reader_expected(&e->r, "'>'");
}

static bool read_numbers(evaluator *e, expr_call *c)
{
    int64_t number;
    if (!reader_take(&e->r, '<') || reader_take(&e->r, '>'))
        return true;
    if (isalpha(reader_peek(&e->r)))
        return read_element_type(e, c);
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

/* The arguments in () or {}, behind those that are in e->values from `first` on. */
static bool read_arguments(evaluator *e, expr_call *c, int first)
{
    int given = e->used - first;
    if (c->name_bytes > 8 && memcmp(c->name, "counting", 8) == 0 && reader_take(&e->r, '{')) {
        if (!reader_take(&e->r, '}') &&
            !(read_expression(e, &e->values[e->used++]) && reader_expect(&e->r, '}')))
            return false;
        c->count = e->used - first;
        return true;
    }
    if (!reader_expect(&e->r, '(') || !read_list(e, ')', &c->count))
        return false;
    c->count += given;
    return c->count <= CALL_ARGUMENTS || reader_error(&e->r, e->r.at, "more than %d items", CALL_ARGUMENTS);
}

/* A call of `name`, which may begin with the values from `first` on. */
static bool read_call(evaluator *e, const char *name, size_t bytes, int first, expr_value *out)
{
    expr_call c = {.session = e->session, .name = name, .name_bytes = bytes, .numbers = 0};
    int       shown = bytes < 60 ? (int)bytes : 60;
    if (is_text(name, bytes, "Layout")) { /* as in Python */
        c.name = "make_layout";
        c.name_bytes = strlen(c.name);
    }
    if (!call_is_known(c.name, c.name_bytes)) {
        const char *meant = call_nearest(c.name, c.name_bytes);
        const char *what = reader_peek(&e->r) == '(' || reader_peek(&e->r) == '<' ? "function" : "variable";
        if (session_forgot(e->session, name, bytes))
            return reader_error(&e->r, name, "%.*s has no value: the statement that defines it has an error",
                                shown, name);
        return reader_error(&e->r, name, "there is no %s %.*s%s%s%s", what, shown, name,
                            meant != NULL ? "; did you mean " : "", meant != NULL ? meant : "",
                            meant != NULL ? "?" : "");
    }
    if (!read_numbers(e, &c) || !read_arguments(e, &c, first))
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

/* Goes on to the end of params.seqlen if there is a variable of that name, not a member of params. */
static void extend_name(evaluator *e, const char *name, size_t *bytes)
{
    const char *end = e->r.at;
    while (end < e->r.end && (is_name(e, end) || *end == '.'))
        end++;
    for (; end > e->r.at; end--)
        if (session_variable(e->session, name, (size_t)(end - name)) != NULL) {
            *bytes = (size_t)(end - name);
            e->r.at = end;
            return;
        }
}

static bool read_name(evaluator *e, expr_value *out)
{
    size_t      bytes;
    const char *name = read_word(e, &bytes);
    extend_name(e, name, &bytes);
    const expr_value *variable = session_variable(e->session, name, bytes);
    if (variable != NULL && reader_peek(&e->r) != '<') {
        *out = *variable;
        skip_braces(e);
        return true;
    }
    type_name type = type_of(name, bytes);
    if (type == TYPE_LAYOUT && reader_peek(&e->r) == '(')
        type = TYPE_NONE;
    if (type == TYPE_NONE && !read_order(name, bytes, out))
        return read_call(e, name, bytes, e->used, out);
    if (type != TYPE_NONE && !read_type(e, name, type, out))
        return false;
    skip_braces(e);
    return true;
}

/* ---- pointers, as CuTe prints them -------------------------------------------------------------------- */
/* Takes the word if it comes next. */
static bool take_word(evaluator *e, const char *word)
{
    size_t bytes = strlen(word);
    reader_peek(&e->r);
    if ((size_t)(e->r.end - e->r.at) < bytes || memcmp(e->r.at, word, bytes) != 0)
        return false;
    e->r.at += bytes;
    return true;
}

/* 0x7f2a00000020, 4096 or (nil). */
static bool read_address(evaluator *e, uint64_t *address)
{
    int64_t decimal;
    *address = 0;
    if (take_word(e, "(nil)") || take_word(e, "nil"))
        return true;
    const char *start = e->r.at;
    if (!take_word(e, "0x")) {
        if (!reader_integer(&e->r, &decimal))
            return false;
        *address = (uint64_t)decimal;
        return true;
    }
    for (; e->r.at < e->r.end && isxdigit((unsigned char)*e->r.at); e->r.at++) {
        int digit = isdigit((unsigned char)*e->r.at) ? *e->r.at - '0'
                                                     : tolower((unsigned char)*e->r.at) - 'a' + 10;
        if (*address >> 60 != 0)
            return reader_error(&e->r, start, "an address has more than 64 bits");
        *address = *address << 4 | (uint64_t)digit;
    }
    return e->r.at > start + 2 || reader_expected(&e->r, "a hexadecimal digit");
}

/* [32b](0x1000) behind ptr, [4b](0x1000.4) behind subptr. */
static bool read_pointer(evaluator *e, ptxpack_space space, bool part_of_byte, expr_tensor *out)
{
    const char *start = e->r.at;
    int64_t     bits, bit = 0;
    uint64_t    address;
    if (!reader_expect(&e->r, '[') || !reader_integer(&e->r, &bits) || !reader_expect(&e->r, 'b') ||
        !reader_expect(&e->r, ']') || !reader_expect(&e->r, '(') || !read_address(e, &address))
        return false;
    if (part_of_byte && (!reader_expect(&e->r, '.') || !reader_integer(&e->r, &bit)))
        return false;
    if (bits < 1 || bits > 128 || bit < 0 || bit > 7)
        return reader_error(&e->r, start, "no element has %" PRId64 " bits from bit %" PRId64 " on", bits, bit);
    *out = pointer_to(NULL, (int)bits, space, address, (int)bit);
    return reader_expect(&e->r, ')');
}

/* Reads the pointer that comes next, if one does; *found tells. */
static bool read_printed_pointer(evaluator *e, bool *found, expr_tensor *out)
{
    static const char *const spaces[] = {"", "rmem_", "smem_", "gmem_"};
    const char              *start = (reader_peek(&e->r), e->r.at);
    int64_t                  n;
    ptxpack_tuple            origin;
    *found = true;
    if (take_word(e, "counting_iter(")) {
        if (!reader_integer(&e->r, &n) || !reader_expect(&e->r, ')'))
            return false;
        *out = pointer_counting(n);
        return true;
    }
    if (take_word(e, "ArithTuple")) {
        if (!reader_tuple(&e->r, &origin))
            return false;
        *out = pointer_at_coordinate(&origin);
        return true;
    }
    int space = PTXPACK_SPACE_GLOBAL;
    while (!take_word(e, spaces[space]))
        space--;
    bool sub = take_word(e, "subptr");
    if (!sub && !take_word(e, "ptr")) {
        e->r.at = start;
        *found = false;
        return true;
    }
    if (reader_peek(&e->r) == '[')
        return read_pointer(e, (ptxpack_space)space, sub, out);
    e->r.at = start;
    *found = false;
    return true;
}

/* A pointer, or the tensor POINTER o LAYOUT. */
static bool read_tensor(evaluator *e, const char *start, expr_tensor pointer, expr_value *out)
{
    *out = value_of_tensor(pointer);
    if (out->kind == EXPR_TENSOR)
        out->kind = EXPR_POINTER;
    if (!settle(e, start, out))
        return false;
    if (!reader_compose(&e->r))
        return true;
    expr_value l;
    if (!(reader_starts_swizzle(&e->r) ? read_swizzled(e, &l) : read_plain(e, &l)))
        return false;
    ptxpack_layout layout = expr_layout(&l);
    *out = value_of_tensor(tensor_under(&pointer, &layout));
    return settle(e, start, out);
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
    if (*start == '_' && kind != PTXPACK_UNDERSCORE)
        skip_braces(e);
    *out = value_of_tuple(t);
    return settle(e, start, out);
}

/* "text", in which \n and \t are one character. */
static bool read_string(evaluator *e, expr_value *out)
{
    const char *start = e->r.at++;
    char       *text = (char *)malloc((size_t)(e->r.end - start)), *to = text;
    while (text != NULL && e->r.at < e->r.end && *e->r.at != '"') {
        char c = *e->r.at++;
        if (c == '\\' && e->r.at < e->r.end) {
            c = *e->r.at++;
            c = c == 'n' ? '\n' : c == 't' ? '\t' : c;
        }
        *to++ = c;
    }
    if (text != NULL)
        *to = '\0';
    *out = value_of_text(e->session, text);
    if (!settle(e, start, out))
        return false;
    if (e->r.at == e->r.end)
        return reader_expected(&e->r, "'\"'");
    e->r.at++;
    return true;
}

static bool read_primary(evaluator *e, expr_value *out)
{
    int next = reader_peek(&e->r);
    if (next == '(')
        return read_group(e, ')', out);
    if (next == '[')
        return read_group(e, ']', out);
    if (next == '"')
        return read_string(e, out);
    if (next == '<')
        return read_group(e, '>', out);
    if (next > 0 && isalpha(next))
        return read_name(e, out);
    if (next == '0' && e->r.end - e->r.at > 2 && e->r.at[1] == 'x') {
        uint64_t address;
        if (!read_address(e, &address))
            return false;
        *out = value_of_tuple(ptxpack_int((int64_t)address));
        return true;
    }
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
    if (e->r.at < e->r.end && *e->r.at == '_') {
        bool        found;
        expr_tensor pointer;
        e->r.at++;
        if (!read_printed_pointer(e, &found, &pointer))
            return false;
        if (!found)
            return reader_expected(&e->r, "a pointer, as in Sw<B,M,S>_smem_ptr[16b](0x0)");
        return read_tensor(e, start, tensor_swizzled(&pointer, swizzle), out);
    }
    skip_braces(e);
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
    expr_value function = *out;
    *out = value_apply(e->session, &function, &coord);
    return settle(e, start, out);
}

/* .name(args) is name(value, args). */
static bool read_member(evaluator *e, expr_value *out)
{
    int         first = e->used;
    size_t      bytes;
    const char *name = (e->r.at++, read_word(e, &bytes));
    if (e->used == VALUES)
        return reader_error(&e->r, name, "more than %d values at once", VALUES);
    if (bytes == 0)
        return reader_expected(&e->r, "a name");
    e->values[e->used++] = *out;
    return read_call(e, name, bytes, first, out);
}

static bool read_operand(evaluator *e, expr_value *out)
{
    const char *start = (reader_peek(&e->r), e->r.at);
    bool        pointer = false, ok;
    expr_tensor at;
    if (e->nesting == NESTING)
        return reader_error(&e->r, start, "nested more than %d deep", NESTING);
    e->nesting++;
    if (reader_starts_swizzle(&e->r))
        ok = read_swizzled(e, out);
    else
        ok = read_printed_pointer(e, &pointer, &at) &&
             (pointer ? read_tensor(e, start, at, out) : read_plain(e, out));
    while (ok && (reader_peek(&e->r) == '(' || reader_peek(&e->r) == '.'))
        ok = reader_peek(&e->r) == '(' ? read_application(e, start, out) : read_member(e, out);
    e->nesting--;
    return ok;
}

/* Operands and the signs of `signs` between them, the next of which `read` reads; from left to right. */
static bool read_chain(evaluator *e, const char *signs, bool (*read)(evaluator *e, expr_value *out),
                       expr_value *out)
{
    const char *start = (reader_peek(&e->r), e->r.at);
    if (!read(e, out))
        return false;
    while (reader_peek(&e->r) > 0 && strchr(signs, reader_peek(&e->r)) != NULL) {
        char sign = *e->r.at++;
        if (e->used == VALUES)
            return reader_error(&e->r, start, "more than %d values at once", VALUES);
        expr_value *right = &e->values[e->used++];
        if (!read(e, right))
            return false;
        expr_value left = *out;
        *out = value_calculate(&left, sign, right);
        e->used--;
        if (!settle(e, start, out))
            return false;
    }
    return true;
}

static bool read_term(evaluator *e, expr_value *out) { return read_chain(e, "*/%", read_operand, out); }

static bool read_expression(evaluator *e, expr_value *out) { return read_chain(e, "+-", read_term, out); }

/* The type of elements that the expression is, as in `using Element = half_t`; NULL: it is another expression. */
static const element_type *whole_type(evaluator *e)
{
    const char         *start = e->r.at;
    size_t              bytes;
    const char         *name = read_word(e, &bytes);
    const element_type *type = bytes > 0 ? session_type(e->session, name, bytes) : NULL;
    if (type != NULL && reader_peek(&e->r) < 0)
        return type;
    e->r.at = start;
    return NULL;
}

ptxpack_status expr_evaluate(expr_session *s, const char *text, size_t from, size_t bytes, expr_value *value,
                             bool *assigned)
{
    evaluator   e = {.r = reader_begin(text, bytes),
                     .session = s,
                     .values = (expr_value *)malloc(VALUES * sizeof *e.values)};
    const char *name = NULL;
    size_t      name_bytes = 0, begin = statement_name(text, from, bytes, &name, &name_bytes);
    *assigned = begin > 0;
    if (e.values == NULL)
        return ptxpack_fail(NULL, PTXPACK_E_MEMORY, "out of memory");
    session_drop_texts(s);
    e.r.at = text + (begin > 0 ? begin : from);
    const element_type *type = begin > 0 ? whole_type(&e) : NULL;
    if (type != NULL)
        *value = value_of_text(s, strdup(type->name));
    bool ok = type != NULL || (read_expression(&e, value) && reader_expect_end(&e.r));
    free(e.values);
    if (ok && value->kind == EXPR_ORDER && begin == 0)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "LayoutLeft and LayoutRight are only arguments");
    if (ok && begin > 0 &&
        !(type != NULL ? session_assign_type(s, name, name_bytes, type)
                       : session_assign(s, name, name_bytes, value)))
        ok = reader_error(&e.r, name, "%s", ptxpack_detail(NULL));
    if (!ok && begin > 0)
        session_forget(s, name, name_bytes);
    return ok ? PTXPACK_OK : PTXPACK_E_ARG;
}
