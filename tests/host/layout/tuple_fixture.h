/* tuple_fixture.h - for the tests of nested tuples: random ones, and the same operations on their text. */
#ifndef PTXPACK_TEST_TUPLE_FIXTURE_H
#define PTXPACK_TEST_TUPLE_FIXTURE_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "host/layout/layout.h"
#include "loader/loader.h"
#include "tests/support/random_fixture.h"

enum { ROUNDS = 3000, TEXT = 2048, BIG = 32 };
typedef ptxpack_tuple tuple;
#define MAX "9223372036854775807"

static inline int draw(int n) { return below(n); }

/* Copies a value to one of many slots, so that it can be an argument. */
static inline const tuple *keep(tuple t)
{
    static tuple slots[64];
    static int   next;
    tuple       *slot = &slots[next++ % 64];
    *slot = t;
    return slot;
}

static inline const tuple *T(const char *text)
{
    tuple t = ptxpack_tuple_parse(text);
    if (t.status != PTXPACK_OK)
        fail_msg("%s: %s", text, ptxpack_detail(NULL));
    return keep(t);
}

/* A path or a choice of up to two modes. */
static inline const int *at(int first, int second)
{
    static int slots[8][2];
    static int next;
    int       *slot = slots[next++ % 8];
    slot[0] = first;
    slot[1] = second;
    return slot;
}

static inline const char *text_of(tuple t)
{
    static char slots[64][TEXT];
    static int  next;
    char       *text = slots[next++ % 64];
    if (t.status != PTXPACK_OK)
        snprintf(text, TEXT, "error: %s", ptxpack_detail(NULL));
    else
        assert_true(ptxpack_tuple_print(&t, text, TEXT) < TEXT);
    return text;
}

#define GIVES(call, text) assert_string_equal(text_of(call), text)

/* The call fails, and its message contains `text`. */
static inline void expect_error(tuple t, const char *text, int line)
{
    if (t.status != PTXPACK_E_ARG || strstr(ptxpack_detail(NULL), text) == NULL)
        fail_msg("line %d: status %d, detail \"%s\", expected \"%s\"", line, t.status, ptxpack_detail(NULL),
                 text);
}
#define FAILS(call, text) expect_error(call, text, __LINE__)

/* A random nested tuple of positive integers, at most `*left` leaves. */
static inline void random_in(char *text, int depth, int *left, int largest)
{
    if (depth == 0 || *left <= 1 || draw(5) < 2) {
        sprintf(text + strlen(text), "%d", 1 + draw(largest));
        --*left;
        return;
    }
    int rank = 1 + draw(4);
    strcat(text, "(");
    for (int i = 0; i < rank && (i == 0 || *left > 0); i++) {
        if (i > 0)
            strcat(text, ",");
        random_in(text, depth - 1, left, largest);
    }
    strcat(text, ")");
}

static inline const char *random_text(int depth, int leaves, int largest)
{
    static char slots[16][TEXT];
    static int  next;
    char       *text = slots[next++ % 16];
    text[0] = '\0';
    random_in(text, depth, &leaves, largest);
    return text;
}

/* The modes of a text in parentheses, or the integer itself.  The tests do with text what the library does with
 * flat arrays. */
typedef struct modes {
    int  count;
    char text[BIG][256];
} modes;

static inline modes split(const char *text)
{
    modes out = {.count = 0};
    if (text[0] != '(') {
        snprintf(out.text[out.count++], 256, "%s", text);
        return out;
    }
    int depth = 0, at = 0;
    for (const char *c = text; *c; c++) {
        depth += *c == '(';
        bool ends = (depth == 1 && *c == ',') || (depth == 1 && *c == ')');
        if (ends && c[-1] == '(' && depth == 1 && c == text + 1)
            break; /* () */
        if (ends) {
            out.text[out.count++][at] = '\0';
            at = 0;
        } else if (c != text) {
            out.text[out.count][at++] = *c;
        }
        depth -= *c == ')';
    }
    return out;
}

static inline bool is_leaf(const char *text) { return text[0] != '('; }

/* Joins modes [begin, end) as text, in parentheses if `wrapped`. */
static inline const char *join(const modes *m, int begin, int end, bool wrapped)
{
    static char slots[32][TEXT];
    static int  next;
    char       *text = slots[next++ % 32];
    text[0] = '\0';
    if (wrapped)
        strcat(text, "(");
    for (int i = begin; i < end; i++) {
        strcat(text, m->text[i]);
        if (i + 1 < end)
            strcat(text, ",");
    }
    if (wrapped)
        strcat(text, ")");
    return text;
}

/* Reads the integers of a text, from left to right. */
static inline int numbers(const char *text, int64_t *out)
{
    int count = 0;
    for (const char *c = text; *c;) {
        if ((*c >= '0' && *c <= '9') || *c == '-') {
            char *end;
            out[count++] = strtoll(c, &end, 10);
            c = end;
        } else {
            c++;
        }
    }
    return count;
}

static inline int64_t product_of(const char *text)
{
    int64_t v[BIG], all = 1;
    for (int n = numbers(text, v); n > 0; n--)
        all *= v[n - 1];
    return all;
}

static inline int64_t value(tuple t)
{
    if (t.status != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(NULL));
    assert_false(ptxpack_is_tuple(&t));
    return t.value[0];
}
#endif
