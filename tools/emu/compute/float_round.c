/* float_round.c - f32 and f64 arithmetic in the directed rounding modes.
 *
 * f32 is computed in double, where products are exact and sums are rounded to odd, then rounded once more;
 * a quotient or root that rounds to a number of 25 bits or fewer in double is that number exactly.
 * f64 is computed with 128-bit integers: a value is  significand * 2^exponent  with the top bit at TOP; if bits
 * that are shifted out at the bottom were not zero, the last bit becomes one. */
#include "float_round.h"
#include <math.h>
#include "float_lanes.h"

__extension__ typedef unsigned __int128 wide;

enum { TOP = 125 };
struct parts {
    bool negative;
    int  exponent;
    wide significand;
};

static bool is_nan(uint64_t u) { return (u & 0x7fffffffffffffffull) > 0x7ff0000000000000ull; }
static bool is_infinite(uint64_t u) { return (u & 0x7fffffffffffffffull) == 0x7ff0000000000000ull; }
static bool is_zero(uint64_t u) { return !(u & 0x7fffffffffffffffull); }

/* The sign of the exact zero that is the sum of two numbers of opposite sign. */
static uint64_t cancelled(enum emu_rounding rounding) { return rounding == EMU_RM ? 1ull << 63 : 0; }

static struct parts normalised(struct parts p)
{
    const uint64_t high = (uint64_t)(p.significand >> 64), low = (uint64_t)p.significand;
    const int      zeros = high ? __builtin_clzll(high) : 64 + __builtin_clzll(low);
    const int      up = zeros - (127 - TOP);
    if (up >= 0)
        p.significand <<= up;
    else
        p.significand = p.significand >> -up | ((p.significand & (((wide)1 << -up) - 1)) != 0);
    p.exponent -= up;
    return p;
}
/* The argument is finite and not zero. */
static struct parts unpack(uint64_t u)
{
    const uint64_t     field = u >> 52 & 0x7ff, fraction = u & 0xfffffffffffffull;
    const uint64_t     significand = field ? fraction | 1ull << 52 : fraction;
    const struct parts p = {(bool)(u >> 63), (int)(field ? field : 1) - 1075, significand};
    return normalised(p);
}

static uint64_t pack(struct parts p, enum emu_rounding rounding)
{
    const uint64_t sign = (uint64_t)p.negative << 63;
    p = normalised(p);
    const int  wanted = p.exponent + TOP - 52, unit = wanted > -1074 ? wanted : -1074;
    const int  down = unit - p.exponent > 127 ? 127 : unit - p.exponent; /* 127: less than half a unit */
    const wide rest = p.significand & (((wide)1 << down) - 1), half = (wide)1 << (down - 1);
    uint64_t   kept = (uint64_t)(p.significand >> down);
    const bool nearest_up = rest > half || (rest == half && (kept & 1));
    const bool outward = rounding == (p.negative ? EMU_RM : EMU_RP);
    kept += rounding == EMU_RN ? nearest_up : outward && rest;
    if (unit > 971) /* beyond the largest exponent */
        return sign | (rounding == EMU_RN || outward ? 0x7ff0000000000000ull : 0x7fefffffffffffffull);
    const uint64_t code = ((uint64_t)(unit + 1074) << 52) + kept;
    if (code >= 0x7ff0000000000000ull)
        return sign | 0x7ff0000000000000ull; /* rounding carried, so the mode rounds away from zero here */
    return sign | code;
}

static struct parts sum(struct parts a, struct parts b)
{
    if (b.exponent > a.exponent) {
        const struct parts swap = a;
        a = b;
        b = swap;
    }
    const int  down = a.exponent - b.exponent;
    const wide lost = down > 127 ? b.significand : b.significand & (((wide)1 << down) - 1);
    wide       aligned = down > 127 ? 0 : b.significand >> down;
    aligned |= lost != 0;
    if (a.negative == b.negative) {
        a.significand += aligned;
        return a;
    }
    if (aligned > a.significand) {
        a.significand = aligned - a.significand;
        a.negative = b.negative;
    } else {
        a.significand -= aligned;
    }
    return a;
}

uint64_t emu_round_add_f64(uint64_t a, uint64_t b, enum emu_rounding rounding)
{
    const double host = emu_double_of(a) + emu_double_of(b);
    if (is_nan(emu_bits_of_double(host)))
        return EMU_NAN_F64;
    if (is_infinite(a) || is_infinite(b))
        return emu_bits_of_double(host);
    if (is_zero(a) && is_zero(b))
        return a == b ? a : cancelled(rounding);
    if (is_zero(a) || is_zero(b))
        return is_zero(a) ? b : a;
    const struct parts p = sum(unpack(a), unpack(b));
    return p.significand ? pack(p, rounding) : cancelled(rounding);
}

static struct parts product(uint64_t a, uint64_t b)
{
    const struct parts x = unpack(a), y = unpack(b);
    const wide         significand = (x.significand >> (TOP - 52)) * (y.significand >> (TOP - 52));
    const struct parts p = {x.negative != y.negative, x.exponent + y.exponent + 2 * (TOP - 52), significand};
    return normalised(p);
}

