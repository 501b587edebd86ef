/* tma.h - boxes of the tensor memory accelerator: from layouts to every argument of cuTensorMapEncodeTiled.
 *
 * The input is the layout of a tensor in global memory, the tile of it that a block takes, and the layout of
 * that tile in shared memory.  The result is the largest box that one instruction can move, and the order of
 * the tensor's modes in it, which is their order in shared memory.  A tile is one box or several.  The
 * derivation is that of CuTe's make_tma_copy for a tensor whose extents and strides are known only at run time:
 * modes of the tensor are not merged, so that each keeps its own end, beyond which TMA reads the fill.  Only if
 * there are more than five modes, the last ones share a dimension, which steps by the gcd of their strides.
 *
 * The enumerations below have the driver's numbers, so no CUDA header is needed.
 *
 * Errors   After an error the `status` of the box is not PTXPACK_OK, and ptxpack_detail(NULL) of the thread has
 *          one line.
 * Threads  There is no shared state. */
#ifndef PTXPACK_TMA_H
#define PTXPACK_TMA_H
#include "host/layout/layout.h"
#ifdef __cplusplus
extern "C" {
#endif

enum { PTXPACK_TMA_RANK = 5 };

/* CUtensorMapDataType: number, name, bits of an element. */
#define PTXPACK_TMA_TYPE_MAP(X) \
    X(UINT8, 0, 8)              \
    X(UINT16, 1, 16)            \
    X(UINT32, 2, 32)            \
    X(INT32, 3, 32)             \
    X(UINT64, 4, 64)            \
    X(INT64, 5, 64)             \
    X(FLOAT16, 6, 16)           \
    X(FLOAT32, 7, 32)           \
    X(FLOAT64, 8, 64)           \
    X(BFLOAT16, 9, 16)          \
    X(FLOAT32_FTZ, 10, 32)      \
    X(TFLOAT32, 11, 32)         \
    X(TFLOAT32_FTZ, 12, 32)

typedef enum ptxpack_tma_type {
#define PTXPACK_TMA_TYPE_ENUM(name, number, bits) PTXPACK_TMA_##name = number,
    PTXPACK_TMA_TYPE_MAP(PTXPACK_TMA_TYPE_ENUM)
#undef PTXPACK_TMA_TYPE_ENUM
} ptxpack_tma_type;

typedef enum ptxpack_tma_interleave { PTXPACK_TMA_INTERLEAVE_NONE = 0 } ptxpack_tma_interleave;
typedef enum ptxpack_tma_swizzle {
    PTXPACK_TMA_SWIZZLE_NONE = 0,
    PTXPACK_TMA_SWIZZLE_32B = 1,
    PTXPACK_TMA_SWIZZLE_64B = 2,
    PTXPACK_TMA_SWIZZLE_128B = 3
} ptxpack_tma_swizzle;
typedef enum ptxpack_tma_l2 {
    PTXPACK_TMA_L2_NONE = 0,
    PTXPACK_TMA_L2_64B = 1,
    PTXPACK_TMA_L2_128B = 2,
    PTXPACK_TMA_L2_256B = 3
} ptxpack_tma_l2;
/* The value that is read beyond the tensor; NaN only with a floating-point type. */
typedef enum ptxpack_tma_fill { PTXPACK_TMA_FILL_ZERO = 0, PTXPACK_TMA_FILL_NAN = 1 } ptxpack_tma_fill;

typedef struct ptxpack_tma_desc {
    size_t                size; /* = sizeof(ptxpack_tma_desc) */
    ptxpack_tma_type      type;
    const ptxpack_layout *global;    /* the whole tensor, strides in elements */
    const ptxpack_layout *shared;    /* the tile in shared memory, in elements, swizzled or not */
    const ptxpack_layout *tile;      /* a tiler of the tensor's modes; NULL: the extents of `shared` */
    int64_t               multicast; /* blocks that share one box, each fetching a part; 0 is 1 */
    uint64_t              address;   /* of the tensor: a multiple of 16 */
    ptxpack_tma_l2        l2;
    ptxpack_tma_fill      fill;
} ptxpack_tma_desc;

typedef struct ptxpack_tma_box {
    ptxpack_status status;
    /* The arguments of cuTensorMapEncodeTiled, in its order.  Unused dimensions have extents 1, strides 0. */
    ptxpack_tma_type       type;
    uint32_t               rank;
    uint64_t               address;
    uint64_t               global_dim[PTXPACK_TMA_RANK];
    uint64_t               global_strides[PTXPACK_TMA_RANK - 1]; /* bytes, of dimensions 1, 2, .. */
    uint32_t               box_dim[PTXPACK_TMA_RANK];            /* with multicast: one block's part */
    uint32_t               element_strides[PTXPACK_TMA_RANK];    /* all 1 */
    ptxpack_tma_interleave interleave;
    ptxpack_tma_swizzle    swizzle;
    ptxpack_tma_l2         l2;
    ptxpack_tma_fill       fill;

    /* How to use the box. */
    int64_t        boxes;       /* the number of boxes of the tile */
    int64_t        bytes;       /* of one box, with the parts of all blocks: a barrier waits for these */
    int64_t        align;       /* the tile's shared address must be a multiple of this many bytes */
    ptxpack_layout basis;       /* a box before multicast: extents, and the tensor's modes they lie in */
    ptxpack_layout coordinates; /* coordinate in the tensor -> the instruction's coordinates (1@dim) */
    ptxpack_layout steps;       /* box i of the tile -> what to add to the instruction's coordinates */
    ptxpack_layout offsets;     /* box i of the tile -> where in the tile it begins, in elements */
    /* Block i of a multicast -> what to add to the coordinates; its part of the box begins i * bytes /
     * multicast bytes into it. */
    ptxpack_layout parts;
} ptxpack_tma_box;

/* Derive the box.  It is an error, with the reason, if the hardware cannot do what is asked for.  The driver
 * accepts one such case: a swizzled box of several rows that are shorter than the swizzle's span (32, 64 or 128
 * bytes).  TMA fills it differently from `shared`: each row begins at a span of its own, not after the row
 * before (seen on an H200). */
PTXPACK_API ptxpack_tma_box ptxpack_tma_make(const ptxpack_tma_desc *desc);
PTXPACK_API int             ptxpack_tma_type_bits(ptxpack_tma_type type); /* 0 for any other number */
#ifdef __cplusplus
}
#endif
#endif
