/* tensor.c - tensors: slices, tiles and partitions are compared index by index. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "loader/loader.h"
#include "tests/support/random_fixture.h"
#include "host/layout/tensor.h"

enum { BASE = 0x10000 };

static ptxpack_layout layout(const char *text)
{
    ptxpack_layout l = ptxpack_layout_parse(text);
    if (l.shape.status != PTXPACK_OK)
        fail_msg("%s: %s", text, ptxpack_detail(NULL));
    return l;
}

static ptxpack_tuple tuple(const char *text)
{
    ptxpack_tuple t = ptxpack_tuple_parse(text);
    if (t.status != PTXPACK_OK)
        fail_msg("%s: %s", text, ptxpack_detail(NULL));
    return t;
}

static ptxpack_tensor tensor(const char *text, int bits)
{
    ptxpack_layout l = layout(text);
    ptxpack_tensor t = ptxpack_make_tensor(BASE, bits, &l);
    assert_int_equal(t.layout.shape.status, PTXPACK_OK);
    return t;
}

static void assert_good(const ptxpack_tensor *t)
{
    if (t->layout.shape.status != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(NULL));
}

static void assert_bad(const ptxpack_tensor *t, const char *reason)
{
    assert_int_equal(t->layout.shape.status, PTXPACK_E_ARG);
    if (strstr(ptxpack_detail(NULL), reason) == NULL)
        fail_msg("expected \"%s\": %s", reason, ptxpack_detail(NULL));
}

static void assert_layout(const ptxpack_tensor *t, const char *wanted)
{
    char text[PTXPACK_LAYOUT_TEXT];
    assert_good(t);
    ptxpack_layout_print(&t->layout, text, sizeof text);
    assert_string_equal(text, wanted);
}

static ptxpack_tuple pair(int64_t a, int64_t b) { return ptxpack_tuple_of(2, (const int64_t[]){a, b}); }

static uint64_t address(const ptxpack_tensor *t, int64_t a, int64_t b)
{
    uint64_t      at = 0;
    ptxpack_tuple coord = pair(a, b);
    if (ptxpack_tensor_address(t, &coord, &at) != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(NULL));
    return at;
}

/* ---- memory -------------------------------------------------------------------------------------------- */
static void elements_have_addresses(void **state)
{
    (void)state;
    ptxpack_tensor t = tensor("(16,32):(32,1)", 32);
    assert_int_equal(address(&t, 0, 0), BASE);
    assert_int_equal(address(&t, 3, 5), BASE + 4 * (3 * 32 + 5));
    assert_int_equal(address(&t, 16, 0), BASE + 4 * 16 * 32); /* beyond the shape, as a pointer may be */
    t = tensor("(8,8):(-8,-1)", 16);
    assert_int_equal(address(&t, 7, 7), BASE - 2 * 63);
    t = tensor("Sw<3,4,3> o 0 o (8,128):(128,1)", 8);
    assert_int_equal(address(&t, 3, 16), BASE + 3 * 128 + (16 ^ 3 * 16));
}

static void a_tile_is_where_it_should_be(void **state)
{
    (void)state;
    for (int run = 0; run < 300; run++) {
        char text[64], tile[32], coord[32];
        int  tm = 1 + below(6), tn = 1 + below(6), m = tm * (1 + below(5)), n = tn * (1 + below(5));
        int  i = below(m / tm), j = below(n / tn), pitch = n + below(4);
        snprintf(text, sizeof text, "(%d,%d):(%d,1)", m, n, pitch);
        snprintf(tile, sizeof tile, "<%d,%d>", tm, tn);
        snprintf(coord, sizeof coord, "(%d,%d)", i, j);
        ptxpack_tensor t = tensor(text, 16), part;
        ptxpack_layout tiler = layout(tile);
        ptxpack_tuple  place = tuple(coord);
        part = ptxpack_local_tile(&t, &tiler, &place, NULL);
        assert_good(&part);
        for (int a = 0; a < tm; a++)
            for (int b = 0; b < tn; b++)
                assert_int_equal(address(&part, a, b), address(&t, i * tm + a, j * tn + b));
        place = pair(below(tm), below(tn));
        part = ptxpack_outer_partition(&t, &tiler, &place);
        assert_good(&part);
        for (int a = 0; a < m / tm; a++)
            for (int b = 0; b < n / tn; b++)
                assert_int_equal(address(&part, a, b),
                                 address(&t, a * tm + (int)place.value[0], b * tn + (int)place.value[1]));
    }
}

