/* operation.c - operations, as the driver runs them in streams.
 *
 * An operation has parts: elements for a rank, or from one.  All parts go on at once, but those of one peer and one
 * direction go one after the other.  A part is a header, which the receiver compares with its own, and then pieces, each
 * with the bits that say which of its bytes are defined.  What is to be reduced is received into memory of the host,
 * and reduced in the order of the ranks when all of it is there; until then nothing is written that is still to be
 * sent. */
#include "internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PIECE = 16 << 10, BITS = PIECE / 8 };

struct progress {
    bool     begun; /* the header is through */
    uint64_t done;  /* bytes */
};
struct run {
    struct nccl_operation *operation;
    uint64_t               ticket;
    bool                   started;             /* its turn has come */
    uint64_t               begins_at, looks_at; /* nanoseconds; when it looks next whether all ranks live */
    struct progress       *parts;
    unsigned char         *elements[NCCL_MOST_RANKS], *defined[NCCL_MOST_RANKS]; /* by rank, to be reduced */
};

/* ---- operations ---------------------------------------------------------------------------------------- */
const char *nccl_kind_name(enum nccl_kind kind)
{
    static const char *const names[] = {"ncclSend or ncclRecv", "ncclBroadcast", "ncclAllGather",
                                        "ncclAlltoAll",         "ncclAllReduce", "ncclReduceScatter"};
    return kind <= NCCL_REDUCE_SCATTER ? names[kind] : "something else";
}

struct nccl_operation *nccl_operation_new(struct ncclComm *comm)
{
    struct nccl_operation *o = (struct nccl_operation *)calloc(1, sizeof *o);
    if (o == NULL)
        return NULL;
    atomic_store(&o->references, 1);
    o->comm = comm;
    nccl_comm_keep(comm);
    return o;
}

bool nccl_operation_add(struct nccl_operation *o, const struct nccl_part *part)
{
    struct nccl_part *parts = (struct nccl_part *)realloc(o->parts, (o->part_count + 1) * sizeof *parts);
    if (parts == NULL)
        return false;
    o->parts = parts;
    parts[o->part_count++] = *part;
    return true;
}

static void keep(void *operation) { atomic_fetch_add(&((struct nccl_operation *)operation)->references, 1); }

void nccl_operation_release(void *operation)
{
    struct nccl_operation *o = (struct nccl_operation *)operation;
    if (atomic_fetch_sub(&o->references, 1) != 1)
        return;
    nccl_comm_release(o->comm);
    free(o->parts);
    free(o);
}

/* ---- the life of a run --------------------------------------------------------------------------------- */
static void *begin(void *operation)
{
    struct nccl_operation *o = (struct nccl_operation *)operation;
    struct run            *r = (struct run *)calloc(1, sizeof *r);
    if (r != NULL)
        r->parts = (struct progress *)calloc(o->part_count + 1, sizeof *r->parts);
    if (r == NULL || r->parts == NULL) {
        free(r);
        return NULL;
    }
    keep(o);
    r->operation = o;
    r->ticket = o->comm->issued++;
    atomic_fetch_add(&o->comm->pending, 1);
    return r;
}

static void end(struct run *r)
{
    struct nccl_operation *o = r->operation;
    for (int i = 0; i < NCCL_MOST_RANKS; i++) {
        free(r->elements[i]);
        free(r->defined[i]);
    }
    if (r->started)
        atomic_fetch_sub(&o->comm->running, 1);
    if (r->ticket == o->comm->next)
        o->comm->next++;
    atomic_fetch_sub(&o->comm->pending, 1);
    free(r->parts);
    free(r);
    nccl_operation_release(o);
}

/* It never ran to its end, so that the ranks no longer agree. */
static void drop(void *run)
{
    struct run *r = (struct run *)run;
    nccl_comm_fail(r->operation->comm, NCCL_UnhandledCudaError,
                   "an operation of rank %d was dropped with its context, or after an error in it",
                   r->operation->comm->rank);
    end(r);
}

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool make_room(struct run *r)
{
    const struct nccl_operation *o = r->operation;
    const uint64_t               bytes = o->reduce.count * nccl_type_bytes(o->reduce.type);
    for (int i = 0; bytes && i < o->comm->ranks; i++) {
        r->elements[i] = (unsigned char *)malloc(bytes);
        r->defined[i] = (unsigned char *)calloc(1, bytes / 8 + 1);
        if (r->elements[i] == NULL || r->defined[i] == NULL)
            return false;
    }
    return true;
}

