/* row.c - the target and the text of a row with its symbols, and its machine code in prebuilt folders.
 *
 * To expand a text takes some milliseconds; to look up machine code takes a fraction of one.  So the cache
 * keeps the text as well.  Its key is everything that the text depends on: the row, the symbols, and the build
 * id of this library, which contains both the expander and the embedded pack.  Texts from a folder
 * (PTXPACK_PTX_DIR) are always expanded. */
#include "row.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "loader/compile/log.h"
#include "loader/missing.h"
#include "loader/pack/pack.h"
#include "step.h"

enum { TEXT_SCHEMA = 1 };     /* the version of the key of kept texts */
enum { PREBUILT_SCHEMA = 1 }; /* the version of the key and of the notes in prebuilt folders */

/* The target is the device's own architecture, or offline the one that was named.  Rows that run on only one
 * architecture need the 'a' after it. */
ptxpack_status ptxpack_kernel_target(const ptxpack *h, const ptxpack_variant *v, char exact_target[16])
{
    const char *target = h->info.target;
    int         arch = ptxpack_parse_arch(target);
    bool        exact = (v->flags & PTXPACK_VARIANT_ARCH_SPECIFIC) != 0;
    bool        named = h->driver == NULL && target[strlen(target) - 1] == 'a';
    if (arch < v->arch || (exact && (arch != v->arch || (h->driver == NULL && !named && !h->stand_in))))
        return ptxpack_fail(h, PTXPACK_E_UNSUPPORTED, "%s needs %ssm_%d%s, the target is %s", v->id,
                            exact ? "exactly " : "", v->arch, exact ? "a" : "", target);
    snprintf(exact_target, 16, "%.14s%s", target, exact && !named ? "a" : "");
    return PTXPACK_OK;
}

/* ---- the text ------------------------------------------------------------------------------------- */

/* The symbols that a file sees: the row's columns, the row's own parameters, the caller's. */
static ptxpack_symbol *gather_symbols(const ptxpack_kernel_source *source, size_t *total)
{
    const ptxpack_variant *v = source->variant;
    const size_t           count = source->symbol_count;
    const ptxpack_symbol   columns[] = {{"ARCH", v->arch},
                                        {"ISA", v->isa},
                                        {"THREADS", v->threads},
                                        {"BLOCKS_PER_SM", v->blocks_per_sm}};
    const size_t           fixed = sizeof columns / sizeof columns[0], own = (size_t)v->parameter_count;
    if (count > SIZE_MAX / sizeof *source->symbols - own - fixed)
        return NULL;
    *total = fixed + own + count;
    ptxpack_symbol *all = (ptxpack_symbol *)malloc(*total * sizeof *all);
    if (all == NULL)
        return NULL;
    memcpy(all, columns, sizeof columns);
    memcpy(all + fixed, v->parameters, own * sizeof *all);
    if (count)
        memcpy(all + fixed + own, source->symbols, count * sizeof *all);
    return all;
}

/* Where a row's text comes from. */
struct origin {
    struct ptxpack_pack          pack;
    const ptxpack_kernel_source *source;
};

/* A ptxpack_reader. */
static const char *read_origin(void *context, const char *path, size_t *bytes)
{
    struct origin *o = (struct origin *)context;
    for (size_t i = 0; i < o->source->text_count; i++)
        if (strcmp(o->source->texts[i].name, path) == 0) {
            *bytes = strlen(o->source->texts[i].text);
            return o->source->texts[i].text;
        }
    return ptxpack_pack_read(&o->pack, path, bytes);
}

ptxpack_status ptxpack_kernel_expand(ptxpack *h, const ptxpack_variant *v, const ptxpack_symbol *symbols,
                                     size_t count, ptxpack_expansion **out)
{
    const ptxpack_kernel_source source = {.variant = v, .symbols = symbols, .symbol_count = count};
    return ptxpack_kernel_expand_source(h, &source, out);
}

