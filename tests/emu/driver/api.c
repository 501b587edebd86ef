/* api.c - the emulated driver as its clients see it: functions by name, devices, launches, errors, processes
 * and threads.  The answers in unusual cases were recorded from an H200 (driver 580). */
#include "api_fixture.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* ---- functions by name --------------------------------------------------------------------------------- */
static const struct row {
    const char *name, *symbol;
    int         version;
} rows[] = {
#define API(name, suffix, version, parameters) {#name, #name #suffix, version},
#include "tools/emu/driver/api.def"
#define BEFORE_EACH NULL
#define AFTER_EACH  NULL
#undef API
};
enum { ROWS = sizeof rows / sizeof rows[0] };

TEST(test_names)
{
    struct emu_api *cu = emu_api_load("");
    for (int i = 0; i < ROWS; i++) {
        void        *got = NULL, *older = NULL;
        unsigned int found = 99;
        bool         first = i == 0 || strcmp(rows[i].name, rows[i - 1].name) != 0;
        ok(cu->cuGetProcAddress_v2(rows[i].name, &got, rows[i].version, 0, &found));
        assert_int_equal(found, 0);
        assert_ptr_equal(got, dlsym(cu->library, rows[i].symbol));
        ok(cu->cuGetProcAddress_v2(rows[i].name, &older, rows[i].version - 10, 2, &found));
        assert_int_equal(found, first ? 2 : 0); /* the version is not sufficient */
        assert_ptr_equal(older, first ? NULL : dlsym(cu->library, rows[i - 1].symbol));
    }
    free(cu);
}

TEST(test_absent_names)
{
    static const char *const absent[] = {"cuMemHostRegister", "cuArrayCreate", "cuMemCreate", "cuTexRefCreate",
                                         "cuMemPoolCreate",   "cuMemAlloc",    "cuCtxCreate", "cuMemcpy3DPeer",
                                         "cuMulticastCreate", "emu_settings"};
    struct emu_api          *cu = emu_api_load("");
    void                    *got = cu;
    unsigned int             found = 99;
    for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++)
        assert_null(dlsym(cu->library, absent[i]));
    ok(cu->cuGetProcAddress_v2("cuTexRefCreate", &got, 12000, 0, &found));
    assert_int_equal(found, 1);
    assert_null(got);
    answers(cu->cuGetProcAddress("cuTexRefCreate", &got, 12000, 0), 500);
    answers(cu->cuGetProcAddress_v2("cuInit", &got, 99000, 0, &found), 1);
    answers(cu->cuGetProcAddress_v2("cuInit", &got, 12000, 8, &found), 1);
    ok(cu->cuGetProcAddress_v2("cuInit", &got, 12000, 1, NULL));
    const void *table = cu;
    answers(cu->cuGetExportTable(&table, (const struct CUuuid_st *)"0123456789abcdef"), 500);
    assert_null(table);
    free(cu);
}

TEST(test_errors)
{
    static const unsigned int codes[] = {
        0,
#define ERROR(name, value, text) value,
#include "tools/emu/driver/errors.def"
#undef ERROR
    };
    struct emu_api *cu = emu_api_load("");
    const char     *text = "";
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        ok(cu->cuGetErrorName(codes[i], &text));
        assert_memory_equal(text, i ? "CUDA_ERROR_" : "CUDA_SUCCESS", 11);
        ok(cu->cuGetErrorString(codes[i], &text));
        assert_true(*text);
    }
    answers(cu->cuGetErrorName(12345, &text), 1);
    assert_null(text);
    free(cu);
}

/* ---- the driver and its devices ------------------------------------------------------------------------ */
TEST(test_before_init)
{
    struct emu_api  *cu = emu_api_load("");
    struct CUctx_st *context;
    api_address      address;
    int              n = 0;
    answers(cu->cuDeviceGetCount(&n), 3);
    answers(cu->cuCtxGetCurrent(&context), 3);
    answers(cu->cuMemAlloc_v2(&address, 16), 3);
    ok(cu->cuDriverGetVersion(&n));
    assert_int_equal(n, 13000);
    answers(cu->cuInit(1), 1);
    ok(cu->cuInit(0));
    ok(cu->cuInit(0));
    answers(cu->cuMemAlloc_v2(&address, 16), 201);
    free(cu);
}

