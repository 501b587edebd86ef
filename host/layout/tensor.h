/* tensor.h - tensors: an address in memory, or a coordinate, and a layout that starts there.
 *
 * To index the same elements in another way, change the layout:
 *   ptxpack_layout tiled = ptxpack_zipped_divide(&t.layout, &tiler);
 *   ptxpack_tensor view = ptxpack_tensor_view(&t, &tiled);
 *
 * Values   Tensors are plain structs, as in layout.h, and the rules for errors are the same:
 *          `layout.shape.status` is the status of a tensor.
 * Bits     An element may have any number of bits.  If that is a power of two, the start of a tensor is aligned
 *          to its element, at most to 16 bytes.  Elements smaller than a byte are counted within the byte, from
 *          its lowest bits on. */
#ifndef PTXPACK_TENSOR_H
#define PTXPACK_TENSOR_H
#include "layout.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct ptxpack_tensor {
    ptxpack_layout layout;
    /* The address of the byte with the first bit of element 0 of the layout: a pointer's value, or an offset
     * such as the place in shared memory. */
    uint64_t      address;
    int           bit;    /* the first bit of that element in its byte: 0 to 7 */
    int           bits;   /* of an element; 0: a tensor of coordinates, not of memory */
    ptxpack_tuple origin; /* of a tensor of coordinates: the coordinate where it starts */
} ptxpack_tensor;

PTXPACK_API ptxpack_tensor ptxpack_make_tensor(uint64_t address, int bits, const ptxpack_layout *l);
/* The elements are the coordinates that l, which has basis strides, gives.  For the identity tensor these are
 * the coordinates of `shape` itself. */
PTXPACK_API ptxpack_tensor ptxpack_make_coord_tensor(const ptxpack_layout *l);
PTXPACK_API ptxpack_tensor ptxpack_make_identity_tensor(const ptxpack_tuple *shape);

/* The same start under another layout. */
PTXPACK_API ptxpack_tensor ptxpack_tensor_view(const ptxpack_tensor *t, const ptxpack_layout *l);
/* The modes that meet `_` in coord, from the element to which the integers of coord point. */
PTXPACK_API ptxpack_tensor ptxpack_tensor_slice(const ptxpack_tuple *coord, const ptxpack_tensor *t);
PTXPACK_API ptxpack_tensor ptxpack_tensor_domain_offset(const ptxpack_tuple *coord, const ptxpack_tensor *t);
/* The same memory in elements of `bits` bits. */
PTXPACK_API ptxpack_tensor ptxpack_tensor_recast(const ptxpack_tensor *t, int bits);

/* Divide t into tiles.  inner keeps the one tile at `coord`; outer keeps the element at `coord` of each tile.
 * An integer coord counts through the tiles; a tuple may be shorter than their rank and may hold `_`. */
PTXPACK_API ptxpack_tensor ptxpack_inner_partition(const ptxpack_tensor *t, const ptxpack_layout *tiler,
                                                   const ptxpack_tuple *coord);
PTXPACK_API ptxpack_tensor ptxpack_outer_partition(const ptxpack_tensor *t, const ptxpack_layout *tiler,
                                                   const ptxpack_tuple *coord);
/* The tile of a block.  With a projection such as (1,_,1), only those modes of tiler and coord are used that
 * meet an integer in it; NULL means all modes. */
PTXPACK_API ptxpack_tensor ptxpack_local_tile(const ptxpack_tensor *t, const ptxpack_layout *tiler,
                                              const ptxpack_tuple *coord, const ptxpack_tuple *projection);
/* The elements of a thread, if `threads`, coordinate -> index, is repeated over all of t.  An index that no
 * thread has is an error. */
PTXPACK_API ptxpack_tensor ptxpack_local_partition(const ptxpack_tensor *t, const ptxpack_layout *threads,
                                                   int64_t index, const ptxpack_tuple *projection);

/* The address where an element begins.  The coordinate may lie outside of the shape.
 *   PTXPACK_E_ARG   the address exceeds 64 bits or is not at the start of a byte (use
 *                   ptxpack_tensor_bit_address), or the tensor is not one of memory; ptxpack_detail(NULL) has a
 *                   line */
PTXPACK_API ptxpack_status ptxpack_tensor_address(const ptxpack_tensor *t, const ptxpack_tuple *coord,
                                                  uint64_t *address);
PTXPACK_API ptxpack_status ptxpack_tensor_bit_address(const ptxpack_tensor *t, const ptxpack_tuple *coord,
                                                      uint64_t *address, int *bit);
/* The element of a tensor of coordinates. */
PTXPACK_API ptxpack_tuple ptxpack_tensor_coord(const ptxpack_tensor *t, const ptxpack_tuple *coord);
#ifdef __cplusplus
}
#endif
#endif
