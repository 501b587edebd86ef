/* wgmma.c - a warpgroup multiplies matrices in shared memory while its threads continue.
 *
 * Each of the four warps has its own operation in flight, for 16 rows of D.  Those of a warp complete in order,
 * and use what shared memory and the registers of A hold at that time.  An operation owns its registers until a
 * wait covers it: emu_warp.busy has all lanes for an accumulator, and all lanes but the last for a register of
 * A. */
#include <stdio.h>
#include <stdlib.h>

#include "tools/emu/async/async.h"
#include "tools/emu/async/state.h"
#include "tools/emu/memory/memory.h"
#include "mma.h"
#include "wgmma_descriptor.h"

enum { GROUP = 4, WARP_ROWS = 16, MOST_N = 256, DEPTH = 32, RUNS = 256 };
#define OWNED_SUM EMU_ALL
#define OWNED_A   0x7fffffffu

struct plan {
    struct tensor_product  p; /* of a warp: m is 16 */
    struct tensor_fragment a, c;
    int                    a_count, c_count; /* registers; a_count 0: in shared memory */
    int                    predicate;        /* op->source[predicate]: scale-d; before it A, B, after it D */
    bool                   predicate_negated, negated; /* either A or B is, never both */
    bool                   a_mn, b_mn;
};

struct flight {
    struct async_op      async;
    struct wgmma_matrix  a, b;
    uint32_t             frame; /* the rows where the registers are */
    bool                 accumulates;
    const unsigned char *shared;
};

/* ---- reading the operands ------------------------------------------------------------------------------ */
static const unsigned char *chunk_at(const struct flight *f, const struct wgmma_matrix *x, int line, int chunk)
{
    return f->shared + wgmma_chunk(x, (uint32_t)line, (uint32_t)chunk);
}

/* Elements of a chunk as words. */
static void unpack(const unsigned char *from, int bytes, uint32_t *to, int step)
{
    for (int i = 0; i < WGMMA_CHUNK / bytes; i++, from += bytes, to += step) {
        uint16_t half;
        switch (bytes) {
        case 1:
            *to = *from;
            break;
        case 2:
            memcpy(&half, from, sizeof half), *to = half;
            break;
        default:
            memcpy(to, from, sizeof *to);
            break;
        }
    }
}

/* Lines first.. of `count` along M or N into out[line, k]: strides in words. */
static void read_matrix(const struct flight *f, const struct wgmma_matrix *x, int bytes, int first, int count,
                        uint32_t *out, int line_step, int k_step)
{
    const int each = WGMMA_CHUNK / bytes;
    if (x->mn_major)
        for (int k = 0; k < WGMMA_DEPTH_BYTES / bytes; k++)
            for (int c = 0; c < count / each; c++)
                unpack(chunk_at(f, x, k, first / each + c), bytes, out + c * each * line_step + k * k_step,
                       line_step);
    else
        for (int i = 0; i < count; i++)
            for (int c = 0; c < WGMMA_DEPTH_BYTES / WGMMA_CHUNK; c++)
                unpack(chunk_at(f, x, first + i, c), bytes, out + i * line_step + c * each * k_step, k_step);
}

static uint32_t sign_bit(enum tensor_type type) { return 1u << (tensor_type_bits(type) - 1); }

static void complete(struct async_op *async)
{
    const struct flight *f = (const struct flight *)async;
    const struct plan   *plan = (const struct plan *)async->op->data;
    const emu_reg       *sums = async->op->source + plan->predicate + 1;
    struct emu_warp     *w = async->warp;
    uint32_t             a[WARP_ROWS * DEPTH], b[DEPTH * MOST_N], c[WARP_ROWS * MOST_N];
    unsigned char *const frame = w->bank[EMU_BANK_FRAME];
    const bool           bits = plan->p.a == TENSOR_b1;
    const int            bytes = bits ? 4 : (int)tensor_type_bits(plan->p.a) / 8, k = WGMMA_DEPTH_BYTES / bytes;
    w->bank[EMU_BANK_FRAME] = w->rows + (size_t)f->frame * EMU_ROW; /* it may be in another function by now */
    if (plan->a_count > 0)
        tensor_gather_a(w, async->op->source, &plan->a, a);
    else
        read_matrix(f, &f->a, bytes, WARP_ROWS * (int)(w->index % GROUP), WARP_ROWS, a, k, 1);
    read_matrix(f, &f->b, bytes, 0, plan->p.n, b, 1, plan->p.n);
    for (int i = 0; i < WARP_ROWS * k && plan->negated; i++)
        a[i] ^= sign_bit(plan->p.a);
    if (f->accumulates)
        tensor_gather_c(w, sums, &plan->c, c);
    else
        memset(c, 0, sizeof *c * (size_t)(WARP_ROWS * plan->p.n));
    tensor_multiply(&plan->p, a, b, c);
    tensor_scatter_c(w, async->op->result, &plan->c, c);
    w->bank[EMU_BANK_FRAME] = frame;
}

