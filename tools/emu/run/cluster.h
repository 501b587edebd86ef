/* cluster.h - a cluster of blocks (one block where none is asked for): the unit that a host thread runs. */
#ifndef EMU_CLUSTER_H
#define EMU_CLUSTER_H
#include "emu.h"

enum emu_turn { EMU_TURN_DONE, EMU_TURN_MORE, EMU_TURN_SPINS };

/* Memory for one cluster of this grid; counts: [warp of the block][op], NULL when nothing is counted.
 * NULL: out of memory. */
struct emu_cluster *emu_cluster_new(struct emu_grid *grid);
void                emu_cluster_free(struct emu_cluster *cluster);
/* Make it the cluster `id` of the grid, at its beginning.  False: out of memory. */
bool emu_cluster_begin(struct emu_cluster *cluster, uint32_t id, struct emu_count *counts);
/* Run about `quantum` ops.  MORE: there is more to do; SPINS: and it seems to wait for other clusters. */
enum emu_turn emu_cluster_run(struct emu_cluster *cluster, uint64_t quantum);
/* It has only polled for very long: a deadlock, unless another cluster does something. */
bool emu_cluster_polls(const struct emu_cluster *cluster);
/* Say who waits for what, and stop the grid. */
void emu_cluster_deadlock(struct emu_cluster *cluster);
/* After DONE, or when the grid failed. */
void emu_cluster_end(struct emu_cluster *cluster);
#endif
