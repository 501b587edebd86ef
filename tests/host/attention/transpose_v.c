/* transpose_v.c - ptx/attention/wgmma_transpose_v.ptx on the emulated GPU: checks what it writes, that wgmma
 * multiplies the result with P as the registers hold it, and that there is no race, no endless wait and no bank
 * conflict. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "host/attention/inspect.h"
#include "tests/support/emu_fixture.h"
#include "loader/loader.h"
#include "tools/problem/random.h"

enum { SEED = 20261122, THREADS = 128, ROUNDS = 2, MOST_KEYS = 256, MOST_CHANNELS = 256, SYMBOLS = 64 };

/* The order of the keys in a row of Vt, as in the banner of the step. */
static const int order[32] = {0,  1,  8,  9,  2,  3,  10, 11, 4,  5,  12, 13, 6,  7,  14, 15,
                              16, 17, 24, 25, 18, 19, 26, 27, 20, 21, 28, 29, 22, 23, 30, 31};

/* Shapes: the chunks of one warp and more, every width of Vt's boxes, channels that do not fill a box. */
static const struct shape {
    int head_dim, block_n, v_row;
} shapes[] = {
    {64, 128, 64},  {64, 128, 128},  {128, 128, 128}, {256, 128, 128}, {128, 256, 128},
    {128, 64, 128}, {128, 160, 128}, {128, 224, 128}, {192, 192, 128}, {96, 128, 128},
    {64, 64, 64},   {64, 224, 64},   {80, 96, 128},   {16, 32, 128},   {240, 64, 128},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/* ---- the kernel --------------------------------------------------------------------------------- */
typedef struct arguments {
    uint64_t v, s, vt, d;
} arguments;

static ptxpack        *handle;
static ptxpack_variant row = {.id = "probe_transpose",
                              .op = "probe",
                              .file = "probe/transpose.ptx",
                              .entry = "probe_transpose",
                              .arch = 90,
                              .isa = 80,
                              .threads = THREADS,
                              .blocks_per_sm = 1,
                              .flags = PTXPACK_VARIANT_ARCH_SPECIFIC | PTXPACK_VARIANT_WHOLE_PROGRAM};

static size_t symbols_of(const attention_fp8_layout *l, ptxpack_symbol *out)
{
    symbol_list list = {.out = out, .cap = SYMBOLS};
    symbol_add(&list, "HEAD_DIM", l->head_dim);
    symbol_add(&list, "BLOCK_N", l->block_n);
    symbol_add(&list, "ROUNDS", ROUNDS);
    symbol_add(&list, "V_BYTES", l->v_bytes);
    symbol_add(&list, "ARG_V", offsetof(arguments, v));
    symbol_add(&list, "ARG_S", offsetof(arguments, s));
    symbol_add(&list, "ARG_VT", offsetof(arguments, vt));
    symbol_add(&list, "ARG_D", offsetof(arguments, d));
    symbol_add(&list, "ARG_BYTES", sizeof(arguments));
    ptxpack_attention_fp8_symbols(l, &list);
    if (list.failed)
        fail_msg("%s", ptxpack_detail(NULL));
    return list.count;
}

static void derive(const struct shape *x, attention_fp8_layout *l)
{
    if (ptxpack_attention_fp8_layout(x->head_dim, x->block_n, x->v_row, l) != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(NULL));
    row.shared_bytes = (int)(l->v_bytes + l->vt_bytes + 8);
}

/* The text, with `from` replaced by `to` everywhere unless it is NULL. */
static char *text_of(const attention_fp8_layout *l, const char *from, const char *to)
{
    ptxpack_symbol     symbols[SYMBOLS];
    ptxpack_expansion *e = NULL;
    if (ptxpack_kernel_expand(handle, &row, symbols, symbols_of(l, symbols), &e) != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(handle));
    const char *at = ptxpack_expansion_text(e, NULL), *next;
    char       *text = (char *)calloc(2, strlen(at) + 1), *out = text;
    assert_non_null(text);
    while (from != NULL && (next = strstr(at, from)) != NULL) {
        out += sprintf(out, "%.*s%s", (int)(next - at), at, to);
        at = next + strlen(from);
    }
    strcpy(out, at);
    ptxpack_expansion_free(e);
    return text;
}

/* ---- inputs and right results ------------------------------------------------------------------- */
static int8_t v_values[ROUNDS][MOST_KEYS][MOST_CHANNELS], p_values[ROUNDS][64][MOST_KEYS];
static int    wanted[64][MOST_CHANNELS];

static int chunk_of(int at, int span, int x) /* byte x of row `at` of a box `span` bytes wide, swizzled */
{
    return x ^ (span == 128 ? at & 7 : span == 64 ? at >> 1 & 3 : at >> 2 & 1) << 4;
}

static int place(int at, int x, int rows, int span) /* the place in a tile of such boxes */
{
    return x / span * rows * span + at * span + chunk_of(at, span, x % span);
}

/* Element (m, n) in [value][thread]: thread 32w + 4g + q has rows 16w + g, + 8, columns 8j + 2q, + 1. */
static int accumulator(int m, int n)
{
    int thread = m / 16 * 32 + m % 8 * 4 + n % 8 / 2, value = n / 8 * 4 + m % 16 / 8 * 2 + n % 2;
    return value * THREADS + thread;
}

static uint8_t code_of(int value) { return (uint8_t)ptxpack_from_float(PTXPACK_E4M3, (float)value); }

/* Fills with small integers: every sum is exact in any order.  The padding of a box that no channel fills is
 * NaN. */
static void fill(const attention_fp8_layout *l, uint8_t *v, float *s)
{
    random_state random = random_start(SEED);
    memset(v, 0x7f, (size_t)(ROUNDS * l->v_bytes));
    for (int r = 0; r < ROUNDS; r++) {
        for (int n = 0; n < l->block_n; n++)
            for (int c = 0; c < l->head_dim; c++) {
                v_values[r][n][c] = (int8_t)((int)random_below(&random, 9) - 4);
                v[r * l->v_bytes + place(n, c, (int)l->block_n, (int)l->v_row)] = code_of(v_values[r][n][c]);
            }
        for (int m = 0; m < 64; m++)
            for (int n = 0; n < l->block_n; n++) {
                p_values[r][m][n] = (int8_t)((int)random_below(&random, 9) - 4);
                s[r * (int)l->block_n / 2 * THREADS + accumulator(m, n)] = p_values[r][m][n];
            }
    }
}

static void check_vt(const attention_fp8_layout *l, const uint8_t *vt)
{
    for (int r = 0; r < ROUNDS; r++)
        for (int c = 0; c < l->head_dim; c++)
            for (int slot = 0; slot < l->block_n; slot++) {
                int key = slot / 32 * 32 + order[slot % 32];
                int got = vt[r * l->vt_bytes + place(c, slot, (int)l->head_dim, (int)l->vt_row)];
                if (got != code_of(v_values[r][key][c]))
                    fail_msg("d%d n%d round %d: channel %d slot %d is 0x%02x, key %d is 0x%02x",
                             (int)l->head_dim, (int)l->block_n, r, c, slot, got, key,
                             code_of(v_values[r][key][c]));
            }
}

static void check_product(const attention_fp8_layout *l, const float *d)
{
    for (int r = 0; r < ROUNDS; r++) {
        memset(wanted, 0, sizeof wanted);
        for (int m = 0; m < 64; m++)
            for (int n = 0; n < l->block_n; n++)
                for (int c = 0; c < l->head_dim; c++)
                    wanted[m][c] += p_values[r][m][n] * v_values[r][n][c];
        for (int m = 0; m < 64; m++)
            for (int c = 0; c < l->head_dim; c++) {
                float got = d[r * (int)l->head_dim / 2 * THREADS + accumulator(m, c)];
                if (got != (float)wanted[m][c])
                    fail_msg("d%d n%d round %d: D[%d][%d] is %g, not %d", (int)l->head_dim, (int)l->block_n, r,
                             m, c, (double)got, wanted[m][c]);
            }
    }
}

/* ---- running the step --------------------------------------------------------------------------- */
typedef struct result {
    unsigned int code;
    uint8_t     *vt;
    float       *d;
} result;

static result run(const attention_fp8_layout *l, const char *text, enum emu_async_policy policy)
{
    size_t   v_bytes = (size_t)(ROUNDS * l->v_bytes), vt_bytes = (size_t)(ROUNDS * l->vt_bytes);
    size_t   s_bytes = (size_t)(ROUNDS * l->block_n * 256), d_bytes = (size_t)(ROUNDS * l->head_dim * 256);
    uint8_t *v = (uint8_t *)malloc(v_bytes);
    float   *s = (float *)malloc(s_bytes);
    result   out = {0, (uint8_t *)malloc(vt_bytes), (float *)malloc(d_bytes)};
    assert_true(v != NULL && s != NULL && out.vt != NULL && out.d != NULL);
    fill(l, v, s);
    emu_machine(90);
    emu_test_settings.async_policy = policy;
    emu_test_settings.judge |= EMU_JUDGE_CONFLICT;
    const arguments a = {emu_buffer(v_bytes), emu_buffer(s_bytes), emu_buffer(vt_bytes), emu_buffer(d_bytes)};
    emu_write(a.v, v, v_bytes);
    emu_write(a.s, s, s_bytes);
    const struct emu_launch launch = {.grid = {1, 1, 1},
                                      .block = {THREADS, 1, 1},
                                      .dynamic_shared = (uint32_t)row.shared_bytes,
                                      .parameters = (unsigned char *)(uintptr_t)&a};
    out.code = emu_run_shape(text, &launch, row.entry);
    emu_read(out.vt, a.vt, vt_bytes);
    emu_read(out.d, a.d, d_bytes);
    free(v);
    free(s);
    return out;
}

static void values_are_turned_and_multiplied(void **state)
{
    (void)state;
    print_message("seed %d\n", (int)SEED);
    for (int i = 0; i < SHAPES; i++) {
        attention_fp8_layout l;
        derive(&shapes[i], &l);
        char  *text = text_of(&l, NULL, NULL);
        result r = run(&l, text, (enum emu_async_policy)(i % 3));
        if (r.code != 0 || emu_log()[0] != '\0')
            fail_msg("d%d n%d: result %u: %s", shapes[i].head_dim, shapes[i].block_n, r.code, emu_log());
        check_vt(&l, r.vt);
        check_product(&l, r.d);
        free(r.vt);
        free(r.d);
        free(text);
    }
}

/* The tests notice errors: without the fence, without the barrier after it, with plain selectors. */
static void what_is_left_out_is_seen(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *line;
    } breaks[] = {
        {"fence.proxy.async.shared::cta;", "", "proxy"},
        {"bar.sync", "// bar.sync", "race"},
        {"%vt_x, 128;", "%vt_x, 0;", "conflict"},
    };
    for (size_t i = 0; i < sizeof breaks / sizeof breaks[0]; i++) {
        attention_fp8_layout l;
        derive(&shapes[2], &l);
        char  *text = text_of(&l, breaks[i].from, breaks[i].to);
        result r = run(&l, text, EMU_ASYNC_LATEST);
        if (strstr(emu_log(), breaks[i].line) == NULL)
            fail_msg("\"%s\" gone: result %u: %s", breaks[i].from, r.code, emu_log());
        free(r.vt);
        free(r.d);
        free(text);
    }
}

