/* plan.c - `ptxpack plan`: what it prints, its JSON compared with figures that are worked out here, every
 * architecture and width of head, bad options. */
#include "host/attention/inspect.h"
#include "command_fixture.h"
#include "loader/registry.h"

static int run(const char *arguments) { return run_command("plan", arguments); }

/* ---- members of the JSON ------------------------------------------------------------------------------ */
/* Returns the text after the first "key": in `text`. */
static const char *member(const char *text, const char *key)
{
    char pattern[64];
    snprintf(pattern, sizeof pattern, "\"%s\": ", key);
    const char *at = strstr(text, pattern);
    if (at == NULL)
        fail_msg("there is no \"%s\" in %s", key, text);
    return at + strlen(pattern);
}

static double number(const char *text, const char *key)
{
    char  *end;
    double value = strtod(member(text, key), &end);
    if (*end != ',' && *end != '\n')
        fail_msg("\"%s\" is no number: %.40s", key, member(text, key));
    return value;
}

static int64_t integer_in(const char *text, const char *key)
{
    double value = number(text, key);
    assert_true(value == (double)(int64_t)value);
    return (int64_t)value;
}

static int64_t integer(const char *key) { return integer_in(output, key); }

/* Returns a text without escapes, in one of a few static buffers. */
static const char *words(const char *key)
{
    static char texts[4][256];
    static int  turn;
    const char *at = member(output, key);
    char       *text = texts[turn++ % 4];
    assert_int_equal(*at, '"');
    snprintf(text, sizeof texts[0], "%.*s", (int)strcspn(at + 1, "\""), at + 1);
    return text;
}

static int count_of(const char *text, const char *what)
{
    int count = 0;
    while ((text = strstr(text, what)) != NULL)
        text += strlen(what), count++;
    return count;
}

static void assert_near(const char *key, double wanted, double relative)
{
    double value = number(output, key), off = value > wanted ? value - wanted : wanted - value;
    if (!(off <= relative * wanted))
        fail_msg("%s is %.10g, not %.10g", key, value, wanted);
}

/* Removes the lines from "choice" to the next empty one from the output. */
static const char *cut_choice(void)
{
    static char choice[4096];
    char       *from = strstr(output, "choice     estimated us, and why\n");
    assert_non_null(from);
    char *to = strstr(from, "\n\n");
    assert_non_null(to);
    snprintf(choice, sizeof choice, "%.*s", (int)(to + 1 - from), from);
    memmove(from, to + 1, strlen(to + 1) + 1);
    return choice;
}

/* The line of that list for the row that the model takes; tests/host/attention/cost.c tests the model. */
static const char *fastest_line(const char *id, int arch, const ptxpack_attention_desc *desc)
{
    static char               text[256];
    const ptxpack_device_caps caps = {.arch = arch};
    const ptxpack_variant    *row = ptxpack_variant_find(id);
    attention_geometry        geometry;
    char                      line[PLAN_LINE];
    assert_non_null(row);
    assert_int_equal(ptxpack_attention_resolve(desc, &geometry, line), PTXPACK_OK);
    snprintf(text, sizeof text, "\n  %-37s %7.4g  the fastest by the model\n", id,
             attention_cost(row, desc, &geometry, &caps, 0));
    return text;
}

