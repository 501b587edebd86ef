/* sampling.c - choosing tokens as an operation of the spine, its checks, and its public calls. */
#include "sampling.h"

#include <stdio.h>

#include "host/plan/calls.h"
#include "op.h"

#define refuse(line, ...) plan_refuse(line, PTXPACK_E_ARG, __VA_ARGS__)

struct ptxpack_sampling_plan {
    plan_head          head;
    sampling_geometry  geometry;
    sampling_arguments arguments; /* all but the addresses */
};

/* ---- checks ------------------------------------------------------------------------------------------- */
static ptxpack_status check_fields(const ptxpack_sampling_desc *d, char *line)
{
    enum { MOST = 1 << 21 /* so that the kernel's sums stay below 2^32 */ };
    if (d == NULL)
        return refuse(line, "desc is NULL");
    if (d->size != sizeof *d)
        return refuse(line, "desc.size is %u; sizeof(ptxpack_sampling_desc) is %zu", (unsigned)d->size,
                      sizeof *d);
    if ((d->options & ~(uint32_t)PTXPACK_SAMPLING_F32) != 0)
        return refuse(line, "options has the unknown bits 0x%x",
                      (unsigned)(d->options & ~(uint32_t)PTXPACK_SAMPLING_F32));
    if (d->options == 0 && d->dtype != PTXPACK_F16 && d->dtype != PTXPACK_BF16)
        return refuse(line, "dtype %d is neither PTXPACK_F16 nor PTXPACK_BF16", (int)d->dtype);
    if (d->reserved != 0)
        return refuse(line, "desc.reserved is %u, not 0", (unsigned)d->reserved);
    if (d->rows < 1)
        return refuse(line, "rows is %d; it must be at least 1", (int)d->rows);
    if (d->vocabulary < 1 || d->vocabulary > MOST)
        return refuse(line, "vocabulary %d is not from 1 to %d", (int)d->vocabulary, (int)MOST);
    if (d->stride != 0 && (d->stride < d->vocabulary || d->stride > INT64_C(1) << 28))
        return refuse(line, "stride %lld is not from the vocabulary, %d, to 2^28", (long long)d->stride,
                      (int)d->vocabulary);
    return PTXPACK_OK;
}

ptxpack_status sampling_resolve(const ptxpack_sampling_desc *d, sampling_geometry *out, char line[PLAN_LINE])
{
    ptxpack_status status = check_fields(d, line);
    if (status != PTXPACK_OK)
        return status;
    const size_t  bytes = (d->options & PTXPACK_SAMPLING_F32) != 0 ? sizeof(float) : sizeof(uint16_t);
    const int64_t stride = d->stride != 0 ? d->stride : d->vocabulary;
    *out = (sampling_geometry){
        .stride = stride,
        .element_bytes = bytes,
        .logits_bytes = ((uint64_t)(d->rows - 1) * (uint64_t)stride + (uint64_t)d->vocabulary) * bytes,
        .parameters_bytes = (uint64_t)d->rows * sizeof(ptxpack_sampling_row),
        .tokens_bytes = (uint64_t)d->rows * sizeof(int32_t),
    };
    return PTXPACK_OK;
}

ptxpack_status sampling_check(const sampling_geometry *g, const ptxpack_sampling_buffers *b,
                              char line[PLAN_LINE])
{
    enum { LOGITS, PARAMETERS, TOKENS, RANGES };
    const memory_range ranges[RANGES] = {
        {"logits", b->logits, g->logits_bytes, g->element_bytes, false},
        {"parameters", b->parameters, g->parameters_bytes, 8, true},
        {"tokens", b->tokens, g->tokens_bytes, sizeof(int32_t), false},
    };
    ptxpack_status status = PTXPACK_OK;
    for (int i = 0; i < RANGES && status == PTXPACK_OK; i++)
        status = memory_check(&ranges[i], line);
    for (int written = PARAMETERS; written < RANGES; written++)
        for (int i = 0; i < written && status == PTXPACK_OK; i++)
            status = memory_refuse_overlap(&ranges[written], &ranges[i], line);
    return status;
}

