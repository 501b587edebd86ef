/* gemm_problem.c - makes a GEMM from options, with random input or the input of .npy files, and verifies it. */
#include "gemm_problem.h"

#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/command.h"
#include "npy.h"
#include "random.h"
#include "verify.h"

/* Prints one line on stderr; the result is false. */
#define REFUSE(...) (command_fail(s->subcommand, __VA_ARGS__), false)

enum { ALIGNMENT = 16 /* bytes, multiples of which strides are */ };

/* ---- words ---------------------------------------------------------------------------------------- */
static const char *const activations[] = {"none", "relu", "gelu", "silu", "swiglu"};
enum { ACTIVATIONS = sizeof activations / sizeof activations[0] };

const char *gemm_order_name(ptxpack_order order) { return order == PTXPACK_ROW_MAJOR ? "row" : "column"; }

const char *gemm_activation_name(ptxpack_activation activation)
{
    return (size_t)activation < ACTIVATIONS ? activations[activation] : "?";
}

static const char *const scale_names[] = {"tensor", "lines", "blocks"};
enum { SCALE_NAMES = sizeof scale_names / sizeof scale_names[0] };

const char *gemm_scales_name(ptxpack_gemm_scales scales)
{
    return (size_t)scales < SCALE_NAMES ? scale_names[scales] : "?";
}

bool gemm_scales_of(const char *word, ptxpack_gemm_scales *scales)
{
    for (size_t i = 0; i < SCALE_NAMES; i++)
        if (strcmp(word, scale_names[i]) == 0)
            return *scales = (ptxpack_gemm_scales)i, true;
    return false;
}

static bool parse_order(const gemm_settings *s, const char *name, const char *word, ptxpack_order *order)
{
    *order = strcmp(word, "column") == 0 ? PTXPACK_COLUMN_MAJOR : PTXPACK_ROW_MAJOR;
    return strcmp(word, gemm_order_name(*order)) == 0 ||
           REFUSE("--%s: \"%s\" is neither row nor column", name, word);
}

static bool parse_activation(const gemm_settings *s, const char *word, ptxpack_activation *activation)
{
    for (size_t i = 0; i < ACTIVATIONS; i++)
        if (strcmp(word, activations[i]) == 0)
            return *activation = (ptxpack_activation)i, true;
    return REFUSE("--activation: \"%s\" is not none, relu, gelu, silu or swiglu", word);
}

static bool in_float(const gemm_settings *s, const char *name, double value)
{
    return fabs(value) <= FLT_MAX || REFUSE("--%s: %g is beyond the range of float", name, value);
}

gemm_settings gemm_settings_of(const char *subcommand)
{
    return (gemm_settings){.subcommand = subcommand,
                           .m = OPTION_NOT_GIVEN,
                           .n = OPTION_NOT_GIVEN,
                           .k = OPTION_NOT_GIVEN,
                           .batch = OPTION_NOT_GIVEN,
                           .seed = OPTION_NOT_GIVEN,
                           .repeat = OPTION_NOT_GIVEN,
                           .order_a = "row",
                           .dtype = "bf16",
                           .activation = "none",
                           .alpha = 1,
                           .beta = (double)NAN,
                           .norm_eps = (double)NAN};
}

