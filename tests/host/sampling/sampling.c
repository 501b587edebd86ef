/* sampling.c - choices of tokens without a GPU: what is refused, the generator, and what the reference chooses. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "host/sampling/inspect.h"

static const ptxpack_sampling_desc good = {.size = sizeof good,
                                           .dtype = PTXPACK_BF16,
                                           .rows = 3,
                                           .vocabulary = 10,
                                           .stride = 16};

/* ---- refusals ----------------------------------------------------------------------------------------- */
static void odd_size(ptxpack_sampling_desc *d) { d->size += 8; }
static void odd_type(ptxpack_sampling_desc *d) { d->dtype = PTXPACK_INT8; }
static void odd_option(ptxpack_sampling_desc *d) { d->options = 3; }
static void odd_reserved(ptxpack_sampling_desc *d) { d->reserved = 2; }
static void no_rows(ptxpack_sampling_desc *d) { d->rows = 0; }
static void no_tokens(ptxpack_sampling_desc *d) { d->vocabulary = 0; }
static void many_tokens(ptxpack_sampling_desc *d) { d->vocabulary = (1 << 21) + 1; }
static void short_stride(ptxpack_sampling_desc *d) { d->stride = 9; }

static const struct {
    void (*spoil)(ptxpack_sampling_desc *d);
    const char *line;
} refusals[] = {
    {odd_size, "desc.size is "},
    {odd_type, "dtype 4 is neither PTXPACK_F16 nor PTXPACK_BF16"},
    {odd_option, "options has the unknown bits 0x2"},
    {odd_reserved, "desc.reserved is 2, not 0"},
    {no_rows, "rows is 0; it must be at least 1"},
    {no_tokens, "vocabulary 0 is not from 1 to 2097152"},
    {many_tokens, "vocabulary 2097153 is not from 1 to 2097152"},
    {short_stride, "stride 9 is not from the vocabulary, 10, to 2^28"},
};

static void bad_descriptors_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        ptxpack_sampling_desc d = good;
        sampling_geometry     g;
        char                  line[PLAN_LINE];
        refusals[i].spoil(&d);
        assert_int_equal(sampling_resolve(&d, &g, line), PTXPACK_E_ARG);
        if (strncmp(line, refusals[i].line, strlen(refusals[i].line)) != 0)
            fail_msg("\"%s\" does not begin with \"%s\"", line, refusals[i].line);
    }
}

static void buffers_are_checked(void **state)
{
    static const struct {
        int         member; /* of logits, parameters, tokens */
        uint64_t    address;
        const char *line; /* NULL: it is fine */
    } changes[] = {
        {0, 0x10002, NULL},
        {0, 0x10001, "logits: address 0x10001 is not a multiple of 2 bytes"},
        {1, 0, NULL},
        {1, 0x20004, "parameters: address 0x20004 is not a multiple of 8 bytes"},
        {1, 0x10050, "parameters overlaps logits: 0x10050 and 0x10000"},
        {2, 0, "tokens is null"},
        {2, 0x2005c, "tokens overlaps parameters: 0x2005c and 0x20000"},
        {2, 0x20060, NULL},
    };
    char              line[PLAN_LINE];
    sampling_geometry g;
    (void)state;
    assert_int_equal(sampling_resolve(&good, &g, line), PTXPACK_OK);
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        ptxpack_sampling_buffers b = {.size = sizeof b,
                                      .logits = 0x10000,
                                      .parameters = 0x20000,
                                      .tokens = 0x30000};
        uint64_t                *members[] = {&b.logits, &b.parameters, &b.tokens};
        *members[changes[i].member] = changes[i].address;
        assert_int_equal(sampling_check(&g, &b, line), changes[i].line == NULL ? PTXPACK_OK : PTXPACK_E_ARG);
        if (changes[i].line != NULL)
            assert_string_equal(line, changes[i].line);
    }
}

/* ---- choices ------------------------------------------------------------------------------------------ */
/* The known answers of Philox4x32-10 (Random123's kat_vectors) whose last counter words are 0. */
static void the_generator_is_philox(void **state)
{
    (void)state;
    assert_true(sampling_random(0, 0) == UINT64_C(0xe169c58d6627e8d5));
}

