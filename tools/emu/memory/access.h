/* access.h - what memory.c, range.c, load_store.c and atomic.c share. */
#ifndef EMU_MEMORY_ACCESS_H
#define EMU_MEMORY_ACCESS_H
#include "memory.h"

enum { FAULT_ADDRESS = 700, FAULT_MISALIGNED = 716 };

/* A memory that is addressed by offsets: device memory, the shared memory of one block, or the local memories
 * of a warp, one lane after the other. */
struct memory_part {
    enum emu_space  space;      /* EMU_GLOBAL, EMU_SHARED, EMU_LOCAL                                     */
    uint64_t        window;     /* the lane's address minus the offset within the space                   */
    uint64_t        lane_bytes; /* local: of one lane                                                    */
    unsigned char  *bytes, *defined; /* of offset 0: a host address (device: NULL), and the bits         */
    uint64_t        first_bit;       /* offset of the byte that bit 0 stands for: device memory begins there  */
    struct emu_cta *cta;
};

/* The part to which this address belongs; false: there is none.  Bounds are not checked. */
bool memory_part_of(struct emu_warp *w, enum emu_space space, uint64_t address, struct memory_part *out);
/* May a lane access [offset, offset + bytes) in this way?  `space` is the op's. */
bool memory_inside(const struct emu_warp *w, const struct memory_part *p, enum emu_space space, uint64_t offset,
                   uint64_t bytes, unsigned int access);
/* Is it within the aligned 16 bytes that hold the last byte of an allocation, or before them?  Compilers widen
 * loads in this way, and no GPU reports it. */
bool memory_in_granule(const struct emu_warp *w, const struct memory_part *p, enum emu_space space,
                       uint64_t offset, uint64_t bytes, unsigned int access);
/* Note that a load ends there. */
void memory_overread(struct emu_warp *w, const struct emu_op *op, int lane, enum emu_space space,
                     uint64_t address, uint64_t bytes);
/* Report that it may not. */
void memory_outside(struct emu_warp *w, const struct emu_op *op, int lane, enum emu_space space,
                    uint64_t address, uint64_t bytes, unsigned int access);
void memory_misaligned(struct emu_warp *w, const struct emu_op *op, int lane, enum emu_space space,
                       uint64_t address, uint64_t bytes, uint64_t align);
/* `hole`: the first undefined byte, counted from the address. */
void memory_undefined(struct emu_warp *w, const struct emu_op *op, int lane, enum emu_space space,
                      uint64_t address, uint64_t bytes, uint64_t hole);

/* Are undefined values judged? */
static inline bool memory_judges_undefined(const struct emu_warp *w)
{
    return (w->grid->settings->judge & EMU_JUDGE_UNINITIALISED) != 0;
}

struct memory_lanes {
    bool           regular; /* all 32 lanes: lane l's bytes are at first + l * step; 0: shared */
    unsigned char *first;
    uint64_t       step;
    unsigned char *at[EMU_LANES];  /* not regular: of the lanes of mask */
    struct emu_ref ref[EMU_LANES]; /* if something is judged            */
};
/* For each lane of mask, in any order; `p` points to its bytes. */
#define MEMORY_FOR_LANES(m, mask, l, p, ...)                                          \
    do {                                                                              \
        if ((m)->regular) {                                                           \
            for (int l = 0; l < EMU_LANES; l++) {                                     \
                unsigned char *const p = (m)->first + (uint64_t)l * (m)->step;        \
                __VA_ARGS__;                                                          \
            }                                                                         \
        } else {                                                                      \
            EMU_FOR_LANES(mask, l, unsigned char *const p = (m)->at[l]; __VA_ARGS__); \
        }                                                                             \
    } while (0)
/* emu_memory for callers that need only the bytes; mask is not 0. */
bool memory_lanes(struct emu_warp *w, const struct emu_op *op, uint32_t mask, enum emu_space space,
                  const uint64_t address[EMU_LANES], uint32_t bytes, uint32_t align, unsigned int access,
                  struct memory_lanes *out);

/* A strong access to device memory and its report to the judge must be one step for all host threads. Otherwise
 * a thread could acquire what was released after its read.  True: memory_strong_end must be called. */
bool memory_strong_begin(const struct emu_warp *w, enum emu_space space, unsigned int access);
void memory_strong_end(bool begun);

/* The bytes are undefined from now on (discard). */
void memory_undefine(const struct emu_ref *ref, uint64_t bytes);

/* The fewest wavefronts that this many lanes of this width can need. */
unsigned int memory_least_wavefronts(uint32_t mask, uint32_t bytes);
#endif
