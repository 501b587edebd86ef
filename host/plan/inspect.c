/* inspect.c - the steps of a plan, one at a time. */
#include "inspect.h"

#include <stdlib.h>

ptxpack_status plan_survey_of(const plan_op *op, const ptxpack *handle, const ptxpack_device_caps *caps,
                              const void *desc, plan_survey *out)
{
    plan_room      geometry;
    plan_problem   problem;
    char           line[PLAN_LINE];
    ptxpack_status status = plan_resolve(op, handle, caps, desc, &geometry, &problem, line);
    if (status != PTXPACK_OK)
        return ptxpack_fail(handle, status, "%s", line);
    plan_survey_rows(&problem, out);
    return PTXPACK_OK;
}

ptxpack_status plan_row_of(const plan_op *op, const ptxpack *handle, const ptxpack_device_caps *caps,
                           const void *desc, const ptxpack_variant **row)
{
    plan_room      geometry;
    plan_problem   problem;
    char           line[PLAN_LINE];
    ptxpack_status status = plan_resolve(op, handle, caps, desc, &geometry, &problem, line);
    *row = NULL;
    return status == PTXPACK_OK ? plan_choose(&problem, row) : ptxpack_fail(handle, status, "%s", line);
}

const char *plan_row_refusal(const plan_op *op, const ptxpack *handle, const ptxpack_device_caps *caps,
                             const void *desc, const ptxpack_variant *row, char line[PLAN_LINE])
{
    plan_room    geometry;
    plan_problem problem;
    return plan_resolve(op, handle, caps, desc, &geometry, &problem, line) == PTXPACK_OK
               ? plan_refusal(&problem, row, line)
               : line;
}

double plan_row_cost(const plan_op *op, const ptxpack *handle, const ptxpack_device_caps *caps,
                     const void *desc, const ptxpack_variant *row)
{
    plan_room    geometry;
    plan_problem problem;
    char         line[PLAN_LINE];
    return plan_resolve(op, handle, caps, desc, &geometry, &problem, line) == PTXPACK_OK
               ? plan_method_of(row)->cost(&problem, row)
               : 0;
}

ptxpack_status plan_row_fill(const plan_op *op, const ptxpack_device_caps *caps, int sm_count, const void *desc,
                             const ptxpack_variant *row, void *plan)
{
    plan_problem   problem;
    char           line[PLAN_LINE];
    const void    *layout;
    void          *own = NULL;
    ptxpack_status status = plan_resolve(op, NULL, NULL, desc, (char *)plan + op->geometry_at, &problem, line);
    if (status != PTXPACK_OK)
        return ptxpack_fail(NULL, status, "%s", line);
    problem.caps = *caps;
    problem.sm_count = sm_count;
    status = plan_layout(row, &layout, &own);
    if (status == PTXPACK_OK)
        status = plan_method_of(row)->fill(&problem, row, layout, (plan_head *)plan);
    free(own);
    return status;
}

size_t plan_row_symbols(const ptxpack_variant *row, const void *desc,
                        ptxpack_symbol symbols[PTXPACK_INSTANCE_SYMBOLS])
{
    plan_room      geometry;
    plan_problem   problem;
    char           line[PLAN_LINE];
    ptxpack_status status = plan_resolve(plan_op_of(row), NULL, NULL, desc, &geometry, &problem, line);
    if (status != PTXPACK_OK)
        ptxpack_fail(NULL, status, "%s", line);
    return status == PTXPACK_OK ? plan_symbols(&problem, row, symbols) : 0;
}
