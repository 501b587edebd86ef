/* quotient.h - private: kernels divide by numbers that the host knows with a product, which takes a tenth of a division's clocks. */
#ifndef PTXPACK_PLAN_QUOTIENT_H
#define PTXPACK_PLAN_QUOTIENT_H
#include <stdint.h>

/* For d from 1 to 2^30. */
void quotient_inverse(int64_t d, int32_t *inverse, int32_t *shift);

/* x / d, for x below 2^30, as QUOTIENT in ptx/shared/divide.ptx computes it: kernels do, and tests. */
static inline uint32_t quotient(uint32_t x, int32_t inverse, int32_t shift)
{
    return (uint32_t)((uint64_t)(x << 1) * (uint32_t)inverse >> 32) >> shift;
}
#endif
