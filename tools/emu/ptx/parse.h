/* parse.h - what the parts of the parser share.
 *
 * The parser reads the text once.  ptx_fail leaves a statement from any depth, since everything that the parser
 * allocates lies in one of its two memories, and the parser goes on with the next statement (recover.c).  Lists grow in scratch memory; final lists are copied into the module's
 * memory. */
#ifndef EMU_PTX_PARSE_H
#define EMU_PTX_PARSE_H
#include <setjmp.h>
#include <string.h>
#include "ptx.h"
#include "lex.h"

struct ptx_list {
    void  *items;
    size_t count, capacity;
};

/* A symbol under its name, in a scope. */
struct ptx_binding {
    struct ptx_symbol  *symbol;
    struct ptx_name    *name;
    struct ptx_scope   *scope;
    bool                family;
    struct ptx_binding *outer;          /* of the same name, in an outer scope */
    struct ptx_binding *numbered_outer; /* the same for names that differ only in their number */
    struct ptx_binding *next;           /* of the same scope */
};
struct ptx_scope {
    struct ptx_scope   *parent;
    unsigned int        depth; /* 0: the module, 1: a function's parameters and body, ... */
    struct ptx_binding *bindings;
    size_t              pending; /* index of the first use of a label that waits since this scope was opened */
};
/* The use of a label that was unknown at that point, or that an inner scope may still redeclare. */
struct ptx_pending {
    const struct ptx_symbol **slot;
    struct ptx_name          *name;
    uint32_t                  line;
};

struct ptx_parser {
    struct ptx_module *module;
    struct ptx_memory *memory, *scratch;
    struct ptx_lexer   lex;
    jmp_buf            out;    /* of the whole parse */
    jmp_buf           *again;  /* to where the innermost attempt began; NULL: none */
    struct ptx_errors *errors; /* what is built after the first one is a tree, but not that of the text */
    const char        *begin;  /* of the statement or declaration that is being read */
    uint32_t           begin_line;
    bool               restart; /* the next attempt must read a token first */
    bool               lost;    /* an error has swallowed the rest of the text */
    bool               drop;    /* the instruction has unknown names */
    unsigned int       blocks;  /* that are open in the body */
    unsigned int       depth;   /* of recursion: expressions, lists */

    struct ptx_name **buckets;
    size_t            bucket_count, name_count;
    struct ptx_scope *scope;
    struct ptx_list   pending; /* struct ptx_pending */
    bool              awaits;  /* an operand of the current instruction is a label, or unknown so far */

    struct ptx_function *function;                /* the function whose body is being read; NULL: none */
    uint32_t             file, file_line, caller; /* of the last .loc */
    /* pointers to symbols: of the current function, and of the module */
    struct ptx_list   registers, variables, labels, module_variables;
    struct ptx_list   functions; /* struct ptx_function * */
    struct ptx_list   aliases;   /* struct ptx_alias, function.c's */
    struct ptx_list   code;      /* struct ptx_instruction */
    struct ptx_list   operands;  /* struct ptx_operand: a stack */
    struct ptx_list   modifiers; /* const char *: of the current instruction */
    unsigned int      register_count;
    struct ptx_debug *debug; /* debug.c's */
};

/* ---- errors, memory, lists (module.c) -------------------------------------------------------------- */
/* The line of the error is that of the token, of the token before it, or any line. */
void ptx_fail(struct ptx_parser *p, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));
void ptx_fail_last(struct ptx_parser *p, const char *format, ...)
    __attribute__((noreturn, format(printf, 2, 3)));
void ptx_fail_at(struct ptx_parser *p, uint32_t line, const char *format, ...)
    __attribute__((noreturn, format(printf, 3, 4)));
