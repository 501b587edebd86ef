/* fence.c - membar, fence: the order of memory accesses, also between the generic and the async proxy. */
#include "tools/emu/memory/load_store.h"
#include "tools/emu/judge/judge.h"
#include "tools/emu/memory/access.h"

enum { SPACE_GLOBAL = 1, SPACE_SHARED = 2, TENSOR_MAP_BYTES = 128 };

/* u8[0]: the scope is .cta. */
static void exec_fence(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    memory_fence(w, mask, op->u8[0]);
}

static void exec_proxy_fence(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    judge_proxy_fence(w, mask, op->u32[0]);
}

/* fence.proxy.tensormap::generic.acquire [map], 128 */
static void exec_map_acquire(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    uint64_t       address[EMU_LANES];
    struct emu_ref ref[EMU_LANES];
    emu_addresses(w, op, 0, op->u8[1], address);
    if (emu_memory(w, op, mask, (enum emu_space)op->u8[0], address, TENSOR_MAP_BYTES, TENSOR_MAP_BYTES,
                   EMU_READ | EMU_NO_JUDGE, ref))
        memory_fence(w, mask, false);
}

static bool decode_plain(struct decoder *d, struct emu_op *op)
{
    op->exec = exec_fence;
    return decode_end(d) && decode_operands(d, 0, 0);
}

static bool need_scope(struct decoder *d)
{
    return decode_scope(d) || decode_refuse(d, "a scope is missing: .cta, .cluster, .gpu or .sys");
}

/* .acquire.sync_restrict::shared::cluster.cluster, .release.sync_restrict::shared::cta.cluster: the restriction
 * is ignored, so that the fence orders more than it must. */
static bool decode_restriction(struct decoder *d)
{
    bool acquires = decode_take(d, "acquire");
    if (!acquires && !decode_take(d, "release"))
        return decode_refuse(d, ".acquire or .release is missing");
    if (!decode_take(d, acquires ? "sync_restrict::shared::cluster" : "sync_restrict::shared::cta"))
        return decode_refuse(d, ".sync_restrict is missing");
    if (!decode_take(d, "cluster"))
        return decode_refuse(d, "the scope must be .cluster");
    return decode_need_sm(d, 90) && decode_need_isa(d, 86);
}

/* fence.proxy.tensormap::generic.{acquire,release}.scope */
static bool decode_map_proxy(struct decoder *d, struct emu_op *op)
{
    int64_t bytes;
    if (!decode_need_sm(d, 90) || !decode_need_isa(d, 83))
        return false;
    if (decode_take(d, "release"))
        return need_scope(d) && decode_plain(d, op);
    if (!decode_take(d, "acquire"))
        return decode_refuse(d, ".acquire or .release is missing");
    if (!need_scope(d) || !decode_end(d) || !decode_operands(d, 2, 2) ||
        !decode_place_of(d, op, 0, EMU_GENERIC))
        return false;
    if (!decode_integer(d, 1, &bytes) || bytes != TENSOR_MAP_BYTES)
        return decode_refuse(d, "the size must be %d", TENSOR_MAP_BYTES);
    op->exec = exec_map_acquire;
    return true;
}

static bool decode_async_proxy(struct decoder *d, struct emu_op *op)
{
    op->u32[0] = SPACE_GLOBAL | SPACE_SHARED;
    if (decode_take(d, "global"))
        op->u32[0] = SPACE_GLOBAL;
    else if (decode_take(d, "shared::cta") || decode_take(d, "shared::cluster"))
        op->u32[0] = SPACE_SHARED;
    op->exec = exec_proxy_fence;
    return decode_need_sm(d, 90) && decode_need_isa(d, 80) && decode_end(d) && decode_operands(d, 0, 0);
}

static bool decode_proxy(struct decoder *d, struct emu_op *op)
{
    if (decode_take(d, "alias")) /* memory has one address here, so any fence suffices */
        return decode_need_sm(d, 70) && decode_plain(d, op);
    if (decode_take(d, "async"))
        return decode_async_proxy(d, op);
    if (decode_take(d, "tensormap::generic"))
        return decode_map_proxy(d, op);
    if (decode_take(d, "async::generic")) {
        if (!decode_restriction(d) || !decode_end(d) || !decode_operands(d, 0, 0))
            return false;
        op->u32[0] = SPACE_SHARED;
        op->exec = exec_proxy_fence;
        return true;
    }
    return decode_refuse(d, "the proxy is missing: .alias, .async, .tensormap::generic or .async::generic");
}

static bool decode_thread_fence(struct decoder *d, struct emu_op *op)
{
    static const char *const semantics[] = {"sc", "acq_rel", "acquire", "release", NULL};
    const uint64_t           begin = d->taken;
    int                      which = decode_one_of(d, semantics);
    if (which >= 2 && decode_begins(d, "sync_restrict") != NULL) {
        d->taken = begin;
        return decode_restriction(d) && decode_plain(d, op);
    }
    return decode_need_sm(d, 70) && need_scope(d) && decode_plain(d, op);
}

static bool decode_membar(struct decoder *d, struct emu_op *op)
{
    static const char *const levels[] = {"cta", "gl", "sys", NULL};
    if (decode_one_of(d, levels) < 0)
        return decode_refuse(d, "a level is missing: .cta, .gl or .sys");
    return decode_plain(d, op);
}

bool decode_fence(struct decoder *d, struct emu_op *op)
{
    op->class_ = EMU_CLASS_sync;
    const bool membar = strcmp(d->in->opcode, "membar") == 0;
    if (decode_take(d, "proxy"))
        return membar && strcmp(decode_peek(d), "alias") != 0 ? decode_refuse(d, "membar.proxy must be .alias")
                                                              : decode_proxy(d, op);
    for (unsigned int i = 0; i < d->in->modifier_count; i++)
        op->u8[0] = op->u8[0] || strcmp(d->in->modifiers[i], "cta") == 0;
    if (membar)
        return decode_membar(d, op);
    if (decode_take(d, "mbarrier_init")) {
        if (!decode_take(d, "release") || !decode_take(d, "cluster"))
            return decode_refuse(d, ".mbarrier_init needs .release.cluster");
        return decode_need_sm(d, 90) && decode_plain(d, op);
    }
    return decode_thread_fence(d, op);
}
