/* peers.c - several emulated devices: what tells them apart, their memory, and access to each other's. */
#include "api_fixture.h"
#define BEFORE_EACH NULL
#define AFTER_EACH  NULL

enum { DEVICES = 3 };

/* The primary contexts of the devices; that of device 0 is current. */
static struct emu_api *machine(const char *more, struct CUctx_st *contexts[DEVICES])
{
    char words[256];
    snprintf(words, sizeof words, "PTXPACK_EMU_DEVICES=%d PTXPACK_EMU_MEMORY=64M %s", (int)DEVICES, more);
    struct emu_api *cu = emu_api(words);
    for (int i = 0; i < DEVICES; i++)
        ok(cu->cuDevicePrimaryCtxRetain(&contexts[i], i));
    ok(cu->cuCtxSetCurrent(contexts[0]));
    return cu;
}

static api_address memory_of(struct emu_api *cu, struct CUctx_st *context, size_t bytes)
{
    api_address address = 0;
    ok(cu->cuCtxPushCurrent_v2(context));
    ok(cu->cuMemAlloc_v2(&address, bytes));
    ok(cu->cuCtxPopCurrent_v2(&context));
    return address;
}

TEST(test_devices_differ)
{
    struct CUctx_st *contexts[DEVICES];
    struct emu_api  *cu = machine("", contexts);
    struct CUuuid_st uuid[DEVICES];
    char             bus[DEVICES][32];
    size_t           free_bytes = 0, total = 0, before = 0;
    for (int i = 0; i < DEVICES; i++) {
        ok(cu->cuDeviceGetUuid(&uuid[i], i));
        ok(cu->cuDeviceGetPCIBusId(bus[i], sizeof bus[i], i));
        for (int k = 0; k < i; k++) {
            assert_memory_not_equal(&uuid[i], &uuid[k], sizeof uuid[i]);
            assert_string_not_equal(bus[i], bus[k]);
            assert_ptr_not_equal(contexts[i], contexts[k]);
        }
    }
    ok(cu->cuMemGetInfo_v2(&before, &total));
    memory_of(cu, contexts[1], 48 << 20);
    memory_of(cu, contexts[2], 48 << 20);
    ok(cu->cuMemGetInfo_v2(&free_bytes, &total));
    assert_int_equal(free_bytes, before); /* each device has its own 64 MiB */
    free(cu);
}

TEST(test_memory_has_a_device)
{
    struct CUctx_st *contexts[DEVICES], *owner = NULL;
    struct emu_api  *cu = machine("", contexts);
    for (int i = 0; i < DEVICES; i++) {
        int          ordinal = -1;
        unsigned int named = 9, type = 0;
        api_address  at = memory_of(cu, contexts[i], 4096);
        ok(cu->cuPointerGetAttribute(&ordinal, 9, at + 100));
        assert_int_equal(ordinal, i);
        unsigned int asked[2] = {9, 2};
        void        *values[2] = {&named, &type};
        ok(cu->cuPointerGetAttributes(2, asked, values, at));
        assert_int_equal(named, i);
        assert_int_equal(type, 2);
        ok(cu->cuPointerGetAttribute(&owner, 1, at));
        assert_ptr_equal(owner, contexts[i]);
    }
    free(cu);
}

