/* mma.h - what mma, wmma and wgmma share: reading their modifiers, and their requirements on a warp. */
#ifndef EMU_MMA_H
#define EMU_MMA_H
#include "tools/emu/decode/decode.h"
#include "tools/emu/memory/memory.h"
#include "tensor.h"

struct mma_shape {
    int m, n, k;
};
/* Take the next modifier, which must be a shape such as m16n8k16.  Otherwise refused. */
bool mma_take_shape(struct decoder *d, struct mma_shape *out);
/* Take the next modifier, which must be a type of matrix elements.  Otherwise refused: TENSOR_TYPES. */
enum tensor_type mma_take_type(struct decoder *d);
enum tensor_type mma_peek_type(const struct decoder *d); /* TENSOR_TYPES: there is none */
/* "row" or "col". */
bool mma_take_major(struct decoder *d, bool *row);
/* Does a set of types ("s8|u8") contain this one? */
bool mma_set_has(const char *set, enum tensor_type type);
/* The registers of operand `number`, exactly `count` of `type`, appended to the op. */
bool mma_sources(struct decoder *d, unsigned int number, int count, enum ptx_type type);
/* The same of A, B and the matrices of stmatrix: constants only beside a register, as ptxas has it. */
bool mma_matrix(struct decoder *d, unsigned int number, int count, enum ptx_type type);
bool mma_results(struct decoder *d, unsigned int number, int count, enum ptx_type type);
/* The matrices of a product; the op's sources from `first` on are the registers of A, B and C, its results those
 * of D. */
struct mma_fragments {
    struct tensor_fragment a, b, c;
    int                    a_count, b_count, first;
    uint32_t               a_mask, b_mask; /* the bits of an element that count; 0: all */
};
/* Some sources are undefined: set which elements of D are.  `rows` of A and `columns` of B count as undefined, a bit
 * for each. */
void mma_undefined(struct emu_warp *w, const struct emu_op *op, const struct mma_fragments *f, uint32_t rows,
                   uint32_t columns);
/* mma with .kind or .block_scale. */
bool mma_decode_kind(struct decoder *d, struct emu_op *op);
/* The type of a register that holds elements of C or D. */
enum ptx_type mma_register_type(enum tensor_type type);
/* A fault unless all 32 lanes are here. */
bool mma_whole_warp(struct emu_warp *w, const struct emu_op *op, uint32_t mask);
/* Multiply-adds, for the counters. */
static inline void mma_count(struct emu_warp *w, const struct emu_op *op, uint64_t m, uint64_t n, uint64_t k)
{
    if (w->counts != NULL)
        w->counts[op->number].tensor_ops += m * n * k;
}
#endif
