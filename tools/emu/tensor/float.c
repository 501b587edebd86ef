/* float.c - the fused sums of products of tensor cores, exactly as the hardware rounds them.
 *
 * Eight columns of D are computed at a time: elements are decoded once into magnitude, exponent and sign, and
 * sums are exact integers.  Infinities and NaNs, which are rare, are decoded as zero and corrected
 * afterwards. */
#include <math.h>

#include "tensor.h"

#define INLINE static inline __attribute__((always_inline))

enum {
    WIDE = 8,
    NOTHING = -(1 << 20), /* the exponent of a zero: below every other */
    F32_FRACTION = 23
};

/* What is not a number: the largest exponent (infinity and NaN), all ones (NaN), or nothing. */
enum special { LARGEST_EXPONENT, ALL_ONES, NO_SPECIAL };
struct format {
    int          exponent_bits, fraction_bits, bias, dropped; /* low bits that are ignored */
    enum special special;
};
static const struct format formats[TENSOR_TYPES] = {
    [TENSOR_f16] = {5, 10, 15, 0, LARGEST_EXPONENT},    [TENSOR_bf16] = {8, 7, 127, 0, LARGEST_EXPONENT},
    [TENSOR_tf32] = {8, 10, 127, 13, LARGEST_EXPONENT}, [TENSOR_e4m3] = {4, 3, 7, 0, ALL_ONES},
    [TENSOR_e5m2] = {5, 2, 15, 0, LARGEST_EXPONENT},    [TENSOR_f32] = {8, 23, 127, 0, LARGEST_EXPONENT},
    [TENSOR_e3m2] = {3, 2, 3, 0, NO_SPECIAL},           [TENSOR_e2m3] = {2, 3, 1, 0, NO_SPECIAL},
    [TENSOR_e2m1] = {2, 1, 1, 0, NO_SPECIAL},
};

/* (-1)^sign magnitude 2^(exponent - fraction bits): sign is 0 or -1. */
struct numbers {
    int32_t *magnitude, *exponent, *sign;
};

/* Decode WIDE elements, with magnitudes shifted to the left; true: infinities or NaNs are among them.  It uses
 * local arrays and no branches, so that the compiler vectorises it. */
INLINE bool decode(const struct format *f, const uint32_t *raw, struct numbers out, int at, int shift)
{
    const int m = f->fraction_bits, top = (1 << f->exponent_bits) - 1, drop = f->dropped, bias = f->bias;
    const int hidden = 1 << m, ones = hidden - 1, sign_at = m + f->exponent_bits;
    const int nan_from = f->special == LARGEST_EXPONENT ? 0 : f->special == ALL_ONES ? ones : hidden;
    int32_t   magnitude[WIDE], exponent[WIDE], sign[WIDE], odd[WIDE], any = 0;
    for (int i = 0; i < WIDE; i++) {
        int32_t bits = (int32_t)(raw[i] >> drop), fraction = bits & ones, e = bits >> m & top;
        int32_t tiny = -(e == 0), special = -(e == top) & -(fraction >= nan_from);
        int32_t value = (fraction | (hidden & ~tiny)) & ~special;
        int32_t none = -(value == 0);
        odd[i] = special;
        sign[i] = -(bits >> sign_at & 1);
        magnitude[i] = value << shift;
        exponent[i] = ((e - tiny - bias) & ~none) | (NOTHING & none);
    }
    for (int i = 0; i < WIDE; i++)
        any |= odd[i];
    memcpy(out.magnitude + at, magnitude, sizeof magnitude);
    memcpy(out.exponent + at, exponent, sizeof exponent);
    memcpy(out.sign + at, sign, sizeof sign);
    return any != 0;
}

/* ---- infinities and NaNs ------------------------------------------------------------------------------- */
enum { IS_ZERO, IS_FINITE, IS_INFINITE, IS_NAN };

static int classify(const struct format *f, uint32_t raw)
{
    uint32_t x = raw >> f->dropped, ones = (1u << f->fraction_bits) - 1, fraction = x & ones;
    uint32_t top = (1u << f->exponent_bits) - 1, e = x >> f->fraction_bits & top;
    if (e == top && f->special == LARGEST_EXPONENT)
        return fraction == 0 ? IS_INFINITE : IS_NAN;
    if (e == top && f->special == ALL_ONES && fraction == ones)
        return IS_NAN;
    return e == 0 && fraction == 0 ? IS_ZERO : IS_FINITE;
}

