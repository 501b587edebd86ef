/* init.c - the lock, initialisation, error texts, and finding functions by name. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#include "api.h"
#include "tools/emu/judge/report.h"
#include "tools/emu/machine/faults.h"
#include "tools/emu/machine/arena.h"

static pthread_mutex_t            lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_long                initialised_by; /* process id; 0: none yet */
static const struct emu_settings *settings;

const struct emu_settings *api_settings(void) { return settings; }

struct api_thread *api_thread(void)
{
    static _Thread_local struct api_thread mine;
    return &mine;
}

/* ---- calls --------------------------------------------------------------------------------------------- */
static api_result check(struct api_call *call, unsigned int need)
{
    if (need & API_CONTEXT) {
        API_TRY(api_current(&call->context));
        if (!(need & API_ANY_STATE))
            API_TRY(call->context->sticky);
    }
    return need & API_UNSAFE ? api_capture_forbids() : API_OK;
}

api_result api_enter(struct api_call *call, unsigned int need)
{
    /* Before the lock: a child of fork may have inherited it locked, and a callback of a stream holds it. */
    if (atomic_load(&initialised_by) != (long)getpid())
        return API_NOT_INITIALIZED;
    if (api_thread()->in_callback)
        return API_NOT_PERMITTED;
    pthread_mutex_lock(&lock);
    call->entered = true;
    return check(call, need);
}

void api_leave(struct api_call *call)
{
    if (call->entered)
        pthread_mutex_unlock(&lock);
}

static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;

bool api_is_initialised(void) { return atomic_load(&initialised_by) == (long)getpid(); }
void api_lock(void) { pthread_mutex_lock(&lock); }
void api_unlock(void) { pthread_mutex_unlock(&lock); }
void api_moved(void) { pthread_cond_broadcast(&moved); }

void api_wait_moved(long nanoseconds)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += nanoseconds;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&moved, &lock, &until);
}

/* ---- initialisation ------------------------------------------------------------------------------------ */
/* With the lock held. */
static api_result initialise(void)
{
    if (atomic_load(&initialised_by))
        return API_OK;
    const struct emu_settings *s = emu_settings();
    API_WANT(s, API_SYSTEM_NOT_READY); /* a line was printed */
    if (faults_now(s->faults, FAULT_STUB))
        return API_STUB_LIBRARY;
    API_WANT(s->device_count > 0 && !faults_now(s->faults, FAULT_NO_DEVICE), API_NO_DEVICE);
    uint64_t bytes = s->memory_bytes * (uint64_t)s->device_count;
    if (!emu_arena_open(bytes)) {
        fprintf(stderr, "ptxpack-emu: no address space for %llu bytes of device memory (PTXPACK_EMU_MEMORY)\n",
                (unsigned long long)bytes);
        return API_OUT_OF_MEMORY;
    }
    settings = s;
    atomic_store(&initialised_by, (long)getpid());
    return API_OK;
}

api_result cuInit(unsigned int flags)
{
    API_WANT(flags == 0, API_INVALID_VALUE);
    long by = atomic_load(&initialised_by);
    if (by)
        return by == (long)getpid() ? API_OK : API_NOT_INITIALIZED;
    pthread_mutex_lock(&lock);
    api_result result = initialise();
    pthread_mutex_unlock(&lock);
    return result;
}

api_result cuDriverGetVersion(int *version)
{
    API_WANT(version, API_INVALID_VALUE);
    const struct emu_settings *s = emu_settings();
    API_WANT(s, API_SYSTEM_NOT_READY);
    *version = s->driver_version;
    return API_OK;
}

/* NVIDIA's CUDA runtime (12.9 and 13.0 were traced) asks for seven tables.  Through one of them the driver must prove
 * that it is NVIDIA's own: three answers to a version and a time, without which every call of the runtime returns
 * cudaErrorSoftwareValidityNotEstablished.  The emulated driver does not pretend to be that driver, so the runtime ends
 * at the first table that it cannot do without, and a line says why. */
static void refuse_runtime(void)
{
    static atomic_flag         said = ATOMIC_FLAG_INIT;
    const struct emu_settings *s = emu_settings();
    if (s != NULL && !atomic_flag_test_and_set(&said))
        report_line(
            s, "this program contains NVIDIA's CUDA runtime (cudart), which runs only on NVIDIA's own driver; "
               "programs built by nvcc -cudart shared run with the emulated libcudart.so.13 (make "
               "emulated-libcuda)");
}

/* Undocumented tables of functions.  NVRTC asks an initialised driver for the first two and reads their size
 * without checking the result, so these are tables without functions.  All others are unknown. */
