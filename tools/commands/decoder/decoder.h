/* decoder.h - what `ptxpack norm`, `gather`, `sampling`, `experts` and `quantise` share: an operation on random rows, timed and
 * verified.  Each has a struct of its own that begins with a `decoder`. */
#ifndef PTXPACK_DECODER_COMMAND_H
#define PTXPACK_DECODER_COMMAND_H
#include "tools/command.h"
#include "tools/device.h"
#include "tools/problem/random.h"
#include "tools/report.h"

enum { DECODER_TENSORS = 9, DECODER_KERNELS = 2 };

typedef struct decoder_tensor {
    const char *name;
    size_t      bytes;   /* 0: there is none */
    bool        written; /* by a launch */
    bool        zeros;   /* a workspace: zeros before the first launch, and never copied again */
    void       *host;    /* what is uploaded */
    void       *result;  /* of one that is written: what the last launch left */
    uint64_t    at;
} decoder_tensor;

/* What --verify found. */
typedef struct decoder_verdict {
    size_t      count, wrong; /* elements compared */
    const char *name;         /* of the first wrong element: its tensor, and its place there */
    size_t      first;
    double      max_error;
} decoder_verdict;

typedef struct decoder_op decoder_op;
typedef struct decoder {
    const decoder_op     *op;
    int64_t               rows, seed, repeat;
    const char           *dtype_name, *device_name;
    bool                  verify, json;
    ptxpack_dtype         dtype; /* from dtype_name */
    device                gpu;
    decoder_tensor        tensor[DECODER_TENSORS];
    const ptxpack_kernel *kernel[DECODER_KERNELS]; /* NULL: no more */
    double                bytes;                   /* that a launch reads and writes */
} decoder;

struct decoder_op {
    const char *word;
    /* Checks the own options and makes the descriptor, the tensors and `bytes`.  Returns an exit status; a line is on stderr
     * unless it is COMMAND_OK. */
    int (*describe)(decoder *d);
    void (*problem)(const decoder *d, report *r); /* the own part of the problem, and its line of text */
    void (*fill)(decoder *d, random_state *random);
    ptxpack_status (*plan)(decoder *d);   /* and the kernels, and what depends on the plan */
    ptxpack_status (*launch)(decoder *d); /* what is timed: one kernel after another */
    void (*end)(decoder *d);              /* frees plans */
    /* Compares with the CPU.  The line of a failure is ptxpack_detail(NULL). */
    ptxpack_status (*verify)(const decoder *d, decoder_verdict *v);
};

/* The settings before options are read, and the options that all have. */
decoder decoder_of(const decoder_op *op, int64_t rows);
#define DECODER_OPTIONS(d, rows_default)                                                     \
    {"rows", OPTION_INT, &(d)->rows, "N  rows (default " rows_default ")"},                  \
        {"dtype", OPTION_TEXT, &(d)->dtype_name, "f16|bf16  (default bf16)"},                \
        {"verify", OPTION_FLAG, &(d)->verify, "compare with the CPU"},                       \
        {"seed", OPTION_INT, &(d)->seed, "N  of the random input"},                          \
        {"repeat", OPTION_INT, &(d)->repeat, "N  launches timed (default 20; emulated: 1)"}, \
        {"device", OPTION_TEXT, &(d)->device_name, DEVICE_OPTION_HELP},                      \
        {"json", OPTION_FLAG, &(d)->json, "print JSON"},                                     \
    {                                                                                        \
        NULL, OPTION_FLAG, NULL, NULL                                                        \
    }
/* Reads the options and does all of it; returns the exit status. */
int decoder_run(int argc, char **argv, const char *synopsis, const option *rows, decoder *d);

/* Whether an option is from 1 to `most`; otherwise a line is on stderr. */
bool decoder_size(const decoder *d, const char *name, int64_t value, int64_t most);
void decoder_bits(const decoder *d, decoder_verdict *v, int tensor, const void *want, size_t element_bytes);
/* Elements of d->dtype that are rounded once from f32, whose errors are up to `relative` of a value, or `absolute`. */
void decoder_rounded(const decoder *d, decoder_verdict *v, int tensor, const double *want, double relative,
                     double absolute);
/* Another element: whether it is right, and its error. */
void decoder_count(decoder_verdict *v, const char *name, size_t place, bool right, double error);
#endif
