/* probe_mma.c - what an mma must compute if the table of atoms is right, and where it differs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe.h"

enum { MOST_M = 16, MOST_N = 8, MOST_K = 256 };
static const char *const operand_names[PROBE_OPERANDS] = {"A", "B", "C"};

/* ---- what the table says --------------------------------------------------------------------------- */
static bool read_operand(probe_operand *o, ptxpack_value_type type, int bits, const ptxpack_layout *layout,
                         int rows, int columns, int threads)
{
    int64_t values = ptxpack_mode_size(layout, 1);
    *o = (probe_operand){.type = type, .rows = rows, .columns = columns, .bits = bits};
    o->shift = bits == 8 && ptxpack_value_bits(type) == 4 ? 2 : 0; /* in the middle */
    if (layout->shape.status != PTXPACK_OK || probe_code_bits(type) == 0 || values < 1 ||
        values > PROBE_VALUES || threads > PROBE_LANES || ptxpack_mode_size(layout, 0) < threads)
        return false;
    o->values = (int)values;
    o->words = (o->values * bits + 31) / 32;
    /* The thread mode may be larger, where it skips what other groups hold: first mode fastest all the same.
     */
    int64_t span = ptxpack_mode_size(layout, 0);
    for (int t = 0; t < threads; t++)
        for (int v = 0; v < o->values; v++) {
            int64_t at = ptxpack_at(layout, t + span * v);
            if (at < 0 || at >= rows * columns)
                return false;
            o->at[t][v] = (uint16_t)at;
        }
    return true;
}

/* Reads the lanes of the first group from the table; the other groups have these lanes, shifted by the lanes
 * that the first omits. */
static bool read_lanes(probe_mma *mma, const ptxpack_layout *thr_id)
{
    const ptxpack_tuple  lanes = ptxpack_int(PROBE_LANES);
    const ptxpack_layout rest = ptxpack_complement(thr_id, &lanes);
    bool                 seen[PROBE_LANES] = {false};
    mma->threads = (int)ptxpack_size(thr_id);
    mma->groups = (int)ptxpack_size(&rest);
    if (rest.shape.status != PTXPACK_OK || mma->threads < 1 || mma->threads * mma->groups != PROBE_LANES)
        return false;
    for (int g = 0; g < mma->groups; g++)
        for (int t = 0; t < mma->threads; t++) {
            int64_t lane = ptxpack_at(thr_id, t) + ptxpack_at(&rest, g);
            if (lane < 0 || lane >= PROBE_LANES || seen[lane])
                return false;
            seen[lane] = true;
            mma->lane[g][t] = (uint8_t)lane;
            mma->group_of[lane] = (uint8_t)g;
            mma->thread_of[lane] = (uint8_t)t;
        }
    return true;
}

/* Where the factors are: by the table each thread has those of a row, for every element along K. */
static bool read_factors(probe_mma *mma, const ptxpack_mma_atom *atom)
{
    const ptxpack_layout *layouts[] = {&atom->sfa_layout, &atom->sfb_layout};
    mma->factors = atom->scale_vector ? atom->k / atom->scale_vector : 0;
    mma->scale = atom->scale;
    for (int i = PROBE_A; i <= PROBE_B && mma->factors; i++) {
        int64_t rows = mma->operand[i].rows;
        mma->operand[i].words++;
        if (layouts[i]->shape.status != PTXPACK_OK || ptxpack_mode_size(layouts[i], 0) != PROBE_LANES ||
            ptxpack_mode_size(layouts[i], 1) != mma->k)
            return false;
        for (int t = 0; t < PROBE_LANES; t++) {
            mma->scaled[i][t] = (uint16_t)ptxpack_at(layouts[i], t);
            for (int k = 0; k < mma->k; k++)
                if (ptxpack_at(layouts[i], t + PROBE_LANES * k) != mma->scaled[i][t] + rows * k)
                    return false;
        }
    }
    return true;
}

