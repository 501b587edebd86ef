/* layout_calls.c - the functions of expressions: their names, arguments and effects. */
#include "layout_calls.h"

#include <inttypes.h>
#include <string.h>

#include "host/atom/inspect.h"
#include "host/layout/notation.h"
#include "host/layout/tensor.h"

/* ---- values ---------------------------------------------------------------------------------------- */
ptxpack_status value_status(const expr_value *v)
{
    switch (v->kind) {
    case EXPR_TUPLE:
        return v->as.tuple.status;
    case EXPR_LAYOUT:
        return v->as.layout.shape.status;
    case EXPR_TENSOR:
    case EXPR_POINTER:
    case EXPR_VALUES:
        return v->as.tensor.tensor.layout.shape.status;
    case EXPR_SLICE:
        return v->as.slice.layout.shape.status != PTXPACK_OK ? v->as.slice.layout.shape.status
                                                             : v->as.slice.offset.status;
    default:
        return PTXPACK_OK;
    }
}

expr_value value_of_tuple(ptxpack_tuple t) { return (expr_value){.kind = EXPR_TUPLE, .as = {.tuple = t}}; }

/* A mode of a tiler can be an integer or `_`. */
expr_value value_of_layout(ptxpack_layout l)
{
    if (l.shape.status == PTXPACK_OK && l.shape.items == 1 && l.shape.depth[0] == 0 &&
        l.stride.kind[0] == PTXPACK_UNDERSCORE)
        return value_of_tuple(l.shape);
    return (expr_value){.kind = EXPR_LAYOUT, .as = {.layout = l}};
}

static expr_value value_of_int(int64_t n) { return value_of_tuple(ptxpack_int(n)); }

/* The result of a function that returns 0 on an error. */
static expr_value value_of_count(int64_t n)
{
    return n > 0 ? value_of_int(n) : value_of_tuple(tuple_failed(PTXPACK_E_ARG));
}

static expr_value value_of_slice(ptxpack_slice s)
{
    return (expr_value){.kind = EXPR_SLICE, .as = {.slice = s}};
}

static bool is_integer(const expr_value *v)
{
    return v->kind == EXPR_TUPLE && !ptxpack_is_tuple(&v->as.tuple) && v->as.tuple.kind[0] == 0;
}

static bool is_tiler(const expr_value *v) { return v->kind == EXPR_LAYOUT && ptxpack_is_tiler(&v->as.layout); }

/* <4,(2,_)> means the same as (4,(2,_)). */
static bool is_tuple_tiler(const expr_value *v)
{
    if (!is_tiler(v))
        return false;
    for (int i = 0; i < v->as.layout.stride.items; i++)
        if (v->as.layout.stride.kind[i] != PTXPACK_UNDERSCORE)
            return false;
    return true;
}

ptxpack_layout expr_layout(const expr_value *v)
{
    if (v->kind == EXPR_TUPLE)
        return ptxpack_make_layout_left(&v->as.tuple);
    if (v->kind == EXPR_LAYOUT && !is_tiler(v))
        return v->as.layout;
    if (v->kind == EXPR_SLICE)
        return v->as.slice.layout;
    if (v->kind == EXPR_TENSOR)
        return v->as.tensor.tensor.layout;
    if (is_tiler(v))
        return layout_error("%s is a tiler, not a layout", layout_text(&v->as.layout).text);
    return layout_error("a %s is not a layout", v->kind == EXPR_POINTER ? "pointer"
                                                : v->kind == EXPR_TEXT  ? "text"
                                                                        : "swizzle or a list of values");
}

static ptxpack_layout tiler_of(const expr_value *v)
{
    return v->kind == EXPR_TUPLE ? ptxpack_tiler_of(&v->as.tuple) : v->as.layout;
}

static expr_value join_tuples(const expr_value *values, int count)
{
    ptxpack_tuple modes[CALL_ARGUMENTS];
    for (int i = 0; i < count; i++)
        modes[i] = values[i].as.tuple;
    return value_of_tuple(ptxpack_tuple_join(count, modes));
}

static expr_value join_layouts(const expr_value *values, int count, bool tiler)
{
    ptxpack_layout modes[CALL_ARGUMENTS];
    for (int i = 0; i < count; i++)
        modes[i] = tiler ? tiler_of(&values[i]) : expr_layout(&values[i]);
    return value_of_layout(tiler ? ptxpack_make_tiler(count, modes) : ptxpack_layout_join(count, modes));
}

