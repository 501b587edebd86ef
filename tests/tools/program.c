/* program.c - "ptxpack ptx", "ptxpack nvrtc" and "ptxpack expand" on files of the user's own, on
 * the emulated driver: results, refusals, kernels that trap or do not end, sweeps, watching. */
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>
#include "command_fixture.h"
#include "tools/problem/npy.h"
#include "tools/workbench/args.h"
#include "tools/problem/random.h"
#include "tools/workbench/sass.h"

enum { SEED = 20261122 };

/* ---- kernels -------------------------------------------------------------------------------------- */
#define HEAD ".version 7.0\n.target sm_80\n.address_size 64\n"

/* y[i] = OP(a, x[i]) for i < n: BLOCK threads, OP from an included file. */
static const char scale_text[] = ".include \"op.ptx\"\n" HEAD
                                 ".visible .entry scale (.param .u64 py, .param .u64 .ptr .global .align 4 "
                                 "px, .param .f32 pa, .param .u32 pn)\n"
                                 "{\n"
                                 "        .reg .b64  %y, %x, %at;\n"
                                 "        .reg .b32  %t, %b, %i, %n;\n"
                                 "        .reg .f32  %a, %v;\n"
                                 "        .reg .pred %out;\n"
                                 "        ld.param.u64 %y, [py];\n"
                                 "        ld.param.u64 %x, [px];\n"
                                 "        ld.param.f32 %a, [pa];\n"
                                 "        ld.param.u32 %n, [pn];\n"
                                 "        mov.u32 %t, %tid.x;\n"
                                 "        mov.u32 %b, %ctaid.x;\n"
                                 "        mad.lo.u32 %i, %b, \\[BLOCK], %t;\n"
                                 "        setp.ge.u32 %out, %i, %n;\n"
                                 "        @%out ret;\n"
                                 "        mul.wide.u32 %at, %i, 4;\n"
                                 "        add.u64 %x, %x, %at;\n"
                                 "        add.u64 %y, %y, %at;\n"
                                 "        ld.global.f32 %v, [%x];\n"
                                 "        OP %v, %a\n"
                                 "        st.global.f32 [%y], %v;\n"
                                 "        ret;\n"
                                 "}\n";
static const char op_text[] = ".macro OP v, a\n        mul.f32 \\v, \\v, \\a;\n.endm\n";

/* Two entries: one takes a struct and writes its bytes, the other a value of each width. */
static const char two_text[] = HEAD ".visible .entry copy (.param .u64 to, .param .align 4 .b8 from[12])\n"
                                    "{\n"
                                    "        .reg .b64 %to;\n"
                                    "        .reg .b32 %a, %b, %c;\n"
                                    "        ld.param.u64 %to, [to];\n"
                                    "        ld.param.b32 %a, [from];\n"
                                    "        ld.param.b32 %b, [from+4];\n"
                                    "        ld.param.b32 %c, [from+8];\n"
                                    "        st.global.b32 [%to], %a;\n"
                                    "        st.global.b32 [%to+4], %b;\n"
                                    "        st.global.b32 [%to+8], %c;\n"
                                    "        ret;\n"
                                    "}\n"
                                    ".visible .entry values (.param .u64 to, .param .b8 b, .param .b16 h, "
                                    ".param .b16 g, .param .f64 d, .param .s64 l)\n"
                                    "{\n"
                                    "        .reg .b64 %to, %l;\n"
                                    "        .reg .b16 %b, %h, %g;\n"
                                    "        .reg .f64 %d;\n"
                                    "        ld.param.u64 %to, [to];\n"
                                    "        ld.param.b8  %b, [b];\n"
                                    "        ld.param.b16 %h, [h];\n"
                                    "        ld.param.b16 %g, [g];\n"
                                    "        ld.param.f64 %d, [d];\n"
                                    "        ld.param.s64 %l, [l];\n"
                                    "        st.global.f64 [%to], %d;\n"
                                    "        st.global.b64 [%to+8], %l;\n"
                                    "        st.global.b8  [%to+16], %b;\n"
                                    "        st.global.b8  [%to+17], %b;\n"
                                    "        st.global.b16 [%to+18], %h;\n"
                                    "        st.global.b16 [%to+20], %g;\n"
                                    "        st.global.b16 [%to+22], %g;\n"
                                    "        ret;\n"
                                    "}\n";

/* *to = *from * f, of struct {f32 f; u64 from; u64 to; u8 unused;}: 32 bytes in C, of which 25 are used; the
 * last four, which are 0, behind it. */
static const char members_text[] = HEAD
    ".visible .entry members (.param .align 8 .b8 all[32], .param .f32 other)\n"
    "{\n"
    "        .reg .b64 %from, %to;\n"
    "        .reg .f32 %f, %x;\n"
    "        ld.param.f32 %f, [all];\n"
    "        ld.param.u64 %from, [all+8];\n"
    "        ld.param.u64 %to, [all+16];\n"
    "        ld.global.f32 %x, [%from];\n"
    "        mul.f32 %x, %x, %f;\n"
    "        st.global.f32 [%to], %x;\n"
    "        ld.param.f32 %x, [all+28];\n"
    "        st.global.f32 [%to+4], %x;\n"
    "        ret;\n"
    "}\n";

/* x[i] += x[i] through dynamic shared memory, by a block of the given shape. */
static const char shared_text[] = HEAD ".extern .shared .align 16 .b8 tile[];\n"
                                       ".visible .entry twice (.param .u64 px)\n"
                                       "{\n"
                                       "        .reg .b64 %x, %at;\n"
                                       "        .reg .b32 %t, %u, %w, %s, %v;\n"
                                       "        ld.param.u64 %x, [px];\n"
                                       "        mov.u32 %t, %tid.x;\n"
                                       "        mov.u32 %u, %tid.y;\n"
                                       "        mov.u32 %w, %ntid.x;\n"
                                       "        mad.lo.u32 %t, %u, %w, %t;\n"
                                       "        mul.wide.u32 %at, %t, 4;\n"
                                       "        add.u64 %x, %x, %at;\n"
                                       "        shl.b32 %s, %t, 2;\n"
                                       "        mov.u32 %u, tile;\n"
                                       "        add.u32 %s, %s, %u;\n"
                                       "        ld.global.b32 %v, [%x];\n"
                                       "        st.shared.b32 [%s], %v;\n"
                                       "        ld.shared.b32 %u, [%s];\n"
                                       "        add.u32 %v, %v, %u;\n"
                                       "        st.global.b32 [%x], %v;\n"
                                       "        ret;\n"
                                       "}\n";

