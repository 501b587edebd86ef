/* internal.h - the state of one expansion, which only the files of expand/ share.
 *
 *   expand.c    public calls, frames, the line driver
 *   text.c      growing text, hashed names, errors and limits
 *   file.c      files without comments
 *   line.c      words, operands and arguments of a line
 *   expr.c      integer expressions
 *   program.c   expressions and pastes as programs of steps, which are run and kept
 *   paste.c     \[expr] and \{i=a..b: item}
 *   macro.c     .macro
 *   call.c      macro calls
 *   substitute.c arguments in place of parameters
 *   loop.c      .rept .irp .irpc
 *   cond.c      .if and its family
 *   directive.c the table of directives, and the small ones
 *   map.c       where an output line came from
 *   loc.c       .file and .loc
 *   unknown.c   misspelt macros
 *
 * Functions that return bool return false after an error was recorded (expand_fail, expand_no_memory);
 * the caller returns false at once. */
#ifndef PTXPACK_EXPAND_INTERNAL_H
#define PTXPACK_EXPAND_INTERNAL_H
#include <string.h>
#include "expand.h"

typedef struct span { /* bytes owned elsewhere, not NUL-terminated */
    const char *data;
    size_t      size;
} span;

typedef struct text { /* owned, growing bytes */
    char  *data;
    size_t size, cap;
} text;

/* A hash table from names to indices; NAME_NONE: not there. */
#define NAME_NONE UINT32_MAX
typedef struct name_slot {
    char    *name;
    size_t   size;
    uint32_t hash, index;
} name_slot;
typedef struct names {
    name_slot *slots;
    uint32_t   cap, count;
} names;

/* ---- positions ------------------------------------------------------------------------------------- */
typedef struct place { /* a line as written, and the call through which it was reached */
    uint32_t file, line;
    uint32_t site; /* index into sites; 0 = not through a call */
} place;
typedef struct call_site { /* a macro call or an .include */
    place    at;
    uint32_t macro; /* index into macro_names; NAME_NONE for an .include */
} call_site;
typedef struct map_run { /* output lines from `out` on came from at, at.line + 1, ... */
    uint32_t out;
    place    at;
} map_run;

/* ---- macros ---------------------------------------------------------------------------------------- */
enum formal_kind { FORMAL_OPTIONAL, FORMAL_REQUIRED, FORMAL_VARARG };
typedef struct formal {
    text             name, initial, actual; /* initial: the default */
    enum formal_kind kind;
} formal;
typedef struct formals {
    formal  *items;
    uint32_t count, cap;
    names    index;
} formals;
typedef struct piece { /* a part of a body: plain text, then what replaces a \name */
    const char *data;
    size_t      size;
    uint32_t    then; /* index of a formal, or an enum piece_end */
} piece;
typedef struct pieces {
    piece   *items;
    uint32_t count, cap;
} pieces;
typedef struct macro {
    uint32_t name; /* index into macro_names */
    formals  params;
    text     body;
    pieces   parts;      /* of body; none before the first call */
    uint32_t file, line; /* of the first line of the body */
    uint32_t number;     /* unique to this definition */
} macro;

/* ---- frames: what is being read, innermost last ---------------------------------------------------- */
enum frame_kind { FRAME_FILE, FRAME_MACRO, FRAME_REPT, FRAME_IRP, FRAME_IRPC };
typedef struct frame {
    enum frame_kind kind;
    span            source; /* a source of lines: `own`, a file, or an outer frame */
    size_t          pos;
    place           first; /* of source */
    uint32_t        line;  /* of the line at pos */
    text            own;   /* substituted text of a macro, .irp or .irpc; kept for the next use */
    /* loops */
    span     body;     /* as written, in the outer frame */
    size_t   held;     /* bytes of source that count towards max_output */
    uint64_t left;     /* .rept: iterations to come */
    formal   variable; /* .irp, .irpc */
    pieces   parts;    /* of their body */
    text     items;    /* their operands */
    size_t   item;     /* the bytes of items that were read so far */
    bool     quoted, started;
    uint32_t number; /* the value of \@ */
} frame;

