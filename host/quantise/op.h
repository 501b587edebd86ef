/* op.h - private: rounding to e4m3 and the way back as operations of the spine. */
#ifndef PTXPACK_QUANTISE_OP_H
#define PTXPACK_QUANTISE_OP_H
#include "args.h"
#include "host/plan/memory.h"
#include "host/plan/plan.h"
#include "quantise.h"

/* As host/plan/calls.h calls them. */
typedef ptxpack_quantise_desc    ptxpack_dequantise_desc;
typedef ptxpack_quantise_buffers ptxpack_dequantise_buffers;

enum { QUANTISE_PIECE = 8 /* elements that a thread has at once */ };

typedef struct quantise_geometry {
    memory_tensor x, codes;
    int32_t       parts, pieces, last; /* scales of a row; pieces of what has one, and of the last of them */
    uint64_t      scale_bytes;
} quantise_geometry;

extern const plan_op quantise_op, dequantise_op; /* their descriptor is a ptxpack_quantise_desc */

/* PTXPACK_E_ARG, with the line of the field */
ptxpack_status quantise_resolve(const ptxpack_quantise_desc *desc, quantise_geometry *out,
                                char line[PLAN_LINE]);
/* The same for the addresses of a launch; back: of dequantise_op. */
ptxpack_status quantise_check(const quantise_geometry *geometry, const ptxpack_quantise_buffers *buffers,
                              bool back, char line[PLAN_LINE]);
/* ptxpack_(de)quantise_plan_create with the row given; NULL chooses. */
ptxpack_status ptxpack_quantise_plan_row(ptxpack *handle, const ptxpack_quantise_desc *desc,
                                         const ptxpack_variant *row, ptxpack_quantise_plan **plan);
ptxpack_status ptxpack_dequantise_plan_row(ptxpack *handle, const ptxpack_quantise_desc *desc,
                                           const ptxpack_variant *row, ptxpack_dequantise_plan **plan);
#endif
