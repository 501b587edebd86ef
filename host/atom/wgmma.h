/* wgmma.h - how wgmma reads an operand from shared memory: canonical layouts and matrix descriptors.
 *
 * A tile is a layout (M or N, K) -> element offset.  Swizzles count in elements: the 128-byte swizzle is
 * Sw<3,3,3> over f16, Sw<3,4,3> over s8, Sw<3,2,3> over tf32.  One instruction reads mn x k elements of the
 * tile, k elements being 256 bits; its descriptor is
 *
 *      63  62 | 51     49 | 45          32 | 29          16 | 13           0
 *      swizzle|base offset|  stride (SBO)  |  leading (LBO) |    address        in units of 16 bytes
 *
 * and the descriptor of the next instruction is the same plus a few units in the low half:
 * ptxpack_wgmma_operand.steps.
 *
 * Errors   After an error the `status` of a value is not PTXPACK_OK, and ptxpack_detail(NULL) of the thread has
 *          one line.
 * Threads  There is no shared state. */
#ifndef PTXPACK_WGMMA_H
#define PTXPACK_WGMMA_H
#include "host/layout/layout.h"
#ifdef __cplusplus
extern "C" {
#endif

/* The numbers are those of the descriptor's field. */
typedef enum ptxpack_wgmma_swizzle {
    PTXPACK_WGMMA_NONE = 0,
    PTXPACK_WGMMA_128B = 1,
    PTXPACK_WGMMA_64B = 2,
    PTXPACK_WGMMA_32B = 3
} ptxpack_wgmma_swizzle;

/* The mode along which elements are contiguous.  The numbers are those of wgmma's tnspA and tnspB. */
typedef enum ptxpack_wgmma_major { PTXPACK_WGMMA_K = 0, PTXPACK_WGMMA_MN = 1 } ptxpack_wgmma_major;

PTXPACK_API const char *ptxpack_wgmma_swizzle_name(ptxpack_wgmma_swizzle swizzle); /* "none", "128B"; "?" */

/* ---- the 64 bits --------------------------------------------------------------------------------------- */
typedef struct ptxpack_wgmma_fields {
    uint32_t address;         /* bytes; a multiple of 16 below 2^18, as the next two */
    uint32_t leading, stride; /* LBO, SBO */
    uint32_t base_offset;     /* 0..7; 0 where a tile starts at a multiple of ptxpack_wgmma_operand.align */
    ptxpack_wgmma_swizzle swizzle;
} ptxpack_wgmma_fields;

/* Encode a descriptor.
 *   PTXPACK_E_ARG   a field does not fit */
PTXPACK_API ptxpack_status ptxpack_wgmma_encode(const ptxpack_wgmma_fields *fields, uint64_t *word);
/* Decode a descriptor.
 *   PTXPACK_E_ARG   a bit between the fields is set */
PTXPACK_API ptxpack_status ptxpack_wgmma_decode(uint64_t word, ptxpack_wgmma_fields *fields);

/* ---- canonical shared memory --------------------------------------------------------------------------- */
/* The smallest layout with this swizzle, for elements of 1..64 bits: (8,K) of PTXPACK_WGMMA_K, (MN,8) of
 * PTXPACK_WGMMA_MN.  ptxpack_tile_to_shape of one is a tile that ptxpack_wgmma_descriptor accepts, up to 32
 * bits: wgmma has no elements of 64, which only TMA moves into such tiles. */
PTXPACK_API ptxpack_layout ptxpack_wgmma_atom(ptxpack_wgmma_major major, ptxpack_wgmma_swizzle swizzle,
                                              int bits);

/* ---- descriptors --------------------------------------------------------------------------------------- */
typedef struct ptxpack_wgmma_operand {
    ptxpack_status       status;
    ptxpack_wgmma_major  major;
    ptxpack_wgmma_fields fields; /* of the first instruction, of a tile at shared address 0 */
    uint64_t             word;   /* the fields, encoded: a kernel adds (tile's address >> 4) to the low half */
    int64_t              mn, k;  /* elements that one instruction reads */
    int64_t              align;  /* the tile's address must be a multiple of this many bytes */
    /* (instructions along M or N, instructions along K) -> what to add to the low half. */
    ptxpack_layout steps;
    int64_t        step_mn, step_k; /* steps((1,0)) and steps((0,1)); 0 where there is only one */
} ptxpack_wgmma_operand;

/* The descriptors of a tile whose elements have `bits` bits (1..32).  An instruction reads `mn` rows of it: 64
 * for A, N for B, and 0 means all rows of the tile.  If no descriptor can describe the tile, the result is an
 * error with the first condition that fails.  wgmma itself takes PTXPACK_WGMMA_MN only for 16-bit types. */
PTXPACK_API ptxpack_wgmma_operand ptxpack_wgmma_descriptor(const ptxpack_layout *tile,
                                                           ptxpack_wgmma_major major, int bits, int64_t mn);
#ifdef __cplusplus
}
#endif
#endif
