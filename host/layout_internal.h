/* layout_internal.h - private: walking nested tuples, and building them item by item. */
#ifndef PTXPACK_LAYOUT_INTERNAL_H
#define PTXPACK_LAYOUT_INTERNAL_H
#include "layout.h"

/* ---- reading -------------------------------------------------------------------------------------- */
/* A tuple or integer inside t: items [begin, end), with `level` parentheses outside of it. */
typedef struct tuple_node {
    const ptxpack_tuple *t;
    int                  begin, end, level;
} tuple_node;

static inline tuple_node tuple_root(const ptxpack_tuple *t)
{
    return (tuple_node){t, 0, t->items, 0};
}

static inline bool node_is_single(tuple_node n) /* one item with no parentheses of its own */
{
    return n.end - n.begin == 1 && n.t->depth[n.begin] == n.level;
}

static inline bool node_is_empty(tuple_node n) /* () */
{
    return node_is_single(n) && n.t->kind[n.begin] == PTXPACK_EMPTY;
}

static inline bool node_is_leaf(tuple_node n) /* an integer, basis or `_`; () is none */
{
    return node_is_single(n) && n.t->kind[n.begin] != PTXPACK_EMPTY;
}

/* Where the mode of n that starts at `begin` ends: neighbours are in one mode when a pair of parentheses inside
 * n's own holds them both. */
static inline int node_mode_end(tuple_node n, int begin)
{
    int last = begin;
    while (last + 1 < n.end && n.t->shared[last] >= n.level + 2)
        last++;
    return last + 1;
}

/* The modes of a tuple:  for (tuple_node m = node_first(n); m.begin < n.end; m = node_next(n, m))
 * Of a leaf: the leaf itself.  Of (): none. */
static inline tuple_node node_first(tuple_node n)
{
    if (node_is_single(n))
        return n.t->kind[n.begin] == PTXPACK_EMPTY ? (tuple_node){n.t, n.end, n.end, n.level + 1} : n;
    return (tuple_node){n.t, n.begin, node_mode_end(n, n.begin), n.level + 1};
}

static inline tuple_node node_next(tuple_node n, tuple_node mode)
{
    if (mode.end >= n.end)
        return (tuple_node){n.t, n.end, n.end, n.level + 1};
    return (tuple_node){n.t, mode.end, node_mode_end(n, mode.end), n.level + 1};
}

int        node_rank(tuple_node n);           /* 1 of a leaf                                          */
tuple_node node_mode(tuple_node n, int mode); /* begin == end when there is none                      */
bool       node_congruent(tuple_node a, tuple_node b);
bool       node_product(tuple_node n, int64_t *product); /* false: overflow */
ptxpack_tuple node_tuple(tuple_node n); /* n as a value of its own */

/* ---- building ------------------------------------------------------------------------------------- */
/* Items are appended from left to right; what exceeds the limits marks *t. */
typedef struct tuple_builder {
    ptxpack_tuple *t;
    int            depth, lowest; /* now; and since the last item */
    uint8_t        opened_at[PTXPACK_TUPLE_DEPTH + 1];
} tuple_builder;

tuple_builder build_begin(ptxpack_tuple *t);
void          build_open(tuple_builder *b);
void          build_close(tuple_builder *b);
void          build_leaf(tuple_builder *b, int64_t value, uint64_t kind);
void          build_node(tuple_builder *b, tuple_node n);  /* as one mode                                */
void          build_modes(tuple_builder *b, tuple_node n); /* the modes of n; of a leaf, the leaf        */
ptxpack_tuple tuple_profile(const ptxpack_tuple *t); /* nested as t is, integers yet to be given  */

/* ---- saying no -------------------------------------------------------------------------------------- */
/* Leave the line in ptxpack_detail(NULL).  The value has PTXPACK_E_ARG and is otherwise zero. */
ptxpack_tuple  tuple_no(const char *format, ...) __attribute__((format(printf, 1, 2)));
ptxpack_layout layout_no(const char *format, ...) __attribute__((format(printf, 1, 2)));
ptxpack_slice  slice_no(const char *format, ...) __attribute__((format(printf, 1, 2)));
ptxpack_layout layout_bad(ptxpack_status status); /* hand on what another value says */
ptxpack_tuple  tuple_bad(ptxpack_status status);

