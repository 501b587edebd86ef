/* wgmma_fp8_layout.c - V and its transpose in shared memory, and which thread moves what. */
#include "wgmma_layout.h"

#include <string.h>

#include "host/plan/tiles.h"
#include "loader/loader.h"

enum { BITS = 8, SWIZZLE_SHIFT = 3, K = 32 /* keys of an instruction */ };

/* rows x columns bytes in boxes that are as wide as a swizzle spans, one after another. */
OWN_FRAME ptxpack_layout tile_of(int64_t rows, int64_t columns, int64_t box)
{
    ptxpack_wgmma_swizzle swizzle = box == 128  ? PTXPACK_WGMMA_128B
                                    : box == 64 ? PTXPACK_WGMMA_64B
                                                : PTXPACK_WGMMA_32B;
    const int64_t         extents[2] = {rows, columns};
    ptxpack_layout        atom = ptxpack_wgmma_atom(PTXPACK_WGMMA_K, swizzle, BITS);
    ptxpack_tuple         shape = ptxpack_tuple_of(2, extents);
    return ptxpack_tile_to_shape(&atom, &shape, NULL);
}

/* A warp takes 16 channels; ldmatrix reads 32 keys of them, one row for each lane. */
OWN_FRAME void describe_threads(attention_fp8_layout *l)
{
    const int64_t from_extents[2] = {32, 4}, from_strides[2] = {l->v_row, 16};
    /* row of the matrix; even or odd channels; lower or upper 16 slots; warp */
    const int64_t  row = l->vt_row, to_extents[4] = {8, 2, 2, 4}, to_strides[4] = {2 * row, row, 16, 16 * row};
    const int64_t  key_extents[5] = {2, 2, 4, 2, l->block_n / K}, key_strides[5] = {1, 8, 2, 16, K};
    ptxpack_layout from = tile_ints(2, from_extents, from_strides), to = tile_ints(4, to_extents, to_strides);
    l->from = ptxpack_layout_join(1, &from);
    l->to = ptxpack_layout_join(1, &to);
    l->key_of = tile_ints(5, key_extents, key_strides);
}

static const char *contradiction(const attention_fp8_layout *l)
{
    int64_t d = l->head_dim, n = l->block_n;
    return d < 16 || d % 16 != 0 || d > 256                  ? "HEAD_DIM is not a multiple of 16 up to 256"
           : n < K || n % K != 0 || n > 256                  ? "BLOCK_N is not a multiple of 32 up to 256"
           : l->v_row != 128 && !(l->v_row == 64 && d == 64) ? "V_ROW is not 128, or 64 of HEAD_DIM 64"
                                                             : NULL;
}

ptxpack_status ptxpack_attention_fp8_layout(int64_t head_dim, int64_t block_n, int64_t v_row,
                                            attention_fp8_layout *l)
{
    memset(l, 0, sizeof *l);
    l->head_dim = head_dim;
    l->block_n = block_n;
    l->v_row = v_row;
    l->vt_row = block_n % 128 == 0 ? 128 : block_n % 64 == 0 ? 64 : 32;
    const char *wrong = contradiction(l);
    if (wrong != NULL)
        return l->status = ptxpack_fail(NULL, PTXPACK_E_UNSUPPORTED, "transposed V: %s", wrong);
    l->v = tile_of(block_n, (head_dim + v_row - 1) / v_row * v_row, v_row);
    l->vt = tile_of(head_dim, block_n, l->vt_row);
    l->operand = ptxpack_wgmma_descriptor(&l->vt, PTXPACK_WGMMA_K, BITS, head_dim);
    describe_threads(l);
    l->v_box_bytes = block_n * v_row;
    l->v_bytes = ptxpack_cosize(&l->v);
    l->vt_box_bytes = head_dim * l->vt_row;
    l->vt_bytes = head_dim * block_n;
    const ptxpack_status all[] = {l->v.shape.status,    l->vt.shape.status, l->operand.status,
                                  l->from.shape.status, l->to.shape.status, l->key_of.shape.status};
    for (size_t i = 0; i < sizeof all / sizeof all[0] && l->status == PTXPACK_OK; i++)
        l->status = all[i];
    return l->status;
}

/* ---- symbols ------------------------------------------------------------------------------------- */
static void add_mask(symbol_list *list, const char *name, const ptxpack_layout *tile)
{
    int64_t field = ((int64_t)1 << tile->swizzle.bits) - 1;
    if (!tile->composed || tile->swizzle.shift != SWIZZLE_SHIFT)
        symbol_refuse(list, name, tile, "it does not mix chunks with the bits three above");
    symbol_add(list, name, field << tile->swizzle.base);
}

OWN_FRAME void add_descriptor(symbol_list *list, const attention_fp8_layout *l)
{
    ptxpack_layout k = ptxpack_mode(&l->operand.steps, 1);
    int64_t        count = ptxpack_size(&k), inside = l->vt_row / K;
    int64_t        step = inside > 1 ? ptxpack_at(&k, 1) : 0;
    int64_t        box = count > inside ? ptxpack_at(&k, inside) : 0;
    for (int64_t i = 0; i < count; i++)
        if (ptxpack_at(&k, i) != i % inside * step + i / inside * box)
            symbol_refuse(list, "steps", &l->operand.steps, "they are not the same in each box");
    symbol_add_descriptor(list, "DESC_VT_LOW", "DESC_VT_HIGH", &l->operand);
    symbol_add(list, "DESC_VT_STEP", step);
    symbol_add(list, "DESC_VT_STEPS", inside);
    symbol_add(list, "DESC_VT_BOX", box);
}

void ptxpack_attention_fp8_symbols(const attention_fp8_layout *l, symbol_list *list)
{
    static const function_names from = FUNCTION("VT_FROM"), to = FUNCTION("VT_TO");
    symbol_add(list, "V_ROW", l->v_row);
    symbol_add(list, "V_BOX_BYTES", l->v_box_bytes);
    symbol_add(list, "VT_ROW", l->vt_row);
    symbol_add(list, "VT_BYTES", l->vt_bytes);
    symbol_add(list, "VT_BOX_BYTES", l->vt_box_bytes);
    add_mask(list, "V_SWIZZLE_MASK", &l->v);
    add_mask(list, "VT_SWIZZLE_MASK", &l->vt);
    symbol_add_function(list, &from, &l->from, -1, 1);
    symbol_add_function(list, &to, &l->to, -1, 1);
    add_descriptor(list, l);
}
