/* attention.c - what host/ computes without a GPU: conversions, checks, choices, the reference, launches
 * (through tests/fake/loader.c). */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "host/attention/inspect.h"
#include "host/ptxpack.h"
#include "tools/problem/random.h"
#include "host/vector/inspect.h"
#include "tools/problem/verify.h"

enum { SEED = 20240607 };

static const ptxpack_attention_desc good = {
    .size = sizeof(ptxpack_attention_desc),
    .dtype = PTXPACK_F16,
    .batch = 2,
    .seqlen_q = 5,
    .seqlen_kv = 7,
    .heads_q = 6,
    .heads_kv = 2,
    .head_dim = 16,
};

static ptxpack *open_mock(const char *arch)
{
    ptxpack        *handle;
    ptxpack_options options = {.size = sizeof options, .arch = arch};
    assert_int_equal(ptxpack_open(&options, &handle), PTXPACK_OK);
    return handle;
}

/* ---- element types ------------------------------------------------------------------------------ */
/* The value of a 16-bit pattern from the definition of the format; infinities as the next power of two. */
static double defined_value(ptxpack_dtype type, uint16_t bits)
{
    int    fraction_bits = type == PTXPACK_F16 ? 10 : 7, exponent_bits = 15 - fraction_bits;
    int    bias = (1 << (exponent_bits - 1)) - 1, exponent = (bits & 0x7fff) >> fraction_bits;
    int    fraction = bits & ((1 << fraction_bits) - 1);
    double magnitude = exponent == 0 ? ldexp(fraction, 1 - bias - fraction_bits)
                                     : ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
    return bits & 0x8000 ? -magnitude : magnitude;
}

static void widening_is_exact(void **state)
{
    (void)state;
    for (int t = PTXPACK_F16; t <= PTXPACK_BF16; t++)
        for (uint32_t bits = 0; bits < 65536; bits++) {
            ptxpack_dtype type = (ptxpack_dtype)t;
            uint32_t      top = type == PTXPACK_F16 ? 0x7c00 : 0x7f80;
            float         value = ptxpack_to_float(type, (uint16_t)bits);
            if ((bits & 0x7fff) > top)
                assert_true(isnan(value));
            else if ((bits & 0x7fff) == top)
                assert_true(isinf(value) && (value < 0) == (bits >= 0x8000));
            else
                assert_true(value == defined_value(type, (uint16_t)bits) &&
                            (signbit(value) != 0) == (bits >= 0x8000));
            if ((bits & 0x7fff) <= top)
                assert_int_equal(ptxpack_from_float(type, value), bits);
            else
                assert_true(isnan(ptxpack_to_float(type, ptxpack_from_float(type, value))));
        }
}

/* Around every midpoint between neighbours: below, at (to even), above. */
static void narrowing_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (int t = PTXPACK_F16; t <= PTXPACK_BF16; t++) {
        ptxpack_dtype type = (ptxpack_dtype)t;
        uint32_t      top = type == PTXPACK_F16 ? 0x7c00 : 0x7f80;
        for (uint32_t low = 0; low < top; low++)
            for (uint32_t sign = 0; sign <= 0x8000; sign += 0x8000) {
                double a = defined_value(type, (uint16_t)low), b = defined_value(type, (uint16_t)(low + 1));
                float  middle = (float)((a + b) / 2); /* exact: one bit more */
                float  below = nextafterf(middle, 0), above = nextafterf(middle, INFINITY);
                float  s = sign ? -1.0f : 1.0f;
                if (middle > FLT_MAX)
                    continue;
                assert_int_equal(ptxpack_from_float(type, s * below), sign | low);
                assert_int_equal(ptxpack_from_float(type, s * middle), sign | (low + (low & 1)));
                assert_int_equal(ptxpack_from_float(type, s * above), sign | (low + 1));
            }
    }
    assert_int_equal(ptxpack_from_float(PTXPACK_F16, 1e30f), 0x7c00);
    assert_int_equal(ptxpack_from_float(PTXPACK_F16, -INFINITY), 0xfc00);
    assert_string_equal(ptxpack_dtype_name(PTXPACK_F16), "f16");
    assert_string_equal(ptxpack_dtype_name(PTXPACK_BF16), "bf16");
    assert_string_equal(ptxpack_dtype_name((ptxpack_dtype)7), "?");
}

