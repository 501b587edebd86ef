/* layout_swizzle.c - what swizzled layouts do differently: slices, domains, element widths. */
#include <string.h>

#include "layout_internal.h"

/* ---- bits ------------------------------------------------------------------------------------------- */
static int64_t power(int exponent)
{
    return (int64_t)1 << exponent;
}

static bool is_power(int64_t x)
{
    return x > 0 && (x & (x - 1)) == 0;
}

static int log2_of(int64_t x)
{
    return 63 - __builtin_clzll((unsigned long long)x);
}

static int64_t y_mask(ptxpack_swizzle s)
{
    return (power(s.bits) - 1) << (s.base + (s.shift > 0 ? s.shift : 0));
}

static int64_t z_mask(ptxpack_swizzle s)
{
    return (power(s.bits) - 1) << (s.base - (s.shift < 0 ? s.shift : 0));
}

/* The bits that offsets of l can have set, if each mode has bits of its own; -1 if modes could carry. */
static int64_t bits_of(const ptxpack_layout *l)
{
    int64_t all = 0;
    for (int i = 0; i < l->shape.items; i++) {
        int64_t shape = l->shape.value[i], stride = l->stride.value[i];
        if (l->shape.kind[i] == PTXPACK_EMPTY || shape == 1 || stride == 0)
            continue;
        if (!is_power(shape) || !is_power(stride) || l->stride.kind[i] != 0)
            return -1;
        int64_t bits = (shape - 1) * stride;
        if ((all & bits) != 0)
            return -1;
        all |= bits;
    }
    return all;
}

/* Sw with masks y and z; false when no swizzle has them. */
static bool swizzle_of(int64_t y, int64_t z, ptxpack_swizzle *s)
{
    memset(s, 0, sizeof *s);
    if (y == 0 && z == 0)
        return true;
    if (y <= 0 || z <= 0 || __builtin_popcountll((unsigned long long)y) != __builtin_popcountll((unsigned long long)z))
        return false;
    int     y_low = __builtin_ctzll((unsigned long long)y), z_low = __builtin_ctzll((unsigned long long)z);
    int64_t field = y >> y_low;
    if ((field & (field + 1)) != 0 || z >> z_low != field)
        return false;
    s->bits = (int8_t)__builtin_popcountll((unsigned long long)y);
    s->base = (int8_t)(y_low < z_low ? y_low : z_low);
    s->shift = (int8_t)(y_low - z_low);
    return (s->shift < 0 ? -s->shift : s->shift) >= s->bits;
}

/* ---- behind a layout ----------------------------------------------------------------------------------- */
/* l, coalesced, with a last mode that goes on as far as indices of all these bits do. */
static ptxpack_layout extended(const ptxpack_layout *l, int64_t bits)
{
    ptxpack_layout out = ptxpack_coalesce(l, NULL);
    int            last = out.shape.items - 1;
    int64_t        before = 1, range = 1;
    for (int i = 0; i < last; i++)
        before *= out.shape.value[i];
    while (range <= bits)
        range <<= 1;
    if (out.shape.status == PTXPACK_OK && range > before)
        out.shape.value[last] = range / before;
    if (out.shape.status == PTXPACK_OK && out.shape.value[last] > 1 && out.stride.value[last] == 0)
        out.shape.value[last] = 1; /* 1:0: nothing moves */
    return out;
}

ptxpack_layout swizzle_domain(const char *name, const ptxpack_layout *l, ptxpack_swizzle swizzle, int64_t reach)
{
    ptxpack_swizzle moved;
    if (l->shape.status != PTXPACK_OK)
        return *l;
    int64_t        size = ptxpack_size(l), y = y_mask(swizzle), z = z_mask(swizzle);
    int64_t        used = size > reach ? size : reach;
    ptxpack_layout all = extended(l, y | z | (used - 1));
    if (bits_of(&all) < 0)
        return layout_no("%s: Sw<%d,%d,%d> cannot pass through %s, which does not map bits to bits", name,
                         swizzle.bits, swizzle.base, swizzle.shift, layout_text(l).text);
    /* each bit of an index goes to a bit of the offset of its own: so it is enough to look at single bits */
    bool fits = swizzle_of(ptxpack_at(&all, y), ptxpack_at(&all, z), &moved);
    for (int64_t bit = 1; fits && bit < used; bit <<= 1)
        fits = ptxpack_at(&all, ptxpack_swizzle_apply(swizzle, bit)) ==
               ptxpack_swizzle_apply(moved, ptxpack_at(&all, bit));
    if (!fits)
        return layout_no("%s: behind %s, Sw<%d,%d,%d> is no swizzle any more", name, layout_text(l).text,
                         swizzle.bits, swizzle.base, swizzle.shift);
    return ptxpack_make_composed(moved, 0, l);
}

