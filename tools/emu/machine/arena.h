/* arena.h - device memory.  Thread-safe.
 *
 * Device addresses are host addresses within one range: the 64-bit generic address of global memory is the
 * address that cuMemAlloc returned. */
#ifndef EMU_ARENA_H
#define EMU_ARENA_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum emu_memory_kind {
    EMU_MEMORY_DEVICE,
    EMU_MEMORY_HOST,
    EMU_MEMORY_MANAGED, /* cuMemAlloc, cuMemHostAlloc, ...Managed */
    EMU_MEMORY_MODULE,
    EMU_MEMORY_CONSTANT,   /* .global and .const variables */
    EMU_MEMORY_PARAMETERS, /* of a launch; kernels may only read them */
    EMU_MEMORY_POOL,       /* cuMemAllocAsync */
    EMU_MEMORY_OPENED      /* memory of another process, see emu_arena_map */
};
struct emu_allocation {
    uint64_t             address, bytes;
    enum emu_memory_kind kind;
    uint64_t             id;      /* counts up: "allocation 12" */
    const char          *name;    /* of a variable; NULL */
    void                *context; /* who allocated it; only the driver uses this */
    uint32_t             device;  /* a bit: the device whose memory it is; 0: all devices may access it */
};
/* Reserve the address range, of settings->memory_bytes.  Call it once. */
bool emu_arena_open(uint64_t bytes);
/* 0: there is no room.  The address is aligned to at least 256 bytes.  There are gaps between allocations, and
 * freed addresses are not reused for a long time, so that stray accesses are found.  The bytes are undefined,
 * but zero for EMU_MEMORY_PARAMETERS. */
uint64_t emu_arena_alloc(uint64_t bytes, enum emu_memory_kind kind, const char *name, void *context);
bool     emu_arena_free(uint64_t address); /* false: no allocation begins at this address */
/* The allocation that begins at this address is memory of the device with this bit. */
void emu_arena_place(uint64_t address, uint32_t device);
/* Copy the description of the allocation that holds `address`; false: there is none. */
bool emu_arena_find(uint64_t address, struct emu_allocation *out);
/* True when [address, address + bytes) lies in one allocation. */
bool emu_arena_holds(uint64_t address, uint64_t bytes);
/* Bytes in use (`context` NULL: all). */
uint64_t emu_arena_used(void);
/* Free all that `context` allocated. */
void emu_arena_free_context(void *context);
/* The host has written these bytes: they are defined, and the write precedes every later launch.  `defined`
 * false: the bytes become undefined. */
void emu_arena_define(uint64_t address, uint64_t bytes, bool defined);
/* Memory that processes share.  The first call for an allocation moves its bytes into a file without a name, which is
 * mapped in their place.  The result is the file's descriptor, which is open until the allocation is freed; -1: errno
 * says why there is none.  All bytes count as defined from then on, since writes of other processes are not seen. */
int emu_arena_share(uint64_t address);
/* Map such a file of another process, with as many bytes as the allocation has there: EMU_MEMORY_OPENED, all of it
 * defined.  It takes addresses, but no memory of the limit, and does not need the descriptor any more.  0: there is no
 * room. */
uint64_t emu_arena_map(int file, uint64_t bytes, void *context);
/* The size of the file of an allocation. */
uint64_t emu_arena_file_bytes(uint64_t bytes);
/* A host thread accesses memory for a kernel only between these two calls: no allocation is moved into a file then. */
void emu_arena_enter(void);
void emu_arena_leave(void);
/* In between, now and then: an allocation may be moved during this call. */
void emu_arena_pause(void);
/* For copies between device addresses: undefined bytes stay undefined at the destination. */
void emu_arena_copy_defined(uint64_t to, uint64_t from, uint64_t bytes);

/* ---- internals, for the fast path of every access to device memory ------------------------------------
 * The address range is cut into blocks of 32 KiB.  An allocation begins at a block, and at least one block
 * behind it is left free.  A table holds the slot of each block; a slot describes an allocation, live or freed.
 * Readers take no lock: a slot is complete before its number is stored in the table, and the `end` of a freed
 * slot is 0.  One bit for each byte says whether it is defined; several host threads set bits of one byte. */
enum { ARENA_BLOCK_SHIFT = 15 };

struct arena_slot {
    uint64_t              begin, end; /* end: 0 once it is freed        */
    struct emu_allocation what;
    uint32_t              next;   /* of the unused slots            */
    bool                  shared; /* its bytes are mapped from a file    */
    int                   file;   /* which this process has made; -1: none */
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
