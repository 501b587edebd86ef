/* streams.c - work that waits: for values in memory, for events of other streams and devices, for kernels that poll. */
#include "api_fixture.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#define BEFORE_EACH NULL
#define AFTER_EACH  NULL

enum { READY = 0, NOT_READY = 600, GEQ = 0, EQ = 1, AND = 2, NOR = 3, NON_BLOCKING = 1 };

struct rank {
    struct CUctx_st    *context;
    struct CUstream_st *stream, *copies;
    struct CUfunc_st   *poll, *signal;
    api_address         flag, data; /* 256 bytes each, zeros */
};

/* `poll` waits until *flag is 1, then copies *data to *out; `signal` writes 1 to *flag. */
static const char ptx[] = ".version 7.8\n"
                          ".target sm_75\n"
                          ".address_size 64\n"
                          ".visible .entry poll(.param .u64 flag, .param .u64 data, .param .u64 out)\n"
                          "{\n"
                          "    .reg .b64 %a<4>;\n"
                          "    .reg .b32 %r<3>;\n"
                          "    .reg .pred %p;\n"
                          "    ld.param.u64 %a1, [flag];\n"
                          "    ld.param.u64 %a2, [data];\n"
                          "    ld.param.u64 %a3, [out];\n"
                          "again:\n"
                          "    ld.acquire.sys.global.u32 %r1, [%a1];\n"
                          "    setp.ne.u32 %p, %r1, 1;\n"
                          "    @%p bra again;\n"
                          "    ld.global.u32 %r2, [%a2];\n"
                          "    st.global.u32 [%a3], %r2;\n"
                          "    ret;\n"
                          "}\n"
                          ".visible .entry signal(.param .u64 flag)\n"
                          "{\n"
                          "    .reg .b64 %a1;\n"
                          "    ld.param.u64 %a1, [flag];\n"
                          "    st.release.sys.global.u32 [%a1], 1;\n"
                          "    ret;\n"
                          "}\n";

static void make_rank(struct emu_api *cu, int device, struct rank *r)
{
    ok(cu->cuDevicePrimaryCtxRetain(&r->context, device));
    ok(cu->cuCtxSetCurrent(r->context));
    ok(cu->cuStreamCreate(&r->stream, NON_BLOCKING));
    ok(cu->cuStreamCreate(&r->copies, NON_BLOCKING));
    ok(cu->cuMemAlloc_v2(&r->flag, 256));
    ok(cu->cuMemAlloc_v2(&r->data, 256));
    ok(cu->cuMemsetD8_v2(r->flag, 0, 256));
    ok(cu->cuMemsetD8_v2(r->data, 0, 256));
    r->poll = emu_function_named(cu, ptx, "poll");
    r->signal = emu_function_named(cu, ptx, "signal");
    ok(cu->cuCtxSynchronize());
}

/* `count` devices that may access each other's memory; the context of the first is current. */
static struct emu_api *machine(const char *more, int count, struct rank *ranks)
{
    char words[256];
    snprintf(words, sizeof words, "PTXPACK_EMU_DEVICES=%d PTXPACK_EMU_MEMORY=64M PTXPACK_EMU_THREADS=1 %s",
             count, more);
    struct emu_api *cu = emu_api(words);
    for (int i = 0; i < count; i++)
        make_rank(cu, i, &ranks[i]);
    for (int i = 0; i < count; i++) {
        ok(cu->cuCtxSetCurrent(ranks[i].context));
        for (int k = 0; k < count; k++)
            if (k != i)
                ok(cu->cuCtxEnablePeerAccess(ranks[k].context, 0));
    }
    ok(cu->cuCtxSetCurrent(ranks[0].context));
    return cu;
}

static unsigned int word_at(struct emu_api *cu, api_address address)
{
    unsigned int word = 0;
    ok(cu->cuMemcpyDtoH_v2(&word, address, 4));
    return word;
}

