/* layout_algebra.c - coalesce, filter, composition, complement, inverses: layouts as functions.
 *
 * Where CuTe's derivation of a result can go wrong without notice, it is checked here:
 *   composition  a(b(i)) is put together mode by mode of b.  That is right while the digits that b's modes
 *                contribute to one mode of a never carry into a's next mode.
 *   complement   gaps between strides that are no whole multiples of what lies below them leave elements out. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "layout_internal.h"

/* ---- coalesce and filter ------------------------------------------------------------------------------ */
flat_layout flat_of(const ptxpack_layout *l, tuple_node n)
{
    flat_layout f;
    f.modes = 0;
    for (int i = n.begin; i < n.end; i++) {
        if (l->shape.kind[i] == PTXPACK_EMPTY)
            continue;
        f.shape[f.modes] = l->shape.value[i];
        f.stride[f.modes] = l->stride.value[i];
        f.kind[f.modes++] = l->stride.kind[i];
    }
    return f;
}

/* From the last mode to the first: does a mode end where the next one begins? */
flat_layout flat_coalesce(const flat_layout *f, bool beyond)
{
    flat_layout back; /* in reverse */
    int64_t     end;
    back.modes = 0;
    for (int i = f->modes - 1; i >= 0; i--) {
        int64_t shape = f->shape[i];
        int     top = back.modes - 1;
        if (shape == 1 && i == f->modes - 1 && beyond)
            shape = 2; /* keeps what the layout does beyond its last mode */
        if (shape == 1)
            continue;
        if (top >= 0 && f->kind[i] == back.kind[top] && mul_into(shape, f->stride[i], &end) &&
            end == back.stride[top]) {
            back.shape[top] *= shape;
            back.stride[top] = f->stride[i];
            continue;
        }
        back.shape[++top] = shape;
        back.stride[top] = f->stride[i];
        back.kind[top] = f->kind[i];
        back.modes = top + 1;
    }
    flat_layout out;
    out.modes = back.modes;
    for (int i = 0; i < back.modes; i++) {
        out.shape[i] = back.shape[back.modes - 1 - i];
        out.stride[i] = back.stride[back.modes - 1 - i];
        out.kind[i] = back.kind[back.modes - 1 - i];
    }
    if (out.modes == 0) {
        out.modes = 1;
        out.shape[0] = 1;
        out.stride[0] = 0;
        out.kind[0] = 0;
    }
    return out;
}

void flat_emit(layout_builder *b, const flat_layout *f)
{
    if (f->modes != 1)
        layout_open(b);
    for (int i = 0; i < f->modes; i++)
        layout_leaf(b, f->shape[i], f->stride[i], f->kind[i]);
    if (f->modes != 1)
        layout_close(b);
}

/* What is done at the terminals of a profile. */
typedef enum terminal { COALESCE, COALESCE_BEYOND, FILTER } terminal;

static void terminal_into(layout_builder *b, const ptxpack_layout *l, tuple_node n, terminal what)
{
    flat_layout f = flat_of(l, n);
    for (int i = 0; what == FILTER && i < f.modes; i++)
        if (f.stride[i] == 0)
            f.shape[i] = 1;
    f = flat_coalesce(&f, what == COALESCE_BEYOND);
    flat_emit(b, &f);
}

/* Modes that the profile does not mention are copied.  false: the profile has more modes than the layout. */
static bool profile_into(layout_builder *b, const ptxpack_layout *l, tuple_node n, tuple_node profile,
                         terminal what)
{
    if (node_is_leaf(profile)) {
        terminal_into(b, l, n, what);
        return true;
    }
    tuple_node p = node_first(profile);
    layout_open(b);
    for (tuple_node m = node_first(n); m.begin < n.end; m = node_next(n, m)) {
        if (p.begin >= profile.end) {
            layout_copy(b, l, m);
            continue;
        }
        if (!profile_into(b, l, m, p, what))
            return false;
        p = node_next(profile, p);
    }
    layout_close(b);
    return p.begin >= profile.end;
}

