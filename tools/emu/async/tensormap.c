/* tensormap.c - tensormap.replace and tensormap.cp_fenceproxy: tensor maps that kernels change. */
#include "async.h"
#include "tensor_map.h"
#include "tools/emu/memory/load_store.h"

enum { MAP_ALIGN = 64, FAULT = 715 };

static const char *const fields[] = {"global_address",    "rank",
                                     "box_dim",           "global_dim",
                                     "global_stride",     "element_stride",
                                     "elemtype",          "interleave_layout",
                                     "swizzle_mode",      "fill_mode",
                                     "swizzle_atomicity", NULL};

/* ---- replace: u8[0] space, u8[1] bits of the address, u8[2] field, u8[3] ordinal, u8[4] bits of the value --- */
static void exec_replace(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    uint64_t       address[EMU_LANES];
    struct emu_ref ref[EMU_LANES];
    emu_addresses(w, op, 0, op->u8[1], address);
    for (uint32_t m = mask; m != 0; m &= m - 1) {
        int            l = __builtin_ctz(m);
        const uint64_t value = op->u8[4] == 64 ? emu_r64(w, op->source[1])[l] : emu_r32(w, op->source[1])[l];
        const char    *why = NULL;
        if (!emu_memory(w, op, 1u << l, (enum emu_space)op->u8[0], address, EMU_TENSOR_MAP_BYTES, MAP_ALIGN,
                        EMU_READ | EMU_WRITE, ref))
            return;
        if (!emu_tensor_map_replace(ref[l].at, (enum emu_tensor_field)op->u8[2], op->u8[3], value, &why)) {
            emu_fault(w, op, l, FAULT, "tensor map at 0x%llx: %s", (unsigned long long)address[l], why);
            return;
        }
    }
}

static bool is_ordered(enum emu_tensor_field field)
{
    return field >= EMU_TENSOR_BOX_DIM && field <= EMU_TENSOR_ELEMENT_STRIDE;
}

/* The fields after the strides take constants of a few values. */
static bool decode_value(struct decoder *d, struct emu_op *op, unsigned int number, enum ptx_type type)
{
    static const int64_t        most[] = {[EMU_TENSOR_ELEMTYPE] = 15,
                                          [EMU_TENSOR_INTERLEAVE] = 2,
                                          [EMU_TENSOR_SWIZZLE] = 4,
                                          [EMU_TENSOR_FILL] = 1,
                                          [EMU_TENSOR_ATOMICITY] = 3};
    const enum emu_tensor_field field = (enum emu_tensor_field)op->u8[2];
    int64_t                     value;
    if (field == EMU_TENSOR_SWIZZLE && decode_operand(d, number)->integer == 4 && !decode_need_isa(d, 88))
        return false;
    if (field >= EMU_TENSOR_ELEMTYPE &&
        (!decode_integer(d, number, &value) || value < 0 || value > most[field]))
        return decode_refuse(d, "the value must be a constant from 0 to %lld", (long long)most[field]);
    decode_source(d, number, type);
    return !d->failed;
}

static bool decode_replace(struct decoder *d, struct emu_op *op)
{
    int64_t        ordinal = 0;
    const int      field = decode_one_of(d, fields);
    enum emu_space space = decode_space(d, NULL);
    if (!decode_take(d, "tile") || field < 0)
        return decode_refuse(d, field < 0 ? "the field is missing: .global_address, .rank, ..."
                                          : ".tile is missing");
    if (space != EMU_GENERIC && space != EMU_GLOBAL && space != EMU_SHARED)
        return decode_refuse(d, "the tensor map must be in .global or .shared::cta");
    if (!decode_take(d, "b1024"))
        return decode_refuse(d, ".b1024 is missing");
    const bool          wide = field == EMU_TENSOR_GLOBAL_ADDRESS || field == EMU_TENSOR_GLOBAL_STRIDE;
    const enum ptx_type type = decode_type(d);
    const unsigned int  ordered = is_ordered((enum emu_tensor_field)field);
    if (type != (wide ? PTX_b64 : PTX_b32))
        return decode_refuse(d, "the type of .%s must be .b%d", fields[field], wide ? 64 : 32);
    if (!decode_end(d) || !decode_need_isa(d, 83) || !decode_need_suffix_from(d, 90) ||
        !decode_operands(d, 2 + ordered, 2 + ordered) || !decode_place_of(d, op, 0, space))
        return false;
    const int64_t last = EMU_TENSOR_RANK - 1;
    if (ordered && (!decode_integer(d, 1, &ordinal) || ordinal < 0 || ordinal > last))
        return decode_refuse(d, "the dimension must be a constant from 0 to %lld", (long long)last);
    if (field == EMU_TENSOR_ATOMICITY && !(decode_need_suffix_from(d, 100) && decode_need_isa(d, 86)))
        return false;
    op->u8[2] = (uint8_t)field;
    op->u8[3] = (uint8_t)ordinal;
    op->u8[4] = wide ? 64 : 32;
    op->exec = exec_replace;
    return decode_value(d, op, 1 + ordered, type);
}

