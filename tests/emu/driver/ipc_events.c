/* ipc_events.c - events of other processes. */
#include "ipc_fixture.h"
#define BEFORE_EACH NULL
#define AFTER_EACH  NULL

static void release(unsigned int *word) { __atomic_store_n(word, 1, __ATOMIC_RELEASE); }

/* A stream that waits until the word is 1, then fills memory with `value`, then records the event. */
static void fill_later(struct emu_api *cu, struct CUstream_st *stream, unsigned int *word, api_address to,
                       unsigned int value, struct CUevent_st *event)
{
    *word = 0;
    ok(cu->cuStreamWaitValue32_v2(stream, address_of(word), 1, EQ));
    ok(cu->cuMemsetD32Async(to, value, 1, stream));
    ok(cu->cuEventRecord(event, stream));
}

/* A process that has told the other one of an event and of memory. */
struct owner {
    struct emu_api     *cu;
    struct CUstream_st *stream;
    struct CUevent_st  *event;
    unsigned int       *word; /* of pinned memory */
    api_address         memory;
};

static struct owner open_owner(void)
{
    struct owner o = {.cu = emu_api_context(plain, NULL)};
    o.word = pinned_word(o.cu, 0);
    o.memory = allocate(o.cu, 4096, 0);
    ok(o.cu->cuStreamCreate(&o.stream, NON_BLOCKING));
    o.event = say_event(o.cu);
    say_memory(o.cu, o.memory);
    return o;
}

/* The owner records, and the other one waits; then the other way round. */
static void events_owner(void)
{
    const struct owner  o = open_owner();
    struct emu_api     *cu = o.cu;
    struct CUstream_st *stream = o.stream;
    struct CUevent_st  *event = o.event;
    unsigned int       *word = o.word;
    const api_address   a = o.memory;
    meet(); /* it was never recorded */
    fill_later(cu, stream, word, a, 21, event);
    answers(cu->cuEventQuery(event), NOT_READY);
    meet();
    meet(); /* the other one waits */
    release(word);
    ok(cu->cuEventSynchronize(event));
    meet();
    meet(); /* the other one will fill and record */
    answers(cu->cuEventQuery(event), NOT_READY);
    meet();
    ok(cu->cuStreamWaitEvent(stream, event, 0));
    ok(cu->cuEventSynchronize(event));
    ok(cu->cuEventQuery(event));
    ok(cu->cuStreamSynchronize(stream));
    assert_int_equal(word_at(cu, a), 22);
    ok(cu->cuEventDestroy_v2(event));
    meet();
    free(cu);
}

static void events_other(void)
{
    struct emu_api     *cu = emu_api_context(plain, NULL);
    struct CUstream_st *stream = NULL;
    unsigned int       *word = pinned_word(cu, 0);
    float               elapsed;
    ok(cu->cuStreamCreate(&stream, NON_BLOCKING));
    struct CUevent_st *event = hear_event(cu);
    api_address        a = hear_memory(cu, NULL), mine = allocate(cu, 4096, 0);
    ok(cu->cuEventQuery(event));
    ok(cu->cuStreamWaitEvent(stream, event, 0));
    ok(cu->cuStreamSynchronize(stream));
    meet();
    meet(); /* it is recorded */
    answers(cu->cuEventQuery(event), NOT_READY);
    ok(cu->cuStreamWaitEvent(stream, event, 0));
    ok(cu->cuMemcpyDtoDAsync_v2(mine, a, 4, stream));
    answers(cu->cuStreamQuery(stream), NOT_READY);
    meet();
    ok(cu->cuStreamSynchronize(stream));
    assert_int_equal(word_at(cu, mine), 21);
    meet(); /* the owner has seen it, too */
    fill_later(cu, stream, word, a, 22, event);
    meet();
    meet(); /* the owner has seen that it is pending */
    release(word);
    ok(cu->cuStreamSynchronize(stream));
    answers(cu->cuEventElapsedTime(&elapsed, event, event), 400);
    ok(cu->cuEventDestroy_v2(event));
    meet();
    free(cu);
}

