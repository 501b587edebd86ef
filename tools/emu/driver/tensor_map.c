/* tensor_map.c - tensor maps for TMA. */
#include "api.h"
#include "tools/emu/async/tensor_map.h"

api_result cuTensorMapEncodeTiled(struct CUtensorMap_st *map, unsigned int type, uint32_t rank, void *address,
                                  const uint64_t *dims, const uint64_t *strides, const uint32_t *box,
                                  const uint32_t *element_strides, unsigned int interleave,
                                  unsigned int swizzle, unsigned int l2, unsigned int fill)
{
    API_CALL(API_INIT, !map || !dims || !box || !element_strides || (!strides && rank > 1)
                           ? API_INVALID_VALUE
                           : emu_tensor_map_encode(map, type, rank, (uint64_t)(uintptr_t)address, dims, strides,
                                                   box, element_strides, interleave, swizzle, l2, fill));
}

api_result cuTensorMapEncodeIm2col(struct CUtensorMap_st *map, unsigned int type, uint32_t rank, void *address,
                                   const uint64_t *dims, const uint64_t *strides, const int *lower,
                                   const int *upper, uint32_t channels, uint32_t pixels,
                                   const uint32_t *element_strides, unsigned int interleave,
                                   unsigned int swizzle, unsigned int l2, unsigned int fill)
{
    (void)map, (void)type, (void)rank, (void)address, (void)dims, (void)strides, (void)lower, (void)upper;
    (void)channels, (void)pixels, (void)element_strides, (void)interleave, (void)swizzle, (void)l2, (void)fill;
    API_CALL(API_INIT, API_NOT_SUPPORTED);
}

api_result cuTensorMapReplaceAddress(struct CUtensorMap_st *map, void *address)
{
    API_ENTER(API_INIT);
    API_WANT(map && address && (uintptr_t)address % 16 == 0, API_INVALID_VALUE);
    return emu_tensor_map_replace_address(map, (uint64_t)(uintptr_t)address);
}