/* ---- refusals ----------------------------------------------------------------------------------- */
static void bad_size(ptxpack_attention_desc *d) { d->size--; }
static void bad_dtype(ptxpack_attention_desc *d) { d->dtype = (ptxpack_dtype)4; }
static void no_dtype(ptxpack_attention_desc *d) { d->dtype = (ptxpack_dtype)0; }
static void no_batch(ptxpack_attention_desc *d) { d->batch = 0; }
static void no_rows(ptxpack_attention_desc *d) { d->seqlen_q = -1; }
static void no_keys(ptxpack_attention_desc *d) { d->seqlen_kv = 0; }
static void no_heads(ptxpack_attention_desc *d) { d->heads_q = INT32_MIN; }
static void no_key_heads(ptxpack_attention_desc *d) { d->heads_kv = 0; }
static void odd_heads(ptxpack_attention_desc *d) { d->heads_kv = 4; }
static void more_key_heads(ptxpack_attention_desc *d) { d->heads_kv = 12; }
static void no_dim(ptxpack_attention_desc *d) { d->head_dim = 0; }
static void odd_dim(ptxpack_attention_desc *d) { d->head_dim = 20; }
static void large_dim(ptxpack_attention_desc *d) { d->head_dim = 264; }
static void negative_scale(ptxpack_attention_desc *d) { d->scale = -1; }
static void nan_scale(ptxpack_attention_desc *d) { d->scale = NAN; }
static void infinite_scale(ptxpack_attention_desc *d) { d->scale = INFINITY; }
static void large_scale(ptxpack_attention_desc *d) { d->scale = FLT_MAX; }
static void small_scale(ptxpack_attention_desc *d) { d->scale = FLT_MIN / 2; }
static void bad_mask(ptxpack_attention_desc *d) { d->mask = (ptxpack_mask)5; }
static void left_without_window(ptxpack_attention_desc *d) { d->window_left = 3; }
static void right_without_window(ptxpack_attention_desc *d)
{
    d->mask = PTXPACK_MASK_CAUSAL_TOP_LEFT;
    d->window_right = -1;
}
static void negative_softcap(ptxpack_attention_desc *d) { d->softcap = -15; }
static void nan_softcap(ptxpack_attention_desc *d) { d->softcap = NAN; }
static void infinite_softcap(ptxpack_attention_desc *d) { d->softcap = INFINITY; }
static void small_softcap(ptxpack_attention_desc *d) { d->softcap = FLT_MIN / 2; }
static void large_softcap(ptxpack_attention_desc *d) { d->softcap = FLT_MAX; }
static void softcap_of_small_scale(ptxpack_attention_desc *d)
{
    d->scale = FLT_MIN;
    d->softcap = 15;
}
static void softcap_of_large_scale(ptxpack_attention_desc *d)
{
    d->scale = FLT_MAX / 4;
    d->softcap = 0.125f;
}
static void negative_mask(ptxpack_attention_desc *d) { d->mask = (ptxpack_mask)-1; }
static void negative_stride(ptxpack_attention_desc *d) { d->q = (ptxpack_strides){480, -96, 16}; }
static void odd_stride(ptxpack_attention_desc *d) { d->k = (ptxpack_strides){224, 36, 16}; }
static void short_head(ptxpack_attention_desc *d) { d->v = (ptxpack_strides){224, 32, 8}; }
static void short_row(ptxpack_attention_desc *d) { d->k = (ptxpack_strides){224, 24, 16}; }
static void short_batch(ptxpack_attention_desc *d) { d->q = (ptxpack_strides){472, 96, 16}; }
static void equal_strides(ptxpack_attention_desc *d) { d->k = (ptxpack_strides){224, 32, 32}; }
static void output_repeats(ptxpack_attention_desc *d) { d->o = (ptxpack_strides){0, 96, 16}; }
static void output_overlaps(ptxpack_attention_desc *d) { d->o = (ptxpack_strides){480, 88, 16}; }
static void huge_stride(ptxpack_attention_desc *d)
{
    d->k.batch = INT64_MAX - 7;
    d->k.row = 32;
    d->k.head = 16;
}
static void huge_span(ptxpack_attention_desc *d) { d->v = (ptxpack_strides){INT64_MAX / 2 / 8 * 8, 32, 16}; }
static void huge_compact(ptxpack_attention_desc *d)
{
    d->heads_q = d->seqlen_q = INT32_MAX;
    d->heads_kv = 1;
    d->head_dim = 256;
}

static const struct {
    void (*spoil)(ptxpack_attention_desc *desc);
    const char *line; /* what the detail must contain */
} refusals[] = {
    {bad_size, "desc.size"},
    {bad_dtype, "dtype 4"},
    {no_dtype, "dtype 0"},
    {no_batch, "batch is 0"},
    {no_rows, "seqlen_q is -1"},
    {no_keys, "seqlen_kv is 0"},
    {no_heads, "heads_q is -2147483648"},
    {no_key_heads, "heads_kv is 0"},
    {odd_heads, "heads_q 6 is not a multiple of heads_kv 4"},
    {more_key_heads, "heads_q 6 is not a multiple of heads_kv 12"},
    {no_dim, "head_dim is 0"},
    {odd_dim, "head_dim 20"},
    {large_dim, "head_dim 264"},
    {negative_scale, "scale -1"},
    {nan_scale, "scale"},
    {infinite_scale, "scale inf"},
    {large_scale, "scale 3.4"},
    {small_scale, "scale 5.8"},
    {bad_mask, "mask 5"},
    {negative_mask, "mask -1"},
    {left_without_window, "window_left is 3, but mask 0 is no window"},
    {right_without_window, "window_right is -1, but mask 1 is no window"},
    {negative_softcap, "softcap -15 is neither 0 (off) nor a positive number"},
    {nan_softcap, "softcap"},
    {infinite_softcap, "softcap inf is neither"},
    {small_softcap, "softcap 5.87747e-39 is too small"},
    {large_softcap, "softcap 3.40282e+38 is too large"},
    {softcap_of_small_scale, "softcap 15 is too large for scale 1.17549e-38"},
    {softcap_of_large_scale, "softcap 0.125 is too small for scale 8.50706e+37"},
    {negative_stride, "q.row: stride -96 is negative"},
    {odd_stride, "k.row: stride 36 is not a multiple of 8"},
    {short_head, "v.head: stride 8 overlaps"},
    {short_row, "k.row: stride 24 overlaps"},
    {short_batch, "q.batch: stride 472 overlaps"},
    {equal_strides, "k.head: stride 32 overlaps"},
    {output_repeats, "o.batch: stride 0"},
    {output_overlaps, "o.row: stride 88 overlaps"},
    {huge_stride, "k.batch: stride 9223372036854775800 times 2 overflows"},
    {huge_span, "v.batch: stride"},
    {huge_compact, "overflows"},
};

static void bad_descriptors_are_refused(void **state)
{
    (void)state;
    ptxpack *handle = open_mock(NULL);
    uint16_t data[8] = {0};
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        ptxpack_attention_desc  d = good;
        ptxpack_attention_plan *plan = (ptxpack_attention_plan *)(uintptr_t)1;
        refusals[i].spoil(&d);
        assert_int_equal(ptxpack_attention_plan_create(handle, &d, &plan), PTXPACK_E_ARG);
        assert_null(plan);
        if (strstr(ptxpack_detail(handle), refusals[i].line) == NULL)
            fail_msg("\"%s\" does not contain \"%s\"", ptxpack_detail(handle), refusals[i].line);
        assert_null(strchr(ptxpack_detail(handle), '\n'));
        assert_int_equal(ptxpack_attention_reference(&d, data, data, data, NULL, NULL, NULL), PTXPACK_E_ARG);
        assert_non_null(strstr(ptxpack_detail(NULL), refusals[i].line));
        assert_true(ptxpack_attention_flops(&d) == 0 && ptxpack_attention_bytes(&d) == 0);
    }
    ptxpack_close(handle);
}

