/* generations.c - the compile route through real driver compilers of several generations
 * (generations.sh fetches them): compile, keep, reload, share one compilation among threads, and refuse
 * clearly what a generation does not know.  Arguments: the libraries; none:
 * build/generations/BRANCH/libnvidia-ptxjitcompiler.so.1. */
#include <dlfcn.h>
#include <ftw.h>
#include <glob.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "host/ptxpack.h"

static const char *const targets[] = {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_120"};
enum { TARGETS = sizeof targets / sizeof targets[0], THREADS = 32 };

static unsigned failures;
static char     folder[] = "/tmp/ptxpack-generations-XXXXXX";

static void check(bool good, const char *library, const char *what, const char *detail)
{
    if (good)
        return;
    failures++;
    printf("FAIL  %s: %s%s%s\n", library, what, *detail ? ": " : "", detail);
}

static ptxpack *open_for(const char *library, const char *target)
{
    ptxpack        *handle = NULL;
    ptxpack_options options = {.size = sizeof options, .offline = true, .arch = target, .ptxjit = library};
    check(ptxpack_open(&options, &handle) == PTXPACK_OK, library, "opening", ptxpack_detail(NULL));
    return handle;
}

/* ---- compile, keep, reload ------------------------------------------------------------------------ */
typedef struct build {
    ptxpack_kernel_info info;
    void               *cubin;
    size_t              bytes;
} build;

static ptxpack_status compile(ptxpack *handle, const ptxpack_variant *v, build *out)
{
    ptxpack_instance instance = ptxpack_instance_get(v, 0);
    out->cubin = NULL;
    return ptxpack_kernel_compile(handle, v, instance.symbols, instance.symbol_count, &out->info, &out->cubin,
                                  &out->bytes);
}

static void check_build(const char *library, const char *target, const ptxpack_variant *v, ptxpack *handle)
{
    build    cold, warm;
    char     what[256];
    ptxpack *second = open_for(library, target);
    snprintf(what, sizeof what, "%s for %s", v->id, target);
    if (compile(handle, v, &cold) != PTXPACK_OK) {
        check(false, library, what, ptxpack_detail(handle));
        ptxpack_close(second);
        return;
    }
    check(!cold.info.from_cache, library, what, "another compiler's entry was taken for this one's");
    check(cold.bytes > 64 && memcmp(cold.cubin, "\177ELF", 4) == 0, library, what, "no ELF image came out");
    check(cold.info.resources.registers > 0, library, what, "the log gave no registers");
    if (second != NULL && compile(second, v, &warm) == PTXPACK_OK) {
        check(warm.info.from_cache, library, what, "the second time it was not in the cache");
        check(warm.bytes == cold.bytes && memcmp(warm.cubin, cold.cubin, cold.bytes) == 0, library, what,
              "the cache gave other bytes");
        check(memcmp(&warm.info.resources, &cold.info.resources, sizeof cold.info.resources) == 0, library,
              what, "the cache gave other resources");
        free(warm.cubin);
    } else {
        check(false, library, what, second != NULL ? ptxpack_detail(second) : "");
    }
    free(cold.cubin);
    ptxpack_close(second);
}

/* Checks that what this generation cannot build is refused with a clear message. */
static void check_refusal(const char *library, const char *target, const ptxpack_variant *v, ptxpack *handle,
                          bool target_known)
{
    build          b;
    char           what[256];
    const char    *expected = target_known ? "needs PTX ISA" : "is not defined for option 'gpu-name'";
    ptxpack_status status = compile(handle, v, &b), wanted = target_known ? PTXPACK_E_ISA : PTXPACK_E_COMPILE;
    snprintf(what, sizeof what, "%s for %s should be refused (%s)", v->id, target, expected);
    check(status == wanted && strstr(ptxpack_detail(handle), expected) != NULL, library, what,
          status == PTXPACK_OK ? "it was built" : ptxpack_detail(handle));
    free(b.cubin);
}

/* The first PTX ISA that has the target; the first compiler that knows the target has it, too. */
static int isa_of_target(const char *target)
{
    static const struct {
        const char *target;
        int         isa;
    } first[TARGETS] = {{"sm_75", 63}, {"sm_80", 70},  {"sm_86", 71},
                        {"sm_89", 78}, {"sm_90a", 80}, {"sm_120", 87}};
    for (int i = 0; i < TARGETS; i++)
        if (strcmp(first[i].target, target) == 0)
            return first[i].isa;
    return 0;
}

static void check_target(const char *library, const char *target, unsigned *built, unsigned *refused)
{
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    ptxpack               *handle = open_for(library, target);
    for (size_t i = 0; handle != NULL && i < count; i++) {
        const ptxpack_variant     *v = &rows[i];
        char                       why[256];
        const ptxpack_device_caps *caps = &ptxpack_device(handle)->caps;
        bool                       known = caps->isa >= isa_of_target(target);
        if (i > 0 && strcmp(v->op, rows[i - 1].op) == 0 && v->isa == rows[i - 1].isa &&
            v->arch == rows[i - 1].arch)
            continue; /* one row of a kind is enough: this test is about compilers, not kernels */
        if (v->flags & PTXPACK_VARIANT_ARCH_SPECIFIC ? caps->arch != v->arch : caps->arch < v->arch)
            continue;
        if (known && ptxpack_variant_refusal(v, caps, why, sizeof why) == NULL) {
            check_build(library, target, v, handle);
            ++*built;
        } else if (!known || caps->isa < v->isa) {
            check_refusal(library, target, v, handle, known);
            ++*refused;
        }
    }
    ptxpack_close(handle);
}

/* ---- one compilation for all threads -------------------------------------------------------------- */
typedef struct asker {
    pthread_t          thread;
    pthread_barrier_t *start;
    ptxpack           *handle;
    ptxpack_status     status;
} asker;

static void *ask(void *context)
{
    asker *a = (asker *)context;
    pthread_barrier_wait(a->start);
    const ptxpack_variant *v = ptxpack_variant_find("vector_add_sm75");
    ptxpack_instance       instance = ptxpack_instance_get(v, 0);
    a->status = ptxpack_kernel_compile(a->handle, v, instance.symbols, instance.symbol_count, NULL, NULL, NULL);
    return NULL;
}

/* Compiles through the fake compiler, which passes everything to the real one and counts; half the threads
 * share a handle. */
static void check_flight(const char *library, const char *counting)
{
    asker             askers[THREADS];
    pthread_barrier_t start;
    char              what[64];
    ptxpack_options   options = {.size = sizeof options, .offline = true, .arch = "sm_75", .ptxjit = counting};
    options.no_cache = true;
    setenv("FAKE_PTXJIT_FORWARD", library, 1);
    pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        askers[i].start = &start;
        askers[i].handle = i % 2 ? askers[i - 1].handle : NULL;
        if (askers[i].handle == NULL && ptxpack_open(&options, &askers[i].handle) != PTXPACK_OK) {
            check(false, library, "opening through the counting library", ptxpack_detail(NULL));
            exit(1);
        }
    }
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&askers[i].thread, NULL, ask, &askers[i]) != 0)
            exit(1);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(askers[i].thread, NULL);
        check(askers[i].status == PTXPACK_OK, library, "compiling in 32 threads",
              ptxpack_status_string(askers[i].status));
    }
    for (int i = 0; i < THREADS; i += 2)
        ptxpack_close(askers[i].handle);
    pthread_barrier_destroy(&start);
    atomic_uint *count = (atomic_uint *)dlsym(dlopen(counting, RTLD_NOW | RTLD_LOCAL), "fake_compilations");
    unsigned     compilations = count != NULL ? atomic_exchange(count, 0) : 0;
    snprintf(what, sizeof what, "32 threads made %u compilations, not 1", compilations);
    check(compilations == 1, library, what, "");
    unsetenv("FAKE_PTXJIT_FORWARD");
}

