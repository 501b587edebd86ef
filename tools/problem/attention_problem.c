/* attention_problem.c - makes an attention problem from options, with random input or input of .npy files. */
#include "attention_problem.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/command.h"
#include "hooks/blocks.h"
#include "npy.h"
#include "random.h"

/* Prints one line on stderr; the result is false. */
#define REFUSE(...) (command_fail(s->subcommand, __VA_ARGS__), false)

attention_settings attention_settings_of(const char *subcommand)
{
    return (attention_settings){.subcommand = subcommand,
                                .batch = OPTION_NOT_GIVEN,
                                .seqlen_q = OPTION_NOT_GIVEN,
                                .seqlen_kv = OPTION_NOT_GIVEN,
                                .heads_q = OPTION_NOT_GIVEN,
                                .heads_kv = OPTION_NOT_GIVEN,
                                .head_dim = OPTION_NOT_GIVEN,
                                .head_dim_v = OPTION_NOT_GIVEN,
                                .seed = OPTION_NOT_GIVEN,
                                .repeat = OPTION_NOT_GIVEN,
                                .pack = OPTION_NOT_GIVEN,
                                .devices = OPTION_NOT_GIVEN,
                                .lengths = {.page = OPTION_NOT_GIVEN},
                                .append = {.rows = OPTION_NOT_GIVEN, .rotary = OPTION_NOT_GIVEN},
                                .otherwise = {2, 2048, 16},
                                .scale = NAN, /* not given */
                                .layout = "bshd",
                                .dtype = "f16"};
}

/* The type of k and v, and how many descales they have. */
static bool parse_bytes(const attention_settings *s, ptxpack_attention_desc *d)
{
    const char *descales = s->descales != NULL ? s->descales : "sequence";
    d->kv_dtype = s->kv_dtype != NULL ? ptxpack_dtype_of(s->kv_dtype) : (ptxpack_dtype)0;
    if (s->kv_dtype != NULL && (d->kv_dtype < PTXPACK_E4M3 || d->kv_dtype > PTXPACK_Q8_0))
        return REFUSE("--kv-dtype: \"%s\" is not e4m3, int8 or q8_0", s->kv_dtype);
    if (s->descales != NULL && (s->kv_dtype == NULL || d->kv_dtype == PTXPACK_Q8_0))
        return REFUSE("--descales goes with --kv-dtype e4m3 or int8");
    if (strcmp(descales, "head") == 0)
        d->options |= PTXPACK_DESCALES_HEAD;
    else if (strcmp(descales, "tensor") == 0)
        d->options |= PTXPACK_DESCALES_TENSOR;
    else if (strcmp(descales, "sequence") != 0)
        return REFUSE("--descales: \"%s\" is not sequence, head or tensor", descales);
    return true;
}

