/* reference.h - private: attention of chosen rows on the CPU, in double precision and as the
 * element type would compute it; for checks of large problems and for the tests. */
#ifndef PTXPACK_ATTENTION_REFERENCE_H
#define PTXPACK_ATTENTION_REFERENCE_H
#include <stddef.h>
#include <stdint.h>
#include "attention.h"

typedef struct attention_reference attention_reference;

/* One query row. */
typedef struct attention_row {
    int32_t batch, head, row;
} attention_row;

/* What to compute for `count` rows; any of them NULL. */
typedef struct attention_row_results {
    double *o; /* [count][head_dim_v]: exact but for double's rounding */
    /* [count][head_dim_v]: the same with S, P and O rounded to the element type; with PTXPACK_E4M3 S and O
     * to bf16, P to e4m3 where the largest of its row is 256; with PTXPACK_Q8_0 the elements of K and V to f16, too. */
    double *rounded;
    double *lse; /* [count]: natural log; where a row has nothing to attend to -inf, or its sink */
} attention_row_results;

/* Keep K and V as floats in the order in which the rows need them (4 bytes for each element, 8 of PTXPACK_Q8_0).  q, the descales
 * (as in ptxpack_attention_reference), sinks, slopes, bias, bits and hooks are read later and must outlive *out.  `lengths`: the other arrays
 * that the descriptor asks for, read now; NULL where it asks for none.  After a failure the line is ptxpack_detail(NULL).
 *   PTXPACK_E_ARG, _E_MEMORY */
ptxpack_status attention_reference_open(const ptxpack_attention_desc *desc, const void *q, const void *k,
                                        const void *v, const ptxpack_descales *descales,
                                        const ptxpack_attention_lengths *lengths, attention_reference **out);
/* The query rows of sequence `batch`. */
int64_t attention_reference_queries(const attention_reference *reference, int32_t batch);
void    attention_reference_close(attention_reference *reference); /* NULL is allowed */
/* Compute rows on `threads` threads (at least one; fewer when no more can be had).  PTXPACK_E_MEMORY */
ptxpack_status attention_reference_rows(const attention_reference *reference, const attention_row *rows,
                                        size_t count, int threads, const attention_row_results *results);
#endif
