/* kernel.h - private: what each kernel of attention does its own way; attention.c does the rest.
 *
 * A row of kernels.def belongs to the kernel in its file: attention_mma.c stands for
 * ptx/attention/mma.ptx, attention_wgmma.c for ptx/attention/wgmma.ptx. */
#ifndef PTXPACK_ATTENTION_KERNEL_H
#define PTXPACK_ATTENTION_KERNEL_H
#include "mma_args.h"
#include "check.h"
#include "wgmma_args.h"
#include "host/plan/instance.h"

/* What a kernel is handed. */
typedef union attention_any_arguments {
    attention_arguments       mma;
    attention_wgmma_arguments wgmma;
} attention_any_arguments;

typedef struct attention_kernel {
    const char *file; /* of its rows */
    bool ordered; /* of its rows with one HEAD_DIM the first that can be taken is the best for any problem */
    /* Why a row that this device can run, of a HEAD_DIM and a type that will do, cannot be taken here: NULL,
     * or `line`. */
    const char *(*refusal)(const ptxpack *handle, const ptxpack_variant *row, const ptxpack_device_caps *caps,
                           const ptxpack_attention_desc *desc, const attention_geometry *geometry,
                           char line[ATTENTION_LINE]);
    /* The symbols of its build; 0 with a line in ptxpack_detail(NULL). */
    size_t (*symbols)(const ptxpack_variant *row, const ptxpack_attention_desc *desc,
                      const attention_geometry *geometry, ptxpack_symbol symbols[PTXPACK_INSTANCE_SYMBOLS]);
    /* Arguments but for the addresses, grid, workspace.  The line of a failure is the handle's. */
    ptxpack_status (*fill)(const ptxpack *handle, const ptxpack_variant *row,
                           const ptxpack_attention_desc *desc, ptxpack_attention_plan *plan);
    /* The arguments of a launch: no lock, no allocation. */
    ptxpack_status (*address)(const ptxpack_attention_plan *plan, const ptxpack_attention_buffers *buffers,
                              attention_any_arguments *arguments);
    size_t (*instances)(const ptxpack_variant *row); /* how many builds there are of a row, and one of them */
    void (*instance)(const ptxpack_variant *row, size_t index, ptxpack_instance *out);
} attention_kernel;
extern const attention_kernel attention_mma, attention_wgmma;

/* By the row's file; NULL for a row of no attention kernel. */
const attention_kernel *attention_kernel_of(const ptxpack_variant *row);

struct ptxpack_attention_plan {
    const ptxpack          *handle;
    const attention_kernel *methods;
    ptxpack_kernel         *kernel;
    attention_geometry      geometry;
    uint32_t                grid[3];
    attention_any_arguments arguments; /* all but the addresses */
};

/* ---- what the kernels share ---------------------------------------------------------------------------- */
/* Query tiles of a problem, in the order in which all kernels number them. */
typedef struct attention_tiles {
    int32_t tiles_q;       /* of a head */
    int32_t heads_total;   /* batch * heads_q */
    int32_t tiles_total;   /* their product */
    int32_t section_heads; /* heads whose tiles are neighbours */
} attention_tiles;

/* Counted for blocks of `block_m` rows; PTXPACK_E_UNSUPPORTED, with `line`, when 32 bits do not hold them,
 * nor the numbers of rows and keys up to a block beyond the last. */
ptxpack_status attention_count_tiles(const ptxpack_attention_desc *desc, const attention_geometry *geometry,
                                     int64_t block_m, attention_tiles *tiles, char line[ATTENTION_LINE]);
#endif
