/* files.h - a source and all that it includes from the disk, and whether any of it has changed. */
#ifndef PTXPACK_PROGRAM_FILES_H
#define PTXPACK_PROGRAM_FILES_H
#include <stdbool.h>
#include <stdint.h>
#include "run.h"

enum { PROGRAM_MAX_FILES = 1024 };
typedef struct program_file {
    char *path;
    bool  there;
    /* of stat */
    uint64_t device, inode, bytes;
    int64_t  seconds, nanoseconds;
} program_file;

typedef struct program_files {
    program_file list[PROGRAM_MAX_FILES]; /* the source first */
    size_t       count;
    uint64_t     digest; /* of paths and contents */
} program_files;

/* Look for them: .include and #include with a name as it stands in the text, in the folder of the including
 * file (PTX: of the source, too), in -I, and in PTXPACK_PTX_DIR.  Places where a file might be put are
 * watched as well. */
void program_files_find(program_files *f, const program_settings *s);
void program_files_free(program_files *f);
/* Whether one of them is not what it was, by its date, size or identity. */
bool program_files_touched(const program_files *f);
#endif
