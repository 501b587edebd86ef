/* internal.h - private: families of atoms, the rows of atoms.def, and their members. */
#ifndef PTXPACK_ATOM_INTERNAL_H
#define PTXPACK_ATOM_INTERNAL_H
#include "atom.h"

/* Flags of a family. */
enum {
    SATURABLE = 1, /* each atom also with _SATURATE, in PTX .satfinite */
    A_SHARED = 2,  /* operands in shared memory, in tensor memory */
    B_SHARED = 4,
    A_TENSOR = 8,
    D_TENSOR = 16,
    SPECIFIC = 32, /* asks for the architecture's suffix a */
    PADDED = 64,   /* a value of A and B takes 8 bits, whatever its type */
    SPARSE = 128
};

/* Sets of N, in place of a number; those that begin with CTA are of M and N. */
enum {
    EVERY_8 = -1,       /* 8, 16, .. 256 */
    INTEGER_WGMMA = -2, /* 8, 24, and 16, 32, .. 256 */
    CTA_1_BY_8 = -3,    /* with M = 64: 8, 16, .. 256; with M = 128: 16, 32, .. 256 */
    CTA_1_INTEGER = -4, /* with M = 64: 8, and 16, 32, .. 256; with M = 128: 16, 32, .. 256 */
    CTA_1_BLOCK = -5,   /* with M = 128: 8, 16, .. 256 */
    CTA_1_ULTRA = -6,   /* with M = 128: 16, 32, .. 256 */
    CTA_2_BY_16 = -7,   /* with M = 128 and 256: 16, 32, .. 256 */
    CTA_2_BY_32 = -8,   /* with M = 128 and 256: 32, 64, .. 256 */
    CTA_2_BLOCK = -9    /* with M = 256: 16, 32, .. 256 */
};

/* Sets of element types: F16 | BF16. */
#define PTXPACK_VALUE_TYPE_BIT(name, bits, cute, ptx) name = 1 << PTXPACK_VALUE_##name,
enum { PTXPACK_VALUE_TYPE_MAP(PTXPACK_VALUE_TYPE_BIT) };
#undef PTXPACK_VALUE_TYPE_BIT

struct family {
    const char        *name, *ptx;   /* patterns: see atoms.def */
    const char        *cute, *alias; /* other names; NULL: none */
    int                m, n, k;      /* m 0: as the set n says */
    unsigned           d, a, b;      /* sets of types */
    const char        *thr_id, *a_layout, *b_layout, *c_layout;
    int                arch, isa;
    unsigned           flags;
    char               a_major, b_major; /* 0: 'K' */
    int                times;            /* 0: 1 */
    int                scale_vector;     /* elements that share a factor; 0: no block scaling */
    ptxpack_value_type scale;
    const char        *sfa_layout, *sfb_layout; /* NULL: in tensor memory */
};

/* One atom of a family.  -1 in a matcher's hands: not known yet. */
struct member {
    int  m, n, d, a, b;
    bool saturate;
};

const struct family *atom_families(size_t *count);
size_t               atom_members(const struct family *f); /* how many */
struct member        atom_member(const struct family *f, size_t index);
bool                 atom_has_tile(const struct family *f, int m, int n);
/* A pattern with the member's values in place of its $..; and the ending of a saturating one. */
void atom_fill(const struct family *f, struct member x, const char *pattern, char *out, size_t cap);
void atom_name(const struct family *f, struct member x, const char *pattern, char *out, size_t cap);
void atom_make(const struct family *f, struct member x, ptxpack_mma_atom *out);
#endif