static ptxpack_layout at_terminals(const char *name, const ptxpack_layout *l, const ptxpack_tuple *profile,
                                   terminal what)
{
    const ptxpack_tuple whole = ptxpack_int(0);
    ptxpack_layout      out;
    if (l->shape.status != PTXPACK_OK)
        return *l;
    if (profile != NULL && profile->status != PTXPACK_OK)
        return layout_bad(profile->status);
    if (ptxpack_is_tiler(l))
        return layout_no("%s: %s is a tiler, not a layout", name, layout_text(l).text);
    layout_builder b = layout_begin(&out);
    if (!profile_into(&b, l, tuple_root(&l->shape), tuple_root(profile != NULL ? profile : &whole), what))
        return layout_no("%s: profile %s has more modes than %s", name, tuple_text(profile).text,
                         layout_text(l).text);
    layout_settle(&out);
    layout_recompose(&out, l);
    return out;
}

ptxpack_layout ptxpack_coalesce(const ptxpack_layout *l, const ptxpack_tuple *profile)
{
    return at_terminals("coalesce", l, profile, COALESCE);
}

ptxpack_layout coalesce_beyond(const ptxpack_layout *l, const ptxpack_tuple *profile)
{
    return at_terminals("composition", l, profile, COALESCE_BEYOND);
}

ptxpack_layout ptxpack_filter(const ptxpack_layout *l, const ptxpack_tuple *profile)
{
    return at_terminals("filter", l, profile, FILTER);
}

ptxpack_layout ptxpack_filter_zeros(const ptxpack_layout *l, const ptxpack_tuple *profile)
{
    if (l->shape.status != PTXPACK_OK)
        return *l;
    ptxpack_layout out;
    (void)layout_begin(&out);
    out.shape = ptxpack_filter_zeros_by(profile != NULL ? profile : &l->stride, &l->shape);
    tuple_assign(&out.stride, &l->stride);
    layout_settle(&out);
    layout_recompose(&out, l);
    return out;
}

/* ---- composition ---------------------------------------------------------------------------------------- */
/* How far the modes of b have moved along each mode of a so far, up and down. */
typedef struct composing {
    flat_layout           a;      /* coalesced at the terminals of b's coprofile */
    const ptxpack_tuple  *a_tree; /* nested as that coprofile; NULL: not at all  */
    const ptxpack_layout *b;
    layout_builder        out;
    int64_t               up[PTXPACK_TUPLE_ITEMS], down[PTXPACK_TUPLE_ITEMS];
    char                  why[160];
} composing;

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
    if (result->modes == PTXPACK_TUPLE_ITEMS)
        return refuse(c, "the result has more than %d items", PTXPACK_TUPLE_ITEMS);
    result->shape[result->modes] = extent;
    result->stride[result->modes] = stride;
    result->kind[result->modes++] = c->a.kind[i];
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
        if (distance % shape != 0 && sign * distance >= shape)
            return refuse(c, "stride %lld does not step over extent %lld evenly",
                          (long long)(sign * distance), (long long)shape);
        int64_t room = shape / distance + (shape % distance != 0); /* steps before the mode is left */
        int64_t next = distance / shape + (distance % shape != 0);
        if (room > 1 && extent > 1) {
            int64_t taken = room < extent ? room : extent;
            if (extent % taken != 0)
                return refuse(c, "extent %lld is no multiple of the %lld steps that fit in a mode",
                              (long long)extent, (long long)taken);
            if (extent > room && shape % distance != 0)
                return refuse(c, "stride %lld does not divide extent %lld", (long long)distance,
                              (long long)shape);
            if (!piece(c, &result, i, taken, sign * distance))
                return false;
            extent /= taken;
        }
        distance = next;
    }
    if ((result.modes == 0 || extent != 1) && !piece(c, &result, n.end - 1, extent, sign * distance))
        return false;
    flat_emit(&c->out, &result);
    return true;
}