/* The parts of the threads are disjoint and together they are the whole. */
static void partitions_cover_the_tensor(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"(16,32):(1,16)", "(4,8):(1,4)"},        {"(16,32):(32,1)", "(4,8):(8,1)"},
        {"(8,(4,2)):(8,(1,4))", "(2,4):(4,1)"},   {"Sw<3,0,3> o 0 o (8,64):(64,1)", "(4,8):(8,1)"},
        {"(12,8):(1,12)", "(3,(2,2)):(4,(1,2))"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        static char    seen[4096];
        ptxpack_tensor t = tensor(cases[c][0], 8);
        ptxpack_layout threads = layout(cases[c][1]);
        int64_t        count = 0;
        memset(seen, 0, sizeof seen);
        for (int64_t thread = 0; thread < ptxpack_size(&threads); thread++) {
            ptxpack_tensor part = ptxpack_local_partition(&t, &threads, thread, NULL);
            assert_good(&part);
            for (int64_t i = 0; i < ptxpack_size(&part.layout); i++, count++) {
                uint64_t      at = 0;
                ptxpack_tuple index = ptxpack_int(i);
                assert_int_equal(ptxpack_tensor_address(&part, &index, &at), PTXPACK_OK);
                assert_in_range(at, BASE, BASE + (uint64_t)ptxpack_size(&t.layout) - 1);
                assert_int_equal(seen[at - BASE]++, 0);
            }
        }
        assert_int_equal(count, ptxpack_size(&t.layout));
    }
}

/* Tiler (BLK_M,BLK_N,BLK_K) and coordinate (m,n,_), as a matrix product uses them. */
static void projections_pick_modes(void **state)
{
    (void)state;
    ptxpack_tensor a = tensor("(64,32):(1,64)", 16), b = tensor("(48,32):(1,48)", 16);
    ptxpack_layout tiler = layout("<16,24,8>");
    ptxpack_tuple  coord = tuple("(2,1,_)"), of_a = tuple("(1,_,1)"), of_b = tuple("(_,1,1)");
    ptxpack_tensor tile_a = ptxpack_local_tile(&a, &tiler, &coord, &of_a);
    ptxpack_tensor tile_b = ptxpack_local_tile(&b, &tiler, &coord, &of_b);
    assert_layout(&tile_a, "(16,8,4):(1,64,512)");
    assert_layout(&tile_b, "(24,8,4):(1,48,384)");
    assert_int_equal(tile_a.address, BASE + 2 * 32);
    assert_int_equal(tile_b.address, BASE + 2 * 24);
    ptxpack_layout threads = layout("(4,2,4):(1,16,4)");
    tile_a = ptxpack_local_partition(&a, &threads, 7, &of_a);
    assert_layout(&tile_a, "(16,8):(4,256)");
    assert_int_equal(tile_a.address, BASE + 2 * (3 + 64));
    ptxpack_tuple short_one = tuple("(1,1)");
    tile_a = ptxpack_local_tile(&a, &tiler, &coord, &short_one);
    assert_bad(&tile_a, "projection (1,1)");
}

static void slices_start_further_on(void **state)
{
    (void)state;
    ptxpack_tensor t = tensor("(4,(8,2)):(16,(1,8))", 16);
    ptxpack_tuple  coord = tuple("(3,(_,1))");
    ptxpack_tensor s = ptxpack_tensor_slice(&coord, &t);
    assert_layout(&s, "(8):(1)");
    assert_int_equal(s.address, BASE + 2 * (3 * 16 + 8));
    coord = tuple("(1,2)");
    s = ptxpack_tensor_domain_offset(&coord, &t);
    assert_layout(&s, "(4,(8,2)):(16,(1,8))");
    assert_int_equal(s.address, BASE + 2 * (16 + 2));
    ptxpack_layout flat = ptxpack_layout_flatten(&t.layout);
    s = ptxpack_tensor_view(&t, &flat);
    assert_layout(&s, "(4,8,2):(16,1,8)");
    assert_int_equal(s.address, BASE);
}

