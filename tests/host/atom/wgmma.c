/* wgmma.c - compares descriptors with figures printed by CuTe 4.7, and with the hardware's address rule. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "loader/loader.h"
#include "host/atom/wgmma.h"

enum { K = PTXPACK_WGMMA_K, MN = PTXPACK_WGMMA_MN };

/* tile_to_shape(atom, shape, order); make_gmma_desc of its first instruction; the distances of the
 * instructions. */
static const struct golden {
    int         major;
    const char *swizzle;
    int         bits;
    int64_t     shape[2];
    const char *order;
    int64_t     mn;
    const char *steps;
    uint64_t    word;
} golden[] = {
    {K, "none", 16, {128, 64}, "(1,2)", 64, "(2,4):(64,256)", 0x0000000800800000u},
    {K, "none", 16, {128, 64}, "(2,1)", 64, "(2,4):(512,16)", 0x0000004000080000u},
    {K, "32B", 16, {128, 64}, "(1,2)", 128, "(1,4):(0,256)", 0xc000001000010000u},
    {K, "64B", 16, {192, 96}, "(1,2)", 64, "(3,(2,3)):(256,(2,768))", 0x8000002000010000u},
    {K, "128B", 16, {128, 128}, "(1,2)", 64, "(2,(4,2)):(512,(2,1024))", 0x4000004000010000u},
    {K, "128B", 16, {128, 128}, "(2,1)", 64, "(2,(4,2)):(1024,(2,64))", 0x4000008000010000u},
    {K, "128B", 16, {8, 64}, "(1,2)", 8, "(1,4):(0,2)", 0x4000000000010000u},
    {K, "none", 16, {8, 16}, "(1,2)", 8, "(1,1):(0,0)", 0x0000000000080000u},
    {MN, "none", 16, {128, 64}, "(1,2)", 64, "(2,4):(64,256)", 0x0000000800800000u},
    {MN, "none", 16, {128, 64}, "(2,1)", 64, "(2,4):(512,16)", 0x0000004000080000u},
    {MN, "32B", 16, {128, 64}, "(1,2)", 64, "(2,4):(64,256)", 0xc000008000100000u},
    {MN, "64B", 16, {128, 64}, "(2,1)", 128, "(1,4):(0,64)", 0x8000002001000000u},
    {MN, "128B", 16, {256, 64}, "(1,2)", 128, "(2,4):(128,512)", 0x4000010000400000u},
    {MN, "128B", 16, {256, 176}, "(2,1)", 256, "(1,11):(0,128)", 0x4000004005800000u},
    {K, "none", 32, {128, 32}, "(1,2)", 64, "(2,4):(64,256)", 0x0000000800800000u},
    {K, "none", 32, {128, 32}, "(2,1)", 64, "(2,4):(512,16)", 0x0000004000080000u},
    {K, "32B", 32, {128, 32}, "(1,2)", 128, "(1,4):(0,256)", 0xc000001000010000u},
    {K, "64B", 32, {192, 48}, "(1,2)", 64, "(3,(2,3)):(256,(2,768))", 0x8000002000010000u},
    {K, "128B", 32, {128, 64}, "(1,2)", 64, "(2,(4,2)):(512,(2,1024))", 0x4000004000010000u},
    {K, "128B", 32, {128, 64}, "(2,1)", 64, "(2,(4,2)):(1024,(2,64))", 0x4000008000010000u},
    {K, "128B", 32, {8, 32}, "(1,2)", 8, "(1,4):(0,2)", 0x4000000000010000u},
    {K, "none", 32, {8, 8}, "(1,2)", 8, "(1,1):(0,0)", 0x0000000000080000u},
    {MN, "none", 32, {128, 32}, "(1,2)", 64, "(2,4):(128,256)", 0x0000000800000000u},
    {MN, "none", 32, {128, 32}, "(2,1)", 64, "(2,4):(512,8)", 0x0000002000000000u},
    {MN, "32B", 32, {128, 32}, "(1,2)", 64, "(2,4):(128,256)", 0xc000000000100000u},
    {MN, "64B", 32, {128, 32}, "(2,1)", 128, "(1,4):(0,32)", 0x8000000000800000u},
    {MN, "128B", 32, {256, 32}, "(1,2)", 128, "(2,4):(256,512)", 0x4000000000400000u},
    {MN, "128B", 32, {256, 88}, "(2,1)", 256, "(1,11):(0,64)", 0x4000000002c00000u},
    {K, "none", 8, {128, 128}, "(1,2)", 64, "(2,4):(64,256)", 0x0000000800800000u},
    {K, "none", 8, {128, 128}, "(2,1)", 64, "(2,4):(512,16)", 0x0000004000080000u},
    {K, "32B", 8, {128, 128}, "(1,2)", 128, "(1,4):(0,256)", 0xc000001000010000u},
    {K, "64B", 8, {192, 192}, "(1,2)", 64, "(3,(2,3)):(256,(2,768))", 0x8000002000010000u},
    {K, "128B", 8, {128, 256}, "(1,2)", 64, "(2,(4,2)):(512,(2,1024))", 0x4000004000010000u},
    {K, "128B", 8, {128, 256}, "(2,1)", 64, "(2,(4,2)):(1024,(2,64))", 0x4000008000010000u},
    {K, "128B", 8, {8, 128}, "(1,2)", 8, "(1,4):(0,2)", 0x4000000000010000u},
    {K, "none", 8, {8, 32}, "(1,2)", 8, "(1,1):(0,0)", 0x0000000000080000u},
    {MN, "none", 8, {128, 128}, "(1,2)", 64, "(2,4):(32,256)", 0x0000000800400000u},
    {MN, "none", 8, {128, 128}, "(2,1)", 64, "(2,4):(512,32)", 0x0000008000080000u},
    {MN, "32B", 8, {128, 128}, "(1,2)", 64, "(2,4):(32,256)", 0xc000004000100000u},
    {MN, "64B", 8, {128, 128}, "(2,1)", 128, "(1,4):(0,128)", 0x8000002002000000u},
    {MN, "128B", 8, {256, 128}, "(1,2)", 128, "(2,4):(64,512)", 0x4000008000000000u},
    {MN, "128B", 8, {256, 352}, "(2,1)", 256, "(1,11):(0,256)", 0x400000400b000000u},
    {K, "64B", 16, {96, 96}, "(1,2)", 96, "(1,(2,3)):(0,(2,384))", 0x8000002000010000u},
    {MN, "128B", 16, {128, 64}, "(1,2)", 64, "(2,4):(64,256)", 0x4000008000000000u},
    {MN, "128B", 16, {192, 80}, "(1,2)", 192, "(1,5):(0,384)", 0x400000c000400000u},
    {MN, "none", 16, {8, 16}, "(1,2)", 8, "(1,1):(0,0)", 0x0000000000080000u},
};
enum { GOLDEN = sizeof golden / sizeof *golden };

