/* check.h - the checker of kernels: what its files share.
 *
 * Every case runs on every row of kernels.def that the device can run.  Inputs lie among NaNs, outputs among
 * guard bytes; launches are done twice (check_repeats) and must give the same bits. */
#ifndef PTXPACK_CHECK_H
#define PTXPACK_CHECK_H
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tools/device.h"

typedef struct check {
    device          gpu;
    pthread_mutex_t gpu_lock; /* one case at a time on the GPU; references run at the same time */
    pthread_mutex_t print_lock;
    atomic_int      passed, failed;
    atomic_bool     broken; /* stop: the GPU no longer answers (dead), or the time is over */
    atomic_bool     dead, over;
    /* options */
    bool        quick, list, quiet;
    bool        brief;  /* on the emulated driver: only sizes that take it seconds */
    bool        half;   /* there, in a quick run: half of the cases of lengths; other runs have all of them */
    bool        first;  /* stop at the first failure */
    double      end_ms; /* of now_ms: stop then; 0: never */
    const char *filter; /* substring of a case's name; NULL: all */
    const char *row;    /* substring of the id of a row of kernels.def; NULL: all */
    int32_t     oldest; /* rows of earlier architectures are not run */
    const char *mask;   /* substring of a mask's name, of the cases of attention; NULL: all */
    const bool *rows;   /* by their place in kernels.def: which are run; NULL: all */
    int         threads;
    uint64_t    seed;
} check;

bool check_wanted(const check *c, const char *name);
bool check_row_wanted(const check *c, const ptxpack_variant *row);
/* Whether a launch with so much workspace is done twice.  On the emulated driver blocks that share nothing run once: what
 * could change a second run's bits is a race, which the judge finds in the first. */
bool check_repeats(const check *c, size_t workspace);
/* The newest architecture of the rows that the device can run. */
int32_t check_newest(const check *c);
/* Whether a row is one of the operation, for elements of dtype, is wanted, and runs on the device. */
bool check_row_runs(const check *c, const ptxpack_variant *row, const char *op, ptxpack_dtype dtype);
/* Whether a case is wanted, also in a quick run, and is to be run; prints its name where cases are listed. */
bool check_case_runs(const check *c, const char *name, bool quick);
/* Counts a case; `what` is NULL when it passed, otherwise it is printed with the name. */
void check_record(check *c, const char *name, const char *what);
/* Records a failure of the GPU or of the library; the other cases are not run. */
void check_broken(check *c, const char *name, const char *line);

/* Device memory that grows and is reused; on the emulated driver it has exactly the size that is asked for. */
typedef struct check_buffer {
    uint64_t address;
    size_t   bytes;
} check_buffer;
bool check_reserve(check *c, check_buffer *buffer, size_t bytes); /* call with gpu_lock held */

/* The cases of an operation; threads take one after another. */
typedef struct check_cases {
    const char *op;
    const void *cases;
    size_t      count;
    size_t      images; /* bytes of what a thread keeps between its cases; they are 0 at first */
    void (*name)(const void *cases, size_t i, char name[128]);
    void (*run)(check *c, const void *cases, size_t i, void *images);
    void (*free)(check *c, void *images); /* called with gpu_lock held */
} check_cases;
void check_run_cases(check *c, const check_cases *cases); /* or lists their names */

/* Reserves device memory for tensors that are too large for the host.  Returns false with a SKIP line when
 * there is too little memory, or after a failure has been recorded. */
bool check_reserve_far(check *c, const char *name, size_t input_bytes, size_t output_bytes, uint64_t *inputs,
                       uint64_t *output);

enum { CHECK_GUARD = 4096 }; /* bytes before and after each tensor */
/* How much of an input's region, whose guards are NaNs, is on the device: all of it; on the emulated driver nothing after
 * the input, so that every read beyond its end is reported. */
size_t check_input_bytes(const check *c, size_t region);

/* Each runs the cases of an operation. */
void check_atom(check *c); /* the tables of atoms against the hardware */
void check_attention(check *c);
void check_lengths(check *c); /* attention of sequences with lengths of their own */
void check_gemm(check *c);
void check_gemm_groups(check *c); /* products of groups of rows */
void check_far(check *c);         /* attention at strides beyond 32 bits; not with --quick */
void check_far_gemm(check *c);    /* the same for gemm */
void check_vector(check *c);
void check_append(check *c);   /* to a cache of keys and values */
void check_blocks(check *c);   /* lists of blocks that the device makes */
void check_merge(check *c);    /* of two partial attentions */
void check_parts(check *c);    /* of any number of them */
void check_arrivals(check *c); /* of keys that come in pieces */
void check_norm(check *c);     /* RMSNorm */
void check_quantise(check *c); /* matrices to e4m3, and back */
void check_sampling(check *c); /* choices of tokens */
void check_experts(check *c);  /* routes of rows to experts, and sums of what they make */
void check_gather(check *c);   /* rows of a table */
void check_chain(check *c);    /* of launches that overlap */
void check_split(check *c);    /* the same bits in every batch */
/* Breaks kernels on purpose and checks that the cases notice; returns an exit status. */
int check_self_test(check *c, const char *ptx_dir);
/* Returns how many of those breaks do not fit the present .ptx files; `line` names the last. */
int check_self_test_texts(const char *ptx_dir, char *line, size_t cap);
#endif
