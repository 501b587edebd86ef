/* offline.h - a handle that plans for a target and needs no GPU. */
#ifndef OFFLINE_H
#define OFFLINE_H
#include "loader/loader.h"
#include "unit.h"

static inline ptxpack *open_offline(const char *arch)
{
    ptxpack              *handle;
    const ptxpack_options options = {.size = sizeof options, .offline = true, .arch = arch, .no_cache = true};
    if (ptxpack_open(&options, &handle) != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(NULL));
    return handle;
}
#endif
