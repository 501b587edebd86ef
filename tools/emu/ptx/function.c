/* function.c - functions and kernels: declarations, definitions, prototypes, aliases. */
#include "parse.h"

struct ptx_alias {
    struct ptx_function *alias, *of;
    uint32_t             line;
};

/* ---- directives between the parameters and the body ---------------------------------------------------- */
/* a, b, c: a missing number is 1 */
static void extents(struct ptx_parser *p, unsigned int sizes[PTX_DIMENSIONS])
{
    int i = 0;
    do {
        if (i == PTX_DIMENSIONS)
            ptx_fail(p, "more than %d dimensions", PTX_DIMENSIONS);
        sizes[i] = (unsigned int)ptx_want_integer(p, UINT32_MAX, "a number of threads or CTAs");
        if (sizes[i++] == 0)
            ptx_fail_last(p, "a dimension of 0");
    } while (ptx_take_mark(p, ','));
    while (i < PTX_DIMENSIONS)
        sizes[i++] = 1;
}

static unsigned int want_count(struct ptx_parser *p)
{
    return (unsigned int)ptx_want_integer(p, UINT32_MAX, "a number");
}

static void property(struct ptx_parser *p, struct ptx_function *f)
{
    if (ptx_take_dot(p, "maxntid"))
        extents(p, f->max_threads);
    else if (ptx_take_dot(p, "reqntid"))
        extents(p, f->required_threads);
    else if (ptx_take_dot(p, "reqnctapercluster"))
        extents(p, f->required_cluster);
    else if (ptx_take_dot(p, "explicitcluster"))
        f->explicit_cluster = true;
    else if (ptx_take_dot(p, "maxclusterrank"))
        f->max_cluster_rank = want_count(p);
    else if (ptx_take_dot(p, "minnctapersm"))
        f->min_ctas = want_count(p);
    else if (ptx_take_dot(p, "maxnreg"))
        f->max_registers = want_count(p);
    else if (ptx_take_dot(p, "noreturn"))
        f->is_noreturn = true;
    else if (ptx_take_dot(p, "pragma"))
        ptx_skip_pragma(p);
    else if (ptx_take_dot(p, "maxnctapersm") || ptx_take_dot(p, "abi_preserve") ||
             ptx_take_dot(p, "abi_preserve_control"))
        want_count(p); /* advice to a compiler */
    else if (ptx_at_dot(p, "blocksareclusters"))
        ptx_fail(p, "'%s': .blocksareclusters is not supported", f->name);
    else
        ptx_unexpected(p, "';' or '{'");
}

static void skip_attribute(struct ptx_parser *p)
{
    if (!ptx_take_dot(p, "attribute"))
        return;
    ptx_want_mark(p, '(');
    if (!ptx_take_dot(p, "unified"))
        ptx_unexpected(p, ".unified");
    ptx_want_mark(p, '(');
    ptx_want_integer(p, UINT64_MAX, "half of an identifier");
    ptx_want_mark(p, ',');
    ptx_want_integer(p, UINT64_MAX, "half of an identifier");
    ptx_want_mark(p, ')');
    ptx_want_mark(p, ')');
}

/* ---- parameters ---------------------------------------------------------------------------------------- */
/* The results, if there are any, come before the name. */
static struct ptx_list results_before(struct ptx_parser *p, bool bind)
{
    struct ptx_list results = {NULL, 0, 0};
    if (ptx_at_mark(p, '('))
        ptx_parameters(p, &results, bind);
    return results;
}

static void keep_parameters(struct ptx_parser *p, struct ptx_function *f, struct ptx_list *results,
                            struct ptx_list *parameters)
{
    f->results = (struct ptx_symbol **)ptx_take(p, results, 0, sizeof *f->results, &f->result_count);
    f->parameters = (struct ptx_symbol **)ptx_take(p, parameters, 0, sizeof *f->parameters,
                                                   &f->parameter_count);
}

static bool same(struct ptx_symbol *const *a, struct ptx_symbol *const *b, unsigned int count)
{
    for (unsigned int i = 0; i < count; i++)
        if (a[i]->space != b[i]->space || a[i]->bytes != b[i]->bytes || a[i]->is_array != b[i]->is_array ||
            a[i]->type != b[i]->type)
            return false;
    return true;
}

