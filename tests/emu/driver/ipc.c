/* ipc.c - memory of other processes. */
#include "ipc_fixture.h"
#define BEFORE_EACH NULL
#define AFTER_EACH  NULL

/* ---- data ---------------------------------------------------------------------------------------------- */
/* What copies, fills and kernels of one process write is what those of the other one read. */
static void data_owner(void)
{
    struct emu_api *cu = emu_api_context(plain, NULL);
    api_address     a = allocate(cu, BYTES, 100);
    say_memory(cu, a);
    expect(cu, a, 100); /* it has moved, and is unchanged */
    meet();
    meet(); /* the other one has added 1 */
    expect(cu, a, 101);
    launch(cu, emu_ptx, "add", COUNT / 250, 250, NULL, a, 0, 0);
    ok(cu->cuCtxSynchronize());
    meet();
    meet(); /* the other one has filled it */
    expect(cu, a, 500);
    free(cu);
}

static void data_other(void)
{
    struct emu_api *cu = emu_api_context(plain, NULL);
    api_address     a = hear_memory(cu, NULL);
    meet();
    expect(cu, a, 100);
    launch(cu, emu_ptx, "add", COUNT / 250, 250, NULL, a, 0, 0);
    ok(cu->cuCtxSynchronize());
    meet();
    meet(); /* the owner has added 1 */
    expect(cu, a, 102);
    for (unsigned int i = 0; i < COUNT; i += 1000)
        ok(cu->cuMemsetD32_v2(a + 4 * i, 500 + i / 1000, 1000));
    meet();
    free(cu);
}

TEST(test_data_goes_both_ways) { two_processes(data_owner, data_other, 0); }

/* What nobody has written counts as written, on both sides. */
static void written_owner(void)
{
    struct emu_api *cu = emu_api_context(plain, NULL);
    api_address     a = 0;
    ok(cu->cuMemAlloc_v2(&a, 1024));
    say_memory(cu, a);
    launch(cu, emu_ptx, "add", 1, 256, NULL, a, 0, 0);
    ok(cu->cuCtxSynchronize());
    meet();
    free(cu);
}

static void written_other(void)
{
    struct emu_api *cu = emu_api_context(plain, NULL);
    api_address     a = hear_memory(cu, NULL);
    meet();
    launch(cu, emu_ptx, "add", 1, 256, NULL, a, 0, 0);
    ok(cu->cuCtxSynchronize());
    assert_int_equal(word_at(cu, a + 1020), 2);
    free(cu);
}

TEST(test_unwritten_memory_counts_as_written) { two_processes(written_owner, written_other, 0); }

/* A kernel polls what a kernel of the other process writes, with one device in each. */
static void polling_owner(void)
{
    struct emu_api *cu = emu_api_context(plain, NULL);
    api_address     a = allocate(cu, 4096, 0);
    say_memory(cu, a);
    launch(cu, ptx, "poll", 1, 1, NULL, a, a + 1024, a + 2048);
    meet(); /* the kernel runs */
    ok(cu->cuCtxSynchronize());
    assert_int_equal(word_at(cu, a + 2048), 77);
    free(cu);
}

static void polling_other(void)
{
    struct emu_api *cu = emu_api_context(plain, NULL);
    api_address     a = hear_memory(cu, NULL);
    meet();
    ok(cu->cuMemsetD32_v2(a + 1024, 77, 1));
    launch(cu, ptx, "signal", 1, 1, NULL, a, 0, 0);
    ok(cu->cuCtxSynchronize());
    free(cu);
}

TEST(test_kernel_polls_the_other_process) { two_processes(polling_owner, polling_other, 0); }

/* Memory is handed out while a kernel counts in it: no addition is lost. */
enum { COUNTERS = 100 * 32 };
static void moving_owner(void)
{
    enum { LARGE = 32 << 20 };
    struct emu_api *cu = emu_api_context("PTXPACK_EMU_DEVICES=2 PTXPACK_EMU_MEMORY=64M PTXPACK_EMU_THREADS=2",
                                         NULL);
    api_address     a = 0;
    ok(cu->cuMemAlloc_v2(&a, LARGE));
    ok(cu->cuMemsetD8_v2(a, 1, LARGE)); /* so that there is something to move for a while */
    ok(cu->cuMemsetD32_v2(a, 0, 1));
    launch(cu, ptx, "count", COUNTERS / 32, 32, NULL, a, 0, 0);
    while (word_at_now(a) < 1000)
        usleep(100);
    say_memory(cu, a);
    ok(cu->cuCtxSynchronize());
    assert_int_equal(word_at(cu, a), COUNTERS * 500);
    meet();
    meet();
    free(cu);
}

