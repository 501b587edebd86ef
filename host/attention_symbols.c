/* attention_symbols.c - layouts as numbers for the PTX: digits of the thread's number, steps, a swizzle. */
#include "attention_symbols.h"

#include "thread_symbols.h"

enum { ELEMENT = 2, CHUNK = 16 /* bytes */ };

/* What the swizzle does to byte offsets: it reads `read`, mixes so many 16-byte chunks, and is the same again
 * after `period` bytes. */
typedef struct mixing {
    int64_t read, chunks, period;
} mixing;

/* ---- steps ------------------------------------------------------------------------------------------------ */
/* The one stride of mode `mode` of l, 0 when it has one step only; `axis` as above. */
static int64_t step_of(symbol_list *list, const ptxpack_layout *l, int mode, int axis)
{
    ptxpack_layout steps = ptxpack_mode(l, mode);
    if (steps.shape.items != 1 ||
        (steps.shape.value[0] > 1 && steps.stride.kind[0] != (uint64_t)(axis + 1)))
        symbol_refuse(list, "a step", l, "it is not one number");
    return steps.shape.value[0] > 1 ? steps.stride.value[0] : 0;
}

/* The steps of an access along columns are `unit` bytes each while they stay among the chunks that the swizzle
 * mixes, which is an XOR for the kernel; then they go to the next group of chunks: how far, in bytes.  That must
 * not touch the bits that the swizzle reads. */
static int64_t group_of(symbol_list *list, const ptxpack_layout *l, int64_t unit, mixing m)
{
    ptxpack_layout columns = ptxpack_mode(l, 2);
    int64_t        count = ptxpack_size(&columns), inside = m.chunks * CHUNK / unit;
    int64_t        group = count > inside ? ELEMENT * ptxpack_at(&columns, inside) : 0;
    for (int64_t i = 0; i < count; i++)
        if (ELEMENT * ptxpack_at(&columns, i) != i % inside * unit + i / inside * group ||
            (i / inside * group & m.read) != 0) {
            symbol_refuse(list, "columns", l, "they are not groups of chunks");
            return 0;
        }
    return group;
}

/* A step of whole periods of the swizzle can be added after it. */
static void add_step(symbol_list *list, const char *name, const ptxpack_layout *l, int64_t period)
{
    int64_t step = ELEMENT * step_of(list, l, 1, -1);
    if (step % period != 0)
        symbol_refuse(list, name, l, "the step would change the swizzle");
    symbol_add(list, name, step);
}

/* ---- all of it -------------------------------------------------------------------------------------------- */
static mixing add_swizzle(symbol_list *list, const attention_layout *l)
{
    ptxpack_layout bytes = ptxpack_recast_layout(&l->kv, 8 * ELEMENT, 8);
    int64_t        field = ((int64_t)1 << bytes.swizzle.bits) - 1;
    if (bytes.shape.status != PTXPACK_OK || !bytes.composed || bytes.swizzle.shift < 0 ||
        (int64_t)1 << bytes.swizzle.base != CHUNK)
        symbol_refuse(list, "SWIZZLE", &l->kv, "it does not mix 16-byte chunks with higher bits");
    symbol_add(list, "SWIZZLE_SHIFT", bytes.swizzle.shift);
    symbol_add(list, "SWIZZLE_MASK", field << bytes.swizzle.base);
    symbol_add(list, "CHUNKS", field + 1);
    int low = bytes.swizzle.base + bytes.swizzle.shift;
    return (mixing){.read = field << low, .chunks = field + 1, .period = (field + 1) << low};
}

