/* quad.c - fragments of m8n8k4 of f16: each eight lanes (two quads) hold one product. */
#include "tensor.h"

enum { SIZE = 8, DEPTH = 4, HALF_WARP = 16 };

/* Lane t of 8, those of the upper half of the warp are 4 to 7. */
static int lane_of(int pair, int t) { return 4 * pair + t % 4 + (t < 4 ? 0 : HALF_WARP); }

static uint32_t half_of(const struct emu_warp *w, const emu_reg *reg, int lane, int i)
{
    return emu_r32(w, reg[i / 2])[lane] >> (16 * (i % 2)) & 0xffff;
}

/* Along k a lane has a row (of B: a column) of four; otherwise it has four rows of one k. */
void tensor_gather_quad_a(const struct emu_warp *w, const emu_reg *reg, int pair, bool along_k, uint32_t *out)
{
    for (int t = 0; t < SIZE; t++)
        for (int i = 0; i < DEPTH; i++) {
            int row = along_k ? t : i + t / 4 * 4, k = along_k ? i : t % 4;
            out[row * DEPTH + k] = half_of(w, reg, lane_of(pair, t), i);
        }
}

void tensor_gather_quad_b(const struct emu_warp *w, const emu_reg *reg, int pair, bool along_k, uint32_t *out)
{
    for (int t = 0; t < SIZE; t++)
        for (int i = 0; i < DEPTH; i++) {
            int column = along_k ? t : i + t / 4 * 4, k = along_k ? i : t % 4;
            out[k * SIZE + column] = half_of(w, reg, lane_of(pair, t), i);
        }
}

/* f16: a row; f32: pairs of columns of two rows. */
static int place_c(unsigned int bits, int t, int i)
{
    int row = bits == 16 ? t : (t & 1) + (i & 2) + t / 4 * 4;
    int column = bits == 16 ? i : (i & 4) + (t & 2) + (i & 1);
    return row * SIZE + column;
}

void tensor_gather_quad_c(const struct emu_warp *w, const emu_reg *reg, int pair, unsigned int bits,
                          uint32_t *out)
{
    for (int t = 0; t < SIZE; t++)
        for (int i = 0; i < SIZE; i++) {
            int lane = lane_of(pair, t);
            out[place_c(bits, t, i)] = bits == 16 ? half_of(w, reg, lane, i) : emu_r32(w, reg[i])[lane];
        }
}

void tensor_scatter_quad_c(struct emu_warp *w, const emu_reg *reg, int pair, unsigned int bits,
                           const uint32_t *in)
{
    for (int t = 0; t < SIZE; t++)
        for (int i = 0; i < SIZE; i++) {
            const uint32_t x = in[place_c(bits, t, i)];
            uint32_t      *to = &emu_r32(w, reg[bits == 16 ? i / 2 : i])[lane_of(pair, t)];
            *to = bits == 32 ? x : i % 2 ? (*to & 0xffff) | x << 16 : (*to & 0xffff0000) | x;
        }
}
