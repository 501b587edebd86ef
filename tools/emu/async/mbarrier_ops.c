/* mbarrier_ops.c - the instructions of mbarriers: decoded and executed. */
#include <stdio.h>

#include "state.h"
#include "tools/emu/decode/decode.h"
#include "mbarrier_state.h"

/* ---- the instructions ----------------------------------------------------------------------------- */
enum wait_for { WAIT_STATE, WAIT_PARITY };
struct mbarrier_op {
    enum emu_space space;
    unsigned int   bits;         /* of the address register          */
    bool           remote;       /* shared::cluster is allowed       */
    bool           synchronises; /* .release or .acquire             */
    bool           expect_tx, no_complete, drop, tries;
    bool           has_count; /* or bytes: source[1]              */
    enum wait_for  wait;
};

static bool find_places(struct emu_warp *w, const struct emu_op *op, uint32_t mask, unsigned int access,
                        struct mbarrier_place at[EMU_LANES])
{
    const struct mbarrier_op *o = (const struct mbarrier_op *)op->data;
    uint64_t                  address[EMU_LANES];
    struct emu_ref            ref[EMU_LANES];
    emu_addresses(w, op, 0, o->bits, address);
    w->cluster->async->looking = true;
    bool good = emu_memory(w, op, mask, o->space, address, 8, 8, access, ref);
    w->cluster->async->looking = false;
    for (uint32_t m = good ? mask : 0; m; m &= m - 1) {
        int l = __builtin_ctz(m);
        if (ref[l].space != EMU_SHARED) {
            emu_fault(w, op, l, 715, "the mbarrier's address 0x%llx is not in shared memory",
                      (unsigned long long)address[l]);
            return false;
        }
        if (ref[l].cta != w->cta && !o->remote) {
            emu_fault(w, op, l, 715, "the mbarrier at 0x%llx is in another block's shared memory",
                      (unsigned long long)address[l]);
            return false;
        }
        at[l].cta = ref[l].cta;
        at[l].address = (uint32_t)ref[l].address;
    }
    return good;
}

static bool same_place(const struct mbarrier_place at[EMU_LANES], uint32_t mask)
{
    int first = __builtin_ctz(mask);
    for (uint32_t m = mask; m; m &= m - 1) {
        int l = __builtin_ctz(m);
        if (at[l].cta != at[first].cta || at[l].address != at[first].address)
            return false;
    }
    return true;
}

static void exec_init(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    struct mbarrier_place at[EMU_LANES];
    const uint32_t       *count = emu_r32(w, op->source[1]);
    if (!find_places(w, op, mask, EMU_WRITE, at))
        return;
    for (uint32_t m = mask; m; m &= m - 1)
        mbarrier_init(w, op, __builtin_ctz(m), at[__builtin_ctz(m)], count[__builtin_ctz(m)]);
}

static void exec_inval(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    struct mbarrier_place at[EMU_LANES];
    if (!find_places(w, op, mask, EMU_WRITE, at))
        return;
    for (uint32_t m = mask; m; m &= m - 1)
        mbarrier_inval(w, op, __builtin_ctz(m), at[__builtin_ctz(m)]);
}

/* One lane's arrival; returns the state. */
static uint64_t arrive_one(struct emu_warp *w, const struct emu_op *op, int lane, struct mbarrier_place at,
                           uint32_t operand)
{
    const struct mbarrier_op *o = (const struct mbarrier_op *)op->data;
    struct mbarrier          *m = mbarrier_living(w, op, lane, at);
    if (m == NULL)
        return 0;
    uint64_t token = mbarrier_token(at, m);
    uint32_t count = o->expect_tx ? 1 : operand;
    if (count == 0 || count > MBARRIER_MOST)
        mbarrier_misuse(w, op, lane, at, "a count of %u is not in 1 .. 2^20 - 1", count);
    if (o->expect_tx)
        mbarrier_add_bytes(w, op, lane, at, m, operand);
    if (o->no_complete && count >= m->pending)
        mbarrier_misuse(w, op, lane, at,
                        ".noComplete is given, but %u arrivals complete the phase, which waits for %u", count,
                        m->pending);
    mbarrier_take_arrivals(w, op, lane, at, m, count);
    if (o->drop && count > m->expected)
        mbarrier_misuse(w, op, lane, at, "%u arrivals drop, but only %u are expected", count, m->expected);
    if (o->drop)
        m->expected -= count < m->expected ? count : m->expected;
    mbarrier_settle(at, m);
    return token;
}

