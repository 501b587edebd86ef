/* registered.c - the emulated CUDA runtime without nvcc: this program registers a recorded fat binary as the host code
 * of nvcc does, launches its kernel, and takes it back. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/emu/driver/processes_fixture.h"
#include "tools/emu/runtime/runtime.h"
#define BEFORE_EACH           NULL
#define AFTER_EACH            NULL
#define ok(call)              assert_int_equal(call, 0)
#define answers(call, result) assert_int_equal(call, result)

/* The calls, by the names of their declarations. */
static struct {
#define RUNTIME(name, parameters) runtime_result(*name) parameters;
#include "tools/emu/runtime/runtime.def"
#undef RUNTIME
    void **(*register_binary)(void *image);
    void (*unregister_binary)(void **handle);
    void (*register_function)(void **handle, const char *host, char *device, const char *name, int threads,
                              void *tid, void *bid, void *block, void *grid, int *warp);
    void (*register_variable)(void **handle, char *host, char *device, const char *name, int external,
                              size_t bytes, int constant, int global);
    void (*register_managed)(void **handle, void **host, char *device, const char *name, int external,
                             size_t bytes, int constant, int global);
    char (*init_module)(void **handle);
    const char *(*name_of)(runtime_result error);
    const char *(*text_of)(runtime_result error);
} cuda;

static void symbol(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    if (found == NULL)
        fail_msg("%s is not exported", name);
    memcpy(function, &found, sizeof found);
}

static int load_runtime(void **state)
{
    char    path[600];
    ssize_t n = readlink("/proc/self/exe", path, 500);
    (void)state;
    assert_true(n > 0);
    path[n] = '\0';
    *strrchr(path, '/') = '\0';
    strcpy(strrchr(path, '/'), "/emulated/libcudart.so.13");
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        fail_msg("%s", dlerror());
#define RUNTIME(name, parameters) symbol(library, #name, &cuda.name);
#include "tools/emu/runtime/runtime.def"
#undef RUNTIME
    symbol(library, "__cudaRegisterFatBinary", &cuda.register_binary);
    symbol(library, "__cudaUnregisterFatBinary", &cuda.unregister_binary);
    symbol(library, "__cudaRegisterFunction", &cuda.register_function);
    symbol(library, "__cudaRegisterVar", &cuda.register_variable);
    symbol(library, "__cudaRegisterManagedVar", &cuda.register_managed);
    symbol(library, "__cudaInitModule", &cuda.init_module);
    symbol(library, "cudaGetErrorName", &cuda.name_of);
    symbol(library, "cudaGetErrorString", &cuda.text_of);
    assert_null(dlsym(library, "runtime_kernel")); /* only the runtime's own names */
    return 0;
}

/* ---- what nvcc's host code has ------------------------------------------------------------------------- */
static unsigned char image[8192];
static struct {
    unsigned int magic, version;
    const void  *container, *unused;
} wrapper = {0x466243b1, 1, image, NULL};
static const char stub[1] = "", other_stub[1] = ""; /* their addresses stand for kernels */
static char       shadow[4];

static void **register_add(void)
{
    FILE *f = fopen("tests/data/emu_fatbin_lz4.bin", "rb");
    assert_non_null(f);
    assert_true(fread(image, 1, sizeof image, f) > 1000);
    fclose(f);
    void **handle = cuda.register_binary(&wrapper);
    cuda.register_function(handle, stub, NULL, "add", -1, NULL, NULL, NULL, NULL, NULL);
    cuda.register_variable(handle, shadow, NULL, "absent", 0, 4, 0, 0);
    return handle;
}

/* ---- memory and events of another process -------------------------------------------------------------- */
static void hand_out(void)
{
    struct CUipcMemHandle_st   memory;
    struct CUipcEventHandle_st named;
    struct CUevent_st         *event = NULL;
    void                      *at = NULL;
    ok(cuda.cudaMalloc(&at, 64));
    ok(cuda.cudaMemset(at, 5, 64));
    ok(cuda.cudaEventCreateWithFlags(&event, 2 | 4)); /* no timing, interprocess */
    ok(cuda.cudaIpcGetMemHandle(&memory, at));
    ok(cuda.cudaIpcGetEventHandle(&named, event));
    answers(cuda.cudaIpcOpenMemHandle(&at, memory, 1), 201); /* its own */
    ok(cuda.cudaEventRecord(event, NULL));
    say(memory);
    say(named);
    meet();
}

