/* ptxcompiler.c - nvPTXCompiler from the driver's own JIT library. */
#include "ptxcompiler.h"
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "log.h"
#include "loader/internal.h"

void ptxpack_build_free(struct ptxpack_build *build)
{
    free(build->cubin);
    free(build->log);
    memset(build, 0, sizeof *build);
}

static const struct {
    const char *name;
    size_t      offset;
} symbols[] = {
#define SYMBOL(name, parameters) {"nvPTXCompiler" #name, offsetof(struct ptxpack_ptxcompiler, name)},
    PTXPACK_PTXCOMPILER_MAP(SYMBOL)
#undef SYMBOL
};

static bool open_library(const char *path, struct ptxpack_ptxcompiler *out, char *why, size_t cap)
{
    memset(out, 0, sizeof *out);
    void *library = dlopen(path != NULL ? path : "libnvidia-ptxjitcompiler.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        const char *error = dlerror();
        snprintf(why, cap, "%s", error != NULL ? error : "dlopen failed");
        return false;
    }
    out->path = ptxpack_library_path(library);
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *function = dlsym(library, symbols[i].name);
        if (function == NULL) {
            snprintf(why, cap, "%s does not export %s", out->path, symbols[i].name);
            return false;
        }
        memcpy((char *)out + symbols[i].offset, &function, sizeof function);
    }
    if (out->GetVersion(&out->major, &out->minor) != PTXPACK_NVPTX_SUCCESS || out->major == 0) {
        snprintf(why, cap, "%s does not tell its version", out->path);
        return false;
    }
    if (!ptxpack_library_identity(library, out->identity, sizeof out->identity))
        out->identity[0] = '\0';
    return true;
}

bool ptxpack_ptxcompiler_open(const char *path, struct ptxpack_ptxcompiler *out, char *why, size_t cap)
{
    ptxpack_linker_enter();
    bool opened = open_library(path, out, why, cap);
    ptxpack_linker_leave();
    return opened;
}

/* Both logs are read alike: a size without the NUL byte, then the text. */
static char *read_log(struct nvPTXCompiler *compiler,
                      ptxpack_nvptx_result (*size)(struct nvPTXCompiler *, size_t *),
                      ptxpack_nvptx_result (*read)(struct nvPTXCompiler *, char *))
{
    size_t bytes = 0;
    if (size(compiler, &bytes) != PTXPACK_NVPTX_SUCCESS || bytes > SIZE_MAX / 2)
        bytes = 0;
    char *log = (char *)calloc(1, bytes + 1);
    if (log != NULL && bytes && read(compiler, log) != PTXPACK_NVPTX_SUCCESS)
        log[0] = '\0';
    return log;
}

static ptxpack_status take_program(const struct ptxpack_ptxcompiler *c, struct nvPTXCompiler *compiler,
                                   struct ptxpack_build *build)
{
    if (c->GetCompiledProgramSize(compiler, &build->cubin_bytes) != PTXPACK_NVPTX_SUCCESS ||
        build->cubin_bytes == 0)
        return PTXPACK_E_COMPILE;
    build->cubin = malloc(build->cubin_bytes);
    if (build->cubin == NULL)
        return PTXPACK_E_MEMORY;
    if (c->GetCompiledProgram(compiler, build->cubin) == PTXPACK_NVPTX_SUCCESS)
        return PTXPACK_OK;
    free(build->cubin);
    build->cubin = NULL;
    return PTXPACK_E_COMPILE;
}

static ptxpack_status status_of(ptxpack_nvptx_result result)
{
    return result == PTXPACK_NVPTX_UNSUPPORTED_VERSION ? PTXPACK_E_ISA
           : result == PTXPACK_NVPTX_OUT_OF_MEMORY     ? PTXPACK_E_MEMORY
                                                       : PTXPACK_E_COMPILE;
}

ptxpack_status ptxpack_ptxcompiler_compile(const struct ptxpack_ptxcompiler *c, const char *ptx, size_t bytes,
                                           const char *const *options, int count, struct ptxpack_build *build)
{
    struct nvPTXCompiler *compiler = NULL;
    memset(build, 0, sizeof *build);
    ptxpack_nvptx_result result = c->Create(&compiler, bytes, ptx);
    if (result != PTXPACK_NVPTX_SUCCESS)
        return status_of(result);
    result = c->Compile(compiler, count, options);
    ptxpack_status status = result == PTXPACK_NVPTX_SUCCESS ? take_program(c, compiler, build)
                                                            : status_of(result);
    build->log = result == PTXPACK_NVPTX_SUCCESS ? read_log(compiler, c->GetInfoLogSize, c->GetInfoLog)
                                                 : read_log(compiler, c->GetErrorLogSize, c->GetErrorLog);
    c->Destroy(&compiler);
    if (build->log == NULL && status == PTXPACK_OK) {
        ptxpack_build_free(build);
        status = PTXPACK_E_MEMORY;
    }
    return status;
}

int ptxpack_ptxcompiler_isa(const struct ptxpack_ptxcompiler *c)
{
    static const char    too_new[] = ".version 99.9\n.target sm_50\n";
    struct ptxpack_build build;
    ptxpack_ptxcompiler_compile(c, too_new, sizeof too_new - 1, NULL, 0, &build);
    int isa = build.log != NULL ? ptxpack_log_isa(build.log) : 0;
    ptxpack_build_free(&build);
    return isa;
}
