/* layout_tensor.c - tensors in expressions: pointers, memory of files, elements, and what print writes of them. */
#include <stdlib.h>
#include <string.h>

#include "draw.h"
#include "layout_calls.h"
#include "host/layout/notation.h"
#include "loader/loader.h"
#include "tools/problem/npy.h"

/* Counting starts in the middle of the address space, so that it can go on to both sides. */
static const uint64_t counting_base = (uint64_t)1 << 63;

/* ---- types of elements --------------------------------------------------------------------------------- */
const element_type *element_type_of(const char *name, size_t bytes)
{
    static const element_type types[] = {
        {"int", PTXPACK_NUMBER_INT, 32},
        {"int32_t", PTXPACK_NUMBER_INT, 32},
        {"uint32_t", PTXPACK_NUMBER_UINT, 32},
        {"unsigned", PTXPACK_NUMBER_UINT, 32},
        {"float", PTXPACK_NUMBER_FLOAT, 32},
        {"double", PTXPACK_NUMBER_FLOAT, 64},
        {"half_t", PTXPACK_NUMBER_FLOAT, 16},
        {"half", PTXPACK_NUMBER_FLOAT, 16},
        {"__half", PTXPACK_NUMBER_FLOAT, 16},
        {"bfloat16_t", PTXPACK_NUMBER_BF16, 16},
        {"__nv_bfloat16", PTXPACK_NUMBER_BF16, 16},
        {"tfloat32_t", PTXPACK_NUMBER_TF32, 32},
        {"float_e4m3_t", PTXPACK_NUMBER_E4M3, 8},
        {"float_e5m2_t", PTXPACK_NUMBER_E5M2, 8},
        {"float_e3m2_t", PTXPACK_NUMBER_E3M2, 6},
        {"float_e2m3_t", PTXPACK_NUMBER_E2M3, 6},
        {"float_e2m1_t", PTXPACK_NUMBER_E2M1, 4},
        {"int64_t", PTXPACK_NUMBER_INT, 64},
        {"uint64_t", PTXPACK_NUMBER_UINT, 64},
        {"int16_t", PTXPACK_NUMBER_INT, 16},
        {"uint16_t", PTXPACK_NUMBER_UINT, 16},
        {"int8_t", PTXPACK_NUMBER_INT, 8},
        {"uint8_t", PTXPACK_NUMBER_UINT, 8},
        {"int4_t", PTXPACK_NUMBER_INT, 4},
        {"int4b_t", PTXPACK_NUMBER_INT, 4},
        {"uint4_t", PTXPACK_NUMBER_UINT, 4},
        {"uint4b_t", PTXPACK_NUMBER_UINT, 4},
        {"int2b_t", PTXPACK_NUMBER_INT, 2},
        {"int2_t", PTXPACK_NUMBER_INT, 2},
        {"uint2b_t", PTXPACK_NUMBER_UINT, 2},
        {"uint2_t", PTXPACK_NUMBER_UINT, 2},
        {"uint1b_t", PTXPACK_NUMBER_UINT, 1},
        {"uint1_t", PTXPACK_NUMBER_UINT, 1},
        {"bool", PTXPACK_NUMBER_UINT, 8},
        {"half2", PTXPACK_NUMBER_UINT, 32},
        {"uint128_t", PTXPACK_NUMBER_UINT, 128},
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strlen(types[i].name) == bytes && memcmp(types[i].name, name, bytes) == 0)
            return &types[i];
    return NULL;
}

/* ---- making -------------------------------------------------------------------------------------------- */
expr_value value_of_tensor(expr_tensor t)
{
    if (t.tensor.layout.shape.status != PTXPACK_OK)
        return value_of_tuple(tuple_failed(t.tensor.layout.shape.status));
    return (expr_value){.kind = EXPR_TENSOR, .as = {.tensor = t}};
}

expr_tensor tensor_failed_with(ptxpack_status status)
{
    return (expr_tensor){.tensor = {.layout = layout_failed(status)}};
}

static ptxpack_layout single(void)
{
    ptxpack_tuple one = ptxpack_int(1);
    return ptxpack_make_layout_left(&one);
}

expr_tensor pointer_to(const element_type *type, int bits, ptxpack_space space, uint64_t address, int bit)
{
    ptxpack_layout l = single();
    ptxpack_number number = type != NULL ? type->number : PTXPACK_NUMBER_INT;
    int            wide = type != NULL ? type->bits : bits;
    expr_tensor    out = {.tensor = ptxpack_make_tensor(address, wide, &l),
                          .engine = {.size = sizeof out.engine,
                                     .space = space,
                                     .number = number,
                                     .base = address,
                                     .iota_number = number,
                                     .iota_bits = wide}};
    out.tensor.bit = bit;
    return out;
}

