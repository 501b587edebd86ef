/* shadow.c - the lines and cells of an address: in shared memory of blocks, in pages of global memory. */
#include <stdlib.h>
#include "internal.h"

enum { PAGE_LINES = PAGE_BYTES / LINE_BYTES };
static const uint64_t PAGES_MOST = 1ull << 30; /* bytes; accesses to further pages are not judged */

/* ---- pages of global memory ----------------------------------------------------------------------- */
static struct judge_page *page_new(struct judge_grid *grid, uint64_t number)
{
    const uint64_t     bytes = sizeof(struct judge_page) + PAGE_LINES * sizeof(struct judge_line);
    struct judge_page *page;
    if (__atomic_add_fetch(&grid->bytes, bytes, __ATOMIC_RELAXED) > PAGES_MOST)
        return NULL;
    page = (struct judge_page *)judge_alloc(grid, 1, bytes);
    if (page == NULL)
        return NULL;
    page->number = number;
    pthread_mutex_init(&page->lock, NULL);
    return page;
}

static struct judge_page *page_find(struct judge_cluster *c, uint64_t number)
{
    struct judge_page **cached = &c->page[number % PAGE_CACHE], *page = *cached, **bucket;
    const uint64_t      hash = (number * 0x9e3779b97f4a7c15ull) >> 40;
    pthread_mutex_t    *lock = &c->grid->lock[hash % PAGE_SHARDS];
    if (page != NULL && page->number == number)
        return page;
    bucket = &c->grid->bucket[hash % PAGE_BUCKETS];
    pthread_mutex_lock(lock);
    for (page = *bucket; page != NULL && page->number != number;)
        page = page->next;
    if (page == NULL && (page = page_new(c->grid, number)) != NULL) {
        page->next = *bucket;
        *bucket = page;
    }
    pthread_mutex_unlock(lock);
    if (page != NULL)
        *cached = page;
    return page;
}

void judge_pages_free(struct judge_grid *grid)
{
    for (uint32_t i = 0; i < PAGE_BUCKETS; i++)
        for (struct judge_page *page = grid->bucket[i], *next; page != NULL; page = next) {
            next = page->next;
            judge_lines_free(page->lines, PAGE_LINES);
            pthread_mutex_destroy(&page->lock);
            free(page);
        }
}

/* Lock the page of a line, and unlock the previous one; NULL: there is no room. */
static struct judge_page *page_hold(struct judge_view *view, uint64_t address)
{
    const uint64_t number = address / PAGE_BYTES;
    if (view->page != NULL && view->page->number == number)
        return view->page;
    judge_touch_done(view);
    if ((view->page = page_find(view->warp->cluster, number)) != NULL)
        pthread_mutex_lock(&view->page->lock);
    return view->page;
}

void judge_touch_done(struct judge_view *view)
{
    if (view->page != NULL)
        pthread_mutex_unlock(&view->page->lock);
    view->page = NULL;
}

/* ---- lines ---------------------------------------------------------------------------------------- */
static struct judge_line *line_of(struct judge_view *view, const struct emu_ref *ref, uint64_t address)
{
    const uint64_t number = address / LINE_BYTES;
    if (ref->space == EMU_GLOBAL) {
        struct judge_page *page = page_hold(view, address);
        return page != NULL ? &page->lines[number % PAGE_LINES] : NULL;
    }
    if (ref->space != EMU_SHARED || number >= ref->cta->judge->count)
        return NULL;
    return &ref->cta->judge->lines[number];
}

/* One lane accesses part of a line. */
static void line_part(struct judge_view *view, struct judge_line *line, uint64_t address, uint64_t end)
{
    if (!judge_line_break(view->warp->cluster->grid, line))
        return;
    while (address < end) {
        const uint64_t next = (address / CELL_BYTES + 1) * CELL_BYTES, stop = next < end ? next : end;
        judge_cell_touch(view, &line->cells[address % LINE_BYTES / CELL_BYTES], address,
                         (uint32_t)(stop - address));
        address = stop;
    }
}

void judge_touch(struct judge_view *view, const struct emu_ref *ref, uint64_t bytes)
{
    uint64_t       address = ref->address;
    const uint64_t end = address + bytes;
    view->ref = ref;
    view->bytes = bytes;
    while (address < end) {
        const uint64_t     next = (address / LINE_BYTES + 1) * LINE_BYTES, stop = next < end ? next : end;
        struct judge_line *line = line_of(view, ref, address);
        const bool         whole = stop - address == LINE_BYTES;
        if (line != NULL && !(whole && judge_line_touch(view, line, 1))) {
            line_part(view, line, address, stop);
            if (whole && (view->access & EMU_WRITE))
                judge_line_join(view, line, 1);
        }
        address = stop;
    }
}

/* ---- many lanes ----------------------------------------------------------------------------------- */
static void set_lane(struct judge_view *view, uint32_t lane)
{
    view->lane = (int)lane;
    view->me.lane = (uint8_t)lane;
}

/* Do `lanes` lanes from this one on cover a line in order? */
static bool covers_line(uint32_t mask, const struct emu_ref ref[EMU_LANES], uint32_t first, uint32_t lanes,
                        uint32_t bytes)
{
    const struct emu_ref *r = &ref[first];
    const uint32_t        wanted = (lanes == EMU_LANES ? EMU_ALL : (1u << lanes) - 1) << first;
    bool                  same = true;
    if (r->address % LINE_BYTES || (mask & wanted) != wanted)
        return false;
    for (uint32_t i = 0; i < lanes; i++)
        same &= r[i].address == r->address + (uint64_t)i * bytes && r[i].space == r->space &&
                r[i].cta == r->cta;
    return same;
}

static bool same_vectors(const struct judge_warp *w, uint32_t first, uint32_t lanes)
{
    bool same = true;
    for (uint32_t i = 0; i < lanes; i++)
        same &= w->part[PART_SEEN][first + i] == w->part[PART_SEEN][first];
    return same;
}

/* True: these lanes are finished. */
static bool touch_line(struct judge_view *view, const struct emu_ref *ref, uint32_t first, uint32_t lanes)
{
    struct judge_line *line = line_of(view, &ref[first], ref[first].address);
    set_lane(view, first);
    view->ref = &ref[first];
    return line == NULL || (same_vectors(view->warp, first, lanes) && judge_line_touch(view, line, lanes));
}

void judge_touch_lanes(struct judge_view *view, uint32_t mask, const struct emu_ref ref[EMU_LANES],
                       uint32_t bytes)
{
    const uint32_t lanes = bytes == 4 || bytes == 8 || bytes == 16 ? LINE_BYTES / bytes : 1;
    uint32_t       next = 0; /* lanes below this one are finished */
    while (next < EMU_LANES && (mask >> next) != 0) {
        const uint32_t first = next + (uint32_t)__builtin_ctz(mask >> next);
        const bool     line = lanes > 1 && first % lanes == 0 && covers_line(mask, ref, first, lanes, bytes);
        next = line ? first + lanes : first + 1;
        if (line && touch_line(view, ref, first, lanes))
            continue;
        for (uint32_t l = first; l < next; l++) {
            set_lane(view, l);
            judge_touch(view, &ref[l], bytes);
        }
        if (line && (view->access & EMU_WRITE)) {
            set_lane(view, first);
            judge_line_join(view, line_of(view, &ref[first], ref[first].address), lanes);
        }
    }
}
