/* mma_kind.c - mma.sync with .kind: floats of 8, 6 and 4 bits, with and without block scaling.
 *
 * Elements   .kind::f8f6f4 and .kind::mxf8f6f4 have a byte for each element: 6 bits are the lower ones, 4 bits the
 *            middle ones (2 to 5).  The other bits of the byte are ignored.  .kind::mxf4 and .kind::mxf4nvf4 have 8
 *            elements in a register.
 * Factors    With lane = 4 g + q, the factors of row g + 8 i of A (i = 0, 1) are in lane 4 g + 2 thread-id-a + i,
 *            those of column g of B in lane 4 g + thread-id-b.  byte-id is the byte of the first one, for chunk 0
 *            along k; the others follow it.
 * Arithmetic The products of .kind::f8f6f4 are as tensor.h says; block scaling with one factor adds exponents to
 *            those of the products, and that of e2m1 is in block_scale.c.  All this is as published for RTX Blackwell
 *            GPUs and was not compared with one. */
#include "mma.h"
#include "tools/emu/machine/undefined.h"

enum { ROWS = 16, COLUMNS = 8, MOST_FACTORS = 4, SELECTORS = 4 };

#define ALL_TYPES "e4m3|e5m2|e3m2|e2m3|e2m1"
static const struct kind {
    const char *name;
    int         k;
    const char *types, *d;
    int         vector; /* factors of a row of A; 0: it is not scaled */
    const char *vector_word, *scale;
    bool        optional; /* the word may be left out */
    int         sm, isa;
} kinds[] = {
    {"kind::f8f6f4", 16, "e4m3|e5m2", "f16|f32", 0, NULL, NULL, false, 100, 86},
    {"kind::f8f6f4", 32, "e4m3|e5m2", "f16|f32", 0, NULL, NULL, false, 100, 86},
    {"kind::f8f6f4", 32, ALL_TYPES, "f16|f32", 0, NULL, NULL, false, 120, 87},
    {"kind::mxf8f6f4", 32, ALL_TYPES, "f32", 1, "scale_vec::1X", "ue8m0", true, 120, 87},
    {"kind::mxf4", 64, "e2m1", "f32", 2, "scale_vec::2X", "ue8m0", true, 120, 87},
    {"kind::mxf4nvf4", 64, "e2m1", "f32", 2, "scale_vec::2X", "ue8m0", false, 120, 87},
    {"kind::mxf4nvf4", 64, "e2m1", "f32", 4, "scale_vec::4X", "ue4m3", false, 120, 87},
    {"kind::mxf4nvf4", 64, "e2m1", "f32", 4, "scale_vec::4X", "ue8m0", false, 120, 91},
};

struct plan {
    struct tensor_product  p;
    struct mma_fragments   f;
    int                    a_shift, b_shift; /* where an element begins in its place */
    int                    c_count;
    const struct kind     *kind;
    enum tensor_scale_type scale;
    int                    a_factors, b_factors; /* op->source[..]; the selectors are the first sources */
};

/* ---- factors ------------------------------------------------------------------------------------------- */
struct factors {
    struct tensor_scale a[ROWS * MOST_FACTORS], b[MOST_FACTORS * COLUMNS];
    uint32_t            a_undefined, b_undefined; /* rows and columns */
};

static bool selector_is_good(int vector, int which, uint32_t value)
{
    if (which % 2 != 0) /* thread-id-a, thread-id-b */
        return value < (which == 1 ? 2u : 4u);
    return value < 4 && value % (unsigned int)vector == 0;
}

static const char *const selectors[SELECTORS] = {"byte-id-a", "thread-id-a", "byte-id-b", "thread-id-b"};

/* All threads must name the same valid bytes and threads. */
static bool read_selectors(struct emu_warp *w, const struct emu_op *op, int vector, uint32_t out[SELECTORS])
{
    for (int i = 0; i < SELECTORS; i++) {
        const uint32_t *row = emu_r32(w, op->source[i]);
        out[i] = row[0] & 0xffff;
        for (int l = 0; l < EMU_LANES; l++)
            if ((row[l] & 0xffff) != out[i]) {
                emu_fault(w, op, l, 715, "%s is %u in this thread and %u in the first one", selectors[i],
                          row[l] & 0xffff, out[i]);
                return false;
            }
        if (!selector_is_good(vector, i, out[i])) {
            emu_fault(w, op, -1, 715, "%s is %u, which selects nothing of .scale_vec::%dX", selectors[i],
                      out[i], vector);
            return false;
        }
    }
    return true;
}