/* What is said of A and B; the kernels of e4m3 take a column-major B. */
static bool parse_operands(const gemm_settings *s, ptxpack_gemm_desc *d)
{
    d->dtype_ab = s->dtype_ab != NULL ? ptxpack_dtype_of(s->dtype_ab) : (ptxpack_dtype)0;
    if (s->dtype_ab != NULL && d->dtype_ab != PTXPACK_E4M3 && d->dtype_ab != d->dtype)
        return REFUSE("--dtype-ab: \"%s\" is neither e4m3 nor %s", s->dtype_ab, s->dtype);
    d->dtype_b = s->dtype_b != NULL ? ptxpack_dtype_of(s->dtype_b) : (ptxpack_dtype)0;
    if (s->dtype_b != NULL && d->dtype_b != PTXPACK_E4M3)
        return REFUSE("--dtype-b: \"%s\" is not e4m3", s->dtype_b);
    const bool fp8 = gemm_type(d, GEMM_B) == PTXPACK_E4M3;
    if (s->scales != NULL && !gemm_scales_of(s->scales, &d->scales))
        return REFUSE("--scales: \"%s\" is not tensor, lines or blocks", s->scales);
    const char *of_e4m3 = s->scales != NULL    ? "scales"
                          : s->scale_a != NULL ? "scale-a"
                          : s->scale_b != NULL ? "scale-b"
                                               : NULL;
    if (of_e4m3 != NULL && !fp8)
        return REFUSE("--%s: only --dtype-ab e4m3 and --dtype-b e4m3 have scales", of_e4m3);
    if (s->scale_a != NULL && gemm_b_alone(d))
        return REFUSE("--scale-a: A is %s, which has no scales", s->dtype);
    return parse_order(s, "order-a", s->order_a, &d->order_a) &&
           parse_order(s, "order-b",
                       s->order_b != NULL                                ? s->order_b
                       : fp8 || s->groups != NULL || !isnan(s->norm_eps) ? "column"
                                                                         : "row",
                       &d->order_b);
}

/* The starts of groups: each number is the rows of one. */
static bool parse_groups(const gemm_settings *s, gemm_problem *p)
{
    int64_t rows = 0;
    char   *end;
    if (s->groups == NULL)
        return true;
    if (s->a != NULL || s->b != NULL || (s->bias != NULL && *s->bias != '\0'))
        return REFUSE("--groups: input is random, not from files");
    p->group_starts = (int32_t *)calloc(strlen(s->groups) / 2 + 2, sizeof *p->group_starts);
    if (p->group_starts == NULL)
        return REFUSE("no memory for the groups");
    for (const char *at = s->groups;; at = end + 1) {
        const bool digit = isdigit((unsigned char)*at) != 0; /* strtoll would take a blank or a sign */
        long long  size = digit ? strtoll(at, &end, 10) : 0;
        if (!digit || size > INT32_MAX - rows || (*end != ',' && *end != '\0'))
            return REFUSE("--groups: \"%s\" is no list of whole numbers, up to %d together, such as 3,700,0",
                          s->groups, INT32_MAX);
        rows += size;
        p->group_starts[++p->desc.groups] = (int32_t)rows;
        if (*end == '\0')
            return true;
    }
}

/* Rows of A that mean something. */
static int32_t rows_of(const gemm_problem *p)
{
    return p->desc.groups > 0 ? p->group_starts[p->desc.groups] : p->desc.m;
}

static bool parse_words(const gemm_settings *s, gemm_problem *p)
{
    ptxpack_gemm_desc *d = &p->desc;
    d->dtype = ptxpack_dtype_of(s->dtype);
    if (d->dtype != PTXPACK_F16 && d->dtype != PTXPACK_BF16)
        return REFUSE("--dtype: \"%s\" is neither f16 nor bf16", s->dtype);
    if (!parse_operands(s, d) || !parse_activation(s, s->activation, &d->activation) || !parse_groups(s, p))
        return false;
    if (s->repeat != OPTION_NOT_GIVEN && (s->repeat < 1 || s->repeat > 1000000))
        return REFUSE("--repeat: %lld is not between 1 and 1000000", (long long)s->repeat);
    if (s->seed < 0 && s->seed != OPTION_NOT_GIVEN)
        return REFUSE("--seed: %lld is negative", (long long)s->seed);
    if (!in_float(s, "alpha", s->alpha) || (!isnan(s->beta) && !in_float(s, "beta", s->beta)))
        return false;
    d->launch = s->constant_b ? PTXPACK_LAUNCH_OVERLAP | PTXPACK_LAUNCH_CONSTANT_B : 0;
    d->norm_a = !isnan(s->norm_eps);
    d->norm_eps = d->norm_a ? (float)s->norm_eps : 0;
    d->has_c = s->c != NULL || !isnan(s->beta);
    d->has_bias = s->bias != NULL;
    p->alpha = (float)s->alpha;
    p->beta = isnan(s->beta) ? 1 : (float)s->beta;
    p->seed = s->seed != OPTION_NOT_GIVEN ? (uint64_t)s->seed : random_seed();
    return true;
}

