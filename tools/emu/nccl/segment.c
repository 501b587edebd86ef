/* segment.c - memory that the ranks of a communicator share.
 *
 * The unique id is the name of a POSIX shared memory object.  Every rank opens it, the first one makes its contents, and
 * the last one removes the name, so that only a rendezvous that never came to its end leaves one behind; the next
 * ncclGetUniqueId removes those whose process is gone.
 *
 * Each rank holds a lock on the byte of the file with its number, which the system releases when its process ends, in
 * whatever way: a rank that has joined and not left, and whose byte is not locked, is dead.  The locks belong to open
 * files, so that ranks of one process are told apart. */
#include "internal.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAGIC = 0x6c63636e, RING = 128 << 10, LINE = 64 };
enum { ABSENT, JOINED, LEFT, ABORTED }; /* a rank */
enum { SOUND, FAILING, FAILED };        /* the communicator; FAILING: the text is being written */

struct slot {
    atomic_int state;
    int        process, device;
};
struct ring { /* `written` and `read` only grow */
    _Alignas(LINE) atomic_ullong written;
    _Alignas(LINE) atomic_ullong read;
    _Alignas(LINE) unsigned char bytes[RING];
};
struct nccl_shared {
    uint32_t    magic, ranks;
    atomic_uint joined;
    atomic_int  state;
    int         failed_rank; /* who has found it */
    nccl_result failed;
    char        text[NCCL_TEXT];
    struct slot slots[NCCL_MOST_RANKS];
    struct ring rings[]; /* [from * ranks + to] */
};

static const char prefix[] = "ptxpack-nccl-";

/* ---- names --------------------------------------------------------------------------------------------- */
static void remove_stale(void)
{
    DIR           *folder = opendir("/dev/shm");
    struct dirent *entry;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        char      name[sizeof entry->d_name + 1];
        const int process = strncmp(entry->d_name, prefix, sizeof prefix - 1) == 0
                                ? atoi(entry->d_name + sizeof prefix - 1)
                                : 0;
        snprintf(name, sizeof name, "/%.254s", entry->d_name);
        if (process > 0 && kill(process, 0) != 0 && errno == ESRCH)
            shm_unlink(name);
    }
    if (folder != NULL)
        closedir(folder);
}

void nccl_segment_name(nccl_id *id)
{
    static atomic_uint count;
    struct timespec    now;
    clock_gettime(CLOCK_REALTIME, &now);
    remove_stale();
    memset(id, 0, sizeof *id);
    snprintf(id->internal, sizeof id->internal, "/%s%d-%u-%lx%lx", prefix, (int)getpid(),
             atomic_fetch_add(&count, 1), (unsigned long)now.tv_sec, (unsigned long)now.tv_nsec);
}

/* ---- joining ------------------------------------------------------------------------------------------- */
static bool lock_byte(int file, int rank, short type, int command)
{
    struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = rank, .l_len = 1};
    return fcntl(file, command, &l) == 0 && (command == F_OFD_SETLK || l.l_type == F_UNLCK);
}

static nccl_result map(struct nccl_segment *s)
{
    struct stat now;
    s->bytes = sizeof *s->shared + (size_t)s->ranks * (size_t)s->ranks * sizeof s->shared->rings[0];
    if (fstat(s->file, &now) != 0 || (now.st_size == 0 && ftruncate(s->file, (off_t)s->bytes) != 0))
        return nccl_error(NCCL_SystemError, "no shared memory of %zu bytes: %s", s->bytes, strerror(errno));
    if (now.st_size != 0 && (size_t)now.st_size != s->bytes)
        return nccl_error(NCCL_InvalidUsage, "rank %d was made for %d ranks, others for another number",
                          s->rank, s->ranks);
    void *at = mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->file, 0);
    if (at == MAP_FAILED)
        return nccl_error(NCCL_SystemError, "shared memory of %zu bytes cannot be mapped: %s", s->bytes,
                          strerror(errno));
    s->shared = (struct nccl_shared *)at;
    return NCCL_Success;
}

/* No two ranks of a process may have one device. */
static nccl_result take_slot(struct nccl_segment *s, int device)
{
    struct nccl_shared *shared = s->shared;
    struct slot        *mine = &shared->slots[s->rank];
    shared->magic = MAGIC;
    shared->ranks = (uint32_t)s->ranks;
    if (atomic_load(&mine->state) != ABSENT)
        return nccl_error(NCCL_InvalidUsage, "rank %d has joined already", s->rank);
    for (int i = 0; i < s->ranks; i++)
        if (atomic_load(&shared->slots[i].state) != ABSENT && shared->slots[i].process == (int)getpid() &&
            shared->slots[i].device == device)
            return nccl_error(NCCL_InvalidUsage, "ranks %d and %d of one process are both on device %d", i,
                              s->rank, device);
    if (!lock_byte(s->file, s->rank, F_WRLCK, F_OFD_SETLK))
        return nccl_error(NCCL_SystemError, "rank %d cannot lock its byte: %s", s->rank, strerror(errno));
    mine->process = (int)getpid();
    mine->device = device;
    atomic_store(&mine->state, JOINED);
    if (atomic_fetch_add(&shared->joined, 1) + 1 == (unsigned int)s->ranks)
        shm_unlink(s->name);
    return NCCL_Success;
}

