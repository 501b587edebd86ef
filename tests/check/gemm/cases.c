/* cases.c - the products that gemm.c computes. */
#include "cases.h"

#include <stdio.h>

static const char *const kind_names[KINDS] = {"normal", "equal", "huge", "tiny", "zeros", "not-finite"};

static const ptxpack_dtype dtypes[] = {PTXPACK_BF16, PTXPACK_F16};
/* Of A and B: 16 bits, or e4m3 with scales; or of B alone, after those; or RMSNorm(A). */
static const struct operands {
    const char         *name;
    ptxpack_dtype       dtype, dtype_b;
    ptxpack_gemm_scales scales;
    bool                norm;
} operands[] = {
    {"", (ptxpack_dtype)0, (ptxpack_dtype)0, PTXPACK_SCALES_TENSOR, false},
    {" e4m3-tensor", PTXPACK_E4M3, (ptxpack_dtype)0, PTXPACK_SCALES_TENSOR, false},
    {" e4m3-lines", PTXPACK_E4M3, (ptxpack_dtype)0, PTXPACK_SCALES_LINES, false},
    {" e4m3-blocks", PTXPACK_E4M3, (ptxpack_dtype)0, PTXPACK_SCALES_BLOCKS, false},
    {" b-tensor", (ptxpack_dtype)0, PTXPACK_E4M3, PTXPACK_SCALES_TENSOR, false},
    {" b-lines", (ptxpack_dtype)0, PTXPACK_E4M3, PTXPACK_SCALES_LINES, false},
    {" b-blocks", (ptxpack_dtype)0, PTXPACK_E4M3, PTXPACK_SCALES_BLOCKS, false},
    {" norm", (ptxpack_dtype)0, (ptxpack_dtype)0, PTXPACK_SCALES_TENSOR, true},
};
static const char *const order_names[] = {"rr", "rc", "cr", "cc"}; /* of A and of B: row, column */

/* Large sizes come first: they take longest.  `brief`: also on the emulated driver. */
static const struct size {
    int32_t m, n, k, batch;
    bool    brief;
} sizes[] = {
    {2048, 2048, 4096, 1, false}, {4096, 1032, 520, 1, false}, {520, 1000, 8192, 1, false},
    {1024, 1024, 1024, 2, false}, {777, 1333, 555, 2, false},  {257, 513, 129, 3, false},
    {512, 512, 64, 2, false},     {150, 300, 203, 2, true},    {17, 1000, 200, 2, false},
    {1000, 17, 72, 2, false},     {129, 65, 33, 1, true},      {128, 256, 64, 1, false},
    {64, 64, 32, 5, false},       {1, 300, 300, 1, false},     {300, 1, 300, 1, false},
    {8, 8, 8, 1, false},          {3, 5, 7, 2, true},          {1, 1, 1, 1, true},
    {100, 40, 0, 2, true},        {260, 264, 40, 3, true},     {147, 304, 203, 2, true},
    {1, 304, 200, 1, true},       {9, 48, 4136, 1, true},      {30, 72, 2200, 1, true},
    {64, 80, 1096, 1, true},      {5, 208, 2112, 1, true},     {13, 72, 1088, 1, true},
    {27, 104, 2240, 1, true},     {22, 112, 2240, 1, true},    {1, 80, 2112, 1, true},
    {4, 208, 1088, 1, true},      {6, 272, 1152, 1, true},     {14, 72, 2176, 1, true},
    {29, 208, 1152, 1, true},     {7, 32, 6208, 1, true},      {1, 208, 3200, 1, true},
    {3, 72, 1152, 1, true},
};

