/* args.h - the --arg options of a run: the argument for each parameter of an entry.
 *
 *   f32:1.5   u32:N/2   bytes:0102ff           a value; a struct by value
 *   in:x.npy  in:f16:128*64  zero:f32:N        a buffer, whose address is passed
 *   iota:s32:N  out:f16:N:y.npy  inout:x.npy:y.npy
 *   +f32:1.5  +in:x.npy                        the next member of the same struct as the argument before */
#ifndef PTXPACK_PROGRAM_ARGS_H
#define PTXPACK_PROGRAM_ARGS_H
#include <stdbool.h>
#include <stddef.h>
#include "element.h"
#include "symbols.h"

typedef enum program_arg_kind {
    PROGRAM_VALUE,
    PROGRAM_BYTES, /* passed unchanged */
    PROGRAM_IN,
    PROGRAM_ZERO,
    PROGRAM_IOTA,
    PROGRAM_OUT,
    PROGRAM_INOUT /* from PROGRAM_IN on: a buffer */
} program_arg_kind;

typedef struct program_arg {
    const char      *spec;   /* the caller's */
    bool             member; /* it belongs to the same parameter as the argument before it */
    program_arg_kind kind;
    element_type     type;  /* ELEMENT_COUNT: bytes, or the file's type */
    unsigned char   *value; /* of a value or bytes; malloc'ed */
    size_t           value_bytes;
    char            *text;      /* a copy of the spec, which the paths point into */
    const char      *from, *to; /* .npy files to read and to write; NULL: none */
    int              rank;      /* number of extents of the buffer; 0: the file's */
    int64_t          shape[NPY_MAX_RANK];
    size_t           count; /* elements; 0: the file's */
} program_arg;

enum { PROGRAM_MAX_ARG_BYTES = 32764, PROGRAM_MAX_RANK = 8 };

/* One line for each form, for --help. */
#define PROGRAM_ARGS_HELP                                                                                    \
    "  --arg SPEC, one for each parameter of the entry, in order; counts, extents and integers may be\n"     \
    "      expressions of symbols, as (N+BLOCK-1)/BLOCK\n"                                                   \
    "    TYPE:VALUE          a value: s8 u8 s16 u16 s32 u32 s64 u64 e4m3 f16 bf16 f32 f64\n"                 \
    "    bytes:HEX           a struct by value, byte by byte\n"                                              \
    "    +SPEC               the next member of a struct, after the --arg before: a value or an address on " \
    "a\n"                                                                                                    \
    "                        multiple of its size, bytes anywhere\n"                                         \
    "    in:[TYPE:]FILE.npy  a buffer with the file's elements\n"                                            \
    "    in:TYPE:COUNT       a buffer of random numbers: normal ones, of integer types from 0 to 99\n"       \
    "    zero:TYPE:COUNT     a buffer of zeros;  iota:TYPE:COUNT  of 0, 1, 2, ...\n"                         \
    "    out:TYPE:COUNT[:FILE.npy]          a buffer that is shown after the first launch, and written\n"    \
    "    inout:TYPE:COUNT[:FILE.npy]        the same, with random numbers before\n"                          \
    "    inout:[TYPE:]FILE.npy[:FILE.npy]   the same, with the first file's elements before"

/* Parse `spec`.  On an error the result is false and `line` names the spec.  Free `out` in either case. */
bool program_arg_parse(const char *spec, const program_symbols *symbols, program_arg *out,
                       char line[PROGRAM_LINE]);
void program_arg_free(program_arg *arg);
bool program_arg_is_buffer(const program_arg *arg);
bool program_arg_is_shown(const program_arg *arg); /* out and inout */
/* How many of `count` arguments, from the first on, form one parameter: an argument and the members after it.
 * *bytes is where the last one ends, *size the size of the struct in C, with the padding of its alignment. */
size_t program_arg_members(const program_arg *args, size_t count, size_t *bytes, size_t *size);
/* The offset of a member after `bytes` bytes, and the bytes that it takes itself. */
size_t program_arg_place(const program_arg *arg, size_t bytes);
size_t program_arg_bytes(const program_arg *arg);

/* The contents of a buffer before the launch: read from its file, random numbers of `seed`, ...; NULL for out.  The
 * type, count and shape of `arg` become those of the file. */
bool program_arg_fill(program_arg *arg, uint64_t seed, void **data, char line[PROGRAM_LINE]);
#endif