/* ---- the text ----------------------------------------------------------------------------------------- */
static void a_plan_for_sm_90(void **state)
{
    /* clang-format off */
    const ptxpack_attention_desc desc = {
        .size = sizeof desc, .dtype = PTXPACK_F16, .batch = 2, .seqlen_q = 2048, .seqlen_kv = 2048,
        .heads_q = 16, .heads_kv = 16, .head_dim = 128,
    };
    /* clang-format on */
    (void)state;
    assert_int_equal(run("attention --arch sm_90 --no-compile"), 0);
    assert_string_equal(errors, "");
    const char *choice = cut_choice();
    assert_non_null(strstr(choice, fastest_line("attention_mma_sm80_d128_128x48", 90, &desc)));
    assert_non_null(strstr(choice, "\n  attention_wgmma_sm90_d128_"));
    assert_non_null(strstr(choice, "  no  needs exactly sm_90a, the target is sm_90\n"));
    assert_null(strstr(choice, "mma_sm75"));
    assert_string_equal(
        output,
        "problem    f16, batch 2, 2048 x 2048 (queries x keys), 16 query heads on 16, head_dim "
        "128, full\n"
        "target     sm_90, no device\n"
        "variant    attention_mma_sm80_d128_128x48: attention/mma.ptx, from sm_80, PTX 7.0\n"
        "tiles      128 queries x 48 keys, 2 stages; 4 warps of 32 rows; 512 blocks, 2 an SM\n"
        "\n"
        "layouts    (row, column) -> element\n"
        "  Q, O     Sw<3,3,4> o 0 o (128,128):(128,1)\n"
        "  K, V     Sw<3,3,4> o 0 o (48,128):(128,1)\n"
        "  MMA      SM80_16x8x16_F32F16F16F32_TN, atoms (32,4,1,1):(1,32,0,0), tile "
        "<(16,4,2):(1,32,16),16,16>\n"
        "\n"
        "accesses   (thread, step along rows, along columns) -> element before the swizzle\n"
        "  Q to shared memory    16 bytes, SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>: "
        "((8,16),8,2):((8,128),2048,64)\n"
        "                        0 bank conflicts in 256 phases\n"
        "  K, V to shared memory 16 bytes, SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>: "
        "((8,16),3,2):((8,128),2048,64)\n"
        "                        0 bank conflicts in 96 phases\n"
        "  Q fragments           16 bytes, SM75_U32x4_LDSM_N: ((16,2,4),2,8):((128,8,4096),2048,16)\n"
        "                        0 bank conflicts in 256 phases\n"
        "  K fragments           16 bytes, SM75_U32x4_LDSM_N: ((8,2,2,4),3,8):((128,8,1024,0),2048,16)\n"
        "                        0 bank conflicts in 384 phases\n"
        "  V fragments           16 bytes, SM75_U16x8_LDSM_T: ((16,2,4),3,8):((128,8,0),2048,16)\n"
        "                        0 bank conflicts in 384 phases\n"
        "  O to shared memory     4 bytes, st.shared.b32: ((4,8,4),4,16):((2,128,4096),1024,8)\n"
        "                        0 bank conflicts in 256 phases\n"
        "  O to global memory    16 bytes, UniversalCopy<uint128_t>: ((8,4,4),8,2):((8,128,4096),512,64)\n"
        "                        0 bank conflicts in 256 phases\n"
        "\n"
        "shared memory, bytes\n"
        "     from   bytes\n"
        "        0   32768  Q, later O\n"
        "    32768   12288  K, stage 0\n"
        "    45056   12288  K, stage 1\n"
        "    57344   12288  V, stage 0\n"
        "    69632   12288  V, stage 1\n"
        "            81920  a block, 163840 for 2 blocks\n"
        "\n"
        "registers  at most 255 a thread for 2 blocks an SM; not compiled: --no-compile\n"
        "FLOPs      6.872e+10\n"
        "bytes      6.737e+07, each input read once and each output written once: 1020 FLOPs a byte\n"
        "roofline   no device; assuming one H200: 989.4 TFLOP/s, 4800 GB/s, ridge at 206.1 FLOPs a byte\n"
        "           arithmetic 0.06945 ms, memory 0.01404 ms: bound by arithmetic\n");
}

