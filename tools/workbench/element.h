/* element.h - the element types of arguments: their names, sizes, values and random numbers. */
#ifndef PTXPACK_PROGRAM_ELEMENT_H
#define PTXPACK_PROGRAM_ELEMENT_H
#include <stdbool.h>
#include <stddef.h>
#include "tools/problem/npy.h"
#include "symbols.h"

/* name, bytes, kind, type in .npy files (which hold bf16 and e4m3 as unsigned integers) */
#define ELEMENT_MAP(X)           \
    X(S8, "s8", 1, 's', S8)      \
    X(U8, "u8", 1, 'u', U8)      \
    X(S16, "s16", 2, 's', S16)   \
    X(U16, "u16", 2, 'u', U16)   \
    X(S32, "s32", 4, 's', S32)   \
    X(U32, "u32", 4, 'u', U32)   \
    X(S64, "s64", 8, 's', S64)   \
    X(U64, "u64", 8, 'u', U64)   \
    X(E4M3, "e4m3", 1, 'f', U8)  \
    X(F16, "f16", 2, 'f', F16)   \
    X(BF16, "bf16", 2, 'f', U16) \
    X(F32, "f32", 4, 'f', F32)   \
    X(F64, "f64", 8, 'f', F64)
typedef enum element_type {
#define ELEMENT_ENUM(id, name, bytes, kind, npy) ELEMENT_##id,
    ELEMENT_MAP(ELEMENT_ENUM)
#undef ELEMENT_ENUM
        ELEMENT_COUNT /* no type */
} element_type;
#define ELEMENT_NAMES "s8 u8 s16 u16 s32 u32 s64 u64 e4m3 f16 bf16 f32 f64"

element_type element_find(const char *name, size_t bytes); /* ELEMENT_COUNT: there is no such type */
const char  *element_name(element_type type);
size_t       element_bytes(element_type type);
char         element_kind(element_type type); /* 's'igned, 'u'nsigned or 'f'loat */
npy_type     element_npy(element_type type);
element_type element_of_npy(npy_type type);

/* Parse one value: an expression of integers, or a float.  On an error the result is false and `line` is set. */
bool element_parse(element_type type, const program_symbols *symbols, const char *text, void *value,
                   char line[PROGRAM_LINE]);
/* Element `index` of an array, as text in buf; returns buf. */
const char *element_text(element_type type, const void *array, size_t index, char *buf, size_t cap);
double      element_value(element_type type, const void *array, size_t index);
/* Normally distributed numbers; for integer types, integers from 0 to 99.  Uses one thread per processor; the result
 * does not depend on their number. */
void element_random(element_type type, uint64_t seed, void *array, size_t count);
/* 0, 1, 2, ...: modulo the range of integers, rounded to floats. */
void element_iota(element_type type, void *array, size_t count);
#endif