TEST(test_access_is_asked_for)
{
    struct CUctx_st *contexts[DEVICES], *other = NULL;
    struct emu_api  *cu = machine("", contexts);
    int              n = 9;
    ok(cu->cuDeviceCanAccessPeer(&n, 0, 2));
    assert_int_equal(n, 1);
    ok(cu->cuDeviceCanAccessPeer(&n, 1, 1));
    assert_int_equal(n, 0);
    answers(cu->cuDeviceCanAccessPeer(&n, 0, DEVICES), 101);
    for (unsigned int attribute = 1; attribute <= 5; attribute++) {
        ok(cu->cuDeviceGetP2PAttribute(&n, attribute, 0, 1));
        assert_int_equal(n, attribute == 2 || attribute == 3);
    }
    answers(cu->cuDeviceGetP2PAttribute(&n, 6, 0, 1), 1);
    answers(cu->cuDeviceGetP2PAttribute(NULL, 2, 0, 1), 1);
    answers(cu->cuDeviceGetP2PAttribute(&n, 2, 1, 1), 101);
    answers(cu->cuCtxEnablePeerAccess(contexts[1], 1), 1);
    answers(cu->cuCtxEnablePeerAccess(contexts[0], 0), 201);
    answers(cu->cuCtxEnablePeerAccess((struct CUctx_st *)&n, 0), 201);
    answers(cu->cuCtxDisablePeerAccess(contexts[1]), 705);
    ok(cu->cuCtxEnablePeerAccess(contexts[1], 0));
    answers(cu->cuCtxEnablePeerAccess(contexts[1], 0), 704);
    ok(cu->cuCtxDisablePeerAccess(contexts[1]));
    answers(cu->cuCtxDisablePeerAccess(contexts[1]), 705);
    ok(cu->cuCtxEnablePeerAccess(contexts[2], 0));
    ok(cu->cuDevicePrimaryCtxReset_v2(2)); /* the access ends with the peer's context */
    ok(cu->cuDevicePrimaryCtxRetain(&contexts[2], 2));
    answers(cu->cuCtxDisablePeerAccess(contexts[2]), 705);
    ok(cu->cuCtxCreate_v2(&other, 0, 0));
    answers(cu->cuCtxEnablePeerAccess(contexts[0], 0), 217); /* of one device */
    free(cu);
}

TEST(test_no_peers)
{
    struct CUctx_st *contexts[DEVICES];
    struct emu_api  *cu = machine("PTXPACK_EMU_FAULT=no-peers", contexts);
    int              n = 9;
    ok(cu->cuDeviceCanAccessPeer(&n, 0, 1));
    assert_int_equal(n, 0);
    ok(cu->cuDeviceGetP2PAttribute(&n, 2, 0, 1));
    assert_int_equal(n, 0);
    answers(cu->cuCtxEnablePeerAccess(contexts[1], 0), 217);
    free(cu);
}

