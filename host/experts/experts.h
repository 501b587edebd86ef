/* experts.h - plan and launch what a mixture of experts needs around its products: which experts a row goes to, and the
 * weighted sum of what they make of it.  Rows of the same expert lie one after another in between:
 *
 *   ptxpack_experts_route     logits of a router -> the experts of each row, their weights, and an order of all (row, expert)
 *   ptxpack_gather            with ids = sources: the rows in that order
 *   products                  the rows starts[e] .. starts[e + 1] - 1 are those of expert e
 *   ptxpack_experts_combine   the rows of the products, weighted and added, in the order of the first ones
 *
 * Shapes   logits [rows][experts], starts [experts + 1], sources [rows top_k], places [rows][top_k] (int32),
 *          weights [rows][top_k] (f32); y [rows top_k][columns], residual and out [rows][columns].  All is in device memory
 *          and read at each launch, so that a captured graph stays valid.  Strides are in ELEMENTS.
 * Route    With z the logits of a row as f32 (NaN counts as -inf, -0 as 0), p[e] = e^(z[e] - max z) / sum of all, where the
 *          difference is 0 if z[e] is the maximum, also an infinite one.  The row goes to the top_k experts of the largest z;
 *          of equal ones the lower expert comes first.  weights[r][j] is p of the row's j-th expert; with
 *          PTXPACK_EXPERTS_NORMALISE divided by the sum of the row's top_k.  Weights are finite and not negative, whatever the
 *          logits.
 *          Places are sorted by expert, then by row: expert e has the places starts[e] .. starts[e + 1] - 1, places[r][j] is
 *          that of row r at its j-th expert, and sources[places[r][j]] = r.  starts[0] is 0, starts[experts] rows top_k.
 *          All of it, the bits of the weights too, depends on the logits alone.
 * Combine  out[r] = residual[r] + sum over j, in order, of weights[r][j] y[places[r][j]], in f32, rounded once.  A place that is
 *          negative or not less than rows top_k adds nothing.
 * Memory, errors and threads are as attention.h says.  The kernels are ptx/experts/route.ptx, combine.ptx (from sm_75 on). */
