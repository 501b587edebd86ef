/* op.c - the table of operations; whose a row is, and what is derived from it. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "plan.h"

/* THE table: an operation is added here, and nowhere else. */
extern const plan_op attention_op, append_op, merge_op, merge_parts_op, blocks_op, gemm_op, vector_op, norm_op,
    quantise_op, dequantise_op, gather_op, sampling_op, experts_route_op, experts_combine_op;
static const plan_op *const ops[] = {&attention_op,     &append_op,         &merge_op,  &merge_parts_op,
                                     &blocks_op,        &gemm_op,           &vector_op, &norm_op,
                                     &quantise_op,      &dequantise_op,     &gather_op, &sampling_op,
                                     &experts_route_op, &experts_combine_op};

const plan_op *plan_op_of(const ptxpack_variant *row)
{
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        if (strcmp(row->op, ops[i]->name) == 0)
            return ops[i];
    return NULL;
}

const plan_method *plan_method_of(const ptxpack_variant *row)
{
    const plan_op *op = plan_op_of(row);
    for (size_t i = 0; op != NULL && i < op->method_count; i++)
        if (strcmp(row->file, op->methods[i]->file) == 0)
            return op->methods[i];
    return NULL;
}

const plan_method *plan_method_place(const plan_method *method)
{
    return method != NULL && method->beside != NULL ? method->beside : method;
}

bool plan_row_takes(const ptxpack_variant *row, ptxpack_dtype dtype)
{
    if (ptxpack_variant_parameter(row, "FP8", 0) != 0)
        return dtype == PTXPACK_E4M3;
    return dtype == PTXPACK_F16 || (dtype == PTXPACK_BF16 && (row->flags & PTXPACK_VARIANT_NO_BF16) == 0);
}

/* ---- layouts ------------------------------------------------------------------------------------ */
/* Where the layout of a row of the table is kept; NULL for any other row. */
static _Atomic(void *) *place_of(const ptxpack_variant *row)
{
    enum { ROWS = 256 };
    static _Atomic(void *) kept[ROWS];
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    for (size_t i = 0; i < count && i < ROWS; i++)
        if (row == &rows[i])
            return &kept[i];
    return NULL;
}

ptxpack_status plan_layout(const ptxpack_variant *row, const void **layout, void **own)
{
    const plan_method *method = plan_method_of(row);
    _Atomic(void *)   *place = place_of(row);
    void              *known = place != NULL ? atomic_load_explicit(place, memory_order_acquire) : NULL;
    *own = NULL;
    *layout = known;
    if (known != NULL || method->derive == NULL)
        return PTXPACK_OK;
    void *made = malloc(method->layout_bytes);
    if (made == NULL)
        return ptxpack_fail(NULL, PTXPACK_E_MEMORY, "no memory for the layouts of %s", row->id);
    ptxpack_status status = method->derive(row, made);
    if (status != PTXPACK_OK) {
        free(made);
        return status;
    }
    *layout = made;
    if (place == NULL) {
        *own = made;
    } else if (!atomic_compare_exchange_strong(place, &known, made)) { /* another thread was faster */
        free(made);
        *layout = known;
    }
    return PTXPACK_OK;
}
