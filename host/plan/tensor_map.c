/* tensor_map.c - encoding a tensor map. */
#include "tensor_map.h"

#include "loader/driver.h"

ptxpack_status ptxpack_tensor_map_encode(const ptxpack *handle, const char *name, const ptxpack_tma_box *box,
                                         void *map)
{
    enum { ANY_ADDRESS = 1 << 16 };
    const struct ptxpack_driver *driver = ptxpack_driver_table(handle);
    char                         text[256];
    void                        *any = (void *)(uintptr_t)ANY_ADDRESS;
    ptxpack_cu_result r = driver->cuTensorMapEncodeTiled((struct CUtensorMap_st *)map, box->type, box->rank,
                                                         any, box->global_dim, box->global_strides,
                                                         box->box_dim, box->element_strides, box->interleave,
                                                         box->swizzle, box->l2, box->fill);
    if (r == PTXPACK_CU_SUCCESS)
        return PTXPACK_OK;
    return ptxpack_fail(handle, PTXPACK_E_DRIVER, "cuTensorMapEncodeTiled of %s: %s", name,
                        ptxpack_driver_error(driver, r, text, sizeof text));
}