static void moving_other(void)
{
    struct emu_api *cu = emu_api_context(plain, NULL);
    api_address     a = hear_memory(cu, NULL);
    meet();
    assert_int_equal(word_at(cu, a), COUNTERS * 500);
    assert_int_equal(word_at(cu, a + (32 << 20) - 4), 0x01010101);
    meet();
    free(cu);
}

TEST(test_memory_moves_while_a_kernel_writes) { two_processes(moving_owner, moving_other, 0); }

/* ---- handles of memory --------------------------------------------------------------------------------- */
static void handles_owner(void)
{
    struct emu_api          *cu = emu_api_context(plain, NULL);
    struct CUipcMemHandle_st first, inner, again;
    api_address              a = allocate(cu, BYTES, 7);
    ok(cu->cuIpcGetMemHandle(&first, a));
    ok(cu->cuIpcGetMemHandle(&inner, a + 5000));
    assert_memory_equal(&first, &inner, sizeof first);
    say(first);
    meet(); /* it is open there twice */
    ok(cu->cuMemFree_v2(a));
    a = allocate(cu, BYTES, 8);
    ok(cu->cuIpcGetMemHandle(&again, a));
    assert_memory_not_equal(&first, &again, sizeof first);
    meet();
    meet(); /* it is closed there */
    free(cu);
}

static void handles_other(void)
{
    char words[256];
    snprintf(words, sizeof words, "%s PTXPACK_EMU_LOG=%s/handles", plain, emu_folder);
    struct emu_api          *cu = emu_api_context(words, NULL);
    struct CUctx_st         *second = NULL, *first = NULL;
    struct CUipcMemHandle_st handle;
    api_address              a = hear_memory(cu, &handle), b = 0, base = 0;
    size_t                   bytes = 0;
    ok(cu->cuIpcOpenMemHandle(&b, handle, LAZY));
    assert_true(a == b);
    ok(cu->cuMemGetAddressRange_v2(&base, &bytes, a + 5000));
    assert_true(base == a && bytes == BYTES);
    ok(cu->cuCtxGetCurrent(&first));
    ok(cu->cuCtxCreate_v2(&second, 0, 0));
    answers(cu->cuIpcOpenMemHandle_v2(&b, handle, LAZY), 201); /* one context of a device */
    ok(cu->cuCtxDestroy_v2(second));
    ok(cu->cuCtxSetCurrent(first));
    meet();
    meet(); /* it is freed there */
    expect(cu, a, 7);
    answers(cu->cuMemFree_v2(a), 1);
    answers(cu->cuIpcGetMemHandle(&handle, a), 1);
    answers(cu->cuIpcCloseMemHandle(a + 256), 1);
    ok(cu->cuIpcCloseMemHandle(a));
    expect(cu, a, 7);
    ok(cu->cuIpcCloseMemHandle(a));
    answers(cu->cuIpcCloseMemHandle(a), 1);
    answers(cu->cuMemsetD8_v2(a, 0, 1), 1);
    answers(cu->cuIpcOpenMemHandle_v2(&b, handle, LAZY), 1);
    meet();
    free(cu);
}

TEST(test_handles_count_references) { two_processes(handles_owner, handles_other, 0); }

static unsigned char is_capable(struct emu_api *cu, api_address address)
{
    unsigned char capable = 9;
    ok(cu->cuPointerGetAttribute(&capable, 10, address));
    return capable;
}