ptxpack_layout compose_swizzled(const ptxpack_layout *l, const ptxpack_layout *b)
{
    if (b->offset != 0)
        return layout_no("composition: the offset of %s is not 0", layout_text(b).text);
    ptxpack_layout inner = layout_inner(b);
    ptxpack_layout domain = swizzle_domain("composition", l, b->swizzle, ptxpack_cosize(&inner));
    if (domain.shape.status != PTXPACK_OK)
        return domain;
    ptxpack_layout out = ptxpack_composition(l, &inner);
    layout_recompose(&out, &domain);
    return out;
}

ptxpack_layout product_swizzled(const ptxpack_layout *block, const ptxpack_layout *tiler)
{
    if (tiler->shape.status != PTXPACK_OK)
        return *tiler;
    if (tiler->offset != 0)
        return layout_no("logical_product: the offset of %s is not 0", layout_text(tiler).text);
    ptxpack_layout inner = layout_inner(tiler), product = ptxpack_logical_product(block, &inner);
    ptxpack_tuple  reach = ptxpack_int(ptxpack_size(block) * ptxpack_cosize(&inner));
    ptxpack_layout rest = ptxpack_complement(block, &reach);
    /* rest o Sw o inner: the tiles' places, swizzled; the block itself lies between them, untouched */
    ptxpack_layout domain = swizzle_domain("logical_product", &rest, tiler->swizzle, ptxpack_cosize(&inner));
    if (domain.shape.status != PTXPACK_OK || product.shape.status != PTXPACK_OK)
        return domain.shape.status != PTXPACK_OK ? domain : product;
    layout_recompose(&product, &domain);
    return product;
}

/* ---- slices --------------------------------------------------------------------------------------------- */
/* Without bits that meet under the swizzle, Sw(start + l(c)) is linear in c: each bit that is flipped has a
 * stride of the other sign. */
static ptxpack_layout unswizzled(ptxpack_swizzle s, int64_t start, const ptxpack_layout *l)
{
    ptxpack_layout out;
    layout_builder b = layout_begin(&out);
    int64_t        y = y_mask(s) & -y_mask(s), z = z_mask(s) & -z_mask(s);
    int            distance = s.shift < 0 ? -s.shift : s.shift;
    layout_open(&b);
    layout_leaf(&b, power(s.base), 1, 0);
    for (int half = 0; half < 2; half++) {
        bool of_z = (half == 0) == (z < y); /* the lower field first */
        layout_open(&b);
        for (int i = 0; i < s.bits; i++) {
            int64_t own = of_z ? z << i : (start & z << i) == 0 ? (y + z) << i : (y - z) * power(i);
            layout_leaf(&b, 2, of_z && (start & y << i) != 0 ? -own : own, 0);
        }
        layout_close(&b);
        if (half == 0)
            layout_leaf(&b, power(distance - s.bits), power(s.base + s.bits), 0);
    }
    layout_leaf(&b, 1, power(s.base + s.bits + distance), 0);
    layout_close(&b);
    layout_settle(&out);
    return ptxpack_composition(&out, l);
}

/* `start`: the composed layout's offset and that of the slice; `l`: what the slice keeps. */
static ptxpack_slice slice_swizzled(ptxpack_swizzle s, int64_t start, const ptxpack_layout *l)
{
    int64_t bits = bits_of(l), field = y_mask(s) | z_mask(s), outside = start & ~field;
    int64_t active = bits & field;
    ptxpack_slice out = {.offset = ptxpack_int(0)};
    if (bits < 0 || (bits & start) != 0) { /* sums could carry into the swizzle: keep it all */
        out.layout = ptxpack_make_composed(s, start, l);
        return out;
    }
    if ((active & ~ptxpack_swizzle_apply(s, active)) == 0) {
        out.layout = unswizzled(s, start & field, l);
        out.offset = ptxpack_int(ptxpack_swizzle_apply(s, start & field) + outside);
        return out;
    }
    out.layout = ptxpack_make_composed(s, start & field, l);
    out.offset = ptxpack_int(outside);
    return out;
}

static bool only_underscores(const ptxpack_tuple *t)
{
    for (int i = 0; i < t->items; i++)
        if (t->kind[i] != PTXPACK_UNDERSCORE)
            return false;
    return true;
}

