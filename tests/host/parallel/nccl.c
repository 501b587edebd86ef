/* nccl.c - groups by NCCL on emulated devices: ranks that are threads, verified as those of devices are; and what each surviving
 * rank is told when another one differs, fails, is missing, does nothing, or dies. */
#include <pthread.h>
#include <unistd.h>

#include "decoding.h"

enum {
    TIMEOUT_MS = 90000 /* a busy machine may be slow */,
    SHORT_MS = 1500,
    PROCESS_MS = 2500,
    HEX = 2 * PTXPACK_PARALLEL_ID_BYTES + 1
};

static char self[512];

static int open_all(void **state)
{
    char    path[600];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0)
        return 1;
    snprintf(path, sizeof path, "%.*s/../emulated/libnccl.so.2", (int)(strrchr(self, '/') - self), self);
    setenv("PTXPACK_NCCL", path, 1);
    return open_handles(state);
}

/* ---- ranks that are threads --------------------------------------------------------------------------- */
typedef struct rank_thread {
    int32_t                         rank, ranks, timeout_ms;
    const uint8_t                  *id;
    ptxpack_attention_desc          attention;
    ptxpack_attention_parallel_desc desc;
    const whole_tensors            *tensors; /* NULL: the launch is left out */
    const decode_case              *decode;
    bool                            of_application, idle; /* idle: it makes no plan */
    bool                            second; /* a plan follows the launch, which the last rank does not make */
    struct ncclComm                *comm;
    decode_rank_memory             *memory; /* of decoding */
    ptxpack_status                  joined, planned, waited, again;
    char                            line[512];
} rank_thread;

static void keep_line(rank_thread *t)
{
    snprintf(t->line, sizeof t->line, "%s", ptxpack_detail(handles[t->rank]));
}

/* Decodes; the results are judged by the main thread. */
static void decode(rank_thread *t, ptxpack_parallel_group *group)
{
    ptxpack_attention_desc        own = t->attention;
    ptxpack_parallel_decode_plan *plan;
    own.options |= PTXPACK_LENGTHS_KV;
    t->planned = ptxpack_parallel_decode_plan_create(group, &own, &plan);
    if (t->planned == PTXPACK_OK) {
        place_rank(t->decode, &t->attention, &own, t->tensors, t->rank, t->memory,
                   ptxpack_parallel_decode_workspace(plan));
        t->waited = ptxpack_parallel_decode(plan, &t->memory->buffers);
        if (t->waited == PTXPACK_OK)
            t->waited = ptxpack_parallel_wait(group, &t->memory->buffers.stream);
    }
    keep_line(t);
    ptxpack_parallel_decode_plan_free(plan);
}

static void plan_again(rank_thread *t, ptxpack_parallel_group *group)
{
    ptxpack_attention_parallel_plan *plan = NULL;
    if (t->rank == t->ranks - 1)
        usleep(1000 * (PROCESS_MS + 1000));
    else
        t->again = ptxpack_attention_parallel_plan_create(group, &t->desc, &plan);
    keep_line(t);
    ptxpack_attention_parallel_plan_free(plan);
}

static void attend(rank_thread *t, ptxpack_parallel_group *group)
{
    sharded s;
    bool    made = sharded_open(&s, group, &handles[t->rank], &t->desc);
    keep_line(t);
    t->planned = made ? PTXPACK_OK : PTXPACK_E_PEER;
    if (made && t->tensors != NULL) {
        bool ok = sharded_upload(&s, (const void *const *)t->tensors->tensor, t->tensors->sinks,
                                 t->tensors->slopes) &&
                  sharded_launch(&s);
        t->waited = ok ? ptxpack_parallel_wait(group, &s.rank[0].buffers.stream) : PTXPACK_E_DRIVER;
        keep_line(t);
        if (t->waited == PTXPACK_OK && !sharded_download(&s, t->tensors->tensor[SHARDED_O], t->tensors->lse))
            t->waited = PTXPACK_E_DRIVER;
        t->again = ptxpack_parallel_wait(group, &s.rank[0].buffers.stream);
        if (t->second)
            plan_again(t, group);
    } else if (made) { /* as long as the others wait */
        usleep(1000 * (SHORT_MS + 1000));
    }
    sharded_close(&s);
}

