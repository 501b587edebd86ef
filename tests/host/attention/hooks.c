/* hooks.c - what the texts of hooks may have, the lines of refusals, and the kernels that plans with hooks take. */
#include "tests/loader/loader_fixture.h"

#include <math.h>

#include "host/attention/inspect.h"
#include "tests/fake/spilling_kernels.h"

static const char score[] = ".macro SCORE_MOD s, r, b, h, q, kv, c, cf\n add.f32 \\s, \\s, \\cf;\n.endm\n";
static const char mask[] =
    ".macro MASK_MOD keep, r, b, h, q, kv, c, cf\n setp.le.s32 \\keep, \\kv, \\q;\n.endm\n";

/* ---- texts ---------------------------------------------------------------------------------------------- */
static void parts_are_found(void **state)
{
    (void)state;
    char line[PLAN_LINE];
    int  parts;
    assert_int_equal(attention_check_hook(NULL, HOOK_SCORE, &parts, line), PTXPACK_OK);
    assert_int_equal(parts, 0);
    assert_int_equal(attention_check_hook(score, HOOK_SCORE, &parts, line), PTXPACK_OK);
    assert_int_equal(parts, HOOK_MOD);
    static const char whole[] =
        "// a comment: bar.sync 0; \n"
        ".set MY_LIMIT, 3\n"
        ".macro MY_HALF to, x // of a number\n"
        " mul.f32 \\to, \\x, 0f3F000000;\n"
        ".endm\n"
        ".macro MASK_MOD_REGISTERS rows\n .reg .b32 %my_a<\\rows>, %my_b;\n .reg .pred %my_p;\n.endm\n"
        ".macro MASK_MOD_ROW r, b, h, q\n"
        " .reg .b64 %my_at;\n"
        " AUX %my_at, 7\n"
        " AUX_LOAD s32, %my_b, 7, \\q\n"
        " { ld.global.nc.b32 %my_a\\r, [%my_at+4]; mov.b32 %my_b, \\q; }\n"
        " setp.lt.s32 %my_p, \\q, MY_LIMIT;\n"
        " @!%my_p add.s32 %my_b, %my_b, 1;\n"
        ".endm\n"
        ".macro MASK_MOD_BLOCK r, b, h, q, kv\n"
        " .if \\r == 0\n mov.b32 %my_b, \\kv;\n .endif\n"
        ".endm\n"
        ".macro MASK_MOD keep, r, b, h, q, kv, c, cf\n"
        "\t.reg .f32 %my_f<2>;\n"
        "\tMY_HALF %my_f0, \\cf\n"
        "\tmov.b32 {%my_x, %my_y}, %my_at;\n"
        "\t@\\keep setp.eq.s32 \\keep, \\kv, %my_a\\r;\n"
        ".endm";
    if (attention_check_hook(whole, HOOK_MASK, &parts, line) != PTXPACK_OK)
        fail_msg("%s", line);
    assert_int_equal(parts, HOOK_MOD | HOOK_REGISTERS | HOOK_ROW | HOOK_BLOCK);
}

/* What a SCORE_MOD has in its one line, and how the refusal begins; NULL: it is taken. */
typedef struct refused {
    const char *body, *line;
} refused;

static void assert_refused_bodies(const refused *texts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char text[512], line[PLAN_LINE] = "";
        int  parts;
        snprintf(text, sizeof text, ".macro SCORE_MOD s, r, b, h, q, kv, c, cf\n%s\n.endm\n", texts[i].body);
        ptxpack_status status = attention_check_hook(text, HOOK_SCORE, &parts, line);
        if (status != (texts[i].line == NULL ? PTXPACK_OK : PTXPACK_E_ARG) ||
            (texts[i].line != NULL && strstr(line, texts[i].line) == NULL))
            fail_msg("%s: \"%s\"", texts[i].body, line);
        assert_true(texts[i].line == NULL || strncmp(line, "score_mod, ", 11) == 0);
    }
}

