/* check.c - every check of the descriptors of experts and of the addresses of a launch. */
#include "op.h"

#define refuse(line, ...) plan_refuse(line, PTXPACK_E_ARG, __VA_ARGS__)

enum {
    MOST_ROWS = 1 << 24,
    MOST_CHOICES = 16,
    PIECE = 8 /* elements that a thread of combine.ptx has at once */,
    CHUNK = 64 /* rows of a block of route.ptx, at least; so many alone are a grid of one block */,
    MOST_CHUNKS = 128,
    WARP = 32,
    COUNTERS = 16 /* bytes of the counters in the workspace */
};

/* ---- descriptors -------------------------------------------------------------------------------------- */
/* What both descriptors have. */
static ptxpack_status check_common(ptxpack_dtype dtype, bool f32, uint32_t unknown, int32_t rows, int32_t top_k,
                                   char *line)
{
    if (unknown != 0)
        return refuse(line, "options has the unknown bits 0x%x", (unsigned)unknown);
    if (!f32 && dtype != PTXPACK_F16 && dtype != PTXPACK_BF16)
        return refuse(line, "dtype %d is neither PTXPACK_F16 nor PTXPACK_BF16", (int)dtype);
    if (rows < 1 || rows > MOST_ROWS)
        return refuse(line, "rows %d is not from 1 to %d", (int)rows, (int)MOST_ROWS);
    if (top_k < 1 || top_k > MOST_CHOICES)
        return refuse(line, "top_k %d is not from 1 to %d", (int)top_k, (int)MOST_CHOICES);
    return PTXPACK_OK;
}

static ptxpack_status check_route(const ptxpack_experts_route_desc *d, char *line)
{
    const uint32_t known = PTXPACK_EXPERTS_F32 | PTXPACK_EXPERTS_NORMALISE;
    if (d == NULL)
        return refuse(line, "desc is NULL");
    if (d->size != sizeof *d)
        return refuse(line, "desc.size is %u; sizeof(ptxpack_experts_route_desc) is %zu", (unsigned)d->size,
                      sizeof *d);
    ptxpack_status status = check_common(d->dtype, (d->options & PTXPACK_EXPERTS_F32) != 0, d->options & ~known,
                                         d->rows, d->top_k, line);
    if (status != PTXPACK_OK)
        return status;
    if (d->experts < 1 || d->experts > EXPERTS_MOST)
        return refuse(line, "experts %d is not from 1 to %d", (int)d->experts, (int)EXPERTS_MOST);
    if (d->top_k > d->experts)
        return refuse(line, "top_k %d is more than experts, %d", (int)d->top_k, (int)d->experts);
    return PTXPACK_OK;
}

ptxpack_status experts_route_resolve(const ptxpack_experts_route_desc *d, experts_route_geometry *out,
                                     char line[PLAN_LINE])
{
    ptxpack_status status = check_route(d, line);
    if (status != PTXPACK_OK)
        return status;
    *out = (experts_route_geometry){
        .element_bytes = (d->options & PTXPACK_EXPERTS_F32) != 0 ? sizeof(float) : sizeof(uint16_t),
        .starts_bytes = ((uint64_t)d->experts + 1) * sizeof(int32_t),
        .all_bytes = (uint64_t)d->rows * (uint64_t)d->top_k * sizeof(int32_t),
        .chunk_rows = CHUNK,
        .padded = WARP,
    };
    const memory_shape logits = {.name = "logits",
                                 .extent = {1, d->rows, 1},
                                 .stride = {0, d->stride, 0},
                                 .elements = d->experts,
                                 .element_bytes = out->element_bytes,
                                 .step = 1};
    while (out->padded < (uint32_t)d->experts)
        out->padded *= 2;
    if (d->rows > MOST_CHUNKS * CHUNK)
        out->chunk_rows = ((uint32_t)d->rows - 1) / (MOST_CHUNKS * WARP) * WARP + WARP;
    out->chunks = ((uint32_t)d->rows - 1) / out->chunk_rows + 1;
    if (out->chunks > 1)
        out->workspace = COUNTERS + (uint64_t)out->chunks * out->padded * sizeof(uint32_t);
    return memory_resolve(&logits, &out->logits, line);
}

