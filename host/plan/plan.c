/* plan.c - from a descriptor to a plan, and from a plan to a launch. */
#include "plan.h"

#include <stdlib.h>
#include <string.h>

#include "loader/context.h"

/* ---- symbols ------------------------------------------------------------------------------------ */
static void add_arguments(symbol_list *list, const plan_method *method)
{
    const argument_field *last = &method->fields[method->field_count - 1];
    symbol_add(list, "ARG_BYTES", (int64_t)(last->offset + last->bytes)); /* without the padding at the end */
    for (size_t i = 0; i < method->field_count; i++)
        symbol_add(list, method->fields[i].symbol, (int64_t)method->fields[i].offset);
}

size_t plan_symbols(const plan_problem *p, const ptxpack_variant *row,
                    ptxpack_symbol symbols[PTXPACK_INSTANCE_SYMBOLS])
{
    symbol_list        list = {.out = symbols, .cap = PTXPACK_INSTANCE_SYMBOLS};
    const plan_method *method = plan_method_of(row);
    const void        *layout;
    void              *own;
    if (plan_layout(row, &layout, &own) != PTXPACK_OK)
        return 0;
    add_arguments(&list, method);
    if (method->symbols != NULL)
        method->symbols(p, layout, &list);
    free(own);
    if (list.failed)
        ptxpack_fail(NULL, PTXPACK_E_UNSUPPORTED, "kernels.def, row %s: %s", row->id, ptxpack_detail(NULL));
    return list.failed ? 0 : list.count;
}

/* ---- the plan ----------------------------------------------------------------------------------- */
static ptxpack_status fill(const plan_problem *p, const ptxpack_variant *row, plan_head *plan)
{
    const void    *layout;
    void          *own;
    bool           pushed = false, device = ptxpack_driver_table(p->handle) != NULL;
    ptxpack_status status = plan_layout(row, &layout, &own);
    if (status != PTXPACK_OK)
        return ptxpack_fail(p->handle, status, "%s", ptxpack_detail(NULL));
    if (device)
        status = ptxpack_check_process(p->handle);
    if (device && status == PTXPACK_OK)
        status = ptxpack_enter(p->handle, &pushed);
    if (status == PTXPACK_OK)
        status = plan->method->fill(p, row, layout, plan);
    if (pushed)
        ptxpack_leave(p->handle, pushed);
    free(own);
    return status;
}

static ptxpack_status load(const plan_problem *p, ptxpack *handle, const ptxpack_variant *row, plan_head *plan)
{
    ptxpack_symbol        symbols[PTXPACK_INSTANCE_SYMBOLS];
    ptxpack_named_text    texts[PLAN_TEXTS];
    ptxpack_kernel_source source = {.variant = row, .symbols = symbols, .texts = texts};
    source.symbol_count = plan_symbols(p, row, symbols);
    if (source.symbol_count == 0)
        return ptxpack_fail(handle, PTXPACK_E_UNSUPPORTED, "%s", ptxpack_detail(NULL));
    source.text_count = p->op->texts != NULL ? p->op->texts(p->desc, texts) : 0;
    return ptxpack_kernel_load_source(handle, &source, &plan->kernel);
}

static ptxpack_status make_row(const plan_problem *p, ptxpack *handle, const ptxpack_variant *row,
                               plan_head *plan)
{
    *plan = (plan_head){.handle = handle, .op = p->op, .method = plan_method_of(row), .grid = {1, 1, 1}};
    ptxpack_status status = fill(p, row, plan);
    return status == PTXPACK_OK ? load(p, handle, row, plan) : status;
}

/* With the caller's texts a kernel may spill registers; then the next row is tried, which may have a smaller tile.  Where all
 * spill that is refused; without texts the fastest is taken. */
static ptxpack_status make_without_spills(const plan_problem *p, ptxpack *handle, plan_head *plan)
{
    const ptxpack_variant *row, *first = NULL;
    plan_survey            survey;
    int                    bytes = 0;
    plan_survey_rows(p, &survey);
    while ((row = plan_next_row(p, &survey)) != NULL) {
        ptxpack_status status = make_row(p, handle, row, plan);
        if (status != PTXPACK_OK)
            return status;
        const ptxpack_resources *r = &ptxpack_kernel_describe(plan->kernel)->resources;
        if (r->spill_store_bytes <= 0 && r->spill_load_bytes <= 0)
            return PTXPACK_OK;
        bytes = first == NULL ? r->spill_store_bytes : bytes;
        first = first == NULL ? row : first;
    }
    ptxpack_named_text texts[PLAN_TEXTS];
    if (p->op->texts(p->desc, texts) == 0)
        return make_row(p, handle, first, plan);
    return ptxpack_fail(
        handle, PTXPACK_E_UNSUPPORTED,
        "with this hook every kernel spills registers; %s, the fastest of them, %d bytes a thread", first->id,
        bytes);
}

