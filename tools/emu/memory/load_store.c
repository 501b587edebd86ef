/* load_store.c - ld, ldu, st: between registers and memory of any space. */
#include "load_store.h"
#include "tools/emu/judge/judge.h"
#include "tools/emu/machine/undefined.h"
#include "access.h"

enum { REG_SHIFT = 4 };
enum { /* u8 of an op */
       U8_SPACE,
       U8_ADDRESS_BITS,
       U8_COUNT,
       U8_SIZE,
       U8_SIGNED,
       U8_FENCES,
       U8_YIELDS
};
enum {
    U32_ACCESS,
    U32_REGISTERS
}; /* _REGISTERS: for each element REG_SHIFT bits, log2 of the register's bytes */

static unsigned int register_log2(const struct emu_op *op, unsigned int element)
{
    return op->u32[U32_REGISTERS] >> (REG_SHIFT * element) & ((1u << REG_SHIFT) - 1);
}

void memory_fence(struct emu_warp *w, uint32_t mask, bool own_block)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    judge_fence(w, mask, own_block);
}

/* ---- elements between memory and a row -------------------------------------------------------------- */
/* A strong access to one element is a single access, which the compiler neither splits nor repeats. */
static uint64_t read_strong(const unsigned char *at, unsigned int size)
{
    switch (size) {
    case 1:
        return __atomic_load_n(at, __ATOMIC_RELAXED);
    case 2:
        return __atomic_load_n((const uint16_t *)(const void *)at, __ATOMIC_RELAXED);
    case 4:
        return __atomic_load_n((const uint32_t *)(const void *)at, __ATOMIC_RELAXED);
    default:
        return __atomic_load_n((const uint64_t *)(const void *)at, __ATOMIC_RELAXED);
    }
}

static uint64_t read_weak(const unsigned char *at, unsigned int size)
{
    uint64_t value = 0;
    switch (size) { /* the host is little-endian */
    case 1:
        return *at;
    case 2:
        memcpy(&value, at, 2);
        break;
    case 4:
        memcpy(&value, at, 4);
        break;
    default:
        memcpy(&value, at, 8);
    }
    return value;
}

static void write_strong(unsigned char *at, unsigned int size, uint64_t value)
{
    switch (size) {
    case 1:
        __atomic_store_n(at, (uint8_t)value, __ATOMIC_RELAXED);
        break;
    case 2:
        __atomic_store_n((uint16_t *)(void *)at, (uint16_t)value, __ATOMIC_RELAXED);
        break;
    case 4:
        __atomic_store_n((uint32_t *)(void *)at, (uint32_t)value, __ATOMIC_RELAXED);
        break;
    default:
        __atomic_store_n((uint64_t *)(void *)at, value, __ATOMIC_RELAXED);
    }
}

/* Sign or zero extension to the register's width; rows of less than 32 bits keep zeros above. */
static uint64_t extended(uint64_t value, unsigned int size, bool is_signed, unsigned int log2)
{
    unsigned int shift = 64 - 8 * size, cut = log2 >= 3 ? 0 : 64 - (8u << log2);
    if (is_signed)
        value = (uint64_t)((int64_t)(value << shift) >> shift);
    return value << cut >> cut;
}

static void put(struct emu_warp *w, emu_reg reg, unsigned int log2, int lane, uint64_t value)
{
    if (log2 >= 3)
        emu_r64(w, reg)[lane] = value;
    else
        emu_r32(w, reg)[lane] = (uint32_t)value;
}

/* One value for all lanes. */
static void load_uniform(struct emu_warp *w, const struct emu_op *op, unsigned int element,
                         const unsigned char *at)
{
    unsigned int log2 = register_log2(op, element);
    uint64_t     value = extended(read_weak(at, op->u8[U8_SIZE]), op->u8[U8_SIZE], op->u8[U8_SIGNED], log2);
    uint64_t    *wide = emu_r64(w, op->result[element]);
    uint32_t    *narrow = emu_r32(w, op->result[element]);
    if (log2 >= 3)
        for (int l = 0; l < EMU_LANES; l++)
            wide[l] = value;
    else
        for (int l = 0; l < EMU_LANES; l++)
            narrow[l] = (uint32_t)value;
}