static const char trap_text[] = HEAD ".visible .entry stop ()\n{\n        trap;\n        ret;\n}\n";
static const char loop_text[] = HEAD ".visible .entry spin ()\n{\nAGAIN:\n        bra AGAIN;\n}\n";
/* Threads of two warps write one word, nothing orders them: line 10. */
static const char race_text[] = HEAD
    ".visible .entry race (.param .u64 px)\n{\n        .reg .b64 %x;\n        .reg .b32 %t;\n"
    "        ld.param.u64 %x, [px];\n        mov.u32 %t, %tid.x;\n        st.global.b32 [%x], %t;\n     "
    "   ret;\n}\n";
static const char scale_cu[] = "template <class T> __global__ void scale(T *y, const T *x, T a, int n)\n"
                               "{\n"
                               "    int i = blockIdx.x * BLOCK + threadIdx.x;\n"
                               "    if (i < n)\n"
                               "        y[i] = a * x[i];\n"
                               "}\n"
                               "__global__ void plain(int *y) { y[threadIdx.x] = threadIdx.x; }\n";

/* ---- helpers -------------------------------------------------------------------------------------- */
/* To a new file that takes the place of the old one, as editors do it. */
static void write_text(const char *name, const char *text)
{
    char  path[8192];
    FILE *file;
    snprintf(path, sizeof path, "%s", scratch_path(name));
    file = fopen(scratch_path("editor.tmp"), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
    assert_int_equal(rename(scratch_path("editor.tmp"), path), 0);
}

static char binary[PATH_MAX]; /* of the command */

/* In the scratch folder, so that file names are short in what is said. */
static int run_in_folder(const char *subcommand, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int run_in_folder(const char *subcommand, const char *format, ...)
{
    char    arguments[16384], line[32768];
    va_list list;
    va_start(list, format);
    vsnprintf(arguments, sizeof arguments, format, list);
    va_end(list);
    int bytes = snprintf(line, sizeof line, "cd %s && %s %s %s >out 2>err", scratch_folder, binary, subcommand,
                         arguments);
    assert_in_range(bytes, 1, sizeof line - 1);
    int status = system(line);
    read_output("out", output);
    read_output("err", errors);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static bool there(const char *name) { return access(scratch_path(name), F_OK) == 0; }

static void read_array(const char *name, npy_array *array)
{
    char line[NPY_LINE];
    if (!npy_read(scratch_path(name), array, line))
        fail_msg("%s", line);
}

static void write_floats(const char *name, float *data, size_t count)
{
    char      line[NPY_LINE];
    npy_array array = {.type = NPY_F32, .rank = 1, .shape = {(int64_t)count}, .count = count, .data = data};
    if (!npy_write(scratch_path(name), &array, line))
        fail_msg("%s", line);
}

static void expect(int status, const char *wanted)
{
    if (status != 0)
        fail_msg("status %d: %s", status, errors);
    if (wanted != NULL && strstr(output, wanted) == NULL)
        fail_msg("no \"%s\" in: %s", wanted, output);
}

#define RUN_SCALE  "scale.ptx -D BLOCK=64 --device emu --grid '(N+BLOCK-1)/BLOCK' --block BLOCK "
#define SCALE_ARGS "--arg out:f32:N:y.npy --arg in:x.npy --arg f32:1.5 --arg u32:N "

/* ---- what runs ------------------------------------------------------------------------------------ */
static void results_are_the_kernels(void **state)
{
    enum { N = 1000 };
    float     x[N];
    npy_array y;
    (void)state;
    for (int i = 0; i < N; i++)
        x[i] = (float)i - 17.25f;
    write_floats("x.npy", x, N);
    expect(run_in_folder("ptx", RUN_SCALE "-DN=%d " SCALE_ARGS, N), "scale");
    assert_string_equal(errors, ""); /* judged clean */
    assert_non_null(strstr(output, "grid 16 x 1 x 1, block 64 x 1 x 1"));
    read_array("y.npy", &y);
    assert_int_equal(y.type, NPY_F32);
    assert_int_equal(y.count, N);
    for (int i = 0; i < N; i++)
        assert_float_equal(((float *)y.data)[i], 1.5f * x[i], 0);
    npy_free(&y);
    assert_int_equal(unlink(scratch_path("y.npy")), 0);
    expect(run_in_folder("ptx", RUN_SCALE "-DN=%d " SCALE_ARGS "--json --time=3", N), "\"launches\": 3");
    assert_non_null(strstr(output, "\"least\": -25.875")); /* 1.5 * -17.25 */
    assert_non_null(strstr(output, "\"file\": \"y.npy\""));
    expect(run_in_folder("ptx", RUN_SCALE "-DN=%d " SCALE_ARGS "--graph --time=2", N),
           "median of 2 graphs of 20 launches");
    assert_string_equal(errors, "");
}

static void the_second_time_it_is_in_the_cache(void **state)
{
    (void)state;
    static const char again[] = RUN_SCALE
        "-DN=3 --json --arg zero:f32:N --arg iota:f32:N --arg f32:7 --arg u32:N "
        "-D UNIQUE=77";
    write_text("unique.ptx", scale_text);
    expect(run_in_folder("ptx", "%s", again), "\"from_cache\":");
    expect(run_in_folder("ptx", "%s", again), "\"from_cache\": true");
}

static void products_are_shapes(void **state)
{
    npy_array y;
    (void)state;
    expect(run_in_folder("ptx",
                         RUN_SCALE "-DN=24 --arg out:f32:2*3*4:y.npy --arg iota:f32:N --arg f32:2 --arg u32:N"),
           "f32 (2, 3, 4): 0 2 4 6 8 10 12 14 ...");
    read_array("y.npy", &y);
    assert_int_equal(y.rank, 3);
    assert_int_equal(y.shape[0], 2);
    assert_int_equal(y.shape[2], 4);
    npy_free(&y);
    expect(run_in_folder("ptx",
                         RUN_SCALE "-DN=24 --arg 'out:f32:(N+1)*2-2' --arg iota:f32:N --arg f32:2 --arg u32:N"),
           "f32 (48): 0 2");
}

static void members_of_structs_lie_as_in_c(void **state)
{
    npy_array y;
    float     three = 3;
    (void)state;
    expect(run_in_folder("ptx", "two.ptx --emu --entry copy --grid 1 --block 1 --arg out:u8:12:y.npy "
                                "--arg u8:1 --arg +u16:0x302 --arg +u32:7 --arg +bytes:0809 --arg +s8:-1"),
           "u8 (12): 1 0 2 3 7 0 0 0 ...");
    read_array("y.npy", &y);
    assert_memory_equal((uint8_t *)y.data + 8, "\x08\x09\xff\0", 4);
    npy_free(&y);
    write_floats("x.npy", &three, 1);
    expect(run_in_folder("ptx", "members.ptx --emu --grid 1 --block 1 --arg f32:1.5 --arg +in:x.npy "
                                "--arg +out:f32:2 --arg +u8:0 --arg f32:7"),
           "--arg 3   f32 (2): 4.5 0");
}

static void structs_and_values_arrive(void **state)
{
    npy_array y;
    (void)state;
    expect(run_in_folder("ptx", "two.ptx --emu --entry copy --grid 1 --block 1 --arg out:u8:12:y.npy "
                                "--arg bytes:000102030405060708090aFF"),
           "u8 (12): 0 1 2 3 4 5 6 7 ...");
    read_array("y.npy", &y);
    assert_int_equal(((uint8_t *)y.data)[11], 255);
    npy_free(&y);
    expect(run_in_folder("ptx", "two.ptx --emu --entry values --grid 1 --block 1 --arg zero:u8:24 --arg s8:-2 "
                                "--arg f16:1.5 --arg bf16:-3 --arg f64:0.1 --arg s64:-0x8000000000000000"),
           NULL);
    expect(run_in_folder("ptx",
                         "two.ptx --emu --entry values --grid 1 --block 1 --arg out:u8:24:y.npy --arg s8:-2 "
                         "--arg f16:1.5 --arg bf16:-3 --arg f64:0.1 --arg s64:-0x8000000000000000"),
           NULL);
    read_array("y.npy", &y);
    const unsigned char *bytes = (const unsigned char *)y.data;
    double               d;
    int64_t              l;
    uint16_t             halves[4];
    memcpy(&d, bytes, sizeof d);
    memcpy(&l, bytes + 8, sizeof l);
    memcpy(halves, bytes + 16, sizeof halves);
    assert_true(d == 0.1);
    assert_true(l == INT64_MIN);
    assert_int_equal(halves[0], 0xfefe);
    assert_int_equal(halves[1], 0x3e00);
    assert_int_equal(halves[2], 0xc040);
    npy_free(&y);
}

static void shared_memory_and_shapes(void **state)
{
    (void)state;
    expect(run_in_folder(
               "ptx", "shared.ptx --emu --grid 1 --block 8,4 --smem 4*32 --arg inout:s32:32 --seed 5 --json"),
           "\"smem\": 128");
    expect(run_in_folder("ptx", "shared.ptx --emu --grid 1 --block 16,2 --smem 128 --arg iota:s32:32"),
           "block 16 x 2 x 1");
    /* in place: what is shown is of the first launch, however many are timed */
    float x[4] = {1, 2, 3, 4};
    write_floats("x.npy", x, 4);
    expect(run_in_folder("ptx",
                         "shared.ptx --emu --grid 1 --block 4 --smem 64 --arg inout:x.npy:z.npy --time=3"),
           "written to z.npy");
    npy_array z;
    read_array("z.npy", &z); /* the integer sum of a float's bits with itself */
    uint32_t bits[4], one;
    memcpy(bits, z.data, sizeof bits);
    memcpy(&one, &x[0], sizeof one);
    assert_int_equal(bits[0], 2 * one);
    npy_free(&z);
}

static void seeds_repeat(void **state)
{
    char first[64];
    (void)state;
    static const char line[] = RUN_SCALE
        "-DN=100 --arg out:f32:N --arg in:f32:N --arg f32:1 --arg u32:N --seed ";
    expect(run_in_folder("ptx", "%s3", line), "checksum ");
    snprintf(first, sizeof first, "%.25s", strstr(output, "checksum "));
    expect(run_in_folder("ptx", "%s3", line), first);
    expect(run_in_folder("ptx", "%s4", line), "checksum ");
    assert_null(strstr(output, first));
}

static void compiling_only(void **state)
{
    (void)state;
    expect(run_in_folder("ptx", "two.ptx --emu --no-run"), "entry     copy: ");
    assert_non_null(strstr(output, "entry     values: "));
    assert_non_null(strstr(output, "8 instructions of PTX")); /* of copy */
    expect(run_in_folder("ptx", "two.ptx --emu --no-run --entry values --json"), "\"name\": \"values\"");
    assert_null(strstr(output, "\"name\": \"copy\""));
}

/* A driver that is not the emulated one: what a GPU does is fake, how often it is asked is not. */
static void as_on_a_gpu(void **state)
{
    char driver[PATH_MAX + 32], compiler[PATH_MAX + 32];
    int  folder = (int)(strrchr(binary, '/') - binary);
    (void)state;
    snprintf(driver, sizeof driver, "%.*s/tests/fake_driver.so", folder, binary);
    snprintf(compiler, sizeof compiler, "%.*s/tests/fake_ptxjit.so", folder, binary);
    setenv("PTXPACK_DRIVER", driver, 1);
    setenv("PTXPACK_PTXJIT", compiler, 1);
    static const char line[] = "scale.ptx -DBLOCK=64 --grid 1 --block 64 --arg out:f32:8 --arg iota:f32:8 "
                               "--arg f32:1 --arg u32:8 ";
    int               first = run_in_folder("ptx", "%s", line);
    expect(first, "the first and only launch");
    assert_null(strstr(output, "emulated"));
    assert_non_null(strstr(output, "nan nan nan nan")); /* nothing was written */
    assert_non_null(strstr(output, "8 NaN"));
    expect(run_in_folder("ptx", "%s --time", line), "median of 20 launches, 1.0000 to 1.0000");
    expect(run_in_folder("ptx", "%s --time=100", line), "median of 100 launches");
    assert_int_equal(run_in_folder("ptx", "%s --graph", line), 1); /* it has none */
    assert_non_null(strstr(errors, "scale failed: cuStreamEndCapture"));
    unsetenv("PTXPACK_DRIVER");
    unsetenv("PTXPACK_PTXJIT");
}

/* ---- what is refused ------------------------------------------------------------------------------ */
/* Of 128 bits. */
#define LEAST "(-4294967296*4294967296*4294967296*2147483648)"
static const struct {
    const char *arguments;
    int         status;
    const char *reason;
} refusals[] = {
    {"", 2, "expected one FILE"},
    {"scale.ptx two.ptx --grid 1 --block 1", 2, "expected one FILE"},
    {"nothing.ptx --emu --grid 1 --block 1", 1, "nothing.ptx"},
    {"scale.ptx --emu --block 1", 2, "--grid is missing"},
    {"scale.ptx --emu --grid 1", 2, "--block is missing"},
    {"scale.ptx --device tpu --grid 1 --block 1", 2, "'tpu' is neither gpu nor emu"},
    {"scale.ptx --device gpu --emu --grid 1 --block 1", 2, "--emu contradicts"},
    {RUN_SCALE "--entry scael", 1, "scale"},         /* the detail lists what there is; N is missing, too */
    {"two.ptx --emu --grid 1 --block 1", 1, "copy"}, /* which of the two? */
    {RUN_SCALE "-DN=8 --arg zero:f32:8", 2,
     "parameter 2 of scale, px (.u64) has no --arg: 1 were given, 4 are wanted"},
    {RUN_SCALE "-DN=8 " SCALE_ARGS "--arg u32:1", 2, "scale has 4 parameters, and 5 were given"},
    {RUN_SCALE "-DN=8 --arg zero:f32:8 --arg f32:1", 2, "parameter 2 of scale, px (.u64) has 8 bytes, not 4"},
    {RUN_SCALE "-DN=8 --arg zero:f32:8 --arg zero:f32:8 --arg zero:f32:8", 2,
     "parameter 3 of scale, pa (.f32) has 4 bytes, not 8 of an address"},
    {RUN_SCALE "-DN=8 --arg zero:f32:8 --arg zero:f32:8 --arg u32:1", 2, "pa (.f32) takes a float"},
    {RUN_SCALE "-DN=8 --arg zero:f32:8 --arg zero:f32:8 --arg f32:1 --arg f32:1", 2,
     "pn (.u32) takes an integer"},
    {"two.ptx --emu --entry copy --grid 1 --block 1 --arg out:u8:12 --arg bytes:0011", 2,
     "from (.b8[]) has 12 bytes, not 2"},
    {"two.ptx --emu --entry copy --grid 1 --block 1 --arg out:u8:12 --arg u64:1 --arg +u64:2", 2,
     "--arg u64:1: parameter 2 of copy, from (.b8[]) has 12 bytes, not the 16 of these 2 members"},
    {"two.ptx --emu --entry copy --grid 1 --block 1 --arg +u64:1", 2, "no --arg stands before"},
    {"two.ptx --emu --entry copy --grid 1 --block 1 --arg out:u8:12 --arg u64:1 --arg +u31:1", 2,
     "--arg +u31:1: \"u31\" is neither"},
    {"two.ptx --emu --entry copy --grid 1 --block 1 --arg out:u8:12 --arg u64:1 --arg +", 2, "a : is missing"},
    {RUN_SCALE "-DN=8 " SCALE_ARGS "--arg +u32:1", 2, "pn (.u32) has 4 bytes, not the 8 of these 2 members"},
    {RUN_SCALE "-DN=8 --arg f32", 2, "--arg f32: a : is missing"},
    {RUN_SCALE "-DN=8 --arg float:1", 2, "\"float\" is neither in, zero, iota, out, inout or bytes nor a type"},
    {RUN_SCALE "-DN=8 --arg f32:abc", 2, "--arg f32:abc: \"abc\" is no number"},
    {RUN_SCALE "-DN=8 --arg f32:", 2, "is no number"},
    {RUN_SCALE "-DN=8 --arg f16:70000", 2, "beyond the range of f16"},
    {RUN_SCALE "-DN=8 --arg s8:128", 2, "beyond the range of s8"},
    {RUN_SCALE "-DN=8 --arg u32:-1", 2, "beyond the range of u32"},
    {RUN_SCALE "-DN=8 --arg u64:0x10000000000000000", 2, "beyond 64 bits"},
    {"scale.ptx --emu --block 1 --grid '-" LEAST "'", 2, "beyond 64 bits"},
    {"scale.ptx --emu --block 1 --grid '" LEAST "/-1'", 2, "beyond 64 bits"},
    {"scale.ptx --emu --block 1 --grid '" LEAST "%-1'", 2, "is not from 1 to"},
    {RUN_SCALE "-DN=8 --arg u32:1x", 2, "is no number"},
    {RUN_SCALE "-DN=8 --arg u32:M", 2, "the symbol M is not defined"},
    {RUN_SCALE "-DN=8 --arg u32:1/0", 2, "divides by zero"},
    {RUN_SCALE "-DN=8 --arg bytes:123", 2, "hexadecimal digits"},
    {RUN_SCALE "-DN=8 --arg bytes:1g", 2, "\"1g\" is no byte"},
    {RUN_SCALE "-DN=8 --arg zero:f32:0", 2, "the count 0 is not from 1"},
    {RUN_SCALE "-DN=8 --arg zero:f32:-4", 2, "is not from 1"},
    {RUN_SCALE "-DN=8 --arg zero:f32:1048576*1048576", 2, "is not from 1"},
    {RUN_SCALE "-DN=8 --arg zero:f32", 2, "TYPE:COUNT is wanted"},
    {RUN_SCALE "-DN=8 --arg zero:f31:8", 2, "\"f31\" is no type"},
    {RUN_SCALE "-DN=8 --arg zero:f32:8:y.npy", 2, "\"y.npy\" is too much"},
    {RUN_SCALE "-DN=8 --arg out:f32:8:y.txt", 2, "\"y.txt\" is no .npy file"},
    {RUN_SCALE "-DN=8 --arg zero:f32:8 --arg in:none.npy --arg f32:1 --arg u32:8", 1, "none.npy: No such file"},
    {RUN_SCALE "-DN=8 --arg zero:f32:8 --arg in:u8:bytes.npy --arg f32:1 --arg u32:8", 1,
     "bytes.npy holds float32"},
    {RUN_SCALE "-DN=8 --arg zero:f32:8 --arg in:scale.npy --arg f32:1 --arg u32:8", 1,
     "scale.npy: not a .npy file"},
    {RUN_SCALE "-DN=8 --arg out:f32:8:/nowhere/y.npy --arg iota:f32:8 --arg f32:1 --arg u32:8", 1,
     "/nowhere/y.npy"},
    {"scale.ptx --emu --grid 0 --block 1", 2, "--grid 0: \"0\" is not from 1"},
    {"scale.ptx --emu --grid 1,2,3,4 --block 1", 2, "more than three"},
    {"scale.ptx --emu --grid 1, --block 1", 2, "a number is missing"},
    {RUN_SCALE "-DN=8 --block 1024,2 --arg zero:f32:8 --arg iota:f32:8 --arg f32:1 --arg u32:8", 1,
     "scale failed: "},
    {RUN_SCALE "-DN=8 --smem -1", 2, "--smem -1"},
    {RUN_SCALE "-D 9=1", 2, "\"9\" is no name"},
    {RUN_SCALE "-D A=x", 2, "what follows = is not an integer"},
    {RUN_SCALE "-DN=8 --time=0", 2, "--time: \"0\""},
    {RUN_SCALE "-DN=8 --seed -1", 2, "--seed: -1 is negative"},
    {RUN_SCALE "-DN=8 --timeout -1", 2, "--timeout"},
    {RUN_SCALE "-DN=8 --watch --sweep A=1", 2, "--watch and --sweep"},
    {RUN_SCALE "-DN=8 --sass --json", 2, "--sass"},
    {RUN_SCALE "-DN=8 --sweep N=1,2", 2, "N is given twice"},
    {RUN_SCALE "-DN=8 --sweep A=1,x", 2, "\"x\" is not an integer"},
    {RUN_SCALE "-DN=8 --sweep A=", 2, "is not an integer"},
    {RUN_SCALE "-DN=8 --sweep A", 2, "is wanted"},
    {"scale.ptx --arch sm_90 --arg u32:1", 2, "--arch only compiles"},
    {"scale.ptx --arch sm_90 --emu", 2, "--arch"},
    {"scale.ptx --emu --grid 1 --block 1 " SCALE_ARGS "-DN=4", 1, "BLOCK"}, /* the file's unknown symbol */
    {"broken.ptx --emu --no-run", 1, "broken.ptx:5"},
    {"scale.ptx --option x --emu", 2, "unknown option --option"},
};

static void refusals_are_one_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        int status = run_in_folder("ptx", "%s%s", refusals[i].arguments,
                                   strstr(refusals[i].arguments, "--entry scael") != NULL ? " -DN=1 " SCALE_ARGS
                                                                                          : "");
        if (status != refusals[i].status || strstr(errors, refusals[i].reason) == NULL ||
            lines_of(errors) != 1 || output[0] != '\0')
            fail_msg("ptx %s: status %d, not %d, or not \"%s\": %s%s", refusals[i].arguments, status,
                     refusals[i].status, refusals[i].reason, errors, output);
    }
    assert_false(there("y.txt"));
}

/* ---- kernels that fail ---------------------------------------------------------------------------- */
static void a_trap_is_one_line(void **state)
{
    (void)state;
    assert_int_equal(run_in_folder("ptx", "trap.ptx --emu --grid 1 --block 32"), 1);
    assert_non_null(strstr(errors, "trap.ptx:6: trap")); /* the emulated driver's line */
    assert_non_null(strstr(errors, "ptxpack ptx: stop failed: "));
    assert_int_equal(lines_of(errors), 2);
    assert_string_equal(output, "");
    /* no file is written of one that failed */
    assert_int_equal(run_in_folder("ptx", "race.ptx --emu --grid 1 --block 64 --arg out:u32:1:race.npy"), 1);
    assert_non_null(strstr(errors, "race.ptx:10: st.global.b32"));
    assert_false(there("race.npy"));
}

static void what_does_not_end_is_ended(void **state)
{
    struct timespec from, to;
    (void)state;
    clock_gettime(CLOCK_MONOTONIC, &from);
    assert_int_equal(run_in_folder("ptx", "loop.ptx --emu --grid 1 --block 32 --timeout 0.3"), 1);
    clock_gettime(CLOCK_MONOTONIC, &to);
    assert_string_equal(errors,
                        "ptxpack ptx: spin did not end within 0.3 s and was ended by force (--timeout)\n");
    assert_string_equal(output, "");
    assert_true(to.tv_sec - from.tv_sec < 20);
}

/* ---- sweeps --------------------------------------------------------------------------------------- */
static void a_sweep_is_sorted_by_time(void **state)
{
    (void)state;
    /* more threads than a block may have cannot run; the fewer blocks, the fewer instructions are executed */
    int status = run_in_folder("ptx",
                               "scale.ptx --emu --sweep BLOCK=2048,32,64,128 --sweep STAGES=2,3 --time=3 "
                               "--grid '(N+BLOCK-1)/BLOCK' --block BLOCK -DN=4000 --arg out:f32:N "
                               "--arg iota:f32:N --arg f32:2 --arg u32:N");
    expect(status, "     BLOCK      STAGES  registers  spills          ms  over best  checksum\n");
    double      before = 0;
    int         rows = 0, failed = 0;
    char        checksum[16] = "";
    const char *line = strstr(output, "STAGES");
    for (line = strchr(line, '\n') + 1; *line != '\0'; line = strchr(line, '\n') + 1) {
        long   block, stages;
        char   registers[16], spills[16], sum[16];
        double ms, over;
        if (sscanf(line, "%ld %ld failed: %15s", &block, &stages, registers) == 3) {
            assert_int_equal(block, 2048);
            failed++;
            continue;
        }
        assert_int_equal(failed, 0); /* those come last */
        assert_int_equal(sscanf(line, "%ld %ld %15s %15s %lf %lf %15s", &block, &stages, registers, spills, &ms,
                                &over, sum),
                         7);
        assert_true(ms >= before && over >= 1);
        assert_true(*checksum == '\0' || strcmp(checksum, sum) == 0);
        snprintf(checksum, sizeof checksum, "%s", sum);
        before = ms;
        rows++;
    }
    assert_int_equal(rows, 6);
    assert_int_equal(failed, 2);
    /* all fail: no table without a reason, and no success */
    status = run_in_folder("ptx",
                           "scale.ptx --emu --sweep BLOCK=2048,4096 --grid 1 --block BLOCK --arg zero:f32:8 "
                           "--arg iota:f32:8 --arg f32:2 --arg u32:8 --json");
    assert_int_equal(status, 1);
    assert_non_null(strstr(errors, "no combination of --sweep succeeded"));
    assert_non_null(strstr(output, "\"error\": \""));
    /* a kernel that is ended by force leaves the others alone */
    write_text("some.ptx", HEAD
               ".visible .entry spin ()\n{\n.if SPIN\nAGAIN:\n        bra AGAIN;\n.endif\n        ret;\n}\n");
    status = run_in_folder("ptx", "some.ptx --emu --sweep SPIN=1,0,2 --grid 1 --block 32 --timeout 0.5");
    expect(status, "did not end within 0.5 s");
    assert_non_null(strstr(output, "         0  "));
}

/* ---- watching ------------------------------------------------------------------------------------- */
/* Wait until the file has `text`, at most 20 s. */
static void await_output(const char *name, const char *text, const char *what)
{
    for (int i = 0; i < 2000; i++) {
        read_output(name, output);
        if (strstr(output, text) != NULL)
            return;
        usleep(10000);
    }
    fail_msg("%s: no \"%s\" in %s: %s", what, text, name, output);
}

static pid_t start_watching(const char *arguments)
{
    char line[16384];
    snprintf(line, sizeof line, "cd %s && exec %s %s >out 2>err", scratch_folder, binary, arguments);
    unlink(scratch_path("out"));
    write_text("out", "");
    write_text("err", "");
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", line, (char *)NULL);
        _exit(127);
    }
    return child;
}

