/* matrix_bytes.c - ldmatrix and stmatrix of bytes: .m16n16, .m8n16 and .m16n8.
 *
 * With lane = 4 g + q, byte i of a register of matrix j is this element of a row in shared memory:
 *   ldmatrix .m8n16           row 8 j + g, element 4 q + i                    a register a matrix
 *   ldmatrix .m16n16.trans    row 16 j + 4 q + i, element g + 8 s             registers s = 0, 1 of a matrix
 *   stmatrix .m16n8.trans     row 8 j + 2 q + i % 2, element g + 8 (i / 2)    a register a matrix
 *
 * A row has 16 elements.  Those of 4 and 6 bits lie one after the other, the first in the lowest bits, with 8 and 4
 * bytes of padding behind them (.b4x16_p64, .b6x16_p32); each becomes the lowest bits of a byte. */
#include "matrix_load.h"
#include "tools/emu/machine/undefined.h"
#include "tools/emu/memory/access.h"

struct place {
    unsigned int row, column;
};

static struct place place_of(const struct matrix_form *f, unsigned int reg, unsigned int lane,
                             unsigned int byte, bool store)
{
    const unsigned int g = lane / 4, q = lane % 4;
    if (store)
        return (struct place){f->rows * reg + 2 * q + byte % 2, g + 8 * (byte / 2)};
    if (f->registers == 2)
        return (struct place){f->rows * (reg / 2) + 4 * q + byte, g + 8 * (reg % 2)};
    return (struct place){f->rows * reg + g, 4 * q + byte};
}

/* The bits of an element of a row. */
static uint32_t element_of(const unsigned char row[MATRIX_ROW_BYTES], unsigned int bits, unsigned int column)
{
    const unsigned int at = bits * column, next = at / 8 + 1 < MATRIX_ROW_BYTES ? row[at / 8 + 1] : 0;
    return (row[at / 8] | next << 8) >> at % 8 & ((1u << bits) - 1);
}

/* The register of a lane. */
static uint32_t gather(const struct matrix_form *f, const unsigned char *const row[EMU_LANES], unsigned int reg,
                       unsigned int lane)
{
    uint32_t word = 0;
    for (unsigned int i = 0; i < 4; i++) {
        const struct place p = place_of(f, reg, lane, i, false);
        word |= element_of(row[p.row], f->bits, p.column) << 8 * i;
    }
    return word;
}

/* Some bytes of the rows are undefined: so are the bits that come from them. */
static void load_holes(struct emu_warp *w, const struct emu_op *op, const struct emu_ref ref[EMU_LANES])
{
    const struct matrix_form *f = (const struct matrix_form *)op->data;
    const int                 first = __builtin_ctz(w->holes);
    const struct emu_origin   origin = {w->now->function, 0, op, EMU_SHARED, ref[first].address, first};
    unsigned char             image[EMU_LANES][MATRIX_ROW_BYTES] = {{0}};
    const unsigned char      *row[EMU_LANES];
    for (unsigned int l = 0; l < EMU_LANES; l++) {
        const uint32_t bytes = w->holes >> l & 1 ? emu_undefined_bytes(&ref[l], MATRIX_ROW_BYTES) : 0;
        for (unsigned int i = 0; i < MATRIX_ROW_BYTES; i++)
            image[l][i] = bytes >> i & 1 ? 0xff : 0;
        row[l] = image[l];
    }
    for (unsigned int r = 0; r < op->result_count; r++) {
        for (unsigned int l = 0; l < EMU_LANES; l++)
            emu_undefined_put(w, op->result[r], (int)l, (struct emu_bits){gather(f, row, r, l), 0});
        emu_origin_set(w, op->result[r], &origin);
    }
}

void matrix_load_bytes(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const struct matrix_form *f = (const struct matrix_form *)op->data;
    const unsigned int        rows = f->rows * op->u8[0];
    const unsigned char      *row[EMU_LANES] = {NULL};
    struct emu_ref            ref[EMU_LANES];
    if (!mma_whole_warp(w, op, mask) || !matrix_rows(w, op, rows, EMU_READ | EMU_PARTIAL, ref))
        return;
    for (unsigned int l = 0; l < rows; l++)
        row[l] = ref[l].at;
    for (unsigned int r = 0; r < op->result_count; r++) {
        uint32_t *out = emu_r32(w, op->result[r]);
        for (unsigned int l = 0; l < EMU_LANES; l++)
            out[l] = gather(f, row, r, l);
    }
    emu_define_results(w, op, mask);
    if (w->holes)
        load_holes(w, op, ref);
}

/* Registers that are undefined in part make bytes of shared memory undefined. */
static void store_holes(struct emu_warp *w, const struct emu_op *op, const struct emu_ref ref[EMU_LANES])
{
    const struct matrix_form *f = (const struct matrix_form *)op->data;
    for (unsigned int r = 0; r < op->u8[0]; r++) {
        const emu_reg reg = op->source[op->u32[2] + r];
        for (uint32_t m = emu_undefined_lanes(w, reg, w->missing); m; m &= m - 1) {
            const unsigned int l = (unsigned int)__builtin_ctz(m);
            const uint64_t     bits = emu_undefined_get(w, reg, (int)l).low;
            for (unsigned int i = 0; i < 4; i++) {
                const struct place p = place_of(f, r, l, i, true);
                struct emu_ref     byte = ref[p.row];
                byte.at += p.column;
                byte.address += p.column;
                if (bits >> 8 * i & 0xff)
                    memory_undefine(&byte, 1);
            }
        }
    }
}

void matrix_store_bytes(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const struct matrix_form *f = (const struct matrix_form *)op->data;
    struct emu_ref            ref[EMU_LANES];
    if (!mma_whole_warp(w, op, mask) || !matrix_rows(w, op, f->rows * op->u8[0], EMU_WRITE, ref))
        return;
    for (unsigned int r = 0; r < op->u8[0]; r++) {
        const uint32_t *in = emu_r32(w, op->source[op->u32[2] + r]);
        for (unsigned int l = 0; l < EMU_LANES; l++)
            for (unsigned int i = 0; i < 4; i++) {
                const struct place p = place_of(f, r, l, i, true);
                ref[p.row].at[p.column] = (unsigned char)(in[l] >> 8 * i);
            }
    }
    if (w->missing)
        store_holes(w, op, ref);
}
