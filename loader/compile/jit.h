/* jit.h - the routes from PTX text to machine code, in order of preference, and the choice of one.
 *
 *   1  nvPTXCompiler from the driver's libnvidia-ptxjitcompiler.so.1     whole program, no context needed
 *   2  a toolkit's ptxas                                                 whole program, no context needed
 *   3  cuLink: not for rows that need whole-program compilation          relocatable code, needs a context
 *   4  the driver's own JIT when it loads the PTX                        nothing to keep in a cache
 *
 * The first two give the same code for the same version, and the driver's JIT gives the same code as 1. */
#ifndef PTXPACK_JIT_H
#define PTXPACK_JIT_H
#include "cache/cache.h"
#include "loader/driver.h"
#include "log.h"
#include "ptxas.h"
#include "ptxcompiler.h"
#include "loader/registry.h"

enum ptxpack_route {
    PTXPACK_ROUTE_NONE,
    PTXPACK_ROUTE_PTXCOMPILER,
    PTXPACK_ROUTE_PTXAS,
    PTXPACK_ROUTE_LINK,
    PTXPACK_ROUTE_DRIVER
};

struct ptxpack_jit {
    enum ptxpack_route           route; /* the best one that can be used */
    struct ptxpack_ptxcompiler   ptxcompiler;
    struct ptxpack_ptxas         ptxas;
    const struct ptxpack_driver *driver;              /* NULL offline */
    char                         driver_identity[96]; /* of libcuda's build; "" if it cannot be determined */
    char                         why[256];            /* one line: the route, and why there is no better one */
};

/* Look for compilers and choose the best route.  `ptxjit` names the library of route 1 (NULL: $PTXPACK_PTXJIT,
 * or else the driver's own library); "none" excludes this route.  False: a library that was named cannot be
 * used, as `why` says, and it must not be skipped silently. */
bool ptxpack_jit_open(struct ptxpack_jit *jit, const struct ptxpack_driver *driver, const char *ptxjit);
/* The route for one text: `jit->route`, unless that route cannot compile it. */
enum ptxpack_route ptxpack_jit_route(const struct ptxpack_jit *jit, bool whole_program);
/* The name of a route's compiler: "nvPTXCompiler 13.0", "/usr/local/cuda/bin/ptxas", ... */
const char *ptxpack_jit_name(const struct ptxpack_jit *jit, enum ptxpack_route route, char *buf, size_t cap);
/* Whether the driver and the PTX compiler are one library.  So it is with an emulated driver, which runs only
 * its own machine code. */
bool ptxpack_jit_is_driver(const struct ptxpack_jit *jit);
/* The highest PTX ISA * 10 that both the compiler and the driver take; offline there is no driver to ask. */
int ptxpack_jit_isa(const struct ptxpack_jit *jit);

/* One text to compile. */
struct ptxpack_job {
    const char         *name;  /* for messages: a row's id, a program's path */
    const char         *entry; /* the entry whose resources are wanted; NULL: all entries */
    int                 isa;   /* PTX ISA * 10 that the text needs */
    const char         *text;  /* followed by a NUL byte */
    size_t              bytes;
    const char         *target; /* "sm_90a" */
    bool                line_info;
    ptxpack_line_origin origin;    /* NULL: messages give the lines of the PTX */
    const void         *origin_of; /* its context */
};
enum { PTXPACK_JIT_OPTIONS = 3 };
struct ptxpack_jit_options {
    char        target[32];
    const char *words[PTXPACK_JIT_OPTIONS];
    int         count;
};
/* Set the options of ptxas for a job; `words` points into the struct. */
void ptxpack_jit_options(const struct ptxpack_job *job, struct ptxpack_jit_options *out);

/* Add the route and the compiler to a key.  Returns NULL, or why the compiler's exact version cannot be
 * determined.  In that case the key is good within this process, and the caller must poison it before it
 * reaches the disk. */
const char *ptxpack_jit_identify(const struct ptxpack_jit *jit, enum ptxpack_route route,
                                 ptxpack_cache_key *key);

/* Compile.  For PTXPACK_ROUTE_LINK the context must be current.  On failure `detail` is one line.
 *   PTXPACK_E_COMPILE, _E_ISA, _E_NO_JIT, _E_IO, _E_MEMORY, _E_DRIVER */
ptxpack_status ptxpack_jit_compile(const struct ptxpack_jit *jit, enum ptxpack_route route,
                                   const struct ptxpack_job *job, struct ptxpack_compiled *compiled,
                                   char *detail, size_t cap);
/* Write the detail line for a failed compilation from the compiler's messages, and return `status`. */
ptxpack_status ptxpack_jit_explain(const struct ptxpack_job *job, ptxpack_status status, const char *compiler,
                                   const char *log, int isa, char *detail, size_t cap);
#endif
