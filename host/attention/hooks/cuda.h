/* cuda.h - private: hooks in CUDA C++, which become the macros that kernels are assembled with. */
#ifndef PTXPACK_ATTENTION_CUDA_HOOKS_H
#define PTXPACK_ATTENTION_CUDA_HOOKS_H
#include <stdbool.h>
#include "host/attention/attention.h"

/* Whether a text is CUDA C++: the word __device__ stands in it, outside of comments. */
bool attention_hook_is_cuda(const char *text);
/* *macros = SCORE_MOD or MASK_MOD of a text in CUDA C++, which the caller frees; NULL on failure, with the handle's line.
 *   PTXPACK_E_UNSUPPORTED  there is no NVRTC
 *   PTXPACK_E_COMPILE      NVRTC refuses the text
 *   PTXPACK_E_ARG          it does more than a hook may
 *   PTXPACK_E_MEMORY */
ptxpack_status attention_hook_from_cuda(const ptxpack *handle, const char *text, int hook, char **macros);
#endif
