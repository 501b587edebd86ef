/* inline_source.c - a reader of asm statements, for text that follows the style of ptx/inline. */
#include "inline_source.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_OPERANDS = 160, MOST_TEXT = 1 << 14 };

typedef struct statement {
    char text[MOST_TEXT];
    char expression[MOST_OPERANDS][48];
    bool used[MOST_OPERANDS];
    int  operands;
} statement;

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* ---- strings --------------------------------------------------------------------------------------- */
void inline_strip(char *text)
{
    char *to = text;
    bool  gap = false;
    for (const char *from = text; *from != '\0'; from++) {
        if (isspace((unsigned char)*from) || *from == '%') {
            gap = true;
            continue;
        }
        if (gap && to > text && is_word(to[-1]) && is_word(*from))
            *to++ = ' ';
        *to++ = *from;
        gap = false;
    }
    *to = '\0';
}

void inline_rename(char *text, const char *from, const char *to)
{
    size_t length = strlen(from), shorter = length - strlen(to);
    for (char *at = text; (at = strstr(at, from)) != NULL;) {
        bool whole = !is_word(at[length]) && (at == text || !is_word(at[-1]));
        if (whole) {
            memcpy(at, to, strlen(to));
            memmove(at + strlen(to), at + length, strlen(at + length) + 1);
        }
        at += whole ? length - shorter : 1;
    }
}

/* Skips a string literal or a character; `at` is its quote. */
static const char *skip_quoted(const char *at)
{
    char quote = *at++;
    while (*at != '\0' && *at != quote)
        at += *at == '\\' && at[1] != '\0' ? 2 : 1;
    return *at != '\0' ? at + 1 : at;
}

/* ---- one asm statement ----------------------------------------------------------------------------- */
/* Reads adjacent literals as one text; returns what is behind them. */
static const char *read_literals(const char *at, char *text, size_t cap)
{
    size_t n = 0;
    for (;; at++) {
        while (isspace((unsigned char)*at))
            at++;
        if (*at != '"')
            break;
        for (at++; *at != '"' && *at != '\0'; at++)
            if (n + 1 < cap)
                text[n++] = *at;
        if (*at == '\0')
            break;
    }
    text[n] = '\0';
    return at;
}

/* Shortens an expression to a name: d[3] is d3, (u32)p is p, (int)sizeof(T) is sizeofT. */
static void shorten(const char *from, size_t length, char *to, size_t cap)
{
    size_t n = 0;
    for (size_t i = 0; i < length && n + 1 < cap; i++) {
        if (strncmp(from + i, "(int)", 5) == 0 || strncmp(from + i, "(u32)", 5) == 0)
            i += 4;
        else if (is_word(from[i]))
            to[n++] = from[i];
    }
    to[n] = '\0';
}

/* Reads operands, "c"(expression), ..., and returns what is behind them. */
static const char *read_operands(const char *at, statement *s)
{
    char constraint[64];
    for (;;) {
        at = read_literals(at, constraint, sizeof constraint);
        if (*at != '(' || s->operands == MOST_OPERANDS)
            return at;
        const char *first = ++at;
        for (int depth = 1; *at != '\0' && (depth += (*at == '(') - (*at == ')')) > 0;)
            at++;
        shorten(first, (size_t)(at - first), s->expression[s->operands], sizeof s->expression[0]);
        s->operands++;
        for (at++; isspace((unsigned char)*at) || *at == ',';)
            at++;
    }
}

/* Reads a statement from its parenthesis on.  Returns NULL if this reader does not know the statement. */
static const char *read_statement(const char *at, statement *s)
{
    s->operands = 0;
    memset(s->used, 0, sizeof s->used);
    at = read_literals(at + 1, s->text, sizeof s->text);
    for (int part = 0; part < 2 && *at == ':'; part++)
        at = read_operands(at + 1, s);
    const char *end = strchr(at, ')'); /* behind the clobbers */
    return end != NULL && s->operands < MOST_OPERANDS ? end + 1 : NULL;
}

