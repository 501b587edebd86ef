/* tiled.h - many atoms as one: tiled matrix multiplies and tiled copies, and what each thread gets.
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
 * A tiled copy does the same for the source and the destination of a copy; one made from a tiled MMA hands
 * the elements to the threads that multiply them.  The same slice in the copy's own order is its `retile`.
 *
 * Values, errors, form of results as in layout.h; values made of a tiled MMA or copy with an
 * error have its status.  Slices of a layout with a swizzle have what was cut off in the layout's own offset.
 * Threads  no shared state. */
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
    ptxpack_layout   thr_layout_vmnk; /* (thread of the atom, atom in M, in N, in K) -> thread              */
    ptxpack_layout   permutation_mnk; /* <M,N,K>, with `_` where none was given                             */
    ptxpack_tuple    tile_size_mnk;   /* (M,N,K) that the threads cover in one round                        */
} ptxpack_tiled_mma;

/* atom_layout: how many atoms along M, N, K, and the order of their threads; fewer modes are filled up with
 * 1:0, NULL is one atom.  permutation: a tiler of at most three modes, each an extent, a layout or `_`; NULL
 * and `_` mean atom times atoms. */
PTXPACK_API ptxpack_tiled_mma ptxpack_make_tiled_mma(const ptxpack_mma_atom *atom,
                                                     const ptxpack_layout   *atom_layout,
                                                     const ptxpack_layout   *permutation);
PTXPACK_API int64_t           ptxpack_mma_threads(const ptxpack_tiled_mma *mma); /* 0 of an error */
/* What becomes of mode 0, 1 or 2 (M, N, K): a layout; `_` has become its extent n as n:1. */
PTXPACK_API ptxpack_layout ptxpack_mma_permutation(const ptxpack_tiled_mma *mma, int mode);
/* The layout of an operand, shape (X,Y,...), as ((ThrV,(ThrX,ThrY)),(FrgV,(RestX,RestY,...))).  X and Y are
 * multiples of the tile's extents; others are an error (CuTe rounds up, and leaves the tensor). */
PTXPACK_API ptxpack_layout ptxpack_mma_thrfrg(const ptxpack_tiled_mma *mma, ptxpack_operand operand,
                                              const ptxpack_layout *tensor);
/* Where a thread stands: in the first mode of thrfrg, (v,(x,y)), and in thr_layout_vmnk, (v,m,n,k).  A thread
 * that takes no part is an error. */
PTXPACK_API ptxpack_tuple ptxpack_mma_thread(const ptxpack_tiled_mma *mma, ptxpack_operand operand,
                                             int64_t thread);
PTXPACK_API ptxpack_tuple ptxpack_mma_thread_vmnk(const ptxpack_tiled_mma *mma, int64_t thread);
/* What a thread holds of the operand: (FrgV,RestX,RestY,...); its shape alone, which all threads share. */
PTXPACK_API ptxpack_slice ptxpack_mma_partition(const ptxpack_tiled_mma *mma, ptxpack_operand operand,
                                                int64_t thread, const ptxpack_layout *tensor);
PTXPACK_API ptxpack_tuple ptxpack_mma_partition_shape(const ptxpack_tiled_mma *mma, ptxpack_operand operand,
                                                      const ptxpack_tuple *shape);
/* The layout of the registers that take a partition: of A and B in the partition's order, of C compact.
 * Of an operand in shared memory that of its descriptors, in units of 16 bytes.  Tensor memory is an error. */
PTXPACK_API ptxpack_layout ptxpack_mma_fragment(const ptxpack_tiled_mma *mma, ptxpack_operand operand,
                                                const ptxpack_layout *partition);
/* (thread, value) -> element of the tile, first mode fastest; CuTe's get_layoutA_TV and so on.  Threads that
 * differ in the mode which the operand lacks have the same elements, also those along K of C. */
PTXPACK_API ptxpack_layout ptxpack_mma_layout_tv(const ptxpack_tiled_mma *mma, ptxpack_operand operand);

/* ---- tiled copy ------------------------------------------------------------------------------------ */
typedef enum ptxpack_side { PTXPACK_SRC, PTXPACK_DST } ptxpack_side;