static void take_in(void)
{
    struct CUipcMemHandle_st   memory;
    struct CUipcEventHandle_st named;
    struct CUevent_st         *event = NULL;
    void                      *at = NULL;
    char                       bytes[64];
    hear(memory);
    hear(named);
    answers(cuda.cudaIpcOpenMemHandle(NULL, memory, 1), 1);
    ok(cuda.cudaIpcOpenMemHandle(&at, memory, 1));
    ok(cuda.cudaIpcOpenEventHandle(&event, named));
    ok(cuda.cudaEventSynchronize(event));
    ok(cuda.cudaMemcpy(bytes, at, sizeof bytes, 2));
    assert_int_equal(bytes[63], 5);
    ok(cuda.cudaIpcCloseMemHandle(at));
    answers(cuda.cudaIpcCloseMemHandle(at), 1);
    ok(cuda.cudaEventDestroy(event));
    meet();
}

/* First of all, so that these processes begin before the driver is initialised. */
TEST(test_processes) { two_processes(hand_out, take_in, 0); }

TEST(test_launch)
{
    enum { N = 100 };
    void                    **handle = register_add();
    float                     a[N], c[N];
    void                     *at[2] = {NULL, NULL}, *got = NULL;
    int                       n = N;
    void                     *arguments[] = {&at[0], &at[0], &at[1], &n};
    const struct runtime_dim3 grid = {2, 1, 1}, block = {64, 1, 1};
    struct runtime_dim3       grid_back, block_back;
    size_t                    shared = 9;
    struct CUkern_st         *kernel = NULL;
    for (int i = 0; i < N; i++)
        a[i] = (float)i;
    for (int i = 0; i < 2; i++)
        ok(cuda.cudaMalloc(&at[i], sizeof a));
    ok(cuda.cudaMemcpy(at[0], a, sizeof a, 1));
    ok(cuda.__cudaPushCallConfiguration(grid, block, 16, NULL));
    ok(cuda.__cudaPopCallConfiguration(&grid_back, &block_back, &shared, &got));
    assert_true(grid_back.x == 2 && block_back.x == 64 && shared == 16 && got == NULL);
    answers(cuda.__cudaPopCallConfiguration(&grid_back, &block_back, &shared, &got), 52);
    answers(cuda.cudaGetLastError(), 52);
    ok(cuda.__cudaGetKernel(&kernel, stub));
    ok(cuda.__cudaLaunchKernel(kernel, grid, block, arguments, 0, NULL));
    ok(cuda.cudaMemcpy(c, at[1], sizeof c, 2));
    for (int i = 0; i < N; i++)
        assert_true(c[i] == (float)(2 * i));
    ok(cuda.cudaMemset(at[1], 0, sizeof c));
    ok(cuda.cudaLaunchKernel(stub, grid, block, arguments, 0, NULL)); /* by the stub, and by the kernel */
    ok(cuda.cudaLaunchKernel(kernel, grid, block, arguments, 0, NULL));
    ok(cuda.cudaMemcpy(c, at[1], sizeof c, 2));
    assert_true(c[N - 1] == (float)(2 * N - 2));
    for (int i = 0; i < 2; i++)
        ok(cuda.cudaFree(at[i]));
    cuda.unregister_binary(handle);
    answers(cuda.__cudaGetKernel(&kernel, stub), 98);
    answers(cuda.cudaGetLastError(), 98);
}

