/* tiled_internal.h - private: small tilers and coordinates that tiled MMAs and tiled copies are made with. */
#ifndef PTXPACK_TILED_INTERNAL_H
#define PTXPACK_TILED_INTERNAL_H
#include "tiled.h"

ptxpack_layout tile_of(int64_t extent); /* n, as a mode of a tiler   */
ptxpack_layout tile_whole(void);        /* `_`, as a mode of a tiler */
ptxpack_layout tiler_pair(const ptxpack_layout *a, const ptxpack_layout *b); /* <a,b> */
ptxpack_tuple  pair_of(const ptxpack_tuple *a, const ptxpack_tuple *b);      /* (a,b) */
ptxpack_tuple  pair_of_ints(int64_t a, int64_t b);
/* Does each mode of the tensor hold whole tiles?  If not: what says so, for the caller named `who`. */
ptxpack_status tiles_fit(const char *who, const ptxpack_layout *tensor, const ptxpack_tuple *tile);
/* Do the atoms of a thread come in the order of the tile? */
bool atoms_in_order(const ptxpack_tiled_mma *mma, ptxpack_operand operand);
/* Does the layout take its coordinates to 0 .. size - 1, each once? */
bool is_numbering(const ptxpack_layout *l);
#endif
