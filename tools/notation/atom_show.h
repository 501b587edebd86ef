/* atom_show.h - how "ptxpack atom" describes an atom, a tiled MMA and a descriptor, in lines or JSON members. */
#ifndef PTXPACK_ATOM_SHOW_H
#define PTXPACK_ATOM_SHOW_H
#include <stdbool.h>
#include "host/atom/atom.h"
#include "host/atom/banks.h"
#include "host/atom/copy_atom.h"
#include "host/atom/tiled.h"
#include "host/atom/wgmma.h"

void atom_show_mma(const ptxpack_mma_atom *x, bool json);
void atom_show_copy(const ptxpack_copy_atom *x, bool json);
/* What a thread of a tiled MMA has of a tensor. */
typedef struct atom_mma_part {
    ptxpack_operand operand;
    int64_t         thread;
    ptxpack_slice   partition;
    ptxpack_layout  fragment;
} atom_mma_part;

/* A tiled copy, and what a thread of it has of a tensor.  Arrays are indexed by ptxpack_side. */
typedef struct atom_copy_part {
    ptxpack_tiled_copy copy;
    ptxpack_layout     tv[2];
    bool               threads; /* a thread is shown */
    int64_t            thread;
    bool               tensor; /* the partitions are shown */
    ptxpack_slice      partition[2];
    ptxpack_slice      fragment; /* what is retiled; without items there is nothing */
    bool               of_mma;   /* it is the fragment of this operand */
    ptxpack_operand    operand;
    ptxpack_layout     retiled;
    bool               shared[2]; /* bank conflicts are shown */
    ptxpack_banks      banks[2];
    bool               free_swizzle[2]; /* `swizzle` leaves no conflict */
    ptxpack_swizzle    swizzle[2];
} atom_copy_part;

void atom_show_tiled_copy(const atom_copy_part *part, bool json);
/* These two report errors before they print anything; the message is in ptxpack_detail(NULL). */
/* `part` is NULL if there is no tensor. */
ptxpack_status atom_show_tiled(const ptxpack_tiled_mma *mma, const atom_mma_part *part, bool json);
ptxpack_status atom_show_descriptor(const ptxpack_layout *tile, ptxpack_wgmma_major major,
                                    ptxpack_value_type type, int64_t rows, bool json);
#endif