static const gemm_epilogue epilogues[] = {
    {"plain", 1, 1, false, false, false, PTXPACK_ACTIVATION_NONE},
    {"alpha-c", -0.7f, 1.3f, true, false, false, PTXPACK_ACTIVATION_NONE},
    {"bias-relu", 0.5f, 1, false, true, false, PTXPACK_ACTIVATION_RELU},
    {"c-bias-gelu", 0.2f, -0.5f, true, true, false, PTXPACK_ACTIVATION_GELU},
    {"c-in-place-silu", 0.3f, 1, true, false, true, PTXPACK_ACTIVATION_SILU},
    {"alpha-0-c", 0, 2, true, false, true, PTXPACK_ACTIVATION_NONE},
    {"bias-swiglu", 0.7f, 1, false, true, false, PTXPACK_ACTIVATION_SWIGLU},
    {"swiglu", 1, 1, false, false, false, PTXPACK_ACTIVATION_SWIGLU},
};
enum {
    SIZES = sizeof sizes / sizeof sizes[0],
    EPILOGUES = sizeof epilogues / sizeof epilogues[0],
    B_ALONE_SIZES = SIZES - 6,     /* from here on: for few rows of 16 bits, and a B of e4m3 or a norm */
    FEW_ROWS = B_ALONE_SIZES - 10, /* from here on: for the kernels of few rows */
    DTYPES = sizeof dtypes / sizeof dtypes[0],
    OPERANDS = sizeof operands / sizeof operands[0],
    ORDERS = 4,
    B_ALONE = 4 /* the first of operands */,
    NORM = OPERANDS - 1,
    FP8_ORDER = 1 /* rc */,
    LAYOUTS = 3 /* compact lines; lines with gaps; lines with gaps, and one A or B for the whole batch */
};
static const char *const layout_names[LAYOUTS] = {"close", "gapped", "shared"};

uint64_t gemm_case_number(const gemm_case *a)
{
    uint64_t n = (uint64_t)a->dtype + DTYPES * (uint64_t)a->operands;
    n = n * ORDERS + (uint64_t)a->order;
    n = n * SIZES + (uint64_t)a->size;
    n = n * EPILOGUES + (uint64_t)a->epilogue;
    n = n * LAYOUTS + (uint64_t)a->layout;
    return n * KINDS + (uint64_t)a->kind;
}

/* The part for the emulated driver: each order at a size with partial tiles; each type, epilogue, layout and
 * kind with one of them; the smallest sizes. */
static bool in_brief_matrix(const check *c, const gemm_case *a)
{
    bool partial = sizes[a->size].m == 150;
    if (a->size >= FEW_ROWS)
        return a->kind == NORMAL && a->layout == 1 && a->order == 1 &&
               a->dtype == (a->size + a->epilogue) % DTYPES &&
               (!c->quick || sizes[a->size].m == 9 || sizes[a->size].m == 5 || sizes[a->size].m == 27 ||
                sizes[a->size].m == 4);
    /* columns in pairs of eight; each order, both types, with the bias and without it */
    if (sizes[a->size].m == 147)
        return epilogues[a->epilogue].activation == PTXPACK_ACTIVATION_SWIGLU && a->kind == NORMAL &&
               a->layout == 1 && a->dtype == (a->order + a->epilogue) % DTYPES && (!c->quick || a->order == 1);
    if (!sizes[a->size].brief || (c->quick && !partial))
        return false;
    if (a->kind != NORMAL)
        return partial && a->epilogue == 0 && a->layout == 1 && a->order == (int)a->kind % ORDERS &&
               a->dtype == 0 && !c->quick;
    if (sizes[a->size].m == 260) /* several tiles a block, whose rows TMA can store */
        return a->epilogue == 1 && a->order == 1 && a->layout == 1 && a->dtype == 1;
    if (!partial) /* RELU and SILU of f16, too, for GPUs that have no bf16 */
        return a->layout == 1 && ((a->epilogue == a->order && a->dtype == (a->order & 1)) ||
                                  (sizes[a->size].m == 3 && a->dtype == 1 &&
                                   (a->epilogue == 2 || a->epilogue == 4) && a->epilogue % ORDERS == a->order));
    if (a->layout == 0)
        return a->epilogue == 0 && (a->dtype == 0 || a->order == 1);
    return a->epilogue > 0 && a->order == a->epilogue % ORDERS && a->dtype == a->epilogue % DTYPES &&
           a->layout == 1 + a->epilogue % 2;
}

/* Of e4m3 for the emulated driver: partial tiles that begin in the middle of a block of scales; several tiles a block; long
 * sums, of equal values, too, where a sum of more than 128 products would be far too small. */
