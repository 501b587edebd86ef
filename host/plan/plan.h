/* plan.h - private: the spine that every operation shares.
 *
 *   a descriptor -> resolve -> survey of the rows of kernels.def -> symbols, build -> plan -> launch
 *
 * An operation (plan_op) says what its problems are; a method (plan_method) is one way to run it, which belongs
 * to one file of kernels.def.  Everything that does not depend on the operation or the method is done here. */
#ifndef PTXPACK_HOST_PLAN_H
#define PTXPACK_HOST_PLAN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "arguments.h"
#include "host/dtype.h"
#include "instance.h"
#include "loader/context.h"
#include "loader/loader.h"
#include "symbols.h"

enum { PLAN_LINE = 256 /* bytes of the line of a refusal */, PLAN_ARGUMENT_BYTES = 1344, PLAN_TEXTS = 2 };

/* Writes the line of a refusal; returns `status`. */
ptxpack_status plan_refuse(char *line, ptxpack_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A struct of the API, which begins with its size and may have grown since. */
typedef struct plan_struct {
    const char *name, *type; /* of the parameter; of the struct */
    size_t      size;        /* today */
    size_t      older[8];    /* those it had before; 0: no more */
    size_t      launch_at;   /* of buffers: where the fields `launch` and `reserved` are */
    uint32_t    launch_bits; /* of `launch` that are known; 0: PTXPACK_LAUNCH_OVERLAP */
} plan_struct;
/* Copies what the caller gave; fields that it does not have are 0.
 *   PTXPACK_E_ARG  it is NULL, or its size is not one that ever was */
ptxpack_status plan_whole(const plan_struct *type, const void *given, void *whole, char line[PLAN_LINE]);
/* Checks and reads the bits of a launch (PTXPACK_LAUNCH_OVERLAP).  PTXPACK_E_ARG */
ptxpack_status plan_check_launch(const plan_struct *type, const void *whole, bool *overlap,
                                 char line[PLAN_LINE]);

/* Room for any operation's descriptor, its geometry, or what comes with a launch. */
typedef union plan_room {
    max_align_t   align;
    unsigned char bytes[512];
} plan_room;

typedef struct plan_op     plan_op;
typedef struct plan_method plan_method;

/* A checked problem. */
typedef struct plan_problem {
    const plan_op      *op;
    const ptxpack      *handle; /* NULL: without a device, where only builds are listed */
    const void         *desc;
    const void         *geometry; /* the descriptor with every default filled in */
    ptxpack_device_caps caps;
    int                 sm_count; /* 0: not known */
} plan_problem;

/* The first member of every plan. */
typedef struct plan_head {
    const ptxpack     *handle;
    const plan_op     *op;
    const plan_method *method;
    ptxpack_kernel    *kernel;
    uint64_t           workspace; /* bytes */
    uint64_t           counters;  /* so many of them, the first ones, are zero between launches */
    uint32_t           grid[3];
} plan_head;

struct plan_method {
    const char *file; /* of its rows in kernels.def */
    const plan_method *
        beside; /* another one, in whose place among the methods its rows compete with that one's; NULL: in its own */
    bool
        ordered; /* among its rows with one HEAD_DIM, the first that can be taken is the best for any problem */
    const argument_field *fields; /* of the .param struct */
    size_t                field_count, argument_bytes;

    /* Derive what depends only on the row and is the same for all problems.  The line of a failure is in
     * ptxpack_detail(NULL).  NULL: nothing; `layout` is NULL then. */
    size_t layout_bytes;
    ptxpack_status (*derive)(const ptxpack_variant *row, void *layout);

    /* Why a row that covers the problem and runs on the device cannot be taken: NULL, or `line`.  May be NULL.
     */
    const char *(*refusal)(const plan_problem *problem, const ptxpack_variant *row, char line[PLAN_LINE]);
    /* The time that the row would take, in a unit that is common to all rows that are compared.  NULL: the
     * first row is taken. */
    double (*cost)(const plan_problem *problem, const ptxpack_variant *row);
    /* Of an operation whose first method that can take a problem takes it: how many of the next ones come before this one.  NULL: 0. */
    size_t (*yields)(const plan_problem *problem);
    /* The symbols of the problem's build, besides those of the arguments.  NULL: none. */
    void (*symbols)(const plan_problem *problem, const void *layout, symbol_list *list);
    /* Set grid, workspace and arguments, except what comes with a launch.  If there is a driver, the handle's
     * context is current.  The line of a failure is the handle's. */
    ptxpack_status (*fill)(const plan_problem *problem, const ptxpack_variant *row, const void *layout,
                           plan_head *plan);
    /* Write what comes with a launch into a copy of the plan's arguments and grid.  The handle's context is
     * current.  This must not lock or allocate. */
    ptxpack_status (*address)(const plan_head *plan, const void *buffers, void *arguments, uint32_t grid[3]);

    /* The builds that differ most, by their index (plan_op.build), in the order of instance.h. */
    const uint16_t *corners;
    size_t          corner_count;
    size_t (*corners_of)(const ptxpack_variant *row); /* how many of them a row has; NULL: all */
};
/* In a method's initialiser: its arguments, the struct `type` with the array of its fields; all corners of an array. */
#define PLAN_ARGUMENTS(array, type) \
    .fields = array, .field_count = sizeof array / sizeof array[0], .argument_bytes = sizeof(type)
#define PLAN_CORNERS(array) .corners = array, .corner_count = sizeof array / sizeof array[0]

struct plan_op {
    const char               *name; /* op of its rows */
    const plan_method *const *methods;
    size_t                    method_count;
    bool   by_method; /* the first method that can take a problem takes it; otherwise all costs are compared */
    double margin;    /* a row is preferred to an earlier one if it costs less than this share of the other */

    size_t desc_bytes, plan_bytes;
    size_t dtype_at;                  /* in the descriptor, for the defaults of `covers` and `describe` */
    size_t geometry_at, arguments_at; /* in the plan */

    /* Checks a descriptor, with or without a device; `line` names the field that is wrong.  PTXPACK_E_ARG */
    ptxpack_status (*resolve)(const void *desc, void *geometry, char line[PLAN_LINE]);
    /* Whether a row is meant for such a problem.  NULL: if it takes elements of the type. */
    bool (*covers)(const ptxpack_variant *row, const void *desc);
    /* What rows cover, in words: "dtype f16, head_dim 64".  NULL: the type. */
    void (*describe)(const void *desc, char *text, size_t size);
    /* The caller's texts that the kernel is assembled with: how many; NULL: an operation without any. */
    size_t (*texts)(const void *desc, ptxpack_named_text texts[PLAN_TEXTS]);
    /* With `texts`: whether kernels of such problems may spill registers without a text, too; NULL: none may. */
    bool (*may_spill)(const void *desc);
    /* What comes with a launch; NULL: it has no size and no bits. */
    const plan_struct *buffers;
    /* Check it. */
    ptxpack_status (*check)(const plan_head *plan, const void *buffers, char line[PLAN_LINE]);

    /* Build `index` of so many for each element type: a descriptor that asks for it, and its name after that of
     * the type, which for a corner may be another one.  Different indices may mean the same build. */
    unsigned builds;
    void (*build)(const ptxpack_variant *row, ptxpack_dtype dtype, unsigned index, bool corner, void *desc,
                  char *name, size_t size);
};

/* ---- operations, methods, rows ------------------------------------------------------------------ */
/* NULL: no plan uses such rows. */
const plan_op     *plan_op_of(const ptxpack_variant *row);
const plan_method *plan_method_of(const ptxpack_variant *row);
/* The method in whose place among those of the operation this one's rows compete. */
const plan_method *plan_method_place(const plan_method *method);
/* Whether a row is for elements of this type. */
bool plan_row_takes(const ptxpack_variant *row, ptxpack_dtype dtype);
/* The layouts that the row's method derives from it; they are kept as long as the process lives.  For a row
 * that is not in the table *own is the same pointer, and the caller frees it; otherwise *own is NULL.  After a
 * failure a line is in ptxpack_detail(NULL).
 *   PTXPACK_E_UNSUPPORTED   the row contradicts itself
 *   PTXPACK_E_MEMORY */
ptxpack_status plan_layout(const ptxpack_variant *row, const void **layout, void **own);

/* ---- the choice --------------------------------------------------------------------------------- */
/* The properties of the device that the choice depends on.  Offline and without a compiler the newest PTX ISA
 * is assumed, so a choice does not mean that this machine can compile the row. */
ptxpack_device_caps plan_device_caps(const ptxpack *handle);
/* Checks a descriptor and makes a problem of it, which refers to desc and geometry.  handle and caps may be
 * NULL; caps NULL means those of the handle.  The codes of op->resolve */
ptxpack_status plan_resolve(const plan_op *op, const ptxpack *handle, const ptxpack_device_caps *caps,
                            const void *desc, void *geometry, plan_problem *out, char line[PLAN_LINE]);
/* Why the row cannot be taken for the problem: NULL, or `line`. */
const char *plan_refusal(const plan_problem *problem, const ptxpack_variant *row, char line[PLAN_LINE]);

/* The rows that cover a problem, in table order. */
enum { PLAN_CANDIDATES = 128 };
typedef struct plan_candidate {
    const ptxpack_variant *row;
    bool                   refused; /* plan_refusal says why */
    bool                   behind;  /* another row of an ordered method comes first, whatever the problem */
    double                 cost;    /* of the others */
} plan_candidate;
typedef struct plan_survey {
    size_t                 count;
    plan_candidate         candidate[PLAN_CANDIDATES];
    const ptxpack_variant *chosen; /* NULL: there is none */
} plan_survey;
void plan_survey_rows(const plan_problem *problem, plan_survey *out);
/* Takes the rows of a survey one by one, the best first; NULL: no more. */
const ptxpack_variant *plan_next_row(const plan_problem *problem, plan_survey *survey);
/* The row for the problem.  PTXPACK_E_UNSUPPORTED, with the handle's line */
ptxpack_status plan_choose(const plan_problem *problem, const ptxpack_variant **row);

/* ---- plans -------------------------------------------------------------------------------------- */
/* The symbols that the problem's build adds to the row; 0 with a line in ptxpack_detail(NULL). */
size_t plan_symbols(const plan_problem *problem, const ptxpack_variant *row,
                    ptxpack_symbol symbols[PTXPACK_INSTANCE_SYMBOLS]);
/* Makes a plan for the row, or for the one that is chosen when row is NULL.  *plan is malloc'ed, or NULL on
 * failure, with the handle's line. */
ptxpack_status plan_create(const plan_op *op, ptxpack *handle, const void *desc, const ptxpack_variant *row,
                           plan_head **plan);
/* A plan, and what comes with a launch of it, checked. */
typedef struct plan_launched {
    const plan_head *plan;
    const void      *buffers; /* whole ones */
    bool             overlap; /* it may begin before the kernel before it has ended */
} plan_launched;
enum { PLAN_LAUNCHED = 2 };
/* Enqueues at most so many kernels of one handle, one after another: none, unless the arguments of all can be filled in. */
ptxpack_status plan_enqueue(const plan_launched *launches, int count, struct CUstream_st *stream);
/* Checks the buffers and enqueues the kernel.  plan may be NULL (PTXPACK_E_ARG). */
ptxpack_status plan_launch(const plan_head *plan, const void *buffers, struct CUstream_st *stream);
/* What a launch would hand to the kernel, without checks. */
ptxpack_status plan_arguments(const plan_head *plan, const void *buffers, void *arguments, uint32_t grid[3]);
#endif