/* The factors of lane `lane`, from byte `byte` on, go to out[0], out[step], ..; true: some bit is undefined. */
static bool read_lane(const struct emu_warp *w, const struct plan *plan, emu_reg reg, int lane, uint32_t byte,
                      struct tensor_scale *out, int step)
{
    const uint32_t word = emu_r32(w, reg)[lane];
    uint64_t       undefined = 0;
    if (w->missing && emu_undefined_lanes(w, reg, 1u << lane))
        undefined = emu_undefined_get(w, reg, lane).low;
    for (int i = 0; i < plan->kind->vector; i++)
        out[i * step] = tensor_scale_of(plan->scale, word >> 8 * (byte + (uint32_t)i) & 0xff);
    return (undefined >> 8 * byte & emu_ones(8u * (unsigned int)plan->kind->vector)) != 0;
}

static bool read_factors(struct emu_warp *w, const struct emu_op *op, const struct plan *plan,
                         struct factors *out)
{
    const int vector = plan->kind->vector;
    uint32_t  select[SELECTORS];
    if (!read_selectors(w, op, vector, select))
        return false;
    out->a_undefined = out->b_undefined = 0;
    for (int m = 0; m < ROWS; m++) {
        const int lane = 4 * (m % 8) + 2 * (int)select[1] + m / 8;
        if (read_lane(w, plan, op->source[plan->a_factors], lane, select[0], out->a + m * vector, 1))
            out->a_undefined |= 1u << m;
    }
    for (int n = 0; n < COLUMNS; n++)
        if (read_lane(w, plan, op->source[plan->b_factors], 4 * n + (int)select[3], select[2], out->b + n,
                      COLUMNS))
            out->b_undefined |= 1u << n;
    return true;
}

/* ---- execution ----------------------------------------------------------------------------------------- */
static void take_elements(uint32_t *x, int count, uint32_t mask, int shift)
{
    for (int i = 0; i < count; i++)
        x[i] = (x[i] & mask) >> shift;
}

/* One factor for a row of A and a column of B. */
static void multiply_scaled(const struct plan *plan, const uint32_t *a, const uint32_t *b,
                            const struct factors *s, uint32_t *c)
{
    struct tensor_product p = plan->p;
    int                   a_exponent[ROWS], b_exponent[COLUMNS];
    for (int m = 0; m < ROWS; m++)
        a_exponent[m] = s->a[m].exponent;
    for (int n = 0; n < COLUMNS; n++)
        b_exponent[n] = s->b[n].exponent;
    p.a_exponent = a_exponent;
    p.b_exponent = b_exponent;
    tensor_multiply(&p, a, b, c);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        if (s->a[i / COLUMNS].significand < 0 || s->b[i % COLUMNS].significand < 0)
            c[i] = 0x7fffffff;
}

static void exec_kind(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const struct plan *plan = (const struct plan *)op->data;
    const emu_reg     *from = op->source + plan->f.first;
    struct factors     s = {.a_undefined = 0, .b_undefined = 0};
    uint32_t           a[ROWS * TENSOR_MOST_K], b[TENSOR_MOST_K * COLUMNS], c[ROWS * COLUMNS];
    if (!mma_whole_warp(w, op, mask) || (plan->kind->vector && !read_factors(w, op, plan, &s)))
        return;
    tensor_gather_a(w, from, &plan->f.a, a);
    tensor_gather_b(w, from + plan->f.a_count, &plan->f.b, b);
    tensor_gather_c(w, from + plan->f.a_count + plan->f.b_count, &plan->f.c, c);
    take_elements(a, ROWS * plan->p.k, plan->f.a_mask, plan->a_shift);
    take_elements(b, plan->p.k * COLUMNS, plan->f.b_mask, plan->b_shift);
    if (plan->kind->vector == 0)
        tensor_multiply(&plan->p, a, b, c);
    else if (plan->kind->vector == 1)
        multiply_scaled(plan, a, b, &s, c);
    else
        tensor_multiply_e2m1(plan->kind->vector, a, b, s.a, s.b, c);
    tensor_scatter_c(w, op->result, &plan->f.c, c);
    if (w->missing)
        mma_undefined(w, op, &plan->f, s.a_undefined, s.b_undefined);
    else
        emu_define_results(w, op, mask);
    mma_count(w, op, ROWS, COLUMNS, (uint64_t)plan->p.k);
}

