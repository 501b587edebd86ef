/* fixture.h - a parallel attention with random tensors on emulated devices, and its verification. */
#ifndef PTXPACK_TEST_PARALLEL_FIXTURE_H
#define PTXPACK_TEST_PARALLEL_FIXTURE_H
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "host/parallel/inspect.h"
#include "host/scalars.h"
#include "tools/problem/random.h"
#include "tools/problem/sharded.h"
#include "tools/problem/verify.h"

enum { SEED = 20240607, RANKS = 8 };

static ptxpack *handles[RANKS]; /* of a device each */

static inline int open_handles(void **state)
{
    (void)state;
    setenv("PTXPACK_DEVICE", "emu", 1);
    setenv("PTXPACK_EMU_SM", "90", 0);
    setenv("PTXPACK_EMU_DEVICES", "8", 1);
    setenv("PTXPACK_EMU_DELAY", "2", 0); /* what does not wait comes too early */
    for (int i = 0; i < RANKS; i++) {
        ptxpack_options options = {.size = sizeof options, .device = i};
        if (ptxpack_open(&options, &handles[i]) != PTXPACK_OK) {
            printf("%s\n", ptxpack_detail(NULL));
            return 1;
        }
    }
    return 0;
}

static inline int close_handles(void **state)
{
    (void)state;
    for (int i = 0; i < RANKS; i++)
        ptxpack_close(handles[i]);
    return 0;
}

/* Whole tensors. */
typedef struct whole_tensors {
    uint16_t      *tensor[SHARDED_TENSORS];
    float         *lse, *sinks, *slopes;
    const int32_t *starts; /* of packed sequences; otherwise NULL */
} whole_tensors;

static inline whole_tensors draw_tensors(const ptxpack_attention_desc *d, uint64_t seed)
{
    const size_t rows = (size_t)(d->rows_q != 0 ? d->rows_q : d->batch * d->seqlen_q),
                 dv = (size_t)attention_value_dim(d);
    const size_t  counts[SHARDED_TENSORS] = {rows * (size_t)d->heads_q * (size_t)d->head_dim,
                                             rows * (size_t)d->heads_kv * (size_t)d->head_dim,
                                             rows * (size_t)d->heads_kv * dv, rows * (size_t)d->heads_q * dv};
    random_state  random = random_start(seed);
    whole_tensors t = {.starts = NULL};
    for (int i = 0; i < SHARDED_TENSORS; i++) {
        t.tensor[i] = (uint16_t *)malloc(counts[i] * sizeof(uint16_t));
        assert_non_null(t.tensor[i]);
        random_normal(&random, d->dtype, t.tensor[i], counts[i]);
    }
    t.lse = (float *)calloc(rows * (size_t)d->heads_q, sizeof(float));
    t.sinks = (float *)calloc((size_t)d->heads_q, sizeof(float));
    t.slopes = (float *)calloc((size_t)d->heads_q, sizeof(float));
    assert_true(t.lse != NULL && t.sinks != NULL && t.slopes != NULL);
    ptxpack_attention_alibi_slopes(d->heads_q, t.slopes);
    for (int32_t i = 0; i < d->heads_q; i++)
        t.sinks[i] = 0.5f * (float)i - 1;
    return t;
}

static inline void free_tensors(whole_tensors *t)
{
    for (int i = 0; i < SHARDED_TENSORS; i++)
        free(t->tensor[i]);
    free(t->lse);
    free(t->sinks);
    free(t->slopes);
}

/* Against the whole attention in double precision, all rows. */
static inline void must_be_right(const ptxpack_attention_desc *d, const whole_tensors *t, const char *what)
{
    const ptxpack_attention_lengths lengths = {.sinks = t->sinks,
                                               .slopes = t->slopes,
                                               .starts_q = t->starts,
                                               .starts_kv = t->starts};
    verify_result                   result;
    assert_int_equal(verify_attention_lengths(d, t->tensor[SHARDED_Q], t->tensor[SHARDED_K],
                                              t->tensor[SHARDED_V], NULL, &lengths, t->tensor[SHARDED_O],
                                              t->lse, SIZE_MAX, SEED, &result),
                     PTXPACK_OK);
    if (!result.pass)
        fail_msg("%s: error %g of o, bound %g; %g of the lse, bound %g", what, result.out_error, result.bound,
                 result.lse_error, result.lse_bound);
}
#endif