static void null_arguments_are_refused(void **state)
{
    (void)state;
    ptxpack                *handle = open_mock(NULL);
    ptxpack_attention_plan *plan = NULL;
    uint16_t                data[8] = {0};
    assert_int_equal(ptxpack_attention_plan_create(handle, NULL, &plan), PTXPACK_E_ARG);
    assert_non_null(strstr(ptxpack_detail(handle), "desc is NULL"));
    assert_int_equal(ptxpack_attention_plan_create(handle, &good, NULL), PTXPACK_E_ARG);
    assert_int_equal(ptxpack_attention_plan_create(NULL, &good, &plan), PTXPACK_E_ARG);
    assert_non_null(strstr(ptxpack_detail(NULL), "handle is NULL"));
    assert_int_equal(ptxpack_attention_launch(NULL, NULL, NULL), PTXPACK_E_ARG);
    assert_int_equal(ptxpack_attention_reference(&good, data, NULL, data, NULL, NULL, NULL), PTXPACK_E_ARG);
    assert_non_null(strstr(ptxpack_detail(NULL), "k is NULL"));
    assert_int_equal(ptxpack_attention_reference(NULL, data, data, data, NULL, NULL, NULL), PTXPACK_E_ARG);
    ptxpack_attention_plan_free(NULL);
    assert_int_equal(ptxpack_attention_workspace(NULL), 0);
    assert_null(ptxpack_attention_kernel(NULL));
    assert_int_equal(ptxpack_vector_add(NULL, 0, 0, 0, 1, 1, 1, 0, NULL), PTXPACK_E_ARG);
    assert_null(ptxpack_vector_kernel(NULL));
    ptxpack_vector_plan_free(NULL);
    ptxpack_close(handle);
}

/* Valid, but no kernel takes it. */
static void unsupported_is_not_bad(void **state)
{
    (void)state;
    ptxpack                *h90 = open_mock(NULL), *h75 = open_mock("sm_75"), *h70 = open_mock("sm_70");
    ptxpack_attention_plan *plan;
    ptxpack_attention_desc  d = good;
    d.batch = 100;
    d.seqlen_q = 2000000000;
    d.q = d.o = (ptxpack_strides){INT64_C(1) << 50, 96, 16};
    assert_int_equal(ptxpack_attention_plan_create(h90, &d, &plan), PTXPACK_E_UNSUPPORTED);
    assert_non_null(strstr(ptxpack_detail(h90), "seqlen_q 2000000000: "));
    d.seqlen_q = INT32_MAX;
    assert_int_equal(ptxpack_attention_plan_create(h90, &d, &plan), PTXPACK_E_UNSUPPORTED);
    assert_non_null(strstr(ptxpack_detail(h90), "seqlen_q exceeds"));
    d = good;
    d.seqlen_kv = INT32_MAX;
    assert_int_equal(ptxpack_attention_plan_create(h90, &d, &plan), PTXPACK_E_UNSUPPORTED);
    assert_non_null(strstr(ptxpack_detail(h90), "seqlen_kv exceeds"));
    d = good;
    d.batch = 1 << 30;
    assert_int_equal(ptxpack_attention_plan_create(h90, &d, &plan), PTXPACK_E_UNSUPPORTED);
    assert_non_null(strstr(ptxpack_detail(h90), "batch"));
    d = good;
    d.k = (ptxpack_strides){INT64_C(1) << 40, INT64_C(1) << 31, 16};
    assert_int_equal(ptxpack_attention_plan_create(h90, &d, &plan), PTXPACK_E_UNSUPPORTED);
    assert_non_null(strstr(ptxpack_detail(h90), "k.row"));
    d = good;
    d.dtype = PTXPACK_BF16;
    assert_int_equal(ptxpack_attention_plan_create(h75, &d, &plan), PTXPACK_E_UNSUPPORTED);
    assert_non_null(strstr(ptxpack_detail(h75), "bf16"));
    assert_null(plan);
    assert_int_equal(ptxpack_attention_plan_create(h70, &good, &plan), PTXPACK_E_UNSUPPORTED);
    ptxpack_close(h90);
    ptxpack_close(h75);
    ptxpack_close(h70);
}

/* Every kind of mask, and of softcap, for what computes with them. */
typedef struct masking {
    ptxpack_mask mask;
    int32_t      left, right;
    float        softcap;
} masking;
static const masking maskings[] = {
    {PTXPACK_MASK_NONE, 0, 0, 0},
    {PTXPACK_MASK_CAUSAL_TOP_LEFT, 0, 0, 0},
    {PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 0},
    {PTXPACK_MASK_WINDOW_TOP_LEFT, 3, 1, 0},
    {PTXPACK_MASK_WINDOW_TOP_LEFT, -1, 5, 0},
    {PTXPACK_MASK_WINDOW_TOP_LEFT, 0, 0, 0},
    {PTXPACK_MASK_WINDOW_BOTTOM_RIGHT, 9, -1, 0},
    {PTXPACK_MASK_WINDOW_BOTTOM_RIGHT, 11, 2, 0},
    {PTXPACK_MASK_NONE, 0, 0, 2},
    {PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 15},
    {PTXPACK_MASK_WINDOW_TOP_LEFT, 12, 0, 0.5f},
};
enum { MASKINGS = sizeof maskings / sizeof maskings[0] };

static void set_masking(ptxpack_attention_desc *d, const masking *m)
{
    d->mask = m->mask;
    d->window_left = m->left;
    d->window_right = m->right;
    d->softcap = m->softcap;
}

/* Below 0: key j lies before what query row i may see, above 0: after; by the words of attention.h. */
static int outside(const ptxpack_attention_desc *d, int i, int j)
{
    bool window = d->mask == PTXPACK_MASK_WINDOW_TOP_LEFT || d->mask == PTXPACK_MASK_WINDOW_BOTTOM_RIGHT;
    if (d->mask == PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT || d->mask == PTXPACK_MASK_WINDOW_BOTTOM_RIGHT)
        i += d->seqlen_kv - d->seqlen_q;
    if (window && d->window_left >= 0 && j < i - d->window_left)
        return -1;
    return d->mask != PTXPACK_MASK_NONE && d->window_right >= 0 && j > i + d->window_right;
}