/* ---- sizes ---------------------------------------------------------------------------------------- */
static int64_t rounded_up(int64_t x, ptxpack_dtype type)
{
    const int64_t unit = ALIGNMENT / (int64_t)ptxpack_dtype_bytes(type);
    return (x + unit - 1) / unit * unit;
}

/* Lines lie one after another, each padded to a multiple of 16 bytes. */
static bool settle(const gemm_settings *s, gemm_problem *p)
{
    ptxpack_gemm_desc *d = &p->desc;
    char               line[PLAN_LINE];
    d->size = sizeof *d;
    d->stride_a = rounded_up(d->order_a == PTXPACK_COLUMN_MAJOR ? d->m : d->k, gemm_type(d, GEMM_A));
    d->stride_b = rounded_up(d->order_b == PTXPACK_COLUMN_MAJOR ? d->k : d->n, gemm_type(d, GEMM_B));
    d->stride_c = d->stride_d = rounded_up(gemm_columns(d), d->dtype);
    d->batch_a = d->stride_a * (d->order_a == PTXPACK_COLUMN_MAJOR ? d->k : d->m);
    d->batch_b = d->stride_b * (d->order_b == PTXPACK_COLUMN_MAJOR ? d->n : d->k);
    d->batch_c = d->batch_d = d->stride_d * d->m;
    return ptxpack_gemm_resolve(d, &p->geometry, line) == PTXPACK_OK || REFUSE("%s", line);
}

static bool to_extent(const gemm_settings *s, const char *name, int64_t value, int64_t otherwise, int32_t *out)
{
    if (value == OPTION_NOT_GIVEN)
        value = otherwise;
    if (value < 1 || value > INT32_MAX)
        return REFUSE("--%s: %lld is not between 1 and %d", name, (long long)value, INT32_MAX);
    *out = (int32_t)value;
    return true;
}

static bool take_sizes(const gemm_settings *s, gemm_problem *p)
{
    const int64_t rows = p->desc.groups > 0 ? rows_of(p) : 0;
    if (s->m != OPTION_NOT_GIVEN && s->m < rows)
        return REFUSE("--m: %lld is less than the %lld rows of the groups", (long long)s->m, (long long)rows);
    return to_extent(s, "m", s->m,
                     p->desc.groups == 0 ? 1024
                     : rows > 0          ? rows
                                         : 1,
                     &p->desc.m) &&
           to_extent(s, "n", s->n, 1024, &p->desc.n) && to_extent(s, "k", s->k, 1024, &p->desc.k) &&
           to_extent(s, "batch", s->batch, 1, &p->desc.batch);
}

/* ---- matrices ------------------------------------------------------------------------------------- */
static uint8_t *line_of(const gemm_problem *p, int matrix, int64_t batch, int64_t line)
{
    const gemm_matrix *x = &p->geometry.matrix[matrix];
    return p->matrix[matrix] + (batch * x->batch + line * x->stride) * x->element;
}

static ptxpack_dtype type_of(const gemm_problem *p, int matrix) { return gemm_type(&p->desc, matrix); }

static bool make_room(const gemm_settings *s, gemm_problem *p)
{
    for (int i = 0; i < GEMM_MATRICES; i++) {
        if (i == GEMM_C && !p->desc.has_c)
            continue;
        p->matrix[i] = (uint8_t *)calloc(1, p->geometry.matrix[i].bytes + 1);
        if (p->matrix[i] == NULL)
            return REFUSE("no memory for %llu bytes of %s", (unsigned long long)p->geometry.matrix[i].bytes,
                          gemm_matrix_names[i]);
    }
    for (int i = 0; i <= GEMM_B; i++) {
        if (p->geometry.scale[i].bytes == 0)
            continue;
        p->scale[i] = (float *)malloc(p->geometry.scale[i].bytes);
        if (p->scale[i] == NULL)
            return REFUSE("no memory for the scales of %s", gemm_matrix_names[i]);
    }
    p->bias = p->desc.has_bias ? (uint16_t *)calloc(1, (size_t)p->geometry.bias_bytes) : NULL;
    p->norm_w = p->desc.norm_a ? (uint16_t *)calloc(1, (size_t)p->geometry.norm_bytes) : NULL;
    return ((p->bias != NULL || !p->desc.has_bias) && (p->norm_w != NULL || !p->desc.norm_a)) ||
           REFUSE("no memory for the bias or the weights of the norm");
}