expr_value value_join(const expr_value *values, int count, bool tiler)
{
    bool tuples = true;
    for (int i = 0; i < count; i++) {
        if (values[i].kind != EXPR_TUPLE && values[i].kind != EXPR_LAYOUT)
            return value_of_tuple(tuple_error("item %d is neither a tuple nor a layout", i));
        tuples = tuples && values[i].kind == EXPR_TUPLE;
    }
    return tuples && !tiler ? join_tuples(values, count) : join_layouts(values, count, true);
}

static expr_value apply_layout(const ptxpack_layout *l, const ptxpack_tuple *coord)
{
    if (ptxpack_has_underscore(coord))
        return value_of_layout(ptxpack_layout_slice(coord, l));
    return value_of_tuple(ptxpack_layout_crd2idx(l, coord));
}

/* The part that meets `_`, or the element. */
static expr_value apply_tensor(expr_session *s, const expr_tensor *t, const ptxpack_tuple *coord)
{
    if (ptxpack_has_underscore(coord))
        return value_of_tensor(tensor_moved(t, ptxpack_tensor_slice(coord, &t->tensor)));
    return tensor_element(s, t, coord);
}

expr_value value_apply(expr_session *s, const expr_value *function, const expr_value *coord)
{
    if (function->kind == EXPR_SWIZZLE && is_integer(coord))
        return value_of_int(ptxpack_swizzle_apply(function->as.swizzle, coord->as.tuple.value[0]));
    if (function->kind == EXPR_SWIZZLE)
        return value_of_tuple(tuple_error("a swizzle is applied to an integer"));
    if (coord->kind != EXPR_TUPLE)
        return value_of_tuple(tuple_error("a layout is applied to something that is not a coordinate"));
    if (function->kind == EXPR_LAYOUT && !is_tiler(function))
        return apply_layout(&function->as.layout, &coord->as.tuple);
    if (function->kind == EXPR_TENSOR)
        return apply_tensor(s, &function->as.tensor, &coord->as.tuple);
    return value_of_tuple(tuple_error("only layouts and swizzles are applied to coordinates"));
}

/* ---- what the functions need besides the library --------------------------------------------------- */
static expr_value value_of_values(expr_tensor t)
{
    if (t.tensor.layout.shape.status == PTXPACK_OK && ptxpack_size(&t.tensor.layout) > EXPR_LIST)
        return value_of_tuple(
            tuple_error("%s has more than %d values", layout_text(&t.tensor.layout).text, EXPR_LIST));
    int64_t size = t.engine.counting ? 0 : ptxpack_size(&t.tensor.layout);
    for (int64_t i = 0; i < size; i++) { /* so that printing cannot fail */
        char           text[8];
        ptxpack_tuple  index = ptxpack_int(i);
        ptxpack_status status = ptxpack_print_element(&t.tensor, &t.engine, &index, text, sizeof text);
        if (status != PTXPACK_OK)
            return value_of_tuple(tuple_failed(status));
    }
    return (expr_value){.kind = EXPR_VALUES, .as = {.tensor = t}};
}

static expr_value value_of_pointer(expr_tensor t)
{
    expr_value v = value_of_tensor(t);
    v.kind = v.kind == EXPR_TENSOR ? EXPR_POINTER : v.kind;
    return v;
}

/* The pointer of a tensor. */
static expr_tensor data_of(const expr_tensor *t)
{
    ptxpack_tuple  one = ptxpack_int(1);
    ptxpack_layout l = ptxpack_make_layout_left(&one);
    return tensor_under(t, &l);
}

static expr_tensor smem_swizzled(const expr_tensor *pointer, ptxpack_swizzle swizzle)
{
    expr_tensor smem = tensor_in_space(pointer, PTXPACK_SPACE_SHARED);
    return tensor_swizzled(&smem, swizzle);
}

/* A pointer to type, 32-bit integers without one, at an address. */
static expr_tensor pointer_of(const expr_call *c, ptxpack_space space)
{
    return pointer_to(c->type, 32, space, (uint64_t)c->args[0].as.tuple.value[0], 0);
}

