/* registry.c - the table of kernels, the choice among its rows, and the PTX ISA of each driver. */
#include <stdio.h>
#include <string.h>
#include "host/ptxpack.h"
#include "loader/isa.h"
#include "tests/support/unit.h"

#define BEFORE_EACH NULL
#define AFTER_EACH  NULL

TEST(test_rows)
{
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    assert_true(count >= 2);
    for (size_t i = 0; i < count; i++) {
        const ptxpack_variant *v = &rows[i];
        assert_ptr_equal(ptxpack_variant_find(v->id), v); /* ids are unique */
        assert_in_range(v->arch, 75, 130);
        assert_int_not_equal(ptxpack_cuda_of_isa(v->isa, NULL), 0); /* a version that exists */
        assert_in_range(v->threads, 32, 1024);
        assert_int_equal(v->threads % 32, 0);
        assert_in_range(v->shared_bytes, 0, 227 << 10);
        assert_in_range(v->blocks_per_sm, 1, 32);
        assert_in_range(v->parameter_count, 0, PTXPACK_MAX_PARAMETERS);
        for (int p = 0; p < v->parameter_count; p++) {
            assert_non_null(v->parameters[p].name);
            assert_int_equal(ptxpack_variant_parameter(v, v->parameters[p].name, -1), v->parameters[p].value);
        }
        assert_int_equal(ptxpack_variant_parameter(v, "NO_SUCH_SYMBOL", 123), 123);
        assert_true(ptxpack_instance_count(v) > 0);
    }
    assert_null(ptxpack_variant_find("no such row"));
}

/* The PTX ISA that a row needs has the row's lowest architecture. */
TEST(test_isa_knows_arch)
{
    static const struct {
        int arch, isa;
    } first[] = {{75, 63}, {80, 70}, {86, 71}, {89, 78}, {90, 78}, {100, 86}, {120, 87}};
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < sizeof first / sizeof first[0]; k++)
            if (rows[i].arch == first[k].arch)
                assert_true(rows[i].isa >= first[k].isa);
}

TEST(test_refusals)
{
    ptxpack_variant     v = {.id = "v", .arch = 80, .isa = 70, .shared_bytes = 40000, .blocks_per_sm = 2};
    ptxpack_device_caps caps = {.arch = 80,
                                .isa = 70,
                                .shared_per_block = 40000,
                                .shared_per_sm = 2 * (40000 + 1024)};
    char                why[256];
    assert_null(ptxpack_variant_refusal(&v, &caps, why, sizeof why));
    caps.arch = 75;
    assert_string_equal(ptxpack_variant_refusal(&v, &caps, why, sizeof why),
                        "needs sm_80, the device is sm_75");
    caps.arch = 86;
    caps.isa = 65;
    assert_string_equal(ptxpack_variant_refusal(&v, &caps, why, sizeof why),
                        "needs PTX ISA 7.0 (CUDA 11.0, driver branch 445), the compiler takes 6.5");
    caps.isa = 90;
    caps.shared_per_block = 39999;
    assert_string_equal(ptxpack_variant_refusal(&v, &caps, why, sizeof why),
                        "needs 40000 bytes of shared memory per block, the device allows 39999");
    caps.shared_per_block = 40000;
    caps.shared_per_sm--; /* the kilobyte that is reserved for each block counts */
    assert_string_equal(
        ptxpack_variant_refusal(&v, &caps, why, sizeof why),
        "needs 2 blocks per multiprocessor (82048 bytes of shared memory), the device has 82047");
    caps.shared_per_sm = 80000;
    caps.arch = v.arch = 75; /* sm_75 reserves none */
    assert_null(ptxpack_variant_refusal(&v, &caps, why, sizeof why));
    v.shared_bytes = 0;
    v.blocks_per_sm = 32;
    caps.shared_per_sm = caps.shared_per_block = 0;
    assert_null(ptxpack_variant_refusal(&v, &caps, why, sizeof why));
    v.arch = 90;
    v.flags = PTXPACK_VARIANT_ARCH_SPECIFIC;
    caps.arch = 90;
    assert_null(ptxpack_variant_refusal(&v, &caps, why, sizeof why));
    caps.arch = 100; /* later is not good enough */
    assert_string_equal(ptxpack_variant_refusal(&v, &caps, why, sizeof why),
                        "needs exactly sm_90a, the device is sm_100");
    caps.arch = 90;
    caps.portable = true; /* as the offline target sm_90 */
    assert_string_equal(ptxpack_variant_refusal(&v, &caps, why, sizeof why),
                        "needs exactly sm_90a, the target is sm_90");
    v.flags = 0;
    assert_null(ptxpack_variant_refusal(&v, &caps, why, sizeof why));
}

