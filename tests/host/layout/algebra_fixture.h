/* algebra_fixture.h - for the tests of the layout algebra: random layouts, and their functions,
 * computed leaf by leaf without the library. */
#ifndef PTXPACK_TEST_ALGEBRA_FIXTURE_H
#define PTXPACK_TEST_ALGEBRA_FIXTURE_H
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

enum { ROUNDS = 4000, POINTS = 2048, TEXT = PTXPACK_LAYOUT_TEXT };
typedef ptxpack_tuple  tuple;
typedef ptxpack_layout layout;

static inline int draw(int n) { return below(n); }

/* ---- values from texts, and back ---------------------------------------------------------------------- */
static inline const tuple *keep_tuple(tuple t)
{
    static tuple slots[32];
    static int   next;
    tuple       *slot = &slots[next++ % 32];
    *slot = t;
    return slot;
}

/* Copies a value to one of many slots, so that it can be an argument. */
static inline const layout *keep(layout l)
{
    static layout slots[32];
    static int    next;
    layout       *slot = &slots[next++ % 32];
    *slot = l;
    return slot;
}

static inline const tuple *T(const char *text)
{
    tuple t = ptxpack_tuple_parse(text);
    if (t.status != PTXPACK_OK)
        fail_msg("%s: %s", text, ptxpack_detail(NULL));
    return keep_tuple(t);
}

static inline const layout *L(const char *text)
{
    layout l = ptxpack_layout_parse(text);
    if (l.shape.status != PTXPACK_OK)
        fail_msg("%s: %s", text, ptxpack_detail(NULL));
    return keep(l);
}

static inline char *text_slot(void)
{
    static char slots[32][TEXT];
    static int  next;
    return slots[next++ % 32];
}

static inline const char *text_of(const layout *l)
{
    char *text = text_slot();
    if (l->shape.status == PTXPACK_OK)
        ptxpack_layout_print(l, text, TEXT);
    else
        snprintf(text, TEXT, "error: %s", ptxpack_detail(NULL));
    return text;
}

static inline const char *tuple_text_of(const tuple *t)
{
    char *text = text_slot();
    if (t->status == PTXPACK_OK)
        ptxpack_tuple_print(t, text, TEXT);
    else
        snprintf(text, TEXT, "error: %s", ptxpack_detail(NULL));
    return text;
}

static inline bool ok(const layout *l) { return l->shape.status == PTXPACK_OK; }

/* Whether a layout was made; otherwise there must be a refusal with a line. */
static inline bool accepted(const layout *l)
{
    if (!ok(l) && (l->shape.status != PTXPACK_E_ARG || ptxpack_detail(NULL)[0] == '\0'))
        fail_msg("status %d without a reason", l->shape.status);
    return ok(l);
}

static inline layout must(layout l)
{
    if (!ok(&l))
        fail_msg("%s", ptxpack_detail(NULL));
    return l;
}

/* Two layouts as an array. */
static inline const layout *two(const layout *a, const layout *b)
{
    static layout slots[8][2];
    static int    next;
    layout       *slot = slots[next++ % 8];
    slot[0] = *a;
    slot[1] = *b;
    return slot;
}

static inline const tuple *pair(int64_t a, int64_t b)
{
    int64_t values[2] = {a, b};
    return keep_tuple(ptxpack_tuple_of(2, values));
}

/* ---- layouts as functions --------------------------------------------------------------------------- */
static inline int64_t swizzled(ptxpack_swizzle s, int64_t x)
{
    for (int k = 0; k < s.bits; k++) { /* bit by bit: from the upper field to the lower, or back */
        int from = s.base + k + (s.shift > 0 ? s.shift : 0), to = from - s.shift;
        x ^= (x >> from & 1) << to;
    }
    return x;
}

/* The offset before the swizzle.  The last leaf has no limit. */
static inline int64_t linear_at(const layout *l, int64_t i)
{
    int64_t sum = 0;
    for (int k = 0; k < l->shape.items; k++) {
        if (l->shape.kind[k] == PTXPACK_EMPTY)
            continue;
        int64_t extent = l->shape.value[k];
        sum += (k + 1 < l->shape.items ? i % extent : i) * l->stride.value[k];
        i /= extent;
    }
    return sum;
}

static inline int64_t value_at(const layout *l, int64_t i)
{
    int64_t x = linear_at(l, i);
    return l->composed ? swizzled(l->swizzle, l->offset + x) : x;
}

