/* ptxas.c - compiles corner builds of every row of kernels.def with ptxas, for the row's own architecture and, every fourth
 * build, in turn for one of the later ones that it serves and this ptxas knows, or with `ptxas -c` for one of all.  The test fails
 * on errors, on C75xx remarks, and on spills in rows that claim none.
 *
 *   loader-ptxas [--all] [WORD...]   --all: every corner build for every architecture; words: only the rows whose id contains one
 *   loader-ptxas --record            compile the choice, and write tests/golden/ptxas
 *
 * Without --all it compiles a choice (tests/support/corners.h): of each row the build with the most features, and each
 * feature both on and off; for every two rows of a file that follow each other any two features in all their combinations.
 *
 * No two builds have the same text, so each text is compiled once for a target.  tests/golden/ptxas has what was seen of each by
 * content: what has not changed since then is not compiled again with the same release of ptxas, but for one in EIGHTH, another
 * eighth for each state of the pack, which must be as it was seen.  Logs of good compilations are besides kept in a cache
 * beside this program. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "loader/compile/log.h"
#include "loader/internal.h"
#include "loader/compile/ptxas.h"
#include "host/ptxpack.h"
#include "loader/inspect.h"
#include "tests/support/corners.h"
#include "tests/support/verdicts.h"

enum { WORKERS = 8, ARCHS = 32 /* as many as the library may serve */, EIGHTH = 8 };

static const char record_path[] = "tests/golden/ptxas";
static const char heading[] = "# What ptxas spills of each build that tests/loader/ptxas.c compiles; written "
                              "by build/tests/loader-ptxas --record.\n";

typedef struct job {
    const ptxpack_variant *variant;
    ptxpack_instance       instance;
    ptxpack_expansion     *expansion; /* owned by the job of the first architecture */
    char                   target[16];
    bool                   relocatable; /* ptxas -c */
    bool                   failed;
    verdict                seen;
    char                   line[1024]; /* what failed */
} job;

static struct ptxpack_ptxas ptxas;
static job                 *jobs;
static size_t               job_count, job_room;
static atomic_size_t        next_job, compiled, known_before;
static ptxpack_cache       *logs;
static verdicts             record;
static bool                 trusting; /* what is recorded is not compiled again, but for an eighth */

/* ---- the list of jobs ----------------------------------------------------------------------------- */
static bool knows(const char *target)
{
    static char last[16]; /* neighbouring builds ask for the same architecture */
    static bool last_known;
    if (strcmp(target, last) == 0)
        return last_known;
    static const char       tiny[] = ".version 6.3\n.target sm_30\n";
    char                    option[32];
    const char             *options[] = {option};
    struct ptxpack_compiled made;
    snprintf(option, sizeof option, "--gpu-name=%s", target);
    ptxpack_status status = ptxpack_ptxas_compile(&ptxas, tiny, sizeof tiny - 1, options, 1, &made);
    bool           unknown = status != PTXPACK_OK && made.log != NULL &&
                   strstr(made.log, "is not defined for option") != NULL;
    ptxpack_compiled_free(&made);
    snprintf(last, sizeof last, "%s", target);
    return last_known = !unknown;
}

static bool add_job(const ptxpack_variant *v, const ptxpack_instance *instance, ptxpack_expansion *e,
                    const char *target, bool relocatable)
{
    if (job_count == job_room) {
        size_t room = job_room ? 2 * job_room : 256;
        job   *larger = (job *)realloc(jobs, room * sizeof *jobs);
        if (larger == NULL)
            return false;
        jobs = larger;
        job_room = room;
    }
    job *j = &jobs[job_count++];
    memset(j, 0, sizeof *j);
    j->variant = v;
    j->instance = *instance;
    j->expansion = e;
    j->relocatable = relocatable;
    snprintf(j->target, sizeof j->target, "%s", target);
    return true;
}

/* The architecture's name as the row's target; false when the row does not serve it or this ptxas does not know
 * it. */