/* A communicator of the application, whose calls block. */
static ptxpack_status take_communicator(rank_thread *t, ptxpack_parallel_group **group)
{
    nccl_config       config = {sizeof config, (unsigned)NCCL_CONFIG_MAGIC, NCCL_CONFIG_VERSION, 1};
    const nccl_table *nccl;
    nccl_id           id;
    memcpy(id.bytes, t->id, sizeof id.bytes);
    ptxpack_status status = nccl_open(handles[t->rank], &nccl);
    if (status != PTXPACK_OK ||
        ptxpack_driver_table(handles[t->rank])->cuCtxSetCurrent(ptxpack_context(handles[t->rank])) !=
            PTXPACK_CU_SUCCESS ||
        nccl->ncclCommInitRankConfig(&t->comm, t->ranks, id, t->rank, &config) != NCCL_SUCCESS)
        return PTXPACK_E_NO_NCCL;
    return ptxpack_parallel_communicator(handles[t->rank], t->comm, t->timeout_ms, group);
}

static void *run_rank(void *argument)
{
    rank_thread            *t = (rank_thread *)argument;
    ptxpack_parallel_group *group;
    t->desc.attention = &t->attention;
    t->joined = t->of_application
                    ? take_communicator(t, &group)
                    : ptxpack_parallel_join(handles[t->rank], t->id, t->ranks, t->rank, t->timeout_ms, &group);
    keep_line(t);
    if (t->joined != PTXPACK_OK)
        return NULL;
    if (t->idle)
        usleep(1000 * (PROCESS_MS + 1000));
    else if (t->decode != NULL)
        decode(t, group);
    else
        attend(t, group);
    ptxpack_parallel_free(group);
    if (t->of_application && t->again != PTXPACK_E_PEER) { /* it is still there */
        const nccl_table *nccl;
        int               ranks = 0;
        if (nccl_open(handles[t->rank], &nccl) != PTXPACK_OK ||
            nccl->ncclCommCount(t->comm, &ranks) != NCCL_SUCCESS || ranks != t->ranks ||
            nccl->ncclCommDestroy(t->comm) != NCCL_SUCCESS)
            t->waited = PTXPACK_E_PEER;
    }
    return NULL;
}

/* Runs so many ranks, of which `change` may make one different; `missing` is left out. */
static void run_ranks(rank_thread *t, int32_t ranks, const rank_thread *like, int32_t missing,
                      void (*change)(rank_thread *t))
{
    pthread_t thread[RANKS];
    uint8_t   id[PTXPACK_PARALLEL_ID_BYTES];
    assert_int_equal(ptxpack_parallel_id(id), PTXPACK_OK);
    for (int32_t r = 0; r < ranks; r++) {
        t[r] = *like;
        t[r].rank = r;
        t[r].ranks = ranks;
        t[r].id = id;
        if (like->memory != NULL)
            t[r].memory = &like->memory[r];
        if (change != NULL)
            change(&t[r]);
        if (r != missing)
            assert_int_equal(pthread_create(&thread[r], NULL, run_rank, &t[r]), 0);
    }
    for (int32_t r = 0; r < ranks; r++)
        if (r != missing)
            pthread_join(thread[r], NULL);
}

static rank_thread causal(int32_t rows)
{
    return (rank_thread){.timeout_ms = TIMEOUT_MS,
                         .attention = {.size = sizeof(ptxpack_attention_desc),
                                       .dtype = PTXPACK_BF16,
                                       .batch = 2,
                                       .seqlen_q = rows,
                                       .seqlen_kv = rows,
                                       .heads_q = 4,
                                       .heads_kv = 2,
                                       .head_dim = 64,
                                       .mask = PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT},
                         .desc = {.size = sizeof(ptxpack_attention_parallel_desc),
                                  .shards = PTXPACK_SHARDS_ZIGZAG}};
}

