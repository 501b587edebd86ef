/* atom.h - what the parts of `ptxpack atom` share: its options, and how it refuses them. */
#ifndef PTXPACK_COMMANDS_ATOM_H
#define PTXPACK_COMMANDS_ATOM_H
#include <stdbool.h>
#include <stdint.h>
#include "host/atom/atom.h"
#include "host/atom/copy_atom.h"
#include "tools/notation/atom_spelling.h"

/* A text is NULL, and a number OPTION_NOT_GIVEN, where the option was not given. */
typedef struct atom_settings {
    bool        latex, svg, json, desc, banks;
    const char *tiled, *atoms, *tile;        /* of a tiled MMA; `mma` is its atom when `tiled` is a copy */
    const char *value_layout;                /* CuTe's former ValLayoutMNK, in the place of a tile */
    const char *threads, *values, *mma;      /* of a tiled copy */
    const char *tv, *data, *like, *side;     /* of one that is made by its layout, or after another one */
    const char *tensor, *fragment, *operand; /* what is partitioned */
    const char *type, *major, *swizzle;      /* of a descriptor */
    int64_t     rows, bits, thread;
} atom_settings;

/* Is there a copy of this name, and which? */
bool atom_is_copy(const char *name, ptxpack_copy_atom *copy);
/* Names the nearest of all atoms, matrix multiplies and copies; returns COMMAND_USAGE. */
int atom_unknown(const char *name);
/* Takes the parts of a tiled MMA or copy that C++ spells; false: an option says the same. */
bool atom_take_spelling(atom_settings *s, const atom_spelling *spelling);
/* The library's message is about this option's value, or about its default if `text` is NULL; returns COMMAND_USAGE. */
int atom_refused(const char *name, const char *text);

/* ---- tiled MMAs and copies: atom_tiled.c ------------------------------------------------------------ */
/* What is wrong with the combination of options of --tiled, or NULL if nothing is. */
const char *atom_tiled_conflict(const atom_settings *s);
int         atom_tiled(const atom_settings *s);
#endif
