/* internal.h - private: walking nested tuples, and building them item by item. */
#ifndef PTXPACK_LAYOUT_INTERNAL_H
#define PTXPACK_LAYOUT_INTERNAL_H
#include <string.h>

#include "layout.h"
#include "notation.h"

/* ---- reading -------------------------------------------------------------------------------------- */
/* A tuple or integer inside t: items [begin, end), with `level` parentheses outside of it.  Small enough to
 * be passed in registers. */
typedef struct tuple_node {
    const ptxpack_tuple *t;
    int16_t              begin, end, level;
} tuple_node;

static inline tuple_node tuple_root(const ptxpack_tuple *t) { return (tuple_node){t, 0, t->items, 0}; }

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

/* Where the mode of n that starts at `begin` ends: neighbours are in one mode when a pair of parentheses
 * inside n's own holds them both. */
static inline int16_t node_mode_end(tuple_node n, int begin)
{
    int end = begin + 1;
    while (end < n.end && n.t->shared[end - 1] >= n.level + 2)
        end++;
    return (int16_t)end;
}

static inline tuple_node node_inside(tuple_node n, int16_t begin)
{
    return (tuple_node){n.t, begin, node_mode_end(n, begin), (int16_t)(n.level + 1)};
}

static inline tuple_node node_none(tuple_node n)
{
    return (tuple_node){n.t, n.end, n.end, (int16_t)(n.level + 1)};
}

/* The modes of a tuple:  for (tuple_node m = node_first(n); m.begin < n.end; m = node_next(n, m))
 * Of a leaf: the leaf itself.  Of (): none. */
static inline tuple_node node_first(tuple_node n)
{
    if (node_is_single(n))
        return n.t->kind[n.begin] == PTXPACK_EMPTY ? node_none(n) : n;
    return node_inside(n, n.begin);
}

static inline tuple_node node_next(tuple_node n, tuple_node mode)
{
    if (mode.end >= n.end)
        return node_none(n);
    return node_inside(n, mode.end);
}

int           node_rank(tuple_node n);           /* 1 of a leaf */
tuple_node    node_mode(tuple_node n, int mode); /* begin == end when there is none */
bool          node_congruent(tuple_node a, tuple_node b);
bool          node_product(tuple_node n, int64_t *product); /* false: overflow */
ptxpack_tuple node_tuple(tuple_node n);                     /* n as a value of its own */

/* ---- building ------------------------------------------------------------------------------------- */
/* Items are appended from left to right; *t becomes an error if they exceed the limits. */
typedef struct tuple_builder {
    ptxpack_tuple *t;
    int            depth, lowest; /* now; and since the last item */
    uint8_t        opened_at[PTXPACK_TUPLE_DEPTH + 1];
} tuple_builder;

void build_too_long(tuple_builder *b); /* *t becomes an error */
void build_too_deep(tuple_builder *b);

static inline tuple_builder build_begin(ptxpack_tuple *t)
{
    t->status = PTXPACK_OK;
    t->items = 0;
    return (tuple_builder){.t = t};
}

static inline void build_open(tuple_builder *b)
{
    if (b->t->status != PTXPACK_OK)
        return;
    if (b->depth == PTXPACK_TUPLE_DEPTH)
        build_too_deep(b);
    else
        b->opened_at[b->depth++] = b->t->items;
}

static inline void build_leaf(tuple_builder *b, int64_t value, uint64_t kind)
{
    ptxpack_tuple *t = b->t;
    int            i = t->items;
    if (t->status != PTXPACK_OK)
        return;
    if (i == PTXPACK_TUPLE_ITEMS) {
        build_too_long(b);
        return;
    }
    if (i > 0)
        t->shared[i - 1] = (uint8_t)b->lowest;
    t->depth[i] = (uint8_t)b->depth;
    t->shared[i] = 0;
    t->value[i] = value;
    t->kind[i] = kind;
    t->items = (uint8_t)(i + 1);
    b->lowest = b->depth;
}

static inline void build_close(tuple_builder *b)
{
    if (b->t->status != PTXPACK_OK)
        return;
    b->depth--;
    if (b->opened_at[b->depth] == b->t->items) /* nothing in between */
        build_leaf(b, 0, PTXPACK_EMPTY);
    if (b->lowest > b->depth)
        b->lowest = b->depth;
}

