/* reference.c - rows of D on the CPU, in double precision, and how far f32 may be from them.
 *
 * B is kept as floats (exact) in panels of eight columns; the inner loop is four rows of A times a panel. */
#include "reference.h"

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "host/scalars.h"

enum { PANEL = 8, GROUP = 4, TASK_ROWS = 16, MAX_THREADS = 256 };

typedef double  panel_sum __attribute__((vector_size(PANEL * sizeof(double))));
typedef int64_t panel_bits __attribute__((vector_size(PANEL * sizeof(double))));
typedef float   panel_row __attribute__((vector_size(PANEL * sizeof(float))));

struct gemm_reference {
    ptxpack_gemm_desc desc;
    gemm_geometry     geometry;
    gemm_inputs       inputs;
    float            *b;      /* [matrix][n / 8][k][8] */
    size_t            panels; /* of a matrix: n / 8, rounded up */
};

/* ---- elements ------------------------------------------------------------------------------------- */
/* The place of element (row, column) of a matrix whose lines are columns, or rows. */
static size_t place_of(const gemm_matrix *x, bool columns, int64_t batch, int64_t row, int64_t column)
{
    return (size_t)(batch * x->batch + (columns ? column * x->stride + row : row * x->stride + column));
}

static void fill_panels(gemm_reference *r, int64_t matrix)
{
    const ptxpack_gemm_desc *d = &r->desc;
    size_t                   k = (size_t)d->k;
    float                   *to = r->b + (size_t)matrix * r->panels * k * PANEL;
    for (int64_t row = 0; row < d->k; row++)
        for (int64_t column = 0; column < d->n; column++) {
            size_t at = place_of(&r->geometry.matrix[GEMM_B], d->order_b == PTXPACK_COLUMN_MAJOR, matrix, row,
                                 column);
            to[((size_t)(column / PANEL) * k + (size_t)row) * PANEL + (size_t)(column % PANEL)] =
                ptxpack_element(gemm_type(d, GEMM_B), r->inputs.b, at);
        }
}

ptxpack_status gemm_reference_open(const ptxpack_gemm_desc *desc, const gemm_inputs *inputs,
                                   gemm_reference **out)
{
    gemm_geometry geometry;
    char          line[PLAN_LINE];
    *out = NULL;
    ptxpack_status status = ptxpack_gemm_resolve(desc, &geometry, line);
    if (status != PTXPACK_OK)
        return ptxpack_fail(NULL, status, "%s", line);
    gemm_reference *r = (gemm_reference *)calloc(1, sizeof *r);
    if (r == NULL)
        return ptxpack_fail(NULL, PTXPACK_E_MEMORY, "no memory for the reference");
    *r = (gemm_reference){.desc = *desc,
                          .geometry = geometry,
                          .inputs = *inputs,
                          .panels = ((size_t)desc->n + PANEL - 1) / PANEL};
    int32_t matrices = geometry.matrix[GEMM_B].batch == 0 ? 1 : gemm_matrices(&geometry, GEMM_B);
    r->b = (float *)calloc((size_t)matrices * r->panels, ((size_t)desc->k + 1) * PANEL * sizeof *r->b);
    if (r->b == NULL) {
        gemm_reference_close(r);
        return ptxpack_fail(NULL, PTXPACK_E_MEMORY, "no memory for B of the reference");
    }
    for (int32_t i = 0; i < matrices; i++)
        fill_panels(r, i);
    *out = r;
    return PTXPACK_OK;
}

void gemm_reference_close(gemm_reference *r)
{
    if (r == NULL)
        return;
    free(r->b);
    free(r);
}

/* Which B, and which bias, a row has. */
static int32_t b_of(const gemm_reference *r, const gemm_row *row)
{
    int32_t group = 0;
    if (r->geometry.groups == 0)
        return r->geometry.matrix[GEMM_B].batch == 0 ? 0 : row->batch;
    while (group + 1 < r->geometry.groups && r->inputs.group_starts[group + 1] <= row->row)
        group++;
    return group;
}

/* ---- scales ----------------------------------------------------------------------------------------- */
static int64_t matrix_of(const gemm_matrix *x, int32_t batch) { return x->batch == 0 ? 0 : batch; }

