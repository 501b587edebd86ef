/* wgmma_maps.c - the tensor maps of ptx/attention/wgmma.ptx: extents, strides and boxes that TMA is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "host/attention/inspect.h"
#include "loader/loader.h"

/* Three sequences of 77 keys and two key heads. */
static ptxpack_attention_desc problem(ptxpack_dtype dtype, int32_t rows, int32_t heads, int32_t head_dim)
{
    return (ptxpack_attention_desc){.size = sizeof(ptxpack_attention_desc),
                                    .dtype = dtype,
                                    .batch = 3,
                                    .seqlen_q = rows,
                                    .seqlen_kv = 77,
                                    .heads_q = heads,
                                    .heads_kv = 2,
                                    .head_dim = head_dim};
}

static attention_geometry resolved(const ptxpack_attention_desc *desc)
{
    attention_geometry g;
    char               line[PLAN_LINE];
    assert_int_equal(ptxpack_attention_resolve(desc, &g, line), PTXPACK_OK);
    return g;
}

static void make_map(const ptxpack_attention_desc *desc, int tensor, ptxpack_tma_box *box)
{
    const attention_geometry g = resolved(desc);
    assert_int_equal(ptxpack_attention_wgmma_map(desc, &g, tensor, box), PTXPACK_OK);
}

static void maps_have_the_tensors_numbers(void **state)
{
    (void)state;
    ptxpack_attention_desc desc = problem(PTXPACK_BF16, 100, 4, 72);
    attention_geometry     g;
    ptxpack_tma_box        box = {.status = PTXPACK_OK};
    make_map(&desc, TENSOR_K, &box);
    const uint64_t dims[4] = {72, 77, 2, 3}, strides[3] = {2 * 72 * 2, 72 * 2, 77 * 2 * 72 * 2};
    assert_memory_equal(box.global_dim, dims, sizeof dims);
    assert_memory_equal(box.global_strides, strides, sizeof strides);
    assert_int_equal(box.type, PTXPACK_TMA_BFLOAT16);
    desc.batch = desc.heads_kv = desc.heads_q = 1; /* strides without meaning are set to valid ones */
    make_map(&desc, TENSOR_Q, &box);
    assert_int_equal(box.global_dim[1], 100);
    for (int i = 0; i < 3; i++)
        assert_true(box.global_strides[i] > 0 && box.global_strides[i] % 16 == 0);
    desc.batch = 2;
    desc.k = (ptxpack_strides){0, 72, 0}; /* one set of keys for both */
    g = resolved(&desc);
    assert_int_equal(ptxpack_attention_wgmma_map(&desc, &g, TENSOR_K, &box), PTXPACK_E_UNSUPPORTED);
    assert_string_equal(ptxpack_detail(NULL), "k.batch: TMA has no stride 0");
    desc.k = (ptxpack_strides){INT64_C(1) << 39, 72, 0}; /* 2^40 bytes */
    g = resolved(&desc);
    assert_int_equal(ptxpack_attention_wgmma_map(&desc, &g, TENSOR_K, &box), PTXPACK_E_UNSUPPORTED);
    assert_non_null(strstr(ptxpack_detail(NULL), "k.batch"));
    desc.k.batch -= 8;
    make_map(&desc, TENSOR_K, &box);
}

/* Heads come before rows, and a box has as many elements as before. */
static void maps_of_packed_heads_have_heads_first(void **state)
{
    (void)state;
    ptxpack_attention_desc desc = problem(PTXPACK_BF16, 10, 8, 72);
    ptxpack_tma_box        box = {.status = PTXPACK_OK, .box_dim = {64, 128, 1, 1}};
    make_map(&desc, TENSOR_Q, &box);
    attention_wgmma_pack_box(&box, 4);
    const uint64_t dims[4] = {72, 8, 10, 3}, strides[3] = {72 * 2, 8 * 72 * 2, 10 * 8 * 72 * 2};
    const uint32_t taken[4] = {64, 4, 32, 1};
    assert_memory_equal(box.global_dim, dims, sizeof dims);
    assert_memory_equal(box.global_strides, strides, sizeof strides);
    assert_memory_equal(box.box_dim, taken, sizeof taken);
}

/* A box of O has a warp's rows: of more heads than that, some of one query's. */
static void boxes_of_many_heads_have_some_of_them(void **state)
{
    (void)state;
    ptxpack_tma_box q = {.global_dim = {576, 2, 128, 3},
                         .global_strides = {9, 9, 9},
                         .box_dim = {64, 64, 1, 1}};
    ptxpack_tma_box o = q;
    o.box_dim[1] = 16;
    attention_wgmma_pack_box(&q, 64);
    attention_wgmma_pack_box(&o, 64);
    assert_int_equal(q.box_dim[1], 64);
    assert_int_equal(q.box_dim[2], 1);
    assert_int_equal(o.box_dim[1], 16);
    assert_int_equal(o.box_dim[2], 1);
}

