/* append.h - the steps of an append, for the case of append.c and for the loop of loop.c. */
#ifndef PTXPACK_BENCH_SERVING_APPEND_H
#define PTXPACK_BENCH_SERVING_APPEND_H
#include "run.h"

typedef struct append_state {
    ptxpack_attention_append_desc  desc;
    ptxpack_attention_append_plan *plan;
    int32_t                       *lengths, *table; /* in host memory: after the append; pages */
    uint16_t                      *cos, *sin;       /* one block of memory */
    uint64_t                       lengths_at, table_at, cos_at;
} append_state;

/* An append of `rows` rows to each sequence of a cache, described as for attention, after which it is full; false: no
 * memory.  `table` is copied; NULL: the cache has no pages. */
bool append_describe(append_state *s, const ptxpack_attention_desc *cache, int32_t rows, const int32_t *table);
bool append_make(bench_run *run, append_state *s);
/* Enqueues one: `rows` is k_new, which v_new follows; `lengths` on the device, 0: those of the state. */
bool append_launch(bench_run *run, append_state *s, uint64_t rows, uint64_t k, uint64_t v, uint64_t lengths);
void append_free(bench_run *run, append_state *s);
/* Compares a new row of one head with the reference on the host; the new rows are in ARENA_Q. */
bool append_compare(bench_run *run, bench_case *c, const append_state *s, int set, int32_t sequence,
                    int32_t row, int32_t head);
#endif