static void fill_random(gemm_problem *p, int matrix, random_state *random)
{
    const gemm_matrix *x = &p->geometry.matrix[matrix];
    for (int32_t batch = 0; batch < gemm_matrices(&p->geometry, matrix); batch++)
        for (int64_t line = 0; line < x->lines; line++)
            random_normal(random, type_of(p, matrix), line_of(p, matrix, batch, line), (size_t)x->length);
}

/* ---- files ---------------------------------------------------------------------------------------- */
/* Whether a number is finite, but not in the type. */
static bool beyond_range(ptxpack_dtype type, float value)
{
    return isfinite(value) &&
           (type == PTXPACK_E4M3 ? fabsf(value) >= 464 /* half a step above the largest */
                                 : !isfinite(ptxpack_to_float(type, ptxpack_from_float(type, value))));
}

/* Converts the elements of a file to the type: float32 is rounded, and finite elements must stay finite. */
static bool convert(const gemm_settings *s, const char *path, ptxpack_dtype dtype, npy_array *array)
{
    const float *from = (const float *)array->data;
    if (array->type == NPY_U16 && dtype != PTXPACK_BF16)
        return REFUSE("%s: uint16 is read as bfloat16; give --dtype bf16", path);
    if (array->type == NPY_F16 && dtype != PTXPACK_F16)
        return REFUSE("%s: its type is float16, but --dtype is %s", path, ptxpack_dtype_name(dtype));
    if (array->type == NPY_U8 && dtype != PTXPACK_E4M3)
        return REFUSE("%s: uint8 is read as e4m3; give --dtype-ab e4m3, or for B --dtype-b e4m3", path);
    if (array->type == NPY_U16 || array->type == NPY_F16 || array->type == NPY_U8)
        return true;
    if (array->type != NPY_F32)
        return REFUSE("%s: its type %s is not float16, float32, uint16 or uint8", path,
                      npy_type_name(array->type));
    for (size_t i = 0; i < array->count; i++) { /* in place: each result lies before the next input */
        float value;
        memcpy(&value, &from[i], sizeof value);
        if (beyond_range(dtype, value))
            return REFUSE("%s: element %zu, %g, is beyond the range of %s", path, i, value,
                          ptxpack_dtype_name(dtype));
        ptxpack_set_element(dtype, array->data, i, value);
    }
    return true;
}

static bool fits_verify(const gemm_settings *s, const char *path, ptxpack_dtype dtype, const npy_array *array)
{
    for (size_t i = 0; i < array->count && s->verify; i++)
        if (!isfinite(ptxpack_element(dtype, array->data, i)))
            return REFUSE("--verify: element %zu of %s is not finite", i, path);
    return true;
}

/* Reads a matrix as the file has it: [lines, length], or [batch, lines, length]. */
static bool read_matrix(const gemm_settings *s, const char *path, ptxpack_dtype dtype, npy_array *array)
{
    char line[NPY_LINE];
    if (!npy_read(path, array, line))
        return REFUSE("%s", line);
    if (array->rank != 2 && array->rank != 3)
        return REFUSE("%s has %d dimension%s; it must have 2, or 3 with a batch", path, array->rank,
                      array->rank == 1 ? "" : "s");
    for (int i = 0; i < array->rank; i++)
        if (array->shape[i] < 1 || array->shape[i] > INT32_MAX)
            return REFUSE("%s: %lld is not a valid extent of dimension %d", path, (long long)array->shape[i],
                          i);
    return convert(s, path, dtype, array) && fits_verify(s, path, dtype, array);
}

static int32_t extent(const npy_array *array, int from_last)
{
    return from_last < array->rank ? (int32_t)array->shape[array->rank - 1 - from_last] : 1;
}