enum { TOKENS = 8, DRAWS = 40000 };
static const float logits[TOKENS] = {1, 3, 2, 3, -1, 0, 2.5f, -19}; /* the last one: below 2^-31 of the first */

/* How often each token is drawn with the counters 0, 1, ... */
static void draw(ptxpack_sampling_row p, int times[TOKENS])
{
    const ptxpack_sampling_desc d = {.size = sizeof d,
                                     .rows = 1,
                                     .vocabulary = TOKENS,
                                     .options = PTXPACK_SAMPLING_F32};
    memset(times, 0, TOKENS * sizeof times[0]);
    for (p.counter = 0; p.counter < DRAWS; p.counter++) {
        int32_t token;
        assert_int_equal(ptxpack_sampling_reference(&d, logits, &p, &token), PTXPACK_OK);
        assert_in_range(token, 0, TOKENS - 1);
        times[token]++;
    }
}

/* Tokens are drawn as often as their probabilities say, among those that `kept` has a bit for. */
static void expect(ptxpack_sampling_row p, unsigned kept)
{
    double sum = 0;
    int    times[TOKENS];
    p.seed = 12345;
    draw(p, times);
    for (int i = 0; i < TOKENS; i++)
        sum += (kept >> i & 1) != 0 ? exp(logits[i] / p.temperature) : 0;
    for (int i = 0; i < TOKENS; i++) {
        double share = (kept >> i & 1) != 0 ? exp(logits[i] / p.temperature) / sum : 0;
        assert_true(fabs(times[i] - DRAWS * share) <= 4.5 * sqrt(DRAWS * share * (1 - share)));
    }
}

static void tokens_are_drawn_by_their_probabilities(void **state)
{
    (void)state;
    expect((ptxpack_sampling_row){.temperature = 1, .top_p = 1}, 0xff);
    expect((ptxpack_sampling_row){.temperature = 2.5f}, 0xff);
    expect((ptxpack_sampling_row){.temperature = 1, .top_k = 3}, 0x4a);    /* 3, 3, 2.5 */
    expect((ptxpack_sampling_row){.temperature = 1, .top_k = 1}, 0x0a);    /* both maxima */
    expect((ptxpack_sampling_row){.temperature = 1, .top_p = 0.6f}, 0x0a); /* they have 0.62 */
    expect((ptxpack_sampling_row){.temperature = 1, .top_p = 0.7f}, 0x4a);
    expect((ptxpack_sampling_row){.temperature = 1, .top_k = 3, .top_p = 0.75f}, 0x0a); /* 0.77 of three */
}

static void the_first_maximum_is_greedy(void **state)
{
    static const float odd[2][4] = {{NAN, -INFINITY, NAN, -INFINITY}, {-INFINITY, INFINITY, 3, INFINITY}};
    const ptxpack_sampling_desc d = {.size = sizeof d,
                                     .rows = 2,
                                     .vocabulary = 4,
                                     .options = PTXPACK_SAMPLING_F32};
    const ptxpack_sampling_row  rows[2] = {{.temperature = 1}, {.temperature = 1}};
    int                         times[TOKENS];
    int32_t                     tokens[2];
    (void)state;
    draw((ptxpack_sampling_row){.temperature = 0}, times);
    assert_int_equal(times[1], DRAWS);
    assert_int_equal(ptxpack_sampling_reference(&d, odd, NULL, tokens), PTXPACK_OK);
    assert_true(tokens[0] == 0 && tokens[1] == 1);
    assert_int_equal(ptxpack_sampling_reference(&d, odd, rows, tokens), PTXPACK_OK);
    assert_true(tokens[0] == 0 && tokens[1] == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_descriptors_are_refused),
        cmocka_unit_test(buffers_are_checked),
        cmocka_unit_test(the_generator_is_philox),
        cmocka_unit_test(tokens_are_drawn_by_their_probabilities),
        cmocka_unit_test(the_first_maximum_is_greedy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
