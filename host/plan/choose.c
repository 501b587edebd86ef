/* choose.c - which row of kernels.def a problem takes, and why it takes none of the others. */
#include <stdarg.h>
#include <stdio.h>

#include "plan.h"

ptxpack_status plan_refuse(char *line, ptxpack_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, PLAN_LINE, format, arguments);
    va_end(arguments);
    return status;
}

ptxpack_device_caps plan_device_caps(const ptxpack *handle)
{
    enum { NEWEST_ISA = 90 };
    ptxpack_device_caps caps = ptxpack_device(handle)->caps;
    if (caps.isa == 0 && ptxpack_driver_table(handle) == NULL)
        caps.isa = NEWEST_ISA;
    return caps;
}

ptxpack_status plan_resolve(const plan_op *op, const ptxpack *handle, const ptxpack_device_caps *caps,
                            const void *desc, void *geometry, plan_problem *out, char line[PLAN_LINE])
{
    *out = (plan_problem){.op = op, .handle = handle, .desc = desc, .geometry = geometry};
    if (handle != NULL) {
        out->caps = caps != NULL ? *caps : plan_device_caps(handle);
        out->sm_count = ptxpack_device(handle)->sm_count;
    }
    return op->resolve(desc, geometry, line);
}

static ptxpack_dtype type_of(const plan_problem *p)
{
    return *(const ptxpack_dtype *)((const char *)p->desc + p->op->dtype_at);
}

static bool covers(const plan_problem *p, const ptxpack_variant *row)
{
    if (plan_op_of(row) != p->op)
        return false;
    return p->op->covers != NULL ? p->op->covers(row, p->desc) : plan_row_takes(row, type_of(p));
}

static void describe(const plan_problem *p, char *text, size_t size)
{
    if (p->op->describe != NULL)
        p->op->describe(p->desc, text, size);
    else
        snprintf(text, size, "dtype %s", ptxpack_dtype_name(type_of(p)));
}

const char *plan_refusal(const plan_problem *p, const ptxpack_variant *row, char line[PLAN_LINE])
{
    const plan_method *method = plan_method_of(row);
    if (method == NULL || !covers(p, row)) {
        char what[64];
        describe(p, what, sizeof what);
        plan_refuse(line, PTXPACK_E_UNSUPPORTED, "does not cover %s", what);
        return line;
    }
    const char *why = ptxpack_variant_refusal(row, &p->caps, line, PLAN_LINE);
    return why != NULL || method->refusal == NULL ? why : method->refusal(p, row, line);
}

/* ---- survey ------------------------------------------------------------------------------------- */
/* The place of the row's method among those of the operation, where the first that can take a problem does; twice, so that
 * there is one behind each for a method that yields to it. */
static size_t rank_of(const plan_problem *p, const ptxpack_variant *row)
{
    const plan_method *method = plan_method_of(row), *place = plan_method_place(method);
    size_t             rank = 0;
    while (p->op->by_method && p->op->methods[rank] != place)
        rank++;
    const size_t behind = method->yields != NULL ? method->yields(p) : 0;
    return 2 * rank + (behind > 0 ? 2 * behind + 1 : 0);
}

static bool is_better(const plan_problem *p, const plan_candidate *c, const plan_candidate *best)
{
    size_t rank = rank_of(p, c->row), best_rank = best != NULL ? rank_of(p, best->row) : SIZE_MAX;
    return rank != best_rank ? rank < best_rank : c->cost < p->op->margin * best->cost;
}

/* Of an ordered method only the first row that can be taken counts, and after it the rows with a smaller
 * HEAD_DIM. */
void plan_survey_rows(const plan_problem *p, plan_survey *out)
{
    char                   line[PLAN_LINE];
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    const plan_candidate  *best = NULL;
    int64_t                least = INT64_MAX; /* HEAD_DIM of an ordered method's rows so far */
    out->count = 0;
    for (size_t i = 0; i < count && out->count < PLAN_CANDIDATES; i++) {
        const plan_method *method = plan_method_of(&rows[i]);
        plan_candidate    *c = &out->candidate[out->count];
        int64_t            dim = ptxpack_variant_parameter(&rows[i], "HEAD_DIM", 0);
        if (method == NULL || !covers(p, &rows[i]))
            continue;
        out->count++;
        *c = (plan_candidate){.row = &rows[i], .refused = plan_refusal(p, &rows[i], line) != NULL};
        c->behind = !c->refused && method->ordered && dim >= least;
        if (c->refused || c->behind)
            continue;
        least = method->ordered ? dim : least;
        c->cost = method->cost != NULL ? method->cost(p, &rows[i]) : 0;
        best = is_better(p, c, best) ? c : best;
    }
    out->chosen = best != NULL ? best->row : NULL;
}

/* Rows that come after others of an ordered method are better than none. */
const ptxpack_variant *plan_next_row(const plan_problem *p, plan_survey *survey)
{
    plan_candidate *best = NULL;
    for (int behind = 0; behind < 2 && best == NULL; behind++)
        for (size_t i = 0; i < survey->count; i++) {
            plan_candidate *c = &survey->candidate[i];
            if (!c->refused && c->behind == (behind == 1) && is_better(p, c, best))
                best = c;
        }
    if (best == NULL)
        return NULL;
    best->refused = true;
    return best->row;
}

/* Why no row that covers the problem can be taken: what is wrong with the problem rather than what is wrong
 * with the device, and the smallest HEAD_DIM first. */
static ptxpack_status no_row(const plan_problem *p, const plan_survey *survey)
{
    char    line[PLAN_LINE], what[64], nearest[PLAN_LINE + 64] = "no row covers it";
    int64_t best_dim = INT64_MAX;
    bool    best_runs = false;
    describe(p, what, sizeof what);
    for (size_t i = 0; i < survey->count; i++) {
        const ptxpack_variant *row = survey->candidate[i].row;
        int64_t                dim = ptxpack_variant_parameter(row, "HEAD_DIM", 0);
        bool                   runs = ptxpack_variant_refusal(row, &p->caps, line, sizeof line) == NULL;
        if (runs == best_runs ? dim >= best_dim : best_runs)
            continue;
        best_dim = dim;
        best_runs = runs;
        snprintf(nearest, sizeof nearest, "row %s %s", row->id, plan_refusal(p, row, line));
    }
    return ptxpack_fail(p->handle, PTXPACK_E_UNSUPPORTED, "no %s kernel for %s: %s", p->op->name, what,
                        nearest);
}

ptxpack_status plan_choose(const plan_problem *problem, const ptxpack_variant **row)
{
    plan_survey survey;
    plan_survey_rows(problem, &survey);
    *row = survey.chosen;
    return *row != NULL ? PTXPACK_OK : no_row(problem, &survey);
}
