/* nvrtc.h - NVRTC, NVIDIA's run-time compiler of CUDA C++.  It is optional and is found at run time.
 *
 * $PTXPACK_NVRTC names the library; "none" does without it.  Otherwise the library is one that the process has
 * loaded already, or the first libnvrtc.so.13, libnvrtc.so.12 or libnvrtc.so in these places: $CUDA_HOME,
 * $CUDA_PATH, $LD_LIBRARY_PATH, the usual folders of the system and of toolkits, Python's packages
 * (nvidia/cu13/lib, nvidia/cuda_nvrtc/lib), and all other folders where the dynamic linker looks.  Setuid
 * programs ignore environment variables.
 *
 * The search does not load the library.  Loading takes 10 ms, and to find a program in the cache only the
 * library's identity is needed. */
#ifndef PTXPACK_NVRTC_H
#define PTXPACK_NVRTC_H
#include <stdbool.h>
#include <stddef.h>
#include "loader/status.h"

struct _nvrtcProgram; /* nvrtcProgram is a pointer to it */

typedef int ptxpack_nvrtc_result; /* nvrtcResult */
enum { PTXPACK_NVRTC_SUCCESS = 0, PTXPACK_NVRTC_OUT_OF_MEMORY = 1 };

/* One row for each function: its name without the prefix nvrtc, REQUIRED or OPTIONAL (NULL if it is missing),
 * the type of its result, and its parameters. */
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
    int version;                    /* 13000 for 13.0; 0 if NVRTC does not report it */
    int archs[PTXPACK_NVRTC_ARCHS]; /* the architectures it compiles for, ascending: 75, 80, ..., 0 */
};

struct ptxpack_nvrtc_place {
    char path[4096];
    char identity[96]; /* of the library's build; "" if it cannot be determined */
};

/* Find the library.  False: there is none, and `why` is one line that says where it was searched for. */
bool ptxpack_nvrtc_find(struct ptxpack_nvrtc_place *place, char *why, size_t cap);
/* Load the library.  It is loaded once per process and path, and never unloaded.  NULL: it cannot be used, and
 * `why` is one line. */
const struct ptxpack_nvrtc *ptxpack_nvrtc_load(const struct ptxpack_nvrtc_place *place, char *why, size_t cap);

/* Write one line for people: "NVRTC 13.0 of /usr/lib/libnvrtc.so.13", or why no NVRTC can be used. */
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
/* The pointers are malloc'ed and belong to the caller.  After a failure there may be a log, and PTX that ptxas
 * refused. */
struct ptxpack_nvrtc_output {
    char  *ptx, *log;
    size_t ptx_bytes;
    void  *cubin; /* NULL if the options do not ask for it */
    size_t cubin_bytes;
    char **names; /* the lowered names of the expressions */
    size_t name_count;
};
void ptxpack_nvrtc_output_free(struct ptxpack_nvrtc_output *output);

/* Compile.  Any thread may call it, but only one thread at a time compiles.  No other thread forks meanwhile,
 * because the child would inherit NVRTC's locks.
 *   PTXPACK_E_COMPILE  `line` is NVRTC's error; the log says more
 *   PTXPACK_E_MEMORY */
ptxpack_status ptxpack_nvrtc_compile(const struct ptxpack_nvrtc *nvrtc, const struct ptxpack_nvrtc_job *job,
                                     struct ptxpack_nvrtc_output *output, char *line, size_t cap);
#endif
