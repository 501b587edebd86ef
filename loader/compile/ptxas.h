/* ptxas.h - a toolkit's ptxas as PTX compiler, for machines where the driver's own cannot be used. */
#ifndef PTXPACK_PTXAS_H
#define PTXPACK_PTXAS_H
#include <stdbool.h>
#include <stddef.h>
#include "ptxcompiler.h"
#include "loader/status.h"

struct ptxpack_ptxas {
    char path[4096];
    char identity[256]; /* the words of `ptxas --version` that identify its build */
    int  cuda;          /* 13000: the release it belongs to */
};

/* Look at $PTXPACK_PTXAS ("none": nowhere), or else along $PATH and in /usr/local/cuda/bin.  Each program
 * is asked for its version once in this process, unless the file changes.  False: none works, `why` is one
 * line. */
bool ptxpack_ptxas_open(struct ptxpack_ptxas *out, char *why, size_t cap);

/* As ptxpack_ptxcompiler_compile.  Temporary files (0600, in $TMPDIR or /tmp) are gone afterwards.
 *   PTXPACK_E_COMPILE, _E_ISA; _E_NO_JIT (the program could not be run), _E_IO, _E_MEMORY */
ptxpack_status ptxpack_ptxas_compile(const struct ptxpack_ptxas *ptxas, const char *ptx, size_t bytes,
                                     const char *const *options, int count, struct ptxpack_compiled *compiled);
#endif
