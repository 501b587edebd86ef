/* undefined.c - a product of matrices of which elements are undefined: so are the rows and columns of D that they
 * reach. */
#include "tools/emu/machine/undefined.h"
#include "mma.h"

enum { REGISTERS = 16 };

/* The undefined bits of registers, as if they were registers of a frame. */
struct scratch {
    uint32_t row[REGISTERS][EMU_LANES];
    emu_reg  reg[REGISTERS];
};

static void fill(struct scratch *s, const struct emu_warp *w, const emu_reg *reg, int count)
{
    for (int i = 0; i < count; i++) {
        s->reg[i] = (emu_reg)i;
        for (int l = 0; l < EMU_LANES; l++)
            s->row[i][l] = (uint32_t)emu_undefined_get(w, reg[i], l).low;
    }
}

static bool any_of(const struct mma_fragments *f, const uint32_t *a, const uint32_t *b, int row, int column)
{
    const uint32_t of_a = f->a_mask ? f->a_mask : EMU_ALL, of_b = f->b_mask ? f->b_mask : EMU_ALL;
    uint32_t       any = 0;
    for (int x = 0; x < f->a.columns; x++)
        any |= (a[row * f->a.columns + x] & of_a) | (b[x * f->b.columns + column] & of_b);
    return any != 0;
}

void mma_undefined(struct emu_warp *w, const struct emu_op *op, const struct mma_fragments *f, uint32_t rows,
                   uint32_t columns)
{
    uint32_t       a[16 * TENSOR_MOST_K], b[TENSOR_MOST_K * 8], c[16 * 8];
    struct scratch s;
    unsigned char *frame = w->bank[EMU_BANK_FRAME];
    const int      m = f->a.rows, n = f->b.columns, c_count = tensor_registers_c(&f->c);
    const uint32_t ones = (uint32_t)emu_ones(f->c.bits);
    fill(&s, w, op->source + f->first, f->a_count + f->b_count + c_count);
    w->bank[EMU_BANK_FRAME] = (unsigned char *)s.row;
    tensor_gather_a(w, s.reg, &f->a, a);
    tensor_gather_b(w, s.reg + f->a_count, &f->b, b);
    tensor_gather_c(w, s.reg + f->a_count + f->b_count, &f->c, c);
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            const bool scale = rows >> i & 1 || columns >> j & 1;
            c[i * n + j] = scale || c[i * n + j] || any_of(f, a, b, i, j) ? ones : 0;
        }
    tensor_scatter_c(w, s.reg, &f->c, c);
    w->bank[EMU_BANK_FRAME] = frame;
    for (int i = 0; i < c_count; i++)
        for (int l = 0; l < EMU_LANES; l++)
            emu_undefined_put(w, op->result[i], l, (struct emu_bits){s.row[i][l], 0});
}
