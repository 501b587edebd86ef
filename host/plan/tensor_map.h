/* tensor_map.h - private: the driver's tensor map of a box of host/atom/tma.h. */
#ifndef PTXPACK_TENSOR_MAP_H
#define PTXPACK_TENSOR_MAP_H
#include "loader/loader.h"
#include "host/atom/tma.h"

/* Into `map`, 128 bytes at an address that is a multiple of 64, with some address that is aligned: a launch
 * puts the tensor's in (cuTensorMapReplaceAddress).  The handle's context is current; `name` is for the
 * message. PTXPACK_E_DRIVER */
ptxpack_status ptxpack_tensor_map_encode(const ptxpack *handle, const char *name, const ptxpack_tma_box *box,
                                         void *map);
#endif
