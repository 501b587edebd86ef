/* ptxcompiler.h - NVIDIA's PTX Compiler API (nvPTXCompiler), as the driver's own
 * libnvidia-ptxjitcompiler.so.1 exports it: needs neither a context nor a GPU.
 *
 * That the library exports these functions is observed on every driver branch from 390 on, not promised:
 * each symbol is checked, and its absence is a reason to take another route, not an error. */
#ifndef PTXPACK_PTXCOMPILER_H
#define PTXPACK_PTXCOMPILER_H
#include <stdbool.h>
#include <stddef.h>
#include "loader/status.h"

struct nvPTXCompiler; /* nvPTXCompilerHandle is a pointer to it */

typedef int ptxpack_nvptx_result; /* nvPTXCompileResult */
enum { PTXPACK_NVPTX_SUCCESS = 0, PTXPACK_NVPTX_OUT_OF_MEMORY = 5, PTXPACK_NVPTX_UNSUPPORTED_VERSION = 7 };

/* Name without the prefix nvPTXCompiler, and parameters. */
#define PTXPACK_PTXCOMPILER_MAP(X)                                                       \
    X(GetVersion, (unsigned int *major, unsigned int *minor))                            \
    X(Create, (struct nvPTXCompiler * *compiler, size_t bytes, const char *ptx))         \
    X(Destroy, (struct nvPTXCompiler * *compiler))                                       \
    X(Compile, (struct nvPTXCompiler * compiler, int count, const char *const *options)) \
    X(GetCompiledProgramSize, (struct nvPTXCompiler * compiler, size_t * bytes))         \
    X(GetCompiledProgram, (struct nvPTXCompiler * compiler, void *program))              \
    X(GetErrorLogSize, (struct nvPTXCompiler * compiler, size_t * bytes))                \
    X(GetErrorLog, (struct nvPTXCompiler * compiler, char *log))                         \
    X(GetInfoLogSize, (struct nvPTXCompiler * compiler, size_t * bytes))                 \
    X(GetInfoLog, (struct nvPTXCompiler * compiler, char *log))

struct ptxpack_ptxcompiler {
#define PTXPACK_PTXCOMPILER_FIELD(name, parameters) ptxpack_nvptx_result(*name) parameters;
    PTXPACK_PTXCOMPILER_MAP(PTXPACK_PTXCOMPILER_FIELD)
#undef PTXPACK_PTXCOMPILER_FIELD
    unsigned int major, minor; /* of the API: the CUDA version from 460 on, 1.0 before                  */
    char         identity[96]; /* of the library's build; "" when it cannot be told                     */
    const char  *path;
};

/* The result of a compiler: machine code and log, malloc'ed, the caller's. */
struct ptxpack_compiled {
    void  *cubin; /* NULL when it failed */
    size_t cubin_bytes;
    char  *log; /* the info log, after a failure the error log; never NULL unless memory was out */
};
void ptxpack_compiled_free(struct ptxpack_compiled *compiled);

/* Load the library `path` (NULL: the driver's own).  False: it cannot be used, `why` is one line. */
bool ptxpack_ptxcompiler_open(const char *path, struct ptxpack_ptxcompiler *out, char *why, size_t cap);

/* Compile NUL-terminated PTX with ptxas's options; any thread.
 *   PTXPACK_E_COMPILE, _E_ISA (the PTX's version is too new for it): compiled->log says more; _E_MEMORY */
ptxpack_status ptxpack_ptxcompiler_compile(const struct ptxpack_ptxcompiler *compiler, const char *ptx,
                                           size_t bytes, const char *const *options, int count,
                                           struct ptxpack_compiled *compiled);

/* The highest PTX ISA * 10 that it takes, found by compiling a text whose version is too high; 0 when it
 * cannot be told. */
int ptxpack_ptxcompiler_isa(const struct ptxpack_ptxcompiler *compiler);
#endif
