/* mma_layout.c - the tiles of an attention row in shared memory, and how its threads share them. */
#include "mma_layout.h"

#include <stdio.h>
#include <string.h>

#include "loader/loader.h"
#include "host/plan/row_memo.h"

enum { ELEMENT_BITS = 16, CHUNK = 8 /* elements that a thread moves at once: 16 bytes */ };

/* Atoms, tiled copies and layouts take kilobytes of stack: these functions do not share a frame. */
#define OWN_FRAME __attribute__((noinline)) static

/* ---- small pieces --------------------------------------------------------------------------------- */
static ptxpack_layout ints(int count, const int64_t *extents, const int64_t *strides)
{
    ptxpack_tuple shape = ptxpack_tuple_of(count, extents), stride = ptxpack_tuple_of(count, strides);
    return ptxpack_make_layout(&shape, &stride);
}

static ptxpack_layout pair(const ptxpack_layout *a, const ptxpack_layout *b)
{
    const ptxpack_layout modes[2] = {*a, *b};
    return ptxpack_layout_join(2, modes);
}

static ptxpack_layout tile(const ptxpack_layout *rows, int64_t columns)
{
    ptxpack_tuple        extent = ptxpack_int(columns);
    const ptxpack_layout modes[2] = {*rows, ptxpack_tiler_of(&extent)};
    return ptxpack_make_tiler(2, modes);
}

static ptxpack_layout identity(int64_t rows, int64_t columns)
{
    ptxpack_tuple shape = ptxpack_tuple_of(2, (const int64_t[]){rows, columns});
    return ptxpack_make_identity_layout(&shape);
}

/* (thread, rows, columns) from (thread, (...)): the parts that `coords` picks of l, each made one mode. */
OWN_FRAME ptxpack_layout arrange(const ptxpack_layout *l, const char *thread, const char *rows,
                                 const char *columns)
{
    const char    *coords[3] = {thread, rows, columns};
    ptxpack_layout modes[3];
    for (int i = 0; i < 3; i++) {
        ptxpack_tuple coord = ptxpack_tuple_parse(coords[i]);
        modes[i] = ptxpack_layout_slice(&coord, l);
        modes[i] = ptxpack_coalesce(&modes[i], NULL);
    }
    return ptxpack_layout_join(3, modes);
}

/* ---- tiles ---------------------------------------------------------------------------------------- */
/* Columns that lie side by side: the largest power of two in HEAD_DIM, so that a swizzle can mix a row's
 * chunks with the row's number.  The tile is such column blocks one after another. */
static int64_t block_columns(int64_t head_dim) { return head_dim & -head_dim; }

OWN_FRAME ptxpack_layout plain_tile(int64_t rows, int64_t head_dim)
{
    int64_t        width = block_columns(head_dim);
    const int64_t  shape[2] = {rows, width}, stride[2] = {width, 1};
    ptxpack_tuple  whole = ptxpack_tuple_of(2, (const int64_t[]){rows, head_dim});
    ptxpack_layout block = ints(2, shape, stride);
    ptxpack_layout tiled = ptxpack_tile_to_shape(&block, &whole, NULL);
    return ptxpack_coalesce(&tiled, &whole);
}

/* Threads that copy one row: a full line of 128 bytes where a row has one. */
static int64_t row_lanes(const attention_layout *l)
{
    int64_t width = block_columns(l->head_dim);
    return (width < 64 ? width : 64) / CHUNK;
}

static void place_tiles(attention_layout *l)
{
    l->plain_q = plain_tile(l->block_m, l->head_dim);
    l->plain_kv = plain_tile(l->block_n, l->head_dim);
    l->stage_bytes = ptxpack_cosize(&l->plain_kv) * ELEMENT_BITS / 8;
    l->smem_q = 0;
    l->smem_k = ptxpack_cosize(&l->plain_q) * ELEMENT_BITS / 8;
    l->smem_v = l->smem_k + l->stages * l->stage_bytes;
    l->shared_bytes = l->smem_v + l->stages * l->stage_bytes;
}

/* ---- who does what -------------------------------------------------------------------------------- */
enum { K_OF_SM75 = 8 };

const char *ptxpack_attention_instruction(const attention_layout *l, ptxpack_dtype dtype)
{
    return l->mma_k == K_OF_SM75   ? "SM75_16x8x8_F32F16F16F32_TN"
           : dtype == PTXPACK_BF16 ? "SM80_16x8x16_F32BF16BF16F32_TN"
                                   : "SM80_16x8x16_F32F16F16F32_TN";
}

