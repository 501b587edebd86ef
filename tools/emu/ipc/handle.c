/* handle.c - the 64 bytes by which a process names memory or an event to others. */
#define XXH_INLINE_ALL
#include "handle.h"
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include "tools/emu/machine/file.h"

_Static_assert(sizeof(struct ipc_handle) == IPC_HANDLE_BYTES, "a handle has 64 bytes");

static uint64_t check_of(const struct ipc_handle *h) { return XXH64(h, offsetof(struct ipc_handle, check), 0); }

bool ipc_handle_make(struct ipc_handle *h, enum ipc_kind kind, int file, int device, uint64_t id,
                     uint64_t bytes)
{
    struct stat is;
    if (fstat(file, &is) != 0)
        return false;
    *h = (struct ipc_handle){.kind = kind,
                             .process = (int32_t)getpid(),
                             .file = file,
                             .device = device,
                             .id = id,
                             .bytes = bytes,
                             .volume = (uint64_t)is.st_dev,
                             .inode = (uint64_t)is.st_ino};
    h->check = check_of(h);
    return true;
}

bool ipc_handle_read(struct ipc_handle *h, enum ipc_kind kind, const char bytes[IPC_HANDLE_BYTES])
{
    memcpy(h, bytes, sizeof *h);
    return h->kind == (uint32_t)kind && h->check == check_of(h);
}

bool ipc_handle_is_own(const struct ipc_handle *h) { return h->process == (int32_t)getpid(); }

bool ipc_handle_same(const struct ipc_handle *a, const struct ipc_handle *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* The process and the descriptor may be others meanwhile, so the file must be the one that was named. */
static bool is_named(const struct ipc_handle *h, const struct stat *is)
{
    return S_ISREG(is->st_mode) && (uint64_t)is->st_dev == h->volume && (uint64_t)is->st_ino == h->inode;
}

int ipc_handle_open(const struct ipc_handle *h, uint64_t file_bytes)
{
    char        path[64];
    struct stat is;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)h->process, (int)h->file);
    if (stat(path, &is) != 0)
        return -1;
    errno = ENOENT;
    const int file = is_named(h, &is) ? open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK) : -1;
    if (file < 0)
        return -1;
    if (fstat(file, &is) == 0 && is_named(h, &is) && emu_file_fits(file, file_bytes))
        return file;
    close(file);
    errno = ENOENT;
    return -1;
}
