/* emu_api.h - what libptxpack-emu.so exports beyond the Driver API: its reports, for programs that use them.
 *
 *   void (*start)(void) = dlsym(library, "ptxpack_emu_profile_start");
 *   ... launches ...
 *   read(print_row, NULL);                        // ptxpack_emu_profile_read */
#ifndef PTXPACK_EMU_API_H
#define PTXPACK_EMU_API_H
#include <stdint.h>

#define PTXPACK_EMU_API __attribute__((visibility("default")))

/* One instruction as the warps of one role (the same warp number of every block) executed it, in all
 * launches of its kernel since the start. */
struct ptxpack_emu_row {
    const char *kernel;
    const char *file; /* of .loc; NULL: the PTX itself, whose line it then is */
    uint32_t    line;
    uint32_t    ptx_line;
    uint32_t    role; /* warp of the block */
    const char *instruction;
    const char *kind;  /* "load_shared", "tensor", ... */
    uint64_t    warps; /* times a warp executed it */
    uint64_t    lanes; /* threads that did         */
    uint64_t    bytes;
    uint64_t    transactions; /* of shared memory: wavefronts */
    uint64_t    conflicts;    /* of these, more than the fewest possible */
    uint64_t    tensor_ops;   /* multiply-adds of the tensor cores */
};
typedef void ptxpack_emu_visit(void *context, const struct ptxpack_emu_row *row);

/* Count from now on; forgets what was counted.  Costs some speed. */
PTXPACK_EMU_API void ptxpack_emu_profile_start(void);
PTXPACK_EMU_API void ptxpack_emu_profile_stop(void);
/* Rows in order of kernels, then of the text, then of roles. */
PTXPACK_EMU_API void ptxpack_emu_profile_read(ptxpack_emu_visit *visit, void *context);
/* What the judge has found since the process began. */
PTXPACK_EMU_API unsigned int ptxpack_emu_findings(void);
/* Thread-instructions executed since the process began. */
PTXPACK_EMU_API uint64_t ptxpack_emu_executed(void);
#endif
