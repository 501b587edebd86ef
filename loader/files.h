/* files.h - private: reading a file, the identity of a library, and the dynamic linker beside forks. */
#ifndef PTXPACK_FILES_H
#define PTXPACK_FILES_H
#include <stdbool.h>
#include <stddef.h>

/* The text of a regular file of at most `limit` bytes, malloc'ed and NUL-terminated; NULL when it cannot be
 * read. */
char *ptxpack_read_file(const char *path, size_t limit, size_t *bytes);
/* The path of a library that dlopen returned. */
const char *ptxpack_library_path(void *library);
/* What distinguishes this build of the library from others: the linker's build id, or else a digest of the
 * content.  False when neither can be read. */
bool ptxpack_library_identity(void *library, char *buf, size_t cap);
/* The same for a library that need not be loaded. */
bool ptxpack_file_identity(const char *path, char *buf, size_t cap);
/* The build id of the module that contains this code, and with it the embedded pack; false without one. */
bool ptxpack_own_identity(char *buf, size_t cap);
/* Around every use of the dynamic linker, and cuInit: no other thread forks in between.  Not recursive. */
void ptxpack_linker_enter(void);
void ptxpack_linker_leave(void);
#endif
