/* int.c - the emulated GPU's integer instructions, against exact arithmetic one number at a time. */
#include "tests/support/emu_cases.h"

static const struct type {
    const char *name;
    char        letter;
    int         bits;
    bool        sign;
} types[] = {{"u16", 's', 16, false}, {"u32", 'r', 32, false}, {"u64", 'd', 64, false},
             {"s16", 's', 16, true},  {"s32", 'r', 32, true},  {"s64", 'd', 64, true}};
enum { TYPES = sizeof types / sizeof *types, MOST_CASES = 400 };

/* ---- the references ------------------------------------------------------------------------------------ */
static wide low_bits(wide v, int bits) { return bits == 64 ? (wide)(uint64_t)v : v & (((wide)1 << bits) - 1); }
static wide top(int bits) { return ((wide)1 << (bits - 1)) - 1; }
static wide clip(wide v, int bits)
{
    return v > top(bits) ? top(bits) : v < -top(bits) - 1 ? -top(bits) - 1 : v;
}
/* The high half of a product of 2 x 64 bits does not always fit: by halves of the factors. */
static wide high(wide a, wide b, int bits)
{
    const wide half = bits / 2, unit = (wide)1 << half;
    const wide a1 = a >> half, a0 = low_bits(a, bits / 2), b1 = b >> half, b0 = low_bits(b, bits / 2);
    const wide middle = a1 * b0 + ((a0 * b0) >> half);
    const wide rest = a0 * b1 + (middle & (unit - 1));
    return a1 * b1 + (middle >> half) + (rest >> half);
}

static wide ref_add(wide a, wide b, wide c, int n) { return (void)c, (void)n, a + b; }
static wide ref_sub(wide a, wide b, wide c, int n) { return (void)c, (void)n, a - b; }
static wide ref_add_sat(wide a, wide b, wide c, int n) { return (void)c, clip(a + b, n); }
static wide ref_sub_sat(wide a, wide b, wide c, int n) { return (void)c, clip(a - b, n); }
static wide ref_lo(wide a, wide b, wide c, int n)
{
    return (void)c, (wide)((uint64_t)low_bits(a, n) * (uint64_t)b);
}
static wide ref_hi(wide a, wide b, wide c, int n) { return (void)c, high(a, b, n); }
static wide ref_mad_lo(wide a, wide b, wide c, int n) { return ref_lo(a, b, 0, n) + c; }
static wide ref_mad_hi(wide a, wide b, wide c, int n) { return high(a, b, n) + c; }
static wide ref_mad_hi_sat(wide a, wide b, wide c, int n) { return clip(high(a, b, n) + c, n); }
static wide ref_div(wide a, wide b, wide c, int n) { return (void)c, (void)n, b == 0 ? -1 : a / b; }
static wide ref_rem(wide a, wide b, wide c, int n) { return (void)c, (void)n, b == 0 ? -1 : a % b; }
static wide ref_abs(wide a, wide b, wide c, int n) { return (void)b, (void)c, (void)n, a < 0 ? -a : a; }
static wide ref_neg(wide a, wide b, wide c, int n) { return (void)b, (void)c, (void)n, -a; }
static wide ref_min(wide a, wide b, wide c, int n) { return (void)c, (void)n, a < b ? a : b; }
static wide ref_max(wide a, wide b, wide c, int n) { return (void)c, (void)n, a > b ? a : b; }
static wide ref_min_relu(wide a, wide b, wide c, int n) { return ref_max(ref_min(a, b, c, n), 0, c, n); }
static wide ref_max_relu(wide a, wide b, wide c, int n) { return ref_max(ref_max(a, b, c, n), 0, c, n); }
static wide ref_sad(wide a, wide b, wide c, int n) { return (void)n, c + (a > b ? a - b : b - a); }

/* All operands of the case's type. */
static uint64_t plain(const struct emu_case *c, const uint64_t in[4])
{
    return (uint64_t)c->exact(case_number(in[0], c->bits, c->sign), case_number(in[1], c->bits, c->sign),
                              case_number(in[2], c->bits, c->sign), c->bits);
}
static uint64_t wide_mul(const struct emu_case *c, const uint64_t in[4])
{
    return (uint64_t)(case_number(in[0], c->bits, c->sign) * case_number(in[1], c->bits, c->sign));
}
static uint64_t wide_mad(const struct emu_case *c, const uint64_t in[4]) { return wide_mul(c, in) + in[2]; }
/* Two halves, each by c->exact. */
static uint64_t pairs(const struct emu_case *c, const uint64_t in[4])
{
    uint64_t result = 0;
    for (int at = 0; at < 32; at += 16)
        result |= (uint64_t)low_bits(c->exact(case_number(in[0] >> at, 16, c->sign),
                                              case_number(in[1] >> at, 16, c->sign), 0, 16),
                                     16)
                  << at;
    return result;
}

