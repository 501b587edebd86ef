/* notation.h - for the rooms above: functions that read CuTe's notation piece by piece, values that hold an
 * error, and the texts of values for messages. */
#ifndef PTXPACK_LAYOUT_NOTATION_H
#define PTXPACK_LAYOUT_NOTATION_H
#include "layout.h"
#include "tensor.h"

/* ---- errors ----------------------------------------------------------------------------------------- */
/* Values with PTXPACK_E_ARG that are otherwise zero; the message goes to ptxpack_detail(NULL). */
ptxpack_tuple  tuple_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
ptxpack_layout layout_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
ptxpack_slice  slice_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Values with the status of an error whose message another call has left. */
ptxpack_layout layout_failed(ptxpack_status status);
ptxpack_tuple  tuple_failed(ptxpack_status status);

/* At the begin of a public call: an operand that is NULL becomes a value with an error, which the call then
 * passes on like any other; the line names the call and the operand. */
#define GIVEN_TUPLE(t)  ((t) = (t) != NULL ? (t) : tuple_missing(__func__, #t))
#define GIVEN_LAYOUT(l) ((l) = (l) != NULL ? (l) : layout_missing(__func__, #l))
#define GIVEN_TENSOR(t) ((t) = (t) != NULL ? (t) : tensor_missing(__func__, #t))
const ptxpack_tuple  *tuple_missing(const char *call, const char *operand);
const ptxpack_layout *layout_missing(const char *call, const char *operand);
const ptxpack_tensor *tensor_missing(const char *call, const char *operand);
ptxpack_status        operand_missing(const char *call, const char *operand); /* PTXPACK_E_ARG */

/* Texts of values for messages: tuple_text(&t).text. */
typedef struct value_text {
    char text[160]; /* a longer one ends with "..." */
} value_text;
value_text tuple_text(const ptxpack_tuple *t);
value_text layout_text(const ptxpack_layout *l);

/* ---- reading ---------------------------------------------------------------------------------------- */
/* Text that is read from left to right; blanks between its pieces are ignored.  It may hold any byte.  A
 * function that returns false has left its message in ptxpack_detail(NULL), such as "column 7: expected
 * ')'". */
typedef struct text_reader {
    const char *text, *end, *at;
} text_reader;

text_reader reader_begin(const char *text, size_t bytes);
int         reader_peek(text_reader *r);                /* the next byte that is no blank; -1: the end */
bool        reader_take(text_reader *r, char wanted);   /* skip it; false, without a message: not there */
bool        reader_expect(text_reader *r, char wanted); /* the same, but with a message */
bool        reader_expect_end(text_reader *r);
bool        reader_error(const text_reader *r, const char *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* "column C: expected WHAT, found ..." for the next piece. */
bool reader_expected(text_reader *r, const char *what);

bool reader_starts_leaf(text_reader *r);                          /* an integer or `_` comes next */
bool reader_integer(text_reader *r, int64_t *value);              /* 8, -8, _8 */
bool reader_leaf(text_reader *r, int64_t *value, uint64_t *kind); /* also `_` and 1@0 */
bool reader_tuple(text_reader *r, ptxpack_tuple *t);
bool reader_starts_swizzle(text_reader *r); /* Sw or Swizzle comes next */
bool reader_swizzle(text_reader *r, ptxpack_swizzle *swizzle);
bool reader_compose(text_reader *r); /* skip "o"; false, without a message */
#endif