/* Takes the sizes from A and B; with column-major order a file holds the transpose. */
static bool match_shapes(const gemm_settings *s, gemm_problem *p, const npy_array *a, const npy_array *b)
{
    ptxpack_gemm_desc *d = &p->desc;
    int     a_column = d->order_a == PTXPACK_COLUMN_MAJOR, b_column = d->order_b == PTXPACK_COLUMN_MAJOR;
    int32_t k_of_b = extent(b, !b_column);
    d->m = extent(a, !a_column);
    d->k = extent(a, a_column);
    d->n = extent(b, b_column);
    d->batch = extent(a, 2);
    if (k_of_b != d->k)
        return REFUSE("%s and %s differ in k: %d and %d", s->a, s->b, (int)d->k, (int)k_of_b);
    if (extent(b, 2) != d->batch)
        return REFUSE("%s and %s differ in batch: %d and %d", s->a, s->b, (int)d->batch, (int)extent(b, 2));
    return true;
}

static bool take_lines(const gemm_settings *s, gemm_problem *p, int matrix, const char *path,
                       const npy_array *array)
{
    const gemm_matrix *x = &p->geometry.matrix[matrix];
    const uint8_t     *from = (const uint8_t *)array->data;
    const size_t       bytes = (size_t)(x->length * x->element);
    if (extent(array, 0) != x->length || extent(array, 1) != x->lines || extent(array, 2) != p->geometry.batch)
        return REFUSE("%s: its shape differs from that of %s, %d x %lld x %lld", path,
                      gemm_matrix_names[matrix], (int)p->geometry.batch, (long long)x->lines,
                      (long long)x->length);
    for (int32_t batch = 0; batch < p->geometry.batch; batch++)
        for (int64_t line = 0; line < x->lines; line++, from += bytes)
            memcpy(line_of(p, matrix, batch, line), from, bytes);
    return true;
}

static bool read_bias(const gemm_settings *s, gemm_problem *p)
{
    npy_array array = {.data = NULL};
    char      line[NPY_LINE];
    bool      ok = npy_read(s->bias, &array, line) || REFUSE("%s", line);
    ok = ok &&
         ((array.rank == 1 && array.shape[0] == p->desc.n) ||
          REFUSE("%s: it must have 1 dimension of extent %d", s->bias, (int)p->desc.n)) &&
         convert(s, s->bias, p->desc.dtype, &array) && fits_verify(s, s->bias, p->desc.dtype, &array);
    if (ok)
        memcpy(p->bias, array.data, array.count * sizeof *p->bias);
    npy_free(&array);
    return ok;
}

/* Floats of any shape. */
static bool read_scales(const gemm_settings *s, gemm_problem *p, int matrix, const char *path)
{
    npy_array    array = {.data = NULL};
    char         line[NPY_LINE];
    const size_t count = p->geometry.scale[matrix].bytes / sizeof(float);
    bool         ok = npy_read(path, &array, line) || REFUSE("%s", line);
    ok = ok && ((array.type == NPY_F32 && array.count == count) ||
                REFUSE("%s: it must hold float32, one for each scale: %zu", path, count));
    if (ok)
        memcpy(p->scale[matrix], array.data, count * sizeof(float));
    npy_free(&array);
    return ok;
}

static bool make_scales(const gemm_settings *s, gemm_problem *p, random_state *random)
{
    const char *const paths[] = {s->scale_a, s->scale_b};
    for (int i = 0; i <= GEMM_B; i++) {
        if (p->scale[i] == NULL)
            continue;
        if (paths[i] == NULL)
            random_scales(random, p->scale[i], p->geometry.scale[i].bytes / sizeof(float));
        else if (!read_scales(s, p, i, paths[i]))
            return false;
    }
    return true;
}

static bool read_c(const gemm_settings *s, gemm_problem *p)
{
    npy_array array = {.data = NULL};
    bool      ok = read_matrix(s, s->c, p->desc.dtype, &array) && take_lines(s, p, GEMM_C, s->c, &array);
    npy_free(&array);
    return ok;
}

static bool read_operands(const gemm_settings *s, gemm_problem *p)
{
    npy_array a = {.data = NULL}, b = {.data = NULL};
    bool ok = read_matrix(s, s->a, type_of(p, GEMM_A), &a) && read_matrix(s, s->b, type_of(p, GEMM_B), &b) &&
              match_shapes(s, p, &a, &b) && settle(s, p) && make_room(s, p) &&
              take_lines(s, p, GEMM_A, s->a, &a) && take_lines(s, p, GEMM_B, s->b, &b);
    npy_free(&a);
    npy_free(&b);
    return ok;
}

