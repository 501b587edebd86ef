/* algebra.c - coalesce, filter, complement, inverses, what two layouts have in common.
 *
 * A complement is checked where CuTe's derivation is silently wrong: if a stride is no whole multiple of the
 * extent below it, the gap leaves elements out. */
#include "arithmetic.h"
#include "internal.h"

/* ---- coalesce and filter ------------------------------------------------------------------------------ */
void flat_coalesced(const ptxpack_layout *l, tuple_node n, bool beyond, flat_layout *f)
{
    int last = n.end - 1;
    f->modes = 0;
    while (last > n.begin && l->shape.kind[last] == PTXPACK_EMPTY)
        last--;
    for (int i = n.begin; i <= last; i++) {
        int64_t shape = l->shape.value[i];
        if (l->shape.kind[i] == PTXPACK_EMPTY)
            continue;
        if (shape == 1 && i == last && beyond)
            shape = 2; /* keeps what the layout does beyond its last mode */
        flat_add(f, shape, l->stride.value[i], l->stride.kind[i]);
    }
}

/* The same without the modes of stride 0. */
static void flat_filtered(const ptxpack_layout *l, tuple_node n, flat_layout *f)
{
    f->modes = 0;
    for (int i = n.begin; i < n.end; i++)
        if (l->shape.kind[i] != PTXPACK_EMPTY && l->stride.value[i] != 0)
            flat_add(f, l->shape.value[i], l->stride.value[i], l->stride.kind[i]);
}

void flat_emit(layout_builder *b, const flat_layout *f)
{
    if (f->modes == 0)
        layout_leaf(b, 1, 0, 0);
    if (f->modes > 1)
        layout_open(b);
    for (int i = 0; i < f->modes; i++)
        layout_leaf(b, f->shape[i], f->stride[i], f->kind[i]);
    if (f->modes > 1)
        layout_close(b);
}

static ptxpack_layout flat_result(const flat_layout *f)
{
    ptxpack_layout out;
    layout_builder b = layout_begin(&out);
    flat_emit(&b, f);
    layout_settle(&out);
    return out;
}

/* What is done at the terminals of a profile. */
typedef enum terminal { COALESCE, COALESCE_BEYOND, FILTER } terminal;

static void terminal_into(layout_builder *b, const ptxpack_layout *l, tuple_node n, terminal what)
{
    flat_layout f;
    if (what == FILTER)
        flat_filtered(l, n, &f);
    else
        flat_coalesced(l, n, what == COALESCE_BEYOND, &f);
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
    ptxpack_status      status = layout_wanted(name, l);
    if (status == PTXPACK_OK && profile != NULL)
        status = profile->status;
    if (status != PTXPACK_OK)
        return layout_failed(status);
    layout_builder b = layout_begin(&out);
    if (!profile_into(&b, l, tuple_root(&l->shape), tuple_root(profile != NULL ? profile : &whole), what))
        return layout_error("%s: profile %s has more modes than %s", name, tuple_text(profile).text,
                            layout_text(l).text);
    layout_settle(&out);
    layout_recompose(&out, l);
    return out;
}

ptxpack_layout ptxpack_coalesce(const ptxpack_layout *l, const ptxpack_tuple *profile)
{
    GIVEN_LAYOUT(l);
    return at_terminals("coalesce", l, profile, COALESCE);
}

ptxpack_layout coalesce_beyond(const ptxpack_layout *l, const ptxpack_tuple *profile)
{
    return at_terminals("composition", l, profile, COALESCE_BEYOND);
}

ptxpack_layout ptxpack_filter(const ptxpack_layout *l, const ptxpack_tuple *profile)
{
    GIVEN_LAYOUT(l);
    return at_terminals("filter", l, profile, FILTER);
}

ptxpack_layout ptxpack_filter_zeros(const ptxpack_layout *l, const ptxpack_tuple *profile)
{
    GIVEN_LAYOUT(l);
    ptxpack_status status = layout_wanted("filter_zeros", l);
    if (status != PTXPACK_OK)
        return layout_failed(status);
    ptxpack_layout out;
    (void)layout_begin(&out);
    out.shape = ptxpack_filter_zeros_by(profile != NULL ? profile : &l->stride, &l->shape);
    tuple_assign(&out.stride, &l->stride);
    layout_settle(&out);
    layout_recompose(&out, l);
    return out;
}