static void a_plan_for_sm_75(void **state)
{
    /* clang-format off */
    const ptxpack_attention_desc desc = {
        .size = sizeof desc, .dtype = PTXPACK_F16, .batch = 2, .seqlen_q = 100, .seqlen_kv = 100,
        .heads_q = 16, .heads_kv = 16, .head_dim = 64, .mask = PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT,
    };
    /* clang-format on */
    char choice[256];
    (void)state;
    assert_int_equal(run("attention --arch sm_75 --no-compile --head-dim 64 --seqlen-q 100 --causal"), 0);
    assert_string_equal(errors, "");
    snprintf(choice, sizeof choice, "choice     estimated us, and why%s",
             fastest_line("attention_mma_sm75_d64_128x64", 75, &desc));
    const char *cut = cut_choice();
    assert_int_equal(strncmp(cut, choice, strlen(choice)), 0);
    /* nothing else can be taken: the other rows are for few queries */
    assert_int_equal(count_of(cut, "\n") - 2, count_of(cut, " no  100 query rows share a key head"));
    assert_string_equal(
        output,
        "problem    f16, batch 2, 100 x 100 (queries x keys), 16 query heads on 16, head_dim 64, "
        "causal bottom-right\n"
        "target     sm_75, no device\n"
        "variant    attention_mma_sm75_d64_128x64: attention/mma.ptx, from sm_75, PTX 6.5\n"
        "tiles      128 queries x 64 keys, 1 stage; 4 warps of 32 rows; 32 blocks, 2 an SM\n"
        "\n"
        "layouts    (row, column) -> element\n"
        "  Q, O     Sw<3,3,3> o 0 o (128,64):(64,1)\n"
        "  K, V     Sw<3,3,3> o 0 o (64,64):(64,1)\n"
        "  MMA      SM75_16x8x8_F32F16F16F32_TN, two for 16 k, atoms (32,4,1,1):(1,32,0,0), tile "
        "<(16,4,2):(1,32,16),16,16>\n"
        "\n"
        "accesses   (thread, step along rows, along columns) -> element before the swizzle\n"
        "  Q to shared memory    16 bytes, UniversalCopy<uint128_t>: ((8,16),8,1):((8,64),1024,0)\n"
        "                        0 bank conflicts in 128 phases\n"
        "  K, V to shared memory 16 bytes, UniversalCopy<uint128_t>: ((8,16),4,1):((8,64),1024,0)\n"
        "                        0 bank conflicts in 64 phases\n"
        "  Q fragments           16 bytes, SM75_U32x4_LDSM_N: ((16,2,4),2,4):((64,8,2048),1024,16)\n"
        "                        0 bank conflicts in 128 phases\n"
        "  K fragments           16 bytes, SM75_U32x4_LDSM_N: ((8,2,2,4),4,4):((64,8,512,0),1024,16)\n"
        "                        0 bank conflicts in 256 phases\n"
        "  V fragments           16 bytes, SM75_U16x8_LDSM_T: ((16,2,4),4,4):((64,8,0),1024,16)\n"
        "                        0 bank conflicts in 256 phases\n"
        "  O to shared memory     4 bytes, st.shared.b32: ((4,8,4),4,8):((2,64,2048),512,8)\n"
        "                        0 bank conflicts in 128 phases\n"
        "  O to global memory    16 bytes, UniversalCopy<uint128_t>: ((8,4,4),8,1):((8,64,2048),256,0)\n"
        "                        0 bank conflicts in 128 phases\n"
        "\n"
        "shared memory, bytes\n"
        "     from   bytes\n"
        "        0   16384  Q, later O\n"
        "    16384    8192  K, stage 0\n"
        "    24576    8192  V, stage 0\n"
        "            32768  a block, 65536 for 2 blocks\n"
        "\n"
        "registers  at most 255 a thread for 2 blocks an SM; not compiled: --no-compile\n"
        "FLOPs      4.137e+07\n"
        "bytes      1.651e+06, each input read once and each output written once: 25.05 FLOPs a byte\n"
        "roofline   no device; assuming one T4: 65.13 TFLOP/s, 320 GB/s, ridge at 203.5 FLOPs a byte\n"
        "           arithmetic 0.0006352 ms, memory 0.00516 ms: bound by memory\n");
}

/* ---- wgmma -------------------------------------------------------------------------------------------- */
/* The row of 128 columns with tiles of 64 rows. */
static const ptxpack_variant *row_of_64(void)
{
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].file, "attention/wgmma.ptx") == 0 &&
            ptxpack_variant_parameter(&rows[i], "HEAD_DIM", 0) == 128 &&
            ptxpack_variant_parameter(&rows[i], "FP8", 0) == 0 &&
            ptxpack_variant_parameter(&rows[i], "BLOCK_M", 0) == 64)
            return &rows[i];
    fail_msg("there is no such row");
    return NULL;
}