void probe_operand_put(const probe_operand *o, uint32_t *words, int lanes, int lane, int value, uint64_t bits)
{
    int       first = value * o->bits + o->shift, width = ptxpack_value_bits(o->type);
    uint32_t *word = &words[first / 32 * lanes + lane];
    if (o->bits == width)
        probe_put(words, lanes, lane, o->type, value, bits);
    else
        *word = (*word & ~(UINT32_MAX >> (32 - width) << first % 32)) | (uint32_t)bits << first % 32;
}

uint64_t probe_operand_get(const probe_operand *o, const uint32_t *words, int lanes, int lane, int value)
{
    int first = value * o->bits + o->shift, width = ptxpack_value_bits(o->type);
    if (o->bits == width)
        return probe_get(words, lanes, lane, o->type, value);
    return words[first / 32 * lanes + lane] >> first % 32 & (UINT32_MAX >> (32 - width));
}

bool probe_mma_of(const ptxpack_mma_atom *atom, probe_mma *out, char *line)
{
    bool warp = atom->m <= MOST_M && atom->n <= MOST_N && atom->k <= MOST_K &&
                (strncmp(atom->ptx, "mma.sync.aligned.m", 18) == 0 || strncmp(atom->ptx, "dp", 2) == 0) &&
                atom->instructions == 1;
    memset(out, 0, sizeof *out);
    out->m = atom->m;
    out->n = atom->n;
    out->k = atom->k;
    out->op = strstr(atom->ptx, ".xor") != NULL   ? PROBE_XOR
              : strstr(atom->ptx, ".and") != NULL ? PROBE_AND
                                                  : PROBE_PRODUCT;
    out->saturate = strstr(atom->ptx, ".satfinite") != NULL;
    if (warp && read_lanes(out, &atom->thr_id) &&
        read_operand(&out->operand[PROBE_A], atom->a, atom->a_bits, &atom->a_layout, out->m, out->k,
                     out->threads) &&
        read_operand(&out->operand[PROBE_B], atom->b, atom->b_bits, &atom->b_layout, out->n, out->k,
                     out->threads) &&
        read_operand(&out->operand[PROBE_C], atom->c, ptxpack_value_bits(atom->c), &atom->c_layout, out->m,
                     out->n, out->threads) &&
        read_factors(out, atom))
        return true;
    snprintf(line, PROBE_LINE, "%s",
             warp ? "the table's layouts do not fit the operands" : "not one instruction of one warp");
    return false;
}

/* ---- batches --------------------------------------------------------------------------------------- */
static size_t plane_words(const probe_batch *b, int operand) { return (size_t)b->words[operand] * PROBE_LANES; }

static uint32_t *plane_of(const probe_batch *b, int operand, size_t plane)
{
    return b->operand[operand] + plane * plane_words(b, operand);
}

static const uint32_t *answer_of(const probe_batch *b, size_t plane, size_t experiment)
{
    return b->d + (plane * b->experiments + experiment) * plane_words(b, PROBE_C);
}

static void batch_free(probe_batch *b)
{
    for (int i = 0; i < PROBE_OPERANDS; i++)
        free(b->operand[i]);
    free(b->patch);
    free(b->d);
}

/* Gives all factors the value 1. */
static void put_ones(const probe_batch *b, const probe_mma *mma)
{
    for (int i = PROBE_A; i <= PROBE_B && mma->factors; i++)
        for (size_t p = 0; p < b->planes; p++)
            for (int lane = 0; lane < PROBE_LANES; lane++)
                plane_of(b, i, p)[(b->words[i] - 1) * PROBE_LANES + lane] =
                    0x01010101u * (mma->scale == PTXPACK_VALUE_UE4M3 ? 7 << 3 : 127);
}

/* Makes a batch of zeros whose patches change nothing. */
static bool batch_make(probe_batch *b, const probe_mma *mma, size_t planes, size_t experiments)
{
    *b = (probe_batch){.planes = planes, .experiments = experiments};
    bool ok = true;
    for (int i = 0; i < PROBE_OPERANDS; i++) {
        b->words[i] = mma->operand[i].words;
        b->operand[i] = (uint32_t *)calloc(planes * plane_words(b, i), sizeof(uint32_t));
        ok = ok && b->operand[i] != NULL;
    }
    b->patch = (probe_patch *)calloc(experiments, sizeof *b->patch);
    b->d = (uint32_t *)malloc(planes * experiments * plane_words(b, PROBE_C) * sizeof(uint32_t));
    ok = ok && b->patch != NULL && b->d != NULL;
    for (size_t e = 0; e < experiments && ok; e++)
        b->patch[e].word = UINT32_MAX;
    if (ok)
        put_ones(b, mma);
    else
        batch_free(b);
    return ok;
}

