/* cmd_attention.c - ptxpack attention: run it on .npy files or random input, time it, verify it. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention_check.h"
#include "attention_reference.h"
#include "command.h"
#include "device.h"
#include "npy.h"
#include "ptxpack.h"
#include "random.h"
#include "verify.h"

/* What was asked for. */
typedef struct settings {
    const char *q, *k, *v, *o, *lse; /* file names */
    int64_t     batch, seqlen_q, seqlen_kv, heads_q, heads_kv, head_dim;
    const char *causal, *layout, *dtype, *cpu;
    double      scale;
    int64_t     seed, repeat;
    bool        verify, json;
} settings;

/* The problem, its tensors in host memory, and what came of it. */
typedef struct problem {
    ptxpack_attention_desc desc;
    bool                   bhsd;
    uint16_t              *tensor[TENSOR_COUNT];
    float                 *lse; /* [batch][heads_q][seqlen_q] */
    size_t                 elements[TENSOR_COUNT], lse_count;
    uint64_t               seed;
    double                 ms; /* of one launch, or of the reference */
} problem;

/* One line on stderr; false. */
#define REFUSE(...) (command_fail("attention", __VA_ARGS__), false)

/* ---- from options and files to a problem -------------------------------------------------------- */
static bool parse_words(const settings *s, problem *p)
{
    ptxpack_attention_desc *d = &p->desc;
    if (s->causal == NULL)
        d->mask = PTXPACK_MASK_NONE;
    else if (strcmp(s->causal, "top-left") == 0)
        d->mask = PTXPACK_MASK_CAUSAL_TOP_LEFT;
    else if (*s->causal == '\0' || strcmp(s->causal, "bottom-right") == 0)
        d->mask = PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT;
    else
        return REFUSE("--causal: \"%s\" is neither top-left nor bottom-right", s->causal);
    p->bhsd = strcmp(s->layout, "bhsd") == 0;
    if (!p->bhsd && strcmp(s->layout, "bshd") != 0)
        return REFUSE("--layout: \"%s\" is neither bshd nor bhsd", s->layout);
    d->dtype = strcmp(s->dtype, "bf16") == 0 ? PTXPACK_BF16 : PTXPACK_F16;
    if (d->dtype == PTXPACK_F16 && strcmp(s->dtype, "f16") != 0)
        return REFUSE("--dtype: \"%s\" is neither f16 nor bf16", s->dtype);
    if (s->cpu != NULL && *s->cpu != '\0' && strcmp(s->cpu, "always") != 0)
        return REFUSE("--cpu: \"%s\" is not always", s->cpu);
    if (s->repeat < 1 || s->repeat > 1000000)
        return REFUSE("--repeat: %lld is not between 1 and 1000000", (long long)s->repeat);
    if (s->seed < 0 && s->seed != OPTION_NOT_GIVEN)
        return REFUSE("--seed: %lld is negative", (long long)s->seed);
    if (s->scale != 0 && (s->scale < FLT_MIN || s->scale > FLT_MAX)) /* 0: the default */
        return REFUSE("--scale: %g is no positive normal float", s->scale);
    if (s->o != NULL && s->lse != NULL && strcmp(s->o, s->lse) == 0)
        return REFUSE("-o and --lse: both name %s", s->o);
    d->scale = (float)s->scale;
    return true;
}

/* Strides of [batch][head][row][head_dim]; compact ones stay 0. */
static void set_strides(problem *p)
{
    ptxpack_attention_desc *d = &p->desc;
    if (!p->bhsd)
        return;
    ptxpack_strides *all[TENSOR_COUNT] = {&d->q, &d->k, &d->v, &d->o};
    for (int i = 0; i < TENSOR_COUNT; i++) {
        bool    keys = i == TENSOR_K || i == TENSOR_V;
        int64_t head = (int64_t)(keys ? d->seqlen_kv : d->seqlen_q) * d->head_dim; /* < 2^39 */
        *all[i] = (ptxpack_strides){.row = d->head_dim, .head = head};
        if (__builtin_mul_overflow(head, keys ? d->heads_kv : d->heads_q, &all[i]->batch))
            all[i]->batch = INT64_MAX - 7; /* a multiple of 8 that the overflow check refuses */
    }
}