static uint32_t sign_of(const struct format *f, uint32_t raw)
{
    return raw >> f->dropped >> (f->fraction_bits + f->exponent_bits) & 1;
}

/* c + sum of a[i] b[i stride] if a term is infinite or NaN; false: none is. */
static bool special_sum(const struct tensor_product *p, int terms, const uint32_t *a, const uint32_t *b,
                        size_t stride, uint32_t *c)
{
    const struct format *fa = &formats[p->a], *fb = &formats[p->b], *fc = &formats[p->c];
    int                  kind = classify(fc, *c);
    bool                 nan = kind == IS_NAN, seen[2] = {false, false};
    if (kind == IS_INFINITE)
        seen[sign_of(fc, *c)] = true;
    for (int i = 0; i < terms && !nan; i++) {
        int x = classify(fa, a[i]), y = classify(fb, b[(size_t)i * stride]);
        if (x < IS_INFINITE && y < IS_INFINITE)
            continue;
        nan = x == IS_NAN || y == IS_NAN || x == IS_ZERO || y == IS_ZERO;
        seen[sign_of(fa, a[i]) ^ sign_of(fb, b[(size_t)i * stride])] = true;
    }
    if (!nan && !seen[0] && !seen[1])
        return false;
    if (nan || (seen[0] && seen[1]))
        *c = p->c == TENSOR_f16 ? 0x7fff : 0x7fffffff;
    else
        *c = p->c == TENSOR_f16 ? 0x7c00u | (uint32_t)seen[1] << 15 : 0x7f800000u | (uint32_t)seen[1] << 31;
    return true;
}

/* ---- rounding ------------------------------------------------------------------------------------------ */
/* Scaled sums, which are exact in a double. */
INLINE void scale(const int32_t top[WIDE], int fraction, double sum[WIDE])
{
    union {
        double   x[WIDE];
        uint64_t bits[WIDE];
    } power;
    for (int n = 0; n < WIDE; n++)
        power.bits[n] = (uint64_t)(int64_t)(1023 + top[n] - fraction) << 52;
    for (int n = 0; n < WIDE; n++)
        sum[n] *= power.x[n];
}

/* Round toward zero to f32: subnormals are multiples of the smallest number. */
INLINE void round_f32(const double x[WIDE], int kept, uint32_t out[WIDE])
{
    union {
        double  x[WIDE];
        int64_t bits[WIDE];
    } cut, tiny;
    union {
        float   x[WIDE];
        int32_t bits[WIDE];
    } normal;
    const int64_t smallest = (int64_t)(1023 - 126) << 52, high = (int64_t)(~(uint64_t)0 << (52 - F32_FRACTION));
    const int32_t mask = (int32_t)(~0u << (F32_FRACTION - kept));
    int32_t       count[WIDE], bits[WIDE];
    memcpy(cut.x, x, sizeof cut);
    for (int n = 0; n < WIDE; n++) {
        int64_t below = -(int64_t)((cut.bits[n] & INT64_MAX) < smallest);
        tiny.bits[n] = cut.bits[n] & below;
        cut.bits[n] &= ~below & high;
    }
    for (int n = 0; n < WIDE; n++)
        count[n] = (int32_t)(tiny.x[n] * 0x1p149);
    for (int n = 0; n < WIDE; n++)
        normal.x[n] = (float)cut.x[n];
    for (int n = 0; n < WIDE; n++) {
        int32_t negative = count[n] >> 31, small = ((count[n] ^ negative) - negative) | (negative & INT32_MIN);
        int32_t value = (normal.bits[n] | small) & mask;
        bits[n] = value & (value & INT32_MAX ? -1 : 0);
    }
    memcpy(out, bits, sizeof bits);
}

static void round_f16(const double x[WIDE], uint32_t out[WIDE])
{
    uint32_t bits[WIDE];
    for (int n = 0; n < WIDE; n++)
        bits[n] = tensor_f16_of_double(x[n]);
    for (int n = 0; n < WIDE; n++)
        bits[n] = bits[n] == 0x8000 ? 0 : bits[n];
    memcpy(out, bits, sizeof bits);
}

/* ---- one step ------------------------------------------------------------------------------------------ */
/* The largest exponent of each column. */
INLINE void find_top(int terms, const int32_t *a_exponent, const int32_t *b_exponent, const int32_t *c_exponent,
                     int32_t top[WIDE])
{
    for (int n = 0; n < WIDE; n++)
        top[n] = c_exponent[n] < TENSOR_FLOOR ? TENSOR_FLOOR : c_exponent[n];
    for (int k = 0; k < terms; k++)
        for (int n = 0; n < WIDE; n++) {
            int32_t e = a_exponent[k] + b_exponent[k * WIDE + n];
            top[n] = e > top[n] ? e : top[n];
        }
}

