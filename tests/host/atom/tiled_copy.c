/* tiled_copy.c - copy atoms and tiled copies: the figures of the articles, CuTe's own results, and a check of
 * what each of them must mean, by brute force. */
#include "tiled_fixture.h"

/* ---- copy atoms -------------------------------------------------------------------------------------- */
static void test_copy_atom_table(void **state)
{
    ptxpack_copy_atom atom, found;
    size_t            count = ptxpack_copy_atom_count(), tma = 0, bulk = 0;
    (void)state;
    assert_int_equal(count, 5 + 2 + 7 + 8 + 6 + 11 + 39);
    for (size_t i = 0; i < count; i++) {
        assert_true(ptxpack_copy_atom_at(i, &atom));
        assert_int_equal(ptxpack_copy_atom_find(atom.name, &found), PTXPACK_OK);
        assert_memory_equal(atom.name, found.name, sizeof atom.name); /* names are unique ... */
        assert_true(ptxpack_layout_equal(&atom.src, &found.src) && !strcmp(atom.ptx, found.ptx));
        const ptxpack_layout *sides[] = {&atom.src, &atom.dst, &atom.ref};
        int64_t               threads = ptxpack_size(&atom.thr_id);
        char                 *bits = (char *)calloc((size_t)ptxpack_cosize(&atom.src), 1);
        for (int s = 0; s < 3; s++) { /* ... and each side has the same bits */
            assert_int_equal(sides[s]->shape.status, PTXPACK_OK);
            assert_int_equal(ptxpack_rank(&sides[s]->shape), 2);
            assert_int_equal(ptxpack_mode_size(sides[s], 0), threads);
            assert_int_equal(ptxpack_cosize(sides[s]), ptxpack_cosize(&atom.src));
            for (int64_t k = 0; k < ptxpack_size(sides[s]); k++)
                bits[ptxpack_at(sides[s], k)] |= (char)(1 << s);
        }
        for (int64_t k = 0; k < ptxpack_cosize(&atom.src); k++)
            assert_int_equal(bits[k], 7);
        free(bits);
        assert_in_range(atom.arch, 50, 100);
        assert_in_range(atom.isa, 40, 86);
        assert_true(strlen(atom.ptx) > 5 && strlen(atom.ptx) < sizeof atom.ptx - 1);
        assert_true(strlen(atom.name) < sizeof atom.name - 1);
        tma += strstr(atom.name, "SM90_TMA") != NULL;
        bulk += strstr(atom.name, "SM90_BULK") != NULL;
    }
    assert_int_equal(tma, 36);
    assert_int_equal(bulk, 3);
    assert_false(ptxpack_copy_atom_at(count, &atom));
    assert_no(ptxpack_copy_atom_find("SM75_U32x3_LDSM_N", &atom), "SM75_U32x3_LDSM_N");
    assert_no(ptxpack_copy_atom_find(NULL, &atom), "name is NULL");
}

/* What the PTX manual says of each instruction; every atom begins with one of these names. */
static void test_copy_atom_versions(void **state)
{
    (void)state;
    static const struct {
        const char *names;
        size_t      count;
        int         arch, isa;
    } facts[] = {
        {"UniversalCopy<", 5, 50, 40},      {"SM50_Shuffle_U32_2x2Trans_XOR", 2, 50, 60}, /* shfl.sync */
        {"SM75_U32x1_MOVM_T", 1, 75, 78},   {"SM75_U32x1_LDSM_N", 1, 75, 65},
        {"SM75_U32x2_LDSM_N", 1, 75, 65},   {"SM75_U32x4_LDSM_N", 1, 75, 65},
        {"SM75_U16x2_LDSM_T", 1, 75, 65},   {"SM75_U16x4_LDSM_T", 1, 75, 65},
        {"SM75_U16x8_LDSM_T", 1, 75, 65},   {"SM90_U32x1_STSM_N", 1, 90, 78},
        {"SM90_U32x2_STSM_N", 1, 90, 78},   {"SM90_U32x4_STSM_N", 1, 90, 78},
        {"SM90_U16x2_STSM_T", 1, 90, 78},   {"SM90_U16x4_STSM_T", 1, 90, 78},
        {"SM90_U16x8_STSM_T", 1, 90, 78},   {"SM80_CP_ASYNC_CACHE", 8, 80, 74}, /* with .L2::128B */
        {"SM100_U8x", 5, 100, 86},          {"SM100_SU4_DU8x16_x", 3, 100, 86},
        {"SM100_SU6_DU8x16_x", 3, 100, 86}, {"SM90_TMA_", 36, 90, 80},
        {"SM90_BULK_COPY_", 3, 90, 80},
    };
    ptxpack_copy_atom atom;
    size_t            all = 0;
    for (size_t f = 0; f < sizeof facts / sizeof *facts; f++) {
        size_t count = 0;
        for (size_t i = 0; ptxpack_copy_atom_at(i, &atom); i++)
            if (!strncmp(atom.name, facts[f].names, strlen(facts[f].names))) {
                if (atom.arch != facts[f].arch || atom.isa != facts[f].isa)
                    fail_msg("%s: sm_%d, PTX %d", atom.name, atom.arch, atom.isa);
                count++;
            }
        assert_int_equal(count, facts[f].count);
        all += count;
    }
    assert_int_equal(all, ptxpack_copy_atom_count());
}

