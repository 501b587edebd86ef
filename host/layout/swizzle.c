/* swizzle.c - swizzles as operands: inside a layout, and in a product. */
#include <string.h>

#include "arithmetic.h"
#include "internal.h"

/* ---- bits ------------------------------------------------------------------------------------------- */
int64_t bits_of(const ptxpack_layout *l, int64_t *shared)
{
    int64_t all = 0;
    *shared = 0;
    for (int i = 0; i < l->shape.items; i++) {
        int64_t shape = l->shape.value[i], stride = l->stride.value[i];
        if (l->shape.kind[i] == PTXPACK_EMPTY || shape == 1 || stride == 0)
            continue;
        if (!is_power_of_2(shape) || !is_power_of_2(stride) || l->stride.kind[i] != 0)
            return -1;
        int64_t bits = (shape - 1) * stride;
        *shared |= all & bits;
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
    if (y <= 0 || z <= 0 ||
        __builtin_popcountll((unsigned long long)y) != __builtin_popcountll((unsigned long long)z))
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

/* ---- inside a layout ----------------------------------------------------------------------------------- */
/* l, coalesced, with a last mode that goes on as far as indices of all these bits do. */
static ptxpack_layout extended(const ptxpack_layout *l, int64_t bits)
{
    ptxpack_layout out = coalesce_beyond(l, NULL);
    int            last = out.shape.items - 1;
    int64_t        before = 1, range = 1;
    if (out.shape.status != PTXPACK_OK)
        return out;
    for (int i = 0; i < last; i++)
        before *= out.shape.value[i];
    while (range <= bits && range < power_of_2(62))
        range <<= 1;
    bool reached = range > before && out.stride.value[last] != 0;
    out.shape.value[last] = reached ? range / before : 1;
    return out;
}

/* Does each coordinate have bits of the index of its own?  The last one has all that are left. */
static bool splits_bits(const ptxpack_layout *l)
{
    for (int i = 0; i < l->shape.items - 1; i++)
        if (!is_power_of_2(l->shape.value[i]))
            return false;
    return true;
}

ptxpack_layout swizzle_domain(const char *name, const ptxpack_layout *l, ptxpack_swizzle swizzle, int64_t reach)
{
    ptxpack_swizzle moved;
    if (l->shape.status != PTXPACK_OK)
        return *l;
    int64_t        size = ptxpack_size(l), y = swizzle_y(swizzle), z = swizzle_z(swizzle), span, shared = 0;
    int64_t        used = size > reach ? size : reach, to_y = 0, to_z = 0;
    ptxpack_layout all = extended(l, y | z | (used - 1));
    bool           maps = used <= power_of_2(61) && layout_cosize(&all, tuple_root(&all.shape), &span) &&
                splits_bits(&all) && bits_of(&all, &shared) >= 0;
    if (maps) {
        to_y = ptxpack_at(&all, y);
        to_z = ptxpack_at(&all, z);
    }
    /* carries may stay above the swizzle */
    if (!maps || (shared != 0 && (shared & -shared) <= (to_y | to_z)))
        return layout_error("%s: Sw<%d,%d,%d> cannot pass through %s, which does not map bits to bits", name,
                            swizzle.bits, swizzle.base, swizzle.shift, layout_text(l).text);
    /* each bit of an index goes to a bit of the offset of its own: so it is enough to look at single bits */
    bool fits = swizzle_of(to_y, to_z, &moved);
    for (int64_t bit = 1; fits && bit < used; bit <<= 1)
        fits = ptxpack_at(&all, ptxpack_swizzle_apply(swizzle, bit)) ==
               ptxpack_swizzle_apply(moved, ptxpack_at(&all, bit));
    if (!fits)
        return layout_error("%s: behind %s, Sw<%d,%d,%d> is no swizzle any more", name, layout_text(l).text,
                            swizzle.bits, swizzle.base, swizzle.shift);
    return ptxpack_make_composed(moved, 0, l);
}

ptxpack_layout compose_swizzled(const ptxpack_layout *l, const ptxpack_layout *b)
{
    if (b->offset != 0)
        return layout_error("composition: the offset of %s is not 0", layout_text(b).text);
    ptxpack_layout inner = layout_inner(b);
    ptxpack_layout domain = swizzle_domain("composition", l, b->swizzle, ptxpack_cosize(&inner));
    if (domain.shape.status != PTXPACK_OK)
        return domain;
    ptxpack_layout out = ptxpack_composition(l, &inner);
    layout_recompose(&out, &domain);
    return out;
}

/* The bits that offsets of l may have set. */
static int64_t reached_bits(const ptxpack_layout *l)
{
    int64_t shared, bits = bits_of(l, &shared), cosize = ptxpack_cosize(l), all = 1;
    if (bits >= 0 && shared == 0)
        return bits;
    while (all < cosize && all < power_of_2(62))
        all <<= 1;
    return all - 1;
}

void product_swizzled(const ptxpack_layout *block, const ptxpack_layout *tiler, ptxpack_layout *out)
{
    if (out->shape.status != PTXPACK_OK)
        return;
    if (tiler->offset != 0) {
        *out = layout_error("logical_product: the offset of %s is not 0", layout_text(tiler).text);
        return;
    }
    ptxpack_layout inner = layout_inner(tiler);
    ptxpack_tuple  reach = ptxpack_int(ptxpack_size(block) * ptxpack_cosize(&inner));
    ptxpack_layout rest = ptxpack_complement(block, &reach);
    /* rest o Sw o inner: the tiles' places, swizzled; the block lies between them and must stay untouched */
    ptxpack_layout domain = swizzle_domain("logical_product", &rest, tiler->swizzle, ptxpack_cosize(&inner));
    int64_t        moved = swizzle_y(domain.swizzle) | swizzle_z(domain.swizzle);
    if (domain.shape.status != PTXPACK_OK)
        *out = domain;
    else if (domain.composed && (reached_bits(block) & moved) != 0)
        *out = layout_error("logical_product: Sw<%d,%d,%d> of the tiles would move parts of the block %s",
                            domain.swizzle.bits, domain.swizzle.base, domain.swizzle.shift,
                            layout_text(block).text);
    else
        layout_recompose(out, &domain);
}
