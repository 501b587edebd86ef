/* probe_wgmma.c - products of random matrices that wgmma must find in shared memory, through every canonical
 * layout and its descriptors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe.h"

enum { SWIZZLES = 4, TRIALS = SWIZZLES * SWIZZLES + 1 /* the last: integers at the end of their range */ };

/* An operand in memory, in one of the canonical layouts. */
typedef struct tile {
    int                   rows, columns; /* of the whole tile; an instruction takes `part` rows */
    int                   part;
    size_t                bytes;
    ptxpack_wgmma_operand operand;
    uint32_t             *at; /* [row + rows column]: element offset */
} tile;

typedef struct problem {
    const ptxpack_mma_atom *atom;
    ptxpack_wgmma_major     major[2];
    ptxpack_value_type      type[2];
    /* of A and B; those without `at` are not layouts of the operand */
    tile         tiles[2][SWIZZLES];
    int32_t     *a, *b; /* [row][k]: what this trial multiplies */
    int64_t     *c;     /* [m][n] */
    random_state random;
} problem;

static int rows_of(const ptxpack_mma_atom *atom, int operand)
{
    int n = operand == PROBE_A ? atom->m : atom->n;
    return n <= 128 ? 2 * n : n;
}

size_t probe_wgmma_bytes(const ptxpack_mma_atom *atom, int operand)
{
    int    bits = operand == PROBE_A ? atom->a_bits : atom->b_bits;
    size_t bytes = (size_t)rows_of(atom, operand) * (size_t)(atom->k * PROBE_STEPS * bits / 8);
    return (bytes + 1023) / 1024 * 1024;
}

/* ---- the tiles ------------------------------------------------------------------------------------- */
/* Whether whole parts of this canonical layout fill a tile: across K it is 16 << k bytes wide. */
static bool fits(const ptxpack_layout *canonical, int rows, int columns, int part)
{
    int64_t mn = ptxpack_mode_size(canonical, 0), k = ptxpack_mode_size(canonical, 1);
    return mn > 0 && k > 0 && part % mn == 0 && rows % mn == 0 && columns % k == 0;
}

static bool refused(tile *t, char *line)
{
    snprintf(line, PROBE_LINE, "%s", ptxpack_detail(NULL));
    free(t->at);
    t->at = NULL;
    return false;
}

/* Makes a tile.  Returns true also when there is no such layout: then `at` stays NULL. */
static bool make_tile(problem *p, int operand, ptxpack_wgmma_swizzle swizzle, tile *t, char *line)
{
    const ptxpack_mma_atom *atom = p->atom;
    int                     bits = operand == PROBE_A ? atom->a_bits : atom->b_bits;
    ptxpack_layout          canonical = ptxpack_wgmma_atom(p->major[operand], swizzle, bits);
    *t = (tile){.rows = rows_of(atom, operand), .columns = atom->k * PROBE_STEPS};
    t->part = operand == PROBE_A ? atom->m : atom->n;
    t->bytes = probe_wgmma_bytes(atom, operand);
    if (canonical.shape.status != PTXPACK_OK)
        return refused(t, line);
    if (!fits(&canonical, t->rows, t->columns, t->part))
        return true;
    const int64_t        extents[] = {t->rows, t->columns}, orders[] = {2, 1};
    const ptxpack_tuple  shape = ptxpack_tuple_of(2, extents), order = ptxpack_tuple_of(2, orders);
    const ptxpack_layout layout = ptxpack_tile_to_shape(&canonical, &shape, operand == PROBE_A ? NULL : &order);
    size_t               count = (size_t)t->rows * (size_t)t->columns;
    t->operand = ptxpack_wgmma_descriptor(&layout, p->major[operand], bits, t->part);
    if (t->operand.status != PTXPACK_OK)
        return refused(t, line);
    t->at = (uint32_t *)malloc(count * sizeof *t->at);
    for (size_t i = 0; i < count && t->at != NULL; i++) {
        int64_t at = ptxpack_at(&layout, (int64_t)i);
        if (at < 0 || (size_t)at * (size_t)bits / 8 >= t->bytes) {
            snprintf(line, PROBE_LINE, "the tile does not fit in its %zu bytes", t->bytes);
            return false;
        }
        t->at[i] = (uint32_t)at;
    }
    if (t->at == NULL)
        snprintf(line, PROBE_LINE, "no memory");
    return t->at != NULL;
}

