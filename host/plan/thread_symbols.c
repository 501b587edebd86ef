/* thread_symbols.c - functions of the thread as digits of its number. */
#include "thread_symbols.h"

#include "host/layout/arithmetic.h"
#include "loader/loader.h"

void symbol_add(symbol_list *list, const char *name, int64_t value)
{
    if (list->count < list->cap) {
        list->out[list->count++] = (ptxpack_symbol){name, value};
        return;
    }
    ptxpack_fail(NULL, PTXPACK_E_UNSUPPORTED, "symbol %s is one more than the %zu that there is room for", name,
                 list->cap);
    list->failed = true;
}

void symbol_refuse(symbol_list *list, const char *what, const ptxpack_layout *l, const char *why)
{
    char text[PTXPACK_LAYOUT_TEXT];
    ptxpack_layout_print(l, text, sizeof text);
    ptxpack_fail(NULL, PTXPACK_E_UNSUPPORTED, "%s of %s: %s", what, text, why);
    list->failed = true;
}

/* ---- functions of the thread ---------------------------------------------------------------------- */
void symbol_add_function(symbol_list *list, const function_names *names, const ptxpack_layout *l, int axis,
                         int64_t scale)
{
    ptxpack_layout threads = ptxpack_mode(l, 0);
    int            digits = 0, shift = 0, items = threads.shape.items;
    for (int i = 0; i < items; i++) {
        int64_t extent = threads.shape.value[i], stride = threads.stride.value[i] * scale;
        bool    wanted = stride != 0 && threads.stride.kind[i] == (uint64_t)(axis + 1);
        if (!is_power_of_2(extent) || (wanted && digits == THREAD_DIGITS)) {
            symbol_refuse(list, names->modes, l, "the threads are no few powers of two");
            return;
        }
        if (wanted) {
            bool topmost = i == items - 1;
            symbol_add(list, names->digit[digits][0], shift);
            symbol_add(list, names->digit[digits][1], topmost ? -1 : extent - 1);
            symbol_add(list, names->digit[digits++][2], stride);
        }
        shift += log2_of(extent);
    }
    symbol_add(list, names->modes, digits);
}