static bool parse_words(const attention_settings *s, attention_problem *p)
{
    ptxpack_attention_desc *d = &p->desc;
    if (!attention_mask_parse(s->subcommand, &s->mask, d))
        return false;
    p->bhsd = strcmp(s->layout, "bhsd") == 0;
    if (!p->bhsd && strcmp(s->layout, "bshd") != 0)
        return REFUSE("--layout: \"%s\" is neither bshd nor bhsd", s->layout);
    d->dtype = ptxpack_dtype_of(s->dtype);
    if (ptxpack_dtype_bytes(d->dtype) == 0 || d->dtype == PTXPACK_INT8)
        return REFUSE("--dtype: \"%s\" is not f16, bf16 or e4m3", s->dtype);
    if (s->cpu != NULL && *s->cpu != '\0' && strcmp(s->cpu, "always") != 0)
        return REFUSE("--cpu: \"%s\" is not always", s->cpu);
    if (s->repeat != OPTION_NOT_GIVEN && (s->repeat < 1 || s->repeat > 1000000))
        return REFUSE("--repeat: %lld is not between 1 and 1000000", (long long)s->repeat);
    if (s->seed < 0 && s->seed != OPTION_NOT_GIVEN)
        return REFUSE("--seed: %lld is negative", (long long)s->seed);
    if (s->scale < FLT_MIN || s->scale > FLT_MAX)
        return REFUSE("--scale: %g is not a positive normal float", s->scale);
    if (s->o != NULL && s->lse != NULL && strcmp(s->o, s->lse) == 0)
        return REFUSE("-o and --lse: both name %s", s->o);
    if (s->softcap != 0 && !(s->softcap >= FLT_MIN && s->softcap <= FLT_MAX)) /* 0: off */
        return REFUSE("--softcap: %g is neither 0 (off) nor a positive normal float", s->softcap);
    if (s->chunk < 0 || s->chunk > INT32_MAX)
        return REFUSE("--chunk: %lld is not between 0 (off) and %d", (long long)s->chunk, INT32_MAX);
    if (s->chunk > 0 && d->mask != PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT)
        return REFUSE("--chunk goes with --causal bottom-right");
    d->chunk = (int32_t)s->chunk;
    d->options |= s->in_keys ? PTXPACK_VALUES_IN_KEYS : 0;
    d->options |= s->unnormalized ? PTXPACK_UNNORMALIZED : 0;
    if (s->parts < 0 || (s->parts > ATTENTION_PARTS_MOST && s->parts != ATTENTION_ONE_PART))
        return REFUSE("--parts: %lld is not between 0 and %d", (long long)s->parts, (int)ATTENTION_PARTS_MOST);
    if (s->pack != 0 && s->pack != 1 && s->pack != OPTION_NOT_GIVEN)
        return REFUSE("--pack: %lld is neither 0 nor 1", (long long)s->pack);
    const bool forced = s->parts > 0 || s->pack != OPTION_NOT_GIVEN;
    if (s->split_rows < 0 || s->split_rows % 256 != 0 || s->split_rows > INT32_MAX)
        return REFUSE("--split-rows: %lld is not 0 or a multiple of 256", (long long)s->split_rows);
    if (forced && s->split_rows > 0)
        return REFUSE("--split-rows and --%s: give one of them", s->parts > 0 ? "parts" : "pack");
    d->split_rows = (int32_t)s->split_rows;
    if (forced)
        d->split_rows = ATTENTION_PARTS + (int32_t)s->parts + (s->pack == 1 ? ATTENTION_PACK : 0);
    d->scale = isnan(s->scale) ? 0 : (float)s->scale; /* 0: 1/sqrt(head_dim) */
    d->softcap = (float)s->softcap;
    return parse_bytes(s, d);
}

static bool parse_lists(const attention_settings *s, attention_problem *p)
{
    return attention_lengths_parse(s->subcommand, &s->lengths, &p->arrays) &&
           attention_heads_parse(s->subcommand, &s->heads, &p->heads);
}

/* Sets strides of [batch][head][row][column]; strides of compact tensors stay 0. */
static void set_strides(attention_problem *p)
{
    ptxpack_attention_desc *d = &p->desc;
    if (!p->bhsd)
        return;
    ptxpack_strides *all[TENSOR_COUNT] = {&d->q, &d->k, &d->v, &d->o};
    for (int i = 0; i < TENSOR_COUNT; i++) {
        bool    keys = i == TENSOR_K || i == TENSOR_V;
        int64_t batches, rows;
        attention_extents(d, i, &batches, &rows);
        int64_t row = attention_columns(d, i), head = rows * row; /* < 2^41 */
        if (i == TENSOR_V && (d->options & PTXPACK_VALUES_IN_KEYS) != 0)
            continue;
        *all[i] = (ptxpack_strides){.row = row, .head = head};
        if (__builtin_mul_overflow(head, keys ? d->heads_kv : d->heads_q, &all[i]->batch))
            all[i]->batch = INT64_MAX - 15; /* a multiple of 16 that the overflow check refuses */
    }
}