/* The error of an atom that was not found is kept by everything that is made from it. */
static void test_no_copy_atom(void **state)
{
    (void)state;
    ptxpack_copy_atom    atom;
    const ptxpack_layout threads = layout("(16,2):(2,1)"), values = layout("(1,8)"), tile = layout("(16,16)");
    const ptxpack_layout tv = layout("(32,8)"), tiler = layout("<16,16>");
    ptxpack_mma_atom     ampere = mma_atom(AMPERE);
    ptxpack_tiled_mma    mma = ptxpack_make_tiled_mma(&ampere, NULL, NULL);
    memset(&atom, 0x5a, sizeof atom);
    assert_no(ptxpack_copy_atom_find("SM75_U32x4_LDSM", &atom),
              "no copy atom is named \"SM75_U32x4_LDSM\"; near: SM75_U32x4_LDSM_N, SM75_U32x1_LDSM_N, "
              "SM75_U32x2_LDSM_N");
    assert_int_equal(ptxpack_copy_atom_resize(&atom, 128), PTXPACK_E_ARG);
    const ptxpack_tiled_copy copies[] = {
        ptxpack_make_tiled_copy(&atom, 16, &threads, &values),
        ptxpack_make_tiled_copy_tv(&atom, 16, &tv, &tiler),
        ptxpack_make_tiled_copy_mma(&atom, 16, &mma, PTXPACK_A),
        ptxpack_make_tiled_copy_c_atom(&atom, 16, &mma),
        ptxpack_make_cotiled_copy(&atom, 16, &tv, &tile),
    };
    for (size_t i = 0; i < sizeof copies / sizeof *copies; i++) {
        ptxpack_slice part = ptxpack_copy_partition(&copies[i], PTXPACK_SRC, 0, &tile);
        assert_int_equal(copies[i].status, PTXPACK_E_ARG);
        assert_int_equal(ptxpack_copy_threads(&copies[i]), 0);
        assert_int_equal(part.layout.shape.status, PTXPACK_E_ARG);
        assert_no(part.layout.shape.status, "SM75_U32x4_LDSM"); /* the first line is kept */
    }
    memset(&atom, 0x5a, sizeof atom);
    assert_int_equal(ptxpack_copy_atom_find(NULL, &atom), PTXPACK_E_ARG);
    assert_int_equal(ptxpack_make_tiled_copy(&atom, 16, &threads, &values).status, PTXPACK_E_ARG);
    assert_no(ptxpack_copy_atom_find("SM75_U32x4_LDSM_N", NULL), "out is NULL");
}