ptxpack_status experts_combine_resolve(const ptxpack_experts_combine_desc *d, experts_combine_geometry *out,
                                       char line[PLAN_LINE])
{
    if (d == NULL)
        return refuse(line, "desc is NULL");
    if (d->size != sizeof *d)
        return refuse(line, "desc.size is %u; sizeof(ptxpack_experts_combine_desc) is %zu", (unsigned)d->size,
                      sizeof *d);
    ptxpack_status status = check_common(d->dtype, false, d->options & ~(uint32_t)PTXPACK_EXPERTS_RESIDUAL,
                                         d->rows, d->top_k, line);
    if (status != PTXPACK_OK)
        return status;
    if (d->columns < PIECE || d->columns % PIECE != 0)
        return refuse(line, "columns %d is not a multiple of %d", (int)d->columns, (int)PIECE);
    *out = (experts_combine_geometry){.all_bytes = (uint64_t)d->rows * (uint64_t)d->top_k * sizeof(int32_t)};
    const struct {
        const char    *name;
        int64_t        rows, stride;
        memory_tensor *to;
    } tensors[] = {{"y", (int64_t)d->rows * d->top_k, d->stride_y, &out->y},
                   {"out", d->rows, d->stride_out, &out->out},
                   {"residual", d->rows, d->stride_residual, &out->residual}};
    const int count = (d->options & PTXPACK_EXPERTS_RESIDUAL) != 0 ? 3 : 2;
    for (int i = 0; i < count && status == PTXPACK_OK; i++) {
        const memory_shape shape = {.name = tensors[i].name,
                                    .written = i == 1,
                                    .extent = {1, tensors[i].rows, 1},
                                    .stride = {0, tensors[i].stride, 0},
                                    .elements = d->columns,
                                    .element_bytes = sizeof(uint16_t)};
        status = memory_resolve(&shape, tensors[i].to, line);
    }
    return status;
}

/* ---- addresses ---------------------------------------------------------------------------------------- */
/* All are there, and those from `written` on overlap none before them, but for the last one the range `in_place` (below 0: none). */
static ptxpack_status check_ranges(const memory_range *ranges, int count, int written, int in_place, char *line)
{
    ptxpack_status status = PTXPACK_OK;
    for (int i = 0; i < count && status == PTXPACK_OK; i++)
        status = memory_check(&ranges[i], line);
    for (int w = written; w < count; w++)
        for (int i = 0; i < w && status == PTXPACK_OK; i++)
            if (w != count - 1 || i != in_place)
                status = memory_refuse_overlap(&ranges[w], &ranges[i], line);
    return status;
}

ptxpack_status experts_route_check(const experts_route_geometry *g, const ptxpack_experts_route_buffers *b,
                                   char line[PLAN_LINE])
{
    const bool         needs = g->workspace != 0;
    const memory_range ranges[] = {
        {"logits", b->logits, g->logits.bytes, g->element_bytes, false},
        {"starts", b->starts, g->starts_bytes, sizeof(int32_t), false},
        {"sources", b->sources, g->all_bytes, sizeof(int32_t), false},
        {"places", b->places, g->all_bytes, sizeof(int32_t), false},
        {"weights", b->weights, g->all_bytes, sizeof(float), false},
        {"workspace", needs ? b->workspace : 0, g->workspace, 16, !needs},
    };
    return check_ranges(ranges, sizeof ranges / sizeof ranges[0], 1, -1, line);
}

ptxpack_status experts_combine_check(const experts_combine_geometry        *g,
                                     const ptxpack_experts_combine_buffers *b, char line[PLAN_LINE])
{
    enum { RESIDUAL = 3, OUT, RANGES };
    const bool         needs = g->residual.bytes != 0;
    const memory_range ranges[RANGES] = {
        {"y", b->y, g->y.bytes, 16, false},
        {"places", b->places, g->all_bytes, sizeof(int32_t), false},
        {"weights", b->weights, g->all_bytes, sizeof(float), false},
        {"residual", needs ? b->residual : 0, g->residual.bytes, 16, !needs},
        {"out", b->out, g->out.bytes, 16, false},
    };
    const bool in_place = b->residual == b->out && g->residual.stride[MEMORY_ROW] == g->out.stride[MEMORY_ROW];
    return check_ranges(ranges, RANGES, OUT, in_place ? RESIDUAL : -1, line);
}
