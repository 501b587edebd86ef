/* sharded.h - a parallel attention of tensors in host memory: shards on the devices of a group's local ranks, launches, and
 * the results put together. */
#ifndef PTXPACK_SHARDED_H
#define PTXPACK_SHARDED_H
#include <stdbool.h>
#include "host/ptxpack.h"

enum { SHARDED_Q, SHARDED_K, SHARDED_V, SHARDED_O, SHARDED_TENSORS };

typedef struct sharded_rank {
    ptxpack                           *handle;
    ptxpack_attention_parallel_buffers buffers;
    int32_t                            first[2], count[2]; /* rows of its chunks */
} sharded_rank;

typedef struct sharded {
    ptxpack_parallel_group          *group;
    ptxpack_attention_parallel_plan *plan;
    ptxpack_attention_desc           attention;
    int32_t                          local;
    int32_t                          batch, rows; /* of whole tensors: 1 and all rows, if they are packed */
    sharded_rank                    *rank;
    char                             line[640]; /* of what failed */
} sharded;

/* The ways by their words, and a way by its word: best, if the word is that or none of them. */
enum { SHARDED_WAYS = 5 };
extern const char *const sharded_ways[SHARDED_WAYS];
ptxpack_parallel_way     sharded_way_of(const char *word);

/* Makes a plan and device memory; `handles` are those of the local ranks.  These calls return false with `line`. */
bool sharded_open(sharded *s, ptxpack_parallel_group *group, ptxpack *const *handles,
                  const ptxpack_attention_parallel_desc *desc);
/* Whole tensors; sinks and slopes may be NULL. */
bool sharded_upload(sharded *s, const void *const tensors[SHARDED_O], const float *sinks, const float *slopes);
bool sharded_launch(sharded *s);
bool sharded_wait(sharded *s);
/* Writes the rows of the local ranks into whole tensors; lse may be NULL. */
bool sharded_download(sharded *s, uint16_t *o, float *lse);
void sharded_close(sharded *s);
#endif
