/* arena.c - device memory: one range of addresses, the allocations in it, and which bytes are defined. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "arena.h"
#include "bits.h"
#include "file.h"

enum {
    BLOCK = 1 << ARENA_BLOCK_SHIFT,
    SLOTS = 1 << 22,      /* live allocations, and freed ones that are remembered */
    REMEMBERED = 1 << 14, /* freed allocations that messages can still name     */
    ALIGNMENT = 256       /* the bytes of an allocation are rounded up to this */
};
static const uint64_t SPARE_ADDRESSES = 16ull << 30; /* beyond twice the memory: gaps, quarantine */

struct arena emu_arena;

struct extent {
    uint64_t first, count;
}; /* of free blocks */

static struct {
    pthread_mutex_t lock;
    uint64_t        limit, used, allocations;
    uint32_t        unused, untouched; /* unused slots: a list, and those that were never used */
    struct extent  *extents;           /* by address; neighbours are joined   */
    size_t          extent_count, extent_room;
    uint64_t        cursor; /* the block where the next search begins */
    struct {
        uint32_t slot;
        uint64_t id;
    } remembered[REMEMBERED];
    uint32_t oldest;
} own = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- slots ------------------------------------------------------------------------------------------ */
static uint64_t blocks_of(uint64_t bytes) { return (bytes + BLOCK - 1) >> ARENA_BLOCK_SHIFT; }
static uint64_t block_at(uint64_t address) { return (address - emu_arena.base) >> ARENA_BLOCK_SHIFT; }

static bool is_live(const struct arena_slot *s) { return s->end != 0; }

static void fill_table(uint64_t first, uint64_t count, uint32_t slot)
{
    for (uint64_t i = first; i < first + count; i++)
        __atomic_store_n(&emu_arena.table[i], slot, __ATOMIC_RELEASE);
}

/* Forget a freed allocation, so that its slot can be used again. */
static void forget_slot(uint32_t n)
{
    struct arena_slot *s = &emu_arena.slots[n];
    fill_table(block_at(s->begin), blocks_of(s->what.bytes), 0);
    s->what.id = 0;
    s->next = own.unused;
    own.unused = n;
}

static void remember_slot(uint32_t n)
{
    uint32_t old = own.remembered[own.oldest].slot;
    if (old && !is_live(&emu_arena.slots[old]) && emu_arena.slots[old].what.id == own.remembered[own.oldest].id)
        forget_slot(old);
    own.remembered[own.oldest].slot = n;
    own.remembered[own.oldest].id = emu_arena.slots[n].what.id;
    own.oldest = (own.oldest + 1) % REMEMBERED;
}

static uint32_t take_slot(void)
{
    uint32_t n = own.unused;
    if (n)
        own.unused = emu_arena.slots[n].next;
    else if (own.untouched < SLOTS)
        n = own.untouched++;
    return n;
}