ptxpack_status ptxpack_kernel_expand_source(ptxpack *h, const ptxpack_kernel_source *source,
                                            ptxpack_expansion **out)
{
    if (h == NULL)
        return PTXPACK_MISSING(NULL, "handle");
    if (out == NULL)
        return PTXPACK_MISSING(h, "out");
    *out = NULL;
    if (source->variant == NULL)
        return PTXPACK_MISSING(h, "variant");
    if (source->symbols == NULL && source->symbol_count > 0)
        return PTXPACK_MISSING(h, "symbols");
    struct origin          origin = {{h->ptx_dir, NULL}, source};
    ptxpack_expand_options options = {.size = sizeof options, .read = read_origin, .context = &origin};
    ptxpack_symbol        *all = gather_symbols(source, &options.symbol_count);
    if (all == NULL)
        return ptxpack_fail(h, PTXPACK_E_MEMORY, "out of memory for the symbols of %s", source->variant->id);
    options.symbols = all;
    options.line_info = h->line_info;
    ptxpack_status status = ptxpack_expand(source->variant->file, &options, out);
    free(all);
    ptxpack_pack_free(&origin.pack);
    if (status == PTXPACK_OK)
        return status;
    ptxpack_fail(h, status, "%s", *out != NULL ? ptxpack_expansion_error(*out) : ptxpack_status_string(status));
    ptxpack_expansion_free(*out);
    *out = NULL;
    return status;
}

/* Add everything that the text depends on, except the pack and the expander.  If memory runs out, the key is
 * poisoned. */
static void add_fields(ptxpack_cache_key *key, const ptxpack *h, const ptxpack_kernel_source *source)
{
    size_t          total = 0;
    ptxpack_symbol *all = gather_symbols(source, &total);
    if (all == NULL)
        ptxpack_cache_key_poison(key, "out of memory");
    ptxpack_cache_key_add_text(key, "file", source->variant->file);
    ptxpack_cache_key_add_u64(key, "line info", h->line_info);
    for (size_t i = 0; i < total && all != NULL; i++)
        ptxpack_cache_key_add_u64(key, all[i].name, (uint64_t)all[i].value);
    for (size_t i = 0; i < source->text_count; i++)
        ptxpack_cache_key_add_text(key, source->texts[i].name, source->texts[i].text);
    free(all);
}

/* ---- texts of earlier runs ------------------------------------------------------------------------ */

/* NULL: this text is not kept. */
static ptxpack_cache_key *text_key(const ptxpack *h, const ptxpack_kernel_source *source)
{
    char identity[96];
    if (h->ptx_dir != NULL || !ptxpack_own_identity(identity, sizeof identity))
        return NULL;
    ptxpack_cache_key *key = ptxpack_cache_key_create();
    ptxpack_cache_key_add_u64(key, "text schema", TEXT_SCHEMA);
    ptxpack_cache_key_add_text(key, "expander build", identity);
    add_fields(key, h, source);
    return key;
}

void ptxpack_row_digest(const ptxpack *h, const ptxpack_kernel_source *source, char digest[33])
{
    ptxpack_cache_key *key = text_key(h, source);
    ptxpack_cache_key_hex(key, digest);
    ptxpack_cache_key_free(key);
}

char *ptxpack_row_recall(ptxpack *h, const ptxpack_kernel_source *source, size_t *bytes)
{
    ptxpack_cache_entry entry;
    char               *text = NULL;
    ptxpack_cache_key  *key = text_key(h, source);
    if (ptxpack_cache_get(h->cache, key, &entry)) {
        text = (char *)entry.payload;
        *bytes = entry.payload_bytes;
        entry.payload = NULL;
        ptxpack_cache_entry_free(&entry);
    }
    ptxpack_cache_key_free(key);
    return text;
}