typedef struct condition {
    place    at;
    uint32_t depth; /* of the frame that opened it */
    bool     dead, taken, ignoring, seen_else;
} condition;

typedef struct source_file {
    char *path;
    text  stripped; /* comments gone, newlines kept */
} source_file;

typedef struct line_info { /* what loc.c knows of the output so far */
    uint32_t *numbers;     /* per file: its .file number, 0 = none yet */
    uint32_t  used, cap;
    uint32_t  depth; /* of braces */
    bool      in_function;
    bool      header;   /* an .entry or .func was seen, its body not yet */
    bool      boundary; /* a statement may start here */
    place     last;     /* of the last .loc */
} line_info;

struct ptxpack_expansion {
    text         out, error, warnings;
    bool         ok;
    names        symbols;
    int64_t     *values;
    uint32_t     value_count, value_cap;
    source_file *files;
    uint32_t     file_count, file_cap;
    names        macro_names; /* as macro.c folds them */
    char       **macro_texts; /* the names as they were first written, by index */
    uint32_t     macro_text_cap;
    call_site   *sites;
    uint32_t     site_count, site_cap;
    map_run     *runs;
    uint32_t     run_count, run_cap;
    uint32_t     out_lines;
};

typedef struct step      step; /* program.c */
typedef struct program   program;
typedef struct kept_call kept_call; /* call.c */
enum { PROGRAMS = 1024, KEPT_CALLS = 512 };

typedef struct expander {
    ptxpack_expansion     *e;
    ptxpack_expand_options options; /* defaults filled in */
    ptxpack_status         status;
    names                  file_names;
    macro                **macros; /* by index in e->macro_names; NULL: not defined (any more) */
    uint32_t               macro_cap;
    bool                   dots;    /* the name of some macro contains a dot */
    uint32_t               calls;   /* the value of \@ in the next call */
    uint32_t               defined; /* the number of macros so far */
    frame                 *frames;
    uint32_t               depth, frame_cap;
    condition             *conditions;
    uint32_t               condition_count, condition_cap;
    place                  here;               /* the line that is being expanded */
    text                   pasted, scrubbed;   /* scratch memory: each has one user at a time */
    program               *programs[PROGRAMS]; /* by hash of their text */
    step                  *steps_read;         /* scratch memory: the steps of the text that is being read */
    uint32_t               step_cap;
    kept_call             *kept_calls[KEPT_CALLS];
    size_t                 kept; /* bytes of kept programs and calls */
    size_t                 held; /* bytes of macros and of the text of frames */
    uint64_t               steps, next_check, deadline_ms;
    uint32_t               warning_count;
    line_info              info;
} expander;

/* ---- text.c --------------------------------------------------------------------------------- */
static inline span span_of(const char *data, size_t size)
{
    span s = {data, size};
    return s;
}
static inline span span_text(const text *t) { return span_of(t->data, t->size); }
static inline bool span_is(span s, const char *word)
{
    return s.size == strlen(word) && memcmp(s.data, word, s.size) == 0;
}
bool               expand_text_reserve(expander *x, text *t, size_t extra); /* and room for a NUL */
static inline bool expand_text_add(expander *x, text *t, const char *data, size_t size)
{
    if (size >= t->cap - t->size && !expand_text_reserve(x, t, size))
        return false;
    if (size)
        memcpy(t->data + t->size, data, size);
    t->size += size;
    t->data[t->size] = 0;
    return true;
}
static inline bool expand_text_char(expander *x, text *t, char c) { return expand_text_add(x, t, &c, 1); }
bool               expand_text_number(expander *x, text *t, int64_t value);
void               expand_text_free(text *t);
/* Make room for one more item of `size` bytes in a growing array. */
bool               expand_grow_more(expander *x, void **items, uint32_t *cap, size_t size);
static inline bool expand_grow(expander *x, void **items, uint32_t count, uint32_t *cap, size_t size)
{
    return count < *cap || expand_grow_more(x, items, cap, size);
}

