/* op.h - private: attention as an operation of the spine, and what its methods share.
 *
 * mma.c is the method of the rows of ptx/attention/mma.ptx, wgmma.c that of ptx/attention/wgmma.ptx. */
#ifndef PTXPACK_ATTENTION_OP_H
#define PTXPACK_ATTENTION_OP_H
#include "check.h"
#include "mma_args.h"
#include "wgmma_args.h"

typedef union attention_arguments {
    attention_mma_arguments   mma;
    attention_wgmma_arguments wgmma;
} attention_arguments;

struct ptxpack_attention_plan {
    plan_head           head;
    attention_geometry  geometry;
    attention_arguments arguments; /* all but what a launch brings */
};

extern const plan_op     attention_op; /* its descriptor is a ptxpack_attention_desc */
extern const plan_method attention_mma, attention_wgmma;

/* ptxpack_attention_plan_create with the row given; NULL chooses. */
ptxpack_status ptxpack_attention_plan_row(ptxpack *handle, const ptxpack_attention_desc *desc,
                                          const ptxpack_variant *row, ptxpack_attention_plan **plan);

/* The query tiles of a problem, in the order in which all kernels number them. */
typedef struct attention_tiles {
    int32_t tiles_q;       /* of a head */
    int32_t heads_total;   /* batch * heads_q */
    int32_t tiles_total;   /* their product */
    int32_t section_heads; /* heads whose tiles are neighbours */
} attention_tiles;

/* Counts them for blocks of `block_m` rows.  PTXPACK_E_UNSUPPORTED, with `line`, when 32 bits do not hold their
 * number, or the numbers of rows and keys up to a block beyond the last one. */
ptxpack_status attention_count_tiles(const ptxpack_attention_desc *desc, const attention_geometry *geometry,
                                     int64_t block_m, attention_tiles *tiles, char line[PLAN_LINE]);
#endif
