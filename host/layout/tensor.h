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
#include <stdio.h>
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

/* ---- printing: CuTe's print and print_tensor --------------------------------------------------------- */
/* How the bits of an element are read. */
typedef enum ptxpack_number {
    PTXPACK_NUMBER_INT, /* two's complement; of 1 to 64 bits, as the next one */
    PTXPACK_NUMBER_UINT,
    PTXPACK_NUMBER_FLOAT, /* IEEE 754 of 16, 32 or 64 bits */
    PTXPACK_NUMBER_BF16,
    PTXPACK_NUMBER_TF32, /* 32 bits, of which the low 13 are ignored */
    PTXPACK_NUMBER_E4M3,
    PTXPACK_NUMBER_E5M2,
    PTXPACK_NUMBER_E3M2,
    PTXPACK_NUMBER_E2M3,
    PTXPACK_NUMBER_E2M1
} ptxpack_number;

/* Where memory is. */
typedef enum ptxpack_space {
    PTXPACK_SPACE_ANY, /* the address decides */
    PTXPACK_SPACE_REGISTERS,
    PTXPACK_SPACE_SHARED,
    PTXPACK_SPACE_GLOBAL
} ptxpack_space;

/* What stands behind the addresses of a tensor: CuTe's engine.  Initialise it with zeros and set `size`; the zeros mean
 * memory without a name, in which element i after address 0 holds the integer i. */
typedef struct ptxpack_engine {
    size_t size; /* sizeof(ptxpack_engine) */
    /* Elements are how far they are from `base`, in units of the tensor's own bits, and there is no memory: CuTe's
     * counting_iterator. */
    bool            counting;
    ptxpack_space   space; /* rmem_, smem_ or gmem_ before a pointer; nothing where the address decides */
    ptxpack_number  number;
    ptxpack_swizzle swizzle; /* of the byte addresses: CuTe's swizzle_ptr; of 0 bits: none */
    /* The bytes from address `base` on, little-endian; owned by the caller.  Without memory (NULL) element i after `base`
     * holds the integer i as `iota_number` of `iota_bits` bits; 0 bits: as the tensor's own elements. */
    const void    *memory;
    uint64_t       base, bytes;
    ptxpack_number iota_number;
    int            iota_bits;
} ptxpack_engine;

/* The line that CuTe's print writes of a tensor, without the `_` of static integers:
 *   gmem_ptr[32b](0x7f2a00000020) o (2,2):(1,4)      counting_iter(8) o (2,2):(1,4)
 *   ArithTuple(2,0) o (2,2):(1@0,1@1)                subptr[4b](0x1000.4) o 8:1
 * Returns the length; the text is cut at `cap`, as snprintf does.  `text` may be NULL.  Of an error: "error".  A tensor of
 * coordinates needs no engine. */
PTXPACK_API size_t ptxpack_tensor_text(const ptxpack_tensor *t, const ptxpack_engine *engine, char *text,
                                       size_t cap);
/* That line with a colon, and the elements, byte for byte as CuTe's print_tensor writes them: one a line of rank 1, a row a
 * line of rank 2, of rank 3 and 4 matrices between lines of `-` and `=`.  Of a higher rank there is only the first line, as
 * in CuTe.  Everything is checked before anything is written.
 *   PTXPACK_E_ARG   an element lies outside of the engine's memory or of 64 bits, or has bits that its number cannot
 *                   have; a tensor of memory without an engine; ptxpack_detail(NULL) has a line
 * A failed write is seen in ferror(f). */
PTXPACK_API ptxpack_status ptxpack_print_tensor(FILE *f, const ptxpack_tensor *t, const ptxpack_engine *engine);
/* The same into a buffer, which snprintf's rules hold for; *length, which may be NULL, is the length of the whole text. */
PTXPACK_API ptxpack_status ptxpack_print_tensor_text(const ptxpack_tensor *t, const ptxpack_engine *engine,
                                                     char *text, size_t cap, size_t *length);
/* The text of one element as CuTe's print writes it, into `text`; the same errors. */
PTXPACK_API ptxpack_status ptxpack_print_element(const ptxpack_tensor *t, const ptxpack_engine *engine,
                                                 const ptxpack_tuple *coord, char *text, size_t cap);
#ifdef __cplusplus
}
#endif
#endif