/* Check the descriptor and count elements. */
static bool settle(problem *p)
{
    attention_geometry geometry;
    char               line[ATTENTION_LINE];
    set_strides(p);
    p->desc.size = sizeof p->desc;
    if (ptxpack_attention_resolve(&p->desc, &geometry, line) != PTXPACK_OK)
        return REFUSE("%s", line);
    for (int i = 0; i < TENSOR_COUNT; i++)
        p->elements[i] = geometry.tensor[i].bytes / sizeof(uint16_t);
    p->lse_count = geometry.lse_bytes / sizeof(float);
    return true;
}

static bool to_extent(const char *name, int64_t value, int32_t *out)
{
    if (value < 1 || value > INT32_MAX)
        return REFUSE("--%s: %lld is not between 1 and %d", name, (long long)value, INT32_MAX);
    *out = (int32_t)value;
    return true;
}

static int make_random(const settings *s, problem *p)
{
    ptxpack_attention_desc *d = &p->desc;
    int64_t seqlen_kv = s->seqlen_kv == OPTION_NOT_GIVEN ? s->seqlen_q : s->seqlen_kv;
    int64_t heads_kv = s->heads_kv == OPTION_NOT_GIVEN ? s->heads_q : s->heads_kv;
    if (!to_extent("batch", s->batch, &d->batch) || !to_extent("seqlen-q", s->seqlen_q, &d->seqlen_q) ||
        !to_extent("seqlen-kv", seqlen_kv, &d->seqlen_kv) || !to_extent("heads-q", s->heads_q, &d->heads_q) ||
        !to_extent("heads-kv", heads_kv, &d->heads_kv) || !to_extent("head-dim", s->head_dim, &d->head_dim) ||
        !settle(p))
        return COMMAND_USAGE;
    random_state random = random_start(p->seed);
    for (int i = TENSOR_Q; i <= TENSOR_V; i++) {
        p->tensor[i] = (uint16_t *)calloc(p->elements[i], sizeof(uint16_t));
        if (p->tensor[i] == NULL)
            return command_fail("attention", "no memory for %zu elements of %s", p->elements[i],
                                attention_tensor_names[i]);
        random_normal(&random, d->dtype, p->tensor[i], p->elements[i]);
    }
    return COMMAND_OK;
}

/* float32 to the element type, in place: each result lies before the next input.  What is finite stays so. */
static bool convert_tensor(const char *path, ptxpack_dtype dtype, npy_array *array)
{
    const float *from = (const float *)array->data;
    uint16_t    *to = (uint16_t *)array->data;
    for (size_t i = 0; i < array->count; i++) {
        float value;
        memcpy(&value, &from[i], sizeof value);
        uint16_t bits = ptxpack_from_float(dtype, value);
        if (isfinite(value) && !isfinite(ptxpack_to_float(dtype, bits)))
            return REFUSE("%s: element %zu, %g, is beyond the range of %s", path, i, value,
                          ptxpack_dtype_name(dtype));
        memcpy(&to[i], &bits, sizeof bits);
    }
    return true;
}

/* Read one tensor: four dimensions, converted to the element type. */
static bool load_tensor(const char *path, ptxpack_dtype dtype, npy_array *array)
{
    char line[NPY_LINE];
    if (!npy_read(path, array, line))
        return REFUSE("%s", line);
    if (array->rank != 4)
        return REFUSE("%s: %d dimensions; it must have 4", path, array->rank);
    for (int i = 0; i < 4; i++)
        if (array->shape[i] < 1 || array->shape[i] > INT32_MAX)
            return REFUSE("%s: extent %lld of dimension %d", path, (long long)array->shape[i], i);
    if (array->type == NPY_U16 && dtype != PTXPACK_BF16)
        return REFUSE("%s: uint16 is read as bfloat16; say so with --dtype bf16", path);
    if (array->type == NPY_F16 && dtype != PTXPACK_F16)
        return REFUSE("%s: float16, but --dtype is bf16", path);
    return array->type != NPY_F32 || convert_tensor(path, dtype, array);
}

