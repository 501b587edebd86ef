/* op.h - private: sampling as an operation of the spine. */
#ifndef PTXPACK_SAMPLING_OP_H
#define PTXPACK_SAMPLING_OP_H
#include "args.h"
#include "host/plan/memory.h"
#include "host/plan/plan.h"
#include "sampling.h"

typedef struct sampling_geometry {
    int64_t  stride; /* of logits, in elements */
    size_t   element_bytes;
    uint64_t logits_bytes, parameters_bytes, tokens_bytes;
} sampling_geometry;

extern const plan_op sampling_op; /* its descriptor is a ptxpack_sampling_desc */

/* PTXPACK_E_ARG, with the line of the field */
ptxpack_status sampling_resolve(const ptxpack_sampling_desc *desc, sampling_geometry *out,
                                char line[PLAN_LINE]);
/* The same for the addresses of a launch. */
ptxpack_status sampling_check(const sampling_geometry *geometry, const ptxpack_sampling_buffers *buffers,
                              char line[PLAN_LINE]);
/* Two words of Philox4x32-10, low word first. */
uint64_t sampling_random(uint64_t seed, uint64_t counter);
/* ptxpack_sampling_plan_create with the row given; NULL chooses. */
ptxpack_status ptxpack_sampling_plan_row(ptxpack *handle, const ptxpack_sampling_desc *desc,
                                         const ptxpack_variant *row, ptxpack_sampling_plan **plan);
#endif
