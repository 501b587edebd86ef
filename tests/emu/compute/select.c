/* select.c - the emulated GPU's moves, selections and comparisons, against one number at a time; and
 * what they make of undefined registers. */
#include <math.h>
#include "tests/support/emu_cases.h"

enum { MOST_CASES = 800 };
static struct emu_case cases[MOST_CASES];
static char            texts[MOST_CASES][160];
static unsigned int    case_count;

static struct emu_case *add_case(emu_reference *reference, int kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static struct emu_case *add_case(emu_reference *reference, int kind, const char *format, ...)
{
    struct emu_case *c = &cases[case_count];
    va_list          arguments;
    assert_true(case_count < MOST_CASES);
    va_start(arguments, format);
    vsnprintf(texts[case_count], sizeof texts[0], format, arguments);
    va_end(arguments);
    *c = (struct emu_case){texts[case_count], reference, kind, 0, false, NULL};
    case_count++;
    return c;
}

/* ---- comparisons --------------------------------------------------------------------------------------- */
enum number { BITS, UNSIGNED, SIGNED, F16, BF16, F32, F64 };
static const struct type {
    const char *name;
    char        letter;
    int         bits;
    enum number number;
    bool        pair;
} types[] = {{"b16", 's', 16, BITS, false},     {"b32", 'r', 32, BITS, false},
             {"b64", 'd', 64, BITS, false},     {"u16", 's', 16, UNSIGNED, false},
             {"u32", 'r', 32, UNSIGNED, false}, {"u64", 'd', 64, UNSIGNED, false},
             {"s16", 's', 16, SIGNED, false},   {"s32", 'r', 32, SIGNED, false},
             {"s64", 'd', 64, SIGNED, false},   {"f32", 'r', 32, F32, false},
             {"f64", 'd', 64, F64, false},      {"f16", 's', 16, F16, false},
             {"bf16", 's', 16, BF16, false},    {"f16x2", 'r', 16, F16, true},
             {"bf16x2", 'r', 16, BF16, true}};
enum { TYPES = sizeof types / sizeof *types };
static const char *const relations[] = {"eq",  "ne",  "lt",  "le",  "gt",  "ge", "equ", "neu", "ltu",
                                        "leu", "gtu", "geu", "num", "nan", "lo", "ls",  "hi",  "hs"};
enum { FOR_FLOATS = 6, NUM = 12, NAN_ = 13, FOR_UNSIGNED = 14, RELATIONS = 18 };

/* emu_case.kind of a comparison, in fields. */
struct how {
    unsigned int relation : 5, combine : 2, negated : 1, two : 1, flush : 1, type : 4;
};
static int pack(struct how h)
{
    int kind = 0;
    memcpy(&kind, &h, sizeof h);
    return kind;
}
static struct how unpack(const struct emu_case *c)
{
    struct how h;
    memcpy(&h, &c->kind, sizeof h);
    return h;
}

static double small_float(uint32_t v, int exponent_bits, int fraction_bits)
{
    const int bias = (1 << (exponent_bits - 1)) - 1,
              exponent = (int)(v >> fraction_bits) & ((1 << exponent_bits) - 1);
    const int fraction = (int)v & ((1 << fraction_bits) - 1);
    double    size;
    if (exponent == (1 << exponent_bits) - 1)
        size = fraction != 0 ? (double)NAN : (double)INFINITY;
    else if (exponent == 0)
        size = ldexp(fraction, 1 - bias - fraction_bits);
    else
        size = ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
    return (v >> (exponent_bits + fraction_bits) & 1) != 0 ? -size : size;
}

static double number(const struct type *t, uint64_t v, bool flush)
{
    double         d;
    float          f;
    const uint32_t word = (uint32_t)v;
    switch (t->number) {
    case F16:
        d = small_float(word & 0xffff, 5, 10);
        return flush && fabs(d) < 0x1p-14 ? 0 : d;
    case BF16:
        return small_float(word & 0xffff, 8, 7);
    case F32:
        memcpy(&f, &word, 4);
        return flush && fabs((double)f) < 0x1p-126 ? 0 : (double)f;
    default:
        memcpy(&d, &v, 8);
        return d;
    }
}

/* -1 less, 0 equal, 1 greater, 2 unordered */
static int order(const struct type *t, uint64_t a, uint64_t b, bool flush)
{
    if (t->number >= F16) {
        const double x = number(t, a, flush), y = number(t, b, flush);
        return isnan(x) || isnan(y) ? 2 : x < y ? -1 : x > y;
    }
    const wide x = case_number(a, t->bits, t->number == SIGNED),
               y = case_number(b, t->bits, t->number == SIGNED);
    return x < y ? -1 : x > y;
}

static bool holds(struct how h, const uint64_t in[4], int shift, bool opposite)
{
    const int    o = order(&types[h.type], in[0] >> shift, in[1] >> shift, h.flush);
    unsigned int r = h.relation >= FOR_UNSIGNED ? h.relation - FOR_UNSIGNED + 2 : h.relation;
    const bool   c = (in[2] & 1) != h.negated;
    bool         t;
    if (r == NUM || r == NAN_)
        t = (o == 2) == (r == NAN_);
    else if (o == 2)
        t = r >= FOR_FLOATS;
    else {
        r %= FOR_FLOATS;
        t = r == 0 ? o == 0 : r == 1 ? o != 0 : r == 2 ? o < 0 : r == 3 ? o <= 0 : r == 4 ? o > 0 : o >= 0;
    }
    t = t != opposite;
    return h.combine == 0 ? t : h.combine == 1 ? t && c : h.combine == 2 ? t || c : t != c;
}

static uint64_t ref_setp(const struct emu_case *c, const uint64_t in[4])
{
    const struct how h = unpack(c);
    const bool       pair = types[h.type].pair;
    return (uint64_t)holds(h, in, 0, false) |
           (h.two ? (uint64_t)(pair ? holds(h, in, 16, false) : holds(h, in, 0, true)) << 1 : 0);
}

/* bits: what is true */
static uint64_t ref_set(const struct emu_case *c, const uint64_t in[4])
{
    const struct how h = unpack(c);
    const uint64_t   low = holds(h, in, 0, false) ? (uint32_t)c->bits : 0;
    return low | (types[h.type].pair && holds(h, in, 16, false) ? (uint64_t)(uint32_t)c->bits << 16 : 0);
}

static bool exists(const struct type *t, int relation, bool flush)
{
    if (flush && t->number != F32 && t->number != F16)
        return false;
    if (t->number >= F16)
        return relation < FOR_UNSIGNED;
    return relation < (t->number == BITS ? 2 : FOR_FLOATS) ||
           (t->number == UNSIGNED && relation >= FOR_UNSIGNED);
}

static const char *const combine_words[] = {"", ".and", ".or", ".xor"};

/* Every relation of every type; the ways to combine in turn. */
static void add_setp(const struct type *t, int relation, bool flush)
{
    static unsigned int turn;
    struct how          h = {0};
    h.relation = (unsigned int)relation & 31;
    h.combine = turn & 3;
    h.negated = (turn >> 2 & 1) && h.combine != 0;
    h.two = t->pair || ((turn >> 3 & 1) && t->number != F16 && t->number != BF16);
    h.flush = flush;
    h.type = (unsigned int)(t - types) & 15;
    turn += 5;
    add_case(ref_setp, pack(h), "setp.%s%s%s.%s %%op%s, %%a%c, %%b%c%s;", relations[relation],
             combine_words[h.combine], flush ? ".ftz" : "", t->name, h.two ? "|%oq" : "", t->letter, t->letter,
             h.combine == 0 ? ""
             : h.negated    ? ", !%cp"
                            : ", %cp");
}

static void test_setp(void **state)
{
    (void)state;
    case_count = 0;
    for (int t = 0; t < TYPES; t++)
        for (int relation = 0; relation < RELATIONS; relation++)
            for (int flush = 0; flush < 2; flush++)
                if (exists(&types[t], relation, flush))
                    add_setp(&types[t], relation, flush);
    case_run(cases, case_count, 90);
}

static void test_combinations(void **state)
{
    (void)state;
    case_count = 0;
    for (unsigned int k = 0; k < 16; k++) {
        struct how h = {0};
        h.relation = 2;
        h.combine = k & 3;
        h.negated = k >> 2 & 1;
        h.two = k >> 3;
        h.type = 4; /* u32 */
        add_case(ref_setp, pack(h), "setp.lt%s.u32 %%op%s, %%ar, %%br%s;", combine_words[h.combine],
                 h.two ? "|%oq" : "",
                 h.combine == 0 ? ""
                 : h.negated    ? ", !%cp"
                                : ", %cp");
        if (h.two)
            add_case(ref_setp, pack(h),
                     "setp.lt%s.u32 %%xp|_, %%ar, %%br%s; mov.pred %%op, %%xp;"
                     " setp.lt%s.u32 _|%%oq, %%ar, %%br%s;",
                     combine_words[h.combine],
                     h.combine == 0 ? ""
                     : h.negated    ? ", !%cp"
                                    : ", %cp",
                     combine_words[h.combine],
                     h.combine == 0 ? ""
                     : h.negated    ? ", !%cp"
                                    : ", %cp");
    }
    case_run(cases, case_count, 75);
}

static void test_set(void **state)
{
    static const struct {
        const char *name;
        char        letter;
        int         whole, pair, half;
    } results[] = {{"u32", 'r', -1, 0xffff, -1},
                   {"s32", 'r', -1, 0xffff, -1},
                   {"f32", 'r', 0x3f800000, 0, 0},
                   {"u16", 's', 0, 0, 0xffff},
                   {"s16", 's', 0, 0, 0xffff}};
    (void)state;
    case_count = 0;
    for (int t = 0; t < TYPES; t++)
        for (int relation = 0; relation < RELATIONS; relation++)
            for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
                const bool half = types[t].number == F16 || types[t].number == BF16;
                const int  value = types[t].pair ? results[i].pair : half ? results[i].half : results[i].whole;
                struct how h = {0};
                if (value == 0 || !exists(&types[t], relation, false) || (relation + t) % 5 != (int)i % 5)
                    continue;
                h.relation = (unsigned int)relation & 31;
                h.combine = (unsigned int)(relation + t) & 3;
                h.type = (unsigned int)t & 15;
                add_case(ref_set, pack(h), "set.%s%s.%s.%s %%o%c, %%a%c, %%b%c%s;", relations[relation],
                         combine_words[h.combine], results[i].name, types[t].name, results[i].letter,
                         types[t].letter, types[t].letter, h.combine != 0 ? ", %cp" : "")
                    ->bits = value;
            }
    add_case(ref_set, pack((struct how){.relation = 2, .type = 11}), "set.lt.f16.f16 %%os, %%as, %%bs;")->bits =
        0x3c00;
    add_case(ref_set, pack((struct how){.relation = 2, .type = 9}), "set.lt.f16.f32 %%os, %%ar, %%br;")->bits =
        0x3c00;
    add_case(ref_set, pack((struct how){.relation = 2, .type = 12}), "set.lt.bf16.bf16 %%os, %%as, %%bs;")
        ->bits = 0x3f80;
    add_case(ref_set, pack((struct how){.relation = 3, .type = 13}), "set.le.f16x2.f16x2 %%or, %%ar, %%br;")
        ->bits = 0x3c00;
    add_case(ref_set, pack((struct how){.relation = 3, .flush = 1, .type = 13}),
             "set.le.ftz.f16x2.f16x2 %%or, %%ar, %%br;")
        ->bits = 0x3c00;
    add_case(ref_set, pack((struct how){.relation = 5, .type = 14}), "set.ge.bf16x2.bf16x2 %%or, %%ar, %%br;")
        ->bits = 0x3f80;
    add_case(ref_set, pack((struct how){.relation = 5, .flush = 1, .type = 9}),
             "set.ge.ftz.f32.f32 %%or, %%ar, %%br;")
        ->bits = 0x3f800000;
    case_run(cases, case_count, 90);
}

