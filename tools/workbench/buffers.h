/* buffers.h - the arguments of a run on the device: memory, inputs, outputs. */
#ifndef PTXPACK_PROGRAM_BUFFERS_H
#define PTXPACK_PROGRAM_BUFFERS_H
#include <stdbool.h>
#include "tools/device.h"
#include "args.h"
#include "run.h"

/* Zero it first.  Generated inputs are kept until the next run needs other ones. */
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

/* Each returns false after writing one line; gpu->line holds failures of the device, too. */
bool program_buffers_parse(program_buffers *b, const program_settings *s, const program_symbols *symbols,
                           char line[PROGRAM_LINE]);
bool program_buffers_upload(program_buffers *b, const program_settings *s, device *gpu,
                            char line[PROGRAM_LINE]);
/* Copy the outputs to the host, describe them in `result`, and write their files. */
bool program_buffers_fetch(program_buffers *b, device *gpu, program_result *result, char line[PROGRAM_LINE]);
/* Free the arguments and the device's memory, not the kept inputs. */
void program_buffers_release(program_buffers *b, device *gpu);
void program_buffers_free(program_buffers *b);
#endif
