/* spare.h - decoded modules that nobody uses at present.
 *
 * A program compiles a text, loads what came out as a library, and uses its kernel in a context: three times the same module, and
 * later perhaps again.  The last few modules without variables are kept when they are given back, and taken again for the same text.
 *
 * Threads  any thread may call everything. */
#ifndef EMU_API_SPARE_H
#define EMU_API_SPARE_H
#include "tools/emu/machine/emu.h"

/* A module of this text for a GPU with these settings, as if it had just been loaded; NULL: there is none. */
struct emu_module *spare_take(const struct emu_settings *settings, const char *text, size_t bytes);
/* The module was loaded from this text with these settings: it may be kept later. */
void spare_note(struct emu_module *m, const struct emu_settings *settings, const char *text, size_t bytes);
/* Unloads the module, or keeps it.  NULL is ignored. */
void spare_give(struct emu_module *m);
#endif
