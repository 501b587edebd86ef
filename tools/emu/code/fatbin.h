/* fatbin.h - fat binaries, as nvcc and fatbinary write them: images of PTX and of machine code in one container.
 * The layout was found out by comparing the files that fatbinary 13.0 writes for known inputs.
 *
 *   container   u32 0xba55ed50, u16 version 1, u16 bytes of this header (16), u64 bytes of what follows: images
 *   image       u16 kind (1: PTX, 2: machine code), u16 version, u32 bytes of this header (64 or more), u64 bytes of
 *               the data that follows; at 16: u32 bytes of compressed data (0: not compressed); at 28: u32 GPU
 *               (90 for sm_90); at 40: u64 flags; at 56: u64 bytes of the decompressed data
 *   wrapper     u32 0x466243b1, u32 version, u64 address of the container: what nvcc's host code hands around
 *
 * nvcc 13 compresses PTX by zstd, with --compress-mode speed, as nvcc 12 did, by LZ4.  LZ4 is decompressed here; for
 * zstd, libzstd.so.1 is loaded if it is installed. */
#ifndef EMU_FATBIN_H
#define EMU_FATBIN_H
#include <stddef.h>

enum fatbin_state {
    FATBIN_GOOD,
    FATBIN_NONE, /* not a fat binary */
    FATBIN_DAMAGED,
    FATBIN_NO_PTX, /* there is no PTX that this GPU could run; `holds` says what there is */
    FATBIN_PACKED, /* the PTX is compressed by zstd, and libzstd.so.1 cannot be loaded */
    FATBIN_NO_MEMORY
};
struct fatbin {
    char  *ptx; /* malloc'ed, NUL-terminated */
    size_t bytes;
    char   holds[128]; /* "machine code of sm_90, PTX of sm_100a" */
};
/* The PTX of the newest GPU that this one can run.  `bytes` 0: unknown; the headers are then trusted. */
enum fatbin_state fatbin_open(const void *image, size_t bytes, int sm, struct fatbin *out);
#endif