/* Nothing can be compared where a NaN or an infinity went in. */
static bool can_verify(const char *path, ptxpack_dtype dtype, const npy_array *array)
{
    const uint16_t *elements = (const uint16_t *)array->data;
    for (size_t i = 0; i < array->count; i++)
        if (!isfinite(ptxpack_to_float(dtype, elements[i])))
            return REFUSE("--verify: element %zu of %s is not finite", i, path);
    return true;
}

/* The shapes of q, k and v must agree; they give the descriptor its extents. */
static bool match_shapes(problem *p, const npy_array arrays[3], const settings *s)
{
    int            row = p->bhsd ? 2 : 1, head = p->bhsd ? 1 : 2;
    const int64_t *q = arrays[0].shape, *k = arrays[1].shape, *v = arrays[2].shape;
    const char    *axes = p->bhsd ? "batch, heads, rows, head_dim" : "batch, rows, heads, head_dim";
    for (int i = 0; i < 4; i++)
        if (k[i] != v[i])
            return REFUSE("%s and %s differ in dimension %d of [%s]: %lld and %lld", s->k, s->v,
                          i, axes, (long long)k[i], (long long)v[i]);
    if (q[0] != k[0] || q[3] != k[3])
        return REFUSE("%s and %s differ in %s: %lld and %lld", s->q, s->k,
                      q[0] != k[0] ? "batch" : "head_dim", (long long)(q[0] != k[0] ? q[0] : q[3]),
                      (long long)(q[0] != k[0] ? k[0] : k[3]));
    p->desc.batch = (int32_t)q[0];
    p->desc.seqlen_q = (int32_t)q[row];
    p->desc.heads_q = (int32_t)q[head];
    p->desc.head_dim = (int32_t)q[3];
    p->desc.seqlen_kv = (int32_t)k[row];
    p->desc.heads_kv = (int32_t)k[head];
    return true;
}

static int load_inputs(const settings *s, problem *p)
{
    const char *paths[3] = {s->q, s->k, s->v};
    npy_array   arrays[3] = {{.data = NULL}, {.data = NULL}, {.data = NULL}};
    bool        ok = true;
    for (int i = 0; i < 3 && ok; i++) {
        ok = load_tensor(paths[i], p->desc.dtype, &arrays[i]) &&
             (!s->verify || can_verify(paths[i], p->desc.dtype, &arrays[i]));
        p->tensor[i] = (uint16_t *)arrays[i].data; /* freed with the problem */
    }
    ok = ok && match_shapes(p, arrays, s) && settle(p);
    return ok ? COMMAND_OK : COMMAND_FAILED;
}