/* Its turn has come. */
static void start(struct run *r)
{
    struct ncclComm *comm = r->operation->comm;
    bool             fails = false;
    r->started = true;
    atomic_fetch_add(&comm->running, 1);
    r->begins_at = now() + 1000 * nccl_fault_begin(comm->rank, r->ticket + 1, &fails);
    if (fails)
        nccl_comm_fail(comm, NCCL_SystemError,
                       "operation %llu of rank %d fails, as PTXPACK_EMU_NCCL_FAULT says",
                       (unsigned long long)r->ticket + 1, comm->rank);
    else if (!make_room(r))
        nccl_comm_fail(comm, NCCL_SystemError, "rank %d has no memory for what is to be reduced", comm->rank);
}

/* ---- parts --------------------------------------------------------------------------------------------- */
static void outside(struct run *r, const struct nccl_part *part)
{
    nccl_comm_fail(r->operation->comm, NCCL_UnhandledCudaError, "%s: a buffer of rank %d was freed meanwhile",
                   nccl_kind_name((enum nccl_kind)part->header.kind), r->operation->comm->rank);
}

static bool send_header(struct run *r, const struct nccl_part *part)
{
    return nccl_segment_put(&r->operation->comm->segment, part->peer, &part->header, sizeof part->header, "",
                            0);
}

static bool send_piece(struct run *r, const struct nccl_part *part, uint64_t done, size_t bytes)
{
    unsigned char data[PIECE], defined[BITS] = {0};
    if (!r->operation->comm->driver->ptxpack_emu_memory_read(data, defined, part->address + done, bytes)) {
        outside(r, part);
        return false;
    }
    return nccl_segment_put(&r->operation->comm->segment, part->peer, defined, sizeof defined, data, bytes);
}

/* Both sides call the same, with the same arguments. */
static bool receive_header(struct run *r, const struct nccl_part *part)
{
    struct ncclComm          *comm = r->operation->comm;
    const struct nccl_header *mine = &part->header;
    struct nccl_header        theirs;
    unsigned char             nothing;
    if (!nccl_segment_get(&comm->segment, part->peer, &theirs, sizeof theirs, &nothing, 0))
        return false;
    if (memcmp(mine, &theirs, sizeof theirs) == 0)
        return true;
    const bool same = theirs.kind == mine->kind && theirs.type == mine->type && theirs.count == mine->count;
    nccl_comm_fail(comm, NCCL_InvalidUsage,
                   "rank %d calls %s with %llu elements of %s, and rank %d %s with %llu of %s%s", part->peer,
                   nccl_kind_name((enum nccl_kind)theirs.kind), (unsigned long long)theirs.count,
                   nccl_type_name(theirs.type), comm->rank, nccl_kind_name((enum nccl_kind)mine->kind),
                   (unsigned long long)mine->count, nccl_type_name(mine->type),
                   same ? ", but with another reduction or root" : "");
    return false;
}

static bool receive_piece(struct run *r, const struct nccl_part *part, uint64_t done, size_t bytes)
{
    struct ncclComm *comm = r->operation->comm;
    unsigned char    data[PIECE], defined[BITS];
    if (!nccl_segment_get(&comm->segment, part->peer, defined, sizeof defined, data, bytes))
        return false;
    if (part->staged) {
        memcpy(r->elements[part->peer] + done, data, bytes);
        memcpy(r->defined[part->peer] + done / 8, defined,
               (bytes + 7) / 8); /* pieces are whole bytes of bits */
    } else if (!comm->driver->ptxpack_emu_memory_write(part->address + done, data, defined, bytes)) {
        outside(r, part);
        return false;
    }
    return true;
}

