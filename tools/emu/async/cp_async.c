/* cp_async.c - cp.async: copies of 4, 8 or 16 bytes per lane into shared memory; arrivals after them. */
#include "state.h"
#include "cp.h"

/* ---- copies: the lanes of a warp's instruction are one operation ---------------------------------- */
struct cp_async_op {
    struct cp_address to, from;
    uint32_t          bytes;  /* of a lane: 4, 8, 16                                       */
    int               take;   /* source with the number of bytes to read; -1: all bytes     */
    int               ignore; /* source with the predicate that no byte is read; -1: none   */
    bool              ignore_negated;
};

struct cp_copy {
    struct async_lanes each;
    uint32_t           lanes, bytes;
    uint32_t           to[EMU_LANES];
    uint8_t            take[EMU_LANES]; /* bytes that are read; zeros follow them */
    struct emu_ref     from[EMU_LANES];
};

static void copy_lane(const struct cp_copy *c, int first, int lanes)
{
    struct emu_cta *cta = c->each.op.warp->cta;
    struct emu_ref  to = {cta->shared + c->to[first], EMU_SHARED, cta, c->to[first]};
    uint32_t        whole = (uint32_t)lanes * c->bytes, take = lanes > 1 ? whole : c->take[first];
    if (take > 0)
        emu_copy(&to, &c->from[first], take);
    if (take == whole)
        return;
    struct emu_ref rest = {to.at + take, EMU_SHARED, cta, to.address + take};
    memset(rest.at, 0, whole - take);
    emu_define(&rest, whole - take);
}

/* Do the bytes of lane b follow those of lane a on both sides? */
static bool follows(const struct cp_copy *c, int a, int b)
{
    return c->to[b] == c->to[a] + c->bytes && c->from[b].address == c->from[a].address + c->bytes &&
           c->take[b] == c->bytes;
}

static void complete_copy(struct async_op *a)
{
    const struct cp_copy *c = (const struct cp_copy *)a;
    for (uint32_t left = c->lanes; left != 0;) {
        int first = __builtin_ctz(left), end = first + 1;
        while (end < EMU_LANES && left >> end & 1 && c->take[first] == c->bytes && follows(c, end - 1, end))
            end++;
        copy_lane(c, first, end - first);
        left &= end == EMU_LANES ? 0 : EMU_ALL << end;
    }
}

/* Set c->take: how many bytes each lane reads. */
static void find_sizes(struct emu_warp *w, const struct emu_op *op, uint32_t mask, struct cp_copy *c)
{
    const struct cp_async_op *o = (const struct cp_async_op *)op->data;
    memset(c->take, (int)o->bytes, sizeof c->take);
    if (o->take >= 0) {
        const uint32_t *take = emu_r32(w, op->source[o->take]);
        for (uint32_t m = mask; m; m &= m - 1) {
            int l = __builtin_ctz(m);
            if (take[l] > o->bytes)
                judge_find(w, op, l, JUDGE_ASYNC, "reads %u bytes for a copy of %u", take[l], o->bytes);
            c->take[l] = (uint8_t)(take[l] < o->bytes ? take[l] : o->bytes);
        }
    }
    if (o->ignore >= 0) {
        uint32_t ignored = emu_pred(w, op->source[o->ignore]) ^ (o->ignore_negated ? EMU_ALL : 0);
        for (uint32_t m = mask & ignored; m; m &= m - 1)
            c->take[__builtin_ctz(m)] = 0;
    }
}

static bool find_sources(struct emu_warp *w, const struct emu_op *op, uint32_t mask, struct cp_copy *c)
{
    const struct cp_async_op *o = (const struct cp_async_op *)op->data;
    uint64_t                  from[EMU_LANES];
    uint32_t                  whole = 0, some = 0;
    cp_addresses(w, op, &o->from, from);
    for (uint32_t m = mask; m; m &= m - 1) {
        int l = __builtin_ctz(m);
        whole |= (uint32_t)(c->take[l] == o->bytes) << l;
        some |= (uint32_t)(c->take[l] != 0) << l;
    }
    if (whole &&
        !emu_memory(w, op, whole, EMU_GLOBAL, from, o->bytes, o->bytes, EMU_READ | EMU_NO_JUDGE, c->from))
        return false;
    for (uint32_t m = some & ~whole; m; m &= m - 1) {
        int l = __builtin_ctz(m);
        if (!emu_memory_range(w, op, l, EMU_GLOBAL, from[l], c->take[l], o->bytes, EMU_READ | EMU_NO_JUDGE,
                              &c->from[l]))
            return false;
    }
    return true;
}