static void exec_arrive(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const struct mbarrier_op *o = (const struct mbarrier_op *)op->data;
    struct mbarrier_place     at[EMU_LANES];
    const uint32_t           *operand = o->has_count ? emu_r32(w, op->source[1]) : NULL;
    uint64_t                 *token = emu_r64(w, op->result[0]);
    if (!find_places(w, op, mask, EMU_READ | EMU_STRONG | EMU_PARTIAL, at))
        return;
    int                    first = __builtin_ctz(mask);
    const struct mbarrier *m = mbarrier_alive(at[first]);
    bool                   together = m != NULL && !o->has_count && same_place(at, mask) &&
                    (uint32_t)__builtin_popcount(mask) <= m->pending;
    if (together && o->synchronises)
        judge_release(w, mask, mbarrier_clock(at[first]));
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        int                  l = __builtin_ctz(rest);
        struct judge_clock **clock = together || !o->synchronises ? NULL : mbarrier_clock(at[l]);
        if (clock != NULL)
            judge_release(w, 1u << l, clock);
        token[l] = arrive_one(w, op, l, at[l], operand != NULL ? operand[l] : 1);
    }
}

/* expect_tx and complete_tx: u8[0] says which. */
static void exec_bytes(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    struct mbarrier_place at[EMU_LANES];
    const uint32_t       *bytes = emu_r32(w, op->source[1]);
    if (!find_places(w, op, mask, EMU_READ | EMU_STRONG | EMU_PARTIAL, at))
        return;
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        int              l = __builtin_ctz(rest);
        struct mbarrier *m = mbarrier_living(w, op, l, at[l]);
        if (m == NULL)
            continue;
        mbarrier_add_bytes(w, op, l, at[l], m, op->u8[0] ? -(int64_t)bytes[l] : (int64_t)bytes[l]);
        mbarrier_settle(at[l], m);
    }
}

static void exec_pending_count(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    uint32_t       *count = emu_r32(w, op->result[0]);
    const uint64_t *token = emu_r64(w, op->source[0]);
    EMU_FOR_LANES(mask, l, count[l] = (uint32_t)token[l] & MBARRIER_MOST);
}

/* ---- waiting -------------------------------------------------------------------------------------- */
static bool has_ended(struct emu_warp *w, const struct emu_op *op, int lane, struct mbarrier_place at,
                      const struct mbarrier *m)
{
    const struct mbarrier_op *o = (const struct mbarrier_op *)op->data;
    if (o->wait == WAIT_PARITY) {
        uint32_t parity = emu_r32(w, op->source[1])[lane];
        if (parity > 1)
            mbarrier_misuse(w, op, lane, at, "the parity is %u, but must be 0 or 1", parity);
        return (m->phase & 1) != (parity & 1);
    }
    uint64_t token = emu_r64(w, op->source[1])[lane];
    uint32_t behind = (uint32_t)m->phase - (uint32_t)(token >> 20);
    if (token >> 52 != mbarrier_owner_bits(at))
        mbarrier_misuse(w, op, lane, at, "0x%llx is not a state of this mbarrier", (unsigned long long)token);
    else if (behind > 1)
        mbarrier_misuse(w, op, lane, at,
                        "it waits for phase %u, which is neither the current one, %llu, nor the previous one",
                        (uint32_t)(token >> 20), (unsigned long long)m->phase);
    return behind != 0;
}

static void acquire(struct emu_warp *w, uint32_t done, const struct mbarrier_place at[EMU_LANES])
{
    while (done != 0) {
        int      first = __builtin_ctz(done);
        uint32_t same = 0;
        for (uint32_t m = done; m; m &= m - 1) {
            int l = __builtin_ctz(m);
            same |= (uint32_t)(at[l].cta == at[first].cta && at[l].address == at[first].address) << l;
        }
        const struct mbarrier *m = mbarrier_alive(at[first]);
        if (m != NULL && m->completed != NULL)
            judge_acquire(w, same, m->completed);
        done &= ~same;
    }
}

/* A try_wait may give up at any time. */
static bool gives_up(struct emu_warp *w)
{
    return w->now->expired ||
           (w->grid->settings->async_policy == EMU_ASYNC_RANDOM && emu_random(w->cluster) % 16 == 0);
}

static void exec_wait(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const struct mbarrier_op *o = (const struct mbarrier_op *)op->data;
    struct mbarrier_place     at[EMU_LANES];
    uint32_t                  done = 0;
    if (!find_places(w, op, mask, EMU_READ | EMU_STRONG | EMU_PARTIAL, at))
        return;
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        int                    l = __builtin_ctz(rest);
        const struct mbarrier *m = mbarrier_living(w, op, l, at[l]);
        done |= (uint32_t)(m != NULL && has_ended(w, op, l, at[l], m)) << l;
    }
    if (o->tries && done == 0 && !gives_up(w)) {
        emu_wait_change(w);
        return;
    }
    if (o->synchronises)
        acquire(w, done, at);
    emu_set_pred(w, op->result[0], mask, done);
    if (done != mask) {
        async_spun(w->cluster);
        emu_yield_cluster(w);
    }
}

