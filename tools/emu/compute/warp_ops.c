/* warp_ops.c - instructions that exchange values between lanes: shfl, vote, match, redux, activemask, elect.
 *
 * The *.sync forms name their members in a register.  All members that have not exited meet at the op
 * (emu_gather) before any of them executes it.  Each lane must be in its own mask, and the members must agree
 * on the mask.  Usually the warp has one mask; otherwise groups of lanes execute one after the other. */
#include "alu.h"
#include "tools/emu/machine/undefined.h"

/* ---- members ------------------------------------------------------------------------------------------- */
/* The union of the member masks of the executing lanes. */
struct membership {
    uint32_t all, outside;
    bool     uniform;
};

static struct membership look(const struct emu_warp *w, uint32_t mask, emu_reg reg)
{
    const uint32_t   *members = emu_r32(w, reg), first = members[__builtin_ctz(mask)];
    struct membership m = {first, mask & ~first, true};
    uint32_t          differs = 0;
    if (EMU_BANK(reg) == EMU_BANK_CONSTANT)
        return m;
    m.outside = 0;
    for (int l = 0; l < EMU_LANES; l++) {
        const uint32_t here = (mask & alu_bit[l]) != 0 ? EMU_ALL : 0;
        m.all |= members[l] & here;
        m.outside |= alu_bit[l] & ~members[l] & here;
        differs |= (members[l] ^ first) & here;
    }
    m.uniform = differs == 0;
    return m;
}

/* All members of a lane's mask must have the same mask. */
static bool agree(struct emu_warp *w, const struct emu_op *op, uint32_t mask, const uint32_t *members)
{
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        const int l = __builtin_ctz(left);
        for (uint32_t others = members[l] & mask; others != 0; others &= others - 1) {
            const int o = __builtin_ctz(others);
            if (members[o] == members[l])
                continue;
            emu_fault(w, op, l, 719, "the member mask is 0x%08x here and 0x%08x in lane %d, which is a member",
                      members[l], members[o], o);
            return false;
        }
    }
    return true;
}

/* Are all members here, and are the masks valid?  False: the op ends here (it waits, or has failed).
 * *uniform: one mask holds for all lanes of `mask`. */
static bool gather(struct emu_warp *w, const struct emu_op *op, uint32_t mask, emu_reg reg, bool *uniform)
{
    const uint32_t         *members = emu_r32(w, reg);
    const struct membership m = look(w, mask, reg);
    uint32_t                absent;
    *uniform = m.uniform;
    if (m.outside != 0) {
        const int l = __builtin_ctz(m.outside);
        emu_fault(w, op, l, 719, "the member mask 0x%08x does not name the lane itself", members[l]);
        return false;
    }
    if (!emu_gather(w, op, m.all))
        return false;
    absent = m.all & w->live & ~mask;
    if (absent != 0) {
        emu_fault(w, op, __builtin_ctz(absent), 719,
                  "the lane is in the member mask of others, but its guard keeps it from taking part");
        return false;
    }
    return m.uniform || agree(w, op, mask, members);
}

/* Take the next group of lanes with the same member mask out of *left. */
static uint32_t next_group(const uint32_t *members, bool uniform, uint32_t *left)
{
    uint32_t group = *left;
    if (!uniform)
        group &= members[__builtin_ctz(group)]; /* they have the same mask: see gather */
    *left &= ~group;
    return group;
}

/* ---- shfl ---------------------------------------------------------------------------------------------- */
enum shuffle { UP, DOWN, BFLY, IDX };
static const char *const shuffle_words[] = {"up", "down", "bfly", "idx", NULL};