/* The fragments of two k8 instructions, side by side, and those of bf16 are laid out as those of this one.
 * Warp w owns rows 16 M_TILES w ..: its 16-row tiles are neighbours, all warps' tiles together BLOCK_M
 * rows. */
OWN_FRAME ptxpack_tiled_mma tile_mma(const attention_layout *l)
{
    ptxpack_mma_atom atom;
    ptxpack_status   status = ptxpack_mma_atom_find("SM80_16x8x16_F32F16F16F32_TN", &atom);
    if (status != PTXPACK_OK)
        return (ptxpack_tiled_mma){.status = status};
    const int64_t  extents[3] = {16, l->warps, l->m_tiles}, strides[3] = {1, 16 * l->m_tiles, 16};
    ptxpack_tuple  sixteen = ptxpack_int(16), atoms = ptxpack_tuple_of(3, (const int64_t[]){l->warps, 1, 1});
    ptxpack_layout warps = ptxpack_make_layout_left(&atoms);
    ptxpack_layout modes[3] = {ints(3, extents, strides), ptxpack_tiler_of(&sixteen),
                               ptxpack_tiler_of(&sixteen)};
    ptxpack_layout permutation = ptxpack_make_tiler(3, modes);
    return ptxpack_make_tiled_mma(&atom, &warps, &permutation);
}

/* Neighbouring threads along a row; of the O tile each warp only its own rows. */
OWN_FRAME ptxpack_tiled_copy copy_rows(const attention_layout *l, const char *name, bool by_warp)
{
    ptxpack_copy_atom atom;
    ptxpack_status    status = ptxpack_copy_atom_find(name, &atom);
    if (status != PTXPACK_OK)
        return (ptxpack_tiled_copy){.status = status};
    int64_t            lanes = row_lanes(l), rows = (by_warp ? 32 : 32 * l->warps) / lanes;
    int64_t            copies = by_warp ? l->warps : 1;
    const int64_t      row_extents[2] = {rows, copies}, row_strides[2] = {lanes, 32};
    const int64_t      lane_extent = lanes, one = 1;
    ptxpack_layout     by_row = ints(2, row_extents, row_strides), by_lane = ints(1, &lane_extent, &one);
    ptxpack_layout     threads = pair(&by_row, &by_lane);
    ptxpack_layout     values = ptxpack_layout_parse("(1,8):(0,1)");
    ptxpack_tiled_copy copy = ptxpack_make_tiled_copy(&atom, ELEMENT_BITS, &threads, &values);
    const int64_t      places[2] = {1, 16 * l->m_tiles};
    ptxpack_layout     owned = ints(2, row_extents, places), tiler = tile(&owned, lanes * CHUNK);
    return by_warp && copy.status == PTXPACK_OK
               ? ptxpack_make_tiled_copy_tv(&atom, ELEMENT_BITS, &copy.layout_tv, &tiler)
               : copy;
}

OWN_FRAME ptxpack_layout access_of(const ptxpack_tiled_copy *copy, const ptxpack_layout *tensor)
{
    ptxpack_layout all = ptxpack_copy_tidfrg(copy, PTXPACK_SRC, tensor);
    return arrange(&all, "(_,0,0)", "(0,(0,_),(_,0))", "(0,0,(0,_))");
}

static void describe(attention_layout *l, attention_access_id id, const char *name, const char *atom, bool of_q,
                     int bytes, ptxpack_layout offsets)
{
    l->access[id] =
        (attention_access){.name = name, .atom = atom, .of_q = of_q, .bytes = bytes, .offsets = offsets};
}

/* A tile after the places in it: from (thread, ...) to the element. */
OWN_FRAME void describe_loads(attention_layout *l)
{
    const char        *atom = l->cp_async ? "SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>" : "UniversalCopy<uint128_t>";
    ptxpack_layout     q = identity(l->block_m, l->head_dim), kv = identity(l->block_n, l->head_dim);
    ptxpack_tiled_copy load = copy_rows(l, atom, false);
    q = access_of(&load, &q);
    l->load_place = access_of(&load, &kv);
    describe(l, ACCESS_LOAD_Q, "Q to shared memory", atom, true, 16, ptxpack_composition(&l->plain_q, &q));
    describe(l, ACCESS_LOAD_KV, "K, V to shared memory", atom, false, 16,
             ptxpack_composition(&l->plain_kv, &l->load_place));
}

