/* wmma.c - wmma.load, wmma.store, wmma.mma: matrices between memory and fragments, and their product.
 *
 * PTX does not define the layout of these fragments; here they have the layout of mma (tensor.h).  Fragments of
 * f16 are larger than their matrices: the first registers hold the matrix, the others hold it again. */
#include "mma.h"

/* Types of matrices of one shape: registers of A, B, C. */
struct row {
    int         m, n, k;
    const char *types;
    int         a, b;
    int         sm, isa;
};
static const struct row rows[] = {
    {16, 16, 16, "f16", 8, 8, 70, 60},   {32, 8, 16, "f16", 8, 8, 70, 61},   {8, 32, 16, "f16", 8, 8, 70, 61},
    {16, 16, 16, "bf16", 4, 4, 80, 70},  {32, 8, 16, "bf16", 8, 2, 80, 70},  {8, 32, 16, "bf16", 2, 8, 80, 70},
    {16, 16, 16, "s8|u8", 2, 2, 72, 63}, {32, 8, 16, "s8|u8", 4, 1, 72, 63}, {8, 32, 16, "s8|u8", 1, 4, 72, 63},
    {16, 16, 8, "tf32", 4, 4, 80, 70},   {8, 8, 4, "f64", 1, 1, 80, 70},     {8, 8, 32, "s4|u4", 1, 1, 75, 63},
    {8, 8, 128, "b1", 1, 1, 75, 63},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static const struct row *find_row(const struct mma_shape *s, enum tensor_type type)
{
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].m == s->m && rows[i].n == s->n && rows[i].k == s->k && mma_set_has(rows[i].types, type))
            return &rows[i];
    return NULL;
}

enum operand { OPERAND_A, OPERAND_B, OPERAND_C };

struct matrix { /* of a load or store */
    enum operand           operand;
    struct tensor_fragment f;          /* b1: of words of 32 bits                                     */
    int                    registers;  /* f16: of both copies                                          */
    bool                   wide;       /* f64                                                          */
    bool                   along_rows; /* neighbours in memory are neighbours in a row                */
    unsigned int           bits;       /* of an element in memory                                      */
    enum emu_space         space;
    bool                   storing, has_stride;
    unsigned int           address, address_bits, stride, data; /* op->source[..] */
};

/* ---- moving -------------------------------------------------------------------------------------------- */
static int distinct(const struct matrix *x)
{
    return x->operand == OPERAND_A   ? tensor_registers_a(&x->f)
           : x->operand == OPERAND_B ? tensor_registers_b(&x->f)
                                     : tensor_registers_c(&x->f);
}

/* The bytes of line `i` of the matrix in memory. */
static uint32_t line_bytes(const struct matrix *x)
{
    return (uint32_t)(x->along_rows ? x->f.columns : x->f.rows) * x->f.bits / 8;
}

static int lines(const struct matrix *x) { return x->along_rows ? x->f.rows : x->f.columns; }

/* Access lines of memory, 32 at most, one for each lane, in pieces of 16 bytes at most. */
static bool find_lines(struct emu_warp *w, const struct emu_op *op, const struct matrix *x,
                       unsigned char *bytes, unsigned int access)
{
    const uint32_t whole = line_bytes(x), piece = whole < 16 ? whole : 16;
    const uint32_t mask = lines(x) == EMU_LANES ? EMU_ALL : (1u << lines(x)) - 1;
    const uint32_t align = whole & (~whole + 1) & 15 ? whole & (~whole + 1) : 16;
    uint64_t       base[EMU_LANES], address[EMU_LANES];
    struct emu_ref ref[EMU_LANES];
    emu_addresses(w, op, x->address, x->address_bits, base);
    const uint32_t stride = x->has_stride ? *emu_r32(w, op->source[x->stride]) : 0;
    const uint64_t step = x->has_stride ? (uint64_t)stride * x->bits / 8 : whole;
    for (uint32_t at = 0; at < whole; at += piece) {
        for (uint32_t l = 0; l < EMU_LANES; l++)
            address[l] = base[0] + l * step + at;
        if (!emu_memory(w, op, mask, x->space, address, piece, align, access, ref))
            return false;
        for (int l = 0; l < lines(x); l++) {
            unsigned char *to = bytes + (uint32_t)l * whole + at;
            if (access & EMU_WRITE)
                memcpy(ref[l].at, to, piece);
            else
                memcpy(to, ref[l].at, piece);
        }
    }
    return true;
}

