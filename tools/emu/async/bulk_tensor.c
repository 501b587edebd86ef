/* bulk_tensor.c - cp.async.bulk.tensor: boxes of tensors of one to five dimensions, tiled. */
#include "bulk.h"
#include "tools/emu/compute/float_format.h"
#include "tensor_map.h"

struct tensor_op {
    struct bulk_target  target;
    struct cp_address   map, shared;
    uint32_t            rank;
    unsigned int        coordinate[EMU_TENSOR_RANK]; /* sources */
    bool                reduces;
    enum bulk_reduction reduction;
};

struct tensor_copy {
    struct async_signal   signal; /* of a store: only its op */
    struct emu_tensor_map map;
    int32_t               coordinate[EMU_TENSOR_RANK];
    struct emu_ref        shared; /* of the box */
    struct emu_ref        global; /* of all that the box has of the tensor */
    enum bulk_type        type;   /* of a reduction */
};

enum { TF32 = 11 }; /* CUtensorMapDataType */

/* ---- moving --------------------------------------------------------------------------------------- */
/* Row r of the box.  A store writes whole pieces of 16 bytes, and a reduction combines them, also beyond the
 * tensor's last element, as on an H200.  Returns how many bytes of it are beyond. */
static uint32_t row_at(const struct tensor_copy *c, uint32_t r, struct emu_tensor_row *row)
{
    const struct tensor_op *o = (const struct tensor_op *)c->signal.op.op->data;
    emu_tensor_row_at(&c->map, c->coordinate, r, row);
    const uint32_t inside = row->inside;
    if (o->target.way == BULK_STORE)
        row->inside = (inside + 15) / 16 * 16; /* it begins at a piece, and the box ends at one */
    return row->inside - inside;
}

static struct emu_ref part_of(const struct emu_ref *whole, uint64_t address)
{
    struct emu_ref part = *whole;
    part.at += address - whole->address;
    part.address = address;
    return part;
}

static void fill(const struct tensor_copy *c, const struct emu_ref *to, uint32_t bytes)
{
    uint64_t pattern = emu_tensor_fill(&c->map);
    if (pattern == 0)
        memset(to->at, 0, bytes);
    for (uint32_t i = 0; pattern != 0 && i < bytes; i += 2)
        memcpy(to->at + i, &pattern, 2);
    emu_define(to, bytes);
}

/* A load rounds tf32 and makes its NaN canonical. */
static void round_tf32(unsigned char *at, uint32_t bytes)
{
    for (uint32_t i = 0, word; i < bytes; i += 4) {
        memcpy(&word, at + i, 4);
        word = emu_f32_to_tf32(emu_float_of(word)) & 0xffffe000;
        memcpy(at + i, &word, 4);
    }
}

static void move(const struct tensor_copy *c, const struct emu_ref *shared, const struct emu_ref *global,
                 uint32_t bytes, bool beyond)
{
    const struct async_op  *a = &c->signal.op;
    const struct tensor_op *o = (const struct tensor_op *)a->op->data;
    if (o->target.way == BULK_LOAD) {
        emu_copy(shared, global, bytes);
        if (c->map.type >= TF32)
            round_tf32(shared->at, bytes);
    } else if (!o->reduces) {
        emu_copy(global, shared, bytes);
    } else {
        bulk_reduce_ref(a, global, shared, bytes, o->reduction, c->type, beyond);
    }
}

/* Move the bytes from .. to - 1 of the box; with swizzling, each 16 bytes have their own place.  `global` 0:
 * they are beyond the tensor, and not read.  `beyond`: there, too, but they are written. */
static void move_run(const struct tensor_copy *c, uint32_t from, uint32_t to, uint64_t global, bool beyond)
{
    uint32_t base = (uint32_t)c->shared.address;
    for (uint32_t at = from, bytes; at < to; at += bytes) {
        bytes = c->map.swizzle ? 16 - (base + at) % 16 : to - at;
        bytes = bytes < to - at ? bytes : to - at;
        struct emu_ref shared = part_of(&c->shared, emu_tensor_swizzle(base + at, c->map.swizzle));
        if (global == 0) {
            fill(c, &shared, bytes);
            continue;
        }
        struct emu_ref there = part_of(&c->global, global + (at - from));
        move(c, &shared, &there, bytes, beyond);
    }
}

