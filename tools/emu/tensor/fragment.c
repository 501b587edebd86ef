/* fragment.c - the fragments of a warp: which lane and register holds which element of a matrix. */
#include "tensor.h"

enum { GROUPS = 8, QUAD = 4 }; /* lane = 4 group + quad */

/* Elements of A or B in a register; an element wider than 32 bits takes two registers. */
static int in_register(const struct tensor_fragment *f) { return f->bits >= 32 ? 1 : (int)(32 / f->bits); }

/* Rows of a block: registers fill a block before they move along. */
static int block_rows(int rows) { return rows < 16 ? rows : 16; }

int tensor_registers_a(const struct tensor_fragment *f)
{
    return f->rows / GROUPS * (f->columns / (QUAD * in_register(f)));
}

int tensor_registers_b(const struct tensor_fragment *f)
{
    return f->columns / GROUPS * (f->rows / (QUAD * in_register(f)));
}

int tensor_registers_c(const struct tensor_fragment *f)
{
    return f->rows / GROUPS * (f->columns / GROUPS) * (f->bits == 16 ? 1 : 2);
}

/* Row and column of the first element in register r of lane 0. */
struct place {
    int row, column;
};

static struct place place_a(const struct tensor_fragment *f, int r)
{
    const int high = block_rows(f->rows) / GROUPS, wide = f->columns / (QUAD * in_register(f));
    return (struct place){16 * (r / (high * wide)) + GROUPS * (r % high),
                          r / high % wide * QUAD * in_register(f)};
}

static struct place place_b(const struct tensor_fragment *f, int r)
{
    const int deep = f->rows / (QUAD * in_register(f));
    return (struct place){r % deep * QUAD * in_register(f), r / deep * GROUPS};
}

static struct place place_c(const struct tensor_fragment *f, int r)
{
    const int each = f->bits == 16 ? 1 : 2, high = block_rows(f->rows) / GROUPS, wide = f->columns / GROUPS;
    return (struct place){16 * (r / (each * high * wide)) + GROUPS * (r / each % high),
                          GROUPS * (r / (each * high) % wide) + r % each};
}

static uint32_t element_mask(unsigned int bits) { return bits >= 32 ? EMU_ALL : (1u << bits) - 1; }

/* ---- A: a register holds neighbours of a row; B: of a column ------------------------------------------- */
void tensor_gather_a(const struct emu_warp *w, const emu_reg *reg, const struct tensor_fragment *f,
                     uint32_t *out)
{
    const int      each = in_register(f), count = tensor_registers_a(f);
    const uint32_t mask = element_mask(f->bits);
    for (int r = 0; r < count; r++) {
        const uint32_t *x = emu_r32(w, reg[r]);
        struct place    p = place_a(f, r);
        uint32_t       *to = out + p.row * f->columns + p.column;
        for (int l = 0; l < EMU_LANES; l++)
            for (int i = 0; i < each; i++)
                to[l / QUAD * f->columns + l % QUAD * each + i] = x[l] >> ((unsigned int)i * f->bits) & mask;
    }
}

void tensor_gather_b(const struct emu_warp *w, const emu_reg *reg, const struct tensor_fragment *f,
                     uint32_t *out)
{
    const int      each = in_register(f), count = tensor_registers_b(f);
    const uint32_t mask = element_mask(f->bits);
    for (int r = 0; r < count; r++) {
        const uint32_t *x = emu_r32(w, reg[r]);
        struct place    p = place_b(f, r);
        uint32_t       *to = out + p.row * f->columns + p.column;
        for (int l = 0; l < EMU_LANES; l++)
            for (int i = 0; i < each; i++)
                to[(l % QUAD * each + i) * f->columns + l / QUAD] = x[l] >> ((unsigned int)i * f->bits) & mask;
    }
}

void tensor_scatter_a(struct emu_warp *w, const emu_reg *reg, const struct tensor_fragment *f,
                      const uint32_t *in)
{
    const int each = in_register(f), count = tensor_registers_a(f);
    for (int r = 0; r < count; r++) {
        uint32_t       *x = emu_r32(w, reg[r]);
        struct place    p = place_a(f, r);
        const uint32_t *from = in + p.row * f->columns + p.column;
        for (int l = 0; l < EMU_LANES; l++) {
            x[l] = 0;
            for (int i = 0; i < each; i++)
                x[l] |= from[l / QUAD * f->columns + l % QUAD * each + i] << ((unsigned int)i * f->bits);
        }
    }
}

