/* layout_expr.h - evaluates expressions of CuTe's functions.
 *
 *   composition((6,2):(8,2),(4,3):(3,1))     zipped_divide((9,(4,8)):(59,(13,1)),<3:3,(2,4):(1,8)>)
 *   size<0>(group<0,2>((2,4,6)))              Sw<3,4,3>(72)         (4,8):(8,1)(1,_)
 *
 * Where a layout or a tiler is expected, a tuple means its compact layout, or <...>. */
#ifndef PTXPACK_LAYOUT_EXPR_H
#define PTXPACK_LAYOUT_EXPR_H
#include <stdbool.h>
#include <stdio.h>
#include "host/layout/layout.h"

enum { EXPR_LIST = 1 << 24 }; /* the most values that values(L) lists */

typedef enum expr_kind {
    EXPR_TUPLE,  /* also an integer, `_`                               */
    EXPR_LAYOUT, /* plain, composed, or a tiler                        */
    EXPR_SWIZZLE,
    EXPR_SLICE,  /* a layout and where it starts                       */
    EXPR_VALUES, /* what `layout` is at 0, 1, ..., size - 1            */
    EXPR_ORDER   /* LayoutLeft or LayoutRight, as an argument          */
} expr_kind;

typedef struct expr_value {
    expr_kind kind;
    union {
        ptxpack_tuple   tuple;
        ptxpack_layout  layout;
        ptxpack_swizzle swizzle;
        ptxpack_slice   slice;
        bool            right; /* LayoutRight */
    } as;
} expr_value;

/* Evaluate the whole text, which may hold any bytes.  On an error: PTXPACK_E_ARG and one line in ptxpack_detail(NULL),
 * or PTXPACK_E_MEMORY. */
ptxpack_status expr_evaluate(const char *text, size_t bytes, expr_value *value);
/* Print the value as CuTe does; a slice as LAYOUT + OFFSET, values separated by commas.  No newline. */
void expr_print(FILE *f, const expr_value *value);
/* The layout that the value is or stands for; an error if it is neither. */
ptxpack_layout expr_layout(const expr_value *value);
#endif