static void complete_tensor(struct async_op *a)
{
    struct tensor_copy     *c = (struct tensor_copy *)a;
    const struct tensor_op *o = (const struct tensor_op *)a->op->data;
    for (uint32_t r = 0; r < c->map.rows; r++) {
        struct emu_tensor_row row;
        uint32_t              beyond = row_at(c, r, &row);
        uint32_t inside = row.shared + row.before, after = inside + row.inside, own = after - beyond;
        uint32_t end = row.shared + c->map.row_bytes;
        if (o->target.way == BULK_LOAD) {
            move_run(c, row.shared, inside, 0, false);
            move_run(c, after, end, 0, false);
        }
        if (row.inside != 0)
            move_run(c, inside, own, row.global, false);
        if (beyond != 0)
            move_run(c, own, after, row.global + (own - inside), true);
    }
    if (o->target.way != BULK_STORE)
        bulk_signal(&c->signal);
}

/* ---- issue ---------------------------------------------------------------------------------------- */
static bool read_map(struct emu_warp *w, const struct emu_op *op, int lane, struct emu_tensor_map *map)
{
    const struct tensor_op *o = (const struct tensor_op *)op->data;
    uint64_t                address = cp_address_of(w, op, &o->map, lane);
    struct emu_ref          ref;
    const char             *why;
    if (!emu_memory_range(w, op, lane, EMU_GENERIC, address, EMU_TENSOR_MAP_BYTES, 64, EMU_READ | EMU_NO_JUDGE,
                          &ref))
        return false;
    if (ref.space != EMU_GLOBAL)
        why = "a tensor map must be in parameters, constant or global memory";
    else if (emu_tensor_map_read(ref.at, map, &why))
        why = map->rank != o->rank ? "the tensor map has a different number of dimensions" : NULL;
    if (why == NULL)
        return true;
    emu_fault(w, op, lane, 715, "tensor map at 0x%llx: %s", (unsigned long long)address, why);
    return false;
}

/* A load of a box of which nothing is in the tensor touches the address of the tensor map, as on an H200: a map that lies
 * before its tensor, to address rows of any sequence, faults there. */
static bool touch_map(const struct tensor_copy *c)
{
    const struct async_op  *a = &c->signal.op;
    const struct tensor_op *o = (const struct tensor_op *)a->op->data;
    struct emu_ref          ref;
    return o->target.way != BULK_LOAD || emu_memory_range(a->warp, a->op, a->lane, EMU_GLOBAL, c->map.address,
                                                          16, 1, EMU_READ | EMU_NO_JUDGE | EMU_GRANULE, &ref);
}

/* The range of global memory that holds all rows of the box. */
static bool find_global(const struct tensor_copy *c, struct emu_ref *out)
{
    const struct async_op *a = &c->signal.op;
    uint64_t               first = UINT64_MAX, end = 0;
    for (uint32_t r = 0; r < c->map.rows; r++) {
        struct emu_tensor_row row;
        row_at(c, r, &row);
        if (row.inside == 0)
            continue;
        first = row.global < first ? row.global : first;
        end = row.global + row.inside > end ? row.global + row.inside : end;
    }
    if (end == 0)
        return touch_map(c);
    const struct tensor_op *o = (const struct tensor_op *)a->op->data;
    return emu_memory_range(a->warp, a->op, a->lane, EMU_GLOBAL, first, end - first, 1,
                            (o->target.way == BULK_LOAD ? EMU_READ : EMU_WRITE) | EMU_NO_JUDGE | EMU_GRANULE,
                            out);
}

