/* ipc_fixture.h - what the tests of memory and events of other processes share: exchanging handles, and what is open. */
#ifndef IPC_FIXTURE_H
#define IPC_FIXTURE_H
#include "processes_fixture.h"
#include "ranks_fixture.h"

enum { LAZY = 1, UNTIMED = 2, INTERPROCESS = 4, COUNT = 25000, BYTES = 4 * COUNT, LOST = 911 };

static const char plain[] = "PTXPACK_EMU_MEMORY=64M PTXPACK_EMU_THREADS=1";

static inline void launch(struct emu_api *cu, const char *text, const char *name, unsigned int grid,
                          unsigned int block, struct CUstream_st *stream, api_address a, api_address b,
                          api_address c)
{
    void *parameters[] = {&a, &b, &c};
    ok(cu->cuLaunchKernel(emu_function_named(cu, text, name), grid, 1, 1, block, 1, 1, 0, stream, parameters,
                          NULL));
}

/* Without the driver, which would wait for the kernel that writes it. */
static inline unsigned int word_at_now(api_address address)
{
    return __atomic_load_n((const unsigned int *)(uintptr_t)address, __ATOMIC_RELAXED);
}

static inline api_address allocate(struct emu_api *cu, size_t bytes, unsigned int first)
{
    api_address address = 0;
    ok(cu->cuMemAlloc_v2(&address, bytes));
    for (size_t i = 0; i < bytes / 4; i += 1000)
        ok(cu->cuMemsetD32_v2(address + 4 * i, first + (unsigned int)(i / 1000),
                              bytes / 4 - i < 1000 ? bytes / 4 - i : 1000));
    return address;
}

/* Word i is first + i / 1000. */
static inline void expect(struct emu_api *cu, api_address address, unsigned int first)
{
    static unsigned int words[COUNT];
    ok(cu->cuMemcpyDtoH_v2(words, address, BYTES));
    for (unsigned int i = 0; i < COUNT; i++)
        assert_int_equal(words[i], first + i / 1000);
}

static inline void say_memory(struct emu_api *cu, api_address address)
{
    struct CUipcMemHandle_st handle;
    ok(cu->cuIpcGetMemHandle(&handle, address));
    say(handle);
}

static inline api_address hear_memory(struct emu_api *cu, struct CUipcMemHandle_st *handle)
{
    api_address              address = 0;
    struct CUipcMemHandle_st mine;
    hear(mine);
    ok(cu->cuIpcOpenMemHandle_v2(&address, mine, LAZY));
    if (handle != NULL)
        *handle = mine;
    return address;
}

/* Files of the driver that this process has open, has mapped, or that have a name. */
static inline int open_files(void) { return entries("/proc/self/fd", "memfd:ptxpack-emu"); }
static inline int named_files(void)
{
    return access("/dev/shm", R_OK) == 0 ? entries("/dev/shm", "ptxpack-emu") : 0;
}

static inline int mapped_files(void)
{
    char  line[1024];
    int   count = 0;
    FILE *f = fopen("/proc/self/maps", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f) != NULL)
        count += strstr(line, "memfd:ptxpack-emu") != NULL;
    fclose(f);
    return count;
}

static inline struct CUevent_st *say_event(struct emu_api *cu)
{
    struct CUevent_st         *event = NULL;
    struct CUipcEventHandle_st handle;
    ok(cu->cuEventCreate(&event, UNTIMED | INTERPROCESS));
    ok(cu->cuIpcGetEventHandle(&handle, event));
    say(handle);
    return event;
}

static inline struct CUevent_st *hear_event(struct emu_api *cu)
{
    struct CUevent_st         *event = NULL;
    struct CUipcEventHandle_st handle;
    hear(handle);
    ok(cu->cuIpcOpenEventHandle(&event, handle));
    return event;
}

static inline void nothing(void) {}
#endif
