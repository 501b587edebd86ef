/* atomic.c - atom, red: read-modify-writes, lane after lane.
 *
 * The host's compare-and-swap changes an element of 1 to 8 bytes in device memory, since other host threads may
 * access it too.  A lock protects elements of 16 bytes.  Shared memory belongs to the one host thread that runs
 * the cluster. */
#include <pthread.h>
#include "tools/emu/compute/float_format.h"
#include "tools/emu/judge/judge.h"
#include "load_store.h"
#include "access.h"

struct wide {
    uint64_t low, high;
};
typedef struct wide update(struct wide old, struct wide b, struct wide c);

enum operation { OP_ADD, OP_MIN, OP_MAX, OP_INC, OP_DEC, OP_AND, OP_OR, OP_XOR, OP_EXCH, OP_CAS };
static const char *const operation_words[] = {"add", "min", "max",  "inc", "dec", "and",
                                              "or",  "xor", "exch", "cas", NULL};

enum { ACCESS = EMU_READ | EMU_WRITE | EMU_ATOMIC | EMU_STRONG };

struct atomic_op {
    update *shared, *global; /* they treat subnormals differently              */
    uint8_t size, count;     /* bytes of an element, elements                   */
    uint8_t fences;
    bool    has_result, has_third, yields, own_block;
};

static pthread_mutex_t wide_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- the update of one element ---------------------------------------------------------------------- */
static struct wide one(uint64_t value) { return (struct wide){value, 0}; }

#define UPDATE(name, ...)                                                  \
    static struct wide name(struct wide old, struct wide b, struct wide c) \
    {                                                                      \
        (void)c;                                                           \
        const uint64_t x = old.low, y = b.low;                             \
        return one(__VA_ARGS__);                                           \
    }
UPDATE(add_32, (uint32_t)(x + y))
UPDATE(add_64, x + y)
UPDATE(min_u, x < y ? x : y)
UPDATE(max_u, x > y ? x : y)
UPDATE(min_s32, (int32_t)x < (int32_t)y ? x : y)
UPDATE(max_s32, (int32_t)x > (int32_t)y ? x : y)
UPDATE(min_s64, (int64_t)x < (int64_t)y ? x : y)
UPDATE(max_s64, (int64_t)x > (int64_t)y ? x : y)
UPDATE(inc_u32, x >= y ? 0 : x + 1)
UPDATE(dec_u32, x == 0 || x > y ? y : x - 1)
UPDATE(and_, x &y)
UPDATE(or_, x | y)
UPDATE(xor_, x ^ y)

static struct wide exchange(struct wide old, struct wide b, struct wide c)
{
    (void)old;
    (void)c;
    return b;
}

static struct wide compare_and_swap(struct wide old, struct wide b, struct wide c)
{
    return old.low == b.low && old.high == b.high ? c : old;
}

static uint32_t flush(uint32_t f) { return f & 0x7f800000 ? f : f & 0x80000000; }

static uint64_t sum_f32(uint32_t x, uint32_t y)
{
    float sum = emu_float_of(x) + emu_float_of(y);
    return sum != sum ? EMU_NAN_F32 : emu_bits_of(sum);
}
UPDATE(add_f32, sum_f32((uint32_t)x, (uint32_t)y))
UPDATE(add_f32_ftz, flush((uint32_t)sum_f32(flush((uint32_t)x), flush((uint32_t)y))))
UPDATE(add_f64, emu_bits_of_double(emu_double_of(x) + emu_double_of(y)))

/* Halves: in f32, the sum of two is precise enough for a single rounding. */
static uint32_t add_half(uint32_t x, uint32_t y)
{
    return emu_f32_to_f16(emu_f16_to_f32(x) + emu_f16_to_f32(y));
}
static uint32_t add_bhalf(uint32_t x, uint32_t y)
{
    return emu_f32_to_bf16(emu_bf16_to_f32(x) + emu_bf16_to_f32(y));
}

