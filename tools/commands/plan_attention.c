/* plan_attention.c - ptxpack plan attention: the choice of the row, and the report of it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/attention/inspect.h"
#include "plan.h"

static size_t options(plan_settings *s, option *rows)
{
    const option own[] = {
        ATTENTION_OPTIONS(&s->attention, "2", "2048", "16"),
        {"dtype", OPTION_TEXT, &s->attention.dtype, "f16|bf16|e4m3  (default f16)"},
    };
    memcpy(rows, own, sizeof own);
    return sizeof own / sizeof own[0];
}

static int describe(plan *p) { return attention_problem_describe(&p->settings->attention, &p->attention); }

/* ---- the choice ------------------------------------------------------------------------------------- */
/* Whether a row is listed: it could be taken, or it is refused although its architecture fits. */
static bool is_listed(const plan *p, const plan_candidate *c)
{
    bool near = (c->row->flags & PTXPACK_VARIANT_ARCH_SPECIFIC) != 0 ? c->row->arch == p->caps.arch
                                                                     : c->row->arch <= p->caps.arch;
    return c->refused ? near : !c->behind;
}

static double fastest(const plan_survey *survey)
{
    double best = INFINITY;
    for (size_t i = 0; i < survey->count; i++)
        if (!survey->candidate[i].refused && !survey->candidate[i].behind)
            best = fmin(best, survey->candidate[i].cost);
    return best;
}

/* Why this row is taken, or why it cannot be. */
static const char *verdict(const plan *p, const plan_survey *survey, const plan_candidate *c,
                           char line[PLAN_LINE])
{
    if (c->refused)
        return plan_row_refusal(&attention_op, p->handle, &p->caps, &p->attention.desc, c->row, line);
    return c->row == p->row && p->settings->variant != NULL ? "named by --variant"
           : c->row != survey->chosen                       ? ""
           : c->cost <= fastest(survey) * 1.0001            ? "the fastest by the model"
                                                            : "about as fast as any, and first in the table";
}

static void report_candidates(plan *p, const plan_survey *survey)
{
    char    line[PLAN_LINE];
    report *r = &p->out;
    r->late = true;
    report_line(r, "choice     estimated us, and why");
    report_open(r, "candidates", '[');
    for (size_t i = 0; i < survey->count; i++) {
        const plan_candidate *c = &survey->candidate[i];
        if (!is_listed(p, c))
            continue;
        const char *why = verdict(p, survey, c, line);
        report_open(r, NULL, '{');
        report_text(r, "id", "%s", c->row->id);
        if (!c->refused)
            report_real(r, "estimated_us", c->cost);
        report_text(r, "why", "%s", why);
        report_line(r, c->refused     ? "  {id:-37s}      no  {why}"
                       : *why != '\0' ? "  {id:-37s} {estimated_us:7.4g}  {why}"
                                      : "  {id:-37s} {estimated_us:7.4g}");
        report_close(r);
    }
    report_close(r);
    r->late = false;
}

/* Whether the row that --variant names covers the problem and runs on such a device. */
static int check_row(const plan *p)
{
    const ptxpack_attention_desc *d = &p->attention.desc;
    char                          why[PLAN_LINE];
    int64_t                       head_dim = ptxpack_variant_parameter(p->row, "HEAD_DIM", 0);
    if (head_dim < d->head_dim)
        return command_fail("plan", "--variant: %s is for head_dim up to %lld", p->row->id,
                            (long long)head_dim),
               COMMAND_USAGE;
    if (attention_row_values(p->row) < attention_value_dim(d))
        return command_fail("plan", "--variant: %s is for head_dim_v up to %lld", p->row->id,
                            (long long)attention_row_values(p->row)),
               COMMAND_USAGE;
    if (d->dtype == PTXPACK_BF16 && (p->row->flags & PTXPACK_VARIANT_NO_BF16) != 0)
        return command_fail("plan", "--variant: the instructions of %s have no bf16 form", p->row->id),
               COMMAND_USAGE;
    if (plan_row_refusal(&attention_op, p->handle, &p->caps, d, p->row, why) != NULL)
        return command_fail("plan", "--variant: %s %s", p->row->id, why);
    return COMMAND_OK;
}

static int choose(plan *p, plan_survey *survey)
{
    const ptxpack_attention_desc *d = &p->attention.desc;
    if (plan_survey_of(&attention_op, p->handle, &p->caps, d, survey) != PTXPACK_OK)
        return command_fail("plan", "%s", ptxpack_detail(p->handle)), COMMAND_USAGE;
    if (p->settings->variant != NULL)
        return (p->row = plan_named_row(p, "attention")) != NULL ? check_row(p) : COMMAND_USAGE;
    if (plan_row_of(&attention_op, p->handle, &p->caps, d, &p->row) != PTXPACK_OK)
        return command_fail("plan", "%s", ptxpack_detail(p->handle));
    return COMMAND_OK;
}

/* ---- the report ------------------------------------------------------------------------------------- */
int64_t plan_attention_tiles(const plan *p, int64_t group)
{
    const ptxpack_attention_desc *d = &p->attention.desc;
    int64_t                       queries = ptxpack_variant_parameter(p->row, "BLOCK_M", 1) / group;
    return (d->seqlen_q + queries - 1) / queries * d->batch * (d->heads_q / group);
}

static void fill_report(plan *p, const plan_survey *survey, const plan_kernel *method, const void *layout)
{
    const ptxpack_attention_desc *d = &p->attention.desc;
    ptxpack_symbol                symbols[PTXPACK_INSTANCE_SYMBOLS];
    attention_problem_report(&p->out, &p->attention);
    report_line(&p->out, "problem    {types}, batch {batch}, {seqlen_q} x {seqlen_kv} (queries x keys), "
                         "{heads_q} query heads on {heads_kv}, head_dim {head_dim}, {mask_name}");
    if (p->attention.geometry.varlen) {
        report_line(&p->out, "rows       {rows_kept}");
        report_line(&p->out, "lengths    up to {seqlen_q} and {seqlen_kv}, read on the device at each launch; "
                             "figures are of the longest");
    }
    plan_report_target(p);
    method->tiles(p, layout);
    report_candidates(p, survey);
    method->layouts(p, layout);
    plan_report_costs(p, &(plan_costs){.flops = ptxpack_attention_flops(d),
                                       .bytes = ptxpack_attention_bytes(d),
                                       .dtype = d->dtype,
                                       .symbols = symbols,
                                       .symbol_count = plan_row_symbols(p->row, d, symbols),
                                       .rates = true});
}

static int report_plan(plan *p)
{
    plan_survey survey;
    const void *layout;
    void       *own = NULL;
    int         status = choose(p, &survey);
    if (status != COMMAND_OK)
        return status;
    const plan_method *taken = plan_method_of(p->row);
    const plan_kernel *method = taken == &attention_wgmma    ? &plan_attention_wgmma
                                : taken == &attention_decode ? &plan_attention_decode
                                                             : &plan_attention_mma;
    if (plan_layout(p->row, &layout, &own) == PTXPACK_OK)
        fill_report(p, &survey, method, layout);
    else
        status = command_fail("plan", "%s", ptxpack_detail(NULL));
    free(own);
    return status;
}

const plan_operation plan_attention = {"attention", options, describe, report_plan};