/* The attribute says of which memory there are handles. */
static void what_has_handles(void)
{
    struct emu_api          *cu = emu_api_context(plain, NULL);
    struct CUipcMemHandle_st handle;
    api_address              memory = 0, managed = 0, pooled = 0, variable = 0;
    struct CUmod_st         *module = NULL;
    size_t                   bytes = 0;
    int                      events = 0;
    ok(cu->cuMemAlloc_v2(&memory, 64));
    ok(cu->cuMemAllocManaged(&managed, 64, 1));
    ok(cu->cuMemAllocAsync(&pooled, 64, NULL));
    ok(cu->cuModuleLoadData(&module, emu_ptx));
    ok(cu->cuModuleGetGlobal_v2(&variable, &bytes, module, "seven"));
    const api_address others[] = {managed, pooled, variable, address_of(pinned_word(cu, 0))};
    assert_int_equal(is_capable(cu, memory), 1);
    ok(cu->cuIpcGetMemHandle(&handle, memory));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_int_equal(is_capable(cu, others[i]), 0);
        answers(cu->cuIpcGetMemHandle(&handle, others[i]), 1);
    }
    answers(cu->cuIpcGetMemHandle(NULL, memory), 1);
    answers(cu->cuIpcGetMemHandle(&handle, 12345), 1);
    answers(cu->cuIpcOpenMemHandle_v2(&memory, handle, LAZY), 201); /* in the process that has made it */
    ok(cu->cuMemFree_v2(memory));
    answers(cu->cuIpcGetMemHandle(&handle, memory), 1);
    ok(cu->cuMemFree_v2(pooled));
    ok(cu->cuDeviceGetAttribute(&events, 125, 0));
    assert_int_equal(events, 1);
    free(cu);
}

TEST(test_what_has_handles) { two_processes(what_has_handles, nothing, 0); }

/* Handles that are wrong, or whose process was killed. */
static void killed_owner(void)
{
    struct emu_api            *cu = emu_api_context(plain, NULL);
    struct CUipcEventHandle_st event_handle;
    struct CUevent_st         *event = NULL;
    pid_t                      self = getpid();
    ok(cu->cuEventCreate(&event, UNTIMED | INTERPROCESS));
    ok(cu->cuIpcGetEventHandle(&event_handle, event));
    say_memory(cu, allocate(cu, 4096, 3));
    say_memory(cu, allocate(cu, 4096, 4));
    say(event_handle);
    say(self);
    pause();
}

static void killed_other(void)
{
    char log[128], words[256];
    snprintf(log, sizeof log, "%s/killed", emu_folder);
    snprintf(words, sizeof words, "%s PTXPACK_EMU_LOG=%s", plain, log);
    struct emu_api            *cu = emu_api_context(words, NULL);
    struct CUipcMemHandle_st   handle, wrong;
    struct CUipcEventHandle_st event_handle, wrong_event;
    struct CUevent_st         *event = NULL;
    pid_t                      owner;
    api_address                a = hear_memory(cu, NULL), b = 0;
    hear(handle);
    hear(event_handle);
    hear(owner);
    for (size_t i = 0; i < sizeof wrong; i++) {
        wrong = handle;
        wrong.reserved[i] = (char)(wrong.reserved[i] ^ 4);
        answers(cu->cuIpcOpenMemHandle_v2(&b, wrong, LAZY), 1);
        wrong_event = event_handle;
        wrong_event.reserved[i] = (char)(wrong_event.reserved[i] ^ 4);
        answers(cu->cuIpcOpenEventHandle(&event, wrong_event), 1);
    }
    memcpy(&wrong, &event_handle, sizeof wrong); /* of the other kind */
    answers(cu->cuIpcOpenMemHandle_v2(&b, wrong, LAZY), 1);
    answers(cu->cuIpcOpenMemHandle_v2(&b, handle, 0), 1);
    answers(cu->cuIpcOpenMemHandle_v2(&b, handle, 3), 1);
    answers(cu->cuIpcOpenMemHandle_v2(NULL, handle, LAZY), 1);
    answers(cu->cuIpcOpenEventHandle(NULL, event_handle), 1);
    kill_and_wait(owner);
    answers(cu->cuIpcOpenMemHandle_v2(&b, handle, LAZY), 1);
    answers(cu->cuIpcOpenEventHandle(&event, event_handle), 1);
    assert_int_equal(word_at(cu, a), 3); /* what was open stays */
    ok(cu->cuIpcCloseMemHandle(a));
    free(cu);
}

TEST(test_wrong_handles_and_killed_owner) { two_processes(killed_owner, killed_other, SIGKILL); }

/* ---- several devices ----------------------------------------------------------------------------------- */
static void devices_owner(void)
{
    struct emu_api  *cu = emu_api("PTXPACK_EMU_DEVICES=2 PTXPACK_EMU_MEMORY=64M PTXPACK_EMU_THREADS=1");
    struct CUctx_st *context = NULL;
    ok(cu->cuCtxCreate_v2(&context, 0, 1));
    api_address a = allocate(cu, 4096, 9), b = allocate(cu, 4096, 10);
    for (int i = 0; i < 3; i++)
        say_memory(cu, a);
    say_memory(cu, b);
    meet();
    free(cu);
}