uint64_t emu_round_mul_f64(uint64_t a, uint64_t b, enum emu_rounding rounding)
{
    const double host = emu_double_of(a) * emu_double_of(b);
    if (is_nan(emu_bits_of_double(host)))
        return EMU_NAN_F64;
    if (is_infinite(a) || is_infinite(b) || is_zero(a) || is_zero(b))
        return emu_bits_of_double(host);
    return pack(product(a, b), rounding);
}

uint64_t emu_round_fma_f64(uint64_t a, uint64_t b, uint64_t c, enum emu_rounding rounding)
{
    const double host = fma(emu_double_of(a), emu_double_of(b), emu_double_of(c));
    if (is_nan(emu_bits_of_double(host)))
        return EMU_NAN_F64;
    if (is_infinite(a) || is_infinite(b) || is_infinite(c))
        return emu_bits_of_double(host);
    if (is_zero(a) || is_zero(b)) {
        const uint64_t zero = (a ^ b) & 1ull << 63;
        return emu_round_add_f64(zero, c, rounding);
    }
    if (is_zero(c))
        return pack(product(a, b), rounding);
    const struct parts p = sum(product(a, b), unpack(c));
    return p.significand ? pack(p, rounding) : cancelled(rounding);
}

uint64_t emu_round_div_f64(uint64_t a, uint64_t b, enum emu_rounding rounding)
{
    const double host = emu_double_of(a) / emu_double_of(b);
    if (is_nan(emu_bits_of_double(host)))
        return EMU_NAN_F64;
    if (is_infinite(a) || is_infinite(b) || is_zero(a) || is_zero(b))
        return emu_bits_of_double(host);
    const struct parts x = unpack(a), y = unpack(b);
    const uint64_t     divisor = (uint64_t)(y.significand >> (TOP - 52)); /* 53 bits */
    const wide         quotient = x.significand / divisor << 1 | (x.significand % divisor != 0);
    const struct parts q = {x.negative != y.negative, x.exponent - y.exponent - (TOP - 52) - 1, quotient};
    return pack(q, rounding);
}

uint64_t emu_round_sqrt_f64(uint64_t a, enum emu_rounding rounding)
{
    const double root = sqrt(emu_double_of(a));
    if (is_nan(emu_bits_of_double(root)))
        return EMU_NAN_F64;
    if (is_infinite(a) || is_zero(a) || rounding == EMU_RN)
        return emu_bits_of_double(root);
    /* the host's root is one of the two neighbours: compare its square, exactly, with a */
    const struct parts x = unpack(a), r = unpack(emu_bits_of_double(root));
    const uint64_t     s = (uint64_t)(r.significand >> (TOP - 52));
    const struct parts square = normalised((struct parts){false, 2 * (r.exponent + TOP - 52), (wide)s * s});
    const bool         same = square.exponent == x.exponent && square.significand == x.significand;
    const bool         above = square.exponent != x.exponent ? square.exponent > x.exponent
                                                             : square.significand > x.significand;
    if (same)
        return emu_bits_of_double(root);
    if (rounding == EMU_RP)
        return emu_bits_of_double(root) + !above;
    return emu_bits_of_double(root) - above;
}

/* ---- f32 -------------------------------------------------------------------------------------------- */
static double f32(uint32_t bits) { return (double)emu_float_of(bits); }

uint32_t emu_round_f32(double value, enum emu_rounding rounding, bool ftz)
{
    const uint32_t code = emu_narrow(value, &emu_format_f32, rounding, false);
    if (!ftz) /* times 2^24 there are no subnormals, so that all 24 bits are kept */
        return code;
    const uint32_t raised = emu_narrow(value * 0x1p24, &emu_format_f32, rounding, false);
    return (raised & 0x7fffffff) < 0x0c800000 ? code & 0x80000000 : code; /* 2^-102 */
}
static uint32_t round_sum(double p, double c, enum emu_rounding rounding, bool ftz)
{
    const double s = emu_sum_to_odd(p, c);
    if (s == 0 && rounding == EMU_RM && !(signbit(p) && signbit(c)))
        return signbit(p) == signbit(c) ? 0 : 0x80000000;
    return emu_round_f32(s, rounding, ftz);
}
uint32_t emu_round_add_f32(uint32_t a, uint32_t b, enum emu_rounding rounding, bool ftz)
{
    return round_sum(f32(a), f32(b), rounding, ftz);
}
uint32_t emu_round_mul_f32(uint32_t a, uint32_t b, enum emu_rounding rounding, bool ftz)
{
    return emu_round_f32(f32(a) * f32(b), rounding, ftz);
}
uint32_t emu_round_fma_f32(uint32_t a, uint32_t b, uint32_t c, enum emu_rounding rounding, bool ftz)
{
    return round_sum(f32(a) * f32(b), f32(c), rounding, ftz);
}
uint32_t emu_round_div_f32(uint32_t a, uint32_t b, enum emu_rounding rounding, bool ftz)
{
    return emu_round_f32(f32(a) / f32(b), rounding, ftz);
}
uint32_t emu_round_sqrt_f32(uint32_t a, enum emu_rounding rounding, bool ftz)
{
    return emu_round_f32(sqrt(f32(a)), rounding, ftz);
}
