/* preload.c - the queue of a preloading, its threads, and the machine code that it holds. */
#include "preload.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "preload_work.h"
#include "row.h"
#include "loader/missing.h"
#include "step.h"

enum { MOST_THREADS = 64, USUAL_THREADS = 8 };

struct ptxpack_preload_item {
    struct ptxpack_preload_item *next;
    const char                  *name; /* a literal, or the row's id */
    ptxpack_preload_resolve      resolve;
    void                        *what;
    const struct ptxpack_code   *code; /* held; NULL until it is made */
    bool                         from_cache;
};

struct ptxpack_preloading {
    pid_t                        pid;
    ptxpack_preload_options      options; /* but for `open` and `arch` */
    ptxpack_options              open;
    char                        *strings[7]; /* that `open` and `arch` point to */
    pthread_mutex_t              lock;       /* guards what follows */
    pthread_cond_t               changed;    /* an item was queued or finished, or the preloading ends */
    struct ptxpack_preload_item *items, **tail, *next;
    size_t                       total, done, running, queued; /* queued: not begun */
    size_t                       idle;                         /* threads that wait */
    bool                         cancelled, closing;
    pthread_t                    threads[MOST_THREADS];
    size_t                       thread_count;
    ptxpack_status               first; /* failure */
    char                         detail[PTXPACK_DETAIL_BYTES];
    pthread_mutex_t              telling; /* held while on_progress is called */
    pthread_mutex_t              opening; /* guards what follows */
    ptxpack                     *handle;  /* stands in for the device; NULL until a thread has opened it */
    ptxpack_status               opened;
    bool                         tried;
    char                         open_detail[PTXPACK_DETAIL_BYTES];
};

static ptxpack_status check_process(const ptxpack_preloading *p)
{
    return p->pid == getpid()
               ? PTXPACK_OK
               : ptxpack_fail(NULL, PTXPACK_E_FORKED, "the preloading belongs to another process");
}

/* ---- one kernel ----------------------------------------------------------------------------------- */

/* The handle, which the first thread that needs it opens. */
static ptxpack_status stand_in(ptxpack_preloading *p, ptxpack **out)
{
    pthread_mutex_lock(&p->opening);
    if (!p->tried) {
        p->tried = true;
        const ptxpack_preload_options *o = &p->options;
        p->opened = o->arch != NULL ? ptxpack_open_stand_in(&p->open, o->arch, o->sm_count, &p->handle)
                                    : ptxpack_open_stand_in_for_device(&p->open, &p->handle);
        if (p->opened != PTXPACK_OK)
            snprintf(p->open_detail, sizeof p->open_detail, "%s", ptxpack_detail(NULL));
    }
    *out = p->handle;
    ptxpack_status status = p->opened;
    pthread_mutex_unlock(&p->opening);
    return status == PTXPACK_OK ? status : ptxpack_fail(NULL, status, "%s", p->open_detail);
}

ptxpack_status ptxpack_preload_make(struct ptxpack_preload_item *item, ptxpack *h, const ptxpack_variant *row,
                                    const ptxpack_symbol *symbols, size_t count)
{
    ptxpack_kernel_info info;
    item->name = row->id;
    ptxpack_status status = ptxpack_kernel_make(h, row, symbols, count, &info, &item->code);
    item->from_cache = status == PTXPACK_OK && info.from_cache;
    return status;
}

static void tell(ptxpack_preloading *p, const struct ptxpack_preload_item *item, ptxpack_status status,
                 const char *detail, double ms)
{
    ptxpack_preload_progress progress = {.name = item->name,
                                         .status = status,
                                         .detail = detail,
                                         .from_cache = item->from_cache,
                                         .ms = ms};
    pthread_mutex_lock(&p->telling); /* so that `done` increases from call to call */
    pthread_mutex_lock(&p->lock);
    progress.done = ++p->done;
    progress.total = p->total;
    if (status != PTXPACK_OK && p->first == PTXPACK_OK) {
        p->first = status;
        snprintf(p->detail, sizeof p->detail, "%s", detail);
    }
    pthread_mutex_unlock(&p->lock);
    if (p->options.on_progress != NULL)
        p->options.on_progress(p->options.context, &progress);
    pthread_mutex_unlock(&p->telling);
}

static void make_one(ptxpack_preloading *p, struct ptxpack_preload_item *item)
{
    char           detail[PTXPACK_DETAIL_BYTES] = "";
    double         from = ptxpack_now_ms();
    ptxpack       *h = NULL;
    ptxpack_status status = stand_in(p, &h);
    if (status == PTXPACK_OK)
        status = item->resolve(h, item->what, item);
    if (status != PTXPACK_OK)
        snprintf(detail, sizeof detail, "%s", ptxpack_detail(h));
    tell(p, item, status, detail, ptxpack_now_ms() - from);
}

/* ---- threads -------------------------------------------------------------------------------------- */

