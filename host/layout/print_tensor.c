/* print_tensor.c - tensors as text: CuTe's print and print_tensor. */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "internal.h"
#include "loader/loader.h"
#include "tensor.h"

enum { ELEMENT_TEXT = 400 }; /* a double in %f has up to 310 characters */

/* ---- floats ------------------------------------------------------------------------------------------ */
/* sign, exponent, fraction, from the highest bit on; `below` more bits are ignored. */
typedef struct float_form {
    int      bits, exponent, fraction, below;
    bool     infinite;   /* the highest exponent is kept for infinity and NaN */
    uint64_t largest;    /* what greater integers become, without the ignored bits */
    int      width;      /* of pretty_print's text */
    bool     scientific; /* and its form: %.2e, otherwise %.2f */
} float_form;

static const float_form *form_of(ptxpack_number number, int bits)
{
    static const float_form ieee[] = {{16, 5, 10, 0, true, 0x7c00, 8, false},
                                      {32, 8, 23, 0, true, 0x7f800000, 10, true},
                                      {64, 11, 52, 0, true, 0x7ff0000000000000, 11, true}};
    static const float_form forms[] = {
        [PTXPACK_NUMBER_BF16] = {16, 8, 7, 0, true, 0x7f80, 8, false},
        [PTXPACK_NUMBER_TF32] = {32, 8, 10, 13, true, 0x3fc00, 10, true},
        [PTXPACK_NUMBER_E4M3] = {8, 4, 3, 0, false, 0x7e, 8, false},
        [PTXPACK_NUMBER_E5M2] = {8, 5, 2, 0, true, 0x7b, 8, false},
        [PTXPACK_NUMBER_E3M2] = {6, 3, 2, 0, false, 0x1f, 8, false},
        [PTXPACK_NUMBER_E2M3] = {6, 2, 3, 0, false, 0x1f, 8, false},
        [PTXPACK_NUMBER_E2M1] = {4, 2, 1, 0, false, 0x7, 8, false},
    };
    if (number == PTXPACK_NUMBER_FLOAT) {
        for (int i = 0; i < 3; i++)
            if (ieee[i].bits == bits)
                return &ieee[i];
        return NULL;
    }
    bool known = number >= PTXPACK_NUMBER_BF16 && number <= PTXPACK_NUMBER_E2M1;
    return known && forms[number].bits == bits ? &forms[number] : NULL;
}

/* Has this number a form of `bits` bits? */
static bool element_has_bits(ptxpack_number number, int bits)
{
    if (number == PTXPACK_NUMBER_INT || number == PTXPACK_NUMBER_UINT)
        return bits >= 1 && bits <= 64;
    return form_of(number, bits) != NULL;
}

static uint64_t low_bits(int count) { return count >= 64 ? UINT64_MAX : ((uint64_t)1 << count) - 1; }

static uint64_t encode_float(const float_form *form, int64_t n)
{
    uint64_t magnitude = n < 0 ? 0 - (uint64_t)n : (uint64_t)n, sign = n < 0, code = 0;
    if (magnitude != 0) {
        int      top = 63 - __builtin_clzll(magnitude), drop = top - form->fraction;
        uint64_t kept = drop <= 0 ? magnitude << -drop : magnitude >> drop;
        if (drop > 0) {
            uint64_t rest = magnitude & low_bits(drop), half = (uint64_t)1 << (drop - 1);
            kept += rest > half ||
                    (rest == half && (kept & 1) != 0); /* a carry raises the exponent, as it should */
        }
        uint64_t exponent = (uint64_t)top + low_bits(form->exponent - 1);
        code = (exponent << form->fraction) + (kept - ((uint64_t)1 << form->fraction));
    }
    code = code > form->largest ? form->largest : code;
    return (code | sign << (form->exponent + form->fraction)) << form->below;
}

static double power_of_two(int exponent)
{
    double power = 1;
    for (; exponent > 0; exponent--)
        power *= 2;
    for (; exponent < 0; exponent++)
        power /= 2;
    return power;
}

