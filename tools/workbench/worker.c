/* worker.c - the process that compiles and runs: starting it, feeding it, ending it.
 *
 * The job and the result are in shared memory; single bytes on a pair of sockets start a job and report its end. */
#include "worker.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/device.h"
#include "tools/progress.h"

enum { /* to the worker; from it */
       RUN = 'r',
       WAITING = 'w',
       IDLE = 'i',
       DONE = 'd'
};
enum { BEAT_MS = 50, CLOSE_MS = 5000 };

struct shared {
    program_job    job;
    program_result result;
};

struct program_worker {
    const program_settings *s;
    struct shared          *shared;
    int                     cubin, profile;
    pid_t                   process; /* 0: there is none */
    int                     socket;
};

/* ---- Ctrl-C --------------------------------------------------------------------------------------- */
/* Interrupts are blocked except while something waits, so that none is lost between the check and the wait. */
static volatile sig_atomic_t interrupted;
static bool                  caught;

static void note_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

void program_catch_interrupts(void)
{
    struct sigaction action;
    sigset_t         set;
    memset(&action, 0, sizeof action);
    action.sa_handler = note_interrupt;
    sigaction(SIGINT, &action, NULL);
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    caught = true;
}

bool program_interrupted(void) { return interrupted != 0; }

/* poll() with interrupts unblocked.  ms < 0: no time limit. */
static int wait_for(struct pollfd *fds, nfds_t count, double ms)
{
    struct timespec limit = {0, 0};
    sigset_t        open;
    if (interrupted) {
        errno = EINTR;
        return -1;
    }
    sigprocmask(SIG_BLOCK, NULL, &open);
    if (caught)
        sigdelset(&open, SIGINT);
    limit.tv_sec = (time_t)(ms / 1e3);
    limit.tv_nsec = (long)((ms - 1e3 * (double)limit.tv_sec) * 1e6);
    return ppoll(fds, count, ms < 0 ? NULL : &limit, &open);
}

bool program_sleep(int ms)
{
    wait_for(NULL, 0, ms);
    return !interrupted;
}

/* ---- in the worker -------------------------------------------------------------------------------- */
typedef struct beat {
    int    socket;
    bool   waiting;
    double sent;
} beat;

static void send_byte(int socket, char byte)
{
    while (send(socket, &byte, 1, MSG_NOSIGNAL) < 0 && errno == EINTR)
        ;
}

/* Send only changes, and now and then a sign of life: this runs between launches that are timed. */
static void tell(void *context, bool waiting)
{
    beat *b = (beat *)context;
    if (waiting == b->waiting && (!waiting || now_ms() - b->sent < BEAT_MS))
        return;
    b->waiting = waiting;
    b->sent = now_ms();
    send_byte(b->socket, waiting ? WAITING : IDLE);
}

static void serve(const program_worker *w, int socket)
{
    beat            b = {socket, false, 0};
    program_runner *r = program_runner_open(w->s, w->cubin, w->profile, tell, &b);
    char            byte;
    ssize_t         got;
    while (r != NULL && ((got = read(socket, &byte, 1)) > 0 || (got < 0 && errno == EINTR))) {
        if (got < 0)
            continue;
        program_run(r, &w->shared->job, &w->shared->result);
        fflush(stdout); /* the kernel's text comes before the report; _exit does not write what is left */
        tell(&b, false);
        send_byte(socket, DONE);
        if (w->shared->result.lost)
            return; /* no call to a driver whose context is broken */
    }
    program_runner_close(r);
}

/* What a kernel prints reaches a file or a pipe line by line, as it reaches a terminal: a kernel that is ended by force
 * has shown how far it came.  With --json, standard output is JSON alone, and the kernel's text goes to standard error. */
static void prepare_output(const program_settings *s)
{
    if (s->json)
        dup2(STDERR_FILENO, STDOUT_FILENO);
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
}

static void become_worker(const program_worker *w, int socket, pid_t parent)
{
    sigset_t set;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(COMMAND_FAILED);
    signal(SIGINT, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    prepare_output(w->s);
    serve(w, socket);
    _exit(COMMAND_OK);
}

/* ---- in the command ------------------------------------------------------------------------------- */
static bool start(program_worker *w)
{
    int   ends[2];
    pid_t self = getpid();
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return false;
    fflush(NULL); /* otherwise buffered output would be written twice */
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        become_worker(w, ends[1], self);
    }
    close(ends[1]);
    if (child < 0) {
        int error = errno;
        close(ends[0]);
        errno = error;
        return false;
    }
    w->process = child;
    w->socket = ends[0];
    return true;
}