static void judge_copy(struct emu_warp *w, const struct emu_op *op, uint32_t mask, struct cp_copy *c)
{
    for (uint32_t m = mask; m; m &= m - 1) {
        int                 l = __builtin_ctz(m);
        struct emu_ref      to = {w->cta->shared + c->to[l], EMU_SHARED, w->cta, c->to[l]};
        struct judge_async *a = judge_async_begin(w, op, l, false);
        c->each.judge[l] = a;
        if (a == NULL)
            continue;
        judge_async_touch(a, &to, c->bytes, EMU_WRITE);
        if (c->take[l] != 0)
            judge_async_touch(a, &c->from[l], c->take[l], EMU_READ);
    }
}

static void exec_cp_async(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const struct cp_async_op *o = (const struct cp_async_op *)op->data;
    uint64_t                  to[EMU_LANES];
    struct emu_ref            ref[EMU_LANES];
    cp_addresses(w, op, &o->to, to);
    if (!emu_memory(w, op, mask, EMU_SHARED, to, o->bytes, o->bytes, EMU_WRITE | EMU_NO_JUDGE, ref))
        return;
    struct cp_copy *c = (struct cp_copy *)async_new(w, op, __builtin_ctz(mask), sizeof *c, complete_copy);
    if (c == NULL)
        return;
    c->each.op.lanes = c->lanes = mask;
    c->bytes = o->bytes;
    for (uint32_t m = mask; m; m &= m - 1) {
        int l = __builtin_ctz(m);
        c->to[l] = (uint32_t)ref[l].address;
        if (w->cta->async != NULL)
            mbarrier_overwritten(w, op, l, w->cta, c->to[l], o->bytes);
    }
    find_sizes(w, op, mask, c);
    if (!find_sources(w, op, mask, c)) {
        async_discard(&c->each.op);
        return;
    }
    if (w->judge != NULL)
        judge_copy(w, op, mask, c);
    async_issue(w, &c->each.op, ASYNC_CP);
}

static bool decode_sizes(struct decoder *d, struct cp_async_op *o, bool only_16)
{
    int64_t bytes;
    if (!decode_integer(d, 2, &bytes))
        return false;
    if (bytes != 16 && (only_16 || (bytes != 4 && bytes != 8)))
        return decode_refuse(d, "a copy cannot have %lld bytes: it must have %s", (long long)bytes,
                             only_16 ? "16 with .cg" : "4, 8 or 16");
    o->bytes = (uint32_t)bytes;
    return true;
}

bool decode_cp_async(struct decoder *d, struct emu_op *op)
{
    static const char *const levels[] = {"ca", "cg", NULL}, *const prefetch[] = {"L2::64B", "L2::128B",
                                                                                 "L2::256B", NULL};
    struct cp_async_op *o = (struct cp_async_op *)decode_alloc(d, 1, sizeof *o);
    bool                cluster = false;
    int                 level = decode_one_of(d, levels);
    if (o == NULL || level < 0)
        return decode_refuse(d, ".ca or .cg is missing");
    if (decode_space(d, &cluster) != EMU_SHARED || cluster || decode_space(d, NULL) != EMU_GLOBAL)
        return decode_refuse(d, "a copy must be from .global to .shared::cta");
    bool hint = cp_take_cache_hint(d);
    decode_one_of(d, prefetch);
    if (!decode_end(d) || !decode_operands(d, 3 + hint, 4 + hint) || !decode_sizes(d, o, level == 1) ||
        !cp_decode_address(d, 0, EMU_SHARED, &o->to) || !cp_decode_address(d, 1, EMU_GLOBAL, &o->from))
        return false;
    o->take = o->ignore = -1;
    if (decode_operand_count(d) == 4u + hint) {
        const struct ptx_operand *more = decode_operand(d, 3);
        if (more->kind == PTX_OP_INTEGER && more->integer > o->bytes)
            return decode_refuse(d, "%llu of %u bytes are copied", (unsigned long long)more->integer, o->bytes);
        bool ignore = more->kind == PTX_OP_REGISTER && more->symbol != NULL && more->symbol->type == PTX_pred;
        *(ignore ? &o->ignore : &o->take) = op->source_count;
        if (ignore)
            decode_source_pred(d, more, &o->ignore_negated);
        else
            decode_source(d, 3, PTX_u32);
    }
    if (hint)
        decode_source(d, decode_operand_count(d) - 1, PTX_u64);
    op->data = o;
    op->exec = exec_cp_async;
    return true;
}

