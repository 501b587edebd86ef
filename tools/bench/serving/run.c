/* run.c - the memory, the checks and the rounds of cases that share their memory; and the reduction. */
#include "run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/progress.h"

/* ---- cases --------------------------------------------------------------------------------------------- */
int bench_add(bench_run *run, const bench_kind *kind, const char *part, size_t state_bytes)
{
    void *state = calloc(1, state_bytes + 1);
    if (state == NULL || run->count == BENCH_CASES) {
        snprintf(run->gpu->line, sizeof run->gpu->line, state == NULL ? "no memory" : "more than %d cases",
                 (int)BENCH_CASES);
        free(state);
        return -1;
    }
    run->cases[run->count] = (bench_case){.kind = kind,
                                          .part = part,
                                          .head_dim = run->head_dim,
                                          .state = state,
                                          .sets = 1,
                                          .launches = 1,
                                          .base = -1};
    return run->count++;
}

void bench_rotate(bench_run *run, bench_case *c, size_t bytes)
{
    size_t sets = bytes > 0 ? run->rotated / bytes + 1 : 1;
    c->sets = sets < 2 ? 2 : sets > 1000 ? 1000 : (int)sets;
    c->launches = c->sets > run->launches ? c->sets : run->launches;
}

uint64_t bench_at(const bench_run *run, const bench_case *c, int arena, int set)
{
    return run->arena[arena] + (uint64_t)(set % c->sets) * c->bytes[arena];
}

