/* matrix_load.c - ldmatrix, stmatrix, movmatrix: matrices between shared memory and fragments; those of bytes are
 * executed in matrix_bytes.c.
 *
 * Of 8 x 8 matrices, lane l gives the address of row l & 7 of matrix l >> 3.  Register j of lane l holds the elements 2 (l & 3)
 * and 2 (l & 3) + 1 of row l / 4 of matrix j; with .trans, of column l / 4. */
#include "matrix_load.h"
#include "tools/emu/machine/undefined.h"
#include "tools/emu/memory/access.h"

enum { ROWS = 8 };

static const char *const counts[] = {"x1", "x2", "x4", NULL};

/* ---- execution ----------------------------------------------------------------------------------------- */
bool matrix_rows(struct emu_warp *w, const struct emu_op *op, unsigned int rows, unsigned int access,
                 struct emu_ref ref[EMU_LANES])
{
    const uint32_t lanes = rows == EMU_LANES ? EMU_ALL : (1u << rows) - 1;
    uint64_t       address[EMU_LANES];
    emu_addresses(w, op, op->u32[0], op->u32[1], address);
    if (!emu_memory(w, op, lanes, (enum emu_space)op->u8[1], address, MATRIX_ROW_BYTES, MATRIX_ROW_BYTES,
                    access, ref))
        return false;
    for (unsigned int l = 0; l < rows; l++)
        if (ref[l].space != EMU_SHARED) {
            emu_fault(w, op, (int)l, 700, "the row at 0x%llx is not in shared memory",
                      (unsigned long long)address[l]);
            return false;
        }
    return true;
}

/* Where lane l's half of an element pair is: row and byte. */
static inline unsigned int row_of(unsigned int l, unsigned int half, bool across)
{
    return across ? 2 * (l % 4) + half : l / 4;
}
static inline unsigned int byte_of(unsigned int l, unsigned int half, bool across)
{
    return across ? 2 * (l / 4) : 4 * (l % 4) + 2 * half;
}

/* The bits of a lane's register that come from undefined bytes of its rows. */
static uint64_t undefined_pair(const uint32_t rows[EMU_LANES], unsigned int j, unsigned int l, bool across)
{
    uint64_t bits = 0;
    for (unsigned int i = 0; i < 2; i++) {
        const uint32_t bytes = rows[ROWS * j + row_of(l, i, across)] >> byte_of(l, i, across) & 3;
        bits |= ((bytes & 1 ? 0xffull : 0) | (bytes & 2 ? 0xff00ull : 0)) << 16 * i;
    }
    return bits;
}

static void load_holes(struct emu_warp *w, const struct emu_op *op, const struct emu_ref ref[EMU_LANES])
{
    const int               first = __builtin_ctz(w->holes);
    const struct emu_origin origin = {w->now->function, 0, op, EMU_SHARED, ref[first].address, first};
    uint32_t                rows[EMU_LANES] = {0};
    for (uint32_t m = w->holes; m; m &= m - 1)
        rows[__builtin_ctz(m)] = emu_undefined_bytes(&ref[__builtin_ctz(m)], MATRIX_ROW_BYTES);
    for (unsigned int j = 0; j < op->u8[0]; j++) {
        for (unsigned int l = 0; l < EMU_LANES; l++)
            emu_undefined_put(w, op->result[j], (int)l,
                              (struct emu_bits){undefined_pair(rows, j, l, op->u8[2]), 0});
        emu_origin_set(w, op->result[j], &origin);
    }
}

static void exec_ldmatrix(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    struct emu_ref     ref[EMU_LANES];
    const unsigned int matrices = op->u8[0];
    const bool         across = op->u8[2];
    if (!mma_whole_warp(w, op, mask) || !matrix_rows(w, op, ROWS * matrices, EMU_READ | EMU_PARTIAL, ref))
        return;
    for (unsigned int j = 0; j < matrices; j++) {
        const struct emu_ref *matrix = ref + ROWS * j;
        uint32_t             *out = emu_r32(w, op->result[j]);
        for (unsigned int l = 0; l < EMU_LANES; l++) {
            uint16_t half[2];
            for (unsigned int i = 0; i < 2; i++)
                memcpy(&half[i], matrix[row_of(l, i, across)].at + byte_of(l, i, across), sizeof half[i]);
            out[l] = half[0] | (uint32_t)half[1] << 16;
        }
    }
    emu_define_results(w, op, mask);
    if (w->holes)
        load_holes(w, op, ref);
}

