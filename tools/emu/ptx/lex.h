/* lex.h - PTX text as tokens. */
#ifndef EMU_PTX_LEX_H
#define EMU_PTX_LEX_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ptx_parser;
struct ptx_binding;

/* A word of the text: one object for all its occurrences.  symbol.c owns what is bound to it. */
struct ptx_name {
    const char         *text; /* in the module's memory */
    uint32_t            hash, bytes;
    struct ptx_name    *next;    /* in its bucket */
    bool                spoiled; /* an error may have left it without a declaration */
    bool                split;   /* the next two are known */
    struct ptx_name    *prefix;  /* the name without the number at its end; NULL: it has no number */
    uint64_t            number;
    struct ptx_binding *symbol;   /* innermost symbol of this name */
    struct ptx_binding *family;   /* innermost family `name<n>` */
    struct ptx_binding *numbered; /* innermost symbol called name1, name2, ... */
};

enum ptx_token_kind {
    PTX_TOKEN_END,
    PTX_TOKEN_WORD,    /* name: ld  %r1  $L  _ */
    PTX_TOKEN_DOT,     /* name without the dot: .reg  .shared::cta  .16x64b */
    PTX_TOKEN_INTEGER, /* value, is_unsigned */
    PTX_TOKEN_F32,     /* 0f: value is the bits */
    PTX_TOKEN_F64,     /* 0d, likewise */
    PTX_TOKEN_DECIMAL, /* 1.5e3: value is the bits of the double */
    PTX_TOKEN_STRING,  /* text, between the quotes */
    PTX_TOKEN_MARK     /* mark */
};
#define PTX_MARK2(a, b) ((a) << 8 | (b)) /* << >> <= >= == != && || */

struct ptx_lexer {
    const char *at, *end;  /* the text that is not read yet */
    uint32_t    line;      /* of `at` */
    uint32_t    last_line; /* where the token before this one ended */
    /* the token */
    enum ptx_token_kind kind;
    int                 mark;
    bool                is_unsigned;
    bool                touches; /* no blank or comment lies between the previous token and this one */
    uint32_t            token_line, bytes;
    const char         *text; /* as written */
    struct ptx_name    *name;
    uint64_t            value;
};

/* The name of the word; a new word gets a new name. */
struct ptx_name *ptx_intern(struct ptx_parser *p, const char *text, size_t bytes);
/* Reads the next token into p->lex. */
void ptx_next(struct ptx_parser *p);
#endif