static unsigned int *pinned_word(struct emu_api *cu, unsigned int value)
{
    void *host = NULL;
    ok(cu->cuMemHostAlloc(&host, 64, 3));
    *(unsigned int *)host = value;
    return (unsigned int *)host;
}

static api_address address_of(const void *host) { return (api_address)(uintptr_t)host; }

/* ---- waiting for a value ------------------------------------------------------------------------------- */
/* What comes after the wait in its stream waits, too; the host writes the value. */
TEST(test_wait_for_the_host)
{
    struct rank        r;
    struct emu_api    *cu = machine("", 1, &r);
    struct CUevent_st *before = NULL, *after = NULL;
    unsigned int      *flag = pinned_word(cu, 0), *out = pinned_word(cu, 0);
    float              milliseconds = 0;
    ok(cu->cuEventCreate(&before, 0));
    ok(cu->cuEventCreate(&after, 0));
    ok(cu->cuEventRecord(before, r.stream));
    ok(cu->cuStreamWaitValue32_v2(r.stream, address_of(flag), 7, EQ));
    ok(cu->cuMemsetD32Async(address_of(out), 9, 1, r.stream));
    ok(cu->cuEventRecord(after, r.stream));
    answers(cu->cuStreamQuery(r.stream), NOT_READY);
    ok(cu->cuEventQuery(before));
    answers(cu->cuEventQuery(after), NOT_READY);
    answers(cu->cuEventElapsedTime(&milliseconds, before, after), NOT_READY);
    ok(cu->cuStreamQuery(r.copies)); /* other streams go on */
    ok(cu->cuMemsetD32Async(r.data, 5, 1, r.copies));
    ok(cu->cuStreamSynchronize(r.copies));
    assert_int_equal(*out, 0);
    __atomic_store_n(flag, 7, __ATOMIC_RELEASE);
    ok(cu->cuEventSynchronize(after));
    assert_int_equal(*out, 9);
    ok(cu->cuStreamQuery(r.stream));
    ok(cu->cuEventElapsedTime(&milliseconds, before, after));
    assert_true(milliseconds > 0);
    free(cu);
}

/* Nobody calls the driver: the stream sees the value all the same. */
TEST(test_goes_on_by_itself)
{
    struct rank     r;
    struct emu_api *cu = machine("", 1, &r);
    unsigned int   *flag = pinned_word(cu, 0), *out = pinned_word(cu, 0);
    ok(cu->cuStreamWaitValue32_v2(r.stream, address_of(flag), 1, GEQ));
    ok(cu->cuStreamWriteValue32_v2(r.stream, address_of(out), 2, 0));
    assert_int_equal(__atomic_load_n(out, __ATOMIC_ACQUIRE), 0);
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < 10000 && __atomic_load_n(out, __ATOMIC_ACQUIRE) == 0; i++)
        usleep(1000);
    assert_int_equal(*out, 2);
    free(cu);
}

TEST(test_comparisons)
{
    static const struct {
        uint64_t     is, value;
        unsigned int flags, bits;
        bool         reached;
    } cases[] = {
        {5, 5, GEQ, 32, true},
        {4, 5, GEQ, 32, false},
        {2, 0xfffffff0, GEQ, 32, true}, /* the counter has wrapped */
        {0xfffffff0, 2, GEQ, 32, false},
        {5, 5, EQ, 32, true},
        {6, 5, EQ, 32, false},
        {6, 2, AND, 32, true},
        {6, 9, AND, 32, false},
        {6, 9, NOR, 32, true},
        {0xffff0000, 0x0000ffff, NOR, 32, false},
        {1ull << 40, 1ull << 40, EQ, 64, true},
        {1ull << 40, 1, GEQ, 64, true},
        {1, 1ull << 40, GEQ, 64, false},
        {3ull << 60, 1ull << 61, AND, 64, true},
        {0x00000000ffffffff, 0, NOR, 64, true},
    };
    struct rank     r;
    struct emu_api *cu = machine("", 1, &r);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (cases[i].bits == 64) {
            ok(cu->cuStreamWriteValue64_v2(r.copies, r.flag, cases[i].is, 0));
            ok(cu->cuStreamWaitValue64_v2(r.stream, r.flag, cases[i].value, cases[i].flags));
        } else {
            ok(cu->cuStreamWriteValue32(r.copies, r.flag, (uint32_t)cases[i].is, 1));
            ok(cu->cuStreamWaitValue32(r.stream, r.flag, (uint32_t)cases[i].value, cases[i].flags));
        }
        answers(cu->cuStreamQuery(r.stream), cases[i].reached ? READY : NOT_READY);
        if (cases[i].flags == NOR) /* that any value but this one's complement meets */
            ok(cu->cuStreamWriteValue64(r.copies, r.flag, 0, 0));
        else
            ok(cu->cuStreamWriteValue64(r.copies, r.flag, cases[i].value, 0));
        ok(cu->cuStreamSynchronize(r.stream));
    }
    free(cu);
}

