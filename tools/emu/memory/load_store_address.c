/* load_store_address.c - conversions of addresses, and cache hints: cvta, isspacep, mapa, getctarank, prefetch,
 * applypriority, discard, createpolicy.  alloca, stacksave and stackrestore are refused. */
#include "tools/emu/machine/arena.h"
#include "tools/emu/decode/state.h"
#include "load_store.h"
#include "access.h"

enum { LINE = 128, RESULT_FAULT = 700 };
enum { U8_SPACE, U8_ADDRESS_BITS, U8_CLUSTER, U8_WIDE };
static const uint64_t OFFSET_MASK = (1u << EMU_RANK_SHIFT) - 1, WINDOW_MASK = 0xffull << 56;

/* What generic addresses add to those of the space. */
static uint64_t window_of(const struct emu_warp *w, enum emu_space space)
{
    return space == EMU_SHARED  ? EMU_SHARED_WINDOW
           : space == EMU_LOCAL ? EMU_LOCAL_WINDOW
           : space == EMU_PARAM ? w->grid->parameter_address
                                : 0;
}

/* ---- cvta ------------------------------------------------------------------------------------------- */
static void exec_cvta(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    uint64_t       *to = emu_r64(w, op->result[0]), window = window_of(w, (enum emu_space)op->u8[U8_SPACE]);
    const uint64_t *from = emu_r64(w, op->source[0]);
    EMU_FOR_LANES(mask, l, to[l] = from[l] + window);
}

static void exec_cvta_to(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    uint64_t       *to = emu_r64(w, op->result[0]), window = window_of(w, (enum emu_space)op->u8[U8_SPACE]);
    const uint64_t *from = emu_r64(w, op->source[0]);
    EMU_FOR_LANES(mask, l, to[l] = from[l] - window);
}

/* Parameters of device functions are in local memory and have no generic address. */
static bool is_local_parameter(struct decoder *d, const struct ptx_operand *o)
{
    const struct placed *p = o != NULL && o->kind == PTX_OP_SYMBOL ? decode_find_placed(d->state, o->symbol)
                                                                   : NULL;
    return p != NULL && p->space == EMU_LOCAL;
}

static bool lies_there(const struct ptx_symbol *symbol, enum emu_space space)
{
    const enum ptx_space at = symbol->space;
    return at == PTX_GLOBAL   ? space == EMU_GLOBAL
           : at == PTX_CONST  ? space == EMU_CONST
           : at == PTX_SHARED ? space == EMU_SHARED
           : at == PTX_LOCAL  ? space == EMU_LOCAL
                              : space == EMU_PARAM;
}

bool decode_cvta(struct decoder *d, struct emu_op *op)
{
    bool           to = decode_take(d, "to");
    enum emu_space space = decode_space(d, NULL);
    if (space == EMU_GENERIC)
        return decode_refuse(d, "a state space is missing");
    if (decode_type(d) != PTX_u64)
        return decode_refuse(d, "generic addresses have 64 bits, so the type must be .u64");
    if (!decode_end(d) || !decode_operands(d, 2, 2))
        return false;
    const struct ptx_operand *from = decode_operand(d, 1);
    /* `to` takes the address of a function as it is. */
    if (from->kind == PTX_OP_SYMBOL &&
        (from->symbol->kind == PTX_FUNCTION ? !to : !lies_there(from->symbol, space)))
        return decode_refuse(d, "'%s' lies in another state space", from->symbol->name);
    if (space == EMU_PARAM && is_local_parameter(d, decode_operand(d, 1)))
        return decode_refuse(d, "a device function's parameter has no generic address");
    decode_result(d, 0, PTX_u64);
    decode_source(d, 1, PTX_u64);
    op->u8[U8_SPACE] = (uint8_t)space;
    op->exec = to ? exec_cvta_to : exec_cvta;
    op->class_ = EMU_CLASS_move;
    return !d->failed;
}

/* ---- isspacep --------------------------------------------------------------------------------------- */
static bool lies_in(const struct emu_warp *w, enum emu_space space, bool cluster, uint64_t address)
{
    uint64_t                 window = address & WINDOW_MASK, rank = (address & ~WINDOW_MASK) >> EMU_RANK_SHIFT;
    const struct arena_slot *s = window ? NULL : arena_slot_of(address);
    bool                     constant = s != NULL && s->what.kind == EMU_MEMORY_CONSTANT;
    switch (space) {
    case EMU_SHARED:
        return window == EMU_SHARED_WINDOW && (cluster || rank == 0 || rank == w->cta->rank + 1);
    case EMU_LOCAL:
        return window == EMU_LOCAL_WINDOW;
    case EMU_CONST:
        return constant;
    case EMU_PARAM:
        return s != NULL && s->what.kind == EMU_MEMORY_PARAMETERS;
    default: /* parameters lie within the global window */
        return window == 0 && !constant;
    }
}

