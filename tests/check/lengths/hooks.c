/* hooks.c - what cases of attention do to scores and masks: the same in PTX and in C, and biases and bits. */
#include "hooks.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* ---- all arguments; a shift by a block of keys shows, too ---- */
static int32_t mix(int32_t b, int32_t h, int32_t q, int32_t kv) { return 3 * q + 5 * kv + 7 * h + 11 * b; }

#define MIX(name)                               \
    ".macro " name " to, b, h, q, kv\n"         \
    "        mul.lo.s32 \\to, \\q, 3;\n"        \
    "        mad.lo.s32 \\to, \\kv, 5, \\to;\n" \
    "        mad.lo.s32 \\to, \\h, 7, \\to;\n"  \
    "        mad.lo.s32 \\to, \\b, 11, \\to;\n" \
    ".endm\n"

static const char mixed_score[] = MIX("MY_MIX") ".macro SCORE_MOD s, r, b, h, q, kv, c, cf\n"
                                                "        .reg .b32 %my_x;\n"
                                                "        .reg .f32 %my_f;\n"
                                                "        MY_MIX %my_x, \\b, \\h, \\q, \\kv\n"
                                                "        rem.s32 %my_x, %my_x, 13;\n"
                                                "        cvt.rn.f32.s32 %my_f, %my_x;\n"
                                                "        fma.rn.f32 \\s, %my_f, 0f3E000000, \\s; // 1/8\n"
                                                ".endm\n";
static double     score_of_mix(void *context, double s, int32_t b, int32_t h, int32_t q, int32_t kv)
{
    (void)context;
    return s + mix(b, h, q, kv) % 13 / 8.0;
}

/* Every fifth row attends to nothing.  The two texts share their names.  The row, the block and each key know all arguments. */
static const char mixed_mask[] = MIX(
    "MY_OTHER_MIX") ".macro MASK_MOD_REGISTERS rows\n"
                    "        .reg .pred %my_some<\\rows>;\n"
                    "        .reg .b32  %my_first<\\rows>;\n"
                    ".endm\n"
                    ".macro MASK_MOD_ROW r, b, h, q\n"
                    "        .reg .b32 %my_x;\n"
                    "        mad.lo.s32 %my_x, \\b, 2, \\q;\n"
                    "        add.s32 %my_x, %my_x, \\h;\n"
                    "        rem.s32 %my_x, %my_x, 5;\n"
                    "        setp.ne.s32 %my_some\\r, %my_x, 0;\n"
                    ".endm\n"
                    ".macro MASK_MOD_BLOCK r, b, h, q, kv\n"
                    "        MY_OTHER_MIX %my_first\\r, \\b, \\h, \\q, \\kv\n"
                    ".endm\n"
                    ".macro MASK_MOD keep, r, b, h, q, kv, c, cf\n"
                    "        .reg .b32 %my_x, %my_y;\n"
                    "        MY_OTHER_MIX %my_x, \\b, \\h, \\q, \\kv\n"
                    "        mov.s32 %my_y, \\c;\n"
                    "        mad.lo.s32 %my_y, %my_y, 5, %my_first\\r;\n"
                    "        setp.eq.and.s32 \\keep, %my_x, %my_y, %my_some\\r;\n"
                    "        rem.s32 %my_x, %my_x, 7;\n"
                    "        setp.gt.and.s32 \\keep, %my_x, 1, \\keep;\n"
                    ".endm\n";
static int mask_of_mix(void *context, int32_t b, int32_t h, int32_t q, int32_t kv)
{
    (void)context;
    return (q + h + 2 * b) % 5 != 0 && mix(b, h, q, kv) % 7 > 1;
}

/* ---- ALiBi, with what a tile, a row and a block keep; it leaves scores times 4 -------------------------------------------------------------- */
static float slope_of(int32_t head) { return ldexpf(1, -(int)(head % 9)) / 4; }

