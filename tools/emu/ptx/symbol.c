/* symbol.c - scopes: which symbol a name means at each place.
 *
 * Each name has a list of its bindings, innermost first, so that a look-up only reads the name. */
#include "parse.h"

enum { MAX_SCOPES = 64, MAX_FAMILY_DIGITS = 9 };

void ptx_scope_open(struct ptx_parser *p)
{
    struct ptx_scope *scope = (struct ptx_scope *)ptx_scratch(p, 1, sizeof *scope);
    scope->parent = p->scope;
    scope->depth = p->scope != NULL ? p->scope->depth + 1 : 0;
    scope->pending = p->pending.count;
    if (scope->depth > MAX_SCOPES)
        ptx_fail(p, "blocks are nested more than %d deep", MAX_SCOPES);
    p->scope = scope;
}

/* "%r12" is 12 of "%r"; all digits at the end belong to the number. */
static void split(struct ptx_parser *p, struct ptx_name *name)
{
    uint32_t bytes = name->bytes;
    uint64_t number = 0;
    name->split = true;
    while (bytes > 0 && name->text[bytes - 1] >= '0' && name->text[bytes - 1] <= '9')
        bytes--;
    if (bytes == 0 || bytes == name->bytes || name->bytes - bytes > MAX_FAMILY_DIGITS)
        return;
    for (uint32_t i = bytes; i < name->bytes; i++)
        number = number * 10 + (uint64_t)(name->text[i] - '0');
    name->number = number;
    name->prefix = ptx_intern(p, name->text, bytes);
}

static struct ptx_name *prefix_of(struct ptx_parser *p, struct ptx_name *name)
{
    if (!name->split)
        split(p, name);
    return name->prefix;
}

static void twice(struct ptx_parser *p, const struct ptx_name *name, const struct ptx_symbol *first,
                  uint32_t line)
{
    ptx_fail_at(p, line, "'%s' is already declared on line %u", name->text, first->place.line);
}

static struct ptx_binding *add_binding(struct ptx_parser *p, struct ptx_name *name, struct ptx_symbol *symbol)
{
    struct ptx_binding *b = (struct ptx_binding *)ptx_scratch(p, 1, sizeof *b);
    b->symbol = symbol;
    b->name = name;
    b->scope = p->scope;
    b->next = p->scope->bindings;
    p->scope->bindings = b;
    return b;
}

void ptx_bind(struct ptx_parser *p, struct ptx_name *name, struct ptx_symbol *symbol, uint32_t line)
{
    struct ptx_name *prefix = prefix_of(p, name);
    if (name->symbol != NULL && name->symbol->scope == p->scope)
        twice(p, name, name->symbol->symbol, line);
    if (prefix != NULL && prefix->family != NULL && prefix->family->scope == p->scope &&
        name->number < prefix->family->symbol->count)
        twice(p, name, prefix->family->symbol, line);
    struct ptx_binding *b = add_binding(p, name, symbol);
    b->outer = name->symbol;
    name->symbol = b;
    if (prefix != NULL) {
        b->numbered_outer = prefix->numbered;
        prefix->numbered = b;
    }
}

void ptx_bind_family(struct ptx_parser *p, struct ptx_name *name, struct ptx_symbol *symbol, uint32_t line)
{
    if (name->family != NULL && name->family->scope == p->scope)
        twice(p, name, name->family->symbol, line);
    for (struct ptx_binding *b = name->numbered; b != NULL && b->scope == p->scope; b = b->numbered_outer)
        if (b->name->number < symbol->count)
            twice(p, b->name, b->symbol, line);
    struct ptx_binding *b = add_binding(p, name, symbol);
    b->family = true;
    b->outer = name->family;
    name->family = b;
}

struct ptx_symbol *ptx_resolve(struct ptx_parser *p, struct ptx_name *name, uint64_t *member)
{
    struct ptx_binding *b = name->symbol;
    struct ptx_name    *prefix = prefix_of(p, name);
    struct ptx_binding *family = prefix != NULL ? prefix->family : NULL;
    *member = 0;
    if (family != NULL && name->number < family->symbol->count &&
        (b == NULL || family->scope->depth > b->scope->depth)) {
        *member = name->number;
        return family->symbol;
    }
    return b != NULL ? b->symbol : NULL;
}

struct ptx_symbol *ptx_resolve_here(struct ptx_parser *p, const struct ptx_name *name)
{
    return name->symbol != NULL && name->symbol->scope == p->scope ? name->symbol->symbol : NULL;
}

void ptx_await_label(struct ptx_parser *p, const struct ptx_symbol **slot, struct ptx_name *name, uint32_t line)
{
    struct ptx_pending *use = (struct ptx_pending *)ptx_add(p, &p->pending, sizeof *use);
    use->slot = slot;
    use->name = name;
    use->line = line;
}

void ptx_unknown(struct ptx_parser *p, struct ptx_name *name, uint32_t line)
{
    const struct ptx_name *prefix = prefix_of(p, name);
    p->drop = true;
    if (!p->lost && !name->spoiled && (prefix == NULL || !prefix->spoiled))
        ptx_note_at(p, line, "unknown name '%s'", name->text);
}

/* Resolve the uses that wait for labels of this scope; the others now wait in the scope around it. */
static void settle(struct ptx_parser *p)
{
    static const struct ptx_symbol missing = {.kind = PTX_MISSING, .name = "", .vector = 1};
    struct ptx_pending            *uses = (struct ptx_pending *)p->pending.items;
    size_t                         left = p->scope->pending;
    for (size_t i = left; i < p->pending.count; i++) {
        struct ptx_symbol *symbol = ptx_resolve_here(p, uses[i].name);
        if (symbol != NULL && symbol->kind == PTX_LABEL)
            *uses[i].slot = symbol;
        else if (p->scope->depth > 1)
            uses[left++] = uses[i];
        else if (*uses[i].slot == NULL) {
            ptx_unknown(p, uses[i].name, uses[i].line);
            *uses[i].slot = &missing;
        }
    }
    p->pending.count = left;
}

void ptx_scope_drop(struct ptx_parser *p)
{
    for (struct ptx_binding *b = p->scope->bindings; b != NULL; b = b->next) {
        if (b->family) {
            b->name->family = b->outer;
            continue;
        }
        b->name->symbol = b->outer;
        if (b->name->prefix != NULL)
            b->name->prefix->numbered = b->numbered_outer;
    }
    p->scope = p->scope->parent;
}

void ptx_scope_close(struct ptx_parser *p)
{
    settle(p);
    ptx_scope_drop(p);
}
