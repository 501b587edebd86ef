/* device.h - what commands and checks need of a GPU: memory, copies, timing, and reports of kernels. */
#ifndef PTXPACK_DEVICE_H
#define PTXPACK_DEVICE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "host/ptxpack.h"

/* After a failure `line` says what failed; the calls below then do nothing more and return false. */
typedef struct device {
    ptxpack                     *handle;
    const struct ptxpack_driver *driver;
    struct CUstream_st          *stream; /* of its own, not blocked by the default stream */
    struct CUevent_st           *from, *to;
    struct CUctx_st             *context;  /* the handle's; current in the thread that opened the device */
    bool                         emulated; /* it is the emulated driver's */
    char                         why[512]; /* emulated: why there is no GPU; "" when it was asked for */
    char                         line[512];
} device;

/* The option of every subcommand that runs kernels. */
#define DEVICE_OPTION_HELP \
    "gpu|emu  (default: PTXPACK_DEVICE; else the GPU; the emulated driver when there is none)"

/* Open a handle (options may be NULL), make its context current, create stream and events. */
ptxpack_status device_open(device *d, const ptxpack_options *options);
/* The same by choice: "gpu", "emu", or NULL: what PTXPACK_DEVICE names, else the GPU, and the emulated driver when there
 * is none, unless PTXPACK_DRIVER names one.  Any other choice is PTXPACK_E_ARG. */
bool           device_choice(const char *choice); /* it is one of these, or else PTXPACK_DEVICE is */
ptxpack_status device_open_as(device *d, const char *choice, const ptxpack_options *options);
void           device_close(device *d);
/* Whether what device_open returned says that there is no GPU, rather than that something is wrong. */
bool device_absent(ptxpack_status opened);
/* A function of the driver's library beyond the table, as those of emu_api.h; NULL where it has none. */
void *device_library_function(const device *d, const char *name);
bool  device_attach(device *d); /* make its context current in another thread */

/* false, with the line set from the driver's answer or from the handle, unless it is a success. */
bool device_try(device *d, ptxpack_cu_result result, const char *what);
bool device_status(device *d, ptxpack_status status);

bool device_alloc(device *d, uint64_t *address, size_t bytes);
/* The same filled with zeros; of 0 bytes none, address 0. */
bool device_alloc_zeros(device *d, uint64_t *address, size_t bytes);
void device_free(device *d, uint64_t address); /* 0 is fine */
bool device_upload(device *d, uint64_t to, const void *from, size_t bytes);
bool device_download(device *d, void *to, uint64_t from, size_t bytes);
bool device_sync(device *d); /* wait for the stream; a fault of a kernel shows here */

/* Record the start, or the end, of what is timed; device_elapsed waits and gives milliseconds. */
bool device_start(device *d);
bool device_stop(device *d);
bool device_elapsed(device *d, double *milliseconds);

/* How many launches to time: `asked`, or for OPTION_NOT_GIVEN 20, on the emulated driver 1; and how many to
 * warm up before them. */
int64_t device_launches(const device *d, int64_t asked);
int     device_warm_up(const device *d);

double now_ms(void);                         /* monotonic host time */
double median(double *values, size_t count); /* sorts them */

/* One line, or JSON members inside an open object. */
void report_device(const device *d, bool json);
void report_kernel(const ptxpack_kernel_info *info, double ready_ms, bool json);
#endif
