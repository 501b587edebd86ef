/* region.c - tensors of a case between guards. */
#include "region.h"

#include <stdlib.h>
#include <string.h>

static size_t whole(const check_region *r) { return r->bytes + 2 * (size_t)CHECK_GUARD; }

static size_t on_device(const check *c, const check_region *r)
{
    return r->read_only ? check_input_bytes(c, whole(r)) : whole(r);
}

bool check_region_make(check_region *r, size_t bytes, bool read_only)
{
    *r = (check_region){.bytes = bytes, .read_only = read_only};
    if (bytes == 0)
        return true;
    r->before = (uint8_t *)malloc(whole(r));
    r->after = (uint8_t *)malloc(whole(r));
    if (r->before == NULL || r->after == NULL)
        return false;
    memset(r->before, REGION_POISON, whole(r));
    memset(r->after, REGION_POISON, whole(r));
    return true;
}

void *check_region_fill(check_region *r) { return r->bytes != 0 ? r->before + CHECK_GUARD : NULL; }

bool check_region_upload(check *c, check_region *r)
{
    if (r->bytes == 0)
        return true;
    return (r->device != 0 || device_alloc(&c->gpu, &r->device, on_device(c, r))) &&
           device_upload(&c->gpu, r->device, r->before, on_device(c, r));
}

bool check_region_download(check *c, check_region *r)
{
    return r->bytes == 0 || device_download(&c->gpu, r->after, r->device, on_device(c, r));
}

uint64_t check_region_at(const check_region *r) { return r->bytes != 0 ? r->device + CHECK_GUARD : 0; }

bool check_region_changed(const check_region *r, const bool *may_change, int64_t *place)
{
    for (size_t i = 0; r->bytes != 0 && i < whole(r); i++) {
        bool inside = i >= CHECK_GUARD && i - CHECK_GUARD < r->bytes;
        *place = (int64_t)i - CHECK_GUARD;
        if (r->before[i] != r->after[i] && !(inside && may_change != NULL && may_change[i - CHECK_GUARD]))
            return true;
    }
    return false;
}

void check_region_free(check *c, check_region *r)
{
    device_free(&c->gpu, r->device);
    free(r->before);
    free(r->after);
}
