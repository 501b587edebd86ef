/* settings_gpu.h - what each GPU has, for compiling for one that is not the emulated one. */
#ifndef EMU_SETTINGS_GPU_H
#define EMU_SETTINGS_GPU_H
#include "settings.h"

/* Make `settings` those of another GPU: its number, shared memory, threads and blocks.  False: unknown. */
bool emu_settings_gpu(struct emu_settings *settings, int sm);
#endif
