/* module.c - PTX text becomes a module: variables get addresses, functions are decoded. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include "state.h"
#include "module.h"
#include "tools/emu/machine/arena.h"
#include "tools/emu/machine/special.h"

/* Limits: functions of a module; local memory of a thread, as on a GPU; rows of a warp, which are 16 MiB. */
enum { MOST_FUNCTIONS = 4096, MOST_LOCAL = 512 << 10, MOST_ROWS = 1 << 17 };

static atomic_ullong modules;

struct loader {
    const struct emu_settings *settings;
    struct emu_module         *module;
    struct decoder             d;
    bool                       allocate;
    void                      *context;
    bool                       no_memory; /* the error is about the device, which has another result code */
    bool *reaches; /* [caller][callee], transitive; the last row: what calls by address reach */
};

static bool refuse(struct loader *l, const struct ptx_place *place, const char *what, const char *name)
{
    char line[1024];
    if (!l->d.failed && !l->d.partial) { /* otherwise it may follow from what is missing */
        snprintf(line, sizeof line, "line %u: %s '%s'", place->line, what, name);
        ptx_errors_add(l->d.errors, line);
    }
    l->d.failed = true;
    return false;
}

static uint64_t align_up(uint64_t value, uint64_t align) { return (value + align - 1) / align * align; }

/* ---- global and constant variables ---------------------------------------------------------------- */
static bool place_global(struct loader *l, const struct ptx_symbol *v)
{
    struct emu_module   *m = l->module;
    enum emu_memory_kind kind = v->space == PTX_CONST ? EMU_MEMORY_CONSTANT : EMU_MEMORY_MODULE;
    uint64_t             address = 0;
    if (v->is_extern)
        return refuse(l, &v->place, "nothing defines the variable", v->name);
    if (v->space == PTX_CONST && v->bytes > 64 << 10)
        return refuse(l, &v->place, "more than 64 KiB of constants in", v->name);
    if (l->allocate) {
        address = emu_arena_alloc(v->bytes ? v->bytes : 1, kind, v->name, l->context);
        if (!address) {
            l->no_memory = true;
            return refuse(l, &v->place, "no device memory for", v->name);
        }
        memset((void *)(uintptr_t)address, 0, v->bytes);
        if (v->init != NULL)
            memcpy((void *)(uintptr_t)address, v->init, v->bytes);
        emu_arena_define(address, v->bytes, true);
    }
    struct emu_global *g = &m->globals[m->global_count++];
    g->name = v->name;
    g->address = address;
    g->bytes = v->bytes;
    g->constant = v->space == PTX_CONST;
    g->visible = v->is_visible || v->is_weak || v->is_common;
    return decode_place(l->d.state, v, EMU_GLOBAL, address, false);
}

static bool address_of(struct loader *l, const struct ptx_relocation *r, uint64_t *address)
{
    const struct placed *p = decode_find_placed(l->d.state, r->symbol);
    if (r->symbol->kind == PTX_FUNCTION) {
        for (uint32_t i = 0; i < l->module->function_count; i++)
            if (l->module->functions[i].text == r->symbol->function)
                *address = EMU_FUNCTION_WINDOW + i;
    } else if (p != NULL && p->space == EMU_GLOBAL) {
        *address = p->address;
    } else if (p != NULL && p->space == EMU_SHARED && !p->dynamic) {
        *address = p->address + (r->generic ? EMU_SHARED_WINDOW : 0);
    } else {
        return refuse(l, &r->symbol->place, "no address for the initial value with", r->symbol->name);
    }
    *address = (*address + (uint64_t)r->addend) >> r->shift;
    return true;
}

static bool relocate(struct loader *l, const struct ptx_symbol *v)
{
    const struct placed *p = decode_find_placed(l->d.state, v);
    for (unsigned int i = 0; i < v->relocation_count; i++) {
        const struct ptx_relocation *r = &v->relocations[i];
        uint64_t                     address = 0;
        if (!address_of(l, r, &address))
            return false;
        if (l->allocate && p != NULL && r->offset + r->bytes <= v->bytes)
            memcpy((void *)(uintptr_t)(p->address + r->offset), &address, r->bytes);
    }
    return true;
}

