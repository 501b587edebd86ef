/* handle.h - a cache in a scratch folder, opened before and closed after each test. */
#ifndef PTXPACK_TEST_CACHE_HANDLE_H
#define PTXPACK_TEST_CACHE_HANDLE_H
#include "fixture.h"

static char          *scratch, *dir;
static ptxpack_cache *cache;

static inline ptxpack_cache *open_with(ptxpack_cache_options options)
{
    options.size = sizeof options;
    options.dir = options.dir != NULL ? options.dir : dir;
    ptxpack_cache *opened = ptxpack_cache_open(&options);
    assert_non_null(opened);
    return opened;
}

static inline int set_up(void **state)
{
    (void)state;
    scratch = scratch_make();
    dir = strdup(path_in(scratch, "cache"));
    cache = open_with((ptxpack_cache_options){.max_bytes = 64 << 20});
    assert_true(ptxpack_cache_enabled(cache));
    assert_string_equal(ptxpack_cache_detail(cache), "");
    return 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    ptxpack_cache_close(cache);
    scratch_remove(scratch);
    free(dir);
    return 0;
}

static inline ptxpack_cache_key *numbered(int i)
{
    char text[32];
    snprintf(text, sizeof text, "entry %d", i);
    return key_of(text);
}

/* A visitor that notes the state of the last entry it saw. */
static inline ptxpack_cache_step note_state(const ptxpack_cache_info *info, void *user)
{
    *(ptxpack_cache_state *)user = info->state;
    return PTXPACK_CACHE_NEXT;
}
#endif
