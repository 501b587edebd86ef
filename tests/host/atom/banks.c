/* banks.c - bank conflicts: known facts, a slow model beside the fast one, swizzles that remove them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "host/atom/banks.h"
#include "loader/loader.h"

static ptxpack_layout parsed(const char *text)
{
    ptxpack_layout l = ptxpack_layout_parse(text);
    if (l.shape.status != PTXPACK_OK)
        fail_msg("%s: %s", text, ptxpack_detail(NULL));
    return l;
}

static ptxpack_banks counted(const ptxpack_layout *offsets, int bits, int bytes)
{
    const ptxpack_bank_access access = {offsets, bytes};
    ptxpack_banks             banks = ptxpack_bank_conflicts(&access, bits);
    if (banks.status != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(NULL));
    return banks;
}

/* ---- known facts --------------------------------------------------------------------------------------- */
static void test_known_facts(void **state)
{
    (void)state;
    static const struct {
        const char *offsets;
        int         bits, bytes, phases, each; /* conflicts of each phase */
    } rows[] = {
        {"((8,2,2)):((16,128,8))", 16, 16, 4, 1}, /* ldmatrix.x4 from rows of 32 bytes  */
        {"((8,2,2)):((32,256,8))", 16, 16, 4, 3}, /* 64                                 */
        {"((8,2,2)):((48,384,8))", 16, 16, 4, 1}, /* 96                                 */
        {"((8,2,2)):((64,512,8))", 16, 16, 4, 7}, /* 128                                */
        {"((8,2,2)):((72,576,8))", 16, 16, 4, 0}, /* 144: padded                        */
        {"((8,2,2)):((96,768,8))", 16, 16, 4, 3}, /* 192                                */
        {"((8,2,2)):((128,1024,8))", 16, 16, 4, 7},
        {"8:64", 16, 16, 1, 7}, /* .x1 */
        {"Sw<1,3,3> o 0 o ((8,2)):((16,8))", 16, 16, 2, 0},
        {"Sw<2,3,3> o 0 o ((8,2,2)):((32,256,8))", 16, 16, 4, 0},
        {"Sw<3,3,3> o 0 o ((8,2,2)):((64,512,8))", 16, 16, 4, 0},
        {"Sw<2,3,3> o 0 o ((8,2,2)):((64,512,8))", 16, 16, 4, 1},
        {"Sw<1,3,3> o 0 o ((8,2,2)):((64,512,8))", 16, 16, 4, 3},
        {"Sw<3,3,4> o 0 o ((8,2,2)):((128,1024,8))", 16, 16, 4, 0},
        {"Sw<3,3,3> o 0 o ((8,2,2)):((128,1024,8))", 16, 16, 4, 1},
        {"32:1", 32, 4, 1, 0},
        {"32:2", 32, 4, 1, 1},
        {"32:32", 32, 4, 1, 31},
        {"32:33", 32, 4, 1, 0},
        {"32:0", 32, 4, 1, 0}, /* one word for all */
        {"(16,2):(1,0)", 32, 4, 2, 0},
        {"((16,2)):((1,0))", 32, 4, 1, 0},
        {"((16,2)):((1,32))", 32, 4, 1, 1},
        {"32:1", 16, 2, 1, 0}, /* two in a word */
        {"32:64", 16, 2, 1, 31},
        {"32:1", 8, 1, 1, 0},
        {"32:1", 64, 8, 2, 0},
        {"32:16", 64, 8, 2, 15},
        {"32:2", 32, 8, 2, 0},
        {"32:4", 32, 16, 4, 0},
        {"32:32", 32, 16, 4, 7},
        {"((8,4)):((1,8))", 128, 16, 4, 0},
        {"((4,8)):((8,64))", 16, 16, 4, 1}, /* 4 threads copy half a row of 128 bytes  */
        {"((8,4)):((8,64))", 16, 16, 4, 0}, /* 8 threads copy one                      */
        {"((4,8)):((8,32))", 16, 16, 4, 0}, /* 4 threads copy a row of 64 bytes        */
        {"(64,3):(1,64)", 32, 4, 6, 0},     /* two warps, three times                  */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ptxpack_layout l = parsed(rows[i].offsets);
        ptxpack_banks  b = counted(&l, rows[i].bits, rows[i].bytes);
        if (b.phases != rows[i].phases || b.conflicts != rows[i].phases * rows[i].each)
            fail_msg("%s: %lld phases, %lld conflicts", rows[i].offsets, (long long)b.phases,
                     (long long)b.conflicts);
        for (int p = 0; p < b.phases; p++)
            assert_int_equal(b.phase[p], rows[i].each);
        assert_int_equal(b.wavefronts, b.phases + b.conflicts);
    }
}

