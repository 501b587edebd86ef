/* st_async.c - st.async and red.async: values go to another block's shared memory and signal its mbarrier. */
#include "bulk.h"

struct remote_op {
    struct cp_address   to;
    struct bulk_target  target;          /* the mbarrier */
    unsigned int        value[4], count; /* sources */
    uint32_t            bytes;           /* of one value */
    bool                reduces;
    enum bulk_reduction reduction;
    enum bulk_type      type;
};

struct remote_write {
    struct async_signal signal;
    struct emu_ref      to;
    _Alignas(8) unsigned char data[16];
};

static void complete_write(struct async_op *a)
{
    struct remote_write    *c = (struct remote_write *)a;
    const struct remote_op *o = (const struct remote_op *)a->op->data;
    if (o->reduces) {
        if (!emu_defined(&c->to, c->signal.bytes))
            judge_find(a->warp, a->op, a->lane, JUDGE_UNINITIALISED, "reduces undefined bytes");
        bulk_reduce(c->to.at, c->data, c->signal.bytes, o->reduction, o->type);
    } else {
        memcpy(c->to.at, c->data, c->signal.bytes);
    }
    emu_define(&c->to, c->signal.bytes);
    bulk_signal(&c->signal);
}

static void take_values(struct emu_warp *w, const struct emu_op *op, int lane, unsigned char *data)
{
    const struct remote_op *o = (const struct remote_op *)op->data;
    for (unsigned int i = 0; i < o->count; i++) {
        const void *row = emu_row(w, op->source[o->value[i]]);
        memcpy(data + i * o->bytes, (const unsigned char *)row + (size_t)lane * o->bytes, o->bytes);
    }
}

static bool issue_write(struct emu_warp *w, const struct emu_op *op, int lane)
{
    const struct remote_op *o = (const struct remote_op *)op->data;
    uint64_t                address = cp_address_of(w, op, &o->to, lane);
    uint32_t                bytes = o->count * o->bytes;
    struct mbarrier_place   at;
    struct emu_ref          to;
    if (!emu_memory_range(w, op, lane, o->to.space, address, bytes, bytes, EMU_WRITE | EMU_NO_JUDGE, &to) ||
        !cp_find_mbarrier(w, op, &o->target.mbarrier, lane, true, &at))
        return false;
    if (to.space != EMU_SHARED) {
        emu_fault(w, op, lane, 715, "0x%llx is not in shared memory", (unsigned long long)address);
        return false;
    }
    mbarrier_expect_signal(w, op, lane, at);
    mbarrier_overwritten(w, op, lane, to.cta, (uint32_t)to.address, bytes);
    struct remote_write *c = (struct remote_write *)async_new(w, op, lane, sizeof *c, complete_write);
    if (c == NULL)
        return false;
    c->signal.cta = at.cta;
    c->signal.address = at.address;
    c->signal.bytes = bytes;
    c->to = to;
    take_values(w, op, lane, c->data);
    struct judge_async *judge = c->signal.op.judge = judge_async_begin(w, op, lane, false);
    if (judge != NULL)
        judge_async_touch(judge, &to, bytes,
                          o->reduces ? EMU_READ | EMU_WRITE | EMU_ATOMIC | EMU_STRONG : EMU_WRITE);
    async_issue(w, &c->signal.op, ASYNC_MBARRIER);
    return true;
}

static void exec_remote(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    for (uint32_t m = mask; m; m &= m - 1)
        if (!issue_write(w, op, __builtin_ctz(m)))
            return;
}

/* {.shared::cluster}.mbarrier::complete_tx::bytes */
static bool decode_to(struct decoder *d, struct remote_op *o)
{
    bool cluster = false;
    decode_need_sm(d, 90);
    decode_need_isa(d, 81);
    o->to.space = decode_space(d, &cluster);
    if (o->to.space != EMU_GENERIC &&
        (o->to.space != EMU_SHARED || (!cluster && strcmp(d->in->opcode, "red") == 0)))
        return decode_refuse(d, "the destination must be .shared::cluster");
    if (!decode_take(d, "mbarrier::complete_tx::bytes"))
        return decode_refuse(d, ".mbarrier::complete_tx::bytes is missing");
    return true;
}

static bool decode_remote_operands(struct decoder *d, struct emu_op *op, struct remote_op *o,
                                   enum ptx_type type)
{
    enum emu_space space = o->to.space;
    unsigned int   count;
    if (!decode_end(d) || !decode_operands(d, 3, 3) || !cp_decode_address(d, 0, space, &o->to))
        return false;
    if (o->reduces && decode_operand(d, 1)->kind == PTX_OP_LIST)
        return decode_refuse(d, "red.async has one value, not a list");
    const struct ptx_operand *items = decode_items(decode_operand(d, 1), &count);
    if (count != o->count)
        return decode_refuse(d, "%u values instead of %u", count, o->count);
    for (unsigned int i = 0; i < count; i++) {
        o->value[i] = op->source_count;
        decode_source_of(d, &items[i], type);
    }
    o->bytes = ptx_type_bits(type) / 8;
    op->data = o;
    op->exec = exec_remote;
    op->class_ = EMU_CLASS_async_copy;
    return !d->failed && cp_decode_address(d, 2, space, &o->target.mbarrier);
}

bool decode_st_async(struct decoder *d, struct emu_op *op)
{
    struct remote_op *o = (struct remote_op *)decode_alloc(d, 1, sizeof *o);
    if (!decode_take(d, "async"))
        return decode_refuse(d, "st.%s is not supported", decode_peek(d));
    decode_take(d, "weak");
    if (o == NULL || !decode_to(d, o))
        return false;
    o->count = decode_take(d, "v2") ? 2 : decode_take(d, "v4") ? 4 : 1;
    enum ptx_type type = decode_type(d);
    unsigned int  bits = ptx_type_bits(type);
    if (d->failed || (bits != 32 && bits != 64) || bits * o->count > 128)
        return decode_refuse(d, "there must be one, two or four values of 32 bits, or one or two of 64");
    return decode_remote_operands(d, op, o, type);
}

bool decode_red_async(struct decoder *d, struct emu_op *op)
{
    struct remote_op *o = (struct remote_op *)decode_alloc(d, 1, sizeof *o);
    decode_take(d, "async");
    if (!decode_take(d, "relaxed") || !decode_take(d, "cluster"))
        return decode_refuse(d, "red.async must be .relaxed.cluster");
    if (o == NULL || !decode_to(d, o))
        return false;
    int reduction = decode_one_of(d, bulk_reduction_words);
    int type = decode_one_of(d, bulk_type_words);
    if (reduction < 0 || type < 0)
        return decode_refuse(d, "the %s is missing", reduction < 0 ? "reduction" : "type");
    o->reduces = true;
    o->reduction = (enum bulk_reduction)reduction;
    o->type = (enum bulk_type)type;
    o->count = 1;
    bool sum_s64 = reduction == BULK_ADD && type == BULK_S64;
    if (!sum_s64 && !bulk_can_reduce(o->reduction, o->type, false))
        return decode_refuse(d, "there is no .%s.%s", bulk_reduction_words[reduction], bulk_type_words[type]);
    return decode_remote_operands(d, op, o, ptx_type_find(bulk_type_words[type]));
}
