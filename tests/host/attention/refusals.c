/* refusals.c - what attention refuses and why, limits of masks, and the rows of kernels.def; without a GPU
 * (through tests/fake/loader.c). */
#include "fixture.h"

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
static void large_dim(ptxpack_attention_desc *d) { d->head_dim = 584; }
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

static void negative_chunk(ptxpack_attention_desc *d)
{
    d->mask = PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT;
    d->chunk = -1;
}
static void chunk_without_mask(ptxpack_attention_desc *d) { d->chunk = 1; }
static void chunk_of_the_first_row(ptxpack_attention_desc *d)
{
    d->mask = PTXPACK_MASK_CAUSAL_TOP_LEFT;
    d->chunk = 8192;
}
static void chunk_in_window(ptxpack_attention_desc *d)
{
    d->mask = PTXPACK_MASK_WINDOW_BOTTOM_RIGHT;
    d->chunk = 8192;
}
static void bad_reserved(ptxpack_attention_desc *d) { d->reserved = 3; }
static void odd_values(ptxpack_attention_desc *d) { d->head_dim_v = 12; }
static void negative_values(ptxpack_attention_desc *d) { d->head_dim_v = -8; }
static void large_values(ptxpack_attention_desc *d) { d->head_dim_v = 520; }
static void large_values_by_default(ptxpack_attention_desc *d) { d->head_dim = 576; }
static void values_of_fp8(ptxpack_attention_desc *d)
{
    d->dtype = PTXPACK_E4M3;
    d->head_dim_v = 64;
}
static void large_dim_of_fp8(ptxpack_attention_desc *d)
{
    d->dtype = PTXPACK_E4M3;
    d->head_dim = 272;
}
static void in_keys_of_fp8(ptxpack_attention_desc *d)
{
    d->dtype = PTXPACK_E4M3;
    d->options = PTXPACK_VALUES_IN_KEYS;
}
static void values_beyond_keys(ptxpack_attention_desc *d)
{
    d->head_dim_v = d->head_dim + 8;
    d->options = PTXPACK_VALUES_IN_KEYS;
}
static void values_beside_keys(ptxpack_attention_desc *d)
{
    d->options = PTXPACK_VALUES_IN_KEYS;
    d->k = d->v = (ptxpack_strides){1 << 22, 1 << 14, 1 << 10};
    d->v.row *= 2;
}
static void values_of_bytes(ptxpack_attention_desc *d)
{
    d->kv_dtype = PTXPACK_INT8;
    d->head_dim = 64;
    d->head_dim_v = 32;
}
static void values_appended(ptxpack_attention_desc *d)
{
    static const ptxpack_attention_append_desc append = {.size = sizeof append};
    d->head_dim_v = 64;
    d->append = &append;
}
static void unnormalized_with_sinks(ptxpack_attention_desc *d)
{
    d->options = PTXPACK_UNNORMALIZED | PTXPACK_SINKS;
}
static void bad_kv_dtype(ptxpack_attention_desc *d) { d->kv_dtype = (ptxpack_dtype)6; }
static void other_kv_dtype(ptxpack_attention_desc *d)
{
    d->dtype = PTXPACK_BF16;
    d->kv_dtype = PTXPACK_F16;
}
static void bytes_of_fp8(ptxpack_attention_desc *d)
{
    d->dtype = PTXPACK_E4M3;
    d->kv_dtype = PTXPACK_INT8;
}
static void odd_bytes(ptxpack_attention_desc *d)
{
    d->kv_dtype = PTXPACK_INT8;
    d->head_dim = 40;
}
static void odd_stride_of_bytes(ptxpack_attention_desc *d)
{
    d->kv_dtype = PTXPACK_E4M3;
    d->head_dim = 32;
    d->k = (ptxpack_strides){1 << 20, 264, 32};
}
static void blocks_of_fp8(ptxpack_attention_desc *d)
{
    d->dtype = PTXPACK_E4M3;
    d->kv_dtype = PTXPACK_Q8_0;
}
static void odd_blocks(ptxpack_attention_desc *d)
{
    d->kv_dtype = PTXPACK_Q8_0;
    d->head_dim = 96;
}
static void odd_stride_of_blocks(ptxpack_attention_desc *d)
{
    d->kv_dtype = PTXPACK_Q8_0;
    d->head_dim = 128;
    d->k = (ptxpack_strides){1 << 20, 1056, 128};
}
static void values_of_blocks(ptxpack_attention_desc *d)
{
    d->kv_dtype = PTXPACK_Q8_0;
    d->head_dim = 128;
    d->head_dim_v = 64;
}
static void descales_of_blocks(ptxpack_attention_desc *d)
{
    d->kv_dtype = PTXPACK_Q8_0;
    d->options = PTXPACK_DESCALES_HEAD;
}
static void blocks_as_type(ptxpack_attention_desc *d) { d->dtype = PTXPACK_Q8_0; }
static void descales_of_nothing(ptxpack_attention_desc *d) { d->options = PTXPACK_DESCALES_HEAD; }
static void descales_of_two_shapes(ptxpack_attention_desc *d)
{
    d->kv_dtype = PTXPACK_E4M3;
    d->options = PTXPACK_DESCALES_HEAD | PTXPACK_DESCALES_TENSOR;
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
    {large_dim, "head_dim 584"},
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
    {negative_chunk, "chunk is -1; it must be at least 0"},
    {chunk_without_mask, "chunk is 1, but mask 0 is not PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT"},
    {chunk_of_the_first_row, "chunk is 8192, but mask 1 is not PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT"},
    {chunk_in_window, "chunk is 8192, but mask 4 is not PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT"},
    {bad_reserved, "reserved is 3; it must be 0"},
    {odd_values, "head_dim_v 12 is not a multiple of 8 up to 512"},
    {negative_values, "head_dim_v -8"},
    {large_values, "head_dim_v 520"},
    {large_values_by_default, "head_dim_v 576"},
    {values_of_fp8, "head_dim_v is not taken with fp8"},
    {large_dim_of_fp8, "head_dim 272 is not a multiple of 16 up to 256"},
    {in_keys_of_fp8, "PTXPACK_VALUES_IN_KEYS is not taken with fp8"},
    {values_beyond_keys, "but PTXPACK_VALUES_IN_KEYS takes v from k"},
    {values_beside_keys, "v has other strides than k"},
    {values_of_bytes, "head_dim_v is not taken with kv_dtype"},
    {values_appended, "head_dim_v is not taken with append"},
    {unnormalized_with_sinks, "PTXPACK_SINKS is not taken with PTXPACK_UNNORMALIZED"},
    {bad_kv_dtype, "kv_dtype 6 is none of 0, PTXPACK_E4M3, PTXPACK_INT8, PTXPACK_Q8_0 and dtype"},
    {other_kv_dtype, "kv_dtype 1 is none of 0, PTXPACK_E4M3, PTXPACK_INT8, PTXPACK_Q8_0 and dtype"},
    {bytes_of_fp8,
     "kv_dtype 4 is none of 0, PTXPACK_E4M3, PTXPACK_INT8, PTXPACK_Q8_0 and dtype, which is PTXPACK_E4M3"},
    {odd_bytes, "head_dim 40 is not a multiple of 16 up to 256"},
    {odd_stride_of_bytes, "k.row: stride 264 is not a multiple of 16 elements"},
    {blocks_of_fp8, "kv_dtype 5 is none of 0"},
    {odd_blocks, "head_dim 96 is none of 64, 128 and 256, which PTXPACK_Q8_0 takes"},
    {odd_stride_of_blocks, "k.row: stride 1056 is not a multiple of 128 elements"},
    {values_of_blocks, "head_dim_v is not taken with kv_dtype"},
    {descales_of_blocks, "need a kv_dtype of bytes"},
    {blocks_as_type, "dtype 5 is none of PTXPACK_F16, PTXPACK_BF16 and PTXPACK_E4M3"},
    {descales_of_nothing, "PTXPACK_DESCALES_TENSOR and PTXPACK_DESCALES_HEAD need a kv_dtype of bytes"},
    {descales_of_two_shapes, "PTXPACK_DESCALES_TENSOR and PTXPACK_DESCALES_HEAD exclude each other"},
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

/* Valid strides: those of extent 1, which are ignored, gaps, broadcasts, any order of dimensions. */
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

/* What a mask means for a kernel: every row sees the right keys, and a limit that has no effect is not set. */
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

/* The largest values: nothing overflows, and what does not fit the kernel is refused. */
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
        while (strstr(a.name, " lists") != NULL)
            a = ptxpack_instance_get(&rows[i], --last);
        assert_int_equal(symbol(&a, "ARG_Q"), 0);
        assert_int_equal(symbol(&a, "ARG_LSE"), 32);
        assert_int_equal(symbol(&a, "ARG_O_HEAD"), 40 + 11 * 8);
        assert_int_equal(symbol(&a, "ARG_SCALE_LOG2"), offsetof(attention_mma_arguments, scale_log2));
        assert_int_equal(symbol(&a, "ARG_STARTS_Q"),
                         symbol(&a, "ARG_SOFTCAP_IN") + 4); /* the rest is VARLEN's */
        assert_int_equal(symbol(&a, "ARG_K_DESCALE"),
                         symbol(&a, "ARG_AUX") + 8 * 8); /* where builds with hooks end */
        assert_int_equal(symbol(&a, "ARG_HEAD_DIM_V"), symbol(&a, "ARG_DESCALE_HEAD") + 4);
        assert_int_equal(symbol(&a, "ARG_BIAS"), (symbol(&a, "ARG_HEAD_DIM_V") + 4 + 7) / 8 * 8);
        assert_int_equal(symbol(&a, "ARG_BLOCK_COUNT"), symbol(&a, "ARG_BITS_WORDS") + 4);
        assert_int_equal(symbol(&a, "ARG_BYTES"), symbol(&a, "ARG_LIST_MOST") + 4);
        assert_int_equal(symbol(&a, "ARG_HOOK_SCALE"), symbol(&a, "ARG_CHUNK_SHIFT") + 4);
        assert_int_equal(symbol(&a, "ARG_CHUNK"), symbol(&a, "ARG_SINKS") + 24); /* where other builds end */
        const bool blocks = ptxpack_variant_parameter(&rows[i], "KV_BYTES", 2) == 0;
        assert_int_equal(symbol(&a, "LIMITED_LEFT") + symbol(&a, "LIMITED_RIGHT") + symbol(&a, "SOFTCAP") +
                             symbol(&a, "PADDED"),
                         blocks ? 3 : 4); /* rows of blocks are never padded */
        assert_int_equal(symbol(&a, "KV_Q8_0"), blocks);
        assert_int_equal(symbol(&a, "BF16"), !(rows[i].flags & PTXPACK_VARIANT_NO_BF16));
        assert_int_equal(symbol(&a, blocks ? "SMEM_RAW_K" : "SMEM_K"),
                         2 * ptxpack_variant_parameter(&rows[i], "BLOCK_M", 0) *
                             ptxpack_variant_parameter(&rows[i], "HEAD_DIM", 0));
    }
}