/* The modes of all tuples, or of all layouts, side by side. */
static expr_value concat(const expr_value *values, int count, bool tuples)
{
    ptxpack_layout modes[CALL_ARGUMENTS], l;
    ptxpack_tuple  parts[CALL_ARGUMENTS], shape;
    int            used = 0;
    for (int i = 0; i < count; i++) {
        l = tuples ? layout_failed(PTXPACK_E_ARG) : expr_layout(&values[i]);
        shape = tuples ? values[i].as.tuple : l.shape;
        for (int mode = 0; mode < ptxpack_rank(&shape); mode++, used++) {
            if (used == CALL_ARGUMENTS)
                return value_of_tuple(tuple_error("more than %d modes", CALL_ARGUMENTS));
            if (tuples)
                parts[used] = ptxpack_is_tuple(&shape) ? ptxpack_get(&shape, mode) : shape;
            else
                modes[used] = ptxpack_is_tuple(&shape) ? ptxpack_mode(&l, mode) : l;
        }
    }
    return tuples ? value_of_tuple(ptxpack_tuple_join(used, parts))
                  : value_of_layout(ptxpack_layout_join(used, modes));
}

static expr_value value_of_any(expr_value v) { return v; }

/* A swizzle alone changes with the width of elements as the swizzle of a layout does. */
static ptxpack_layout swizzled(ptxpack_swizzle swizzle)
{
    ptxpack_tuple  one = ptxpack_int(1);
    ptxpack_layout l = ptxpack_make_layout(&one, &one);
    return ptxpack_make_composed(swizzle, 0, &l);
}

static expr_value value_of_swizzle_of(ptxpack_layout l)
{
    if (l.shape.status != PTXPACK_OK)
        return value_of_layout(l);
    return (expr_value){.kind = EXPR_SWIZZLE, .as = {.swizzle = l.swizzle}};
}

/* l(swizzle(i)) */
static ptxpack_layout compose_swizzle(const ptxpack_layout *l, ptxpack_swizzle swizzle)
{
    ptxpack_layout index = ptxpack_make_layout_left(&l->shape);
    index = ptxpack_make_composed(swizzle, 0, &index);
    return swizzle.bits == 0 ? *l : ptxpack_composition(l, &index);
}

/* a(b(x)), if that is a swizzle: bits that both move in the same way return to their place. */
static expr_value compose_swizzles(ptxpack_swizzle a, ptxpack_swizzle b)
{
    uint64_t moved = ((1ull << a.bits) - 1) << a.base ^ ((1ull << b.bits) - 1) << b.base;
    int      bits = __builtin_popcountll(moved), base = moved != 0 ? __builtin_ctzll(moved) : 0;
    if (a.shift != b.shift || moved >> base != (1ull << bits) - 1)
        return value_of_tuple(tuple_error("the two swizzles do not make one"));
    ptxpack_swizzle out = {(int8_t)bits, (int8_t)base, (int8_t)(bits > 0 ? a.shift : 0)};
    return (expr_value){.kind = EXPR_SWIZZLE, .as = {.swizzle = out}};
}

static ptxpack_tuple cosize(const ptxpack_layout *l)
{
    ptxpack_tuple shape = ptxpack_coshape(l);
    return ptxpack_product(&shape);
}

static ptxpack_layout zip_modes(const ptxpack_layout *l)
{
    ptxpack_tuple shape = ptxpack_zip(&l->shape), stride = ptxpack_zip(&l->stride);
    return ptxpack_make_layout(&shape, &stride);
}

static ptxpack_tuple compact(const ptxpack_tuple *shape, bool right)
{
    return right ? ptxpack_compact_row_major(shape, NULL) : ptxpack_compact_col_major(shape, NULL);
}

static ptxpack_layout ordered(const ptxpack_tuple *shape, bool right)
{
    return right ? ptxpack_make_layout_right(shape) : ptxpack_make_layout_left(shape);
}

static ptxpack_layout tile_to_shape(const ptxpack_layout *block, const ptxpack_tuple *shape, bool right)
{
    int64_t order[PTXPACK_TUPLE_ITEMS];
    int     rank = ptxpack_rank(shape);
    for (int i = 0; i < rank; i++)
        order[i] = right ? rank - i : i;
    ptxpack_tuple modes = ptxpack_tuple_of(rank, order);
    return ptxpack_tile_to_shape(block, shape, &modes);
}

