/* overlap.c - launches that may begin before the one before them in the stream has ended (programmatic dependents): what
 * the judge says of kernels that wait for it, and of those that do not, in streams and in graphs. */
#include "api_fixture.h"
#define BEFORE_EACH NULL
#define AFTER_EACH  NULL

/* Every kernel gets two buffers and copies the words of the first one to the second one, one for each of 64 threads in
 * two blocks.  They differ in where they wait and where they let dependents begin. */
static const char head[] = ".version 7.8\n.target sm_90\n.address_size 64\n";

#define KERNEL(name, body)                                                         \
    {                                                                              \
        name, ".visible .entry " name "(.param .u64 p, .param .u64 q)\n"           \
              "{\n"                                                                \
              "    .reg .b64 %a<4>;\n    .reg .b32 %r<6>;\n    .reg .pred %t;\n"   \
              "    .shared .align 4 .b8 room[4];\n"                                \
              "    ld.param.u64 %a1, [p];\n    ld.param.u64 %a2, [q];\n"           \
              "    mov.u32 %r1, %ctaid.x;\n    mov.u32 %r2, %tid.x;\n"             \
              "    mad.lo.u32 %r3, %r1, 32, %r2;\n    mul.wide.u32 %a3, %r3, 4;\n" \
              "    add.u64 %a1, %a1, %a3;\n    add.u64 %a2, %a2, %a3;\n"           \
              "    setp.eq.u32 %t, %r2, 0;\n" body "    ret;\n}\n"                 \
    }
#define WAIT    "    griddepcontrol.wait;\n"
#define RELEASE "    griddepcontrol.launch_dependents;\n"
#define LOAD    "    ld.global.u32 %r4, [%a1];\n"
#define STORE   "    st.global.u32 [%a2], %r4;\n"

static const struct {
    const char *name, *text;
} kernels[] = {
    KERNEL("plain", LOAD STORE),
    KERNEL("good", RELEASE WAIT LOAD STORE),
    KERNEL("late", WAIT LOAD STORE RELEASE),
    KERNEL("waits_at_end", RELEASE "    mov.b32 %r4, 5;\n" WAIT STORE),
    KERNEL("never_waits", RELEASE LOAD STORE),
    KERNEL("reads_early", LOAD RELEASE WAIT STORE),
    KERNEL("writes_early", RELEASE "    mov.b32 %r4, 5;\n" STORE WAIT),
    KERNEL("adds_early", "    red.global.add.u32 [%a2], 1;\n" WAIT),
    KERNEL("adds", WAIT "    red.global.add.u32 [%a2], 1;\n"),
    KERNEL("releases", WAIT "    fence.acq_rel.gpu;\n    red.relaxed.gpu.global.add.u32 [%a2], 1;\n"),
    KERNEL("one_waits", "    @%t griddepcontrol.wait;\n    bar.sync 0;\n" LOAD STORE),
    KERNEL("others_do_not", "    @%t griddepcontrol.wait;\n" LOAD STORE),
    KERNEL("constant", WAIT "    ld.global.nc.u32 %r4, [%a1];\n" STORE),
};
enum { KERNELS = sizeof kernels / sizeof kernels[0], BYTES = 256, BUFFERS = 4, STEPS = 5, SAYS = 3 };

struct step {
    const char *kernel;
    int         from, to; /* buffers */
    bool        normal;   /* it begins after all others */
    bool        reported;
};
struct chain {
    const char *name;
    struct step step[STEPS];
    const char *says[SAYS];
};
/* A launch as always; one that may begin early; the same, in which a race is reported. */
#define NORMAL(kernel, from, to)      \
    {                                 \
        kernel, from, to, true, false \
    }
#define EARLY(kernel, from, to)        \
    {                                  \
        kernel, from, to, false, false \
    }
#define RACE(kernel, from, to)        \
    {                                 \
        kernel, from, to, false, true \
    }
