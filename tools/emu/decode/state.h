/* state.h - what decode.c, tables.c, operand.c and module.c share. */
#ifndef EMU_DECODE_STATE_H
#define EMU_DECODE_STATE_H
#include "decode.h"

/* The place that a symbol got. */
struct placed {
    const struct ptx_symbol *symbol;
    enum emu_space           space;   /* .const is global; .param is local in a .func, param in an entry */
    uint64_t                 address; /* in that space                       */
    bool                     dynamic; /* extern shared: behind the static variables */
};

struct constants { /* the rows of EMU_BANK_CONSTANT while they are collected */
    uint64_t *values;
    uint32_t *rows;
    uint8_t  *bits;
    uint32_t  count, cap, row_count;
    uint32_t *buckets, bucket_count; /* index + 1, open addressing */
};

enum { DECODE_REGISTERS = 2048, DECODE_EXTRA_OPS = 16 };

struct decode_state {
    /* of the module */
    struct placed   *placed; /* open addressing by symbol */
    uint32_t         placed_cap, placed_count;
    struct constants constants;
    /* of the function */
    uint32_t      *row_of; /* by register number */
    uint8_t       *bits_of;
    uint32_t       rows, carry;
    struct emu_op *ops;
    uint32_t       op_count, op_cap;
    uint32_t      *op_of; /* by instruction: the first of its ops */
    /* of the instruction */
    emu_reg       results[DECODE_REGISTERS], sources[DECODE_REGISTERS];
    struct emu_op extra[DECODE_EXTRA_OPS]; /* ops that run before it */
    uint32_t      extra_count;
};

/* The targets of brx: instructions, which become ops when the function is complete. */
struct branch_table {
    uint32_t  count;
    uint32_t *targets;
};

bool decode_place(struct decode_state *state, const struct ptx_symbol *symbol, enum emu_space space,
                  uint64_t address, bool dynamic);
const struct placed *decode_find_placed(const struct decode_state *state, const struct ptx_symbol *symbol);
/* The constant bank; the caller frees it. NULL: out of memory. */
unsigned char *decode_build_constants(const struct decode_state *state);
void           decode_free_state(struct decode_state *state);

/* Decode the body of d->function, whose locals and parameters are placed.  It has code only if there is no error
 * (d->errors); false: nothing else can be decoded. */
bool decode_function(struct decoder *d);

/* class.c: may the instruction take this register, or this literal, for the type? */
bool decode_fits(struct decoder *d, const struct ptx_operand *o, enum ptx_type type, bool wider);
bool decode_literal_fits(struct decoder *d, const struct ptx_operand *o, enum ptx_type type);

/* The same for '_', special registers, names of variables and functions, and registers in brackets. */
bool decode_may_discard(struct decoder *d, const struct ptx_operand *o);
bool decode_special_fits(struct decoder *d, const struct ptx_operand *o, unsigned int bits, enum ptx_type type);
bool decode_symbol_fits(struct decoder *d, const struct ptx_operand *o, enum ptx_type type);
bool decode_is_address(struct decoder *d, const struct ptx_operand *o);
bool decode_may_widen(struct decoder *d, unsigned int bits);

/* undefined.c: sets op->undefined and op->tried, unless the family has. */
void decode_undefined(struct emu_op *op);

/* registers.c: sets function->registers. */
void emu_estimate_registers(struct emu_function *function, const struct decode_state *state);

/* The address of a function in generic address space, for indirect calls. */
#define EMU_FUNCTION_WINDOW 0x0300000000000000ull
#endif
