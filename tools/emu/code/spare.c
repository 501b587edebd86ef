/* spare.c - the modules that are kept: a few, of which the oldest one goes first. */
#include "spare.h"
#include <pthread.h>
#include "tools/emu/decode/module.h"
#include "tools/emu/ptx/ptx.h"

enum { SPARES = 8 };

static pthread_mutex_t    lock = PTHREAD_MUTEX_INITIALIZER;
static struct emu_module *spares[SPARES]; /* the newest one first; NULL: none */

static bool is_of(const struct emu_module *m, const struct emu_settings *s, const char *text, size_t bytes)
{
    const struct emu_source *of = &m->source;
    return m->sm == s->sm && of->shared_reserved == s->shared_reserved &&
           of->shared_default == s->shared_default && of->bytes == bytes && memcmp(of->text, text, bytes) == 0;
}

struct emu_module *spare_take(const struct emu_settings *settings, const char *text, size_t bytes)
{
    struct emu_module *found = NULL;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < SPARES && found == NULL; i++)
        if (spares[i] != NULL && is_of(spares[i], settings, text, bytes)) {
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
    char *copy = m->global_count == 0 ? (char *)ptx_alloc(m->memory, bytes + 1, 1) : NULL;
    if (copy == NULL)
        return;
    memcpy(copy, text, bytes);
    m->source = (struct emu_source){copy, bytes, settings->shared_reserved, settings->shared_default};
}

void spare_give(struct emu_module *m)
{
    struct emu_module *goes = m;
    if (m != NULL && m->source.text != NULL) {
        pthread_mutex_lock(&lock);
        goes = spares[SPARES - 1];
        memmove(&spares[1], &spares[0], (SPARES - 1) * sizeof spares[0]);
        spares[0] = m;
        pthread_mutex_unlock(&lock);
    }
    emu_module_unload(goes);
}
