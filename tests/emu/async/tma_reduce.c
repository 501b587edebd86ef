/* tma_reduce.c - reductions into tensors, and how they change floats, compared with an H200. */
#include "tma_fixture.h"
#define BEFORE_EACH NULL
#define AFTER_EACH  NULL

static uint64_t reduced(uint64_t a, uint64_t b, int op, uint32_t type)
{
    bool is_signed = type == 3 || type == 5;
    if (type == 3) {
        a = (uint64_t)(int64_t)(int32_t)a;
        b = (uint64_t)(int64_t)(int32_t)b;
    }
    bool   a_less = is_signed ? (int64_t)a < (int64_t)b : a < b;
    float  f, g;
    double x, y;
    memcpy(&f, &a, 4), memcpy(&g, &b, 4), memcpy(&x, &a, 8), memcpy(&y, &b, 8);
    f += g, x += y;
    uint64_t sum = 0;
    memcpy(&sum, &x, 8);
    if (type == 7)
        sum = 0, memcpy(&sum, &f, 4);
    switch (op) {
    case 0:
        return type == 7 || type == 8 ? sum : a + b;
    case 1:
        return a_less ? a : b;
    case 2:
        return a_less ? b : a;
    case 3:
        return a >= b ? 0 : a + 1;
    case 4:
        return a == 0 || a > b ? b : a - 1;
    case 5:
        return a & b;
    case 6:
        return a | b;
    default:
        return a ^ b;
    }
}

static const char *const reductions[] = {"add", "min", "max", "inc", "dec", "and", "or", "xor"};

TEST(test_reductions)
{
    static const struct {
        uint32_t type;
        int      ops[13];
    } rows[] = {
        {2,
         {0, 1, 2, 3, 3, 3, 4, 4, 4, 5, 6, 7, -1}}, /* inc and dec have more cases than one problem may meet */
        {3, {0, 1, 2, 5, -1}},
        {4, {0, 1, 2, 6, -1}},
        {5, {1, 2, 7, -1}},
        {7, {0, -1}},
        {8, {0, -1}},
    };
    char operation[512];
    printf("seed %u\n", seed);
    begin();
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (const int *op = rows[r].ops; *op >= 0; op++) {
            struct problem p;
            do {
                make_problem(&p, 2, dice(4));
                begin_inside(&p);
            } while (p.type != rows[r].type || p.room > IMAGE - 1024);
            for (uint64_t b = 0; b < sizeof tensor / 64; b += p.bytes) { /* integers: use neighbours */
                double   x = (double)dice(1000) - 500, y = (double)dice(1000) / 8;
                float    f = (float)x, g = (float)y;
                uint64_t word = dice(4) ? dice(5) - 2ull : (uint64_t)dice(1 << 24) << 40 | dice(1 << 24);
                memcpy(tensor + b,
                       p.type == 8   ? (void *)&x
                       : p.type == 7 ? (void *)&f
                                     : (void *)&word,
                       p.bytes);
                word = dice(4) ? dice(5) - 2ull : (uint64_t)dice(1 << 24) << 40 | dice(1 << 24);
                if (b < IMAGE)
                    memcpy(image + b,
                           p.type == 8   ? (void *)&y
                           : p.type == 7 ? (void *)&g
                                         : (void *)&word,
                           p.bytes);
            }
            assert_true(p.extent <= sizeof tensor / 64);
            memcpy(tensor_wanted, tensor, p.extent);
            encode(&p, tensor_address, map_bytes);
            uint32_t i[5] = {0};
            do {
                uint64_t piece = 16 / p.bytes; /* combined as a whole, beyond the last element, too */
                int64_t  offset = offset_within(&p, i, (p.dim[0] + piece - 1) / piece * piece);
                uint64_t a = 0, b = 0;
                if (offset < 0)
                    continue;
                memcpy(&a, tensor + offset, p.bytes);
                memcpy(&b, image + place_of(&p, i) - 1024, p.bytes);
                a = reduced(a, b, *op, p.type);
                memcpy(tensor_wanted + offset, &a, p.bytes);
            } while (next_element(&p, i));
            snprintf(operation, sizeof operation,
                     "@!%%p1 bra W; cp.reduce.async.bulk.tensor.#d.global.shared::cta.%s.tile."
                     "bulk_group [%%rd2, {$}], [%%r9];\n%s",
                     reductions[*op], STORE_END);
            expect_clean(kernel(&p, FENCE SYNC, operation, SYNC), &p, 1, p.extent);
            same_bytes(&p, tensor, tensor_wanted, p.extent);
        }
}

