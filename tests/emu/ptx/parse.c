/* parse.c - the PTX parser: the tree of each construct, and the line and words of each error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <locale.h>
#include <math.h>
#include <time.h>

#include <cmocka.h>

#include "tools/emu/ptx/ptx.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif

#if !defined(SANITIZED) && defined(__GLIBC__)
#define CAN_FAIL_MEMORY 1
/* glibc's own, under our name: the allocation that `fail_at` counts down to fails. */
extern void *__libc_calloc(size_t count, size_t size);
static long  fail_at = -1;
void        *calloc(size_t count, size_t size)
{
    return fail_at >= 0 && fail_at-- == 0 ? NULL : __libc_calloc(count, size);
}
#else
#define CAN_FAIL_MEMORY 0
static long fail_at = -1;
#endif

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define HEADER       ".version 9.0\n.target sm_90a\n.address_size 64\n" /* what follows is on line 4 */

/* ---- helpers ------------------------------------------------------------------------------------------- */
static struct ptx_module *parse(const char *text)
{
    char               error[256];
    struct ptx_module *m = ptx_parse(text, strlen(text), error, sizeof error);
    if (m == NULL)
        fail_msg("%s\n%s", text, error);
    return m;
}

/* A kernel of this body, on line 5, behind these declarations, on line 4. */
static const char *kernel(const char *outside, const char *body)
{
    static char text[65536];
    int         bytes = snprintf(text, sizeof text,
                                 HEADER "%s\n.visible .entry k(.param .u64 a) { .reg .pred %%p<4>; .reg .b32 %%i<8>; "
                                                ".reg .b64 %%d<4>; .reg .f32 %%f<8>; %s }\n",
                                 outside, body);
    assert_true(bytes > 0 && (size_t)bytes < sizeof text);
    return text;
}

static struct ptx_module *parse_kernel(const char *outside, const char *body)
{
    return parse(kernel(outside, body));
}

static const struct ptx_function *function(const struct ptx_module *m, const char *name)
{
    for (unsigned int i = 0; i < m->function_count; i++)
        if (strcmp(m->functions[i]->name, name) == 0)
            return m->functions[i];
    fail_msg("no function '%s'", name);
    return NULL;
}

static const struct ptx_symbol *variable(const struct ptx_module *m, const char *name)
{
    for (unsigned int i = 0; i < m->variable_count; i++)
        if (strcmp(m->variables[i]->name, name) == 0)
            return m->variables[i];
    fail_msg("no variable '%s'", name);
    return NULL;
}

static void check_error(const char *text, const char *want)
{
    char               error[256] = "";
    struct ptx_module *m = ptx_parse(text, strlen(text), error, sizeof error);
    if (m != NULL)
        fail_msg("this must be refused, with %s:\n%s", want, text);
    if (strcmp(error, want) != 0)
        fail_msg("%s\n  said:   %s\n  wanted: %s", text, error, want);
}

/* The instruction's text as ptx_instruction_text says it. */
static void check_instruction(const char *outside, const char *written, const char *want)
{
    char               text[1024];
    struct ptx_module *m = parse_kernel(outside, written);
    assert_int_equal(function(m, "k")->code_count, 1);
    assert_string_equal(ptx_instruction_text(&function(m, "k")->code[0], text, sizeof text), want);
    ptx_free(m);
}

/* The first operand of `mov.u64 %d0, ...;` behind the comma. */
static struct ptx_operand source(struct ptx_module **m, const char *outside, const char *written)
{
    char body[512];
    snprintf(body, sizeof body, "mov.u64 %%d0, %s;", written);
    *m = parse_kernel(outside, body);
    assert_int_equal(function(*m, "k")->code[0].operand_count, 2);
    return function(*m, "k")->code[0].operands[1];
}

/* ---- header, types, memory ----------------------------------------------------------------------------- */
static void test_header(void **state)
{
    static const struct {
        const char *text;
        int         version, target;
        char        suffix;
    } good[] = {
        {".version 9.0\n.target sm_90a\n.address_size 64\n", 90, 90, 'a'},
        {".version 6.3 .target sm_75", 63, 75, 0},
        {"// hello\n.version 8.8\n.target sm_100f, debug\n", 88, 100, 'f'},
        {".version 7.0\n.target texmode_independent, sm_80\n.address_size 64 /* x */", 70, 80, 0},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(good); i++) {
        struct ptx_module *m = parse(good[i].text);
        assert_int_equal(m->version, good[i].version);
        assert_int_equal(m->target, good[i].target);
        assert_int_equal(m->target_suffix, good[i].suffix);
        assert_int_equal(m->address_size, 64);
        assert_int_equal(m->function_count, 0);
        ptx_free(m);
    }
    check_error("", "line 1: .version expected instead of the end of the text");
    check_error("\n.target sm_90\n", "line 2: .version expected instead of '.target'");
    check_error(".version 9\n.target sm_90\n", "line 1: a version such as 9.0 expected instead of '9'");
    check_error(".version 9.0\n\n.target compute_90\n",
                "line 3: a target such as sm_90 expected instead of 'compute_90'");
    check_error(".version 9.0\n.target sm_90b\n",
                "line 2: a target such as sm_90 expected instead of 'sm_90b'");
    check_error(".version 9.0\n.target sm_90, sm_80\n", "line 2: a second target");
    check_error(".version 9.0\n.target debug\n", "line 3: .target names no sm_...");
    check_error(".version 9.0\n.target sm_90\n.address_size 32\n",
                "line 3: only .address_size 64 is supported");
    check_error(HEADER ".version 9.0\n", "line 4: a variable or a function expected instead of '.version'");
}

static void test_types(void **state)
{
    (void)state;
    assert_int_equal(ptx_type_bits(PTX_b128), 128);
    assert_int_equal(ptx_type_bits(PTX_pred), 1);
    assert_int_equal(ptx_type_bits(PTX_NO_TYPE), 0);
    assert_int_equal(ptx_type_bits(PTX_TYPE_COUNT), 0);
    assert_int_equal(ptx_type_find("bf16x2"), PTX_bf16x2);
    assert_int_equal(ptx_type_find("e4m3"), PTX_NO_TYPE);
    assert_int_equal(ptx_type_find(""), PTX_NO_TYPE);
    for (int i = 1; i < PTX_TYPE_COUNT; i++)
        assert_int_equal(ptx_type_find(ptx_type_name((enum ptx_type)i)), i);
}

static void test_memory(void **state)
{
    (void)state;
    struct ptx_memory *memory = ptx_memory_new();
    unsigned char     *before = NULL;
    for (size_t bytes = 0; bytes < 300000; bytes = bytes * 2 + 1) {
        unsigned char *p = (unsigned char *)ptx_alloc(memory, bytes, 1);
        assert_non_null(p);
        assert_ptr_not_equal(p, before);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (size_t i = 0; i < bytes; i++)
            assert_int_equal(p[i], 0);
        memset(p, 0xff, bytes);
        before = p;
    }
    assert_null(ptx_alloc(memory, SIZE_MAX, 2));
    assert_null(ptx_alloc(memory, SIZE_MAX / 2, 2));
    assert_null(ptx_alloc(memory, SIZE_MAX, 1));
    ptx_memory_free(memory);
    ptx_memory_free(NULL);
    ptx_free(NULL);
}

