/* mma.c - mma.sync: a warp multiplies small matrices that lie in its registers. */
#include <stdio.h>

#include "mma.h"

/* ---- modifiers ----------------------------------------------------------------------------------------- */
bool mma_take_shape(struct decoder *d, struct mma_shape *out)
{
    const char *text;
    int         end = 0;
    for (unsigned int at = 0; (text = decode_unread(d, &at)) != NULL;)
        if (sscanf(text, "m%3dn%3dk%3d%n", &out->m, &out->n, &out->k, &end) == 3 && text[end] == '\0')
            return decode_take(d, text);
    return decode_refuse(d, "a shape of matrices is missing, such as .m16n8k16");
}

enum tensor_type mma_peek_type(const struct decoder *d)
{
    const char *text;
    for (unsigned int at = 0; (text = decode_unread(d, &at)) != NULL;)
        if (tensor_type_find(text) != TENSOR_TYPES)
            return tensor_type_find(text);
    return TENSOR_TYPES;
}

enum tensor_type mma_take_type(struct decoder *d)
{
    enum tensor_type type = mma_peek_type(d);
    if (type == TENSOR_TYPES)
        decode_refuse(d, "a type of matrix elements is missing");
    else
        decode_take(d, tensor_type_name(type));
    return type;
}

bool mma_take_major(struct decoder *d, bool *row)
{
    static const char *const words[] = {"row", "col", NULL};
    const int                major = decode_one_of(d, words);
    *row = major == 0;
    return major >= 0 || decode_refuse(d, ".row or .col is missing");
}

bool mma_set_has(const char *set, enum tensor_type type)
{
    const char  *name = tensor_type_name(type);
    const size_t length = strlen(name);
    for (; set != NULL; set = strchr(set, '|') != NULL ? strchr(set, '|') + 1 : NULL)
        if (strncmp(set, name, length) == 0 && (set[length] == '\0' || set[length] == '|'))
            return true;
    return false;
}

/* ---- operands ------------------------------------------------------------------------------------------ */
static const struct ptx_operand *items_of(struct decoder *d, unsigned int number, int count)
{
    unsigned int              found = 0;
    const struct ptx_operand *operand = decode_operand(d, number);
    const struct ptx_operand *items = operand != NULL ? decode_items(operand, &found) : NULL;
    if (items != NULL && operand->kind != PTX_OP_LIST) {
        decode_refuse(d, "operand %u must be a list in braces", number + 1);
        return NULL;
    }
    if (items != NULL && found != (unsigned int)count) {
        decode_refuse(d, "operand %u has %u registers, not %d", number + 1, found, count);
        return NULL;
    }
    return items;
}

bool mma_sources(struct decoder *d, unsigned int number, int count, enum ptx_type type)
{
    const struct ptx_operand *items = items_of(d, number, count);
    const enum ptx_type       of_constants = type == PTX_f16x2 || type == PTX_bf16x2 ? PTX_b32 : type;
    for (int i = 0; i < count && items != NULL; i++)
        if (decode_source_of(d, &items[i], items[i].kind == PTX_OP_REGISTER ? type : of_constants) ==
            EMU_NO_REG)
            return false;
    return items != NULL;
}

bool mma_matrix(struct decoder *d, unsigned int number, int count, enum ptx_type type)
{
    const struct ptx_operand *items = items_of(d, number, count);
    int                       registers = 0;
    for (int i = 0; i < count && items != NULL; i++)
        registers += items[i].kind == PTX_OP_REGISTER;
    if (items != NULL && registers == 0)
        return decode_refuse(d, "operand %u has no register", number + 1);
    for (int i = 0; i < count && items != NULL; i++)
        if (decode_source_of(d, &items[i], items[i].kind == PTX_OP_REGISTER ? type : PTX_b32) == EMU_NO_REG)
            return false;
    return items != NULL;
}

bool mma_results(struct decoder *d, unsigned int number, int count, enum ptx_type type)
{
    const struct ptx_operand *items = items_of(d, number, count);
    for (int i = 0; i < count && items != NULL; i++)
        if (decode_result_of(d, &items[i], type) == EMU_NO_REG)
            return false;
    return items != NULL;
}

bool mma_whole_warp(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    if (mask == EMU_ALL)
        return true;
    emu_fault(w, op, -1, 715,
              "all 32 threads of the warp must execute this together, but only those of 0x%08x do", mask);
    return false;
}

/* ---- execution ----------------------------------------------------------------------------------------- */
struct plan {
    struct tensor_product p;
    struct mma_fragments  f;
    int                   c_count;                /* registers */
    bool                  a_row, b_col, c_is_f16; /* m8n8k4 of f16 */
};

