/* mma_layout.c - the tiles of a row of ptx/gemm/mma.ptx in shared memory, and how its threads share them. */
#include "mma_layout.h"

#include <string.h>

#include "loader/loader.h"

enum { ELEMENT_BITS = 16, CHUNK = 8 /* elements that a thread moves at once: 16 bytes */, K_STEP = 16 };

/* ---- small pieces --------------------------------------------------------------------------------- */
static ptxpack_layout matrix(int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride)
{
    return tile_ints(2, (const int64_t[]){rows, columns}, (const int64_t[]){row_stride, column_stride});
}

/* The elements of a tile that the threads of a tiled copy touch, and where they lie. */
OWN_FRAME gemm_mma_access access_of(const ptxpack_tiled_copy *copy, const char *atom,
                                    const ptxpack_layout *plain, int64_t mode_0, int64_t mode_1)
{
    static const char *const coords[3] = {"(_,0,0)", "(0,(0,_),(_,0))", "(0,0,(0,_))"};
    gemm_mma_access          a = {.atom = atom, .bytes = CHUNK * ELEMENT_BITS / 8};
    ptxpack_layout           elements = tile_identity(mode_0, mode_1);
    ptxpack_layout           all = ptxpack_copy_tidfrg(copy, PTXPACK_SRC, &elements);
    a.place = tile_arrange(&all, 3, coords);
    a.offsets = ptxpack_composition(plain, &a.place);
    return a;
}

/* ---- the MMA -------------------------------------------------------------------------------------- */
/* One mode in tiles of `atom` elements: each warp owns neighbouring tiles, and all warps together `block`
 * elements. */
static ptxpack_layout neighbours(int64_t atom, int64_t warps, int64_t block)
{
    int64_t own = block / warps;
    return tile_ints(3, (const int64_t[]){atom, warps, own / atom}, (const int64_t[]){1, own, atom});
}

OWN_FRAME ptxpack_tiled_mma tile_warps(const gemm_mma_layout *l)
{
    enum { M = 16, N = 8 }; /* of the atom */
    ptxpack_layout m = neighbours(M, l->warps_m, l->block_m), n = neighbours(N, l->warps_n, l->block_n);
    return tile_mma(l->warps_m, l->warps_n, &m, &n);
}

/* ---- operands -------------------------------------------------------------------------------------- */
static int64_t threads_of(const gemm_mma_layout *l) { return 32 * l->warps_m * l->warps_n; }

/* Neighbouring threads take the neighbouring chunks of a line, then the next line. */
OWN_FRAME gemm_mma_access load_of(const gemm_mma_layout *l, const ptxpack_layout *plain, int64_t extent,
                                  bool k_first)
{
    const char *name = l->cp_async ? "SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<uint128_t>" : "UniversalCopy<uint128_t>";
    ptxpack_copy_atom atom;
    if (ptxpack_copy_atom_find(name, &atom) != PTXPACK_OK)
        return (gemm_mma_access){.offsets = atom.thr_id, .place = atom.thr_id};
    int64_t            chunks = (k_first ? l->block_k : extent) / CHUNK, lines = threads_of(l) / chunks;
    ptxpack_layout     threads = k_first ? matrix(lines, chunks, chunks, 1) : matrix(chunks, lines, 1, chunks);
    ptxpack_layout     values = ptxpack_layout_parse(k_first ? "(1,8):(0,1)" : "(8,1):(1,0)");
    ptxpack_tiled_copy copy = ptxpack_make_tiled_copy(&atom, ELEMENT_BITS, &threads, &values);
    return access_of(&copy, name, plain, extent, l->block_k);
}

/* ldmatrix of the parts of whole warps, as the MMA needs its operand, k16 by k16. */
OWN_FRAME gemm_mma_access fragment_of(const gemm_mma_layout *l, const ptxpack_layout *plain, int operand,
                                      int64_t extent, bool k_first)
{
    const char       *name = k_first ? "SM75_U32x4_LDSM_N" : "SM75_U16x8_LDSM_T";
    ptxpack_copy_atom atom;
    if (ptxpack_copy_atom_find(name, &atom) != PTXPACK_OK)
        return (gemm_mma_access){.offsets = atom.thr_id, .place = atom.thr_id};
    ptxpack_tuple      tile = ptxpack_tuple_of(2, (const int64_t[]){extent, K_STEP});
    ptxpack_layout     tiler = ptxpack_tiler_of(&tile);
    ptxpack_layout     tv = ptxpack_mma_layout_tv(&l->mma, operand == GEMM_MMA_A ? PTXPACK_A : PTXPACK_B);
    ptxpack_tiled_copy copy = ptxpack_make_tiled_copy_tv(&atom, ELEMENT_BITS, &tv, &tiler);
    return access_of(&copy, name, plain, extent, l->block_k);
}