static int attribute(struct emu_api *cu, unsigned int number)
{
    int value = -12345;
    ok(cu->cuDeviceGetAttribute(&value, number, 0));
    return value;
}

TEST(test_devices)
{
    static const struct {
        int sm, per_block, per_sm, threads, clusters;
    } gpus[] = {{75, 64, 64, 1024, 0},   {80, 163, 164, 2048, 0}, {86, 99, 100, 1536, 0},
                {89, 99, 100, 1536, 0},  {90, 227, 228, 2048, 1}, {100, 227, 228, 2048, 1},
                {120, 99, 100, 1536, 1}, {121, 99, 100, 1536, 1}};
    char   words[64], name[100];
    int    major = 0, minor = 0, value;
    size_t bytes = 0;
    for (size_t i = 0; i < sizeof gpus / sizeof gpus[0]; i++) {
        snprintf(words, sizeof words, "PTXPACK_EMU_SM=%d PTXPACK_EMU_SMS=7 PTXPACK_EMU_MEMORY=64M", gpus[i].sm);
        struct emu_api *cu = emu_api(words);
        ok(cu->cuDeviceComputeCapability(&major, &minor, 0));
        assert_int_equal(10 * major + minor, gpus[i].sm);
        assert_int_equal(attribute(cu, 8), 48 << 10);
        assert_int_equal(attribute(cu, 97), gpus[i].per_block << 10);
        assert_int_equal(attribute(cu, 81), gpus[i].per_sm << 10);
        assert_int_equal(attribute(cu, 39), gpus[i].threads);
        assert_int_equal(attribute(cu, 120), gpus[i].clusters);
        assert_int_equal(attribute(cu, 16), 7);
        assert_int_equal(attribute(cu, 10), 32);
        for (unsigned int k = 1; k <= 147; k++)
            attribute(cu, k);
        answers(cu->cuDeviceGetAttribute(&value, 0, 0), 1);
        answers(cu->cuDeviceGetAttribute(&value, 999, 0), 1);
        answers(cu->cuDeviceGetAttribute(&value, 10, 1), 101);
        ok(cu->cuDeviceGetName(name, sizeof name, 0));
        assert_non_null(strstr(name, "emulated"));
        ok(cu->cuDeviceTotalMem_v2(&bytes, 0));
        assert_int_equal(bytes, 64 << 20);
        free(cu);
    }
}

TEST(test_settings)
{
    static const char *const wrong[] = {"PTXPACK_EMU_SM=91",
                                        "PTXPACK_EMU_SM=x",
                                        "PTXPACK_EMU_SMS=0",
                                        "PTXPACK_EMU_MEMORY=4X",
                                        "PTXPACK_EMU_MEMORY=-1",
                                        "PTXPACK_EMU_ASYNC=never",
                                        "PTXPACK_EMU_ERRORS=none",
                                        "PTXPACK_EMU_JUDGE=races",
                                        "PTXPACK_EMU_FAULT=no-such",
                                        "PTXPACK_EMU_SEED=1.5",
                                        "PTXPACK_EMU_DELAY=10001",
                                        "PTXPACK_EMU_PATIENCE=1s",
                                        "PTXPACK_EMU_FAULT=stub=",
                                        "PTXPACK_EMU_FAULT=no-jit=3",
                                        "PTXPACK_EMU_LOG=/nowhere/at/all",
                                        "PTXPACK_EMU_LOG=/",
                                        "PTXPACK_EMU_THREADS=0",
                                        "PTXPACK_EMU_BUDGET=",
                                        "PTXPACK_EMU_FAULT=no-memory=x",
                                        "PTXPACK_EMU_MEMORY=99999999999999999999",
                                        "PTXPACK_EMU_SHARED=1"};
    int                      n = 0;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct emu_api *cu = emu_api_load(wrong[i]);
        if (strcmp(wrong[i], "PTXPACK_EMU_BUDGET=") == 0)
            ok(cu->cuInit(0)); /* an empty value counts as no value */
        else
            answers(cu->cuInit(0), 802);
        free(cu);
    }
    struct emu_api *cu = emu_api(
        "PTXPACK_EMU_DEVICES=3 PTXPACK_EMU_DRIVER=12040 PTXPACK_EMU_SHARED=32K "
        "PTXPACK_EMU_JUDGE=race,-race,report PTXPACK_EMU_ASYNC=latest PTXPACK_EMU_MEMORY=1G");
    ok(cu->cuDeviceGetCount(&n));
    assert_int_equal(n, 3);
    ok(cu->cuDriverGetVersion(&n));
    assert_int_equal(n, 12040);
    assert_int_equal(attribute(cu, 97), 32 << 10);
    char bus[16];
    ok(cu->cuDeviceGetPCIBusId(bus, sizeof bus, 2));
    ok(cu->cuDeviceGetByPCIBusId(&n, bus));
    assert_int_equal(n, 2);
    free(cu);
}

