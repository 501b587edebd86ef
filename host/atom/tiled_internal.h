/* tiled_internal.h - private: what tiled MMAs and tiled copies share: small tilers and coordinates, and what
 * of a tiled MMA the copies for it need (tiled_mma.c), and operands that are NULL (missing.c). */
#ifndef PTXPACK_TILED_INTERNAL_H
#define PTXPACK_TILED_INTERNAL_H
#include "tiled.h"

/* GIVEN_LAYOUT (host/layout/notation.h) for the operands of this room. */
#define GIVEN_COPY_ATOM(atom)  ((atom) = (atom) != NULL ? (atom) : copy_atom_missing(__func__, #atom))
#define GIVEN_TILED_MMA(mma)   ((mma) = (mma) != NULL ? (mma) : tiled_mma_missing(__func__, #mma))
#define GIVEN_TILED_COPY(copy) ((copy) = (copy) != NULL ? (copy) : tiled_copy_missing(__func__, #copy))
const ptxpack_copy_atom  *copy_atom_missing(const char *call, const char *operand);
const ptxpack_tiled_mma  *tiled_mma_missing(const char *call, const char *operand);
const ptxpack_tiled_copy *tiled_copy_missing(const char *call, const char *operand);

ptxpack_layout tile_of(int64_t extent);                                      /* n, as a mode of a tiler */
ptxpack_layout tile_whole(void);                                             /* `_`, as a mode of a tiler */
ptxpack_layout tiler_pair(const ptxpack_layout *a, const ptxpack_layout *b); /* <a,b> */
ptxpack_tuple  pair_of(const ptxpack_tuple *a, const ptxpack_tuple *b);      /* (a,b) */
ptxpack_tuple  pair_of_ints(int64_t a, int64_t b);
/* Does each mode of the tensor hold whole tiles?  If not: what says so, for the caller named `who`. */
ptxpack_status tiles_fit(const char *who, const ptxpack_layout *tensor, const ptxpack_tuple *tile);
/* ptxpack_mma_thrfrg of the compact tile; ptxpack_mma_layout_tv made of that; and: do a thread's atoms come
 * in the order of the tile there? */
ptxpack_layout mma_tile_thrfrg(const ptxpack_tiled_mma *mma, ptxpack_operand operand);
ptxpack_layout mma_tile_tv(const ptxpack_tiled_mma *mma, ptxpack_operand operand, const ptxpack_layout *thrfrg);
bool           atoms_in_order(const ptxpack_layout *thrfrg);
/* Does the layout take its coordinates to 0 .. size - 1, each once? */
bool is_numbering(const ptxpack_layout *l);
#endif
