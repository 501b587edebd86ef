/* graph.c - captures and graphs of the emulated driver.  What is allowed while a stream is captured,
 * and what it does to the capture, was recorded from an H200 (driver 580). */
#include "api_fixture.h"
#define BEFORE_EACH set_up
#define AFTER_EACH  tear_down
#include <pthread.h>

enum { ACTIVE = 1, INVALID = 2 };
enum { GLOBAL, THREAD_LOCAL, RELAXED };

static struct emu_api     *cu;
static struct CUstream_st *blocking, *free_stream;
static struct CUevent_st  *event, *other_event;
static struct CUfunc_st   *empty, *add;
static struct CUmod_st    *to_unload;
static api_address         buffer;
static char                host[64];

static int set_up(void **state)
{
    (void)state;
    cu = emu_api_context("", NULL);
    ok(cu->cuStreamCreate(&blocking, 0));
    ok(cu->cuStreamCreate(&free_stream, 1));
    ok(cu->cuEventCreate(&event, 0));
    ok(cu->cuEventCreate(&other_event, 0));
    ok(cu->cuEventRecord(event, blocking));
    empty = emu_function_named(cu, emu_ptx, "empty");
    add = emu_function_named(cu, emu_ptx, "add");
    ok(cu->cuMemAlloc_v2(&buffer, 256));
    ok(cu->cuMemsetD8_v2(buffer, 0, 256));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(cu);
    return 0;
}

static unsigned int capture_status(struct CUstream_st *stream)
{
    unsigned int status = 99;
    ok(cu->cuStreamIsCapturing(stream, &status));
    return status;
}

/* Ends a capture: only a valid capture gives a graph. */
static void end_capture(struct CUstream_st *stream, unsigned int result)
{
    struct CUgraph_st *graph = (struct CUgraph_st *)&graph;
    answers(cu->cuStreamEndCapture(stream, &graph), result);
    assert_true((graph != NULL) == (result == 0));
    if (graph != NULL)
        ok(cu->cuGraphDestroy(graph));
}

/* ---- what may be called during a capture --------------------------------------------------------------- */
static void nothing(void *data) { (void)data; }
static void nothing_at_all(struct CUstream_st *stream, api_result result, void *data)
{
    (void)stream, (void)result, (void)data;
}

static unsigned int do_alloc(void) { return cu->cuMemAlloc_v2(&(api_address){0}, 16); }
static unsigned int do_alloc_host(void) { return cu->cuMemHostAlloc(&(void *){NULL}, 16, 0); }
static unsigned int do_free(void)
{
    api_address  a = 0;
    unsigned int relaxed = RELAXED;
    ok(cu->cuThreadExchangeStreamCaptureMode(&relaxed)); /* this thread may call it for a while */
    ok(cu->cuMemAlloc_v2(&a, 16));
    ok(cu->cuThreadExchangeStreamCaptureMode(&relaxed));
    return cu->cuMemFree_v2(a);
}
static unsigned int do_copy(void) { return cu->cuMemcpyHtoD_v2(buffer, host, 16); }
static unsigned int do_copy_back(void) { return cu->cuMemcpyDtoH_v2(host, buffer, 16); }
static unsigned int do_fill(void) { return cu->cuMemsetD8_v2(buffer, 0, 16); }
static unsigned int do_sync(void) { return cu->cuStreamSynchronize(blocking); }
static unsigned int do_sync_other(void) { return cu->cuStreamSynchronize(free_stream); }
static unsigned int do_sync_legacy(void) { return cu->cuStreamSynchronize(NULL); }
static unsigned int do_query(void) { return cu->cuStreamQuery(blocking); }
static unsigned int do_sync_context(void) { return cu->cuCtxSynchronize(); }
static unsigned int do_query_event(void) { return cu->cuEventQuery(event); }
static unsigned int do_sync_event(void) { return cu->cuEventSynchronize(event); }
static unsigned int do_elapsed(void) { return cu->cuEventElapsedTime(&(float){0}, event, event); }
static unsigned int do_launch_legacy(void)
{
    return cu->cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
}
static unsigned int do_launch_wrong(void)
{
    return cu->cuLaunchKernel(empty, 1, 1, 1, 2000, 1, 1, 0, blocking, NULL, NULL);
}
static unsigned int do_load(void) { return cu->cuModuleLoadData(&to_unload, emu_ptx); }
static unsigned int do_unload(void) { return cu->cuModuleUnload(to_unload); }
static unsigned int do_create_stream(void) { return cu->cuStreamCreate(&(struct CUstream_st *){NULL}, 1); }
static unsigned int do_create_event(void) { return cu->cuEventCreate(&(struct CUevent_st *){NULL}, 0); }
static unsigned int do_attribute(void) { return cu->cuFuncSetAttribute(empty, 8, 0); }
static unsigned int do_callback(void) { return cu->cuStreamAddCallback(blocking, nothing_at_all, NULL, 0); }
static unsigned int do_wait_outside(void) { return cu->cuStreamWaitEvent(blocking, event, 0); }
static unsigned int do_begin(void) { return cu->cuStreamBeginCapture_v2(blocking, GLOBAL); }
static unsigned int do_ask_legacy(void) { return cu->cuStreamIsCapturing(NULL, &(unsigned int){0}); }
static unsigned int do_copy_async(void) { return cu->cuMemcpyDtoHAsync_v2(host, buffer, 16, blocking); }

