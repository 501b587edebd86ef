/* nvrtc.c - `ptxpack nvrtc`: compile, run and time a CUDA C++ file of the user's own, by NVRTC. */
#include "tools/command.h"
#include "tools/workbench/command.h"

int cmd_nvrtc(int argc, char **argv) { return program_command(argc, argv, PTXPACK_LANGUAGE_CUDA); }
