/* mma_layout.c - the tiles of a row of ptx/gemm/mma.ptx in shared memory, and how its threads share them. */
#include "mma_layout.h"

#include <stdio.h>
#include <string.h>

#include "loader/loader.h"
#include "host/plan/row_memo.h"

enum { ELEMENT_BITS = 16, CHUNK = 8 /* elements that a thread moves at once: 16 bytes */, K_STEP = 16 };

/* Atoms, tiled copies and layouts take kilobytes of stack: these functions do not share a frame. */
#define OWN_FRAME __attribute__((noinline)) static

/* ---- small pieces --------------------------------------------------------------------------------- */
static ptxpack_layout ints(int count, const int64_t *extents, const int64_t *strides)
{
    ptxpack_tuple shape = ptxpack_tuple_of(count, extents), stride = ptxpack_tuple_of(count, strides);
    return ptxpack_make_layout(&shape, &stride);
}

static ptxpack_layout matrix(int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride)
{
    return ints(2, (const int64_t[]){rows, columns}, (const int64_t[]){row_stride, column_stride});
}

static ptxpack_layout pair(const ptxpack_layout *a, const ptxpack_layout *b)
{
    const ptxpack_layout modes[2] = {*a, *b};
    return ptxpack_layout_join(2, modes);
}

static ptxpack_layout identity(int64_t rows, int64_t columns)
{
    ptxpack_tuple shape = ptxpack_tuple_of(2, (const int64_t[]){rows, columns});
    return ptxpack_make_identity_layout(&shape);
}

/* (thread, mode 0, mode 1) from (thread, (...)): the parts that `coords` picks of l, each made one mode. */
OWN_FRAME ptxpack_layout arrange(const ptxpack_layout *l, const char *const coords[3])
{
    ptxpack_layout modes[3];
    for (int i = 0; i < 3; i++) {
        ptxpack_tuple coord = ptxpack_tuple_parse(coords[i]);
        modes[i] = ptxpack_layout_slice(&coord, l);
        modes[i] = ptxpack_coalesce(&modes[i], NULL);
    }
    return ptxpack_layout_join(3, modes);
}

/* What the threads of a tiled copy touch of a tile: where it lies, and which elements these are. */
OWN_FRAME gemm_mma_access access_of(const ptxpack_tiled_copy *copy, const char *atom,
                                    const ptxpack_layout *plain, int64_t mode_0, int64_t mode_1)
{
    static const char *const coords[3] = {"(_,0,0)", "(0,(0,_),(_,0))", "(0,0,(0,_))"};
    gemm_mma_access          a = {.atom = atom, .bytes = CHUNK * ELEMENT_BITS / 8};
    ptxpack_layout           elements = identity(mode_0, mode_1);
    ptxpack_layout           all = ptxpack_copy_tidfrg(copy, PTXPACK_SRC, &elements);
    a.place = arrange(&all, coords);
    a.offsets = ptxpack_composition(plain, &a.place);
    return a;
}

/* ---- the MMA -------------------------------------------------------------------------------------- */
enum { K_OF_SM75 = 8 };

const char *ptxpack_gemm_mma_instruction(const gemm_mma_layout *l, ptxpack_dtype dtype)
{
    return l->mma_k == K_OF_SM75   ? "SM75_16x8x8_F32F16F16F32_TN"
           : dtype == PTXPACK_BF16 ? "SM80_16x8x16_F32BF16BF16F32_TN"
                                   : "SM80_16x8x16_F32F16F16F32_TN";
}

/* Along one mode: tiles of `atom` elements; each warp owns neighbours, all warps together `block`. */
static ptxpack_layout neighbours(int64_t atom, int64_t warps, int64_t block)
{
    int64_t own = block / warps;
    return ints(3, (const int64_t[]){atom, warps, own / atom}, (const int64_t[]){1, own, atom});
}

