/* norm.c - ptxpack norm: RMSNorm of random rows. */
#include <stdlib.h>

#include "decoder.h"
#include "host/ptxpack.h"

enum { X, W, R, Y };

typedef struct norm {
    decoder            d;
    int64_t            heads, columns;
    double             eps;
    bool               residual, one_plus;
    ptxpack_norm_desc  desc;
    ptxpack_norm_plan *plan;
} norm;

static int describe(decoder *d)
{
    enum { MOST_HEADS = 1 << 16, MOST_COLUMNS = 16384 };
    norm        *n = (norm *)d;
    const size_t bytes = (size_t)d->rows * (size_t)n->heads * (size_t)n->columns * sizeof(uint16_t);
    if (!decoder_size(d, "heads", n->heads, MOST_HEADS) ||
        !decoder_size(d, "columns", n->columns, MOST_COLUMNS))
        return COMMAND_USAGE;
    n->desc = (ptxpack_norm_desc){.size = sizeof n->desc,
                                  .dtype = d->dtype,
                                  .rows = (int32_t)d->rows,
                                  .heads = (int32_t)n->heads,
                                  .columns = (int32_t)n->columns,
                                  .options = (n->residual ? PTXPACK_NORM_RESIDUAL : 0u) |
                                             (n->one_plus ? PTXPACK_NORM_ONE_PLUS_WEIGHT : 0u),
                                  .eps = (float)n->eps};
    d->tensor[X] = (decoder_tensor){.name = "x", .bytes = bytes};
    d->tensor[W] = (decoder_tensor){.name = "w", .bytes = (size_t)n->columns * sizeof(uint16_t)};
    d->tensor[R] = (decoder_tensor){.name = "r", .bytes = n->residual ? bytes : 0, .written = true};
    d->tensor[Y] = (decoder_tensor){.name = "y", .bytes = bytes, .written = true};
    d->bytes = (double)bytes * (n->residual ? 4 : 2);
    return COMMAND_OK;
}

static void describe_problem(const decoder *d, report *r)
{
    const norm *n = (const norm *)d;
    report_int(r, "heads", n->heads);
    report_int(r, "columns", n->columns);
    report_real(r, "eps", n->eps);
    report_bool(r, "residual", n->residual);
    report_bool(r, "one_plus", n->one_plus);
    report_text(r, ".more", "%s%s", n->residual ? ", r + x is normalised and written to r" : "",
                n->one_plus ? ", the weight is 1 + w" : "");
    report_line(r, "problem   {dtype}, {rows row} of {heads head} of {columns column}, eps {eps}{more}");
}

static void fill(decoder *d, random_state *random)
{
    for (int i = X; i <= R; i++)
        random_normal(random, d->dtype, d->tensor[i].host, d->tensor[i].bytes / sizeof(uint16_t));
}

static ptxpack_status plan(decoder *d)
{
    norm                *n = (norm *)d;
    const ptxpack_status status = ptxpack_norm_plan_create(d->gpu.handle, &n->desc, &n->plan);
    d->kernel[0] = status == PTXPACK_OK ? ptxpack_norm_kernel(n->plan) : NULL;
    return status;
}

static ptxpack_status launch(decoder *d)
{
    const decoder_tensor      *t = d->tensor;
    const ptxpack_norm_buffers b = {.size = sizeof b, .x = t[X].at, .w = t[W].at, .r = t[R].at, .y = t[Y].at};
    return ptxpack_norm(((norm *)d)->plan, &b, d->gpu.stream);
}

static void end(decoder *d) { ptxpack_norm_plan_free(((norm *)d)->plan); }

/* The sum with the residual is exact: the reference rounds it as the kernel does. */
static ptxpack_status verify(const decoder *d, decoder_verdict *v)
{
    const norm           *n = (const norm *)d;
    const decoder_tensor *t = d->tensor;
    const size_t          count = t[Y].bytes / sizeof(uint16_t);
    double               *sum = (double *)calloc(count, sizeof *sum), *y = (double *)calloc(count, sizeof *y);
    ptxpack_status        status = PTXPACK_E_MEMORY;
    if (sum != NULL && y != NULL)
        status = ptxpack_norm_reference(&n->desc, t[X].host, t[W].host, t[R].host, n->residual ? sum : NULL, y);
    if (status == PTXPACK_OK) {
        decoder_rounded(d, v, Y, y, 4e-6, 0x1p-25);
        decoder_rounded(d, v, R, sum, 0, 0);
    }
    free(sum);
    free(y);
    return status;
}

static const decoder_op op = {"norm", describe, describe_problem, fill, plan, launch, end, verify};

int cmd_norm(int argc, char **argv)
{
    enum { ROWS = 1024, COLUMNS = 4096 };
    norm         n = {.d = decoder_of(&op, ROWS), .heads = 1, .columns = COLUMNS, .eps = 1e-5};
    const option rows[] = {
        {"heads", OPTION_INT, &n.heads, "N  of a row, each normalised alone (default 1)"},
        {"columns", OPTION_INT, &n.columns, "N  of a head (default 4096)"},
        {"eps", OPTION_REAL, &n.eps, "X  added to the mean of squares (default 1e-5)"},
        {"residual", OPTION_FLAG, &n.residual, "r + x is normalised, and written to r"},
        {"one-plus", OPTION_FLAG, &n.one_plus, "the weight is 1 + w"},
        DECODER_OPTIONS(&n.d, "1024"),
    };
    return decoder_run(argc, argv, "ptxpack norm [options]", rows, &n.d);
}