static void add_functions(symbol_list *list, const attention_layout *l)
{
    const attention_access *a = l->access;
    const struct {
        function_names        names;
        const ptxpack_layout *layout;
        int                   axis;
        int64_t               scale;
    } functions[] = {
        {FUNCTION("LOAD_AT"), &a[ACCESS_LOAD_KV].offsets, -1, ELEMENT},
        {FUNCTION("LOAD_ROW"), &l->load_place, 0, 1},
        {FUNCTION("LOAD_COLUMN"), &l->load_place, 1, ELEMENT},
        {FUNCTION("Q_AT"), &a[ACCESS_Q].offsets, -1, ELEMENT},
        {FUNCTION("K_AT"), &a[ACCESS_K].offsets, -1, ELEMENT},
        {FUNCTION("V_AT"), &a[ACCESS_V].offsets, -1, ELEMENT},
        {FUNCTION("C_ROW"), &l->c_place, 0, 1},
        {FUNCTION("C_COLUMN"), &l->c_place, 1, 1},
        {FUNCTION("O_STORE_AT"), &a[ACCESS_O_STORE].offsets, -1, ELEMENT},
        {FUNCTION("O_LOAD_AT"), &a[ACCESS_O_LOAD].offsets, -1, ELEMENT},
        {FUNCTION("O_LOAD_ROW"), &l->o_load_place, 0, 1},
        {FUNCTION("O_LOAD_COLUMN"), &l->o_load_place, 1, ELEMENT},
    };
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        symbol_add_function(list, &functions[i].names, functions[i].layout, functions[i].axis, functions[i].scale);
}

static void add_steps(symbol_list *list, const attention_layout *l, mixing m)
{
    const attention_access *a = l->access;
    int64_t line = m.chunks * CHUNK, columns = ptxpack_mode_size(&l->load_place, 2);
    int64_t row_width = columns > 1 ? ELEMENT * step_of(list, &l->load_place, 2, 1) : line;
    int64_t kv_group = group_of(list, &a[ACCESS_K].offsets, 2 * CHUNK, m);
    int64_t q_group = group_of(list, &a[ACCESS_Q].offsets, 2 * CHUNK, m);
    if (group_of(list, &a[ACCESS_V].offsets, 2 * CHUNK, m) != kv_group ||
        group_of(list, &a[ACCESS_O_STORE].offsets, CHUNK, m) != q_group ||
        group_of(list, &a[ACCESS_O_LOAD].offsets, line, m) != q_group ||
        group_of(list, &a[ACCESS_LOAD_Q].offsets, line, m) != q_group ||
        group_of(list, &a[ACCESS_LOAD_KV].offsets, line, m) != kv_group || row_width != line)
        symbol_refuse(list, "columns", &l->kv, "its accesses do not go by the same groups");
    symbol_add(list, "Q_GROUP", q_group);
    symbol_add(list, "KV_GROUP", kv_group);
    symbol_add(list, "GROUPS", columns);
    add_step(list, "LOAD_Q_STEP", &a[ACCESS_LOAD_Q].offsets, m.period);
    add_step(list, "LOAD_KV_STEP", &a[ACCESS_LOAD_KV].offsets, m.period);
    symbol_add(list, "LOAD_ROWS", l->block_n / ptxpack_mode_size(&l->load_place, 1));
    add_step(list, "Q_STEP", &a[ACCESS_Q].offsets, m.period);
    add_step(list, "K_STEP", &a[ACCESS_K].offsets, m.period);
    add_step(list, "V_STEP", &a[ACCESS_V].offsets, m.period);
    add_step(list, "O_STORE_STEP", &a[ACCESS_O_STORE].offsets, m.period);
    symbol_add(list, "C_ROWS", step_of(list, &l->c_place, 1, 0));
    symbol_add(list, "O_LOAD_STEP", ELEMENT * step_of(list, &a[ACCESS_O_LOAD].offsets, 1, -1));
    symbol_add(list, "O_LOAD_ROWS", step_of(list, &l->o_load_place, 1, 0));
    symbol_add(list, "O_LOADS", ptxpack_mode_size(&l->o_load_place, 1));
    symbol_add(list, "WARP_ROWS", l->block_m / l->warps);
}

size_t ptxpack_attention_layout_symbols(const attention_layout *l, ptxpack_symbol *out, size_t cap)
{
    symbol_list list = {.out = out, .cap = cap};
    mixing      m = add_swizzle(&list, l);
    add_functions(&list, l);
    add_steps(&list, l, m);
    symbol_add(&list, "SMEM_Q", l->smem_q);
    symbol_add(&list, "SMEM_K", l->smem_k);
    symbol_add(&list, "SMEM_V", l->smem_v);
    symbol_add(&list, "STAGE_BYTES", l->stage_bytes);
    return list.failed ? 0 : list.count;
}
