/* debug.c - .file and .loc, which say where instructions come from, and sections of debug information. */
#include "parse.h"

enum { MAX_FILE = 65535, MAX_INLINED = 1 << 24 };

/* A table from four numbers to one. */
struct row {
    uint64_t key[4];
    uint32_t value;
    bool     used;
};
struct table {
    struct row *rows;
    size_t      count, capacity;
};
struct ptx_debug {
    struct ptx_list files;     /* const char * */
    unsigned int    file_most; /* that any .loc names */
    struct table    locs;      /* file, line, column: the caller of the last .loc there */
    struct ptx_list inlined;   /* struct ptx_inlined */
    struct table    callers;   /* file, line, caller, function: index into inlined + 1 */
    struct ptx_list function;  /* struct reference: of inlined */
    struct ptx_list strings;   /* char: what .debug_str holds */
    struct table    labels;    /* a name's address: its offset in strings, + 1 */
};
struct reference {
    const struct ptx_name *label;
    uint64_t               offset;
};

static struct ptx_debug *debug_of(struct ptx_parser *p)
{
    if (p->debug == NULL)
        p->debug = (struct ptx_debug *)ptx_scratch(p, 1, sizeof *p->debug);
    return p->debug;
}

/* ---- tables -------------------------------------------------------------------------------------------- */
static struct row *slot(const struct table *t, const uint64_t key[4])
{
    uint64_t hash = 0;
    for (int i = 0; i < 4; i++) {
        hash = (hash ^ key[i]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    for (size_t at = (size_t)hash & (t->capacity - 1);; at = (at + 1) & (t->capacity - 1))
        if (!t->rows[at].used || memcmp(t->rows[at].key, key, sizeof t->rows[at].key) == 0)
            return &t->rows[at];
}

/* The row of this key.  A new row has the value 0. */
static struct row *find(struct ptx_parser *p, struct table *t, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    uint64_t key[4] = {a, b, c, d};
    if (2 * t->count >= t->capacity) {
        struct table larger = {NULL, t->count, t->capacity ? 2 * t->capacity : 64};
        larger.rows = (struct row *)ptx_scratch(p, larger.capacity, sizeof *larger.rows);
        for (size_t i = 0; i < t->capacity; i++)
            if (t->rows[i].used)
                *slot(&larger, t->rows[i].key) = t->rows[i];
        *t = larger;
    }
    struct row *row = slot(t, key);
    if (!row->used) {
        memcpy(row->key, key, sizeof key);
        row->used = true;
        t->count++;
    }
    return row;
}

/* ---- .file and .loc ------------------------------------------------------------------------------------ */
void ptx_debug_file(struct ptx_parser *p)
{
    struct ptx_debug *debug = debug_of(p);
    uint64_t          index = ptx_want_integer(p, MAX_FILE, "the number of a file");
    if (p->lex.kind != PTX_TOKEN_STRING)
        ptx_unexpected(p, "a file's name");
    char *name = (char *)ptx_keep(p, p->lex.bytes, 1);
    memcpy(name, p->lex.text + 1, p->lex.bytes - 2); /* without the quotes, with a 0 */
    ptx_next(p);
    if (ptx_take_mark(p, ',')) { /* the time of its last change, and its size */
        ptx_want_integer(p, UINT64_MAX, "a time");
        ptx_want_mark(p, ',');
        ptx_want_integer(p, UINT64_MAX, "a size");
    }
    while (debug->files.count <= index)
        ptx_add(p, &debug->files, sizeof(const char *));
    ((const char **)debug->files.items)[index] = name;
}

struct coordinates {
    uint32_t file, line, column;
};

static struct coordinates coordinates(struct ptx_parser *p)
{
    struct coordinates at;
    at.file = (uint32_t)ptx_want_integer(p, MAX_FILE, "the number of a file");
    at.line = (uint32_t)ptx_want_integer(p, UINT32_MAX, "a line");
    at.column = (uint32_t)ptx_want_integer(p, UINT32_MAX, "a column");
    if (at.file > p->debug->file_most)
        p->debug->file_most = at.file;
    return at;
}

static struct reference function_name(struct ptx_parser *p)
{
    struct reference r = {ptx_want_name(p, "a label of .debug_str"), 0};
    if (ptx_take_mark(p, '+'))
        r.offset = ptx_want_integer(p, UINT64_MAX, "an offset");
    return r;
}

/* The index + 1 of the place where this was inlined. */
static uint32_t caller(struct ptx_parser *p, struct reference function, struct coordinates at)
{
    struct ptx_debug *debug = p->debug;
    uint32_t          further = find(p, &debug->locs, at.file, at.line, at.column, 0)->value;
    uint64_t          identity = (uint64_t)(uintptr_t)function.label * 31 + function.offset;
    struct row       *row = find(p, &debug->callers, at.file, at.line, further, identity);
    if (!row->value) {
        if (debug->inlined.count == MAX_INLINED)
            ptx_fail(p, "more than %d places of inlining", MAX_INLINED);
        struct ptx_inlined *in = (struct ptx_inlined *)ptx_add(p, &debug->inlined, sizeof *in);
        in->place.line = p->lex.last_line;
        in->place.file = at.file;
        in->place.file_line = at.line;
        in->place.caller = further;
        *(struct reference *)ptx_add(p, &debug->function, sizeof function) = function;
        row->value = (uint32_t)debug->inlined.count;
    }
    return row->value;
}

void ptx_debug_loc(struct ptx_parser *p)
{
    struct ptx_debug  *debug = debug_of(p);
    struct coordinates at = coordinates(p);
    struct reference   function = {NULL, 0};
    p->caller = 0;
    if (ptx_take_mark(p, ',')) {
        if (ptx_at_word(p, "function_name")) {
            ptx_next(p);
            function = function_name(p);
            ptx_want_mark(p, ',');
        }
        if (!ptx_at_word(p, "inlined_at"))
            ptx_unexpected(p, "inlined_at");
        ptx_next(p);
        p->caller = caller(p, function, coordinates(p));
    }
    p->file = at.file;
    p->file_line = at.line;
    find(p, &debug->locs, at.file, at.line, at.column, 0)->value = p->caller;
}

/* ---- .section ------------------------------------------------------------------------------------------ */
/* 5, -5, label, label+5, label-label, .debug_info+5; the value where it is a number. */
static uint64_t datum(struct ptx_parser *p)
{
    uint64_t value = 0;
    bool     minus = ptx_take_mark(p, '-');
    if (p->lex.kind == PTX_TOKEN_INTEGER)
        value = minus ? 0 - p->lex.value : p->lex.value;
    else if (minus || (p->lex.kind != PTX_TOKEN_WORD && p->lex.kind != PTX_TOKEN_DOT))
        ptx_unexpected(p, "a number or a label");
    bool number = p->lex.kind == PTX_TOKEN_INTEGER;
    ptx_next(p);
    if (!number && ptx_take_mark(p, '+'))
        ptx_want_integer(p, UINT64_MAX, "an offset");
    else if (!number && ptx_take_mark(p, '-')) {
        if (p->lex.kind != PTX_TOKEN_WORD && p->lex.kind != PTX_TOKEN_INTEGER)
            ptx_unexpected(p, "a label");
        ptx_next(p);
    }
    return value;
}

static void data(struct ptx_parser *p, bool strings)
{
    enum ptx_type type = p->lex.kind == PTX_TOKEN_DOT ? ptx_type_find(p->lex.name->text) : PTX_NO_TYPE;
    if (type != PTX_b8 && type != PTX_b16 && type != PTX_b32 && type != PTX_b64)
        ptx_unexpected(p, "data");
    ptx_next(p);
    do {
        uint64_t value = datum(p);
        for (unsigned int i = 0; strings && i < ptx_type_bits(type); i += 8)
            *(char *)ptx_add(p, &p->debug->strings, 1) = (char)(value >> i & 0xff);
    } while (ptx_take_mark(p, ','));
}

void ptx_debug_section(struct ptx_parser *p)
{
    struct ptx_debug *debug = debug_of(p);
    bool              strings = ptx_at_dot(p, "debug_str");
    if (p->lex.kind != PTX_TOKEN_DOT)
        ptx_unexpected(p, "a section's name");
    ptx_next(p);
    ptx_want_mark(p, '{');
    while (!ptx_at_mark(p, '}')) {
        if (p->lex.kind != PTX_TOKEN_WORD) {
            data(p, strings);
            continue;
        }
        const struct ptx_name *label = ptx_want_name(p, "a label");
        ptx_want_mark(p, ':');
        if (strings)
            find(p, &debug->labels, (uint64_t)(uintptr_t)label, 0, 0, 0)->value =
                (uint32_t)debug->strings.count + 1;
    }
    ptx_next(p);
}

/* ---- at the end of the text ---------------------------------------------------------------------------- */
static const char *string_at(struct ptx_parser *p, const struct reference *r)
{
    struct ptx_debug *debug = p->debug;
    if (r->label == NULL)
        return NULL;
    uint64_t at = find(p, &debug->labels, (uint64_t)(uintptr_t)r->label, 0, 0, 0)->value;
    if (at == 0 || r->offset >= debug->strings.count || at - 1 >= debug->strings.count - r->offset)
        return NULL;
    const char *text = (const char *)debug->strings.items + at - 1 + r->offset;
    const char *end = (const char *)memchr(text, 0, debug->strings.count - (size_t)(at - 1 + r->offset));
    return end != NULL && end > text && end - text < 4096 ? ptx_intern(p, text, (size_t)(end - text))->text
                                                          : NULL;
}

void ptx_debug_finish(struct ptx_parser *p)
{
    struct ptx_module *m = p->module;
    struct ptx_debug  *debug = debug_of(p);
    while (debug->files.count <= debug->file_most)
        ptx_add(p, &debug->files, sizeof(const char *));
    ((const char **)debug->files.items)[0] = NULL;
    for (size_t i = 0; i < debug->inlined.count; i++)
        ((struct ptx_inlined *)debug->inlined.items)[i].function =
            string_at(p, (const struct reference *)debug->function.items + i);
    m->files = (const char **)ptx_take(p, &debug->files, 0, sizeof *m->files, &m->file_count);
    m->inlined = (struct ptx_inlined *)ptx_take(p, &debug->inlined, 0, sizeof *m->inlined, &m->inlined_count);
}