/* Truncate the products and add them; `a` has been shifted so that a product has `fraction` fraction bits.  32
 * bits hold the sum of 16 products. */
enum { SUMMED = 16 };
INLINE void add_products(int terms, struct numbers a, struct numbers b, const int32_t top[WIDE],
                         double total[WIDE])
{
    int32_t sum[WIDE] = {0};
    for (int k = 0; k < terms; k++) {
        const int32_t magnitude = a.magnitude[k], exponent = a.exponent[k], sign = a.sign[k];
        for (int n = 0; n < WIDE; n++) {
            const int at = k * WIDE + n;
            int32_t   away = top[n] - exponent - b.exponent[at];
            uint32_t  product = (uint32_t)magnitude * (uint32_t)b.magnitude[at];
            int32_t   cut = (int32_t)(product >> (away > 31 ? 31 : away));
            int32_t   negative = sign ^ b.sign[at];
            sum[n] += (cut ^ negative) - negative;
        }
    }
    for (int n = 0; n < WIDE; n++)
        total[n] += (double)sum[n];
}

INLINE void cut_c(struct numbers c, const int32_t top[WIDE], int right, double total[WIDE])
{
    for (int n = 0; n < WIDE; n++) {
        int32_t away = top[n] - c.exponent[n] + right;
        int32_t cut = c.magnitude[n] >> (away > 31 ? 31 : away);
        total[n] = (double)((cut ^ c.sign[n]) - c.sign[n]);
    }
}

INLINE struct numbers from(struct numbers x, int at)
{
    return (struct numbers){x.magnitude + at, x.exponent + at, x.sign + at};
}

/* WIDE columns of a row of c = round(c + sum over `terms` products).  True: c has infinities or NaNs. */
INLINE bool fused_step(const struct tensor_product *p, int terms, struct numbers a, struct numbers b,
                       uint32_t *c)
{
    const int            fraction = p->rule.fraction, left = fraction - formats[p->c].fraction_bits;
    int32_t              magnitude[WIDE], exponent[WIDE], sign[WIDE], top[WIDE];
    double               total[WIDE];
    const struct numbers of_c = {magnitude, exponent, sign};
    const bool           special = decode(&formats[p->c], c, of_c, 0, left > 0 ? left : 0);
    find_top(terms, a.exponent, b.exponent, exponent, top);
    cut_c(of_c, top, left < 0 ? -left : 0, total);
    for (int k = 0; k < terms; k += SUMMED)
        add_products(terms - k < SUMMED ? terms - k : SUMMED, from(a, k), from(b, k * WIDE), top, total);
    scale(top, fraction, total);
    if (p->c == TENSOR_f16)
        round_f16(total, c);
    else
        round_f32(total, p->rule.kept, c);
    return special;
}

/* ---- one step in single precision ---------------------------------------------------------------------- */
/* Nearly all steps are computed in f32, in a third of the time.  A product of two elements, of at most 11 bits each,
 * is exact there, also times a power of 2; its conversion to an integer truncates it.  So that no exponent leaves the range of
 * f32, elements are relative to the largest one of their matrix: below 2.  One that is far below that is zero, since it
 * could only contribute to a sum whose largest exponent is far below, too; such sums are left to fused_step. */
typedef int32_t lanes_of_words __attribute__((vector_size(WIDE * sizeof(int32_t))));
typedef float   lanes_of_floats __attribute__((vector_size(WIDE * sizeof(float))));

enum {
    FAR_BELOW =
        -100, /* an element: it contributes less than 2 2^FAR_BELOW 2^(29 - LOWEST_TOP), which is less than 1 */
    LOWEST_TOP = -60, /* the largest exponent of a sum */
    F32_BIAS = 127
};

/* The largest exponent. */
INLINE int largest_exponent(const int32_t *exponent, int count)
{
    int32_t most[WIDE], largest = NOTHING;
    for (int n = 0; n < WIDE; n++)
        most[n] = NOTHING;
    for (int i = 0; i < count; i += WIDE)
        for (int n = 0; n < WIDE; n++)
            most[n] = exponent[i + n] > most[n] ? exponent[i + n] : most[n];
    for (int n = 0; n < WIDE; n++)
        largest = most[n] > largest ? most[n] : largest;
    return largest;
}