/* tanh.approx came with PTX ISA 7.0, and rows for sm_75 run on drivers that know less. */
static void softcap_needs_a_newer_isa_than_its_row(void **state)
{
    (void)state;
    ptxpack               *handle = open_mock("sm_75");
    const ptxpack_variant *row = ptxpack_variant_find("attention_mma_sm75_d32_128x64");
    ptxpack_device_caps    caps = ptxpack_device(handle)->caps;
    ptxpack_attention_desc d = good;
    char                   line[PLAN_LINE];
    caps.isa = 65;
    assert_null(plan_row_refusal(&attention_op, handle, &caps, &d, row, line));
    d.softcap = 15;
    assert_string_equal(plan_row_refusal(&attention_op, handle, &caps, &d, row, line),
                        "softcap needs PTX ISA 7.0, and here it is 6.5");
    caps.isa = 70;
    assert_null(plan_row_refusal(&attention_op, handle, &caps, &d, row, line));
    ptxpack_close(handle);
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
            d.seqlen_q = 100; /* more rows than decode.ptx takes */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_descriptors_are_refused), cmocka_unit_test(null_arguments_are_refused),
        cmocka_unit_test(unsupported_is_not_bad),      cmocka_unit_test(good_strides_are_taken),
        cmocka_unit_test(masks_become_limits),         cmocka_unit_test(huge_windows_are_clipped),
        cmocka_unit_test(every_row_is_consistent),     cmocka_unit_test(symbols_state_the_struct),
        cmocka_unit_test(the_tightest_row_is_chosen),  cmocka_unit_test(softcap_needs_a_newer_isa_than_its_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
