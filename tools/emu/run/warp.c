/* warp.c - the interpreter: fragments of a warp, their order, and the loop over ops.
 *
 * Among the fragments that can run, the one with the deepest call and then the lowest pc runs first, so that
 * lanes that left a branch wait for those still in it and meet them after it.  A fragment that has run for long
 * while others could run is suspended, so that lanes may wait for each other (independent thread
 * scheduling). */
#include "warp.h"
#include <stdlib.h>
#include "tools/emu/async/async.h"
#include "tools/emu/judge/judge.h"
#include "tools/emu/machine/undefined.h"
#include "undefined.h"

enum { LONGEST_STREAK = 4096 };

/* ---- fragments ------------------------------------------------------------------------------------ */
struct emu_fragment *emu_split(struct emu_warp *w, uint32_t mask, uint32_t pc)
{
    struct emu_fragment *now = w->now, *made;
    if ((now->mask & ~mask) == 0) {
        now->pc = pc;
        w->next = pc;
        return now;
    }
    made = &w->fragments[w->fragment_count++]; /* a lane is in one fragment only, so there is room for 32 */
    *made = *now;
    made->mask = mask;
    made->pc = pc;
    made->state = EMU_RUNS;
    made->expired = false;
    now->mask &= ~mask;
    now->pc = w->next;
    w->active = now->mask;
    return made;
}

struct emu_fragment *emu_block(struct emu_warp *w, uint32_t mask, uint32_t pc, enum emu_state state)
{
    struct emu_fragment *waits = emu_split(w, mask, pc);
    waits->state = state;
    waits->warp_sync = false;
    w->event = waits == w->now ? EMU_EVENT_BLOCK : EMU_EVENT_SPLIT;
    return waits;
}

void emu_wait_change(struct emu_warp *w)
{
    emu_block(w, w->executing, w->now->pc, EMU_WAITS_CHANGE)->seen = w->cluster->changes;
    w->waited = true;
}

bool emu_gather(struct emu_warp *w, const struct emu_op *op, uint32_t members)
{
    (void)op;
    members &= w->live; /* no fragment waits for lanes that have exited */
    if ((members & ~w->active) == 0)
        return true;
    emu_block(w, w->executing, w->now->pc, EMU_WAITS_LANES)->waits_for = members;
    w->waited = true;
    return false;
}

static void remove_fragment(struct emu_warp *w, struct emu_fragment *f)
{
    *f = w->fragments[--w->fragment_count];
}

void emu_exit_lanes(struct emu_warp *w, uint32_t mask)
{
    judge_exit(w, mask, (w->live & ~mask) == 0 && w->cta->warps_left == 1);
    emu_cluster_barrier_leave(w, mask);
    w->live &= ~mask;
    w->now->mask &= ~mask;
    w->now->pc = w->next;
    w->event = EMU_EVENT_SPLIT;
    for (uint32_t i = w->fragment_count; i-- > 0;)
        if (!w->fragments[i].mask)
            remove_fragment(w, &w->fragments[i]);
    for (uint32_t i = 0; i < w->fragment_count; i++) /* fragments that wait for lanes check again */
        if (w->fragments[i].state == EMU_WAITS_LANES)
            w->fragments[i].state = EMU_RUNS;
    if (!w->live && --w->cta->warps_left == 0)
        async_cta_end(w->cta);
    emu_changed(w->cluster);
    emu_warp_sync_recheck(w);
    emu_barriers_recheck(w->cta);
    emu_cluster_barrier_recheck(w->cluster);
}

static bool can_run(const struct emu_warp *w, const struct emu_fragment *f)
{
    return f->state == EMU_RUNS || (f->state == EMU_WAITS_CHANGE && f->seen != w->cluster->changes);
}

bool emu_warp_ready(struct emu_warp *w)
{
    for (uint32_t i = 0; i < w->fragment_count; i++)
        if (can_run(w, &w->fragments[i]))
            return true;
    return false;
}

static bool same_place(const struct emu_fragment *a, const struct emu_fragment *b)
{
    return a->pc == b->pc && a->function == b->function && a->frame == b->frame && a->local == b->local &&
           a->depth == b->depth;
}

/* Merge fragments at the same place. */
static void merge(struct emu_warp *w)
{
    for (uint32_t i = 0; i < w->fragment_count; i++)
        for (uint32_t k = w->fragment_count; k-- > i + 1;) {
            struct emu_fragment *a = &w->fragments[i], *b = &w->fragments[k];
            bool                 free_a = a->state == EMU_RUNS || a->state == EMU_WAITS_LANES;
            bool                 free_b = b->state == EMU_RUNS || b->state == EMU_WAITS_LANES;
            if (!free_a || !free_b || !same_place(a, b))
                continue;
            a->mask |= b->mask;
            a->state = EMU_RUNS;
            a->expired = false;
            remove_fragment(w, b);
        }
}

