/* op.h - private: routing rows to experts, and combining what they make of them, as operations of the spine. */
#ifndef PTXPACK_EXPERTS_OP_H
#define PTXPACK_EXPERTS_OP_H
#include "args.h"
#include "experts.h"
#include "host/plan/memory.h"
#include "host/plan/plan.h"

enum { EXPERTS_MOST = 512 };

typedef struct experts_route_geometry {
    memory_tensor logits;
    size_t        element_bytes;
    uint64_t      starts_bytes, all_bytes; /* all: of sources, of places and of weights */
    uint32_t      chunk_rows, chunks;      /* rows that a block of the grid routes; how many such blocks */
    uint32_t      padded;                  /* experts, and none, up to a power of two from 32 on */
    uint64_t      workspace;
} experts_route_geometry;

typedef struct experts_combine_geometry {
    memory_tensor y, residual, out; /* residual: 0 bytes if there is none */
    uint64_t      all_bytes;        /* of places and of weights */
} experts_combine_geometry;

extern const plan_op experts_route_op, experts_combine_op; /* their descriptors are ptxpack_experts_*_desc */

/* PTXPACK_E_ARG, with the line of the field */
ptxpack_status experts_route_resolve(const ptxpack_experts_route_desc *desc, experts_route_geometry *out,
                                     char line[PLAN_LINE]);
ptxpack_status experts_combine_resolve(const ptxpack_experts_combine_desc *desc, experts_combine_geometry *out,
                                       char line[PLAN_LINE]);
/* The same for the addresses of a launch. */
ptxpack_status experts_route_check(const experts_route_geometry        *geometry,
                                   const ptxpack_experts_route_buffers *buffers, char line[PLAN_LINE]);
ptxpack_status experts_combine_check(const experts_combine_geometry        *geometry,
                                     const ptxpack_experts_combine_buffers *buffers, char line[PLAN_LINE]);
/* ptxpack_experts_*_plan_create with the row given; NULL chooses. */
ptxpack_status ptxpack_experts_route_plan_row(ptxpack *handle, const ptxpack_experts_route_desc *desc,
                                              const ptxpack_variant *row, ptxpack_experts_route_plan **plan);
ptxpack_status ptxpack_experts_combine_plan_row(ptxpack *handle, const ptxpack_experts_combine_desc *desc,
                                                const ptxpack_variant         *row,
                                                ptxpack_experts_combine_plan **plan);
#endif
