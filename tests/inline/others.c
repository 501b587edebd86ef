/* others.c - tests functions of ptx/inline that have no twin for inline.c to run: shuffles and votes, numbers,
 * barriers, bulk copies, TMA, clusters, on the emulated driver, against plain C; and each header by itself. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/support/inline_fixture.h"

enum { LANES = 32 };

static ptxpack_program *program; /* tests/inline/others.cu */

static int load_program(void **state)
{
    inline_text t;
    (void)state;
    inline_begin(&t);
    inline_append(&t, "tests/inline/others.cu");
    program = inline_load(&t);
    return 0;
}

static int free_program(void **state)
{
    (void)state;
    ptxpack_program_free(program);
    return 0;
}

/* Runs out[..] = kernel(out, in[..]) with so many threads. */
static void run(const char *kernel, uint32_t blocks, uint32_t threads, const uint32_t *in, size_t in_words,
                uint32_t *out, size_t out_words)
{
    uint64_t from = inline_give(0, in, in_words * sizeof *in), to = inline_room(out_words * sizeof *out);
    void    *parameters[] = {&to, &from};
    inline_run(inline_function_of(program, kernel), blocks, 1, threads, 0, parameters, out, kernel);
}

/* ---- lanes ----------------------------------------------------------------------------------------- */
enum { ROWS = 25 };

static uint32_t fold(char op, const uint32_t *x)
{
    uint32_t y = x[0];
    for (int l = 1; l < LANES; l++)
        switch (op) {
        case '+':
            y += x[l];
            break;
        case '^':
            y ^= x[l];
            break;
        case '&':
            y &= x[l] | 0xff;
            break;
        case '|':
            y |= x[l] & 0xff00;
            break;
        case '<':
            y = x[l] < y ? x[l] : y;
            break;
        case '>':
            y = x[l] > y ? x[l] : y;
            break;
        case 's':
            y = (int32_t)x[l] < (int32_t)y ? x[l] : y;
            break;
        default:
            y = (int32_t)x[l] > (int32_t)y ? x[l] : y;
        }
    return op == '&' ? y | 0xff : op == '|' ? y & 0xff00 : y;
}

/* What row `row` of kernel `lanes` must hold for lane l. */
static uint32_t lanes_wanted(int row, uint32_t l, const uint32_t *x)
{
    uint32_t odd = 0;
    for (int i = 0; i < LANES; i++)
        odd |= (x[i] & 1) << i;
    switch (row) {
    case 0:
        return x[5];
    case 1:
        return x[(l & ~7u) + 1]; /* lane 9 of groups of 8 is lane 1 */
    case 2:
        return x[l < 3 ? l : l - 3];
    case 3:
        return x[l % 8 < 3 ? l : l - 3];
    case 4:
        return x[l > 28 ? l : l + 3];
    case 5:
        return x[l % 8 > 4 ? l : l + 3];
    case 6:
        return x[l ^ 6];
    case 7:
        return l ^ 9;
    case 8:
        return l ^ 17;
    case 9:
        return 1;
    case 10:
        return 1;
    case 11:
        return 1;
    case 12:
        return odd;
    case 13:
        return 0xfu << l / 4 * 4;
    case 14:
        return fold('+', x);
    case 15:
        return fold('<', x);
    case 16:
        return fold('>', x);
    case 17:
        return fold('+', x);
    case 18:
        return fold('s', x);
    case 19:
        return fold('S', x);
    case 20:
        return fold('&', x);
    case 21:
        return fold('|', x);
    case 22:
        return fold('^', x);
    default:
        return l;
    }
}

static void lanes_exchange_values(void **state)
{
    uint32_t in[LANES], out[ROWS * LANES];
    (void)state;
    for (uint32_t l = 0; l < LANES; l++)
        in[l] = l * 2654435761u ^ (l + 5) << 27 ^ 0x12345600u;
    run("lanes", 1, LANES, in, LANES, out, ROWS * LANES);
    for (int row = 0; row < ROWS; row++)
        for (uint32_t l = 0; l < LANES; l++) {
            uint32_t got = out[row * LANES + (int)l], wanted = lanes_wanted(row, l, in);
            if (row == 23) /* one lane was elected, and all lanes see the same one */
                assert_true(got != 0 && (got & (got - 1)) == 0 && got == out[row * LANES]);
            else if (got != wanted)
                fail_msg("row %d of lanes(): lane %u has %08x, not %08x", row, l, got, wanted);
        }
}

