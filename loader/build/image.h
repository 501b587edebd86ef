/* image.h - machine code (or PTX) in the driver: a library where the driver knows them, else a module. */
#ifndef PTXPACK_IMAGE_H
#define PTXPACK_IMAGE_H
#include "loader/internal.h"

struct ptxpack_image {
    struct CUlib_st *library; /* one of these two */
    struct CUmod_st *module;
};

/* Load `cubin`, or when it is NULL the job's PTX, into the current context, and find `entry` in it, since a
 * driver may put off its work until then.  *log, unless NULL, is what the driver's JIT said, malloc'ed; NULL
 * where it did nothing, or failed.
 *   PTXPACK_E_CUBIN, _E_COMPILE, _E_ISA, _E_NO_JIT, _E_DRIVER, _E_MEMORY */
ptxpack_status ptxpack_image_load(const ptxpack *handle, const struct ptxpack_job *job, const void *cubin,
                                  const char *entry, struct ptxpack_image *out, struct CUfunc_st **function,
                                  char **log);
void           ptxpack_image_unload(const struct ptxpack_driver *driver, struct ptxpack_image *image);

/* An entry of it, in the current context. */
ptxpack_cu_result ptxpack_image_function(const struct ptxpack_driver *driver, const struct ptxpack_image *image,
                                         const char *entry, struct CUfunc_st **function);
/* The line for a driver's answer about an image. */
ptxpack_status ptxpack_image_refused(const ptxpack *handle, const struct ptxpack_job *job,
                                     ptxpack_cu_result result);
/* What the compiler left open about resources (registers 0) is asked of the function. */
void ptxpack_image_resources(const struct ptxpack_driver *driver, struct CUfunc_st *function,
                             ptxpack_resources *resources);
#endif
