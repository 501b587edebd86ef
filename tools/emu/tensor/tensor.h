/* tensor.h - what tensor cores compute: D = A B + C of small matrices, to the bit.
 *
 * PTX does not define the order in which products are added, nor their rounding.  The hardware does this
 * (tensor_rule has the numbers):
 *   1. it aligns the products of `terms` elements along k, and C, to the largest exponent among them, or to
 *      TENSOR_FLOOR if that is larger; it does not normalise products first;
 *   2. it truncates each toward zero to a multiple of 2^(exponent - fraction), and adds all of them exactly;
 *   3. it rounds the sum once: f32 toward zero, f16 to nearest even.  A zero is +0; a NaN has all bits set
 *      except the sign.
 * It adds further elements along k to that result in the same way.
 *
 * Block scaling (tensor_multiply_e2m1 and the exponents of a product): see mma_kind.c.
 *
 * Matrices are plain arrays of 32-bit words with one element each: the bits of the type, the rest zero (b1: 32
 * elements in a word, the first in the lowest bit).  f64 has functions of its own.
 *
 * Threads  there is no state: any thread may call everything. */
#ifndef EMU_TENSOR_H
#define EMU_TENSOR_H
#include "tools/emu/machine/emu.h"

/* name, bits of an element in a register, bits of a word of a matrix */
/* clang-format off */
#define TENSOR_TYPE_MAP(X)                                                                     \
    X(f16, 16, 16) X(bf16, 16, 16) X(tf32, 32, 32) X(e4m3, 8, 8) X(e5m2, 8, 8) X(f32, 32, 32)  \
    X(f64, 64, 64) X(s32, 32, 32) X(s8, 8, 8) X(u8, 8, 8) X(s4, 4, 4) X(u4, 4, 4) X(b1, 1, 32) \
    X(e3m2, 6, 6) X(e2m3, 6, 6) X(e2m1, 4, 4)
/* clang-format on */
enum tensor_type {
#define TENSOR_TYPE_ENUM(name, bits, word) TENSOR_##name,
    TENSOR_TYPE_MAP(TENSOR_TYPE_ENUM)
#undef TENSOR_TYPE_ENUM
        TENSOR_TYPES
};
const char      *tensor_type_name(enum tensor_type type);
unsigned int     tensor_type_bits(enum tensor_type type); /* of an element */
enum tensor_type tensor_type_find(const char *name);      /* TENSOR_TYPES: no such type */

enum {
    TENSOR_MOST_M = 32,
    TENSOR_MOST_K = 64, /* words along k; N is any multiple of 8 */
    TENSOR_FLOOR = -133
};

enum tensor_method {
    TENSOR_FUSED,  /* as described above */
    TENSOR_BY_F16, /* e4m3, e5m2 by f16 instructions: even pairs along k, then odd pairs, C last */
    TENSOR_BY_FMA  /* m8n8k4 of f16 by ordinary multiply-adds */
};
struct tensor_rule {
    enum tensor_method method;
    int                terms, fraction;
    int                kept; /* fraction bits that an f32 result has */
};
enum tensor_unit { TENSOR_MMA, TENSOR_WMMA, TENSOR_WGMMA };
/* The rule of the GPU `sm`: exact for 80 to 90, otherwise as far as it is known (see README.md). */
struct tensor_rule tensor_rule_of(int sm, enum tensor_unit unit, enum tensor_type a, int m, int k);

enum tensor_bits { TENSOR_XOR, TENSOR_AND }; /* b1: the operation in place of the product */

struct tensor_product {
    int                m, n, k; /* m: 8, 16 or 32; n: a multiple of 8; k: elements, of b1 a multiple of 32 */
    enum tensor_type   a, b, c;
    struct tensor_rule rule;
    enum tensor_bits   bits;
    bool               saturates; /* s32: the exact sum is clipped; otherwise it wraps */
    /* Scales of the rows of A and the columns of B, as exponents of 2; then n is 8.  NULL: there are none. */
    const int *a_exponent, *b_exponent;
};
/* c[m][n] += a[m][k] b[k][n], for all types but f64. */
void tensor_multiply(const struct tensor_product *p, const uint32_t *a, const uint32_t *b, uint32_t *c);
/* The same of floats and of integers. */
void tensor_multiply_float(const struct tensor_product *p, const uint32_t *a, const uint32_t *b, uint32_t *c);
void tensor_multiply_integer(const struct tensor_product *p, const uint32_t *a, const uint32_t *b, uint32_t *c);
void tensor_multiply_f64(int m, int n, int k, const uint64_t *a, const uint64_t *b, uint64_t *c);