/* Records what is written to standard error meanwhile. */
static int errors_begin(void)
{
    char path[128];
    snprintf(path, sizeof path, "%s/errors", emu_folder);
    int saved = dup(STDERR_FILENO), file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(saved >= 0 && file >= 0 && dup2(file, STDERR_FILENO) == STDERR_FILENO);
    close(file);
    return saved;
}

static void errors_end(int saved, char *text, size_t cap)
{
    ssize_t n = pread(STDERR_FILENO, text, cap - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    dup2(saved, STDERR_FILENO);
    close(saved);
}

/* Calls cuInit or launches a kernel within so much address space; the messages are in `text`. */
static api_result within(struct emu_api *cu, struct CUfunc_st *function, uint64_t room, char *text, size_t cap)
{
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    small = before;
    small.rlim_cur = (rlim_t)room;
    int        saved = errors_begin();
    int        limited = setrlimit(RLIMIT_AS, &small);
    api_result result = function != NULL
                            ? cu->cuLaunchKernel(function, 1, 1, 1, 1024, 1, 1, 0, NULL, NULL, NULL)
                            : cu->cuInit(0);
    setrlimit(RLIMIT_AS, &before);
    errors_end(saved, text, cap);
    assert_int_equal(limited, 0);
    return result;
}

static uint64_t address_space(void)
{
    unsigned long long pages = 0;
    FILE              *f = fopen("/proc/self/statm", "r");
    assert_true(f && fscanf(f, "%llu", &pages) == 1);
    fclose(f);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* A lack of address space is reported with its cause, and breaks nothing. */
TEST(test_no_room)
{
    static const char large[] = ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry large()\n{\n"
                                ".local .b8 array[500000];\n.reg .b64 %a;\nmov.b64 %a, array;\n"
                                "st.local.b64 [%a], 1;\nret;\n}\n";
    struct CUctx_st  *context = NULL;
    char              text[512];
    if (address_space() > 1ull << 40) {
        puts("SKIP: a sanitizer has taken the address space already");
        skip();
    }
    struct emu_api *cu = emu_api_load("PTXPACK_EMU_MEMORY=64G");
    answers(within(cu, NULL, 16ull << 30, text, sizeof text), 2);
    assert_non_null(strstr(text, "68719476736 bytes of device memory (PTXPACK_EMU_MEMORY)"));
    ok(cu->cuInit(0)); /* it may be called again */
    ok(cu->cuCtxCreate_v2(&context, 0, 0));
    struct CUfunc_st *function = emu_function_named(cu, large, "large");
    answers(within(cu, function, address_space() + (64 << 20), text, sizeof text), 2);
    assert_non_null(strstr(text, "large: no host memory for blocks of 1024 x 1 x 1 threads"));
    ok(cu->cuCtxSynchronize());
    ok(cu->cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
    ok(cu->cuCtxSynchronize());
    free(cu);
}

/* ---- launches ------------------------------------------------------------------------------------------ */
static unsigned int word_at(struct emu_api *cu, api_address address)
{
    unsigned int word = 0;
    ok(cu->cuMemcpyDtoH_v2(&word, address, 4));
    return word;
}

TEST(test_parameters)
{
    struct emu_api   *cu = emu_api_context("", NULL);
    struct CUfunc_st *store = emu_function_named(cu, emu_ptx, "store");
    api_address       a = 0;
    unsigned int      value = 5;
    struct {
        api_address  a;
        unsigned int value, more;
    } block;
    size_t bytes = 12;
    ok(cu->cuMemAlloc_v2(&a, 4));
    void *parameters[] = {&a, &value}, *nothing[] = {NULL, NULL};
    ok(cu->cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
    assert_int_equal(word_at(cu, a), 5);
    block.a = a;
    block.value = 6;
    void *extra[] = {emu_number(1), &block, emu_number(2), &bytes, NULL},
         *wrong[] = {emu_number(3), &block, NULL};
    ok(cu->cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));
    assert_int_equal(word_at(cu, a), 6);
    bytes = 16; /* more than the parameters have */
    answers(cu->cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra), 701);
    answers(cu->cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, wrong), 1);
    answers(cu->cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, extra), 1);
    answers(cu->cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), 1);
    answers(cu->cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, nothing, NULL), 1);
    answers(cu->cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL), 400);
    answers(cu->cuLaunchKernel((struct CUfunc_st *)&block, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL), 400);
    answers(cu->cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, (struct CUstream_st *)&block, parameters, NULL),
            400);
    free(cu);
}

