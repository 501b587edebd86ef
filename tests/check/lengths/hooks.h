/* hooks.h - what cases of attention do to scores and masks: the same in PTX and in C. */
#ifndef PTXPACK_CHECK_HOOKS_H
#define PTXPACK_CHECK_HOOKS_H
#include "host/attention/attention.h"

typedef struct check_hook {
    const char             *name, *score_mod, *mask_mod;
    ptxpack_attention_hooks functions;
} check_hook;
enum { CHECK_HOOKS = 4 };
extern const check_hook check_hooks[CHECK_HOOKS];

/* What the hooks find in memory: at aux[0] the slope of each head, at aux[1] the document of each position, of which
 * CHECK_POSITIONS are before the first key. */
enum { CHECK_SLOPES = 64, CHECK_POSITIONS = 4096, CHECK_DOCUMENTS = 2 * CHECK_POSITIONS };
void check_fill_aux(float slopes[CHECK_SLOPES], int32_t documents[CHECK_DOCUMENTS]);
#endif