ptxpack_slice ptxpack_slice_and_offset(const ptxpack_tuple *coord, const ptxpack_layout *l)
{
    if (l->shape.status != PTXPACK_OK || coord->status != PTXPACK_OK) {
        ptxpack_status status = l->shape.status != PTXPACK_OK ? l->shape.status : coord->status;
        return (ptxpack_slice){layout_bad(status), tuple_bad(status)};
    }
    if (ptxpack_is_tiler(l))
        return slice_no("slice: %s is a tiler, not a layout", layout_text(l).text);
    ptxpack_slice out;
    (void)layout_begin(&out.layout);
    out.layout.shape = ptxpack_tuple_slice(coord, &l->shape);
    out.layout.stride = ptxpack_tuple_slice(coord, &l->stride);
    layout_settle(&out.layout);
    out.offset = ptxpack_crd2idx(coord, &l->shape, &l->stride); /* _ counts as 0 */
    if (out.layout.shape.status != PTXPACK_OK || out.offset.status != PTXPACK_OK) {
        bool of_layout = out.layout.shape.status != PTXPACK_OK;
        ptxpack_status status = of_layout ? out.layout.shape.status : out.offset.status;
        return (ptxpack_slice){layout_bad(status), tuple_bad(status)};
    }
    if (!l->composed)
        return out;
    if (only_underscores(coord)) {
        layout_recompose(&out.layout, l);
        out.offset = ptxpack_int(0);
        return out;
    }
    int64_t start;
    if (!add_into(l->offset, out.offset.value[0], &start))
        return slice_no("slice: the offset of %s overflows 64 bits", layout_text(l).text);
    return slice_swizzled(l->swizzle, start, &out.layout);
}

ptxpack_layout ptxpack_layout_slice(const ptxpack_tuple *coord, const ptxpack_layout *l)
{
    if (l->composed || l->shape.status != PTXPACK_OK || coord->status != PTXPACK_OK || ptxpack_is_tiler(l))
        return ptxpack_slice_and_offset(coord, l).layout;
    ptxpack_layout out; /* the offset is not wanted */
    (void)layout_begin(&out);
    out.shape = ptxpack_tuple_slice(coord, &l->shape);
    out.stride = ptxpack_tuple_slice(coord, &l->stride);
    layout_settle(&out);
    return out;
}

ptxpack_layout ptxpack_layout_dice(const ptxpack_tuple *coord, const ptxpack_layout *l)
{
    if (l->shape.status != PTXPACK_OK || coord->status != PTXPACK_OK)
        return layout_bad(l->shape.status != PTXPACK_OK ? l->shape.status : coord->status);
    ptxpack_layout out;
    (void)layout_begin(&out);
    out.shape = ptxpack_tuple_dice(coord, &l->shape);
    out.stride = ptxpack_tuple_dice(coord, &l->stride);
    layout_settle(&out);
    layout_recompose(&out, l);
    return out;
}

ptxpack_slice ptxpack_domain_offset(const ptxpack_tuple *coord, const ptxpack_layout *l)
{
    ptxpack_layout inner = layout_inner(l);
    ptxpack_slice  out = {*l, ptxpack_layout_crd2idx(&inner, coord)};
    if (out.offset.status != PTXPACK_OK)
        out.layout = layout_bad(out.offset.status);
    if (out.offset.status != PTXPACK_OK || !l->composed)
        return out;
    if (!add_into(l->offset, out.offset.value[0], &out.layout.offset))
        return slice_no("domain_offset: the offset of %s overflows 64 bits", layout_text(l).text);
    out.layout = ptxpack_make_composed(l->swizzle, out.layout.offset, &inner);
    out.offset = ptxpack_int(0);
    return out;
}

