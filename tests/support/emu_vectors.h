/* emu_vectors.h - makes matrices to multiply from a seed, for a GPU and for the model.
 *
 * A case is one instruction with types; its experiments go through kinds of numbers that arithmetic may treat
 * differently.  The file has, for each case in order, the first words of D of the first experiment of every
 * kind, and a hash of D of every experiment.
 *
 *   file     "ptxpack emulator vectors 1\n", then the cases
 *   case     its name, '\n'; uint32_t d[KINDS][words of D, 64 at most], hash[KINDS][EACH]; little endian */
#ifndef EMU_VECTORS_H
#define EMU_VECTORS_H
#include "tools/emu/tensor/tensor.h"

#define VECTORS_HEADER "ptxpack emulator vectors 1\n"

/* The kinds of numbers; integers have only wide and huge. */
#define VECTORS_KINDS(X) X(random) X(wide) X(cancelling) X(subnormal) X(special) X(huge) X(zeros) X(spread)
enum vectors_kind {
#define VECTORS_KIND(name) VECTORS_##name,
    VECTORS_KINDS(VECTORS_KIND)
#undef VECTORS_KIND
        VECTORS_KIND_COUNT
};
enum { VECTORS_EACH = 24, VECTORS_FULL = 64 /* words of D */, VECTORS_WORDS = 64 * 64 };

struct vectors_case {
    char                  name[96]; /* the instruction without "sync.aligned" */
    enum tensor_unit      unit;
    struct tensor_product p; /* .rule of sm_90 */
    int                   sm, isa;
};
/* Makes case number `index`; returns false after the last one. */
bool vectors_case_at(int index, struct vectors_case *out);

struct vectors_input { /* [row][column], one element a word; f64: two words */
    uint32_t a[VECTORS_WORDS], b[VECTORS_WORDS], c[VECTORS_WORDS];
};
void vectors_make(const struct vectors_case *c, int number, enum vectors_kind kind, int experiment,
                  struct vectors_input *out);
/* Computes D with the model, in place of c. */
void        vectors_multiply(const struct vectors_case *c, struct vectors_input *in);
size_t      vectors_d_words(const struct vectors_case *c);
uint32_t    vectors_hash(const uint32_t *words, size_t count);
const char *vectors_kind_name(enum vectors_kind kind);

/* The case as PTX: entry "k" takes two addresses, in and out; each block runs an experiment, which has
 * VECTORS_STRIDE bytes. */
enum { VECTORS_STRIDE = 16384 };
/* valid until the next call; for sm_90a */
const char                *vectors_kernel(const struct vectors_case *c);
static inline unsigned int vectors_threads(const struct vectors_case *c)
{
    return c->unit == TENSOR_WGMMA ? 128 : 32;
}
/* Writes the registers of all threads and shared memory before the run; reads D after it. */
void vectors_scatter(const struct vectors_case *c, const struct vectors_input *in, unsigned char *to);
void vectors_gather(const struct vectors_case *c, const unsigned char *from, uint32_t *d);
#endif
