/* expand.h - the macro language of .ptx files (GNU as's, see ptx/README.md), as a C call.
 *
 * Input    The input is a file name, a reader that returns the text of that file and of the files that it
 *          .includes, and integer symbols (HEAD_DIM, BLOCK_M, ...), which the text sees as if set by .set.
 * Output   The output is plain PTX text and, for each of its lines, where the line came from.
 * Language The language of GNU as (for x86-64) expands as `as` expands it, with these differences:
 *          - A line is a statement: ; separates nothing, // and block comments are dropped, # is no comment.
 *          - Blank lines and blanks at the end of a line are dropped; the rest of a plain line stays.
 *          - Only directives of the macro language are directives; .reg, .set.eq, ... are plain text.
 *          - Symbols are integers that are known when they are used; division by zero is an error.
 *          - A block (.if, .rept, .macro) must end in the file or macro in which it began.
 *          - `as` drops a blank after \@ or \() in the operands of a call in a macro's body; here it separates.
 *          Two things are added: \[expr] and \{i=first..last: item}.  Both are resolved in a line before calls
 *          and directives are recognised in it.  When a macro's arguments are substituted, \i and \( in a list
 *          stay as they are, for the list.
 * Errors   PTXPACK_E_EXPAND comes with one message: "FILE:LINE: what (in macro NAME, FILE:LINE)...".
 * Threads  There is no shared state: expansions may run in parallel. */
#ifndef PTXPACK_EXPAND_H
#define PTXPACK_EXPAND_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "loader/status.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct ptxpack_symbol {
    const char *name; /* as an assembler symbol: letter or _, then letters, digits, _ */
    int64_t     value;
} ptxpack_symbol;

/* Return the text of `path`.  It has *bytes bytes, which a NUL byte follows.  It belongs to the reader and must
 * stay valid until ptxpack_expand returns.  NULL: there is no such file; or, with an errno other than 0 and
 * ENOENT, it cannot be read. */
typedef const char *(*ptxpack_reader)(void *context, const char *path, size_t *bytes);

/* Return the path of that file for the directive .file: either a string of the caller, or written to buf. */
typedef const char *(*ptxpack_locator)(void *context, const char *path, char *buf, size_t cap);

enum { PTXPACK_EXPAND_MAX_DEPTH = 1000 };

typedef struct ptxpack_expand_options {
    uint32_t              size;    /* = sizeof(ptxpack_expand_options) */
    const ptxpack_symbol *symbols; /* they are defined before the first line */
    size_t                symbol_count;
    ptxpack_reader        read;       /* required */
    void                 *context;    /* an argument of `read` and `locate` */
    ptxpack_locator       locate;     /* NULL: "ptx/" is put before paths that are not absolute */
    bool                  line_info;  /* emit .file and .loc, for profilers */
    uint32_t              max_depth;  /* of nested macros, loops and includes: up to 1000; 0 = 200 */
    size_t                max_output; /* bytes of the output, and of text that is kept meanwhile; 0 = 64 MiB */
    uint32_t              max_ms;     /* milliseconds of real time; 0 = 10000 */
} ptxpack_expand_options;

typedef struct ptxpack_expansion ptxpack_expansion;

/* Expand `path`.  Unless the status is PTXPACK_E_MEMORY, *out is set, so that its message can be read.  The
 * caller frees it with ptxpack_expansion_free.
 *   PTXPACK_OK         the text and the line map are complete
 *   PTXPACK_E_ARG      an option or the name of a symbol is malformed
 *   PTXPACK_E_EXPAND   the text has an error, or a limit was reached
 *   PTXPACK_E_MEMORY   *out is NULL */
PTXPACK_API ptxpack_status ptxpack_expand(const char *path, const ptxpack_expand_options *options,
                                          ptxpack_expansion **out);
PTXPACK_API void           ptxpack_expansion_free(ptxpack_expansion *e);

/* The expanded text, NUL-terminated; NULL after an error.  It belongs to `e`, as do all strings below. */
PTXPACK_API const char *ptxpack_expansion_text(const ptxpack_expansion *e, size_t *bytes);
/* The error as one line, or "" after success.  The messages of .warning, one a line, or "". */
PTXPACK_API const char *ptxpack_expansion_error(const ptxpack_expansion *e);
PTXPACK_API const char *ptxpack_expansion_warnings(const ptxpack_expansion *e);
/* Write to buf where the output line `line` (from 1) came from, for example
 *   attention/mma.ptx:123 (in macro SM_MAX, attention/mma_softmax.ptx:40)
 * First comes the line in the file that was expanded, then each macro from the outside in.  An .include reads
 * "(in attention/mma_softmax.ptx:9)".  The middle of a long chain is left out.  Returns buf; "" for an unknown
 * line. */
PTXPACK_API const char *ptxpack_expansion_where(const ptxpack_expansion *e, size_t line, char *buf, size_t cap);
/* The value of a symbol at the end of the expansion; false if it was never set. */
PTXPACK_API bool ptxpack_expansion_symbol(const ptxpack_expansion *e, const char *name, int64_t *value);

#ifdef __cplusplus
}
#endif
#endif
