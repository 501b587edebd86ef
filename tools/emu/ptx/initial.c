/* initial.c - initial values of variables: numbers, nested braces, addresses of symbols. */
#include "parse.h"

static const uint64_t max_initialised = (uint64_t)64 << 20; /* bytes of a variable, all of which are kept */

struct initial {
    struct ptx_symbol *symbol;
    const uint64_t    *sizes;  /* of each dimension; the first may be 0: as many as there are values */
    unsigned int       levels; /* dimensions, plus one if the elements are vectors */
    uint64_t           strides[PTX_MAX_DIMENSIONS + 1];
    uint64_t           limits[PTX_MAX_DIMENSIONS + 1];
    uint64_t           bytes; /* room in data */
    unsigned char     *data;
    struct ptx_list    relocations;
};

/* Make room for the bytes up to `end`: the data of an unsized array grows. */
static void reach(struct ptx_parser *p, struct initial *in, uint64_t end)
{
    if (end <= in->bytes)
        return;
    if (end > max_initialised)
        ptx_fail_last(p, "'%s': more than %llu bytes with initial values", in->symbol->name,
                      (unsigned long long)max_initialised);
    uint64_t       bytes = end > 2 * in->bytes ? end : 2 * in->bytes;
    unsigned char *data = (unsigned char *)ptx_scratch(p, bytes, 1);
    if (in->bytes)
        memcpy(data, in->data, in->bytes);
    in->data = data;
    in->bytes = bytes;
}

static void store(struct initial *in, uint64_t offset, uint64_t bits, unsigned int bytes)
{
    for (unsigned int i = 0; i < bytes; i++)
        in->data[offset + i] = (unsigned char)(i < 8 ? bits >> (8 * i) : 0); /* PTX is little-endian */
}

/* ---- addresses ----------------------------------------------------------------------------------------- */
/* symbol, generic(symbol), each with + offset */
static void address(struct ptx_parser *p, struct initial *in, struct ptx_relocation *r)
{
    uint64_t         member;
    struct ptx_lexer before = p->lex;
    if (ptx_at_word(p, "generic")) {
        ptx_next(p);
        r->generic = ptx_take_mark(p, '(');
        if (!r->generic)
            p->lex = before; /* a variable of this name */
    }
    struct ptx_name         *name = ptx_want_name(p, "the name of a variable or function");
    const struct ptx_symbol *symbol = ptx_resolve(p, name, &member);
    if (symbol == NULL) {
        ptx_unknown(p, name, p->lex.last_line);
        ptx_leave_attempt(p);
    }
    bool variable = symbol->kind == PTX_VARIABLE && (symbol->space == PTX_GLOBAL || symbol->space == PTX_CONST);
    if (!variable && symbol->kind != PTX_FUNCTION)
        ptx_fail_last(p, "the address of '%s' is not a constant", name->text);
    if (r->generic)
        ptx_want_mark(p, ')');
    r->symbol = symbol;
    if (ptx_take_mark(p, '+'))
        r->addend = ptx_constant_offset(p);
    if (in->symbol->type == PTX_f32 || in->symbol->type == PTX_f64)
        ptx_fail_last(p, "'%s' cannot hold an address", in->symbol->name);
}

/* 0xff00(address): one byte of it */
static void masked(struct ptx_parser *p, struct initial *in, uint64_t mask, struct ptx_relocation *r)
{
    while (r->shift < 64 && mask >> r->shift != 0xff)
        r->shift += 8;
    if (r->shift == 64)
        ptx_fail_last(p, "a mask must choose one whole byte");
    ptx_want_mark(p, '(');
    address(p, in, r);
    ptx_want_mark(p, ')');
}

static struct ptx_relocation *add_relocation(struct ptx_parser *p, struct initial *in, uint64_t offset)
{
    struct ptx_relocation *r = (struct ptx_relocation *)ptx_add(p, &in->relocations, sizeof *r);
    unsigned int           bytes = ptx_type_bits(in->symbol->type) / 8;
    r->offset = offset;
    r->bytes = bytes > 8 ? 8 : bytes;
    return r;
}

