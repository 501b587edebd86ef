/* attention_lengths.h - the options of sequences with lengths of their own: --lengths, --page and their like as a
 * descriptor's fields, as arrays, and in words. */
#ifndef PTXPACK_ATTENTION_LENGTHS_H
#define PTXPACK_ATTENTION_LENGTHS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "host/attention/inspect.h"
#include "random.h"
#include "tools/report.h"

#define LENGTHS_OPTION_HELP   "LIST|random  keys of each sequence, such as 3,700,0"
#define LENGTHS_Q_OPTION_HELP "LIST|random  query rows of each sequence"
#define ROWS_Q_OPTION_HELP    "dense|packed  how sequences lie in q and o (default dense)"
#define ROWS_KV_OPTION_HELP   "dense|packed|paged  how they lie in k and v (default dense)"
#define PAGE_OPTION_HELP      "N  rows of a page of k and v, which are then paged (default 16)"
#define LEFT_PAD_OPTION_HELP  "LIST|random  the first rows of k and v that are no keys"
#define ROW_MAP_OPTION_HELP   "LIST|random  the sequence of k and v that each sequence of q attends to"

/* What the options ask for; NULL, or OPTION_NOT_GIVEN, if they were not given. */
typedef struct attention_lengths_words {
    const char *lengths, *lengths_q, *rows_q, *rows_kv, *left_pad, *row_map;
    int64_t     page;
} attention_lengths_words;

/* A list of an option: values, or random ones. */
typedef struct attention_list {
    bool     given, random;
    size_t   count;
    int32_t *values;
} attention_list;

/* The lists, of lengths_q, lengths_kv, row_map and left_pad, and the arrays in host memory, by their ids; from ARRAY_SINKS
 * on they hold no int32. */
typedef struct attention_arrays {
    attention_list list[ARRAY_COUNT];
    int32_t       *array[ARRAY_COUNT]; /* NULL: not asked for */
} attention_arrays;

/* Reads the lists; false after a line on stderr that names the option.  Free the arrays in any case. */
bool attention_lengths_parse(const char *subcommand, const attention_lengths_words *words, attention_arrays *a);
/* The number of sequences that the lists name, and the longest of a list; 0 where no list says it. */
int64_t attention_lengths_batch(const attention_arrays *a);
int64_t attention_lengths_longest(const attention_arrays *a, int array);
/* Sets the fields about rows of a descriptor that has its batch and sizes, and checks the lists against them; false
 * after a line on stderr. */
bool attention_lengths_describe(const char *subcommand, const attention_lengths_words *words,
                                const attention_arrays *a, ptxpack_attention_desc *d);
/* Allocates and fills the arrays: as the lists say, else random; pages in random order.  False without memory. */
bool attention_lengths_draw(const ptxpack_attention_desc *d, const attention_geometry *g, random_state *random,
                            attention_arrays *a);
ptxpack_attention_lengths attention_lengths_of(const attention_arrays *a);
void                      attention_lengths_free(attention_arrays *a);

/* The rows of sequence i. */
attention_sequence attention_lengths_sequence(const ptxpack_attention_desc *d, const attention_geometry *g,
                                              const ptxpack_attention_lengths *lengths, int32_t i);
/* Makes all of a tensor NaN but the rows of sequences, which are random. */
void attention_lengths_fill(const ptxpack_attention_desc *d, const attention_geometry *g,
                            const attention_arrays *a, int tensor, random_state *random, void *memory);

/* The operations and bytes of the rows that there are, as attention.h counts them. */
typedef struct attention_work {
    double flops, bytes;
} attention_work;
attention_work attention_lengths_work(const ptxpack_attention_desc *d, const attention_geometry *g,
                                      const attention_arrays *a);

/* Goes through all query rows: of each sequence, head by head. */
typedef struct attention_walk {
    const ptxpack_attention_desc *desc;
    const attention_reference    *reference;
    int32_t                       batch;
    size_t                        first; /* the number of the sequence's first row */
} attention_walk;
size_t        attention_walk_total(const attention_walk *walk);
attention_row attention_walk_to(attention_walk *walk,
                                size_t          n); /* n: below the total, and never less than before */
/* Where a row is in o and in the lse, in elements. */
size_t attention_row_in_o(const attention_geometry *g, const ptxpack_attention_lengths *lengths,
                          const attention_row *row);
size_t attention_row_in_lse(const ptxpack_attention_desc *d, const ptxpack_attention_lengths *lengths,
                            const attention_row *row);

/* Whether all of o and lse that is not a row of a sequence is 0, as it was before; makes the rows 0, too. */
bool attention_lengths_untouched(const ptxpack_attention_desc *d, const attention_geometry *g,
                                 const attention_arrays *a, void *o, float *lse);

/* Reports how the rows are stored; {rows_kept} is the same in words. */
void attention_rows_report(report *r, const ptxpack_attention_desc *d);
/* Reports the arrays but for starts and page table; {lengths_text} is the same in words. */
void attention_lengths_report(report *r, const ptxpack_attention_desc *d, const attention_arrays *a);
#endif
