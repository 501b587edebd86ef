/* collectives.c - what the calls of the emulated NCCL move and compute, on 1, 2, 3, 4 and 8 ranks of one process and on
 * ranks of two and three processes. */
#include "nccl_fixture.h"
#include "host/dtype.h"
#define BEFORE_EACH NULL
#define AFTER_EACH  NULL

static const int rank_counts[] = {1, 2, 3, 4, 8};

/* ---- elements ------------------------------------------------------------------------------------------ */
static const size_t type_bytes[] = {
#define TYPE(name, value, bytes) [value] = bytes,
    NCCL_TYPE_MAP(TYPE)
#undef TYPE
};

/* A small whole number, which all types have exactly, in the lowest bytes. */
static uint64_t encode(nccl_type type, double value)
{
    uint64_t bits = 0;
    float    single = (float)value;
    switch (type) {
    case NCCL_Float64:
        memcpy(&bits, &value, 8);
        return bits;
    case NCCL_Float32:
        memcpy(&bits, &single, 4);
        return bits;
    case NCCL_Float16:
        return ptxpack_from_float(PTXPACK_F16, single);
    case NCCL_Bfloat16:
        return ptxpack_from_float(PTXPACK_BF16, single);
    case NCCL_Float8e4m3:
        return ptxpack_from_float(PTXPACK_E4M3, single);
    case NCCL_Float8e5m2: /* the upper byte of an f16 */
        return ptxpack_from_float(PTXPACK_F16, single) >> 8;
    default:
        return (uint64_t)(int64_t)value;
    }
}

/* Element i of a rank: 0 to 3, so that sums of 8 ranks and products are exact in f16 (`narrow`: 0 and 1, for 8 bits). */
static double value_of(int rank, size_t i, bool narrow)
{
    const size_t x = (i * 2654435761u >> 7) + (size_t)rank * 5 + i;
    return (double)(x % (narrow ? 2 : 4));
}

static bool is_narrow(nccl_type type) { return type == NCCL_Float8e4m3 || type == NCCL_Float8e5m2; }

/* `count` elements of the rank, from element `first` on, in its buffer. */
static void fill(struct world *w, int rank, nccl_type type, size_t count)
{
    const size_t   bytes = type_bytes[type];
    unsigned char *host = (unsigned char *)malloc(count * bytes + 1);
    assert_non_null(host);
    for (size_t i = 0; i < count; i++) {
        const uint64_t element = encode(type, value_of(rank, i, is_narrow(type)));
        memcpy(host + i * bytes, &element, bytes);
    }
    use(w, rank);
    ok(w->cu->cuMemcpyHtoD_v2(w->rank[rank].from, host, count * bytes));
    ok(w->cu->cuMemsetD8_v2(w->rank[rank].to, 0x5a, BUFFER));
    ok(w->cu->cuCtxSynchronize());
    free(host);
}

struct expected {
    double (*value)(const struct world *w, int rank, size_t i, const struct expected *e);
    size_t         count; /* elements of a rank's part */
    nccl_reduction reduction;
    bool           narrow;
};

static void compare(struct world *w, int rank, nccl_type type, size_t count, const struct expected *e)
{
    const size_t   bytes = type_bytes[type];
    unsigned char *host = (unsigned char *)malloc(count * bytes + 16);
    assert_non_null(host);
    use(w, rank);
    ok(w->cu->cuMemcpyDtoH_v2(host, w->rank[rank].to, count * bytes + 16));
    for (size_t i = 0; i < count; i++) {
        const uint64_t want = encode(type, e->value(w, rank, i, e));
        if (memcmp(host + i * bytes, &want, bytes) != 0)
            fail_msg("rank %d of %d, type %u, element %zu of %zu", rank, w->ranks, type, i, count);
    }
    for (size_t i = 0; i < 16; i++)
        assert_int_equal(host[count * bytes + i], 0x5a);
    free(host);
}

/* ---- one call on all ranks ----------------------------------------------------------------------------- */
typedef nccl_result call_of(struct world *w, struct rank *r, int rank, size_t count, nccl_type type,
                            const struct expected *e);

