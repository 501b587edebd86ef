/* run.h - hooks on the device: their arrays, and a kernel that applies them to rows of scores. */
#ifndef PTXPACK_HOOK_RUN_H
#define PTXPACK_HOOK_RUN_H
#include <pthread.h>
#include "files.h"
#include "tools/device.h"

/* Copies the arrays to the device; false with the device's line.  Free the addresses in any case. */
bool attention_hooks_upload(device *gpu, const attention_hook_files *files, uint64_t aux[HOOK_ARRAYS]);

/* The hooks on the device, applied to rows of scores by a kernel that does nothing else: what the reference calls. */
typedef struct attention_hook_runner {
    device                 *gpu;
    pthread_mutex_t         lock;
    ptxpack_program        *program;
    const ptxpack_function *function;
    uint64_t                aux[HOOK_ARRAYS], scores;
    float                  *row; /* `most` scores */
    int32_t                 most;
    bool                    failed; /* the device's line says what */
    ptxpack_attention_hooks functions;
} attention_hook_runner;
/* False with the device's line.  Close it in any case. */
bool attention_hooks_open(attention_hook_runner *runner, device *gpu, const attention_hook_files *files,
                          int32_t keys);
void attention_hooks_close(attention_hook_runner *runner);
#endif