/* Factors of block scaling: 2^(bits - 127), or a float of 4 and 3 bits without a sign.  Each is
 * significand 2^(exponent - TENSOR_SCALE_FRACTION); a NaN has a significand below 0. */
enum tensor_scale_type { TENSOR_ue8m0, TENSOR_ue4m3 };
enum { TENSOR_SCALE_FRACTION = 3 };
struct tensor_scale {
    int significand, exponent;
};
struct tensor_scale tensor_scale_of(enum tensor_scale_type type, uint32_t bits);
/* c[16][8] += (a[16][64] a_scale[16][vector]) (b[64][8] b_scale[vector][8]) of e2m1, for each 64 / vector elements
 * along k one factor; c is f32. */
void tensor_multiply_e2m1(int vector, const uint32_t *a, const uint32_t *b, const struct tensor_scale *a_scale,
                          const struct tensor_scale *b_scale, uint32_t *c);

/* Exact conversions, and to f16 to nearest even (a zero keeps its sign; NaN is 0x7fff). */
uint32_t tensor_f16_of_e4m3(uint32_t bits);
uint32_t tensor_f16_of_e5m2(uint32_t bits);
double   tensor_double_of_f16(uint32_t bits);
uint32_t tensor_f16_of_double(double x);

/* ---- fragments ----------------------------------------------------------------------------------------
 * Which lane and register holds which element.  With lane = 4 g + q and e elements of A or B in a register:
 *   A  successive registers cover blocks of 8 rows (16 rows at most), then 4 e columns along k, then blocks of
 *      16 rows; the lane has row g and the columns from e q on.
 *   B  successive registers cover 4 e rows along k, then blocks of 8 columns; the lane has column g and the rows
 *      from e q on.
 *   C  32 bits: two registers (columns 2 q, 2 q + 1) for each block of 8 rows (row g; 16 rows at most), then
 *      blocks of 8 columns, then blocks of 16 rows; f16: both columns in one register; f64: as 32 bits.
 * mma.sync from m16n8k8 on, A and D of wgmma (16 rows of a warp), and wmma in this emulator use this layout. */
struct tensor_fragment {
    int          rows, columns;
    unsigned int bits;
}; /* of A: M x K, of B: K x N, of C: M x N */
int tensor_registers_a(const struct tensor_fragment *f);
int tensor_registers_b(const struct tensor_fragment *f);
int tensor_registers_c(const struct tensor_fragment *f);
/* Matrices [row][column] of words; b1 counts in words of 32 bits. */
void tensor_gather_a(const struct emu_warp *w, const emu_reg *reg, const struct tensor_fragment *f,
                     uint32_t *out);
void tensor_gather_b(const struct emu_warp *w, const emu_reg *reg, const struct tensor_fragment *f,
                     uint32_t *out);
void tensor_gather_c(const struct emu_warp *w, const emu_reg *reg, const struct tensor_fragment *f,
                     uint32_t *out);
void tensor_scatter_a(struct emu_warp *w, const emu_reg *reg, const struct tensor_fragment *f,
                      const uint32_t *in);
void tensor_scatter_b(struct emu_warp *w, const emu_reg *reg, const struct tensor_fragment *f,
                      const uint32_t *in);
void tensor_scatter_c(struct emu_warp *w, const emu_reg *reg, const struct tensor_fragment *f,
                      const uint32_t *in);
/* m8n8k4 and m16n8k4.. of f64: [row][column] of 64 bits. */
void tensor_gather_a64(const struct emu_warp *w, const emu_reg *reg, int rows, int columns, uint64_t *out);
void tensor_gather_b64(const struct emu_warp *w, const emu_reg *reg, int rows, int columns, uint64_t *out);
void tensor_gather_c64(const struct emu_warp *w, const emu_reg *reg, int rows, int columns, uint64_t *out);
void tensor_scatter_c64(struct emu_warp *w, const emu_reg *reg, int rows, int columns, const uint64_t *in);
/* m8n8k4 of f16: lanes 4 pair .. 4 pair + 3 and the lanes 16 higher hold one product.  [8][4], [4][8] and
 * [8][8]; `along_k`: .row of A, .col of B. */
enum { TENSOR_QUAD_PAIRS = 4 };
void tensor_gather_quad_a(const struct emu_warp *w, const emu_reg *reg, int pair, bool along_k, uint32_t *out);
void tensor_gather_quad_b(const struct emu_warp *w, const emu_reg *reg, int pair, bool along_k, uint32_t *out);
void tensor_gather_quad_c(const struct emu_warp *w, const emu_reg *reg, int pair, unsigned int bits,
                          uint32_t *out);
void tensor_scatter_quad_c(struct emu_warp *w, const emu_reg *reg, int pair, unsigned int bits,
                           const uint32_t *in);
#endif
