/* failures.c - what the emulated NCCL refuses, and what happens when a rank fails, aborts, dies or disagrees. */
#include "nccl_fixture.h"
#include <fcntl.h>
#include <limits.h>
#define BEFORE_EACH NULL
#define AFTER_EACH  NULL

/* The call gives this result, and the last error has the text. */
#define refuses(w, call, result, text)                                                              \
    do {                                                                                            \
        assert_int_equal(call, result);                                                             \
        if (strstr((w)->nccl.ncclGetLastError(NULL), text) == NULL)                                 \
            fail_msg("line %d: the last error is: %s", __LINE__, (w)->nccl.ncclGetLastError(NULL)); \
    } while (0)

static nccl_result async_error(struct world *w, int rank)
{
    nccl_result error = 99;
    ok(w->nccl.ncclCommGetAsyncError(w->rank[rank].comm, &error));
    return error;
}

/* The rank's communicator fails with this result soon, and says why. */
static void fails(struct world *w, int rank, nccl_result result, const char *text)
{
    nccl_result error = NCCL_Success;
    for (int i = 0; i < 20000 && error == NCCL_Success; i++) {
        error = async_error(w, rank);
        usleep(500);
    }
    assert_int_equal(error, result);
    const char *line = w->nccl.ncclGetLastError(w->rank[rank].comm);
    if (strstr(line, text) == NULL)
        fail_msg("rank %d says: %s", rank, line);
}

static nccl_result gather(struct world *w, int rank, size_t count)
{
    struct rank *r = &w->rank[rank];
    use(w, rank);
    return w->nccl.ncclAllGather(pointer_of(r->from), pointer_of(r->to), count, NCCL_Float32, r->comm,
                                 r->stream);
}

/* ---- refused ------------------------------------------------------------------------------------------- */
TEST(test_results)
{
    struct nccl_api nccl = nccl_load();
    int             version = 0;
    ok(nccl.ncclGetVersion(&version));
    assert_int_equal(version, NCCL_VERSION);
    assert_int_equal(nccl.ncclGetVersion(NULL), NCCL_InvalidArgument);
    for (nccl_result r = NCCL_Success; r <= NCCL_InProgress; r++)
        assert_string_not_equal(nccl.ncclGetErrorString(r), "unknown result code");
    assert_string_equal(nccl.ncclGetErrorString(99), "unknown result code");
}

TEST(test_refused_making)
{
    struct world     w;
    nccl_id          id, foreign = {"somewhere else"};
    struct ncclComm *comm = NULL, *comms[2];
    nccl_config      config = {sizeof config, (unsigned int)NCCL_CONFIG_MAGIC, NCCL_VERSION, 2};
    const int        twice[2] = {1, 1}, absent[2] = {0, 7};
    world_open(&w, "", 2, 0, 2);
    refuses(&w, w.nccl.ncclGetUniqueId(NULL), NCCL_InvalidArgument, "ncclGetUniqueId: the id is NULL");
    fine(&w, w.nccl.ncclGetUniqueId(&id));
    refuses(&w, w.nccl.ncclCommInitRank(NULL, 2, id, 0), NCCL_InvalidArgument, "comm is NULL");
    refuses(&w, w.nccl.ncclCommInitRank(&comm, 0, id, 0), NCCL_InvalidArgument, "0 ranks, not 1 to 64");
    refuses(&w, w.nccl.ncclCommInitRank(&comm, 65, id, 0), NCCL_InvalidArgument, "65 ranks");
    refuses(&w, w.nccl.ncclCommInitRank(&comm, 2, id, 2), NCCL_InvalidArgument, "rank 2 of 2");
    refuses(&w, w.nccl.ncclCommInitRank(&comm, 2, foreign, 0), NCCL_InvalidArgument, "the unique id is not");
    refuses(&w, w.nccl.ncclCommInitRankConfig(&comm, 2, id, 0, &config), NCCL_InvalidArgument, "blocking is 2");
    config.magic = 0;
    refuses(&w, w.nccl.ncclCommInitRankConfig(&comm, 2, id, 0, &config), NCCL_InvalidArgument,
            "NCCL_CONFIG_INITIALIZER");
    assert_null(comm);
    refuses(&w, w.nccl.ncclCommInitAll(comms, 2, twice), NCCL_InvalidUsage, "ranks 0 and 1 of one process");
    refuses(&w, w.nccl.ncclCommInitAll(comms, 2, absent), NCCL_UnhandledCudaError, "device 7 gives error 101");
    refuses(&w, w.nccl.ncclGroupEnd(), NCCL_InvalidUsage, "without ncclGroupStart");
    ok(w.cu->cuCtxSetCurrent(NULL));
    refuses(&w, w.nccl.ncclCommInitRank(&comm, 2, id, 0), NCCL_UnhandledCudaError, "no context is current");
    fine(&w, w.nccl.ncclCommDestroy(NULL));
    world_close(&w);
}

