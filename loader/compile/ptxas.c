/* ptxas.c - running a toolkit's ptxas: no shell, no file on disk, its output through a pipe.
 *
 * The text and the machine code are files in memory, which ptxas opens as /proc/self/fd/N: nothing is left
 * behind when a signal ends the process, no temporary folder can be missing or full, and nobody else sees the
 * text. */
#include "ptxas.h"
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "find.h"
#include "log.h"
#include "loader/files.h"

extern char **environ;

enum { MAX_OUTPUT = 4 << 20, MAX_OPTIONS = 8, MAX_CUBIN = 256 << 20 }; /* bytes, words, bytes */

/* ---- running a program ---------------------------------------------------------------------------- */

/* Read `fd` to its end and keep at most MAX_OUTPUT bytes. */
static char *drain(int fd)
{
    size_t have = 0, room = 4096;
    char  *text = (char *)malloc(room);
    char   rest[4096];
    for (;;) {
        bool    full = text == NULL || have + 1 >= MAX_OUTPUT;
        ssize_t got = full ? read(fd, rest, sizeof rest) : read(fd, text + have, room - have - 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        if (full)
            continue;
        have += (size_t)got;
        if (have + 1 == room) {
            char *larger = (char *)realloc(text, room *= 2);
            if (larger == NULL)
                free(text);
            text = larger;
        }
    }
    if (text != NULL)
        text[have] = '\0';
    return text;
}

/* Run argv[0], which inherits the files in `kept`; *output is what it wrote to both streams.  Returns -1 with
 * errno if it could not be run, 255 if a signal ended it, otherwise its exit status.  A process that ignores
 * SIGCHLD never learns the status: then the result is 0, and the caller checks what the program wrote. */
static int run(char *const *argv, const int *kept, int count, char **output)
{
    int                        ends[2], status = -1;
    pid_t                      child;
    posix_spawn_file_actions_t actions;
    *output = NULL;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
    for (int i = 0; i < count; i++)
        posix_spawn_file_actions_adddup2(&actions, kept[i], kept[i]); /* not closed on exec */
    int error = posix_spawn(&child, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (error == 0) {
        *output = drain(ends[0]);
        pid_t got;
        while ((got = waitpid(child, &status, 0)) < 0 && errno == EINTR)
            ;
        status = got < 0 ? 0 : WIFEXITED(status) ? WEXITSTATUS(status) : 255;
    }
    close(ends[0]);
    errno = error;
    return status;
}

/* ---- finding it ----------------------------------------------------------------------------------- */

/* "...release 13.0, V13.0.88\nBuild cuda_13.0.r13.0/compiler.36424714_0" -> 13000 and the words from
 * "release". */
static bool read_version(struct ptxpack_ptxas *out)
{
    char        word[] = "--version", *output = NULL;
    char       *argv[] = {out->path, word, NULL};
    int         major = 0, minor = 0;
    bool        good = run(argv, NULL, 0, &output) == 0 && output != NULL;
    const char *release = good ? strstr(output, "release ") : NULL;
    good = release != NULL && sscanf(release, "release %3d.%2d", &major, &minor) == 2 && major > 0 &&
           minor >= 0;
    if (good) {
        out->cuda = 1000 * major + 10 * minor;
        snprintf(out->identity, sizeof out->identity, "%s", release);
    }
    free(output);
    return good;
}

/* The programs that this process knows already, because to ask one takes some 10 ms in each ptxpack_open.  The
 * list only grows, and each entry is immutable.  So the list needs no lock, which a fork might leave locked. */
struct answer {
    struct ptxpack_ptxas ptxas;
    struct stat          file;
    const struct answer *next;
};
static _Atomic(const struct answer *) answers;

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Like read_version, but the program is run only once for each state of its file. */
static bool know_version(struct ptxpack_ptxas *out)
{
    struct stat file;
    if (stat(out->path, &file) != 0)
        return false;
    const struct answer *first = atomic_load(&answers);
    for (const struct answer *a = first; a != NULL; a = a->next)
        if (strcmp(a->ptxas.path, out->path) == 0 && same_file(&a->file, &file)) {
            *out = a->ptxas;
            return true;
        }
    if (!read_version(out))
        return false;
    struct answer *made = (struct answer *)malloc(sizeof *made);
    if (made != NULL) {
        *made = (struct answer){*out, file, first};
        while (!atomic_compare_exchange_weak(&answers, &made->next, made))
            ;
    }
    return true;
}

/* A ptxpack_find_take: it takes the first ptxas that reports its version. */
static bool take_ptxas(const char *path, void *context)
{
    struct ptxpack_ptxas *out = (struct ptxpack_ptxas *)context;
    int                   n = snprintf(out->path, sizeof out->path, "%s", path);
    return n > 0 && (size_t)n < sizeof out->path && access(out->path, X_OK) == 0 && know_version(out);
}

bool ptxpack_ptxas_open(struct ptxpack_ptxas *out, char *why, size_t cap)
{
    const char *named = secure_getenv("PTXPACK_PTXAS");
    memset(out, 0, sizeof *out);
    if (named != NULL && *named) {
        snprintf(why, cap, "PTXPACK_PTXAS=%s names no usable ptxas", named);
        return strcmp(named, "none") != 0 && take_ptxas(named, out);
    }
    snprintf(why, cap, "there is no ptxas in PATH, /usr/local/cuda or Python's packages");
    return ptxpack_find_tool("ptxas", take_ptxas, out);
}

/* ---- compiling ------------------------------------------------------------------------------------ */

static bool write_all(int fd, const char *text, size_t bytes)
{
    while (bytes) {
        ssize_t n = write(fd, text, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        text += n;
        bytes -= (size_t)n;
    }
    return true;
}

/* A file in memory with `text`, and its path for a child that inherits it; -1 with errno. */
static int make_file(const char *text, size_t bytes, char path[32])
{
    int fd = memfd_create("ptxpack", MFD_CLOEXEC);
    if (fd >= 0 &&
        fd <= STDERR_FILENO) { /* one of the standard streams is closed, and the child gets its own */
        int low = fd;
        fd = fcntl(low, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        close(low);
    }
    if (fd >= 0 && !write_all(fd, text, bytes)) {
        int error = errno;
        close(fd);
        errno = error;
        fd = -1;
    }
    snprintf(path, 32, "/proc/self/fd/%d", fd);
    return fd;
}

/* A failure before ptxas could say anything: the log says why. */
static ptxpack_status failed(struct ptxpack_compiled *compiled, ptxpack_status status, const char *what)
{
    const char *why = strerror(errno);
    free(compiled->log);
    if (asprintf(&compiled->log, "%s: %s\n", what, why) < 0)
        compiled->log = NULL; /* asprintf leaves it undefined */
    return compiled->log != NULL ? status : PTXPACK_E_MEMORY;
}

static ptxpack_status run_ptxas(const struct ptxpack_ptxas *ptxas, const int files[2], char *input,
                                char *output, const char *const *options, int count,
                                struct ptxpack_compiled *compiled)
{
    char *argv[MAX_OPTIONS + 5], flag[] = "-o";
    int   n = 0;
    if (count > MAX_OPTIONS)
        return PTXPACK_E_ARG;
    argv[n++] = (char *)(uintptr_t)ptxas->path;
    for (int i = 0; i < count; i++)
        argv[n++] = (char *)(uintptr_t)options[i]; /* posix_spawn does not write to them */
    argv[n++] = flag;
    argv[n++] = output;
    argv[n++] = input;
    argv[n] = NULL;
    int status = run(argv, files, 2, &compiled->log);
    if (status < 0)
        return failed(compiled, PTXPACK_E_NO_JIT, "it cannot be run");
    if (compiled->log == NULL)
        return PTXPACK_E_MEMORY;
    if (status == 0)
        compiled->cubin = ptxpack_read_file(output, MAX_CUBIN, &compiled->cubin_bytes);
    if (compiled->cubin != NULL && compiled->cubin_bytes)
        return PTXPACK_OK;
    return strstr(compiled->log, "Unsupported .version") != NULL ? PTXPACK_E_ISA : PTXPACK_E_COMPILE;
}

ptxpack_status ptxpack_ptxas_compile(const struct ptxpack_ptxas *ptxas, const char *ptx, size_t bytes,
                                     const char *const *options, int count, struct ptxpack_compiled *compiled)
{
    char           input[32], output[32];
    ptxpack_status status;
    memset(compiled, 0, sizeof *compiled);
    int files[2] = {make_file(ptx, bytes, input), -1};
    if (files[0] >= 0)
        files[1] = make_file("", 0, output);
    if (files[1] >= 0)
        status = run_ptxas(ptxas, files, input, output, options, count, compiled);
    else
        status = failed(compiled, PTXPACK_E_IO, "a file in memory cannot be made for it");
    for (int i = 0; i < 2; i++)
        if (files[i] >= 0)
            close(files[i]);
    if (status != PTXPACK_OK) {
        free(compiled->cubin);
        compiled->cubin = NULL;
    }
    return status;
}
