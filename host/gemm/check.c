/* check.c - every check of a GEMM's descriptor and of the addresses of a launch. */
#include "check.h"

#include <math.h>

enum {
    PAIRED = 16,   /* columns */
    ELEMENT = 2,   /* bytes */
    ALIGNMENT = 16 /* bytes, multiples of which lines and matrices begin at */
};
static const int64_t STRIDE_LIMIT = (int64_t)1 << 46; /* elements: sums of a few stay far below 2^63 */

const char *const gemm_matrix_names[GEMM_MATRICES] = {"a", "b", "c", "d"};

#define REFUSE(...) plan_refuse(line, PTXPACK_E_ARG, __VA_ARGS__)

/* ---- the descriptor ----------------------------------------------------------------------------------- */
static ptxpack_status check_operand_type(const ptxpack_gemm_desc *d, char *line)
{
    if (d->dtype_ab != 0 && d->dtype_ab != d->dtype && d->dtype_ab != PTXPACK_E4M3)
        return REFUSE("dtype_ab %d is none of 0, dtype and PTXPACK_E4M3", (int)d->dtype_ab);
    if (d->dtype_b != 0 && d->dtype_b != PTXPACK_E4M3 && d->dtype_b != d->dtype)
        return REFUSE("dtype_b %d is none of 0, dtype and PTXPACK_E4M3", (int)d->dtype_b);
    if (d->dtype_ab == PTXPACK_E4M3 && d->dtype_b == d->dtype)
        return REFUSE("dtype_b: B has 16 bits, and A of dtype_ab PTXPACK_E4M3 has not");
    if ((unsigned)d->scales > PTXPACK_SCALES_BLOCKS)
        return REFUSE("scales %d are none", (int)d->scales);
    if (d->scales != PTXPACK_SCALES_TENSOR && gemm_type(d, GEMM_B) != PTXPACK_E4M3)
        return REFUSE("scales: only PTXPACK_E4M3 has any, of dtype_ab or dtype_b");
    if (d->scales == PTXPACK_SCALES_BLOCKS && d->k == 0)
        return REFUSE("k is 0, and scales are of blocks of k");
    return PTXPACK_OK;
}

/* What products of groups of rows are. */
static ptxpack_status check_groups(const ptxpack_gemm_desc *d, char *line)
{
    if (d->groups < 0 || d->groups > PTXPACK_GEMM_GROUPS)
        return REFUSE("groups is %d, not between 0 and %d", (int)d->groups, PTXPACK_GEMM_GROUPS);
    if (d->groups == 0)
        return PTXPACK_OK;
    if (d->batch > 1)
        return REFUSE("batch is %d: groups of rows have no batch", (int)d->batch);
    if (d->order_a != PTXPACK_ROW_MAJOR || d->order_b != PTXPACK_COLUMN_MAJOR)
        return d->order_a != PTXPACK_ROW_MAJOR ? REFUSE("order_a: groups of rows want a row-major A")
                                               : REFUSE("order_b: groups of rows want a column-major B");
    if (gemm_type(d, GEMM_A) != d->dtype)
        return REFUSE("dtype_ab: groups of rows want an A of dtype; dtype_b alone may be PTXPACK_E4M3");
    if (d->has_c)
        return REFUSE("has_c: there is no C with groups of rows");
    if (d->batch_b < 0)
        return REFUSE("batch_b: %lld is negative, and each group has its own B", (long long)d->batch_b);
    return PTXPACK_OK;
}

/* What a product is whose A is normalised. */
static ptxpack_status check_norm(const ptxpack_gemm_desc *d, char *line)
{
    if (!d->norm_a)
        return d->norm_eps == 0 ? PTXPACK_OK
                                : REFUSE("norm_eps is %g, and there is no norm_a", (double)d->norm_eps);
    if (!(d->norm_eps > 0) || isinf(d->norm_eps))
        return REFUSE("norm_eps is %g; it must be positive", (double)d->norm_eps);
    if (d->groups > 0 || d->batch > 1)
        return d->groups > 0 ? REFUSE("norm_a: groups of rows take A as it is")
                             : REFUSE("norm_a: batch is %d, not 1", (int)d->batch);
    if (d->order_a != PTXPACK_ROW_MAJOR)
        return REFUSE("norm_a: order_a: rows of a row-major A are normalised");
    if (gemm_type(d, GEMM_A) != d->dtype)
        return REFUSE("norm_a: dtype_ab: an A of dtype is normalised");
    return d->k > 0 ? PTXPACK_OK : REFUSE("norm_a: k is 0, and there is nothing to normalise");
}

