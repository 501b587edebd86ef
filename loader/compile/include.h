/* include.h - what a C++ text includes: found, read, and given to NVRTC under names of our own.
 *
 * Each #include with a literal name that is found becomes #include "PATH", PATH being where it was found, and
 * the file is a header of that name in memory.  So two files of one name are two, errors name real paths, and
 * what was compiled is what was read.  Whatever the preprocessor decides, all that might be included is
 * taken: the key of the machine code then holds at least what went in.  What is not found is left to
 * NVRTC; what is there and cannot be read is an #error, so that NVRTC does not read it by itself. */
#ifndef PTXPACK_INCLUDE_H
#define PTXPACK_INCLUDE_H
#include "loader/build/program_source.h"

struct ptxpack_header {
    char  *name; /* its path; of the pack "ptxpack/inline/mma_sync.h" */
    char  *text; /* with its own #includes rewritten */
    size_t bytes;
    bool   packed; /* of the pack */
};
struct ptxpack_includes {
    struct ptxpack_header *headers; /* the source itself is the first */
    size_t                 count;
    bool                   itself; /* the source is included, too */
    bool                   open;   /* there are some whose names only the preprocessor knows */
};

/* Of t's source.  False when memory is out; free it either way. */
bool ptxpack_includes_gather(struct ptxpack_includes *includes, struct ptxpack_text *t);
void ptxpack_includes_free(struct ptxpack_includes *includes);
#endif