static double decode_float(const float_form *form, uint64_t raw)
{
    double   value;
    uint64_t code = (raw & low_bits(form->bits)) >> form->below;
    uint64_t fraction = code & low_bits(form->fraction);
    uint64_t exponent = code >> form->fraction & low_bits(form->exponent);
    bool     negative = (code >> (form->fraction + form->exponent)) != 0;
    int      bias = (int)low_bits(form->exponent - 1);
    bool     nan_of_e4m3 = form->bits == 8 && !form->infinite && (code & 0x7f) == 0x7f;
    if (form->bits == 64) {
        memcpy(&value, &raw, sizeof value);
        return value;
    }
    if ((form->infinite && exponent == low_bits(form->exponent)) || nan_of_e4m3)
        value = fraction != 0 ? __builtin_nan("") : __builtin_inf();
    else if (exponent == 0)
        value = (double)fraction * power_of_two(1 - bias - form->fraction);
    else
        value = (double)(fraction | (uint64_t)1 << form->fraction) *
                power_of_two((int)exponent - bias - form->fraction);
    return negative ? -value : value;
}

/* The bits of the integer n as such a number, rounded to nearest even.  Small floats without infinity, and e5m2, saturate. */
static uint64_t element_encode(ptxpack_number number, int bits, int64_t n)
{
    const float_form *form = form_of(number, bits);
    return form != NULL ? encode_float(form, n) : (uint64_t)n & low_bits(bits);
}

/* ---- elements as text -------------------------------------------------------------------------------------------- */
static int64_t sign_extended(uint64_t raw, int bits) { return (int64_t)(raw << (64 - bits)) >> (64 - bits); }

/* CuTe pads integers to 5 places where it has a pretty_print for their type: of 32 and 64 bits and of less than 8; to 3
 * places single bits; others get two blanks. */
static void integer_text(bool is_signed, int bits, uint64_t raw, bool pretty, char text[ELEMENT_TEXT])
{
    int         width = bits == 1 ? 3 : bits < 8 || bits == 32 || bits == 64 ? 5 : 0;
    const char *before = pretty && width == 0 ? "  " : "";
    raw &= low_bits(bits);
    width = pretty ? width : 0;
    if (bits == 32 &&
        pretty) /* CuTe's pretty_print shows 32 bits as a signed integer, also those of uint32_t */
        is_signed = true;
    if (is_signed && bits > 1)
        snprintf(text, ELEMENT_TEXT, "%s%*" PRId64, before, width, sign_extended(raw, bits));
    else
        snprintf(text, ELEMENT_TEXT, "%s%*" PRIu64, before, width, raw);
}

/* The lowest `bits` bits of `raw`, as CuTe's print writes them, or, `pretty`, its pretty_print. */
static void element_print(ptxpack_number number, int bits, uint64_t raw, bool pretty, char text[ELEMENT_TEXT])
{
    const float_form *form = form_of(number, bits);
    if (form == NULL)
        integer_text(number == PTXPACK_NUMBER_INT, bits, raw, pretty, text);
    else if (!pretty)
        snprintf(text, ELEMENT_TEXT, "%f", decode_float(form, raw));
    else if (form->scientific)
        snprintf(text, ELEMENT_TEXT, "%*.*e", form->width, bits == 64 ? 3 : 2, decode_float(form, raw));
    else
        snprintf(text, ELEMENT_TEXT, "%*.2f", form->width, decode_float(form, raw));
}

/* ---- where the text goes ------------------------------------------------------------------------------ */
/* A file, or else a buffer of `cap` bytes, which is cut. */
typedef struct tensor_writer {
    FILE  *f;
    char  *text;
    size_t cap, length;
} tensor_writer;

static void put(tensor_writer *w, const char *piece)
{
    size_t bytes = strlen(piece);
    if (w->f != NULL) {
        fwrite(piece, 1, bytes, w->f);
    } else if (w->length + 1 < w->cap) {
        size_t room = w->cap - w->length - 1, taken = bytes < room ? bytes : room;
        memcpy(w->text + w->length, piece, taken);
        w->text[w->length + taken] = '\0';
    }
    w->length += bytes;
}