/* What must pass: strides of extent 1 are ignored, gaps, broadcasts, any order of dimensions. */
static void good_strides_are_taken(void **state)
{
    (void)state;
    static const ptxpack_strides taken[] = {
        {224, 32, 16}, {240, 32, 16}, {224, 16, 112}, {16, 64, 32},
        {0, 32, 16},   {224, 0, 16},  {224, 32, 0},   {0, 0, 16},
    };
    attention_geometry g;
    char               line[PLAN_LINE];
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        ptxpack_attention_desc d = good;
        d.k = taken[i];
        assert_int_equal(ptxpack_attention_resolve(&d, &g, line), PTXPACK_OK);
        assert_int_equal(g.tensor[TENSOR_K].row, taken[i].row);
        uint64_t elements = (uint64_t)(taken[i].batch + 6 * taken[i].row + taken[i].head) + 16;
        assert_int_equal(g.tensor[TENSOR_K].bytes, 2 * elements);
    }
    ptxpack_attention_desc d = good;
    assert_int_equal(ptxpack_attention_resolve(&d, &g, line), PTXPACK_OK);
    assert_int_equal(g.tensor[TENSOR_Q].batch, 5 * 6 * 16);
    assert_int_equal(g.tensor[TENSOR_Q].row, 6 * 16);
    assert_int_equal(g.tensor[TENSOR_Q].head, 16);
    assert_int_equal(g.lse_bytes, 2 * 6 * 5 * 4);
    assert_true(g.scale == 0.25f && !g.limited_right);
    d.batch = d.heads_q = d.heads_kv = 1;
    d.q = d.k = d.v = d.o = (ptxpack_strides){-3, 16, INT64_MIN};
    assert_int_equal(ptxpack_attention_resolve(&d, &g, line), PTXPACK_OK);
    assert_int_equal(g.tensor[TENSOR_O].head, 0);
    d.mask = PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT;
    assert_int_equal(ptxpack_attention_resolve(&d, &g, line), PTXPACK_OK);
    assert_true(g.limited_right && g.right_offset == 2);
}

/* What a mask means for a kernel: every row's keys, and no limit where none binds. */
static void masks_become_limits(void **state)
{
    (void)state;
    attention_geometry g;
    char               line[PLAN_LINE];
    for (int mask = 0; mask <= PTXPACK_MASK_WINDOW_BOTTOM_RIGHT; mask++)
        for (int sq = 1; sq < 7; sq++)
            for (int sk = 1; sk < 7; sk++)
                for (int left = -1; left < (mask < 3 ? 0 : 14); left++)
                    for (int right = -1; right < (mask < 3 ? 0 : 14); right++) {
                        ptxpack_attention_desc d = good;
                        bool                   hides_left = false, hides_right = false;
                        d.mask = (ptxpack_mask)mask;
                        d.seqlen_q = sq;
                        d.seqlen_kv = sk;
                        d.window_left = mask < 3 ? 0 : left;
                        d.window_right = mask < 3 ? 0 : right;
                        assert_int_equal(ptxpack_attention_resolve(&d, &g, line), PTXPACK_OK);
                        for (int i = 0; i < sq; i++)
                            for (int j = 0; j < sk; j++) {
                                bool before = outside(&d, i, j)<0, after = outside(&d, i, j)> 0;
                                assert_int_equal(before, g.limited_left && j < i + g.left_offset);
                                assert_int_equal(after, g.limited_right && j > i + g.right_offset);
                                hides_left = hides_left || before;
                                hides_right = hides_right || after;
                            }
                        assert_int_equal(g.limited_left, hides_left);
                        assert_int_equal(g.limited_right, hides_right);
                    }
}

/* The largest of everything: nothing overflows, and what does not fit the kernel is refused. */
static void huge_windows_are_clipped(void **state)
{
    (void)state;
    ptxpack                *handle = open_mock(NULL);
    ptxpack_attention_plan *plan;
    attention_geometry      g;
    char                    line[PLAN_LINE];
    ptxpack_attention_desc  d = good;
    d.mask = PTXPACK_MASK_WINDOW_BOTTOM_RIGHT;
    d.window_left = d.window_right = INT32_MAX;
    d.seqlen_kv = 1 << 30;
    assert_int_equal(ptxpack_attention_resolve(&d, &g, line), PTXPACK_OK);
    assert_true(!g.limited_left && !g.limited_right);
    d.window_left = d.window_right = 0;
    assert_int_equal(ptxpack_attention_resolve(&d, &g, line), PTXPACK_OK);
    assert_true(g.limited_left && g.limited_right);
    assert_int_equal(g.left_offset, (1 << 30) - 5);
    assert_int_equal(g.right_offset, (1 << 30) - 5);
    d.seqlen_q = 1 << 30;
    d.seqlen_kv = 1 << 30;
    d.mask = PTXPACK_MASK_WINDOW_TOP_LEFT;
    d.window_right = (1 << 30) - 2;
    assert_int_equal(ptxpack_attention_plan_create(handle, &d, &plan), PTXPACK_E_UNSUPPORTED);
    assert_non_null(strstr(ptxpack_detail(handle), "window: the last of seqlen_q 1073741824 rows"));
    ptxpack_close(handle);
}

/* ---- rows of kernels.def ------------------------------------------------------------------------ */
static void every_row_is_consistent(void **state)
{
    (void)state;
    size_t                 count, walked = 0;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    for (size_t i = 0; i < count; i++) {
        size_t instances = ptxpack_instance_count(&rows[i]);
        assert_true(instances > 0);
        for (size_t n = 0; n < instances; n++) {
            ptxpack_instance a = ptxpack_instance_get(&rows[i], n);
            assert_true(a.symbol_count > 0 && a.symbol_count <= PTXPACK_INSTANCE_SYMBOLS && a.name[0] != '\0');
            for (size_t x = 0; x < a.symbol_count; x++)
                for (size_t y = 0; y < x; y++)
                    assert_string_not_equal(a.symbols[x].name, a.symbols[y].name);
            for (size_t m = 0; m < n; m++)
                assert_string_not_equal(a.name, ptxpack_instance_get(&rows[i], m).name);
            walked++;
        }
        assert_int_equal(ptxpack_instance_get(&rows[i], instances).symbol_count, 0);
    }
    assert_true(walked > 0);
}