static const struct {
    const char *what;
    unsigned int (*call)(void);
    unsigned int result[3], status[3];
} rules[] = {
    {"alloc", do_alloc, {900, 900, 0}, {INVALID, INVALID, ACTIVE}},
    {"alloc host", do_alloc_host, {900, 900, 0}, {INVALID, INVALID, ACTIVE}},
    {"free", do_free, {900, 900, 0}, {INVALID, INVALID, ACTIVE}},
    {"copy", do_copy, {906, 906, 906}, {INVALID, INVALID, INVALID}},
    {"copy back", do_copy_back, {906, 906, 906}, {INVALID, INVALID, INVALID}},
    {"fill", do_fill, {906, 906, 906}, {INVALID, INVALID, INVALID}},
    {"sync", do_sync, {900, 900, 900}, {INVALID, INVALID, INVALID}},
    {"sync of another stream", do_sync_other, {900, 900, 0}, {INVALID, INVALID, ACTIVE}},
    {"sync of the legacy stream", do_sync_legacy, {906, 906, 906}, {INVALID, INVALID, INVALID}},
    {"query", do_query, {900, 900, 900}, {INVALID, INVALID, INVALID}},
    {"sync of the context", do_sync_context, {900, 900, 900}, {INVALID, INVALID, INVALID}},
    {"query of an event", do_query_event, {900, 900, 0}, {INVALID, INVALID, ACTIVE}},
    {"sync of an event", do_sync_event, {900, 900, 0}, {INVALID, INVALID, ACTIVE}},
    {"elapsed time", do_elapsed, {0, 0, 0}, {ACTIVE, ACTIVE, ACTIVE}},
    {"launch in the legacy stream", do_launch_legacy, {906, 906, 906}, {INVALID, INVALID, INVALID}},
    {"wrong launch", do_launch_wrong, {1, 1, 1}, {INVALID, INVALID, INVALID}},
    {"load", do_load, {0, 0, 0}, {ACTIVE, ACTIVE, ACTIVE}},
    {"unload", do_unload, {900, 900, 0}, {INVALID, INVALID, ACTIVE}},
    {"create a stream", do_create_stream, {0, 0, 0}, {ACTIVE, ACTIVE, ACTIVE}},
    {"create an event", do_create_event, {0, 0, 0}, {ACTIVE, ACTIVE, ACTIVE}},
    {"set an attribute", do_attribute, {0, 0, 0}, {ACTIVE, ACTIVE, ACTIVE}},
    {"callback", do_callback, {900, 900, 900}, {INVALID, INVALID, INVALID}},
    {"wait for an event from outside", do_wait_outside, {905, 905, 905}, {INVALID, INVALID, INVALID}},
    {"begin again", do_begin, {401, 401, 401}, {ACTIVE, ACTIVE, ACTIVE}},
    {"ask the legacy stream", do_ask_legacy, {906, 906, 906}, {ACTIVE, ACTIVE, ACTIVE}},
    {"copy in the stream", do_copy_async, {0, 0, 0}, {ACTIVE, ACTIVE, ACTIVE}},
};