/* The lane that lane l reads, and whether that is in its segment (if not, it reads itself). */
static inline uint32_t source_lane(enum shuffle mode, uint32_t l, uint32_t b, uint32_t c, bool *inside)
{
    const uint32_t segment = c >> 8 & 31, n = b & 31;
    const uint32_t last = (l & segment) | (c & 31 & ~segment), first = l & segment;
    const uint32_t j = mode == UP     ? l - n
                       : mode == DOWN ? l + n
                       : mode == BFLY ? l ^ n
                                      : (first | (n & ~segment));
    *inside = mode == UP ? (int32_t)j >= (int32_t)last : (int32_t)j <= (int32_t)last;
    return *inside ? j & 31 : l;
}

/* The lane that each lane reads: op->data has it if b and c are constants. */
struct plan {
    uint8_t  from[EMU_LANES];
    uint32_t inside;
};

static void make_plan(struct plan *plan, enum shuffle mode, const uint32_t *b, const uint32_t *c)
{
    plan->inside = 0;
    for (uint32_t l = 0; l < EMU_LANES; l++) {
        bool inside;
        plan->from[l] = (uint8_t)source_lane(mode, l, b[l], c[l], &inside);
        plan->inside |= inside ? 1u << l : 0;
    }
}

/* The undefined bits move, too.  `known`: lanes that read a member. */
static void move_undefined(struct emu_warp *w, const struct emu_op *op, uint32_t mask, uint32_t known,
                           const struct plan *plan)
{
    static const struct emu_bits all = {UINT64_MAX, UINT64_MAX};
    const emu_reg                from = op->source[0], to = op->result[0];
    const struct emu_origin      origin = emu_origin_of(w, from);
    struct emu_bits              bits[EMU_LANES];
    for (uint32_t m = mask; m; m &= m - 1) {
        const int l = __builtin_ctz(m);
        bits[l] = (known & alu_bit[l]) != 0 ? emu_undefined_get(w, from, plan->from[l]) : all;
    }
    for (uint32_t m = mask; m; m &= m - 1)
        emu_undefined_put(w, to, __builtin_ctz(m), bits[__builtin_ctz(m)]);
    emu_origin_set(w, to, &origin);
}

/* Values from lanes that are not members are undefined.  As on sm_90, a value that is read from a lane that
 * does not execute the op is 0. */
static void move(struct emu_warp *w, const struct emu_op *op, uint32_t mask, bool uniform,
                 const struct plan *plan)
{
    uint32_t       *d = emu_r32(w, op->result[0]), value[EMU_LANES], known = EMU_ALL;
    const uint32_t *a = emu_r32(w, op->source[0]), *members = emu_r32(w, op->source[3]);
    for (int l = 0; l < EMU_LANES; l++)
        value[l] = a[plan->from[l]];
    if (!uniform || mask != EMU_ALL)
        for (int l = 0; l < EMU_LANES; l++) {
            const uint32_t from = plan->from[l];
            if ((mask & alu_bit[from]) == 0)
                value[l] = 0;
            if ((mask & members[l] & alu_bit[from]) == 0)
                known &= ~alu_bit[l];
        }
    EMU_FOR_LANES(mask, l, d[l] = value[l]);
    if (emu_undefined_lanes(w, op->source[0], mask) || (mask & ~known))
        move_undefined(w, op, mask, known, plan);
    else
        w->defined[op->result[0]] |= mask;
}

static void exec_shfl(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const struct plan *plan = (const struct plan *)op->data;
    struct plan        made;
    bool               uniform = true;
    if (op->u8[1] && !gather(w, op, mask, op->source[3], &uniform))
        return;
    for (uint32_t i = 1; i < 4; i++)
        if (emu_undefined_lanes(w, op->source[i], mask))
            emu_undefined_use(w, op, op->source[i], emu_undefined_lanes(w, op->source[i], mask), "reads");
    alu_check_busy(w, op, mask);
    if (plan == NULL) {
        make_plan(&made, (enum shuffle)op->u8[0], emu_r32(w, op->source[1]), emu_r32(w, op->source[2]));
        plan = &made;
    }
    move(w, op, mask, uniform, plan);
    if (op->result_count > 1) {
        emu_set_pred(w, op->result[1], mask, plan->inside);
        w->defined[op->result[1]] |= mask;
    }
}