static ptxpack_wgmma_swizzle swizzle_named(const char *name)
{
    for (int s = 0; s < 4; s++)
        if (!strcmp(ptxpack_wgmma_swizzle_name((ptxpack_wgmma_swizzle)s), name))
            return (ptxpack_wgmma_swizzle)s;
    fail_msg("no swizzle %s", name);
    return PTXPACK_WGMMA_NONE;
}

static ptxpack_layout tile_of(const struct golden *g)
{
    ptxpack_layout atom = ptxpack_wgmma_atom((ptxpack_wgmma_major)g->major, swizzle_named(g->swizzle), g->bits);
    ptxpack_tuple  shape = ptxpack_tuple_of(2, g->shape), order = ptxpack_tuple_parse(g->order);
    ptxpack_layout tile = ptxpack_tile_to_shape(&atom, &shape, &order);
    if (tile.shape.status != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(NULL));
    return tile;
}

static ptxpack_wgmma_operand operand_of(const struct golden *g, const ptxpack_layout *tile)
{
    ptxpack_wgmma_operand op = ptxpack_wgmma_descriptor(tile, (ptxpack_wgmma_major)g->major, g->bits, g->mn);
    if (op.status != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(NULL));
    return op;
}

static void check_text(const ptxpack_layout *l, const char *want)
{
    char text[PTXPACK_LAYOUT_TEXT];
    if (l->shape.status != PTXPACK_OK)
        fail_msg("%s: %s", want, ptxpack_detail(NULL));
    ptxpack_layout_print(l, text, sizeof text);
    assert_string_equal(text, want);
}