TEST(test_refused_ranks)
{
    struct world     w;
    nccl_id          id;
    struct ncclComm *comm = NULL, *again = NULL;
    nccl_config      config = {sizeof config, (unsigned int)NCCL_CONFIG_MAGIC, NCCL_VERSION, 0};
    world_open(&w, "", 3, 0, 3);
    fine(&w, w.nccl.ncclGetUniqueId(&id));
    use(&w, 0);
    assert_int_equal(w.nccl.ncclCommInitRankConfig(&comm, 3, id, 0, &config), NCCL_InProgress);
    refuses(&w, w.nccl.ncclCommInitRank(&again, 3, id, 1), NCCL_InvalidUsage, "both on device 0");
    use(&w, 1);
    refuses(&w, w.nccl.ncclCommInitRank(&again, 3, id, 0), NCCL_InvalidUsage, "rank 0 has joined already");
    refuses(&w, w.nccl.ncclCommInitRank(&again, 2, id, 1), NCCL_InvalidUsage, "rank 1 was made for 2 ranks");
    fine(&w, w.nccl.ncclCommAbort(comm));
    world_close(&w);
}

TEST(test_refused_operations)
{
    struct world w;
    float        plain[4] = {0};
    nccl_result  error;
    world_make(&w, "", 2);
    struct rank *r = &w.rank[0];
    void        *from = pointer_of(r->from), *to = pointer_of(r->to), *far = pointer_of(w.rank[1].from);
    use(&w, 0);
#define AT r->comm, r->stream
    refuses(&w, w.nccl.ncclSend(from, 1, NCCL_Float32, 1, NULL, r->stream), NCCL_InvalidArgument,
            "communicator is NULL");
    refuses(&w, w.nccl.ncclSend(from, 1, NCCL_TYPES, 1, AT), NCCL_InvalidArgument, "12 is no data type");
    refuses(&w, w.nccl.ncclSend(from, 1, NCCL_Int8, 2, AT), NCCL_InvalidArgument,
            "ncclSend: peer 2 of 2 ranks");
    refuses(&w, w.nccl.ncclRecv(to, 1, NCCL_Int8, -1, AT), NCCL_InvalidArgument, "ncclRecv: peer -1 of 2");
    refuses(&w, w.nccl.ncclBroadcast(from, to, 1, NCCL_Int8, 2, AT), NCCL_InvalidArgument, "root 2 of 2");
    refuses(&w, w.nccl.ncclAllReduce(from, to, 1, NCCL_Int8, NCCL_REDUCTIONS, AT), NCCL_InvalidArgument,
            "5 is no reduction");
    refuses(&w, w.nccl.ncclSend(plain, 1, NCCL_Float32, 1, AT), NCCL_InvalidArgument,
            "sendbuff of rank 0 is not 4 bytes");
    refuses(&w, w.nccl.ncclRecv(to, BUFFER + 1, NCCL_Int8, 1, AT), NCCL_InvalidArgument,
            "recvbuff of rank 0 is not");
    refuses(&w, w.nccl.ncclAllGather(from, to, BUFFER / 2 + 1, NCCL_Int8, AT), NCCL_InvalidArgument,
            "recvbuff");
    refuses(&w, w.nccl.ncclReduceScatter(from, to, BUFFER, NCCL_Int8, NCCL_Sum, AT), NCCL_InvalidArgument,
            "sendbuff");
    refuses(&w, w.nccl.ncclSend(far, 1, NCCL_Int8, 1, AT), NCCL_InvalidArgument,
            "is memory of device 1, not 0");
    refuses(&w, w.nccl.ncclAlltoAll(from, from, 1, NCCL_Int8, AT), NCCL_InvalidArgument, "overlap");
    refuses(&w, w.nccl.ncclAllGather(from, to, SIZE_MAX / 2, NCCL_Int8, AT), NCCL_InvalidArgument, "elements");
    refuses(&w, w.nccl.ncclSend(from, 1, NCCL_Int8, 1, r->comm, w.rank[1].stream), NCCL_UnhandledCudaError,
            "the driver returns 201");
    refuses(&w, w.nccl.ncclCommGetAsyncError(r->comm, NULL), NCCL_InvalidArgument, "the result is NULL");
    refuses(&w, w.nccl.ncclCommGetAsyncError(NULL, &error), NCCL_InvalidArgument, "NULL");
#undef AT
    /* An error within a group is that of the group, and nothing of it is enqueued. */
    fine(&w, w.nccl.ncclGroupStart());
    fine(&w, w.nccl.ncclSend(from, 1, NCCL_Int8, 1, r->comm, r->stream));
    assert_int_equal(w.nccl.ncclRecv(plain, 1, NCCL_Int8, 1, r->comm, r->stream), NCCL_InvalidArgument);
    assert_int_equal(w.nccl.ncclGroupEnd(), NCCL_InvalidArgument);
    ok(w.cu->cuStreamQuery(r->stream));
    assert_int_equal(async_error(&w, 0), NCCL_Success);
    fine(&w, w.nccl.ncclCommFinalize(r->comm));
    refuses(&w, gather(&w, 0, 1), NCCL_InvalidUsage, "rank 0 was finalized");
    refuses(&w, w.nccl.ncclCommFinalize(r->comm), NCCL_InvalidArgument, "finalized already");
    world_close(&w);
}

