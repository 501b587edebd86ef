/* expand.h - the macro language of .ptx files (GNU as's, see ptx/README.md), as a C call.
 *
 * Input    a file name, a reader that returns the text of that file and of what it .includes, and
 *          integer symbols (HEAD_DIM, BLOCK_M, ...), which the text sees as if by .set.
 * Output   plain PTX text and, for each of its lines, where it came from.
 * Language what it shares with GNU as (for x86-64) expands as `as` expands it, except that
 *          - lines are statements: ; separates nothing, // and block comments are dropped, # starts none
 *          - blank lines and blanks at the end of a line are dropped; all else of a plain line stays
 *          - only the directives of the macro language are directives; .reg, .set.eq, ... are plain text
 *          - symbols are integers, known when they are used; division by zero is an error
 *          - a block (.if, .rept, .macro) must end in the file or macro in which it began
 *          - as drops a blank after \@ or \() in the operands of a call in a macro's body; here it separates
 *          and adds \[expr] and \{i=first..last: item}; both are resolved in a line before it is looked at
 *          for calls and directives, and leave \i and \( to the list when a macro's arguments go in.
 * Errors   PTXPACK_E_EXPAND with one message: "FILE:LINE: what (in macro NAME, FILE:LINE)...".
 * Threads  no shared state: expansions may run in parallel. */
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

/* Return the text of `path` (NUL-terminated, *bytes long, without the NUL) or NULL when there is no
 * such file.  The text stays the reader's and must stay valid until ptxpack_expand returns. */
typedef const char *(*ptxpack_reader)(void *context, const char *path, size_t *bytes);

/* Where that file is, for .file: a string of the caller's, or written to buf. */
typedef const char *(*ptxpack_locator)(void *context, const char *path, char *buf, size_t cap);

enum { PTXPACK_EXPAND_MAX_DEPTH = 1000 };

typedef struct ptxpack_expand_options {
    uint32_t              size;    /* = sizeof(ptxpack_expand_options)                         */
    const ptxpack_symbol *symbols; /* defined before the first line                            */
    size_t                symbol_count;
    ptxpack_reader        read;       /* required                                                 */
    void                 *context;    /* handed to read and locate                                */
    ptxpack_locator       locate;     /* NULL: below "ptx/", but for absolute paths               */
    bool                  line_info;  /* emit .file and .loc, for profilers                       */
    uint32_t              max_depth;  /* nested macros, loops and includes; 0 = 200, up to 1000   */
    size_t                max_output; /* bytes of output, and of text at work; 0 = 64 MiB         */
    uint32_t              max_ms;     /* wall-clock limit; 0 = 10000                              */
} ptxpack_expand_options;

typedef struct ptxpack_expansion ptxpack_expansion;

/* Expand `path`.  *out is always set (unless PTXPACK_E_MEMORY) so that its message can be read; free
 * it with ptxpack_expansion_free.
 *   PTXPACK_OK         text and line map are complete
 *   PTXPACK_E_ARG      an option or a symbol name is malformed
 *   PTXPACK_E_EXPAND   an error in the text, or a limit reached
 *   PTXPACK_E_MEMORY   out of memory; *out is NULL */
PTXPACK_API ptxpack_status ptxpack_expand(const char *path, const ptxpack_expand_options *options,
                                          ptxpack_expansion **out);
PTXPACK_API void           ptxpack_expansion_free(ptxpack_expansion *e);

/* The expanded text, NUL-terminated; NULL after an error.  Owned by e. */
PTXPACK_API const char *ptxpack_expansion_text(const ptxpack_expansion *e, size_t *bytes);
/* The error, one line, or "" after success; and the .warning messages, one a line, or "". */
PTXPACK_API const char *ptxpack_expansion_error(const ptxpack_expansion *e);
PTXPACK_API const char *ptxpack_expansion_warnings(const ptxpack_expansion *e);
/* Where output line `line` (from 1) came from, written to buf as
 * "attention/mma.ptx:123 (in macro SM_MAX, attention/mma_softmax.ptx:40)": first the line in the file
 * that was asked for, then each macro from the outside in; an .include reads "(in
 * attention/mma_softmax.ptx:9)", a long chain has its middle left out.  Returns buf; "" for an unknown line. */
PTXPACK_API const char *ptxpack_expansion_where(const ptxpack_expansion *e, size_t line, char *buf, size_t cap);
/* The value of a symbol at the end of the expansion; false when it was never set. */
PTXPACK_API bool ptxpack_expansion_symbol(const ptxpack_expansion *e, const char *name, int64_t *value);

#ifdef __cplusplus
}
#endif
#endif