/* A kernel of the current context stores a word. */
static api_result store(struct emu_api *cu, struct CUfunc_st *function, api_address to, unsigned int word)
{
    void *parameters[] = {&to, &word};
    ok(cu->cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
    return cu->cuCtxSynchronize();
}

TEST(test_kernels_need_access)
{
    struct CUctx_st *contexts[DEVICES];
    char             log[128], words[256], text[2048] = "";
    snprintf(log, sizeof log, "%s/peers", emu_folder);
    snprintf(words, sizeof words, "PTXPACK_EMU_LOG=%s", log);
    struct emu_api   *cu = machine(words, contexts);
    struct CUfunc_st *function = emu_function_named(cu, emu_ptx, "store");
    api_address       near = memory_of(cu, contexts[1], 64), far = memory_of(cu, contexts[2], 64), managed = 0;
    unsigned int      word = 0;
    ok(cu->cuCtxEnablePeerAccess(contexts[1], 0));
    ok(store(cu, function, near, 11));
    ok(cu->cuMemcpyDtoH_v2(&word, near, 4));
    assert_int_equal(word, 11);
    ok(cu->cuCtxSetCurrent(contexts[2])); /* memory that all devices may access */
    ok(cu->cuMemAllocManaged(&managed, 64, 1));
    ok(cu->cuCtxSetCurrent(contexts[0]));
    ok(store(cu, function, managed, 12));
    answers(store(cu, function, far, 13), 700);
    ok(cu->cuCtxSetCurrent(contexts[2])); /* only the context of the kernel is broken */
    ok(cu->cuMemsetD8_v2(far, 0, 64));
    ok(cu->cuMemcpyDtoH_v2(&word, far, 4));
    assert_int_equal(word, 0);
    FILE *f = fopen(log, "r");
    assert_non_null(f);
    assert_true(fread(text, 1, sizeof text - 1, f) > 0);
    fclose(f);
    assert_non_null(
        strstr(text, "writes 4 bytes of a peer device, to whose memory cuCtxEnablePeerAccess gave"));
    free(cu);
}

/* Variables of modules are memory of the device, too. */
TEST(test_variables_have_a_device)
{
    struct CUctx_st  *contexts[DEVICES];
    struct emu_api   *cu = machine("", contexts);
    struct CUfunc_st *function = emu_function_named(cu, emu_ptx, "store");
    struct CUmod_st  *module = NULL;
    api_address       variable = 0;
    size_t            bytes = 0;
    ok(cu->cuCtxSetCurrent(contexts[1]));
    ok(cu->cuModuleLoadData(&module, emu_ptx));
    ok(cu->cuModuleGetGlobal_v2(&variable, &bytes, module, "seven"));
    ok(cu->cuCtxSetCurrent(contexts[0]));
    ok(cu->cuCtxEnablePeerAccess(contexts[1], 0));
    ok(store(cu, function, variable, 8));
    ok(cu->cuCtxDisablePeerAccess(contexts[1]));
    answers(store(cu, function, variable, 9), 700);
    free(cu);
}

/* Copies between devices need no access, and carry undefined bytes as they are. */
TEST(test_copies_between_devices)
{
    struct CUctx_st *contexts[DEVICES], *gone = NULL;
    struct emu_api  *cu = machine("", contexts);
    api_address      at[DEVICES];
    unsigned int     word = 0;
    for (int i = 0; i < DEVICES; i++)
        at[i] = memory_of(cu, contexts[i], 256);
    ok(cu->cuMemsetD32_v2(at[0], 0x01020304, 64));
    ok(cu->cuMemcpyPeer(at[1], contexts[1], at[0], contexts[0], 256));
    ok(cu->cuMemcpyPeerAsync(at[2], contexts[2], at[1], contexts[1], 256, NULL));
    ok(cu->cuMemcpyDtoH_v2(&word, at[2] + 252, 4));
    assert_int_equal(word, 0x01020304);
    ok(cu->cuMemsetD32_v2(at[0], 5, 64));
    ok(cu->cuMemcpyDtoDAsync_v2(at[1], at[0], 256, NULL));
    ok(cu->cuMemcpyAsync(at[2], at[1], 256, NULL));
    ok(cu->cuMemcpyDtoH_v2(&word, at[2], 4));
    assert_int_equal(word, 5);
    answers(cu->cuMemcpyPeer(at[1], contexts[1], at[0], contexts[0], 257), 1);
    answers(cu->cuMemcpyPeer(at[1], NULL, at[0], contexts[0], 1), 201);
    ok(cu->cuCtxCreate_v2(&gone, 0, 1));
    ok(cu->cuCtxDestroy_v2(gone));
    ok(cu->cuCtxSetCurrent(contexts[0]));
    answers(cu->cuMemcpyPeerAsync(at[1], gone, at[0], contexts[0], 1, NULL), 201);
    free(cu);
}

/* Columns 4 to 11 of rows 1 and 2, of both planes of 4 rows of 16 bytes, become compact on another device. */
TEST(test_volumes_between_devices)
{
    struct CUctx_st  *contexts[DEVICES];
    struct emu_api   *cu = machine("", contexts);
    const api_address from = memory_of(cu, contexts[1], 128), to = memory_of(cu, contexts[2], 32);
    uint8_t           bytes[128], got[32];
    for (int i = 0; i < 128; i++)
        bytes[i] = (uint8_t)i;
    ok(cu->cuMemcpyHtoD_v2(from, bytes, sizeof bytes));
    struct CUDA_MEMCPY3D_PEER_st copy = {.srcXInBytes = 4,
                                         .srcY = 1,
                                         .srcMemoryType = 2,
                                         .srcDevice = from,
                                         .srcContext = contexts[1],
                                         .srcPitch = 16,
                                         .srcHeight = 4,
                                         .dstMemoryType = 2,
                                         .dstDevice = to,
                                         .dstContext = contexts[2],
                                         .dstPitch = 8,
                                         .dstHeight = 2,
                                         .WidthInBytes = 8,
                                         .Height = 2,
                                         .Depth = 2};
    ok(cu->cuMemcpy3DPeerAsync(&copy, NULL));
    ok(cu->cuMemcpyDtoH_v2(got, to, sizeof got));
    for (int i = 0; i < 32; i++)
        assert_int_equal(got[i], i / 16 * 64 + (1 + i / 8 % 2) * 16 + 4 + i % 8);
    copy.Depth = 3; /* beyond the end */
    answers(cu->cuMemcpy3DPeerAsync(&copy, NULL), 1);
    copy.Depth = 2;
    copy.dstContext = NULL;
    answers(cu->cuMemcpy3DPeerAsync(&copy, NULL), 201);
    answers(cu->cuMemcpy3DPeerAsync(NULL, NULL), 1);
    free(cu);
}

RUN_TESTS(emu_folder_make, emu_folder_remove)
