/* atom_script.h - lines of C++ that give names to atoms, tiled MMAs and tiled copies, and say which are to be shown. */
#ifndef PTXPACK_ATOM_SCRIPT_H
#define PTXPACK_ATOM_SCRIPT_H
#include <stdbool.h>

/* What a thread has, as copy.get_slice(9).partition_S(tensor) asks; a text is NULL where the expression has none. */
typedef struct atom_script_part {
    long        thread;
    const char *tensor, *fragment, *operand; /* operand of a tiled MMA: A, B or C */
} atom_script_part;

/* Shows an expression in which every name has been replaced by what it stands for, or a thread's part of it (NULL: all);
 * `picture`: by print_latex.  Returns a status of the command. */
typedef int atom_script_show(void *context, const char *expression, const atom_script_part *part, bool picture);

/* Could the text be more than one name of an atom? */
bool atom_script_is(const char *text);

/* Statements end as in layout_script.h.  `using NAME = ...`, `auto NAME = ...` and `TYPE NAME`, where TYPE is a name from before,
 * define a name; every other statement is shown, and if there is none, the last definition is.  Comments are skipped, and
 * decltype(...) is what stands in it.  Returns the first status that is not COMMAND_OK; messages are printed. */
int atom_script_run(const char *text, atom_script_show *show, void *context);
#endif
