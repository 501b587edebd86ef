/* atom_show.h - what "ptxpack atom" says about one atom, a tiled MMA, a descriptor: lines or JSON members. */
#ifndef PTXPACK_ATOM_SHOW_H
#define PTXPACK_ATOM_SHOW_H
#include <stdbool.h>
#include "host/atom/atom.h"
#include "host/atom/copy_atom.h"
#include "host/atom/tiled.h"
#include "host/atom/wgmma.h"

void atom_show_mma(const ptxpack_mma_atom *x, bool json);
void atom_show_copy(const ptxpack_copy_atom *x, bool json);
/* These two say no before anything is printed; the line is in ptxpack_detail(NULL). */
ptxpack_status atom_show_tiled(const ptxpack_tiled_mma *mma, bool json);
ptxpack_status atom_show_descriptor(const ptxpack_layout *tile, ptxpack_wgmma_major major,
                                    ptxpack_value_type type, int64_t rows, bool json);
#endif
