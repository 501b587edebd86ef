/* banks.h - bank conflicts of shared-memory accesses, and the swizzle that removes them.
 *
 * Shared memory has 32 banks of 4 bytes.  The threads of a warp access it in phases: 32 threads together
 * with up to 4 bytes each, 16 with 8 bytes, 8 with 16.  ldmatrix and stmatrix are 16-byte accesses by the
 * threads that give row addresses, 8 for each matrix.  Threads that access the same 4-byte word share it.  A
 * phase takes one pass for each different word of the busiest bank; all passes but one are conflicts.
 * Of 160 accesses of one warp (20 layouts; ld and st of 4, 8, 16 bytes, ldmatrix) an H200's counters show
 * exactly these passes for 156; the rest, 8- and 16-byte loads whose threads share words, take half.
 *
 * Errors   After an error the status is not PTXPACK_OK, and ptxpack_detail(NULL) of the thread has one line.
 * Threads  There is no shared state. */
#ifndef PTXPACK_BANKS_H
#define PTXPACK_BANKS_H
#include "host/layout/layout.h"
#include "tiled.h"
#ifdef __cplusplus
extern "C" {
#endif

enum {
    PTXPACK_BANK_PHASES = 2048,   /* the most phases; a tile of 227 KiB takes 1816 if each byte is read once */
    PTXPACK_BANK_ACCESSES = 16,   /* the most accesses of one search */
    PTXPACK_BANK_ADDRESSES = 4096 /* the most addresses of all accesses of one search */
};

/* One instruction, or several one after another: mode 0 of the layout is the thread, all others count the
 * instructions; the value is the offset of the thread's first element.  32 threads are a warp: fewer are the
 * 8 or 16 that matter to ldmatrix.x1 and .x2, more are several warps. */
typedef struct ptxpack_bank_access {
    const ptxpack_layout *offsets; /* may be swizzled */
    int                   bytes;   /* of a thread: 1, 2, 4, 8 or 16; addresses are multiples of it */
} ptxpack_bank_access;

typedef struct ptxpack_banks {
    ptxpack_status status;
    int64_t        phases;     /* of all warps and instructions, in the order instruction, warp, phase */
    int64_t        conflicts;  /* extra passes */
    int64_t        wavefronts; /* all passes: phases + conflicts */
    uint8_t        phase[PTXPACK_BANK_PHASES]; /* extra passes of each phase, 0..31 */
} ptxpack_banks;

/* Count the conflicts of an access to elements of `bits` bits.  Offset 0 lies at a multiple of 128 bytes. */
PTXPACK_API ptxpack_banks ptxpack_bank_conflicts(const ptxpack_bank_access *access, int bits);
/* Count the conflicts of a tiled copy in the tile `shared`, which is its source or its destination. */
PTXPACK_API ptxpack_banks ptxpack_copy_conflicts(const ptxpack_tiled_copy *copy, ptxpack_side side,
                                                 const ptxpack_layout *shared);

/* Find the swizzle with the fewest bits, and among these with the smallest shift, that leaves no conflict in
 * any of the accesses when it is applied to them and to the tile: Sw o 0 o layout.  The tile and the accesses
 * have no swizzle yet, and the accesses stay inside the tile.  *out is {0,0,0} if there is no conflict without
 * a swizzle.  `base` is log2 of the elements in the widest access, or in 4 bytes if that is more, so that no
 * access is split.  The swizzle permutes the bytes of the tile: it stays inside [0, cosize) and uses no address
 * bit that the tile does not reach.
 *   PTXPACK_E_UNSUPPORTED   there is no such swizzle */
PTXPACK_API ptxpack_status ptxpack_find_swizzle(const ptxpack_layout *tile, int bits, int count,
                                                const ptxpack_bank_access *accesses, ptxpack_swizzle *out);
/* The same for the accesses of a tiled copy to the tile `shared`, which is its source or its destination. */
PTXPACK_API ptxpack_status ptxpack_copy_find_swizzle(const ptxpack_tiled_copy *copy, ptxpack_side side,
                                                     const ptxpack_layout *shared, ptxpack_swizzle *out);
#ifdef __cplusplus
}
#endif
#endif
