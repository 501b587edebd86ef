/* launch.c - the bits of a launch, of all operations, on a fake driver: which launches may begin early, what is refused, and
 * buffers of callers that know nothing of them. */
#include "tests/loader/loader_fixture.h"
#include "host/attention/inspect.h"
#include "host/gemm/inspect.h"

#define BEFORE_EACH reset
#define AFTER_EACH  NULL

/* ---- launches of all operations ----------------------------------------------------------------------- */
enum { AT = 1 << 28 };
typedef union any_buffers {
    uint32_t                         size;
    ptxpack_attention_buffers        attention;
    ptxpack_gemm_buffers             gemm;
    ptxpack_attention_append_buffers append;
    ptxpack_attention_merge_buffers  merge;
} any_buffers;

static const ptxpack_attention_desc attention_desc = {.size = sizeof attention_desc,
                                                      .dtype = PTXPACK_F16,
                                                      .batch = 1,
                                                      .seqlen_q = 1024,
                                                      .seqlen_kv = 1024,
                                                      .heads_q = 16,
                                                      .heads_kv = 16,
                                                      .head_dim = 128};
static const ptxpack_gemm_desc      gemm_desc = {.size = sizeof gemm_desc,
                                                 .dtype = PTXPACK_F16,
                                                 .m = 512,
                                                 .n = 512,
                                                 .k = 512};

static ptxpack_status attend(ptxpack *handle, const char *row_id, any_buffers *b, bool older)
{
    ptxpack_attention_plan *plan = NULL;
    ptxpack_status status = ptxpack_attention_plan_row(handle, &attention_desc, ptxpack_variant_find(row_id),
                                                       &plan);
    if (status != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(handle));
    b->attention.q = b->attention.k = b->attention.v = AT;
    b->attention.o = UINT64_C(2) * AT;
    b->attention.workspace = UINT64_C(3) * AT;
    b->size = older ? offsetof(ptxpack_attention_buffers, launch) : sizeof b->attention;
    status = ptxpack_attention_launch(plan, &b->attention, NULL);
    ptxpack_attention_plan_free(plan);
    return status;
}

static ptxpack_status multiply(ptxpack *handle, const char *row_id, any_buffers *b, bool older)
{
    ptxpack_gemm_plan *plan = NULL;
    ptxpack_status     status = ptxpack_gemm_plan_row(handle, &gemm_desc, ptxpack_variant_find(row_id), &plan);
    if (status != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(handle));
    b->gemm.a = b->gemm.b = AT;
    b->gemm.d = UINT64_C(2) * AT;
    b->gemm.workspace = UINT64_C(3) * AT;
    b->size = older ? offsetof(ptxpack_gemm_buffers, launch) : sizeof b->gemm;
    status = ptxpack_gemm_launch(plan, &b->gemm, NULL);
    ptxpack_gemm_plan_free(plan);
    return status;
}

static ptxpack_status append(ptxpack *handle, const char *row_id, any_buffers *b, bool older)
{
    const ptxpack_attention_append_desc d = {.size = sizeof d,
                                             .dtype = PTXPACK_F16,
                                             .batch = 1,
                                             .seqlen_new = 1,
                                             .seqlen_kv = 64,
                                             .heads_kv = 2,
                                             .head_dim = 64};
    ptxpack_attention_append_plan      *plan = NULL;
    (void)row_id;
    assert_int_equal(ptxpack_attention_append_plan_create(handle, &d, &plan), PTXPACK_OK);
    b->append.k_new = b->append.v_new = b->append.lengths_kv = AT;
    b->append.k = UINT64_C(2) * AT;
    b->append.v = UINT64_C(3) * AT;
    b->size = older ? offsetof(ptxpack_attention_append_buffers, launch) : sizeof b->append;
    ptxpack_status status = ptxpack_attention_append(plan, &b->append, NULL);
    ptxpack_attention_append_plan_free(plan);
    return status;
}

static ptxpack_status merge(ptxpack *handle, const char *row_id, any_buffers *b, bool older)
{
    const ptxpack_attention_merge_desc d =
        {.size = sizeof d, .dtype = PTXPACK_F16, .batch = 1, .seqlen_q = 4, .heads_q = 2, .head_dim = 64};
    ptxpack_attention_merge_plan *plan = NULL;
    (void)row_id;
    assert_int_equal(ptxpack_attention_merge_plan_create(handle, &d, &plan), PTXPACK_OK);
    b->merge.o_a = b->merge.o_b = b->merge.lse_a = b->merge.lse_b = AT;
    b->merge.o = UINT64_C(2) * AT;
    b->size = older ? offsetof(ptxpack_attention_merge_buffers, launch) : sizeof b->merge;
    ptxpack_status status = ptxpack_attention_merge(plan, &b->merge, NULL);
    ptxpack_attention_merge_plan_free(plan);
    return status;
}

static const struct operation {
    const char *row_id;
    ptxpack_status (*launch)(ptxpack *handle, const char *row_id, any_buffers *b, bool older);
    size_t bits; /* where `launch` is; `reserved` follows */
    bool   sm90; /* it may begin early */
} operations[] = {
    {"attention_wgmma_sm90_d128_128x128", attend, offsetof(ptxpack_attention_buffers, launch), true},
    {"attention_mma_sm80_d128_128x32", attend, offsetof(ptxpack_attention_buffers, launch), false},
    {"gemm_wgmma_sm90_128x128", multiply, offsetof(ptxpack_gemm_buffers, launch), true},
    {"gemm_mma_sm80_128x128x32", multiply, offsetof(ptxpack_gemm_buffers, launch), false},
    {"append", append, offsetof(ptxpack_attention_append_buffers, launch), true},
    {"merge", merge, offsetof(ptxpack_attention_merge_buffers, launch), true},
};
enum { OPERATIONS = sizeof operations / sizeof operations[0] };

