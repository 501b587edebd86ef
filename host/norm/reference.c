/* reference.c - RMSNorm on the CPU, in double precision. */
#include "host/scalars.h"
#include "op.h"

static int64_t place(const norm_geometry *g, int tensor, int64_t row, int64_t head)
{
    const int64_t *stride = g->tensor[tensor].stride;
    return (row * stride[MEMORY_ROW] + head * stride[MEMORY_HEAD]) / (int64_t)sizeof(uint16_t);
}

/* What is normalised: x, or r + x as the kernel rounds it, from f32 to dtype. */
static double element(const ptxpack_norm_desc *d, const void *x, const void *r, int64_t x_at, int64_t r_at)
{
    float value = ptxpack_element(d->dtype, x, (size_t)x_at);
    if ((d->options & PTXPACK_NORM_RESIDUAL) == 0)
        return value;
    float sum = value + ptxpack_element(d->dtype, r, (size_t)r_at);
    return ptxpack_to_float(d->dtype, ptxpack_from_float(d->dtype, sum));
}

ptxpack_status ptxpack_norm_reference(const ptxpack_norm_desc *d, const void *x, const void *w, const void *r,
                                      double *sum, double *y)
{
    char           line[PLAN_LINE];
    norm_geometry  g;
    ptxpack_status status = norm_resolve(d, &g, line);
    if (status != PTXPACK_OK)
        return ptxpack_fail(NULL, status, "%s", line);
    const bool residual = (d->options & PTXPACK_NORM_RESIDUAL) != 0;
    if (x == NULL || w == NULL || (residual && r == NULL))
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "%s is NULL", x == NULL ? "x" : w == NULL ? "w" : "r");
    const double one = (d->options & PTXPACK_NORM_ONE_PLUS_WEIGHT) != 0 ? 1 : 0;
    for (int64_t i = 0; i < (int64_t)d->rows * d->heads; i++) {
        const int64_t row = i / d->heads, head = i % d->heads, x_at = place(&g, NORM_X, row, head);
        const int64_t r_at = place(&g, NORM_R, row, head), y_at = place(&g, NORM_Y, row, head);
        double        squares = 0;
        for (int64_t c = 0; c < d->columns; c++) {
            double value = element(d, x, r, x_at + c, r_at + c);
            squares += value * value;
            if (sum != NULL && residual)
                sum[r_at + c] = value;
        }
        const double scale = 1 / reference_root(squares / d->columns + d->eps);
        for (int64_t c = 0; c < d->columns && y != NULL; c++)
            y[y_at + c] = element(d, x, r, x_at + c, r_at + c) * scale *
                          (one + ptxpack_element(d->dtype, w, (size_t)c));
    }
    return PTXPACK_OK;
}
