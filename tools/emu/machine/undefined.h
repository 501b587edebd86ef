/* undefined.h - which bits of registers hold no value.
 *
 * w->defined has, for each register, the lanes in which all of its bits are defined.  For the other lanes a
 * mirror of the rows has a one for each undefined bit.  There is no mirror until some register is undefined in
 * part: until then all bits of these lanes are.  So a warp whose values are defined pays nothing.
 *
 * An origin tells where the undefined bits of a register came from, for reports. */
#ifndef EMU_UNDEFINED_H
#define EMU_UNDEFINED_H
#include "emu.h"

struct emu_origin {
    const struct emu_function *function; /* NULL: the register itself was never written     */
    emu_reg                    reg;      /* of that function, if op is NULL: it was never written */
    const struct emu_op       *op;       /* the load of bytes that nothing has written      */
    unsigned int               space;    /* enum emu_space                                  */
    uint64_t                   address;  /* that it read                                    */
    int                        lane;
};

struct emu_bits { /* of one lane: up to 128 */
    uint64_t low, high;
};

/* The width of a register of the running function: 1 (a predicate), 8, 16, 32, 64 or 128. */
static inline unsigned int emu_register_bits(const struct emu_warp *w, emu_reg reg)
{
    return w->now->function->row_bits[reg];
}
static inline uint64_t emu_ones(unsigned int bits) { return bits >= 64 ? UINT64_MAX : (1ull << bits) - 1; }

/* The lanes of mask in which some bit is undefined. */
static inline uint32_t emu_undefined_lanes(const struct emu_warp *w, emu_reg reg, uint32_t mask)
{
    return EMU_BANK(reg) == EMU_BANK_FRAME ? mask & ~w->defined[reg] : 0;
}

/* The undefined bits of a register in a lane. */
struct emu_bits emu_undefined_get(const struct emu_warp *w, emu_reg reg, int lane);
/* Set them; none: all are defined. */
void emu_undefined_put(struct emu_warp *w, emu_reg reg, int lane, struct emu_bits undefined);
/* All bits are undefined in these lanes. */
void emu_undefine(struct emu_warp *w, emu_reg reg, uint32_t lanes);

/* The same for a register of any frame, by its row of all, where w->defined_rows is up to date already. */
void emu_mirror_ones(struct emu_warp *w, uint32_t row, unsigned int bits, uint32_t lanes);

/* Where the undefined bits of `reg` came from. */
struct emu_origin emu_origin_of(const struct emu_warp *w, emu_reg reg);
void              emu_origin_set(struct emu_warp *w, emu_reg reg, const struct emu_origin *origin);

/* Report that the op uses a register that is undefined in these lanes, which count as defined from now on; `verb`
 * is what it does: "reads".  The room run defines it. */
void emu_undefined_use(struct emu_warp *w, const struct emu_op *op, emu_reg reg, uint32_t lanes,
                       const char *verb);

/* Forget everything: a new block. */
void emu_undefined_free(struct emu_warp *w);
#endif
