/* registry.h - the table of kernel variants (ptx/kernels.def) and the choice among its rows. */
#ifndef PTXPACK_REGISTRY_H
#define PTXPACK_REGISTRY_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "loader/expand/expand.h"
#include "status.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Properties of a row beyond the numbers: bits of ptxpack_variant.flags. */
enum {
    PTXPACK_VARIANT_NO_SPILLS = 1,     /* ptxas spills nothing: tests check it */
    PTXPACK_VARIANT_WHOLE_PROGRAM = 2, /* must not be compiled as relocatable code (cuLink route) */
    PTXPACK_VARIANT_ARCH_SPECIFIC = 4, /* runs on exactly `arch` (sm_90a), not on later ones */
    PTXPACK_VARIANT_NO_BF16 = 8,       /* the instructions it uses have no bf16 form */
    PTXPACK_VARIANT_OVERLAPS = 16, /* it may begin before the kernel before it has ended, and waits for that */
    PTXPACK_VARIANT_RELOCATABLE_SPILLS = 32 /* with NO_SPILLS: except in relocatable code */
};

enum { PTXPACK_MAX_PARAMETERS = 20 };

/* One row of ptx/kernels.def. */
typedef struct ptxpack_variant {
    const char    *id;            /* unique: "attention_mma_sm80_d128" */
    const char    *op;            /* what it computes: "attention", "vector_add" */
    const char    *file;          /* below ptx/: "attention/mma.ptx" */
    const char    *entry;         /* .entry name */
    int            arch;          /* lowest compute capability * 10: 75, 80, 90 */
    int            isa;           /* lowest PTX ISA version * 10: 65, 70, 80 */
    int            threads;       /* per block */
    int            shared_bytes;  /* dynamic shared memory per block */
    int            blocks_per_sm; /* its speed needs that many blocks: where fewer fit, the row is skipped */
    unsigned       flags;
    ptxpack_symbol parameters[PTXPACK_MAX_PARAMETERS]; /* the row's own symbols */
    int            parameter_count;
} ptxpack_variant;

/* The properties of a device that the choice depends on. */
typedef struct ptxpack_device_caps {
    int  arch;             /* compute capability * 10, or the lower value of PTXPACK_ARCH */
    int  isa;              /* highest PTX ISA * 10 that the driver takes */
    int  shared_per_block; /* opt-in limit, bytes */
    int  shared_per_sm;    /* bytes */
    bool portable;         /* the code must also run on later devices: rows for exactly `arch` are refused */
} ptxpack_device_caps;

/* All rows in the order of the table (ptx/kernels.def explains the order). */
PTXPACK_API const ptxpack_variant *ptxpack_variants(size_t *count);
PTXPACK_API const ptxpack_variant *ptxpack_variant_find(const char *id); /* NULL: there is no such row */
/* The value of a row's own symbol, or `otherwise`. */
PTXPACK_API int64_t ptxpack_variant_parameter(const ptxpack_variant *v, const char *name, int64_t otherwise);

/* Why a row cannot run on such a device: NULL if it can, otherwise one line written to buf, for example
 * "needs sm_80, the device is sm_75". */
PTXPACK_API const char *ptxpack_variant_refusal(const ptxpack_variant *v, const ptxpack_device_caps *caps,
                                                char *buf, size_t cap);

/* Whether a row covers the caller's problem; an argument of ptxpack_variant_choose. */
typedef bool (*ptxpack_variant_filter)(const ptxpack_variant *v, const void *context);

/* The first row of `op` that the filter accepts (NULL: every row) and that runs on `caps`.  NULL if there is
 * none: buf then holds the reason of the nearest row. */
PTXPACK_API const ptxpack_variant *ptxpack_variant_choose(const char *op, const ptxpack_device_caps *caps,
                                                          ptxpack_variant_filter filter, const void *context,
                                                          char *buf, size_t cap);
#ifdef __cplusplus
}
#endif
#endif
