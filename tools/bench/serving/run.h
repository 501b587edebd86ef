/* run.h - cases that share their memory: each is one launch that an inference engine makes, or what it is compared with.
 *
 * Memory   Arenas of random numbers, as large as the case that needs most.  A case takes so many sets of inputs from their
 *          beginning, one after the other, that no launch finds its keys in the L2 cache, and launches on each in turn.
 * Order    Cases are described first (bench_add..), then memory is allocated and filled, every case is made (its plan and
 *          its arrays), every result is checked, and all are timed in shuffled rounds (rounds.h).
 * Errors   Functions that return false have set the device's line. */
#ifndef PTXPACK_BENCH_SERVING_RUN_H
#define PTXPACK_BENCH_SERVING_RUN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "host/ptxpack.h"
#include "tools/bench/bench.h"
#include "tools/bench/memory.h"
#include "tools/bench/rounds.h"

enum { ARENA_K, ARENA_V, ARENA_Q, ARENA_O, ARENA_LSE, ARENAS };
enum { BENCH_CASES = 128, BENCH_NAME = 80 };

typedef struct bench_run  bench_run;
typedef struct bench_case bench_case;

/* What a kind of cases does. */
typedef struct bench_kind {
    bool (*make)(bench_run *run, bench_case *c);            /* the plan, and its memory beside the arenas */
    bool (*launch)(bench_run *run, bench_case *c, int set); /* enqueue one launch */
    bool (*check)(bench_run *run, bench_case *c); /* launch, and compare with the host; NULL: nothing */
    void (*free)(bench_run *run, bench_case *c);  /* of a case that was perhaps not made */
} bench_kind;

struct bench_case {
    const bench_kind     *kind;
    const char           *part; /* of the table */
    int32_t               head_dim;
    char                  name[BENCH_NAME];
    void                 *state;         /* of the kind; freed after kind->free */
    size_t                bytes[ARENAS]; /* of one set */
    int                   sets, launches;
    bool                  live;   /* it launches graphs itself: one enqueue is all of its launches */
    double                work;   /* of a launch: bytes, or floating-point operations */
    bool                  flops;  /* which of them */
    int                   base;   /* the case that it is compared with; -1: none */
    const ptxpack_kernel *kernel; /* set by make; NULL: it is no kernel of the pack */
};

struct bench_run {
    device               *gpu;
    const bench_settings *settings;
    bench_memory          memory;
    uint64_t              arena[ARENAS];
    size_t                arena_bytes[ARENAS];
    bench_case            cases[BENCH_CASES];
    int                   count;
    int                   plans, plans_made; /* so far; before the first launch */
    /* Set by the caller before cases are added. */
    size_t  rotated;  /* bytes that all sets of a case shall have together */
    int     launches; /* of a case in a round, at least */
    int     rest_us;  /* before each */
    int32_t head_dim; /* of the cases that are added now */
    /* Of the rounds. */
    bench_rounds timing;
    int          launches_of[BENCH_CASES];
    bool         live[BENCH_CASES];
};

/* A new case with a zeroed state of so many bytes, and its number; -1 with the line set. */
int bench_add(bench_run *run, const bench_kind *kind, const char *part, size_t state_bytes);
/* Sets how many sets of inputs and launches a case has, of which each set reads so many bytes that are to come from
 * memory. */
void bench_rotate(bench_run *run, bench_case *c, size_t bytes);
/* Where set `set` of a case lies in an arena. */
uint64_t bench_at(const bench_run *run, const bench_case *c, int arena, int set);

/* Allocates, fills, makes, checks and times all cases. */
bool   bench_run_all(bench_run *run);
double bench_us(bench_run *run, int index);
double bench_rate(bench_run *run, int index); /* GB/s or TFLOP/s */
void   bench_run_free(bench_run *run);        /* all but the device */

/* An int32 array of the host on the device. */
bool bench_upload(bench_run *run, uint64_t *at, const int32_t *values, size_t count);
/* Copies `count` elements of a set of an arena to the host, from element `from` on: 16-bit numbers, of ARENA_LSE float. */
bool bench_read(bench_run *run, const bench_case *c, int arena, int set, size_t from, size_t count, void *to);
/* "PART, NAME: what" is the device's line; returns false. */
bool bench_wrong(bench_run *run, const bench_case *c, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A sum over the K and V of another case, which thereby has what a plain reduction of its bytes takes as its base.  Returns
 * the number of the reduction; -1 with the line set. */
int bench_add_reduction(bench_run *run, int of);
#endif
