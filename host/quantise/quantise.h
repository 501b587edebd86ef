/* quantise.h - plan and launch the rounding of matrices of 16 bits to e4m3 with scales, and the way back.
 *
 * Shapes   From the slowest to the fastest dimension:
 *            x       [rows][columns], of dtype, and codes [rows][columns], of PTXPACK_E4M3, with strides of rows in ELEMENTS
 *            scales  f32, packed: one for each row, [rows], as PTXPACK_SCALES_LINES of gemm.h wants those of a row-major A and of
 *                    a column-major B; or with PTXPACK_QUANTISE_BLOCKS one for each PTXPACK_QUANTISE_BLOCK elements of a row,
 *                    [rows][columns / 128, rounded up], as PTXPACK_SCALES_BLOCKS wants those of a row-major A
 * Values   An element is its code times the scale of its row or block.
 *          ptxpack_quantise    With m the largest |x| of a row or block that is no NaN, its scale is s = m / 448, or with
 *                              PTXPACK_QUANTISE_POWERS the least power of two with which 448 s >= m; of zeros it is 1, and it is
 *                              2^-126 at least.  A code is x (1 / s) as e4m3, to nearest even; what is above 448 by the rounding of
 *                              1 / s is 448.  1 / s and the product are rounded to f32, and those of powers of two are exact.
 *                              A NaN becomes NaN, and the others do not mind.  With an infinity s is infinite: finite elements
 *                              become 0 and infinite ones NaN, so that every element means NaN.
 *          ptxpack_dequantise  x is the code times s, rounded to f32 and then to dtype, with any scales: NaN is 0x7fff, and what is
 *                              too large for dtype infinite.  Of codes and powers of two that ptxpack_quantise made of x of the same
 *                              dtype that is the code's own value, exactly, unless the largest of them, above 0.96 times the
 *                              largest finite number of dtype, has been rounded up beyond it.
 *          The CPU has the same bits (ptxpack_quantise_reference), and those of a row depend on that row alone.
 * Memory, errors and threads are as attention.h says.  The kernels are ptx/quantise/quantise.ptx and
 * ptx/quantise/dequantise.ptx (from sm_75 on). */
#ifndef PTXPACK_QUANTISE_H
#define PTXPACK_QUANTISE_H
#include <stdint.h>
#include "host/dtype.h"
#include "loader/loader.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Bits of ptxpack_quantise_desc.options. */
enum {
    PTXPACK_QUANTISE_POWERS = 1, /* scales are powers of two; on the way back this is ignored */
    PTXPACK_QUANTISE_BLOCKS = 2  /* scales are those of blocks of a row, the last of which may be shorter */
};
enum { PTXPACK_QUANTISE_BLOCK = 128 };

typedef struct ptxpack_quantise_desc {
    uint32_t      size;     /* = sizeof(ptxpack_quantise_desc) */
    ptxpack_dtype dtype;    /* of x: PTXPACK_F16, or from sm_80 on PTXPACK_BF16 */
    int32_t       rows;     /* >= 1 */
    int32_t       columns;  /* a multiple of 16; at most 32768, or with blocks 2^31 - 16 */
    uint32_t      options;  /* PTXPACK_QUANTISE_..., or 0 */
    uint32_t      reserved; /* 0 */
    /* Elements from a row to the next, multiples of 8 and of 16; 0: columns.  Of a single row they are ignored. */
    int64_t stride_x, stride_codes;
} ptxpack_quantise_desc;

/* Device addresses: x and codes multiples of 16 bytes, scales of 4.  What is written overlaps nothing else. */
typedef struct ptxpack_quantise_buffers {
    uint32_t size;          /* = sizeof(ptxpack_quantise_buffers) */
    uint64_t x;             /* read; on the way back written */
    uint64_t codes, scales; /* written; on the way back read */
    uint32_t launch;        /* bits: PTXPACK_LAUNCH_OVERLAP (loader.h) */
    uint32_t reserved;      /* 0 */
} ptxpack_quantise_buffers;

typedef struct ptxpack_quantise_plan   ptxpack_quantise_plan;
typedef struct ptxpack_dequantise_plan ptxpack_dequantise_plan;

/* Check `desc`, choose the kernel for the handle's device, and load it.  *plan belongs to the caller, who frees it
 * before closing the handle.  On failure *plan is NULL.
 *   PTXPACK_E_ARG          a field is out of the range stated above
 *   PTXPACK_E_UNSUPPORTED  no kernel for this device covers dtype, or there are more than 2^31 - 1 scales
 *   The other codes are those of ptxpack_kernel_load. */
PTXPACK_API ptxpack_status ptxpack_quantise_plan_create(ptxpack *handle, const ptxpack_quantise_desc *desc,
                                                        ptxpack_quantise_plan **plan);
PTXPACK_API void           ptxpack_quantise_plan_free(ptxpack_quantise_plan *plan); /* NULL is allowed */
/* The kernel, which belongs to the handle; NULL if `plan` is NULL. */
PTXPACK_API const ptxpack_kernel *ptxpack_quantise_kernel(const ptxpack_quantise_plan *plan);
/* The same for the way back. */
PTXPACK_API ptxpack_status ptxpack_dequantise_plan_create(ptxpack *handle, const ptxpack_quantise_desc *desc,
                                                          ptxpack_dequantise_plan **plan);
PTXPACK_API void           ptxpack_dequantise_plan_free(ptxpack_dequantise_plan *plan); /* NULL is allowed */
PTXPACK_API const ptxpack_kernel *ptxpack_dequantise_kernel(const ptxpack_dequantise_plan *plan);

/* Make codes and scales of x, or x of codes and scales, on `stream` (NULL: the default stream of the plan's context).
 *   PTXPACK_E_ARG     a pointer is null or misaligned, what is written overlaps another buffer, or `launch` has unknown
 *                     bits
 *   PTXPACK_E_DRIVER  the plan's context cannot be made current
 *   PTXPACK_E_LAUNCH, _E_FORKED */
PTXPACK_API ptxpack_status ptxpack_quantise(const ptxpack_quantise_plan    *plan,
                                            const ptxpack_quantise_buffers *buffers,
                                            struct CUstream_st             *stream);
PTXPACK_API ptxpack_status ptxpack_dequantise(const ptxpack_dequantise_plan  *plan,
                                              const ptxpack_quantise_buffers *buffers,
                                              struct CUstream_st             *stream);

/* Make the same on the CPU, bit for bit, with everything in HOST memory.  After an error the line is
 * ptxpack_detail(NULL).
 *   PTXPACK_E_ARG     as for the plan, or a pointer is NULL; nothing was written */
PTXPACK_API ptxpack_status ptxpack_quantise_reference(const ptxpack_quantise_desc *desc, const void *x,
                                                      void *codes, float *scales);
PTXPACK_API ptxpack_status ptxpack_dequantise_reference(const ptxpack_quantise_desc *desc, const void *codes,
                                                        const float *scales, void *x);
#ifdef __cplusplus
}
#endif
#endif