/* ---- variables ----------------------------------------------------------------------------------------- */
static void test_variables(void **state)
{
    static const struct {
        const char    *text;
        enum ptx_space space;
        enum ptx_type  type;
        unsigned int   vector, align;
        uint64_t       count, bytes;
    } rows[] = {
        {".global .u32 x;", PTX_GLOBAL, PTX_u32, 1, 4, 1, 4},
        {".const .align 16 .b8 x[3];", PTX_CONST, PTX_b8, 1, 16, 3, 3},
        {".shared .align 1 .f64 x[2][3][4];", PTX_SHARED, PTX_f64, 1, 8, 24, 192},
        {".global .v4 .f32 x[5];", PTX_GLOBAL, PTX_f32, 4, 16, 5, 80},
        {".global .align 8 .v2 .u16 x;", PTX_GLOBAL, PTX_u16, 2, 8, 1, 4},
        {".extern .shared .align 128 .b8 x[];", PTX_SHARED, PTX_b8, 1, 128, 0, 0},
        {".global .b128 x;", PTX_GLOBAL, PTX_b128, 1, 16, 1, 16},
        {".global .b32 x[] = {1, 2, 3};", PTX_GLOBAL, PTX_b32, 1, 4, 3, 12},
        {".global .s16 x[][2] = {{1}, {2, 3}, {}};", PTX_GLOBAL, PTX_s16, 1, 2, 6, 12},
        {".global .texref x;", PTX_GLOBAL, PTX_texref, 1, 8, 1, 8},
        {".tex .u32 x;", PTX_TEX, PTX_u32, 1, 4, 1, 4},
        {".global .b8 x[1099511627776];", PTX_GLOBAL, PTX_b8, 1, 1, (uint64_t)1 << 40, (uint64_t)1 << 40},
        {".global .attribute(.managed, .unified(0x1, 2)) .u32 x = 3;", PTX_GLOBAL, PTX_u32, 1, 4, 1, 4},
        {".global .samplerref x = {addr_mode_0 = clamp_to_edge, force_unnormalized_coords = 1};", PTX_GLOBAL,
         PTX_samplerref, 1, 8, 1, 8},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[512];
        snprintf(text, sizeof text, HEADER "\n%s", rows[i].text);
        struct ptx_module *m = parse(text);
        assert_int_equal(m->variable_count, 1);
        const struct ptx_symbol *s = variable(m, "x");
        assert_int_equal(s->kind, PTX_VARIABLE);
        assert_int_equal(s->space, rows[i].space);
        assert_int_equal(s->type, rows[i].type);
        assert_int_equal(s->vector, rows[i].vector);
        assert_int_equal(s->align, rows[i].align);
        assert_int_equal(s->count, rows[i].count);
        assert_int_equal(s->bytes, rows[i].bytes);
        assert_int_equal(s->is_array, strchr(rows[i].text, '[') != NULL);
        assert_int_equal(s->place.line, 5);
        ptx_free(m);
    }
}

static void test_linkage(void **state)
{
    (void)state;
    struct ptx_module *m = parse(
        HEADER ".visible .global .u32 v, w[2];\n.weak .const .u32 q;\n.common .global .u32 c;\n"
               ".extern .global .u32 e;\n.extern .global .b8 f[];\n.global .u64 u = f;\n"
               ".visible .global .b8 f[2] = {7, 8};\n.global .f32 many<3>, one;\n"
               ".extern .global .b8 f[];\n");
    assert_true(variable(m, "v")->is_visible && variable(m, "w")->is_visible && !variable(m, "u")->is_visible);
    assert_true(variable(m, "q")->is_weak && variable(m, "c")->is_common && variable(m, "e")->is_extern);
    const struct ptx_symbol *f = variable(m, "f"); /* the declaration became the definition */
    assert_true(f->is_visible && !f->is_extern && f->bytes == 2 && f->init[1] == 8);
    assert_int_equal(f->place.line, 10);
    assert_ptr_equal(variable(m, "u")->relocations[0].symbol, f);
    assert_int_equal(m->variable_count, 11);
    assert_int_equal(variable(m, "many2")->bytes, 4);
    ptx_free(m);
}

static void check_bytes(const char *text, const void *want, size_t bytes)
{
    struct ptx_module *m = parse(text);
    assert_int_equal(variable(m, "x")->bytes, bytes);
    assert_memory_equal(variable(m, "x")->init, want, bytes);
    assert_int_equal(variable(m, "x")->relocation_count, 0);
    ptx_free(m);
}

static void test_initial_values(void **state)
{
    static const uint8_t  b8[] = {1, 255, 0, 8 + 16, 5, 0};
    static const int16_t  s16[2][3] = {{-1, 2, 0}, {4, 0, 0}};
    static const uint64_t u64[] = {UINT64_MAX, 0x8000000000000000u};
    static const float    f32[2][4] = {{1.5f, -2.0f, 1e3f, 0.1f}, {3.0f, 0, 0, 0}};
    static const double   f64[] = {0.1, -1.0, 1.5};
    static const uint32_t b32[] = {0x3f800000, 0xffffffff, 32};
    (void)state;
    check_bytes(HEADER ".global .b8 x[6] = {1, 255, 256, 1 << 3 | 0x10, 5};", b8, sizeof b8);
    check_bytes(HEADER ".const .s16 x[2][3] = {{-1, 2}, {4}};", s16, sizeof s16);
    check_bytes(HEADER ".global .u64 x[] = {-1, 0x8000000000000000};", u64, sizeof u64);
    check_bytes(HEADER ".global .v4 .f32 x[2] = {{1.5, -2.0, 1e3, 0.1}, {0f40400000}};", f32, sizeof f32);
    check_bytes(HEADER ".global .f64 x[3] = {0.1, 0dBFF0000000000000, 0f3FC00000};", f64, sizeof f64);
    check_bytes(HEADER ".global .b32 x[3] = {0f3F800000, ~0, WARP_SZ};", b32, sizeof b32);
}

static void test_relocations(void **state)
{
    static const struct {
        uint64_t     offset;
        unsigned int bytes, shift;
        bool         generic;
        const char  *symbol;
        int64_t      addend;
    } want[] = {
        {0, 8, 0, false, "g", 0},   {8, 8, 0, true, "g", 4},         {24, 8, 0, false, "f", 0},
        {32, 8, 0, false, "g", -4}, {40, 8, 0, false, "generic", 0},
    };
    (void)state;
    struct ptx_module *m = parse(
        HEADER ".global .u32 g; .func f(); .const .b8 generic[4];\n"
               ".global .u64 x[] = {g, generic(g)+4, 7, f, g+-4, generic};\n"
               ".global .u8 y[4] = {0xff(g), 3, 0xff0000(generic(g)+8), 0xFF00000000000000(f)};\n"
               ".global .u32 z = g;\n");
    const struct ptx_symbol *x = variable(m, "x"), *y = variable(m, "y");
    assert_int_equal(x->relocation_count, COUNT(want));
    for (size_t i = 0; i < COUNT(want); i++) {
        assert_int_equal(x->relocations[i].offset, want[i].offset);
        assert_int_equal(x->relocations[i].bytes, want[i].bytes);
        assert_int_equal(x->relocations[i].shift, want[i].shift);
        assert_int_equal(x->relocations[i].generic, want[i].generic);
        assert_string_equal(x->relocations[i].symbol->name, want[i].symbol);
        assert_int_equal(x->relocations[i].addend, want[i].addend);
    }
    assert_int_equal(x->init[16], 7);
    assert_int_equal(x->relocations[2].symbol->kind, PTX_FUNCTION);
    assert_ptr_equal(x->relocations[2].symbol->function, function(m, "f"));
    assert_int_equal(y->relocation_count, 3);
    assert_true(y->relocations[0].bytes == 1 && y->relocations[0].shift == 0 && !y->relocations[0].generic);
    assert_true(y->relocations[1].offset == 2 && y->relocations[1].shift == 16 && y->relocations[1].generic);
    assert_true(y->relocations[1].addend == 8 && y->relocations[2].shift == 56 && y->init[1] == 3);
    assert_int_equal(variable(m, "z")->relocations[0].bytes, 4);
    ptx_free(m);
}

