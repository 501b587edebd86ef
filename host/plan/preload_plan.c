/* preload_plan.c - from a problem to the row and the symbols that its plan will ask for. */
#include "preload_plan.h"

#include "host/attention/kernel.h"
#include "host/attention/plan.h"
#include "host/gemm/kernel.h"
#include "loader/build/preload_work.h"
#include "host/vector/plan.h"

static ptxpack_status resolve_attention(ptxpack *handle, const void *what, struct ptxpack_preload_item *item)
{
    const ptxpack_attention_desc *desc = (const ptxpack_attention_desc *)what;
    const ptxpack_variant        *row;
    attention_geometry            geometry;
    char                          line[ATTENTION_LINE];
    ptxpack_symbol                symbols[PTXPACK_INSTANCE_SYMBOLS];
    ptxpack_status status = ptxpack_attention_choose(handle, &ptxpack_device(handle)->caps, desc, &row);
    if (status == PTXPACK_OK && (status = ptxpack_attention_resolve(desc, &geometry, line)) != PTXPACK_OK)
        ptxpack_fail(handle, status, "%s", line);
    if (status != PTXPACK_OK)
        return status;
    size_t count = attention_kernel_of(row)->symbols(row, desc, &geometry, symbols);
    if (count == 0)
        return ptxpack_fail(handle, PTXPACK_E_UNSUPPORTED, "%s", ptxpack_detail(NULL));
    return ptxpack_preload_make(item, handle, row, symbols, count);
}

ptxpack_status ptxpack_preload_attention(ptxpack_preloading *preloading, const ptxpack_attention_desc *desc)
{
    if (desc == NULL || desc->size != sizeof *desc)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "desc.size is not sizeof(ptxpack_attention_desc), %zu",
                            sizeof *desc);
    return ptxpack_preload_add(preloading, "attention", resolve_attention, desc, sizeof *desc);
}

static ptxpack_status resolve_gemm(ptxpack *handle, const void *what, struct ptxpack_preload_item *item)
{
    const ptxpack_gemm_desc *desc = (const ptxpack_gemm_desc *)what;
    const ptxpack_variant   *row;
    ptxpack_symbol           symbols[PTXPACK_INSTANCE_SYMBOLS];
    ptxpack_status           status = ptxpack_gemm_choose(handle, desc, &row);
    if (status != PTXPACK_OK)
        return status;
    size_t count = gemm_kernel_of(row)->symbols(row, ptxpack_gemm_build(desc), symbols);
    if (count == 0)
        return ptxpack_fail(handle, PTXPACK_E_UNSUPPORTED, "%s", ptxpack_detail(NULL));
    return ptxpack_preload_make(item, handle, row, symbols, count);
}

ptxpack_status ptxpack_preload_gemm(ptxpack_preloading *preloading, const ptxpack_gemm_desc *desc)
{
    if (desc == NULL || desc->size != sizeof *desc)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "desc.size is not sizeof(ptxpack_gemm_desc), %zu",
                            sizeof *desc);
    return ptxpack_preload_add(preloading, "gemm", resolve_gemm, desc, sizeof *desc);
}

static ptxpack_status resolve_vector(ptxpack *handle, const void *what, struct ptxpack_preload_item *item)
{
    const ptxpack_variant *row = NULL;
    ptxpack_symbol         symbols[PTXPACK_INSTANCE_SYMBOLS];
    ptxpack_dtype          dtype = *(const ptxpack_dtype *)what;
    size_t                 count = 0;
    ptxpack_status         status = ptxpack_vector_resolve(handle, dtype, &row, symbols, &count);
    return status == PTXPACK_OK ? ptxpack_preload_make(item, handle, row, symbols, count) : status;
}

ptxpack_status ptxpack_preload_vector(ptxpack_preloading *preloading, ptxpack_dtype dtype)
{
    return ptxpack_preload_add(preloading, "vector_add", resolve_vector, &dtype, sizeof dtype);
}