/* The terminal of a that the basis path picks. */
static terminal_modes terminal_of(const composing *c, uint64_t path)
{
    if (c->a_tree == NULL)
        return path == 0 ? (terminal_modes){0, c->a.modes} : (terminal_modes){0, 0};
    tuple_node n = tuple_root(c->a_tree);
    for (; path != 0 && n.begin < n.end; path >>= 8)
        n = node_mode(n, (int)(path & 0xFF) - 1);
    return (terminal_modes){n.begin, n.end};
}

static bool compose_into(composing *c, tuple_node n)
{
    if (node_is_leaf(n)) {
        int64_t        extent = c->b->shape.value[n.begin], step = c->b->stride.value[n.begin];
        terminal_modes picked = terminal_of(c, c->b->stride.kind[n.begin]);
        if (picked.begin >= picked.end && (step != 0 || c->b->stride.kind[n.begin] != 0))
            return refuse(c, "a stride steps along a mode that is not there");
        if (step != 0)
            return walk(c, picked, extent, step);
        layout_leaf(&c->out, extent, 0, 0);
        return true;
    }
    layout_open(&c->out);
    for (tuple_node m = node_first(n); m.begin < n.end; m = node_next(n, m))
        if (!compose_into(c, m))
            return false;
    layout_close(&c->out);
    return true;
}

/* Do the digits that b's modes add up to stay inside the modes of this terminal?  Its last mode has no end. */
static bool digits_stay(composing *c, terminal_modes n)
{
    for (int i = n.begin; i < n.end; i++) {
        int64_t shape = c->a.shape[i];
        if (i < n.end - 1 && (c->up[i] >= shape || c->down[i] >= shape))
            return refuse(c, "its modes reach %lld steps into a mode of extent %lld and would carry",
                          (long long)(c->up[i] >= shape ? c->up[i] : c->down[i]), (long long)shape);
        for (int k = n.begin; k < i; k++)
            if ((c->up[i] > 0 && c->down[k] > 0) || (c->down[i] > 0 && c->up[k] > 0))
                return refuse(c, "its modes step up and down in modes %d and %d, and would borrow", k - n.begin,
                              i - n.begin);
    }
    return true;
}

static bool all_digits_stay(composing *c)
{
    if (c->a_tree == NULL)
        return digits_stay(c, (terminal_modes){0, c->a.modes});
    for (int i = 0; i < c->b->stride.items; i++)
        if (c->b->stride.kind[i] != PTXPACK_EMPTY && !digits_stay(c, terminal_of(c, c->b->stride.kind[i])))
            return false;
    return true;
}

static bool has_basis(const ptxpack_layout *l)
{
    for (int i = 0; i < l->stride.items; i++)
        if (l->stride.kind[i] != 0 && l->stride.kind[i] != PTXPACK_EMPTY)
            return true;
    return false;
}

/* a and b plain layouts. */
static ptxpack_layout compose_layouts(const ptxpack_layout *a, const ptxpack_layout *b)
{
    ptxpack_layout out, tree;
    composing      c;
    c.a = flat_of(a, tuple_root(&a->shape));
    c.a_tree = NULL;
    c.b = b;
    if (has_basis(b)) {
        ptxpack_tuple coprofile = ptxpack_coprofile(b);
        tree = coalesce_beyond(a, &coprofile);
        if (tree.shape.status != PTXPACK_OK)
            return tree;
        c.a = flat_of(&tree, tuple_root(&tree.shape));
        c.a_tree = &tree.shape;
    } else {
        c.a = flat_coalesce(&c.a, true);
    }
    memset(c.up, 0, sizeof c.up[0] * (size_t)c.a.modes);
    memset(c.down, 0, sizeof c.down[0] * (size_t)c.a.modes);
    c.out = layout_begin(&out);
    if (compose_into(&c, tuple_root(&b->shape)) && all_digits_stay(&c)) {
        layout_settle(&out);
        return out;
    }
    value_text from = layout_text(a), with = layout_text(b);
    return layout_no("composition of %s with %s: %s", from.text, with.text, c.why);
}

