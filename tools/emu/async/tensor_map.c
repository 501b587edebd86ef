/* tensor_map.c - encoding and reading tensor maps; the rows of a box. */
#include "tensor_map.h"

#include <string.h>

enum {
    TYPE_COUNT = 13,
    BOX_LIMIT = 256,
    STEP_LIMIT = 8,
    STRIDE_BITS = 40,
    DIM_BITS = 32,
    ALIGN = 16,
    FIRST_FLOAT = 6,
    BYTES_LIMIT = 228 << 10 /* of a box: the shared memory of a multiprocessor */
};
static const uint64_t MARK = 0x31504d54554d4547ull;

static const struct {
    const char *name;
    uint32_t    bytes;
} types[TYPE_COUNT] = {
    {"u8", 1},  {"u16", 2}, {"u32", 4},  {"s32", 4}, {"u64", 8},  {"s64", 8},  {"f16", 2},
    {"f32", 4}, {"f64", 8}, {"bf16", 2}, {"f32", 4}, {"tf32", 4}, {"tf32", 4},
};

/* ---- the bytes ------------------------------------------------------------------------------------ */
struct image {
    uint64_t mark, address;
    uint64_t stride[EMU_TENSOR_RANK - 1];
    uint32_t last[EMU_TENSOR_RANK]; /* extents, less 1 */
    uint8_t  box[EMU_TENSOR_RANK];  /* likewise        */
    uint8_t  step[EMU_TENSOR_RANK];
    uint8_t  type, rank, swizzle, l2, fill, zero;
    uint32_t unused[9];
    uint64_t check;
};
_Static_assert(sizeof(struct image) == EMU_TENSOR_MAP_BYTES, "a CUtensorMap has 128 bytes");