static void judge_tensor(struct tensor_copy *c)
{
    struct async_op        *a = &c->signal.op;
    const struct tensor_op *o = (const struct tensor_op *)a->op->data;
    bool                    load = o->target.way == BULK_LOAD;
    unsigned int            access = load         ? EMU_READ
                                     : o->reduces ? EMU_READ | EMU_WRITE | EMU_ATOMIC | EMU_STRONG
                                                  : EMU_WRITE;
    a->judge = judge_async_begin(a->warp, a->op, a->lane, true);
    if (a->judge == NULL)
        return;
    judge_async_touch(a->judge, &c->shared, c->map.rows * c->map.pitch, load ? EMU_WRITE : EMU_READ);
    uint64_t from = 0, bytes = 0;
    for (uint32_t r = 0; r <= c->map.rows; r++) {
        struct emu_tensor_row row = {0};
        if (r < c->map.rows)
            row_at(c, r, &row);
        if (row.inside != 0 && row.global == from + bytes) {
            bytes += row.inside;
            continue;
        }
        struct emu_ref run = c->global;
        if (bytes != 0) {
            run = part_of(&c->global, from);
            judge_async_touch(a->judge, &run, bytes, access);
        }
        from = row.global;
        bytes = row.inside;
    }
}

static bool type_of_reduction(struct tensor_copy *c)
{
    static const int8_t types[] = {-1,       -1,       BULK_U32,  BULK_S32,     BULK_U64, BULK_S64,    BULK_F16,
                                   BULK_F32, BULK_F64, BULK_BF16, BULK_F32_FTZ, BULK_F32, BULK_F32_FTZ};
    const struct async_op  *a = &c->signal.op;
    const struct tensor_op *o = (const struct tensor_op *)a->op->data;
    int                     type = types[c->map.type];
    bool                    bits = o->reduction >= BULK_AND;
    if (bits && (type == BULK_U32 || type == BULK_S32))
        type = BULK_B32;
    else if (bits && (type == BULK_U64 || type == BULK_S64))
        type = BULK_B64;
    c->type = (enum bulk_type)type;
    if (type >= 0 && bulk_can_reduce(o->reduction, c->type, true))
        return true;
    emu_fault(a->warp, a->op, a->lane, 715, ".%s of a tensor of %s", bulk_reduction_words[o->reduction],
              emu_tensor_type_name(c->map.type));
    return false;
}

/* The part that is the same for all destination blocks. */
struct tensor_issue {
    struct emu_warp      *w;
    const struct emu_op  *op;
    int                   lane;
    struct emu_tensor_map map;
    struct emu_ref        shared;
};

static int32_t coordinate_of(const struct tensor_issue *i, uint32_t dimension)
{
    const struct tensor_op *o = (const struct tensor_op *)i->op->data;
    return (int32_t)emu_r32(i->w, i->op->source[o->coordinate[dimension]])[i->lane];
}

static struct tensor_copy *new_copy(const struct tensor_issue *i, struct emu_cta *cta)
{
    const struct tensor_op *o = (const struct tensor_op *)i->op->data;
    struct tensor_copy *c = (struct tensor_copy *)async_new(i->w, i->op, i->lane, sizeof *c, complete_tensor);
    if (c == NULL)
        return NULL;
    c->map = i->map;
    c->shared = i->shared;
    c->shared.cta = cta;
    c->shared.at = cta->shared + c->shared.address;
    for (uint32_t d = 0; d < o->rank; d++)
        c->coordinate[d] = coordinate_of(i, d);
    if (!find_global(c, &c->global) || (o->reduces && !type_of_reduction(c))) {
        async_discard(&c->signal.op);
        return NULL;
    }
    if (o->target.way == BULK_LOAD)
        mbarrier_overwritten(i->w, i->op, i->lane, cta, (uint32_t)c->shared.address,
                             c->map.rows * c->map.pitch);
    judge_tensor(c);
    return c;
}