/* No argument is hidden from the check of what is written. */
static void loads_write_what_is_theirs(void **state)
{
    (void)state;
    static const refused texts[] = {
        {"AUX_LOAD s32, %my_a, 0, \\q", NULL},
        {"AUX_LOAD s32, \\kv, 0, 0", "line 2: \\kv must not be changed"},
        {"AUX_LOAD s32, %k_at, 0, 0", "line 2: %k_at is a register of the kernel"},
        {"AUX_LOAD s32, %my_a, 0, %row", "line 2: %row is a register of the kernel"},
        {"AUX_LOAD", "line 2: AUX_LOAD is not followed by a type"},
        {"AUX_LOAD f64, %my_a, 0, 0", NULL}, /* the expander's to refuse */
        {"AUX_LOAD \"f32\", \\q, 0, 0", "line 2: AUX_LOAD is not followed by a type"},
        {"AUX_LOAD type=f32, d=\\q, i=0, index=0", "line 2: = is not for the arguments of AUX_LOAD"},
        {"AUX_LOAD f32, d=\\q, 0, 0", "line 2: = is not for the arguments of AUX_LOAD"},
        {"AUX_LOAD f32, \"\\q\", 0, 0", "line 2: \" is not for the arguments of AUX_LOAD"},
        {"AUX_LOAD b32+0, \\q, 0, 0", "line 2: b32 is not followed by what AUX_LOAD loads it to"},
        {"AUX_LOAD s32 \\q, 0, 0", "line 2: s32 is not followed by what AUX_LOAD loads it to"},
        {"AUX_LOADS s32, %my_a, 0, 0", "line 2: AUX_LOADS is not an instruction"},
    };
    assert_refused_bodies(texts, sizeof texts / sizeof texts[0]);
}

static void what_might_harm_is_refused_with_its_line(void **state)
{
    (void)state;
    static const refused texts[] = {
        {"bar.sync 0;", "line 2: bar is not an instruction"},
        {"barrier.sync 0;", "line 2: barrier is not an instruction"},
        {"ret;", "line 2: ret is not an instruction"},
        {"exit;", "line 2: exit is not an instruction"},
        {"trap;", "line 2: trap is not an instruction"},
        {"bra DONE;", "line 2: bra is not an instruction"},
        {"DONE: add.f32 \\s, \\s, 0f00000000;", "line 2: DONE is a label"},
        {"$here:", "line 2: $here is a label"},
        {"wgmma.fence.sync.aligned;", "line 2: wgmma is not"},
        {"setmaxnreg.inc.sync.aligned.u32 240;", "line 2: setmaxnreg is not"},
        {"shfl.sync.bfly.b32 %my_a, %my_b, 1, 31, -1;", "line 2: shfl is not"},
        {"vote.sync.any.pred %my_p, %my_q, -1;", "line 2: vote is not"},
        {"st.global.f32 [%my_at], \\s;", "line 2: st is not"},
        {"red.global.add.f32 [%my_at], \\s;", "line 2: red is not"},
        {"atom.global.add.f32 %my_f, [%my_at], \\s;", "line 2: atom is not"},
        {"cp.async.wait_all;", "line 2: cp is not"},
        {"call print, ();", "line 2: call is not"},
        {"ld.shared.f32 \\s, [shared_tiles];", "line 2: ld needs .global"},
        {"ld.param.f32 \\s, [arg];", "line 2: ld needs .global"},
        {"ld.f32 \\s, [%my_at];", "line 2: ld needs .global"},
        {"mov.f32 %o0, \\s;", "line 2: %o0 is a register of the kernel"},
        {"mov.u32 %my_a, %laneid;", "line 2: %laneid is a register of the kernel"},
        {"@%done add.f32 \\s, \\s, \\s;", "line 2: %done is no predicate of the hook's own"},
        {"@!%done add.f32 \\s, \\s, \\s;", "line 2: %done is no predicate"},
        {".reg .f32 %x;", "line 2: %x is a register of the kernel"},
        {"add.s32 \\q, \\q, 1;", "line 2: \\q must not be changed"},
        {"add.s32 \\kv, \\kv, 1;", "line 2: \\kv must not be changed"},
        {".shared .b32 mine;", "line 2: .shared is not a directive"},
        {".include \"secret\"", "line 2: .include is not a directive"},
        {".entry other ()", "line 2: .entry is not a directive"},
        {".purgem SM_TILE", "line 2: .purgem is not a directive"},
        {".set BLOCK_N, 8", "line 2: BLOCK_N is a symbol of the kernel"},
        {".macro SM_TILE x", "line 2: SM_TILE is no macro of a score_mod"},
        {".macro MASK_MOD keep", "line 2: MASK_MOD is no macro of a score_mod"},
        {".macro MASK_MOD_UNIT in, out", "line 2: MASK_MOD_UNIT is no macro of a score_mod"},
        {".macro MASK_MOD_SHIFT shift", "line 2: MASK_MOD_SHIFT is no macro of a score_mod"},
        {"mul.f32 \\in, \\in, \\in;", "line 2: \\in must not be changed"},
        {".macro SCORE_MODS x", "line 2: SCORE_MODS is no macro of a score_mod"},
        {"SM_RESCALE %my_a, 1", "line 2: SM_RESCALE is not an instruction"},
        {"add.f32 \\s, \\s, \\s; bar.sync 0;", "line 2: bar is not"},
        {"/* a block */", "line 2: comments begin with //"},
        {"= 3;", "line 2: = begins no instruction"},
        {"@%my_p", NULL},
    };
    assert_refused_bodies(texts, sizeof texts / sizeof texts[0]);
    char line[PLAN_LINE];
    int  parts;
    assert_int_equal(attention_check_hook("", HOOK_MASK, &parts, line), PTXPACK_E_ARG);
    assert_string_equal(line, "mask_mod has no macro MASK_MOD");
    assert_int_equal(attention_check_hook(".macro SCORE_MOD_ROW r\n.endm\n", HOOK_SCORE, &parts, line),
                     PTXPACK_E_ARG);
    assert_string_equal(line, "score_mod has no macro SCORE_MOD");
    static const char *const of_scores[] = {"UNIT", "SHIFT"};
    for (size_t i = 0; i < sizeof of_scores / sizeof of_scores[0]; i++) {
        char text[64], refusal[PLAN_LINE];
        snprintf(text, sizeof text, ".macro MASK_MOD_%s in, out\n.endm\n", of_scores[i]);
        snprintf(refusal, sizeof refusal,
                 "mask_mod, line 1: MASK_MOD_%s is no macro of a mask_mod; names of its own begin with MY_",
                 of_scores[i]);
        assert_int_equal(attention_check_hook(text, HOOK_MASK, &parts, line), PTXPACK_E_ARG);
        assert_string_equal(line, refusal);
    }
    assert_int_equal(attention_check_hook(
                         ".macro SCORE_MOD_SHIFT shift, r, b, h, q, kv\n mov.f32 \\shift, 0f3F800000;\n.endm\n"
                         ".macro SCORE_MOD s, r, b, h, q, kv, c, cf\n.endm\n",
                         HOOK_SCORE, &parts, line),
                     PTXPACK_OK);
    assert_int_equal(parts, HOOK_MOD | HOOK_SHIFT);
}

