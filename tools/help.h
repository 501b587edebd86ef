/* help.h - the manual page of the command and its completion in shells, made from the tables that --help is made from. */
#ifndef PTXPACK_HELP_H
#define PTXPACK_HELP_H
#include <stdio.h>

typedef struct subcommand {
    const char *word;
    int (*run)(int argc, char **argv);
    const char *summary;
} subcommand;

/* "ptxpack help [SUBCOMMAND|--man|--bash|--zsh|--fish]"; returns an exit status.  `all` ends with a NULL word. */
int help(int argc, char **argv, const subcommand *all);
/* The list of subcommands, as `ptxpack` alone prints it to stderr. */
void help_summary(FILE *file, const subcommand *all);
#endif