static const struct chain chains[] = {
    {"each one waits",
     {NORMAL("plain", 0, 1), EARLY("good", 1, 2), EARLY("good", 2, 3), EARLY("good", 3, 0)},
     {NULL}},
    /* Which block is reported depends on which one runs first. */
    {"a read before the wait",
     {NORMAL("good", 0, 1), RACE("reads_early", 1, 2)},
     {"reads global", "written by thread (0,0,0) of block (", ",0,0) of an earlier launch, of good, at "}},
    {"the same, launched normally", {NORMAL("good", 0, 1), NORMAL("reads_early", 1, 2)}, {NULL}},
    {"no launch before it", {EARLY("reads_early", 0, 1), NORMAL("plain", 1, 2)}, {NULL}},
    {"a write to what was written", {NORMAL("good", 0, 1), RACE("writes_early", 2, 1)}, {"written by"}},
    {"a write to what was read", {NORMAL("good", 0, 1), RACE("writes_early", 2, 0)}, {"read by"}},
    {"a write elsewhere", {NORMAL("good", 0, 1), EARLY("writes_early", 2, 3)}, {NULL}},
    {"an atomic before the wait", {NORMAL("adds", 0, 1), RACE("adds_early", 0, 1)}, {"updates"}},
    {"an atomic after it", {NORMAL("adds", 0, 1), EARLY("adds", 0, 1)}, {NULL}},
    {"a release by each of them",
     {NORMAL("releases", 0, 1), EARLY("releases", 0, 1), EARLY("releases", 0, 2)},
     {NULL}},
    {"a thread waits for its block", {NORMAL("good", 0, 1), EARLY("one_waits", 1, 2)}, {NULL}},
    {"a thread waits for itself", {NORMAL("good", 0, 1), RACE("others_do_not", 1, 2)}, {"reads global"}},
    {"the one in between does not wait",
     {NORMAL("good", 0, 1), EARLY("never_waits", 2, 3), RACE("good", 1, 2)},
     {"of an earlier launch, of good,"}},
    {"it touches nothing of the first",
     {NORMAL("good", 0, 1), EARLY("never_waits", 2, 3), EARLY("good", 3, 2)},
     {NULL}},
    {"it waits at its end",
     {NORMAL("good", 0, 1), EARLY("waits_at_end", 2, 3), EARLY("good", 1, 2), EARLY("good", 1, 0)},
     {NULL}},
    {"it lets the third one begin early",
     {NORMAL("good", 0, 1), EARLY("good", 0, 2), RACE("reads_early", 1, 3)},
     {"of an earlier launch, of good,"}},
    {"it lets the third one begin after its wait",
     {NORMAL("good", 0, 1), EARLY("late", 0, 2), EARLY("reads_early", 1, 3), RACE("reads_early", 3, 0)},
     {"of reads_early,"}},
    {"constant memory is written by the launch before",
     {NORMAL("good", 0, 1), RACE("constant", 1, 2)},
     {"nothing may write there during the launch"}},
    {"constant memory is written by the launch after it",
     {NORMAL("constant", 0, 1), EARLY("good", 2, 0), EARLY("good", 0, 1)},
     {NULL}},
};

static struct emu_api     *cu;
static struct CUfunc_st   *functions[KERNELS];
static struct CUstream_st *stream;
static api_address         buffers[BUFFERS];
static char                log_path[96];

static int open_machine(void **state)
{
    char environment[160], text[16384];
    if (emu_folder_make(state) != 0)
        return -1;
    snprintf(log_path, sizeof log_path, "%s/log", emu_folder);
    snprintf(environment, sizeof environment, "PTXPACK_EMU_ERRORS=launch PTXPACK_EMU_LOG=%s", log_path);
    cu = emu_api_context(environment, NULL);
    snprintf(text, sizeof text, "%s", head);
    for (size_t i = 0; i < KERNELS; i++)
        strcat(text, kernels[i].text);
    for (size_t i = 0; i < KERNELS; i++)
        functions[i] = emu_function_named(cu, text, kernels[i].name);
    ok(cu->cuStreamCreate(&stream, 1));
    for (size_t i = 0; i < BUFFERS; i++) {
        ok(cu->cuMemAlloc_v2(&buffers[i], BYTES));
        ok(cu->cuMemsetD32_v2(buffers[i], 1, BYTES / 4));
    }
    return 0;
}

