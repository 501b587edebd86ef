/* lex.c - PTX text as tokens. */
#include <string.h>
#include "parse.h"

enum { MAX_WORD = 8192 };

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

static bool is_follow(char c) /* within a word */
{
    return is_letter(c) || is_digit(c) || c == '_' || c == '$';
}

/* ---- names --------------------------------------------------------------------------------------------- */
static void grow_names(struct ptx_parser *p)
{
    size_t            count = p->bucket_count ? 2 * p->bucket_count : 1024;
    struct ptx_name **buckets = (struct ptx_name **)ptx_scratch(p, count, sizeof(struct ptx_name *));
    for (size_t i = 0; i < p->bucket_count; i++)
        for (struct ptx_name *n = p->buckets[i], *next; n != NULL; n = next) {
            next = n->next;
            n->next = buckets[n->hash % count];
            buckets[n->hash % count] = n;
        }
    p->buckets = buckets;
    p->bucket_count = count;
}

struct ptx_name *ptx_intern(struct ptx_parser *p, const char *text, size_t bytes)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ (unsigned char)text[i]) * 16777619u;
    hash ^= hash >> 15; /* the low bits choose the bucket */
    if (p->name_count >= p->bucket_count)
        grow_names(p);
    struct ptx_name **bucket = &p->buckets[hash % p->bucket_count];
    for (struct ptx_name *n = *bucket; n != NULL; n = n->next)
        if (n->hash == hash && n->bytes == bytes && memcmp(n->text, text, bytes) == 0)
            return n;
    if (bytes > MAX_WORD)
        ptx_fail(p, "a name of %zu characters is too long", bytes);
    struct ptx_name *name = (struct ptx_name *)ptx_scratch(p, 1, sizeof *name);
    char            *copy = (char *)ptx_keep(p, bytes + 1, 1);
    memcpy(copy, text, bytes);
    name->text = copy;
    name->hash = hash;
    name->bytes = (uint32_t)bytes;
    name->next = *bucket;
    *bucket = name;
    p->name_count++;
    return name;
}

/* ---- between tokens ------------------------------------------------------------------------------------ */
static void skip_comment(struct ptx_parser *p)
{
    struct ptx_lexer *l = &p->lex;
    uint32_t          line = l->line;
    for (l->at += 2; l->end - l->at >= 2; l->at++) {
        if (l->at[0] == '*' && l->at[1] == '/') {
            l->at += 2;
            return;
        }
        if (l->at[0] == '\n')
            l->line++;
    }
    ptx_fail_at(p, line, "this comment does not end");
}

static void skip_line(struct ptx_lexer *l)
{
    const char *end = (const char *)memchr(l->at, '\n', (size_t)(l->end - l->at));
    l->at = end != NULL ? end : l->end;
}

static bool starts(const struct ptx_lexer *l, const char *word)
{
    size_t bytes = strlen(word);
    return (size_t)(l->end - l->at) >= bytes && memcmp(l->at, word, bytes) == 0;
}

/* Skip blanks, comments, and lines that carry debug information in the old way. */
static void skip_blanks(struct ptx_parser *p)
{
    struct ptx_lexer *l = &p->lex;
    while (l->at < l->end) {
        char c = *l->at;
        if (c == '\n') {
            l->line++;
            l->at++;
        } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
            l->at++;
        } else if (starts(l, "//") || starts(l, "@@DWARF")) {
            skip_line(l);
        } else if (starts(l, "/*")) {
            skip_comment(p);
        } else {
            break;
        }
    }
}

/* ---- tokens -------------------------------------------------------------------------------------------- */
static void take_word(struct ptx_parser *p)
{
    struct ptx_lexer *l = &p->lex;
    const char       *start = l->at++;
    while (l->at < l->end && is_follow(*l->at))
        l->at++;
    l->kind = PTX_TOKEN_WORD;
    l->name = ptx_intern(p, start, (size_t)(l->at - start));
}

/* ".word" and ".word::word" */
static void take_dot(struct ptx_parser *p)
{
    struct ptx_lexer *l = &p->lex;
    const char       *start = ++l->at;
    while (l->at < l->end) {
        if (is_follow(*l->at))
            l->at++;
        else if (l->end - l->at >= 3 && l->at[0] == ':' && l->at[1] == ':' && is_follow(l->at[2]))
            l->at += 2;
        else
            break;
    }
    l->kind = PTX_TOKEN_DOT;
    l->name = ptx_intern(p, start, (size_t)(l->at - start));
}

static void take_string(struct ptx_parser *p)
{
    struct ptx_lexer *l = &p->lex;
    while (++l->at < l->end && *l->at != '\n' && *l->at != '"')
        if (*l->at == '\\' && l->end - l->at > 1 && l->at[1] != '\n')
            l->at++;
    if (l->at >= l->end || *l->at != '"')
        ptx_fail_at(p, l->token_line, "this string does not end");
    l->at++;
    l->kind = PTX_TOKEN_STRING;
}

static void take_mark(struct ptx_parser *p)
{
    static const char twos[][3] = {"<<", ">>", "<=", ">=", "==", "!=", "&&", "||"};
    struct ptx_lexer *l = &p->lex;
    l->kind = PTX_TOKEN_MARK;
    for (size_t i = 0; i < sizeof twos / sizeof *twos; i++)
        if (starts(l, twos[i])) {
            l->mark = PTX_MARK2(twos[i][0], twos[i][1]);
            l->at += 2;
            return;
        }
    if (*l->at == 0 || strchr("{}()[]<>,;:=+-*/%&|^~!?@", *l->at) == NULL) {
        unsigned char c = (unsigned char)*l->at;
        if (c > ' ' && c < 127)
            ptx_fail_at(p, l->line, "'%c' has no meaning here", c);
        ptx_fail_at(p, l->line, "a character with the code %u has no meaning here", c);
    }
    l->mark = *l->at++;
}

void ptx_next(struct ptx_parser *p)
{
    struct ptx_lexer *l = &p->lex;
    const char       *before = l->at;
    l->last_line = l->line;
    skip_blanks(p);
    l->touches = before == l->at;
    l->token_line = l->line;
    l->text = l->at;
    l->name = NULL;
    l->mark = 0;
    if (l->at >= l->end) {
        l->kind = PTX_TOKEN_END;
    } else {
        char c = *l->at, next = l->end - l->at > 1 ? l->at[1] : 0;
        if (is_letter(c) || c == '_' || c == '$' || (c == '%' && is_follow(next)))
            take_word(p);
        else if (c == '.' && is_follow(next) && (!is_digit(next) || l->touches))
            take_dot(p);
        else if (is_digit(c) || (c == '.' && is_digit(next)))
            ptx_number(p);
        else if (c == '"')
            take_string(p);
        else
            take_mark(p);
    }
    l->bytes = (uint32_t)(l->at - l->text);
}