/* ---- the table --------------------------------------------------------------------------------------- */
#define T(i)        (&c->args[i].as.tuple)
#define L(i)        (&c->args[i].as.layout)
#define I(i)        (c->args[i].as.tuple.value[0])
#define SW(i)       (c->args[i].as.swizzle)
#define RIGHT(i)    (c->args[i].as.right)
#define N(i)        (c->number[i])
#define MAY_T(i)    (c->count > (i) ? T(i) : NULL)
#define MAY_L(i)    (c->count > (i) ? L(i) : NULL)
#define X(i)        (&c->args[i].as.tensor)
#define P(i)        (&c->args[i].as.tensor)
#define IN(i, made) tensor_moved(X(i), made)
#define SWIZZLED(i) ((const ptxpack_layout[]){swizzled(SW(i))})

#define FUNCTION(name, letter, numbers, takes, gives, how) \
    static expr_value run_##name##_##letter(const expr_call *c) { return value_of_##gives(how); }
#include "layout_functions.def"
#undef FUNCTION

typedef struct function {
    const char *name;
    char        numbers;
    const char *takes;
    expr_value (*run)(const expr_call *c);
} function;

static const function functions[] = {
#define FUNCTION(name, letter, numbers, takes, gives, how) {#name, numbers, takes, run_##name##_##letter},
#include "layout_functions.def"
#undef FUNCTION
    {NULL, 0, NULL, NULL},
};

static const function *next_of(const function *f, const char *name, size_t bytes)
{
    for (; f->name != NULL; f++)
        if (strlen(f->name) == bytes && memcmp(f->name, name, bytes) == 0)
            return f;
    return NULL;
}

bool call_is_known(const char *name, size_t bytes) { return next_of(functions, name, bytes) != NULL; }

const char *call_nearest(const char *name, size_t bytes)
{
    struct near_names near;
    char              wanted[NEAR_BYTES];
    if (bytes >= sizeof wanted)
        return NULL;
    memcpy(wanted, name, bytes);
    wanted[bytes] = '\0';
    near_begin(&near, wanted);
    for (const function *f = functions; f->name != NULL; f++)
        near_offer(&near, f->name);
    if (near.distance[0] > (int)bytes / 4)
        return NULL;
    for (const function *f = functions; f->name != NULL; f++)
        if (strcmp(f->name, near.name[0]) == 0 && (strlen(f->name) <= bytes + 2))
            return f->name;
    return NULL;
}

/* ---- does a row fit? ----------------------------------------------------------------------------------- */
static bool takes_numbers(char numbers, const expr_call *c)
{
    if (numbers == 'T' || numbers == 't')
        return c->numbers == 0 && (c->type != NULL || numbers == 't');
    if (c->type != NULL)
        return false;
    return numbers == 'p' || (numbers == '+' ? c->numbers > 0 : numbers - '0' == c->numbers);
}

static bool takes_value(char wanted, const expr_value *v)
{
    bool tensor = v->kind == EXPR_TENSOR, layout = (v->kind == EXPR_LAYOUT && !is_tiler(v)) || tensor;
    switch (wanted) {
    case 'a':
        return v->kind != EXPR_ORDER;
    case 'x':
        return layout || v->kind == EXPR_TUPLE || v->kind == EXPR_SLICE;
    case 'X':
        return tensor;
    case 'p':
        return tensor || v->kind == EXPR_POINTER;
    case 'q':
        return v->kind == EXPR_TEXT;
    case 't':
        return v->kind == EXPR_TUPLE || is_tuple_tiler(v);
    case 'i':
        return is_integer(v);
    case 'l':
        return layout;
    case 'L':
        return layout || v->kind == EXPR_TUPLE || v->kind == EXPR_SLICE;
    case 'v':
        return v->kind == EXPR_TUPLE || v->kind == EXPR_LAYOUT || tensor;
    case 'T':
        return v->kind == EXPR_TUPLE || v->kind == EXPR_LAYOUT;
    case 's':
        return v->kind == EXPR_SWIZZLE;
    default:
        return wanted == 'o' && v->kind == EXPR_ORDER;
    }
}

static bool takes_arguments(const char *takes, const expr_call *c)
{
    bool optional = false;
    int  i = 0;
    for (; *takes != '\0'; takes++) {
        char wanted = *takes, repeat = takes[1] == '+' || takes[1] == '*' ? takes[1] : '\0';
        int  first = i;
        if (wanted == '?') {
            optional = true;
            continue;
        }
        while (i < c->count && takes_value(wanted, &c->args[i]) && (repeat != '\0' || i == first))
            i++;
        if (i == first && repeat != '*' && !(optional && i == c->count))
            return false;
        takes += repeat != '\0';
    }
    return i == c->count;
}

