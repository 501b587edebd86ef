/* modifiers.c - the modifiers of an instruction, in any order; what versions and targets allow.
 *
 * ptxas takes most modifiers in any order, but some words are a part of the instruction's name (cp.async.bulk,
 * mbarrier.try_wait.parity, mul.lo) and come first. */
#include "decode.h"
#include "state.h"

/* ---- names ---------------------------------------------------------------------------------------- */
static const struct {
    const char *opcode, *words; /* that belong to its names, each between spaces */
} names[] = {
#define NAME(opcode, words) {opcode, " " words " "},
#include "names.def"
#undef NAME
};

/* Where the word begins in the list; NULL: it is not in it. */
static const char *find_word(const char *words, const char *word)
{
    const size_t length = strlen(word);
    const char  *at = words;
    while ((at = strstr(at + 1, word)) != NULL && (at[-1] != ' ' || at[length] != ' '))
        continue;
    return at;
}

static const char *name_of(const char *opcode)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i].opcode, opcode) == 0)
            return names[i].words;
    return NULL;
}

/* ptxas skips a word that names a field of a tensor map, and one that names a property of a number, where they mean
 * nothing; not two of either kind. */
static void skip_words(struct decoder *d)
{
    static const struct {
        const char *opcode, *words; /* where they mean something; the words */
    } kinds[] = {{"tensormap", " global_address rank box_dim global_dim global_stride element_stride elemtype"
                               " interleave_layout swizzle_mode fill_mode "},
                 {"testp", " finite infinite number notanumber normal subnormal "}};
    for (size_t kind = 0; kind < sizeof kinds / sizeof kinds[0]; kind++) {
        bool skips = strcmp(d->in->opcode, kinds[kind].opcode) != 0 && strcmp(d->in->opcode, "cp") != 0;
        for (unsigned int i = 0; skips && i < d->in->modifier_count; i++)
            if (find_word(kinds[kind].words, d->in->modifiers[i]) != NULL) {
                d->taken |= 1ull << i;
                skips = false;
            }
    }
}

bool decode_name(struct decoder *d)
{
    const struct ptx_instruction *in = d->in;
    const char                   *words = name_of(in->opcode), *last = NULL, *before = NULL;
    skip_words(d);
    for (unsigned int i = 0; words != NULL && i < in->modifier_count; i++) {
        const char *found = find_word(words, in->modifiers[i]);
        if (found != NULL && (before != NULL || found < last))
            return decode_refuse(d, "'.%s' must come before '.%s'", in->modifiers[i],
                                 before != NULL ? before : in->modifiers[i - 1]);
        if (found != NULL)
            last = found;
        else if (strcmp(in->modifiers[i], "aligned") != 0) /* a barrier's may be anywhere */
            before = in->modifiers[i];
    }
    return true;
}

/* ---- words ---------------------------------------------------------------------------------------- */
const char *decode_unread(const struct decoder *d, unsigned int *at)
{
    while (*at < d->in->modifier_count && d->taken >> *at & 1)
        ++*at;
    return *at < d->in->modifier_count ? d->in->modifiers[(*at)++] : NULL;
}

const char *decode_peek(const struct decoder *d)
{
    unsigned int at = 0;
    const char  *word = decode_unread(d, &at);
    return word != NULL ? word : "";
}

const char *decode_begins(const struct decoder *d, const char *prefix)
{
    const char *word;
    for (unsigned int at = 0; (word = decode_unread(d, &at)) != NULL;)
        if (strncmp(word, prefix, strlen(prefix)) == 0)
            return word;
    return NULL;
}

bool decode_take(struct decoder *d, const char *word)
{
    const char *found;
    for (unsigned int at = 0; (found = decode_unread(d, &at)) != NULL;)
        if (strcmp(found, word) == 0) {
            d->taken |= 1ull << (at - 1);
            return true;
        }
    return false;
}

int decode_one_of(struct decoder *d, const char *const *words)
{
    const char *found;
    for (unsigned int at = 0; (found = decode_unread(d, &at)) != NULL;)
        for (int i = 0; words[i] != NULL; i++)
            if (strcmp(found, words[i]) == 0) {
                d->taken |= 1ull << (at - 1);
                return i;
            }
    return -1;
}