/* Rows of which a register is undefined in part: so are these bytes of shared memory, then. */
static void store_holes(struct emu_warp *w, const struct emu_op *op, const struct emu_ref ref[EMU_LANES])
{
    const bool across = op->u8[2];
    for (unsigned int j = 0; j < op->u8[0]; j++) {
        const emu_reg reg = op->source[op->u32[2] + j];
        for (uint32_t m = emu_undefined_lanes(w, reg, w->missing); m; m &= m - 1) {
            const unsigned int l = (unsigned int)__builtin_ctz(m);
            const uint64_t     bits = emu_undefined_get(w, reg, (int)l).low;
            for (unsigned int k = 0; k < 4; k++) {
                struct emu_ref byte = ref[ROWS * j + row_of(l, k / 2, across)];
                byte.at += byte_of(l, k / 2, across) + k % 2;
                byte.address += byte_of(l, k / 2, across) + k % 2;
                if (bits >> 8 * k & 0xff)
                    memory_undefine(&byte, 1);
            }
        }
    }
}

static void exec_stmatrix(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    struct emu_ref     ref[EMU_LANES];
    const unsigned int matrices = op->u8[0];
    const bool         across = op->u8[2];
    if (!mma_whole_warp(w, op, mask) || !matrix_rows(w, op, ROWS * matrices, EMU_WRITE, ref))
        return;
    for (unsigned int j = 0; j < matrices; j++) {
        const struct emu_ref *matrix = ref + ROWS * j;
        const uint32_t       *in = emu_r32(w, op->source[op->u32[2] + j]);
        for (unsigned int l = 0; l < EMU_LANES; l++)
            for (unsigned int i = 0; i < 2; i++) {
                uint16_t half = (uint16_t)(in[l] >> (16 * i));
                memcpy(matrix[row_of(l, i, across)].at + byte_of(l, i, across), &half, sizeof half);
            }
    }
    if (w->missing)
        store_holes(w, op, ref);
}

static void exec_movmatrix(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    uint16_t        matrix[ROWS][ROWS];
    uint32_t       *out = emu_r32(w, op->result[0]);
    const uint32_t *in = emu_r32(w, op->source[0]);
    if (!mma_whole_warp(w, op, mask))
        return;
    for (unsigned int l = 0; l < EMU_LANES; l++)
        for (unsigned int i = 0; i < 2; i++)
            matrix[l / 4][2 * (l % 4) + i] = (uint16_t)(in[l] >> (16 * i));
    for (unsigned int l = 0; l < EMU_LANES; l++)
        out[l] = matrix[2 * (l % 4)][l / 4] | (uint32_t)matrix[2 * (l % 4) + 1][l / 4] << 16;
}

/* ---- decoding ------------------------------------------------------------------------------------------ */
static const struct matrix_form loads[] = {
    {"m8n8", "b16", false, 16, 8, 1, 4, true, false},
    {"m16n16", "b8", false, 8, 16, 2, 2, true, true},
    {"m16n16", "b6x16_p32", true, 6, 16, 2, 2, true, true},
    {"m16n16", "b4x16_p64", true, 4, 16, 2, 2, true, true},
    {"m8n16", "b6x16_p32", true, 6, 8, 1, 4, false, false},
    {"m8n16", "b4x16_p64", true, 4, 8, 1, 4, false, false},
    {NULL, NULL, false, 0, 0, 0, 0, false, false},
};
static const struct matrix_form stores[] = {
    {"m8n8", "b16", false, 16, 8, 1, 4, true, false},
    {"m16n8", "b8", false, 8, 8, 1, 4, true, true},
    {NULL, NULL, false, 0, 0, 0, 0, false, false},
};

/* .shape, and .type or .b8x16.type */
static const struct matrix_form *read_form(struct decoder *d, const struct matrix_form *forms)
{
    const char *shape = NULL;
    for (const struct matrix_form *f = forms; f->shape != NULL && shape == NULL; f++)
        shape = decode_take(d, f->shape) ? f->shape : NULL;
    const char *first = decode_begins(d, "b"); /* the type of the destination comes before that of the source */
    const bool  unpacks = first != NULL && strcmp(first, "b8x16") == 0 && decode_take(d, first);
    for (const struct matrix_form *f = forms; shape != NULL && f->shape != NULL; f++)
        if (strcmp(f->shape, shape) == 0 && f->unpacks == unpacks && decode_take(d, f->type))
            return f;
    if (shape == NULL)
        decode_refuse(d, "the shape of the matrices is missing, such as .m8n8");
    else
        decode_refuse(d, "no matrix of .%s has these elements", shape);
    return NULL;
}