/* ---- numbers ------------------------------------------------------------------------------------------- */
static void number(struct ptx_parser *p, struct initial *in, uint64_t offset)
{
    enum ptx_type       type = in->symbol->type;
    unsigned int        bytes = ptx_type_bits(type) / 8;
    struct ptx_constant value = ptx_constant_expression(p);
    bool                real = type == PTX_f32 || type == PTX_f64;
    if (type == PTX_f16 || type == PTX_f16x2)
        ptx_fail_last(p, "'%s': .%s cannot have initial values", in->symbol->name, ptx_type_name(type));
    if (real && value.kind == PTX_TOKEN_INTEGER)
        ptx_fail_last(p, "'%s': an integer is given for .%s", in->symbol->name, ptx_type_name(type));
    if (!real && value.kind != PTX_TOKEN_INTEGER && !(type == PTX_b32 && value.kind == PTX_TOKEN_F32) &&
        !(type == PTX_b64 && value.kind == PTX_TOKEN_F64))
        ptx_fail_last(p, "'%s': a float is given for .%s", in->symbol->name, ptx_type_name(type));
    if (type == PTX_f32 && value.kind == PTX_TOKEN_F64) {
        double   wide;
        float    narrow;
        uint32_t bits;
        memcpy(&wide, &value.bits, sizeof wide);
        narrow = (float)wide;
        memcpy(&bits, &narrow, sizeof bits);
        value.bits = bits;
    } else if (type == PTX_f64 && value.kind == PTX_TOKEN_F32) {
        uint32_t bits = (uint32_t)value.bits;
        float    narrow;
        memcpy(&narrow, &bits, sizeof narrow);
        double wide = narrow;
        memcpy(&value.bits, &wide, sizeof wide);
    }
    store(in, offset, value.bits, bytes);
}

static void element(struct ptx_parser *p, struct initial *in, uint64_t offset)
{
    reach(p, in, offset + ptx_type_bits(in->symbol->type) / 8);
    if (p->lex.kind == PTX_TOKEN_WORD && !ptx_at_constant(p)) {
        struct ptx_relocation *r = add_relocation(p, in, offset);
        if (r->bytes < 4)
            ptx_fail(p, "'%s': an address does not fit in .%s", in->symbol->name,
                     ptx_type_name(in->symbol->type));
        address(p, in, r);
        return;
    }
    if (p->lex.kind == PTX_TOKEN_INTEGER) {
        struct ptx_lexer before = p->lex;
        ptx_next(p);
        if (ptx_at_mark(p, '(')) {
            struct ptx_relocation *r = add_relocation(p, in, offset);
            r->bytes = 1;
            masked(p, in, before.value, r);
            return;
        }
        p->lex = before;
    }
    number(p, in, offset);
}

/* ---- braces -------------------------------------------------------------------------------------------- */
static uint64_t level(struct ptx_parser *p, struct initial *in, unsigned int depth, uint64_t offset)
{
    uint64_t count = 0;
    if (depth == in->levels) {
        element(p, in, offset);
        return 1;
    }
    if (!ptx_take_mark(p, '{'))
        ptx_unexpected(p, "'{'");
    if (ptx_take_mark(p, '}'))
        return 0;
    do {
        if (in->limits[depth] && count == in->limits[depth])
            ptx_fail(p, "'%s': more than %llu values", in->symbol->name, (unsigned long long)in->limits[depth]);
        level(p, in, depth + 1, offset + count * in->strides[depth]);
        count++;
        reach(p, in, offset + count * in->strides[depth]);
    } while (ptx_take_mark(p, ','));
    ptx_want_mark(p, '}');
    return count;
}

/* { addr_mode_0 = clamp_to_edge, ... } of a sampler is ignored: textures are not supported. */
static void skip_opaque(struct ptx_parser *p)
{
    ptx_want_mark(p, '{');
    do {
        ptx_want_name(p, "a property");
        ptx_want_mark(p, '=');
        if (p->lex.kind != PTX_TOKEN_WORD && p->lex.kind != PTX_TOKEN_INTEGER)
            ptx_unexpected(p, "a value");
        ptx_next(p);
    } while (ptx_take_mark(p, ','));
    ptx_want_mark(p, '}');
}

static void set_levels(struct initial *in, unsigned int levels)
{
    const struct ptx_symbol *s = in->symbol;
    uint64_t                 stride = ptx_type_bits(s->type) / 8;
    in->levels = levels + (s->vector > 1);
    if (s->vector > 1) {
        in->strides[levels] = stride;
        in->limits[levels] = s->vector;
        stride *= s->vector;
    }
    for (unsigned int i = levels; i-- > 0;) {
        in->strides[i] = stride;
        in->limits[i] = in->sizes[i];
        stride *= in->sizes[i];
    }
}

void ptx_initial(struct ptx_parser *p, struct ptx_symbol *s, uint64_t sizes[], unsigned int levels)
{
    struct initial in = {.symbol = s, .sizes = sizes};
    if (s->type == PTX_texref || s->type == PTX_samplerref || s->type == PTX_surfref) {
        skip_opaque(p);
        return;
    }
    set_levels(&in, levels);
    reach(p, &in, s->bytes);
    uint64_t count = level(p, &in, 0, 0);
    if (s->bytes == 0) {
        s->bytes = count * in.strides[0];
        s->count = s->bytes / (ptx_type_bits(s->type) / 8) / s->vector;
    }
    if (s->bytes == 0)
        return; /* an array without elements: the caller refuses it */
    s->init = (unsigned char *)ptx_keep(p, s->bytes, 1);
    memcpy(s->init, in.data, s->bytes);
    s->relocations = (struct ptx_relocation *)ptx_take(p, &in.relocations, 0, sizeof *s->relocations,
                                                       &s->relocation_count);
}
