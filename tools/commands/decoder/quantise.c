/* quantise.c - ptxpack quantise: random rows to e4m3 with scales, or back. */
#include <stdlib.h>

#include "decoder.h"
#include "host/ptxpack.h"

enum { X, CODES, SCALES };

typedef struct quantise {
    decoder                  d;
    int64_t                  columns;
    bool                     blocks, powers, back;
    ptxpack_quantise_desc    desc;
    ptxpack_quantise_plan   *plan;
    ptxpack_dequantise_plan *back_plan;
} quantise;

static int describe(decoder *d)
{
    enum { MOST_COLUMNS = 1 << 20 };
    quantise *q = (quantise *)d;
    if (!decoder_size(d, "columns", q->columns, MOST_COLUMNS))
        return COMMAND_USAGE;
    const size_t rows = (size_t)d->rows, columns = (size_t)q->columns;
    const size_t scales = q->blocks ? (columns + PTXPACK_QUANTISE_BLOCK - 1) / PTXPACK_QUANTISE_BLOCK : 1;
    q->desc = (ptxpack_quantise_desc){.size = sizeof q->desc,
                                      .dtype = d->dtype,
                                      .rows = (int32_t)d->rows,
                                      .columns = (int32_t)q->columns,
                                      .options = (q->powers ? PTXPACK_QUANTISE_POWERS : 0u) |
                                                 (q->blocks ? PTXPACK_QUANTISE_BLOCKS : 0u)};
    d->tensor[X] = (decoder_tensor){.name = "x",
                                    .bytes = rows * columns * sizeof(uint16_t),
                                    .written = q->back};
    d->tensor[CODES] = (decoder_tensor){.name = "codes", .bytes = rows * columns, .written = !q->back};
    d->tensor[SCALES] = (decoder_tensor){.name = "scales",
                                         .bytes = rows * scales * sizeof(float),
                                         .written = !q->back};
    d->bytes = (double)(d->tensor[X].bytes + d->tensor[CODES].bytes + d->tensor[SCALES].bytes);
    return COMMAND_OK;
}

static void describe_problem(const decoder *d, report *r)
{
    const quantise *q = (const quantise *)d;
    report_int(r, "columns", q->columns);
    report_text(r, "scales", "%s", q->blocks ? "blocks" : "lines");
    report_bool(r, "powers", q->powers);
    report_bool(r, "back", q->back);
    report_text(r, ".way", "%s", q->back ? "from e4m3" : "to e4m3");
    report_text(r, ".more", "%s", q->powers ? ", powers of two" : "");
    report_line(r, "problem   {dtype} {way}, {rows row} of {columns column}, scales of {scales}{more}");
}

/* On the way back the codes and scales of random numbers. */
static void fill(decoder *d, random_state *random)
{
    const quantise       *q = (const quantise *)d;
    const decoder_tensor *t = d->tensor;
    random_normal(random, d->dtype, t[X].host, t[X].bytes / sizeof(uint16_t));
    if (q->back) /* the plan has checked the descriptor */
        ptxpack_quantise_reference(&q->desc, t[X].host, t[CODES].host, (float *)t[SCALES].host);
}

static ptxpack_status plan(decoder *d)
{
    quantise            *q = (quantise *)d;
    const ptxpack_status status = q->back
                                      ? ptxpack_dequantise_plan_create(d->gpu.handle, &q->desc, &q->back_plan)
                                      : ptxpack_quantise_plan_create(d->gpu.handle, &q->desc, &q->plan);
    if (status == PTXPACK_OK)
        d->kernel[0] = q->back ? ptxpack_dequantise_kernel(q->back_plan) : ptxpack_quantise_kernel(q->plan);
    return status;
}

static ptxpack_status launch(decoder *d)
{
    const quantise                *q = (const quantise *)d;
    const decoder_tensor          *t = d->tensor;
    const ptxpack_quantise_buffers b = {.size = sizeof b,
                                        .x = t[X].at,
                                        .codes = t[CODES].at,
                                        .scales = t[SCALES].at};
    return q->back ? ptxpack_dequantise(q->back_plan, &b, d->gpu.stream)
                   : ptxpack_quantise(q->plan, &b, d->gpu.stream);
}

static void end(decoder *d)
{
    ptxpack_quantise_plan_free(((quantise *)d)->plan);
    ptxpack_dequantise_plan_free(((quantise *)d)->back_plan);
}

/* The CPU has the same bits. */
static ptxpack_status verify(const decoder *d, decoder_verdict *v)
{
    const quantise       *q = (const quantise *)d;
    const decoder_tensor *t = d->tensor;
    void                 *x = malloc(t[X].bytes), *codes = malloc(t[CODES].bytes);
    float                *scales = (float *)malloc(t[SCALES].bytes);
    ptxpack_status        status = PTXPACK_E_MEMORY;
    if (x != NULL && codes != NULL && scales != NULL)
        status = q->back
                     ? ptxpack_dequantise_reference(&q->desc, t[CODES].host, (const float *)t[SCALES].host, x)
                     : ptxpack_quantise_reference(&q->desc, t[X].host, codes, scales);
    if (status == PTXPACK_OK && q->back)
        decoder_bits(d, v, X, x, sizeof(uint16_t));
    if (status == PTXPACK_OK && !q->back) {
        decoder_bits(d, v, CODES, codes, 1);
        decoder_bits(d, v, SCALES, scales, sizeof *scales);
    }
    free(x);
    free(codes);
    free(scales);
    return status;
}

static const decoder_op op = {"quantise", describe, describe_problem, fill, plan, launch, end, verify};

int cmd_quantise(int argc, char **argv)
{
    enum { ROWS = 1024, COLUMNS = 4096 };
    quantise     q = {.d = decoder_of(&op, ROWS), .columns = COLUMNS};
    const option rows[] = {
        {"columns", OPTION_INT, &q.columns, "N  of a row (default 4096)"},
        {"blocks", OPTION_FLAG, &q.blocks, "a scale for each 128 elements of a row, not for each row"},
        {"powers", OPTION_FLAG, &q.powers, "scales are powers of two"},
        {"back", OPTION_FLAG, &q.back, "from codes and scales to --dtype"},
        DECODER_OPTIONS(&q.d, "1024"),
    };
    return decoder_run(argc, argv, "ptxpack quantise [options]", rows, &q.d);
}
