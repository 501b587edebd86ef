/* spilling_kernels.h - kernels of attention for the fake compiler (ptxjit.c), which spill with a hook where their tiles are large. */
#ifndef PTXPACK_TEST_SPILLING_KERNELS_H
#define PTXPACK_TEST_SPILLING_KERNELS_H
#include <stdio.h>

enum { SPILLING_KERNEL = 512 };
/* The text of attention/NAME.ptx: with a SCORE_MOD it spills 12 bytes in rows of which the expression `tile` is more than `most`. */
static inline void spilling_kernel(char text[SPILLING_KERNEL], const char *name, const char *tile, int most)
{
    snprintf(text, SPILLING_KERNEL,
             ".version \\[ISA/10].\\[ISA%%10]\n.target sm_\\[ARCH]\n"
             ".if HOOK_SCORE\n.include \"score_mod\"\n.endif\n"
             ".if HOOK_MASK\n.include \"mask_mod\"\n.endif\n"
             ".if HOOK_SCORE\n SCORE_MOD 1, 2, 3, 4, 5, 6, 7, 8\n.if %s > %d\nspills attention_%s 12\n"
             ".endif\n.endif\n",
             tile, most, name);
}
#endif