/* ---- the slow model ------------------------------------------------------------------------------------ */
enum { WORDS = 1 << 14 };

/* Counts each byte that each thread accesses, one after the other. */
static int slow_phase(const ptxpack_layout *l, int bits, int bytes, int64_t begin, int64_t end,
                      int64_t instruction)
{
    static uint8_t touched[WORDS];
    int            words[32] = {0}, most = 0;
    int64_t        threads = ptxpack_mode_size(l, 0);
    memset(touched, 0, sizeof touched);
    for (int64_t t = begin; t < end; t++)
        for (int b = 0; b < bytes; b++) {
            int64_t word = (ptxpack_at(l, t + threads * instruction) * bits / 8 + b) / 4;
            assert_in_range(word, 0, WORDS - 1);
            if (!touched[word]) {
                touched[word] = 1;
                words[word % 32]++;
            }
        }
    for (int bank = 0; bank < 32; bank++)
        most = words[bank] > most ? words[bank] : most;
    return most - 1;
}

static void check_slowly(const ptxpack_layout *l, int bits, int bytes)
{
    ptxpack_banks b = counted(l, bits, bytes);
    int64_t       threads = ptxpack_mode_size(l, 0), phase = 0, sum = 0, per = bytes > 4 ? 128 / bytes : 32;
    for (int64_t i = 0; i < ptxpack_size(l) / threads; i++)
        for (int64_t warp = 0; warp < threads; warp += 32)
            for (int64_t t = warp; t < warp + 32 && t < threads; t += per, phase++) {
                int64_t end = t + per < threads ? t + per : threads;
                int     extra = slow_phase(l, bits, bytes, t, end, i);
                assert_true(phase < b.phases);
                assert_int_equal(b.phase[phase], extra);
                sum += extra;
            }
    assert_int_equal(b.phases, phase);
    assert_int_equal(b.conflicts, sum);
    assert_int_equal(b.wavefronts, phase + sum);
}

static int pick(int n) { return rand() % n; }

/* Makes aligned accesses: threads in up to three modes, sometimes a second mode of instructions, sometimes a
 * swizzle. */
static ptxpack_layout random_access(int bits, int bytes)
{
    int64_t       align = bytes * 8 > bits ? bytes * 8 / bits : 1, shape[4], stride[4];
    int           modes = 1 + pick(3);
    ptxpack_tuple s, d;
    for (int m = 0; m < modes; m++) {
        shape[m] = 1 + pick(m == 2 ? 3 : 8);
        stride[m] = align * (pick(2) ? pick(40) : 1 << pick(6));
    }
    s = ptxpack_tuple_of(modes, shape);
    d = ptxpack_tuple_of(modes, stride);
    if (pick(2)) {
        const ptxpack_tuple ss[2] = {s, ptxpack_int(1 + pick(3))}, dd[2] = {d, ptxpack_int(align * pick(20))};
        s = ptxpack_tuple_join(2, ss);
        d = ptxpack_tuple_join(2, dd);
    } else {
        s = ptxpack_tuple_join(1, &s);
        d = ptxpack_tuple_join(1, &d);
    }
    ptxpack_layout  l = ptxpack_make_layout(&s, &d);
    ptxpack_swizzle swizzle = {(int8_t)pick(4), (int8_t)(63 - __builtin_clzll((unsigned long long)align)), 3};
    return ptxpack_make_composed(swizzle, 0, &l);
}

static void test_against_the_slow_model(void **state)
{
    (void)state;
    const int widths[] = {1, 2, 4, 8, 16}, elements[] = {8, 16, 32, 64};
    printf("seed 2\n");
    srand(2);
    for (int i = 0; i < 4000; i++) {
        int bits = elements[pick(4)], bytes = widths[pick(5)];
        if (bytes * 8 < bits)
            continue;
        ptxpack_layout l = random_access(bits, bytes);
        assert_int_equal(l.shape.status, PTXPACK_OK);
        check_slowly(&l, bits, bytes);
    }
}

