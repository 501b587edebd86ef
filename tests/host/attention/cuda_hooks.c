/* cuda_hooks.c - hooks in CUDA C++: the PTX of their kernels as macros, and what NVRTC and the translation refuse. */
#include "fixture.h"

#include "host/attention/hooks/body.h"
#include "loader/inspect.h"

/* ---- PTX as NVRTC writes it ----------------------------------------------------------------------------- */
#define KERNEL(body)                                            \
    ".version 9.0\n.visible .entry ptxpack_hook(\n"             \
    "\t.param .f32 ptxpack_hook_param_0\n)\n{\n" body "\n}\n\n" \
    "\t.file\t1 \"/home/ptxpack\"\n\t.file\t2 \"/home/score_mod\"\n"

static char *macro_of(const char *ptx, char line[PLAN_LINE])
{
    char *macro;
    line[0] = '\0';
    const ptxpack_status status = attention_hook_body(ptx, HOOK_SCORE, &macro, line);
    assert_int_equal(status == PTXPACK_OK, macro != NULL);
    return macro;
}

static void a_body_becomes_a_macro(void **state)
{
    (void)state;
    char  line[PLAN_LINE];
    char *macro = macro_of(KERNEL("\t.reg .f32 \t%f<3>;\n\t.reg .b64 \t%rd<5>;\n\t.loc\t1 1 0\n"
                                  "\tld.param.f32 \t%f1, [ptxpack_hook_param_0];\n"
                                  "\tld.param.u64 \t%rd1, [ptxpack_hook_param_6];\n"
                                  "\tld.param.u64 \t%rd2, [ptxpack_hook_param_13];\n"
                                  "$L__tmp0:\n"
                                  "\tld.global.nc.f32 \t%f2, [%rd1+4];\n"
                                  "\tcvta.to.global.u64 \t%rd3, %rd2;\n"
                                  "\tst.global.f32 \t[%rd3], %f2;\n\tret;\n"),
                           line);
    assert_non_null(macro);
    assert_non_null(strstr(macro, ".macro SCORE_MOD s, r, b, h, q, kv, c, cf\n"));
    assert_non_null(strstr(macro,
                           "mov.b32 %my_f1, \\s;\nAUX %my_rd1, 1\nld.global.nc.f32 %my_f2, [%my_rd1+4];\n"
                           "mov.f32 \\s, %my_f2;\n.endm\n"));
    free(macro);
}

static void branches_become_guards(void **state)
{
    (void)state;
    char  line[PLAN_LINE];
    char *macro = macro_of(KERNEL("\t.reg .f32 \t%f<4>;\n\t.reg .pred \t%p<2>;\n"
                                  "\tld.param.f32 \t%f1, [ptxpack_hook_param_0];\n"
                                  "\tld.param.u64 \t%rd2, [ptxpack_hook_param_13];\n"
                                  "\tsetp.lt.f32 \t%p1, %f1, 0f00000000;\n"
                                  "\t@%p1 bra \t$L__BB0_1;\n"
                                  "\tadd.f32 \t%f2, %f1, %f1;\n"
                                  "\tadd.f32 \t%f1, %f2, %f2;\n"
                                  "$L__BB0_1:\n"
                                  "\tst.global.f32 \t[%rd2], %f1;\n\tret;\n"),
                           line);
    assert_non_null(macro);
    assert_non_null(strstr(macro, "mov.pred %my_on, -1;\nnot.pred %my_not, %my_p1;\n"
                                  "and.pred %my_by, %my_on, %my_p1;\nand.pred %my_on, %my_on, %my_not;\n"));
    assert_non_null(strstr(macro, "\nadd.f32 %my_f2, %my_f1, %my_f1;\n")); /* nobody else sets it */
    assert_null(strstr(macro, "@%my_on mov.f32 \\s"));                     /* all threads meet before */
    free(macro);
}

