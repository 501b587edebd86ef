/* grid.h - loading modules and running grids: what the driver's functions stand on. */
#ifndef EMU_GRID_H
#define EMU_GRID_H
#include "tools/emu/run/emu.h"

/* Decode PTX for the device of `settings`; variables get their memory, with their initial values.  NULL:
 * *result is a CUresult (218 invalid PTX, 222 its version is too new, 209 no code for this GPU, 2), and
 * log one line: "line 12 (ptx/attention/mask.ptx:7): ...".  `allocate` false: only to see whether it decodes.
 */
struct emu_module       *emu_module_load(const struct emu_settings *settings, const char *text, size_t bytes,
                                         bool allocate, void *context, unsigned int *result, char *log, size_t cap);
void                     emu_module_unload(struct emu_module *module);
struct emu_function     *emu_module_entry(struct emu_module *module, const char *name); /* NULL: none */
const struct emu_global *emu_module_global(const struct emu_module *module, const char *name);

/* As cuFuncGetAttribute: registers a thread (the live ones at most, an estimate of what ptxas would need). */
int emu_function_registers(const struct emu_function *function);
int emu_function_max_threads(const struct emu_function *function);
/* Blocks of this kind that fit on one multiprocessor. */
int emu_function_occupancy(const struct emu_settings *settings, const struct emu_function *function,
                           int threads, size_t dynamic_shared);

struct emu_launch {
    struct emu_function *entry;
    uint32_t             grid[3], block[3], cluster[3]; /* cluster 0,0,0: as the kernel says, or 1 */
    uint32_t             dynamic_shared;
    bool                 cooperative;
    const void          *parameters; /* entry->parameter_bytes, each at its offset */
};
/* Check the shape: a CUresult (1 invalid value, 701 out of resources, 720 ...), 0 when it can run. */
unsigned int emu_launch_check(const struct emu_settings *settings, const struct emu_launch *launch);
/* Run to the end, on settings->host_threads.  0, or the CUresult of the first failure (a line was
 * printed); findings of the judge are 719 unless settings->judge_reports_only. */
unsigned int emu_launch_run(const struct emu_settings *settings, const struct emu_launch *launch);

/* Findings since the process began. */
unsigned int emu_findings(void);
#endif