/* ---- decoding ------------------------------------------------------------------------------------------ */
struct text {
    struct mma_shape shape;
    enum tensor_type d, a, b, c;
    const char      *kind, *vector, *scale; /* NULL: it is missing */
    bool             block_scale;
};

/* The type of the factors follows the others. */
static bool read_types(struct decoder *d, struct text *t)
{
    const char *text;
    int         types = 0;
    for (unsigned int at = 0; (text = decode_unread(d, &at)) != NULL;) {
        types += tensor_type_find(text) != TENSOR_TYPES;
        if (strncmp(text, "ue", 2) == 0 && types == 4 && t->scale == NULL)
            t->scale = text;
    }
    return (t->d = mma_take_type(d)) != TENSOR_TYPES && (t->a = mma_take_type(d)) != TENSOR_TYPES &&
           (t->b = mma_take_type(d)) != TENSOR_TYPES && (t->c = mma_take_type(d)) != TENSOR_TYPES &&
           (t->scale == NULL || decode_take(d, t->scale));
}

static bool read_modifiers(struct decoder *d, struct text *t)
{
    bool a_row, b_row;
    if (decode_take(d, "sp") || decode_take(d, "sp::ordered_metadata"))
        return decode_refuse(d, "sparse matrices are not supported");
    if (!decode_take(d, "sync") || !decode_take(d, "aligned"))
        return decode_refuse(d, ".sync.aligned is missing");
    if (!mma_take_shape(d, &t->shape) || !mma_take_major(d, &a_row) || !mma_take_major(d, &b_row))
        return false;
    if (!a_row || b_row)
        return decode_refuse(d, "only .row.col exists for this shape");
    t->kind = decode_begins(d, "kind::");
    if (t->kind == NULL)
        return decode_refuse(d, ".block_scale needs a .kind");
    decode_take(d, t->kind);
    t->block_scale = decode_take(d, "block_scale");
    t->vector = decode_begins(d, "scale_vec::");
    if (t->vector != NULL)
        decode_take(d, t->vector);
    return read_types(d, t) && decode_end(d);
}

static bool fits(const struct kind *x, const struct text *t)
{
    const bool scaled = x->vector != 0;
    return strcmp(x->name, t->kind) == 0 && t->shape.m == ROWS && t->shape.n == COLUMNS && t->shape.k == x->k &&
           mma_set_has(x->types, t->a) && mma_set_has(x->types, t->b) && mma_set_has(x->d, t->d) &&
           t->c == t->d && t->block_scale == scaled &&
           (t->scale != NULL ? scaled && strcmp(t->scale, x->scale) == 0 : !scaled) &&
           (t->vector != NULL ? scaled && strcmp(t->vector, x->vector_word) == 0 : !scaled || x->optional);
}

static bool make_plan(struct decoder *d, const struct text *t, struct plan *plan)
{
    size_t i = 0;
    while (i < sizeof kinds / sizeof kinds[0] && !fits(&kinds[i], t))
        i++;
    if (i == sizeof kinds / sizeof kinds[0])
        return decode_refuse(d, "no mma of .%s has this shape, these types and this scaling", t->kind);
    const struct kind *x = plan->kind = &kinds[i];
    if (!decode_need_suffix_from(d, x->sm) || !decode_need_isa(d, x->isa))
        return false;
    const unsigned int place = x->k == 64 ? 4 : 8; /* bits */
    plan->p = (struct tensor_product){.m = ROWS, .n = COLUMNS, .k = x->k, .a = t->a, .b = t->b, .c = t->d};
    plan->p.rule = tensor_rule_of(d->sm, TENSOR_MMA, t->a, ROWS, x->k);
    plan->a_shift = place == 8 && t->a == TENSOR_e2m1 ? 2 : 0;
    plan->b_shift = place == 8 && t->b == TENSOR_e2m1 ? 2 : 0;
    plan->f.a = (struct tensor_fragment){ROWS, x->k, place};
    plan->f.b = (struct tensor_fragment){x->k, COLUMNS, place};
    plan->f.c = (struct tensor_fragment){ROWS, COLUMNS, tensor_type_bits(t->d)};
    plan->f.a_mask = (uint32_t)emu_ones(tensor_type_bits(t->a)) << plan->a_shift;
    plan->f.b_mask = (uint32_t)emu_ones(tensor_type_bits(t->b)) << plan->b_shift;
    plan->f.a_count = tensor_registers_a(&plan->f.a);
    plan->f.b_count = tensor_registers_b(&plan->f.b);
    plan->c_count = tensor_registers_c(&plan->f.c);
    plan->scale = x->scale != NULL && strcmp(x->scale, "ue4m3") == 0 ? TENSOR_ue4m3 : TENSOR_ue8m0;
    return true;
}

