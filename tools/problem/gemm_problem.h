/* gemm_problem.h - the problem that `ptxpack gemm` computes: made from its options, with random input or the
 * input of .npy files; and whether the result is right. */
#ifndef PTXPACK_GEMM_PROBLEM_H
#define PTXPACK_GEMM_PROBLEM_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "host/gemm/inspect.h"

/* What the options ask for; numbers that were not given are OPTION_NOT_GIVEN, beta is NaN. */
typedef struct gemm_settings {
    const char *subcommand;           /* named in lines on stderr */
    const char *a, *b, *c, *bias, *d; /* file names; c and bias "": random; NULL: none */
    int64_t     m, n, k, batch, seed, repeat;
    const char *order_a, *order_b, *dtype, *dtype_ab, *dtype_b, *scales, *activation,
        *device;                   /* dtype_ab, dtype_b NULL: as dtype */
    const char *scale_a, *scale_b; /* file names; NULL: random */
    const char *groups;            /* the rows of each group, "3,0,700"; NULL: there are none */
    double      alpha, beta;
    double      norm_eps; /* NaN: A is not normalised */
    bool        verify, json, constant_b;
} gemm_settings;

/* The options that describe a problem, as rows for command_options, with the default that the help names. */
#define GEMM_OPTIONS(s, size_default)                                                                          \
    {"m", OPTION_INT, &(s)->m, "N  rows (default " size_default ")"},                                          \
        {"n", OPTION_INT, &(s)->n, "N  columns (default " size_default ")"},                                   \
        {"k", OPTION_INT, &(s)->k, "N  length of the sums (default " size_default ")"},                        \
        {"batch", OPTION_INT, &(s)->batch, "N  matrices (default 1)"},                                         \
        {"order-a", OPTION_TEXT, &(s)->order_a, "row|column  the order of A in memory (default row)"},         \
        {"order-b", OPTION_TEXT, &(s)->order_b,                                                                \
         "row|column  the order of B in memory (default row; e4m3, groups, norm: column)"},                    \
        {"groups", OPTION_TEXT, &(s)->groups,                                                                  \
         "LIST  rows of each group, such as 3,0,700, each with its own B (default: none)"},                    \
        {"norm-a", OPTION_REAL, &(s)->norm_eps,                                                                \
         "EPS  RMSNorm(A), its weights random, in the place of A, of at most 32 rows"},                        \
        {"constant-b", OPTION_FLAG, &(s)->constant_b,                                                          \
         "launches may begin, and read B, before the one before has ended, as in decoding"},                   \
        {"dtype-ab", OPTION_TEXT, &(s)->dtype_ab, "e4m3  the type of A and B (default: as --dtype)"},          \
        {"dtype-b", OPTION_TEXT, &(s)->dtype_b, "e4m3  the type of B alone, of at most 32 rows or of groups"}, \
    {                                                                                                          \
        "scales", OPTION_TEXT, &(s)->scales,                                                                   \
            "tensor|lines|blocks  what of e4m3 has a scale of its own (default tensor)"                        \
    }
/* The settings before options are read. */
gemm_settings gemm_settings_of(const char *subcommand);

/* The problem, its matrices in host memory laid out as desc says, and its results. */
typedef struct gemm_problem {
    ptxpack_gemm_desc desc;
    gemm_geometry     geometry;
    uint8_t          *matrix[GEMM_MATRICES]; /* NULL: there is none */
    uint16_t         *bias, *norm_w;
    float            *scale[2];     /* of A, of B */
    int32_t          *group_starts; /* [groups + 1]; NULL: there are none */
    float             alpha, beta;
    uint64_t          seed;
    double            ms; /* of one launch */
    int64_t           repeat;
    bool              emulated;
} gemm_problem;

/* Checks the settings, makes or reads the inputs, and allocates D.  Returns an exit status; a line is on stderr
 * unless it is COMMAND_OK.  Free the problem in any case. */
int gemm_problem_make(const gemm_settings *s, gemm_problem *p);
/* Makes only the descriptor and the geometry, from sizes. */
int gemm_problem_describe(const gemm_settings *s, gemm_problem *p);
/* Writes D to the file of the settings. */
int  gemm_problem_write(const gemm_settings *s, const gemm_problem *p);
void gemm_problem_free(gemm_problem *p);

double gemm_problem_flops(const gemm_problem *p);
/* The bytes of all matrices, each read or written once; one that the whole batch shares counts once. */
double gemm_problem_bytes(const gemm_problem *p);

const char *gemm_order_name(ptxpack_order order);                /* "row", "column" */
const char *gemm_activation_name(ptxpack_activation activation); /* "none", "relu", ... */
const char *gemm_scales_name(ptxpack_gemm_scales scales);        /* "tensor", "lines", "blocks" */
/* False: the word is none of these. */
bool gemm_scales_of(const char *word, ptxpack_gemm_scales *scales);

typedef struct gemm_verdict {
    size_t   rows, total; /* compared, and in all              */
    size_t   wrong;       /* elements (host/gemm/reference.h)  */
    gemm_row first;       /* the first wrong element: its row, and its column */
    int32_t  first_column;
    double   max_error;   /* of D, from the exact value        */
    double   max_allowed; /* before the rounding to the type   */
} gemm_verdict;

/* Verifies at most `most` rows, a random sample from the seed; 0: as many as take a few seconds.  The line of a
 * failure is ptxpack_detail(NULL). */
ptxpack_status gemm_problem_verify(const gemm_problem *p, size_t most, gemm_verdict *verdict);
#endif