static const char alibi_score[] = ".macro SCORE_MOD_REGISTERS rows\n"
                                  "        .reg .f32 %my_in, %my_slope<\\rows>, %my_from<\\rows>;\n"
                                  ".endm\n"
                                  ".macro SCORE_MOD_UNIT in, out\n"
                                  "        mul.f32 %my_in, \\in, 0f40800000;\n"
                                  "        mov.f32 \\out, 0f3E800000;\n"
                                  ".endm\n"
                                  ".macro SCORE_MOD_ROW r, b, h, q\n"
                                  "        .reg .b64 %my_at;\n"
                                  "        AUX %my_at, 0\n"
                                  "        mad.wide.u32 %my_at, \\h, 4, %my_at;\n"
                                  "        ld.global.nc.f32 %my_slope\\r, [%my_at];\n"
                                  "        mul.f32 %my_slope\\r, %my_slope\\r, 0fC0800000;\n"
                                  ".endm\n"
                                  ".macro SCORE_MOD_BLOCK r, b, h, q, kv\n"
                                  "        .reg .b32 %my_x;\n"
                                  "        sub.s32 %my_x, \\q, \\kv;\n"
                                  "        cvt.rn.f32.s32 %my_from\\r, %my_x;\n"
                                  ".endm\n"
                                  ".macro SCORE_MOD s, r, b, h, q, kv, c, cf\n"
                                  "        .reg .f32 %my_f;\n"
                                  "        sub.f32 %my_f, %my_from\\r, \\cf;\n"
                                  "        abs.f32 %my_f, %my_f;\n"
                                  "        mul.f32 \\s, \\s, %my_in;\n"
                                  "        fma.rn.f32 \\s, %my_f, %my_slope\\r, \\s;\n"
                                  ".endm\n";
static double     score_of_alibi(void *context, double s, int32_t b, int32_t h, int32_t q, int32_t kv)
{
    (void)context, (void)b;
    return s - (double)slope_of(h) * fabs((double)q - kv);
}

/* ---- scores that rise with the key, by shifts; every third row attends to nothing, which its shifts say ---------- */
static const char sloping_score[] = ".macro SCORE_MOD_REGISTERS rows\n"
                                    "        .reg .f32 %my_slope<\\rows>;\n"
                                    ".endm\n"
                                    ".macro SCORE_MOD_ROW r, b, h, q\n"
                                    "        AUX_LOAD f32, %my_slope\\r, 0, \\h\n"
                                    ".endm\n"
                                    ".macro SCORE_MOD_SHIFT shift, r, b, h, q, kv\n"
                                    "        .reg .b32 %my_x;\n"
                                    "        .reg .pred %my_some;\n"
                                    "        sub.s32 %my_x, \\kv, \\q;\n"
                                    "        cvt.rn.f32.s32 \\shift, %my_x;\n"
                                    "        mul.f32 \\shift, \\shift, %my_slope\\r;\n"
                                    "        rem.s32 %my_x, \\q, 3;\n"
                                    "        setp.ne.s32 %my_some, %my_x, 1;\n"
                                    "        selp.f32 \\shift, \\shift, 0fFF800000, %my_some;\n"
                                    ".endm\n"
                                    ".macro SCORE_MOD s, r, b, h, q, kv, c, cf\n"
                                    "        fma.rn.f32 \\s, %my_slope\\r, \\cf, \\s;\n"
                                    ".endm\n";
static double     score_of_sloping(void *context, double s, int32_t b, int32_t h, int32_t q, int32_t kv)
{
    (void)context, (void)b;
    return q % 3 == 1 ? -INFINITY : s + (double)slope_of(h) * ((double)kv - q);
}

/* ---- documents, read for each key ------------------------------------------------------------------------- */
static int32_t document_of(int32_t position) { return (position + CHECK_POSITIONS) / 50 % 3; }

