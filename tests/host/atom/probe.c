/* probe.c - tests the probes of atoms without a GPU: models of the instructions, right and wrong ones, replace
 * it.  The model of copies and of descriptors is the PTX manual's, not our tables'. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/support/probe.h"

enum { SEED = 20250611 };

/* ---- numbers --------------------------------------------------------------------------------------- */
static void numbers_keep_their_value(void **state)
{
    (void)state;
    static const struct {
        ptxpack_value_type type;
        int64_t            value;
        uint64_t           bits;
    } cases[] = {
        {PTXPACK_VALUE_F16, 1, 0x3c00},
        {PTXPACK_VALUE_F16, -3, 0xc200},
        {PTXPACK_VALUE_F16, 2047, 0x67ff},
        {PTXPACK_VALUE_BF16, 1, 0x3f80},
        {PTXPACK_VALUE_BF16, 255, 0x437f},
        {PTXPACK_VALUE_E4M3, 15, 0x57},
        {PTXPACK_VALUE_E5M2, 7, 0x47},
        {PTXPACK_VALUE_TF32, 3, 0x40400000},
        {PTXPACK_VALUE_F32, -1, 0xbf800000},
        {PTXPACK_VALUE_F64, 1, 0x3ff0000000000000},
        {PTXPACK_VALUE_S4, -8, 8},
        {PTXPACK_VALUE_U4, 15, 15},
        {PTXPACK_VALUE_S8, -1, 0xff},
        {PTXPACK_VALUE_U1, 1, 1},
        {PTXPACK_VALUE_S32, INT32_MIN, 0x80000000},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(probe_encode(cases[i].type, cases[i].value), cases[i].bits);
        assert_true(probe_decode(cases[i].type, cases[i].bits) == (double)cases[i].value);
    }
    for (int type = 0; type < PTXPACK_VALUE_TYPE_COUNT; type++)
        for (int64_t code = 0; code < INT64_C(1) << probe_code_bits((ptxpack_value_type)type); code++) {
            ptxpack_value_type t = (ptxpack_value_type)type;
            uint32_t           words[2 * 3] = {0}; /* three lanes */
            if (probe_code_bits(t) == 0)
                continue;
            probe_put(words, 3, 1, t, 0, probe_encode(t, code));
            assert_true(probe_decode(t, probe_get(words, 3, 1, t, 0)) == (double)code);
            assert_int_equal(words[0] | words[2] | words[3] | words[5], 0);
        }
}

/* ---- mma ------------------------------------------------------------------------------------------- */
/* An instruction with these layouts, and how often it was executed. */
typedef struct mma_model {
    probe_mma mma;
    bool      wraps;  /* it never saturates */
    int       astray; /* the factors of A (1) or B (2) come from another lane */
    int       calls;
} mma_model;

/* Row m of A has its factors in lane 4 (m % 8) + m / 8, column n of B in lane 4 n, the first one in byte 0. */
static double factor_of(const mma_model *model, const uint32_t *words[PROBE_OPERANDS], int operand, int row,
                        int k)
{
    const probe_mma *x = &model->mma;
    if (x->factors == 0)
        return 1;
    int      lane = 4 * (row % 8) + row / 8;
    uint32_t word = words[operand][(x->operand[operand].words - 1) * PROBE_LANES +
                                   (model->astray == 1 + operand ? (lane + 4) % PROBE_LANES : lane)];
    int      byte = (int)(word >> 8 * (k * x->factors / x->k) & 0xff);
    return x->scale == PTXPACK_VALUE_UE4M3 ? probe_decode(PTXPACK_VALUE_E4M3, (uint64_t)byte)
                                           : ldexp(1, byte - 127);
}

