/* check.c - every check of a merge's descriptor and of the addresses of a launch. */
#include <string.h>

#include "op.h"

#define refuse(line, ...) plan_refuse(line, PTXPACK_E_ARG, __VA_ARGS__)

enum { PIECE = 8 /* elements of o that a thread merges */, MOST_DIM = 1024 };

static ptxpack_status check_fields(const ptxpack_attention_merge_desc *d, char *line)
{
    if (d == NULL)
        return refuse(line, "desc is NULL");
    if (d->size != sizeof *d)
        return refuse(line, "desc.size is %u; sizeof(ptxpack_attention_merge_desc) is %zu", (unsigned)d->size,
                      sizeof *d);
    if (d->dtype != PTXPACK_F16 && d->dtype != PTXPACK_BF16)
        return refuse(line, "dtype %d is neither PTXPACK_F16 nor PTXPACK_BF16", (int)d->dtype);
    if ((d->options & ~(uint32_t)PTXPACK_MERGE_F32_PARTS) != 0)
        return refuse(line, "options has the unknown bits 0x%x",
                      (unsigned)(d->options & ~(uint32_t)PTXPACK_MERGE_F32_PARTS));
    const struct {
        const char *name;
        int32_t     value;
    } extents[] = {{"batch", d->batch}, {"seqlen_q", d->seqlen_q}, {"heads_q", d->heads_q}};
    for (size_t i = 0; i < sizeof extents / sizeof extents[0]; i++)
        if (extents[i].value < 1)
            return refuse(line, "%s is %d; it must be at least 1", extents[i].name, (int)extents[i].value);
    if (d->head_dim < PIECE || d->head_dim % PIECE != 0 || d->head_dim > MOST_DIM)
        return refuse(line, "head_dim %d is not a multiple of %d up to %d", (int)d->head_dim, (int)PIECE,
                      (int)MOST_DIM);
    return PTXPACK_OK;
}

ptxpack_status merge_resolve(const ptxpack_attention_merge_desc *d, merge_geometry *out, char line[PLAN_LINE])
{
    static const char *const names[MERGE_TENSORS] = {"o_a", "o_b", "o"};
    ptxpack_status           status = check_fields(d, line);
    for (int i = 0; i < MERGE_TENSORS && status == PTXPACK_OK; i++) {
        const ptxpack_strides *s = i == MERGE_A ? &d->o_a : i == MERGE_B ? &d->o_b : &d->o;
        const memory_shape     shape = {.name = names[i],
                                        .written = i == MERGE_O,
                                        .extent = {d->batch, d->seqlen_q, d->heads_q},
                                        .stride = {s->batch, s->row, s->head},
                                        .elements = d->head_dim,
                                        .element_bytes = merge_element_bytes(d, i)};
        status = memory_resolve(&shape, &out->tensor[i], line);
    }
    if (status == PTXPACK_OK) /* less than o, so no overflow */
        out->lse_bytes = (uint64_t)d->batch * (uint64_t)d->seqlen_q * (uint64_t)d->heads_q * sizeof(float);
    return status;
}

/* ---- addresses ---------------------------------------------------------------------------------------- */
static bool same_place(const memory_range *a, const memory_tensor *at, const memory_range *b,
                       const memory_tensor *bt)
{
    return a->address == b->address && a->bytes == b->bytes &&
           (at == NULL || memcmp(at->stride, bt->stride, sizeof at->stride) == 0);
}

ptxpack_status merge_check(const merge_geometry *g, const ptxpack_attention_merge_buffers *b,
                           char line[PLAN_LINE])
{
    enum { O_A, O_B, LSE_A, LSE_B, O, LSE, RANGES };
    if (b == NULL)
        return refuse(line, "buffers is NULL");
    if (b->size != sizeof *b)
        return refuse(line, "buffers.size is %u; sizeof(ptxpack_attention_merge_buffers) is %zu",
                      (unsigned)b->size, sizeof *b);
    const memory_range ranges[RANGES] = {
        {"o_a", b->o_a, g->tensor[MERGE_A].bytes, 16, false},
        {"o_b", b->o_b, g->tensor[MERGE_B].bytes, 16, false},
        {"lse_a", b->lse_a, g->lse_bytes, 4, false},
        {"lse_b", b->lse_b, g->lse_bytes, 4, false},
        {"o", b->o, g->tensor[MERGE_O].bytes, 16, false},
        {"lse", b->lse, g->lse_bytes, 4, true},
    };
    for (int i = 0; i < RANGES; i++) {
        ptxpack_status status = memory_check(&ranges[i], line);
        if (status != PTXPACK_OK)
            return status;
    }
    for (int written = O; written < RANGES; written++)
        for (int i = 0; i < written; i++) {
            bool          part = written == O ? i <= O_B : i == LSE_A || i == LSE_B;
            memory_tensor of_o = g->tensor[MERGE_O];
            bool in_place = part && same_place(&ranges[written], written == O ? &of_o : NULL, &ranges[i],
                                               written == O ? &g->tensor[i] : NULL);
            ptxpack_status status = in_place ? PTXPACK_OK
                                             : memory_refuse_overlap(&ranges[written], &ranges[i], line);
            if (status != PTXPACK_OK)
                return status;
        }
    return PTXPACK_OK;
}
