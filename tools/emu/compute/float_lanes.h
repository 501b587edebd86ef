/* float_lanes.h - how floating-point ops run over 32 lanes, and the arithmetic of an element that they share.
 *
 * An op is a function of the bits of one element, without branches.  EMU_LANES_1/2/3 make an exec function of
 * it; EMU_FLOAT_1/2/3 make two, the second for hosts with AVX2 and FMA.  The results are the same. */
#ifndef EMU_FLOAT_LANES_H
#define EMU_FLOAT_LANES_H
#include "alu_float.h"
#include "float_format.h"

struct emu_exec_pair {
    emu_exec *plain, *wide;
};
/* The one for this host. */
emu_exec *emu_float_exec(struct emu_exec_pair pair);

#if defined(__x86_64__) && defined(__GNUC__)
#define EMU_WIDE __attribute__((target("avx2,fma")))
#else
#define EMU_WIDE
#endif

/* d[l] = VALUE for the lanes of the mask.  VALUE is computed for all lanes, so that this is a vector loop. */
#define EMU_EACH(type, d, mask, VALUE)                                     \
    do {                                                                   \
        if ((mask) == EMU_ALL) {                                           \
            EMU_IVDEP for (int l = 0; l < EMU_LANES; l++)(d)[l] = (VALUE); \
        } else {                                                           \
            type emu_values_[EMU_LANES];                                   \
            for (int l = 0; l < EMU_LANES; l++)                            \
                emu_values_[l] = (VALUE);                                  \
            for (int l = 0; l < EMU_LANES; l++)                            \
                (d)[l] = (mask) >> l & 1 ? emu_values_[l] : (d)[l];        \
        }                                                                  \
    } while (0)

#define EMU_LANES_1(attribute, name, type, row, FN)                                        \
    attribute static void name(struct emu_warp *w, const struct emu_op *op, uint32_t mask) \
    {                                                                                      \
        const unsigned int flags __attribute__((unused)) = op->u8[1];                      \
        type              *d = row(w, op->result[0]);                                      \
        const type        *a = row(w, op->source[0]);                                      \
        EMU_EACH(type, d, mask, FN(a[l]));                                                 \
    }
#define EMU_LANES_2(attribute, name, type, row, FN)                                        \
    attribute static void name(struct emu_warp *w, const struct emu_op *op, uint32_t mask) \
    {                                                                                      \
        const unsigned int flags __attribute__((unused)) = op->u8[1];                      \
        type              *d = row(w, op->result[0]);                                      \
        const type        *a = row(w, op->source[0]), *b = row(w, op->source[1]);          \
        EMU_EACH(type, d, mask, FN(a[l], b[l]));                                           \
    }
#define EMU_LANES_3(attribute, name, type, row, FN)                                                           \
    attribute static void name(struct emu_warp *w, const struct emu_op *op, uint32_t mask)                    \
    {                                                                                                         \
        const unsigned int flags __attribute__((unused)) = op->u8[1];                                         \
        type              *d = row(w, op->result[0]);                                                         \
        const type        *a = row(w, op->source[0]), *b = row(w, op->source[1]), *c = row(w, op->source[2]); \
        EMU_EACH(type, d, mask, FN(a[l], b[l], c[l]));                                                        \
    }
#define EMU_PAIR(name)    \
    {                     \
        name, name##_wide \
    }