/* The elements relative to the largest one, whose exponent is returned; `lost`: the fraction bits of magnitudes. */
INLINE int relative(struct numbers x, int count, int lost, float *out)
{
    const int largest = largest_exponent(x.exponent, count);
    for (int i = 0; i < count; i += WIDE) {
        lanes_of_words  e, magnitude, sign;
        lanes_of_floats power;
        memcpy(&e, x.exponent + i, sizeof e);
        memcpy(&magnitude, x.magnitude + i, sizeof magnitude);
        memcpy(&sign, x.sign + i, sizeof sign);
        e -= largest;
        e = ((e - lost + F32_BIAS) << F32_FRACTION) & (e >= FAR_BELOW);
        memcpy(&power, &e, sizeof power);
        power *= __builtin_convertvector((magnitude ^ sign) - sign, lanes_of_floats);
        memcpy(out + i, &power, sizeof power);
    }
    return largest;
}

union lanes { /* of integers, as a vector and one by one */
    lanes_of_words all;
    int32_t        at[WIDE];
};

/* The sum of the truncated products times 2^exponent. */
INLINE void add_relative(int terms, const float *a, const float *b, const union lanes *exponent,
                         double total[WIDE])
{
    const lanes_of_words bits = (exponent->all + F32_BIAS) << F32_FRACTION;
    union lanes          sum = {.all = {0}};
    lanes_of_floats      factor, power;
    int                  k = 0;
    memcpy(&power, &bits, sizeof power);
    do {
        memcpy(&factor, b + k * WIDE, sizeof factor);
        sum.all += __builtin_convertvector(factor * a[k] * power, lanes_of_words);
    } while (++k < terms);
    for (int n = 0; n < WIDE; n++)
        total[n] += (double)sum.at[n];
}

/* What fused_step does, for c of f32.  `lift`: what exponents are relative to.  False: c is as it was. */
INLINE bool quick_step(const struct tensor_product *p, int terms, const int32_t *a_exponent, const float *a,
                       const int32_t *b_exponent, const float *b, int lift, uint32_t *c)
{
    const int            fraction = p->rule.fraction, left = fraction - F32_FRACTION;
    const lanes_of_words hidden = (lanes_of_words){0} + (1 << F32_FRACTION);
    union lanes          products, top, power, cut;
    lanes_of_words       raw, bad;
    int32_t              any = 0;
    float                sum[WIDE];
    union {
        double  x[WIDE];
        int64_t bits[WIDE];
    } total;
    memcpy(&raw, c, sizeof raw);
    const lanes_of_words e = raw >> F32_FRACTION & 255, tiny = e == 0, sign = raw >> 31;
    const lanes_of_words magnitude = (raw & (hidden - 1)) | (hidden & ~tiny), none = magnitude == 0;
    const lanes_of_words exponent = ((e - tiny - F32_BIAS) & ~none) | (NOTHING & none);
    int                  k = 0;
    products.all = (lanes_of_words){0} + 2 * NOTHING;
    do {
        for (int n = 0; n < WIDE; n++) {
            const int32_t x = a_exponent[k] + b_exponent[k * WIDE + n];
            products.at[n] = x > products.at[n] ? x : products.at[n];
        }
    } while (++k < terms);
    top.all = exponent;
    for (int n = 0; n < WIDE; n++) {
        const int32_t x = top.at[n] > products.at[n] ? top.at[n] : products.at[n];
        top.at[n] = x > TENSOR_FLOOR ? x : TENSOR_FLOOR;
    }
    power.all = fraction + lift - top.all;
    for (int n = 0; n < WIDE; n++)
        power.at[n] = power.at[n] < 1 - F32_BIAS ? 1 - F32_BIAS
                      : power.at[n] > F32_BIAS   ? F32_BIAS
                                                 : power.at[n];
    cut.all = top.all - exponent + (left < 0 ? -left : 0);
    for (int n = 0; n < WIDE; n++)
        cut.at[n] = cut.at[n] > 31 ? 31 : cut.at[n];
    cut.all = magnitude << (left > 0 ? left : 0) >> cut.all;
    cut.all = (cut.all ^ sign) - sign;
    for (int n = 0; n < WIDE; n++)
        total.x[n] = (double)cut.at[n];
    for (k = 0; k < terms; k += SUMMED)
        add_relative(terms - k < SUMMED ? terms - k : SUMMED, a + k, b + k * WIDE, &power, total.x);
    for (int n = 0; n < WIDE; n++)
        total.bits[n] &= (int64_t)(~(uint64_t)0 << (52 - F32_FRACTION));
    for (int n = 0; n < WIDE; n++)
        sum[n] = (float)total.x[n];
    bad = (e == 255) | ((top.all < LOWEST_TOP + lift) & (products.all > NOTHING / 2));
    memcpy(&raw, sum, sizeof raw);
    const lanes_of_words zero = raw == 0, field = (raw >> F32_FRACTION & 255) + top.all - fraction;
    bad |= ((field < 1) | (field > 254)) & ~zero;
    for (int n = 0; n < WIDE; n++)
        any |= bad[n];
    raw = (raw + ((top.all - fraction) << F32_FRACTION)) & ~zero &
          (int32_t)(~0u << (F32_FRACTION - p->rule.kept));
    if (any == 0)
        memcpy(c, &raw, sizeof raw);
    return any == 0;
}