static bool target_of(const ptxpack_variant *v, size_t a, const bool known[ARCHS], char target[16])
{
    int  arch = ptxpack_arch_at(a);
    bool exact = (v->flags & PTXPACK_VARIANT_ARCH_SPECIFIC) != 0;
    snprintf(target, 16, "sm_%d%s", arch, exact ? "a" : "");
    if (exact && arch == v->arch && !knows(target))
        printf("SKIP: %s: this ptxas does not know %s\n", v->id, target);
    else
        return exact ? arch == v->arch : arch >= v->arch && known[a];
    return false;
}

/* Adds one build: for its row's own architecture and, every fourth one, in turn for a later one or in relocatable code for
 * one of all. */
static bool add_build(const ptxpack_variant *v, const ptxpack_instance *instance, ptxpack_expansion *e,
                      const bool known[ARCHS], bool all)
{
    static size_t turn;
    char          targets[ARCHS][16];
    size_t        count = 0;
    for (size_t a = 0; a < ARCHS && ptxpack_arch_at(a) != 0; a++)
        count += target_of(v, a, known, targets[count]);
    const bool   whole = (v->flags & PTXPACK_VARIANT_WHOLE_PROGRAM) != 0;
    const size_t round = turn / 8, later = 1 + round % (count > 1 ? count - 1 : 1),
                 relocated = round % (count ? count : 1);
    for (size_t i = 0; i < count; i++) {
        const bool plain = all || i == 0 || (i == later && (turn % 8 == 0 || (turn % 8 == 4 && whole)));
        const bool relocatable = !whole && (all || (i == relocated && turn % 8 == 4));
        if ((plain && !add_job(v, instance, e, targets[i], false)) ||
            (relocatable && !add_job(v, instance, e, targets[i], true)))
            return false;
    }
    turn++;
    return true;
}

static bool wanted(const ptxpack_variant *v, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strstr(v->id, argv[i]) != NULL)
            return true;
    return argc <= 1;
}

/* Expands each build once; `chosen`: of all builds, NULL: they all are.  Returns false when an expansion failed. */
static bool make_jobs(ptxpack *handle, int argc, char **argv, const bool *chosen)
{
    size_t                 count, number = 0;
    bool                   good = true, known[ARCHS];
    char                   target[16];
    const ptxpack_variant *rows = ptxpack_variants(&count);
    if (ptxpack_arch_at(ARCHS)) {
        printf("FAIL  more than %d architectures\n", ARCHS);
        return false;
    }
    for (size_t a = 0; ptxpack_arch_at(a); a++) {
        snprintf(target, sizeof target, "sm_%d", ptxpack_arch_at(a));
        known[a] = knows(target);
    }
    for (size_t r = 0; r < count; number += ptxpack_instance_count(&rows[r]), r++) {
        const ptxpack_variant *v = &rows[r];
        if (!wanted(v, argc, argv))
            continue;
        if (v->isa > ptxpack_isa_of_cuda(ptxas.cuda)) {
            printf("SKIP: %s: PTX ISA %d.%d is too new for this ptxas\n", v->id, v->isa / 10, v->isa % 10);
            continue;
        }
        for (size_t i = 0; i < ptxpack_instance_count(v); i++) {
            ptxpack_instance   instance = ptxpack_instance_get(v, i);
            ptxpack_expansion *e;
            if (chosen != NULL && !chosen[number + i])
                continue;
            if (ptxpack_kernel_expand(handle, v, instance.symbols, instance.symbol_count, &e) != PTXPACK_OK) {
                printf("FAIL  %s %s: %s\n", v->id, instance.name, ptxpack_detail(handle));
                good = false;
            } else if (!add_build(v, &instance, e, known, chosen == NULL)) {
                return false;
            }
        }
    }
    return good;
}

/* ---- compiling ------------------------------------------------------------------------------------ */
static bool fail(job *j, const char *what)
{
    snprintf(j->line, sizeof j->line, "%s %s for %s%s: %s", j->variant->id, j->instance.name, j->target,
             j->relocatable ? ", relocatable" : "", what);
    j->failed = true;
    return false;
}

