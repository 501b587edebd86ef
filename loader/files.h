/* files.h - private: reading a file, the identity of a library, and the dynamic linker beside forks. */
#ifndef PTXPACK_FILES_H
#define PTXPACK_FILES_H
#include <stdbool.h>
#include <stddef.h>

/* The text of a regular file of at most `limit` bytes, malloc'ed and NUL-terminated.  NULL with errno if it
 * cannot be read: EISDIR, EFBIG, ESPIPE if it is neither a file nor a directory, or the errno of the system. */
char *ptxpack_read_file(const char *path, size_t limit, size_t *bytes);
/* The sentence for an errno of ptxpack_read_file. */
const char *ptxpack_file_error(int error);
/* The path of a library that dlopen returned. */
const char *ptxpack_library_path(void *library);
/* What distinguishes this build of the library from others: the linker's build id, or else a digest of the
 * content.  False if neither can be read. */
bool ptxpack_library_identity(void *library, char *buf, size_t cap);
/* The same for a library that need not be loaded. */
bool ptxpack_file_identity(const char *path, char *buf, size_t cap);
/* The build id of the module that contains this code and the embedded pack; false if it has none. */
bool ptxpack_own_identity(char *buf, size_t cap);
/* Every use of the dynamic linker, and cuInit, stands between these two calls: no other thread forks meanwhile.
 * They do not nest. */
void ptxpack_linker_enter(void);
void ptxpack_linker_leave(void);
#endif
