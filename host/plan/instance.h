/* instance.h - builds of a row of kernels.def: the row and the symbols that the host adds to it (element
 * type, mask, ...).  Of all builds these are the ones that differ most, for listings and tests. */
#ifndef PTXPACK_INSTANCE_H
#define PTXPACK_INSTANCE_H
#include <stddef.h>
#include "loader/registry.h"
#ifdef __cplusplus
extern "C" {
#endif
enum { PTXPACK_INSTANCE_SYMBOLS = 256 };
typedef struct ptxpack_instance {
    char           name[64]; /* "bf16 causal", "f16 full padded" */
    ptxpack_symbol symbols[PTXPACK_INSTANCE_SYMBOLS];
    size_t         symbol_count;
} ptxpack_instance;
/* The number of instances of a row, and the one with `index` below that number. */
PTXPACK_API size_t           ptxpack_instance_count(const ptxpack_variant *variant);
PTXPACK_API ptxpack_instance ptxpack_instance_get(const ptxpack_variant *variant, size_t index);
#ifdef __cplusplus
}
#endif
#endif
