/* experts.c - ptxpack experts: routes of random rows to experts, then the weighted sum of random results. */
#include <math.h>
#include <stdlib.h>

#include "decoder.h"
#include "host/ptxpack.h"

enum { LOGITS, STARTS, SOURCES, PLACES, WEIGHTS, WORKSPACE, Y, RESIDUAL, OUT };

typedef struct experts {
    decoder                       d;
    int64_t                       experts, top_k, columns;
    bool                          normalise;
    ptxpack_experts_route_desc    route;
    ptxpack_experts_combine_desc  combine;
    ptxpack_experts_route_plan   *route_plan;
    ptxpack_experts_combine_plan *combine_plan;
} experts;

static void describe_tensors(experts *e)
{
    decoder_tensor *t = e->d.tensor;
    const size_t    rows = (size_t)e->d.rows, all = rows * (size_t)e->top_k;
    const size_t    line = (size_t)e->columns * sizeof(uint16_t);
    t[LOGITS] = (decoder_tensor){.name = "logits", .bytes = rows * (size_t)e->experts * sizeof(uint16_t)};
    t[STARTS] = (decoder_tensor){.name = "starts",
                                 .bytes = ((size_t)e->experts + 1) * sizeof(int32_t),
                                 .written = true};
    t[SOURCES] = (decoder_tensor){.name = "sources", .bytes = all * sizeof(int32_t), .written = true};
    t[PLACES] = (decoder_tensor){.name = "places", .bytes = all * sizeof(int32_t), .written = true};
    t[WEIGHTS] = (decoder_tensor){.name = "weights", .bytes = all * sizeof(float), .written = true};
    t[Y] = (decoder_tensor){.name = "y", .bytes = all * line};
    t[RESIDUAL] = (decoder_tensor){.name = "residual", .bytes = rows * line};
    t[OUT] = (decoder_tensor){.name = "out", .bytes = rows * line, .written = true};
    for (int i = LOGITS; i <= OUT; i++)
        e->d.bytes += (double)t[i].bytes * (i == PLACES || i == WEIGHTS ? 2 : 1);
}

static int describe(decoder *d)
{
    enum { MOST_EXPERTS = 512, MOST_TOP_K = 16, MOST_COLUMNS = 1 << 20 };
    experts *e = (experts *)d;
    if (!decoder_size(d, "experts", e->experts, MOST_EXPERTS) ||
        !decoder_size(d, "top-k", e->top_k, MOST_TOP_K) ||
        !decoder_size(d, "columns", e->columns, MOST_COLUMNS))
        return COMMAND_USAGE;
    e->route = (ptxpack_experts_route_desc){.size = sizeof e->route,
                                            .dtype = d->dtype,
                                            .rows = (int32_t)d->rows,
                                            .experts = (int32_t)e->experts,
                                            .top_k = (int32_t)e->top_k,
                                            .options = e->normalise ? PTXPACK_EXPERTS_NORMALISE : 0};
    e->combine = (ptxpack_experts_combine_desc){.size = sizeof e->combine,
                                                .dtype = d->dtype,
                                                .rows = (int32_t)d->rows,
                                                .top_k = (int32_t)e->top_k,
                                                .columns = (int32_t)e->columns,
                                                .options = PTXPACK_EXPERTS_RESIDUAL};
    describe_tensors(e);
    return COMMAND_OK;
}

static void describe_problem(const decoder *d, report *r)
{
    const experts *e = (const experts *)d;
    report_int(r, "experts", e->experts);
    report_int(r, "top_k", e->top_k);
    report_int(r, "columns", e->columns);
    report_bool(r, "normalise", e->normalise);
    report_text(r, ".more", "%s", e->normalise ? ", weights that sum to 1" : "");
    report_line(r,
                "problem   {dtype}, {rows row} of {columns column}, each to {top_k} of {experts expert}{more}");
}

static void fill(decoder *d, random_state *random)
{
    static const int filled[] = {LOGITS, Y, RESIDUAL};
    for (size_t i = 0; i < sizeof filled / sizeof filled[0]; i++) {
        const decoder_tensor *t = &d->tensor[filled[i]];
        random_normal(random, d->dtype, t->host, t->bytes / sizeof(uint16_t));
    }
}

static ptxpack_status plan(decoder *d)
{
    experts       *e = (experts *)d;
    ptxpack_status status = ptxpack_experts_route_plan_create(d->gpu.handle, &e->route, &e->route_plan);
    if (status == PTXPACK_OK)
        status = ptxpack_experts_combine_plan_create(d->gpu.handle, &e->combine, &e->combine_plan);
    if (status != PTXPACK_OK)
        return status;
    d->kernel[0] = ptxpack_experts_route_kernel(e->route_plan);
    d->kernel[1] = ptxpack_experts_combine_kernel(e->combine_plan);
    d->tensor[WORKSPACE] = (decoder_tensor){.name = "workspace",
                                            .bytes = ptxpack_experts_route_workspace(e->route_plan),
                                            .zeros = true};
    return PTXPACK_OK;
}

