/* control.c - branches, calls, the ends of threads, and hints without effect. */
#include "tools/emu/decode/decode.h"
#include "tools/emu/machine/undefined.h"
#include "tools/emu/decode/state.h"
#include "intrinsics.h"
#include "tools/emu/judge/judge.h"
#include "tools/emu/machine/special.h"
#include "warp.h"

/* ---- bra, brx ------------------------------------------------------------------------------------- */
static void exec_bra(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    if (mask == w->active) {
        w->next = op->target;
    } else {
        emu_split(w, mask, op->target);
        w->event = EMU_EVENT_SPLIT;
    }
}

static bool find_label(struct decoder *d, const struct ptx_operand *o, uint32_t *target)
{
    if (o == NULL)
        return false;
    if (o->kind != PTX_OP_SYMBOL || o->symbol->kind != PTX_LABEL)
        return decode_refuse(d, "a label is expected");
    *target = o->symbol->target;
    return true;
}

bool decode_bra(struct decoder *d, struct emu_op *op)
{
    decode_take(d, "uni");
    op->exec = exec_bra;
    op->class_ = EMU_CLASS_control;
    op->u8[7] = 1; /* has a target */
    return decode_end(d) && decode_operands(d, 1, 1) && find_label(d, decode_operand(d, 0), &op->target);
}

static void exec_brx(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const struct branch_table *table = (const struct branch_table *)op->data;
    const uint32_t            *index = emu_r32(w, op->source[0]);
    uint32_t                   left = mask;
    while (left) {
        int      lane = __builtin_ctz(left);
        uint32_t same = 0, chosen = index[lane];
        if (chosen >= table->count) {
            emu_fault(w, op, lane, 715, "index %u is outside of a table of %u labels", chosen, table->count);
            return;
        }
        EMU_FOR_LANES(left, l, same |= (uint32_t)(index[l] == chosen) << l);
        left &= ~same;
        emu_split(w, same, table->targets[chosen]);
    }
    w->event = EMU_EVENT_SPLIT;
}

bool decode_brx(struct decoder *d, struct emu_op *op)
{
    struct branch_table *table = (struct branch_table *)decode_alloc(d, 1, sizeof *table);
    if (!decode_take(d, "idx"))
        return decode_refuse(d, "only brx.idx is known");
    decode_take(d, "uni");
    if (!decode_end(d) || !decode_operands(d, 2, 2))
        return false;
    decode_source(d, 0, PTX_u32);
    const struct ptx_operand *list = decode_operand(d, 1);
    if (d->failed || list->kind != PTX_OP_SYMBOL || list->symbol->kind != PTX_TARGETS)
        return decode_refuse(d, "the label of a .branchtargets is expected");
    table->count = list->symbol->target_count;
    table->targets = (uint32_t *)decode_alloc(d, table->count, sizeof *table->targets);
    for (uint32_t i = 0; i < table->count && !d->failed; i++)
        table->targets[i] = list->symbol->targets[i]->target;
    op->data = table;
    op->u8[6] = 1; /* has a table of targets */
    op->exec = exec_brx;
    op->class_ = EMU_CLASS_control;
    return !d->failed;
}

/* ---- exit, ret ------------------------------------------------------------------------------------ */
static void exec_exit(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    (void)op;
    emu_exit_lanes(w, mask);
}

bool decode_exit(struct decoder *d, struct emu_op *op)
{
    op->exec = exec_exit;
    op->class_ = EMU_CLASS_control;
    return decode_end(d) && decode_operands(d, 0, 0);
}

static void copy_bits(unsigned char *to, uint32_t to_bit, const unsigned char *from, uint32_t from_bit,
                      uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t a = to_bit + i, b = from_bit + i;
        bool     set = from[b / 8] >> (b % 8) & 1;
        to[a / 8] = (unsigned char)((to[a / 8] & ~(1u << (a % 8))) | (unsigned int)set << (a % 8));
    }
}

static uint32_t *frame_defined(struct emu_warp *w, uint32_t frame, emu_reg reg)
{
    return EMU_BANK(reg) == EMU_BANK_FRAME ? &w->defined_rows[frame + EMU_ROW_OF(reg)] : NULL;
}

