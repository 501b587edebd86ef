/* barrier.c - barriers of a block (bar, barrier.cta), a warp (bar.warp) and a cluster (barrier.cluster). */
#include <stdio.h>
#include "tools/emu/decode/decode.h"
#include "tools/emu/judge/judge.h"
#include "warp.h"

enum { SYNC, ARRIVE, RED_POPC, RED_AND, RED_OR };
/* u8[0] what, u8[1] a thread count is given, u8[2] .aligned, u8[3] negated predicate */

/* ---- of a block ----------------------------------------------------------------------------------- */
static uint32_t live_threads(const struct emu_cta *cta)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < cta->warp_count; i++)
        count += (uint32_t)__builtin_popcount(cta->warps[i].live);
    return count;
}

static bool complete(const struct emu_cta *cta, const struct emu_barrier *b)
{
    return b->open && (b->expected ? b->arrived >= b->expected : b->lanes >= live_threads(cta));
}

static void give_result(struct emu_warp *w, const struct emu_fragment *f, const struct emu_op *op,
                        const struct emu_barrier *b)
{
    uint32_t  row = f->frame + EMU_ROW_OF(op->result[0]);
    uint32_t *result = (uint32_t *)(void *)(w->rows + (size_t)row * EMU_ROW);
    w->defined_rows[row] |= f->mask;
    if (op->u8[0] == RED_POPC) {
        for (int l = 0; l < EMU_LANES; l++)
            if (f->mask >> l & 1)
                result[l] = b->count;
    } else {
        uint32_t bit = op->u8[0] == RED_AND ? b->all : b->any;
        *result = (*result & ~f->mask) | (bit ? f->mask : 0);
    }
}

static void release(struct emu_cta *cta, uint32_t number)
{
    struct emu_barrier *b = &cta->barriers[number];
    for (uint32_t i = 0; i < cta->warp_count; i++) {
        struct emu_warp *w = &cta->warps[i];
        for (uint32_t k = 0; k < w->fragment_count; k++) {
            struct emu_fragment *f = &w->fragments[k];
            if (f->state != EMU_WAITS_BARRIER || f->warp_sync || f->barrier != number)
                continue;
            const struct emu_op *op = &f->function->code[f->pc];
            if (op->u8[0] >= RED_POPC)
                give_result(w, f, op, b);
            judge_acquire(w, f->mask, b->clock);
            f->state = EMU_RUNS;
            f->pc++;
        }
    }
    judge_clock_clear(cta->cluster, &b->clock);
    memset(b, 0, sizeof *b);
    emu_changed(cta->cluster);
}

void emu_barriers_recheck(struct emu_cta *cta)
{
    for (uint32_t i = 0; i < EMU_BARRIERS; i++)
        if (complete(cta, &cta->barriers[i]))
            release(cta, i);
}

/* The operand must be the same for all lanes; otherwise the behaviour is undefined. */
static bool uniform(struct emu_warp *w, const struct emu_op *op, uint32_t mask, emu_reg reg, uint32_t *value)
{
    const uint32_t *row = emu_r32(w, reg);
    uint32_t        first = row[__builtin_ctz(mask)], different = 0;
    EMU_FOR_LANES(mask, l, different |= (uint32_t)(row[l] != first) << l);
    *value = first;
    if (different)
        emu_fault(w, op, __builtin_ctz(different), 719, "lanes of one warp name different barriers or counts");
    return !different;
}

/* No count means all threads of the block, which equals an explicit count of that number. */
static bool same_count(const struct emu_warp *w, uint32_t *mine, uint32_t others)
{
    uint32_t all = w->cta->warp_count * EMU_LANES;
    if ((*mine ? *mine : all) != (others ? others : all))
        return false;
    *mine = all;
    return true;
}

static bool join(struct emu_warp *w, const struct emu_op *op, struct emu_barrier *b, uint32_t mask,
                 uint32_t expected)
{
    uint32_t lanes = (uint32_t)__builtin_popcount(mask), arrivals = op->u8[2] ? EMU_LANES : lanes;
    if (op->u8[1] && (expected == 0 || expected % EMU_LANES)) {
        emu_fault(w, op, __builtin_ctz(mask), 719, "a barrier of %u threads, which is not a multiple of 32",
                  expected);
        return false;
    }
    if (b->open && b->expected != expected && !same_count(w, &expected, b->expected)) {
        emu_fault(w, op, __builtin_ctz(mask), 719, "a barrier of %u threads, which other threads use for %u",
                  expected, b->expected);
        return false;
    }
    if (expected && b->arrived + arrivals > expected) {
        emu_fault(w, op, __builtin_ctz(mask), 719, "thread %u arrives at a barrier of %u",
                  b->arrived + arrivals, expected);
        return false;
    }
    if (!b->open)
        b->all = 1;
    b->open = true;
    b->expected = expected;
    b->arrived += arrivals;
    b->lanes += lanes;
    return true;
}

