/* image.h - machine code (or PTX) loaded by the driver: a library where the driver has them, otherwise a
 * module. */
#ifndef PTXPACK_IMAGE_H
#define PTXPACK_IMAGE_H
#include "loader/internal.h"

struct ptxpack_image {
    struct CUlib_st *library; /* exactly one of the two is set */
    struct CUmod_st *module;
};

/* Load `cubin`, or the job's PTX if `cubin` is NULL, into the current context, and find `entry` in it, because
 * a driver may delay its work until then.  Unless `log` is NULL, *log becomes the malloc'ed log of the driver's
 * JIT, or NULL if the JIT did nothing or failed.
 *   PTXPACK_E_CUBIN, _E_COMPILE, _E_ISA, _E_NO_JIT, _E_DRIVER, _E_MEMORY */
ptxpack_status ptxpack_image_load(const ptxpack *handle, const struct ptxpack_job *job, const void *cubin,
                                  const char *entry, struct ptxpack_image *out, struct CUfunc_st **function,
                                  char **log);
void           ptxpack_image_unload(const struct ptxpack_driver *driver, struct ptxpack_image *image);

/* Find an entry of the image; its context must be current. */
ptxpack_cu_result ptxpack_image_function(const struct ptxpack_driver *driver, const struct ptxpack_image *image,
                                         const char *entry, struct CUfunc_st **function);
/* Set the detail line for an error of the driver about an image, and return its status. */
ptxpack_status ptxpack_image_refused(const ptxpack *handle, const struct ptxpack_job *job,
                                     ptxpack_cu_result result);
/* If the compiler reported no resources (registers 0), ask the driver about the function. */
void ptxpack_image_resources(const struct ptxpack_driver *driver, struct CUfunc_st *function,
                             ptxpack_resources *resources);
#endif