static unsigned char *frame_row(struct emu_warp *w, uint32_t frame, emu_reg reg)
{
    if (EMU_BANK(reg) != EMU_BANK_FRAME)
        return (unsigned char *)emu_row(w, reg);
    return w->rows + (size_t)(frame + EMU_ROW_OF(reg)) * EMU_ROW;
}

static bool bits_are_set(const unsigned char *bits, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++)
        if (!(bits[i / 8] >> (i % 8) & 1))
            return false;
    return true;
}

static void set_bits(unsigned char *bits, uint32_t first, uint32_t count, bool set)
{
    for (uint32_t i = first; i < first + count; i++)
        bits[i / 8] = (unsigned char)((bits[i / 8] & ~(1u << (i % 8))) | (unsigned int)set << (i % 8));
}

/* A scalar, from a register or from memory. */
static uint64_t read_piece(struct emu_warp *w, int lane, const struct piece *p, uint32_t frame, uint32_t local,
                           bool *defined)
{
    uint64_t value = 0;
    size_t   base = (size_t)lane * w->local_bytes;
    if (p->reg != EMU_NO_REG) {
        uint32_t        width = p->bytes > 4 ? 8 : 4;
        const uint32_t *bits = frame_defined(w, frame, p->reg);
        memcpy(&value, frame_row(w, frame, p->reg) + width * (uint32_t)lane, width);
        *defined = bits == NULL || *bits >> lane & 1;
    } else {
        memcpy(&value, w->local + base + local + p->offset, p->bytes);
        *defined = bits_are_set(w->local_defined + base / 8, local + p->offset, p->bytes);
    }
    return value;
}

static void write_piece(struct emu_warp *w, int lane, const struct piece *p, uint32_t frame, uint32_t local,
                        uint64_t value, bool defined)
{
    size_t base = (size_t)lane * w->local_bytes;
    if (p->reg != EMU_NO_REG) {
        uint32_t  width = p->bytes > 4 ? 8 : 4;
        uint32_t *bits = frame_defined(w, frame, p->reg);
        memcpy(frame_row(w, frame, p->reg) + width * (uint32_t)lane, &value, width);
        if (bits != NULL)
            *bits = (*bits & ~(1u << lane)) | (uint32_t)defined << lane;
        if (bits != NULL && !defined)
            emu_mirror_ones(w, frame + EMU_ROW_OF(p->reg), 8 * p->bytes, 1u << lane);
    } else {
        memcpy(w->local + base + local + p->offset, &value, p->bytes);
        set_bits(w->local_defined + base / 8, local + p->offset, p->bytes, defined);
    }
}

/* Copy one argument or result for one lane from one frame to another: a register may correspond to a scalar in
 * .param memory. */
static void pass(struct emu_warp *w, int lane, const struct piece *to, uint32_t to_frame, uint32_t to_local,
                 const struct piece *from, uint32_t from_frame, uint32_t from_local)
{
    uint32_t bytes = to->bytes < from->bytes ? to->bytes : from->bytes;
    size_t   base = (size_t)lane * w->local_bytes;
    if (to->reg == EMU_NO_REG && from->reg == EMU_NO_REG) {
        memmove(w->local + base + to_local + to->offset, w->local + base + from_local + from->offset, bytes);
        copy_bits(w->local_defined + base / 8, to_local + to->offset, w->local_defined + base / 8,
                  from_local + from->offset, bytes);
    } else {
        bool     defined;
        uint64_t value = read_piece(w, lane, from, from_frame, from_local, &defined);
        write_piece(w, lane, to, to_frame, to_local, value, defined);
    }
}

static void pass_results(struct emu_warp *w, int lane, const struct emu_return *back)
{
    const struct emu_fragment *f = w->now;
    const struct call         *call = (const struct call *)back->function->code[back->pc - 1].data;
    for (uint32_t i = 0; i < call->result_count && i < f->function->result_count; i++) {
        const struct emu_formal *formal = &f->function->results[i];
        struct piece             from = {formal->reg, formal->offset, formal->bytes};
        pass(w, lane, &call->results[i], back->frame, back->local, &from, f->frame, f->local);
    }
}