static void has(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void has(const char *format, ...)
{
    char    text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (strstr(output, text) == NULL)
        fail_msg("no \"%s\" in %s", text, output);
}

/* Checks that pieces follow one another, up to the size that the row needs. */
static void shared_memory_adds_up(const ptxpack_variant *row)
{
    long long   from, bytes, next = 0;
    int         used;
    const char *at = strstr(output, "   from   bytes\n");
    assert_non_null(at);
    for (at = strchr(at, '\n') + 1; sscanf(at, "%lld %lld %n", &from, &bytes, &used) == 2;
         at = strchr(at, '\n') + 1) {
        assert_in_range(from, next, next + 15); /* messages are aligned to 16 bytes */
        next = from + bytes;
    }
    assert_int_equal(strtoll(at, NULL, 10), row->shared_bytes);
    assert_int_equal(next, row->shared_bytes);
}

static void a_plan_of_wgmma(void **state)
{
    (void)state;
    const ptxpack_variant *row = row_of_64();
    int                    n = (int)ptxpack_variant_parameter(row, "BLOCK_N", 0), tile = n * 256;
    char                   arguments[256];
    snprintf(arguments, sizeof arguments,
             "attention --arch sm_90a --no-compile --variant %s --dtype bf16 "
             "--seqlen-q 1000 --heads-kv 4",
             row->id);
    assert_int_equal(run(arguments), 0);
    assert_string_equal(errors, "");
    const char *choice = cut_choice();
    assert_non_null(strstr(choice, "named by --variant\n"));
    assert_non_null(strstr(choice, "\n  attention_mma_sm80_d128_128x48 "));
    has("target     sm_90a, no device\n");
    has("variant    %s: attention/wgmma.ptx, only sm_90a, PTX 8.0\n", row->id);
    has("tiles      64 queries x %d keys; ", n);
    has("           1 warpgroup of 64 rows, ");
    has("; 512 tiles, ");
    has("  Q        Sw<3,3,3> o 0 o ((8,8),(64,2)):((64,512),(1,4096))\n");
    has("  QK       SM90_64x%dx16_F32BF16BF16_", n);
    has("  PV       SM90_64x128x16_F32BF16BF16_RS, atoms (128,1,1,1):(1,0,0,0): P from registers, ");
    has("  Q        0x4000004000010000: K-major, leading 16, stride 1024 bytes, swizzle 128B; steps "
        "(1,(4,2)):(0,(2,512))\n");
    has("  K        0x4000004000010000: K-major, leading 16, stride 1024 bytes, swizzle 128B; steps "
        "(1,(4,2)):(0,(2,%d))\n",
        n * 8);
    has(": MN-major, leading %d, stride 1024 bytes, swizzle 128B; steps (1,%d):(0,128)\n", n * 128, n / 16);
    has("  q        bf16 {128, 1000, 16, 2}, strides {4096, 256, 4096000} bytes; box {64, 64, 1, 1}, 2 a "
        "tile of "
        "16384 bytes\n");
    has("  v        bf16 {128, 1000, 4, 2}, strides {1024, 256, 1024000} bytes; box {64, %d, 1, 1}, 2 a tile "
        "of "
        "%d bytes\n",
        n, tile);
    has("  o        bf16 {128, 1000, 16, 2}, strides {4096, 256, 4096000} bytes; box {64, 16, 1, 1}, ");
    has("  O to shared memory    16 bytes, SM90_U32x4_STSM_N: ");
    has("                        0 bank conflicts in 64 phases\n");
    has("        0   16384  Q, stage 0\n");
    has("  mbarrier%s Q_FULL\n", ptxpack_variant_parameter(row, "Q_STAGES", 0) > 1 ? "s" : "");
    has("  mbarriers K_FULL\n");
    has("  mbarrier DONE\n");
    has("bound by arithmetic\n");
    shared_memory_adds_up(row);
}

/* Checks what must hold for all rows of wgmma. */
static void wgmma_is_planned_for_every_head(void **state)
{
    static const int head_dims[] = {40, 64, 72, 96, 128, 136, 192, 256};
    (void)state;
    for (size_t i = 0; i < sizeof head_dims / sizeof head_dims[0]; i++) {
        char arguments[100];
        snprintf(arguments, sizeof arguments, "attention --arch sm_90a --head-dim %d --no-compile --json%s",
                 head_dims[i], i % 2 ? " --causal" : "");
        assert_int_equal(run(arguments), 0);
        const ptxpack_variant *row = ptxpack_variant_find(words("variant"));
        assert_non_null(row);
        assert_string_equal(row->file, "attention/wgmma.ptx");
        assert_true(ptxpack_variant_parameter(row, "HEAD_DIM", 0) >= head_dims[i]);
        assert_int_equal(integer("block_m"), 64 * integer("warpgroups"));
        assert_int_equal(32 * integer("warps"), row->threads);
        assert_int_equal(integer("blocks"), (2048 + integer("block_m") - 1) / integer("block_m") * 2 * 16);
        assert_int_equal(integer_in(member(output, "shared_memory"), "bytes"), row->shared_bytes);
        assert_int_equal(count_of(output, "\"conflicts\": 0\n"),
                         1 + ptxpack_variant_parameter(row, "Q_REGISTERS", 0));
        assert_int_equal(count_of(output, "\"tensor\": "), 4);
        assert_int_equal(count_of(output, "\"operand\": "), 3);
        assert_int_equal(count_of(output, "\"swizzle\": \"128B\""), 3);
        assert_int_equal(count_of(output, "the fastest by the model") +
                             count_of(output, "about as fast as any, and first in the table"),
                         1);
        const char *candidates = member(output, "candidates");
        assert_true(number(candidates, "estimated_us") > 0);
        assert_true(integer("registers_producer") * 128 +
                        integer("registers_consumer") * 2 * integer("block_m") <=
                    65536);
    }
}

/* The list gives the reason when TMA cannot be used. */
static void the_list_says_why_not(void **state)
{
    (void)state;
    assert_int_equal(run("attention --arch sm_90 --no-compile --json"), 0);
    assert_non_null(strstr(output, "\"why\": \"needs exactly sm_90a, the target is sm_90\""));
    char arguments[128], why[256];
    snprintf(arguments, sizeof arguments, "attention --arch sm_90 --variant %s", row_of_64()->id);
    snprintf(why, sizeof why, "plan: --variant: %s needs exactly sm_90a, the target is sm_90", row_of_64()->id);
    refuses("plan", arguments, 1, why);
    assert_int_equal(run("attention --arch sm_86 --no-compile"), 0);
    assert_non_null(strstr(cut_choice(), "attention_mma_sm80_d128_128x48             no  needs 2 blocks per "));
}

/* ---- JSON --------------------------------------------------------------------------------------------- */
static void json_has_the_members(void **state)
{
    (void)state;
    assert_int_equal(run("attention --arch sm_80 --no-compile --json --batch 3 --seqlen-q 100 --seqlen-kv 77 "
                         "--heads-q 6 --heads-kv 2 --head-dim 72 --dtype bf16 --causal top-left"),
                     0);
    /* clang-format off */
    static const char *const texts[][2] = {
        {"dtype", "bf16"}, {"mask", "causal top-left"}, {"target", "sm_80, no device"},
        {"variant", "attention_mma_sm80_d96_128x64"}, {"atom", "SM80_16x8x16_F32BF16BF16F32_TN"},
        {"atoms", "(32,4,1,1):(1,32,0,0)"}, {"machine", "no device; assuming one A100 80 GB"},
    };
    /* clang-format on */
    static const struct {
        const char *key;
        int64_t     value;
    } integers[] = {
        {"batch", 3},    {"seqlen_q", 100}, {"seqlen_kv", 77}, {"heads_q", 6},
        {"heads_kv", 2}, {"head_dim", 72},  {"block_m", 128},  {"block_n", 64},
        {"stages", 1},   {"warps", 4},      {"blocks", 3 * 6}, {"blocks_per_sm", 2},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_string_equal(words(texts[i][0]), texts[i][1]);
    for (size_t i = 0; i < sizeof integers / sizeof integers[0]; i++)
        assert_int_equal(integer(integers[i].key), integers[i].value);
    assert_int_equal(run("attention --arch sm_80 --no-compile --json --seqlen-q 129 --batch 1 --heads-q 1"), 0);
    assert_int_equal(integer("blocks"), 2);
    assert_string_equal(words("mask"), "full");
    assert_string_equal(words("atom"), "SM80_16x8x16_F32F16F16F32_TN");
}

/* Checks what must hold for every row. */
static void judge(int arch, int head_dim)
{
    const ptxpack_variant *row = ptxpack_variant_find(words("variant"));
    assert_non_null(row);
    assert_true(row->arch <= arch);
    int64_t d = ptxpack_variant_parameter(row, "HEAD_DIM", 0), m = integer("block_m"), n = integer("block_n");
    int64_t stages = integer("stages"), stage = integer("stage_bytes");
    const char *map = member(output, "shared_memory");
    assert_true(d >= head_dim);
    assert_int_equal(integer_in(map, "q"), 0);
    assert_int_equal(integer_in(map, "k"), 2 * d * m);
    assert_int_equal(stage, 2 * d * n);
    assert_int_equal(integer_in(map, "v"), integer_in(map, "k") + stages * stage);
    assert_int_equal(integer_in(map, "bytes"), 2 * d * (m + 2 * stages * n));
    assert_int_equal(row->shared_bytes, 2 * d * (m + 2 * stages * n));
    assert_int_equal(count_of(output, "\"conflicts\": 0\n"), 7);
    assert_int_equal(count_of(output, "\"conflicts\": "), 7);
    assert_int_equal(count_of(output, "\"phases\": 0"), 0);
    /* 65536 registers of an SM, given to warps by 256; a thread can name 255. */
    int64_t warps = integer("warps") * integer("blocks_per_sm"), registers = 256;
    assert_int_equal(32 * integer("warps"), row->threads);
    while (registers * 32 * warps > 65536)
        registers -= 8;
    assert_int_equal(integer("register_budget"), registers > 255 ? 255 : registers);
}

static const int arches[] = {75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121};

static void all_architectures_and_heads(void **state)
{
    static const int head_dims[] = {8, 32, 40, 64, 96, 128, 136, 192, 256};
    (void)state;
    for (size_t a = 0; a < sizeof arches / sizeof arches[0]; a++)
        for (size_t i = 0; i < sizeof head_dims / sizeof head_dims[0]; i++) {
            char arguments[100];
            snprintf(arguments, sizeof arguments, "attention --arch sm_%d --head-dim %d --no-compile --json",
                     arches[a], head_dims[i]);
            if (run(arguments) != 0)
                fail_msg("%s: %s", arguments, errors);
            judge(arches[a], head_dims[i]);
        }
}

/* The map of the text, line by line. */
static void the_map_of_shared_memory_adds_up(void **state)
{
    (void)state;
    for (size_t a = 0; a < sizeof arches / sizeof arches[0]; a++) {
        char      arguments[100];
        long long from, bytes, next = 0;
        int       lines = 0, used;
        snprintf(arguments, sizeof arguments, "attention --arch sm_%d --no-compile", arches[a]);
        assert_int_equal(run(arguments), 0);
        const char *at = strstr(output, "   from   bytes\n");
        assert_non_null(at);
        for (at = strchr(at, '\n') + 1; sscanf(at, "%lld %lld %n", &from, &bytes, &used) == 2; lines++) {
            assert_int_equal(from, next);
            next += bytes;
            at = strchr(at, '\n') + 1;
        }
        assert_true(lines >= 3);
        assert_int_equal(strtoll(at, NULL, 10), next);
    }
}

/* ---- the roofline ------------------------------------------------------------------------------------- */
/* Dense f16 (e4m3) with f32 sums and the memory, from the data sheets of the parts that stand in. */
static void machines_have_the_rates_of_data_sheets(void **state)
{
    static const struct {
        const char *arch;
        double      tflops, gbps;
    } parts[] = {
        {"sm_75", 65, 320},      {"sm_80", 312, 2039},
        {"sm_86", 149.7, 696},   {"sm_87", 149.7, 696},
        {"sm_89", 362, 864},     {"sm_90", 989.5, 4800},
        {"sm_100", 2250, 8000},  {"sm_103", 2250, 8000},
        {"sm_120", 209.5, 1792}, {"sm_90a --dtype e4m3", 1979, 4800},
    };
    (void)state;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        char arguments[100];
        snprintf(arguments, sizeof arguments, "attention --arch %s --no-compile --json", parts[i].arch);
        assert_int_equal(run(arguments), 0);
        assert_near("tflops", parts[i].tflops, 0.005);
        assert_near("gbps", parts[i].gbps, 1e-9);
    }
}

/* Counts the pairs that the mask keeps, one by one, with 4 FLOPs for each pair and dimension; each tensor is
 * moved once, and so are the sums. */
static void figures_are_worked_out_again(void **state)
{
    static const struct {
        const char *mask;
        int         batch, sq, skv, hq, hkv, d, late; /* query i sees keys up to i + late */
    } problems[] = {
        {"", 2, 2048, 2048, 16, 16, 128, 1 << 20},
        {"--causal", 1, 300, 1000, 8, 2, 64, 700},
        {"--causal top-left", 3, 257, 129, 4, 1, 72, 0},
        {"--causal", 2, 500, 200, 2, 2, 256, -300},
    };
    (void)state;
    for (size_t p = 0; p < sizeof problems / sizeof problems[0]; p++) {
        int    batch = problems[p].batch, sq = problems[p].sq, skv = problems[p].skv, d = problems[p].d;
        double pairs = 0, heads = (double)batch * problems[p].hq, key_heads = (double)batch * problems[p].hkv;
        for (int i = 0; i < sq; i++)
            for (int j = 0; j < skv; j++)
                pairs += j <= i + problems[p].late;
        double flops = 4 * pairs * d * heads;
        double bytes = 2 * heads * sq * d * 2 + 2 * key_heads * skv * d * 2 + heads * sq * 4;
        char   arguments[256], of_bytes[64];
        snprintf(arguments, sizeof arguments,
                 "attention --arch sm_80 --no-compile --json --tflops 250 --gbps 2000 --batch %d "
                 "--seqlen-q %d --seqlen-kv %d --heads-q %d --heads-kv %d --head-dim %d %s",
                 batch, sq, skv, problems[p].hq, problems[p].hkv, d, problems[p].mask);
        assert_int_equal(run(arguments), 0);
        assert_near("flops", flops, 1e-9);
        snprintf(of_bytes, sizeof of_bytes, "\n  \"bytes\": %.10g,", bytes); /* others are nested deeper */
        assert_non_null(strstr(output, of_bytes));
        assert_near("tflops", 250, 1e-9);
        assert_near("gbps", 2000, 1e-9);
        assert_near("arithmetic_ms", flops / 250e12 * 1e3, 1e-9);
        assert_near("memory_ms", bytes / 2000e9 * 1e3, 1e-9);
    }
}

/* The slower of both is the bound; numbers of any size are readable. */
static void the_text_has_the_same_figures(void **state)
{
    (void)state;
    static const char *const rates[][3] = {
        {"--tflops 1e9 --gbps 1e-6", ": 1e+09 TFLOP/s, 1e-06 GB/s, ridge at 1e+18 FLOPs a byte\n",
         "arithmetic 6.872e-08 ms, memory 6.737e+07 ms: bound by memory\n"},
        {"--tflops 0.5 --gbps 2.5", ": 0.5 TFLOP/s, 2.5 GB/s, ridge at 200 FLOPs a byte\n",
         "arithmetic 137.4 ms, memory 26.95 ms: bound by arithmetic\n"},
    };
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        char arguments[100];
        snprintf(arguments, sizeof arguments, "attention --arch sm_90 --no-compile %s", rates[i][0]);
        assert_int_equal(run(arguments), 0);
        for (int j = 1; j < 3; j++)
            if (strstr(output, rates[i][j]) == NULL)
                fail_msg("%s: no \"%s\" in %s", rates[i][0], rates[i][j], output);
    }
}

