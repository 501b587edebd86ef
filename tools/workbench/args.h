/* args.h - the --arg of a run: what each parameter of an entry gets.
 *
 *   f32:1.5   u32:N/2   bytes:0102ff           a value; a struct by value
 *   in:x.npy  in:f16:128*64  zero:f32:N        a buffer, whose address is passed
 *   iota:s32:N  out:f16:N:y.npy  inout:x.npy:y.npy
 *   +f32:1.5  +in:x.npy                        the next member of the struct that the argument before belongs
 * to */
#ifndef PTXPACK_PROGRAM_ARGS_H
#define PTXPACK_PROGRAM_ARGS_H
#include <stdbool.h>
#include <stddef.h>
#include "element.h"
#include "symbols.h"

typedef enum program_arg_kind {
    PROGRAM_VALUE,
    PROGRAM_BYTES, /* passed as they are */
    PROGRAM_IN,
    PROGRAM_ZERO,
    PROGRAM_IOTA,
    PROGRAM_OUT,
    PROGRAM_INOUT /* a buffer */
} program_arg_kind;

typedef struct program_arg {
    const char      *spec;   /* the caller's */
    bool             member; /* of the same parameter as the argument before */
    program_arg_kind kind;
    element_type     type;  /* ELEMENT_COUNT: bytes, or as the file has */
    unsigned char   *value; /* of a value or bytes; malloc'ed */
    size_t           value_bytes;
    char            *text;      /* a copy of the spec, which the paths point into */
    const char      *from, *to; /* .npy files to read and to write; NULL: none */
    int              rank;      /* of the buffer: the factors of its count; 0: as the file has */
    int64_t          shape[NPY_MAX_RANK];
    size_t           count; /* elements; 0: as the file has */
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

/* What `spec` says; false after one line that names it.  Free it in either case. */
bool program_arg_parse(const char *spec, const program_symbols *symbols, program_arg *out,
                       char line[PROGRAM_LINE]);
void program_arg_free(program_arg *arg);
bool program_arg_is_buffer(const program_arg *arg);
bool program_arg_is_shown(const program_arg *arg); /* out and inout */
/* Of `count` arguments how many, from the first on, make one parameter: it and its members.  *bytes: up to
 * the end of the last; *size: of the struct in C, with what its alignment adds. */
size_t program_arg_members(const program_arg *args, size_t count, size_t *bytes, size_t *size);
/* Where a member lies when what is before it takes `bytes`, and what a parameter gets of it. */
size_t program_arg_place(const program_arg *arg, size_t bytes);
size_t program_arg_bytes(const program_arg *arg);

/* The host's side of a buffer before the launch: read, random, ...; NULL data for out.  type, count and
 * shape of `arg` become those of the file.  Random numbers are of `seed`. */
bool program_arg_fill(program_arg *arg, uint64_t seed, void **data, char line[PROGRAM_LINE]);
#endif