/* Random bytes, and texts cut anywhere: an answer, and no byte beyond the end is read. */
static void no_text_harms_the_reader(void **state)
{
    (void)state;
    static const char bytes[] = "\\%@{}[];:.,/ \t\nabqsMY_SCORE_MOD0129.macro.reg%my_ld.global\r\xff!<>\"'*=";
    unsigned          seed = 1;
    for (int round = 0; round < 20000; round++) {
        char   line[PLAN_LINE], *text;
        int    parts;
        size_t size = seed % 60;
        assert_non_null(text = (char *)malloc(size + 1));
        for (size_t i = 0; i < size; i++) {
            seed = seed * 1103515245 + 12345;
            text[i] = bytes[(seed >> 16) % (sizeof bytes - 1)];
        }
        text[size] = '\0';
        seed = seed * 1103515245 + 12345;
        ptxpack_status status = attention_check_hook(text, round % HOOK_COUNT, &parts, line);
        assert_true(status == PTXPACK_OK || status == PTXPACK_E_ARG);
        free(text);
    }
    for (size_t size = 0; size < sizeof score; size++) {
        char line[PLAN_LINE], *text = strndup(score, size);
        int  parts;
        attention_check_hook(text, HOOK_SCORE, &parts, line);
        free(text);
    }
}

/* ---- plans ------------------------------------------------------------------------------------------------ */
static const ptxpack_attention_desc big = {.size = sizeof big,
                                           .dtype = PTXPACK_BF16,
                                           .batch = 8,
                                           .seqlen_q = 2048,
                                           .seqlen_kv = 2048,
                                           .heads_q = 16,
                                           .heads_kv = 4,
                                           .head_dim = 128};

