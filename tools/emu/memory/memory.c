/* memory.c - accesses of lanes to memory: finding the bytes and checking the access. */
#include <pthread.h>
#include "tools/emu/machine/arena.h"
#include "tools/emu/judge/judge.h"
#include "access.h"
#include "tools/emu/machine/bits.h"

enum { WINDOW_SHIFT = 56, WINDOW_GLOBAL = 0, WINDOW_SHARED = 1, WINDOW_LOCAL = 2 };
enum {
    GRANULE = 16
}; /* bytes that hardware fetches at least: it does not see where an allocation ends in them */

/* One call of emu_memory. */
struct request {
    struct emu_warp     *w;
    const struct emu_op *op;
    enum emu_space       space;
    const uint64_t      *address;
    uint32_t             bytes, align;
    unsigned int         access;
    struct emu_ref      *ref; /* one of the two may be NULL */
    struct memory_lanes *lanes;
};

/* ---- where ------------------------------------------------------------------------------------------ */
static bool shared_part(struct emu_warp *w, uint64_t window, uint64_t address, struct memory_part *p)
{
    uint64_t        rank = (address - window) >> EMU_RANK_SHIFT;
    struct emu_cta *cta = w->cta;
    if (rank > w->cluster->cta_count)
        return false;
    if (rank) {
        cta = &w->cluster->ctas[rank - 1];
        window += rank << EMU_RANK_SHIFT;
    }
    *p = (struct memory_part){.space = EMU_SHARED,
                              .window = window,
                              .bytes = cta->shared,
                              .defined = cta->shared_defined,
                              .cta = cta};
    return true;
}

bool memory_part_of(struct emu_warp *w, enum emu_space space, uint64_t address, struct memory_part *p)
{
    uint64_t window = 0;
    if (space == EMU_GENERIC) {
        uint64_t number = address >> WINDOW_SHIFT;
        window = number << WINDOW_SHIFT;
        space = number == WINDOW_GLOBAL ? EMU_GLOBAL : number == WINDOW_SHARED ? EMU_SHARED : EMU_LOCAL;
        if (number > WINDOW_LOCAL)
            return false;
    }
    switch (space) {
    case EMU_SHARED:
        return shared_part(w, window, address, p);
    case EMU_LOCAL:
        *p = (struct memory_part){.space = EMU_LOCAL,
                                  .window = window,
                                  .lane_bytes = w->local_bytes,
                                  .bytes = w->local,
                                  .defined = w->local_defined,
                                  .cta = w->cta};
        return true;
    default:
        *p = (struct memory_part){.space = EMU_GLOBAL,
                                  .first_bit = emu_arena.base,
                                  .defined = emu_arena.defined};
        return true;
    }
}

static bool may_access(const struct emu_warp *w, const struct arena_slot *s, enum emu_space space,
                       unsigned int access)
{
    if (s->what.device & w->cluster->grid->unreachable) /* a peer's memory */
        return false;
    if (access & EMU_WRITE && (s->what.kind == EMU_MEMORY_CONSTANT || s->what.kind == EMU_MEMORY_PARAMETERS))
        return false;
    return space != EMU_CONST || s->what.kind == EMU_MEMORY_CONSTANT;
}

bool memory_inside(const struct emu_warp *w, const struct memory_part *p, enum emu_space space, uint64_t offset,
                   uint64_t bytes, unsigned int access)
{
    uint64_t room = w->local_bytes;
    if (p->space == EMU_GLOBAL) {
        const struct arena_slot *s = arena_slot_of(offset);
        return s != NULL && bytes <= s->what.address + s->what.bytes - offset &&
               may_access(w, s, space, access);
    }
    if (p->space == EMU_SHARED) {
        if (p->cta != w->cta && !p->cta->warps_left) /* it has exited */
            return false;
        room = p->cta->shared_bytes;
    }
    return offset <= room && bytes <= room - offset;
}