static void threads_attend(void **state)
{
    static const struct {
        int32_t              ranks, rows, window;
        ptxpack_shards       shards;
        ptxpack_parallel_way way;
    } cases[] = {{2, 131, -1, PTXPACK_SHARDS_ZIGZAG, PTXPACK_PARALLEL_STEPS},
                 {4, 150, -1, PTXPACK_SHARDS_CONTIGUOUS, PTXPACK_PARALLEL_GATHER},
                 {3, 97, 30, PTXPACK_SHARDS_ZIGZAG, PTXPACK_PARALLEL_GATHER},
                 {8, 200, 60, PTXPACK_SHARDS_CONTIGUOUS, PTXPACK_PARALLEL_STEPS},
                 {4, 3, -1, PTXPACK_SHARDS_ZIGZAG, PTXPACK_PARALLEL_STEPS},
                 {1, 61, -1, PTXPACK_SHARDS_ZIGZAG, PTXPACK_PARALLEL_HEADS},
                 {2, 131, -1, PTXPACK_SHARDS_ZIGZAG, PTXPACK_PARALLEL_HEADS},
                 {4, 97, 30, PTXPACK_SHARDS_CONTIGUOUS, PTXPACK_PARALLEL_HEADS},
                 {8, 13, -1, PTXPACK_SHARDS_ZIGZAG, PTXPACK_PARALLEL_HEADS},
                 {2, 512, -1, PTXPACK_SHARDS_ZIGZAG, PTXPACK_PARALLEL_ARRIVE},
                 {3, 384, -1, PTXPACK_SHARDS_CONTIGUOUS, PTXPACK_PARALLEL_ARRIVE}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rank_thread t[RANKS], like = causal(cases[i].rows);
        if (cases[i].window >= 0) {
            like.attention.mask = PTXPACK_MASK_WINDOW_BOTTOM_RIGHT;
            like.attention.window_left = cases[i].window;
        }
        if (cases[i].way == PTXPACK_PARALLEL_HEADS)
            like.attention.heads_q = 2 * (like.attention.heads_kv = cases[i].ranks);
        like.desc.shards = cases[i].shards;
        like.desc.way = cases[i].way;
        whole_tensors tensors = draw_tensors(&like.attention, SEED);
        like.tensors = &tensors;
        like.of_application = i % 2 != 0;
        run_ranks(t, cases[i].ranks, &like, -1, NULL);
        for (int32_t r = 0; r < cases[i].ranks; r++)
            if (t[r].joined != PTXPACK_OK || t[r].planned != PTXPACK_OK || t[r].waited != PTXPACK_OK)
                fail_msg("rank %d: %s", (int)r, t[r].line);
        must_be_right(&like.attention, &tensors, "threads");
        free_tensors(&tensors);
    }
}

static void threads_decode(void **state)
{
    const decode_case            c = {3, 2, 2, 190, 4, 2, 64, 0, PTXPACK_SINKS, false};
    const ptxpack_attention_desc whole = decode_desc(&c, PTXPACK_F16);
    whole_tensors                tensors = draw_decode(&whole);
    decode_rank_memory           memory[RANKS];
    rank_thread t[RANKS], like = {.timeout_ms = TIMEOUT_MS, .attention = whole, .tensors = &tensors};
    (void)state;
    like.decode = &c;
    like.memory = memory;
    run_ranks(t, c.ranks, &like, -1, NULL);
    for (int32_t r = 0; r < c.ranks; r++) {
        if (t[r].joined != PTXPACK_OK || t[r].planned != PTXPACK_OK || t[r].waited != PTXPACK_OK)
            fail_msg("rank %d: %s", (int)r, t[r].line);
        memory[r].buffers.attention = &memory[r].attention;
        judge_rank(&c, &whole, &tensors, r, &memory[r]);
    }
    free_tensors(&tensors);
}

/* ---- failures ----------------------------------------------------------------------------------------- */
static void must_say(const rank_thread *t, const char *line)
{
    if (strstr(t->line, line) == NULL)
        fail_msg("rank %d says \"%s\", not \"%s\"", (int)t->rank, t->line, line);
}

static void shorten_last(rank_thread *t)
{
    if (t->rank == t->ranks - 1)
        t->attention.seqlen_q = t->attention.seqlen_kv = 90;
}

static void other_way_last(rank_thread *t)
{
    if (t->rank == t->ranks - 1)
        t->desc.way = PTXPACK_PARALLEL_HEADS;
}

static void spoil_last(rank_thread *t)
{
    if (t->rank == t->ranks - 1)
        t->attention.split_rows = 256;
}

static void idle_last(rank_thread *t)
{
    if (t->rank == t->ranks - 1)
        t->tensors = NULL;
    t->timeout_ms = t->rank == t->ranks - 1 ? TIMEOUT_MS : SHORT_MS;
}

static void other_descriptors_are_named(void **state)
{
    rank_thread t[RANKS], like = causal(80);
    (void)state;
    run_ranks(t, 3, &like, -1, shorten_last);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(t[r].planned, PTXPACK_E_PEER);
        must_say(&t[r], "rank 2 has seqlen_q 90, and rank 0 has 80");
    }
    run_ranks(t, 2, &like, -1, other_way_last);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(t[r].planned, PTXPACK_E_PEER);
        must_say(&t[r], "rank 1 has way 3, and rank 0 has 0");
    }
}

static void a_rank_without_a_plan_is_named(void **state)
{
    rank_thread t[RANKS], like = causal(80);
    (void)state;
    run_ranks(t, 3, &like, -1, spoil_last);
    must_say(&t[0], "rank 2 cannot make its plan: an argument is out of its stated range");
    must_say(&t[1], "rank 2 cannot make its plan: an argument is out of its stated range");
    must_say(&t[2], "attention.split_rows is not 0");
}

