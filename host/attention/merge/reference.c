/* reference.c - the merge on the CPU, in double precision. */
#include <math.h>

#include "host/scalars.h"
#include "op.h"

/* The parts' shares of the sum, and the lse. */
typedef struct merge_weights {
    double a, b, lse;
} merge_weights;

static merge_weights weigh(double a, double b)
{
    double most = a > b ? a : b;
    if (isnan(a) || isnan(b) || most == INFINITY)
        return (merge_weights){NAN, NAN, NAN};
    if (most == -INFINITY)
        return (merge_weights){0, 0, -INFINITY};
    double of_a = reference_exp(a - most), of_b = reference_exp(b - most), sum = of_a + of_b;
    return (merge_weights){of_a / sum, of_b / sum, most + reference_log(sum)};
}

/* Element `index` of a part; 0 if the part counts nothing. */
static double element(const ptxpack_attention_merge_desc *d, const void *o, double lse, int64_t index)
{
    if (lse == -INFINITY)
        return 0;
    return (d->options & PTXPACK_MERGE_F32_PARTS) != 0 ? ((const float *)o)[index]
                                                       : ptxpack_element(d->dtype, o, (size_t)index);
}

static int64_t place(const ptxpack_attention_merge_desc *d, const merge_geometry *g, int tensor, int64_t batch,
                     int64_t row, int64_t head)
{
    const int64_t *stride = g->tensor[tensor].stride;
    return (batch * stride[MEMORY_BATCH] + row * stride[MEMORY_ROW] + head * stride[MEMORY_HEAD]) /
           (int64_t)merge_element_bytes(d, tensor);
}

ptxpack_status ptxpack_attention_merge_reference(const ptxpack_attention_merge_desc *d, const void *o_a,
                                                 const float *lse_a, const void *o_b, const float *lse_b,
                                                 double *o, double *lse)
{
    char           line[PLAN_LINE];
    merge_geometry g;
    ptxpack_status status = merge_resolve(d, &g, line);
    if (status != PTXPACK_OK)
        return ptxpack_fail(NULL, status, "%s", line);
    if (o_a == NULL || lse_a == NULL || o_b == NULL || lse_b == NULL)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "%s is NULL",
                            o_a == NULL     ? "o_a"
                            : lse_a == NULL ? "lse_a"
                            : o_b == NULL   ? "o_b"
                                            : "lse_b");
    for (int64_t i = 0; i < (int64_t)d->batch * d->heads_q * d->seqlen_q; i++) {
        int64_t       row = i % d->seqlen_q, head = i / d->seqlen_q % d->heads_q;
        int64_t       batch = i / d->seqlen_q / d->heads_q;
        merge_weights w = weigh(lse_a[i], lse_b[i]);
        int64_t       a = place(d, &g, MERGE_A, batch, row, head), b = place(d, &g, MERGE_B, batch, row, head);
        int64_t       to = place(d, &g, MERGE_O, batch, row, head);
        if (lse != NULL)
            lse[i] = w.lse;
        for (int64_t c = 0; o != NULL && c < d->head_dim; c++)
            o[to + c] = w.a * element(d, o_a, lse_a[i], a + c) + w.b * element(d, o_b, lse_b[i], b + c);
    }
    return PTXPACK_OK;
}
