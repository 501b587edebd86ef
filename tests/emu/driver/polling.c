/* polling.c - kernels from queues: they poll what streams, other devices and the host write, and their errors come late. */
#include "ranks_fixture.h"
#include <pthread.h>
#define BEFORE_EACH NULL
#define AFTER_EACH  NULL

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

/* Atomics of the scope .sys count across devices that run at the same time. */
TEST(test_atomics_of_devices)
{
    struct rank     r[3];
    struct emu_api *cu = machine("", 3, r);
    for (int i = 0; i < 3; i++) {
        api_address at = r[1].flag;
        void       *parameters[] = {&at};
        ok(cu->cuCtxSetCurrent(r[i].context));
        ok(cu->cuLaunchKernel(emu_function_named(cu, ptx, "count"), 2, 1, 1, 32, 1, 1, 0, r[i].stream,
                              parameters, NULL));
    }
    for (int i = 0; i < 3; i++) {
        ok(cu->cuCtxSetCurrent(r[i].context));
        ok(cu->cuStreamSynchronize(r[i].stream));
    }
    assert_int_equal(word_at(cu, r[1].flag), 3 * 2 * 32 * 500);
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

static void *write_late(void *argument)
{
    usleep(1500000);
    __atomic_store_n((unsigned int *)argument, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* A call that waits without anything happening says, once, what all streams are at. */
TEST(test_says_what_waits)
{
    char               log[128], words[256], text[2048] = "";
    struct rank        r[2];
    struct CUevent_st *event = NULL;
    pthread_t          thread;
    snprintf(log, sizeof log, "%s/waits", emu_folder);
    snprintf(words, sizeof words, "PTXPACK_EMU_PATIENCE=1 PTXPACK_EMU_LOG=%s", log);
    struct emu_api *cu = machine(words, 2, r);
    unsigned int   *flag = pinned_word(cu, 0);
    ok(cu->cuEventCreate(&event, 2));
    ok(cu->cuStreamWaitValue32_v2(r[0].stream, address_of(flag), 1, EQ));
    ok(cu->cuEventRecord(event, r[0].stream));
    ok(cu->cuCtxSetCurrent(r[1].context));
    ok(cu->cuStreamWaitEvent(r[1].stream, event, 0));
    assert_int_equal(pthread_create(&thread, NULL, write_late, flag), 0);
    ok(cu->cuStreamSynchronize(r[1].stream));
    pthread_join(thread, NULL);
    FILE *f = fopen(log, "r");
    assert_non_null(f);
    assert_true(fread(text, 1, sizeof text - 1, f) > 0);
    fclose(f);
    const char *value =
        strstr(text, "nothing has begun or ended for 1 s: a stream of device 0 waits for the 32 bits at 0x");
    assert_non_null(value);
    assert_non_null(strstr(text, "to be equal to 0x1\n"));
    assert_non_null(
        strstr(text, "a stream of device 1 waits for an event that another stream has not reached\n"));
    if (strstr(strchr(value, '\n'), "of device 0") != NULL) /* once */
        fail_msg("%s", text);
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

RUN_TESTS(emu_folder_make, emu_folder_remove)
