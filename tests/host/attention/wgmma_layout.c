/* wgmma_layout.c - the rows of ptx/attention/wgmma.ptx: compares what the kernel computes from its symbols with
 * the hardware's rules, which are worked out here without the layout algebra. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "host/attention/inspect.h"
#include "loader/loader.h"

enum { O_ELEMENT = 2, O_COLUMNS = 64, BOX_ROW = 128, SHARED_LIMIT = 232448 };

/* ---- the rows ------------------------------------------------------------------------------------------ */
typedef struct row_case {
    const ptxpack_variant *row;
    attention_wgmma_layout l;
    ptxpack_instance       build;
    int64_t                d, m, n;
    bool                   fp8;
    int64_t element, columns, boxes;   /* bytes; of a box of q, k and v; boxes of a tile of q or k */
    int64_t v, v_boxes, groups, warps; /* columns of V; warpgroups that divide them; of all consumers */
    bool    in_keys, o_in_q;
} row_case;

static void for_every_row(void (*test)(const row_case *))
{
    size_t                 count, tested = 0;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    row_case              *c = (row_case *)calloc(1, sizeof *c);
    assert_non_null(c);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rows[i].file, attention_wgmma.file) != 0)
            continue;
        c->row = &rows[i];
        c->d = ptxpack_variant_parameter(c->row, "HEAD_DIM", 0);
        c->m = ptxpack_variant_parameter(c->row, "BLOCK_M", 0);
        c->n = ptxpack_variant_parameter(c->row, "BLOCK_N", 0);
        c->fp8 = ptxpack_variant_parameter(c->row, "FP8", 0) != 0;
        c->element = c->fp8 ? 1 : 2;
        c->columns = BOX_ROW / c->element;
        c->boxes = (c->d + c->columns - 1) / c->columns;
        c->v = ptxpack_variant_parameter(c->row, "VALUE_DIM", 0);
        c->v_boxes = (c->v + c->columns - 1) / c->columns;
        c->groups = ptxpack_variant_parameter(c->row, "COLUMN_GROUPS", 0);
        c->warps = 4 * ptxpack_variant_parameter(c->row, "WARPGROUPS", 0);
        c->in_keys = ptxpack_variant_parameter(c->row, "VALUES_IN_KEYS", 0) != 0;
        c->o_in_q = ptxpack_variant_parameter(c->row, "O_IN_Q", 0) != 0;
        if (ptxpack_attention_wgmma_layout(c->row, &c->l) != PTXPACK_OK)
            fail_msg("%s", ptxpack_detail(NULL));
        c->build = ptxpack_instance_get(c->row, 0);
        if (c->build.symbol_count == 0)
            fail_msg("%s", ptxpack_detail(NULL));
        test(c);
        tested++;
    }
    assert_true(tested > 0);
    free(c);
}

static int64_t symbol(const row_case *c, const char *name)
{
    for (size_t i = 0; i < c->build.symbol_count; i++)
        if (strcmp(c->build.symbols[i].name, name) == 0)
            return c->build.symbols[i].value;
    fail_msg("%s: no symbol %s", c->row->id, name);
    return 0;
}

static void expect(const row_case *c, const char *what, int64_t got, int64_t want)
{
    if (got != want)
        fail_msg("%s: %s is %lld, not %lld", c->row->id, what, (long long)got, (long long)want);
}

static void expect_symbol(const row_case *c, const char *name, int64_t want)
{
    expect(c, name, symbol(c, name), want);
}

/* Computes a function as shared/layout.ptx does, in 32 bits. */
static int64_t thread_function(const row_case *c, const char *function, int64_t thread)
{
    char     name[64];
    uint32_t sum = 0;
    snprintf(name, sizeof name, "%s_MODES", function);
    for (int i = 0, modes = (int)symbol(c, name); i < modes; i++) {
        uint32_t                 part[3];
        static const char *const parts[3] = {"SHIFT", "MASK", "STRIDE"};
        for (int p = 0; p < 3; p++) {
            snprintf(name, sizeof name, "%s_%s%d", function, parts[p], i);
            part[p] = (uint32_t)symbol(c, name);
        }
        sum += ((uint32_t)thread >> part[0] & part[1]) * part[2];
    }
    return sum;
}

/* The 128-byte swizzle of absolute addresses: bits 4-6 are XORed with bits 7-9. */
static int64_t swizzled(int64_t x) { return x ^ (x >> 3 & 0x70); }