/* ---- the search ---------------------------------------------------------------------------------------- */
static ptxpack_layout swizzled(ptxpack_swizzle s, const ptxpack_layout *l)
{
    return ptxpack_make_composed(s, 0, l);
}

/* Finds the first of all swizzles, in the stated order, with which ptxpack_bank_conflicts counts no
 * conflict. */
static bool slow_search(const ptxpack_layout *tile, int bits, int count, const ptxpack_bank_access *accesses,
                        ptxpack_swizzle *out)
{
    int64_t widest = bits < 32 ? 32 / bits : 1, cosize = ptxpack_cosize(tile);
    for (int i = 0; i < count; i++)
        widest = accesses[i].bytes * 8 / bits > widest ? accesses[i].bytes * 8 / bits : widest;
    for (int b = 0; b <= 5; b++)
        for (int s = b; s < 20; s++) {
            ptxpack_swizzle sw = {(int8_t)b, (int8_t)(b ? 63 - __builtin_clzll((unsigned long long)widest) : 0),
                                  (int8_t)(b ? s : 0)};
            int64_t         block = (int64_t)1 << (sw.base + b), conflicts = 0;
            if (b > 0 &&
                (cosize % block || (int64_t)1 << (sw.base + s + b - 1) >= cosize || block * bits > 1024))
                continue;
            for (int i = 0; i < count; i++) {
                ptxpack_layout l = swizzled(sw, accesses[i].offsets);
                conflicts += counted(&l, bits, accesses[i].bytes).conflicts;
            }
            if (conflicts == 0) {
                *out = sw;
                return true;
            }
        }
    return false;
}

static void test_search_against_all_swizzles(void **state)
{
    (void)state;
    srand(3);
    int found = 0, none = 0;
    for (int i = 0; i < 1500; i++) {
        /* a tile of rows; some accesses along rows, some along columns */
        int                 bits = 8 << pick(3), count = 1 + pick(3);
        int64_t             columns = (int64_t)(1 + pick(16)) * 128 / bits, rows = 8 << pick(4);
        const int64_t       extents[2] = {rows, columns};
        ptxpack_tuple       shape = ptxpack_tuple_of(2, extents);
        ptxpack_layout      tile = ptxpack_make_layout_right(&shape), offsets[3];
        ptxpack_bank_access accesses[3];
        for (int a = 0; a < count; a++) {
            int     bytes = bits / 8 << pick(bits == 8 ? 5 : bits == 16 ? 4 : 3), wide = bytes * 8 / bits;
            bool    down = pick(2);
            int64_t across = down ? 1 + pick(columns > wide ? 2 : 1) : columns / wide;
            int64_t threads = across < 32 ? across : 32, lines = 32 / threads < rows ? 32 / threads : rows;
            const int64_t s[2] = {down ? lines : threads, down ? threads : lines};
            const int64_t d[2] = {down ? columns : wide, down ? wide : columns};
            ptxpack_tuple ss = ptxpack_tuple_of(2, s), dd = ptxpack_tuple_of(2, d);
            ss = ptxpack_tuple_join(1, &ss);
            dd = ptxpack_tuple_join(1, &dd);
            offsets[a] = ptxpack_make_layout(&ss, &dd);
            accesses[a] = (ptxpack_bank_access){&offsets[a], bytes};
        }
        ptxpack_swizzle is = {0, 0, 0}, want = {0, 0, 0};
        ptxpack_status  status = ptxpack_find_swizzle(&tile, bits, count, accesses, &is);
        bool            some = slow_search(&tile, bits, count, accesses, &want);
        assert_int_equal(status, some ? PTXPACK_OK : PTXPACK_E_UNSUPPORTED);
        if (some && memcmp(&is, &want, sizeof is))
            fail_msg("Sw<%d,%d,%d> instead of Sw<%d,%d,%d>", is.bits, is.base, is.shift, want.bits, want.base,
                     want.shift);
        found += some && is.bits;
        none += !some;
    }
    printf("seed 3: %d swizzles found, %d times there is none\n", found, none);
    assert_true(found > 100 && none > 20);
}