#ifndef PTXPACK_EXPERTS_H
#define PTXPACK_EXPERTS_H
#include <stdint.h>
#include "host/dtype.h"
#include "loader/loader.h"
#ifdef __cplusplus
extern "C" {
#endif

/* ---- route -------------------------------------------------------------------------------------------- */
/* Bits of ptxpack_experts_route_desc.options. */
enum {
    PTXPACK_EXPERTS_F32 = 1,      /* logits are f32, and dtype is ignored */
    PTXPACK_EXPERTS_NORMALISE = 2 /* the weights of a row sum to 1 */
};

typedef struct ptxpack_experts_route_desc {
    uint32_t      size;    /* = sizeof(ptxpack_experts_route_desc) */
    ptxpack_dtype dtype;   /* of logits: PTXPACK_F16 or PTXPACK_BF16 */
    int32_t       rows;    /* 1 to 2^24 */
    int32_t       experts; /* 1 to 512 */
    int32_t       top_k;   /* 1 to 16, at most `experts` */
    uint32_t      options; /* PTXPACK_EXPERTS_*; 0: none */
    int64_t       stride;  /* elements from a row of logits to the next; 0: compact */
} ptxpack_experts_route_desc;

/* Device addresses: workspace a multiple of 16 bytes, logits of an element's, the others of 4. */
typedef struct ptxpack_experts_route_buffers {
    uint32_t size;                             /* = sizeof(ptxpack_experts_route_buffers) */
    uint64_t logits;                           /* read */
    uint64_t starts, sources, places, weights; /* written */
    /* ptxpack_experts_route_workspace bytes, which are zero before the first use.  Each launch leaves them ready for the next
     * one.  Launches that may run at the same time need a workspace each. */
    uint64_t workspace;
    uint32_t launch;   /* bits: PTXPACK_LAUNCH_OVERLAP (loader.h) */
    uint32_t reserved; /* 0 */
} ptxpack_experts_route_buffers;

typedef struct ptxpack_experts_route_plan ptxpack_experts_route_plan;

/* Check `desc`, choose the kernel for the handle's device, and load it.  *plan belongs to the caller, who frees it
 * before closing the handle.  On failure *plan is NULL.
 *   PTXPACK_E_ARG          a field is out of the range stated above
 *   The other codes are those of ptxpack_kernel_load. */
PTXPACK_API ptxpack_status ptxpack_experts_route_plan_create(ptxpack                          *handle,
                                                             const ptxpack_experts_route_desc *desc,
                                                             ptxpack_experts_route_plan      **plan);
PTXPACK_API void ptxpack_experts_route_plan_free(ptxpack_experts_route_plan *plan); /* NULL is allowed */
/* The kernel, which belongs to the handle; NULL if `plan` is NULL. */
PTXPACK_API const ptxpack_kernel *ptxpack_experts_route_kernel(const ptxpack_experts_route_plan *plan);
PTXPACK_API size_t ptxpack_experts_route_workspace(const ptxpack_experts_route_plan *plan); /* bytes; 0: none */

/* Route the rows, one kernel, on `stream` (NULL: the default stream of the plan's context).
 *   PTXPACK_E_ARG     a pointer is null or misaligned, what is written overlaps another buffer, or `launch` has unknown bits
 *   PTXPACK_E_DRIVER  the plan's context cannot be made current
 *   PTXPACK_E_LAUNCH, _E_FORKED */
PTXPACK_API ptxpack_status ptxpack_experts_route(const ptxpack_experts_route_plan    *plan,
                                                 const ptxpack_experts_route_buffers *buffers,
                                                 struct CUstream_st                  *stream);

/* The same on the CPU, with weights from double precision.  All is in HOST memory.  After an error the line is
 * ptxpack_detail(NULL).
 *   PTXPACK_E_ARG     as for the plan, or a pointer is NULL; nothing was written */
PTXPACK_API ptxpack_status ptxpack_experts_route_reference(const ptxpack_experts_route_desc *desc,
                                                           const void *logits, int32_t *starts,
                                                           int32_t *sources, int32_t *places, float *weights);

/* ---- combine ------------------------------------------------------------------------------------------ */
/* Bits of ptxpack_experts_combine_desc.options. */
enum { PTXPACK_EXPERTS_RESIDUAL = 1 /* the sum begins with the row of residual */ };

typedef struct ptxpack_experts_combine_desc {
    uint32_t      size;    /* = sizeof(ptxpack_experts_combine_desc) */
    ptxpack_dtype dtype;   /* of y, residual and out: PTXPACK_F16 or PTXPACK_BF16 */
    int32_t       rows;    /* 1 to 2^24 */
    int32_t       top_k;   /* 1 to 16 */
    int32_t       columns; /* a multiple of 8 */
    uint32_t      options; /* PTXPACK_EXPERTS_RESIDUAL, or 0 */
    /* Elements from a row to the next: multiples of 8; 0: compact */
    int64_t stride_y, stride_residual, stride_out;
} ptxpack_experts_combine_desc;

/* Device addresses: multiples of 16 bytes, those of places and weights of 4. */
typedef struct ptxpack_experts_combine_buffers {
    uint32_t size;               /* = sizeof(ptxpack_experts_combine_buffers) */
    uint64_t y, places, weights; /* read */
    uint64_t residual;           /* read, with PTXPACK_EXPERTS_RESIDUAL; may be out, with the same stride */
    uint64_t out;                /* written */
    uint32_t launch;             /* bits: PTXPACK_LAUNCH_OVERLAP (loader.h) */
    uint32_t reserved;           /* 0 */
} ptxpack_experts_combine_buffers;

typedef struct ptxpack_experts_combine_plan ptxpack_experts_combine_plan;

/* As ptxpack_experts_route_plan_create and the calls after it. */
PTXPACK_API ptxpack_status        ptxpack_experts_combine_plan_create(ptxpack                            *handle,
                                                                      const ptxpack_experts_combine_desc *desc,
                                                                      ptxpack_experts_combine_plan      **plan);
PTXPACK_API void                  ptxpack_experts_combine_plan_free(ptxpack_experts_combine_plan *plan);
PTXPACK_API const ptxpack_kernel *ptxpack_experts_combine_kernel(const ptxpack_experts_combine_plan *plan);
PTXPACK_API ptxpack_status        ptxpack_experts_combine(const ptxpack_experts_combine_plan    *plan,
                                                          const ptxpack_experts_combine_buffers *buffers,
                                                          struct CUstream_st                    *stream);

/* The same on the CPU, in double precision and not rounded, to out [rows][columns], compact.  All is in HOST memory;
 * residual may be NULL without PTXPACK_EXPERTS_RESIDUAL.  After an error the line is ptxpack_detail(NULL).
 *   PTXPACK_E_ARG     as for the plan, or a pointer is NULL; nothing was written */
PTXPACK_API ptxpack_status ptxpack_experts_combine_reference(const ptxpack_experts_combine_desc *desc,
                                                             const void *y, const int32_t *places,
                                                             const float *weights, const void *residual,
                                                             double *out);
#ifdef __cplusplus
}
#endif
#endif