static void enter_frame(struct emu_warp *w, struct emu_fragment *f)
{
    uint64_t *base = emu_r64(w, emu_special_reg(EMU_SPECIAL_LOCAL_BASE));
    for (int l = 0; l < EMU_LANES; l++)
        if (f->mask >> l & 1)
            base[l] = f->local;
}

/* Each lane returns to its caller. */
static void exec_ret(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    struct emu_fragment *f = w->now;
    (void)op;
    if (f->depth == 0) {
        emu_exit_lanes(w, mask);
        return;
    }
    const struct emu_return *returns = w->returns + (size_t)(f->depth - 1) * EMU_LANES;
    uint32_t                 left = mask, depth = f->depth;
    while (left) {
        struct emu_return back = returns[__builtin_ctz(left)];
        uint32_t          same = 0;
        for (int l = 0; l < EMU_LANES; l++)
            if (left >> l & 1 && memcmp(&returns[l], &back, sizeof back) == 0) {
                same |= 1u << l;
                pass_results(w, l, &returns[l]);
            }
        left &= ~same;
        struct emu_fragment *home = emu_split(w, same, back.pc);
        home->function = back.function;
        home->frame = back.frame;
        home->local = back.local;
        home->depth = depth - 1;
        enter_frame(w, home);
    }
    w->event = EMU_EVENT_SPLIT;
}

bool decode_ret(struct decoder *d, struct emu_op *op)
{
    decode_take(d, "uni");
    op->exec = exec_ret;
    op->class_ = EMU_CLASS_control;
    return decode_end(d) && decode_operands(d, 0, 0);
}

/* ---- call ----------------------------------------------------------------------------------------- */
static void clear_frame(struct emu_warp *w, const struct emu_fragment *f)
{
    for (uint32_t r = 0; r < f->function->rows; r++)
        w->defined_rows[f->frame + r] &= ~f->mask;
    for (uint32_t r = 0, rows; w->mirror != NULL && r < f->function->rows; r += rows) {
        const uint8_t bits = f->function->row_bits[r];
        rows = bits == 128 ? 4 : bits == 64 ? 2 : 1;
        emu_mirror_ones(w, f->frame + r, bits, f->mask);
    }
    for (int l = 0; l < EMU_LANES; l++)
        if (f->mask >> l & 1)
            memset(w->local_defined + ((size_t)l * w->local_bytes + f->local) / 8, 0,
                   (f->function->local_bytes + 7) / 8);
}

static bool room(struct emu_warp *w, const struct emu_op *op, const struct emu_fragment *f,
                 const struct emu_function *callee)
{
    if (emu_frame_of(callee, f->depth + 1) + callee->rows > w->row_count ||
        (callee->calls_recursively && f->depth >= EMU_CALL_DEPTH) ||
        f->local + f->function->local_bytes + callee->local_bytes > w->local_bytes ||
        f->depth + 1 > w->return_depth) {
        emu_fault(w, op, -1, 719, "the stack overflows: %u calls deep", f->depth + 1);
        return false;
    }
    return true;
}