TEST(test_rules)
{
    for (unsigned int mode = GLOBAL; mode <= RELAXED; mode++)
        for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
            ok(cu->cuStreamBeginCapture_v2(blocking, mode));
            unsigned int result = rules[i].call(), status = capture_status(blocking);
            if (result != rules[i].result[mode] || status != rules[i].status[mode])
                fail_msg("%s in mode %u: %u, and the capture is %u", rules[i].what, mode, result, status);
            end_capture(blocking, status == ACTIVE ? 0 : 901);
        }
    /* A stream that the legacy one does not wait for. */
    ok(cu->cuStreamBeginCapture_v2(free_stream, GLOBAL));
    ok(do_copy());
    ok(do_launch_legacy());
    assert_int_equal(capture_status(free_stream), ACTIVE);
    end_capture(free_stream, 0);
}

TEST(test_begin_and_end)
{
    struct CUgraph_st  *graph = NULL;
    struct CUstream_st *gone = NULL;
    end_capture(blocking, 401);
    answers(cu->cuStreamBeginCapture_v2(NULL, GLOBAL), 900);
    answers(cu->cuStreamBeginCapture_v2(blocking, 9), 1);
    ok(cu->cuStreamBeginCapture_v2((struct CUstream_st *)emu_number(2), RELAXED));
    end_capture((struct CUstream_st *)emu_number(2), 0);
    ok(cu->cuStreamBeginCapture_v2(blocking, GLOBAL));
    uint64_t                      id = 0;
    size_t                        count = 9;
    unsigned int                  status = 0;
    struct CUgraphNode_st *const *tips = NULL;
    ok(cu->cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, blocking, NULL, NULL));
    ok(cu->cuStreamGetCaptureInfo_v2(blocking, &status, &id, &graph, &tips, &count));
    assert_true(status == ACTIVE && id != 0 && graph && count == 1 && tips[0]);
    answers(cu->cuGraphDestroy(graph), 1); /* the graph is being captured */
    end_capture(blocking, 0);
    ok(cu->cuStreamCreate(&gone, 0));
    ok(cu->cuStreamBeginCapture_v2(gone, GLOBAL));
    ok(cu->cuStreamDestroy_v2(gone));
    ok(do_alloc()); /* the capture is over */
}

static void *end_elsewhere(void *context)
{
    struct CUgraph_st *graph = NULL;
    unsigned int      *result = (unsigned int *)calloc(2, sizeof *result);
    assert_non_null(result);
    ok(cu->cuCtxSetCurrent((struct CUctx_st *)context));
    result[0] = cu->cuMemAlloc_v2(&(api_address){0}, 16); /* forbidden by another thread's global capture */
    result[1] = cu->cuStreamEndCapture(blocking, &graph);
    return result;
}

TEST(test_other_thread)
{
    struct CUctx_st          *context = NULL;
    static const unsigned int want[3][2] = {{900, 908}, {0, 908}, {0, 0}};
    ok(cu->cuCtxGetCurrent(&context));
    for (unsigned int mode = GLOBAL; mode <= RELAXED; mode++) {
        pthread_t thread;
        void     *result = NULL;
        ok(cu->cuStreamBeginCapture_v2(blocking, mode));
        assert_int_equal(pthread_create(&thread, NULL, end_elsewhere, context), 0);
        assert_int_equal(pthread_join(thread, &result), 0);
        assert_memory_equal(result, want[mode], sizeof want[mode]);
        if (mode != RELAXED)
            end_capture(blocking, mode == GLOBAL ? 901 : 0);
        free(result);
    }
}