static void reduce(struct emu_warp *w, const struct emu_op *op, struct emu_barrier *b, uint32_t mask)
{
    uint32_t p = emu_pred(w, op->source[op->source_count - 1]);
    p = (op->u8[3] ? ~p : p) & mask;
    b->count += (uint32_t)__builtin_popcount(p);
    b->all &= p == mask;
    b->any |= p != 0;
}

static void exec_bar(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    uint32_t number, expected = 0;
    if (!uniform(w, op, mask, op->source[0], &number) ||
        (op->u8[1] && !uniform(w, op, mask, op->source[1], &expected)))
        return;
    if (number >= EMU_BARRIERS) {
        emu_fault(w, op, __builtin_ctz(mask), 719, "barrier %u does not exist: there are %d", number,
                  EMU_BARRIERS);
        return;
    }
    struct emu_barrier *b = &w->cta->barriers[number];
    if (!join(w, op, b, mask, expected))
        return;
    if (op->u8[0] >= RED_POPC)
        reduce(w, op, b, mask);
    judge_release(w, mask, &b->clock);
    if (op->u8[0] != ARRIVE)
        emu_block(w, mask, w->now->pc, EMU_WAITS_BARRIER)->barrier = number;
    if (complete(w->cta, b))
        release(w->cta, number);
}

static bool decode_reduction(struct decoder *d, struct emu_op *op)
{
    static const char *const words[] = {"popc", "and", "or", NULL};
    int                      which = decode_one_of(d, words);
    if (which < 0)
        return decode_refuse(d, ".popc, .and or .or is expected");
    op->u8[0] = (uint8_t)(RED_POPC + which);
    if (decode_take(d, "aligned"))
        op->u8[2] = 1;
    enum ptx_type type = decode_type(d);
    if (type != (which == 0 ? PTX_u32 : PTX_pred))
        return decode_refuse(d, which == 0 ? ".u32 is expected" : ".pred is expected");
    decode_result(d, 0, type);
    return !d->failed;
}

/* A register, or a multiple of `step` up to `most`; as ptxas does, only its low 32 bits count. */
static bool constant_fits(struct decoder *d, unsigned int number, uint64_t most, uint64_t step)
{
    const struct ptx_operand *o = decode_operand(d, number);
    return o == NULL || o->kind != PTX_OP_INTEGER ||
           ((uint32_t)o->integer <= most && (uint32_t)o->integer % step == 0) ||
           decode_refuse(d, "operand %u must be a multiple of %llu from 0 to %llu", number + 1,
                         (unsigned long long)step, (unsigned long long)most);
}

static bool decode_block_barrier(struct decoder *d, struct emu_op *op)
{
    static const char *const words[] = {"sync", "arrive", "red", NULL};
    int                      which = decode_one_of(d, words);
    if (which < 0)
        return decode_refuse(d, ".sync, .arrive or .red is expected");
    op->u8[0] = which == 1 ? ARRIVE : SYNC;
    if (decode_take(d, "aligned"))
        op->u8[2] = 1;
    if (which == 2 && !decode_reduction(d, op))
        return false;
    unsigned int first = which == 2, count = decode_operand_count(d), most = which == 2 ? 4 : 2;
    if (!decode_end(d) || !decode_operands(d, which == 0 ? 1 : which == 1 ? 2 : 3, most))
        return false;
    op->u8[1] = count - first - (which == 2) == 2;
    if (!constant_fits(d, first, EMU_BARRIERS - 1, 1) ||
        (op->u8[1] && !constant_fits(d, first + 1, UINT32_MAX, EMU_LANES)))
        return false;
    decode_source(d, first, PTX_u32);
    if (op->u8[1])
        decode_source(d, first + 1, PTX_u32);
    if (which == 2) {
        bool negated = false;
        decode_source_pred(d, decode_operand(d, count - 1), &negated);
        op->u8[3] = negated;
    }
    if (op->u8[2])
        op->flags |= EMU_OP_ALIGNED;
    op->exec = exec_bar;
    return !d->failed;
}

/* ---- of a warp ------------------------------------------------------------------------------------ */
/* Lanes that wait with this mask continue when all live lanes of the mask wait with it. */
static void complete_warp_sync(struct emu_warp *w, uint32_t members)
{
    uint32_t here = 0;
    for (uint32_t i = 0; i < w->fragment_count; i++)
        if (w->fragments[i].state == EMU_WAITS_BARRIER && w->fragments[i].warp_sync &&
            w->fragments[i].waits_for == members)
            here |= w->fragments[i].mask;
    if (!here || members & w->live & ~here)
        return;
    for (uint32_t i = 0; i < w->fragment_count; i++) {
        struct emu_fragment *waits = &w->fragments[i];
        if (waits->state != EMU_WAITS_BARRIER || !waits->warp_sync || waits->waits_for != members)
            continue;
        waits->state = EMU_RUNS;
        waits->warp_sync = false;
        waits->pc++;
    }
    judge_warp_sync(w, here);
}

void emu_warp_sync_recheck(struct emu_warp *w)
{
    for (uint32_t i = 0; i < w->fragment_count; i++)
        if (w->fragments[i].state == EMU_WAITS_BARRIER && w->fragments[i].warp_sync)
            complete_warp_sync(w, w->fragments[i].waits_for);
}

