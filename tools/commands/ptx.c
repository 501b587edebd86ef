/* ptx.c - `ptxpack ptx`: compile, run and time a .ptx file of the user's own. */
#include "tools/command.h"
#include "tools/workbench/command.h"

int cmd_ptx(int argc, char **argv) { return program_command(argc, argv, PTXPACK_LANGUAGE_PTX); }