nccl_result nccl_segment_join(struct nccl_segment *s, const nccl_id *id, int ranks, int rank, int device)
{
    *s = (struct nccl_segment){.file = -1, .rank = rank, .ranks = ranks};
    memcpy(s->name, id->internal, sizeof s->name);
    if (s->name[0] != '/' || strncmp(s->name + 1, prefix, sizeof prefix - 1) != 0 ||
        memchr(s->name, '\0', sizeof s->name) == NULL)
        return nccl_error(NCCL_InvalidArgument, "the unique id is not of ncclGetUniqueId of this library");
    s->file = shm_open(s->name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (s->file < 0)
        return nccl_error(NCCL_SystemError, "shared memory %s cannot be opened: %s", s->name, strerror(errno));
    flock(s->file, LOCK_EX);
    nccl_result result = map(s);
    if (result == NCCL_Success)
        result = take_slot(s, device);
    flock(s->file, LOCK_UN);
    if (result != NCCL_Success)
        nccl_segment_close(s);
    return result;
}

bool nccl_segment_complete(const struct nccl_segment *s)
{
    return atomic_load(&s->shared->joined) == (unsigned int)s->ranks;
}

void nccl_segment_leave(struct nccl_segment *s, bool aborted)
{
    atomic_store(&s->shared->slots[s->rank].state, aborted ? ABORTED : LEFT);
}

void nccl_segment_close(struct nccl_segment *s)
{
    if (s->shared != NULL)
        munmap(s->shared, s->bytes);
    if (s->file >= 0)
        close(s->file);
    s->shared = NULL;
    s->file = -1;
}

/* ---- failures ------------------------------------------------------------------------------------------ */
void nccl_segment_fail(struct nccl_segment *s, nccl_result result, const char *text)
{
    int sound = SOUND;
    if (!atomic_compare_exchange_strong(&s->shared->state, &sound, FAILING))
        return;
    s->shared->failed_rank = s->rank;
    s->shared->failed = result;
    snprintf(s->shared->text, sizeof s->shared->text, "%s", text);
    atomic_store(&s->shared->state, FAILED);
}

static void look_for_dead(struct nccl_segment *s)
{
    char text[NCCL_TEXT];
    for (int i = 0; i < s->ranks; i++) {
        if (i == s->rank || atomic_load(&s->shared->slots[i].state) != JOINED ||
            !lock_byte(s->file, i, F_WRLCK, F_OFD_GETLK))
            continue;
        if (atomic_load(&s->shared->slots[i].state) != JOINED) /* it has left meanwhile */
            continue;
        snprintf(text, sizeof text, "rank %d (process %d) has ended without ncclCommDestroy", i,
                 s->shared->slots[i].process);
        nccl_segment_fail(s, NCCL_RemoteError, text);
    }
}

nccl_result nccl_segment_failed(struct nccl_segment *s, bool look, char text[NCCL_TEXT])
{
    if (look && atomic_load(&s->shared->state) == SOUND)
        look_for_dead(s);
    if (atomic_load(&s->shared->state) != FAILED)
        return NCCL_Success;
    snprintf(text, NCCL_TEXT, "%s", s->shared->text);
    return s->shared->failed_rank == s->rank ? s->shared->failed : (nccl_result)NCCL_RemoteError;
}

bool nccl_segment_has_left(const struct nccl_segment *s, int rank)
{
    const int state = atomic_load(&s->shared->slots[rank].state);
    return state == LEFT || state == ABORTED;
}

/* ---- rings --------------------------------------------------------------------------------------------- */
static void copy_in(struct ring *r, uint64_t at, const void *from, size_t bytes)
{
    const size_t begin = at % RING, first = bytes < RING - begin ? bytes : RING - begin;
    memcpy(r->bytes + begin, from, first);
    memcpy(r->bytes, (const unsigned char *)from + first, bytes - first);
}

static void copy_out(const struct ring *r, uint64_t at, void *to, size_t bytes)
{
    const size_t begin = at % RING, first = bytes < RING - begin ? bytes : RING - begin;
    memcpy(to, r->bytes + begin, first);
    memcpy((unsigned char *)to + first, r->bytes, bytes - first);
}

bool nccl_segment_put(struct nccl_segment *s, int to, const void *first, size_t first_bytes, const void *second,
                      size_t second_bytes)
{
    struct ring   *r = &s->shared->rings[s->rank * s->ranks + to];
    const uint64_t at = atomic_load(&r->written);
    if (first_bytes + second_bytes > RING - (at - atomic_load(&r->read)))
        return false;
    copy_in(r, at, first, first_bytes);
    copy_in(r, at + first_bytes, second, second_bytes);
    atomic_store(&r->written, at + first_bytes + second_bytes);
    return true;
}

bool nccl_segment_get(struct nccl_segment *s, int from, void *first, size_t first_bytes, void *second,
                      size_t second_bytes)
{
    struct ring   *r = &s->shared->rings[from * s->ranks + s->rank];
    const uint64_t at = atomic_load(&r->read);
    if (first_bytes + second_bytes > atomic_load(&r->written) - at)
        return false;
    copy_out(r, at, first, first_bytes);
    copy_out(r, at + first_bytes, second, second_bytes);
    atomic_store(&r->read, at + first_bytes + second_bytes);
    return true;
}
