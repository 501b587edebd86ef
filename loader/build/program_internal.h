/* program_internal.h - a loaded program and its functions. */
#ifndef PTXPACK_PROGRAM_INTERNAL_H
#define PTXPACK_PROGRAM_INTERNAL_H
#include "image.h"
#include "program_build.h"

struct ptxpack_program {
    ptxpack                   *handle;
    char                      *path; /* in messages */
    struct ptxpack_image       image;
    const struct ptxpack_code *code; /* NULL when the driver compiled */
    struct ptxpack_notes       notes;
    char                     **expressions; /* notes.names are theirs, in this order */
    size_t                     expression_count;
    ptxpack_program_info       info;
    char                      *log;
    pthread_mutex_t            lock;      /* guards functions */
    struct ptxpack_function   *functions; /* that were asked for */
};

/* ---- function.c ----------------------------------------------------------------------------------- */
void ptxpack_functions_free(ptxpack_program *program);
#endif
