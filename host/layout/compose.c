/* compose.c - composition, and operations that follow a tiler.
 *
 * a(b(i)) is composed mode by mode of b.  That is correct if the digits that b's modes contribute to one mode
 * of a never carry into a's next mode, which is checked here.  What this refuses can still be a layout, which is
 * then found by trying every index. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"
#include "loader/loader.h"

/* ---- mode by mode ---------------------------------------------------------------------------------- */
__attribute__((format(printf, 2, 3))) static bool refuse(composing *c, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(c->why, sizeof c->why, format, arguments);
    va_end(arguments);
    return false;
}

/* Note `extent` steps of `step` along item i of a. */
static bool move(composing *c, int i, int64_t extent, int64_t step)
{
    int64_t distance, *side = step < 0 ? &c->down[i] : &c->up[i];
    if (!mul_into(extent - 1, step < 0 ? -step : step, &distance) || !add_into(*side, distance, side))
        return refuse(c, "%lld steps of %lld overflow 64 bits", (long long)extent, (long long)step);
    return true;
}

/* A mode of the result from a mode extent:step of b that lies in item i of a. */
static bool piece(composing *c, flat_layout *result, int i, int64_t extent, int64_t step)
{
    int64_t stride;
    if (!mul_into(step, c->a.stride[i], &stride))
        return refuse(c, "stride %lld times %lld overflows 64 bits", (long long)step,
                      (long long)c->a.stride[i]);
    flat_push(result, extent, stride, c->a.kind[i]);
    return move(c, i, extent, step);
}

/* A terminal of a: its modes [begin, end). */
typedef struct terminal_modes {
    int begin, end;
} terminal_modes;

/* The mode extent:step of b, step != 0, through a terminal of a. */
static bool walk(composing *c, terminal_modes n, int64_t extent, int64_t step)
{
    flat_layout result;
    int64_t     sign = step < 0 ? -1 : 1, distance = step < 0 ? -step : step;
    result.modes = 0;
    for (int i = n.begin; i < n.end - 1; i++) {
        int64_t shape = c->a.shape[i];
        int64_t next = distance / shape, over = distance % shape; /* what is left of a step behind the mode */
        if (over != 0 && distance >= shape)
            return refuse(c, "stride %lld does not step over extent %lld evenly", (long long)(sign * distance),
                          (long long)shape);
        int64_t room = shape / distance, part = shape % distance; /* steps before the mode is left */
        room += part != 0;
        if (room > 1 && extent > 1) {
            int64_t taken = room < extent ? room : extent;
            if (extent % taken != 0)
                return refuse(c, "extent %lld is no multiple of the %lld steps that fit in a mode",
                              (long long)extent, (long long)taken);
            if (extent > room && part != 0)
                return refuse(c, "stride %lld does not divide extent %lld", (long long)distance,
                              (long long)shape);
            if (!piece(c, &result, i, taken, sign * distance))
                return false;
            extent /= taken;
        }
        distance = next + (over != 0);
    }
    if ((result.modes == 0 || extent != 1) && !piece(c, &result, n.end - 1, extent, sign * distance))
        return false;
    flat_emit(c->out, &result);
    return true;
}

/* The terminal of a that the basis path picks. */
static terminal_modes terminal_of(const composing *c, uint64_t path)
{
    const terminal_modes none = {0, 0};
    if (c->a_tree == NULL)
        return path == 0 ? (terminal_modes){0, c->a.modes} : none;
    tuple_node n = tuple_root(c->a_tree);
    for (; path != 0 && n.begin < n.end; path >>= 8)
        n = node_mode(n, (int)(path & 0xFF) - 1);
    return node_is_empty(n) ? none : (terminal_modes){n.begin, n.end};
}

/* Do the digits that b's modes add up to stay inside the modes of this terminal?  Its last mode has no
 * end. */
static bool digits_stay(composing *c, terminal_modes n)
{
    uint32_t up = 0, down = 0;
    for (int i = n.begin; i < n.end; i++) {
        int64_t shape = c->a.shape[i];
        if (i < n.end - 1 && (c->up[i] >= shape || c->down[i] >= shape))
            return refuse(c, "its modes reach %lld steps into a mode of extent %lld and would carry",
                          (long long)(c->up[i] >= shape ? c->up[i] : c->down[i]), (long long)shape);
        up |= (uint32_t)(c->up[i] > 0) << i;
        down |= (uint32_t)(c->down[i] > 0) << i;
    }
    if (up != 0 && down != 0 && (up != down || (up & (up - 1)) != 0))
        return refuse(c, "its modes step up and down in different modes, and would borrow");
    return true;
}