static bool make_tiles(problem *p, char *line)
{
    for (int operand = PROBE_A; operand <= PROBE_B; operand++)
        for (int s = 0; s < SWIZZLES; s++)
            if ((operand == PROBE_B || p->atom->a_shared) &&
                !make_tile(p, operand, (ptxpack_wgmma_swizzle)s, &p->tiles[operand][s], line))
                return false;
    return true;
}

/* ---- a trial --------------------------------------------------------------------------------------- */
typedef struct trial {
    const tile *of[2];   /* the tiles; NULL for an A in registers */
    int         part[2]; /* which rows of them */
    bool        extreme;
} trial;

/* Numbers the trials: each swizzle of A with each of B, and with either part of the tiles. */
static trial trial_at(const problem *p, size_t index)
{
    int   s[2] = {(int)index / SWIZZLES % SWIZZLES, (int)index % SWIZZLES};
    trial t = {.extreme = index == TRIALS - 1};
    for (int operand = PROBE_A; operand <= PROBE_B; operand++) {
        const tile *x = &p->tiles[operand][s[operand]];
        if (x->at == NULL) /* use no swizzle in its place */
            x = &p->tiles[operand][PTXPACK_WGMMA_NONE];
        t.of[operand] = x->at != NULL ? x : NULL;
        t.part[operand] = (s[0] + s[1]) / (operand == PROBE_A ? 1 : 2) % 2;
        if (x->rows == x->part)
            t.part[operand] = 0;
    }
    return t;
}

/* At the end of s32 all products have one sign, so that the order of the sums does not matter. */
static int64_t draw(problem *p, ptxpack_value_type type, bool extreme, bool sum)
{
    if (extreme && sum)
        return INT32_MAX - (int64_t)random_below(&p->random, 40);
    int64_t x = probe_random(&p->random, type);
    return extreme && x < 0 ? -(x + 1) : x;
}

static void set_bits(uint8_t *image, size_t element, int bits, uint64_t value)
{
    for (int i = 0; i < bits / 8; i++)
        image[element * (size_t)(bits / 8) + (size_t)i] = (uint8_t)(value >> 8 * i);
}

/* Fills the whole tile with random numbers; keeps the part that is multiplied in `matrix` [row][k]. */
static void put_tile(problem *p, const tile *t, int operand, const trial *x, uint8_t *image, int32_t *matrix)
{
    ptxpack_value_type type = p->type[operand];
    for (int row = 0; row < t->rows; row++)
        for (int k = 0; k < t->columns; k++) {
            int64_t value = draw(p, type, x->extreme, false);
            int     inside = row - x->part[operand] * t->part;
            set_bits(image, t->at[row + t->rows * k], ptxpack_value_bits(type), probe_encode(type, value));
            if (inside >= 0 && inside < t->part)
                matrix[inside * t->columns + k] = (int32_t)value;
        }
}

/* Writes A of each step to registers, by the table. */
static void put_registers(problem *p, const trial *x, uint32_t *words)
{
    const ptxpack_mma_atom *atom = p->atom;
    int64_t                 threads = ptxpack_mode_size(&atom->a_layout, 0);
    for (int step = 0; step < PROBE_STEPS; step++, words += PROBE_A_REGISTERS * PROBE_WARP_GROUP)
        for (int64_t t = 0; t < threads; t++)
            for (int64_t v = 0; v < ptxpack_mode_size(&atom->a_layout, 1); v++) {
                int     at = (int)ptxpack_at(&atom->a_layout, t + threads * v);
                int64_t value = draw(p, atom->a, x->extreme, false);
                probe_put(words, PROBE_WARP_GROUP, (int)t, atom->a, (int)v, probe_encode(atom->a, value));
                p->a[at % atom->m * atom->k * PROBE_STEPS + step * atom->k + at / atom->m] = (int32_t)value;
            }
}

static uint64_t step_of(const tile *t, int part, int step)
{
    int64_t parts = ptxpack_mode_size(&t->operand.steps, 0);
    return t->operand.word + (uint64_t)ptxpack_at(&t->operand.steps, part + parts * step);
}

