/* symbols.c - the integer symbols of a run, and expressions of them. */
#include "symbols.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool refuse(char *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool refuse(char *line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, PROGRAM_LINE, format, arguments);
    va_end(arguments);
    return false;
}

bool program_is_name(const char *text, size_t bytes)
{
    if (bytes == 0 || isdigit((unsigned char)text[0]))
        return false;
    for (size_t i = 0; i < bytes; i++)
        if (!isalnum((unsigned char)text[i]) && text[i] != '_')
            return false;
    return true;
}

bool program_integer(const char *text, int64_t *value)
{
    char       *end;
    const char *digits = text + (*text == '-' || *text == '+');
    if (!isdigit((unsigned char)*digits)) /* strtoll would skip blanks */
        return false;
    bool hexadecimal = digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X');
    errno = 0;
    *value = strtoll(text, &end, hexadecimal ? 16 : 10);
    return *end == '\0' && errno == 0;
}

/* ---- symbols ------------------------------------------------------------------------------------ */
static const ptxpack_symbol *find(const program_symbols *s, const char *name, size_t bytes)
{
    for (size_t i = 0; i < s->count; i++)
        if (strlen(s->list[i].name) == bytes && memcmp(s->list[i].name, name, bytes) == 0)
            return &s->list[i];
    return NULL;
}

bool program_symbols_set(program_symbols *s, const char *name, int64_t value, char line[PROGRAM_LINE])
{
    const ptxpack_symbol *known = find(s, name, strlen(name));
    if (known != NULL) {
        s->list[known - s->list].value = value;
        return true;
    }
    if (s->count == PROGRAM_SYMBOLS)
        return refuse(line, "more than %d symbols", PROGRAM_SYMBOLS);
    s->list[s->count++] = (ptxpack_symbol){name, value};
    return true;
}

bool program_symbols_define(program_symbols *s, const option_list *defines, program_names *names,
                            char line[PROGRAM_LINE])
{
    for (size_t i = 0; i < defines->count; i++) {
        const char *text = defines->words[i];
        size_t      bytes = strcspn(text, "=");
        int64_t     value = 1;
        if (text[bytes] == '=' && !program_integer(text + bytes + 1, &value))
            return refuse(line, "-D %s: what follows = is not an integer", text);
        if (!program_is_name(text, bytes))
            return refuse(line, "-D: \"%.*s\" is not a name: a letter or _, then letters, digits, _",
                          (int)bytes, text);
        if (bytes >= sizeof names->text[i])
            return refuse(line, "-D: a name of %zu letters is too long", bytes);
        memcpy(names->text[i], text, bytes);
        names->text[i][bytes] = '\0';
        if (!program_symbols_set(s, names->text[i], value, line))
            return false;
    }
    return true;
}

/* ---- expressions: sum of products of factors ------------------------------------------------------ */
enum { MAX_NESTING = 64 };
typedef struct cursor {
    const program_symbols *symbols;
    const char            *at, *end;
    int                    nesting;
    char                  *line;
} cursor;

static bool sum(cursor *c, program_wide *value);

static char peek(cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t'))
        c->at++;
    return c->at < c->end ? *c->at : '\0';
}

static bool literal(cursor *c, program_wide *value)
{
    int base = 10;
    if (c->end - c->at > 2 && c->at[0] == '0' && (c->at[1] == 'x' || c->at[1] == 'X')) {
        base = 16;
        c->at += 2;
    }
    const char *first = c->at;
    *value = 0;
    for (; c->at < c->end && isalnum((unsigned char)*c->at); c->at++) {
        int digit = isdigit((unsigned char)*c->at) ? *c->at - '0' : tolower((unsigned char)*c->at) - 'a' + 10;
        if (digit >= base)
            return refuse(c->line, "\"%.*s\" is not a number", (int)(c->end - first), first);
        *value = *value * base + digit;
        if (*value >> 64)
            return refuse(c->line, "\"%.*s\" is beyond 64 bits", (int)(c->end - first), first);
    }
    return c->at > first || refuse(c->line, "a number ends after 0x");
}

