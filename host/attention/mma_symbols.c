/* mma_symbols.c - layouts as numbers for the PTX: digits of the thread's number, steps, a swizzle. */
#include "mma_symbols.h"

#include <stddef.h>

#include "host/plan/thread_symbols.h"

enum { ELEMENT = 2, CHUNK_BYTES = 16 };

/* What the swizzle does to byte offsets: it reads `read`, mixes so many 16-byte chunks, and is the same
 * again after `period` bytes. */
typedef struct mixing {
    int64_t read, chunks, period;
} mixing;

/* ---- steps ---------------------------------------------------------------------------------------- */
/* Layouts of accesses and places have three modes: thread, step along rows, step along columns.  Those of
 * places give coordinates, and only mode `axis` of them counts; of offsets, axis is -1. */
enum { ROWS = 1, COLUMNS = 2, OFFSET = -1 };

/* The one stride of mode `mode` of l, 0 when it has one step only. */
static int64_t step_of(symbol_list *list, const ptxpack_layout *l, int mode, int axis)
{
    ptxpack_layout steps = ptxpack_mode(l, mode);
    if (steps.shape.items != 1 || (steps.shape.value[0] > 1 && steps.stride.kind[0] != (uint64_t)(axis + 1)))
        symbol_refuse(list, "a step", l, "it is not one number");
    return steps.shape.value[0] > 1 ? steps.stride.value[0] : 0;
}

/* Steps along columns are `unit` bytes each while they stay among the chunks that the swizzle mixes, which
 * is an XOR for the kernel; then they go to the next group of chunks, `group` bytes on: 0 when there is
 * one group. */
typedef struct column_steps {
    int64_t unit, group;
} column_steps;

/* A group must not touch the bits that the swizzle reads. */
static column_steps columns_of(symbol_list *list, const ptxpack_layout *l, mixing m)
{
    ptxpack_layout columns = ptxpack_mode(l, COLUMNS);
    int64_t        count = ptxpack_size(&columns), line = m.chunks * CHUNK_BYTES;
    int64_t        second = count > 1 ? ELEMENT * ptxpack_at(&columns, 1) : line;
    column_steps   s = {.unit = second < line ? second : line};
    int64_t        inside = s.unit > 0 ? line / s.unit : 1;
    s.group = count > inside ? ELEMENT * ptxpack_at(&columns, inside) : 0;
    for (int64_t i = 0; i < count; i++)
        if (ELEMENT * ptxpack_at(&columns, i) != i % inside * s.unit + i / inside * s.group ||
            (i / inside * s.group & m.read) != 0) {
            symbol_refuse(list, "columns", l, "they are not groups of chunks");
            break;
        }
    return s;
}

/* A step of whole periods of the swizzle can be added after it. */
static void add_step(symbol_list *list, const char *name, const ptxpack_layout *l, int64_t period)
{
    int64_t step = ELEMENT * step_of(list, l, ROWS, OFFSET);
    if (step % period != 0)
        symbol_refuse(list, name, l, "the step would change the swizzle");
    symbol_add(list, name, step);
}

/* A step inside of a period flips what the swizzle makes of it, while no bit of it meets the thread's. */
static void add_flipping_step(symbol_list *list, const char *name, const ptxpack_layout *l)
{
    ptxpack_layout threads = ptxpack_mode(l, 0);
    int64_t        step = ELEMENT * step_of(list, l, ROWS, OFFSET), of_thread = 0, of_step = 0;
    for (int64_t i = 0; i < ptxpack_size(&threads); i++)
        of_thread |= ELEMENT * ptxpack_at(&threads, i);
    for (int64_t i = 0; i < ptxpack_mode_size(l, ROWS); i++)
        of_step |= i * step;
    if ((of_thread & of_step) != 0)
        symbol_refuse(list, name, l, "the step would carry into the bits of the thread");
    symbol_add(list, name, step);
}

/* ---- all of it ------------------------------------------------------------------------------------ */
static mixing add_swizzle(symbol_list *list, const attention_layout *l)
{
    ptxpack_layout bytes = ptxpack_recast_layout(&l->kv, 8 * ELEMENT, 8);
    int64_t        field = ((int64_t)1 << bytes.swizzle.bits) - 1;
    if (bytes.shape.status != PTXPACK_OK || !bytes.composed || bytes.swizzle.shift < 0 ||
        (int64_t)1 << bytes.swizzle.base != CHUNK_BYTES)
        symbol_refuse(list, "SWIZZLE", &l->kv, "it does not mix 16-byte chunks with higher bits");
    symbol_add(list, "SWIZZLE_SHIFT", bytes.swizzle.shift);
    symbol_add(list, "SWIZZLE_MASK", field << bytes.swizzle.base);
    symbol_add(list, "CHUNKS", field + 1);
    int low = bytes.swizzle.base + bytes.swizzle.shift;
    return (mixing){.read = field << low, .chunks = field + 1, .period = (field + 1) << low};
}