/* ---- swizzles --------------------------------------------------------------------------------------- */
/* The search looks at a part of the accesses; the tests count the conflicts of all accesses of every row. */
OWN_FRAME ptxpack_status find_swizzle(gemm_mma_tile *tile, const gemm_mma_access *a, const gemm_mma_access *b)
{
    const ptxpack_layout *const offsets[2] = {&a->offsets, &b->offsets};
    const int                   bytes[2] = {a->bytes, b->bytes};
    ptxpack_status              status = tile_find_swizzle(&tile->plain, 2, offsets, bytes, &tile->swizzle);
    if (status != PTXPACK_OK)
        return status;
    tile->swizzled = ptxpack_make_composed(tile->swizzle, 0, &tile->plain);
    return tile->swizzled.shape.status;
}

ptxpack_banks ptxpack_gemm_mma_banks(const gemm_mma_tile *tile, const gemm_mma_access *access)
{
    return tile_banks(tile->swizzle, &access->offsets, access->bytes);
}

OWN_FRAME ptxpack_status derive_operand(gemm_mma_layout *l, int operand, int order)
{
    gemm_mma_operand *o = &l->operand[operand][order];
    bool              k_first = order == GEMM_MMA_K_FIRST;
    int64_t           extent = operand == GEMM_MMA_A ? l->block_m : l->block_n;
    o->tile.plain = k_first ? matrix(extent, l->block_k, l->block_k, 1) : matrix(extent, l->block_k, 1, extent);
    o->load = load_of(l, &o->tile.plain, extent, k_first);
    o->fragment = fragment_of(l, &o->tile.plain, operand, extent, k_first);
    return find_swizzle(&o->tile, &o->load, &o->fragment);
}

/* ---- the output ------------------------------------------------------------------------------------- */
/* Each warp's part is a tile of its own, row by row. */
OWN_FRAME void place_d(gemm_mma_layout *l)
{
    int64_t        rows = l->block_m / l->warps_m, columns = l->block_n / l->warps_n, part = rows * columns;
    const int64_t  row_extents[2] = {rows, l->warps_m}, row_strides[2] = {columns, part};
    const int64_t  column_extents[2] = {columns, l->warps_n}, column_strides[2] = {1, part * l->warps_m};
    ptxpack_layout by_row = tile_ints(2, row_extents, row_strides),
                   by_column = tile_ints(2, column_extents, column_strides);
    l->d.plain = tile_pair(&by_row, &by_column);
}

/* The lanes of a warp lie side by side along the rows of its own part; the warps are in the order of the
 * MMA. */
OWN_FRAME void describe_d_copy(gemm_mma_layout *l)
{
    static const char atom_name[] = "UniversalCopy<uint128_t>";
    ptxpack_copy_atom atom;
    int64_t rows = l->block_m / l->warps_m, columns = l->block_n / l->warps_n, lanes = columns / CHUNK;
    l->status = ptxpack_copy_atom_find(atom_name, &atom);
    if (l->status != PTXPACK_OK)
        return;
    const int64_t  row_extents[2] = {32 / lanes, l->warps_m}, row_threads[2] = {lanes, 32};
    const int64_t  column_extents[2] = {lanes, l->warps_n}, column_threads[2] = {1, 32 * l->warps_m};
    const int64_t  row_places[2] = {1, rows};
    ptxpack_tuple  whole = ptxpack_int(l->block_n);
    ptxpack_layout by_row = tile_ints(2, row_extents, row_threads),
                   by_lane = tile_ints(2, column_extents, column_threads);
    ptxpack_layout       threads = tile_pair(&by_row, &by_lane), values = ptxpack_layout_parse("(1,8):(0,1)");
    ptxpack_tiled_copy   together = ptxpack_make_tiled_copy(&atom, ELEMENT_BITS, &threads, &values);
    const ptxpack_layout modes[2] = {tile_ints(2, row_extents, row_places), ptxpack_tiler_of(&whole)};
    ptxpack_layout       tiler = ptxpack_make_tiler(2, modes);
    ptxpack_tiled_copy   copy = ptxpack_make_tiled_copy_tv(&atom, ELEMENT_BITS, &together.layout_tv, &tiler);
    l->d_copy = access_of(&copy, atom_name, &l->d.plain, l->block_m, l->block_n);
}

