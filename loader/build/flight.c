/* flight.c - the process-wide table of what compilers made, by digest. */
#include "flight.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "loader/internal.h"

enum state { MAKING, READY, FAILED };
struct flight {
    struct ptxpack_code code; /* first: a code is a pointer to its flight */
    char                digest[33];
    enum state          state;
    unsigned            references;
    ptxpack_status      status;
    char                detail[PTXPACK_DETAIL_BYTES];
    struct flight      *next;
};

static struct flight  *flights;                          /* in the table: MAKING or READY, and not rejected */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the table and all that is in it */
static pthread_cond_t  landed = PTHREAD_COND_INITIALIZER;

/* A child has none of the threads that are making something: it starts with an empty table. */
static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork_parent(void) { pthread_mutex_unlock(&lock); }
static void after_fork_child(void)
{
    flights = NULL;
    pthread_cond_init(&landed, NULL);
    pthread_mutex_unlock(&lock);
}
static void watch_forks(void) { pthread_atfork(before_fork, after_fork_parent, after_fork_child); }

static void leave_table(struct flight *f)
{
    for (struct flight **at = &flights; *at; at = &(*at)->next)
        if (*at == f) {
            *at = f->next;
            return;
        }
}

/* With the lock held. */
static void drop(struct flight *f)
{
    if (--f->references)
        return;
    leave_table(f);
    free(f->code.bytes);
    free(f->code.notes);
    free(f->code.log);
    free(f);
}

static struct flight *join(const char *digest)
{
    struct flight *f = flights;
    while (f != NULL && strcmp(f->digest, digest) != 0)
        f = f->next;
    if (f != NULL)
        f->references++;
    return f;
}

static struct flight *start(const char *digest)
{
    struct flight *f = (struct flight *)calloc(1, sizeof *f);
    if (f == NULL)
        return NULL;
    memcpy(f->digest, digest, sizeof f->digest);
    f->references = 1;
    f->next = flights;
    flights = f;
    return f;
}

/* With the lock held; it is free while `make` works. */
static void fly(struct flight *f, ptxpack_code_maker make, void *context)
{
    pthread_mutex_unlock(&lock);
    ptxpack_status status = make(context, &f->code, f->detail, sizeof f->detail);
    pthread_mutex_lock(&lock);
    f->status = status;
    f->state = status == PTXPACK_OK ? READY : FAILED;
    if (status != PTXPACK_OK)
        leave_table(f);
    pthread_cond_broadcast(&landed);
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
    struct flight *f = join(digest);
    if (f == NULL && (f = start(digest)) != NULL)
        fly(f, make, context);
    while (f != NULL && f->state == MAKING)
        pthread_cond_wait(&landed, &lock);
    if (f != NULL) {
        status = f->status;
        snprintf(detail, cap, "%s", f->detail);
        if (status == PTXPACK_OK || f->code.log != NULL)
            *out = &f->code;
        else
            drop(f);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

/* The flight that a code belongs to. */
static struct flight *flight_of(const struct ptxpack_code *code) { return (struct flight *)(uintptr_t)code; }

void ptxpack_code_release(const struct ptxpack_code *code)
{
    if (code == NULL)
        return;
    pthread_mutex_lock(&lock);
    drop(flight_of(code));
    pthread_mutex_unlock(&lock);
}

void ptxpack_code_reject(const struct ptxpack_code *code)
{
    pthread_mutex_lock(&lock);
    leave_table(flight_of(code));
    pthread_mutex_unlock(&lock);
}
