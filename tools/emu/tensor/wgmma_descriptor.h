/* wgmma_descriptor.h - what wgmma.c and wgmma_descriptor.c share: matrices in shared memory. */
#ifndef EMU_WGMMA_DESCRIPTOR_H
#define EMU_WGMMA_DESCRIPTOR_H
#include "tools/emu/machine/emu.h"

enum {
    WGMMA_CHUNK = 16,       /* bytes that always stay together                        */
    WGMMA_DEPTH_BYTES = 32, /* along k, of every type                                  */
    WGMMA_SPAN = 1 << 18    /* bytes that a descriptor's address counts in             */
};

/* A descriptor, decoded: bytes. */
struct wgmma_matrix {
    uint32_t start, leading, stride;
    uint32_t base;     /* of the pattern: added to the row that the swizzle sees   */
    uint32_t swizzle;  /* bytes of a row of the pattern: 16 (none), 32, 64, 128    */
    bool     mn_major; /* neighbours lie along M or N: 16-bit elements             */
};
struct wgmma_matrix wgmma_descriptor(uint64_t word, bool mn_major);

/* The shared address of a chunk.  K-major: `line` is the row of A or column of B, chunk 0 or 1 along k.
 * MN-major: `line` is k, chunk counts 8 elements along M or N. */
uint32_t wgmma_chunk(const struct wgmma_matrix *x, uint32_t line, uint32_t chunk);
#endif