static void load_element(struct emu_warp *w, const struct emu_op *op, uint32_t mask, unsigned int element,
                         const struct memory_lanes *m)
{
    const unsigned int size = op->u8[U8_SIZE], log2 = register_log2(op, element), from = element * size;
    const bool         weak = !(op->u32[U32_ACCESS] & EMU_STRONG), is_signed = op->u8[U8_SIGNED];
    const emu_reg      reg = op->result[element];
    uint32_t          *narrow = emu_r32(w, reg);
    uint64_t          *wide = emu_r64(w, reg), *high = wide + EMU_LANES;
    if (size == 16) {
        MEMORY_FOR_LANES(m, mask, l, p, memcpy(&wide[l], p + from, 8); memcpy(&high[l], p + from + 8, 8));
        return;
    }
    if (!weak)
        MEMORY_FOR_LANES(m, mask, l, p,
                         put(w, reg, log2, l, extended(read_strong(p + from, size), size, is_signed, log2)));
    else if (m->regular && m->step == 0)
        load_uniform(w, op, element, m->first + from);
    else if (size == 4 && log2 == 2)
        MEMORY_FOR_LANES(m, mask, l, p, memcpy(&narrow[l], p + from, 4));
    else if (size == 8)
        MEMORY_FOR_LANES(m, mask, l, p, memcpy(&wide[l], p + from, 8));
    else if (size == 2 && log2 == 1)
        MEMORY_FOR_LANES(m, mask, l, p, uint16_t v; memcpy(&v, p + from, 2); narrow[l] = v);
    else
        MEMORY_FOR_LANES(m, mask, l, p,
                         put(w, reg, log2, l, extended(read_weak(p + from, size), size, is_signed, log2)));
    if (log2 == 4) /* 128 bits */
        EMU_FOR_LANES(mask, l, high[l] = is_signed && wide[l] >> 63 ? UINT64_MAX : 0);
}

static void store_element(struct emu_warp *w, const struct emu_op *op, uint32_t mask, unsigned int element,
                          const struct memory_lanes *m)
{
    const unsigned int size = op->u8[U8_SIZE], log2 = register_log2(op, element), to = element * size;
    const bool         weak = !(op->u32[U32_ACCESS] & EMU_STRONG);
    const uint32_t    *narrow = emu_r32(w, op->source[1 + element]);
    const uint64_t    *wide = emu_r64(w, op->source[1 + element]), *high = wide + EMU_LANES;
    if (size == 16)
        MEMORY_FOR_LANES(m, mask, l, p, memcpy(p + to, &wide[l], 8); memcpy(p + to + 8, &high[l], 8));
    else if (!weak)
        MEMORY_FOR_LANES(m, mask, l, p, write_strong(p + to, size, log2 >= 3 ? wide[l] : narrow[l]));
    else if (size == 4) /* the low half comes first */
        MEMORY_FOR_LANES(m, mask, l, p, if (log2 == 2) memcpy(p + to, &narrow[l], 4);
                         else memcpy(p + to, &wide[l], 4));
    else if (size == 8)
        MEMORY_FOR_LANES(m, mask, l, p, memcpy(p + to, &wide[l], 8));
    else
        MEMORY_FOR_LANES(m, mask, l, p, uint64_t v = log2 >= 3 ? wide[l] : narrow[l]; memcpy(p + to, &v, size));
}

/* ---- undefined bytes ---------------------------------------------------------------------------------- */
/* Of an element with these undefined bytes, the undefined bits in its register. */
static struct emu_bits bits_of_bytes(uint32_t bytes, unsigned int size, bool is_signed)
{
    struct emu_bits bits = {0, 0};
    for (unsigned int i = 0; i < 8; i++) {
        bits.low |= bytes >> i & 1 ? 0xffull << 8 * i : 0;
        bits.high |= bytes >> (8 + i) & 1 ? 0xffull << 8 * i : 0;
    }
    if (is_signed && size <= 8 && bytes >> (size - 1) & 1) { /* so are the copies of the sign */
        bits.low |= size < 8 ? UINT64_MAX << 8 * size : 0;
        bits.high = UINT64_MAX;
    }
    return bits;
}

/* Results that come from undefined bytes are undefined. */
static void load_holes(struct emu_warp *w, const struct emu_op *op, const struct memory_lanes *m,
                       const uint64_t address[EMU_LANES])
{
    const unsigned int      size = op->u8[U8_SIZE], count = op->u8[U8_COUNT];
    const int               first = __builtin_ctz(w->holes);
    const struct emu_origin origin = {w->now->function, 0, op, op->u8[U8_SPACE], address[first], first};
    for (uint32_t left = w->holes; left; left &= left - 1) {
        const int      l = __builtin_ctz(left);
        const uint32_t bytes = emu_undefined_bytes(&m->ref[l], size * count);
        for (unsigned int i = 0; i < count; i++)
            emu_undefined_put(w, op->result[i], l,
                              bits_of_bytes(bytes >> size * i & (uint32_t)emu_ones(size), size,
                                            op->u8[U8_SIGNED]));
    }
    for (unsigned int i = 0; i < count; i++)
        emu_origin_set(w, op->result[i], &origin);
}