static void write_kernel(const char *name, const char *tile, int most)
{
    char text[SPILLING_KERNEL], path[64];
    snprintf(path, sizeof path, "ptx/attention/%s.ptx", name);
    spilling_kernel(text, name, tile, most);
    mkdir(below("ptx/attention"), 0700);
    write_text(below(path), text);
}

static ptxpack *open_fake(int most_wgmma, int most_mma)
{
    ptxpack        *handle;
    ptxpack_options options = {.size = sizeof options, .no_cache = true};
    write_kernel("wgmma", "BLOCK_M * BLOCK_N", most_wgmma);
    write_kernel("mma", "BLOCK_M * BLOCK_N", most_mma);
    write_kernel("decode", "ROWS", 0);
    options.ptxjit = fresh_copy("fake_ptxjit.so");
    options.driver = fresh_copy("fake_driver.so");
    if (ptxpack_open(&options, &handle) != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(NULL));
    return handle;
}

static int64_t tile_of(const ptxpack_variant *v)
{
    return ptxpack_variant_parameter(v, "BLOCK_M", 0) * ptxpack_variant_parameter(v, "BLOCK_N", 0);
}

static const ptxpack_variant *row_of(ptxpack *handle, const ptxpack_attention_desc *desc)
{
    ptxpack_attention_plan *plan;
    if (ptxpack_attention_plan_create(handle, desc, &plan) != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(handle));
    const ptxpack_variant *taken = ptxpack_kernel_describe(ptxpack_attention_kernel(plan))->variant;
    ptxpack_attention_plan_free(plan);
    return taken;
}

static void a_kernel_that_spills_gives_way(void **state)
{
    (void)state;
    ptxpack_attention_desc hooked = big;
    hooked.score_mod = score;
    ptxpack *handle = open_fake(1 << 20, 1 << 20);
    assert_ptr_equal(row_of(handle, &hooked), row_of(handle, &big));
    ptxpack_close(handle);

    handle = open_fake(64 * 64, 1 << 20);
    const ptxpack_variant *first = row_of(handle, &big), *taken = row_of(handle, &hooked);
    assert_true(tile_of(first) > 64 * 64);
    assert_string_equal(taken->file, "attention/wgmma.ptx");
    assert_true(tile_of(taken) <= 64 * 64);
    ptxpack_close(handle);

    handle = open_fake(0, 128 * 32); /* a row that comes after others of its file */
    taken = row_of(handle, &hooked);
    assert_string_equal(taken->file, "attention/mma.ptx");
    assert_true(tile_of(taken) <= 128 * 32);
    ptxpack_close(handle);

    ptxpack_attention_plan *plan;
    handle = open_fake(0, 0);
    assert_int_equal(ptxpack_attention_plan_create(handle, &hooked, &plan), PTXPACK_E_UNSUPPORTED);
    assert_null(plan);
    assert_has(ptxpack_detail(handle), "every kernel spills registers");
    assert_has(ptxpack_detail(handle), first->id);
    row_of(handle, &big); /* nothing spills without */
    ptxpack_close(handle);
}

/* The same row with another text is another kernel, and with the same text the same. */
static void the_key_contains_the_text(void **state)
{
    (void)state;
    static const char other[] = ".macro SCORE_MOD s, r, b, h, q, kv, c, cf\n mul.f32 \\s, \\s, \\cf;\n.endm\n";
    ptxpack          *handle = open_fake(1 << 20, 1 << 20);
    ptxpack_attention_plan *plan[4];
    char                    copy[sizeof score];
    ptxpack_attention_desc  d[4] = {big, big, big, big};
    memcpy(copy, score, sizeof copy);
    d[1].score_mod = score;
    d[2].score_mod = other;
    d[3].score_mod = copy;
    for (int i = 0; i < 4; i++)
        assert_int_equal(ptxpack_attention_plan_create(handle, &d[i], &plan[i]), PTXPACK_OK);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++)
            assert_int_equal(ptxpack_attention_kernel(plan[i]) == ptxpack_attention_kernel(plan[j]),
                             i == 3 && j == 1);
    for (int i = 0; i < 4; i++)
        ptxpack_attention_plan_free(plan[i]);
    ptxpack_close(handle);
}

