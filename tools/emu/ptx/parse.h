/* parse.h - what the parts of the parser share.
 *
 * The parser reads the text once.  An error leaves it by ptx_fail, from any depth: all that it made lies in
 * one of its two memories.  Lists grow in scratch memory; what is final is copied into the module's. */
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
    struct ptx_binding *outer;          /* of the same name, further out */
    struct ptx_binding *numbered_outer; /* likewise for names that differ only in their number */
    struct ptx_binding *next;           /* of the same scope */
};
struct ptx_scope {
    struct ptx_scope   *parent;
    unsigned int        depth; /* 0: the module, 1: a function's parameters and body, ... */
    struct ptx_binding *bindings;
    size_t              pending; /* uses of labels that wait since this scope was opened: from here on */
};
/* The use of a label that was not known yet, or that an inner scope may still declare anew. */
struct ptx_pending {
    const struct ptx_symbol **slot;
    struct ptx_name          *name;
    uint32_t                  line;
};

struct ptx_parser {
    struct ptx_module *module;
    struct ptx_memory *memory, *scratch;
    struct ptx_lexer   lex;
    jmp_buf            out;
    char              *error;
    size_t             error_cap;
    unsigned int       depth; /* of what calls itself: expressions, lists */

    struct ptx_name **buckets;
    size_t            bucket_count, name_count;
    struct ptx_scope *scope;
    struct ptx_list   pending; /* struct ptx_pending */
    bool              awaits;  /* an operand of the instruction in work is a label, or not known yet */

    struct ptx_function *function;                /* whose body is being read; NULL outside */
    uint32_t             file, file_line, caller; /* of the last .loc */
    /* pointers to symbols: of the function in work, and of the module */
    struct ptx_list   registers, variables, labels, module_variables;
    struct ptx_list   functions; /* struct ptx_function * */
    struct ptx_list   aliases;   /* struct ptx_alias, function.c's */
    struct ptx_list   code;      /* struct ptx_instruction */
    struct ptx_list   operands;  /* struct ptx_operand: a stack */
    struct ptx_list   modifiers; /* const char *: of the instruction in work */
    unsigned int      register_count;
    struct ptx_debug *debug; /* debug.c's */
};

/* ---- errors, memory, lists (module.c) -------------------------------------------------------------- */
/* The error's line is that of the token, that of the token before it, or any. */
void ptx_fail(struct ptx_parser *p, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));
void ptx_fail_last(struct ptx_parser *p, const char *format, ...)
    __attribute__((noreturn, format(printf, 2, 3)));
void ptx_fail_at(struct ptx_parser *p, uint32_t line, const char *format, ...)
    __attribute__((noreturn, format(printf, 3, 4)));
void *ptx_keep(struct ptx_parser *p, size_t count, size_t size);    /* the module's memory */
void *ptx_scratch(struct ptx_parser *p, size_t count, size_t size); /* until the end of the parse */
/* A zeroed item at the end. */
void *ptx_add(struct ptx_parser *p, struct ptx_list *list, size_t size);
/* The items from `from` on leave the list: a copy in the module's memory, NULL when there are none. */
void *ptx_take(struct ptx_parser *p, struct ptx_list *list, size_t from, size_t size, unsigned int *count);

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
/* If the token is this one: it is taken. */
bool ptx_take_mark(struct ptx_parser *p, int mark);
bool ptx_take_dot(struct ptx_parser *p, const char *word);
/* It must be: "'}' expected instead of 'ret'", said of the line that lacks it. */
void ptx_want_mark(struct ptx_parser *p, int mark);
/* A name is next; it is taken.  `what` says what it is to name. */
struct ptx_name *ptx_want_name(struct ptx_parser *p, const char *what);
/* A plain non-negative integer, at most `most`, is next; it is taken. */
uint64_t ptx_want_integer(struct ptx_parser *p, uint64_t most, const char *what);
/* "'x', which stands in the text" for error lines; returns buf. */
const char *ptx_token_text(const struct ptx_parser *p, char *buf, size_t cap);
void        ptx_unexpected(struct ptx_parser *p, const char *expected) __attribute__((noreturn));
/* .pragma "..." : nothing that this machine obeys.  Behind the dot word. */
void               ptx_skip_pragma(struct ptx_parser *p);
void               ptx_enter(struct ptx_parser *p); /* one deeper: too deep is an error */
static inline void ptx_leave(struct ptx_parser *p) { p->depth--; }
struct ptx_place   ptx_here(const struct ptx_parser *p, uint32_t line);

