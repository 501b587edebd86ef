/* wgmma.c - canonical shared-memory layouts of wgmma operands, and their descriptors. */
#include "wgmma.h"

#include "host/layout/arithmetic.h"
#include "host/layout/internal.h"
#include "loader/loader.h"
#include "shared_swizzle.h"

enum { UNIT_BITS = SWIZZLE_UNIT_BITS, UNIT_BYTES = 16, ROWS = 8 };
enum { FIELD_LIMIT = 1 << 18, INSTRUCTION_BITS = 256 };

const char *ptxpack_wgmma_swizzle_name(ptxpack_wgmma_swizzle swizzle)
{
    static const char *const names[] = {"none", "128B", "64B", "32B"};
    return (unsigned)swizzle < 4 ? names[swizzle] : "?";
}

/* Bits B of Sw<B,4,3> over bytes; a row of the pattern is 16 << B bytes. */
static int swizzle_bits(ptxpack_wgmma_swizzle swizzle)
{
    return swizzle == PTXPACK_WGMMA_NONE ? 0 : 4 - (int)swizzle;
}

/* ---- the 64 bits --------------------------------------------------------------------------------------- */
static ptxpack_status check_field(const char *name, int64_t bytes)
{
    if (bytes >= 0 && bytes < FIELD_LIMIT && bytes % UNIT_BYTES == 0)
        return PTXPACK_OK;
    return ptxpack_fail(NULL, PTXPACK_E_ARG, "wgmma descriptor: %s of %lld bytes is no multiple of 16 in 0..%d",
                        name, (long long)bytes, FIELD_LIMIT - UNIT_BYTES);
}

ptxpack_status ptxpack_wgmma_encode(const ptxpack_wgmma_fields *fields, uint64_t *word)
{
    if (fields == NULL || word == NULL)
        return operand_missing(__func__, fields == NULL ? "fields" : "word");
    ptxpack_status status = check_field("address", fields->address);
    if (status == PTXPACK_OK)
        status = check_field("leading offset", fields->leading);
    if (status == PTXPACK_OK)
        status = check_field("stride offset", fields->stride);
    if (status != PTXPACK_OK)
        return status;
    if (fields->base_offset > 7 || (unsigned)fields->swizzle > 3)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "wgmma descriptor: base offset %u, swizzle %u: 0..7 and 0..3",
                            fields->base_offset, (unsigned)fields->swizzle);
    *word = fields->address / UNIT_BYTES | (uint64_t)(fields->leading / UNIT_BYTES) << 16 |
            (uint64_t)(fields->stride / UNIT_BYTES) << 32 | (uint64_t)fields->base_offset << 49 |
            (uint64_t)fields->swizzle << 62;
    return PTXPACK_OK;
}

ptxpack_status ptxpack_wgmma_decode(uint64_t word, ptxpack_wgmma_fields *fields)
{
    if (fields == NULL)
        return operand_missing(__func__, "fields");
    const uint64_t unit_field = 0x3fff, used = unit_field | unit_field << 16 | unit_field << 32 |
                                               (uint64_t)7 << 49 | (uint64_t)3 << 62;
    if (word & ~used)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "wgmma descriptor %#llx: bits %#llx are in none of its fields",
                            (unsigned long long)word, (unsigned long long)(word & ~used));
    fields->address = (uint32_t)(word & unit_field) * UNIT_BYTES;
    fields->leading = (uint32_t)(word >> 16 & unit_field) * UNIT_BYTES;
    fields->stride = (uint32_t)(word >> 32 & unit_field) * UNIT_BYTES;
    fields->base_offset = (uint32_t)(word >> 49 & 7);
    fields->swizzle = (ptxpack_wgmma_swizzle)(word >> 62);
    return PTXPACK_OK;
}

/* ---- canonical shared memory --------------------------------------------------------------------------- */
static bool is_element(int bits) { return bits <= 64 && is_power_of_2(bits); }

