/* ptxcompiler.h - NVIDIA's PTX Compiler API (nvPTXCompiler), as the driver's own libnvidia-ptxjitcompiler.so.1
 * exports it.  It needs neither a context nor a GPU.
 *
 * Every driver branch from 390 on exports these functions, but NVIDIA does not promise it.  So each symbol is
 * checked, and if one is missing, another route is taken: that is no error. */
#ifndef PTXPACK_PTXCOMPILER_H
#define PTXPACK_PTXCOMPILER_H
#include <stdbool.h>
#include <stddef.h>
#include "loader/status.h"

struct nvPTXCompiler; /* nvPTXCompilerHandle is a pointer to it */

typedef int ptxpack_nvptx_result; /* nvPTXCompileResult */
enum { PTXPACK_NVPTX_SUCCESS = 0, PTXPACK_NVPTX_OUT_OF_MEMORY = 5, PTXPACK_NVPTX_UNSUPPORTED_VERSION = 7 };

/* One row for each function: its name without the prefix nvPTXCompiler, and its parameters. */
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
    unsigned int major, minor; /* of the API: the CUDA version from branch 460 on, 1.0 before */
    char         identity[96]; /* of the library's build; "" if it cannot be determined */
    const char  *path;
    bool         emulated; /* the library is the emulated driver */
};

/* The result of a compiler: machine code and log.  Both are malloc'ed and belong to the caller. */
struct ptxpack_compiled {
    void  *cubin; /* NULL after a failure */
    size_t cubin_bytes;
    char  *log; /* the info log, or after a failure the error log; NULL only if memory ran out */
};
void ptxpack_compiled_free(struct ptxpack_compiled *compiled);

/* Load the library `path` (NULL: the driver's own; a Debian package installs it without a driver, too).  False:
 * it cannot be used, and `why` is one line. */
bool ptxpack_ptxcompiler_open(const char *path, struct ptxpack_ptxcompiler *out, char *why, size_t cap);

/* Compile NUL-terminated PTX with options of ptxas.  Any thread may call it at any time.
 *   PTXPACK_E_COMPILE  the compiler refused the text: compiled->log tells why
 *   PTXPACK_E_ISA      the PTX version of the text is too new for the compiler
 *   PTXPACK_E_MEMORY */
ptxpack_status ptxpack_ptxcompiler_compile(const struct ptxpack_ptxcompiler *compiler, const char *ptx,
                                           size_t bytes, const char *const *options, int count,
                                           struct ptxpack_compiled *compiled);

/* The highest PTX ISA * 10 that the compiler takes; 0 if it cannot be determined.  To find it, a text is
 * compiled whose version is too high. */
int ptxpack_ptxcompiler_isa(const struct ptxpack_ptxcompiler *compiler);
#endif
