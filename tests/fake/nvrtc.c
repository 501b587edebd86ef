/* nvrtc.c - a small libnvrtc.so for tests.  It compiles nothing: its PTX has one entry, "test", and one
 * for each name expression, its "machine code" is a line with a counter in it.  The environment variable
 * FAKE_NVRTC (words separated by spaces) changes that:
 *
 *   version=N  nvrtcVersion (13000)          no-version  nvrtcVersion fails
 *   archs=N    the only arch it knows (90)   ms=N        a compilation takes N milliseconds
 *   error      it fails, with a log          ptxas       making machine code fails, with ptxas's log
 *   silent     it fails without a log
 *
 * Compiled with FAKE_NO_CUBIN it makes no machine code, as before CUDA 11.1; with FAKE_NO_NAMES it lacks a
 * required function. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "nvrtc.h"
#include "loader/inspect.h"

#define EXPORT __attribute__((visibility("default")))
EXPORT struct fake_nvrtc fake_nvrtc;

struct _nvrtcProgram {
    char   ptx[2048], cubin[128], log[1024];
    char   expressions[8][64], lowered[8][64];
    size_t count;
    int    has_cubin;
};

#define NVRTC(result, name, parameters)   \
    EXPORT result nvrtc##name parameters; \
    result nvrtc##name parameters

static const char *setting(const char *word)
{
    const char *all = getenv("FAKE_NVRTC");
    const char *at = all != NULL ? strstr(all, word) : NULL;
    return at != NULL ? at + strlen(word) : NULL;
}

NVRTC(const char *, GetErrorString, (int result))
{
    return result == 6 ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR";
}

NVRTC(int, Version, (int *major, int *minor))
{
    int version = setting("version=") != NULL ? atoi(setting("version=")) : 13000;
    *major = version / 1000;
    *minor = version % 1000 / 10;
    return setting("no-version") != NULL ? 11 : 0;
}

NVRTC(int, GetNumSupportedArchs, (int *count)) { return *count = 1, 0; }
NVRTC(int, GetSupportedArchs, (int *archs))
{
    return *archs = setting("archs=") != NULL ? atoi(setting("archs=")) : 90, 0;
}

NVRTC(int, CreateProgram,
      (struct _nvrtcProgram * *program, const char *text, const char *name, int count,
       const char *const *headers, const char *const *names))
{
    struct fake_nvrtc *r = &fake_nvrtc;
    size_t             have = 0;
    (void)name;
    *program = (struct _nvrtcProgram *)calloc(1, sizeof **program);
    snprintf(r->text, sizeof r->text, "%s", text);
    r->headers[0] = '\0';
    for (int i = 0; i < count && have < sizeof r->headers; i++)
        have += (size_t)snprintf(r->headers + have, sizeof r->headers - have, "%s:\n%s", names[i], headers[i]);
    return *program != NULL ? 0 : 1;
}

NVRTC(int, DestroyProgram, (struct _nvrtcProgram * *program))
{
    free(*program);
    *program = NULL;
    return 0;
}

#ifndef FAKE_NO_NAMES
NVRTC(int, AddNameExpression, (struct _nvrtcProgram * p, const char *name))
{
    snprintf(p->expressions[p->count], sizeof p->expressions[0], "%s", name);
    snprintf(p->lowered[p->count], sizeof p->lowered[0], "_Zlowered%zu", p->count);
    p->count++;
    return 0;
}
#endif

NVRTC(int, GetLoweredName, (struct _nvrtcProgram * p, const char *name, const char **lowered))
{
    for (size_t i = 0; i < p->count; i++)
        if (strcmp(p->expressions[i], name) == 0)
            return *lowered = p->lowered[i], 0;
    return 10;
}

static int fail(struct _nvrtcProgram *p)
{
    if (setting("silent") != NULL)
        return 6;
    if (setting("ptxas") != NULL)
        snprintf(p->log, sizeof p->log,
                 "ptxas application ptx input, line 8; error   : Unknown symbol '%%zz'\n");
    else
        snprintf(p->log, sizeof p->log,
                 "k.cu(3): warning #177-D: variable \"error\" was declared but never referenced\n\n"
                 "lib/twice.h(12): error: identifier \"q\" is undefined\n    q = 1;\n    ^\n\n"
                 "k.cu(7): error: another one\n\n2 errors detected in the compilation of \"k.cu\".\n");
    return 6;
}

NVRTC(int, CompileProgram, (struct _nvrtcProgram * p, int count, const char *const *options))
{
    struct fake_nvrtc *r = &fake_nvrtc;
    size_t             have = 0;
    unsigned int       number = ++r->compilations;
    char               folder[512];
    r->options[0] = '\0';
    for (int i = 0; i < count && have < sizeof r->options; i++)
        have += (size_t)snprintf(r->options + have, sizeof r->options - have, "%s\n", options[i]);
    if (setting("ms=") != NULL)
        usleep((unsigned int)atoi(setting("ms=")) * 1000);
    const char *target = strchr(options[0], '_') + 1;
    p->has_cubin = strstr(options[0], "=sm_") != NULL;
    int bytes = snprintf(p->ptx, sizeof p->ptx,
                         "// fake %u\n.version 7.0\n.target sm_%s\n.address_size 64\n\n"
                         ".visible .entry test()\n{\n\t.loc\t1 5 3\n\tret;\n}\n",
                         number, target);
    for (size_t i = 0; i < p->count; i++)
        bytes += snprintf(p->ptx + bytes, sizeof p->ptx - (size_t)bytes, ".visible .entry %s()\n{\n\tret;\n}\n",
                          p->lowered[i]);
    snprintf(p->ptx + bytes, sizeof p->ptx - (size_t)bytes, "\t.file\t1 \"%s/k.cu\"\n",
             getcwd(folder, sizeof folder) != NULL ? folder : "");
    if (setting("error") != NULL || setting("silent") != NULL || (setting("ptxas") != NULL && p->has_cubin))
        return fail(p);
    snprintf(p->cubin, sizeof p->cubin, "made %u sm_%s", number, target);
    snprintf(p->log, sizeof p->log,
             "ptxas info    : Compiling entry function 'test' for 'sm_90a'\n"
             "ptxas info    : Function properties for test\n"
             "    8 bytes stack frame, 4 bytes spill stores, 2 bytes spill loads\n"
             "ptxas info    : Used 44 registers\n");
    return 0;
}

/* Gives a size, which counts a NUL byte except for machine code, then the bytes. */
static int give(const char *text, size_t nul, size_t *bytes, char *to)
{
    size_t size = strlen(text) + nul;
    if (bytes != NULL)
        *bytes = size;
    if (to != NULL)
        memcpy(to, text, size);
    return 0;
}

NVRTC(int, GetPTXSize, (struct _nvrtcProgram * p, size_t *bytes)) { return give(p->ptx, 1, bytes, NULL); }
NVRTC(int, GetPTX, (struct _nvrtcProgram * p, char *ptx)) { return give(p->ptx, 1, NULL, ptx); }
NVRTC(int, GetProgramLogSize, (struct _nvrtcProgram * p, size_t *bytes))
{
    return give(p->log, 1, bytes, NULL);
}
NVRTC(int, GetProgramLog, (struct _nvrtcProgram * p, char *log)) { return give(p->log, 1, NULL, log); }
#ifndef FAKE_NO_CUBIN
NVRTC(int, GetCUBINSize, (struct _nvrtcProgram * p, size_t *bytes))
{
    return give(p->has_cubin ? p->cubin : "", 0, bytes, NULL);
}
NVRTC(int, GetCUBIN, (struct _nvrtcProgram * p, char *cubin)) { return give(p->cubin, 0, NULL, cubin); }
#endif
