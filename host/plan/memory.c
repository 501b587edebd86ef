/* memory.c - strides of tensors and ranges of addresses, checked. */
#include "memory.h"

#include "plan.h"

#define refuse(line, ...) plan_refuse(line, PTXPACK_E_ARG, __VA_ARGS__)

/* The bytes that the kernels copy at once: rows consist of whole chunks and start at one. */
enum { CHUNK = 16 };

static const char *const dimension_names[MEMORY_DIMENSIONS] = {"batch", "row", "head"};

/* ---- strides ------------------------------------------------------------------------------------------ */
/* The strides to work with: those that are given, or the compact ones; 0 where the extent is 1. */
static void fill_in(const memory_shape *shape, int64_t stride[MEMORY_DIMENSIONS])
{
    int64_t inside = shape->elements;
    bool    compact = true;
    for (int i = 0; i < MEMORY_DIMENSIONS; i++)
        compact = compact && shape->stride[i] == 0;
    for (int i = MEMORY_DIMENSIONS - 1; i >= 0; i--) {
        stride[i] = shape->extent[i] == 1 ? 0 : compact ? inside : shape->stride[i];
        if (__builtin_mul_overflow(inside, shape->extent[i], &inside))
            inside = INT64_MAX; /* found by the check of the span */
    }
}

static ptxpack_status check_stride(const memory_shape *shape, int i, int64_t stride, char *line)
{
    const int64_t step = shape->step != 0 ? shape->step : CHUNK / (int64_t)shape->element_bytes;
    const char   *dimension = dimension_names[i];
    if (stride < 0)
        return refuse(line, "%s.%s: stride %lld is negative", shape->name, dimension, (long long)stride);
    if (stride % step != 0 && stride != INT64_MAX)
        return refuse(line, "%s.%s: stride %lld is not a multiple of %lld elements", shape->name, dimension,
                      (long long)stride, (long long)step);
    if (shape->written && shape->extent[i] > 1 && stride == 0)
        return refuse(line, "%s.%s: stride 0 would write every element %lld times", shape->name, dimension,
                      (long long)shape->extent[i]);
    return PTXPACK_OK;
}

/* Goes through the dimensions from the smallest stride to the largest.  *span becomes the number of elements from
 * the first to the end of the last. */
static ptxpack_status check_nesting(const memory_shape *shape, const int64_t stride[MEMORY_DIMENSIONS],
                                    int64_t *span, char *line)
{
    bool done[MEMORY_DIMENSIONS] = {false};
    *span = shape->elements;
    for (int step = 0; step < MEMORY_DIMENSIONS; step++) {
        int     next = -1;
        int64_t reach;
        for (int i = 0; i < MEMORY_DIMENSIONS; i++)
            if (!done[i] && (next < 0 || stride[i] < stride[next]))
                next = i;
        done[next] = true;
        if (stride[next] == 0)
            continue; /* a repeated input, or extent 1 */
        if (stride[next] < *span)
            return refuse(line, "%s.%s: stride %lld overlaps the %lld elements inside it", shape->name,
                          dimension_names[next], (long long)stride[next], (long long)*span);
        if (__builtin_mul_overflow(stride[next], shape->extent[next] - 1, &reach) ||
            __builtin_add_overflow(*span, reach, span) || *span > INT64_MAX / 2 / (int64_t)shape->element_bytes)
            return refuse(line, "%s.%s: stride %lld times %lld overflows 64-bit byte offsets", shape->name,
                          dimension_names[next], (long long)stride[next], (long long)shape->extent[next]);
    }
    return PTXPACK_OK;
}

ptxpack_status memory_resolve(const memory_shape *shape, memory_tensor *out, char *line)
{
    int64_t        stride[MEMORY_DIMENSIONS], span;
    ptxpack_status status = PTXPACK_OK;
    fill_in(shape, stride);
    for (int i = 0; i < MEMORY_DIMENSIONS && status == PTXPACK_OK; i++)
        status = check_stride(shape, i, stride[i], line);
    if (status == PTXPACK_OK)
        status = check_nesting(shape, stride, &span, line);
    if (status != PTXPACK_OK)
        return status;
    const int64_t block = shape->block != 0 ? shape->block : 1;
    for (int i = 0; i < MEMORY_DIMENSIONS; i++)
        out->stride[i] = stride[i] / block * (int64_t)shape->element_bytes;
    out->bytes = (uint64_t)(span / block) * shape->element_bytes;
    return PTXPACK_OK;
}

/* ---- addresses ---------------------------------------------------------------------------------------- */
ptxpack_status memory_check(const memory_range *r, char *line)
{
    if (r->address == 0)
        return r->optional ? PTXPACK_OK : refuse(line, "%s is null", r->name);
    if (r->address % r->alignment != 0)
        return refuse(line, "%s: address 0x%llx is not a multiple of %d bytes", r->name,
                      (unsigned long long)r->address, (int)r->alignment);
    if (r->address + r->bytes < r->address)
        return refuse(line, "%s: address 0x%llx plus its %llu bytes wraps around", r->name,
                      (unsigned long long)r->address, (unsigned long long)r->bytes);
    return PTXPACK_OK;
}

ptxpack_status memory_refuse_overlap(const memory_range *a, const memory_range *b, char *line)
{
    if (a->address == 0 || b->address == 0 || a->address >= b->address + b->bytes ||
        b->address >= a->address + a->bytes)
        return PTXPACK_OK;
    return refuse(line, "%s overlaps %s: 0x%llx and 0x%llx", a->name, b->name, (unsigned long long)a->address,
                  (unsigned long long)b->address);
}