static int64_t symbol(const ptxpack_instance *a, const char *name)
{
    for (size_t i = 0; i < a->symbol_count; i++)
        if (strcmp(a->symbols[i].name, name) == 0)
            return a->symbols[i].value;
    fail_msg("no symbol %s", name);
    return 0;
}

static void symbols_state_the_struct(void **state)
{
    (void)state;
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rows[i].file, "attention/mma.ptx") != 0)
            continue;
        size_t           last = ptxpack_instance_count(&rows[i]) - 1;
        ptxpack_instance a = ptxpack_instance_get(&rows[i], last);
        assert_int_equal(symbol(&a, "ARG_Q"), 0);
        assert_int_equal(symbol(&a, "ARG_LSE"), 32);
        assert_int_equal(symbol(&a, "ARG_O_HEAD"), 40 + 11 * 8);
        assert_int_equal(symbol(&a, "ARG_SCALE_LOG2"), offsetof(attention_mma_arguments, scale_log2));
        assert_int_equal(symbol(&a, "ARG_BYTES"), symbol(&a, "ARG_SOFTCAP_IN") + 4);
        assert_int_equal(symbol(&a, "LIMITED_LEFT") + symbol(&a, "LIMITED_RIGHT") + symbol(&a, "SOFTCAP") +
                             symbol(&a, "PADDED"),
                         4);
        assert_int_equal(symbol(&a, "BF16"), !(rows[i].flags & PTXPACK_VARIANT_NO_BF16));
        assert_int_equal(symbol(&a, "SMEM_K"), 2 * ptxpack_variant_parameter(&rows[i], "BLOCK_M", 0) *
                                                   ptxpack_variant_parameter(&rows[i], "HEAD_DIM", 0));
    }
}

/* The smallest HEAD_DIM that covers head_dim, on each kind of device. */
static void the_tightest_row_is_chosen(void **state)
{
    (void)state;
    static const char *const archs[] = {"sm_75", "sm_80", "sm_90"};
    for (size_t i = 0; i < 3; i++) {
        ptxpack *handle = open_mock(archs[i]);
        for (int32_t dim = 8; dim <= 256; dim += 8) {
            static const int64_t    dims[] = {32, 64, 96, 128, 192, 256};
            ptxpack_attention_plan *plan;
            ptxpack_attention_desc  d = good;
            int64_t                 want = 0;
            for (int n = 5; n >= 0; n--)
                want = dims[n] >= dim ? dims[n] : want;
            d.head_dim = dim;
            assert_int_equal(ptxpack_attention_plan_create(handle, &d, &plan), PTXPACK_OK);
            const ptxpack_variant *row = ptxpack_kernel_describe(ptxpack_attention_kernel(plan))->variant;
            assert_int_equal(ptxpack_variant_parameter(row, "HEAD_DIM", 0), want);
            assert_true(row->arch <= atoi(archs[i] + 3));
            assert_int_equal(ptxpack_attention_workspace(plan), 0);
            ptxpack_attention_plan_free(plan);
        }
        ptxpack_close(handle);
    }
}

/* ---- the reference ------------------------------------------------------------------------------ */
enum { MOST = 1 << 14 };
static uint16_t q_data[MOST], k_data[MOST], v_data[MOST];

static double at(const ptxpack_attention_desc *d, const uint16_t *data, const attention_tensor *t, int b, int i,
                 int h, int c)
{
    return ptxpack_to_float(d->dtype, data[b * t->batch + i * t->row + h * t->head + c]);
}

/* One output row by the definition, in long double. */
static double naive_row(const ptxpack_attention_desc *d, int b, int h, int i, double *o)
{
    attention_geometry g;
    char               line[PLAN_LINE];
    assert_int_equal(ptxpack_attention_resolve(d, &g, line), PTXPACK_OK);
    int         share = d->heads_q / d->heads_kv, seen = 0;
    long double sum = 0, out[256] = {0};
    for (int j = 0; j < d->seqlen_kv; j++) {
        long double score = 0;
        if (outside(d, i, j) != 0)
            continue;
        for (int c = 0; c < d->head_dim; c++)
            score += (long double)at(d, q_data, &g.tensor[TENSOR_Q], b, i, h, c) *
                     at(d, k_data, &g.tensor[TENSOR_K], b, j, h / share, c);
        score *= g.scale;
        if (d->softcap > 0)
            score = d->softcap * tanhl(score / d->softcap);
        long double p = expl(score);
        sum += p;
        for (int c = 0; c < d->head_dim; c++)
            out[c] += p * at(d, v_data, &g.tensor[TENSOR_V], b, j, h / share, c);
        seen++;
    }
    for (int c = 0; c < d->head_dim; c++)
        o[c] = seen > 0 ? (double)(out[c] / sum) : 0;
    return seen > 0 ? (double)logl(sum) : -INFINITY;
}

static void compare_reference(const ptxpack_attention_desc *d)
{
    static double      o[MOST], lse[MOST];
    attention_geometry g;
    char               line[PLAN_LINE];
    assert_int_equal(ptxpack_attention_resolve(d, &g, line), PTXPACK_OK);
    for (int i = 0; i < MOST; i++)
        o[i] = 12345;
    assert_int_equal(ptxpack_attention_reference(d, q_data, k_data, v_data, NULL, o, lse), PTXPACK_OK);
    for (int b = 0; b < d->batch; b++)
        for (int h = 0; h < d->heads_q; h++)
            for (int i = 0; i < d->seqlen_q; i++) {
                double                  row[256], want = naive_row(d, b, h, i, row);
                const attention_tensor *t = &g.tensor[TENSOR_O];
                double                 *got = o + b * t->batch + i * t->row + h * t->head;
                double                  got_lse = lse[(b * d->heads_q + h) * d->seqlen_q + i];
                assert_true(want == got_lse || fabs(want - got_lse) < 1e-12);
                for (int c = 0; c < d->head_dim; c++) {
                    assert_true(fabs(got[c] - row[c]) < 1e-12);
                    got[c] = 12345;
                }
            }
    for (int i = 0; i < MOST; i++)
        assert_true(o[i] == 12345); /* nothing else was written */
}