/* ---- bits ---------------------------------------------------------------------------------------------- */
static void recast_keeps_the_bytes(void **state)
{
    (void)state;
    ptxpack_tensor t = tensor("(8,16):(16,1)", 16);
    ptxpack_tensor wide = ptxpack_tensor_recast(&t, 128), narrow = ptxpack_tensor_recast(&t, 4);
    assert_layout(&wide, "(8,2):(2,1)");
    assert_layout(&narrow, "(8,64):(64,1)");
    assert_int_equal(address(&wide, 3, 1), address(&t, 3, 8));
    assert_int_equal(address(&narrow, 3, 8), address(&t, 3, 2));
    ptxpack_tuple  coord = tuple("(0,4)");
    ptxpack_tensor off = ptxpack_tensor_domain_offset(&coord, &t);
    off = ptxpack_tensor_recast(&off, 128); /* 8 bytes on */
    assert_bad(&off, "not aligned to elements of 128 bits");
}

static void small_elements_count_bits(void **state)
{
    (void)state;
    ptxpack_tensor t = tensor("(8,16):(16,1)", 4);
    ptxpack_tuple  coord = pair(2, 5);
    uint64_t       at = 0;
    int            bit = -1;
    assert_int_equal(ptxpack_tensor_bit_address(&t, &coord, &at, &bit), PTXPACK_OK);
    assert_int_equal(at, BASE + 16 + 2);
    assert_int_equal(bit, 4);
    assert_int_equal(ptxpack_tensor_address(&t, &coord, &at), PTXPACK_E_ARG);
    assert_string_equal(ptxpack_detail(NULL), "element (2,5) of (8,16):(16,1) starts at bit 4 of its byte");
    coord = tuple("(_,5)");
    ptxpack_tensor s = ptxpack_tensor_slice(&coord, &t);
    assert_layout(&s, "(8):(16)");
    assert_int_equal(s.address, BASE + 2);
    assert_int_equal(s.bit, 4);
    s = ptxpack_tensor_recast(&s, 8);
    assert_bad(&s, "bit 4, is not aligned");
    t = tensor("(8,16):(-1,8)", 6); /* downwards, and not a power of two */
    coord = pair(1, 0);
    assert_int_equal(ptxpack_tensor_bit_address(&t, &coord, &at, &bit), PTXPACK_OK);
    assert_int_equal(at, BASE - 1);
    assert_int_equal(bit, 2);
}

/* ---- coordinates --------------------------------------------------------------------------------------- */
static void assert_tuple(ptxpack_tuple t, const char *wanted)
{
    char text[PTXPACK_LAYOUT_TEXT];
    ptxpack_tuple_print(&t, text, sizeof text);
    assert_string_equal(text, wanted);
}

static void coordinates_follow_the_tiles(void **state)
{
    (void)state;
    ptxpack_tuple  shape = tuple("(16,(4,8))"), place = tuple("(2,1)"), coord = pair(3, 6);
    ptxpack_layout tiler = layout("<4,8>");
    ptxpack_tensor t = ptxpack_make_identity_tensor(&shape);
    assert_good(&t);
    assert_tuple(ptxpack_tensor_coord(&t, &coord), "(3,(2,1))");
    ptxpack_tensor tile = ptxpack_local_tile(&t, &tiler, &place, NULL);
    assert_good(&tile);
    assert_tuple(ptxpack_tensor_coord(&tile, &coord), "(11,(2,3))");
    place = tuple("(_,1)");
    tile = ptxpack_local_tile(&t, &tiler, &place, NULL);
    coord = ptxpack_tuple_of(3, (const int64_t[]){3, 6, 2});
    assert_tuple(ptxpack_tensor_coord(&tile, &coord), "(11,(2,3))");
    uint64_t at;
    assert_int_equal(ptxpack_tensor_address(&t, &coord, &at), PTXPACK_E_ARG);
    assert_string_equal(ptxpack_detail(NULL), "a tensor of coordinates has no addresses");
    ptxpack_tensor memory = tensor("(4,4):(4,1)", 8), recast = ptxpack_tensor_recast(&t, 8);
    assert_bad(&recast, "coordinates");
    coord = pair(0, 0);
    assert_int_equal(ptxpack_tensor_coord(&memory, &coord).status, PTXPACK_E_ARG);
}

