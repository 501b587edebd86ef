/* token.c - questions about the current token, for every part of the parser. */
#include <stdio.h>
#include "parse.h"

enum { MAX_DEPTH = 64 };

bool ptx_take_mark(struct ptx_parser *p, int mark)
{
    if (!ptx_at_mark(p, mark))
        return false;
    ptx_next(p);
    return true;
}

bool ptx_take_dot(struct ptx_parser *p, const char *word)
{
    if (!ptx_at_dot(p, word))
        return false;
    ptx_next(p);
    return true;
}

const char *ptx_token_text(const struct ptx_parser *p, char *buf, size_t cap)
{
    const struct ptx_lexer *l = &p->lex;
    if (l->kind == PTX_TOKEN_END)
        snprintf(buf, cap, "the end of the text");
    else
        snprintf(buf, cap, "'%.*s%s'", l->bytes > 60 ? 60 : (int)l->bytes, l->text, l->bytes > 60 ? "..." : "");
    return buf;
}

void ptx_unexpected(struct ptx_parser *p, const char *expected)
{
    char text[80];
    ptx_fail(p, "%s expected instead of %s", expected, ptx_token_text(p, text, sizeof text));
}

void ptx_want_mark(struct ptx_parser *p, int mark)
{
    char text[80];
    if (ptx_take_mark(p, mark))
        return;
    ptx_fail_at(p, p->lex.last_line, "'%c' is missing before %s", mark, ptx_token_text(p, text, sizeof text));
}

struct ptx_name *ptx_want_name(struct ptx_parser *p, const char *what)
{
    struct ptx_name *name = p->lex.name;
    if (p->lex.kind != PTX_TOKEN_WORD || strcmp(name->text, "_") == 0)
        ptx_unexpected(p, what);
    ptx_next(p);
    return name;
}

uint64_t ptx_want_integer(struct ptx_parser *p, uint64_t most, const char *what)
{
    uint64_t value = p->lex.value;
    if (p->lex.kind != PTX_TOKEN_INTEGER)
        ptx_unexpected(p, what);
    if (value > most)
        ptx_fail(p, "%s: %llu is more than %llu", what, (unsigned long long)value, (unsigned long long)most);
    ptx_next(p);
    return value;
}

void ptx_skip_pragma(struct ptx_parser *p)
{
    do {
        if (p->lex.kind != PTX_TOKEN_STRING)
            ptx_unexpected(p, "a string");
        ptx_next(p);
    } while (ptx_take_mark(p, ','));
    ptx_want_mark(p, ';');
}

void ptx_enter(struct ptx_parser *p)
{
    if (++p->depth > MAX_DEPTH)
        ptx_fail(p, "nested more than %d deep", MAX_DEPTH);
}

struct ptx_place ptx_here(const struct ptx_parser *p, uint32_t line)
{
    struct ptx_place place = {line, p->file, p->file_line, p->caller};
    return place;
}
