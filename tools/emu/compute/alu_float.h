/* alu_float.h - floating-point decoders of the opcodes that also exist for integers.
 *
 *   if (decode_is_float(d))
 *       return decode_float_add(d, op);    // no modifier has been taken yet */
#ifndef EMU_ALU_FLOAT_H
#define EMU_ALU_FLOAT_H
#include "tools/emu/decode/decode.h"

/* The last modifier is f16 f16x2 bf16 bf16x2 f32 f32x2 f64. */
bool decode_is_float(const struct decoder *d);

emu_decode decode_float_add, decode_float_sub, decode_float_mul, decode_float_mad, decode_float_div,
    decode_float_abs, decode_float_neg, decode_float_min, decode_float_max;
#endif
