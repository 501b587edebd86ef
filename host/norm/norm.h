/* norm.h - plan and launch RMSNorm of rows: y = x / sqrt(mean(x^2) + eps) * w, alone or after a residual.
 *
 * Shapes   From the slowest to the fastest dimension:
 *            x, r, y   [rows][heads][columns], strides in ELEMENTS; each [row][head] is normalised alone.  The hidden
 *                      states of a model are heads = 1; q and k as a projection left them are heads of head_dim columns
 *            w         [columns]
 * Values   x, r, w and y are of dtype.  All is computed in f32, and y is rounded once.  With PTXPACK_NORM_RESIDUAL
 *          r + x is rounded to dtype, written back to r, and normalised.  A sum of squares beyond f32 gives zeros.
 *          The bits of a row depend on that row, its number of columns and the kernel alone.
 * Memory, errors and threads are as attention.h says.  The kernel is ptx/norm/norm.ptx (from sm_75 on). */
#ifndef PTXPACK_NORM_H
#define PTXPACK_NORM_H
#include <stdint.h>
#include "host/dtype.h"
#include "loader/loader.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Bits of ptxpack_norm_desc.options. */
enum {
    PTXPACK_NORM_RESIDUAL = 1,       /* r += x, and y is of r */
    PTXPACK_NORM_ONE_PLUS_WEIGHT = 2 /* the weight is 1 + w (Gemma) */
};

/* Elements from a row to the next, and from a head to the next: multiples of 8; both 0: compact.  The stride of a
 * dimension of extent 1 is ignored. */
typedef struct ptxpack_norm_strides {
    int64_t row, head;
} ptxpack_norm_strides;

typedef struct ptxpack_norm_desc {
    uint32_t             size;     /* = sizeof(ptxpack_norm_desc) */
    ptxpack_dtype        dtype;    /* PTXPACK_F16, or from sm_80 on PTXPACK_BF16 */
    int32_t              rows;     /* >= 1 */
    int32_t              heads;    /* >= 1 */
    int32_t              columns;  /* a multiple of 8, at most 16384 */
    uint32_t             options;  /* PTXPACK_NORM_..., or 0 */
    float                eps;      /* > 0 */
    uint32_t             reserved; /* 0 */
    ptxpack_norm_strides x, r, y;  /* r: with PTXPACK_NORM_RESIDUAL */
} ptxpack_norm_desc;

/* Device addresses, multiples of 16 bytes. */
typedef struct ptxpack_norm_buffers {
    uint32_t size;     /* = sizeof(ptxpack_norm_buffers) */
    uint64_t x, w;     /* read */
    uint64_t r;        /* with PTXPACK_NORM_RESIDUAL: read and written */
    uint64_t y;        /* written; may be x, with the same strides */
    uint32_t launch;   /* bits: PTXPACK_LAUNCH_OVERLAP (loader.h) */
    uint32_t reserved; /* 0 */
} ptxpack_norm_buffers;

typedef struct ptxpack_norm_plan ptxpack_norm_plan;

/* Check `desc`, choose the kernel for the handle's device, and load it.  *plan belongs to the caller, who frees it
 * before closing the handle.  On failure *plan is NULL.
 *   PTXPACK_E_ARG          a field is out of the range stated above
 *   PTXPACK_E_UNSUPPORTED  no kernel for this device covers dtype, or rows times heads is beyond 2^31 - 1
 *   The other codes are those of ptxpack_kernel_load. */
PTXPACK_API ptxpack_status ptxpack_norm_plan_create(ptxpack *handle, const ptxpack_norm_desc *desc,
                                                    ptxpack_norm_plan **plan);
PTXPACK_API void           ptxpack_norm_plan_free(ptxpack_norm_plan *plan); /* NULL is allowed */
/* The kernel, which belongs to the handle; NULL if `plan` is NULL. */
PTXPACK_API const ptxpack_kernel *ptxpack_norm_kernel(const ptxpack_norm_plan *plan);

/* Normalise, on `stream` (NULL: the default stream of the plan's context).
 *   PTXPACK_E_ARG     a pointer is null or misaligned, a written buffer overlaps another one (except y that is x), or
 *                     `launch` has unknown bits
 *   PTXPACK_E_DRIVER  the plan's context cannot be made current
 *   PTXPACK_E_LAUNCH, _E_FORKED */
PTXPACK_API ptxpack_status ptxpack_norm(const ptxpack_norm_plan *plan, const ptxpack_norm_buffers *buffers,
                                        struct CUstream_st *stream);

/* Compute the same on the CPU in double precision, to check results.  x, w and r are in HOST memory, of dtype; r is
 * read, not written, and ignored without PTXPACK_NORM_RESIDUAL.  sum (the new r, rounded to dtype as the kernel
 * rounds it, with the strides desc->r) and y (with the strides desc->y) are doubles, and either may be NULL.  After an
 * error the line is ptxpack_detail(NULL).
 *   PTXPACK_E_ARG     as for the plan, or an input is NULL; nothing was written */
PTXPACK_API ptxpack_status ptxpack_norm_reference(const ptxpack_norm_desc *desc, const void *x, const void *w,
                                                  const void *r, double *sum, double *y);
#ifdef __cplusplus
}
#endif
#endif