/* The row of a constant operand. */
static bool constant_row(struct decoder *d, unsigned int number, uint32_t row[EMU_LANES])
{
    const struct ptx_operand *o = decode_operand(d, number);
    if (o == NULL || o->kind != PTX_OP_INTEGER)
        return false;
    for (int l = 0; l < EMU_LANES; l++)
        row[l] = (uint32_t)o->integer;
    return true;
}

static bool plan_constants(struct decoder *d, struct emu_op *op)
{
    uint32_t     b[EMU_LANES], c[EMU_LANES];
    struct plan *plan;
    if (!constant_row(d, 2, b) || !constant_row(d, 3, c))
        return true;
    plan = (struct plan *)decode_alloc(d, 1, sizeof *plan);
    if (plan == NULL)
        return decode_no_memory(d);
    make_plan(plan, (enum shuffle)op->u8[0], b, c);
    op->data = plan;
    return true;
}

/* d or d|p */
static bool decode_results(struct decoder *d, enum ptx_type type)
{
    const struct ptx_operand *results = decode_operand(d, 0);
    if (results == NULL)
        return false;
    if (results->kind != PTX_OP_PAIR)
        return decode_result_of(d, results, type) != EMU_NO_REG;
    decode_result_of(d, &results->items[0], type);
    decode_result_pred(d, &results->items[1]);
    return !d->failed;
}

/* The forms without .sync ended with sm_70 and PTX ISA 6.4, but older modules may have them.  All lanes that
 * execute them take part. */
static bool take_sync(struct decoder *d, struct emu_op *op)
{
    op->u8[1] = decode_take(d, "sync");
    op->class_ = EMU_CLASS_shuffle;
    return op->u8[1] || d->module->text->target < 70 || d->module->text->version < 64 ||
           decode_refuse(d, "needs .sync from sm_70 on");
}

static void add_member_mask(struct decoder *d, const struct emu_op *op, unsigned int number)
{
    if (op->u8[1])
        decode_source(d, number, PTX_u32);
    else
        decode_add_source(d, decode_constant(d, EMU_ALL, 32));
}

bool decode_shfl(struct decoder *d, struct emu_op *op)
{
    int          mode;
    unsigned int count;
    if (!take_sync(d, op))
        return false;
    mode = decode_one_of(d, shuffle_words);
    if (mode < 0)
        return decode_refuse(d, "one of .up, .down, .bfly, .idx is needed");
    if (!decode_take(d, "b32"))
        return decode_refuse(d, "the type must be .b32");
    count = op->u8[1] ? 5 : 4;
    if (!decode_end(d) || !decode_operands(d, count, count) || !decode_results(d, PTX_b32))
        return false;
    op->u8[0] = (uint8_t)mode;
    for (unsigned int i = 1; i < 4; i++)
        decode_source(d, i, PTX_b32);
    add_member_mask(d, op, 4);
    op->exec = exec_shfl;
    op->flags |= EMU_OP_CHECKS;
    return plan_constants(d, op) && !d->failed;
}

/* ---- vote ---------------------------------------------------------------------------------------------- */
enum vote { ALL, ANY, UNI, BALLOT };
static const char *const vote_words[] = {"all", "any", "uni", "ballot", NULL};

static void exec_vote(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const uint32_t *members = emu_r32(w, op->source[1]);
    const uint32_t  p = emu_pred(w, op->source[0]) ^ op->u32[0];
    uint32_t        yes = 0;
    bool            uniform = true;
    if (op->u8[1] && !gather(w, op, mask, op->source[1], &uniform))
        return;
    for (uint32_t left = mask; left != 0;) {
        const uint32_t group = next_group(members, uniform, &left), set = p & group;
        if (op->u8[0] == BALLOT) {
            uint32_t *d = emu_r32(w, op->result[0]);
            EMU_FOR_LANES(group, l, d[l] = set);
        } else if (op->u8[0] == ANY ? set != 0 : set == group || (op->u8[0] == UNI && set == 0)) {
            yes |= group;
        }
    }
    if (op->u8[0] != BALLOT)
        emu_set_pred(w, op->result[0], mask, yes);
}

