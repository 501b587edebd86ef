/* float_round.h - arithmetic in every rounding mode, exact to the bit, on bits.
 *
 * NaN results are canonical.  `ftz`: a result that is subnormal when rounded to 24 bits with any exponent
 * becomes a zero of its sign; the caller flushes the operands. */
#ifndef EMU_FLOAT_ROUND_H
#define EMU_FLOAT_ROUND_H
#include "float_format.h"

uint32_t emu_round_f32(double value, enum emu_rounding rounding, bool ftz);
uint32_t emu_round_add_f32(uint32_t a, uint32_t b, enum emu_rounding rounding, bool ftz);
uint32_t emu_round_mul_f32(uint32_t a, uint32_t b, enum emu_rounding rounding, bool ftz);
uint32_t emu_round_fma_f32(uint32_t a, uint32_t b, uint32_t c, enum emu_rounding rounding, bool ftz);
uint32_t emu_round_div_f32(uint32_t a, uint32_t b, enum emu_rounding rounding, bool ftz);
uint32_t emu_round_sqrt_f32(uint32_t a, enum emu_rounding rounding, bool ftz);

uint64_t emu_round_add_f64(uint64_t a, uint64_t b, enum emu_rounding rounding);
uint64_t emu_round_mul_f64(uint64_t a, uint64_t b, enum emu_rounding rounding);
uint64_t emu_round_fma_f64(uint64_t a, uint64_t b, uint64_t c, enum emu_rounding rounding);
uint64_t emu_round_div_f64(uint64_t a, uint64_t b, enum emu_rounding rounding);
uint64_t emu_round_sqrt_f64(uint64_t a, enum emu_rounding rounding);
#endif