/* ---- element widths ------------------------------------------------------------------------------------- */
static int64_t ceil_to(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

/* The swizzle counted in elements n times as wide: bits below the elements are gone. */
static bool swizzle_upcast(ptxpack_layout *l, int64_t n)
{
    int base = l->swizzle.base - log2_of(n);
    if (!is_power(n) || l->offset % n != 0)
        return false;
    if (base < 0) {
        l->swizzle.bits = (int8_t)(l->swizzle.bits + base > 0 ? l->swizzle.bits + base : 0);
        base = 0;
    }
    l->swizzle.base = (int8_t)base;
    l->offset /= n;
    return true;
}

ptxpack_layout ptxpack_upcast(const ptxpack_layout *l, int64_t n)
{
    ptxpack_layout out = *l;
    if (l->shape.status != PTXPACK_OK)
        return out;
    if (n <= 0 || ptxpack_is_tiler(l))
        return layout_no("upcast<%lld> of %s: needs a positive factor and a layout", (long long)n,
                         layout_text(l).text);
    for (int i = 0; i < out.shape.items; i++) {
        int64_t stride = l->stride.value[i], distance = stride < 0 ? -stride : stride;
        if (l->shape.kind[i] == PTXPACK_EMPTY || stride == 0)
            continue;
        if (distance % n != 0 && n % distance != 0)
            return layout_no("upcast<%lld> of %s: neither it nor stride %lld divides the other", (long long)n,
                             layout_text(l).text, (long long)stride);
        out.shape.value[i] = ceil_to(l->shape.value[i], ceil_to(n, distance));
        out.stride.value[i] = ceil_to(distance, n) * (stride < 0 ? -1 : 1);
    }
    if (l->composed && !swizzle_upcast(&out, n))
        return layout_no("upcast<%lld> of %s: must be a power of two that divides the offset", (long long)n,
                         layout_text(l).text);
    if (!l->composed) {
        layout_settle(&out);
        return out;
    }
    ptxpack_layout inner = layout_inner(&out);
    return ptxpack_make_composed(out.swizzle, out.offset, &inner);
}

ptxpack_layout ptxpack_downcast(const ptxpack_layout *l, int64_t n)
{
    ptxpack_layout out = *l;
    bool           unit = false;
    if (l->shape.status != PTXPACK_OK)
        return out;
    if (n <= 0 || ptxpack_is_tiler(l))
        return layout_no("downcast<%lld> of %s: needs a positive factor and a layout", (long long)n,
                         layout_text(l).text);
    for (int i = 0; i < out.shape.items; i++) {
        int64_t stride = l->stride.value[i];
        bool    adjacent = (stride == 1 || stride == -1) && l->stride.kind[i] == 0;
        int64_t *scaled = adjacent ? &out.shape.value[i] : &out.stride.value[i];
        unit = unit || stride == 1;
        if (l->shape.kind[i] != PTXPACK_EMPTY && !mul_into(*scaled, n, scaled))
            return layout_no("downcast<%lld> of %s overflows 64 bits", (long long)n, layout_text(l).text);
    }
    if (!unit)
        return layout_no("downcast<%lld> of %s: no mode has stride 1", (long long)n, layout_text(l).text);
    if (!l->composed) {
        layout_settle(&out);
        return out;
    }
    if (!is_power(n) || !mul_into(out.offset, n, &out.offset))
        return layout_no("downcast<%lld> of %s: must be a power of two", (long long)n, layout_text(l).text);
    out.swizzle.base = (int8_t)(out.swizzle.base + log2_of(n));
    ptxpack_layout inner = layout_inner(&out);
    layout_settle(&inner);
    return ptxpack_make_composed(out.swizzle, out.offset, &inner);
}

ptxpack_layout ptxpack_recast_layout(const ptxpack_layout *l, int64_t from, int64_t to)
{
    if (l->shape.status != PTXPACK_OK)
        return *l;
    if (from <= 0 || to <= 0)
        return layout_no("recast_layout: %lld and %lld bits are not both positive", (long long)from,
                         (long long)to);
    int64_t a = from, b = to;
    while (b != 0) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    ptxpack_layout out = to / a > 1 ? ptxpack_upcast(l, to / a) : *l;
    return from / a > 1 ? ptxpack_downcast(&out, from / a) : out;
}

/* Every element address of l is a multiple of this: of the runs, of all other strides, of the offset. */
int64_t ptxpack_max_alignment(const ptxpack_layout *l)
{
    ptxpack_layout inner = layout_inner(l), flat = ptxpack_coalesce(&inner, NULL);
    ptxpack_layout run = ptxpack_right_inverse(&flat), parts = ptxpack_logical_divide(&flat, &run);
    ptxpack_layout first = ptxpack_mode(&parts, 0), rest = ptxpack_mode(&parts, 1);
    if (rest.shape.status != PTXPACK_OK)
        return 0;
    int64_t       size = ptxpack_size(&first), offset = l->composed ? l->offset : 0;
    ptxpack_tuple numbers[3] = {ptxpack_int(size), rest.stride, ptxpack_int(offset)};
    ptxpack_tuple all = ptxpack_tuple_join(3, numbers), divisor = ptxpack_gcd(&all);
    int64_t       run_of_swizzle = l->composed ? power(l->swizzle.base) : 0;
    if (divisor.status != PTXPACK_OK)
        return 0;
    return l->composed && l->swizzle.bits > 0 && run_of_swizzle < divisor.value[0] ? run_of_swizzle
                                                                                  : divisor.value[0];
}
