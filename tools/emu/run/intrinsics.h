/* intrinsics.h - the arguments of calls, and the functions that the driver defines. */
#ifndef EMU_INTRINSICS_H
#define EMU_INTRINSICS_H
#include "tools/emu/decode/decode.h"

/* An argument or result: a register, or bytes of the caller's local memory (then reg is EMU_NO_REG). */
struct piece {
    emu_reg  reg;
    uint32_t offset, bytes;
};

struct intrinsic;
struct call {
    const struct emu_function *callee; /* NULL: by address, source[0], or an intrinsic */
    const struct intrinsic    *intrinsic;
    struct piece              *results, *arguments;
    uint32_t                   result_count, argument_count;
};

/* The driver's own function of this name: vprintf, __assertfail, malloc, free. NULL: there is none. */
const struct intrinsic *emu_intrinsic(const char *name);
/* Make op the call of call->intrinsic, whose arguments and results are known.  False: they do not match it. */
bool emu_intrinsic_decode(struct decoder *d, struct emu_op *op, const struct call *call);
#endif
