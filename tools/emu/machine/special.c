/* special.c - the values of special registers. */
#include "special.h"

static void set32(struct emu_warp *w, enum emu_special special, uint32_t value)
{
    uint32_t *row = emu_r32(w, emu_special_reg(special));
    for (int l = 0; l < EMU_LANES; l++)
        row[l] = value;
}

static void set64(struct emu_warp *w, enum emu_special special, uint64_t value)
{
    uint64_t *row = emu_r64(w, emu_special_reg(special));
    for (int l = 0; l < EMU_LANES; l++)
        row[l] = value;
}

static void fill_lanes(struct emu_warp *w, const struct emu_grid *g)
{
    uint32_t *x = emu_r32(w, emu_special_reg(EMU_SPECIAL_TID_X));
    uint32_t *y = emu_r32(w, emu_special_reg(EMU_SPECIAL_TID_Y));
    uint32_t *z = emu_r32(w, emu_special_reg(EMU_SPECIAL_TID_Z));
    for (unsigned int l = 0; l < EMU_LANES; l++) {
        uint32_t thread = w->index * EMU_LANES + l;
        x[l] = thread % g->block[0];
        y[l] = thread / g->block[0] % g->block[1];
        z[l] = thread / g->block[0] / g->block[1];
        emu_r32(w, emu_special_reg(EMU_SPECIAL_LANEID))[l] = l;
        emu_r32(w, emu_special_reg(EMU_SPECIAL_LANEMASK_EQ))[l] = 1u << l;
        emu_r32(w, emu_special_reg(EMU_SPECIAL_LANEMASK_LT))[l] = (1u << l) - 1;
        emu_r32(w, emu_special_reg(EMU_SPECIAL_LANEMASK_LE))[l] = ((1u << l) - 1) | 1u << l;
        emu_r32(w, emu_special_reg(EMU_SPECIAL_LANEMASK_GE))[l] = ~((1u << l) - 1);
        emu_r32(w, emu_special_reg(EMU_SPECIAL_LANEMASK_GT))[l] = ~(((1u << l) - 1) | 1u << l);
    }
}

static void fill_places(struct emu_warp *w, const struct emu_grid *g)
{
    for (unsigned int i = 0; i < 3; i++) {
        set32(w, (enum emu_special)(EMU_SPECIAL_NTID_X + i), g->block[i]);
        set32(w, (enum emu_special)(EMU_SPECIAL_CTAID_X + i), w->cta->index[i]);
        set32(w, (enum emu_special)(EMU_SPECIAL_NCTAID_X + i), g->grid[i]);
        set32(w, (enum emu_special)(EMU_SPECIAL_CLUSTERID_X + i), w->cta->index[i] / g->cluster[i]);
        set32(w, (enum emu_special)(EMU_SPECIAL_NCLUSTERID_X + i), g->grid[i] / g->cluster[i]);
        set32(w, (enum emu_special)(EMU_SPECIAL_CLUSTER_CTAID_X + i), w->cta->index[i] % g->cluster[i]);
        set32(w, (enum emu_special)(EMU_SPECIAL_CLUSTER_NCTAID_X + i), g->cluster[i]);
    }
    set32(w, EMU_SPECIAL_CLUSTER_CTARANK, w->cta->rank);
    set32(w, EMU_SPECIAL_CLUSTER_NCTARANK, w->cluster->cta_count);
    set32(w, EMU_SPECIAL_IS_EXPLICIT_CLUSTER, g->explicit_cluster ? EMU_ALL : 0);
}

static void fill_machine(struct emu_warp *w, const struct emu_grid *g)
{
    uint32_t fixed = g->entry->shared_static, reserved = g->settings->shared_reserved;
    set32(w, EMU_SPECIAL_WARPID, w->index);
    set32(w, EMU_SPECIAL_NWARPID, g->settings->threads_per_sm / EMU_LANES);
    set32(w, EMU_SPECIAL_SMID, w->cluster->id % (uint32_t)g->settings->sm_count);
    set32(w, EMU_SPECIAL_NSMID, (uint32_t)g->settings->sm_count);
    set64(w, EMU_SPECIAL_GRIDID, g->id);
    set32(w, EMU_SPECIAL_TOTAL_SMEM_SIZE, fixed + g->dynamic_shared);
    set32(w, EMU_SPECIAL_AGGR_SMEM_SIZE, fixed + g->dynamic_shared + reserved);
    set32(w, EMU_SPECIAL_DYNAMIC_SMEM_SIZE, g->dynamic_shared);
    set32(w, EMU_SPECIAL_RESERVED_BEGIN, 0);
    set32(w, EMU_SPECIAL_RESERVED_END, reserved);
    set32(w, EMU_SPECIAL_RESERVED_CAP, reserved);
    set32(w, EMU_SPECIAL_RESERVED_0, 0);
    set32(w, EMU_SPECIAL_RESERVED_1, reserved / 2); /* its two halves; the boundary is not documented */
    set64(w, EMU_SPECIAL_GRAPH_EXEC, 0);
    set32(w, EMU_SPECIAL_ENVREG1, (uint32_t)(g->workspace >> 32));
    set32(w, EMU_SPECIAL_ENVREG2, (uint32_t)g->workspace);
    set64(w, EMU_SPECIAL_LOCAL_BASE, 0);
    set64(w, EMU_SPECIAL_PARAM_BASE, g->parameter_address);
    set64(w, EMU_SPECIAL_DYNAMIC_SHARED, g->entry->shared_bytes);
}

void emu_special_fill(struct emu_warp *w)
{
    fill_lanes(w, w->grid);
    fill_places(w, w->grid);
    fill_machine(w, w->grid);
}