/* Of row `row` of A at block `block` of k. */
static double row_scale(const gemm_reference *r, int32_t batch, int64_t row, int64_t block)
{
    const gemm_scale *s = &r->geometry.scale[GEMM_A];
    const float      *scales = r->inputs.scale_a;
    if (s->bytes == 0 || scales == NULL)
        return 1;
    scales += matrix_of(&r->geometry.matrix[GEMM_A], batch) * s->batch;
    return (double)(s->optional ? scales[0] : scales[row * s->line + (s->line > 1 ? block : 0)]);
}

/* Of a column of a B, unless its scales are of blocks. */
static double column_scale(const gemm_reference *r, int32_t b, int64_t column)
{
    const gemm_scale *s = &r->geometry.scale[GEMM_B];
    const float      *scales = r->inputs.scale_b;
    if (s->bytes == 0 || scales == NULL || r->desc.scales == PTXPACK_SCALES_BLOCKS)
        return 1;
    return (double)scales[b * s->batch + (s->optional ? 0 : column)];
}

/* Of a block of a B. */
static double block_scale(const gemm_reference *r, int32_t b, int64_t column, int64_t block)
{
    const gemm_scale *s = &r->geometry.scale[GEMM_B];
    return (double)r->inputs.scale_b[b * s->batch + column / PTXPACK_SCALE_BLOCK * s->line + block];
}

/* ---- the epilogue ----------------------------------------------------------------------------------- */
typedef struct estimate {
    double value, error;
} estimate;

static estimate activate(ptxpack_activation activation, estimate x)
{
    double v = x.value;
    switch (activation) {
    case PTXPACK_ACTIVATION_NONE:
        break;
    case PTXPACK_ACTIVATION_RELU:
        x.value = v < 0 ? 0 : v;
        break; /* NaN stays */
    case PTXPACK_ACTIVATION_GELU:
        x.value = v / 2 * (1 + reference_tanh(0.79788456080286536 * (v + 0.044715 * v * v * v)));
        x.error = 1.13 * x.error + fabs(v) * 0x1p-11;
        break;
    case PTXPACK_ACTIVATION_SWIGLU: /* of a gate */
    case PTXPACK_ACTIVATION_SILU:   /* below -88 exp(-x) leaves f32 */
        x.value = v < 0 ? v * reference_exp(v) / (1 + reference_exp(v)) : v / (1 + reference_exp(-v));
        x.error = 1.1 * x.error + fabs(x.value) * (1 + fabs(v)) * 0x1p-20 + 0x1p-118;
        break;
    }
    return x;
}

/* `norm` is the factor of the row; `cut` is what tensor cores may have cut off. */
static estimate finish(const gemm_reference *r, const gemm_row *row, double norm, int64_t column, double sum,
                       double magnitude, double cut)
{
    const ptxpack_gemm_desc *d = &r->desc;
    double factor = r->inputs.alpha * norm * column_scale(r, b_of(r, row), column), product = factor * sum;
    double terms = fabs(factor) * magnitude, value = product, lost = ((double)d->k / 4 + 2) * 0x1p-23;
    double error = fabs(factor) * cut + terms * lost;
    if (d->norm_a)
        error += fabs(product) * (lost / 2 + 0x1p-22);
    if (d->has_c) {
        double c = r->inputs.beta * (double)ptxpack_element(d->dtype, r->inputs.c,
                                                            place_of(&r->geometry.matrix[GEMM_C], false,
                                                                     row->batch, row->row, column));
        value += c;
        terms += fabs(c);
    }
    if (d->has_bias) {
        size_t first = r->geometry.groups > 0 ? (size_t)b_of(r, row) * (size_t)d->n : 0;
        double bias = ptxpack_element(d->dtype, r->inputs.bias, first + (size_t)column);
        value += bias;
        terms += fabs(bias);
    }
    const bool up = d->activation == PTXPACK_ACTIVATION_SWIGLU && column / PANEL % 2 != 0;
    return activate(up ? PTXPACK_ACTIVATION_NONE : d->activation,
                    (estimate){value, error + terms * 0x1p-22 + 0x1p-145});
}

/* What a gate multiplies, by it. */
static estimate gated(estimate gate, estimate up)
{
    double value = gate.value * up.value;
    return (estimate){value, fabs(gate.value) * up.error + fabs(up.value) * gate.error + gate.error * up.error +
                                 fabs(value) * 0x1p-23 + 0x1p-145};
}

bool gemm_accepts(ptxpack_dtype type, uint16_t element, double value, double error)
{
    double got = ptxpack_to_float(type, element);
    if (isnan(value) || isnan(got))
        return isnan(value) && isnan(got);
    if (isinf(value))
        return got == value;
    return got >= ptxpack_to_float(type, reference_round(type, value - error)) &&
           got <= ptxpack_to_float(type, reference_round(type, value + error));
}