/* The smaller number; NaN only if both are; -0 is below +0. */
static bool below(float x, float y) { return x < y || (x == y && emu_bits_of(x) >> 31 > emu_bits_of(y) >> 31); }
static uint32_t chosen(uint32_t x, uint32_t y, float fx, float fy, bool smaller)
{
    if (fx != fx)
        return fy != fy ? EMU_NAN_F16 : y;
    return fy != fy || below(fx, fy) == smaller ? x : y;
}
static uint32_t min_half(uint32_t x, uint32_t y)
{
    return chosen(x, y, emu_f16_to_f32(x), emu_f16_to_f32(y), true);
}
static uint32_t max_half(uint32_t x, uint32_t y)
{
    return chosen(x, y, emu_f16_to_f32(x), emu_f16_to_f32(y), false);
}
static uint32_t min_bhalf(uint32_t x, uint32_t y)
{
    return chosen(x, y, emu_bf16_to_f32(x), emu_bf16_to_f32(y), true);
}
static uint32_t max_bhalf(uint32_t x, uint32_t y)
{
    return chosen(x, y, emu_bf16_to_f32(x), emu_bf16_to_f32(y), false);
}

#define HALVES(name, f)                                              \
    UPDATE(name##_1, f((uint32_t)x & 0xffff, (uint32_t)y & 0xffff))  \
    UPDATE(name##_2, f((uint32_t)x & 0xffff, (uint32_t)y & 0xffff) | \
                         (uint64_t)f((uint32_t)x >> 16, (uint32_t)y >> 16) << 16)
HALVES(f16_add, add_half)
HALVES(f16_min, min_half)
HALVES(f16_max, max_half)
HALVES(bf16_add, add_bhalf)
HALVES(bf16_min, min_bhalf)
HALVES(bf16_max, max_bhalf)

/* ---- one element in memory -------------------------------------------------------------------------- */
#define SWAP_LOOP(bits)                                                                                   \
    {                                                                                                     \
        uint##bits##_t *p = (uint##bits##_t *)(void *)at, old = __atomic_load_n(p, __ATOMIC_RELAXED), to; \
        do                                                                                                \
            to = (uint##bits##_t)f(one(old), b, c).low;                                                   \
        while (!__atomic_compare_exchange_n(p, &old, to, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));     \
        return one(old);                                                                                  \
    }

static struct wide update_wide(unsigned char *at, update *f, struct wide b, struct wide c)
{
    struct wide old, to;
    pthread_mutex_lock(&wide_lock);
    memcpy(&old, at, sizeof old);
    to = f(old, b, c);
    memcpy(at, &to, sizeof to);
    pthread_mutex_unlock(&wide_lock);
    return old;
}

static struct wide update_common(unsigned char *at, unsigned int size, update *f, struct wide b, struct wide c)
{
    switch (size) {
    case 2:
        SWAP_LOOP(16)
    case 4:
        SWAP_LOOP(32)
    case 8:
        SWAP_LOOP(64)
    default:
        return update_wide(at, f, b, c);
    }
}

static struct wide update_own(unsigned char *at, unsigned int size, update *f, struct wide b, struct wide c)
{
    struct wide old = {0, 0}, to;
    memcpy(&old, at, size); /* the host is little-endian */
    to = f(old, b, c);
    memcpy(at, &to, size);
    return old;
}

/* ---- execution -------------------------------------------------------------------------------------- */
static struct wide take(const struct emu_warp *w, emu_reg reg, unsigned int size, int lane)
{
    if (size <= 4)
        return one(emu_r32(w, reg)[lane]);
    return (struct wide){emu_r64(w, reg)[lane], size == 16 ? emu_r64(w, reg)[EMU_LANES + lane] : 0};
}

static void give(const struct emu_warp *w, emu_reg reg, unsigned int size, int lane, struct wide value)
{
    if (size <= 4)
        emu_r32(w, reg)[lane] = (uint32_t)value.low;
    else
        emu_r64(w, reg)[lane] = value.low;
    if (size == 16)
        emu_r64(w, reg)[EMU_LANES + lane] = value.high;
}

static void update_lane(struct emu_warp *w, const struct emu_op *op, int lane, const struct emu_ref *ref)
{
    const struct atomic_op *a = (const struct atomic_op *)op->data;
    bool                    global = ref->space == EMU_GLOBAL;
    for (unsigned int i = 0; i < a->count; i++) {
        struct wide    b = take(w, op->source[1 + i], a->size, lane), c = {0, 0}, old;
        unsigned char *at = ref->at + i * a->size;
        if (a->has_third)
            c = take(w, op->source[2], a->size, lane);
        old = global ? update_common(at, a->size, a->global, b, c) : update_own(at, a->size, a->shared, b, c);
        if (a->has_result)
            give(w, op->result[i], a->size, lane, old);
    }
}

/* A generic address may be local, where atomics do not exist. */
static bool in_reach(struct emu_warp *w, const struct emu_op *op, uint32_t mask, const struct emu_ref *ref)
{
    for (uint32_t m = mask; m; m &= m - 1) {
        int l = __builtin_ctz(m);
        if (ref[l].space == EMU_LOCAL) {
            emu_fault(w, op, l, FAULT_ADDRESS, "an atomic operation cannot use local memory");
            return false;
        }
    }
    return true;
}

static bool update_lanes(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const struct atomic_op *a = (const struct atomic_op *)op->data;
    uint64_t                address[EMU_LANES];
    struct emu_ref          ref[EMU_LANES];
    uint32_t                bytes = (uint32_t)a->size * a->count;
    emu_addresses(w, op, 0, op->u8[1], address);
    if (!emu_memory(w, op, mask, (enum emu_space)op->u8[0], address, bytes, bytes,
                    ACCESS | (a->own_block ? EMU_OWN_BLOCK : 0), ref) ||
        !in_reach(w, op, mask, ref))
        return false;
    for (uint32_t m = mask; m; m &= m - 1) {
        int l = __builtin_ctz(m);
        update_lane(w, op, l, &ref[l]);
    }
    return true;
}

static void exec_atom(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const struct atomic_op *a = (const struct atomic_op *)op->data;
    if (a->fences & FENCE_BEFORE)
        memory_fence(w, mask, a->own_block);
    bool begun = memory_strong_begin(w, (enum emu_space)op->u8[0], ACCESS);
    bool done = update_lanes(w, op, mask);
    memory_strong_end(begun);
    if (!done)
        return;
    if (a->fences & FENCE_AFTER)
        memory_fence(w, mask, a->own_block);
    if (a->yields)
        emu_yield(w);
}

/* ---- which update ----------------------------------------------------------------------------------- */
static const struct row {
    enum operation operation;
    enum ptx_type  type;
    update        *shared, *global;
} rows[] = {
    {OP_ADD, PTX_u32, add_32, add_32},
    {OP_ADD, PTX_s32, add_32, add_32},
    {OP_ADD, PTX_u64, add_64, add_64},
    {OP_ADD, PTX_f32, add_f32, add_f32_ftz},
    {OP_ADD, PTX_f64, add_f64, add_f64},
    {OP_ADD, PTX_f16, f16_add_1, f16_add_1},
    {OP_ADD, PTX_f16x2, f16_add_2, f16_add_2},
    {OP_ADD, PTX_bf16, bf16_add_1, bf16_add_1},
    {OP_ADD, PTX_bf16x2, bf16_add_2, bf16_add_2},
    {OP_MIN, PTX_u32, min_u, min_u},
    {OP_MIN, PTX_u64, min_u, min_u},
    {OP_MIN, PTX_s32, min_s32, min_s32},
    {OP_MIN, PTX_s64, min_s64, min_s64},
    {OP_MAX, PTX_u32, max_u, max_u},
    {OP_MAX, PTX_u64, max_u, max_u},
    {OP_MAX, PTX_s32, max_s32, max_s32},
    {OP_MAX, PTX_s64, max_s64, max_s64},
    {OP_MIN, PTX_f16, f16_min_1, f16_min_1},
    {OP_MIN, PTX_f16x2, f16_min_2, f16_min_2},
    {OP_MAX, PTX_f16, f16_max_1, f16_max_1},
    {OP_MAX, PTX_f16x2, f16_max_2, f16_max_2},
    {OP_MIN, PTX_bf16, bf16_min_1, bf16_min_1},
    {OP_MIN, PTX_bf16x2, bf16_min_2, bf16_min_2},
    {OP_MAX, PTX_bf16, bf16_max_1, bf16_max_1},
    {OP_MAX, PTX_bf16x2, bf16_max_2, bf16_max_2},
    {OP_INC, PTX_u32, inc_u32, inc_u32},
    {OP_DEC, PTX_u32, dec_u32, dec_u32},
    {OP_AND, PTX_b32, and_, and_},
    {OP_AND, PTX_b64, and_, and_},
    {OP_OR, PTX_b32, or_, or_},
    {OP_OR, PTX_b64, or_, or_},
    {OP_XOR, PTX_b32, xor_, xor_},
    {OP_XOR, PTX_b64, xor_, xor_},
    {OP_EXCH, PTX_b32, exchange, exchange},
    {OP_EXCH, PTX_b64, exchange, exchange},
    {OP_EXCH, PTX_b128, exchange, exchange},
    {OP_CAS, PTX_b16, compare_and_swap, compare_and_swap},
    {OP_CAS, PTX_b32, compare_and_swap, compare_and_swap},
    {OP_CAS, PTX_b64, compare_and_swap, compare_and_swap},
    {OP_CAS, PTX_b128, compare_and_swap, compare_and_swap},
};

static const struct row *find_row(enum operation operation, enum ptx_type type)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].operation == operation && rows[i].type == type)
            return &rows[i];
    return NULL;
}

