/* sum.h - private: sums of integers and basis values.
 *
 * A lone basis value stays one; several become the tuple whose modes they step along: 3@0 + 2@1 = (3,2).
 * An integer other than 0 and a basis value have no sum. */
#ifndef PTXPACK_LAYOUT_SUM_H
#define PTXPACK_LAYOUT_SUM_H
#include "internal.h"

typedef struct tuple_sum {
    const char    *who; /* the operation that adds */
    ptxpack_status status;
    int64_t        total; /* of the integers */
    int            terms; /* basis values */
    int64_t        value[PTXPACK_TUPLE_ITEMS];
    uint64_t       kind[PTXPACK_TUPLE_ITEMS];
} tuple_sum;

void          sum_add(tuple_sum *s, int64_t a, int64_t b, uint64_t kind); /* a times b of that kind */
ptxpack_tuple sum_end(const tuple_sum *s);
#endif
