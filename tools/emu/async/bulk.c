/* bulk.c - cp.async.bulk and cp.reduce.async.bulk: runs of bytes between global and shared memory. */
#include "bulk.h"

/* ---- what both families read of an instruction ---------------------------------------------------- */
bool bulk_decode_spaces(struct decoder *d, struct bulk_target *target)
{
    bool           to_cluster = false, from_cluster = false;
    enum emu_space to = decode_space(d, &to_cluster), from = decode_space(d, &from_cluster);
    target->blocks = target->policy = -1;
    target->remote = to_cluster;
    if (to == EMU_SHARED && from == EMU_GLOBAL)
        target->way = BULK_LOAD;
    else if (to == EMU_GLOBAL && from == EMU_SHARED && !from_cluster)
        target->way = BULK_STORE;
    else if (to == EMU_SHARED && to_cluster && from == EMU_SHARED && !from_cluster)
        target->way = BULK_ACROSS;
    else
        return decode_refuse(d, "there are no bulk copies between these state spaces");
    return true;
}

bool bulk_decode_completion(struct decoder *d, const struct bulk_target *target)
{
    const char *word = target->way == BULK_STORE ? "bulk_group" : "mbarrier::complete_tx::bytes";
    return decode_take(d, word) || decode_refuse(d, ".%s is missing", word);
}

bool bulk_decode_options(struct decoder *d, const struct bulk_target *target, struct bulk_options *out)
{
    out->multicast = target->way == BULK_LOAD && target->remote && decode_take(d, "multicast::cluster");
    out->hint = target->way != BULK_ACROSS && cp_take_cache_hint(d);
    return !d->failed;
}

bool bulk_decode_last(struct decoder *d, struct bulk_target *target, const struct bulk_options *options,
                      unsigned int next)
{
    if (target->way != BULK_STORE && !cp_decode_address(d, next++, EMU_SHARED, &target->mbarrier))
        return false;
    if (!decode_operands(d, next + options->multicast + options->hint,
                         next + options->multicast + options->hint))
        return false;
    if (options->multicast) {
        target->blocks = d->op->source_count;
        decode_source(d, next++, PTX_u16);
    }
    if (options->hint) {
        target->policy = d->op->source_count;
        decode_source(d, next, PTX_u64);
    }
    return !d->failed;
}

void bulk_check_policy(struct emu_warp *w, const struct emu_op *op, const struct bulk_target *target, int lane)
{
    if (target->policy < 0)
        return;
    const uint64_t policy = emu_r64(w, op->source[target->policy])[lane];
    if ((uint32_t)policy != 0)
        judge_find(w, op, lane, JUDGE_ASYNC,
                   "passes 0x%llx as a policy of the cache, which no createpolicy makes",
                   (unsigned long long)policy);
}

bool bulk_each_block(struct emu_warp *w, const struct emu_op *op, const struct bulk_target *target, int lane,
                     struct emu_cta *own, void *context,
                     bool (*issue)(void *context, struct emu_cta *cta, struct mbarrier_place mbarrier))
{
    struct mbarrier_place at;
    if (!cp_find_mbarrier(w, op, &target->mbarrier, lane, target->remote, &at))
        return false;
    if (target->blocks < 0) {
        mbarrier_expect_signal(w, op, lane, at);
        return issue(context, own, at);
    }
    uint32_t blocks = emu_r32(w, op->source[target->blocks])[lane] & 0xffff;
    if (blocks >> w->cluster->cta_count != 0 || blocks == 0) {
        emu_fault(w, op, lane, 715, "multicast to blocks 0x%x of a cluster of %u", blocks,
                  w->cluster->cta_count);
        return false;
    }
    for (uint32_t m = blocks; m; m &= m - 1) {
        at.cta = &w->cluster->ctas[__builtin_ctz(m)];
        mbarrier_expect_signal(w, op, lane, at);
        if (!issue(context, at.cta, at))
            return false;
    }
    return true;
}

void bulk_signal(struct async_signal *signal)
{
    struct mbarrier_place at = {signal->cta, signal->address};
    mbarrier_complete_bytes(signal->op.warp, signal->op.op, signal->op.lane, at, signal->bytes,
                            &signal->op.judge);
}

/* ---- copies --------------------------------------------------------------------------------------- */
struct bulk_op {
    struct bulk_target  target;
    struct cp_address   to, from;
    unsigned int        size; /* source */
    bool                reduces;
    enum bulk_reduction reduction;
    enum bulk_type      type;
};

