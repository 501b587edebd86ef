/* emu_vectors.c - the cases and their numbers; see emu_vectors.h. */
#include <stdio.h>

#include "emu_vectors.h"

/* ---- cases: the table of mma.sync, wgmma of the smallest N, some of wmma ------------------------------- */
struct row {
    int         m, n, k;
    const char *a, *b, *c;
    int         sm, isa;
};
static const struct row mma_rows[] = {
#define SHAPE(m, n, k, a, b, c, sm, isa) {m, n, k, a, b, c, sm, isa},
#include "tools/emu/tensor/mma_shapes.def"
#undef SHAPE
};
static const struct row wgmma_rows[] = {
    {64, 8, 16, "f16", "f16", "f16|f32", 90, 80}, {64, 8, 16, "bf16", "bf16", "f32", 90, 80},
    {64, 8, 8, "tf32", "tf32", "f32", 90, 80},    {64, 8, 32, "e4m3|e5m2", "e4m3|e5m2", "f16|f32", 90, 80},
    {64, 8, 32, "s8|u8", "s8|u8", "s32", 90, 84}, {64, 8, 256, "b1", "b1", "s32", 90, 80},
};
static const struct row wmma_rows[] = {
    {16, 16, 16, "f16", "f16", "f16|f32", 70, 60},
    {8, 32, 16, "f16", "f16", "f32", 70, 61},
    {32, 8, 16, "bf16", "bf16", "f32", 80, 70},
    {16, 16, 8, "tf32", "tf32", "f32", 80, 70},
};
static const struct {
    const struct row *rows;
    int               count;
    enum tensor_unit  unit;
} tables[] = {
    {mma_rows, sizeof mma_rows / sizeof mma_rows[0], TENSOR_MMA},
    {wgmma_rows, sizeof wgmma_rows / sizeof wgmma_rows[0], TENSOR_WGMMA},
    {wmma_rows, sizeof wmma_rows / sizeof wmma_rows[0], TENSOR_WMMA},
};

/* The type of word `index` of a set; TENSOR_TYPES after the last one. */
static enum tensor_type type_at(const char *set, int index)
{
    char word[16];
    for (; index > 0 && set != NULL; index--)
        set = strchr(set, '|') != NULL ? strchr(set, '|') + 1 : NULL;
    if (set == NULL)
        return TENSOR_TYPES;
    snprintf(word, sizeof word, "%.*s", (int)strcspn(set, "|"), set);
    return tensor_type_find(word);
}

/* variants of a row: its types, then with .satfinite or as AND */
enum { SETS = 2, VARIANTS = SETS * SETS * SETS * 2 };

static void name_case(struct vectors_case *c)
{
    static const char *const     names[] = {"mma", "wmma", "wgmma"};
    const struct tensor_product *p = &c->p;
    const char                  *c_name = tensor_type_name(p->c);
    int at = snprintf(c->name, sizeof c->name, "%s.m%dn%dk%d%s%s.%s", names[c->unit], p->m, p->n, p->k,
                      c->unit == TENSOR_MMA ? ".row.col" : "", p->saturates ? ".satfinite" : "", c_name);
    if (c->unit != TENSOR_WMMA || p->a != TENSOR_f16)
        at += snprintf(c->name + at, sizeof c->name - (size_t)at, ".%s.%s", tensor_type_name(p->a),
                       tensor_type_name(p->b));
    if (c->unit != TENSOR_WGMMA)
        at += snprintf(c->name + at, sizeof c->name - (size_t)at, ".%s", c_name);
    if (p->a == TENSOR_b1)
        snprintf(c->name + at, sizeof c->name - (size_t)at, p->bits == TENSOR_AND ? ".and.popc" : ".xor.popc");
}

static bool make_case(const struct row *row, enum tensor_unit unit, int variant, struct vectors_case *out)
{
    struct tensor_product p = {.m = row->m, .n = row->n, .k = row->k};
    p.a = type_at(row->a, variant % SETS);
    p.b = type_at(row->b, variant / SETS % SETS);
    p.c = type_at(row->c, variant / SETS / SETS % SETS);
    bool other = variant / SETS / SETS / SETS != 0;
    if (p.a == TENSOR_TYPES || p.b == TENSOR_TYPES || p.c == TENSOR_TYPES || (other && p.c != TENSOR_s32))
        return false;
    p.saturates = other && p.a != TENSOR_b1;
    p.bits = p.a == TENSOR_b1 && (other || unit == TENSOR_WGMMA) ? TENSOR_AND : TENSOR_XOR;
    if (unit == TENSOR_WGMMA && other && p.a == TENSOR_b1)
        return false;
    p.rule = tensor_rule_of(90, unit, p.a, p.m, p.k);
    *out = (struct vectors_case){.unit = unit, .p = p, .sm = row->sm, .isa = row->isa};
    name_case(out);
    return true;
}

