/* contexts.c - the emulated driver as its clients see it: contexts, memory and copies.  The answers in unusual
 * cases were recorded from an H200 (driver 580). */
#include "api_fixture.h"
#define BEFORE_EACH NULL
#define AFTER_EACH  NULL

/* ---- contexts ------------------------------------------------------------------------------------------ */
TEST(test_contexts)
{
    struct emu_api  *cu = emu_api("");
    struct CUctx_st *primary = NULL, *again = NULL, *first = NULL, *second = NULL, *current = NULL;
    unsigned int     flags = 9;
    int              active = 9, device = 9;
    answers(cu->cuCtxSynchronize(), 201);
    answers(cu->cuCtxPopCurrent_v2(&current), 201);
    ok(cu->cuDevicePrimaryCtxRetain(&primary, 0));
    ok(cu->cuDevicePrimaryCtxRetain(&again, 0));
    assert_ptr_equal(primary, again);
    answers(cu->cuCtxDestroy_v2(primary), 201);
    ok(cu->cuCtxCreate_v2(&first, 0, 0));
    ok(cu->cuCtxCreate_v4(&second, NULL, 4, 0));
    ok(cu->cuCtxGetFlags(&flags));
    assert_int_equal(flags, 4);
    ok(cu->cuCtxGetCurrent(&current));
    assert_ptr_equal(current, second);
    ok(cu->cuCtxPushCurrent_v2(primary));
    ok(cu->cuCtxGetDevice(&device));
    assert_int_equal(device, 0);
    ok(cu->cuCtxPopCurrent_v2(&current));
    assert_ptr_equal(current, primary);
    ok(cu->cuCtxDestroy_v2(second));
    ok(cu->cuCtxGetCurrent(&current));
    assert_ptr_equal(current, first);
    answers(cu->cuCtxDestroy_v2(second), 201);
    answers(cu->cuCtxSetCurrent(second), 201);
    answers(cu->cuCtxPushCurrent_v2((struct CUctx_st *)&flags), 201);
    ok(cu->cuCtxSetCurrent(primary));
    ok(cu->cuDevicePrimaryCtxRelease_v2(0));
    ok(cu->cuCtxSynchronize());
    ok(cu->cuDevicePrimaryCtxRelease_v2(0));
    answers(cu->cuCtxSynchronize(), 709);
    ok(cu->cuDevicePrimaryCtxGetState(0, &flags, &active));
    assert_int_equal(active, 0);
    ok(cu->cuCtxSetCurrent(NULL));
    answers(cu->cuCtxSynchronize(), 201);
    free(cu);
}

TEST(test_context_owns)
{
    struct CUctx_st    *context = NULL;
    struct CUstream_st *stream = NULL;
    struct CUevent_st  *event = NULL;
    struct CUmod_st    *module = NULL;
    struct CUfunc_st   *function = NULL;
    api_address         address = 0;
    size_t              before = 0, after = 0, total = 0;
    struct emu_api     *cu = emu_api_context("PTXPACK_EMU_MEMORY=64M", NULL);
    ok(cu->cuMemGetInfo_v2(&before, &total));
    for (int i = 0; i < 20; i++) { /* 20 times the memory, if it were not freed */
        ok(cu->cuCtxCreate_v2(&context, 0, 0));
        ok(cu->cuMemAlloc_v2(&address, 40 << 20));
        ok(cu->cuStreamCreate(&stream, 0));
        ok(cu->cuEventCreate(&event, 0));
        ok(cu->cuModuleLoadData(&module, emu_ptx));
        ok(cu->cuModuleGetFunction(&function, module, "empty"));
        ok(cu->cuCtxDestroy_v2(context));
    }
    answers(cu->cuMemFree_v2(address), 1);
    answers(cu->cuStreamDestroy_v2(stream), 400);
    answers(cu->cuEventDestroy_v2(event), 400);
    answers(cu->cuModuleUnload(module), 400);
    answers(cu->cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), 400);
    ok(cu->cuMemGetInfo_v2(&after, &total));
    assert_int_equal(before, after);
    free(cu);
}

TEST(test_limits)
{
    struct emu_api *cu = emu_api_context("", NULL);
    size_t          value = 0;
    unsigned int    config = 9;
    int             least = 9, greatest = 9;
    ok(cu->cuCtxSetLimit(0, 4096));
    ok(cu->cuCtxGetLimit(&value, 0));
    assert_int_equal(value, 4096);
    answers(cu->cuCtxSetLimit(99, 1), 1);
    answers(cu->cuCtxSetLimit(3, 1), 215);
    ok(cu->cuCtxSetCacheConfig(2));
    ok(cu->cuCtxGetCacheConfig(&config));
    assert_int_equal(config, 2);
    answers(cu->cuCtxSetCacheConfig(4), 1);
    ok(cu->cuCtxGetStreamPriorityRange(&least, &greatest));
    assert_int_equal(least, 0);
    assert_int_equal(greatest, -5);
    free(cu);
}

