/* warm.c - compiles kernels for GPUs that need not be there, into a folder that applications ship. */
#include "warm.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/plan/inspect.h"
#include "tools/command.h"
#include "tools/device.h"
#include "tools/progress.h"
#include "cache/inspect.h"
#include "loader/inspect.h"

enum { WARM_ARCHS = 32, WARM_THREADS = 64 };

/* ---- patterns ----------------------------------------------------------------------------------- */
static bool glob(const char *pattern, size_t bytes, const char *text)
{
    char copy[256];
    snprintf(copy, sizeof copy, "%.*s", (int)(bytes < sizeof copy ? bytes : sizeof copy - 1), pattern);
    return bytes < sizeof copy && fnmatch(strcmp(copy, "...") == 0 ? "*" : copy, text, 0) == 0;
}

bool warm_matches(const char *pattern, const char *op, const char *row, const char *build)
{
    size_t bytes = strcspn(pattern, "/");
    if (!glob(pattern, bytes, op))
        return false;
    if (pattern[bytes] == '\0')
        return true;
    pattern += bytes + 1;
    bytes = strcspn(pattern, "/");
    bool found = glob(pattern, bytes, row);
    for (const char *at = strchr(row, '_'); !found && at != NULL; at = strchr(at + 1, '_'))
        found = glob(pattern, bytes, at + 1);
    return found && (pattern[bytes] == '\0' || glob(pattern + bytes + 1, strlen(pattern + bytes + 1), build));
}

/* ---- what there is to do ------------------------------------------------------------------------ */
typedef struct target {
    char           arch[16]; /* as it was named */
    ptxpack       *handle;   /* stands in for such a device */
    size_t         rows, builds;
    _Atomic size_t compiled, cached, kept, failed;
} target;

typedef struct job {
    target                *gpu;
    const ptxpack_variant *row;
    ptxpack_instance       build;
} job;

typedef struct work {
    const warm_settings *settings;
    ptxpack_filling     *filling;
    target               targets[WARM_ARCHS];
    size_t               target_count;
    char                *patterns; /* split: strings one after another, with an empty one at the end */
    bool                 used[64]; /* which of them matched a kernel */
    job                 *jobs;
    size_t               job_count, job_capacity;
    bool                 no_memory;
    _Atomic size_t       next, done, failed;
    _Atomic bool         stop; /* the folder cannot be written */
    pthread_mutex_t      lock; /* for stderr */
} work;

static bool add_job(work *w, const job *one)
{
    if (w->job_count == w->job_capacity) {
        size_t capacity = w->job_capacity != 0 ? 2 * w->job_capacity : 64;
        job   *larger = (job *)realloc(w->jobs, capacity * sizeof *larger);
        if (larger == NULL)
            return false;
        w->jobs = larger;
        w->job_capacity = capacity;
    }
    w->jobs[w->job_count++] = *one;
    return true;
}

/* Whether it was asked for; also notes which patterns matched. */
static bool is_wanted(work *w, const ptxpack_variant *row, const char *build)
{
    bool   wanted = w->settings->kernels == NULL;
    size_t i = 0;
    for (const char *p = w->patterns; p != NULL && *p != '\0'; p += strlen(p) + 1, i++)
        if (warm_matches(p, row->op, row->id, build))
            wanted = w->used[i] = true;
    return wanted;
}

typedef struct row_visit {
    work                  *w;
    target                *gpu;
    const ptxpack_variant *row;
    size_t                 found;
} row_visit;

static bool visit_build(const ptxpack_instance *build, void *context)
{
    row_visit *v = (row_visit *)context;
    if (!is_wanted(v->w, v->row, build->name))
        return true;
    const job one = {v->gpu, v->row, *build};
    v->found++;
    v->gpu->builds++;
    v->w->no_memory |= !add_job(v->w, &one);
    return !v->w->no_memory;
}

/* Whether the compiler is new enough; otherwise a newer driver would look for the row and not find it.  A refusal is
 * reported before anything is compiled. */
static bool compiler_takes(const target *t, const ptxpack_variant *row, struct ptxpack_known_targets *known)
{
    int isa = ptxpack_device(t->handle)->caps.isa;
    if (row->isa > isa)
        command_fail("cache", "%s for %s needs PTX ISA %d.%d, but the compiler supports at most %d.%d: %s",
                     row->id, t->arch, row->isa / 10, row->isa % 10, isa / 10, isa % 10,
                     ptxpack_device(t->handle)->route);
    else if (ptxpack_know_target(t->handle, row, known) != PTXPACK_OK)
        return command_fail("cache", "%s", ptxpack_detail(t->handle)), false;
    return row->isa <= isa;
}

