/* kernel.h - private: what each kernel of GEMM does its own way; gemm.c does the rest.
 *
 * A row of kernels.def, of op gemm, belongs to the kernel in its file: mma.c stands for
 * ptx/gemm/mma.ptx, gemm_wgmma.c for ptx/gemm/wgmma.ptx. */
#ifndef PTXPACK_GEMM_KERNEL_H
#define PTXPACK_GEMM_KERNEL_H
#include "check.h"
#include "mma_args.h"
#include "plan.h"
#include "wgmma_args.h"
#include "host/plan/instance.h"

/* What a kernel is handed: a member for each. */
typedef union gemm_any_arguments {
    gemm_mma_arguments   mma;
    gemm_wgmma_arguments wgmma;
} gemm_any_arguments;

typedef struct gemm_kernel {
    const char *file; /* of its rows */
    /* Why a row that this device can run, of a type that will do, cannot be taken here: NULL, or `line`. */
    const char *(*refusal)(const ptxpack *handle, const ptxpack_variant *row, const ptxpack_gemm_desc *desc,
                           const gemm_geometry *geometry, char line[GEMM_LINE]);
    /* The time that the row would take, in any unit that all rows of this kernel share: the least is chosen,
     * of equals the first.  Kernels are asked in gemm.c's order: the first that can take the problem does. */
    double (*cost)(const ptxpack_variant *row, const ptxpack_gemm_desc *desc, const gemm_geometry *geometry,
                   int sm_count);
    /* The symbols of its build; 0 with a line in ptxpack_detail(NULL). */
    size_t (*symbols)(const ptxpack_variant *row, gemm_build build,
                      ptxpack_symbol symbols[PTXPACK_INSTANCE_SYMBOLS]);
    /* Arguments but for the addresses, alpha and beta; grid; workspace.  A failure's line is the handle's. */
    ptxpack_status (*fill)(const ptxpack *handle, const ptxpack_variant *row, const ptxpack_gemm_desc *desc,
                           ptxpack_gemm_plan *plan);
    /* The arguments of a launch: no lock, no allocation. */
    ptxpack_status (*address)(const ptxpack_gemm_plan *plan, const ptxpack_gemm_buffers *buffers,
                              gemm_any_arguments *arguments);
} gemm_kernel;
extern const gemm_kernel gemm_mma, gemm_wgmma;

/* By the row's file; NULL for a row of no GEMM kernel. */
const gemm_kernel *gemm_kernel_of(const ptxpack_variant *row);

struct ptxpack_gemm_plan {
    const ptxpack     *handle;
    const gemm_kernel *methods;
    ptxpack_kernel    *kernel;
    gemm_geometry      geometry;
    bool               has_c;
    uint32_t           grid[3];
    gemm_any_arguments arguments; /* all but the addresses, alpha and beta */
};
/* The device's.  Offline and without a compiler the newest PTX ISA is assumed: a choice is no promise that this
 * machine can compile it. */
ptxpack_device_caps gemm_caps(const ptxpack *handle);
#endif