/* ---- moves, selections --------------------------------------------------------------------------------- */
enum {
    M_A,
    M_NUMBER,
    M_PACK_16,
    M_PACK_4X16,
    M_PACK_32,
    M_PACK_4X8,
    M_PACK_2X8,
    M_HIGH_16,
    M_HIGH_32,
    M_HIGH_48,
    M_B,
    M_WORDS,
    M_SELECT,
    M_SELECT_NOT,
    M_SLCT,
    M_SLCT_F,
    M_SLCT_FTZ,
    M_P,
    M_NOT_P,
    M_AND,
    M_OR,
    M_XOR,
    M_ONE,
    M_ZERO
};

static uint64_t moved(const struct emu_case *c, const uint64_t in[4])
{
    static const struct type f32 = {"f32", 'r', 32, F32, false};
    const uint64_t           a = in[0], b = in[1];
    double                   n;
    switch (c->kind) {
    case M_A:
        return a;
    case M_B:
        return b;
    case M_NUMBER:
        return (uint64_t)(int64_t)c->bits;
    case M_PACK_16:
        return (a & 0xffff) | (b & 0xffff) << 16;
    case M_PACK_4X16:
        return (a & 0xffff) | (b & 0xffff) << 16 | (in[2] & 0xffff) << 32 | in[3] << 48;
    case M_PACK_32:
        return (a & 0xffffffffu) | b << 32;
    case M_PACK_4X8:
        return (a & 0xff) << 24 | (a & 0xff00) << 8 | (a >> 8 & 0xff00) | (a >> 24 & 0xff);
    case M_PACK_2X8:
        return (a & 0xff) << 8 | (a >> 8 & 0xff);
    case M_HIGH_16:
        return a >> 16;
    case M_HIGH_32:
        return a >> 32;
    case M_HIGH_48:
        return a >> 48;
    case M_WORDS:
        return (in[2] & 0xffffffffu) | in[3] << 32;
    case M_SELECT:
        return in[2] & 1 ? a : b;
    case M_SELECT_NOT:
        return in[2] & 1 ? b : a;
    case M_SLCT:
        return (int32_t)in[2] >= 0 ? a : b;
    case M_SLCT_F:
    case M_SLCT_FTZ:
        n = number(&f32, in[2], c->kind == M_SLCT_FTZ);
        return n >= 0 ? a : b;
    case M_P:
        return a & 1;
    case M_NOT_P:
        return ~a & 1;
    case M_AND:
        return a & b & 1;
    case M_OR:
        return (a | b) & 1;
    case M_XOR:
        return (a ^ b) & 1;
    case M_ONE:
        return 1;
    default:
        return 0;
    }
}

