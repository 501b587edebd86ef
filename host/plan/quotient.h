/* quotient.h - private: kernels divide by numbers that the host knows with a product, which takes a tenth of a division's clocks. */
#ifndef PTXPACK_PLAN_QUOTIENT_H
#define PTXPACK_PLAN_QUOTIENT_H
#include <stdint.h>

/* For d from 1 to 2^30 and x below 2^30: x / d = (2 x inverse) >> 32 >> shift, in unsigned numbers of 32 bits and their
 * product of 64, as QUOTIENT in ptx/shared/divide.ptx computes it. */
void quotient_inverse(int64_t d, int32_t *inverse, int32_t *shift);
#endif