/* A kernel that was compiled for clusters of two refuses other clusters, as recorded from an H200. */
TEST(test_required_cluster)
{
    static const char text[] = ".version 8.0\n.target sm_90\n.address_size 64\n"
                               ".visible .entry pairs() .explicitcluster .reqnctapercluster 2, 1, 1\n"
                               "{ ret; }\n";
    static const struct {
        unsigned int x, y, result;
    } cases[] = {{2, 1, 0}, {4, 1, 912}, {1, 1, 912}, {2, 2, 912}};
    struct emu_api   *cu = emu_api_context("", NULL);
    struct CUfunc_st *pairs = emu_function_named(cu, text, "pairs");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct CUlaunchAttribute_st cluster = {.id = 4};
        struct CUlaunchConfig_st    config = {.gridDimX = 8,
                                              .gridDimY = 2,
                                              .gridDimZ = 1,
                                              .blockDimX = 32,
                                              .blockDimY = 1,
                                              .blockDimZ = 1,
                                              .attrs = &cluster,
                                              .numAttrs = 1};
        cluster.value.clusterDim.x = cases[i].x;
        cluster.value.clusterDim.y = cases[i].y;
        cluster.value.clusterDim.z = 1;
        answers(cu->cuLaunchKernelEx(&config, pairs, NULL, NULL), cases[i].result);
    }
    ok(cu->cuLaunchKernel(pairs, 8, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
    answers(cu->cuLaunchKernel(pairs, 7, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), 912);
    ok(cu->cuCtxSynchronize());
    free(cu);
}

TEST(test_shapes)
{
    struct emu_api             *cu = emu_api_context("PTXPACK_EMU_SMS=2", NULL);
    struct CUfunc_st           *empty = emu_function_named(cu, emu_ptx, "empty");
    struct CUlaunchAttribute_st attribute_ = {.id = 0};
    struct CUlaunchConfig_st    config = {.gridDimX = 4,
                                          .gridDimY = 1,
                                          .gridDimZ = 1,
                                          .blockDimX = 32,
                                          .blockDimY = 1,
                                          .blockDimZ = 1,
                                          .attrs = &attribute_,
                                          .numAttrs = 1};
    static const struct {
        unsigned int id, result;
    } ids[] = {{0, 0},  {2, 0},  {3, 1},  {5, 0},  {6, 0},  {8, 0}, {9, 0},
               {10, 0}, {14, 0}, {15, 1}, {16, 0}, {17, 1}, {99, 1}};
    int    blocks = 0, size = 0, clusters = 0, grid = 0, block = 0;
    size_t shared = 0;
    answers(cu->cuLaunchKernel(empty, 0, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), 1);
    answers(cu->cuLaunchKernel(empty, 1, 65536, 1, 1, 1, 1, 0, NULL, NULL, NULL), 1);
    answers(cu->cuLaunchKernel(empty, 1, 1, 1, 1025, 1, 1, 0, NULL, NULL, NULL), 1);
    answers(cu->cuLaunchKernel(empty, 1, 1, 1, 1, 1, 65, 0, NULL, NULL, NULL), 1);
    answers(cu->cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 49153, NULL, NULL, NULL), 1);
    ok(cu->cuFuncSetAttribute(empty, 8, 100000));
    ok(cu->cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 100000, NULL, NULL, NULL));
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        attribute_.id = ids[i].id;
        attribute_.value.cooperative = ids[i].id == 2;
        answers(cu->cuLaunchKernelEx(&config, empty, NULL, NULL), ids[i].result);
    }
    attribute_.id = 4;
    attribute_.value.clusterDim.x = 2;
    attribute_.value.clusterDim.y = attribute_.value.clusterDim.z = 1;
    ok(cu->cuLaunchKernelEx(&config, empty, NULL, NULL));
    ok(cu->cuOccupancyMaxActiveClusters(&clusters, empty, &config));
    assert_true(clusters >= 1);
    attribute_.value.clusterDim.x = 3;
    answers(cu->cuLaunchKernelEx(&config, empty, NULL, NULL), 912);
    attribute_.value.clusterDim.x = config.gridDimX = 8; /* the most that every GPU with clusters has */
    ok(cu->cuLaunchKernelEx(&config, empty, NULL, NULL));
    ok(cu->cuOccupancyMaxActiveClusters(&clusters, empty, &config));
    attribute_.value.clusterDim.x = config.gridDimX = 9;
    answers(cu->cuLaunchKernelEx(&config, empty, NULL, NULL), 912);
    answers(cu->cuOccupancyMaxActiveClusters(&clusters, empty, &config), 912);
    attribute_.value.clusterDim.x = config.gridDimX = 16;
    answers(cu->cuLaunchKernelEx(&config, empty, NULL, NULL), 912);
    ok(cu->cuOccupancyMaxPotentialClusterSize(&size, empty, &config));
    assert_int_equal(size, 8);
    ok(cu->cuFuncSetAttribute(empty, 14, 1));
    ok(cu->cuLaunchKernelEx(&config, empty, NULL, NULL));
    ok(cu->cuOccupancyMaxPotentialClusterSize(&size, empty, &config));
    assert_int_equal(size, 16);
    attribute_.value.clusterDim.x = config.gridDimX = 17;
    answers(cu->cuLaunchKernelEx(&config, empty, NULL, NULL), 912);
    answers(cu->cuOccupancyMaxActiveClusters(&clusters, empty, &config), 912);
    attribute_.value.clusterDim.x = 0;
    answers(cu->cuLaunchKernelEx(&config, empty, NULL, NULL), 912);
    answers(cu->cuLaunchCooperativeKernel(empty, 1000000, 1, 1, 32, 1, 1, 0, NULL, NULL), 720);
    ok(cu->cuLaunchCooperativeKernel(empty, 2, 1, 1, 32, 1, 1, 0, NULL, NULL));
    ok(cu->cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, empty, 256, 0));
    assert_int_equal(blocks, 8); /* 2048 threads */
    ok(cu->cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, empty, 32, 100 << 10));
    assert_int_equal(blocks, 2); /* 228 KiB, 1 KiB of each block is reserved */
    ok(cu->cuOccupancyMaxPotentialBlockSize(&grid, &block, empty, NULL, 0, 0));
    assert_true(block == 1024 && grid == 4);
    ok(cu->cuOccupancyAvailableDynamicSMemPerBlock(&shared, empty, 2, 256));
    assert_int_equal(shared, 113 << 10);
    ok(cu->cuOccupancyAvailableDynamicSMemPerBlock(&shared, empty, 7, 256));
    assert_int_equal(shared, 32256); /* 228 KiB / 7 - 1 KiB = 32329, down to a multiple of 128 */
    free(cu);
}