static void enter(struct emu_warp *w, const struct emu_op *op, const struct emu_function *callee, uint32_t mask,
                  uint32_t pc)
{
    struct emu_fragment caller = *w->now;
    const struct call  *call = (const struct call *)op->data;
    if (!callee->text->has_body) {
        emu_fault(w, op, -1, 715, "'%s' has no body", callee->name);
        return;
    }
    if (callee->parameter_count != call->argument_count || callee->result_count != call->result_count) {
        emu_fault(w, op, -1, 715, "'%s' takes %u arguments and %u results", callee->name,
                  callee->parameter_count, callee->result_count);
        return;
    }
    if (!room(w, op, &caller, callee))
        return;
    struct emu_fragment *f = emu_split(w, mask, 0);
    f->function = callee;
    f->depth = caller.depth + 1;
    f->frame = emu_frame_of(callee, f->depth);
    f->local = caller.local + caller.function->local_bytes;
    clear_frame(w, f);
    for (int l = 0; l < EMU_LANES; l++) {
        if (!(mask >> l & 1))
            continue;
        struct emu_return *back = &w->returns[(size_t)caller.depth * EMU_LANES + (size_t)l];
        memset(back, 0, sizeof *back);
        back->function = caller.function;
        back->pc = pc + 1;
        back->frame = caller.frame;
        back->local = caller.local;
        for (uint32_t i = 0; i < callee->parameter_count; i++) {
            const struct emu_formal *formal = &callee->parameters[i];
            struct piece             to = {formal->reg, formal->offset, formal->bytes};
            pass(w, l, &to, f->frame, f->local, &call->arguments[i], caller.frame, caller.local);
        }
    }
    enter_frame(w, f);
    w->event = EMU_EVENT_SPLIT;
}

static void exec_call(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const struct call       *call = (const struct call *)op->data;
    const struct emu_module *m = w->grid->module;
    uint32_t                 pc = w->now->pc;
    if (call->callee != NULL) {
        enter(w, op, call->callee, mask, pc);
        return;
    }
    const uint64_t *address = emu_r64(w, op->source[0]);
    uint64_t        chosen = address[__builtin_ctz(mask)] - EMU_FUNCTION_WINDOW;
    uint32_t        same = 0;
    EMU_FOR_LANES(mask, l, same |= (uint32_t)(address[l] - EMU_FUNCTION_WINDOW == chosen) << l);
    if (chosen >= m->function_count || m->functions[chosen].text->is_entry) {
        emu_fault(w, op, __builtin_ctz(mask), 715, "a call to 0x%llx, which is not a function",
                  (unsigned long long)(chosen + EMU_FUNCTION_WINDOW));
        return;
    }
    if (same != mask) /* the other lanes become a fragment that executes this op again */
        emu_split(w, mask & ~same, pc);
    enter(w, op, &m->functions[chosen], same, pc);
}

/* An argument or result for `formal` (NULL: unknown), which gives literals their type. */
static bool decode_piece(struct decoder *d, const struct ptx_operand *o, const struct ptx_symbol *formal,
                         struct piece *p, bool result)
{
    uint64_t wanted = (formal == NULL)               ? 0
                      : formal->kind == PTX_REGISTER ? ptx_type_bits(formal->type) / 8
                                                     : formal->bytes;
    p->reg = EMU_NO_REG;
    if (o->kind == PTX_OP_SYMBOL) {
        const struct placed *at = decode_find_placed(d->state, o->symbol);
        if (at == NULL || at->space != EMU_LOCAL)
            return decode_refuse(d, "'%s' is not a .param variable of this function", o->symbol->name);
        p->offset = (uint32_t)at->address;
        p->bytes = (uint32_t)o->symbol->bytes;
    } else {
        enum ptx_type type = o->kind == PTX_OP_REGISTER ? o->symbol->type
                             : formal != NULL           ? formal->type
                                                        : PTX_b32;
        p->bytes = ptx_type_bits(type) / 8;
        p->reg = result ? decode_result_of(d, o, type) : decode_source_of(d, o, type);
        if (p->bytes > 8 || ptx_type_bits(type) == 1)
            return decode_refuse(d, "an argument or result cannot be .%s", ptx_type_name(type));
    }
    if (formal != NULL && wanted != p->bytes)
        return decode_refuse(d, "%u bytes are given for '%s', which has %llu", p->bytes, formal->name,
                             (unsigned long long)wanted);
    return !d->failed;
}

static bool decode_pieces(struct decoder *d, const struct ptx_operand *group, const struct ptx_function *callee,
                          struct piece **out, uint32_t *count, bool result)
{
    struct ptx_symbol *const *formals = callee == NULL ? NULL : result ? callee->results : callee->parameters;
    unsigned int wanted = callee == NULL ? 0 : result ? callee->result_count : callee->parameter_count;
    if (callee != NULL && wanted != group->count)
        return decode_refuse(d, "%u %s instead of %u", group->count, result ? "results" : "arguments", wanted);
    *count = group->count;
    *out = (struct piece *)decode_alloc(d, group->count, sizeof **out);
    for (uint32_t i = 0; i < group->count && !d->failed; i++)
        decode_piece(d, &group->items[i], formals != NULL ? formals[i] : NULL, &(*out)[i], result);
    return !d->failed;
}

