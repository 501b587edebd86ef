/* quotient.c - the inverse of a divisor. */
#include "quotient.h"

void quotient_inverse(int64_t d, int32_t *inverse, int32_t *shift)
{
    *shift = 0;
    while ((int64_t)1 << *shift < d)
        ++*shift;
    *inverse = (int32_t)(uint32_t)((((int64_t)1 << (31 + *shift)) + d - 1) / d);
}
