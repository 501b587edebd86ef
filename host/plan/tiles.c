/* tiles.c - tiles in shared memory, their boxes and their threads. */
#include "tiles.h"

#include <stdarg.h>
#include <stdio.h>

#include "loader/loader.h"

enum { HALF_BITS = 16, REGISTERS = 65536 /* of an SM */ };

ptxpack_status tile_refuse_row(const ptxpack_variant *row, const char *format, ...)
{
    char    why[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    return ptxpack_fail(NULL, PTXPACK_E_UNSUPPORTED, "kernels.def, row %s: %s", row->id, why);
}

/* ---- layouts ------------------------------------------------------------------------------------ */
ptxpack_layout tile_ints(int count, const int64_t *extents, const int64_t *strides)
{
    ptxpack_tuple shape = ptxpack_tuple_of(count, extents), stride = ptxpack_tuple_of(count, strides);
    return ptxpack_make_layout(&shape, &stride);
}

ptxpack_layout tile_pair(const ptxpack_layout *a, const ptxpack_layout *b)
{
    const ptxpack_layout modes[2] = {*a, *b};
    return ptxpack_layout_join(2, modes);
}

ptxpack_layout tile_identity(int64_t rows, int64_t columns)
{
    ptxpack_tuple shape = ptxpack_tuple_of(2, (const int64_t[]){rows, columns});
    return ptxpack_make_identity_layout(&shape);
}

ptxpack_layout tile_transposed(const ptxpack_layout *l)
{
    static const int columns_first[2] = {1, 0};
    return ptxpack_layout_select(l, 2, columns_first);
}

ptxpack_layout tile_without_swizzle(ptxpack_layout l)
{
    l.composed = false;
    l.swizzle = (ptxpack_swizzle){0, 0, 0};
    return l;
}

ptxpack_layout tile_arrange(const ptxpack_layout *l, int count, const char *const *coords)
{
    ptxpack_layout modes[3];
    for (int i = 0; i < count; i++) {
        ptxpack_tuple coord = ptxpack_tuple_parse(coords[i]);
        modes[i] = ptxpack_layout_slice(&coord, l);
        modes[i] = ptxpack_coalesce(&modes[i], NULL);
    }
    return ptxpack_layout_join(count, modes);
}

/* ---- mma.sync ----------------------------------------------------------------------------------- */
ptxpack_tiled_mma tile_mma(int64_t warps_m, int64_t warps_n, const ptxpack_layout *m, const ptxpack_layout *n)
{
    ptxpack_mma_atom atom;
    ptxpack_status   status = ptxpack_mma_atom_find("SM80_16x8x16_F32F16F16F32_TN", &atom);
    if (status != PTXPACK_OK)
        return (ptxpack_tiled_mma){.status = status};
    ptxpack_tuple  k = ptxpack_int(16), atoms = ptxpack_tuple_of(3, (const int64_t[]){warps_m, warps_n, 1});
    ptxpack_layout warps = ptxpack_make_layout_left(&atoms), modes[3] = {*m, *n, ptxpack_tiler_of(&k)};
    ptxpack_layout permutation = ptxpack_make_tiler(3, modes);
    return ptxpack_make_tiled_mma(&atom, &warps, &permutation);
}

const char *tile_mma_instruction(int64_t mma_k, ptxpack_dtype dtype)
{
    enum { K_OF_SM75 = 8 };
    return mma_k == K_OF_SM75      ? "SM75_16x8x8_F32F16F16F32_TN"
           : dtype == PTXPACK_BF16 ? "SM80_16x8x16_F32BF16BF16F32_TN"
                                   : "SM80_16x8x16_F32F16F16F32_TN";
}

ptxpack_status tile_find_swizzle(const ptxpack_layout *plain, int count, const ptxpack_layout *const *offsets,
                                 const int *bytes, ptxpack_swizzle *out)
{
    enum { MOST = 4 };
    const ptxpack_layout one = ptxpack_layout_parse("<32,1,1>");
    ptxpack_layout       first[MOST];
    ptxpack_bank_access  accesses[MOST];
    for (int i = 0; i < count && i < MOST; i++) {
        first[i] = ptxpack_composition(offsets[i], &one);
        accesses[i] = (ptxpack_bank_access){.offsets = &first[i], .bytes = bytes[i]};
    }
    return ptxpack_find_swizzle(plain, HALF_BITS, count, accesses, out);
}

ptxpack_banks tile_banks(ptxpack_swizzle swizzle, const ptxpack_layout *offsets, int bytes)
{
    ptxpack_layout      swizzled = ptxpack_make_composed(swizzle, 0, offsets);
    ptxpack_bank_access access = {.offsets = &swizzled, .bytes = bytes};
    return ptxpack_bank_conflicts(&access, HALF_BITS);
}

/* ---- wgmma -------------------------------------------------------------------------------------- */
ptxpack_layout tile_of_boxes(int64_t rows, int64_t columns, int bits)
{
    ptxpack_layout atom = ptxpack_wgmma_atom(PTXPACK_WGMMA_K, PTXPACK_WGMMA_128B, bits);
    ptxpack_tuple  shape = ptxpack_tuple_of(2, (const int64_t[]){rows, columns});
    return ptxpack_tile_to_shape(&atom, &shape, NULL);
}

ptxpack_layout tile_of_warps(int64_t warps, int64_t buffers, int64_t columns, int bits)
{
    const int64_t  copies[2] = {warps, 1}, steps[2] = {buffers * TILE_WARP_ROWS * columns, 0};
    ptxpack_tuple  count = ptxpack_tuple_of(2, copies);
    ptxpack_layout all = tile_ints(2, copies, steps);
    ptxpack_layout swizzled = tile_of_boxes(TILE_WARP_ROWS, columns, bits);
    ptxpack_layout one = tile_without_swizzle(swizzled);
    all = ptxpack_layout_zip(&one, &all); /* ((row, warp), (column, 1)) */
    all = ptxpack_coalesce(&all, &count);
    return ptxpack_make_composed(swizzled.swizzle, 0, &all);
}

ptxpack_tiled_mma tile_wgmma(int64_t warpgroups, const char *name)
{
    ptxpack_mma_atom atom;
    ptxpack_status   status = ptxpack_mma_atom_find(name, &atom);
    if (status != PTXPACK_OK)
        return (ptxpack_tiled_mma){.status = status};
    ptxpack_tuple  shape = ptxpack_tuple_of(3, (const int64_t[]){warpgroups, 1, 1});
    ptxpack_layout atoms = ptxpack_make_layout_left(&shape);
    return ptxpack_make_tiled_mma(&atom, &atoms, NULL);
}

ptxpack_layout tile_accumulators(const ptxpack_tiled_mma *mma, int64_t rows, int64_t columns)
{
    static const char *const coords[3] = {"(_,0)", "(0,((0,_,0),0))", "(0,((0,0,_),0))"};
    ptxpack_layout           places = tile_identity(rows, columns);
    ptxpack_layout           c = ptxpack_mma_thrfrg(mma, PTXPACK_C, &places);
    return tile_arrange(&c, 3, coords);
}

ptxpack_layout tile_matrix_rows(int64_t warpgroups, const char *atom_name, ptxpack_operand operand,
                                ptxpack_side side, const ptxpack_layout *tile)
{
    static const char *const coords[2] = {"(_,0,0)", "(0,0,(0,_))"};
    ptxpack_copy_atom        atom;
    ptxpack_tiled_mma        mma = tile_wgmma(warpgroups, "SM90_64x16x16_F32F16F16_RS");
    ptxpack_status           status = ptxpack_copy_atom_find(atom_name, &atom);
    ptxpack_layout           plain = tile_without_swizzle(*tile);
    status = status != PTXPACK_OK ? status : mma.status;
    plain.shape.status = status != PTXPACK_OK ? status : plain.shape.status;
    if (plain.shape.status != PTXPACK_OK)
        return plain;
    ptxpack_tiled_copy copy = ptxpack_make_tiled_copy_mma(&atom, HALF_BITS, &mma, operand);
    ptxpack_layout     all = ptxpack_copy_tidfrg(&copy, side, &plain);
    return tile_arrange(&all, 2, coords);
}

static bool setmaxnreg_takes(int64_t registers)
{
    return registers >= 24 && registers <= 256 && registers % 8 == 0;
}

const char *tile_registers_refusal(int64_t producer, int64_t consumer, int64_t warpgroups, int64_t blocks)
{
    return !setmaxnreg_takes(producer)   ? "REGS_PRODUCER is not a multiple of 8 in 24..256"
           : !setmaxnreg_takes(consumer) ? "REGS_CONSUMER is not a multiple of 8 in 24..256"
           : blocks * TILE_WARPGROUP * (producer + warpgroups * consumer) > REGISTERS
               ? "REGS_PRODUCER and REGS_CONSUMER exceed an SM's registers"
               : NULL;
}

/* ---- tensor maps -------------------------------------------------------------------------------- */
/* The L2 cache fetches 128 bytes, what the line of a box has: with 256, a read-only stream of 1 GB has 4144 GB/s where it has 4439
 * (H200, 2026-11-29), and columns that begin anywhere are fetched twice (a product of 1288 x 2568 x 5128 takes 21 % longer). */
ptxpack_tma_box tile_box(const ptxpack_layout *shared, int rank, int bits)
{
    int64_t          rows = ptxpack_mode_size(shared, 0), columns = ptxpack_mode_size(shared, 1);
    const int64_t    extents[4] = {2 * columns, 2 * rows, 2, 2}, taken[4] = {columns, rows, 1, 1};
    ptxpack_tuple    shape = ptxpack_tuple_of(rank, extents), tile = ptxpack_tuple_of(rank, taken);
    ptxpack_layout   global = ptxpack_make_layout_left(&shape), tiler = ptxpack_tiler_of(&tile);
    ptxpack_layout   transposed = tile_transposed(shared);
    ptxpack_tma_desc desc = {.size = sizeof desc,
                             .global = &global,
                             .type = bits == 8 ? PTXPACK_TMA_UINT8 : PTXPACK_TMA_FLOAT16,
                             .shared = &transposed,
                             .tile = &tiler,
                             .l2 = PTXPACK_TMA_L2_128B};
    return ptxpack_tma_make(&desc);
}

ptxpack_status tile_check_box(const char *name, const ptxpack_tma_box *box, int rank, int64_t rows,
                              int64_t columns, int64_t boxes, int64_t distance)
{
    bool right = box->status == PTXPACK_OK && box->rank == (uint32_t)rank && box->boxes == boxes &&
                 (int64_t)box->box_dim[0] == columns && (int64_t)box->box_dim[1] == rows;
    for (int d = 0; d < rank && right; d++)
        right = box->coordinates.stride.value[d] == 1 && box->coordinates.stride.kind[d] == (uint64_t)d + 1;
    for (int64_t i = 0; i < boxes && right; i++)
        right = ptxpack_at(&box->offsets, i) == i * distance;
    if (right)
        return PTXPACK_OK;
    return box->status != PTXPACK_OK
               ? box->status
               : ptxpack_fail(NULL, PTXPACK_E_UNSUPPORTED, "a tile of %s is not its %lld boxes in a row", name,
                              (long long)boxes);
}
