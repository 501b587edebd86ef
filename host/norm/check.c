/* check.c - every check of a norm's descriptor and of the addresses of a launch. */
#include <math.h>
#include <string.h>

#include "op.h"

#define refuse(line, ...) plan_refuse(line, PTXPACK_E_ARG, __VA_ARGS__)

enum { PIECE = 8 /* elements that a thread has at once */, MOST_COLUMNS = 16384 };

static ptxpack_status check_fields(const ptxpack_norm_desc *d, char *line)
{
    const uint32_t known = PTXPACK_NORM_RESIDUAL | PTXPACK_NORM_ONE_PLUS_WEIGHT;
    if (d == NULL)
        return refuse(line, "desc is NULL");
    if (d->size != sizeof *d)
        return refuse(line, "desc.size is %u; sizeof(ptxpack_norm_desc) is %zu", (unsigned)d->size, sizeof *d);
    if (d->dtype != PTXPACK_F16 && d->dtype != PTXPACK_BF16)
        return refuse(line, "dtype %d is neither PTXPACK_F16 nor PTXPACK_BF16", (int)d->dtype);
    if ((d->options & ~known) != 0)
        return refuse(line, "options has the unknown bits 0x%x", (unsigned)(d->options & ~known));
    if (d->reserved != 0)
        return refuse(line, "desc.reserved is %u, not 0", (unsigned)d->reserved);
    if (d->rows < 1 || d->heads < 1)
        return refuse(line, "%s is %d; it must be at least 1", d->rows < 1 ? "rows" : "heads",
                      (int)(d->rows < 1 ? d->rows : d->heads));
    if (d->columns < PIECE || d->columns % PIECE != 0 || d->columns > MOST_COLUMNS)
        return refuse(line, "columns %d is not a multiple of %d up to %d", (int)d->columns, (int)PIECE,
                      (int)MOST_COLUMNS);
    if (!(d->eps > 0) || isinf(d->eps))
        return refuse(line, "eps is %g; it must be positive", (double)d->eps);
    return PTXPACK_OK;
}

ptxpack_status norm_resolve(const ptxpack_norm_desc *d, norm_geometry *out, char line[PLAN_LINE])
{
    static const char *const names[NORM_TENSORS] = {"x", "r", "y"};
    ptxpack_status           status = check_fields(d, line);
    if (status != PTXPACK_OK)
        return status;
    *out = (norm_geometry){.w_bytes = (uint64_t)d->columns * sizeof(uint16_t)};
    for (int i = 0; i < NORM_TENSORS && status == PTXPACK_OK; i++) {
        const ptxpack_norm_strides *s = i == NORM_X ? &d->x : i == NORM_R ? &d->r : &d->y;
        const memory_shape          shape = {.name = names[i],
                                             .written = i != NORM_X,
                                             .extent = {1, d->rows, d->heads},
                                             .stride = {0, s->row, s->head},
                                             .elements = d->columns,
                                             .element_bytes = sizeof(uint16_t)};
        if (i != NORM_R || (d->options & PTXPACK_NORM_RESIDUAL) != 0)
            status = memory_resolve(&shape, &out->tensor[i], line);
    }
    return status;
}

/* ---- addresses ---------------------------------------------------------------------------------------- */
ptxpack_status norm_check(const norm_geometry *g, const ptxpack_norm_buffers *b, char line[PLAN_LINE])
{
    enum { X, W, R, Y, RANGES };
    const bool         residual = g->tensor[NORM_R].bytes != 0;
    const memory_range ranges[RANGES] = {
        {"x", b->x, g->tensor[NORM_X].bytes, 16, false},
        {"w", b->w, g->w_bytes, 16, false},
        {"r", residual ? b->r : 0, g->tensor[NORM_R].bytes, 16, !residual},
        {"y", b->y, g->tensor[NORM_Y].bytes, 16, false},
    };
    const bool in_place = b->x == b->y && memcmp(g->tensor[NORM_X].stride, g->tensor[NORM_Y].stride,
                                                 sizeof g->tensor[NORM_X].stride) == 0;
    for (int i = 0; i < RANGES; i++) {
        ptxpack_status status = memory_check(&ranges[i], line);
        if (status != PTXPACK_OK)
            return status;
    }
    for (int written = R; written < RANGES; written++)
        for (int i = 0; i < written; i++) {
            ptxpack_status status = written == Y && i == X && in_place
                                        ? PTXPACK_OK
                                        : memory_refuse_overlap(&ranges[written], &ranges[i], line);
            if (status != PTXPACK_OK)
                return status;
        }
    return PTXPACK_OK;
}