/* The bytes of an element that lane l stores and that are undefined: elsewhere than in global memory they are
 * undefined from now on.  True: some are in global memory, which is a use. */
static bool store_holes(const struct emu_ref *ref, unsigned int from, unsigned int size, struct emu_bits bits)
{
    bool seen = false;
    for (unsigned int k = 0; k < size; k++) {
        struct emu_ref byte = *ref;
        if (!((k < 8 ? bits.low >> 8 * k : bits.high >> 8 * (k - 8)) & 0xff))
            continue;
        byte.at += from + k;
        byte.address += from + k;
        seen |= byte.space == EMU_GLOBAL;
        if (byte.space != EMU_GLOBAL)
            memory_undefine(&byte, 1);
    }
    return seen;
}

static void store_missing(struct emu_warp *w, const struct emu_op *op, const struct memory_lanes *m)
{
    const unsigned int size = op->u8[U8_SIZE];
    for (unsigned int i = 0; i < op->u8[U8_COUNT]; i++) {
        const emu_reg reg = op->source[1 + i];
        uint32_t      seen = 0;
        for (uint32_t left = emu_undefined_lanes(w, reg, w->missing); left; left &= left - 1) {
            const int l = __builtin_ctz(left);
            if (store_holes(&m->ref[l], i * size, size, emu_undefined_get(w, reg, l)))
                seen |= 1u << l;
        }
        if (seen)
            emu_undefined_use(w, op, reg, seen, "stores");
    }
}

/* ---- the instructions ------------------------------------------------------------------------------- */
static bool find_lanes(struct emu_warp *w, const struct emu_op *op, uint32_t mask, struct memory_lanes *m,
                       uint64_t address[EMU_LANES])
{
    uint32_t bytes = (uint32_t)op->u8[U8_COUNT] * op->u8[U8_SIZE];
    emu_addresses(w, op, 0, op->u8[U8_ADDRESS_BITS], address);
    return memory_lanes(w, op, mask, (enum emu_space)op->u8[U8_SPACE], address, bytes, bytes,
                        op->u32[U32_ACCESS], m);
}

static void exec_ld(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    struct memory_lanes m;
    uint64_t            address[EMU_LANES];
    if (op->u8[U8_FENCES] & FENCE_BEFORE)
        memory_fence(w, mask, (op->u32[U32_ACCESS] & EMU_OWN_BLOCK) != 0);
    bool begun = memory_strong_begin(w, (enum emu_space)op->u8[U8_SPACE], op->u32[U32_ACCESS]);
    bool found = find_lanes(w, op, mask, &m, address);
    for (unsigned int i = 0; found && i < op->u8[U8_COUNT]; i++)
        load_element(w, op, mask, i, &m);
    memory_strong_end(begun);
    if (!found)
        return;
    emu_define_results(w, op, mask);
    if (w->holes)
        load_holes(w, op, &m, address);
    if (op->u8[U8_FENCES] & FENCE_AFTER)
        memory_fence(w, mask, (op->u32[U32_ACCESS] & EMU_OWN_BLOCK) != 0);
    if (op->u8[U8_YIELDS])
        emu_yield(w);
}

static void exec_st(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    struct memory_lanes m;
    uint64_t            address[EMU_LANES];
    if (op->u8[U8_FENCES] & FENCE_BEFORE)
        memory_fence(w, mask, (op->u32[U32_ACCESS] & EMU_OWN_BLOCK) != 0);
    bool begun = memory_strong_begin(w, (enum emu_space)op->u8[U8_SPACE], op->u32[U32_ACCESS]);
    bool found = find_lanes(w, op, mask, &m, address);
    for (unsigned int i = 0; found && i < op->u8[U8_COUNT]; i++)
        store_element(w, op, mask, i, &m);
    memory_strong_end(begun);
    if (found && w->missing && memory_judges_undefined(w))
        store_missing(w, op, &m);
}

/* The common case: the 4 bytes of all lanes are contiguous. */
static void exec_ld_32(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    struct memory_lanes m;
    uint64_t            address[EMU_LANES];
    if (!find_lanes(w, op, mask, &m, address))
        return;
    if (m.regular && m.step == 4)
        memcpy(emu_r32(w, op->result[0]), m.first, EMU_ROW);
    else
        load_element(w, op, mask, 0, &m);
    emu_define_results(w, op, mask);
    if (w->holes)
        load_holes(w, op, &m, address);
}