const char *mbarrier_explain(struct emu_warp *w, const struct emu_op *op, uint32_t mask, char *buf, size_t cap)
{
    buf[0] = 0;
    if (op == NULL || op->exec != exec_wait || mask == 0)
        return buf;
    const struct mbarrier_op *o = (const struct mbarrier_op *)op->data;
    int                       lane = __builtin_ctz(mask);
    uint64_t                  address[EMU_LANES], bytes;
    emu_addresses(w, op, 0, o->bits, address);
    struct mbarrier_place  at = {w->cta, (uint32_t)(address[lane] & ((1u << EMU_RANK_SHIFT) - 1))};
    const struct mbarrier *m = mbarrier_alive(at);
    if (m == NULL) {
        snprintf(buf, cap, "no mbarrier is initialised at shared 0x%x", at.address);
        return buf;
    }
    uint32_t flying = async_flying_to(at.cta, at.address, &bytes);
    int      n = snprintf(buf, cap,
                          "%u operations in flight on the mbarrier at shared 0x%x (phase %llu, %u of %u arrivals "
                               "pending, %d bytes to come",
                          flying, at.address, (unsigned long long)m->phase, m->pending, m->expected, m->tx);
    if (n > 0 && (size_t)n < cap && o->wait == WAIT_PARITY)
        n += snprintf(buf + n, cap - (size_t)n, "; it waits for parity %u", emu_r32(w, op->source[1])[lane]);
    if (n > 0 && (size_t)n < cap)
        snprintf(buf + n, cap - (size_t)n, ")");
    return buf;
}

/* ---- decoding ------------------------------------------------------------------------------------- */
static const char *const scopes[] = {"cta", "cluster", NULL};

/* `strong` or .relaxed, each with a scope, or neither. */
static bool decode_order(struct decoder *d, const char *strong, bool *relaxed)
{
    const char *words[] = {strong, "relaxed", NULL};
    int         word = strong != NULL ? decode_one_of(d, words) : -1;
    if (word < 0)
        return true;
    *relaxed = word == 1;
    decode_need_isa(d, 80);
    const int scope = decode_one_of(d, scopes);
    if (scope == 1)
        decode_need_sm(d, 90);
    return scope >= 0 || decode_refuse(d, ".%s needs .cta or .cluster", words[word]);
}

/* {.release|.acquire|.relaxed .scope}{.shared..}.b64.  `strong` is the instruction's word besides .relaxed;
 * NULL: neither is allowed; "relaxed": only .relaxed is. */
static bool decode_tail(struct decoder *d, struct mbarrier_op *o, const char *strong, bool remote)
{
    bool cluster = false, counts = strong != NULL && strcmp(strong, "relaxed") == 0, relaxed = strong == NULL;
    if (!decode_order(d, strong, &relaxed))
        return false;
    o->space = decode_space(d, &cluster);
    if (counts && !decode_order(d, strong, &relaxed)) /* with bytes, the space may come first */
        return false;
    o->synchronises = !relaxed && !counts;
    if (relaxed && strong != NULL && !counts && !(decode_need_sm(d, 90) && decode_need_isa(d, 86)))
        return false;
    if (o->space != EMU_SHARED && o->space != EMU_GENERIC)
        return decode_refuse(d, "an mbarrier must be in shared memory");
    if (cluster && !remote)
        return decode_refuse(d, "this instruction cannot use another block's mbarrier (.shared::cluster)");
    o->remote = cluster;
    if (!decode_take(d, "b64"))
        return decode_refuse(d, "the type must be .b64");
    decode_need_sm(d, cluster ? 90 : 80);
    return decode_end(d);
}

static bool decode_where(struct decoder *d, struct mbarrier_op *o, unsigned int number)
{
    const struct ptx_operand *operand = decode_operand(d, number);
    if (operand == NULL)
        return false;
    decode_address(d, operand, o->space, &o->bits);
    return !d->failed;
}

static bool decode_init(struct decoder *d, struct emu_op *op, struct mbarrier_op *o)
{
    if (!decode_tail(d, o, NULL, false) || !decode_operands(d, 2, 2) || !decode_where(d, o, 0))
        return false;
    decode_source(d, 1, PTX_u32);
    op->exec = exec_init;
    return true;
}