expr_tensor pointer_counting(int64_t n)
{
    expr_tensor out = pointer_to(NULL, 8, PTXPACK_SPACE_ANY, counting_base + (uint64_t)n, 0);
    out.engine.counting = true;
    out.engine.base = counting_base;
    return out;
}

expr_tensor pointer_at_coordinate(const ptxpack_tuple *origin)
{
    expr_tensor out = {.tensor = {.layout = single(), .origin = *origin}};
    return origin->status == PTXPACK_OK ? out : tensor_failed_with(origin->status);
}

expr_tensor tensor_under(const expr_tensor *pointer, const ptxpack_layout *l)
{
    expr_tensor out = *pointer;
    out.tensor = ptxpack_tensor_view(&pointer->tensor, l);
    return out;
}

expr_tensor tensor_in_space(const expr_tensor *pointer, ptxpack_space space)
{
    expr_tensor out = *pointer;
    if (pointer->tensor.bits == 0 || pointer->engine.counting)
        return tensor_failed_with(tuple_error("this is no pointer to memory").status);
    out.engine.space = space;
    return out;
}

expr_tensor tensor_swizzled(const expr_tensor *pointer, ptxpack_swizzle swizzle)
{
    expr_tensor out = tensor_in_space(pointer, pointer->engine.space);
    out.engine.swizzle = swizzle;
    return out;
}

expr_tensor pointer_plus(const expr_tensor *pointer, int64_t count)
{
    ptxpack_tuple  size = ptxpack_int(1), stride = ptxpack_int(count), one = ptxpack_int(1);
    ptxpack_layout step = ptxpack_make_layout(&size, &stride), here = pointer->tensor.layout;
    expr_tensor    out = *pointer;
    out.tensor = ptxpack_tensor_view(&pointer->tensor, &step);
    out.tensor = ptxpack_tensor_domain_offset(&one, &out.tensor);
    return tensor_under(&out, &here);
}

expr_tensor tensor_moved(const expr_tensor *t, ptxpack_tensor moved)
{
    expr_tensor out = *t;
    out.tensor = moved;
    return out;
}

expr_tensor pointer_recast(const expr_tensor *pointer, const element_type *type)
{
    expr_tensor    out = *pointer;
    ptxpack_layout one = single();
    if (pointer->engine.counting || pointer->tensor.bits == 0)
        return tensor_failed_with(
            tuple_error("a pointer that counts has no memory to read as another type").status);
    out.tensor = ptxpack_make_tensor(pointer->tensor.address, type->bits, &one);
    out.tensor.bit = pointer->tensor.bit;
    out.engine.number = type->number;
    return out;
}

expr_tensor tensor_recast(const expr_tensor *t, const element_type *type)
{
    expr_tensor out = *t;
    if (t->engine.counting)
        return tensor_failed_with(
            tuple_error("a counting tensor has no memory to read as another type").status);
    out.tensor = ptxpack_tensor_recast(&t->tensor, type->bits);
    out.engine.number = type->number;
    return out;
}

expr_tensor tensor_owning(const expr_tensor *t, const element_type *type, ptxpack_layout l)
{
    element_type same = {"", PTXPACK_NUMBER_INT, 32};
    if (l.shape.status != PTXPACK_OK)
        return tensor_failed_with(l.shape.status);
    if (type == NULL && t->tensor.bits != 0 && !t->engine.counting)
        same = (element_type){"", t->engine.number, t->tensor.bits};
    expr_tensor pointer = pointer_to(type != NULL ? type : &same, 0, PTXPACK_SPACE_ANY, 0, 0);
    return tensor_under(&pointer, &l);
}

expr_tensor tensor_position_independent(const expr_tensor *t)
{
    expr_tensor    out = *t;
    ptxpack_layout bytes = single();
    if (t->engine.swizzle.bits == 0)
        return *t;
    bytes = ptxpack_make_composed(t->engine.swizzle, 0, &bytes);
    bytes = ptxpack_recast_layout(&bytes, 8, t->tensor.bits);
    if (bytes.shape.status != PTXPACK_OK)
        return tensor_failed_with(bytes.shape.status);
    ptxpack_layout l = ptxpack_make_composed(bytes.swizzle, 0, &t->tensor.layout);
    out.engine.swizzle = (ptxpack_swizzle){0, 0, 0};
    return tensor_under(&out, &l);
}

