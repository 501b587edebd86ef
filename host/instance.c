/* instance.c - the builds of each row of kernels.def: which symbols the plans add to it. */
#include "instance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention_plan.h"
#include "vector_plan.h"

static size_t dtype_count(const ptxpack_variant *variant)
{
    return variant->flags & PTXPACK_VARIANT_NO_BF16 ? 1 : 2;
}

size_t ptxpack_instance_count(const ptxpack_variant *variant)
{
    if (strcmp(variant->op, "attention") == 0)
        return 4 * dtype_count(variant);
    if (strcmp(variant->op, "vector_add") == 0)
        return dtype_count(variant);
    return 0;
}

/* bit 0: causal, bit 1: padded, above: dtype */
static void attention_instance(const ptxpack_variant *variant, size_t index, ptxpack_instance *out)
{
    attention_build build = {index >> 2 ? PTXPACK_BF16 : PTXPACK_F16, (index & 1) != 0, (index & 2) != 0};
    snprintf(out->name, sizeof out->name, "%s %s%s", ptxpack_dtype_name(build.dtype),
             build.causal ? "causal" : "full", build.padded ? " padded" : "");
    attention_layout       *own;
    const attention_layout *layout = ptxpack_attention_layout_of(variant, &own);
    if (layout != NULL && layout->status == PTXPACK_OK) /* a plan reports a bad row */
        out->symbol_count = ptxpack_attention_symbols(layout, build, out->symbols);
    free(own);
}

ptxpack_instance ptxpack_instance_get(const ptxpack_variant *variant, size_t index)
{
    ptxpack_instance instance = {.symbol_count = 0};
    if (index >= ptxpack_instance_count(variant))
        return instance;
    if (strcmp(variant->op, "attention") == 0) {
        attention_instance(variant, index, &instance);
    } else {
        ptxpack_dtype dtype = index ? PTXPACK_BF16 : PTXPACK_F16;
        snprintf(instance.name, sizeof instance.name, "%s", ptxpack_dtype_name(dtype));
        ptxpack_tiled_copy layout = ptxpack_vector_layout(variant);
        instance.symbol_count = ptxpack_vector_symbols(&layout, dtype, instance.symbols);
    }
    return instance;
}
