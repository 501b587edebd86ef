/* warm.h - `ptxpack cache warm`: fill a folder of prebuilt machine code for other GPUs. */
#ifndef PTXPACK_WARM_H
#define PTXPACK_WARM_H
#include <stdbool.h>
#include <stdint.h>

typedef struct warm_settings {
    const char *dir;      /* the folder                                                              */
    const char *archs;    /* "sm_80,sm_90a"                                                          */
    const char *kernels;  /* patterns joined by commas, NULL: all; see warm_matches                  */
    const char *ptxjit;   /* NULL: the driver's own compiler                                         */
    int64_t     jobs;     /* threads; OPTION_NOT_GIVEN: one for each processor                       */
    bool        all_rows; /* also rows that a device never takes because a better one comes first    */
    bool        prune;    /* remove the entries of older kernels, which this run does not make or find */
    bool        json;
} warm_settings;

/* Returns an exit status after its report, or after lines on stderr: what went wrong, of several failures the
 * first, and how many there were. */
int warm(const warm_settings *settings);

/* A pattern is OP[/ROW[/BUILD]], each a glob: "attention", "attention/d128*", "vector_add/<anything>/bf16*".
 * ROW may begin at the row's id or behind any '_' in it; "..." is another '*'. */
bool warm_matches(const char *pattern, const char *op, const char *row, const char *build);
#endif