static tensor_writer buffer_writer(char *text, size_t cap)
{
    if (text != NULL && cap > 0)
        text[0] = '\0';
    return (tensor_writer){.text = text, .cap = text != NULL ? cap : 0};
}

/* ---- the line of print ---------------------------------------------------------------------------------- */
/* How many elements from `base` on a tensor starts. */
static int64_t count_from_base(const ptxpack_tensor *t, const ptxpack_engine *engine, uint64_t address, int bit)
{
    int64_t distance = (int64_t)(address - engine->base);
    return t->bits >= 8 ? distance / (t->bits / 8) : (distance * 8 + bit) / t->bits;
}

static void put_pointer(tensor_writer *w, const ptxpack_tensor *t, const ptxpack_engine *engine)
{
    static const char *const spaces[] = {"", "rmem_", "smem_", "gmem_"};
    const ptxpack_swizzle    s = engine->swizzle;
    char                     piece[80], address[24];
    if (engine->counting) {
        snprintf(piece, sizeof piece, "counting_iter(%" PRId64 ")",
                 count_from_base(t, engine, t->address, t->bit));
        put(w, piece);
        return;
    }
    if (s.bits != 0) {
        snprintf(piece, sizeof piece, "Sw<%d,%d,%d>_", s.bits, s.base, s.shift);
        put(w, piece);
    }
    put(w, spaces[engine->space]);
    snprintf(address, sizeof address, t->address != 0 ? "0x%" PRIx64 : "(nil)", t->address);
    if (t->bits % 8 != 0)
        snprintf(piece, sizeof piece, "subptr[%db](%s.%d)", t->bits, address, t->bit);
    else
        snprintf(piece, sizeof piece, "ptr[%db](%s)", t->bits, address);
    put(w, piece);
}

static void put_line(tensor_writer *w, const ptxpack_tensor *t, const ptxpack_engine *engine)
{
    char text[PTXPACK_LAYOUT_TEXT];
    if (t->bits == 0) {
        ptxpack_tuple_print(&t->origin, text, sizeof text);
        put(w, "ArithTuple");
        put(w, text);
    } else {
        put_pointer(w, t, engine);
    }
    ptxpack_layout_print(&t->layout, text, sizeof text);
    put(w, " o ");
    put(w, text);
}

/* ---- elements -------------------------------------------------------------------------------------------- */
/* Up to 8 bits of what stands at bit `bit` of the byte at `address`, all in this byte. */
static ptxpack_status read_piece(const ptxpack_engine *engine, uint64_t address, int bit, int count,
                                 uint64_t *out)
{
    uint64_t at = engine->swizzle.bits != 0 ? (uint64_t)ptxpack_swizzle_apply(engine->swizzle, (int64_t)address)
                                            : address;
    uint64_t offset = at - engine->base, byte;
    if (engine->memory != NULL) {
        if (offset >= engine->bytes)
            return ptxpack_fail(NULL, PTXPACK_E_ARG,
                                "address 0x%" PRIx64 " is outside of the memory, %" PRIu64
                                " bytes from 0x%" PRIx64 " on",
                                at, engine->bytes, engine->base);
        byte = ((const unsigned char *)engine->memory)[offset];
    } else if (engine->iota_bits >= 8) {
        int     width = engine->iota_bits / 8;
        int64_t n = (int64_t)offset / width, within = (int64_t)offset % width;
        if (within < 0) { /* before the base */
            within += width;
            n--;
        }
        byte = element_encode(engine->iota_number, engine->iota_bits, n) >> (8 * within) & 0xff;
    } else {
        byte = 0;
        for (int i = 0; i < 8; i++) {
            int64_t n = ((int64_t)offset * 8 + i) / engine->iota_bits, within = i % engine->iota_bits;
            if (8 % engine->iota_bits != 0)
                within = ((int64_t)offset * 8 + i) % engine->iota_bits;
            byte |= (element_encode(engine->iota_number, engine->iota_bits, n) >> within & 1) << i;
        }
    }
    *out = byte >> bit & ((1u << count) - 1);
    return PTXPACK_OK;
}

