/* sampling.c - ptxpack sampling: tokens drawn from rows of random logits. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "decoder.h"
#include "host/ptxpack.h"

enum { LOGITS, PARAMETERS, TOKENS };

typedef struct sampling {
    decoder                d;
    int64_t                vocabulary, top_k;
    double                 temperature, top_p;
    ptxpack_sampling_desc  desc;
    ptxpack_sampling_plan *plan;
} sampling;

static int describe(decoder *d)
{
    enum { MOST = 1 << 21 };
    sampling    *s = (sampling *)d;
    const size_t rows = (size_t)d->rows;
    if (!decoder_size(d, "vocabulary", s->vocabulary, MOST))
        return COMMAND_USAGE;
    if (s->top_k < 0 || s->top_k > INT32_MAX)
        return command_fail(d->op->word, "--top-k: %lld is not between 0 and 2^31 - 1", (long long)s->top_k),
               COMMAND_USAGE;
    if (fabs(s->temperature) > FLT_MAX || fabs(s->top_p) > FLT_MAX)
        return command_fail(d->op->word, "--temperature %g, --top-p %g: one is beyond the range of float",
                            s->temperature, s->top_p),
               COMMAND_USAGE;
    s->desc = (ptxpack_sampling_desc){.size = sizeof s->desc,
                                      .dtype = d->dtype,
                                      .rows = (int32_t)d->rows,
                                      .vocabulary = (int32_t)s->vocabulary};
    d->tensor[LOGITS] = (decoder_tensor){.name = "logits",
                                         .bytes = rows * (size_t)s->vocabulary * sizeof(uint16_t)};
    d->tensor[PARAMETERS] = (decoder_tensor){.name = "parameters",
                                             .bytes = rows * sizeof(ptxpack_sampling_row),
                                             .written = true};
    d->tensor[TOKENS] = (decoder_tensor){.name = "tokens", .bytes = rows * sizeof(int32_t), .written = true};
    d->bytes = (double)d->tensor[LOGITS].bytes;
    return COMMAND_OK;
}

static void describe_problem(const decoder *d, report *r)
{
    const sampling *s = (const sampling *)d;
    report_int(r, "vocabulary", s->vocabulary);
    report_real(r, "temperature", s->temperature);
    report_int(r, "top_k", s->top_k);
    report_real(r, "top_p", s->top_p);
    report_line(
        r, "problem   {dtype}, {rows row} of {vocabulary logit}, temperature {temperature}, top-k {top_k}, "
           "top-p {top_p}");
}

static void fill(decoder *d, random_state *random)
{
    const sampling       *s = (const sampling *)d;
    ptxpack_sampling_row *row = (ptxpack_sampling_row *)d->tensor[PARAMETERS].host;
    random_normal(random, d->dtype, d->tensor[LOGITS].host, d->tensor[LOGITS].bytes / sizeof(uint16_t));
    for (int64_t i = 0; i < d->rows; i++)
        row[i] = (ptxpack_sampling_row){.temperature = (float)s->temperature,
                                        .top_p = (float)s->top_p,
                                        .top_k = (int32_t)s->top_k,
                                        .seed = random_bits(random)};
}

static ptxpack_status plan(decoder *d)
{
    sampling            *s = (sampling *)d;
    const ptxpack_status status = ptxpack_sampling_plan_create(d->gpu.handle, &s->desc, &s->plan);
    d->kernel[0] = status == PTXPACK_OK ? ptxpack_sampling_kernel(s->plan) : NULL;
    return status;
}

static ptxpack_status launch(decoder *d)
{
    const decoder_tensor          *t = d->tensor;
    const ptxpack_sampling_buffers b = {.size = sizeof b,
                                        .logits = t[LOGITS].at,
                                        .parameters = t[PARAMETERS].at,
                                        .tokens = t[TOKENS].at};
    return ptxpack_sampling(((sampling *)d)->plan, &b, d->gpu.stream);
}

static void end(decoder *d) { ptxpack_sampling_plan_free(((sampling *)d)->plan); }

/* The CPU draws the same tokens. */
static ptxpack_status verify(const decoder *d, decoder_verdict *v)
{
    const decoder_tensor       *t = d->tensor;
    const ptxpack_sampling_row *after = (const ptxpack_sampling_row *)t[PARAMETERS].result;
    int32_t                    *tokens = (int32_t *)malloc(t[TOKENS].bytes);
    const ptxpack_status        status =
        tokens == NULL ? PTXPACK_E_MEMORY
                              : ptxpack_sampling_reference(&((const sampling *)d)->desc, t[LOGITS].host,
                                                           (const ptxpack_sampling_row *)t[PARAMETERS].host, tokens);
    if (status == PTXPACK_OK)
        decoder_bits(d, v, TOKENS, tokens, sizeof *tokens);
    for (int64_t i = 0; i < d->rows && status == PTXPACK_OK; i++)
        decoder_count(v, "the counters", (size_t)i, after[i].counter == 1, 0);
    free(tokens);
    return status;
}

static const decoder_op op = {"sampling", describe, describe_problem, fill, plan, launch, end, verify};

int cmd_sampling(int argc, char **argv)
{
    enum { ROWS = 64, VOCABULARY = 128256 };
    sampling     s = {.d = decoder_of(&op, ROWS), .vocabulary = VOCABULARY, .temperature = 1, .top_p = 1};
    const option rows[] = {
        {"vocabulary", OPTION_INT, &s.vocabulary, "N  logits of a row (default 128256)"},
        {"temperature", OPTION_REAL, &s.temperature, "X  0: the largest logit (default 1)"},
        {"top-k", OPTION_INT, &s.top_k, "N  of the N largest logits; 0: of all (default 0)"},
        {"top-p", OPTION_REAL, &s.top_p, "X  of the largest, whose weights sum to X of all (default 1)"},
        DECODER_OPTIONS(&s.d, "64"),
    };
    return decoder_run(argc, argv, "ptxpack sampling [options]", rows, &s.d);
}
