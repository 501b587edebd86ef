/* tiled.c - tiled MMAs: the figures of the articles, CuTe's own results, and a check of what each of them must
 * mean, by brute force. */
#include "tiled_fixture.h"

/* ---- the articles' tiled MMAs ------------------------------------------------------------------------ */
static void test_volta(void **state)
{
    ptxpack_tiled_mma one = tiled_mma(VOLTA, NULL, NULL), same = tiled_mma(VOLTA, "(1,1,1)", "<8,8,4>");
    (void)state;
    assert_layout(one.thr_layout_vmnk, "((4,2),1,1,1):((1,16),0,0,0)");
    assert_layout(one.permutation_mnk, "<_,_,_>");
    assert_layout(same.permutation_mnk, "<8,8,4>");
    assert_int_equal(ptxpack_mma_threads(&one), 8);
    for (int i = 0; i < 3; i++) { /* "equivalent to" */
        ptxpack_operand operand = (ptxpack_operand)i;
        ptxpack_layout  tv = ptxpack_mma_layout_tv(&same, operand);
        assert_layout(ptxpack_mma_layout_tv(&one, operand), text_of(&tv));
        assert_layout(ptxpack_mma_permutation(&one, i), i < 2 ? "8:1" : "4:1");
    }
    assert_layout(ptxpack_mma_layout_tv(&one, PTXPACK_A), "((4,4,2),(4,(1,1))):((8,0,4),(1,(0,0)))");
    assert_layout(ptxpack_mma_layout_tv(&one, PTXPACK_C),
                  "(((2,2),4,2),((2,2,2),(1,1))):(((1,16),0,4),((8,2,32),(0,0)))");
    assert_slice(part(&one, PTXPACK_C, 19, "(8,8)"), "((2,2,2),1,1):((8,2,32),0,0)", 21);

    ptxpack_tiled_mma four = tiled_mma(VOLTA, "(2,2):(2,1)", NULL);
    assert_layout(four.thr_layout_vmnk, "((4,2),2,2,1):((1,16),8,4,0)");
    assert_int_equal(ptxpack_mma_threads(&four), 32);
    assert_layout(ptxpack_mma_layout_tv(&four, PTXPACK_C),
                  "(((2,2),2,2,2),((2,2,2),(1,1))):(((1,32),128,8,4),((16,2,64),(0,0)))");
    /* "the threads with T4, T8, T12": n-major, so 4 is the next along N, 8 along M */
    assert_slice(part(&four, PTXPACK_C, 4, "(16,16)"), "((2,2,2),1,1):((16,2,64),0,0)", 8 * 16);
    assert_slice(part(&four, PTXPACK_C, 8, "(16,16)"), "((2,2,2),1,1):((16,2,64),0,0)", 8);
    assert_slice(part(&four, PTXPACK_C, 12, "(16,16)"), "((2,2,2),1,1):((16,2,64),0,0)", 8 * 16 + 8);
    assert_slice(part(&four, PTXPACK_C, 31, "(16,16)"), "((2,2,2),1,1):((16,2,64),0,0)", 173);
}

static void test_volta_tiles(void **state)
{
    ptxpack_tiled_mma wide = tiled_mma(VOLTA, "(2,2):(2,1)", "<32,32,4>");
    ptxpack_tiled_mma permuted = tiled_mma(VOLTA, "(2,2):(2,1)", PERMUTED);
    static const int  rows[] = {0, 1, 2, 3, 16, 17, 18, 19};
    (void)state;
    assert_int_equal(ptxpack_mma_threads(&wide), 32); /* no new threads, four times the values */
    assert_layout(ptxpack_mma_layout_tv(&wide, PTXPACK_C),
                  "(((2,2),2,2,2),((2,2,2),(2,2))):(((1,64),256,8,4),((32,2,128),(16,512)))");
    assert_layout(ptxpack_mma_layout_tv(&wide, PTXPACK_B), "((4,2,2,2),(4,(2,1))):((32,8,0,4),(1,(16,0)))");
    ptxpack_slice a = part(&wide, PTXPACK_A, 0, "(32,4)"), p = part(&permuted, PTXPACK_A, 0, "(32,4)");
    assert_int_equal(ptxpack_size(&a.layout), 8);
    for (int v = 0; v < 8; v++) {
        assert_int_equal(at(&a, v), rows[v]); /* T0V0 => (0,0) ... T0V7 => (19,0) */
        assert_int_equal(at(&p, v), v);       /* permuted, they follow each other */
    }
    /* "T16V0 is 8 from T0V0", and T24's values end the first half */
    assert_slice(part(&permuted, PTXPACK_A, 16, "(32,4)"), "(4,2,1):(1,4,0)", 8);
    assert_slice(part(&permuted, PTXPACK_A, 24, "(32,4)"), "(4,2,1):(1,4,0)", 24);
    assert_layout(ptxpack_mma_permutation(&permuted, 0), "(4,4,2):(1,8,4)");
    assert_layout(ptxpack_mma_layout_tv(&permuted, PTXPACK_C),
                  "(((2,2),2,2,2),((2,2,2),(2,2))):(((1,64),256,16,8),((32,2,128),(4,512)))");
    assert_slice(part(&permuted, PTXPACK_A, 21, "(64,16):(16,1)"), "(4,(2,2),4):(16,(64,512),4)", 129);
    assert_slice(part(&permuted, PTXPACK_C, 31, "(64,96):(96,1)"),
                 "((2,2,2),(2,2),6):((1,192,4),(384,3072),16)", 2410);
}

