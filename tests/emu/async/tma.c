/* tma.c - copies of boxes of tensors and of runs of bytes, element by element.  tma_reduce.c tests reductions,
 * and tma.txt reports. */
#include "tma_fixture.h"
#define BEFORE_EACH NULL
#define AFTER_EACH  NULL

static unsigned char wanted[8 * IMAGE];

/* ---- the map -------------------------------------------------------------------------------------- */
/* The answers of cuTensorMapEncodeTiled of driver 580 for each map on an H200. */
TEST(test_limits_of_maps)
{
    static const struct {
        const char  *what;
        uint32_t     type, rank;
        uint64_t     address, dim, stride;
        uint32_t     box[3], steps[2], interleave, swizzle, l2, fill;
        unsigned int result;
    } rows[] = {
        {"plain", 0, 3, 0x10000, 1024, 1024, {64, 8, 1}, {1, 1}, 0, 0, 0, 0, 0},
        {"address + 8", 0, 3, 0x10008, 1024, 1024, {64, 8, 1}, {1, 1}, 0, 0, 0, 0, 1},
        {"address 0", 0, 3, 0, 1024, 1024, {64, 8, 1}, {1, 1}, 0, 0, 0, 0, 0},
        {"extent 0", 0, 3, 0, 0, 1024, {64, 8, 1}, {1, 1}, 0, 0, 0, 0, 1},
        {"extent 2^32", 0, 3, 0, 1ull << 32, 1024, {64, 8, 1}, {1, 1}, 0, 0, 0, 0, 0},
        {"extent 2^32 + 1", 0, 3, 0, (1ull << 32) + 1, 1024, {64, 8, 1}, {1, 1}, 0, 0, 0, 0, 1},
        {"stride 0", 0, 3, 0, 1024, 0, {64, 8, 1}, {1, 1}, 0, 0, 0, 0, 0},
        {"stride below a row", 0, 3, 0, 1024, 512, {64, 8, 1}, {1, 1}, 0, 0, 0, 0, 0},
        {"stride 1032", 0, 3, 0, 1024, 1032, {64, 8, 1}, {1, 1}, 0, 0, 0, 0, 1},
        {"stride 2^40 - 16", 0, 3, 0, 1024, (1ull << 40) - 16, {64, 8, 1}, {1, 1}, 0, 0, 0, 0, 0},
        {"stride 2^40", 0, 3, 0, 1024, 1ull << 40, {64, 8, 1}, {1, 1}, 0, 0, 0, 0, 1},
        {"box 0", 0, 3, 0, 1024, 1024, {0, 8, 1}, {1, 1}, 0, 0, 0, 0, 1},
        {"box 256", 0, 3, 0, 1024, 1024, {64, 256, 1}, {1, 1}, 0, 0, 0, 0, 0},
        {"box 257", 0, 3, 0, 1024, 1024, {64, 257, 1}, {1, 1}, 0, 0, 0, 0, 1},
        {"box beyond the extent", 0, 3, 0, 32, 1024, {64, 8, 1}, {1, 1}, 0, 0, 0, 0, 0},
        {"rows of 8 bytes", 0, 3, 0, 1024, 1024, {8, 8, 1}, {1, 1}, 0, 0, 0, 0, 1},
        {"step 0", 0, 3, 0, 1024, 1024, {64, 8, 1}, {1, 0}, 0, 0, 0, 0, 1},
        {"first step 0", 0, 3, 0, 1024, 1024, {64, 8, 1}, {0, 1}, 0, 0, 0, 0, 1},
        {"step 8", 0, 3, 0, 1024, 1024, {64, 8, 1}, {1, 8}, 0, 0, 0, 0, 0},
        {"step 9", 0, 3, 0, 1024, 1024, {64, 8, 1}, {1, 9}, 0, 0, 0, 0, 1},
        {"first step 9", 0, 3, 0, 1024, 1024, {64, 8, 1}, {9, 1}, 0, 0, 0, 0, 1},
        {"first step 4, row 256, 128B", 0, 3, 0, 1024, 1024, {256, 2, 1}, {4, 1}, 0, 3, 0, 0, 1},
        {"row 128, 128B", 0, 3, 0, 1024, 1024, {128, 2, 1}, {1, 1}, 0, 3, 0, 0, 0},
        {"row 64, 128B", 0, 3, 0, 1024, 1024, {64, 2, 1}, {1, 1}, 0, 3, 0, 0, 0},
        {"row 64, 32B", 0, 3, 0, 1024, 1024, {64, 2, 1}, {1, 1}, 0, 1, 0, 0, 1},
        {"swizzle 4", 0, 3, 0, 1024, 1024, {32, 2, 1}, {1, 1}, 0, 4, 0, 0, 1},
        {"l2 3", 0, 3, 0, 1024, 1024, {32, 2, 1}, {1, 1}, 0, 0, 3, 0, 0},
        {"l2 4", 0, 3, 0, 1024, 1024, {32, 2, 1}, {1, 1}, 0, 0, 4, 0, 1},
        {"NaN of s32", 3, 3, 0, 1024, 4096, {64, 8, 1}, {1, 1}, 0, 0, 0, 1, 1},
        {"NaN of f16", 6, 3, 0, 1024, 4096, {64, 8, 1}, {1, 1}, 0, 0, 0, 1, 0},
        {"fill 2", 6, 3, 0, 1024, 4096, {64, 8, 1}, {1, 1}, 0, 0, 0, 2, 1},
        {"228 KiB", 0, 3, 0, 1024, 1024, {256, 228, 4}, {1, 1}, 0, 0, 0, 0, 0},
        {"229 KiB", 0, 3, 0, 1024, 1024, {256, 229, 4}, {1, 1}, 0, 0, 0, 0, 1},
        {"512 KiB, an eighth of it", 0, 3, 0, 1024, 1024, {256, 256, 8}, {1, 8}, 0, 0, 0, 0, 0},
        /* the hardware can do this */
        {"interleaved", 0, 3, 0, 1024, 1024, {64, 8, 1}, {1, 1}, 1, 0, 0, 0, 801},
        {"interleave 3", 0, 3, 0, 1024, 1024, {64, 8, 1}, {1, 1}, 3, 0, 0, 0, 1},
        {"rank 0", 0, 0, 0, 1024, 1024, {64, 8, 1}, {1, 1}, 0, 0, 0, 0, 1},
        {"rank 6", 0, 6, 0, 1024, 1024, {64, 8, 1}, {1, 1}, 0, 0, 0, 0, 1},
        {"type 13", 13, 3, 0, 1024, 1024, {64, 8, 1}, {1, 1}, 0, 0, 0, 0, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        unsigned char map[EMU_TENSOR_MAP_BYTES];
        uint64_t      dims[6] = {rows[i].dim, 1024, 1024, 1, 1, 1},
                 strides[5] = {rows[i].stride, rows[i].stride, 16, 16, 16};
        uint32_t     box[6] = {rows[i].box[0], rows[i].box[1], rows[i].box[2], 1, 1, 1};
        uint32_t     steps[6] = {rows[i].steps[0], rows[i].steps[1], 1, 1, 1, 1};
        unsigned int result = emu_tensor_map_encode(map, rows[i].type, rows[i].rank, rows[i].address, dims,
                                                    strides, box, steps, rows[i].interleave, rows[i].swizzle,
                                                    rows[i].l2, rows[i].fill);
        if (result != rows[i].result)
            fail_msg("%s: %u, not %u", rows[i].what, result, rows[i].result);
    }
}

TEST(test_maps_that_are_none)
{
    unsigned char         map[EMU_TENSOR_MAP_BYTES];
    struct emu_tensor_map read;
    const char           *why;
    uint64_t              dims[2] = {64, 64}, strides[1] = {64};
    uint32_t              box[2] = {16, 2}, steps[2] = {1, 1};
    memset(map, 0, sizeof map);
    assert_false(emu_tensor_map_read(map, &read, &why));
    assert_string_equal(why, "there is no tensor map");
    assert_int_equal(emu_tensor_map_encode(map, 0, 2, 0x1000, dims, strides, box, steps, 0, 0, 0, 0), 0);
    for (size_t i = 0; i < sizeof map; i++) {
        map[i] ^= 0x10;
        assert_false(emu_tensor_map_read(map, &read, &why));
        map[i] ^= 0x10;
    }
    assert_int_equal(emu_tensor_map_replace_address(map, 0x2008), 1);
    assert_int_equal(emu_tensor_map_replace_address(map, 0x2000), 0);
    assert_true(emu_tensor_map_read(map, &read, &why));
    assert_int_equal(read.address, 0x2000);
}

/* The rows of tensor_map.c are tested without a kernel. */
TEST(test_rows)
{
    printf("seed %u\n", seed);
    for (int n = 0; n < 4000; n++) {
        struct problem        p;
        struct emu_tensor_map map;
        unsigned char         bytes[EMU_TENSOR_MAP_BYTES];
        const char           *why;
        make_problem(&p, 1 + (uint32_t)n % 5, (uint32_t)n / 5 % 4);
        encode(&p, 0x100000, bytes);
        assert_true(emu_tensor_map_read(bytes, &map, &why));
        assert_int_equal((uint64_t)map.rows * map.row_bytes, p.box_bytes);
        assert_int_equal((uint64_t)map.rows * map.pitch, p.room);
        uint32_t i[5] = {0}, row = 0;
        do {
            struct emu_tensor_row r;
            emu_tensor_row_at(&map, p.at, row, &r);
            uint32_t byte = i[0] * p.bytes;
            int64_t  offset = offset_of(&p, i);
            bool     inside = byte >= r.before && byte < r.before + r.inside;
            assert_int_equal(emu_tensor_swizzle(p.shared + r.shared + byte, p.swizzle), place_of(&p, i));
            assert_int_equal(inside, offset >= 0);
            if (inside)
                assert_int_equal(r.global + byte - r.before, 0x100000 + (uint64_t)offset);
            row += i[0] + 1 == p.count[0];
        } while (next_element(&p, i));
    }
}

/* ---- copies --------------------------------------------------------------------------------------- */
/* What an H200 fills in, by the kind of fill; it is the same for all types. */
static const unsigned char beyond[2][8] = {{0}, {0xf7, 0x7f, 0xf7, 0x7f, 0xf7, 0x7f, 0xf7, 0x7f}};

TEST(test_loads)
{
    printf("seed %u\n", seed);
    begin();
    int done = 0;
    for (int n = 0; n < 160; n++) {
        struct problem p;
        make_problem(&p, 1 + (uint32_t)n % 5, (uint32_t)n / 5 % 4);
        if (p.extent > sizeof tensor || p.room > IMAGE - 1024)
            continue;
        random_bytes(tensor, p.extent);
        random_bytes(image, IMAGE);
        memcpy(wanted, image, IMAGE);
        encode(&p, tensor_address, map_bytes);
        uint32_t i[5] = {0};
        do {
            int64_t        offset = offset_of(&p, i);
            unsigned char *to = wanted + place_of(&p, i) - 1024;
            memcpy(to, offset >= 0 ? tensor + offset : beyond[p.fill], p.bytes);
        } while (next_element(&p, i));
        emu_test_settings.async_policy = emu_policies[n % 3];
        expect_clean(kernel(&p, FENCE SYNC, LOAD, WAIT), &p, 1, p.extent);
        same_bytes(&p, image, wanted, IMAGE);
        done++;
    }
    assert_true(done > 100);
}

TEST(test_stores)
{
    printf("seed %u\n", seed);
    begin();
    int done = 0;
    for (int n = 0; n < 160; n++) {
        struct problem p;
        make_problem(&p, 1 + (uint32_t)n % 5, (uint32_t)n / 5 % 4);
        begin_inside(&p);
        if (p.extent > sizeof tensor || p.room > IMAGE - 1024)
            continue;
        random_bytes(tensor, p.extent);
        random_bytes(image, IMAGE);
        memcpy(tensor_wanted, tensor, p.extent);
        encode(&p, tensor_address, map_bytes);
        uint32_t i[5] = {0};
        do {
            uint64_t piece = 16 / p.bytes; /* written as a whole, also beyond the last element */
            int64_t  offset = offset_within(&p, i, (p.dim[0] + piece - 1) / piece * piece);
            if (offset >= 0)
                memcpy(tensor_wanted + offset, image + place_of(&p, i) - 1024, p.bytes);
        } while (next_element(&p, i));
        emu_test_settings.async_policy = emu_policies[n % 3];
        expect_clean(kernel(&p, FENCE SYNC, STORE, SYNC), &p, 1, p.extent);
        same_bytes(&p, tensor, tensor_wanted, p.extent);
        done++;
    }
    assert_true(done > 100);
}

/* ---- blocks --------------------------------------------------------------------------------------- */
/* Block 0 loads into the blocks of a mask; the other blocks of the cluster get nothing. */
TEST(test_multicast)
{
    begin();
    for (uint32_t mask = 1; mask < 16; mask += 2)
        for (int policy = 0; policy < 3; policy++) {
            struct problem p;
            char           before[256];
            make_problem(&p, 2, 3);
            random_bytes(tensor, p.extent);
            random_bytes(image, 4 * IMAGE);
            memcpy(wanted, image, 4 * IMAGE);
            encode(&p, tensor_address, map_bytes);
            uint32_t i[5] = {0};
            do {
                int64_t offset = offset_of(&p, i);
                for (uint32_t b = 0; b < 4; b++)
                    if (mask >> b & 1)
                        memcpy(wanted + b * IMAGE + place_of(&p, i) - 1024,
                               offset >= 0 ? tensor + offset : beyond[p.fill], p.bytes);
            } while (next_element(&p, i));
            emu_test_settings.async_policy = emu_policies[policy];
            snprintf(before, sizeof before,
                     FENCE "mov.u32 %%r30, %u; shr.u32 %%r31, %%r30, %%r1; "
                           "and.b32 %%r31, %%r31, 1;"
                           "setp.eq.u32 %%p5, %%r31, 1; cvt.u16.u32 %%h1, %%r30;\n",
                     mask);
            expect_clean(kernel(&p, before,
                                "and.pred %p6, %p5, %p1; "
                                "@%p6 mbarrier.arrive.expect_tx.shared.b64 _, [%r8], "
                                "%r20;\n" CLUSTER_SYNC "setp.eq.u32 %p4, %r1, 0; and.pred %p4, %p4, %p1;\n"
                                "@%p4 cp.async.bulk.tensor.#d.shared::cluster.global."
                                "mbarrier::complete_tx::bytes."
                                "multicast::cluster [%r9], [%rd2, {$}], [%r8], %h1;\n@!%p5 bra E;\n",
                                WAIT "E: " CLUSTER_SYNC),
                         &p, 4, p.extent);
            same_bytes(&p, image, wanted, 4 * IMAGE);
        }
}

/* Runs of bytes are copied to shared memory, to global memory and to the next block. */
TEST(test_bulk_copies)
{
    begin();
    for (int n = 0; n < 24; n++) {
        struct problem p = {.rank = 1, .shared = 1024 + 16 * dice(64), .box_bytes = 16 * (1 + dice(1000))};
        size_t         at = p.shared - 1024, bytes = p.box_bytes;
        emu_test_settings.async_policy = emu_policies[n % 3];
        random_bytes(image, 2 * IMAGE);
        random_bytes(tensor, bytes);
        memcpy(wanted, image, 2 * IMAGE);
        memcpy(wanted + at, tensor, bytes);
        expect_clean(kernel(&p, FENCE SYNC,
                            "@!%p1 bra W; mbarrier.arrive.expect_tx.shared.b64 _, [%r8], "
                            "%r20; mov.b64 %rd9, 0;"
                            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes."
                            "L2::cache_hint "
                            "[%r9], "
                            "[%rd1], %r20, [%r8], %rd9;\nW: ",
                            WAIT),
                     &p, 1, bytes);
        same_bytes(&p, image, wanted, IMAGE);

        random_bytes(image, IMAGE);
        memcpy(tensor_wanted, image + at, bytes);
        expect_clean(kernel(&p, FENCE SYNC,
                            "@!%p1 bra W; cp.async.bulk.global.shared::cta.bulk_group "
                            "[%rd1], [%r9], %r20;\n"
                            "cp.async.bulk.prefetch.L2.global [%rd1], %r20;\n" STORE_END,
                            SYNC),
                     &p, 1, bytes);
        same_bytes(&p, tensor, tensor_wanted, bytes);

        random_bytes(image, 2 * IMAGE);
        memcpy(wanted, image, 2 * IMAGE);
        memcpy(wanted + at, image + IMAGE + at, bytes);
        memcpy(wanted + IMAGE + at, image + IMAGE + at, bytes);
        expect_clean(kernel(&p,
                            FENCE "setp.eq.u32 %p5, %r1, 0; and.pred %p6, %p5, %p1;\n"
                                  "@%p6 mbarrier.arrive.expect_tx.shared.b64 _, [%r8], %r20;\n" CLUSTER_SYNC,
                            "@%p5 bra L; @!%p1 bra E; mov.u32 %r31, 0; "
                            "mapa.shared::cluster.u32 %r32, %r9, %r31;\n"
                            "mapa.shared::cluster.u32 %r33, %r8, %r31;\n"
                            "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r32], "
                            "[%r9], %r20, "
                            "[%r33]; bra E;\n",
                            WAIT "E: " CLUSTER_SYNC),
                     &p, 2, bytes);
        same_bytes(&p, image, wanted, 2 * IMAGE);
    }
}

/* Only one warp waits for the load; the others poll a word that it sets: no warp ever waits for ever.  The
 * judge is off, because it cannot know that these plain loads poll. */
TEST(test_waiting_by_a_flag)
{
    static const char *const loads[2] = {"ld.acquire.cta.shared", "ld.shared"};
    begin();
    for (int n = 0; n < 6; n++) {
        struct problem p;
        char           after[512];
        emu_test_settings.async_policy = emu_policies[n / 2];
        emu_test_settings.judge = n % 2 ? 0 : EMU_JUDGE_ALL;
        one_row(&p, 2);
        memset(image, 0, IMAGE);
        memcpy(tensor, words, sizeof words);
        snprintf(after, sizeof after,
                 "setp.ge.u32 %%p4, %%r0, 32; @%%p4 bra POLL;\n%s"
                 "bar.warp.sync -1; mov.u32 %%r31, 1;\n@%%p1 st.release.cta.shared.u32 [%%r8+8], %%r31;\n"
                 "POLL: %s.u32 %%r31, [%%r8+8]; setp.eq.u32 %%p4, %%r31, 0; @%%p4 bra POLL;\n",
                 WAIT, loads[n % 2]);
        expect_clean(kernel(&p, "mov.u32 %r31, 0; @%p1 st.shared.u32 [%r8+8], %r31;\n" FENCE SYNC, LOAD, after),
                     &p, 1, sizeof words);
        same_bytes(&p, image, (const unsigned char *)words, sizeof words);
    }
}

/* ---- misuse --------------------------------------------------------------------------------------- */
static void expect_report(const char *text, const struct problem *p, uint32_t blocks, unsigned int result,
                          const char *part)
{
    for (int policy = 0; policy < EMU_POLICIES; policy++) {
        emu_test_settings.async_policy = emu_policies[policy];
        emu_must_end(run(text, p, blocks, 65536), result, part, strstr(text, "fence.mbarrier"));
    }
}

static void plain_problem(struct problem *p)
{
    memset(p, 0, sizeof *p);
    p->type = 0;
    p->rank = 2;
    p->bytes = 1;
    p->dim[0] = p->stride[1] = 256;
    p->dim[1] = 64;
    p->stride[0] = p->step[0] = p->step[1] = 1;
    p->box[0] = p->count[0] = 64;
    p->box[1] = p->count[1] = 8;
    p->shared = 1024;
    p->box_bytes = 512;
    encode(p, tensor_address, map_bytes);
}

/* The other wrong programs are in tma.txt. */
TEST(test_wrong_maps_are_found)
{
    struct problem p;
    begin();
    random_bytes(image, IMAGE);
    random_bytes(tensor, 65536);
    plain_problem(&p); /* the map covers more memory than there is */
    p.dim[1] = 1 << 20;
    p.at[1] = TENSOR_ROOM / 256 - 4;
    encode(&p, tensor_address, map_bytes);
    expect_report(kernel(&p, FENCE SYNC, LOAD, WAIT), &p, 1, 700, "outside");
    for (int outside = 0; outside < 2;
         outside++) { /* the map begins 64 rows before the tensor, where no memory is */
        plain_problem(&p);
        p.dim[1] = 128;
        p.at[1] = outside ? 128 : 64;
        encode(&p, tensor_address - 64 * 256, map_bytes);
        expect_report(kernel(&p, FENCE SYNC, LOAD, WAIT), &p, 1, outside ? 700 : 0, outside ? "outside" : "");
    }
    plain_problem(&p);
    map_bytes[9] ^= 1;
    expect_report(kernel(&p, FENCE SYNC, LOAD, WAIT), &p, 1, 715, "changed after it was encoded");
}

RUN_TESTS(NULL, NULL)