static ptxpack_status check_fields(const ptxpack_gemm_desc *d, char *line)
{
    if (d == NULL)
        return REFUSE("desc is NULL");
    if (d->size != sizeof *d)
        return REFUSE("desc.size is %u; sizeof(ptxpack_gemm_desc) is %zu", (unsigned)d->size, sizeof *d);
    if (d->dtype != PTXPACK_F16 && d->dtype != PTXPACK_BF16)
        return REFUSE("dtype %d is neither PTXPACK_F16 nor PTXPACK_BF16", (int)d->dtype);
    if (d->m < 1 || d->n < 1)
        return REFUSE("%s is %d, not 1 or more", d->m < 1 ? "m" : "n", (int)(d->m < 1 ? d->m : d->n));
    if (d->k < 0 || d->batch < 0)
        return REFUSE("%s is %d, not 0 or more", d->k < 0 ? "k" : "batch", (int)(d->k < 0 ? d->k : d->batch));
    if ((unsigned)d->order_a > PTXPACK_COLUMN_MAJOR || (unsigned)d->order_b > PTXPACK_COLUMN_MAJOR)
        return REFUSE("order_%c is neither PTXPACK_ROW_MAJOR nor PTXPACK_COLUMN_MAJOR",
                      (unsigned)d->order_a > PTXPACK_COLUMN_MAJOR ? 'a' : 'b');
    if ((unsigned)d->activation > PTXPACK_ACTIVATION_SWIGLU)
        return REFUSE("activation %d is none", (int)d->activation);
    if (d->activation == PTXPACK_ACTIVATION_SWIGLU && (d->n % PAIRED != 0 || d->has_c))
        return d->has_c ? REFUSE("has_c: there is no C with SwiGLU")
                        : REFUSE("n is %d, with SwiGLU no multiple of %d", (int)d->n, PAIRED);
    if ((d->launch & ~(uint32_t)GEMM_LAUNCH_BITS) != 0)
        return REFUSE("desc.launch has the unknown bits 0x%x",
                      (unsigned)(d->launch & ~(uint32_t)GEMM_LAUNCH_BITS));
    if (d->reserved != 0)
        return REFUSE("desc.reserved is %u, not 0", (unsigned)d->reserved);
    ptxpack_status status = check_operand_type(d, line);
    status = status == PTXPACK_OK ? check_groups(d, line) : status;
    return status == PTXPACK_OK ? check_norm(d, line) : status;
}

/* A matrix as lines, with the strides of the descriptor. */
static gemm_matrix lines_of(const ptxpack_gemm_desc *d, int matrix)
{
    const bool    a_column = d->order_a == PTXPACK_COLUMN_MAJOR, b_column = d->order_b == PTXPACK_COLUMN_MAJOR;
    const int64_t element = (int64_t)ptxpack_dtype_bytes(gemm_type(d, matrix));
    const gemm_matrix all[GEMM_MATRICES] = {
        {a_column ? d->k : d->m, a_column ? d->m : d->k, d->stride_a, d->batch_a, element, 0},
        {b_column ? d->n : d->k, b_column ? d->k : d->n, d->stride_b, d->batch_b, element, 0},
        {d->m, d->n, d->stride_c, d->batch_c, element, 0},
        {d->m, gemm_columns(d), d->stride_d, d->batch_d, element, 0},
    };
    return all[matrix];
}

/* Elements, a multiple of which each stride is. */
static int64_t unit_of(const gemm_matrix *x) { return ALIGNMENT / x->element; }
/* The stride of a single line means nothing. */
static ptxpack_status resolve_stride(const char *name, gemm_matrix *x, char *line)
{
    const int64_t unit = unit_of(x);
    if (x->lines <= 1) {
        x->stride = x->length > 0 ? divided_up(x->length, unit) * unit : unit;
        return PTXPACK_OK;
    }
    bool packed = x->stride == 0;
    x->stride = packed ? x->length : x->stride;
    if (x->stride % unit != 0)
        return REFUSE("stride_%s: %s%lld is not a multiple of %d", name, packed ? "packed, " : "",
                      (long long)x->stride, (int)unit);
    if (x->stride < x->length || x->stride >= STRIDE_LIMIT)
        return REFUSE("stride_%s: %lld is %s", name, (long long)x->stride,
                      x->stride < x->length ? "less than the elements between" : "2^46 or more");
    x->stride = x->stride > 0 ? x->stride : unit; /* with k 0 there are no elements */
    return PTXPACK_OK;
}