/* ---- descriptors --------------------------------------------------------------------------------------- */
/* The transposed V is K-major, in boxes of the largest width that divides BLOCK_N; the swizzle of that width
 * has patterns of eight rows. */
static int64_t turned_row(const row_case *c) { return c->n % 128 == 0 ? 128 : c->n % 64 == 0 ? 64 : 32; }

static void descriptor_of_turned(const row_case *c)
{
    int64_t row = turned_row(c), kind = row == 128 ? 1 : row == 64 ? 2 : 3;
    expect_symbol(c, "DESC_VT_LOW", 1 << 16);
    expect_symbol(c, "DESC_VT_HIGH", 8 * row / 16 | kind << 30);
    expect_symbol(c, "DESC_VT_STEPS", row / 32);
    expect_symbol(c, "DESC_VT_STEP", row > 32 ? 32 / 16 : 0);
    expect_symbol(c, "DESC_VT_BOX", c->n > row ? c->d * row / 16 : 0);
}

/* Boxes of 128 bytes of columns are rows * 128 bytes apart; eight rows of 128 bytes are a pattern of 1024. */
static void descriptors(const row_case *c)
{
    expect_symbol(c, "DESC_Q_LOW", 1 << 16); /* the leading offset has no meaning here: 16 bytes */
    expect_symbol(c, "DESC_K_LOW", 1 << 16);
    expect_symbol(c, "DESC_Q_HIGH", 1024 / 16 | 1 << 30);
    expect_symbol(c, "DESC_K_HIGH", 1024 / 16 | 1 << 30);
    expect_symbol(c, "DESC_STEP", 32 / 16);
    expect_symbol(c, "DESC_STEPS", 4);
    expect_symbol(c, "DESC_Q_BOX", c->boxes > 1 ? c->m * BOX_ROW / 16 : 0);
    expect_symbol(c, "DESC_K_BOX", c->boxes > 1 ? c->n * BOX_ROW / 16 : 0);
    expect_symbol(c, "DESC_Q_WARPGROUP", c->m > 64 ? 64 * BOX_ROW / 16 : 0);
    if (c->fp8) {
        descriptor_of_turned(c);
        return;
    }
    expect_symbol(c, "DESC_V_LOW", c->v_boxes > 1 ? c->n * BOX_ROW / 16 << 16 : 0);
    expect_symbol(c, "DESC_V_GROUP", c->groups > 1 ? c->v / c->groups / c->columns * c->n * BOX_ROW / 16 : 0);
    expect_symbol(c, "DESC_V_HIGH", 1024 / 16 | 1 << 30);
    expect_symbol(c, "DESC_V_STEP", 2048 / 16);
}

static void test_descriptors(void **state)
{
    (void)state;
    for_every_row(descriptors);
}

/* An operand's descriptor reads the place where TMA writes: element (row, column) of a tile lies at box
 * column / 64, row * 128 + column % 64 * 2, swizzled; with one byte an element 128 columns. */
static void tile_is_boxes(const row_case *c, const ptxpack_layout *tile, int64_t rows)
{
    for (int64_t i = 0; i < rows * c->boxes * c->columns; i++) {
        int64_t row = i % rows, column = i / rows;
        int64_t want = column / c->columns * rows * BOX_ROW +
                       swizzled(row * BOX_ROW + column % c->columns * c->element);
        expect(c, "an element's place", c->element * ptxpack_at(tile, i), want);
    }
}

static void turned_tile(const row_case *c)
{
    int64_t row = turned_row(c);
    for (int64_t channel = 0; channel < c->d; channel++)
        for (int64_t slot = 0; slot < c->n; slot++) {
            int64_t inside = channel * row + slot % row;
            int64_t want = slot / row * c->d * row + (inside ^ (inside >> 3 & (row - 16)));
            expect(c, "a slot's place", ptxpack_at(&c->l.v, channel + slot * c->d), want);
        }
}

static void tiles(const row_case *c)
{
    tile_is_boxes(c, &c->l.q, c->m);
    tile_is_boxes(c, &c->l.k, c->n);
    if (c->fp8) {
        turned_tile(c);
        return;
    }
    for (int64_t key = 0; key < c->n; key++)
        for (int64_t column = 0; column < c->v_boxes * c->columns;
             column++) { /* as those of K are, up to K's */
            int64_t want = column / c->columns * c->n * BOX_ROW +
                           swizzled(key * BOX_ROW + column % c->columns * c->element);
            expect(c, "V", c->element * ptxpack_at(&c->l.v, column + key * c->v_boxes * c->columns), want);
        }
}

