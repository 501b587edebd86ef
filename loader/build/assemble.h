/* assemble.h - PTX to machine code as a request: the one way for kernels of the pack and for programs. */
#ifndef PTXPACK_ASSEMBLE_H
#define PTXPACK_ASSEMBLE_H
#include "code.h"

struct ptxpack_assembly {
    struct ptxpack_request request; /* first: one is found from the other; the caller sets its handle */
    struct ptxpack_job     job;
    enum ptxpack_route     route;
    /* Before a compilation, so that job.origin can tell lines; NULL: it can. */
    ptxpack_status (*prepare)(struct ptxpack_assembly *assembly);
};

/* Make the request of the job.  Its notes are the resources of job.entry, or of all entries (notes.h).
 *   PTXPACK_E_MEMORY */
ptxpack_status ptxpack_assembly_begin(struct ptxpack_assembly *assembly);
void           ptxpack_assembly_end(struct ptxpack_assembly *assembly);
#endif
