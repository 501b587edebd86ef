/* layout_calls.h - the functions of expressions. */
#ifndef PTXPACK_LAYOUT_CALLS_H
#define PTXPACK_LAYOUT_CALLS_H
#include "layout_expr.h"

enum { CALL_ARGUMENTS = PTXPACK_TUPLE_ITEMS };

/* A type of elements by its name in C++. */
typedef struct element_type {
    const char    *name;
    ptxpack_number number;
    int            bits;
} element_type;

/* name<numbers...>(args...) or name<type>(args...) */
typedef struct expr_call {
    expr_session       *session;
    const char         *name;
    size_t              name_bytes;
    int                 number[CALL_ARGUMENTS], numbers;
    const element_type *type; /* NULL: none */
    expr_value         *args; /* the call may change them */
    int                 count;
} expr_call;

bool call_is_known(const char *name, size_t bytes);
/* The function that the name may have been meant for: in another case, or with a quarter of its letters wrong; NULL: none. */
const char *call_nearest(const char *name, size_t bytes);
/* False on an error, whose message is in ptxpack_detail(NULL). */
bool call_run(const expr_call *c, expr_value *result);

/* Shared with layout_expr.c.  Their results may be errors (value_status). */
ptxpack_status value_status(const expr_value *v);
expr_value     value_of_tuple(ptxpack_tuple t);
expr_value     value_of_layout(ptxpack_layout l);
/* (a,b,...) of tuples, otherwise <a,b,...>. */
expr_value value_join(const expr_value *values, int count, bool tiler);
/* A layout, swizzle or tensor applied to a coordinate. */
expr_value value_apply(expr_session *s, const expr_value *function, const expr_value *coord);

/* left + right and the like: integers; a pointer moved by an integer; a layout that starts at one. */
expr_value value_calculate(const expr_value *left, char sign, const expr_value *right);

/* ---- tensors: layout_tensor.c -------------------------------------------------------------------- */
const element_type *element_type_of(const char *name, size_t bytes); /* NULL: there is no such type */
expr_value          value_of_tensor(expr_tensor t);
expr_tensor         tensor_failed_with(ptxpack_status status);
/* Pointers: to integers of `bits` bits at an address, as `type` (NULL: integers), counting from n, at a coordinate. */
expr_tensor pointer_to(const element_type *type, int bits, ptxpack_space space, uint64_t address, int bit);
expr_tensor pointer_counting(int64_t n);
expr_tensor pointer_at_coordinate(const ptxpack_tuple *origin);
/* The same engine under a layout, in another space, or behind a swizzle. */
expr_tensor tensor_under(const expr_tensor *pointer, const ptxpack_layout *l);
/* A pointer so many elements further on. */
expr_tensor pointer_plus(const expr_tensor *pointer, int64_t count);
expr_tensor tensor_in_space(const expr_tensor *pointer, ptxpack_space space);
expr_tensor tensor_swizzled(const expr_tensor *pointer, ptxpack_swizzle swizzle);
/* t with the layout and start of `moved`, which was made of it. */
expr_tensor tensor_moved(const expr_tensor *t, ptxpack_tensor moved);
expr_tensor tensor_recast(const expr_tensor *t, const element_type *type);
/* A pointer to elements of another type at the same address. */
expr_tensor pointer_recast(const expr_tensor *pointer, const element_type *type);
/* A tensor of its own memory at address 0, with this layout; of `type`, otherwise of the elements of t. */
expr_tensor tensor_owning(const expr_tensor *t, const element_type *type, ptxpack_layout l);
/* The swizzle of the pointer becomes that of the layout, in elements. */
expr_tensor tensor_position_independent(const expr_tensor *t);
/* The file's array, in row-major order, at `address`. */
expr_tensor tensor_of_npy(expr_session *s, const char *path, uint64_t address);
expr_value  tensor_element(expr_session *s, const expr_tensor *t, const ptxpack_tuple *coord);
/* The texts of print, print_tensor and print_layout. */
expr_value text_of_value(expr_session *s, const expr_value *v);
expr_value text_of_tensor(expr_session *s, const expr_tensor *t);
/* "NAME : " before it, as the articles' macros PRINT and PRINTTENSOR put it; `elements`: as print_tensor prints it. */
expr_value text_of_named(expr_session *s, const char *name, const expr_value *v, bool elements);
expr_value text_of_grid(expr_session *s, const expr_value *v);
expr_value value_of_text(expr_session *s, char *text); /* owned by the session; NULL: out of memory */

/* ---- variables and memory: layout_session.c --------------------------------------------------------- */
/* Memory of a file lives as long as the session, a text until the next evaluation.  False: out of memory, and it is freed. */
bool              session_keep_memory(expr_session *s, void *memory);
bool              session_keep_text(expr_session *s, char *text);
void              session_drop_texts(expr_session *s);
const expr_value *session_variable(const expr_session *s, const char *name, size_t bytes); /* NULL: none */
bool              session_assign(expr_session *s, const char *name, size_t bytes, const expr_value *value);
/* using NAME = type; an assignment that failed, so that NAME has no value; and what a name is. */
bool session_assign_type(expr_session *s, const char *name, size_t bytes, const element_type *type);
void session_forget(expr_session *s, const char *name, size_t bytes);
bool session_forgot(const expr_session *s, const char *name, size_t bytes);
const element_type *session_type(const expr_session *s, const char *name, size_t bytes); /* NULL: no type */
/* NAME = of a statement: the name, and where its expression begins; 0 where the statement is no assignment. */
size_t statement_name(const char *text, size_t from, size_t bytes, const char **name, size_t *name_bytes);
#endif
