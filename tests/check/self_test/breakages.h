/* breakages.h - what --self-test breaks in kernels. */
#ifndef PTXPACK_CHECK_BREAKAGES_H
#define PTXPACK_CHECK_BREAKAGES_H
#include <stdbool.h>

/* One break: in `file`, the text `from` becomes `to`, wherever it stands.  Any run of blanks in `from` matches
 * any other.  No break may reach outside the tensors: a fault would end the run. */
typedef struct breakage {
    const char *what, *file, *from, *to;
    const char
        *filter; /* the cases that must notice; after a | only those runs whose mask's name contains this */
} breakage;

extern const breakage hopper_breakages[]; /* of rows that only a Hopper GPU runs */
extern const int      hopper_breakage_count;

/* How many there are, of all rows, or with those of rows that only a Hopper GPU runs, which come last. */
int             breakage_count(bool hopper);
const breakage *breakage_at(int i);
#endif
