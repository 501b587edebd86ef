/* registry.c - what nvcc's host code registers before main: fat binaries, their kernels and variables. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "runtime.h"

struct binary {
    const void      *image;   /* the wrapper of its container */
    struct CUlib_st *library; /* NULL: not loaded yet */
    struct binary   *next;
};
enum kind { KERNEL, VARIABLE, MANAGED };
struct entry {
    const void
        *host; /* the address of the stub or of the shadow variable; MANAGED: of the host's pointer to it */
    const char       *name; /* in the host code, which outlives it */
    enum kind         kind;
    struct binary    *binary;
    struct CUkern_st *kernel; /* NULL: not looked up yet */
    struct entry     *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct binary  *binaries;
static struct entry   *entries;

API_EXPORT void **__cudaRegisterFatBinary(void *image);
API_EXPORT void   __cudaRegisterFatBinaryEnd(void **handle);
API_EXPORT void   __cudaUnregisterFatBinary(void **handle);
API_EXPORT char   __cudaInitModule(void **handle);
API_EXPORT void   __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                                         int threads, void *tid, void *bid, void *block, void *grid, int *warp);
API_EXPORT void   __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name,
                                           int external, size_t bytes, int constant, int global);
API_EXPORT void   __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external,
                                    size_t bytes, int constant, int global);

/* ---- registering --------------------------------------------------------------------------------------- */
/* NULL: out of memory; what is registered with it is then not found. */
void **__cudaRegisterFatBinary(void *image)
{
    struct binary *b = (struct binary *)calloc(1, sizeof *b);
    if (b == NULL)
        return NULL;
    b->image = image;
    pthread_mutex_lock(&lock);
    b->next = binaries;
    binaries = b;
    pthread_mutex_unlock(&lock);
    return (void **)b;
}

/* Nothing is to be done: code is loaded at its first use. */
void __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }

void __cudaUnregisterFatBinary(void **handle)
{
    struct binary *gone = (struct binary *)handle;
    pthread_mutex_lock(&lock);
    for (struct entry **at = &entries; *at != NULL;) {
        struct entry *e = *at;
        if (e->binary == gone) {
            *at = e->next;
            free(e);
        } else {
            at = &e->next;
        }
    }
    for (struct binary **at = &binaries; *at != NULL; at = &(*at)->next)
        if (*at == gone) {
            *at = gone->next;
            free(gone);
            break;
        }
    pthread_mutex_unlock(&lock);
}

static void add(void **handle, const void *host, const char *name, enum kind kind)
{
    struct entry *e = (struct entry *)calloc(1, sizeof *e);
    if (e == NULL || handle == NULL) {
        free(e);
        return;
    }
    e->host = host;
    e->name = name;
    e->kind = kind;
    e->binary = (struct binary *)handle;
    pthread_mutex_lock(&lock);
    e->next = entries;
    entries = e;
    pthread_mutex_unlock(&lock);
}

void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int threads,
                            void *tid, void *bid, void *block, void *grid, int *warp)
{
    (void)device, (void)threads, (void)tid, (void)bid, (void)block, (void)grid, (void)warp;
    add(handle, host, name, KERNEL);
}

void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external, size_t bytes,
                       int constant, int global)
{
    (void)device, (void)external, (void)bytes, (void)constant, (void)global;
    add(handle, host, name, VARIABLE);
}

void __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name, int external,
                              size_t bytes, int constant, int global)
{
    (void)device, (void)external, (void)bytes, (void)constant, (void)global;
    add(handle, host, name, MANAGED);
}

/* ---- finding ------------------------------------------------------------------------------------------- */
/* With the lock held. */
static struct entry *find(const void *host, enum kind kind)
{
    struct entry *e = entries;
    while (e != NULL && (e->host != host || e->kind != kind))
        e = e->next;
    return e;
}

static runtime_result load(struct binary *b)
{
    return b->library != NULL ? RUNTIME_OK
                              : cuLibraryLoadData(&b->library, b->image, NULL, NULL, 0, NULL, NULL, 0);
}

static runtime_result kernel_of(struct entry *e, struct CUkern_st **kernel)
{
    runtime_result result = e->kernel != NULL ? RUNTIME_OK : load(e->binary);
    if (result == RUNTIME_OK && e->kernel == NULL)
        result = cuLibraryGetKernel(&e->kernel, e->binary->library, e->name);
    *kernel = e->kernel;
    return result;
}

runtime_result runtime_kernel(const void *function, struct CUkern_st **kernel)
{
    const char *name = NULL;
    pthread_mutex_lock(&lock);
    struct entry  *e = find(function, KERNEL);
    runtime_result result = e != NULL ? kernel_of(e, kernel) : RUNTIME_INVALID_FUNCTION;
    pthread_mutex_unlock(&lock);
    if (e != NULL)
        return result;
    *kernel = (struct CUkern_st *)(uintptr_t)function;
    return cuKernelGetName(&name, *kernel) == RUNTIME_OK ? RUNTIME_OK : RUNTIME_INVALID_FUNCTION;
}

runtime_result runtime_variable(const void *symbol, api_address *address, size_t *bytes)
{
    pthread_mutex_lock(&lock);
    struct entry  *e = find(symbol, VARIABLE);
    runtime_result result = e != NULL ? load(e->binary) : RUNTIME_INVALID_SYMBOL;
    if (result == RUNTIME_OK)
        result = cuLibraryGetGlobal(address, bytes, e->binary->library, e->name);
    pthread_mutex_unlock(&lock);
    return result;
}

/* The host code calls this before it uses a managed variable: the pointer behind it is set.  It returns whether all
 * are set. */
char __cudaInitModule(void **handle)
{
    bool good = runtime_ready(NULL) == RUNTIME_OK;
    pthread_mutex_lock(&lock);
    for (struct entry *e = entries; e != NULL && good; e = e->next) {
        api_address address = 0;
        size_t      bytes = 0;
        if (e->kind != MANAGED || e->binary != (struct binary *)handle)
            continue;
        good = load(e->binary) == RUNTIME_OK &&
               cuLibraryGetGlobal(&address, &bytes, e->binary->library, e->name) == RUNTIME_OK;
        void *at = (void *)(uintptr_t)address;
        if (good)
            memcpy((void *)(uintptr_t)e->host, &at, sizeof at);
    }
    pthread_mutex_unlock(&lock);
    return good;
}
