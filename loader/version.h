/* version.h - the version of these headers, and that of the library that is loaded.  C11 and C++. */
#ifndef PTXPACK_VERSION_H
#define PTXPACK_VERSION_H
#include "status.h"

/* The Makefile reads it here. */
#define PTXPACK_VERSION       "0.1.0"
#define PTXPACK_VERSION_MAJOR 0
#define PTXPACK_VERSION_MINOR 1
#define PTXPACK_VERSION_PATCH 0

#ifdef __cplusplus
extern "C" {
#endif
/* PTXPACK_VERSION as the library was built; another one than the headers' where a program has met a newer library.
 * Static storage. */
PTXPACK_API const char *ptxpack_version(void);
/* The version with a digest of the kernels' texts, for reports: "0.1.0 (pack 01234567)". */
PTXPACK_API const char *ptxpack_version_full(void);
#ifdef __cplusplus
}
#endif
#endif