/* ---- who uses what -------------------------------------------------------------------------------- */
static bool operand_names(const struct ptx_operand *o, const struct ptx_symbol *symbol)
{
    if (o->symbol == symbol && o->kind == PTX_OP_SYMBOL)
        return true;
    for (unsigned int i = 0; i < o->count; i++)
        if (operand_names(&o->items[i], symbol))
            return true;
    return false;
}

static bool names(const struct ptx_function *f, const struct ptx_symbol *symbol)
{
    for (unsigned int i = 0; i < f->code_count; i++)
        for (unsigned int k = 0; k < f->code[i].operand_count; k++)
            if (operand_names(&f->code[i].operands[k], symbol))
                return true;
    for (unsigned int i = 0; i < f->variable_count; i++)
        if (f->variables[i] == symbol)
            return true;
    return false;
}

static void mark_calls(const struct loader *l, uint32_t caller, const struct ptx_operand *o)
{
    const struct emu_module *m = l->module;
    if (o->kind == PTX_OP_SYMBOL && o->symbol->kind == PTX_FUNCTION)
        for (uint32_t i = 0; i < m->function_count; i++)
            if (m->functions[i].text == o->symbol->function)
                l->reaches[(size_t)caller * m->function_count + i] = true;
    for (unsigned int i = 0; i < o->count; i++)
        mark_calls(l, caller, &o->items[i]);
}

static bool calls_by_address(const struct ptx_instruction *in)
{
    unsigned int at = in->operand_count && in->operands[0].kind == PTX_OP_GROUP; /* results come first */
    return strcmp(in->opcode, "call") == 0 && at < in->operand_count &&
           in->operands[at].kind == PTX_OP_REGISTER;
}

/* A call by address may reach every function whose address is in a variable or is named in the code.  The last
 * row has these functions. */
static void mark_by_address(const struct loader *l)
{
    const struct ptx_module *text = l->module->text;
    uint32_t                 n = l->module->function_count, caller = n;
    for (unsigned int i = 0; i < text->variable_count; i++)
        for (unsigned int k = 0; k < text->variables[i]->relocation_count; k++) {
            struct ptx_operand o = {.kind = PTX_OP_SYMBOL, .symbol = text->variables[i]->relocations[k].symbol};
            mark_calls(l, caller, &o);
        }
    for (uint32_t f = 0; f < n; f++)
        for (unsigned int i = 0; i < text->functions[f]->code_count; i++) {
            const struct ptx_instruction *in = &text->functions[f]->code[i];
            for (unsigned int k = 0; k < in->operand_count && strcmp(in->opcode, "call") != 0; k++)
                mark_calls(l, caller, &in->operands[k]);
        }
}

static void mark_function(const struct loader *l, uint32_t f)
{
    const struct ptx_function *text = l->module->functions[f].text;
    bool                       by_address = false;
    for (unsigned int i = 0; i < text->code_count; i++) {
        by_address = by_address || calls_by_address(&text->code[i]);
        for (unsigned int k = 0; k < text->code[i].operand_count; k++)
            mark_calls(l, f, &text->code[i].operands[k]);
    }
    for (uint32_t i = 0; i < l->module->function_count && by_address; i++)
        l->reaches[(size_t)f * l->module->function_count + i] |=
            l->reaches[(size_t)l->module->function_count * l->module->function_count + i];
}

static bool find_calls(struct loader *l)
{
    uint32_t n = l->module->function_count;
    l->reaches = (bool *)calloc(((size_t)n + 1) * n + 1, sizeof *l->reaches);
    if (l->reaches == NULL)
        return decode_no_memory(&l->d);
    mark_by_address(l);
    for (uint32_t f = 0; f < n; f++)
        mark_function(l, f);
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t i = 0; i < n; i++)
            if (l->reaches[(size_t)i * n + k])
                for (uint32_t j = 0; j < n; j++)
                    l->reaches[(size_t)i * n + j] |= l->reaches[(size_t)k * n + j];
    for (uint32_t i = 0; i < n; i++) {
        l->module->functions[i].calls_recursively = l->reaches[(size_t)i * n + i];
        for (uint32_t k = 0; k < n; k++)
            l->module->functions[i].calls |= l->reaches[(size_t)i * n + k];
    }
    return true;
}

