/* plan.h - what the parts of `ptxpack plan` share: a plan that is being made, and its report. */
#ifndef PTXPACK_PLAN_H
#define PTXPACK_PLAN_H
#include "host/attention/inspect.h"
#include "host/ptxpack.h"
#include "tools/command.h"
#include "tools/problem/attention_problem.h"
#include "tools/problem/gemm_problem.h"
#include "tools/report.h"

typedef struct plan_settings {
    attention_settings attention;
    gemm_settings      gemm;
    bool               c, bias; /* the GEMM has them */
    int64_t            ranks;   /* of parallel attention, as all to `link` */
    const char        *shards, *way;
    double             link; /* NaN: the library's */
    const char        *arch, *variant;
    double             tflops, gbps; /* NaN: the machine's */
    bool               no_compile, json;
} plan_settings;

typedef struct plan {
    const plan_settings   *settings;
    ptxpack               *handle;
    ptxpack_device_caps    caps;
    attention_problem      attention; /* only the operation's own of these two is used */
    gemm_problem           gemm;
    attention_translated   translated; /* hooks of CUDA C++ as macros, which `attention` refers to */
    int                    spilled[PLAN_CANDIDATES]; /* bytes, of kernels that gave way to the next one */
    const ptxpack_variant *row;
    report                 out;
} plan;

/* An operation that can be planned. */
typedef struct plan_operation {
    const char *word;
    /* The options that describe its problem; returns how many. */
    size_t (*options)(plan_settings *s, option *rows);
    /* Each returns an exit status; a line is on stderr unless it is COMMAND_OK. */
    int (*describe)(plan *p); /* make a descriptor of the settings */
    int (*fill)(plan *p);     /* choose the row and fill the report */
} plan_operation;
extern const plan_operation plan_attention, plan_gemm, plan_parallel;
/* The part of the report that belongs to one method of attention, after the row is chosen. */
typedef struct plan_kernel {
    void (*tiles)(plan *p, const void *layout);
    void (*layouts)(plan *p, const void *layout); /* also descriptors, tensor maps, accesses, shared memory */
} plan_kernel;
extern const plan_kernel plan_attention_mma, plan_attention_wgmma, plan_attention_decode;
/* Query tiles of all heads, each with rows of `group` of them. */
int64_t plan_attention_tiles(const plan *p, int64_t group);

/* ---- what every operation reports ---------------------------------------------------------------------- */
/* The row that --variant names, if it belongs to the operation; else NULL after a line on stderr. */
const ptxpack_variant *plan_named_row(const plan *p, const char *op);
void                   plan_report_target(plan *p);  /* target and variant */
int                    plan_sm_count(const plan *p); /* of the device, or of the GPU that stands in */

typedef struct plan_costs {
    double                flops, bytes;
    ptxpack_dtype         dtype;
    const ptxpack_symbol *symbols;
    size_t                symbol_count; /* 0: the reason is in ptxpack_detail(NULL) */
    ptxpack_named_text    texts[PLAN_TEXTS];
    size_t                text_count;
    bool                  rates; /* JSON has the budget of registers and the rates of the machine */
} plan_costs;
/* Why there is nothing to ask the compiler for: NULL, or the reason. */
const char *plan_cannot_compile(const plan *p);
/* Reports the registers as the compiler counts them, and the roofline. */
void plan_report_costs(plan *p, const plan_costs *costs);

void plan_report_layout(plan *p, const char *name, const ptxpack_layout *layout);
void plan_report_operand(plan *p, const char *name, const ptxpack_wgmma_operand *operand);
/* Reports the extents, strides and box of a tensor map as arrays. */
void plan_report_map(plan *p, const ptxpack_tma_box *box, int rank);

/* Reports how threads access shared memory, and the bank conflicts of these accesses. */
void plan_report_access(plan *p, const char *name, const char *atom, int64_t bytes,
                        const ptxpack_layout *offsets, const ptxpack_banks *banks);

/* Reports shared memory: the heading, a line for each piece, and the sum; only in the text form. */
void plan_report_pieces(plan *p);
void plan_report_piece(plan *p, int64_t from, int64_t bytes, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Adds `count` pieces of `bytes` each, named "WHAT, stage N". */
void plan_report_stages(plan *p, int64_t from, int64_t bytes, int64_t count, const char *what);
#endif
