/* ptxas.c - running a toolkit's ptxas: no shell, private temporary files, its output through a pipe. */
#include "ptxas.h"
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
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

/* Run argv[0]; *output is what it wrote to both streams.  Returns -1 when it could not be run, otherwise
 * its exit status, or 255 when a signal ended it.  A process that ignores SIGCHLD never learns the status:
 * then 0, and the caller checks what the program wrote. */
static int run(char *const *argv, char **output)
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
    bool        good = run(argv, &output) == 0 && output != NULL;
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

/* What this process knows already, because asking costs each ptxpack_open some 10 ms.  The list only grows
 * and each entry is immutable, so it needs no lock, which a fork might find held. */
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

/* As read_version, but the program is run once for each state of its file. */
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

static bool try_path(struct ptxpack_ptxas *out, const char *folder, size_t bytes, const char *name)
{
    int n = snprintf(out->path, sizeof out->path, "%.*s%s%s", (int)bytes, folder, bytes ? "/" : "", name);
    return n > 0 && (size_t)n < sizeof out->path && access(out->path, X_OK) == 0 && know_version(out);
}

bool ptxpack_ptxas_open(struct ptxpack_ptxas *out, char *why, size_t cap)
{
    static const char usual[] = "/usr/local/cuda/bin";
    memset(out, 0, sizeof *out);
    const char *named = secure_getenv("PTXPACK_PTXAS"), *path = secure_getenv("PATH");
    if (named != NULL && *named) {
        if (strcmp(named, "none") != 0 && try_path(out, "", 0, named))
            return true;
        snprintf(why, cap, "PTXPACK_PTXAS=%s gives none", named);
        return false;
    }
    for (const char *at = path; at != NULL && *at;) {
        size_t bytes = strcspn(at, ":");
        if (*at == '/' && bytes < sizeof out->path && try_path(out, at, bytes, "ptxas"))
            return true;
        at += bytes + (at[bytes] == ':');
    }
    if (try_path(out, usual, sizeof usual - 1, "ptxas"))
        return true;
    snprintf(why, cap, "no ptxas in PATH or %s", usual);
    return false;
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

/* Make a private file from the pattern in `name`, empty or with `text`. */
static bool make_file(char *name, const char *text, size_t bytes)
{
    int fd = mkostemp(name, O_CLOEXEC);
    if (fd < 0) {
        name[0] = '\0';
        return false;
    }
    bool good = write_all(fd, text, bytes);
    return close(fd) == 0 && good;
}

static ptxpack_status run_ptxas(const struct ptxpack_ptxas *ptxas, char *input, char *output,
                                const char *const *options, int count, struct ptxpack_compiled *compiled)
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
    int status = run(argv, &compiled->log);
    if (status < 0)
        return PTXPACK_E_NO_JIT;
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
    char           input[512] = "", output[512] = "";
    ptxpack_status status = PTXPACK_E_IO;
    const char    *folder = secure_getenv("TMPDIR");
    memset(compiled, 0, sizeof *compiled);
    if (folder == NULL || *folder != '/' || strlen(folder) > sizeof input - 32)
        folder = "/tmp";
    snprintf(input, sizeof input, "%s/ptxpack-XXXXXX", folder);
    snprintf(output, sizeof output, "%s/ptxpack-XXXXXX", folder);
    if (make_file(input, ptx, bytes) && make_file(output, "", 0))
        status = run_ptxas(ptxas, input, output, options, count, compiled);
    if (*input)
        unlink(input);
    if (*output)
        unlink(output);
    if (status != PTXPACK_OK) {
        free(compiled->cubin);
        compiled->cubin = NULL;
    }
    return status;
}