static void execute_one(const mma_model *model, const uint32_t *words[PROBE_OPERANDS], uint32_t *d)
{
    const probe_mma *x = &model->mma;
    const bool       wraps = model->wraps;
    static double    dense[PROBE_LANES][PROBE_OPERANDS][16 * 256];
    for (int i = 0; i < PROBE_OPERANDS; i++)
        for (int lane = 0; lane < PROBE_LANES; lane++)
            for (int v = 0; v < x->operand[i].values; v++)
                dense[x->group_of[lane]][i][x->operand[i].at[x->thread_of[lane]][v]] =
                    probe_decode(x->operand[i].type,
                                 probe_operand_get(&x->operand[i], words[i], PROBE_LANES, lane, v));
    for (int lane = 0; lane < PROBE_LANES; lane++)
        for (int v = 0; v < x->operand[PROBE_C].values; v++) {
            int           at = x->operand[PROBE_C].at[x->thread_of[lane]][v], m = at % x->m, n = at / x->m;
            const double *a = dense[x->group_of[lane]][PROBE_A] + m, *b = dense[x->group_of[lane]][PROBE_B] + n;
            double        sum = dense[x->group_of[lane]][PROBE_C][at];
            for (int k = 0; k < x->k; k++, a += x->m, b += x->n)
                sum += x->op == PROBE_XOR ? *a != *b
                                          : *a * *b * factor_of(model, words, PROBE_A, m, k) *
                                                factor_of(model, words, PROBE_B, n, k);
            if (x->saturate && !wraps)
                sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
            probe_put(d, PROBE_LANES, lane, x->operand[PROBE_C].type, v,
                      probe_encode(x->operand[PROBE_C].type, (int64_t)sum));
        }
}

static bool execute_model(void *context, const probe_batch *b)
{
    mma_model *model = (mma_model *)context;
    uint32_t   copy[PROBE_OPERANDS][16 * PROBE_LANES];
    size_t     answer = (size_t)b->words[PROBE_C] * PROBE_LANES;
    model->calls++;
    for (size_t p = 0; p < b->planes; p++)
        for (size_t e = 0; e < b->experiments; e++) {
            uint32_t        word = b->patch[e].word;
            const uint32_t *words[PROBE_OPERANDS];
            for (int i = 0; i < PROBE_OPERANDS; i++) {
                uint32_t count = (uint32_t)b->words[i];
                memcpy(copy[i], b->operand[i] + p * count * PROBE_LANES,
                       count * PROBE_LANES * sizeof(uint32_t));
                if (word < count)
                    copy[i][word * PROBE_LANES + b->patch[e].lane] = b->patch[e].value;
                word = word < count ? UINT32_MAX : word - count;
                words[i] = copy[i];
            }
            execute_one(model, words, b->d + (p * b->experiments + e) * answer);
        }
    return true;
}

static const char *const mma_names[] = {
    "SM61_DP4A",
    "SM61_DP2A",
    "SM70_8x8x4_F16F16F16F16_TN",
    "SM70_8x8x4_F32F16F16F32_NT",
    "SM80_16x8x16_F32BF16BF16F32_TN",
    "SM80_16x8x8_F16F16F16F16_TN",
    "SM80_16x8x8_F32TF32TF32F32_TN",
    "SM80_8x8x4_F64F64F64F64_TN",
    "SM80_16x8x16_S32S8U8S32_TN",
    "SM80_16x8x16_S32S8U8S32_TN_SATURATE",
    "SM80_8x8x32_S32U4S4S32_TN",
    "SM80_8x8x128_S32U1U1S32_TN_XORPOPC",
    "SM80_8x8x128_S32U1U1S32_TN_ANDPOPC",
    "SM89_16x8x32_F16E4M3E5M2F16_TN",
    "SM90_16x8x4_F64F64F64F64_TN",
    "SM120_16x8x32_F32E3M2E2M1F32_TN",
    "SM120_16x8x32_F16E2M1E5M2F16_TN",
    "SM120_16x8x32_F32E4M3E2M3F32_TN_VS32_UE8M0",
    "SM120_16x8x64_F32E2M1E2M1F32_TN_VS32_UE8M0",
    "SM120_16x8x64_F32E2M1E2M1F32_TN_VS16_UE4M3",
};
enum { MMA_NAMES = sizeof mma_names / sizeof mma_names[0] };

static void get_mma(const char *name, probe_mma *mma)
{
    ptxpack_mma_atom atom;
    char             line[PROBE_LINE];
    if (ptxpack_mma_atom_find(name, &atom) != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(NULL));
    if (!probe_mma_of(&atom, mma, line))
        fail_msg("%s: %s", name, line);
}

static void right_mma_is_proven(void **state)
{
    static mma_model model;
    (void)state;
    print_message("seed %d\n", (int)SEED);
    for (size_t i = 0; i < MMA_NAMES; i++) {
        char line[PROBE_LINE] = "";
        memset(&model, 0, sizeof model);
        get_mma(mma_names[i], &model.mma);
        if (probe_mma_prove(&model.mma, execute_model, &model, SEED, line) != PROBE_PROVEN)
            fail_msg("%s: %s", mma_names[i], line);
        assert_int_equal(model.calls, 4);
    }
}