static void the_reference_is_the_definition(void **state)
{
    (void)state;
    static const int lengths[][2] = {{5, 7}, {7, 5}, {1, 1}, {17, 33}, {33, 3}, {1, 40}};
    random_state     random = random_start(SEED);
    print_message("seed %d\n", (int)SEED);
    for (int type = PTXPACK_F16; type <= PTXPACK_BF16; type++) {
        random_normal(&random, (ptxpack_dtype)type, q_data, MOST);
        random_normal(&random, (ptxpack_dtype)type, k_data, MOST);
        random_normal(&random, (ptxpack_dtype)type, v_data, MOST);
        for (int mask = 0; mask < MASKINGS; mask++)
            for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
                ptxpack_attention_desc d = good;
                d.dtype = (ptxpack_dtype)type;
                set_masking(&d, &maskings[mask]);
                d.seqlen_q = lengths[i][0];
                d.seqlen_kv = lengths[i][1];
                d.scale = i % 2 ? 0 : 0.7f;
                compare_reference(&d);
                d.q = d.o = (ptxpack_strides){24 * 6 * d.seqlen_q + 8, 24, 24 * d.seqlen_q};
                d.k = (ptxpack_strides){0, 40, 16};
                d.v = (ptxpack_strides){40 * d.seqlen_kv, 40, 0};
                compare_reference(&d);
            }
    }
}

/* A NaN that the mask hides does not show, one that it does not hide does. */
static void masked_values_do_not_matter(void **state)
{
    (void)state;
    ptxpack_attention_desc d = good;
    double                 o[2 * 5 * 6 * 16], lse[60];
    random_state           random = random_start(SEED);
    random_normal(&random, d.dtype, q_data, MOST);
    random_normal(&random, d.dtype, k_data, MOST);
    random_normal(&random, d.dtype, v_data, MOST);
    d.mask = PTXPACK_MASK_CAUSAL_TOP_LEFT;
    for (int b = 0; b < 2; b++)
        for (int c = 0; c < 32; c++)
            v_data[b * 7 * 32 + 3 * 32 + c] = 0x7e00; /* key 3 */
    assert_int_equal(ptxpack_attention_reference(&d, q_data, k_data, v_data, NULL, o, lse), PTXPACK_OK);
    for (int i = 0; i < 2 * 5 * 6 * 16; i++)
        assert_int_equal(isnan(o[i]), i / 96 % 5 >= 3);
    d.mask = PTXPACK_MASK_WINDOW_TOP_LEFT;
    d.window_right = 1;
    assert_int_equal(ptxpack_attention_reference(&d, q_data, k_data, v_data, NULL, o, lse), PTXPACK_OK);
    for (int i = 0; i < 2 * 5 * 6 * 16; i++)
        assert_int_equal(isnan(o[i]), i / 96 % 5 == 2 || i / 96 % 5 == 3);
}

/* Threads, and rows in any order, give the bits of one thread. */
static void threads_do_not_matter(void **state)
{
    (void)state;
    ptxpack_attention_desc d = good;
    attention_reference   *r;
    attention_row          rows[60];
    double                 o[2][60 * 16], rounded[2][60 * 16], lse[2][60];
    random_state           random = random_start(SEED);
    random_normal(&random, d.dtype, q_data, MOST);
    random_normal(&random, d.dtype, k_data, MOST);
    random_normal(&random, d.dtype, v_data, MOST);
    d.mask = PTXPACK_MASK_CAUSAL_TOP_LEFT;
    for (int i = 0; i < 60; i++)
        rows[i] = (attention_row){i % 2, i * 7 % 6, i % 5};
    assert_int_equal(attention_reference_open(&d, q_data, k_data, v_data, NULL, &r), PTXPACK_OK);
    for (int n = 0; n < 2; n++)
        assert_int_equal(attention_reference_rows(r, rows, 60, n == 0 ? 1 : 8,
                                                  &(attention_row_results){o[n], rounded[n], lse[n]}),
                         PTXPACK_OK);
    attention_reference_close(r);
    assert_memory_equal(o[0], o[1], sizeof o[0]);
    assert_memory_equal(rounded[0], rounded[1], sizeof rounded[0]);
    assert_memory_equal(lse[0], lse[1], sizeof lse[0]);
    double most = 0;
    for (int i = 0; i < 60 * 16; i++) { /* rounded to the type, and near */
        assert_true(ptxpack_to_float(d.dtype, ptxpack_from_float(d.dtype, (float)rounded[0][i])) ==
                    rounded[0][i]);
        most = fmax(most, fabs(rounded[0][i] - o[0][i]));
    }
    assert_true(most > 0 && most < 0.01);
}

static void flops_count_the_pairs(void **state)
{
    (void)state;
    for (int mask = 0; mask < MASKINGS; mask++)
        for (int sq = 1; sq < 20; sq++)
            for (int sk = 1; sk < 20; sk++) {
                ptxpack_attention_desc d = good;
                int64_t                pairs = 0;
                set_masking(&d, &maskings[mask]);
                d.seqlen_q = sq;
                d.seqlen_kv = sk;
                for (int i = 0; i < sq; i++)
                    for (int j = 0; j < sk; j++)
                        pairs += outside(&d, i, j) == 0;
                assert_true(ptxpack_attention_flops(&d) == 4.0 * 16 * 2 * 6 * (double)pairs);
                assert_true(ptxpack_attention_bytes(&d) ==
                            2 * (2 * 2 * 16.0 * (6 * sq + 2 * sk) + 4.0 * 6 * sq));
            }
}

