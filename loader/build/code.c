/* code.c - the table of this process with the results of compilers, by digest. */
#include "code.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "loader/internal.h"

enum state { MAKING, READY, FAILED };
struct ptxpack_shared {
    struct ptxpack_code    code;
    char                   digest[33];
    enum state             state;
    unsigned               references;
    ptxpack_status         status;
    char                   detail[PTXPACK_DETAIL_BYTES];
    struct ptxpack_shared *next;
};

static struct ptxpack_shared *table;                            /* MAKING or READY, and not rejected */
static pthread_mutex_t        lock = PTHREAD_MUTEX_INITIALIZER; /* guards the table and its contents */
static pthread_cond_t         finished = PTHREAD_COND_INITIALIZER;

/* A child process does not have the threads that are making code: it starts with an empty table. */
static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork_parent(void) { pthread_mutex_unlock(&lock); }
static void after_fork_child(void)
{
    table = NULL;
    pthread_cond_init(&finished, NULL);
    pthread_mutex_unlock(&lock);
}
static void watch_forks(void) { pthread_atfork(before_fork, after_fork_parent, after_fork_child); }

static void leave_table(struct ptxpack_shared *s)
{
    for (struct ptxpack_shared **at = &table; *at != NULL; at = &(*at)->next)
        if (*at == s) {
            *at = s->next;
            return;
        }
}

/* The caller holds the lock. */
static void drop(struct ptxpack_shared *s)
{
    if (--s->references)
        return;
    leave_table(s);
    free(s->code.bytes);
    free(s->code.notes);
    free(s->code.log);
    free(s);
}

static struct ptxpack_shared *hold_existing(const char *digest)
{
    struct ptxpack_shared *s = table;
    while (s != NULL && strcmp(s->digest, digest) != 0)
        s = s->next;
    if (s != NULL)
        s->references++;
    return s;
}

static struct ptxpack_shared *add(const char *digest)
{
    struct ptxpack_shared *s = (struct ptxpack_shared *)calloc(1, sizeof *s);
    if (s == NULL)
        return NULL;
    memcpy(s->digest, digest, sizeof s->digest);
    s->code.shared = s;
    s->references = 1;
    s->next = table;
    table = s;
    return s;
}

/* The caller holds the lock, which is released while `make` works. */
static void run(struct ptxpack_shared *s, ptxpack_code_maker make, void *context)
{
    pthread_mutex_unlock(&lock);
    ptxpack_status status = make(context, &s->code, s->detail, sizeof s->detail);
    pthread_mutex_lock(&lock);
    s->status = status;
    s->state = status == PTXPACK_OK ? READY : FAILED;
    if (status != PTXPACK_OK)
        leave_table(s);
    pthread_cond_broadcast(&finished);
}

ptxpack_status ptxpack_code_obtain(const char digest[33], ptxpack_code_maker make, void *context,
                                   const struct ptxpack_code **out, char *detail, size_t cap)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    ptxpack_status status = PTXPACK_E_MEMORY;
    *out = NULL;
    snprintf(detail, cap, "out of memory for a kernel's machine code");
    if (!digest[0])
        return status; /* no key could be made */
    pthread_mutex_lock(&lock);
    struct ptxpack_shared *s = hold_existing(digest);
    if (s == NULL && (s = add(digest)) != NULL)
        run(s, make, context);
    while (s != NULL && s->state == MAKING)
        pthread_cond_wait(&finished, &lock);
    if (s != NULL) {
        status = s->status;
        snprintf(detail, cap, "%s", s->detail);
        if (status == PTXPACK_OK || s->code.log != NULL)
            *out = &s->code;
        else
            drop(s);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

void ptxpack_code_release(const struct ptxpack_code *code)
{
    if (code == NULL)
        return;
    pthread_mutex_lock(&lock);
    drop(code->shared);
    pthread_mutex_unlock(&lock);
}

void ptxpack_code_reject(const struct ptxpack_code *code)
{
    pthread_mutex_lock(&lock);
    leave_table(code->shared);
    pthread_mutex_unlock(&lock);
}

void ptxpack_code_take_entry(struct ptxpack_code *code, ptxpack_cache_entry *entry)
{
    code->bytes = entry->payload;
    code->size = entry->payload_bytes;
    code->notes = (char *)entry->metadata;
    code->notes_bytes = entry->metadata_bytes;
    code->from_cache = true;
    entry->payload = entry->metadata = NULL;
}