/* Tests tiles of f16 rows, written by 16-byte copies and read by ldmatrix, plain and transposed. */
static void test_rows_of_f16(void **state)
{
    (void)state;
    static const struct {
        const char     *tile, *write;
        ptxpack_swizzle want;
    } rows[] = {
        {"(64,16):(16,1)", "((2,16)):((8,16))", {1, 3, 3}},
        {"(64,32):(32,1)", "((4,8)):((8,32))", {2, 3, 3}},
        {"(64,64):(64,1)", "((8,4)):((8,64))", {3, 3, 3}},
        {"(64,128):(128,1)", "((8,4)):((8,128))", {3, 3, 4}},
        {"(64,256):(256,1)", "((8,4)):((8,256))", {3, 3, 5}},
        {"(64,72):(72,1)", "((1,8)):((8,72))", {0, 0, 0}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ptxpack_layout  tile = parsed(rows[i].tile), write = parsed(rows[i].write);
        char            text[64];
        long long       row = (long long)tile.stride.value[0];
        ptxpack_swizzle is;
        snprintf(text, sizeof text, "((8,2,2)):((%lld,%lld,8))", row, 8 * row);
        ptxpack_layout plain = parsed(text);
        snprintf(text, sizeof text, "((8,2,2)):((%lld,8,%lld))", row, 8 * row);
        ptxpack_layout            trans = parsed(text);
        const ptxpack_bank_access accesses[] = {{&write, 16}, {&plain, 16}, {&trans, 16}};
        if (ptxpack_find_swizzle(&tile, 16, 3, accesses, &is) != PTXPACK_OK)
            fail_msg("%s: %s", rows[i].tile, ptxpack_detail(NULL));
        if (memcmp(&is, &rows[i].want, sizeof is))
            fail_msg("%s: Sw<%d,%d,%d>", rows[i].tile, is.bits, is.base, is.shift);
    }
}

/* Tests 96 f16 columns: rows of 192 bytes, or three blocks of 32 columns one after another.  Both have a
 * swizzle for all copies and all ldmatrix of the tile; in the blocks it is the same for all columns of a
 * row. */
static void test_96_columns(void **state)
{
    (void)state;
    static const struct {
        const char *tile, *write, *read;
    } rows[] = {
        {"(64,96):(96,1)", "((4,8),3,8):((8,96),32,768)", "((8,2,2),6,4):((96,768,8),16,1536)"},
        {"(64,(32,3)):(32,(1,2048))", "((4,8),3,8):((8,32),2048,256)",
         "((8,2,2),(2,3),4):((32,256,8),(16,2048),512)"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ptxpack_layout tile = parsed(rows[i].tile), write = parsed(rows[i].write), read = parsed(rows[i].read);
        const ptxpack_bank_access accesses[] = {{&write, 16}, {&read, 16}};
        const ptxpack_swizzle     want = {2, 3, 3};
        ptxpack_swizzle           is;
        assert_int_equal(counted(&read, 16, 16).conflicts, 3 * 96); /* without a swizzle */
        assert_int_equal(ptxpack_find_swizzle(&tile, 16, 2, accesses, &is), PTXPACK_OK);
        assert_memory_equal(&is, &want, sizeof is);
    }
    ptxpack_layout blocks = parsed("Sw<2,3,3> o 0 o (64,(32,3)):(32,(1,2048))");
    for (int64_t r = 0; r < 64; r++)
        for (int64_t c = 0; c < 96;
             c += 8) /* the 16-byte chunk: one XOR for the row, one address for the block */
            assert_int_equal(ptxpack_at(&blocks, r + 64 * c),
                             r * 32 + c / 32 * 2048 + 8 * (c / 8 % 4 ^ (r >> 1 & 3)));
}

/* The swizzle permutes the tile: every offset is used once, and none outside. */
static void test_swizzles_stay_in_the_tile(void **state)
{
    (void)state;
    static const char *const tiles[] = {"(8,64):(64,1)", "(24,64):(64,1)", "(8,96):(96,1)", "(16,192):(192,1)",
                                        "(8,(32,3)):(32,(1,256))"};
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
        ptxpack_layout tile = parsed(tiles[i]);
        char           text[64];
        uint8_t        seen[8192] = {0};
        snprintf(text, sizeof text, "8:%lld", (long long)tile.stride.value[0]);
        ptxpack_layout            read = parsed(text);
        const ptxpack_bank_access access = {&read, 16};
        ptxpack_swizzle           is;
        assert_int_equal(ptxpack_find_swizzle(&tile, 16, 1, &access, &is), PTXPACK_OK);
        assert_true(is.bits > 0);
        ptxpack_layout l = swizzled(is, &tile);
        for (int64_t e = 0; e < ptxpack_size(&l); e++) {
            int64_t at = ptxpack_at(&l, e);
            assert_in_range(at, 0, ptxpack_cosize(&tile) - 1);
            assert_false(seen[at]++);
        }
    }
}

/* ---- tiled copies -------------------------------------------------------------------------------------- */
static ptxpack_tiled_copy copy_of(const char *atom_name, int64_t bits, const char *threads, const char *values)
{
    ptxpack_copy_atom atom;
    ptxpack_layout    t = parsed(threads), v = parsed(values);
    assert_int_equal(ptxpack_copy_atom_find(atom_name, &atom), PTXPACK_OK);
    ptxpack_tiled_copy copy = ptxpack_make_tiled_copy(&atom, bits, &t, &v);
    if (copy.status != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(NULL));
    return copy;
}

static void test_tiled_copies(void **state)
{
    (void)state;
    static const struct {
        const char  *atom, *threads, *values;
        ptxpack_side side;
        const char  *shared;
        int64_t      phases, conflicts;
    } rows[] = {
        /* 128 threads write 64 x 64 f16, 8 to a row */
        {"SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>", "(16,8):(8,1)", "(1,8)", PTXPACK_DST, "(64,64):(64,1)", 64, 0},
        {"SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>", "(16,8):(8,1)", "(1,8)", PTXPACK_DST,
         "Sw<3,3,3> o 0 o (64,64):(64,1)", 64, 0},
        {"SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>", "(32,4):(4,1)", "(1,8)", PTXPACK_DST, "(64,64):(64,1)", 64,
         64},
        {"SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>", "(32,4):(4,1)", "(1,8)", PTXPACK_DST,
         "Sw<3,3,3> o 0 o (64,64):(64,1)", 64, 64},
        {"SM80_CP_ASYNC_CACHEALWAYS<uint64_t>", "(8,16):(16,1)", "(1,4)", PTXPACK_DST, "(16,64):(64,1)", 16, 0},
        {"SM80_CP_ASYNC_CACHEALWAYS<uint32_t>", "(32,4):(1,32)", "(1,2)", PTXPACK_DST, "(32,8):(8,1)", 4, 12},
        {"SM75_U32x1_LDSM_N", "(8,4):(4,1)", "(1,2)", PTXPACK_SRC, "(8,64):(64,1)", 8, 56},
        {"SM75_U32x1_LDSM_N", "(8,4):(4,1)", "(1,2)", PTXPACK_SRC, "Sw<3,3,3> o 0 o (8,64):(64,1)", 8, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ptxpack_tiled_copy copy = copy_of(rows[i].atom, 16, rows[i].threads, rows[i].values);
        ptxpack_layout     shared = parsed(rows[i].shared);
        ptxpack_banks      b = ptxpack_copy_conflicts(&copy, rows[i].side, &shared);
        if (b.status != PTXPACK_OK)
            fail_msg("row %zu: %s", i, ptxpack_detail(NULL));
        if (b.phases != rows[i].phases || b.conflicts != rows[i].conflicts)
            fail_msg("row %zu, %s in %s: %lld phases, %lld conflicts", i, rows[i].atom, rows[i].shared,
                     (long long)b.phases, (long long)b.conflicts);
    }
}

/* ldmatrix loads the operands of an mma: each piece of the tile once, in phases of one matrix. */
static void test_copies_for_an_mma(void **state)
{
    (void)state;
    static const struct {
        const char     *copy;
        ptxpack_operand operand;
        const char     *shared;
        int64_t         phases, conflicts;
    } rows[] = {
        {"SM75_U32x4_LDSM_N", PTXPACK_A, "(16,16):(64,1)", 4, 28},
        {"SM75_U32x4_LDSM_N", PTXPACK_A, "Sw<3,3,3> o 0 o (16,16):(64,1)", 4, 0},
        {"SM75_U32x4_LDSM_N", PTXPACK_A, "Sw<3,3,3> o 0 o (64,64):(64,1)", 64, 0},
        {"SM75_U32x4_LDSM_N", PTXPACK_A, "Sw<2,3,3> o 0 o (64,(32,3)):(32,(1,2048))", 96, 0},
        {"SM75_U32x2_LDSM_N", PTXPACK_B, "(8,64):(64,1)", 8, 56},
        {"SM75_U32x2_LDSM_N", PTXPACK_B, "Sw<3,3,3> o 0 o (8,64):(64,1)", 8, 0},
        {"SM75_U32x1_LDSM_N", PTXPACK_B, "Sw<2,3,3> o 0 o (8,64):(64,1)", 8, 8},
        {"SM75_U16x4_LDSM_T", PTXPACK_B, "(64,64):(1,64)", 64, 448},
        {"SM75_U16x4_LDSM_T", PTXPACK_B, "Sw<3,3,3> o 0 o (64,64):(1,64)", 64, 0},
    };
    ptxpack_mma_atom  mma_atom;
    ptxpack_copy_atom atom;
    assert_int_equal(ptxpack_mma_atom_find("SM80_16x8x16_F32F16F16F32_TN", &mma_atom), PTXPACK_OK);
    ptxpack_tiled_mma mma = ptxpack_make_tiled_mma(&mma_atom, NULL, NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(ptxpack_copy_atom_find(rows[i].copy, &atom), PTXPACK_OK);
        ptxpack_tiled_copy copy = ptxpack_make_tiled_copy_mma(&atom, 16, &mma, rows[i].operand);
        ptxpack_layout     shared = parsed(rows[i].shared);
        ptxpack_banks      b = ptxpack_copy_conflicts(&copy, PTXPACK_SRC, &shared);
        if (b.status != PTXPACK_OK)
            fail_msg("row %zu: %s", i, ptxpack_detail(NULL));
        if (b.phases != rows[i].phases || b.conflicts != rows[i].conflicts)
            fail_msg("row %zu, %s in %s: %lld phases, %lld conflicts", i, rows[i].copy, rows[i].shared,
                     (long long)b.phases, (long long)b.conflicts);
        assert_int_equal(ptxpack_copy_conflicts(&copy, PTXPACK_DST, &shared).status, PTXPACK_E_ARG);
        assert_non_null(strstr(ptxpack_detail(NULL), "not in shared memory but in registers"));
    }
}

/* The swizzle that is found for a copy leaves it without conflicts, and one bit less would not. */
static void test_swizzles_of_copies(void **state)
{
    (void)state;
    static const struct {
        const char     *copy;
        ptxpack_operand operand;
        ptxpack_side    side;
        const char     *shared, *found;
    } rows[] = {
        {"SM75_U32x4_LDSM_N", PTXPACK_A, PTXPACK_SRC, "(64,64):(64,1)", "Sw<3,3,3>"},
        {"SM75_U32x4_LDSM_N", PTXPACK_A, PTXPACK_SRC, "(64,128):(128,1)", "Sw<3,3,4>"},
        {"SM75_U32x4_LDSM_N", PTXPACK_A, PTXPACK_SRC, "(64,32):(32,1)", "Sw<2,3,3>"},
        {"SM75_U32x2_LDSM_N", PTXPACK_B, PTXPACK_SRC, "(64,64):(64,1)", "Sw<3,3,3>"},
        {"SM75_U32x1_LDSM_N", PTXPACK_B, PTXPACK_SRC, "(64,64):(72,1)", "Sw<0,0,0>"},
        {"SM75_U16x4_LDSM_T", PTXPACK_B, PTXPACK_SRC, "(64,64):(1,64)", "Sw<3,3,3>"},
        {"SM90_U32x4_STSM_N", PTXPACK_C, PTXPACK_DST, "(64,64):(64,1)", "Sw<3,3,3>"},
    };
    ptxpack_mma_atom     mma_atom;
    ptxpack_copy_atom    atom;
    const ptxpack_layout tile = parsed("<16,16,16>");
    assert_int_equal(ptxpack_mma_atom_find("SM80_16x8x16_F16F16F16F16_TN", &mma_atom), PTXPACK_OK);
    ptxpack_tiled_mma mma = ptxpack_make_tiled_mma(&mma_atom, NULL, &tile);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char            text[40];
        ptxpack_swizzle is;
        assert_int_equal(ptxpack_copy_atom_find(rows[i].copy, &atom), PTXPACK_OK);
        ptxpack_tiled_copy copy = ptxpack_make_tiled_copy_mma(&atom, 16, &mma, rows[i].operand);
        ptxpack_layout     shared = parsed(rows[i].shared);
        if (ptxpack_copy_find_swizzle(&copy, rows[i].side, &shared, &is) != PTXPACK_OK)
            fail_msg("row %zu: %s", i, ptxpack_detail(NULL));
        snprintf(text, sizeof text, "Sw<%d,%d,%d>", is.bits, is.base, is.shift);
        assert_string_equal(text, rows[i].found);
        ptxpack_layout swizzled = ptxpack_make_composed(is, 0, &shared);
        assert_int_equal(ptxpack_copy_conflicts(&copy, rows[i].side, &swizzled).conflicts, 0);
        if (is.bits == 0)
            continue;
        assert_int_equal(ptxpack_copy_find_swizzle(&copy, rows[i].side, &swizzled, &is), PTXPACK_E_ARG);
        assert_non_null(strstr(ptxpack_detail(NULL), "no unswizzled tile"));
        is.bits--;
        swizzled = ptxpack_make_composed(is, 0, &shared);
        assert_int_not_equal(ptxpack_copy_conflicts(&copy, rows[i].side, &swizzled).conflicts, 0);
        ptxpack_side other = rows[i].side == PTXPACK_SRC ? PTXPACK_DST : PTXPACK_SRC;
        assert_int_equal(ptxpack_copy_find_swizzle(&copy, other, &shared, &is), PTXPACK_E_ARG);
        assert_non_null(strstr(ptxpack_detail(NULL), "not in shared memory but in registers"));
    }
}

/* ---- refusals ------------------------------------------------------------------------------------------ */
static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *offsets;
        int         bits, bytes;
        const char *line;
    } counts[] = {
        {"32:1", 16, 3, "access of 3 bytes"},
        {"32:1", 16, 32, "access of 32 bytes"},
        {"32:1", 16, 0, "access of 0 bytes"},
        {"32:1", 0, 4, "element of 0 bits"},
        {"32:1", 16, 4, "thread 1 accesses 4 bytes at offset 1"},
        {"32:-2", 16, 4, "thread 1 accesses offset -2"},
        {"(8,2):(1@0,1@1)", 16, 2, "are integers"},
        {"(32,4096):(1,32)", 32, 4, "more than 2048 phases"},
        {"(32,2):(1,4611686018427387904)", 16, 2, "not in shared memory"},
        {"(32", 16, 2, ""},
    };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        ptxpack_layout            l = ptxpack_layout_parse(counts[i].offsets);
        const ptxpack_bank_access access = {&l, counts[i].bytes};
        ptxpack_banks             b = ptxpack_bank_conflicts(&access, counts[i].bits);
        if (b.status != PTXPACK_E_ARG || strstr(ptxpack_detail(NULL), counts[i].line) == NULL)
            fail_msg("%s: status %d, \"%s\" does not say \"%s\"", counts[i].offsets, b.status,
                     ptxpack_detail(NULL), counts[i].line);
    }
    /* Layouts without items: a zeroed one, and factors that lie in tensor memory. */
    static ptxpack_mma_atom tensor_core_5;
    const ptxpack_layout    nothing = {.composed = false}, *empty[] = {&nothing, &tensor_core_5.sfa_layout};
    ptxpack_status          found = ptxpack_mma_atom_find("SM100_128x128x16_F32F16F16_SS", &tensor_core_5);
    assert_int_equal(found, PTXPACK_OK);
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++) {
        ptxpack_layout            tile = parsed("(8,64):(64,1)");
        const ptxpack_bank_access access = {empty[i], 16};
        ptxpack_swizzle           is;
        assert_int_equal(ptxpack_bank_conflicts(&access, 16).status, PTXPACK_E_ARG);
        assert_string_equal(ptxpack_detail(NULL), "the offsets of an access are a layout without threads");
        assert_int_equal(ptxpack_find_swizzle(&tile, 16, 1, &access, &is), PTXPACK_E_ARG);
        const ptxpack_bank_access in_tile = {&tile, 16};
        assert_int_equal(ptxpack_find_swizzle(empty[i], 16, 1, &in_tile, &is), PTXPACK_E_ARG);
    }
    static const struct {
        const char    *tile, *offsets;
        int            bits, bytes, count;
        ptxpack_status status;
        const char    *line;
    } searches[] = {
        {"(8,64):(64,1)", "8:64", 16, 16, 0, PTXPACK_E_ARG, "0 accesses"},
        {"(8,64):(64,1)", "8:64", 16, 16, 17, PTXPACK_E_ARG, "17 accesses"},
        {"(8,64):(64,1)", "8:64", 24, 16, 1, PTXPACK_E_ARG, "24 bits"},
        {"Sw<3,3,3> o 0 o (8,64):(64,1)", "8:64", 16, 16, 1, PTXPACK_E_ARG, "no unswizzled tile"},
        {"(8,64):(64,1)", "Sw<3,3,3> o 0 o 8:64", 16, 16, 1, PTXPACK_E_ARG, "access 0 is swizzled already"},
        {"(7,64):(64,1)", "8:64", 16, 16, 1, PTXPACK_E_ARG, "accesses byte 911, beyond the tile's 896"},
        {"(8,8192):(8192,1)", "(8,600):(8192,8)", 16, 16, 1, PTXPACK_E_ARG, "more than 4096 addresses"},
        {"(16,64):(64,1)", "((8)):((128))", 16, 16, 1, PTXPACK_OK, ""},
        {"(4,64):(64,1)", "((4,2)):((64,256))", 16, 16, 1, PTXPACK_E_ARG, "beyond"},
        {"(64,64):(64,1)", "((2,2,2)):((64,1024,2048))", 16, 16, 1, PTXPACK_E_UNSUPPORTED,
         "no swizzle inside of"},
        {"(8,36):(36,1)", "8:72", 32, 16, 1, PTXPACK_E_ARG, "beyond"},
        {"(32,33):(32,1)", "((32)):((32))", 32, 4, 1, PTXPACK_E_UNSUPPORTED, "no swizzle inside of"},
    };
    for (size_t i = 0; i < sizeof searches / sizeof *searches; i++) {
        ptxpack_layout            tile = parsed(searches[i].tile), l = parsed(searches[i].offsets);
        const ptxpack_bank_access access[17] = {{&l, searches[i].bytes}};
        ptxpack_swizzle           is;
        ptxpack_status status = ptxpack_find_swizzle(&tile, searches[i].bits, searches[i].count, access, &is);
        if (status != searches[i].status || strstr(ptxpack_detail(NULL), searches[i].line) == NULL)
            fail_msg("search %zu: status %d, \"%s\" does not say \"%s\"", i, status, ptxpack_detail(NULL),
                     searches[i].line);
    }
}