/* An element of D as a number. */
static double answer(const probe_mma *mma, const uint32_t *d, int lane, int value)
{
    ptxpack_value_type type = mma->operand[PROBE_C].type;
    return probe_decode(type, probe_get(d, PROBE_LANES, lane, type, value));
}

/* ---- codes: element i of an operand is i + 1, so many bits of it in each plane --------------------- */
static int code_planes(const probe_operand *o)
{
    int bits = 0, width = probe_code_bits(o->type);
    while (o->rows * o->columns >> bits != 0) /* the largest code is rows * columns */
        bits++;
    return (bits + width - 1) / width;
}

static void put_codes(const probe_batch *b, const probe_mma *mma, int operand)
{
    const probe_operand *o = &mma->operand[operand];
    int                  width = probe_code_bits(o->type);
    for (size_t p = 0; p < b->planes; p++)
        for (int lane = 0; lane < PROBE_LANES; lane++)
            for (int v = 0; v < o->values; v++) {
                int code = o->at[mma->thread_of[lane]][v] + 1;
                int digit = code >> (int)p * width & ((1 << width) - 1);
                probe_operand_put(o, plane_of(b, operand, p), PROBE_LANES, lane, v,
                                  probe_encode(o->type, digit));
            }
}

enum { NO_CODE = -1 };

/* The code that element `value` of D shows, 0 for none, NO_CODE for a number that is not a code.  Where bits
 * are xored, a 1 in A or B changes D by 1 where it meets a 0 and by -1 where it meets a 1. */
static int read_code(const probe_batch *b, const probe_mma *mma, int width, size_t experiment, int lane,
                     int value)
{
    int  code = 0, met = 0;
    bool good = true;
    for (size_t p = 0; p < b->planes; p++) {
        double change = answer(mma, answer_of(b, p, experiment), lane, value) -
                        answer(mma, answer_of(b, p, 0), lane, value);
        double digit = mma->op == PROBE_XOR ? (change == 0 ? 0 : (1 - change) / 2) : change;
        met += change != 0;
        if (!(digit >= 0 && digit < 1 << width) || digit != floor(digit))
            good = false;
        else
            code |= (int)digit << (int)p * width;
    }
    if (mma->op == PROBE_XOR && met != 0 && met != (int)b->planes)
        good = false;
    return good ? code : NO_CODE;
}

/* ---- one-hot: A or B ------------------------------------------------------------------------------- */
/* An element of A or B; its experiment is 1 + (lane * values + value). */
typedef struct hot {
    int operand, lane, value, row, k;
} hot;

static hot hot_at(const probe_mma *mma, int operand, size_t experiment)
{
    const probe_operand *o = &mma->operand[operand];
    hot                  h = {.operand = operand};
    h.lane = (int)(experiment - 1) / o->values;
    h.value = (int)(experiment - 1) % o->values;
    int at = o->at[mma->thread_of[h.lane]][h.value];
    h.row = at % o->rows;
    h.k = at / o->rows;
    return h;
}

static void put_patch(const probe_batch *b, const probe_mma *mma, int operand, size_t experiment)
{
    const probe_operand *o = &mma->operand[operand];
    hot                  h = hot_at(mma, operand, experiment);
    uint32_t             words[PROBE_VALUES * 2] = {0};
    probe_operand_put(o, words, 1, 0, h.value, probe_encode(o->type, 1));
    int word = h.value * o->bits / 32;
    if (words[word] == 0) /* the upper half of f64 */
        word++;
    b->patch[experiment] = (probe_patch){.lane = (uint32_t)h.lane,
                                         .word = (uint32_t)(word +
                                                            (operand == PROBE_B ? b->words[PROBE_A] : 0)),
                                         .value = words[word]};
}