/* n as one mode. */
static inline void build_node(tuple_builder *b, tuple_node n)
{
    ptxpack_tuple *t = b->t;
    int            first = t->items, count = n.end - n.begin, outside = b->depth - n.level, deepest = 0;
    if (t->status != PTXPACK_OK || count <= 0)
        return;
    if (first + count > PTXPACK_TUPLE_ITEMS) {
        build_too_long(b);
        return;
    }
    if (first > 0)
        t->shared[first - 1] = (uint8_t)b->lowest;
    for (int i = 0; i < count; i++) {
        int      depth = n.t->depth[n.begin + i] + outside;
        uint64_t kind = n.t->kind[n.begin + i];
        deepest = depth + (kind == PTXPACK_EMPTY) > deepest ? depth + (kind == PTXPACK_EMPTY) : deepest;
        t->depth[first + i] = (uint8_t)depth;
        t->shared[first + i] = (uint8_t)(n.t->shared[n.begin + i] + outside);
        t->value[first + i] = n.t->value[n.begin + i];
        t->kind[first + i] = kind;
    }
    if (deepest > PTXPACK_TUPLE_DEPTH) {
        build_too_deep(b);
        return;
    }
    t->items = (uint8_t)(first + count);
    t->shared[t->items - 1] = 0;
    b->lowest = b->depth;
}

/* The modes of n; of a leaf, the leaf. */
static inline void build_modes(tuple_builder *b, tuple_node n)
{
    for (tuple_node m = node_first(n); m.begin < n.end; m = node_next(n, m))
        build_node(b, m);
}

ptxpack_tuple tuple_profile(const ptxpack_tuple *t); /* nested as t is, integers yet to be given */

/* ---- errors ----------------------------------------------------------------------------------------- */
/* Puts the operation and its operand before the message of what did not fit while *t was built. */
void tuple_name(ptxpack_tuple *t, const char *name, const ptxpack_tuple *operand);

/* The first status of these that is not PTXPACK_OK. */
static inline ptxpack_status error_of(const ptxpack_tuple *a, const ptxpack_tuple *b)
{
    return a->status != PTXPACK_OK ? a->status : b->status;
}

static inline ptxpack_status error_of_three(const ptxpack_tuple *a, const ptxpack_tuple *b,
                                            const ptxpack_tuple *c)
{
    return a->status != PTXPACK_OK ? a->status : error_of(b, c);
}

value_text node_text(tuple_node n);