/* kind: 1 the high part, 2 plus c, 4 saturated */
static uint64_t by24(const struct emu_case *c, const uint64_t in[4])
{
    wide product = case_number(in[0], 24, c->sign) * case_number(in[1], 24, c->sign);
    if (c->kind & 1)
        product = case_number((uint64_t)(product >> 16), 32, c->sign);
    if (c->kind & 2)
        product += case_number(in[2], 32, c->sign);
    return (uint64_t)(c->kind & 4 ? clip(product, 32) : product);
}

/* kind: 0 dp4a, 1 dp2a.lo, 2 dp2a.hi; plus 4: a has a sign, plus 8: b has */
static uint64_t dot(const struct emu_case *c, const uint64_t in[4])
{
    wide sum = (wide)in[2];
    for (int i = 0; i < 4; i++) {
        const wide b = case_number(in[1] >> 8 * i, 8, (c->kind & 8) != 0);
        if ((c->kind & 3) == 0)
            sum += case_number(in[0] >> 8 * i, 8, (c->kind & 4) != 0) * b;
        else if ((i >> 1) == (c->kind & 3) - 1)
            sum += case_number(in[0] >> 16 * (i & 1), 16, (c->kind & 4) != 0) * b;
    }
    return (uint64_t)sum;
}

/* ---- tables -------------------------------------------------------------------------------------------- */
static struct emu_case cases[MOST_CASES];
static char            texts[MOST_CASES][256];
static unsigned int    case_count;