/* The code that D must show: that of the other operand's element at the same k. */
static int expected_code(const probe_mma *mma, const hot *h, int lane, int value)
{
    const probe_operand *c = &mma->operand[PROBE_C];
    int                  at = c->at[mma->thread_of[lane]][value], m = at % c->rows, n = at / c->rows;
    if (mma->group_of[lane] != mma->group_of[h->lane] || h->row != (h->operand == PROBE_A ? m : n))
        return 0;
    return 1 + (h->operand == PROBE_A ? n + mma->n * h->k : m + mma->m * h->k);
}

static void name_code(const probe_mma *mma, int other, int code, char *text, size_t cap)
{
    if (code == 0 || code == NO_CODE || code > mma->operand[other].rows * mma->operand[other].columns)
        snprintf(text, cap, code == 0 ? "nothing" : "no element");
    else
        snprintf(text, cap, "%s(%d,%d)", operand_names[other], (code - 1) % mma->operand[other].rows,
                 (code - 1) / mma->operand[other].rows);
}

/* Writes "A thread 5 value 3 is (1,8): it met B(2,8), not B(1,8), in D thread 0 value 1, which is (1,1)"; the
 * table says which element is which. */
static void describe(const probe_mma *mma, const hot *h, int lane, int value, int seen, char *line)
{
    const probe_operand *c = &mma->operand[PROBE_C];
    int  at = c->at[mma->thread_of[lane]][value], other = h->operand == PROBE_A ? PROBE_B : PROBE_A;
    char got[48], wanted[48];
    name_code(mma, other, seen, got, sizeof got);
    name_code(mma, other, expected_code(mma, h, lane, value), wanted, sizeof wanted);
    snprintf(line, PROBE_LINE,
             "%s thread %d value %d is (%d,%d): it met %s, not %s, in D thread %d value %d, which is (%d,%d)",
             operand_names[h->operand], mma->thread_of[h->lane], h->value, h->row, h->k, got, wanted,
             mma->thread_of[lane], value, at % c->rows, at / c->rows);
}

static probe_verdict judge_hot(const probe_batch *b, const probe_mma *mma, int operand, char *line)
{
    int width = probe_code_bits(mma->operand[operand == PROBE_A ? PROBE_B : PROBE_A].type);
    for (size_t e = 1; e < b->experiments; e++) {
        hot h = hot_at(mma, operand, e);
        for (int lane = 0; lane < PROBE_LANES; lane++)
            for (int v = 0; v < mma->operand[PROBE_C].values; v++) {
                int code = read_code(b, mma, width, e, lane, v);
                if (code != expected_code(mma, &h, lane, v)) {
                    describe(mma, &h, lane, v, code, line);
                    return PROBE_DIFFERS;
                }
            }
    }
    return PROBE_PROVEN;
}

static probe_verdict run(probe_batch *b, probe_executor execute, void *context, char *line)
{
    if (execute(context, b))
        return PROBE_PROVEN;
    snprintf(line, PROBE_LINE, "the instruction could not be executed");
    return PROBE_BROKEN;
}

static probe_verdict no_memory(char *line)
{
    snprintf(line, PROBE_LINE, "no memory");
    return PROBE_BROKEN;
}

static probe_verdict prove_hot(const probe_mma *mma, int operand, probe_executor execute, void *context,
                               char *line)
{
    int                  other = operand == PROBE_A ? PROBE_B : PROBE_A;
    const probe_operand *o = &mma->operand[operand];
    probe_batch          b;
    if (!batch_make(&b, mma, (size_t)code_planes(&mma->operand[other]), (size_t)(1 + PROBE_LANES * o->values)))
        return no_memory(line);
    put_codes(&b, mma, other);
    for (size_t e = 1; e < b.experiments; e++)
        put_patch(&b, mma, operand, e);
    probe_verdict verdict = run(&b, execute, context, line);
    if (verdict == PROBE_PROVEN)
        verdict = judge_hot(&b, mma, operand, line);
    batch_free(&b);
    return verdict;
}