static void exec_st_32(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    struct memory_lanes m;
    uint64_t            address[EMU_LANES];
    if (!find_lanes(w, op, mask, &m, address))
        return;
    if (m.regular && m.step == 4)
        memcpy(m.first, emu_r32(w, op->source[1]), EMU_ROW);
    else
        store_element(w, op, mask, 0, &m);
    if (w->missing && memory_judges_undefined(w))
        store_missing(w, op, &m);
}

bool memory_stored_byte(const struct emu_warp *w, const struct emu_op *op, int lane, uint32_t offset,
                        unsigned char *byte)
{
    if (op->exec != exec_st && op->exec != exec_st_32)
        return false;
    const unsigned int size = op->u8[U8_SIZE], element = offset / size, log2 = register_log2(op, element);
    const unsigned int within = offset % size;
    const emu_reg      reg = op->source[1 + element];
    uint64_t value = log2 < 3 ? emu_r32(w, reg)[lane] : emu_r64(w, reg)[lane + within / 8 * EMU_LANES];
    *byte = (unsigned char)(value >> 8 * (within % 8));
    return true;
}

/* ---- decoding --------------------------------------------------------------------------------------- */
void decode_policy(struct decoder *d, unsigned int number, bool policy)
{
    decode_operands(d, number + policy, number + policy);
    if (policy && !d->failed)
        decode_source(d, number, PTX_u64);
}

/* EMU_STRONG for what is not weak. */
static unsigned int strength(struct decoder *d, const struct access_words *words, enum access_order own_order)
{
    bool scope_wanted = words->order >= ORDER_RELAXED;
    if (words->order > ORDER_RELAXED && words->order != own_order)
        decode_refuse(d, "the order must be .relaxed or .%s",
                      own_order == ORDER_ACQUIRE ? "acquire" : "release");
    if (scope_wanted != words->scoped)
        decode_refuse(d, scope_wanted ? "a scope is missing: .cta, .cluster, .gpu or .sys"
                                      : "a scope is given without an order");
    return words->order > ORDER_WEAK ? EMU_STRONG | (words->own_block ? EMU_OWN_BLOCK : 0) : 0;
}

static enum emu_class class_of(enum emu_space space, bool load)
{
    switch (space) {
    case EMU_SHARED:
        return load ? EMU_CLASS_load_shared : EMU_CLASS_store_shared;
    case EMU_LOCAL:
        return load ? EMU_CLASS_load_local : EMU_CLASS_store_local;
    case EMU_PARAM:
        return load ? EMU_CLASS_load_param : EMU_CLASS_store_local;
    case EMU_CONST:
        return EMU_CLASS_load_const;
    default:
        return load ? EMU_CLASS_load_global : EMU_CLASS_store_global;
    }
}

bool decode_place_of(struct decoder *d, struct emu_op *op, unsigned int number, enum emu_space space)
{
    unsigned int              bits = 64;
    const struct ptx_operand *address = decode_operand(d, number);
    decode_address(d, address, space, &bits);
    if (d->failed)
        return false;
    if (space == EMU_PARAM)
        space = decode_param_is_local(d, address) ? EMU_LOCAL : EMU_GLOBAL;
    op->u8[U8_SPACE] = (uint8_t)space;
    op->u8[U8_ADDRESS_BITS] = (uint8_t)bits;
    return true;
}

/* Bytes of an element, and how many there are. */
static bool decode_elements(struct decoder *d, struct emu_op *op, const struct access_words *words)
{
    enum ptx_type type = words->type;
    unsigned int  bytes = ptx_type_bits(type) / 8, count = words->count;
    if (type == PTX_pred || type == PTX_f16 || type == PTX_f16x2 || type == PTX_bf16 || type == PTX_bf16x2 ||
        type >= PTX_texref)
        return decode_refuse(d, ".%s is not a type of memory: use .b%u", ptx_type_name(type),
                             ptx_type_bits(type));
    if (words->noftz)
        return decode_refuse(d, "'.noftz' is not known here");
    if (type == PTX_b128 && !decode_need_sm(d, 70))
        return false;
    if (bytes * count > 16) {
        if (bytes * count > 32 || bytes < 4 || (words->space != EMU_GLOBAL && words->space != EMU_GENERIC))
            return decode_refuse(d, "a vector cannot have %u bytes", bytes * count);
        if (!decode_need_sm(d, 100))
            return false;
    }
    op->u8[U8_COUNT] = (uint8_t)count;
    op->u8[U8_SIZE] = (uint8_t)bytes;
    op->u8[U8_SIGNED] = type >= PTX_s8 && type <= PTX_s64;
    return true;
}

