/* report.h - reports about a kernel: one line each, to settings->log_path or standard error.
 *
 *   ptxpack-emu: race: ptx/step/load.ptx:40: st.shared.u32: thread (3,0,0) of block (0,0,0) writes ...
 *
 * Findings (judge_find) are counted in the grid and printed once per launch, op and kind.  A fault (emu_fault)
 * ends the grid; only the first one is printed.
 *
 * Threads  several threads may call everything here at once. */
#ifndef EMU_REPORT_H
#define EMU_REPORT_H
#include "tools/emu/machine/emu.h"

enum { REPORT_LINE = 1024, REPORT_NAME = 128 };
/* Print one line; a newline is added. */
void report_line(const struct emu_settings *settings, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* "cp.async.bulk": the opcode and its first `most` modifiers; returns buf. */
const char *report_mnemonic(const struct emu_op *op, unsigned int most, char *buf, size_t cap);
/* "ptx/step/load.ptx:40" */
const char *report_place(const struct emu_grid *grid, const struct emu_op *op, char *buf, size_t cap);
/* "thread (3,0,0)" for its linear number in the block */
const char *report_thread(const struct emu_grid *grid, unsigned int thread, char *buf, size_t cap);
/* The launch has ended: prints how many findings there were, if any. */
void report_grid_end(const struct emu_grid *grid);
#endif