/* ---- streams that join a capture ----------------------------------------------------------------------- */
static unsigned int launch_in(struct CUstream_st *stream)
{
    return cu->cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
}

TEST(test_joining)
{
    struct CUgraph_st     *graph = NULL;
    struct CUgraphNode_st *from[8], *to[8];
    size_t                 count = 8;
    ok(cu->cuStreamBeginCapture_v2(blocking, GLOBAL));
    ok(launch_in(blocking));
    ok(cu->cuEventRecord(event, blocking));
    ok(cu->cuStreamWaitEvent(free_stream, event, 0));
    assert_int_equal(capture_status(free_stream), ACTIVE);
    answers(cu->cuStreamEndCapture(free_stream, &graph), 903);
    end_capture(blocking, 901);
    assert_int_equal(capture_status(free_stream), 0);
    answers(cu->cuEventQuery(event), 1); /* its capture is over */
    answers(cu->cuStreamWaitEvent(free_stream, event, 0), 1);

    ok(cu->cuStreamBeginCapture_v2(blocking, GLOBAL));
    ok(cu->cuEventRecord(event, blocking));
    ok(cu->cuStreamWaitEvent(free_stream, event, 0));
    ok(launch_in(free_stream));
    end_capture(blocking, 904);
    assert_int_equal(capture_status(free_stream), 0);

    ok(cu->cuStreamBeginCapture_v2(blocking, GLOBAL)); /* a diamond */
    ok(launch_in(blocking));
    ok(cu->cuEventRecord(event, blocking));
    ok(cu->cuStreamWaitEvent(free_stream, event, 0));
    ok(launch_in(free_stream));
    ok(launch_in(blocking));
    ok(cu->cuEventRecord(other_event, free_stream));
    ok(cu->cuStreamWaitEvent(blocking, other_event, 0));
    ok(launch_in(blocking));
    ok(cu->cuStreamEndCapture(blocking, &graph));
    ok(cu->cuGraphGetEdges(graph, from, to, &count));
    assert_int_equal(count, 4);
    count = 8;
    ok(cu->cuGraphGetRootNodes(graph, from, &count));
    assert_int_equal(count, 1);
    ok(cu->cuGraphDestroy(graph));

    ok(cu->cuStreamBeginCapture_v2(blocking, GLOBAL)); /* two captures */
    ok(cu->cuStreamBeginCapture_v2(free_stream, GLOBAL));
    ok(cu->cuEventRecord(event, blocking));
    answers(cu->cuStreamWaitEvent(free_stream, event, 0), 902);
    end_capture(blocking, 901);
    end_capture(free_stream, 901);

    ok(cu->cuStreamBeginCapture_v2(blocking, GLOBAL));
    ok(cu->cuEventRecord(event, blocking));
    answers(cu->cuEventQuery(event), 907);
    end_capture(blocking, 901);
}

/* ---- running graphs ------------------------------------------------------------------------------------ */
static unsigned int first_word(void)
{
    unsigned int word = 99;
    ok(cu->cuMemcpyDtoH_v2(&word, buffer, 4));
    return word;
}

static void count_call(void *data) { ++*(int *)data; }