/* Both kinds of input, and room for the outputs. */
static int make_problem(const settings *s, problem *p)
{
    int  named = (s->q != NULL) + (s->k != NULL) + (s->v != NULL);
    bool sized = s->batch != OPTION_NOT_GIVEN || s->seqlen_q != OPTION_NOT_GIVEN ||
                 s->seqlen_kv != OPTION_NOT_GIVEN || s->heads_q != OPTION_NOT_GIVEN ||
                 s->heads_kv != OPTION_NOT_GIVEN || s->head_dim != OPTION_NOT_GIVEN;
    if (!parse_words(s, p))
        return COMMAND_USAGE;
    if (named != 0 && (named != 3 || sized)) {
        command_fail("attention", named != 3 ? "--q, --k and --v go together"
                                             : "sizes come from the files: give either files or sizes");
        return COMMAND_USAGE;
    }
    settings with_defaults = *s;
    if (s->batch == OPTION_NOT_GIVEN)
        with_defaults.batch = 2;
    if (s->seqlen_q == OPTION_NOT_GIVEN)
        with_defaults.seqlen_q = 2048;
    if (s->heads_q == OPTION_NOT_GIVEN)
        with_defaults.heads_q = 16;
    if (s->head_dim == OPTION_NOT_GIVEN)
        with_defaults.head_dim = 128;
    p->seed = s->seed != OPTION_NOT_GIVEN ? (uint64_t)s->seed : random_seed();
    int status = named == 3 ? load_inputs(s, p) : make_random(&with_defaults, p);
    if (status != COMMAND_OK)
        return status;
    p->tensor[TENSOR_O] = (uint16_t *)calloc(p->elements[TENSOR_O], sizeof(uint16_t));
    p->lse = (float *)calloc(p->lse_count, sizeof(float));
    if (p->tensor[TENSOR_O] == NULL || p->lse == NULL)
        return command_fail("attention", "no memory for the output");
    return COMMAND_OK;
}

static void free_problem(problem *p)
{
    for (int i = 0; i < TENSOR_COUNT; i++)
        free(p->tensor[i]);
    free(p->lse);
}

/* ---- running it --------------------------------------------------------------------------------- */
/* The reference, rounded to the element type, on all processors. */
static int run_on_cpu(problem *p)
{
    const ptxpack_attention_desc *d = &p->desc;
    enum { CHUNK = 4096 };
    attention_reference *reference = NULL;
    attention_geometry   geometry;
    char                 line[ATTENTION_LINE];
    size_t               dim = (size_t)d->head_dim;
    attention_row       *rows = (attention_row *)calloc(CHUNK, sizeof *rows);
    double              *values = (double *)calloc(CHUNK, (dim + 1) * sizeof *values), started = now_ms();
    ptxpack_status       status = ptxpack_attention_resolve(d, &geometry, line);
    if (rows == NULL || values == NULL)
        status = ptxpack_fail(NULL, PTXPACK_E_MEMORY, "no memory for %d rows", (int)CHUNK);
    if (status == PTXPACK_OK)
        status = attention_reference_open(d, p->tensor[TENSOR_Q], p->tensor[TENSOR_K], p->tensor[TENSOR_V],
                                          &reference);
    for (size_t first = 0; first < p->lse_count && status == PTXPACK_OK; first += CHUNK) {
        size_t count = p->lse_count - first < CHUNK ? p->lse_count - first : CHUNK;
        for (size_t i = 0; i < count; i++) {
            size_t n = first + i, head = n / (size_t)d->seqlen_q;
            rows[i] =
                (attention_row){(int32_t)(head / (size_t)d->heads_q), (int32_t)(head % (size_t)d->heads_q),
                                (int32_t)(n % (size_t)d->seqlen_q)};
        }
        const attention_row_results results = {values, NULL, values + CHUNK * dim};
        status = attention_reference_rows(reference, rows, count, verify_threads(), &results);
        for (size_t i = 0; i < count && status == PTXPACK_OK; i++) {
            const attention_tensor *t = &geometry.tensor[TENSOR_O];
            uint16_t *o = p->tensor[TENSOR_O] + rows[i].batch * t->batch + rows[i].row * t->row +
                          rows[i].head * t->head;
            for (size_t c = 0; c < dim; c++)
                o[c] = ptxpack_from_float(d->dtype, (float)values[i * dim + c]);
            p->lse[first + i] = (float)results.lse[i];
        }
    }
    p->ms = now_ms() - started;
    attention_reference_close(reference);
    free(values);
    free(rows);
    return status == PTXPACK_OK ? COMMAND_OK : command_fail("attention", "%s", ptxpack_detail(NULL));
}