static void test_variable_errors(void **state)
{
    static const char *const rows[][2] = {
        {"\n.global .u32 x\n.global .u32 y;", "line 5: ';' is missing before '.global'"},
        {".global .u32 x; .global\n.u32 x;", "line 5: 'x' is already declared on line 4"},
        {".global .u32 x[0];", "line 4: 'x' is an array of nothing"},
        {".global .u32 x[] = {};", "line 4: 'x' has no size and is not .extern"},
        {".global .u32 x[];", "line 4: 'x' has no size and is not .extern"},
        {".global .u32 x[2][];", "line 4: the size of an array expected instead of ']'"},
        {".global .u32 x[1099511627776];", "line 4: 'x' is too large"},
        {".global .u32 x[4294967296][4294967296][4294967296];", "line 4: 'x' is too large"},
        {".global .u32 x[][4294967296][4294967296] = {{{1}}};", "line 4: 'x' is too large"},
        {".global .b8 x[2000000000] = {1};", "line 4: 'x': more than 67108864 bytes with initial values"},
        {".global .b8 x[1][1][1][1][1][1][1][1][1];", "line 4: 'x' has more than 8 dimensions"},
        {".global .align 3\n.u32 x;", "line 4: an alignment must be a power of two"},
        {".global .align 0 .u32 x;", "line 4: an alignment must be a power of two"},
        {".global .align 2097152 .u32 x;", "line 4: an alignment: 2097152 is more than 1048576"},
        {".global .u32 x[2] = {1, 2, 3};", "line 4: 'x': more than 2 values"},
        {".global .u32 x[2] = 1;", "line 4: '{' expected instead of '1'"},
        {".global .u32 x[2] = {1, {2}};", "line 4: a constant expected instead of '{'"},
        {".global .u32 x[2] = {1, };", "line 4: a constant expected instead of '}'"},
        {".global .u32 x = 1.5;", "line 4: 'x': a float where .u32 is wanted"},
        {".global .f32 x = 1\n;", "line 4: 'x': an integer where .f32 is wanted"},
        {".global .f16 x = 1.0;", "line 4: 'x': .f16 has no initial values"},
        {".global .u64 x = y;", "line 4: unknown name 'y'"},
        {".global .u64 x = x;", "line 4: unknown name 'x'"},
        {".shared .u32 s; .global .u64 x = generic(s);", "line 4: the address of 's' is no constant"},
        {".global .u32 s; .global .u16 x = s;", "line 4: 'x': an address does not fit in .u16"},
        {".global .u32 s; .global .f64 x = s;", "line 4: 'x' cannot hold an address"},
        {".global .u32 s; .global .u8 x = 0xfff(s);", "line 4: a mask must choose one whole byte"},
        {".shared .u32 x = 3;",
         "line 4: 'x': only .global and .const variables that are not .extern have initial values"},
        {".global .pred x;", "line 4: .pred is a type of single registers"},
        {".global .bf16 x;", "line 4: .bf16 is a type of instructions: declare .b16"},
        {".global .v4 .u64 x;", "line 4: a vector has at most 128 bits"},
        {".global .v8 .u8 x;", "line 4: '.v8' has no meaning in this declaration"},
        {".global .u32 .u32 x;", "line 4: '.u32' has no meaning in this declaration"},
        {".global x;", "line 4: a type expected instead of 'x'"},
        {".global .u32 _;", "line 4: a name expected instead of '_'"},
        {".global .u32 x.y;", "line 4: ';' is missing before '.y'"},
        {".local .u32 x;", "line 4: '.local' belongs into a function"},
        {".reg .u32 x;", "line 4: '.reg' belongs into a function"},
        {".visible .weak .global .u32 x;", "line 4: more than one of .extern, .visible, .weak and .common"},
        {".common .shared .u32 x;", "line 4: only .global variables are .common"},
        {".extern .global .u32 x;\n.global .u32 x;",
         "line 5: 'x' is .extern on line 4 and must be .visible here"},
        {".extern .global .u32 x;\n.visible .global .u64 x;", "line 5: 'x' is declared otherwise on line 4"},
        {".global .u32 x<5000>;", "line 4: 'x': a family of more than 4096 variables"},
        {".global .u32 x<4>, x3;", "line 4: 'x3' is already declared on line 4"},
        {"foo", "line 4: a variable or a function expected instead of 'foo'"},
        {".bar", "line 4: a variable or a function expected instead of '.bar'"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[512];
        snprintf(text, sizeof text, HEADER "%s", rows[i][0]);
        check_error(text, rows[i][1]);
    }
}

/* ---- registers and scopes ------------------------------------------------------------------------------ */
static void test_registers(void **state)
{
    (void)state;
    struct ptx_module *m = parse(
        HEADER ".func (.reg .b32 %r) f(.reg .b64 %x) { .reg .b32 %q<5>, one; .reg .pred %p;\n"
               ".reg .v4 .f32 v<2>, w; .reg .b32 %e<0>;\n"
               "mov.b32 %r, %q4; mov.f32 v1.y, w.a; { .reg .b16 %q2, %h<2>; mov.b16 %h1, %q2; }\n"
               "mov.b32 %q2, %q03; @!%p ret; }\n");
    const struct ptx_function    *f = function(m, "f");
    const struct ptx_instruction *in = f->code;
    static const struct {
        const char   *name;
        unsigned int  first, vector;
        uint64_t      count;
        enum ptx_type type;
    } want[] = {{"%r", 0, 1, 1, PTX_b32},  {"%x", 1, 1, 1, PTX_b64},  {"%q", 2, 1, 5, PTX_b32},
                {"one", 7, 1, 1, PTX_b32}, {"%p", 8, 1, 1, PTX_pred}, {"v", 9, 4, 2, PTX_f32},
                {"w", 11, 4, 1, PTX_f32},  {"%e", 12, 1, 0, PTX_b32}, {"%q2", 12, 1, 1, PTX_b16},
                {"%h", 13, 1, 2, PTX_b16}};
    assert_int_equal(f->register_symbols, COUNT(want));
    assert_int_equal(f->register_count, 15);
    for (size_t i = 0; i < COUNT(want); i++) {
        assert_string_equal(f->registers[i]->name, want[i].name);
        assert_int_equal(f->registers[i]->kind, PTX_REGISTER);
        assert_int_equal(f->registers[i]->space, PTX_REG);
        assert_int_equal(f->registers[i]->first, want[i].first);
        assert_int_equal(f->registers[i]->vector, want[i].vector);
        assert_int_equal(f->registers[i]->count, want[i].count);
        assert_int_equal(f->registers[i]->type, want[i].type);
    }
    assert_ptr_equal(f->results[0], f->registers[0]);
    assert_ptr_equal(f->parameters[0], f->registers[1]);
    assert_int_equal(in[0].operands[1].index, 6);
    assert_true(in[1].operands[0].index == 10 && in[1].operands[0].component == 'y');
    assert_true(in[1].operands[1].index == 11 && in[1].operands[1].component == 'w');
    assert_true(in[2].operands[0].index == 14 && in[2].operands[1].index == 12); /* %q2 hides the family's */
    assert_true(in[3].operands[0].index == 4 && in[3].operands[1].index == 5);   /* and no longer does */
    assert_true(in[4].guarded && in[4].guard_negated && in[4].guard == 8);
    ptx_free(m);
}

static void test_register_errors(void **state)
{
    /* clang-format off */
    static const char *const rows[][2] = {
        { "mov.u32 %i0, %i8;", "line 5: unknown name '%i8'" },
        { "mov.u32 %i0,\n%zz;", "line 6: unknown name '%zz'" },
        { "mov.u32 %i0, zz;", "line 5: unknown name 'zz'" },
        { "\n{ .reg .b32 %s; }\nmov.u32 %i0, %s;", "line 7: unknown name '%s'" },
        { "mov.u32 %late, 1; .reg .b32 %late;", "line 5: unknown name '%late'" },
        { ".reg .f32 %x0<2>; mov.f32 %x01, %f0;", "line 5: unknown name '%x01'" },
        { "mov.u32 %i, 0;", "line 5: unknown name '%i'" },
        { ".reg .b32 %i1;", "line 5: '%i1' is already declared on line 5" },
        { ".reg .b32 %x9;\n.reg .b32 %x<10>;", "line 6: '%x9' is already declared on line 5" },
        { ".reg .b32 %i<2>;", "line 5: '%i' is already declared on line 5" },
        { ".reg .b32 a;", "line 5: 'a' is already declared on line 5" },
        { ".reg .b32 %x<1048570>;", "line 5: '%x': more than 1048576 registers in a function" },
        { ".reg .b32 %x<4000000000>;", "line 5: the size of a family: 4000000000 is more than 1048576" },
        { ".reg .b32 %x<2;", "line 5: '>' is missing before ';'" },
        { ".reg .b32 %x[2];", "line 5: ';' is missing before '['" },
        { ".reg .align 4 .b32 %x;", "line 5: '.align' has no meaning in this declaration" },
        { "mov.f32 %f0, %f1.x;", "line 5: '%f' has no component '.x'" },
        { ".reg .v2 .f32 v; mov.f32 %f0, v.z;", "line 5: 'v' has no component '.z'" },
        { "@%i0 ret;", "line 5: '%i0' is no predicate" },
        { "@%z ret;", "line 5: unknown name '%z'" },
        { "@ret;", "line 5: unknown name 'ret'" },
        { "@%p0 { ret; }", "line 5: an instruction expected instead of '{'" },
    };
    /* clang-format on */
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        check_error(kernel("", rows[i][0]), rows[i][1]);
}

static void test_labels(void **state)
{
    (void)state;
    struct ptx_module *m =
        parse_kernel("", "$a: bra $b; { bra $b; bra $a; bra c; $b: bra $b; c: }\n"
                         "{ bra c; { $a: bra c; bra $a; } } $b: c: bra $b; ts: .branchtargets $a, c, z;\n"
                         "brx.idx %i0, ts; z: end:");
    const struct ptx_function *f = function(m, "k");
    static const char *const   names[] = {"$a", "$b", "c", "$a", "$b", "c", "z", "end"};
    static const uint32_t      at[] = {0, 4, 5, 6, 8, 8, 10, 10};
    static const uint32_t      jumps[] = {8, 4, 0, 5, 4, 8, 8, 6, 8}; /* where each bra goes to */
    assert_int_equal(f->label_count, COUNT(names));
    for (size_t i = 0; i < COUNT(names); i++) {
        assert_string_equal(f->labels[i]->name, names[i]);
        assert_int_equal(f->labels[i]->kind, PTX_LABEL);
        assert_int_equal(f->labels[i]->target, at[i]);
    }
    assert_int_equal(f->code_count, 10);
    for (size_t i = 0; i < COUNT(jumps); i++) {
        assert_int_equal(f->code[i].operands[0].kind, PTX_OP_SYMBOL);
        assert_int_equal(f->code[i].operands[0].symbol->target, jumps[i]);
    }
    const struct ptx_symbol *ts = f->code[9].operands[1].symbol;
    assert_int_equal(ts->kind, PTX_TARGETS);
    assert_int_equal(ts->target_count, 3);
    assert_ptr_equal(ts->targets[0], f->labels[0]);
    assert_ptr_equal(ts->targets[1], f->labels[5]);
    assert_ptr_equal(ts->targets[2], f->labels[6]);
    ptx_free(m);
}

static void test_label_errors(void **state)
{
    /* clang-format off */
    static const char *const rows[][2] = {
        { "\nbra x; { x: }", "line 6: unknown name 'x'" },
        { "bra x; .reg .b32 x;", "line 5: unknown name 'x'" },
        { "x: x: ret;", "line 5: 'x' is already declared on line 5" },
        { ".reg .b32 x; x: ret;", "line 5: 'x' is already declared on line 5" },
        { "ts: .branchtargets\nx;", "line 6: unknown name 'x'" },
        { "ts: .branchtargets k;", "line 5: 'k' is no label" },
        { "ts: .calltargets a;", "line 5: 'a' is no function" },
        { "ts: .calltargets nowhere;", "line 5: unknown name 'nowhere'" },
        { "brx.idx %i0, ts; x: ts: .branchtargets x;", "line 5: unknown name 'ts'" },
    };
    /* clang-format on */
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        check_error(kernel("", rows[i][0]), rows[i][1]);
}

/* ---- instructions -------------------------------------------------------------------------------------- */
static void test_instruction(void **state)
{
    (void)state;
    struct ptx_module *m = parse_kernel(
        "", "@!%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%i0+16],\n"
            "[%d1, {%i2, -3}], [%i4];");
    const struct ptx_instruction *in = function(m, "k")->code;
    static const char *const      modifiers[] =
        {"async", "bulk", "tensor", "2d", "shared::cluster", "global", "mbarrier::complete_tx::bytes"};
    assert_int_equal(function(m, "k")->code_count, 1);
    assert_string_equal(in->opcode, "cp");
    assert_int_equal(in->modifier_count, COUNT(modifiers));
    for (size_t i = 0; i < COUNT(modifiers); i++)
        assert_string_equal(in->modifiers[i], modifiers[i]);
    assert_true(in->guarded && in->guard_negated);
    assert_int_equal(in->guard, 1);
    assert_int_equal(in->place.line, 5);
    assert_int_equal(in->operand_count, 3);
    const struct ptx_operand *o = in->operands;
    assert_true(o[0].kind == PTX_OP_ADDRESS && o[0].integer == 16 && o[0].count == 1);
    assert_true(o[0].items[0].kind == PTX_OP_REGISTER && o[0].items[0].index == 4);
    assert_true(o[1].kind == PTX_OP_ADDRESS && o[1].integer == 0 && o[1].count == 2);
    assert_true(o[1].items[0].kind == PTX_OP_REGISTER && o[1].items[0].index == 13);
    assert_true(o[1].items[1].kind == PTX_OP_LIST && o[1].items[1].count == 2);
    assert_true(o[1].items[1].items[1].kind == PTX_OP_INTEGER && (int64_t)o[1].items[1].items[1].integer == -3);
    ptx_free(m);
}

/* Written, and as said of the tree: what is equal but for blanks is written once. */
static void test_instruction_text(void **state)
{
    /* clang-format off */
    static const char *const rows[][2] = {
        { "ret;", "ret" },
        { "ld.global.L2::128B.v4.f32 {%f0, %f1, _, %f3}, [%d0+-16];", NULL },
        { "ld.shared::cta.u32 %i0, [sh+(4*2)+1];", "ld.shared::cta.u32 %i0, [sh+9]" },
        { "ld.local.u32 %i0, [16];", NULL },
        { "ld.global.u32 %i0, arr[2];", "ld.global.u32 %i0, [arr+8]" },
        { "mov.u64 %d0, arr[2];", "mov.u64 %d0, arr+8" },
        { "mov.u64 %d0, arr+0x10;", "mov.u64 %d0, arr+16" },
        { "setp.lt.and.s32 %p0|%p1, %i0, -5, !%p2;", NULL },
        { "setp.eq.s32 _|%p1, %i0, 5;", NULL },
        { "elect.sync _|%p0, 0xffffffff;", "elect.sync _|%p0, 4294967295" },
        { "add .u32 %i0 , %i1,5U ;", "add.u32 %i0, %i1, 5U" },
        { "add.s32 %i0, -%i1, 1;", NULL },
        { "mov.f32 %f0, 0f7F800000;", NULL },
        { "mov.f32 %f0, -1.5;", "mov.f32 %f0, 0dBFF8000000000000" },
        { "mov.u32 %i0, %ctaid.y;", NULL },
        { "mov.u32 %i0, %tid .x;", "mov.u32 %i0, %tid.x" },
        { "mov.v4.u32 {%i0, %i1, %i2, %i3}, %tid;", NULL },
        { "tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [tx, sm, {%f4, %f5}], {%i0, %i1}, %f6;", NULL },
        { "tex.3d.v4.f32.s32 {%f0, %f1, %f2, %f3}, [%d0, {%i4, %i5, %i6, _}];", NULL },
        { "tcgen05.st.sync.aligned.16x64b.x1.b32 [%i0+4], {%i1};", NULL },
        { "add.noftz.f16 %i0, %i1, /* comment ; */ %i2; // more\n", "add.noftz.f16 %i0, %i1, %i2" },
        { "mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%i0], 5;", NULL },
        { "call.uni (%i0), f, (%i1, (3+4)*2);", "call.uni (%i0), f, (%i1, 14)" },
        { "call g;", NULL },
        { "call g, ();", NULL },
        { "call (_), f, (1, 2);", NULL },
        { "atom.global.cas.b128 %i0, [%d0], %i1, %i2;", NULL },
    };
    /* clang-format on */
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char want[256];
        snprintf(want, sizeof want, "%s", rows[i][1] != NULL ? rows[i][1] : rows[i][0]);
        if (rows[i][1] == NULL)
            want[strlen(want) - 1] = 0; /* the semicolon */
        check_instruction(
            ".shared .u32 sh[8]; .global .u32 arr[9]; .global .texref tx; .global .samplerref sm;\n"
            ".func (.param .b32 r) f(.param .b32 a, .param .b32 b); .func g();",
            rows[i][0], want);
    }
    char               small[8];
    struct ptx_module *m = parse_kernel("", "add.u32 %i0, %i1, %i2;");
    assert_string_equal(ptx_instruction_text(function(m, "k")->code, small, sizeof small), "add.u32");
    assert_string_equal(ptx_instruction_text(function(m, "k")->code, small, 1), "");
    ptx_free(m);
}

