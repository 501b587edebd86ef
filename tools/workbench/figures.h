/* figures.h - what the library tells of a program and its entries, as a result keeps it. */
#ifndef PTXPACK_PROGRAM_FIGURES_H
#define PTXPACK_PROGRAM_FIGURES_H
#include "run.h"

void program_figures_program(program_result *result, const ptxpack_program_info *info, double ready_ms);
/* The lines of the compilers' log (NULL: none) that warn. */
void program_figures_warnings(program_result *result, const char *log);
/* One more entry; its remarks but for those that are warnings already. */
void program_figures_add(program_result *result, const ptxpack_function_info *info);
#endif