static void a_rank_that_does_not_join_ends_the_others(void **state)
{
    rank_thread t[RANKS], like = causal(80);
    (void)state;
    like.timeout_ms = SHORT_MS;
    run_ranks(t, 3, &like, 1, NULL);
    for (int r = 0; r < 3; r += 2) {
        assert_int_equal(t[r].joined, PTXPACK_E_PEER);
        must_say(&t[r], r == 0 ? "rank 0 of 3: joining the group: " : "rank 2 of 3: joining the group: ");
    }
    /* The first one whose time is over ends the other, which may be told that by NCCL. */
    must_say(strstr(t[0].line, "1500 ms") != NULL ? &t[0] : &t[2],
             "rank 1 was not seen on this machine within 1500 ms");
    must_say(&t[0], "rank 1 was not seen on this machine");
    must_say(&t[2], "rank 1 was not seen on this machine");
}

/* The device of the rank that gave up still computes. */
static void a_rank_that_does_not_launch_ends_the_others(void **state)
{
    rank_thread   t[RANKS], like = causal(80);
    whole_tensors tensors = draw_tensors(&like.attention, SEED);
    (void)state;
    like.tensors = &tensors;
    for (int way = PTXPACK_PARALLEL_STEPS; way <= PTXPACK_PARALLEL_HEADS; way++) {
        like.desc.way = (ptxpack_parallel_way)way;
        run_ranks(t, 2, &like, -1, idle_last);
        assert_int_equal(t[0].planned, PTXPACK_OK);
        assert_int_equal(t[0].waited, PTXPACK_E_PEER);
        assert_int_equal(t[0].again, PTXPACK_E_PEER);
        must_say(&t[0], "rank 0 of 2: data of rank 1 (step 1): not there after 1500 ms");
    }
    like.attention.seqlen_q = like.attention.seqlen_kv = 60;
    run_ranks(t, 2, &like, -1, NULL);
    assert_int_equal(t[0].waited, PTXPACK_OK);
    assert_int_equal(t[1].waited, PTXPACK_OK);
    free_tensors(&tensors);
}

/* The communicator of an application has an id for that from its first plan on. */
static void a_rank_that_does_not_plan_is_named(void **state)
{
    rank_thread   t[RANKS], like = causal(80);
    whole_tensors tensors = draw_tensors(&like.attention, SEED);
    (void)state;
    like.tensors = &tensors;
    like.timeout_ms = PROCESS_MS;
    like.of_application = like.second = true;
    run_ranks(t, 3, &like, -1, NULL);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(t[r].waited, PTXPACK_OK);
        assert_int_equal(t[r].again, PTXPACK_E_PEER);
        must_say(&t[r], r == 0 ? "rank 0 of 3: making a plan: " : "rank 1 of 3: making a plan: ");
        must_say(&t[r], "rank 2 was not seen on this machine");
    }
    free_tensors(&tensors);
}

/* ---- ranks that are processes ------------------------------------------------------------------------- */
/* This program as one rank: "RANK RANKS ID KIND TIMEOUT_MS" as its words, where KIND is steps, heads, or idle: it joins, and does
 * nothing for as long as the others wait.  Prints what it is told. */
static int be_a_rank(char **words)
{
    uint8_t         id[PTXPACK_PARALLEL_ID_BYTES];
    ptxpack_options options = {.size = sizeof options};
    rank_thread     t = causal(80);
    setenv("PTXPACK_DEVICE", "emu", 1);
    setenv("PTXPACK_EMU_DEVICES", "1", 1);
    for (int i = 0; i < PTXPACK_PARALLEL_ID_BYTES; i++)
        if (sscanf(words[2] + 2 * i, "%2hhx", &id[i]) != 1)
            return 2;
    t.rank = atoi(words[0]);
    t.ranks = atoi(words[1]);
    t.id = id;
    t.desc.way = strcmp(words[3], "heads") == 0 ? PTXPACK_PARALLEL_HEADS : PTXPACK_PARALLEL_STEPS;
    t.timeout_ms = atoi(words[4]);
    t.idle = strcmp(words[3], "idle") == 0;
    whole_tensors tensors = draw_tensors(&t.attention, SEED);
    t.tensors = &tensors;
    if (ptxpack_open(&options, &handles[t.rank]) != PTXPACK_OK)
        return puts(ptxpack_detail(NULL)), 1;
    run_rank(&t);
    printf("%d %d %d: %s\n", (int)t.joined, (int)t.planned, (int)t.waited, t.line);
    ptxpack_close(handles[t.rank]);
    return 0;
}