OWN_FRAME void describe_output(attention_layout *l)
{
    const char        *atom = "UniversalCopy<uint128_t>";
    ptxpack_layout     o = identity(l->block_m, l->head_dim);
    ptxpack_tiled_copy store = copy_rows(l, atom, true);
    l->o_load_place = access_of(&store, &o);
    describe(l, ACCESS_O_LOAD, "O to global memory", atom, true, 16,
             ptxpack_composition(&l->plain_q, &l->o_load_place));
}

/* ldmatrix of an operand: tv deals tiles of `tiler` out to the threads as the MMA wants them. */
OWN_FRAME void describe_operand(attention_layout *l, attention_access_id id, const char *name,
                                const char *atom_name, const ptxpack_layout *tv, const ptxpack_layout *tiler,
                                const ptxpack_layout *tensor)
{
    ptxpack_copy_atom atom;
    l->status = l->status == PTXPACK_OK ? ptxpack_copy_atom_find(atom_name, &atom) : l->status;
    if (l->status != PTXPACK_OK)
        return;
    ptxpack_tiled_copy copy = ptxpack_make_tiled_copy_tv(&atom, ELEMENT_BITS, tv, tiler);
    describe(l, id, name, atom_name, id == ACCESS_Q, 16, access_of(&copy, tensor));
}

OWN_FRAME void describe_operand_a(attention_layout *l)
{
    ptxpack_tuple  tile = ptxpack_tuple_of(2, (const int64_t[]){l->block_m, 16});
    ptxpack_layout tv = ptxpack_mma_layout_tv(&l->mma, PTXPACK_A), tiler = ptxpack_tiler_of(&tile);
    describe_operand(l, ACCESS_Q, "Q fragments", "SM75_U32x4_LDSM_N", &tv, &tiler, &l->plain_q);
}

OWN_FRAME void describe_operands_b(attention_layout *l)
{
    static const int columns_first[2] = {1, 0}, rows_first[3] = {0, 2, 1};
    ptxpack_tuple    tile = ptxpack_tuple_of(2, (const int64_t[]){16, 16});
    ptxpack_layout   tv = ptxpack_mma_layout_tv(&l->mma, PTXPACK_B), tiler = ptxpack_tiler_of(&tile);
    ptxpack_layout   v = ptxpack_layout_select(&l->plain_kv, 2, columns_first); /* N x K of P V */
    describe_operand(l, ACCESS_K, "K fragments", "SM75_U32x4_LDSM_N", &tv, &tiler, &l->plain_kv);
    describe_operand(l, ACCESS_V, "V fragments", "SM75_U16x8_LDSM_T", &tv, &tiler, &v);
    l->access[ACCESS_V].offsets = ptxpack_layout_select(&l->access[ACCESS_V].offsets, 3, rows_first);
}

OWN_FRAME void describe_accumulators(attention_layout *l)
{
    ptxpack_layout places = identity(l->block_m, l->head_dim);
    ptxpack_layout c = ptxpack_mma_thrfrg(&l->mma, PTXPACK_C, &places);
    l->c_place = arrange(&c, "(_,0)", "(0,((0,_),(_,0)))", "(0,(0,(0,_)))");
    describe(l, ACCESS_O_STORE, "O to shared memory", "st.shared.b32", true, 4,
             ptxpack_composition(&l->plain_q, &l->c_place));
}

/* ---- the swizzle ---------------------------------------------------------------------------------- */
static ptxpack_bank_access bank_access(const attention_layout *l, attention_access_id id,
                                       const ptxpack_layout *offsets)
{
    return (ptxpack_bank_access){.offsets = offsets, .bytes = l->access[id].bytes};
}

/* One swizzle for all tiles: K and V are found again by the XOR that wrote them, O lies in Q's tile.  All
 * warps and steps of an access are alike, so the search looks at the first of each that K and V see; all
 * of them are counted by ptxpack_attention_banks, which the tests do for every row. */
OWN_FRAME void find_swizzle(attention_layout *l)
{
    const ptxpack_layout one = ptxpack_layout_parse("<32,1,1>");
    ptxpack_layout       first[ACCESS_COUNT];
    ptxpack_bank_access  accesses[ACCESS_COUNT];
    int                  count = 0;
    for (int id = 0; id < ACCESS_COUNT; id++)
        if (!l->access[id].of_q) {
            first[count] = ptxpack_composition(&l->access[id].offsets, &one);
            accesses[count] = bank_access(l, (attention_access_id)id, &first[count]);
            count++;
        }
    l->status = ptxpack_find_swizzle(&l->plain_kv, ELEMENT_BITS, count, accesses, &l->swizzle);
    if (l->status != PTXPACK_OK)
        return;
    l->q = ptxpack_make_composed(l->swizzle, 0, &l->plain_q);
    l->kv = ptxpack_make_composed(l->swizzle, 0, &l->plain_kv);
    l->status = l->q.shape.status != PTXPACK_OK ? l->q.shape.status : l->kv.shape.status;
}

