/* tiled.h - many atoms as one: tiled matrix multiplies and tiled copies, and the part of each thread.
 *
 * A tiled MMA repeats an atom over more threads (the atom layout) and over more elements (the permutation
 * tiler).  For the layout of a matrix it computes which elements thread t holds:
 *
 *   ptxpack_layout    atoms = ptxpack_layout_parse("(4,1,1)");
 *   ptxpack_layout    tile = ptxpack_layout_parse("<64,16,16>");
 *   ptxpack_tiled_mma mma = ptxpack_make_tiled_mma(&atom, &atoms, &tile);      of SM80_16x8x16: 4 warps
 *   ptxpack_slice     q = ptxpack_mma_partition(&mma, PTXPACK_A, t, &q_layout);
 *       element (v,m,k) of thread t is at q.offset + q.layout(v,m,k)
 *
 * A tiled copy does the same for the source and the destination of a copy.  A tiled copy that is made from a
 * tiled MMA gives the elements to the threads that multiply them.  `retile` gives the same slice in the copy's
 * own order.
 *
 * Values, errors and the form of results are those of layout.h.  Values that are made from a tiled MMA or copy
 * with an error have its status.  A slice of a layout with a swizzle keeps its start in the layout's own
 * offset; or, where its bits do not meet under the swizzle, it is a plain layout, in which those bits are modes of their
 * own, because their strides depend on the thread.
 *
 * Threads  There is no shared state. */