static bool issue_load(void *context, struct emu_cta *cta, struct mbarrier_place mbarrier)
{
    const struct tensor_issue *i = (const struct tensor_issue *)context;
    struct tensor_copy        *c = new_copy(i, cta);
    if (c == NULL)
        return false;
    c->signal.cta = mbarrier.cta;
    c->signal.address = mbarrier.address;
    c->signal.bytes = c->map.rows * c->map.row_bytes; /* the whole box, also the part beyond the tensor */
    async_issue(i->w, &c->signal.op, ASYNC_MBARRIER);
    return true;
}

static bool find_shared(struct tensor_issue *i)
{
    const struct tensor_op *o = (const struct tensor_op *)i->op->data;
    uint64_t                address = cp_address_of(i->w, i->op, &o->shared, i->lane);
    if (!emu_memory_range(i->w, i->op, i->lane, EMU_SHARED, address, (uint64_t)i->map.rows * i->map.pitch, 128,
                          (o->target.way == BULK_LOAD ? EMU_WRITE : EMU_READ) | EMU_NO_JUDGE, &i->shared))
        return false;
    if (i->shared.cta != i->w->cta && !o->target.remote) {
        emu_fault(i->w, i->op, i->lane, 715, "0x%llx is in another block's shared memory",
                  (unsigned long long)address);
        return false;
    }
    return true;
}

/* A load may begin before the tensor, in any dimension; a store or a reduction there is an illegal instruction on an H200. */
static bool check_coordinates(const struct tensor_issue *i)
{
    const struct tensor_op *o = (const struct tensor_op *)i->op->data;
    if ((int64_t)coordinate_of(i, 0) * i->map.element_bytes % 16 != 0) {
        emu_fault(i->w, i->op, i->lane, 715,
                  "the first coordinate %d does not begin at a multiple of 16 bytes (elements have %u)",
                  coordinate_of(i, 0), i->map.element_bytes);
        return false;
    }
    for (uint32_t d = 0; d < o->rank && o->target.way != BULK_LOAD; d++)
        if (coordinate_of(i, d) < 0) {
            emu_fault(i->w, i->op, i->lane, 715, "coordinate %u is %d: only a load may begin before the tensor",
                      d, coordinate_of(i, d));
            return false;
        }
    return true;
}

static void exec_tensor(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const struct tensor_op *o = (const struct tensor_op *)op->data;
    for (uint32_t m = mask; m; m &= m - 1) {
        struct tensor_issue i = {.w = w, .op = op, .lane = __builtin_ctz(m)};
        bulk_check_policy(w, op, &o->target, i.lane);
        if (!read_map(w, op, i.lane, &i.map) || !check_coordinates(&i) || !find_shared(&i))
            return;
        if (o->target.way == BULK_LOAD) {
            if (!bulk_each_block(w, op, &o->target, i.lane, i.shared.cta, &i, issue_load))
                return;
            continue;
        }
        struct tensor_copy *c = new_copy(&i, w->cta);
        if (c == NULL)
            return;
        async_issue(w, &c->signal.op, ASYNC_BULK);
    }
}

/* ---- decoding ------------------------------------------------------------------------------------- */
static bool decode_rank(struct decoder *d, struct tensor_op *o)
{
    static const char *const ranks[] = {"1d", "2d", "3d", "4d", "5d", NULL};
    int                      rank = decode_one_of(d, ranks);
    if (rank < 0)
        return decode_refuse(d, "the rank is missing: .1d to .5d");
    o->rank = (uint32_t)rank + 1;
    return true;
}