/* ---- refusals ------------------------------------------------------------------------------------------ */
static void bad_tensors_say_no(void **state)
{
    (void)state;
    ptxpack_layout l = layout("(4,4):(4,1)"), basis = layout("(4,4):(1@0,1@1)"), tiler = layout("<4,4>");
    ptxpack_layout huge = layout("(2,2):(1,4611686018427387904)");
    ptxpack_tensor t = ptxpack_make_tensor(BASE, 0, &l);
    assert_bad(&t, "elements of 0 bits");
    t = ptxpack_make_tensor(BASE + 2, 32, &l);
    assert_bad(&t, "address 65538, bit 0, is not aligned to elements of 32 bits");
    t = ptxpack_make_tensor(BASE, 8, &basis);
    assert_bad(&t, "(4,4):(1@0,1@1) does not count elements");
    t = ptxpack_make_tensor(BASE, 8, &tiler);
    assert_bad(&t, "<4,4> does not count elements");
    ptxpack_layout              whole = ptxpack_layout_parse("_"), strided = layout("<4:2,4:8>");
    ptxpack_tuple               extent = ptxpack_int(8);
    ptxpack_layout              eight = ptxpack_tiler_of(&extent);
    const ptxpack_layout *const tilers[] = {&tiler, &strided, &whole, &eight};
    for (size_t i = 0; i < sizeof tilers / sizeof *tilers; i++) {
        ptxpack_tensor coordinates = ptxpack_make_identity_tensor(&l.shape), no[4];
        no[0] = ptxpack_make_tensor(BASE, 8, tilers[i]);
        no[1] = ptxpack_make_coord_tensor(tilers[i]);
        no[2] = ptxpack_tensor_view(&coordinates, tilers[i]);
        t = tensor("(4,4):(4,1)", 8);
        no[3] = ptxpack_tensor_view(&t, tilers[i]);
        for (int k = 0; k < 4; k++)
            assert_int_equal(no[k].layout.shape.status, PTXPACK_E_ARG);
    }
    t = tensor("(4,4):(4,1)", 8);
    ptxpack_tensor view = ptxpack_tensor_view(&t, &tiler);
    assert_bad(&view, "<4,4>");
    view = ptxpack_tensor_view(&t, &basis);
    assert_bad(&view, "(4,4):(1@0,1@1)");
    ptxpack_tuple coord = tuple("(1,2,3)"), far = tuple("(_,1)");
    view = ptxpack_tensor_slice(&coord, &t);
    assert_int_equal(view.layout.shape.status, PTXPACK_E_ARG);
    t = ptxpack_make_tensor(BASE, 8, &huge);
    assert_good(&t);
    t = ptxpack_make_tensor(BASE, 64, &huge);
    view = ptxpack_tensor_slice(&far, &t);
    assert_bad(&view, "leaves 64 bits");
    uint64_t at;
    coord = pair(0, 1);
    assert_int_equal(ptxpack_tensor_address(&t, &coord, &at), PTXPACK_E_ARG);
    t = ptxpack_make_tensor(0, 8, &l);
    coord = pair(-1, 0);
    assert_int_equal(ptxpack_tensor_address(&t, &coord, &at), PTXPACK_E_ARG);
    /* A refused tensor stays refused, with its reason. */
    t = ptxpack_make_tensor(BASE, 0, &l);
    view = ptxpack_local_tile(&t, &tiler, &far, NULL);
    view = ptxpack_tensor_recast(&view, 16);
    assert_bad(&view, "elements of 0 bits");
    assert_int_equal(ptxpack_tensor_address(&view, &coord, &at), PTXPACK_E_ARG);
}

