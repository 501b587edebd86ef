/* undefined.h - ops with a source that is undefined in some lanes. */
#ifndef EMU_RUN_UNDEFINED_H
#define EMU_RUN_UNDEFINED_H
#include "tools/emu/machine/emu.h"

/* Execute the op, whose sources are undefined in the lanes `missing` of mask, by its rule. */
void emu_execute_undefined(struct emu_warp *w, const struct emu_op *op, uint32_t mask, uint32_t missing);
/* The name of a register in the text; returns buf. */
const char *emu_register_name(const struct emu_function *f, emu_reg reg, char *buf, size_t cap);
#endif
