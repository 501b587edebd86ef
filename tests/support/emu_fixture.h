/* emu_fixture.h - run PTX text on the emulated GPU from a test, below the Driver API.
 *
 *   emu_machine(80);
 *   uint64_t a = emu_buffer(1024);
 *   emu_write(a, host, 1024);
 *   assert_int_equal(emu_run(text, "entry", 1, 32, 0, (uint64_t[]){a, 5}, 2), 0);
 *   emu_read(host, a, 1024);
 *
 * What the emulator reports is collected: emu_log(). */
#ifndef EMU_FIXTURE_H
#define EMU_FIXTURE_H
#include <stdint.h>
#include "tools/emu/run/grid.h"
#include "tools/emu/machine/arena.h"
#include "tools/emu/memory/memory.h"
#include "tools/emu/machine/settings.h"

/* The settings that emu_run uses: a test may change them between runs. */
extern struct emu_settings emu_test_settings;

/* Begin with the defaults of this GPU. */
void     emu_machine(int sm);
uint64_t emu_buffer(uint64_t bytes); /* undefined bytes; freed by emu_machine */
void     emu_write(uint64_t to, const void *from, uint64_t bytes);
void     emu_read(void *to, uint64_t from, uint64_t bytes);
/* Launches in one dimension; words are cut to the parameters' sizes.  Returns the CUresult of loading or
 * running. */
unsigned int emu_run(const char *ptx, const char *entry, uint32_t grid, uint32_t block, uint32_t dynamic_shared,
                     const uint64_t *words, unsigned int count);
/* Launches any shape; the parameters are the bytes of the whole parameter block. */
unsigned int emu_run_shape(const char *ptx, const struct emu_launch *shape, const char *entry);
/* What was reported (and why a module was refused) since emu_log_clear; valid until the next call. */
const char *emu_log(void);
void        emu_log_clear(void);
#endif