TEST(test_refused)
{
    struct rank     r;
    struct emu_api *cu = machine("", 1, &r);
    unsigned int    plain = 0;
    answers(cu->cuStreamWaitValue32_v2(r.stream, r.flag, 0, 4), 1);
    answers(cu->cuStreamWaitValue32_v2(r.stream, r.flag, 0, 1u << 30), 801);
    answers(cu->cuStreamWriteValue32_v2(r.stream, r.flag, 0, 2), 1);
    answers(cu->cuStreamWriteValue32_v2(r.stream, r.flag + 2, 0, 0), 1);
    answers(cu->cuStreamWriteValue64_v2(r.stream, r.flag + 4, 0, 0), 1);
    answers(cu->cuStreamWaitValue64_v2(r.stream, r.flag + 256, 0, 0), 1);
    answers(cu->cuStreamWaitValue32_v2(r.stream, address_of(&plain), 0, 0), 1); /* not pinned */
    answers(cu->cuStreamWaitValue32_v2((struct CUstream_st *)&plain, r.flag, 0, 0), 400);
    ok(cu->cuStreamQuery(r.stream));
    free(cu);
}

/* ---- streams and devices that wait for each other ------------------------------------------------------ */
/* A ring: each rank passes on the word that it gets, and all enqueue before the first one begins. */
static void pass_round(struct emu_api *cu, struct rank *ranks, int count)
{
    const api_address start = ranks[0].flag;
    for (int i = count - 1; i >= 0; i--) { /* the last one first: everybody waits */
        struct rank *to = &ranks[(i + 1) % count];
        ok(cu->cuCtxSetCurrent(ranks[i].context));
        ok(cu->cuStreamWaitValue32_v2(ranks[i].stream, ranks[i].flag, 1, EQ));
        ok(cu->cuMemcpyPeerAsync(to->data + 4, to->context, ranks[i].data, ranks[i].context, 4,
                                 ranks[i].stream));
        if (i < count - 1) {
            ok(cu->cuMemcpyPeerAsync(to->data, to->context, ranks[i].data, ranks[i].context, 4,
                                     ranks[i].stream));
            ok(cu->cuStreamWriteValue32_v2(ranks[i].stream, to->flag, 1, 0));
        }
        answers(cu->cuStreamQuery(ranks[i].stream), NOT_READY);
    }
    ok(cu->cuCtxSetCurrent(ranks[0].context));
    ok(cu->cuMemsetD32_v2(ranks[0].data, 0x1234, 1));
    ok(cu->cuStreamWriteValue32_v2(ranks[0].copies, start, 1, 0));
    for (int i = 0; i < count; i++) {
        ok(cu->cuCtxSetCurrent(ranks[i].context));
        ok(cu->cuCtxSynchronize());
        assert_int_equal(word_at(cu, ranks[i].data + 4), 0x1234);
    }
}

TEST(test_ring_of_devices)
{
    static const int counts[] = {2, 3, 4, 8};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        struct rank     ranks[8];
        struct emu_api *cu = machine("", counts[i], ranks);
        pass_round(cu, ranks, counts[i]);
        free(cu);
    }
}