static void test_descriptors_are_those_of_cute(void **state)
{
    (void)state;
    for (int i = 0; i < GOLDEN; i++) {
        const struct golden  *g = &golden[i];
        ptxpack_layout        tile = tile_of(g);
        ptxpack_wgmma_operand op = operand_of(g, &tile);
        if (op.word != g->word)
            fail_msg("row %d: 0x%016llx instead of 0x%016llx", i, (unsigned long long)op.word,
                     (unsigned long long)g->word);
        check_text(&op.steps, g->steps);
        assert_int_equal(op.k, 256 / g->bits);
        assert_int_equal(op.mn, g->mn);
        assert_int_equal(op.major, g->major);
        assert_int_equal(op.fields.swizzle, swizzle_named(g->swizzle));
        int64_t mn_tiles = g->shape[0] / op.mn, k_tiles = g->shape[1] / op.k;
        assert_int_equal(op.step_mn, mn_tiles > 1 ? ptxpack_at(&op.steps, 1) : 0);
        assert_int_equal(op.step_k, k_tiles > 1 ? ptxpack_at(&op.steps, mn_tiles) : 0);
    }
}

static void test_atoms(void **state)
{
    (void)state;
    static const struct {
        int         major;
        const char *swizzle;
        int         bits;
        const char *text;
    } rows[] = {
        {K, "none", 16, "(8,8):(8,1)"},
        {K, "32B", 16, "Sw<1,3,3> o 0 o (8,16):(16,1)"},
        {K, "64B", 16, "Sw<2,3,3> o 0 o (8,32):(32,1)"},
        {K, "128B", 16, "Sw<3,3,3> o 0 o (8,64):(64,1)"},
        {MN, "none", 16, "(8,8):(1,8)"},
        {MN, "32B", 16, "Sw<1,3,3> o 0 o (16,8):(1,16)"},
        {MN, "64B", 16, "Sw<2,3,3> o 0 o (32,8):(1,32)"},
        {MN, "128B", 16, "Sw<3,3,3> o 0 o (64,8):(1,64)"},
        {K, "128B", 8, "Sw<3,4,3> o 0 o (8,128):(128,1)"},
        {K, "128B", 32, "Sw<3,2,3> o 0 o (8,32):(32,1)"},
        {MN, "64B", 32, "Sw<2,2,3> o 0 o (16,8):(1,16)"},
        {K, "128B", 1, "Sw<3,7,3> o 0 o (8,1024):(1024,1)"},
        {K, "128B", 64, "Sw<3,1,3> o 0 o (8,16):(16,1)"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ptxpack_layout atom = ptxpack_wgmma_atom((ptxpack_wgmma_major)rows[i].major,
                                                 swizzle_named(rows[i].swizzle), rows[i].bits);
        check_text(&atom, rows[i].text);
    }
    const int bad[][3] = {{2, 0, 16}, {0, 4, 16}, {0, -1, 16}, {0, 0, 0}, {0, 0, 6}, {0, 0, 128}, {0, 0, -16}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(ptxpack_wgmma_atom((ptxpack_wgmma_major)bad[i][0], (ptxpack_wgmma_swizzle)bad[i][1],
                                            bad[i][2])
                             .shape.status,
                         PTXPACK_E_ARG);
}

/* ---- what the hardware does ---------------------------------------------------------------------------- */
/* The byte address of element (m,k) of the operand that `word` describes, as in the PTX manual: canonical
 * layout from the word's fields, then the address's bits 7.. are XORed to its bits 4.. . */
static int64_t hardware_address(uint64_t word, int major, int bits, int64_t m, int64_t k)
{
    int64_t start = (int64_t)(word & 0x3fff) * 16, lead = (int64_t)(word >> 16 & 0x3fff) * 16;
    int64_t stride = (int64_t)(word >> 32 & 0x3fff) * 16, along = major == K ? k : m,
            across = major == K ? m : k;
    int     type = (int)(word >> 62), mixed = type == 0 ? 0 : 4 - type;
    int64_t row = (int64_t)16 << mixed, per_row = row * 8 / bits, at = start + across % 8 * row;
    if (type == 0) /* MN-major without a swizzle: the two offsets change places */
        at += across / 8 * (major == K ? stride : lead) + along / per_row * (major == K ? lead : stride);
    else
        at += across / 8 * stride + along / per_row * lead;
    at += along % per_row * bits / 8;
    return at ^ (at >> 3 & (((int64_t)1 << mixed) - 1) << 4);
}

static void check_addresses(const struct golden *g, const ptxpack_layout *tile, const ptxpack_wgmma_operand *op)
{
    int64_t rows = ptxpack_mode_size(tile, 0), columns = ptxpack_mode_size(tile, 1), mn_tiles = rows / op->mn;
    for (int64_t m = 0; m < rows; m++)
        for (int64_t k = 0; k < columns; k++) {
            uint64_t word = op->word + (uint64_t)ptxpack_at(&op->steps, m / op->mn + k / op->k * mn_tiles);
            int64_t  is = hardware_address(word, g->major, g->bits, m % op->mn, k % op->k);
            int64_t  want = ptxpack_at(tile, m + rows * k) * g->bits / 8;
            if (is != want)
                fail_msg("%s %s: element (%lld,%lld) at byte %lld, not %lld", g->major == K ? "K" : "MN",
                         g->swizzle, (long long)m, (long long)k, (long long)is, (long long)want);
        }
}

static void test_hardware_finds_each_element(void **state)
{
    (void)state;
    for (int i = 0; i < GOLDEN; i++) {
        ptxpack_layout        tile = tile_of(&golden[i]);
        ptxpack_wgmma_operand op = operand_of(&golden[i], &tile);
        check_addresses(&golden[i], &tile, &op);
        assert_int_equal(op.align, op.fields.swizzle == PTXPACK_WGMMA_NONE ? 16 : 2048 >> op.fields.swizzle);
    }
}

/* Tests tiles that no atom makes: rows further apart, blocks in another order, an offset. */
static void test_other_canonical_tiles(void **state)
{
    (void)state;
    static const struct {
        const char *tile;
        int         major, bits;
        int64_t     mn;
    } rows[] = {
        {"Sw<3,3,3> o 0 o ((8,16),(64,2)):((64,1024),(1,512))", K, 16, 64},
        {"Sw<3,3,3> o 8192 o (128,64):(64,1)", K, 16, 64},
        {"Sw<3,3,3> o 16 o (128,32):(64,1)", K, 16, 128},
        {"((8,8),(8,4)):((8,256),(1,64))", K, 16, 64},
        {"((8,8),(8,4)):((8,72),(1,1024))", K, 16, 0},
        {"(8,(8,2)):(8,(1,64))", K, 16, 8},
        {"Sw<2,3,3> o 0 o ((32,4),(8,4)):((1,1024),(32,256))", MN, 16, 64},
        {"((8,4),(8,2)):((1,128),(8,64))", MN, 16, 32},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ptxpack_layout        tile = ptxpack_layout_parse(rows[i].tile);
        struct golden         g = {.major = rows[i].major, .swizzle = rows[i].tile, .bits = rows[i].bits};
        ptxpack_wgmma_operand op = ptxpack_wgmma_descriptor(&tile, (ptxpack_wgmma_major)g.major, g.bits,
                                                            rows[i].mn);
        if (op.status != PTXPACK_OK)
            fail_msg("%s: %s", rows[i].tile, ptxpack_detail(NULL));
        check_addresses(&g, &tile, &op);
    }
}

/* What an H200 has run: rows of 128 bytes, 64-column boxes; Q and K K-major, V MN-major with N = 96. */
static void test_what_ran_on_hopper(void **state)
{
    (void)state;
    const struct golden q = {K, "128B", 16, {128, 128}, "(1,2)", 64, "", 0};
    const struct golden k = {K, "128B", 16, {96, 128}, "(1,2)", 96, "", 0};
    const struct golden v = {MN, "128B", 16, {128, 96}, "(2,1)", 128, "", 0};
    const uint64_t      high = (uint64_t)(1024 >> 4 | 1 << 30) << 32;
    ptxpack_layout      tile = tile_of(&q);
    assert_int_equal(operand_of(&q, &tile).word, high | 1 << 16);
    assert_int_equal(operand_of(&q, &tile).step_k, 32 >> 4);
    assert_int_equal(operand_of(&q, &tile).step_mn, 64 * 128 >> 4);
    tile = tile_of(&k);
    ptxpack_wgmma_operand op = operand_of(&k, &tile);
    assert_int_equal(op.word, high | 1 << 16);
    assert_int_equal(ptxpack_at(&op.steps, 4), 96 * 128 >> 4); /* the next box */
    tile = tile_of(&v);
    op = operand_of(&v, &tile);
    assert_int_equal(op.word, high | (uint64_t)(96 * 128 >> 4) << 16);
    assert_int_equal(op.step_k, 2048 >> 4);
}

/* ---- the 64 bits --------------------------------------------------------------------------------------- */
static void test_words_both_ways(void **state)
{
    (void)state;
    printf("seed 1\n");
    srand(1);
    for (int i = 0; i < 10000; i++) {
        ptxpack_wgmma_fields fields = {(uint32_t)(rand() & 0x3fff) * 16, (uint32_t)(rand() & 0x3fff) * 16,
                                       (uint32_t)(rand() & 0x3fff) * 16, (uint32_t)rand() & 7,
                                       (ptxpack_wgmma_swizzle)(rand() & 3)},
                             back;
        uint64_t word;
        assert_int_equal(ptxpack_wgmma_encode(&fields, &word), PTXPACK_OK);
        assert_int_equal(word & 0x3fff, fields.address / 16);
        assert_int_equal(word >> 62, fields.swizzle);
        assert_int_equal(ptxpack_wgmma_decode(word, &back), PTXPACK_OK);
        assert_memory_equal(&back, &fields, sizeof back);
    }
    ptxpack_wgmma_fields fields = {16, 32, 48, 5, PTXPACK_WGMMA_64B};
    uint64_t             word;
    assert_int_equal(ptxpack_wgmma_encode(&fields, &word), PTXPACK_OK);
    assert_true(word == 0x800a000300020001u);
    for (int bit = 0; bit < 64; bit++) {
        bool used = bit < 14 || (bit >= 16 && bit < 30) || (bit >= 32 && bit < 46) || (bit >= 49 && bit < 52) ||
                    bit >= 62;
        assert_int_equal(ptxpack_wgmma_decode((uint64_t)1 << bit, &fields), used ? PTXPACK_OK : PTXPACK_E_ARG);
    }
    const ptxpack_wgmma_fields bad[] = {{8, 0, 0, 0, PTXPACK_WGMMA_NONE},
                                        {1 << 18, 0, 0, 0, PTXPACK_WGMMA_NONE},
                                        {0, 24, 0, 0, PTXPACK_WGMMA_NONE},
                                        {0, 0, 1 << 18, 0, PTXPACK_WGMMA_NONE},
                                        {0, 0, 0, 8, PTXPACK_WGMMA_NONE},
                                        {0, 0, 0, 0, (ptxpack_wgmma_swizzle)4}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(ptxpack_wgmma_encode(&bad[i], &word), PTXPACK_E_ARG);
}

/* ---- refusals ------------------------------------------------------------------------------------------ */
static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *tile;
        int         major, bits;
        int64_t     mn;
        const char *line;
    } rows[] = {
        {"(64,16)", K, 16, 64, "elements along K are 64 elements apart, not 1"},
        {"(64,16):(16,1)", K, 16, 64, "the first 8 rows are 16 elements apart, not 8"},
        {"Sw<3,3,3> o 0 o (64,32):(32,1)", K, 16, 64, "the first 8 rows are 32 elements apart, not 64"},
        {"Sw<2,3,3> o 0 o (64,64):(64,1)", K, 16, 64, "the first 8 rows are 64 elements apart, not 32"},
        {"Sw<3,4,3> o 0 o (64,64):(64,1)", K, 16, 64, "Sw<3,4,3> over 16-bit elements"},
        {"Sw<3,3,4> o 0 o (64,64):(64,1)", K, 16, 64, "Sw<3,3,4> over 16-bit elements is not"},
        {"Sw<4,3,4> o 0 o (64,128):(128,1)", K, 16, 64, "Sw<4,3,4> over 16-bit elements is not"},
        {"Sw<3,3,3> o 0 o (64,64):(64,1)", K, 8, 64, "Sw<3,3,3> over 8-bit elements"},
        {"Sw<3,3,3> o 0 o (64,64):(64,1)", MN, 16, 64, "elements along M or N are 64 elements apart, not 1"},
        {"Sw<3,3,3> o 0 o (64,64):(1,64)", K, 16, 64, "elements along K are 64 elements apart, not 1"},
        {"Sw<3,3,3> o 0 o (64,64):(1,64)", MN, 16, 32, "32 rows an instruction: no multiple of the 64"},
        {"Sw<3,3,3> o 0 o (96,16):(1,96)", MN, 16, 96, "96 rows an instruction: no multiple of the 64"},
        {"Sw<3,3,3> o 0 o (64,64):(64,1)", K, 16, 60, "60 rows"},
        {"Sw<3,3,3> o 0 o (64,64):(64,1)", K, 16, 128, "128 rows"},
        {"Sw<3,3,3> o 0 o (64,64):(64,1)", K, 16, -8, "-8 rows"},
        {"Sw<3,3,3> o 0 o (12,64):(64,1)", K, 16, 0, "12 rows"},
        {"Sw<3,3,3> o 0 o (64,72):(72,1)", K, 16, 64, "K of Sw<3,3,3> o 0 o (64,72):(72,1) is 72"},
        {"Sw<3,3,3> o 4 o (64,64):(64,1)", K, 16, 64, "begins at no multiple of 16 bytes"},
        {"Sw<3,3,3> o 131072 o (64,64):(64,1)", K, 16, 64, "reaches over 2^18 bytes"},
        {"Sw<3,3,3> o 0 o (4096,64):(64,1)", K, 16, 64, "reaches over 2^18 bytes"},
        {"((8,8),(8,2)):((8,68),(1,1024))", K, 16, 64, "groups of 8 rows are 68 elements apart"},
        {"((8,8),(8,2)):((8,-64),(1,1024))", K, 16, 64, "groups of 8 rows are -64 elements apart"},
        {"((8,2,4),(8,2)):((8,64,256),(1,1024))", K, 16, 64, "the 8 groups of 8 rows have no common step"},
        {"((4,16),(8,2)):((8,64),(1,1024))", K, 16, 64, "the first 8 rows have no common step"},
        {"Sw<3,3,3> o 0 o (64,(8,8)):(64,(1,16))", K, 16, 64, "16-byte columns along K are not neighbours"},
        {"((8,8),(16,4)):((8,128),(1,1028))", K, 16, 64, "instructions of ((8,8),(16,4))"},
        {"((8,8),(8,2,2)):((8,128),(1,64,1028))", K, 16, 64, "instructions of"},
        {"(64,64,2):(64,1,4096)", K, 16, 64, "two modes"},
        {"64:1", K, 16, 64, "two modes"},
        {"(64,64):(1@0,1@1)", K, 16, 64, "no offsets"},
        {"(64,64):(64,1)", 2, 16, 64, "major 2"},
        {"(64,64):(64,1)", K, 64, 64, "64 bits"},
        {"(64,64):(64,1)", K, 24, 64, "24 bits"},
        {"(64,64", K, 16, 64, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ptxpack_layout        tile = ptxpack_layout_parse(rows[i].tile);
        ptxpack_wgmma_operand op = ptxpack_wgmma_descriptor(&tile, (ptxpack_wgmma_major)rows[i].major,
                                                            rows[i].bits, rows[i].mn);
        if (op.status != PTXPACK_E_ARG || strstr(ptxpack_detail(NULL), rows[i].line) == NULL)
            fail_msg("%s: status %d, \"%s\" does not say \"%s\"", rows[i].tile, op.status, ptxpack_detail(NULL),
                     rows[i].line);
        assert_null(strchr(ptxpack_detail(NULL), '\n'));
    }
}

/* A tile of 2^18 bytes is the largest that descriptors can reach completely. */
static void test_largest_tile(void **state)
{
    (void)state;
    static const struct {
        const char    *tile;
        int            bits;
        ptxpack_status status;
    } rows[] = {
        {"Sw<3,3,3> o 0 o (2048,64):(64,1)", 16, PTXPACK_OK},
        {"Sw<3,3,3> o 0 o (2056,64):(64,1)", 16, PTXPACK_E_ARG},
        {"Sw<3,3,3> o 0 o (((8,63),2),64):(((64,512),98816),1)", 16, PTXPACK_OK},
        {"Sw<3,3,3> o 0 o (((8,63),2),64):(((64,512),98824),1)", 16, PTXPACK_E_ARG},
        {"Sw<3,4,3> o 0 o (2048,128):(128,1)", 8, PTXPACK_OK},
        {"Sw<3,4,3> o 0 o (2056,128):(128,1)", 8, PTXPACK_E_ARG},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ptxpack_layout        tile = ptxpack_layout_parse(rows[i].tile);
        ptxpack_wgmma_operand op = ptxpack_wgmma_descriptor(&tile, PTXPACK_WGMMA_K, rows[i].bits, 8);
        if (rows[i].status == PTXPACK_OK)
            assert_int_equal(ptxpack_cosize(&tile) * rows[i].bits / 8, 1 << 18);
        if (op.status != rows[i].status)
            fail_msg("%s: status %d, %s", rows[i].tile, op.status, ptxpack_detail(NULL));
    }
}

/* TMA has elements of 64 bits; wgmma has none. */
static void test_64_bits(void **state)
{
    (void)state;
    ptxpack_layout atom = ptxpack_wgmma_atom(PTXPACK_WGMMA_K, PTXPACK_WGMMA_128B, 64);
    check_text(&atom, "Sw<3,1,3> o 0 o (8,16):(16,1)");
    assert_int_equal(ptxpack_wgmma_descriptor(&atom, PTXPACK_WGMMA_K, 64, 8).status, PTXPACK_E_ARG);
    atom = ptxpack_wgmma_atom(PTXPACK_WGMMA_K, PTXPACK_WGMMA_128B, 128);
    assert_int_equal(atom.shape.status, PTXPACK_E_ARG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_descriptors_are_those_of_cute),
        cmocka_unit_test(test_atoms),
        cmocka_unit_test(test_hardware_finds_each_element),
        cmocka_unit_test(test_other_canonical_tiles),
        cmocka_unit_test(test_what_ran_on_hopper),
        cmocka_unit_test(test_words_both_ways),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_largest_tile),
        cmocka_unit_test(test_64_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
