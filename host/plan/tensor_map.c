/* tensor_map.c - encoding a tensor map, and its address. */
#include "tensor_map.h"

#include "loader/driver.h"

const char *ptxpack_tensor_map_refusal(const ptxpack *handle)
{
    const struct ptxpack_driver *driver = ptxpack_driver_table(handle);
    bool                         missing = driver != NULL &&
                   (driver->cuTensorMapEncodeTiled == NULL || driver->cuTensorMapReplaceAddress == NULL);
    return missing ? "needs cuTensorMapEncodeTiled and cuTensorMapReplaceAddress, which the driver lacks"
                   : NULL;
}

ptxpack_status ptxpack_tensor_map_encode(const ptxpack *handle, const char *name, const ptxpack_tma_box *box,
                                         argument_tensor_map *map)
{
    enum { ANY_ADDRESS = 1 << 16 };
    const struct ptxpack_driver *driver = ptxpack_driver_table(handle);
    char                         text[256];
    void                        *any = (void *)(uintptr_t)ANY_ADDRESS;
    ptxpack_cu_result r = driver->cuTensorMapEncodeTiled((struct CUtensorMap_st *)(void *)map, box->type,
                                                         box->rank, any, box->global_dim, box->global_strides,
                                                         box->box_dim, box->element_strides, box->interleave,
                                                         box->swizzle, box->l2, box->fill);
    if (r == PTXPACK_CU_SUCCESS)
        return PTXPACK_OK;
    return ptxpack_fail(handle, PTXPACK_E_DRIVER, "cuTensorMapEncodeTiled of %s: %s", name,
                        ptxpack_driver_error(driver, r, text, sizeof text));
}

ptxpack_status ptxpack_tensor_map_replace(const ptxpack *handle, const char *name, uint64_t address,
                                          argument_tensor_map *map)
{
    const struct ptxpack_driver *driver = ptxpack_driver_table(handle);
    char                         text[256];
    ptxpack_cu_result            r = driver->cuTensorMapReplaceAddress((struct CUtensorMap_st *)(void *)map,
                                                                       (void *)(uintptr_t)address);
    if (r == PTXPACK_CU_SUCCESS)
        return PTXPACK_OK;
    return ptxpack_fail(handle, PTXPACK_E_LAUNCH, "cuTensorMapReplaceAddress of %s: %s", name,
                        ptxpack_driver_error(driver, r, text, sizeof text));
}