/* ---- ranks that disagree ------------------------------------------------------------------------------- */
typedef nccl_result different_call(struct world *w, struct rank *r);

static nccl_result fewer(struct world *w, struct rank *r)
{
    return w->nccl.ncclAllGather(pointer_of(r->from), pointer_of(r->to), 7, NCCL_Float32, r->comm, r->stream);
}
static nccl_result another_type(struct world *w, struct rank *r)
{
    return w->nccl.ncclAllGather(pointer_of(r->from), pointer_of(r->to), 8, NCCL_Int32, r->comm, r->stream);
}
static nccl_result another_call(struct world *w, struct rank *r)
{
    return w->nccl.ncclAllReduce(pointer_of(r->from), pointer_of(r->to), 8, NCCL_Float32, NCCL_Max, r->comm,
                                 r->stream);
}

TEST(test_ranks_disagree)
{
    static const struct {
        different_call *call;
        const char     *text;
    } cases[] = {
        {fewer, "with 7 elements of ncclFloat32"},
        {another_type, "with 8 elements of ncclInt32"},
        {another_call, "ncclAllReduce with 8 elements of ncclFloat32"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct world w;
        world_make(&w, "", 2);
        use(&w, 1);
        fine(&w, cases[i].call(&w, &w.rank[1]));
        fine(&w, gather(&w, 0, 8)); /* this rank finds it */
        world_synchronize(&w);
        /* Who finds it first has done something wrong, the other one has a remote error. */
        const nccl_result first = async_error(&w, 0);
        assert_true(first == NCCL_InvalidUsage || first == NCCL_RemoteError);
        assert_int_equal(async_error(&w, 1), first == NCCL_InvalidUsage ? NCCL_RemoteError : NCCL_InvalidUsage);
        const char *line = w.nccl.ncclGetLastError(w.rank[0].comm);
        if (strstr(line, "ncclAllGather") == NULL || strstr(line, "rank 0") == NULL ||
            strstr(line, "rank 1") == NULL)
            fail_msg("%s", line);
        if (first == NCCL_InvalidUsage && strstr(line, cases[i].text) == NULL)
            fail_msg("%s", line);
        refuses(&w, gather(&w, 0, 8), first, "ncclAllGather: rank ");
        world_close(&w);
    }
}

TEST(test_another_reduction)
{
    struct world w;
    world_make(&w, "", 2);
    for (int i = 0; i < 2; i++) {
        struct rank *r = &w.rank[i];
        use(&w, i);
        fine(&w, w.nccl.ncclAllReduce(pointer_of(r->from), pointer_of(r->to), 8, NCCL_Float32,
                                      i ? NCCL_Max : NCCL_Sum, r->comm, r->stream));
    }
    world_synchronize(&w);
    assert_int_not_equal(async_error(&w, 0), NCCL_Success);
    assert_non_null(strstr(w.nccl.ncclGetLastError(w.rank[0].comm), "but with another reduction or root"));
    world_close(&w);
}

/* ---- abort, destruction -------------------------------------------------------------------------------- */
/* The others have not called; the streams go on all the same. */
TEST(test_abort)
{
    struct world w;
    unsigned int got = 0;
    world_make(&w, "", 3);
    for (int i = 0; i < 2; i++) {
        fine(&w, gather(&w, i, 100));
        ok(w.cu->cuMemsetD32Async(w.rank[i].from, 77, 1, w.rank[i].stream));
        answers(w.cu->cuStreamQuery(w.rank[i].stream), 600);
    }
    fine(&w, w.nccl.ncclCommAbort(w.rank[0].comm));
    w.rank[0].comm = NULL;
    world_synchronize(&w);
    for (int i = 1; i < 3; i++)
        fails(&w, i, NCCL_RemoteError, "rank 0 has aborted");
    use(&w, 1);
    ok(w.cu->cuMemcpyDtoH_v2(&got, w.rank[1].from, 4));
    assert_int_equal(got, 77);
    assert_int_equal(gather(&w, 2, 1), NCCL_RemoteError);
    world_close(&w);
}

static void *abort_later(void *argument)
{
    struct world *w = (struct world *)argument;
    usleep(50000);
    assert_int_equal(w->nccl.ncclCommAbort(w->rank[0].comm), NCCL_Success);
    return NULL;
}

/* A thread that waits in the driver is released by another one. */
TEST(test_abort_from_a_thread)
{
    struct world w;
    pthread_t    thread;
    world_make(&w, "", 2);
    fine(&w, gather(&w, 0, 100));
    assert_int_equal(pthread_create(&thread, NULL, abort_later, &w), 0);
    ok(w.cu->cuStreamSynchronize(w.rank[0].stream));
    pthread_join(thread, NULL);
    w.rank[0].comm = NULL;
    world_close(&w);
}

TEST(test_destroyed_peer)
{
    struct world w;
    world_make(&w, "", 2);
    for (int i = 0; i < 2; i++)
        fine(&w, gather(&w, i, 100));
    fine(&w, w.nccl.ncclCommDestroy(w.rank[1].comm)); /* waits for what it has enqueued */
    w.rank[1].comm = NULL;
    use(&w, 0);
    ok(w.cu->cuStreamSynchronize(w.rank[0].stream));
    assert_int_equal(async_error(&w, 0), NCCL_Success);
    fine(&w, gather(&w, 0, 100));
    fails(&w, 0, NCCL_RemoteError, "");
    world_close(&w);
}

/* A rank whose context ends cannot go on, and the others hear of it. */
TEST(test_context_ends)
{
    struct world w;
    world_make(&w, "", 2);
    fine(&w, gather(&w, 1, 100));
    ok(w.cu->cuDevicePrimaryCtxReset_v2(1));
    fails(&w, 0, NCCL_RemoteError, "an operation of rank 1 was dropped");
    fails(&w, 1, NCCL_UnhandledCudaError, "an operation of rank 1 was dropped");
    ok(w.cu->cuDevicePrimaryCtxRetain(&w.rank[1].context, 1));
    world_close(&w);
}

TEST(test_freed_buffer)
{
    struct world        w;
    struct CUstream_st *idle = NULL;
    world_make(&w, "", 2);
    fine(&w, gather(&w, 0, 100));
    ok(w.cu->cuStreamCreate(&idle, 1));
    ok(w.cu->cuMemFreeAsync(w.rank[0].to, idle)); /* in the wrong stream */
    fine(&w, gather(&w, 1, 100));
    fails(&w, 0, NCCL_UnhandledCudaError, "a buffer of rank 0 was freed meanwhile");
    world_close(&w);
}

/* ---- processes that die -------------------------------------------------------------------------------- */
static int ready_pipe[2];

static void joins_and_waits(int number, nccl_id id)
{
    struct world w;
    world_open(&w, "", 3, number, 1);
    world_join(&w, id);
    fine(&w, gather(&w, number, 1000));
    world_synchronize(&w);
    if (number != 2)
        fine(&w, gather(&w, number, 1000));
    assert_int_equal(write(ready_pipe[1], "x", 1), 1);
    if (number == 2)
        pause();
    world_synchronize(&w); /* comes to an end, for rank 2 has died */
    fails(&w, number, NCCL_RemoteError, "rank 2 (process ");
    fine(&w, w.nccl.ncclCommAbort(w.rank[number].comm));
    w.rank[number].comm = NULL;
    world_close(&w);
}

TEST(test_killed)
{
    const nccl_id id = an_id();
    pid_t         children[3];
    char          byte;
    ok(pipe(ready_pipe));
    for (int i = 0; i < 3; i++)
        children[i] = process_start(joins_and_waits, i, id);
    for (int i = 0; i < 3; i++)
        assert_int_equal(read(ready_pipe[0], &byte, 1), 1);
    kill(children[2], SIGKILL);
    assert_int_equal(process_end(children[2]), 1000 + SIGKILL);
    for (int i = 0; i < 2; i++)
        assert_int_equal(process_end(children[i]), 0);
}

/* One that dies before all have joined: the others do not wait for it. */
static void joins_alone(int number, nccl_id id)
{
    struct world     w;
    struct ncclComm *comm = NULL;
    nccl_config      config = {sizeof config, (unsigned int)NCCL_CONFIG_MAGIC, NCCL_VERSION, 0};
    world_open(&w, "", 3, number, 1);
    if (number == 0) {
        assert_int_equal(w.nccl.ncclCommInitRankConfig(&comm, 3, id, 0, &config), NCCL_InProgress);
        assert_int_equal(write(ready_pipe[1], "x", 1), 1);
        kill(getpid(), SIGKILL);
    }
    refuses(&w, w.nccl.ncclCommInitRank(&comm, 3, id, 1), NCCL_RemoteError, "");
    assert_null(comm);
    world_close(&w);
}

TEST(test_killed_while_joining)
{
    const nccl_id id = an_id();
    char          byte;
    ok(pipe(ready_pipe));
    pid_t first = process_start(joins_alone, 0, id);
    assert_int_equal(read(ready_pipe[0], &byte, 1), 1);
    assert_int_equal(process_end(first), 1000 + SIGKILL);
    pid_t second = process_start(joins_alone, 1, id);
    assert_int_equal(process_end(second), 0);
}

/* A process may end without a word while its operations wait. */
static void leaves(int number, nccl_id id)
{
    struct world w;
    world_open(&w, "", 2, number, 1);
    world_join(&w, id);
    if (number == 0) {
        fine(&w, gather(&w, 0, 10));
        exit(0);
    }
    fails(&w, 1, NCCL_RemoteError, "has ended without ncclCommDestroy");
    world_close(&w);
}

TEST(test_exit)
{
    const nccl_id id = an_id();
    pid_t         children[2];
    for (int i = 0; i < 2; i++)
        children[i] = process_start(leaves, i, id);
    for (int i = 0; i < 2; i++)
        assert_int_equal(process_end(children[i]), 0);
}

/* ---- errors on request --------------------------------------------------------------------------------- */
static void dies_on_request(int number, nccl_id id)
{
    struct world w;
    setenv("PTXPACK_EMU_NCCL_FAULT", "late@0=1,die@1=2", 1);
    world_open(&w, "", 2, number, 1);
    world_join(&w, id);
    fine(&w, gather(&w, number, 10));
    world_synchronize(&w);
    fine(&w, gather(&w, number, 10));
    world_synchronize(&w);
    fails(&w, 0, NCCL_RemoteError, "rank 1 (process ");
    world_close(&w);
}

TEST(test_fault_die)
{
    const nccl_id id = an_id();
    pid_t         children[2];
    for (int i = 0; i < 2; i++)
        children[i] = process_start(dies_on_request, i, id);
    assert_int_equal(process_end(children[0]), 0);
    assert_int_equal(process_end(children[1]), 1000 + SIGKILL);
}

TEST(test_faults)
{
    static const char *const wrong[] = {"late",     "late@1",     "late@1=",  "late@=3",
                                        "die@1=2x", "error@-1=2", "slow@1=2", "die@1=2,,x"};
    struct world             w;
    struct timespec          before, after;
    struct ncclComm         *comms[2];
    world_open(&w, "", 2, 0, 2);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        setenv("PTXPACK_EMU_NCCL_FAULT", wrong[i], 1);
        refuses(&w, w.nccl.ncclCommInitAll(comms, 2, NULL), NCCL_InvalidUsage, "which is not a fault");
    }
    setenv("PTXPACK_EMU_NCCL_FAULT", "late@1=120,error@0=2", 1);
    fine(&w, w.nccl.ncclCommInitAll(comms, 2, NULL));
    for (int i = 0; i < 2; i++)
        w.rank[i].comm = comms[i];
    clock_gettime(CLOCK_MONOTONIC, &before);
    for (int i = 0; i < 2; i++)
        fine(&w, gather(&w, i, 10));
    world_synchronize(&w);
    clock_gettime(CLOCK_MONOTONIC, &after);
    assert_true((after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000 >= 119);
    assert_int_equal(async_error(&w, 0), NCCL_Success);
    fine(&w, gather(&w, 1, 10));
    fine(&w, gather(&w, 0, 10));
    world_synchronize(&w);
    fails(&w, 0, NCCL_SystemError, "operation 2 of rank 0 fails");
    fails(&w, 1, NCCL_RemoteError, "operation 2 of rank 0 fails");
    unsetenv("PTXPACK_EMU_NCCL_FAULT");
    world_close(&w);
}

/* ---- joining ------------------------------------------------------------------------------------------- */
/* A communicator that is not blocking is in progress until all have joined. */
TEST(test_not_blocking)
{
    struct world w;
    nccl_id      id;
    nccl_config  config = {sizeof config, (unsigned int)NCCL_CONFIG_MAGIC, NCCL_VERSION, 0};
    world_open(&w, "", 2, 0, 2);
    fine(&w, w.nccl.ncclGetUniqueId(&id));
    use(&w, 0);
    assert_int_equal(w.nccl.ncclCommInitRankConfig(&w.rank[0].comm, 2, id, 0, &config), NCCL_InProgress);
    assert_int_equal(async_error(&w, 0), NCCL_InProgress);
    refuses(&w, gather(&w, 0, 1), NCCL_InvalidArgument, "not all ranks of the communicator have joined yet");
    use(&w, 1);
    config.blocking = INT_MIN; /* not set */
    fine(&w, w.nccl.ncclCommInitRankConfig(&w.rank[1].comm, 2, id, 1, &config));
    assert_int_equal(async_error(&w, 0), NCCL_Success);
    for (int i = 0; i < 2; i++)
        fine(&w, gather(&w, i, 10));
    world_synchronize(&w);
    world_close(&w);
}

static bool is_there(const char *name)
{
    const int file = shm_open(name, O_RDONLY, 0);
    if (file >= 0)
        close(file);
    return file >= 0;
}

/* Nothing is left in /dev/shm, and what a dead process has left is removed. */
TEST(test_names)
{
    struct world w;
    nccl_id      id;
    char         stale[64];
    pid_t        child = fork();
    if (child == 0)
        _exit(0);
    assert_int_equal(process_end(child), 0);
    snprintf(stale, sizeof stale, "/ptxpack-nccl-%d-0-stale", (int)child);
    close(shm_open(stale, O_CREAT | O_RDWR, 0600));
    assert_true(is_there(stale));
    world_open(&w, "", 2, 0, 2);
    fine(&w, w.nccl.ncclGetUniqueId(&id));
    assert_false(is_there(stale));
    fine(&w, w.nccl.ncclGroupStart());
    use(&w, 0);
    fine(&w, w.nccl.ncclCommInitRank(&w.rank[0].comm, 2, id, 0));
    assert_true(is_there(id.internal));
    use(&w, 1);
    fine(&w, w.nccl.ncclCommInitRank(&w.rank[1].comm, 2, id, 1));
    fine(&w, w.nccl.ncclGroupEnd());
    assert_false(is_there(id.internal));
    world_close(&w);
}

RUN_TESTS(emu_folder_make, emu_folder_remove)