static ptxpack_layout compose_tiler(const ptxpack_layout *a, const ptxpack_layout *tiler, tuple_node n)
{
    tuple_node     from = tuple_root(&a->shape), l = node_first(from);
    ptxpack_layout out;
    layout_builder b = layout_begin(&out);
    if (node_rank(n) > node_rank(from))
        return layout_no("composition: tiler %s has more modes than %s", layout_text(tiler).text,
                         layout_text(a).text);
    layout_open(&b);
    for (tuple_node t = node_first(n); t.begin < n.end; t = node_next(n, t), l = node_next(from, l)) {
        ptxpack_layout mode, part;
        layout_node(a, l, &mode);
        layout_node(tiler, t, &part);
        ptxpack_layout composed = ptxpack_composition(&mode, &part);
        if (composed.shape.status != PTXPACK_OK)
            return composed;
        layout_copy(&b, &composed, tuple_root(&composed.shape));
    }
    layout_close(&b);
    layout_settle(&out);
    return out;
}

static ptxpack_layout compose_plain(const ptxpack_layout *a, const ptxpack_layout *b)
{
    tuple_node root = tuple_root(&b->shape);
    if (b->shape.kind[0] == PTXPACK_UNDERSCORE && node_is_leaf(root))
        return *a;
    if (node_is_tiler(b, root))
        return compose_tiler(a, b, root);
    if (!node_is_integer_tile(b, root))
        return compose_layouts(a, b);
    ptxpack_layout first; /* n: the first n */
    layout_builder one = layout_begin(&first);
    layout_leaf(&one, b->shape.value[0], 1, 0);
    return compose_layouts(a, &first);
}

ptxpack_layout ptxpack_composition(const ptxpack_layout *a, const ptxpack_layout *b)
{
    if (a->shape.status != PTXPACK_OK || b->shape.status != PTXPACK_OK)
        return a->shape.status != PTXPACK_OK ? *a : *b;
    if (ptxpack_is_tiler(a))
        return layout_no("composition: %s is a tiler, not a layout", layout_text(a).text);
    if (b->composed && a->composed)
        return layout_no("composition: %s and %s are both swizzled", layout_text(a).text, layout_text(b).text);
    if (b->composed)
        return compose_swizzled(a, b);
    if (!a->composed)
        return compose_plain(a, b);
    ptxpack_layout inner = layout_inner(a), out = compose_plain(&inner, b);
    layout_recompose(&out, a);
    return out;
}

ptxpack_layout ptxpack_with_shape(const ptxpack_layout *l, const ptxpack_tuple *shape)
{
    ptxpack_layout compact = ptxpack_make_layout_left(shape);
    return ptxpack_composition(l, &compact);
}

/* ---- complement ------------------------------------------------------------------------------------------ */
/* The mode of the smallest stride, taken out of f. */
static void take_smallest(flat_layout *f, int64_t *shape, int64_t *stride)
{
    int at = 0;
    for (int i = 1; i < f->modes; i++)
        if (f->stride[i] < f->stride[at])
            at = i;
    *shape = f->shape[at];
    *stride = f->stride[at];
    f->modes--;
    for (int i = at; i < f->modes; i++) {
        f->shape[i] = f->shape[i + 1];
        f->stride[i] = f->stride[i + 1];
        f->kind[i] = f->kind[i + 1];
    }
}

static void flat_push(flat_layout *f, int64_t shape, int64_t stride)
{
    f->shape[f->modes] = shape;
    f->stride[f->modes] = stride;
    f->kind[f->modes++] = 0;
}

/* How often the cotarget holds `reached`, rounded up mode by mode. */
static bool rest_of(int count, const int64_t *cotarget, int64_t reached, int64_t *rest)
{
    *rest = 1;
    for (int i = 0; i < count; i++) {
        int64_t extent = cotarget[i];
        if (!mul_into(*rest, extent / reached + (extent % reached != 0), rest))
            return false;
        reached = reached / extent + (reached % extent != 0);
    }
    return true;
}

static bool complement_no(const ptxpack_layout *l, const char *why, int64_t x, int64_t y)
{
    layout_no("complement of %s: stride %lld %s the %lld below it", layout_text(l).text, (long long)x, why,
              (long long)y);
    return false;
}