static void test_hopper(void **state)
{
    ptxpack_tiled_mma mma = tiled_mma("SM90_64x128x16_F16F16F16_SS", NULL, NULL);
    (void)state;
    assert_layout(mma.thr_layout_vmnk, "(128,1,1,1):(1,0,0,0)");
    assert_layout(mma.atom.c_layout,
                  "((4,8,4),(2,2,16)):((128,1,16),(64,8,512))"); /* (T128,V64) -> (M64,N128) */
    assert_layout(ptxpack_mma_layout_tv(&mma, PTXPACK_C),
                  "((4,8,4),((2,2,16),(1,1))):((128,1,16),((64,8,512),(0,0)))");
    assert_int_equal(ptxpack_size(&mma.atom.c_layout) / 128, 64);
    /* all threads name the same A and B, through descriptors: 16 of K are two units of 16 bytes apart */
    ptxpack_tiled_mma two = tiled_mma("SM90_64x128x16_F32F16F16_SS", "(2,1,1)", NULL);
    ptxpack_layout    atom = layout("Sw<3,3,3> o 0 o (8,64):(64,1)"), sa = layout("(1)");
    ptxpack_tuple     shape = ptxpack_tuple_parse("(128,64,3)");
    sa = ptxpack_tile_to_shape(&atom, &shape, NULL);
    for (int t = 0; t < 256; t += 37) {
        ptxpack_slice  a = ptxpack_mma_partition(&two, PTXPACK_A, t, &sa);
        ptxpack_layout frag = ptxpack_mma_fragment(&two, PTXPACK_A, &a.layout);
        assert_layout(frag, "(1,1,4,(1,3)):(0,0,2,(0,1024))");
        assert_int_equal(a.offset.value[0] + a.layout.offset, t < 128 ? 0 : 64 * 64);
    }
    ptxpack_slice  b = part(&two, PTXPACK_B, 0, "((32,4),(8,8),(1,3)):((1,256),(32,1024),(0,8192))");
    ptxpack_layout frag = ptxpack_mma_fragment(&two, PTXPACK_B, &b.layout);
    assert_layout(b.layout, "(((32,4),(8,2)),1,4,(1,3)):(((1,256),(32,1024)),0,2048,(0,8192))");
    assert_layout(frag, "(1,1,4,(1,3)):(0,0,256,(0,1024))");
}