/* Keep an error and go on. */
void ptx_note_at(struct ptx_parser *p, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void  ptx_no_memory(struct ptx_parser *p) __attribute__((noreturn));
void *ptx_keep(struct ptx_parser *p, size_t count, size_t size);    /* the module's memory */
void *ptx_scratch(struct ptx_parser *p, size_t count, size_t size); /* until the end of the parse */
/* Append a zeroed item. */
void *ptx_add(struct ptx_parser *p, struct ptx_list *list, size_t size);
/* Move the items from `from` on out of the list into the module's memory; NULL: there are none. */
void *ptx_take(struct ptx_parser *p, struct ptx_list *list, size_t from, size_t size, unsigned int *count);

/* ---- after an error (recover.c) ------------------------------------------------------------------------ */
/* Call `part`, which reads statements or declarations until they end.  False: one of them has an error; call a skip
 * function, then try again. */
bool ptx_attempt(struct ptx_parser *p, void (*part)(struct ptx_parser *));
void ptx_leave_attempt(struct ptx_parser *p) __attribute__((noreturn));
/* A statement or a declaration begins at the current token. */
static inline void ptx_begin(struct ptx_parser *p)
{
    p->begin = p->lex.text;
    p->begin_line = p->lex.token_line;
    p->drop = false;
}
/* Go on behind a statement of a function, whose body ends (p->blocks is 0) if there is no further one. */
void ptx_skip_statement(struct ptx_parser *p);
/* Go on behind a declaration or a function of the module. */
void ptx_skip_declaration(struct ptx_parser *p);

/* ---- tokens (token.c) ------------------------------------------------------------------------------ */
void               ptx_number(struct ptx_parser *p); /* number.c */
static inline bool ptx_at_mark(const struct ptx_parser *p, int mark)
{
    return p->lex.kind == PTX_TOKEN_MARK && p->lex.mark == mark;
}
static inline bool ptx_at_dot(const struct ptx_parser *p, const char *word)
{
    return p->lex.kind == PTX_TOKEN_DOT && strcmp(p->lex.name->text, word) == 0;
}
static inline bool ptx_at_word(const struct ptx_parser *p, const char *word)
{
    return p->lex.kind == PTX_TOKEN_WORD && strcmp(p->lex.name->text, word) == 0;
}
/* Take the token if it is this one. */
bool ptx_take_mark(struct ptx_parser *p, int mark);
bool ptx_take_dot(struct ptx_parser *p, const char *word);
/* The token must be this one.  Otherwise the error is "'}' expected instead of 'ret'", for the line that lacks
 * it. */
void ptx_want_mark(struct ptx_parser *p, int mark);
/* Take a name.  `what` says, for the error, what it names. */
struct ptx_name *ptx_want_name(struct ptx_parser *p, const char *what);
/* Take a plain non-negative integer, at most `most`. */
uint64_t ptx_want_integer(struct ptx_parser *p, uint64_t most, const char *what);
/* The token as it is written, in quotes, for error lines; returns buf. */
const char *ptx_token_text(const struct ptx_parser *p, char *buf, size_t cap);
void        ptx_unexpected(struct ptx_parser *p, const char *expected) __attribute__((noreturn));
/* Skip the rest of .pragma "...": no pragma has an effect here. */
void               ptx_skip_pragma(struct ptx_parser *p);
void               ptx_enter(struct ptx_parser *p); /* enter one more level; too many levels are an error */
static inline void ptx_leave(struct ptx_parser *p) { p->depth--; }
struct ptx_place   ptx_here(const struct ptx_parser *p, uint32_t line);

/* ---- constants (constant.c) ------------------------------------------------------------------------ */
struct ptx_constant {
    enum ptx_token_kind kind; /* PTX_TOKEN_INTEGER, _F32, _F64 */
    bool                is_unsigned;
    uint64_t            bits;
};
bool                ptx_at_constant(const struct ptx_parser *p); /* can a constant expression begin here? */
struct ptx_constant ptx_constant_expression(struct ptx_parser *p);
/* The offset after a name and '+'. */
int64_t ptx_constant_offset(struct ptx_parser *p);

/* ---- scopes (symbol.c) ----------------------------------------------------------------------------- */
void ptx_scope_open(struct ptx_parser *p);
void ptx_scope_close(struct ptx_parser *p);
void ptx_scope_drop(struct ptx_parser *p); /* the same, without a look at the labels */
/* Keep the error, unless it follows from an earlier one: that of the statement that should have declared the name. */
void ptx_unknown(struct ptx_parser *p, struct ptx_name *name, uint32_t line);
/* Bind the name in the innermost scope; a second binding there is an error. */
void ptx_bind(struct ptx_parser *p, struct ptx_name *name, struct ptx_symbol *symbol, uint32_t line);
/* `name<count>` */
void ptx_bind_family(struct ptx_parser *p, struct ptx_name *name, struct ptx_symbol *symbol, uint32_t line);
/* The innermost symbol of this name; NULL: none.  *member: which one of a family, otherwise 0. */
struct ptx_symbol *ptx_resolve(struct ptx_parser *p, struct ptx_name *name, uint64_t *member);
/* Bound in the innermost scope itself. */
struct ptx_symbol *ptx_resolve_here(struct ptx_parser *p, const struct ptx_name *name);
/* Set *slot to the label of this name, which is looked up when the scopes close. */
void ptx_await_label(struct ptx_parser *p, const struct ptx_symbol **slot, struct ptx_name *name,
                     uint32_t line);

/* ---- variables (variable.c, initial.c) --------------------------------------------------------- */
struct ptx_linkage {
    bool is_extern, is_visible, is_weak, is_common;
};
/* PTX_NO_SPACE if the word names none. */
enum ptx_space ptx_space_find(const char *name);
/* A declaration, from the token after the state space up to and including the ';'. */
void ptx_declaration(struct ptx_parser *p, enum ptx_space space, struct ptx_linkage linkage, uint32_t line);
/* ( .param .b32 a, ... ): add the symbols to the list.  bind: also into the scope, where '_' is not a name. */
void ptx_parameters(struct ptx_parser *p, struct ptx_list *list, bool bind);
/* What follows the '='.  Fills in s->init, the relocations, and the size of an unsized array. */
enum { PTX_MAX_DIMENSIONS = 8 };
void ptx_initial(struct ptx_parser *p, struct ptx_symbol *s, uint64_t dimensions[], unsigned int levels);

/* ---- functions, statements, operands, debug ------------------------------------------------------------ */
void ptx_function(struct ptx_parser *p, struct ptx_linkage linkage, bool is_entry); /* after .func, .entry */
void ptx_alias(struct ptx_parser *p);
void ptx_resolve_aliases(struct ptx_parser *p);
/* From after the '{' of a function up to and including its '}'. */
void ptx_body(struct ptx_parser *p);
/* After the word .callprototype. */
void ptx_prototype(struct ptx_parser *p, struct ptx_name *name, uint32_t line);

/* Pushes one operand on p->operands; of a call, '(' begins a group. */
void ptx_operand(struct ptx_parser *p, const char *opcode);
/* The operands have their final place: register those whose names are unknown so far. */
void ptx_await_operands(struct ptx_parser *p, struct ptx_operand *operands, unsigned int count, uint32_t line);
/* "tid.x" for %tid.x: the special register of this name, NULL if there is none.  Without '%'. */
bool ptx_is_special(const char *name, bool *vector);

void ptx_debug_file(struct ptx_parser *p);    /* after .file */
void ptx_debug_loc(struct ptx_parser *p);     /* after .loc */
void ptx_debug_section(struct ptx_parser *p); /* after .section */
void ptx_debug_finish(struct ptx_parser *p);
#endif
