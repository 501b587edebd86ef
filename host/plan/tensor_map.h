/* tensor_map.h - private: the driver's tensor map of a box of host/atom/tma.h. */
#ifndef PTXPACK_TENSOR_MAP_H
#define PTXPACK_TENSOR_MAP_H
#include "arguments.h"
#include "host/atom/tma.h"
#include "loader/loader.h"

/* Bytes: TMA takes no stride that is this large. */
#define TENSOR_MAP_STRIDE ((int64_t)1 << 40)

/* Why the handle's driver has no tensor maps, or NULL; offline NULL. */
const char *ptxpack_tensor_map_refusal(const ptxpack *handle);

/* In the calls below the handle's context is current, and `name` is for the message. */
/* Encodes a map with some aligned address: a launch puts the tensor's in its place.  PTXPACK_E_DRIVER */
ptxpack_status ptxpack_tensor_map_encode(const ptxpack *handle, const char *name, const ptxpack_tma_box *box,
                                         argument_tensor_map *map);
/* Puts in the address.  PTXPACK_E_LAUNCH */
ptxpack_status ptxpack_tensor_map_replace(const ptxpack *handle, const char *name, uint64_t address,
                                          argument_tensor_map *map);
#endif
