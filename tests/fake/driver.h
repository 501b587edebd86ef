/* driver.h - what the fake libcuda and the fake PTX compiler tell a test: dlsym(library, "fake_record"),
 * dlsym(library, "fake_compilations"). */
#ifndef FAKE_DRIVER_H
#define FAKE_DRIVER_H
#include <stdint.h>

struct fake_record {
    unsigned int inits, retained, loads, links, launches;
    unsigned int retains,
        context_calls; /* since the start: primary contexts; all calls of cuCtx* and cuDevicePrimaryCtx* */
    unsigned int     maps_encoded, maps_replaced;
    unsigned int     allocations;        /* of device memory and of pinned host memory, since the start */
    unsigned int     libraries, modules; /* loaded now */
    int              shared_opt_in;
    struct CUctx_st *context_at_load, *context_at_launch;
    unsigned int     grid[3], threads, shared;
    int              overlapping; /* the last launch may begin before the kernel before it has ended */
    uint64_t         argument;    /* the first 8 bytes of the last launch's parameter struct */
    char             image[64];   /* the start of the image that was loaded last */
};
#endif