static void put_descriptors(const probe_wgmma_batch *b, const trial *x, uint64_t *words)
{
    for (int step = 0; step < PROBE_STEPS; step++) {
        words[2 * step] = x->of[PROBE_A] != NULL ? step_of(x->of[PROBE_A], x->part[PROBE_A], step) : 0;
        words[2 * step + 1] = step_of(x->of[PROBE_B], x->part[PROBE_B], step) + b->a_bytes / 16;
    }
}

static void put_c(problem *p, const trial *x, uint32_t *words)
{
    const ptxpack_mma_atom *atom = p->atom;
    int64_t                 threads = ptxpack_mode_size(&atom->c_layout, 0);
    for (int64_t t = 0; t < threads; t++)
        for (int64_t v = 0; v < ptxpack_mode_size(&atom->c_layout, 1); v++) {
            int     at = (int)ptxpack_at(&atom->c_layout, t + threads * v);
            int64_t value = draw(p, atom->c, x->extreme, true);
            p->c[at % atom->m * atom->n + at / atom->m] = value;
            probe_put(words, PROBE_WARP_GROUP, (int)t, atom->c, (int)v, probe_encode(atom->c, value));
        }
}

/* Computes c += a b, row by row. */
static void multiply(const problem *p)
{
    int n = p->atom->n, columns = p->atom->k * PROBE_STEPS;
    for (int m = 0; m < p->atom->m; m++)
        for (int i = 0; i < n; i++) {
            const int32_t *a = p->a + m * columns, *b = p->b + i * columns;
            int32_t        sum = 0; /* a sum of at most 256 products of bytes */
            for (int k = 0; k < columns; k++)
                sum += a[k] * b[k];
            p->c[m * n + i] += sum;
        }
}

static double held(const ptxpack_mma_atom *atom, int64_t sum)
{
    if (atom->c != PTXPACK_VALUE_S32)
        return (double)sum;
    if (strstr(atom->ptx, ".satfinite") != NULL)
        return (double)(sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum);
    return (double)(int32_t)(uint32_t)sum;
}

static probe_verdict judge(const problem *p, const trial *x, const uint32_t *d, char *line)
{
    const ptxpack_mma_atom *atom = p->atom;
    int64_t                 threads = ptxpack_mode_size(&atom->c_layout, 0);
    for (int64_t t = 0; t < threads; t++)
        for (int64_t v = 0; v < ptxpack_mode_size(&atom->c_layout, 1); v++) {
            int    at = (int)ptxpack_at(&atom->c_layout, t + threads * v), m = at % atom->m, n = at / atom->m;
            double wanted = held(atom, p->c[m * atom->n + n]);
            double got = probe_decode(atom->c, probe_get(d, PROBE_WARP_GROUP, (int)t, atom->c, (int)v));
            if (got == wanted)
                continue;
            const tile *a = x->of[PROBE_A], *b = x->of[PROBE_B];
            snprintf(line, PROBE_LINE,
                     "A %s part %d, B %s part %d: D thread %d value %d, (%d,%d) in the table, is %g, "
                     "not %g",
                     a != NULL ? ptxpack_wgmma_swizzle_name(a->operand.fields.swizzle) : "in registers",
                     x->part[PROBE_A], ptxpack_wgmma_swizzle_name(b->operand.fields.swizzle), x->part[PROBE_B],
                     (int)t, (int)v, m, n, got, wanted);
            return PROBE_DIFFERS;
        }
    return PROBE_PROVEN;
}

/* ---- all trials ------------------------------------------------------------------------------------ */
static size_t c_words(const probe_wgmma_batch *b) { return (size_t)b->c_words * PROBE_WARP_GROUP; }

