/* pack.h - where .ptx text comes from: the copy embedded in the library, or a folder. */
#ifndef PTXPACK_PACK_H
#define PTXPACK_PACK_H
#include <stdatomic.h>
#include <stddef.h>

/* One embedded file, a gzip file from begin to end.  The Makefile makes the table, which ends with a NULL path. */
struct ptxpack_pack_file {
    const char          *path; /* below ptx/ */
    const unsigned char *begin, *end;
    char                *text;  /* room for the text and a NUL, which is filled when the file is first read */
    unsigned             bytes; /* of the text */
    atomic_int           state; /* of `text`: pack.c */
};
extern struct ptxpack_pack_file ptxpack_pack_files[];

/* A reader for one expansion.  `dir` NULL means the embedded copy.  Set `dir` and zero the rest; call
 * ptxpack_pack_free afterwards. */
struct ptxpack_pack {
    const char               *dir;
    struct ptxpack_pack_text *texts; /* files read so far, except those of the table */
};
/* A ptxpack_reader, whose context is the struct ptxpack_pack. */
const char *ptxpack_pack_read(void *context, const char *path, size_t *bytes);
void        ptxpack_pack_free(struct ptxpack_pack *pack);
#endif