static bool before(const struct emu_fragment *a, const struct emu_fragment *b)
{
    return a->depth != b->depth ? a->depth > b->depth : a->pc < b->pc;
}

/* The fragment that runs first, or with `fair` the one that has not run for the longest time. */
static struct emu_fragment *first_of(struct emu_warp *w, bool fair)
{
    struct emu_fragment *best = NULL;
    for (uint32_t i = 0; i < w->fragment_count; i++) {
        struct emu_fragment *f = &w->fragments[i];
        if (can_run(w, f) && (best == NULL || (fair ? f->ran_at < best->ran_at : before(f, best))))
            best = f;
    }
    return best;
}

static struct emu_fragment *favourite(struct emu_warp *w)
{
    for (uint32_t i = 0; w->favoured && i < w->fragment_count; i++)
        if (w->fragments[i].mask >> (w->favoured - 1) & 1)
            return can_run(w, &w->fragments[i]) ? &w->fragments[i] : NULL;
    return NULL;
}

/* After a long streak, the fragment that has waited longest gets a streak. */
static struct emu_fragment *choose(struct emu_warp *w)
{
    struct emu_fragment *f;
    if (w->fragment_count == 1)
        return can_run(w, &w->fragments[0]) ? &w->fragments[0] : NULL;
    merge(w);
    if (w->streak > LONGEST_STREAK) {
        bool fair = !w->favoured;
        w->streak = w->favoured = 0;
        f = first_of(w, fair);
        if (f != NULL && fair)
            w->favoured = (uint32_t)__builtin_ctz(f->mask) + 1;
        return f;
    }
    f = favourite(w);
    return f != NULL ? f : first_of(w, false);
}

/* The pc at which the fragment meets another one that is ahead of it. */
static uint32_t meeting(const struct emu_warp *w, const struct emu_fragment *f)
{
    uint32_t stop = UINT32_MAX;
    for (uint32_t i = 0; i < w->fragment_count; i++) {
        const struct emu_fragment *other = &w->fragments[i];
        if (other != f && (other->state == EMU_RUNS || other->state == EMU_WAITS_LANES) &&
            other->function == f->function && other->frame == f->frame && other->pc > f->pc && other->pc < stop)
            stop = other->pc;
    }
    return stop;
}

void emu_load_fragment(struct emu_warp *w, struct emu_fragment *f)
{
    w->now = f;
    w->active = f->mask;
    w->bank[EMU_BANK_FRAME] = w->rows + (size_t)f->frame * EMU_ROW;
    w->defined = w->defined_rows + f->frame;
    w->busy = w->busy_rows != NULL ? w->busy_rows + f->frame : NULL;
    w->written = w->written_rows != NULL ? w->written_rows + f->frame : NULL;
}

/* ---- busy registers ------------------------------------------------------------------------------------- */
static void check_busy_list(struct emu_warp *w, const struct emu_op *op, const emu_reg *list, uint32_t count,
                            uint32_t mask, const char *what)
{
    char name[128];
    for (uint32_t i = 0; i < count; i++) {
        if (EMU_BANK(list[i]) != EMU_BANK_FRAME || !(w->busy[list[i]] & mask))
            continue;
        judge_find(w, op, __builtin_ctz(w->busy[list[i]] & mask), JUDGE_ASYNC,
                   "%s register %s before wgmma.wait_group covers the wgmma that owns it", what,
                   emu_register_name(w->now->function, list[i], name, sizeof name));
        return;
    }
}

static void check_busy(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    check_busy_list(w, op, op->source, op->source_count, mask, "reads");
    check_busy_list(w, op, op->result, op->result_count, mask, "writes");
    for (uint32_t i = 0; i < op->result_count && mask != 0; i++)
        w->written[op->result[i]] = w->executed;
}

bool emu_busy_rows(struct emu_warp *w)
{
    if (w->written_rows == NULL)
        w->written_rows = (uint64_t *)calloc(w->row_count, sizeof *w->written_rows);
    if (w->busy_rows == NULL && w->written_rows != NULL) {
        w->busy_rows = (uint32_t *)calloc(w->row_count, sizeof *w->busy_rows);
        if (w->busy_rows != NULL) {
            w->busy = w->busy_rows + w->now->frame;
            w->written = w->written_rows + w->now->frame;
        }
    }
    return w->busy_rows != NULL;
}