/* Replaces %3 by the expression of operand 3, and %% by %; returns false if there is no such operand. */
static bool render(statement *s, char *out, size_t cap)
{
    size_t n = strlen(out);
    for (const char *at = s->text; *at != '\0' && n + sizeof s->expression[0] < cap;) {
        if (*at != '%' || at[1] == '%') {
            out[n++] = *at;
            at += 1 + (*at == '%');
        } else {
            char *end;
            long  i = strtol(at + 1, &end, 10);
            if (end == at + 1 || i >= s->operands)
                return false;
            s->used[i] = true;
            n += (size_t)snprintf(out + n, cap - n, "%s", s->expression[i]);
            at = end;
        }
    }
    out[n] = '\0';
    return true;
}

/* ---- functions ------------------------------------------------------------------------------------- */
/* Reads the body of the function `name`, whose brace is at `at`; returns what is behind it, or NULL after an
 * error. */
static const char *read_body(inline_source *s, const char *at, inline_function *f)
{
    static statement now;
    static char      text[4 * MOST_TEXT];
    int              depth = 0;
    text[0] = '\0';
    while (*at != '\0') {
        if (*at == '"' || *at == '\'') {
            at = skip_quoted(at);
        } else if (strncmp(at, "asm", 3) == 0 && !is_word(at[3]) && !is_word(at[-1])) {
            at = strchr(at, '(');
            at = at != NULL ? read_statement(at, &now) : NULL;
            if (at == NULL || !render(&now, text, sizeof text)) {
                snprintf(s->error, sizeof s->error, "%s: an asm statement that cannot be read", f->name);
                return NULL;
            }
            f->operands += now.operands;
            for (int i = 0; i < now.operands; i++)
                f->used += now.used[i];
        } else if (depth += (*at == '{') - (*at == '}'), at++, depth == 0) {
            break;
        }
    }
    inline_strip(text);
    f->text = strdup(text);
    return at;
}

/* The name before a parameter list that ends at `close`; NULL if there is none. */
static char *name_before(const char *start, const char *close)
{
    const char *at = close;
    for (int depth = 0; at > start; at--)
        if ((depth += (*at == ')') - (*at == '(')) == 0)
            break;
    while (at > start && isspace((unsigned char)at[-1]))
        at--;
    const char *end = at;
    while (at > start && is_word(at[-1]))
        at--;
    return end > at ? strndup(at, (size_t)(end - at)) : NULL;
}

static void add_function(inline_source *s, inline_function f)
{
    s->functions = (inline_function *)realloc(s->functions, (s->count + 1) * sizeof f);
    s->functions[s->count++] = f;
}

/* A brace behind a parenthesis opens a function; any other one opens a namespace, an enum or a struct. */
static void read_all(inline_source *s, const char *start)
{
    const char *last = NULL; /* the last character that is not a blank */
    for (const char *at = start; at != NULL && *at != '\0';) {
        if (*at == '"') {
            at = skip_quoted(at);
            continue;
        }
        char *name = *at == '{' && last != NULL && *last == ')' ? name_before(start, last) : NULL;
        if (name != NULL) {
            inline_function f = {.name = name};
            at = read_body(s, at, &f);
            add_function(s, f);
            last = NULL;
            continue;
        }
        if (!isspace((unsigned char)*at))
            last = at;
        at++;
    }
}

static char *read_file(const char *path)
{
    FILE  *file = fopen(path, "r");
    char  *text = NULL;
    size_t bytes = 0, room = 0, got = 1;
    while (file != NULL && got > 0) {
        if (bytes + 65536 >= room)
            text = (char *)realloc(text, room += 1 << 20);
        bytes += got = fread(text + bytes, 1, 65536, file);
        text[bytes] = '\0';
    }
    if (file != NULL)
        fclose(file);
    return text;
}

void inline_source_read(inline_source *s, const char *path)
{
    *s = (inline_source){.file = read_file(path)};
    if (s->file == NULL)
        snprintf(s->error, sizeof s->error, "%.200s cannot be read", path);
    else
        read_all(s, s->file);
}

void inline_source_free(inline_source *s)
{
    for (size_t i = 0; i < s->count; i++) {
        free((char *)(size_t)s->functions[i].name);
        free(s->functions[i].text);
    }
    free(s->functions);
    free(s->file);
}

const inline_function *inline_source_find(const inline_source *s, const char *name)
{
    for (size_t i = 0; i < s->count; i++)
        if (strcmp(s->functions[i].name, name) == 0)
            return &s->functions[i];
    return NULL;
}
