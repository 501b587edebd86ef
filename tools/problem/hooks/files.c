/* files.c - hooks in files, and the arrays that they read. */
#include "files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "loader/inspect.h"
#include "tools/command.h"

/* Prints one line on stderr; the result is false. */
#define REFUSE(...) (command_fail(subcommand, __VA_ARGS__), false)

static bool read_text(const char *subcommand, const char *name, const char *path, char **text)
{
    enum { MOST = 1 << 20 };
    size_t bytes = 0;
    if (path == NULL)
        return true;
    *text = ptxpack_read_file(path, MOST, &bytes);
    if (*text == NULL)
        return REFUSE("--%s: %s: %s", name, path, ptxpack_file_error(errno));
    return strlen(*text) == bytes || REFUSE("--%s: %s is not a text", name, path);
}

static bool read_arrays(const char *subcommand, const char *list, attention_hook_files *files)
{
    char line[NPY_LINE];
    while (list != NULL) {
        const char *end = strchr(list, ',');
        char        path[4096];
        size_t      size = end != NULL ? (size_t)(end - list) : strlen(list);
        if (files->count == HOOK_ARRAYS)
            return REFUSE("--aux: there are more than %d files", (int)HOOK_ARRAYS);
        if (size >= sizeof path)
            return REFUSE("--aux: a path of %zu bytes is too long", size);
        memcpy(path, list, size);
        path[size] = '\0';
        if (!npy_read(path, &files->aux[files->count], line))
            return REFUSE("--aux: %s", line);
        files->count++;
        list = end != NULL ? end + 1 : NULL;
    }
    return true;
}

bool attention_hooks_read(const char *subcommand, const attention_hook_words *words,
                          attention_hook_files *files, ptxpack_attention_desc *desc)
{
    if (!read_text(subcommand, "score-mod", words->mod[HOOK_SCORE], &files->text[HOOK_SCORE]) ||
        !read_text(subcommand, "mask-mod", words->mod[HOOK_MASK], &files->text[HOOK_MASK]))
        return false;
    desc->score_mod = files->text[HOOK_SCORE];
    desc->mask_mod = files->text[HOOK_MASK];
    if (words->aux != NULL && desc->score_mod == NULL && desc->mask_mod == NULL)
        return REFUSE("--aux needs --score-mod or --mask-mod");
    return read_arrays(subcommand, words->aux, files);
}

void attention_hooks_free(attention_hook_files *files)
{
    for (int i = 0; i < HOOK_COUNT; i++)
        free(files->text[i]);
    for (int i = 0; i < files->count; i++)
        npy_free(&files->aux[i]);
}