/* Checks the descriptor and counts elements. */
static bool settle(const attention_settings *s, attention_problem *p)
{
    const attention_geometry *g = &p->geometry;
    char                      line[PLAN_LINE];
    if (!attention_lengths_describe(s->subcommand, &s->lengths, &p->arrays, &p->desc) ||
        !attention_heads_describe(s->subcommand, &p->heads, &p->desc))
        return false;
    set_strides(p);
    p->desc.size = sizeof p->desc;
    if (!attention_hooks_read(s->subcommand, &s->hooks, &p->hooks, &p->desc))
        return false;
    if (!attention_bias_describe(s->subcommand, &s->bias, &p->bias, &p->desc))
        return false;
    if (!attention_blocks_describe(s->subcommand, s->blocks, &p->desc))
        return false;
    if (!attention_append_describe(s->subcommand, &s->append, &p->arrays, &p->desc, &p->fresh))
        return false;
    if (ptxpack_attention_resolve(&p->desc, &p->geometry, line) != PTXPACK_OK)
        return REFUSE("%s", line);
    for (int i = 0; i < TENSOR_COUNT; i++)
        p->elements[i] = g->tensor[i].bytes * PTXPACK_Q8_0_ELEMENTS /
                         ptxpack_dtype_span(attention_tensor_type(&p->desc, i), PTXPACK_Q8_0_ELEMENTS);
    p->descale_count[TENSOR_Q] = g->q_descale_bytes / sizeof(float);
    p->descale_count[TENSOR_K] = p->descale_count[TENSOR_V] = g->descale_bytes / sizeof(float);
    p->lse_count = g->lse_bytes / sizeof(float);
    return true;
}

static bool to_extent(const attention_settings *s, const char *name, int64_t value, int32_t *out)
{
    if (value < 1 || value > INT32_MAX)
        return REFUSE("--%s: %lld is not between 1 and %d", name, (long long)value, INT32_MAX);
    *out = (int32_t)value;
    return true;
}

static int64_t given_or(int64_t value, int64_t otherwise)
{
    return value == OPTION_NOT_GIVEN ? otherwise : value;
}

/* What a list says, if it says anything. */
static int64_t listed_or(int64_t listed, int64_t otherwise) { return listed > 0 ? listed : otherwise; }

/* Takes the sizes that were given, and defaults for the others. */
static bool take_sizes(const attention_settings *s, attention_problem *p)
{
    ptxpack_attention_desc *d = &p->desc;
    const attention_arrays *a = &p->arrays;
    int64_t                 longest_q = attention_lengths_longest(a, ARRAY_LENGTHS_Q);
    int64_t                 longest_kv = attention_lengths_longest(a, ARRAY_LENGTHS_KV);
    int64_t                 heads_q = given_or(s->heads_q, s->otherwise.heads_q);
    int64_t                 batch = listed_or(attention_lengths_batch(a), s->otherwise.batch);
    int64_t                 rows = s->otherwise.seqlen_q;
    bool                    own = a->list[ARRAY_LENGTHS_KV].given; /* a decoding step, unless more is said */
    int64_t                 step = s->append.rows > 0 ? s->append.rows : 1;
    int64_t                 seqlen_q = given_or(s->seqlen_q, listed_or(longest_q, own ? step : rows));
    int64_t                 seqlen_kv = given_or(s->seqlen_kv, listed_or(longest_kv, own ? rows : seqlen_q));
    return to_extent(s, "batch", given_or(s->batch, batch), &d->batch) &&
           to_extent(s, "seqlen-q", seqlen_q, &d->seqlen_q) &&
           to_extent(s, "seqlen-kv", seqlen_kv, &d->seqlen_kv) &&
           to_extent(s, "heads-q", heads_q, &d->heads_q) &&
           to_extent(s, "heads-kv", given_or(s->heads_kv, heads_q), &d->heads_kv) &&
           to_extent(s, "head-dim", given_or(s->head_dim, 128), &d->head_dim) &&
           (s->head_dim_v == OPTION_NOT_GIVEN || to_extent(s, "head-dim-v", s->head_dim_v, &d->head_dim_v)) &&
           settle(s, p);
}