typedef struct ptxpack_tiled_copy {
    ptxpack_status    status;
    ptxpack_copy_atom atom;
    int64_t           value_bits;
    ptxpack_layout    src, dst, ref; /* the atom's (thread, value) -> value                                 */
    ptxpack_layout    layout_tv;     /* (thread, value) -> element of the tile, in the order of `ref`       */
    ptxpack_layout    tiler;         /* <M,N,...>: the elements that make up one tile                       */
    bool              out_of_order;  /* a permutation of its tiled MMA takes a thread's atoms in another order
                                        than that of the tile: retile is an error                           */
} ptxpack_tiled_copy;

/* From the threads and the values of each thread as they lie in the tile: (m,n) -> thread, (m,n) -> value.
 * values NULL: one. */
PTXPACK_API ptxpack_tiled_copy ptxpack_make_tiled_copy(const ptxpack_copy_atom *atom, int64_t value_bits,
                                                       const ptxpack_layout *threads,
                                                       const ptxpack_layout *values);
/* From the layout itself; CuTe's make_tiled_copy_impl. */
PTXPACK_API ptxpack_tiled_copy ptxpack_make_tiled_copy_tv(const ptxpack_copy_atom *atom, int64_t value_bits,
                                                          const ptxpack_layout *layout_tv,
                                                          const ptxpack_layout *tiler);
/* To or from what the threads of a tiled MMA hold: make_tiled_copy_A, _B, _C; the smallest one that can
 * retile C: make_tiled_copy_C_atom; and the one that matches another copy: make_tiled_copy_S, _D. */
PTXPACK_API ptxpack_tiled_copy ptxpack_make_tiled_copy_mma(const ptxpack_copy_atom *atom, int64_t value_bits,
                                                           const ptxpack_tiled_mma *mma,
                                                           ptxpack_operand          operand);
PTXPACK_API ptxpack_tiled_copy ptxpack_make_tiled_copy_c_atom(const ptxpack_copy_atom *atom, int64_t value_bits,
                                                              const ptxpack_tiled_mma *mma);
PTXPACK_API ptxpack_tiled_copy ptxpack_make_tiled_copy_like(const ptxpack_copy_atom *atom, int64_t value_bits,
                                                            const ptxpack_tiled_copy *copy, ptxpack_side side);
/* From offsets: (thread, value) -> offset, which must be offsets of `data`. */
PTXPACK_API ptxpack_tiled_copy ptxpack_make_cotiled_copy(const ptxpack_copy_atom *atom, int64_t value_bits,
                                                         const ptxpack_layout *atom_tv,
                                                         const ptxpack_layout *data);
PTXPACK_API int64_t            ptxpack_copy_threads(const ptxpack_tiled_copy *copy); /* 0 of an error */
/* The layout of a tensor, shape (M,N,...), as (Thr,(FrgV,FrgX),(RestM,RestN,...)).  Its extents are multiples
 * of those of the tiler. */
PTXPACK_API ptxpack_layout ptxpack_copy_tidfrg(const ptxpack_tiled_copy *copy, ptxpack_side side,
                                               const ptxpack_layout *tensor);
/* What a thread reads or writes of it: ((FrgV,FrgX),RestM,RestN,...). */
PTXPACK_API ptxpack_slice ptxpack_copy_partition(const ptxpack_tiled_copy *copy, ptxpack_side side,
                                                 int64_t thread, const ptxpack_layout *tensor);
/* One thread's own layout (V,M,N,...), as a tiled MMA or another copy partitioned it, in this copy's order.
 * The first values of V are those that this copy takes first. */
PTXPACK_API ptxpack_layout ptxpack_copy_retile(const ptxpack_tiled_copy *copy, const ptxpack_layout *fragment);
/* (thread, value) -> element of the tile: CuTe's get_layoutS_TV, get_layoutD_TV. */
PTXPACK_API ptxpack_layout ptxpack_copy_layout_tv(const ptxpack_tiled_copy *copy, ptxpack_side side);
#ifdef __cplusplus
}
#endif
#endif
