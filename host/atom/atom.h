/* atom.h - the matrix multiply instructions that CuTe knows: their shapes, their types, and which thread holds
 * which element.
 *
 * An atom is one instruction D = A B + C of M x N x K, which the threads of `thr_id` compute together.  Its
 * layouts map (thread, value) to an element, counted first mode fastest: of A as M x K, of B as N x K, of C and
 * D as M x N.  A thread is a logical one, 0 .. size(thr_id) - 1, and thr_id maps it to the lane.  An operand of
 * a warpgroup in shared memory belongs to all its threads, so the mode of the threads has stride 0.  The
 * threads of tcgen05 are CTAs.
 *
 *   ptxpack_mma_atom atom;
 *   if (ptxpack_mma_atom_find("SM80_16x8x16_F32F16F16F32_TN", &atom) == PTXPACK_OK)
 *       atom.a_layout is ((4,8),(2,2,2)):((32,1),(16,8,128)), atom.registers_a is 4
 *
 * Names   The names are CuTe's.  If CuTe's name is in a namespace or is a template, `name` is flat and `cute`
 *         is CuTe's: SM90_64x128x16_F32F16F16_SS and SM90::GMMA::MMA_64x128x16_F32F16F16_SS.  Both names can be
 *         looked up, and also the older names of wgmma with both operands in shared memory, such as
 *         SM90_64x128x16_F32F16F16F32_TN.
 * Memory  An atom is a plain value of some kilobytes, which is made from a small table.  Nothing is allocated.
 * Threads There is no shared state. */
#ifndef PTXPACK_ATOM_H
#define PTXPACK_ATOM_H
#include <stdbool.h>
#include <stddef.h>
#include "host/layout/layout.h"
#ifdef __cplusplus
extern "C" {
#endif

/* One row per element type: name as in CuTe's atoms, bits, type in CuTe's sources, type in PTX (of a complex
 * number: of its parts). */
#define PTXPACK_VALUE_TYPE_MAP(X)         \
    X(F64, 64, "double", "f64")           \
    X(F32, 32, "float", "f32")            \
    X(TF32, 32, "tfloat32_t", "tf32")     \
    X(F16, 16, "half_t", "f16")           \
    X(BF16, 16, "bfloat16_t", "bf16")     \
    X(E4M3, 8, "float_e4m3_t", "e4m3")    \
    X(E5M2, 8, "float_e5m2_t", "e5m2")    \
    X(E3M2, 6, "float_e3m2_t", "e3m2")    \
    X(E2M3, 6, "float_e2m3_t", "e2m3")    \
    X(E2M1, 4, "float_e2m1_t", "e2m1")    \
    X(UE8M0, 8, "float_ue8m0_t", "ue8m0") \
    X(UE4M3, 8, "float_ue4m3_t", "ue4m3") \
    X(S32, 32, "int32_t", "s32")          \
    X(S16, 16, "int16_t", "s16")          \
    X(S8, 8, "int8_t", "s8")              \
    X(U8, 8, "uint8_t", "u8")             \
    X(S4, 4, "int4b_t", "s4")             \
    X(U4, 4, "uint4b_t", "u4")            \
    X(U1, 1, "uint1b_t", "b1")            \
    X(C64, 128, "complex<double>", "f64") \
    X(GC64, 192, "GaussComplex", "f64")   \
    X(CTF32, 64, "complex<tfloat32_t>", "tf32")

typedef enum ptxpack_value_type {
#define PTXPACK_VALUE_TYPE_ENUM(name, bits, cute, ptx) PTXPACK_VALUE_##name,
    PTXPACK_VALUE_TYPE_MAP(PTXPACK_VALUE_TYPE_ENUM)
#undef PTXPACK_VALUE_TYPE_ENUM
        PTXPACK_VALUE_TYPE_COUNT
} ptxpack_value_type;

/* "F16", 16, "half_t", "f16"; for a number that is not a type "?" and 0. */
PTXPACK_API const char *ptxpack_value_name(ptxpack_value_type type);
PTXPACK_API int         ptxpack_value_bits(ptxpack_value_type type);
PTXPACK_API const char *ptxpack_value_cute(ptxpack_value_type type);
PTXPACK_API const char *ptxpack_value_ptx(ptxpack_value_type type);

typedef struct ptxpack_mma_atom {
    char               name[80];
    char               cute[160];
    char               ptx[160];     /* the instruction up to its operands */
    int                instructions; /* how many there are: 1; 4 for complex numbers, 3 with Gauss's method */
    int                m, n, k;
    ptxpack_value_type d, a, b, c;
    /* The bits that a value of A or B takes: those of its type, or 8 if narrower values are padded. */
    int            a_bits, b_bits;
    ptxpack_layout thr_id;                       /* logical thread -> lane */
    ptxpack_layout a_layout, b_layout, c_layout; /* (thread, value) -> MK, NK, MN; D as C */
    int            arch, isa;                    /* lowest compute capability and PTX ISA version, times 10 */
    bool           arch_specific; /* it needs the suffix a; not all later architectures have it */
    /* Registers of one thread, of 32 bits, of 64 for F64 and complex numbers.  0: not in registers.
     * C is held as D. */
    int  registers_d, registers_a, registers_b;
    bool a_shared, b_shared; /* in shared memory, named by a descriptor */
    bool a_tensor, d_tensor; /* in tensor memory */
    /* Along which mode the operand lies in memory: 'K', or 'M' (A) and 'N' (B), or '*': either. */
    char a_major, b_major;
    bool sparse; /* A keeps half of every row and says which half */
    /* Block scaling: a factor for every `scale_vector` elements along K; 0 where there is none.  The factors'
     * layouts take (thread, value) to MK and NK; without items where they lie in tensor memory. */
    int                scale_vector;
    ptxpack_value_type scale;
    ptxpack_layout     sfa_layout, sfb_layout;
} ptxpack_mma_atom;

/* The number of atoms, and the atom with an index in the order of the table; false beyond the last one. */
PTXPACK_API size_t ptxpack_mma_atom_count(void);
PTXPACK_API bool   ptxpack_mma_atom_at(size_t index, ptxpack_mma_atom *out);
/* Find an atom by name.  Blanks inside of <> are ignored.
 *   PTXPACK_E_ARG   the name is unknown: the line in ptxpack_detail(NULL) lists similar names, and *out is an
 *                   atom whose layouts (thr_id.shape.status and so on) have that status */
PTXPACK_API ptxpack_status ptxpack_mma_atom_find(const char *name, ptxpack_mma_atom *out);
#ifdef __cplusplus
}
#endif
#endif