/* ---- the compiler ------------------------------------------------------------------------------------- */
static void the_compiler_keeps_to_the_budget(void **state)
{
    (void)state;
    assert_int_equal(run("attention --arch sm_80 --json"), 0);
    if (strstr(output, "\"registers\": ") == NULL) {
        assert_int_equal(run("attention --arch sm_80"), 0);
        assert_non_null(strstr(output, "; not compiled: "));
        print_message("SKIP: test_plan_command: no compiler of PTX\n");
        skip();
    }
    assert_in_range(integer("registers"), 1, integer("register_budget"));
    assert_int_equal(integer("spill_store_bytes"), 0);
}

/* ---- what is refused ---------------------------------------------------------------------------------- */
static void bad_options_are_one_line(void **state)
{
    static const struct {
        const char *arguments, *reason;
        int         status;
    } cases[] = {
        {"", "plan: expected \"attention\", \"gemm\" or \"parallel\" (try --help)", 2},
        {"vector_add", "plan: expected \"attention\", \"gemm\" or \"parallel\" (try --help)", 2},
        {"attention attention", "plan: expected \"attention\", \"gemm\" or \"parallel\" (try --help)", 2},
        {"attention --nonsense", "plan: unknown option --nonsense", 2},
        {"attention --arch sm_7", "plan: arch: ", 2},
        {"attention --arch sm_80 --variant x", "--variant: \"x\" is not a kernel of attention", 2},
        {"attention --arch sm_80 --variant vector_add_sm80", "\"vector_add_sm80\" is not a kernel of attention",
         2},
        {"attention --arch sm_80 --variant attention_mma_sm80_d64_128x64",
         "--variant: attention_mma_sm80_d64_128x64 is for head_dim up to 64", 2},
        {"attention --arch sm_80 --variant attention_mma_sm75_d128_64x64 --dtype bf16",
         "--variant: the instructions of attention_mma_sm75_d128_64x64 have no bf16 form", 2},
        {"attention --arch sm_75 --variant attention_mma_sm80_d128_128x32",
         "--variant: attention_mma_sm80_d128_128x32 needs sm_80", 1},
        {"attention --arch sm_75 --dtype bf16", "plan: no attention kernel for dtype bf16", 1},
        {"attention --tflops 0", "plan: --tflops: 0 is not between 1e-6 and 1e9", 2},
        {"attention --tflops -1", "plan: --tflops: -1 is not between", 2},
        {"attention --tflops 1.1e9", "plan: --tflops: 1.1e+09 is not between", 2},
        {"attention --gbps 0", "plan: --gbps: 0 is not between", 2},
        {"attention --gbps 9e-7", "plan: --gbps: 9e-07 is not between", 2},
        {"attention --gbps nan", "plan: option --gbps: \"nan\" is not a number", 2},
        {"attention --gbps x", "plan: option --gbps: \"x\" is not a number", 2},
        {"attention --head-dim 12", "plan: head_dim", 2},
        {"attention --batch 0", "plan: --batch: 0 is not between 1 and ", 2},
        {"attention --causal left", "plan: --causal: \"left\" is neither", 2},
        {"attention --dtype f32", "plan: --dtype: \"f32\" is not f16, bf16 or e4m3", 2},
        {"attention --heads-q 3 --heads-kv 2", "plan: heads", 2},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refuses("plan", cases[i].arguments, cases[i].status, cases[i].reason);
}

/* A row for older GPUs is planned, too, if it can run. */
static void a_row_can_be_named(void **state)
{
    (void)state;
    assert_int_equal(run("attention --arch sm_90 --no-compile --json --head-dim 40 "
                         "--variant attention_mma_sm75_d96_64x64"),
                     0);
    judge(90, 40);
    assert_string_equal(words("variant"), "attention_mma_sm75_d96_64x64");
    assert_string_equal(words("atom"), "SM75_16x8x8_F32F16F16F32_TN");
}

/* 1000 x 520 in tiles of 128 x 256: 8 times 3; A 1000 x 72, B 72 x 520, C and D once. */
static void a_plan_of_gemm(void **state)
{
    (void)state;
    assert_int_equal(run("gemm --arch sm_90a --no-compile --json -m 1000 -n 520 -k 72 --batch 2 --c "
                         "--variant gemm_wgmma_sm90_128x256_2x1"),
                     0);
    assert_string_equal(words("variant"), "gemm_wgmma_sm90_128x256_2x1");
    assert_int_equal(integer("tiles"), 2 * 8 * 3);
    assert_int_equal(integer("flops"), 2 * 2LL * 1000 * 520 * 72);
    assert_int_equal(integer("bytes"), 2 * 2LL * (1000 * 72 + 72 * 520 + 2 * 1000 * 520));
    assert_int_equal(run("gemm --arch sm_90a --no-compile --order-b column"), 0);
    assert_non_null(strstr(output, "B        0x4000004000010000: K-major"));
    assert_non_null(strstr(output, "  taken\n"));
    assert_int_equal(run("gemm --arch sm_80 --no-compile"), 0);
    assert_non_null(strstr(output, "SM80_16x8x16_F32BF16BF16F32_TN"));
    has("           arithmetic 0.4407 ms, memory 0.04937 ms: bound by arithmetic\n");
    assert_int_equal(run("gemm --arch sm_80 --no-compile -k 8 --tflops 100 --gbps 1000"), 0);
    has("           arithmetic 0.002684 ms, memory 0.03369 ms: bound by memory\n");
    refuses("plan", "gemm --arch sm_90a -m 0", 2, "plan: --m: 0 is not between 1 and");
    refuses("plan", "gemm --arch sm_90a --order-a x", 2, "plan: --order-a: \"x\" is neither row nor column");
    refuses("plan", "gemm --arch sm_90a --dtype e4m3", 2, "plan: --dtype: \"e4m3\" is neither f16 nor bf16");
    refuses("plan", "gemm --arch sm_90a --variant x", 2, "plan: --variant: \"x\" is not a kernel of gemm");
    refuses("plan", "gemm --arch sm_75 --variant gemm_wgmma_sm90_128x128", 1, "gemm_wgmma_sm90_128x128 needs");
}

/* All tiles are counted once, and the parts are all of k.  The workspace has the sums of every part, of two parts on wgmma those of one, and
 * words that count: one for each tile of few rows; of wgmma 128 bytes for each of 8 warps. */
static void a_cut_is_reported(void **state)
{
    enum { WARPS = 8 * 128 / 4 /* words */ };
    static const struct {
        const char *options;
        int64_t     k, sums, counters; /* of a tile */
    } problems[] = {
        {"sm_90a -m 2304 -n 2048 -k 16384", 16384, 128 * 256, WARPS},
        {"sm_90a -m 512 -n 512 -k 16320 --variant gemm_wgmma_sm90_parts_128x256_2x1", 16320, 128 * 256, WARPS},
        {"sm_90a -m 2048 -n 512 -k 8192", 8192, 128 * 128, WARPS},
        {"sm_90a -m 8 -n 1024 -k 14336 --order-b column", 14336, 8 * 16, 1},
        {"sm_90a -m 8 -n 1024 -k 14336 --dtype-b e4m3", 14336, 8 * 16, 1},
        {"sm_80 -m 8 -n 1024 -k 14344 --order-b column", 14344, 8 * 16, 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++) {
        char arguments[160];
        snprintf(arguments, sizeof arguments, "gemm --no-compile --json --arch %s", problems[i].options);
        assert_int_equal(run(arguments), 0);
        const int64_t parts = integer("parts"), tiles = integer("cut_tiles");
        const int64_t part_k = integer("part_blocks") * integer("block_k");
        const int64_t places = problems[i].counters == WARPS && parts == 2 ? 1 : parts;
        assert_int_equal(integer("whole_tiles") + tiles, integer("tiles"));
        assert_in_range(tiles, 1, integer("tiles"));
        assert_true(parts >= 2 && (parts - 1) * part_k < problems[i].k && parts * part_k >= problems[i].k);
        assert_int_equal(integer("workspace_bytes"),
                         4 * tiles * (places * problems[i].sums + problems[i].counters));
    }
    assert_int_equal(run("gemm --no-compile --json --arch sm_90a"), 0);
    assert_null(strstr(output, "\"cut\""));
    assert_null(strstr(output, "workspace"));
}

static int start(void **state)
{
    return scratch_open(state) != 0 ? -1 : setenv("PTXPACK_CACHE_DIR", scratch_path("cache"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_for_sm_90),
        cmocka_unit_test(a_plan_for_sm_75),
        cmocka_unit_test(a_plan_of_wgmma),
        cmocka_unit_test(wgmma_is_planned_for_every_head),
        cmocka_unit_test(the_list_says_why_not),
        cmocka_unit_test(json_has_the_members),
        cmocka_unit_test(all_architectures_and_heads),
        cmocka_unit_test(the_map_of_shared_memory_adds_up),
        cmocka_unit_test(machines_have_the_rates_of_data_sheets),
        cmocka_unit_test(figures_are_worked_out_again),
        cmocka_unit_test(the_text_has_the_same_figures),
        cmocka_unit_test(the_compiler_keeps_to_the_budget),
        cmocka_unit_test(bad_options_are_one_line),
        cmocka_unit_test(a_row_can_be_named),
        cmocka_unit_test(a_plan_of_gemm),
        cmocka_unit_test(a_cut_is_reported),
    };
    return cmocka_run_group_tests(tests, start, scratch_close);
}