static void forget_log(void) { unlink(log_path); }

static const char *log_text(void)
{
    static char text[1 << 16];
    FILE       *f = fopen(log_path, "r");
    text[f != NULL ? fread(text, 1, sizeof text - 1, f) : 0] = '\0';
    if (f != NULL)
        fclose(f);
    return text;
}

static api_result launch(const struct step *s, unsigned int *attributes)
{
    struct CUlaunchAttribute_st attribute = {.id = 6, .value.programmaticStreamSerializationAllowed = 1};
    struct CUlaunchConfig_st    config = {2, 1, 1, 32, 1, 1, 0, stream, &attribute, s->normal ? 0 : 1};
    void                       *parameters[] = {&buffers[s->from], &buffers[s->to]};
    size_t                      i = 0;
    while (strcmp(kernels[i].name, s->kernel) != 0)
        i++;
    *attributes += config.numAttrs;
    return cu->cuLaunchKernelEx(&config, functions[i], parameters, NULL);
}

static void check_log(const struct chain *c, bool reported)
{
    const char *text = log_text();
    for (int i = 0; reported && i < SAYS && c->says[i] != NULL; i++)
        if (strstr(text, c->says[i]) == NULL)
            fail_msg("%s: \"%s\" is not in: %s", c->name, c->says[i], text);
    if (!reported && *text != '\0')
        fail_msg("%s: nothing should be reported: %s", c->name, text);
}

TEST(test_stream)
{
    for (size_t k = 0; k < sizeof chains / sizeof chains[0]; k++) {
        const struct chain *c = &chains[k];
        unsigned int        attributes = 0;
        bool                reported = false;
        forget_log();
        for (int i = 0; i < STEPS && c->step[i].kernel != NULL; i++) {
            const api_result result = launch(&c->step[i], &attributes);
            if (result != (c->step[i].reported ? 719u : 0u))
                fail_msg("%s: launch %d answers %u: %s", c->name, i, result, log_text());
            reported |= c->step[i].reported;
        }
        check_log(c, reported);
        ok(cu->cuStreamSynchronize(stream));
    }
}

/* Captured, each chain has as many programmatic edges as launches with the attribute behind another launch. */
TEST(test_graph)
{
    for (size_t k = 0; k < sizeof chains / sizeof chains[0]; k++) {
        const struct chain       *c = &chains[k];
        struct CUgraph_st        *graph = NULL, *clone = NULL;
        struct CUgraphExec_st    *exec = NULL;
        struct CUgraphNode_st    *from[STEPS], *to[STEPS];
        struct CUgraphEdgeData_st edges[STEPS];
        unsigned int              attributes = 0, early = 0;
        size_t                    count = STEPS;
        bool                      reported = false;
        forget_log();
        ok(cu->cuStreamBeginCapture_v2(stream, 0));
        for (int i = 0; i < STEPS && c->step[i].kernel != NULL; i++) {
            ok(launch(&c->step[i], &attributes));
            reported |= c->step[i].reported;
        }
        ok(cu->cuStreamEndCapture(stream, &graph));
        ok(cu->cuGraphClone(&clone, graph));
        ok(cu->cuGraphDestroy(graph));
        ok(cu->cuGraphGetEdges_v2(clone, from, to, edges, &count));
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(edges[i].type, edges[i].from_port);
            early += edges[i].type;
        }
        assert_int_equal(early, attributes - !c->step[0].normal);
        answers(cu->cuGraphGetEdges(clone, from, to, &count), early ? 402 : 0);
        ok(cu->cuGraphInstantiateWithFlags(&exec, clone, 0));
        ok(cu->cuGraphDestroy(clone));
        if ((cu->cuGraphLaunch(exec, stream) != 0) != reported)
            fail_msg("%s, in a graph: %s", c->name, log_text());
        check_log(c, reported);
        ok(cu->cuGraphExecDestroy(exec));
    }
}