/* ---- complement ------------------------------------------------------------------------------------ */
/* By stride, equal ones from left to right.  The modes have no basis paths. */
static void flat_sort(flat_layout *f)
{
    for (int i = 1; i < f->modes; i++) {
        int64_t shape = f->shape[i], stride = f->stride[i];
        int     at = i;
        for (; at > 0 && f->stride[at - 1] > stride; at--) {
            f->shape[at] = f->shape[at - 1];
            f->stride[at] = f->stride[at - 1];
        }
        f->shape[at] = shape;
        f->stride[at] = stride;
    }
}

/* How many times `reached` fits in the cotarget, rounded up mode by mode. */
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

static bool complement_error(const ptxpack_layout *l, tuple_node n, const char *why, int64_t x, int64_t y)
{
    layout_error("complement of %s: stride %lld %s the %lld below it", layout_node_text(l, n).text,
                 (long long)x, why, (long long)y);
    return false;
}

/* size(l) * size(gaps) >= size(cotarget)?  What overflows is large enough. */
static bool covers(const flat_layout *l, const flat_layout *gaps, int count, const int64_t *cotarget)
{
    int64_t have = 1, want = 1;
    for (int i = 0; i < count; i++)
        if (!mul_into(want, cotarget[i], &want))
            return false;
    for (int i = 0; i < l->modes; i++)
        have *= l->shape[i];
    for (int i = 0; i < gaps->modes; i++)
        if (!mul_into(have, gaps->shape[i], &have))
            return true;
    return have >= want;
}

bool complement_flat(const ptxpack_layout *l, tuple_node n, int count, const int64_t *cotarget, bool whole,
                     flat_layout *out)
{
    flat_layout f;
    int64_t     reached = 1, rest;
    flat_filtered(l, n, &f);
    flat_sort(&f);
    out->modes = 0;
    for (int i = 0; i < f.modes; i++) {
        int64_t stride = f.stride[i];
        if (stride < 0)
            return complement_error(l, n, "is negative, not above", stride, reached);
        if (stride < reached)
            return complement_error(l, n, "is not injective: it falls within", stride, reached);
        flat_add(out, stride / reached, reached, 0);
        if (!mul_into(f.shape[i], stride, &reached))
            return complement_error(l, n, "overflows 64 bits above", stride, reached);
    }
    if (out->modes == PTXPACK_TUPLE_ITEMS || !rest_of(count, cotarget, reached, &rest)) {
        layout_error("complement of %s: too large", layout_node_text(l, n).text);
        return false;
    }
    if (!whole && out->modes > 0)
        flat_push(out, rest, reached, 0);
    else
        flat_add(out, rest, reached, 0);
    if (whole && !covers(&f, out, count, cotarget)) {
        layout_error("complement of %s: gaps that its strides do not divide leave parts of the cotarget out",
                     layout_node_text(l, n).text);
        return false;
    }
    return true;
}

ptxpack_layout ptxpack_complement(const ptxpack_layout *l, const ptxpack_tuple *cotarget)
{
    GIVEN_LAYOUT(l);
    ptxpack_status status = integers_wanted("complement", l);
    int64_t        extents[PTXPACK_TUPLE_ITEMS] = {1};
    int            count = 1;
    flat_layout    f;
    if (status != PTXPACK_OK || (cotarget != NULL && cotarget->status != PTXPACK_OK))
        return layout_failed(status != PTXPACK_OK ? status : cotarget->status);
    tuple_node all = tuple_root(&l->shape);
    if (cotarget == NULL) {
        flat_filtered(l, all, &f);
        for (int i = 0; i < f.modes; i++)
            extents[0] += (f.shape[i] - 1) * (f.stride[i] < 0 ? -f.stride[i] : f.stride[i]);
    } else {
        count = cotarget->items;
        for (int i = 0; i < count; i++) {
            if (cotarget->kind[i] != 0 || cotarget->value[i] <= 0)
                return layout_error("complement: cotarget %s is not made of positive integers",
                                    tuple_text(cotarget).text);
            extents[i] = cotarget->value[i];
        }
    }
    if (!complement_flat(l, all, count, extents, true, &f))
        return layout_failed(PTXPACK_E_ARG);
    return flat_result(&f);
}

/* ---- inverses -------------------------------------------------------------------------------------- */
/* The order of f's modes by stride, equal ones from left to right; and how many indices precede each mode. */
static void sort_modes(const flat_layout *f, int order[PTXPACK_TUPLE_ITEMS],
                       int64_t before[PTXPACK_TUPLE_ITEMS])
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