/* Checked in floating point, before it is computed in 64 bits. */
static ptxpack_status check_span(const char *name, double elements, char *line)
{
    return elements < 0x1p62 ? PTXPACK_OK : REFUSE("%s: its strides span 2^63 bytes or more", name);
}

static ptxpack_status resolve_batch(const char *name, int32_t batch, gemm_matrix *x, char *line)
{
    int64_t span = x->lines > 0 ? (x->lines - 1) * x->stride + x->length : 0;
    bool    packed = x->batch == 0;
    if (batch == 1 || x->batch == -1) {
        x->batch = 0;
        return PTXPACK_OK;
    }
    x->batch = packed ? span : x->batch;
    if (x->batch % unit_of(x) != 0)
        return REFUSE("batch_%s: %s%lld is not a multiple of %d", name, packed ? "packed, " : "",
                      (long long)x->batch, (int)unit_of(x));
    if (x->batch < 0 || x->batch >= STRIDE_LIMIT)
        return REFUSE("batch_%s: %lld is %s", name, (long long)x->batch,
                      x->batch < 0 ? "negative, and not -1" : "2^46 or more");
    return PTXPACK_OK;
}

/* The matrices of D must not overlap: they lie apart, or their lines alternate. */
static ptxpack_status check_output(int32_t batch, const gemm_matrix *d, char *line)
{
    if (batch == 1)
        return PTXPACK_OK;
    if (d->batch == 0)
        return REFUSE("batch_d: D cannot be the same matrix for all");
    bool apart = d->batch >= (d->lines - 1) * d->stride + d->length;
    bool alternating = d->batch >= d->length && d->stride >= (batch - 1) * d->batch + d->length;
    return apart || alternating ? PTXPACK_OK
                                : REFUSE("batch_d: %lld makes matrices overlap", (long long)d->batch);
}

static ptxpack_status resolve_matrix(const ptxpack_gemm_desc *d, int32_t batch, int matrix, gemm_matrix *out,
                                     char *line)
{
    gemm_matrix    x = lines_of(d, matrix);
    const char    *name = gemm_matrix_names[matrix];
    ptxpack_status status = resolve_stride(name, &x, line);
    if (status == PTXPACK_OK)
        status = check_span(name, (double)x.lines * (double)x.stride, line);
    if (status == PTXPACK_OK)
        status = resolve_batch(name, batch, &x, line);
    if (status == PTXPACK_OK)
        status = check_span(name, (double)(batch - 1) * (double)x.batch + (double)x.lines * (double)x.stride,
                            line);
    if (status == PTXPACK_OK && matrix == GEMM_D)
        status = check_output(batch, &x, line);
    if (status != PTXPACK_OK)
        return status;
    if (x.lines > 0 && x.length > 0)
        x.bytes = (uint64_t)((batch - 1) * x.batch + (x.lines - 1) * x.stride + x.length) * (uint64_t)x.element;
    *out = x;
    return PTXPACK_OK;
}

/* Of `lines` rows of A or columns of B, or blocks of columns. */
static ptxpack_status resolve_scale(const ptxpack_gemm_desc *d, const char *name, int64_t lines,
                                    const gemm_geometry *g, int matrix, gemm_scale *s, char *line)
{
    const bool optional = d->scales == PTXPACK_SCALES_TENSOR, shared = g->matrix[matrix].batch == 0;
    *s = (gemm_scale){.line = 1, .optional = optional};
    if (d->scales == PTXPACK_SCALES_BLOCKS)
        s->line = divided_up(d->k, PTXPACK_SCALE_BLOCK);
    const int64_t count = optional ? 1 : lines * s->line,
                  matrices = optional || shared ? 1 : gemm_matrices(g, matrix);
    s->batch = matrices > 1 ? count : 0;
    s->bytes = (uint64_t)matrices * (uint64_t)count * sizeof(float);
    return check_span(name, (double)matrices * (double)count, line);
}

static ptxpack_status resolve_scales(const ptxpack_gemm_desc *d, gemm_geometry *g, char *line)
{
    const int64_t  of_b = d->scales == PTXPACK_SCALES_BLOCKS ? divided_up(d->n, PTXPACK_SCALE_BLOCK) : d->n;
    ptxpack_status status = PTXPACK_OK;
    if (gemm_type(d, GEMM_A) == PTXPACK_E4M3)
        status = resolve_scale(d, "scale_a", d->m, g, GEMM_A, &g->scale[GEMM_A], line);
    if (gemm_type(d, GEMM_B) == PTXPACK_E4M3 && status == PTXPACK_OK)
        status = resolve_scale(d, "scale_b", of_b, g, GEMM_B, &g->scale[GEMM_B], line);
    return status;
}