void compose_begin(composing *c, layout_builder *out)
{
    c->out = out;
    c->a_tree = NULL;
    if (c->a.modes == 0)
        flat_push(&c->a, 1, 0, 0);
    memset(c->up, 0, sizeof c->up[0] * (size_t)c->a.modes);
    memset(c->down, 0, sizeof c->down[0] * (size_t)c->a.modes);
}

static bool compose_mode(composing *c, int64_t extent, int64_t step, uint64_t path)
{
    if (step != 0 || path != 0) {
        terminal_modes picked = terminal_of(c, path);
        if (picked.begin >= picked.end)
            return refuse(c, "a stride steps along a mode that is not there");
        if (step != 0)
            return walk(c, picked, extent, step) && digits_stay(c, picked);
    }
    layout_leaf(c->out, extent, 0, 0);
    return true;
}

bool compose_node(composing *c, const ptxpack_layout *b, tuple_node n)
{
    if (node_is_leaf(n))
        return compose_mode(c, b->shape.value[n.begin], b->stride.value[n.begin], b->stride.kind[n.begin]);
    layout_open(c->out);
    for (tuple_node m = node_first(n); m.begin < n.end; m = node_next(n, m))
        if (!compose_node(c, b, m))
            return false;
    layout_close(c->out);
    return true;
}

bool compose_flat(composing *c, const flat_layout *b)
{
    if (b->modes == 0)
        return compose_mode(c, 1, 0, 0);
    if (b->modes > 1)
        layout_open(c->out);
    for (int i = 0; i < b->modes; i++)
        if (!compose_mode(c, b->shape[i], b->stride[i], b->kind[i]))
            return false;
    if (b->modes > 1)
        layout_close(c->out);
    return true;
}

/* ---- where no rule about single modes helps ---------------------------------------------------------- */
/* Then the function a(b(i)) is looked at itself.  A mode s:d of b becomes f(i) = a(i d), i < s.  That is a layout if s has
 * factors p0 p1 ... whose steps add up: f(i + p0 j) = f(i) + j f(p0), and so on.  Together the modes are a(b(i)) only if none
 * of their steps carries into another one's, which is tried for every i. */
enum { INDICES = 1 << 16 }; /* that are tried at most */

/* The offset of an index x >= 0; the last mode has no end. */
static bool offset_of(const flat_layout *a, int64_t x, int64_t *offset)
{
    *offset = 0;
    for (int i = 0; i < a->modes; i++) {
        int64_t step, digit = i < a->modes - 1 ? x % a->shape[i] : x;
        if (!mul_into(digit, a->stride[i], &step) || !add_into(*offset, step, offset))
            return false;
        x = i < a->modes - 1 ? x / a->shape[i] : 0;
    }
    return true;
}

/* f(i) = a(i step), i < extent */
typedef struct mode_function {
    const flat_layout *a;
    int64_t            extent, step;
} mode_function;

static bool adds_up(const mode_function *f, int64_t place, int64_t factor)
{
    int64_t stride, near, far, both, sum;
    if (!offset_of(f->a, place * f->step, &stride))
        return false;
    for (int64_t j = 1; j < factor; j++)
        for (int64_t i = 0; i < place; i++)
            if (!mul_into(j, stride, &far) || !offset_of(f->a, i * f->step, &near) ||
                !add_into(near, far, &sum) || !offset_of(f->a, (i + place * j) * f->step, &both) || both != sum)
                return false;
    return true;
}

/* The factors from `place` on, into *out; of prime factors it is tried which one comes next. */
static bool find_factors(const mode_function *f, int64_t place, flat_layout *out)
{
    if (place == f->extent)
        return true;
    int64_t rest = f->extent / place;
    for (int64_t factor = 2; factor <= rest; factor++) {
        if (rest % factor != 0 || out->modes == PTXPACK_TUPLE_ITEMS)
            continue;
        bool prime = true;
        for (int64_t d = 2; d * d <= factor; d++)
            prime = prime && factor % d != 0;
        flat_layout before = *out;
        int64_t     stride;
        if (prime && adds_up(f, place, factor) && offset_of(f->a, place * f->step, &stride)) {
            flat_add(out, factor, stride, 0);
            if (find_factors(f, place * factor, out))
                return true;
            *out = before;
        }
    }
    return false;
}

