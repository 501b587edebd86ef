/* cast.c - layouts counted in elements of another width. */
#include "arithmetic.h"
#include "internal.h"

static int64_t ceil_to(int64_t a, int64_t b) { return a / b + (a % b != 0); }

/* The swizzle counted in elements n times as wide.  Bits that it changes below the elements are gone; bits
 * that it reads there must not move whole elements. */
static bool swizzle_upcast(ptxpack_layout *l, int64_t n)
{
    if (!is_power_of_2(n) || l->offset % n != 0)
        return false;
    int base = l->swizzle.base - log2_of(n);
    if (base < 0 && l->swizzle.shift < 0 && l->swizzle.bits > 0 &&
        base + l->swizzle.bits - l->swizzle.shift > 0)
        return false;
    if (base < 0) {
        l->swizzle.bits = (int8_t)(l->swizzle.bits + base > 0 ? l->swizzle.bits + base : 0);
        base = 0;
    }
    l->swizzle.base = (int8_t)base;
    l->offset /= n;
    return true;
}

/* Strides below the elements become 1, and their modes together a run of elements from 0 on.  Does the run
 * end where the offsets do, on either side?  `of`: the kind of the strides. */
static bool run_holds(const ptxpack_layout *l, const ptxpack_layout *wide, int64_t n, uint64_t of)
{
    int64_t up = 0, down = 0, run_up = 0, run_down = 0;
    for (int i = 0; i < l->shape.items; i++) {
        int64_t stride = l->stride.value[i], steps = l->shape.value[i] - 1;
        if (l->stride.kind[i] != of || stride % n == 0)
            continue;
        *(stride < 0 ? &down : &up) += steps * (stride < 0 ? -stride : stride);
        *(stride < 0 ? &run_down : &run_up) += wide->shape.value[i] - 1;
    }
    return up / n == run_up && ceil_to(down, n) == run_down;
}

static bool holds_all(const ptxpack_layout *l, const ptxpack_layout *wide, int64_t n)
{
    for (int i = 0; i < l->shape.items; i++)
        if (l->shape.kind[i] != PTXPACK_EMPTY && l->stride.value[i] % n != 0 &&
            !run_holds(l, wide, n, l->stride.kind[i]))
            return false;
    return true;
}

ptxpack_layout ptxpack_upcast(const ptxpack_layout *l, int64_t n)
{
    GIVEN_LAYOUT(l);
    ptxpack_status status = layout_wanted("upcast", l);
    ptxpack_layout out;
    if (status != PTXPACK_OK)
        return layout_failed(status);
    layout_assign(&out, l);
    if (n <= 0)
        return layout_error("upcast<%lld> of %s: needs a positive factor", (long long)n, layout_text(l).text);
    int inside = 0; /* modes with strides below the elements; downwards two, which leave element 0 at once */
    for (int i = 0; i < out.shape.items; i++) {
        int64_t stride = l->stride.value[i], distance = stride < 0 ? -stride : stride;
        if (l->shape.kind[i] == PTXPACK_EMPTY || stride == 0)
            continue;
        if (distance % n != 0 && n % distance != 0 && l->shape.value[i] != 1)
            return layout_error("upcast<%lld> of %s: neither it nor stride %lld divides the other",
                                (long long)n, layout_text(l).text, (long long)stride);
        if (distance % n != 0 && l->shape.value[i] != 1)
            inside += stride < 0 ? 2 : 1;
        out.shape.value[i] = ceil_to(l->shape.value[i], ceil_to(n, distance));
        out.stride.value[i] = ceil_to(distance, n) * (stride < 0 ? -1 : 1);
    }
    if (l->composed && !swizzle_upcast(&out, n))
        return layout_error("upcast<%lld> of %s: it must be a power of two that divides the offset, and not "
                            "split the bits that a swizzle with S < 0 reads",
                            (long long)n, layout_text(l).text);
    if (inside > 1 && !holds_all(l, &out, n))
        return layout_error("upcast<%lld> of %s: its modes overlap inside the elements", (long long)n,
                            layout_text(l).text);
    if (!l->composed) {
        layout_settle(&out);
        return out;
    }
    ptxpack_layout inner = layout_inner(&out);
    return ptxpack_make_composed(out.swizzle, out.offset, &inner);
}

/* The mode whose elements lie side by side, which gets more of them: of several that CuTe would all lengthen,
 * one with more than one element.  -1: none. */