/* ---- decoding --------------------------------------------------------------------------------------- */
static bool is_half(enum ptx_type type)
{
    return type == PTX_f16 || type == PTX_f16x2 || type == PTX_bf16 || type == PTX_bf16x2;
}

static uint8_t fences_of(struct decoder *d, enum access_order order, bool red)
{
    if (order == ORDER_WEAK || order == ORDER_VOLATILE ||
        (red && order >= ORDER_ACQUIRE && order != ORDER_RELEASE))
        decode_refuse(d,
                      red ? "red can only be .relaxed or .release" : "an atomic cannot be .weak or .volatile");
    return (order == ORDER_RELEASE || order == ORDER_ACQ_REL ? FENCE_BEFORE : 0) |
           (order == ORDER_ACQUIRE || order == ORDER_ACQ_REL ? FENCE_AFTER : 0);
}

/* Vectors exist for floats in global memory. */
static bool check_vector(struct decoder *d, const struct atomic_op *a, enum operation operation,
                         enum ptx_type type, enum emu_space space)
{
    unsigned int bytes = (unsigned int)a->count * a->size;
    if (a->count == 1) {
        if (is_half(type) && operation != OP_ADD)
            return decode_refuse(d, "a single .%s has only .add", ptx_type_name(type));
        return true;
    }
    if (!(type == PTX_f32 && operation == OP_ADD) && !is_half(type))
        return decode_refuse(d, "there are no vectors of .%s", ptx_type_name(type));
    if (bytes > 16 || (space != EMU_GLOBAL && space != EMU_GENERIC))
        return decode_refuse(d, "vectors must be 4 to 16 bytes of global memory");
    return decode_need_sm(d, 90) && decode_need_isa(d, 81);
}

