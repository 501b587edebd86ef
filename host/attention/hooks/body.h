/* body.h - private: the PTX of a kernel that calls a hook becomes the macro of the hook. */
#ifndef PTXPACK_ATTENTION_HOOK_BODY_H
#define PTXPACK_ATTENTION_HOOK_BODY_H
#include "hooks.h"

/* The kernel: what the function of the hook is given, BODY_ADDRESSES, and where its result goes.  It calls the function,
 * which the compiler has inlined, with BODY_AUX. */
#define BODY_KERNEL "ptxpack_hook"
#define BODY_ADDRESSES                                                                                 \
    "const void *a0, const void *a1, const void *a2, const void *a3, const void *a4, const void *a5, " \
    "const void *a6, const void *a7"
#define BODY_AUX "{a0, a1, a2, a3, a4, a5, a6, a7}"

/* *macros = the macro of the hook, which the caller frees; NULL on failure.
 *   PTXPACK_E_ARG     the kernel does more than a hook may; `line` names the line of the caller's text
 *   PTXPACK_E_MEMORY */
ptxpack_status attention_hook_body(const char *ptx, int hook, char **macros, char line[PLAN_LINE]);
#endif