static ptxpack_status read_element(const ptxpack_tensor *t, const ptxpack_engine *engine,
                                   const ptxpack_tuple *coord, uint64_t *raw)
{
    uint64_t       address, piece = 0;
    int            bit;
    ptxpack_status status = ptxpack_tensor_bit_address(t, coord, &address, &bit);
    *raw = 0;
    if (status == PTXPACK_OK && engine->counting) {
        *raw = (uint64_t)count_from_base(t, engine, address, bit);
        return PTXPACK_OK;
    }
    for (int have = 0; have < t->bits && status == PTXPACK_OK;) {
        int count = t->bits - have < 8 - bit ? t->bits - have : 8 - bit;
        status = read_piece(engine, address, bit, count, &piece);
        *raw |= piece << have;
        have += count;
        bit = 0;
        address++;
    }
    return status;
}

/* `engine` is complete; `pretty`: as print_tensor writes it. */
static ptxpack_status element_at(const ptxpack_tensor *t, const ptxpack_engine *engine,
                                 const ptxpack_tuple *coord, bool pretty, char *text, size_t cap)
{
    uint64_t raw;
    char     number[ELEMENT_TEXT];
    if (t->bits == 0) {
        ptxpack_tuple at = ptxpack_tensor_coord(t, coord);
        if (at.status != PTXPACK_OK)
            return at.status;
        snprintf(text, cap, "%s", pretty ? "  " : "");
        if (strlen(text) < cap)
            ptxpack_tuple_print(&at, text + strlen(text), cap - strlen(text));
        return PTXPACK_OK;
    }
    ptxpack_status status = read_element(t, engine, coord, &raw);
    if (status != PTXPACK_OK)
        return status;
    if (engine->counting)
        snprintf(number, sizeof number, pretty ? "%5" PRId64 : "%" PRId64, (int64_t)raw);
    else
        element_print(engine->number, t->bits, raw, pretty, number);
    snprintf(text, cap, "%s", number);
    return PTXPACK_OK;
}

/* The engine with its defaults filled in; an error says what is wrong with tensor or engine. */
static ptxpack_status check_engine(const ptxpack_tensor *t, const ptxpack_engine *engine, ptxpack_engine *out)
{
    *out = (ptxpack_engine){.size = sizeof *out};
    if (t->layout.shape.status != PTXPACK_OK)
        return t->layout.shape.status;
    if (t->bits == 0)
        return PTXPACK_OK;
    if (engine == NULL)
        return ptxpack_fail(NULL, PTXPACK_E_ARG,
                            "a tensor of memory is printed with its engine, which is NULL");
    if (engine->size != sizeof *engine)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "the engine's size is %zu, not %zu", engine->size,
                            sizeof *engine);
    *out = *engine;
    if (out->iota_bits == 0) {
        out->iota_bits = t->bits;
        out->iota_number = out->number;
    }
    if ((unsigned)out->space > PTXPACK_SPACE_GLOBAL)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "the engine's space is %d", (int)out->space);
    if (out->counting)
        return PTXPACK_OK;
    if (!element_has_bits(out->number, t->bits))
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "no such number has %d bits", t->bits);
    if (!element_has_bits(out->iota_number, out->iota_bits) || (out->iota_bits > 8 && out->iota_bits % 8 != 0))
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "iota_number has no form of %d bits", out->iota_bits);
    return PTXPACK_OK;
}

/* ---- the lines of print_tensor ----------------------------------------------------------------------------- */
typedef struct tensor_grid {
    const ptxpack_tensor *t;
    const ptxpack_engine *engine;
    tensor_writer        *w; /* NULL: elements are only checked */
    int                   rank;
    int64_t               extent[4], at[4];
} tensor_grid;

static ptxpack_status put_element(const tensor_grid *g)
{
    char           text[PTXPACK_LAYOUT_TEXT + 2];
    ptxpack_tuple  coord = g->rank == 1 ? ptxpack_int(g->at[0]) : ptxpack_tuple_of(g->rank, g->at);
    ptxpack_status status = element_at(g->t, g->engine, &coord, true, text, sizeof text);
    if (status == PTXPACK_OK && g->w != NULL)
        put(g->w, text);
    return status;
}

