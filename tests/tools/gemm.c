/* gemm.c - "ptxpack gemm" and "ptxpack bench gemm" on the emulated driver: random input
 * verified, files multiplied exactly, and what is refused. */
#include <math.h>

#include "command_fixture.h"

#include "host/dtype.h"
#include "tools/problem/npy.h"

/* ---- random input --------------------------------------------------------------------------------- */
static void random_input_is_verified(void **state)
{
    static const char *const orders[] = {"--order-a row --order-b row", "--order-a row --order-b column",
                                         "--order-a column --order-b row", "--order-a column --order-b column"};
    static const char *const rest[] = {"--dtype f16 --bias", "--batch 2 --beta -0.5 --activation gelu",
                                       "--c --alpha 0.25 --activation relu", "--dtype f16 --activation silu"};
    (void)state;
    for (int i = 0; i < 4; i++) {
        char line[256];
        setenv("PTXPACK_EMU_SM", i % 2 != 0 ? "80" : "90", 1); /* both kernels */
        snprintf(line, sizeof line, "--device emu --m 70 --n 43 --k 29 --seed 3 --verify %s %s", orders[i],
                 rest[i]);
        if (run_command("gemm", line) != 0)
            fail_msg("%s: %s%s", line, output, errors);
        assert_non_null(strstr(output, "verified  correct"));
        assert_string_equal(errors, ""); /* judged clean */
    }
    unsetenv("PTXPACK_EMU_SM");
}