int gemm_problem_write(const gemm_settings *s, const gemm_problem *p)
{
    char               line[NPY_LINE];
    const gemm_matrix *x = &p->geometry.matrix[GEMM_D];
    npy_array          d = {.type = p->desc.dtype == PTXPACK_F16 ? NPY_F16 : NPY_U16,
                            .rank = 3,
                            .shape = {p->geometry.batch, x->lines, x->length}};
    if (s->d == NULL)
        return COMMAND_OK;
    if (p->geometry.batch == 1) {
        d.rank = 2;
        d.shape[0] = x->lines;
        d.shape[1] = x->length;
    }
    d.count = (size_t)p->geometry.batch * (size_t)x->lines * (size_t)x->length;
    uint16_t *to = (uint16_t *)malloc(d.count * sizeof *to);
    if (to == NULL)
        return command_fail(s->subcommand, "no memory for %zu elements", d.count);
    d.data = to;
    for (int32_t batch = 0; batch < p->geometry.batch; batch++)
        for (int64_t row = 0; row < x->lines; row++, to += x->length)
            memcpy(to, line_of(p, GEMM_D, batch, row), (size_t)x->length * sizeof *to);
    bool ok = npy_write(s->d, &d, line);
    free(d.data);
    return ok ? COMMAND_OK : command_fail(s->subcommand, "%s", line);
}

double gemm_problem_flops(const gemm_problem *p)
{
    return 2.0 * p->geometry.batch * rows_of(p) * p->desc.n * p->desc.k;
}

double gemm_problem_bytes(const gemm_problem *p)
{
    double bytes = (double)(p->geometry.bias_bytes + p->geometry.norm_bytes);
    for (int i = 0; i < GEMM_MATRICES; i++) {
        const gemm_matrix *x = &p->geometry.matrix[i];
        bytes += (double)x->element * (double)x->lines * (double)x->length *
                 (x->batch > 0 ? gemm_matrices(&p->geometry, i) : 1);
    }
    for (int i = 0; i <= GEMM_B; i++)
        bytes += (double)p->geometry.scale[i].bytes;
    return bytes;
}

/* ---- the whole problem ---------------------------------------------------------------------------- */
static bool fill_rest(const gemm_settings *s, gemm_problem *p, bool files)
{
    random_state random = random_start(p->seed);
    for (int i = GEMM_A; i <= GEMM_B && !files; i++)
        fill_random(p, i, &random);
    if (!make_scales(s, p, &random))
        return false;
    if (p->norm_w != NULL)
        random_normal(&random, p->desc.dtype, p->norm_w, (size_t)p->geometry.norm_bytes / sizeof *p->norm_w);
    if (p->desc.has_c && (s->c == NULL || *s->c == '\0'))
        fill_random(p, GEMM_C, &random);
    else if (p->desc.has_c && !read_c(s, p))
        return false;
    if (p->desc.has_bias && *s->bias == '\0')
        random_normal(&random, p->desc.dtype, p->bias, (size_t)p->geometry.bias_bytes / sizeof *p->bias);
    return !p->desc.has_bias || *s->bias == '\0' || read_bias(s, p);
}

int gemm_problem_describe(const gemm_settings *s, gemm_problem *p)
{
    return parse_words(s, p) && take_sizes(s, p) && settle(s, p) ? COMMAND_OK : COMMAND_USAGE;
}

int gemm_problem_make(const gemm_settings *s, gemm_problem *p)
{
    bool files = s->a != NULL && s->b != NULL;
    bool sized = s->m != OPTION_NOT_GIVEN || s->n != OPTION_NOT_GIVEN || s->k != OPTION_NOT_GIVEN ||
                 s->batch != OPTION_NOT_GIVEN;
    if (!parse_words(s, p))
        return COMMAND_USAGE;
    if ((s->a != NULL) != (s->b != NULL) || (files && sized)) {
        command_fail(s->subcommand, files ? "give either files or sizes: sizes are read from the files"
                                          : "give --a and --b together");
        return COMMAND_USAGE;
    }
    if (files)
        return read_operands(s, p) && fill_rest(s, p, true) ? COMMAND_OK : COMMAND_FAILED;
    if (!take_sizes(s, p) || !settle(s, p))
        return COMMAND_USAGE;
    return make_room(s, p) && fill_rest(s, p, false) ? COMMAND_OK : COMMAND_FAILED;
}