api_result cuGetExportTable(const void **table, const struct CUuuid_st *id)
{
    static const size_t        empty[1] = {sizeof empty[0]}; /* a table begins with its size */
    static const unsigned char known[][sizeof id->bytes] = {
        {0xda, 0x91, 0x51, 0xd3, 0x3a, 0xe6, 0xcc, 0x41, 0xa5, 0xc0, 0x4f, 0x26, 0xd5, 0x33, 0xe3, 0x28},
        {0x17, 0x34, 0xdc, 0x26, 0x80, 0x0d, 0x47, 0x45, 0x87, 0x26, 0xc0, 0xf1, 0xe7, 0xdd, 0x8b, 0xca},
    };
    static const unsigned char runtime[sizeof id->bytes] = {0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a,
                                                            0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9};
    API_WANT(table && id, API_INVALID_VALUE);
    *table = NULL;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (memcmp(known[i], id->bytes, sizeof known[i]) == 0)
            *table = empty;
    if (memcmp(runtime, id->bytes, sizeof runtime) == 0)
        refuse_runtime();
    return *table != NULL ? API_OK : API_NOT_FOUND;
}

api_result cuProfilerStart(void) { API_CALL(API_CONTEXT, API_OK); }
api_result cuProfilerStop(void) { API_CALL(API_CONTEXT, API_OK); }

/* ---- errors -------------------------------------------------------------------------------------------- */
static const struct {
    api_result  value;
    const char *name, *text;
} errors[] = {
    {API_OK, "CUDA_SUCCESS", "no error"},
#define ERROR(name, value, text) {value, "CUDA_ERROR_" #name, text},
#include "errors.def"
#undef ERROR
};
enum { ERRORS = sizeof errors / sizeof errors[0] };

api_result cuGetErrorName(api_result error, const char **text)
{
    API_WANT(text, API_INVALID_VALUE);
    *text = NULL;
    for (int i = 0; i < ERRORS && *text == NULL; i++)
        if (errors[i].value == error)
            *text = errors[i].name;
    return *text != NULL ? API_OK : API_INVALID_VALUE;
}

api_result cuGetErrorString(api_result error, const char **text)
{
    API_WANT(text, API_INVALID_VALUE);
    *text = NULL;
    for (int i = 0; i < ERRORS && *text == NULL; i++)
        if (errors[i].value == error)
            *text = errors[i].text;
    return *text != NULL ? API_OK : API_INVALID_VALUE;
}

/* ---- functions by name --------------------------------------------------------------------------------- */
static const struct row {
    const char *name;
    int         version;
    void (*function)(void);
} rows[] = {
#define API(name, suffix, version, parameters) {#name, version, (void (*)(void))name##suffix},
#include "api.def"
#undef API
};
enum { ROWS = sizeof rows / sizeof rows[0] };
enum { FOUND, NOT_FOUND, VERSION_NOT_SUFFICIENT }; /* CUdriverProcAddressQueryResult */

/* The newest function of this name that a client of `version` knows and this driver has. */
static unsigned int find(const char *name, int version, int driver, void **function)
{
    const struct row *best = NULL;
    unsigned int      found = NOT_FOUND;
    for (int i = 0; i < ROWS; i++) {
        if (strcmp(rows[i].name, name) != 0 || rows[i].version > driver)
            continue;
        if (rows[i].version > version)
            found = best != NULL ? FOUND : VERSION_NOT_SUFFICIENT;
        else
            best = &rows[i];
    }
    *function = NULL;
    if (best == NULL)
        return found;
    memcpy(function, &best->function, sizeof *function); /* ISO C has no such cast */
    return FOUND;
}

static api_result get_proc_address(const char *name, void **function, int version, uint64_t flags,
                                   unsigned int *found)
{
    API_WANT(name && function && flags <= 2, API_INVALID_VALUE);
    const struct emu_settings *s = emu_settings();
    int ours = s != NULL ? s->driver_version : version; /* cuInit reports invalid settings */
    *function = NULL;
    API_WANT(!s || !faults_now(s->faults, FAULT_STUB), API_STUB_LIBRARY);
    API_WANT(version <= ours, API_INVALID_VALUE);
    *found = find(name, version, ours, function);
    return API_OK;
}

api_result cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags,
                               unsigned int *found)
{
    unsigned int ignored;
    return get_proc_address(name, function, version, flags, found != NULL ? found : &ignored);
}

api_result cuGetProcAddress(const char *name, void **function, int version, uint64_t flags)
{
    unsigned int found = FOUND;
    API_TRY(get_proc_address(name, function, version, flags, &found));
    return found == FOUND ? API_OK : API_NOT_FOUND;
}