static void json_says_what_was_run(void **state)
{
    (void)state;
    assert_int_equal(run_command("gemm", "--device emu --m 16 --n 8 --k 8 --seed 3 --verify --json"), 0);
    static const char *const words[] = {"\"ran_on\": \"emulator\"",
                                        "\"order_a\": \"row\"",
                                        "\"m\": 16",
                                        "\"has_c\": false",
                                        "\"activation\": \"none\"",
                                        "\"pass\": true"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        assert_non_null(strstr(output, words[i]));
}

/* ---- files ---------------------------------------------------------------------------------------- */
static void write_floats(const char *name, int rank, const int64_t *shape, const float *values)
{
    char      line[NPY_LINE];
    npy_array array = {.type = NPY_F32, .rank = rank, .count = 1};
    float     copy[64];
    for (int i = 0; i < rank; i++) {
        array.shape[i] = shape[i];
        array.count *= (size_t)shape[i];
    }
    assert_in_range(array.count, 1, 64);
    memcpy(copy, values, array.count * sizeof *copy);
    array.data = copy;
    assert_true(npy_write(scratch_path(name), &array, line));
}

static void expect_file(const char *name, ptxpack_dtype type, int rank, const int64_t *shape,
                        const float *values)
{
    char      line[NPY_LINE];
    npy_array array;
    assert_true(npy_read(scratch_path(name), &array, line));
    assert_int_equal(array.type, type == PTXPACK_F16 ? NPY_F16 : NPY_U16);
    assert_int_equal(array.rank, rank);
    for (int i = 0; i < rank; i++)
        assert_int_equal(array.shape[i], shape[i]);
    for (size_t i = 0; i < array.count; i++)
        assert_true(ptxpack_element(type, array.data, i) == values[i]);
    npy_free(&array);
}

static int run_files(const char *arguments)
{
    char line[2048], a[256], b[256], c[256], bias[256], d[256];
    snprintf(a, sizeof a, "%s", scratch_path("a.npy"));
    snprintf(b, sizeof b, "%s", scratch_path("b.npy"));
    snprintf(c, sizeof c, "%s", scratch_path("c.npy"));
    snprintf(bias, sizeof bias, "%s", scratch_path("bias.npy"));
    snprintf(d, sizeof d, "%s", scratch_path("d.npy"));
    snprintf(line, sizeof line, "--device emu --a %s --b %s --c %s --bias %s -o %s --verify %s", a, b, c, bias,
             d, arguments);
    return run_command("gemm", line);
}

/* D = 2 A B - C + bias of whole numbers, 2 x 3 by 3 x 2. */
static void files_are_multiplied(void **state)
{
    static const int64_t a_shape[] = {2, 3}, b_shape[] = {3, 2}, bt_shape[] = {2, 3}, square[] = {2, 2},
                         two = 2;
    static const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {7, 8, 9, 10, 11, 12}, bt[] = {7, 9, 11, 8, 10, 12};
    static const float c[] = {1, 2, 3, 4}, bias[] = {100, -200}, d[] = {215, -74, 375, 104};
    (void)state;
    write_floats("a.npy", 2, a_shape, a);
    write_floats("b.npy", 2, b_shape, b);
    write_floats("c.npy", 2, square, c);
    write_floats("bias.npy", 1, &two, bias);
    if (run_files("--alpha 2 --beta -1 --dtype f16") != 0)
        fail_msg("%s", errors);
    expect_file("d.npy", PTXPACK_F16, 2, square, d);
    write_floats("b.npy", 2, bt_shape, bt); /* column-major: the file is the transpose */
    if (run_files("--alpha 2 --beta -1 --order-b column") != 0)
        fail_msg("%s", errors);
    static const float rounded[] = {215, -74, 376, 104}; /* to bf16 */
    expect_file("d.npy", PTXPACK_BF16, 2, square, rounded);
}

static void a_batch_has_three_dimensions(void **state)
{
    static const int64_t shape[] = {2, 1, 2}, b_shape[] = {2, 2, 1}, one[] = {2, 1, 1}, single = 1;
    static const float   a[] = {1, 2, 3, 4}, b[] = {5, 6, 7, 8}, zero[] = {0, 0}, d[] = {17, 53};
    (void)state;
    write_floats("a.npy", 3, shape, a);
    write_floats("b.npy", 3, b_shape, b);
    write_floats("c.npy", 3, one, zero);
    write_floats("bias.npy", 1, &single, zero);
    if (run_files("") != 0)
        fail_msg("%s", errors);
    expect_file("d.npy", PTXPACK_BF16, 3, one, d);
}

/* ---- refusals ------------------------------------------------------------------------------------- */
static void refuse_files(const char *arguments, const char *reason)
{
    assert_int_equal(run_files(arguments), 1);
    if (strstr(errors, reason) == NULL || lines_of(errors) != 1)
        fail_msg("\"%s\" does not say \"%s\"", errors, reason);
}

static void bad_files_are_named(void **state)
{
    static const int64_t shape[] = {2, 2}, wide[] = {3, 2}, two = 2, three = 3;
    static const float   values[] = {1, 2, 3, 4, 5, 1e6f};
    (void)state;
    write_floats("a.npy", 2, shape, values);
    write_floats("b.npy", 2, wide, values);
    write_floats("c.npy", 2, shape, values);
    write_floats("bias.npy", 1, &two, values);
    refuse_files("", "differ in k: 2 and 3");
    write_floats("b.npy", 2, shape, values);
    write_floats("c.npy", 2, wide, values);
    refuse_files("", "its shape is not that of c");
    refuse_files("--dtype f16", "beyond the range of f16");
    write_floats("c.npy", 2, shape, values);
    write_floats("bias.npy", 1, &two, (const float[]){1, INFINITY});
    refuse_files("--verify", "--verify: element 1 of");
    write_floats("bias.npy", 1, &three, values);
    refuse_files("", "it must have 1 dimension, of 2");
    write_floats("a.npy", 1, &two, values);
    refuse_files("", "it must have 2, or 3 with a batch");
}

static void bad_words_are_named(void **state)
{
    (void)state;
    refuses("gemm", "--order-a diagonal", 2, "--order-a: \"diagonal\" is neither row nor column");
    refuses("gemm", "--activation tanh", 2, "--activation");
    refuses("gemm", "--dtype e4m3", 2, "--dtype: \"e4m3\"");
    refuses("gemm", "--m 0", 2, "--m: 0");
    refuses("gemm", "--repeat 0", 2, "--repeat: 0");
    refuses("gemm", "--seed -1", 2, "--seed: -1");
    refuses("gemm", "--alpha 1e39", 2, "--alpha: 1e+39 is beyond the range of float");
    refuses("gemm", "--beta -1e39", 2, "--beta: -1e+39 is beyond the range of float");
    refuses("gemm", "--a x.npy", 2, "--a and --b go together");
    refuses("gemm", "--a x.npy --b y.npy --m 3", 2, "either files or sizes");
    refuses("gemm", "--a /nowhere/x.npy --b y.npy", 1, "/nowhere/x.npy");
    refuses("gemm", "--device tpu --m 8 --n 8 --k 8", 2, "'tpu' is neither gpu nor emu");
    refuses("bench", "gemm --kernel vector_add_sm80", 2, "--kernel");
    refuses("bench", "gemm --dtype e4m3", 2, "--dtype");
    refuses("bench", "gemm --size 8,x", 2, "--size");
}

static int start(void **state)
{
    return scratch_open(state) != 0 ? -1 : setenv("PTXPACK_CACHE_DIR", scratch_path("cache"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_input_is_verified), cmocka_unit_test(json_says_what_was_run),
        cmocka_unit_test(files_are_multiplied),     cmocka_unit_test(a_batch_has_three_dimensions),
        cmocka_unit_test(bad_files_are_named),      cmocka_unit_test(bad_words_are_named),
    };
    return cmocka_run_group_tests(tests, start, scratch_close);
}