/* An event that was recorded again is not the one that a stream waits for. */
TEST(test_events_across_devices)
{
    struct rank        r[2];
    struct emu_api    *cu = machine("", 2, r);
    struct CUevent_st *event = NULL;
    ok(cu->cuEventCreate(&event, 2));
    ok(cu->cuMemsetD32_v2(r[0].data, 21, 1));
    ok(cu->cuStreamWaitValue32_v2(r[0].stream, r[0].flag, 1, EQ));
    ok(cu->cuMemcpyPeerAsync(r[1].data, r[1].context, r[0].data, r[0].context, 4, r[0].stream));
    ok(cu->cuEventRecord(event, r[0].stream));
    ok(cu->cuCtxSetCurrent(r[1].context));
    ok(cu->cuStreamWaitEvent(r[1].stream, event, 0));
    ok(cu->cuMemcpyDtoDAsync_v2(r[1].data + 8, r[1].data, 4, r[1].stream));
    answers(cu->cuStreamQuery(r[1].stream), NOT_READY);
    ok(cu->cuCtxSetCurrent(r[0].context));
    answers(cu->cuEventQuery(event), NOT_READY);
    ok(cu->cuEventRecord(event, r[0].copies)); /* reached at once */
    ok(cu->cuEventSynchronize(event));
    answers(cu->cuStreamQuery(r[0].stream), NOT_READY);
    ok(cu->cuCtxSetCurrent(r[1].context));
    answers(cu->cuStreamQuery(r[1].stream), NOT_READY);
    ok(cu->cuEventDestroy_v2(event)); /* those who wait for it still do */
    answers(cu->cuStreamQuery(r[1].stream), NOT_READY);
    ok(cu->cuStreamWriteValue32_v2(r[1].copies, r[0].flag, 1, 0));
    ok(cu->cuStreamSynchronize(r[1].stream));
    assert_int_equal(word_at(cu, r[1].data + 8), 21);
    ok(cu->cuCtxSetCurrent(r[0].context));
    ok(cu->cuStreamSynchronize(r[0].stream));
    free(cu);
}

/* The default stream waits for the others that synchronise with it, and they for it. */
TEST(test_default_stream)
{
    struct rank         r;
    struct emu_api     *cu = machine("", 1, &r);
    struct CUstream_st *blocking = NULL;
    ok(cu->cuStreamCreate(&blocking, 0));
    ok(cu->cuStreamWaitValue32_v2(blocking, r.flag, 1, EQ));
    ok(cu->cuMemsetD32Async(r.data, 1, 1, NULL));
    ok(cu->cuMemsetD32Async(r.data + 4, 2, 1, r.stream));
    ok(cu->cuStreamQuery(r.stream)); /* it does not */
    answers(cu->cuStreamQuery(NULL), NOT_READY);
    ok(cu->cuStreamWriteValue32_v2(r.copies, r.flag, 1, 0));
    ok(cu->cuStreamSynchronize(NULL));
    assert_int_equal(word_at(cu, r.data), 1);
    ok(cu->cuStreamWaitValue32_v2(NULL, r.flag, 2, EQ));
    ok(cu->cuMemsetD32Async(r.data, 3, 1, blocking));
    answers(cu->cuStreamQuery(blocking), NOT_READY);
    ok(cu->cuStreamWriteValue32_v2(r.copies, r.flag, 2, 0));
    ok(cu->cuStreamSynchronize(blocking));
    assert_int_equal(word_at(cu, r.data), 3);
    free(cu);
}

/* ---- kernels that poll --------------------------------------------------------------------------------- */
static void launch_poll(struct emu_api *cu, const struct rank *r, api_address flag, api_address out)
{
    api_address data = r->data;
    void       *parameters[] = {&flag, &data, &out};
    ok(cu->cuLaunchKernel(r->poll, 1, 1, 1, 1, 1, 1, 0, r->stream, parameters, NULL));
}

