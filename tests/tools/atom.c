/* atom.c - `ptxpack atom`: lists, atoms, tiled MMAs, descriptors, pictures, errors. */
#include "host/atom/atom.h"
#include "command_fixture.h"
#include "host/atom/copy_atom.h"

static int run(const char *arguments) { return run_command("atom", arguments); }

/* The whole output. */
static void prints(const char *arguments, const char *text)
{
    assert_int_equal(run(arguments), 0);
    assert_string_equal(output, text);
    assert_string_equal(errors, "");
}

/* ---- atoms ------------------------------------------------------------------------------------------ */
static void everything_is_listed(void **state)
{
    (void)state;
    assert_int_equal(run(""), 0);
    assert_int_equal(lines_of(output), ptxpack_mma_atom_count() + ptxpack_copy_atom_count());
    prints("'SM75_16x8x8_*'",
           "SM75_16x8x8_F32F16F16F32_TN                  (16,8,8)     F32   F16   F16   F32   sm_75\n"
           "SM75_16x8x8_F16F16F16F16_TN                  (16,8,8)     F16   F16   F16   F16   sm_75\n");
    assert_int_equal(run("'SM75_[8]x8x16*'"), 0);
    assert_memory_equal(output, "SM75_8x8x16_S32S8S8S32_TN ", 26);
    assert_int_equal(run(""), 0);
    assert_null(strstr(output, " 1 bits"));
    assert_int_equal(run("'*LDSM_?' --json"), 0);
    assert_non_null(strstr(output, "\"name\": \"SM75_U16x8_LDSM_T\""));
    assert_int_equal(output[0], '[');
}

static void atoms_are_shown(void **state)
{
    (void)state;
    prints("SM80_16x8x16_F32F16F16F32_TN", "Shape_MNK: (16,8,16)\n"
                                           "ThrID: 32:1\n"
                                           "ALayout: ((4,8),(2,2,2)):((32,1),(16,8,128))\n"
                                           "BLayout: ((4,8),(2,2)):((16,1),(8,64))\n"
                                           "CLayout: ((4,8),(2,2)):((32,1),(16,8))\n"
                                           "ValTypeD: F32\n"
                                           "ValTypeA: F16\n"
                                           "ValTypeB: F16\n"
                                           "ValTypeC: F32\n"
                                           "CuTe: SM80_16x8x16_F32F16F16F32_TN\n"
                                           "Instruction: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32\n"
                                           "Architecture: sm_80 and later\n"
                                           "PTX ISA: 7.0\n"
                                           "D: 4 registers of 32 bits a thread\n"
                                           "A: 4 registers of 32 bits a thread, K-major\n"
                                           "B: 2 registers of 32 bits a thread, K-major\n");
    assert_int_equal(run("SM90_64x128x16_F16F16F16F16_TN"), 0);
    assert_non_null(strstr(output, "\nCLayout: ((4,8,4),(2,2,16)):((128,1,16),(64,8,512))\n"));
    assert_non_null(strstr(output, "\nArchitecture: sm_90a, not all later ones\nPTX ISA: 8.0\n"));
    assert_non_null(strstr(output, "\nA: shared memory, K-major or M-major\n"));
    assert_int_equal(run("SM80_8x8x4_C64C64C64C64_TN"), 0);
    assert_non_null(strstr(output, ".f64.f64.f64.f64, 4 times\n"));
    assert_non_null(strstr(output, "\nA: 2 registers of 64 bits a thread, K-major\n"));
    assert_int_equal(run("SM120_16x8x32_F32E2M1E4M3F32_TN_VS32_UE8M0"), 0);
    assert_non_null(strstr(output, "\nSFALayout: ((2,2,8),32):((8,0,1),16)\n"));
    assert_non_null(strstr(output, "\nSFVecSize: 32\nPadding: a value of A takes 8 bits, one of B 8\n"));
}

static void copies_are_shown(void **state)
{
    (void)state;
    prints("SM75_U32x4_LDSM_N", "ThrID: 32:1\n"
                                "SrcLayout: (32,128):(128,1)\n"
                                "DstLayout: (32,(32,4)):(32,(1,1024))\n"
                                "RefLayout: (32,(32,4)):(32,(1,1024))\n"
                                "Instruction: ldmatrix.sync.aligned.m8n8.x4.shared.b16\n"
                                "Architecture: sm_75 and later\n"
                                "PTX ISA: 6.5\n"
                                "From: shared memory\n"
                                "To: 4 registers of 32 bits a thread\n");
    assert_int_equal(run("'SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>'"), 0);
    assert_non_null(strstr(output, "SrcLayout: (1,128):(0,1)\n"));
}