/* Texts of values for such lines: tuple_text(&t).text. */
typedef struct value_text {
    char text[160]; /* cut with "..." */
} value_text;
value_text tuple_text(const ptxpack_tuple *t);
value_text layout_text(const ptxpack_layout *l);
value_text node_text(tuple_node n);

static inline bool mul_into(int64_t a, int64_t b, int64_t *out) /* false: overflow */
{
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool add_into(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

/* ---- layouts --------------------------------------------------------------------------------------- */
/* Layouts are large and mostly unused: these copy what is used. */
void tuple_assign(ptxpack_tuple *to, const ptxpack_tuple *from);
void layout_assign(ptxpack_layout *to, const ptxpack_layout *from);
/* The checks of a layout that was put together: positive extents, a size and a cosize that fit.  Congruence is
 * the caller's business.  What is wrong becomes its status. */
void layout_settle(ptxpack_layout *l);
/* The layout (or tiler) of a node of l->shape, with l's swizzle and offset. */
void           layout_node(const ptxpack_layout *l, tuple_node n, ptxpack_layout *out);
bool           node_is_tiler(const ptxpack_layout *l, tuple_node n); /* written <...> */
bool           node_is_integer_tile(const ptxpack_layout *l, tuple_node n);
/* A layout made of l's modes gets l's swizzle and offset. */
void           layout_recompose(ptxpack_layout *out, const ptxpack_layout *l);
ptxpack_layout layout_inner(const ptxpack_layout *l); /* without swizzle and offset */

/* Shape and stride built together. */
typedef struct layout_builder {
    tuple_builder shape, stride;
} layout_builder;
layout_builder layout_begin(ptxpack_layout *l);
void           layout_open(layout_builder *b);
void           layout_close(layout_builder *b);
void           layout_leaf(layout_builder *b, int64_t shape, int64_t stride, uint64_t kind);
void           layout_copy(layout_builder *b, const ptxpack_layout *l, tuple_node n); /* n of l->shape, as one mode */
ptxpack_layout layout_end(layout_builder *b, const ptxpack_layout *l); /* settled */

/* The leaves of a node without their nesting. */
typedef struct flat_layout {
    int      modes;
    int64_t  shape[PTXPACK_TUPLE_ITEMS], stride[PTXPACK_TUPLE_ITEMS];
    uint64_t kind[PTXPACK_TUPLE_ITEMS];
} flat_layout;
flat_layout flat_of(const ptxpack_layout *l, tuple_node n);
/* Merged where neighbours continue each other.  `beyond`: equal outside the domain, too. */
flat_layout flat_coalesce(const flat_layout *f, bool beyond);
void        flat_emit(layout_builder *b, const flat_layout *f);
/* l coalesced at the terminals of `profile`, equal outside the domain, too. */
ptxpack_layout coalesce_beyond(const ptxpack_layout *l, const ptxpack_tuple *profile);
/* complement of l for a cotarget of `count` extents, as flat modes; `whole`: it must reach all of the cotarget.
 * false: there is none, and a line says why. */
bool           complement_flat(const ptxpack_layout *l, int count, const int64_t *cotarget, bool whole,
                               flat_layout *out);

/* ---- swizzles ---------------------------------------------------------------------------------------- */
/* l o swizzle as another swizzle o l, for all indices below size(l) and `reach`: l must map bits to bits there.
 * And l o (swizzle o 0 o b). */
ptxpack_layout swizzle_domain(const char *name, const ptxpack_layout *l, ptxpack_swizzle swizzle, int64_t reach);
ptxpack_layout compose_swizzled(const ptxpack_layout *l, const ptxpack_layout *b);
ptxpack_layout product_swizzled(const ptxpack_layout *block, const ptxpack_layout *tiler);
#endif
