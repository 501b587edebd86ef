/* copy_atom.h - the copy instructions that CuTe knows: who reads and who writes which bit.
 *
 * An atom is one instruction that the threads of `thr_id` run together.  Its layouts take (thread, bit) to
 * a bit: what a thread's source holds, what its destination holds, and the order in which a tiled copy
 * (tiled.h) distributes them, `ref`.  The numbers of the bits have only one meaning: same number, same bit.
 *
 *   ptxpack_copy_atom atom;
 *   if (ptxpack_copy_atom_find("SM75_U32x4_LDSM_N", &atom) == PTXPACK_OK)
 *       atom.src is (32,128):(128,1), atom.dst is (32,(32,4)):(32,(1,1024))
 *
 * Names   CuTe's; one that takes a type has it in its name, SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>.
 * Memory  an atom is a plain value of some kilobytes, made on request from a small table; no allocation.
 * Threads no shared state. */
#ifndef PTXPACK_COPY_ATOM_H
#define PTXPACK_COPY_ATOM_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "host/layout/layout.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Where an operand of a copy lies. */
typedef enum ptxpack_space {
    PTXPACK_SPACE_ANY, /* wherever its address says */
    PTXPACK_SPACE_REGISTERS,
    PTXPACK_SPACE_SHARED,
    PTXPACK_SPACE_GLOBAL
} ptxpack_space;
/* "any", "registers", "shared", "global"; "?" for any other number. */
PTXPACK_API const char *ptxpack_space_name(ptxpack_space space);

typedef struct ptxpack_copy_atom {
    char           name[80];
    char           ptx[160];      /* the instruction up to its operands; two separated by "; "             */
    ptxpack_layout thr_id;        /* logical thread -> lane                                                */
    ptxpack_layout src, dst, ref; /* (thread, bit) -> bit                                                  */
    ptxpack_space  src_space, dst_space;
    int            arch, isa; /* lowest compute capability and PTX ISA version, times 10               */
    int            registers_src, registers_dst; /* 32-bit registers of one thread; 0: not in registers    */
    bool           sized; /* the number of bits is the caller's: a bulk copy of as many as it is told.  The
                             table has the smallest, 128                                                   */
} ptxpack_copy_atom;

/* Every atom, by index in the table's order.  False past the last one. */
PTXPACK_API size_t ptxpack_copy_atom_count(void);
PTXPACK_API bool   ptxpack_copy_atom_at(size_t index, ptxpack_copy_atom *out);
/* By name.  E_ARG for an unknown one: the line in ptxpack_detail(NULL) names those that are near, and *out is
 * an atom whose layouts, thr_id.shape.status and so on, have that status. */
PTXPACK_API ptxpack_status ptxpack_copy_atom_find(const char *name, ptxpack_copy_atom *out);
/* Gives a sized atom its number of bits.  E_ARG: it is not sized, or bits is no positive multiple of 128. */
PTXPACK_API ptxpack_status ptxpack_copy_atom_resize(ptxpack_copy_atom *atom, int64_t bits);
#ifdef __cplusplus
}
#endif
#endif