bool vectors_case_at(int index, struct vectors_case *out)
{
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++)
        for (int i = 0; i < tables[t].count * VARIANTS; i++)
            if (make_case(&tables[t].rows[i / VARIANTS], tables[t].unit, i % VARIANTS, out) && index-- == 0)
                return true;
    return false;
}

/* ---- numbers ------------------------------------------------------------------------------------------- */
static uint64_t draw(uint64_t *state)
{
    uint64_t x = *state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    *state = x;
    return x * 0x2545f4914f6cdd1dull;
}

static int below(uint64_t *state, int n) { return (int)((draw(state) >> 33) % (uint64_t)n); }

struct format {
    int  exponent_bits, fraction_bits, width;
    bool infinite;
};
static struct format format_of(enum tensor_type type)
{
    switch (type) {
    case TENSOR_f16:
        return (struct format){5, 10, 16, true};
    case TENSOR_bf16:
        return (struct format){8, 7, 16, true};
    case TENSOR_e4m3:
        return (struct format){4, 3, 8, false};
    case TENSOR_e5m2:
        return (struct format){5, 2, 8, true};
    case TENSOR_f64:
        return (struct format){11, 52, 64, true};
    default:
        return (struct format){8, 23, 32, true};
    }
}

/* Makes a number with this exponent field, which is brought into range. */
static uint64_t number(uint64_t *state, struct format f, int e)
{
    int      top = (1 << f.exponent_bits) - (f.infinite ? 2 : 1);
    uint64_t fraction = draw(state) & ((1ull << f.fraction_bits) - 1);
    e = e < 0 ? 0 : e > top ? top : e;
    if (!f.infinite && e == top && fraction == (1ull << f.fraction_bits) - 1)
        fraction--;
    return (uint64_t)below(state, 2) << (f.width - 1) | (uint64_t)e << f.fraction_bits | fraction;
}

static uint64_t special(uint64_t *state, struct format f)
{
    uint64_t ones = (1ull << f.fraction_bits) - 1, top = ((1ull << f.exponent_bits) - 1) << f.fraction_bits;
    uint64_t x = !f.infinite ? top | ones : below(state, 4) ? top : top | (draw(state) & ones);
    return x | (uint64_t)below(state, 2) << (f.width - 1);
}

static uint64_t draw_float(uint64_t *state, enum tensor_type type, enum vectors_kind kind)
{
    const struct format f = format_of(type);
    const int           all = 1 << f.exponent_bits, bias = all / 2 - 1;
    switch (kind) {
    case VECTORS_wide:
        return number(state, f, below(state, all));
    case VECTORS_subnormal:
        return number(state, f, below(state, 3));
    case VECTORS_special:
        return below(state, 40) ? number(state, f, bias - 3 + below(state, 7)) : special(state, f);
    case VECTORS_huge:
        return number(state, f, all - 1 - below(state, 4));
    case VECTORS_zeros:
        return below(state, 3) ? (uint64_t)below(state, 2) << (f.width - 1)
                               : number(state, f, below(state, all));
    case VECTORS_spread:
        return number(state, f, bias - 12 + below(state, 25));
    default:
        return number(state, f, bias - 3 + below(state, 7));
    }
}

static uint64_t draw_integer(uint64_t *state, enum tensor_type type, enum vectors_kind kind)
{
    const unsigned int bits = type == TENSOR_b1 ? 32 : tensor_type_bits(type);
    uint64_t           ones = (1ull << bits) - 1, x = draw(state) >> 11 & ones;
    if (kind != VECTORS_huge || type == TENSOR_b1)
        return type == TENSOR_s32 && kind == VECTORS_random ? (uint32_t)(int32_t)(x % 2000 - 1000) : x;
    if (type == TENSOR_s32)
        return (uint32_t)(below(state, 2) ? INT32_MAX - below(state, 30000) : INT32_MIN + below(state, 30000));
    return below(state, 3) ? x : below(state, 2) ? ones : ones ^ (ones >> 1);
}

/* Draws C where it matters: near a product, down to bits that are lost beside it. */
static uint64_t draw_near(uint64_t *state, const struct vectors_case *c, const struct vectors_input *in, int m,
                          int n)
{
    const struct format fa = format_of(c->p.a), fb = format_of(c->p.b), fc = format_of(c->p.c);
    int                 k = below(state, c->p.k);
    int                 ea = (int)(in->a[m * c->p.k + k] >> fa.fraction_bits) & ((1 << fa.exponent_bits) - 1);
    int                 eb = (int)(in->b[k * c->p.n + n] >> fb.fraction_bits) & ((1 << fb.exponent_bits) - 1);
    int                 e = ea - (1 << (fa.exponent_bits - 1)) + eb - (1 << (fb.exponent_bits - 1)) + 2;
    return number(state, fc, e + (1 << (fc.exponent_bits - 1)) - 1 + below(state, 61) - 30);
}