/* A kernel that writes to an invalid address breaks its context, and nothing else. */
TEST(test_sticky)
{
    struct CUctx_st    *context = NULL;
    struct emu_api     *cu = emu_api_context("PTXPACK_EMU_LOG=/dev/null", &context);
    struct CUfunc_st   *store = emu_function_named(cu, emu_ptx, "store");
    struct CUstream_st *stream = NULL;
    api_address         nowhere = 0x100, a = 0;
    unsigned int        value = 5;
    int                 n = 0;
    void               *parameters[] = {&nowhere, &value};
    ok(cu->cuStreamCreate(&stream, 0));
    ok(cu->cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
    answers(cu->cuStreamSynchronize(stream), 700);
    answers(cu->cuMemAlloc_v2(&a, 16), 700);
    answers(cu->cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL), 700);
    answers(cu->cuCtxSynchronize(), 700);
    answers(cu->cuFuncGetAttribute(&n, 0, store), 700);
    answers(cu->cuStreamDestroy_v2(stream), 700);
    ok(cu->cuCtxGetDevice(&n));
    ok(cu->cuCtxDestroy_v2(context));
    ok(cu->cuCtxCreate_v2(&context, 0, 0));
    ok(cu->cuMemAlloc_v2(&a, 16));
    parameters[0] = &a;
    store = emu_function_named(cu, emu_ptx, "store");
    ok(cu->cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
    assert_int_equal(word_at(cu, a), 5);
    free(cu);
}

/* On request an error or a finding is that of its launch alone. */
TEST(test_errors_of_launches)
{
    struct emu_api   *cu = emu_api_context("PTXPACK_EMU_LOG=/dev/null PTXPACK_EMU_ERRORS=launch", NULL);
    struct CUfunc_st *store = emu_function_named(cu, emu_ptx, "store");
    struct CUfunc_st *race = emu_function_named(cu,
                                                ".version 7.0\n.target sm_80\n.address_size 64\n"
                                                ".visible .entry race() { .reg .b32 %r<2>; .shared .b32 s; "
                                                "mov.u32 %r1, %tid.x; st.shared.u32 [s], %r1; ret; }",
                                                "race");
    api_address       nowhere = 0x100, a = 0;
    unsigned int      value = 5;
    void             *wrong[] = {&nowhere, &value}, *right[] = {&a, &value};
    ok(cu->cuMemAlloc_v2(&a, 16));
    answers(cu->cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, wrong, NULL), 700);
    ok(cu->cuCtxSynchronize());
    answers(cu->cuLaunchKernel(race, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), 719);
    ok(cu->cuCtxSynchronize());
    ok(cu->cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, right, NULL));
    assert_int_equal(word_at(cu, a), 5);
    free(cu);
}

