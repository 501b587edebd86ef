/* blocks.c - lists of blocks of keys for a problem: made by the device, counted, and left out. */
#include "blocks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/ptxpack.h"
#include "tools/command.h"

bool attention_blocks_describe(const char *subcommand, int64_t blocks, ptxpack_attention_desc *d)
{
    if (blocks == 0)
        return true;
    if (blocks < 1 || blocks > INT32_MAX)
        return command_fail(subcommand, "--blocks: %lld is not between 1 and %d", (long long)blocks, INT32_MAX),
               false;
    d->block_rows = d->block_keys = (int32_t)blocks;
    d->block_head = (d->seqlen_q - 1) / d->block_rows + 1;
    d->block_batch = d->block_head * d->heads_q;
    return true;
}

static bool count(device *gpu, const attention_geometry *g, const ptxpack_attention_buffers *b,
                  attention_list_counts *counts)
{
    const size_t   bytes = (size_t)g->array_bytes[ARRAY_BLOCK_COUNT], lists = bytes / sizeof(int32_t);
    int32_t *const of[] = {(int32_t *)malloc(bytes), (int32_t *)malloc(bytes)};
    const bool     ok = of[0] != NULL && of[1] != NULL && device_download(gpu, of[0], b->block_count, bytes) &&
                    device_download(gpu, of[1], b->full_count, bytes);
    for (size_t i = 0; i < lists && ok; i++) {
        counts->masked += of[0][i];
        counts->full += of[1][i];
    }
    counts->all = (int64_t)lists * g->lists.key_blocks;
    if (of[0] == NULL || of[1] == NULL)
        snprintf(gpu->line, sizeof gpu->line, "no memory for %zu counts", lists);
    free(of[0]);
    free(of[1]);
    return ok;
}

bool attention_blocks_make(device *gpu, const ptxpack_attention_desc *d, const attention_geometry *g,
                           const ptxpack_attention_buffers *b, attention_list_counts *counts)
{
    ptxpack_attention_blocks_plan   *plan = NULL;
    ptxpack_attention_blocks_buffers lists = {.size = sizeof lists,
                                              .block_count = b->block_count,
                                              .full_count = b->full_count,
                                              .block_list = b->block_list,
                                              .full_list = b->full_list};
    *counts = (attention_list_counts){0, 0, 0, 0};
    if (!attention_has_lists(g))
        return true;
    memcpy(lists.aux, b->aux, sizeof lists.aux);
    bool ok = device_status(gpu, ptxpack_attention_blocks_plan_create(gpu->handle, d, &plan)) &&
              device_start(gpu) && device_status(gpu, ptxpack_attention_blocks(plan, &lists, gpu->stream)) &&
              device_stop(gpu) && device_elapsed(gpu, &counts->ms) && count(gpu, g, b, counts);
    ptxpack_attention_blocks_plan_free(plan);
    return ok;
}

void attention_blocks_report(const attention_list_counts *c, const ptxpack_attention_desc *d, bool json)
{
    if (d->block_rows == 0)
        return;
    if (json) {
        json_open("blocks", '{');
        json_int("rows", d->block_rows);
        json_int("keys", d->block_keys);
        json_int("all", c->all);
        json_int("full", c->full);
        json_int("masked", c->masked);
        json_real("ms", c->ms);
        json_close();
    } else {
        printf("blocks    %lld of %lld of %d x %d are visited, %lld of them full\n",
               (long long)(c->masked + c->full), (long long)c->all, (int)d->block_rows, (int)d->block_keys,
               (long long)c->full);
    }
}

ptxpack_attention_desc attention_blocks_without(const ptxpack_attention_desc *d)
{
    ptxpack_attention_desc whole = *d;
    whole.block_rows = whole.block_keys = whole.block_width = 0;
    whole.block_batch = whole.block_head = 0;
    return whole;
}
