/* fixture.h - a valid descriptor, every kind of mask, and a handle on the mock loader (tests/fake/loader.c). */
#ifndef PTXPACK_TEST_ATTENTION_FIXTURE_H
#define PTXPACK_TEST_ATTENTION_FIXTURE_H
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "host/attention/inspect.h"
#include "host/ptxpack.h"
#include "tools/problem/random.h"
#include "host/vector/inspect.h"
#include "tools/problem/verify.h"

enum { SEED = 20240607 };

static const ptxpack_attention_desc good = {
    .size = sizeof(ptxpack_attention_desc),
    .dtype = PTXPACK_F16,
    .batch = 2,
    .seqlen_q = 5,
    .seqlen_kv = 7,
    .heads_q = 6,
    .heads_kv = 2,
    .head_dim = 16,
};

/* What makes a good descriptor a bad one, and how the line begins that says so. */
typedef struct bad_field {
    void (*spoil)(ptxpack_attention_desc *d);
    const char *line;
} bad_field;

static inline void assert_refused_fields(const ptxpack_attention_desc *fine, const bad_field *fields,
                                         size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ptxpack_attention_desc d = *fine;
        attention_geometry     g;
        char                   line[PLAN_LINE] = "";
        assert_int_equal(ptxpack_attention_resolve(&d, &g, line), PTXPACK_OK);
        fields[i].spoil(&d);
        assert_int_equal(ptxpack_attention_resolve(&d, &g, line), PTXPACK_E_ARG);
        if (strncmp(line, fields[i].line, strlen(fields[i].line)) != 0)
            fail_msg("\"%s\" does not begin with \"%s\"", line, fields[i].line);
    }
}

static inline ptxpack *open_mock(const char *arch)
{
    ptxpack        *handle;
    ptxpack_options options = {.size = sizeof options, .arch = arch};
    assert_int_equal(ptxpack_open(&options, &handle), PTXPACK_OK);
    return handle;
}

/* Every kind of mask and of softcap, and chunks, for tests that compute with them. */
typedef struct masking {
    ptxpack_mask mask;
    int32_t      left, right;
    float        softcap;
    int32_t      chunk;
} masking;
static const masking maskings[] = {
    {PTXPACK_MASK_NONE, 0, 0, 0, 0},
    {PTXPACK_MASK_CAUSAL_TOP_LEFT, 0, 0, 0, 0},
    {PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 0, 0},
    {PTXPACK_MASK_WINDOW_TOP_LEFT, 3, 1, 0, 0},
    {PTXPACK_MASK_WINDOW_TOP_LEFT, -1, 5, 0, 0},
    {PTXPACK_MASK_WINDOW_TOP_LEFT, 0, 0, 0, 0},
    {PTXPACK_MASK_WINDOW_BOTTOM_RIGHT, 9, -1, 0, 0},
    {PTXPACK_MASK_WINDOW_BOTTOM_RIGHT, 11, 2, 0, 0},
    {PTXPACK_MASK_NONE, 0, 0, 2, 0},
    {PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 15, 0},
    {PTXPACK_MASK_WINDOW_TOP_LEFT, 12, 0, 0.5f, 0},
    {PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 0, 5},
    {PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 0, 1},
    {PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 3, INT32_MAX},
};
enum { MASKINGS = sizeof maskings / sizeof maskings[0] };

static inline void set_masking(ptxpack_attention_desc *d, const masking *m)
{
    d->mask = m->mask;
    d->window_left = m->left;
    d->window_right = m->right;
    d->softcap = m->softcap;
    d->chunk = m->chunk;
}

/* Below 0: key j lies before the keys that query row i sees; above 0: after them.  It follows attention.h
 * literally. */
static inline int outside(const ptxpack_attention_desc *d, int i, int j)
{
    bool window = d->mask == PTXPACK_MASK_WINDOW_TOP_LEFT || d->mask == PTXPACK_MASK_WINDOW_BOTTOM_RIGHT;
    if (d->mask == PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT || d->mask == PTXPACK_MASK_WINDOW_BOTTOM_RIGHT)
        i += d->seqlen_kv - d->seqlen_q;
    if (window && d->window_left >= 0 && j < i - d->window_left)
        return -1;
    if (d->chunk > 0 && i >= 0 && j < i - i % d->chunk)
        return -1;
    return d->mask != PTXPACK_MASK_NONE && d->window_right >= 0 && j > i + d->window_right;
}
#endif