/* ---- cp.async.mbarrier.arrive: u8[0] noinc -------------------------------------------------------- */
struct cp_arrival {
    struct async_signal signal;
    uint32_t            lanes;
    uint64_t            serial; /* of the first copy after it */
};

static void complete_arrival(struct async_op *a)
{
    struct cp_arrival    *c = (struct cp_arrival *)a;
    struct mbarrier_place at = {c->signal.cta, c->signal.address};
    async_cp_settle(a->warp, c->lanes, c->serial, mbarrier_clock(at));
    for (uint32_t m = c->lanes; m; m &= m - 1)
        mbarrier_arrive_for(a->warp, a->op, __builtin_ctz(m), at);
}

static bool issue_arrival(struct emu_warp *w, const struct emu_op *op, uint32_t lanes, struct mbarrier_place at)
{
    struct cp_arrival *c = (struct cp_arrival *)async_new(w, op, __builtin_ctz(lanes), sizeof *c,
                                                          complete_arrival);
    if (c == NULL)
        return false;
    c->signal.cta = at.cta;
    c->signal.address = at.address;
    c->signal.harmless = true;
    c->lanes = lanes;
    c->serial = w->async->serial;
    for (uint32_t m = op->u8[0] ? 0 : lanes; m; m &= m - 1)
        mbarrier_expect_arrival(w, op, __builtin_ctz(m), at);
    async_issue(w, &c->signal.op, ASYNC_MBARRIER);
    return true;
}

static void exec_cp_arrive(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const struct cp_address *address = (const struct cp_address *)op->data;
    struct mbarrier_place    at[EMU_LANES];
    for (uint32_t m = mask; m; m &= m - 1)
        if (!cp_find_mbarrier(w, op, address, __builtin_ctz(m), false, &at[__builtin_ctz(m)]))
            return;
    for (uint32_t left = mask; left != 0;) {
        int      first = __builtin_ctz(left);
        uint32_t same = 0;
        for (uint32_t m = left; m; m &= m - 1)
            same |= (uint32_t)(at[__builtin_ctz(m)].address == at[first].address) << __builtin_ctz(m);
        if (!issue_arrival(w, op, same, at[first]))
            return;
        left &= ~same;
    }
}

bool decode_cp_arrive(struct decoder *d, struct emu_op *op)
{
    struct cp_address *address = (struct cp_address *)decode_alloc(d, 1, sizeof *address);
    bool               cluster = false;
    if (address == NULL || !decode_take(d, "arrive"))
        return decode_refuse(d, ".arrive is missing");
    op->u8[0] = decode_take(d, "noinc");
    enum emu_space space = decode_space(d, &cluster);
    if (cluster || (space != EMU_SHARED && space != EMU_GENERIC))
        return decode_refuse(d, "the mbarrier must be in .shared::cta");
    if (!decode_take(d, "b64"))
        return decode_refuse(d, "the type must be .b64");
    if (!decode_end(d) || !decode_operands(d, 1, 1) || !cp_decode_address(d, 0, space, address))
        return false;
    op->data = address;
    op->exec = exec_cp_arrive;
    return true;
}
