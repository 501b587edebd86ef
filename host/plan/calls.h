/* calls.h - private: what operations have alike whose descriptor plan_create takes as it is: checks with their own types, what
 * says how large their structs are, and the public calls.
 *
 * PLAN_CHECKS(ptxpack_norm, norm) defines resolve and check by norm_resolve and norm_check, and buffers_struct, of buffers that
 * have had `launch` from the beginning.  PLAN_OP(ptxpack_norm) is these and the sizes, in the initialiser of a plan_op with one
 * plan_method *methods[].
 *
 * PLAN_CALLS(ptxpack_norm, norm_op, ptxpack_norm) defines ptxpack_norm_plan_create, ptxpack_norm_plan_row,
 * ptxpack_norm_plan_free and ptxpack_norm_kernel, and, by the last word, the launch, ptxpack_norm.  Its public header declares
 * them and says what they do.  The plan's first member is a plan_head. */
#ifndef PTXPACK_HOST_PLAN_CALLS_H
#define PTXPACK_HOST_PLAN_CALLS_H
#include <stddef.h>
#include <stdlib.h>
#include "plan.h"

#define PLAN_CHECKS(of, short)                                                                            \
    _Static_assert(sizeof(short##_geometry) <= sizeof(plan_room), "plan_room has room for the geometry"); \
    static ptxpack_status resolve(const void *desc, void *geometry, char line[PLAN_LINE])                 \
    {                                                                                                     \
        return short##_resolve((const of##_desc *)desc, (short##_geometry *)geometry, line);              \
    }                                                                                                     \
    static ptxpack_status check(const plan_head *head, const void *buffers, char line[PLAN_LINE])         \
    {                                                                                                     \
        return short##_check(&((const of##_plan *)head)->geometry, (const of##_buffers *)buffers, line);  \
    }                                                                                                     \
    static const plan_struct buffers_struct = {.name = "buffers",                                         \
                                               .type = #of "_buffers",                                    \
                                               .size = sizeof(of##_buffers),                              \
                                               .launch_at = offsetof(of##_buffers, launch)};

#define PLAN_OP(of)                                                                                           \
    .methods = methods, .method_count = sizeof methods / sizeof methods[0], .margin = 1,                      \
    .desc_bytes = sizeof(of##_desc), .dtype_at = offsetof(of##_desc, dtype), .plan_bytes = sizeof(of##_plan), \
    .geometry_at = offsetof(of##_plan, geometry), .arguments_at = offsetof(of##_plan, arguments),             \
    .resolve = resolve, .check = check, .buffers = &buffers_struct

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
