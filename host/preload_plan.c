/* preload_plan.c - compiling the kernels of plans in the background. */
#include "preload_plan.h"

#include <string.h>

#include "host/attention/append/attached.h"
#include "loader/build/preload_work.h"
#include "host/plan/plan.h"

extern const plan_op     merge_op, gemm_op, vector_op;
extern const plan_struct gemm_desc_struct;

typedef struct preloaded {
    const plan_op *op;
    plan_room      desc;
} preloaded;

static ptxpack_status resolve_preloaded(ptxpack *handle, const void *what, struct ptxpack_preload_item *item)
{
    const preloaded       *p = (const preloaded *)what;
    plan_room              geometry;
    plan_problem           problem;
    const ptxpack_variant *row;
    ptxpack_symbol         symbols[PTXPACK_INSTANCE_SYMBOLS];
    char                   line[PLAN_LINE];
    ptxpack_status         status = plan_resolve(p->op, handle, NULL, &p->desc, &geometry, &problem, line);
    if (status != PTXPACK_OK)
        return ptxpack_fail(handle, status, "%s", line);
    status = plan_choose(&problem, &row);
    if (status != PTXPACK_OK)
        return status;
    size_t count = plan_symbols(&problem, row, symbols);
    if (count == 0)
        return ptxpack_fail(handle, PTXPACK_E_UNSUPPORTED, "%s", ptxpack_detail(NULL));
    return ptxpack_preload_make(item, handle, row, symbols, count);
}

static ptxpack_status preload(const plan_op *op, ptxpack_preloading *preloading, const void *desc)
{
    preloaded it = {.op = op};
    memcpy(&it.desc, desc, op->desc_bytes);
    return ptxpack_preload_add(preloading, op->name, resolve_preloaded, &it, sizeof it);
}

ptxpack_status ptxpack_preload_attention(ptxpack_preloading *preloading, const ptxpack_attention_desc *desc)
{
    ptxpack_attention_desc        whole;
    ptxpack_attention_append_desc append;
    char                          line[PLAN_LINE];
    ptxpack_status                status = attention_whole_desc(desc, &whole, line);
    bool                          appends = status == PTXPACK_OK && whole.append != NULL;
    if (appends)
        status = attached_describe(&whole, &append, line);
    if (status != PTXPACK_OK)
        return ptxpack_fail(NULL, status, "%s", line);
    if (whole.score_mod != NULL || whole.mask_mod != NULL)
        return ptxpack_fail(NULL, PTXPACK_E_UNSUPPORTED,
                            "%s: kernels with hooks are compiled when their plan is created",
                            whole.score_mod != NULL ? "score_mod" : "mask_mod");
    whole.append = NULL; /* it belongs to the caller */
    if (appends)
        status = preload(&append_op, preloading, &append);
    return status == PTXPACK_OK ? preload(&attention_op, preloading, &whole) : status;
}

ptxpack_status ptxpack_preload_attention_append(ptxpack_preloading                  *preloading,
                                                const ptxpack_attention_append_desc *desc)
{
    ptxpack_attention_append_desc whole;
    char                          line[PLAN_LINE];
    ptxpack_status                status = plan_whole(&append_desc_struct, desc, &whole, line);
    return status == PTXPACK_OK ? preload(&append_op, preloading, &whole)
                                : ptxpack_fail(NULL, status, "%s", line);
}

ptxpack_status ptxpack_preload_attention_merge(ptxpack_preloading                 *preloading,
                                               const ptxpack_attention_merge_desc *desc)
{
    if (desc == NULL || desc->size != sizeof *desc)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "desc.size is not sizeof(ptxpack_attention_merge_desc), %zu",
                            sizeof *desc);
    return preload(&merge_op, preloading, desc);
}

ptxpack_status ptxpack_preload_gemm(ptxpack_preloading *preloading, const ptxpack_gemm_desc *desc)
{
    ptxpack_gemm_desc whole;
    char              line[PLAN_LINE];
    ptxpack_status    status = plan_whole(&gemm_desc_struct, desc, &whole, line);
    return status == PTXPACK_OK ? preload(&gemm_op, preloading, &whole)
                                : ptxpack_fail(NULL, status, "%s", line);
}

ptxpack_status ptxpack_preload_vector(ptxpack_preloading *preloading, ptxpack_dtype dtype)
{
    return preload(&vector_op, preloading, &dtype);
}