bool bench_wrong(bench_run *run, const bench_case *c, const char *format, ...)
{
    char    what[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    snprintf(run->gpu->line, sizeof run->gpu->line, "%s, %s: %s", c->part, c->name, what);
    return false;
}

bool bench_upload(bench_run *run, uint64_t *at, const int32_t *values, size_t count)
{
    return device_alloc(run->gpu, at, count * sizeof *values) &&
           device_upload(run->gpu, *at, values, count * sizeof *values);
}

bool bench_read(bench_run *run, const bench_case *c, int arena, int set, size_t from, size_t count, void *to)
{
    const bool   bytes = (arena == ARENA_K || arena == ARENA_V) && run->settings->kv_dtype != 0;
    const size_t element = arena == ARENA_LSE ? sizeof(float) : bytes ? 1 : sizeof(uint16_t);
    return device_download(run->gpu, to, bench_at(run, c, arena, set) + from * element, count * element);
}

/* ---- memory -------------------------------------------------------------------------------------------- */
/* One line before the driver's own "out of memory", which names only the last piece. */
static bool enough(bench_run *run)
{
    size_t available = 0, total = 0, needed = 0;
    for (int a = 0; a < ARENAS; a++)
        needed += run->arena_bytes[a];
    if (run->gpu->driver->cuMemGetInfo == NULL ||
        run->gpu->driver->cuMemGetInfo(&available, &total) != PTXPACK_CU_SUCCESS || needed <= available)
        return true;
    snprintf(
        run->gpu->line, sizeof run->gpu->line,
        "the inputs take %.2f GB of device memory, of which %.2f are free: choose fewer with --rows or --part",
        (double)needed * 1e-9, (double)available * 1e-9);
    return false;
}

static bool make_arenas(bench_run *run)
{
    for (int i = 0; i < run->count; i++)
        for (int a = 0; a < ARENAS; a++) {
            bench_case *c = &run->cases[i];
            c->bytes[a] = (c->bytes[a] + 255) / 256 * 256; /* sets begin at multiples of that */
            if (run->arena_bytes[a] < c->bytes[a] * (size_t)c->sets)
                run->arena_bytes[a] = c->bytes[a] * (size_t)c->sets;
        }
    bool ok = enough(run);
    for (int a = 0; a < ARENAS && ok; a++)
        ok = device_alloc(run->gpu, &run->arena[a], run->arena_bytes[a]);
    for (int a = ARENA_K; a <= ARENA_Q && ok; a++)
        ok = bench_memory_fill(&run->memory, run->arena[a], run->arena_bytes[a],
                               (uint32_t)run->settings->seed * 16 + (uint32_t)a);
    return ok && device_sync(run->gpu);
}

/* ---- the rounds ---------------------------------------------------------------------------------------- */
static bool enqueue(void *context, size_t index)
{
    bench_run  *run = (bench_run *)context;
    bench_case *c = &run->cases[index];
    for (int n = 0; n < (c->live ? 1 : c->launches); n++)
        if (!c->kind->launch(run, c, n % c->sets))
            return false;
    return true;
}

static bool run_rounds(bench_run *run)
{
    for (int i = 0; i < run->count; i++) {
        run->launches_of[i] = run->cases[i].launches;
        run->live[i] = run->cases[i].live;
    }
    run->timing = (bench_rounds){.gpu = run->gpu,
                                 .count = (size_t)run->count,
                                 .rounds = run->settings->rounds,
                                 .seed = (uint64_t)run->settings->seed,
                                 .launches = run->launches,
                                 .rest_us = run->rest_us,
                                 .enqueue = enqueue,
                                 .context = run,
                                 .launches_of = run->launches_of,
                                 .live = run->live};
    return bench_rounds_run(&run->timing);
}

/* Its plan and its memory; the line of a failure names the case, which --rows or --part can leave out. */
static bool make(bench_run *run, bench_case *c)
{
    char why[sizeof run->gpu->line];
    if (c->kind->make(run, c))
        return true;
    snprintf(why, sizeof why, "%s", run->gpu->line);
    return bench_wrong(run, c, "%s", why);
}

bool bench_run_all(bench_run *run)
{
    bool ok = bench_memory_open(&run->memory, run->gpu, run->settings->dtype) && make_arenas(run);
    progress_begin("bench", "plans and checks");
    for (int i = 0; i < run->count && ok; i++)
        ok = make(run, &run->cases[i]);
    run->plans_made = run->plans;
    for (int i = 0; i < run->count && ok; i++) {
        bench_case *c = &run->cases[i];
        progress_step((size_t)i + 1, (size_t)run->count, "%s, %s", c->part, c->name);
        ok = c->kind->check == NULL || c->kind->check(run, c);
    }
    progress_end();
    return ok && run_rounds(run);
}

double bench_us(bench_run *run, int index) { return bench_rounds_ms(&run->timing, (size_t)index) * 1e3; }

double bench_rate(bench_run *run, int index)
{
    const bench_case *c = &run->cases[index];
    return c->work / bench_us(run, index) * (c->flops ? 1e-6 : 1e-3);
}

void bench_run_free(bench_run *run)
{
    bench_rounds_free(&run->timing);
    for (int i = 0; i < run->count; i++) {
        run->cases[i].kind->free(run, &run->cases[i]);
        free(run->cases[i].state);
    }
    for (int a = 0; a < ARENAS; a++)
        device_free(run->gpu, run->arena[a]);
    bench_memory_close(&run->memory);
}

/* ---- the reduction ------------------------------------------------------------------------------------- */
static bool make_reduction(bench_run *run, bench_case *c)
{
    (void)run;
    (void)c;
    return true;
}

static bool launch_reduction(bench_run *run, bench_case *c, int set)
{
    return bench_memory_reduce(&run->memory, bench_at(run, c, ARENA_K, set), bench_at(run, c, ARENA_V, set),
                               (size_t)(c->work / 2));
}

/* The sum of the words of an array, on the host. */
static bool sum_words(bench_run *run, const bench_case *c, uint64_t at, size_t bytes, uint32_t *sum)
{
    enum { PART = 1 << 20 };
    uint32_t *words = (uint32_t *)malloc(PART);
    bool      ok = words != NULL || bench_wrong(run, c, "no memory");
    for (size_t done = 0; done < bytes && ok; done += PART) {
        size_t part = bytes - done < PART ? bytes - done : PART;
        ok = device_download(run->gpu, words, at + done, part);
        for (size_t i = 0; i < part / sizeof *words && ok; i++)
            *sum += words[i];
    }
    free(words);
    return ok;
}

/* Only small sums are checked: the kernel is the same for all. */
static bool check_reduction(bench_run *run, bench_case *c)
{
    enum { MOST = 1 << 24 };
    uint32_t want = 0, got = 0;
    size_t   bytes = (size_t)(c->work / 2);
    if (bytes > MOST)
        bytes = MOST;
    if (!device_upload(run->gpu, run->memory.sum, &got, sizeof got) ||
        !bench_memory_reduce(&run->memory, run->arena[ARENA_K], run->arena[ARENA_V], bytes) ||
        !device_download(run->gpu, &got, run->memory.sum, sizeof got) ||
        !sum_words(run, c, run->arena[ARENA_K], bytes, &want) ||
        !sum_words(run, c, run->arena[ARENA_V], bytes, &want))
        return false;
    return got == want || bench_wrong(run, c, "the sum of %zu bytes is %08x, not %08x", 2 * bytes, got, want);
}

static void free_reduction(bench_run *run, bench_case *c)
{
    (void)run;
    (void)c;
}

int bench_add_reduction(bench_run *run, int of)
{
    static const bench_kind reduction = {make_reduction, launch_reduction, check_reduction, free_reduction};
    int                     index = bench_add(run, &reduction, run->cases[of].part, 0);
    if (index < 0)
        return index;
    bench_case *c = &run->cases[index], *model = &run->cases[of];
    c->bytes[ARENA_K] = c->bytes[ARENA_V] = model->bytes[ARENA_K];
    c->work = 2.0 * (double)(model->bytes[ARENA_K] / 16 * 16);
    snprintf(c->name, sizeof c->name, "reduction of %.0f MB", c->work * 1e-6);
    bench_rotate(run, c, (size_t)c->work);
    return index;
}