static bool judge_spills(job *j, int spills)
{
    char what[128];
    j->seen.spills = spills;
    snprintf(what, sizeof what, "%d bytes of spills", spills);
    if (spills && (j->variant->flags & PTXPACK_VARIANT_NO_SPILLS) != 0 &&
        !(j->relocatable && (j->variant->flags & PTXPACK_VARIANT_RELOCATABLE_SPILLS) != 0))
        return fail(j, what);
    const verdict *before = verdicts_find(&record, j->seen.key);
    if (before != NULL && before->spills != spills) {
        snprintf(what, sizeof what, "%d bytes of spills, and %s says %d", spills, record_path, before->spills);
        return fail(j, what);
    }
    return true;
}

static bool judge(job *j, const char *log)
{
    ptxpack_resources r;
    ptxpack_log_resources(log, j->variant->entry, &r);
    if (strstr(r.remarks, "(C75") != NULL)
        return fail(j, r.remarks);
    if (r.registers == 0)
        return fail(j, "the log says nothing of the entry");
    return judge_spills(j, r.spill_store_bytes + r.spill_load_bytes);
}

/* Whether the build is one of the eighth that is compiled in this state of the pack. */
static bool compiled_anyway(const char *key)
{
    unsigned of_key = 0, of_pack = 0;
    sscanf(key, "%4x", &of_key);
    sscanf(ptxpack_pack_identity, "%4x", &of_pack);
    return of_key % EIGHTH == of_pack % EIGHTH;
}

static void compile_job(job *j, const ptxpack_cache_key *key, const char *const *options, int count)
{
    char                    what[768];
    struct ptxpack_compiled made;
    size_t                  bytes;
    const char             *text = ptxpack_expansion_text(j->expansion, &bytes);
    atomic_fetch_add(&compiled, 1);
    ptxpack_status status = ptxpack_ptxas_compile(&ptxas, text, bytes, options, count, &made);
    if (status != PTXPACK_OK) {
        ptxpack_log_errors(made.log != NULL ? made.log : "", j->expansion, what, sizeof what);
        fail(j, what);
    } else if (judge(j, made.log)) {
        ptxpack_cache_put(logs, key, j->variant->id, NULL, 0, made.log, strlen(made.log));
    }
    ptxpack_compiled_free(&made);
}

static void do_job(job *j)
{
    char                target[32];
    size_t              bytes;
    ptxpack_cache_entry entry;
    ptxpack_cache_key  *key = ptxpack_cache_key_create();
    const char         *text = ptxpack_expansion_text(j->expansion, &bytes);
    const char         *options[3] = {target, "--verbose", "-c"};
    int                 count = j->relocatable ? 3 : 2;
    snprintf(target, sizeof target, "--gpu-name=%s", j->target);
    ptxpack_cache_key_add(key, "ptx", text, bytes);
    ptxpack_cache_key_add_text(key, "compiler", ptxas.identity);
    for (int i = 0; i < count; i++)
        ptxpack_cache_key_add_text(key, "option", options[i]);
    ptxpack_cache_key_hex(key, j->seen.key);
    const verdict *before = trusting && !compiled_anyway(j->seen.key) ? verdicts_find(&record, j->seen.key)
                                                                      : NULL;
    if (before != NULL) {
        atomic_fetch_add(&known_before, 1);
        judge_spills(j, before->spills); /* the present claims of the row */
    } else if (ptxpack_cache_get(logs, key, &entry)) {
        judge(j, (const char *)entry.payload);
        ptxpack_cache_entry_free(&entry);
    } else {
        compile_job(j, key, options, count);
    }
    ptxpack_cache_key_free(key);
}

static void *work(void *unused)
{
    (void)unused;
    for (size_t i; (i = atomic_fetch_add(&next_job, 1)) < job_count;)
        do_job(&jobs[i]);
    return NULL;
}