/* Launch until warm, then `repeat` times between two events. */
static bool time_launches(device *gpu, const ptxpack_attention_plan *plan, const ptxpack_attention_buffers *b,
                          int64_t repeat, double *ms)
{
    enum { WARM_UP = 3 };
    for (int i = 0; i < WARM_UP; i++)
        if (!device_status(gpu, ptxpack_attention_launch(plan, b, gpu->stream)))
            return false;
    if (!device_sync(gpu) || !device_start(gpu))
        return false;
    for (int64_t i = 0; i < repeat; i++)
        if (!device_status(gpu, ptxpack_attention_launch(plan, b, gpu->stream)))
            return false;
    if (!device_stop(gpu) || !device_elapsed(gpu, ms))
        return false;
    *ms /= (double)repeat;
    return true;
}

static int run_on_gpu(device *gpu, problem *p, const settings *s)
{
    ptxpack_attention_plan   *plan = NULL;
    ptxpack_attention_buffers b = {.size = sizeof b};
    uint64_t                 *addresses[TENSOR_COUNT] = {&b.q, &b.k, &b.v, &b.o};
    double                    started = now_ms();
    bool ok = device_status(gpu, ptxpack_attention_plan_create(gpu->handle, &p->desc, &plan));
    double                    ready_ms = now_ms() - started;
    for (int i = 0; i < TENSOR_COUNT && ok; i++)
        ok = device_alloc(gpu, addresses[i], p->elements[i] * sizeof(uint16_t)) &&
             (i == TENSOR_O ||
              device_upload(gpu, *addresses[i], p->tensor[i], p->elements[i] * sizeof(uint16_t)));
    ok = ok && device_alloc(gpu, &b.lse, p->lse_count * sizeof(float)) &&
         (ptxpack_attention_workspace(plan) == 0 ||
          device_alloc(gpu, &b.workspace, ptxpack_attention_workspace(plan))) &&
         time_launches(gpu, plan, &b, s->repeat, &p->ms) &&
         device_download(gpu, p->tensor[TENSOR_O], b.o, p->elements[TENSOR_O] * sizeof(uint16_t)) &&
         device_download(gpu, p->lse, b.lse, p->lse_count * sizeof(float));
    if (ok) {
        report_device(gpu->handle, s->json);
        report_kernel(ptxpack_kernel_describe(ptxpack_attention_kernel(plan)), ready_ms, s->json);
    }
    for (int i = 0; i < TENSOR_COUNT; i++)
        device_free(gpu, *addresses[i]);
    device_free(gpu, b.lse);
    device_free(gpu, b.workspace);
    ptxpack_attention_plan_free(plan);
    return ok ? COMMAND_OK : command_fail("attention", "%s", gpu->line);
}

/* ---- reports ------------------------------------------------------------------------------------ */
static const char *mask_name(ptxpack_mask mask)
{
    return mask == PTXPACK_MASK_NONE              ? "full"
           : mask == PTXPACK_MASK_CAUSAL_TOP_LEFT ? "causal top-left"
                                                  : "causal bottom-right";
}

static void report_problem(const problem *p, const settings *s)
{
    const ptxpack_attention_desc *d = &p->desc;
    if (!s->json) {
        printf("problem   %s, batch %d, q %d rows x %d heads, kv %d rows x %d heads, head_dim %d, %s\n",
               ptxpack_dtype_name(d->dtype), (int)d->batch, (int)d->seqlen_q, (int)d->heads_q,
               (int)d->seqlen_kv, (int)d->heads_kv, (int)d->head_dim, mask_name(d->mask));
        if (s->q == NULL)
            printf("input     random, seed %llu\n", (unsigned long long)p->seed);
        return;
    }
    json_open("problem", '{');
    json_text("dtype", ptxpack_dtype_name(d->dtype));
    json_int("batch", d->batch);
    json_int("seqlen_q", d->seqlen_q);
    json_int("seqlen_kv", d->seqlen_kv);
    json_int("heads_q", d->heads_q);
    json_int("heads_kv", d->heads_kv);
    json_int("head_dim", d->head_dim);
    json_text("mask", mask_name(d->mask));
    json_text("layout", p->bhsd ? "bhsd" : "bshd");
    json_int("seed", (int64_t)p->seed);
    json_close();
}