static bool decode_inval(struct decoder *d, struct emu_op *op, struct mbarrier_op *o)
{
    op->exec = exec_inval;
    return decode_tail(d, o, NULL, false) && decode_operands(d, 1, 1) && decode_where(d, o, 0);
}

/* A register, or a constant in this range. */
static bool constant_from(struct decoder *d, unsigned int number, int64_t least, int64_t most)
{
    const struct ptx_operand *o = decode_operand(d, number);
    return o == NULL || o->kind != PTX_OP_INTEGER ||
           ((int64_t)o->integer >= least && (int64_t)o->integer <= most) ||
           decode_refuse(d, "operand %u must be from %lld to %lld", number + 1, (long long)least,
                         (long long)most);
}

static bool decode_arrive(struct decoder *d, struct emu_op *op, struct mbarrier_op *o, bool drop)
{
    o->drop = drop;
    o->expect_tx = decode_take(d, "expect_tx");
    o->no_complete = !o->expect_tx && decode_take(d, "noComplete");
    if (!decode_tail(d, o, "release", true))
        return false;
    unsigned int least = o->expect_tx || o->no_complete ? 3 : 2;
    if (!decode_operands(d, least, 3))
        return false;
    if (o->remote && decode_operand(d, 0)->kind != PTX_OP_SINK)
        return decode_refuse(d, "an arrival in another block returns nothing: its destination must be _");
    if (o->no_complete && o->remote)
        return decode_refuse(d, ".shared::cluster cannot have .noComplete");
    o->has_count = decode_operand_count(d) == 3;
    if (o->expect_tx || (o->has_count && !o->no_complete))
        decode_need_sm(d, 90);
    decode_result(d, 0, PTX_u64);
    if (!decode_where(d, o, 1))
        return false;
    if (o->has_count && !o->expect_tx && !constant_from(d, 2, 1, INT64_MAX))
        return false;
    if (o->has_count)
        decode_source(d, 2, PTX_u32);
    op->exec = exec_arrive;
    return true;
}

static bool decode_bytes(struct decoder *d, struct emu_op *op, struct mbarrier_op *o, bool complete)
{
    op->u8[0] = complete;
    op->exec = exec_bytes;
    decode_need_sm(d, 90);
    if (!decode_tail(d, o, "relaxed", true) || !decode_operands(d, 2, 2) || !decode_where(d, o, 0))
        return false;
    decode_source(d, 1, PTX_u32);
    return true;
}

static bool decode_wait(struct decoder *d, struct emu_op *op, struct mbarrier_op *o, bool tries)
{
    o->tries = tries;
    o->wait = decode_take(d, "parity") ? WAIT_PARITY : WAIT_STATE;
    if (!decode_tail(d, o, "acquire", false) || !decode_operands(d, 3, tries ? 4 : 3))
        return false;
    if (tries)
        decode_need_sm(d, 90);
    decode_result_pred(d, decode_operand(d, 0));
    if (!decode_where(d, o, 1))
        return false;
    if (o->wait == WAIT_PARITY && !constant_from(d, 2, 0, 1))
        return false;
    decode_source(d, 2, o->wait == WAIT_PARITY ? PTX_u32 : PTX_u64);
    if (decode_operand_count(d) == 4)
        decode_source(d, 3, PTX_u32); /* a time limit, which is ignored: a wait may end at any time */
    op->exec = exec_wait;
    return true;
}

static bool decode_pending_count(struct decoder *d, struct emu_op *op)
{
    if (!decode_take(d, "b64"))
        return decode_refuse(d, "the type must be .b64");
    op->exec = exec_pending_count;
    return decode_need_sm(d, 80) && DECODE_TYPED(d, PTX_u32, PTX_b64);
}

bool decode_mbarrier(struct decoder *d, struct emu_op *op)
{
    static const char *const words[] = {"init",        "inval",     "arrive",   "arrive_drop",   "expect_tx",
                                        "complete_tx", "test_wait", "try_wait", "pending_count", NULL};
    struct mbarrier_op      *o = (struct mbarrier_op *)decode_alloc(d, 1, sizeof *o);
    int                      word = decode_one_of(d, words);
    op->data = o;
    op->class_ = EMU_CLASS_sync;
    if (o == NULL)
        return false;
    /* clang-format off */
    switch (word) {
    case 0: return decode_init(d, op, o);
    case 1: return decode_inval(d, op, o);
    case 2: case 3: return decode_arrive(d, op, o, word == 3);
    case 4: case 5: return decode_bytes(d, op, o, word == 5);
    case 6: case 7: return decode_wait(d, op, o, word == 7);
    case 8: return decode_pending_count(d, op);
    default: return decode_refuse(d, "mbarrier.%s is unknown", decode_peek(d));
    }
    /* clang-format on */
}
