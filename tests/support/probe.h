/* probe.h - experiments that prove the layouts of atoms: what is put into registers and memory, and what must
 * come out.  The caller passes a function that executes the instruction, on a GPU or on a model of one.
 *
 * Multiplications  One element of A is 1 and all others are 0; every element of B is a different number.  Where
 *                  D is not 0, it shows which element of B was multiplied by that of A.  This is the whole
 *                  trilinear form, so A, B and C are proved up to renamings of m, n and k that no product can
 *                  tell apart.  Then the same is done with A and B exchanged, with C alone, and with random
 *                  matrices against plain arithmetic.
 * Copies           Every byte is a different number.
 * wgmma            Only random matrices are used, through every canonical layout and its descriptors.
 * Registers        They are 32-bit words [word][lane]; f64 takes two, the low word first. */
#ifndef PTXPACK_PROBE_H
#define PTXPACK_PROBE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "host/atom/atom.h"
#include "host/atom/copy_atom.h"
#include "loader/loader.h"
#include "tools/problem/random.h"
#include "host/atom/wgmma.h"

enum { PROBE_LINE = 256, PROBE_LANES = 32, PROBE_WARP_GROUP = 128 };

/* ---- numbers as an instruction takes them ---------------------------------------------------------- */
/* The bits of an integer that `type` holds exactly; and the number that bits mean (NaN also for infinities). */
uint64_t probe_encode(ptxpack_value_type type, int64_t value);
double   probe_decode(ptxpack_value_type type, uint64_t bits);
/* How many bits of a code fit into one element, and into a sum of one product. */
int  probe_code_bits(ptxpack_value_type type);
bool probe_is_integer(ptxpack_value_type type);
/* A random number that `type` holds, so small that sums of 256 products are exact in any C. */
int64_t probe_random(random_state *random, ptxpack_value_type type);
/* A factor of type UE8M0 or UE4M3: 1, 2 or 4 at random; and its byte. */
double probe_random_factor(random_state *random, ptxpack_value_type type, uint32_t *byte);
/* Writes or reads element `value` of a lane in words[word][lane] of `lanes` lanes. */
void     probe_put(uint32_t *words, int lanes, int lane, ptxpack_value_type type, int value, uint64_t bits);
uint64_t probe_get(const uint32_t *words, int lanes, int lane, ptxpack_value_type type, int value);

/* ---- mma ------------------------------------------------------------------------------------------- */
enum { PROBE_A, PROBE_B, PROBE_C, PROBE_OPERANDS, PROBE_VALUES = 128 };
typedef enum probe_op { PROBE_PRODUCT, PROBE_AND, PROBE_XOR } probe_op;

typedef struct probe_operand {
    ptxpack_value_type type;
    int                rows, columns; /* M x K, N x K, M x N */
    int                values, words; /* of a thread; the last word of a scaled operand has factors */
    int                bits, shift;   /* of the place of an element, and where in it the element begins */
    uint16_t           at[PROBE_LANES][PROBE_VALUES]; /* [thread][value]: row + rows column, by the table */
} probe_operand;

typedef struct probe_mma {
    int           m, n, k;
    int           threads, groups;                /* groups of threads that each do the same */
    uint8_t       lane[PROBE_LANES][PROBE_LANES]; /* [group][thread] */
    uint8_t       group_of[PROBE_LANES], thread_of[PROBE_LANES];
    probe_operand operand[PROBE_OPERANDS];
    probe_op      op;
    bool          saturate;
    /* Block scaling: a row of A and of B has so many factors (0: none), in the bytes of the last word. */
    int                factors;
    ptxpack_value_type scale;
    uint16_t           scaled[2][PROBE_LANES]; /* of A, B: the row whose factors a thread holds */
} probe_mma;

/* Every plane runs with every experiment.  A patch replaces a word of the operands; A's words are counted
 * first, then B's, then C's.  A `word` beyond all of them changes nothing. */
typedef struct probe_patch {
    uint32_t lane, word, value, unused;
} probe_patch;
typedef struct probe_batch {
    size_t       planes, experiments;
    int          words[PROBE_OPERANDS];
    uint32_t    *operand[PROBE_OPERANDS]; /* [plane][word][lane] */
    probe_patch *patch;                   /* [experiment] */
    uint32_t    *d;                       /* [plane][experiment][word][lane] */
} probe_batch;
/* Fills batch->d.  Returns false after a failure that ends the test. */
typedef bool (*probe_executor)(void *context, const probe_batch *batch);

typedef enum probe_verdict { PROBE_PROVEN, PROBE_DIFFERS, PROBE_BROKEN } probe_verdict;

/* Element `value` of a lane. */
void probe_operand_put(const probe_operand *o, uint32_t *words, int lanes, int lane, int value, uint64_t bits);
uint64_t probe_operand_get(const probe_operand *o, const uint32_t *words, int lanes, int lane, int value);
/* Reads an mma.sync, dp4a or dp2a atom; returns false with a line when it is another instruction. */
bool probe_mma_of(const ptxpack_mma_atom *atom, probe_mma *out, char *line);
/* `line` says where instruction and table differ; PROBE_BROKEN: the executor failed, or memory ran out. */
probe_verdict probe_mma_prove(const probe_mma *mma, probe_executor execute, void *context, uint64_t seed,
                              char *line);

/* ---- copies by one warp ---------------------------------------------------------------------------- */
enum { PROBE_COPY_WORDS = 4, PROBE_COPY_BYTES = 4 * PROBE_COPY_WORDS, PROBE_IMAGE = 4096 };

