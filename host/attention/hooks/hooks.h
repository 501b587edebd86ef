/* hooks.h - private: the caller's texts score_mod and mask_mod, checked before a kernel is assembled with them. */
#ifndef PTXPACK_ATTENTION_HOOKS_H
#define PTXPACK_ATTENTION_HOOKS_H
#include <stddef.h>
#include "host/attention/attention.h"
#include "host/plan/plan.h"

/* The hooks of a descriptor, in the order of every table about them; the names of their texts, as fields and for .include. */
enum { HOOK_SCORE, HOOK_MASK, HOOK_COUNT };
extern const char *const  attention_hook_names[HOOK_COUNT];
static inline const char *attention_hook(const ptxpack_attention_desc *desc, int hook)
{
    return hook == HOOK_SCORE ? desc->score_mod : desc->mask_mod;
}

/* What a text has, as the symbols HOOK_SCORE and HOOK_MASK say it to ptx/attention/hooks/hooks.ptx. */
enum { HOOK_MOD = 1, HOOK_REGISTERS = 2, HOOK_ROW = 4, HOOK_BLOCK = 8, HOOK_UNIT = 16, HOOK_SHIFT = 32 };

/* Checks a text, NULL for none, and finds its macros.  A line names the hook and the line of the text.  PTXPACK_E_ARG */
ptxpack_status attention_check_hook(const char *text, int hook, int *parts, char line[PLAN_LINE]);
/* The same of a text that was made of another one, whose line `lines` says for each of its lines. */
ptxpack_status attention_check_hook_of(const char *text, int hook, const int *lines, int *parts,
                                       char line[PLAN_LINE]);
#endif