static uint64_t lane_address(struct emu_warp *w, const struct emu_op *op, int lane)
{
    return op->u8[U8_WIDE] ? emu_r64(w, op->source[0])[lane] : emu_r32(w, op->source[0])[lane];
}

static void exec_isspacep(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    uint32_t found = 0;
    for (uint32_t m = mask; m; m &= m - 1) {
        int l = __builtin_ctz(m);
        if (lies_in(w, (enum emu_space)op->u8[U8_SPACE], op->u8[U8_CLUSTER], lane_address(w, op, l)))
            found |= 1u << l;
    }
    emu_set_pred(w, op->result[0], mask, found);
}

bool decode_isspacep(struct decoder *d, struct emu_op *op)
{
    bool           cluster = false;
    enum emu_space space = decode_space(d, &cluster);
    if (space == EMU_GENERIC)
        return decode_refuse(d, "a state space is missing");
    if (!decode_end(d) || !decode_operands(d, 2, 2))
        return false;
    decode_result_pred(d, decode_operand(d, 0));
    const struct ptx_operand *address = decode_operand(d, 1);
    op->u8[U8_WIDE] = address->kind != PTX_OP_REGISTER || ptx_type_bits(address->symbol->type) != 32;
    decode_source(d, 1, op->u8[U8_WIDE] ? PTX_u64 : PTX_u32);
    op->u8[U8_SPACE] = (uint8_t)space;
    op->u8[U8_CLUSTER] = cluster;
    op->exec = exec_isspacep;
    op->class_ = EMU_CLASS_compare;
    return !d->failed;
}

/* ---- mapa, getctarank ------------------------------------------------------------------------------- */
/* The address must be in the shared memory of a block; otherwise it is reported. */
static bool is_shared(struct emu_warp *w, const struct emu_op *op, int lane, uint64_t address)
{
    char               text[256];
    struct memory_part p;
    enum emu_space     space = (enum emu_space)op->u8[U8_SPACE];
    if (memory_part_of(w, space, address, &p) && p.space == EMU_SHARED)
        return true;
    emu_address_text(w, lane, space, address, text, sizeof text);
    emu_fault(w, op, lane, RESULT_FAULT, "the address is not in shared memory: %s", text);
    return false;
}

static void exec_mapa(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const uint32_t *rank = emu_r32(w, op->source[1]);
    for (uint32_t m = mask; m; m &= m - 1) {
        int      l = __builtin_ctz(m);
        uint64_t address = lane_address(w, op, l), window = address & WINDOW_MASK;
        if (!is_shared(w, op, l, address))
            return;
        if (rank[l] >= w->cluster->cta_count) {
            emu_fault(w, op, l, RESULT_FAULT, "there is no block %u in a cluster of %u", rank[l],
                      w->cluster->cta_count);
            return;
        }
        address = window | (uint64_t)(rank[l] + 1) << EMU_RANK_SHIFT | (address & OFFSET_MASK);
        if (op->u8[U8_WIDE])
            emu_r64(w, op->result[0])[l] = address;
        else
            emu_r32(w, op->result[0])[l] = (uint32_t)address;
    }
}

static void exec_getctarank(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    uint32_t *to = emu_r32(w, op->result[0]);
    for (uint32_t m = mask; m; m &= m - 1) {
        int      l = __builtin_ctz(m);
        uint64_t address = lane_address(w, op, l);
        if (!is_shared(w, op, l, address))
            return;
        uint32_t rank = (uint32_t)((address & ~WINDOW_MASK) >> EMU_RANK_SHIFT);
        to[l] = rank ? rank - 1 : w->cta->rank;
    }
}