static void check_entry(struct ptx_parser *p, const struct ptx_function *f)
{
    if (f->result_count)
        ptx_fail_at(p, f->place.line, "'%s': a kernel cannot have results", f->name);
    for (unsigned int i = 0; i < f->parameter_count; i++)
        if (f->parameters[i]->space != PTX_PARAM || f->parameters[i]->bytes == 0)
            ptx_fail_at(p, f->parameters[i]->place.line,
                        "'%s': a kernel's parameter must be .param and have a size", f->parameters[i]->name);
}

void ptx_prototype(struct ptx_parser *p, struct ptx_name *name, uint32_t line)
{
    struct ptx_function *f = (struct ptx_function *)ptx_keep(p, 1, sizeof *f);
    struct ptx_symbol   *s = (struct ptx_symbol *)ptx_keep(p, 1, sizeof *s);
    struct ptx_list      parameters = {NULL, 0, 0}, results = results_before(p, false);
    f->name = name->text;
    f->place = ptx_here(p, line);
    if (!ptx_at_word(p, "_"))
        ptx_want_name(p, "'_'");
    else
        ptx_next(p);
    if (ptx_at_mark(p, '('))
        ptx_parameters(p, &parameters, false);
    keep_parameters(p, f, &results, &parameters);
    while (!ptx_at_mark(p, ';'))
        property(p, f);
    ptx_want_mark(p, ';');
    s->kind = PTX_PROTOTYPE;
    s->name = name->text;
    s->vector = 1;
    s->count = 1;
    s->function = f;
    s->place = f->place;
    ptx_bind(p, name, s, line);
}

/* ---- the function -------------------------------------------------------------------------------------- */
static struct ptx_function *declare(struct ptx_parser *p, struct ptx_name *name, uint32_t line)
{
    struct ptx_symbol *s = ptx_resolve_here(p, name);
    if (s != NULL && s->kind == PTX_FUNCTION)
        return s->function;
    s = (struct ptx_symbol *)ptx_keep(p, 1, sizeof *s);
    s->kind = PTX_FUNCTION;
    s->name = name->text;
    s->vector = 1;
    s->count = 1;
    s->place = ptx_here(p, line);
    s->function = (struct ptx_function *)ptx_keep(p, 1, sizeof *s->function);
    s->function->name = name->text;
    ptx_bind(p, name, s, line);
    *(struct ptx_function **)ptx_add(p, &p->functions, sizeof s->function) = s->function;
    return s->function;
}

/* The function of this name.  It belongs to the module, although the scope of its parameters is already open.
 * A parameter may have the same name and then hides the function. */
static struct ptx_function *declared(struct ptx_parser *p, struct ptx_name *name, uint32_t line)
{
    struct ptx_scope   *inside = p->scope;
    struct ptx_binding *hides = ptx_resolve_here(p, name) != NULL ? name->symbol : NULL;
    if (hides != NULL)
        name->symbol = hides->outer;
    p->scope = inside->parent;
    struct ptx_function *f = declare(p, name, line);
    p->scope = inside;
    if (hides != NULL) {
        hides->outer = name->symbol;
        name->symbol = hides;
    }
    return f;
}

static void check_again(struct ptx_parser *p, const struct ptx_function *old, const struct ptx_function *now)
{
    uint32_t line = now->place.line;
    if (old->is_entry != now->is_entry)
        ptx_fail_at(p, line, "'%s' is %s on line %u", now->name, old->is_entry ? "a kernel" : "not a kernel",
                    old->place.line);
    if (old->parameter_count != now->parameter_count || old->result_count != now->result_count ||
        !same(old->parameters, now->parameters, now->parameter_count) ||
        !same(old->results, now->results, now->result_count))
        ptx_fail_at(p, line, "the parameters of '%s' differ from those on line %u", now->name, old->place.line);
    if (old->has_body && now->has_body)
        ptx_fail_at(p, line, "'%s' is already defined on line %u", now->name, old->place.line);
}

static void take_body(struct ptx_parser *p, struct ptx_function *f)
{
    p->function = f;
    ptx_body(p);
    p->function = NULL;
    ptx_scope_close(p);
    f->registers = (struct ptx_symbol **)ptx_take(p, &p->registers, 0, sizeof *f->registers,
                                                  &f->register_symbols);
    f->register_count = p->register_count;
    f->variables = (struct ptx_symbol **)ptx_take(p, &p->variables, 0, sizeof *f->variables,
                                                  &f->variable_count);
    f->labels = (struct ptx_symbol **)ptx_take(p, &p->labels, 0, sizeof *f->labels, &f->label_count);
    f->code = (struct ptx_instruction *)ptx_take(p, &p->code, 0, sizeof *f->code, &f->code_count);
    p->file = p->file_line = p->caller = 0;
}