/* ---- rows ------------------------------------------------------------------------------------------- */
/* sum[r] = a[r][0..k) * b[0..k)[8] for GROUP rows of a, `stride` apart, and magnitude[r] the same of |a| and |b|. */
static void multiply(const double *a, size_t stride, const float *b, size_t k, panel_sum sum[GROUP],
                     panel_sum magnitude[GROUP])
{
    for (int r = 0; r < GROUP; r++)
        sum[r] = magnitude[r] = (panel_sum){0};
    for (size_t i = 0; i < k; i++) {
        panel_row row;
        memcpy(&row, b + i * PANEL, sizeof row);
        panel_sum wide = __builtin_convertvector(row, panel_sum);
        panel_sum positive = (panel_sum)((panel_bits)wide & INT64_MAX);
        for (int r = 0; r < GROUP; r++) {
            double x = a[(size_t)r * stride + i];
            sum[r] += wide * x;
            magnitude[r] += positive * fabs(x);
        }
    }
}

/* The same of e4m3, and cut[r]: what tensor cores may cut off. */
static void multiply_e4m3(const double *a, const float *b, size_t k, panel_sum sum[GROUP],
                          panel_sum magnitude[GROUP], panel_sum cut[GROUP])
{
    enum {
        STEP = 32,
        CUTS = STEP + 4 /* the sum before, and the one after, which is less than twice as large; a reserve */
    };
    panel_sum block[GROUP], now[GROUP], size[GROUP];
    for (int r = 0; r < GROUP; r++)
        sum[r] = magnitude[r] = cut[r] = block[r] = (panel_sum){0};
    for (size_t i = 0; i < k; i += STEP) {
        multiply(a + i, k, b + i * PANEL, k - i < STEP ? k - i : STEP, now, size);
        for (int r = 0; r < GROUP; r++) {
            block[r] = i % PTXPACK_SCALE_BLOCK == 0 ? (panel_sum){0} : block[r];
            for (int c = 0; c < PANEL; c++)
                cut[r][c] += CUTS * 0x1p-13 * fmax(fabs(block[r][c]), size[r][c]);
            block[r] += now[r];
            sum[r] += now[r];
            magnitude[r] += size[r];
        }
    }
}

typedef struct row_job {
    const gemm_reference *reference;
    const gemm_row       *rows;
    size_t                count;
    double               *value, *error;
    atomic_size_t         next; /* the first row that no thread has taken */
    atomic_bool           no_memory;
} row_job;

/* Of k elements of a row, which become A w, rounded: the factor that its sums are multiplied by. */
static double normalise(const gemm_reference *r, double *a)
{
    const ptxpack_dtype type = r->desc.dtype;
    double              squares = 0;
    for (int32_t j = 0; j < r->desc.k; j++) {
        squares += a[j] * a[j];
        a[j] *= (double)ptxpack_element(type, r->inputs.norm_w, (size_t)j);
        a[j] = (double)ptxpack_to_float(type, reference_round(type, a[j]));
    }
    return squares > FLT_MAX ? 0 : 1 / reference_root(squares / r->desc.k + (double)r->desc.norm_eps);
}

/* A of GROUP rows, with its scales, and the factors of a norm; a short group repeats its last row. */
static void take_rows(const gemm_reference *r, const gemm_row *rows, int count, double *a, double norm[GROUP])
{
    const size_t k = (size_t)r->desc.k;
    for (int i = 0; i < GROUP; i++) {
        for (size_t j = 0; j < k; j++) {
            const gemm_row *row = &rows[i < count ? i : count - 1];
            a[(size_t)i * k + j] = ptxpack_element(gemm_type(&r->desc, GEMM_A), r->inputs.a,
                                                   place_of(&r->geometry.matrix[GEMM_A],
                                                            r->desc.order_a == PTXPACK_COLUMN_MAJOR, row->batch,
                                                            row->row, (int64_t)j)) *
                                   row_scale(r, row->batch, row->row, (int64_t)j / PTXPACK_SCALE_BLOCK);
        }
        norm[i] = r->desc.norm_a ? normalise(r, a + (size_t)i * k) : 1;
    }
}