/* ---- memory -------------------------------------------------------------------------------------------- */
TEST(test_memory)
{
    struct CUctx_st *context = NULL, *owner = NULL;
    struct emu_api  *cu = emu_api_context("PTXPACK_EMU_MEMORY=64M", &context);
    api_address      a = 0, b = 0, base = 0;
    size_t           bytes = 0, pitch = 0;
    unsigned int     type = 0;
    void            *host = NULL;
    char             plain[16];
    answers(cu->cuMemAlloc_v2(&a, 0), 1);
    answers(cu->cuMemAlloc_v2(NULL, 1), 1);
    answers(cu->cuMemAlloc_v2(&a, (size_t)1 << 50), 2);
    answers(cu->cuMemAlloc_v2(&a, 65 << 20), 2);
    ok(cu->cuMemAlloc_v2(&a, 1000));
    ok(cu->cuMemAlloc_v2(&b, 1));
    assert_int_equal(a % 256, 0);
    ok(cu->cuMemGetAddressRange_v2(&base, &bytes, a + 999));
    assert_true(base == a && bytes == 1000);
    answers(cu->cuMemGetAddressRange_v2(&base, &bytes, a + 1000), 500);
    answers(cu->cuMemFree_v2(a + 16), 1);
    answers(cu->cuMemFree_v2(12345), 1);
    ok(cu->cuPointerGetAttribute(&owner, 1, a + 7));
    assert_ptr_equal(owner, context);
    ok(cu->cuPointerGetAttribute(&type, 2, a));
    assert_int_equal(type, 2);
    answers(cu->cuPointerGetAttribute(&type, 2, (uintptr_t)plain), 1);
    ok(cu->cuMemFree_v2(a));
    answers(cu->cuMemFree_v2(a), 1);
    ok(cu->cuMemFree_v2(0));
    ok(cu->cuMemAllocPitch_v2(&a, &pitch, 100, 10, 4));
    assert_int_equal(pitch, 512);
    answers(cu->cuMemAllocPitch_v2(&a, &pitch, 100, 10, 3), 1);
    ok(cu->cuMemHostAlloc(&host, 100, 2));
    ok(cu->cuMemHostGetDevicePointer_v2(&base, host, 0));
    assert_true(base == (uintptr_t)host);
    answers(cu->cuMemHostGetDevicePointer_v2(&base, plain, 0), 1);
    ok(cu->cuPointerGetAttribute(&type, 2, (uintptr_t)host));
    assert_int_equal(type, 1);
    answers(cu->cuMemFree_v2((uintptr_t)host), 1);
    answers(cu->cuMemFreeHost(plain), 1);
    ok(cu->cuMemFreeHost(host));
    ok(cu->cuMemAllocManaged(&a, 64, 1));
    ((char *)(uintptr_t)a)[63] = 1;
    void *parameters[] = {&a};
    ok(cu->cuLaunchKernel(emu_function_named(cu, emu_ptx, "add"), 1, 1, 1, 16, 1, 1, 0, NULL, parameters,
                          NULL)); /* what the host has written counts as written */
    ok(cu->cuCtxSynchronize());
    assert_int_equal(*(unsigned int *)(uintptr_t)a, 1);
    ok(cu->cuMemFree_v2(a));
    ok(cu->cuMemAllocAsync(&a, 64, NULL));
    ok(cu->cuMemFreeAsync(a, NULL));
    free(cu);
}

