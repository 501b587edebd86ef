/* mbarrier.c - the state of mbarriers: arrivals, bytes and phases, and findings about their misuse.
 *
 * A table of the block has the state of its mbarriers.  The 8 bytes in shared memory hold a word made from the
 * state, so that other writes to them are noticed.  Phases count from 0; the parity of a wait names the current
 * phase or the previous one. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "state.h"
#include "mbarrier_state.h"

struct async_cta {
    struct mbarrier **slot;       /* each keeps its address, by which the judge knows the clocks */
    uint32_t          room, used; /* room is a power of two, less than three quarters are used */
    uint32_t          alive;
    uint64_t         *live;  /* one bit for each 8 bytes of shared memory                  */
    uint32_t          words; /* of shared memory, 8 bytes each                             */
};

/* ---- the table ------------------------------------------------------------------------------------ */
static struct mbarrier **slot_for(const struct async_cta *s, uint32_t address)
{
    uint32_t i = (address >> 3) * 0x9e3779b1u >> 7 & (s->room - 1);
    while (s->slot[i] != NULL && s->slot[i]->address != address)
        i = (i + 1) & (s->room - 1);
    return &s->slot[i];
}

static bool grow_table(struct async_cta *s)
{
    struct async_cta old = *s;
    s->room = old.room ? 2 * old.room : 32;
    s->slot = (struct mbarrier **)calloc(s->room, sizeof(struct mbarrier *));
    if (s->slot == NULL) {
        *s = old;
        return false;
    }
    for (uint32_t i = 0; i < old.room; i++)
        if (old.slot[i] != NULL)
            *slot_for(s, old.slot[i]->address) = old.slot[i];
    free(old.slot);
    return true;
}

/* The entry for this address, which is made if there is none; NULL: out of memory. */
static struct mbarrier *entry_for(struct async_cta *s, uint32_t address)
{
    struct mbarrier **slot = slot_for(s, address);
    if (*slot != NULL)
        return *slot;
    if ((s->used + 1) * 4 > s->room * 3 && !grow_table(s))
        return NULL;
    struct mbarrier *m = (struct mbarrier *)calloc(1, sizeof *m);
    if (m == NULL)
        return NULL;
    m->address = address;
    *slot_for(s, address) = m;
    s->used++;
    return m;
}

static struct async_cta *table_of(struct emu_cta *cta)
{
    if (cta->async != NULL)
        return cta->async;
    struct async_cta *s = (struct async_cta *)calloc(1, sizeof *s);
    if (s == NULL)
        return NULL;
    s->words = cta->shared_bytes / 8;
    s->live = (uint64_t *)calloc(s->words / 64 + 1, sizeof *s->live);
    if (s->live == NULL || !grow_table(s)) {
        free(s->live);
        free(s);
        return NULL;
    }
    return cta->async = s;
}

/* NULL: there never was one. */
static struct mbarrier *known(struct mbarrier_place at)
{
    return at.cta->async != NULL ? *slot_for(at.cta->async, at.address) : NULL;
}

/* NULL: there is no live one. */
struct mbarrier *mbarrier_alive(struct mbarrier_place at)
{
    struct mbarrier *m = known(at);
    return m != NULL && m->live ? m : NULL;
}

bool async_is_mbarrier(const struct emu_cta *cta, uint32_t address, uint32_t bytes)
{
    const struct async_cta *s = cta->async;
    if (s == NULL || s->alive == 0 || bytes == 0 || cta->cluster->async->looking)
        return false;
    uint32_t last = (address + bytes - 1) / 8;
    for (uint32_t i = address / 8; i <= last && i < s->words; i++) {
        uint64_t rest = s->live[i / 64] >> i % 64;
        if (rest & 1)
            return true;
        if (rest == 0)
            i |= 63;
    }
    return false;
}

void mbarrier_cta_end(struct emu_cta *cta)
{
    struct async_cta *s = cta->async;
    if (s == NULL)
        return;
    for (uint32_t i = 0; i < s->room; i++)
        if (s->slot[i] != NULL) {
            judge_clock_clear(cta->cluster, &s->slot[i]->arriving);
            judge_clock_clear(cta->cluster, &s->slot[i]->completed);
            free(s->slot[i]);
        }
    free(s->slot);
    free(s->live);
    free(s);
    cta->async = NULL;
}

