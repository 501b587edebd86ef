/* builds.c - every build that plans ask for, made from descriptors as plans make them. */
#include "builds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/attention/kernel.h"
#include "host/gemm/kernel.h"
#include "host/vector/plan.h"

/* ---- a walk that shows nothing twice ------------------------------------------------------------ */
typedef struct walk {
    const ptxpack_variant *row;
    ptxpack_build_visitor  visit;
    void                  *context;
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

/* Descriptors that differ may ask for one build: a kernel without PADDED takes a smaller head_dim as its
 * own. */
static bool show(walk *w, const ptxpack_instance *build)
{
    if (build->symbol_count == 0)
        return false; /* the line is set */
    for (size_t i = 0; i < w->count; i++)
        if (same_symbols(&w->seen[i], build))
            return true;
    if (w->count == w->capacity) {
        size_t            capacity = w->capacity != 0 ? 2 * w->capacity : 16;
        ptxpack_instance *larger = (ptxpack_instance *)realloc(w->seen, capacity * sizeof *larger);
        if (larger == NULL)
            return ptxpack_fail(NULL, PTXPACK_E_MEMORY, "no memory for the builds of %s", w->row->id), false;
        w->seen = larger;
        w->capacity = capacity;
    }
    w->seen[w->count++] = *build;
    return w->visit(build, w->context);
}

static bool has_type(const ptxpack_variant *row, ptxpack_dtype dtype)
{
    if (ptxpack_variant_parameter(row, "FP8", 0) != 0)
        return dtype == PTXPACK_E4M3;
    return dtype == PTXPACK_F16 || (dtype == PTXPACK_BF16 && (row->flags & PTXPACK_VARIANT_NO_BF16) == 0);
}

static const ptxpack_dtype types[] = {PTXPACK_F16, PTXPACK_BF16, PTXPACK_E4M3};
enum { TYPES = sizeof types / sizeof types[0] };

/* ---- attention ---------------------------------------------------------------------------------- */
static const struct {
    const char  *name;
    ptxpack_mask mask;
    int32_t      left, right;
} masks[] = {
    {"full", PTXPACK_MASK_NONE, 0, 0},
    {"causal", PTXPACK_MASK_CAUSAL_TOP_LEFT, 0, 0},
    {"window", PTXPACK_MASK_WINDOW_TOP_LEFT, 1, 1},
    {"left", PTXPACK_MASK_WINDOW_TOP_LEFT, 1, -1}, /* a window without a limit on the right */
};
enum { MASKS = sizeof masks / sizeof masks[0] };

static bool show_attention(walk *w, ptxpack_dtype dtype, size_t mask, bool softcap, bool padded)
{
    char               line[ATTENTION_LINE];
    attention_geometry geometry;
    ptxpack_instance   build = {.symbol_count = 0};
    int32_t            unit = 16 / (int32_t)ptxpack_dtype_bytes(dtype);
    int32_t            whole = (int32_t)ptxpack_variant_parameter(w->row, "HEAD_DIM", 0);
    /* clang-format off */
    const ptxpack_attention_desc desc = {
        .size = sizeof desc, .dtype = dtype, .batch = 1, .seqlen_q = 1024, .seqlen_kv = 1024, .heads_q = 1,
        .heads_kv = 1, .head_dim = padded ? whole - unit : whole, .mask = masks[mask].mask,
        .window_left = masks[mask].left, .window_right = masks[mask].right, .softcap = softcap ? 1 : 0,
    };
    /* clang-format on */
    if (ptxpack_attention_resolve(&desc, &geometry, line) != PTXPACK_OK)
        return ptxpack_fail(NULL, PTXPACK_E_UNSUPPORTED, "kernels.def, row %s: %s", w->row->id, line), false;
    snprintf(build.name, sizeof build.name, "%s %s%s%s", ptxpack_dtype_name(dtype), masks[mask].name,
             softcap ? " softcap" : "", padded ? " padded" : "");
    build.symbol_count = attention_kernel_of(w->row)->symbols(w->row, &desc, &geometry, build.symbols);
    return show(w, &build);
}

static bool walk_attention(walk *w)
{
    for (size_t t = 0; t < TYPES; t++)
        for (unsigned i = 0; i < MASKS * 4 && has_type(w->row, types[t]); i++)
            if (!show_attention(w, types[t], i / 4, (i & 1) != 0, (i & 2) != 0))
                return false;
    return true;
}

/* ---- gemm --------------------------------------------------------------------------------------- */
static bool show_gemm(walk *w, const gemm_build *build)
{
    static const char *const activations[] = {"", " relu", " gelu", " silu"};
    ptxpack_instance         out = {.symbol_count = 0};
    snprintf(out.name, sizeof out.name, "%s %c%c%s%s%s%s", ptxpack_dtype_name(build->dtype),
             build->a_column ? 'c' : 'r', build->b_column ? 'c' : 'r', build->has_c ? " + C" : "",
             build->has_bias ? " + bias" : "", activations[build->activation], build->ragged ? " ragged" : "");
    out.symbol_count = gemm_kernel_of(w->row)->symbols(w->row, *build, out.symbols);
    return show(w, &out);
}

static bool walk_gemm(walk *w)
{
    for (size_t t = 0; t < TYPES; t++)
        for (unsigned i = 0; i < 128 && has_type(w->row, types[t]); i++) {
            const gemm_build build = {.dtype = types[t],
                                      .a_column = (i & 1) != 0,
                                      .b_column = (i & 2) != 0,
                                      .has_c = (i & 4) != 0,
                                      .has_bias = (i & 8) != 0,
                                      .activation = (ptxpack_activation)(i >> 4 & 3),
                                      .ragged = i >> 6 != 0};
            if (!show_gemm(w, &build))
                return false;
        }
    return true;
}

/* ---- vector_add --------------------------------------------------------------------------------- */
static bool walk_vector(walk *w)
{
    const ptxpack_tiled_copy layout = ptxpack_vector_layout(w->row);
    for (size_t t = 0; t < TYPES; t++) {
        ptxpack_instance build = {.symbol_count = 0};
        if (!has_type(w->row, types[t]))
            continue;
        snprintf(build.name, sizeof build.name, "%s", ptxpack_dtype_name(types[t]));
        build.symbol_count = ptxpack_vector_symbols(&layout, types[t], build.symbols);
        if (!show(w, &build))
            return false;
    }
    return true;
}

/* ---- all of them -------------------------------------------------------------------------------- */
bool ptxpack_builds(const ptxpack_variant *row, ptxpack_build_visitor visit, void *context)
{
    walk w = {.row = row, .visit = visit, .context = context};
    bool whole = false;
    if (strcmp(row->op, "attention") == 0)
        whole = walk_attention(&w);
    else if (strcmp(row->op, "gemm") == 0)
        whole = walk_gemm(&w);
    else if (strcmp(row->op, "vector_add") == 0)
        whole = walk_vector(&w);
    else
        ptxpack_fail(NULL, PTXPACK_E_UNSUPPORTED, "%s: no plan is for the operation %s", row->id, row->op);
    free(w.seen);
    return whole;
}

/* An ordered kernel takes, of its rows with one HEAD_DIM, the first that runs; vector_add the first of all.
 * The others are chosen by cost. */
bool ptxpack_may_be_chosen(const ptxpack_variant *row, const ptxpack_device_caps *caps)
{
    char                   why[256];
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    bool                   attention = strcmp(row->op, "attention") == 0;
    int64_t                head_dim = ptxpack_variant_parameter(row, "HEAD_DIM", 0);
    if (ptxpack_variant_refusal(row, caps, why, sizeof why) != NULL)
        return false;
    if (attention ? !attention_kernel_of(row)->ordered : strcmp(row->op, "vector_add") != 0)
        return true;
    for (const ptxpack_variant *other = rows; other < rows + count && other != row; other++)
        if (strcmp(other->file, row->file) == 0 &&
            ptxpack_variant_parameter(other, "HEAD_DIM", 0) == head_dim &&
            ptxpack_variant_refusal(other, caps, why, sizeof why) == NULL)
            return false;
    return true;
}