static void test_tiles(void **state)
{
    (void)state;
    for_every_row(tiles);
}

/* ---- boxes --------------------------------------------------------------------------------------------- */
static void one_box(const row_case *c, const ptxpack_tma_box *box, int64_t boxes, int64_t columns, int64_t rows)
{
    assert_int_equal(box->rank, 4);
    expect(c, "box columns", box->box_dim[0], columns);
    expect(c, "box rows", box->box_dim[1], rows);
    expect(c, "box heads", box->box_dim[2] * box->box_dim[3], 1);
    expect(c, "boxes", box->boxes, boxes);
    expect(c, "box bytes", box->bytes, rows * BOX_ROW);
    assert_int_equal(box->swizzle, PTXPACK_TMA_SWIZZLE_128B);
    assert_int_equal(box->l2, PTXPACK_TMA_L2_128B);
    assert_int_equal(box->fill, PTXPACK_TMA_FILL_ZERO);
    assert_int_equal(box->align, 1024);
}

static void boxes(const row_case *c)
{
    one_box(c, &c->l.q_box, c->boxes, c->columns, c->m);
    one_box(c, &c->l.k_box, c->boxes, c->columns, c->n);
    one_box(c, &c->l.v_box, c->v_boxes, c->columns, c->n);
    one_box(c, &c->l.o_box, 1, O_COLUMNS, 16);
    expect_symbol(c, "BOXES", c->boxes);
    expect_symbol(c, "V_BOXES", c->v_boxes);
    expect_symbol(c, "BOX_COLUMNS", c->columns);
    expect_symbol(c, "Q_BOX_BYTES", c->m * BOX_ROW);
    expect_symbol(c, "KV_BOX_BYTES", c->n * BOX_ROW);
    expect_symbol(c, "Q_STAGE_BYTES", c->boxes * c->m * BOX_ROW);
    expect_symbol(c, "K_STAGE_BYTES", c->boxes * c->n * BOX_ROW);
}

static void test_boxes(void **state)
{
    (void)state;
    for_every_row(boxes);
}