void ptxpack_row_keep(ptxpack *h, const ptxpack_kernel_source *source, const char *text, size_t bytes)
{
    char               label[160];
    ptxpack_cache_key *key = text_key(h, source);
    snprintf(label, sizeof label, "%s, its PTX", source->variant->id);
    if (key != NULL)
        ptxpack_cache_put(h->cache, key, label, NULL, 0, text, bytes);
    ptxpack_cache_key_free(key);
}

/* ---- machine code of prebuilt folders ------------------------------------------------------------- */

static ptxpack_cache_key *prebuilt_key(const ptxpack *h, const ptxpack_kernel_source *source,
                                       const char *target)
{
    struct ptxpack_jit_options options;
    const struct ptxpack_job   job = {.target = target, .line_info = h->line_info};
    if (h->ptx_dir != NULL)
        return NULL;
    ptxpack_jit_options(&job, &options);
    ptxpack_cache_key *key = ptxpack_cache_key_create();
    ptxpack_cache_key_add_u64(key, "prebuilt schema", PREBUILT_SCHEMA);
    ptxpack_cache_key_add_text(key, "pack", ptxpack_pack_identity);
    ptxpack_cache_key_add_text(key, "entry", source->variant->entry);
    ptxpack_cache_key_add_text(key, "target", target);
    for (int i = 0; i < options.count; i++)
        ptxpack_cache_key_add_text(key, "option", options.words[i]);
    add_fields(key, h, source);
    if (ptxpack_cache_key_poisoned(key) == NULL)
        return key;
    ptxpack_cache_key_free(key);
    return NULL;
}

ptxpack_cache_key *ptxpack_row_prebuilt_key(const ptxpack *h, const ptxpack_variant *v,
                                            const ptxpack_symbol *symbols, size_t count, const char *target)
{
    const ptxpack_kernel_source source = {.variant = v, .symbols = symbols, .symbol_count = count};
    return prebuilt_key(h, &source, target);
}

struct lookup {
    ptxpack_cache     *cache;
    ptxpack_cache_key *key;
};

/* A ptxpack_code_maker.  It returns PTXPACK_E_PREBUILT without a line if no folder has the entry. */
static ptxpack_status fetch(void *context, struct ptxpack_code *code, char *detail, size_t cap)
{
    const struct lookup    *look = (const struct lookup *)context;
    ptxpack_cache_entry     entry;
    ptxpack_resources       resources;
    double                  from = ptxpack_now_ms();
    ptxpack_prebuilt_result result = ptxpack_cache_get_prebuilt(look->cache, look->key, &entry);
    bool                    good = result == PTXPACK_PREBUILT_HIT &&
                ptxpack_resources_read((const char *)entry.metadata, entry.metadata_bytes, &resources);
    snprintf(detail, cap, "%s",
             result == PTXPACK_PREBUILT_BAD            ? ptxpack_cache_detail(look->cache)
             : result == PTXPACK_PREBUILT_HIT && !good ? "a prebuilt folder has an entry without its resources"
                                                       : "");
    if (good) {
        ptxpack_code_take_entry(code, &entry);
        code->from_prebuilt = true;
        code->cache_ms = ptxpack_now_ms() - from;
    }
    ptxpack_cache_entry_free(&entry);
    return good ? PTXPACK_OK : PTXPACK_E_PREBUILT;
}

/* Handles may use different folders, so the name in this process includes the manifests. */
static void make_digest(ptxpack_cache *cache, const ptxpack_cache_key *key, char digest[33])
{
    char                  hex[33];
    ptxpack_prebuilt_info folder;
    ptxpack_cache_key    *name = ptxpack_cache_key_create();
    ptxpack_cache_key_hex(key, hex);
    ptxpack_cache_key_add_text(name, "prebuilt", hex);
    for (size_t i = 0; ptxpack_cache_prebuilt(cache, i, &folder); i++) {
        ptxpack_cache_key_add_text(name, "folder", folder.path);
        ptxpack_cache_key_add_text(name, "manifest", folder.sha256);
    }
    ptxpack_cache_key_hex(name, digest);
    ptxpack_cache_key_free(name);
}

