/* find.h - private: finding the compilers of toolkits, Python's packages and distributions.  Python is not run.
 * Setuid programs ignore environment variables. */
#ifndef PTXPACK_FIND_H
#define PTXPACK_FIND_H
#include <stdbool.h>
#include <stddef.h>

/* How to get a PTX compiler if there is none, for messages. */
#define PTXPACK_COMPILER_ADVICE \
    "PyPI's nvidia-cuda-nvcc or libnvidia-ptxjitcompiler1 of Debian's non-free brings one"

/* The functions below call this function for one path after another until it returns true, and then return
 * true. */
typedef bool ptxpack_find_take(const char *path, void *context);

/* Find the paths that match a glob pattern, in reverse order, so that "cuda-13.0" comes before "cuda-12.9". */
bool ptxpack_find_glob(const char *pattern, ptxpack_find_take *take, void *context);
/* Find FOLDER/name for each absolute folder in a variable such as PATH, if that file exists. */
bool ptxpack_find_in_path(const char *variable, const char *name, ptxpack_find_take *take, void *context);
/* Find `below`, a pattern such as "nvidia/cu13/bin/ptxas", among the packages of the active environment
 * ($VIRTUAL_ENV, $CONDA_PREFIX), or among those of every other Python in its usual folder: ~/.local,
 * /usr/local, /usr. */
bool ptxpack_find_in_environment(const char *below, ptxpack_find_take *take, void *context);
bool ptxpack_find_in_packages(const char *below, ptxpack_find_take *take, void *context);

/* Find a program of the toolkit ("ptxas", "nvdisasm"): along $PATH, in the packages of the active environment,
 * in /usr/local/cuda/bin, and in other packages (nvidia-cuda-*, triton). */
bool ptxpack_find_tool(const char *name, ptxpack_find_take *take, void *context);
#endif