/* The callee, as far as the text tells: the function, or the prototype of a call by address. */
static const struct ptx_function *signature(const struct decoder *d, unsigned int callee)
{
    for (unsigned int i = callee; i < d->in->operand_count; i++) {
        const struct ptx_operand *o = &d->in->operands[i];
        if (o->kind == PTX_OP_SYMBOL && (o->symbol->kind == PTX_FUNCTION || o->symbol->kind == PTX_PROTOTYPE))
            return o->symbol->function;
    }
    return NULL;
}

static bool decode_callee(struct decoder *d, const struct ptx_operand *o, struct call *call)
{
    if (o->kind == PTX_OP_REGISTER)
        return decode_source_of(d, o, PTX_u64) != EMU_NO_REG;
    if (o->kind != PTX_OP_SYMBOL || o->symbol->kind != PTX_FUNCTION)
        return decode_refuse(d, "a function is expected");
    for (uint32_t i = 0; i < d->module->function_count; i++)
        if (d->module->functions[i].text == o->symbol->function)
            call->callee = &d->module->functions[i];
    if (call->callee != NULL && call->callee->text->has_body)
        return true;
    call->callee = NULL;
    call->intrinsic = emu_intrinsic(o->symbol->name);
    return call->intrinsic != NULL || decode_refuse(d, "nothing defines '%s'", o->symbol->name);
}

bool decode_call(struct decoder *d, struct emu_op *op)
{
    struct call *call = (struct call *)decode_alloc(d, 1, sizeof *call);
    unsigned int at = 0, count = decode_operand_count(d);
    decode_take(d, "uni");
    if (!decode_end(d) || !decode_operands(d, 1, 4))
        return false;
    const struct ptx_operand *first = decode_operand(d, 0);
    at = first->kind == PTX_OP_GROUP;
    if (at >= count || !decode_callee(d, decode_operand(d, at), call)) /* source[0] of an indirect call */
        return decode_refuse(d, "a function is expected");
    const bool indirect = d->in->operands[at].kind == PTX_OP_REGISTER;
    const bool arguments = at + 1 < count && d->in->operands[at + 1].kind == PTX_OP_GROUP;
    if (at + 1 + arguments + indirect != count ||
        (indirect && d->in->operands[count - 1].kind != PTX_OP_SYMBOL))
        return decode_refuse(d, indirect ? "a prototype or a list of functions is expected as the last operand"
                                         : "only a list of arguments can follow the function");
    const struct ptx_function *callee = signature(d, at);
    if (at && !decode_pieces(d, first, callee, &call->results, &call->result_count, true))
        return false;
    if (arguments &&
        !decode_pieces(d, &d->in->operands[at + 1], callee, &call->arguments, &call->argument_count, false))
        return false;
    if (callee != NULL &&
        (call->result_count != callee->result_count || call->argument_count != callee->parameter_count))
        return decode_refuse(d, "'%s' has %u arguments and %u results",
                             callee->name != NULL ? callee->name : "it", callee->parameter_count,
                             callee->result_count);
    op->data = call;
    op->exec = exec_call;
    op->flags |= EMU_OP_CHECKS; /* ret writes the results */
    op->class_ = EMU_CLASS_control;
    if (call->intrinsic != NULL)
        return emu_intrinsic_decode(d, op, call);
    return !d->failed;
}

/* ---- trap, and instructions without effect -------------------------------------------------------- */
static void exec_trap(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    emu_fault(w, op, __builtin_ctz(mask), 719, "the kernel stops itself");
}

bool decode_trap(struct decoder *d, struct emu_op *op)
{
    op->exec = exec_trap;
    op->class_ = EMU_CLASS_control;
    return decode_end(d) && decode_operands(d, 0, 0);
}

