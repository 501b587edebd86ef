/* files.h - the options --score-mod, --mask-mod and --aux: hooks in files, and the arrays that they read. */
#ifndef PTXPACK_HOOK_FILES_H
#define PTXPACK_HOOK_FILES_H
#include "host/attention/inspect.h"
#include "tools/problem/npy.h"

#define SCORE_MOD_OPTION_HELP \
    "FILE  changes scores: PTX with a macro SCORE_MOD, or CUDA C++ with a function score_mod"
#define MASK_MOD_OPTION_HELP "FILE  masks keys: PTX with a macro MASK_MOD, or CUDA C++ with a function mask_mod"
#define AUX_OPTION_HELP      "FILE[,FILE..]  .npy files of what AUX 0, AUX 1, .. of the hooks are the addresses of"

/* What the options ask for; NULL if they were not given. */
typedef struct attention_hook_words {
    const char *mod[HOOK_COUNT], *aux;
} attention_hook_words;

enum { HOOK_ARRAYS = 8 };
typedef struct attention_hook_files {
    char     *text[HOOK_COUNT]; /* NULL: none */
    npy_array aux[HOOK_ARRAYS];
    int       count; /* of aux */
} attention_hook_files;

/* Reads the files, and sets the texts of a descriptor.  False after a line on stderr.  Free them in any case. */
bool attention_hooks_read(const char *subcommand, const attention_hook_words *words,
                          attention_hook_files *files, ptxpack_attention_desc *desc);
void attention_hooks_free(attention_hook_files *files);
#endif
