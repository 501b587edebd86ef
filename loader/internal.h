/* internal.h - the handle, and what the files of loader/ share. */
#ifndef PTXPACK_LOADER_INTERNAL_H
#define PTXPACK_LOADER_INTERNAL_H
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "cache/cache.h"
#include "context.h"
#include "driver.h"
#include "emulator.h"
#include "files.h"
#include "loader/compile/jit.h"
#include "loader.h"

enum { PTXPACK_DETAIL_BYTES = 1024 };

struct ptxpack {
    uint64_t                     id;     /* never used twice: it identifies the handle in the detail lines */
    pid_t                        pid;    /* of the process that opened the handle */
    const struct ptxpack_driver *driver; /* NULL offline */
    struct CUctx_st             *context;
    int                          device;
    bool                         retained; /* it is the primary context, to be released */
    bool                         line_info;
    bool                         forbid_compile;
    bool                         stand_in; /* offline for a device: each row chooses its exact target */
    char                        *ptx_dir;  /* NULL: the embedded pack */
    ptxpack_device_info          info;
    ptxpack_cache               *cache;
    struct ptxpack_jit           jit;
    ptxpack_compile_event        on_compile;
    void                        *on_compile_context;
    pthread_mutex_t              lock; /* guards kernels; a thread holds it while it loads one */
    ptxpack_kernel              *kernels;
};

/* ---- detail.c ------------------------------------------------------------------------------------- */
uint64_t ptxpack_new_id(void);
/* Set "WHAT: CUDA_ERROR_X (n): text" as the detail line and return the status for that result. */
ptxpack_status ptxpack_fail_driver(const ptxpack *handle, ptxpack_cu_result result, const char *what);

/* ---- open.c --------------------------------------------------------------------------------------- */
/* The option, or else the environment variable (which setuid programs ignore), or else NULL. */
const char *ptxpack_chosen(const char *option, const char *variable);
/* PTXPACK_DEVICE=emu as options: the emulated driver with its own compiler, which takes nothing else, and .loc
 * lines, so that its reports name the lines of the pack.  Options that name a driver, and offline ones, stay as
 * they are.  The codes of ptxpack_emulator_asked, with a detail line. */
ptxpack_status ptxpack_take_emulator(ptxpack_options *options, char path[PTXPACK_EMULATOR_PATH]);
/* Read the architecture, the multiprocessors and the shared memory of a device into *info. */
ptxpack_cu_result ptxpack_read_attributes(const struct ptxpack_driver *driver, int device,
                                          ptxpack_device_info *info);
/* Choose kernels as for `arch` (NULL: change nothing); offline it is also the target.
 *   PTXPACK_E_ARG */
ptxpack_status ptxpack_apply_arch(ptxpack *handle, const char *arch, bool offline);

/* ---- stand_in.c ----------------------------------------------------------------------------------- */
/* ptxpack_open_stand_in (inspect.h) for the driver's device with the ordinal options->device, whose attributes
 * the driver tells.  No context is created. */
ptxpack_status ptxpack_open_stand_in_for_device(const ptxpack_options *options, ptxpack **out);

/* ---- build/kernel.c -------------------------------------------------------------------------------- */
/* Unload and free every kernel of the handle.  Without `unload` the driver is not called. */
void ptxpack_kernels_free(ptxpack *handle, bool unload);

/* ---- target.c ------------------------------------------------------------------------------------- */
/* "sm_90a" -> 90; -1 for malformed text. */
int ptxpack_parse_arch(const char *text);
/* The architectures that the library knows, ascending: 75, 80, ...; 0 after the last. */
int ptxpack_arch_at(size_t index);
/* The usual number of multiprocessors of a GPU of that architecture; 0 for an unknown one. */
int ptxpack_arch_usual_sms(int arch);
/* The shared-memory limits of an architecture; false for one that is not in the table. */
bool ptxpack_arch_shared(int arch, ptxpack_device_caps *caps);
#endif