/* The instruction is as the table says, except that two elements of one operand are exchanged. */
static void every_wrong_place_is_noticed(void **state)
{
    static mma_model model;
    static probe_mma table;
    int              tried = 0;
    (void)state;
    for (size_t i = 0; i < MMA_NAMES; i++)
        for (int operand = 0; operand < PROBE_OPERANDS; operand++) {
            char line[PROBE_LINE] = "";
            memset(&model, 0, sizeof model);
            get_mma(mma_names[i], &table);
            model.mma = table;
            probe_operand *o = &model.mma.operand[operand];
            uint16_t *one = &o->at[o->rows == 1 ? 0 : table.threads - 1][0], *other = &o->at[0][o->values - 1];
            if (*one == *other)
                continue;
            uint16_t kept = *one;
            *one = *other;
            *other = kept;
            tried++;
            if (probe_mma_prove(&table, execute_model, &model, SEED, line) != PROBE_DIFFERS || line[0] == '\0')
                fail_msg("%s: %d is wrong, and it was not noticed", mma_names[i], operand);
        }
    assert_true(tried > 2 * MMA_NAMES);
}

static void other_wrong_mma_is_noticed(void **state)
{
    static mma_model model;
    static probe_mma table;
    char             line[PROBE_LINE];
    (void)state;
    get_mma("SM80_16x8x16_S32S8U8S32_TN_SATURATE", &table);
    model = (mma_model){.mma = table, .wraps = true};
    assert_int_equal(probe_mma_prove(&table, execute_model, &model, SEED, line), PROBE_DIFFERS);
    assert_non_null(strstr(line, "end of s32"));
    get_mma("SM80_8x8x128_S32U1U1S32_TN_XORPOPC", &table);
    model = (mma_model){.mma = table};
    model.mma.op = PROBE_AND;
    assert_int_equal(probe_mma_prove(&table, execute_model, &model, SEED, line), PROBE_DIFFERS);
    for (int astray = 1; astray <= 2; astray++) {
        get_mma("SM120_16x8x64_F32E2M1E2M1F32_TN_VS16_UE4M3", &table);
        model = (mma_model){.mma = table, .astray = astray};
        assert_int_equal(probe_mma_prove(&table, execute_model, &model, SEED, line), PROBE_DIFFERS);
    }
    get_mma("SM120_16x8x32_F32E3M2E2M1F32_TN", &table); /* e2m1 in the lowest bits */
    model = (mma_model){.mma = table};
    model.mma.operand[PROBE_B].shift = 0;
    assert_int_equal(probe_mma_prove(&table, execute_model, &model, SEED, line), PROBE_DIFFERS);
    get_mma("SM70_8x8x4_F32F16F16F32_TN", &table); /* two quad pairs change lanes */
    model = (mma_model){.mma = table};
    for (int t = 0; t < 2; t++) {
        int lane = table.lane[0][t], other = table.lane[1][t];
        model.mma.group_of[lane] = 1;
        model.mma.group_of[other] = 0;
    }
    assert_int_equal(probe_mma_prove(&table, execute_model, &model, SEED, line), PROBE_DIFFERS);
    get_mma("SM80_16x8x8_F32F16F16F32_TN", &table); /* all of K in another order: no product shows it */
    model = (mma_model){.mma = table};
    for (int i = PROBE_A; i <= PROBE_B; i++)
        for (int t = 0; t < table.threads; t++)
            for (int v = 0; v < table.operand[i].values; v++) {
                int at = table.operand[i].at[t][v], rows = table.operand[i].rows;
                model.mma.operand[i].at[t][v] = (uint16_t)(at % rows + (at / rows ^ 5) * rows);
            }
    assert_int_equal(probe_mma_prove(&table, execute_model, &model, SEED, line), PROBE_PROVEN);
}