/* The pairs of a function for all of enum emu_float_type but f32x2. */
#define EMU_FLOAT_ROW(name)                                                                       \
    {                                                                                             \
        EMU_PAIR(name##_f32), EMU_PAIR(name##_f64), EMU_PAIR(name##_f16), EMU_PAIR(name##_f16x2), \
            EMU_PAIR(name##_bf16), EMU_PAIR(name##_bf16x2)                                        \
    }
#define EMU_FLOAT_1(name, FN) \
    EMU_LANES_1(, name, uint32_t, emu_r32, FN) EMU_LANES_1(EMU_WIDE, name##_wide, uint32_t, emu_r32, FN)
#define EMU_FLOAT_2(name, FN) \
    EMU_LANES_2(, name, uint32_t, emu_r32, FN) EMU_LANES_2(EMU_WIDE, name##_wide, uint32_t, emu_r32, FN)
#define EMU_FLOAT_3(name, FN) \
    EMU_LANES_3(, name, uint32_t, emu_r32, FN) EMU_LANES_3(EMU_WIDE, name##_wide, uint32_t, emu_r32, FN)
#define EMU_DOUBLE_1(name, FN) \
    EMU_LANES_1(, name, uint64_t, emu_r64, FN) EMU_LANES_1(EMU_WIDE, name##_wide, uint64_t, emu_r64, FN)
#define EMU_DOUBLE_2(name, FN) \
    EMU_LANES_2(, name, uint64_t, emu_r64, FN) EMU_LANES_2(EMU_WIDE, name##_wide, uint64_t, emu_r64, FN)

/* ---- one element of f32 ----------------------------------------------------------------------------- */
EMU_INLINE bool emu_is_nan_f32(uint32_t u) { return (int32_t)(u & 0x7fffffff) > 0x7f800000; }
/* .ftz: subnormals become zeros of their sign.  As on the hardware, a result counts as subnormal if it is below
 * 2^-126 when rounded to 24 bits with any exponent, even if as an f32 it would round up to 2^-126. */
EMU_INLINE uint32_t emu_ftz_f32(uint32_t u) { return emu_if(u & 0x7f800000, u, u & 0x80000000); }
EMU_INLINE uint32_t emu_canonical_f32(uint32_t u) { return emu_if(emu_is_nan_f32(u), EMU_NAN_F32, u); }
/* .sat: to [+0, 1]; NaN becomes +0.  As unsigned numbers negative values are the largest. */
EMU_INLINE uint32_t emu_sat_f32(uint32_t u)
{
    const uint32_t least = emu_if(u > 0x7f800000, 0, u);
    return emu_if(least > 0x3f800000, 0x3f800000, least);
}

/* p + c rounded to odd: a second rounding, to fewer bits, then gives the same result as a single rounding. */
/* For one lane at a time: on CPUs without 64-bit comparisons vectors would be slower. */
EMU_INLINE double emu_sum_to_odd(double p, double c)
{
    const double   s = p + c, back = s - p, error = (p - (s - back)) + (c - back);
    const uint64_t bits = emu_bits_of_double(s);
    const uint64_t inexact = (error > 0) | (error < 0), outward = (error > 0) == (s > 0);
    const uint64_t odd = outward ? bits + 1 : bits - 1;
    return emu_double_of(inexact & ~bits & 1 ? odd : bits);
}
EMU_INLINE float emu_sum_to_odd_f32(float p, float c)
{
    const float    s = p + c, back = s - p, error = (p - (s - back)) + (c - back);
    const uint32_t bits = emu_bits_of(s);
    const uint32_t inexact = (error > 0) | (error < 0), outward = (error > 0) == (s > 0);
    const uint32_t step = 2 * outward - 1;
    return emu_float_of(bits + (step & (0 - (inexact & ~bits & 1))));
}
/* A double rounded to odd as a float, for uses in which values beyond the largest float do not matter. */
EMU_INLINE float emu_to_odd_f32(double value)
{
    const float    f = (float)value;
    const double   error = value - (double)f;
    const uint32_t bits = emu_bits_of(f);
    const uint32_t inexact = (error > 0) | (error < 0), outward = (error > 0) == (value > 0);
    const uint32_t step = 2 * outward - 1;
    return emu_float_of(bits + (step & (0 - (inexact & ~bits & 1))));
}

/* ---- modifiers of floating-point instructions ------------------------------------------------------- */
enum { /* emu_float_mode.flags and op->u8[1] */
       EMU_FTZ = 1,
       EMU_SAT = 2,
       EMU_RELU = 4,
       EMU_NAN = 8,
       EMU_XORSIGN = 16,
       EMU_ABS = 32,
       /* only the decoders use these */
       EMU_APPROX = 64,
       EMU_FULL = 128,
       EMU_ROUNDS = 256,  /* a rounding mode is given; in `allowed`: is required, except with .approx, .full */
       EMU_NEAREST = 512, /* allowed: .rn                        */
       EMU_DIRECTED = 1024, /* allowed: .rn .rz .rm .rp            */
       EMU_HAS = 2048       /* allowed: there is such an instruction */
};
enum emu_float_type { EMU_F32, EMU_F64, EMU_F16, EMU_F16X2, EMU_BF16, EMU_BF16X2, EMU_F32X2, EMU_FLOAT_TYPES };
struct emu_float_mode {
    enum emu_float_type type;
    enum ptx_type       operand;  /* PTX_b64 for f32x2 */
    enum emu_rounding   rounding; /* EMU_RN unless written */
    unsigned int        flags;
};
/* Read all modifiers: [.rnd|.approx|.full] .ftz .sat .relu .NaN .xorsign .abs .type.  `allowed` says for each
 * type which of them exist.  False: refused. */
bool emu_float_modifiers(struct decoder *d, const unsigned int allowed[EMU_FLOAT_TYPES],
                         struct emu_float_mode *mode);
/* The operands d, a, b, ... of the mode's type; sets op->u8[0] (rounding), u8[1] (flags) and the class. */
bool emu_float_operands(struct decoder *d, struct emu_op *op, const struct emu_float_mode *mode,
                        unsigned int sources);

/* ---- arithmetic: alu_float.c decodes, the others execute -------------------------------------------- */
enum emu_arithmetic { EMU_ADD, EMU_SUB, EMU_MUL, EMU_FMA, EMU_ARITHMETIC };
/* Nearest even; sets op->exec. */
emu_exec *emu_arithmetic_f64(enum emu_arithmetic operation);
emu_exec *emu_arithmetic_half(enum emu_arithmetic operation, const struct emu_float_mode *mode);
/* Directed modes of f32, f64, f32x2: op->u8[2] is the operation. */
emu_exec emu_exec_directed_f32, emu_exec_directed_f64, emu_exec_directed_f32x2;
emu_exec emu_exec_directed_bf16; /* fma of bf16 and bf16x2 */
enum { EMU_OPERATION_DIV = EMU_ARITHMETIC, EMU_OPERATION_RCP, EMU_OPERATION_SQRT };
/* The NaN of an f64 result is not canonical: it is the first of these operands that is NaN, made quiet. */
EMU_INLINE uint64_t emu_nan_f64(uint64_t result, uint64_t first, uint64_t second, uint64_t third)
{
    const uint64_t quiet = 1ull << 51, magnitude = 0x7fffffffffffffffull, infinity = 0x7ff0000000000000ull;
    const uint64_t of_third = (third & magnitude) > infinity ? third | quiet : EMU_NAN_F64;
    const uint64_t of_second = (second & magnitude) > infinity ? second | quiet : of_third;
    const uint64_t of_first = (first & magnitude) > infinity ? first | quiet : of_second;
    return (result & magnitude) > infinity ? of_first : result;
}
#endif