/* The configuration of the attention tutorial: 4 warps, 64 queries, head dimension 128. */
static void test_attention_mma(void **state)
{
    ptxpack_tiled_mma mma = tiled_mma(AMPERE, "(4,1,1)", "<64,16,16>");
    ptxpack_tuple     acc = ptxpack_tuple_parse("(64,128)"), out;
    (void)state;
    assert_layout(mma.thr_layout_vmnk, "(32,4,1,1):(1,32,0,0)");
    assert_layout(ptxpack_mma_layout_tv(&mma, PTXPACK_A),
                  "((4,8,4),((2,2,2),(1,1))):((128,1,16),((64,8,512),(0,0)))");
    assert_layout(ptxpack_mma_layout_tv(&mma, PTXPACK_B),
                  "((4,8,4),((2,2),(2,1))):((32,1,0),((16,128),(8,0)))");
    assert_layout(ptxpack_mma_layout_tv(&mma, PTXPACK_C),
                  "((4,8,4),((2,2),(1,2))):((128,1,16),((64,8),(0,512)))");
    ptxpack_slice q = part(&mma, PTXPACK_A, 37, "(64,128):(128,1)"),
                  k = part(&mma, PTXPACK_B, 37, "(64,128):(128,1)");
    ptxpack_slice s = part(&mma, PTXPACK_C, 37, "(64,64):(64,1)");
    assert_slice(q, "((2,2,2),1,8):((1,1024,8),0,16)", 2178);
    assert_slice(k, "((2,2),8,8):((1,8),1024,16)", 130);
    assert_slice(s, "((2,2),1,8):((1,512),0,8)", 1090);
    assert_layout(ptxpack_mma_fragment(&mma, PTXPACK_A, &q.layout), "((2,2,2),1,8):((1,2,4),0,8)");
    assert_layout(ptxpack_mma_fragment(&mma, PTXPACK_B, &k.layout), "((2,2),8,8):((1,2),32,4)");
    assert_layout(ptxpack_mma_fragment(&mma, PTXPACK_C, &s.layout), "((2,2),1,8):((1,2),0,4)");
    out = ptxpack_mma_partition_shape(&mma, PTXPACK_C, &acc); /* the accumulator of O */
    ptxpack_layout o = ptxpack_make_layout_left(&out);
    assert_layout(o, "((2,2),1,16):((1,2),0,4)");
    /* C of the first product is A of the second: a pair of n-tiles of C is one k-tile of A */
    ptxpack_layout ctv = ptxpack_mma_layout_tv(&mma, PTXPACK_C), atv = ptxpack_mma_layout_tv(&mma, PTXPACK_A);
    assert_int_equal(ptxpack_size(&ctv), ptxpack_size(&atv));
    for (int64_t i = 0; i < ptxpack_size(&ctv); i++)
        assert_int_equal(ptxpack_at(&ctv, i), ptxpack_at(&atv, i));
}

/* Article 001: the elements that one thread holds, and MMA_M = M / (m * atoms along M). */
/* A fragment is the same for all threads, also where a swizzle negates strides for some of them.  CuTe's results. */
static void test_swizzled_fragment(void **state)
{
    (void)state;
    static const struct {
        ptxpack_operand operand;
        const char     *tensor, *fragment;
    } facts[] = {
        {PTXPACK_A, "(64,64):(64,1)", "((2,2,2),1,4):((1,2,4),0,8)"},
        {PTXPACK_A, "Sw<3,3,3> o 0 o ((8,8),(64,1)):((64,512),(1,0))", "((2,2,2),1,(2,2)):((1,2,4),0,(8,16))"},
        {PTXPACK_A, "Sw<3,3,3> o 0 o ((8,16),(64,2)):((64,512),(1,8192))",
         "((2,2,2),2,((2,2),2)):((1,2,4),8,((32,64),16))"},
        {PTXPACK_B, "Sw<2,3,3> o 0 o ((8,8),(32,2)):((32,256),(1,2048))", "((2,2),8,(2,2)):((1,2),4,(64,32))"},
        {PTXPACK_C, "Sw<3,3,3> o 0 o ((8,8),(64,1)):((64,512),(1,0))", "((2,2),1,(2,2,2)):((1,2),0,(4,8,16))"},
    };
    const ptxpack_layout atoms = layout("(4,1,1)"), tile = layout("<64,16,16>");
    ptxpack_mma_atom     atom = mma_atom(AMPERE);
    ptxpack_tiled_mma    mma = ptxpack_make_tiled_mma(&atom, &atoms, &tile);
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        ptxpack_layout tensor = layout(facts[i].tensor);
        assert_layout(ptxpack_mma_partition_fragment(&mma, facts[i].operand, &tensor), facts[i].fragment);
    }
    ptxpack_layout odd = layout("(63,64)");
    assert_int_equal(ptxpack_mma_partition_fragment(&mma, PTXPACK_A, &odd).shape.status, PTXPACK_E_ARG);
}