/* The kernel is enqueued first, and the copy and the flag that it polls after it, by the same thread. */
TEST(test_kernel_polls_a_stream)
{
    struct rank     r[2];
    struct emu_api *cu = machine("", 2, r);
    for (int i = 0; i < 2; i++) {
        ok(cu->cuCtxSetCurrent(r[i].context));
        launch_poll(cu, &r[i], r[i].flag, r[i].data + 64);
        answers(cu->cuStreamQuery(r[i].stream), NOT_READY);
    }
    for (int i = 0; i < 2; i++) {
        const struct rank *peer = &r[!i];
        ok(cu->cuCtxSetCurrent(r[i].context));
        ok(cu->cuMemsetD32Async(peer->data + 128, 70 + (unsigned int)i, 1, r[i].copies));
        ok(cu->cuMemcpyPeerAsync(r[i].data, r[i].context, peer->data + 128, peer->context, 4, r[i].copies));
        ok(cu->cuStreamWriteValue32_v2(r[i].copies, r[i].flag, 1, 0));
    }
    for (int i = 0; i < 2; i++) {
        ok(cu->cuCtxSetCurrent(r[i].context));
        ok(cu->cuStreamSynchronize(r[i].stream));
        assert_int_equal(word_at(cu, r[i].data + 64), 70 + i);
    }
    free(cu);
}

/* Kernels of two devices run at the same time: one polls what the other one writes into its memory. */
TEST(test_kernels_signal_each_other)
{
    struct rank     r[2];
    struct emu_api *cu = machine("", 2, r);
    ok(cu->cuMemsetD32_v2(r[0].data, 31, 1));
    launch_poll(cu, &r[0], r[0].flag, r[1].data + 4);
    ok(cu->cuCtxSetCurrent(r[1].context));
    api_address flag = r[0].flag;
    void       *parameters[] = {&flag};
    ok(cu->cuLaunchKernel(r[1].signal, 1, 1, 1, 1, 1, 1, 0, r[1].stream, parameters, NULL));
    ok(cu->cuStreamSynchronize(r[1].stream));
    ok(cu->cuCtxSetCurrent(r[0].context));
    ok(cu->cuStreamSynchronize(r[0].stream));
    assert_int_equal(word_at(cu, r[1].data + 4), 31);
    free(cu);
}

/* With one device, a kernel may poll what a stream that waits already will write. */
TEST(test_kernel_polls_on_one_device)
{
    struct rank     r;
    struct emu_api *cu = machine("", 1, &r);
    unsigned int   *flag = pinned_word(cu, 0);
    ok(cu->cuStreamWaitValue32_v2(r.copies, address_of(flag), 1, EQ));
    ok(cu->cuMemsetD32Async(r.data, 41, 1, r.copies));
    ok(cu->cuStreamWriteValue32_v2(r.copies, r.flag, 1, 0));
    launch_poll(cu, &r, r.flag, r.data + 64);
    answers(cu->cuStreamQuery(r.stream), NOT_READY);
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    ok(cu->cuStreamSynchronize(r.stream));
    assert_int_equal(word_at(cu, r.data + 64), 41);
    free(cu);
}

/* Nobody writes the flag: a deadlock, which breaks only the context of the kernel. */
TEST(test_kernel_polls_in_vain)
{
    char log[128], words[256], text[1024] = "";
    snprintf(log, sizeof log, "%s/vain", emu_folder);
    snprintf(words, sizeof words, "PTXPACK_EMU_PATIENCE=1 PTXPACK_EMU_LOG=%s", log);
    struct rank     r[2];
    struct emu_api *cu = machine(words, 2, r);
    launch_poll(cu, &r[0], r[0].flag, r[0].data + 64);
    answers(cu->cuStreamSynchronize(r[0].stream), 702);
    answers(cu->cuStreamQuery(r[0].copies), 702);
    ok(cu->cuCtxSetCurrent(r[1].context));
    ok(cu->cuCtxSynchronize());
    FILE *f = fopen(log, "r");
    assert_non_null(f);
    assert_true(fread(text, 1, sizeof text - 1, f) > 0);
    fclose(f);
    assert_non_null(strstr(text, "deadlock"));
    free(cu);
}

