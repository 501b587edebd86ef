/* line.c - the words, operands and arguments of a line. */
#include "internal.h"

enum { MAX_BRACKETS = 64 };

/* ---- characters and words -------------------------------------------------------------------------- */

#define B (IS_BLANK | ENDS_KEYWORD | IN_ARGUMENT)
#define L IS_LETTER
#define N IS_DIGIT
#define S IS_SIGN
#define K ENDS_KEYWORD
#define A IN_ARGUMENT
/* clang-format off */
const uint8_t expand_classes[256] = {
    /* the controls; \t \v \f \r, of which only \t ends a keyword */
    K, 0, 0, 0, 0, 0, 0, 0, 0, B, 0, IS_BLANK | A, IS_BLANK | A, IS_BLANK | A, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    /*         !  "                 #  $  %  &  '         (          )      *  +  ,      -  .       / */
    B,         0, IS_QUOTE | K | A, 0, L, S, 0, IS_QUOTE, S | K | A, K | A, S, 0, K | A, S, IS_DOT, 0,
    /* 0 to 9, : ; < = > ? */
    N, N, N, N, N, N, N, N, N, N, 0, K, 0, K, 0, 0,
    0, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L,
    /* P to Z [ \ ] ^ _ */
    L, L, L, L, L, L, L, L, L, L, L, S | A, 0, A, 0, L,
    0, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L,
    /* p to z { | } ~ */
    L, L, L, L, L, L, L, L, L, L, L, S, 0, S, 0, 0,
};
/* clang-format on */
#undef B
#undef L
#undef N
#undef S
#undef K
#undef A

size_t expand_label(span s)
{
    size_t n = 0;
    if (!s.size || !is_any(s.data[0], IS_LETTER))
        return 0;
    while (n < s.size && is_any(s.data[n], IS_LETTER | IS_DIGIT))
        n++;
    n = expand_skip_blank(s, n);
    if (n == s.size || s.data[n] != ':' || (n + 1 < s.size && s.data[n + 1] == ':'))
        return 0;
    return n + 1;
}

size_t expand_skip_comma(span s, size_t at)
{
    at = expand_skip_blank(s, at);
    if (at < s.size && s.data[at] == ',')
        at = expand_skip_blank(s, at + 1);
    return at;
}

span expand_quoted(span s)
{
    s = expand_trim(s);
    if (s.size < 2 || s.data[0] != '"' || s.data[s.size - 1] != '"' ||
        memchr(s.data + 1, '"', s.size - 2) != NULL)
        return span_of(NULL, 0);
    return span_of(s.data + 1, s.size - 2);
}

/* ---- operands -------------------------------------------------------------------------------------- */

/* Whether a blank between two such characters separates. */
static bool is_joined(char c) { return is_any(c, IS_LETTER | IS_DOT | IS_DIGIT | IS_SIGN); }

/* The character constant at s[*at] as a number. */
static bool scrub_character(expander *x, span s, size_t *at)
{
    static const char codes[] = "b\bf\fn\nr\rt\t\\\\''\"\"";
    size_t            i = *at + 1;
    char              c = s.data[i++];
    if (c == '\\' && i < s.size) {
        const char *code = codes;
        while (*code && *code != s.data[i])
            code += 2;
        if (*code) {
            c = code[1];
            i++;
        }
    }
    if (i < s.size && s.data[i] == '\'')
        i++;
    *at = i;
    return expand_text_number(x, &x->scrubbed, (unsigned char)c);
}

static bool scrub_string(expander *x, span s, size_t *at)
{
    size_t i = *at + 1;
    while (i < s.size && s.data[i] != '"')
        i += s.data[i] == '\\' && i + 1 < s.size ? 2 : 1;
    if (i >= s.size)
        return expand_fail(x, "a \" is not closed");
    bool ok = expand_text_add(x, &x->scrubbed, s.data + *at, i + 1 - *at);
    *at = i + 1;
    return ok;
}

/* Read everything up to the next blank or quote, or one character. */
static bool scrub_plain(expander *x, span s, size_t *at)
{
    size_t from = (*at)++;
    while (*at < s.size && !is_any(s.data[*at], IS_BLANK | IS_QUOTE))
        ++*at;
    return expand_text_add(x, &x->scrubbed, s.data + from, *at - from);
}

bool expand_scrub(expander *x, span s, span *out)
{
    bool joined = false, blank = false; /* the last character; blanks since it */
    bool glued = s.size && !is_blank(s.data[0]);
    x->scrubbed.size = 0;
    s = expand_trim(s);
    for (size_t i = 0; i < s.size;) {
        char c = s.data[i];
        if (is_blank(c)) {
            blank = true;
            i++;
            continue;
        }
        bool constant = c == '\'' && i + 1 < s.size;
        if (blank && (glued || (joined && (is_joined(c) || c == '\\' || c == '"' || constant)))) {
            if (!expand_text_char(x, &x->scrubbed, ' '))
                return false;
            glued = false;
        }
        blank = false;
        if (!(c == '"' ? scrub_string : constant ? scrub_character : scrub_plain)(x, s, &i))
            return false;
        joined = c == '"' || (!constant && is_joined(s.data[i - 1]));
    }
    *out = span_text(&x->scrubbed);
    return true;
}

/* The content of the string that starts at s[*at]: "" is a quote, \" stays as it is. */
static bool quoted_argument(expander *x, span s, size_t *at, text *out)
{
    bool escaped = false;
    for (size_t i = *at + 1; i < s.size; i++) {
        char c = s.data[i];
        if (c == '"' && !escaped) {
            if (i + 1 == s.size || s.data[i + 1] != '"') {
                *at = i + 1;
                return true;
            }
            i++;
        }
        escaped = c == '\\' && !escaped;
        if (!expand_text_char(x, out, c))
            return false;
    }
    return expand_fail(x, "a \" is not closed");
}

/* Read up to a comma, or to a blank outside brackets. */
static bool plain_argument(expander *x, span s, size_t *at, text *out)
{
    char   open[MAX_BRACKETS];
    int    depth = 0;
    size_t from = *at, i = from;
    for (; i < s.size; i++) {
        char c = s.data[i];
        if (!is_any(c, IN_ARGUMENT))
            continue;
        if (c == ',' || (!depth && is_blank(c)))
            break;
        if (c == '"') {
            const char *close = (const char *)memchr(s.data + i + 1, '"', s.size - i - 1);
            i = close != NULL ? (size_t)(close - s.data) : s.size - 1;
        } else if (c == '(' || c == '[') {
            if (depth == MAX_BRACKETS)
                return expand_fail(x, "brackets are nested more than %d deep", MAX_BRACKETS);
            open[depth++] = c;
        } else if (depth && ((c == ')' && open[depth - 1] == '(') || (c == ']' && open[depth - 1] == '['))) {
            depth--;
        }
    }
    *at = i;
    return expand_text_add(x, out, s.data + from, i - from);
}

bool expand_argument(expander *x, span s, size_t *at, text *out)
{
    *at = expand_skip_blank(s, *at);
    if (*at < s.size && s.data[*at] == '"')
        return quoted_argument(x, s, at, out);
    return plain_argument(x, s, at, out);
}
