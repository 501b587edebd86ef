/* reference.c - the choice of experts and the sum of what they make on the CPU, in double precision. */
#include <math.h>

#include "op.h"

static ptxpack_status missing(const char *name)
{
    return ptxpack_fail(NULL, PTXPACK_E_ARG, "%s is NULL", name);
}

/* ---- route -------------------------------------------------------------------------------------------- */
/* A logit; NaN is -inf. */
static double logit(const ptxpack_experts_route_desc *d, const void *logits, size_t at)
{
    const double z = (d->options & PTXPACK_EXPERTS_F32) != 0 ? (double)((const float *)logits)[at]
                                                             : (double)ptxpack_element(d->dtype, logits, at);
    return isnan(z) ? -(double)INFINITY : z;
}

static double share(double z, double most) { return z == most ? 1 : exp(z - most); }

/* The row's experts, in their order, to `chosen`, and their weights. */
static void choose(const ptxpack_experts_route_desc *d, const void *logits, size_t first, int32_t *chosen,
                   float *weights)
{
    bool   taken[EXPERTS_MOST] = {false};
    double sum = 0, most = -(double)INFINITY;
    for (int32_t j = 0; j < d->top_k; j++) {
        int32_t best = -1;
        double  largest = 0;
        for (int32_t e = 0; e < d->experts; e++) {
            const double z = logit(d, logits, first + (size_t)e);
            if (!taken[e] && (best < 0 || z > largest)) {
                best = e;
                largest = z;
            }
        }
        taken[best] = true;
        chosen[j] = best;
        most = j == 0 ? largest : most;
    }
    const bool normalise = (d->options & PTXPACK_EXPERTS_NORMALISE) != 0;
    for (int32_t e = 0; e < d->experts; e++)
        if (!normalise || taken[e])
            sum += share(logit(d, logits, first + (size_t)e), most);
    for (int32_t j = 0; j < d->top_k; j++)
        weights[j] = (float)(share(logit(d, logits, first + (size_t)chosen[j]), most) / sum);
}

ptxpack_status ptxpack_experts_route_reference(const ptxpack_experts_route_desc *d, const void *logits,
                                               int32_t *starts, int32_t *sources, int32_t *places,
                                               float *weights)
{
    char                   line[PLAN_LINE];
    experts_route_geometry g;
    const ptxpack_status   status = experts_route_resolve(d, &g, line);
    if (status != PTXPACK_OK)
        return ptxpack_fail(NULL, status, "%s", line);
    if (logits == NULL || starts == NULL || sources == NULL || places == NULL || weights == NULL)
        return missing(logits == NULL    ? "logits"
                       : starts == NULL  ? "starts"
                       : sources == NULL ? "sources"
                       : places == NULL  ? "places"
                                         : "weights");
    const size_t all = (size_t)d->rows * (size_t)d->top_k, row = (size_t)g.logits.stride[MEMORY_ROW];
    for (size_t r = 0, at = 0; at < all; r++, at += (size_t)d->top_k)
        choose(d, logits, r * (row / g.element_bytes), places + at, weights + at);
    for (int32_t e = 0; e <= d->experts; e++)
        starts[e] = 0;
    for (size_t i = 0; i < all; i++)
        starts[places[i] + 1]++;
    for (int32_t e = 0; e < d->experts; e++)
        starts[e + 1] += starts[e];
    for (size_t i = 0; i < all; i++) { /* starts[e] runs to where those of e end */
        const int32_t place = starts[places[i]]++;
        sources[place] = (int32_t)(i / (size_t)d->top_k);
        places[i] = place;
    }
    for (int32_t e = d->experts - 1; e > 0; e--)
        starts[e] = starts[e - 1];
    starts[0] = 0;
    return PTXPACK_OK;
}

/* ---- combine ------------------------------------------------------------------------------------------ */
ptxpack_status ptxpack_experts_combine_reference(const ptxpack_experts_combine_desc *d, const void *y,
                                                 const int32_t *places, const float *weights,
                                                 const void *residual, double *out)
{
    char                     line[PLAN_LINE];
    experts_combine_geometry g;
    const ptxpack_status     status = experts_combine_resolve(d, &g, line);
    if (status != PTXPACK_OK)
        return ptxpack_fail(NULL, status, "%s", line);
    const bool has_residual = g.residual.bytes != 0;
    if (y == NULL || places == NULL || weights == NULL || (has_residual && residual == NULL) || out == NULL)
        return missing(y == NULL         ? "y"
                       : places == NULL  ? "places"
                       : weights == NULL ? "weights"
                       : out == NULL     ? "out"
                                         : "residual");
    const size_t k = (size_t)d->top_k, columns = (size_t)d->columns;
    const size_t y_row = (size_t)g.y.stride[MEMORY_ROW] / 2,
                 residual_row = (size_t)g.residual.stride[MEMORY_ROW] / 2;
    for (size_t r = 0; r < (size_t)d->rows; r++)
        for (size_t i = 0; i < columns; i++) {
            double sum = has_residual ? (double)ptxpack_element(d->dtype, residual, r * residual_row + i) : 0;
            for (size_t j = r * k; j < (r + 1) * k; j++)
                if (places[j] >= 0 && places[j] < d->rows * d->top_k)
                    sum += (double)weights[j] *
                           (double)ptxpack_element(d->dtype, y, (size_t)places[j] * y_row + i);
            out[r * columns + i] = sum;
        }
    return PTXPACK_OK;
}