static ptxpack_layout right_inverse_of(const ptxpack_layout *l)
{
    int         order[PTXPACK_TUPLE_ITEMS];
    int64_t     before[PTXPACK_TUPLE_ITEMS], run = 1;
    flat_layout f, out;
    out.modes = 0;
    flat_coalesced(l, tuple_root(&l->shape), false, &f);
    sort_modes(&f, order, before);
    for (int k = 0; k < f.modes; k++) {
        int i = order[k];
        if (f.stride[i] != run)
            continue;
        flat_add(&out, f.shape[i], before[i], 0);
        run *= f.shape[i];
    }
    return flat_result(&out);
}

static ptxpack_layout left_inverse_of(const ptxpack_layout *l)
{
    int         order[PTXPACK_TUPLE_ITEMS];
    int64_t     before[PTXPACK_TUPLE_ITEMS], reached = 1, last = 0, extent = 1, top = 0;
    flat_layout f, out;
    out.modes = 0;
    flat_coalesced(l, tuple_root(&l->shape), false, &f);
    sort_modes(&f, order, before);
    bool endless = l->shape.items > 0 && l->shape.value[l->shape.items - 1] > 1; /* not ended by a 1 */
    for (int k = 0; k < f.modes; k++) {
        int     i = order[k];
        int64_t stride = f.stride[i];
        extent = f.shape[i];
        if (stride == 0)
            continue;
        if (stride < 0 || stride % reached != 0)
            return layout_error("left_inverse of %s: stride %lld is no multiple of the %lld below it",
                                layout_text(l).text, (long long)stride, (long long)reached);
        /* the digit that R reads off an offset must be a coordinate of this mode, else it carries in l's
         * index; the last mode has no end */
        top += (extent - 1) * stride;
        int64_t base = k + 1 < f.modes ? f.stride[order[k + 1]] / stride : INT64_MAX;
        if ((top / stride < base ? top / stride : base - 1) >= extent && !(endless && i == f.modes - 1))
            return layout_error(
                "left_inverse of %s: modes of smaller strides reach beyond extent %lld of stride %lld",
                layout_text(l).text, (long long)extent, (long long)stride);
        flat_add(&out, stride / reached, last, 0);
        reached = stride;
        last = before[i];
    }
    if (out.modes == PTXPACK_TUPLE_ITEMS)
        return layout_error("left_inverse of %s has more than %d items", layout_text(l).text,
                            PTXPACK_TUPLE_ITEMS);
    flat_add(&out, extent, last, 0);
    return flat_result(&out);
}

/* Of Sw o 0 o l the inverse is inverse(l) o Sw. */
static ptxpack_layout invert(const char *name, const ptxpack_layout *l,
                             ptxpack_layout (*inverse)(const ptxpack_layout *))
{
    ptxpack_status status = integers_wanted(name, l);
    if (status != PTXPACK_OK)
        return layout_failed(status);
    if (!l->composed)
        return inverse(l);
    if (l->offset != 0)
        return layout_error("%s of %s: its offset is not 0", name, layout_text(l).text);
    ptxpack_layout inner = layout_inner(l), inverted = inverse(&inner);
    return swizzle_domain(name, &inverted, l->swizzle, 1);
}

/* Does the swizzle take [0, size) to itself?  It does when it flips only bits below a power of two that
 * divides size. */
static bool swizzle_stays(ptxpack_swizzle swizzle, int64_t size)
{
    int64_t block = size & -size, flipped = 0;
    for (int64_t bit = 1; bit < size && bit < (int64_t)1 << 62; bit <<= 1)
        flipped |= ptxpack_swizzle_apply(swizzle, bit) ^ bit;
    return flipped < block;
}

ptxpack_layout ptxpack_right_inverse(const ptxpack_layout *l)
{
    GIVEN_LAYOUT(l);
    ptxpack_layout out = invert("right_inverse", l, right_inverse_of);
    if (out.shape.status == PTXPACK_OK && l->composed && !swizzle_stays(l->swizzle, ptxpack_size(&out)))
        return layout_error(
            "right_inverse of %s: its swizzle leaves the first %lld offsets, which are those in reach",
            layout_text(l).text, (long long)ptxpack_size(&out));
    return out;
}

ptxpack_layout ptxpack_left_inverse(const ptxpack_layout *l)
{
    GIVEN_LAYOUT(l);
    return invert("left_inverse", l, left_inverse_of);
}

