/* nvrtc.c - loading NVRTC, and compiling with it. */
#include "nvrtc.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "loader/files.h"

/* ---- loading -------------------------------------------------------------------------------------- */

enum need { REQUIRED, OPTIONAL };
static const struct {
    const char *name;
    enum need   need;
    size_t      offset;
} symbols[] = {
#define SYMBOL(name, need, result, parameters) {"nvrtc" #name, need, offsetof(struct ptxpack_nvrtc, name)},
    PTXPACK_NVRTC_MAP(SYMBOL)
#undef SYMBOL
};

struct loaded {
    struct ptxpack_nvrtc table;
    char                *path;
    struct loaded       *next;
};
static struct loaded *all_loaded; /* guarded by the lock of ptxpack_linker_enter */

static bool find_symbols(void *library, const char *path, struct ptxpack_nvrtc *out, char *why, size_t cap)
{
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *function = dlsym(library, symbols[i].name);
        if (function == NULL && symbols[i].need == REQUIRED) {
            snprintf(why, cap, "%.400s does not export %s", path, symbols[i].name);
            return false;
        }
        memcpy((char *)out + symbols[i].offset, &function, sizeof function);
    }
    return true;
}

static void read_versions(struct ptxpack_nvrtc *n)
{
    int major = 0, minor = 0, count = 0, archs[PTXPACK_NVRTC_ARCHS];
    if (n->Version(&major, &minor) == PTXPACK_NVRTC_SUCCESS && major > 0 && minor >= 0)
        n->version = 1000 * major + 10 * minor;
    if (n->GetNumSupportedArchs != NULL && n->GetSupportedArchs != NULL &&
        n->GetNumSupportedArchs(&count) == PTXPACK_NVRTC_SUCCESS && count > 0 && count < PTXPACK_NVRTC_ARCHS &&
        n->GetSupportedArchs(archs) == PTXPACK_NVRTC_SUCCESS)
        memcpy(n->archs, archs, (size_t)count * sizeof *archs);
}

/* NVRTC asks the linker for its second library by name, but the linker does not search Python's folders.  After
 * we have loaded the library, the linker knows the name. */
static void load_builtins(const char *path, int version)
{
    char        builtins[4200];
    const char *slash = strrchr(path, '/');
    int         n = snprintf(builtins, sizeof builtins, "%.*s/libnvrtc-builtins.so.%d.%d",
                     slash != NULL ? (int)(slash - path) : 1, slash != NULL ? path : ".", version / 1000,
                             version % 1000 / 10);
    if (n > 0 && (size_t)n < sizeof builtins)
        dlopen(builtins, RTLD_NOW | RTLD_LOCAL);
}

/* The caller holds the lock. */
static const struct ptxpack_nvrtc *load_locked(const char *path, char *why, size_t cap)
{
    struct loaded *one = all_loaded;
    while (one != NULL && strcmp(one->path, path) != 0)
        one = one->next;
    if (one != NULL)
        return &one->table;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        const char *error = dlerror();
        snprintf(why, cap, "%.500s", error != NULL ? error : "dlopen failed");
        return NULL;
    }
    one = (struct loaded *)calloc(1, sizeof *one);
    if (one == NULL || (one->path = strdup(path)) == NULL) {
        free(one);
        snprintf(why, cap, "out of memory for the table of NVRTC");
        return NULL;
    }
    if (!find_symbols(library, path, &one->table, why, cap)) {
        free(one->path);
        free(one);
        return NULL;
    }
    read_versions(&one->table);
    load_builtins(path, one->table.version);
    one->next = all_loaded;
    all_loaded = one;
    return &one->table;
}

const struct ptxpack_nvrtc *ptxpack_nvrtc_load(const struct ptxpack_nvrtc_place *place, char *why, size_t cap)
{
    ptxpack_linker_enter();
    const struct ptxpack_nvrtc *nvrtc = load_locked(place->path, why, cap);
    ptxpack_linker_leave();
    return nvrtc;
}

/* ---- one at a time -------------------------------------------------------------------------------- */

static pthread_mutex_t    compiling = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool holding; /* this thread holds `compiling`; NVRTC may fork */

static void before_fork(void)
{
    if (!holding)
        pthread_mutex_lock(&compiling);
}

static void after_fork(void)
{
    if (!holding)
        pthread_mutex_unlock(&compiling);
}

static void watch_forks(void) { pthread_atfork(before_fork, after_fork, after_fork); }

static void enter(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&compiling);
    holding = true;
}

static void leave(void)
{
    holding = false;
    pthread_mutex_unlock(&compiling);
}

/* ---- compiling ------------------------------------------------------------------------------------ */

void ptxpack_nvrtc_output_free(struct ptxpack_nvrtc_output *o)
{
    for (size_t i = 0; i < o->name_count; i++)
        free(o->names[i]);
    free(o->names);
    free(o->ptx);
    free(o->log);
    free(o->cubin);
    memset(o, 0, sizeof *o);
}