/* Makes descales for inputs of bytes; those of int8 undo what random_normal does. */
static bool make_descales(const attention_settings *s, attention_problem *p, random_state *random)
{
    for (int i = TENSOR_Q; i < TENSOR_O; i++) {
        const size_t count = p->descale_count[i];
        if (count == 0)
            continue;
        p->descale[i] = (float *)calloc(count, sizeof(float));
        if (p->descale[i] == NULL)
            return REFUSE("no memory for %zu descales", count);
        random_scales(random, p->descale[i], count);
        for (size_t k = 0; k < count && attention_tensor_type(&p->desc, i) == PTXPACK_INT8; k++)
            p->descale[i][k] /= 32;
    }
    p->descales = (ptxpack_descales){p->descale[TENSOR_Q], p->descale[TENSOR_K], p->descale[TENSOR_V]};
    return true;
}

static int make_random(const attention_settings *s, attention_problem *p)
{
    ptxpack_attention_desc *d = &p->desc;
    if (!take_sizes(s, p))
        return COMMAND_USAGE;
    random_state random = random_start(p->seed);
    if (!attention_lengths_draw(d, &p->geometry, &random, &p->arrays))
        return command_fail(s->subcommand, "no memory for the lengths");
    for (int i = TENSOR_Q; i <= (p->geometry.values_in_keys ? TENSOR_K : TENSOR_V); i++) {
        p->tensor[i] = calloc(attention_problem_bytes(p, i), 1);
        if (p->tensor[i] == NULL)
            return command_fail(s->subcommand, "no memory for %zu elements of %s", p->elements[i],
                                attention_tensor_names[i]);
        if (p->geometry.varlen)
            attention_lengths_fill(d, &p->geometry, &p->arrays, i, &random, p->tensor[i]);
        else
            random_normal(&random, attention_tensor_type(d, i), p->tensor[i], p->elements[i]);
    }
    attention_heads_draw(d, &p->heads, &random, &p->arrays);
    attention_bias_draw(d, &p->geometry, &p->bias, &random, &p->arrays);
    const char *why;
    if (!make_descales(s, p, &random))
        return COMMAND_FAILED;
    if (p->fresh.given &&
        !attention_append_draw(d, &p->geometry, &p->arrays, &random, p->tensor, &p->descales, &p->fresh, &why))
        return command_fail(s->subcommand, "%s", why);
    return COMMAND_OK;
}

/* Whether a number is finite but rounds to infinity in the type. */
static bool beyond_range(ptxpack_dtype type, float value)
{
    return type == PTXPACK_E4M3   ? fabsf(value) >= 464 /* half a step above the largest */
           : type == PTXPACK_INT8 ? fabsf(value) >= 128
                                  : !isfinite(ptxpack_to_float(type, ptxpack_from_float(type, value)));
}

/* Converts float32 to the element type, in place: each result lies before the next input.  Finite elements must
 * stay finite. */
static bool convert_tensor(const attention_settings *s, const char *path, ptxpack_dtype dtype, npy_array *array)
{
    const float *from = (const float *)array->data;
    for (size_t i = 0; i < array->count; i++) {
        float value;
        memcpy(&value, &from[i], sizeof value);
        if (isfinite(value) && beyond_range(dtype, value))
            return REFUSE("%s: element %zu, %g, is beyond the range of %s", path, i, value,
                          ptxpack_dtype_name(dtype));
        ptxpack_set_element(dtype, array->data, i, value);
    }
    return true;
}

/* Reads one tensor of four dimensions and converts it to the element type. */
static bool load_tensor(const attention_settings *s, const char *path, ptxpack_dtype dtype, npy_array *array)
{
    char line[NPY_LINE];
    if (!npy_read(path, array, line))
        return REFUSE("%s", line);
    if (array->rank != 4)
        return REFUSE("%s has %d dimension%s; it must have 4", path, array->rank, array->rank == 1 ? "" : "s");
    for (int i = 0; i < 4; i++)
        if (array->shape[i] < 1 || array->shape[i] > INT32_MAX)
            return REFUSE("%s: %lld is not a valid extent of dimension %d", path, (long long)array->shape[i],
                          i);
    if (array->type > NPY_U8)
        return REFUSE("%s: its type %s is not float16, float32, uint16 or uint8", path,
                      npy_type_name(array->type));
    if (array->type == NPY_U16 && dtype != PTXPACK_BF16)
        return REFUSE("%s: uint16 is read as bfloat16; give --dtype bf16", path);
    if (array->type == NPY_U8 && dtype != PTXPACK_E4M3)
        return REFUSE("%s: uint8 is read as e4m3; give --dtype e4m3", path);
    if (array->type == NPY_F16 && dtype != PTXPACK_F16)
        return REFUSE("%s: its type is float16, but --dtype is %s", path, ptxpack_dtype_name(dtype));
    return array->type != NPY_F32 || convert_tensor(s, path, dtype, array);
}

