/* bulk_reduce.c - the reductions of bulk copies and remote operations. */
#include "bulk.h"
#include "tools/emu/compute/float_format.h"
#include "tools/emu/memory/access.h"

const char *const bulk_reduction_words[] = {"add", "min", "max", "inc", "dec", "and", "or", "xor", NULL};
const char *const bulk_type_words[] = {"u32", "s32",  "u64", "s64", "b32", "b64",
                                       "f16", "bf16", "f32", "f64", NULL};

unsigned int bulk_type_bytes(enum bulk_type type)
{
    switch (type) {
    case BULK_U64:
    case BULK_S64:
    case BULK_B64:
    case BULK_F64:
        return 8;
    case BULK_F16:
    case BULK_BF16:
        return 2;
    default:
        return 4;
    }
}

bool bulk_can_reduce(enum bulk_reduction reduction, enum bulk_type type, bool global)
{
    enum {
        SUM = 1 << BULK_ADD,
        ORDER = 1 << BULK_MIN | 1 << BULK_MAX,
        COUNT = 1 << BULK_INC | 1 << BULK_DEC,
        BITS = 1 << BULK_AND | 1 << BULK_OR | 1 << BULK_XOR
    };
    static const unsigned int in_global[BULK_TYPES] =
        {SUM | ORDER | COUNT, SUM | ORDER, SUM | ORDER, ORDER, BITS, BITS,
         SUM | ORDER,         SUM | ORDER, SUM,         SUM,   SUM};
    static const unsigned int in_shared[BULK_TYPES] = {SUM | ORDER | COUNT, SUM | ORDER, SUM, 0, BITS};
    return (global ? in_global : in_shared)[type] >> reduction & 1;
}

/* ---- one element ---------------------------------------------------------------------------------- */
static uint64_t combine_integers(uint64_t old, uint64_t value, enum bulk_reduction reduction, bool is_signed)
{
    bool less = is_signed ? (int64_t)value < (int64_t)old : value < old;
    switch (reduction) {
    case BULK_ADD:
        return old + value;
    case BULK_MIN:
        return less ? value : old;
    case BULK_MAX:
        return less ? old : value;
    case BULK_INC:
        return old >= value ? 0 : old + 1;
    case BULK_DEC:
        return old == 0 || old > value ? value : old - 1;
    case BULK_AND:
        return old & value;
    case BULK_OR:
        return old | value;
    default:
        return old ^ value;
    }
}

static bool is_nan_16(uint32_t v, uint32_t infinity) { return (v & 0x7fff) > infinity; }

/* The codes of f16 and of bf16 have the same order. */
static uint32_t pick_16(uint32_t a, uint32_t b, bool smaller, uint32_t infinity)
{
    if (is_nan_16(a, infinity) || is_nan_16(b, infinity))
        return is_nan_16(a, infinity) ? is_nan_16(b, infinity) ? 0x7fff : b : a;
    int32_t x = a & 0x8000 ? -(int32_t)(a & 0x7fff) - 1 : (int32_t)a;
    int32_t y = b & 0x8000 ? -(int32_t)(b & 0x7fff) - 1 : (int32_t)b;
    return (x < y) == smaller ? a : b;
}

static uint32_t flushed(uint32_t v) { return (v & 0x7f800000) == 0 ? v & 0x80000000 : v; }

static uint32_t add_f32(uint32_t a, uint32_t b, bool flush)
{
    a = flush ? flushed(a) : a;
    b = flush ? flushed(b) : b;
    float    sum = emu_float_of(a) + emu_float_of(b);
    uint32_t out = sum != sum ? EMU_NAN_F32 : emu_bits_of(sum);
    return flush ? flushed(out) : out;
}

static uint64_t add_f64(uint64_t a, uint64_t b)
{
    double sum = emu_double_of(a) + emu_double_of(b);
    return sum != sum ? EMU_NAN_F64 : emu_bits_of_double(sum);
}

static uint64_t combine(uint64_t old, uint64_t value, enum bulk_reduction reduction, enum bulk_type type)
{
    uint32_t a = (uint32_t)old, b = (uint32_t)value;
    switch (type) {
    case BULK_S32:
        return combine_integers((uint64_t)(int32_t)a, (uint64_t)(int32_t)b, reduction, true);
    case BULK_S64:
        return combine_integers(old, value, reduction, true);
    case BULK_F16:
        return reduction == BULK_ADD ? emu_f32_to_f16(emu_f16_to_f32(a) + emu_f16_to_f32(b))
                                     : pick_16(a, b, reduction == BULK_MIN, 0x7c00);
    case BULK_BF16: /* in double, the sum of two bf16 is precise enough for a single rounding */
        return reduction == BULK_ADD ? emu_narrow((double)emu_bf16_to_f32(a) + (double)emu_bf16_to_f32(b),
                                                  &emu_format_bf16, EMU_RN, false)
                                     : pick_16(a, b, reduction == BULK_MIN, 0x7f80);
    case BULK_F32:
        return add_f32(a, b, false);
    case BULK_F32_FTZ:
        return add_f32(a, b, true);
    case BULK_F64:
        return add_f64(old, value);
    default:
        return combine_integers(old, value, reduction, false);
    }
}

/* ---- in memory, which threads of other clusters may change at the same time ----------------------- */
#define REDUCE_IN_PLACE(name, word)                                                                         \
    static void name(unsigned char *to, uint64_t value, enum bulk_reduction reduction, enum bulk_type type) \
    {                                                                                                       \
        word *at = (word *)(void *)to, old = __atomic_load_n(at, __ATOMIC_RELAXED), next;                   \
        do                                                                                                  \
            next = (word)combine(old, value, reduction, type);                                              \
        while (!__atomic_compare_exchange_n(at, &old, next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));     \
    }
REDUCE_IN_PLACE(reduce_16, uint16_t)
REDUCE_IN_PLACE(reduce_32, uint32_t)
REDUCE_IN_PLACE(reduce_64, uint64_t)

void bulk_reduce(unsigned char *to, const unsigned char *from, uint64_t bytes, enum bulk_reduction reduction,
                 enum bulk_type type)
{
    unsigned int width = bulk_type_bytes(type);
    for (uint64_t i = 0; i + width <= bytes; i += width) {
        uint64_t value = 0;
        uint32_t word;
        uint16_t half;
        if (width == 8) {
            memcpy(&value, from + i, 8);
            reduce_64(to + i, value, reduction, type);
        } else if (width == 4) {
            memcpy(&word, from + i, 4);
            reduce_32(to + i, word, reduction, type);
        } else {
            memcpy(&half, from + i, 2);
            reduce_16(to + i, half, reduction, type);
        }
    }
}

void bulk_reduce_ref(const struct async_op *a, const struct emu_ref *to, const struct emu_ref *from,
                     uint64_t bytes, enum bulk_reduction reduction, enum bulk_type type, bool beyond)
{
    bool defined = emu_defined(to, bytes), all = defined && emu_defined(from, bytes);
    if (!all && !beyond)
        judge_find(a->warp, a->op, a->lane, JUDGE_UNINITIALISED, "reduces undefined bytes");
    bulk_reduce(to->at, from->at, bytes, reduction, type);
    if (!all && beyond)
        memory_undefine(to, bytes);
    else if (!defined)
        emu_define(to, bytes);
}