static bool check_type(struct decoder *d, enum operation operation, enum ptx_type type, bool red, bool noftz)
{
    if (d->failed)
        return false;
    if (red && operation >= OP_EXCH)
        return decode_refuse(d, "red has no .%s", operation_words[operation]);
    if (is_half(type) != noftz)
        return decode_refuse(d, noftz ? "only halves have .noftz" : ".noftz is missing");
    if (type == PTX_b128 && !(decode_need_sm(d, 90) && decode_need_isa(d, 83)))
        return false;
    if ((type == PTX_bf16 || type == PTX_bf16x2) && !decode_need_sm(d, 90))
        return false;
    return !((type == PTX_f16 || (operation == OP_CAS && type == PTX_b16)) && !decode_need_sm(d, 70));
}

/* {a, b}, or one. */
static void decode_vector(struct decoder *d, unsigned int number, enum ptx_type type, unsigned int wanted,
                          bool result)
{
    unsigned int              count = 0;
    const struct ptx_operand *o = decode_operand(d, number);
    const struct ptx_operand *items = o != NULL ? decode_items(o, &count) : NULL;
    if (items == NULL || (o->kind == PTX_OP_SINK && result && wanted > 1)) {
        decode_refuse(d, "a list of %u registers is expected", wanted);
        return;
    }
    if (count != wanted || (count == 1 && o->kind == PTX_OP_LIST)) {
        decode_refuse(d, "%u registers for %u elements", count, wanted);
        return;
    }
    for (unsigned int i = 0; i < count; i++) {
        if (result)
            decode_result_of(d, &items[i], type);
        else
            decode_source_of(d, &items[i], type);
    }
}

