/* version.c - the version of the library. */
#include "version.h"
#include "inspect.h"

const char *ptxpack_version(void) { return PTXPACK_VERSION; }
const char *ptxpack_version_full(void) { return ptxpack_library_version; }
