/* atom_show.h - how "ptxpack atom" describes an atom, a tiled MMA and a descriptor, in lines or JSON members. */
#ifndef PTXPACK_ATOM_SHOW_H
#define PTXPACK_ATOM_SHOW_H
#include <stdbool.h>
#include "host/atom/atom.h"
#include "host/atom/copy_atom.h"
#include "host/atom/tiled.h"
#include "host/atom/wgmma.h"

void atom_show_mma(const ptxpack_mma_atom *x, bool json);
void atom_show_copy(const ptxpack_copy_atom *x, bool json);
/* These two report errors before they print anything; the message is in ptxpack_detail(NULL). */
ptxpack_status atom_show_tiled(const ptxpack_tiled_mma *mma, bool json);
ptxpack_status atom_show_descriptor(const ptxpack_layout *tile, ptxpack_wgmma_major major,
                                    ptxpack_value_type type, int64_t rows, bool json);
#endif
