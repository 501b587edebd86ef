/* jit.c - choosing the compile route, and compiling by it. */
#include "jit.h"
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "find.h"
#include "log.h"
#include "loader/files.h"
#include "loader/isa.h"

enum { LINK_LOG = 1 << 20 }; /* bytes of each of the driver's logs, which may be cut off */

/* ---- the choice ----------------------------------------------------------------------------------- */

static void identify_driver(struct ptxpack_jit *jit)
{
    Dl_info info;
    void   *function = NULL, *library;
    memcpy(&function, &jit->driver->cuInit, sizeof function);
    if (!dladdr(function, &info) || info.dli_fname == NULL)
        return;
    library = dlopen(info.dli_fname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (library == NULL)
        return;
    if (!ptxpack_library_identity(library, jit->driver_identity, sizeof jit->driver_identity))
        jit->driver_identity[0] = '\0';
    dlclose(library); /* only the count that RTLD_NOLOAD added */
}

static bool can_link(const struct ptxpack_driver *d)
{
    return d->cuLinkCreate != NULL && d->cuLinkAddData != NULL && d->cuLinkComplete != NULL &&
           d->cuLinkDestroy != NULL;
}

static void choose_driver(struct ptxpack_jit *jit, const char *why)
{
    ptxpack_linker_enter();
    identify_driver(jit);
    ptxpack_linker_leave();
    jit->route = can_link(jit->driver) ? PTXPACK_ROUTE_LINK : PTXPACK_ROUTE_DRIVER;
    snprintf(jit->why, sizeof jit->why, "%s of the driver, because %.180s",
             jit->route == PTXPACK_ROUTE_LINK ? "cuLink, or for whole-program rows the JIT," : "the JIT", why);
}

bool ptxpack_jit_open(struct ptxpack_jit *jit, const struct ptxpack_driver *driver, const char *ptxjit)
{
    char first[160], second[80], both[256];
    memset(jit, 0, sizeof *jit);
    jit->driver = driver;
    if (ptxjit == NULL || !*ptxjit)
        ptxjit = secure_getenv("PTXPACK_PTXJIT");
    bool named = ptxjit != NULL && *ptxjit, skipped = named && strcmp(ptxjit, "none") == 0;
    snprintf(first, sizeof first, "PTXPACK_PTXJIT is none");
    if (!skipped && ptxpack_ptxcompiler_open(named ? ptxjit : NULL, &jit->ptxcompiler, first, sizeof first)) {
        jit->route = PTXPACK_ROUTE_PTXCOMPILER;
        char name[64];
        snprintf(jit->why, sizeof jit->why, "%.40s of %.160s%s",
                 ptxpack_jit_name(jit, PTXPACK_ROUTE_PTXCOMPILER, name, sizeof name), jit->ptxcompiler.path,
                 jit->ptxcompiler.identity[0] ? "" : " (not cached: its exact build is unknown)");
        return true;
    }
    if (named && !skipped) {
        snprintf(jit->why, sizeof jit->why, "PTXPACK_PTXJIT: %.230s", first);
        return false;
    }
    if (ptxpack_ptxas_open(&jit->ptxas, second, sizeof second)) {
        jit->route = PTXPACK_ROUTE_PTXAS;
        snprintf(jit->why, sizeof jit->why, "%.80s of CUDA %d.%d, because %.110s", jit->ptxas.path,
                 jit->ptxas.cuda / 1000, jit->ptxas.cuda % 1000 / 10, first);
        return true;
    }
    snprintf(both, sizeof both, "%s; %s", first, second);
    if (driver != NULL)
        choose_driver(jit, both);
    else
        snprintf(jit->why, sizeof jit->why, "none: %.155s; " PTXPACK_COMPILER_ADVICE, both);
    return true;
}

enum ptxpack_route ptxpack_jit_route(const struct ptxpack_jit *jit, bool whole_program)
{
    return jit->route == PTXPACK_ROUTE_LINK && whole_program ? PTXPACK_ROUTE_DRIVER : jit->route;
}

const char *ptxpack_jit_name(const struct ptxpack_jit *jit, enum ptxpack_route route, char *buf, size_t cap)
{
    if (route == PTXPACK_ROUTE_PTXCOMPILER && jit->ptxcompiler.emulated)
        snprintf(buf, cap, "the emulated driver's assembler");
    else if (route == PTXPACK_ROUTE_PTXCOMPILER)
        snprintf(buf, cap, "nvPTXCompiler %u.%u", jit->ptxcompiler.major, jit->ptxcompiler.minor);
    else if (route == PTXPACK_ROUTE_PTXAS)
        snprintf(buf, cap, "%.100s", jit->ptxas.path);
    else
        snprintf(buf, cap, "%s",
                 route == PTXPACK_ROUTE_LINK     ? "cuLink of the driver"
                 : route == PTXPACK_ROUTE_DRIVER ? "the driver's JIT"
                                                 : "no compiler");
    return buf;
}

bool ptxpack_jit_is_driver(const struct ptxpack_jit *jit)
{
    Dl_info driver, compiler;
    void   *of_driver = NULL, *of_compiler = NULL;
    if (jit->driver == NULL || jit->route != PTXPACK_ROUTE_PTXCOMPILER)
        return false;
    memcpy(&of_driver, &jit->driver->cuInit, sizeof of_driver);
    memcpy(&of_compiler, &jit->ptxcompiler.Compile, sizeof of_compiler);
    ptxpack_linker_enter();
    bool same = dladdr(of_driver, &driver) && dladdr(of_compiler, &compiler) &&
                driver.dli_fbase == compiler.dli_fbase;
    ptxpack_linker_leave();
    return same;
}

/* The highest ISA that the compiler takes; 0 if it is unknown, or if the driver itself compiles. */
static int compiler_isa(const struct ptxpack_jit *jit)
{
    const struct ptxpack_ptxcompiler *c = &jit->ptxcompiler;
    if (jit->route == PTXPACK_ROUTE_PTXAS)
        return ptxpack_isa_of_cuda(jit->ptxas.cuda);
    if (jit->route != PTXPACK_ROUTE_PTXCOMPILER)
        return 0;
    if (c->major > 1) /* then the API's version is the CUDA version */
        return ptxpack_isa_of_cuda((int)(1000 * c->major + 10 * c->minor));
    return ptxpack_ptxcompiler_isa(c);
}

int ptxpack_jit_isa(const struct ptxpack_jit *jit)
{
    int driver = jit->driver != NULL ? ptxpack_isa_of_cuda(jit->driver->version) : 0,
        compiler = compiler_isa(jit);
    return driver && (!compiler || driver < compiler) ? driver : compiler;
}

/* ---- the key -------------------------------------------------------------------------------------- */

const char *ptxpack_jit_identify(const struct ptxpack_jit *jit, enum ptxpack_route route,
                                 ptxpack_cache_key *key)
{
    static const char *const names[] = {"none", "nvPTXCompiler", "ptxas", "cuLink", "driver"};
    const char *identity = jit->driver_identity, *where = jit->driver != NULL ? jit->driver->path : "";
    uint64_t    version = jit->driver != NULL ? (uint64_t)jit->driver->version : 0;
    if (route == PTXPACK_ROUTE_PTXCOMPILER) {
        identity = jit->ptxcompiler.identity;
        where = jit->ptxcompiler.path;
        version = 1000 * (uint64_t)jit->ptxcompiler.major + 10 * (uint64_t)jit->ptxcompiler.minor;
    } else if (route == PTXPACK_ROUTE_PTXAS) {
        identity = jit->ptxas.identity;
        version = (uint64_t)jit->ptxas.cuda;
    }
    ptxpack_cache_key_add_text(key, "route", names[route]);
    ptxpack_cache_key_add_u64(key, "compiler version", version);
    if (*identity) {
        ptxpack_cache_key_add_text(key, "compiler build", identity);
        return NULL;
    }
    ptxpack_cache_key_add_text(key, "compiler path", where);
    return "the build of the compiler is unknown";
}

/* ---- compiling ------------------------------------------------------------------------------------ */

void ptxpack_jit_options(const struct ptxpack_job *job, struct ptxpack_jit_options *out)
{
    out->count = 0;
    snprintf(out->target, sizeof out->target, "--gpu-name=%s", job->target);
    out->words[out->count++] = out->target;
    out->words[out->count++] = "--verbose";
    if (job->line_info)
        out->words[out->count++] = "--generate-line-info";
}

ptxpack_status ptxpack_jit_explain(const struct ptxpack_job *job, ptxpack_status status, const char *compiler,
                                   const char *log, int isa, char *detail, size_t cap)
{
    char said[640], needs[64];
    if (status == PTXPACK_E_ISA) {
        int takes = log != NULL ? ptxpack_log_isa(log) : 0;
        takes = takes ? takes : isa;
        snprintf(detail, cap, "%s needs %s, %s takes up to %d.%d", job->name,
                 ptxpack_isa_text(job->isa, needs, sizeof needs), compiler, takes / 10, takes % 10);
        return status;
    }
    if (log != NULL)
        ptxpack_log_errors_of(log, job->origin, job->origin_of, said, sizeof said);
    else
        snprintf(said, sizeof said, "%s", ptxpack_status_string(status));
    snprintf(detail, cap, "%s for %s, %s: %s", job->name, job->target, compiler, said);
    return status;
}

/* An option value for cuLink: the driver takes numbers in place of pointers. */
static void *number(uintptr_t value) { return (void *)value; }

static ptxpack_cu_result link_image(const struct ptxpack_driver *d, const struct ptxpack_job *job, char *info,
                                    char *errors, struct ptxpack_compiled *compiled)
{
    unsigned int names[] = {PTXPACK_CU_JIT_INFO_LOG_BUFFER,  PTXPACK_CU_JIT_INFO_LOG_BUFFER_SIZE,
                            PTXPACK_CU_JIT_ERROR_LOG_BUFFER, PTXPACK_CU_JIT_ERROR_LOG_BUFFER_SIZE,
                            PTXPACK_CU_JIT_LOG_VERBOSE,      PTXPACK_CU_JIT_GENERATE_LINE_INFO};
    void *values[] = {info, number(LINK_LOG), errors, number(LINK_LOG), number(1), number(job->line_info)};
    struct CUlinkState_st *state = NULL;
    void                  *cubin = NULL;
    ptxpack_cu_result      r = d->cuLinkCreate(6, names, values, &state); /* both live until cuLinkDestroy */
    if (r != PTXPACK_CU_SUCCESS)
        return r;
    r = d->cuLinkAddData(state, PTXPACK_CU_JIT_INPUT_PTX, (void *)(uintptr_t)job->text, job->bytes + 1,
                         job->name, 0, NULL, NULL);
    if (r == PTXPACK_CU_SUCCESS)
        r = d->cuLinkComplete(state, &cubin, &compiled->cubin_bytes);
    if (r == PTXPACK_CU_SUCCESS && (compiled->cubin = malloc(compiled->cubin_bytes)) != NULL)
        memcpy(compiled->cubin, cubin, compiled->cubin_bytes); /* the state owns the original */
    d->cuLinkDestroy(state);
    return r;
}

static ptxpack_status compile_link(const struct ptxpack_jit *jit, const struct ptxpack_job *job,
                                   struct ptxpack_compiled *compiled, char *detail, size_t cap)
{
    memset(compiled, 0, sizeof *compiled);
    char          *info = (char *)calloc(1, LINK_LOG), *errors = (char *)calloc(1, LINK_LOG);
    ptxpack_status status = PTXPACK_E_MEMORY;
    snprintf(detail, cap, "out of memory while linking %s", job->name);
    if (info != NULL && errors != NULL) {
        ptxpack_cu_result r = link_image(jit->driver, job, info, errors, compiled);
        status = r == PTXPACK_CU_SUCCESS ? compiled->cubin != NULL ? PTXPACK_OK : PTXPACK_E_MEMORY
                                         : ptxpack_driver_status(r);
        char what[512];
        if (r != PTXPACK_CU_SUCCESS)
            ptxpack_jit_explain(job, status, ptxpack_driver_error(jit->driver, r, what, sizeof what),
                                *errors ? errors : NULL, ptxpack_isa_of_cuda(jit->driver->version), detail,
                                cap);
    }
    compiled->log = status == PTXPACK_OK ? info : errors;
    free(status == PTXPACK_OK ? errors : info);
    return status;
}

ptxpack_status ptxpack_jit_compile(const struct ptxpack_jit *jit, enum ptxpack_route route,
                                   const struct ptxpack_job *job, struct ptxpack_compiled *compiled,
                                   char *detail, size_t cap)
{
    struct ptxpack_jit_options options;
    char                       compiler[160];
    ptxpack_status             status;
    int                        isa = 0;
    ptxpack_jit_options(job, &options);
    if (route == PTXPACK_ROUTE_LINK)
        return compile_link(jit, job, compiled, detail, cap);
    ptxpack_jit_name(jit, route, compiler, sizeof compiler);
    if (route == PTXPACK_ROUTE_PTXCOMPILER) {
        status = ptxpack_ptxcompiler_compile(&jit->ptxcompiler, job->text, job->bytes, options.words,
                                             options.count, compiled);
    } else if (route == PTXPACK_ROUTE_PTXAS) {
        isa = ptxpack_isa_of_cuda(jit->ptxas.cuda);
        status = ptxpack_ptxas_compile(&jit->ptxas, job->text, job->bytes, options.words, options.count,
                                       compiled);
    } else {
        memset(compiled, 0, sizeof *compiled);
        snprintf(detail, cap, "%s: no compiler gives machine code: %s", job->name, jit->why);
        return PTXPACK_E_NO_JIT;
    }
    return status == PTXPACK_OK ? status
                                : ptxpack_jit_explain(job, status, compiler, compiled->log, isa, detail, cap);
}