ptxpack_status ptxpack_gemm_resolve(const ptxpack_gemm_desc *desc, gemm_geometry *out, char line[PLAN_LINE])
{
    ptxpack_status status = check_fields(desc, line);
    if (status != PTXPACK_OK)
        return status;
    *out = (gemm_geometry){.batch = desc->batch > 0 ? desc->batch : 1, .groups = desc->groups};
    if (desc->has_bias)
        out->bias_bytes = (uint64_t)desc->n * ELEMENT * (desc->groups > 0 ? (uint64_t)desc->groups : 1);
    if (desc->norm_a)
        out->norm_bytes = (uint64_t)desc->k * ELEMENT;
    for (int i = 0; i < GEMM_MATRICES && status == PTXPACK_OK; i++)
        if (i != GEMM_C || desc->has_c)
            status = resolve_matrix(desc, gemm_matrices(out, i), i, &out->matrix[i], line);
    return status == PTXPACK_OK ? resolve_scales(desc, out, line) : status;
}

/* ---- addresses ---------------------------------------------------------------------------------------- */
typedef struct range {
    const char *name;
    uint64_t    address, bytes; /* 0 bytes: not looked at */
    uint64_t    alignment;
} range;

static ptxpack_status check_range(const range *r, char *line)
{
    if (r->bytes == 0)
        return PTXPACK_OK;
    if (r->address == 0)
        return REFUSE("%s is null", r->name);
    if (r->address % r->alignment != 0)
        return REFUSE("%s: address 0x%llx is not a multiple of %d bytes", r->name,
                      (unsigned long long)r->address, (int)r->alignment);
    if (r->address + r->bytes < r->address)
        return REFUSE("%s: address 0x%llx plus its %llu bytes wraps around", r->name,
                      (unsigned long long)r->address, (unsigned long long)r->bytes);
    return PTXPACK_OK;
}

static bool overlap(const range *a, const range *b)
{
    return a->bytes != 0 && b->bytes != 0 && a->address < b->address + b->bytes &&
           b->address < a->address + a->bytes;
}

/* Each element of D is written by the thread that has read the same element of C. */
static bool same_places(const gemm_geometry *g)
{
    const gemm_matrix *c = &g->matrix[GEMM_C], *d = &g->matrix[GEMM_D];
    return c->stride == d->stride && c->batch == d->batch;
}

static range range_of_scale(const char *name, uint64_t address, const gemm_scale *s)
{
    return (range){name, address, s->optional && address == 0 ? 0 : s->bytes,
                   s->optional ? sizeof(float) : ALIGNMENT};
}

ptxpack_status ptxpack_gemm_check_buffers(const gemm_geometry *g, const ptxpack_gemm_buffers *b,
                                          char line[PLAN_LINE])
{
    enum { D = 8, RANGES = 9, START = sizeof(int32_t) };
    if (b == NULL)
        return REFUSE("buffers is NULL");
    if (b->size != sizeof *b)
        return REFUSE("buffers.size is %u; sizeof(ptxpack_gemm_buffers) is %zu", (unsigned)b->size, sizeof *b);
    const range ranges[RANGES] = {
        {"a", b->a, g->matrix[GEMM_A].bytes, ALIGNMENT},
        {"b", b->b, g->matrix[GEMM_B].bytes, ALIGNMENT},
        {"c", b->c, g->matrix[GEMM_C].bytes, ALIGNMENT},
        {"bias", b->bias, g->bias_bytes, ALIGNMENT},
        range_of_scale("scale_a", b->scale_a, &g->scale[GEMM_A]),
        range_of_scale("scale_b", b->scale_b, &g->scale[GEMM_B]),
        {"group_starts", b->group_starts, g->groups > 0 ? START * ((uint64_t)g->groups + 1) : 0, START},
        {"norm_w", b->norm_w, g->norm_bytes, ALIGNMENT},
        {"d", b->d, g->matrix[GEMM_D].bytes, ALIGNMENT},
    };
    for (int i = 0; i < RANGES; i++) {
        ptxpack_status status = check_range(&ranges[i], line);
        if (status != PTXPACK_OK)
            return status;
    }
    for (int written = D; written < RANGES; written++)
        for (int i = 0; i < written; i++)
            if (overlap(&ranges[written], &ranges[i]) &&
                !(written == D && i == GEMM_C && b->c == b->d && same_places(g)))
                return REFUSE("%s overlaps %s: 0x%llx and 0x%llx", ranges[written].name, ranges[i].name,
                              (unsigned long long)ranges[written].address,
                              (unsigned long long)ranges[i].address);
    return PTXPACK_OK;
}