static void test_operand_kinds(void **state)
{
    struct ptx_module *m;
    struct ptx_operand o;
    (void)state;
    o = source(&m, ".global .u32 g[4];", "g + 8");
    assert_true(o.kind == PTX_OP_SYMBOL && o.symbol == variable(m, "g") && o.integer == 8);
    ptx_free(m);
    o = source(&m, "", "k");
    assert_true(o.kind == PTX_OP_SYMBOL && o.symbol->kind == PTX_FUNCTION &&
                o.symbol->function == function(m, "k"));
    ptx_free(m);
    o = source(&m, "", "%clock64");
    assert_true(o.kind == PTX_OP_SPECIAL && strcmp(o.name, "clock64") == 0);
    ptx_free(m);
    o = source(&m, "", "%ctaid.z");
    assert_true(o.kind == PTX_OP_SPECIAL && strcmp(o.name, "ctaid.z") == 0 && o.component == 0);
    ptx_free(m);
    o = source(&m, "", "0f3f800000");
    assert_true(o.kind == PTX_OP_F32 && o.integer == 0x3f800000);
    ptx_free(m);
    o = source(&m, "", "0d7ff0000000000001");
    assert_true(o.kind == PTX_OP_F64 && o.integer == 0x7ff0000000000001u);
    ptx_free(m);
    o = source(&m, "", "a");
    assert_true(o.kind == PTX_OP_SYMBOL && o.symbol->space == PTX_PARAM && o.symbol->bytes == 8);
    ptx_free(m);
}