static void report_time(const problem *p, const settings *s, bool on_cpu)
{
    double tflops = ptxpack_attention_flops(&p->desc) / p->ms * 1e-9;
    double gbs = ptxpack_attention_bytes(&p->desc) / p->ms * 1e-6;
    if (s->json) {
        json_text("ran_on", on_cpu ? "cpu" : "gpu");
        json_real("ms", p->ms);
        json_real("tflops", tflops);
        json_real("gb_per_s", gbs);
        if (!on_cpu)
            json_int("repeat", s->repeat);
    } else if (on_cpu) {
        printf("time      %.1f ms on the CPU (the double-precision reference), %.4f TFLOP/s\n", p->ms,
               tflops);
    } else {
        printf("time      %.4f ms, %.1f TFLOP/s, %.0f GB/s (mean of %lld launches)\n", p->ms, tflops, gbs,
               (long long)s->repeat);
    }
}

static int run_verify(const problem *p, const settings *s)
{
    verify_result  r;
    ptxpack_status status =
        verify_attention(&p->desc, p->tensor[TENSOR_Q], p->tensor[TENSOR_K], p->tensor[TENSOR_V],
                         p->tensor[TENSOR_O], p->lse, 0, p->seed, &r);
    if (status != PTXPACK_OK)
        return command_fail("attention", "--verify: %s", ptxpack_detail(NULL));
    if (s->json) {
        json_open("verify", '{');
        json_bool("pass", r.pass);
        json_int("rows", (int64_t)r.rows);
        json_int("rows_in_all", (int64_t)r.total);
        json_real("max_error", r.out_error);
        json_real("max_error_of_input_type", r.rounded_error);
        json_real("atol", r.atol);
        json_real("lse_error", r.lse_error);
        json_close();
    } else {
        printf("verified  %s: %s%zu of %zu rows\n"
               "          o    max error %.3g, allowed 2 * %.3g (the same maths in %s) + %.3g\n"
               "          lse  max error %.3g, allowed %.3g\n",
               r.pass ? "correct" : "WRONG", r.rows < r.total ? "a random sample of " : "", r.rows, r.total,
               r.out_error, r.rounded_error, ptxpack_dtype_name(p->desc.dtype), r.atol, r.lse_error,
               r.lse_bound);
    }
    return r.pass ? COMMAND_OK : command_fail("attention", "the result is wrong");
}

static int write_outputs(const problem *p, const settings *s)
{
    const ptxpack_attention_desc *d = &p->desc;
    char      line[NPY_LINE];
    npy_array o = {
        .type = d->dtype == PTXPACK_BF16 ? NPY_U16 : NPY_F16,
        .rank = 4,
        .shape = {d->batch, d->seqlen_q, d->heads_q, d->head_dim},
        .count = p->elements[TENSOR_O],
        .data = p->tensor[TENSOR_O],
    };
    npy_array lse = {
        .type = NPY_F32,
        .rank = 3,
        .shape = {d->batch, d->heads_q, d->seqlen_q},
        .count = p->lse_count,
        .data = p->lse,
    };
    if (p->bhsd) {
        o.shape[1] = d->heads_q;
        o.shape[2] = d->seqlen_q;
    }
    if ((s->o != NULL && !npy_write(s->o, &o, line)) || (s->lse != NULL && !npy_write(s->lse, &lse, line)))
        return command_fail("attention", "%s", line);
    return COMMAND_OK;
}