#ifndef PTXPACK_TILED_H
#define PTXPACK_TILED_H
#include "atom.h"
#include "copy_atom.h"
#include "host/layout/layout.h"
#ifdef __cplusplus
extern "C" {
#endif

/* ---- tiled MMA ------------------------------------------------------------------------------------- */
/* A is M x K, B is N x K, C (and D) M x N: two of the three modes of MNK each. */
typedef enum ptxpack_operand { PTXPACK_A, PTXPACK_B, PTXPACK_C } ptxpack_operand;

typedef struct ptxpack_tiled_mma {
    ptxpack_status   status;
    ptxpack_mma_atom atom;
    ptxpack_layout   thr_layout_vmnk; /* (thread of the atom, atom in M, in N, in K) -> thread */
    ptxpack_layout   permutation_mnk; /* <M,N,K>, with `_` where none was given */
    ptxpack_tuple    tile_size_mnk;   /* (M,N,K) that the threads cover in one round */
} ptxpack_tiled_mma;

/* `atom_layout` is the number of atoms along M, N and K, and the order of their threads.  Missing modes become
 * 1:0, and NULL means one atom.  `permutation` is a tiler of at most three modes, each an extent, a layout or
 * `_`; NULL and `_` mean the extent of the atom times the number of atoms. */
PTXPACK_API ptxpack_tiled_mma ptxpack_make_tiled_mma(const ptxpack_mma_atom *atom,
                                                     const ptxpack_layout   *atom_layout,
                                                     const ptxpack_layout   *permutation);
PTXPACK_API int64_t           ptxpack_mma_threads(const ptxpack_tiled_mma *mma); /* 0 of an error */
/* The permutation of mode 0, 1 or 2 (M, N, K) as a layout; for `_` with the extent n it is n:1. */
PTXPACK_API ptxpack_layout ptxpack_mma_permutation(const ptxpack_tiled_mma *mma, int mode);
/* The layout of an operand, shape (X,Y,...), as ((ThrV,(ThrX,ThrY)),(FrgV,(RestX,RestY,...))).  X and Y are
 * multiples of the tile's extents; others are an error (CuTe rounds up, and leaves the tensor). */
PTXPACK_API ptxpack_layout ptxpack_mma_thrfrg(const ptxpack_tiled_mma *mma, ptxpack_operand operand,
                                              const ptxpack_layout *tensor);
/* The coordinate of a thread in the first mode of thrfrg, (v,(x,y)), and in thr_layout_vmnk, (v,m,n,k).  A
 * thread that does not take part is an error. */
PTXPACK_API ptxpack_tuple ptxpack_mma_thread(const ptxpack_tiled_mma *mma, ptxpack_operand operand,
                                             int64_t thread);
PTXPACK_API ptxpack_tuple ptxpack_mma_thread_vmnk(const ptxpack_tiled_mma *mma, int64_t thread);
/* The part of the operand that a thread holds, (FrgV,RestX,RestY,...), and its shape, which is the same for all
 * threads. */
PTXPACK_API ptxpack_slice ptxpack_mma_partition(const ptxpack_tiled_mma *mma, ptxpack_operand operand,
                                                int64_t thread, const ptxpack_layout *tensor);
PTXPACK_API ptxpack_tuple ptxpack_mma_partition_shape(const ptxpack_tiled_mma *mma, ptxpack_operand operand,
                                                      const ptxpack_tuple *shape);
/* The layout of the registers that hold a partition: for A and B in the partition's order, for C compact.  For
 * an operand in shared memory it is the layout of its descriptors, in units of 16 bytes.  Tensor memory is an
 * error. */
PTXPACK_API ptxpack_layout ptxpack_mma_fragment(const ptxpack_tiled_mma *mma, ptxpack_operand operand,
                                                const ptxpack_layout *partition);
/* The same for what a thread holds of a tensor, whichever thread it is: CuTe's partition_fragment_A, _B, _C.  The
 * registers come in the order of the tensor's strides, but after them those along strides of a swizzled tensor that
 * depend on the thread; CuTe knows these only when it runs. */
PTXPACK_API ptxpack_layout ptxpack_mma_partition_fragment(const ptxpack_tiled_mma *mma, ptxpack_operand operand,
                                                          const ptxpack_layout *tensor);
/* (thread, value) -> element of the tile, first mode fastest: CuTe's get_layoutA_TV and so on.  Threads that
 * differ only in the mode that the operand lacks have the same elements; for C that mode is K. */
PTXPACK_API ptxpack_layout ptxpack_mma_layout_tv(const ptxpack_tiled_mma *mma, ptxpack_operand operand);

/* ---- tiled copy ------------------------------------------------------------------------------------ */
typedef enum ptxpack_side { PTXPACK_SRC, PTXPACK_DST } ptxpack_side;

typedef struct ptxpack_tiled_copy {
    ptxpack_status    status;
    ptxpack_copy_atom atom;
    int64_t           value_bits;
    ptxpack_layout    src, dst, ref; /* the atom's (thread, value) -> value */
    ptxpack_layout    layout_tv;     /* (thread, value) -> element of the tile, in the order of `ref` */
    ptxpack_layout    tiler;         /* <M,N,...>: the elements that make up one tile */
    /* A permutation of the tiled MMA takes the atoms of a thread in another order than that of the tile.  Then
     * retile is an error. */
    bool out_of_order;
} ptxpack_tiled_copy;

/* Make a tiled copy from the threads and the values of each thread in the tile: (m,n) -> thread and (m,n) ->
 * value.  `values` NULL means one value. */
PTXPACK_API ptxpack_tiled_copy ptxpack_make_tiled_copy(const ptxpack_copy_atom *atom, int64_t value_bits,
                                                       const ptxpack_layout *threads,
                                                       const ptxpack_layout *values);
/* Make it from the layout itself: CuTe's make_tiled_copy_impl. */
PTXPACK_API ptxpack_tiled_copy ptxpack_make_tiled_copy_tv(const ptxpack_copy_atom *atom, int64_t value_bits,
                                                          const ptxpack_layout *layout_tv,
                                                          const ptxpack_layout *tiler);
/* Make a copy to or from the elements that the threads of a tiled MMA hold: CuTe's make_tiled_copy_A, _B, _C.
 * Make the smallest copy that can retile C: make_tiled_copy_C_atom.  Make a copy that matches another copy:
 * make_tiled_copy_S, _D. */
PTXPACK_API ptxpack_tiled_copy ptxpack_make_tiled_copy_mma(const ptxpack_copy_atom *atom, int64_t value_bits,
                                                           const ptxpack_tiled_mma *mma,
                                                           ptxpack_operand          operand);
PTXPACK_API ptxpack_tiled_copy ptxpack_make_tiled_copy_c_atom(const ptxpack_copy_atom *atom, int64_t value_bits,
                                                              const ptxpack_tiled_mma *mma);
PTXPACK_API ptxpack_tiled_copy ptxpack_make_tiled_copy_like(const ptxpack_copy_atom *atom, int64_t value_bits,
                                                            const ptxpack_tiled_copy *copy, ptxpack_side side);
/* Make it from offsets: (thread, value) -> offset.  They must be offsets of `data`. */
PTXPACK_API ptxpack_tiled_copy ptxpack_make_cotiled_copy(const ptxpack_copy_atom *atom, int64_t value_bits,
                                                         const ptxpack_layout *atom_tv,
                                                         const ptxpack_layout *data);
PTXPACK_API int64_t            ptxpack_copy_threads(const ptxpack_tiled_copy *copy); /* 0 of an error */
/* The layout of a tensor, shape (M,N,...), as (Thr,(FrgV,FrgX),(RestM,RestN,...)).  Its extents are multiples
 * of those of the tiler. */
PTXPACK_API ptxpack_layout ptxpack_copy_tidfrg(const ptxpack_tiled_copy *copy, ptxpack_side side,
                                               const ptxpack_layout *tensor);
/* The part of the tensor that a thread reads or writes: ((FrgV,FrgX),RestM,RestN,...). */
PTXPACK_API ptxpack_slice ptxpack_copy_partition(const ptxpack_tiled_copy *copy, ptxpack_side side,
                                                 int64_t thread, const ptxpack_layout *tensor);
/* The layout (V,M,N,...) of one thread, as a tiled MMA or another copy has partitioned it, in the order of this
 * copy.  The first values of V are those that this copy moves first. */
PTXPACK_API ptxpack_layout ptxpack_copy_retile(const ptxpack_tiled_copy *copy, const ptxpack_layout *fragment);
/* (thread, value) -> element of the tile: CuTe's get_layoutS_TV, get_layoutD_TV. */
PTXPACK_API ptxpack_layout ptxpack_copy_layout_tv(const ptxpack_tiled_copy *copy, ptxpack_side side);
#ifdef __cplusplus
}
#endif
#endif