static void test_special_registers(void **state)
{
    /* clang-format off */
    static const char *const good[] = {
        "tid.x", "ntid.y", "ctaid.z", "nctaid.x", "tid.w", "clusterid.x", "nclusterid.y",
        "cluster_ctaid.x", "cluster_nctaid.z", "cluster_ctarank", "cluster_nctarank",
        "is_explicit_cluster", "laneid", "warpid", "nwarpid", "smid", "nsmid", "gridid", "lanemask_eq",
        "lanemask_le", "lanemask_lt", "lanemask_ge", "lanemask_gt", "clock", "clock_hi", "clock64", "pm0",
        "pm7", "pm0_64", "pm7_64", "envreg0", "envreg31", "globaltimer", "globaltimer_lo",
        "globaltimer_hi", "reserved_smem_offset_begin", "reserved_smem_offset_end",
        "reserved_smem_offset_cap", "reserved_smem_offset_0", "reserved_smem_offset_1", "total_smem_size",
        "aggr_smem_size", "dynamic_smem_size", "current_graph_exec", "tid",
    };
    /* clang-format on */
    static const char *const bad[] = {"envreg32", "envreg", "pm8",      "pm8_64", "pm01",
                                      "envreg01", "tidx",   "lanemask", "x"};
    char                     text[128], want[128];
    (void)state;
    for (size_t i = 0; i < COUNT(good); i++) {
        struct ptx_module *m;
        snprintf(text, sizeof text, "%%%s", good[i]);
        struct ptx_operand o = source(&m, "", text);
        assert_int_equal(o.kind, PTX_OP_SPECIAL);
        assert_string_equal(o.name, good[i]);
        ptx_free(m);
    }
    for (size_t i = 0; i < COUNT(bad); i++) {
        snprintf(text, sizeof text, "mov.u32 %%i0, %%%s;", bad[i]);
        snprintf(want, sizeof want, "line 5: unknown name '%%%s'", bad[i]);
        check_error(kernel("", text), want);
    }
    check_error(kernel("", "mov.u32 %i0, %laneid.x;"), "line 5: '%laneid' has no component '.x'");
    check_error(kernel("", "mov.u32 %i0, %tid.q;"), "line 5: '%tid' has no component '.q'");
    struct ptx_module *m =
        parse_kernel("", ".reg .b32 %tid, %laneid; mov.u32 %tid, %laneid;"); /* may be declared */
    assert_int_equal(function(m, "k")->code[0].operands[1].kind, PTX_OP_REGISTER);
    ptx_free(m);
}

static void test_constants(void **state)
{
    static const struct {
        const char *text;
        uint64_t    value;
        bool        is_unsigned;
    } rows[] = {
        {"0", 0, false},
        {"9223372036854775807", INT64_MAX, false},
        {"9223372036854775808", 0x8000000000000000u, true},
        {"0xFFffFFffFFffFFff", UINT64_MAX, true},
        {"0x10U", 16, true},
        {"017", 15, false},
        {"0b1011", 11, false},
        {"00", 0, false},
        {"-5", (uint64_t)-5, false},
        {"- -5", 5, false},
        {"+-+5", (uint64_t)-5, false},
        {"~0", UINT64_MAX, false},
        {"!3 + !0", 1, false},
        {"2 + 3 * 4", 14, false},
        {"(2 + 3) * 4", 20, false},
        {"7 / 2 * 2 + 7 % 2", 7, false},
        {"-7 / 2", (uint64_t)-3, false},
        {"-7 % 3", (uint64_t)-1, false},
        {"(0-7U) / 2", (UINT64_MAX - 6) / 2, true},
        {"1 << 4 + 1", 32, false},
        {"-16 >> 2", (uint64_t)-4, false},
        {"(.u64)(-16) >> 60", 15, true},
        {"(.s64)0xFFFFFFFFFFFFFFF0 >> 2", (uint64_t)-4, false},
        {"1 << 64", 0, false},
        {"-1 >> 99", UINT64_MAX, false},
        {"6 & 3 | 8 ^ 1", 11, false},
        {"1 | 2 == 2", 1, false},
        {"3 > 2 && 2 >= 2 && 1 < 2 && 1 <= 1", 1, false},
        {"-1 < 1", 1, false},
        {"-1 < 1U", 0, false},
        {"0 || 5", 1, false},
        {"1 ? 2 : 3", 2, false},
        {"0 ? 2 : 0 ? 3 : 4", 4, false},
        {"1.5 > 1.0 ? 7 : 8", 7, false},
        {"WARP_SZ - 1", 31, false},
        {"(0x8000000000000000) / (0-1)", 0, true},
        {"((.s64)0x8000000000000000) / -1", 0x8000000000000000u, false},
        {"((.s64)0x8000000000000000) % -1", 0, false},
    };
    static const char *const floats[] = {"1.5",  "-2.25", "1e3", ".5", "1.", "1.5e-3+2.0*3.0", "(1.0-0.25)/2.0",
                                         "1e400"};
    static const double values[] = {1.5, -2.25, 1e3, .5, 1., 1.5e-3 + 2.0 * 3.0, (1.0 - 0.25) / 2.0, HUGE_VAL};
    struct ptx_module  *m;
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct ptx_operand o = source(&m, "", rows[i].text);
        assert_int_equal(o.kind, PTX_OP_INTEGER);
        if (o.integer != rows[i].value || o.unsigned_literal != rows[i].is_unsigned)
            fail_msg("%s is 0x%llx%s", rows[i].text, (unsigned long long)o.integer,
                     o.unsigned_literal ? "U" : "");
        ptx_free(m);
    }
    for (size_t i = 0; i < COUNT(floats); i++) {
        struct ptx_operand o = source(&m, "", floats[i]);
        assert_int_equal(o.kind, PTX_OP_F64);
        assert_memory_equal(&o.integer, &values[i], sizeof values[i]);
        ptx_free(m);
    }
}

/* 1.5 is 1.5 also where people write 1,5. */
static void test_locale(void **state)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE"};
    const char              *found = NULL;
    (void)state;
    for (size_t i = 0; i < COUNT(names) && found == NULL; i++)
        found = setlocale(LC_ALL, names[i]);
    if (found == NULL) {
        print_message("SKIP: no locale with a decimal comma is installed\n");
        skip();
    }
    struct ptx_module *m;
    struct ptx_operand o = source(&m, "", "1.5");
    setlocale(LC_ALL, "C");
    double want = 1.5;
    assert_memory_equal(&o.integer, &want, sizeof want);
    ptx_free(m);
}