/* ---- cp_fenceproxy: u8[0] and u8[1] are the destination's, u32[0] is the source's bits ------------------ */
static void exec_copy(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    uint64_t       to[EMU_LANES], from[EMU_LANES];
    struct emu_ref write[EMU_LANES], read[EMU_LANES];
    const int      l = __builtin_ctz(mask);
    struct emu_op  source = *op;
    source.offset = (int64_t)((uint64_t)op->u32[2] << 32 | op->u32[1]);
    emu_addresses(w, op, 0, op->u8[1], to);
    emu_addresses(w, &source, 1, op->u32[0], from);
    if (!emu_memory(w, op, 1u << l, EMU_SHARED, from, EMU_TENSOR_MAP_BYTES, EMU_TENSOR_MAP_BYTES, EMU_READ,
                    read) ||
        !emu_memory(w, op, 1u << l, EMU_GLOBAL, to, EMU_TENSOR_MAP_BYTES, EMU_TENSOR_MAP_BYTES, EMU_WRITE,
                    write))
        return;
    memcpy(write[l].at, read[l].at, EMU_TENSOR_MAP_BYTES);
    memory_fence(w, mask, false);
}

/* .global.shared::cta.tensormap::generic.release.scope.sync.aligned [to], [from], 128 */
static bool decode_copy(struct decoder *d, struct emu_op *op)
{
    unsigned int bits;
    int64_t      bytes;
    bool         cluster = false;
    if (decode_space(d, NULL) != EMU_GLOBAL || decode_space(d, &cluster) != EMU_SHARED || cluster)
        return decode_refuse(d, "a tensor map is copied from .shared::cta to .global");
    if (!decode_take(d, "tensormap::generic") || !decode_take(d, "release") || !decode_scope(d))
        return decode_refuse(d, ".tensormap::generic.release and a scope are expected");
    if (!decode_take(d, "sync") || !decode_take(d, "aligned"))
        return decode_refuse(d, ".sync.aligned is missing");
    if (!decode_end(d) || !decode_need_sm(d, 90) || !decode_need_isa(d, 83) || !decode_operands(d, 3, 3))
        return false;
    if (!decode_integer(d, 2, &bytes) || bytes != EMU_TENSOR_MAP_BYTES)
        return decode_refuse(d, "the size must be %d", EMU_TENSOR_MAP_BYTES);
    if (!decode_place_of(d, op, 0, EMU_GLOBAL))
        return false;
    const int64_t offset = op->offset;
    decode_address(d, decode_operand(d, 1), EMU_SHARED, &bits);
    op->u32[0] = bits;
    op->u32[1] = (uint32_t)op->offset;
    op->u32[2] = (uint32_t)((uint64_t)op->offset >> 32);
    op->offset = offset;
    op->exec = exec_copy;
    op->flags |= EMU_OP_ALIGNED;
    return !d->failed;
}

bool decode_tensormap(struct decoder *d, struct emu_op *op)
{
    op->class_ = EMU_CLASS_async_copy;
    if (decode_take(d, "replace"))
        return decode_replace(d, op);
    return decode_take(d, "cp_fenceproxy") ? decode_copy(d, op)
                                           : decode_refuse(d, ".replace or .cp_fenceproxy is missing");
}
