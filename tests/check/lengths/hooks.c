/* hooks.c - what cases of attention do to scores and masks: the same in PTX and in C. */
#include "hooks.h"

#include <math.h>
#include <stdint.h>

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

/* Every fifth row attends to nothing.  The two texts share their names. */
static const char mixed_mask[] = MIX("MY_OTHER_MIX") ".macro MASK_MOD_REGISTERS rows\n"
                                                     "        .reg .pred %my_some<\\rows>;\n"
                                                     ".endm\n"
                                                     ".macro MASK_MOD_ROW r, b, h, q\n"
                                                     "        .reg .b32 %my_x;\n"
                                                     "        rem.s32 %my_x, \\q, 5;\n"
                                                     "        setp.ne.s32 %my_some\\r, %my_x, 0;\n"
                                                     ".endm\n"
                                                     ".macro MASK_MOD keep, r, b, h, q, kv, c, cf\n"
                                                     "        .reg .b32 %my_x;\n"
                                                     "        MY_OTHER_MIX %my_x, \\b, \\h, \\q, \\kv\n"
                                                     "        rem.s32 %my_x, %my_x, 7;\n"
                                                     "        setp.gt.and.s32 \\keep, %my_x, 1, %my_some\\r;\n"
                                                     ".endm\n";
static int        mask_of_mix(void *context, int32_t b, int32_t h, int32_t q, int32_t kv)
{
    (void)context;
    return q % 5 != 0 && mix(b, h, q, kv) % 7 > 1;
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

const check_hook check_hooks[CHECK_HOOKS] = {
    {"mixed scores", mixed_score, NULL, {score_of_mix, NULL, NULL, NULL}},
    {"mixed scores, rows without keys", mixed_score, mixed_mask, {score_of_mix, mask_of_mix, NULL, NULL}},
    {"alibi", alibi_score, NULL, {score_of_alibi, NULL, NULL, NULL}},
    {"documents", NULL, documents_mask, {NULL, mask_of_documents, NULL, NULL}},
};

void check_fill_aux(float slopes[CHECK_SLOPES], int32_t documents[CHECK_DOCUMENTS])
{
    for (int32_t h = 0; h < CHECK_SLOPES; h++)
        slopes[h] = slope_of(h);
    for (int32_t i = 0; i < CHECK_DOCUMENTS; i++)
        documents[i] = document_of(i - CHECK_POSITIONS);
}