/* ---- numbers --------------------------------------------------------------------------------------- */
static uint32_t pair(ptxpack_dtype type, float low, float high)
{
    return ptxpack_from_float(type, low) | (uint32_t)ptxpack_from_float(type, high) << 16;
}

static void functions_and_conversions(void **state)
{
    enum { FLOATS = 20, WORDS = 29 };
    const ptxpack_dtype h = PTXPACK_F16, b = PTXPACK_BF16;
    const float         wanted[FLOATS] = {0.125f,  32,    -3,    10,
                                          -0.125f, 4,     0.25f, 2,
                                          3,       0.25f, 0,     0,
                                          1,       0,     1,     ptxpack_to_float(h, ptxpack_from_float(h, -1.0f / 3)),
                                          1.5f,    -2,    1,     -3};
    const uint32_t      words[WORDS] = {pair(h, 3, -0.5f),
                                        pair(b, 3, -0.5f),
                                        pair(h, 5, 3.5f),
                                        pair(h, 1, -4.5f),
                                        pair(h, 6, -2),
                                        pair(h, 7, -1),
                                        pair(h, 7, 0),
                                        pair(h, 2, -0.5f),
                                        pair(h, 3, 4),
                                        pair(h, -3, 0.5f),
                                        pair(h, 3, 0.5f),
                                        pair(h, 4, 16),
                                        0,
                                        pair(b, 5, 3.5f),
                                        pair(b, 1, -4.5f),
                                        pair(b, 6, -2),
                                        pair(b, 7, -1),
                                        pair(b, 7, 0),
                                        pair(b, 2, -0.5f),
                                        pair(b, 3, 4),
                                        pair(b, -3, 0.5f),
                                        pair(b, 3, 0.5f),
                                        pair(b, 4, 16),
                                        0,
                                        0x3f802000,
                                        0x307ec038,
                                        0x3834c03c,
                                        pair(h, 1.5f, -448),
                                        pair(h, -1.5f, 57344)};
    float               f[FLOATS + WORDS];
    uint32_t            w[WORDS];
    uint64_t            at = inline_room(sizeof f), behind = at + FLOATS * sizeof *f;
    void               *parameters[] = {&at, &behind};
    (void)state;
    inline_run(inline_function_of(program, "numbers"), 1, 1, 1, 0, parameters, f, "numbers");
    memcpy(w, f + FLOATS, sizeof w);
    for (int i = 0; i < FLOATS; i++)
        if (f[i] != wanted[i])
            fail_msg("f[%d] of numbers() is %g, not %g", i, (double)f[i], (double)wanted[i]);
    for (int i = 0; i < WORDS; i++)
        if (w[i] != words[i])
            fail_msg("w[%d] of numbers() is %08x, not %08x", i, w[i], words[i]);
}

/* ---- barriers and bytes ---------------------------------------------------------------------------- */
static void barriers_hold_threads_back(void **state)
{
    uint32_t in[128], out[128];
    (void)state;
    for (uint32_t i = 0; i < 128; i++)
        in[i] = 77 * i + 3;
    run("barriers", 1, 128, in, 128, out, 128);
    for (uint32_t i = 0; i < 128; i++) /* the phase of parity 0 is over, that of parity 1 is not */
        assert_int_equal(out[i], i < 32 ? 1 : in[i]);
}

static void bulk_copies_move_bytes(void **state)
{
    uint32_t in[64], out[64];
    (void)state;
    for (uint32_t i = 0; i < 64; i++)
        in[i] = 1000 + i;
    run("bulk", 1, 64, in, 64, out, 64);
    for (uint32_t i = 0; i < 64; i++)
        assert_int_equal(out[i], in[i] + 1);
}

static void blocks_of_a_cluster_exchange(void **state)
{
    uint32_t none = 0, out[128];
    (void)state;
    run("neighbours", 2, LANES, &none, 1, out, 128);
    for (uint32_t rank = 0; rank < 2; rank++) {
        for (uint32_t i = 0; i < LANES; i++)
            assert_int_equal(out[64 * rank + i], 1000 * (rank ^ 1) + i);
        assert_int_equal(out[64 * rank + 32], 50 + (rank ^ 1));
        assert_int_equal(out[64 * rank + 33], 7 + (rank ^ 1));
        assert_int_equal(out[64 * rank + 34], 2);
    }
}