static void run(struct world *w, call_of *call, nccl_type type, size_t fills, size_t count, size_t results,
                const struct expected *e)
{
    for (int i = w->first; i < w->first + w->count; i++)
        fill(w, i, type, fills);
    fine(w, w->nccl.ncclGroupStart());
    for (int i = w->first; i < w->first + w->count; i++)
        fine(w, call(w, &w->rank[i], i, count, type, e));
    fine(w, w->nccl.ncclGroupEnd());
    world_synchronize(w);
    for (int i = w->first; i < w->first + w->count; i++)
        compare(w, i, type, results, e);
}

static nccl_result call_gather(struct world *w, struct rank *r, int rank, size_t count, nccl_type type,
                               const struct expected *e)
{
    (void)rank;
    (void)e;
    return w->nccl.ncclAllGather(pointer_of(r->from), pointer_of(r->to), count, type, r->comm, r->stream);
}
static double value_gather(const struct world *w, int rank, size_t i, const struct expected *e)
{
    (void)w;
    (void)rank;
    return value_of((int)(i / e->count), i % e->count, e->narrow);
}

static nccl_result call_all_to_all(struct world *w, struct rank *r, int rank, size_t count, nccl_type type,
                                   const struct expected *e)
{
    (void)rank;
    (void)e;
    return w->nccl.ncclAlltoAll(pointer_of(r->from), pointer_of(r->to), count, type, r->comm, r->stream);
}
static double value_all_to_all(const struct world *w, int rank, size_t i, const struct expected *e)
{
    (void)w;
    return value_of((int)(i / e->count), (size_t)rank * e->count + i % e->count, e->narrow);
}

static nccl_result call_broadcast(struct world *w, struct rank *r, int rank, size_t count, nccl_type type,
                                  const struct expected *e)
{
    (void)rank;
    (void)e;
    return w->nccl.ncclBroadcast(pointer_of(r->from), pointer_of(r->to), count, type, w->ranks - 1, r->comm,
                                 r->stream);
}
static double value_broadcast(const struct world *w, int rank, size_t i, const struct expected *e)
{
    (void)rank;
    return value_of(w->ranks - 1, i, e->narrow);
}

static nccl_result call_reduce(struct world *w, struct rank *r, int rank, size_t count, nccl_type type,
                               const struct expected *e)
{
    (void)rank;
    return w->nccl.ncclAllReduce(pointer_of(r->from), pointer_of(r->to), count, type, e->reduction, r->comm,
                                 r->stream);
}
static double value_reduce(const struct world *w, int rank, size_t i, const struct expected *e)
{
    double sum = value_of(0, i, e->narrow);
    (void)rank;
    for (int r = 1; r < w->ranks; r++) {
        const double x = value_of(r, i, e->narrow);
        sum = e->reduction == NCCL_Max    ? (x > sum ? x : sum)
              : e->reduction == NCCL_Min  ? (x < sum ? x : sum)
              : e->reduction == NCCL_Prod ? sum * x
                                          : sum + x;
    }
    return sum;
}

static nccl_result call_scatter(struct world *w, struct rank *r, int rank, size_t count, nccl_type type,
                                const struct expected *e)
{
    (void)rank;
    return w->nccl.ncclReduceScatter(pointer_of(r->from), pointer_of(r->to), count, type, e->reduction, r->comm,
                                     r->stream);
}
static double value_scatter(const struct world *w, int rank, size_t i, const struct expected *e)
{
    return value_reduce(w, rank, (size_t)rank * e->count + i, e);
}

/* To the next rank, and from the one before: to itself, if it is alone. */
static nccl_result call_ring(struct world *w, struct rank *r, int rank, size_t count, nccl_type type,
                             const struct expected *e)
{
    const int next = (rank + 1) % w->ranks, before = (rank + w->ranks - 1) % w->ranks;
    (void)e;
    fine(w, w->nccl.ncclSend(pointer_of(r->from), count, type, next, r->comm, r->stream));
    return w->nccl.ncclRecv(pointer_of(r->to), count, type, before, r->comm, r->stream);
}
static double value_ring(const struct world *w, int rank, size_t i, const struct expected *e)
{
    return value_of((rank + w->ranks - 1) % w->ranks, i, e->narrow);
}