static void exec_mma(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const struct plan *plan = (const struct plan *)op->data;
    uint32_t           a[16 * TENSOR_MOST_K], b[TENSOR_MOST_K * 8], c[16 * 8];
    if (!mma_whole_warp(w, op, mask))
        return;
    tensor_gather_a(w, op->source, &plan->f.a, a);
    tensor_gather_b(w, op->source + plan->f.a_count, &plan->f.b, b);
    tensor_gather_c(w, op->source + plan->f.a_count + plan->f.b_count, &plan->f.c, c);
    tensor_multiply(&plan->p, a, b, c);
    tensor_scatter_c(w, op->result, &plan->f.c, c);
    if (w->missing)
        mma_undefined(w, op, &plan->f, 0, 0);
    else
        emu_define_results(w, op, mask);
    mma_count(w, op, (uint64_t)plan->p.m, (uint64_t)plan->p.n, (uint64_t)plan->p.k);
}

static void exec_f64(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const struct plan           *plan = (const struct plan *)op->data;
    const struct tensor_product *p = &plan->p;
    uint64_t                     a[16 * 16], b[16 * 8], c[16 * 8];
    if (!mma_whole_warp(w, op, mask))
        return;
    tensor_gather_a64(w, op->source, p->m, p->k, a);
    tensor_gather_b64(w, op->source + plan->f.a_count, p->k, p->n, b);
    tensor_gather_c64(w, op->source + plan->f.a_count + plan->f.b_count, p->m, p->n, c);
    tensor_multiply_f64(p->m, p->n, p->k, a, b, c);
    tensor_scatter_c64(w, op->result, p->m, p->n, c);
    mma_count(w, op, (uint64_t)p->m, (uint64_t)p->n, (uint64_t)p->k);
}

static uint32_t f32_of_f16(uint32_t bits)
{
    float    x = (float)tensor_double_of_f16(bits);
    uint32_t out;
    memcpy(&out, &x, sizeof out);
    return out;
}

/* Four products, each of two quads. */
static void exec_quad_pairs(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const struct plan *plan = (const struct plan *)op->data;
    const emu_reg     *from_b = op->source + plan->f.a_count, *from_c = from_b + plan->f.b_count;
    uint32_t           a[8 * 4], b[4 * 8], c[TENSOR_QUAD_PAIRS][8 * 8];
    if (!mma_whole_warp(w, op, mask))
        return;
    for (int pair = 0; pair < TENSOR_QUAD_PAIRS; pair++) {
        tensor_gather_quad_a(w, op->source, pair, plan->a_row, a);
        tensor_gather_quad_b(w, from_b, pair, plan->b_col, b);
        tensor_gather_quad_c(w, from_c, pair, plan->c_is_f16 ? 16 : 32, c[pair]);
        for (int i = 0; i < 8 * 8 && plan->c_is_f16 && plan->p.c == TENSOR_f32; i++)
            c[pair][i] = f32_of_f16(c[pair][i]);
        tensor_multiply(&plan->p, a, b, c[pair]);
    }
    for (int pair = 0; pair < TENSOR_QUAD_PAIRS; pair++)
        tensor_scatter_quad_c(w, op->result, pair, plan->f.c.bits, c[pair]);
    mma_count(w, op, TENSOR_QUAD_PAIRS * 8, 8, 4);
}

/* ---- decoding ------------------------------------------------------------------------------------------ */
struct row {
    int         m, n, k;
    const char *a, *b, *d;
    int         sm, isa;
};
static const struct row rows[] = {
#define SHAPE(m, n, k, a, b, d, sm, isa) {m, n, k, a, b, d, sm, isa},
#include "mma_shapes.def"
#undef SHAPE
};

static const struct row *find_row(const struct tensor_product *p)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].m == p->m && rows[i].n == p->n && rows[i].k == p->k && mma_set_has(rows[i].a, p->a) &&
            mma_set_has(rows[i].b, p->b) && mma_set_has(rows[i].d, p->c))
            return &rows[i];
    return NULL;
}

struct text { /* the meaning of the modifiers */
    struct mma_shape shape;
    enum tensor_type d, a, b, c;
    bool             a_row, b_row, saturates, popc;
    enum tensor_bits bits;
};

static bool read_modifiers(struct decoder *d, struct text *t)
{
    if (decode_take(d, "sp") || decode_take(d, "sp::ordered_metadata"))
        return decode_refuse(d, "sparse matrices are not supported");
    if (!decode_take(d, "sync") || !decode_take(d, "aligned"))
        return decode_refuse(d, ".sync.aligned is missing");
    if (!mma_take_shape(d, &t->shape) || !mma_take_major(d, &t->a_row) || !mma_take_major(d, &t->b_row))
        return false;
    t->saturates = decode_take(d, "satfinite");
    if ((t->d = mma_take_type(d)) == TENSOR_TYPES || (t->a = mma_take_type(d)) == TENSOR_TYPES ||
        (t->b = mma_take_type(d)) == TENSOR_TYPES || (t->c = mma_take_type(d)) == TENSOR_TYPES)
        return false;
    t->bits = decode_take(d, "and") ? TENSOR_AND : TENSOR_XOR;
    if (t->a == TENSOR_b1 && t->bits == TENSOR_XOR && !decode_take(d, "xor"))
        return decode_refuse(d, "b1 needs .xor or .and");
    t->popc = decode_take(d, "popc");
    return decode_end(d);
}

