/* decode.h - from the syntax tree to ops: what a family of instructions needs to decode its own.
 *
 * Each family has one function, listed in families.def by opcode.  It reads modifiers in order,
 * takes operands as registers, fills in the op, and refuses all it does not execute:
 *
 *   bool decode_popc(struct decoder *d, struct emu_op *op)
 *   {
 *       enum ptx_type type = decode_type(d);                   // .b32 or .b64, the next modifier
 *       if (!decode_end(d))                                    // nothing may be left
 *           return false;
 *       decode_result(d, 0, PTX_u32);
 *       decode_source(d, 1, type);
 *       op->exec = type == PTX_b64 ? exec_popc_64 : exec_popc_32;
 *       op->class_ = EMU_CLASS_integer;
 *       return true;                                           // errors of the calls above are kept in d
 *   }
 *
 * An error is kept in the decoder, the first one wins, and the module is refused with "line 40
 * (ptx/attention/mma_softmax.ptx:12): ex2.approx.f64: ..." ; so calls may be made in a row without checks. */
#ifndef EMU_DECODE_H
#define EMU_DECODE_H
#include "tools/emu/run/emu.h"
#include "tools/emu/memory/memory.h"

struct decoder {
    struct emu_module            *module;
    struct emu_function          *function;
    const struct ptx_instruction *in;
    struct emu_op                *op;
    unsigned int                  modifier; /* the next one to read */
    int                           sm;       /* of the device */
    bool                          failed;
    char                         *error;
    size_t                        error_cap;
    struct decode_state          *state; /* decode.c's own: rows, symbols, constants */
};
typedef bool emu_decode(struct decoder *d, struct emu_op *op);

/* Refuse the instruction: returns false. */
bool decode_refuse(struct decoder *d, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- modifiers ------------------------------------------------------------------------------------ */
/* The next modifier if it is `word`: it is taken. */
bool decode_take(struct decoder *d, const char *word);
/* The next modifier without taking it; "" at the end. */
const char *decode_peek(const struct decoder *d);
/* The next modifier's index in a NULL-terminated list of words, taken; -1: none of them, nothing taken. */
int decode_one_of(struct decoder *d, const char *const *words);
/* The next modifier must be a type. PTX_NO_TYPE and refused otherwise. */
enum ptx_type decode_type(struct decoder *d);
/* All modifiers must have been read. */
bool decode_end(struct decoder *d);
/* Needs this GPU at least (90) / PTX ISA version at least (80, as in .version 8.0). */
bool decode_need_sm(struct decoder *d, int sm);
bool decode_need_isa(struct decoder *d, int isa);
/* The text's .target must be of the architecture-specific kind (sm_90a, ...). */
bool decode_need_suffix(struct decoder *d, int sm);

/* ---- operands --------------------------------------------------------------------------------------
 * Operand numbers count from 0 in the text.  Registers are appended to op->result or op->source; each call
 * appends one register and returns it (EMU_NO_REG after an error). */
unsigned int decode_operand_count(const struct decoder *d);
/* NULL and refused: it is absent. */
const struct ptx_operand *decode_operand(struct decoder *d, unsigned int number);
bool                      decode_operands(struct decoder *d, unsigned int least, unsigned int most);

/* A destination register of this type's width (narrower than the register: only where PTX allows it:
 * `wider`). '_' is taken as a row that nobody reads. */
emu_reg decode_result(struct decoder *d, unsigned int number, enum ptx_type type);
/* A register, an immediate (converted to the type: integers sign-extended or cut, floats to f32/f64/f16
 * bits), a special register, or the address of a variable. */
emu_reg decode_source(struct decoder *d, unsigned int number, enum ptx_type type);
/* The same for an operand within a list. */
emu_reg decode_result_of(struct decoder *d, const struct ptx_operand *operand, enum ptx_type type);
emu_reg decode_source_of(struct decoder *d, const struct ptx_operand *operand, enum ptx_type type);
/* Registers that may be wider than the type (ld, st, cvt): *bits is the register's own width (8..128),
 * immediates get the type's. */
emu_reg decode_result_wide(struct decoder *d, const struct ptx_operand *operand, enum ptx_type type,
                           unsigned int *bits);
emu_reg decode_source_wide(struct decoder *d, const struct ptx_operand *operand, enum ptx_type type,
                           unsigned int *bits);
/* A predicate; *negated for !p (results: never). */
emu_reg decode_result_pred(struct decoder *d, const struct ptx_operand *operand);
emu_reg decode_source_pred(struct decoder *d, const struct ptx_operand *operand, bool *negated);
/* An integer constant known at decode time. */
bool decode_integer(struct decoder *d, unsigned int number, int64_t *value);
/* [address]: appends the base as a 64-bit source (a constant row where it is a variable or a number;
 * 32-bit registers are allowed for .shared, .local, .const, .param: *bits tells 32 or 64) and sets
 * op->offset. */
emu_reg decode_address(struct decoder *d, const struct ptx_operand *operand, enum emu_space space,
                       unsigned int *bits);
/* A row of the constant bank with this value in every lane (bits: 32 or 64). */
emu_reg decode_constant(struct decoder *d, uint64_t value, unsigned int bits);
/* Rows of the frame that have no name: bits 1 to 128. */
emu_reg decode_temporary(struct decoder *d, unsigned int bits);
/* CC.CF: a predicate row, one in a function. */
emu_reg decode_carry(struct decoder *d);
/* Whether [address] of .param names memory of the thread (of a device function, or of a call): EMU_LOCAL;
 * a kernel's parameters are in device memory. */
bool decode_param_is_local(struct decoder *d, const struct ptx_operand *address);
/* Append a register that was made otherwise. */
void decode_add_result(struct decoder *d, emu_reg reg);
void decode_add_source(struct decoder *d, emu_reg reg);
/* A list's or a single operand's items. */
const struct ptx_operand *decode_items(const struct ptx_operand *operand, unsigned int *count);

/* Zeroed memory that lives as long as the module. */
void *decode_alloc(struct decoder *d, size_t count, size_t size);

/* The state space that the next modifier says ("shared", "shared::cta", "shared::cluster", "global",
 * "local", "const", "param", "param::entry", "param::func"), taken; EMU_GENERIC when it says none.
 * *cluster (may be NULL): shared::cluster was written. */
enum emu_space decode_space(struct decoder *d, bool *cluster);

/* ---- the families: families.def ------------------------------------------------------------ */
#define FAMILY(opcode, function) emu_decode function;
#include "families.def"
#undef FAMILY

/* Lanes' addresses of an op that was decoded with decode_address: base + op->offset. */
void emu_addresses(struct emu_warp *w, const struct emu_op *op, unsigned int source, unsigned int bits,
                   uint64_t out[EMU_LANES]);
#endif