/* Opening gives a context of another device access, and closing takes it away. */
static void devices_other(void)
{
    struct CUipcMemHandle_st handle;
    struct CUctx_st         *peer = NULL, *first = NULL;
    int                      device = -1;
    api_address              a = 0, b = 0;
    struct emu_api          *cu = emu_api_context(plain, NULL);
    hear(handle);
    answers(cu->cuIpcOpenMemHandle_v2(&a, handle, LAZY), 101); /* this process has no such device */
    cu = emu_api_context("PTXPACK_EMU_DEVICES=2 PTXPACK_EMU_MEMORY=64M PTXPACK_EMU_FAULT=no-peers", NULL);
    hear(handle);
    answers(cu->cuIpcOpenMemHandle_v2(&a, handle, LAZY), 217);
    cu = emu_api_context("PTXPACK_EMU_DEVICES=2 PTXPACK_EMU_MEMORY=64M", &first);
    ok(cu->cuCtxCreate_v2(&peer, 0, 1));
    ok(cu->cuCtxSetCurrent(first));
    a = hear_memory(cu, NULL);
    b = hear_memory(cu, NULL);
    ok(cu->cuPointerGetAttribute(&device, 9, a));
    assert_int_equal(device, 1);
    answers(cu->cuCtxEnablePeerAccess(peer, 0), 704);
    ok(cu->cuIpcCloseMemHandle(a));
    launch(cu, emu_ptx, "add", 1, 256, NULL, b, 0, 0);
    ok(cu->cuCtxSynchronize());
    assert_int_equal(word_at(cu, b), 11);
    ok(cu->cuIpcCloseMemHandle(b));
    answers(cu->cuCtxDisablePeerAccess(peer), 705);
    meet();
}

TEST(test_memory_of_another_device) { two_processes(devices_owner, devices_other, 0); }

/* ---- what is left -------------------------------------------------------------------------------------- */
static void tidy_owner(void)
{
    struct emu_api    *cu = emu_api_context(plain, NULL);
    api_address        a = allocate(cu, BYTES, 1);
    struct CUevent_st *event = say_event(cu);
    say_memory(cu, a);
    assert_int_equal(open_files(), 2);
    assert_int_equal(named_files(), 0);
    meet();
    ok(cu->cuMemFree_v2(a));
    ok(cu->cuEventDestroy_v2(event));
    assert_int_equal(open_files(), 0);
    assert_int_equal(mapped_files(), 0);
    free(cu);
}

static void tidy_other(void)
{
    struct CUctx_st   *context = NULL;
    struct emu_api    *cu = emu_api_context(plain, &context);
    struct CUevent_st *event = hear_event(cu);
    api_address        a = hear_memory(cu, NULL);
    assert_int_equal(open_files(), 1); /* the event */
    assert_int_equal(mapped_files(), 2);
    ok(cu->cuEventDestroy_v2(event));
    ok(cu->cuIpcCloseMemHandle(a));
    assert_int_equal(open_files(), 0);
    assert_int_equal(mapped_files(), 0);
    meet();
    free(cu);
}

TEST(test_nothing_is_left) { two_processes(tidy_owner, tidy_other, 0); }

/* A context that ends closes what it has opened. */
static void ending_owner(void)
{
    struct CUctx_st *context = NULL;
    struct emu_api  *cu = emu_api_context(plain, &context);
    api_address      a = allocate(cu, BYTES, 1);
    say_event(cu);
    say_memory(cu, a);
    meet();
    ok(cu->cuCtxDestroy_v2(context));
    assert_int_equal(open_files(), 0);
    free(cu);
}

static void ending_other(void)
{
    struct CUctx_st *context = NULL;
    struct emu_api  *cu = emu_api_context(plain, &context);
    hear_event(cu);
    hear_memory(cu, NULL);
    ok(cu->cuCtxDestroy_v2(context));
    assert_int_equal(open_files(), 0);
    assert_int_equal(mapped_files(), 0);
    meet();
    free(cu);
}

TEST(test_contexts_end) { two_processes(ending_owner, ending_other, 0); }

RUN_TESTS(emu_folder_make, emu_folder_remove)
