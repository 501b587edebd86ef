/* source.c - the text of a kernel: expanded from the pack, or as an earlier run expanded it.
 *
 * Expanding takes some milliseconds, looking up machine code a fraction of one.  So the cache keeps the text
 * as well, under all that it depends on: the row, the symbols, and the build of this library, which contains
 * both the expander and the embedded pack.  Texts from a folder (PTXPACK_PTX_DIR) are always expanded. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "loader/internal.h"
#include "loader/pack.h"

enum { SCHEMA = 1 }; /* of the key of kept texts */

/* The symbols that a file sees: the row's columns, the row's own parameters, the caller's. */
static ptxpack_symbol *gather_symbols(const ptxpack_variant *v, const ptxpack_symbol *symbols, size_t count,
                                      size_t *total)
{
    const ptxpack_symbol columns[] = {{"ARCH", v->arch},
                                      {"ISA", v->isa},
                                      {"THREADS", v->threads},
                                      {"BLOCKS_PER_SM", v->blocks_per_sm}};
    const size_t         fixed = sizeof columns / sizeof columns[0], own = (size_t)v->parameter_count;
    if (count > SIZE_MAX / sizeof *symbols - own - fixed)
        return NULL;
    *total = fixed + own + count;
    ptxpack_symbol *all = (ptxpack_symbol *)malloc(*total * sizeof *all);
    if (all == NULL)
        return NULL;
    memcpy(all, columns, sizeof columns);
    memcpy(all + fixed, v->parameters, own * sizeof *all);
    if (count)
        memcpy(all + fixed + own, symbols, count * sizeof *all);
    return all;
}

ptxpack_status ptxpack_kernel_expand(ptxpack *h, const ptxpack_variant *v, const ptxpack_symbol *symbols,
                                     size_t count, ptxpack_expansion **out)
{
    struct ptxpack_pack    pack = {h->ptx_dir, NULL};
    ptxpack_expand_options options = {.size = sizeof options, .read = ptxpack_pack_read, .context = &pack};
    *out = NULL;
    ptxpack_symbol *all = gather_symbols(v, symbols, count, &options.symbol_count);
    if (all == NULL)
        return ptxpack_fail(h, PTXPACK_E_MEMORY, "out of memory for the symbols of %s", v->id);
    options.symbols = all;
    options.line_info = h->line_info;
    ptxpack_status status = ptxpack_expand(v->file, &options, out);
    free(all);
    ptxpack_pack_free(&pack);
    if (status == PTXPACK_OK)
        return status;
    ptxpack_fail(h, status, "%s", *out != NULL ? ptxpack_expansion_error(*out) : ptxpack_status_string(status));
    ptxpack_expansion_free(*out);
    *out = NULL;
    return status;
}

void ptxpack_text_add_fields(ptxpack_cache_key *key, const ptxpack *h, const ptxpack_variant *v,
                             const ptxpack_symbol *symbols, size_t count)
{
    size_t          total = 0;
    ptxpack_symbol *all = gather_symbols(v, symbols, count, &total);
    if (all == NULL)
        ptxpack_cache_key_poison(key, "memory is out");
    ptxpack_cache_key_add_text(key, "file", v->file);
    ptxpack_cache_key_add_u64(key, "line info", h->line_info);
    for (size_t i = 0; i < total && all != NULL; i++)
        ptxpack_cache_key_add_u64(key, all[i].name, (uint64_t)all[i].value);
    free(all);
}

/* ---- texts of earlier runs ------------------------------------------------------------------------ */

/* NULL when this text is not to be kept. */
static ptxpack_cache_key *text_key(const ptxpack *h, const ptxpack_variant *v, const ptxpack_symbol *symbols,
                                   size_t count)
{
    char build[96];
    if (h->ptx_dir != NULL || !ptxpack_own_identity(build, sizeof build))
        return NULL;
    ptxpack_cache_key *key = ptxpack_cache_key_create();
    ptxpack_cache_key_add_u64(key, "text schema", SCHEMA);
    ptxpack_cache_key_add_text(key, "expander build", build);
    ptxpack_text_add_fields(key, h, v, symbols, count);
    return key;
}

void ptxpack_text_digest(const ptxpack *h, const ptxpack_variant *v, const ptxpack_symbol *symbols,
                         size_t count, char digest[33])
{
    ptxpack_cache_key *key = text_key(h, v, symbols, count);
    ptxpack_cache_key_hex(key, digest);
    ptxpack_cache_key_free(key);
}

char *ptxpack_text_recall(ptxpack *h, const ptxpack_variant *v, const ptxpack_symbol *symbols, size_t count,
                          size_t *bytes)
{
    ptxpack_cache_entry entry;
    char               *text = NULL;
    ptxpack_cache_key  *key = text_key(h, v, symbols, count);
    if (ptxpack_cache_get(h->cache, key, &entry)) {
        text = (char *)entry.payload;
        *bytes = entry.payload_bytes;
        entry.payload = NULL;
        ptxpack_cache_entry_free(&entry);
    }
    ptxpack_cache_key_free(key);
    return text;
}

void ptxpack_text_keep(ptxpack *h, const ptxpack_variant *v, const ptxpack_symbol *symbols, size_t count,
                       const char *text, size_t bytes)
{
    char               label[160];
    ptxpack_cache_key *key = text_key(h, v, symbols, count);
    snprintf(label, sizeof label, "%s, its PTX", v->id);
    if (key != NULL)
        ptxpack_cache_put(h->cache, key, label, NULL, 0, text, bytes);
    ptxpack_cache_key_free(key);
}
