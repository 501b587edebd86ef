/* collective.c - the calls that move elements between ranks, as lists of parts. */
#include "internal.h"

/* A call, checked. */
struct request {
    const char         *name;
    struct ncclComm    *comm;
    struct CUstream_st *stream;
    struct nccl_header  header;
    uint64_t            from, to, bytes; /* bytes: of `count` elements */
};

/* ---- checks -------------------------------------------------------------------------------------------- */
/* Memory that the rank's device may access, `bytes` from the address on. */
static nccl_result check_buffer(const struct request *q, const char *what, uint64_t address, uint64_t bytes)
{
    enum { MEMORY_TYPE = 2, DEVICE_ORDINAL = 9, DEVICE = 2, IS_MANAGED = 8 };
    const struct nccl_driver *d = q->comm->driver;
    struct CUctx_st          *context = NULL;
    api_address               base = 0;
    size_t                    size = 0;
    unsigned int              type = 0;
    int                       device = -1;
    bool                      managed = false;
    if (bytes == 0)
        return NCCL_Success;
    d->cuCtxPushCurrent_v2(q->comm->context);
    const unsigned int error = d->cuMemGetAddressRange_v2(&base, &size, address);
    d->cuCtxPopCurrent_v2(&context);
    if (error != 0 || bytes > base + size - address)
        return nccl_error(NCCL_InvalidArgument, "%s: %s of rank %d is not %llu bytes of memory of the driver",
                          q->name, what, q->comm->rank, (unsigned long long)bytes);
    d->cuPointerGetAttribute(&type, MEMORY_TYPE, address);
    d->cuPointerGetAttribute(&device, DEVICE_ORDINAL, address);
    d->cuPointerGetAttribute(&managed, IS_MANAGED, address);
    if (type == DEVICE && !managed && device != q->comm->device)
        return nccl_error(NCCL_InvalidArgument, "%s: %s of rank %d is memory of device %d, not %d", q->name,
                          what, q->comm->rank, device, q->comm->device);
    return NCCL_Success;
}

static nccl_result check_comm(struct ncclComm *comm, const char *name)
{
    NCCL_TRY(nccl_comm_check(comm, name));
    nccl_result failure = nccl_comm_failure(comm, false);
    if (failure != NCCL_Success)
        return nccl_error(failure, "%s: %s", name, comm->text);
    if (!nccl_segment_complete(&comm->segment))
        return nccl_error(NCCL_InvalidArgument, "%s: not all ranks of the communicator have joined yet", name);
    if (atomic_load(&comm->finalized))
        return nccl_error(NCCL_InvalidUsage, "%s: rank %d was finalized", name, comm->rank);
    return NCCL_Success;
}

static nccl_result check(struct request *q, int peer, const char *peer_name)
{
    NCCL_TRY(check_comm(q->comm, q->name));
    const size_t size = nccl_type_bytes(q->header.type);
    if (size == 0)
        return nccl_error(NCCL_InvalidArgument, "%s: %u is no data type", q->name, q->header.type);
    if (q->header.reduction >= NCCL_REDUCTIONS)
        return nccl_error(NCCL_InvalidArgument, "%s: %u is no reduction", q->name, q->header.reduction);
    if (peer < 0 || peer >= q->comm->ranks)
        return nccl_error(NCCL_InvalidArgument, "%s: %s %d of %d ranks", q->name, peer_name, peer,
                          q->comm->ranks);
    if (q->header.count > UINT64_MAX / size / NCCL_MOST_RANKS)
        return nccl_error(NCCL_InvalidArgument, "%s: %llu elements", q->name,
                          (unsigned long long)q->header.count);
    q->bytes = q->header.count * size;
    return NCCL_Success;
}

static struct request request(const char *name, enum nccl_kind kind, const void *from, void *to, size_t count,
                              nccl_type type, struct ncclComm *comm, struct CUstream_st *stream)
{
    return (struct request){.name = name,
                            .comm = comm,
                            .stream = stream,
                            .header = {.kind = (uint32_t)kind, .type = type, .count = count},
                            .from = (uint64_t)(uintptr_t)from,
                            .to = (uint64_t)(uintptr_t)to};
}

/* ---- parts --------------------------------------------------------------------------------------------- */
static bool add(struct nccl_operation *o, const struct request *q, int peer, bool sends, uint64_t address)
{
    const struct nccl_part part = {.header = q->header,
                                   .peer = peer,
                                   .sends = sends,
                                   .address = address,
                                   .bytes = q->bytes};
    return nccl_operation_add(o, &part);
}