/* ---- the layouts -------------------------------------------------------------------------------- */
static void layouts_are_those_of_the_step(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        attention_fp8_layout l;
        derive(&shapes[i], &l);
        for (int64_t n = 0; n < l.block_n; n++) {
            assert_int_equal(ptxpack_at(&l.key_of, n), n / 32 * 32 + order[n % 32]);
            for (int64_t c = 0; c < l.head_dim; c++) {
                assert_int_equal(ptxpack_at(&l.v, n + l.block_n * c),
                                 place((int)n, (int)c, (int)l.block_n, (int)l.v_row));
                assert_int_equal(ptxpack_at(&l.vt, c + l.head_dim * n),
                                 place((int)c, (int)n, (int)l.head_dim, (int)l.vt_row));
            }
        }
    }
    attention_fp8_layout l;
    assert_int_equal(ptxpack_attention_fp8_layout(72, 128, 128, &l), PTXPACK_E_UNSUPPORTED);
    assert_int_equal(ptxpack_attention_fp8_layout(64, 48, 128, &l), PTXPACK_E_UNSUPPORTED);
    assert_int_equal(ptxpack_attention_fp8_layout(128, 128, 64, &l), PTXPACK_E_UNSUPPORTED);
    assert_non_null(strstr(ptxpack_detail(NULL), "V_ROW is not 128"));
}