static void test_mma_counts(void **state)
{
    ptxpack_tiled_mma mma = tiled_mma("SM80_16x8x16_F16F16F16F16_TN", "(2,4,4)", NULL);
    ptxpack_tuple     mk = ptxpack_tuple_parse("(128,128)"), want[3];
    (void)state;
    want[PTXPACK_A] = ptxpack_tuple_parse("((2,2,2),4,2)");
    want[PTXPACK_B] = ptxpack_tuple_parse("((2,2),4,2)");
    want[PTXPACK_C] = ptxpack_tuple_parse("((2,2),4,4)");
    for (int i = 0; i < 3; i++) {
        ptxpack_tuple got = ptxpack_mma_partition_shape(&mma, (ptxpack_operand)i, &mk);
        assert_true(ptxpack_tuple_equal(&got, &want[i]));
    }
    assert_int_equal(ptxpack_mma_threads(&mma), 32 * 32);
}

/* More results of CuTe 4.7: atoms, atom layouts, tiles and tensors of all kinds. */
static void test_mma_facts(void **state)
{
    static const struct {
        const char     *atom, *atoms, *tile, *tensor;
        ptxpack_operand operand;
        const char     *tv, *thrfrg;
        int             thread;
        int64_t         offset;
        const char     *partition, *fragment;
    } facts[] = {
#include "tiled_facts.def"
    };
    (void)state;
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        ptxpack_tiled_mma mma = tiled_mma(facts[i].atom, facts[i].atoms, facts[i].tile);
        ptxpack_operand   operand = facts[i].operand;
        ptxpack_layout    tensor = layout(facts[i].tensor);
        assert_layout(ptxpack_mma_layout_tv(&mma, operand), facts[i].tv);
        assert_layout(ptxpack_mma_thrfrg(&mma, operand, &tensor), facts[i].thrfrg);
        ptxpack_slice slice = ptxpack_mma_partition(&mma, operand, facts[i].thread, &tensor);
        assert_slice(slice, facts[i].partition, facts[i].offset);
        if (facts[i].fragment != NULL)
            assert_layout(ptxpack_mma_fragment(&mma, operand, &slice.layout), facts[i].fragment);
        ptxpack_tuple shape = ptxpack_mma_partition_shape(&mma, operand, &tensor.shape);
        assert_true(ptxpack_tuple_equal(&shape, &slice.layout.shape));
    }
}

/* ---- every MMA atom, by brute force ------------------------------------------------------------------- */
/* Counts how often each element of an operand is held, in a tile of whole atoms, by the threads that take
 * part. */
static void count_elements(const ptxpack_tiled_mma *mma, ptxpack_operand operand, const ptxpack_layout *tensor,
                           uint16_t *held)
{
    ptxpack_layout thrfrg = ptxpack_mma_thrfrg(mma, operand, tensor);
    if (thrfrg.shape.status != PTXPACK_OK)
        fail_msg("%s: %s", mma->atom.name, ptxpack_detail(NULL));
    ptxpack_layout first = part(mma, operand, 0, text_of(tensor)).layout;
    int64_t        values = ptxpack_mode_size(&thrfrg, 1);
    assert_int_equal(ptxpack_size(&first), values);
    memset(held, 0, sizeof *held * (size_t)ptxpack_size(tensor));
    for (int64_t i = 0; i < ptxpack_mode_size(&thrfrg, 0); i++)
        for (int64_t v = 0; v < values; v++)
            held[ptxpack_at(&thrfrg, i + v * ptxpack_mode_size(&thrfrg, 0))]++;
}

static void check_mma(const ptxpack_mma_atom *atom, const char *atoms)
{
    static uint16_t   held[256 * 512];
    ptxpack_layout    l = layout(atoms);
    ptxpack_tiled_mma mma = ptxpack_make_tiled_mma(atom, &l, NULL);
    if (mma.status != PTXPACK_OK)
        fail_msg("%s: %s", atom->name, ptxpack_detail(NULL));
    static const int modes[3][2] = {{0, 2}, {1, 2}, {0, 1}};
    for (int o = 0; o < 3; o++) {
        int64_t       extents[2] = {mma.tile_size_mnk.value[modes[o][0]], mma.tile_size_mnk.value[modes[o][1]]};
        ptxpack_tuple shape = ptxpack_tuple_of(2, extents);
        ptxpack_layout tile = ptxpack_make_layout_left(&shape);
        assert_true(ptxpack_size(&tile) <= (int64_t)(sizeof held / sizeof *held));
        count_elements(&mma, (ptxpack_operand)o, &tile, held);
        for (int64_t i = 0; i < ptxpack_size(&tile); i++)
            if (held[i] == 0 || held[i] != held[0] || (o == PTXPACK_C && held[i] != 1))
                fail_msg("%s %s: element %d of %c is held %d times, element 0 %d times", atom->name, atoms,
                         (int)i, "ABC"[o], held[i], held[0]);
    }
}

