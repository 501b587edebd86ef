/* copy_atom.h - the copy instructions that CuTe knows: which thread reads and which thread writes which bit.
 *
 * An atom is one instruction that the threads of `thr_id` execute together.  Its layouts map (thread, bit) to a
 * bit: `src` for the source of a thread, `dst` for its destination, and `ref` for the order in which a tiled
 * copy (tiled.h) distributes the bits.  Equal numbers in these layouts mean the same bit.
 *
 *   ptxpack_copy_atom atom;
 *   if (ptxpack_copy_atom_find("SM75_U32x4_LDSM_N", &atom) == PTXPACK_OK)
 *       atom.src is (32,128):(128,1), atom.dst is (32,(32,4)):(32,(1,1024))
 *
 * Names   The names are CuTe's, with the type where there is one: SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>.
 * Memory  An atom is a plain value of some kilobytes, which is made from a small table.  Nothing is allocated.
 * Threads There is no shared state. */
#ifndef PTXPACK_COPY_ATOM_H
#define PTXPACK_COPY_ATOM_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "host/layout/layout.h"
#include "host/layout/tensor.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Where an operand lies: "any", "registers", "shared", "global"; "?" for any other number. */
PTXPACK_API const char *ptxpack_space_name(ptxpack_space space);

typedef struct ptxpack_copy_atom {
    char           name[80];
    char           ptx[160];      /* the instruction up to its operands; two separated by "; " */
    ptxpack_layout thr_id;        /* logical thread -> lane */
    ptxpack_layout src, dst, ref; /* (thread, bit) -> bit */
    ptxpack_space  src_space, dst_space;
    int            arch, isa;                    /* lowest compute capability and PTX ISA version, times 10 */
    int            registers_src, registers_dst; /* 32-bit registers of one thread; 0: not in registers */
    /* The caller chooses the number of bits of this bulk copy.  The table has the smallest number, 128. */
    bool sized;
    bool arch_specific; /* it needs the suffix a or f of `arch`, or of a later architecture */
    /* The bits of an element in shared memory, where the instruction unpacks it to a byte: 4 or 6.  16 elements and
     * padding are a row of 16 bytes, in which the layouts count each element as the byte that it becomes.  0: none. */
    int packed_bits;
} ptxpack_copy_atom;

/* The number of atoms, and the atom with an index in the order of the table; false beyond the last one. */
PTXPACK_API size_t ptxpack_copy_atom_count(void);
PTXPACK_API bool   ptxpack_copy_atom_at(size_t index, ptxpack_copy_atom *out);
/* Find an atom by name.
 *   PTXPACK_E_ARG   the name is unknown: the line in ptxpack_detail(NULL) lists similar names, and *out is an
 *                   atom whose layouts (thr_id.shape.status and so on) have that status */
PTXPACK_API ptxpack_status ptxpack_copy_atom_find(const char *name, ptxpack_copy_atom *out);
/* Set the number of bits of a sized atom.
 *   PTXPACK_E_ARG   it is not sized, or `bits` is not a positive multiple of 128 */
PTXPACK_API ptxpack_status ptxpack_copy_atom_resize(ptxpack_copy_atom *atom, int64_t bits);
#ifdef __cplusplus
}
#endif
#endif