ptxpack_layout ptxpack_wgmma_atom(ptxpack_wgmma_major major, ptxpack_wgmma_swizzle swizzle, int bits)
{
    if ((unsigned)major > 1 || (unsigned)swizzle > 3 || !is_element(bits))
        return layout_error("wgmma: major %u, swizzle %u, %d bits: 0..1, 0..3, a power of 2 up to 64",
                            (unsigned)major, (unsigned)swizzle, bits);
    int64_t             run = UNIT_BITS << swizzle_bits(swizzle) >> log2_of(bits);
    const ptxpack_tuple rows[] = {ptxpack_int(ROWS), ptxpack_int(run)},
                        runs[] = {ptxpack_int(run), ptxpack_int(ROWS)},
                        along[] = {ptxpack_int(run), ptxpack_int(1)},
                        across[] = {ptxpack_int(1), ptxpack_int(run)};
    ptxpack_tuple   shape = ptxpack_tuple_join(2, major == PTXPACK_WGMMA_K ? rows : runs);
    ptxpack_tuple   stride = ptxpack_tuple_join(2, major == PTXPACK_WGMMA_K ? along : across);
    ptxpack_layout  inner = ptxpack_make_layout(&shape, &stride);
    ptxpack_swizzle sw = {(int8_t)swizzle_bits(swizzle), (int8_t)(log2_of(UNIT_BITS) - log2_of(bits)), 3};
    return ptxpack_make_composed(sw, 0, &inner);
}

/* ---- descriptors --------------------------------------------------------------------------------------- */
/* A mode of the tile without nesting; what was looked at has been taken off. */
typedef struct flat_mode {
    int     items;
    int64_t shape[PTXPACK_TUPLE_ITEMS], stride[PTXPACK_TUPLE_ITEMS];
} flat_mode;

/* What is known of a tile while its descriptor is made; lengths in elements. */
typedef struct operand_tile {
    const ptxpack_layout *layout;
    int64_t               unit; /* of 16 bytes */
    int64_t               run;  /* of one row of the swizzle's pattern: 1, 2, 4 or 8 units */
    flat_mode             mn, k;
} operand_tile;

static flat_mode mode_of(const ptxpack_layout *tile, int mode)
{
    ptxpack_layout l = ptxpack_mode(tile, mode);
    l = ptxpack_coalesce(&l, NULL);
    flat_mode out;
    out.items = l.shape.items;
    for (int i = 0; i < out.items; i++) {
        out.shape[i] = l.shape.value[i];
        out.stride[i] = l.stride.value[i];
    }
    return out;
}

/* Take the first `extent` elements off a mode: they must have one step, which is returned.  What stays counts
 * through the pieces. */
static bool take_off(flat_mode *mode, int64_t extent, int64_t *step)
{
    *step = 0;
    if (extent == 1)
        return true;
    if (mode->shape[0] % extent)
        return false;
    *step = mode->stride[0];
    mode->shape[0] /= extent;
    if (mode->shape[0] > 1)
        return mul_into(mode->stride[0], extent, &mode->stride[0]);
    if (mode->items == 1) {
        mode->stride[0] = 0;
        return true;
    }
    mode->items--;
    for (int i = 0; i < mode->items; i++) {
        mode->shape[i] = mode->shape[i + 1];
        mode->stride[i] = mode->stride[i + 1];
    }
    return true;
}

/* The same, and the step must be `wanted`. */
static ptxpack_status expect_step(const operand_tile *tile, flat_mode *mode, const char *what, int64_t extent,
                                  int64_t wanted)
{
    int64_t step;
    if (!take_off(mode, extent, &step))
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "wgmma: in %s the first %lld %s have no common step",
                            layout_text(tile->layout).text, (long long)extent, what);
    if (step != wanted)
        return ptxpack_fail(NULL, PTXPACK_E_ARG,
                            "wgmma: in %s the first %lld %s are %lld elements apart, not %lld",
                            layout_text(tile->layout).text, (long long)extent, what, (long long)step,
                            (long long)wanted);
    return PTXPACK_OK;
}

/* The step between `extent` pieces, in bytes: one of the two offsets of the descriptor. */
static ptxpack_status offset_field(const operand_tile *tile, flat_mode *mode, const char *what, int64_t extent,
                                   uint32_t *bytes)
{
    int64_t step;
    if (!take_off(mode, extent, &step))
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "wgmma: in %s the %lld %s have no common step",
                            layout_text(tile->layout).text, (long long)extent, what);
    if (step < 0 || step % tile->unit || step / tile->unit >= FIELD_LIMIT / UNIT_BYTES)
        return ptxpack_fail(NULL, PTXPACK_E_ARG,
                            "wgmma: in %s the %s are %lld elements apart: no multiple of 16 bytes below 2^18",
                            layout_text(tile->layout).text, what, (long long)step);
    *bytes = (uint32_t)(step / tile->unit * UNIT_BYTES);
    return PTXPACK_OK;
}

