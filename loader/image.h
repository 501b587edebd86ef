/* image.h - machine code (or PTX) in the driver: a library where the driver knows them, else a module. */
#ifndef PTXPACK_IMAGE_H
#define PTXPACK_IMAGE_H
#include "loader_internal.h"

struct ptxpack_image {
    struct CUlib_st  *library; /* one of these two */
    struct CUmod_st  *module;
    struct CUfunc_st *function;
};

/* Load `cubin`, or when it is NULL the job's PTX, into the current context, allow the row's dynamic shared
 * memory, and fill in what the compiler did not say about resources.
 *   PTXPACK_E_CUBIN, _E_COMPILE, _E_ISA, _E_NO_JIT, _E_DRIVER, _E_MEMORY */
ptxpack_status ptxpack_image_load(const ptxpack *handle, const struct ptxpack_job *job, const void *cubin,
                                  struct ptxpack_image *out, ptxpack_resources *resources);
void ptxpack_image_unload(const struct ptxpack_driver *driver, struct ptxpack_image *image);
#endif