static bool no_bf16(const ptxpack_variant *v, const void *context)
{
    (void)context;
    return (v->flags & PTXPACK_VARIANT_NO_BF16) != 0;
}

static bool nothing(const ptxpack_variant *v, const void *context)
{
    (void)v;
    return *(const bool *)context;
}

static void expect_choice(ptxpack_device_caps caps, ptxpack_variant_filter filter, const void *context,
                          const char *id, const char *reason)
{
    char                   why[256] = "";
    const ptxpack_variant *v = ptxpack_variant_choose("vector_add", &caps, filter, context, why, sizeof why);
    assert_string_equal(v ? v->id : "none", id);
    if (v == NULL && strstr(why, reason) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", why, reason);
}

TEST(test_choice)
{
    const ptxpack_device_caps h200 = {90, 90, 227 << 10, 228 << 10, false},
                              t4 = {75, 65, 64 << 10, 64 << 10, false},
                              old_driver = {80, 65, 163 << 10, 164 << 10, false},
                              p100 = {60, 90, 48 << 10, 64 << 10, false},
                              older_driver = {75, 61, 64 << 10, 64 << 10, false};
    bool no = false;
    char why[256];
    expect_choice(h200, NULL, NULL, "vector_add_sm80", "");
    expect_choice(h200, no_bf16, NULL, "vector_add_sm75", "");
    expect_choice(t4, NULL, NULL, "vector_add_sm75", "");
    expect_choice(old_driver, NULL, NULL, "vector_add_sm75", ""); /* a row with a lower ISA runs on it */
    expect_choice(p100, NULL, NULL, "none",
                  "vector_add_sm75 needs sm_75, the device is sm_60"); /* the nearest row */
    expect_choice(older_driver, NULL, NULL, "none",
                  "vector_add_sm75 needs PTX ISA 6.3 (CUDA 10.0, driver branch 410)");
    expect_choice(h200, nothing, &no, "none", "no kernel of vector_add covers this");
    assert_null(ptxpack_variant_choose("no_such_op", &h200, NULL, NULL, why, sizeof why));
    assert_string_equal(why, "there is no kernel for no_such_op");
}

TEST(test_isa_table)
{
    static const struct {
        int cuda, isa;
    } cases[] = {
        {9020, 0},   {10000, 63}, {10010, 64}, {10020, 65}, {11000, 70}, {11010, 71}, {11020, 72}, {11030, 73},
        {11040, 74}, {11050, 75}, {11060, 76}, {11070, 77}, {11080, 78}, {12000, 80}, {12010, 81}, {12020, 82},
        {12030, 83}, {12040, 84}, {12050, 85}, {12060, 85}, {12070, 86}, {12080, 87}, {12090, 88}, {13000, 90},
        {13010, 91}, {13020, 92}, {13030, 93}, {13040, 94}, {14000, 94},
    };
    int branch = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(ptxpack_isa_of_cuda(cases[i].cuda), cases[i].isa);
    assert_int_equal(ptxpack_cuda_of_isa(80, &branch), 12000);
    assert_int_equal(branch, 525);
    assert_int_equal(ptxpack_cuda_of_isa(90, &branch), 13000);
    assert_int_equal(branch, 580);
    assert_int_equal(ptxpack_cuda_of_isa(79, &branch), 0);
    char text[64];
    assert_string_equal(ptxpack_isa_text(94, text, sizeof text), "PTX ISA 9.4 (CUDA 13.4, driver branch 615)");
    assert_string_equal(ptxpack_isa_text(99, text, sizeof text), "PTX ISA 9.9"); /* not "CUDA 0.0" */
}

TEST(test_status)
{
    assert_string_equal(ptxpack_status_name(PTXPACK_E_ISA), "PTXPACK_E_ISA");
    assert_string_equal(ptxpack_status_string(PTXPACK_OK), "success");
    assert_string_equal(ptxpack_status_string((ptxpack_status)999), "unknown status");
    assert_string_equal(ptxpack_status_name((ptxpack_status)-1), "unknown status");
    for (int i = 0; i < PTXPACK_STATUS_COUNT; i++) /* no holes */
        assert_string_not_equal(ptxpack_status_name((ptxpack_status)i), "unknown status");
}

RUN_TESTS(NULL, NULL)
