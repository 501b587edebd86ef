/* load_store.h - what the instructions that access memory share: spaces, order, cache operators. */
#ifndef EMU_LOAD_STORE_H
#define EMU_LOAD_STORE_H
#include "tools/emu/decode/decode.h"

enum access_order {
    ORDER_NONE,
    ORDER_WEAK,
    ORDER_VOLATILE,
    ORDER_RELAXED,
    ORDER_ACQUIRE,
    ORDER_RELEASE,
    ORDER_ACQ_REL
};
enum { FENCE_BEFORE = 1, FENCE_AFTER = 2 };

/* The modifiers of an access.  Cache operators, priorities and prefetch sizes are ignored. */
struct access_words {
    enum access_order order;
    enum emu_space    space;
    enum ptx_type     type;
    unsigned int      count;     /* elements of a vector, 1            */
    int               operation; /* index into `operations`, -1: none  */
    bool              own_block; /* .cta: it synchronises with threads of its block only */
    bool              scoped, policy, read_only, noftz, mmio;
};
/* Read all remaining modifiers.  `operations`: the words of atomics, or NULL. */
bool decode_access_words(struct decoder *d, const char *const *operations, struct access_words *words);
/* Take .cta, .cluster, .gpu or .sys.  False: there is none. */
bool decode_scope(struct decoder *d);
/* The 64-bit policy of .L2::cache_hint, the last operand. */
void decode_policy(struct decoder *d, unsigned int number, bool policy);
/* Append the address of an operand as a source; u8[0] is the space that is accessed, u8[1] the address bits. */
bool decode_place_of(struct decoder *d, struct emu_op *op, unsigned int number, enum emu_space space);
/* What the host's processor and the judge must do at a fence. */
void memory_fence(struct emu_warp *w, uint32_t mask, bool own_block);
#endif
