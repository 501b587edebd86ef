/* progress.c - signs of life of long work: a thread that writes to stderr. */
#include "progress.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 160, TERMINAL_MS = 500 };

static int elsewhere_ms = 10000;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t  wake;
    pthread_t       thread;
    const char     *subcommand, *what;
    char            step[LINE];
    size_t          done, count, depth;
    bool            running, ending, terminal, shown;
    struct timespec from;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};

/* With write(), since a fork must find no stream locked. */
static void put(const char *text)
{
    ssize_t written = write(STDERR_FILENO, text, strlen(text));
    (void)written; /* nobody can be told */
}

static void clear(void)
{
    if (state.shown)
        put("\r\033[K");
    state.shown = false;
}

/* "ptxpack list: 120 s: 3 of 59: compiling ..." */
static void show(void)
{
    struct timespec now;
    char            line[LINE + 128], count[64] = "";
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (state.count > 0)
        snprintf(count, sizeof count, ": %zu of %zu", state.done, state.count);
    snprintf(line, sizeof line, "%sptxpack %s: %lld s%s: %.110s%s", state.terminal ? "\r\033[K" : "",
             state.subcommand, (long long)(now.tv_sec - state.from.tv_sec), count,
             *state.step ? state.step : state.what, state.terminal ? "" : "\n");
    put(line);
    state.shown = state.terminal;
}

static void *watch(void *nothing)
{
    pthread_mutex_lock(&state.lock);
    while (!state.ending) {
        struct timespec until;
        int             ms = state.terminal ? TERMINAL_MS : elsewhere_ms;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += (long)(ms % 1000) * 1000000;
        until.tv_sec += ms / 1000 + until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (pthread_cond_timedwait(&state.wake, &state.lock, &until) != 0 && !state.ending)
            show();
    }
    pthread_mutex_unlock(&state.lock);
    return nothing;
}

void progress_every(int ms) { elsewhere_ms = ms; }

void progress_begin(const char *subcommand, const char *what)
{
    sigset_t all, before;
    if (state.depth++ > 0)
        return;
    state.subcommand = subcommand;
    state.what = what;
    state.step[0] = '\0';
    state.count = 0;
    state.ending = false;
    state.terminal = isatty(STDERR_FILENO);
    clock_gettime(CLOCK_MONOTONIC, &state.from);
    sigfillset(&all); /* signals are the main thread's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    state.running = pthread_create(&state.thread, NULL, watch, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void progress_step(size_t done, size_t count, const char *format, ...)
{
    va_list arguments;
    pthread_mutex_lock(&state.lock);
    va_start(arguments, format);
    vsnprintf(state.step, sizeof state.step, format, arguments);
    va_end(arguments);
    state.done = done;
    state.count = count;
    pthread_mutex_unlock(&state.lock);
}

void progress_clear(void)
{
    pthread_mutex_lock(&state.lock);
    clear();
    pthread_mutex_unlock(&state.lock);
}

void progress_end(void)
{
    if (state.depth == 0 || --state.depth > 0)
        return;
    pthread_mutex_lock(&state.lock);
    state.ending = true;
    pthread_cond_signal(&state.wake);
    pthread_mutex_unlock(&state.lock);
    if (state.running)
        pthread_join(state.thread, NULL);
    state.running = false;
    clear();
}