/* Run, report, write, verify; the JSON object is open. */
static int run_problem(problem *p, const settings *s)
{
    device gpu = {.handle = NULL};
    bool   always = s->cpu != NULL && strcmp(s->cpu, "always") == 0;
    bool   on_cpu = always || device_open(&gpu, NULL) != PTXPACK_OK;
    if (on_cpu && s->cpu == NULL)
        return command_fail("attention", "%s", gpu.line);
    report_problem(p, s);
    if (on_cpu) {
        const char *why = always ? "as asked for" : gpu.line;
        if (s->json)
            json_text("no_gpu", why);
        else
            printf("no GPU: %s; computing on the CPU\n", why);
    }
    int status = on_cpu ? run_on_cpu(p) : run_on_gpu(&gpu, p, s);
    if (status == COMMAND_OK)
        report_time(p, s, on_cpu);
    if (status == COMMAND_OK)
        status = write_outputs(p, s);
    if (status == COMMAND_OK && s->verify)
        status = run_verify(p, s);
    device_close(&gpu);
    return status;
}

int cmd_attention(int argc, char **argv)
{
    settings s = {
        .batch = OPTION_NOT_GIVEN, .seqlen_q = OPTION_NOT_GIVEN, .seqlen_kv = OPTION_NOT_GIVEN,
        .heads_q = OPTION_NOT_GIVEN, .heads_kv = OPTION_NOT_GIVEN, .head_dim = OPTION_NOT_GIVEN,
        .seed = OPTION_NOT_GIVEN, .layout = "bshd", .dtype = "f16", .repeat = 20,
    };
    const option rows[] = {
        {"q", OPTION_TEXT, &s.q, "FILE  queries, .npy of 4 dimensions (see --layout)"},
        {"k", OPTION_TEXT, &s.k, "FILE  keys"},
        {"v", OPTION_TEXT, &s.v, "FILE  values"},
        {"o", OPTION_TEXT, &s.o, "FILE  write the output"},
        {"lse", OPTION_TEXT, &s.lse, "FILE  write the log-sum-exp, float32 [batch, heads, rows]"},
        {"batch", OPTION_INT, &s.batch, "N  of random input (default 2)"},
        {"seqlen-q", OPTION_INT, &s.seqlen_q, "N  query rows (default 2048)"},
        {"seqlen-kv", OPTION_INT, &s.seqlen_kv, "N  keys (default: as seqlen-q)"},
        {"heads-q", OPTION_INT, &s.heads_q, "N  query heads (default 16)"},
        {"heads-kv", OPTION_INT, &s.heads_kv, "N  key heads (default: as heads-q)"},
        {"head-dim", OPTION_INT, &s.head_dim, "N  multiple of 8 up to 256 (default 128)"},
        {"causal", OPTION_MAYBE, &s.causal, "[top-left|bottom-right]  alone: bottom-right"},
        {"layout", OPTION_TEXT, &s.layout, "bshd|bhsd  order of batch, sequence, head, dim (default bshd)"},
        {"scale", OPTION_REAL, &s.scale, "X  multiplies q.k (default 1/sqrt(head-dim))"},
        {"dtype", OPTION_TEXT, &s.dtype, "f16|bf16  (default f16); bf16 files hold uint16"},
        {"verify", OPTION_FLAG, &s.verify, "compare with the double-precision reference"},
        {"seed", OPTION_INT, &s.seed, "N  of random input and of the rows verified"},
        {"repeat", OPTION_INT, &s.repeat, "N  launches timed (default 20)"},
        {"cpu", OPTION_MAYBE, &s.cpu, "[always]  compute on the CPU when there is no GPU, or always"},
        {"json", OPTION_FLAG, &s.json, "print JSON"},
        {NULL, OPTION_FLAG, NULL, NULL},
    };
    int status =
        command_options(argc, argv, "ptxpack attention [--q FILE --k FILE --v FILE] [options]", rows, NULL);
    if (status >= 0)
        return status;
    problem p = {.ms = 0};
    status = make_problem(&s, &p);
    if (status == COMMAND_OK) {
        if (s.json)
            json_open(NULL, '{');
        status = run_problem(&p, &s);
        if (s.json)
            json_close();
    }
    free_problem(&p);
    return status;
}
