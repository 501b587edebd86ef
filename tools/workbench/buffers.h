/* buffers.h - the arguments of a run on the device: memory, what it holds, what came out. */
#ifndef PTXPACK_PROGRAM_BUFFERS_H
#define PTXPACK_PROGRAM_BUFFERS_H
#include <stdbool.h>
#include "tools/device.h"
#include "args.h"
#include "run.h"

/* Zero it first.  What a run made for the host stays until the next run wants something else. */
typedef struct program_buffers {
    program_arg    args[PROGRAM_MAX_PARAMS];
    size_t         count;
    uint64_t       addresses[PROGRAM_MAX_PARAMS]; /* of each buffer on the device; 0: none */
    void          *pointers[PROGRAM_MAX_PARAMS];  /* for the launch: to each parameter's   */
    unsigned char *values;                        /* value                                 */
    struct {
        void            *data;
        program_arg_kind kind;
        element_type     type;
        size_t           count;
    } kept[PROGRAM_MAX_PARAMS]; /* generated inputs */
} program_buffers;

/* Each returns false after one line; the device's own failures are in gpu->line, too. */
bool program_buffers_parse(program_buffers *b, const program_settings *s, const program_symbols *symbols,
                           char line[PROGRAM_LINE]);
bool program_buffers_upload(program_buffers *b, const program_settings *s, device *gpu,
                            char line[PROGRAM_LINE]);
/* Fetch what is shown, describe it in `result`, and write the files. */
bool program_buffers_fetch(program_buffers *b, device *gpu, program_result *result, char line[PROGRAM_LINE]);
/* The arguments and the device's memory; not what is kept. */
void program_buffers_release(program_buffers *b, device *gpu);
void program_buffers_free(program_buffers *b);
#endif
