/* space.h - state spaces, and the description of an access, for decoding, memory and the judge. */
#ifndef EMU_SPACE_H
#define EMU_SPACE_H
#include "emu.h"

/* ---- spaces and windows ------------------------------------------------------------------------------- */
enum emu_space { EMU_GENERIC, EMU_GLOBAL, EMU_SHARED, EMU_LOCAL, EMU_CONST, EMU_PARAM };

/* Shared memory: addresses from 0 up are the block's own; (rank + 1) << 24 | offset is an address in block
 * `rank` of the cluster (from mapa).  The generic window adds EMU_SHARED_WINDOW to either. */
#define EMU_SHARED_WINDOW 0x0100000000000000ull
#define EMU_LOCAL_WINDOW  0x0200000000000000ull /* + offset within the lane's local memory */
enum { EMU_RANK_SHIFT = 24 };

enum { /* kinds of access */
       EMU_READ = 1,
       EMU_WRITE = 2,
       EMU_ATOMIC = 4,     /* with both: a read-modify-write                                        */
       EMU_STRONG = 8,     /* volatile, relaxed, acquire, release, mmio: no race with other strong ones */
       EMU_PARTIAL = 16,   /* undefined bytes may be read: w->holes has the lanes that do            */
       EMU_NO_JUDGE = 32,  /* the caller tells the judge itself (asynchronous operations)           */
       EMU_NC = 64,        /* ld.global.nc: nothing may write there during the launch               */
       EMU_GRANULE = 128,  /* may end beyond an allocation, within the 16 bytes of its last one     */
       EMU_OWN_BLOCK = 256 /* strong in the scope .cta                                           */
};

/* The place of a lane's bytes. */
struct emu_ref {
    unsigned char  *at;      /* the bytes                                             */
    enum emu_space  space;   /* EMU_GLOBAL (also const, param), EMU_SHARED, EMU_LOCAL  */
    struct emu_cta *cta;     /* EMU_SHARED: whose                                      */
    uint64_t        address; /* within its space (shared: the plain offset)            */
};
#endif