/* ---- shared variables: each at an offset that is free in every kernel that reaches it ------------- */
static bool place_shared(struct loader *l, const struct ptx_symbol *v)
{
    struct emu_module *m = l->module;
    uint32_t           n = m->function_count;
    uint64_t           offset = l->settings->shared_reserved;
    bool               dynamic = v->is_extern || v->bytes == 0;
    bool              *used = (bool *)calloc(n + 1u, sizeof *used);
    if (used == NULL)
        return decode_no_memory(&l->d);
    for (uint32_t f = 0; f < n; f++)
        if (names(m->functions[f].text, v))
            for (uint32_t e = 0; e < n; e++)
                used[e] |= e == f || l->reaches[(size_t)e * n + f];
    for (uint32_t e = 0; e < n; e++)
        if (used[e] && m->functions[e].shared_bytes > offset)
            offset = m->functions[e].shared_bytes;
    offset = align_up(offset, v->align);
    bool too_big = v->bytes > 1u << 24 || offset + v->bytes > 1u << 24;
    for (uint32_t e = 0; e < n && !dynamic && !too_big; e++)
        if (used[e])
            m->functions[e].shared_bytes = (uint32_t)(offset + v->bytes);
    for (uint32_t e = 0; e < n && dynamic; e++) /* the dynamic part has the alignment of its variables */
        if (used[e])
            m->functions[e].shared_align = v->align > m->functions[e].shared_align
                                               ? v->align
                                               : m->functions[e].shared_align;
    free(used);
    if (too_big)
        return refuse(l, &v->place, "too large for shared memory:", v->name);
    return decode_place(l->d.state, v, EMU_SHARED, dynamic ? 0 : offset, dynamic);
}

static bool place_variables(struct loader *l, struct ptx_symbol *const *list, unsigned int count,
                            enum ptx_space space)
{
    for (unsigned int i = 0; i < count && !l->d.failed; i++) {
        const struct ptx_symbol *v = list[i];
        bool                     global = v->space == PTX_GLOBAL || v->space == PTX_CONST;
        if (v->space == PTX_TEX || v->type >= PTX_texref)
            return refuse(l, &v->place, "textures and surfaces are not provided:", v->name);
        if (v->space == PTX_LOCAL && space == PTX_SHARED && list == l->module->text->variables)
            return refuse(l, &v->place, ".local at module scope:", v->name);
        if (space == PTX_GLOBAL && global)
            place_global(l, v);
        if (space == PTX_SHARED && v->space == PTX_SHARED)
            place_shared(l, v);
    }
    return !l->d.failed;
}

static bool place_all(struct loader *l, enum ptx_space space)
{
    const struct ptx_module *text = l->module->text;
    if (!place_variables(l, text->variables, text->variable_count, space))
        return false;
    for (unsigned int i = 0; i < text->function_count; i++)
        if (!place_variables(l, text->functions[i]->variables, text->functions[i]->variable_count, space))
            return false;
    return true;
}