void tensor_scatter_b(struct emu_warp *w, const emu_reg *reg, const struct tensor_fragment *f,
                      const uint32_t *in)
{
    const int each = in_register(f), count = tensor_registers_b(f);
    for (int r = 0; r < count; r++) {
        uint32_t       *x = emu_r32(w, reg[r]);
        struct place    p = place_b(f, r);
        const uint32_t *from = in + p.row * f->columns + p.column;
        for (int l = 0; l < EMU_LANES; l++) {
            x[l] = 0;
            for (int i = 0; i < each; i++)
                x[l] |= from[(l % QUAD * each + i) * f->columns + l / QUAD] << ((unsigned int)i * f->bits);
        }
    }
}

/* ---- C and D ------------------------------------------------------------------------------------------- */
/* Of 32 bits two successive registers have the even and the odd columns of a block of 8 x 8. */
void tensor_gather_c(const struct emu_warp *w, const emu_reg *reg, const struct tensor_fragment *f,
                     uint32_t *out)
{
    const int count = tensor_registers_c(f);
    for (int r = 0; r < count; r += f->bits == 16 ? 1 : 2) {
        const uint32_t *x = emu_r32(w, reg[r]), *odd = f->bits == 16 ? x : emu_r32(w, reg[r + 1]);
        struct place    p = place_c(f, r);
        uint32_t       *to = out + p.row * f->columns + p.column;
        for (int g = 0; g < GROUPS; g++, to += f->columns)
            for (int q = 0; q < QUAD; q++) {
                to[2 * q] = f->bits == 16 ? x[QUAD * g + q] & 0xffff : x[QUAD * g + q];
                to[2 * q + 1] = f->bits == 16 ? x[QUAD * g + q] >> 16 : odd[QUAD * g + q];
            }
    }
}

void tensor_scatter_c(struct emu_warp *w, const emu_reg *reg, const struct tensor_fragment *f,
                      const uint32_t *in)
{
    const int count = tensor_registers_c(f);
    for (int r = 0; r < count; r += f->bits == 16 ? 1 : 2) {
        uint32_t       *x = emu_r32(w, reg[r]), *odd = f->bits == 16 ? NULL : emu_r32(w, reg[r + 1]);
        struct place    p = place_c(f, r);
        const uint32_t *from = in + p.row * f->columns + p.column;
        for (int g = 0; g < GROUPS; g++, from += f->columns)
            for (int q = 0; q < QUAD; q++) {
                x[QUAD * g + q] = odd == NULL ? from[2 * q] | from[2 * q + 1] << 16 : from[2 * q];
                if (odd != NULL)
                    odd[QUAD * g + q] = from[2 * q + 1];
            }
    }
}

/* ---- f64: one element a register ----------------------------------------------------------------------- */
void tensor_gather_a64(const struct emu_warp *w, const emu_reg *reg, int rows, int columns, uint64_t *out)
{
    const struct tensor_fragment f = {rows, columns, 64};
    for (int r = 0; r < tensor_registers_a(&f); r++) {
        struct place p = place_a(&f, r);
        for (int l = 0; l < EMU_LANES; l++)
            out[(p.row + l / QUAD) * columns + p.column + l % QUAD] = emu_r64(w, reg[r])[l];
    }
}

void tensor_gather_b64(const struct emu_warp *w, const emu_reg *reg, int rows, int columns, uint64_t *out)
{
    const struct tensor_fragment f = {rows, columns, 64};
    for (int r = 0; r < tensor_registers_b(&f); r++) {
        struct place p = place_b(&f, r);
        for (int l = 0; l < EMU_LANES; l++)
            out[(p.row + l % QUAD) * columns + p.column + l / QUAD] = emu_r64(w, reg[r])[l];
    }
}

void tensor_gather_c64(const struct emu_warp *w, const emu_reg *reg, int rows, int columns, uint64_t *out)
{
    const struct tensor_fragment f = {rows, columns, 64};
    for (int r = 0; r < tensor_registers_c(&f); r++) {
        struct place p = place_c(&f, r);
        for (int l = 0; l < EMU_LANES; l++)
            out[(p.row + l / QUAD) * columns + p.column + 2 * (l % QUAD)] = emu_r64(w, reg[r])[l];
    }
}

void tensor_scatter_c64(struct emu_warp *w, const emu_reg *reg, int rows, int columns, const uint64_t *in)
{
    const struct tensor_fragment f = {rows, columns, 64};
    for (int r = 0; r < tensor_registers_c(&f); r++) {
        struct place p = place_c(&f, r);
        for (int l = 0; l < EMU_LANES; l++)
            emu_r64(w, reg[r])[l] = in[(p.row + l / QUAD) * columns + p.column + 2 * (l % QUAD)];
    }
}
