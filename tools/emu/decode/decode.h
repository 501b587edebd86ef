/* decode.h - from the syntax tree to ops: what each family of instructions needs in order to decode.
 *
 * Each opcode has one decode function, listed in families.def.  It takes the modifiers, wherever they are, and the
 * operands as registers, fills in the op, and refuses everything that it does not execute:
 *
 *   bool decode_popc(struct decoder *d, struct emu_op *op)
 *   {
 *       enum ptx_type type = decode_type(d);                   // the first type: .b32 or .b64
 *       if (!decode_end(d))                                    // no modifier may be left
 *           return false;
 *       decode_result(d, 0, PTX_u32);
 *       decode_source(d, 1, type);
 *       op->exec = type == PTX_b64 ? exec_popc_64 : exec_popc_32;
 *       op->class_ = EMU_CLASS_integer;
 *       return true;                                           // d keeps errors of the calls above
 *   }
 *
 * The decoder keeps the first error of an instruction, "line 40 (ptx/attention/mma_softmax.ptx:12): ex2.approx.f64:
 * ...", so that calls may follow each other without checks.  It goes on with the next instruction, and the module is
 * refused at the end. */
#ifndef EMU_DECODE_H
#define EMU_DECODE_H
#include "tools/emu/machine/emu.h"
#include "tools/emu/machine/space.h"

struct decoder {
    struct emu_module            *module;
    struct emu_function          *function;
    const struct ptx_instruction *in;
    struct emu_op                *op;
    uint64_t                      taken; /* a bit for each modifier that has been read */
    int                           sm;    /* of the device */
    bool                          failed;
    bool                          out_of_memory; /* that is why */
    bool                          no_memory;     /* the same, and it is the first error */
    bool                          partial;       /* the tree has no part that has errors */
    struct ptx_errors            *errors;
    struct decode_state          *state; /* decode.c's own: rows, symbols, constants */
};
typedef bool emu_decode(struct decoder *d, struct emu_op *op);