/* Whether the input is finite: with a NaN or an infinity the result cannot be compared. */
static bool can_verify(const attention_settings *s, const char *path, ptxpack_dtype dtype,
                       const npy_array *array)
{
    for (size_t i = 0; i < array->count; i++)
        if (!isfinite(ptxpack_element(dtype, array->data, i)))
            return REFUSE("--verify: element %zu of %s is not finite", i, path);
    return true;
}

/* The shapes of q, k and v must agree; they give the descriptor its extents. */
static bool match_shapes(const attention_settings *s, attention_problem *p, const npy_array arrays[3])
{
    int            row = p->bhsd ? 2 : 1, head = p->bhsd ? 1 : 2;
    const int64_t *q = arrays[0].shape, *k = arrays[1].shape, *v = arrays[2].shape;
    const char    *axes = p->bhsd ? "batch, heads, rows, head_dim" : "batch, rows, heads, head_dim";
    for (int i = 0; i < 3; i++)
        if (k[i] != v[i])
            return REFUSE("%s and %s differ in dimension %d of [%s]: %lld and %lld", s->k, s->v, i, axes,
                          (long long)k[i], (long long)v[i]);
    if (q[0] != k[0] || q[3] != k[3])
        return REFUSE("%s and %s differ in %s: %lld and %lld", s->q, s->k, q[0] != k[0] ? "batch" : "head_dim",
                      (long long)(q[0] != k[0] ? q[0] : q[3]), (long long)(q[0] != k[0] ? k[0] : k[3]));
    p->desc.batch = (int32_t)q[0];
    p->desc.seqlen_q = (int32_t)q[row];
    p->desc.heads_q = (int32_t)q[head];
    p->desc.head_dim = (int32_t)q[3];
    p->desc.head_dim_v = v[3] != q[3] ? (int32_t)v[3] : 0;
    p->desc.seqlen_kv = (int32_t)k[row];
    p->desc.heads_kv = (int32_t)k[head];
    return true;
}

static int load_inputs(const attention_settings *s, attention_problem *p)
{
    const char  *paths[3] = {s->q, s->k, s->v};
    npy_array    arrays[3] = {{.data = NULL}, {.data = NULL}, {.data = NULL}};
    random_state random = random_start(p->seed);
    bool         ok = true;
    for (int i = 0; i < 3 && ok; i++) {
        const ptxpack_dtype type = attention_tensor_type(&p->desc, i);
        ok = load_tensor(s, paths[i], type, &arrays[i]) &&
             (!s->verify || can_verify(s, paths[i], type, &arrays[i]));
        p->tensor[i] = arrays[i].data; /* the problem frees it */
    }
    ok = ok && match_shapes(s, p, arrays) && settle(s, p);
    if (ok && !attention_lengths_draw(&p->desc, &p->geometry, &random, &p->arrays))
        return command_fail(s->subcommand, "no memory for the lengths");
    if (ok) {
        attention_heads_draw(&p->desc, &p->heads, &random, &p->arrays);
        attention_bias_draw(&p->desc, &p->geometry, &p->bias, &random, &p->arrays);
    }
    return ok ? COMMAND_OK : COMMAND_FAILED;
}

size_t attention_problem_bytes(const attention_problem *p, int tensor)
{
    return ptxpack_dtype_span(attention_tensor_type(&p->desc, tensor), p->elements[tensor]);
}