/* ---- owned registers ----------------------------------------------------------------------------------- */
static void own(struct emu_warp *w, const struct flight *f, bool owns)
{
    const struct emu_op *op = f->async.op;
    const struct plan   *plan = (const struct plan *)op->data;
    uint32_t            *busy = w->busy_rows + f->frame;
    for (int i = 0; i < plan->a_count; i++)
        if (EMU_BANK(op->source[i]) == EMU_BANK_FRAME)
            busy[op->source[i]] = owns ? busy[op->source[i]] | OWNED_A : 0;
    for (int i = 0; i < plan->c_count; i++)
        busy[op->result[i]] = owns ? OWNED_SUM : 0;
}

/* Registers that later operations own too stay owned. */
static void observed(struct async_op *async)
{
    struct emu_warp *w = async->warp;
    own(w, (const struct flight *)async, false);
    for (const struct async_op *a = w->async->queue[ASYNC_WGMMA].head; a != NULL; a = a->next)
        if (a != async && a->lanes != 0)
            own(w, (const struct flight *)a, true);
}

/* An operation may add to an accumulator of an earlier one in flight, and may read a register of A again. */
static bool check_owned(struct emu_warp *w, const struct emu_op *op, const struct plan *plan)
{
    for (int i = 0; i < plan->a_count; i++)
        if (EMU_BANK(op->source[i]) == EMU_BANK_FRAME && w->busy[op->source[i]] == OWNED_SUM) {
            judge_find(w, op, 0, JUDGE_ASYNC,
                       "register %d of A is an accumulator of a wgmma that no wait_group "
                       "covers yet",
                       i);
            return false;
        }
    for (int i = 0; i < plan->c_count; i++)
        if (w->busy[op->result[i]] == OWNED_A) {
            judge_find(w, op, 0, JUDGE_ASYNC,
                       "register %d of D is an A of a wgmma that no wait_group covers yet", i);
            return false;
        }
    return true;
}

static bool check_written(struct emu_warp *w, const struct emu_op *op, const emu_reg *reg, int count,
                          const char *what)
{
    for (int i = 0; i < count; i++)
        if (EMU_BANK(reg[i]) == EMU_BANK_FRAME && w->written[reg[i]] > w->wgmma_fence) {
            judge_find(w, op, 0, JUDGE_ASYNC,
                       "uses register %d of %s, which was written after the last wgmma.fence", i, what);
            return false;
        }
    return true;
}

/* A wgmma.fence comes before the first wgmma, and between a write of its registers and a wgmma that reads them.  What an
 * earlier wgmma has added up needs none. */
static void check_fence(struct emu_warp *w, const struct emu_op *op, const struct plan *plan, bool adds)
{
    if (w->wgmma_fence == 0)
        judge_find(w, op, 0, JUDGE_ASYNC,
                   "there is no wgmma.fence before the first wgmma that reads its registers");
    else if (check_written(w, op, op->source, plan->a_count, "A") && adds)
        check_written(w, op, op->result, plan->c_count, "D");
}

static void check_defined(struct emu_warp *w, const struct emu_op *op, const emu_reg *reg, int count,
                          const char *what)
{
    for (int i = 0; i < count; i++) {
        if (EMU_BANK(reg[i]) != EMU_BANK_FRAME || w->defined[reg[i]] == EMU_ALL)
            continue;
        judge_find(w, op, __builtin_ctz(~w->defined[reg[i]]), JUDGE_UNINITIALISED,
                   "register %d of %s has never been written", i, what);
        w->defined[reg[i]] = EMU_ALL;
    }
}

/* ---- telling the judge --------------------------------------------------------------------------------- */
struct runs {
    uint32_t count, low, high, at[RUNS];
};

static void add_chunk(struct runs *r, uint32_t address)
{
    r->low = r->count == 0 || address < r->low ? address : r->low;
    r->high = address > r->high ? address : r->high;
    r->at[r->count++] = address;
}

/* `count` lines of M or N from `first` on: of A, or a quarter of B, which the four warps report together. */
static void add_a(struct runs *r, const struct wgmma_matrix *x, uint32_t first)
{
    for (uint32_t i = 0; i < WARP_ROWS;
         i++) /* MN-major elements have 16 bits, so there are 16 lines along k too */
        for (uint32_t c = 0; c < 2; c++)
            add_chunk(r, x->mn_major ? wgmma_chunk(x, i, first / 8 + c) : wgmma_chunk(x, first + i, c));
}