/* Is a(b(i)) the sum of what the modes of b give, for every i? */
static bool sums_are_right(const flat_layout *a, const ptxpack_layout *b, tuple_node m, int64_t size)
{
    for (int64_t i = 0; i < size; i++) {
        int64_t rest = i, index = 0, sum = 0, whole;
        for (int k = m.begin; k < m.end; k++) {
            int64_t step = rest % b->shape.value[k] * b->stride.value[k], part;
            if (!offset_of(a, step, &part) || !add_into(sum, part, &sum) || !add_into(index, step, &index))
                return false;
            rest /= b->shape.value[k];
        }
        if (!offset_of(a, index, &whole) || whole != sum)
            return false;
    }
    return true;
}

/* Nested as b, each mode with its factors. */
static bool emit_modes(const flat_layout *a, layout_builder *out, const ptxpack_layout *b, tuple_node n)
{
    if (node_is_leaf(n)) {
        mode_function f = {a, b->shape.value[n.begin], b->stride.value[n.begin]};
        flat_layout   factors = {.modes = 0};
        if (!find_factors(&f, 1, &factors))
            return false;
        flat_emit(out, &factors);
        return true;
    }
    layout_open(out);
    for (tuple_node m = node_first(n); m.begin < n.end; m = node_next(n, m))
        if (!emit_modes(a, out, b, m))
            return false;
    layout_close(out);
    return true;
}

bool compose_exactly(const flat_layout *a, layout_builder *out, const ptxpack_layout *b, tuple_node m)
{
    int64_t size, most;
    if (!node_product((tuple_node){&b->shape, m.begin, m.end, m.level}, &size) || size > INDICES)
        return false;
    for (int i = m.begin; i < m.end; i++)
        if (b->stride.value[i] < 0 || b->stride.kind[i] != 0 ||
            !mul_into(b->shape.value[i], b->stride.value[i], &most))
            return false;
    return out->shape.t->status == PTXPACK_OK && sums_are_right(a, b, m, size) && emit_modes(a, out, b, m);
}

/* ---- tilers ---------------------------------------------------------------------------------------- */
bool tiling_error(const tiling *t, tuple_node n, const ptxpack_layout *tile, tuple_node m, const char *why)
{
    layout_error("%s of %s and %s: %s", t->name, layout_node_text(t->l, n).text, layout_node_text(tile, m).text,
                 why);
    return false;
}

/* Where a tiler has `_`, l is copied; where it is a pair already, too. */
static bool tile_none(const tiling *t, layout_builder *out, tuple_node n, tuple_node m)
{
    tuple_node first = node_first(n);
    if (t->rests == NULL) {
        layout_copy(out, t->l, n);
        return true;
    }
    if (node_is_leaf(n) || node_rank(n) != 2)
        return tiling_error(t, n, t->tiler, m, "no pair to take apart");
    layout_copy(out, t->l, first);
    layout_copy(t->rests, t->l, node_next(n, first));
    return true;
}

static bool tile_node(const tiling *t, layout_builder *out, tuple_node n, tuple_node m)
{
    if (node_is_whole(t->tiler, m))
        return tile_none(t, out, n, m);
    if (node_is_integer_tile(t->tiler, m)) {
        ptxpack_layout first; /* n:1; but in CuTe a composition with 1 is one with 1:1, not 1:0 */
        layout_builder b = layout_begin(&first);
        int64_t        extent = t->tiler->shape.value[m.begin];
        layout_leaf(&b, extent, extent != 1 || !t->keeps, 0);
        return t->whole(t, out, n, &first, tuple_root(&first.shape));
    }
    if (!node_is_tiler(t->tiler, m))
        return t->whole(t, out, n, t->tiler, m);
    if (node_rank(m) > node_rank(n))
        return tiling_error(t, n, t->tiler, m, "the tiler has more modes");
    layout_builder *rests = t->rests != NULL ? t->rests : out;
    tuple_node      k = node_first(m);
    layout_open(out);
    if (rests != out)
        layout_open(rests);
    for (tuple_node i = node_first(n); i.begin < n.end; i = node_next(n, i)) {
        if (k.begin < m.end) {
            if (!tile_node(t, out, i, k))
                return false;
            k = node_next(m, k);
        } else if (t->keeps) {
            layout_copy(rests, t->l, i);
        }
    }
    layout_close(out);
    if (rests != out)
        layout_close(rests);
    return true;
}

/* The result of a tiling; if it did not fit, an error that names its operands. */
static void tiled(const tiling *t, bool done, ptxpack_layout *out)
{
    char why[160];
    if (done && out->shape.status != PTXPACK_OK) {
        snprintf(why, sizeof why, "%s", ptxpack_detail(NULL));
        tiling_error(t, tuple_root(&t->l->shape), t->tiler, tuple_root(&t->tiler->shape), why);
    } else if (!done) {
        out->shape.status = PTXPACK_E_ARG;
    }
}