static FILE *start_rank(int rank, int ranks, const uint8_t *id, const char *fault, const char *kind,
                        int timeout_ms)
{
    char hex[HEX], command[1300];
    for (int i = 0; i < PTXPACK_PARALLEL_ID_BYTES; i++)
        snprintf(hex + 2 * i, 3, "%02x", id[i]);
    snprintf(command, sizeof command, "exec env PTXPACK_EMU_NCCL_FAULT=%s %s %d %d %s %s %d 2>/dev/null", fault,
             self, rank, ranks, hex, kind, timeout_ms);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    return pipe;
}

/* What a process prints, the last line with a colon. */
static void end_rank(FILE *pipe, char line[512])
{
    char next[512];
    line[0] = '\0';
    while (fgets(next, sizeof next, pipe) != NULL)
        if (strstr(next, ": ") != NULL)
            snprintf(line, 512, "%s", next);
    pclose(pipe);
}

/* Starts two, of which rank 1 has `fault`; `line` gets what rank 0 prints. */
static void run_processes(const char *fault, const char *kind, char line[512])
{
    uint8_t id[PTXPACK_PARALLEL_ID_BYTES];
    char    other[512] = "";
    assert_int_equal(ptxpack_parallel_id(id), PTXPACK_OK);
    FILE *first = start_rank(0, 2, id, "", kind, TIMEOUT_MS),
         *second = start_rank(1, 2, id, fault, kind, TIMEOUT_MS);
    end_rank(first, line);
    end_rank(second, other);
}

static void processes_attend_and_survive(void **state)
{
    char line[512];
    (void)state;
    run_processes("", "steps", line);
    assert_string_equal(line, "0 0 0: \n");
    run_processes("", "heads", line);
    assert_string_equal(line, "0 0 0: \n");
    run_processes("die@1=3", "steps", line); /* its third operation: after two exchanges of the plan */
    /* Perhaps while the plan is made: the other one may be gone before this one has seen the second exchange. */
    if ((strncmp(line, "0 0 20: ", 8) != 0 && strncmp(line, "0 20 0: ", 8) != 0) ||
        strncmp(line + 8, "rank 0 of 2: ", 13) != 0 || strstr(line, "NCCL: ") == NULL ||
        strstr(line, "rank 1 (process ") == NULL)
        fail_msg("the survivor says \"%s\"", line);
}

/* Of four, two never start, and then one joins alone; both who wait name them. */
static void processes_that_do_not_come_are_named(void **state)
{
    static const struct {
        const char *kinds[4], *begins, *names;
    } cases[] = {{{"steps", NULL, "steps", NULL}, "20 0 0: rank ", " of 4: joining the group: "},
                 {{"steps", "steps", "idle", "steps"}, "0 20 0: rank ", " of 4: making a plan: "}};
    (void)state;
    for (int c = 0; c < 2; c++) {
        uint8_t id[PTXPACK_PARALLEL_ID_BYTES];
        FILE   *rank[4] = {NULL};
        char    line[512], who[64];
        assert_int_equal(ptxpack_parallel_id(id), PTXPACK_OK);
        for (int r = 0; r < 4; r++)
            if (cases[c].kinds[r] != NULL)
                rank[r] = start_rank(r, 4, id, "", cases[c].kinds[r], PROCESS_MS);
        for (int r = 0; r < 4; r++) {
            if (rank[r] == NULL)
                continue;
            end_rank(rank[r], line);
            snprintf(who, sizeof who, "%s%d%s", cases[c].begins, r, cases[c].names);
            if (strcmp(cases[c].kinds[r], "idle") != 0 &&
                (strncmp(line, who, strlen(who)) != 0 ||
                 strstr(line, c == 0 ? "ranks 1 and 3 were not seen on this machine"
                                     : "rank 2 was not seen on this machine") == NULL))
                fail_msg("rank %d says \"%s\"", r, line);
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_attend),
        cmocka_unit_test(threads_decode),
        cmocka_unit_test(other_descriptors_are_named),
        cmocka_unit_test(a_rank_without_a_plan_is_named),
        cmocka_unit_test(a_rank_that_does_not_join_ends_the_others),
        cmocka_unit_test(a_rank_that_does_not_launch_ends_the_others),
        cmocka_unit_test(a_rank_that_does_not_plan_is_named),
        cmocka_unit_test(processes_attend_and_survive),
        cmocka_unit_test(processes_that_do_not_come_are_named),
    };
    return argc == 6 ? be_a_rank(argv + 1) : cmocka_run_group_tests(tests, open_all, close_handles);
}
