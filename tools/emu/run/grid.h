/* grid.h - running a grid to its end. */
#ifndef EMU_GRID_H
#define EMU_GRID_H
#include "tools/emu/decode/module.h"

int emu_function_max_threads(const struct emu_function *function);
/* Blocks of this size that fit on one multiprocessor. */
int emu_function_occupancy(const struct emu_settings *settings, const struct emu_function *function,
                           int threads, size_t dynamic_shared);

struct emu_launch {
    struct emu_function *entry;
    uint32_t             grid[3], block[3], cluster[3]; /* cluster 0,0,0: that of the kernel, or 1 */
    uint32_t             dynamic_shared;
    bool                 cooperative;
    bool                 dependent;   /* it may begin before the launch before it has ended */
    uint32_t             unreachable; /* bits of the devices whose memory it may not access */
    struct judge_grid        *
        *kept; /* what the judge keeps of the launches before, and then of this one; NULL: nothing */
    const void *parameters; /* entry->parameter_bytes, each at its offset */
    /* Asked on a host thread of the launch when all clusters only poll, and may wait a little: may something outside
     * the launch change what they poll?  NULL: nothing may, and this is a deadlock. */
    bool (*may_change)(void *data);
    void *may_change_data;
};
/* Check the shape: a CUresult (1 invalid value, 701 out of resources, 720 ...), 0 when it can run. */
unsigned int emu_launch_check(const struct emu_settings *settings, const struct emu_launch *launch);
/* Run to the end, on settings->host_threads.  0, or the CUresult of the first failure (a line was
 * printed); findings of the judge are 719 unless settings->judge_reports_only. */
unsigned int emu_launch_run(const struct emu_settings *settings, const struct emu_launch *launch);

/* Findings since the process began. */
unsigned int emu_findings(void);
#endif
