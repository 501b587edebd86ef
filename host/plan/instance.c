/* instance.c - the builds of each row of kernels.def: which symbols the plans add to it. */
#include "instance.h"

#include <stdio.h>
#include <string.h>

#include "host/attention/kernel.h"
#include "host/gemm/plan.h"
#include "host/vector/plan.h"

static size_t dtype_count(const ptxpack_variant *variant)
{
    return variant->flags & PTXPACK_VARIANT_NO_BF16 ? 1 : 2;
}

size_t ptxpack_instance_count(const ptxpack_variant *variant)
{
    if (strcmp(variant->op, "attention") == 0)
        return attention_kernel_of(variant)->instances(variant);
    if (strcmp(variant->op, "gemm") == 0)
        return ptxpack_gemm_instances(variant);
    if (strcmp(variant->op, "vector_add") == 0)
        return dtype_count(variant);
    return 0;
}

ptxpack_instance ptxpack_instance_get(const ptxpack_variant *variant, size_t index)
{
    ptxpack_instance instance = {.symbol_count = 0};
    if (index >= ptxpack_instance_count(variant))
        return instance;
    if (strcmp(variant->op, "attention") == 0) {
        attention_kernel_of(variant)->instance(variant, index, &instance);
    } else if (strcmp(variant->op, "gemm") == 0) {
        ptxpack_gemm_instance(variant, index, &instance);
    } else {
        ptxpack_dtype dtype = index ? PTXPACK_BF16 : PTXPACK_F16;
        snprintf(instance.name, sizeof instance.name, "%s", ptxpack_dtype_name(dtype));
        ptxpack_tiled_copy layout = ptxpack_vector_layout(variant);
        instance.symbol_count = ptxpack_vector_symbols(&layout, dtype, instance.symbols);
    }
    return instance;
}
