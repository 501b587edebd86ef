/* command.h - "ptxpack ptx" and "ptxpack nvrtc", which differ only in the language. */
#ifndef PTXPACK_PROGRAM_COMMAND_H
#define PTXPACK_PROGRAM_COMMAND_H
#include "loader/build/program.h"

int program_command(int argc, char **argv, ptxpack_language language);
#endif