void attention_problem_report(report *r, const attention_problem *p)
{
    const ptxpack_attention_desc *d = &p->desc;
    const bool                    bytes = attention_has_codes(d);
    report_text(r, "dtype", "%s", ptxpack_dtype_name(d->dtype));
    report_text(r, "kv_dtype", "%s", ptxpack_dtype_name(attention_kv_type(d)));
    report_text(r, "types", "%s%s%s", ptxpack_dtype_name(d->dtype), bytes ? " with k and v of " : "",
                bytes ? ptxpack_dtype_name(d->kv_dtype) : "");
    report_int(r, "batch", d->batch);
    report_int(r, "seqlen_q", d->seqlen_q);
    report_int(r, "seqlen_kv", d->seqlen_kv);
    report_int(r, "heads_q", d->heads_q);
    report_int(r, "heads_kv", d->heads_kv);
    report_int(r, "head_dim", d->head_dim);
    if (attention_value_dim(d) != d->head_dim)
        report_int(r, "head_dim_v", attention_value_dim(d));
    attention_mask_report(r, d);
    if (p->geometry.varlen)
        attention_rows_report(r, d);
}

int attention_problem_describe(const attention_settings *s, attention_problem *p)
{
    return parse_words(s, p) && parse_lists(s, p) && take_sizes(s, p) ? COMMAND_OK : COMMAND_USAGE;
}

/* Whether files can hold the rows: they are dense. */
static bool takes_files(const attention_settings *s)
{
    const attention_lengths_words *l = &s->lengths;
    const char                    *name = l->page != OPTION_NOT_GIVEN ? "page"
                                          : l->rows_q != NULL         ? "rows-q"
                                          : l->rows_kv != NULL        ? "rows-kv"
                                          : l->row_map != NULL        ? "row-map"
                                                                      : NULL;
    if (s->in_keys)
        return REFUSE("--values-in-keys is for random input");
    if (s->append.rows != OPTION_NOT_GIVEN || s->append.rotary != OPTION_NOT_GIVEN)
        return REFUSE("--%s is for random input", s->append.rows != OPTION_NOT_GIVEN ? "append" : "rotary");
    return name == NULL || REFUSE("--%s is for random input; rows of files are dense", name);
}

int attention_problem_make(const attention_settings *s, attention_problem *p)
{
    int  named = (s->q != NULL) + (s->k != NULL) + (s->v != NULL);
    bool sized = s->batch != OPTION_NOT_GIVEN || s->seqlen_q != OPTION_NOT_GIVEN ||
                 s->seqlen_kv != OPTION_NOT_GIVEN || s->heads_q != OPTION_NOT_GIVEN ||
                 s->heads_kv != OPTION_NOT_GIVEN || s->head_dim != OPTION_NOT_GIVEN ||
                 s->head_dim_v != OPTION_NOT_GIVEN;
    if (!parse_words(s, p) || !parse_lists(s, p) || (named != 0 && !takes_files(s)))
        return COMMAND_USAGE;
    if (named != 0 && (named != 3 || sized)) {
        command_fail(s->subcommand, named != 3 ? "give --q, --k and --v together"
                                               : "give either files or sizes: sizes are read from the files");
        return COMMAND_USAGE;
    }
    p->seed = s->seed != OPTION_NOT_GIVEN ? (uint64_t)s->seed : random_seed();
    int status = named == 3 ? load_inputs(s, p) : make_random(s, p);
    if (status != COMMAND_OK)
        return status;
    p->tensor[TENSOR_O] = calloc(1, attention_problem_bytes(p, TENSOR_O));
    p->lse = (float *)calloc(p->lse_count, sizeof(float));
    if (p->tensor[TENSOR_O] == NULL || p->lse == NULL)
        return command_fail(s->subcommand, "no memory for the output");
    return COMMAND_OK;
}

void attention_problem_free(attention_problem *p)
{
    for (int i = 0; i < TENSOR_COUNT; i++)
        free(p->tensor[i]);
    for (int i = TENSOR_Q; i < TENSOR_O; i++)
        free(p->descale[i]);
    free(p->lse);
    attention_lengths_free(&p->arrays);
    attention_heads_free(&p->heads);
    attention_hooks_free(&p->hooks);
    attention_bias_free(&p->bias);
    attention_append_free(&p->fresh);
}