/* Call one of three pairs of functions: the first gives a size, the second that many bytes.  NULL: there is
 * nothing, or memory ran out. */
static char *read_bytes(struct _nvrtcProgram *program,
                        ptxpack_nvrtc_result (*size)(struct _nvrtcProgram *, size_t *),
                        ptxpack_nvrtc_result (*read)(struct _nvrtcProgram *, char *), size_t *bytes)
{
    *bytes = 0;
    if (size == NULL || read == NULL || size(program, bytes) != PTXPACK_NVRTC_SUCCESS || !*bytes ||
        *bytes > SIZE_MAX / 2) {
        *bytes = 0;
        return NULL;
    }
    char *text = (char *)calloc(1, *bytes + 1);
    if (text != NULL && read(program, text) == PTXPACK_NVRTC_SUCCESS)
        return text;
    free(text);
    *bytes = 0;
    return NULL;
}

static ptxpack_nvrtc_result read_names(const struct ptxpack_nvrtc *n, struct _nvrtcProgram *program,
                                       const struct ptxpack_nvrtc_job *job, struct ptxpack_nvrtc_output *o)
{
    o->names = (char **)calloc(job->expression_count + 1, sizeof *o->names);
    if (o->names == NULL)
        return PTXPACK_NVRTC_OUT_OF_MEMORY;
    for (size_t i = 0; i < job->expression_count; i++) {
        const char          *lowered = NULL;
        ptxpack_nvrtc_result r = n->GetLoweredName(program, job->expressions[i], &lowered);
        if (r != PTXPACK_NVRTC_SUCCESS)
            return r;
        if (lowered == NULL || (o->names[i] = strdup(lowered)) == NULL)
            return PTXPACK_NVRTC_OUT_OF_MEMORY;
        o->name_count++;
    }
    return PTXPACK_NVRTC_SUCCESS;
}

static ptxpack_nvrtc_result compile(const struct ptxpack_nvrtc *n, const struct ptxpack_nvrtc_job *job,
                                    struct ptxpack_nvrtc_output *o)
{
    struct _nvrtcProgram *program = NULL;
    size_t                ignored;
    ptxpack_nvrtc_result  r = n->CreateProgram(&program, job->text, job->name, (int)job->header_count,
                                               job->headers, job->header_names);
    if (r != PTXPACK_NVRTC_SUCCESS)
        return r;
    for (size_t i = 0; i < job->expression_count && r == PTXPACK_NVRTC_SUCCESS; i++)
        r = n->AddNameExpression(program, job->expressions[i]);
    if (r == PTXPACK_NVRTC_SUCCESS)
        r = n->CompileProgram(program, (int)job->option_count, job->options);
    o->log = read_bytes(program, n->GetProgramLogSize, n->GetProgramLog, &ignored);
    o->ptx = read_bytes(program, n->GetPTXSize, n->GetPTX, &o->ptx_bytes);
    o->ptx_bytes = o->ptx != NULL ? strlen(o->ptx) : 0; /* its size counts the NUL byte */
    if (r == PTXPACK_NVRTC_SUCCESS) {
        o->cubin = read_bytes(program, n->GetCUBINSize, n->GetCUBIN, &o->cubin_bytes);
        r = read_names(n, program, job, o);
    }
    n->DestroyProgram(&program);
    return r;
}

ptxpack_status ptxpack_nvrtc_compile(const struct ptxpack_nvrtc *n, const struct ptxpack_nvrtc_job *job,
                                     struct ptxpack_nvrtc_output *o, char *line, size_t cap)
{
    memset(o, 0, sizeof *o);
    enter();
    ptxpack_nvrtc_result r = compile(n, job, o);
    leave();
    const char *text = n->GetErrorString(r);
    snprintf(line, cap, "%s", text != NULL ? text : "unknown error");
    return r == PTXPACK_NVRTC_SUCCESS         ? PTXPACK_OK
           : r == PTXPACK_NVRTC_OUT_OF_MEMORY ? PTXPACK_E_MEMORY
                                              : PTXPACK_E_COMPILE;
}

void ptxpack_nvrtc_describe(char *line, size_t cap)
{
    struct ptxpack_nvrtc_place  place;
    const struct ptxpack_nvrtc *nvrtc = NULL;
    if (ptxpack_nvrtc_find(&place, line, cap))
        nvrtc = ptxpack_nvrtc_load(&place, line, cap);
    if (nvrtc != NULL)
        snprintf(line, cap, "NVRTC %d.%d of %.500s%s", nvrtc->version / 1000, nvrtc->version % 1000 / 10,
                 place.path, place.identity[0] ? "" : " (not cached: its exact build is unknown)");
}
