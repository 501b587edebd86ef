/* symbols.h - private: layouts as symbols of the PTX.
 *
 * A function NAME of the thread is a sum over NAME_MODES digits of the thread's number:
 * (thread >> NAME_SHIFTi & NAME_MASKi) * NAME_STRIDEi.  ptx/shared/layout.ptx computes it.
 * Offsets in shared memory are bytes of a tile before its swizzle. */
#ifndef PTXPACK_SYMBOLS_H
#define PTXPACK_SYMBOLS_H
#include "host/atom/wgmma.h"
#include "host/layout/layout.h"
#include "loader/registry.h"

/* Symbols that are being collected.  After a failure a line is in ptxpack_detail(NULL). */
typedef struct symbol_list {
    ptxpack_symbol *out;
    size_t          count, cap;
    bool            failed;
} symbol_list;

void symbol_add(symbol_list *list, const char *name, int64_t value);
/* Fails because `what` of the layout cannot be expressed as symbols. */
void symbol_refuse(symbol_list *list, const char *what, const ptxpack_layout *l, const char *why);

enum { THREAD_DIGITS = 4 };
typedef struct function_names {
    const char *modes, *digit[THREAD_DIGITS][3];
} function_names;
#define DIGIT_NAMES(name, i)                                 \
    {                                                        \
        name "_SHIFT" #i, name "_MASK" #i, name "_STRIDE" #i \
    }
#define FUNCTION(name)                                                                             \
    {                                                                                              \
        name "_MODES",                                                                             \
        {                                                                                          \
            DIGIT_NAMES(name, 0), DIGIT_NAMES(name, 1), DIGIT_NAMES(name, 2), DIGIT_NAMES(name, 3) \
        }                                                                                          \
    }

/* If l gives coordinates, a function or a step counts those along mode `axis`; if l gives offsets, `axis` is
 * SYMBOL_OFFSET. */
enum { SYMBOL_OFFSET = -1 };
/* Mode 0 of l, thread -> offset, times `scale`. */
void symbol_add_function(symbol_list *list, const function_names *names, const ptxpack_layout *l, int axis,
                         int64_t scale);
/* The only stride of mode `mode` of l; 0 if the mode has only one element. */
int64_t symbol_step(symbol_list *list, const ptxpack_layout *l, int mode, int axis);

/* What a swizzle does to byte offsets: it reads the bits `read`, mixes `chunks` chunks of 16 bytes, and repeats
 * after `period` bytes. */
typedef struct symbol_swizzle {
    int64_t read, chunks, period;
} symbol_swizzle;
/* The swizzle of a tile as the symbols `shift` and `mask`. */
symbol_swizzle symbol_add_swizzle(symbol_list *list, const ptxpack_layout *tile, int bits, const char *shift,
                                  const char *mask);
/* A step of 16-bit elements in bytes.  It must be whole periods of the swizzle, so that the kernel may add it
 * after the swizzle. */
void symbol_add_whole_step(symbol_list *list, const char *name, const ptxpack_layout *offsets, int mode,
                           symbol_swizzle swizzle);
/* The bits of all multiples of that step, none of which may meet a bit of what the thread adds. */
int64_t symbol_step_bits(symbol_list *list, const char *name, const ptxpack_layout *offsets, int mode);

/* The columns of offsets (thread, 16 columns) in boxes.  A box has `inside` of them, which the kernel reaches
 * by XOR of multiples of `step` bytes; the next box begins `box` bytes further on. */
typedef struct symbol_columns {
    int64_t step, inside;
} symbol_columns;
symbol_columns symbol_box_columns(symbol_list *list, const ptxpack_layout *offsets, int64_t box);
/* A function of the lane, for (thread, ...) -> 16-bit element if each warp has boxes of its own, `apart` bytes
 * after those of the warp before.  With `warps_too` the thread's number may count several warps, whose bits are
 * ignored. */
void symbol_add_lanes(symbol_list *list, const function_names *names, const ptxpack_layout *offsets,
                      int64_t apart, bool warps_too);

/* The two words of an operand's descriptor. */
void symbol_add_descriptor(symbol_list *list, const char *low, const char *high,
                           const ptxpack_wgmma_operand *operand);
#endif
