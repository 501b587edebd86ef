/* tma.c - compares TMA boxes with the arguments that CuTe 4.7 gives to the driver, and with what the hardware
 * does. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#if __has_include(<cuda.h>)
#include <cuda.h>
#endif
#include "loader/driver.h"
#include "loader/loader.h"
#include "host/atom/tma.h"

/* A tile of a tensor, and its layout in shared memory with Sw<swizzle,4,3> over bytes. */
struct tile_case {
    ptxpack_tma_type type;
    const char      *global, *shared;
    int              swizzle;
    const char      *tile;
    int64_t          multicast;
};

/* make_tma_copy(SM90_TMA_LOAD_MULTICAST, tensor, shared, tile, blocks): the arguments that reached
 * cuTensorMapEncodeTiled, the strides of get_tma_tensor, and the elements of one box. */
static const struct golden {
    struct tile_case in;
    uint32_t         rank;
    uint64_t         dim[5], strides[4];
    uint32_t         box[5];
    const char      *coordinates;
    int64_t          elements;
} golden[] = {
    /* clang-format off */
    {{PTXPACK_TMA_FLOAT16, "(4096,1024):(1024,1)", "((8,16),(64,1)):((64,512),(1,0))", 3, "<128,64>", 1},
     2, {1024, 4096, 1, 1, 1}, {2048, 0, 0, 0}, {64, 128, 1, 1, 1}, "(4096,1024):(1@1,1@0)", 8192},
    {{PTXPACK_TMA_FLOAT16, "(4096,1024):(1024,1)", "((8,16),(64,2)):((64,512),(1,8192))", 3, "<128,128>", 1},
     2, {1024, 4096, 1, 1, 1}, {2048, 0, 0, 0}, {64, 128, 1, 1, 1}, "(4096,1024):(1@1,1@0)", 8192},
    {{PTXPACK_TMA_FLOAT16, "(4096,1024):(1024,1)", "((8,16),(64,1)):((64,512),(1,0))", 3, "<128,64>", 2},
     2, {1024, 4096, 1, 1, 1}, {2048, 0, 0, 0}, {64, 64, 1, 1, 1}, "(4096,1024):(1@1,1@0)", 8192},
    {{PTXPACK_TMA_FLOAT16, "(4096,1000):(1000,1)", "((8,8),(32,3)):((32,256),(1,2048))", 2, "<64,96>", 1},
     2, {1000, 4096, 1, 1, 1}, {2000, 0, 0, 0}, {32, 64, 1, 1, 1}, "(4096,1000):(1@1,1@0)", 2048},
    {{PTXPACK_TMA_FLOAT16, "(4096,1024):(1024,1)", "((8,8),(16,4)):((16,128),(1,1024))", 1, "<64,64>", 1},
     2, {1024, 4096, 1, 1, 1}, {2048, 0, 0, 0}, {16, 64, 1, 1, 1}, "(4096,1024):(1@1,1@0)", 1024},
    {{PTXPACK_TMA_FLOAT16, "(4096,1024):(1024,1)", "((8,8),(8,8)):((8,64),(1,512))", 0, "<64,64>", 1},
     2, {1024, 4096, 1, 1, 1}, {2048, 0, 0, 0}, {8, 64, 1, 1, 1}, "(4096,1024):(1@1,1@0)", 512},
    {{PTXPACK_TMA_FLOAT16, "(4096,1024):(1,4096)", "((64,2),(8,8)):((1,512),(64,1024))", 3, "<128,64>", 1},
     2, {4096, 1024, 1, 1, 1}, {8192, 0, 0, 0}, {64, 8, 1, 1, 1}, "(4096,1024):(1@0,1@1)", 512},
    {{PTXPACK_TMA_FLOAT16, "(4096,1024):(1,4096)", "((64,2),(8,8)):((1,4096),(64,512))", 3, "<128,64>", 4},
     2, {4096, 1024, 1, 1, 1}, {8192, 0, 0, 0}, {64, 16, 1, 1, 1}, "(4096,1024):(1@0,1@1)", 4096},
    {{PTXPACK_TMA_FLOAT32, "(4096,256):(1,4096)", "((32,4),(8,8)):((1,256),(32,1024))", 3, "<128,64>", 1},
     2, {4096, 256, 1, 1, 1}, {16384, 0, 0, 0}, {32, 8, 1, 1, 1}, "(4096,256):(1@0,1@1)", 256},
    {{PTXPACK_TMA_FLOAT32, "(1024,256):(256,1)", "(64,32):(32,1)", 0, "<64,32>", 1},
     2, {256, 1024, 1, 1, 1}, {1024, 0, 0, 0}, {32, 64, 1, 1, 1}, "(1024,256):(1@1,1@0)", 2048},
    {{PTXPACK_TMA_FLOAT32, "(1024,256):(1,1024)", "(64,32):(1,64)", 0, "<64,32>", 2},
     2, {1024, 256, 1, 1, 1}, {4096, 0, 0, 0}, {64, 16, 1, 1, 1}, "(1024,256):(1@0,1@1)", 2048},
    {{PTXPACK_TMA_FLOAT32, "(1024,32,512):(64,1,65536)", "(16,8,2):(16,1,8)", 0, "<16,8,2>", 1},
     3, {32, 512, 1024, 1, 1}, {262144, 256, 0, 0}, {8, 2, 16, 1, 1}, "(1024,32,512):(1@2,1@0,1@1)", 256},
    {{PTXPACK_TMA_FLOAT16, "(2048,128,16,4):(2048,1,128,4194304)", "((8,16),(64,1)):((64,512),(1,0))", 3, "<128,64>", 1},
     4, {128, 2048, 16, 4, 1}, {4096, 256, 8388608, 0}, {64, 128, 1, 1, 1}, "(2048,128,16,4):(1@1,1@0,1@2,1@3)", 8192},
    {{PTXPACK_TMA_FLOAT16, "(2048,128,(16,4)):(2048,1,(128,4194304))", "((8,8),(64,2)):((64,512),(1,4096))", 3, "<64,128>", 2},
     4, {128, 2048, 16, 4, 1}, {4096, 256, 8388608, 0}, {64, 32, 1, 1, 1}, "(2048,128,(16,4)):(1@1,1@0,(1@2,1@3))", 4096},
    {{PTXPACK_TMA_FLOAT32, "((32,40),((8,8),656)):((1,32),((1280,10240),81920))", "(128,(32,2)):(1,(128,4096))", 0, "<128,<32,2>>", 1},
     5, {32, 40, 8, 8, 656}, {128, 5120, 40960, 327680}, {32, 4, 8, 4, 2}, "((32,40),((8,8),656)):((1@0,1@1),((1@2,1@3),1@4))", 8192},
    {{PTXPACK_TMA_FLOAT16, "(64,8,16,3,5,7):(1,64,512,8192,24576,122880)", "(64,8):(1,64)", 0, "<64,8>", 1},
     5, {64, 8, 16, 3, 35}, {128, 1024, 16384, 49152}, {64, 8, 1, 1, 1}, "(64,8,16,3,5,7):(1@0,1@1,1@2,1@3,1@4,5@4)", 512},
    {{PTXPACK_TMA_FLOAT16, "(64,8,16,3,5,7):(1,64,512,8192,49152,327680)", "(64,8,4):(1,64,512)", 0, "<64,8,4>", 1},
     5, {64, 8, 16, 3, 133}, {128, 1024, 16384, 32768}, {64, 8, 4, 1, 1}, "(64,8,16,3,5,7):(1@0,1@1,1@2,1@3,3@4,20@4)", 2048},
    {{PTXPACK_TMA_UINT8, "(512,512):(512,1)", "((8,8),(128,2)):((128,1024),(1,8192))", 3, "<64,256>", 1},
     2, {512, 512, 1, 1, 1}, {512, 0, 0, 0}, {128, 64, 1, 1, 1}, "(512,512):(1@1,1@0)", 8192},
    /* clang-format on */
};
enum { GOLDEN = sizeof golden / sizeof *golden };