struct bulk_copy {
    struct async_signal signal; /* of a store: only its op */
    struct emu_ref      to, from;
    uint32_t            bytes;
};

static void complete_copy(struct async_op *a)
{
    struct bulk_copy     *c = (struct bulk_copy *)a;
    const struct bulk_op *o = (const struct bulk_op *)a->op->data;
    if (c->bytes != 0 && o->reduces)
        bulk_reduce_ref(a, &c->to, &c->from, c->bytes, o->reduction, o->type, false);
    else if (c->bytes != 0)
        emu_copy(&c->to, &c->from, c->bytes);
    if (o->target.way != BULK_STORE)
        bulk_signal(&c->signal);
}

struct bulk_issue {
    struct emu_warp     *w;
    const struct emu_op *op;
    int                  lane;
    struct emu_ref       to, from;
    uint32_t             bytes;
};

static struct bulk_copy *new_copy(const struct bulk_issue *i, struct emu_cta *cta)
{
    const struct bulk_op *o = (const struct bulk_op *)i->op->data;
    struct bulk_copy     *c = (struct bulk_copy *)async_new(i->w, i->op, i->lane, sizeof *c, complete_copy);
    if (c == NULL)
        return NULL;
    c->to = i->to;
    c->from = i->from;
    c->bytes = i->bytes;
    if (o->target.way != BULK_STORE && i->bytes != 0) {
        c->to.cta = cta;
        c->to.at = cta->shared + c->to.address;
        mbarrier_overwritten(i->w, i->op, i->lane, cta, (uint32_t)c->to.address, i->bytes);
    }
    struct judge_async *judge = c->signal.op.judge = judge_async_begin(i->w, i->op, i->lane, true);
    if (judge != NULL && i->bytes != 0) {
        judge_async_touch(judge, &c->from, i->bytes, EMU_READ);
        judge_async_touch(judge, &c->to, i->bytes,
                          o->reduces ? EMU_READ | EMU_WRITE | EMU_ATOMIC | EMU_STRONG : EMU_WRITE);
    }
    return c;
}

static bool issue_signal(void *context, struct emu_cta *cta, struct mbarrier_place mbarrier)
{
    const struct bulk_issue *i = (const struct bulk_issue *)context;
    struct bulk_copy        *c = new_copy(i, cta);
    if (c == NULL)
        return false;
    c->signal.cta = mbarrier.cta;
    c->signal.address = mbarrier.address;
    c->signal.bytes = i->bytes;
    async_issue(i->w, &c->signal.op, ASYNC_MBARRIER);
    return true;
}

static bool find_ranges(struct bulk_issue *i, const struct bulk_op *o)
{
    uint64_t to = cp_address_of(i->w, i->op, &o->to, i->lane),
             from = cp_address_of(i->w, i->op, &o->from, i->lane);
    if (i->bytes % 16 != 0) {
        emu_fault(i->w, i->op, i->lane, 716, "%u bytes are not a multiple of 16", i->bytes);
        return false;
    }
    if (i->bytes == 0)
        return true;
    if (!emu_memory_range(i->w, i->op, i->lane, o->from.space, from, i->bytes, 16,
                          EMU_READ | EMU_NO_JUDGE | EMU_GRANULE, &i->from) ||
        !emu_memory_range(i->w, i->op, i->lane, o->to.space, to, i->bytes, 16, EMU_WRITE | EMU_NO_JUDGE,
                          &i->to))
        return false;
    if (i->to.space == EMU_SHARED && i->to.cta != i->w->cta && !o->target.remote) {
        emu_fault(i->w, i->op, i->lane, 715, "0x%llx is in another block's shared memory",
                  (unsigned long long)to);
        return false;
    }
    return true;
}

static void exec_bulk(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const struct bulk_op *o = (const struct bulk_op *)op->data;
    const uint32_t       *size = emu_r32(w, op->source[o->size]);
    for (uint32_t m = mask; m; m &= m - 1) {
        struct bulk_issue i = {.w = w, .op = op, .lane = __builtin_ctz(m)};
        i.bytes = size[i.lane];
        bulk_check_policy(w, op, &o->target, i.lane);
        if (!find_ranges(&i, o))
            return;
        if (o->target.way != BULK_STORE) {
            if (!bulk_each_block(w, op, &o->target, i.lane, i.to.cta, &i, issue_signal))
                return;
            continue;
        }
        struct bulk_copy *c = new_copy(&i, w->cta);
        if (c == NULL)
            return;
        async_issue(w, &c->signal.op, ASYNC_BULK);
    }
}

