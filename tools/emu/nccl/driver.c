/* driver.c - finding the emulated driver that the program has loaded, under whatever name. */
#include "internal.h"
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t     lock = PTHREAD_MUTEX_INITIALIZER;
static struct nccl_driver *drivers; /* all that were seen */

static void *symbol_of(void *library, const char *name) { return dlsym(library, name); }

/* False: the library lacks a function. */
static bool fill(struct nccl_driver *d, void *library)
{
    bool  all = true;
    void *symbol;
#define NCCL_DRIVER_LOAD(type, name, parameters) \
    symbol = symbol_of(library, #name);          \
    all = all && symbol != NULL;                 \
    memcpy(&d->name, &symbol, sizeof symbol); /* ISO C has no such cast */
    NCCL_DRIVER_MAP(NCCL_DRIVER_LOAD)
#undef NCCL_DRIVER_LOAD
    return all;
}

/* The library, if it is an emulated driver, joins the list. */
static void look_at(void *library)
{
    struct nccl_driver found = {.next = NULL}, *d = drivers;
    if (symbol_of(library, "ptxpack_emu_stream_task") == NULL || !fill(&found, library))
        return;
    while (d != NULL && d->ptxpack_emu_stream_task != found.ptxpack_emu_stream_task)
        d = d->next;
    if (d != NULL || (d = (struct nccl_driver *)malloc(sizeof *d)) == NULL)
        return;
    *d = found;
    d->next = drivers;
    drivers = d;
}

static int look_at_object(struct dl_phdr_info *info, size_t bytes, void *data)
{
    (void)bytes;
    (void)data;
    void *library = dlopen(info->dlpi_name[0] ? info->dlpi_name : NULL, RTLD_LAZY | RTLD_NOLOAD);
    if (library != NULL) {
        look_at(library);
        dlclose(library);
    }
    return 0;
}

static const struct nccl_driver *choose(void)
{
    struct CUctx_st *context = NULL;
    for (const struct nccl_driver *d = drivers; d != NULL; d = d->next)
        if (d->cuCtxGetCurrent(&context) == 0 && context != NULL)
            return d;
    return drivers;
}

const struct nccl_driver *nccl_driver_find(void)
{
    pthread_mutex_lock(&lock);
    dl_iterate_phdr(look_at_object, NULL);
    if (drivers == NULL && dlopen("libcuda.so.1", RTLD_NOW) != NULL)
        dl_iterate_phdr(look_at_object, NULL);
    const struct nccl_driver *d = choose();
    pthread_mutex_unlock(&lock);
    if (d == NULL)
        nccl_error(NCCL_UnhandledCudaError, "no emulated driver is loaded, and libcuda.so.1 is not one");
    return d;
}
