/* plan_report.h - what `ptxpack plan` reports, and the part that each kernel of attention tells its own way. */
#ifndef PTXPACK_PLAN_REPORT_H
#define PTXPACK_PLAN_REPORT_H
#include <stdint.h>

#include "host/attention/plan.h"
#include "host/ptxpack.h"

typedef struct machine {
    char   name[128];
    double tflops, gbps;
} machine;

struct plan_report;
typedef struct plan_kernel {
    /* Fills layout and own; the line of a failure is in ptxpack_detail(NULL). */
    ptxpack_status (*open)(struct plan_report *r);
    void (*print_tiles)(const struct plan_report *r);
    void (*print_layouts)(const struct plan_report *r);
    void (*print_shared)(const struct plan_report *r);
    void (*json_tiles)(const struct plan_report *r);
    void (*json_layouts)(const struct plan_report *r); /* and shared memory */
} plan_kernel;
extern const plan_kernel plan_mma, plan_wgmma;

typedef struct plan_report {
    const ptxpack_attention_desc *desc;
    const ptxpack_variant        *row;
    const plan_kernel            *kernel;
    const void                   *layout; /* the kernel's */
    void                         *own;    /* to be freed, or NULL */
    attention_geometry            geometry;
    attention_survey              survey;
    bool                          named; /* by --variant */
    machine                       where;
    char                          target[128];
    ptxpack_kernel_info           compiled; /* registers > 0 when it was                      */
    char                          not_compiled[256];
    double                        flops, bytes;
} plan_report;

/* `ptxpack plan gemm`; argv[0] is the word. */
int plan_gemm(int argc, char **argv);
/* The device's, or of its kind; NaN: as it is. */
machine             plan_machine(const ptxpack *handle, ptxpack_dtype type, double tflops, double gbps);
bool                plan_check_rate(const char *name, double rate);
ptxpack_device_caps plan_caps(const ptxpack *handle);

/* Tiles of queries, of all heads. */
int64_t plan_tiles(const plan_report *r);
void    plan_json_layout(const char *key, const ptxpack_layout *l);
#endif