/* The same times the scales of B's blocks from `column` on. */
static const double *scale_rows(const gemm_reference *r, int32_t of_b, int64_t column, const double *a,
                                double *scaled)
{
    const size_t k = (size_t)r->desc.k;
    if (r->desc.scales != PTXPACK_SCALES_BLOCKS)
        return a;
    for (size_t j = 0; j < k && column % PTXPACK_SCALE_BLOCK == 0; j++) {
        const double scale = block_scale(r, of_b, column, (int64_t)j / PTXPACK_SCALE_BLOCK);
        for (size_t i = 0; i < GROUP; i++)
            scaled[i * k + j] = a[i * k + j] * scale;
    }
    return scaled;
}

/* Rows [first, first + count), at most GROUP, of one D and with one B; `a` has room for their A, and for it with scales. */
static void compute_group(const row_job *job, size_t first, int count, double *a)
{
    const gemm_reference *r = job->reference;
    const gemm_row       *rows = &job->rows[first];
    size_t                k = (size_t)r->desc.k, n = (size_t)r->desc.n;
    size_t                columns = (size_t)gemm_columns(&r->desc);
    bool                  swiglu = r->desc.activation == PTXPACK_ACTIVATION_SWIGLU;
    size_t                matrix = (size_t)b_of(r, rows);
    double                norm[GROUP];
    take_rows(r, rows, count, a, norm);
    for (size_t panel = 0; panel < r->panels; panel++) {
        panel_sum     sum[GROUP], magnitude[GROUP], cut[GROUP] = {{0}};
        const double *scaled = scale_rows(r, b_of(r, rows), (int64_t)(panel * PANEL), a, a + GROUP * k);
        const float  *b = r->b + (matrix * r->panels + panel) * k * PANEL;
        if (gemm_type(&r->desc, GEMM_A) == PTXPACK_E4M3) /* and B */
            multiply_e4m3(scaled, b, k, sum, magnitude, cut);
        else
            multiply(scaled, k, b, k, sum, magnitude);
        for (int i = 0; i < count; i++)
            for (size_t c = panel * PANEL; c < n && c < (panel + 1) * PANEL; c++) {
                estimate e = finish(r, &rows[i], norm[i], (int64_t)c, sum[i][c % PANEL],
                                    magnitude[i][c % PANEL], cut[i][c % PANEL]);
                size_t   at = (first + (size_t)i) * columns + (swiglu ? panel / 2 * PANEL + c % PANEL : c);
                if (swiglu && panel % 2 != 0) /* the gate is there already */
                    e = gated((estimate){job->value[at], job->error[at]}, e);
                job->value[at] = e.value;
                job->error[at] = e.error;
            }
    }
}

static void *run_rows(void *context)
{
    row_job              *job = (row_job *)context;
    const gemm_reference *r = job->reference;
    size_t                first;
    double               *a = (double *)calloc(2 * GROUP, ((size_t)r->desc.k + 1) * sizeof *a);
    if (a == NULL) {
        atomic_store(&job->no_memory, true);
        return NULL;
    }
    while ((first = atomic_fetch_add(&job->next, TASK_ROWS)) < job->count) {
        size_t end = job->count - first < TASK_ROWS ? job->count : first + TASK_ROWS;
        for (int count; first < end; first += (size_t)count) {
            for (count = 1; count < GROUP && first + (size_t)count < end; count++)
                if (job->rows[first + (size_t)count].batch != job->rows[first].batch ||
                    b_of(r, &job->rows[first + (size_t)count]) != b_of(r, &job->rows[first]))
                    break;
            compute_group(job, first, count, a);
        }
    }
    free(a);
    return NULL;
}

ptxpack_status gemm_reference_rows(const gemm_reference *reference, const gemm_row *rows, size_t count,
                                   int threads, double *value, double *error)
{
    row_job   job = {.reference = reference, .rows = rows, .count = count, .value = value, .error = error};
    pthread_t helpers[MAX_THREADS];
    int       started = 0;
    size_t    tasks = (count + TASK_ROWS - 1) / TASK_ROWS;
    while (started + 1 < threads && started < MAX_THREADS && (size_t)started + 1 < tasks &&
           pthread_create(&helpers[started], NULL, run_rows, &job) == 0)
        started++;
    run_rows(&job);
    for (int i = 0; i < started; i++)
        pthread_join(helpers[i], NULL);
    return atomic_load(&job.no_memory) ? ptxpack_fail(NULL, PTXPACK_E_MEMORY, "no memory for rows of A")
                                       : PTXPACK_OK;
}