/* ---- arguments as the row takes them ------------------------------------------------------------------- */
static void convert(char wanted, expr_value *v)
{
    if (wanted == 't' && v->kind == EXPR_LAYOUT)
        *v = value_of_tuple(v->as.layout.shape);
    else if (wanted == 'x')
        *v = value_of_tensor(expr_as_tensor(v));
    else if (wanted == 'L' || (v->kind == EXPR_TENSOR && strchr("lTv", wanted) != NULL))
        *v = (expr_value){.kind = EXPR_LAYOUT, .as = {.layout = expr_layout(v)}};
    else if (wanted == 'T')
        *v = (expr_value){.kind = EXPR_LAYOUT, .as = {.layout = tiler_of(v)}};
}

static void convert_all(const char *takes, expr_call *c)
{
    int i = 0;
    for (; *takes != '\0' && *takes != '*' && i < c->count; takes++) {
        if (*takes == '?')
            continue;
        bool several = takes[1] == '+' && (c->count > i + 1 || *takes == 'l');
        if (several && *takes == 'l')
            c->args[i] = join_layouts(&c->args[i], c->count - i, false);
        else if (several)
            c->args[i] = value_join(&c->args[i], c->count - i, *takes == 'T');
        else if (takes[1] != '*')
            convert(*takes, &c->args[i]);
        if (takes[1] == '+')
            c->count = i + 1;
        i++;
    }
}

/* Replace the first argument by the mode of it that the numbers name. */
static void pick_mode(const expr_call *c)
{
    expr_value *v = &c->args[0];
    for (int i = 0; i < c->numbers && value_status(v) == PTXPACK_OK; i++) {
        int mode = c->number[i];
        if (v->kind == EXPR_TUPLE)
            *v = value_of_tuple(ptxpack_get(&v->as.tuple, mode));
        else if (v->kind == EXPR_LAYOUT)
            *v = value_of_layout(ptxpack_mode(&v->as.layout, mode));
        else if (v->kind == EXPR_TENSOR)
            *v = value_of_layout(ptxpack_mode(&v->as.tensor.tensor.layout, mode));
        else if (v->kind == EXPR_SLICE && (mode == 0 || mode == 1))
            *v = mode == 0 ? value_of_layout(v->as.slice.layout) : value_of_tuple(v->as.slice.offset);
        else
            *v = value_of_tuple(tuple_error("there is no mode %d", mode));
    }
}

/* ---- saying no ----------------------------------------------------------------------------------------- */
typedef struct line {
    char   text[400];
    size_t length;
} line;

static void add(line *to, const char *text)
{
    size_t room = sizeof to->text - to->length - 1, bytes = strlen(text);
    bytes = bytes < room ? bytes : room;
    memcpy(to->text + to->length, text, bytes);
    to->length += bytes;
    to->text[to->length] = '\0';
}

static const char *name_of(char wanted)
{
    static const struct {
        char        letter;
        const char *name;
    } names[] = {{'t', "tuple"},  {'i', "integer"}, {'l', "layout"},     {'L', "layout"},
                 {'T', "tiler"},  {'s', "swizzle"}, {'o', "LayoutLeft"}, {'v', "tuple or layout"},
                 {'x', "tensor"}, {'X', "tensor"},  {'p', "pointer"},    {'q', "\"text\""},
                 {'a', "value"},  {'?', "["},       {'+', "..."},        {'*', "..."}};
    size_t i = 0;
    while (names[i].letter != wanted)
        i++;
    return names[i].name;
}

/* "<N,N>(tuple, tuple[, tuple])" */
static void add_form(line *to, const function *f)
{
    add(to, f->numbers == '1'   ? "<N>"
            : f->numbers == '2' ? "<N,N>"
            : f->numbers == '+' ? "<N,...>"
            : f->numbers == 'T' ? "<type>"
                                : "");
    add(to, "(");
    for (const char *p = f->takes; *p != '\0'; p++) {
        if (p != f->takes && *p != '+' && *p != '*' && p[-1] != '?')
            add(to, *p == '?' ? "" : ", ");
        add(to, name_of(*p));
        if (*p == '?')
            add(to, ", ");
        if (p > f->takes && p[-1] == '?')
            add(to, "]");
    }
    add(to, ")");
}

