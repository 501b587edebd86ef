/* matrix_load.c - ldmatrix, stmatrix, movmatrix: 8 x 8 matrices between shared memory and fragments.
 *
 * Lane l gives the address of row l & 7 of matrix l >> 3.  Register j of lane l holds the elements 2 (l & 3)
 * and 2 (l & 3) + 1 of row l / 4 of matrix j; with .trans, of column l / 4. */
#include "mma.h"
#include "tools/emu/machine/undefined.h"
#include "tools/emu/memory/access.h"

enum { ROW_BYTES = 16, ROWS = 8, MOST = 4 };

static const char *const counts[] = {"x1", "x2", "x4", NULL};

/* ---- execution ----------------------------------------------------------------------------------------- */
/* The rows of all matrices: only the lanes that have a row give an address. */
static bool find_rows(struct emu_warp *w, const struct emu_op *op, unsigned int matrices, unsigned int access,
                      struct emu_ref ref[EMU_LANES])
{
    const uint32_t lanes = matrices == MOST ? EMU_ALL : (1u << (ROWS * matrices)) - 1;
    uint64_t       address[EMU_LANES];
    emu_addresses(w, op, op->u32[0], op->u32[1], address);
    if (!emu_memory(w, op, lanes, (enum emu_space)op->u8[1], address, ROW_BYTES, ROW_BYTES, access, ref))
        return false;
    for (unsigned int l = 0; l < ROWS * matrices; l++)
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
        rows[__builtin_ctz(m)] = emu_undefined_bytes(&ref[__builtin_ctz(m)], ROW_BYTES);
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
    if (!mma_whole_warp(w, op, mask) || !find_rows(w, op, matrices, EMU_READ | EMU_PARTIAL, ref))
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
    if (!mma_whole_warp(w, op, mask) || !find_rows(w, op, matrices, EMU_WRITE, ref))
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
/* .sync.aligned.m8n8.num{.trans}{.shared}.b16 */
static bool read_modifiers(struct decoder *d, struct emu_op *op)
{
    bool cluster = false;
    if (!decode_take(d, "sync") || !decode_take(d, "aligned"))
        return decode_refuse(d, ".sync.aligned is missing");
    if (!decode_take(d, "m8n8"))
        return decode_refuse(d, "only matrices of .m8n8 are supported");
    int index = decode_one_of(d, counts);
    if (index < 0)
        return decode_refuse(d, "the number of matrices is missing: .x1, .x2 or .x4");
    op->u8[0] = (uint8_t)(1u << index);
    op->u8[2] = decode_take(d, "trans");
    enum emu_space space = decode_space(d, &cluster);
    if ((space != EMU_GENERIC && space != EMU_SHARED) || cluster)
        return decode_refuse(d, "rows must be in .shared::cta");
    op->u8[1] = (uint8_t)space;
    if (!decode_take(d, "b16"))
        return decode_refuse(d, "only elements of .b16 are supported");
    return decode_end(d);
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
    if (!read_modifiers(d, op) || !decode_need_sm(d, 75) || !decode_need_isa(d, 65) ||
        !decode_operands(d, 2, 2) || !mma_results(d, 0, op->u8[0], PTX_b32) || !read_address(d, op, 1))
        return false;
    op->exec = exec_ldmatrix;
    op->flags |= EMU_OP_ALIGNED | EMU_OP_DEFINES;
    op->class_ = EMU_CLASS_matrix_load;
    return true;
}

bool decode_stmatrix(struct decoder *d, struct emu_op *op)
{
    if (!read_modifiers(d, op) || !decode_need_sm(d, 90) || !decode_need_isa(d, 78) ||
        !decode_operands(d, 2, 2) || !read_address(d, op, 0))
        return false;
    op->u32[2] = op->source_count;
    if (!mma_sources(d, 1, op->u8[0], PTX_b32))
        return false;
    op->exec = exec_stmatrix;
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
    op->exec = exec_movmatrix;
    op->flags |= EMU_OP_ALIGNED;
    op->class_ = EMU_CLASS_shuffle;
    return true;
}