bool decode_vote(struct decoder *d, struct emu_op *op)
{
    bool negated = false;
    int  mode;
    if (!take_sync(d, op))
        return false;
    mode = decode_one_of(d, vote_words);
    if (mode < 0)
        return decode_refuse(d, "one of .all, .any, .uni, .ballot is needed");
    if (!decode_take(d, mode == BALLOT ? "b32" : "pred"))
        return decode_refuse(d, "the type must be .%s", mode == BALLOT ? "b32" : "pred");
    if (!decode_end(d) || !decode_operands(d, op->u8[1] ? 3 : 2, op->u8[1] ? 3 : 2))
        return false;
    decode_result(d, 0, mode == BALLOT ? PTX_b32 : PTX_pred);
    decode_source_pred(d, decode_operand(d, 1), &negated);
    add_member_mask(d, op, 2);
    op->u8[0] = (uint8_t)mode;
    op->u32[0] = negated ? EMU_ALL : 0;
    op->exec = exec_vote;
    return !d->failed;
}

/* ---- match --------------------------------------------------------------------------------------------- */
/* Lanes of group whose value is that of lane l. */
#define EQUALS(name, R)                                          \
    static uint32_t name(const void *row, uint32_t group, int l) \
    {                                                            \
        const R *a = (const R *)row;                             \
        uint32_t bits = 0;                                       \
        for (int i = 0; i < EMU_LANES; i++)                      \
            bits |= a[i] == a[l] ? alu_bit[i] : 0;               \
        return bits & group;                                     \
    }
EQUALS(equals_32, uint32_t)
EQUALS(equals_64, uint64_t)

static void exec_match(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    uint32_t       *d = emu_r32(w, op->result[0]), value[EMU_LANES] = {0};
    const uint32_t *members = emu_r32(w, op->source[1]);
    const void     *a = emu_row(w, op->source[0]);
    uint32_t        all = 0;
    bool            uniform;
    if (!gather(w, op, mask, op->source[1], &uniform))
        return;
    for (uint32_t left = mask; left != 0;) {
        uint32_t group = next_group(members, uniform, &left), rest = group;
        while (rest != 0) { /* each value once */
            const int      first = __builtin_ctz(rest);
            const uint32_t same = op->u8[2] ? equals_64(a, group, first) : equals_32(a, group, first);
            const uint32_t takers = op->u8[0] ? group : same, answer = op->u8[0] && same != group ? 0 : same;
            all |= same == group ? group : 0;
            rest &= ~takers;
            EMU_FOR_LANES(takers, l, value[l] = answer);
        }
    }
    EMU_FOR_LANES(mask, l, d[l] = value[l]);
    if (op->result_count > 1)
        emu_set_pred(w, op->result[1], mask, all);
}

bool decode_match(struct decoder *d, struct emu_op *op)
{
    static const char *const words[] = {"any", "all", NULL};
    const int                mode = decode_one_of(d, words);
    enum ptx_type            type;
    if (mode < 0)
        return decode_refuse(d, "one of .any, .all is needed");
    if (!decode_take(d, "sync"))
        return decode_refuse(d, ".sync is needed");
    type = decode_type(d);
    if (type != PTX_b32 && type != PTX_b64)
        return decode_refuse(d, "the type must be .b32 or .b64");
    if (!decode_end(d) || !decode_operands(d, 3, 3) || !decode_results(d, PTX_u32))
        return false;
    if (mode == 0 && op->result_count > 1)
        return decode_refuse(d, ".any must have one result");
    decode_source(d, 1, type);
    decode_source(d, 2, PTX_u32);
    op->u8[0] = mode == 1;
    op->u8[2] = type == PTX_b64;
    op->exec = exec_match;
    op->class_ = EMU_CLASS_shuffle;
    return !d->failed;
}