static const char documents_mask[] = ".macro MY_DOCUMENT to, position\n"
                                     "        .reg .b64 %my_at;\n"
                                     "        AUX %my_at, 1\n"
                                     "        mad.wide.s32 %my_at, \\position, 4, %my_at;\n"
                                     "        ld.global.nc.b32 \\to, [%my_at];\n"
                                     ".endm\n"
                                     ".macro MASK_MOD_REGISTERS rows\n"
                                     "        .reg .b32 %my_row<\\rows>;\n"
                                     ".endm\n"
                                     ".macro MASK_MOD_ROW r, b, h, q\n"
                                     "        MY_DOCUMENT %my_row\\r, \\q\n"
                                     ".endm\n"
                                     ".macro MASK_MOD keep, r, b, h, q, kv, c, cf\n"
                                     "        .reg .b32 %my_key;\n"
                                     "        MY_DOCUMENT %my_key, \\kv\n"
                                     "        setp.eq.s32 \\keep, %my_key, %my_row\\r;\n"
                                     ".endm\n";
static int        mask_of_documents(void *context, int32_t b, int32_t h, int32_t q, int32_t kv)
{
    (void)context, (void)b, (void)h;
    return document_of(q) == document_of(kv);
}

/* ---- sigmoid attention: logarithms of weights, those of some heads far below 1 ----------------------------------- */
static float shift_of(int32_t head) { return 4 - 6 * (float)(head % 5); }

static const char sigmoid_score[] = ".macro SCORE_MOD s, r, b, h, q, kv, c, cf\n"
                                    "        .reg .b32 %my_x;\n"
                                    "        .reg .f32 %my_f, %my_g;\n"
                                    "        rem.u32 %my_x, \\h, 5;\n"
                                    "        cvt.rn.f32.u32 %my_f, %my_x;\n"
                                    "        fma.rn.f32 %my_f, %my_f, 0fC0C00000, 0f40800000; // 4 - 6 x\n"
                                    "        add.f32 \\s, \\s, %my_f;\n"
                                    "        abs.f32 %my_f, \\s;\n"
                                    "        mul.f32 %my_f, %my_f, 0fBFB8AA3B; // -log2 e\n"
                                    "        ex2.approx.f32 %my_f, %my_f;\n"
                                    "        add.f32 %my_f, %my_f, 0f3F800000;\n"
                                    "        lg2.approx.f32 %my_f, %my_f;\n"
                                    "        min.f32 %my_g, \\s, 0f00000000;\n"
                                    "        fma.rn.f32 \\s, %my_f, 0fBF317218, %my_g; // -ln 2\n"
                                    ".endm\n";
static double     score_of_sigmoid(void *context, double s, int32_t b, int32_t h, int32_t q, int32_t kv)
{
    (void)context, (void)b, (void)q, (void)kv;
    s += (double)shift_of(h);
    return fmin(s, 0) - log1p(exp(-fabs(s)));
}

#define NONE ((ptxpack_dtype)0) /* of a bias */
#define F32  ((ptxpack_dtype)0)
const check_hook check_hooks[CHECK_HOOKS] = {
    {"mixed scores", mixed_score, NULL, {score_of_mix, NULL, NULL, NULL}, 0, NONE, 0, 0},
    {"mixed scores, rows without keys",
     mixed_score,
     mixed_mask,
     {score_of_mix, mask_of_mix, NULL, NULL},
     0,
     NONE,
     0,
     0},
    {"alibi", alibi_score, NULL, {score_of_alibi, NULL, NULL, NULL}, 0, NONE, 0, 0},
    {"documents", NULL, documents_mask, {NULL, mask_of_documents, NULL, NULL}, 0, NONE, 0, 0},
    {"sigmoid", sigmoid_score, NULL, {score_of_sigmoid, NULL, NULL, NULL}, PTXPACK_UNNORMALIZED, NONE, 0, 0},
    {"slopes by shifts, rows without keys",
     sloping_score,
     NULL,
     {score_of_sloping, NULL, NULL, NULL},
     0,
     NONE,
     0,
     0},
    {"bf16 bias", NULL, NULL, {0}, PTXPACK_BIAS, PTXPACK_BF16, 0, 0},
    {"f32 bias of all heads, bits", NULL, NULL, {0}, PTXPACK_BIAS | PTXPACK_MASK_BITS, F32, 0, 2},
    {"f16 bias of odd rows, bits of a tree, mixed scores",
     mixed_score,
     NULL,
     {score_of_mix, NULL, NULL, NULL},
     PTXPACK_BIAS | PTXPACK_MASK_BITS,
     PTXPACK_F16,
     PTXPACK_KEYS_OF_QUERIES,
     1},
    {"bits of the last 37 keys", NULL, NULL, {0}, PTXPACK_MASK_BITS, NONE, 37, 3},
    {"f32 bias of all sequences", NULL, NULL, {0}, PTXPACK_BIAS, F32, 0, 3},
};

