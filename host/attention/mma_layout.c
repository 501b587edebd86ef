/* mma_layout.c - the tiles of an attention row in shared memory, and how its threads share them. */
#include "mma_layout.h"

#include <string.h>

#include "check.h"
#include "loader/loader.h"

enum { ELEMENT_BITS = 16, CHUNK = 8 /* elements that a thread moves at once: 16 bytes */ };

/* ---- small pieces --------------------------------------------------------------------------------- */
static ptxpack_layout tile(const ptxpack_layout *rows, int64_t columns)
{
    ptxpack_tuple        extent = ptxpack_int(columns);
    const ptxpack_layout modes[2] = {*rows, ptxpack_tiler_of(&extent)};
    return ptxpack_make_tiler(2, modes);
}

/* (thread, rows, columns) from (thread, (...)): the parts that `coords` picks of l, each made one mode. */
static ptxpack_layout arrange(const ptxpack_layout *l, const char *thread, const char *rows,
                              const char *columns)
{
    const char *const coords[3] = {thread, rows, columns};
    return tile_arrange(l, 3, coords);
}

/* ---- tiles ---------------------------------------------------------------------------------------- */
/* Where K and V are bytes, two neighbours of a row are one element here: `kv_columns` of them. */
static bool has_bytes(const attention_mma_layout *l) { return l->kv_columns != l->head_dim; }

/* Blocks of q8_0 become f16 in shared memory: of STAGES tiles of K and of V as they are in memory, one of each. */
static void place_blocks(attention_mma_layout *l)
{
    const int64_t tile = l->stage_bytes, first = l->smem_k;
    l->stage_bytes = (int64_t)ptxpack_dtype_span(PTXPACK_Q8_0, (size_t)(l->block_n * l->head_dim));
    l->smem_raw_k = first;
    l->smem_raw_v = l->smem_raw_k + l->stages * l->stage_bytes;
    l->smem_k = l->smem_raw_v + l->stages * l->stage_bytes;
    l->smem_v = l->smem_k + tile;
    l->shared_bytes = l->smem_v + tile;
}

/* Rows of blocks that become fragments in registers: they lie as they are in memory, each in its slot. */
static void place_slots(attention_mma_layout *l)
{
    l->stage_bytes = l->block_n * l->slot;
    l->smem_v = l->smem_k + l->stages * l->stage_bytes;
    l->shared_bytes = l->smem_v + l->stages * l->stage_bytes;
}

/* Columns that lie side by side: the largest power of two in HEAD_DIM, so that a swizzle can mix a row's
 * chunks with the row's number.  The tile is such column blocks one after another.  Where K and V are bytes, Q's blocks
 * are as wide as theirs, so that one swizzle and one division of the threads serve both. */
static int64_t block_columns(const attention_mma_layout *l)
{
    enum { LINE = 64 /* 128 bytes */ };
    const int64_t width = l->kv_columns & -l->kv_columns;
    return has_bytes(l) && width > LINE ? LINE : width;
}

OWN_FRAME ptxpack_layout plain_tile(int64_t rows, int64_t columns, int64_t width)
{
    const int64_t  shape[2] = {rows, width}, stride[2] = {width, 1};
    ptxpack_tuple  whole = ptxpack_tuple_of(2, (const int64_t[]){rows, columns});
    ptxpack_layout block = tile_ints(2, shape, stride);
    ptxpack_layout tiled = ptxpack_tile_to_shape(&block, &whole, NULL);
    return ptxpack_coalesce(&tiled, &whole);
}

/* The threads that copy one row: a whole line of 128 bytes where a row is that long. */
static int64_t row_lanes(const attention_mma_layout *l)
{
    int64_t width = block_columns(l);
    return (width < 64 ? width : 64) / CHUNK;
}