ptxpack_status ptxpack_row_prebuilt(ptxpack *h, const ptxpack_kernel_source *source, const char *target,
                                    const struct ptxpack_code **out, char digest[33],
                                    char line[PTXPACK_DETAIL_BYTES])
{
    ptxpack_prebuilt_info any;
    struct lookup         look = {.cache = h->cache};
    *out = NULL;
    line[0] = '\0';
    if (h->ptx_dir != NULL || !ptxpack_cache_prebuilt(h->cache, 0, &any))
        return PTXPACK_OK;
    look.key = prebuilt_key(h, source, target);
    if (look.key != NULL)
        make_digest(h->cache, look.key, digest);
    ptxpack_status status = ptxpack_code_obtain(look.key != NULL ? digest : "", fetch, &look, out, line,
                                                PTXPACK_DETAIL_BYTES);
    ptxpack_cache_key_free(look.key);
    if (status == PTXPACK_OK || status == PTXPACK_E_PREBUILT)
        return PTXPACK_OK;
    return ptxpack_fail(h, status, "%s", line);
}

/* ---- the compiler ---------------------------------------------------------------------------------- */

/* Compile an empty kernel of the row's PTX version for the target. */
static ptxpack_status try_target(ptxpack *h, const ptxpack_variant *v, const char *target)
{
    char                    text[160], line[PTXPACK_DETAIL_BYTES];
    struct ptxpack_compiled made;
    struct ptxpack_job      job = {.name = "an empty kernel", .isa = v->isa, .text = text, .target = target};
    snprintf(text, sizeof text,
             ".version %d.%d\n.target sm_%d%s\n.address_size 64\n.visible .entry known() { ret; }\n",
             v->isa / 10, v->isa % 10, v->arch, v->flags & PTXPACK_VARIANT_ARCH_SPECIFIC ? "a" : "");
    job.bytes = strlen(text);
    ptxpack_status status = ptxpack_jit_compile(&h->jit, h->jit.route, &job, &made, line, sizeof line);
    ptxpack_compiled_free(&made);
    return status == PTXPACK_OK
               ? status
               : ptxpack_fail(h, status,
                              "this compiler does not know %s (PyPI's nvidia-cuda-nvcc brings a newer one): %s",
                              target, line);
}

ptxpack_status ptxpack_know_target(ptxpack *h, const ptxpack_variant *v, struct ptxpack_known_targets *known)
{
    char           target[16];
    ptxpack_status status = ptxpack_kernel_target(h, v, target);
    if (status != PTXPACK_OK ||
        (h->jit.route != PTXPACK_ROUTE_PTXCOMPILER && h->jit.route != PTXPACK_ROUTE_PTXAS))
        return status;
    size_t which = target[strlen(target) - 1] == 'a';
    if (known->asked[which])
        return PTXPACK_OK;
    known->asked[which] = true;
    return try_target(h, v, target);
}

void ptxpack_compiler_name(const ptxpack *h, char *buf, size_t cap)
{
    const struct ptxpack_jit *jit = &h->jit;
    char                      identity[32]; /* "build-id " and the first digits, as git shows a commit */
    snprintf(identity, sizeof identity, "%.21s", jit->ptxcompiler.identity);
    if (jit->route == PTXPACK_ROUTE_PTXCOMPILER)
        snprintf(buf, cap, "nvPTXCompiler %u.%u%s%s%s", jit->ptxcompiler.major, jit->ptxcompiler.minor,
                 jit->ptxcompiler.identity[0] ? " (" : "", identity, jit->ptxcompiler.identity[0] ? ")" : "");
    else if (jit->route == PTXPACK_ROUTE_PTXAS)
        snprintf(buf, cap, "ptxas of CUDA %d.%d", jit->ptxas.cuda / 1000, jit->ptxas.cuda % 1000 / 10);
    else
        snprintf(buf, cap, "the driver");
}