/* Every call, with counts that are no multiples of anything, and longer than a piece and a ring of the library. */
static void all_calls(struct world *w, nccl_type type, size_t count)
{
    const struct expected plain = {.count = count, .narrow = is_narrow(type)};
    const size_t          all = count * (size_t)w->ranks;
    struct expected       e = plain;
    e.value = value_gather;
    run(w, call_gather, type, count, count, all, &e);
    e.value = value_all_to_all;
    run(w, call_all_to_all, type, all, count, all, &e);
    e.value = value_broadcast;
    run(w, call_broadcast, type, count, count, count, &e);
    e.value = value_ring;
    run(w, call_ring, type, count, count, count, &e);
    for (nccl_reduction reduction = NCCL_Sum; reduction <= NCCL_Min; reduction++) {
        e.reduction = reduction;
        if (reduction == NCCL_Prod && w->ranks > 3) /* 3^8 is no f16 */
            continue;
        e.value = value_reduce;
        run(w, call_reduce, type, count, count, count, &e);
        e.value = value_scatter;
        run(w, call_scatter, type, all, count, count, &e);
    }
}

TEST(test_types)
{
    struct world w;
    world_make(&w, "", 3);
    for (nccl_type type = 0; type < NCCL_TYPES; type++)
        all_calls(&w, type, 37);
    world_close(&w);
}

TEST(test_rank_counts)
{
    for (size_t i = 0; i < sizeof rank_counts / sizeof rank_counts[0]; i++) {
        struct world w;
        world_make(&w, "", rank_counts[i]);
        all_calls(&w, NCCL_Bfloat16, 1);
        all_calls(&w, NCCL_Float32, 4099);
        all_calls(&w, NCCL_Int8, 0);
        world_close(&w);
    }
}

TEST(test_long)
{
    struct world w;
    world_make(&w, "", 3);
    all_calls(&w, NCCL_Float32, 100003);
    world_close(&w);
}

TEST(test_average)
{
    struct world w;
    float        numbers[2] = {0, 0}, got[2] = {0, 0};
    world_make(&w, "", 2);
    for (int i = 0; i < 2; i++) {
        use(&w, i);
        numbers[0] = (float)i;
        numbers[1] = (float)(3 * i);
        ok(w.cu->cuMemcpyHtoD_v2(w.rank[i].from, numbers, sizeof numbers));
    }
    fine(&w, w.nccl.ncclGroupStart());
    for (int i = 0; i < 2; i++) /* in place */
        fine(&w, w.nccl.ncclAllReduce(pointer_of(w.rank[i].from), pointer_of(w.rank[i].from), 2, NCCL_Float32,
                                      NCCL_Avg, w.rank[i].comm, w.rank[i].stream));
    fine(&w, w.nccl.ncclGroupEnd());
    world_synchronize(&w);
    ok(w.cu->cuMemcpyDtoH_v2(got, w.rank[1].from, sizeof got));
    assert_true(got[0] == 0.5f && got[1] == 1.5f);
    world_close(&w);
}