/* What comes in between orders the launches. */
TEST(test_between)
{
    const struct step   first = {"good", 0, 1, true, false}, second = {"reads_early", 1, 2, false, false};
    unsigned int        attributes = 0;
    struct CUevent_st  *event = NULL;
    struct CUstream_st *other = NULL;
    api_address         spare = 0;
    unsigned int        word;
    ok(cu->cuEventCreate(&event, 0));
    ok(cu->cuStreamCreate(&other, 1));
    forget_log();
    for (int i = 0; i < 9; i++) {
        ok(cu->cuMemAlloc_v2(&spare, 16));
        ok(launch(&first, &attributes));
        switch (i) {
        case 0:
            ok(cu->cuStreamSynchronize(stream));
            break;
        case 1:
            ok(cu->cuCtxSynchronize());
            break;
        case 2:
            ok(cu->cuMemcpyDtoH_v2(&word, buffers[1], 4));
            break;
        case 3:
            ok(cu->cuMemFree_v2(spare));
            break;
        case 4:
            ok(cu->cuMemsetD32Async(spare, 0, 4, stream));
            break;
        case 5:
            ok(cu->cuEventRecord(event, stream));
            ok(cu->cuEventSynchronize(event));
            break;
        case 6:
            ok(cu->cuStreamWaitEvent(stream, event, 0));
            break;
        case 7:
            ok(cu->cuMemsetD32Async(spare, 0, 4, other));
            break;
        default:
            ok(cu->cuStreamQuery(stream));
            break;
        }
        if (launch(&second, &attributes) != 0)
            fail_msg("case %d: %s", i, log_text());
    }
}

/* On older GPUs the attribute has no effect. */
TEST(test_older)
{
    struct CUlaunchAttribute_st attribute = {.id = 6, .value.programmaticStreamSerializationAllowed = 1};
    struct CUlaunchConfig_st    config = {1, 1, 1, 1, 1, 1, 0, NULL, &attribute, 1};
    struct emu_api             *older = emu_api_context("PTXPACK_EMU_SM=80", NULL);
    struct CUfunc_st           *function = emu_function_named(older, emu_ptx, "empty");
    ok(older->cuLaunchKernelEx(&config, function, NULL, NULL));
    ok(older->cuCtxSynchronize());
    free(older);
}

/* Edges that are added to a graph. */
TEST(test_edges)
{
    const struct {
        struct CUgraphEdgeData_st edge;
        api_result                kernels, empty;
    } cases[] = {{{0, 0, 0, {0}}, 0, 0},   {{1, 0, 1, {0}}, 0, 1}, {{0, 0, 1, {0}}, 1, 1},
                 {{1, 0, 0, {0}}, 1, 1},   {{3, 0, 1, {0}}, 1, 1}, {{1, 1, 1, {0}}, 1, 1},
                 {{2, 0, 1, {0}}, 801, 1}, {{0, 0, 2, {0}}, 1, 1}};
    void                             *arguments[] = {&buffers[0], &buffers[1]};
    struct CUDA_KERNEL_NODE_PARAMS_st kernel = {functions[1], 2, 1, 1, 32, 1, 1, 0, arguments, NULL};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct CUgraph_st     *graph = NULL;
        struct CUgraphNode_st *node[3] = {NULL};
        ok(cu->cuGraphCreate(&graph, 0));
        ok(cu->cuGraphAddKernelNode(&node[0], graph, NULL, 0, &kernel));
        ok(cu->cuGraphAddKernelNode(&node[1], graph, NULL, 0, &kernel));
        ok(cu->cuGraphAddEmptyNode(&node[2], graph, NULL, 0));
        answers(cu->cuGraphAddDependencies_v2(graph, &node[0], &node[1], &cases[i].edge, 1), cases[i].kernels);
        answers(cu->cuGraphAddDependencies_v2(graph, &node[0], &node[2], &cases[i].edge, 1), cases[i].empty);
        ok(cu->cuGraphDestroy(graph));
    }
}

RUN_TESTS(open_machine, emu_folder_remove)