/* All threads must name the same matrix. */
static bool check_same(struct emu_warp *w, const struct emu_op *op, const struct matrix *x)
{
    uint64_t base[EMU_LANES];
    emu_addresses(w, op, x->address, x->address_bits, base);
    for (int l = 1; l < EMU_LANES; l++)
        if (base[l] != base[0] ||
            (x->has_stride && emu_r32(w, op->source[x->stride])[l] != *emu_r32(w, op->source[x->stride]))) {
            emu_fault(w, op, l, 719, "address or stride are not those of thread 0 of the warp");
            return false;
        }
    return true;
}

/* Element number i of a line, of up to 32 bits. */
static uint32_t get_element(const unsigned char *line, int i, unsigned int bits)
{
    uint32_t x = 0;
    if (bits < 8)
        return line[(unsigned int)i * bits / 8] >> ((unsigned int)i * bits % 8) & ((1u << bits) - 1);
    memcpy(&x, line + (unsigned int)i * bits / 8, bits / 8);
    return x;
}

enum { MOST_ELEMENTS = 512 };

static void exec_load(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const struct matrix *x = (const struct matrix *)op->data;
    unsigned char        bytes[MOST_ELEMENTS * 8];
    uint32_t             words[MOST_ELEMENTS];
    if (!mma_whole_warp(w, op, mask) || !check_same(w, op, x) || !find_lines(w, op, x, bytes, EMU_READ))
        return;
    for (int r = 0; r < x->f.rows; r++)
        for (int c = 0; c < x->f.columns; c++)
            words[r * x->f.columns + c] = get_element(bytes + (uint32_t)(x->along_rows ? r : c) * line_bytes(x),
                                                      x->along_rows ? c : r, x->f.bits);
    const int each = distinct(x);
    for (int copy = 0; copy < x->registers; copy += each)
        if (x->operand == OPERAND_A)
            tensor_scatter_a(w, op->result + copy, &x->f, words);
        else if (x->operand == OPERAND_B)
            tensor_scatter_b(w, op->result + copy, &x->f, words);
        else
            tensor_scatter_c(w, op->result + copy, &x->f, words);
}

static void exec_store(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const struct matrix *x = (const struct matrix *)op->data;
    unsigned char        bytes[MOST_ELEMENTS * 8];
    uint32_t             words[MOST_ELEMENTS];
    if (!mma_whole_warp(w, op, mask) || !check_same(w, op, x))
        return;
    tensor_gather_c(w, op->source + x->data, &x->f, words);
    for (int r = 0; r < x->f.rows; r++)
        for (int c = 0; c < x->f.columns; c++)
            memcpy(bytes + (uint32_t)(x->along_rows ? r : c) * line_bytes(x) +
                       (uint32_t)(x->along_rows ? c : r) * x->f.bits / 8,
                   &words[r * x->f.columns + c], x->f.bits / 8);
    find_lines(w, op, x, bytes, EMU_WRITE);
}

/* f64: A 8 x 4, B 4 x 8, C 8 x 8, one element a register. */
static unsigned char *place_of_64(const struct matrix *x, unsigned char *bytes, int r, int l)
{
    int row = x->operand == OPERAND_B ? l % 4 : l / 4;
    int column = x->operand == OPERAND_A ? l % 4 : x->operand == OPERAND_B ? l / 4 : 2 * (l % 4) + r;
    return bytes + (uint32_t)(x->along_rows ? row : column) * line_bytes(x) +
           (x->along_rows ? column : row) * 8;
}

static void exec_load_64(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const struct matrix *x = (const struct matrix *)op->data;
    unsigned char        bytes[8 * 8 * 8];
    if (!mma_whole_warp(w, op, mask) || !check_same(w, op, x) || !find_lines(w, op, x, bytes, EMU_READ))
        return;
    for (int r = 0; r < x->registers; r++)
        for (int l = 0; l < EMU_LANES; l++)
            memcpy(&emu_r64(w, op->result[r])[l], place_of_64(x, bytes, r, l), 8);
}

static void exec_store_64(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const struct matrix *x = (const struct matrix *)op->data;
    unsigned char        bytes[8 * 8 * 8];
    if (!mma_whole_warp(w, op, mask) || !check_same(w, op, x))
        return;
    for (int r = 0; r < x->registers; r++)
        for (int l = 0; l < EMU_LANES; l++)
            memcpy(place_of_64(x, bytes, r, l), &emu_r64(w, op->source[x->data + (unsigned int)r])[l], 8);
    find_lines(w, op, x, bytes, EMU_WRITE);
}