/* Wait for the process to end, at most `ms`, then kill it; returns its wait status. */
static int finish(program_worker *w, double patience_ms)
{
    int    status = 0;
    double until = now_ms() + patience_ms;
    pid_t  ended = 0;
    if (w->process == 0)
        return 0;
    close(w->socket);
    while (patience_ms > 0 && (ended = waitpid(w->process, &status, WNOHANG)) == 0 && now_ms() < until &&
           !interrupted)
        usleep(1000);
    if (ended == 0)
        kill(w->process, SIGKILL);
    while (ended != w->process && (ended = waitpid(w->process, &status, 0)) < 0 && errno == EINTR)
        ;
    w->process = 0;
    return status;
}

static void fail(program_worker *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void fail(program_worker *w, const char *format, ...)
{
    program_result *result = &w->shared->result;
    va_list         arguments;
    va_start(arguments, format);
    vsnprintf(result->line, sizeof result->line, format, arguments);
    va_end(arguments);
    result->status = COMMAND_FAILED;
    result->ran = false;
}

/* The emulated driver is slow. */
static double limit_ms(const program_worker *w)
{
    return 1e3 * (w->s->timeout > 0 ? w->s->timeout : w->shared->result.device.emulated ? 60 : 10);
}

static void report_end(program_worker *w, bool waiting)
{
    int         status = finish(w, CLOSE_MS);
    const char *what = waiting ? "while the kernel ran" : "while it compiled or loaded";
    if (interrupted)
        fail(w, "interrupted");
    else if (WIFSIGNALED(status))
        fail(w, "the process that compiles and runs was ended by signal %d (%s) %s", WTERMSIG(status),
             strsignal(WTERMSIG(status)), what);
    else
        fail(w, "the process that compiles and runs ended with status %d %s", WEXITSTATUS(status), what);
}

/* Wait until the worker has finished the job; false when the process has ended. */
static bool await(program_worker *w)
{
    struct pollfd fd = {.fd = w->socket, .events = POLLIN};
    bool          waiting = false;
    double        since = 0;
    for (;;) {
        double left = waiting ? since + limit_ms(w) - now_ms() : -1;
        if (waiting && left <= 0) {
            fail(w, "%s did not end within %g s and was ended by force (--timeout)",
                 w->shared->result.entries[0].name, limit_ms(w) / 1e3);
            finish(w, 0);
            return false;
        }
        int  ready = wait_for(&fd, 1, left);
        char byte;
        if (ready < 0 && interrupted) {
            fail(w, "interrupted");
            finish(w, 0);
            return false;
        }
        if (ready <= 0)
            continue;
        ssize_t got = read(w->socket, &byte, 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            report_end(w, waiting);
            return false;
        }
        if (byte == DONE)
            return true;
        waiting = byte == WAITING;
        since = now_ms();
    }
}

const program_result *program_worker_run(program_worker *w, const program_job *job)
{
    w->shared->job = *job;
    memset(&w->shared->result, 0, sizeof w->shared->result);
    if (w->process == 0 && !start(w)) {
        fail(w, "a process to run the kernel in cannot be made: %s", strerror(errno));
        return &w->shared->result;
    }
    progress_begin(w->s->subcommand, "compiling and running"); /* not before the worker is made */
    send_byte(w->socket, RUN);
    if (await(w) && w->shared->result.lost)
        finish(w, CLOSE_MS);
    progress_end();
    return &w->shared->result;
}

int program_worker_cubin(const program_worker *w) { return w->cubin; }
int program_worker_profile(const program_worker *w) { return w->profile; }

program_worker *program_worker_open(const program_settings *s)
{
    program_worker *w = (program_worker *)calloc(1, sizeof *w);
    void *memory = mmap(NULL, sizeof *w->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int   cubin = memfd_create("machine code", MFD_CLOEXEC), profile = memfd_create("profile", MFD_CLOEXEC);
    if (w != NULL && memory != MAP_FAILED && cubin >= 0 && profile >= 0) {
        *w = (program_worker){.s = s, .shared = (struct shared *)memory, .cubin = cubin, .profile = profile};
        return w;
    }
    command_fail(s->subcommand, "no memory: %s", strerror(errno));
    if (memory != MAP_FAILED)
        munmap(memory, sizeof *w->shared);
    if (cubin >= 0)
        close(cubin);
    if (profile >= 0)
        close(profile);
    free(w);
    return NULL;
}

void program_worker_close(program_worker *w)
{
    if (w == NULL)
        return;
    finish(w, CLOSE_MS);
    close(w->cubin);
    close(w->profile);
    munmap(w->shared, sizeof *w->shared);
    free(w);
}