/* ---- tensors --------------------------------------------------------------------------------------- */
/* The same as in tests/inline/others.cu. */
enum { RANKS = 5, BOX_WORDS = 64, UINT32 = 2 };
struct tensors {
    _Alignas(64) uint64_t from[16];
    uint64_t to[16], sum[16];
    int32_t  x[RANKS];
    uint32_t bytes;
};
static const uint64_t extents[RANKS] = {8, 5, 4, 3, 2};
static const uint32_t box_extents[RANKS] = {4, 2, 2, 2, 1};
static const int32_t  corner[RANKS] = {4, 1, 3, 1, 1}; /* one beyond the end in the third dimension */

static size_t elements(int rank)
{
    size_t count = 1;
    for (int i = 0; i < rank; i++)
        count *= extents[i];
    return count;
}

static void encode(uint64_t *map, int rank, uint64_t address)
{
    static const uint32_t ones[RANKS] = {1, 1, 1, 1, 1};
    uint64_t              strides[RANKS] = {4 * extents[0]};
    void                 *at;
    for (int i = 1; i < RANKS; i++)
        strides[i] = strides[i - 1] * extents[i];
    memcpy(&at, &address, sizeof at);
    const ptxpack_cu_result result =
        inline_gpu.driver->cuTensorMapEncodeTiled((struct CUtensorMap_st *)(void *)map, UINT32, (uint32_t)rank,
                                                  at, extents, strides, box_extents, ones, 0, 0, 0, 0);
    inline_must(device_try(&inline_gpu, result, "cuTensorMapEncodeTiled"));
}

/* The tensor's element in word `word` of the box; -1: it lies beyond the tensor. */
static long element_of(int rank, size_t word)
{
    long at = 0, stride = 1;
    for (int i = 0; i < rank; i++) {
        long x = corner[i] + (long)(word % box_extents[i]);
        word /= box_extents[i];
        if (x >= (long)extents[i])
            return -1;
        at += stride * x;
        stride *= (long)extents[i];
    }
    return at;
}

/* Writes the three tensors, one after the other. */
static size_t put_tensors(struct tensors *t, int rank, uint32_t *words, uint64_t *tensors)
{
    size_t count = elements(rank), box = 1;
    for (size_t i = 0; i < count; i++) {
        words[i] = (uint32_t)(100 + i);
        words[count + i] = 7;
        words[2 * count + i] = 1000000;
    }
    uint64_t at = *tensors = inline_give(0, words, 3 * count * sizeof *words);
    for (int i = 0; i < rank; i++)
        box *= box_extents[i];
    *t = (struct tensors){.bytes = (uint32_t)(box * sizeof *words)};
    memcpy(t->x, corner, sizeof corner);
    encode(t->from, rank, at);
    encode(t->to, rank, at + count * sizeof *words);
    encode(t->sum, rank, at + 2 * count * sizeof *words);
    return box;
}

static void boxes_of_rank(int rank)
{
    static uint32_t words[3 * 960], wanted[3 * 960];
    uint32_t        seen[2 * BOX_WORDS];
    struct tensors  t;
    char            name[32];
    uint64_t        tensors;
    size_t          count = elements(rank), box = put_tensors(&t, rank, words, &tensors);
    uint64_t        room = inline_room(sizeof seen);
    void           *parameters[] = {&t, &room};
    memcpy(wanted, words, sizeof wanted);
    snprintf(name, sizeof name, "boxes_%d", rank);
    inline_run(inline_function_of(program, name), 1, 1, LANES, 0, parameters, seen, name);
    for (size_t i = 0; i < box; i++) {
        long     at = element_of(rank, i);
        uint32_t value = at < 0 ? 0 : words[at];
        assert_int_equal(seen[i], value);
        if (at >= 0) {
            wanted[count + (size_t)at] = value + 1;
            wanted[2 * count + (size_t)at] += value + 1;
        }
    }
    inline_must(device_download(&inline_gpu, words, tensors, 3 * count * sizeof *words));
    assert_memory_equal(words, wanted, 3 * count * sizeof *words);
    snprintf(name, sizeof name, "boxes_of_two_%d", rank);
    inline_run(inline_function_of(program, name), 2, 1, LANES, 0, parameters, seen, name);
    for (size_t i = 0; i < box; i++) {
        long at = element_of(rank, i);
        assert_int_equal(seen[i], at < 0 ? 0 : words[at]);
        assert_int_equal(seen[BOX_WORDS + i], at < 0 ? 0 : words[at]);
    }
}