/* ---- C: what C holds comes out at the same place of D ---------------------------------------------- */
static probe_verdict judge_through(const probe_batch *b, const probe_mma *mma, char *line)
{
    const probe_operand *c = &mma->operand[PROBE_C];
    for (size_t p = 0; p < b->planes; p++)
        for (int lane = 0; lane < PROBE_LANES; lane++)
            for (int v = 0; v < c->values; v++) {
                uint64_t in = probe_get(plane_of(b, PROBE_C, p), PROBE_LANES, lane, c->type, v);
                if (answer(mma, answer_of(b, p, 0), lane, v) == probe_decode(c->type, in))
                    continue;
                snprintf(line, PROBE_LINE, "C thread %d value %d does not come out at the same place of D",
                         mma->thread_of[lane], v);
                return PROBE_DIFFERS;
            }
    return PROBE_PROVEN;
}

static probe_verdict prove_through(const probe_mma *mma, probe_executor execute, void *context, char *line)
{
    probe_batch b;
    if (!batch_make(&b, mma, (size_t)code_planes(&mma->operand[PROBE_C]), 1))
        return no_memory(line);
    put_codes(&b, mma, PROBE_C);
    probe_verdict verdict = run(&b, execute, context, line);
    if (verdict == PROBE_PROVEN)
        verdict = judge_through(&b, mma, line);
    batch_free(&b);
    return verdict;
}

/* ---- random matrices ------------------------------------------------------------------------------- */
enum { TRIALS = 4, EXTREMES = 2 }; /* plain matrices; at the upper and the lower end of s32 */

/* Matrices of one group and plane; D is computed in them. */
typedef struct matrices {
    int64_t a[MOST_M * MOST_K], b[MOST_N * MOST_K], c[MOST_M * MOST_N];
    double  factor[2][MOST_M * 4]; /* of A, B: [row][chunk along K] */
} matrices;

static int64_t *of_operand(matrices *x, int operand)
{
    return operand == PROBE_A ? x->a : operand == PROBE_B ? x->b : x->c;
}

/* Near an end of s32 all products have one sign: whether sums exceed it does not depend on their order. */
static int64_t draw(random_state *random, const probe_mma *mma, int operand, size_t plane)
{
    int64_t x = probe_random(random, mma->operand[operand].type);
    if (plane < TRIALS)
        return x;
    if (operand == PROBE_C)
        return plane == TRIALS ? INT32_MAX - (int64_t)random_below(random, 40)
                               : INT32_MIN + (int64_t)random_below(random, 40);
    x = x < 0 ? -(x + 1) : x;
    return operand == PROBE_A && plane > TRIALS && mma->operand[PROBE_A].type != PTXPACK_VALUE_U8 &&
                   mma->operand[PROBE_A].type != PTXPACK_VALUE_U4
               ? -x
               : x;
}

static void put_factors(const probe_batch *b, const probe_mma *mma, int operand, size_t plane,
                        random_state *random, matrices *x)
{
    uint32_t *word = plane_of(b, operand, plane) + (b->words[operand] - 1) * PROBE_LANES, of_row[MOST_M] = {0};
    for (int row = 0; row < mma->operand[operand].rows; row++)
        for (int chunk = 0; chunk < mma->factors; chunk++) {
            uint32_t byte;
            x->factor[operand][row * 4 + chunk] = probe_random_factor(random, mma->scale, &byte);
            of_row[row] |= byte << 8 * chunk;
        }
    for (int lane = 0; lane < PROBE_LANES; lane++)
        word[lane] = of_row[mma->scaled[operand][lane]];
}

static void put_random(const probe_batch *b, const probe_mma *mma, int group, size_t plane,
                       random_state *random, matrices *x)
{
    for (int i = 0; i < PROBE_OPERANDS; i++) {
        const probe_operand *o = &mma->operand[i];
        int64_t             *matrix = of_operand(x, i);
        for (int e = 0; e < o->rows * o->columns; e++)
            matrix[e] = draw(random, mma, i, plane);
        for (int t = 0; t < mma->threads; t++)
            for (int v = 0; v < o->values; v++)
                probe_operand_put(o, plane_of(b, i, plane), PROBE_LANES, mma->lane[group][t], v,
                                  probe_encode(o->type, matrix[o->at[t][v]]));
    }
    for (int i = PROBE_A; i <= PROBE_B && mma->factors; i++)
        put_factors(b, mma, i, plane, random, x);
}