/* ---- functions ------------------------------------------------------------------------------------ */
static bool place_formals(struct loader *l, struct emu_function *f, struct ptx_symbol *const *list,
                          unsigned int count, struct emu_formal **out, uint64_t *at)
{
    *out = (struct emu_formal *)decode_alloc(&l->d, count, sizeof **out);
    for (unsigned int i = 0; i < count && !l->d.failed; i++) {
        struct emu_formal *p = &(*out)[i];
        p->symbol = list[i];
        p->reg = EMU_NO_REG;
        p->bytes = (uint32_t)list[i]->bytes;
        if (list[i]->kind == PTX_REGISTER) {
            if (list[i]->first < f->text->register_count) /* only a body has registers */
                p->reg = l->d.state->row_of[list[i]->first];
            p->bytes = ptx_type_bits(list[i]->type) / 8;
            continue;
        }
        *at = align_up(*at, list[i]->align);
        p->offset = (uint32_t)*at;
        if (list[i]->bytes > 1u << 20)
            return refuse(l, &list[i]->place, "too large a parameter:", list[i]->name);
        *at += list[i]->bytes;
        decode_place(l->d.state, list[i], f->text->is_entry ? EMU_PARAM : EMU_LOCAL, p->offset, false);
    }
    return !l->d.failed;
}

static bool place_registers(struct loader *l, const struct ptx_function *text)
{
    struct decode_state *s = l->d.state;
    free(s->row_of);
    free(s->bits_of);
    s->row_of = (uint32_t *)calloc(text->register_count + 1u, sizeof *s->row_of);
    s->bits_of = (uint8_t *)calloc(text->register_count + 1u, sizeof *s->bits_of);
    s->rows = 0;
    s->carry = EMU_NO_REG;
    if (s->row_of == NULL || s->bits_of == NULL)
        return decode_no_memory(&l->d);
    for (unsigned int i = 0; i < text->register_symbols; i++) {
        const struct ptx_symbol *r = text->registers[i];
        unsigned int             bits = ptx_type_bits(r->type), each = bits == 128 ? 4 : bits == 64 ? 2 : 1;
        for (uint64_t k = 0; k < r->count && r->first + k < text->register_count; k++) {
            s->row_of[r->first + k] = s->rows;
            s->bits_of[r->first + k] = (uint8_t)bits;
            s->rows += each * r->vector;
            if (s->rows > MOST_ROWS)
                return refuse(l, &r->place, "too many registers:", r->name);
        }
    }
    return true;
}

static bool place_locals(struct loader *l, struct emu_function *f, uint64_t at)
{
    for (unsigned int i = 0; i < f->text->variable_count; i++) {
        const struct ptx_symbol *v = f->text->variables[i];
        if (v->space != PTX_LOCAL && v->space != PTX_PARAM)
            continue;
        at = align_up(at, v->align);
        decode_place(l->d.state, v, EMU_LOCAL, at, false);
        if (v->bytes > MOST_LOCAL || (at += v->bytes) > MOST_LOCAL)
            return refuse(l, &v->place, "too large for local memory:", v->name);
    }
    f->local_bytes = (uint32_t)align_up(at, 16);
    return true;
}

/* The widths of registers, by row; temporaries count as 32 bits, because they are never undefined in part. */
static bool note_widths(struct loader *l, struct emu_function *f)
{
    const struct decode_state *s = l->d.state;
    uint8_t                   *bits = (uint8_t *)ptx_alloc(l->module->memory, f->rows + 1u, sizeof *bits);
    if (bits == NULL)
        return decode_refuse(&l->d, "out of memory");
    memset(bits, 32, f->rows + 1u);
    for (unsigned int i = 0; i < f->text->register_symbols; i++) {
        const struct ptx_symbol *r = f->text->registers[i];
        const unsigned int       wide = ptx_type_bits(r->type), each = wide == 128 ? 4 : wide == 64 ? 2 : 1;
        for (uint64_t k = 0; k < r->count && r->first + k < f->text->register_count; k++)
            for (uint32_t e = 0; e < r->vector; e++)
                bits[s->row_of[r->first + k] + e * each] = (uint8_t)wide;
    }
    f->row_bits = bits;
    return true;
}