/* Complex numbers use several instructions of f64: the probes of these prove them, too. */
static void complex_atoms_have_the_layouts_of_their_parts(void **state)
{
    ptxpack_mma_atom atom, part;
    int              found = 0, complex_atoms = 0;
    (void)state;
    for (size_t i = 0; ptxpack_mma_atom_at(i, &atom); i++) {
        complex_atoms += atom.instructions > 1;
        for (size_t j = 0; atom.instructions > 1 && ptxpack_mma_atom_at(j, &part); j++)
            found += part.instructions == 1 && strcmp(part.ptx, atom.ptx) == 0 &&
                     ptxpack_layout_equal(&part.a_layout, &atom.a_layout) &&
                     ptxpack_layout_equal(&part.b_layout, &atom.b_layout) &&
                     ptxpack_layout_equal(&part.c_layout, &atom.c_layout);
    }
    assert_true(complex_atoms > 0);
    assert_int_equal(found, complex_atoms);
}

/* ---- copies ---------------------------------------------------------------------------------------- */
/* A copy as in the PTX manual; `wrong` omits the last register or byte. */
typedef struct copy_model {
    const ptxpack_copy_atom *atom;
    bool                     wrong;
} copy_model;

static uint16_t *half_of(uint32_t *words, int lane, int reg, int half)
{
    return (uint16_t *)(void *)&words[reg * PROBE_LANES + lane] + half;
}

/* ldmatrix and stmatrix: row r of matrix i lies where lane 8 i + r says; lane l has elements 2 (l % 4), + 1
 * of row l / 4 in register i, with .trans of column l / 4. */
static void model_matrices(const copy_model *m, uint8_t *image, const uint32_t *where, uint32_t *words,
                           bool load)
{
    bool trans = strstr(m->atom->ptx, ".trans") != NULL;
    int  count = strstr(m->atom->ptx, ".x4") != NULL ? 4 : strstr(m->atom->ptx, ".x2") != NULL ? 2 : 1;
    for (int i = 0; i < count; i++)
        for (int lane = 0; lane < PROBE_LANES; lane++)
            for (int half = 0; half < 2; half++) {
                int row = trans ? 2 * (lane % 4) + half : lane / 4,
                    column = trans ? lane / 4 : 2 * (lane % 4) + half;
                uint16_t *in_memory = (uint16_t *)(void *)(image + where[2 * (8 * i + row)]) + column;
                uint16_t *in_register = half_of(words, lane, i, half);
                if (m->wrong && i == count - 1 && lane == 31 && half == 1)
                    continue;
                if (load)
                    *in_register = *in_memory;
                else
                    *in_memory = *in_register;
            }
}

/* Element c of 16 of a row, from the lowest bits on. */
static uint8_t element_of(const uint8_t *row, int bits, int c)
{
    return (uint8_t)((row[c * bits / 8] | (c < 15 ? row[c * bits / 8 + 1] << 8 : 0)) >> c * bits % 8 &
                     ((1 << bits) - 1));
}

/* Matrices of bytes.  ldmatrix 8 x 16: lane 4 g + q has elements (g, 4 q ..).  16 x 16 transposed: byte i of register
 * s has element (4 q + i, g + 8 s), and the atom's bytes 0, 1 of both registers become the first one.  stmatrix 16 x 8
 * transposed: the lane has (g, 2 q), (g, 2 q + 1), (g + 8, 2 q), (g + 8, 2 q + 1); addresses are of columns. */
static void model_bytes(const copy_model *m, uint8_t *image, const uint32_t *where, uint32_t *words)
{
    int bits = m->atom->packed_bits ? m->atom->packed_bits : 8;
    int registers = m->atom->registers_src + m->atom->registers_dst;
    for (int r = 0; r < registers; r++)
        for (int lane = 0; lane < PROBE_LANES; lane++)
            for (int i = 0; i < 4; i++) {
                int      g = lane / 4, q = lane % 4;
                uint8_t *byte = (uint8_t *)&words[r * PROBE_LANES + lane] + i;
                if (m->wrong && r == registers - 1 && lane == 31 && i == 3)
                    continue;
                if (m->atom->registers_src != 0)
                    image[where[2 * (8 * r + 2 * q + i % 2)] + (uint32_t)(g + 8 * (i / 2))] = *byte;
                else if (m->atom->packed_bits)
                    *byte = element_of(image + where[2 * (8 * r + g)], bits, 4 * q + i);
                else
                    *byte = image[where[2 * (r / 2 * 16 + 4 * q + i % 2 + 2 * (r % 2))] +
                                  (uint32_t)(g + 8 * (i / 2))];
            }
}