/* Refuse the instruction.  Always returns false. */
bool decode_refuse(struct decoder *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The host's memory is out, which is not the instruction's fault.  Always returns false. */
bool decode_no_memory(struct decoder *d);

/* ---- modifiers ------------------------------------------------------------------------------------ */
/* The words of the instruction's name (names.def) must come first; all others may be in any order, as ptxas takes
 * them.  So each of these functions looks for the first one, in the order of the text, that has not been taken. */
bool decode_name(struct decoder *d);
/* What the words need by themselves (needs.def). */
bool decode_needs(struct decoder *d);
/* Take this word.  False: it is not there. */
bool decode_take(struct decoder *d, const char *word);
/* Look at the first one without taking it; "" if all have been taken. */
const char *decode_peek(const struct decoder *d);
/* Look at the first one that begins so; NULL: there is none. */
const char *decode_begins(const struct decoder *d, const char *prefix);
/* Look at each in turn: *at begins as 0.  NULL: there is no other. */
const char *decode_unread(const struct decoder *d, unsigned int *at);
/* Take the first one that is in a NULL-terminated list of words: its index in the list.  -1: none is. */
int decode_one_of(struct decoder *d, const char *const *words);
/* Take the first type.  Without one refuse the instruction and return PTX_NO_TYPE. */
enum ptx_type decode_type(struct decoder *d);
/* All modifiers must have been read. */
bool decode_end(struct decoder *d);
/* The instruction needs at least this .target (90) / this PTX ISA version (80 for .version 8.0). */
bool decode_need_sm(struct decoder *d, int sm);
bool decode_need_isa(struct decoder *d, int isa);
/* The text's .target must be of the architecture-specific kind (sm_90a, ...). */
bool decode_need_suffix(struct decoder *d, int sm);
/* The same of this architecture or any later one. */
bool decode_need_suffix_from(struct decoder *d, int sm);

/* ---- operands --------------------------------------------------------------------------------------
 * Operand numbers count from 0 in the text.  Registers are appended to op->result or op->source; each call
 * appends one register and returns it (EMU_NO_REG after an error). */
unsigned int decode_operand_count(const struct decoder *d);
/* NULL: the operand is missing, and the instruction is refused. */
const struct ptx_operand *decode_operand(struct decoder *d, unsigned int number);
bool                      decode_operands(struct decoder *d, unsigned int least, unsigned int most);

/* When all modifiers have been read: a result of the first type and sources of the others, which must be all of the
 * operands. */
bool decode_typed(struct decoder *d, unsigned int count, const enum ptx_type *types);
#define DECODE_TYPED(d, ...)                                                              \
    decode_typed(d, sizeof((const enum ptx_type[]){__VA_ARGS__}) / sizeof(enum ptx_type), \
                 (const enum ptx_type[]){__VA_ARGS__})
/* A destination register of exactly this type's width; decode_result_wide accepts wider registers.  '_'
 * becomes a row that nobody reads. */
emu_reg decode_result(struct decoder *d, unsigned int number, enum ptx_type type);
/* A register, an immediate (converted to the type: integers are sign-extended or truncated, floats become
 * f32, f64 or f16 bits), a special register, or the address of a variable. */
emu_reg decode_source(struct decoder *d, unsigned int number, enum ptx_type type);
/* The same for an operand within a list. */
emu_reg decode_result_of(struct decoder *d, const struct ptx_operand *operand, enum ptx_type type);
emu_reg decode_source_of(struct decoder *d, const struct ptx_operand *operand, enum ptx_type type);
/* Registers that may be wider than the type (ld, st, cvt): *bits is the register's own width (8..128); an
 * immediate gets the type's width. */
emu_reg decode_result_wide(struct decoder *d, const struct ptx_operand *operand, enum ptx_type type,
                           unsigned int *bits);
emu_reg decode_source_wide(struct decoder *d, const struct ptx_operand *operand, enum ptx_type type,
                           unsigned int *bits);
/* A predicate; *negated is true for !p, which a result can never be. */
emu_reg decode_result_pred(struct decoder *d, const struct ptx_operand *operand);
emu_reg decode_source_pred(struct decoder *d, const struct ptx_operand *operand, bool *negated);
/* An integer constant, known when the instruction is decoded. */
bool decode_integer(struct decoder *d, unsigned int number, int64_t *value);
/* [address]: append the base as a 64-bit source (a constant row if it is a variable or a number) and set
 * op->offset.  For .shared, .local, .const and .param the base may be a 32-bit register: *bits is 32 or 64. */
emu_reg decode_address(struct decoder *d, const struct ptx_operand *operand, enum emu_space space,
                       unsigned int *bits);
/* A row of the constant bank with this value in every lane (bits: 32 or 64). */
emu_reg decode_constant(struct decoder *d, uint64_t value, unsigned int bits);
/* Rows of the frame that have no name: bits 1 to 128. */
emu_reg decode_temporary(struct decoder *d, unsigned int bits);
/* CC.CF: a predicate row; a function has one. */
emu_reg decode_carry(struct decoder *d);
/* Does [address] in .param name local memory of the thread?  It does in device functions and for the
 * arguments of calls; a kernel's parameters are in device memory. */
bool decode_param_is_local(struct decoder *d, const struct ptx_operand *address);
/* Append a register that none of the functions above made. */
void decode_add_result(struct decoder *d, emu_reg reg);
void decode_add_source(struct decoder *d, emu_reg reg);
/* The items of a list, or the single operand itself. */
const struct ptx_operand *decode_items(const struct ptx_operand *operand, unsigned int *count);

/* All registers of a list must have the same width. */
bool decode_same_widths(struct decoder *d, const struct ptx_operand *list);

/* Zeroed memory that lives as long as the module. */
void *decode_alloc(struct decoder *d, size_t count, size_t size);

/* Take the first state space ("shared", "shared::cta", "shared::cluster", "global",
 * "local", "const", "param", "param::entry", "param::func"); otherwise EMU_GENERIC.  *cluster (may be NULL):
 * the text says shared::cluster. */
enum emu_space decode_space(struct decoder *d, bool *cluster);

/* ---- the families: families.def ------------------------------------------------------------ */
#define FAMILY(opcode, function) emu_decode function;
#include "families.def"
#undef FAMILY

/* The address of each lane, base + op->offset, of an op that was decoded with decode_address. */
void emu_addresses(struct emu_warp *w, const struct emu_op *op, unsigned int source, unsigned int bits,
                   uint64_t out[EMU_LANES]);
#endif
