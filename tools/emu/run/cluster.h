/* cluster.h - a cluster of blocks (one block by default): the unit that a host thread runs. */
#ifndef EMU_CLUSTER_H
#define EMU_CLUSTER_H
#include "tools/emu/machine/emu.h"

enum emu_turn { EMU_TURN_DONE, EMU_TURN_MORE, EMU_TURN_SPINS };

/* Memory for one cluster of this grid.  NULL: out of memory. */
struct emu_cluster *emu_cluster_new(struct emu_grid *grid);
void                emu_cluster_free(struct emu_cluster *cluster);
/* Make it the cluster `id` of the grid, at its beginning.  counts: [warp of the block][op], NULL: none.  False:
 * out of memory. */
bool emu_cluster_begin(struct emu_cluster *cluster, uint32_t id, struct emu_count *counts);
/* Run about `quantum` ops.  MORE: it is not finished; SPINS: it seems to wait for other clusters. */
enum emu_turn emu_cluster_run(struct emu_cluster *cluster, uint64_t quantum);
/* It has only polled for very long.  This is a deadlock unless another cluster makes progress. */
bool emu_cluster_polls(const struct emu_cluster *cluster);
/* Report which threads wait for what, and stop the grid. */
void emu_cluster_deadlock(struct emu_cluster *cluster);
/* After DONE, or when the grid failed. */
void emu_cluster_end(struct emu_cluster *cluster);
#endif