static void boxes_go_where_they_should(void **state)
{
    (void)state;
    for (int rank = 1; rank <= RANKS; rank++)
        boxes_of_rank(rank);
}

/* ---- wgmma: what inline.c does not test ------------------------------------------------------------ */
/* All of row r of A is r % 5 - 2, column n of B is n + 1: D[r][n] = 16 (r % 5 - 2) (n + 1). */
static void wgmma_replaces_and_subtracts(void **state)
{
    enum { A_HALVES = 1024, HALVES = A_HALVES + 128 };
    uint16_t halves[HALVES];
    uint32_t words[HALVES / 2];
    float    out[2 * 4 * 128];
    (void)state;
    for (int i = 0; i < HALVES; i++) { /* 8 rows of 8 elements, twice for 16 along K, then the next 8 rows */
        int row = (i % A_HALVES) / 128 * 8 + i % 64 / 8;
        halves[i] = ptxpack_from_float(PTXPACK_F16, (float)(i < A_HALVES ? row % 5 - 2 : row + 1));
    }
    memcpy(words, halves, sizeof words);
    run("signs", 1, 128, words, HALVES / 2, (uint32_t *)(void *)out, sizeof out / sizeof *out);
    for (int thread = 0; thread < 128; thread++)
        for (int i = 0; i < 4; i++) {
            int row = thread / 32 * 16 + thread % 32 / 4 + i / 2 * 8, n = thread % 4 * 2 + i % 2;
            assert_true(out[128 * i + thread] == (float)(16 * (row % 5 - 2) * (n + 1)));
            assert_true(out[512 + 128 * i + thread] == 0);
        }
}

/* ---- every header by itself ------------------------------------------------------------------------- */
static const char *const headers[] = {"types",    "ldmatrix",  "stmatrix", "mma_sync", "wgmma",
                                      "cp_async", "mbarrier",  "tma",      "cluster",  "named_barrier",
                                      "shuffle",  "fast_math", "dependent"};

static void expect_ptx(const char *arch, const char *text, const char *option)
{
    ptxpack              *offline = NULL;
    const ptxpack_options options = {.size = sizeof options, .offline = true, .arch = arch, .no_cache = true};
    const ptxpack_source  source = {.size = sizeof source,
                                    .language = PTXPACK_LANGUAGE_CUDA,
                                    .path = "header.cu",
                                    .text = text,
                                    .options = &option,
                                    .option_count = 1};
    char                 *ptx = NULL;
    size_t                bytes = 0;
    if (ptxpack_open(&options, &offline) != PTXPACK_OK)
        fail_msg("%s: %s", arch, ptxpack_detail(NULL));
    if (ptxpack_program_ptx(offline, &source, &ptx, &bytes) != PTXPACK_OK)
        fail_msg("%s, %s:\n%s%s", arch, option, text, ptxpack_detail(offline));
    free(ptx);
    ptxpack_close(offline);
}

static void headers_compile_alone_and_together(void **state)
{
    static const char *const archs[] = {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a"};
    enum { COUNT = sizeof headers / sizeof headers[0] };
    (void)state;
    for (size_t a = 0; a < sizeof archs / sizeof archs[0]; a++) {
        char all[2048] = "typedef unsigned char uint8_t; typedef unsigned long uint64_t;\n";
        for (size_t i = 0; i < COUNT; i++) {
            char one[128];
            snprintf(one, sizeof one, "#include <ptxpack/inline/%s.h>\n", headers[i]);
            strcat(strcat(all, one), one); /* twice: it is guarded */
            if (a == 0 || a == 5)
                expect_ptx(archs[a], one, "--std=c++11");
        }
        strcat(all, "using namespace ptxpack; __global__ void k(uint64_t *x) { *x = (uint64_t)u64(1); }\n");
        expect_ptx(archs[a], all, "--std=c++11");
        expect_ptx(archs[a], all, "--std=c++20");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes_exchange_values),        cmocka_unit_test(functions_and_conversions),
        cmocka_unit_test(barriers_hold_threads_back),   cmocka_unit_test(bulk_copies_move_bytes),
        cmocka_unit_test(blocks_of_a_cluster_exchange), cmocka_unit_test(boxes_go_where_they_should),
        cmocka_unit_test(wgmma_replaces_and_subtracts), cmocka_unit_test(headers_compile_alone_and_together),
    };
    int status = inline_open("test_inline_others");
    if (status == 0)
        status = cmocka_run_group_tests(tests, load_program, free_program);
    inline_close();
    return status;
}