/* f with stride-0 modes left out, coalesced. */
static flat_layout filtered(const ptxpack_layout *l)
{
    flat_layout f = flat_of(l, tuple_root(&l->shape));
    for (int i = 0; i < f.modes; i++)
        if (f.stride[i] == 0)
            f.shape[i] = 1;
    return flat_coalesce(&f, false);
}

/* What these operations cannot take leaves a line that says so. */
static ptxpack_status plain_only(const char *name, const ptxpack_layout *l)
{
    if (l->shape.status == PTXPACK_OK && (ptxpack_is_tiler(l) || has_basis(l)))
        return layout_no("%s: %s has no integer strides", name, layout_text(l).text).shape.status;
    return l->shape.status;
}

/* size(gaps) * size(filter(l)) >= size(cotarget)?  What overflows is large enough. */
static bool covers(const ptxpack_layout *l, const flat_layout *gaps, int count, const int64_t *cotarget)
{
    flat_layout f = filtered(l);
    int64_t     have = 1, want = 1;
    for (int i = 0; i < f.modes; i++)
        have *= f.shape[i];
    for (int i = 0; i < gaps->modes; i++)
        if (!mul_into(have, gaps->shape[i], &have))
            return true;
    for (int i = 0; i < count; i++)
        if (!mul_into(want, cotarget[i], &want))
            return false;
    return have >= want;
}

bool complement_flat(const ptxpack_layout *l, int count, const int64_t *cotarget, bool whole, flat_layout *out)
{
    flat_layout f = filtered(l), gaps;
    int64_t     reached = 1, shape, stride, rest;
    bool        nothing = f.modes == 1 && f.stride[0] == 0; /* 1:0 */
    gaps.modes = 0;
    while (!nothing && f.modes > 0) {
        take_smallest(&f, &shape, &stride);
        if (stride < 0)
            return complement_no(l, "is negative, not above", stride, reached);
        if (stride < reached)
            return complement_no(l, "is not injective: it falls within", stride, reached);
        flat_push(&gaps, stride / reached, reached);
        if (!mul_into(shape, stride, &reached))
            return complement_no(l, "overflows 64 bits above", stride, reached);
    }
    if (gaps.modes == PTXPACK_TUPLE_ITEMS || !rest_of(count, cotarget, reached, &rest)) {
        layout_no("complement of %s: too large", layout_text(l).text);
        return false;
    }
    flat_push(&gaps, rest, rest == 1 ? 0 : reached);
    if (whole && !covers(l, &gaps, count, cotarget)) {
        layout_no("complement of %s: gaps that its strides do not divide leave parts of the cotarget out",
                  layout_text(l).text);
        return false;
    }
    *out = flat_coalesce(&gaps, false);
    return true;
}

ptxpack_layout ptxpack_complement(const ptxpack_layout *l, const ptxpack_tuple *cotarget)
{
    ptxpack_status status = plain_only("complement", l);
    int64_t        extents[PTXPACK_TUPLE_ITEMS] = {1};
    int            count = 1;
    if (status != PTXPACK_OK || (cotarget != NULL && cotarget->status != PTXPACK_OK))
        return layout_bad(status != PTXPACK_OK ? status : cotarget->status);
    if (cotarget == NULL) {
        flat_layout f = filtered(l);
        for (int i = 0; i < f.modes; i++)
            extents[0] += (f.shape[i] - 1) * (f.stride[i] < 0 ? -f.stride[i] : f.stride[i]);
    } else {
        count = cotarget->items;
        for (int i = 0; i < count; i++) {
            if (cotarget->kind[i] != 0 || cotarget->value[i] <= 0)
                return layout_no("complement: cotarget %s is not made of positive integers",
                                 tuple_text(cotarget).text);
            extents[i] = cotarget->value[i];
        }
    }
    flat_layout f;
    if (!complement_flat(l, count, extents, true, &f))
        return layout_bad(PTXPACK_E_ARG);
    ptxpack_layout out;
    layout_builder b = layout_begin(&out);
    flat_emit(&b, &f);
    layout_settle(&out);
    return out;
}

