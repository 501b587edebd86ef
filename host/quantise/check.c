/* check.c - every check of a descriptor and of the addresses of a launch. */
#include "op.h"

#define refuse(line, ...) plan_refuse(line, PTXPACK_E_ARG, __VA_ARGS__)

enum { COLUMNS = 16 /* a row of codes has whole vectors of so many */, MOST_COLUMNS = 32768 };

static ptxpack_status check_fields(const ptxpack_quantise_desc *d, char *line)
{
    const uint32_t known = PTXPACK_QUANTISE_POWERS | PTXPACK_QUANTISE_BLOCKS;
    if (d == NULL)
        return refuse(line, "desc is NULL");
    if (d->size != sizeof *d)
        return refuse(line, "desc.size is %u; sizeof(ptxpack_quantise_desc) is %zu", (unsigned)d->size,
                      sizeof *d);
    if (d->dtype != PTXPACK_F16 && d->dtype != PTXPACK_BF16)
        return refuse(line, "dtype %d is neither PTXPACK_F16 nor PTXPACK_BF16", (int)d->dtype);
    if ((d->options & ~known) != 0)
        return refuse(line, "options has the unknown bits 0x%x", (unsigned)(d->options & ~known));
    if (d->reserved != 0)
        return refuse(line, "desc.reserved is %u, not 0", (unsigned)d->reserved);
    if (d->rows < 1)
        return refuse(line, "rows is %d; it must be at least 1", (int)d->rows);
    if (d->columns < COLUMNS || d->columns % COLUMNS != 0)
        return refuse(line, "columns %d is not a multiple of %d", (int)d->columns, (int)COLUMNS);
    if ((d->options & PTXPACK_QUANTISE_BLOCKS) == 0 && d->columns > MOST_COLUMNS)
        return refuse(line, "columns %d: a row with one scale has up to %d", (int)d->columns,
                      (int)MOST_COLUMNS);
    return PTXPACK_OK;
}

static ptxpack_status resolve_matrix(const ptxpack_quantise_desc *d, const char *name, int64_t stride,
                                     size_t element_bytes, memory_tensor *out, char *line)
{
    const memory_shape shape = {.name = name,
                                .written = true,
                                .extent = {1, d->rows, 1},
                                .stride = {0, stride, 0},
                                .elements = d->columns,
                                .element_bytes = element_bytes};
    return memory_resolve(&shape, out, line);
}

ptxpack_status quantise_resolve(const ptxpack_quantise_desc *d, quantise_geometry *out, char line[PLAN_LINE])
{
    ptxpack_status status = check_fields(d, line);
    if (status != PTXPACK_OK)
        return status;
    const bool    blocks = (d->options & PTXPACK_QUANTISE_BLOCKS) != 0;
    const int32_t pieces = d->columns / QUANTISE_PIECE;
    const int32_t whole = blocks ? PTXPACK_QUANTISE_BLOCK / QUANTISE_PIECE : pieces;
    *out = (quantise_geometry){.parts = (pieces - 1) / whole + 1, .pieces = whole};
    out->last = pieces - (out->parts - 1) * whole;
    out->scale_bytes = (uint64_t)d->rows * (uint64_t)out->parts * sizeof(float);
    status = resolve_matrix(d, "x", d->stride_x, sizeof(uint16_t), &out->x, line);
    return status != PTXPACK_OK
               ? status
               : resolve_matrix(d, "codes", d->stride_codes, sizeof(uint8_t), &out->codes, line);
}

/* ---- addresses ---------------------------------------------------------------------------------------- */
ptxpack_status quantise_check(const quantise_geometry *g, const ptxpack_quantise_buffers *b, bool back,
                              char line[PLAN_LINE])
{
    enum { X, CODES, SCALES, RANGES, PAIRS = 3 };
    static const int   pairs[PAIRS][2] = {{CODES, X}, {SCALES, X}, {SCALES, CODES}};
    const memory_range ranges[RANGES] = {
        {"x", b->x, g->x.bytes, 16, false},
        {"codes", b->codes, g->codes.bytes, 16, false},
        {"scales", b->scales, g->scale_bytes, sizeof(float), false},
    };
    for (int i = 0; i < RANGES; i++) {
        ptxpack_status status = memory_check(&ranges[i], line);
        if (status != PTXPACK_OK)
            return status;
    }
    for (int i = 0; i < (back ? PAIRS - 1 : PAIRS); i++) { /* on the way back the last two are both read */
        ptxpack_status status = memory_refuse_overlap(&ranges[pairs[i][0]], &ranges[pairs[i][1]], line);
        if (status != PTXPACK_OK)
            return status;
    }
    return PTXPACK_OK;
}