/* ---- multiplying --------------------------------------------------------------------------------------- */
struct plan {
    struct tensor_product  p;
    struct tensor_fragment a, b, c, d;
    int                    a_count, b_count, c_count;
};

/* f16 to f32, and back to nearest even. */
static void widen(uint32_t *words, int count)
{
    for (int i = 0; i < count; i++) {
        float x = (float)tensor_double_of_f16(words[i]);
        memcpy(&words[i], &x, sizeof x);
    }
}

static void narrow(uint32_t *words, int count)
{
    for (int i = 0; i < count; i++) {
        float x;
        memcpy(&x, &words[i], sizeof x);
        words[i] = tensor_f16_of_double((double)x);
    }
}

static void exec_mma(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const struct plan *plan = (const struct plan *)op->data;
    uint32_t           a[MOST_ELEMENTS], b[MOST_ELEMENTS], c[MOST_ELEMENTS];
    if (!mma_whole_warp(w, op, mask))
        return;
    tensor_gather_a(w, op->source, &plan->a, a);
    tensor_gather_b(w, op->source + plan->a_count, &plan->b, b);
    tensor_gather_c(w, op->source + plan->a_count + plan->b_count, &plan->c, c);
    if (plan->c.bits < plan->d.bits)
        widen(c, plan->p.m * plan->p.n);
    tensor_multiply(&plan->p, a, b, c);
    if (plan->d.bits < plan->c.bits)
        narrow(c, plan->p.m * plan->p.n);
    tensor_scatter_c(w, op->result, &plan->d, c);
    mma_count(w, op, (uint64_t)plan->p.m, (uint64_t)plan->p.n, (uint64_t)plan->p.k);
}

static void exec_mma_64(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    uint64_t a[8 * 4], b[4 * 8], c[8 * 8];
    if (!mma_whole_warp(w, op, mask))
        return;
    tensor_gather_a64(w, op->source, 8, 4, a);
    tensor_gather_b64(w, op->source + 1, 4, 8, b);
    tensor_gather_c64(w, op->source + 2, 8, 8, c);
    tensor_multiply_f64(8, 8, 4, a, b, c);
    tensor_scatter_c64(w, op->result, 8, 8, c);
    mma_count(w, op, 8, 8, 4);
}

/* ---- decoding: loads and stores ------------------------------------------------------------------------ */
static enum ptx_type register_type(enum tensor_type type)
{
    return type == TENSOR_s8 || type == TENSOR_u8 ? PTX_s32 : mma_register_type(type);
}

static bool is_sum(enum tensor_type type)
{
    return type == TENSOR_f16 || type == TENSOR_f32 || type == TENSOR_s32 || type == TENSOR_f64;
}

/* Shapes whose type of A can give such a sum. */
static bool has_sum(const struct mma_shape *s, enum tensor_type type)
{
    static const enum tensor_type factors[] = {TENSOR_f16, TENSOR_bf16, TENSOR_tf32, TENSOR_s8,
                                               TENSOR_s4,  TENSOR_b1,   TENSOR_f64};
    for (size_t i = 0; i < sizeof factors / sizeof factors[0]; i++) {
        const enum tensor_type a = factors[i];
        const bool             integer = a == TENSOR_s8 || a == TENSOR_s4 || a == TENSOR_b1;
        if (find_row(s, a) != NULL && (type == TENSOR_s32   ? integer
                                       : type == TENSOR_f64 ? a == TENSOR_f64
                                       : type == TENSOR_f16 ? a == TENSOR_f16
                                                            : !integer && a != TENSOR_f64))
            return true;
    }
    return false;
}

static bool make_matrix(struct decoder *d, const struct mma_shape *s, enum tensor_type type, struct matrix *x)
{
    const struct row *row = find_row(s, type);
    const bool        bits = type == TENSOR_b1;
    const int         k = bits ? s->k / 32 : s->k;
    x->wide = type == TENSOR_f64;
    x->bits = tensor_type_bits(type);
    x->f.bits = bits ? 32 : x->bits;
    if (x->operand == OPERAND_C) {
        x->f.rows = s->m;
        x->f.columns = s->n;
        x->registers = x->wide ? 2 : tensor_registers_c(&x->f);
        return (is_sum(type) && has_sum(s, type)) ||
               decode_refuse(d, "no wmma of this shape has such a matrix");
    }
    if (row == NULL)
        return decode_refuse(d, "no wmma of this shape has such a matrix");
    if (x->bits < 8 && x->along_rows != (x->operand == OPERAND_A))
        return decode_refuse(d, "elements below 8 bits must be neighbours along k");
    x->f.rows = x->operand == OPERAND_A ? s->m : k;
    x->f.columns = x->operand == OPERAND_A ? k : s->n;
    x->registers = x->operand == OPERAND_A ? row->a : row->b;
    return decode_need_sm(d, row->sm) && decode_need_isa(d, row->isa);
}