/* {byte-id, thread-id}: registers, or constants, which must be valid. */
static bool read_selector(struct decoder *d, unsigned int number, int vector, int first)
{
    unsigned int              count = 0;
    const struct ptx_operand *operand = decode_operand(d, number);
    const struct ptx_operand *items = operand != NULL ? decode_items(operand, &count) : NULL;
    if (items == NULL || operand->kind != PTX_OP_LIST || count != 2)
        return decode_refuse(d, "operand %u must be {byte-id, thread-id}", number + 1);
    for (int i = 0; i < 2; i++) {
        if (items[i].kind == PTX_OP_INTEGER &&
            (items[i].integer >> 32 != 0 || !selector_is_good(vector, first + i, (uint32_t)items[i].integer)))
            return decode_refuse(d, "%s is %lld, which selects nothing of .scale_vec::%dX",
                                 selectors[first + i], (long long)items[i].integer, vector);
        if (items[i].kind != PTX_OP_INTEGER && items[i].kind != PTX_OP_REGISTER)
            return decode_refuse(d, "%s must be a register or a constant", selectors[first + i]);
        if (decode_source_of(d, &items[i], PTX_u16) == EMU_NO_REG)
            return false;
    }
    return true;
}

/* A register of 32 bits, or the first one of a list: ptxas takes lists of any length. */
static bool read_factor(struct decoder *d, unsigned int number)
{
    unsigned int              count = 0;
    const struct ptx_operand *operand = decode_operand(d, number);
    const struct ptx_operand *items = operand != NULL ? decode_items(operand, &count) : NULL;
    if (items == NULL || count == 0 || items->kind != PTX_OP_REGISTER)
        return decode_refuse(d, "operand %u must be a register with factors", number + 1);
    return decode_source_of(d, items, PTX_b32) != EMU_NO_REG;
}

bool mma_decode_kind(struct decoder *d, struct emu_op *op)
{
    struct text  t = {.kind = NULL};
    struct plan *plan = (struct plan *)decode_alloc(d, 1, sizeof *plan);
    if (plan == NULL || !read_modifiers(d, &t) || !make_plan(d, &t, plan))
        return false;
    const int           vector = plan->kind->vector;
    const unsigned int  operands = vector ? 8 : 4;
    const enum ptx_type of_ab = vector || t.d == TENSOR_f16 ? PTX_f16x2
                                                            : PTX_b32; /* so does ptxas take registers */
    if (!decode_operands(d, operands, operands) ||
        (vector && (!read_selector(d, 5, vector, 0) || !read_selector(d, 7, vector, 2))))
        return false;
    op->tried = (uint8_t)op->source_count;
    plan->f.first = (int)op->source_count;
    if (!mma_results(d, 0, plan->c_count, mma_register_type(t.d)) ||
        !mma_matrix(d, 1, plan->f.a_count, of_ab) || !mma_matrix(d, 2, plan->f.b_count, of_ab) ||
        !mma_sources(d, 3, plan->c_count, mma_register_type(t.c)))
        return false;
    plan->a_factors = (int)op->source_count;
    plan->b_factors = plan->a_factors + 1;
    if (vector && (!read_factor(d, 4) || !read_factor(d, 6)))
        return false;
    op->exec = exec_kind;
    op->undefined = EMU_UNDEFINED_OWN;
    op->flags |= EMU_OP_ALIGNED | EMU_OP_DEFINES;
    op->class_ = EMU_CLASS_tensor;
    op->data = plan;
    return true;
}