/* ---- shared memory ------------------------------------------------------------------------------------- */
static void shared_memory(const row_case *c)
{
    static const char *const barriers[] = {"BAR_Q_FULL",        "BAR_Q_EMPTY",   "BAR_K_FULL",
                                           "BAR_K_EMPTY",       "BAR_V_FULL",    "BAR_V_EMPTY",
                                           "BAR_RAW_FULL",      "BAR_RAW_EMPTY", "BAR_MESSAGE_FULL",
                                           "BAR_MESSAGE_EMPTY", "BAR_DONE"};
    int64_t                  k_stages = ptxpack_variant_parameter(c->row, "K_STAGES", 0), at = 0;
    int64_t                  v_stages = ptxpack_variant_parameter(c->row, "V_STAGES", 0);
    int64_t                  q_stages = ptxpack_variant_parameter(c->row, "Q_STAGES", 0);
    int64_t                  o_buffers = ptxpack_variant_parameter(c->row, "O_BUFFERS", 0);
    int64_t                  raw_stages = ptxpack_variant_parameter(c->row, "RAW_STAGES", 0);
    int64_t       v_bytes = c->fp8 ? c->d * c->n : (c->in_keys ? c->boxes : c->v_boxes) * c->n * BOX_ROW;
    const int64_t v_barriers = c->in_keys ? 0 : v_stages, k_full = 2 * 8 * q_stages;
    const int64_t exchange = ptxpack_variant_parameter(c->row, "EXCHANGE", 0);
    const int64_t k_barriers = exchange && c->in_keys ? 3 * k_stages : k_stages; /* of pieces */
    const int64_t counts[] = {q_stages,   q_stages,   k_barriers, k_barriers, v_barriers, v_barriers,
                              raw_stages, raw_stages, 2,          2,          1};
    expect_symbol(c, "SMEM_Q", at);
    expect_symbol(c, "SMEM_K", at += q_stages * c->boxes * c->m * BOX_ROW);
    at += k_stages * c->boxes * c->n * BOX_ROW;
    if (c->fp8) {
        expect_symbol(c, "SMEM_RAW", at);
        at += raw_stages * c->boxes * c->n * BOX_ROW;
    }
    expect_symbol(c, "K_PIECES", k_barriers / k_stages);
    expect_symbol(c, "V_STAGE_BYTES", v_bytes);
    expect_symbol(c, "SMEM_V", c->in_keys ? symbol(c, "SMEM_K") : at);
    at += c->in_keys ? 0 : v_stages * v_bytes;
    expect_symbol(c, "SMEM_O", c->o_in_q ? 0 : at);
    expect_symbol(c, "SMEM_EXCHANGE", at);
    at += exchange * (64 * BOX_ROW + 128 * 8);
    expect_symbol(c, "SMEM_BARRIERS", at += c->o_in_q ? 0 : c->warps * o_buffers * 16 * BOX_ROW);
    if (c->o_in_q)
        assert_true(c->warps * o_buffers * 16 * BOX_ROW <= symbol(c, "Q_STAGE_BYTES"));
    for (size_t i = 0; i < sizeof barriers / sizeof barriers[0]; i++) {
        const bool of_keys = c->in_keys && strncmp(barriers[i], "BAR_V_", 6) == 0; /* they are those of K */
        expect_symbol(c, barriers[i],
                      !of_keys ? at : symbol(c, "SMEM_BARRIERS") + k_full + (i == 4 ? 0 : 8 * k_barriers));
        at += 8 * counts[i];
    }
    at = (at + 15) / 16 * 16;
    expect_symbol(c, "SMEM_MESSAGE", at);
    at += c->fp8 ? 48 : 336;
    if (c->fp8) {
        expect_symbol(c, "SMEM_DESCALES", at);
        at += 16;
    }
    expect(c, "shared_bytes", c->row->shared_bytes, at);
    assert_true(c->row->shared_bytes <= SHARED_LIMIT);
    static const char *const whole[] = {"SMEM_K",        "SMEM_V",        "SMEM_O",         "SMEM_EXCHANGE",
                                        "Q_STAGE_BYTES", "K_STAGE_BYTES", "O_BUFFER_BYTES", "O_WARP"};
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++)
        expect(c, whole[i], symbol(c, whole[i]) % 1024, 0); /* the swizzle's pattern */
    expect(c, "a stage of V", v_bytes % 1024, 0);
}

static void test_shared_memory(void **state)
{
    (void)state;
    for_every_row(shared_memory);
}

/* ---- threads ------------------------------------------------------------------------------------------- */
/* Thread 32 w + 4 g + q of a warpgroup holds rows 16 w + g and 16 w + g + 8, columns 2 q and 2 q + 1 of
 * every 8. */
static void accumulators(const row_case *c)
{
    for (int64_t thread = 0; thread < 128; thread++) {
        expect(c, "C_ROW", thread_function(c, "C_ROW", thread), thread / 32 * 16 + thread % 32 / 4);
        expect(c, "C_COLUMN", thread_function(c, "C_COLUMN", thread), 2 * (thread % 4));
    }
    expect_symbol(c, "C_ROWS", 8);
    expect_symbol(c, "C_COLUMNS", 8);
}

/* stmatrix.x4: lane l gives the address of row l % 8 of matrix l / 8; the matrices are the registers in their
 * order: rows 0-7 and 8-15 of the first 8 columns, then of the next 8.  The 16 rows of a warp lie in its own
 * boxes. */
static void output(const row_case *c)
{
    for (int64_t thread = 0; thread < 32 * c->warps; thread++) {
        int64_t lane = thread % 32, warp = thread / 32, matrix = lane / 8, row = lane % 8 + 8 * (matrix % 2);
        int64_t at = swizzled(thread_function(c, "O_AT", thread % 128)) + warp * symbol(c, "O_WARP");
        for (int64_t step = 0; step < symbol(c, "O_STEPS"); step++) {
            int64_t column = 16 * step + 8 * (matrix / 2);
            expect(c, "stmatrix's row", at ^ step * symbol(c, "O_STEP"),
                   warp * symbol(c, "O_WARP") + swizzled(row * BOX_ROW + column * O_ELEMENT));
            expect(c, "its place in the layout", at ^ step * symbol(c, "O_STEP"),
                   O_ELEMENT * ptxpack_at(&c->l.o, 16 * warp + row + 16 * c->warps * column));
        }
    }
    expect_symbol(c, "O_BUFFER_BYTES", 16 * BOX_ROW);
    expect_symbol(c, "O_WARP", 16 * BOX_ROW * ptxpack_variant_parameter(c->row, "O_BUFFERS", 0));
    expect_symbol(c, "O_STEPS", 4);
    expect_symbol(c, "SWIZZLE_SHIFT", 3);
    expect_symbol(c, "SWIZZLE_MASK", 0x70);
}