static bool decode_atom_operands(struct decoder *d, struct emu_op *op, const struct atomic_op *a,
                                 enum ptx_type type, enum emu_space space, bool policy)
{
    unsigned int number = a->has_result;
    if (!decode_place_of(d, op, number, space))
        return false;
    decode_vector(d, number + 1, type, a->count, false);
    if (a->has_third)
        decode_source(d, number + 2, type);
    if (a->has_result)
        decode_vector(d, 0, type, a->count, true);
    decode_policy(d, number + 2u + a->has_third, policy);
    return !d->failed;
}

static bool check_atom(struct decoder *d, const struct access_words *words)
{
    if (words->space != EMU_GLOBAL && words->space != EMU_GENERIC && words->space != EMU_SHARED)
        return decode_refuse(d, "atomics must use .global or .shared memory");
    if (words->operation < 0)
        return decode_refuse(d, "the operation is missing");
    if (words->read_only || words->mmio)
        return decode_refuse(d, "an atomic cannot be .nc or .mmio");
    return true;
}

bool decode_atom(struct decoder *d, struct emu_op *op)
{
    struct access_words words;
    bool                red = strcmp(d->in->opcode, "red") == 0;
    struct atomic_op   *a = (struct atomic_op *)decode_alloc(d, 1, sizeof *a);
    if (a == NULL || !decode_access_words(d, operation_words, &words) || !check_atom(d, &words))
        return false;
    const struct row *row = find_row((enum operation)words.operation, words.type);
    if (row == NULL)
        return decode_refuse(d, ".%s does not exist for .%s", operation_words[words.operation],
                             ptx_type_name(words.type));
    *a = (struct atomic_op){.shared = row->shared,
                            .global = row->global,
                            .count = (uint8_t)words.count,
                            .size = (uint8_t)(ptx_type_bits(words.type) / 8),
                            .has_result = !red,
                            .own_block = words.own_block,
                            .fences = fences_of(d, words.order, red),
                            .has_third = row->operation == OP_CAS,
                            .yields = row->operation >= OP_EXCH};
    if (!check_type(d, row->operation, words.type, red, words.noftz) ||
        !check_vector(d, a, row->operation, words.type, words.space))
        return false;
    op->data = a;
    op->exec = exec_atom;
    op->class_ = EMU_CLASS_atomic;
    return decode_atom_operands(d, op, a, words.type, words.space, words.policy);
}