TEST(test_events_go_both_ways) { two_processes(events_owner, events_other, 0); }

/* An event may be destroyed when a record of it, or a wait for it, is only enqueued. */
static void destroyed_owner(void)
{
    const struct owner  o = open_owner();
    struct emu_api     *cu = o.cu;
    struct CUstream_st *stream = o.stream;
    struct CUevent_st  *event = o.event;
    unsigned int       *word = o.word;
    const api_address   a = o.memory;
    fill_later(cu, stream, word, a, 31, event);
    ok(cu->cuEventDestroy_v2(event));
    answers(cu->cuEventQuery(event), 400);
    answers(cu->cuEventDestroy_v2(event), 400);
    meet();
    release(word);
    ok(cu->cuStreamSynchronize(stream));
    assert_int_equal(open_files(), 1); /* the memory */
    meet();
    free(cu);
}

static void destroyed_other(void)
{
    struct emu_api     *cu = emu_api_context(plain, NULL);
    struct CUstream_st *stream = NULL;
    ok(cu->cuStreamCreate(&stream, NON_BLOCKING));
    struct CUevent_st *event = hear_event(cu);
    api_address        a = hear_memory(cu, NULL), mine = allocate(cu, 4096, 0);
    while (cu->cuEventQuery(event) == 0)
        usleep(100); /* until it is recorded */
    ok(cu->cuStreamWaitEvent(stream, event, 0));
    ok(cu->cuMemcpyDtoDAsync_v2(mine, a, 4, stream));
    ok(cu->cuEventDestroy_v2(event));
    answers(cu->cuStreamWaitEvent(stream, event, 0), 400);
    meet();
    ok(cu->cuStreamSynchronize(stream));
    assert_int_equal(word_at(cu, mine), 31);
    assert_int_equal(open_files(), 0);
    meet();
    free(cu);
}

TEST(test_destroyed_events_are_reached) { two_processes(destroyed_owner, destroyed_other, 0); }

static void wrong_events(void)
{
    struct emu_api            *cu = emu_api_context(plain, NULL);
    struct CUipcEventHandle_st handle;
    struct CUevent_st         *event = NULL, *local = NULL;
    answers(cu->cuEventCreate(&event, INTERPROCESS), 1);
    ok(cu->cuEventCreate(&local, UNTIMED));
    answers(cu->cuIpcGetEventHandle(&handle, local), 400);
    ok(cu->cuEventCreate(&event, UNTIMED | INTERPROCESS));
    answers(cu->cuIpcGetEventHandle(NULL, event), 1);
    answers(cu->cuIpcGetEventHandle(&handle, NULL), 400);
    ok(cu->cuIpcGetEventHandle(&handle, event));
    answers(cu->cuIpcOpenEventHandle(&local, handle), 201);
    free(cu);
}

TEST(test_wrong_events) { two_processes(wrong_events, nothing, 0); }

/* A stream does not wait for a record that is only made after its call. */
static void unrecorded(void)
{
    struct emu_api     *cu = emu_api_context(plain, NULL);
    struct CUevent_st  *event = NULL;
    struct CUstream_st *waiting = NULL, *recording = NULL;
    unsigned int       *first = pinned_word(cu, 0), *second = pinned_word(cu, 0);
    api_address         a = allocate(cu, 4096, 0);
    ok(cu->cuEventCreate(&event, UNTIMED | INTERPROCESS));
    ok(cu->cuStreamCreate(&waiting, NON_BLOCKING));
    ok(cu->cuStreamCreate(&recording, NON_BLOCKING));
    ok(cu->cuStreamWaitValue32_v2(waiting, address_of(first), 1, EQ));
    ok(cu->cuStreamWaitEvent(waiting, event, 0));
    fill_later(cu, recording, second, a, 1, event);
    release(first);
    ok(cu->cuStreamSynchronize(waiting));
    answers(cu->cuEventQuery(event), NOT_READY);
    release(second);
    ok(cu->cuStreamSynchronize(recording));
    free(cu);
}