static any_buffers with_bits(const struct operation *o, uint32_t launch, uint32_t reserved)
{
    const uint32_t bits[2] = {launch, reserved};
    any_buffers    b;
    memset(&b, 0, sizeof b);
    memcpy((char *)&b + o->bits, bits, sizeof bits);
    return b;
}

/* ---- tests -------------------------------------------------------------------------------------------- */
static ptxpack *open_fake(const char *words, struct fake_record **record)
{
    static const char *const folders[] = {"attention", "gemm", "kv_cache"};
    static const char *const files[] = {"attention/wgmma", "attention/mma", "attention/merge",
                                        "gemm/wgmma",      "gemm/mma",      "kv_cache/append"};
    static const char        text[] = ".version \\[ISA/10].\\[ISA%10]\n.target sm_\\[ARCH]\n";
    ptxpack_options          options = {.size = sizeof options, .ptxjit = "none"};
    char                     name[64];
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        snprintf(name, sizeof name, "ptx/%s", folders[i]);
        mkdir(below(name), 0700);
    }
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        snprintf(name, sizeof name, "ptx/%s.ptx", files[i]);
        write_text(below(name), text);
    }
    setenv("FAKE_CUDA", words, 1);
    options.driver = fresh_copy("fake_driver.so");
    ptxpack *handle = open_with(&options);
    *record = record_of(options.driver);
    return handle;
}

TEST(test_bits)
{
    struct fake_record *record;
    ptxpack            *handle = open_fake("arch=90", &record);
    for (int i = 0; i < OPERATIONS; i++) {
        const struct operation *o = &operations[i];
        for (uint32_t overlap = 0; overlap < 2; overlap++) {
            any_buffers b = with_bits(o, overlap != 0 ? PTXPACK_LAUNCH_OVERLAP : 0, 0);
            record->overlapping = 7;
            if (o->launch(handle, o->row_id, &b, false) != PTXPACK_OK)
                fail_msg("%s: %s", o->row_id, ptxpack_detail(handle));
            assert_int_equal(record->overlapping, overlap != 0 && o->sm90);
        }
        unsigned    launches = record->launches;
        any_buffers unknown = with_bits(o, 24, 0), reserved = with_bits(o, 1, 5);
        assert_int_equal(o->launch(handle, o->row_id, &unknown, false), PTXPACK_E_ARG);
        assert_has(ptxpack_detail(handle), "buffers.launch has the unknown bits 0x18");
        assert_int_equal(o->launch(handle, o->row_id, &reserved, false), PTXPACK_E_ARG);
        assert_has(ptxpack_detail(handle), "buffers.reserved is 5, not 0");
        assert_int_equal(record->launches, launches);
    }
    ptxpack_close(handle);
}

/* Only products have a B, and only attention and appends a cache. */
static bool takes(const char *row_id, uint32_t bit)
{
    if (bit == PTXPACK_LAUNCH_CONSTANT_B)
        return strncmp(row_id, "gemm", 4) == 0;
    return strncmp(row_id, "attention", 9) == 0 || strcmp(row_id, "append") == 0;
}

TEST(test_constant_operands)
{
    const uint32_t      bits[] = {PTXPACK_LAUNCH_CONSTANT_B, PTXPACK_LAUNCH_CONSTANT_KV};
    struct fake_record *record;
    ptxpack            *handle = open_fake("arch=90", &record);
    for (int i = 0; i < 2 * OPERATIONS; i++) {
        const struct operation *o = &operations[i / 2];
        any_buffers             b = with_bits(o, PTXPACK_LAUNCH_OVERLAP | bits[i % 2], 0);
        bool                    known = takes(o->row_id, bits[i % 2]);
        record->overlapping = 7;
        assert_int_equal(o->launch(handle, o->row_id, &b, false), known ? PTXPACK_OK : PTXPACK_E_ARG);
        if (known)
            assert_int_equal(record->overlapping, o->sm90);
        else
            assert_has(ptxpack_detail(handle), i % 2 == 0 ? "buffers.launch has the unknown bits 0x2"
                                                          : "buffers.launch has the unknown bits 0x4");
    }
    ptxpack_close(handle);
}

/* What lies behind the struct of an older caller is not read. */
TEST(test_older_callers)
{
    struct fake_record *record;
    ptxpack            *handle = open_fake("arch=90", &record);
    for (int i = 0; i < OPERATIONS; i++) {
        const struct operation *o = &operations[i];
        any_buffers             b = with_bits(o, 0xeeeeeeee, 0xeeeeeeee);
        if (o->launch(handle, o->row_id, &b, true) != PTXPACK_OK)
            fail_msg("%s: %s", o->row_id, ptxpack_detail(handle));
        assert_int_equal(record->overlapping, 0);
    }
    ptxpack_close(handle);
}

/* Below sm_90 the flag is accepted, and the launch is a normal one. */
TEST(test_older_gpus)
{
    struct fake_record *record;
    ptxpack            *handle = open_fake("arch=80", &record);
    for (int i = 0; i < OPERATIONS; i++) {
        const struct operation *o = &operations[i];
        any_buffers             b = with_bits(o, PTXPACK_LAUNCH_OVERLAP, 0);
        if (strstr(o->row_id, "sm90") != NULL)
            continue;
        record->overlapping = 7;
        if (o->launch(handle, o->row_id, &b, false) != PTXPACK_OK)
            fail_msg("%s: %s", o->row_id, ptxpack_detail(handle));
        assert_int_equal(record->overlapping, 0);
    }
    ptxpack_close(handle);
}

RUN_TESTS(make_folder, remove_folder)
