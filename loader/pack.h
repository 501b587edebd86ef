/* pack.h - where .ptx text comes from: the copy embedded in the library, or a folder. */
#ifndef PTXPACK_PACK_H
#define PTXPACK_PACK_H
#include <stddef.h>

/* One embedded file.  The Makefile makes the table, which ends with a NULL path.  A NUL byte at `end` follows
 * the text. */
struct ptxpack_pack_file {
    const char *path; /* below ptx/ */
    const char *begin, *end;
};
extern const struct ptxpack_pack_file ptxpack_pack_files[];

/* A reader for one expansion.  `dir` NULL means the embedded copy.  Set `dir` and zero the rest; call
 * ptxpack_pack_free afterwards. */
struct ptxpack_pack {
    const char               *dir;
    struct ptxpack_pack_text *texts; /* files read from dir so far */
};
/* A ptxpack_reader, whose context is the struct ptxpack_pack. */
const char *ptxpack_pack_read(void *context, const char *path, size_t *bytes);
void        ptxpack_pack_free(struct ptxpack_pack *pack);
#endif