static void test_copy_atom_facts(void **state)
{
    static const struct {
        const char *name, *ptx, *thr_id, *src, *dst;
        bool        ref_is_src;
        int         arch, isa, registers_src, registers_dst;
    } facts[] = {
        {"SM50_Shuffle_U32_2x2Trans_XOR4", "shfl.sync.bfly.b32", "32:1", "(32,64):(64,1)",
         "((4,2,4),(32,2)):((64,32,512),(1,256))", true, 50, 60, 2, 2},
        {"SM75_U32x1_LDSM_N", "ldmatrix.sync.aligned.m8n8.x1.shared.b16", "32:1", "((8,4),128):((128,0),1)",
         "(32,32):(32,1)", false, 75, 65, 0, 1},
        {"SM75_U32x4_LDSM_N", "ldmatrix.sync.aligned.m8n8.x4.shared.b16", "32:1", "(32,128):(128,1)",
         "(32,(32,4)):(32,(1,1024))", false, 75, 65, 0, 4},
        {"SM75_U16x4_LDSM_T", "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16", "32:1",
         "((16,2),128):((128,0),1)", "((4,8),(16,2,2)):((256,16),(1,128,1024))", false, 75, 65, 0, 2},
        {"SM75_U32x1_MOVM_T", "movmatrix.sync.aligned.m8n8.trans.b16", "32:1", "(32,32):(32,1)",
         "(32,32):(32,1)", false, 75, 78, 1, 1},
        {"SM80_CP_ASYNC_CACHEALWAYS_ZFILL<uint32_t>", "cp.async.ca.shared.global.L2::128B", "1:0",
         "(1,32):(0,1)", "(1,32):(0,1)", true, 80, 74, 0, 0},
        {"SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>", "cp.async.cg.shared.global.L2::128B", "1:0", "(1,128):(0,1)",
         "(1,128):(0,1)", true, 80, 74, 0, 0},
        {"SM90_U16x8_STSM_T", "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16", "32:1",
         "((4,8),(16,2,4)):((256,16),(1,128,1024))", "(32,128):(128,1)", true, 90, 78, 4, 0},
        {"SM90_TMA_LOAD_IM2COL_MULTICAST_4D",
         "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
         ".multicast::cluster",
         "1:0", "(1,128):(0,1)", "(1,128):(0,1)", true, 90, 80, 0, 0},
        {"SM90_TMA_REDUCE_ADD", "cp.reduce.async.bulk.tensor.<1-5>d.global.shared::cta.add.bulk_group", "1:0",
         "(1,128):(0,1)", "(1,128):(0,1)", true, 90, 80, 0, 0},
        {"SM90_BULK_COPY_AUTO", "cp.async.bulk", "1:0", "(1,1):(0,0)", "(1,1):(0,0)", true, 90, 80, 0, 0},
        {"UniversalCopy<uint64_t>", "ld.b64; st.b64", "1:0", "(1,64):(0,1)", "(1,64):(0,1)", true, 50, 40, 0,
         0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        ptxpack_copy_atom atom = copy_atom(facts[i].name);
        assert_string_equal(atom.ptx, facts[i].ptx);
        assert_layout(atom.thr_id, facts[i].thr_id);
        assert_layout(atom.src, facts[i].src);
        assert_layout(atom.dst, facts[i].dst);
        assert_layout(atom.ref, facts[i].ref_is_src ? facts[i].src : facts[i].dst);
        assert_int_equal(atom.arch, facts[i].arch);
        assert_int_equal(atom.isa, facts[i].isa);
        assert_int_equal(atom.registers_src, facts[i].registers_src);
        assert_int_equal(atom.registers_dst, facts[i].registers_dst);
    }
    assert_string_equal(ptxpack_space_name(copy_atom("SM75_U32x1_LDSM_N").src_space), "shared");
    assert_string_equal(ptxpack_space_name(copy_atom("SM75_U32x1_LDSM_N").dst_space), "registers");
    assert_string_equal(ptxpack_space_name(copy_atom("SM90_TMA_STORE").dst_space), "global");
    assert_string_equal(ptxpack_space_name(copy_atom("UniversalCopy<uint8_t>").dst_space), "any");
    assert_string_equal(ptxpack_space_name((ptxpack_space)9), "?");
}

static void test_copy_atom_resize(void **state)
{
    ptxpack_copy_atom tma = copy_atom("SM90_TMA_LOAD_2D"), plain = copy_atom("UniversalCopy<uint32_t>");
    (void)state;
    assert_int_equal(ptxpack_copy_atom_resize(&tma, 64 * 64 * 16), PTXPACK_OK);
    assert_layout(tma.src, "(1,65536):(0,1)");
    assert_layout(tma.dst, "(1,65536):(0,1)");
    assert_layout(tma.ref, "(1,65536):(0,1)");
    assert_no(ptxpack_copy_atom_resize(&tma, 64), "64 bits");
    assert_no(ptxpack_copy_atom_resize(&tma, 0), "0 bits");
    assert_no(ptxpack_copy_atom_resize(&tma, -128), "-128 bits");
    assert_no(ptxpack_copy_atom_resize(&plain, 128), "UniversalCopy<uint32_t>");
    assert_no(ptxpack_copy_atom_resize(NULL, 128), "NULL");
}

/* ---- tiled copies ------------------------------------------------------------------------------------ */
static void test_article_copies(void **state)
{
    ptxpack_tiled_copy g2s = tiled_copy("SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>", 16, "(32,4):(4,1)", "(1,8)");
    ptxpack_tiled_copy s2r = tiled_copy("SM75_U32x4_LDSM_N", 16, "(32,4):(4,1)", "(1,8)");
    ptxpack_layout     tensor = layout("(128,32):(32,1)"), sixty = layout("(128,64):(64,1)");
    (void)state;
    assert_int_equal(ptxpack_copy_threads(&g2s), 128);
    assert_layout(g2s.layout_tv, "((4,32),8):((256,1),32)");
    assert_layout(g2s.tiler, "<32,32>");
    assert_layout(ptxpack_copy_layout_tv(&g2s, PTXPACK_SRC), "((4,32),(8,1)):((256,1),(32,0))");
    for (int side = 0; side < 2; side++) /* thread t: row t / 4, 8 elements from column 8 (t % 4) on */
        for (int t = 0; t < 128; t++)
            assert_slice(ptxpack_copy_partition(&g2s, (ptxpack_side)side, t, &tensor),
                         "((8,1),4,1):((1,0),1024,0)", t / 4 * 32 + t % 4 * 8);
    assert_layout(s2r.layout_tv, "((4,32),8):((256,1),32)");
    assert_layout(ptxpack_copy_tidfrg(&s2r, PTXPACK_SRC, &tensor),
                  "((8,4,4),((2,4),1),(4,1)):((32,2,256),((1,8),0),(1024,0))");
    assert_layout(ptxpack_copy_tidfrg(&s2r, PTXPACK_DST, &tensor),
                  "((4,32),(8,1),(4,1)):((8,32),(1,0),(1024,0))");
    assert_slice(ptxpack_copy_partition(&s2r, PTXPACK_SRC, 127, &tensor), "(((2,4),1),4,1):(((1,8),0),1024,0)",
                 998);
    ptxpack_slice s = ptxpack_copy_partition(&g2s, PTXPACK_SRC, 3, &sixty);
    assert_layout(s.layout, "((8,1),4,2):((1,0),2048,32)");
    assert_layout(ptxpack_copy_retile(&s2r, &s.layout), "((8,1),4,2):((1,0),2048,32)");
}

/* The attention tutorial's copies: shared memory to A and B, V transposed, the result back. */
static void test_attention_copies(void **state)
{
    ptxpack_tiled_mma  mma = tiled_mma(AMPERE, "(4,1,1)", "<64,16,16>");
    ptxpack_tiled_copy q = copy_of_mma("SM75_U32x4_LDSM_N", 16, &mma, PTXPACK_A);
    ptxpack_tiled_copy k = copy_of_mma("SM75_U32x4_LDSM_N", 16, &mma, PTXPACK_B);
    ptxpack_tiled_copy v = copy_of_mma("SM75_U16x8_LDSM_T", 16, &mma, PTXPACK_B);
    ptxpack_tiled_copy o = copy_of_mma("UniversalCopy<uint32_t>", 16, &mma, PTXPACK_C);
    ptxpack_layout     row = layout("(64,128):(128,1)"), vt = layout("(128,64)");
    ptxpack_layout     frag = layout("((2,2,2),1,8)");
    (void)state;
    assert_layout(q.tiler, "<64,16>");
    assert_layout(k.tiler, "<16,16>");
    assert_layout(o.tiler, "<64,16>");
    assert_layout(ptxpack_copy_layout_tv(&q, PTXPACK_SRC), "((16,2,4),(8,1)):((1,512,16),(64,0))");
    assert_slice(ptxpack_copy_partition(&q, PTXPACK_SRC, 5, &row), "((8,1),1,8):((1,0),0,16)", 5 * 128);
    assert_slice(ptxpack_copy_partition(&q, PTXPACK_DST, 5, &row), "(((2,2,2),1),1,8):(((1,1024,8),0),0,16)",
                 130);
    assert_slice(ptxpack_copy_partition(&v, PTXPACK_SRC, 127, &vt), "((8,1),8,4):((1,0),16,2048)", 1928);
    assert_slice(ptxpack_copy_partition(&v, PTXPACK_DST, 127, &vt),
                 "(((2,2,2),1),8,4):(((128,1024,8),0),16,2048)", 775);
    assert_slice(ptxpack_copy_partition(&o, PTXPACK_DST, 127, &row), "((2,(2,2)),1,8):((1,(1024,8)),0,16)",
                 7046);
    assert_layout(ptxpack_copy_retile(&q, &frag), "((8,1),1,8):((1,0),0,8)");
    frag = layout("((2,2),8,8):((1,2),32,4)");
    assert_layout(ptxpack_copy_retile(&k, &frag), "(((4,2),1),4,8):(((1,32),0),64,4)");
    assert_layout(ptxpack_copy_retile(&v, &frag), "(((4,2),1),4,8):(((1,32),0),64,4)");
    frag = layout("((2,2),1,8):((1,2),0,4)");
    assert_layout(ptxpack_copy_retile(&o, &frag), "((2,4),1,4):((1,2),0,8)");
}

static void test_copy_facts(void **state)
{
    ptxpack_tiled_mma  fa = tiled_mma(AMPERE, "(4,1,1)", "<64,16,16>");
    ptxpack_tiled_mma  gmma = tiled_mma("SM90_64x128x16_F32F16F16_SS", "(2,1,1)", NULL);
    ptxpack_copy_atom  stsm = copy_atom("SM90_U32x4_STSM_N"), word = copy_atom("UniversalCopy<uint32_t>");
    ptxpack_copy_atom  wide = copy_atom("UniversalCopy<uint128_t>");
    ptxpack_copy_atom  half = copy_atom("UniversalCopy<uint64_t>");
    ptxpack_layout     row = layout("(128,128):(128,1)"), line = layout("4096:1"), tv, data;
    ptxpack_tiled_copy c = made(ptxpack_make_tiled_copy_c_atom(&stsm, 16, &gmma));
    (void)state;
    assert_layout(c.layout_tv, "((4,8,8),(2,2,2)):((128,1,8),(512,64,1024))");
    assert_layout(c.tiler, "<(8,8,2):(1,16,8),(4,2,2):(2,1,8)>");
    assert_layout(ptxpack_copy_layout_tv(&c, PTXPACK_DST),
                  "((8,2,2,8),((2,4),1)):((1,64,1024,8),((512,128),0))");
    assert_slice(ptxpack_copy_partition(&c, PTXPACK_SRC, 127, &row), "(((2,2,2),1),1,8):(((1,1024,8),0),0,16)",
                 7046);
    assert_slice(ptxpack_copy_partition(&c, PTXPACK_DST, 127, &row), "(((2,4),1),1,8):(((1,2),0),0,16)", 8072);
    line = layout("((2,2,16),1,2):((1,2,4),0,64)");
    assert_layout(ptxpack_copy_retile(&c, &line), "((8,8),1,2):((1,8),0,64)");
    ptxpack_tiled_copy like = made(ptxpack_make_tiled_copy_like(&stsm, 16, &c, PTXPACK_SRC));
    assert_layout(like.layout_tv, "((4,64),((2,2,2),1)):((128,1),((512,64,1024),0))");
    assert_layout(like.tiler, "<(8,8,2):(1,16,8),(4,2,2):(2,1,8)>");
    ptxpack_tiled_copy a = copy_of_mma("SM75_U32x4_LDSM_N", 16, &fa, PTXPACK_A);
    like = made(ptxpack_make_tiled_copy_like(&word, 16, &a, PTXPACK_DST));
    assert_layout(like.layout_tv, "((4,8,4),((2,2,2),1)):((128,1,16),((64,8,512),0))");
    a = copy_of_mma("SM50_Shuffle_U32_2x2Trans_XOR1", 32, &fa, PTXPACK_C);
    assert_layout(ptxpack_copy_layout_tv(&a, PTXPACK_DST),
                  "((2,2,8,4),(2,(2,2))):((64,256,1,16),(128,(8,512)))");
    a = tiled_copy("UniversalCopy<uint8_t>", 8, "(8,4):(1,8)", "(2,3)");
    assert_layout(a.tiler, "<16,12>");
    assert_layout(a.layout_tv, "((8,4),(2,3)):((2,48),(1,16))");
    a = tiled_copy("UniversalCopy<uint128_t>", 16, "128:1", "8:1"); /* one mode */
    line = layout("4096:1");
    assert_slice(ptxpack_copy_partition(&a, PTXPACK_SRC, 9, &line), "((8,1),(4)):((1,0),(1024))", 72);
    a = tiled_copy("UniversalCopy<uint16_t>", 16, "(16,8)", NULL); /* one value */
    assert_layout(a.layout_tv, "(128,1):(1,0)");
    tv = layout("(32,8):(8,1)");
    data = layout("(64,16)");
    a = made(ptxpack_make_cotiled_copy(&wide, 16, &tv, &data));
    assert_layout(a.layout_tv, "((8,4),8):((1,64),8)");
    assert_layout(a.tiler, "<(8,8):(8,1),4:1>");
    assert_slice(ptxpack_copy_partition(&a, PTXPACK_SRC, 9, &data), "((8,1),1,4):((1,0),0,256)", 72);
    tv = layout("(32,(4,2)):(4,(1,128))");
    data = layout("(32,(8,4)):(8,(1,256))");
    a = made(ptxpack_make_cotiled_copy(&half, 16, &tv, &data));
    assert_layout(a.layout_tv, "((2,16),(4,2)):((32,1),(64,16))");
    assert_layout(a.tiler, "<32:1,(2,4):(4,1)>");
}

/* A copy made from a tiled MMA brings a thread the elements that the MMA needs there, in the retiled order. */
static void test_copy_feeds_mma(void **state)
{
    static const struct {
        const char     *mma, *atoms, *tile, *copy;
        int             bits;
        ptxpack_operand operand;
        ptxpack_side    registers;
        const char     *tensor;
    } cases[] = {
        {AMPERE, "(4,1,1)", "<64,16,16>", "SM75_U32x4_LDSM_N", 16, PTXPACK_A, PTXPACK_DST, "(64,128):(128,1)"},
        {AMPERE, "(4,1,1)", "<64,16,16>", "SM75_U32x4_LDSM_N", 16, PTXPACK_B, PTXPACK_DST, "(64,128):(128,1)"},
        {AMPERE, "(4,1,1)", "<64,16,16>", "SM75_U16x8_LDSM_T", 16, PTXPACK_B, PTXPACK_DST, "(128,64)"},
        {AMPERE, "(4,1,1)", "<64,16,16>", "SM75_U32x2_LDSM_N", 16, PTXPACK_B, PTXPACK_DST, "(64,128):(128,1)"},
        {AMPERE, "(4,1,1)", "<64,16,16>", "UniversalCopy<uint32_t>", 16, PTXPACK_C, PTXPACK_SRC, "(64,64)"},
        {AMPERE, "(2,2,1)", "<32,64,16>", "SM90_U32x2_STSM_N", 16, PTXPACK_C, PTXPACK_SRC, "(64,128):(128,1)"},
        {AMPERE, "(2,4,1):(4,1,0)", NULL, "SM90_U16x4_STSM_T", 16, PTXPACK_C, PTXPACK_SRC, "(64,128)"},
        {VOLTA, "(2,2):(2,1)", PERMUTED, "UniversalCopy<uint128_t>", 16, PTXPACK_A, PTXPACK_DST, "(64,16)"},
        {"SM80_16x8x8_F32TF32TF32F32_TN", "(2,2,1)", NULL, "SM75_U32x4_LDSM_N", 32, PTXPACK_A, PTXPACK_DST,
         "(32,32):(32,1)"},
        {"SM90_64x128x16_F32F16F16_SS", "(2,1,1)", NULL, "SM90_U32x4_STSM_N", 16, PTXPACK_C, PTXPACK_SRC,
         "(128,256):(256,1)"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ptxpack_tiled_mma  mma = tiled_mma(cases[i].mma, cases[i].atoms, cases[i].tile);
        ptxpack_tiled_copy copy = copy_of_mma(cases[i].copy, cases[i].bits, &mma, cases[i].operand);
        ptxpack_layout     tensor = layout(cases[i].tensor);
        for (int64_t t = 0; t < ptxpack_mma_threads(&mma); t++) {
            ptxpack_slice want = ptxpack_mma_partition(&mma, cases[i].operand, t, &tensor);
            ptxpack_slice got = ptxpack_copy_partition(&copy, cases[i].registers, t, &tensor);
            want.layout = ptxpack_copy_retile(&copy, &want.layout);
            if (want.layout.shape.status != PTXPACK_OK || got.layout.shape.status != PTXPACK_OK)
                fail_msg("%s %s: %s", cases[i].mma, cases[i].copy, ptxpack_detail(NULL));
            assert_int_equal(ptxpack_size(&got.layout), ptxpack_size(&want.layout));
            for (int64_t v = 0; v < ptxpack_size(&got.layout); v++)
                if (at(&got, v) != at(&want, v))
                    fail_msg("%s %s: thread %d value %d is %d, not %d", cases[i].mma, cases[i].copy, (int)t,
                             (int)v, (int)at(&got, v), (int)at(&want, v));
        }
    }
}

/* ldmatrix itself, by its manual: thread t names row t; of matrix j, thread t gets row t / 4, columns
 * 2 (t % 4) and the next, or, transposed, column t / 4, rows 2 (t % 4) and the next. */
static void test_ldmatrix(void **state)
{
    static const char *const names[2] = {"SM75_U32x4_LDSM_N", "SM75_U16x8_LDSM_T"};
    ptxpack_layout           rows = layout("(32,8):(8,1)"), tv = layout("(32,8)"), tiler = layout("<256>");
    (void)state;
    for (int trans = 0; trans < 2; trans++) {
        ptxpack_copy_atom  atom = copy_atom(names[trans]);
        ptxpack_tiled_copy copy = made(ptxpack_make_tiled_copy_tv(&atom, 16, &tv, &tiler));
        for (int t = 0; t < 32; t++)
            for (int v = 0; v < 8; v++) {
                /* row and column in (matrix, row, column) of what the source side reads */
                int            matrix = v / 2, across = t / 4, along = 2 * (t % 4) + v % 2;
                int            row = trans ? along : across, column = trans ? across : along;
                ptxpack_tuple  crd = ptxpack_tuple_parse("(0,0)");
                ptxpack_layout src = ptxpack_copy_layout_tv(&copy, PTXPACK_SRC);
                ptxpack_layout dst = ptxpack_copy_layout_tv(&copy, PTXPACK_DST);
                crd.value[0] = 8 * matrix + row;
                crd.value[1] = column;
                ptxpack_tuple offset = ptxpack_layout_crd2idx(&rows, &crd);
                assert_int_equal(ptxpack_at(&src, offset.value[0] / 8 + 32 * (offset.value[0] % 8)),
                                 ptxpack_at(&dst, t + 32 * v));
            }
    }
}

/* A swizzled tensor has the same elements, each at its swizzled place. */
static void test_swizzled(void **state)
{
    ptxpack_tiled_mma  mma = tiled_mma(AMPERE, "(4,1,1)", "<64,16,16>");
    ptxpack_tiled_copy copy = copy_of_mma("SM75_U32x4_LDSM_N", 16, &mma, PTXPACK_A);
    ptxpack_layout     plain = layout("((8,8),(64,2)):((64,512),(1,4096))"), swizzled = plain;
    ptxpack_layout     atom = layout("Sw<3,3,3> o 0 o (8,64):(64,1)");
    ptxpack_tuple      shape = ptxpack_tuple_parse("(64,128)");
    (void)state;
    swizzled = ptxpack_tile_to_shape(&atom, &shape, NULL);
    assert_layout(swizzled, "Sw<3,3,3> o 0 o ((8,8),(64,2)):((64,512),(1,4096))");
    for (int64_t t = 0; t < 128; t++) {
        ptxpack_slice a = ptxpack_mma_partition(&mma, PTXPACK_A, t, &plain);
        ptxpack_slice b = ptxpack_mma_partition(&mma, PTXPACK_A, t, &swizzled);
        ptxpack_slice c = ptxpack_copy_partition(&copy, PTXPACK_SRC, t, &plain);
        ptxpack_slice d = ptxpack_copy_partition(&copy, PTXPACK_SRC, t, &swizzled);
        assert_int_equal(b.layout.shape.status, PTXPACK_OK);
        assert_int_equal(d.layout.shape.status, PTXPACK_OK);
        for (int64_t v = 0; v < ptxpack_size(&a.layout); v++)
            assert_int_equal(at(&b, v), ptxpack_swizzle_apply(atom.swizzle, at(&a, v)));
        for (int64_t v = 0; v < ptxpack_size(&c.layout); v++)
            assert_int_equal(at(&d, v), ptxpack_swizzle_apply(atom.swizzle, at(&c, v)));
    }
    ptxpack_slice  b = ptxpack_mma_partition(&mma, PTXPACK_A, 3, &swizzled);
    ptxpack_layout fragment = ptxpack_mma_fragment(&mma, PTXPACK_A, &b.layout); /* registers are not swizzled */
    assert_false(fragment.composed);
    assert_int_equal(ptxpack_cosize(&fragment), ptxpack_size(&fragment));
}

/* Random threads and values: each element is read once and written once, and a retiled fragment has the same
 * elements as the fragment. */
static void test_random_copies(void **state)
{
    static const int extents[] = {1, 2, 4, 8, 16};
    const unsigned   seed = 20260731;
    (void)state;
    print_message("seed %u\n", seed);
    srand(seed);
    for (int i = 0; i < 300; i++) {
        char text[2][80];
        int  e[4], vector = 1, by_row = rand() % 2;
        for (int k = 0; k < 4; k++)
            e[k] = extents[(unsigned)rand() % 5];
        snprintf(text[0], sizeof text[0], "(%d,%d):(%d,%d)", e[0], e[1], by_row ? e[1] : 1, by_row ? 1 : e[0]);
        snprintf(text[1], sizeof text[1], "(%d,%d)", e[2], e[3]);
        while (vector < 16 && vector < e[2] * e[3])
            vector *= 2;
        char name[64];
        snprintf(name, sizeof name, "UniversalCopy<uint%d_t>", vector * 8);
        ptxpack_tiled_copy copy = tiled_copy(name, 8, text[0], text[1]);
        int64_t            m = 3 * e[0] * e[2], n = 2 * e[1] * e[3];
        const int64_t      shape_values[] = {m, n};
        ptxpack_tuple      shape = ptxpack_tuple_of(2, shape_values);
        ptxpack_layout     tensor = ptxpack_make_layout_right(&shape);
        for (int side = 0; side < 2; side++) {
            char *hit = (char *)calloc((size_t)(m * n), 1);
            for (int64_t t = 0; t < ptxpack_copy_threads(&copy); t++) {
                ptxpack_slice s = ptxpack_copy_partition(&copy, (ptxpack_side)side, t, &tensor);
                assert_int_equal(s.layout.shape.status, PTXPACK_OK);
                for (int64_t v = 0; v < ptxpack_size(&s.layout); v++)
                    hit[at(&s, v)]++;
            }
            for (int64_t k = 0; k < m * n; k++)
                assert_int_equal(hit[k], 1);
            free(hit);
        }
        ptxpack_slice  s = ptxpack_copy_partition(&copy, PTXPACK_SRC, 0, &tensor);
        ptxpack_layout frag = ptxpack_make_layout_left(&s.layout.shape),
                       again = ptxpack_copy_retile(&copy, &frag);
        if (again.shape.status != PTXPACK_OK)
            fail_msg("%s %s: %s", text[0], text[1], ptxpack_detail(NULL));
        int64_t size = ptxpack_size(&frag);
        char   *hit = (char *)calloc((size_t)size, 1);
        assert_int_equal(ptxpack_size(&again), size);
        for (int64_t k = 0; k < size; k++)
            hit[ptxpack_at(&again, k)]++;
        for (int64_t k = 0; k < size; k++)
            assert_int_equal(hit[k], 1);
        free(hit);
    }
}

/* ---- refusals ---------------------------------------------------------------------------------------- */
static void test_copy_no(void **state)
{
    ptxpack_copy_atom ldsm = copy_atom("SM75_U32x4_LDSM_N"), trans = copy_atom("SM75_U16x8_LDSM_T");
    ptxpack_copy_atom wide = copy_atom("UniversalCopy<uint128_t>");
    ptxpack_layout    thr = layout("(16,8)"), few = layout("(4,4)"), val = layout("(1,8)");
    ptxpack_layout    gap = layout("(16,8):(1,32)"), same = layout("(16,8):(1,0)"), four = layout("(1,4)");
    ptxpack_layout    bad = ptxpack_layout_parse("x");
    ptxpack_layout    tv = layout("(32,8):(8,1)"), tile = layout("<16,16>"), small = layout("<16,8>"), out;
    ptxpack_layout    open = layout("<16,_>"), three = layout("(32,2,4)"), shape = layout("(16,16)");
    (void)state;
    assert_no(ptxpack_make_tiled_copy(&trans, 32, &thr, &val).status, ""); /* 16-bit elements */
    assert_no(ptxpack_make_tiled_copy(&wide, 48, &thr, &val).status, "");  /* 128 / 48 */
    assert_no(ptxpack_make_tiled_copy(&wide, 0, &thr, &val).status, "values of 0 bits");
    assert_no(ptxpack_make_tiled_copy(&ldsm, 16, &few, &val).status, "16 threads");
    assert_no(ptxpack_make_tiled_copy(&ldsm, 16, &thr, &four).status, "4 values of 16 bits");
    assert_no(ptxpack_make_tiled_copy(&wide, 16, &gap, &val).status, "threads (16,8):(1,32)");
    assert_no(ptxpack_make_tiled_copy(&wide, 16, &same, &val).status, "threads (16,8):(1,0)");
    assert_no(ptxpack_make_tiled_copy(&wide, 16, &val, &gap).status, "values (16,8):(1,32)");
    assert_int_equal(ptxpack_make_tiled_copy(&wide, 16, &bad, &val).status, PTXPACK_E_ARG);
    assert_int_equal(ptxpack_make_tiled_copy(&wide, 16, &thr, &bad).status, PTXPACK_E_ARG);
    assert_no(ptxpack_make_tiled_copy_tv(&wide, 16, &tv, &small).status, "leaves the tile <16,8>");
    assert_no(ptxpack_make_tiled_copy_tv(&wide, 16, &tv, &open).status, "<16,_>");
    assert_no(ptxpack_make_tiled_copy_tv(&wide, 16, &tv, &shape).status, "no tiler");
    assert_no(ptxpack_make_tiled_copy_tv(&wide, 16, &three, &tile).status, "(32,2,4)");
    assert_no(ptxpack_make_tiled_copy_tv(&wide, 16, &tile, &tile).status, "(thread,value)");

    ptxpack_tiled_copy copy = made(ptxpack_make_tiled_copy_tv(&wide, 16, &tv, &tile));
    ptxpack_layout     tensor = layout("(32,16)"), uneven = layout("(24,16)"), line = layout("256:1");
    assert_no(ptxpack_copy_tidfrg(&copy, PTXPACK_SRC, &uneven).shape.status, "mode 0 of (24,16)");
    assert_no(ptxpack_copy_tidfrg(&copy, PTXPACK_SRC, &line).shape.status, "fewer modes");
    assert_no(ptxpack_copy_tidfrg(&copy, (ptxpack_side)2, &tensor).shape.status, "side 2");
    assert_no(ptxpack_copy_layout_tv(&copy, (ptxpack_side)2).shape.status, "side 2");
    assert_no(ptxpack_copy_partition(&copy, PTXPACK_SRC, 32, &tensor).layout.shape.status, "thread 32");
    assert_no(ptxpack_copy_partition(&copy, PTXPACK_SRC, -1, &tensor).layout.shape.status, "thread -1");
    out = layout("(4611686018427387904,1,1)");
    assert_no(ptxpack_copy_retile(&copy, &out).shape.status, "too large");
    out = layout("(3,1,1)"); /* it is not a fragment of whole atoms */
    assert_int_equal(ptxpack_copy_retile(&copy, &out).shape.status, PTXPACK_E_ARG);
    ptxpack_layout data = layout("(8,8)"), far = layout("(32,8):(8,64)");
    assert_no(ptxpack_make_cotiled_copy(&wide, 16, &far, &data).status, "are not offsets of (8,8)");
    const ptxpack_layout swizzled = layout("Sw<3,0,3> o 0 o (8,8)");
    assert_no(ptxpack_make_cotiled_copy(&wide, 16, &swizzled, &data).status, "of a tiled copy is swizzled");
    ptxpack_tiled_mma f64 = tiled_mma("SM80_8x8x4_F64F64F64F64_TN", NULL, NULL);
    assert_no(ptxpack_make_tiled_copy_c_atom(&ldsm, 16, &f64).status, "which has 2 of C");

    /* atoms at n = 0, 16, 8, 24: the copy would use another order than the fragment */
    ptxpack_tiled_mma  crossed = tiled_mma(AMPERE, NULL, "<_,(8,2,2):(1,16,8),_>");
    ptxpack_tiled_mma  shared = tiled_mma(AMPERE, "(1,2,1)", "<_,(8,2,2):(1,16,8),_>");
    ptxpack_copy_atom  word = copy_atom("UniversalCopy<uint32_t>");
    ptxpack_tiled_copy b = copy_of_mma("UniversalCopy<uint32_t>", 16, &crossed, PTXPACK_B);
    ptxpack_layout     fragment = layout("((2,2),4,1)");
    assert_no(ptxpack_copy_retile(&b, &fragment).shape.status, "out of order");
    b = made(ptxpack_make_tiled_copy_like(&word, 16, &b, PTXPACK_SRC));
    assert_no(ptxpack_copy_retile(&b, &fragment).shape.status, "out of order");
    b = made(ptxpack_make_tiled_copy_c_atom(&word, 16, &crossed));
    assert_no(ptxpack_copy_retile(&b, &fragment).shape.status, "out of order");
    b = copy_of_mma("UniversalCopy<uint32_t>", 16, &crossed, PTXPACK_A);
    fragment = layout("((2,2,2),1,1)");
    assert_int_equal(ptxpack_copy_retile(&b, &fragment).shape.status, PTXPACK_OK);
    /* two threads: the elements of each are in order */
    b = copy_of_mma("UniversalCopy<uint32_t>", 16, &shared, PTXPACK_B);
    fragment = layout("((2,2),2,1)");
    assert_int_equal(ptxpack_copy_retile(&b, &fragment).shape.status, PTXPACK_OK);

    ptxpack_tiled_copy broken = ptxpack_make_tiled_copy_tv(&wide, 16, &tv, &small);
    assert_int_equal(ptxpack_copy_threads(&broken), 0);
    assert_int_equal(ptxpack_copy_tidfrg(&broken, PTXPACK_SRC, &tensor).shape.status, PTXPACK_E_ARG);
    assert_int_equal(ptxpack_copy_partition(&broken, PTXPACK_SRC, 0, &tensor).layout.shape.status,
                     PTXPACK_E_ARG);
    assert_int_equal(ptxpack_copy_retile(&broken, &tensor).shape.status, PTXPACK_E_ARG);
    assert_int_equal(ptxpack_copy_layout_tv(&broken, PTXPACK_SRC).shape.status, PTXPACK_E_ARG);
    assert_int_equal(ptxpack_make_tiled_copy_like(&wide, 16, &broken, PTXPACK_SRC).status, PTXPACK_E_ARG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copy_atom_table),  cmocka_unit_test(test_copy_atom_versions),
        cmocka_unit_test(test_no_copy_atom),     cmocka_unit_test(test_copy_atom_facts),
        cmocka_unit_test(test_copy_atom_resize), cmocka_unit_test(test_article_copies),
        cmocka_unit_test(test_attention_copies), cmocka_unit_test(test_copy_facts),
        cmocka_unit_test(test_copy_feeds_mma),   cmocka_unit_test(test_ldmatrix),
        cmocka_unit_test(test_swizzled),         cmocka_unit_test(test_random_copies),
        cmocka_unit_test(test_copy_no),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