/* .a.sync.aligned.row.m16n16k16.shared.f16, and .d for a store */
static bool read_matrix_modifiers(struct decoder *d, struct matrix *x, enum tensor_type *type)
{
    static const char *const names[] = {"a", "b", "c", NULL};
    struct mma_shape         shape;
    bool                     cluster = false;
    int                      operand = x->storing ? OPERAND_C : decode_one_of(d, names);
    if (operand < 0 || (x->storing && !decode_take(d, "d")))
        return decode_refuse(d, "the matrix is missing: .a, .b, .c or .d");
    x->operand = (enum operand)operand;
    if (!decode_take(d, "sync") || !decode_take(d, "aligned"))
        return decode_refuse(d, ".sync.aligned is missing");
    if (!mma_take_major(d, &x->along_rows) || !mma_take_shape(d, &shape))
        return false;
    x->space = decode_space(d, &cluster);
    if ((x->space != EMU_GENERIC && x->space != EMU_SHARED && x->space != EMU_GLOBAL) || cluster)
        return decode_refuse(d, "matrices must be in .global or .shared memory");
    *type = mma_take_type(d);
    return *type != TENSOR_TYPES && make_matrix(d, &shape, *type, x) && decode_end(d);
}

static bool decode_matrix(struct decoder *d, struct emu_op *op, bool storing)
{
    struct matrix *x = (struct matrix *)decode_alloc(d, 1, sizeof *x);
    if (x == NULL)
        return false;
    x->storing = storing;
    enum tensor_type of_elements = TENSOR_TYPES;
    if (!read_matrix_modifiers(d, x, &of_elements) || !decode_operands(d, 2, 3))
        return false;
    const enum ptx_type       type = register_type(of_elements);
    const struct ptx_operand *address = decode_operand(d, storing ? 0 : 1);
    x->address = op->source_count;
    if (address == NULL || decode_address(d, address, x->space, &x->address_bits) == EMU_NO_REG)
        return false;
    x->has_stride = decode_operand_count(d) == 3;
    x->stride = op->source_count;
    if (x->has_stride && decode_source(d, 2, PTX_u32) == EMU_NO_REG)
        return false;
    x->data = op->source_count;
    if (!(storing ? mma_sources(d, 1, x->registers, type) : mma_results(d, 0, x->registers, type)))
        return false;
    op->exec = storing ? (x->wide ? exec_store_64 : exec_store) : x->wide ? exec_load_64 : exec_load;
    op->data = x;
    const bool shared = x->space == EMU_SHARED;
    op->class_ = storing ? (shared ? EMU_CLASS_store_shared : EMU_CLASS_store_global)
                         : (shared ? EMU_CLASS_load_shared : EMU_CLASS_load_global);
    return true;
}

/* ---- decoding: products -------------------------------------------------------------------------------- */
/* .sync.aligned.row.col.m16n16k16, then .d.c of f16, .d.a.b.c of all others. */
static bool read_mma_modifiers(struct decoder *d, struct tensor_product *p, enum tensor_type *c, bool *exists)
{
    struct mma_shape shape;
    bool             a_row, b_row;
    p->bits = TENSOR_XOR;
    const bool conjunction = decode_take(d, "and"), bits = conjunction || decode_take(d, "xor");
    if (conjunction)
        p->bits = TENSOR_AND;
    if (bits && !decode_take(d, "popc"))
        return decode_refuse(d, ".popc is missing");
    if (!decode_take(d, "sync") || !decode_take(d, "aligned"))
        return decode_refuse(d, ".sync.aligned is missing");
    if (!mma_take_major(d, &a_row) || !mma_take_major(d, &b_row) || !mma_take_shape(d, &shape))
        return false;
    p->m = shape.m;
    p->n = shape.n;
    p->k = shape.k;
    enum tensor_type types[4] = {TENSOR_TYPES};
    int              count = 0;
    while (count < 4 && mma_peek_type(d) != TENSOR_TYPES)
        types[count++] = mma_take_type(d);
    p->saturates = decode_take(d, "satfinite");
    if (types[0] == TENSOR_f64 && count == 4)
        decode_take(d, "rn"); /* the default */
    if (count != 2 && count != 4)
        return decode_refuse(d, "types of the matrices are missing");
    p->c = types[0];
    *c = types[count - 1];
    p->a = count == 2 ? TENSOR_f16 : types[1];
    p->b = count == 2 ? TENSOR_f16 : types[2];
    *exists = !(p->a == TENSOR_b1) == !bits && (tensor_type_bits(p->a) >= 8 || (a_row && !b_row));
    return decode_end(d);
}