/* As an operand of an MMA: the place, and registers only where it is these. */
static void json_of_copies(void)
{
    assert_int_equal(run("SM75_U32x4_LDSM_N --json"), 0);
    assert_non_null(strstr(output, "  \"src_place\": {\n    \"place\": \"shared\"\n  },\n"
                                   "  \"dst_place\": {\n    \"place\": \"registers\",\n"
                                   "    \"registers\": 4,\n    \"register_bits\": 32\n  }\n}\n"));
    assert_null(strstr(output, "arch_specific"));
    assert_null(strstr(output, "instructions"));
}

static void json_has_the_fields(void **state)
{
    (void)state;
    /* clang-format off */
    static const char *const members[] = {
        "\"name\": \"SM90_64x8x16_F32F16F16_RS\"", "\"shape_mnk\": \"(64,8,16)\"", "\"arch\": 90",
        "\"isa\": 80", "\"arch_specific\": true", "\"place\": \"shared\"", "\"registers\": 4",
        "\"major\": \"*\"",
        "\"a_layout\": \"((4,8,4),(2,2,2)):((128,1,16),(64,8,512))\"",
    };
    /* clang-format on */
    assert_int_equal(run("SM90_64x8x16_F32F16F16_RS --json"), 0);
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        if (strstr(output, members[i]) == NULL)
            fail_msg("%s is missing in %s", members[i], output);
    assert_null(strstr(output, "sf_vec_size"));
    assert_null(strstr(output, "\"registers\": 0"));
    json_of_copies();
    assert_int_equal(run("--tiled SM80_16x8x16_F32F16F16F32_TN --json"), 0);
    assert_non_null(strstr(output, "\"threads\": 32"));
    assert_int_equal(run("--desc --json"), 0);
    assert_non_null(strstr(output, "\"layout_type\": 1"));
}

/* ---- tiled MMAs, as CuTe prints them ---------------------------------------------------------------- */
static void tiled_mmas_are_shown(void **state)
{
    (void)state;
    static const struct {
        const char *arguments, *text;
    } cases[] = {
        {"--tiled SM70_8x8x4_F32F16F16F32_NT --atoms '(2,2,1):(2,1,0)' --tile '<32,32,4>'",
         "Shape_MNK: (32,32,4)\n"
         "ThrLayoutVMNK: ((4,2),2,2,1):((1,16),8,4,0)\n"
         "PermutationMNK: <32,32,4>\n"
         "ALayout: ((4,2,2,2),(4,(2,1))):((32,0,8,4),(1,(16,0)))\n"
         "BLayout: ((4,2,2,2),(4,(2,1))):((32,8,0,4),(1,(16,0)))\n"
         "CLayout: (((2,2),2,2,2),((2,2,2),(2,2))):(((1,64),256,8,4),((32,2,128),(16,512)))\n"
         "Threads: 32\n"},
        {"--tiled SM80_16x8x16_F32F16F16F32_TN --atoms '(2,2,1)' --tile '<32,32,16>'",
         "Shape_MNK: (32,32,16)\n"
         "ThrLayoutVMNK: (32,2,2,1):(1,32,64,0)\n"
         "PermutationMNK: <32,32,16>\n"
         "ALayout: ((4,8,2,2),((2,2,2),(1,1))):((64,1,16,0),((32,8,256),(0,0)))\n"
         "BLayout: ((4,8,2,2),((2,2),(2,1))):((64,1,0,8),((32,256),(16,0)))\n"
         "CLayout: ((4,8,2,2),((2,2),(1,2))):((64,1,16,256),((32,8),(0,512)))\n"
         "Threads: 128\n"},
        {"--tiled SM90_64x64x16_F32F16F16_SS --atoms '(2,1,1)'",
         "Shape_MNK: (128,64,16)\n"
         "ThrLayoutVMNK: (128,2,1,1):(1,128,0,0)\n"
         "PermutationMNK: <_,_,_>\n"
         "ALayout: ((128,2),((64,16),(1,1))):((0,64),((1,128),(0,0)))\n"
         "BLayout: (256,((64,16),(1,1))):(0,((1,64),(0,0)))\n"
         "CLayout: ((4,8,8),((2,2,8),(1,1))):((256,1,16),((128,8,1024),(0,0)))\n"
         "Threads: 256\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(run(cases[i].arguments), 0);
        assert_memory_equal(output, cases[i].text, strlen(cases[i].text));
        assert_non_null(strstr(output, "\n\nAtom: SM"));
    }
}

/* ---- descriptors ------------------------------------------------------------------------------------ */
static void descriptors_are_shown(void **state)
{
    (void)state;
    prints("--desc", "Tile: Sw<3,3,3> o 0 o ((8,8),(64,1)):((64,512),(1,0))\n"
                     "Type: F16\n"
                     "Major: K\n"
                     "Instruction reads: (64,16)\n"
                     "Start address: 0 (0 bytes)\n"
                     "LBO: 1 (16 bytes)\n"
                     "SBO: 64 (1024 bytes)\n"
                     "Base offset: 0\n"
                     "Layout type: 1 (128B)\n"
                     "Descriptor: 0x4000004000010000\n"
                     "Steps: (1,4):(0,2)\n"
                     "Alignment: 1024 bytes\n");
    assert_int_equal(run("--desc --type bf16 --major mn --swizzle 64 --tile '(128,64)' --rows 64"), 0);
    assert_non_null(strstr(output, "\nDescriptor: 0x8000008000200000\nSteps: (2,4):(64,256)\n"));
    static const char *const types[] = {"f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8", "u1"};
    static const char *const swizzles[] = {"none", "32", "64", "128"};
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) /* every default is a tile that wgmma reads */
        for (size_t i = 0; i < sizeof swizzles / sizeof swizzles[0]; i++) {
            char arguments[64];
            snprintf(arguments, sizeof arguments, "--desc --type %s --swizzle %s", types[t], swizzles[i]);
            assert_int_equal(run(arguments), 0);
            assert_non_null(strstr(output, "\nInstruction reads: (64,"));
        }
    for (size_t i = 0; i < sizeof swizzles / sizeof swizzles[0]; i++) {
        char arguments[64];
        snprintf(arguments, sizeof arguments, "--desc --major mn --swizzle %s", swizzles[i]);
        assert_int_equal(run(arguments), 0);
        assert_non_null(strstr(output, "\nMajor: MN\nInstruction reads: (64,16)\n"));
    }
    assert_int_equal(run("--desc --swizzle none --type s8"), 0);
    assert_non_null(strstr(output, "\nLayout type: 0 (none)\n"));
}