/* All chunks of a key head's columns, in the order of the tile's boxes; only where a box is a whole block. */
static void wide_boxes_have_chunks_in_place_of_heads(void **state)
{
    (void)state;
    static attention_wgmma_layout layout;
    const ptxpack_variant        *row = ptxpack_variant_find("attention_wgmma_sm90_d512_64x32");
    assert_int_equal(ptxpack_attention_wgmma_layout(row, &layout), PTXPACK_OK);
    ptxpack_attention_desc desc = problem(PTXPACK_BF16, 100, 4, 512);
    attention_geometry     g;
    ptxpack_tma_box        box = {.status = PTXPACK_OK, .box_dim = {64, 32, 1, 1}};
    g = resolved(&desc);
    assert_true(attention_wgmma_has_wide_boxes(&desc, &g, row));
    assert_int_equal(attention_wgmma_head_chunks(&desc, &g), 8);
    make_map(&desc, TENSOR_K, &box);
    attention_wgmma_widen_box(&box, &layout, 512, 2, 8);
    const uint64_t dims[4] = {64, 77, 16, 3}, strides[3] = {2 * 1024, 128, 77 * 2 * 1024};
    const uint32_t taken[4] = {64, 32, 8, 1};
    assert_memory_equal(box.global_dim, dims, sizeof dims);
    assert_memory_equal(box.global_strides, strides, sizeof strides);
    assert_memory_equal(box.box_dim, taken, sizeof taken);
    desc.k = (ptxpack_strides){77 * 1040, 1040, 520}; /* no whole chunks from head to head */
    g = resolved(&desc);
    assert_false(attention_wgmma_has_wide_boxes(&desc, &g, row));
    desc.k = (ptxpack_strides){0, 0, 0};
    desc.head_dim = 504; /* columns 504 to 511 are zeros */
    g = resolved(&desc);
    assert_false(attention_wgmma_has_wide_boxes(&desc, &g, row));
    desc.head_dim = 512;
    desc.kv_rows = PTXPACK_ROWS_PAGED;
    for (desc.page_rows = 16; desc.page_rows <= 64; desc.page_rows *= 2) {
        desc.rows_kv = desc.table_width = 128 / desc.page_rows;
        g = resolved(&desc);
        assert_int_equal(attention_wgmma_has_wide_boxes(&desc, &g, row), desc.page_rows >= 32);
    }
}

/* Rows (2^30 - length + i, end, 2^30): with the last stride these are 2^30 rows less. */
static void maps_of_lengths_are_ragged(void **state)
{
    (void)state;
    ptxpack_attention_desc desc = problem(PTXPACK_F16, 100, 4, 72);
    desc.q_rows = PTXPACK_ROWS_PACKED;
    desc.rows_q = 150;
    desc.options = PTXPACK_LENGTHS_KV;
    const int64_t      row = 2 * 72;
    attention_geometry g;
    ptxpack_tma_box    box = {.status = PTXPACK_OK};
    g = resolved(&desc);
    make_map(&desc, TENSOR_K, &box);
    const uint64_t ragged = UINT64_C(1) << 30;
    const uint64_t dims[5] = {72, ragged, 2, 3 * 77 + 1, ragged + 1};
    const uint64_t strides[4] = {2 * row, row, 2 * row, (UINT64_C(1) << 34) - 2 * row};
    assert_memory_equal(box.global_dim, dims, sizeof dims);
    assert_memory_equal(box.global_strides, strides, sizeof strides);
    assert_int_equal(attention_wgmma_rows_apart(&desc, &g.tensor[TENSOR_K]), 77);
    assert_int_equal(box.rank, 5);
    assert_true(ragged * strides[3] + ragged * strides[0] == 0); /* modulo 2^64 */
    make_map(&desc, TENSOR_Q, &box);
    assert_int_equal(box.global_dim[3], 151);
    assert_int_equal(attention_wgmma_rows_apart(&desc, &g.tensor[TENSOR_Q]), 0);
    desc.k = (ptxpack_strides){77 * row + 8, row, 72}; /* no whole number of rows from sequence to sequence */
    g = resolved(&desc);
    assert_int_equal(ptxpack_attention_wgmma_map(&desc, &g, TENSOR_K, &box), PTXPACK_E_UNSUPPORTED);
    assert_non_null(strstr(ptxpack_detail(NULL), "k.batch: stride 11096 is no multiple of the row's 144"));
    desc.seqlen_kv = 1; /* then the stride from sequence to sequence is the rows' */
    desc.k = (ptxpack_strides){400, 0, 72};
    g = resolved(&desc);
    make_map(&desc, TENSOR_K, &box);
    assert_int_equal(box.global_strides[2], 800);
    assert_int_equal(attention_wgmma_rows_apart(&desc, &g.tensor[TENSOR_K]), 1);
}

static void maps_of_fp8_count_bytes(void **state)
{
    (void)state;
    ptxpack_attention_desc desc = problem(PTXPACK_E4M3, 100, 4, 80);
    ptxpack_tma_box        box = {.status = PTXPACK_OK};
    const uint64_t of_k[3] = {2 * 80, 80, 77 * 2 * 80}, of_o[3] = {4 * 80 * 2, 80 * 2, 100 * 4 * 80 * 2};
    make_map(&desc, TENSOR_K, &box);
    assert_int_equal(box.type, PTXPACK_TMA_UINT8);
    assert_memory_equal(box.global_strides, of_k, sizeof of_k);
    make_map(&desc, TENSOR_O, &box);
    assert_int_equal(box.type, PTXPACK_TMA_BFLOAT16);
    assert_memory_equal(box.global_strides, of_o, sizeof of_o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maps_have_the_tensors_numbers),
        cmocka_unit_test(maps_of_packed_heads_have_heads_first),
        cmocka_unit_test(boxes_of_many_heads_have_some_of_them),
        cmocka_unit_test(wide_boxes_have_chunks_in_place_of_heads),
        cmocka_unit_test(maps_of_lengths_are_ragged),
        cmocka_unit_test(maps_of_fp8_count_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