static void add_b(struct runs *r, const struct wgmma_matrix *x, uint32_t n, uint32_t quarter)
{
    const uint32_t lines = (x->mn_major ? WARP_ROWS : n) / GROUP, chunks = x->mn_major ? n / 8 : 2;
    for (uint32_t i = 0; i < lines; i++)
        for (uint32_t c = 0; c < chunks; c++)
            add_chunk(r, wgmma_chunk(x, quarter * lines + i, c));
}

static int compare(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* All of it must be in the shared memory of the block. */
static bool find_span(struct emu_warp *w, const struct emu_op *op, const struct runs *r, struct emu_ref *span)
{
    return emu_memory_range(w, op, 0, EMU_SHARED, r->low, r->high - r->low + WGMMA_CHUNK, WGMMA_CHUNK,
                            EMU_READ | EMU_NO_JUDGE, span);
}

/* Contiguous chunks together. */
static void touch(struct emu_warp *w, const struct emu_op *op, struct runs *r, const struct emu_ref *span,
                  struct judge_async *judge)
{
    qsort(r->at, r->count, sizeof *r->at, compare);
    for (uint32_t i = 0, end; i < r->count; i = end) {
        struct emu_ref run = *span;
        for (end = i + 1; end < r->count && r->at[end] - r->at[end - 1] <= WGMMA_CHUNK; end++)
            ;
        const uint32_t bytes = r->at[end - 1] - r->at[i] + WGMMA_CHUNK;
        run.at += r->at[i] - r->low;
        run.address += r->at[i] - r->low;
        if (!emu_defined(&run, bytes))
            judge_find(w, op, 0, JUDGE_UNINITIALISED,
                       "reads shared memory at 0x%x, %u bytes, which nothing has "
                       "written completely",
                       r->at[i], bytes);
        judge_async_touch(judge, &run, bytes, EMU_READ);
    }
}

/* ---- issue --------------------------------------------------------------------------------------------- */
static bool same_descriptor(struct emu_warp *w, const struct emu_op *op, emu_reg reg, uint64_t *word)
{
    const uint64_t *x = emu_r64(w, reg);
    *word = x[0];
    for (int l = 1; l < EMU_LANES; l++)
        if (x[l] != x[0]) {
            emu_fault(w, op, l, 719, "the matrix descriptor 0x%llx is not that of thread 0 of the warp, 0x%llx",
                      (unsigned long long)x[l], (unsigned long long)x[0]);
            return false;
        }
    return true;
}

static bool check_warps(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    if (!mma_whole_warp(w, op, mask))
        return false;
    if (w->index / GROUP * GROUP + GROUP <= w->cta->warp_count)
        return true;
    emu_fault(w, op, -1, 715, "warp %u is not in a whole warpgroup: the block has %u warps", w->index,
              w->cta->warp_count);
    return false;
}

/* Whether D is added to: the same for all. */
static bool accumulates(struct emu_warp *w, const struct emu_op *op, const struct plan *plan, bool *out)
{
    uint32_t bits = emu_pred(w, op->source[plan->predicate]);
    *out = (bits != 0) != plan->predicate_negated;
    if (bits == 0 || bits == EMU_ALL)
        return true;
    emu_fault(w, op, -1, 719, "scale-d is not the same in all threads of the warp");
    return false;
}

static void exec_mma_async(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const struct plan *plan = (const struct plan *)op->data;
    const int          a_sources = plan->a_count > 0 ? plan->a_count : 1;
    struct runs        runs = {.count = 0};
    struct emu_ref     span;
    uint64_t           a = 0, b;
    bool               adds;
    if (!check_warps(w, op, mask))
        return;
    if (!emu_busy_rows(w)) {
        emu_fault(w, op, -1, 2, "out of memory for the registers that wgmma owns");
        return;
    }
    check_defined(w, op, op->source, a_sources, "A");
    check_defined(w, op, op->source + a_sources, 1, "B");
    check_defined(w, op, op->source + plan->predicate, 1, "scale-d");
    if (!accumulates(w, op, plan, &adds) || !same_descriptor(w, op, op->source[a_sources], &b) ||
        (plan->a_count == 0 && !same_descriptor(w, op, op->source[0], &a)))
        return;
    if (adds)
        check_defined(w, op, op->result, plan->c_count, "D");
    check_fence(w, op, plan, adds);
    check_owned(w, op, plan);
    const struct wgmma_matrix of_a = wgmma_descriptor(a, plan->a_mn), of_b = wgmma_descriptor(b, plan->b_mn);
    if (plan->a_count == 0)
        add_a(&runs, &of_a, WARP_ROWS * (w->index % GROUP));
    add_b(&runs, &of_b, (uint32_t)plan->p.n, w->index % GROUP);
    struct flight *f = find_span(w, op, &runs, &span)
                           ? (struct flight *)async_new(w, op, 0, sizeof *f, complete)
                           : NULL;
    if (f == NULL)
        return;
    f->a = of_a;
    f->b = of_b;
    f->frame = w->now->frame;
    f->accumulates = adds;
    f->shared = w->cta->shared;
    f->async.observed = observed;
    f->async.judge = judge_async_begin(w, op, 0, true);
    if (f->async.judge != NULL)
        touch(w, op, &runs, &span, f->async.judge);
    own(w, f, true);
    for (int i = 0; i < plan->c_count; i++) {
        w->defined[op->result[i]] = EMU_ALL;
        w->written[op->result[i]] = 0;
    }
    mma_count(w, op, WARP_ROWS, (uint64_t)plan->p.n, (uint64_t)plan->p.k);
    async_issue(w, &f->async, ASYNC_WGMMA);
}

/* Registers are always as the last instruction left them; check_fence wants the fence. */
static void exec_fence(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    if (!check_warps(w, op, mask))
        return;
    if (!emu_busy_rows(w))
        emu_fault(w, op, -1, 2, "out of memory for the registers that wgmma owns");
    w->wgmma_fence = w->executed;
}

static void exec_commit(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    if (check_warps(w, op, mask))
        async_commit(w, mask, ASYNC_WGMMA);
}

static void exec_wait(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    if (check_warps(w, op, mask) && async_wait_warpgroup(w, op->u32[0]))
        async_wait(w, mask, ASYNC_WGMMA, op->u32[0], false);
}

/* ---- decoding ------------------------------------------------------------------------------------------ */
struct row {
    const char *a, *b, *d;
    int         k, isa;
    bool        few; /* of N: beyond 32 only multiples of 16 */
};
static const struct row rows[] = {
    {"f16", "f16", "f16|f32", 16, 80, false}, {"bf16", "bf16", "f32", 16, 80, false},
    {"tf32", "tf32", "f32", 8, 80, false},    {"e4m3|e5m2", "e4m3|e5m2", "f16|f32", 32, 80, false},
    {"s8", "s8", "s32", 32, 80, true},        {"u8", "u8", "s32", 32, 80, true},
    {"s8|u8", "s8|u8", "s32", 32, 84, true},  {"b1", "b1", "s32", 256, 80, true},
};

static const struct row *find_row(const struct tensor_product *p)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].k == p->k && mma_set_has(rows[i].a, p->a) && mma_set_has(rows[i].b, p->b) &&
            mma_set_has(rows[i].d, p->c))
            return &rows[i];
    return NULL;
}