static inline bool mul_into(int64_t a, int64_t b, int64_t *out) /* false: overflow */
{
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool add_into(int64_t a, int64_t b, int64_t *out) { return !__builtin_add_overflow(a, b, out); }

/* ---- layouts --------------------------------------------------------------------------------------- */
/* No tiler: neither <...> nor a bare `_` or integer tile, which is the only mode of one. */
static inline bool layout_is_plain(const ptxpack_layout *l)
{
    return l->tiler[0] == 0 && l->stride.kind[0] != PTXPACK_UNDERSCORE;
}

/* The status of an operand that must be a layout; a tiler is an error. */
ptxpack_status layout_wanted(const char *name, const ptxpack_layout *l);
ptxpack_status integers_wanted(const char *name, const ptxpack_layout *l); /* no basis strides, either */

/* Layouts are large and mostly unused: these copy only what is used; of a value with an error its status. */
void tuple_assign(ptxpack_tuple *to, const ptxpack_tuple *from);
void layout_assign(ptxpack_layout *to, const ptxpack_layout *from);
/* Check a layout that was built: positive extents, a size and a cosize that fit.  The caller ensures that shape
 * and stride are congruent.  An error becomes its status. */
void layout_settle(ptxpack_layout *l);
/* A layout made of l's modes gets l's swizzle and offset, with which its offsets must fit. */
void           layout_recompose(ptxpack_layout *out, const ptxpack_layout *l);
ptxpack_layout layout_inner(const ptxpack_layout *l); /* without swizzle and offset */
/* <m0,m1,...>; count is from 1 to PTXPACK_TUPLE_ITEMS. */
void tiler_join(int count, const ptxpack_layout *const *modes, ptxpack_layout *out);
/* The layout (or tiler) of a node of l->shape, with l's swizzle and offset. */
void       layout_node(const ptxpack_layout *l, tuple_node n, ptxpack_layout *out);
value_text layout_node_text(const ptxpack_layout *l, tuple_node n);
bool       layout_cosize(const ptxpack_layout *l, tuple_node n, int64_t *cosize); /* false: overflow */
bool       layout_has_basis(const ptxpack_layout *l, tuple_node n);

static inline bool node_is_tiler(const ptxpack_layout *l, tuple_node n) /* written <...> */
{
    return n.begin < n.end && l->tiler[n.begin] > n.level;
}

static inline bool node_is_integer_tile(const ptxpack_layout *l, tuple_node n)
{
    return node_is_leaf(n) && l->stride.kind[n.begin] == PTXPACK_UNDERSCORE && l->shape.kind[n.begin] == 0;
}

static inline bool node_is_whole(const ptxpack_layout *l, tuple_node n) /* written _ */
{
    return node_is_leaf(n) && l->shape.kind[n.begin] == PTXPACK_UNDERSCORE;
}

/* Shape and stride built together: the shape has the nesting, which the stride copies. */
typedef struct layout_builder {
    tuple_builder  shape;
    ptxpack_tuple *stride;
} layout_builder;
void layout_copy(layout_builder *b, const ptxpack_layout *l, tuple_node n); /* n of l->shape, as one mode */

static inline layout_builder layout_begin(ptxpack_layout *l)
{
    l->composed = false;
    l->offset = 0;
    l->swizzle = (ptxpack_swizzle){0, 0, 0};
    memset(l->tiler, 0, sizeof l->tiler);
    l->stride.status = PTXPACK_OK;
    l->stride.items = 0;
    return (layout_builder){build_begin(&l->shape), &l->stride};
}

static inline void layout_open(layout_builder *b) { build_open(&b->shape); }

/* The stride's nesting from item `first` on; the one before is not the last any more. */
static inline void layout_nest(layout_builder *b, int first)
{
    const ptxpack_tuple *shape = b->shape.t;
    ptxpack_tuple       *stride = b->stride;
    if (first > 0)
        stride->shared[first - 1] = shape->shared[first - 1];
    for (int i = first; i < shape->items; i++) {
        stride->depth[i] = shape->depth[i];
        stride->shared[i] = shape->shared[i];
    }
    stride->items = shape->items;
    stride->status = shape->status;
}

static inline void layout_leaf(layout_builder *b, int64_t shape, int64_t stride, uint64_t kind)
{
    int i = b->shape.t->items;
    build_leaf(&b->shape, shape, 0);
    if (i < PTXPACK_TUPLE_ITEMS) {
        b->stride->value[i] = stride;
        b->stride->kind[i] = kind;
    }
    layout_nest(b, i);
}

static inline void layout_close(layout_builder *b)
{
    int i = b->shape.t->items;
    build_close(&b->shape);
    if (i < b->shape.t->items) { /* () */
        b->stride->value[i] = 0;
        b->stride->kind[i] = PTXPACK_EMPTY;
        layout_nest(b, i);
    }
}

/* Where a builder stands, and back to it: what was built since then is forgotten. */
typedef struct layout_mark {
    layout_builder builder;
    int            items;
} layout_mark;

static inline layout_mark layout_here(const layout_builder *b) { return (layout_mark){*b, b->shape.t->items}; }

static inline void layout_take_back(layout_builder *b, const layout_mark *mark)
{
    *b = mark->builder;
    b->shape.t->items = b->stride->items = (uint8_t)mark->items;
}

/* Modes without nesting. */
typedef struct flat_layout {
    int      modes;
    int64_t  shape[PTXPACK_TUPLE_ITEMS], stride[PTXPACK_TUPLE_ITEMS];
    uint64_t kind[PTXPACK_TUPLE_ITEMS];
} flat_layout;

static inline void flat_push(flat_layout *f, int64_t shape, int64_t stride, uint64_t kind)
{
    f->shape[f->modes] = shape;
    f->stride[f->modes] = stride;
    f->kind[f->modes++] = kind;
}

/* One more mode, merged with the last one where it goes on as that ends. */
static inline void flat_add(flat_layout *f, int64_t shape, int64_t stride, uint64_t kind)
{
    int     last = f->modes - 1;
    int64_t end, merged;
    if (shape == 1)
        return;
    if (last >= 0 && f->kind[last] == kind && mul_into(f->shape[last], f->stride[last], &end) &&
        end == stride && mul_into(f->shape[last], shape, &merged))
        f->shape[last] = merged;
    else
        flat_push(f, shape, stride, kind);
}

/* The leaves of a node, merged.  `beyond`: equal outside the domain, too. */
void flat_coalesced(const ptxpack_layout *l, tuple_node n, bool beyond, flat_layout *f);
void flat_emit(layout_builder *b, const flat_layout *f); /* no modes: 1:0 */
/* Complement of a node of l for a cotarget of `count` extents, coalesced.  `whole`: it must reach all of the
 * cotarget; otherwise gaps are followed by a mode beyond all of l, even where its extent is 1.  false: there
 * is none, and a line says why. */
bool complement_flat(const ptxpack_layout *l, tuple_node n, int count, const int64_t *cotarget, bool whole,
                     flat_layout *out);

/* l coalesced at the terminals of `profile`, equal outside the domain, too. */
ptxpack_layout coalesce_beyond(const ptxpack_layout *l, const ptxpack_tuple *profile);

/* ---- composition and tilers ------------------------------------------------------------------------- */
/* a o b, put together mode by mode of b in the builder of the result. */
typedef struct composing {
    layout_builder      *out;
    flat_layout          a;      /* equal outside its domain, too: its last mode has no end */
    const ptxpack_tuple *a_tree; /* nested as b's coprofile; NULL: not at all */
    int64_t up[PTXPACK_TUPLE_ITEMS], down[PTXPACK_TUPLE_ITEMS]; /* how far b has moved in a's modes */
    char    why[160];                                           /* of the last that returned false */
} composing;
void compose_begin(composing *c, layout_builder *out); /* c->a is there */
bool compose_node(composing *c, const ptxpack_layout *b, tuple_node n);
bool compose_flat(composing *c, const flat_layout *b);
/* The same for a node of b by trying every index, without basis strides; false, without a message: too many, or a(b(i)) is
 * no layout. */
bool compose_exactly(const flat_layout *a, layout_builder *out, const ptxpack_layout *b, tuple_node m);

/* An operation of l and a tiler: mode by mode for <...>, nothing for `_`, otherwise `whole`. */
typedef struct tiling tiling;
struct tiling {
    const char           *name;
    const ptxpack_layout *l, *tiler;
    bool                  keeps; /* the modes of l that the tiler does not reach stay */
    /* The result for one node of each; false, with a message: there is none. */
    bool (*whole)(const tiling *t, layout_builder *out, tuple_node n, const ptxpack_layout *tile, tuple_node m);
    layout_builder *rests; /* where the second modes of pairs are gathered; NULL: beside the first ones */
};
/* Checked by layout_settle, with the swizzle of l. */
void tile_by(tiling *t, ptxpack_layout *out);
void tile_by_gathered(tiling *t, ptxpack_layout *out); /* (first modes, second modes) of all pairs */
/* The error of a `whole` that is impossible. */
bool tiling_error(const tiling *t, tuple_node n, const ptxpack_layout *tile, tuple_node m, const char *why);

/* ---- swizzles ---------------------------------------------------------------------------------------- */
static inline int64_t power_of_2(int exponent) { return (int64_t)1 << exponent; }

static inline bool swizzle_ok(ptxpack_swizzle s)
{
    int distance = s.shift < 0 ? -s.shift : s.shift;
    return s.bits >= 0 && s.base >= 0 && distance >= s.bits && s.bits + s.base + distance <= 62;
}

static inline int64_t swizzle_y(ptxpack_swizzle s) /* the bits that it reads */
{
    return (power_of_2(s.bits) - 1) << (s.base + (s.shift > 0 ? s.shift : 0));
}

static inline int64_t swizzle_z(ptxpack_swizzle s) /* the bits that it changes */
{
    return (power_of_2(s.bits) - 1) << (s.base - (s.shift < 0 ? s.shift : 0));
}

/* ptxpack_slice_and_offset where the integers of coord are those of one thread: of a swizzled layout, all threads have the
 * same shape, in which the bits of the swizzle are modes of their own. */
ptxpack_slice slice_of_thread(const ptxpack_tuple *coord, const ptxpack_layout *l);
/* The bits that offsets of l can have set, without its swizzle; *shared: those that two modes have, which
 * carry into the bits above.  -1 if a mode has no bits of its own. */
int64_t bits_of(const ptxpack_layout *l, int64_t *shared);

/* l o swizzle as another swizzle o l, for all indices below size(l) and `reach`: l must map bits to bits
 * there.  And l o (swizzle o 0 o b). */
ptxpack_layout swizzle_domain(const char *name, const ptxpack_layout *l, ptxpack_swizzle swizzle,
                              int64_t reach);
ptxpack_layout compose_swizzled(const ptxpack_layout *l, const ptxpack_layout *b);
/* Puts the swizzle of block x (swizzle o 0 o tiler) on *out, which is the product without swizzles. */
void product_swizzled(const ptxpack_layout *block, const ptxpack_layout *tiler, ptxpack_layout *out);
#endif
