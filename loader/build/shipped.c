/* shipped.c - looking up machine code in prebuilt folders. */
#include "shipped.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "code.h"
#include "loader/compile/log.h"

enum { SCHEMA = 1 }; /* of the key and the notes of entries in prebuilt folders */

ptxpack_cache_key *ptxpack_shipped_key(const ptxpack *h, const ptxpack_variant *v,
                                       const ptxpack_symbol *symbols, size_t count, const char *target)
{
    struct ptxpack_jit_options options;
    const struct ptxpack_job   job = {.target = target, .line_info = h->line_info};
    if (h->ptx_dir != NULL)
        return NULL;
    ptxpack_jit_options(&job, &options);
    ptxpack_cache_key *key = ptxpack_cache_key_create();
    ptxpack_cache_key_add_u64(key, "prebuilt schema", SCHEMA);
    ptxpack_cache_key_add_text(key, "pack", ptxpack_pack_identity);
    ptxpack_cache_key_add_text(key, "entry", v->entry);
    ptxpack_cache_key_add_text(key, "target", target);
    for (int i = 0; i < options.count; i++)
        ptxpack_cache_key_add_text(key, "option", options.words[i]);
    ptxpack_text_add_fields(key, h, v, symbols, count);
    if (ptxpack_cache_key_poisoned(key) == NULL)
        return key;
    ptxpack_cache_key_free(key);
    return NULL;
}

/* ---- looking it up -------------------------------------------------------------------------------- */

struct lookup {
    ptxpack_cache     *cache;
    ptxpack_cache_key *key;
};

/* A ptxpack_code_maker: PTXPACK_E_PREBUILT without a line when no folder has it. */
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
        code->bytes = entry.payload;
        code->size = entry.payload_bytes;
        code->notes = (char *)entry.metadata;
        code->notes_bytes = entry.metadata_bytes;
        code->from_cache = code->from_prebuilt = true;
        code->cache_ms = ptxpack_now_ms() - from;
        entry.payload = entry.metadata = NULL;
    }
    ptxpack_cache_entry_free(&entry);
    return good ? PTXPACK_OK : PTXPACK_E_PREBUILT;
}

/* Handles may have other folders, and what they find there is theirs: the name has the manifests in it. */
static void name_it(ptxpack_cache *cache, const ptxpack_cache_key *key, char digest[33])
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

ptxpack_status ptxpack_shipped_obtain(ptxpack *h, const ptxpack_variant *v, const ptxpack_symbol *symbols,
                                      size_t count, const char *target, const struct ptxpack_code **out,
                                      char digest[33], char line[PTXPACK_DETAIL_BYTES])
{
    ptxpack_prebuilt_info any;
    struct lookup         look = {.cache = h->cache};
    *out = NULL;
    line[0] = '\0';
    if (h->ptx_dir != NULL || !ptxpack_cache_prebuilt(h->cache, 0, &any))
        return PTXPACK_OK;
    look.key = ptxpack_shipped_key(h, v, symbols, count, target);
    if (look.key != NULL)
        name_it(h->cache, look.key, digest);
    ptxpack_status status = ptxpack_code_obtain(look.key != NULL ? digest : "", fetch, &look, out, line,
                                                PTXPACK_DETAIL_BYTES);
    ptxpack_cache_key_free(look.key);
    if (status == PTXPACK_OK || status == PTXPACK_E_PREBUILT)
        return PTXPACK_OK;
    return ptxpack_fail(h, status, "%s", line);
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
