/* undefined.c - ops with a source that is undefined in some lanes: what becomes of their results.
 *
 * The interpreter (warp.c) comes here only then.  The rule of the op (enum emu_undefined) says how undefined bits
 * reach the results.  For ops that move bits the rule needs to know nothing of them: it executes the op with all
 * undefined bits of a source 0, and again with all of them 1, for all combinations of the sources, and the result
 * bits that differ are the undefined ones. */
#include "undefined.h"
#include <stdio.h>
#include "tools/emu/judge/judge.h"
#include "tools/emu/judge/report.h"
#include "tools/emu/machine/undefined.h"
#include "tools/emu/memory/memory.h"

enum { ROW_MOST = 4 * EMU_ROW, SOURCES_MOST = 8, RESULTS_MOST = 4, NAME = 128, TEXT = 512 };
static const struct emu_bits ALL_BITS = {UINT64_MAX, UINT64_MAX};

/* ---- reports -------------------------------------------------------------------------------------- */
const char *emu_register_name(const struct emu_function *f, emu_reg reg, char *buf, size_t cap)
{
    const struct ptx_function *text = f->text;
    uint32_t                   row = 0;
    for (unsigned int i = 0; i < text->register_symbols; i++) { /* rows were assigned in this order */
        const struct ptx_symbol *r = text->registers[i];
        unsigned int             bits = ptx_type_bits(r->type);
        uint32_t                 each = (bits == 128 ? 4u : bits == 64 ? 2u : 1u) * r->vector;
        if (EMU_ROW_OF(reg) < row + each * r->count) {
            if (r->count > 1 || r->is_array)
                snprintf(buf, cap, "%s%u", r->name, (EMU_ROW_OF(reg) - row) / each);
            else
                snprintf(buf, cap, "%s", r->name);
            return buf;
        }
        row += (uint32_t)(each * r->count);
    }
    snprintf(buf, cap, "a temporary");
    return buf;
}

static const char *origin_text(struct emu_warp *w, emu_reg reg, char *buf, size_t cap)
{
    const struct emu_origin origin = emu_origin_of(w, reg);
    char                    what[NAME], place[2 * NAME], address[TEXT];
    if (origin.function == NULL)
        snprintf(buf, cap, "which nothing has written");
    else if (origin.op == NULL)
        snprintf(buf, cap, "computed from register %s, which nothing has written",
                 emu_register_name(origin.function, origin.reg, what, sizeof what));
    else
        snprintf(buf, cap, "computed from bytes that nothing has written: %s at %s loads %s",
                 report_mnemonic(origin.op, ~0u, what, sizeof what),
                 report_place(w->grid, origin.op, place, sizeof place),
                 emu_address_text(w, origin.lane, (enum emu_space)origin.space, origin.address, address,
                                  sizeof address));
    return buf;
}

void emu_undefined_use(struct emu_warp *w, const struct emu_op *op, emu_reg reg, uint32_t lanes,
                       const char *verb)
{
    char name[NAME], origin[2 * TEXT];
    origin_text(w, reg, origin, sizeof origin);
    w->defined[EMU_ROW_OF(reg)] |= lanes; /* once is enough */
    judge_find(w, op, __builtin_ctz(lanes), JUDGE_UNINITIALISED, "%s register %s, %s", verb,
               emu_register_name(w->now->function, reg, name, sizeof name), origin);
}

/* ---- rules ---------------------------------------------------------------------------------------- */
/* The first `count` sources are used. */
static void use(struct emu_warp *w, const struct emu_op *op, uint32_t mask, uint32_t count)
{
    for (uint32_t i = 0; i < count && i < op->source_count; i++) {
        const uint32_t lanes = emu_undefined_lanes(w, op->source[i], mask);
        if (lanes)
            emu_undefined_use(w, op, op->source[i], lanes, "reads");
    }
}