TEST(test_unrecorded_event_holds_nothing_up) { two_processes(unrecorded, nothing, 0); }

/* The process that has recorded an event is killed before it has reached it: who waits gets an error, not for ever. */
static void dying_owner(void)
{
    struct emu_api     *cu = emu_api_context(plain, NULL);
    struct CUstream_st *stream = NULL;
    pid_t               self = getpid();
    ok(cu->cuStreamCreate(&stream, NON_BLOCKING));
    struct CUevent_st *event = say_event(cu);
    fill_later(cu, stream, pinned_word(cu, 0), allocate(cu, 4096, 0), 1, event);
    say(self);
    pause();
}

static void dying_other(void)
{
    char log[128], words[256], text[1024] = "";
    snprintf(log, sizeof log, "%s/dying", emu_folder);
    snprintf(words, sizeof words, "%s PTXPACK_EMU_LOG=%s", plain, log);
    struct emu_api     *cu = emu_api_context(words, NULL);
    struct CUstream_st *stream = NULL;
    pid_t               owner;
    ok(cu->cuStreamCreate(&stream, NON_BLOCKING));
    struct CUevent_st *event = hear_event(cu);
    hear(owner);
    answers(cu->cuEventQuery(event), NOT_READY);
    ok(cu->cuStreamWaitEvent(stream, event, 0));
    answers(cu->cuStreamQuery(stream), NOT_READY);
    kill_and_wait(owner);
    answers(cu->cuStreamSynchronize(stream), LOST);
    answers(cu->cuEventSynchronize(event), LOST);
    ok(cu->cuStreamSynchronize(stream)); /* the stream goes on */
    ok(cu->cuEventRecord(event, stream));
    ok(cu->cuEventSynchronize(event));
    FILE *f = fopen(log, "r");
    assert_non_null(f);
    assert_true(fread(text, 1, sizeof text - 1, f) > 0);
    fclose(f);
    assert_non_null(strstr(text, "an event will not be reached: process "));
    free(cu);
}

TEST(test_recorder_is_killed) { two_processes(dying_owner, dying_other, SIGKILL); }

/* A kernel before the record fails: its process goes on, and the other one is told. */
static void failing_owner(void)
{
    char words[256];
    snprintf(words, sizeof words, "%s PTXPACK_EMU_LOG=%s/failing", plain, emu_folder);
    struct emu_api     *cu = emu_api_context(words, NULL);
    struct CUstream_st *stream = NULL;
    unsigned int       *word = pinned_word(cu, 0);
    ok(cu->cuStreamCreate(&stream, NON_BLOCKING));
    struct CUevent_st *event = say_event(cu);
    ok(cu->cuStreamWaitValue32_v2(stream, address_of(word), 1, EQ));
    launch(cu, emu_ptx, "store", 1, 1, stream, 16, 0, 0);
    ok(cu->cuEventRecord(event, stream));
    meet();
    meet(); /* the other one waits */
    release(word);
    answers(cu->cuStreamSynchronize(stream), 700);
    meet();
    free(cu);
}

static void failing_other(void)
{
    char words[256];
    snprintf(words, sizeof words, "%s PTXPACK_EMU_LOG=%s/failing-other", plain, emu_folder);
    struct emu_api     *cu = emu_api_context(words, NULL);
    struct CUstream_st *stream = NULL;
    ok(cu->cuStreamCreate(&stream, NON_BLOCKING));
    struct CUevent_st *event = hear_event(cu);
    meet();
    ok(cu->cuStreamWaitEvent(stream, event, 0));
    answers(cu->cuStreamQuery(stream), NOT_READY);
    meet();
    answers(cu->cuStreamSynchronize(stream), LOST);
    answers(cu->cuEventQuery(event), LOST);
    meet();
    free(cu);
}

TEST(test_kernel_before_the_record_fails) { two_processes(failing_owner, failing_other, 0); }

RUN_TESTS(emu_folder_make, emu_folder_remove)
