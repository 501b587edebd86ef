/* unknown.h - private: misspelt macros.  Of a word that is no macro the expander cannot know that it is no instruction,
 * so it leaves it to the compiler, which stops at some later word; this explains that. */
#ifndef PTXPACK_EXPAND_UNKNOWN_H
#define PTXPACK_EXPAND_UNKNOWN_H
#include "expand.h"

/* The next line of the output after `line` (0: the first) that begins with a word that neither is an instruction nor can be
 * one: with a capital letter or a '_', which no instruction of PTX has.  Writes "no macro or instruction ROW_REDUSE; near:
 * ROW_REDUCE" to buf, with the macros of the text whose names are nearest.  Returns its number; 0: there is none. */
size_t ptxpack_expansion_unknown(const ptxpack_expansion *e, size_t line, char *buf, size_t cap);
#endif