static void inherit(struct emu_warp *w, const struct emu_op *op, const struct emu_origin *origin)
{
    for (uint32_t i = 0; i < op->result_count; i++)
        emu_origin_set(w, op->result[i], origin);
}

static struct emu_origin first_origin(const struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    for (uint32_t i = 0; i < op->source_count; i++)
        if (emu_undefined_lanes(w, op->source[i], mask))
            return emu_origin_of(w, op->source[i]);
    return (struct emu_origin){.reg = 0};
}

static void put_all(struct emu_warp *w, const struct emu_op *op, int lane, struct emu_bits undefined)
{
    for (uint32_t i = 0; i < op->result_count; i++)
        emu_undefined_put(w, op->result[i], lane, undefined);
}

/* Bits from the lowest undefined one of any source up. */
static struct emu_bits upwards(const struct emu_warp *w, const struct emu_op *op, int lane)
{
    struct emu_bits any = {0, 0};
    for (uint32_t i = 0; i < op->source_count; i++)
        any.low |= emu_undefined_get(w, op->source[i], lane).low;
    any.low = any.low ? ~((any.low & (0 - any.low)) - 1) : 0;
    return any;
}

/* Is a part (0: the lower one) of a value of these bits undefined? */
static bool half_of(struct emu_bits undefined, unsigned int bits, unsigned int part)
{
    const unsigned int half = bits / 2;
    return bits == 1 ? undefined.low != 0 : (undefined.low >> (half * part) & emu_ones(half)) != 0;
}

/* Which parts of packed results are undefined.  `packs`: source 1 becomes the lower part, source 0 the upper one. */
static void find_parts(const struct emu_warp *w, const struct emu_op *op, int lane, bool packs, bool bad[2])
{
    bad[0] = bad[1] = false;
    for (uint32_t i = 0; i < op->source_count; i++) {
        if (!emu_undefined_lanes(w, op->source[i], 1u << lane))
            continue;
        const struct emu_bits undefined = emu_undefined_get(w, op->source[i], lane);
        const unsigned int    bits = emu_register_bits(w, op->source[i]);
        for (unsigned int part = 0; part < 2; part++)
            bad[part] |= packs ? i == 1 - part : half_of(undefined, bits, part);
    }
}

static void put_parts(struct emu_warp *w, const struct emu_op *op, int lane, const bool bad[2])
{
    for (uint32_t i = 0; i < op->result_count; i++) {
        const unsigned int bits = emu_register_bits(w, op->result[i]), half = bits / 2;
        struct emu_bits    out = {0, 0};
        if (bits == 1) /* setp of two halves: p|q */
            out.low = bad[i & 1];
        else
            out.low = (bad[0] ? emu_ones(half) : 0) | (bad[1] ? emu_ones(half) << half : 0);
        emu_undefined_put(w, op->result[i], lane, out);
    }
}

/* ---- ops that move bits --------------------------------------------------------------------------- */
/* A register in all lanes, as bytes of its rows. */
struct image {
    emu_reg       reg;
    uint32_t      bytes, lanes;    /* undefined in these */
    unsigned char value[ROW_MOST]; /* of a source: the bits that are defined; the others are 0 */
    unsigned char open[ROW_MOST];  /* the undefined bits; of a result: those that differed */
};

static uint32_t row_bytes(unsigned int bits)
{
    return bits == 128 ? ROW_MOST : bits == 64 ? 2 * EMU_ROW : EMU_ROW;
}

static void lane_to_image(unsigned char *image, unsigned int bits, int lane, struct emu_bits x)
{
    uint32_t narrow = (uint32_t)x.low;
    if (bits == 1) { /* a bit of the first word */
        memcpy(&narrow, image, sizeof narrow);
        narrow = (narrow & ~(1u << lane)) | (x.low ? 1u << lane : 0);
        memcpy(image, &narrow, sizeof narrow);
    } else if (bits <= 32) {
        memcpy(image + sizeof narrow * (size_t)lane, &narrow, sizeof narrow);
    } else {
        memcpy(image + sizeof x.low * (size_t)lane, &x.low, sizeof x.low);
        if (bits == 128)
            memcpy(image + 2 * EMU_ROW + sizeof x.high * (size_t)lane, &x.high, sizeof x.high);
    }
}