/* ldmatrix.x4 of operand A reads the Q tile in the same way: rows 0-7 and 8-15 of the first 16 bytes, then of
 * the next 16. */
static void fragments_of_q(const row_case *c)
{
    for (int64_t thread = 0; thread < 2 * c->m; thread++) {
        int64_t lane = thread % 32, matrix = lane / 8, row = thread / 32 * 16 + lane % 8 + 8 * (matrix % 2);
        int64_t at = swizzled(thread_function(c, "Q_AT", thread % 128)) +
                     thread / 128 * 16 * symbol(c, "DESC_Q_WARPGROUP");
        for (int64_t step = 0; step < c->d * c->element / 32; step++) {
            int64_t column = (32 * step + 16 * (matrix / 2)) / c->element;
            int64_t box = step / symbol(c, "DESC_STEPS"), inside = step % symbol(c, "DESC_STEPS");
            int64_t got = (at ^ inside * 16 * symbol(c, "DESC_STEP")) + box * symbol(c, "Q_BOX_BYTES");
            expect(c, "ldmatrix's row", got, c->element * ptxpack_at(&c->l.q, row + c->m * column));
        }
    }
}

static void no_conflicts(const row_case *c)
{
    const int64_t phases[WGMMA_ACCESSES] = {c->boxes * 4 * (c->m / 16) * 4, 4 * c->warps * 4};
    for (int id = 0; id < WGMMA_ACCESSES; id++) {
        ptxpack_banks banks = ptxpack_attention_wgmma_banks(&c->l, (attention_wgmma_access_id)id);
        assert_int_equal(banks.status, PTXPACK_OK);
        expect(c, "phases", banks.phases, phases[id]);
        expect(c, "conflicts", banks.conflicts, 0);
        attention_wgmma_layout plain = c->l;
        memset(&plain.o.swizzle, 0, sizeof plain.o.swizzle);
        banks = ptxpack_attention_wgmma_banks(&plain, (attention_wgmma_access_id)id);
        expect(c, "conflicts without the swizzle", banks.conflicts, 7 * banks.phases);
    }
}

static void test_threads(void **state)
{
    (void)state;
    for_every_row(accumulators);
    for_every_row(output);
    for_every_row(fragments_of_q);
    for_every_row(no_conflicts);
}

/* ---- builds -------------------------------------------------------------------------------------------- */
static void arguments(const row_case *c)
{
    expect_symbol(c, "ARG_MAP_Q", 0);
    expect_symbol(c, "ARG_MAP_K", 128);
    expect_symbol(c, "ARG_MAP_V", 256);
    expect_symbol(c, "ARG_MAP_O", 384);
    expect_symbol(c, "ARG_LSE", 512);
    expect_symbol(c, "ARG_WORKSPACE", 520);
    expect_symbol(c, "ARG_SEQLEN_Q", 512 + 5 * 8);
    expect_symbol(c, "ARG_SOFTCAP_IN", 512 + 5 * 8 + 11 * 4);
    expect_symbol(c, "ARG_STARTS_Q", 512 + 5 * 8 + 12 * 4); /* where the arguments without lengths end */
    expect_symbol(c, "ARG_PARTS_MOST", 512 + 5 * 8 + 12 * 4 + 7 * 8 + 8 + 7 * 4 + 6 * 4); /* .. without parts */
    expect_symbol(c, "ARG_GROUP_SHIFT",
                  512 + 5 * 8 + 12 * 4 + 7 * 8 + 8 + 7 * 4 + 6 * 4 + 4 * 4); /* .. not packed */
    expect_symbol(c, "ARG_SINKS",
                  512 + 5 * 8 + 12 * 4 + 7 * 8 + 8 + 7 * 4 + 6 * 4 + 4 * 4 +
                      4); /* .. without what heads have */
    expect_symbol(c, "ARG_BLOCK_COUNT",
                  512 + 5 * 8 + 12 * 4 + 7 * 8 + 8 + 7 * 4 + 6 * 4 + 4 * 4 + 4 + 2 * 8 + 2 * 4 + 3 * 4 + 4 +
                      8 * 8 + 8 + 6 * 8 + 4 * 4); /* .. without lists */
    expect_symbol(c, "ARG_LIST_MOST",             /* .. without keys that arrive */
                  512 + 5 * 8 + 12 * 4 + 7 * 8 + 8 + 7 * 4 + 6 * 4 + 4 * 4 + 4 + 2 * 8 + 2 * 4 + 3 * 4 + 4 +
                      8 * 8 + 8 + 6 * 8 + 4 * 4 + 4 * 8 + 5 * 4); /* WIDE_BOXES has 4, and 4 are empty */
    expect_symbol(c, "ARG_MAP_OWN_K", 1024);
    expect_symbol(c, "ARG_BYTES", 1024 + 2 * 128 + 8 + 6 * 4);
    assert_int_equal(_Alignof(attention_wgmma_arguments), 64);
}

