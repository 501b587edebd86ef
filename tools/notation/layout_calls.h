/* layout_calls.h - the functions of expressions. */
#ifndef PTXPACK_LAYOUT_CALLS_H
#define PTXPACK_LAYOUT_CALLS_H
#include "layout_expr.h"

enum { CALL_ARGUMENTS = PTXPACK_TUPLE_ITEMS };

/* name<numbers...>(args...) */
typedef struct expr_call {
    const char *name;
    size_t      name_bytes;
    int         number[CALL_ARGUMENTS], numbers;
    expr_value *args; /* the call may change them */
    int         count;
} expr_call;

bool call_is_known(const char *name, size_t bytes);
/* False on an error, whose message is in ptxpack_detail(NULL). */
bool call_run(const expr_call *c, expr_value *result);

/* Shared with layout_expr.c.  Their results may be errors (value_status). */
ptxpack_status value_status(const expr_value *v);
expr_value     value_of_tuple(ptxpack_tuple t);
expr_value     value_of_layout(ptxpack_layout l);
/* (a,b,...) of tuples, otherwise <a,b,...>. */
expr_value value_join(const expr_value *values, int count, bool tiler);
/* A layout or swizzle applied to a coordinate. */
expr_value value_apply(const expr_value *function, const expr_value *coord);
#endif
