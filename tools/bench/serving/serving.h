/* serving.h - the benchmarks of decoding and of serving, with the sizes as arguments, so that tests can run all of them on
 * small problems. */
#ifndef PTXPACK_BENCH_SERVING_SERVING_H
#define PTXPACK_BENCH_SERVING_SERVING_H
#include "run.h"

/* ---- decoding: few query rows, many keys ------------------------------------------------------------------ */
typedef struct decode_shape {
    int32_t batch, heads_q, heads_kv, keys;
} decode_shape;

/* Times the rows that the settings choose and prints the table; `run` has a device, settings and numbers.  Returns an exit
 * status, with a line on stderr unless it is COMMAND_OK; the caller frees `run`. */
int decode_run(bench_run *run, const decode_shape *shapes, int count);

/* Whether the table has all rows of a list, which begins with 1.  False after a line on stderr. */
bool decode_rows_known(const bench_list *rows, int count);

/* ---- serving: what an inference engine launches ------------------------------------------------------------ */
enum { SERVING_MIXES = 4, SERVING_CHUNKS = 3, SERVING_APPENDS = 4, SERVING_MERGES = 3 };
typedef struct serving_sizes {
    int32_t heads_q, heads_kv;
    int32_t batch, keys;                        /* decode: so many sequences of so many keys */
    int32_t long_keys, short_keys, short_count; /* mixed: one sequence, and others */
    int32_t shorter;                            /* packed: all lengths of prompts are divided by it */
    int32_t chunk_queries[SERVING_CHUNKS], chunk_keys[SERVING_CHUNKS];
    int32_t append_batch[SERVING_APPENDS], append_rows[SERVING_APPENDS], cached; /* rows before the append */
    int32_t merge_rows[SERVING_MERGES];
    int32_t loop_batch, loop_keys, loop_steps;
} serving_sizes;
int serving_run(bench_run *run, const serving_sizes *sizes);
/* Whether each word of a list is a part; NULL is fine.  False after a line on stderr. */
bool serving_parts_known(const char *list);

/* New rows with rotary into a cache, dense or (page_rows > 0) in pages, of which each sequence has `cached` rows; the
 * merge of two results; a loop of steps, each an append and an attention in pages, with lengths that grow or (grows is
 * false) stay halfway.  All return the number of a case, -1 with the line set. */
int bench_add_append(bench_run *run, const serving_sizes *sizes, int which, int32_t page_rows);
int bench_add_merge(bench_run *run, const serving_sizes *sizes, int32_t rows);
int bench_add_loop(bench_run *run, const serving_sizes *sizes, int32_t page_rows, bool grows);
#endif
