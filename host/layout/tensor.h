/* tensor.h - tensors: a place in memory, or a coordinate, and a layout that counts from there.
 *
 * Everything that only changes how the same elements are indexed is done on the layout:
 *   ptxpack_layout tiled = ptxpack_zipped_divide(&t.layout, &tiler);
 *   ptxpack_tensor view = ptxpack_tensor_view(&t, &tiled);
 *
 * Values   plain structs, as in layout.h, and with the same rules for errors: `layout.shape.status` is a
 *          tensor's status.
 * Bits     elements have any number of bits.  Where they are a power of two, a tensor starts at a multiple of
 *          its element, of 16 bytes at most; smaller ones than a byte are counted within it, the lowest bits
 *          first. */
#ifndef PTXPACK_TENSOR_H
#define PTXPACK_TENSOR_H
#include "layout.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct ptxpack_tensor {
    ptxpack_layout layout;
    uint64_t       address; /* of the byte with the first bit of element 0 of the layout: a pointer's value,
                               or an offset such as the place in shared memory                            */
    int            bit;     /* the first bit of that element in its byte: 0 to 7                          */
    int            bits;    /* of an element; 0: a tensor of coordinates, not of memory                   */
    ptxpack_tuple  origin;  /* of a tensor of coordinates: the coordinate where it starts                 */
} ptxpack_tensor;

PTXPACK_API ptxpack_tensor ptxpack_make_tensor(uint64_t address, int bits, const ptxpack_layout *l);
/* The elements are the coordinates that l, which has basis strides, gives; identity: of `shape` itself. */
PTXPACK_API ptxpack_tensor ptxpack_make_coord_tensor(const ptxpack_layout *l);
PTXPACK_API ptxpack_tensor ptxpack_make_identity_tensor(const ptxpack_tuple *shape);

/* The same start under another layout. */
PTXPACK_API ptxpack_tensor ptxpack_tensor_view(const ptxpack_tensor *t, const ptxpack_layout *l);
/* The modes that meet `_`, starting where the integers of coord point. */
PTXPACK_API ptxpack_tensor ptxpack_tensor_slice(const ptxpack_tuple *coord, const ptxpack_tensor *t);
PTXPACK_API ptxpack_tensor ptxpack_tensor_domain_offset(const ptxpack_tuple *coord, const ptxpack_tensor *t);
/* The same memory in elements of `bits` bits. */
PTXPACK_API ptxpack_tensor ptxpack_tensor_recast(const ptxpack_tensor *t, int bits);

/* t in tiles: inner keeps one tile, that of `coord`; outer keeps of each tile the element `coord`.  An
 * integer coord counts through the tiles; a tuple may be shorter than their rank and hold `_`. */
PTXPACK_API ptxpack_tensor ptxpack_inner_partition(const ptxpack_tensor *t, const ptxpack_layout *tiler,
                                                   const ptxpack_tuple *coord);
PTXPACK_API ptxpack_tensor ptxpack_outer_partition(const ptxpack_tensor *t, const ptxpack_layout *tiler,
                                                   const ptxpack_tuple *coord);
/* A block's tile.  With a projection, (1,_,1), only those modes of tiler and coord count that meet an
 * integer in it; NULL: all. */
PTXPACK_API ptxpack_tensor ptxpack_local_tile(const ptxpack_tensor *t, const ptxpack_layout *tiler,
                                              const ptxpack_tuple *coord, const ptxpack_tuple *projection);
/* A thread's elements, when `threads`, coordinate -> index, is repeated all over t.  An index that no thread
 * has is an error. */
PTXPACK_API ptxpack_tensor ptxpack_local_partition(const ptxpack_tensor *t, const ptxpack_layout *threads,
                                                   int64_t index, const ptxpack_tuple *projection);

/* Where an element begins.  PTXPACK_E_ARG, with a line in ptxpack_detail(NULL): outside of 64 bits, not at
 * the start of a byte (use ptxpack_tensor_bit_address), or no tensor of memory.  The coordinate itself
 * may lie outside of the shape. */
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