/* ---- redux --------------------------------------------------------------------------------------------- */
typedef uint32_t reduction(uint32_t a, uint32_t b, const uint8_t *how);
static uint32_t  reduce_add(uint32_t a, uint32_t b, const uint8_t *how) { return (void)how, a + b; }
static uint32_t  reduce_and(uint32_t a, uint32_t b, const uint8_t *how) { return (void)how, a & b; }
static uint32_t  reduce_or(uint32_t a, uint32_t b, const uint8_t *how) { return (void)how, a | b; }
static uint32_t  reduce_xor(uint32_t a, uint32_t b, const uint8_t *how) { return (void)how, a ^ b; }
static uint32_t  reduce_min_u32(uint32_t a, uint32_t b, const uint8_t *how) { return (void)how, a < b ? a : b; }
static uint32_t  reduce_max_u32(uint32_t a, uint32_t b, const uint8_t *how) { return (void)how, a > b ? a : b; }
static uint32_t  reduce_min_s32(uint32_t a, uint32_t b, const uint8_t *how)
{
    return (void)how, (int32_t)a < (int32_t)b ? a : b;
}
static uint32_t reduce_max_s32(uint32_t a, uint32_t b, const uint8_t *how)
{
    return (void)how, (int32_t)a > (int32_t)b ? a : b;
}

enum { HOW_ABS, HOW_NAN, HOW_MAX }; /* of floats */
enum { NAN_F32 = 0x7fffffff };
static bool is_nan(uint32_t v) { return (v & 0x7fffffffu) > 0x7f800000u; }

/* An integer with the order of floats, in which -0 is below +0. */
static int32_t float_order(uint32_t v) { return (int32_t)((v >> 31) != 0 ? v ^ 0x7fffffffu : v); }

/* A number wins against a NaN; with .NaN the NaN wins. */
static uint32_t reduce_f32(uint32_t a, uint32_t b, const uint8_t *how)
{
    if (is_nan(a) || is_nan(b))
        return how[HOW_NAN] || (is_nan(a) && is_nan(b)) ? (uint32_t)NAN_F32 : is_nan(a) ? b : a;
    return (float_order(a) < float_order(b)) == (how[HOW_MAX] == 0) ? a : b;
}

struct reducer {
    reduction *step;
};

static void exec_redux(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    reduction *const step = ((const struct reducer *)op->data)->step;
    uint32_t        *d = emu_r32(w, op->result[0]), value[EMU_LANES] = {0};
    const uint32_t  *a = emu_r32(w, op->source[0]), *members = emu_r32(w, op->source[1]);
    const uint32_t   keep = op->u8[HOW_ABS] ? 0x7fffffffu : EMU_ALL;
    bool             uniform;
    if (!gather(w, op, mask, op->source[1], &uniform))
        return;
    for (uint32_t left = mask; left != 0;) {
        const uint32_t group = next_group(members, uniform, &left);
        uint32_t       sum = a[__builtin_ctz(group)] & keep;
        for (uint32_t rest = group & (group - 1); rest != 0; rest &= rest - 1)
            sum = step(sum, a[__builtin_ctz(rest)] & keep, op->u8);
        if (op->u32[0] && is_nan(sum))
            sum = (uint32_t)NAN_F32;
        EMU_FOR_LANES(group, l, value[l] = sum);
    }
    EMU_FOR_LANES(mask, l, d[l] = value[l]);
}

enum { REDUX_ADD, REDUX_MIN, REDUX_MAX, REDUX_AND, REDUX_OR, REDUX_XOR, REDUCTIONS };