static void builds(const row_case *c)
{
    enum { FLAGS = 10 };
    static const char *const flags[FLAGS] = {"BF16",         "VARLEN", "PAGED",        "SPLIT",
                                             "PACKED_HEADS", "ALIBI",  "LIMITED_LEFT", "LIMITED_RIGHT",
                                             "SOFTCAP",      "SINKS"};
    unsigned                 seen[FLAGS] = {0};
    size_t                   count = ptxpack_instance_count(c->row);
    for (size_t i = 0; i < count; i++) {
        row_case other = {.row = c->row, .build = ptxpack_instance_get(c->row, i)};
        for (int f = 0; f < FLAGS; f++) {
            int64_t value = symbol(&other, flags[f]);
            assert_in_range(value, 0, 1);
            seen[f] |= 1u << value;
        }
    }
    assert_int_equal(seen[0], c->fp8 ? 2 : 3);
    assert_int_equal(seen[1], c->fp8 ? 1 : 3);
    assert_int_equal(seen[2], seen[1]);
    assert_int_equal(seen[3], seen[1]);
    assert_int_equal(seen[4], c->fp8 || ptxpack_variant_parameter(c->row, "BLOCK_M", 0) > 128 ? 1 : 3);
    assert_int_equal(seen[5], c->fp8 ? 1 : 3);
    for (int f = 6; f < FLAGS; f++)
        assert_int_equal(seen[f], 3);
}

static void test_builds(void **state)
{
    (void)state;
    for_every_row(arguments);
    for_every_row(builds);
}

/* ---- errors -------------------------------------------------------------------------------------------- */
static ptxpack_variant with_parameter(ptxpack_variant row, const char *name, int64_t value)
{
    for (int i = 0; i < row.parameter_count; i++)
        if (strcmp(row.parameters[i].name, name) == 0)
            row.parameters[i].value = value;
    return row;
}

/* 128 x 128 of 128 columns: 2 stages of everything, 2 boxes of O for each warp, 17 barriers. */
/* clang-format off */
static const ptxpack_variant sample = {
    .id = "sample",
    .op = "attention",
    .file = "attention/wgmma.ptx",
    .arch = 90,
    .isa = 80,
    .threads = 384,
    .shared_bytes = 6 * 32768 + 8 * 2 * 2048 + 144 + 336,
    .blocks_per_sm = 1,
    .parameters = {{"HEAD_DIM", 128}, {"BLOCK_M", 128}, {"BLOCK_N", 128}, {"WARPGROUPS", 2}, {"K_STAGES", 2},
                   {"V_STAGES", 2}, {"Q_STAGES", 2}, {"Q_REGISTERS", 0}, {"P_BUFFERS", 2}, {"O_BUFFERS", 2},
                   {"PRODUCER_WARPS", 4}, {"REGS_PRODUCER", 40}, {"REGS_CONSUMER", 232}, {"FP8", 0}, {"VALUE_DIM", 128},
                   {"COLUMN_GROUPS", 1}, {"VALUES_IN_KEYS", 0}, {"O_IN_Q", 0}, {"EXCHANGE", 0}},
    .parameter_count = 19,
};
/* clang-format on */

