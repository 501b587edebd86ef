/* symbols.c - layouts as numbers: digits of the thread's number, steps, swizzles, descriptors. */
#include "symbols.h"

#include "host/layout/arithmetic.h"
#include "loader/loader.h"
#include "tiles.h"

enum { ELEMENT = 2 /* bytes, of the elements that offsets count */ };

void symbol_add(symbol_list *list, const char *name, int64_t value)
{
    if (list->count < list->cap) {
        list->out[list->count++] = (ptxpack_symbol){name, value};
        return;
    }
    ptxpack_fail(NULL, PTXPACK_E_UNSUPPORTED, "symbol %s: there is room for only %zu symbols", name, list->cap);
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
            symbol_refuse(list, names->modes, l, "the extents of its threads are not a few powers of two");
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

/* ---- steps -------------------------------------------------------------------------------------- */
int64_t symbol_step(symbol_list *list, const ptxpack_layout *l, int mode, int axis)
{
    ptxpack_layout steps = ptxpack_mode(l, mode);
    if (steps.shape.items != 1 || (steps.shape.value[0] > 1 && steps.stride.kind[0] != (uint64_t)(axis + 1)))
        symbol_refuse(list, "a step", l, "it is not one number");
    return steps.shape.value[0] > 1 ? steps.stride.value[0] : 0;
}

symbol_swizzle symbol_add_swizzle(symbol_list *list, const ptxpack_layout *tile, int bits, const char *shift,
                                  const char *mask)
{
    ptxpack_layout bytes = ptxpack_recast_layout(tile, bits, 8);
    int64_t        field = ((int64_t)1 << bytes.swizzle.bits) - 1;
    int            low = bytes.swizzle.base + bytes.swizzle.shift;
    if (bytes.shape.status != PTXPACK_OK || !bytes.composed || bytes.swizzle.shift < 0 ||
        (int64_t)1 << bytes.swizzle.base != TILE_CHUNK) {
        symbol_refuse(list, shift, tile, "it does not mix 16-byte chunks with higher bits");
        return (symbol_swizzle){.chunks = 1, .period = 1};
    }
    symbol_add(list, shift, bytes.swizzle.shift);
    symbol_add(list, mask, field << bytes.swizzle.base);
    return (symbol_swizzle){.read = field << low, .chunks = field + 1, .period = (field + 1) << low};
}

void symbol_add_whole_step(symbol_list *list, const char *name, const ptxpack_layout *offsets, int mode,
                           symbol_swizzle swizzle)
{
    int64_t step = ELEMENT * symbol_step(list, offsets, mode, SYMBOL_OFFSET);
    if (step % swizzle.period != 0)
        symbol_refuse(list, name, offsets, "the step would change the swizzle");
    symbol_add(list, name, step);
}

/* The bits that the multiples of a step below `count` have, which no thread's offset may have. */
static int64_t step_bits(symbol_list *list, const char *what, const ptxpack_layout *offsets, int64_t step,
                         int64_t count)
{
    ptxpack_layout threads = ptxpack_mode(offsets, 0);
    int64_t        of_thread = 0, of_step = 0;
    for (int64_t i = 0; i < ptxpack_size(&threads); i++)
        of_thread |= ELEMENT * ptxpack_at(&threads, i);
    for (int64_t i = 0; i < count; i++)
        of_step |= i * step;
    if ((of_thread & of_step) != 0)
        symbol_refuse(list, what, offsets, "the step would carry into the bits of the thread");
    return of_step;
}

int64_t symbol_step_bits(symbol_list *list, const char *name, const ptxpack_layout *offsets, int mode)
{
    int64_t step = ELEMENT * symbol_step(list, offsets, mode, SYMBOL_OFFSET);
    return step_bits(list, name, offsets, step, ptxpack_mode_size(offsets, mode));
}

/* ---- boxes -------------------------------------------------------------------------------------- */
symbol_columns symbol_box_columns(symbol_list *list, const ptxpack_layout *offsets, int64_t box)
{
    ptxpack_layout columns = ptxpack_mode(offsets, 1);
    int64_t        count = ptxpack_size(&columns);
    symbol_columns s = {.step = ELEMENT * ptxpack_at(&columns, 1)};
    s.inside = TILE_BOX_ROW / s.step;
    for (int64_t i = 0; i < count; i++)
        if (ELEMENT * ptxpack_at(&columns, i) != i % s.inside * s.step + i / s.inside * box) {
            symbol_refuse(list, "columns", offsets, "they are not the same in each box");
            break;
        }
    step_bits(list, "columns", offsets, s.step, count < s.inside ? count : s.inside);
    return s;
}

void symbol_add_lanes(symbol_list *list, const function_names *names, const ptxpack_layout *offsets,
                      int64_t apart, bool warps_too)
{
    enum { LANES = 32 };
    const int64_t  four = 4, none = 0;
    ptxpack_tuple  lane = ptxpack_int(LANES);
    ptxpack_layout threads = ptxpack_mode(offsets, 0), lanes = ptxpack_make_layout_left(&lane);
    for (int64_t i = 0; i < ptxpack_size(&threads); i++)
        if (ELEMENT * ptxpack_at(&threads, i) !=
            ELEMENT * ptxpack_at(&threads, i % LANES) + i / LANES * apart) {
            symbol_refuse(list, "warps", offsets, "they are not all the same");
            break;
        }
    lanes = ptxpack_composition(&threads, &lanes);
    ptxpack_layout warps = tile_ints(1, &four, &none);
    lanes = warps_too ? tile_pair(&lanes, &warps) : lanes;
    lanes = ptxpack_layout_flatten(&lanes);
    lanes = ptxpack_layout_group(&lanes, 0, -1);
    symbol_add_function(list, names, &lanes, SYMBOL_OFFSET, ELEMENT);
}

void symbol_add_descriptor(symbol_list *list, const char *low, const char *high,
                           const ptxpack_wgmma_operand *operand)
{
    symbol_add(list, low, (int64_t)(operand->word & 0xffffffff));
    symbol_add(list, high, (int64_t)(operand->word >> 32));
}