static bool make_plan(struct decoder *d, struct plan *plan, enum tensor_type c)
{
    struct tensor_product *p = &plan->p;
    const struct mma_shape shape = {p->m, p->n, p->k};
    const struct row      *row = find_row(&shape, p->a);
    const bool             integer = tensor_type_bits(p->a) <= 8, bits = p->a == TENSOR_b1;
    const char *const      sums = integer              ? "s32"
                                  : p->a == TENSOR_f64 ? "f64"
                                  : p->a == TENSOR_f16 ? "f16|f32"
                                                       : "f32";
    if (row == NULL || !mma_set_has(row->types, p->b) || !mma_set_has(sums, p->c) || !mma_set_has(sums, c))
        return decode_refuse(d, "no wmma of this shape has these types");
    if (p->saturates && (!integer || bits))
        return decode_refuse(d, ".satfinite of these types is not supported");
    const int k = bits ? p->k / 32 : p->k;
    p->rule = tensor_rule_of(d->sm, TENSOR_WMMA, p->a, p->m, p->k);
    plan->a = (struct tensor_fragment){p->m, k, bits ? 32 : tensor_type_bits(p->a)};
    plan->b = (struct tensor_fragment){k, p->n, plan->a.bits};
    plan->c = (struct tensor_fragment){p->m, p->n, tensor_type_bits(c)};
    plan->d = (struct tensor_fragment){p->m, p->n, tensor_type_bits(p->c)};
    if (c == TENSOR_f32) /* also if D is f16, which is then rounded once more */
        p->c = TENSOR_f32;
    plan->a_count = row->a;
    plan->b_count = row->b;
    plan->c_count = p->a == TENSOR_f64 ? 2 : tensor_registers_c(&plan->c);
    return decode_need_sm(d, p->bits == TENSOR_AND ? 80 : row->sm) &&
           decode_need_isa(d, p->bits == TENSOR_AND ? 71 : row->isa);
}

static bool decode_product(struct decoder *d, struct emu_op *op)
{
    struct plan     *plan = (struct plan *)decode_alloc(d, 1, sizeof *plan);
    enum tensor_type c = TENSOR_TYPES;
    bool             exists = false;
    if (plan == NULL || !read_mma_modifiers(d, &plan->p, &c, &exists))
        return false;
    if (!exists)
        return decode_refuse(d, "no wmma has this operation or these layouts");
    if (!make_plan(d, plan, c) || !decode_operands(d, 4, 4))
        return false;
    const int d_count = plan->p.a == TENSOR_f64 ? 2 : tensor_registers_c(&plan->d);
    if (!mma_results(d, 0, d_count, plan->d.bits == 16 ? PTX_f16x2 : register_type(plan->p.c)) ||
        !mma_sources(d, 1, plan->a_count, register_type(plan->p.a)) ||
        !mma_sources(d, 2, plan->b_count, register_type(plan->p.b)) ||
        !mma_sources(d, 3, plan->c_count, register_type(c)))
        return false;
    op->exec = plan->p.a == TENSOR_f64 ? exec_mma_64 : exec_mma;
    op->class_ = EMU_CLASS_tensor;
    op->data = plan;
    return true;
}

bool decode_wmma(struct decoder *d, struct emu_op *op)
{
    op->flags |= EMU_OP_ALIGNED;
    if (decode_take(d, "load"))
        return decode_matrix(d, op, false);
    if (decode_take(d, "store"))
        return decode_matrix(d, op, true);
    if (decode_take(d, "mma"))
        return decode_product(d, op);
    return decode_refuse(d, "wmma.%s is not known", decode_peek(d));
}