static void place_tiles(attention_mma_layout *l)
{
    l->plain_q = plain_tile(l->block_m, l->head_dim, block_columns(l));
    l->plain_kv = plain_tile(l->block_n, l->kv_columns, block_columns(l));
    l->stage_bytes = ptxpack_cosize(&l->plain_kv) * ELEMENT_BITS / 8;
    l->smem_q = 0;
    l->smem_k = ptxpack_cosize(&l->plain_q) * ELEMENT_BITS / 8;
    l->smem_v = l->smem_k + l->stages * l->stage_bytes;
    l->shared_bytes = l->smem_v + l->stages * l->stage_bytes;
    if (l->slot > 0)
        place_slots(l);
    else if (l->blocks)
        place_blocks(l);
}

/* ---- who does what -------------------------------------------------------------------------------- */
/* Warp w owns rows 16 M_TILES w ..: its 16-row tiles are neighbours; all warps' tiles together are BLOCK_M
 * rows. */
OWN_FRAME ptxpack_tiled_mma tile_warps(const attention_mma_layout *l)
{
    const int64_t  extents[3] = {16, l->warps, l->m_tiles}, strides[3] = {1, 16 * l->m_tiles, 16};
    ptxpack_tuple  sixteen = ptxpack_int(16);
    ptxpack_layout m = tile_ints(3, extents, strides), n = ptxpack_tiler_of(&sixteen);
    return tile_mma(l->warps, 1, &m, &n);
}

/* Neighbouring threads copy neighbours along a row; of the O tile each warp copies only its own rows. */
OWN_FRAME ptxpack_tiled_copy copy_rows(const attention_mma_layout *l, const char *name, bool by_warp)
{
    ptxpack_copy_atom atom;
    ptxpack_status    status = ptxpack_copy_atom_find(name, &atom);
    if (status != PTXPACK_OK)
        return (ptxpack_tiled_copy){.status = status};
    int64_t        lanes = row_lanes(l), rows = (by_warp ? 32 : 32 * l->warps) / lanes;
    int64_t        copies = by_warp ? l->warps : 1;
    const int64_t  row_extents[2] = {rows, copies}, row_strides[2] = {lanes, 32};
    const int64_t  lane_extent = lanes, one = 1;
    ptxpack_layout by_row = tile_ints(2, row_extents, row_strides), by_lane = tile_ints(1, &lane_extent, &one);
    ptxpack_layout threads = tile_pair(&by_row, &by_lane);
    ptxpack_layout values = ptxpack_layout_parse("(1,8):(0,1)");
    ptxpack_tiled_copy copy = ptxpack_make_tiled_copy(&atom, ELEMENT_BITS, &threads, &values);
    const int64_t      places[2] = {1, 16 * l->m_tiles};
    ptxpack_layout     owned = tile_ints(2, row_extents, places), tiler = tile(&owned, lanes * CHUNK);
    return by_warp && copy.status == PTXPACK_OK
               ? ptxpack_make_tiled_copy_tv(&atom, ELEMENT_BITS, &copy.layout_tv, &tiler)
               : copy;
}

OWN_FRAME ptxpack_layout access_of(const ptxpack_tiled_copy *copy, const ptxpack_layout *tensor)
{
    ptxpack_layout all = ptxpack_copy_tidfrg(copy, PTXPACK_SRC, tensor);
    return arrange(&all, "(_,0,0)", "(0,(0,_),(_,0))", "(0,0,(0,_))");
}

static void describe(attention_mma_layout *l, attention_mma_access_id id, const char *name, const char *atom,
                     bool of_q, int bytes, ptxpack_layout offsets)
{
    l->access[id] =
        (attention_mma_access){.name = name, .atom = atom, .of_q = of_q, .bytes = bytes, .offsets = offsets};
}

/* Compose the tile with the places in it: (thread, ...) -> element. */
OWN_FRAME void describe_loads(attention_mma_layout *l)
{
    const char    *atom = l->cp_async ? "SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>" : "UniversalCopy<uint128_t>";
    ptxpack_layout q = tile_identity(l->block_m, l->head_dim), kv = tile_identity(l->block_n, l->kv_columns);
    ptxpack_tiled_copy load = copy_rows(l, atom, false);
    q = access_of(&load, &q);
    l->load_place = access_of(&load, &kv);
    describe(l, MMA_ACCESS_LOAD_Q, "Q to shared memory", atom, true, 16, ptxpack_composition(&l->plain_q, &q));
    describe(l, MMA_ACCESS_LOAD_KV, "K, V to shared memory", atom, false, 16,
             ptxpack_composition(&l->plain_kv, &l->load_place));
}