/* Received to be reduced. */
static bool add_staged(struct nccl_operation *o, const struct request *q, int peer)
{
    const struct nccl_part part = {.header = q->header, .peer = peer, .staged = true, .bytes = q->bytes};
    return nccl_operation_add(o, &part);
}

typedef bool parts_of(struct nccl_operation *o, const struct request *q);

static nccl_result submit(const struct request *q, parts_of *parts)
{
    struct nccl_operation *o = nccl_operation_new(q->comm);
    if (o != NULL && parts(o, q))
        return nccl_group_add(o, q->stream);
    if (o != NULL)
        nccl_operation_release(o);
    return nccl_error(NCCL_SystemError, "%s: out of memory", q->name);
}

/* ---- point to point ------------------------------------------------------------------------------------ */
/* The peer is in `root`, which both sides leave 0 in the header. */
static bool parts_of_send(struct nccl_operation *o, const struct request *q)
{
    struct request plain = *q;
    plain.header.root = 0;
    return add(o, &plain, (int)q->header.root, true, q->from);
}

static bool parts_of_receive(struct nccl_operation *o, const struct request *q)
{
    struct request plain = *q;
    plain.header.root = 0;
    return add(o, &plain, (int)q->header.root, false, q->to);
}

static nccl_result send(struct request q, int peer)
{
    NCCL_TRY(check(&q, peer, "peer"));
    NCCL_TRY(check_buffer(&q, "sendbuff", q.from, q.bytes));
    q.header.root = (uint32_t)peer;
    return submit(&q, parts_of_send);
}

static nccl_result receive(struct request q, int peer)
{
    NCCL_TRY(check(&q, peer, "peer"));
    NCCL_TRY(check_buffer(&q, "recvbuff", q.to, q.bytes));
    q.header.root = (uint32_t)peer;
    return submit(&q, parts_of_receive);
}

nccl_result ncclSend(const void *from, size_t count, nccl_type type, int peer, struct ncclComm *comm,
                     struct CUstream_st *stream)
{
    return nccl_group_result(
        send(request("ncclSend", NCCL_POINT_TO_POINT, from, NULL, count, type, comm, stream), peer));
}

nccl_result ncclRecv(void *to, size_t count, nccl_type type, int peer, struct ncclComm *comm,
                     struct CUstream_st *stream)
{
    return nccl_group_result(
        receive(request("ncclRecv", NCCL_POINT_TO_POINT, NULL, to, count, type, comm, stream), peer));
}

/* ---- copies to all ------------------------------------------------------------------------------------- */
static bool parts_of_broadcast(struct nccl_operation *o, const struct request *q)
{
    const int root = (int)q->header.root;
    bool      good = true;
    if (q->comm->rank != root)
        return add(o, q, root, false, q->to);
    for (int i = 0; i < q->comm->ranks && good; i++)
        good = i == root || add(o, q, i, true, q->from);
    o->local = (struct nccl_local){q->to, q->from, q->from != q->to ? q->bytes : 0};
    return good;
}

static nccl_result broadcast(struct request q, int root)
{
    NCCL_TRY(check(&q, root, "root"));
    NCCL_TRY(check_buffer(&q, "recvbuff", q.to, q.bytes));
    if (root == q.comm->rank)
        NCCL_TRY(check_buffer(&q, "sendbuff", q.from, q.bytes));
    q.header.root = (uint32_t)root;
    return submit(&q, parts_of_broadcast);
}

nccl_result ncclBroadcast(const void *from, void *to, size_t count, nccl_type type, int root,
                          struct ncclComm *comm, struct CUstream_st *stream)
{
    return nccl_group_result(
        broadcast(request("ncclBroadcast", NCCL_BROADCAST, from, to, count, type, comm, stream), root));
}

static bool parts_of_gather(struct nccl_operation *o, const struct request *q)
{
    const uint64_t mine = q->to + (uint64_t)q->comm->rank * q->bytes;
    bool           good = true;
    for (int i = 0; i < q->comm->ranks && good; i++)
        good = i == q->comm->rank ||
               (add(o, q, i, true, q->from) && add(o, q, i, false, q->to + (uint64_t)i * q->bytes));
    o->local = (struct nccl_local){mine, q->from, q->from != mine ? q->bytes : 0};
    return good;
}