static bool read_modifiers(struct decoder *d, struct plan *plan)
{
    struct mma_shape       shape;
    struct tensor_product *p = &plan->p;
    if (!mma_take_shape(d, &shape))
        return false;
    p->m = WARP_ROWS;
    p->n = shape.n;
    p->k = shape.k;
    p->saturates = decode_take(d, "satfinite");
    if ((p->c = mma_take_type(d)) == TENSOR_TYPES || (p->a = mma_take_type(d)) == TENSOR_TYPES ||
        (p->b = mma_take_type(d)) == TENSOR_TYPES)
        return false;
    p->bits = TENSOR_AND;
    if (p->a == TENSOR_b1 && (!decode_take(d, "and") || !decode_take(d, "popc")))
        return decode_refuse(d, "b1 needs .and.popc");
    const struct row *row = find_row(p);
    if (row == NULL || shape.m != 4 * WARP_ROWS)
        return decode_refuse(d, "no wgmma of this shape has these types");
    if (shape.n < 8 || shape.n > MOST_N || shape.n % (row->few && shape.n > 32 ? 16 : 8) != 0)
        return decode_refuse(d, "N = %d does not exist for these types", shape.n);
    if (p->saturates && (p->c != TENSOR_s32 || p->a == TENSOR_b1))
        return decode_refuse(d, ".satfinite does not exist for these types");
    p->rule = tensor_rule_of(d->sm, TENSOR_WGMMA, p->a, p->m, p->k);
    return decode_end(d) && decode_need_isa(d, row->isa);
}