static void test_every_mma(void **state)
{
    ptxpack_mma_atom atom;
    (void)state;
    for (size_t i = 0; ptxpack_mma_atom_at(i, &atom); i++) {
        /* there are too many of these to test all */
        if (atom.a_tensor || atom.d_tensor || (atom.b_shared && i % 29 != 0))
            continue;
        check_mma(&atom, "(1,1,1)");
        if (!atom.b_shared)
            check_mma(&atom, "(2,2,1):(2,1,0)");
    }
}

/* Threads that differ only in the mode that an operand lacks hold the same elements; and the (thread, value)
 * layouts agree with the partitions. */
static void check_broadcast(const ptxpack_tiled_mma *mma, ptxpack_operand operand, const char *tensor)
{
    static const int modes[3][2] = {{0, 2}, {1, 2}, {0, 1}}, missing[3] = {1, 0, 2};
    ptxpack_layout   l = layout(tensor), tv = ptxpack_mma_layout_tv(mma, operand);
    const int       *xy = modes[operand];
    const int64_t    extents[] = {mma->tile_size_mnk.value[xy[0]], mma->tile_size_mnk.value[xy[1]]};
    ptxpack_tuple    shape = ptxpack_tuple_of(2, extents);
    ptxpack_layout   tile = ptxpack_make_layout_left(&shape);
    int64_t          threads = ptxpack_mode_size(&tv, 0), m = missing[operand] + 1;
    assert_int_equal(threads, ptxpack_mma_threads(mma));
    for (int64_t t = 0; t < threads; t += 5) {
        ptxpack_slice mine = ptxpack_mma_partition(mma, operand, t, &tile);
        for (int64_t v = 0; v < ptxpack_size(&mine.layout); v++)
            assert_int_equal(at(&mine, v), ptxpack_at(&tv, t + v * threads));
        ptxpack_tuple vmnk = ptxpack_mma_thread_vmnk(mma, t), back;
        back = ptxpack_layout_crd2idx(&mma->thr_layout_vmnk, &vmnk);
        assert_int_equal(back.value[0], t);
        vmnk.value[m] = (vmnk.value[m] + 1) % ptxpack_mode_size(&mma->thr_layout_vmnk, (int)m);
        back = ptxpack_layout_crd2idx(&mma->thr_layout_vmnk, &vmnk);
        assert_int_not_equal(back.value[0], t);
        mine = ptxpack_mma_partition(mma, operand, t, &l);
        assert_slice(ptxpack_mma_partition(mma, operand, back.value[0], &l), text_of(&mine.layout),
                     mine.offset.value[0]);
    }
}

static void test_broadcast(void **state)
{
    static const char *const names[][2] = {
        {AMPERE, "(3,2,2):(2,1,6)"},
        {VOLTA, "(2,2,2):(2,1,4)"},
        {"SM80_8x8x4_F64F64F64F64_TN", "(2,3,2)"},
        {"SM75_8x8x16_S32S8S8S32_TN", "(3,2,2):(4,2,1)"},
    };
    (void)state;
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        ptxpack_tiled_mma mma = tiled_mma(names[n][0], names[n][1], NULL);
        check_broadcast(&mma, PTXPACK_A, "(96,32):(32,1)");
        check_broadcast(&mma, PTXPACK_B, "(96,64)");
        check_broadcast(&mma, PTXPACK_C, "(96,96):(96,1)");
    }
}

/* Partitions of coordinates in place of offsets, as predicates need them. */
static void test_identity(void **state)
{
    ptxpack_tiled_mma mma = tiled_mma(AMPERE, "(4,1,1)", "<64,16,16>");
    ptxpack_tuple     shape = ptxpack_tuple_parse("(64,32)");
    ptxpack_layout    identity = ptxpack_make_identity_layout(&shape);
    ptxpack_slice     c = ptxpack_mma_partition(&mma, PTXPACK_C, 37, &identity);
    char              text[64];
    (void)state;
    assert_layout(c.layout, "((2,2),1,4):((1@1,8@0),0,8@1)");
    ptxpack_tuple_print(&c.offset, text, sizeof text);
    assert_string_equal(text, "(17,2)");
}

