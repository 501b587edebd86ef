/* access_words.c - the modifiers of ld, st, atom and red: each once, in any order, as ptxas accepts them. */
#include "load_store.h"

static const char *const scopes[] = {"cta", "cluster", "gpu", "sys", NULL};
static const char *const orders[] = {"weak", "volatile", "relaxed", "acquire", "release", "acq_rel", NULL};
static const char *const vectors[] = {"v2", "v4", "v8", NULL};
/* These have no observable effect. */
/* clang-format off */
static const char *const caches[] = {
    "ca", "cg", "cs", "lu", "cv", "wb", "wt", "L1::evict_normal", "L1::evict_unchanged", "L1::evict_first",
    "L1::evict_last", "L1::no_allocate", "L2::evict_normal", "L2::evict_first", "L2::evict_last", "L2::64B",
    "L2::128B", "L2::256B", NULL};

bool decode_scope(struct decoder *d)
{
    int scope = decode_one_of(d, scopes);
    if (scope == 1)
        decode_need_sm(d, 90);
    return scope >= 0;
}
/* clang-format on */

/* A modifier that may occur only once; `taken`: it was just read. */
static bool once(struct decoder *d, bool *seen, bool taken)
{
    if (taken && *seen)
        decode_refuse(d, "two modifiers of the same kind");
    *seen |= taken;
    return taken;
}

static bool take_space(struct decoder *d, struct access_words *words, bool *seen)
{
    const uint64_t before = d->taken;
    enum emu_space space = decode_space(d, NULL);
    if (d->taken == before)
        return false;
    words->space = space;
    return once(d, seen, true);
}

static bool take_order(struct decoder *d, struct access_words *words, bool *seen)
{
    int order = decode_one_of(d, orders);
    if (order >= 0)
        words->order = (enum access_order)(order + 1);
    return once(d, seen, order >= 0);
}

static bool take_scope(struct decoder *d, struct access_words *words)
{
    words->own_block |= strcmp(decode_peek(d), "cta") == 0;
    return once(d, &words->scoped, decode_scope(d));
}

static bool take_vector(struct decoder *d, struct access_words *words, bool *seen)
{
    int vector = decode_one_of(d, vectors);
    if (vector >= 0)
        words->count = 2u << vector;
    return once(d, seen, vector >= 0);
}

static bool take_type(struct decoder *d, struct access_words *words, bool *seen)
{
    if (ptx_type_find(decode_peek(d)) == PTX_NO_TYPE)
        return false;
    words->type = decode_type(d);
    return once(d, seen, true);
}

static bool take_operation(struct decoder *d, const char *const *operations, struct access_words *words,
                           bool *seen)
{
    int operation = operations != NULL ? decode_one_of(d, operations) : -1;
    if (operation >= 0)
        words->operation = operation;
    return once(d, seen, operation >= 0);
}

/* ---- cache modifiers -------------------------------------------------------------------------------- */
enum cache_kind { OPERATOR, L1_PRIORITY, L2_PRIORITY, PREFETCH_SIZE, CACHE_KINDS };

static bool take_cache(struct decoder *d, int of[CACHE_KINDS])
{
    const int             word = decode_one_of(d, caches);
    const enum cache_kind kind = word < 7    ? OPERATOR
                                 : word < 12 ? L1_PRIORITY
                                 : word < 15 ? L2_PRIORITY
                                             : PREFETCH_SIZE;
    if (word < 0)
        return decode_refuse(d, "'.%s' does not exist here", decode_peek(d));
    if (of[kind] >= 0)
        return decode_refuse(d, "two modifiers of the same kind");
    of[kind] = word;
    return true;
}

/* Which of them the instruction has, and which go together. */
static bool check_caches(struct decoder *d, const struct access_words *words, const int of[CACHE_KINDS])
{
    static const char *const loads[] = {"ca", "cg", "cs", "lu", "cv", NULL}, *const stores[] = {"wb", "cg",
                                                                                                "cs", "wt",
                                                                                                NULL};
    const bool ld = strcmp(d->in->opcode, "ld") == 0, st = strcmp(d->in->opcode, "st") == 0;
    const bool levels = of[L1_PRIORITY] >= 0 || of[L2_PRIORITY] >= 0 || of[PREFETCH_SIZE] >= 0;
    bool       known = of[OPERATOR] < 0;
    for (int i = 0; (ld ? loads : stores)[i] != NULL && (ld || st); i++)
        known = known || strcmp((ld ? loads : stores)[i], caches[of[OPERATOR]]) == 0;
    if (!known || (levels && !ld && !st) || (of[PREFETCH_SIZE] >= 0 && !ld))
        return decode_refuse(d, "the instruction has no such cache modifier");
    if (of[OPERATOR] >= 0 && (of[L1_PRIORITY] >= 0 || words->order > ORDER_WEAK))
        return decode_refuse(d, ".%s cannot be combined with an order or a priority", caches[of[OPERATOR]]);
    if (of[L1_PRIORITY] >= 0 && words->order == ORDER_VOLATILE)
        return decode_refuse(d, ".volatile has no priority");
    if ((levels || words->policy) && words->space != EMU_GLOBAL && words->space != EMU_GENERIC)
        return decode_refuse(d, "only .global and generic accesses have priorities");
    return of[L2_PRIORITY] < 0 || ptx_type_bits(words->type) * words->count == 256 ||
           decode_refuse(d, "only accesses of 32 bytes have a priority of .L2");
}

static bool check_order(struct decoder *d, const struct access_words *words)
{
    const bool ordered = words->order >= ORDER_RELAXED;
    if (ordered)
        decode_need_sm(d, 70);
    if (ordered && (words->space == EMU_LOCAL || words->space == EMU_CONST || words->space == EMU_PARAM))
        return decode_refuse(d, "accesses to this state space have no order");
    if (words->mmio && words->order != ORDER_RELAXED)
        return decode_refuse(d, ".mmio needs .relaxed.sys");
    return !words->mmio || decode_need_isa(d, 82);
}

bool decode_access_words(struct decoder *d, const char *const *operations, struct access_words *words)
{
    bool space = false, order = false, vector = false, type = false, operation = false;
    int  of[CACHE_KINDS] = {-1, -1, -1, -1};
    *words = (struct access_words){.space = EMU_GENERIC, .count = 1, .operation = -1};
    while (!d->failed && *decode_peek(d)) {
        if (take_space(d, words, &space) || take_order(d, words, &order) || take_vector(d, words, &vector) ||
            take_type(d, words, &type) || take_operation(d, operations, words, &operation) ||
            take_scope(d, words) || once(d, &words->policy, decode_take(d, "L2::cache_hint")) ||
            once(d, &words->read_only, decode_take(d, "nc")) ||
            once(d, &words->noftz, decode_take(d, "noftz")) || once(d, &words->mmio, decode_take(d, "mmio")))
            continue;
        if (!take_cache(d, of))
            return false;
    }
    if (!type)
        decode_refuse(d, "a type is missing");
    return !d->failed && check_order(d, words) && check_caches(d, words, of) && !d->failed;
}
