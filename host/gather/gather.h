/* gather.h - plan and launch a gather of rows: y[i] = table[ids[i]], as an embedding does.
 *
 * Shapes   ids [rows], int32, read on the device at each launch, so that a captured graph stays valid
 *          table [table_rows][columns], y [rows][columns], strides in ELEMENTS of 16 bits
 * Values   Rows are copied bit for bit.  An id that is negative or not less than table_rows gives a row of zeros.
 * Memory, errors and threads are as attention.h says.  The kernel is ptx/gather/gather.ptx (from sm_75 on). */
#ifndef PTXPACK_GATHER_H
#define PTXPACK_GATHER_H
#include <stdint.h>
#include "host/dtype.h"
#include "loader/loader.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct ptxpack_gather_desc {
    uint32_t      size;       /* = sizeof(ptxpack_gather_desc) */
    ptxpack_dtype dtype;      /* PTXPACK_F16 or PTXPACK_BF16: the kernel is the same */
    int32_t       rows;       /* >= 1 */
    int32_t       table_rows; /* >= 1 */
    int32_t       columns;    /* a multiple of 8 */
    uint32_t      reserved;   /* 0 */
    /* Elements from a row to the next: multiples of 8; 0: compact */
    int64_t stride_table, stride_y;
} ptxpack_gather_desc;

/* Device addresses: ids a multiple of 4 bytes, the others of 16. */
typedef struct ptxpack_gather_buffers {
    uint32_t size;       /* = sizeof(ptxpack_gather_buffers) */
    uint64_t ids, table; /* read */
    uint64_t y;          /* written */
    uint32_t launch;     /* bits: PTXPACK_LAUNCH_OVERLAP (loader.h) */
    uint32_t reserved;   /* 0 */
} ptxpack_gather_buffers;

typedef struct ptxpack_gather_plan ptxpack_gather_plan;

/* Check `desc`, choose the kernel for the handle's device, and load it.  *plan belongs to the caller, who frees it
 * before closing the handle.  On failure *plan is NULL.
 *   PTXPACK_E_ARG          a field is out of the range stated above
 *   The other codes are those of ptxpack_kernel_load. */
PTXPACK_API ptxpack_status ptxpack_gather_plan_create(ptxpack *handle, const ptxpack_gather_desc *desc,
                                                      ptxpack_gather_plan **plan);
PTXPACK_API void           ptxpack_gather_plan_free(ptxpack_gather_plan *plan); /* NULL is allowed */
/* The kernel, which belongs to the handle; NULL if `plan` is NULL. */
PTXPACK_API const ptxpack_kernel *ptxpack_gather_kernel(const ptxpack_gather_plan *plan);

/* Gather, on `stream` (NULL: the default stream of the plan's context).
 *   PTXPACK_E_ARG     a pointer is null or misaligned, y overlaps another buffer, or `launch` has unknown bits
 *   PTXPACK_E_DRIVER  the plan's context cannot be made current
 *   PTXPACK_E_LAUNCH, _E_FORKED */
PTXPACK_API ptxpack_status ptxpack_gather(const ptxpack_gather_plan    *plan,
                                          const ptxpack_gather_buffers *buffers, struct CUstream_st *stream);
#ifdef __cplusplus
}
#endif
#endif