/* ---- refusals ---------------------------------------------------------------------------------------- */
static void test_mma_no(void **state)
{
    ptxpack_mma_atom atom = mma_atom(AMPERE), other;
    ptxpack_layout   bad = ptxpack_layout_parse("(4,"), rank4 = layout("(1,1,1,2)");
    ptxpack_layout   twice = layout("(2,2):(1,1)"), sw = layout("Sw<1,1,1> o 0 o 8:1");
    ptxpack_layout   zero = layout("(2,2):(0,1)"), plain = layout("(32,32,16)"), small = layout("<8,8,16>");
    ptxpack_layout   gaps = layout("<16,(8,2):(2,32),16>"), nested = layout("<<4,4>,8,16>");
    ptxpack_layout   huge = layout("(1,72057594037927935)");
    ptxpack_layout   odd = layout("<48,24,16>"), two = layout("(2,2)"), four = layout("<16,16,16,16>");
    ptxpack_layout   underscore = ptxpack_layout_parse("_"), ok = layout("(2,2)");
    (void)state;
    assert_int_equal(ptxpack_make_tiled_mma(&atom, &bad, NULL).status, PTXPACK_E_ARG);
    assert_int_equal(ptxpack_make_tiled_mma(&atom, NULL, &bad).status, PTXPACK_E_ARG);
    assert_int_equal(ptxpack_make_tiled_mma(&atom, &rank4, NULL).status, PTXPACK_E_ARG);
    assert_no(ptxpack_make_tiled_mma(&atom, &zero, NULL).status, "(2,2,1):(0,1,0)");
    assert_no(ptxpack_make_tiled_mma(&atom, &twice, NULL).status, "(2,2,1):(1,1,0)");
    assert_no(ptxpack_make_tiled_mma(&atom, &sw, NULL).status, "no plain layout");
    assert_no(ptxpack_make_tiled_mma(&atom, NULL, &plain).status, "(32,32,16)");
    assert_no(ptxpack_make_tiled_mma(&atom, NULL, &four).status, "<16,16,16,16>");
    assert_no(ptxpack_make_tiled_mma(&atom, NULL, &small).status, "tile 8 of mode M");
    assert_no(ptxpack_make_tiled_mma(&atom, &two, &odd).status, "tile 48 of mode M");
    assert_no(ptxpack_make_tiled_mma(&atom, NULL, &gaps).status, "(8,2):(2,32) of mode N is no permutation");
    assert_no(ptxpack_make_tiled_mma(&atom, NULL, &nested).status, "<4,4> of mode M is no permutation");
    other = mma_atom("SM90_64x256x16_F32F16F16_SS");
    assert_no(ptxpack_make_tiled_mma(&other, &huge, NULL).status, "64 bits");
    assert_int_equal(ptxpack_make_tiled_mma(&atom, &ok, &underscore).status, PTXPACK_OK);
    assert_int_equal(ptxpack_make_tiled_mma(&atom, NULL, NULL).status, PTXPACK_OK);

    ptxpack_tiled_mma mma = tiled_mma(AMPERE, "(2,2,1)", NULL), volta = tiled_mma(VOLTA, NULL, NULL);
    ptxpack_layout    a = layout("(64,32)"), uneven = layout("(48,32)"), line = layout("64:1"), part_of;
    ptxpack_tuple     crooked = ptxpack_tuple_parse("(32,20)");
    assert_no(ptxpack_mma_thrfrg(&mma, PTXPACK_A, &uneven).shape.status, "mode 0 of (48,32)");
    assert_no(ptxpack_mma_thrfrg(&mma, PTXPACK_A, &line).shape.status, "64");
    assert_no(ptxpack_mma_thrfrg(&mma, (ptxpack_operand)3, &a).shape.status, "operand 3");
    assert_no(ptxpack_mma_partition_shape(&mma, PTXPACK_C, &crooked).status, "mode 1 of (32,20)");
    assert_no(ptxpack_mma_partition(&mma, PTXPACK_A, 128, &a).layout.shape.status, "thread 128");
    assert_no(ptxpack_mma_partition(&mma, PTXPACK_A, -1, &a).layout.shape.status, "thread -1");
    assert_no(ptxpack_mma_partition(&volta, PTXPACK_A, 4, &a).layout.shape.status, "thread 4 takes no part");
    assert_no(ptxpack_mma_thread(&volta, PTXPACK_C, 20).status, "thread 20");
    assert_no(ptxpack_mma_permutation(&mma, 3).shape.status, "mode 3");
    assert_no(ptxpack_mma_fragment(&mma, PTXPACK_A, &a).shape.status, "no partition of A");
    part_of = ptxpack_mma_partition(&mma, PTXPACK_A, 0, &bad).layout;
    assert_int_equal(part_of.shape.status, PTXPACK_E_ARG);

    ptxpack_tiled_mma broken = ptxpack_make_tiled_mma(&atom, NULL, &plain);
    assert_int_equal(ptxpack_mma_threads(&broken), 0); /* and passes its refusal on */
    assert_int_equal(ptxpack_mma_thrfrg(&broken, PTXPACK_A, &a).shape.status, PTXPACK_E_ARG);
    assert_int_equal(ptxpack_mma_layout_tv(&broken, PTXPACK_A).shape.status, PTXPACK_E_ARG);
    assert_int_equal(ptxpack_mma_thread_vmnk(&broken, 0).status, PTXPACK_E_ARG);
    assert_int_equal(ptxpack_mma_permutation(&broken, 0).shape.status, PTXPACK_E_ARG);
    assert_int_equal(ptxpack_mma_partition(&broken, PTXPACK_A, 0, &a).layout.shape.status, PTXPACK_E_ARG);
    assert_int_equal(ptxpack_mma_fragment(&broken, PTXPACK_C, &a).shape.status, PTXPACK_E_ARG);
    for (size_t i = 0; ptxpack_mma_atom_at(i, &other); i++)
        if (other.d_tensor) {
            ptxpack_tiled_mma t = ptxpack_make_tiled_mma(&other, NULL, NULL);
            ptxpack_tuple     mn = ptxpack_take(&t.tile_size_mnk, 0, 2);
            ptxpack_layout    c = ptxpack_make_layout_left(&mn);
            part_of = ptxpack_mma_partition(&t, PTXPACK_C, 0, &c).layout;
            assert_int_equal(part_of.shape.status, PTXPACK_OK);
            assert_no(ptxpack_mma_fragment(&t, PTXPACK_C, &part_of).shape.status, "tensor memory");
            break;
        }
}