static void note_call(void *data) { ++*(int *)data; }

TEST(test_events)
{
    struct emu_api     *cu = emu_api_context("", NULL);
    struct CUfunc_st   *empty = emu_function_named(cu, emu_ptx, "empty");
    struct CUstream_st *stream = NULL;
    struct CUevent_st  *from = NULL, *to = NULL, *untimed = NULL;
    float               milliseconds = -1;
    int                 calls = 0;
    answers(cu->cuStreamCreate(&stream, 9), 1);
    ok(cu->cuStreamCreateWithPriority(&stream, 1, -99));
    ok(cu->cuStreamGetPriority(stream, &calls));
    assert_int_equal(calls, -5);
    calls = 0;
    ok(cu->cuEventCreate(&from, 0));
    ok(cu->cuEventCreate(&to, 0));
    ok(cu->cuEventCreate(&untimed, 2));
    answers(cu->cuEventCreate(&untimed, 99), 1);
    answers(cu->cuEventElapsedTime(&milliseconds, from, to), 400);
    ok(cu->cuEventQuery(from));
    ok(cu->cuEventRecord(from, stream));
    for (int i = 0; i < 20; i++)
        ok(cu->cuLaunchKernel(empty, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
    ok(cu->cuLaunchHostFunc(stream, note_call, &calls));
    answers(cu->cuLaunchHostFunc(stream, NULL, NULL), 1);
    ok(cu->cuEventRecord(to, stream));
    ok(cu->cuEventRecord(untimed, stream));
    ok(cu->cuEventSynchronize(to));
    assert_int_equal(calls, 1);
    ok(cu->cuEventElapsedTime(&milliseconds, from, to));
    assert_true(milliseconds > 0 && milliseconds < 60000);
    answers(cu->cuEventElapsedTime(&milliseconds, from, untimed), 400);
    ok(cu->cuStreamWaitEvent(NULL, to, 0));
    answers(cu->cuStreamDestroy_v2(NULL), 400);
    ok(cu->cuStreamDestroy_v2(stream));
    answers(cu->cuStreamQuery(stream), 400);
    ok(cu->cuEventDestroy_v2(to));
    answers(cu->cuEventQuery(to), 400);
    free(cu);
}

TEST(test_tensor_map)
{
    struct emu_api       *cu = emu_api_context("", NULL);
    struct CUtensorMap_st map;
    api_address           a = 0;
    const uint64_t        dims[] = {64, 32}, strides[] = {128};
    const uint32_t        box[] = {64, 8}, steps[] = {1, 1};
    ok(cu->cuMemAlloc_v2(&a, 4096));
    void *at = emu_number((size_t)a);
    ok(cu->cuTensorMapEncodeTiled(&map, 6, 2, at, dims, strides, box, steps, 0, 3, 0, 0));
    ok(cu->cuTensorMapReplaceAddress(&map, emu_number((size_t)a + 1024)));
    answers(cu->cuTensorMapReplaceAddress(&map, emu_number((size_t)a + 8)), 1);
    answers(cu->cuTensorMapEncodeTiled(&map, 6, 6, at, dims, strides, box, steps, 0, 3, 0, 0), 1);
    answers(cu->cuTensorMapEncodeTiled(&map, 6, 2, at, NULL, strides, box, steps, 0, 3, 0, 0), 1);
    answers(cu->cuTensorMapEncodeIm2col(&map, 6, 4, at, dims, strides, NULL, NULL, 1, 1, steps, 0, 0, 0, 0),
            801);
    free(cu);
}

/* ---- processes and threads ----------------------------------------------------------------------------- */
TEST(test_fork)
{
    struct emu_api *cu = emu_api_context("", NULL);
    api_address     a = 0;
    int             n = 0, status = 0;
    pid_t           child = fork();
    if (child == 0)
        _exit(cu->cuInit(0) == 3 && cu->cuCtxSynchronize() == 3 && cu->cuMemAlloc_v2(&a, 16) == 3 &&
                      cu->cuDeviceGetCount(&n) == 3 && cu->cuDriverGetVersion(&n) == 0
                  ? 0
                  : 1);
    assert_true(waitpid(child, &status, 0) == child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ok(cu->cuCtxSynchronize());
    free(cu);
}

enum { WORKERS = 6, TURNS = 40 };
struct worker {
    struct emu_api  *cu;
    struct CUctx_st *context;
    int              number, failed;
};

static int turn(struct worker *w, int i)
{
    struct emu_api     *cu = w->cu;
    struct CUmod_st    *module = NULL;
    struct CUfunc_st   *add = NULL;
    struct CUstream_st *stream = NULL;
    api_address         a = 0;
    unsigned int        words[64], back[64];
    void               *parameters[] = {&a};
    for (unsigned int k = 0; k < 64; k++)
        words[k] = (unsigned int)(w->number * 1000 + i) + k;
    if (cu->cuStreamCreate(&stream, 1) || cu->cuMemAlloc_v2(&a, sizeof words) ||
        cu->cuModuleLoadData(&module, emu_ptx) || cu->cuModuleGetFunction(&add, module, "add") ||
        cu->cuMemcpyHtoDAsync_v2(a, words, sizeof words, stream) ||
        cu->cuLaunchKernel(add, 2, 1, 1, 32, 1, 1, 0, stream, parameters, NULL) ||
        cu->cuMemcpyDtoHAsync_v2(back, a, sizeof back, stream) || cu->cuStreamSynchronize(stream))
        return 1;
    for (unsigned int k = 0; k < 64; k++)
        if (back[k] != words[k] + 1)
            return 2;
    return cu->cuMemFree_v2(a) || cu->cuModuleUnload(module) || cu->cuStreamDestroy_v2(stream) ? 3 : 0;
}

static void *work(void *data)
{
    struct worker *w = (struct worker *)data;
    w->failed = w->cu->cuCtxSetCurrent(w->context) ? 4 : 0;
    for (int i = 0; i < TURNS && !w->failed; i++)
        w->failed = turn(w, i);
    return NULL;
}

TEST(test_threads)
{
    struct CUctx_st *context = NULL;
    struct emu_api  *cu = emu_api_context("PTXPACK_EMU_THREADS=2", &context);
    struct worker    workers[WORKERS];
    pthread_t        threads[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){.cu = cu, .context = context, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < WORKERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(workers[i].failed, 0);
    }
    free(cu);
}

RUN_TESTS(emu_folder_make, emu_folder_remove)
