/* float_inputs.h - the operands that floating-point instructions are tested with: the same on a GPU, where the
 * results of tests/data/emu_float.txt were recorded, and on the emulated one.
 *
 *   f  f32     d  f64     h  f16x2     b  bf16x2     x  all 65536 codes of 16 bits     i  integers
 *   t  f32 whose product is near 2^-126, where .ftz matters       -  0 */
#ifndef EMU_FLOAT_INPUTS_H
#define EMU_FLOAT_INPUTS_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { INPUTS = 4096, INPUTS_ALL = 65536, INPUT_OPERANDS = 3, INPUT_EDGES = 2048 };

static inline uint64_t input_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state * 0x2545f4914f6cdd1dull;
}
/* Combines the edge values of all operands. */
static inline size_t input_edge(size_t index, int operand, size_t edges)
{
    return (operand == 0 ? index : operand == 1 ? index / edges : index * 7 / 3) % edges;
}

static inline uint64_t input_f32(uint64_t *state, size_t index, int operand, uint64_t before)
{
    static const uint32_t edges[] = {0,          0x80000000, 1,          0x80000001, 0x7fffff,   0x807fffff,
                                     0x800000,   0x80800000, 0x800001,   0x3f800000, 0xbf800000, 0x3f7fffff,
                                     0x3f800001, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000,
                                     0xffc00000, 0x7f800001, 0xffffffff, 0x7fffffff, 0x40000000, 0x3f000000,
                                     0xbf000000, 0x4b000000, 0x4b800001, 0x33800000, 0x38800000, 0x33000001,
                                     0x477fe000, 0x477ff000, 0x477fefff, 0x42fe0000, 0xc3160000, 0x4f000000,
                                     0xcf000000, 0x4f800000, 0x5f000000, 0x40200000, 0x40600000, 0xc0200000,
                                     0x7e800000, 0x7f000000};
    const size_t          count = sizeof edges / sizeof edges[0];
    const uint64_t        r = input_random(state);
    const uint32_t        low = (uint32_t)r, high = (uint32_t)(r >> 40);
    if (index < INPUT_EDGES)
        return edges[input_edge(index, operand, count)];
    switch (index % 8) {
    case 0:
        return low;
    case 1:
        return (low & 0x807fffff) | (high % 30) << 23;
    case 2:
        return (low & 0x807fffff) | (115 + high % 24) << 23;
    case 3:
        return (low & 0x807f0000) | (124 + high % 6) << 23; /* few bits make ties */
    case 4:
        return (low & 0x80000007) | (60 + high % 8) << 23; /* products that underflow */
    case 5:
        return operand == 1 ? (uint32_t)(before ^ 0x80000000) + (high & 15) - 8 : /* sums that cancel */
                   (low & 0x807fffff) | (125 + high % 4) << 23;
    case 6:
        return (low & 0x807fffff) | (140 + high % 30) << 23; /* integers */
    default:
        return (low & 0x80fff000) | (100 + high % 50) << 23;
    }
}
static inline uint64_t input_tiny(uint64_t *state, size_t index, int operand, uint64_t before)
{
    const uint64_t r = input_random(state);
    const uint32_t low = (uint32_t)r;
    const uint32_t near[] = {low & 0x7fffff, 0x7fffff - (low & 15), low & 15, (low & 0xff) << 12};
    float          first, second;
    uint32_t       bits = (uint32_t)before & 0x7fffffff;
    if (operand == 0)
        return (uint32_t)(r >> 40 & 1) << 31 | (60 + (uint32_t)index % 60) << 23 | near[r >> 62];
    if (operand == 2)
        return r & 1 ? (r & 2) << 30 : (low & 0x807fffff) | (1 + (uint32_t)(r >> 40) % 3) << 23;
    memcpy(&first, &bits, sizeof first);
    second = (float)(0x1p-126 / (double)first);
    memcpy(&bits, &second, sizeof bits);
    return (bits + (uint32_t)(r % 9) - 4) ^ (uint32_t)(r >> 32 & 1) << 31;
}
static inline uint64_t input_f64(uint64_t *state, size_t index, int operand, uint64_t before)
{
    /* clang-format off */
    static const uint64_t edges[] = {
        0,                  1ull << 63,         1,                  0x800fffffffffffff, 0x0010000000000000,
        0x3ff0000000000000, 0xbff0000000000000, 0x3fefffffffffffff, 0x3ff0000000000001, 0x7fefffffffffffff,
        0xffefffffffffffff, 0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000, 0xfff8000000000123,
        0x7ff0000000000001, 0x7ffc0000deadbeef, 0x4000000000000000, 0x3fe0000000000000, 0x47efffffe0000000,
        0x47efffffefffffff, 0x47effffff0000000, 0x36a0000000000000, 0x3690000000000000, 0x3690000000000001,
        0x3810000000000000, 0x380fffffe0000000, 0x380ffffff0000000, 0x41dfffffffc00000, 0x43e0000000000000,
        0x40effc0000000000, 0x4004000000000000, 0xc004000000000000, 0x3e70000000000000};
    const uint64_t r = input_random(state), e = input_random(state), fraction = r & 0x800fffffffffffff;
    if (index < INPUT_EDGES)
        return edges[input_edge(index, operand, sizeof edges / sizeof edges[0])];
    switch (index % 8) {
    case 0:  return r;
    case 1:  return fraction | (883 + e % 280) << 52;
    case 2:  return fraction | (1011 + e % 60) << 52;
    case 3:  return (r & 0x800ff00000000000) | (1020 + e % 6) << 52;
    case 4:  return (r & 0x800fffffe0000000) | (873 + e % 40) << 52;
    case 5:  return operand == 1 ? (before ^ 1ull << 63) + (e >> 60) - 8 : fraction | (1021 + e % 4) << 52;
    case 6:  return fraction | (e % 60) << 52;
    default: /* near 2^-126 */
        return (0x3810000000000000ull + (uint64_t)((int64_t)r >> (17 + e % 40))) ^ (e >> 63) << 63;
    }
    /* clang-format on */
}
/* exponent: the number of its bits */
static inline uint64_t input_half(uint64_t *state, size_t index, int operand, unsigned int exponent)
{
    static const uint16_t f16[] = {0,      0x8000, 1,      0x8001, 0x3ff,  0x400,  0x8400, 0x3c00, 0xbc00,
                                   0x3bff, 0x3c01, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00, 0xfe00, 0x7c01,
                                   0x7fff, 0xffff, 0x4000, 0x3800, 0x0200, 0x77ff, 0x1400};
    static const uint16_t bf16[] = {0,      0x8000, 1,      0x8001, 0x7f,   0x80,   0x8080, 0x3f80, 0xbf80,
                                    0x3f7f, 0x3f81, 0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7fc0, 0xffc0, 0x7f81,
                                    0x7fff, 0xffff, 0x4000, 0x3f00, 0x0040, 0x5f00, 0x2000};
    const size_t          edge = input_edge(index, operand, sizeof f16 / sizeof f16[0]);
    const uint64_t        r = input_random(state), e = r >> 40;
    const uint64_t        tiny = operand == 0 ? 1 + index % 20 : operand == 1 ? 15 - index % 15 : e % 2;
    if (index < INPUT_EDGES)
        return exponent == 5 ? f16[edge] : bf16[edge];
    if (index % 4 == 0)
        return r & 0xffff;
    if (exponent == 8)
        return (r & 0x807f) | (121 + e % 14) << 7;
    return (r & 0x83ff) | (index % 4 == 1 ? tiny : 10 + e % 10) << 10; /* tiny: products near 2^-14 */
}
static inline uint64_t input_integer(uint64_t *state, size_t index)
{
    const uint64_t r = input_random(state), s = input_random(state) % 64;
    const uint64_t shifted = index & 1 ? r >> s : (uint64_t)((int64_t)r >> s);
    const uint64_t v = index < 64 ? (1ull << index) - (index & 1) : shifted;
    return index & 2 ? v : v ^ v << 32;
}
static inline uint64_t input_value(char kind, uint64_t *state, size_t index, int operand, uint64_t before)
{
    switch (kind) {
    case 'f':
        return input_f32(state, index, operand, before);
    case 't':
        return input_tiny(state, index, operand, before);
    case 'd':
        return input_f64(state, index, operand, before);
    case 'h':
        return input_half(state, index, operand, 5) | input_half(state, index + 1, operand, 5) << 16;
    case 'b':
        return input_half(state, index, operand, 8) | input_half(state, index + 1, operand, 8) << 16;
    case 'x':
        return (index & 0xffff) | ((index * 40503u + 12345) & 0xffff) << 16;
    case 'i':
        return input_integer(state, index);
    default:
        return 0;
    }
}
static inline size_t input_count(const char *kinds) { return kinds[0] == 'x' ? INPUTS_ALL : INPUTS; }
/* kinds: one letter for each operand */
static inline void input_fill(const char *kinds, uint64_t *values[INPUT_OPERANDS])
{
    uint64_t state = 0x9e3779b97f4a7c15ull;
    for (size_t i = 0; i < input_count(kinds); i++) {
        uint64_t before = 0;
        for (int k = 0; k < INPUT_OPERANDS; k++) {
            const char kind = (size_t)k < strlen(kinds) ? kinds[k] : '-';
            before = values[k][i] = input_value(kind, &state, i, k, before);
        }
    }
}
static inline uint64_t input_hash_on(uint64_t hash, const void *bytes, size_t count)
{
    const unsigned char *p = (const unsigned char *)bytes;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ p[i]) * 0x100000001b3ull;
    return hash;
}
static inline uint64_t input_hash(const void *bytes, size_t count)
{
    return input_hash_on(0xcbf29ce484222325ull, bytes, count);
}
/* The kernel of one instruction; its operands are registers a2 a4 a8 (16, 32, 64 bits), likewise b and c, and
 * the result is d. */