static void add_functions(symbol_list *list, const attention_layout *l)
{
    static const struct {
        function_names      names;
        int                 axis, scale;
        attention_access_id access; /* of offsets */
        size_t              place;  /* of coordinates: where in attention_layout */
    } functions[] = {
        {FUNCTION("LOAD_AT"), OFFSET, ELEMENT, ACCESS_LOAD_KV, 0},
        {FUNCTION("LOAD_ROW"), 0, 1, ACCESS_COUNT, offsetof(attention_layout, load_place)},
        {FUNCTION("LOAD_COLUMN"), 1, ELEMENT, ACCESS_COUNT, offsetof(attention_layout, load_place)},
        {FUNCTION("Q_AT"), OFFSET, ELEMENT, ACCESS_Q, 0},
        {FUNCTION("K_AT"), OFFSET, ELEMENT, ACCESS_K, 0},
        {FUNCTION("V_AT"), OFFSET, ELEMENT, ACCESS_V, 0},
        {FUNCTION("C_ROW"), 0, 1, ACCESS_COUNT, offsetof(attention_layout, c_place)},
        {FUNCTION("C_COLUMN"), 1, 1, ACCESS_COUNT, offsetof(attention_layout, c_place)},
        {FUNCTION("O_STORE_AT"), OFFSET, ELEMENT, ACCESS_O_STORE, 0},
        {FUNCTION("O_LOAD_AT"), OFFSET, ELEMENT, ACCESS_O_LOAD, 0},
        {FUNCTION("O_LOAD_ROW"), 0, 1, ACCESS_COUNT, offsetof(attention_layout, o_load_place)},
        {FUNCTION("O_LOAD_COLUMN"), 1, ELEMENT, ACCESS_COUNT, offsetof(attention_layout, o_load_place)},
    };
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        const void *place = (const char *)l + functions[i].place;
        symbol_add_function(list, &functions[i].names,
                            functions[i].axis == OFFSET ? &l->access[functions[i].access].offsets
                                                        : (const ptxpack_layout *)place,
                            functions[i].axis, functions[i].scale);
    }
}

/* One kernel text for both kinds of tiles: what it is told once must hold for each. */
static void add_columns(symbol_list *list, const attention_layout *l, mixing m)
{
    const attention_access *a = l->access;
    column_steps            of[ACCESS_COUNT];
    for (int id = 0; id < ACCESS_COUNT; id++)
        of[id] = columns_of(list, &a[id].offsets, m);
    int64_t line = m.chunks * CHUNK_BYTES, operand = of[ACCESS_K].unit;
    bool    same = of[ACCESS_Q].unit == operand && of[ACCESS_V].unit == operand;
    for (int id = 0; id < ACCESS_COUNT; id++)
        same = same && of[id].group == of[a[id].of_q ? ACCESS_Q : ACCESS_K].group;
    same = same && of[ACCESS_LOAD_Q].unit == line && of[ACCESS_LOAD_KV].unit == line &&
           of[ACCESS_O_LOAD].unit == line;
    ptxpack_layout q = ptxpack_mode(&a[ACCESS_LOAD_Q].offsets, 0);
    ptxpack_layout kv = ptxpack_mode(&a[ACCESS_LOAD_KV].offsets, 0);
    if (!same || !ptxpack_layout_equal(&q, &kv))
        symbol_refuse(list, "columns", &l->kv, "its accesses do not go by the same groups");
    symbol_add(list, "Q_GROUP", of[ACCESS_Q].group);
    symbol_add(list, "KV_GROUP", of[ACCESS_K].group);
    symbol_add(list, "GROUPS", ptxpack_mode_size(&l->load_place, COLUMNS));
    symbol_add(list, "OPERAND_STEP", operand);
    symbol_add(list, "O_STORE_COLUMN", of[ACCESS_O_STORE].unit);
    symbol_add(list, "C_COLUMNS", step_of(list, &l->c_place, COLUMNS, 1));
}

static void add_rows(symbol_list *list, const attention_layout *l, mixing m)
{
    const attention_access *a = l->access;
    add_step(list, "LOAD_Q_STEP", &a[ACCESS_LOAD_Q].offsets, m.period);
    add_step(list, "LOAD_KV_STEP", &a[ACCESS_LOAD_KV].offsets, m.period);
    symbol_add(list, "LOAD_ROWS", l->block_n / ptxpack_mode_size(&l->load_place, ROWS));
    add_step(list, "Q_STEP", &a[ACCESS_Q].offsets, m.period);
    add_step(list, "K_STEP", &a[ACCESS_K].offsets, m.period);
    add_step(list, "V_STEP", &a[ACCESS_V].offsets, m.period);
    add_step(list, "O_STORE_STEP", &a[ACCESS_O_STORE].offsets, m.period);
    symbol_add(list, "C_ROWS", step_of(list, &l->c_place, ROWS, 0));
    add_flipping_step(list, "O_LOAD_STEP", &a[ACCESS_O_LOAD].offsets);
    symbol_add(list, "O_LOAD_ROWS", step_of(list, &l->o_load_place, ROWS, 0));
    symbol_add(list, "O_LOADS", ptxpack_mode_size(&l->o_load_place, ROWS));
    symbol_add(list, "WARP_ROWS", l->block_m / l->warps);
}

size_t ptxpack_attention_layout_symbols(const attention_layout *l, ptxpack_symbol *out, size_t cap)
{
    symbol_list list = {.out = out, .cap = cap};
    mixing      m = add_swizzle(&list, l);
    if (list.failed)
        return 0;
    add_functions(&list, l);
    add_columns(&list, l, m);
    add_rows(&list, l, m);
    symbol_add(&list, "SMEM_Q", l->smem_q);
    symbol_add(&list, "SMEM_K", l->smem_k);
    symbol_add(&list, "SMEM_V", l->smem_v);
    symbol_add(&list, "STAGE_BYTES", l->stage_bytes);
    return list.failed ? 0 : list.count;
}