static bool decode_tile(struct decoder *d)
{
    decode_take(d, "tile");
    static const char *const others[] = {"im2col", "tile::", "cta_group"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (decode_begins(d, others[i]) != NULL)
            return decode_refuse(d, ".%s is not supported, only .tile", decode_begins(d, others[i]));
    return true;
}

/* [map, {coordinates}] */
static bool decode_map(struct decoder *d, unsigned int number, struct tensor_op *o)
{
    unsigned int              count;
    const struct ptx_operand *operand = decode_operand(d, number);
    if (operand == NULL || !cp_decode_address(d, number, EMU_GENERIC, &o->map))
        return false;
    if (operand->count != 2 || operand->items[1].kind != PTX_OP_LIST)
        return decode_refuse(d, "[tensor map, {coordinates}] is expected");
    const struct ptx_operand *items = decode_items(&operand->items[1], &count);
    if (count != o->rank)
        return decode_refuse(d, "%u coordinates are given for %u dimensions", count, o->rank);
    for (unsigned int i = 0; i < count; i++) {
        o->coordinate[i] = d->op->source_count;
        decode_source_of(d, &items[i], PTX_s32);
    }
    return !d->failed;
}

/* ptxas takes this address without its brackets, too. */
static bool decode_shared(struct decoder *d, unsigned int number, struct cp_address *out)
{
    const struct ptx_operand *o = decode_operand(d, number);
    if (o == NULL || o->kind != PTX_OP_REGISTER)
        return cp_decode_address(d, number, EMU_SHARED, out);
    struct ptx_operand       base = *o;
    const struct ptx_operand place = {.kind = PTX_OP_ADDRESS, .items = &base, .count = 1};
    return cp_decode_address_of(d, &place, EMU_SHARED, out);
}

static bool decode_tensor_operands(struct decoder *d, struct emu_op *op, struct tensor_op *o)
{
    struct bulk_options options;
    bool                load = o->target.way == BULK_LOAD;
    if (o->target.way == BULK_ACROSS || (o->reduces && load))
        return decode_refuse(d, "a tensor must be in global memory");
    if (!decode_tile(d) || !bulk_decode_completion(d, &o->target) ||
        !bulk_decode_options(d, &o->target, &options) || !decode_tile(d) || !decode_end(d) ||
        !decode_map(d, load, o) || !decode_shared(d, !load, &o->shared))
        return false;
    op->data = o;
    op->exec = exec_tensor;
    return bulk_decode_last(d, &o->target, &options, 2);
}

bool decode_tensor_copy(struct decoder *d, struct emu_op *op)
{
    struct tensor_op *o = (struct tensor_op *)decode_alloc(d, 1, sizeof *o);
    return o != NULL && decode_rank(d, o) && bulk_decode_spaces(d, &o->target) &&
           (o->target.way != BULK_LOAD || o->target.remote || decode_need_isa(d, 86)) &&
           decode_tensor_operands(d, op, o);
}

bool decode_tensor_reduce(struct decoder *d, struct emu_op *op)
{
    struct tensor_op *o = (struct tensor_op *)decode_alloc(d, 1, sizeof *o);
    if (o == NULL || !decode_rank(d, o) || !bulk_decode_spaces(d, &o->target))
        return false;
    int reduction = decode_one_of(d, bulk_reduction_words);
    if (reduction < 0)
        return decode_refuse(d, "the reduction is missing");
    o->reduces = true;
    o->reduction = (enum bulk_reduction)reduction;
    return decode_tensor_operands(d, op, o);
}

/* A prefetch has no observable effect, but it needs a valid map. */
static void exec_prefetch(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    struct emu_tensor_map map;
    for (uint32_t m = mask; m; m &= m - 1)
        if (!read_map(w, op, __builtin_ctz(m), &map))
            return;
}

bool decode_tensor_prefetch(struct decoder *d, struct emu_op *op)
{
    struct tensor_op *o = (struct tensor_op *)decode_alloc(d, 1, sizeof *o);
    if (o == NULL || !decode_rank(d, o))
        return false;
    if (!decode_take(d, "L2") || decode_space(d, NULL) != EMU_GLOBAL)
        return decode_refuse(d, "cp.async.bulk.prefetch.tensor must be .L2.global");
    if (!decode_tile(d))
        return false;
    bool hint = cp_take_cache_hint(d);
    if (!decode_end(d) || !decode_operands(d, 1 + hint, 1 + hint) || !decode_map(d, 0, o))
        return false;
    if (hint)
        decode_source(d, 1, PTX_b64);
    op->data = o;
    op->exec = exec_prefetch;
    return !d->failed;
}