/* Where bytes come from and where they must go, by the table: the bytes of a lane are in its registers or lie
 * one after the other where its address points. */
typedef struct probe_copy {
    bool from_registers, to_registers, fills; /* `fills`: it can write zeros instead */
    int  packed_bits; /* of an element of the source that becomes a byte; 8: it is one */
    int  bytes;       /* at most so many of a lane are written */
    /* [lane][byte that it gets]: 1 + 16 lane + byte of the source; 0: none */
    uint16_t source[PROBE_LANES][PROBE_COPY_BYTES];
} probe_copy;

typedef struct probe_copy_batch {
    size_t    experiments;
    uint8_t  *image, *source; /* [experiment][PROBE_IMAGE]: shared memory before; global memory to read */
    uint32_t *where;          /* [experiment][lane][shared, global]: offsets in these */
    uint32_t *words;          /* [experiment][PROBE_COPY_WORDS][lane]: registers before */
    uint8_t  *after;          /* [experiment]: shared memory, then registers, after */
} probe_copy_batch;
enum { PROBE_AFTER = PROBE_IMAGE + 4 * PROBE_COPY_WORDS * PROBE_LANES };
typedef bool (*probe_copy_executor)(void *context, const probe_copy_batch *batch);

/* Whether the atom is ldmatrix, stmatrix, movmatrix, cp.async or a shuffle. */
bool probe_copy_known(const ptxpack_copy_atom *atom);
/* Reads such an atom; returns false with a line if its layouts are not those of bytes of a warp. */
bool          probe_copy_of(const ptxpack_copy_atom *atom, probe_copy *out, char *line);
probe_verdict probe_copy_prove(const probe_copy *copy, probe_copy_executor execute, void *context,
                               uint64_t seed, char *line);

/* ---- wgmma ----------------------------------------------------------------------------------------- */
enum { PROBE_STEPS = 8, PROBE_A_REGISTERS = 4 };

/* Bytes of shared memory that each operand's tile takes up. */
size_t probe_wgmma_bytes(const ptxpack_mma_atom *atom, int operand);

typedef struct probe_wgmma_batch {
    size_t    trials, a_bytes, b_bytes; /* shared memory: A at 0 (none where it is in registers), then B */
    int       c_words;
    uint8_t  *a, *b;       /* [trial][bytes] */
    uint32_t *a_words;     /* [trial][step][PROBE_A_REGISTERS][thread] */
    uint32_t *c, *d;       /* [trial][word][thread] */
    uint64_t *descriptors; /* [trial][step][A, B] */
} probe_wgmma_batch;
typedef bool (*probe_wgmma_executor)(void *context, const probe_wgmma_batch *batch);

/* Multiplies random matrices, PROBE_STEPS instructions long, through every pair of swizzles that the two
 * directions allow; the tiles are two instructions high and, up to N = 128, wide, and either part is used. */
probe_verdict probe_wgmma_prove(const ptxpack_mma_atom *atom, ptxpack_wgmma_major a_major,
                                ptxpack_wgmma_major b_major, probe_wgmma_executor execute, void *context,
                                uint64_t seed, char *line);

/* ---- the kernels' side ----------------------------------------------------------------------------- */
/* Arguments of ptx/probe, device addresses: member, symbol of its byte offset. */
#define PROBE_MMA_ARGUMENTS(X) X(a, "ARG_A") X(b, "ARG_B") X(c, "ARG_C") X(patch, "ARG_PATCH") X(d, "ARG_D")
#define PROBE_COPY_ARGUMENTS(X) \
    X(image, "ARG_IMAGE")       \
    X(source, "ARG_SOURCE") X(where, "ARG_WHERE") X(words, "ARG_WORDS") X(after, "ARG_AFTER")
#define PROBE_WGMMA_ARGUMENTS(X) \
    X(a, "ARG_A")                \
    X(b, "ARG_B") X(a_words, "ARG_A_WORDS") X(c, "ARG_C") X(descriptors, "ARG_DESCRIPTORS") X(d, "ARG_D")

#define PROBE_MEMBER(name, symbol) uint64_t name;
typedef struct probe_mma_arguments {
    PROBE_MMA_ARGUMENTS(PROBE_MEMBER)
} probe_mma_arguments;
typedef struct probe_copy_arguments {
    PROBE_COPY_ARGUMENTS(PROBE_MEMBER)
} probe_copy_arguments;
typedef struct probe_wgmma_arguments {
    PROBE_WGMMA_ARGUMENTS(PROBE_MEMBER)
} probe_wgmma_arguments;
#undef PROBE_MEMBER

/* A kernel to load: a row made for it (in static storage), and the symbols. */
enum { PROBE_SYMBOLS = 64 };
typedef struct probe_kernel {
    const ptxpack_variant *variant;
    ptxpack_symbol         symbols[PROBE_SYMBOLS];
    size_t                 symbol_count;
} probe_kernel;
/* Kernels of atoms that probe_mma_of reads, of those that probe_copy_known knows, and of those of wgmma.  Those of
 * atoms that need a suffix are for `arch`, if that is later than the atom's. */
void probe_mma_kernel(const ptxpack_mma_atom *atom, int arch, probe_kernel *out);
void probe_copy_kernel(const ptxpack_copy_atom *atom, int arch, probe_kernel *out);
void probe_wgmma_kernel(const ptxpack_mma_atom *atom, ptxpack_wgmma_major a_major, ptxpack_wgmma_major b_major,
                        probe_kernel *out);
#endif