/* Lanes may have different masks: parts of the warp that synchronise separately. */
static void exec_warp_sync(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const uint32_t *row = emu_r32(w, op->source[0]);
    uint32_t        pc = w->now->pc;
    for (int l = 0; l < EMU_LANES; l++)
        if (mask >> l & 1 && !(row[l] >> l & 1)) {
            emu_fault(w, op, l, 719, "the member mask 0x%x does not name this lane", row[l]);
            return;
        }
    for (uint32_t left = mask; left;) {
        uint32_t members = row[__builtin_ctz(left)], same = 0;
        EMU_FOR_LANES(left, l, same |= (uint32_t)(row[l] == members) << l);
        left &= ~same;
        struct emu_fragment *f = emu_block(w, same, pc, EMU_WAITS_BARRIER);
        f->warp_sync = true;
        f->waits_for = members;
        complete_warp_sync(w, members);
    }
}

static bool decode_warp_barrier(struct decoder *d, struct emu_op *op)
{
    if (!decode_take(d, "sync"))
        return decode_refuse(d, ".sync is expected");
    decode_source(d, 0, PTX_u32);
    op->exec = exec_warp_sync;
    return decode_end(d) && decode_operands(d, 1, 1);
}

/* ---- of a cluster --------------------------------------------------------------------------------- */
void emu_cluster_barrier_recheck(struct emu_cluster *c)
{
    uint32_t live = 0;
    for (uint32_t i = 0; i < c->cta_count; i++)
        live += live_threads(&c->ctas[i]);
    if (!c->barrier_arrived || c->barrier_arrived < live)
        return;
    c->barrier_arrived = 0;
    c->barrier_generation++;
    judge_clock_clear(c, &c->barrier_done);
    judge_clock_move(c, &c->barrier_done, &c->barrier_clock);
    emu_changed(c);
}

void emu_cluster_barrier_leave(struct emu_warp *w, uint32_t mask)
{
    for (int l = 0; l < EMU_LANES; l++)
        if (mask >> l & 1 && w->cluster_generation[l] > w->cluster->barrier_generation)
            w->cluster->barrier_arrived--;
}

static void exec_cluster_arrive(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    struct emu_cluster *c = w->cluster;
    for (int l = 0; l < EMU_LANES; l++) {
        if (!(mask >> l & 1))
            continue;
        if (w->cluster_generation[l] > c->barrier_generation) {
            emu_fault(w, op, l, 719, "arrives again without having waited");
            return;
        }
        w->cluster_generation[l] = c->barrier_generation + 1;
    }
    if (op->u8[0]) /* relaxed */
        judge_release_fenced(w, mask, &c->barrier_clock);
    else
        judge_release(w, mask, &c->barrier_clock);
    c->barrier_arrived += (uint32_t)__builtin_popcount(mask);
    emu_cluster_barrier_recheck(c);
}

static void exec_cluster_wait(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    (void)op;
    for (int l = 0; l < EMU_LANES; l++)
        if (mask >> l & 1 && w->cluster_generation[l] > w->cluster->barrier_generation) {
            emu_wait_change(w);
            return;
        }
    judge_acquire(w, mask, w->cluster->barrier_done);
}

static bool decode_cluster_barrier(struct decoder *d, struct emu_op *op)
{
    if (strcmp(decode_peek(d), "aligned") == 0)
        return decode_refuse(d, ".aligned comes behind .arrive and .wait");
    bool arrives = decode_take(d, "arrive");
    if (!arrives && !decode_take(d, "wait"))
        return decode_refuse(d, ".arrive or .wait is expected");
    if (arrives && decode_take(d, "relaxed"))
        op->u8[0] = 1;
    else
        decode_take(d, arrives ? "release" : "acquire");
    if (decode_take(d, "aligned"))
        op->flags |= EMU_OP_ALIGNED;
    op->exec = arrives ? exec_cluster_arrive : exec_cluster_wait;
    return decode_need_sm(d, 90) && decode_end(d) && decode_operands(d, 0, 0);
}

bool decode_bar(struct decoder *d, struct emu_op *op)
{
    op->class_ = EMU_CLASS_sync;
    op->u8[2] = strcmp(d->in->opcode, "bar") == 0; /* the older name implies .aligned */
    if (decode_take(d, "cluster"))
        return decode_cluster_barrier(d, op);
    if (decode_take(d, "warp"))
        return decode_warp_barrier(d, op);
    decode_take(d, "cta");
    return decode_block_barrier(d, op);
}

const char *emu_barrier_text(const struct emu_warp *w, const struct emu_fragment *f, char *buf, size_t cap)
{
    const struct emu_barrier *b = &w->cta->barriers[f->barrier];
    if (f->warp_sync)
        snprintf(buf, cap, "for lanes 0x%08x of the warp", f->waits_for & w->live);
    else if (b->expected)
        snprintf(buf, cap, "barrier %u: %u of %u threads are here", f->barrier, b->arrived, b->expected);
    else
        snprintf(buf, cap, "barrier %u: %u of %u threads are here", f->barrier, b->lanes, live_threads(w->cta));
    return buf;
}