static bool make_plan(struct decoder *d, const struct text *t, struct plan *plan)
{
    const bool quads = t->shape.k == 4 && t->a == TENSOR_f16;
    const bool mixed = quads && t->d == TENSOR_f32 && t->c == TENSOR_f16;
    plan->p = (struct tensor_product){.m = t->shape.m,
                                      .n = t->shape.n,
                                      .k = t->shape.k,
                                      .a = t->a,
                                      .b = t->b,
                                      .c = t->d,
                                      .bits = t->bits,
                                      .saturates = t->saturates};
    const struct row *row = find_row(&plan->p);
    if (row == NULL || (t->c != t->d && !mixed))
        return decode_refuse(d, "no mma of this shape has these types");
    if ((!t->a_row || t->b_row) && !quads)
        return decode_refuse(d, "only .row.col exists for this shape");
    if ((t->saturates && t->d != TENSOR_s32) || (t->saturates && t->a == TENSOR_b1))
        return decode_refuse(d, ".satfinite does not exist for these types");
    if (t->popc != (t->a == TENSOR_b1) || (t->bits == TENSOR_AND && !t->popc))
        return decode_refuse(d, ".popc and b1 need each other");
    if (!decode_need_sm(d, t->bits == TENSOR_AND ? 80 : row->sm) ||
        !decode_need_isa(d, t->bits == TENSOR_AND ? 71 : row->isa))
        return false;
    plan->p.rule = tensor_rule_of(d->sm, TENSOR_MMA, t->a, t->shape.m, t->shape.k);
    plan->a_row = t->a_row;
    plan->b_col = !t->b_row;
    plan->c_is_f16 = t->c == TENSOR_f16;
    return true;
}

static void count_registers(const struct text *t, struct plan *plan)
{
    const struct tensor_product *p = &plan->p;
    const bool                   bits = p->a == TENSOR_b1;
    plan->f.a = (struct tensor_fragment){p->m, bits ? p->k / 32 : p->k, bits ? 32 : tensor_type_bits(p->a)};
    plan->f.b = (struct tensor_fragment){plan->f.a.columns, p->n, plan->f.a.bits};
    plan->f.c = (struct tensor_fragment){p->m, p->n, tensor_type_bits(p->c)};
    if (p->rule.method == TENSOR_BY_FMA) {
        plan->f.a_count = plan->f.b_count = 2;
        plan->c_count = t->c == TENSOR_f16 ? 4 : 8;
        return;
    }
    plan->f.a_count = tensor_registers_a(&plan->f.a);
    plan->f.b_count = tensor_registers_b(&plan->f.b);
    plan->c_count = tensor_registers_c(&plan->f.c);
}

enum ptx_type mma_register_type(enum tensor_type type)
{
    switch (type) {
    case TENSOR_f64:
        return PTX_f64;
    case TENSOR_f32:
        return PTX_f32;
    case TENSOR_s32:
        return PTX_s32;
    case TENSOR_f16:
        return PTX_f16x2;
    case TENSOR_bf16:
    case TENSOR_tf32:
        return PTX_bf16x2; /* such registers cannot be declared: only those of bits fit */
    default:
        return PTX_b32;
    }
}

bool decode_mma(struct decoder *d, struct emu_op *op)
{
    struct text t = {.shape = {0, 0, 0}};
    if (decode_begins(d, "kind::") != NULL || decode_begins(d, "block_scale") != NULL)
        return mma_decode_kind(d, op);
    struct plan *plan = (struct plan *)decode_alloc(d, 1, sizeof *plan);
    if (plan == NULL || !read_modifiers(d, &t) || !make_plan(d, &t, plan) || !decode_operands(d, 4, 4))
        return false;
    count_registers(&t, plan);
    const int d_count = plan->p.rule.method == TENSOR_BY_FMA ? (t.d == TENSOR_f16 ? 4 : 8) : plan->c_count;
    if (!mma_results(d, 0, d_count, mma_register_type(t.d)) ||
        !mma_matrix(d, 1, plan->f.a_count, mma_register_type(t.a)) ||
        !mma_matrix(d, 2, plan->f.b_count, mma_register_type(t.b)) ||
        !mma_sources(d, 3, plan->c_count, mma_register_type(t.c)))
        return false;
    op->exec = plan->p.rule.method == TENSOR_BY_FMA ? exec_quad_pairs : t.d == TENSOR_f64 ? exec_f64 : exec_mma;
    op->undefined = op->exec == exec_mma ? EMU_UNDEFINED_OWN : EMU_UNDEFINED_WARP;
    op->flags |= EMU_OP_ALIGNED | (op->exec == exec_mma ? EMU_OP_DEFINES : 0);
    op->class_ = EMU_CLASS_tensor;
    op->data = plan;
    return true;
}