static bool decode_one(struct loader *l, struct emu_function *f)
{
    uint64_t at = 0;
    l->d.function = f;
    l->d.in = NULL;
    if (!place_registers(l, f->text) ||
        !place_formals(l, f, f->text->parameters, f->text->parameter_count, &f->parameters, &at))
        return false;
    f->parameter_count = f->text->parameter_count;
    f->parameter_bytes = (uint32_t)at;
    if (f->text->is_entry && at > 32764)
        return refuse(l, &f->text->place, "more than 32764 bytes of parameters in", f->name);
    if (f->text->is_entry)
        at = 0;
    if (!place_formals(l, f, f->text->results, f->text->result_count, &f->results, &at))
        return false;
    f->result_count = f->text->result_count;
    if (!f->text->has_body)
        return true;
    if (!place_locals(l, f, at) || !decode_function(&l->d))
        return false;
    if (l->d.errors->count > 0)
        return true;
    if (l->d.state->rows > MOST_ROWS)
        return refuse(l, &f->text->place, "too many registers in", f->name);
    f->rows = l->d.state->rows;
    emu_estimate_registers(f, l->d.state);
    return note_widths(l, f);
}

static bool make_functions(struct loader *l)
{
    struct emu_module *m = l->module;
    if (m->text->function_count > MOST_FUNCTIONS)
        return decode_refuse(&l->d, "more than %d functions", MOST_FUNCTIONS);
    m->function_count = m->text->function_count;
    m->functions = (struct emu_function *)decode_alloc(&l->d, m->function_count, sizeof *m->functions);
    for (uint32_t i = 0; i < m->function_count && !l->d.failed; i++) {
        struct emu_function *f = &m->functions[i];
        f->text = m->text->functions[i];
        f->name = f->text->name;
        f->module = m;
        f->shared_bytes = l->settings->shared_reserved;
        f->shared_align = 16;
    }
    return !l->d.failed;
}

static bool check_target(struct loader *l)
{
    const struct ptx_module *t = l->module->text;
    int                      sm = l->settings->sm;
    bool                     fits = t->target_suffix == 'a'   ? t->target == sm
                                    : t->target_suffix == 'f' ? t->target / 10 == sm / 10 && t->target <= sm
                                                              : t->target <= sm;
    char                     suffix[2] = {t->target_suffix, 0}, line[96];
    if (!fits) {
        snprintf(line, sizeof line, ".target sm_%d%s does not run on this sm_%d", t->target, suffix, sm);
        ptx_errors_add(l->d.errors, line);
    }
    return fits;
}

static unsigned int global_variables(const struct ptx_module *t)
{
    unsigned int count = t->variable_count;
    for (unsigned int i = 0; i < t->function_count; i++)
        count += t->functions[i]->variable_count;
    return count;
}

/* The rows of entries begin at row 0.  Every function has rows of its own, a recursive one for each depth. */
static bool place_frames(struct loader *l)
{
    struct emu_module *m = l->module;
    uint64_t           rows = 0;
    for (uint32_t i = 0; i < m->function_count; i++)
        if (m->functions[i].text->is_entry && m->functions[i].rows > rows)
            rows = m->functions[i].rows;
    for (uint32_t i = 0; i < m->function_count && rows <= MOST_ROWS; i++) {
        struct emu_function *f = &m->functions[i];
        if (f->text->is_entry)
            continue;
        f->frame = (uint32_t)rows;
        rows += (uint64_t)f->rows * (f->calls_recursively ? EMU_CALL_DEPTH : 1);
    }
    m->frame_rows = (uint32_t)rows;
    return rows <= MOST_ROWS || decode_refuse(&l->d, "the functions need more than %d registers", MOST_ROWS);
}

static bool build(struct loader *l)
{
    struct emu_module *m = l->module;
    m->globals = (struct emu_global *)decode_alloc(&l->d, global_variables(m->text), sizeof *m->globals);
    if (l->d.failed || !make_functions(l) || !find_calls(l) || !place_all(l, PTX_GLOBAL) ||
        !place_all(l, PTX_SHARED))
        return false;
    for (unsigned int i = 0; i < m->text->variable_count; i++)
        if (m->text->variables[i]->relocation_count && !relocate(l, m->text->variables[i]))
            return false;
    for (uint32_t i = 0; i < m->function_count;
         i++) { /* all formals before any body, because calls need them */
        struct emu_function *f = &m->functions[i];
        f->shared_static = f->shared_bytes - l->settings->shared_reserved;
        f->shared_bytes = (uint32_t)align_up(f->shared_bytes, f->shared_align);
        if (f->text->is_entry && f->shared_static > l->settings->shared_default)
            return refuse(l, &f->text->place, "more than 48 KiB of static shared memory in", f->name);
    }
    for (uint32_t i = 0; i < m->function_count; i++)
        if (!decode_one(l, &m->functions[i]))
            return false;
    if (l->d.errors->count > 0 || !place_frames(l))
        return false;
    m->constants = decode_build_constants(l->d.state);
    m->constant_rows = l->d.state->constants.row_count;
    return m->constants != NULL || decode_no_memory(&l->d);
}