bool memory_in_granule(const struct emu_warp *w, const struct memory_part *p, enum emu_space space,
                       uint64_t offset, uint64_t bytes, unsigned int access)
{
    const uint64_t low = GRANULE - 1;
    uint64_t       room;
    if (p->space == EMU_SHARED) {
        room = (p->cta->shared_bytes + low) & ~low;
        return (p->cta == w->cta || p->cta->warps_left) && offset <= room && bytes <= room - offset;
    }
    const struct arena_slot *s = p->space == EMU_GLOBAL ? arena_slot_of(offset) : NULL;
    if (s == NULL && p->space == EMU_GLOBAL) /* all of its bytes are beyond the end */
        s = arena_slot_of(offset & ~low);
    if (s == NULL || !may_access(w, s, space, access))
        return false;
    room = (s->what.address + s->what.bytes + low) & ~low;
    return bytes <= room - offset;
}

/* ---- the lanes of one part -------------------------------------------------------------------------- */
enum pattern { ANYHOW, DENSE, UNIFORM };
struct extremes {
    uint64_t     low, high, bits;
    enum pattern pattern;
};

/* Are the bytes of all lanes contiguous, or all at one place? */
static enum pattern pattern_of(const uint64_t *a, uint32_t bytes)
{
    const uint64_t first = a[0], step = bytes;
    uint64_t       off = 0, differs = 0;
    if (a[1] == first) {
        for (uint64_t l = 0; l < EMU_LANES; l++)
            differs |= a[l] ^ first;
        return differs == 0 ? UNIFORM : ANYHOW;
    }
    for (uint64_t l = 0; l < EMU_LANES; l++)
        off |= a[l] ^ (first + l * step);
    return off == 0 && a[EMU_LANES - 1] > first ? DENSE : ANYHOW;
}

static struct extremes look_at(uint32_t mask, const uint64_t *a, uint32_t bytes)
{
    struct extremes e = {.low = UINT64_MAX};
    if (mask == EMU_ALL) {
        e.pattern = pattern_of(a, bytes);
        if (e.pattern != ANYHOW) {
            e.low = a[0];
            e.high = a[EMU_LANES - 1];
            e.bits = a[0] | (e.pattern == DENSE ? bytes : 0);
            return e;
        }
        for (int l = 0; l < EMU_LANES; l++) {
            e.low = a[l] < e.low ? a[l] : e.low;
            e.high = a[l] > e.high ? a[l] : e.high;
            e.bits |= a[l];
        }
        return e;
    }
    for (uint32_t m = mask; m; m &= m - 1) {
        uint64_t x = a[__builtin_ctz(m)];
        e.low = x < e.low ? x : e.low;
        e.high = x > e.high ? x : e.high;
        e.bits |= x;
    }
    return e;
}

static uint64_t bit_of(const struct memory_part *p, int lane, uint64_t address)
{
    return address - p->window - p->first_bit + (uint64_t)lane * p->lane_bytes;
}

/* Are all lanes' bytes within the memory that they may access?  Otherwise report it. */
static bool check_bounds(const struct request *q, const struct memory_part *p, uint32_t mask,
                         const struct extremes *e)
{
    uint64_t low = e->low - p->window, span = e->high - e->low + q->bytes;
    if (span >= q->bytes &&
        memory_inside(q->w, p, q->space, low, span, q->access)) /* the range has not wrapped */
        return true;
    for (uint32_t m = mask; m; m &= m - 1) { /* perhaps in several allocations */
        int      l = __builtin_ctz(m);
        uint64_t offset = q->address[l] - p->window;
        if (memory_inside(q->w, p, q->space, offset, q->bytes, q->access))
            continue;
        if (q->access & EMU_WRITE || !memory_in_granule(q->w, p, q->space, offset, q->bytes, q->access)) {
            memory_outside(q->w, q->op, l, q->space, q->address[l], q->bytes, q->access);
            return false;
        }
        memory_overread(q->w, q->op, l, q->space, q->address[l], q->bytes);
    }
    return true;
}

static bool check_alignment(const struct request *q, uint32_t mask)
{
    for (uint32_t m = mask; m; m &= m - 1) {
        int l = __builtin_ctz(m);
        if (q->address[l] & (q->align - 1)) {
            memory_misaligned(q->w, q->op, l, q->space, q->address[l], q->bytes, q->align);
            return false;
        }
    }
    return true;
}

/* A quick test of all bytes from the lowest to the highest, which may be more than the lanes access. */
static bool range_defined(const struct memory_part *p, const struct extremes *e, uint32_t bytes)
{
    enum { NEAR_ENOUGH = 2048 };
    uint64_t span = e->high - e->low + bytes;
    return p->space != EMU_LOCAL && span <= NEAR_ENOUGH && bits_all(p->defined, bit_of(p, 0, e->low), span);
}