/* ---- decoding ------------------------------------------------------------------------------------- */
static bool decode_operands_of_copy(struct decoder *d, struct emu_op *op, struct bulk_op *o,
                                    const struct bulk_options *options)
{
    enum bulk_way way = o->target.way;
    if (!decode_end(d) || !cp_decode_address(d, 0, way == BULK_STORE ? EMU_GLOBAL : EMU_SHARED, &o->to) ||
        !cp_decode_address(d, 1, way == BULK_LOAD ? EMU_GLOBAL : EMU_SHARED, &o->from))
        return false;
    o->size = op->source_count;
    const struct ptx_operand *bytes = decode_operand(d, 2);
    if (bytes != NULL && bytes->kind == PTX_OP_INTEGER &&
        (bytes->integer % 16 != 0 || bytes->integer > UINT32_MAX))
        return decode_refuse(d, "the number of bytes must be a multiple of 16");
    decode_source(d, 2, PTX_u32);
    op->data = o;
    op->exec = exec_bulk;
    return bulk_decode_last(d, &o->target, options, 3);
}

bool decode_bulk_copy(struct decoder *d, struct emu_op *op)
{
    struct bulk_op     *o = (struct bulk_op *)decode_alloc(d, 1, sizeof *o);
    struct bulk_options options;
    return o != NULL && bulk_decode_spaces(d, &o->target) && bulk_decode_completion(d, &o->target) &&
           bulk_decode_options(d, &o->target, &options) && decode_operands_of_copy(d, op, o, &options);
}

bool decode_bulk_reduce(struct decoder *d, struct emu_op *op)
{
    struct bulk_op     *o = (struct bulk_op *)decode_alloc(d, 1, sizeof *o);
    struct bulk_options options;
    if (o == NULL || !bulk_decode_spaces(d, &o->target) || !bulk_decode_completion(d, &o->target) ||
        !bulk_decode_options(d, &o->target, &options))
        return false;
    if (o->target.way == BULK_LOAD)
        return decode_refuse(d, "there are no reductions from global to shared memory");
    int  reduction = decode_one_of(d, bulk_reduction_words);
    bool keeps_subnormals = decode_take(d, "noftz");
    int  type = decode_one_of(d, bulk_type_words);
    if (reduction < 0 || type < 0)
        return decode_refuse(d, "the %s is missing", reduction < 0 ? "reduction" : "type");
    o->reduces = true;
    o->reduction = (enum bulk_reduction)reduction;
    o->type = (enum bulk_type)type;
    bool half_sum = reduction == BULK_ADD && (type == BULK_F16 || type == BULK_BF16);
    if (!bulk_can_reduce(o->reduction, o->type, o->target.way == BULK_STORE) || half_sum != keeps_subnormals)
        return decode_refuse(d, "there is no .%s%s.%s", bulk_reduction_words[reduction],
                             keeps_subnormals ? ".noftz" : "", bulk_type_words[type]);
    return decode_operands_of_copy(d, op, o, &options);
}

/* A prefetch has no observable effect. */
static void exec_prefetch(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const struct bulk_op *o = (const struct bulk_op *)op->data;
    const uint32_t       *size = emu_r32(w, op->source[o->size]);
    for (uint32_t m = mask; m; m &= m - 1) {
        int l = __builtin_ctz(m);
        if (size[l] % 16 != 0 || cp_address_of(w, op, &o->from, l) % 16 != 0) {
            emu_fault(w, op, l, 716, "%u bytes at 0x%llx: not multiples of 16", size[l],
                      (unsigned long long)cp_address_of(w, op, &o->from, l));
            return;
        }
    }
}

bool decode_bulk_prefetch(struct decoder *d, struct emu_op *op)
{
    struct bulk_op *o = (struct bulk_op *)decode_alloc(d, 1, sizeof *o);
    if (o == NULL || !decode_take(d, "L2") || decode_space(d, NULL) != EMU_GLOBAL)
        return decode_refuse(d, "cp.async.bulk.prefetch must be .L2.global");
    bool hint = cp_take_cache_hint(d);
    if (!decode_end(d) || !decode_operands(d, 2 + hint, 2 + hint) ||
        !cp_decode_address(d, 0, EMU_GLOBAL, &o->from))
        return false;
    o->size = op->source_count;
    decode_source(d, 1, PTX_u32);
    if (hint)
        decode_source(d, 2, PTX_b64);
    op->data = o;
    op->exec = exec_prefetch;
    return !d->failed;
}