static void *work(void *context)
{
    ptxpack_preloading *p = (ptxpack_preloading *)context;
    pthread_mutex_lock(&p->lock);
    while (!p->closing) {
        struct ptxpack_preload_item *item = p->cancelled ? NULL : p->next;
        if (item == NULL) {
            p->idle++;
            pthread_cond_wait(&p->changed, &p->lock);
            p->idle--;
            continue;
        }
        p->next = item->next;
        p->queued--;
        p->running++;
        pthread_mutex_unlock(&p->lock);
        make_one(p, item);
        pthread_mutex_lock(&p->lock);
        p->running--;
        pthread_cond_broadcast(&p->changed);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* Start another thread for one more item, unless enough threads are idle or the limit is reached.  The caller
 * holds the lock.  The new thread blocks all signals, which are for the program's own threads. */
static bool add_thread(ptxpack_preloading *p)
{
    sigset_t all, old;
    if (p->idle > p->queued || p->thread_count == p->options.threads)
        return true;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    p->thread_count += pthread_create(&p->threads[p->thread_count], NULL, work, p) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return p->thread_count > 0;
}

static void free_item(struct ptxpack_preload_item *item)
{
    ptxpack_code_release(item->code);
    free(item->what);
    free(item);
}

ptxpack_status ptxpack_preload_add(ptxpack_preloading *p, const char *name, ptxpack_preload_resolve resolve,
                                   const void *what, size_t bytes)
{
    if (p == NULL)
        return PTXPACK_MISSING(NULL, "preloading");
    ptxpack_status status = check_process(p);
    if (status != PTXPACK_OK)
        return status;
    struct ptxpack_preload_item *item = (struct ptxpack_preload_item *)calloc(1, sizeof *item);
    if (item != NULL && (item->what = malloc(bytes + !bytes)) != NULL)
        memcpy(item->what, what, bytes);
    if (item == NULL || item->what == NULL) {
        free(item);
        return ptxpack_fail(NULL, PTXPACK_E_MEMORY, "out of memory for preloading %s", name);
    }
    item->name = name;
    item->resolve = resolve;
    pthread_mutex_lock(&p->lock);
    bool cancelled = p->cancelled, queued = !cancelled && add_thread(p);
    if (queued) {
        *p->tail = item;
        p->tail = &item->next;
        p->next = p->next != NULL ? p->next : item;
        p->total++;
        p->queued++;
        pthread_cond_broadcast(&p->changed);
    }
    pthread_mutex_unlock(&p->lock);
    if (queued)
        return PTXPACK_OK;
    free_item(item);
    return cancelled ? ptxpack_fail(NULL, PTXPACK_E_ARG, "the preloading was cancelled")
                     : ptxpack_fail(NULL, PTXPACK_E_MEMORY, "no thread could be started for preloading");
}

/* ---- rows ----------------------------------------------------------------------------------------- */

/* What ptxpack_preload_row copies: this, the symbols, their names. */
struct row_copy {
    const ptxpack_variant *row;
    size_t                 count;
};

static ptxpack_status resolve_row(ptxpack *h, const void *what, struct ptxpack_preload_item *item)
{
    const struct row_copy *copy = (const struct row_copy *)what;
    size_t                 count = copy->count;
    ptxpack_symbol        *symbols = (ptxpack_symbol *)malloc((count + !count) * sizeof *symbols);
    if (symbols == NULL)
        return ptxpack_fail(h, PTXPACK_E_MEMORY, "out of memory for the symbols of %s", copy->row->id);
    memcpy(symbols, copy + 1, count * sizeof *symbols);
    const char *name = (const char *)(copy + 1) + count * sizeof *symbols;
    for (size_t i = 0; i < count; i++, name += strlen(name) + 1)
        symbols[i].name = name;
    ptxpack_status status = ptxpack_preload_make(item, h, copy->row, symbols, count);
    free(symbols);
    return status;
}

ptxpack_status ptxpack_preload_row(ptxpack_preloading *p, const ptxpack_variant *row,
                                   const ptxpack_symbol *symbols, size_t count)
{
    if (p == NULL)
        return PTXPACK_MISSING(NULL, "preloading");
    if (row == NULL)
        return PTXPACK_MISSING(NULL, "row");
    if (symbols == NULL && count > 0)
        return PTXPACK_MISSING(NULL, "symbols");
    size_t bytes = sizeof(struct row_copy) + count * sizeof *symbols;
    for (size_t i = 0; i < count; i++)
        bytes += strlen(symbols[i].name) + 1;
    struct row_copy *copy = (struct row_copy *)malloc(bytes);
    if (copy == NULL)
        return ptxpack_fail(NULL, PTXPACK_E_MEMORY, "out of memory for the symbols of %s", row->id);
    copy->row = row;
    copy->count = count;
    if (count)
        memcpy(copy + 1, symbols, count * sizeof *symbols);
    char *name = (char *)(copy + 1) + count * sizeof *symbols;
    for (size_t i = 0; i < count; i++)
        name = stpcpy(name, symbols[i].name) + 1;
    ptxpack_status status = ptxpack_preload_add(p, row->id, resolve_row, copy, bytes);
    free(copy);
    return status;
}

/* ---- beginning and end ---------------------------------------------------------------------------- */

/* Copy the strings, because the threads read them later.  False: memory ran out. */
static bool copy_options(ptxpack_preloading *p, const ptxpack_preload_options *options)
{
    const char **const texts[] = {&p->open.driver,  &p->open.ptxjit,    &p->open.ptx_dir,      &p->open.arch,
                                  &p->options.arch, &p->open.cache_dir, &p->open.readonly_dirs};
    _Static_assert(sizeof texts / sizeof texts[0] == sizeof p->strings / sizeof p->strings[0], "one each");
    bool     whole = true;
    long     processors = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t usual = processors < 1 ? 1 : processors < USUAL_THREADS ? (uint32_t)processors : USUAL_THREADS;
    p->options = *options;
    p->open.size = sizeof p->open;
    if (options->open != NULL)
        memcpy(&p->open, options->open, options->open->size);
    p->open.size = sizeof p->open;
    if (!p->options.threads)
        p->options.threads = usual;
    if (p->options.threads > MOST_THREADS)
        p->options.threads = MOST_THREADS;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (*texts[i] != NULL) {
            *texts[i] = p->strings[i] = strdup(*texts[i]);
            whole &= *texts[i] != NULL;
        }
    return whole;
}

static ptxpack_status check_options(const ptxpack_preload_options *o)
{
    ptxpack_device_caps caps;
    if (o->size != sizeof *o)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "options.size is %u, but this library knows %zu", o->size,
                            sizeof *o);
    if (o->open != NULL && (o->open->size < sizeof o->open->size || o->open->size > sizeof *o->open))
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "options.open->size is %u, but this library knows %zu",
                            o->open->size, sizeof *o->open);
    if (o->sm_count < 0)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "options.sm_count is %d", (int)o->sm_count);
    if (o->arch != NULL && !ptxpack_arch_shared(ptxpack_parse_arch(o->arch), &caps))
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "arch: \"%s\" is not an architecture that this library knows",
                            o->arch);
    return PTXPACK_OK;
}

