/* layout_expr.h - evaluates expressions of CuTe's functions.
 *
 *   composition((6,2):(8,2),(4,3):(3,1))     zipped_divide((9,(4,8)):(59,(13,1)),<3:3,(2,4):(1,8)>)
 *   size<0>(group<0,2>((2,4,6)))              Sw<3,4,3>(72)         (4,8):(8,1)(1,_)
 *   local_tile(gmem_ptr[32b](0x1000) o (4,8):(8,1), <2,2>, (0,1))   make_tensor(npy("q.npy"), (4,8):(8,1))
 *
 * Where a layout or a tiler is expected, a tuple means its compact layout, or <...>.  Where a tensor is expected, a layout
 * means the tensor whose elements are its offsets. */
#ifndef PTXPACK_LAYOUT_EXPR_H
#define PTXPACK_LAYOUT_EXPR_H
#include <stdbool.h>
#include <stdio.h>
#include "host/layout/layout.h"
#include "host/layout/tensor.h"

enum { EXPR_LIST = 1 << 24 }; /* the most values that values(L) lists, and the most elements that are printed */

typedef enum expr_kind {
    EXPR_TUPLE,  /* also an integer, `_`                               */
    EXPR_LAYOUT, /* plain, composed, or a tiler                        */
    EXPR_SWIZZLE,
    EXPR_SLICE,  /* a layout and where it starts                       */
    EXPR_VALUES, /* the elements of `tensor` at 0, 1, ..., size - 1    */
    EXPR_ORDER,  /* LayoutLeft or LayoutRight, as an argument          */
    EXPR_TENSOR,
    EXPR_POINTER, /* a tensor whose layout is 1:0                       */
    EXPR_TEXT     /* what print and its like write, or a quoted string  */
} expr_kind;

/* A tensor and what stands behind its addresses. */
typedef struct expr_tensor {
    ptxpack_tensor tensor;
    ptxpack_engine engine;
} expr_tensor;

typedef struct expr_value {
    expr_kind kind;
    union {
        ptxpack_tuple   tuple;
        ptxpack_layout  layout;
        ptxpack_swizzle swizzle;
        ptxpack_slice   slice;
        bool            right; /* LayoutRight */
        expr_tensor     tensor;
        const char     *text; /* owned by the session, until the next evaluation */
    } as;
} expr_value;

/* Variables, and the memory of files that were read. */
typedef struct expr_session expr_session;
expr_session               *expr_open(void); /* NULL: out of memory */
void                        expr_close(expr_session *s);

/* Evaluate an expression, or an assignment: NAME = EXPR, after `auto`, `const int` or another type.  The text is that from
 * `from` on; columns of messages count from 0.  It may hold any bytes.  On an error: PTXPACK_E_ARG and one line in
 * ptxpack_detail(NULL), or PTXPACK_E_MEMORY.  *assigned: it was an assignment, and its value is in *value, too. */
ptxpack_status expr_evaluate(expr_session *s, const char *text, size_t from, size_t bytes, expr_value *value,
                             bool *assigned);
/* Evaluate the whole text as an expression without variables: to a layout and where it starts, in elements of the tensor
 * that it is a part of; or to a tiler, which a tuple is as well, or a layout.  The same errors, and those of other values. */
ptxpack_status expr_slice(const char *text, ptxpack_slice *out);
ptxpack_status expr_tiler(const char *text, ptxpack_layout *out);
/* Print the value as CuTe does; a slice as LAYOUT + OFFSET, values separated by commas.  No newline. */
void expr_print(FILE *f, const expr_value *value);
/* The layout that the value is or stands for; an error if it is neither. */
ptxpack_layout expr_layout(const expr_value *value);
/* How many elements from its engine's base on a tensor starts, or where a slice does; otherwise 0. */
int64_t expr_start(const expr_value *value);
/* The tensor that the value is or stands for; its status tells of an error. */
expr_tensor expr_as_tensor(const expr_value *value);
#endif