/* ---- constants (constant.c) ------------------------------------------------------------------------ */
struct ptx_constant {
    enum ptx_token_kind kind; /* PTX_TOKEN_INTEGER, _F32, _F64 */
    bool                is_unsigned;
    uint64_t            bits;
};
bool                ptx_at_constant(const struct ptx_parser *p); /* may a constant expression begin here? */
struct ptx_constant ptx_constant_expression(struct ptx_parser *p);
/* What follows a '+' after a name. */
int64_t ptx_constant_offset(struct ptx_parser *p);

/* ---- scopes (symbol.c) ----------------------------------------------------------------------------- */
void ptx_scope_open(struct ptx_parser *p);
void ptx_scope_close(struct ptx_parser *p);
/* Binds the name in the innermost scope; a second binding there is an error. */
void ptx_bind(struct ptx_parser *p, struct ptx_name *name, struct ptx_symbol *symbol, uint32_t line);
/* `name<count>` */
void ptx_bind_family(struct ptx_parser *p, struct ptx_name *name, struct ptx_symbol *symbol, uint32_t line);
/* The innermost symbol that the name means, NULL if none; *member: which of a family, otherwise 0. */
struct ptx_symbol *ptx_resolve(struct ptx_parser *p, struct ptx_name *name, uint64_t *member);
/* Bound in the innermost scope itself. */
struct ptx_symbol *ptx_resolve_here(struct ptx_parser *p, const struct ptx_name *name);
/* *slot is to become the label of this name: found when its scopes close. */
void ptx_await_label(struct ptx_parser *p, const struct ptx_symbol **slot, struct ptx_name *name,
                     uint32_t line);

/* ---- variables (variable.c, initial.c) --------------------------------------------------------- */
struct ptx_linkage {
    bool is_extern, is_visible, is_weak, is_common;
};
/* PTX_NO_SPACE if the word names none. */
enum ptx_space ptx_space_find(const char *name);
/* A declaration, the token behind the space, up to and with the ';'. */
void ptx_declaration(struct ptx_parser *p, enum ptx_space space, struct ptx_linkage linkage, uint32_t line);
/* ( .param .b32 a, ... ): symbols are added to the list; bind: into the scope, and '_' is no name. */
void ptx_parameters(struct ptx_parser *p, struct ptx_list *list, bool bind);
/* What follows the '=': fills in s->init and relocations, and the size of an unsized array. */
enum { PTX_MAX_DIMENSIONS = 8 };
void ptx_initial(struct ptx_parser *p, struct ptx_symbol *s, uint64_t dimensions[], unsigned int levels);

/* ---- functions, statements, operands, debug ------------------------------------------------------------ */
void ptx_function(struct ptx_parser *p, struct ptx_linkage linkage, bool is_entry); /* behind .func, .entry */
void ptx_alias(struct ptx_parser *p);
void ptx_resolve_aliases(struct ptx_parser *p);
/* Behind the '{' of a function, up to and with its '}'. */
void ptx_body(struct ptx_parser *p);
/* .callprototype, behind the word. */
void ptx_prototype(struct ptx_parser *p, struct ptx_name *name, uint32_t line);

/* Pushes one operand on p->operands; of a call, '(' begins a group. */
void ptx_operand(struct ptx_parser *p, const char *opcode);
/* The operands of an instruction lie where they stay: those names that are not known yet are awaited. */
void ptx_await_operands(struct ptx_parser *p, struct ptx_operand *operands, unsigned int count, uint32_t line);
/* "tid.x" for %tid.x: the special register of this name, NULL if there is none.  Without '%'. */
bool ptx_is_special(const char *name, bool *vector);

void ptx_debug_file(struct ptx_parser *p);    /* behind .file */
void ptx_debug_loc(struct ptx_parser *p);     /* behind .loc */
void ptx_debug_section(struct ptx_parser *p); /* behind .section */
void ptx_debug_finish(struct ptx_parser *p);
#endif