static void exec_yield(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    (void)op;
    (void)mask;
    emu_yield(w);
}

bool decode_nanosleep(struct decoder *d, struct emu_op *op)
{
    op->exec = exec_yield;
    op->class_ = EMU_CLASS_control;
    if (!decode_take(d, "u32"))
        return decode_refuse(d, "the type must be .u32");
    decode_source(d, 0, PTX_u32);
    return decode_end(d) && decode_operands(d, 1, 1);
}

/* Nothing to do: the effect cannot be observed here. */
static void exec_nothing(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    (void)w;
    (void)op;
    (void)mask;
}

bool decode_pmevent(struct decoder *d, struct emu_op *op)
{
    int64_t    value;
    const bool mask = decode_take(d, "mask");
    op->exec = exec_nothing;
    op->class_ = EMU_CLASS_control;
    return decode_end(d) && decode_operands(d, 1, 1) && decode_integer(d, 0, &value) &&
           ((value >= 0 && value <= (mask ? 0xffff : 15)) ||
            decode_refuse(d, "there is no event %lld", (long long)value));
}

/* Launches run one after the other, so dependents and prerequisites are always ready; the judge knows that on a GPU
 * they may overlap. */
static void exec_launch_dependents(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    (void)op;
    judge_dependents_begin(w, mask);
}

static void exec_dependent_wait(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    (void)op;
    judge_dependent_wait(w, mask);
}

bool decode_griddepcontrol(struct decoder *d, struct emu_op *op)
{
    static const char *const words[] = {"launch_dependents", "wait", NULL};
    const int                word = decode_one_of(d, words);
    op->exec = word == 0 ? exec_launch_dependents : exec_dependent_wait;
    op->class_ = EMU_CLASS_sync;
    if (word < 0)
        return decode_refuse(d, "launch_dependents or wait is expected");
    return decode_need_sm(d, 90) && decode_end(d) && decode_operands(d, 0, 0);
}

/* The registers of a thread at its start if setmaxnreg is used: its share of the SM's registers. */
static uint32_t launch_registers(const struct emu_cta *cta)
{
    uint32_t share = 65536 / (cta->warp_count * EMU_LANES) / 8 * 8;
    return share < 255 ? share : 256;
}

/* When every warp has executed setmaxnreg, all of them together must not need more registers than the block
 * has; otherwise a warp that needs more would wait forever. */
static void exec_setmaxnreg(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    struct emu_cta *cta = w->cta;
    uint32_t        given = launch_registers(cta), wanted = 0;
    (void)mask;
    cta->warps_moved += w->registers == 0;
    w->registers = op->u32[0];
    for (uint32_t i = 0; i < cta->warp_count; i++)
        wanted += cta->warps[i].registers;
    if (cta->warps_moved == cta->warp_count && wanted > given * cta->warp_count)
        judge_find(w, op, 0, JUDGE_DEADLOCK,
                   "the warps of the block want %u registers for each of their lanes, it has %u (%u a thread): "
                   "one of them waits forever",
                   wanted, given * cta->warp_count, given);
}

bool decode_setmaxnreg(struct decoder *d, struct emu_op *op)
{
    static const char *const words[] = {"inc", "dec", NULL};
    int64_t                  count = 0;
    op->exec = exec_setmaxnreg;
    op->flags = EMU_OP_ALIGNED;
    op->class_ = EMU_CLASS_sync;
    if (decode_one_of(d, words) < 0 || !decode_take(d, "sync") || !decode_take(d, "aligned"))
        return decode_refuse(d, ".inc or .dec, .sync and .aligned are expected");
    if (decode_type(d) != PTX_u32 || !decode_need_suffix_from(d, 90) || !decode_end(d) ||
        !decode_operands(d, 1, 1) || !decode_integer(d, 0, &count))
        return decode_refuse(d, ".u32 is wanted");
    op->u32[0] = (uint32_t)count;
    return (count >= 24 && count <= 256 && count % 8 == 0) ||
           decode_refuse(d, "%lld is not a multiple of 8 between 24 and 256", (long long)count);
}