uint32_t expand_hash(span s);
uint32_t expand_names_find(const names *n, span name);
bool     expand_names_put(expander *x, names *n, span name, uint32_t index);
void     expand_names_free(names *n);

/* Record an error and return false.  These are macros, so that the compiler sees the false.  Only the first
 * error is reported. */
#define expand_fail(x, ...)        (expand_record((x), (x)->here, __VA_ARGS__), false)
#define expand_fail_at(x, at, ...) (expand_record((x), (at), __VA_ARGS__), false)
void expand_record(expander *x, place at, const char *format, ...) __attribute__((format(printf, 3, 4)));
static inline bool expand_no_memory(expander *x)
{
    x->status = PTXPACK_E_MEMORY;
    return false;
}
bool expand_warn(expander *x, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Count work in bytes of text, and stop an expansion that takes too long. */
enum { BYTES_PER_STEP = 64 };
bool               expand_check_steps(expander *x);
static inline bool expand_step(expander *x, size_t bytes)
{
    x->steps += 1 + bytes / BYTES_PER_STEP;
    return x->steps < x->next_check || expand_check_steps(x);
}
/* Count bytes that stay allocated until expand_release. */
bool expand_hold(expander *x, size_t bytes);
void expand_release(expander *x, size_t bytes);
/* How many characters of a text a message quotes at most: printf("%.*s", QUOTE(s)). */
#define QUOTE(s) ((s).size > 60 ? 60 : (int)(s).size), ((s).size ? (s).data : "")

/* ---- file.c --------------------------------------------------------------------------------- */
/* Read a file and remove its comments, or find it if it was read before. */
bool expand_file(expander *x, span path, uint32_t site, uint32_t *file);

/* ---- line.c --------------------------------------------------------------------------------- */
/* Classes of characters; bits. */
enum {
    IS_BLANK = 1,
    IS_LETTER = 2 /* or _ or $ */,
    IS_DOT = 4,
    IS_DIGIT = 8,
    IS_SIGN = 16,      /* names, digits and these are what `as` (for x86) calls symbol characters */
    IS_QUOTE = 32,     /* " or ' */
    ENDS_KEYWORD = 64, /* ends NAME of NAME=value */
    IN_ARGUMENT = 128  /* has a special meaning in an argument */
};
extern const uint8_t expand_classes[256];
static inline bool   is_any(char c, int classes) { return (expand_classes[(unsigned char)c] & classes) != 0; }
static inline bool   is_blank(char c) { return is_any(c, IS_BLANK); }
static inline bool   is_name_start(char c) { return is_any(c, IS_LETTER | IS_DOT); }
static inline bool   is_name(char c) { return is_any(c, IS_LETTER | IS_DOT | IS_DIGIT); }

static inline size_t expand_skip_blank(span s, size_t at)
{
    while (at + 8 <= s.size && memcmp(s.data + at, "        ", 8) == 0) /* lines are indented */
        at += 8;
    while (at < s.size && is_blank(s.data[at]))
        at++;
    return at;
}
static inline span expand_trim(span s)
{
    size_t start = expand_skip_blank(s, 0);
    s = span_of(s.data + start, s.size - start);
    while (s.size && is_blank(s.data[s.size - 1]))
        s.size--;
    return s;
}
/* The name that s starts with; may be empty. */
static inline span expand_word(span s)
{
    size_t n = 0;
    if (s.size && is_name_start(s.data[0]))
        while (n < s.size && is_name(s.data[n]))
            n++;
    return span_of(s.data, n);
}
size_t expand_label(span s); /* bytes of the "label:" that s starts with, or 0 */
/* as's scrubber: removes blanks that do not separate words, and turns 'c' into a number.  The result is in
 * x->scrubbed. `operands` is everything after the first word: when they touch it, the first blank stays. */
bool   expand_scrub(expander *x, span operands, span *out);
size_t expand_skip_comma(span s, size_t at);
/* One argument of a macro call or .irp, from `at` on; returns where it ends. */
bool expand_argument(expander *x, span s, size_t *at, text *out);
span expand_quoted(span s); /* the inside of "..." if s is exactly that, otherwise data is NULL */

/* ---- program.c ------------------------------------------------------------------------------ */
enum step_kind {
    STEP_NONE,
    STEP_MUL,
    STEP_DIV,
    STEP_MOD,
    STEP_SHL,
    STEP_SHR,
    STEP_OR,
    STEP_OR_NOT,
    STEP_XOR,
    STEP_AND,
    STEP_ADD,
    STEP_SUB,
    STEP_EQ,
    STEP_NE,
    STEP_LT,
    STEP_LE,
    STEP_GE,
    STEP_GT,
    STEP_LAND,
    STEP_LOR,
    LAST_OPERATOR = STEP_LOR, /* of two operands */
    STEP_VALUE,
    STEP_SYMBOL,
    STEP_NEGATE,
    STEP_COMPLEMENT,
    STEP_NOT,
    STEP_AGAIN, /* the value that the last STEP_PASTE with a value of 1 wrote */
    STEP_TEXT,
    STEP_PASTE,
    STEP_LIST /* copy text; write the value; write a list */
};
struct step {
    enum step_kind op;
    bool           has_right; /* an operator whose right operand is `value` */
    int64_t        value;     /* of STEP_VALUE; the index of a symbol */
    size_t         at, size;  /* bytes of the text that a STEP_TEXT or STEP_LIST is about */
};
typedef struct reader { /* translates a text into steps */
    expander      *x;
    span           text;
    span           s; /* the expression in it, and where the reader is in that */
    size_t         at;
    int            nesting;
    enum step_kind next; /* the operator at `at`, after an operand */
    size_t         next_size;
    uint32_t       count;            /* of steps, in x->steps_read */
    uint32_t       base, base_count; /* steps whose value later steps may use again */
    const char    *wrong;            /* the error, at `at` or in the text as a whole */
    bool           whole;
} reader;
typedef bool (*expand_read)(reader *r); /* false: it ends with an error */
typedef struct target {                 /* where the results go */
    int64_t *value;
    text    *out;
    int      nesting; /* of lists */
} target;
bool expand_add_step(reader *r, step s);
/* Read s, unless its steps are known, and run them. */
bool expand_evaluate(expander *x, span s, expand_read read, target to);
void expand_programs_free(expander *x);

/* ---- expr.c --------------------------------------------------------------------------------- */
enum { EXPAND_MAX_NESTING = 200 }; /* of parentheses and unary operators: they recurse */
bool expand_expression(expander *x, span s, int64_t *value); /* all of s */
bool expand_read_expression(reader *r);                      /* r->s */
bool expand_tell(const reader *r);                           /* report the error */
bool expand_symbol_set(expander *x, span name, int64_t value);
bool expand_symbol_get(const ptxpack_expansion *e, span name, int64_t *value);

/* ---- paste.c -------------------------------------------------------------------------------- */
bool expand_paste(expander *x, span line, text *out);
bool expand_list(expander *x, span s, text *out, int nesting); /* "{i=a..b: item}", all of s */
/* If s, which follows a "\", starts a list "{name=", its variable; otherwise an empty span. */
span expand_list_variable(span s);
/* The expression of the \[expr] that s starts with. */
span expand_pasted(span s);

/* ---- macro.c -------------------------------------------------------------------------------- */
bool    expand_macro_define(expander *x, span operands);
bool    expand_macro_purge(expander *x, span operands);
macro  *expand_macro_find(const expander *x, span name);
void    expand_macro_free(expander *x, macro *m);
formal *expand_formal_find(const formals *f, span name);
void    expand_formal_free(formal *f);

/* ---- call.c --------------------------------------------------------------------------------- */
bool expand_macro_call(expander *x, macro *m, span operands);
void expand_calls_free(expander *x);

/* ---- substitute.c --------------------------------------------------------------------------- */
enum piece_end { /* the end of the body, or an error that is reported when this piece is used */
                 PIECE_FORMALS = INT32_MAX - 8,
                 PIECE_END,
                 PIECE_NUMBER,
                 PIECE_UNCLOSED,
                 PIECE_TOO_DEEP
};
/* Divide a body, which must not move, at the "\name" of f and, if `numbered`, at "\@". */
bool expand_divide(expander *x, span body, const formals *f, bool numbered, pieces *out);
/* Append the body to out, with the values of f and `number` in place. */
bool expand_substitute(expander *x, const pieces *p, const formals *f, uint32_t number, text *out);
void expand_pieces_drop(expander *x, pieces *p); /* the memory stays allocated for the next body */
void expand_pieces_free(expander *x, pieces *p);

/* ---- loop.c --------------------------------------------------------------------------------- */
bool expand_loop_open(expander *x, enum frame_kind kind, span operands);
/* Start the next iteration of the innermost frame; *more is false when it is over. */
bool expand_loop_next(expander *x, bool *more);

/* ---- cond.c --------------------------------------------------------------------------------- */
enum condition_kind {
    IF_EXPR,
    IF_EQ,
    IF_NE,
    IF_GT,
    IF_GE,
    IF_LT,
    IF_LE,
    IF_DEF,
    IF_NDEF,
    IF_C,
    IF_NC,
    IF_B,
    IF_NB,
    IF_ELSEIF,
    IF_ELSE,
    IF_END
};
bool               expand_condition(expander *x, enum condition_kind kind, span operands);
static inline bool expand_ignoring(const expander *x)
{
    return x->condition_count && x->conditions[x->condition_count - 1].ignoring;
}
/* Check that no block opened in frame `depth` is still open. */
bool expand_condition_closed(expander *x, uint32_t depth);
void expand_condition_drop(expander *x, uint32_t depth);

/* ---- directive.c ---------------------------------------------------------------------------- */
int  expand_directive_find(span word); /* ".if" -> its index; -1: none of ours */
bool expand_directive_is_condition(int index);
/* True for .elseif, because the conditions before it decide whether its operand is evaluated. */
bool expand_directive_pastes_itself(int index);
/* +1: it opens a block of that kind; -1: it closes one; 0: neither. */
int  expand_directive_block(int index, bool loop);
bool expand_directive_run(expander *x, int index, span operands);
bool expand_assign(expander *x, span name, span value, bool once);

/* ---- expand.c -------------------------------------------------------------------------------------- */
bool expand_frame_push(expander *x, enum frame_kind kind, frame **out);
/* Count the frame's own source towards max_output, in place of what was counted before. */
bool expand_frame_hold(expander *x, frame *f);
/* Take lines from the innermost frame up to the line that closes the block just opened. */
bool expand_take_block(expander *x, bool loop, span *body, place *first);
bool expand_exit(expander *x); /* .exitm */

/* ---- map.c ---------------------------------------------------------------------------------- */
bool   expand_map_line(expander *x, place at);
bool   expand_map_site(expander *x, place at, uint32_t macro_name, uint32_t *site);
size_t expand_map_format(const ptxpack_expansion *e, place at, const char *what, char *buf, size_t cap);

/* ---- loc.c ---------------------------------------------------------------------------------- */
bool expand_loc_before(expander *x, span line);
bool expand_loc_after(expander *x, span line);
bool expand_loc_end(expander *x);

#endif
