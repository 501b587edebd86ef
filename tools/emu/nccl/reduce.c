/* reduce.c - reductions: elements of all ranks become one, in the order of the ranks.
 *
 * Floats are added and multiplied in double, and rounded once, to nearest even: NCCL's own results depend on its
 * algorithm, and differ from these within the rounding of its steps.  Integers wrap.  ncclAvg of integers is the
 * quotient toward zero. */
#include "internal.h"
#include "tools/emu/compute/float_format.h"
#include <math.h>
#include <string.h>

union number {
    double   real;
    uint64_t bits; /* of integers: sign-extended */
};
enum family { REAL, SIGNED, UNSIGNED };

static enum family family_of(nccl_type type)
{
    switch (type) {
    case NCCL_Int8:
    case NCCL_Int32:
    case NCCL_Int64:
        return SIGNED;
    case NCCL_Uint8:
    case NCCL_Uint32:
    case NCCL_Uint64:
        return UNSIGNED;
    default:
        return REAL;
    }
}

static const struct emu_format *format_of(nccl_type type)
{
    return type == NCCL_Float16      ? &emu_format_f16
           : type == NCCL_Bfloat16   ? &emu_format_bf16
           : type == NCCL_Float8e4m3 ? &emu_format_e4m3
           : type == NCCL_Float8e5m2 ? &emu_format_e5m2
                                     : &emu_format_f32;
}

static union number load(nccl_type type, const unsigned char *at)
{
    const size_t bytes = nccl_type_bytes(type);
    union number n = {.bits = 0};
    memcpy(&n.bits, at, bytes);
    if (family_of(type) == SIGNED && bytes < 8)
        n.bits = (uint64_t)((int64_t)(n.bits << (64 - 8 * bytes)) >> (64 - 8 * bytes));
    if (family_of(type) == REAL && type != NCCL_Float64)
        n.real = emu_widen((uint32_t)n.bits, format_of(type));
    return n;
}

static void store(nccl_type type, unsigned char *at, union number n)
{
    if (family_of(type) == REAL && type != NCCL_Float64)
        n.bits = emu_narrow(n.real, format_of(type), EMU_RN, false);
    memcpy(at, &n.bits, nccl_type_bytes(type));
}

static double real_of_two(nccl_reduction reduction, double a, double b)
{
    switch (reduction) {
    case NCCL_Prod:
        return a * b;
    case NCCL_Max:
        return fmax(a, b);
    case NCCL_Min:
        return fmin(a, b);
    default:
        return a + b;
    }
}

static uint64_t integer_of_two(nccl_reduction reduction, bool is_signed, uint64_t a, uint64_t b)
{
    const bool less = is_signed ? (int64_t)a < (int64_t)b : a < b;
    switch (reduction) {
    case NCCL_Prod:
        return a * b;
    case NCCL_Max:
        return less ? b : a;
    case NCCL_Min:
        return less ? a : b;
    default:
        return a + b;
    }
}

static union number average(enum family family, union number sum, int ranks)
{
    if (family == REAL)
        sum.real /= ranks;
    else if (family == SIGNED)
        sum.bits = (uint64_t)((int64_t)sum.bits / ranks);
    else
        sum.bits /= (uint64_t)ranks;
    return sum;
}

static void reduce_one(nccl_type type, nccl_reduction reduction, int ranks, unsigned char *const elements[],
                       size_t offset)
{
    const enum family family = family_of(type);
    union number      sum = load(type, elements[0] + offset);
    for (int i = 1; i < ranks; i++) {
        const union number next = load(type, elements[i] + offset);
        if (family == REAL)
            sum.real = real_of_two(reduction, sum.real, next.real);
        else
            sum.bits = integer_of_two(reduction, family == SIGNED, sum.bits, next.bits);
    }
    store(type, elements[0] + offset, reduction == NCCL_Avg ? average(family, sum, ranks) : sum);
}

/* The bits of one element: all or none. */
static void reduce_defined(int ranks, unsigned char *const defined[], uint64_t first, size_t bytes)
{
    bool all = true;
    for (int i = 0; i < ranks; i++)
        for (uint64_t b = first; b < first + bytes; b++)
            all = all && defined[i][b / 8] >> (b % 8) & 1;
    for (uint64_t b = first; b < first + bytes; b++)
        defined[0][b / 8] = (unsigned char)((defined[0][b / 8] & ~(1u << (b % 8))) | (unsigned int)all
                                                                                         << (b % 8));
}

void nccl_reduce(nccl_type type, nccl_reduction reduction, int ranks, unsigned char *const elements[],
                 unsigned char *const defined[], uint64_t count)
{
    const size_t bytes = nccl_type_bytes(type);
    for (uint64_t i = 0; i < count; i++) {
        reduce_one(type, reduction, ranks, elements, i * bytes);
        reduce_defined(ranks, defined, i * bytes, bytes);
    }
}
