/* ptxjit.c - a small libnvidia-ptxjitcompiler.so for tests.  It compiles nothing: the "machine code" is
 * a line with a counter in it.  The environment variable FAKE_PTXJIT (words separated by spaces) changes
 * that:
 *
 *   ms=N        a compilation takes N milliseconds        isa=N    the highest PTX ISA * 10 (90)
 *   line=N      the compilation fails, at line N          silent   it fails without a log
 *   no-version  GetVersion fails                 old      it answers 1.0, as before CUDA 11.2
 *   fork        loading the library runs a child
 *
 * FAKE_PTXJIT_FORWARD=path passes every call to a real library, so that this one only counts. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "loader/inspect.h"

#define EXPORT __attribute__((visibility("default")))
EXPORT atomic_uint fake_compilations;

struct nvPTXCompiler {
    const char *ptx;
    char        program[128], info[512], error[512];
};

static const char *setting(const char *word)
{
    const char *all = getenv("FAKE_PTXJIT");
    const char *at = all ? strstr(all, word) : NULL;
    return at ? at + strlen(word) : NULL;
}

__attribute__((constructor)) static void start(void)
{
    pid_t child = setting("fork") ? fork() : -1;
    if (child == 0)
        _exit(0);
    if (child > 0)
        waitpid(child, NULL, 0);
}

static void *real(const char *name)
{
    const char *path = getenv("FAKE_PTXJIT_FORWARD");
    void       *library = path && *path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    return library ? dlsym(library, name) : NULL;
}

/* Each function calls the real library if there is one.  A text that is refused for its version (the way to ask
 * for the highest) does not count as a compilation. */
#define DEFINE(name, parameters, arguments)                                               \
    static ptxpack_nvptx_result own_##name parameters;                                    \
    EXPORT ptxpack_nvptx_result nvPTXCompiler##name parameters;                           \
    ptxpack_nvptx_result nvPTXCompiler##name parameters                                   \
    {                                                                                     \
        void *found = real("nvPTXCompiler" #name);                                        \
        ptxpack_nvptx_result(*function) parameters = own_##name;                          \
        if (found)                                                                        \
            memcpy(&function, &found, sizeof found);                                      \
        ptxpack_nvptx_result result = function arguments;                                 \
        if (strcmp(#name, "Compile") == 0 && result != PTXPACK_NVPTX_UNSUPPORTED_VERSION) \
            atomic_fetch_add(&fake_compilations, 1);                                      \
        return result;                                                                    \
    }                                                                                     \
    static ptxpack_nvptx_result own_##name parameters

DEFINE(GetVersion, (unsigned int *major, unsigned int *minor), (major, minor))
{
    *major = setting("old") ? 1 : 13;
    *minor = 0;
    return setting("no-version") ? 4 : 0;
}

DEFINE(Create, (struct nvPTXCompiler * *compiler, size_t bytes, const char *ptx), (compiler, bytes, ptx))
{
    if (ptx[bytes] != '\0')
        return 2;
    *compiler = (struct nvPTXCompiler *)calloc(1, sizeof **compiler);
    if (*compiler)
        (*compiler)->ptx = ptx;
    return *compiler ? 0 : 5;
}

DEFINE(Destroy, (struct nvPTXCompiler * *compiler), (compiler))
{
    free(*compiler);
    *compiler = NULL;
    return 0;
}

static ptxpack_nvptx_result refuse(struct nvPTXCompiler *c)
{
    int         isa = setting("isa=") ? atoi(setting("isa=")) : 90, major = 0, minor = 0;
    const char *version = strstr(c->ptx, ".version ");
    if (version && sscanf(version, ".version %d.%d", &major, &minor) == 2 && 10 * major + minor > isa) {
        snprintf(c->error, sizeof c->error,
                 "ptxas application ptx input, line 1; fatal   : Unsupported .version %d.%d; current version "
                 "is '%d.%d'\n",
                 major, minor, isa / 10, isa % 10);
        return 7;
    }
    if (setting("ms="))
        usleep((unsigned)atoi(setting("ms=")) * 1000);
    if (setting("silent"))
        return 4;
    if (!setting("line="))
        return 0;
    snprintf(c->error, sizeof c->error,
             "ptxas application ptx input, line %d; error   : Unknown symbol '%%zz'\n"
             "ptxas application ptx input, line 1; error   : Another one\n"
             "ptxas fatal   : Ptx assembly aborted due to errors\n",
             atoi(setting("line=")));
    return 3;
}

DEFINE(Compile, (struct nvPTXCompiler * compiler, int count, const char *const *options),
       (compiler, count, options))
{
    ptxpack_nvptx_result result = refuse(compiler);
    snprintf(compiler->program, sizeof compiler->program, "compiled %u %s", atomic_load(&fake_compilations) + 1,
             count > 0 ? options[0] : "");
    snprintf(compiler->info, sizeof compiler->info,
             "ptxas info    : (C7510) Potential Performance Loss: this is a fake\n"
             "ptxas info    : Function properties for other\n"
             "ptxas         .     8 bytes stack frame, 4 bytes spill stores, 2 bytes spill loads\n"
             "ptxas info    : Used 99 registers\n"
             "ptxas info    : Compiling entry function 'test' for 'sm_90'\n"
             "ptxas info    : Function properties for test\n"
             "ptxas         .     24 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads\n"
             "ptxas info    : Used 33 registers, used 1 barriers, 64 bytes smem, 360 bytes cmem[0]\n");
    /* a text may say that an entry spills: "spills NAME BYTES" */
    char        entry[64];
    int         bytes;
    const char *spills = strstr(compiler->ptx, "spills ");
    if (spills != NULL && sscanf(spills, "spills %63s %d", entry, &bytes) == 2)
        snprintf(compiler->info, sizeof compiler->info,
                 "ptxas info    : Compiling entry function '%s' for 'sm_90'\n"
                 "ptxas info    : Function properties for %s\n"
                 "ptxas         .     %d bytes stack frame, %d bytes spill stores, %d bytes spill loads\n",
                 entry, entry, bytes, bytes, bytes);
    return result;
}

DEFINE(GetCompiledProgramSize, (struct nvPTXCompiler * compiler, size_t *bytes), (compiler, bytes))
{
    *bytes = strlen(compiler->program) + 1;
    return 0;
}

DEFINE(GetCompiledProgram, (struct nvPTXCompiler * compiler, void *program), (compiler, program))
{
    memcpy(program, compiler->program, strlen(compiler->program) + 1);
    return 0;
}

DEFINE(GetErrorLogSize, (struct nvPTXCompiler * compiler, size_t *bytes), (compiler, bytes))
{
    *bytes = strlen(compiler->error);
    return 0;
}

DEFINE(GetErrorLog, (struct nvPTXCompiler * compiler, char *log), (compiler, log))
{
    memcpy(log, compiler->error, strlen(compiler->error));
    return 0;
}

DEFINE(GetInfoLogSize, (struct nvPTXCompiler * compiler, size_t *bytes), (compiler, bytes))
{
    *bytes = strlen(compiler->info);
    return 0;
}

DEFINE(GetInfoLog, (struct nvPTXCompiler * compiler, char *log), (compiler, log))
{
    memcpy(log, compiler->info, strlen(compiler->info));
    return 0;
}