/* The lanes of which some byte is undefined. */
static uint32_t undefined_lanes(const struct request *q, const struct memory_part *p, uint32_t mask,
                                const struct extremes *e)
{
    uint32_t lanes = 0;
    if (range_defined(p, e, q->bytes))
        return 0;
    for (uint32_t m = mask; m; m &= m - 1) {
        int l = __builtin_ctz(m);
        if (!bits_all(p->defined, bit_of(p, l, q->address[l]), q->bytes))
            lanes |= 1u << l;
    }
    return lanes;
}

/* Report once for the op, or tell the caller. */
static void check_defined(const struct request *q, const struct memory_part *p, uint32_t mask,
                          const struct extremes *e)
{
    const uint32_t lanes = undefined_lanes(q, p, mask, e);
    if (q->access & EMU_PARTIAL) {
        q->w->holes |= lanes;
    } else if (lanes) {
        const int      l = __builtin_ctz(lanes);
        const uint64_t bit = bit_of(p, l, q->address[l]);
        memory_undefined(q->w, q->op, l, q->space, q->address[l], q->bytes,
                         bits_first_hole(p->defined, bit, q->bytes) - bit);
    }
}

static void set_defined(const struct request *q, const struct memory_part *p, uint32_t mask,
                        const struct extremes *e)
{
    bool common = p->space == EMU_GLOBAL;
    if (range_defined(p, e, q->bytes))
        return;
    if (e->pattern != ANYHOW && p->space != EMU_LOCAL) {
        bits_set(p->defined, bit_of(p, 0, e->low), e->high - e->low + q->bytes, true, common);
        return;
    }
    for (uint32_t m = mask; m; m &= m - 1) {
        int l = __builtin_ctz(m);
        bits_set(p->defined, bit_of(p, l, q->address[l]), q->bytes, true, common);
    }
}

/* For the counters, if there are any, and for findings about bank conflicts, if they are enabled. */
static void count_part(const struct request *q, const struct memory_part *p, uint32_t mask, bool dense)
{
    struct emu_count none = {0}, *c = q->w->counts != NULL ? &q->w->counts[q->op->number] : &none;
    c->bytes += (uint64_t)q->bytes * (unsigned int)__builtin_popcount(mask);
    if (p->space != EMU_SHARED)
        return;
    unsigned int least = memory_least_wavefronts(mask, q->bytes);
    unsigned int needed = dense && (q->address[0] & 3) == 0 ? least
                                                            : emu_wavefronts(q->address, mask, q->bytes);
    c->transactions += needed;
    c->conflicts += needed - least;
    if (needed > least)
        judge_find(q->w, q->op, -1, JUDGE_CONFLICT,
                   "needs %u wavefronts of shared memory where %u would suffice", needed, least);
}

static void fill_refs(const struct request *q, const struct memory_part *p, uint32_t mask)
{
    const uint64_t *address = q->address, window = p->window, step = p->lane_bytes;
    const uint64_t  add = (uint64_t)(uintptr_t)p->bytes - window;
    struct emu_ref *ref = q->ref;
    struct emu_cta *cta = p->cta;
    enum emu_space  space = p->space;
    EMU_FOR_LANES(mask, l, ref[l].at = (unsigned char *)(uintptr_t)(address[l] + add + (uint64_t)l * step);
                  ref[l].space = space; ref[l].cta = cta; ref[l].address = address[l] - window);
}

static void fill_lanes(const struct request *q, const struct memory_part *p, uint32_t mask,
                       enum pattern pattern)
{
    const uint64_t add = (uint64_t)(uintptr_t)p->bytes - p->window, step = p->lane_bytes, *address = q->address;
    struct memory_lanes *out = q->lanes;
    unsigned char      **at = out->at;
    out->regular = pattern != ANYHOW && p->space != EMU_LOCAL;
    out->first = (unsigned char *)(uintptr_t)(q->address[0] + add);
    out->step = pattern == DENSE ? q->bytes : 0;
    if (!out->regular)
        EMU_FOR_LANES(mask, l, at[l] = (unsigned char *)(uintptr_t)(address[l] + add + (uint64_t)l * step));
}