/* In place, as NCCL has it: the rank's part of the larger buffer is the smaller one. */
TEST(test_in_place)
{
    enum { COUNT = 50000 };
    struct world    w;
    struct expected e = {.count = COUNT, .reduction = NCCL_Sum};
    world_make(&w, "", 3);
    for (int i = 0; i < 3; i++) {
        fill(&w, i, NCCL_Float32, COUNT);
        ok(w.cu->cuMemcpyDtoD_v2(w.rank[i].to + (api_address)i * COUNT * 4, w.rank[i].from, COUNT * 4));
    }
    fine(&w, w.nccl.ncclGroupStart());
    for (int i = 0; i < 3; i++)
        fine(&w, w.nccl.ncclAllGather(pointer_of(w.rank[i].to + (api_address)i * COUNT * 4),
                                      pointer_of(w.rank[i].to), COUNT, NCCL_Float32, w.rank[i].comm,
                                      w.rank[i].stream));
    fine(&w, w.nccl.ncclGroupEnd());
    world_synchronize(&w);
    e.value = value_gather;
    for (int i = 0; i < 3; i++)
        compare(&w, i, NCCL_Float32, (size_t)3 * COUNT, &e);
    for (int i = 0; i < 3; i++)
        fill(&w, i, NCCL_Float32, (size_t)3 * COUNT);
    fine(&w, w.nccl.ncclGroupStart());
    for (int i = 0; i < 3; i++) {
        const api_address mine = w.rank[i].from + (api_address)i * COUNT * 4;
        fine(&w, w.nccl.ncclReduceScatter(pointer_of(w.rank[i].from), pointer_of(mine), COUNT, NCCL_Float32,
                                          NCCL_Sum, w.rank[i].comm, w.rank[i].stream));
    }
    fine(&w, w.nccl.ncclGroupEnd());
    world_synchronize(&w);
    e.value = value_scatter;
    for (int i = 0; i < 3; i++) {
        use(&w, i);
        ok(w.cu->cuMemcpyDtoD_v2(w.rank[i].to, w.rank[i].from + (api_address)i * COUNT * 4, COUNT * 4));
        compare(&w, i, NCCL_Float32, COUNT, &e);
    }
    world_close(&w);
}

/* Bytes that were never written are still undefined in the other rank: a kernel that uses them is reported. */
TEST(test_undefined_bytes)
{
    struct world w;
    unsigned int word = 0;
    world_make(&w, "PTXPACK_EMU_LOG=/dev/null PTXPACK_EMU_ERRORS=launch", 2);
    ok(w.cu->cuMemcpyHtoD_v2(w.rank[1].from, &word, 4)); /* the second word is not written */
    use(&w, 0);
    ok(w.cu->cuMemcpyHtoD_v2(w.rank[0].from, &word, 4));
    for (int reduces = 0; reduces < 2; reduces++) {
        fine(&w, w.nccl.ncclGroupStart());
        for (int i = 0; i < 2; i++) {
            struct rank *r = &w.rank[i];
            fine(&w, reduces ? w.nccl.ncclAllReduce(pointer_of(r->from), pointer_of(r->to), 2, NCCL_Float32,
                                                    NCCL_Sum, r->comm, r->stream)
                             : w.nccl.ncclBroadcast(pointer_of(r->from), pointer_of(r->to), 2, NCCL_Float32, 1,
                                                    r->comm, r->stream));
        }
        fine(&w, w.nccl.ncclGroupEnd());
        world_synchronize(&w);
        use(&w, 0);
        struct CUfunc_st *add = emu_function_named(w.cu, emu_ptx, "add");
        api_address       at = w.rank[0].to;
        void             *parameters[] = {&at};
        ok(w.cu->cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, w.rank[0].stream, parameters, NULL));
        ok(w.cu->cuStreamSynchronize(w.rank[0].stream));
        ok(w.cu->cuLaunchKernel(add, 1, 1, 1, 2, 1, 1, 0, w.rank[0].stream, parameters, NULL));
        answers(w.cu->cuStreamSynchronize(w.rank[0].stream), 719);
    }
    world_close(&w);
}

/* ---- order --------------------------------------------------------------------------------------------- */
/* Operations run in stream order: after what is before them, and before what is after them, on every rank. */
TEST(test_stream_order)
{
    struct world w;
    unsigned int got = 0;
    world_make(&w, "", 2);
    for (int i = 0; i < 2; i++) {
        struct rank *r = &w.rank[i];
        use(&w, i);
        ok(w.cu->cuMemsetD8_v2(r->to, 0, BUFFER));
        ok(w.cu->cuCtxSynchronize());
        if (i == 0)
            ok(w.cu->cuStreamWaitValue32_v2(r->stream, r->to + 512, 1, 1));
        ok(w.cu->cuMemsetD32Async(r->from, 40 + (unsigned int)i, 1, r->stream));
        /* Not in a group: the calls return although the other rank has not called yet. */
        fine(&w,
             w.nccl.ncclAllGather(pointer_of(r->from), pointer_of(r->to), 1, NCCL_Int32, r->comm, r->stream));
        ok(w.cu->cuMemsetD32Async(r->from, 0, 1, r->stream));
        ok(w.cu->cuMemcpyDtoDAsync_v2(r->to + 256, r->to, 8, r->stream));
        answers(w.cu->cuStreamQuery(r->stream), 600);
    }
    struct CUstream_st *other = NULL;
    use(&w, 0);
    ok(w.cu->cuStreamCreate(&other, 1));
    ok(w.cu->cuStreamWriteValue32_v2(other, w.rank[0].to + 512, 1, 0));
    world_synchronize(&w);
    for (int i = 0; i < 2; i++)
        for (unsigned int k = 0; k < 2; k++) {
            use(&w, i);
            ok(w.cu->cuMemcpyDtoH_v2(&got, w.rank[i].to + 256 + 4 * k, 4));
            assert_int_equal(got, 40 + k);
        }
    world_close(&w);
}