void gemm_problem_free(gemm_problem *p)
{
    for (int i = 0; i < GEMM_MATRICES; i++)
        free(p->matrix[i]);
    free(p->scale[GEMM_A]);
    free(p->scale[GEMM_B]);
    free(p->bias);
    free(p->norm_w);
    free(p->group_starts);
}

/* ---- the verdict ---------------------------------------------------------------------------------- */
/* The number of rows that take about five seconds: a thread makes some 1.5e9 multiplications a second, 2 for
 * each element of B. */
static size_t affordable_rows(const ptxpack_gemm_desc *d)
{
    double cost = 2.0 * ((double)d->k + 16) * d->n;
    double rows = 5 * 1.5e9 * verify_threads() / cost;
    return rows < 64 ? 64 : rows > 1e9 ? 1000000000 : (size_t)rows;
}

/* Picks one row from each of `count` equal parts of all rows. */
static void pick_rows(const gemm_problem *p, gemm_row *rows, size_t count, size_t total)
{
    random_state random = random_start(~p->seed);
    for (size_t i = 0; i < count; i++) {
        size_t first = i * total / count, next = (i + 1) * total / count;
        size_t row = first + random_below(&random, next - first);
        rows[i] = (gemm_row){(int32_t)(row / (size_t)p->desc.m), (int32_t)(row % (size_t)p->desc.m)};
    }
}

static void compare_row(const gemm_problem *p, const gemm_row *row, const double *value, const double *error,
                        gemm_verdict *v)
{
    const uint16_t *d = (const uint16_t *)(void *)line_of(p, GEMM_D, row->batch, row->row);
    for (int32_t c = 0; c < gemm_columns(&p->desc); c++) {
        double got = ptxpack_to_float(p->desc.dtype, d[c]);
        if (!isinf(value[c]) || got != value[c])
            v->max_error = verify_worse(v->max_error, fabs(got - value[c]));
        v->max_allowed = fmax(v->max_allowed, error[c]);
        if (gemm_accepts(p->desc.dtype, d[c], value[c], error[c]))
            continue;
        if (v->wrong++ == 0) {
            v->first = *row;
            v->first_column = c;
        }
    }
}

ptxpack_status gemm_problem_verify(const gemm_problem *p, size_t most, gemm_verdict *v)
{
    size_t          total = (size_t)p->geometry.batch * (size_t)rows_of(p), n = (size_t)gemm_columns(&p->desc);
    size_t          limit = most > 0 ? most : affordable_rows(&p->desc), count = total < limit ? total : limit;
    gemm_row       *rows = (gemm_row *)calloc(count + 1, sizeof *rows); /* of empty groups there are none */
    double         *value = (double *)calloc(count + 1, 2 * n * sizeof *value);
    gemm_reference *reference = NULL;
    const gemm_inputs inputs = {.a = p->matrix[GEMM_A],
                                .b = p->matrix[GEMM_B],
                                .c = p->matrix[GEMM_C],
                                .bias = p->bias,
                                .norm_w = p->norm_w,
                                .alpha = p->alpha,
                                .beta = p->beta,
                                .scale_a = p->scale[GEMM_A],
                                .scale_b = p->scale[GEMM_B],
                                .group_starts = p->group_starts};
    ptxpack_status    status = rows == NULL || value == NULL
                                   ? ptxpack_fail(NULL, PTXPACK_E_MEMORY, "no memory to verify %zu rows", count)
                                   : gemm_reference_open(&p->desc, &inputs, &reference);
    *v = (gemm_verdict){.rows = count, .total = total};
    if (status == PTXPACK_OK) {
        pick_rows(p, rows, count, total);
        status = gemm_reference_rows(reference, rows, count, verify_threads(), value, value + count * n);
    }
    for (size_t i = 0; i < count && status == PTXPACK_OK; i++)
        compare_row(p, &rows[i], value + i * n, value + (count + i) * n, v);
    gemm_reference_close(reference);
    free(value);
    free(rows);
    return status;
}
