/* mma_symbols.c - layouts as numbers for the PTX: digits of the thread's number, steps, a swizzle. */
#include "mma_symbols.h"

#include <stddef.h>

enum { ELEMENT = 2 };

/* ---- steps ---------------------------------------------------------------------------------------- */
/* Layouts of accesses and places have three modes: thread, step along rows, step along columns.  Those of
 * places give coordinates. */
enum { ROWS = 1, COLUMNS = 2, OFFSET = SYMBOL_OFFSET };

/* Steps along columns are `unit` bytes each inside a group of the chunks that the swizzle mixes, which the
 * kernel does by XOR; the next group is `group` bytes on, or 0 when there is only one. */
typedef struct column_steps {
    int64_t unit, group;
} column_steps;

/* A group must not touch the bits that the swizzle reads. */
static column_steps columns_of(symbol_list *list, const ptxpack_layout *l, symbol_swizzle m)
{
    ptxpack_layout columns = ptxpack_mode(l, COLUMNS);
    int64_t        count = ptxpack_size(&columns), line = m.chunks * TILE_CHUNK;
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

/* ---- all of it ------------------------------------------------------------------------------------ */
static void add_functions(symbol_list *list, const attention_mma_layout *l)
{
    static const struct {
        function_names          names;
        int                     axis, scale;
        attention_mma_access_id access; /* of offsets */
        size_t                  place;  /* of coordinates: where in attention_mma_layout */
    } functions[] = {
        {FUNCTION("LOAD_AT"), OFFSET, ELEMENT, MMA_ACCESS_LOAD_KV, 0},
        {FUNCTION("LOAD_ROW"), 0, 1, MMA_ACCESS_COUNT, offsetof(attention_mma_layout, load_place)},
        {FUNCTION("LOAD_COLUMN"), 1, ELEMENT, MMA_ACCESS_COUNT, offsetof(attention_mma_layout, load_place)},
        {FUNCTION("Q_AT"), OFFSET, ELEMENT, MMA_ACCESS_Q, 0},
        {FUNCTION("K_AT"), OFFSET, ELEMENT, MMA_ACCESS_K, 0},
        {FUNCTION("V_AT"), OFFSET, ELEMENT, MMA_ACCESS_V, 0},
        {FUNCTION("C_ROW"), 0, 1, MMA_ACCESS_COUNT, offsetof(attention_mma_layout, c_place)},
        {FUNCTION("C_COLUMN"), 1, 1, MMA_ACCESS_COUNT, offsetof(attention_mma_layout, c_place)},
        {FUNCTION("O_STORE_AT"), OFFSET, ELEMENT, MMA_ACCESS_O_STORE, 0},
        {FUNCTION("O_LOAD_AT"), OFFSET, ELEMENT, MMA_ACCESS_O_LOAD, 0},
        {FUNCTION("O_LOAD_ROW"), 0, 1, MMA_ACCESS_COUNT, offsetof(attention_mma_layout, o_load_place)},
        {FUNCTION("O_LOAD_COLUMN"), 1, ELEMENT, MMA_ACCESS_COUNT, offsetof(attention_mma_layout, o_load_place)},
    };
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        const void *place = (const char *)l + functions[i].place;
        symbol_add_function(list, &functions[i].names,
                            functions[i].axis == OFFSET ? &l->access[functions[i].access].offsets
                                                        : (const ptxpack_layout *)place,
                            functions[i].axis, functions[i].scale);
    }
}

