/* compile.h - the PTX compiler of the emulated driver: it decodes, and writes logs like ptxas. */
#ifndef EMU_API_COMPILE_H
#define EMU_API_COMPILE_H
#include "tools/emu/driver/api.h"

struct compile_logs {
    char *info, *error;
}; /* malloc'ed; NULL: empty */
void compile_logs_free(struct compile_logs *logs);

/* "sm_90a" -> 90, 'a' (0: no suffix).  False: not such a name. */
bool compile_parse_target(const char *name, int *sm, char *suffix);
/* The highest PTX ISA * 10 that a driver of this CUDA version accepts. */
int compile_isa(int cuda_version);

/* Decode a text without NULs for the GPU of `settings`.  `target`: the target to compile for, "sm_90a"; NULL:
 * the device itself with all features.  Returns NULL on an error: *result is 218, 222 or 2, and logs->error has
 * the reason.  The caller owns the logs, and the module, which it gives back to spare.h. */
struct emu_module *compile_ptx(const struct emu_settings *settings, const char *target, const char *text,
                               size_t bytes, bool allocate, void *context, unsigned int *result,
                               struct compile_logs *logs);
/* The container of a compiled text.  `target` NULL: this device, with the suffix of the text. */
void *compile_container(const struct emu_settings *settings, const char *target, const char *text, size_t bytes,
                        size_t *size);

/* The PTX of an image, which is text, a container, or a fat binary.  `bytes` 0: unknown. */
struct compile_image {
    const char *text;
    size_t      bytes;
    char       *unpacked; /* malloc'ed: the text, if it comes from a fat binary */
};
/* If it is none of these, a line goes to `jit`, or, if the caller wants no error log, to where reports go. */
api_result compile_image_open(const void *image, size_t bytes, const struct api_jit *jit,
                              struct compile_image *out);
void       compile_image_close(struct compile_image *image);

/* ---- CUjit_option -------------------------------------------------------------------------------------- */
struct api_jit { /* points into the caller's options, which outlive it */
    char  *info, *error;
    size_t info_cap, error_cap;
    void **info_size, **error_size; /* where to store the length of the written log; may be NULL */
};
api_result api_jit_read(unsigned int count, const unsigned int *options, void **values, struct api_jit *out);
void       api_jit_write(const struct api_jit *jit, const struct compile_logs *logs);
#endif
