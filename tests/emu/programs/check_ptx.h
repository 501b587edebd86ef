/* check_ptx.h - calls in PTX as compilers write them, without a compiler: frames of lanes that are in
 * different functions, and the functions that the driver defines. */
#ifndef EMU_PROGRAMS_CHECK_PTX_H
#define EMU_PROGRAMS_CHECK_PTX_H
#include "check_various.h"

#define PTX_HEAD ".version 7.0\n.target sm_75\n.address_size 64\n"

/* Odd lanes are in a function of 32-bit registers while even lanes are in one of 64-bit registers. */
static const char frames_ptx[] =
    PTX_HEAD
    ".func (.param .b32 sum) narrow(.param .b32 x, .param .b64 at)\n"
    "{ .reg .b32 %r<14>; .reg .b64 %a;\n"
    " ld.param.b32 %r0, [x]; ld.param.b64 %a, [at];\n"
    " add.u32 %r1, %r0, 1; add.u32 %r2, %r0, 2; add.u32 %r3, %r0, 3; add.u32 %r4, %r0, 4;\n"
    " add.u32 %r5, %r0, 5; add.u32 %r6, %r0, 6; add.u32 %r7, %r0, 7;\n"
    " atom.global.cas.b32 %r8, [%a], 5, 1; atom.global.cas.b32 %r9, [%a], 5, 0;\n"
    " atom.global.cas.b32 %r10, [%a], 5, 1;\n"
    " add.u32 %r11, %r0, %r1; add.u32 %r11, %r11, %r2; add.u32 %r11, %r11, %r3; add.u32 %r11, %r11, %r4;\n"
    " add.u32 %r11, %r11, %r5; add.u32 %r11, %r11, %r6; add.u32 %r11, %r11, %r7;\n"
    " st.param.b32 [sum], %r11; ret; }\n"
    ".func (.param .b32 sum) wide(.param .b32 x, .param .b64 at)\n"
    "{ .reg .b64 %d<6>; .reg .b32 %s<4>; .reg .b64 %b;\n"
    " ld.param.u32 %d0, [x]; ld.param.b64 %b, [at];\n"
    " atom.global.cas.b32 %s0, [%b], 5, 1;\n"
    " add.u64 %d1, %d0, 1; add.u64 %d2, %d0, 2;\n"
    " atom.global.cas.b32 %s0, [%b], 5, 1;\n"
    " add.u64 %d3, %d0, 3; add.u64 %d4, %d1, %d2; add.u64 %d4, %d4, %d3;\n"
    " atom.global.cas.b32 %s0, [%b], 5, 1;\n"
    " cvt.u32.u64 %s1, %d4; st.param.b32 [sum], %s1; ret; }\n"
    ".visible .entry frames(.param .u64 out, .param .u64 count)\n"
    "{ .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %a<4>;\n"
    " ld.param.u64 %a0, [out]; ld.param.u64 %a1, [count]; mov.u32 %r0, %tid.x;\n"
    " mul.wide.u32 %a2, %r0, 4; add.u64 %a0, %a0, %a2;\n"
    " and.b32 %r1, %r0, 1; setp.ne.u32 %p, %r1, 0; @!%p bra even;\n"
    " { .param .b32 p0; .param .b64 p1; .param .b32 q; st.param.b32 [p0], %r0; st.param.b64 [p1], %a1;\n"
    " call (q), narrow, (p0, p1); ld.param.b32 %r2, [q]; }\n"
    " bra join;\n"
    "even:\n"
    " { .param .b32 p0; .param .b64 p1; .param .b32 q; st.param.b32 [p0], %r0; st.param.b64 [p1], %a1;\n"
    " call (q), wide, (p0, p1); ld.param.b32 %r2, [q]; }\n"
    "join:\n"
    " st.global.u32 [%a0], %r2; ret; }\n";

static void check_frames(struct program *p)
{
    uint32_t out[64];
    uint64_t dout = buffer(p, sizeof out), dcount = zeros(p, 4);
    launch(p, "frames", SHAPE(1), SHAPE(64), 0, ARGS(&dout, &dcount));
    get(p, out, dout, sizeof out);
    for (uint32_t t = 0; t < 64; t++)
        assert_int_equal(out[t], t & 1 ? 8 * t + 28 : 3 * t + 6);
}