/* ---- findings ------------------------------------------------------------------------------------- */
void mbarrier_misuse(struct emu_warp *w, const struct emu_op *op, int lane, struct mbarrier_place at,
                     const char *format, ...)
{
    char    text[256], where[64] = "";
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (at.cta != w->cta)
        snprintf(where, sizeof where, " of block %u of the cluster", at.cta->rank);
    judge_find(w, op, lane, JUDGE_MBARRIER, "mbarrier at shared 0x%x%s: %s", at.address, where, text);
}

struct mbarrier *mbarrier_living(struct emu_warp *w, const struct emu_op *op, int lane,
                                 struct mbarrier_place at)
{
    struct mbarrier *m = mbarrier_alive(at);
    if (m == NULL) {
        mbarrier_misuse(w, op, lane, at, "%s",
                        known(at) != NULL ? "it was invalidated (mbarrier.inval)"
                                          : "no mbarrier was initialised there (mbarrier.init)");
        return NULL;
    }
    uint64_t word;
    memcpy(&word, at.cta->shared + at.address, sizeof word);
    if (word != m->word) {
        mbarrier_misuse(w, op, lane, at, "another store has overwritten it: 0x%llx", (unsigned long long)word);
        memcpy(at.cta->shared + at.address, &m->word, sizeof m->word);
    }
    return m;
}

void mbarrier_overwritten(struct emu_warp *w, const struct emu_op *op, int lane, const struct emu_cta *cta,
                          uint32_t address, uint32_t bytes)
{
    if (async_is_mbarrier(cta, address, bytes))
        judge_find(w, op, lane, JUDGE_MBARRIER,
                   "a live mbarrier is within the %u bytes at shared 0x%x that it writes", bytes, address);
}

/* ---- state ---------------------------------------------------------------------------------------- */
static void write_word(struct mbarrier_place at, struct mbarrier *m)
{
    m->word = (0xb000ull | (m->phase & 0xff)) << 40 | (uint64_t)m->expected << 20 | m->pending;
    memcpy(at.cta->shared + at.address, &m->word, sizeof m->word);
}

void mbarrier_settle(struct mbarrier_place at, struct mbarrier *m)
{
    if (m->pending == 0 && m->tx == 0) {
        m->phase++;
        m->pending = m->expected;
        judge_clock_move(at.cta->cluster, &m->completed, &m->arriving);
    }
    write_word(at, m);
    emu_changed(at.cta->cluster);
}

void mbarrier_add_bytes(struct emu_warp *w, const struct emu_op *op, int lane, struct mbarrier_place at,
                        struct mbarrier *m, int64_t bytes)
{
    int64_t tx = m->tx + bytes;
    if (tx > MBARRIER_MOST || tx < -MBARRIER_MOST) {
        mbarrier_misuse(w, op, lane, at,
                        "%lld bytes to come are more than its tx-count can hold (2^20 - 1 either way)",
                        (long long)tx);
        tx = tx < 0 ? -MBARRIER_MOST : MBARRIER_MOST;
    }
    m->tx = (int32_t)tx;
}

void mbarrier_take_arrivals(struct emu_warp *w, const struct emu_op *op, int lane, struct mbarrier_place at,
                            struct mbarrier *m, uint32_t count)
{
    if (count > m->pending) {
        mbarrier_misuse(w, op, lane, at,
                        "%u arrival%s in phase %llu, which waits for %u more (of %u): too many", count,
                        count == 1 ? "" : "s", (unsigned long long)m->phase, m->pending, m->expected);
        count = m->pending;
    }
    m->pending -= count;
}

uint64_t mbarrier_owner_bits(struct mbarrier_place at)
{
    return ((at.address >> 3 ^ at.address >> 15) * 5 + at.cta->rank * 0x111 + 0x5a5) & 0xfff;
}