/* Nothing more comes from a rank that has left. */
static void look_who_left(struct run *r, const struct nccl_part *part)
{
    struct ncclComm *comm = r->operation->comm;
    if (nccl_segment_has_left(&comm->segment, part->peer))
        nccl_comm_fail(comm, NCCL_RemoteError,
                       "rank %d waits for rank %d, which has destroyed its communicator", comm->rank,
                       part->peer);
}

/* As far as it goes now.  True: it has moved. */
static bool advance_part(struct run *r, const struct nccl_part *part, struct progress *p)
{
    bool moved = false;
    if (!p->begun) {
        p->begun = moved = part->sends ? send_header(r, part) : receive_header(r, part);
        if (!p->begun && !part->sends)
            look_who_left(r, part);
    }
    while (p->begun && p->done < part->bytes) {
        const uint64_t left = part->bytes - p->done;
        const size_t   bytes = left < PIECE ? (size_t)left : PIECE;
        if (!(part->sends ? send_piece(r, part, p->done, bytes) : receive_piece(r, part, p->done, bytes)))
            break;
        p->done += bytes;
        moved = true;
    }
    return moved;
}

/* True: all parts are through. */
static bool advance(struct run *r, bool *moved)
{
    const struct nccl_operation *o = r->operation;
    bool                         busy[2][NCCL_MOST_RANKS] = {{false}}, all = true;
    for (size_t i = 0; i < o->part_count; i++) {
        const struct nccl_part *part = &o->parts[i];
        struct progress        *p = &r->parts[i];
        if (!busy[part->sends][part->peer])
            *moved |= (!p->begun || p->done < part->bytes) && advance_part(r, part, p);
        if (!p->begun || p->done < part->bytes)
            busy[part->sends][part->peer] = true, all = false;
    }
    return all;
}

/* ---- the end ------------------------------------------------------------------------------------------- */
static bool copy_local(const struct nccl_driver *d, const struct nccl_local *l)
{
    for (uint64_t done = 0; done < l->bytes; done += PIECE) {
        unsigned char  data[PIECE], defined[BITS] = {0};
        const uint64_t bytes = l->bytes - done < PIECE ? l->bytes - done : PIECE;
        if (!d->ptxpack_emu_memory_read(data, defined, l->from + done, bytes) ||
            !d->ptxpack_emu_memory_write(l->to + done, data, defined, bytes))
            return false;
    }
    return true;
}

static bool reduce(struct run *r)
{
    const struct nccl_operation *o = r->operation;
    const struct nccl_driver    *d = o->comm->driver;
    const uint64_t               bytes = o->reduce.count * nccl_type_bytes(o->reduce.type);
    const int                    me = o->comm->rank;
    if (bytes == 0)
        return true;
    if (!d->ptxpack_emu_memory_read(r->elements[me], r->defined[me], o->reduce.own, bytes))
        return false;
    nccl_reduce(o->reduce.type, o->reduce.reduction, o->comm->ranks, r->elements, r->defined, o->reduce.count);
    return d->ptxpack_emu_memory_write(o->reduce.to, r->elements[0], r->defined[0], bytes);
}

/* Is all well?  Asking for the others costs a few calls of the system. */
static bool is_sound(struct run *r)
{
    enum { LOOK_EVERY = 5000000 };
    const bool look = now() >= r->looks_at;
    if (look)
        r->looks_at = now() + LOOK_EVERY;
    return nccl_comm_failure(r->operation->comm, look) == NCCL_Success;
}

static enum ptxpack_emu_progress step(void *run)
{
    struct run      *r = (struct run *)run;
    struct ncclComm *comm = r->operation->comm;
    bool             moved = false;
    if (r->ticket != comm->next && nccl_comm_failure(comm, false) == NCCL_Success)
        return TASK_WAITS;
    if (!r->started)
        start(r);
    if (is_sound(r)) {
        if (now() < r->begins_at || !advance(r, &moved))
            return moved ? TASK_MOVED : TASK_WAITS;
        if (!copy_local(comm->driver, &r->operation->local) || !reduce(r))
            nccl_comm_fail(comm, NCCL_UnhandledCudaError, "a buffer of rank %d was freed meanwhile",
                           comm->rank);
    }
    end(r);
    return TASK_DONE;
}

const struct ptxpack_emu_task nccl_task = {begin, step, drop, keep, nccl_operation_release};
