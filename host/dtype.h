/* dtype.h - the element types of tensors, and their exact conversions on the CPU. */
#ifndef PTXPACK_DTYPE_H
#define PTXPACK_DTYPE_H
#include <stddef.h>
#include <stdint.h>
#include "loader/status.h"
#ifdef __cplusplus
extern "C" {
#endif
typedef enum ptxpack_dtype {
    PTXPACK_F16 = 1,
    PTXPACK_BF16 = 2,
    PTXPACK_E4M3 = 3,
    PTXPACK_INT8 = 4, /* of caches of keys and values alone, as the next one */
    /* ggml's Q8_0: a block of 34 bytes is an f16 scale d and 32 whole numbers of 8 bits, each of which means d times it. */
    PTXPACK_Q8_0 = 5
} ptxpack_dtype;
enum { PTXPACK_Q8_0_ELEMENTS = 32, PTXPACK_Q8_0_BYTES = 34 }; /* of a block */

/* Round to nearest even.  NaN stays NaN, and a number that is too large becomes infinity.  PTXPACK_E4M3 (1 sign
 * bit, 4 exponent bits and 3 fraction bits, in the low byte) has no infinity: a number that is too large
 * becomes the largest one, 448, and NaN is 0x7f.  PTXPACK_INT8 has whole numbers from -128 to 127, in the low byte:
 * what is further off becomes the nearest one, and NaN becomes 0, as cvt.rni.sat.s8.f32 has it.  An element of PTXPACK_Q8_0
 * has no bits of its own. */
PTXPACK_API uint16_t    ptxpack_from_float(ptxpack_dtype type, float value);
PTXPACK_API float       ptxpack_to_float(ptxpack_dtype type, uint16_t bits); /* exact */
PTXPACK_API const char *ptxpack_dtype_name(ptxpack_dtype type); /* "f16", "bf16", "e4m3", "int8", "q8_0"; "?" */
PTXPACK_API ptxpack_dtype ptxpack_dtype_of(const char *name);   /* 0: no type has this name */
PTXPACK_API size_t
ptxpack_dtype_bytes(ptxpack_dtype type); /* of an element; 0 for PTXPACK_Q8_0 and any other number */
/* The bytes of `count` elements one after another, of PTXPACK_Q8_0 a multiple of 32; 0 for any other number. */
PTXPACK_API size_t ptxpack_dtype_span(ptxpack_dtype type, size_t count);
/* Element `index` of an array in memory; one of PTXPACK_Q8_0 cannot be set alone, and stays. */
PTXPACK_API float ptxpack_element(ptxpack_dtype type, const void *array, size_t index);
PTXPACK_API void  ptxpack_set_element(ptxpack_dtype type, void *array, size_t index, float value);
/* Sets elements index .. index + count - 1, of PTXPACK_Q8_0 both multiples of 32, as ggml quantises them: with m the largest
 * |value| of a block d = m / 127, and each number is value (1 / d), rounded, halves away from zero; then d is rounded to f16.
 * A block of zeros has d 0 and numbers 0.  A NaN does not count for m, and its number is 0.  With an infinity d is infinite and all
 * numbers are 0, so that every element means NaN.  Where 1 / d is infinite, d is 0 in f16, and numbers are -128, 0 and 127. */
PTXPACK_API void ptxpack_set_elements(ptxpack_dtype type, void *array, size_t index, const float *values,
                                      size_t count);
#ifdef __cplusplus
}
#endif
#endif
