/* tensor_map.h - the 128 bytes that describe a tensor to cp.async.bulk.tensor, and the rows of a box.
 *
 * The format of the bytes is this emulator's own.  It has a mark and a checksum, so that other bytes are
 * recognised.  Pure functions; numbers are those of CUtensorMapDataType and the other enumerations of cuda.h.
 *
 * As on an H200: rows that are shorter than the swizzle's span begin one span apart; element_strides[0] is
 * ignored; a box has ceil(box / element stride) elements of a dimension; the first coordinate must begin at a
 * multiple of 16 bytes; loads round tf32 to nearest even, and convert nothing else. */
#ifndef EMU_TENSOR_MAP_H
#define EMU_TENSOR_MAP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EMU_TENSOR_RANK = 5, EMU_TENSOR_MAP_BYTES = 128 };

struct emu_tensor_map {
    uint32_t type, rank, element_bytes, swizzle, fill;
    uint64_t address;
    uint64_t dim[EMU_TENSOR_RANK];
    uint64_t stride[EMU_TENSOR_RANK]; /* bytes; stride[0] is element_bytes                     */
    uint32_t step[EMU_TENSOR_RANK];   /* elements of the tensor between two of the box; [0] is 1 */
    uint32_t count[EMU_TENSOR_RANK];  /* elements of the box: how many arrive in shared memory   */
    uint32_t rows, row_bytes;         /* of the box; a row runs along dimension 0              */
    uint32_t pitch;                   /* bytes from row to row in shared memory                */
};

/* cuTensorMapEncodeTiled.  Returns a CUresult: 0; 1 (invalid value) by the driver's limits for an H200; 801 for
 * interleaved layouts.  dims[rank]; strides[rank - 1] in bytes, of the dimensions from 1 on; box[rank];
 * element_strides[rank]. */
unsigned int emu_tensor_map_encode(void *map128, uint32_t data_type, uint32_t rank, uint64_t address,
                                   const uint64_t *dims, const uint64_t *strides, const uint32_t *box,
                                   const uint32_t *element_strides, uint32_t interleave, uint32_t swizzle,
                                   uint32_t l2, uint32_t oob_fill);
/* cuTensorMapReplaceAddress.  Returns 0 or 1. */
unsigned int emu_tensor_map_replace_address(void *map128, uint64_t address);
/* tensormap.replace: the fields by their numbers there. */
enum emu_tensor_field {
    EMU_TENSOR_GLOBAL_ADDRESS,
    EMU_TENSOR_LAST_DIM, /* .rank: the rank less 1 */
    EMU_TENSOR_BOX_DIM,
    EMU_TENSOR_GLOBAL_DIM,
    EMU_TENSOR_GLOBAL_STRIDE, /* bytes; ordinal 0 is that of dimension 1 */
    EMU_TENSOR_ELEMENT_STRIDE,
    EMU_TENSOR_ELEMTYPE,
    EMU_TENSOR_INTERLEAVE,
    EMU_TENSOR_SWIZZLE,
    EMU_TENSOR_FILL,
    EMU_TENSOR_ATOMICITY
};
/* False: the bytes are no map, or the value is not supported; *why has the reason.  What does not go together with
 * other fields is found when the map is used. */
bool emu_tensor_map_replace(void *map128, enum emu_tensor_field field, uint32_t ordinal, uint64_t value,
                            const char **why);
/* False: these bytes are not a map; *why has the reason. */
bool emu_tensor_map_read(const void *map128, struct emu_tensor_map *out, const char **why);

/* A row of the box whose first element has these coordinates. */
struct emu_tensor_row {
    uint64_t global;         /* address of its first byte that lies within the tensor   */
    uint32_t shared;         /* offset in the box before swizzling                      */
    uint32_t before, inside; /* bytes beyond the tensor at its front, and within it; the rest is beyond */
};
void emu_tensor_row_at(const struct emu_tensor_map *map, const int32_t coordinate[EMU_TENSOR_RANK],
                       uint32_t row, struct emu_tensor_row *out);
/* The shared address of a byte after swizzling, which permutes 16-byte units within 128 bytes. */
uint32_t emu_tensor_swizzle(uint32_t address, uint32_t swizzle);
/* The bits that fill places beyond the tensor: for all floating-point types the same 16 bits repeated. */
uint64_t    emu_tensor_fill(const struct emu_tensor_map *map);
const char *emu_tensor_type_name(uint32_t type);
#endif