OWN_FRAME void describe_output(attention_mma_layout *l)
{
    const char        *atom = "UniversalCopy<uint128_t>";
    ptxpack_layout     o = tile_identity(l->block_m, l->head_dim);
    ptxpack_tiled_copy store = copy_rows(l, atom, true);
    l->o_load_place = access_of(&store, &o);
    describe(l, MMA_ACCESS_O_LOAD, "O to global memory", atom, true, 16,
             ptxpack_composition(&l->plain_q, &l->o_load_place));
}

/* ldmatrix of an operand: tv gives the tiles of `tiler` to the threads as the MMA needs them. */
OWN_FRAME void describe_operand(attention_mma_layout *l, attention_mma_access_id id, const char *name,
                                const char *atom_name, const ptxpack_layout *tv, const ptxpack_layout *tiler,
                                const ptxpack_layout *tensor)
{
    ptxpack_copy_atom atom;
    l->status = l->status == PTXPACK_OK ? ptxpack_copy_atom_find(atom_name, &atom) : l->status;
    if (l->status != PTXPACK_OK)
        return;
    ptxpack_tiled_copy copy = ptxpack_make_tiled_copy_tv(&atom, ELEMENT_BITS, tv, tiler);
    describe(l, id, name, atom_name, id == MMA_ACCESS_Q, 16, access_of(&copy, tensor));
}

OWN_FRAME void describe_operand_a(attention_mma_layout *l)
{
    ptxpack_tuple  tile = ptxpack_tuple_of(2, (const int64_t[]){l->block_m, 16});
    ptxpack_layout tv = ptxpack_mma_layout_tv(&l->mma, PTXPACK_A), tiler = ptxpack_tiler_of(&tile);
    describe_operand(l, MMA_ACCESS_Q, "Q fragments", "SM75_U32x4_LDSM_N", &tv, &tiler, &l->plain_q);
}

OWN_FRAME void describe_operands_b(attention_mma_layout *l)
{
    static const int columns_first[2] = {1, 0}, rows_first[3] = {0, 2, 1};
    ptxpack_tuple    tile = ptxpack_tuple_of(2, (const int64_t[]){16, 16});
    ptxpack_layout   tv = ptxpack_mma_layout_tv(&l->mma, PTXPACK_B), tiler = ptxpack_tiler_of(&tile);
    ptxpack_layout   v = ptxpack_layout_select(&l->plain_kv, 2, columns_first); /* N x K of P V */
    describe_operand(l, MMA_ACCESS_K, "K fragments", "SM75_U32x4_LDSM_N", &tv, &tiler, &l->plain_kv);
    describe_operand(l, MMA_ACCESS_V, "V fragments", "SM75_U16x8_LDSM_T", &tv, &tiler, &v);
    l->access[MMA_ACCESS_V].offsets = ptxpack_layout_select(&l->access[MMA_ACCESS_V].offsets, 3, rows_first);
}

/* Where K and V are bytes, neighbouring columns of O are in two tiles, those of even columns and those of odd ones, so that a
 * thread has the four columns from 4 t on: twice those that it has of a tile with half of the columns. */
OWN_FRAME void describe_pairs(attention_mma_layout *l)
{
    const int64_t  extents[2] = {l->block_m, l->kv_columns}, strides[2] = {1, 2 * l->block_m};
    ptxpack_layout pairs = tile_ints(2, extents, strides), tile = ptxpack_composition(&l->plain_q, &pairs);
    ptxpack_layout places = tile_identity(l->block_m, l->kv_columns);
    ptxpack_layout c = ptxpack_mma_thrfrg(&l->mma, PTXPACK_C, &places);
    c = arrange(&c, "(_,0)", "(0,((0,_),(_,0)))", "(0,(0,(0,_)))");
    describe(l, MMA_ACCESS_O_STORE, "O to shared memory", "st.shared.v2.b32", true, 8,
             ptxpack_composition(&tile, &c));
}

