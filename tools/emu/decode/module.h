/* module.h - PTX text becomes a module: decoded functions, and variables with addresses. */
#ifndef EMU_MODULE_H
#define EMU_MODULE_H
#include "tools/emu/machine/emu.h"

/* Decode PTX for the device of `settings`, and give variables their memory and initial values.  NULL: *result
 * is a CUresult (218 invalid PTX, 222 version too new, 209 no code for this GPU, 2 out of memory), and errors has
 * lines such as "line 12 (ptx/attention/mask.ptx:7): ...".  `allocate` false: only find out whether it decodes. */
struct emu_module       *emu_module_load(const struct emu_settings *settings, const char *text, size_t bytes,
                                         bool allocate, void *context, unsigned int *result,
                                         struct ptx_errors *errors);
void                     emu_module_unload(struct emu_module *module);
void                     emu_module_renew(struct emu_module *module); /* as if it had just been loaded */
struct emu_function     *emu_module_entry(struct emu_module *module, const char *name); /* NULL: none */
const struct emu_global *emu_module_global(const struct emu_module *module, const char *name);

/* Registers of a thread, for cuFuncGetAttribute: an estimate of what ptxas would need. */
int emu_function_registers(const struct emu_function *function);
#endif