static const char heap_ptx[] =
    PTX_HEAD
    ".extern .func (.param .b64 p) malloc(.param .b64 n);\n"
    ".extern .func free(.param .b64 p);\n"
    ".visible .entry heap(.param .u64 out, .param .u32 beyond)\n"
    "{ .reg .b64 %a<4>; .reg .b32 %r<2>;\n"
    " ld.param.u64 %a0, [out]; ld.param.u32 %r0, [beyond];\n"
    " { .param .b64 n; .param .b64 q; st.param.b64 [n], 64; call (q), malloc, (n); ld.param.b64 %a1, [q]; }\n"
    " st.u32 [%a1], 7; ld.u32 %r1, [%a1]; st.global.u32 [%a0], %r1;\n"
    " cvt.u64.u32 %a2, %r0; add.u64 %a1, %a1, %a2;\n"
    " { .param .b64 n; st.param.b64 [n], %a1; call free, (n); }\n"
    " ret; }\n";

static void check_heap(struct program *p)
{
    uint32_t beyond = 0, got = 0;
    uint64_t dout = zeros(p, 4);
    launch(p, "heap", SHAPE(1), SHAPE(1), 0, ARGS(&dout, &beyond));
    get(p, &got, dout, 4);
    assert_int_equal(got, 7);
    beyond = 8;
    assert_int_equal(try_launch(p, "heap", SHAPE(1), SHAPE(1), 0, ARGS(&dout, &beyond)), 719);
    char *log = read_text(p->log);
    assert_non_null(strstr(log, "which malloc did not return"));
    free(log);
    unlink(p->log);
}

/* An invalid format and hostile widths are printed unchanged. */
static const char formats_ptx[] =
    PTX_HEAD
    ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
    ".global .align 1 .b8 text[18] = {37, 110, 37, 113, 32, 37, 57, 57, 57, 57, 57, 57, 57, 100, 32, 37, 0,"
    " 0};\n"
    ".visible .entry formats(.param .u64 out)\n"
    "{ .reg .b64 %a<4>; .reg .b32 %r<2>;\n"
    " ld.param.u64 %a0, [out]; mov.u64 %a1, text; mov.u64 %a2, 0;\n"
    " { .param .b64 f; .param .b64 a; .param .b32 r; st.param.b64 [f], %a1; st.param.b64 [a], %a2;\n"
    " call (r), vprintf, (f, a); ld.param.b32 %r0, [r]; }\n"
    " st.global.u32 [%a0], %r0; ret; }\n";

static void check_formats(struct program *p)
{
    uint32_t got = 9;
    uint64_t dout = zeros(p, 4);
    int kept, file = printing_begin(&kept);
    unsigned int result = try_launch(p, "formats", SHAPE(1), SHAPE(1), 0, ARGS(&dout));
    char *text = printing_end(file, kept);
    assert_int_equal(result, 0);
    get(p, &got, dout, 4);
    assert_int_equal(got, 0);
    assert_string_equal(text, "%n%q %9999999d %");
    free(text);
}

static const char unknown_ptx[] =
    PTX_HEAD
    ".extern .func mystery(.param .b64 p);\n"
    ".visible .entry e() { .param .b64 q; st.param.b64 [q], 0; call mystery, (q); ret; }\n";
static const char misfit_ptx[] =
    PTX_HEAD
    ".extern .func free(.param .b32 p);\n"
    ".visible .entry e() { .param .b32 q; st.param.b32 [q], 0; call free, (q); ret; }\n";

struct ptx_case { const char *name, *text; void (*check)(struct program *p); const char *refused; };
static const struct ptx_case ptx_cases[] = {
    {"frames", frames_ptx, check_frames, NULL},
    {"heap", heap_ptx, check_heap, NULL},
    {"formats", formats_ptx, check_formats, NULL},
    {"unknown", unknown_ptx, NULL, "nothing defines 'mystery'"},
    {"misfit", misfit_ptx, NULL, "free takes 1 arguments"},
};
#endif
