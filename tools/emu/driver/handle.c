/* handle.c - the table of live objects. */
#include <stdlib.h>
#include "api.h"

enum { BUCKETS = 4096 };
static struct api_handle *table[BUCKETS];
static uint64_t           last_id;

static struct api_handle **bucket_of(const void *at)
{
    uint64_t h = (uint64_t)(uintptr_t)at * 0x9e3779b97f4a7c15ull;
    return &table[h >> 52];
}

void *api_handle_new(enum api_kind kind, size_t bytes, struct api_context *context, struct api_handle *owner,
                     void (*release)(struct api_handle *))
{
    struct api_handle *h = (struct api_handle *)calloc(1, bytes);
    if (h == NULL)
        return NULL;
    struct api_handle **bucket = bucket_of(h);
    h->kind = kind;
    h->id = ++last_id;
    h->context = context;
    h->owner = owner;
    h->release = release;
    h->next = *bucket;
    *bucket = h;
    return h;
}

void *api_handle_get(enum api_kind kind, const void *handle)
{
    struct api_handle *h = *bucket_of(handle);
    while (h != NULL && h != handle)
        h = h->next;
    return h != NULL && h->kind == kind ? h : NULL;
}

void *api_handle_same(enum api_kind kind, const void *handle, uint64_t id)
{
    struct api_handle *h = (struct api_handle *)api_handle_get(kind, handle);
    return h != NULL && h->id == id ? h : NULL;
}

struct api_handle *api_handle_next(enum api_kind kind, const struct api_handle *after)
{
    size_t             bucket = after != NULL ? (size_t)(bucket_of(after) - table) : 0;
    struct api_handle *h = after != NULL ? after->next : table[0];
    for (;; h = h->next) {
        while (h == NULL && ++bucket < BUCKETS)
            h = table[bucket];
        if (h == NULL || h->kind == kind)
            return h;
    }
}

static void unlink_one(struct api_handle *handle)
{
    struct api_handle **at = bucket_of(handle);
    while (*at != handle)
        at = &(*at)->next;
    *at = handle->next;
}

/* Remove all objects for which `goes` is true, then release them.  A release must not use any other object. */
static void sweep(bool (*goes)(const struct api_handle *, const void *), const void *what)
{
    struct api_handle *gone = NULL;
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct api_handle **at = &table[i]; *at;) {
            struct api_handle *h = *at;
            if (!goes(h, what)) {
                at = &h->next;
                continue;
            }
            *at = h->next;
            h->next = gone;
            gone = h;
        }
    while (gone != NULL) {
        struct api_handle *h = gone;
        gone = h->next;
        if (h->release != NULL)
            h->release(h);
        free(h);
    }
}

/* Owners are at most two levels deep: a function of a module of a library. */
static bool is_owned(const struct api_handle *h, const void *what)
{
    return h == what || h->owner == what || (h->owner != NULL && h->owner->owner == what);
}

static bool is_of_context(const struct api_handle *h, const void *what)
{
    return h->context == what && h->kind != API_KIND_CONTEXT;
}

static bool is_owner_kind(enum api_kind kind)
{
    return kind == API_KIND_MODULE || kind == API_KIND_LIBRARY || kind == API_KIND_GRAPH;
}

void api_handle_delete(struct api_handle *handle)
{
    if (is_owner_kind(handle->kind)) {
        sweep(is_owned, handle);
        return;
    }
    unlink_one(handle);
    if (handle->release != NULL)
        handle->release(handle);
    free(handle);
}

void api_handle_delete_context(const struct api_context *context) { sweep(is_of_context, context); }