/* ---- speed --------------------------------------------------------------------------------------------- */
static void test_speed(void **state)
{
    (void)state;
    ptxpack_layout tile = parsed("(128,128):(128,1)"), write = parsed("((8,4)):((8,128))");
    ptxpack_layout plain = parsed("((8,2,2)):((128,1024,8))"), trans = parsed("((8,2,2)):((128,8,1024))");
    const ptxpack_bank_access accesses[] = {{&write, 16}, {&plain, 16}, {&trans, 16}, {&plain, 16}};
    ptxpack_swizzle           is;
    struct timespec           from, to;
    enum { ROUNDS = 2000 };
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (int i = 0; i < ROUNDS; i++)
        assert_int_equal(ptxpack_find_swizzle(&tile, 16, 4, accesses, &is), PTXPACK_OK);
    clock_gettime(CLOCK_MONOTONIC, &to);
    double us = ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) / 1e3 / ROUNDS;
    printf("ptxpack_find_swizzle, 4 accesses by 32 threads: %.2f us\n", us);
    assert_true(us < 500); /* it takes about 5; a test machine may be slow, but not that slow */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_facts),
        cmocka_unit_test(test_against_the_slow_model),
        cmocka_unit_test(test_search_against_all_swizzles),
        cmocka_unit_test(test_rows_of_f16),
        cmocka_unit_test(test_swizzles_stay_in_the_tile),
        cmocka_unit_test(test_tiled_copies),
        cmocka_unit_test(test_copies_for_an_mma),
        cmocka_unit_test(test_swizzles_of_copies),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_speed),
        cmocka_unit_test(test_96_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
