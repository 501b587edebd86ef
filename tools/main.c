/* main.c - the command: find the subcommand, run it, make sure that its output was written. */
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "help.h"
#include "loader/version.h"

static const subcommand subcommands[] = {
#define SUBCOMMAND(word, function, summary) {word, cmd_##function, summary},
    COMMAND_MAP(SUBCOMMAND)
#undef SUBCOMMAND
        {NULL, NULL, NULL},
};

/* Run argv[0]. */
static int run_subcommand(int argc, char **argv)
{
    if (strcmp(argv[0], "help") == 0)
        return help(argc, argv, subcommands);
    for (const subcommand *one = subcommands; one->word != NULL; one++)
        if (strcmp(argv[0], one->word) == 0)
            return one->run(argc, argv);
    return command_fail(NULL, "unknown subcommand \"%s\" (try --help)", argv[0]), COMMAND_USAGE;
}

int main(int argc, char **argv)
{
    int status = COMMAND_OK;
    command_begin();
    if (argc < 2) {
        help_summary(stderr, subcommands);
        return COMMAND_USAGE;
    }
    if (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0)
        help_summary(stdout, subcommands);
    else if (strcmp(argv[1], "--version") == 0)
        printf("ptxpack %s\n", ptxpack_version_full());
    else
        status = run_subcommand(argc - 1, argv + 1);
    return command_end(status);
}