static const char *kind_of(const expr_value *v)
{
    static const char *const names[] = {"tuple",           "layout",  "swizzle",
                                        "layout + offset", "values",  "LayoutLeft",
                                        "tensor",          "pointer", "text"};
    return is_integer(v) ? "integer" : is_tiler(v) ? "tiler" : names[v->kind];
}

/* Would the two arguments fit if they changed places? */
static bool fits_swapped(const expr_call *c)
{
    if (c->count != 2)
        return false;
    expr_value other[2] = {c->args[1], c->args[0]};
    expr_call  swapped = *c;
    swapped.args = other;
    for (const function *f = functions; (f = next_of(f, c->name, c->name_bytes)) != NULL; f++)
        if (takes_numbers(f->numbers, &swapped) && takes_arguments(f->takes, &swapped))
            return true;
    return false;
}

/* The call with its two arguments in the other order. */
static void add_swapped(line *to, const expr_call *c)
{
    char name[64];
    snprintf(name, sizeof name, "%.*s(", (int)c->name_bytes, c->name);
    add(to, name);
    for (int i = 1; i >= 0; i--) {
        const expr_value *v = &c->args[i];
        add(to, v->kind == EXPR_TUPLE    ? tuple_text(&v->as.tuple).text
                : v->kind == EXPR_LAYOUT ? layout_text(&v->as.layout).text
                                         : kind_of(v));
        add(to, i > 0 ? "," : ")?");
    }
}

static bool say_forms(const expr_call *c)
{
    line forms = {.length = 0}, given = {.length = 0};
    int  rows = 0;
    for (const function *f = functions; (f = next_of(f, c->name, c->name_bytes)) != NULL; f++) {
        add(&forms, rows++ > 0 ? " or " : "");
        add_form(&forms, f);
    }
    add(&given, c->numbers > 0 ? "<...>(" : "(");
    for (int i = 0; i < c->count; i++) {
        add(&given, i > 0 ? ", " : "");
        add(&given, kind_of(&c->args[i]));
    }
    add(&given, ")");
    if (fits_swapped(c)) {
        add(&given, "; did you mean ");
        add_swapped(&given, c);
    }
    tuple_error("%.*s takes %s, not %s", (int)c->name_bytes, c->name, forms.text, given.text);
    return false;
}

static bool run_on_values(const expr_call *given, expr_value *result)
{
    expr_call c = *given;
    for (const function *f = functions; (f = next_of(f, c.name, c.name_bytes)) != NULL; f++) {
        if (f->numbers == 'p' && c.count > 0) {
            pick_mode(&c);
            c.numbers = 0;
            if (value_status(&c.args[0]) != PTXPACK_OK)
                return false;
        }
        if (!takes_numbers(f->numbers, &c) || !takes_arguments(f->takes, &c))
            continue;
        convert_all(f->takes, &c);
        for (int i = 0; i < c.count; i++)
            if (value_status(&c.args[i]) != PTXPACK_OK)
                return false;
        *result = f->run(&c);
        return value_status(result) == PTXPACK_OK;
    }
    return say_forms(&c);
}

/* CuTe's functions of tensors that change the layout and keep the start. */
static bool is_view(const expr_call *c)
{
    static const char *const names[] = {"flatten",     "coalesce",       "filter",        "filter_zeros",
                                        "group_modes", "take",           "select",        "compose",
                                        "tile",        "logical_divide", "zipped_divide", "tiled_divide",
                                        "flat_divide", "with_shape"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i]) == c->name_bytes && memcmp(names[i], c->name, c->name_bytes) == 0)
            return c->count > 0 && c->args[0].kind == EXPR_TENSOR;
    return false;
}

bool call_run(const expr_call *c, expr_value *result)
{
    if (!is_view(c))
        return run_on_values(c, result);
    expr_tensor tensor = c->args[0].as.tensor;
    c->args[0] = value_of_layout(tensor.tensor.layout);
    if (!run_on_values(c, result))
        return false;
    if (result->kind == EXPR_LAYOUT)
        *result = value_of_tensor(tensor_under(&tensor, &result->as.layout));
    return value_status(result) == PTXPACK_OK;
}