/* {.shared::cluster}.u32/.u64: generic addresses are 64 bits wide. */
static enum ptx_type decode_cluster_address(struct decoder *d, struct emu_op *op)
{
    enum emu_space space = decode_space(d, NULL);
    enum ptx_type  type = decode_type(d);
    if (d->failed || !decode_need_sm(d, 90) || !decode_end(d))
        return PTX_NO_TYPE;
    if (space != EMU_SHARED && space != EMU_GENERIC)
        decode_refuse(d, "the space must be .shared::cluster");
    if (type != PTX_u64 && type != PTX_u32 && type != PTX_s64 && type != PTX_s32)
        decode_refuse(d, ".%s is not a type of such an address", ptx_type_name(type));
    op->u8[U8_SPACE] = (uint8_t)space;
    op->u8[U8_WIDE] = ptx_type_bits(type) == 64;
    op->class_ = EMU_CLASS_integer;
    return type;
}

bool decode_mapa(struct decoder *d, struct emu_op *op)
{
    enum ptx_type type = decode_cluster_address(d, op);
    op->exec = exec_mapa;
    return !d->failed && DECODE_TYPED(d, type, type, PTX_u32);
}

bool decode_getctarank(struct decoder *d, struct emu_op *op)
{
    enum ptx_type type = decode_cluster_address(d, op);
    op->exec = exec_getctarank;
    return !d->failed && DECODE_TYPED(d, PTX_u32, type);
}

/* ---- cache hints ------------------------------------------------------------------------------------ */
/* There are no caches.  A prefetch may name any address, as on an H200. */
static void exec_prefetch(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    (void)w;
    (void)op;
    (void)mask;
}

/* The others only need a valid address. */
static void exec_touch(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    uint64_t       address[EMU_LANES];
    struct emu_ref ref[EMU_LANES];
    emu_addresses(w, op, 0, op->u8[U8_ADDRESS_BITS], address);
    emu_memory(w, op, mask, (enum emu_space)op->u8[U8_SPACE], address, op->u32[0], op->u32[1],
               EMU_READ | EMU_NO_JUDGE, ref);
}

static void exec_discard(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    uint64_t       address[EMU_LANES];
    struct emu_ref ref[EMU_LANES];
    emu_addresses(w, op, 0, op->u8[U8_ADDRESS_BITS], address);
    if (!emu_memory(w, op, mask, (enum emu_space)op->u8[U8_SPACE], address, LINE, LINE, EMU_WRITE, ref))
        return;
    for (uint32_t m = mask; m; m &= m - 1)
        memory_undefine(&ref[__builtin_ctz(m)], LINE);
}

/* prefetch{.space}.L1, .L2, .L2::evict_*, .tensormap; prefetchu.L1; applypriority{.global}.L2::... */
bool decode_prefetch(struct decoder *d, struct emu_op *op)
{
    static const char *const levels[] = {"L1", "L2", "L2::evict_last", "L2::evict_normal", NULL};
    bool                     priority = strcmp(d->in->opcode, "applypriority") == 0;
    int64_t                  bytes = LINE;
    enum emu_space           space = decode_space(d, NULL);
    bool                     map = !priority && decode_take(d, "tensormap");
    const int                level = map ? 0 : decode_one_of(d, levels);
    if (map ? !decode_need_sm(d, 90) : level < 0)
        return decode_refuse(d, "a cache level is missing");
    if (level > 1 && space == EMU_LOCAL)
        return decode_refuse(d, "local memory has no priority");
    if (map ? space != EMU_GENERIC && space != EMU_CONST && space != EMU_PARAM
            : space != EMU_GENERIC && space != EMU_GLOBAL && space != EMU_LOCAL)
        return decode_refuse(d, "there is no such prefetch in this state space");
    if (!decode_end(d) || !decode_operands(d, priority ? 2 : 1, priority ? 2 : 1) ||
        !decode_place_of(d, op, 0, space))
        return false;
    if (priority && (!decode_integer(d, 1, &bytes) || bytes != LINE))
        return decode_refuse(d, "the size must be %d", LINE);
    op->u32[0] = map || priority ? LINE : 1;
    op->u32[1] = priority ? LINE : map ? 64 : 1;
    op->exec = map || priority ? exec_touch : exec_prefetch;
    op->class_ = EMU_CLASS_other;
    return true;
}