static double expected_sum(const probe_mma *mma, const matrices *x, int m, int n)
{
    double scaled = (double)x->c[m + mma->m * n];
    for (int k = 0; k < mma->k && mma->factors; k++) {
        int chunk = k * mma->factors / mma->k;
        scaled += (double)(x->a[m + mma->m * k] * x->b[n + mma->n * k]) * x->factor[PROBE_A][m * 4 + chunk] *
                  x->factor[PROBE_B][n * 4 + chunk];
    }
    if (mma->factors)
        return scaled;
    int64_t sum = x->c[m + mma->m * n];
    for (int k = 0; k < mma->k; k++) {
        int64_t a = x->a[m + mma->m * k], b = x->b[n + mma->n * k];
        sum += mma->op == PROBE_XOR ? a ^ b : a * b;
    }
    if (mma->operand[PROBE_C].type != PTXPACK_VALUE_S32)
        return (double)sum;
    if (mma->saturate)
        return (double)(sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum);
    return (double)(int32_t)(uint32_t)sum;
}

static probe_verdict judge_random(const probe_batch *b, const probe_mma *mma, int group, size_t plane,
                                  const matrices *x, char *line)
{
    const probe_operand *c = &mma->operand[PROBE_C];
    for (int t = 0; t < mma->threads; t++)
        for (int v = 0; v < c->values; v++) {
            int    m = c->at[t][v] % c->rows, n = c->at[t][v] / c->rows;
            double got = answer(mma, answer_of(b, plane, 0), mma->lane[group][t], v);
            double wanted = expected_sum(mma, x, m, n);
            if (got == wanted)
                continue;
            snprintf(line, PROBE_LINE, "%s: D thread %d value %d, (%d,%d) in the table, is %.17g, not %.17g",
                     plane < TRIALS ? "random matrices" : "sums at the end of s32", t, v, m, n, got, wanted);
            return PROBE_DIFFERS;
        }
    return PROBE_PROVEN;
}

static probe_verdict prove_random(const probe_mma *mma, probe_executor execute, void *context, uint64_t seed,
                                  char *line)
{
    bool          extremes = mma->operand[PROBE_C].type == PTXPACK_VALUE_S32 && mma->op == PROBE_PRODUCT;
    size_t        planes = TRIALS + (extremes ? EXTREMES : 0), groups = (size_t)mma->groups;
    random_state  random = random_start(seed);
    matrices     *x = (matrices *)calloc(planes * groups, sizeof *x);
    probe_batch   b;
    probe_verdict verdict = PROBE_PROVEN;
    if (x == NULL || !batch_make(&b, mma, planes, 1)) {
        free(x);
        return no_memory(line);
    }
    for (size_t i = 0; i < planes * groups; i++)
        put_random(&b, mma, (int)(i % groups), i / groups, &random, &x[i]);
    verdict = run(&b, execute, context, line);
    for (size_t i = 0; i < planes * groups && verdict == PROBE_PROVEN; i++)
        verdict = judge_random(&b, mma, (int)(i % groups), i / groups, &x[i], line);
    free(x);
    batch_free(&b);
    return verdict;
}

probe_verdict probe_mma_prove(const probe_mma *mma, probe_executor execute, void *context, uint64_t seed,
                              char *line)
{
    probe_verdict verdict = prove_hot(mma, PROBE_A, execute, context, line);
    if (verdict == PROBE_PROVEN)
        verdict = prove_hot(mma, PROBE_B, execute, context, line);
    if (verdict == PROBE_PROVEN)
        verdict = prove_through(mma, execute, context, line);
    if (verdict == PROBE_PROVEN)
        verdict = prove_random(mma, execute, context, seed, line);
    return verdict;
}