/* Lists the rows of one target, and their builds. */
static bool list_jobs(work *w, target *t)
{
    char                         why[256];
    size_t                       count;
    const ptxpack_variant       *rows = ptxpack_variants(&count);
    ptxpack_device_caps          caps = ptxpack_device(t->handle)->caps;
    struct ptxpack_known_targets known = {{false, false}};
    caps.isa = INT_MAX; /* whatever driver there will be */
    for (size_t i = 0; i < count; i++) {
        row_visit v = {w, t, &rows[i], 0};
        if (ptxpack_variant_refusal(&rows[i], &caps, why, sizeof why) != NULL ||
            !(w->settings->all_rows || ptxpack_may_be_chosen(&rows[i], &caps)))
            continue;
        if (!ptxpack_builds(&rows[i], visit_build, &v))
            return command_fail("cache", "%s", w->no_memory ? "out of memory" : ptxpack_detail(NULL)), false;
        t->rows += v.found > 0;
        if (v.found > 0 && !compiler_takes(t, &rows[i], &known))
            return false;
    }
    if (t->builds == 0)
        return command_fail("cache", "%s: --kernels %s names no kernel for it", t->arch,
                            w->settings->kernels != NULL ? w->settings->kernels : "*"),
               false;
    return true;
}

/* ---- the targets -------------------------------------------------------------------------------- */
static int open_target(work *w, const char *arch)
{
    target         *t = &w->targets[w->target_count];
    ptxpack_options options = {.size = sizeof options, .ptxjit = w->settings->ptxjit, .readonly_dirs = ""};
    if (w->target_count == WARM_ARCHS || strlen(arch) >= sizeof t->arch)
        return command_fail("cache", "--arch %s: %s", arch,
                            w->target_count == WARM_ARCHS ? "too many" : "no such architecture"),
               COMMAND_USAGE;
    ptxpack_status status = ptxpack_open_stand_in(&options, arch, 0, &t->handle);
    if (status != PTXPACK_OK)
        return command_fail("cache", "%s", ptxpack_detail(NULL)),
               status == PTXPACK_E_ARG ? COMMAND_USAGE : COMMAND_FAILED;
    snprintf(t->arch, sizeof t->arch, "%s", arch);
    w->target_count++;
    for (size_t i = 0; i + 1 < w->target_count; i++)
        if (strcmp(ptxpack_device(w->targets[i].handle)->target, ptxpack_device(t->handle)->target) == 0) {
            ptxpack_close(t->handle); /* sm_90 and sm_90a: the same device */
            w->target_count--;
            return COMMAND_OK;
        }
    if (ptxpack_device(t->handle)->caps.isa == 0)
        return command_fail("cache", "nothing to compile with: %s", ptxpack_device(t->handle)->route);
    return COMMAND_OK;
}

static int check_environment(void)
{
    const char *folder = getenv("PTXPACK_PTX_DIR");
    if (folder != NULL && *folder != '\0')
        return command_fail("cache", "PTXPACK_PTX_DIR is set: only the built-in kernels can be shipped");
    if (ptxpack_cache_env_flag("PTXPACK_FORBID_COMPILE"))
        return command_fail("cache", "PTXPACK_FORBID_COMPILE is set: nothing can be made");
    return COMMAND_OK;
}

/* Copies "a,b,c" as strings one after another, with an empty one at the end; NULL if memory runs out. */
static char *split(const char *list)
{
    char *copy = (char *)calloc(strlen(list) + 2, 1);
    if (copy == NULL)
        return NULL;
    char *to = copy;
    for (const char *at = list; *at != '\0'; at += strspn(at, ",")) {
        size_t bytes = strcspn(at, ",");
        memcpy(to, at, bytes);
        to += bytes + (bytes > 0);
        at += bytes;
    }
    return copy;
}

static int open_targets(work *w)
{
    int   status = COMMAND_OK;
    char *archs = split(w->settings->archs);
    if (archs == NULL)
        return command_fail("cache", "out of memory");
    for (const char *at = archs; status == COMMAND_OK && *at != '\0'; at += strlen(at) + 1)
        status = open_target(w, at);
    if (status == COMMAND_OK && w->target_count == 0) {
        command_fail("cache", "--arch %s names no architecture", w->settings->archs);
        status = COMMAND_USAGE;
    }
    free(archs);
    return status;
}