/* ---- free blocks ------------------------------------------------------------------------------------ */
static size_t extent_after(uint64_t block) /* the first extent that does not end before `block` */
{
    size_t low = 0, high = own.extent_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (own.extents[middle].first + own.extents[middle].count <= block)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool room_for_extents(void)
{
    if (own.extent_count + 2 <= own.extent_room)
        return true;
    size_t         room = own.extent_room ? 2 * own.extent_room : 256;
    struct extent *grown = (struct extent *)realloc(own.extents, room * sizeof *grown);
    if (grown == NULL)
        return false;
    own.extents = grown;
    own.extent_room = room;
    return true;
}

static void remove_extent(size_t i)
{
    memmove(&own.extents[i], &own.extents[i + 1], (own.extent_count - i - 1) * sizeof own.extents[0]);
    own.extent_count--;
}

static void insert_extent(size_t i, uint64_t first, uint64_t count)
{
    memmove(&own.extents[i + 1], &own.extents[i], (own.extent_count - i) * sizeof own.extents[0]);
    own.extents[i].first = first;
    own.extents[i].count = count;
    own.extent_count++;
}

/* Take [first, first + count) out of extent i. */
static void carve(size_t i, uint64_t first, uint64_t count)
{
    struct extent e = own.extents[i];
    uint64_t      before = first - e.first, behind = e.first + e.count - first - count;
    if (before && behind) {
        own.extents[i].count = before;
        insert_extent(i + 1, first + count, behind);
    } else if (before) {
        own.extents[i].count = before;
    } else if (behind) {
        own.extents[i].first = first + count;
        own.extents[i].count = behind;
    } else {
        remove_extent(i);
    }
}

/* The cursor moves through all addresses, so that memory freed last is reused last. */
static bool take_blocks(uint64_t count, uint64_t *first)
{
    size_t start = extent_after(own.cursor), n = own.extent_count;
    if (!room_for_extents())
        return false;
    for (size_t k = 0; n && k <= n; k++) { /* the first extent twice: its part before the cursor comes last */
        size_t   i = (start + k) % n;
        uint64_t from = own.extents[i].first, end = from + own.extents[i].count;
        if (k == 0 && from < own.cursor && own.cursor < end)
            from = own.cursor;
        if (end - from < count)
            continue;
        carve(i, from, count);
        own.cursor = from + count;
        *first = from;
        return true;
    }
    return false;
}

static void give_blocks(uint64_t first, uint64_t count)
{
    size_t i = extent_after(first);
    bool   joins_before = i > 0 && own.extents[i - 1].first + own.extents[i - 1].count == first;
    bool   joins_behind = i < own.extent_count && own.extents[i].first == first + count;
    if (joins_before && joins_behind) {
        own.extents[i - 1].count += count + own.extents[i].count;
        remove_extent(i);
    } else if (joins_before) {
        own.extents[i - 1].count += count;
    } else if (joins_behind) {
        own.extents[i].first = first;
        own.extents[i].count += count;
    } else if (room_for_extents()) {
        insert_extent(i, first, count);
    } /* otherwise the host has no memory, and these addresses are never used again */
}

/* ---- memory behind the addresses -------------------------------------------------------------------- */
/* Make [at, at + bytes) zero: return whole pages to the host, and clear the rest. */
static void drop_pages(unsigned char *at, uint64_t bytes)
{
    uint64_t  page = (uint64_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = ((uintptr_t)at + page - 1) & ~(uintptr_t)(page - 1);
    uintptr_t end = ((uintptr_t)at + bytes) & ~(uintptr_t)(page - 1);
    if (begin >= end || madvise((void *)begin, end - begin, MADV_DONTNEED) != 0) {
        memset(at, 0, bytes);
        return;
    }
    memset(at, 0, begin - (uintptr_t)at);
    memset((void *)end, 0, (uintptr_t)at + bytes - end);
}

/* Pages at `at` (NULL: anywhere): of a file that processes share, or, if `file` is -1, fresh ones.  NULL: it failed. */
static void *map_pages(void *at, uint64_t bytes, int file)
{
    const int kind = file >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void     *got = mmap(at, bytes, PROT_READ | PROT_WRITE, kind | (at != NULL ? MAP_FIXED : 0), file, 0);
    if (got == MAP_FAILED)
        return NULL;
#ifdef MADV_DONTDUMP
    madvise(got, bytes, MADV_DONTDUMP);
#endif
    return got;
}

static void *reserve(uint64_t bytes) { return map_pages(NULL, bytes, -1); }

static bool map_arena(uint64_t bytes)
{
    struct arena *a = &emu_arena;
    uint64_t      slots = (uint64_t)SLOTS * sizeof *a->slots,
             table = (bytes >> ARENA_BLOCK_SHIFT) * sizeof *a->table;
    /* one block more, so that the range can begin at a multiple of a block */
    unsigned char *base = (unsigned char *)reserve(bytes + BLOCK);
    unsigned char *defined = base != NULL ? (unsigned char *)reserve(bytes / 8) : NULL;
    a->table = defined != NULL ? (uint32_t *)reserve(table) : NULL;
    a->slots = a->table != NULL ? (struct arena_slot *)reserve(slots) : NULL;
    if (a->slots == NULL) {
        if (a->table != NULL)
            munmap(a->table, table);
        if (defined != NULL)
            munmap(defined, bytes / 8);
        if (base != NULL)
            munmap(base, bytes + BLOCK);
        return false;
    }
    a->defined = defined;
    a->base = ((uintptr_t)base + BLOCK - 1) & ~(uint64_t)(BLOCK - 1);
    a->bytes = bytes;
    return true;
}

static bool open_locked(uint64_t bytes)
{
    if (emu_arena.bytes)
        return true;
    if (bytes == 0 || bytes > 1ull << 44 || !room_for_extents())
        return false;
    uint64_t range = blocks_of(2 * bytes + SPARE_ADDRESSES) << ARENA_BLOCK_SHIFT;
    uint64_t least = (blocks_of(bytes) + 4) << ARENA_BLOCK_SHIFT;
    while (range > least && !map_arena(range)) /* addresses are limited: use fewer */
        range = (range >> 1) & ~(uint64_t)(BLOCK - 1);
    if (!emu_arena.bytes && !map_arena(least))
        return false;
    own.limit = bytes;
    own.untouched = 1;
    insert_extent(0, 1, (emu_arena.bytes >> ARENA_BLOCK_SHIFT) - 1); /* the first block is a gap */
    own.cursor = 1;
    return true;
}

bool emu_arena_open(uint64_t bytes)
{
    pthread_mutex_lock(&own.lock);
    bool open = open_locked(bytes);
    pthread_mutex_unlock(&own.lock);
    return open;
}

/* ---- allocations ------------------------------------------------------------------------------------ */
static uint64_t charge(uint64_t bytes, enum emu_memory_kind kind)
{
    return kind == EMU_MEMORY_OPENED ? 0 : (bytes + ALIGNMENT - 1) & ~(uint64_t)(ALIGNMENT - 1);
}

static uint64_t alloc_locked(uint64_t bytes, enum emu_memory_kind kind, const char *name, void *context)
{
    if (bytes == 0 || bytes > emu_arena.bytes || charge(bytes, kind) > own.limit - own.used)
        return 0;
    uint64_t count = blocks_of(bytes), first;
    uint32_t n = take_slot();
    if (!n)
        return 0;
    struct arena_slot *s = &emu_arena.slots[n];
    if (!take_blocks(count + 1, &first)) {
        s->next = own.unused;
        own.unused = n;
        return 0;
    }
    for (uint64_t i = first; i < first + count + 1; i++)
        if (emu_arena.table[i])
            forget_slot(emu_arena.table[i]);
    s->begin = emu_arena.base + (first << ARENA_BLOCK_SHIFT);
    s->what = (struct emu_allocation){.address = s->begin,
                                      .bytes = bytes,
                                      .kind = kind,
                                      .id = ++own.allocations,
                                      .name = name,
                                      .context = context};
    s->shared = false;
    s->file = -1;
    __atomic_store_n(&s->end, s->begin + bytes, __ATOMIC_RELAXED);
    own.used += charge(bytes, kind);
    fill_table(first, count, n);
    if (kind == EMU_MEMORY_PARAMETERS) /* fresh pages are zero */
        bits_set(emu_arena.defined, s->begin - emu_arena.base, bytes, true, true);
    return s->begin;
}

uint64_t emu_arena_alloc(uint64_t bytes, enum emu_memory_kind kind, const char *name, void *context)
{
    pthread_mutex_lock(&own.lock);
    uint64_t address = emu_arena.bytes ? alloc_locked(bytes, kind, name, context) : 0;
    pthread_mutex_unlock(&own.lock);
    return address;
}

/* Fresh pages in the place of a file, whose bytes live on in other processes.  False: the host has no more mappings, and
 * these addresses keep the file. */
static bool leave_file(struct arena_slot *s)
{
    void *at = (void *)(uintptr_t)s->begin;
    if (s->file >= 0)
        close(s->file);
    s->file = -1;
    return map_pages(at, emu_arena_file_bytes(s->what.bytes), -1) != NULL;
}

static void free_locked(uint32_t n)
{
    struct arena_slot *s = &emu_arena.slots[n];
    uint64_t           bytes = s->what.bytes, offset = s->begin - emu_arena.base;
    bool               clean = true;
    __atomic_store_n(&s->end, 0, __ATOMIC_RELAXED);
    if (s->shared)
        clean = leave_file(s);
    else
        drop_pages((unsigned char *)(uintptr_t)s->begin, emu_arena_file_bytes(bytes));
    drop_pages(emu_arena.defined + offset / 8, emu_arena_file_bytes(bytes) / 8);
    own.used -= charge(bytes, s->what.kind);
    s->what.name = NULL; /* the owner may free the name meanwhile */
    remember_slot(n);
    if (clean)
        give_blocks(block_at(s->begin), blocks_of(bytes) + 1);
}

bool emu_arena_free(uint64_t address)
{
    pthread_mutex_lock(&own.lock);
    const struct arena_slot *s = arena_slot_of(address);
    bool                     found = s != NULL && s->begin == address;
    if (found)
        free_locked((uint32_t)(s - emu_arena.slots));
    pthread_mutex_unlock(&own.lock);
    return found;
}

void emu_arena_place(uint64_t address, uint32_t device)
{
    pthread_mutex_lock(&own.lock);
    const struct arena_slot *s = arena_slot_of(address);
    if (s != NULL && s->begin == address)
        emu_arena.slots[s - emu_arena.slots].what.device = device;
    pthread_mutex_unlock(&own.lock);
}

void emu_arena_free_context(void *context)
{
    pthread_mutex_lock(&own.lock);
    for (uint32_t n = 1; n < own.untouched; n++)
        if (is_live(&emu_arena.slots[n]) && emu_arena.slots[n].what.context == context)
            free_locked(n);
    pthread_mutex_unlock(&own.lock);
}

bool emu_arena_find(uint64_t address, struct emu_allocation *out)
{
    pthread_mutex_lock(&own.lock);
    const struct arena_slot *s = arena_slot_of(address);
    if (s != NULL)
        *out = s->what;
    pthread_mutex_unlock(&own.lock);
    return s != NULL;
}

bool emu_arena_holds(uint64_t address, uint64_t bytes)
{
    pthread_mutex_lock(&own.lock);
    const struct arena_slot *s = arena_slot_of(address);
    bool                     holds = s != NULL && bytes <= s->end - address;
    pthread_mutex_unlock(&own.lock);
    return holds;
}

uint64_t emu_arena_used(void)
{
    pthread_mutex_lock(&own.lock);
    uint64_t used = own.used;
    pthread_mutex_unlock(&own.lock);
    return used;
}

/* ---- memory that processes share ------------------------------------------------------------------------ */
/* Held by threads that run kernels for reading, by one that moves memory for writing; `movers` are those who wait for it. */
static pthread_rwlock_t running = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static atomic_uint      movers;

void emu_arena_enter(void) { pthread_rwlock_rdlock(&running); }
void emu_arena_leave(void) { pthread_rwlock_unlock(&running); }

void emu_arena_pause(void)
{
    if (atomic_load_explicit(&movers, memory_order_relaxed) == 0)
        return;
    emu_arena_leave();
    emu_arena_enter();
}

uint64_t emu_arena_file_bytes(uint64_t bytes) { return blocks_of(bytes) << ARENA_BLOCK_SHIFT; }

/* Zeros are not copied: they are what an untouched page of the file has. */
static bool copy_into(int file, const unsigned char *from, uint64_t bytes)
{
    static const unsigned char zeros[BLOCK] = {0};
    unsigned char             *to = (unsigned char *)map_pages(NULL, bytes, file);
    for (uint64_t i = 0; to != NULL && i < bytes; i += BLOCK)
        if (memcmp(from + i, zeros, BLOCK) != 0)
            memcpy(to + i, from + i, BLOCK);
    return to != NULL && munmap(to, bytes) == 0;
}

static int share_locked(struct arena_slot *s)
{
    const uint64_t bytes = emu_arena_file_bytes(s->what.bytes);
    unsigned char *at = (unsigned char *)(uintptr_t)s->begin;
    const int      file = emu_file_make(bytes);
    if (file < 0)
        return -1;
    if (!copy_into(file, at, bytes) || map_pages(at, bytes, file) == NULL) {
        const int why = errno;
        close(file);
        errno = why;
        return -1;
    }
    s->shared = true;
    s->file = file;
    bits_set(emu_arena.defined, s->begin - emu_arena.base, s->what.bytes, true, true);
    return file;
}

/* The descriptor that the allocation at this address has, or gets if `make`. */
static int file_at(uint64_t address, bool make)
{
    int file = -1;
    pthread_mutex_lock(&own.lock);
    const struct arena_slot *s = arena_slot_of(address);
    if (s == NULL || s->what.kind == EMU_MEMORY_OPENED)
        errno = EINVAL;
    else
        file = s->file < 0 && make ? share_locked(&emu_arena.slots[s - emu_arena.slots]) : s->file;
    pthread_mutex_unlock(&own.lock);
    return file;
}

int emu_arena_share(uint64_t address)
{
    int file = file_at(address, false);
    if (file >= 0)
        return file;
    atomic_fetch_add(&movers, 1);
    pthread_rwlock_wrlock(&running);
    file = file_at(address, true);
    pthread_rwlock_unlock(&running);
    atomic_fetch_sub(&movers, 1);
    return file;
}

uint64_t emu_arena_map(int file, uint64_t bytes, void *context)
{
    const uint64_t address = emu_arena_alloc(bytes, EMU_MEMORY_OPENED, NULL, context);
    if (!address)
        return 0;
    pthread_mutex_lock(&own.lock);
    struct arena_slot *s = &emu_arena.slots[arena_slot_of(address) - emu_arena.slots];
    s->shared = map_pages((void *)(uintptr_t)address, emu_arena_file_bytes(bytes), file) != NULL;
    const bool mapped = s->shared;
    bits_set(emu_arena.defined, address - emu_arena.base, bytes, true, true);
    pthread_mutex_unlock(&own.lock);
    if (!mapped)
        emu_arena_free(address);
    return mapped ? address : 0;
}

/* ---- definedness by the host ------------------------------------------------------------------------ */
void emu_arena_define(uint64_t address, uint64_t bytes, bool defined)
{
    if (bytes && emu_arena_holds(address, bytes))
        bits_set(emu_arena.defined, address - emu_arena.base, bytes, defined, true);
}

void emu_arena_copy_defined(uint64_t to, uint64_t from, uint64_t bytes)
{
    if (bytes && emu_arena_holds(to, bytes) && emu_arena_holds(from, bytes))
        bits_copy(emu_arena.defined, to - emu_arena.base, emu_arena.defined, from - emu_arena.base, bytes,
                  true);
}

/* ---- for messages ----------------------------------------------------------------------------------- */
static bool slot_near(uint64_t address, struct arena_neighbour *out)
{
    enum { FAR = 1024 }; /* blocks */
    uint64_t                 block = block_at(address), blocks = emu_arena.bytes >> ARENA_BLOCK_SHIFT;
    uint32_t                 low = 0, high = 0;
    const struct arena_slot *here = &emu_arena.slots[emu_arena.table[block]];
    if (here->what.id && !is_live(here) && address - here->begin < here->what.bytes) {
        *out = (struct arena_neighbour){.what = here->what, .freed = true};
        return true;
    }
    for (uint64_t i = 0; i < FAR && !low && !high; i++) {
        uint32_t below = block >= i ? emu_arena.table[block - i] : 0;
        uint32_t above = block + i < blocks ? emu_arena.table[block + i] : 0;
        low = below && is_live(&emu_arena.slots[below]) ? below : 0;
        high = above && is_live(&emu_arena.slots[above]) && emu_arena.slots[above].begin > address ? above : 0;
    }
    if (!low && !high)
        return false;
    *out = (struct arena_neighbour){.what = emu_arena.slots[low ? low : high].what, .before = !low};
    return true;
}

bool arena_near(uint64_t address, struct arena_neighbour *out)
{
    if (address - emu_arena.base >= emu_arena.bytes)
        return false;
    pthread_mutex_lock(&own.lock);
    bool found = slot_near(address, out);
    pthread_mutex_unlock(&own.lock);
    return found;
}