static bool batch_make(probe_wgmma_batch *b, const ptxpack_mma_atom *atom)
{
    *b = (probe_wgmma_batch){.trials = TRIALS, .c_words = atom->registers_d};
    b->trials -= atom->c != PTXPACK_VALUE_S32;
    b->a_bytes = atom->a_shared ? probe_wgmma_bytes(atom, PROBE_A) : 0;
    b->b_bytes = probe_wgmma_bytes(atom, PROBE_B);
    b->a = (uint8_t *)calloc(b->trials, b->a_bytes + 1);
    b->b = (uint8_t *)calloc(b->trials, b->b_bytes);
    b->a_words = (uint32_t *)calloc(b->trials,
                                    PROBE_STEPS * PROBE_A_REGISTERS * PROBE_WARP_GROUP * sizeof *b->a_words);
    b->c = (uint32_t *)calloc(b->trials, c_words(b) * sizeof *b->c);
    b->d = (uint32_t *)calloc(b->trials, c_words(b) * sizeof *b->d);
    b->descriptors = (uint64_t *)calloc(b->trials, 2 * PROBE_STEPS * sizeof *b->descriptors);
    return b->a != NULL && b->b != NULL && b->a_words != NULL && b->c != NULL && b->d != NULL &&
           b->descriptors != NULL;
}

static void batch_free(probe_wgmma_batch *b)
{
    free(b->a);
    free(b->b);
    free(b->a_words);
    free(b->c);
    free(b->d);
    free(b->descriptors);
}

/* Fills in a trial; the problem then holds its right answer.  Two calls with the same seed give the same. */
static void put_trial(problem *p, const probe_wgmma_batch *b, size_t i, uint64_t seed, trial *x)
{
    *x = trial_at(p, i);
    p->random = random_start(seed + i);
    if (x->of[PROBE_A] != NULL)
        put_tile(p, x->of[PROBE_A], PROBE_A, x, b->a + i * b->a_bytes, p->a);
    else
        put_registers(p, x, b->a_words + i * PROBE_STEPS * PROBE_A_REGISTERS * PROBE_WARP_GROUP);
    put_tile(p, x->of[PROBE_B], PROBE_B, x, b->b + i * b->b_bytes, p->b);
    put_c(p, x, b->c + i * c_words(b));
    put_descriptors(b, x, b->descriptors + i * 2 * PROBE_STEPS);
}

static probe_verdict prove(problem *p, const probe_wgmma_batch *b, probe_wgmma_executor execute, void *context,
                           uint64_t seed, char *line)
{
    trial         x;
    probe_verdict verdict = PROBE_PROVEN;
    for (size_t i = 0; i < b->trials; i++)
        put_trial(p, b, i, seed, &x);
    if (!execute(context, b)) {
        snprintf(line, PROBE_LINE, "the instruction could not be executed");
        return PROBE_BROKEN;
    }
    for (size_t i = 0; i < b->trials && verdict == PROBE_PROVEN; i++) {
        put_trial(p, b, i, seed, &x);
        multiply(p);
        verdict = judge(p, &x, b->d + i * c_words(b), line);
    }
    return verdict;
}

probe_verdict probe_wgmma_prove(const ptxpack_mma_atom *atom, ptxpack_wgmma_major a_major,
                                ptxpack_wgmma_major b_major, probe_wgmma_executor execute, void *context,
                                uint64_t seed, char *line)
{
    problem           p = {.atom = atom, .major = {a_major, b_major}, .type = {atom->a, atom->b}};
    probe_wgmma_batch b;
    size_t            columns = (size_t)atom->k * PROBE_STEPS;
    probe_verdict     verdict = PROBE_BROKEN;
    p.a = (int32_t *)calloc((size_t)atom->m * columns, sizeof *p.a);
    p.b = (int32_t *)calloc((size_t)atom->n * columns, sizeof *p.b);
    p.c = (int64_t *)calloc((size_t)atom->m * (size_t)atom->n, sizeof *p.c);
    bool made = batch_make(&b, atom);
    if (p.a == NULL || p.b == NULL || p.c == NULL || !made)
        snprintf(line, PROBE_LINE, "no memory");
    else if (!make_tiles(&p, line))
        verdict = PROBE_DIFFERS;
    else
        verdict = prove(&p, &b, execute, context, seed, line);
    for (int i = 0; i < 2 * SWIZZLES; i++)
        free(p.tiles[i / SWIZZLES][i % SWIZZLES].at);
    free(p.a);
    free(p.b);
    free(p.c);
    batch_free(&b);
    return verdict;
}