uint64_t mbarrier_token(struct mbarrier_place at, const struct mbarrier *m)
{
    return mbarrier_owner_bits(at) << 52 | (m->phase & 0xffffffff) << 20 | m->pending;
}

/* ---- life ----------------------------------------------------------------------------------------- */
void mbarrier_init(struct emu_warp *w, const struct emu_op *op, int lane, struct mbarrier_place at,
                   uint32_t count)
{
    struct async_cta *s = table_of(at.cta);
    struct mbarrier  *m = s != NULL ? entry_for(s, at.address) : NULL;
    if (m == NULL) {
        emu_fault(w, op, lane, 2, "out of memory for mbarriers");
        return;
    }
    if (m->live)
        mbarrier_misuse(w, op, lane, at, "it is already initialised and was not invalidated");
    if (count == 0 || count > MBARRIER_MOST) {
        mbarrier_misuse(w, op, lane, at, "its count %u is not in 1 .. 2^20 - 1", count);
        count = count ? MBARRIER_MOST : 1;
    }
    judge_clock_clear(w->cluster, &m->arriving);
    judge_clock_clear(w->cluster, &m->completed);
    s->alive += !m->live;
    m->live = true;
    m->expected = m->pending = count;
    m->tx = 0;
    m->phase = 0;
    s->live[at.address / 8 / 64] |= 1ull << at.address / 8 % 64;
    write_word(at, m);
}

void mbarrier_inval(struct emu_warp *w, const struct emu_op *op, int lane, struct mbarrier_place at)
{
    struct mbarrier *m = mbarrier_living(w, op, lane, at);
    uint64_t         bytes;
    if (m == NULL)
        return;
    uint32_t flying = async_flying_to(at.cta, at.address, &bytes);
    if (flying != 0 || m->tx != 0)
        mbarrier_misuse(w, op, lane, at,
                        "it is invalidated in phase %llu with %u operations in flight and %d bytes to come",
                        (unsigned long long)m->phase, flying, m->tx);
    else if (m->pending != m->expected)
        mbarrier_misuse(w, op, lane, at,
                        "it is invalidated in the middle of phase %llu: %u of %u arrivals are pending",
                        (unsigned long long)m->phase, m->pending, m->expected);
    m->live = false;
    at.cta->async->alive--;
    at.cta->async->live[at.address / 8 / 64] &= ~(1ull << at.address / 8 % 64);
    emu_changed(w->cluster);
}

/* ---- for operations in flight --------------------------------------------------------------------- */
void mbarrier_expect_signal(struct emu_warp *w, const struct emu_op *op, int lane, struct mbarrier_place at)
{
    mbarrier_living(w, op, lane, at);
}

void mbarrier_complete_bytes(struct emu_warp *w, const struct emu_op *op, int lane, struct mbarrier_place at,
                             uint32_t bytes, struct judge_async **judge)
{
    struct mbarrier *m = mbarrier_living(w, op, lane, at);
    if (m == NULL)
        return;
    if (*judge != NULL)
        judge_async_end_at(*judge, at.cta->cluster, &m->arriving);
    *judge = NULL;
    mbarrier_add_bytes(w, op, lane, at, m, -(int64_t)bytes);
    mbarrier_settle(at, m);
}

void mbarrier_expect_arrival(struct emu_warp *w, const struct emu_op *op, int lane, struct mbarrier_place at)
{
    struct mbarrier *m = mbarrier_living(w, op, lane, at);
    if (m == NULL)
        return;
    if (m->pending >= MBARRIER_MOST)
        mbarrier_misuse(w, op, lane, at, "its pending arrivals overflow");
    else
        m->pending++;
    write_word(at, m);
}

void mbarrier_arrive_for(struct emu_warp *w, const struct emu_op *op, int lane, struct mbarrier_place at)
{
    struct mbarrier *m = mbarrier_living(w, op, lane, at);
    if (m == NULL)
        return;
    mbarrier_take_arrivals(w, op, lane, at, m, 1);
    mbarrier_settle(at, m);
}

struct judge_clock **mbarrier_clock(struct mbarrier_place at)
{
    struct mbarrier *m = mbarrier_alive(at);
    return m != NULL ? &m->arriving : NULL;
}
