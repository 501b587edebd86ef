/* tiled_narrow.c - copies and multiplications of bytes, 6 and 4 bits, tiled: what CuTe of CUTLASS 4 prints of them. */
#include "tests/host/atom/tiled_fixture.h"

static void expect(const ptxpack_tiled_copy *copy, const char *src, const char *dst, const char *tiler)
{
    assert_layout(ptxpack_copy_layout_tv(copy, PTXPACK_SRC), src);
    assert_layout(ptxpack_copy_layout_tv(copy, PTXPACK_DST), dst);
    char          text[PTXPACK_LAYOUT_TEXT];
    ptxpack_tuple tile = copy->tiler.shape;
    ptxpack_tuple_print(&tile, text, sizeof text);
    assert_string_equal(text, tiler);
}

static void copies_of_a_tiled_mma(void **state)
{
    (void)state;
    ptxpack_tiled_mma mma = tiled_mma("SM120_16x8x32_F32E2M1E3M2F32_TN", "(2,2,1)", "<32,32,32>");
    assert_layout(mma.thr_layout_vmnk, "(32,2,2,1):(1,32,64,0)");
    ptxpack_tiled_copy copy = copy_of_mma("SM100_SU4_DU8x16_x4_LDSM_N", 8, &mma, PTXPACK_A);
    expect(&copy, "((16,2,2,2),(16,1)):((1,512,16,0),(32,0))",
           "((4,8,2,2),((4,2,2),1)):((128,1,16,0),((32,8,512),0))", "(32,32)");
    copy = copy_of_mma("SM100_SU6_DU8x16_x2_LDSM_N", 8, &mma, PTXPACK_B);
    expect(&copy, "((8,2,4,2),(16,2)):((1,512,0,8),(32,16))",
           "((4,8,2,2),((4,2),2)):((128,1,0,8),((32,512),16))", "(32,32)");
    copy = copy_of_mma("SM100_U8x8_STSM_T", 8, &mma, PTXPACK_C);
    expect(&copy, "((4,8,2,2),((2,2,2),1)):((64,1,16,256),((32,8,512),0))",
           "((8,2,2,2,2),(16,1)):((32,512,0,16,256),(1,0))", "(32,32)");
    ptxpack_copy_atom wide = copy_atom("SM100_U8x16_STSM_T"); /* CuTe refuses it as well */
    assert_no(ptxpack_make_tiled_copy_mma(&wide, 8, &mma, PTXPACK_C).status, "takes multiples of 16");
}

static void copies_of_threads_and_values(void **state)
{
    (void)state;
    ptxpack_tiled_copy copy = tiled_copy("SM100_U8x16_LDSM_T", 8, "(8,4):(4,1)", "(4,4)");
    expect(&copy, "((2,2,4,2),((8,2),1)):((1,32,128,64),((4,2),0))", "((4,8),((4,4),1)):((128,4),((1,32),0))",
           "(32,16)");
    copy = tiled_copy("SM100_U8x4_STSM_T", 8, "(8,4):(4,1)", "(2,2)");
    expect(&copy, "((4,8),((2,2),1)):((32,2),((1,16),0))", "((2,4,4),(16,1)):((1,32,0),(2,0))", "(16,8)");
}

/* e2m1 without padding, as 4-bit values of 16-bit matrices. */
static void block_scaled_operands(void **state)
{
    (void)state;
    ptxpack_tiled_mma mma = tiled_mma("SM120_16x8x64_F32E2M1E2M1F32_TN_VS16_UE4M3", "(4,2,1)", "<64,16,64>");
    assert_layout(mma.thr_layout_vmnk, "(32,4,2,1):(1,32,128,0)");
    ptxpack_tiled_copy copy = copy_of_mma("SM75_U32x4_LDSM_N", 4, &mma, PTXPACK_A);
    expect(&copy, "((16,2,4,2),(32,1)):((1,2048,16,0),(64,0))",
           "((4,8,4,2),((8,2,2),1)):((512,1,16,0),((64,8,2048),0))", "(64,64)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_of_a_tiled_mma),
        cmocka_unit_test(copies_of_threads_and_values),
        cmocka_unit_test(block_scaled_operands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