/* Add to the earlier declarations what only `now` says; its body replaces theirs. */
static void update(struct ptx_function *f, const struct ptx_function *now)
{
    struct ptx_function old = *f;
    if (old.name != NULL && old.has_body && !now->has_body) { /* a declaration behind the definition */
        f->is_visible |= now->is_visible;
        return;
    }
    *f = *now;
    f->is_visible |= old.is_visible;
    f->is_weak |= old.is_weak;
    f->is_noreturn |= old.is_noreturn;
    f->is_extern = !f->has_body && (f->is_extern || old.is_extern);
}

void ptx_function(struct ptx_parser *p, struct ptx_linkage linkage, bool is_entry)
{
    struct ptx_function now = {.is_entry = is_entry, .is_extern = linkage.is_extern};
    struct ptx_list     parameters = {NULL, 0, 0}, results;
    now.is_weak = linkage.is_weak;
    now.is_visible = linkage.is_visible;
    p->register_count = 0;
    p->registers.count = 0;
    skip_attribute(p);
    ptx_scope_open(p);
    results = results_before(p, true);
    now.place = ptx_here(p, p->lex.token_line);
    struct ptx_name *name = ptx_want_name(p, "a function's name");
    now.name = name->text;
    if (ptx_at_mark(p, '('))
        ptx_parameters(p, &parameters, true);
    keep_parameters(p, &now, &results, &parameters);
    if (is_entry)
        check_entry(p, &now);
    while (!ptx_at_mark(p, ';') && !ptx_at_mark(p, '{'))
        property(p, &now);
    now.has_body = ptx_at_mark(p, '{');

    struct ptx_function *f = declared(p, name, now.place.line);
    if (f->place.line)
        check_again(p, f, &now);
    update(f, &now);
    ptx_next(p);
    if (now.has_body)
        take_body(p, f);
    else
        ptx_scope_close(p);
}

/* ---- aliases ------------------------------------------------------------------------------------------- */
static struct ptx_function *want_function(struct ptx_parser *p)
{
    uint32_t                 line = p->lex.token_line;
    struct ptx_name         *name = ptx_want_name(p, "a function");
    const struct ptx_symbol *s = name->symbol != NULL ? name->symbol->symbol : NULL;
    if (s == NULL) {
        ptx_unknown(p, name, line);
        ptx_leave_attempt(p);
    }
    if (s->kind != PTX_FUNCTION)
        ptx_fail_at(p, line, "'%s' is not a function", name->text);
    return s->function;
}

void ptx_alias(struct ptx_parser *p)
{
    struct ptx_alias a = {.line = p->lex.token_line};
    a.alias = want_function(p);
    ptx_want_mark(p, ',');
    a.of = want_function(p);
    ptx_want_mark(p, ';');
    *(struct ptx_alias *)ptx_add(p, &p->aliases, sizeof a) = a;
}

/* At the end of the text: an alias is a second function with the same body. */
void ptx_resolve_aliases(struct ptx_parser *p)
{
    struct ptx_alias *list = (struct ptx_alias *)p->aliases.items;
    for (size_t i = 0; i < p->aliases.count; i++) {
        struct ptx_function       *alias = list[i].alias;
        const struct ptx_function *of = list[i].of;
        if (alias->has_body || !of->has_body || alias->is_entry || of->is_entry)
            ptx_fail_at(p, list[i].line, ".alias needs a declared function and a defined one");
        struct ptx_function now = *of;
        now.name = alias->name;
        now.is_visible = alias->is_visible;
        now.is_weak = alias->is_weak;
        now.place = alias->place;
        if (alias->parameter_count != of->parameter_count || alias->result_count != of->result_count ||
            !same(alias->parameters, of->parameters, of->parameter_count) ||
            !same(alias->results, of->results, of->result_count))
            ptx_fail_at(p, list[i].line, "'%s' and '%s' have different parameters", alias->name, of->name);
        *alias = now;
    }
}