/* The fragments of two k8 instructions, side by side, and those of bf16 are laid out as those of this one. */
OWN_FRAME ptxpack_tiled_mma tile_mma(const gemm_mma_layout *l)
{
    ptxpack_mma_atom atom;
    ptxpack_status   status = ptxpack_mma_atom_find("SM80_16x8x16_F32F16F16F32_TN", &atom);
    if (status != PTXPACK_OK)
        return (ptxpack_tiled_mma){.status = status};
    ptxpack_tuple  sixteen = ptxpack_int(K_STEP);
    ptxpack_tuple  atoms = ptxpack_tuple_of(3, (const int64_t[]){l->warps_m, l->warps_n, 1});
    ptxpack_layout warps = ptxpack_make_layout_left(&atoms);
    ptxpack_layout modes[3] = {neighbours(atom.m, l->warps_m, l->block_m),
                               neighbours(atom.n, l->warps_n, l->block_n), ptxpack_tiler_of(&sixteen)};
    ptxpack_layout permutation = ptxpack_make_tiler(3, modes);
    return ptxpack_make_tiled_mma(&atom, &warps, &permutation);
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

/* As the MMA wants its operand, k16 by k16: ldmatrix of whole warps' parts. */
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
/* The fewest bits without conflicts.  All warps and steps of an access are alike, so the search looks at the
 * first of each; all of them are counted by ptxpack_gemm_mma_banks, which the tests do for every row. */
OWN_FRAME ptxpack_status find_swizzle(gemm_mma_tile *tile, const gemm_mma_access *a, const gemm_mma_access *b)
{
    const ptxpack_layout      one = ptxpack_layout_parse("<32,1,1>");
    const ptxpack_layout      first[2] = {ptxpack_composition(&a->offsets, &one),
                                          ptxpack_composition(&b->offsets, &one)};
    const ptxpack_bank_access accesses[2] = {{&first[0], a->bytes}, {&first[1], b->bytes}};
    ptxpack_status status = ptxpack_find_swizzle(&tile->plain, ELEMENT_BITS, 2, accesses, &tile->swizzle);
    if (status != PTXPACK_OK)
        return status;
    tile->swizzled = ptxpack_make_composed(tile->swizzle, 0, &tile->plain);
    return tile->swizzled.shape.status;
}

ptxpack_banks ptxpack_gemm_mma_banks(const gemm_mma_tile *tile, const gemm_mma_access *access)
{
    ptxpack_layout      swizzled = ptxpack_make_composed(tile->swizzle, 0, &access->offsets);
    ptxpack_bank_access all = {.offsets = &swizzled, .bytes = access->bytes};
    return ptxpack_bank_conflicts(&all, ELEMENT_BITS);
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
    ptxpack_layout by_row = ints(2, row_extents, row_strides),
                   by_column = ints(2, column_extents, column_strides);
    l->d.plain = pair(&by_row, &by_column);
}

/* The lanes of a warp side by side along the rows of its own part; warps in the order of the MMA's. */
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
    ptxpack_layout by_row = ints(2, row_extents, row_threads),
                   by_lane = ints(2, column_extents, column_threads);
    ptxpack_layout       threads = pair(&by_row, &by_lane), values = ptxpack_layout_parse("(1,8):(0,1)");
    ptxpack_tiled_copy   together = ptxpack_make_tiled_copy(&atom, ELEMENT_BITS, &threads, &values);
    const ptxpack_layout modes[2] = {ints(2, row_extents, row_places), ptxpack_tiler_of(&whole)};
    ptxpack_layout       tiler = ptxpack_make_tiler(2, modes);
    ptxpack_tiled_copy   copy = ptxpack_make_tiled_copy_tv(&atom, ELEMENT_BITS, &together.layout_tv, &tiler);
    l->d_copy = access_of(&copy, atom_name, &l->d.plain, l->block_m, l->block_n);
}

OWN_FRAME void describe_d_store(gemm_mma_layout *l)
{
    static const char *const coords[3] = {"(_,0)", "(0,((0,_),(_,0)))", "(0,(0,(0,_)))"};
    ptxpack_layout           elements = identity(l->block_m, l->block_n);
    ptxpack_layout           all = ptxpack_mma_thrfrg(&l->mma, PTXPACK_C, &elements);
    l->d_store = (gemm_mma_access){.atom = "st.shared.b32", .bytes = 2 * ELEMENT_BITS / 8};
    l->d_store.place = arrange(&all, coords);
    l->d_store.offsets = ptxpack_composition(&l->d.plain, &l->d_store.place);
}

/* ---- all of it ------------------------------------------------------------------------------------ */
static void refuse_row(const ptxpack_variant *row, gemm_mma_layout *l, const char *why)
{
    l->status = ptxpack_fail(NULL, PTXPACK_E_UNSUPPORTED, "kernels.def, row %s: %s", row->id, why);
}

/* A warp's part of an operand is read in pairs of 8 and 16, its part of D a line of 128 bytes at most at a
 * time; all threads together copy whole lines. */
static const char *contradiction(const gemm_mma_layout *l, const ptxpack_variant *row)
{
    if (l->warps_m < 1 || l->warps_n < 1 || l->block_m < 1 || l->block_n < 1 || l->block_k < 1)
        return "BLOCK_M, BLOCK_N, BLOCK_K, WARPS_M or WARPS_N is missing";
    return l->block_m % (16 * l->warps_m) != 0 || l->block_n % (16 * l->warps_n) != 0
               ? "a warp's part is no multiple of 16 x 16"
           : l->block_n / l->warps_n > 64 || 64 % (l->block_n / l->warps_n) != 0
               ? "a warp's part is not 16, 32 or 64 columns"
           : l->block_k % (2 * K_STEP) != 0 ? "BLOCK_K is no multiple of 32"
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
    l->mma = tile_mma(l);
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
    if (wrong != NULL) {
        refuse_row(row, l, wrong);
        return l->status;
    }
    l->status = derive_all(l);
    int64_t d_bytes = ptxpack_cosize(&l->d.plain) * ELEMENT_BITS / 8;
    char    why[96] = "";
    if (l->status != PTXPACK_OK)
        refuse_row(row, l, ptxpack_detail(NULL));
    else if (row->shared_bytes != l->shared_bytes)
        snprintf(why, sizeof why, "shared_bytes is %d, its stages take %lld", row->shared_bytes,
                 (long long)l->shared_bytes);
    else if (d_bytes > l->shared_bytes)
        snprintf(why, sizeof why, "the tile of D takes %lld bytes, more than its stages", (long long)d_bytes);
    if (*why != '\0')
        refuse_row(row, l, why);
    return l->status;
}

/* ---- once in a process ---------------------------------------------------------------------------- */
static ptxpack_status derive(const ptxpack_variant *row, void *out)
{
    return ptxpack_gemm_mma_layout(row, (gemm_mma_layout *)out);
}

const gemm_mma_layout *ptxpack_gemm_mma_layout_of(const ptxpack_variant *row, gemm_mma_layout **own)
{
    static row_memo memo;
    void           *made;
    const void     *layout = row_memo_get(&memo, row, sizeof(gemm_mma_layout), derive, &made);
    *own = (gemm_mma_layout *)made;
    return (const gemm_mma_layout *)layout;
}