static bool in_brief_fp8(const check *c, const gemm_case *a)
{
    const int m = sizes[a->size].m;
    if (a->kind != NORMAL)
        return !c->quick && a->epilogue == 0 && a->layout == 1 && a->dtype == 0 &&
               (m == 9 ? a->kind == EQUAL : m == 147 && a->kind != EQUAL);
    if (m == 147)
        return a->layout == a->epilogue % LAYOUTS && a->dtype == (a->epilogue + a->operands) % DTYPES &&
               (!c->quick || a->epilogue % 2 == 0);
    return !c->quick && a->layout == 1 && a->dtype == 1 &&
           (m == 9 ? a->epilogue == 0 : (m == 260 || m == 64) && a->epilogue == 1);
}

/* Of a B of e4m3 alone, and of norms, for the emulated driver: scales of blocks that are not whole, parts of k. */
static bool in_brief_b_alone(const check *c, const gemm_case *a)
{
    if (a->kind != NORMAL)
        return !c->quick && sizes[a->size].m == 6 && a->epilogue == 0 && a->layout == 1 &&
               (a->operands == NORM || a->operands == B_ALONE + (int)a->kind % 3) &&
               a->dtype == (int)a->kind / 2 % DTYPES;
    if (a->layout == 0) /* without an address of the matrix's scale */
        return a->operands == B_ALONE && a->epilogue == 0 && a->dtype == 0 && sizes[a->size].m == 14;
    return a->dtype == (a->size + a->epilogue + a->operands) % DTYPES &&
           (a->size + a->epilogue + a->operands) % (c->quick ? 5 : 3) == 0;
}

/* Of norms one of the other sizes, too: there each row of kernels.def has parts of k somewhere. */
static bool is_taken_size(const gemm_case *a)
{
    const struct size *s = &sizes[a->size];
    return a->operands == NORM      ? a->size >= B_ALONE_SIZES || s->m == 27
           : a->operands >= B_ALONE ? a->size >= B_ALONE_SIZES && s->k % 128 == 0
                                    : a->size < B_ALONE_SIZES;
}

/* The kernels of e4m3 have one order and an n that is a multiple of 8, and scales of blocks want a k. */
static bool is_taken(const gemm_case *a)
{
    const struct size *s = &sizes[a->size];
    if (!is_taken_size(a))
        return false;
    return a->operands == 0 || (a->order == FP8_ORDER && s->n % 8 == 0 &&
                                (s->k > 0 || operands[a->operands].scales != PTXPACK_SCALES_BLOCKS));
}

static bool in_matrix(const check *c, const gemm_case *a)
{
    const struct size *s = &sizes[a->size];
    bool some_size = s->m == 150 || s->m == 777 || s->m == 129 || (a->operands != 0 && s->m == 147);
    if ((a->layout == LAYOUTS - 1 && s->batch == 1) ||
        (epilogues[a->epilogue].activation == PTXPACK_ACTIVATION_SWIGLU && s->n % 16 != 0))
        return false;
    if (!is_taken(a))
        return false;
    if (c->brief)
        return a->operands >= B_ALONE ? in_brief_b_alone(c, a)
               : a->operands != 0     ? in_brief_fp8(c, a)
                                      : in_brief_matrix(c, a);
    if (a->operands >= B_ALONE)
        return a->kind == NORMAL || (a->epilogue == 0 && a->layout == 1);
    if (a->operands != 0 && s->m == 9 && a->kind == EQUAL)
        return a->epilogue == 0 && a->layout == 1;
    if (c->quick &&
        (!(some_size || s->m == 1 || s->k == 0) || a->layout == 0 || (a->epilogue + a->order) % 3 != 0))
        return false;
    if (a->kind != NORMAL)
        return some_size && a->layout == 1 && (a->epilogue == 0 || (a->kind != NOT_FINITE && a->epilogue == 2));
    return (double)s->m * s->n * s->k < 1e9 || (a->layout == 0 && (a->epilogue == 0 || a->epilogue == 3));
}

/* Gaps are multiples of `unit` elements: 16 bytes. */
static int64_t spread(int64_t length, int layout, int64_t gap, int64_t unit)
{
    return (length + unit - 1) / unit * unit + (layout == 0 ? 0 : gap * unit);
}