ptxpack_status ptxpack_preload(const ptxpack_preload_options *options, ptxpack_preloading **out)
{
    if (out == NULL)
        return PTXPACK_MISSING(NULL, "out");
    const ptxpack_preload_options defaults = {.size = sizeof defaults};
    options = options != NULL ? options : &defaults;
    *out = NULL;
    ptxpack_status status = check_options(options);
    if (status != PTXPACK_OK)
        return status;
    ptxpack_preloading *p = (ptxpack_preloading *)calloc(1, sizeof *p);
    if (p == NULL)
        return ptxpack_fail(NULL, PTXPACK_E_MEMORY, "out of memory for a preloading");
    p->pid = getpid();
    p->tail = &p->items;
    pthread_mutex_init(&p->lock, NULL);
    pthread_mutex_init(&p->telling, NULL);
    pthread_mutex_init(&p->opening, NULL);
    pthread_cond_init(&p->changed, NULL);
    if (copy_options(p, options)) {
        *out = p;
        return PTXPACK_OK;
    }
    ptxpack_preload_free(p);
    return ptxpack_fail(NULL, PTXPACK_E_MEMORY, "out of memory for a preloading");
}

ptxpack_status ptxpack_preload_wait(ptxpack_preloading *p)
{
    if (p == NULL)
        return PTXPACK_MISSING(NULL, "preloading");
    ptxpack_status status = check_process(p);
    if (status != PTXPACK_OK)
        return status;
    pthread_mutex_lock(&p->lock);
    while (p->running || (p->next != NULL && !p->cancelled))
        pthread_cond_wait(&p->changed, &p->lock);
    status = p->first;
    if (status != PTXPACK_OK)
        ptxpack_fail(NULL, status, "%s", p->detail);
    pthread_mutex_unlock(&p->lock);
    return status;
}

void ptxpack_preload_count(ptxpack_preloading *p, size_t *done, size_t *total)
{
    if (done != NULL)
        *done = 0;
    if (total != NULL)
        *total = 0;
    if (p == NULL)
        return;
    if (p->pid == getpid()) /* in a child process the lock may be held by a thread that does not exist there */
        pthread_mutex_lock(&p->lock);
    if (done != NULL)
        *done = p->done;
    if (total != NULL)
        *total = p->total;
    if (p->pid == getpid())
        pthread_mutex_unlock(&p->lock);
}

void ptxpack_preload_cancel(ptxpack_preloading *p)
{
    if (p == NULL || p->pid != getpid())
        return;
    pthread_mutex_lock(&p->lock);
    p->cancelled = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

void ptxpack_preload_free(ptxpack_preloading *p)
{
    if (p == NULL || p->pid != getpid())
        return;
    pthread_mutex_lock(&p->lock);
    p->cancelled = p->closing = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    for (size_t i = 0; i < p->thread_count; i++)
        pthread_join(p->threads[i], NULL);
    while (p->items != NULL) {
        struct ptxpack_preload_item *item = p->items;
        p->items = item->next;
        free_item(item);
    }
    ptxpack_close(p->handle);
    for (size_t i = 0; i < sizeof p->strings / sizeof p->strings[0]; i++)
        free(p->strings[i]);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->opening);
    pthread_mutex_destroy(&p->telling);
    pthread_mutex_destroy(&p->lock);
    free(p);
}