/* ---- different kernels at the same time ----------------------------------------------------------- */
static void *compile_instance(void *context)
{
    asker                 *a = (asker *)context;
    const ptxpack_variant *v = ptxpack_variant_find("vector_add_sm75");
    ptxpack_instance       instance = ptxpack_instance_get(v, 0);
    pthread_barrier_wait(a->start);
    a->status = PTXPACK_OK;
    for (int i = 0; i < 4 && a->status == PTXPACK_OK; i++)
        a->status = ptxpack_kernel_compile(a->handle, v, instance.symbols, instance.symbol_count, NULL, NULL,
                                           NULL);
    return NULL;
}

static void check_parallel(const char *library)
{
    static const char *const four[] = {"sm_75", "sm_75", "sm_80", "sm_80"};
    asker                    askers[4];
    pthread_barrier_t        start;
    pthread_barrier_init(&start, NULL, 4);
    for (int i = 0; i < 4; i++) {
        ptxpack_options options = {.size = sizeof options, .offline = true, .arch = four[i], .ptxjit = library};
        options.no_cache = true;
        options.line_info = i % 2 != 0; /* so that all four differ */
        askers[i].start = &start;
        if (ptxpack_open(&options, &askers[i].handle) != PTXPACK_OK ||
            pthread_create(&askers[i].thread, NULL, compile_instance, &askers[i]) != 0) {
            check(false, library, "compiling in parallel", ptxpack_detail(NULL));
            exit(1);
        }
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(askers[i].thread, NULL);
        check(askers[i].status == PTXPACK_OK, library, "compiling in parallel",
              ptxpack_status_string(askers[i].status));
        ptxpack_close(askers[i].handle);
    }
    pthread_barrier_destroy(&start);
}