/* ---- the row ------------------------------------------------------------------------------------------ */
static void symbols(const plan_problem *problem, const void *layout, symbol_list *list)
{
    const ptxpack_sampling_desc *d = (const ptxpack_sampling_desc *)problem->desc;
    const bool                   f32 = (d->options & PTXPACK_SAMPLING_F32) != 0;
    (void)layout;
    symbol_add(list, "F32", f32);
    symbol_add(list, "BF16", !f32 && d->dtype == PTXPACK_BF16);
}

static ptxpack_status fill(const plan_problem *problem, const ptxpack_variant *row, const void *layout,
                           plan_head *head)
{
    const ptxpack_sampling_desc *d = (const ptxpack_sampling_desc *)problem->desc;
    ptxpack_sampling_plan       *plan = (ptxpack_sampling_plan *)head;
    (void)row, (void)layout;
    plan->arguments = (sampling_arguments){
        .stride = plan->geometry.stride * (int64_t)plan->geometry.element_bytes,
        .vocabulary = (uint32_t)d->vocabulary,
    };
    head->grid[0] = (uint32_t)d->rows;
    return PTXPACK_OK;
}

static ptxpack_status address(const plan_head *head, const void *buffers, void *arguments, uint32_t grid[3])
{
    const ptxpack_sampling_buffers *b = (const ptxpack_sampling_buffers *)buffers;
    sampling_arguments             *to = (sampling_arguments *)arguments;
    (void)head, (void)grid;
    to->logits = b->logits;
    to->parameters = b->parameters;
    to->tokens = b->tokens;
    return PTXPACK_OK;
}

static const argument_field fields[] = ARGUMENT_FIELDS(SAMPLING_ARGUMENTS, sampling_arguments);
static const uint16_t       corners[] = {0, 1};
static const plan_method    sampling_method = {
       .file = "sampling/sampling.ptx",
       .ordered = true,
       PLAN_ARGUMENTS(fields, sampling_arguments),
       .symbols = symbols,
       .fill = fill,
       .address = address,
       PLAN_CORNERS(corners),
};

/* ---- the operation ------------------------------------------------------------------------------------ */
static bool covers(const ptxpack_variant *row, const void *desc)
{
    const ptxpack_sampling_desc *d = (const ptxpack_sampling_desc *)desc;
    return (d->options & PTXPACK_SAMPLING_F32) != 0 || plan_row_takes(row, d->dtype);
}

static void describe(const void *desc, char *text, size_t size)
{
    const ptxpack_sampling_desc *d = (const ptxpack_sampling_desc *)desc;
    snprintf(text, size, "dtype %s",
             (d->options & PTXPACK_SAMPLING_F32) != 0 ? "f32" : ptxpack_dtype_name(d->dtype));
}

/* The index says whether logits are f32. */
static void build(const ptxpack_variant *row, ptxpack_dtype dtype, unsigned index, bool corner, void *desc,
                  char *name, size_t size)
{
    (void)row, (void)corner;
    snprintf(name, size, "%s", index != 0 ? " f32 logits" : "");
    *(ptxpack_sampling_desc *)desc = (ptxpack_sampling_desc){.size = sizeof(ptxpack_sampling_desc),
                                                             .dtype = dtype,
                                                             .rows = 1,
                                                             .vocabulary = 1024,
                                                             .options = index};
}

PLAN_CHECKS(ptxpack_sampling, sampling)
static const plan_method *const methods[] = {&sampling_method};
const plan_op                   sampling_op = {
                      .name = "sampling",
                      PLAN_OP(ptxpack_sampling),
                      .covers = covers,
                      .describe = describe,
                      .builds = 2,
                      .build = build,
};

/* ---- the public calls --------------------------------------------------------------------------------- */
PLAN_CALLS(ptxpack_sampling, sampling_op, ptxpack_sampling)
