/* attention_devices.c - ptxpack attention --devices N. */
#include "attention_devices.h"

#include <stdlib.h>
#include <string.h>

#include "tools/command.h"
#include "tools/problem/sharded.h"

/* A handle of each device, with the driver of `gpu`; returns how many were opened. */
static int64_t open_handles(device *gpu, ptxpack **handles, int64_t devices)
{
    ptxpack_options options = {.size = sizeof options, .driver = ptxpack_driver_path(gpu->driver)};
    int64_t         opened = 0;
    if (gpu->emulated)
        options.ptxjit = options.driver;
    gpu->driver->cuCtxSetCurrent(NULL); /* a context that is current would be the handle's */
    for (; opened < devices; opened++) {
        options.device = (int32_t)opened;
        if (ptxpack_open(&options, &handles[opened]) != PTXPACK_OK) {
            command_fail("attention", "--devices: %s", ptxpack_detail(NULL));
            break;
        }
    }
    gpu->driver->cuCtxSetCurrent(gpu->context);
    return opened;
}

static int run(attention_problem *p, ptxpack_parallel_group *group, ptxpack *const *handles, const char *way)
{
    const ptxpack_attention_parallel_desc desc = {.size = sizeof desc,
                                                  .attention = &p->desc,
                                                  .shards = PTXPACK_SHARDS_ZIGZAG,
                                                  .way = sharded_way_of(way)};
    sharded                               s;
    bool                                  ok = sharded_open(&s, group, handles, &desc);
    const bool                            made = ok;
    ok = ok &&
         sharded_upload(&s, (const void *const *)p->tensor, (const float *)p->arrays.array[ARRAY_SINKS],
                        (const float *)p->arrays.array[ARRAY_SLOPES]) &&
         sharded_launch(&s) && sharded_wait(&s);
    double started = now_ms();
    ok = ok && sharded_launch(&s) && sharded_wait(&s); /* the first one loads */
    p->ms = now_ms() - started;
    p->repeat = 1;
    ok = ok && sharded_download(&s, (uint16_t *)p->tensor[TENSOR_O], p->lse);
    if (!ok)
        command_fail("attention", "--devices: %s", s.line);
    sharded_close(&s);
    return ok ? COMMAND_OK : made ? COMMAND_FAILED : COMMAND_USAGE;
}

int attention_on_devices(attention_problem *p, device *gpu, int64_t devices, const char *way)
{
    enum { MOST = 64 };
    ptxpack                *handles[MOST];
    ptxpack_parallel_group *group = NULL;
    if (devices < 1 || devices > MOST)
        return command_fail("attention", "--devices: %lld is not between 1 and %d", (long long)devices,
                            (int)MOST),
               COMMAND_USAGE;
    if (sharded_way_of(way) == PTXPACK_PARALLEL_BEST && strcmp(way, "best") != 0)
        return command_fail("attention", "--way: \"%s\" is none of gather, steps, heads and arrive", way),
               COMMAND_USAGE;
    int64_t opened = open_handles(gpu, handles, devices);
    int     status = opened == devices ? COMMAND_OK : COMMAND_FAILED;
    p->emulated = gpu->emulated;
    if (status == COMMAND_OK && ptxpack_parallel_devices(handles, (int32_t)devices, &group) != PTXPACK_OK)
        status = command_fail("attention", "--devices: %s", ptxpack_detail(handles[0]));
    if (status == COMMAND_OK)
        status = run(p, group, handles, way);
    ptxpack_parallel_free(group);
    while (opened > 0)
        ptxpack_close(handles[--opened]);
    return status;
}