ptxpack_gemm_desc gemm_case_desc(const gemm_case *a)
{
    const struct size   *s = &sizes[a->size];
    const gemm_epilogue *e = &epilogues[a->epilogue];
    bool                 a_column = a->order / 2 != 0, b_column = a->order % 2 != 0;
    int64_t              a_lines = a_column ? s->k : s->m, b_lines = b_column ? s->n : s->k;
    ptxpack_gemm_desc    d = {.size = sizeof d,
                              .dtype = dtypes[a->dtype],
                              .m = s->m,
                              .n = s->n,
                              .k = s->k,
                              .batch = s->batch,
                              .order_a = a_column ? PTXPACK_COLUMN_MAJOR : PTXPACK_ROW_MAJOR,
                              .order_b = b_column ? PTXPACK_COLUMN_MAJOR : PTXPACK_ROW_MAJOR,
                              .has_c = e->has_c,
                              .has_bias = e->has_bias,
                              .activation = e->activation,
                              .dtype_ab = operands[a->operands].dtype,
                              .scales = operands[a->operands].scales,
                              .dtype_b = operands[a->operands].dtype_b,
                              .norm_a = operands[a->operands].norm,
                              .norm_eps = operands[a->operands].norm ? 0.25f : 0};
    const int64_t        unit = 16 / (int64_t)ptxpack_dtype_bytes(gemm_type(&d, GEMM_A));
    const int64_t        unit_b = 16 / (int64_t)ptxpack_dtype_bytes(gemm_type(&d, GEMM_B));
    d.stride_a = spread(a_column ? s->m : s->k, a->layout, 1, unit);
    d.stride_b = spread(b_column ? s->k : s->n, a->layout, 3, unit_b);
    d.stride_d = spread(gemm_columns(&d), a->layout, 2, 8);
    d.stride_c = e->in_place ? d.stride_d : spread(s->n, a->layout, 1, 8);
    d.batch_a = a_lines * d.stride_a + (a->layout != 0 ? 2 * unit : 0);
    d.batch_b = b_lines * d.stride_b + (a->layout != 0 ? unit_b : 0);
    d.batch_d = s->m * d.stride_d + (a->layout != 0 ? 32 : 0);
    d.batch_c = e->in_place ? d.batch_d : s->m * d.stride_c;
    if (a->layout == LAYOUTS - 1) { /* one A or B, and one C, for the whole batch */
        *(a->order % 2 != 0 ? &d.batch_a : &d.batch_b) = -1;
        d.batch_c = e->in_place ? d.batch_c : -1;
    }
    return d;
}

void gemm_case_name(const gemm_case *a, char name[128])
{
    const struct size *s = &sizes[a->size];
    snprintf(name, 128, "gemm %s%s %s %dx%dx%d batch %d %s %s %s", ptxpack_dtype_name(dtypes[a->dtype]),
             operands[a->operands].name, order_names[a->order], (int)s->m, (int)s->n, (int)s->k, (int)s->batch,
             epilogues[a->epilogue].name, layout_names[a->layout], kind_names[a->kind]);
}

const gemm_epilogue *gemm_case_epilogue(const gemm_case *a) { return &epilogues[a->epilogue]; }

bool gemm_case_is_for_few_rows(const gemm_case *a) { return a->size >= FEW_ROWS && a->operands == 0; }

/* ---- all of them ---------------------------------------------------------------------------------- */
enum { ALL = DTYPES * OPERANDS * ORDERS * SIZES * EPILOGUES * LAYOUTS * KINDS };
/* Enumerates all cases by size, so that the longest come first. */
static gemm_case case_at(int index)
{
    gemm_case a = {.dtype = index % DTYPES};
    index /= DTYPES;
    a.operands = index % OPERANDS;
    index /= OPERANDS;
    a.order = index % ORDERS;
    index /= ORDERS;
    a.epilogue = index % EPILOGUES;
    index /= EPILOGUES;
    a.layout = index % LAYOUTS;
    index /= LAYOUTS;
    a.kind = (data_kind)(index % KINDS);
    a.size = index / KINDS;
    return a;
}

size_t gemm_cases_list(check *c, gemm_case *cases)
{
    size_t count = 0;
    for (int i = 0; i < ALL; i++) {
        gemm_case a = case_at(i);
        char      name[128];
        gemm_case_name(&a, name);
        if (in_matrix(c, &a) && check_wanted(c, name))
            cases[count++] = a;
    }
    return count;
}

size_t gemm_cases_most(void) { return ALL; }
