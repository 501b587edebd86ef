/* builds.c - the one list of builds: for every planned problem on every architecture, the chosen row is one
 * that ptxpack_may_be_chosen names, and its symbols are in ptxpack_builds.  The same holds for the symbols of
 * every instance. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "host/attention/append/inspect.h"
#include "host/attention/inspect.h"
#include "host/attention/merge/inspect.h"
#include "host/gemm/inspect.h"
#include "host/vector/inspect.h"
#include "loader/inspect.h"

/* ---- the list ------------------------------------------------------------------------------------- */
enum { ROWS = 320, MOST_BUILDS = 768 };
typedef struct row_builds {
    size_t   count;
    uint64_t digest[MOST_BUILDS];
    bool     asked[MOST_BUILDS];
} row_builds;
static row_builds list[ROWS]; /* indexed by the row's place in the table */

static uint64_t digest_of(const ptxpack_symbol *symbols, size_t count)
{
    uint64_t digest = 0xcbf29ce484222325u;
    for (size_t i = 0; i < count; i++) {
        for (const char *c = symbols[i].name; *c != '\0'; c++)
            digest = (digest ^ (unsigned char)*c) * 0x100000001b3u;
        digest = (digest ^ (uint64_t)symbols[i].value) * 0x9e3779b97f4a7c15u;
        digest ^= digest >> 29;
    }
    return digest;
}

static bool keep_build(const ptxpack_instance *build, void *context)
{
    row_builds *b = (row_builds *)context;
    uint64_t    digest = digest_of(build->symbols, build->symbol_count);
    for (size_t i = 0; i < b->count; i++)
        assert_true(b->digest[i] != digest); /* each digest is there once */
    assert_true(b->count < MOST_BUILDS);
    b->digest[b->count++] = digest;
    return true;
}

static int make_list(void **state)
{
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    (void)state;
    assert_true(count <= ROWS);
    for (size_t i = 0; i < count; i++)
        if (plan_op_of(&rows[i]) != NULL && !ptxpack_builds(&rows[i], keep_build, &list[i]))
            fail_msg("%s", ptxpack_detail(NULL));
    return 0;
}

static void expect_listed(const ptxpack_variant *row, const ptxpack_symbol *symbols, size_t count,
                          const char *what)
{
    size_t      all;
    row_builds *b = &list[row - ptxpack_variants(&all)];
    uint64_t    digest = digest_of(symbols, count);
    size_t      i = 0;
    if (count == 0)
        fail_msg("%s of %s: %s", what, row->id, ptxpack_detail(NULL));
    while (i < b->count && b->digest[i] != digest)
        i++;
    if (i == b->count)
        fail_msg("the list does not have %s of %s", what, row->id);
    b->asked[i] = true;
}

