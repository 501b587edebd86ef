/* check.c - what the files of the checker share: names, counts, memory. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/plan/inspect.h"

enum { SHOWN_FAILURES = 50, THREADS = 256 };

bool check_wanted(const check *c, const char *name)
{
    return c->filter == NULL || strstr(name, c->filter) != NULL;
}

bool check_row_wanted(const check *c, const ptxpack_variant *row)
{
    size_t count;
    return (c->row == NULL || strstr(row->id, c->row) != NULL) && row->arch >= c->oldest &&
           (c->rows == NULL || c->rows[row - ptxpack_variants(&count)]);
}

bool check_repeats(const check *c, size_t workspace) { return !c->brief || workspace > 0; }

int32_t check_newest(const check *c)
{
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    char                   why[256];
    int32_t                newest = 0;
    for (size_t i = 0; i < count; i++)
        if (rows[i].arch > newest &&
            ptxpack_variant_refusal(&rows[i], &ptxpack_device(c->gpu.handle)->caps, why, sizeof why) == NULL)
            newest = rows[i].arch;
    return newest;
}

bool check_row_runs(const check *c, const ptxpack_variant *row, const char *op, ptxpack_dtype dtype)
{
    char why[256];
    return strcmp(row->op, op) == 0 && check_row_wanted(c, row) && plan_row_takes(row, dtype) &&
           ptxpack_variant_refusal(row, &ptxpack_device(c->gpu.handle)->caps, why, sizeof why) == NULL;
}

bool check_case_runs(const check *c, const char *name, bool quick)
{
    const bool runs = check_wanted(c, name) && (quick || !c->quick);
    if (runs && c->list)
        puts(name);
    return runs && !c->list;
}

void check_record(check *c, const char *name, const char *what)
{
    if (c->end_ms != 0 && now_ms() > c->end_ms) {
        atomic_store(&c->over, true);
        atomic_store(&c->broken, true);
    }
    if (what == NULL) {
        atomic_fetch_add(&c->passed, 1);
        return;
    }
    int before = atomic_fetch_add(&c->failed, 1);
    if (c->first)
        atomic_store(&c->broken, true);
    if (!c->quiet && before < SHOWN_FAILURES)
        printf("FAIL %s: %s (seed %llu)\n", name, what, (unsigned long long)c->seed);
    if (!c->quiet && before == SHOWN_FAILURES)
        puts("FAIL: further failures are only counted");
}

void check_broken(check *c, const char *name, const char *line)
{
    atomic_store(&c->broken, true);
    if (!atomic_exchange(&c->dead, true)) /* other threads would only repeat the line */
        check_record(c, name, line);
}

bool check_reserve(check *c, check_buffer *buffer, size_t bytes)
{
    size_t room = c->brief ? bytes : bytes + bytes / 2;
    if (c->brief ? buffer->bytes == bytes : buffer->bytes >= bytes)
        return true;
    device_free(&c->gpu, buffer->address);
    *buffer = (check_buffer){0, 0};
    if (!device_alloc(&c->gpu, &buffer->address, room))
        return false;
    buffer->bytes = room;
    return true;
}

size_t check_input_bytes(const check *c, size_t region) { return region - (c->brief ? CHECK_GUARD : 0); }

bool check_reserve_far(check *c, const char *name, size_t input_bytes, size_t output_bytes, uint64_t *inputs,
                       uint64_t *output)
{
    size_t free_bytes, total, needed = input_bytes + output_bytes + ((size_t)1 << 30);
    if (!device_try(&c->gpu, c->gpu.driver->cuMemGetInfo(&free_bytes, &total), "cuMemGetInfo")) {
        check_broken(c, name, c->gpu.line);
        return false;
    }
    if (free_bytes >= needed && device_alloc(&c->gpu, inputs, input_bytes) &&
        device_alloc(&c->gpu, output, output_bytes))
        return true;
    if (!c->quiet)
        printf("SKIP: %s: needs %.1f GiB of device memory, %.1f GiB are free\n", name,
               (double)needed / (1 << 30), (double)free_bytes / (1 << 30));
    return false;
}

/* ---- cases on threads --------------------------------------------------------------------------- */
typedef struct case_queue {
    check             *c;
    const check_cases *cases;
    atomic_size_t      next;
} case_queue;

static void *take_cases(void *context)
{
    case_queue        *queue = (case_queue *)context;
    check             *c = queue->c;
    const check_cases *cases = queue->cases;
    void              *images = calloc(1, cases->images);
    bool               terminal = !c->quiet && isatty(STDERR_FILENO);
    size_t             next;
    pthread_mutex_lock(&c->gpu_lock);
    if (images == NULL || !device_attach(&c->gpu))
        check_broken(c, cases->op, images == NULL ? "no memory" : c->gpu.line);
    pthread_mutex_unlock(&c->gpu_lock);
    while (!atomic_load(&c->broken) && (next = atomic_fetch_add(&queue->next, 1)) < cases->count) {
        cases->run(c, cases->cases, next, images);
        if (terminal) {
            pthread_mutex_lock(&c->print_lock);
            fprintf(stderr, "\r%zu of %zu cases ", next + 1, cases->count);
            pthread_mutex_unlock(&c->print_lock);
        }
    }
    pthread_mutex_lock(&c->gpu_lock);
    if (images != NULL)
        cases->free(c, images);
    pthread_mutex_unlock(&c->gpu_lock);
    free(images);
    return NULL;
}

void check_run_cases(check *c, const check_cases *cases)
{
    case_queue queue = {.c = c, .cases = cases};
    pthread_t  threads[THREADS];
    int        started = 0;
    for (size_t i = 0; i < cases->count && c->list; i++) {
        char name[128];
        cases->name(cases->cases, i, name);
        puts(name);
    }
    if (c->list || atomic_load(&c->broken))
        return;
    while (started < c->threads - 1 && started < THREADS &&
           pthread_create(&threads[started], NULL, take_cases, &queue) == 0)
        started++;
    take_cases(&queue);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}