static ptxpack_status swizzle_of(const ptxpack_layout *tile, int bits, ptxpack_wgmma_swizzle *out)
{
    int            b;
    ptxpack_status status = shared_swizzle("wgmma", tile, bits, &b);
    *out = b == 0 ? PTXPACK_WGMMA_NONE : (ptxpack_wgmma_swizzle)(4 - b);
    return status;
}

static ptxpack_status check_tile(const ptxpack_layout *tile, ptxpack_wgmma_major major, int bits, int64_t mn)
{
    if (tile->shape.status != PTXPACK_OK)
        return tile->shape.status;
    if ((unsigned)major > 1 || !is_element(bits) || bits > 32)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "wgmma: major %u, %d bits: 0..1, a power of 2 up to 32",
                            (unsigned)major, bits);
    for (int i = 0; i < tile->stride.items; i++)
        if (tile->stride.kind[i] != 0)
            return ptxpack_fail(NULL, PTXPACK_E_ARG, "wgmma: %s has no offsets", layout_text(tile).text);
    if (ptxpack_rank(&tile->shape) != 2 || ptxpack_is_tiler(tile))
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "wgmma: %s does not have the two modes M or N, and K",
                            layout_text(tile).text);
    int64_t rows = ptxpack_mode_size(tile, 0), k = ptxpack_mode_size(tile, 1), step = INSTRUCTION_BITS / bits;
    if (mn < 1 || mn % ROWS || rows % mn)
        return ptxpack_fail(NULL, PTXPACK_E_ARG,
                            "wgmma: %lld rows an instruction: no multiple of 8 that divides the %lld of %s",
                            (long long)mn, (long long)rows, layout_text(tile).text);
    if (k % step)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "wgmma: K of %s is %lld, not a multiple of %lld (256 bits)",
                            layout_text(tile).text, (long long)k, (long long)step);
    if (ptxpack_cosize(tile) > (int64_t)FIELD_LIMIT * 8 / bits || tile->offset < 0 ||
        tile->offset % (UNIT_BITS / bits) || tile->offset >= (int64_t)FIELD_LIMIT * 8 / bits)
        return ptxpack_fail(NULL, PTXPACK_E_ARG,
                            "wgmma: %s reaches over 2^18 bytes, or begins at no multiple of 16 bytes",
                            layout_text(tile).text);
    return PTXPACK_OK;
}

/* ((8,m),(T,2)) : ((run,SBO),(1,LBO)); swizzled: LBO is T. */
static ptxpack_status match_k_major(operand_tile *tile, ptxpack_wgmma_operand *op)
{
    ptxpack_status status = expect_step(tile, &tile->k, "elements along K", tile->unit, 1);
    if (status == PTXPACK_OK)
        status = offset_field(tile, &tile->k, "16-byte columns along K", 2, &op->fields.leading);
    if (status == PTXPACK_OK && op->fields.swizzle != PTXPACK_WGMMA_NONE && op->fields.leading != UNIT_BYTES)
        status = ptxpack_fail(NULL, PTXPACK_E_ARG,
                              "wgmma: in %s the 16-byte columns along K are not neighbours",
                              layout_text(tile->layout).text);
    if (status == PTXPACK_OK)
        status = expect_step(tile, &tile->mn, "rows", ROWS, tile->run);
    if (status == PTXPACK_OK)
        status = offset_field(tile, &tile->mn, "groups of 8 rows", op->mn / ROWS, &op->fields.stride);
    return status;
}