static ptxpack_layout parsed(const char *text)
{
    ptxpack_layout l = ptxpack_layout_parse(text);
    if (l.shape.status != PTXPACK_OK)
        fail_msg("%s: %s", text, ptxpack_detail(NULL));
    return l;
}

static ptxpack_layout shared_of(const struct tile_case *g)
{
    ptxpack_layout  inner = parsed(g->shared);
    int             base = __builtin_ctz(128u / (unsigned)ptxpack_tma_type_bits(g->type));
    ptxpack_swizzle swizzle = {(int8_t)g->swizzle, (int8_t)base, 3};
    return ptxpack_make_composed(swizzle, 0, &inner);
}

static ptxpack_tma_box box_of(const struct tile_case *g, const ptxpack_layout *global,
                              const ptxpack_layout *shared, const ptxpack_layout *tile)
{
    const ptxpack_tma_desc desc = {.size = sizeof desc,
                                   .type = g->type,
                                   .global = global,
                                   .shared = shared,
                                   .tile = tile,
                                   .multicast = g->multicast,
                                   .address = 0x10000,
                                   .l2 = PTXPACK_TMA_L2_256B};
    ptxpack_tma_box        box = ptxpack_tma_make(&desc);
    if (box.status != PTXPACK_OK)
        fail_msg("%s %s %s: %s", g->global, g->shared, g->tile, ptxpack_detail(NULL));
    return box;
}

static void check_text(const ptxpack_layout *l, const char *want)
{
    char text[PTXPACK_LAYOUT_TEXT];
    ptxpack_layout_print(l, text, sizeof text);
    assert_string_equal(text, want);
}

static void test_boxes_are_those_of_cute(void **state)
{
    (void)state;
    for (int i = 0; i < GOLDEN; i++) {
        const struct golden *g = &golden[i];
        ptxpack_layout       global = parsed(g->in.global), shared = shared_of(&g->in);
        ptxpack_layout       tile = parsed(g->in.tile);
        ptxpack_tma_box      box = box_of(&g->in, &global, &shared, &tile);
        int                  bits = ptxpack_tma_type_bits(g->in.type);
        assert_int_equal(box.type, g->in.type);
        assert_int_equal(box.rank, g->rank);
        assert_int_equal(box.address, 0x10000);
        assert_memory_equal(box.global_dim, g->dim, sizeof g->dim);
        assert_memory_equal(box.global_strides, g->strides, sizeof g->strides);
        assert_memory_equal(box.box_dim, g->box, sizeof g->box);
        for (int d = 0; d < PTXPACK_TMA_RANK; d++)
            assert_int_equal(box.element_strides[d], 1);
        assert_int_equal(box.interleave, PTXPACK_TMA_INTERLEAVE_NONE);
        assert_int_equal(box.swizzle, g->in.swizzle);
        assert_int_equal(box.l2, PTXPACK_TMA_L2_256B);
        assert_int_equal(box.fill, PTXPACK_TMA_FILL_ZERO);
        check_text(&box.coordinates, g->coordinates);
        assert_int_equal(box.bytes, g->elements * bits / 8);
        assert_int_equal(box.boxes, ptxpack_size(&shared) / g->elements);
        assert_int_equal(box.align, 128 << g->in.swizzle);
        assert_int_equal(ptxpack_size(&box.basis), g->elements);
    }
}

