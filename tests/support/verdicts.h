/* verdicts.h - what a compiler said of texts that it has compiled before: a file of lines "KEY BYTES", where the key is the digest of
 * the text, the options and the compiler's release, and the bytes are those that it spills.  Lines that begin with # are comments.
 * Equal keys mean equal compilations, so that a text that nobody has changed need not be compiled in each run. */
#ifndef VERDICTS_H
#define VERDICTS_H
#include <stdbool.h>
#include <stddef.h>

typedef struct verdict {
    char key[33];
    int  spills;
} verdict;

typedef struct verdicts {
    verdict *at; /* by key */
    size_t   count;
} verdicts;

/* False: a line is not one of such a file, or there is no memory.  Without a file there are none. */
bool           verdicts_read(const char *path, verdicts *v);
const verdict *verdicts_find(const verdicts *v, const char *key); /* NULL: there is none */
/* Sorts them, and writes each key once; `heading` comes first, as comments.  False: it could not be written. */
bool verdicts_write(const char *path, const char *heading, verdicts *v);
void verdicts_free(verdicts *v);
#endif