/* ---- .npy files ------------------------------------------------------------------------------------------ */
expr_tensor tensor_of_npy(expr_session *s, const char *path, uint64_t address)
{
    static const element_type types[NPY_TYPE_COUNT] = {
        [NPY_F16] = {"", PTXPACK_NUMBER_FLOAT, 16}, [NPY_F32] = {"", PTXPACK_NUMBER_FLOAT, 32},
        [NPY_F64] = {"", PTXPACK_NUMBER_FLOAT, 64}, [NPY_S8] = {"", PTXPACK_NUMBER_INT, 8},
        [NPY_S16] = {"", PTXPACK_NUMBER_INT, 16},   [NPY_S32] = {"", PTXPACK_NUMBER_INT, 32},
        [NPY_S64] = {"", PTXPACK_NUMBER_INT, 64},   [NPY_U8] = {"", PTXPACK_NUMBER_UINT, 8},
        [NPY_U16] = {"", PTXPACK_NUMBER_UINT, 16},  [NPY_U32] = {"", PTXPACK_NUMBER_UINT, 32},
        [NPY_U64] = {"", PTXPACK_NUMBER_UINT, 64},
    };
    npy_array array;
    char      line[NPY_LINE];
    if (!npy_read(path, &array, line))
        return tensor_failed_with(tuple_error("%s", line).status);
    void *memory = array.data;
    if (!session_keep_memory(s, memory))
        return tensor_failed_with(ptxpack_fail(NULL, PTXPACK_E_MEMORY, "out of memory"));
    ptxpack_tuple  shape = array.rank > 0 ? ptxpack_tuple_of(array.rank, array.shape) : ptxpack_int(1);
    ptxpack_layout l = ptxpack_make_layout_right(&shape);
    expr_tensor    out = pointer_to(&types[array.type], 0, PTXPACK_SPACE_ANY, address, 0);
    out.engine.memory = memory;
    out.engine.bytes = array.count * npy_element_bytes(array.type);
    return tensor_under(&out, &l);
}

/* ---- elements -------------------------------------------------------------------------------------------- */
expr_value value_of_text(expr_session *s, char *text)
{
    if (text == NULL || !session_keep_text(s, text))
        return value_of_tuple(tuple_failed(ptxpack_fail(NULL, PTXPACK_E_MEMORY, "out of memory")));
    return (expr_value){.kind = EXPR_TEXT, .as = {.text = text}};
}

expr_value tensor_element(expr_session *s, const expr_tensor *t, const ptxpack_tuple *coord)
{
    char text[PTXPACK_LAYOUT_TEXT];
    if (t->tensor.bits == 0)
        return value_of_tuple(ptxpack_tensor_coord(&t->tensor, coord));
    if (ptxpack_print_element(&t->tensor, &t->engine, coord, text, sizeof text) != PTXPACK_OK)
        return value_of_tuple(tuple_failed(PTXPACK_E_ARG));
    if (t->engine.counting || t->engine.number == PTXPACK_NUMBER_INT)
        return value_of_tuple(ptxpack_int(strtoll(text, NULL, 10)));
    return value_of_text(s, strdup(text));
}

/* ---- what print writes ------------------------------------------------------------------------------------- */
/* A layout's elements are its offsets, or its coordinates. */
static expr_tensor offsets_of(const ptxpack_layout *l, int64_t from)
{
    for (int i = 0; i < l->stride.items; i++)
        if (l->stride.kind[i] != 0 && l->stride.kind[i] != PTXPACK_EMPTY)
            return (expr_tensor){.tensor = ptxpack_make_coord_tensor(l)};
    expr_tensor counting = pointer_counting(from);
    return tensor_under(&counting, l);
}

expr_tensor expr_as_tensor(const expr_value *v)
{
    if (v->kind == EXPR_TENSOR || v->kind == EXPR_POINTER || v->kind == EXPR_VALUES)
        return v->as.tensor;
    ptxpack_layout l = expr_layout(v);
    if (l.shape.status != PTXPACK_OK)
        return tensor_failed_with(l.shape.status);
    bool        moved = v->kind == EXPR_SLICE;
    bool        counts = moved && !ptxpack_is_tuple(&v->as.slice.offset) && v->as.slice.offset.kind[0] == 0;
    expr_tensor t = offsets_of(&l, counts ? v->as.slice.offset.value[0] : 0);
    if (moved && t.tensor.bits == 0 && t.tensor.layout.shape.status == PTXPACK_OK)
        t.tensor.origin = ptxpack_as_arithmetic_tuple(&v->as.slice.offset);
    return t;
}

