/* missing.c - what stands in for a copy atom, a tiled MMA or a tiled copy that is NULL: a value with an error. */
#include "host/layout/notation.h"
#include "tiled_internal.h"

#define NO_LAYOUT                                                                \
    {                                                                            \
        .shape = {.status = PTXPACK_E_ARG}, .stride = {.status = PTXPACK_E_ARG } \
    }

const ptxpack_copy_atom *copy_atom_missing(const char *call, const char *operand)
{
    static const ptxpack_copy_atom none = {.thr_id = NO_LAYOUT,
                                           .src = NO_LAYOUT,
                                           .dst = NO_LAYOUT,
                                           .ref = NO_LAYOUT};
    operand_missing(call, operand);
    return &none;
}

const ptxpack_tiled_mma *tiled_mma_missing(const char *call, const char *operand)
{
    static const ptxpack_tiled_mma none = {.status = PTXPACK_E_ARG,
                                           .thr_layout_vmnk = NO_LAYOUT,
                                           .permutation_mnk = NO_LAYOUT,
                                           .tile_size_mnk = {.status = PTXPACK_E_ARG}};
    operand_missing(call, operand);
    return &none;
}

const ptxpack_tiled_copy *tiled_copy_missing(const char *call, const char *operand)
{
    static const ptxpack_tiled_copy none = {.status = PTXPACK_E_ARG,
                                            .src = NO_LAYOUT,
                                            .dst = NO_LAYOUT,
                                            .ref = NO_LAYOUT,
                                            .layout_tv = NO_LAYOUT,
                                            .tiler = NO_LAYOUT};
    operand_missing(call, operand);
    return &none;
}