OWN_FRAME void describe_accumulators(attention_mma_layout *l)
{
    ptxpack_layout places = tile_identity(l->block_m, l->head_dim);
    ptxpack_layout c = ptxpack_mma_thrfrg(&l->mma, PTXPACK_C, &places);
    l->c_place = arrange(&c, "(_,0)", "(0,((0,_),(_,0)))", "(0,(0,(0,_)))");
    describe(l, MMA_ACCESS_O_STORE, "O to shared memory", "st.shared.b32", true, 4,
             ptxpack_composition(&l->plain_q, &l->c_place));
}

/* ---- the swizzle ---------------------------------------------------------------------------------- */
/* One swizzle for all tiles: K and V are found again by the XOR that wrote them, and O lies in Q's tile.  The
 * search looks at the accesses to K and V; the tests count the conflicts of all accesses of every row. */
OWN_FRAME void find_swizzle(attention_mma_layout *l)
{
    const ptxpack_layout *offsets[MMA_ACCESS_COUNT];
    int                   bytes[MMA_ACCESS_COUNT], count = 0;
    for (int id = 0; id < MMA_ACCESS_COUNT; id++)
        if (!l->access[id].of_q) {
            offsets[count] = &l->access[id].offsets;
            bytes[count++] = l->access[id].bytes;
        }
    l->status = tile_find_swizzle(&l->plain_kv, count, offsets, bytes, &l->swizzle);
    if (l->status != PTXPACK_OK)
        return;
    l->q = ptxpack_make_composed(l->swizzle, 0, &l->plain_q);
    l->kv = ptxpack_make_composed(l->swizzle, 0, &l->plain_kv);
    l->status = l->q.shape.status != PTXPACK_OK ? l->q.shape.status : l->kv.shape.status;
}

ptxpack_banks ptxpack_attention_mma_banks(const attention_mma_layout *l, attention_mma_access_id id)
{
    return tile_banks(l->swizzle, &l->access[id].offsets, l->access[id].bytes);
}

/* ---- all of it ------------------------------------------------------------------------------------ */
static ptxpack_status derivation_status(const attention_mma_layout *l)
{
    ptxpack_status status = l->mma.status;
    for (int id = 0; id < MMA_ACCESS_COUNT && status == PTXPACK_OK; id++)
        status = l->access[id].offsets.shape.status;
    const ptxpack_layout *const others[] = {&l->plain_q, &l->plain_kv, &l->load_place, &l->o_load_place,
                                            &l->c_place};
    for (size_t i = 0; i < sizeof others / sizeof others[0] && status == PTXPACK_OK; i++)
        status = others[i]->shape.status;
    return status;
}

static const char *contradiction(const attention_mma_layout *l, const ptxpack_variant *row)
{
    return l->head_dim < 8 || l->head_dim % 32 != 0 ? "HEAD_DIM is not a multiple of 32"
           : l->block_n < 8 || l->stages < 1        ? "BLOCK_N or STAGES is missing"
           : l->warps < 1 || l->m_tiles < 1 || l->block_m != 16 * l->warps * l->m_tiles
               ? "BLOCK_M is not 16 * WARPS * M_TILES"
           : row->threads != 32 * l->warps ? "threads is not 32 * WARPS"
                                           : NULL;
}

