/* cp.c - the decoder of cp, and the instructions that close groups of copies or wait for them. */
#include "async.h"
#include "cp.h"

/* ---- groups: u8[0] kind, u8[1] only reads, u32[0] groups that may be in flight -------------------- */
static void exec_commit(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    async_commit(w, mask, (enum async_kind)op->u8[0]);
}

static void exec_wait_group(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    async_wait(w, mask, (enum async_kind)op->u8[0], op->u32[0], op->u8[1] != 0);
}

static void exec_wait_all(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    async_commit(w, mask, (enum async_kind)op->u8[0]);
    async_wait(w, mask, (enum async_kind)op->u8[0], 0, false);
}

static bool decode_group(struct decoder *d, struct emu_op *op, enum async_kind kind, emu_exec *exec)
{
    int64_t newest = 0;
    op->exec = exec;
    op->u8[0] = (uint8_t)kind;
    if (exec == exec_wait_group)
        op->u8[1] = kind == ASYNC_BULK && decode_take(d, "read");
    if (!decode_end(d) || !decode_operands(d, exec == exec_wait_group, exec == exec_wait_group))
        return false;
    if (exec == exec_wait_group && !decode_integer(d, 0, &newest))
        return false;
    op->u32[0] = (uint32_t)newest; /* ptxas takes any constant: its low 32 bits count */
    return true;
}

/* ---- addresses ------------------------------------------------------------------------------------ */
bool cp_decode_address(struct decoder *d, unsigned int number, enum emu_space space, struct cp_address *out)
{
    return cp_decode_address_of(d, decode_operand(d, number), space, out);
}

bool cp_decode_address_of(struct decoder *d, const struct ptx_operand *operand, enum emu_space space,
                          struct cp_address *out)
{
    decode_address(d, operand, space, &out->bits);
    if (d->failed)
        return false;
    out->source = d->op->source_count - 1u;
    out->offset = d->op->offset;
    out->space = space;
    return true;
}

uint64_t cp_address_of(struct emu_warp *w, const struct emu_op *op, const struct cp_address *a, int lane)
{
    if (a->bits == 64)
        return emu_r64(w, op->source[a->source])[lane] + (uint64_t)a->offset;
    return (uint32_t)(emu_r32(w, op->source[a->source])[lane] + (uint32_t)a->offset);
}

void cp_addresses(struct emu_warp *w, const struct emu_op *op, const struct cp_address *a,
                  uint64_t out[EMU_LANES])
{
    if (a->bits == 64) {
        const uint64_t *base = emu_r64(w, op->source[a->source]);
        EMU_FOR_LANES(EMU_ALL, l, out[l] = base[l] + (uint64_t)a->offset);
    } else {
        const uint32_t *base = emu_r32(w, op->source[a->source]);
        EMU_FOR_LANES(EMU_ALL, l, out[l] = base[l] + (uint32_t)a->offset);
    }
}

bool cp_find_mbarrier(struct emu_warp *w, const struct emu_op *op, const struct cp_address *a, int lane,
                      bool remote, struct mbarrier_place *out)
{
    struct emu_ref ref;
    uint64_t       address = cp_address_of(w, op, a, lane);
    if (!emu_memory_range(w, op, lane, a->space, address, 8, 8, EMU_READ | EMU_NO_JUDGE, &ref))
        return false;
    if (ref.space != EMU_SHARED || (ref.cta != w->cta && !remote)) {
        emu_fault(w, op, lane, 715, "the mbarrier's address 0x%llx is not in %s", (unsigned long long)address,
                  ref.space == EMU_SHARED ? "this block's shared memory" : "shared memory");
        return false;
    }
    out->cta = ref.cta;
    out->address = (uint32_t)ref.address;
    return true;
}

bool cp_take_cache_hint(struct decoder *d) { return decode_take(d, "L2::cache_hint"); }

/* ---- the words ------------------------------------------------------------------------------------ */
static bool decode_cp_bulk(struct decoder *d, struct emu_op *op)
{
    decode_need_sm(d, 90);
    decode_need_isa(d, 80);
    if (decode_take(d, "commit_group"))
        return decode_group(d, op, ASYNC_BULK, exec_commit);
    if (decode_take(d, "wait_group"))
        return decode_group(d, op, ASYNC_BULK, exec_wait_group);
    if (decode_take(d, "prefetch"))
        return decode_take(d, "tensor") ? decode_tensor_prefetch(d, op) : decode_bulk_prefetch(d, op);
    if (decode_take(d, "tensor"))
        return decode_tensor_copy(d, op);
    return decode_bulk_copy(d, op);
}

bool decode_cp(struct decoder *d, struct emu_op *op)
{
    op->class_ = EMU_CLASS_async_copy;
    if (decode_take(d, "reduce")) {
        if (!decode_take(d, "async") || !decode_take(d, "bulk"))
            return decode_refuse(d, "only cp.reduce.async.bulk is known");
        decode_need_sm(d, 90);
        decode_need_isa(d, 80);
        return decode_take(d, "tensor") ? decode_tensor_reduce(d, op) : decode_bulk_reduce(d, op);
    }
    if (!decode_take(d, "async"))
        return decode_refuse(d, "only cp.async and cp.reduce.async are known");
    decode_need_sm(d, 80);
    decode_need_isa(d, 70);
    if (decode_take(d, "bulk"))
        return decode_cp_bulk(d, op);
    if (decode_take(d, "commit_group"))
        return decode_group(d, op, ASYNC_CP, exec_commit);
    if (decode_take(d, "wait_group"))
        return decode_group(d, op, ASYNC_CP, exec_wait_group);
    if (decode_take(d, "wait_all"))
        return decode_group(d, op, ASYNC_CP, exec_wait_all);
    if (decode_take(d, "mbarrier"))
        return decode_cp_arrive(d, op);
    return decode_cp_async(d, op);
}