TEST(test_copies)
{
    struct emu_api *cu = emu_api_context("", NULL);
    unsigned char   host[4096], back[4096];
    api_address     a = 0, b = 0;
    for (size_t i = 0; i < sizeof host; i++)
        host[i] = (unsigned char)(i * 7 + i / 256);
    ok(cu->cuMemAlloc_v2(&a, 4000));
    ok(cu->cuMemAlloc_v2(&b, 4000));
    ok(cu->cuMemcpyHtoD_v2(a, host, 4000));
    ok(cu->cuMemcpyDtoD_v2(b, a, 4000));
    ok(cu->cuMemcpyDtoH_v2(back, b, 4000));
    assert_memory_equal(host, back, 4000);
    answers(cu->cuMemcpyHtoD_v2(a, host, 4001), 1);
    answers(cu->cuMemcpyHtoD_v2(a + 3999, host, 2), 1);
    answers(cu->cuMemcpyHtoD_v2(a, NULL, 16), 1);
    answers(cu->cuMemcpyHtoD_v2((uintptr_t)back, host, 16), 1);
    answers(cu->cuMemcpyDtoH_v2(back, 12345, 16), 1);
    answers(cu->cuMemcpyDtoH_v2(back, a, SIZE_MAX), 1);
    answers(cu->cuMemcpyDtoD_v2(a, b + 4000, 16), 1);
    answers(cu->cuMemcpy((uintptr_t)back, a + 4096, 16), 1); /* beyond it: this is not host memory either */
    ok(cu->cuMemcpy((uintptr_t)back, a + 8, 16));
    assert_memory_equal(host + 8, back, 16);
    ok(cu->cuMemcpyHtoD_v2(a, host, 0));
    ok(cu->cuMemsetD32_v2(a, 0x01020304, 5));
    ok(cu->cuMemsetD16_v2(a + 20, 0x0506, 1));
    ok(cu->cuMemsetD8_v2(a + 22, 7, 2));
    ok(cu->cuMemcpyDtoH_v2(back, a, 26));
    assert_memory_equal(back, "\4\3\2\1\4\3\2\1\4\3\2\1\4\3\2\1\4\3\2\1\6\5\7\7", 24);
    assert_int_equal(back[24], host[24]);
    answers(cu->cuMemsetD32_v2(a + 2, 0, 1), 1);
    answers(cu->cuMemsetD32_v2(a, 0, 1001), 1);
    answers(cu->cuMemsetD32_v2(a, 0, SIZE_MAX / 2), 1);
    answers(cu->cuMemsetD8_v2((uintptr_t)back, 0, 16), 1);
    ok(cu->cuMemsetD2D8_v2(a, 16, 9, 3, 250));
    answers(cu->cuMemsetD2D8_v2(a, 16, 9, 3, 251), 1);
    answers(cu->cuMemsetD2D8_v2(a, 2, 9, 3, 2), 1);
    ok(cu->cuMemcpyDtoH_v2(back, a, 4000));
    for (size_t i = 16; i < 4000; i++)
        if (i % 16 < 3)
            assert_int_equal(back[i], 9);
        else if (i > 24)
            assert_int_equal(back[i], host[i]);
    free(cu);
}

/* 2D and 3D copies are compared with plain loops. */
TEST(test_boxes)
{
    struct emu_api *cu = emu_api_context("", NULL);
    unsigned char   host[2048], back[2048], want[2048];
    api_address     a = 0;
    for (size_t i = 0; i < sizeof host; i++)
        host[i] = (unsigned char)(i * 11 + i / 128);
    ok(cu->cuMemAlloc_v2(&a, 2048));
    ok(cu->cuMemsetD8_v2(a, 0, 2048));
    struct CUDA_MEMCPY2D_st flat = {.srcMemoryType = 1,
                                    .srcHost = host,
                                    .srcPitch = 100,
                                    .srcXInBytes = 5,
                                    .srcY = 2,
                                    .dstMemoryType = 2,
                                    .dstDevice = a,
                                    .dstPitch = 64,
                                    .dstXInBytes = 3,
                                    .dstY = 1,
                                    .WidthInBytes = 50,
                                    .Height = 10};
    ok(cu->cuMemcpy2D_v2(&flat));
    struct CUDA_MEMCPY3D_st box = {.srcMemoryType = 4,
                                   .srcDevice = a,
                                   .srcPitch = 32,
                                   .srcHeight = 8,
                                   .srcZ = 1,
                                   .srcXInBytes = 4,
                                   .dstMemoryType = 1,
                                   .dstHost = back,
                                   .dstPitch = 20,
                                   .dstHeight = 7,
                                   .dstY = 1,
                                   .WidthInBytes = 16,
                                   .Height = 6,
                                   .Depth = 4};
    memset(want, 0, sizeof want);
    for (size_t y = 0; y < 10; y++)
        memcpy(want + (y + 1) * 64 + 3, host + (y + 2) * 100 + 5, 50);
    ok(cu->cuMemcpyDtoH_v2(back, a, 2048));
    assert_memory_equal(back, want, 2048);
    memset(back, 0x55, sizeof back);
    ok(cu->cuMemcpy3D_v2(&box));
    for (size_t z = 0; z < 4; z++)
        for (size_t y = 0; y < 6; y++)
            assert_memory_equal(back + z * 140 + (y + 1) * 20, want + (z + 1) * 256 + y * 32 + 4, 16);
    assert_int_equal(back[0], 0x55);
    flat.dstPitch = 40;
    answers(cu->cuMemcpy2D_v2(&flat), 1);
    flat.dstPitch = 64;
    flat.Height = 32;
    answers(cu->cuMemcpy2D_v2(&flat), 1); /* the last row ends beyond the buffer */
    flat.Height = SIZE_MAX / 4;
    answers(cu->cuMemcpy2D_v2(&flat), 1);
    flat.Height = 1;
    flat.dstMemoryType = 9;
    answers(cu->cuMemcpy2D_v2(&flat), 1);
    box.srcZ = SIZE_MAX / 8;
    answers(cu->cuMemcpy3D_v2(&box), 1);
    free(cu);
}

RUN_TESTS(emu_folder_make, emu_folder_remove)