/* ---- what the hardware does ---------------------------------------------------------------------------- */
/* Adds the coordinate of strides that are basis paths: 64@1 is (0,64). */
static void add_coordinate(const ptxpack_tuple *steps, int64_t at[PTXPACK_TMA_RANK])
{
    ptxpack_tuple t = ptxpack_as_arithmetic_tuple(steps);
    assert_int_equal(t.status, PTXPACK_OK);
    for (int i = 0; i < t.items; i++)
        at[i] += t.value[i];
}

/* Runs one instruction.  Memory holds its own offsets; -1: beyond the end.  `element`: the place in shared
 * memory. */
static void run_box(const ptxpack_tma_box *box, const int64_t from[PTXPACK_TMA_RANK], int64_t element,
                    int64_t *shared)
{
    int64_t bits = ptxpack_tma_type_bits(box->type), mixed = ((int64_t)1 << box->swizzle) - 1, count = 1;
    assert_int_equal(element * bits / 8 % 128, 0);
    for (int d = 0; d < PTXPACK_TMA_RANK; d++)
        count *= box->box_dim[d];
    for (int64_t e = 0; e < count; e++, element++) {
        int64_t rest = e, offset = 0;
        bool    beyond = false;
        for (int d = 0; d < PTXPACK_TMA_RANK; d++) {
            int64_t at = from[d] + rest % box->box_dim[d];
            rest /= box->box_dim[d];
            beyond |= at < 0 || (uint64_t)at >= box->global_dim[d];
            offset += d == 0 ? at : at * (int64_t)box->global_strides[d - 1] * 8 / bits;
        }
        int64_t byte = element * bits / 8;
        byte ^= (byte >> 7 & mixed) << 4;
        shared[byte * 8 / bits] = beyond ? -1 : offset;
    }
}

/* Adds the coordinates that `l` gives for number i. */
static void add_number(const ptxpack_layout *l, int64_t i, int64_t at[PTXPACK_TMA_RANK])
{
    ptxpack_tuple number = ptxpack_int(i), step = ptxpack_layout_crd2idx(l, &number);
    assert_int_equal(step.status, PTXPACK_OK);
    if (ptxpack_size(l) > 1)
        add_coordinate(&step, at);
}

/* Runs all boxes of the tile at `origin`, each by all blocks of the multicast. */
static void run_boxes(const ptxpack_tma_box *box, const ptxpack_tuple *origin, int64_t blocks, int64_t *shared)
{
    ptxpack_tuple start = ptxpack_layout_crd2idx(&box->coordinates, origin);
    int64_t       part = box->bytes * 8 / ptxpack_tma_type_bits(box->type) / blocks;
    assert_int_equal(start.status, PTXPACK_OK);
    assert_int_equal(ptxpack_size(&box->parts), blocks);
    for (int64_t b = 0; b < box->boxes; b++)
        for (int64_t p = 0; p < blocks; p++) {
            int64_t from[PTXPACK_TMA_RANK] = {0};
            add_coordinate(&start, from);
            add_number(&box->steps, b, from);
            add_number(&box->parts, p, from);
            run_box(box, from, ptxpack_at(&box->offsets, b) + p * part, shared);
        }
}

/* The tile whose first element has coordinate `origin` must lie in shared memory as the layout says. */
static void check_tile(const struct tile_case *g, const char *origin_text)
{
    ptxpack_layout  global = parsed(g->global), shared = shared_of(g), tile = parsed(g->tile);
    ptxpack_tma_box box = box_of(g, &global, &shared, &tile);
    ptxpack_tuple   origin = ptxpack_tuple_parse(origin_text);
    ptxpack_layout  wanted = ptxpack_composition(&global, &tile);
    ptxpack_tuple   base = ptxpack_layout_crd2idx(&global, &origin);
    int64_t         cosize = ptxpack_cosize(&shared);
    int64_t        *memory = (int64_t *)malloc(sizeof *memory * (size_t)cosize);
    assert_non_null(memory);
    assert_int_equal(base.status, PTXPACK_OK);
    for (int64_t i = 0; i < cosize; i++)
        memory[i] = -2;
    run_boxes(&box, &origin, g->multicast, memory);
    for (int64_t i = 0; i < ptxpack_size(&shared); i++) {
        int64_t is = memory[ptxpack_at(&shared, i)], want = ptxpack_at(&wanted, i) + base.value[0];
        if (is != want)
            fail_msg("%s %s %s: element %lld came from offset %lld, not %lld", g->global, g->shared, g->tile,
                     (long long)i, (long long)is, (long long)want);
    }
    free(memory);
}