bool decode_discard(struct decoder *d, struct emu_op *op)
{
    int64_t        bytes = 0;
    enum emu_space space = decode_space(d, NULL);
    if (!decode_take(d, "L2"))
        return decode_refuse(d, "the level must be .L2");
    if (space != EMU_GLOBAL && space != EMU_GENERIC)
        return decode_refuse(d, "the space must be .global");
    if (!decode_need_sm(d, 80) || !decode_end(d) || !decode_operands(d, 2, 2) ||
        !decode_place_of(d, op, 0, space))
        return false;
    if (!decode_integer(d, 1, &bytes) || bytes != LINE)
        return decode_refuse(d, "the size must be %d", LINE);
    op->exec = exec_discard;
    op->class_ = EMU_CLASS_store_global;
    return true;
}

/* ---- createpolicy ----------------------------------------------------------------------------------- */
static void exec_policy(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    uint64_t *to = emu_r64(w, op->result[0]), value = (uint64_t)op->u32[0] << 32;
    EMU_FOR_LANES(mask, l, to[l] = value);
}

static int take_priority(struct decoder *d)
{
    static const char *const words[] = {"L2::evict_normal", "L2::evict_unchanged", "L2::evict_first",
                                        "L2::evict_last", NULL};
    return decode_one_of(d, words);
}

/* The operands after the result: an optional fraction; an address and two sizes; or an access property. */
static bool policy_operands(struct decoder *d, struct emu_op *op, bool range, bool convert)
{
    if (range) {
        if (!decode_operands(d, 4, 4) || !decode_place_of(d, op, 1, EMU_GLOBAL))
            return false;
        const struct ptx_operand *first = decode_operand(d, 2), *all = decode_operand(d, 3);
        if (first->kind == PTX_OP_INTEGER && all->kind == PTX_OP_INTEGER &&
            (uint32_t)first->integer > (uint32_t)all->integer)
            return decode_refuse(d, "the primary size is larger than the whole size");
        decode_source(d, 2, PTX_u32);
        decode_source(d, 3, PTX_u32);
    } else if (convert) {
        if (decode_operands(d, 2, 2))
            decode_source(d, 1, PTX_b64);
    } else if (decode_operands(d, 1, 2) && decode_operand_count(d) == 2) {
        const struct ptx_operand *o = decode_operand(d, 1);
        float                     fraction = 1;
        decode_source(d, 1, PTX_f32);
        if (o->kind == PTX_OP_F32)
            memcpy(&fraction, &(uint32_t){(uint32_t)o->integer}, sizeof fraction);
        if (o->kind == PTX_OP_F64) {
            double wide;
            memcpy(&wide, &o->integer, sizeof wide);
            fraction = (float)wide;
        }
        if (!(fraction > 0 && fraction <= 1))
            return decode_refuse(d, "the fraction must be above 0 and at most 1");
    }
    return !d->failed;
}

/* Only a cache could interpret a policy; here it is a value that names the priority. */
bool decode_createpolicy(struct decoder *d, struct emu_op *op)
{
    bool range = decode_take(d, "range"), convert = !range && decode_take(d, "cvt");
    if (!range && !convert && !decode_take(d, "fractional"))
        return decode_refuse(d, ".fractional, .range or .cvt is missing");
    if (range)
        decode_take(d, "global");
    int primary = convert ? (decode_take(d, "L2") ? 0 : -1) : take_priority(d);
    if (primary < 0)
        return decode_refuse(d, "a priority of .L2 is missing");
    if (!convert) {
        const int second = take_priority(d);
        if (second >= 0 && second != 1 && second != 2)
            return decode_refuse(d, "the second priority must be .L2::evict_first or .L2::evict_unchanged");
    }
    if (!decode_take(d, "b64"))
        return decode_refuse(d, "the type must be .b64");
    if (!decode_need_sm(d, 80) || !decode_end(d))
        return false;
    decode_result(d, 0, PTX_u64);
    op->u32[0] = 0x10000000u | (uint32_t)primary << 24;
    op->exec = exec_policy;
    op->class_ = EMU_CLASS_other;
    return policy_operands(d, op, range, convert);
}

/* ---- the stack -------------------------------------------------------------------------------------- */
static bool refuse_stack(struct decoder *d)
{
    return decode_refuse(d, "memory on the stack whose size is known only at run time is not supported");
}

bool decode_alloca(struct decoder *d, struct emu_op *op)
{
    (void)op;
    return refuse_stack(d);
}

bool decode_stacksave(struct decoder *d, struct emu_op *op)
{
    (void)op;
    return refuse_stack(d);
}

bool decode_stackrestore(struct decoder *d, struct emu_op *op)
{
    (void)op;
    return refuse_stack(d);
}
