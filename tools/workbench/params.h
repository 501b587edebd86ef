/* params.h - the entries of PTX text and their parameters, and whether arguments suit them. */
#ifndef PTXPACK_PROGRAM_PARAMS_H
#define PTXPACK_PROGRAM_PARAMS_H
#include <stdbool.h>
#include <stddef.h>
#include "args.h"

enum { PROGRAM_MAX_PARAMS = 256, PROGRAM_MAX_ENTRIES = 64, PROGRAM_NAME = 512 };

typedef struct program_param {
    char   name[PROGRAM_NAME]; /* "" where it is not known */
    char   type[8];            /* "u64", "b8", ...; "" where it is not known */
    bool   array;              /* of `type`: a struct by value */
    size_t bytes;
} program_param;

typedef struct program_entry {
    char          name[PROGRAM_NAME];
    program_param params[PROGRAM_MAX_PARAMS];
    size_t        count;
} program_entry;

/* Find the entry `name` in the text; false if it is missing or written in a form that is not understood. */
bool program_entry_find(const char *ptx, const char *name, program_entry *out);
/* The names of the entries, in order; returns their number.  *left_out counts the entries beyond
 * PROGRAM_MAX_ENTRIES and those whose names are too long. */
size_t program_entry_names(const char *ptx, char names[PROGRAM_MAX_ENTRIES][PROGRAM_NAME], size_t *left_out);
bool   program_entry_exists(const char *ptx, const char *name);
/* The number of instructions in an entry. */
long program_entry_instructions(const char *ptx, const char *name);

/* Whether `count` arguments fit the parameters in number, size, and kind (integer or float).  If not, `line` names
 * the parameter. */
bool program_entry_takes(const program_entry *entry, const program_arg *args, size_t count,
                         char line[PROGRAM_LINE]);
#endif
