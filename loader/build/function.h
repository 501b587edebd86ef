/* function.h - a loaded program and its functions. */
#ifndef PTXPACK_FUNCTION_H
#define PTXPACK_FUNCTION_H
#include "image.h"
#include "notes.h"
#include "program.h"

struct ptxpack_program {
    ptxpack                   *handle;
    char                      *path; /* for messages */
    struct ptxpack_image       image;
    const struct ptxpack_code *code; /* NULL when the driver compiled */
    struct ptxpack_notes       notes;
    char                     **expressions; /* notes.names are their lowered names, in this order */
    size_t                     expression_count;
    ptxpack_program_info       info;
    char                      *log;
    pthread_mutex_t            lock;      /* guards functions */
    struct ptxpack_function   *functions; /* those that were found so far */
};

void ptxpack_functions_free(ptxpack_program *program);
#endif