/* The results of an H200 when `shared` is reduced into `global`. */
TEST(test_half_reductions)
{
    static const uint16_t shared[14] = {0x7e00, 0x3c00, 0x7e00, 0x8000, 0x0000, 0x0001, 0x8001,
                                        0x7c00, 0x7c01, 0xfe00, 0x3c01, 0x0400, 0x7bff, 0x0001};
    static const uint16_t global[14] = {0x3c00, 0x7e00, 0x7e00, 0x0000, 0x8000, 0x0001, 0x0001,
                                        0xfc00, 0x3c00, 0xfe01, 0xbc00, 0x8001, 0x7bff, 0x3c00};
    static const struct {
        const char *op;
        uint16_t    out[14];
    } rows[] = {
        {"add.noftz.f16",
         {0x7fff, 0x7fff, 0x7fff, 0, 0, 2, 0, 0x7fff, 0x7fff, 0x7fff, 0x1400, 0x03ff, 0x7c00, 0x3c00}},
        {"add.noftz.bf16",
         {0x7e00, 0x7e00, 0x7e80, 0, 0, 2, 0, 0, 0x7c01, 0xfe80, 0x3880, 0x0400, 0x7c7f, 0x3c00}},
        {"min.f16",
         {0x3c00, 0x3c00, 0x7fff, 0x8000, 0x8000, 1, 0x8001, 0xfc00, 0x3c00, 0x7fff, 0xbc00, 0x8001, 0x7bff,
          1}},
        {"max.f16",
         {0x3c00, 0x3c00, 0x7fff, 0, 0, 1, 1, 0x7c00, 0x3c00, 0x7fff, 0x3c01, 0x0400, 0x7bff, 0x3c00}},
        {"min.bf16",
         {0x3c00, 0x3c00, 0x7e00, 0x8000, 0x8000, 1, 0x8001, 0xfc00, 0x3c00, 0xfe01, 0xbc00, 0x8001, 0x7bff,
          1}},
        {"max.bf16",
         {0x7e00, 0x7e00, 0x7e00, 0, 0, 1, 1, 0x7c00, 0x7c01, 0xfe00, 0x3c01, 0x0400, 0x7bff, 0x3c00}},
    };
    char operation[512];
    begin();
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        struct problem p = {.rank = 1, .shared = 1024};
        memset(image, 0, IMAGE);
        memset(tensor, 0, 64);
        memcpy(image, shared, sizeof shared);
        memcpy(tensor, global, sizeof global);
        snprintf(operation, sizeof operation,
                 "@!%%p1 bra W; cp.reduce.async.bulk.global.shared::cta.bulk_group.%s [%%rd1], "
                 "[%%r9], 32;\n%s",
                 rows[r].op, STORE_END);
        expect_clean(kernel(&p, FENCE SYNC, operation, SYNC), &p, 1, 64);
        for (int i = 0; i < 14; i++)
            if (memcmp(tensor + 2 * i, &rows[r].out[i], 2))
                fail_msg("%s of %04x into %04x: %02x%02x, not %04x", rows[r].op, shared[i], global[i],
                         tensor[2 * i + 1], tensor[2 * i], rows[r].out[i]);
    }
}