/* The error of a kernel that ran from a queue is returned by the call that waits for it. */
TEST(test_late_errors)
{
    struct rank     r[2];
    struct emu_api *cu = machine("PTXPACK_EMU_ERRORS=launch PTXPACK_EMU_LOG=/dev/null", 2, r);
    launch_poll(cu, &r[0], 64, r[0].data);
    answers(cu->cuStreamSynchronize(r[0].stream), 700);
    ok(cu->cuStreamSynchronize(r[0].stream));
    launch_poll(cu, &r[0], 64, r[0].data);
    answers(cu->cuCtxSynchronize(), 700);
    ok(cu->cuCtxSynchronize());
    free(cu);
}

/* ---- functions of the host ----------------------------------------------------------------------------- */
struct note {
    struct emu_api *cu;
    atomic_int      step;
    api_result      answer;
};

static void wait_for_step(void *data)
{
    struct note *note = (struct note *)data;
    note->answer = note->cu->cuStreamQuery(NULL);
    while (atomic_load(&note->step) == 0)
        usleep(100);
    atomic_store(&note->step, 2);
}

/* One that takes its time holds up its own stream, and no call. */
TEST(test_host_functions)
{
    struct rank     r[2];
    struct emu_api *cu = machine("", 2, r);
    struct note     note = {.cu = cu};
    ok(cu->cuLaunchHostFunc(r[0].stream, wait_for_step, &note));
    ok(cu->cuMemsetD32Async(r[0].data, 1, 1, r[0].stream));
    ok(cu->cuMemsetD32Async(r[0].data + 4, 2, 1, r[0].copies));
    ok(cu->cuStreamSynchronize(r[0].copies));
    answers(cu->cuStreamQuery(r[0].stream), NOT_READY);
    atomic_store(&note.step, 1);
    ok(cu->cuStreamSynchronize(r[0].stream));
    assert_int_equal(atomic_load(&note.step), 2);
    assert_int_equal(note.answer, 800); /* it may not call the driver */
    assert_int_equal(word_at(cu, r[0].data), 1);
    free(cu);
}

/* ---- captures ------------------------------------------------------------------------------------------ */
TEST(test_captured)
{
    struct rank            r;
    struct emu_api        *cu = machine("", 1, &r);
    struct CUgraph_st     *graph = NULL;
    struct CUgraphExec_st *exec = NULL;
    struct CUgraphNode_st *nodes[4] = {NULL};
    size_t                 count = 4;
    unsigned int           type = 0;
    ok(cu->cuStreamBeginCapture_v2(r.stream, 0));
    ok(cu->cuStreamWaitValue32_v2(r.stream, r.flag, 1, EQ));
    ok(cu->cuMemsetD32Async(r.data, 5, 1, r.stream));
    ok(cu->cuStreamWriteValue32_v2(r.stream, r.flag, 2, 0));
    ok(cu->cuStreamEndCapture(r.stream, &graph));
    ok(cu->cuGraphGetNodes(graph, nodes, &count));
    assert_int_equal(count, 3);
    ok(cu->cuGraphNodeGetType(nodes[0], &type));
    assert_int_equal(type, 12);
    ok(cu->cuGraphNodeGetType(nodes[2], &type));
    assert_int_equal(type, 12);
    ok(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 3; i++) {
        ok(cu->cuMemsetD32_v2(r.data, 0, 1));
        ok(cu->cuGraphLaunch(exec, r.stream));
        answers(cu->cuStreamQuery(r.stream), NOT_READY);
        ok(cu->cuStreamWriteValue32_v2(r.copies, r.flag, 1, 0));
        ok(cu->cuStreamSynchronize(r.stream));
        assert_int_equal(word_at(cu, r.data), 5);
        assert_int_equal(word_at(cu, r.flag), 2);
    }
    ok(cu->cuGraphLaunch(exec, r.stream));
    ok(cu->cuGraphExecDestroy(exec)); /* what it has enqueued goes on */
    ok(cu->cuStreamWriteValue32_v2(r.copies, r.flag, 1, 0));
    ok(cu->cuStreamSynchronize(r.stream));
    assert_int_equal(word_at(cu, r.flag), 2);
    free(cu);
}

