/* read.h - private: reading CuTe's notation piece by piece, with errors that name the column. */
#ifndef PTXPACK_LAYOUT_READ_H
#define PTXPACK_LAYOUT_READ_H
#include "layout.h"

/* Text that is read from left to right; blanks between its pieces do not count.  It may hold any byte.  Each
 * function that returns false has left its line in ptxpack_detail(NULL), such as "column 7: expected ')'". */
typedef struct text_reader {
    const char *text, *end, *at;
} text_reader;

text_reader reader_begin(const char *text, size_t bytes);
int         reader_peek(text_reader *r);                /* the next byte that is no blank; -1: the end */
bool        reader_take(text_reader *r, char wanted);   /* step over it; false, without a line: not there */
bool        reader_expect(text_reader *r, char wanted); /* or say no                                    */
bool        reader_expect_end(text_reader *r);
bool        reader_no(const text_reader *r, const char *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* "column C: expected WHAT, found ..." of the piece that comes next. */
bool reader_expected(text_reader *r, const char *what);

bool reader_starts_leaf(text_reader *r);                          /* an integer or `_` comes next         */
bool reader_integer(text_reader *r, int64_t *value);              /* 8, -8, _8                            */
bool reader_leaf(text_reader *r, int64_t *value, uint64_t *kind); /* also `_` and 1@0                     */
bool reader_tuple(text_reader *r, ptxpack_tuple *t);
bool reader_starts_swizzle(text_reader *r); /* Sw or Swizzle comes next              */
bool reader_swizzle(text_reader *r, ptxpack_swizzle *swizzle);
bool reader_compose(text_reader *r); /* step over "o"; false, without a line */
#endif
