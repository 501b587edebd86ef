/* inspect.h - names of atoms: as C++ spells them, and which known ones are nearest to one that is unknown; for this room and for
 * the command. */
#ifndef PTXPACK_ATOM_INSPECT_H
#define PTXPACK_ATOM_INSPECT_H
#include <stdbool.h>

enum { ATOM_NAME_BYTES = 160 };

/* The operation that a C++ name means: without cute::, blanks and {}, out of MMA_Atom<>, Copy_Atom<> and their traits.  False: the
 * name is too long for an atom's. */
bool atom_bare_name(const char *name, char bare[ATOM_NAME_BYTES]);

enum { NEAR_NAMES = 3, NEAR_BYTES = 160 };

/* The nearest so far, the nearest first, and before all others those that begin with what is wanted; names are cut to NEAR_BYTES. */
struct near_names {
    char wanted[NEAR_BYTES]; /* in upper case */
    int  length;             /* of that */
    int  distance[NEAR_NAMES];
    char name[NEAR_NAMES][NEAR_BYTES];
};

void near_begin(struct near_names *near, const char *wanted);
void near_offer(struct near_names *near, const char *name);
#endif