static bool factor(cursor *c, program_wide *value)
{
    char next = peek(c);
    if (isdigit((unsigned char)next))
        return literal(c, value);
    if (isalpha((unsigned char)next) || next == '_') {
        const char *first = c->at;
        while (c->at < c->end && (isalnum((unsigned char)*c->at) || *c->at == '_'))
            c->at++;
        const ptxpack_symbol *known = find(c->symbols, first, (size_t)(c->at - first));
        if (known == NULL)
            return refuse(c->line, "the symbol %.*s is not defined (-D %.*s=...)", (int)(c->at - first), first,
                          (int)(c->at - first), first);
        *value = known->value;
        return true;
    }
    if (next != '-' && next != '(')
        return next == '\0' ? refuse(c->line, "a number is missing at the end")
                            : refuse(c->line, "a number is missing at \"%.*s\"", (int)(c->end - c->at), c->at);
    if (++c->nesting > MAX_NESTING)
        return refuse(c->line, "it is nested too deeply");
    c->at++;
    bool ok = next == '-' ? factor(c, value) : sum(c, value);
    if (ok && next == '-' && __builtin_sub_overflow((program_wide)0, *value, value))
        ok = refuse(c->line, "it is beyond 64 bits");
    if (ok && next == '(' && peek(c) != ')')
        ok = refuse(c->line, "a ) is missing");
    c->at += ok && next == '(';
    c->nesting--;
    return ok;
}

static bool product(cursor *c, program_wide *value)
{
    program_wide right;
    if (!factor(c, value))
        return false;
    for (char next = peek(c); next == '*' || next == '/' || next == '%'; next = peek(c)) {
        c->at++;
        if (!factor(c, &right))
            return false;
        if (next != '*' && right == 0)
            return refuse(c->line, "it divides by zero");
        bool minus = next == '/' && right == -1; /* the only quotient that may overflow */
        if ((next == '*' || minus) && __builtin_mul_overflow(*value, right, value))
            return refuse(c->line, "it is beyond 64 bits");
        if (next != '*' && !minus)
            *value = next == '/' ? *value / right : right == -1 ? 0 : *value % right;
    }
    return true;
}

static bool sum(cursor *c, program_wide *value)
{
    program_wide right;
    if (!product(c, value))
        return false;
    for (char next = peek(c); next == '+' || next == '-'; next = peek(c)) {
        c->at++;
        if (!product(c, &right))
            return false;
        if (next == '+' ? __builtin_add_overflow(*value, right, value)
                        : __builtin_sub_overflow(*value, right, value))
            return refuse(c->line, "it is beyond 64 bits");
    }
    return true;
}

bool program_number(const program_symbols *s, const char *text, size_t bytes, program_wide *value,
                    char line[PROGRAM_LINE])
{
    const program_wide most = UINT64_MAX, least = INT64_MIN;
    cursor             c = {s, text, text + bytes, 0, line};
    if (!sum(&c, value))
        return false;
    if (peek(&c) != '\0')
        return refuse(line, "\"%.*s\" is not understood", (int)(c.end - c.at), c.at);
    if (*value > most || *value < least)
        return refuse(line, "it is beyond 64 bits");
    return true;
}

/* ---- --grid, --block, --smem -------------------------------------------------------------------------- */
bool program_extents(const char *name, const char *text, const program_symbols *symbols, uint32_t out[3],
                     char line[PROGRAM_LINE])
{
    char        why[PROGRAM_LINE];
    const char *at = text;
    out[0] = out[1] = out[2] = 1;
    for (int i = 0;; i++) {
        program_wide extent;
        size_t       bytes = strcspn(at, ",");
        if (i == 3) {
            snprintf(line, PROGRAM_LINE, "%s %.300s: more than three extents", name, text);
            return false;
        }
        if (!program_number(symbols, at, bytes, &extent, why)) {
            snprintf(line, PROGRAM_LINE, "%s %.300s: %.300s", name, text, why);
            return false;
        }
        if (extent < 1 || extent > INT32_MAX) {
            snprintf(line, PROGRAM_LINE, "%s %.300s: \"%.*s\" is not from 1 to 2147483647", name, text,
                     (int)bytes, at);
            return false;
        }
        out[i] = (uint32_t)extent;
        if (at[bytes] == '\0')
            return true;
        at += bytes + 1;
    }
}

bool program_smem(const char *text, const program_symbols *symbols, int64_t *bytes, char line[PROGRAM_LINE])
{
    char         why[PROGRAM_LINE];
    program_wide value = 0;
    *bytes = 0;
    if (text != NULL && !program_number(symbols, text, strlen(text), &value, why)) {
        snprintf(line, PROGRAM_LINE, "--smem %.300s: %.300s", text, why);
        return false;
    }
    if (value < 0 || value > 1 << 24) {
        snprintf(line, PROGRAM_LINE, "--smem %.300s: it is not from 0 to 16777216", text);
        return false;
    }
    *bytes = (int64_t)value;
    return true;
}