static void model_movmatrix(const copy_model *m, uint32_t *words)
{
    uint32_t before[PROBE_LANES];
    memcpy(before, words, sizeof before);
    for (int lane = 0; lane < PROBE_LANES && !m->wrong; lane++)
        for (int half = 0; half < 2; half++) { /* element (l / 4, 2 (l % 4) + half) of the transposed matrix */
            int row = 2 * (lane % 4) + half, column = lane / 4;
            *half_of(words, lane, 0, half) = *half_of(before, 4 * row + column / 2, 0, column % 2);
        }
}

static void model_shuffle(const copy_model *m, uint32_t *words)
{
    uint32_t before[2 * PROBE_LANES];
    int      bit = strstr(m->atom->name, "XOR4") != NULL ? 4 : 1;
    memcpy(before, words, sizeof before);
    for (int lane = 0; lane < PROBE_LANES;
         lane++) { /* [i][j] of a 2 x 2 matrix: word j of the lane with bit i */
        int i = (lane & bit) != 0;
        for (int j = 0; j < 2; j++)
            words[j * PROBE_LANES + lane] = before[i * PROBE_LANES + ((lane & ~bit) | j * bit)];
        if (m->wrong)
            words[lane] = before[lane];
    }
}

static void model_async(const copy_model *m, uint8_t *image, const uint8_t *source, const uint32_t *where,
                        const uint32_t *words)
{
    int bytes = (int)ptxpack_mode_size(&m->atom->dst, 1) / 8;
    for (int lane = 0; lane < PROBE_LANES; lane++)
        for (int i = 0; i < bytes - m->wrong; i++) {
            bool zero = strstr(m->atom->name, "ZFILL") != NULL && (uint32_t)i >= words[lane];
            image[where[2 * lane] + (uint32_t)i] = zero ? 0 : source[where[2 * lane + 1] + (uint32_t)i];
        }
}

static bool execute_copy(void *context, const probe_copy_batch *b)
{
    const copy_model *m = (const copy_model *)context;
    for (size_t e = 0; e < b->experiments; e++) {
        uint8_t        *image = b->after + e * PROBE_AFTER;
        const uint32_t *where = b->where + e * 2 * PROBE_LANES;
        uint32_t        words[PROBE_COPY_WORDS * PROBE_LANES];
        memcpy(image, b->image + e * PROBE_IMAGE, PROBE_IMAGE);
        memcpy(words, b->words + e * PROBE_COPY_WORDS * PROBE_LANES, sizeof words);
        if (m->atom->arch_specific)
            model_bytes(m, image, where, words);
        switch (m->atom->arch_specific ? 0 : m->atom->ptx[0]) {
        case 0:
            break;
        case 'l':
            model_matrices(m, image, where, words, true);
            break;
        case 'm':
            model_movmatrix(m, words);
            break;
        case 'c':
            model_async(m, image, b->source + e * PROBE_IMAGE, where, words);
            break;
        default:
            m->atom->ptx[1] == 't' ? model_matrices(m, image, where, words, false) : model_shuffle(m, words);
        }
        memcpy(image + PROBE_IMAGE, words, sizeof words);
    }
    return true;
}

static void copies_are_proven_and_wrong_ones_noticed(void **state)
{
    ptxpack_copy_atom atom;
    int               known = 0;
    (void)state;
    for (size_t i = 0; ptxpack_copy_atom_at(i, &atom); i++) {
        copy_model model = {.atom = &atom};
        probe_copy copy;
        char       line[PROBE_LINE] = "";
        if (!probe_copy_known(&atom))
            continue;
        known++;
        if (!probe_copy_of(&atom, &copy, line) ||
            probe_copy_prove(&copy, execute_copy, &model, SEED, line) != PROBE_PROVEN)
            fail_msg("%s: %s", atom.name, line);
        model.wrong = true;
        if (probe_copy_prove(&copy, execute_copy, &model, SEED, line) != PROBE_DIFFERS)
            fail_msg("%s: wrong, and it was not noticed", atom.name);
    }
    /* shuffles, movmatrix, ldmatrix, stmatrix, cp.async */
    assert_int_equal(known, 2 + 1 + 6 + 8 + 6 + 3 + 8);
}

/* ---- wgmma: descriptors as in the PTX manual ------------------------------------------------------- */
typedef struct wgmma_model {
    const ptxpack_mma_atom *atom;
    ptxpack_wgmma_major     major[2];
    bool                    no_swizzle; /* wrong: the swizzle is ignored */
} wgmma_model;