static bool do_part(const struct request *q, const struct memory_part *p, uint32_t mask,
                    const struct extremes *e)
{
    if (e->bits & (q->align - 1) && !check_alignment(q, mask))
        return false;
    if (!check_bounds(q, p, mask, e))
        return false;
    if (!(q->access & EMU_NO_JUDGE)) {
        if (q->access & EMU_READ && memory_judges_undefined(q->w))
            check_defined(q, p, mask, e);
        if (q->access & EMU_WRITE)
            set_defined(q, p, mask, e);
    }
    if (q->w->counts != NULL || q->w->grid->settings->judge & EMU_JUDGE_CONFLICT)
        count_part(q, p, mask, e->pattern == DENSE);
    if (q->ref != NULL)
        fill_refs(q, p, mask);
    if (q->lanes != NULL)
        fill_lanes(q, p, mask, e->pattern);
    return true;
}

/* Lanes that use several windows, or the shared memory of several blocks, are handled part by part. */
static bool do_mixed(const struct request *q, uint32_t mask)
{
    while (mask) {
        int                first = __builtin_ctz(mask);
        struct memory_part p, other;
        uint32_t           part = 0;
        if (!memory_part_of(q->w, q->space, q->address[first], &p)) {
            memory_outside(q->w, q->op, first, q->space, q->address[first], q->bytes, q->access);
            return false;
        }
        for (uint32_t m = mask; m; m &= m - 1) {
            int l = __builtin_ctz(m);
            if (memory_part_of(q->w, q->space, q->address[l], &other) && other.space == p.space &&
                other.window == p.window)
                part |= 1u << l;
        }
        struct extremes e = look_at(part, q->address, q->bytes);
        if (!do_part(q, &p, part, &e))
            return false;
        mask &= ~part;
    }
    return true;
}

/* Are all addresses between these two in one part? */
static bool one_part(enum emu_space space, uint64_t low, uint64_t high)
{
    bool shared = space == EMU_SHARED || (space == EMU_GENERIC && low >> WINDOW_SHIFT == WINDOW_SHARED);
    return shared ? (low ^ high) >> EMU_RANK_SHIFT == 0
                  : space != EMU_GENERIC || (low ^ high) >> WINDOW_SHIFT == 0;
}

static bool do_request(const struct request *q, uint32_t mask)
{
    struct extremes    e = look_at(mask, q->address, q->bytes);
    struct memory_part p;
    if (q->access & EMU_PARTIAL)
        q->w->holes = 0;
    if (one_part(q->space, e.low, e.high) && memory_part_of(q->w, q->space, e.low, &p)) {
        if (!do_part(q, &p, mask, &e))
            return false;
    } else if (!do_mixed(q, mask)) {
        return false;
    }
    if (q->w->judge != NULL && !(q->access & EMU_NO_JUDGE))
        judge_access(q->w, q->op, mask, q->ref, q->bytes, q->access);
    return true;
}

static pthread_mutex_t strong_lock = PTHREAD_MUTEX_INITIALIZER;

bool memory_strong_begin(const struct emu_warp *w, enum emu_space space, unsigned int access)
{
    if (w->judge == NULL || !(access & EMU_STRONG) || (space != EMU_GLOBAL && space != EMU_GENERIC))
        return false;
    pthread_mutex_lock(&strong_lock);
    return true;
}

void memory_strong_end(bool begun)
{
    if (begun)
        pthread_mutex_unlock(&strong_lock);
}

bool emu_memory(struct emu_warp *w, const struct emu_op *op, uint32_t mask, enum emu_space space,
                const uint64_t address[EMU_LANES], uint32_t bytes, uint32_t align, unsigned int access,
                struct emu_ref out[EMU_LANES])
{
    struct request q = {w, op, space, address, bytes, align, access, out, NULL};
    return mask == 0 || do_request(&q, mask);
}

bool memory_lanes(struct emu_warp *w, const struct emu_op *op, uint32_t mask, enum emu_space space,
                  const uint64_t address[EMU_LANES], uint32_t bytes, uint32_t align, unsigned int access,
                  struct memory_lanes *out)
{
    bool           judged = (w->judge != NULL || memory_judges_undefined(w)) && !(access & EMU_NO_JUDGE);
    struct request q = {w, op, space, address, bytes, align, access, judged ? out->ref : NULL, out};
    return do_request(&q, mask);
}