/* The kernel has one text for both kinds of tiles: a number that it is told once must hold for both. */
static void add_columns(symbol_list *list, const attention_mma_layout *l, symbol_swizzle m)
{
    const attention_mma_access *a = l->access;
    column_steps                of[MMA_ACCESS_COUNT];
    for (int id = 0; id < MMA_ACCESS_COUNT; id++)
        of[id] = columns_of(list, &a[id].offsets, m);
    int64_t line = m.chunks * TILE_CHUNK, operand = of[MMA_ACCESS_K].unit;
    bool    same = of[MMA_ACCESS_Q].unit == operand && of[MMA_ACCESS_V].unit == operand;
    for (int id = 0; id < MMA_ACCESS_COUNT; id++)
        same = same && of[id].group == of[a[id].of_q ? MMA_ACCESS_Q : MMA_ACCESS_K].group;
    same = same && of[MMA_ACCESS_LOAD_Q].unit == line && of[MMA_ACCESS_LOAD_KV].unit == line &&
           of[MMA_ACCESS_O_LOAD].unit == line;
    ptxpack_layout q = ptxpack_mode(&a[MMA_ACCESS_LOAD_Q].offsets, 0);
    ptxpack_layout kv = ptxpack_mode(&a[MMA_ACCESS_LOAD_KV].offsets, 0);
    if (!same || !ptxpack_layout_equal(&q, &kv))
        symbol_refuse(list, "columns", &l->kv, "its accesses do not go by the same groups");
    symbol_add(list, "Q_GROUP", of[MMA_ACCESS_Q].group);
    symbol_add(list, "KV_GROUP", of[MMA_ACCESS_K].group);
    symbol_add(list, "GROUPS", ptxpack_mode_size(&l->load_place, COLUMNS));
    symbol_add(list, "Q_GROUPS", ptxpack_mode_size(&a[MMA_ACCESS_LOAD_Q].offsets, COLUMNS));
    symbol_add(list, "OPERAND_STEP", operand);
    symbol_add(list, "O_STORE_COLUMN", of[MMA_ACCESS_O_STORE].unit);
    symbol_add(list, "C_COLUMNS", symbol_step(list, &l->c_place, COLUMNS, 1));
}

/* A step of the copies: whole periods of the swizzle, or the kernel flips the bits of the swizzled address. */
static void add_load_step(symbol_list *list, const char *name, const ptxpack_layout *offsets, symbol_swizzle m)
{
    int64_t step = ELEMENT * symbol_step(list, offsets, ROWS, OFFSET);
    if (step % m.period == 0) {
        symbol_add_whole_step(list, name, offsets, ROWS, m);
        return;
    }
    symbol_step_bits(list, name, offsets, ROWS);
    symbol_add(list, name, step);
}

static void add_rows(symbol_list *list, const attention_mma_layout *l, symbol_swizzle m)
{
    const attention_mma_access *a = l->access;
    add_load_step(list, "LOAD_Q_STEP", &a[MMA_ACCESS_LOAD_Q].offsets, m);
    add_load_step(list, "LOAD_KV_STEP", &a[MMA_ACCESS_LOAD_KV].offsets, m);
    symbol_add(list, "LOAD_ROWS", l->block_n / ptxpack_mode_size(&l->load_place, ROWS));
    symbol_add_whole_step(list, "Q_STEP", &a[MMA_ACCESS_Q].offsets, ROWS, m);
    symbol_add_whole_step(list, "K_STEP", &a[MMA_ACCESS_K].offsets, ROWS, m);
    symbol_add_whole_step(list, "V_STEP", &a[MMA_ACCESS_V].offsets, ROWS, m);
    symbol_add_whole_step(list, "O_STORE_STEP", &a[MMA_ACCESS_O_STORE].offsets, ROWS, m);
    symbol_add(list, "C_ROWS", symbol_step(list, &l->c_place, ROWS, 0));
    /* a step inside a period: the kernel flips these bits of the swizzled address */
    symbol_step_bits(list, "O_LOAD_STEP", &a[MMA_ACCESS_O_LOAD].offsets, ROWS);
    symbol_add(list, "O_LOAD_STEP", ELEMENT * symbol_step(list, &a[MMA_ACCESS_O_LOAD].offsets, ROWS, OFFSET));
    symbol_add(list, "O_LOAD_ROWS", symbol_step(list, &l->o_load_place, ROWS, 0));
    symbol_add(list, "O_LOADS", ptxpack_mode_size(&l->o_load_place, ROWS));
    symbol_add(list, "WARP_ROWS", l->block_m / l->warps);
}

void attention_mma_symbols(const attention_mma_layout *l, symbol_list *list)
{
    symbol_swizzle m = symbol_add_swizzle(list, &l->kv, 8 * ELEMENT, "SWIZZLE_SHIFT", "SWIZZLE_MASK");
    if (list->failed)
        return;
    symbol_add(list, "CHUNKS", m.chunks);
    add_functions(list, l);
    add_columns(list, l, m);
    add_rows(list, l, m);
    symbol_add(list, "SMEM_Q", l->smem_q);
    symbol_add(list, "SMEM_K", l->smem_k);
    symbol_add(list, "SMEM_V", l->smem_v);
    symbol_add(list, "STAGE_BYTES", l->stage_bytes);
    symbol_add(list, "SMEM_FACTORS", l->smem_factors);
    if (l->blocks) {
        symbol_add(list, "SMEM_RAW_K", l->smem_raw_k);
        symbol_add(list, "SMEM_RAW_V", l->smem_raw_v);
    }
}