/* Byte address of element (row, k) of an operand: rows in groups of 8 along one mode, 16 << s bytes along the
 * other; leading and stride offsets step over those. */
static uint32_t address_of(const wgmma_model *m, int operand, uint64_t descriptor, int row, int k, int bytes)
{
    static const uint32_t widths[] = {16, 128, 64, 32}; /* by the descriptor's number of the swizzle */
    uint32_t start = (uint32_t)(descriptor & 0x3fff) * 16, leading = (uint32_t)(descriptor >> 16 & 0x3fff) * 16;
    uint32_t stride = (uint32_t)(descriptor >> 32 & 0x3fff) * 16, kind = (uint32_t)(descriptor >> 62);
    uint32_t width = widths[kind], at;
    bool     mn = m->major[operand] == PTXPACK_WGMMA_MN;
    uint32_t eighths = (uint32_t)(mn ? k : row), along = (uint32_t)((mn ? row : k) * bytes);
    if (kind == 0 && mn) /* leading along K here */
        at = eighths / 8 * leading + along / width * stride;
    else
        at = eighths / 8 * stride + along / width * leading;
    at += start + eighths % 8 * width + along % width;
    return m->no_swizzle || kind == 0 ? at : at ^ ((at >> 7 & (width / 16 - 1)) << 4);
}

static double element(const wgmma_model *m, int operand, const uint8_t *shared, uint64_t descriptor, int row,
                      int k)
{
    ptxpack_value_type type = operand == PROBE_A ? m->atom->a : m->atom->b;
    int                bytes = ptxpack_value_bits(type) / 8;
    uint32_t           at = address_of(m, operand, descriptor, row, k, bytes);
    uint64_t           bits = 0;
    memcpy(&bits, shared + at, (size_t)bytes);
    return probe_decode(type, bits);
}

/* A in registers: warp w holds rows 16 w .., as mma.sync does; a register holds neighbours along K. */
static double element_held(const wgmma_model *m, const uint32_t *words, int row, int k)
{
    int per = 32 / ptxpack_value_bits(m->atom->a), reg = row % 16 / 8 + 2 * (k / (4 * per));
    int thread = row / 16 * 32 + row % 8 * 4 + k / per % 4;
    return probe_decode(m->atom->a,
                        probe_get(words, PROBE_WARP_GROUP, thread, m->atom->a, reg * per + k % per));
}

static double held(const ptxpack_mma_atom *atom, double sum)
{
    if (atom->c != PTXPACK_VALUE_S32)
        return sum;
    if (strstr(atom->ptx, "satfinite") != NULL)
        return sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
    return (double)(int32_t)(uint32_t)(int64_t)sum;
}

static void multiply_trial(const wgmma_model *m, const probe_wgmma_batch *b, size_t i, const uint8_t *shared)
{
    const ptxpack_mma_atom *atom = m->atom;
    static double           rows[64][256], columns[256][256];
    for (int k = 0; k < atom->k * PROBE_STEPS; k++) {
        const uint64_t *descriptors = b->descriptors + (i * PROBE_STEPS + (size_t)(k / atom->k)) * 2;
        const uint32_t *words = b->a_words + (i * PROBE_STEPS + (size_t)(k / atom->k)) * PROBE_A_REGISTERS *
                                                 PROBE_WARP_GROUP;
        for (int row = 0; row < atom->m; row++)
            rows[row][k] = atom->a_shared ? element(m, PROBE_A, shared, descriptors[0], row, k % atom->k)
                                          : element_held(m, words, row, k % atom->k);
        for (int row = 0; row < atom->n; row++)
            columns[row][k] = element(m, PROBE_B, shared, descriptors[1], row, k % atom->k);
    }
    const uint32_t *c = b->c + i * (size_t)b->c_words * PROBE_WARP_GROUP;
    uint32_t       *d = b->d + i * (size_t)b->c_words * PROBE_WARP_GROUP;
    for (int row = 0; row < atom->m; row++)
        for (int n = 0; n < atom->n; n++) { /* as in the manual's picture of D */
            int thread = row / 16 * 32 + row % 8 * 4 + n % 8 / 2, value = n / 8 * 4 + row % 16 / 8 * 2 + n % 2;
            double sum = probe_decode(atom->c, probe_get(c, PROBE_WARP_GROUP, thread, atom->c, value));
            for (int k = 0; k < atom->k * PROBE_STEPS; k++)
                sum += rows[row][k] * columns[n][k];
            probe_put(d, PROBE_WARP_GROUP, thread, atom->c, value,
                      probe_encode(atom->c, (int64_t)held(atom, sum)));
        }
}