static void test_instruction_errors(void **state)
{
    /* clang-format off */
    static const char *const rows[][2] = {
        { "mov.u32 %i0, %i1\nmov.u32 %i0, 2;", "line 5: ';' is missing before 'mov'" },
        { "mov.u32 %i0, %i1\n.reg .b32 %z;", "line 5: ';' is missing before '.reg'" },
        { "mov.u32 %i0 %i1;", "line 5: ';' is missing before '%i1'" },
        { "mov.u32 %i0, ;", "line 5: an operand expected instead of ';'" },
        { "mov.u32 , %i0;", "line 5: an operand expected instead of ','" },
        { ";", "line 5: an instruction expected instead of ';'" },
        { "\n.u32 x;", "line 6: '.u32' has no meaning within a function" },
        { ".tex .u32 x;", "line 5: '.tex' has no meaning within a function" },
        { "mov.u32 %i0, 08;", "line 5: '08' is not a number" },
        { "mov.u32 %i0, 0x;", "line 5: '0x' is not a number" },
        { "mov.u32 %i0, 12abc;", "line 5: '12abc' is not a number" },
        { "mov.u32 %i0, 1UU;", "line 5: '1UU' is not a number" },
        { "mov.u32 %i0, 18446744073709551616;", "line 5: '18446744073709551616' does not fit in 64 bits" },
        { "mov.f32 %f0, 0f3f80000;", "line 5: '0f3f80000' must have 8 hexadecimal digits after 0f" },
        { "mov.f32 %f0, 0f3f8000000;", "line 5: '0f3f8000000' must have 8 hexadecimal digits after 0f" },
        { "mov.f32 %f0, 0d3f800000;", "line 5: '0d3f800000' must have 16 hexadecimal digits after 0d" },
        { "mov.f32 %f0, -0f3f800000;", "line 5: 0f... takes part in no expression" },
        { "mov.f32 %f0, 1.5 + 2;", "line 5: an integer and a float in one operation" },
        { "mov.u32 %i0, 1/0\n;", "line 5: division by zero" },
        { "mov.u32 %i0, 1 ? 2;", "line 5: ':' is missing before ';'" },
        { "mov.u32 %i0, (1;", "line 5: ')' is missing before ';'" },
        { "mov.u32 %i0, 1.0 ? 2 : 3;", "line 5: a condition must be an integer" },
        { "ld.u32 %i0, [%d0;", "line 5: ']' is missing before ';'" },
        { "ld.u32 %i0, [%d0-4];", "line 5: ']' is missing before '-'" },
        { "ld.u32 %i0, [%tid.x];", "line 5: an address begins with a register, a variable or a number" },
        { "ld.u32 %i0, [];", "line 5: a name expected instead of ']'" },
        { "ld.v2.u32 {%i0, %i1, [%d0];", "line 5: '}' is missing before ';'" },
        { "ld.v2.u32 {}, [%d0];", "line 5: a list of nothing" },
        { "setp.eq.u32 %p0|a, 1, 2;", "line 5: a register or '_' expected behind '|'" },
        { "mov.u32 %i0, -a;", "line 5: only registers are negated" },
        { "mov.u32 %i0, \"x\";", "line 5: an operand expected instead of '\"x\"'" },
        { "mov.u32 %i0, #5;", "line 5: '#' has no meaning here" },
        { "mov.u32 %i0, \xc3\xa9;", "line 5: a character with the code 195 has no meaning here" },
        { "/* no end", "line 5: this comment does not end" },
        { ".pragma \"no end;\n", "line 5: this string does not end" },
        { ".pragma nounroll;", "line 5: a string expected instead of 'nounroll'" },
        { "call nowhere;", "line 5: unknown name 'nowhere'" },
        { "proto: .callprototype _ (.param .b32 _)\nret;", "line 6: ';' or '{' expected instead of 'ret'" },
        { ".visible .shared .u32 x;", "line 5: '.visible' has no meaning within a function" },
    };
    /* clang-format on */
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        check_error(kernel("", rows[i][0]), rows[i][1]);
    check_error(HEADER ".entry k() {\n{ ret;\n}\n", "line 7: the body of 'k' does not end");
    check_error(HEADER ".entry k() { ret; }\n}\n", "line 5: a variable or a function expected instead of '}'");
}

/* Deep nesting ends in an error, not on the stack's end. */
static void test_nesting(void **state)
{
    static const struct {
        const char *begin, *again, *want;
    } rows[] = {
        {".entry k() {", "{", "line 4: blocks are nested more than 64 deep"},
        {".entry k() { mov.u32 x, ", "(", "line 4: nested more than 64 deep"},
        {".entry k() { mov.u32 x, ", "-", "line 4: nested more than 64 deep"},
        {".entry k() { mov.u32 x, ", "{", "line 4: nested more than 64 deep"},
        {".entry k() { mov.u32 x, ", "1?", "line 4: nested more than 64 deep"},
        {".entry k() { mov.u32 x, ", "[3,", "line 4: nested more than 64 deep"},
        {".entry k() { call ", "((", "line 4: nested more than 64 deep"},
        {".global .u32 x[2] = {", "{", "line 4: a constant expected instead of '{'"},
    };
    enum { TIMES = 100000 };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        size_t again = strlen(rows[i].again);
        char  *text = (char *)malloc(sizeof HEADER + 100 + TIMES * again);
        int    bytes = sprintf(text, HEADER "%s", rows[i].begin);
        for (size_t k = 0; k < TIMES; k++)
            memcpy(text + (size_t)bytes + k * again, rows[i].again, again);
        text[(size_t)bytes + TIMES * again] = 0;
        char error[256] = "";
        assert_null(ptx_parse(text, strlen(text), error, sizeof error));
        assert_string_equal(error, rows[i].want);
        free(text);
    }
}

/* ---- functions ----------------------------------------------------------------------------------------- */
static void test_functions(void **state)
{
    (void)state;
    struct ptx_module *m = parse(
        HEADER ".extern .func (.param .b32 r) vprintf (.param .b64 x, .param .b64 y);\n"
               ".func f (.param .align 4 .b8 s[12], .param .f32 t) .noreturn;\n"
               ".visible .entry plain { ret; }\n"
               ".weak .entry big (.param .u64 .ptr .global .align 16 p, .param .u64 .ptr q, .param .align 64 "
               ".b8 map[128])\n"
               ".reqntid 128, 2 .minnctapersm 3 .maxnreg 168 .explicitcluster .reqnctapercluster 2\n"
               ".maxclusterrank 8 .maxntid 256 .pragma \"x\"; .abi_preserve 4\n"
               "{ .local .align 8 .b8 depot[24]; .shared .u32 s; .const .u32 c = 7; .param .b32 out; ret; }\n"
               ".func f (.param .align 4 .b8 other[12], .param .f32 name) { trap; }\n"
               ".visible .func g (.param .align 4 .b8 z[12], .param .f32 u); .alias g, f;\n"
               ".func (.param .b32 h) h (.param .b32 h2, .param .align 8 .b8 va[]) { call (h), h, (h2, va); "
               "ret; }\n");
    assert_int_equal(m->function_count, 6);
    const struct ptx_function *f = function(m, "vprintf");
    assert_true(f->is_extern && !f->has_body && !f->is_entry && f->result_count == 1 &&
                f->parameter_count == 2);
    f = function(m, "f");
    assert_true(f->has_body && f->code_count == 1 && f->is_noreturn && f->parameter_count == 2);
    assert_string_equal(f->parameters[0]->name, "other");
    assert_int_equal(f->parameters[0]->bytes, 12);
    assert_int_equal(f->place.line, 11);
    f = function(m, "g");
    assert_true(f->has_body && f->is_visible && f->code == function(m, "f")->code);
    f = function(m, "plain");
    assert_true(f->is_entry && f->is_visible && f->parameter_count == 0 && f->max_threads[0] == 0);
    f = function(m, "big");
    assert_true(f->is_entry && f->is_weak && f->parameter_count == 3 && f->code_count == 1);
    assert_int_equal(f->parameters[0]->align, 8); /* not that of what it points to */
    assert_true(f->parameters[2]->align == 64 && f->parameters[2]->bytes == 128 &&
                f->parameters[2]->space == PTX_PARAM);
    assert_true(f->required_threads[0] == 128 && f->required_threads[1] == 2 && f->required_threads[2] == 1);
    assert_true(f->max_threads[0] == 256 && f->max_threads[1] == 1 && f->min_ctas == 3 &&
                f->max_registers == 168);
    assert_true(f->explicit_cluster && f->required_cluster[0] == 2 && f->required_cluster[2] == 1);
    assert_int_equal(f->max_cluster_rank, 8);
    assert_int_equal(f->variable_count, 4);
    assert_true(f->variables[0]->space == PTX_LOCAL && f->variables[1]->space == PTX_SHARED);
    assert_true(f->variables[2]->init[0] == 7 && f->variables[3]->space == PTX_PARAM);
    f = function(m, "h"); /* its result hides its name */
    assert_ptr_equal(f->code[0].operands[1].symbol, f->results[0]);
    assert_int_equal(f->parameters[1]->bytes, 0);
    ptx_free(m);
}

