/* build.c - nested tuples as flat arrays: walking them, building them, errors. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"
#include "loader/loader.h"

/* ---- walking -------------------------------------------------------------------------------------- */
int node_rank(tuple_node n)
{
    int rank = 0;
    for (tuple_node m = node_first(n); m.begin < n.end; m = node_next(n, m))
        rank++;
    return rank;
}

tuple_node node_mode(tuple_node n, int mode)
{
    tuple_node m = node_first(n);
    for (int i = 0; i < mode && m.begin < n.end; i++)
        m = node_next(n, m);
    return mode < 0 ? node_none(n) : m;
}

bool node_congruent(tuple_node a, tuple_node b)
{
    if (a.end - a.begin != b.end - b.begin)
        return false;
    for (int i = 0; i < a.end - a.begin; i++) {
        int x = a.begin + i, y = b.begin + i;
        if (a.t->depth[x] - a.level != b.t->depth[y] - b.level ||
            (x + 1 < a.end && a.t->shared[x] - a.level != b.t->shared[y] - b.level) ||
            (a.t->kind[x] == PTXPACK_EMPTY) != (b.t->kind[y] == PTXPACK_EMPTY))
            return false;
    }
    return true;
}

bool node_product(tuple_node n, int64_t *product)
{
    *product = 1;
    for (int i = n.begin; i < n.end; i++)
        if (n.t->kind[i] != PTXPACK_EMPTY && !mul_into(*product, n.t->value[i], product))
            return false;
    return true;
}

/* ---- building ------------------------------------------------------------------------------------- */
void build_too_long(tuple_builder *b)
{
    b->t->status = tuple_error("a tuple has more than %d items", PTXPACK_TUPLE_ITEMS).status;
}

void build_too_deep(tuple_builder *b)
{
    b->t->status = tuple_error("a tuple is nested more than %d deep", PTXPACK_TUPLE_DEPTH).status;
}

ptxpack_tuple node_tuple(tuple_node n)
{
    ptxpack_tuple out;
    tuple_builder b = build_begin(&out);
    build_node(&b, n);
    return out;
}

ptxpack_tuple tuple_profile(const ptxpack_tuple *t)
{
    ptxpack_tuple out;
    out.status = PTXPACK_OK;
    out.items = t->items;
    memcpy(out.depth, t->depth, t->items);
    memcpy(out.shared, t->shared, t->items);
    for (int i = 0; i < t->items; i++) {
        out.value[i] = 0;
        out.kind[i] = t->kind[i] == PTXPACK_EMPTY ? PTXPACK_EMPTY : 0;
    }
    return out;
}

/* ---- errors ----------------------------------------------------------------------------------------- */
ptxpack_tuple tuple_failed(ptxpack_status status) { return (ptxpack_tuple){.status = status}; }

ptxpack_layout layout_failed(ptxpack_status status)
{
    return (ptxpack_layout){.shape = {.status = status}, .stride = {.status = status}};
}

void tuple_name(ptxpack_tuple *t, const char *name, const ptxpack_tuple *operand)
{
    char why[160];
    if (t->status == PTXPACK_OK)
        return;
    snprintf(why, sizeof why, "%s", ptxpack_detail(NULL));
    t->status = tuple_error("%s of %s: %s", name, tuple_text(operand).text, why).status;
}

static ptxpack_status no(const char *format, va_list arguments)
{
    char line[512];
    vsnprintf(line, sizeof line, format, arguments);
    return ptxpack_fail(NULL, PTXPACK_E_ARG, "%s", line);
}

ptxpack_tuple tuple_error(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    ptxpack_status status = no(format, arguments);
    va_end(arguments);
    return tuple_failed(status);
}

ptxpack_layout layout_error(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    ptxpack_status status = no(format, arguments);
    va_end(arguments);
    return layout_failed(status);
}

ptxpack_slice slice_error(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    ptxpack_status status = no(format, arguments);
    va_end(arguments);
    return (ptxpack_slice){layout_failed(status), tuple_failed(status)};
}

static void shorten(char *text, size_t cap, size_t whole)
{
    if (whole >= cap)
        memcpy(text + cap - 4, "...", 4);
}

value_text tuple_text(const ptxpack_tuple *t)
{
    value_text out;
    shorten(out.text, sizeof out.text, ptxpack_tuple_print(t, out.text, sizeof out.text));
    return out;
}

value_text node_text(tuple_node n)
{
    ptxpack_tuple t = node_tuple(n);
    return tuple_text(&t);
}

value_text layout_text(const ptxpack_layout *l)
{
    value_text out;
    shorten(out.text, sizeof out.text, ptxpack_layout_print(l, out.text, sizeof out.text));
    return out;
}

value_text layout_node_text(const ptxpack_layout *l, tuple_node n)
{
    ptxpack_layout part;
    layout_node(l, n, &part);
    return layout_text(&part);
}