static inline int64_t size_of(const tuple *shape)
{
    int64_t size = 1;
    for (int k = 0; k < shape->items; k++)
        size *= shape->kind[k] == PTXPACK_EMPTY ? 1 : shape->value[k];
    return size;
}

/* Writes all values of l; returns how many there are. */
static inline int64_t values_of(const layout *l, int64_t *out)
{
    int64_t size = size_of(&l->shape);
    if (size > POINTS)
        fail_msg("%s is too large for this test", text_of(l));
    for (int64_t i = 0; i < size; i++)
        out[i] = value_at(l, i);
    return size;
}

static inline int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static inline int64_t sorted_values(const layout *l, int64_t *out)
{
    int64_t n = values_of(l, out);
    qsort(out, (size_t)n, sizeof *out, by_value);
    return n;
}

/* Moves the different values of a sorted array to the front; returns how many there are. */
static inline int64_t distinct(int64_t *v, int64_t n)
{
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++)
        if (i == 0 || v[i] != v[i - 1])
            v[count++] = v[i];
    return count;
}

static inline bool injective(const layout *l)
{
    static int64_t v[POINTS];
    int64_t        n = sorted_values(l, v);
    return distinct(v, n) == n;
}

/* Whether the layout takes every offset of [0, size) once. */
static inline bool bijective(const layout *l)
{
    static int64_t v[POINTS];
    int64_t        n = sorted_values(l, v);
    for (int64_t i = 0; i < n; i++)
        if (v[i] != i)
            return false;
    return true;
}

static inline void assert_same(const layout *got, const layout *want, const char *what)
{
    if (size_of(&got->shape) != size_of(&want->shape))
        fail_msg("%s: %s has another size than %s", what, text_of(got), text_of(want));
    for (int64_t i = 0; i < size_of(&want->shape); i++)
        if (value_at(got, i) != value_at(want, i))
            fail_msg("%s: %s at %lld is %lld, %s is %lld", what, text_of(got), (long long)i,
                     (long long)value_at(got, i), text_of(want), (long long)value_at(want, i));
}

static inline void assert_identical(const layout *got, const layout *want, const char *what)
{
    if (!ok(got) || !ok(want) || strcmp(text_of(got), text_of(want)) != 0)
        fail_msg("%s: %s, not %s", what, text_of(got), text_of(want));
}

/* Whether each stride above 0 is a multiple of what the smaller ones reach. */
static inline bool strides_divide(const layout *l)
{
    int64_t reach = 1;
    bool    used[PTXPACK_TUPLE_ITEMS] = {false};
    for (;;) {
        int next = -1;
        for (int k = 0; k < l->shape.items; k++)
            if (!used[k] && l->shape.value[k] > 1 && l->stride.value[k] != 0 &&
                (next < 0 || l->stride.value[k] < l->stride.value[next]))
                next = k;
        if (next < 0)
            return true;
        if (l->stride.value[next] % reach != 0 || l->stride.value[next] < reach)
            return false;
        used[next] = true;
        reach = l->stride.value[next] * l->shape.value[next];
    }
}

/* The fewest modes of any layout that is f on [0, n), n > 0; IMPOSSIBLE if there is no such layout. */
enum { IMPOSSIBLE = 100 };
static inline int fewest_from(const int64_t *f, int64_t n, int64_t p, int8_t *memo)
{
    if (p == n)
        return 0;
    if (memo[p] != 0)
        return memo[p];
    int best = IMPOSSIBLE;
    for (int64_t s = 2; s * p <= n; s++) { /* a mode of s steps of p */
        if (f[p * (s - 1)] != (s - 1) * f[p])
            break;
        if (n % (p * s) != 0)
            continue;
        bool sum = true;
        for (int64_t i = p; i < n && sum; i += p)
            sum = f[i] == f[i % (p * s)] + f[i - i % (p * s)];
        int rest = sum ? 1 + fewest_from(f, n, p * s, memo) : IMPOSSIBLE;
        best = rest < best ? rest : best;
    }
    return memo[p] = (int8_t)best;
}

static inline int fewest_modes(const int64_t *f, int64_t n)
{
    static int8_t memo[POINTS + 1];
    memset(memo, 0, sizeof memo);
    return f[0] != 0 ? IMPOSSIBLE : fewest_from(f, n, 1, memo);
}

/* ---- random layouts ----------------------------------------------------------------------------------- */
typedef enum strides {
    BIJECTIVE, /* compact, in any order of the modes                    */
    GAPS,      /* the same with gaps that are multiples                 */
    ZEROS,     /* and some strides of 0                                 */
    SIGNED,    /* and some below 0                                      */
    ANY,       /* any strides                                             */
    STRIDES
} strides;

