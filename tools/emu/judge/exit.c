/* exit.c - accesses to the shared memory of another block of the cluster, which must be ordered before the exit
 * of some thread of that block: after its last thread has exited the memory is gone. */
#include <stdlib.h>
#include "internal.h"
#include "report.h"

/* The last accesses by the lanes of a warp that no thread of the block has observed at its exit so far. */
struct judge_remote {
    uint32_t             epoch[EMU_LANES]; /* 0: none */
    const struct emu_op *op[EMU_LANES];
};

void judge_remote_access(struct judge_warp *w, const struct emu_op *op, uint32_t mask,
                         const struct emu_ref ref[EMU_LANES])
{
    for (; mask; mask &= mask - 1) {
        const int             l = __builtin_ctz(mask);
        const struct emu_cta *cta = ref[l].cta;
        if (ref[l].space != EMU_SHARED || cta == w->w->cta || cta->judge == NULL)
            continue;
        struct judge_cta *block = cta->judge;
        if (block->remote == NULL)
            block->remote = (struct judge_remote **)judge_alloc(w->cluster->grid, w->cluster->warps,
                                                                sizeof *block->remote);
        if (block->remote == NULL)
            return;
        struct judge_remote **remote = &block->remote[w->number];
        if (*remote == NULL)
            *remote = (struct judge_remote *)judge_alloc(w->cluster->grid, 1, sizeof **remote);
        if (*remote == NULL)
            return;
        (*remote)->epoch[l] = w->epoch;
        (*remote)->op[l] = op;
    }
}

/* Has a lane of mask observed it? */
static bool observed(struct judge_warp *w, uint32_t mask, uint32_t row, int lane, uint32_t epoch)
{
    struct judge_view view = {.warp = w};
    for (; mask; mask &= mask - 1) {
        view.lane = __builtin_ctz(mask);
        if (judge_ordered(&view, PART_SEEN, w->cluster->id, row, (uint32_t)lane, epoch))
            return true;
    }
    return false;
}

static void settle(struct judge_warp *w, uint32_t mask, uint32_t row, struct judge_remote *remote, bool last)
{
    const uint32_t *block = w->w->cta->index;
    for (int l = 0; l < EMU_LANES; l++) {
        if (!remote->epoch[l])
            continue;
        if (observed(w, mask, row, l, remote->epoch[l]))
            remote->epoch[l] = 0;
        else if (last)
            judge_find(
                w->cluster->warp[row].w, remote->op[l], l, JUDGE_RACE,
                "accesses shared memory of block (%u,%u,%u), and nothing orders this before that block exits",
                block[0], block[1], block[2]);
    }
}

void judge_exit(struct emu_warp *warp, uint32_t mask, bool last)
{
    struct judge_warp *w = warp->judge;
    if (w != NULL && last)
        judge_dependents_begin_at_exit(w);
    if (w == NULL || judge_is_off(w->cluster->grid) || warp->cta->judge->remote == NULL || warp->grid->stop)
        return;
    for (uint32_t row = 0; row < w->cluster->warps; row++)
        if (warp->cta->judge->remote[row] != NULL)
            settle(w, mask, row, warp->cta->judge->remote[row], last);
}

void judge_remote_free(struct judge_cta *block, uint32_t warps)
{
    for (uint32_t row = 0; block->remote != NULL && row < warps; row++)
        free(block->remote[row]);
    free(block->remote);
    block->remote = NULL;
}
