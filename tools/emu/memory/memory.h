/* memory.h - device memory, and the one way in which kernels touch memory of any space.
 *
 * Device addresses are host addresses within one arena: 64-bit generic addresses of global memory are what
 * cuMemAlloc answered.  Shared and local memory have windows of their own in the generic address space. */
#ifndef EMU_MEMORY_H
#define EMU_MEMORY_H
#include "tools/emu/run/emu.h"

/* ---- the arena: thread-safe --------------------------------------------------------------------------- */
enum emu_memory_kind {
    EMU_MEMORY_DEVICE,
    EMU_MEMORY_HOST,
    EMU_MEMORY_MANAGED, /* cuMemAlloc, cuMemHostAlloc, ...Managed */
    EMU_MEMORY_MODULE,
    EMU_MEMORY_CONSTANT,  /* .global and .const variables */
    EMU_MEMORY_PARAMETERS /* of a launch: read-only for kernels */
};
struct emu_allocation {
    uint64_t             address, bytes;
    enum emu_memory_kind kind;
    uint64_t             id;      /* counts up: "allocation 12" */
    const char          *name;    /* of a variable; NULL */
    void                *context; /* who allocated it: the driver's own */
};
/* Reserve the address range of settings->memory_bytes; once. */
bool emu_arena_open(uint64_t bytes);
/* 0: no room.  Aligned to 256 bytes at least; a gap stays between allocations, and freed addresses are not
 * given out again before long, so that stray accesses are found.  The bytes are undefined (zero:
 * PARAMETERS). */
uint64_t emu_arena_alloc(uint64_t bytes, enum emu_memory_kind kind, const char *name, void *context);
bool     emu_arena_free(uint64_t address); /* false: no allocation begins there */
/* The allocation that holds `address`: a copy; false: none. */
bool emu_arena_find(uint64_t address, struct emu_allocation *out);
/* True when [address, address + bytes) lies in one allocation. */
bool emu_arena_holds(uint64_t address, uint64_t bytes);
/* Bytes in use (`context` NULL: all). */
uint64_t emu_arena_used(void);
/* Free all that `context` allocated. */
void emu_arena_free_context(void *context);
/* The host wrote these bytes (or, with false, they hold nothing yet): they are defined, and ordered before
 * every launch that follows. */
void emu_arena_define(uint64_t address, uint64_t bytes, bool defined);
/* A device-to-device copy carries undefinedness along. */
void emu_arena_copy_defined(uint64_t to, uint64_t from, uint64_t bytes);

/* ---- spaces and windows ------------------------------------------------------------------------------- */
enum emu_space { EMU_GENERIC, EMU_GLOBAL, EMU_SHARED, EMU_LOCAL, EMU_CONST, EMU_PARAM };

/* Shared memory: address 0 up is the block's own; (rank + 1) << 24 | offset is that of block `rank` of the
 * cluster (mapa makes such addresses).  The generic window adds EMU_SHARED_WINDOW to either. */
#define EMU_SHARED_WINDOW 0x0100000000000000ull
#define EMU_LOCAL_WINDOW  0x0200000000000000ull /* + offset within the lane's local memory */
enum { EMU_RANK_SHIFT = 24 };

enum { /* what is done */
       EMU_READ = 1,
       EMU_WRITE = 2,
       EMU_ATOMIC = 4,   /* with both: a read-modify-write                                        */
       EMU_STRONG = 8,   /* volatile, relaxed, acquire, release, mmio: no race with other strong ones */
       EMU_PARTIAL = 16, /* undefined bytes may be read: they are copied as undefined by the caller */
       EMU_NO_JUDGE = 32 /* the caller tells the judge itself (asynchronous operations)            */
};

/* Where a lane's bytes are. */
struct emu_ref {
    unsigned char  *at;      /* the bytes                                             */
    enum emu_space  space;   /* EMU_GLOBAL (also const, param), EMU_SHARED, EMU_LOCAL  */
    struct emu_cta *cta;     /* EMU_SHARED: whose                                      */
    uint64_t        address; /* within its space (shared: the plain offset)            */
};

/* Lane l touches `bytes` (1 to 128) at address[l] of `space`: bounds, alignment (to `align` bytes),
 * undefined bytes, and races are judged; the counters of shared memory and bytes are kept; written bytes
 * become defined. False: something fatal was reported, the exec function returns at once. */
bool emu_memory(struct emu_warp *w, const struct emu_op *op, uint32_t mask, enum emu_space space,
                const uint64_t address[EMU_LANES], uint32_t bytes, uint32_t align, unsigned int access,
                struct emu_ref out[EMU_LANES]);

/* One range of any length, on behalf of one lane: for bulk copies.  EMU_NO_JUDGE skips definedness and
 * races (bounds never). */
bool emu_memory_range(struct emu_warp *w, const struct emu_op *op, int lane, enum emu_space space,
                      uint64_t address, uint64_t bytes, uint32_t align, unsigned int access,
                      struct emu_ref *out);

/* Definedness of a range that emu_memory or emu_memory_range has found. */
bool emu_defined(const struct emu_ref *ref, uint64_t bytes);
void emu_define(const struct emu_ref *ref, uint64_t bytes);
/* Copy the bytes with their definedness (source and destination both known). */
void emu_copy(const struct emu_ref *to, const struct emu_ref *from, uint64_t bytes);

/* "global 0x7f.. + 1040, 16 bytes beyond allocation 12 (1024 bytes)" and the like, for messages. */
const char *emu_address_text(struct emu_warp *w, int lane, enum emu_space space, uint64_t address, char *buf,
                             size_t cap);

/* Wavefronts that these lanes need in shared memory:  32 banks of 4 bytes; 64-bit accesses by half-warps,
 * 128-bit by quarter-warps, ldmatrix by matrices of 8 rows.  Lanes outside of mask take no part. */
unsigned int emu_wavefronts(const uint64_t address[EMU_LANES], uint32_t mask, uint32_t bytes);
#endif