static void put_rule(const tensor_grid *g, const char *piece)
{
    for (int64_t i = 0; g->w != NULL && i < 5 * g->extent[1]; i++)
        put(g->w, piece);
    if (g->w != NULL)
        put(g->w, "\n");
}

static ptxpack_status put_matrix(tensor_grid *g)
{
    ptxpack_status status = PTXPACK_OK;
    for (g->at[0] = 0; g->at[0] < g->extent[0] && status == PTXPACK_OK; g->at[0]++) {
        for (g->at[1] = 0; g->at[1] < g->extent[1] && status == PTXPACK_OK; g->at[1]++)
            status = put_element(g);
        if (g->w != NULL)
            put(g->w, "\n");
    }
    return status;
}

static ptxpack_status put_grid(tensor_grid *g)
{
    ptxpack_status status = PTXPACK_OK;
    if (g->rank > 4)
        return PTXPACK_OK;
    for (g->at[3] = 0; g->at[3] < g->extent[3] && status == PTXPACK_OK; g->at[3]++) {
        if (g->at[3] > 0)
            put_rule(g, "=");
        for (g->at[2] = 0; g->at[2] < g->extent[2] && status == PTXPACK_OK; g->at[2]++) {
            if (g->at[2] > 0)
                put_rule(g, "-");
            status = put_matrix(g);
        }
    }
    return status;
}

static ptxpack_status print_to(tensor_writer *w, const ptxpack_tensor *t, const ptxpack_engine *given)
{
    ptxpack_engine engine;
    ptxpack_status status = check_engine(t, given, &engine);
    tensor_grid    g = {.t = t, .engine = &engine, .extent = {1, 1, 1, 1}};
    if (status != PTXPACK_OK)
        return status;
    g.rank = ptxpack_rank(&t->layout.shape);
    for (int i = 0; i < g.rank && i < 4; i++)
        g.extent[i] = ptxpack_mode_size(&t->layout, i);
    status = put_grid(&g);
    if (status != PTXPACK_OK)
        return status;
    g.w = w;
    put_line(w, t, &engine);
    put(w, ":\n");
    return put_grid(&g);
}

/* ---- the calls ------------------------------------------------------------------------------------------------ */
size_t ptxpack_tensor_text(const ptxpack_tensor *t, const ptxpack_engine *engine, char *text, size_t cap)
{
    GIVEN_TENSOR(t);
    ptxpack_engine complete;
    tensor_writer  w = buffer_writer(text, cap);
    if (check_engine(t, engine, &complete) == PTXPACK_OK)
        put_line(&w, t, &complete);
    else
        put(&w, "error");
    return w.length;
}

ptxpack_status ptxpack_print_tensor(FILE *f, const ptxpack_tensor *t, const ptxpack_engine *engine)
{
    GIVEN_TENSOR(t);
    if (f == NULL)
        return operand_missing(__func__, "f");
    tensor_writer w = {.f = f};
    return print_to(&w, t, engine);
}

ptxpack_status ptxpack_print_tensor_text(const ptxpack_tensor *t, const ptxpack_engine *engine, char *text,
                                         size_t cap, size_t *length)
{
    GIVEN_TENSOR(t);
    tensor_writer  w = buffer_writer(text, cap);
    ptxpack_status status = print_to(&w, t, engine);
    if (length != NULL)
        *length = w.length;
    return status;
}

ptxpack_status ptxpack_print_element(const ptxpack_tensor *t, const ptxpack_engine *engine,
                                     const ptxpack_tuple *coord, char *text, size_t cap)
{
    GIVEN_TENSOR(t);
    GIVEN_TUPLE(coord);
    ptxpack_engine complete;
    if (text == NULL || cap == 0)
        return operand_missing(__func__, "text");
    ptxpack_status status = check_engine(t, engine, &complete);
    return status == PTXPACK_OK ? element_at(t, &complete, coord, false, text, cap) : status;
}
