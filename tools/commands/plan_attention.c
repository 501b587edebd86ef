/* plan_attention.c - ptxpack plan attention: the choice of the row, and the report of it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/attention/inspect.h"
#include "tools/problem/hooks/blocks.h"
#include "plan.h"

static size_t options(plan_settings *s, option *rows)
{
    const option own[] = {
        ATTENTION_OPTIONS(&s->attention, "2", "2048", "16"),
        {"dtype", OPTION_TEXT, &s->attention.dtype, "f16|bf16|e4m3  (default f16)"},
        {"score-mod", OPTION_TEXT, &s->attention.hooks.mod[HOOK_SCORE], SCORE_MOD_OPTION_HELP},
        {"mask-mod", OPTION_TEXT, &s->attention.hooks.mod[HOOK_MASK], MASK_MOD_OPTION_HELP},
        {"blocks", OPTION_INT, &s->attention.blocks, BLOCKS_OPTION_HELP},
    };
    memcpy(rows, own, sizeof own);
    return sizeof own / sizeof own[0];
}

static int describe(plan *p) { return attention_problem_describe(&p->settings->attention, &p->attention); }

/* ---- the choice ------------------------------------------------------------------------------------- */
/* Whether a row is listed: it could be taken, or was, or it is refused although its architecture fits. */
static bool is_listed(const plan *p, const plan_survey *survey, const plan_candidate *c)
{
    bool near = (c->row->flags & PTXPACK_VARIANT_ARCH_SPECIFIC) != 0 ? c->row->arch == p->caps.arch
                                                                     : c->row->arch <= p->caps.arch;
    return c->refused ? near : !c->behind || c->row == p->row || p->spilled[c - survey->candidate] > 0;
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
    const int spilled = p->spilled[c - survey->candidate];
    if (c->refused)
        return plan_row_refusal(&attention_op, p->handle, &p->caps, &p->attention.desc, c->row, line);
    if (spilled > 0)
        snprintf(line, PLAN_LINE, "with the hooks it spills %d bytes", spilled);
    return spilled > 0                                        ? line
           : c->row == p->row && p->settings->variant != NULL ? "named by --variant"
           : c->row == p->row && c->row != survey->chosen     ? "the next one"
           : c->row != survey->chosen                         ? ""
           : c->cost <= fastest(survey) * 1.0001              ? "the fastest by the model"
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
        if (!is_listed(p, survey, c))
            continue;
        const char *why = verdict(p, survey, c, line);
        report_open(r, NULL, '{');
        report_text(r, "id", "%s", c->row->id);
        if (!c->refused && !c->behind)
            report_real(r, "estimated_us", c->cost);
        report_text(r, "why", "%s", why);
        report_line(r, c->refused     ? "  {id:-37s}      no  {why}"
                       : c->behind    ? "  {id:-37s}          {why}"
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

/* Texts of CUDA C++ become macros; *problem refers to what they are part of. */
static int take_hooks(plan *p, plan_problem *problem)
{
    ptxpack_attention_desc whole;
    char                   line[PLAN_LINE];
    if (attention_take_desc(p->handle, &p->attention.desc, &whole, &p->translated) != PTXPACK_OK)
        return command_fail("plan", "%s", ptxpack_detail(p->handle));
    p->attention.desc = whole;
    if (plan_resolve(&attention_op, p->handle, &p->caps, &p->attention.desc, &p->attention.geometry, problem,
                     line) != PTXPACK_OK)
        return command_fail("plan", "%s", line), COMMAND_USAGE;
    return COMMAND_OK;
}

static int larger(int a, int b) { return a > b ? a : b; }

/* The row of a kernel with hooks is the best one that spills nothing with them, as ptxpack_attention_plan_create takes it. */
static int choose_without_spills(plan *p, const plan_problem *problem, const plan_survey *survey)
{
    plan_survey           left = *survey;
    ptxpack_symbol        symbols[PTXPACK_INSTANCE_SYMBOLS];
    ptxpack_named_text    texts[PLAN_TEXTS];
    ptxpack_kernel_source source = {.symbols = symbols, .texts = texts};
    int                   bytes = 0;
    source.text_count = attention_op.texts(problem->desc, texts);
    if (source.text_count == 0 || plan_cannot_compile(p) != NULL)
        return COMMAND_OK;
    while ((source.variant = plan_next_row(problem, &left)) != NULL) {
        ptxpack_kernel_info info;
        size_t              at = 0;
        source.symbol_count = plan_symbols(problem, source.variant, symbols);
        if (source.symbol_count == 0)
            return command_fail("plan", "%s", ptxpack_detail(NULL));
        ptxpack_status status = ptxpack_kernel_compile_source(p->handle, &source, &info);
        if (status == PTXPACK_E_NO_JIT) /* only the driver itself compiles */
            return COMMAND_OK;
        if (status != PTXPACK_OK)
            return command_fail("plan", "%s", ptxpack_detail(p->handle));
        const int spilled = larger(info.resources.spill_store_bytes, info.resources.spill_load_bytes);
        if (spilled <= 0) {
            p->row = source.variant;
            return COMMAND_OK;
        }
        while (survey->candidate[at].row != source.variant)
            at++;
        p->spilled[at] = spilled;
        bytes = source.variant == p->row ? spilled : bytes;
    }
    return command_fail(
        "plan", "with this hook every kernel spills registers; %s, the fastest of them, %d bytes a thread",
        p->row->id, bytes);
}

static int choose(plan *p, const plan_problem *problem, plan_survey *survey)
{
    plan_survey_rows(problem, survey);
    if (p->settings->variant != NULL)
        return (p->row = plan_named_row(p, "attention")) != NULL ? check_row(p) : COMMAND_USAGE;
    if (plan_choose(problem, &p->row) != PTXPACK_OK)
        return command_fail("plan", "%s", ptxpack_detail(p->handle));
    return choose_without_spills(p, problem, survey);
}

/* ---- the report ------------------------------------------------------------------------------------- */
int64_t plan_attention_tiles(const plan *p, int64_t group)
{
    const ptxpack_attention_desc *d = &p->attention.desc;
    int64_t                       queries = ptxpack_variant_parameter(p->row, "BLOCK_M", 1) / group;
    return (d->seqlen_q + queries - 1) / queries * d->batch * (d->heads_q / group);
}

static void fill_report(plan *p, const plan_problem *problem, const plan_survey *survey,
                        const plan_kernel *method, const void *layout)
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
    if (d->score_mod != NULL || d->mask_mod != NULL) {
        report_text(&p->out, "hooks", "%s%s%s", d->score_mod != NULL ? "score_mod" : "",
                    d->score_mod != NULL && d->mask_mod != NULL ? ", " : "",
                    d->mask_mod != NULL ? "mask_mod" : "");
        report_line(&p->out, "hooks      {hooks}");
    }
    plan_report_target(p);
    method->tiles(p, layout);
    report_candidates(p, survey);
    method->layouts(p, layout);
    plan_costs costs = {.flops = ptxpack_attention_flops(d),
                        .bytes = ptxpack_attention_bytes(d),
                        .dtype = d->dtype,
                        .symbols = symbols,
                        .symbol_count = plan_symbols(problem, p->row, symbols),
                        .rates = true};
    costs.text_count = attention_op.texts(d, costs.texts);
    plan_report_costs(p, &costs);
}

static int report_plan(plan *p)
{
    plan_problem problem;
    plan_survey  survey;
    const void  *layout;
    void        *own = NULL;
    int          status = take_hooks(p, &problem);
    if (status == COMMAND_OK)
        status = choose(p, &problem, &survey);
    if (status != COMMAND_OK)
        return status;
    const plan_method *taken = plan_method_of(p->row);
    const plan_kernel *method = taken == &attention_wgmma    ? &plan_attention_wgmma
                                : taken == &attention_decode ? &plan_attention_decode
                                                             : &plan_attention_mma;
    if (plan_layout(p->row, &layout, &own) == PTXPACK_OK)
        fill_report(p, &problem, &survey, method, layout);
    else
        status = command_fail("plan", "%s", ptxpack_detail(NULL));
    free(own);
    return status;
}

const plan_operation plan_attention = {"attention", options, describe, report_plan};