/* ---- whole matrices ------------------------------------------------------------------------------------ */
/* Correct a row that infinities or NaNs affect. */
static void mend(const struct tensor_product *p, int terms, const uint32_t *a, const uint32_t *b,
                 uint32_t *before, uint32_t *d)
{
    for (int i = 0; i < WIDE; i++)
        if (special_sum(p, terms, a, b + i, (size_t)p->n, &before[i]))
            d[i] = before[i];
}

/* A matrix: its numbers, and in single precision, relative to the exponent `lift`. */
struct factor {
    struct numbers x;
    float         *relative;
    int            lift;
};

/* The columns of b and c up to WIDE.  `odd`: A has infinities or NaNs. */
INLINE void columns(const struct tensor_product *p, const uint32_t *a, struct factor da, bool odd,
                    const uint32_t *b, uint32_t *c)
{
    int32_t magnitude[TENSOR_MOST_K * WIDE], exponent[TENSOR_MOST_K * WIDE], sign[TENSOR_MOST_K * WIDE];
    float   near[TENSOR_MOST_K * WIDE];
    const struct numbers db = {magnitude, exponent, sign};
    const size_t         n = (size_t)p->n;
    const bool           quick = p->c == TENSOR_f32 && p->a_exponent == NULL;
    for (int k = 0; k < p->k; k++)
        odd |= decode(&formats[p->b], b + (size_t)k * n, db, k * WIDE, 0);
    const int lift = da.lift + relative(db, p->k * WIDE, formats[p->b].fraction_bits, near);
    for (int i = 0; i < p->k * WIDE && p->b_exponent != NULL; i++)
        exponent[i] += p->b_exponent[i % WIDE];
    for (int k = 0; k < p->k; k += p->rule.terms) {
        const int terms = p->k - k < p->rule.terms ? p->k - k : p->rule.terms;
        for (int m = 0; m < p->m; m++) {
            const int at = m * p->k + k;
            uint32_t *row = c + (size_t)m * n, before[WIDE];
            bool      special = odd;
            memcpy(before, row, sizeof before);
            if (!quick || !quick_step(p, terms, da.x.exponent + at, da.relative + at, exponent + k * WIDE,
                                      near + k * WIDE, lift, row))
                special |= fused_step(p, terms, from(da.x, at), from(db, k * WIDE), row);
            if (special)
                mend(p, terms, a + at, b + (size_t)k * n, before, row);
        }
    }
}

INLINE void multiply(const struct tensor_product *p, const uint32_t *a, const uint32_t *b, uint32_t *c)
{
    enum { MOST = TENSOR_MOST_M * TENSOR_MOST_K };
    int32_t       magnitude[MOST], exponent[MOST], sign[MOST];
    float         near[MOST];
    struct factor da = {{magnitude, exponent, sign}, near, 0};
    const int     shift = p->rule.fraction - formats[p->a].fraction_bits - formats[p->b].fraction_bits;
    bool          special = false;
    for (int i = 0; i < p->m * p->k; i += WIDE)
        special |= decode(&formats[p->a], a + i, da.x, i, shift);
    da.lift = relative(da.x, p->m * p->k, formats[p->a].fraction_bits + shift, near);
    for (int i = 0; i < p->m * p->k && p->a_exponent != NULL; i++)
        exponent[i] += p->a_exponent[i / p->k];
    for (int n = 0; n < p->n; n += WIDE)
        columns(p, a, da, special, b + n, c + n);
}

