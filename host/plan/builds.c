/* builds.c - the one list of builds, made from descriptors in the way that plans are. */
#include "builds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan.h"

static const ptxpack_dtype types[] = {PTXPACK_F16, PTXPACK_BF16, PTXPACK_E4M3};
enum { TYPES = sizeof types / sizeof types[0] };

/* False, with a line in ptxpack_detail(NULL), when the row cannot be built. */
static bool make_build(const ptxpack_variant *row, ptxpack_dtype dtype, unsigned index, bool corner,
                       ptxpack_instance *out)
{
    const plan_op *op = plan_op_of(row);
    plan_room      desc, geometry;
    plan_problem   problem;
    char           line[PLAN_LINE], name[sizeof out->name - 8] = "";
    op->build(row, dtype, index, corner, &desc, name, sizeof name);
    snprintf(out->name, sizeof out->name, "%s%s", ptxpack_dtype_name(dtype), name);
    out->symbol_count = 0;
    if (plan_resolve(op, NULL, NULL, &desc, &geometry, &problem, line) != PTXPACK_OK)
        return ptxpack_fail(NULL, PTXPACK_E_UNSUPPORTED, "kernels.def, row %s: %s", row->id, line), false;
    out->symbol_count = plan_symbols(&problem, row, out->symbols);
    return out->symbol_count > 0;
}

/* ---- all of them -------------------------------------------------------------------------------- */
typedef struct walk {
    const ptxpack_variant *row;
    ptxpack_instance      *seen;
    size_t                 count, capacity;
} walk;

static bool same_symbols(const ptxpack_instance *a, const ptxpack_instance *b)
{
    bool same = a->symbol_count == b->symbol_count;
    for (size_t i = 0; i < a->symbol_count && same; i++)
        same = a->symbols[i].value == b->symbols[i].value &&
               strcmp(a->symbols[i].name, b->symbols[i].name) == 0;
    return same;
}

/* Descriptors that differ may ask for the same build: a kernel without PADDED treats a smaller head_dim as its
 * own. */
static bool was_seen(const walk *w, const ptxpack_instance *build)
{
    for (size_t i = 0; i < w->count; i++)
        if (same_symbols(&w->seen[i], build))
            return true;
    return false;
}

static bool remember(walk *w, const ptxpack_instance *build)
{
    if (w->count == w->capacity) {
        size_t            capacity = w->capacity != 0 ? 2 * w->capacity : 16;
        ptxpack_instance *larger = (ptxpack_instance *)realloc(w->seen, capacity * sizeof *larger);
        if (larger == NULL)
            return ptxpack_fail(NULL, PTXPACK_E_MEMORY, "no memory for the builds of %s", w->row->id), false;
        w->seen = larger;
        w->capacity = capacity;
    }
    w->seen[w->count++] = *build;
    return true;
}

bool ptxpack_builds(const ptxpack_variant *row, ptxpack_build_visitor visit, void *context)
{
    const plan_op *op = plan_op_of(row);
    walk           w = {.row = row};
    bool           whole = true;
    if (op == NULL || plan_method_of(row) == NULL)
        return ptxpack_fail(NULL, PTXPACK_E_UNSUPPORTED, "%s: no plan is for the operation %s", row->id,
                            row->op),
               false;
    for (size_t t = 0; t < TYPES; t++)
        for (unsigned i = 0; i < op->builds && plan_row_takes(row, types[t]) && whole; i++) {
            ptxpack_instance build;
            whole = make_build(row, types[t], i, false, &build) &&
                    (was_seen(&w, &build) || (remember(&w, &build) && visit(&build, context)));
        }
    free(w.seen);
    return whole;
}

/* An ordered method takes, of its rows with one HEAD_DIM and for the same types of keys, the first that runs. */
bool ptxpack_may_be_chosen(const ptxpack_variant *row, const ptxpack_device_caps *caps)
{
    char                   why[PLAN_LINE];
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    const plan_method     *method = plan_method_of(row);
    int64_t                head_dim = ptxpack_variant_parameter(row, "HEAD_DIM", 0);
    if (ptxpack_variant_refusal(row, caps, why, sizeof why) != NULL)
        return false;
    if (method == NULL || !method->ordered)
        return true;
    for (const ptxpack_variant *other = rows; other < rows + count && other != row; other++)
        if (plan_method_of(other) == method && ptxpack_variant_parameter(other, "HEAD_DIM", 0) == head_dim &&
            ptxpack_variant_parameter(other, "KV_BYTES", 2) == ptxpack_variant_parameter(row, "KV_BYTES", 2) &&
            ptxpack_variant_refusal(other, caps, why, sizeof why) == NULL)
            return false;
    return true;
}

/* ---- the corners -------------------------------------------------------------------------------- */
static size_t corners_of(const plan_method *method, const ptxpack_variant *row)
{
    return method->corners_of != NULL ? method->corners_of(row) : method->corner_count;
}

size_t ptxpack_instance_count(const ptxpack_variant *row)
{
    if (row == NULL)
        return 0;
    const plan_method *method = plan_method_of(row);
    size_t             count = 0;
    for (size_t t = 0; t < TYPES && method != NULL; t++)
        count += plan_row_takes(row, types[t]) ? corners_of(method, row) : 0;
    return count;
}

ptxpack_instance ptxpack_instance_get(const ptxpack_variant *row, size_t index)
{
    if (row == NULL)
        return (ptxpack_instance){.symbol_count = 0};
    const plan_method *method = plan_method_of(row);
    ptxpack_instance   instance = {.symbol_count = 0};
    for (size_t t = 0; t < TYPES && method != NULL; t++) {
        if (!plan_row_takes(row, types[t]))
            continue;
        if (index < corners_of(method, row)) { /* what is wrong with a row, its plan reports */
            make_build(row, types[t], method->corners[index], true, &instance);
            break;
        }
        index -= corners_of(method, row);
    }
    return instance;
}