/* Sends and receives of a group go on at the same time, in whatever order and streams they are called. */
TEST(test_group_of_streams)
{
    enum { COUNT = 200000 }; /* more than a ring of the library holds */
    struct world w;
    unsigned int got = 0;
    world_make(&w, "", 2);
    for (int i = 0; i < 2; i++) {
        struct rank        *r = &w.rank[i];
        struct CUstream_st *other = NULL;
        use(&w, i);
        ok(w.cu->cuStreamCreate(&other, 1));
        ok(w.cu->cuMemsetD32Async(r->from, 60 + (unsigned int)i, COUNT, other)); /* the send waits for it */
        fine(&w, w.nccl.ncclGroupStart());
        fine(&w, w.nccl.ncclRecv(pointer_of(r->to), COUNT, NCCL_Int32, !i, r->comm, r->stream));
        fine(&w, w.nccl.ncclGroupStart());
        fine(&w, w.nccl.ncclSend(pointer_of(r->from), COUNT, NCCL_Int32, !i, r->comm, other));
        fine(&w, w.nccl.ncclGroupEnd());
        fine(&w, w.nccl.ncclGroupEnd());
        ok(w.cu->cuMemsetD32Async(r->from, 0, COUNT, other)); /* and this for the send */
    }
    for (int i = 0; i < 2; i++) {
        use(&w, i);
        ok(w.cu->cuCtxSynchronize());
        ok(w.cu->cuMemcpyDtoH_v2(&got, w.rank[i].to + (COUNT - 1) * 4, 4));
        assert_int_equal(got, 60 + !i);
    }
    world_close(&w);
}

/* A captured operation runs each time that the graph is launched. */
TEST(test_captured)
{
    struct world           w;
    struct CUgraphExec_st *exec[2] = {NULL, NULL};
    unsigned int           got = 0;
    world_make(&w, "", 2);
    for (int i = 0; i < 2; i++) {
        struct rank       *r = &w.rank[i];
        struct CUgraph_st *graph = NULL;
        use(&w, i);
        ok(w.cu->cuStreamBeginCapture_v2(r->stream, 0));
        fine(&w, w.nccl.ncclAllReduce(pointer_of(r->from), pointer_of(r->to), 1, NCCL_Uint32, NCCL_Sum, r->comm,
                                      r->stream));
        ok(w.cu->cuMemcpyDtoDAsync_v2(r->from, r->to, 4, r->stream));
        ok(w.cu->cuStreamEndCapture(r->stream, &graph));
        ok(w.cu->cuGraphInstantiateWithFlags(&exec[i], graph, 0));
        ok(w.cu->cuGraphDestroy(graph));
        ok(w.cu->cuMemsetD32_v2(r->from, 1, 1));
        ok(w.cu->cuCtxSynchronize());
    }
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < 2; i++) {
            use(&w, i);
            ok(w.cu->cuGraphLaunch(exec[i], w.rank[i].stream));
        }
    world_synchronize(&w);
    ok(w.cu->cuMemcpyDtoH_v2(&got, w.rank[1].to, 4));
    assert_int_equal(got, 8);
    for (int i = 0; i < 2; i++)
        ok(w.cu->cuGraphExecDestroy(exec[i]));
    world_close(&w);
}