static void test_moves(void **state)
{
    (void)state;
    case_count = 0;
    for (int t = 0; t < TYPES; t++) {
        const char *n = types[t].name, l = types[t].letter;
        if (types[t].number == F16 || types[t].number == BF16)
            continue;
        add_case(moved, M_A, "mov.%s %%o%c, %%a%c;", n, l, l);
        add_case(moved, M_SELECT, "selp.%s %%o%c, %%a%c, %%b%c, %%cp;", n, l, l, l);
        add_case(moved, M_SELECT_NOT, "selp.%s %%o%c, %%a%c, %%b%c, !%%cp;", n, l, l, l);
        add_case(moved, M_A, "selp.%s %%o%c, %%a%c, %%b%c, 1;", n, l, l, l);
        add_case(moved, M_SLCT, "slct.%s.s32 %%o%c, %%a%c, %%b%c, %%cr;", n, l, l, l);
        add_case(moved, M_SLCT_F, "slct.%s.f32 %%o%c, %%a%c, %%b%c, %%cr;", n, l, l, l);
        add_case(moved, M_SLCT_FTZ, "slct.ftz.%s.f32 %%o%c, %%a%c, %%b%c, %%cr;", n, l, l, l);
        if (types[t].number != F32 && types[t].number != F64)
            add_case(moved, M_NUMBER, "mov.%s %%o%c, -5;", n, l)->bits = -5;
    }
    add_case(moved, M_NUMBER, "mov.f32 %%or, 0f3FC00000;")->bits = 0x3fc00000;
    add_case(moved, M_NUMBER, "mov.f32 %%or, 1.5;")->bits = 0x3fc00000;
    add_case(moved, M_HIGH_32, "mov.b64 {%%xr, %%or}, %%ad;");
    add_case(moved, M_A, "mov.b64 {%%or, _}, %%ad;");
    add_case(moved, M_HIGH_48, "mov.b64 {_, %%xs, _, %%os}, %%ad;");
    add_case(moved, M_HIGH_16, "mov.b32 {_, %%os}, %%ar;");
    add_case(moved, M_PACK_16, "mov.b32 %%or, {%%as, %%bs};");
    add_case(moved, M_PACK_4X16, "mov.b64 %%od, {%%as, %%bs, %%cs, %%ds};");
    add_case(moved, M_PACK_32, "mov.b64 %%od, {%%ar, %%br};");
    add_case(moved, M_PACK_2X8, "mov.b16 {%%xb, %%yb}, %%as; mov.b16 %%os, {%%yb, %%xb};");
    add_case(moved, M_PACK_4X8,
             "mov.b32 {%%wb, %%xb, %%yb, %%zb}, %%ar; mov.b32 %%or, {%%zb, %%yb, %%xb, %%wb};");
    add_case(moved, M_B, "mov.b128 %%xq, {%%ad, %%bd}; mov.b128 %%yq, %%xq; mov.b128 {%%xd, %%od}, %%yq;");
    add_case(moved, M_WORDS, "mov.b128 %%xq, {%%ar, %%br, %%cr, %%dr}; mov.b128 {%%xd, %%od}, %%xq;");
    add_case(moved, M_P, "mov.pred %%op, %%ap;");
    add_case(moved, M_NOT_P, "mov.pred %%op, !%%ap;");
    add_case(moved, M_NOT_P, "not.pred %%op, %%ap;");
    add_case(moved, M_AND, "and.pred %%op, %%ap, %%bp;");
    add_case(moved, M_OR, "or.pred %%op, %%ap, %%bp;");
    add_case(moved, M_XOR, "xor.pred %%op, %%ap, %%bp;");
    add_case(moved, M_ONE, "mov.pred %%op, 1;");
    add_case(moved, M_ZERO, "and.pred %%op, %%ap, 0;");
    case_run(cases, case_count, 75);
}