TEST(test_replay)
{
    struct CUgraph_st     *graph = NULL;
    struct CUgraphExec_st *exec = NULL;
    unsigned int           words[64], back[64];
    int                    calls = 0;
    void                  *parameters[] = {&buffer};
    for (unsigned int i = 0; i < 64; i++)
        words[i] = 10 * i;
    ok(cu->cuStreamBeginCapture_v2(blocking, GLOBAL));
    ok(cu->cuMemcpyHtoDAsync_v2(buffer, words, 256, blocking));
    ok(cu->cuMemsetD32Async(buffer + 128, 1000, 32, blocking));
    ok(cu->cuLaunchKernel(add, 2, 1, 1, 32, 1, 1, 0, blocking, parameters, NULL));
    ok(cu->cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, blocking, parameters, NULL));
    ok(cu->cuLaunchHostFunc(blocking, count_call, &calls));
    ok(cu->cuMemcpyDtoHAsync_v2(back, buffer, 256, blocking));
    ok(cu->cuStreamEndCapture(blocking, &graph));
    assert_int_equal(calls, 0);
    assert_int_equal(first_word(), 0); /* nothing has run yet */
    ok(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    ok(cu->cuGraphDestroy(graph));
    for (unsigned int turn = 1; turn <= 3; turn++) {
        words[1] = turn;
        ok(cu->cuGraphLaunch(exec, blocking));
        ok(cu->cuStreamSynchronize(blocking));
        assert_int_equal(calls, (int)turn);
        assert_int_equal(back[0], 2);
        assert_int_equal(back[1], turn + 2);
        assert_int_equal(back[31], 312);
        assert_int_equal(back[32], 1001);
    }
    /* A launch within another capture. */
    struct CUgraphExec_st *outer = NULL;
    ok(cu->cuStreamBeginCapture_v2(free_stream, GLOBAL));
    ok(cu->cuGraphLaunch(exec, free_stream));
    ok(cu->cuGraphLaunch(exec, free_stream));
    ok(cu->cuStreamEndCapture(free_stream, &graph));
    assert_int_equal(calls, 3);
    ok(cu->cuGraphInstantiateWithFlags(&outer, graph, 0));
    ok(cu->cuGraphExecDestroy(exec));
    ok(cu->cuGraphLaunch(outer, NULL));
    assert_int_equal(calls, 5);
    ok(cu->cuGraphExecDestroy(outer));
    answers(cu->cuGraphLaunch(outer, NULL), 1);
}