static ptxpack_status launch(decoder *d)
{
    const experts                        *e = (const experts *)d;
    const decoder_tensor                 *t = d->tensor;
    const ptxpack_experts_route_buffers   route = {.size = sizeof route,
                                                   .logits = t[LOGITS].at,
                                                   .starts = t[STARTS].at,
                                                   .sources = t[SOURCES].at,
                                                   .places = t[PLACES].at,
                                                   .weights = t[WEIGHTS].at,
                                                   .workspace = t[WORKSPACE].at};
    const ptxpack_experts_combine_buffers combine = {.size = sizeof combine,
                                                     .y = t[Y].at,
                                                     .places = t[PLACES].at,
                                                     .weights = t[WEIGHTS].at,
                                                     .residual = t[RESIDUAL].at,
                                                     .out = t[OUT].at};
    const ptxpack_status                  status = ptxpack_experts_route(e->route_plan, &route, d->gpu.stream);
    return status == PTXPACK_OK ? ptxpack_experts_combine(e->combine_plan, &combine, d->gpu.stream) : status;
}

static void end(decoder *d)
{
    ptxpack_experts_route_plan_free(((experts *)d)->route_plan);
    ptxpack_experts_combine_plan_free(((experts *)d)->combine_plan);
}

/* The sum is that of the places and weights that the device has made, which are verified alone. */
static ptxpack_status verify_sum(const experts *e, decoder_verdict *v)
{
    const decoder_tensor *t = e->d.tensor;
    double               *out = (double *)calloc(t[OUT].bytes / sizeof(uint16_t), sizeof *out);
    const ptxpack_status  status = out == NULL
                                       ? PTXPACK_E_MEMORY
                                       : ptxpack_experts_combine_reference(&e->combine, t[Y].host,
                                                                           (const int32_t *)t[PLACES].result,
                                                                           (const float *)t[WEIGHTS].result,
                                                                           t[RESIDUAL].host, out);
    if (status == PTXPACK_OK)
        decoder_rounded(&e->d, v, OUT, out, 0, 1e-5);
    free(out);
    return status;
}

static ptxpack_status verify(const decoder *d, decoder_verdict *v)
{
    const experts        *e = (const experts *)d;
    const decoder_tensor *t = d->tensor;
    int32_t              *want[PLACES + 1] = {NULL};
    float                *weights = (float *)malloc(t[WEIGHTS].bytes);
    const float          *got = (const float *)t[WEIGHTS].result;
    bool                  ok = weights != NULL;
    for (int i = STARTS; i <= PLACES; i++)
        ok &= (want[i] = (int32_t *)malloc(t[i].bytes)) != NULL;
    ptxpack_status status = ok ? ptxpack_experts_route_reference(&e->route, t[LOGITS].host, want[STARTS],
                                                                 want[SOURCES], want[PLACES], weights)
                               : PTXPACK_E_MEMORY;
    for (int i = STARTS; i <= PLACES && status == PTXPACK_OK; i++)
        decoder_bits(d, v, i, want[i], sizeof(int32_t));
    for (size_t i = 0; i < t[WEIGHTS].bytes / sizeof(float) && status == PTXPACK_OK; i++) {
        const double error = fabs((double)got[i] - (double)weights[i]);
        decoder_count(v, "weights", i, error <= 1e-5 * (double)weights[i] + 1e-30, error);
    }
    for (int i = STARTS; i <= PLACES; i++)
        free(want[i]);
    free(weights);
    return status == PTXPACK_OK ? verify_sum(e, v) : status;
}

static const decoder_op op = {"experts", describe, describe_problem, fill, plan, launch, end, verify};

int cmd_experts(int argc, char **argv)
{
    enum { ROWS = 1024, EXPERTS = 128, TOP_K = 8, COLUMNS = 2048 };
    experts      e = {.d = decoder_of(&op, ROWS), .experts = EXPERTS, .top_k = TOP_K, .columns = COLUMNS};
    const option rows[] = {
        {"experts", OPTION_INT, &e.experts, "N  experts (default 128)"},
        {"top-k", OPTION_INT, &e.top_k, "N  experts of a row (default 8)"},
        {"columns", OPTION_INT, &e.columns, "N  of a row of what experts make (default 2048)"},
        {"normalise", OPTION_FLAG, &e.normalise, "the weights of a row sum to 1"},
        DECODER_OPTIONS(&e.d, "1024"),
    };
    return decoder_run(argc, argv, "ptxpack experts [options]", rows, &e.d);
}
