/* ptxas.h - a toolkit's ptxas as PTX compiler, for machines where the driver's compiler cannot be used. */
#ifndef PTXPACK_PTXAS_H
#define PTXPACK_PTXAS_H
#include <stdbool.h>
#include <stddef.h>
#include "ptxcompiler.h"
#include "loader/status.h"

struct ptxpack_ptxas {
    char path[4096];
    char identity[256]; /* the words of `ptxas --version` that identify its build */
    int  cuda;          /* 13000 for CUDA 13.0, the release that it belongs to */
};

/* Look at $PTXPACK_PTXAS ("none": do not look), or else where ptxpack_find_tool looks (find.h).  Each program
 * is asked for its version once in this process, unless its file changes.  False: none works, and `why` is one
 * line. */
bool ptxpack_ptxas_open(struct ptxpack_ptxas *out, char *why, size_t cap);

/* Compile as ptxpack_ptxcompiler_compile does.  Nothing is written to a disk.
 *   PTXPACK_E_NO_JIT   the program could not be run
 *   PTXPACK_E_COMPILE, _E_ISA, _E_IO, _E_MEMORY */
ptxpack_status ptxpack_ptxas_compile(const struct ptxpack_ptxas *ptxas, const char *ptx, size_t bytes,
                                     const char *const *options, int count, struct ptxpack_compiled *compiled);
#endif
