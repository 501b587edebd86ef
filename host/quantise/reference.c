/* reference.c - rounding to e4m3 and the way back on the CPU, with the bits of the kernels. */
#include "op.h"

/* Rows and blocks, one after another: where the elements of each are. */
typedef struct place {
    int64_t x, codes;
    int32_t count;
} place;

static place place_of(const quantise_geometry *g, int64_t vector)
{
    const int64_t row = vector / g->parts, part = vector % g->parts, first = part * g->pieces * QUANTISE_PIECE;
    return (place){row * g->x.stride[MEMORY_ROW] / (int64_t)sizeof(uint16_t) + first,
                   row * g->codes.stride[MEMORY_ROW] + first,
                   (part == g->parts - 1 ? g->last : g->pieces) * QUANTISE_PIECE};
}

static float scale_of(float most, bool powers)
{
    const float least = 0x1p-126f, infinity = 1 / 0.0f;
    float       scale = most / 448;
    if (most == 0)
        return 1;
    if (powers && most != infinity)
        for (scale = least; 448.0 * scale < most;)
            scale *= 2;
    return scale > least ? scale : least;
}

static ptxpack_status check(const ptxpack_quantise_desc *d, const void *x, const void *codes,
                            const float *scales, quantise_geometry *g)
{
    char           line[PLAN_LINE];
    ptxpack_status status = quantise_resolve(d, g, line);
    if (status != PTXPACK_OK)
        return ptxpack_fail(NULL, status, "%s", line);
    if (x == NULL || codes == NULL || scales == NULL)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "%s is NULL",
                            x == NULL       ? "x"
                            : codes == NULL ? "codes"
                                            : "scales");
    return PTXPACK_OK;
}

ptxpack_status ptxpack_quantise_reference(const ptxpack_quantise_desc *d, const void *x, void *codes,
                                          float *scales)
{
    quantise_geometry g;
    ptxpack_status    status = check(d, x, codes, scales, &g);
    for (int64_t i = 0; status == PTXPACK_OK && i < (int64_t)d->rows * g.parts; i++) {
        const place at = place_of(&g, i);
        float       most = 0;
        for (int32_t c = 0; c < at.count; c++) {
            const float value = ptxpack_element(d->dtype, x, (size_t)(at.x + c)),
                        size = value < 0 ? -value : value;
            most = size > most ? size : most; /* a NaN is not larger */
        }
        scales[i] = scale_of(most, (d->options & PTXPACK_QUANTISE_POWERS) != 0);
        const float inverse = 1 / scales[i];
        for (int32_t c = 0; c < at.count; c++)
            ptxpack_set_element(PTXPACK_E4M3, codes, (size_t)(at.codes + c),
                                ptxpack_element(d->dtype, x, (size_t)(at.x + c)) * inverse);
    }
    return status;
}

ptxpack_status ptxpack_dequantise_reference(const ptxpack_quantise_desc *d, const void *codes,
                                            const float *scales, void *x)
{
    quantise_geometry g;
    ptxpack_status    status = check(d, x, codes, scales, &g);
    for (int64_t i = 0; status == PTXPACK_OK && i < (int64_t)d->rows * g.parts; i++) {
        const place at = place_of(&g, i);
        for (int32_t c = 0; c < at.count; c++) {
            const float value = ptxpack_element(PTXPACK_E4M3, codes, (size_t)(at.codes + c)) * scales[i];
            ((uint16_t *)x)[at.x + c] = value == value ? ptxpack_from_float(d->dtype, value) : 0x7fff;
        }
    }
    return status;
}