static struct emu_case *add_case(emu_reference *reference, int bits, bool sign, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static struct emu_case *add_case(emu_reference *reference, int bits, bool sign, const char *format, ...)
{
    struct emu_case *c = &cases[case_count];
    va_list          arguments;
    assert_true(case_count < MOST_CASES);
    va_start(arguments, format);
    vsnprintf(texts[case_count], sizeof texts[0], format, arguments);
    va_end(arguments);
    *c = (struct emu_case){texts[case_count], reference, 0, bits, sign, NULL};
    case_count++;
    return c;
}

/* name.type for all types (signed_only: those with sign), of one to three sources. */
static void add_all(const char *name, wide (*exact)(wide, wide, wide, int), int sources, bool signed_only)
{
    for (int t = 0; t < TYPES; t++) {
        const char l = types[t].letter;
        char       operands[64];
        if (signed_only && !types[t].sign)
            continue;
        snprintf(operands, sizeof operands,
                 sources == 1   ? "%%a%c"
                 : sources == 2 ? "%%a%c, %%b%c"
                                : "%%a%c, %%b%c, %%c%c",
                 l, l, l);
        add_case(plain, types[t].bits, types[t].sign, "%s.%s %%o%c, %s;", name, types[t].name, l, operands)
            ->exact = exact;
    }
}

static void add_typed(const char *text, wide (*exact)(wide, wide, wide, int), int bits, bool sign)
{
    add_case(plain, bits, sign, "%s", text)->exact = exact;
}

static void test_arithmetic(void **state)
{
    (void)state;
    case_count = 0;
    add_all("add", ref_add, 2, false);
    add_all("sub", ref_sub, 2, false);
    add_all("mul.lo", ref_lo, 2, false);
    add_all("mul.hi", ref_hi, 2, false);
    add_all("mad.lo", ref_mad_lo, 3, false);
    add_all("mad.hi", ref_mad_hi, 3, false);
    add_all("div", ref_div, 2, false);
    add_all("rem", ref_rem, 2, false);
    add_all("min", ref_min, 2, false);
    add_all("max", ref_max, 2, false);
    add_all("sad", ref_sad, 3, false);
    add_all("abs", ref_abs, 1, true);
    add_all("neg", ref_neg, 1, true);
    add_typed("add.sat.s32 %or, %ar, %br;", ref_add_sat, 32, true);
    add_typed("sub.sat.s32 %or, %ar, %br;", ref_sub_sat, 32, true);
    add_typed("mad.hi.sat.s32 %or, %ar, %br, %cr;", ref_mad_hi_sat, 32, true);
    add_typed("mov.b32 %or, %ar; add.s32 %or, %or, %or; sub.s32 %or, %or, %br; sub.s32 %or, %or, %ar;", ref_sub,
              32, true);
    for (int sign = 0; sign < 2; sign++) {
        const char s = sign ? 's' : 'u';
        add_case(wide_mul, 16, sign, "mul.wide.%c16 %%or, %%as, %%bs;", s);
        add_case(wide_mul, 32, sign, "mul.wide.%c32 %%od, %%ar, %%br;", s);
        add_case(wide_mad, 16, sign, "mad.wide.%c16 %%or, %%as, %%bs, %%cr;", s);
        add_case(wide_mad, 32, sign, "mad.wide.%c32 %%od, %%ar, %%br, %%cd;", s);
        add_case(by24, 32, sign, "mul24.lo.%c32 %%or, %%ar, %%br;", s)->kind = 0;
        add_case(by24, 32, sign, "mul24.hi.%c32 %%or, %%ar, %%br;", s)->kind = 1;
        add_case(by24, 32, sign, "mad24.lo.%c32 %%or, %%ar, %%br, %%cr;", s)->kind = 2;
        add_case(by24, 32, sign, "mad24.hi.%c32 %%or, %%ar, %%br, %%cr;", s)->kind = 3;
        for (int b = 0; b < 2; b++)
            for (int how = 0; how < 3; how++)
                add_case(dot, 32, sign, "%s.%c32.%c32 %%or, %%ar, %%br, %%cr;",
                         how == 0   ? "dp4a"
                         : how == 1 ? "dp2a.lo"
                                    : "dp2a.hi",
                         s, b ? 's' : 'u')
                    ->kind = how + 4 * sign + 8 * b;
    }
    add_case(by24, 32, true, "mad24.hi.sat.s32 %%or, %%ar, %%br, %%cr;")->kind = 7;
    case_run(cases, case_count, 75);
}

static void test_pairs(void **state)
{
    (void)state;
    case_count = 0;
    add_case(pairs, 16, false, "add.u16x2 %%or, %%ar, %%br;")->exact = ref_add;
    add_case(pairs, 16, true, "add.s16x2 %%or, %%ar, %%br;")->exact = ref_add;
    add_case(pairs, 16, false, "min.u16x2 %%or, %%ar, %%br;")->exact = ref_min;
    add_case(pairs, 16, false, "max.u16x2 %%or, %%ar, %%br;")->exact = ref_max;
    add_case(pairs, 16, true, "min.s16x2 %%or, %%ar, %%br;")->exact = ref_min;
    add_case(pairs, 16, true, "max.s16x2 %%or, %%ar, %%br;")->exact = ref_max;
    add_case(pairs, 16, true, "min.relu.s16x2 %%or, %%ar, %%br;")->exact = ref_min_relu;
    add_case(pairs, 16, true, "max.relu.s16x2 %%or, %%ar, %%br;")->exact = ref_max_relu;
    add_typed("min.relu.s32 %or, %ar, %br;", ref_min_relu, 32, true);
    add_typed("max.relu.s32 %or, %ar, %br;", ref_max_relu, 32, true);
    add_typed("min.s32.relu %or, %ar, %br;", ref_min_relu, 32, true);
    add_case(pairs, 16, true, "max.s16x2.relu %%or, %%ar, %%br;")->exact = ref_max_relu;
    case_run(cases, case_count, 90);
}

/* ---- carry chains -------------------------------------------------------------------------------------- */
/* Two words a, b and c, d as numbers of twice the bits. */
enum {
    CHAIN_ADD,
    CHAIN_SUB,
    CHAIN_ADD_CARRY,
    CHAIN_SUB_CARRY,
    CHAIN_MAD_LO,
    CHAIN_MAD_HI,
    CHAIN_SUB_ADD,
    CHAIN_ADD_SUB
};
static uint64_t chain(const struct emu_case *c, const uint64_t in[4])
{
    const int  n = c->bits;
    const wide a = case_number(in[0], n, false), b = case_number(in[1], n, false);
    const wide x = case_number(in[2], n, false), y = case_number(in[3], n, false);
    const wide unit = (wide)1 << n;
    switch (c->kind) {
    case CHAIN_ADD: /* b:a + d:c, the high word */
        return (uint64_t)(b + y + (a + x >= unit));
    case CHAIN_SUB:
        return (uint64_t)(b - y - (a < x));
    case CHAIN_ADD_CARRY: /* what is carried out of that */
        return b + y + (a + x >= unit) >= unit;
    case CHAIN_SUB_CARRY:
        return (uint64_t)(b < y + (a < x));
    case CHAIN_SUB_ADD:
        return (uint64_t)(b + y + (a >= x)); /* the flag says that nothing was borrowed */
    case CHAIN_ADD_SUB:
        return (uint64_t)(b - y - 1 + (a + x >= unit));
    case CHAIN_MAD_LO: /* carries of lo(a * b) + c and then of lo(a * b) + d */
        return (uint64_t)(low_bits(ref_lo(a, b, 0, n), n) + y + (low_bits(ref_lo(a, b, 0, n), n) + x >= unit) >=
                          unit);
    default: { /* the same of the high half, with c->sign */
        const wide h = low_bits(high(case_number(in[0], n, c->sign), case_number(in[1], n, c->sign), n), n);
        return (uint64_t)(h + y + (h + x >= unit) >= unit);
    }
    }
}

static void test_carry(void **state)
{
    (void)state;
    case_count = 0;
    for (int t = 0; t < TYPES; t++) {
        const char l = types[t].letter, *n = types[t].name;
        const int  bits = types[t].bits;
        if (bits == 16)
            continue;
        add_case(chain, bits, false, "add.cc.%s %%x%c, %%a%c, %%c%c; addc.%s %%o%c, %%b%c, %%d%c;", n, l, l, l,
                 n, l, l, l)
            ->kind = CHAIN_ADD;
        add_case(chain, bits, false, "sub.cc.%s %%x%c, %%a%c, %%c%c; subc.%s %%o%c, %%b%c, %%d%c;", n, l, l, l,
                 n, l, l, l)
            ->kind = CHAIN_SUB;
        add_case(chain, bits, false,
                 "add.cc.%s %%x%c, %%a%c, %%c%c; addc.cc.%s %%x%c, %%b%c, %%d%c; addc.%s %%o%c, 0, 0;", n, l, l,
                 l, n, l, l, l, n, l)
            ->kind = CHAIN_ADD_CARRY;
        add_case(chain, bits, false,
                 "sub.cc.%s %%x%c, %%a%c, %%c%c; subc.cc.%s %%x%c, %%b%c, %%d%c; subc.%s %%x%c, 0, 0; "
                 "neg.s%d %%o%c, %%x%c;",
                 n, l, l, l, n, l, l, l, n, l, bits, l, l)
            ->kind = CHAIN_SUB_CARRY;
        add_case(chain, bits, false,
                 "mad.lo.cc.%s %%x%c, %%a%c, %%b%c, %%c%c; "
                 "madc.lo.cc.%s %%x%c, %%a%c, %%b%c, %%d%c; addc.%s %%o%c, 0, 0;",
                 n, l, l, l, l, n, l, l, l, l, n, l)
            ->kind = CHAIN_MAD_LO;
        add_case(chain, bits, types[t].sign,
                 "mad.hi.cc.%s %%x%c, %%a%c, %%b%c, %%c%c; "
                 "madc.hi.cc.%s %%x%c, %%a%c, %%b%c, %%d%c; addc.%s %%o%c, 0, 0;",
                 n, l, l, l, l, n, l, l, l, l, n, l)
            ->kind = CHAIN_MAD_HI;
        add_case(chain, bits, false, "sub.cc.%s %%x%c, %%a%c, %%c%c; addc.%s %%o%c, %%b%c, %%d%c;", n, l, l, l,
                 n, l, l, l)
            ->kind = CHAIN_SUB_ADD;
        add_case(chain, bits, false, "add.cc.%s %%x%c, %%a%c, %%c%c; subc.%s %%o%c, %%b%c, %%d%c;", n, l, l, l,
                 n, l, l, l)
            ->kind = CHAIN_ADD_SUB;
    }
    case_run(cases, case_count, 75);
}

/* ---- bits ---------------------------------------------------------------------------------------------- */
/* Bit by bit, as the PTX manual defines them. */
static int bit(uint64_t v, int i) { return (int)(v >> i & 1); }
enum {
    B_AND,
    B_OR,
    B_XOR,
    B_NOT,
    B_CNOT,
    B_SHL,
    B_SHR,
    B_POPC,
    B_CLZ,
    B_BFIND,
    B_BFIND_SHIFT,
    B_BREV,
    B_BFE,
    B_BFI,
    B_SHF_L,
    B_SHF_L_WRAP,
    B_SHF_R,
    B_SHF_R_WRAP,
    B_BMSK,
    B_BMSK_WRAP,
    B_SZEXT,
    B_SZEXT_WRAP,
    B_FNS
};

static uint64_t shifted(const struct emu_case *c, uint64_t a, uint32_t by, bool left)
{
    uint64_t r = 0;
    for (int i = 0; i < c->bits; i++) {
        const int64_t from = left ? (int64_t)i - (int64_t)by : (int64_t)i + (int64_t)by;
        const int     sign = c->sign ? bit(a, c->bits - 1) : 0;
        r |= (uint64_t)(from < 0 ? 0 : from >= c->bits ? sign : bit(a, (int)from)) << i;
    }
    return r;
}

static uint64_t find_top(const struct emu_case *c, uint64_t a, bool shift)
{
    const int sign = c->sign ? bit(a, c->bits - 1) : 0;
    for (int i = c->bits - 1; i >= 0; i--)
        if (bit(a, i) != sign)
            return (uint64_t)(shift ? c->bits - 1 - i : i);
    return 0xffffffffu;
}

static uint64_t field(const struct emu_case *c, uint64_t a, int64_t at, int64_t count)
{
    const int last = at + count - 1 < c->bits - 1 ? (int)(at + count - 1) : c->bits - 1;
    const int sign = c->sign && count != 0 ? bit(a, last) : 0;
    uint64_t  r = 0;
    for (int i = 0; i < c->bits; i++)
        r |= (uint64_t)(i < count && at + i < c->bits ? bit(a, (int)at + i) : sign) << i;
    return r;
}

static uint64_t insert(const struct emu_case *c, uint64_t a, uint64_t b, int64_t at, int64_t count)
{
    for (int i = 0; i < count && at + i < c->bits; i++)
        b = (b & ~((uint64_t)1 << (at + i))) | (uint64_t)bit(a, i) << (at + i);
    return b;
}

static uint64_t nth_set(uint32_t bits, uint32_t base, int32_t offset)
{
    int64_t at = base, left = offset < 0 ? -(int64_t)offset : offset;
    if (offset == 0)
        return base < 32 && bit(bits, (int)base) ? base : 0xffffffffu;
    for (; at >= 0 && at<32; at += offset> 0 ? 1 : -1)
        if (bit(bits, (int)at) && --left == 0)
            return (uint64_t)at;
    return 0xffffffffu;
}

static uint64_t mask_of(uint32_t a, uint32_t b, bool wrap)
{
    uint64_t r = 0;
    if (wrap)
        a &= 31, b &= 31;
    for (uint32_t i = 0; i < 32; i++)
        r |= (uint64_t)(i >= a && (uint64_t)i < (uint64_t)a + b) << i;
    return r;
}

static uint64_t bits_of(const struct emu_case *c, const uint64_t in[4])
{
    const uint64_t all = c->bits == 64 ? ~0ull : ((uint64_t)1 << c->bits) - 1, a = in[0] & all, b = in[1] & all;
    const uint64_t both = (uint64_t)(uint32_t)in[1] << 32 | (uint32_t)in[0];
    const uint32_t n = (uint32_t)in[1], shift = (uint32_t)in[2];
    const uint64_t amount = c->bits == 64 ? 0xffffffffu : 255; /* of bfe, bfi: beyond 255 as seen on an H200 */
    const struct emu_case words = {NULL, NULL, 0, 64, false, NULL};
    uint64_t              r = 0;
    switch (c->kind) {
    case B_AND:
        return a & b;
    case B_OR:
        return a | b;
    case B_XOR:
        return a ^ b;
    case B_NOT:
        return ~a;
    case B_CNOT:
        return a == 0;
    case B_SHL:
        return shifted(c, a, n, true);
    case B_SHR:
        return shifted(c, a, n, false);
    case B_POPC:
        for (int i = 0; i < c->bits; i++)
            r += (uint64_t)bit(a, i);
        return r;
    case B_CLZ:
        while (r < (uint64_t)c->bits && !bit(a, c->bits - 1 - (int)r))
            r++;
        return r;
    case B_BFIND:
        return find_top(c, a, false);
    case B_BFIND_SHIFT:
        return find_top(c, a, true);
    case B_BREV:
        for (int i = 0; i < c->bits; i++)
            r |= (uint64_t)bit(a, i) << (c->bits - 1 - i);
        return r;
    case B_BFE:
        return field(c, a, (int64_t)(in[1] & amount), (int64_t)(in[2] & amount));
    case B_BFI:
        return insert(c, a, b, (int64_t)(in[2] & amount), (int64_t)(in[3] & amount));
    case B_SHF_L:
        return shifted(&words, both, shift > 32 ? 32 : shift, true) >> 32;
    case B_SHF_L_WRAP:
        return shifted(&words, both, shift & 31, true) >> 32;
    case B_SHF_R:
        return shifted(&words, both, shift > 32 ? 32 : shift, false);
    case B_SHF_R_WRAP:
        return shifted(&words, both, shift & 31, false);
    case B_BMSK:
        return mask_of((uint32_t)a, (uint32_t)b, false);
    case B_BMSK_WRAP:
        return mask_of((uint32_t)a, (uint32_t)b, true);
    case B_SZEXT:
        return b >= 32 ? a : field(c, a, 0, (int)b);
    case B_SZEXT_WRAP:
        return field(c, a, 0, (int)(b & 31));
    default:
        return nth_set((uint32_t)a, (uint32_t)b & 31, (int32_t)in[2] < -1000 ? -1000 : (int32_t)in[2]);
    }
}

static void add_bits(int kind, int bits, bool sign, const char *text)
{
    add_case(bits_of, bits, sign, "%s", text)->kind = kind;
}

/* kind holds the shift. */
static uint64_t shifted_left(const struct emu_case *c, const uint64_t in[4])
{
    return shifted(c, in[0], (uint32_t)c->kind, true);
}
static uint64_t shifted_right(const struct emu_case *c, const uint64_t in[4])
{
    return shifted(c, in[0], (uint32_t)c->kind, false);
}

static void test_bits(void **state)
{
    static const int amounts[] = {0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 255};
    (void)state;
    case_count = 0;
    for (int t = 0; t < 3; t++) {
        const char l = types[t].letter;
        const int  n = types[t].bits;
        add_case(bits_of, n, false, "and.b%d %%o%c, %%a%c, %%b%c;", n, l, l, l)->kind = B_AND;
        add_case(bits_of, n, false, "or.b%d %%o%c, %%a%c, %%b%c;", n, l, l, l)->kind = B_OR;
        add_case(bits_of, n, false, "xor.b%d %%o%c, %%a%c, %%b%c;", n, l, l, l)->kind = B_XOR;
        add_case(bits_of, n, false, "not.b%d %%o%c, %%a%c;", n, l, l)->kind = B_NOT;
        add_case(bits_of, n, false, "cnot.b%d %%o%c, %%a%c;", n, l, l)->kind = B_CNOT;
        add_case(bits_of, n, false, "shl.b%d %%o%c, %%a%c, %%br;", n, l, l)->kind = B_SHL;
        add_case(bits_of, n, false, "shr.b%d %%o%c, %%a%c, %%br;", n, l, l)->kind = B_SHR;
        add_case(bits_of, n, false, "shr.u%d %%o%c, %%a%c, %%br;", n, l, l)->kind = B_SHR;
        add_case(bits_of, n, true, "shr.s%d %%o%c, %%a%c, %%br;", n, l, l)->kind = B_SHR;
        for (size_t i = 0; i < sizeof amounts / sizeof *amounts; i++) {
            add_case(shifted_left, n, false, "shl.b%d %%o%c, %%a%c, %d;", n, l, l, amounts[i])->kind =
                amounts[i];
            add_case(shifted_right, n, false, "shr.u%d %%o%c, %%a%c, %d;", n, l, l, amounts[i])->kind =
                amounts[i];
            add_case(shifted_right, n, true, "shr.s%d %%o%c, %%a%c, %d;", n, l, l, amounts[i])->kind =
                amounts[i];
        }
        if (n == 16)
            continue;
        add_case(bits_of, n, false, "popc.b%d %%or, %%a%c;", n, l)->kind = B_POPC;
        add_case(bits_of, n, false, "clz.b%d %%or, %%a%c;", n, l)->kind = B_CLZ;
        add_case(bits_of, n, false, "brev.b%d %%o%c, %%a%c;", n, l, l)->kind = B_BREV;
        add_case(bits_of, n, false, "bfi.b%d %%o%c, %%a%c, %%b%c, %%cr, %%dr;", n, l, l, l)->kind = B_BFI;
        for (int sign = 0; sign < 2; sign++) {
            const char s = sign ? 's' : 'u';
            add_case(bits_of, n, sign, "bfe.%c%d %%o%c, %%a%c, %%br, %%cr;", s, n, l, l)->kind = B_BFE;
            add_case(bits_of, n, sign, "bfind.%c%d %%or, %%a%c;", s, n, l)->kind = B_BFIND;
            add_case(bits_of, n, sign, "bfind.shiftamt.%c%d %%or, %%a%c;", s, n, l)->kind = B_BFIND_SHIFT;
        }
    }
    add_bits(B_SHF_L, 32, false, "shf.l.clamp.b32 %or, %ar, %br, %cr;");
    add_bits(B_SHF_L_WRAP, 32, false, "shf.l.wrap.b32 %or, %ar, %br, %cr;");
    add_bits(B_SHF_R, 32, false, "shf.r.clamp.b32 %or, %ar, %br, %cr;");
    add_bits(B_SHF_R_WRAP, 32, false, "shf.r.wrap.b32 %or, %ar, %br, %cr;");
    add_bits(B_FNS, 32, false, "and.b32 %xr, %br, 31; max.s32 %yr, %cr, -1000; fns.b32 %or, %ar, %xr, %yr;");
    add_bits(B_BMSK, 32, false, "bmsk.clamp.b32 %or, %ar, %br;");
    add_bits(B_BMSK_WRAP, 32, false, "bmsk.wrap.b32 %or, %ar, %br;");
    add_bits(B_SZEXT, 32, false, "szext.clamp.u32 %or, %ar, %br;");
    add_bits(B_SZEXT, 32, true, "szext.clamp.s32 %or, %ar, %br;");
    add_bits(B_SZEXT_WRAP, 32, false, "szext.wrap.u32 %or, %ar, %br;");
    add_bits(B_SZEXT_WRAP, 32, true, "szext.wrap.s32 %or, %ar, %br;");
    case_run(cases, case_count, 75);
}

/* ---- lop3, prmt ---------------------------------------------------------------------------------------- */
static uint64_t logic3(const struct emu_case *c, const uint64_t in[4])
{
    uint64_t r = 0;
    for (int i = 0; i < 32; i++)
        r |= (uint64_t)(c->bits >> (4 * bit(in[0], i) + 2 * bit(in[1], i) + bit(in[2], i)) & 1) << i;
    if (c->kind == 0)
        return r;
    return c->kind == 1 ? (r != 0) | (in[3] & 1) : c->kind == 2 ? (r != 0) & in[3] & 1 : (r != 0) & ~in[3] & 1;
}

static void test_lop3(void **state)
{
    (void)state;
    case_count = 0;
    for (int table = 0; table < 256; table++)
        add_case(logic3, table, false, "lop3.b32 %%or, %%ar, %%br, %%cr, 0x%x;", table);
    add_case(logic3, 0xc0, false, "lop3.or.b32 %%or|%%xp, %%ar, %%br, %%cr, 0xc0, %%dp;");
    add_case(logic3, 0xc0, false, "lop3.or.b32 %%xr|%%op, %%ar, %%br, %%cr, 0xc0, %%dp;")->kind = 1;
    add_case(logic3, 0x80, false, "lop3.and.b32 _|%%op, %%ar, %%br, %%cr, 0x80, %%dp;")->kind = 2;
    add_case(logic3, 0x80, false, "lop3.and.b32 _|%%op, %%ar, %%br, %%cr, 0x80, !%%dp;")->kind = 3;
    case_run(cases, case_count, 75);
}

/* kind: 0 by selector, then f4e b4e rc8 ecl ecr rc16; bits: a selector as a number, or -1 */
static uint64_t permuted(const struct emu_case *c, const uint64_t in[4])
{
    const uint64_t both = (uint64_t)(uint32_t)in[1] << 32 | (uint32_t)in[0];
    const uint32_t s = c->bits < 0 ? (uint32_t)in[2] : (uint32_t)c->bits;
    const int      n = (int)(s & 3);
    uint64_t       r = 0;
    for (int i = 0; i < 4; i++) {
        const int named[] = {(int)(s >> 4 * i & 7), n + i,         (n - i) & 7,          n,
                             i > n ? i : n,         i < n ? i : n, (n & 1) * 2 + (i & 1)};
        uint64_t  byte = both >> 8 * named[c->kind] & 255;
        if (c->kind == 0 && bit(s, 4 * i + 3))
            byte = byte >> 7 ? 255 : 0;
        r |= byte << 8 * i;
    }
    return r;
}

static void test_prmt(void **state)
{
    static const char *const modes[] = {"", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"};
    static const int         selectors[] = {0x3210, 0x7654, 0x5410, 0x7632, 0x0123,
                                            0x8888, 0xba98, 0xfedc, 0x9180, 0x17777};
    (void)state;
    case_count = 0;
    for (int mode = 0; mode < 7; mode++) {
        add_case(permuted, -1, false, "prmt.b32%s %%or, %%ar, %%br, %%cr;", modes[mode])->kind = mode;
        for (size_t i = 0; i < sizeof selectors / sizeof *selectors; i++)
            add_case(permuted, selectors[i] + (int)i, false, "prmt.b32%s %%or, %%ar, %%br, 0x%x;", modes[mode],
                     (unsigned int)selectors[i] + (unsigned int)i)
                ->kind = mode;
    }
    case_run(cases, case_count, 75);
}

/* ---- what must be refused ------------------------------------------------------------------------------ */
static void test_refused(void **state)
{
    static const char *const wrong[] = {"add.sat.u32 %or, %ar, %br;",
                                        "add.b32 %or, %ar, %br;",
                                        "add.s8 %or, %ar, %br;",
                                        "add.u32 %os, %as, %bs;",
                                        "add.u16x2 %or, %ar, %br;",
                                        "sub.u16x2 %or, %ar, %br;",
                                        "mul.u32 %or, %ar, %br;",
                                        "mul.wide.u64 %od, %ad, %bd;",
                                        "mad.lo.sat.s32 %or, %ar, %br, %cr;",
                                        "mad.lo.u32 %or, %ar, %br;",
                                        "neg.u32 %or, %ar;",
                                        "abs.u32 %or, %ar;",
                                        "add.cc.u16 %os, %as, %bs;",
                                        "min.relu.s32 %or, %ar, %br;",
                                        "max.u32.relu %or, %ar, %br;",
                                        "rem.f32 %or, %ar, %br;",
                                        "and.u32 %or, %ar, %br;",
                                        "cnot.pred %op, %ap;",
                                        "shl.b32 %or, %ar, %bs;",
                                        "shl.u32 %or, %ar, %br;",
                                        "shf.l.b32 %or, %ar, %br, %cr;",
                                        "bfe.b32 %or, %ar, %br, %cr;",
                                        "bfind.b32 %or, %ar;",
                                        "popc.u32 %or, %ar;",
                                        "lop3.b32 %or, %ar, %br, %cr, %dr;",
                                        "lop3.b32 %or, %ar, %br, %cr, 256;",
                                        "lop3.xor.b32 %or|%op, %ar, %br, %cr, 1, %dp;",
                                        "prmt.b32.f4f %or, %ar, %br, %cr;",
                                        "dp4a.u32 %or, %ar, %br, %cr;",
                                        "bmsk.b32 %or, %ar, %br;",
                                        "div.u32.u32 %or, %ar, %br;",
                                        "vadd.u32.u32.u32 %or, %ar, %br;"};
    const uint64_t           nothing[3] = {0};
    (void)state;
    emu_machine(75);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const struct emu_case one = {wrong[i], NULL, 0, 0, false, NULL};
        char                 *text = case_kernel(&one, 1, 75);
        emu_log_clear();
        if (emu_run(text, "k", 1, 32, 0, nothing, 3) != 218)
            fail_msg("%s was not refused: %s", wrong[i], emu_log());
        assert_non_null(strstr(emu_log(), "line "));
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_arithmetic), cmocka_unit_test(test_pairs),
                                       cmocka_unit_test(test_carry),      cmocka_unit_test(test_bits),
                                       cmocka_unit_test(test_lop3),       cmocka_unit_test(test_prmt),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests_name("emulator, integers", tests, print_seed, NULL);
}
