/* spare.c - the modules that are kept: a few, of which the oldest one goes first. */
#include "spare.h"
#define XXH_INLINE_ALL
#include <xxhash.h>
#include <pthread.h>
#include <string.h>
#include "tools/emu/decode/module.h"

enum { SPARES = 8 };

static pthread_mutex_t    lock = PTHREAD_MUTEX_INITIALIZER;
static struct emu_module *spares[SPARES]; /* the newest one first; NULL: none */

static struct emu_source source_of(const struct emu_settings *s, const char *text, size_t bytes)
{
    const XXH128_hash_t digest = XXH3_128bits(text, bytes);
    return (struct emu_source){{digest.high64, digest.low64}, bytes, s->shared_reserved, s->shared_default};
}

static bool is_same(const struct emu_source *a, const struct emu_source *b)
{
    return a->digest[0] == b->digest[0] && a->digest[1] == b->digest[1] && a->bytes == b->bytes &&
           a->shared_reserved == b->shared_reserved && a->shared_default == b->shared_default;
}

struct emu_module *spare_take(const struct emu_settings *settings, const char *text, size_t bytes)
{
    const struct emu_source source = source_of(settings, text, bytes);
    struct emu_module      *found = NULL;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < SPARES && found == NULL; i++)
        if (spares[i] != NULL && spares[i]->sm == settings->sm && is_same(&spares[i]->source, &source)) {
            found = spares[i];
            memmove(&spares[i], &spares[i + 1], (size_t)(SPARES - 1 - i) * sizeof spares[0]);
            spares[SPARES - 1] = NULL;
        }
    pthread_mutex_unlock(&lock);
    if (found != NULL)
        emu_module_renew(found);
    return found;
}

void spare_note(struct emu_module *m, const struct emu_settings *settings, const char *text, size_t bytes)
{
    if (m->global_count == 0)
        m->source = source_of(settings, text, bytes);
}

void spare_give(struct emu_module *m)
{
    struct emu_module *goes = m;
    if (m != NULL && m->source.bytes != 0) {
        pthread_mutex_lock(&lock);
        goes = spares[SPARES - 1];
        memmove(&spares[1], &spares[0], (SPARES - 1) * sizeof spares[0]);
        spares[0] = m;
        pthread_mutex_unlock(&lock);
    }
    emu_module_unload(goes);
}