TEST(test_built)
{
    struct CUgraph_st     *graph = NULL, *clone = NULL, *parent = NULL;
    struct CUgraphExec_st *exec = NULL;
    struct CUgraphNode_st *kernel = NULL, *fill = NULL, *copy = NULL, *joined = NULL, *child = NULL, *two[2],
                          *all[8];
    unsigned int                            back = 0, type = 9;
    size_t                                  count = 0;
    void                                   *parameters[] = {&buffer};
    struct CUDA_KERNEL_NODE_PARAMS_v2_st    k = {.func = add,
                                                 .gridDimX = 1,
                                                 .gridDimY = 1,
                                                 .gridDimZ = 1,
                                                 .blockDimX = 1,
                                                 .blockDimY = 1,
                                                 .blockDimZ = 1,
                                                 .kernelParams = parameters};
    const struct CUDA_MEMSET_NODE_PARAMS_st f = {.dst = buffer,
                                                 .value = 40,
                                                 .elementSize = 4,
                                                 .width = 64,
                                                 .height = 1};
    const struct CUDA_MEMCPY3D_st           c = {.srcMemoryType = 2,
                                                 .srcDevice = buffer,
                                                 .dstMemoryType = 1,
                                                 .dstHost = &back,
                                                 .WidthInBytes = 4,
                                                 .Height = 1,
                                                 .Depth = 1};
    answers(cu->cuGraphCreate(&graph, 1), 1);
    ok(cu->cuGraphCreate(&graph, 0));
    ok(cu->cuGraphAddMemcpyNode(&copy, graph, NULL, 0, &c, NULL)); /* added first, runs last */
    ok(cu->cuGraphAddMemsetNode(&fill, graph, NULL, 0, &f, NULL));
    ok(cu->cuGraphAddKernelNode_v2(&kernel, graph, &fill, 1, &k));
    ok(cu->cuGraphAddDependencies(graph, &kernel, &copy, 1));
    answers(cu->cuGraphAddDependencies(graph, &kernel, &copy, 1), 1);
    answers(cu->cuGraphAddDependencies(graph, &kernel, &kernel, 1), 1);
    two[0] = two[1] = kernel;
    answers(cu->cuGraphAddEmptyNode(&joined, graph, two, 2), 1);
    two[1] = copy;
    ok(cu->cuGraphAddEmptyNode(&joined, graph, two, 2));
    k.blockDimX = 5000;
    answers(cu->cuGraphAddKernelNode_v2(&child, graph, NULL, 0, &k), 1);
    k.blockDimX = 1;
    ok(cu->cuGraphNodeGetType(fill, &type));
    assert_int_equal(type, 2);
    ok(cu->cuGraphGetNodes(graph, NULL, &count));
    assert_int_equal(count, 4);
    count = 8;
    ok(cu->cuGraphGetNodes(graph, all, &count));
    assert_true(count == 4 && all[0] == copy && all[4] == NULL);
    ok(cu->cuGraphInstantiate_v2(&exec, graph, NULL, NULL, 0));
    ok(cu->cuGraphUpload(exec, blocking));
    ok(cu->cuGraphLaunch(exec, blocking));
    assert_int_equal(back, 41);
    k.blockDimX = 2;
    ok(cu->cuGraphExecKernelNodeSetParams_v2(exec, kernel, &k));
    answers(cu->cuGraphExecKernelNodeSetParams_v2(exec, fill, &k), 1);
    ok(cu->cuGraphLaunch(exec, blocking));
    unsigned int second = 0;
    ok(cu->cuMemcpyDtoH_v2(&second, buffer + 4, 4));
    assert_int_equal(second, 41);
    ok(cu->cuGraphExecDestroy(exec));
    ok(cu->cuGraphClone(&clone, graph));
    ok(cu->cuGraphAddDependencies(graph, &copy, &fill, 1)); /* it would make a cycle */
    answers(cu->cuGraphInstantiateWithFlags(&exec, graph, 0), 1);
    ok(cu->cuGraphDestroy(graph));
    answers(cu->cuGraphNodeGetType(fill, &type), 1);
    ok(cu->cuGraphCreate(&parent, 0));
    ok(cu->cuGraphAddChildGraphNode(&child, parent, NULL, 0, clone));
    ok(cu->cuGraphDestroy(clone));
    struct CUDA_GRAPH_INSTANTIATE_PARAMS_st with = {.result_out = 9};
    ok(cu->cuGraphInstantiateWithParams(&exec, parent, &with));
    assert_int_equal(with.result_out, 0);
    back = 0;
    ok(cu->cuGraphLaunch(exec, NULL));
    assert_int_equal(back, 41);
    answers(cu->cuGraphInstantiateWithFlags(&exec, parent, 1024), 1);
}

/* A graph whose kernel's module was unloaded is refused when it is launched, and does not run. */
TEST(test_stale)
{
    struct CUgraph_st     *graph = NULL;
    struct CUgraphExec_st *exec = NULL;
    struct CUmod_st       *module = NULL;
    struct CUfunc_st      *function = NULL;
    ok(cu->cuModuleLoadData(&module, emu_ptx));
    ok(cu->cuModuleGetFunction(&function, module, "empty"));
    ok(cu->cuStreamBeginCapture_v2(blocking, GLOBAL));
    ok(cu->cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, blocking, NULL, NULL));
    ok(cu->cuLaunchHostFunc(blocking, nothing, NULL));
    ok(cu->cuStreamEndCapture(blocking, &graph));
    ok(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    ok(cu->cuModuleUnload(module));
    answers(cu->cuGraphLaunch(exec, blocking), 400);
    answers(cu->cuGraphInstantiateWithFlags(&exec, graph, 0), 400);
    ok(cu->cuCtxSynchronize());
}

RUN_TESTS(emu_folder_make, emu_folder_remove)