void tile_by(tiling *t, ptxpack_layout *out)
{
    layout_builder b = layout_begin(out);
    t->rests = NULL;
    tiled(t, tile_node(t, &b, tuple_root(&t->l->shape), tuple_root(&t->tiler->shape)), out);
    layout_settle(out);
    layout_recompose(out, t->l);
}

void tile_by_gathered(tiling *t, ptxpack_layout *out)
{
    ptxpack_layout second;
    layout_builder b = layout_begin(out), rests = layout_begin(&second);
    t->rests = &rests;
    layout_open(&b);
    bool done = tile_node(t, &b, tuple_root(&t->l->shape), tuple_root(&t->tiler->shape));
    if (done && second.shape.status != PTXPACK_OK)
        out->shape.status = second.shape.status;
    else if (done)
        layout_copy(&b, &second, tuple_root(&second.shape));
    layout_close(&b);
    tiled(t, done, out);
    layout_settle(out);
    layout_recompose(out, t->l);
}

/* ---- composition ----------------------------------------------------------------------------------- */
/* a nested as the coprofile of b, and coalesced at its terminals: into *tree, whose items are those of
 * c->a. */
static bool compose_tree(composing *c, const ptxpack_layout *a, const ptxpack_layout *b, ptxpack_layout *tree)
{
    ptxpack_tuple coprofile = ptxpack_coprofile(b);
    *tree = coalesce_beyond(a, &coprofile);
    if (tree->shape.status != PTXPACK_OK)
        return false;
    c->a.modes = 0;
    for (int i = 0; i < tree->shape.items; i++)
        flat_push(&c->a, tree->shape.value[i], tree->stride.value[i], tree->stride.kind[i]);
    return true;
}

static bool compose_whole(const tiling *t, layout_builder *out, tuple_node n, const ptxpack_layout *b,
                          tuple_node m)
{
    composing c;
    if (!layout_has_basis(b, m)) {
        layout_mark before = layout_here(out);
        flat_coalesced(t->l, n, true, &c.a);
        compose_begin(&c, out);
        if (compose_node(&c, b, m))
            return true;
        layout_take_back(out, &before);
        return (!layout_has_basis(t->l, n) && compose_exactly(&c.a, out, b, m)) ||
               tiling_error(t, n, b, m, c.why);
    }
    ptxpack_layout part_a, part_b, tree;
    layout_node(t->l, n, &part_a);
    layout_node(b, m, &part_b);
    if (!compose_tree(&c, &part_a, &part_b, &tree))
        return false;
    compose_begin(&c, out);
    c.a_tree = &tree.shape;
    return compose_node(&c, b, m) || tiling_error(t, n, b, m, c.why);
}

/* The swizzle of b moves to the outside of a's layout.  Two swizzles are one only if one of them is the
 * identity, or if both are equal and cancel. */
static ptxpack_layout compose_twice_swizzled(const ptxpack_layout *a, const ptxpack_layout *b)
{
    ptxpack_layout inner = layout_inner(a), out = compose_swizzled(&inner, b);
    if (out.shape.status != PTXPACK_OK)
        return out;
    if (!out.composed) {
        layout_recompose(&out, a);
        return out;
    }
    bool same = a->swizzle.bits == out.swizzle.bits && a->swizzle.base == out.swizzle.base &&
                a->swizzle.shift == out.swizzle.shift;
    if (!same || a->offset != 0 || out.offset != 0)
        return layout_error("composition: %s and %s are both swizzled", layout_text(a).text,
                            layout_text(b).text);
    return layout_inner(&out);
}

ptxpack_layout ptxpack_composition(const ptxpack_layout *a, const ptxpack_layout *b)
{
    GIVEN_LAYOUT(a);
    GIVEN_LAYOUT(b);
    ptxpack_status status = layout_wanted("composition", a);
    if (status != PTXPACK_OK || b->shape.status != PTXPACK_OK)
        return layout_failed(status != PTXPACK_OK ? status : b->shape.status);
    if (b->composed && a->composed)
        return compose_twice_swizzled(a, b);
    if (b->composed)
        return compose_swizzled(a, b);
    tiling         t = {.name = "composition", .l = a, .tiler = b, .whole = compose_whole};
    ptxpack_layout out;
    tile_by(&t, &out);
    return out;
}

ptxpack_layout ptxpack_with_shape(const ptxpack_layout *l, const ptxpack_tuple *shape)
{
    GIVEN_LAYOUT(l);
    GIVEN_TUPLE(shape);
    ptxpack_layout compact = ptxpack_make_layout_left(shape);
    return ptxpack_composition(l, &compact);
}