/* ---- what must be refused ------------------------------------------------------------------------------ */
static void test_refused(void **state)
{
    static const char *const wrong[] = {"mov.f16 %os, %as;",
                                        "mov.b8 %xb, %yb; mov.b32 %or, 0;",
                                        "mov.b64 %od, {%ar, %br, %cr};",
                                        "mov.u64 %od, {%ar, %br};",
                                        "mov.b32 {%as, %bs}, {%cs, %ds}; mov.b32 %or, 0;",
                                        "mov.b32 %or, %ad;",
                                        "selp.f16 %os, %as, %bs, %cp;",
                                        "selp.pred %op, %ap, %bp, %cp;",
                                        "selp.b32 %or, %ar, %br, %cr;",
                                        "slct.u32.u32 %or, %ar, %br, %cr;",
                                        "slct.f64.f64 %od, %ad, %bd, %cd;",
                                        "setp.lt.b32 %op, %ar, %br;",
                                        "setp.lo.s32 %op, %ar, %br;",
                                        "setp.lt.f16 %op|%oq, %as, %bs;",
                                        "setp.lt.ftz.bf16 %op, %as, %bs;",
                                        "setp.equ.u32 %op, %ar, %br;",
                                        "setp.lt.ftz.f64 %op, %ad, %bd;",
                                        "setp.eq.u8 %op, %ar, %br;",
                                        "setp.eq.pred %op, %ap, %bp;",
                                        "setp.lt.and.u32 %op, %ar, %br;",
                                        "setp.lt.u32 %op, %ar, %br, %cp;",
                                        "setp.foo.u32 %op, %ar, %br;",
                                        "set.lt.u16.f32 %os, %ar, %br;",
                                        "set.lt.f32.f16 %or, %as, %bs;",
                                        "set.lt.b32.u32 %or, %ar, %br;",
                                        "set.lt.u64.u32 %od, %ar, %br;"};
    const uint64_t           nothing[3] = {0};
    (void)state;
    emu_machine(90);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const struct emu_case one = {wrong[i], NULL, 0, 0, false, NULL};
        char                 *text = case_kernel(&one, 1, 90);
        emu_log_clear();
        if (emu_run(text, "k", 1, 32, 0, nothing, 3) != 218)
            fail_msg("%s was not refused: %s", wrong[i], emu_log());
        free(text);
    }
}