static void test_calls(void **state)
{
    (void)state;
    struct ptx_module *m = parse_kernel(
        ".func (.param .b32 r) f(.param .b64 x) { call.uni (r), f, (x); ret; } .func g() { ret; }",
        "{ .param .b32 out; .param .b64 in; st.param.b64 [in+0], %d0;\n"
        "proto: .callprototype (.param .b32 _) _ (.param .b64 _, .param .align 8 .b8 _[12]) .noreturn;\n"
        "list: .calltargets g, f;\n"
        "call (out), %d1, (in), proto; call (out), %d1, (in), list; call.uni g; ld.param.b32 %i0, [out]; }");
    const struct ptx_function *k = function(m, "k"), *f = function(m, "f");
    assert_ptr_equal(f->code[0].operands[1].symbol->function, f);
    const struct ptx_operand *o = k->code[1].operands;
    assert_int_equal(k->code[1].operand_count, 4);
    assert_true(o[0].kind == PTX_OP_GROUP && o[0].count == 1 && o[0].items[0].symbol == k->variables[0]);
    assert_true(o[1].kind == PTX_OP_REGISTER && o[2].kind == PTX_OP_GROUP && o[3].kind == PTX_OP_SYMBOL);
    const struct ptx_symbol *proto = o[3].symbol;
    assert_true(proto->kind == PTX_PROTOTYPE && proto->function->result_count == 1 &&
                proto->function->is_noreturn);
    assert_true(proto->function->parameter_count == 2 && proto->function->parameters[1]->bytes == 12);
    const struct ptx_symbol *list = k->code[2].operands[3].symbol;
    assert_true(list->kind == PTX_TARGETS && list->target_count == 2 && list->targets[1]->function == f);
    assert_true(k->code[3].operand_count == 1 && k->code[3].operands[0].symbol->function == function(m, "g"));
    ptx_free(m);
}

static void test_function_errors(void **state)
{
    /* clang-format off */
    static const char *const rows[][2] = {
        { ".func f() { ret; }\n.func f() { ret; }", "line 5: 'f' is already defined on line 4" },
        { ".func f(.param .b32 x);\n.func f(.param .b64 x) { ret; }",
          "line 5: 'f' has other parameters than on line 4" },
        { ".func f(.param .b32 x);\n.func f() { ret; }", "line 5: 'f' has other parameters than on line 4" },
        { ".func f();\n.entry f() { ret; }", "line 5: 'f' is no kernel on line 4" },
        { ".global .u32 f;\n.func f() { ret; }", "line 5: 'f' is already declared on line 4" },
        { ".func f(.param .b32 x, .param .b32 x);", "line 4: 'x' is already declared on line 4" },
        { ".entry (.param .b32 r) f() { ret; }", "line 4: 'f': a kernel has no results" },
        { ".entry f(.reg .b32 x) { ret; }",
          "line 4: 'x': a kernel's parameter must be .param and have a size" },
        { ".entry f(.param .b8 x[]) { ret; }",
          "line 4: 'x': a kernel's parameter must be .param and have a size" },
        { ".entry f(.u32 x) { ret; }", "line 4: .param or .reg expected instead of '.u32'" },
        { ".entry f(.param .u32 x { ret; }", "line 4: ')' is missing before '{'" },
        { ".entry f(.param .u32 _) { ret; }", "line 4: a parameter's name expected instead of '_'" },
        { ".entry f() .maxntid 0 { ret; }", "line 4: a dimension of 0" },
        { ".entry f() .maxntid 1, 2, 3, 4 { ret; }", "line 4: more than 3 dimensions" },
        { ".entry f() .maxntid 4294967296 { ret; }",
          "line 4: a number of threads or CTAs: 4294967296 is more than 4294967295" },
        { ".entry f() .blocksareclusters { ret; }", "line 4: 'f': .blocksareclusters is not supported" },
        { ".entry f() .unknown { ret; }", "line 4: ';' or '{' expected instead of '.unknown'" },
        { ".extern .entry f();", "line 4: a kernel is not .extern" },
        { ".func f();\n.alias g, f;", "line 5: unknown name 'g'" },
        { ".func f(); .func g();\n.alias g, f;",
          "line 5: .alias wants a declared function and a defined one" },
        { ".func f() { ret; } .func g(.param .b32 x);\n.alias g, f;",
          "line 5: 'g' and 'f' have different parameters" },
        { ".entry f() { call g; } .func g() { ret; }", "line 4: unknown name 'g'" },
        { ".func f(.reg .b32 %a) { .reg .b32 %a; }", "line 4: '%a' is already declared on line 4" },
    };
    /* clang-format on */
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[512];
        snprintf(text, sizeof text, HEADER "%s", rows[i][0]);
        check_error(text, rows[i][1]);
    }
}

/* ---- debug information --------------------------------------------------------------------------------- */
static void test_places(void **state)
{
    char text[256];
    (void)state;
    struct ptx_module *m = parse(
        HEADER ".entry k() {\nret;\n.loc 1 10 4\nret;\n"
               ".loc 2 20 1, function_name $outer, inlined_at 1 10 4\nret;\n"
               ".loc 1 30 2, function_name $all+1, inlined_at 2 20 1\nret; ret;\n"
               ".loc 2 21 1, inlined_at 1 10 4\nret;\n.loc 9 1 1\nret;\n.loc 1 11 4\nret;\n}\n"
               ".entry l() { ret; }\n"
               ".file 1 \"kernel/a.ptx\"\n.file 2 \"step/b.ptx\", 12345, 678\n"
               ".section .debug_str {\n$outer: .b8 111, 117, 116, 0\n$all:\n.b8 95, 105, 110\n.b8 0\n}\n"
               ".section .debug_info { .b64 $outer .b32 $all-$outer .b32 .debug_str+4 .b16 -1 x: }\n");
    static const char *const want[] = {
        "line 5 of the PTX",
        "kernel/a.ptx:10",
        "step/b.ptx:20 (in out at kernel/a.ptx:10)",
        "kernel/a.ptx:30 (in in at step/b.ptx:20) (in out at kernel/a.ptx:10)",
        "kernel/a.ptx:30 (in in at step/b.ptx:20) (in out at kernel/a.ptx:10)",
        "step/b.ptx:21 (in macro at kernel/a.ptx:10)",
        "line 15 of the PTX",
        "kernel/a.ptx:11",
    };
    const struct ptx_function *f = function(m, "k");
    assert_int_equal(f->code_count, COUNT(want));
    for (size_t i = 0; i < COUNT(want); i++)
        assert_string_equal(ptx_place_text(m, &f->code[i].place, text, sizeof text), want[i]);
    assert_int_equal(f->code[2].place.line, 9);
    assert_int_equal(m->inlined_count, 3);
    assert_int_equal(f->code[3].place.caller, f->code[4].place.caller);
    assert_string_equal(ptx_place_text(m, &function(m, "l")->code[0].place, text, sizeof text),
                        "line 19 of the PTX");
    assert_string_equal(ptx_place_text(m, &f->code[1].place, text, 7), "kernel");
    assert_null(m->files[0]);
    assert_string_equal(m->files[2], "step/b.ptx");
    assert_true(m->file_count == 10 && m->files[9] == NULL);
    ptx_free(m);
}