/* ---- inverses -------------------------------------------------------------------------------------------- */
/* The order of f's modes by stride, equal ones from left to right; and how many indices precede each mode. */
static void sort_modes(const flat_layout *f, int order[PTXPACK_TUPLE_ITEMS], int64_t before[PTXPACK_TUPLE_ITEMS])
{
    int64_t product = 1;
    for (int i = 0; i < f->modes; i++) {
        int at = i;
        for (; at > 0 && f->stride[order[at - 1]] > f->stride[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
        before[i] = product;
        product *= f->shape[i];
    }
}

static ptxpack_layout coalesced_layout(const flat_layout *f)
{
    ptxpack_layout out;
    layout_builder b = layout_begin(&out);
    flat_layout    merged = flat_coalesce(f, false);
    flat_emit(&b, &merged);
    layout_settle(&out);
    return out;
}

static ptxpack_layout right_inverse_of(const ptxpack_layout *l)
{
    int         order[PTXPACK_TUPLE_ITEMS];
    int64_t     before[PTXPACK_TUPLE_ITEMS], run = 1;
    flat_layout f = flat_of(l, tuple_root(&l->shape)), out;
    out.modes = 0;
    f = flat_coalesce(&f, false);
    sort_modes(&f, order, before);
    for (int k = 0; k < f.modes; k++) {
        int i = order[k];
        if (f.stride[i] != run)
            continue;
        flat_push(&out, f.shape[i], before[i]);
        run *= f.shape[i];
    }
    return coalesced_layout(&out);
}

static ptxpack_layout left_inverse_of(const ptxpack_layout *l)
{
    int         order[PTXPACK_TUPLE_ITEMS];
    int64_t     before[PTXPACK_TUPLE_ITEMS], reached = 1, last = 0;
    flat_layout f = flat_of(l, tuple_root(&l->shape)), out;
    out.modes = 0;
    f = flat_coalesce(&f, false);
    sort_modes(&f, order, before);
    for (int k = 0; k < f.modes; k++) {
        int     i = order[k];
        int64_t stride = f.stride[i];
        if (stride == 0)
            continue;
        if (stride < 0 || stride % reached != 0)
            return layout_no("left_inverse of %s: stride %lld is no multiple of the %lld below it",
                             layout_text(l).text, (long long)stride, (long long)reached);
        flat_push(&out, stride / reached, last);
        reached = stride;
        last = before[i];
    }
    if (out.modes == PTXPACK_TUPLE_ITEMS)
        return layout_no("left_inverse of %s has more than %d items", layout_text(l).text, PTXPACK_TUPLE_ITEMS);
    flat_push(&out, f.shape[order[f.modes - 1]], last);
    return coalesced_layout(&out);
}

/* Of Sw o 0 o l the inverse is inverse(l) o Sw. */
static ptxpack_layout invert(const char *name, const ptxpack_layout *l,
                             ptxpack_layout (*inverse)(const ptxpack_layout *))
{
    ptxpack_status status = plain_only(name, l);
    if (status != PTXPACK_OK)
        return layout_bad(status);
    if (!l->composed)
        return inverse(l);
    if (l->offset != 0)
        return layout_no("%s of %s: its offset is not 0", name, layout_text(l).text);
    ptxpack_layout inner = layout_inner(l), inverted = inverse(&inner);
    return swizzle_domain(name, &inverted, l->swizzle, 1);
}

ptxpack_layout ptxpack_right_inverse(const ptxpack_layout *l)
{
    return invert("right_inverse", l, right_inverse_of);
}

ptxpack_layout ptxpack_left_inverse(const ptxpack_layout *l)
{
    return invert("left_inverse", l, left_inverse_of);
}

ptxpack_layout ptxpack_nullspace(const ptxpack_layout *l)
{
    ptxpack_status status = plain_only("nullspace", l);
    ptxpack_layout out;
    if (status != PTXPACK_OK)
        return layout_bad(status);
    if (l->composed)
        return layout_no("nullspace: %s is swizzled", layout_text(l).text);
    flat_layout f = flat_of(l, tuple_root(&l->shape)), zeros;
    int64_t     before = 1;
    zeros.modes = 0;
    for (int i = 0; i < f.modes; i++) {
        if (f.stride[i] == 0)
            flat_push(&zeros, f.shape[i], f.shape[i] == 1 ? 0 : before);
        before *= f.shape[i];
    }
    if (zeros.modes == 0)
        flat_push(&zeros, 1, 0);
    layout_builder b = layout_begin(&out);
    flat_emit(&b, &zeros);
    layout_settle(&out);
    return out;
}

/* ---- what two layouts have in common -------------------------------------------------------------------------- */
/* a o right_inverse(b), coalesced, of the plain parts; *inverse = right_inverse(b). */
static ptxpack_layout common(const ptxpack_layout *a, const ptxpack_layout *b, ptxpack_layout *inverse)
{
    ptxpack_layout inner_a = layout_inner(a), inner_b = layout_inner(b);
    *inverse = ptxpack_right_inverse(&inner_b);
    ptxpack_layout both = ptxpack_composition(&inner_a, inverse);
    return ptxpack_coalesce(&both, NULL);
}

/* The elements that a swizzle keeps side by side. */
static int64_t run_of(const ptxpack_layout *l)
{
    return l->composed ? (int64_t)1 << l->swizzle.base : INT64_MAX;
}

static bool same_swizzle(const ptxpack_layout *a, const ptxpack_layout *b)
{
    return a->composed && b->composed && a->swizzle.bits == b->swizzle.bits &&
           a->swizzle.base == b->swizzle.base && a->swizzle.shift == b->swizzle.shift;
}

ptxpack_layout ptxpack_max_common_layout(const ptxpack_layout *a, const ptxpack_layout *b)
{
    const flat_layout one = {.modes = 1, .shape = {1}};
    ptxpack_layout    inverse, run;
    ptxpack_layout all = common(a, b, &inverse);
    if (a->composed && b->composed)
        return layout_no("max_common_layout: %s and %s are both swizzled", layout_text(a).text,
                         layout_text(b).text);
    if (all.shape.status != PTXPACK_OK)
        return all;
    if (all.stride.value[0] != 1 || all.stride.kind[0] != 0)
        return coalesced_layout(&one);
    run = ptxpack_mode(&all, 0);
    run = ptxpack_composition(&inverse, &run);
    int64_t limit = run_of(a) < run_of(b) ? run_of(a) : run_of(b);
    if (ptxpack_size(&run) <= limit)
        return run;
    ptxpack_tuple shape = ptxpack_int(limit);
    return ptxpack_with_shape(&run, &shape);
}

int64_t ptxpack_max_common_vector(const ptxpack_layout *a, const ptxpack_layout *b)
{
    ptxpack_layout inverse, all = common(a, b, &inverse);
    if (all.shape.status != PTXPACK_OK)
        return 0;
    int64_t run = all.stride.value[0] == 1 && all.stride.kind[0] == 0 ? all.shape.value[0] : 1;
    int64_t limit = run_of(a) < run_of(b) ? run_of(a) : run_of(b);
    return same_swizzle(a, b) || run < limit ? run : limit;
}

ptxpack_layout ptxpack_domain_distribute(const ptxpack_tuple *shape, int64_t n)
{
    ptxpack_tuple flat = ptxpack_flatten_to_tuple(shape), stride = ptxpack_compact_col_major(&flat, NULL);
    if (n <= 0)
        return layout_no("domain_distribute: %lld is not positive", (long long)n);
    if (stride.status != PTXPACK_OK)
        return layout_bad(stride.status);
    for (int i = 0; i < flat.items; i++) {
        int64_t x = flat.value[i], y = n;
        while (y != 0) {
            int64_t r = x % y;
            x = y;
            y = r;
        }
        flat.value[i] = x;
        n /= x;
    }
    ptxpack_layout all = ptxpack_make_layout(&flat, &stride);
    return ptxpack_coalesce(&all, NULL);
}
