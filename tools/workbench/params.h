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

/* The entry `name` of the text; false when it has none, or not in a form that is understood. */
bool program_entry_find(const char *ptx, const char *name, program_entry *out);
/* The names of the entries, in order, and how many these are; *left_out: those that are beyond
 * PROGRAM_MAX_ENTRIES, or have too long a name. */
size_t program_entry_names(const char *ptx, char names[PROGRAM_MAX_ENTRIES][PROGRAM_NAME], size_t *left_out);
bool   program_entry_exists(const char *ptx, const char *name);
/* Instructions between the braces of an entry. */
long program_entry_instructions(const char *ptx, const char *name);

/* Whether `count` arguments suit the parameters, by number, size, and integers to no floats: false after
 * one line that names the parameter. */
bool program_entry_takes(const program_entry *entry, const program_arg *args, size_t count,
                         char line[PROGRAM_LINE]);
#endif
