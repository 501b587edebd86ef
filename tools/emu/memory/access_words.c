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
    unsigned int   before = d->modifier;
    enum emu_space space = decode_space(d, NULL);
    if (d->modifier == before)
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

bool decode_access_words(struct decoder *d, const char *const *operations, struct access_words *words)
{
    bool space = false, order = false, vector = false, type = false, operation = false;
    *words = (struct access_words){.space = EMU_GENERIC, .count = 1, .operation = -1};
    while (!d->failed && *decode_peek(d)) {
        if (take_space(d, words, &space) || take_order(d, words, &order) || take_vector(d, words, &vector) ||
            take_type(d, words, &type) || take_operation(d, operations, words, &operation) ||
            once(d, &words->scoped, decode_scope(d)) ||
            once(d, &words->policy, decode_take(d, "L2::cache_hint")) ||
            once(d, &words->read_only, decode_take(d, "nc")) ||
            once(d, &words->noftz, decode_take(d, "noftz")) || once(d, &words->mmio, decode_take(d, "mmio")))
            continue;
        if (decode_one_of(d, caches) < 0)
            return decode_refuse(d, "'.%s' is not known here", decode_peek(d));
    }
    if (!type)
        decode_refuse(d, "a type is missing");
    if (words->order >= ORDER_RELAXED)
        decode_need_sm(d, 70);
    if (words->mmio && words->order != ORDER_RELAXED)
        decode_refuse(d, ".mmio needs .relaxed.sys");
    return !d->failed;
}
