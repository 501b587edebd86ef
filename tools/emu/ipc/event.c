/* event.c - the page that the processes of an event share. */
#include "event.h"
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "tools/emu/machine/file.h"

/* A ticket is the number of the record above the number of its process, which has at most 22 bits on Linux. */
enum { PROCESS_BITS = 22, PROCESS_MASK = (1 << PROCESS_BITS) - 1 };
enum { RECORDS = 511 };

/* `ended` has the last record of each remainder that has ended, with process 0 if it is lost.  So a record that
 * RECORDS others of the event have overtaken counts as reached. */
struct page {
    atomic_ullong last, ended[RECORDS];
};
struct ipc_event {
    struct page *page;
    int          file;
};

static uint64_t number_of(uint64_t ticket) { return ticket >> PROCESS_BITS; }
int             ipc_event_process(uint64_t ticket) { return (int)(ticket & PROCESS_MASK); }

static atomic_ullong *end_of(const struct ipc_event *e, uint64_t ticket)
{
    return &e->page->ended[number_of(ticket) % RECORDS];
}

/* ---- life ---------------------------------------------------------------------------------------------- */
static bool lock_byte(int file, int process, short type, int command, bool *locked)
{
    struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = process, .l_len = 1};
    const bool   done = fcntl(file, command, &l) == 0;
    *locked = l.l_type != F_UNLCK;
    return done;
}

/* Takes over the descriptor; NULL: errno says why. */
static struct ipc_event *of_file(int file)
{
    bool              locked;
    struct ipc_event *e = file >= 0 ? (struct ipc_event *)malloc(sizeof *e) : NULL;
    if (e == NULL)
        goto failed;
    e->file = file;
    e->page = (struct page *)mmap(NULL, sizeof *e->page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (e->page == MAP_FAILED)
        goto failed;
    /* Shared: the process may have opened the event several times. */
    if (lock_byte(file, (int)getpid(), F_RDLCK, F_OFD_SETLK, &locked))
        return e;
    munmap(e->page, sizeof *e->page);
failed:;
    const int why = errno;
    free(e);
    if (file >= 0)
        close(file);
    errno = why;
    return NULL;
}

struct ipc_event *ipc_event_new(void) { return of_file(emu_file_make(sizeof(struct page))); }

struct ipc_event *ipc_event_open(const struct ipc_handle *h)
{
    return of_file(ipc_handle_open(h, sizeof(struct page)));
}

void ipc_event_free(struct ipc_event *e)
{
    if (e == NULL)
        return;
    munmap(e->page, sizeof *e->page);
    close(e->file);
    free(e);
}

bool ipc_event_name(const struct ipc_event *e, int device, uint64_t id, struct ipc_handle *handle)
{
    return ipc_handle_make(handle, IPC_EVENT, e->file, device, id, sizeof *e->page);
}

/* ---- records ------------------------------------------------------------------------------------------- */
uint64_t ipc_event_record(struct ipc_event *e)
{
    const uint64_t     process = (uint64_t)getpid() & PROCESS_MASK;
    unsigned long long last = atomic_load(&e->page->last), next;
    do
        next = (number_of(last) + 1) << PROCESS_BITS | process;
    while (!atomic_compare_exchange_weak(&e->page->last, &last, next));
    return next;
}

void ipc_event_end(struct ipc_event *e, uint64_t ticket, bool lost)
{
    atomic_ullong           *end = end_of(e, ticket);
    const unsigned long long now = lost ? number_of(ticket) << PROCESS_BITS : ticket;
    unsigned long long       before = atomic_load(end);
    while (number_of(before) < number_of(ticket) && !atomic_compare_exchange_weak(end, &before, now))
        ;
}

uint64_t ipc_event_last(const struct ipc_event *e) { return atomic_load(&e->page->last); }

static enum ipc_record on_page(const struct ipc_event *e, uint64_t ticket)
{
    const uint64_t ended = atomic_load(end_of(e, ticket));
    if (number_of(ended) < number_of(ticket))
        return IPC_PENDING;
    return number_of(ended) == number_of(ticket) && ipc_event_process(ended) == 0 ? IPC_LOST : IPC_REACHED;
}

enum ipc_record ipc_event_state(const struct ipc_event *e, uint64_t ticket)
{
    const int       process = ipc_event_process(ticket);
    enum ipc_record state = ticket != 0 ? on_page(e, ticket) : IPC_REACHED;
    bool            locked = true;
    if (state != IPC_PENDING || process == (int)getpid())
        return state;
    if (!lock_byte(e->file, process, F_WRLCK, F_OFD_GETLK, &locked) || locked)
        return IPC_PENDING;
    state = on_page(e, ticket); /* it may have been reached before its process ended */
    return state == IPC_PENDING ? IPC_LOST : state;
}