static void test_hardware_fills_the_tile(void **state)
{
    (void)state;
    static const char *const origins[GOLDEN] = {"(128,64)",      "(256,128)",     "(128,640)",
                                                "(64,192)",      "(0,64)",        "(64,64)",
                                                "(1280,64)",     "(128,0)",       "(128,64)",
                                                "(64,32)",       "(128,64)",      "(16,8,2)",
                                                "(128,64,3,1)",  "(64,0,(5,2))",  "((0,4),((0,2),8))",
                                                "(0,0,3,1,0,0)", "(0,0,4,2,0,0)", "(64,256)"};
    for (int i = 0; i < GOLDEN; i++)
        check_tile(&golden[i].in, origins[i]);
}

/* Tiles with gaps between boxes, in other orders, without a tiler. */
static void test_other_tiles(void **state)
{
    (void)state;
    static const struct {
        struct tile_case in;
        const char      *origin;
    } rows[] = {
        {{PTXPACK_TMA_FLOAT16, "(512,256):(256,1)", "(32,64):(128,1)", 0, "<32,64>", 1}, "(64,64)"},
        {{PTXPACK_TMA_FLOAT16, "(512,256):(256,1)", "((8,4),(64,2)):((64,1024),(1,512))", 3, "<32,128>", 1},
         "(32,128)"},
        {{PTXPACK_TMA_FLOAT32, "(64,64,64):(1,64,4096)", "(8,16,4):(1,32,8)", 0, "<8,16,4>", 1}, "(8,16,4)"},
        {{PTXPACK_TMA_UINT8, "(512,256):(256,1)", "(32,64):(64,1)", 2, "<32,64>", 1}, "(64,64)"},
        {{PTXPACK_TMA_FLOAT64, "(512,256):(256,1)", "(32,16):(16,1)", 3, "<32,16>", 1}, "(32,16)"},
        {{PTXPACK_TMA_FLOAT16, "(64,8,16):(1,64,512)", "(64,8,4):(1,64,512)", 0, "<64,8,4>", 8}, "(0,0,8)"},
        {{PTXPACK_TMA_FLOAT16, "(8,4,4,4,4,4):(1,8,32,128,512,1024)", "(8,2,2,2,2,2)", 0, "<8,2,2,2,2,2>", 1},
         "(0,2,2,2,0,2)"},
        {{PTXPACK_TMA_FLOAT16, "(512,256,1,1):(256,1,0,0)", "(32,64):(64,1)", 0, "<32,64,1,1>", 1},
         "(32,64,0,0)"},
        {{PTXPACK_TMA_FLOAT16, "4096:1", "256:1", 0, "<256>", 2}, "512"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_tile(&rows[i].in, rows[i].origin);
    ptxpack_layout  global = parsed("(512,256):(256,1)"), shared = parsed("Sw<3,3,3> o 0 o (128,64):(64,1)");
    ptxpack_tma_box box = box_of(&rows[0].in, &global, &shared, NULL);
    assert_int_equal(box.boxes, 1);
    assert_int_equal(box.box_dim[0], 64);
    assert_int_equal(box.box_dim[1], 128);
    assert_int_equal(box.swizzle, PTXPACK_TMA_SWIZZLE_128B);
}

/* Tests three modes in any order in global and in shared memory, with room between the rows of the tensor. */
static void test_random_tiles(void **state)
{
    (void)state;
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {2, 0, 1}, {1, 2, 0}, {2, 1, 0}};
    int              done = 0, refused = 0;
    srand(4);
    for (int i = 0; i < 400; i++) {
        const int *global_order = orders[rand() % 6], *shared_order = orders[rand() % 6];
        int64_t    tile[3], extent[3], stride[3], step = 1;
        char       global[96], shared[96], tiler[64], origin[64];
        for (int m = 0; m < 3; m++) {
            tile[m] = (int64_t)1 << rand() % 7;
            extent[m] = tile[m] * (1 + rand() % 3);
        }
        for (int place = 0; place < 3; place++)
            for (int m = 0; m < 3; m++)
                if (global_order[m] == place) {
                    stride[m] = step;
                    step = (step * extent[m] + 15) / 8 * 8;
                }
        if (tile[0] * tile[1] * tile[2] > 32768)
            continue;
        ptxpack_tuple t = ptxpack_tuple_of(3, tile), order;
        const int64_t places[3] = {shared_order[0], shared_order[1], shared_order[2]};
        order = ptxpack_tuple_of(3, places);
        ptxpack_layout s = ptxpack_make_ordered_layout(&t, &order);
        ptxpack_layout_print(&s, shared, sizeof shared);
        snprintf(global, sizeof global, "(%d,%d,%d):(%d,%d,%d)", (int)extent[0], (int)extent[1], (int)extent[2],
                 (int)stride[0], (int)stride[1], (int)stride[2]);
        snprintf(tiler, sizeof tiler, "<%d,%d,%d>", (int)tile[0], (int)tile[1], (int)tile[2]);
        snprintf(origin, sizeof origin, "(%d,%d,%d)", (int)(extent[0] - tile[0]), 0,
                 (int)(extent[2] - tile[2]));
        struct tile_case g = {PTXPACK_TMA_FLOAT16, global, shared, 0, tiler, 1};
        ptxpack_layout   whole = parsed(global), part = parsed(tiler);
        ptxpack_tma_desc desc = {.size = sizeof desc, .type = g.type, .global = &whole, .shared = &s};
        desc.tile = &part;
        if (ptxpack_tma_make(&desc).status == PTXPACK_OK) {
            check_tile(&g, origin);
            done++;
        } else {
            assert_non_null(strstr(ptxpack_detail(NULL), "TMA: "));
            refused++;
        }
    }
    printf("seed 4: %d tiles as they should be, %d refused\n", done, refused);
    assert_true(done > 50 && refused > 50);
}

/* Each mode has its own end: the fill begins at column 60, although the next row begins at 64. */
static void test_modes_keep_their_ends(void **state)
{
    (void)state;
    const struct tile_case g = {PTXPACK_TMA_FLOAT16, "(100,60):(64,1)", "(8,64):(64,1)", 0, "<8,64>", 1};
    ptxpack_layout         global = parsed(g.global), shared = shared_of(&g), tile = parsed(g.tile);
    ptxpack_tma_box        box = box_of(&g, &global, &shared, &tile);
    ptxpack_tuple          origin = ptxpack_tuple_parse("(96,0)");
    int64_t                memory[512];
    assert_int_equal(box.rank, 2);
    run_boxes(&box, &origin, 1, memory);
    for (int r = 0; r < 8; r++)
        for (int c = 0; c < 64; c++)
            assert_int_equal(memory[r * 64 + c], r < 4 && c < 60 ? (96 + r) * 64 + c : -1);
}

/* What an H200 has run: rank 4 {d,s,h,b}, boxes of 64 columns, 128-byte swizzle. */
static void test_what_ran_on_hopper(void **state)
{
    (void)state;
    const struct tile_case g = {PTXPACK_TMA_BFLOAT16,
                                "(1024,128,4,3):(512,1,128,524288)",
                                "((8,16),(64,2)):((64,512),(1,8192))",
                                3,
                                "<128,128,1,1>",
                                1};
    const uint64_t         dims[] = {128, 1024, 4, 3, 1}, strides[] = {1024, 256, 1048576, 0};
    const uint32_t         extents[] = {64, 128, 1, 1, 1};
    ptxpack_layout         global = parsed(g.global), shared = shared_of(&g), tile = parsed(g.tile);
    ptxpack_tma_box        box = box_of(&g, &global, &shared, &tile);
    assert_int_equal(box.rank, 4);
    assert_memory_equal(box.global_dim, dims, sizeof dims);
    assert_memory_equal(box.global_strides, strides, sizeof strides);
    assert_memory_equal(box.box_dim, extents, sizeof extents);
    assert_int_equal(box.boxes, 2);
    assert_int_equal(box.bytes, 16384);
    check_text(&box.steps, "2:64@0");
    check_text(&box.offsets, "2:8192");
    check_tile(&g, "(256,0,2,1)");
}

/* ---- refusals ------------------------------------------------------------------------------------------ */
static void test_refusals(void **state)
{
    enum { F16 = PTXPACK_TMA_FLOAT16, U8 = PTXPACK_TMA_UINT8 };
    (void)state;
    static const struct {
        const char *global, *shared, *tile;
        int         type;
        int64_t     multicast;
        uint64_t    address;
        const char *line;
    } rows[] = {
        /* clang-format off */
        {"(64,64):(64,1)", "(8,64):(64,1)", NULL, F16, 1, 8, "address 0x8"},
        {"(64,64):(68,1)", "(8,64):(64,1)", NULL, F16, 1, 0, "mode 1@0 of (64,64):(68,1)"},
        {"(64,64):(68,1)", "(8,64):(64,1)", NULL, F16, 1, 0, "multiple of 16 bytes; its bytes are 136"},
        {"(64,64):(-64,1)", "(8,64):(64,1)", NULL, F16, 1, 0, "negative, -64"},
        {"(64,64):(1099511627776,1)", "(8,64):(64,1)", NULL, F16, 1, 0, "2^40 bytes"},
        {"(64,64):(64,2)", "(8,64):(64,1)", NULL, F16, 1, 0, "its stride is 2"},
        {"(64,64):(1,64)", "(8,64):(64,1)", NULL, F16, 1, 0, "mode 1@1"},
        {"(64,8589934592):(8589934592,1)", "(8,64):(64,1)", NULL, U8, 1, 0, "over 2^32"},
        {"(64,512):(512,1)", "(8,512):(512,1)", NULL, F16, 1, 0, "256 of it, not 512"},
        {"(64,64):(64,1)", "(8,4):(4,1)", NULL, F16, 1, 0, "multiple of 16 bytes of it; it has 8"},
        {"(64,64):(64,1)", "Sw<3,3,3> o 0 o (8,32):(32,1)", NULL, F16, 1, 0, "spans 128"},
        {"(64,64):(64,1)", "Sw<2,3,3> o 0 o (8,64):(64,1)", NULL, F16, 1, 0, "spans 64"},
        {"(64,64):(64,1)", "Sw<3,4,3> o 0 o (8,64):(64,1)", NULL, F16, 1, 0, "Sw<3,4,3> over 16-bit"},
        {"(64,64):(64,1)", "Sw<3,3,4> o 0 o (8,64):(64,1)", NULL, F16, 1, 0, "Sw<3,3,4> over"},
        {"(64,64):(64,1)", "(8,64):(64,1)", "<16,64>", F16, 1, 0, "has 1024 elements"},
        {"(64,64):(64,1)", "(64,64):(64,2)", NULL, F16, 1, 0, "not neighbours"},
        {"(64,64):(64,1)", "(8,64):(64,1)", NULL, F16, 3, 0, "3 blocks"},
        {"(64,64):(64,1)", "(8,64):(64,1)", NULL, F16, 16, 0, "16 blocks share a box of 1024"},
        {"(64,64):(64,1)", "(8,64):(64,1)", NULL, F16, 17, 0, "multicast to 17"},
        {"(64,64):(64,1)", "(8,64):(64,1)", NULL, F16, -1, 0, "multicast to -1"},
        {"(64,64):(64,1)", "(8,64):(64,1)", NULL, 13, 1, 0, "type 13"},
        {"(64,64):(64,1)", "(8,32):(40,1)", NULL, F16, 1, 0, "80 bytes apart"},
        {"(8,4,4,4,4,4):(1,8,32,128,512,4096)", "(8,2,2,2,2,2)", NULL, F16, 1, 0,
         "mode 1@5 of (8,4,4,4,4,4):(1,8,32,128,512,4096): more than 5 modes"},
        {"Sw<3,3,3> o 0 o (64,64):(64,1)", "(8,64):(64,1)", NULL, F16, 1, 0, "no global"},
        {"(64,64):(1@0,1@1)", "(8,64):(64,1)", NULL, F16, 1, 0, "no global"},
        {"(64,64):(64,1)", "Sw<3,3,3> o 64 o (8,64):(64,1)", NULL, F16, 1, 0, "no shared"},
        {"(1048576,64):(64,1)", "(1048576,64):(64,1)", NULL, F16, 1, 0, "larger than shared memory"},
        {"(64,64)(64,1)", "(8,64):(64,1)", NULL, F16, 1, 0, ""},
        /* clang-format on */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ptxpack_layout   global = ptxpack_layout_parse(rows[i].global);
        ptxpack_layout   shared = ptxpack_layout_parse(rows[i].shared);
        ptxpack_layout   tile = rows[i].tile != NULL ? ptxpack_layout_parse(rows[i].tile) : shared;
        ptxpack_tma_desc desc = {.size = sizeof desc,
                                 .type = (ptxpack_tma_type)rows[i].type,
                                 .global = &global};
        desc.shared = &shared;
        desc.tile = rows[i].tile != NULL ? &tile : NULL;
        desc.multicast = rows[i].multicast;
        desc.address = rows[i].address;
        ptxpack_tma_box box = ptxpack_tma_make(&desc);
        if (box.status != PTXPACK_E_ARG || strstr(ptxpack_detail(NULL), rows[i].line) == NULL)
            fail_msg("row %zu, %s %s: status %d, \"%s\" does not say \"%s\"", i, rows[i].global, rows[i].shared,
                     box.status, ptxpack_detail(NULL), rows[i].line);
        assert_null(strchr(ptxpack_detail(NULL), '\n'));
    }
    ptxpack_layout   l = parsed("(8,64):(64,1)");
    ptxpack_tma_desc desc = {.size = sizeof desc, .type = PTXPACK_TMA_FLOAT16, .global = &l, .shared = &l};
    assert_int_equal(ptxpack_tma_make(&desc).status, PTXPACK_OK);
    desc.size--;
    assert_int_equal(ptxpack_tma_make(&desc).status, PTXPACK_E_ARG);
    desc.size++;
    desc.shared = NULL;
    assert_int_equal(ptxpack_tma_make(&desc).status, PTXPACK_E_ARG);
    assert_string_equal(ptxpack_detail(NULL), "TMA: desc.shared is NULL");
    desc.shared = &l;
    desc.l2 = (ptxpack_tma_l2)4;
    assert_int_equal(ptxpack_tma_make(&desc).status, PTXPACK_E_ARG);
    desc.l2 = PTXPACK_TMA_L2_NONE;
    desc.fill = (ptxpack_tma_fill)2;
    assert_int_equal(ptxpack_tma_make(&desc).status, PTXPACK_E_ARG);
}

/* Tests the last valid value and the first invalid one: the limits are the driver's, and
 * driver_has_these_limits checks them; the driver is stricter with rows below a swizzle's span: see tma.h. */
static void test_limits(void **state)
{
    (void)state;
    static const struct {
        const char *global, *shared, *line; /* line NULL: it is valid */
    } rows[] = {
        /* of bytes */
        {"(64,4294967296):(4294967296,1)", "(8,64):(64,1)", NULL},
        {"(64,4294967297):(4294967312,1)", "(8,64):(64,1)", "its extent is over 2^32: 4294967297"},
        {"(64,64):(1099511627760,1)", "(8,64):(64,1)", NULL},
        {"(64,64):(1099511627776,1)", "(8,64):(64,1)", "2^40 bytes are less than its stride"},
        {"(512,64):(64,1)", "(256,64):(64,1)", NULL},
        {"(512,64):(64,1)", "(257,64):(64,1)", "a box can have 256 of it, not 257"},
        {"(64,64):(64,1)", "(8,16):(16,1)", NULL},
        {"(64,64):(64,1)", "(8,8):(8,1)", "multiple of 16 bytes of it; it has 8"},
        {"(64,64):(64,1)", "(8,24):(24,1)", "multiple of 16 bytes of it; it has 24"},
        {"(64,256):(256,1)", "Sw<3,4,3> o 0 o (8,128):(128,1)", NULL},
        {"(64,256):(256,1)", "Sw<3,4,3> o 0 o (8,256):(256,1)", "has 256 bytes, but the swizzle spans 128"},
        {"(64,256):(256,1)", "Sw<3,4,3> o 0 o (1,256):(256,1)", "has 256 bytes, but the swizzle spans 128"},
        {"(64,256):(256,1)", "Sw<3,4,3> o 0 o (8,64):(64,1)", "has 64 bytes, but the swizzle spans 128"},
        {"(64,256):(256,1)", "Sw<3,4,3> o 0 o (1,64):(64,1)", NULL},
        {"(256,64,64):(4096,64,1)", "(227,16,64):(1024,64,1)", NULL},
        {"(256,64,64):(4096,64,1)", "(228,16,64):(1024,64,1)",
         "(228,16,64):(1024,64,1) is larger than shared memory, of which a block has 232448 bytes"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ptxpack_layout   global = parsed(rows[i].global), shared = parsed(rows[i].shared);
        ptxpack_tma_desc desc = {.size = sizeof desc, .global = &global, .shared = &shared};
        ptxpack_tuple    extents = ptxpack_product_each(&shared.shape);
        ptxpack_layout   tile = ptxpack_tiler_of(&extents);
        desc.type = PTXPACK_TMA_UINT8;
        desc.tile = &tile;
        ptxpack_tma_box box = ptxpack_tma_make(&desc);
        if (rows[i].line == NULL && box.status != PTXPACK_OK)
            fail_msg("%s %s: %s", rows[i].global, rows[i].shared, ptxpack_detail(NULL));
        if (rows[i].line != NULL &&
            (box.status != PTXPACK_E_ARG || strstr(ptxpack_detail(NULL), rows[i].line) == NULL))
            fail_msg("%s %s: status %d, \"%s\" does not say \"%s\"", rows[i].global, rows[i].shared, box.status,
                     ptxpack_detail(NULL), rows[i].line);
        if (i == 0)
            assert_int_equal(box.global_dim[0], (uint64_t)1 << 32);
        if (i == 2)
            assert_int_equal(box.global_strides[0], ((uint64_t)1 << 40) - 16);
    }
}

/* Integers have no NaN. */
static void test_fill_of_each_type(void **state)
{
    (void)state;
    ptxpack_layout l = parsed("(8,64):(64,1)");
    for (int type = 0; type <= PTXPACK_TMA_TFLOAT32_FTZ; type++) {
        ptxpack_tma_desc desc = {.size = sizeof desc, .type = (ptxpack_tma_type)type, .global = &l};
        desc.shared = &l;
        assert_int_equal(ptxpack_tma_make(&desc).status, PTXPACK_OK);
        desc.fill = PTXPACK_TMA_FILL_NAN;
        bool is_integer = type == PTXPACK_TMA_UINT8 || type == PTXPACK_TMA_UINT16 ||
                          type == PTXPACK_TMA_UINT32 || type == PTXPACK_TMA_INT32 ||
                          type == PTXPACK_TMA_UINT64 || type == PTXPACK_TMA_INT64;
        assert_int_equal(ptxpack_tma_make(&desc).status, is_integer ? PTXPACK_E_ARG : PTXPACK_OK);
        if (is_integer)
            assert_non_null(strstr(ptxpack_detail(NULL), "which is an integer"));
    }
}

/* ---- the driver's numbers ------------------------------------------------------------------------------ */
static void test_numbers_are_the_drivers(void **state)
{
    (void)state;
#ifdef CUDA_VERSION
#define SAME_TYPE(name, number, bits) assert_int_equal(PTXPACK_TMA_##name, CU_TENSOR_MAP_DATA_TYPE_##name);
    PTXPACK_TMA_TYPE_MAP(SAME_TYPE)
    assert_int_equal(PTXPACK_TMA_INTERLEAVE_NONE, CU_TENSOR_MAP_INTERLEAVE_NONE);
    assert_int_equal(PTXPACK_TMA_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE);
    assert_int_equal(PTXPACK_TMA_SWIZZLE_32B, CU_TENSOR_MAP_SWIZZLE_32B);
    assert_int_equal(PTXPACK_TMA_SWIZZLE_64B, CU_TENSOR_MAP_SWIZZLE_64B);
    assert_int_equal(PTXPACK_TMA_SWIZZLE_128B, CU_TENSOR_MAP_SWIZZLE_128B);
    assert_int_equal(PTXPACK_TMA_L2_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE);
    assert_int_equal(PTXPACK_TMA_L2_64B, CU_TENSOR_MAP_L2_PROMOTION_L2_64B);
    assert_int_equal(PTXPACK_TMA_L2_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
    assert_int_equal(PTXPACK_TMA_L2_256B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
    assert_int_equal(PTXPACK_TMA_FILL_ZERO, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    assert_int_equal(PTXPACK_TMA_FILL_NAN, CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA);
#else
    printf("SKIP: no cuda.h to compare the driver's numbers with\n");
    skip();
#endif
}

/* cuTensorMapEncodeTiled, its arguments in the order of ptxpack_tma_box. */
typedef int (*encode_function)(void *map, int type, uint32_t rank, void *address, const uint64_t *dim,
                               const uint64_t *strides, const uint32_t *box, const uint32_t *element_strides,
                               int interleave, int swizzle, int l2, int fill);

enum { INVALID_VALUE = 1 }; /* CUDA_ERROR_INVALID_VALUE */

static int encode(encode_function function, const ptxpack_tma_box *box)
{
    _Alignas(64) unsigned char map[128];
    return function(map, (int)box->type, box->rank, (void *)(uintptr_t)box->address, box->global_dim,
                    box->global_strides, box->box_dim, box->element_strides, (int)box->interleave,
                    (int)box->swizzle, (int)box->l2, (int)box->fill);
}

static void driver_takes_the_boxes(encode_function function)
{
    for (int i = 0; i < GOLDEN; i++) {
        ptxpack_layout  global = parsed(golden[i].in.global), shared = shared_of(&golden[i].in);
        ptxpack_layout  tile = parsed(golden[i].in.tile);
        ptxpack_tma_box box = box_of(&golden[i].in, &global, &shared, &tile);
        int             error = encode(function, &box);
        assert_int_equal(error, 0);
        box.global_strides[0] += 8;
        assert_int_equal(encode(function, &box), INVALID_VALUE); /* the driver does check */
    }
}

static void driver_has_these_limits(encode_function function)
{
    static const struct {
        const char      *what;
        ptxpack_tma_type type;
        uint64_t         dim, stride;
        uint32_t         box[3];
        int              swizzle, fill, error;
    } rows[] = {
        {"a box", PTXPACK_TMA_UINT8, 1024, 1024, {64, 8, 1}, 0, 0, 0},
        {"extent 2^32", PTXPACK_TMA_UINT8, (uint64_t)1 << 32, 1024, {64, 8, 1}, 0, 0, 0},
        {"extent 2^32 + 1", PTXPACK_TMA_UINT8, ((uint64_t)1 << 32) + 1, 1024, {64, 8, 1}, 0, 0, INVALID_VALUE},
        {"stride 2^40 - 16", PTXPACK_TMA_UINT8, 1024, ((uint64_t)1 << 40) - 16, {64, 8, 1}, 0, 0, 0},
        {"stride 2^40", PTXPACK_TMA_UINT8, 1024, (uint64_t)1 << 40, {64, 8, 1}, 0, 0, INVALID_VALUE},
        {"256 rows", PTXPACK_TMA_UINT8, 1024, 1024, {64, 256, 1}, 0, 0, 0},
        {"257 rows", PTXPACK_TMA_UINT8, 1024, 1024, {64, 257, 1}, 0, 0, INVALID_VALUE},
        {"rows of 8 bytes", PTXPACK_TMA_UINT8, 1024, 1024, {8, 8, 1}, 0, 0, INVALID_VALUE},
        {"rows of 128 bytes, 128B", PTXPACK_TMA_UINT8, 1024, 1024, {128, 8, 1}, 3, 0, 0},
        {"rows of 256 bytes, 128B", PTXPACK_TMA_UINT8, 1024, 1024, {256, 8, 1}, 3, 0, INVALID_VALUE},
        {"rows of 64 bytes, 128B", PTXPACK_TMA_UINT8, 1024, 1024, {64, 8, 1}, 3, 0, 0},
        {"512 KiB", PTXPACK_TMA_UINT8, 1024, 1024, {64, 128, 64}, 0, 0, INVALID_VALUE},
        {"NaN of integers", PTXPACK_TMA_INT32, 1024, 4096, {64, 8, 1}, 0, 1, INVALID_VALUE},
        {"NaN of f16", PTXPACK_TMA_FLOAT16, 1024, 4096, {64, 8, 1}, 0, 1, 0},
        {"NaN of tf32.ftz", PTXPACK_TMA_TFLOAT32_FTZ, 1024, 4096, {64, 8, 1}, 0, 1, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ptxpack_tma_box box = {.type = rows[i].type, .rank = 3, .address = 0x10000};
        box.global_dim[0] = rows[i].dim;
        box.global_dim[1] = box.global_dim[2] = 1024;
        box.global_strides[0] = box.global_strides[1] = rows[i].stride;
        memcpy(box.box_dim, rows[i].box, sizeof rows[i].box);
        box.element_strides[0] = box.element_strides[1] = box.element_strides[2] = 1;
        box.swizzle = (ptxpack_tma_swizzle)rows[i].swizzle;
        box.fill = (ptxpack_tma_fill)rows[i].fill;
        int error = encode(function, &box);
        if (error != rows[i].error)
            fail_msg("%s: the driver returns %d, not %d", rows[i].what, error, rows[i].error);
    }
}

static void test_driver_agrees(void **state)
{
    (void)state;
    ptxpack        *handle = NULL;
    encode_function function;
    void           *driver = dlopen("libcuda.so.1", RTLD_NOW);
    void           *symbol = driver != NULL ? dlsym(driver, "cuTensorMapEncodeTiled") : NULL;
    memcpy(&function, &symbol, sizeof function);
    if (function == NULL || ptxpack_open(NULL, &handle) != PTXPACK_OK) {
        printf("SKIP: no GPU whose driver knows cuTensorMapEncodeTiled\n");
        skip();
    }
    assert_int_equal(ptxpack_driver_table(handle)->cuCtxSetCurrent(ptxpack_context(handle)), 0);
    driver_takes_the_boxes(function);
    driver_has_these_limits(function);
    ptxpack_close(handle);
    dlclose(driver);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_boxes_are_those_of_cute),
        cmocka_unit_test(test_hardware_fills_the_tile),
        cmocka_unit_test(test_other_tiles),
        cmocka_unit_test(test_modes_keep_their_ends),
        cmocka_unit_test(test_what_ran_on_hopper),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_fill_of_each_type),
        cmocka_unit_test(test_numbers_are_the_drivers),
        cmocka_unit_test(test_driver_agrees),
        cmocka_unit_test(test_random_tiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