TEST(test_tf32_loads)
{
    static const uint32_t tf32[WORDS] = {0x3f800000, 0x3f804000, 0x3f800000, 0x3f802000, 0xbf800000,
                                         0xbf804000, 0x00000000, 0x80800000, 0x00000000, 0x00400000,
                                         0x7f800000, 0xff800000, 0x7fffe000, 0x7fffe000, 0x7fffe000,
                                         0x7f800000, 0x7f800000, 0x3f802000, 0x80000000, 0x00800000,
                                         0x00800000, 0x00800000, 0x7fffe000, 0x7fffe000};
    begin();
    for (uint32_t type = 7; type < 13; type++) {
        struct problem p;
        if (type == 8 || type == 9)
            continue;
        one_row(&p, type);
        memset(image, 0, IMAGE);
        memcpy(tensor, words, sizeof words);
        expect_clean(kernel(&p, FENCE SYNC, LOAD, WAIT), &p, 1, sizeof words);
        same_bytes(&p, image, (const unsigned char *)(type > 10 ? tf32 : words), sizeof words);
    }
}

TEST(test_float_sums)
{
    static const uint32_t kept[WORDS] = {0x3f801000, 0x3f803000, 0x3f800fff, 0x3f801001, 0xbf801000,
                                         0xbf803000, 0x00000011, 0x807fffef, 0x00001010, 0x00401010,
                                         0x7f800000, 0xff800000, 0x7fffffff, 0x7fffffff, 0x7fffffff,
                                         0x7f7fffff, 0x7f7ff000, 0x3f802000, 0x00000010, 0x00800010,
                                         0x007ff010, 0x0080000f, 0x7fffffff, 0x7fffffff};
    static const uint32_t flushed[WORDS] = {0x3f801000, 0x3f803000, 0x3f800fff, 0x3f801001, 0xbf801000,
                                            0xbf803000, 0,          0,          0,          0,
                                            0x7f800000, 0xff800000, 0x7fffffff, 0x7fffffff, 0x7fffffff,
                                            0x7f7fffff, 0x7f7ff000, 0x3f802000, 0,          0x00800000,
                                            0,          0,          0x7fffffff, 0x7fffffff};
    begin();
    for (uint32_t type = 7; type < 13; type++) {
        struct problem p;
        if (type == 8 || type == 9)
            continue;
        one_row(&p, type);
        memset(image, 0, IMAGE);
        memcpy(image, words, sizeof words);
        for (int i = 0; i < WORDS; i++)
            memcpy(tensor + 4 * i, &(uint32_t){0x10}, 4);
        expect_clean(kernel(&p, FENCE SYNC,
                            "@!%p1 bra W; cp.reduce.async.bulk.tensor.#d.global.shared::cta.add.bulk_group "
                            "[%rd2, {$}], [%r9];\n" STORE_END,
                            SYNC),
                     &p, 1, sizeof words);
        same_bytes(&p, tensor, (const unsigned char *)(type == 10 || type == 12 ? flushed : kept),
                   sizeof words);
    }
}

/* Eight blocks, which run on several host threads, add to the same tensor. */
TEST(test_sums_of_blocks)
{
    struct problem p;
    begin();
    one_row(&p, 2);
    for (uint32_t i = 0; i < WORDS; i++) {
        uint32_t zero = 0;
        memcpy(tensor + 4 * i, &zero, 4);
        for (uint32_t b = 0; b < 8; b++) {
            uint32_t word = i + b * 1000;
            memcpy(image + b * IMAGE + 4 * i, &word, 4);
        }
    }
    emu_test_settings.host_threads = 4;
    single_blocks = true;
    expect_clean(kernel(&p,
                        "mov.u32 %r1, %ctaid.x; mul.wide.u32 %rd10, %r1, 65536; "
                        "add.u64 %rd4, %rd0, %rd10;\n"
                        "add.u64 %rd4, %rd4, %rd3; ld.global.u32 %r5, [%rd4]; add.u32 %r3, %r8, %r2; "
                        "bar.sync 0;\n"
                        "st.shared.u32 [%r3+1024], %r5;\n" FENCE SYNC,
                        "@!%p1 bra W; cp.reduce.async.bulk.tensor.#d.global.shared::cta.add.bulk_group "
                        "[%rd2, {$}], [%r9];\n" STORE_END "ret;\n",
                        ""),
                 &p, 8, sizeof words);
    single_blocks = false;
    for (uint32_t i = 0; i < WORDS; i++) {
        uint32_t sum;
        memcpy(&sum, tensor + 4 * i, 4);
        assert_int_equal(sum, 8 * i + 28000);
    }
}

RUN_TESTS(NULL, NULL)