static void watching_shows_what_changed(void **state)
{
    char changed[8192];
    int  status;
    (void)state;
    write_text("op.ptx", op_text);
    pid_t child = start_watching("ptx " RUN_SCALE
                                 "-DN=8 --watch --arg out:f32:N --arg iota:f32:N --arg f32:2 --arg u32:N");
    await_output("out", "0 2 4 6 8 10 12 14", "the first run");
    await_output("out", "watching  scale.ptx", "the first run");
    assert_null(strstr(output, "changed"));
    /* an included file, replaced */
    write_text("op.ptx",
               ".macro OP v, a\n        mul.f32 \\v, \\v, \\a;\n        add.f32 \\v, \\v, \\a;\n.endm\n");
    await_output("out", "2 4 6 8 10 12 14 16", "an included file");
    await_output("out", "outputs differ", "an included file");
    await_output("out", "instructions 16 -> 17 (+1)", "an included file");
    assert_non_null(strstr(output, "changed   time "));
    /* an error is shown, and watching goes on */
    snprintf(changed, sizeof changed, "%s.error \"not yet\"\n", scale_text);
    write_text("scale.ptx", changed);
    await_output("err", "not yet", "an error");
    write_text("op.ptx", op_text);
    snprintf(changed, sizeof changed, "// repaired\n%s", scale_text);
    write_text("scale.ptx", changed);
    await_output("out", "instructions 17 -> 16 (-1)", "the repair");
    assert_int_equal(kill(child, SIGINT), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    write_text("scale.ptx", scale_text);
}

/* Ctrl-C ends it while a kernel runs that does not. */
static void watching_survives_what_does_not_end(void **state)
{
    int status;
    (void)state;
    write_text("watched.ptx", loop_text);
    pid_t child = start_watching("ptx watched.ptx --emu --watch --grid 1 --block 32 --timeout 0.3");
    await_output("err", "did not end within 0.3 s", "a loop");
    write_text("watched.ptx", trap_text);
    await_output("err", "stop failed", "a trap");
    write_text("watched.ptx", HEAD ".visible .entry fine ()\n{\n        ret;\n}\n");
    await_output("out", "entry     fine", "the repair");
    write_text("watched.ptx", loop_text);
    usleep(200000);
    assert_int_equal(kill(child, SIGINT), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(run_in_folder("ptx", "gone.ptx --emu --watch --grid 1 --block 32"), 1);
    assert_non_null(strstr(errors, "gone.ptx cannot be read"));
}

/* ---- machine code --------------------------------------------------------------------------------- */
static void machine_code_is_the_gpus(void **state)
{
    (void)state;
    assert_int_equal(run_in_folder("ptx", "two.ptx --emu --no-run --sass"), 1);
    assert_non_null(strstr(errors, "there is no machine code here: the emulated driver executes PTX"));
}

/* An ELF file with the sections "", .shstrtab and .text.k: three instructions, a branch, two NOPs. */
struct small_elf {
    Elf64_Ehdr    header;
    Elf64_Shdr    sections[3];
    char          names[32];
    unsigned char code[6][16];
};

static void make_elf(struct small_elf *elf)
{
    static const char names[32] = "\0.shstrtab\0.text.k";
    static const int  opcodes[6] = {0x7919, 0x7224, 0x794d, 0x7947, 0x7918, 0x7918};
    memset(elf, 0, sizeof *elf);
    memcpy(elf->header.e_ident, ELFMAG, SELFMAG);
    elf->header.e_ident[EI_CLASS] = ELFCLASS64;
    elf->header.e_shoff = offsetof(struct small_elf, sections);
    elf->header.e_shnum = 3;
    elf->header.e_shstrndx = 1;
    elf->sections[1] = (Elf64_Shdr){.sh_name = 1,
                                    .sh_type = SHT_STRTAB,
                                    .sh_size = sizeof names,
                                    .sh_offset = offsetof(struct small_elf, names)};
    elf->sections[2] = (Elf64_Shdr){.sh_name = 11,
                                    .sh_type = SHT_PROGBITS,
                                    .sh_size = sizeof elf->code,
                                    .sh_offset = offsetof(struct small_elf, code)};
    memcpy(elf->names, names, sizeof names);
    for (int i = 0; i < 6; i++) {
        elf->code[i][0] = (unsigned char)opcodes[i];
        elf->code[i][1] = (unsigned char)(opcodes[i] >> 8);
    }
}

static void instructions_are_counted(void **state)
{
    struct small_elf elf;
    random_state     random = random_start(SEED);
    (void)state;
    make_elf(&elf);
    assert_int_equal(sass_count(&elf, sizeof elf, "k"), 3);
    assert_int_equal(sass_count(&elf, sizeof elf, "other"), 0);
    assert_int_equal(sass_count("this is no machine code", 23, "k"), 0);
    for (int i = 0; i < 100000; i++) { /* of its size, to the byte, so that a checker of memory sees more */
        size_t         bytes = random_below(&random, sizeof elf + 1);
        unsigned char *part = (unsigned char *)malloc(bytes + 1);
        assert_non_null(part);
        memcpy(part, &elf, bytes);
        for (uint64_t n = random_below(&random, 4); n > 0 && bytes > 0; n--)
            part[random_below(&random, bytes)] = (unsigned char)random_bits(&random);
        assert_in_range(sass_count(part, bytes, "k"), 0, 6);
        free(part);
    }
}

static bool print_to_file(int code, const char *entry, char line[SASS_LINE])
{
    int kept = dup(STDOUT_FILENO), file = open(scratch_path("sass"), O_RDWR | O_CREAT | O_TRUNC, 0666);
    fflush(stdout);
    assert_true(kept >= 0 && file >= 0 && dup2(file, STDOUT_FILENO) >= 0);
    bool ok = sass_print(code, entry, line);
    fflush(stdout);
    assert_true(dup2(kept, STDOUT_FILENO) >= 0);
    close(kept);
    close(file);
    read_output("sass", output);
    return ok;
}

static void a_disassembler_shows_the_code(void **state)
{
    char line[SASS_LINE] = "", path[4096];
    int  code;
    (void)state;
    snprintf(path, sizeof path, "%s", getenv("PATH"));
    write_text("code", "what is to be shown\n");
    write_text("tool", "#!/bin/sh\n[ \"$1\" = -c ] || exit 3\n"
                       "echo '//---------- .text.other ----------'\necho hidden\n"
                       "echo '//---------- .text.k ----------'\ncat \"$3\"\n"
                       "echo '//---------- .text.k2 ----------'\necho hidden\n");
    assert_int_equal(chmod(scratch_path("tool"), 0700), 0);
    code = open(scratch_path("code"), O_RDONLY);
    assert_true(code >= 0);
    setenv("PTXPACK_NVDISASM", scratch_path("tool"), 1);
    assert_true(print_to_file(code, "k", line));
    assert_string_equal(output, "//---------- .text.k ----------\nwhat is to be shown\n");
    assert_true(print_to_file(code, NULL, line));
    assert_int_equal(lines_of(output), 6);
    setenv("PTXPACK_NVDISASM", "/nowhere/nvdisasm", 1);
    assert_false(print_to_file(code, "k", line));
    assert_string_equal(line, "PTXPACK_NVDISASM: /nowhere/nvdisasm: No such file or directory");
    setenv("PTXPACK_NVDISASM", "/bin/false", 1);
    assert_false(print_to_file(code, "k", line));
    assert_string_equal(line, "/bin/false failed");
    unsetenv("PTXPACK_NVDISASM");
    setenv("PATH", scratch_folder, 1);
    assert_false(print_to_file(code, "k", line));
    assert_non_null(strstr(line, "neither is in the PATH"));
    /* of the PATH, cuobjdump where there is no nvdisasm; it chooses the function itself */
    write_text("cuobjdump", "#!/bin/sh\necho \"$1 $3 $4\"\n");
    assert_int_equal(chmod(scratch_path("cuobjdump"), 0700), 0);
    assert_true(print_to_file(code, "k", line));
    assert_string_equal(output, "-sass -fun k\n");
    setenv("PATH", path, 1);
    close(code);
}

/* ---- CUDA C++ ------------------------------------------------------------------------------------- */
static void without_nvrtc(void **state)
{
    (void)state;
    setenv("PTXPACK_NVRTC", "none", 1);
    int status = run_in_folder("nvrtc", "scale.cu --emu --grid 1 --block 32");
    unsetenv("PTXPACK_NVRTC");
    if (status != 1 || lines_of(errors) != 1 || output[0] != '\0' || strstr(errors, "NVRTC") == NULL)
        fail_msg("status %d: %s%s", status, errors, output);
}

#define RUN_CU "scale.cu --emu --grid 2 --block BLOCK -DBLOCK=32 "
/* More entries than are shown, and a name that is too long to be. */
static void many_entries(void)
{
    char text[8192];
    int  bytes = snprintf(text, sizeof text, "%s", "extern \"C\" {\n");
    for (int i = 0; i < 70; i++)
        bytes += snprintf(text + bytes, sizeof text - (size_t)bytes, "__global__ void k%d() {}\n", i);
    snprintf(text + bytes, sizeof text - (size_t)bytes, "}\n");
    write_text("many.cu", text);
    expect(run_in_folder("nvrtc", "many.cu --arch sm_90"), "          and 6 more entries\n");
    expect(run_in_folder("nvrtc", "many.cu --arch sm_90 --entry k69"), "entry     k69: ");
    assert_null(strstr(output, "k68"));
    assert_null(strstr(output, "more entries"));
    snprintf(text, sizeof text, "extern \"C\" __global__ void %0600d() {}\n", 0);
    text[strcspn(text, "0")] = 'n';
    write_text("long.cu", text);
    assert_int_equal(run_in_folder("nvrtc", "long.cu --arch sm_90"), 1);
    assert_non_null(strstr(errors, "long.cu: no name of an entry has less than 512 letters"));
}

static void with_nvrtc(void **state)
{
    (void)state;
    int status = run_in_folder("nvrtc", RUN_CU "--entry 'scale<float>' --arg out:f32:50 --arg iota:f32:50 "
                                               "--arg f32:3 --arg s32:50");
    if (status == 1 && strstr(errors, "no NVRTC library could be loaded") != NULL) {
        printf("SKIP: CUDA C++: %s", errors);
        skip();
    }
    expect(status, "0 3 6 9 12 15 18 21 ...");
    assert_non_null(strstr(output, "NVRTC"));
    expect(run_in_folder("nvrtc",
                         RUN_CU "--entry 'scale<double>' --arg out:f64:50 --arg iota:f64:50 --arg f64:0.5 "
                                "--arg s32:50"),
           "0 0.5 1 1.5 2 2.5 3 3.5 ...");
    expect(run_in_folder("nvrtc", RUN_CU "--entry plain --grid 1 --arg out:s32:32"), "0 1 2 3 4 5 6 7 ...");
    assert_int_equal(run_in_folder("nvrtc", RUN_CU "--entry 'scale<float>' --arg out:f32:50"), 2);
    assert_non_null(strstr(errors, "has no --arg: 1 were given, 4 are wanted"));
    assert_int_equal(run_in_folder("nvrtc", RUN_CU "--entry 'scale<float>' --arg out:f32:50 --arg f32:1"), 2);
    assert_non_null(strstr(errors, "has 8 bytes, not 4"));
    expect(run_in_folder("nvrtc", RUN_CU "--entry plain --grid 1 --arg out:s32:32 --option --use_fast_math"),
           NULL);
    assert_int_equal(run_in_folder("nvrtc", RUN_CU "--entry nothing --arg out:s32:32"), 1);
    expect(run_in_folder("nvrtc", "scale.cu -DBLOCK=32 --arch sm_90 --entry plain"), "entry     ");
    assert_int_equal(run_in_folder("nvrtc", "scale.cu -DBLOCK=32 --arch sm_90 --entry nothing"), 1);
    assert_non_null(strstr(errors, "scale.cu has no entry \"nothing\"; it has "));
    many_entries();
    assert_int_equal(run_in_folder("nvrtc", "scale.ptx --emu --grid 1 --block 1"), 1);
    assert_non_null(strstr(errors, "scale.ptx"));
}

/* ---- expand --------------------------------------------------------------------------------------- */
static void expanding_files(void **state)
{
    (void)state;
    expect(run_in_folder("expand", "scale.ptx -DBLOCK=96"), "mad.lo.u32 %i, %b, 96, %t;");
    assert_non_null(strstr(output, "mul.f32 %v, %v, %a;"));
    assert_int_equal(run_in_folder("expand", "scale.ptx"), 1);
    assert_non_null(strstr(errors, "BLOCK"));
    /* -I */
    assert_int_equal(mkdir(scratch_path("elsewhere"), 0777), 0);
    write_text("elsewhere/far.ptx", "// FAR\n.macro FAR\n        bar.sync 0;\n.endm\n");
    write_text("near.ptx", ".include \"far.ptx\"\nFAR\n");
    assert_int_equal(run_in_folder("expand", "near.ptx"), 1);
    expect(run_in_folder("expand", "near.ptx -I elsewhere"), "bar.sync 0;");
    expect(run_in_folder("expand", "near.ptx -Ielsewhere"), "bar.sync 0;");
    assert_int_equal(run_in_folder("expand", "vector_add_sm80 -I elsewhere"), 2);
    assert_non_null(strstr(errors, "-I goes with a file"));
    expect(run_in_folder("ptx", RUN_SCALE "-I elsewhere -DN=4 --no-run"), NULL);
}

/* ---- the parser of arguments ---------------------------------------------------------------------- */
static void fuzzed_arguments(void **state)
{
    static const char *const seeds[] = {
        "in:f16:128*64",
        "out:f32:(N+3)/4:y.npy",
        "inout:x.npy:y.npy",
        "u32:0x7f",
        "bytes:00ff",
        "s64:-9223372036854775808",
        "iota:s8:2*3",
        "f16:-1.5e3",
        "in:bf16:x.npy",
        "zero:u64:1048576",
        "e4m3:448",
        "u8:((((1))))",
        "inout:e4m3:N*N*N:z.npy",
        "+in:f16:N",
    };
    static const char alphabet[] = "0123456789abcdefx:*/+-%()., npyiutosfNzer\t\x01\xff";
    program_symbols   symbols = {.count = 1};
    random_state      random = random_start(SEED);
    size_t            good = 0, bad = 0;
    (void)state;
    symbols.list[0] = (ptxpack_symbol){"N", 12};
    for (int i = 0; i < 200000; i++) {
        char        spec[128], line[PROGRAM_LINE] = "";
        program_arg arg;
        snprintf(spec, sizeof spec, "%s", seeds[random_below(&random, sizeof seeds / sizeof seeds[0])]);
        for (size_t n = random_below(&random, 4); n > 0 && spec[0] != '\0'; n--) {
            size_t at = random_below(&random, strlen(spec)), length = strlen(spec);
            char   c = alphabet[random_below(&random, sizeof alphabet - 1)];
            switch (random_below(&random, 3)) {
            case 0:
                spec[at] = c;
                break;
            case 1:
                memmove(spec + at, spec + at + 1, length - at);
                break;
            default:
                memmove(spec + at + 1, spec + at, length - at + 1);
                spec[at] = c;
            }
        }
        if (program_arg_parse(spec, &symbols, &arg, line)) {
            good++;
            assert_true(arg.value != NULL || arg.from != NULL || arg.count > 0);
            assert_true(arg.count <= (size_t)1 << 40);
            size_t product = 1;
            for (int k = 0; k < arg.rank; k++)
                product *= (size_t)arg.shape[k];
            if (program_arg_is_buffer(&arg) && arg.from == NULL && product != arg.count)
                fail_msg("%s: a shape of %zu elements, not %zu", spec, product, arg.count);
        } else {
            bad++;
            if (strncmp(line, "--arg ", 6) != 0 || strstr(line, spec) == NULL)
                fail_msg("%s: \"%s\"", spec, line);
        }
        program_arg_free(&arg);
    }
    assert_true(good > 20000 && bad > 20000); /* it is neither all one nor all the other */
}

static int start(void **state)
{
    static float x[8];
    const char  *named = getenv("PTXPACK_BINARY");
    if (scratch_open(state) != 0 || realpath(named != NULL ? named : "build/ptxpack", binary) == NULL)
        return -1;
    setenv("PTXPACK_CACHE_DIR", scratch_path("cache"), 1);
    write_text("scale.ptx", scale_text);
    write_text("op.ptx", op_text);
    write_text("two.ptx", two_text);
    write_text("members.ptx", members_text);
    write_text("shared.ptx", shared_text);
    write_text("trap.ptx", trap_text);
    write_text("loop.ptx", loop_text);
    write_text("race.ptx", race_text);
    write_text("scale.cu", scale_cu);
    write_text("scale.npy", "this is text");
    write_text("broken.ptx", HEAD ".visible .entry broken ()\n{ garbage in here;\n}\n");
    write_floats("bytes.npy", x, 8);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_the_kernels),
        cmocka_unit_test(the_second_time_it_is_in_the_cache),
        cmocka_unit_test(products_are_shapes),
        cmocka_unit_test(structs_and_values_arrive),
        cmocka_unit_test(members_of_structs_lie_as_in_c),
        cmocka_unit_test(shared_memory_and_shapes),
        cmocka_unit_test(seeds_repeat),
        cmocka_unit_test(compiling_only),
        cmocka_unit_test(as_on_a_gpu),
        cmocka_unit_test(refusals_are_one_line),
        cmocka_unit_test(a_trap_is_one_line),
        cmocka_unit_test(what_does_not_end_is_ended),
        cmocka_unit_test(a_sweep_is_sorted_by_time),
        cmocka_unit_test(watching_shows_what_changed),
        cmocka_unit_test(watching_survives_what_does_not_end),
        cmocka_unit_test(machine_code_is_the_gpus),
        cmocka_unit_test(instructions_are_counted),
        cmocka_unit_test(a_disassembler_shows_the_code),
        cmocka_unit_test(without_nvrtc),
        cmocka_unit_test(with_nvrtc),
        cmocka_unit_test(expanding_files),
        cmocka_unit_test(fuzzed_arguments),
    };
    return cmocka_run_group_tests(tests, start, scratch_close);
}