static void expect_refusal(ptxpack_variant row, const char *why)
{
    static attention_wgmma_layout l;
    assert_int_equal(ptxpack_attention_wgmma_layout(&row, &l), PTXPACK_E_UNSUPPORTED);
    assert_int_equal(l.status, PTXPACK_E_UNSUPPORTED);
    if (strstr(ptxpack_detail(NULL), why) == NULL || strstr(ptxpack_detail(NULL), row.id) == NULL)
        fail_msg("\"%s\" does not say \"%s\" of %s", ptxpack_detail(NULL), why, row.id);
}

static void test_bad_rows_of_fp8(void **state)
{
    (void)state;
    size_t                 count, i = 0;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    while (i < count && ptxpack_variant_parameter(&rows[i], "FP8", 0) == 0)
        i++;
    assert_true(i < count);
    expect_refusal(with_parameter(rows[i], "RAW_STAGES", 0), "RAW_STAGES");
    expect_refusal(with_parameter(rows[i], "RAW_STAGES", 7), "shared_bytes is");
    expect_refusal(with_parameter(rows[i], "BLOCK_N", 80), "BLOCK_N");
    expect_refusal(with_parameter(rows[i], "HEAD_DIM", 48), "HEAD_DIM");
    expect_refusal(with_parameter(rows[i], "PRODUCER_WARPS", 1), "PRODUCER_WARPS");
}

static void test_bad_rows(void **state)
{
    (void)state;
    static attention_wgmma_layout l;
    assert_int_equal(ptxpack_attention_wgmma_layout(&sample, &l), PTXPACK_OK);
    ptxpack_variant fragments = with_parameter(with_parameter(sample, "Q_REGISTERS", 1), "Q_STAGES", 1);
    fragments.shared_bytes -= 32768 + 16; /* a stage of Q, two barriers */
    assert_int_equal(ptxpack_attention_wgmma_layout(&fragments, &l), PTXPACK_OK);
    assert_true(l.access[WGMMA_ACCESS_Q].used);
    assert_string_equal(l.qk.atom.name, "SM90_64x128x16_F32F16F16_RS");
    static const struct {
        const char *name;
        int64_t     value;
        const char *why;
    } bad[] = {
        {"HEAD_DIM", 24, "HEAD_DIM"},
        {"HEAD_DIM", 272, "shared_bytes is"},
        {"BLOCK_N", 120, "BLOCK_N"},
        {"BLOCK_N", 272, "BLOCK_N"},
        {"BLOCK_M", 64, "BLOCK_M"},
        {"WARPGROUPS", 4, "WARPGROUPS"},
        {"WARPGROUPS", 0, "WARPGROUPS"},
        {"K_STAGES", 0, "K_STAGES"},
        {"VALUE_DIM", 24, "VALUE_DIM"},
        {"COLUMN_GROUPS", 3, "COLUMN_GROUPS"},
        {"COLUMN_GROUPS", 2, "BLOCK_M is not"},
        {"VALUES_IN_KEYS", 1, "VALUES_IN_KEYS needs EXCHANGE"},
        {"O_IN_Q", 1, "O_IN_Q needs"},
        {"EXCHANGE", 1, "EXCHANGE needs"},
        {"V_STAGES", 0, "V_STAGES"},
        {"V_STAGES", 3, "shared_bytes is"},
        {"Q_STAGES", 3, "Q_STAGES"},
        {"P_BUFFERS", 0, "P_BUFFERS"},
        {"O_BUFFERS", 0, "O_BUFFERS"},
        {"O_BUFFERS", 3, "O_BUFFERS"},
        {"PRODUCER_WARPS", 2, "PRODUCER_WARPS"},
        {"PRODUCER_WARPS", 1, "threads is not"},
        {"REGS_CONSUMER", 236, "REGS_CONSUMER"},
        {"REGS_CONSUMER", 240, "exceed an SM's registers"},
        {"REGS_PRODUCER", 16, "REGS_PRODUCER"},
        {"FP8", 1, "FP8"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        expect_refusal(with_parameter(sample, bad[i].name, bad[i].value), bad[i].why);
    ptxpack_variant other = sample;
    other.shared_bytes -= 16;
    expect_refusal(other, "shared_bytes is");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_descriptors), cmocka_unit_test(test_tiles),
        cmocka_unit_test(test_boxes),       cmocka_unit_test(test_shared_memory),
        cmocka_unit_test(test_threads),     cmocka_unit_test(test_builds),
        cmocka_unit_test(test_bad_rows),    cmocka_unit_test(test_bad_rows_of_fp8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
