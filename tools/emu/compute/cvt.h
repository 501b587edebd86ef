/* cvt.h - what the decoder of cvt tells its exec functions.
 *
 * op->u8: rounding, flags, type of the source, type of the result (enum ptx_type), bits of the source's
 * register, bits of the result's register. */
#ifndef EMU_CVT_H
#define EMU_CVT_H
#include "float_lanes.h"

enum { CVT_ROUNDING, CVT_FLAGS, CVT_FROM, CVT_TO, CVT_FROM_BITS, CVT_TO_BITS };
enum { /* flags; EMU_FTZ, EMU_SAT, EMU_RELU too */
       CVT_SATFINITE = 8,
       CVT_INTEGRAL = 16 /* .rni .rzi .rmi .rpi */
};

bool cvt_is_signed(enum ptx_type type);
bool cvt_is_integer(enum ptx_type type);

/* cvt_int.c */
emu_exec  *cvt_integers(const struct emu_op *op);
emu_decode cvt_decode_pack;
/* cvt_float.c: integers and floats to integers and floats */
emu_exec  cvt_exec_to_integer, cvt_exec_to_float;
emu_exec *cvt_fast_float(const struct emu_op *op); /* NULL: none */
/* cvt_narrow.c: tf32, types that come in pairs, .relu and .satfinite.  The types are the next modifiers. */
bool cvt_decode_narrow(struct decoder *d, struct emu_op *op, enum emu_rounding rounding, unsigned int flags);
#endif