bool decode_redux(struct decoder *d, struct emu_op *op)
{
    static const char *const    words[] = {"add", "min", "max", "and", "or", "xor", NULL};
    static const struct reducer of_u32[REDUCTIONS] = {{reduce_add}, {reduce_min_u32}, {reduce_max_u32}};
    static const struct reducer of_s32[REDUCTIONS] = {{reduce_add}, {reduce_min_s32}, {reduce_max_s32}};
    static const struct reducer of_b32[REDUCTIONS] = {[REDUX_AND] = {reduce_and}, {reduce_or}, {reduce_xor}};
    static const struct reducer of_f32[REDUCTIONS] = {[REDUX_MIN] = {reduce_f32}, {reduce_f32}};
    const struct reducer       *table;
    enum ptx_type               type;
    int                         what;
    if (!decode_take(d, "sync"))
        return decode_refuse(d, ".sync is needed");
    what = decode_one_of(d, words);
    op->u8[HOW_ABS] = decode_take(d, "abs");
    op->u8[HOW_NAN] = decode_take(d, "NaN");
    op->u8[HOW_MAX] = what == REDUX_MAX;
    type = decode_type(d);
    table = type == PTX_u32 ? of_u32 : type == PTX_s32 ? of_s32 : type == PTX_b32 ? of_b32 : of_f32;
    if (what < 0 || (table == of_f32 && type != PTX_f32) || table[what].step == NULL)
        return decode_refuse(d, "there is no such reduction of this type");
    if (type != PTX_f32 && (op->u8[HOW_ABS] || op->u8[HOW_NAN]))
        return decode_refuse(d, "only .f32 has .abs and .NaN");
    if (!decode_need_sm(d, 80) || (type == PTX_f32 && !decode_need_suffix(d, 100)))
        return false;
    op->u32[0] = type == PTX_f32;
    op->data = &table[what];
    op->exec = exec_redux;
    op->class_ = EMU_CLASS_shuffle;
    if (type == PTX_b32) /* only integers and bits, unlike other instructions on bits */
        type = PTX_u32;
    return DECODE_TYPED(d, type, type, PTX_u32);
}

/* ---- activemask, elect --------------------------------------------------------------------------------- */
static void exec_activemask(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    uint32_t *d = emu_r32(w, op->result[0]);
    EMU_FOR_LANES(mask, l, d[l] = mask);
}

bool decode_activemask(struct decoder *d, struct emu_op *op)
{
    if (!decode_take(d, "b32"))
        return decode_refuse(d, "the type must be .b32");
    op->exec = exec_activemask;
    op->class_ = EMU_CLASS_shuffle;
    return DECODE_TYPED(d, PTX_b32);
}

/* The lowest member is elected, as on the hardware. */
static void exec_elect(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    uint32_t       *d = emu_r32(w, op->result[0]), leaders = 0;
    const uint32_t *members = emu_r32(w, op->source[0]);
    uint32_t        leader[EMU_LANES];
    bool            uniform;
    if (!gather(w, op, mask, op->source[0], &uniform))
        return;
    for (uint32_t left = mask; left != 0;) {
        const uint32_t group = next_group(members, uniform, &left);
        const uint32_t lowest = (uint32_t)__builtin_ctz(group);
        leaders |= 1u << lowest;
        EMU_FOR_LANES(group, l, leader[l] = lowest);
    }
    EMU_FOR_LANES(mask, l, d[l] = leader[l]);
    emu_set_pred(w, op->result[1], mask, leaders);
}

bool decode_elect(struct decoder *d, struct emu_op *op)
{
    const struct ptx_operand *results;
    if (!decode_take(d, "sync"))
        return decode_refuse(d, ".sync is needed");
    if (!decode_need_sm(d, 90) || !decode_need_isa(d, 80) || !decode_end(d) || !decode_operands(d, 2, 2))
        return false;
    results = decode_operand(d, 0);
    if (results->kind != PTX_OP_PAIR || !decode_results(d, PTX_u32))
        return decode_refuse(d, "the results must be d|p");
    decode_source(d, 1, PTX_u32);
    op->exec = exec_elect;
    op->class_ = EMU_CLASS_shuffle;
    return !d->failed;
}
