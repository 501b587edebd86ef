/* region.h - a tensor of a case between guards: its bytes before a launch and after it, and its device memory. */
#ifndef PTXPACK_CHECK_REGION_H
#define PTXPACK_CHECK_REGION_H
#include "check.h"

enum { REGION_POISON = 0xff /* NaN in every type; in an output: not written */ };

typedef struct check_region {
    uint8_t *before, *after; /* CHECK_GUARD bytes, the tensor, CHECK_GUARD bytes */
    size_t   bytes;          /* of the tensor */
    uint64_t device;
    bool
        read_only; /* then nothing lies after the tensor on the emulated driver, so that it reports reads there */
} check_region;

/* Makes a region full of REGION_POISON; with bytes 0 it is empty, and everything below does nothing. */
bool check_region_make(check_region *region, size_t bytes, bool read_only);
/* The tensor's bytes before a launch, for the case to fill. */
void *check_region_fill(check_region *region);
/* Copies what is before a launch to the device, which it reserves the first time; gpu_lock is held. */
bool check_region_upload(check *c, check_region *region);
bool check_region_download(check *c, check_region *region);
/* The tensor's address on the device; 0 if the region is empty. */
uint64_t check_region_at(const check_region *region);
/* The place in the tensor, in bytes, of the first byte that a launch has changed although `may_change` (of the tensor's
 * bytes; NULL: none) does not say so: below 0 in the guard before it, from `bytes` on in the one after it.  Returns
 * false when there is none. */
bool check_region_changed(const check_region *region, const bool *may_change, int64_t *place);
void check_region_free(check *c, check_region *region);
#endif