static void do_all(void)
{
    pthread_t workers[WORKERS];
    long      cpus = sysconf(_SC_NPROCESSORS_ONLN);
    int       count = cpus < 1 ? 1 : cpus > WORKERS ? WORKERS : (int)cpus, started = 0;
    while (started < count - 1 && pthread_create(&workers[started], NULL, work, NULL) == 0)
        started++;
    work(NULL);
    for (int i = 0; i < started; i++)
        pthread_join(workers[i], NULL);
}

/* ---- the report ----------------------------------------------------------------------------------- */
static size_t report(void)
{
    size_t failures = 0;
    for (size_t i = 0; i < job_count; i++) {
        if (jobs[i].failed && failures++ < 40)
            printf("FAIL  %s\n", jobs[i].line);
        if (i == 0 || jobs[i].expansion != jobs[i - 1].expansion)
            ptxpack_expansion_free(jobs[i].expansion);
    }
    return failures;
}

static bool write_record(void)
{
    verdicts all = {(verdict *)calloc(job_count + 1, sizeof(verdict)), 0};
    for (size_t i = 0; all.at != NULL && i < job_count; i++)
        all.at[all.count++] = jobs[i].seen;
    bool good = all.at != NULL && verdicts_write(record_path, heading, &all);
    verdicts_free(&all);
    if (!good)
        printf("FAIL  %s could not be written\n", record_path);
    return good;
}

/* build/tests/ptxas-logs, beside this program. */
static ptxpack_cache *open_logs(void)
{
    static char           path[512];
    ptxpack_cache_options options = {.size = sizeof options, .dir = path};
    ssize_t               n = readlink("/proc/self/exe", path, sizeof path - 16);
    char                 *slash = n > 0 ? (char *)memrchr(path, '/', (size_t)n) : NULL;
    if (slash != NULL)
        snprintf(slash, 16, "/ptxas-logs");
    return slash != NULL ? ptxpack_cache_open(&options) : NULL; /* NULL is a disabled cache */
}

int main(int argc, char **argv)
{
    char            why[256];
    ptxpack        *handle;
    ptxpack_options options = {.size = sizeof options, .offline = true, .arch = "sm_80", .no_cache = true};
    options.ptxjit = "none";
    if (!ptxpack_ptxas_open(&ptxas, why, sizeof why)) {
        printf("SKIP: check_ptxas: %s\n", why);
        return 77;
    }
    if (ptxpack_open(&options, &handle) != PTXPACK_OK) {
        printf("FAIL  %s\n", ptxpack_detail(NULL));
        return 1;
    }
    bool all = argc > 1 && strcmp(argv[1], "--all") == 0,
         recording = argc > 1 && strcmp(argv[1], "--record") == 0;
    argc -= all || recording;
    argv += all || recording;
    if (recording && argc > 1) {
        printf("FAIL  --record takes no words: %s would have only those rows\n", record_path);
        return 1;
    }
    trusting = !all && !recording;
    if (!recording && !verdicts_read(record_path, &record)) {
        printf("FAIL  %s has a line that is not \"KEY BYTES\"\n", record_path);
        return 1;
    }
    bool *chosen = all ? NULL : corners_choose();
    if (!all && chosen == NULL) {
        printf("FAIL  no memory, or a row has too many features\n");
        return 1;
    }
    logs = open_logs();
    bool good = make_jobs(handle, argc, argv, chosen);
    free(chosen);
    do_all();
    size_t failures = report();
    good = good && failures == 0 && (!recording || write_record());
    printf("%s: %zu compilations, %zu of them recorded before and %zu new, %zu failed (%s)\n",
           good ? "PASS" : "FAIL", job_count, (size_t)atomic_load(&known_before),
           (size_t)atomic_load(&compiled), failures, ptxas.path);
    free(jobs);
    verdicts_free(&record);
    ptxpack_cache_close(logs);
    ptxpack_close(handle);
    return good ? 0 : 1;
}
