/* symbols.h - the integer symbols of a run (-D, --sweep), and the numbers that may be expressions of them: --grid,
 * --block, --smem. */
#ifndef PTXPACK_PROGRAM_SYMBOLS_H
#define PTXPACK_PROGRAM_SYMBOLS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tools/command.h"
#include "loader/expand/expand.h"

enum { PROGRAM_SYMBOLS = 256, PROGRAM_LINE = 1024 };

/* Names are the caller's and must outlive it. */
typedef struct program_symbols {
    ptxpack_symbol list[PROGRAM_SYMBOLS];
    size_t         count;
} program_symbols;

/* A letter or _, then letters, digits, _. */
bool program_is_name(const char *text, size_t bytes);
/* The whole text must be one integer, decimal or 0x... */
bool program_integer(const char *text, int64_t *value);

/* Each of the following returns false after writing one line to `line`. */
/* Add a symbol, or give an existing one a new value. */
bool program_symbols_set(program_symbols *s, const char *name, int64_t value, char line[PROGRAM_LINE]);
/* "NAME=INTEGER" or "NAME" (1) of each -D; names are kept in `names`, which must outlive s. */
typedef struct program_names {
    char text[PROGRAM_SYMBOLS][128];
} program_names;
bool program_symbols_define(program_symbols *s, const option_list *defines, program_names *names,
                            char line[PROGRAM_LINE]);
/* An expression of integers and symbols with + - * / %, unary minus and parentheses, as C has them. */
__extension__ typedef __int128 program_wide;
bool program_number(const program_symbols *s, const char *text, size_t bytes, program_wide *value,
                    char line[PROGRAM_LINE]);
/* "8", "8,4", "(N+127)/128,1,4": three extents, each at least 1.  `name` is the option's; lines begin with it. */
bool program_extents(const char *name, const char *text, const program_symbols *symbols, uint32_t out[3],
                     char line[PROGRAM_LINE]);
bool program_smem(const char *text, const program_symbols *symbols, int64_t *bytes, char line[PROGRAM_LINE]);
#endif