static void test_debug_errors(void **state)
{
    /* clang-format off */
    static const char *const rows[][2] = {
        { ".file 1 a", "line 4: a file's name expected instead of 'a'" },
        { ".file 70000 \"a\"", "line 4: the number of a file: 70000 is more than 65535" },
        { ".loc 1 2", "line 4: a column expected instead of the end of the text" },
        { ".loc 1 2 3, function_name f", "line 4: ',' is missing before the end of the text" },
        { ".loc 1 2 3, nowhere", "line 4: inlined_at expected instead of 'nowhere'" },
        { ".section .x { .b8 1", "line 4: data expected instead of the end of the text" },
        { ".section .x { .u8 1 }", "line 4: data expected instead of '.u8'" },
        { ".section x { }", "line 4: a section's name expected instead of 'x'" },
        { ".section .x { .b8 -a }", "line 4: a number or a label expected instead of 'a'" },
    };
    /* clang-format on */
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[512];
        snprintf(text, sizeof text, HEADER "%s", rows[i][0]);
        check_error(text, rows[i][1]);
    }
    struct ptx_module *m = parse(HEADER
                                 "@@DWARF .section .x, \"\", @progbits\n@@DWARF .4byte L\n.entry k() { ret; }");
    assert_int_equal(m->function_count, 1);
    ptx_free(m);
}

/* ---- the text as a whole ------------------------------------------------------------------------------- */
static void test_text(void **state)
{
    char error[16];
    (void)state;
    struct ptx_module *m = parse(
        "// one\r\n/* two\r\nthree */ .version 9.0\r\n.target sm_90\r\n.entry k () {\r\n\tret;\r\n}");
    assert_int_equal(function(m, "k")->code[0].place.line, 6);
    ptx_free(m);
    m = ptx_parse(HEADER ".entry k() { ret; }\0", sizeof HEADER ".entry k() { ret; }\0", error, sizeof error);
    assert_non_null(m); /* a C string's end is none of the text */
    ptx_free(m);
    assert_null(
        ptx_parse(HEADER "\0.entry k() { ret; }", sizeof HEADER ".entry k() { ret; }", error, sizeof error));
    assert_string_equal(error, "line 4: a chara"); /* cut, and ended */
    assert_null(ptx_parse(HEADER "x", sizeof HEADER, NULL, 0));
    m = ptx_parse(HEADER "garbage", sizeof HEADER - 1, error, sizeof error); /* no further than said */
    assert_non_null(m);
    ptx_free(m);
}

/* A name, a list, an array that no honest text has. */
static void test_absurd(void **state)
{
    enum { BYTES = 1 << 20 };
    char *text = (char *)malloc(BYTES + 200), error[256] = "";
    (void)state;
    int at = sprintf(text, HEADER ".global .u32 ");
    memset(text + at, 'x', BYTES);
    assert_null(ptx_parse(text, (size_t)at + BYTES, error, sizeof error));
    assert_string_equal(error, "line 4: a name of 1048576 characters is too long");
    at = sprintf(text, HEADER ".entry k() { mov.u32 ");
    for (int i = 0; i < BYTES / 2; i++)
        memcpy(text + at + 2 * i, "1,", 2);
    assert_null(ptx_parse(text, (size_t)at + BYTES, error, sizeof error));
    assert_string_equal(error, "line 4: 'mov' has more than 256 operands");
    text[at] = '{';
    text[at + 1] = '2';
    assert_int_equal(text[at + 2], '1');
    memset(text + at + 1, '2', 2);
    assert_null(ptx_parse(text, (size_t)at + BYTES, error, sizeof error));
    assert_string_equal(error, "line 4: more than 4096 items in an operand");
    at = sprintf(text, HEADER ".entry k() { mov");
    for (int i = 0; i < BYTES / 2; i++)
        memcpy(text + at + 2 * i, ".x", 2);
    assert_null(ptx_parse(text, (size_t)at + BYTES, error, sizeof error));
    assert_string_equal(error, "line 4: 'mov' has more than 64 modifiers");
    free(text);
    text = (char *)calloc(65, 1 << 20);
    assert_non_null(text);
    memset(text, ' ', (size_t)65 << 20);
    assert_null(ptx_parse(text, (size_t)65 << 20, error, sizeof error));
    assert_string_equal(error, "line 1: the text has more than 67108864 bytes");
    free(text);
}

/* Many instructions, as many names. */
static char *large_text(int lines, size_t *bytes)
{
    enum { LINE = 80 };
    char  *text = (char *)malloc((size_t)lines * LINE + 1000);
    size_t at = (size_t)sprintf(text, HEADER ".entry k() { .reg .b32 %%r<%d>;\n", lines);
    for (int i = 0; i < lines; i++) {
        int other = lines - 1 - i;
        at += (size_t)snprintf(text + at, LINE, "L%d: add.s32 %%r%d, %%r%d, %d; bra L%d;\n", i, i, other, i,
                               other);
    }
    *bytes = at + (size_t)sprintf(text + at, "}\n");
    return text;
}

/* What grows faster than the text shows here. */
static void test_speed(void **state)
{
    enum { LINES = 100000 };
    char               error[256] = "";
    size_t             bytes;
    char              *text = large_text(LINES, &bytes);
    clock_t            start = clock();
    struct ptx_module *m = ptx_parse(text, bytes, error, sizeof error);
    double             seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    (void)state;
    assert_string_equal(error, "");
    assert_int_equal(function(m, "k")->code_count, 2 * LINES);
    assert_int_equal(function(m, "k")->code[1].operands[0].symbol->target, 2 * (LINES - 1));
    print_message("parsed %d instructions in %.0f ms\n", 2 * LINES, 1e3 * seconds);
    assert_true(seconds < 10);
    ptx_free(m);
    free(text);
}

static void test_out_of_memory(void **state)
{
    size_t bytes;
    char  *text = large_text(5000, &bytes), error[64];
    long   failures = 0;
    (void)state;
    if (!CAN_FAIL_MEMORY) {
        free(text);
        print_message("SKIP: allocations cannot be made to fail here\n");
        skip();
    }
    for (struct ptx_module *m = NULL; m == NULL; failures++) {
        strcpy(error, "");
        fail_at = failures;
        m = ptx_parse(text, bytes, error, sizeof error);
        fail_at = -1;
        assert_string_equal(error, m ? "" : "out of memory");
        ptx_free(m);
        assert_true(failures < 1000);
    }
    print_message("%ld allocations failed in turn\n", failures - 1);
    assert_true(failures > 10);
    free(text);
}

int main(void)
{
    /* clang-format off */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_header),          cmocka_unit_test(test_types),
        cmocka_unit_test(test_memory),          cmocka_unit_test(test_variables),
        cmocka_unit_test(test_linkage),         cmocka_unit_test(test_initial_values),
        cmocka_unit_test(test_relocations),     cmocka_unit_test(test_variable_errors),
        cmocka_unit_test(test_registers),       cmocka_unit_test(test_register_errors),
        cmocka_unit_test(test_labels),          cmocka_unit_test(test_label_errors),
        cmocka_unit_test(test_instruction),     cmocka_unit_test(test_instruction_text),
        cmocka_unit_test(test_operand_kinds),   cmocka_unit_test(test_special_registers),
        cmocka_unit_test(test_constants),       cmocka_unit_test(test_locale),
        cmocka_unit_test(test_instruction_errors), cmocka_unit_test(test_nesting),
        cmocka_unit_test(test_functions),       cmocka_unit_test(test_calls),
        cmocka_unit_test(test_function_errors), cmocka_unit_test(test_places),
        cmocka_unit_test(test_debug_errors),    cmocka_unit_test(test_text),
        cmocka_unit_test(test_absurd),          cmocka_unit_test(test_speed),
        cmocka_unit_test(test_out_of_memory),
    };
    /* clang-format on */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