/* ---- ncclCommInitAll, threads, processes --------------------------------------------------------------- */
TEST(test_init_all)
{
    static const int devices[3] = {2, 0, 1};
    struct ncclComm *comms[3];
    struct world     w;
    int              n = -1;
    world_open(&w, "", 3, 0, 3);
    fine(&w, w.nccl.ncclCommInitAll(comms, 3, devices));
    for (int i = 0; i < 3; i++) {
        fine(&w, w.nccl.ncclCommUserRank(comms[i], &n));
        assert_int_equal(n, i);
        fine(&w, w.nccl.ncclCommCuDevice(comms[i], &n));
        assert_int_equal(n, devices[i]);
        fine(&w, w.nccl.ncclCommCount(comms[i], &n));
        assert_int_equal(n, 3);
    }
    for (int i = 0; i < 3; i++)
        fine(&w, w.nccl.ncclCommDestroy(comms[i]));
    fine(&w, w.nccl.ncclCommInitAll(comms, 3, NULL));
    for (int i = 0; i < 3; i++)
        w.rank[i].comm = comms[i];
    all_calls(&w, NCCL_Float32, 5);
    world_close(&w);
}

struct thread {
    struct world *w;
    nccl_id       id;
    int           rank, failed;
};

#define STEP(call)                     \
    do {                               \
        if ((call) != 0 && !t->failed) \
            t->failed = __LINE__;      \
    } while (0)

/* Each thread has a rank, and calls without groups. */
static void *one_rank(void *argument)
{
    struct thread *t = (struct thread *)argument;
    struct world  *w = t->w;
    struct rank   *r = &w->rank[t->rank];
    STEP(w->cu->cuCtxSetCurrent(r->context));
    STEP(w->nccl.ncclCommInitRank(&r->comm, w->ranks, t->id, t->rank));
    for (unsigned int round = 0; round < 20; round++) {
        STEP(w->cu->cuMemsetD32Async(r->from, round + (unsigned int)t->rank, 1, r->stream));
        STEP(w->nccl.ncclAllReduce(pointer_of(r->from), pointer_of(r->to + 4 * round), 1, NCCL_Uint32, NCCL_Sum,
                                   r->comm, r->stream));
    }
    STEP(w->cu->cuStreamSynchronize(r->stream));
    STEP(w->nccl.ncclCommFinalize(r->comm));
    return NULL;
}

TEST(test_threads)
{
    struct world  w;
    struct thread threads[4];
    pthread_t     handles[4];
    unsigned int  got[20];
    nccl_id       id;
    world_open(&w, "", 4, 0, 4);
    fine(&w, w.nccl.ncclGetUniqueId(&id));
    for (int i = 0; i < 4; i++) {
        threads[i] = (struct thread){&w, id, i, 0};
        assert_int_equal(pthread_create(&handles[i], NULL, one_rank, &threads[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(handles[i], NULL);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(threads[i].failed, 0);
        use(&w, i);
        ok(w.cu->cuMemcpyDtoH_v2(got, w.rank[i].to, sizeof got));
        for (unsigned int round = 0; round < 20; round++)
            assert_int_equal(got[round], 4 * round + 6);
    }
    world_close(&w);
}

static int processes; /* of the running test */

/* One rank of each process, or two of the first one. */
static void all_of_a_process(int number, nccl_id id)
{
    struct world w;
    const int    two = processes == 2; /* three ranks in two processes, too */
    world_open(&w, "", 3, number == 0 ? 0 : number + two, number == 0 ? 1 + two : 1);
    world_join(&w, id);
    all_calls(&w, NCCL_Float16, 333);
    all_calls(&w, NCCL_Int64, 30001);
    world_close(&w);
}

TEST(test_processes)
{
    for (processes = 2; processes <= 3; processes++) {
        const nccl_id id = an_id();
        pid_t         children[3];
        for (int i = 0; i < processes; i++)
            children[i] = process_start(all_of_a_process, i, id);
        for (int i = 0; i < processes; i++)
            assert_int_equal(process_end(children[i]), 0);
    }
}

RUN_TESTS(emu_folder_make, emu_folder_remove)