/* ---- all tests ------------------------------------------------------------------------------------ */
static void check_library(const char *library, const char *counting)
{
    unsigned before = failures, built = 0, refused = 0;
    char     route[256] = "";
    ptxpack *handle = open_for(library, "sm_75");
    if (handle != NULL) {
        const ptxpack_device_info *info = ptxpack_device(handle);
        const char                *of = strstr(info->route, " of ");
        snprintf(route, sizeof route, "%.*s, PTX ISA %d.%d", of != NULL ? (int)(of - info->route) : 0,
                 info->route, info->caps.isa / 10, info->caps.isa % 10);
    }
    ptxpack_close(handle);
    for (int i = 0; handle != NULL && i < TARGETS; i++)
        check_target(library, targets[i], &built, &refused);
    if (handle != NULL) {
        check_flight(library, counting);
        check_parallel(library);
    }
    printf("%s  %s: %s, %u built and reloaded, %u refused\n", failures == before ? "ok  " : "FAIL", library,
           route, built, refused);
    fflush(stdout);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st, (void)kind, (void)ftw;
    return remove(path);
}

/* The fake compiler lies beside this program. */
static void find_counting(char *path, size_t cap)
{
    ssize_t n = readlink("/proc/self/exe", path, cap - 32);
    path[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(path, '/');
    if (slash != NULL)
        snprintf(slash, 32, "/fake_ptxjit.so");
}

int main(int argc, char **argv)
{
    static const char pattern[] = "build/generations/*/libnvidia-ptxjitcompiler.so.1";
    char              counting[512];
    glob_t            found = {0};
    if (argc < 2 && glob(pattern, 0, NULL, &found) != 0) {
        printf("SKIP: check_generations: no %s (tests/loader/generations.sh fetches them)\n", pattern);
        return 77;
    }
    if (mkdtemp(folder) == NULL)
        return 1;
    /* one cache for all: a generation must not use the entries of another */
    setenv("PTXPACK_CACHE_DIR", folder, 1);
    unsetenv("PTXPACK_CACHE_DISABLE");
    find_counting(counting, sizeof counting);
    for (int i = 1; i < argc; i++)
        check_library(argv[i], counting);
    for (size_t i = 0; argc < 2 && i < found.gl_pathc; i++)
        check_library(found.gl_pathv[i], counting);
    if (argc < 2)
        globfree(&found);
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    printf("%s: check_generations, %u failures\n", failures ? "FAIL" : "PASS", failures);
    return failures ? 1 : 0;
}