/* .sync.aligned.shape.num{.trans}{.shared}.type */
static const struct matrix_form *read_modifiers(struct decoder *d, struct emu_op *op,
                                                const struct matrix_form *forms)
{
    bool cluster = false;
    if (!decode_take(d, "sync") || !decode_take(d, "aligned")) {
        decode_refuse(d, ".sync.aligned is missing");
        return NULL;
    }
    const struct matrix_form *f = read_form(d, forms);
    const int                 index = f != NULL ? decode_one_of(d, counts) : 0;
    const enum emu_space      space = decode_space(d, &cluster);
    if (f == NULL)
        return NULL;
    op->u8[0] = (uint8_t)(1u << (index > 0 ? index : 0));
    op->u8[1] = (uint8_t)space;
    op->u8[2] = decode_take(d, "trans");
    op->data = f;
    if (index < 0)
        decode_refuse(d, "the number of matrices is missing: .x1, .x2 or .x4");
    else if (op->u8[0] > f->most)
        decode_refuse(d, "there are at most %u matrices of .%s", f->most, f->shape);
    else if ((space != EMU_GENERIC && space != EMU_SHARED) || cluster)
        decode_refuse(d, "rows must be in .shared::cta");
    else if (op->u8[2] ? !f->may_transpose : f->must_transpose)
        decode_refuse(d, ".%s %s .trans", f->shape, f->must_transpose ? "needs" : "does not have");
    return decode_end(d) && (f->bits == 16 || (decode_need_suffix_from(d, 100) && decode_need_isa(d, 86)))
               ? f
               : NULL;
}

static bool read_address(struct decoder *d, struct emu_op *op, unsigned int number)
{
    unsigned int              bits = 64;
    const struct ptx_operand *operand = decode_operand(d, number);
    op->u32[0] = op->source_count;
    if (operand == NULL || decode_address(d, operand, (enum emu_space)op->u8[1], &bits) == EMU_NO_REG)
        return false;
    op->u32[1] = bits;
    return true;
}

bool decode_ldmatrix(struct decoder *d, struct emu_op *op)
{
    const struct matrix_form *f = read_modifiers(d, op, loads);
    if (f == NULL || !decode_need_sm(d, 75) || !decode_need_isa(d, 65) || !decode_operands(d, 2, 2) ||
        !mma_results(d, 0, (int)(f->registers * op->u8[0]), PTX_b32) || !read_address(d, op, 1))
        return false;
    op->exec = f->bits == 16 ? exec_ldmatrix : matrix_load_bytes;
    op->flags |= EMU_OP_ALIGNED | EMU_OP_DEFINES;
    op->class_ = EMU_CLASS_matrix_load;
    return true;
}

bool decode_stmatrix(struct decoder *d, struct emu_op *op)
{
    const struct matrix_form *f = read_modifiers(d, op, stores);
    if (f == NULL || !decode_need_sm(d, 90) || !decode_need_isa(d, 78) || !decode_operands(d, 2, 2) ||
        !read_address(d, op, 0))
        return false;
    op->u32[2] = op->source_count;
    if (!mma_matrix(d, 1, op->u8[0], PTX_b32))
        return false;
    op->exec = f->bits == 16 ? exec_stmatrix : matrix_store_bytes;
    op->undefined = EMU_UNDEFINED_OWN;
    op->tried = (uint8_t)op->u32[2]; /* the address */
    op->flags |= EMU_OP_ALIGNED;
    op->class_ = EMU_CLASS_matrix_load;
    return true;
}

bool decode_movmatrix(struct decoder *d, struct emu_op *op)
{
    if (!decode_take(d, "sync") || !decode_take(d, "aligned") || !decode_take(d, "m8n8") ||
        !decode_take(d, "trans") || !decode_take(d, "b16"))
        return decode_refuse(d, "only movmatrix.sync.aligned.m8n8.trans.b16 exists");
    if (!decode_end(d) || !decode_need_sm(d, 75) || !decode_need_isa(d, 78) || !decode_operands(d, 2, 2) ||
        decode_result(d, 0, PTX_b32) == EMU_NO_REG || decode_source(d, 1, PTX_b32) == EMU_NO_REG)
        return false;
    if (decode_operand(d, 1)->kind != PTX_OP_REGISTER)
        return decode_refuse(d, "the source must be a register");
    op->exec = exec_movmatrix;
    op->flags |= EMU_OP_ALIGNED;
    op->class_ = EMU_CLASS_shuffle;
    return true;
}
