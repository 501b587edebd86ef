/* arena.h - the arena's insides, for the path that every access to device memory takes: see memory.h.
 *
 * The address range is cut into blocks of 32 KiB.  An allocation begins at a block, and at least one block is
 * left free behind it.  A table tells each block's slot; a slot describes an allocation, live or freed.
 * Readers take no lock: a slot is complete before its number is stored into the table, and `end` of a freed
 * one is 0.  One bit a byte says which bytes are defined; several host threads set bits of one byte of it. */
#ifndef EMU_ARENA_H
#define EMU_ARENA_H
#include "memory.h"

enum { ARENA_BLOCK_SHIFT = 15 };

struct arena_slot {
    uint64_t              begin, end; /* end: 0 once it is freed        */
    struct emu_allocation what;
    uint32_t              next; /* of the unused slots            */
};

struct arena {
    uint64_t           base, bytes; /* of the address range           */
    uint32_t          *table;       /* slot by block; 0: none         */
    struct arena_slot *slots;       /* slots[0] is never used         */
    unsigned char     *defined;     /* a bit a byte                   */
};
extern struct arena emu_arena;

/* The slot of the live allocation that holds `address`; NULL: none. */
static inline const struct arena_slot *arena_slot_of(uint64_t address)
{
    const struct arena *a = &emu_arena;
    uint64_t            offset = address - a->base;
    if (offset >= a->bytes)
        return NULL;
    uint32_t                 n = __atomic_load_n(&a->table[offset >> ARENA_BLOCK_SHIFT], __ATOMIC_ACQUIRE);
    const struct arena_slot *s = &a->slots[n];
    return n && address < __atomic_load_n(&s->end, __ATOMIC_RELAXED) ? s : NULL;
}

/* What lies at or near an address, for messages. */
struct arena_neighbour {
    struct emu_allocation what;
    bool                  freed;  /* `address` was in it           */
    bool                  before; /* `address` lies below it       */
};
bool arena_near(uint64_t address, struct arena_neighbour *out);
#endif