/* The error of an atom that was not found is kept by everything that is made from it. */
static void test_no_mma_atom(void **state)
{
    (void)state;
    static const char *const names[] = {"SM80_16x8x16_F32F16F16F32", NULL};
    const ptxpack_layout     tensor = layout("(32,32)"), atoms = layout("(2,2,1)");
    for (int i = 0; i < 2; i++) {
        ptxpack_mma_atom atom;
        memset(&atom, 0x5a, sizeof atom);
        assert_int_equal(ptxpack_mma_atom_find(names[i], &atom), PTXPACK_E_ARG);
        ptxpack_tiled_mma mma = ptxpack_make_tiled_mma(&atom, &atoms, NULL);
        ptxpack_slice     part = ptxpack_mma_partition(&mma, PTXPACK_C, 0, &tensor);
        ptxpack_layout    tv = ptxpack_mma_layout_tv(&mma, PTXPACK_A);
        ptxpack_layout    fragment = ptxpack_mma_fragment(&mma, PTXPACK_C, &part.layout);
        assert_int_equal(mma.status, PTXPACK_E_ARG);
        assert_int_equal(ptxpack_mma_threads(&mma), 0);
        assert_int_equal(tv.shape.status, PTXPACK_E_ARG);
        assert_no(fragment.shape.status, i == 0 ? "near: SM80_16x8x16_F32F16F16F32_TN" : "name is NULL");
    }
    static ptxpack_mma_atom nothing; /* zeros */
    assert_no(ptxpack_make_tiled_mma(&nothing, NULL, NULL).status, "an atom of 0 x 0 x 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_volta),       cmocka_unit_test(test_volta_tiles),
        cmocka_unit_test(test_hopper),      cmocka_unit_test(test_attention_mma),
        cmocka_unit_test(test_mma_counts),  cmocka_unit_test(test_mma_facts),
        cmocka_unit_test(test_every_mma),   cmocka_unit_test(test_broadcast),
        cmocka_unit_test(test_identity),    cmocka_unit_test(test_mma_no),
        cmocka_unit_test(test_no_mma_atom), cmocka_unit_test(test_swizzled_fragment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