static struct emu_bits lane_of_image(const unsigned char *image, unsigned int bits, int lane)
{
    struct emu_bits x = {0, 0};
    uint32_t        narrow;
    if (bits <= 32) {
        memcpy(&narrow, image + (bits == 1 ? 0 : sizeof narrow * (size_t)lane), sizeof narrow);
        x.low = bits == 1 ? narrow >> lane & 1 : narrow;
    } else {
        memcpy(&x.low, image + sizeof x.low * (size_t)lane, sizeof x.low);
        if (bits == 128)
            memcpy(&x.high, image + 2 * EMU_ROW + sizeof x.high * (size_t)lane, sizeof x.high);
    }
    return x;
}

/* The sources that are registers of the frame. */
static uint32_t take_sources(const struct emu_warp *w, const struct emu_op *op, uint32_t mask,
                             struct image source[SOURCES_MOST])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < op->source_count && count < SOURCES_MOST; i++) {
        if (EMU_BANK(op->source[i]) != EMU_BANK_FRAME)
            continue;
        struct image      *s = &source[count++];
        const unsigned int bits = emu_register_bits(w, op->source[i]);
        s->reg = op->source[i];
        s->bytes = row_bytes(bits);
        s->lanes = i < op->tried ? emu_undefined_lanes(w, s->reg, mask) : 0;
        memcpy(s->value, emu_row(w, s->reg), s->bytes);
        memset(s->open, 0, s->bytes);
        for (uint32_t m = s->lanes; m; m &= m - 1)
            lane_to_image(s->open, bits, __builtin_ctz(m), emu_undefined_get(w, s->reg, __builtin_ctz(m)));
        for (uint32_t k = 0; k < s->bytes; k++)
            s->value[k] &= (unsigned char)~s->open[k];
    }
    return count;
}

/* Give each source its bits, of which the undefined ones are 0 or 1, as the bits of `which` say. */
static void give_sources(struct emu_warp *w, const struct image *source, uint32_t count, uint32_t which)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct image *s = &source[i];
        unsigned char      *row = (unsigned char *)emu_row(w, s->reg);
        memcpy(row, s->value, s->bytes);
        for (uint32_t k = 0; which >> i & 1 && k < s->bytes; k++)
            row[k] |= s->open[k];
    }
}

/* Execute the op with all combinations, and note the result bits that differ from those of the first. */
static void try_all(struct emu_warp *w, const struct emu_op *op, uint32_t mask, const struct image *source,
                    uint32_t count, struct image *result, uint32_t results)
{
    uint32_t varies = 0;
    for (uint32_t i = 0; i < count; i++)
        varies |= source[i].lanes ? 1u << i : 0;
    for (uint32_t which = 0; which < 1u << count; which++) {
        if (which & ~varies)
            continue;
        give_sources(w, source, count, which);
        op->exec(w, op, mask);
        for (uint32_t i = 0; i < results; i++) {
            const unsigned char *row = (const unsigned char *)emu_row(w, result[i].reg);
            for (uint32_t k = 0; k < result[i].bytes; k++) {
                result[i].value[k] = which ? result[i].value[k] : row[k];
                result[i].open[k] |= result[i].value[k] ^ row[k];
            }
        }
    }
}

/* Some sources say how bits move (a shift, a selector): in lanes where they are undefined, so are the results. */
static uint32_t lost_lanes(const struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    uint32_t lanes = 0;
    for (uint32_t i = op->tried; i < op->source_count; i++)
        lanes |= emu_undefined_lanes(w, op->source[i], mask);
    return lanes;
}