/* ---- undefined registers ------------------------------------------------------------------------------- */
/* %r0 holds 7 and %p1 is true; %u and %ud nothing.  The body leaves its result in %r1. */
static const char *run_body(const char *body, uint32_t words[32])
{
    char     text[2048];
    uint64_t out;
    snprintf(text, sizeof text,
             ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 out) {\n"
             ".reg .pred %%p1, %%p2; .reg .b32 %%r0, %%r1, %%r2, %%u; .reg .b64 %%rd0, %%rd1, %%rd2, %%ud;\n"
             "ld.param.u64 %%rd0, [out]; mov.u32 %%r0, %%tid.x; mul.wide.u32 %%rd1, %%r0, 4;\n"
             "add.u64 %%rd0, %%rd0, %%rd1; setp.ge.u32 %%p1, %%r0, 0; mov.u32 %%r0, 7;\n"
             "%s\nst.global.u32 [%%rd0], %%r1; ret; }\n",
             body);
    emu_machine(80);
    out = emu_buffer(128);
    emu_run(text, "k", 1, 32, 0, &out, 1);
    emu_read(words, out, 128);
    return emu_log();
}

static void test_undefined(void **state)
{
    static const char *const clean[] =
        {"mov.u32 %r2, %u; mov.u32 %r1, %r0;",                                 /* copied, not used  */
         "mov.u32 %r2, %u; selp.b32 %r1, %r0, %r2, %p1;",                      /* not chosen        */
         "mov.u32 %r1, %u; selp.b32 %r1, %r1, %r0, !%p1;",                     /* overwritten       */
         "mov.b64 %rd1, {%r0, %u}; mov.b64 {%r2, _}, %rd1; mov.u32 %r1, %r0;", /* in pieces         */
         "mov.b64 {_, %r2}, %ud; mov.u32 %r1, 7;",
         "mov.pred %p2, %p2; mov.u32 %r1, 7;"};
    static const char *const found[] = {"mov.u32 %r2, %u; add.u32 %r1, %r2, %r0;",
                                        "selp.b32 %r1, %u, %r0, %p1;",
                                        "selp.b32 %r1, %r0, %r0, %p2;",
                                        "mov.b64 %rd1, {%u, %r0}; mov.b64 {_, %r1}, %rd1;",
                                        "mov.b64 {%r1, _}, %ud;",
                                        "addc.u32 %r1, %r0, %r0;",
                                        "slct.u32.s32 %r1, %r0, %r0, %u;",
                                        "setp.eq.u32 %p2, %u, %r0; selp.b32 %r1, 1, 2, %p2;"};
    uint32_t                 words[32];
    (void)state;
    for (size_t i = 0; i < sizeof clean / sizeof *clean; i++) {
        const char *log = run_body(clean[i], words);
        if (*log != '\0' || words[0] != 7 || words[31] != 7)
            fail_msg("%s: %u, %s", clean[i], words[0], log);
    }
    for (size_t i = 0; i < sizeof found / sizeof *found; i++)
        if (strstr(run_body(found[i], words), "which nothing has written") == NULL)
            fail_msg("%s: not found: %s", found[i], emu_log());
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_setp),    cmocka_unit_test(test_combinations),
                                       cmocka_unit_test(test_set),     cmocka_unit_test(test_moves),
                                       cmocka_unit_test(test_refused), cmocka_unit_test(test_undefined)};
    return cmocka_run_group_tests_name("emulator, moves and comparisons", tests, print_seed, NULL);
}