/* ---- pictures --------------------------------------------------------------------------------------- */
static void pictures_are_drawn(void **state)
{
    (void)state;
    assert_int_equal(run("SM70_8x8x4_F32F16F16F32_NT --svg"), 0);
    assert_memory_equal(output, "<svg", 4);
    assert_non_null(strstr(output, ">T19<"));
    assert_int_equal(run("SM80_16x8x8_F16F16F16F16_TN --latex"), 0);
    assert_non_null(strstr(output, "\\begin{tikzpicture}"));
    assert_int_equal(run("--tiled SM80_16x8x8_F16F16F16F16_TN --atoms '(2,2)' --svg"), 0);
    assert_non_null(strstr(output, ">T127<"));
}

/* ldmatrix.x4 of 16-bit values: lane l gives row l, the destination's T0 V2 is the source's T8 V0. */
static void copies_are_drawn(void **state)
{
    (void)state;
    assert_int_equal(run("SM75_U32x4_LDSM_N --latex"), 0);
    assert_non_null(strstr(output, "% Layout S TV: "));
    assert_non_null(strstr(output, "((8,4),((2,4),1)):((4@0,2@1),((1@1,1@0),0))\n"));
    assert_int_equal(run("SM75_U32x4_LDSM_N --svg"), 0);
    assert_non_null(strstr(output, ">T31<"));
    assert_int_equal(run("SM50_Shuffle_U32_2x2Trans_XOR1 --svg --bits 32"), 0);
}