static struct emu_module *new_module(const char *text, size_t bytes, unsigned int *result,
                                     struct ptx_errors *errors)
{
    struct emu_module *m = (struct emu_module *)calloc(1, sizeof *m);
    *result = 2;
    if (m == NULL || (m->memory = ptx_memory_new()) == NULL) {
        free(m);
        ptx_errors_add(errors, ptx_no_memory_text);
        return NULL;
    }
    *result = 218;
    m->text = ptx_parse_all(text, bytes, errors);
    if (m->text == NULL) {
        if (errors->cap > 0 && strcmp(errors->text, ptx_no_memory_text) == 0)
            *result = 2;
        emu_module_unload(m);
        return NULL;
    }
    return m;
}

struct emu_module *emu_module_load(const struct emu_settings *settings, const char *text, size_t bytes,
                                   bool allocate, void *context, unsigned int *result,
                                   struct ptx_errors *errors)
{
    struct loader l = {.settings = settings, .allocate = allocate, .context = context};
    l.module = new_module(text, bytes, result, errors);
    if (l.module == NULL)
        return NULL;
    l.d.partial = errors->count > 0;
    l.allocate = allocate && !l.d.partial;
    l.module->sm = settings->sm;
    l.d.module = l.module;
    l.d.sm = settings->sm;
    l.d.errors = errors;
    l.d.state = (struct decode_state *)calloc(1, sizeof *l.d.state);
    if (l.d.state == NULL)
        decode_no_memory(&l.d);
    else if (!l.d.partial && !check_target(&l))
        *result = 209;
    else if (build(&l))
        *result = 0;
    if (l.no_memory || l.d.no_memory)
        *result = 2;
    free(l.reaches);
    if (l.d.state != NULL)
        decode_free_state(l.d.state);
    if (*result == 0) {
        emu_module_renew(l.module);
        return l.module;
    }
    emu_module_unload(l.module);
    return NULL;
}

void emu_module_renew(struct emu_module *m)
{
    m->age = atomic_fetch_add(&modules, 1) + 1;
    for (uint32_t i = 0; i < m->function_count; i++) {
        m->functions[i].max_dynamic_shared = -1;
        m->functions[i].carveout = -1;
        m->functions[i].nonportable_cluster = false;
    }
}

void emu_module_unload(struct emu_module *m)
{
    if (m == NULL)
        return;
    for (uint32_t i = 0; i < m->global_count; i++)
        if (m->globals[i].address)
            emu_arena_free(m->globals[i].address);
    free(m->constants);
    if (m->text != NULL)
        ptx_free(m->text);
    ptx_memory_free(m->memory);
    free(m);
}

/* ---- what the driver asks ------------------------------------------------------------------------- */
struct emu_function *emu_module_entry(struct emu_module *module, const char *name)
{
    for (uint32_t i = 0; i < module->function_count; i++) {
        struct emu_function *f = &module->functions[i];
        if (f->text->is_entry && f->text->has_body && strcmp(f->name, name) == 0)
            return f;
    }
    return NULL;
}

const struct emu_global *emu_module_global(const struct emu_module *module, const char *name)
{
    for (uint32_t i = 0; i < module->global_count; i++)
        if (strcmp(module->globals[i].name, name) == 0)
            return &module->globals[i];
    return NULL;
}