OWN_FRAME void describe_d_store(gemm_mma_layout *l)
{
    static const char *const coords[3] = {"(_,0)", "(0,((0,_),(_,0)))", "(0,(0,(0,_)))"};
    ptxpack_layout           elements = tile_identity(l->block_m, l->block_n);
    ptxpack_layout           all = ptxpack_mma_thrfrg(&l->mma, PTXPACK_C, &elements);
    l->d_store = (gemm_mma_access){.atom = "st.shared.b32", .bytes = 2 * ELEMENT_BITS / 8};
    l->d_store.place = tile_arrange(&all, 3, coords);
    l->d_store.offsets = ptxpack_composition(&l->d.plain, &l->d_store.place);
}

/* ---- all of it ------------------------------------------------------------------------------------ */
/* A warp reads its part of an operand in pairs of 8 and 16 and copies its part of D in lines of at most 128
 * bytes; all threads together copy whole lines. */
static const char *contradiction(const gemm_mma_layout *l, const ptxpack_variant *row)
{
    if (l->warps_m < 1 || l->warps_n < 1 || l->block_m < 1 || l->block_n < 1 || l->block_k < 1)
        return "BLOCK_M, BLOCK_N, BLOCK_K, WARPS_M or WARPS_N is missing";
    return l->block_m % (16 * l->warps_m) != 0 || l->block_n % (16 * l->warps_n) != 0
               ? "a warp's part is not a multiple of 16 x 16"
           : l->block_n / l->warps_n > 64 || 64 % (l->block_n / l->warps_n) != 0
               ? "a warp's part is not 16, 32 or 64 columns"
           : l->block_k % (2 * K_STEP) != 0 ? "BLOCK_K is not a multiple of 32"
           : threads_of(l) * CHUNK % l->block_k != 0 || threads_of(l) * CHUNK % l->block_m != 0 ||
                   threads_of(l) * CHUNK % l->block_n != 0
               ? "the threads do not copy whole lines"
           : row->threads != threads_of(l) ? "threads is not 32 * WARPS_M * WARPS_N"
           : l->stages < 2 || (!l->cp_async && l->stages != 2)
               ? "STAGES is less than 2, or not 2 without cp.async"
               : NULL;
}

static void take_parameters(gemm_mma_layout *l, const ptxpack_variant *row)
{
    memset(l, 0, sizeof *l);
    l->block_m = ptxpack_variant_parameter(row, "BLOCK_M", 0);
    l->block_n = ptxpack_variant_parameter(row, "BLOCK_N", 0);
    l->block_k = ptxpack_variant_parameter(row, "BLOCK_K", 0);
    l->warps_m = ptxpack_variant_parameter(row, "WARPS_M", 0);
    l->warps_n = ptxpack_variant_parameter(row, "WARPS_N", 0);
    l->stages = ptxpack_variant_parameter(row, "STAGES", 0);
    l->mma_k = ptxpack_variant_parameter(row, "MMA_K", 0);
    l->cp_async = ptxpack_variant_parameter(row, "CP_ASYNC", 0) != 0;
    l->smem_b = l->block_m * l->block_k * ELEMENT_BITS / 8;
    l->stage_bytes = l->smem_b + l->block_n * l->block_k * ELEMENT_BITS / 8;
    l->shared_bytes = l->stages * l->stage_bytes;
}

static ptxpack_status derive_all(gemm_mma_layout *l)
{
    l->mma = tile_warps(l);
    l->status = l->mma.status;
    for (int i = 0; i < GEMM_MMA_OPERANDS * GEMM_MMA_ORDERS && l->status == PTXPACK_OK; i++)
        l->status = derive_operand(l, i / GEMM_MMA_ORDERS, i % GEMM_MMA_ORDERS);
    if (l->status != PTXPACK_OK)
        return l->status;
    place_d(l);
    describe_d_copy(l);
    describe_d_store(l);
    return l->status == PTXPACK_OK ? find_swizzle(&l->d, &l->d_store, &l->d_copy) : l->status;
}

ptxpack_status ptxpack_gemm_mma_layout(const ptxpack_variant *row, gemm_mma_layout *l)
{
    take_parameters(l, row);
    const char *wrong = contradiction(l, row);
    if (wrong != NULL)
        return l->status = tile_refuse_row(row, "%s", wrong);
    l->status = derive_all(l);
    int64_t d_bytes = ptxpack_cosize(&l->d.plain) * ELEMENT_BITS / 8;
    if (l->status != PTXPACK_OK)
        l->status = tile_refuse_row(row, "%s", ptxpack_detail(NULL));
    else if (row->shared_bytes != l->shared_bytes)
        l->status = tile_refuse_row(row, "shared_bytes is %d, its stages take %lld", row->shared_bytes,
                                    (long long)l->shared_bytes);
    else if (d_bytes > l->shared_bytes)
        l->status = tile_refuse_row(row, "the tile of D takes %lld bytes, more than its stages",
                                    (long long)d_bytes);
    return l->status;
}