/* ---- the loop ------------------------------------------------------------------------------------- */
/* The lanes in which a source is undefined. */
static inline uint32_t missing_lanes(const struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    uint32_t missing = 0;
    for (uint32_t i = 0; i < op->source_count; i++)
        if (EMU_BANK(op->source[i]) == EMU_BANK_FRAME)
            missing |= ~w->defined[op->source[i]];
    return missing & mask;
}

static inline uint32_t guard_mask(struct emu_warp *w, const struct emu_op *op)
{
    uint32_t p = emu_pred(w, op->guard), missing = w->active & ~w->defined[op->guard];
    if (missing)
        emu_undefined_use(w, op, op->guard, missing, "reads");
    return w->active & (op->guard_negated ? ~p : p);
}

static inline void count(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    uint32_t lanes = (uint32_t)__builtin_popcount(mask);
    w->executed_lanes += lanes;
    if (w->counts != NULL) {
        w->counts[op->number].warps++;
        w->counts[op->number].lanes += lanes;
    }
}

/* An .aligned op needs all lanes that have not exited; it waits for those that are elsewhere. */
static bool assembled(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    if (!emu_gather(w, op, w->live))
        return false;
    if (mask != w->active && mask) {
        emu_fault(w, op, __builtin_ctz(w->active & ~mask), 719,
                  "an .aligned instruction under a predicate that is not the same for all lanes");
        return false;
    }
    return true;
}

static inline void execute(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    if (w->busy != NULL && !(op->flags & EMU_OP_CHECKS))
        check_busy(w, op, mask);
    if (op->flags & EMU_OP_CHECKS) {
        op->exec(w, op, mask);
        return;
    }
    const uint32_t missing = missing_lanes(w, op, mask);
    if (missing) {
        emu_execute_undefined(w, op, mask, missing);
        return;
    }
    op->exec(w, op, mask);
    if (w->event != EMU_EVENT_BLOCK && !(op->flags & EMU_OP_DEFINES))
        emu_define_results(w, op, mask);
}

/* Returns the rest of the quantum. */
static uint32_t run_fragment(struct emu_warp *w, struct emu_fragment *f, uint32_t quantum)
{
    const struct emu_op *code = f->function->code;
    uint32_t             stop = w->fragment_count > 1 ? meeting(w, f) : UINT32_MAX, pc = f->pc;
    bool                 alone = w->fragment_count == 1;
    emu_load_fragment(w, f);
    f->state = EMU_RUNS;
    f->ran_at = ++w->turns;
    w->event = EMU_NO_EVENT;
    do {
        const struct emu_op *op = &code[pc];
        uint32_t             mask = op->guard == EMU_NO_REG ? w->active : guard_mask(w, op);
        f->pc = pc;
        w->next = pc + 1;
        w->executing = w->active;
        w->waited = false;
        w->executed++;
        quantum--;
        if (op->flags & EMU_OP_ALIGNED && !assembled(w, op, mask))
            break;
        if (mask || op->flags & EMU_OP_CONTROL) {
            w->executing = mask;
            execute(w, op, mask);
            if (!w->waited)
                count(w, op, mask);
        }
        if (w->event == EMU_NO_EVENT || w->event == EMU_EVENT_YIELD)
            f->expired = false;
        if (w->event != EMU_NO_EVENT)
            break;
        if (!alone && w->next <= pc) { /* a loop: fragments that are behind run first */
            pc = w->next;
            break;
        }
        pc = w->next;
    } while (quantum && pc < stop); /* a jump may pass the place where another fragment waits */
    if (w->event == EMU_NO_EVENT)
        f->pc = pc;
    else if (w->event == EMU_EVENT_YIELD)
        f->pc = w->next;
    return quantum;
}

uint32_t emu_warp_run(struct emu_warp *w, uint32_t quantum, bool *spins)
{
    uint32_t left = quantum;
    *spins = false;
    while (left && w->live && !w->grid->stop) {
        struct emu_fragment *f = choose(w);
        if (f == NULL)
            break;
        uint32_t before_run = left;
        left = run_fragment(w, f, left);
        w->streak = w->fragment_count > 1 ? w->streak + (before_run - left) : 0;
        if (w->event == EMU_EVENT_YIELD) {
            *spins = true;
            w->favoured = 0;
            w->streak = LONGEST_STREAK + 1; /* another fragment, if there is one */
            break;
        }
    }
    return quantum - left;
}
