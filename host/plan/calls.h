/* calls.h - private: the public calls of an operation whose descriptor plan_create takes as it is.
 *
 * PLAN_CALLS(ptxpack_norm, norm_op, ptxpack_norm) defines ptxpack_norm_plan_create, ptxpack_norm_plan_row,
 * ptxpack_norm_plan_free and ptxpack_norm_kernel, and, by the last word, the launch, ptxpack_norm.  Its public header declares
 * them and says what they do.  The plan's first member is a plan_head. */
#ifndef PTXPACK_HOST_PLAN_CALLS_H
#define PTXPACK_HOST_PLAN_CALLS_H
#include <stdlib.h>
#include "plan.h"

#define PLAN_CALLS(name, op, launch)                                                                          \
    _Static_assert(sizeof(name##_buffers) <= sizeof(plan_room), "plan_room has room for the buffers");        \
    ptxpack_status name##_plan_row(ptxpack *handle, const name##_desc *desc, const ptxpack_variant *row,      \
                                   name##_plan **plan)                                                        \
    {                                                                                                         \
        plan_head *made;                                                                                      \
        if (plan == NULL)                                                                                     \
            return ptxpack_fail(handle, PTXPACK_E_ARG, "plan is NULL");                                       \
        ptxpack_status status = plan_create(&(op), handle, desc, row, &made);                                 \
        *plan = (name##_plan *)made;                                                                          \
        return status;                                                                                        \
    }                                                                                                         \
    ptxpack_status name##_plan_create(ptxpack *handle, const name##_desc *desc, name##_plan **plan)           \
    {                                                                                                         \
        return name##_plan_row(handle, desc, NULL, plan);                                                     \
    }                                                                                                         \
    void                  name##_plan_free(name##_plan *plan) { free(plan); }                                 \
    const ptxpack_kernel *name##_kernel(const name##_plan *plan)                                              \
    {                                                                                                         \
        return plan != NULL ? ((const plan_head *)plan)->kernel : NULL;                                       \
    }                                                                                                         \
    ptxpack_status launch(const name##_plan *plan, const name##_buffers *buffers, struct CUstream_st *stream) \
    {                                                                                                         \
        return plan_launch((const plan_head *)plan, buffers, stream);                                         \
    }
#endif