static int find_jobs(work *w)
{
    size_t i = 0;
    w->patterns = w->settings->kernels != NULL ? split(w->settings->kernels) : NULL;
    if (w->settings->kernels != NULL && w->patterns == NULL)
        return command_fail("cache", "out of memory");
    for (const char *p = w->patterns; p != NULL && *p != '\0'; p += strlen(p) + 1)
        if (++i > sizeof w->used / sizeof w->used[0])
            return command_fail("cache", "--kernels: too many patterns"), COMMAND_USAGE;
    for (size_t t = 0; t < w->target_count; t++)
        if (!list_jobs(w, &w->targets[t]))
            return COMMAND_FAILED;
    i = 0;
    for (const char *p = w->patterns; p != NULL && *p != '\0'; p += strlen(p) + 1, i++)
        if (!w->used[i])
            return command_fail("cache", "--kernels: \"%s\" names no kernel for %s", p, w->settings->archs);
    return COMMAND_OK;
}

/* ---- the work ----------------------------------------------------------------------------------- */
static void complain(work *w, const job *one, const char *line)
{
    enum { MOST_LINES = 8 };
    atomic_fetch_add(&one->gpu->failed, 1);
    if (atomic_fetch_add(&w->failed, 1) >= MOST_LINES)
        return;
    pthread_mutex_lock(&w->lock);
    command_fail("cache", "%s %s for %s: %s", one->row->id, one->build.name, one->gpu->arch, line);
    pthread_mutex_unlock(&w->lock);
}

static void show_progress(work *w, const job *one)
{
    size_t done = atomic_fetch_add(&w->done, 1) + 1;
    progress_step(done, w->job_count, "%s %s for %s", one->row->id, one->build.name, one->gpu->arch);
}

/* Puts machine code that was made or found into the folder. */
static bool put(work *w, const job *one, const ptxpack_cache_key *key, const char *exact,
                const struct ptxpack_code *code)
{
    char label[PTXPACK_MANIFEST_LABEL], line[PTXPACK_CACHE_LINE], compiler[128];
    ptxpack_compiler_name(one->gpu->handle, compiler, sizeof compiler);
    snprintf(label, sizeof label, "%.90s/%.63s for %.15s by %.70s", one->row->id, one->build.name, exact,
             compiler);
    if (ptxpack_filling_put(w->filling, key, label, code->notes, code->notes_bytes, code->bytes, code->size,
                            line))
        return true;
    if (!atomic_exchange(&w->stop, true)) /* the next entry would fail in the same way */
        complain(w, one, line);
    return false;
}

static void do_job(work *w, const job *one)
{
    char                       exact[16];
    target                    *t = one->gpu;
    ptxpack_kernel_info        info;
    const struct ptxpack_code *code = NULL;
    const ptxpack_symbol      *symbols = one->build.symbols;
    size_t                     count = one->build.symbol_count;
    ptxpack_cache_key         *key = NULL;
    if (ptxpack_kernel_target(t->handle, one->row, exact) == PTXPACK_OK)
        key = ptxpack_row_prebuilt_key(t->handle, one->row, symbols, count, exact);
    if (key != NULL && ptxpack_filling_has(w->filling, key))
        atomic_fetch_add(&t->kept, 1);
    else if (key == NULL)
        complain(w, one, "out of memory");
    else if (ptxpack_kernel_make(t->handle, one->row, symbols, count, &info, &code) != PTXPACK_OK)
        complain(w, one, ptxpack_detail(t->handle));
    else if (put(w, one, key, exact, code))
        atomic_fetch_add(info.from_cache ? &t->cached : &t->compiled, 1);
    ptxpack_code_release(code);
    ptxpack_cache_key_free(key);
    show_progress(w, one);
}

static void *do_jobs(void *context)
{
    work *w = (work *)context;
    for (size_t i; !atomic_load(&w->stop) && (i = atomic_fetch_add(&w->next, 1)) < w->job_count;)
        do_job(w, &w->jobs[i]);
    return NULL;
}