static void multiply_plainly(const struct tensor_product *p, const uint32_t *a, const uint32_t *b, uint32_t *c)
{
    multiply(p, a, b, c);
}

#if defined(__x86_64__)
/* The same text for AVX2, where shifts by a different amount in each column are one instruction. */
__attribute__((target("avx2"))) static void multiply_avx2(const struct tensor_product *p, const uint32_t *a,
                                                          const uint32_t *b, uint32_t *c)
{
    multiply(p, a, b, c);
}
#endif

static void multiply_fused(const struct tensor_product *p, const uint32_t *a, const uint32_t *b, uint32_t *c)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        multiply_avx2(p, a, b, c);
        return;
    }
#endif
    multiply_plainly(p, a, b, c);
}

/* ---- products that the hardware makes of other instructions -------------------------------------------- */
static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return x != x ? 0x7fffffff : bits;
}

static uint32_t f16_of(enum tensor_type type, uint32_t bits)
{
    return type == TENSOR_e4m3 ? tensor_f16_of_e4m3(bits) : tensor_f16_of_e5m2(bits);
}

/* k = 0 1 4 5 8 9 .., then 2 3 6 7 10 11 .. */
static int even_pairs_first(int i, int k)
{
    int half = k / 2, j = i % half;
    return 4 * (j / 2) + j % 2 + (i < half ? 0 : 2);
}

/* The sum starts at zero; an ordinary addition adds C. */
static void multiply_by_f16(const struct tensor_product *p, const uint32_t *a, const uint32_t *b, uint32_t *c)
{
    uint32_t ha[TENSOR_MOST_M * TENSOR_MOST_K], hb[TENSOR_MOST_K * WIDE], sum[TENSOR_MOST_M * WIDE];
    struct tensor_product half = *p;
    half.a = half.b = TENSOR_f16;
    half.n = WIDE;
    half.rule.method = TENSOR_FUSED;
    for (int m = 0; m < p->m; m++)
        for (int k = 0; k < p->k; k++)
            ha[m * p->k + k] = f16_of(p->a, a[m * p->k + even_pairs_first(k, p->k)]);
    for (int n = 0; n < p->n; n += WIDE) {
        for (int k = 0; k < p->k; k++)
            for (int i = 0; i < WIDE; i++)
                hb[k * WIDE + i] = f16_of(p->b, b[even_pairs_first(k, p->k) * p->n + n + i]);
        memset(sum, 0, sizeof sum);
        multiply_fused(&half, ha, hb, sum);
        for (int i = 0; i < p->m * WIDE; i++) {
            uint32_t *d = &c[i / WIDE * p->n + n + i % WIDE];
            *d = p->c == TENSOR_f16
                     ? tensor_f16_of_double(tensor_double_of_f16(sum[i]) + tensor_double_of_f16(*d))
                     : bits_of(float_of(sum[i]) + float_of(*d));
        }
    }
}

/* k = 4.  f32: four multiply-adds from zero, then C.  f16: C and pairs of products in f32. */
static void multiply_by_fma(const struct tensor_product *p, const uint32_t *a, const uint32_t *b, uint32_t *c)
{
    for (int i = 0; i < p->m * p->n; i++) {
        float x[4], y[4];
        for (int k = 0; k < 4; k++) {
            x[k] = (float)tensor_double_of_f16(a[i / p->n * 4 + k]);
            y[k] = (float)tensor_double_of_f16(b[k * p->n + i % p->n]);
        }
        if (p->c == TENSOR_f32) {
            float sum = fmaf(x[3], y[3], fmaf(x[2], y[2], fmaf(x[1], y[1], fmaf(x[0], y[0], 0))));
            c[i] = bits_of(sum + float_of(c[i]));
        } else {
            float first = fmaf(x[1], y[1], x[0] * y[0]), second = fmaf(x[3], y[3], x[2] * y[2]);
            float sum = (float)tensor_double_of_f16(c[i]) + first;
            c[i] = tensor_f16_of_double(sum + second);
        }
    }
}

void tensor_multiply_float(const struct tensor_product *p, const uint32_t *a, const uint32_t *b, uint32_t *c)
{
    if (p->rule.method == TENSOR_BY_F16)
        multiply_by_f16(p, a, b, c);
    else if (p->rule.method == TENSOR_BY_FMA)
        multiply_by_fma(p, a, b, c);
    else
        multiply_fused(p, a, b, c);
}
