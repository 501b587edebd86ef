/* refusals.c - descriptors of parallel attention that are refused, with a line that names the field; no device is needed. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "host/parallel/inspect.h"

typedef struct both {
    ptxpack_attention_parallel_desc desc;
    ptxpack_attention_desc          attention;
    int32_t                         starts[4];
} both;

static void no_attention(both *b) { b->desc.attention = NULL; }
static void odd_size(both *b) { b->desc.size--; }
static void odd_shards(both *b) { b->desc.shards = (ptxpack_shards)2; }
static void odd_way(both *b) { b->desc.way = (ptxpack_parallel_way)5; }
static void slow_link(both *b) { b->desc.link_gbps = -1; }
static void no_link(both *b) { b->desc.link_gbps = NAN; }
static void strides(both *b) { b->attention.k = (ptxpack_strides){1 << 20, 512, 128}; }
static void split(both *b) { b->attention.split_rows = 256; }
static void mod(both *b) { b->attention.score_mod = ".macro"; }
static void bias(both *b) { b->attention.options = PTXPACK_BIAS; }
static void fp8(both *b) { b->attention.dtype = PTXPACK_E4M3; }
static void other_keys(both *b) { b->attention.seqlen_kv = 101; }
static void no_heads(both *b) { b->attention.heads_q = 0; }
static void pack_q(both *b) { b->attention.q_rows = PTXPACK_ROWS_PACKED, b->attention.rows_q = 200; }
static void pack(both *b)
{
    b->attention.q_rows = b->attention.kv_rows = PTXPACK_ROWS_PACKED;
    b->attention.rows_q = b->attention.rows_kv = 210;
    b->attention.batch = 3;
    b->desc.starts = b->starts;
    static const int32_t starts[4] = {0, 100, 130, 210};
    memcpy(b->starts, starts, sizeof starts);
}
static void no_starts(both *b) { pack(b), b->desc.starts = NULL; }
static void starts_of_dense(both *b) { b->desc.starts = b->starts; }
static void fewer_keys(both *b) { pack(b), b->attention.rows_kv = 209; }
static void packed_steps(both *b) { pack(b), b->desc.way = PTXPACK_PARALLEL_STEPS; }
static void full_alibi(both *b) { b->attention.mask = PTXPACK_MASK_NONE, b->attention.options = PTXPACK_ALIBI; }
static void alibi_steps(both *b)
{
    b->attention.mask = PTXPACK_MASK_CAUSAL_TOP_LEFT, b->attention.options = PTXPACK_ALIBI;
    b->desc.way = PTXPACK_PARALLEL_STEPS;
}
static void chunk_arrivals(both *b)
{
    b->attention.mask = PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, b->attention.chunk = 64;
    b->desc.way = PTXPACK_PARALLEL_ARRIVE;
}
static void packed_arrivals(both *b) { pack(b), b->desc.way = PTXPACK_PARALLEL_ARRIVE; }
static void no_mask(both *b) { b->attention.mask = PTXPACK_MASK_NONE, b->desc.way = PTXPACK_PARALLEL_ARRIVE; }
static void odd_rows(both *b)
{
    b->attention.mask = PTXPACK_MASK_CAUSAL_TOP_LEFT, b->desc.way = PTXPACK_PARALLEL_ARRIVE;
    b->attention.seqlen_q = b->attention.seqlen_kv = 516;
}
static void few_heads(both *b) { b->desc.way = PTXPACK_PARALLEL_HEADS; }
static void late_start(both *b) { pack(b), b->starts[0] = 1; }
static void early_end(both *b) { pack(b), b->starts[3] = 200; }
static void falling(both *b) { pack(b), b->starts[2] = 90; }
static void long_sequence(both *b) { pack(b), b->starts[1] = 101; }
static void packed_window(both *b)
{
    pack(b), b->attention.mask = PTXPACK_MASK_WINDOW_TOP_LEFT;
    b->attention.window_left = 5, b->attention.window_right = 2;
}
static void packed_left(both *b) { packed_window(b), b->attention.window_right = -1; }

static const struct {
    void (*spoil)(both *b);
    const char *line;
} refusals[] = {
    {odd_size, "desc.size is not sizeof"},
    {no_attention, "desc.attention is NULL"},
    {odd_shards, "shards 2 is neither"},
    {odd_way, "way 5 is no ptxpack_parallel_way"},
    {slow_link, "link_gbps is -1"},
    {no_link, "link_gbps is "},
    {strides, "attention.k is not 0"},
    {split, "attention.split_rows is not 0"},
    {mod, "attention.score_mod is not 0"},
    {bias, "attention.options 0x40: only PTXPACK_SINKS"},
    {fp8, "attention.dtype PTXPACK_E4M3 is not possible"},
    {other_keys, "attention.seqlen_q 100 is not seqlen_kv 101"},
    {no_heads, "heads_q is 0"},
    {pack_q, "attention.q_rows and kv_rows are neither both dense nor both packed"},
    {no_starts, "starts is NULL, and rows are packed"},
    {starts_of_dense, "starts is given, and rows are not packed"},
    {fewer_keys, "attention.rows_q 210 is not rows_kv 209"},
    {packed_steps, "way PTXPACK_PARALLEL_STEPS is not possible with packed rows"},
    {full_alibi, "PTXPACK_ALIBI needs a mask without keys behind a row, or PTXPACK_PARALLEL_HEADS"},
    {alibi_steps, "way PTXPACK_PARALLEL_STEPS is not possible with PTXPACK_ALIBI"},
    {chunk_arrivals, "way PTXPACK_PARALLEL_ARRIVE is not possible with chunks"},
    {packed_arrivals, "way PTXPACK_PARALLEL_ARRIVE is not possible with packed rows"},
    {no_mask, "way PTXPACK_PARALLEL_ARRIVE needs a causal mask"},
    {odd_rows, "516 rows are not 4 chunks of a multiple of 128, as PTXPACK_PARALLEL_ARRIVE needs"},
    {few_heads, "heads_kv 2 is not a multiple of the 4 ranks, as PTXPACK_PARALLEL_HEADS needs"},
    {late_start, "starts from 1 to 210 is not from 0 to rows_q 210"},
    {early_end, "starts from 0 to 200 is not"},
    {falling, "sequence 1 of starts has -10 rows"},
    {long_sequence, "sequence 0 of starts has 101 rows, not 0 to seqlen_q 100"},
    {packed_window, "window_right is 2; with packed rows it must be 0"},
    {packed_left, "window_right is -1; with packed rows it must be 0"},
};

static both good(void)
{
    return (both){.desc = {.size = sizeof(ptxpack_attention_parallel_desc)},
                  .attention = {.size = sizeof(ptxpack_attention_desc),
                                .dtype = PTXPACK_F16,
                                .batch = 2,
                                .seqlen_q = 100,
                                .seqlen_kv = 100,
                                .heads_q = 4,
                                .heads_kv = 2,
                                .head_dim = 64}};
}

static void each_names_its_field(void **state)
{
    char           line[PLAN_LINE];
    parallel_whole whole;
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        both b = good();
        b.desc.attention = &b.attention;
        assert_int_equal(parallel_resolve(&b.desc, 4, &whole, line), PTXPACK_OK);
        refusals[i].spoil(&b);
        assert_int_equal(parallel_resolve(&b.desc, 4, &whole, line), PTXPACK_E_ARG);
        if (strncmp(line, refusals[i].line, strlen(refusals[i].line)) != 0)
            fail_msg("\"%s\" does not begin with \"%s\"", line, refusals[i].line);
    }
    assert_int_equal(parallel_resolve(NULL, 4, &whole, line), PTXPACK_E_ARG);
}

/* Of packed rows a chunk takes the keys of its own sequences alone. */
static void packed_rows_are_taken(void **state)
{
    both           b = good();
    char           line[PLAN_LINE];
    parallel_whole whole;
    (void)state;
    pack(&b);
    b.desc.attention = &b.attention;
    b.attention.mask = PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT;
    assert_int_equal(parallel_resolve(&b.desc, 3, &whole, line), PTXPACK_OK);
    assert_int_equal(whole.batch, 1);
    assert_int_equal(whole.problem.way, PTXPACK_PARALLEL_GATHER);
    const parallel_rows want[3] = {{0, 70}, {0, 140}, {130, 80}};
    for (int rank = 0; rank < 3; rank++) {
        parallel_rows chunk[2];
        assert_int_equal(parallel_chunks(&whole.problem, rank, chunk), 1);
        const parallel_rows reach = parallel_reach(&whole.problem, chunk);
        assert_int_equal(reach.first, want[rank].first);
        assert_int_equal(reach.count, want[rank].count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_names_its_field),
                                       cmocka_unit_test(packed_rows_are_taken)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