static void run_threads(work *w)
{
    pthread_t threads[WARM_THREADS];
    long      processors = sysconf(_SC_NPROCESSORS_ONLN);
    int64_t   wanted = w->settings->jobs != OPTION_NOT_GIVEN ? w->settings->jobs : processors, count = 0;
    wanted = wanted < WARM_THREADS ? wanted : WARM_THREADS;
    while (count + 1 < wanted && (size_t)count + 1 < w->job_count &&
           pthread_create(&threads[count], NULL, do_jobs, w) == 0)
        count++;
    progress_begin("cache", "compiling");
    do_jobs(w); /* this thread is one of them */
    for (int64_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    progress_end();
}

/* ---- the report --------------------------------------------------------------------------------- */
static void report_target(const target *t, bool json)
{
    if (!json) {
        printf("%-8s %zu rows, %zu builds: %zu compiled, %zu from the cache, %zu were there", t->arch, t->rows,
               t->builds, t->compiled, t->cached, t->kept);
        printf(t->failed > 0 ? ", %zu failed\n" : "\n", t->failed);
        return;
    }
    json_open(NULL, '{');
    json_text("arch", t->arch);
    json_int("rows", (int64_t)t->rows);
    json_int("builds", (int64_t)t->builds);
    json_int("compiled", (int64_t)t->compiled);
    json_int("from_cache", (int64_t)t->cached);
    json_int("kept", (int64_t)t->kept);
    json_int("failed", (int64_t)t->failed);
    json_close();
}

/* `folder` NULL: a build failed, and what the folder lists is as it was; what was made is in the cache. */
static void report(const work *w, const ptxpack_prebuilt_info *folder, uint64_t bytes, double ms)
{
    const bool json = w->settings->json;
    if (json) {
        json_open(NULL, '{');
        json_text("dir", folder != NULL ? folder->path : w->settings->dir);
        json_text("library", ptxpack_library_version);
        json_text("compiler", ptxpack_device(w->targets[0].handle)->route);
        json_open("targets", '[');
    }
    for (size_t i = 0; i < w->target_count; i++)
        report_target(&w->targets[i], json);
    if (json)
        json_close();
    if (json && folder != NULL) {
        json_int("entries", (int64_t)folder->entries);
        json_int("bytes", (int64_t)bytes);
        json_text("manifest_sha256", folder->sha256);
        json_real("ms", ms);
    } else if (folder != NULL) {
        printf("%s: %zu entries, %.1f MiB, in %.1f s; its manifest's SHA-256 is\n%s\n", folder->path,
               (size_t)folder->entries, (double)bytes / (1 << 20), ms / 1e3, folder->sha256);
    }
    if (json)
        json_close();
}

static void say_waiting(const char *dir)
{
    fprintf(stderr, "ptxpack cache: another process fills %s; waiting for it\n", dir);
}

static int fill(work *w)
{
    char     line[PTXPACK_CACHE_LINE];
    size_t   entries = 0;
    uint64_t bytes = 0;
    double   from = now_ms();
    w->filling = ptxpack_filling_open(w->settings->dir, ptxpack_library_version, say_waiting, line);
    if (w->filling == NULL)
        return command_fail("cache", "%s", line);
    run_threads(w);
    size_t failed = atomic_load(&w->failed);
    if (failed > 0)
        report(w, NULL, 0, 0);
    if (failed > 0)
        return command_fail("cache", "%zu of %zu builds failed: the list of %s is not changed%s", failed,
                            w->job_count, w->settings->dir,
                            ptxpack_cache_enabled(ptxpack_cache_of(w->targets[0].handle))
                                ? "; what was compiled is in the cache"
                                : "");
    if (!ptxpack_filling_finish(w->filling, w->settings->prune, &entries, &bytes, line))
        return command_fail("cache", "%s", line);
    ptxpack_prebuilt *folder = ptxpack_prebuilt_open(w->settings->dir, NULL, line); /* as a reader opens it */
    if (folder == NULL)
        return command_fail("cache", "%s", line);
    ptxpack_prebuilt_info info;
    ptxpack_prebuilt_describe(folder, &info);
    report(w, &info, bytes, now_ms() - from);
    ptxpack_prebuilt_close(folder);
    return COMMAND_OK;
}

int warm(const warm_settings *settings)
{
    work *w = (work *)calloc(1, sizeof *w);
    if (w == NULL)
        return command_fail("cache", "out of memory");
    w->settings = settings;
    pthread_mutex_init(&w->lock, NULL);
    int status = check_environment();
    if (status == COMMAND_OK)
        status = open_targets(w);
    if (status == COMMAND_OK)
        status = find_jobs(w);
    if (status == COMMAND_OK)
        status = fill(w);
    ptxpack_filling_close(w->filling);
    for (size_t i = 0; i < w->target_count; i++)
        ptxpack_close(w->targets[i].handle);
    pthread_mutex_destroy(&w->lock);
    free(w->jobs);
    free(w->patterns);
    free(w);
    return status;
}
