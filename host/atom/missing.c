/* missing.c - what stands in for a copy atom, a tiled MMA or a tiled copy that is NULL: a value with an error.  They are
 * large and hardly ever needed, so they are filled at the first need and take no room in the library's file. */
#include <pthread.h>
#include "host/layout/notation.h"
#include "tiled_internal.h"

static ptxpack_copy_atom  no_copy_atom;
static ptxpack_tiled_mma  no_tiled_mma;
static ptxpack_tiled_copy no_tiled_copy;

static void fill(void)
{
    static const ptxpack_layout none = {.shape = {.status = PTXPACK_E_ARG},
                                        .stride = {.status = PTXPACK_E_ARG}};
    no_copy_atom.thr_id = no_copy_atom.src = no_copy_atom.dst = no_copy_atom.ref = none;
    no_tiled_mma.status = no_tiled_mma.tile_size_mnk.status = PTXPACK_E_ARG;
    no_tiled_mma.thr_layout_vmnk = no_tiled_mma.permutation_mnk = none;
    no_tiled_copy.status = PTXPACK_E_ARG;
    no_tiled_copy.src = no_tiled_copy.dst = no_tiled_copy.ref = none;
    no_tiled_copy.layout_tv = no_tiled_copy.tiler = none;
}

static void missing(const char *call, const char *operand)
{
    static pthread_once_t filled = PTHREAD_ONCE_INIT;
    pthread_once(&filled, fill);
    operand_missing(call, operand);
}

const ptxpack_copy_atom *copy_atom_missing(const char *call, const char *operand)
{
    missing(call, operand);
    return &no_copy_atom;
}

const ptxpack_tiled_mma *tiled_mma_missing(const char *call, const char *operand)
{
    missing(call, operand);
    return &no_tiled_mma;
}

const ptxpack_tiled_copy *tiled_copy_missing(const char *call, const char *operand)
{
    missing(call, operand);
    return &no_tiled_copy;
}