#define INPUT_KERNEL                                                                                    \
    ".version 8.6\n.target %s\n.address_size 64\n"                                                      \
    ".visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd) {\n"             \
    ".reg .b64 t<8>, a8, b8, c8, d8; .reg .b32 i4, j4, a4, b4, c4, d4; .reg .b16 a2, b2, c2, d2, h2;\n" \
    ".reg .pred p;\n"                                                                                   \
    "mov.u32 i4, %%ctaid.x; mov.u32 j4, %%tid.x; shl.b32 i4, i4, 8; add.u32 i4, i4, j4;\n"              \
    "ld.param.u64 t0, [pa]; ld.param.u64 t1, [pb]; ld.param.u64 t2, [pc]; ld.param.u64 t3, [pd];\n"     \
    "mul.wide.u32 t4, i4, 8; add.u64 t0, t0, t4; add.u64 t1, t1, t4; add.u64 t2, t2, t4;\n"             \
    "mul.wide.u32 t4, i4, %d; add.u64 t3, t3, t4;\n"                                                    \
    "ld.global.b64 a8, [t0]; ld.global.b64 b8, [t1]; ld.global.b64 c8, [t2];\n"                         \
    "mov.b64 {a4, i4}, a8; mov.b64 {b4, i4}, b8; mov.b64 {c4, i4}, c8;\n"                               \
    "mov.b32 {a2, h2}, a4; mov.b32 {b2, h2}, b4; mov.b32 {c2, h2}, c4;\n"                               \
    "%s\nst.global.b%d [t3], d%d; ret;\n}\n" /* target, bytes of d, instruction, bits, bytes */
#endif