static void decode_values(struct decoder *d, struct emu_op *op, unsigned int number, enum ptx_type type,
                          bool load)
{
    unsigned int              count = 0, bits = 0;
    const struct ptx_operand *value = decode_operand(d, number);
    if (value == NULL)
        return;
    const struct ptx_operand *items = decode_items(value, &count);
    if (count != op->u8[U8_COUNT] || (count > 1 && value->kind != PTX_OP_LIST)) {
        decode_refuse(d, "%u registers for %u elements", count, op->u8[U8_COUNT]);
        return;
    }
    if (!decode_same_widths(d, value))
        return;
    for (unsigned int i = 0; i < count && !d->failed; i++) {
        if (load)
            decode_result_wide(d, &items[i], type, &bits);
        else
            decode_source_wide(d, &items[i], type, &bits);
        if (!d->failed)
            op->u32[U32_REGISTERS] |= (uint32_t)__builtin_ctz(bits / 8) << (REG_SHIFT * i);
    }
}

static void choose_exec(struct emu_op *op, bool load)
{
    bool plain = !(op->u32[U32_ACCESS] & EMU_STRONG) && op->u8[U8_COUNT] == 1 && op->u8[U8_SIZE] == 4 &&
                 register_log2(op, 0) == 2;
    if (load)
        op->exec = plain ? exec_ld_32 : exec_ld;
    else
        op->exec = plain ? exec_st_32 : exec_st;
}

static bool check_load(struct decoder *d, const struct access_words *words)
{
    bool global = words->space == EMU_GLOBAL;
    if (words->read_only && words->order != ORDER_NONE)
        return decode_refuse(d, ".nc cannot be combined with an order");
    if (words->read_only && !global)
        return decode_refuse(d, "only .global has .nc");
    if (words->space == EMU_PARAM && words->order > ORDER_WEAK)
        return decode_refuse(d, "a parameter has no order of accesses");
    if (words->space == EMU_LOCAL && words->order > ORDER_WEAK)
        return decode_refuse(d, "local memory has no order of accesses");
    if (strcmp(d->in->opcode, "ldu") == 0 && !global && words->space != EMU_GENERIC)
        return decode_refuse(d, "ldu must use .global");
    return true;
}

bool decode_ld(struct decoder *d, struct emu_op *op)
{
    struct access_words words;
    if (!decode_access_words(d, NULL, &words) || !check_load(d, &words) || !decode_elements(d, op, &words) ||
        !decode_operands(d, 2, 3) || !decode_place_of(d, op, 1, words.space))
        return false;
    decode_values(d, op, 0, words.type, true);
    decode_policy(d, 2, words.policy);
    unsigned int strong = strength(d, &words, ORDER_ACQUIRE);
    op->flags |= EMU_OP_DEFINES;
    op->u32[U32_ACCESS] = EMU_READ | EMU_PARTIAL | strong | (words.read_only ? EMU_NC : 0);
    if (words.space == EMU_CONST || (words.space == EMU_PARAM && op->u8[U8_SPACE] == EMU_GLOBAL))
        op->u32[U32_ACCESS] |= EMU_NO_JUDGE; /* nothing writes there */
    op->u8[U8_FENCES] = words.order == ORDER_ACQUIRE ? FENCE_AFTER : 0;
    op->u8[U8_YIELDS] = strong != 0;
    op->class_ = (uint8_t)class_of(words.space, true);
    choose_exec(op, true);
    return !d->failed;
}

bool decode_st(struct decoder *d, struct emu_op *op)
{
    struct access_words words;
    if (!decode_access_words(d, NULL, &words) || !decode_elements(d, op, &words))
        return false;
    if (words.space == EMU_CONST || words.read_only)
        return decode_refuse(d, "constants cannot be written");
    if (words.space == EMU_LOCAL && words.order > ORDER_WEAK)
        return decode_refuse(d, "local memory has no order of accesses");
    if (!decode_operands(d, 2, 3) || !decode_place_of(d, op, 0, words.space))
        return false;
    if (words.space == EMU_PARAM && op->u8[U8_SPACE] == EMU_GLOBAL)
        return decode_refuse(d, "a kernel's parameters cannot be written");
    decode_values(d, op, 1, words.type, false);
    decode_policy(d, 2, words.policy);
    op->u32[U32_ACCESS] = EMU_WRITE | strength(d, &words, ORDER_RELEASE);
    op->undefined = EMU_UNDEFINED_OWN;
    op->tried = 1; /* the address */
    op->u8[U8_FENCES] = words.order == ORDER_RELEASE ? FENCE_BEFORE : 0;
    op->class_ = (uint8_t)class_of(words.space, false);
    choose_exec(op, false);
    return !d->failed;
}