/* scale-d; for floats the signs of A and B; for 16 bits which operands in shared memory are MN-major. */
static bool read_scales(struct decoder *d, struct plan *plan)
{
    const bool   half = plan->p.a == TENSOR_f16 || plan->p.a == TENSOR_bf16, floats = plan->p.c != TENSOR_s32;
    unsigned int majors = !half ? 0 : plan->a_count > 0 ? 1 : 2, number = 4;
    int64_t      sign[2] = {1, 1}, major[2] = {0, 0};
    if (!decode_operands(d, number + (floats ? 2 : 0) + majors, number + (floats ? 2 : 0) + majors))
        return false;
    for (int i = 0; i < 2 && floats; i++)
        if (!decode_integer(d, number++, &sign[i]) || (sign[i] != 1 && sign[i] != -1))
            return decode_refuse(d, "a sign of A or B must be 1 or -1");
    for (unsigned int i = 2 - majors; i < 2; i++)
        if (!decode_integer(d, number++, &major[i]) || (major[i] != 0 && major[i] != 1))
            return decode_refuse(d, "whether A or B is transposed must be 0 or 1");
    plan->negated = sign[0] != sign[1];
    plan->a_mn = major[0] == 1;
    plan->b_mn = major[1] == 1;
    return true;
}

static bool read_operands(struct decoder *d, struct emu_op *op, struct plan *plan)
{
    const struct tensor_product *p = &plan->p;
    const bool                   bits = p->a == TENSOR_b1;
    const struct ptx_operand    *a = decode_operand(d, 1), *predicate = decode_operand(d, 3);
    plan->a = (struct tensor_fragment){WARP_ROWS, bits ? p->k / 32 : p->k, bits ? 32 : tensor_type_bits(p->a)};
    plan->c = (struct tensor_fragment){WARP_ROWS, p->n, tensor_type_bits(p->c)};
    plan->c_count = tensor_registers_c(&plan->c);
    if (a == NULL || predicate == NULL)
        return false;
    plan->a_count = a->kind == PTX_OP_LIST ? tensor_registers_a(&plan->a) : 0;
    const enum ptx_type type = mma_register_type(p->c);
    const bool          integers = p->a == TENSOR_s8 || p->a == TENSOR_u8 || bits;
    if (!mma_results(d, 0, plan->c_count, type) ||
        !(plan->a_count > 0 ? mma_sources(d, 1, plan->a_count, integers ? PTX_b32 : PTX_f16x2)
                            : decode_source(d, 1, PTX_u64) != EMU_NO_REG) ||
        decode_source(d, 2, PTX_u64) == EMU_NO_REG)
        return false;
    plan->predicate = op->source_count;
    return decode_source_pred(d, predicate, &plan->predicate_negated) != EMU_NO_REG &&
           mma_sources(d, 0, plan->c_count, type) && read_scales(d, plan);
}

static bool decode_mma_async(struct decoder *d, struct emu_op *op)
{
    struct plan *plan = (struct plan *)decode_alloc(d, 1, sizeof *plan);
    if (decode_take(d, "sp"))
        return decode_refuse(d, "sparse matrices are not supported");
    if (plan == NULL || !decode_take(d, "sync"))
        return decode_refuse(d, ".sync is missing");
    decode_take(d, "aligned"); /* ptxas does not ask for it */
    if (!read_modifiers(d, plan) || !read_operands(d, op, plan))
        return false;
    op->data = plan;
    op->exec = exec_mma_async;
    op->class_ = EMU_CLASS_tensor;
    op->flags |= EMU_OP_CHECKS;
    return true;
}

bool decode_wgmma(struct decoder *d, struct emu_op *op)
{
    int64_t groups = 0;
    if (!decode_need_sm(d, 90) || !decode_need_suffix(d, 90) || !decode_need_isa(d, 80))
        return false;
    op->flags |= EMU_OP_ALIGNED;
    if (decode_take(d, "mma_async"))
        return decode_mma_async(d, op);
    op->class_ = EMU_CLASS_sync;
    op->exec = decode_take(d, "fence")          ? exec_fence
               : decode_take(d, "commit_group") ? exec_commit
               : decode_take(d, "wait_group")   ? exec_wait
                                                : NULL;
    decode_take(d, "aligned"); /* ptxas does not ask for it */
    if (op->exec == NULL || !decode_take(d, "sync") || !decode_end(d))
        return decode_refuse(d, "wgmma.%s is not known", decode_peek(d));
    if (op->exec != exec_wait)
        return decode_operands(d, 0, 0);
    if (!decode_operands(d, 1, 1) || !decode_integer(d, 0, &groups) || groups < 0 || groups > INT32_MAX)
        return decode_refuse(d, "a number of groups is expected");
    op->u32[0] = (uint32_t)groups;
    return true;
}
