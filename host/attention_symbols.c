/* attention_symbols.c - layouts as numbers for the PTX: digits of the thread's number, steps, a swizzle. */
#include "attention_symbols.h"

#include "loader.h"

enum { ELEMENT = 2, CHUNK = 16 /* bytes */, DIGITS = 4 };

typedef struct symbol_list {
    ptxpack_symbol *out;
    size_t          count, cap;
    bool            failed;
} symbol_list;

static void add(symbol_list *list, const char *name, int64_t value)
{
    if (list->count == list->cap)
        list->failed = true;
    else
        list->out[list->count++] = (ptxpack_symbol){name, value};
}

static void refuse(symbol_list *list, const char *name, const ptxpack_layout *l, const char *why)
{
    char text[PTXPACK_LAYOUT_TEXT];
    ptxpack_layout_print(l, text, sizeof text);
    ptxpack_fail(NULL, PTXPACK_E_UNSUPPORTED, "%s of %s: %s", name, text, why);
    list->failed = true;
}

/* ---- functions of the thread ------------------------------------------------------------------------------ */
typedef struct function_names {
    const char *modes, *digit[DIGITS][3];
} function_names;
#define DIGIT_NAMES(name, i) {name "_SHIFT" #i, name "_MASK" #i, name "_STRIDE" #i}
#define FUNCTION(name) \
    {name "_MODES", {DIGIT_NAMES(name, 0), DIGIT_NAMES(name, 1), DIGIT_NAMES(name, 2), DIGIT_NAMES(name, 3)}}

static bool is_power(int64_t x)
{
    return x > 0 && (x & (x - 1)) == 0;
}

/* Items of the thread mode of l, times `scale`; of coordinates only those along mode `axis` (-1: of offsets). */
static void add_function(symbol_list *list, const function_names *names, const ptxpack_layout *l, int axis,
                         int64_t scale)
{
    ptxpack_layout threads = ptxpack_mode(l, 0);
    int            digits = 0, shift = 0, items = threads.shape.items;
    for (int i = 0; i < items; i++) {
        int64_t extent = threads.shape.value[i], stride = threads.stride.value[i] * scale;
        bool    wanted = stride != 0 && threads.stride.kind[i] == (uint64_t)(axis + 1);
        if (!is_power(extent) || digits == DIGITS) {
            refuse(list, names->modes, l, "the threads are no few powers of two");
            return;
        }
        if (wanted) {
            bool topmost = i == items - 1;
            add(list, names->digit[digits][0], shift);
            add(list, names->digit[digits][1], topmost ? -1 : extent - 1);
            add(list, names->digit[digits++][2], stride);
        }
        shift += __builtin_ctzll((unsigned long long)extent);
    }
    add(list, names->modes, digits);
}

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
        refuse(list, "a step", l, "it is not one number");
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
            refuse(list, "columns", l, "they are not groups of chunks");
            return 0;
        }
    return group;
}

/* A step of whole periods of the swizzle can be added after it. */
static void add_step(symbol_list *list, const char *name, const ptxpack_layout *l, int64_t period)
{
    int64_t step = ELEMENT * step_of(list, l, 1, -1);
    if (step % period != 0)
        refuse(list, name, l, "the step would change the swizzle");
    add(list, name, step);
}

/* ---- all of it -------------------------------------------------------------------------------------------- */
static mixing add_swizzle(symbol_list *list, const attention_layout *l)
{
    ptxpack_layout bytes = ptxpack_recast_layout(&l->kv, 8 * ELEMENT, 8);
    int64_t        field = ((int64_t)1 << bytes.swizzle.bits) - 1;
    if (bytes.shape.status != PTXPACK_OK || !bytes.composed || bytes.swizzle.shift < 0 ||
        (int64_t)1 << bytes.swizzle.base != CHUNK)
        refuse(list, "SWIZZLE", &l->kv, "it does not mix 16-byte chunks with higher bits");
    add(list, "SWIZZLE_SHIFT", bytes.swizzle.shift);
    add(list, "SWIZZLE_MASK", field << bytes.swizzle.base);
    add(list, "CHUNKS", field + 1);
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
        add_function(list, &functions[i].names, functions[i].layout, functions[i].axis, functions[i].scale);
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
        refuse(list, "columns", &l->kv, "its accesses do not go by the same groups");
    add(list, "Q_GROUP", q_group);
    add(list, "KV_GROUP", kv_group);
    add(list, "GROUPS", columns);
    add_step(list, "LOAD_Q_STEP", &a[ACCESS_LOAD_Q].offsets, m.period);
    add_step(list, "LOAD_KV_STEP", &a[ACCESS_LOAD_KV].offsets, m.period);
    add(list, "LOAD_ROWS", l->block_n / ptxpack_mode_size(&l->load_place, 1));
    add_step(list, "Q_STEP", &a[ACCESS_Q].offsets, m.period);
    add_step(list, "K_STEP", &a[ACCESS_K].offsets, m.period);
    add_step(list, "V_STEP", &a[ACCESS_V].offsets, m.period);
    add_step(list, "O_STORE_STEP", &a[ACCESS_O_STORE].offsets, m.period);
    add(list, "C_ROWS", step_of(list, &l->c_place, 1, 0));
    add(list, "O_LOAD_STEP", ELEMENT * step_of(list, &a[ACCESS_O_LOAD].offsets, 1, -1));
    add(list, "O_LOAD_ROWS", step_of(list, &l->o_load_place, 1, 0));
    add(list, "O_LOADS", ptxpack_mode_size(&l->o_load_place, 1));
    add(list, "WARP_ROWS", l->block_m / l->warps);
}

size_t ptxpack_attention_layout_symbols(const attention_layout *l, ptxpack_symbol *out, size_t cap)
{
    symbol_list list = {.out = out, .cap = cap};
    mixing      m = add_swizzle(&list, l);
    add_functions(&list, l);
    add_steps(&list, l, m);
    add(&list, "SMEM_Q", l->smem_q);
    add(&list, "SMEM_K", l->smem_k);
    add(&list, "SMEM_V", l->smem_v);
    add(&list, "STAGE_BYTES", l->stage_bytes);
    return list.failed ? 0 : list.count;
}