static ptxpack_status make(const plan_op *op, ptxpack *handle, const void *desc, const ptxpack_variant *row,
                           plan_head *plan)
{
    char           line[PLAN_LINE];
    plan_problem   problem;
    ptxpack_status status = plan_resolve(op, handle, NULL, desc, (char *)plan + op->geometry_at, &problem,
                                         line);
    if (status != PTXPACK_OK)
        return ptxpack_fail(handle, status, "%s", line);
    if (handle == NULL)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "handle is NULL");
    ptxpack_named_text texts[PLAN_TEXTS];
    const bool         chosen = row == NULL;
    if (chosen)
        status = plan_choose(&problem, &row);
    else if (plan_refusal(&problem, row, line) != NULL)
        status = ptxpack_fail(handle, PTXPACK_E_UNSUPPORTED, "row %s %s", row->id, line);
    if (status != PTXPACK_OK)
        return status;
    return chosen && op->texts != NULL &&
                   (op->texts(desc, texts) > 0 || (op->may_spill != NULL && op->may_spill(desc)))
               ? make_without_spills(&problem, handle, plan)
               : make_row(&problem, handle, row, plan);
}

ptxpack_status plan_create(const plan_op *op, ptxpack *handle, const void *desc, const ptxpack_variant *row,
                           plan_head **plan)
{
    enum { ALIGNMENT = 64 };
    plan_head *made = (plan_head *)aligned_alloc(ALIGNMENT,
                                                 (op->plan_bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1));
    *plan = NULL;
    if (made == NULL)
        return ptxpack_fail(handle, PTXPACK_E_MEMORY, "no memory for a plan");
    memset(made, 0, op->plan_bytes);
    ptxpack_status status = make(op, handle, desc, row, made);
    if (status == PTXPACK_OK)
        *plan = made;
    else
        free(made);
    return status;
}

/* ---- the launch --------------------------------------------------------------------------------- */
static ptxpack_status fill_in(const plan_head *plan, const void *buffers, void *arguments, uint32_t grid[3])
{
    memcpy(grid, plan->grid, sizeof plan->grid);
    memcpy(arguments, (const char *)plan + plan->op->arguments_at, plan->method->argument_bytes);
    return plan->method->address(plan, buffers, arguments, grid);
}

static ptxpack_status enter(const ptxpack *handle, bool *pushed)
{
    ptxpack_status status = ptxpack_check_process(handle);
    return status == PTXPACK_OK ? ptxpack_enter(handle, pushed) : status;
}

ptxpack_status plan_enqueue(const plan_launched *launches, int count, struct CUstream_st *stream)
{
    _Alignas(64) unsigned char arguments[PLAN_LAUNCHED][PLAN_ARGUMENT_BYTES];
    uint32_t                   grid[PLAN_LAUNCHED][3];
    const ptxpack             *handle = launches[0].plan->handle;
    bool                       pushed = false;
    ptxpack_status             status = enter(handle, &pushed);
    if (status != PTXPACK_OK)
        return status;
    for (int i = 0; i < count && status == PTXPACK_OK; i++)
        status = fill_in(launches[i].plan, launches[i].buffers, arguments[i], grid[i]);
    for (int i = 0; i < count && status == PTXPACK_OK; i++)
        status = ptxpack_kernel_enqueue(launches[i].plan->kernel, grid[i], arguments[i], stream,
                                        launches[i].overlap);
    ptxpack_leave(handle, pushed);
    return status;
}

ptxpack_status plan_launch(const plan_head *plan, const void *buffers, struct CUstream_st *stream)
{
    char           line[PLAN_LINE];
    plan_room      whole;
    bool           overlap = false;
    ptxpack_status status = PTXPACK_OK;
    if (plan == NULL)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "plan is NULL");
    if (plan->op->buffers != NULL) {
        status = plan_whole(plan->op->buffers, buffers, &whole, line);
        buffers = &whole;
        if (status == PTXPACK_OK)
            status = plan_check_launch(plan->op->buffers, buffers, &overlap, line);
    }
    if (status == PTXPACK_OK)
        status = plan->op->check(plan, buffers, line);
    return status == PTXPACK_OK ? plan_enqueue(&(plan_launched){plan, buffers, overlap}, 1, stream)
                                : ptxpack_fail(plan->handle, status, "%s", line);
}

ptxpack_status plan_arguments(const plan_head *plan, const void *buffers, void *arguments, uint32_t grid[3])
{
    bool           pushed = false;
    ptxpack_status status = enter(plan->handle, &pushed);
    if (status != PTXPACK_OK)
        return status;
    status = fill_in(plan, buffers, arguments, grid);
    ptxpack_leave(plan->handle, pushed);
    return status;
}