static void put(uint32_t *words, bool wide, int i, uint64_t x)
{
    words[wide ? 2 * i : i] = (uint32_t)x;
    if (wide)
        words[2 * i + 1] = (uint32_t)(x >> 32);
}

/* Sets b[k + 1] to -b[k] or nearly so, with the same a: little is left of the sums. */
static void cancel(uint64_t *state, const struct tensor_product *p, struct vectors_input *in)
{
    const struct format f = format_of(p->b);
    if (p->c == TENSOR_f64 || p->c == TENSOR_s32)
        return;
    for (int k = 0; k + 1 < p->k; k += 2) {
        for (int m = 0; m < p->m; m++)
            in->a[m * p->k + k + 1] = in->a[m * p->k + k];
        for (int n = 0; n < p->n; n++)
            in->b[(k + 1) * p->n + n] = in->b[k * p->n + n] ^ 1u << (f.width - 1) ^
                                        (below(state, 4) == 0 ? 1u << (f.width == 32 ? 13 : 0) : 0);
    }
}

void vectors_make(const struct vectors_case *c, int case_number, enum vectors_kind kind, int experiment,
                  struct vectors_input *out)
{
    const struct tensor_product *p = &c->p;
    uint64_t                     state = 0x9e3779b97f4a7c15ull *
                     (uint64_t)(1 + experiment + VECTORS_EACH * ((int)kind + 16 * case_number));
    const bool integer = p->c == TENSOR_s32, wide = p->c == TENSOR_f64;
    const int  k = p->a == TENSOR_b1 ? p->k / 32 : p->k;
    for (int i = 0; i < 8; i++)
        draw(&state);
    for (int i = 0; i < p->m * k; i++)
        put(out->a, wide, i, integer ? draw_integer(&state, p->a, kind) : draw_float(&state, p->a, kind));
    for (int i = 0; i < k * p->n; i++)
        put(out->b, wide, i, integer ? draw_integer(&state, p->b, kind) : draw_float(&state, p->b, kind));
    if (kind == VECTORS_cancelling)
        cancel(&state, p, out);
    for (int i = 0; i < p->m * p->n; i++) {
        uint64_t x = integer ? draw_integer(&state, p->c, kind) : draw_float(&state, p->c, kind);
        if (!integer && !wide && kind != VECTORS_special && kind != VECTORS_huge && below(&state, 2))
            x = draw_near(&state, c, out, i / p->n, i % p->n);
        put(out->c, wide, i, !integer && kind == VECTORS_cancelling && below(&state, 4) == 0 ? 0 : x);
    }
}

/* ---- the model ----------------------------------------------------------------------------------------- */
enum { MOST_ROWS = 16 }; /* for wgmma: those of a warp */

static void multiply_f64(const struct tensor_product *p, struct vectors_input *in)
{
    uint64_t a[256], b[256], c[256];
    memcpy(a, in->a, sizeof *a * (size_t)(p->m * p->k));
    memcpy(b, in->b, sizeof *b * (size_t)(p->k * p->n));
    memcpy(c, in->c, sizeof *c * (size_t)(p->m * p->n));
    tensor_multiply_f64(p->m, p->n, p->k, a, b, c);
    memcpy(in->c, c, sizeof *c * (size_t)(p->m * p->n));
}

void vectors_multiply(const struct vectors_case *c, struct vectors_input *in)
{
    struct tensor_product p = c->p;
    const int             k = p.a == TENSOR_b1 ? p.k / 32 : p.k;
    if (p.c == TENSOR_f64) {
        multiply_f64(&p, in);
        return;
    }
    p.m = p.m < MOST_ROWS ? p.m : MOST_ROWS;
    for (int m = 0; m < c->p.m; m += p.m)
        tensor_multiply(&p, in->a + m * k, in->b, in->c + m * p.n);
}

size_t vectors_d_words(const struct vectors_case *c)
{
    return (size_t)(c->p.m * c->p.n) * (c->p.c == TENSOR_f64 ? 2 : 1);
}

uint32_t vectors_hash(const uint32_t *words, size_t count)
{
    uint64_t hash = 0xcbf29ce484222325ull;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ words[i]) * 0x100000001b3ull ^ hash >> 29;
    return (uint32_t)(hash ^ hash >> 32);
}

const char *vectors_kind_name(enum vectors_kind kind)
{
#define VECTORS_KIND(name) #name,
    static const char *const names[] = {VECTORS_KINDS(VECTORS_KIND)};
#undef VECTORS_KIND
    return (unsigned int)kind < VECTORS_KIND_COUNT ? names[kind] : "?";
}