/* One graph with the work of two devices. */
TEST(test_captured_across_devices)
{
    struct rank            r[2];
    struct emu_api        *cu = machine("", 2, r);
    struct CUgraph_st     *graph = NULL;
    struct CUgraphExec_st *exec = NULL;
    struct CUevent_st     *fork = NULL, *join = NULL;
    ok(cu->cuEventCreate(&fork, 2));
    ok(cu->cuStreamBeginCapture_v2(r[0].stream, 2));
    ok(cu->cuMemsetD32Async(r[0].data, 6, 1, r[0].stream));
    ok(cu->cuEventRecord(fork, r[0].stream));
    ok(cu->cuCtxSetCurrent(r[1].context));
    ok(cu->cuEventCreate(&join, 2));
    ok(cu->cuStreamWaitEvent(r[1].stream, fork, 0));
    launch_poll(cu, &r[1], r[1].flag, r[0].data + 64); /* on device 1, to device 0 */
    ok(cu->cuEventRecord(join, r[1].stream));
    ok(cu->cuCtxSetCurrent(r[0].context));
    ok(cu->cuStreamWaitEvent(r[0].stream, join, 0));
    ok(cu->cuStreamEndCapture(r[0].stream, &graph));
    ok(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    ok(cu->cuMemsetD32_v2(r[1].data, 8, 1));
    ok(cu->cuMemsetD32_v2(r[1].flag, 1, 1));
    ok(cu->cuCtxSynchronize());
    ok(cu->cuGraphLaunch(exec, r[0].stream));
    ok(cu->cuStreamSynchronize(r[0].stream));
    assert_int_equal(word_at(cu, r[0].data), 6);
    assert_int_equal(word_at(cu, r[0].data + 64), 8);
    free(cu);
}

/* ---- the end of things --------------------------------------------------------------------------------- */
TEST(test_destroyed_streams_go_on)
{
    struct rank     r;
    struct emu_api *cu = machine("", 1, &r);
    ok(cu->cuStreamWaitValue32_v2(r.stream, r.flag, 1, EQ));
    ok(cu->cuMemsetD32Async(r.data, 5, 1, r.stream));
    ok(cu->cuStreamDestroy_v2(r.stream));
    answers(cu->cuStreamQuery(r.stream), 400);
    answers(cu->cuStreamDestroy_v2(r.stream), 400);
    ok(cu->cuStreamWriteValue32_v2(r.copies, r.flag, 1, 0));
    ok(cu->cuCtxSynchronize());
    assert_int_equal(word_at(cu, r.data), 5);
    answers(cu->cuStreamQuery(r.stream), 400);
    free(cu);
}

/* Work of a context that is destroyed is dropped, whether it waits or polls; streams that wait for it go on. */
TEST(test_destroyed_contexts)
{
    struct rank         r[2];
    struct emu_api     *cu = machine("PTXPACK_EMU_LOG=/dev/null", 2, r);
    struct CUctx_st    *gone = NULL;
    struct CUstream_st *waits = NULL;
    struct CUevent_st  *event = NULL;
    ok(cu->cuCtxCreate_v2(&gone, 0, 0));
    ok(cu->cuStreamCreate(&waits, 0));
    ok(cu->cuEventCreate(&event, 2));
    struct rank polls = r[0];
    polls.poll = emu_function_named(cu, ptx, "poll");
    ok(cu->cuStreamCreate(&polls.stream, NON_BLOCKING));
    launch_poll(cu, &polls, r[0].flag, r[0].data);
    ok(cu->cuStreamWaitValue32_v2(waits, r[0].flag, 1, EQ));
    ok(cu->cuEventRecord(event, waits));
    ok(cu->cuCtxSetCurrent(r[1].context));
    ok(cu->cuStreamWaitEvent(r[1].stream, event, 0));
    answers(cu->cuStreamQuery(r[1].stream), NOT_READY);
    ok(cu->cuCtxDestroy_v2(gone));
    ok(cu->cuStreamSynchronize(r[1].stream));
    free(cu);
}

/* A process may end while streams wait and kernels poll. */
TEST(test_exit)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rank     r[2];
        struct emu_api *cu = machine("PTXPACK_EMU_LOG=/dev/null", 2, r);
        alarm(30);
        launch_poll(cu, &r[0], r[0].flag, r[0].data);
        ok(cu->cuStreamWaitValue32_v2(r[0].copies, r[0].flag, 1, EQ));
        exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Freed memory is not taken from under work that waits. */
TEST(test_free_waits)
{
    struct rank     r;
    struct emu_api *cu = machine("", 1, &r);
    api_address     other = 0;
    ok(cu->cuMemAlloc_v2(&other, 256));
    ok(cu->cuStreamWaitValue32_v2(r.stream, r.flag, 1, EQ));
    ok(cu->cuMemsetD32Async(other, 5, 1, r.stream));
    ok(cu->cuMemcpyDtoDAsync_v2(r.data, other, 4, r.stream));
    ok(cu->cuMemFreeAsync(other, r.stream));
    ok(cu->cuStreamWriteValue32_v2(r.copies, r.flag, 1, 0));
    ok(cu->cuMemFree_v2(r.flag));
    ok(cu->cuStreamQuery(r.stream));
    assert_int_equal(word_at(cu, r.data), 5);
    answers(cu->cuMemFree_v2(other), 1);
    free(cu);
}

/* ---- threads ------------------------------------------------------------------------------------------- */
enum { THREADS = 4, ROUNDS = 50 };
struct player {
    struct emu_api *cu;
    struct rank    *ranks;
    int             number;
    int             failed; /* the line of the first call that did */
};

#define PLAY(call)                              \
    do {                                        \
        if ((call) != 0 && player->failed == 0) \
            player->failed = __LINE__;          \
    } while (0)

/* Each thread drives one rank: it takes a token from the rank before it, adds to it, and gives it to the next one. */
static void *play(void *argument)
{
    struct player     *player = (struct player *)argument;
    struct emu_api    *cu = player->cu;
    const struct rank *me = &player->ranks[player->number],
                      *next = &player->ranks[(player->number + 1) % THREADS];
    api_address flag = next->flag;
    PLAY(cu->cuCtxSetCurrent(me->context));
    for (unsigned int round = 0; round < ROUNDS; round++) {
        const bool first = round == 0 && player->number == 0;
        void      *parameters[] = {&flag};
        if (!first)
            PLAY(cu->cuStreamWaitValue32_v2(me->stream, me->flag, 1, EQ));
        PLAY(cu->cuStreamWriteValue32_v2(me->stream, me->flag, 0, 0));
        PLAY(cu->cuMemsetD32Async(me->data, round, 1, me->stream));
        PLAY(cu->cuLaunchKernel(me->signal, 1, 1, 1, 1, 1, 1, 0, me->stream, parameters, NULL));
        if (round % 8 == 0)
            PLAY(cu->cuStreamSynchronize(me->stream));
    }
    PLAY(cu->cuStreamSynchronize(me->stream));
    return NULL;
}

TEST(test_threads_of_ranks)
{
    struct rank     ranks[THREADS];
    struct emu_api *cu = machine("", THREADS, ranks);
    struct player   players[THREADS];
    pthread_t       threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        players[i] = (struct player){cu, ranks, i, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, play, &players[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(players[i].failed, 0);
    assert_int_equal(word_at(cu, ranks[2].data), ROUNDS - 1);
    free(cu);
}

RUN_TESTS(emu_folder_make, emu_folder_remove)
