/* verdicts.c - the file of verdicts. */
#include "verdicts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_key(const void *a, const void *b)
{
    return strcmp(((const verdict *)a)->key, ((const verdict *)b)->key);
}

static bool add(verdicts *v, const verdict *one)
{
    if ((v->count & (v->count - 1)) == 0) { /* a power of two, or none: there is no room */
        verdict *larger = (verdict *)realloc(v->at, (v->count ? 2 * v->count : 1) * sizeof *larger);
        if (larger == NULL)
            return false;
        v->at = larger;
    }
    v->at[v->count++] = *one;
    return true;
}

bool verdicts_read(const char *path, verdicts *v)
{
    char  line[256];
    bool  good = true;
    FILE *file = fopen(path, "r");
    *v = (verdicts){NULL, 0};
    if (file == NULL)
        return errno == ENOENT;
    while (good && fgets(line, sizeof line, file) != NULL) {
        verdict one;
        int     end = 0;
        if (line[0] == '#')
            continue;
        good = sscanf(line, "%32[0-9a-f] %d %n", one.key, &one.spills, &end) == 2 && line[end] == '\0' &&
               strlen(one.key) == 32 && add(v, &one);
    }
    good &= !ferror(file);
    fclose(file);
    if (good && v->count > 0)
        qsort(v->at, v->count, sizeof *v->at, by_key);
    return good;
}

const verdict *verdicts_find(const verdicts *v, const char *key)
{
    verdict wanted;
    snprintf(wanted.key, sizeof wanted.key, "%s", key);
    return v->count ? (const verdict *)bsearch(&wanted, v->at, v->count, sizeof *v->at, by_key) : NULL;
}

bool verdicts_write(const char *path, const char *heading, verdicts *v)
{
    FILE *file = fopen(path, "w");
    bool  good = file != NULL && fputs(heading, file) >= 0;
    if (v->count > 0)
        qsort(v->at, v->count, sizeof *v->at, by_key);
    for (size_t i = 0; good && i < v->count; i++)
        if (i == 0 || strcmp(v->at[i].key, v->at[i - 1].key) != 0)
            good = fprintf(file, "%s %d\n", v->at[i].key, v->at[i].spills) > 0;
    if (file != NULL)
        good &= fclose(file) == 0;
    return good;
}

void verdicts_free(verdicts *v)
{
    free(v->at);
    *v = (verdicts){NULL, 0};
}