/* The real compiler accepts the text, if one is installed. */
static void it_compiles(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        attention_fp8_layout l;
        ptxpack_symbol       symbols[SYMBOLS];
        ptxpack_kernel_info  info;
        derive(&shapes[i], &l);
        ptxpack_status status = ptxpack_kernel_compile(handle, &row, symbols, symbols_of(&l, symbols), &info,
                                                       NULL, NULL);
        if (status == PTXPACK_E_NO_JIT)
            skip();
        if (status != PTXPACK_OK)
            fail_msg("%s", ptxpack_detail(handle));
        /* the compiler makes wgmma wait after each instruction */
        assert_null(strstr(info.resources.remarks, "(C75"));
        assert_int_equal(info.resources.spill_store_bytes, 0);
    }
}

static int open_handle(void **state)
{
    ptxpack_options options = {.size = sizeof options, .offline = true, .arch = "sm_90a"};
    (void)state;
    setenv("PTXPACK_CACHE_DISABLE", "1", 1);
    return ptxpack_open(&options, &handle) == PTXPACK_OK ? 0 : -1;
}

static int close_handle(void **state)
{
    (void)state;
    ptxpack_close(handle);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts_are_those_of_the_step),
        cmocka_unit_test(values_are_turned_and_multiplied),
        cmocka_unit_test(what_is_left_out_is_seen),
        cmocka_unit_test(it_compiles),
    };
    return cmocka_run_group_tests(tests, open_handle, close_handle);
}
