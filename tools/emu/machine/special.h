/* special.h - special registers: each has two rows of the warp's own bank. */
#ifndef EMU_SPECIAL_H
#define EMU_SPECIAL_H
#include "emu.h"

/* name in PTX, bits.  Those from LOCAL_BASE on have no name in PTX. */
/* clang-format off */
#define EMU_SPECIAL_MAP(X)                                                                                 \
    X("tid.x", TID_X, 32) X("tid.y", TID_Y, 32) X("tid.z", TID_Z, 32)                                      \
    X("ntid.x", NTID_X, 32) X("ntid.y", NTID_Y, 32) X("ntid.z", NTID_Z, 32)                                \
    X("ctaid.x", CTAID_X, 32) X("ctaid.y", CTAID_Y, 32) X("ctaid.z", CTAID_Z, 32)                          \
    X("nctaid.x", NCTAID_X, 32) X("nctaid.y", NCTAID_Y, 32) X("nctaid.z", NCTAID_Z, 32)                    \
    X("clusterid.x", CLUSTERID_X, 32) X("clusterid.y", CLUSTERID_Y, 32)                                    \
    X("clusterid.z", CLUSTERID_Z, 32) X("nclusterid.x", NCLUSTERID_X, 32)                                  \
    X("nclusterid.y", NCLUSTERID_Y, 32) X("nclusterid.z", NCLUSTERID_Z, 32)                                \
    X("cluster_ctaid.x", CLUSTER_CTAID_X, 32) X("cluster_ctaid.y", CLUSTER_CTAID_Y, 32)                    \
    X("cluster_ctaid.z", CLUSTER_CTAID_Z, 32) X("cluster_nctaid.x", CLUSTER_NCTAID_X, 32)                  \
    X("cluster_nctaid.y", CLUSTER_NCTAID_Y, 32) X("cluster_nctaid.z", CLUSTER_NCTAID_Z, 32)                \
    X("cluster_ctarank", CLUSTER_CTARANK, 32) X("cluster_nctarank", CLUSTER_NCTARANK, 32)                  \
    X("is_explicit_cluster", IS_EXPLICIT_CLUSTER, 1)                                                       \
    X("laneid", LANEID, 32) X("warpid", WARPID, 32) X("nwarpid", NWARPID, 32)                              \
    X("smid", SMID, 32) X("nsmid", NSMID, 32) X("gridid", GRIDID, 64)                                      \
    X("lanemask_eq", LANEMASK_EQ, 32) X("lanemask_le", LANEMASK_LE, 32)                                    \
    X("lanemask_lt", LANEMASK_LT, 32) X("lanemask_ge", LANEMASK_GE, 32)                                    \
    X("lanemask_gt", LANEMASK_GT, 32)                                                                      \
    X("total_smem_size", TOTAL_SMEM_SIZE, 32) X("aggr_smem_size", AGGR_SMEM_SIZE, 32)                      \
    X("dynamic_smem_size", DYNAMIC_SMEM_SIZE, 32)                                                          \
    X("reserved_smem_offset_begin", RESERVED_BEGIN, 32) X("reserved_smem_offset_end", RESERVED_END, 32)    \
    X("reserved_smem_offset_cap", RESERVED_CAP, 32) X("reserved_smem_offset_0", RESERVED_0, 32)            \
    X("reserved_smem_offset_1", RESERVED_1, 32) X("current_graph_exec", GRAPH_EXEC, 64)                    \
    X("envreg1", ENVREG1, 32) X("envreg2", ENVREG2, 32) /* cooperative: the grid's workspace, high, low */ \
    X("", LOCAL_BASE, 64)      /* of the running frame, in the lane's local memory */                      \
    X("", PARAM_BASE, 64)      /* of the kernel's parameters, in device memory     */                      \
    X("", DYNAMIC_SHARED, 64)  /* offset of extern shared memory                   */
/* clang-format on */
enum emu_special {
#define EMU_SPECIAL_ENUM(text, name, bits) EMU_SPECIAL_##name,
    EMU_SPECIAL_MAP(EMU_SPECIAL_ENUM)
#undef EMU_SPECIAL_ENUM
        EMU_SPECIAL_COUNT
};
static inline emu_reg emu_special_reg(enum emu_special special)
{
    return ((uint32_t)EMU_BANK_SPECIAL << EMU_BANK_SHIFT) | (uint32_t)special * 2;
}

/* Each instruction that names a clock reads it again. */
enum emu_clock { EMU_CLOCK, EMU_CLOCK_HI, EMU_CLOCK64, EMU_TIMER, EMU_TIMER_LO, EMU_TIMER_HI };

/* Fill the bank of a warp whose cta, cluster and grid are set. */
void emu_special_fill(struct emu_warp *w);
#endif