static void take_parameters(attention_mma_layout *l, const ptxpack_variant *row)
{
    memset(l, 0, sizeof *l);
    l->head_dim = ptxpack_variant_parameter(row, "HEAD_DIM", 0);
    l->block_m = ptxpack_variant_parameter(row, "BLOCK_M", 0);
    l->block_n = ptxpack_variant_parameter(row, "BLOCK_N", 0);
    l->warps = ptxpack_variant_parameter(row, "WARPS", 0);
    l->m_tiles = ptxpack_variant_parameter(row, "M_TILES", 0);
    l->stages = ptxpack_variant_parameter(row, "STAGES", 0);
    l->mma_k = ptxpack_variant_parameter(row, "MMA_K", 0);
    l->rows = ptxpack_variant_parameter(row, "ROWS", 0);
    l->cp_async = ptxpack_variant_parameter(row, "CP_ASYNC", 0) != 0;
    l->slot = ptxpack_variant_parameter(row, "KV_SLOT", 0);
    l->blocks = attention_row_kv(row) == ATTENTION_KV_BLOCKS && l->slot == 0;
    l->kv_columns = attention_row_kv(row) == ATTENTION_KV_BYTES ? l->head_dim / 2 : l->head_dim;
}

/* All that follows from the parameters. */
static ptxpack_status derive(const ptxpack_variant *row, attention_mma_layout *l)
{
    place_tiles(l);
    l->mma = tile_warps(l);
    describe_loads(l);
    describe_output(l);
    describe_operand_a(l);
    describe_operands_b(l);
    describe_accumulators(l);
    if (has_bytes(l))
        describe_pairs(l);
    if (l->status == PTXPACK_OK)
        l->status = derivation_status(l);
    if (l->status == PTXPACK_OK)
        find_swizzle(l);
    if (l->status != PTXPACK_OK)
        l->status = tile_refuse_row(row, "%s", ptxpack_detail(NULL));
    return l->status;
}

ptxpack_status ptxpack_attention_mma_layout(const ptxpack_variant *row, attention_mma_layout *l)
{
    enum { F32 = 4 };
    take_parameters(l, row);
    const char *wrong = contradiction(l, row);
    if (wrong != NULL)
        return l->status = tile_refuse_row(row, "%s", wrong);
    if (derive(row, l) != PTXPACK_OK)
        return l->status;
    l->smem_factors = l->shared_bytes;
    l->shared_bytes += has_bytes(l) || l->blocks ? l->block_m * F32 : 0;
    if (row->shared_bytes != l->shared_bytes)
        l->status = tile_refuse_row(row, "shared_bytes is %d, its tiles take %lld", row->shared_bytes,
                                    (long long)l->shared_bytes);
    return l->status;
}

/* ---- a warp that works alone ------------------------------------------------------------------------ */
ptxpack_status ptxpack_attention_decode_layout(const ptxpack_variant *row, attention_mma_layout *l)
{
    enum { F32 = 4, STATE = 4 * F32 /* bytes of a row's sums */, FLAG = 16 };
    take_parameters(l, row);
    int64_t     warps = l->warps, rows = l->rows;
    const char *wrong = warps < 1 || l->m_tiles != 1 || l->block_m != 16 ? "WARPS, M_TILES or BLOCK_M is wrong"
                        : rows != 8 && rows != 16                        ? "ROWS is neither 8 nor 16"
                        : l->head_dim < 32 || (l->head_dim & (l->head_dim - 1)) != 0
                            ? "HEAD_DIM is not a power of two from 32 on"
                        : l->block_n < 16 || l->stages < 1 ? "BLOCK_N or STAGES is missing"
                        : row->threads != 32 * warps       ? "threads is not 32 * WARPS"
                                                           : NULL;
    if (wrong != NULL)
        return l->status = tile_refuse_row(row, "%s", wrong);
    l->warps = 1;
    if (derive(row, l) != PTXPACK_OK)
        return l->status;
    int64_t output = rows * l->head_dim * F32 -
                     (l->blocks ? l->smem_raw_k : l->smem_k); /* what O needs beyond Q */
    if (output > 0) {
        l->smem_raw_k += output;
        l->smem_raw_v += output;
        l->smem_k += output;
        l->smem_v += output;
        l->shared_bytes += output;
    }
    int64_t bytes = warps * (l->shared_bytes + rows * STATE) + FLAG;
    if (row->shared_bytes != bytes)
        l->status = tile_refuse_row(row, "shared_bytes is %d, its warps' parts take %lld", row->shared_bytes,
                                    (long long)bytes);
    return l->status;
}