static uint64_t checksum(const struct image *image)
{
    const unsigned char *bytes = (const unsigned char *)image;
    uint64_t             hash = 0xcbf29ce484222325ull;
    for (size_t i = 0; i < offsetof(struct image, check); i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3ull;
    return hash;
}

static bool tensor_fits(uint32_t rank, uint64_t address, const uint64_t *dims, const uint64_t *strides)
{
    if (address % ALIGN)
        return false;
    for (uint32_t i = 0; i < rank; i++)
        if (dims[i] == 0 || dims[i] > 1ull << DIM_BITS)
            return false;
    for (uint32_t i = 0; i + 1 < rank; i++)
        if (strides[i] % ALIGN || strides[i] >> STRIDE_BITS)
            return false;
    return true;
}

static bool box_fits(uint32_t rank, uint32_t element_bytes, const uint32_t *box, const uint32_t *steps,
                     uint32_t swizzle)
{
    uint64_t bytes = element_bytes;
    for (uint32_t i = 0; i < rank; i++) {
        if (box[i] == 0 || box[i] > BOX_LIMIT || steps[i] == 0 || steps[i] > STEP_LIMIT)
            return false;
        bytes *= i == 0 ? box[i] : (box[i] + steps[i] - 1) / steps[i];
    }
    uint32_t row = box[0] * element_bytes;
    return row % ALIGN == 0 && bytes <= BYTES_LIMIT && (swizzle == 0 || row <= (uint32_t)ALIGN << swizzle);
}

unsigned int emu_tensor_map_encode(void *map128, uint32_t data_type, uint32_t rank, uint64_t address,
                                   const uint64_t *dims, const uint64_t *strides, const uint32_t *box,
                                   const uint32_t *element_strides, uint32_t interleave, uint32_t swizzle,
                                   uint32_t l2, uint32_t oob_fill)
{
    struct image image;
    if (map128 == NULL || data_type >= TYPE_COUNT || rank < 1 || rank > EMU_TENSOR_RANK)
        return 1;
    if (dims == NULL || (strides == NULL && rank > 1) || box == NULL || element_strides == NULL)
        return 1;
    if (interleave > 2 || swizzle > 3 || l2 > 3 || oob_fill > 1 || (oob_fill == 1 && data_type < FIRST_FLOAT))
        return 1;
    if (!tensor_fits(rank, address, dims, strides) ||
        !box_fits(rank, types[data_type].bytes, box, element_strides, swizzle))
        return 1;
    if (interleave != 0)
        return 801; /* CUDA_ERROR_NOT_SUPPORTED */
    memset(&image, 0, sizeof image);
    image.mark = MARK;
    image.address = address;
    for (uint32_t i = 0; i < rank; i++) {
        image.last[i] = (uint32_t)(dims[i] - 1);
        image.box[i] = (uint8_t)(box[i] - 1);
        image.step[i] = (uint8_t)element_strides[i];
        if (i > 0)
            image.stride[i - 1] = strides[i - 1];
    }
    image.type = (uint8_t)data_type;
    image.rank = (uint8_t)rank;
    image.swizzle = (uint8_t)swizzle;
    image.l2 = (uint8_t)l2;
    image.fill = (uint8_t)oob_fill;
    image.check = checksum(&image);
    memcpy(map128, &image, sizeof image);
    return 0;
}

unsigned int emu_tensor_map_replace_address(void *map128, uint64_t address)
{
    struct emu_tensor_map map;
    struct image          image;
    const char           *why;
    if (map128 == NULL || address % ALIGN || !emu_tensor_map_read(map128, &map, &why))
        return 1;
    memcpy(&image, map128, sizeof image);
    image.address = address;
    image.check = checksum(&image);
    memcpy(map128, &image, sizeof image);
    return 0;
}

/* The numbers of element types in tensormap.replace, as those of CUtensorMapDataType. */
static const uint8_t replaced_types[TYPE_COUNT] = {0, 1, 2, 3, 4, 5, 6, 7, 10, 8, 9, 11, 12};

/* NULL: the field has this value now. */
static const char *replace_field(struct image *image, enum emu_tensor_field field, uint32_t i, uint64_t value)
{
    switch (field) {
    case EMU_TENSOR_GLOBAL_ADDRESS:
        image->address = value;
        return NULL;
    case EMU_TENSOR_LAST_DIM:
        image->rank = (uint8_t)(value + 1);
        return value < EMU_TENSOR_RANK ? NULL
                                       : "the rank must be 0 to 4, which is one less than the dimensions";
    case EMU_TENSOR_BOX_DIM:
        image->box[i] = (uint8_t)(value - 1);
        return value > 0 && value <= BOX_LIMIT ? NULL : "a box has 1 to 256 elements along a dimension";
    case EMU_TENSOR_GLOBAL_DIM:
        image->last[i] = (uint32_t)(value - 1);
        return NULL;
    case EMU_TENSOR_GLOBAL_STRIDE:
        if (i < EMU_TENSOR_RANK - 1)
            image->stride[i] = value;
        return i < EMU_TENSOR_RANK - 1 ? NULL : "there are strides of the dimensions 1 to 4 only";
    case EMU_TENSOR_ELEMENT_STRIDE:
        image->step[i] = (uint8_t)value;
        return value > 0 && value <= STEP_LIMIT ? NULL : "an element stride is 1 to 8";
    case EMU_TENSOR_ELEMTYPE:
        image->type = value < TYPE_COUNT ? replaced_types[value] : 0;
        return value < TYPE_COUNT ? NULL : "elements below 8 bits are not supported";
    case EMU_TENSOR_INTERLEAVE:
        return value == 0 ? NULL : "interleaved layouts are not supported";
    case EMU_TENSOR_SWIZZLE:
        image->swizzle = (uint8_t)value;
        return value <= 3 ? NULL : "this swizzle is not supported";
    case EMU_TENSOR_FILL:
        image->fill = (uint8_t)value;
        return NULL;
    default:
        return value == 0 ? NULL : "swizzles of other units than 16 bytes are not supported";
    }
}

bool emu_tensor_map_replace(void *map128, enum emu_tensor_field field, uint32_t ordinal, uint64_t value,
                            const char **why)
{
    struct image image;
    memcpy(&image, map128, sizeof image);
    *why = image.mark != MARK ? "there is no tensor map" : "the tensor map was changed after it was encoded";
    if (image.mark != MARK || image.check != checksum(&image))
        return false;
    *why = replace_field(&image, field, ordinal, value);
    if (*why != NULL)
        return false;
    image.check = checksum(&image);
    memcpy(map128, &image, sizeof image);
    return true;
}

/* The limits that emu_tensor_map_encode checks may be broken by replaced fields. */
static bool is_consistent(const struct image *image)
{
    uint64_t dims[EMU_TENSOR_RANK];
    uint32_t box[EMU_TENSOR_RANK], steps[EMU_TENSOR_RANK];
    for (uint32_t i = 0; i < image->rank; i++) {
        dims[i] = image->last[i] + 1ull;
        box[i] = image->box[i] + 1u;
        steps[i] = image->step[i];
    }
    return tensor_fits(image->rank, image->address, dims, image->stride) &&
           box_fits(image->rank, types[image->type].bytes, box, steps, image->swizzle) &&
           !(image->fill == 1 && image->type < FIRST_FLOAT);
}

bool emu_tensor_map_read(const void *map128, struct emu_tensor_map *out, const char **why)
{
    struct image image;
    memcpy(&image, map128, sizeof image);
    *why = image.mark != MARK ? "there is no tensor map" : "the tensor map was changed after it was encoded";
    if (image.mark != MARK || image.check != checksum(&image))
        return false;
    *why = "its fields, some of them replaced, do not go together";
    if (!is_consistent(&image))
        return false;
    memset(out, 0, sizeof *out);
    out->type = image.type;
    out->rank = image.rank;
    out->element_bytes = types[image.type].bytes;
    out->swizzle = image.swizzle;
    out->fill = image.fill;
    out->address = image.address;
    out->rows = 1;
    for (uint32_t i = 0; i < EMU_TENSOR_RANK; i++) {
        bool there = i < out->rank;
        out->dim[i] = there ? image.last[i] + 1ull : 1;
        out->stride[i] = i == 0 ? out->element_bytes : there ? image.stride[i - 1] : 0;
        out->step[i] = there && i > 0 ? image.step[i] : 1;
        out->count[i] = there ? (image.box[i] + out->step[i]) / out->step[i] : 1;
        out->rows *= i > 0 ? out->count[i] : 1;
    }
    out->row_bytes = out->count[0] * out->element_bytes;
    uint32_t span = (uint32_t)ALIGN << out->swizzle;
    out->pitch = out->swizzle != 0 && out->row_bytes < span ? span : out->row_bytes;
    return true;
}

/* ---- boxes ---------------------------------------------------------------------------------------- */
void emu_tensor_row_at(const struct emu_tensor_map *map, const int32_t coordinate[EMU_TENSOR_RANK],
                       uint32_t row, struct emu_tensor_row *out)
{
    int64_t  first = coordinate[0], end = first + map->count[0], limit = (int64_t)map->dim[0];
    uint64_t address = map->address;
    bool     outside = false;
    out->shared = row * map->pitch;
    for (uint32_t i = 1, left = row; i < map->rank; i++) {
        int64_t at = coordinate[i] + (int64_t)(left % map->count[i]) * map->step[i];
        left /= map->count[i];
        outside |= at < 0 || at >= (int64_t)map->dim[i];
        address += (uint64_t)at * map->stride[i];
    }
    int64_t from = first < 0 ? 0 : first, to = end > limit ? limit : end;
    if (outside || to <= from) {
        out->global = 0;
        out->before = map->row_bytes;
        out->inside = 0;
        return;
    }
    out->global = address + (uint64_t)from * map->element_bytes;
    out->before = (uint32_t)(from - first) * map->element_bytes;
    out->inside = (uint32_t)(to - from) * map->element_bytes;
}

uint32_t emu_tensor_swizzle(uint32_t address, uint32_t swizzle)
{
    return address ^ (address >> 7 & ((1u << swizzle) - 1)) << 4;
}

uint64_t emu_tensor_fill(const struct emu_tensor_map *map) { return map->fill ? 0x7ff77ff77ff77ff7ull : 0; }

const char *emu_tensor_type_name(uint32_t type) { return type < TYPE_COUNT ? types[type].name : "?"; }