ptxpack_banks ptxpack_attention_banks(const attention_layout *l, attention_access_id id)
{
    ptxpack_layout      swizzled = ptxpack_make_composed(l->swizzle, 0, &l->access[id].offsets);
    ptxpack_bank_access access = bank_access(l, id, &swizzled);
    return ptxpack_bank_conflicts(&access, ELEMENT_BITS);
}

/* ---- all of it ------------------------------------------------------------------------------------ */
static ptxpack_status derivation_status(const attention_layout *l)
{
    ptxpack_status status = l->mma.status;
    for (int id = 0; id < ACCESS_COUNT && status == PTXPACK_OK; id++)
        status = l->access[id].offsets.shape.status;
    const ptxpack_layout *const others[] = {&l->plain_q, &l->plain_kv, &l->load_place, &l->o_load_place,
                                            &l->c_place};
    for (size_t i = 0; i < sizeof others / sizeof others[0] && status == PTXPACK_OK; i++)
        status = others[i]->shape.status;
    return status;
}

static void refuse_row(const ptxpack_variant *row, attention_layout *l, const char *why)
{
    l->status = ptxpack_fail(NULL, PTXPACK_E_UNSUPPORTED, "kernels.def, row %s: %s", row->id, why);
}

static const char *contradiction(const attention_layout *l, const ptxpack_variant *row)
{
    return l->head_dim < 8 || l->head_dim % 32 != 0 ? "HEAD_DIM is no multiple of 32"
           : l->block_n < 8 || l->stages < 1        ? "BLOCK_N or STAGES is missing"
           : l->warps < 1 || l->m_tiles < 1 || l->block_m != 16 * l->warps * l->m_tiles
               ? "BLOCK_M is not 16 * WARPS * M_TILES"
           : row->threads != 32 * l->warps ? "threads is not 32 * WARPS"
                                           : NULL;
}

static void take_parameters(attention_layout *l, const ptxpack_variant *row)
{
    memset(l, 0, sizeof *l);
    l->head_dim = ptxpack_variant_parameter(row, "HEAD_DIM", 0);
    l->block_m = ptxpack_variant_parameter(row, "BLOCK_M", 0);
    l->block_n = ptxpack_variant_parameter(row, "BLOCK_N", 0);
    l->warps = ptxpack_variant_parameter(row, "WARPS", 0);
    l->m_tiles = ptxpack_variant_parameter(row, "M_TILES", 0);
    l->stages = ptxpack_variant_parameter(row, "STAGES", 0);
    l->mma_k = ptxpack_variant_parameter(row, "MMA_K", 0);
    l->cp_async = ptxpack_variant_parameter(row, "CP_ASYNC", 0) != 0;
}

ptxpack_status ptxpack_attention_layout(const ptxpack_variant *row, attention_layout *l)
{
    take_parameters(l, row);
    const char *wrong = contradiction(l, row);
    if (wrong != NULL) {
        refuse_row(row, l, wrong);
        return l->status;
    }
    place_tiles(l);
    l->mma = tile_mma(l);
    describe_loads(l);
    describe_output(l);
    describe_operand_a(l);
    describe_operands_b(l);
    describe_accumulators(l);
    if (l->status == PTXPACK_OK)
        l->status = derivation_status(l);
    if (l->status == PTXPACK_OK)
        find_swizzle(l);
    if (l->status != PTXPACK_OK) {
        refuse_row(row, l, ptxpack_detail(NULL));
    } else if (row->shared_bytes != l->shared_bytes) {
        char why[96];
        snprintf(why, sizeof why, "shared_bytes is %d, its tiles take %lld", row->shared_bytes,
                 (long long)l->shared_bytes);
        refuse_row(row, l, why);
    }
    return l->status;
}

/* ---- once in a process ---------------------------------------------------------------------------- */
static ptxpack_status derive(const ptxpack_variant *row, void *out)
{
    return ptxpack_attention_layout(row, (attention_layout *)out);
}

const attention_layout *ptxpack_attention_layout_of(const ptxpack_variant *row, attention_layout **own)
{
    static row_memo memo;
    void           *made;
    const void     *layout = row_memo_get(&memo, row, sizeof(attention_layout), derive, &made);
    *own = (attention_layout *)made;
    return (const attention_layout *)layout;
}