static void what_a_hook_cannot_do_is_refused_with_its_line(void **state)
{
    (void)state;
    static const struct {
        const char *ptx, *line;
    } cases[] = {
        {KERNEL("\t.loc\t2 5 3\n$L__BB0_1:\n\t@%p1 bra \t$L__BB0_1;\n"), "score_mod:5: a hook has no loop"},
        {KERNEL("\t.loc\t2 7 3\n\t.param .b32 param0;\n"), "score_mod:7: a hook calls no function"},
        {KERNEL(
             "\t.local .align 8 .b8 \t__local_depot0[64];\n\t.reg .b64 \t%SP;\n\tmov.u64 \t%SPL, "
             "__local_depot0;\n"
             "\tst.local.u64 \t[%rd1], %rd2;\n\t.loc\t2 9 1, function_name $L__info_string0, inlined_at 1 3 1\n"
             "\tld.u64 \t%rd3, [%rd1];\n"),
         "score_mod:9: a hook has no memory of its own"},
        {KERNEL("\t.loc\t2 4 1\n\tmov.u32 \t%r1, %tid.x;\n"), "score_mod:4: a hook does not know its thread"},
        {KERNEL("\t.loc\t2 4 1\n\tst.global.f32 \t[%rd1], %f1;\n"), "score_mod:4: a hook writes no memory"},
        {KERNEL("\t.loc\t2 6 1\n\tbar.sync \t0;\n"), "score_mod, line 6: bar is not an instruction"},
        {".version 9.0\n", "score_mod:1: NVRTC made no kernel of it"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char line[PLAN_LINE];
        assert_null(macro_of(cases[i].ptx, line));
        if (strstr(line, cases[i].line) != line)
            fail_msg("%s, not %s", line, cases[i].line);
    }
}

/* ---- CUDA C++ ------------------------------------------------------------------------------------------- */
static void texts_are_known(void **state)
{
    (void)state;
    char line[PLAN_LINE];
    int  parts;
    assert_true(attention_hook_is_cuda("// of mine\n__device__ float score_mod(..)"));
    assert_false(attention_hook_is_cuda("// __device__\n.macro SCORE_MOD s"));
    assert_false(attention_hook_is_cuda(NULL));
    assert_int_equal(attention_check_hook("__device__", HOOK_SCORE, &parts, line), PTXPACK_OK);
    assert_int_equal(parts, HOOK_MOD);
}

static void without_nvrtc_they_are_refused(void **state)
{
    (void)state;
    static const char text[] =
        "__device__ bool mask_mod(int b, int h, int q, int kv, const void *const *aux) { return kv < q; }";
    char *macro;
    setenv("PTXPACK_NVRTC", "none", 1);
    assert_int_equal(attention_hook_from_cuda(NULL, text, HOOK_MASK, &macro), PTXPACK_E_UNSUPPORTED);
    assert_non_null(strstr(ptxpack_detail(NULL), "mask_mod is CUDA C++, which needs NVRTC: "));
    assert_int_equal(attention_hook_from_cuda(NULL, "__device__ bool mask(int b);", HOOK_MASK, &macro),
                     PTXPACK_E_ARG);
    assert_string_equal(ptxpack_detail(NULL), "mask_mod has no function of that name");
    unsetenv("PTXPACK_NVRTC");
}

static void nvrtc_names_lines(void **state)
{
    (void)state;
    static const char text[] =
        "__device__ float score_mod(float s, int b, int h, int q, int kv, const void *const *aux)\n"
        "{\n    return oops;\n}\n";
    struct ptxpack_nvrtc_place place;
    char                       why[512], *macro;
    if (!ptxpack_nvrtc_find(&place, why, sizeof why))
        skip();
    assert_int_equal(attention_hook_from_cuda(NULL, text, HOOK_SCORE, &macro), PTXPACK_E_COMPILE);
    assert_non_null(strstr(ptxpack_detail(NULL), "score_mod:3: error: identifier \"oops\" is undefined"));
}

/* The value that a hook of this number gives. */
static char *numbered(int number)
{
    char *text = NULL;
    assert_true(
        asprintf(&text,
                 "__device__ float score_mod(float s, int b, int h, int q, int kv, const void *const *aux) "
                 "{ return s + %d.0f; }\n"
                 "__device__ bool mask_mod(int b, int h, int q, int kv, const void *const *aux) "
                 "{ return q < %d; }\n",
                 number, number) > 0);
    return text;
}

/* Once compiled a text needs NVRTC no more; which hook it is for, and every letter of it, count; so many later texts push it out. */
static void a_text_is_compiled_once(void **state)
{
    (void)state;
    enum { KNOWN = 16 };
    struct ptxpack_nvrtc_place place;
    char                       why[512], *first, *again, *text = numbered(100), *other = numbered(101);
    if (!ptxpack_nvrtc_find(&place, why, sizeof why))
        skip();
    assert_int_equal(attention_hook_from_cuda(NULL, text, HOOK_SCORE, &first), PTXPACK_OK);
    setenv("PTXPACK_NVRTC", "none", 1);
    assert_int_equal(attention_hook_from_cuda(NULL, text, HOOK_SCORE, &again), PTXPACK_OK);
    assert_string_equal(first, again);
    free(again);
    assert_int_equal(attention_hook_from_cuda(NULL, text, HOOK_MASK, &again), PTXPACK_E_UNSUPPORTED);
    assert_int_equal(attention_hook_from_cuda(NULL, other, HOOK_SCORE, &again), PTXPACK_E_UNSUPPORTED);
    unsetenv("PTXPACK_NVRTC");
    assert_int_equal(attention_hook_from_cuda(NULL, other, HOOK_SCORE, &again), PTXPACK_OK);
    assert_string_not_equal(first, again);
    free(again);
    for (int i = 0; i < KNOWN; i++) {
        char *later = numbered(i);
        assert_int_equal(attention_hook_from_cuda(NULL, later, HOOK_SCORE, &again), PTXPACK_OK);
        free(again);
        free(later);
    }
    setenv("PTXPACK_NVRTC", "none", 1);
    assert_int_equal(attention_hook_from_cuda(NULL, text, HOOK_SCORE, &again), PTXPACK_E_UNSUPPORTED);
    unsetenv("PTXPACK_NVRTC");
    free(first);
    free(text);
    free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_becomes_a_macro),
        cmocka_unit_test(branches_become_guards),
        cmocka_unit_test(what_a_hook_cannot_do_is_refused_with_its_line),
        cmocka_unit_test(texts_are_known),
        cmocka_unit_test(without_nvrtc_they_are_refused),
        cmocka_unit_test(nvrtc_names_lines),
        cmocka_unit_test(a_text_is_compiled_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
