/* op.h - private: gathering rows as an operation of the spine. */
#ifndef PTXPACK_GATHER_OP_H
#define PTXPACK_GATHER_OP_H
#include "args.h"
#include "gather.h"
#include "host/plan/memory.h"
#include "host/plan/plan.h"

typedef struct gather_geometry {
    memory_tensor table, y;
    uint64_t      ids_bytes;
} gather_geometry;

extern const plan_op gather_op; /* its descriptor is a ptxpack_gather_desc */

/* PTXPACK_E_ARG, with the line of the field */
ptxpack_status gather_resolve(const ptxpack_gather_desc *desc, gather_geometry *out, char line[PLAN_LINE]);
/* The same for the addresses of a launch. */
ptxpack_status gather_check(const gather_geometry *geometry, const ptxpack_gather_buffers *buffers,
                            char line[PLAN_LINE]);
/* ptxpack_gather_plan_create with the row given; NULL chooses. */
ptxpack_status ptxpack_gather_plan_row(ptxpack *handle, const ptxpack_gather_desc *desc,
                                       const ptxpack_variant *row, ptxpack_gather_plan **plan);
#endif
