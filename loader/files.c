/* files.c - reading a whole file, and identifying the exact build of a shared library. */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cache/cache.h"
#include "files.h"

enum { MAX_LIBRARY = 60 << 20 }; /* bytes; the key builder takes 64 MiB */

static char *read_all(int fd, size_t room, size_t *bytes)
{
    char  *text = (char *)malloc(room + 1);
    size_t have = 0;
    while (text != NULL && have < room) {
        ssize_t got = read(fd, text + have, room - have);
        if (got == 0)
            break;
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            free(text);
            return NULL;
        }
        have += (size_t)got;
    }
    if (text != NULL) {
        text[have] = '\0';
        *bytes = have;
    }
    return text;
}

char *ptxpack_read_file(const char *path, size_t limit, size_t *bytes)
{
    char       *text = NULL;
    struct stat st;
    int         fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return NULL;
    if (fstat(fd, &st) == 0) {
        errno = S_ISDIR(st.st_mode)             ? EISDIR
                : !S_ISREG(st.st_mode)          ? ESPIPE
                : (uintmax_t)st.st_size > limit ? EFBIG
                                                : 0;
        text = errno == 0 ? read_all(fd, (size_t)st.st_size, bytes) : NULL;
    }
    int error = errno;
    close(fd);
    errno = error;
    return text;
}

const char *ptxpack_file_error(int error) { return error == ESPIPE ? "Not a regular file" : strerror(error); }

/* ---- the dynamic linker and forks ----------------------------------------------------------------- */

/* A child of fork inherits the dynamic linker's locks as they are, and would wait for ever for one that
 * another thread of its parent held.  So no fork begins while one of our threads uses the linker.  The
 * exception is a fork by that thread itself: cuInit runs nvidia-modprobe, and a library's constructor may
 * fork. */
static pthread_mutex_t    linker = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool holding; /* `linker`, by this thread */

static void before_fork(void)
{
    if (!holding)
        pthread_mutex_lock(&linker);
}

static void after_fork(void)
{
    if (!holding)
        pthread_mutex_unlock(&linker);
}

static void watch_forks(void) { pthread_atfork(before_fork, after_fork, after_fork); }

void ptxpack_linker_enter(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&linker);
    holding = true;
}

void ptxpack_linker_leave(void)
{
    holding = false;
    pthread_mutex_unlock(&linker);
}

/* ---- the identity of a loaded library ------------------------------------------------------------- */

struct build_id_search {
    uintptr_t inside; /* an address in the module that is searched */
    char     *text;
    size_t    cap;
    bool      found;
};

static bool take_build_id(const char *note, size_t bytes, struct build_id_search *search)
{
    while (bytes >= sizeof(ElfW(Nhdr))) {
        ElfW(Nhdr) head;
        memcpy(&head, note, sizeof head);
        size_t name = ((size_t)head.n_namesz + 3) & ~(size_t)3,
               value = ((size_t)head.n_descsz + 3) & ~(size_t)3;
        if (name > bytes - sizeof head || value > bytes - sizeof head - name)
            return false;
        const char *at = note + sizeof head;
        if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == 4 && memcmp(at, "GNU", 4) == 0 &&
            head.n_descsz >= 8 && 2 * (size_t)head.n_descsz + sizeof "build-id " <= search->cap) {
            int n = snprintf(search->text, search->cap, "build-id ");
            for (size_t i = 0; i < head.n_descsz; i++)
                n += snprintf(search->text + n, 3, "%02x", (unsigned char)at[name + i]);
            return true;
        }
        note += sizeof head + name + value;
        bytes -= sizeof head + name + value;
    }
    return false;
}

static bool is_inside(const struct dl_phdr_info *info, uintptr_t address)
{
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD &&
            address - (info->dlpi_addr + info->dlpi_phdr[i].p_vaddr) < info->dlpi_phdr[i].p_memsz)
            return true;
    return false;
}

static int visit_module(struct dl_phdr_info *info, size_t size, void *context)
{
    struct build_id_search *search = (struct build_id_search *)context;
    (void)size;
    if (!is_inside(info, search->inside))
        return 0;
    for (int i = 0; i < info->dlpi_phnum && !search->found; i++)
        if (info->dlpi_phdr[i].p_type == PT_NOTE)
            search->found = take_build_id((const char *)info->dlpi_addr + info->dlpi_phdr[i].p_vaddr,
                                          info->dlpi_phdr[i].p_memsz, search);
    return 1;
}

static bool build_id(uintptr_t inside, char *buf, size_t cap)
{
    struct build_id_search search = {inside, buf, cap, false};
    dl_iterate_phdr(visit_module, &search);
    return search.found;
}

/* The build id in a file that is not loaded: its program headers point to the notes. */
static bool build_id_in_file(int fd, char *buf, size_t cap)
{
    enum { MAX_HEADERS = 64, MAX_NOTES = 64 << 10 };
    struct build_id_search search = {0, buf, cap, false};
    ElfW(Ehdr) head;
    ElfW(Phdr) parts[MAX_HEADERS];
    if (pread(fd, &head, sizeof head, 0) != (ssize_t)sizeof head ||
        memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_phentsize != sizeof *parts ||
        head.e_phnum > MAX_HEADERS)
        return false;
    ssize_t size = (ssize_t)(head.e_phnum * sizeof *parts);
    if (pread(fd, parts, (size_t)size, (off_t)head.e_phoff) != size)
        return false;
    for (int i = 0; i < head.e_phnum && !search.found; i++) {
        size_t bytes = parts[i].p_filesz;
        if (parts[i].p_type != PT_NOTE || bytes > MAX_NOTES)
            continue;
        char *notes = (char *)malloc(bytes + 1);
        if (notes != NULL && pread(fd, notes, bytes, (off_t)parts[i].p_offset) == (ssize_t)bytes)
            search.found = take_build_id(notes, bytes, &search);
        free(notes);
    }
    return search.found;
}

static bool content_identity(const char *path, char *buf, size_t cap)
{
    size_t             bytes = 0;
    char               hex[33] = "";
    char              *text = ptxpack_read_file(path, MAX_LIBRARY, &bytes);
    ptxpack_cache_key *key = text != NULL ? ptxpack_cache_key_create() : NULL;
    ptxpack_cache_key_add(key, "content", text, bytes);
    ptxpack_cache_key_hex(key, hex);
    ptxpack_cache_key_free(key);
    free(text);
    if (!hex[0])
        return false;
    snprintf(buf, cap, "content %zu %s", bytes, hex);
    return true;
}

const char *ptxpack_library_path(void *library)
{
    struct link_map *map = NULL;
    return dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map != NULL ? map->l_name : "";
}

bool ptxpack_library_identity(void *library, char *buf, size_t cap)
{
    struct link_map *map = NULL;
    if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || map == NULL)
        return false;
    return build_id((uintptr_t)map->l_ld, buf, cap) || content_identity(map->l_name, buf, cap);
}

bool ptxpack_file_identity(const char *path, char *buf, size_t cap)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return false;
    bool found = build_id_in_file(fd, buf, cap);
    close(fd);
    return found || content_identity(path, buf, cap);
}

bool ptxpack_own_identity(char *buf, size_t cap)
{
    ptxpack_linker_enter();
    bool found = build_id((uintptr_t)&ptxpack_own_identity, buf, cap);
    ptxpack_linker_leave();
    return found;
}
