/* profile.c - counters of all launches since the profile was started. */
#include "profile.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include "tools/emu/emu_api.h"
#include "grid.h"

/* A description of an op; `own`: it belongs to the kernel's module. */
struct row {
    char          *file, *text;
    uint32_t       line, ptx_line;
    enum emu_class class_;
    bool           own;
};

/* The sums of one kernel. */
struct kernel {
    struct kernel           *next;
    char                    *name;
    const struct emu_module *module; /* for comparison only: it may have been freed */
    uint64_t                 age;    /* of the module, because addresses are reused */
    uint32_t                 op_count, role_count;
    struct row              *ops;
    struct emu_count        *counts; /* [role][op] */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool     counting;
static atomic_ullong   executed_lanes;
static struct kernel  *kernels, **last = &kernels;

static const char *const class_names[] = {
#define NAME(name) #name,
    EMU_CLASS_MAP(NAME)
#undef NAME
};

static void free_kernel(struct kernel *k)
{
    for (uint32_t i = 0; k->ops != NULL && i < k->op_count; i++) {
        free(k->ops[i].file);
        free(k->ops[i].text);
    }
    free(k->ops);
    free(k->counts);
    free(k->name);
    free(k);
}

static void forget(void)
{
    while (kernels != NULL) {
        struct kernel *k = kernels;
        kernels = k->next;
        free_kernel(k);
    }
    last = &kernels;
}

static bool describe(struct row *row, const struct emu_module *m, const struct emu_op *op)
{
    char                    text[160];
    const struct ptx_place *place = &op->text->place;
    row->own = true;
    row->class_ = (enum emu_class)op->class_;
    row->ptx_line = place->line;
    row->line = place->file ? place->file_line : place->line;
    row->text = strdup(ptx_instruction_text(op->text, text, sizeof text));
    if (place->file && place->file < m->text->file_count && m->text->files[place->file] != NULL)
        row->file = strdup(m->text->files[place->file]);
    return row->text != NULL;
}

static struct kernel *new_kernel(const struct emu_grid *g)
{
    const struct emu_module *m = g->module;
    struct kernel           *k = (struct kernel *)calloc(1, sizeof *k);
    if (k == NULL)
        return NULL;
    k->module = m;
    k->age = m->age;
    k->op_count = m->op_count;
    k->role_count = g->role_count;
    k->name = strdup(g->entry->name);
    k->ops = (struct row *)calloc(m->op_count + 1u, sizeof *k->ops);
    k->counts = (struct emu_count *)calloc((size_t)m->op_count * g->role_count + 1, sizeof *k->counts);
    bool made = k->name != NULL && k->ops != NULL && k->counts != NULL;
    for (uint32_t f = 0; made && f < m->function_count; f++)
        for (uint32_t i = 0; made && i < m->functions[f].code_count; i++)
            made = describe(&k->ops[m->functions[f].code[i].number], m, &m->functions[f].code[i]);
    if (made)
        return k;
    free_kernel(k);
    return NULL;
}

/* With the lock held. */
static struct kernel *find_kernel(const struct emu_grid *g)
{
    for (struct kernel *k = kernels; k != NULL; k = k->next)
        if (k->module == g->module && k->age == g->module->age && k->role_count == g->role_count &&
            strcmp(k->name, g->entry->name) == 0)
            return k;
    struct kernel *k = new_kernel(g);
    if (k != NULL) {
        *last = k;
        last = &k->next;
    }
    return k;
}

struct emu_count *emu_profile_begin(const struct emu_grid *g)
{
    if (!atomic_load(&counting))
        return NULL;
    return (struct emu_count *)calloc((size_t)g->module->op_count * g->role_count + 1,
                                      sizeof(struct emu_count));
}

void emu_profile_end(const struct emu_grid *g, struct emu_count *counts)
{
    if (counts == NULL)
        return;
    pthread_mutex_lock(&lock);
    struct kernel *k = atomic_load(&counting) ? find_kernel(g) : NULL;
    for (size_t i = 0; k != NULL && i < (size_t)k->op_count * k->role_count; i++) {
        struct emu_count *sum = &k->counts[i];
        sum->warps += counts[i].warps;
        sum->lanes += counts[i].lanes;
        sum->bytes += counts[i].bytes;
        sum->transactions += counts[i].transactions;
        sum->conflicts += counts[i].conflicts;
        sum->tensor_ops += counts[i].tensor_ops;
    }
    pthread_mutex_unlock(&lock);
    free(counts);
}

void emu_profile_executed(uint64_t lanes) { atomic_fetch_add(&executed_lanes, lanes); }

/* ---- what is exported ----------------------------------------------------------------------------- */
void ptxpack_emu_profile_start(void)
{
    pthread_mutex_lock(&lock);
    forget();
    atomic_store(&counting, true);
    pthread_mutex_unlock(&lock);
}

void ptxpack_emu_profile_stop(void) { atomic_store(&counting, false); }

static void visit_op(const struct kernel *k, uint32_t op, ptxpack_emu_visit *visit, void *context)
{
    const struct row *row = &k->ops[op];
    for (uint32_t role = 0; role < k->role_count; role++) {
        const struct emu_count *c = &k->counts[(size_t)role * k->op_count + op];
        struct ptxpack_emu_row  out = {.kernel = k->name,
                                       .file = row->file,
                                       .line = row->line,
                                       .ptx_line = row->ptx_line,
                                       .role = role,
                                       .instruction = row->text,
                                       .kind = class_names[row->class_],
                                       .warps = c->warps,
                                       .lanes = c->lanes,
                                       .bytes = c->bytes,
                                       .transactions = c->transactions,
                                       .conflicts = c->conflicts,
                                       .tensor_ops = c->tensor_ops};
        if (c->warps)
            visit(context, &out);
    }
}

void ptxpack_emu_profile_read(ptxpack_emu_visit *visit, void *context)
{
    pthread_mutex_lock(&lock);
    for (const struct kernel *k = kernels; k != NULL; k = k->next)
        for (uint32_t op = 0; op < k->op_count; op++)
            if (k->ops[op].own)
                visit_op(k, op, visit, context);
    pthread_mutex_unlock(&lock);
}

unsigned int ptxpack_emu_findings(void) { return emu_findings(); }
uint64_t     ptxpack_emu_executed(void) { return atomic_load(&executed_lanes); }
