/* attend.h - attention of sequences whose keys are stored in one of the ways of inference engines, as a case. */
#ifndef PTXPACK_BENCH_SERVING_ATTEND_H
#define PTXPACK_BENCH_SERVING_ATTEND_H
#include "run.h"
#include "tools/problem/random.h"

/* Where the keys are. */
typedef enum attend_store {
    STORE_DENSE,   /* [batch][keys], all of one length, which the plan knows */
    STORE_LENGTHS, /* the same with the lengths in device memory */
    STORE_PACKED,  /* one sequence after the other */
    STORE_PAGES    /* in pages, shuffled over their pool, with the lengths in device memory */
} attend_store;

/* The sequences, and how they are stored.  The arrays [batch] are copied. */
typedef struct attend_problem {
    int32_t        batch, heads_q, heads_kv, head_dim;
    ptxpack_dtype  dtype, kv_dtype; /* of all; of k and v: 0, or bytes, with one small descale */
    const int32_t *queries, *keys;  /* rows of each sequence; the last query attends to the last key */
    bool           causal;
    bool           packed; /* the query rows are one sequence after the other, not [batch][queries] */
    attend_store   store;
    int32_t        page_rows; /* of STORE_PAGES */
    int32_t        room; /* most keys of a sequence that the plan serves; 0: as many as the longest one has */
} attend_problem;

typedef struct attend_state {
    ptxpack_attention_desc  desc;
    ptxpack_attention_plan *plan;
    uint64_t                workspace;
    /* The same arrays in host memory, [batch] or [batch + 1] or [batch][table_width], and on the device; NULL or 0: the
     * descriptor does not ask for them. */
    int32_t *queries, *keys, *starts_q, *starts_kv, *table;
    uint64_t starts_q_at, starts_kv_at, lengths_kv_at, table_at, descale_at;
} attend_state;

/* The number of the case; -1 with the line set.  The figure is GB/s of K and V, or with `flops` TFLOP/s: 4 head_dim for
 * each pair of query and key, with a causal mask without half of the last queries * queries. */
int bench_add_attend(bench_run *run, const char *part, const char *name, const attend_problem *problem,
                     bool flops);

/* The steps of a case, for cases made of several. */
bool attend_make(bench_run *run, bench_case *c, attend_state *s);
/* Enqueues one launch; `k` and `v` stand for those of the arenas. */
bool attend_launch(bench_run *run, bench_case *c, attend_state *s, int set);
void attend_free(bench_run *run, attend_state *s);
/* Sets state, bytes and work of a case from a problem. */
bool attend_describe(bench_run *run, bench_case *c, attend_state *s, const attend_problem *problem, bool flops);

/* The descale of k and v of bytes: what the memory is filled with are no numbers of theirs. */
extern const float attend_descale;

/* The bytes of a row of one key head. */
size_t attend_key_bytes(const ptxpack_attention_desc *desc);

/* Where rows are, in rows from the beginning of the tensor. */
size_t attend_key_row(const attend_state *s, int32_t sequence, int32_t key);
size_t attend_query_row(const attend_state *s, int32_t sequence, int32_t row);

/* Compares one row and head of the result of set `set` with the host: copies its query, its keys and its values back, and
 * holds the row to FlashAttention's bound (tools/problem/verify.h). */
bool attend_compare(bench_run *run, bench_case *c, const attend_state *s, int set, int32_t sequence,
                    int32_t row, int32_t head);
#endif