/* ---- launches ----------------------------------------------------------------------------------- */
static void bad_buffers_are_refused(void **state)
{
    (void)state;
    ptxpack                *handle = open_mock(NULL);
    ptxpack_attention_plan *plan;
    ptxpack_attention_desc  d = good;
    d.o = (ptxpack_strides){512, 96, 16}; /* 512 + 4*96 + 5*16 + 16 elements = 1984 bytes */
    assert_int_equal(ptxpack_attention_plan_create(handle, &d, &plan), PTXPACK_OK);
    const ptxpack_attention_buffers fine =
        {.size = sizeof fine, .q = 0x10000, .k = 0x20000, .v = 0x30000, .o = 0x40000, .lse = 0x50000};
    const struct {
        size_t      member;
        uint64_t    value;
        const char *line;
    } bad[] = {
        {offsetof(ptxpack_attention_buffers, q), 0, "q is null"},
        {offsetof(ptxpack_attention_buffers, v), 0, "v is null"},
        {offsetof(ptxpack_attention_buffers, o), 0, "o is null"},
        {offsetof(ptxpack_attention_buffers, k), 0x20008, "k: address 0x20008 is not a multiple of 16"},
        {offsetof(ptxpack_attention_buffers, lse), 0x50002, "lse: address 0x50002 is not a multiple of 4"},
        {offsetof(ptxpack_attention_buffers, q), UINT64_MAX - 15, "wraps"},
        {offsetof(ptxpack_attention_buffers, o), 0x10000, "o overlaps q"},
        {offsetof(ptxpack_attention_buffers, o), 0x20000 - 1984 + 16, "o overlaps k"},
        {offsetof(ptxpack_attention_buffers, v), 0x40000 + 1984 - 16, "o overlaps v"},
        {offsetof(ptxpack_attention_buffers, lse), 0x40000 + 1984 - 4, "lse overlaps o"},
        {offsetof(ptxpack_attention_buffers, lse), 0x20004, "lse overlaps k"},
    };
    attention_geometry g;
    char               line[PLAN_LINE];
    assert_int_equal(ptxpack_attention_resolve(&d, &g, line), PTXPACK_OK);
    assert_int_equal(ptxpack_attention_check_buffers(&g, 0, &fine, line), PTXPACK_OK);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ptxpack_attention_buffers b = fine;
        memcpy((char *)&b + bad[i].member, &bad[i].value, sizeof bad[i].value);
        assert_int_equal(ptxpack_attention_launch(plan, &b, NULL), PTXPACK_E_ARG);
        if (strstr(ptxpack_detail(handle), bad[i].line) == NULL)
            fail_msg("\"%s\" does not contain \"%s\"", ptxpack_detail(handle), bad[i].line);
    }
    ptxpack_attention_buffers b = fine;
    b.o = 0x20000 - 1984; /* side by side is fine */
    assert_int_equal(ptxpack_attention_check_buffers(&g, 0, &b, line), PTXPACK_OK);
    b.size = 0;
    assert_int_equal(ptxpack_attention_launch(plan, &b, NULL), PTXPACK_E_ARG);
    assert_int_equal(ptxpack_attention_launch(plan, NULL, NULL), PTXPACK_E_ARG);
    ptxpack_attention_plan_free(plan);
    ptxpack_close(handle);
}

/* The mock computes from the arguments alone: a right result means that they are right. */
static void arguments_reach_the_kernel(void **state)
{
    (void)state;
    ptxpack                     *handle = open_mock(NULL);
    random_state                 random = random_start(SEED);
    _Alignas(16) static uint16_t q[MOST], k[MOST], v[MOST], o[MOST];
    static float                 lse[MOST];
    for (int mask = 0; mask < MASKINGS; mask++)
        for (int type = PTXPACK_F16; type <= PTXPACK_BF16; type++) {
            ptxpack_attention_desc d = good;
            verify_result          result;
            d.dtype = (ptxpack_dtype)type;
            set_masking(&d, &maskings[mask]);
            d.seqlen_q = 37;
            d.seqlen_kv = 23;
            d.head_dim = 8;
            d.q = (ptxpack_strides){37 * 64, 64, 8};
            d.k = (ptxpack_strides){2 * 24 * 16 + 8, 16, 24 * 16};
            d.o = (ptxpack_strides){6 * 37 * 16, 16, 37 * 16};
            random_normal(&random, d.dtype, q, MOST);
            random_normal(&random, d.dtype, k, MOST);
            random_normal(&random, d.dtype, v, MOST);
            memset(o, 0xff, sizeof o);
            ptxpack_attention_plan         *plan;
            const ptxpack_attention_buffers b = {.size = sizeof b,
                                                 .q = (uintptr_t)q,
                                                 .k = (uintptr_t)k,
                                                 .v = (uintptr_t)v,
                                                 .o = (uintptr_t)o,
                                                 .lse = (uintptr_t)lse};
            assert_int_equal(ptxpack_attention_plan_create(handle, &d, &plan), PTXPACK_OK);
            assert_int_equal(ptxpack_attention_launch(plan, &b, NULL), PTXPACK_OK);
            ptxpack_attention_plan_free(plan);
            assert_int_equal(verify_attention(&d, q, k, v, NULL, o, lse, 0, 1, &result), PTXPACK_OK);
            assert_true(result.pass);
            assert_int_equal(result.rows, 2 * 6 * 37);
            o[3] = ptxpack_from_float(d.dtype, ptxpack_to_float(d.dtype, o[3]) + 0.25f);
            assert_int_equal(verify_attention(&d, q, k, v, NULL, o, NULL, 0, 1, &result), PTXPACK_OK);
            assert_false(result.pass);
            lse[5] = NAN;
            o[3] = 0xffff;
            assert_int_equal(verify_attention(&d, q, k, v, NULL, o, lse, 0, 1, &result), PTXPACK_OK);
            assert_false(result.pass);
        }
    ptxpack_close(handle);
}

