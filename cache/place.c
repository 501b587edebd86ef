/* place.c - where the cache directory is, and whether it may be trusted. */
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>
#include "internal.h"

const char *ptxpack_cache_env(const char *name)
{
    const char *value = secure_getenv(name);
    return value != NULL && *value ? value : NULL;
}

bool ptxpack_cache_env_flag(const char *name)
{
    static const char *const off[] = {"0", "no", "off", "false"};
    const char              *value = name != NULL ? ptxpack_cache_env(name) : NULL;
    for (size_t i = 0; value != NULL && i < sizeof off / sizeof *off; i++)
        if (!strcmp(value, off[i]))
            return false;
    return value != NULL;
}

bool ptxpack_cache_parse_size(const char *text, uint64_t *bytes)
{
    uint64_t    value = 0;
    const char *p = text;
    if (text == NULL)
        return false;
    for (; *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
            return false;
    if (p == text)
        return false;
    static const char suffixes[] = "kKmMgGtT";
    const char       *suffix = *p ? strchr(suffixes, *p) : NULL;
    if (*p && (suffix == NULL || p[1]))
        return false;
    int shift = suffix != NULL ? 10 * (1 + (int)(suffix - suffixes) / 2) : 0;
    if (!value || value > UINT64_MAX >> shift)
        return false;
    *bytes = value << shift;
    return true;
}

/* Join paths, malloc'ed, without a double slash if `a` ends in one. */
static char *join(const char *a, const char *b, const char *c)
{
    size_t end = strlen(a);
    while (end && a[end - 1] == '/')
        end--;
    char *path = NULL;
    if (asprintf(&path, "%.*s/%s%s%s", (int)end, a, b, *b && *c ? "/" : "", c) < 0)
        return NULL;
    return path;
}

/* Make it absolute, so that a later chdir does not move it, and without slashes at the end. */
static char *absolute(const char *dir)
{
    char *here = *dir == '/' ? NULL : getcwd(NULL, 0);
    char *path = *dir == '/' ? strdup(dir) : here != NULL ? join(here, dir, "") : NULL;
    free(here);
    for (size_t end = path != NULL ? strlen(path) : 0; end > 1 && path[end - 1] == '/'; end--)
        path[end - 1] = '\0';
    return path;
}

/* The malloc'ed home directory of the effective user according to the password database. */
static char *passwd_home(void)
{
    char *home = NULL, *buffer = NULL;
    for (size_t size = 1024; size <= 1 << 20; size *= 4) {
        struct passwd entry, *found = NULL;
        char         *larger = (char *)realloc(buffer, size);
        if (larger == NULL)
            break;
        buffer = larger;
        int error = getpwuid_r(geteuid(), &entry, buffer, size, &found);
        if (error == ERANGE)
            continue;
        if (!error && found != NULL && entry.pw_dir != NULL && *entry.pw_dir == '/')
            home = strdup(entry.pw_dir);
        break;
    }
    free(buffer);
    return home;
}

char *ptxpack_cache_choose_dir(const char *wanted, char line[PTXPACK_CACHE_LINE])
{
    const char *value;
    char       *path;
    if ((wanted != NULL && *wanted) || (wanted = ptxpack_cache_env("PTXPACK_CACHE_DIR")) != NULL) {
        path = absolute(wanted);
    } else if ((value = ptxpack_cache_env("XDG_CACHE_HOME")) != NULL && *value == '/') {
        path = join(value, "ptxpack", ""); /* the XDG rules: a relative path counts as unset */
    } else if ((value = ptxpack_cache_env("HOME")) != NULL && *value == '/') {
        path = join(value, ".cache", "ptxpack");
    } else {
        char *home = passwd_home();
        if (home == NULL) {
            snprintf(line, PTXPACK_CACHE_LINE,
                     "cache disabled: PTXPACK_CACHE_DIR, XDG_CACHE_HOME and HOME name no absolute directory, "
                     "and user %ld has no home",
                     (long)geteuid());
            return NULL;
        }
        path = join(home, ".cache", "ptxpack");
        free(home);
    }
    if (path == NULL)
        snprintf(line, PTXPACK_CACHE_LINE,
                 "cache disabled: the path of its directory could not be determined: %s", strerror(errno));
    return path;
}

/* Like mkdir -p with mode 0700: 0 or an errno.  Another process may be making the same directory. */
static int make_path(const char *dir)
{
    char *path = strdup(dir);
    int   error = path != NULL ? 0 : ENOMEM;
    for (char *slash = path; slash != NULL && !error;) {
        slash = strchr(slash + 1, '/');
        if (slash != NULL)
            *slash = '\0';
        struct stat st;
        if (mkdir(path, 0700) != 0 && errno != EEXIST) {
            int why = errno; /* it does not matter if the directory exists, as an automount may */
            error = stat(path, &st) == 0 ? 0 : why;
        }
        if (slash != NULL)
            *slash = '/';
    }
    free(path);
    return error;
}

static bool trusted(int fd, const char *dir, bool root_may_own, char line[PTXPACK_CACHE_LINE])
{
    struct stat st;
    if (fstat(fd, &st) != 0) {
        snprintf(line, PTXPACK_CACHE_LINE, "cache disabled: %.300s: %s", dir, strerror(errno));
        return false;
    }
    if (st.st_uid != geteuid() && !(root_may_own && st.st_uid == 0)) {
        snprintf(line, PTXPACK_CACHE_LINE, "cache disabled: %.300s belongs to user %ld, not to user %ld", dir,
                 (long)st.st_uid, (long)geteuid());
        errno = EPERM;
        return false;
    }
    if (st.st_mode & (S_IWGRP | S_IWOTH)) {
        snprintf(line, PTXPACK_CACHE_LINE,
                 "cache disabled: %.300s is writable by group or others (mode %04o): chmod go-w it", dir,
                 (unsigned)(st.st_mode & 07777));
        errno = EPERM;
        return false;
    }
    return true;
}

int ptxpack_cache_open_dir(const char *dir, bool create, bool root_may_own, char line[PTXPACK_CACHE_LINE])
{
    const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    int       fd = open(dir, flags);
    if (fd < 0 && errno == ENOENT && create) {
        errno = make_path(dir);
        if (!errno)
            fd = open(dir, flags);
    }
    if (fd >= 0 && trusted(fd, dir, root_may_own, line))
        return fd;
    int error = errno;
    if (fd < 0)
        snprintf(line, PTXPACK_CACHE_LINE, "cache disabled: %.300s: %s", dir, strerror(error));
    else
        close(fd);
    errno = error;
    return -1;
}
