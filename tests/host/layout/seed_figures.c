/* seed_figures.c - what five articles on CuTe state about layouts: their figures, tables and examples.
 *
 * tests/host/atom/tiled.c and tests/host/atom/tiled_copy.c test the articles' tiled MMAs and copies in
 * detail. */
#include "tools/notation/draw.h"
#include "host/layout/tensor.h"
#include "tests/host/atom/tiled_fixture.h"

#define EACH(array) (sizeof(array) / sizeof *(array))

/* Checks the values of l against an article's table, with mode 0 first. */
static void assert_values(const char *what, const ptxpack_layout *l, size_t count, const int64_t *want)
{
    if (ptxpack_size(l) != (int64_t)count)
        fail_msg("%s: %s has no %zu values", what, text_of(l), count);
    for (size_t i = 0; i < count; i++)
        if (ptxpack_at(l, (int64_t)i) != want[i])
            fail_msg("%s: %s at %zu is %lld, not %lld", what, text_of(l), i,
                     (long long)ptxpack_at(l, (int64_t)i), (long long)want[i]);
}
#define VALUES(l, ...)                                      \
    do {                                                    \
        ptxpack_layout values_of_ = (l);                    \
        const int64_t  want_[] = {__VA_ARGS__};             \
        assert_values(#l, &values_of_, EACH(want_), want_); \
    } while (0)

static ptxpack_tuple tuple(const char *text)
{
    ptxpack_tuple t = ptxpack_tuple_parse(text);
    if (t.status != PTXPACK_OK)
        fail_msg("%s: %s", text, ptxpack_detail(NULL));
    return t;
}

static int64_t offset_of(const ptxpack_layout *l, const char *coord)
{
    ptxpack_tuple c = tuple(coord), at_c = ptxpack_layout_crd2idx(l, &c);
    assert_int_equal(at_c.status, PTXPACK_OK);
    return at_c.value[0];
}

/* Calls ptxpack_composition and other functions with texts. */
typedef ptxpack_layout (*binary)(const ptxpack_layout *, const ptxpack_layout *);
static ptxpack_layout of(binary call, const char *a, const char *b)
{
    ptxpack_layout x = layout(a), y = layout(b);
    return call(&x, &y);
}

static ptxpack_layout complement(const char *l, int64_t cotarget)
{
    ptxpack_layout x = layout(l);
    ptxpack_tuple  n = ptxpack_int(cotarget);
    return ptxpack_complement(&x, &n);
}

/* Checks that a layout takes every offset below its size once. */
static void assert_fills(const ptxpack_layout *l)
{
    bool taken[512] = {false};
    assert_in_range(ptxpack_size(l), 1, 512);
    for (int64_t i = 0; i < ptxpack_size(l); i++) {
        int64_t x = ptxpack_at(l, i);
        assert_true(x >= 0 && x < ptxpack_size(l) && !taken[x]);
        taken[x] = true;
    }
}

/* ---- layouts as pictures (articles 000, 001, 003) --------------------------------------------------- */
static void test_layout_figures(void **state)
{
    ptxpack_layout l = layout("(3,4):(1,3)");
    (void)state;
    VALUES(l, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
    assert_int_equal(offset_of(&l, "(2,3)"), 2 * 1 + 3 * 3);
    l = layout("((2,2),(2,4)):((1,4),(2,8))"); /* tiles of (2,2) in (2,4) tiles */
    assert_int_equal(offset_of(&l, "((1,0),(0,0))"), 1);
    assert_int_equal(offset_of(&l, "((0,1),(0,0))"), 4);
    assert_int_equal(offset_of(&l, "((0,0),(1,0))"), 2);
    assert_int_equal(offset_of(&l, "((0,0),(0,1))"), 8);
    assert_fills(&l);
    VALUES(layout("(4,2):(1,4)"), 0, 1, 2, 3, 4, 5, 6, 7);
    l = layout("(4,8):(8,1)"); /* row major */
    assert_int_equal(offset_of(&l, "(1,2)"), 10);
    l = layout("((4,1),(2,4)):((2,1),(1,8))");
    VALUES(l, 0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15, 16, 18, 20, 22, 17, 19, 21, 23, 24, 26, 28,
           30, 25, 27, 29, 31);
    VALUES(layout("8:8"), 0, 8, 16, 24, 32, 40, 48, 56);
    VALUES(layout("(2,3,4):(12,4,1)"), 0, 12, 4, 16, 8, 20, 1, 13, 5, 17, 9, 21, 2, 14, 6, 18, 10, 22, 3, 15, 7,
           19, 11, 23);
    l = layout("((2,2,2),(2,4,4)):((2,16,128),(1,4,32))");
    assert_fills(&l);
    assert_int_equal(offset_of(&l, "((0,1,0),(0,0,1))"), 48);
    VALUES(layout("(2,3):(1,2)"), 0, 1, 2, 3, 4, 5); /* 0 2 4 / 1 3 5 */
    VALUES(layout("(2,3):(3,1)"), 0, 3, 1, 4, 2, 5); /* 0 1 2 / 3 4 5 */
}

/* A shape of a shape: a line of 3 tiles of (2,3); and integers as coordinates. */
static void test_shapes(void **state)
{
    ptxpack_tuple modes[2] = {tuple("(2,3)"), ptxpack_int(3)}, shape = ptxpack_tuple_join(2, modes), five, back;
    ptxpack_layout l = ptxpack_make_layout_left(&shape);
    (void)state;
    assert_layout(l, "((2,3),3):((1,2),6)");
    assert_int_equal(ptxpack_mode_size(&l, 0), 6);
    for (int64_t i = 0; i < 6; i++) { /* (0,0)<->0 (1,0)<->1 (0,1)<->2 .. */
        five = ptxpack_int(i);
        back = ptxpack_idx2crd_compact(&five, &modes[0]);
        assert_true(back.value[0] == i % 2 && back.value[1] == i / 2);
        back = ptxpack_crd2idx_compact(&back, &modes[0]);
        assert_int_equal(back.value[0], i);
    }
}

/* ---- composition, complement, inverse (articles 000, 003) ------------------------------------------- */
static void test_composition(void **state)
{
    ptxpack_layout a = layout("(4,4):(4,1)"), b = layout("(2,2):(1,5)");
    (void)state;
    assert_int_equal(offset_of(&b, "(1,1)"), 6); /* as a path through the article's stores, not as a layout */
    assert_int_equal(offset_of(&a, "(2,1)"), 9);
    assert_int_equal(ptxpack_at(&a, 6), 9);
    assert_layout(of(ptxpack_composition, "(4,4):(4,1)", "(4,2,2):(2,1,8)"), "((2,2),2,2):((8,1),4,2)");
    VALUES(layout("(4,2,2):(2,1,8)"), 0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
    VALUES(layout("(4,4):(1,4)"), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    VALUES(layout("(4,4):(4,1)"), 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    VALUES(of(ptxpack_composition, "(4,4):(4,1)", "(4,2,2):(2,1,8)"), 0, 8, 1, 9, 4, 12, 5, 13, 2, 10, 3, 11, 6,
           14, 7, 15);
    static const char *const places[] = {"(0,0)", "(1,0)", "(0,2)", "(1,2)"}; /* those of thread 0 */
    static const int64_t     memory[] = {0, 4, 2, 6};
    ptxpack_layout           tv = layout("(4,2,2):(2,1,8)"), all;
    all = ptxpack_composition(&a, &tv);
    for (int v = 0; v < 4; v++) {
        assert_int_equal(offset_of(&a, places[v]), memory[v]);
        assert_int_equal(ptxpack_at(&all, 4 * v), memory[v]);
    }
}

static void test_complement(void **state)
{
    ptxpack_layout a = layout("(2,3):(1,2)"), b = layout("4:10"), modes[] = {a, b};
    (void)state;
    assert_layout(ptxpack_coalesce(&a, NULL), "6:1");
    a = ptxpack_layout_join(2, modes);
    assert_layout(ptxpack_layout_flatten(&a), "(2,3,4):(1,2,10)");
    assert_layout(complement("4:2", 8), "2:1");
    VALUES(layout("4:2"), 0, 2, 4, 6);
    a = layout("(4,2):(2,1)"); /* with its complement it fills the 8 */
    assert_fills(&a);
    VALUES(layout("(2,3):(2,4)"), 0, 2, 4, 6, 8, 10);
    assert_layout(complement("(2,3):(2,4)", 24), "(2,2):(1,12)");
    a = layout("((2,2),(3,2)):((2,1),(4,12))"); /* mode by mode with its complement */
    assert_fills(&a);
    assert_layout(complement("4:1", 20), "5:4");
}

static void test_inverse(void **state)
{
    ptxpack_layout l = layout("(2,3):(3,1)"), r = ptxpack_right_inverse(&l), s = ptxpack_left_inverse(&l);
    (void)state;
    VALUES(l, 0, 3, 1, 4, 2, 5);
    VALUES(r, 0, 2, 4, 1, 3, 5);
    VALUES(s, 0, 2, 4, 1, 3, 5);
    assert_layout(r, "(3,2):(2,1)"); /* the shapes in the order of their strides */
    ptxpack_tuple  tv = tuple("(3,(1,2))");
    ptxpack_layout shaped = ptxpack_with_shape(&r, &tv);
    assert_int_equal(ptxpack_rank(&shaped.shape), 2);
    for (int64_t i = 0; i < 6; i++)
        assert_int_equal(ptxpack_at(&shaped, i), ptxpack_at(&r, i));
}

/* ---- division, product (article 003) ---------------------------------------------------------------- */
static void test_divide(void **state)
{
    ptxpack_layout l = layout("(8,12,5):(12,1,96)"), tiler = layout("<4,6>"), no;
    (void)state;
    assert_layout(ptxpack_logical_divide(&l, &tiler), "((4,2),(6,2),5):((12,48),(1,6),96)");
    assert_layout(ptxpack_zipped_divide(&l, &tiler), "((4,6),(2,2,5)):((12,1),(48,6,96))");
    assert_layout(of(ptxpack_logical_divide, "(9,(4,8)):(59,(13,1))", "<3:3,(2,4):(1,8)>"),
                  "((3,3),((2,4),(2,2))):((177,59),((13,2),(26,1)))");
    no = of(ptxpack_logical_divide, "(5,4):(1,30)", "4:1"); /* "won't work": (4,5) does not step through it */
    assert_no(no.shape.status, "(5,4):(1,30)");
    no = of(ptxpack_composition, "(5,4):(1,30)", "(4,5):(1,4)");
    assert_no(no.shape.status, "(5,4):(1,30)");
}

static void test_product(void **state)
{
    (void)state;
    assert_layout(of(ptxpack_logical_product, "(2,5):(5,1)", "<3:5,4:6>"), "((2,3),(5,4)):((5,10),(1,30))");
    assert_layout(of(ptxpack_zipped_product, "(2,5):(5,1)", "<3:5,4:6>"), "((2,5),(3,4)):((5,1),(10,30))");
    assert_layout(of(ptxpack_tiled_product, "(2,5):(5,1)", "<3:5,4:6>"), "((2,5),3,4):((5,1),10,30)");
    assert_layout(of(ptxpack_flat_product, "(2,5):(5,1)", "<3:5,4:6>"), "(2,5,3,4):(5,1,10,30)");
    /* the table of forms, layout by layout: each stride stays with its extent */
    assert_layout(of(ptxpack_logical_product, "(2,5):(5,1)", "(3,4)"), "((2,5),(3,4)):((5,1),(10,30))");
    assert_layout(of(ptxpack_zipped_product, "(2,5):(5,1)", "(3,4)"), "((2,5),(3,4)):((5,1),(10,30))");
    assert_layout(of(ptxpack_tiled_product, "(2,5):(5,1)", "(3,4)"), "((2,5),3,4):((5,1),10,30)");
    assert_layout(of(ptxpack_blocked_product, "(2,5):(5,1)", "(3,4)"), "((2,3),(5,4)):((5,10),(1,30))");
    assert_layout(of(ptxpack_raked_product, "(2,5):(5,1)", "(3,4)"), "((3,2),(4,5)):((10,5),(30,1))");
    ptxpack_layout no = of(ptxpack_logical_product, "(4,5):(30,1)", "(2,4)");
    assert_no(no.shape.status, "(4,5):(30,1)"); /* "can't do" */
}

/* "The order changes the result." */
static void test_product_order(void **state)
{
    ptxpack_layout x2 = of(ptxpack_blocked_product, "(4,3):(4,1)", "(1,2)"), down = layout("(2,1)");
    (void)state;
    assert_layout(x2, "((4,1),(3,2)):((4,0),(1,16))");
    assert_layout(ptxpack_blocked_product(&x2, &down), "(((4,1),2),((3,2),1)):(((4,0),32),((1,16),0))");
    assert_layout(of(ptxpack_blocked_product, "(4,3):(4,1)", "(2,2)"), "((4,2),(3,2)):((4,16),(1,32))");
}

/* ---- atoms (articles 000, 002, 004) ----------------------------------------------------------------- */
static void test_volta_atom(void **state)
{
    ptxpack_mma_atom nt = mma_atom("SM70_8x8x4_F32F16F16F32_NT"), tn = mma_atom("SM70_8x8x4_F16F16F16F16_TN");
    (void)state;
    assert_true(nt.d == PTXPACK_VALUE_F32 && nt.a == PTXPACK_VALUE_F16 && nt.b == PTXPACK_VALUE_F16 &&
                nt.c == PTXPACK_VALUE_F32 && nt.m == 8 && nt.n == 8 && nt.k == 4);
    assert_layout(nt.thr_id, "(4,2):(1,16)");
    VALUES(nt.thr_id, 0, 1, 2, 3, 16, 17, 18, 19);
    assert_layout(nt.c_layout, "((2,2,2),(2,2,2)):((1,16,4),(8,2,32))");
    assert_layout(nt.a_layout, "((4,2),4):((8,4),1)");
    assert_layout(nt.b_layout, "((4,2),4):((8,4),1)");
    /* where the threads and the values of C jump: down 1, right 2, down 4; right 1, down 2, right 4 */
    static const int64_t at_place[][2] = {{1, 1}, {2, 2 * 8}, {4, 4}, {8, 8}, {16, 2}, {32, 4 * 8}};
    for (size_t i = 0; i < EACH(at_place); i++)
        assert_int_equal(ptxpack_at(&nt.c_layout, at_place[i][0]), at_place[i][1]);
    assert_layout(tn.a_layout, "(8,4):(1,8)");
    assert_layout(tn.b_layout, "(8,4):(1,8)");
    assert_layout(tn.c_layout, "(8,8):(1,8)");
    assert_string_equal(tn.ptx, "mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f16");
    assert_true(tn.registers_d == 4 && tn.registers_a == 2 && tn.registers_b == 2);
}

static void test_hopper_atom(void **state)
{
    ptxpack_mma_atom wide = mma_atom("SM90_64x128x16_F16F16F16F16_TN"), narrow;
    (void)state;
    assert_true(wide.m == 64 && wide.n == 128 && wide.k == 16);
    assert_layout(wide.c_layout, "((4,8,4),(2,2,16)):((128,1,16),(64,8,512))"); /* (T128,V64) */
    narrow = mma_atom("SM90_64x8x16_F16F16F16_SS");
    ptxpack_layout four = layout("((4,8,4),(2,2)):((128,1,16),(64,8))"); /* (T128,V4) */
    for (int64_t i = 0; i < 512; i++)
        assert_int_equal(ptxpack_at(&narrow.c_layout, i), ptxpack_at(&four, i));
    assert_int_equal(ptxpack_size(&narrow.c_layout), 512);
    narrow = mma_atom("SM90_64x128x16_F16F16F16_RS"); /* A from registers */
    assert_layout(narrow.a_layout, "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))");
}

/* Thread 0's neighbours in M and N, and the rows of the matrices in registers. */
static void test_ampere_atom(void **state)
{
    ptxpack_mma_atom  mma = mma_atom("SM80_16x8x16_F16F16F16F16_TN");
    ptxpack_mma_atom  half = mma_atom("SM75_16x8x8_F32F16F16F32_TN");
    ptxpack_copy_atom ld = copy_atom("SM75_U32x1_LDSM_N"), four = copy_atom("SM75_U32x4_LDSM_N");
    (void)state;
    assert_string_equal(mma.ptx, "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16");
    assert_true(mma.m == 16 && mma.n == 8 && mma.k == 16 && mma.registers_a == 4 && mma.registers_b == 2 &&
                mma.registers_d == 2);
    for (int64_t t = 0; t < 32; t++)
        for (int64_t v = 0; v < 8;
             v++) { /* a0, a1 in the first register, a2, a3 8 rows below, a4, a5 8 right */
            int64_t row = t / 4 + v / 2 % 2 * 8, column = t % 4 * 2 + v % 2 + v / 4 * 8;
            assert_int_equal(ptxpack_at(&mma.a_layout, t + 32 * v), row + 16 * column);
        }
    assert_true(half.m == 16 && half.n == 8 && half.k == 8 && half.d == PTXPACK_VALUE_F32 &&
                half.a == PTXPACK_VALUE_F16 && half.b == PTXPACK_VALUE_F16 && half.c == PTXPACK_VALUE_F32);
    /* ldmatrix: the table of rows and threads; 16 bytes a row, from the addresses of threads 0 to 7 */
    assert_non_null(strstr(ld.ptx, "ldmatrix.sync.aligned.m8n8.x1"));
    ptxpack_layout src = ptxpack_recast_layout(&ld.src, 1, 16), dst = ptxpack_recast_layout(&ld.dst, 1, 16);
    for (int64_t t = 0; t < 32; t++) {
        for (int64_t v = 0; v < 2; v++) {
            int64_t element = ptxpack_at(&dst, t + 32 * v), row = element / 8, column = element % 8;
            assert_true(row == t / 4 && column / 2 == t % 4 && column % 2 == v);
        }
        for (int64_t v = 0; v < 8; v++)
            assert_int_equal(ptxpack_at(&src, t + 32 * v), t % 8 * 8 + v);
    }
    src = ptxpack_recast_layout(&four.src, 1, 16);
    dst = ptxpack_recast_layout(&four.dst, 1, 16);
    for (int64_t t = 0; t < 32; t++) {
        assert_int_equal(ptxpack_at(&src, t), t * 8); /* addr8 to addr15 belong to threads 8 to 15, ... */
        for (int64_t r = 0; r < 4; r++)               /* register r holds elements of matrix r */
            assert_int_equal(ptxpack_at(&dst, t + 64 * r), 64 * r + 2 * t);
    }
}

/* ---- tiled MMAs and copies (articles 000, 001, 004) ------------------------------------------------- */
static void test_tiled_mma(void **state)
{
    static const int  rows[] = {0, 1, 2, 3, 16, 17, 18, 19};
    ptxpack_tiled_mma four = tiled_mma(VOLTA, "(2,2):(2,1)", NULL), wide, permuted;
    (void)state;
    assert_int_equal(ptxpack_mma_threads(&four), 32);
    assert_true(four.tile_size_mnk.value[0] == 16 && four.tile_size_mnk.value[1] == 16 &&
                four.tile_size_mnk.value[2] == 4);
    wide = tiled_mma(VOLTA, "(2,2):(2,1)", "<32,32,4>");
    permuted = tiled_mma(VOLTA, "(2,2):(2,1)", PERMUTED);
    ptxpack_slice a = part(&wide, PTXPACK_A, 0, "(32,4)"), p = part(&permuted, PTXPACK_A, 0, "(32,4)");
    for (int v = 0; v < 8; v++) {
        assert_int_equal(at(&a, v), rows[v]); /* T0V0 => (0,0) .. T0V4 => (16,0) .. T0V7 => (19,0) */
        assert_int_equal(at(&p, v), v);
    }
    ptxpack_layout next = ptxpack_mma_layout_tv(&permuted, PTXPACK_A); /* T16V0 is 8 from T0V0 */
    assert_int_equal(ptxpack_at(&next, 16), 8);
}

static void test_mma_of_a_block(void **state)
{
    ptxpack_tiled_mma mma = tiled_mma("SM80_16x8x16_F16F16F16F16_TN", "(2,4,4)", NULL);
    ptxpack_tuple     ab = tuple("(128,128)"), shape;
    (void)state;
    shape = ptxpack_mma_partition_shape(&mma, PTXPACK_A, &ab); /* 16*16/32 = 8 = (2,2,2); M/(16*2), K/(16*4) */
    ptxpack_layout l = ptxpack_make_layout_left(&shape);
    assert_layout(l, "((2,2,2),4,2):((1,2,4),8,32)");
    shape = ptxpack_mma_partition_shape(&mma, PTXPACK_B, &ab); /* 8*16/32 = 4 = (2,2) */
    l = ptxpack_make_layout_left(&shape);
    assert_layout(l, "((2,2),4,2):((1,2),4,16)");
    shape = ptxpack_mma_partition_shape(&mma, PTXPACK_C, &ab);
    l = ptxpack_make_layout_left(&shape);
    assert_layout(l, "((2,2),4,4):((1,2),4,16)");
}

static void test_tiled_copy(void **state)
{
    static const char *const names[] = {"SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>", "SM75_U32x4_LDSM_N"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        ptxpack_tiled_copy copy = tiled_copy(names[i], 16, "(32,4):(4,1)", "(1,8)");
        assert_int_equal(ptxpack_copy_threads(&copy), 128);
        assert_layout(copy.tiler, "<32,32>");
        ptxpack_tuple  shape = tuple("(32,32)"), rows = ptxpack_compact_row_major(&shape, NULL);
        ptxpack_layout tile = ptxpack_make_layout(&shape, &rows);
        for (int64_t t = 0; i == 0 && t < 128; t++) { /* 8 halves in a row: 16 bytes in one go */
            ptxpack_slice s = ptxpack_copy_partition(&copy, PTXPACK_SRC, t, &tile);
            assert_int_equal(ptxpack_size(&s.layout), 8);
            for (int64_t v = 0; v < 8; v++)
                assert_int_equal(at(&s, v), t / 4 * 32 + t % 4 * 8 + v);
        }
    }
}

/* ---- tensors (articles 001, 002, 004) --------------------------------------------------------------- */
static uint64_t address(const ptxpack_tensor *t, const char *coord)
{
    ptxpack_tuple c = tuple(coord);
    uint64_t      place = 0;
    assert_int_equal(ptxpack_tensor_address(t, &c, &place), PTXPACK_OK);
    return place;
}

static void test_tensors(void **state)
{
    ptxpack_layout l = layout("(4,6):(6,1)"), tile = layout("<2,2>"), threads = layout("(2,2):(2,1)");
    ptxpack_tensor g = ptxpack_make_tensor(0x1000, 32, &l), t;
    ptxpack_tuple  coord = tuple("(_,1)"), one = tuple("(1,1)");
    (void)state;
    assert_layout(layout("(4,2):(2,1)"), "(4,2):(2,1)");
    assert_int_equal(address(&g, "(2,1)"), 0x1000 + 4 * 13);
    t = ptxpack_tensor_slice(&coord, &g); /* column 1 */
    assert_layout(t.layout, "(4):(6)");
    assert_int_equal(t.address, 0x1000 + 4);
    t = ptxpack_local_tile(&g, &tile, &one, NULL);
    assert_layout(t.layout, "(2,2):(6,1)");
    assert_int_equal(t.address, 0x1000 + 4 * 14);
    t = ptxpack_local_partition(&g, &threads, 1, NULL); /* thread 1 is right of thread 0 */
    assert_layout(t.layout, "(2,3):(12,2)");
    assert_int_equal(t.address, 0x1000 + 4 * 1);
}

static void test_vector_add(void **state)
{
    ptxpack_layout line = layout("(1024)"), tile = layout("<8>"), whole;
    ptxpack_tensor x = ptxpack_make_tensor(0, 16, &line), mine, pairs;
    ptxpack_tuple  thread = tuple("(5)");
    (void)state;
    mine = ptxpack_local_tile(&x, &tile, &thread, NULL);
    assert_layout(mine.layout, "((8)):((1))");
    assert_int_equal(mine.address, 5 * 8 * 2);
    pairs = ptxpack_tensor_recast(&mine, 32); /* half2 */
    assert_layout(pairs.layout, "((4)):((1))");
    whole = layout("8:1");
    assert_true(ptxpack_max_common_vector(&mine.layout, &whole) * 16 == 128); /* LDG.128 */
}

static void test_tiles_of_a_tensor(void **state)
{
    static const struct {
        const char *coord;
        uint64_t    address;
        int64_t     values[4];
    } tiles[] = {{"(0,0)", 0x7ffc3fe94680, {0, 1, 4, 5}},
                 {"(0,1)", 0x7ffc3fe946a0, {8, 9, 12, 13}},
                 {"(1,0)", 0x7ffc3fe94688, {2, 3, 6, 7}}};
    ptxpack_layout l = layout("(4,8):(1,4)"), tile = layout("<2,2>");
    ptxpack_tensor a = ptxpack_make_tensor(0x7ffc3fe94680, 32, &l);
    (void)state;
    for (size_t i = 0; i < EACH(tiles); i++) {
        ptxpack_tuple  coord = tuple(tiles[i].coord);
        ptxpack_tensor t = ptxpack_local_tile(&a, &tile, &coord, NULL);
        assert_layout(t.layout, "(2,2):(1,4)");
        assert_int_equal(t.address, tiles[i].address);
        for (int64_t v = 0; v < 4; v++)
            assert_int_equal((int64_t)(t.address - a.address) / 4 + ptxpack_at(&t.layout, v),
                             tiles[i].values[v]);
    }
}

/* A block's queries: [m_block, _] of blocks of 64 rows, whole heads; and their place computed by hand. */
static void test_blocks_of_queries(void **state)
{
    ptxpack_layout q = layout("(256,128,6):(128,1,32768)"), tile = layout("<64,128>");
    ptxpack_tensor all = ptxpack_make_tensor(0, 16, &q), head, block;
    (void)state;
    for (int bh = 0; bh < 6; bh++)
        for (int m = 0; m < 4; m++) {
            char text[32];
            sprintf(text, "(_,_,%d)", bh);
            ptxpack_tuple coord = tuple(text);
            head = ptxpack_tensor_slice(&coord, &all);
            sprintf(text, "(%d,_)", m);
            coord = tuple(text);
            block = ptxpack_local_tile(&head, &tile, &coord, NULL);
            assert_layout(block.layout, "(64,128,1):(128,1,0)");
            assert_int_equal(block.address, 2 * (bh * 256 * 128 + m * 64 * 128));
        }
}

static void test_print_layout(void **state)
{
    static const char want[] = "(4,8):(8,1)\n"
                               "       0    1    2    3    4    5    6    7 \n"
                               "    +----+----+----+----+----+----+----+----+\n"
                               " 0  |  0 |  1 |  2 |  3 |  4 |  5 |  6 |  7 |\n"
                               "    +----+----+----+----+----+----+----+----+\n"
                               " 1  |  8 |  9 | 10 | 11 | 12 | 13 | 14 | 15 |\n"
                               "    +----+----+----+----+----+----+----+----+\n"
                               " 2  | 16 | 17 | 18 | 19 | 20 | 21 | 22 | 23 |\n"
                               "    +----+----+----+----+----+----+----+----+\n"
                               " 3  | 24 | 25 | 26 | 27 | 28 | 29 | 30 | 31 |\n"
                               "    +----+----+----+----+----+----+----+----+\n";
    char             *text = NULL;
    size_t            bytes = 0;
    FILE             *f = open_memstream(&text, &bytes);
    ptxpack_layout    l = layout("(4,8):(8,1)");
    (void)state;
    assert_non_null(f);
    assert_int_equal(draw_grid(f, &l), PTXPACK_OK);
    fclose(f);
    assert_string_equal(text, want);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout_figures),    cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_composition),       cmocka_unit_test(test_complement),
        cmocka_unit_test(test_inverse),           cmocka_unit_test(test_divide),
        cmocka_unit_test(test_product),           cmocka_unit_test(test_product_order),
        cmocka_unit_test(test_volta_atom),        cmocka_unit_test(test_hopper_atom),
        cmocka_unit_test(test_ampere_atom),       cmocka_unit_test(test_tiled_mma),
        cmocka_unit_test(test_mma_of_a_block),    cmocka_unit_test(test_tiled_copy),
        cmocka_unit_test(test_tensors),           cmocka_unit_test(test_vector_add),
        cmocka_unit_test(test_tiles_of_a_tensor), cmocka_unit_test(test_blocks_of_queries),
        cmocka_unit_test(test_print_layout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