static bool execute_wgmma(void *context, const probe_wgmma_batch *b)
{
    const wgmma_model *m = (const wgmma_model *)context;
    size_t             bytes = b->a_bytes + b->b_bytes;
    uint8_t           *shared = (uint8_t *)calloc(1, (size_t)1 << 18);
    for (size_t i = 0; i < b->trials && shared != NULL && bytes <= (size_t)1 << 18; i++) {
        memcpy(shared, b->a + i * b->a_bytes, b->a_bytes);
        memcpy(shared + b->a_bytes, b->b + i * b->b_bytes, b->b_bytes);
        multiply_trial(m, b, i, shared);
    }
    free(shared);
    return shared != NULL;
}

static const struct {
    const char         *name;
    ptxpack_wgmma_major a, b;
} wgmmas[] = {
    {"SM90_64x64x16_F32F16F16_SS", PTXPACK_WGMMA_K, PTXPACK_WGMMA_K},
    {"SM90_64x128x16_F32BF16BF16_SS", PTXPACK_WGMMA_MN, PTXPACK_WGMMA_MN},
    {"SM90_64x64x16_F16F16F16_RS", PTXPACK_WGMMA_K, PTXPACK_WGMMA_MN},
    {"SM90_64x8x16_F32F16F16_SS", PTXPACK_WGMMA_MN, PTXPACK_WGMMA_MN},
    {"SM90_64x64x8_F32TF32TF32_SS_TN", PTXPACK_WGMMA_K, PTXPACK_WGMMA_K},
    {"SM90_64x8x8_F32TF32TF32_RS_TN", PTXPACK_WGMMA_K, PTXPACK_WGMMA_K},
    {"SM90_64x32x32_S32S8U8_SS_TN_SATURATE", PTXPACK_WGMMA_K, PTXPACK_WGMMA_K},
    {"SM90_64x256x32_F32E4M3E5M2_SS_TN", PTXPACK_WGMMA_K, PTXPACK_WGMMA_K},
    {"SM90_64x24x32_F16E5M2E5M2_RS_TN", PTXPACK_WGMMA_K, PTXPACK_WGMMA_K},
};

static void wgmma_is_proven_and_wrong_swizzles_noticed(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wgmmas / sizeof wgmmas[0]; i++) {
        ptxpack_mma_atom atom;
        wgmma_model      model = {.atom = &atom, .major = {wgmmas[i].a, wgmmas[i].b}};
        char             line[PROBE_LINE] = "";
        if (ptxpack_mma_atom_find(wgmmas[i].name, &atom) != PTXPACK_OK)
            fail_msg("%s", ptxpack_detail(NULL));
        if (probe_wgmma_prove(&atom, wgmmas[i].a, wgmmas[i].b, execute_wgmma, &model, SEED, line) !=
            PROBE_PROVEN)
            fail_msg("%s: %s", atom.name, line);
        model.no_swizzle = true;
        if (probe_wgmma_prove(&atom, wgmmas[i].a, wgmmas[i].b, execute_wgmma, &model, SEED, line) !=
            PROBE_DIFFERS)
            fail_msg("%s: without a swizzle, and it was not noticed", atom.name);
        if (wgmmas[i].b == PTXPACK_WGMMA_K)
            continue;
        model.no_swizzle = false;
        model.major[PROBE_B] = PTXPACK_WGMMA_K;
        assert_int_equal(probe_wgmma_prove(&atom, wgmmas[i].a, wgmmas[i].b, execute_wgmma, &model, SEED, line),
                         PROBE_DIFFERS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_keep_their_value),
        cmocka_unit_test(right_mma_is_proven),
        cmocka_unit_test(every_wrong_place_is_noticed),
        cmocka_unit_test(other_wrong_mma_is_noticed),
        cmocka_unit_test(complex_atoms_have_the_layouts_of_their_parts),
        cmocka_unit_test(copies_are_proven_and_wrong_ones_noticed),
        cmocka_unit_test(wgmma_is_proven_and_wrong_swizzles_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