/* What is wrong in the first row must not be forgotten over the good ones after it. */
static void verification_sees_every_row(void **state)
{
    (void)state;
    enum { ROWS = 2 * 6 * 37 };
    random_state    random = random_start(SEED);
    static uint16_t q[ROWS * 8], k[2 * 2 * 23 * 8], v[2 * 2 * 23 * 8], o[ROWS * 8];
    static double   exact_o[ROWS * 8], exact_lse[ROWS];
    static float    lse[ROWS];
    /* The first 14 rows of each head see no key. */
    ptxpack_attention_desc d = {.size = sizeof d,
                                .dtype = PTXPACK_F16,
                                .batch = 2,
                                .seqlen_q = 37,
                                .seqlen_kv = 23,
                                .heads_q = 6,
                                .heads_kv = 2,
                                .head_dim = 8,
                                .mask = PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT};
    random_normal(&random, d.dtype, q, sizeof q / sizeof q[0]);
    random_normal(&random, d.dtype, k, sizeof k / sizeof k[0]);
    random_normal(&random, d.dtype, v, sizeof v / sizeof v[0]);
    assert_int_equal(ptxpack_attention_reference(&d, q, k, v, NULL, exact_o, exact_lse), PTXPACK_OK);
    for (int i = 0; i < ROWS * 8; i++)
        o[i] = ptxpack_from_float(d.dtype, (float)exact_o[i]);
    for (int i = 0; i < ROWS; i++)
        lse[i] = (float)exact_lse[i];

    const int     rows[] = {0, 13, 14, 36, ROWS - 1};
    const float   wrong[] = {NAN, INFINITY, 1e30f, 0};
    verify_result r;
    assert_int_equal(verify_attention(&d, q, k, v, NULL, o, lse, 0, 1, &r), PTXPACK_OK);
    assert_true(r.pass);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (size_t w = 0; w < sizeof wrong / sizeof wrong[0]; w++) {
            float kept = lse[rows[i]];
            lse[rows[i]] = wrong[w];
            assert_int_equal(verify_attention(&d, q, k, v, NULL, o, lse, 0, 1, &r), PTXPACK_OK);
            lse[rows[i]] = kept;
            if (r.pass)
                fail_msg("lse %g in row %d passed", (double)wrong[w], rows[i]);
        }
    o[0] = 0xffff;
    assert_int_equal(verify_attention(&d, q, k, v, NULL, o, lse, 0, 1, &r), PTXPACK_OK);
    assert_false(r.pass);
}

static void vectors_are_checked(void **state)
{
    (void)state;
    ptxpack             *handle = open_mock(NULL), *h75 = open_mock("sm_75");
    ptxpack_vector_plan *plan = NULL;
    assert_int_equal(ptxpack_vector_plan_create(handle, (ptxpack_dtype)9, &plan), PTXPACK_E_ARG);
    assert_int_equal(ptxpack_vector_plan_create(handle, PTXPACK_F16, NULL), PTXPACK_E_ARG);
    assert_int_equal(ptxpack_vector_plan_create(NULL, PTXPACK_F16, &plan), PTXPACK_E_ARG);
    assert_int_equal(ptxpack_vector_plan_create(h75, PTXPACK_BF16, &plan), PTXPACK_E_UNSUPPORTED);
    assert_null(plan);
    assert_int_equal(ptxpack_vector_plan_create(handle, PTXPACK_F16, &plan), PTXPACK_OK);
    const struct {
        uint64_t       z, x, y, n;
        ptxpack_status status;
    } calls[] = {
        {0, 0, 0, 0, PTXPACK_OK},
        {0, 0x1000, 0x2000, 8, PTXPACK_E_ARG},
        {0x1000, 0, 0x2000, 8, PTXPACK_E_ARG},
        {0x1000, 0x2008, 0x3000, 8, PTXPACK_E_ARG},
        {0x1000, 0x2000, 0x1010, 9, PTXPACK_E_ARG},
        {0x1010, 0x1000, 0x3000, 9, PTXPACK_E_ARG},
        {0x1000, 0x2000, UINT64_MAX - 15, 9, PTXPACK_E_ARG},
        {0x1000, 0x2000, 0x3000, UINT64_C(1) << 63, PTXPACK_E_UNSUPPORTED},
        {0x1000, 0x2000, 0x3000, UINT64_C(8) * 256 * INT32_MAX + 1, PTXPACK_E_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        assert_int_equal(ptxpack_vector_add(plan, calls[i].z, calls[i].x, calls[i].y, 1, 1, 1, calls[i].n,
                                            NULL),
                         calls[i].status);
    _Alignas(16) uint16_t x[9], y[9];
    for (int i = 0; i < 9; i++) {
        x[i] = ptxpack_from_float(PTXPACK_F16, (float)i);
        y[i] = ptxpack_from_float(PTXPACK_F16, (float)(i * i));
    }
    assert_int_equal(ptxpack_vector_add(plan, (uintptr_t)x, (uintptr_t)x, (uintptr_t)y, 2, 0.5f, -1, 9, NULL),
                     PTXPACK_OK);
    for (int i = 0; i < 9; i++)
        assert_true(ptxpack_to_float(PTXPACK_F16, x[i]) == 2 * i + 0.5f * (float)(i * i) - 1);
    ptxpack_vector_plan_free(plan);
    ptxpack_close(handle);
    ptxpack_close(h75);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(widening_is_exact),           cmocka_unit_test(narrowing_rounds_to_nearest_even),
        cmocka_unit_test(bad_descriptors_are_refused), cmocka_unit_test(null_arguments_are_refused),
        cmocka_unit_test(unsupported_is_not_bad),      cmocka_unit_test(good_strides_are_taken),
        cmocka_unit_test(masks_become_limits),         cmocka_unit_test(huge_windows_are_clipped),
        cmocka_unit_test(every_row_is_consistent),     cmocka_unit_test(symbols_state_the_struct),
        cmocka_unit_test(the_tightest_row_is_chosen),  cmocka_unit_test(the_reference_is_the_definition),
        cmocka_unit_test(masked_values_do_not_matter), cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(flops_count_the_pairs),       cmocka_unit_test(bad_buffers_are_refused),
        cmocka_unit_test(arguments_reach_the_kernel),  cmocka_unit_test(verification_sees_every_row),
        cmocka_unit_test(vectors_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