static void errors_name_the_line_of_the_text(void **state)
{
    (void)state;
    ptxpack_attention_plan *plan;
    ptxpack                *handle = open_fake(1 << 20, 1 << 20);
    ptxpack_attention_desc  d = big;
    d.score_mod = "// first\n.macro SCORE_MOD s, r, b, h, q, kv, c, cf\n add.f32 \\s, \\s, \\[1/0];\n.endm\n";
    assert_int_equal(ptxpack_attention_plan_create(handle, &d, &plan), PTXPACK_E_EXPAND);
    assert_has(ptxpack_detail(handle), "score_mod:3");
    d.score_mod = "// first\nbar.sync 0;\n";
    assert_int_equal(ptxpack_attention_plan_create(handle, &d, &plan), PTXPACK_E_ARG);
    assert_string_equal(ptxpack_detail(handle),
                        "score_mod, line 2: bar is not an instruction that a hook may use");
    d = big;
    d.mask_mod = mask;
    assert_int_equal(ptxpack_preload_attention(NULL, &d), PTXPACK_E_UNSUPPORTED);
    assert_string_equal(ptxpack_detail(NULL),
                        "mask_mod: kernels with hooks are compiled when their plan is created");
    d.dtype = PTXPACK_E4M3;
    assert_int_equal(ptxpack_attention_plan_create(handle, &d, &plan), PTXPACK_E_UNSUPPORTED);
    assert_has(ptxpack_detail(handle), "does not take mask_mod with fp8");
    ptxpack_close(handle);
}

/* ---- the reference ------------------------------------------------------------------------------------------ */
static double add_key(void *context, double s, int32_t b, int32_t h, int32_t q, int32_t kv)
{
    (void)b, (void)h, (void)q;
    return s + *(const double *)context * kv;
}
static int keep_odd(void *context, int32_t b, int32_t h, int32_t q, int32_t kv)
{
    (void)context, (void)b, (void)h;
    return q > 3 && kv % 2 != 0;
}

/* q is 0, so that the scores are what the hook adds; row 0, whose position is 3, attends to nothing. */
static void the_reference_takes_functions(void **state)
{
    (void)state;
    enum { KEYS = 5, DIM = 8 };
    uint16_t               q[2 * DIM] = {0}, k[KEYS * DIM] = {0}, v[KEYS * DIM];
    double                 o[2 * DIM], lse[2], slope = 0.5;
    ptxpack_attention_desc d = {.size = sizeof d,
                                .dtype = PTXPACK_F16,
                                .batch = 1,
                                .seqlen_q = 2,
                                .seqlen_kv = KEYS,
                                .heads_q = 1,
                                .heads_kv = 1,
                                .head_dim = DIM,
                                .mask = PTXPACK_MASK_NONE};
    for (int i = 0; i < KEYS * DIM; i++)
        v[i] = ptxpack_from_float(PTXPACK_F16, (float)(i / DIM));
    ptxpack_attention_hooks   hooks = {.score = add_key, .mask = keep_odd, .context = &slope};
    ptxpack_attention_lengths lengths = {.hooks = &hooks};
    d.score_mod = score;
    d.mask_mod = mask;
    assert_int_equal(ptxpack_attention_reference_lengths(&d, q, k, v, NULL, &lengths, o, lse), PTXPACK_OK);
    double sum = exp(0.5) + exp(1.5), out = (exp(0.5) + 3 * exp(1.5)) / sum;
    assert_true(fabs(lse[1] - log(sum)) < 1e-12 && fabs(o[DIM] - out) < 1e-12);
    assert_true(lse[0] == -INFINITY && o[0] == 0 && o[DIM - 1] == 0);
    hooks.mask = NULL;
    assert_int_equal(ptxpack_attention_reference_lengths(&d, q, k, v, NULL, &lengths, o, lse), PTXPACK_E_ARG);
    assert_string_equal(ptxpack_detail(NULL), "hooks has no function for mask_mod");
    assert_int_equal(ptxpack_attention_reference(&d, q, k, v, NULL, o, lse), PTXPACK_E_ARG);
    assert_string_equal(ptxpack_detail(NULL), "hooks has no function for score_mod");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_found),
        cmocka_unit_test(loads_write_what_is_theirs),
        cmocka_unit_test(what_might_harm_is_refused_with_its_line),
        cmocka_unit_test(no_text_harms_the_reader),
        cmocka_unit_test_setup(a_kernel_that_spills_gives_way, reset),
        cmocka_unit_test_setup(the_key_contains_the_text, reset),
        cmocka_unit_test_setup(errors_name_the_line_of_the_text, reset),
        cmocka_unit_test(the_reference_takes_functions),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
