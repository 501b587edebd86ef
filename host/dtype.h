/* dtype.h - the element types of tensors, and their exact conversions on the CPU. */
#ifndef PTXPACK_DTYPE_H
#define PTXPACK_DTYPE_H
#include <stdint.h>
#include "status.h"
#ifdef __cplusplus
extern "C" {
#endif
typedef enum ptxpack_dtype { PTXPACK_F16 = 1, PTXPACK_BF16 = 2 } ptxpack_dtype;

/* Round to nearest even; NaN stays NaN, what is too large becomes infinity. */
PTXPACK_API uint16_t ptxpack_from_float(ptxpack_dtype type, float value);
PTXPACK_API float    ptxpack_to_float(ptxpack_dtype type, uint16_t bits); /* exact */
PTXPACK_API const char *ptxpack_dtype_name(ptxpack_dtype type);           /* "f16", "bf16"; "?" */
#ifdef __cplusplus
}
#endif
#endif
