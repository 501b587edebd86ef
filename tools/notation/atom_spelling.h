/* atom_spelling.h - tiled MMAs and tiled copies as C++ spells them. */
#ifndef PTXPACK_ATOM_SPELLING_H
#define PTXPACK_ATOM_SPELLING_H
#include <stdbool.h>

enum { SPELLING_TEXT = 2048 };

/* The parts of
 *   TiledMMA<MMA_Atom<NAME>, atoms, tile>   make_tiled_mma(NAME{}, atoms, tile)
 *   make_tiled_copy(Copy_Atom<NAME,type>{}, threads, values)     make_tiled_copy_A(Copy_Atom<NAME,type>{}, mma)
 *   TiledCopy<Copy_Atom<NAME,type>, tv, tile>                    make_tiled_copy_S(Copy_Atom<NAME,type>{}, like)
 *   make_cotiled_copy(Copy_Atom<NAME,type>{}, tv, data)
 * A part that is not there is NULL; where the third part of a tiled MMA is a layout, not a tile, it is `value_layout`, the
 * ValLayoutMNK of older versions, and the tile may be the fourth. */
typedef struct atom_spelling {
    char        text[SPELLING_TEXT]; /* what the parts point into */
    const char *name, *atoms, *value_layout, *tile, *threads, *values, *mma, *operand, *tv, *data, *like, *side;
    int         bits; /* of the type of a Copy_Atom; 0: none is named */
} atom_spelling;

/* False, without a message: the text is none of these. */
bool atom_spelling_read(const char *text, atom_spelling *out);
#endif
