/* ptxcompiler.c - nvPTXCompiler from the driver's own JIT library. */
#include "ptxcompiler.h"
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "find.h"
#include "log.h"
#include "loader/files.h"

void ptxpack_compiled_free(struct ptxpack_compiled *compiled)
{
    free(compiled->cubin);
    free(compiled->log);
    memset(compiled, 0, sizeof *compiled);
}

static const struct {
    const char *name;
    size_t      offset;
} symbols[] = {
#define SYMBOL(name, parameters) {"nvPTXCompiler" #name, offsetof(struct ptxpack_ptxcompiler, name)},
    PTXPACK_PTXCOMPILER_MAP(SYMBOL)
#undef SYMBOL
};

/* Debian's package installs it there; the linker's folders have a link to it only if the driver is installed,
 * too. */
static const char debian[] = "/usr/lib/*/nvidia/current/libnvidia-ptxjitcompiler.so.1";

/* A ptxpack_find_take. */
static bool load(const char *path, void *library)
{
    *(void **)library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return *(void **)library != NULL;
}

static bool open_library(const char *path, struct ptxpack_ptxcompiler *out, char *why, size_t cap)
{
    void *library;
    memset(out, 0, sizeof *out);
    if (!load(path != NULL ? path : "libnvidia-ptxjitcompiler.so.1", &library)) {
        const char *error = dlerror();
        snprintf(why, cap, "%s", error != NULL ? error : "dlopen failed");
        if (path != NULL || !ptxpack_find_glob(debian, load, &library))
            return false;
    }
    out->path = ptxpack_library_path(library);
    out->emulated = dlsym(library, "ptxpack_emu_executed") != NULL;
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

/* Both logs are read in the same way: a size without the NUL byte, then the text. */
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
                                   struct ptxpack_compiled *compiled)
{
    if (c->GetCompiledProgramSize(compiler, &compiled->cubin_bytes) != PTXPACK_NVPTX_SUCCESS ||
        compiled->cubin_bytes == 0)
        return PTXPACK_E_COMPILE;
    compiled->cubin = malloc(compiled->cubin_bytes);
    if (compiled->cubin == NULL)
        return PTXPACK_E_MEMORY;
    if (c->GetCompiledProgram(compiler, compiled->cubin) == PTXPACK_NVPTX_SUCCESS)
        return PTXPACK_OK;
    free(compiled->cubin);
    compiled->cubin = NULL;
    return PTXPACK_E_COMPILE;
}

static ptxpack_status status_of(ptxpack_nvptx_result result)
{
    return result == PTXPACK_NVPTX_UNSUPPORTED_VERSION ? PTXPACK_E_ISA
           : result == PTXPACK_NVPTX_OUT_OF_MEMORY     ? PTXPACK_E_MEMORY
                                                       : PTXPACK_E_COMPILE;
}

ptxpack_status ptxpack_ptxcompiler_compile(const struct ptxpack_ptxcompiler *c, const char *ptx, size_t bytes,
                                           const char *const *options, int count,
                                           struct ptxpack_compiled *compiled)
{
    struct nvPTXCompiler *compiler = NULL;
    memset(compiled, 0, sizeof *compiled);
    ptxpack_nvptx_result result = c->Create(&compiler, bytes, ptx);
    if (result != PTXPACK_NVPTX_SUCCESS)
        return status_of(result);
    result = c->Compile(compiler, count, options);
    ptxpack_status status = result == PTXPACK_NVPTX_SUCCESS ? take_program(c, compiler, compiled)
                                                            : status_of(result);
    compiled->log = result == PTXPACK_NVPTX_SUCCESS ? read_log(compiler, c->GetInfoLogSize, c->GetInfoLog)
                                                    : read_log(compiler, c->GetErrorLogSize, c->GetErrorLog);
    c->Destroy(&compiler);
    if (compiled->log == NULL && status == PTXPACK_OK) {
        ptxpack_compiled_free(compiled);
        status = PTXPACK_E_MEMORY;
    }
    return status;
}

int ptxpack_ptxcompiler_isa(const struct ptxpack_ptxcompiler *c)
{
    static const char       too_new[] = ".version 99.9\n.target sm_50\n";
    struct ptxpack_compiled compiled;
    ptxpack_ptxcompiler_compile(c, too_new, sizeof too_new - 1, NULL, 0, &compiled);
    int isa = compiled.log != NULL ? ptxpack_log_isa(compiled.log) : 0;
    ptxpack_compiled_free(&compiled);
    return isa;
}