expr_value text_of_value(expr_session *s, const expr_value *v)
{
    char  *text = NULL;
    size_t bytes;
    FILE  *f = open_memstream(&text, &bytes);
    if (f != NULL && v->kind == EXPR_SLICE) { /* a tuple of both in CuTe */
        const expr_value layout = value_of_layout(v->as.slice.layout),
                         offset = value_of_tuple(v->as.slice.offset);
        fputc('(', f);
        expr_print(f, &layout);
        fputc(',', f);
        expr_print(f, &offset);
        fputc(')', f);
    } else if (f != NULL) {
        expr_print(f, v);
    }
    if (f != NULL)
        fclose(f);
    return value_of_text(s, text);
}

static bool too_large(const expr_tensor *t)
{
    return t->tensor.layout.shape.status == PTXPACK_OK && ptxpack_size(&t->tensor.layout) > EXPR_LIST &&
           ptxpack_rank(&t->tensor.layout.shape) <= 4;
}

expr_value text_of_tensor(expr_session *s, const expr_tensor *t)
{
    char          *text = NULL;
    size_t         bytes;
    ptxpack_status status = PTXPACK_E_MEMORY;
    if (too_large(t))
        return value_of_tuple(
            tuple_error("%s has more than %d elements", layout_text(&t->tensor.layout).text, EXPR_LIST));
    FILE *f = open_memstream(&text, &bytes);
    if (f != NULL) {
        status = ptxpack_print_tensor(f, &t->tensor, &t->engine);
        fclose(f);
    }
    if (status == PTXPACK_OK || text == NULL)
        return value_of_text(s, text);
    free(text);
    return value_of_tuple(tuple_failed(status));
}

expr_value text_of_named(expr_session *s, const char *name, const expr_value *v, bool elements)
{
    char      *text = NULL;
    expr_value content = elements ? text_of_tensor(s, &v->as.tensor) : text_of_value(s, v);
    if (value_status(&content) != PTXPACK_OK)
        return content;
    return value_of_text(s, asprintf(&text, "%s : %s\n", name, content.as.text) >= 0 ? text : NULL);
}

expr_value text_of_grid(expr_session *s, const expr_value *v)
{
    char          *text = NULL;
    size_t         bytes;
    ptxpack_status status = PTXPACK_E_MEMORY;
    ptxpack_layout l = expr_layout(v);
    FILE          *f = open_memstream(&text, &bytes);
    if (f != NULL) {
        status = draw_grid(f, &l);
        fclose(f);
    }
    if (status == PTXPACK_OK || text == NULL)
        return value_of_text(s, text);
    free(text);
    return value_of_tuple(tuple_failed(status));
}

int64_t expr_start(const expr_value *value)
{
    const ptxpack_tensor *t = &value->as.tensor.tensor;
    if (value->kind == EXPR_SLICE)
        return ptxpack_is_tuple(&value->as.slice.offset) ? 0 : value->as.slice.offset.value[0];
    if ((value->kind != EXPR_TENSOR && value->kind != EXPR_VALUES) || t->bits == 0)
        return 0;
    return ((int64_t)(t->address - value->as.tensor.engine.base) * 8 + t->bit) / t->bits;
}

/* ---- for other commands --------------------------------------------------------------------------------- */
static ptxpack_status evaluate(const char *text, expr_value *value)
{
    bool           assigned;
    expr_session  *session = expr_open();
    ptxpack_status status = PTXPACK_E_MEMORY;
    if (session != NULL)
        status = expr_evaluate(session, text, 0, strlen(text), value, &assigned);
    expr_close(session);
    return status;
}

ptxpack_status expr_slice(const char *text, ptxpack_slice *out)
{
    expr_value     value;
    ptxpack_status status = evaluate(text, &value);
    if (status != PTXPACK_OK)
        return status;
    *out = (ptxpack_slice){.layout = expr_layout(&value), .offset = ptxpack_int(expr_start(&value))};
    if (value.kind == EXPR_SLICE)
        *out = value.as.slice;
    else if (value.kind == EXPR_TENSOR && value.as.tensor.tensor.bits == 0)
        out->offset = value.as.tensor.tensor.origin;
    return out->layout.shape.status;
}

ptxpack_status expr_tiler(const char *text, ptxpack_layout *out)
{
    expr_value     value;
    ptxpack_status status = evaluate(text, &value);
    if (status != PTXPACK_OK)
        return status;
    *out = value.kind == EXPR_TUPLE    ? ptxpack_tiler_of(&value.as.tuple)
           : value.kind == EXPR_LAYOUT ? value.as.layout
                                       : expr_layout(&value);
    return out->shape.status;
}
