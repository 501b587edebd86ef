/* thread_symbols.h - private: functions of the thread, given as layouts, told to the PTX as symbols.
 *
 * A function NAME is told as digits of the thread's number: NAME_MODES of them,
 * (thread >> NAME_SHIFTi & NAME_MASKi) * NAME_STRIDEi, to be added up; ptx/shared/layout.ptx does. */
#ifndef PTXPACK_THREAD_SYMBOLS_H
#define PTXPACK_THREAD_SYMBOLS_H
#include "host/layout/layout.h"
#include "loader/registry.h"

/* Symbols that are being collected.  After a failure a line is in ptxpack_detail(NULL). */
typedef struct symbol_list {
    ptxpack_symbol *out;
    size_t          count, cap;
    bool            failed;
} symbol_list;

void symbol_add(symbol_list *list, const char *name, int64_t value);
/* A layout that cannot be told: `what` of it, and why. */
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

/* Mode 0 of l, thread -> offset, times `scale`; where l gives coordinates, only those along mode `axis`;
 * -1 where it gives offsets. */
void symbol_add_function(symbol_list *list, const function_names *names, const ptxpack_layout *l, int axis,
                         int64_t scale);
#endif