typedef struct flat {
    int     count;
    int64_t shape[PTXPACK_TUPLE_ITEMS], stride[PTXPACK_TUPLE_ITEMS];
} flat;

static inline void random_shape(flat *f, int leaves, int64_t size)
{
    static const int extents[] = {1, 2, 2, 2, 3, 4, 4, 5, 6, 8, 9, 12, 16};
    f->count = 1 + draw(leaves);
    for (int k = 0; k < f->count; k++) {
        int64_t extent = extents[draw(sizeof extents / sizeof *extents)];
        while (extent > size)
            extent = extent > 2 ? 2 : 1;
        f->shape[k] = extent;
        size /= extent;
    }
}

static inline int64_t any_stride(void)
{
    static const int some[] = {0, 1, 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 64, -1, -2, -8};
    return some[draw(sizeof some / sizeof *some)];
}

static inline void random_strides(flat *f, strides how)
{
    int     order[PTXPACK_TUPLE_ITEMS];
    int64_t running = 1;
    for (int k = 0; k < f->count; k++) {
        int at = draw(k + 1);
        order[k] = order[at];
        order[at] = k;
    }
    for (int k = 0; k < f->count; k++) {
        int64_t *stride = &f->stride[order[k]], extent = f->shape[order[k]];
        if (how == ANY || extent == 1) {
            *stride = any_stride();
            *stride = how != ANY && how != SIGNED && *stride < 0 ? 0 : *stride;
            continue;
        }
        *stride = 0;
        if (how == ZEROS && draw(3) == 0)
            continue;
        running *= how != BIJECTIVE && draw(3) == 0 ? 2 + draw(3) : 1;
        *stride = how == SIGNED && draw(3) == 0 ? -running : running;
        running *= extent;
    }
}

/* Writes leaves [begin, end) in parentheses at most `depth` deep. */
static inline void nest(const flat *f, int begin, int end, int depth, char *shape, char *stride)
{
    if (end - begin == 1 && (depth <= 0 || draw(5) != 0)) {
        sprintf(shape + strlen(shape), "%lld", (long long)f->shape[begin]);
        sprintf(stride + strlen(stride), "%lld", (long long)f->stride[begin]);
        return;
    }
    strcat(shape, "(");
    strcat(stride, "(");
    for (int at = begin; at < end;) {
        int next = depth <= 1 ? at + 1 : at + 1 + draw(end - at);
        nest(f, at, next, depth - 1, shape, stride);
        at = next;
        strcat(shape, at < end ? "," : ")");
        strcat(stride, at < end ? "," : ")");
    }
}

static inline const layout *nested(const flat *f, int depth)
{
    static char text[2 * TEXT], stride[TEXT];
    text[0] = stride[0] = '\0';
    nest(f, 0, f->count, depth, text, stride);
    strcat(strcat(text, ":"), stride);
    return L(text);
}

static inline const layout *random_layout(strides how, int leaves, int64_t size)
{
    flat f;
    random_shape(&f, leaves, size);
    random_strides(&f, how);
    return nested(&f, draw(8) == 0 ? PTXPACK_TUPLE_DEPTH : 1 + draw(3));
}

/* A layout that is small enough to be a mode of another. */
static inline const layout *random_mode(strides how, int leaves, int64_t size)
{
    flat f;
    random_shape(&f, leaves, size);
    random_strides(&f, how);
    return nested(&f, draw(3));
}

static inline int64_t random_divisor(int64_t n)
{
    int64_t d = 1 + draw((int)(n < 64 ? n : 64));
    while (n % d != 0)
        d--;
    return draw(3) == 0 ? n / d : d;
}

/* A layout whose modes step evenly through [0, n): a good second argument of a composition. */
static inline const layout *random_steps(int64_t n, int leaves)
{
    flat    f = {.count = 1 + draw(leaves)};
    int64_t rest = n;
    for (int k = 0; k < f.count; k++) {
        f.shape[k] = random_divisor(rest);
        rest /= f.shape[k];
    }
    random_strides(&f, GAPS);
    for (int k = 0; k < f.count; k++)
        f.stride[k] = draw(2) ? f.stride[k] : draw(12) == 0 ? 0 : random_divisor(n / f.shape[k]);
    return nested(&f, 1 + draw(3));
}
#endif