static int unit_mode(const ptxpack_layout *l)
{
    int unit = -1;
    for (int i = 0; i < l->shape.items; i++)
        if (l->stride.value[i] == 1 && l->stride.kind[i] == 0 && (unit < 0 || l->shape.value[unit] == 1))
            unit = i;
    return unit;
}

ptxpack_layout ptxpack_downcast(const ptxpack_layout *l, int64_t n)
{
    GIVEN_LAYOUT(l);
    ptxpack_status status = layout_wanted("downcast", l);
    ptxpack_layout out;
    if (status != PTXPACK_OK)
        return layout_failed(status);
    int unit = unit_mode(l);
    layout_assign(&out, l);
    if (n <= 0)
        return layout_error("downcast<%lld> of %s: needs a positive factor", (long long)n, layout_text(l).text);
    if (unit < 0)
        return layout_error("downcast<%lld> of %s: no mode has stride 1", (long long)n, layout_text(l).text);
    for (int i = 0; i < out.shape.items; i++) {
        int64_t *scaled = i == unit ? &out.shape.value[i] : &out.stride.value[i];
        if (!mul_into(*scaled, n, scaled))
            return layout_error("downcast<%lld> of %s overflows 64 bits", (long long)n, layout_text(l).text);
    }
    if (!l->composed) {
        layout_settle(&out);
        return out;
    }
    if (!is_power_of_2(n) || !mul_into(out.offset, n, &out.offset))
        return layout_error("downcast<%lld> of %s: must be a power of two", (long long)n, layout_text(l).text);
    out.swizzle.base = (int8_t)(out.swizzle.base + log2_of(n));
    ptxpack_layout inner = layout_inner(&out);
    layout_settle(&inner);
    return ptxpack_make_composed(out.swizzle, out.offset, &inner);
}

ptxpack_layout ptxpack_recast_layout(const ptxpack_layout *l, int64_t from, int64_t to)
{
    GIVEN_LAYOUT(l);
    ptxpack_status status = layout_wanted("recast_layout", l);
    if (status != PTXPACK_OK)
        return layout_failed(status);
    if (from <= 0 || to <= 0)
        return layout_error("recast_layout: %lld and %lld bits are not both positive", (long long)from,
                            (long long)to);
    int64_t unit = gcd_of(from, to);
    if (from == unit)
        return to == unit ? *l : ptxpack_upcast(l, to / unit);
    if (to == unit)
        return ptxpack_downcast(l, from / unit);
    ptxpack_layout wide = ptxpack_upcast(l, to / unit), out = ptxpack_downcast(&wide, from / unit);
    int64_t        bits, same;
    if (out.shape.status == PTXPACK_OK &&
        (!mul_into(ptxpack_size(l), from, &bits) || !mul_into(ptxpack_size(&out), to, &same) || bits != same))
        return layout_error("recast_layout: the elements of %s are no whole number of %lld bits",
                            layout_text(l).text, (long long)to);
    return out;
}

/* What the length of l's runs, the strides between them, the offset, and the runs that a swizzle keeps
 * together are all multiples of: in vectors of so many elements l can be read as it stands. */
int64_t ptxpack_max_alignment(const ptxpack_layout *l)
{
    GIVEN_LAYOUT(l);
    if (integers_wanted("max_alignment", l) != PTXPACK_OK)
        return 0;
    ptxpack_layout inner = layout_inner(l), flat = ptxpack_coalesce(&inner, NULL);
    ptxpack_layout run = ptxpack_right_inverse(&flat), parts = ptxpack_logical_divide(&flat, &run);
    ptxpack_layout first = ptxpack_mode(&parts, 0), rest = ptxpack_mode(&parts, 1);
    if (rest.shape.status != PTXPACK_OK)
        return 0;
    int64_t       swizzled = l->composed && l->swizzle.bits > 0 ? power_of_2(l->swizzle.base) : 0;
    ptxpack_tuple numbers[4] = {ptxpack_int(ptxpack_size(&first)), rest.stride,
                                ptxpack_int(l->composed ? l->offset : 0), ptxpack_int(swizzled)};
    ptxpack_tuple all = ptxpack_tuple_join(4, numbers), divisor = ptxpack_gcd(&all);
    return divisor.status == PTXPACK_OK ? divisor.value[0] : 0;
}