/* ---- errors ----------------------------------------------------------------------------------------- */
static void bad_usage_is_one_line(void **state)
{
    (void)state;
    static const struct {
        const char *arguments, *line;
    } cases[] = {
        {"SM75_U32x4_LDSM", "no atom is named \"SM75_U32x4_LDSM\"; near: SM75_U32x4_LDSM_N, "
                            "SM75_U32x1_LDSM_N, SM75_U32x2_LDSM_N"},
        {"sm80_16x8x16_F32F16F16F32", "no atom is named \"sm80_16x8x16_F32F16F16F32\"; near: "
                                      "SM80_16x8x16_F32F16F16F32_TN, SM80_16x8x8_F32F16F16F32_TN, "
                                      "SM80_16x8x16_F32BF16BF16F32_TN"},
        {"'ZZ*'", "no atom's name matches \"ZZ*\""},
        {"'ZZ['", "no atom's name matches \"ZZ[\""},
        {"'SM80_*' --svg", "--latex and --svg draw one NAME, not a pattern"},
        {"'SM80_[1]*' --latex", "--latex and --svg draw one NAME, not a pattern"},
        {"'*LDSM*' --svg --bits 32", "--latex and --svg draw one NAME, not a pattern"},
        {"'SM80_*' --bits 32", "--bits goes with --latex or --svg"},
        {"a b", "expected at most one NAME (try --help)"},
        {"SM61_DP4A --json --svg", "--latex, --svg and --json exclude each other"},
        {"SM75_U32x4_LDSM_N --svg --bits 0", "--bits must be positive"},
        {"SM75_U32x4_LDSM_N --bits 16", "--bits goes with --latex or --svg"},
        {"SM61_DP4A --svg --bits 8", "--bits goes with a copy, and SM61_DP4A is none"},
        {"--svg", "--latex and --svg go with NAME or --tiled"},
        {"SM61_DP4A --desc", "NAME, --tiled and --desc exclude each other"},
        {"SM61_DP4A --atoms '(2,1,1)'", "--atoms goes with --tiled"},
        {"SM61_DP4A --tile '<2,1,1>'", "--tile goes with --tiled or --desc"},
        {"SM61_DP4A --type f16", "--type, --major, --swizzle and --rows go with --desc"},
        {"--desc --rows 0", "--rows must be positive"},
        {"--desc --type f17", "--type: wgmma reads no \"f17\""},
        {"--desc --type C64", "--type: wgmma reads no \"C64\""},
        {"--desc --type tf32 --major mn", "--major mn is for 16-bit types, not tf32"},
        {"--desc --major n", "--major is k or mn, not \"n\""},
        {"--desc --swizzle 16", "--swizzle is none, 32, 64 or 128, not \"16\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char expected[512];
        snprintf(expected, sizeof expected, "ptxpack atom: %s\n", cases[i].line);
        assert_int_equal(run(cases[i].arguments), 2);
        assert_string_equal(errors, expected);
        assert_string_equal(output, "");
    }
    /* Others say it in their own words, after the option. */
    static const char *const named[][2] = {
        {"--tiled SM61_DP4A --atoms '(2,2'", "--atoms (2,2: "},
        {"--tiled SM61_DP4A --tile '<0>'", "--tile <0>: "},
        {"--tiled SM61_DP4A --atoms '(1,1,1,2)'", "--atoms (1,1,1,2): 4 modes; there are M, N and K"},
        {"--tiled SM61_DP4A --tile '<1,1,4,2>'", "--tile <1,1,4,2>: 4 modes; there are M, N and K"},
        {"--tiled SM61_DP4A --atoms '(2,2):(1,1)'", "--atoms (2,2):(1,1): "},
        {"--tiled SM61_DP4A --tile '(1,1,4)'", "--tile (1,1,4): "},
        {"--tiled SM80_16x8x16_F32F16F16F32_TN --tile '<17, 8,16>'", "--tile <17, 8,16>: tile 17 of mode M"},
        {"--tiled SM75_U32x4_LDSM_N", "--tiled: SM75_U32x4_LDSM_N is a copy, not an MMA"},
        {"--tiled SM61 --atoms '(2,2)'", "\"SM61\""},
        {"--desc --tile '( 7,64)'", "--tile ( 7,64): "},
        {"--desc --tile '(7,64'", "--tile (7,64: column"},
        {"--desc --tile '(64,64,64)'", "--tile (64,64,64): "},
        {"--desc --rows 65", "--rows 65: "},
        {"--desc --tile '(64,64)' --rows 65", "--rows 65: "},
    };
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++)
        refuses("atom", named[i][0], 2, named[i][1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_listed),  cmocka_unit_test(atoms_are_shown),
        cmocka_unit_test(copies_are_shown),      cmocka_unit_test(json_has_the_fields),
        cmocka_unit_test(tiled_mmas_are_shown),  cmocka_unit_test(descriptors_are_shown),
        cmocka_unit_test(pictures_are_drawn),    cmocka_unit_test(copies_are_drawn),
        cmocka_unit_test(bad_usage_is_one_line),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
