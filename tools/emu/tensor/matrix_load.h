/* matrix_load.h - what matrix_load.c and matrix_bytes.c share: the forms of ldmatrix and stmatrix. */
#ifndef EMU_MATRIX_LOAD_H
#define EMU_MATRIX_LOAD_H
#include "mma.h"

enum { MATRIX_ROW_BYTES = 16 };

/* A shape with its elements.  op->data of ldmatrix and stmatrix. */
struct matrix_form {
    const char  *shape, *type;          /* ldmatrix that unpacks: the type of the source */
    bool         unpacks;               /* .b8x16 comes before the type */
    unsigned int bits;                  /* of an element in a row of shared memory */
    unsigned int rows, registers, most; /* of a matrix; the largest number of matrices */
    bool         may_transpose, must_transpose;
};

/* The rows of all matrices: ref[l] is the one whose address lane l gives, for the first `rows` lanes.  False after a
 * fault. */
bool matrix_rows(struct emu_warp *w, const struct emu_op *op, unsigned int rows, unsigned int access,
                 struct emu_ref ref[EMU_LANES]);
/* Matrices of bytes (.m16n16, .m8n16 and .m16n8). */
emu_exec matrix_load_bytes, matrix_store_bytes;
#endif