static void threads_are_those_there_are(void **state)
{
    (void)state;
    static const struct {
        const char *threads, *projection;
        int64_t     index;
        bool        goes;
    } rows[] = {
        {"(4,8):(8,1)", NULL, 0, true},
        {"(4,8):(8,1)", NULL, 31, true},
        {"(4,8):(8,1)", NULL, 32, false},
        {"(4,8):(8,1)", NULL, -1, false},
        {"(4,8):(8,1)", NULL, INT64_MAX, false},
        {"(4,8):(8,1)", NULL, INT64_MIN, false},
        {"(4,8):(16,2)", NULL, 62, true},
        {"(4,8):(16,2)", NULL, 61, false},
        {"(4,8,2):(8,1,32)", "(1,1,_)", 63, true},
        {"(4,8,2):(8,1,32)", "(1,1,_)", 64, false},
        {"((2,2),8,2):((8,16),1,32)", "(1,1,_)", 63, true},
        {"(4,8):(8,1)", "(1,_)", 31, true},
    };
    ptxpack_tensor t = tensor("(16,16):(16,1)", 8);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ptxpack_layout threads = layout(rows[i].threads);
        ptxpack_tuple  projection = ptxpack_int(1);
        if (rows[i].projection != NULL)
            projection = tuple(rows[i].projection);
        ptxpack_tensor part = ptxpack_local_partition(&t, &threads, rows[i].index,
                                                      rows[i].projection != NULL ? &projection : NULL);
        if (rows[i].goes)
            assert_good(&part);
        else
            assert_bad(&part, "is no thread of");
    }
    /* Threads that differ only in a mode that the projection drops have the same elements. */
    ptxpack_layout all = layout("(4,8,2):(8,1,32)"), used = layout("(4,8):(8,1)");
    ptxpack_tuple  of_all = tuple("(1,1,_)");
    ptxpack_tensor one = ptxpack_local_partition(&t, &all, 55, &of_all);
    ptxpack_tensor two = ptxpack_local_partition(&t, &used, 23, NULL);
    assert_good(&one);
    assert_true(ptxpack_layout_equal(&one.layout, &two.layout));
    assert_int_equal(one.address, two.address);
    static const struct {
        const char *threads, *projection;
    } none[] = {
        {"(4,8):(8", "1"},          {"<4,8>", "(1,1)"},       {"(4,8):(1@0,1@1)", "(1,1)"},
        {"(4,8):(8,1)", "(1,1,1)"}, {"(4,8):(8,1)", "(_,_)"},
    };
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        ptxpack_layout threads = ptxpack_layout_parse(none[i].threads);
        ptxpack_tuple  projection = tuple(none[i].projection);
        ptxpack_tensor part = ptxpack_local_partition(&t, &threads, 0, &projection);
        if (part.layout.shape.status != PTXPACK_E_ARG)
            fail_msg("%s %s: status %d", none[i].threads, none[i].projection, part.layout.shape.status);
    }
}

/* Tests projections that keep nested modes, or none. */
static void projections_of_nested_tilers(void **state)
{
    (void)state;
    ptxpack_tensor t = tensor("(16,(8,(8,2))):(128,(1,(8,64)))", 8);
    ptxpack_layout tiler = layout("<4,2,<2,<4:2,2>>>");
    ptxpack_tuple  coord = tuple("(1,1,1)"), keeps = tuple("(1,_,1)"), none = tuple("(_,_,_)");
    ptxpack_tensor tile = ptxpack_local_tile(&t, &tiler, &coord, &keeps);
    ptxpack_layout same = layout("<4,<2,<4:2,2>>>");
    ptxpack_tuple  pair_coord = tuple("(1,1)");
    ptxpack_tensor wanted = ptxpack_local_tile(&t, &same, &pair_coord, NULL);
    assert_good(&tile);
    assert_good(&wanted);
    assert_true(ptxpack_layout_equal(&tile.layout, &wanted.layout));
    assert_int_equal(tile.address, wanted.address);
    tile = ptxpack_local_tile(&t, &tiler, &coord, &none);
    assert_bad(&tile, "keeps no mode of the tiler");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_have_addresses),      cmocka_unit_test(a_tile_is_where_it_should_be),
        cmocka_unit_test(partitions_cover_the_tensor),  cmocka_unit_test(projections_pick_modes),
        cmocka_unit_test(slices_start_further_on),      cmocka_unit_test(recast_keeps_the_bytes),
        cmocka_unit_test(small_elements_count_bits),    cmocka_unit_test(coordinates_follow_the_tiles),
        cmocka_unit_test(bad_tensors_say_no),           cmocka_unit_test(threads_are_those_there_are),
        cmocka_unit_test(projections_of_nested_tilers),
    };
    return cmocka_run_group_tests(tests, print_seed, NULL);
}