static nccl_result gather(struct request q)
{
    NCCL_TRY(check(&q, 0, "rank"));
    NCCL_TRY(check_buffer(&q, "sendbuff", q.from, q.bytes));
    NCCL_TRY(check_buffer(&q, "recvbuff", q.to, q.bytes * (uint64_t)q.comm->ranks));
    return submit(&q, parts_of_gather);
}

nccl_result ncclAllGather(const void *from, void *to, size_t count, nccl_type type, struct ncclComm *comm,
                          struct CUstream_st *stream)
{
    return nccl_group_result(
        gather(request("ncclAllGather", NCCL_ALL_GATHER, from, to, count, type, comm, stream)));
}

/* ---- all to all ---------------------------------------------------------------------------------------- */
static bool parts_of_all_to_all(struct nccl_operation *o, const struct request *q)
{
    const uint64_t mine = (uint64_t)q->comm->rank * q->bytes;
    bool           good = true;
    for (int i = 0; i < q->comm->ranks && good; i++)
        good = i == q->comm->rank || (add(o, q, i, true, q->from + (uint64_t)i * q->bytes) &&
                                      add(o, q, i, false, q->to + (uint64_t)i * q->bytes));
    o->local = (struct nccl_local){q->to + mine, q->from + mine, q->bytes};
    return good;
}

static nccl_result all_to_all(struct request q)
{
    NCCL_TRY(check(&q, 0, "rank"));
    const uint64_t all = q.bytes * (uint64_t)q.comm->ranks;
    NCCL_TRY(check_buffer(&q, "sendbuff", q.from, all));
    NCCL_TRY(check_buffer(&q, "recvbuff", q.to, all));
    if (q.from < q.to + all && q.to < q.from + all)
        return nccl_error(NCCL_InvalidArgument, "%s: the buffers of rank %d overlap", q.name, q.comm->rank);
    return submit(&q, parts_of_all_to_all);
}

nccl_result ncclAlltoAll(const void *from, void *to, size_t count, nccl_type type, struct ncclComm *comm,
                         struct CUstream_st *stream)
{
    return nccl_group_result(
        all_to_all(request("ncclAlltoAll", NCCL_ALL_TO_ALL, from, to, count, type, comm, stream)));
}

/* ---- reductions ---------------------------------------------------------------------------------------- */
static void reduce_into(struct nccl_operation *o, const struct request *q, uint64_t own)
{
    o->reduce.own = own;
    o->reduce.to = q->to;
    o->reduce.count = q->header.count;
    o->reduce.type = q->header.type;
    o->reduce.reduction = q->header.reduction;
}

static bool parts_of_all_reduce(struct nccl_operation *o, const struct request *q)
{
    bool good = true;
    for (int i = 0; i < q->comm->ranks && good; i++)
        good = i == q->comm->rank || (add(o, q, i, true, q->from) && add_staged(o, q, i));
    reduce_into(o, q, q->from);
    return good;
}

static bool parts_of_reduce_scatter(struct nccl_operation *o, const struct request *q)
{
    bool good = true;
    for (int i = 0; i < q->comm->ranks && good; i++)
        good = i == q->comm->rank ||
               (add(o, q, i, true, q->from + (uint64_t)i * q->bytes) && add_staged(o, q, i));
    reduce_into(o, q, q->from + (uint64_t)q->comm->rank * q->bytes);
    return good;
}

static nccl_result reduce(struct request q, nccl_reduction reduction)
{
    const bool all = q.header.kind == NCCL_ALL_REDUCE;
    q.header.reduction = reduction;
    NCCL_TRY(check(&q, 0, "rank"));
    NCCL_TRY(check_buffer(&q, "sendbuff", q.from, all ? q.bytes : q.bytes * (uint64_t)q.comm->ranks));
    NCCL_TRY(check_buffer(&q, "recvbuff", q.to, q.bytes));
    return submit(&q, all ? parts_of_all_reduce : parts_of_reduce_scatter);
}

nccl_result ncclAllReduce(const void *from, void *to, size_t count, nccl_type type, nccl_reduction reduction,
                          struct ncclComm *comm, struct CUstream_st *stream)
{
    return nccl_group_result(
        reduce(request("ncclAllReduce", NCCL_ALL_REDUCE, from, to, count, type, comm, stream), reduction));
}

nccl_result ncclReduceScatter(const void *from, void *to, size_t count, nccl_type type,
                              nccl_reduction reduction, struct ncclComm *comm, struct CUstream_st *stream)
{
    return nccl_group_result(
        reduce(request("ncclReduceScatter", NCCL_REDUCE_SCATTER, from, to, count, type, comm, stream),
               reduction));
}