TEST(test_refusals)
{
    void                    **handle = register_add();
    const struct runtime_dim3 one = {1, 1, 1}, none = {1, 0, 1}, many = {32, 33, 1};
    void                     *at = NULL, *arguments[] = {&at, &at, &at, &at};
    size_t                    bytes = 0;
    int                       value = 0;
    answers(cuda.cudaLaunchKernel(other_stub, one, one, arguments, 0, NULL), 98);
    answers(cuda.cudaLaunchKernel(stub, one, none, arguments, 0, NULL), 9);
    answers(cuda.cudaLaunchKernel(stub, one, many, arguments, 0, NULL), 9);
    answers(cuda.cudaPeekAtLastError(), 9);
    answers(cuda.cudaGetLastError(), 9);
    ok(cuda.cudaGetLastError());
    answers(cuda.cudaGetSymbolSize(&bytes, shadow), 500); /* registered, but not in the PTX */
    answers(cuda.cudaGetSymbolAddress(&at, stub), 13);    /* a kernel is no variable */
    answers(cuda.cudaMemcpy(&value, &value, 4, 5), 21);
    answers(cuda.cudaMalloc(NULL, 4), 1);
    ok(cuda.cudaMalloc(&at, 0));
    assert_null(at);
    ok(cuda.cudaFree(NULL));
    answers(cuda.cudaSetDevice(1), 101);
    ok(cuda.cudaSetDevice(0));
    ok(cuda.cudaRuntimeGetVersion(&value));
    assert_int_equal(value, 13000);
    assert_true(cuda.init_module(handle));
    cuda.register_managed(handle, &at, NULL, "absent", 0, 4, 0, 0);
    assert_false(cuda.init_module(handle));
    assert_null(at);
    assert_string_equal(cuda.name_of(0), "cudaSuccess");
    assert_string_equal(cuda.name_of(209), "cudaErrorNoKernelImageForDevice");
    assert_string_equal(cuda.name_of(12345), "unrecognized error code");
    assert_string_equal(cuda.text_of(98), "no such kernel");
    assert_string_equal(cuda.text_of(209), "there is no code in the image that runs on this device");
    assert_string_equal(cuda.text_of(12345), "unrecognized error code");
    cuda.unregister_binary(handle);
}

TEST(test_queries)
{
    struct cudaPointerAttributes a;
    struct CUstream_st          *stream = NULL;
    char                         bus[32] = "";
    int                          local = 0, device = 7, priority = 9;
    unsigned int                 flags = 9;
    size_t                       stack = 0;
    void                        *at = NULL;
    ok(cuda.cudaPointerGetAttributes(&a, &local));
    assert_true(a.type == 0 && a.device == -2 && a.on_device == NULL && a.on_host == &local);
    ok(cuda.cudaMalloc(&at, 64));
    ok(cuda.cudaPointerGetAttributes(&a, at));
    assert_true(a.type == 2 && a.device == 0 && a.on_device == at && a.on_host == NULL);
    ok(cuda.cudaFree(at));
    ok(cuda.cudaMallocManaged(&at, 64, 1));
    ok(cuda.cudaPointerGetAttributes(&a, at));
    assert_true(a.type == 3 && a.on_device == at && a.on_host == at);
    ok(cuda.cudaFree(at));
    ok(cuda.cudaHostAlloc(&at, 64, 2)); /* mapped */
    ok(cuda.cudaPointerGetAttributes(&a, at));
    assert_true(a.type == 1 && a.on_host == at);
    ok(cuda.cudaFreeHost(at));
    answers(cuda.cudaPointerGetAttributes(NULL, at), 1);
    ok(cuda.cudaDeviceGetPCIBusId(bus, sizeof bus, 0));
    ok(cuda.cudaDeviceGetByPCIBusId(&device, bus));
    assert_int_equal(device, 0);
    ok(cuda.cudaDeviceSetLimit(0, 2048));
    ok(cuda.cudaDeviceGetLimit(&stack, 0));
    assert_int_equal(stack, 2048);
    ok(cuda.cudaStreamCreateWithPriority(&stream, 1, 0));
    ok(cuda.cudaStreamGetFlags(stream, &flags));
    ok(cuda.cudaStreamGetPriority(stream, &priority));
    assert_true(flags == 1 && priority == 0);
    ok(cuda.cudaStreamDestroy(stream));
    ok(cuda.cudaProfilerStart());
    ok(cuda.cudaProfilerStop());
}

RUN_TESTS(load_runtime, NULL)
