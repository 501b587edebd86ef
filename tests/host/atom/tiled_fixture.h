/* tiled_fixture.h - what the tests of tiled MMAs and tiled copies share: values from texts, short checks. */
#ifndef PTXPACK_TEST_TILED_FIXTURE_H
#define PTXPACK_TEST_TILED_FIXTURE_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "loader/loader.h"
#include "host/atom/tiled.h"

#define VOLTA    "SM70_8x8x4_F32F16F16F32_NT"
#define AMPERE   "SM80_16x8x16_F32F16F16F32_TN"
#define PERMUTED "<(4,4,2):(1,8,4),32,4>"

static inline const char *text_of(const ptxpack_layout *l)
{
    static char texts[8][PTXPACK_LAYOUT_TEXT];
    static int  turn;
    char       *text = texts[turn++ % 8];
    if (l->shape.status == PTXPACK_OK)
        ptxpack_layout_print(l, text, PTXPACK_LAYOUT_TEXT);
    else
        snprintf(text, PTXPACK_LAYOUT_TEXT, "no: %s", ptxpack_detail(NULL));
    return text;
}

#define assert_layout(layout, text)                    \
    do {                                               \
        ptxpack_layout checked_ = (layout);            \
        assert_string_equal(text_of(&checked_), text); \
    } while (0)

#define assert_slice(slice, text, at)                       \
    do {                                                    \
        ptxpack_slice slice_ = (slice);                     \
        assert_string_equal(text_of(&slice_.layout), text); \
        assert_int_equal(slice_.offset.value[0], at);       \
    } while (0)

/* The last call was refused, and its line contains `words`. */
#define assert_no(status, words)                                          \
    do {                                                                  \
        assert_int_equal(status, PTXPACK_E_ARG);                          \
        if (!strstr(ptxpack_detail(NULL), words))                         \
            fail_msg("\"%s\" lacks \"%s\"", ptxpack_detail(NULL), words); \
        assert_null(strchr(ptxpack_detail(NULL), '\n'));                  \
    } while (0)

static inline ptxpack_layout layout(const char *text)
{
    ptxpack_layout l = ptxpack_layout_parse(text);
    if (l.shape.status != PTXPACK_OK)
        fail_msg("%s: %s", text, ptxpack_detail(NULL));
    return l;
}

static inline ptxpack_mma_atom mma_atom(const char *name)
{
    ptxpack_mma_atom atom;
    if (ptxpack_mma_atom_find(name, &atom) != PTXPACK_OK)
        fail_msg("%s: %s", name, ptxpack_detail(NULL));
    return atom;
}

static inline ptxpack_copy_atom copy_atom(const char *name)
{
    ptxpack_copy_atom atom;
    if (ptxpack_copy_atom_find(name, &atom) != PTXPACK_OK)
        fail_msg("%s: %s", name, ptxpack_detail(NULL));
    return atom;
}

static inline ptxpack_tiled_mma tiled_mma(const char *name, const char *atoms, const char *permutation)
{
    ptxpack_mma_atom atom = mma_atom(name);
    ptxpack_layout   a = layout(atoms != NULL ? atoms : "1:0"),
                   p = layout(permutation != NULL ? permutation : "<1>");
    ptxpack_tiled_mma mma = ptxpack_make_tiled_mma(&atom, atoms != NULL ? &a : NULL,
                                                   permutation != NULL ? &p : NULL);
    if (mma.status != PTXPACK_OK)
        fail_msg("%s: %s", name, ptxpack_detail(NULL));
    return mma;
}

static inline ptxpack_tiled_copy made(ptxpack_tiled_copy copy)
{
    if (copy.status != PTXPACK_OK)
        fail_msg("%s: %s", copy.atom.name, ptxpack_detail(NULL));
    return copy;
}

static inline ptxpack_tiled_copy tiled_copy(const char *name, int bits, const char *threads, const char *values)
{
    ptxpack_copy_atom atom = copy_atom(name);
    ptxpack_layout    t = layout(threads), v = layout(values != NULL ? values : "1:0");
    return made(ptxpack_make_tiled_copy(&atom, bits, &t, values != NULL ? &v : NULL));
}

static inline ptxpack_tiled_copy copy_of_mma(const char *name, int bits, const ptxpack_tiled_mma *mma,
                                             ptxpack_operand operand)
{
    ptxpack_copy_atom atom = copy_atom(name);
    return made(ptxpack_make_tiled_copy_mma(&atom, bits, mma, operand));
}

static inline ptxpack_slice part(const ptxpack_tiled_mma *mma, ptxpack_operand operand, int64_t thread,
                                 const char *tensor)
{
    ptxpack_layout l = layout(tensor);
    return ptxpack_mma_partition(mma, operand, thread, &l);
}

static inline int64_t at(const ptxpack_slice *s, int64_t index)
{
    return s->offset.value[0] + ptxpack_at(&s->layout, index);
}
#endif