void check_fill_aux(float slopes[CHECK_SLOPES], int32_t documents[CHECK_DOCUMENTS])
{
    for (int32_t h = 0; h < CHECK_SLOPES; h++)
        slopes[h] = slope_of(h);
    for (int32_t i = 0; i < CHECK_DOCUMENTS; i++)
        documents[i] = document_of(i - CHECK_POSITIONS);
}

/* ---- a bias, and bits ------------------------------------------------------------------------------------- */
void check_describe_bias(const check_hook *hook, ptxpack_attention_desc *d)
{
    const bool    bias = (hook->options & PTXPACK_BIAS) != 0, bits = (hook->options & PTXPACK_MASK_BITS) != 0;
    const int64_t rows = d->seqlen_q, heads = d->heads_q, row = (d->seqlen_kv | 1) + (hook->apart == 1 ? 2 : 1);
    const int64_t columns = hook->mask_keys > 0 ? hook->mask_keys : hook->mask_keys < 0 ? rows : d->seqlen_kv;
    const int64_t bytes = ((columns + 31) / 32 + 1) * 4;
    d->options |= hook->options;
    d->bias_dtype = hook->bias_dtype;
    d->mask_keys = hook->mask_keys < d->seqlen_kv ? hook->mask_keys : d->seqlen_kv;
    if (bias)
        d->bias = (ptxpack_strides){heads * rows * row, row, rows * row};
    if (bits)
        d->mask_bits = (ptxpack_strides){heads * rows * bytes, bytes, rows * bytes};
    if (hook->apart == 2)
        d->bias.head = d->mask_bits.head = 0;
    if (hook->apart == 3)
        d->bias.batch = d->mask_bits.batch = 0;
}

static float bias_of(const ptxpack_attention_desc *d, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const uint32_t x = (uint32_t)(3 * i + 5 * j + (d->bias.head != 0 ? 7 * h : 0) + 11 * b);
    return i % 7 == 3 || x % 19 == 0 ? -INFINITY : (float)(x % 37) / 16 - 1;
}

void check_fill_bias(const ptxpack_attention_desc *d, void *bias, size_t bytes, int32_t sequence,
                     int64_t queries, int64_t keys)
{
    const int64_t heads = d->bias.head != 0 ? d->heads_q : 1;
    if (sequence == 0)
        memset(bias, 0xff, bytes);
    for (int64_t h = 0; h < heads; h++)
        for (int64_t i = 0; i < queries; i++)
            for (int64_t j = 0; j < keys; j++) {
                const size_t at = (size_t)(sequence * d->bias.batch + h * d->bias.head + i * d->bias.row + j);
                const float  x = bias_of(d, sequence, h, i, j);
                if (d->bias_dtype == 0)
                    ((float *)bias)[at] = x;
                else
                    ptxpack_set_element(d->bias_dtype, bias, at, x);
            }
}

void check_fill_bits(const ptxpack_attention_desc *d, uint32_t *bits, size_t bytes)
{
    const size_t row = (size_t)d->mask_bits.row / sizeof *bits;
    for (size_t n = 0; n < bytes / sizeof *bits; n++)
        bits[n] = n / row % 7 == 2 ? 0 : ~((uint32_t)n * 2654435761u & (uint32_t)(n + 3) * 2246822519u);
}