ptxpack_layout ptxpack_nullspace(const ptxpack_layout *l)
{
    GIVEN_LAYOUT(l);
    ptxpack_status status = integers_wanted("nullspace", l);
    if (status != PTXPACK_OK)
        return layout_failed(status);
    if (l->offset != 0) /* a swizzle alone takes only 0 to 0 */
        return layout_error("nullspace: the offset of %s is not 0", layout_text(l).text);
    flat_layout zeros;
    int64_t     before = 1;
    zeros.modes = 0;
    for (int i = 0; i < l->shape.items; i++) {
        int64_t shape = l->shape.value[i];
        if (l->shape.kind[i] == PTXPACK_EMPTY)
            continue;
        if (l->stride.value[i] == 0)
            flat_push(&zeros, shape, shape == 1 ? 0 : before, 0);
        before *= shape;
    }
    return flat_result(&zeros);
}

/* ---- what two layouts have in common --------------------------------------------------------------- */
/* a o right_inverse(b), coalesced, of the plain parts; *inverse = right_inverse(b). */
static ptxpack_layout common(const ptxpack_layout *a, const ptxpack_layout *b, ptxpack_layout *inverse)
{
    if (error_of(&a->shape, &b->shape) != PTXPACK_OK)
        return layout_failed(error_of(&a->shape, &b->shape));
    ptxpack_layout inner_a = layout_inner(a), inner_b = layout_inner(b);
    *inverse = ptxpack_right_inverse(&inner_b);
    ptxpack_layout both = ptxpack_composition(&inner_a, inverse);
    return ptxpack_coalesce(&both, NULL);
}

/* The elements that a swizzle keeps side by side, from the offset on. */
static int64_t run_of(const ptxpack_layout *l)
{
    uint64_t run = (uint64_t)1 << l->swizzle.base, offset = (uint64_t)l->offset;
    uint64_t aligned = offset & (0 - offset);
    return !l->composed ? INT64_MAX : (int64_t)(aligned != 0 && aligned < run ? aligned : run);
}

/* The same swizzle and the same offset before it: offsets that are equal before the swizzle are equal after
 * it. */
static bool same_swizzle(const ptxpack_layout *a, const ptxpack_layout *b)
{
    return a->composed && b->composed && a->offset == b->offset && a->swizzle.bits == b->swizzle.bits &&
           a->swizzle.base == b->swizzle.base && a->swizzle.shift == b->swizzle.shift;
}

ptxpack_layout ptxpack_max_common_layout(const ptxpack_layout *a, const ptxpack_layout *b)
{
    GIVEN_LAYOUT(a);
    GIVEN_LAYOUT(b);
    const flat_layout none = {.modes = 0};
    ptxpack_layout    inverse, run;
    ptxpack_layout    all = common(a, b, &inverse);
    if (all.shape.status != PTXPACK_OK)
        return all;
    if (a->composed && b->composed)
        return layout_error("max_common_layout: %s and %s are both swizzled", layout_text(a).text,
                            layout_text(b).text);
    if (all.stride.value[0] != 1 || all.stride.kind[0] != 0)
        return flat_result(&none);
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
    GIVEN_LAYOUT(a);
    GIVEN_LAYOUT(b);
    ptxpack_layout inverse, all = common(a, b, &inverse);
    if (all.shape.status != PTXPACK_OK)
        return 0;
    int64_t run = all.stride.value[0] == 1 && all.stride.kind[0] == 0 ? all.shape.value[0] : 1;
    int64_t limit = run_of(a) < run_of(b) ? run_of(a) : run_of(b);
    return same_swizzle(a, b) || run < limit ? run : limit;
}

ptxpack_layout ptxpack_domain_distribute(const ptxpack_tuple *shape, int64_t n)
{
    GIVEN_TUPLE(shape);
    ptxpack_tuple flat = ptxpack_flatten_to_tuple(shape), stride = ptxpack_compact_col_major(&flat, NULL);
    if (stride.status != PTXPACK_OK)
        return layout_failed(stride.status);
    if (n <= 0)
        return layout_error("domain_distribute: %lld is not positive", (long long)n);
    for (int i = 0; i < flat.items; i++) {
        if (flat.kind[i] == 0 && flat.value[i] <= 0)
            return layout_error("domain_distribute: an extent of %s is not positive", tuple_text(shape).text);
        flat.value[i] = gcd_of(flat.value[i], n);
        n /= flat.value[i];
    }
    ptxpack_layout all = ptxpack_make_layout(&flat, &stride);
    return ptxpack_coalesce(&all, NULL);
}
