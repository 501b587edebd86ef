/* nvrtc.h - NVRTC, NVIDIA's run-time compiler of CUDA C++, found at run time; optional.
 *
 * $PTXPACK_NVRTC names the library ("none": do without).  Otherwise it is one that the process has loaded, or
 * the first libnvrtc.so.13, .12 or .so in $CUDA_HOME, $CUDA_PATH, $LD_LIBRARY_PATH, the usual places of the
 * system and of toolkits, Python's packages (nvidia/cu13/lib, nvidia/cuda_nvrtc/lib), or where else the
 * dynamic linker looks.  Environment variables are ignored in setuid programs.
 *
 * Finding it does not load it: that takes 10 ms, and what is in the cache needs no more than its identity. */
#ifndef PTXPACK_NVRTC_H
#define PTXPACK_NVRTC_H
#include <stdbool.h>
#include <stddef.h>
#include "loader/status.h"

struct _nvrtcProgram; /* nvrtcProgram is a pointer to it */

typedef int ptxpack_nvrtc_result; /* nvrtcResult */
enum { PTXPACK_NVRTC_SUCCESS = 0, PTXPACK_NVRTC_OUT_OF_MEMORY = 1 };

/* Name without the prefix nvrtc, REQUIRED or OPTIONAL (NULL where it is missing), what it returns,
 * parameters. */
#define PTXPACK_NVRTC_MAP(X)                                                                                 \
    X(GetErrorString, REQUIRED, const char *, (ptxpack_nvrtc_result result))                                 \
    X(Version, REQUIRED, ptxpack_nvrtc_result, (int *major, int *minor))                                     \
    X(GetNumSupportedArchs, OPTIONAL, ptxpack_nvrtc_result, (int *count))                                    \
    X(GetSupportedArchs, OPTIONAL, ptxpack_nvrtc_result, (int *archs))                                       \
    X(CreateProgram, REQUIRED, ptxpack_nvrtc_result,                                                         \
      (struct _nvrtcProgram * *program, const char *text, const char *name, int count,                       \
       const char *const *headers, const char *const *names))                                                \
    X(DestroyProgram, REQUIRED, ptxpack_nvrtc_result, (struct _nvrtcProgram * *program))                     \
    X(CompileProgram, REQUIRED, ptxpack_nvrtc_result,                                                        \
      (struct _nvrtcProgram * program, int count, const char *const *options))                               \
    X(GetPTXSize, REQUIRED, ptxpack_nvrtc_result, (struct _nvrtcProgram * program, size_t * bytes))          \
    X(GetPTX, REQUIRED, ptxpack_nvrtc_result, (struct _nvrtcProgram * program, char *ptx))                   \
    X(GetCUBINSize, OPTIONAL, ptxpack_nvrtc_result, (struct _nvrtcProgram * program, size_t * bytes))        \
    X(GetCUBIN, OPTIONAL, ptxpack_nvrtc_result, (struct _nvrtcProgram * program, char *cubin))               \
    X(GetProgramLogSize, REQUIRED, ptxpack_nvrtc_result, (struct _nvrtcProgram * program, size_t * bytes))   \
    X(GetProgramLog, REQUIRED, ptxpack_nvrtc_result, (struct _nvrtcProgram * program, char *log))            \
    X(AddNameExpression, REQUIRED, ptxpack_nvrtc_result, (struct _nvrtcProgram * program, const char *name)) \
    X(GetLoweredName, REQUIRED, ptxpack_nvrtc_result,                                                        \
      (struct _nvrtcProgram * program, const char *name, const char **lowered))

enum { PTXPACK_NVRTC_ARCHS = 64 };
struct ptxpack_nvrtc {
#define PTXPACK_NVRTC_FIELD(name, need, result, parameters) result(*name) parameters;
    PTXPACK_NVRTC_MAP(PTXPACK_NVRTC_FIELD)
#undef PTXPACK_NVRTC_FIELD
    int version;                    /* 13000 for 13.0; 0 when it does not tell                     */
    int archs[PTXPACK_NVRTC_ARCHS]; /* that it compiles for, ascending: 75, 80, ...; 0 after them  */
};

struct ptxpack_nvrtc_place {
    char path[4096];
    char identity[96]; /* of the library's build; "" when it cannot be told */
};

/* Find the library.  False: there is none; `why` is one line that says where it was looked for. */
bool ptxpack_nvrtc_find(struct ptxpack_nvrtc_place *place, char *why, size_t cap);
/* Load it, once per process and path; never unloaded.  NULL: it cannot be used, `why` is one line. */
const struct ptxpack_nvrtc *ptxpack_nvrtc_load(const struct ptxpack_nvrtc_place *place, char *why, size_t cap);

/* One line for people: "NVRTC 13.0 of /usr/lib/libnvrtc.so.13", or why none can be used. */
void ptxpack_nvrtc_describe(char *line, size_t cap);

/* One text to compile.  The text includes each header by exactly the name given here. */
struct ptxpack_nvrtc_job {
    const char        *text, *name;
    const char *const *headers, *const *header_names;
    size_t             header_count;
    const char *const *options;
    size_t             option_count;
    const char *const *expressions;
    size_t             expression_count;
};
/* The pointers are malloc'ed and the caller's.  After a failure there may be a log, and PTX that ptxas
 * refused. */
struct ptxpack_nvrtc_output {
    char  *ptx, *log;
    size_t ptx_bytes;
    void  *cubin; /* NULL where none was asked for */
    size_t cubin_bytes;
    char **names; /* of the expressions */
    size_t name_count;
};
void ptxpack_nvrtc_output_free(struct ptxpack_nvrtc_output *output);

/* Compile, in any thread, one at a time.  No other thread forks meanwhile, because the child would inherit
 * NVRTC's locks.
 *   PTXPACK_E_COMPILE  `line` is NVRTC's error; the log says more
 *   PTXPACK_E_MEMORY */
ptxpack_status ptxpack_nvrtc_compile(const struct ptxpack_nvrtc *nvrtc, const struct ptxpack_nvrtc_job *job,
                                     struct ptxpack_nvrtc_output *output, char *line, size_t cap);
#endif