static void execute_bits(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    struct image   source[SOURCES_MOST], result[RESULTS_MOST];
    const uint32_t lost = lost_lanes(w, op, mask), results = op->result_count;
    unsigned char  kept[SOURCES_MOST][ROW_MOST], final[RESULTS_MOST][ROW_MOST];
    const uint32_t count = take_sources(w, op, mask, source);
    for (uint32_t i = 0; i < count; i++)
        memcpy(kept[i], emu_row(w, source[i].reg), source[i].bytes);
    op->exec(w, op, mask);
    if (w->waited)
        return;
    for (uint32_t i = 0; i < results; i++) {
        result[i].reg = op->result[i];
        result[i].bytes = row_bytes(emu_register_bits(w, op->result[i]));
        memset(result[i].open, 0, result[i].bytes);
        memcpy(final[i], emu_row(w, op->result[i]), result[i].bytes);
    }
    try_all(w, op, mask, source, count, result, results);
    for (uint32_t i = 0; i < count; i++)
        memcpy(emu_row(w, source[i].reg), kept[i], source[i].bytes);
    for (uint32_t i = 0; i < results; i++) {
        memcpy(emu_row(w, result[i].reg), final[i], result[i].bytes);
        for (uint32_t m = mask; m; m &= m - 1) {
            const int lane = __builtin_ctz(m);
            emu_undefined_put(w, result[i].reg, lane,
                              lost >> lane & 1
                                  ? ALL_BITS
                                  : lane_of_image(result[i].open, emu_register_bits(w, result[i].reg), lane));
        }
    }
}

/* ---- all ------------------------------------------------------------------------------------------ */
static void execute_lanes(struct emu_warp *w, const struct emu_op *op, uint32_t mask, uint32_t missing)
{
    bool bad[2];
    op->exec(w, op, mask);
    if (w->waited)
        return;
    for (uint32_t m = missing; m; m &= m - 1) {
        const int lane = __builtin_ctz(m);
        if (op->undefined == EMU_UNDEFINED_UPWARDS) {
            put_all(w, op, lane, upwards(w, op, lane));
        } else if (op->undefined == EMU_UNDEFINED_SPREADS) {
            put_all(w, op, lane, ALL_BITS);
        } else {
            find_parts(w, op, lane, op->undefined == EMU_UNDEFINED_PACKS, bad);
            put_parts(w, op, lane, bad);
        }
    }
    emu_define_results(w, op, mask & ~missing);
}

static void execute_warp(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    op->exec(w, op, mask);
    for (uint32_t i = 0; !w->waited && i < op->result_count; i++)
        emu_undefine(w, op->result[i], mask);
}

static void execute_use(struct emu_warp *w, const struct emu_op *op, uint32_t mask, uint32_t missing)
{
    const bool own = op->undefined == EMU_UNDEFINED_OWN;
    use(w, op, mask, own ? op->tried : op->source_count);
    w->missing = own ? missing : 0;
    op->exec(w, op, mask);
    w->missing = 0;
    if (w->event != EMU_EVENT_BLOCK && !(op->flags & EMU_OP_DEFINES))
        emu_define_results(w, op, mask);
}

void emu_execute_undefined(struct emu_warp *w, const struct emu_op *op, uint32_t mask, uint32_t missing)
{
    const struct emu_origin origin = first_origin(w, op, missing);
    switch ((enum emu_undefined)op->undefined) {
    case EMU_UNDEFINED_SPREADS:
    case EMU_UNDEFINED_UPWARDS:
    case EMU_UNDEFINED_PARTS:
    case EMU_UNDEFINED_PACKS:
        execute_lanes(w, op, mask, missing);
        break;
    case EMU_UNDEFINED_BITS:
        execute_bits(w, op, mask);
        break;
    case EMU_UNDEFINED_WARP:
        execute_warp(w, op, mask);
        break;
    default:
        execute_use(w, op, mask, missing);
        if (op->undefined != EMU_UNDEFINED_OWN)
            return;
    }
    if (!w->waited)
        inherit(w, op, &origin);
}