/* ((run,m),(8,k)) : ((1,LBO),(run,SBO)); without a swizzle LBO and SBO change places. */
static ptxpack_status match_mn_major(operand_tile *tile, ptxpack_wgmma_operand *op)
{
    bool      plain = op->fields.swizzle == PTXPACK_WGMMA_NONE;
    uint32_t *along_mn = plain ? &op->fields.stride : &op->fields.leading;
    uint32_t *along_k = plain ? &op->fields.leading : &op->fields.stride;
    if (op->mn % tile->run)
        return ptxpack_fail(NULL, PTXPACK_E_ARG,
                            "wgmma: %lld rows an instruction: no multiple of the %lld of a swizzle's row",
                            (long long)op->mn, (long long)tile->run);
    ptxpack_status status = expect_step(tile, &tile->mn, "elements along M or N", tile->run, 1);
    if (status == PTXPACK_OK)
        status = offset_field(tile, &tile->mn, "runs along M or N", op->mn / tile->run, along_mn);
    if (status == PTXPACK_OK)
        status = expect_step(tile, &tile->k, "elements along K", ROWS, tile->run);
    if (status == PTXPACK_OK)
        status = offset_field(tile, &tile->k, "groups of 8 along K", op->k / ROWS, along_k);
    return status;
}

/* What is left of the modes counts through the instructions; in units of 16 bytes. */
static ptxpack_layout steps_of(operand_tile *tile)
{
    flat_mode    *modes[2] = {&tile->mn, &tile->k};
    ptxpack_tuple shape[2], stride[2];
    for (int m = 0; m < 2; m++) {
        flat_mode *mode = modes[m];
        for (int i = 0; i < mode->items; i++) {
            if (mode->stride[i] < 0 || mode->stride[i] % tile->unit)
                return layout_error(
                    "wgmma: instructions of %s are %lld elements apart: no multiple of 16 bytes",
                    layout_text(tile->layout).text, (long long)mode->stride[i]);
            mode->stride[i] /= tile->unit;
        }
        shape[m] = ptxpack_tuple_of(mode->items, mode->shape);
        stride[m] = ptxpack_tuple_of(mode->items, mode->stride);
        shape[m] = ptxpack_unwrap(&shape[m]);
        stride[m] = ptxpack_unwrap(&stride[m]);
    }
    shape[0] = ptxpack_tuple_join(2, shape);
    stride[0] = ptxpack_tuple_join(2, stride);
    return ptxpack_make_layout(&shape[0], &stride[0]);
}

ptxpack_wgmma_operand ptxpack_wgmma_descriptor(const ptxpack_layout *layout, ptxpack_wgmma_major major,
                                               int bits, int64_t mn)
{
    if (layout == NULL)
        layout = layout_missing(__func__, "tile");
    ptxpack_wgmma_operand op = {.major = major, .mn = mn};
    op.status = layout->shape.status;
    if (op.status == PTXPACK_OK && mn == 0)
        op.mn = ptxpack_mode_size(layout, 0);
    if (op.status == PTXPACK_OK)
        op.status = check_tile(layout, major, bits, op.mn);
    if (op.status == PTXPACK_OK)
        op.status = swizzle_of(layout, bits, &op.fields.swizzle);
    if (op.status != PTXPACK_OK)
        return op;

    operand_tile tile = {layout, UNIT_BITS / bits, UNIT_BITS / bits << swizzle_bits(op.fields.swizzle),
                         mode_of(layout, 0), mode_of(layout, 1)};
    op.k = INSTRUCTION_BITS / bits;
    op.align = swizzle_bits(op.fields.swizzle) ? tile.run * bits / 8 * ROWS : UNIT_BYTES;
    op.fields.address = (uint32_t)(layout->offset * bits / 8);
    op.status = major == PTXPACK_WGMMA_K ? match_k_major(&tile, &op) : match_mn_major(&tile, &op);
    if (op.status == PTXPACK_OK)
        op.status = ptxpack_wgmma_encode(&op.fields, &op.word);
    if (op.status != PTXPACK_OK)
        return op;
    int64_t mn_tiles = ptxpack_mode_size(layout, 0) / op.mn, k_tiles = ptxpack_mode_size(layout, 1) / op.k;
    op.steps = steps_of(&tile);
    op.status = op.steps.shape.status;
    if (op.status == PTXPACK_OK) {
        op.step_mn = mn_tiles > 1 ? ptxpack_at(&op.steps, 1) : 0;
        op.step_k = k_tiles > 1 ? ptxpack_at(&op.steps, mn_tiles) : 0;
    }
    return op;
}
