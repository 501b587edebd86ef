/* main.c - the command: find the subcommand, run it, make sure that its output was written. */
#include <stdio.h>
#include <string.h>

#include "command.h"

typedef struct subcommand {
    const char *word;
    int (*run)(int argc, char **argv);
    const char *summary;
} subcommand;

static const subcommand subcommands[] = {
#define SUBCOMMAND(word, function, summary) {word, cmd_##function, summary},
    COMMAND_MAP(SUBCOMMAND)
#undef SUBCOMMAND
};
enum { SUBCOMMAND_COUNT = sizeof subcommands / sizeof subcommands[0] };

static void print_summary(FILE *file)
{
    fputs("usage: ptxpack SUBCOMMAND [options]\n", file);
    for (int i = 0; i < SUBCOMMAND_COUNT; i++)
        fprintf(file, "  %-12s %s\n", subcommands[i].word, subcommands[i].summary);
    fputs("\"ptxpack SUBCOMMAND --help\" lists the options of one\n", file);
}

/* Run argv[0]. */
static int run_subcommand(int argc, char **argv)
{
    for (int i = 0; i < SUBCOMMAND_COUNT; i++)
        if (strcmp(argv[0], subcommands[i].word) == 0)
            return subcommands[i].run(argc, argv);
    return command_fail(NULL, "unknown subcommand \"%s\" (try --help)", argv[0]), COMMAND_USAGE;
}

int main(int argc, char **argv)
{
    int status = COMMAND_OK;
    command_begin();
    if (argc < 2) {
        print_summary(stderr);
        return COMMAND_USAGE;
    }
    if (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0)
        print_summary(stdout);
    else
        status = run_subcommand(argc - 1, argv + 1);
    return command_end(status);
}