enum ptx_type decode_type(struct decoder *d)
{
    const char *found;
    for (unsigned int at = 0; (found = decode_unread(d, &at)) != NULL;)
        if (ptx_type_find(found) != PTX_NO_TYPE) {
            d->taken |= 1ull << (at - 1);
            return ptx_type_find(found);
        }
    decode_refuse(d, *decode_peek(d) ? "'.%s' is not a type" : "a type is missing%s", decode_peek(d));
    return PTX_NO_TYPE;
}

static bool was_taken(const struct decoder *d, const char *word)
{
    for (unsigned int i = 0; i < d->in->modifier_count; i++)
        if (d->taken >> i & 1 && strcmp(d->in->modifiers[i], word) == 0)
            return true;
    return false;
}

/* ptxas does not mind a second one of these words. */
static bool may_repeat(const char *word)
{
    static const char *const words[] = {"sat", "satfinite", "sync", "uni",     "approx",
                                        "cc",  "NaN",       "relu", "shiftamt"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(words[i], word) == 0)
            return true;
    return false;
}

bool decode_end(struct decoder *d)
{
    const char *left;
    for (unsigned int at = 0; !d->failed && (left = decode_unread(d, &at)) != NULL;) {
        if (!was_taken(d, left))
            return decode_refuse(d, "'.%s' does not exist here", left);
        if (!may_repeat(left))
            return decode_refuse(d, "'.%s' is given twice", left);
    }
    return !d->failed;
}

/* ---- versions and targets --------------------------------------------------------------------------- */
bool decode_need_sm(struct decoder *d, int sm)
{
    const int target = d->module->text->target;
    return target >= sm || decode_refuse(d, "needs .target sm_%d, the text says sm_%d", sm, target);
}

bool decode_need_isa(struct decoder *d, int isa)
{
    int version = d->module->text->version;
    return version >= isa || decode_refuse(d, "needs PTX ISA %d.%d, the text says .version %d.%d", isa / 10,
                                           isa % 10, version / 10, version % 10);
}

bool decode_need_suffix(struct decoder *d, int sm)
{
    const struct ptx_module *text = d->module->text;
    return (text->target_suffix && text->target == sm) ||
           decode_refuse(d, "needs .target sm_%da, the text says sm_%d", sm, text->target);
}

bool decode_need_suffix_from(struct decoder *d, int sm)
{
    const struct ptx_module *text = d->module->text;
    return (text->target_suffix && text->target >= sm) ||
           decode_refuse(d, "needs .target sm_%da, the text says sm_%d", sm, text->target);
}

bool decode_needs(struct decoder *d)
{
    static const struct {
        const char *opcode, *word;
        int         isa, sm;
    } needs[] = {
#define NEED(opcode, word, isa, sm) {opcode, word, isa, sm},
#include "needs.def"
#undef NEED
    };
    const struct ptx_instruction *in = d->in;
    for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++) {
        bool found = *needs[i].word == '\0';
        if (*needs[i].opcode && strcmp(needs[i].opcode, in->opcode) != 0)
            continue;
        for (unsigned int k = 0; k < in->modifier_count; k++)
            found = found || strcmp(in->modifiers[k], needs[i].word) == 0;
        if (found && (!decode_need_isa(d, needs[i].isa) || !decode_need_sm(d, needs[i].sm)))
            return false;
    }
    return true;
}

/* ---- state spaces ----------------------------------------------------------------------------------- */
static const struct {
    const char    *word;
    enum emu_space space;
    bool           cluster;
} spaces[] = {
    {"shared", EMU_SHARED, false}, {"shared::cta", EMU_SHARED, false}, {"shared::cluster", EMU_SHARED, true},
    {"global", EMU_GLOBAL, false}, {"local", EMU_LOCAL, false},        {"const", EMU_CONST, false},
    {"param", EMU_PARAM, false},   {"param::entry", EMU_PARAM, false}, {"param::func", EMU_PARAM, false},
};

enum emu_space decode_space(struct decoder *d, bool *cluster)
{
    const char *found;
    if (cluster != NULL)
        *cluster = false;
    for (unsigned int at = 0; (found = decode_unread(d, &at)) != NULL;)
        for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++)
            if (strcmp(found, spaces[i].word) == 0) {
                d->taken |= 1ull << (at - 1);
                if (cluster != NULL)
                    *cluster = spaces[i].cluster;
                if (spaces[i].cluster)
                    decode_need_sm(d, 90);
                return spaces[i].space;
            }
    return EMU_GENERIC;
}
