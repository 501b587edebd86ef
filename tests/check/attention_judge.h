/* attention_judge.h - whether an output of attention is right: every element of it that is compared is within what
 * attention.c says in its first comment, and all others are plausible. */
#ifndef PTXPACK_CHECK_ATTENTION_JUDGE_H
#define PTXPACK_CHECK_ATTENTION_JUDGE_H
#include "tensor.h"

/* The results of the reference for the compared rows. */
typedef struct attention_expected {
    double *ref, *rounded, *lse; /* [row_count][head_dim], exact and rounded; [row_count] */
} attention_expected;

typedef struct attention_compared {
    ptxpack_attention_desc desc; /* with its mask */
    const attention_row   *rows; /* in order of batch, head, row */
    size_t                 row_count, per_head;
    attention_expected     want;
    const float           *sinks; /* [heads_q]; NULL: none */
} attention_compared;

/* The room for the line of a failure and the map under it. */
enum { ATTENTION_WHAT = 8192 };

/* Returns false after writing what is wrong to `what`, ATTENTION_WHAT bytes. */
bool attention_judge(const attention_compared *p, const check_output *out, char *what);
#endif
