/* number.c - numbers as they are written: integers, the bits of floats, decimal floats. */
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include "parse.h"

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'Z')
        return c - 'A' + 10;
    return c == '_' || c == '$' ? 99 : -1; /* may occur within words, but is not a digit in any base */
}

static void bad(struct ptx_parser *p, const char *start, const char *why)
{
    const char *end = start;
    while (end < p->lex.end && digit_of(*end) >= 0)
        end++;
    ptx_fail_at(p, p->lex.line, "'%.*s' %s", (int)(end - start > 40 ? 40 : end - start), start, why);
}

/* The digits from `at` on, all of them of this base. */
static uint64_t digits(struct ptx_parser *p, const char *start, const char *at, unsigned int base)
{
    uint64_t value = 0;
    bool     any = false;
    for (; at < p->lex.end && digit_of(*at) >= 0; at++, any = true) {
        if (*at == 'U' && any)
            break;
        if ((unsigned int)digit_of(*at) >= base)
            bad(p, start, "is not a number");
        if (__builtin_mul_overflow(value, (uint64_t)base, &value) ||
            __builtin_add_overflow(value, (uint64_t)digit_of(*at), &value))
            bad(p, start, "does not fit in 64 bits");
    }
    if (!any)
        bad(p, start, "is not a number");
    p->lex.at = at;
    return value;
}

static void take_integer(struct ptx_parser *p, const char *start)
{
    struct ptx_lexer *l = &p->lex;
    char              second = l->end - start > 1 ? start[1] : 0;
    l->kind = PTX_TOKEN_INTEGER;
    if (*start == '0' && (second == 'x' || second == 'X'))
        l->value = digits(p, start, start + 2, 16);
    else if (*start == '0' && (second == 'b' || second == 'B'))
        l->value = digits(p, start, start + 2, 2);
    else
        l->value = digits(p, start, start, *start == '0' ? 8 : 10);
    bool marked = l->at < l->end && *l->at == 'U';
    if (marked)
        l->at++;
    if (l->at < l->end && digit_of(*l->at) >= 0)
        bad(p, start, "is not a number");
    l->is_unsigned = marked || l->value > INT64_MAX;
}

/* 0f3F800000 and 0d3FF0000000000000 */
static void take_bits(struct ptx_parser *p, const char *start, unsigned int count)
{
    struct ptx_lexer *l = &p->lex;
    l->value = 0;
    for (l->at = start + 2; l->at < l->end && digit_of(*l->at) >= 0; l->at++) {
        if (digit_of(*l->at) >= 16 || (size_t)(l->at - start) >= count + 2)
            break;
        l->value = l->value << 4 | (uint64_t)digit_of(*l->at);
    }
    if ((size_t)(l->at - start) != count + 2 || (l->at < l->end && digit_of(*l->at) >= 0))
        bad(p, start,
            count == 8 ? "must have 8 hexadecimal digits after 0f"
                       : "must have 16 hexadecimal digits after 0d");
    l->kind = count == 8 ? PTX_TOKEN_F32 : PTX_TOKEN_F64;
}

/* The end of a decimal float; NULL: this is not one. */
static const char *decimal_end(const char *at, const char *end)
{
    bool point = false;
    while (at < end && digit_of(*at) >= 0 && digit_of(*at) < 10)
        at++;
    if (at < end && *at == '.') {
        point = true;
        for (at++; at < end && digit_of(*at) >= 0 && digit_of(*at) < 10;)
            at++;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        const char *power = at + 1;
        if (power < end && (*power == '+' || *power == '-'))
            power++;
        if (power < end && *power >= '0' && *power <= '9') {
            while (power < end && *power >= '0' && *power <= '9')
                power++;
            return power;
        }
    }
    return point ? at : NULL;
}

/* Use the C locale, whatever the program uses. */
static double to_double(struct ptx_parser *p, const char *start, size_t bytes)
{
    char   text[512];
    double value;
    if (bytes >= sizeof text)
        bad(p, start, "is too long a number");
    memcpy(text, start, bytes);
    text[bytes] = 0;
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c == (locale_t)0)
        ptx_no_memory(p);
    value = strtod_l(text, NULL, c);
    freelocale(c);
    return value;
}

void ptx_number(struct ptx_parser *p)
{
    struct ptx_lexer *l = &p->lex;
    const char       *start = l->at;
    char              second = *start == '0' && l->end - start > 1 ? start[1] : 0;
    l->is_unsigned = false;
    if (second == 'f' || second == 'F' || second == 'd' || second == 'D') {
        take_bits(p, start, second == 'f' || second == 'F' ? 8 : 16);
        return;
    }
    const char *end = second == 'x' || second == 'X' ? NULL : decimal_end(start, l->end);
    if (end == NULL) {
        take_integer(p, start);
        return;
    }
    double value = to_double(p, start, (size_t)(end - start));
    if (end < l->end && digit_of(*end) >= 0)
        bad(p, start, "is not a number");
    memcpy(&l->value, &value, sizeof value);
    l->kind = PTX_TOKEN_DECIMAL;
    l->at = end;
}