/* ---- problems ------------------------------------------------------------------------------------- */
static const char *const archs[] = {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120"};
enum { ARCHS = sizeof archs / sizeof archs[0] };

static ptxpack *open_arch(const char *arch)
{
    ptxpack        *handle;
    ptxpack_options options = {.size = sizeof options, .offline = true, .no_cache = true, .ptxjit = "none"};
    if (ptxpack_open_stand_in(&options, arch, 0, &handle) != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(NULL));
    return handle;
}

/* Plans with the calls that plan_create makes before it loads a kernel.  Returns 1 when a row covers the
 * problem. */
static size_t plan_listed(const plan_op *op, const ptxpack *handle, const void *desc)
{
    const ptxpack_device_caps caps = plan_device_caps(handle);
    const ptxpack_variant    *row;
    ptxpack_symbol            symbols[PTXPACK_INSTANCE_SYMBOLS];
    ptxpack_status            status = plan_row_of(op, handle, NULL, desc, &row);
    if (status != PTXPACK_OK) {
        assert_int_equal(status, PTXPACK_E_UNSUPPORTED);
        return 0;
    }
    assert_true(ptxpack_may_be_chosen(row, &caps));
    expect_listed(row, symbols, plan_row_symbols(row, desc, symbols), "the build of a problem");
    return 1;
}

/* The problem with equal lengths, with lengths in memory, and in pages of 16 or 128 rows; and of few queries of eight heads;
 * with the options that it has. */
static size_t plan_in_all_storages(const ptxpack *handle, ptxpack_attention_desc desc)
{
    enum { STORAGES = 3 };
    static const int32_t pages[STORAGES] = {0, 16, 128};
    size_t               chosen = plan_listed(&attention_op, handle, &desc);
    for (int i = 0; i < 2 * STORAGES && desc.dtype != PTXPACK_E4M3; i++) {
        int32_t page = pages[i % STORAGES];
        if (i == STORAGES) {
            desc.seqlen_q = 40;
            desc.heads_q = 8;
        }
        desc.options |= PTXPACK_LENGTHS_KV;
        desc.kv_rows = page > 0 ? PTXPACK_ROWS_PAGED : PTXPACK_ROWS_DENSE;
        desc.page_rows = page;
        desc.rows_kv = desc.table_width = page > 0 ? (desc.seqlen_kv + page - 1) / page : 0;
        chosen += plan_listed(&attention_op, handle, &desc);
    }
    return chosen;
}

static void every_attention_plan_is_listed(void **state)
{
    static const int32_t dims[] = {8, 16, 32, 48, 64, 72, 96, 128, 136, 160, 192, 200, 240, 256};
    static const int32_t sides[][2] = {{-1, -1}, {-1, 0}, {0, -1}, {7, 0}, {0, 9}, {3, 3}, {5000, 5000}};
    static const int32_t lengths[][2] = {{300, 700}, {1, 4096}, {8192, 8192}};
    enum { DIMS = 14, SIDES = 7, LENGTHS = 3, MASKS = 3 + 2 * SIDES, TYPES = 3 };
    size_t chosen = 0;
    (void)state;
    for (size_t a = 0; a < ARCHS; a++) {
        ptxpack *handle = open_arch(archs[a]);
        for (unsigned i = 0; i < DIMS * TYPES * 2 * LENGTHS * MASKS; i++) {
            unsigned               mask = i / (DIMS * TYPES * 2 * LENGTHS);
            ptxpack_attention_desc desc = {.size = sizeof desc,
                                           .batch = 1,
                                           .seqlen_q = lengths[i / (DIMS * TYPES * 2) % LENGTHS][0],
                                           .seqlen_kv = lengths[i / (DIMS * TYPES * 2) % LENGTHS][1],
                                           .heads_q = 2,
                                           .heads_kv = 1,
                                           .head_dim = dims[i % DIMS],
                                           .dtype = (ptxpack_dtype)(1 + i / DIMS % TYPES),
                                           .softcap = i / (DIMS * TYPES) % 2 != 0 ? 30 : 0};
            desc.mask = mask < 3   ? (ptxpack_mask)mask
                        : mask % 2 ? PTXPACK_MASK_WINDOW_TOP_LEFT
                                   : PTXPACK_MASK_WINDOW_BOTTOM_RIGHT;
            if (mask >= 3) {
                desc.window_left = sides[(mask - 3) / 2][0];
                desc.window_right = sides[(mask - 3) / 2][1];
            }
            if (desc.dtype == PTXPACK_E4M3 && desc.head_dim % 16 != 0)
                continue;
            chosen += plan_in_all_storages(handle, desc);
            for (uint32_t option = PTXPACK_SINKS; option <= PTXPACK_ALIBI && desc.softcap == 0; option *= 2) {
                desc.options = option;
                chosen += plan_in_all_storages(handle, desc);
            }
            desc.options = 0;
            for (int kv = PTXPACK_E4M3; kv <= PTXPACK_Q8_0 && desc.head_dim % 16 == 0; kv++) {
                const bool taken = kv != PTXPACK_Q8_0 ? desc.softcap == 0
                                                      : desc.head_dim % 64 == 0 && desc.head_dim != 192;
                desc.kv_dtype = desc.dtype != PTXPACK_E4M3 && mask % 4 < 2 && taken ? (ptxpack_dtype)kv
                                                                                    : (ptxpack_dtype)0;
                chosen += desc.kv_dtype != 0 ? plan_in_all_storages(handle, desc) : 0;
                desc.options = PTXPACK_SINKS;
                chosen += desc.kv_dtype == PTXPACK_Q8_0 && desc.softcap == 0
                              ? plan_in_all_storages(handle, desc)
                              : 0;
                desc.options = 0;
            }
            desc.kv_dtype = (ptxpack_dtype)0;
            desc.chunk = desc.softcap == 0 && desc.mask == PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT ? 100 : 0;
            chosen += desc.chunk > 0 ? plan_in_all_storages(handle, desc) : 0;
        }
        ptxpack_close(handle);
    }
    assert_true(chosen > 80000);
}

static void every_gemm_plan_is_listed(void **state)
{
    static const int32_t sizes[][3] = {{64, 64, 64},      {4096, 4096, 512}, {8, 20000, 64},
                                       {300, 200, 0},     {16, 24, 8192},    {100, 1001, 128},
                                       {80, 4096, 14336}, {80, 4100, 14336}, {192, 8192, 8192}};
    enum { SIZES = 9, ORDERS = 4, EPILOGUES = 4 * 5, SCALES = 3 };
    size_t chosen = 0, chosen_fp8 = 0, chosen_b = 0, chosen_norm = 0;
    (void)state;
    for (size_t a = 0; a < ARCHS; a++) {
        ptxpack *handle = open_arch(archs[a]);
        for (unsigned i = 0; i < 2 * SIZES * ORDERS * EPILOGUES; i++) {
            const int32_t          *size = sizes[i / 2 % SIZES];
            unsigned                order = i / (2 * SIZES) % ORDERS, epilogue = i / (2 * SIZES * ORDERS);
            bool                    swiglu = epilogue / 4 == PTXPACK_ACTIVATION_SWIGLU;
            int64_t                 line = (size[1] + 15) / 16 * 16;
            const ptxpack_gemm_desc desc = {.size = sizeof desc,
                                            .dtype = i % 2 != 0 ? PTXPACK_BF16 : PTXPACK_F16,
                                            .m = size[0],
                                            .n = swiglu ? (int32_t)line : size[1],
                                            .k = size[2],
                                            .order_a = (ptxpack_order)(order / 2),
                                            .order_b = (ptxpack_order)(order % 2),
                                            .stride_a = order / 2 != 0 ? (size[0] + 7) / 8 * 8 : 0,
                                            .stride_b = order % 2 != 0 ? 0 : line,
                                            .stride_c = line,
                                            .stride_d = line,
                                            .has_c = (epilogue & 1) != 0 && !swiglu,
                                            .has_bias = (epilogue & 2) != 0,
                                            .activation = (ptxpack_activation)(epilogue / 4)};
            chosen += plan_listed(&gemm_op, handle, &desc);
        }
        for (unsigned i = 0; i < 2 * SIZES * SCALES * EPILOGUES; i++) {
            const int32_t          *size = sizes[i / 2 % SIZES];
            unsigned                epilogue = i / (2 * SIZES * SCALES);
            bool                    swiglu = epilogue / 4 == PTXPACK_ACTIVATION_SWIGLU;
            const ptxpack_gemm_desc desc = {.size = sizeof desc,
                                            .dtype = i % 2 != 0 ? PTXPACK_BF16 : PTXPACK_F16,
                                            .m = size[0],
                                            .n = (size[1] + 15) / 16 * 16,
                                            .k = size[2] + 16,
                                            .order_b = PTXPACK_COLUMN_MAJOR,
                                            .has_c = (epilogue & 1) != 0 && !swiglu,
                                            .has_bias = (epilogue & 2) != 0,
                                            .activation = (ptxpack_activation)(epilogue / 4),
                                            .dtype_ab = PTXPACK_E4M3,
                                            .scales = (ptxpack_gemm_scales)(i / (2 * SIZES) % SCALES)};
            ptxpack_gemm_desc       of_few_rows = desc;
            of_few_rows.m = 1 + size[0] % 32;
            of_few_rows.k = (size[2] + 128) & ~127;
            of_few_rows.dtype_ab = (ptxpack_dtype)0;
            of_few_rows.dtype_b = PTXPACK_E4M3;
            chosen_fp8 += plan_listed(&gemm_op, handle, &desc);
            chosen_b += plan_listed(&gemm_op, handle, &of_few_rows);
            of_few_rows.dtype_b = (ptxpack_dtype)0;
            of_few_rows.scales = PTXPACK_SCALES_TENSOR;
            of_few_rows.norm_a = true;
            of_few_rows.norm_eps = 1e-6f;
            chosen_norm += plan_listed(&gemm_op, handle, &of_few_rows);
        }
        ptxpack_close(handle);
    }
    assert_true(chosen > 4500);
    assert_int_equal(chosen_fp8, 2 * SIZES * SCALES * EPILOGUES); /* on Hopper alone */
    assert_int_equal(chosen_b, 2 * chosen_fp8);                   /* on sm_100, too */
    assert_int_equal(chosen_norm, chosen_b);
}

static void every_vector_plan_is_listed(void **state)
{
    (void)state;
    for (size_t a = 0; a < ARCHS; a++) {
        ptxpack *handle = open_arch(archs[a]);
        for (int i = 0; i < 2; i++) {
            const ptxpack_dtype dtype = i != 0 ? PTXPACK_BF16 : PTXPACK_F16;
            assert_int_equal(plan_listed(&vector_op, handle, &dtype), a > 0 || i == 0); /* sm_75 has no bf16 */
        }
        ptxpack_close(handle);
    }
}

static void every_append_plan_is_listed(void **state)
{
    (void)state;
    for (size_t a = 0; a < ARCHS; a++) {
        ptxpack *handle = open_arch(archs[a]);
        for (unsigned i = 0; i < 2 * 2 * 2 * 3; i++) {
            bool                          paged = i / 2 % 2 != 0;
            unsigned                      rotary = i / 8;
            ptxpack_attention_append_desc desc = {.size = sizeof desc,
                                                  .dtype = i % 2 != 0 ? PTXPACK_BF16 : PTXPACK_F16,
                                                  .batch = 3,
                                                  .seqlen_new = 4,
                                                  .seqlen_kv = 1000,
                                                  .heads_kv = 2,
                                                  .heads_q = rotary != 0 ? 8 : 0,
                                                  .head_dim = i / 4 % 2 != 0 ? 192 : 128,
                                                  .rotary_dim = rotary != 0 ? 64 : 0,
                                                  .positions = rotary != 0 ? 1000 : 0,
                                                  .options = rotary == 2 ? PTXPACK_ROPE_PAIRS : 0};
            if (paged) {
                desc.kv_rows = PTXPACK_ROWS_PAGED;
                desc.rows_kv = 300;
                desc.page_rows = 16;
                desc.table_width = 63;
            }
            assert_int_equal(plan_listed(&append_op, handle, &desc),
                             a > 0 || i % 2 == 0); /* sm_75 has no bf16 */
        }
        ptxpack_close(handle);
    }
}

static void every_merge_plan_is_listed(void **state)
{
    (void)state;
    for (size_t a = 0; a < ARCHS; a++) {
        ptxpack *handle = open_arch(archs[a]);
        for (unsigned i = 0; i < 2 * 2 * 3; i++) {
            const ptxpack_attention_merge_desc desc = {.size = sizeof desc,
                                                       .dtype = i % 2 != 0 ? PTXPACK_BF16 : PTXPACK_F16,
                                                       .batch = 2,
                                                       .seqlen_q = 300,
                                                       .heads_q = 4,
                                                       .head_dim = i < 4   ? 64
                                                                   : i < 8 ? 80
                                                                           : 512,
                                                       .options = i / 2 % 2};
            assert_int_equal(plan_listed(&merge_op, handle, &desc),
                             a > 0 || i % 2 == 0); /* sm_75 has no bf16 */
        }
        ptxpack_close(handle);
    }
}

/* The problems above reach every build of the rows that some device chooses for them, so the list has no build
 * that plans do not need. */
static void most_of_the_list_is_asked_for(void **state)
{
    size_t                 count, all = 0, asked = 0;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    (void)state;
    for (size_t r = 0; r < count; r++) {
        size_t of_row = 0;
        for (size_t i = 0; i < list[r].count; i++)
            of_row += list[r].asked[i];
        if (plan_op_of(&rows[r]) == NULL || of_row == 0)
            continue;
        asked += of_row;
        all += list[r].count;
    }
    if (asked < all / 2)
        fail_msg("of %zu builds only %zu were asked for", all, asked);
}

static void every_instance_is_listed(void **state)
{
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    (void)state;
    for (size_t r = 0; r < count; r++)
        for (size_t i = 0; i < ptxpack_instance_count(&rows[r]) && plan_op_of(&rows[r]) != NULL; i++) {
            ptxpack_instance instance = ptxpack_instance_get(&rows[r], i);
            expect_listed(&rows[r], instance.symbols, instance.symbol_count, instance.name);
        }
}

/* A survey of the rows of an operation leaves none out. */
static void surveys_have_room_for_all_rows(void **state)
{
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    (void)state;
    for (size_t i = 0; i < count; i++) {
        size_t of_op = 0;
        for (size_t j = 0; j < count; j++)
            of_op += strcmp(rows[i].op, rows[j].op) == 0;
        assert_true(of_op <= PLAN_CANDIDATES);
    }
}

int main(void)
{
    setenv("PTXPACK_PTXAS", "none", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_attention_plan_is_listed), cmocka_unit_test(every_gemm_plan_is_listed),
        cmocka_unit_test(every_vector_plan_is_listed),    cmocka_unit_test(every_append_plan_is_listed),
        cmocka_unit_test(every_merge_plan_is_listed),     cmocka_unit_test(most_of_the_list_is_asked_for),
        cmocka_unit_test(every_instance_is_listed),       cmocka_unit_test(surveys_have_room_for_all_rows),
    };
    return cmocka_run_group_tests(tests, make_list, NULL);
}
