/* plan_mma.c - what `ptxpack plan` says of a row of attention/mma.ptx. */
#include <stdio.h>
#include <stdlib.h>

#include "host/attention/mma_layout.h"
#include "host/attention/plan.h"
#include "tools/command.h"
#include "host/layout/internal.h"
#include "plan_report.h"

static const attention_layout *layout_of(const plan_report *r) { return (const attention_layout *)r->layout; }

static ptxpack_status open_layout(plan_report *r)
{
    attention_layout       *own;
    const attention_layout *l = ptxpack_attention_layout_of(r->row, &own);
    r->layout = l;
    r->own = own;
    return l != NULL ? l->status : PTXPACK_E_MEMORY;
}

static void print_tiles(const plan_report *r)
{
    const attention_layout *l = layout_of(r);
    printf("tiles      %lld queries x %lld keys, %lld stage%s; ", (long long)l->block_m, (long long)l->block_n,
           (long long)l->stages, l->stages == 1 ? "" : "s");
    printf("%lld warps of %lld rows; %lld blocks, %d an SM\n", (long long)l->warps,
           (long long)(l->block_m / l->warps), (long long)plan_tiles(r), r->row->blocks_per_sm);
}

/* The MMA atom of the kernel that runs. */
static const char *instruction(const plan_report *r)
{
    return ptxpack_attention_instruction(layout_of(r), r->desc->dtype);
}

static void print_layouts(const plan_report *r)
{
    const attention_layout *l = layout_of(r);
    printf("\nlayouts    (row, column) -> element\n");
    printf("  Q, O     %s\n", layout_text(&l->q).text);
    printf("  K, V     %s\n", layout_text(&l->kv).text);
    printf("  MMA      %s%s, ", instruction(r), l->mma_k == 8 ? ", two for 16 k" : "");
    printf("atoms %s, ", layout_text(&l->mma.thr_layout_vmnk).text);
    printf("tile %s\n", layout_text(&l->mma.permutation_mnk).text);
    printf("\naccesses   (thread, step along rows, along columns) -> element before the swizzle\n");
    for (int id = 0; id < ACCESS_COUNT; id++) {
        const attention_access *a = &l->access[id];
        ptxpack_banks           banks = ptxpack_attention_banks(l, (attention_access_id)id);
        printf("  %-21s %2d bytes, %s: %s\n  %21s %lld bank conflicts in %lld phases\n", a->name, a->bytes,
               a->atom, layout_text(&a->offsets).text, "", (long long)banks.conflicts, (long long)banks.phases);
    }
}

static void print_place(int64_t from, int64_t bytes, const char *what)
{
    printf("  %7lld %7lld  %s", (long long)from, (long long)bytes, what);
}

static void print_shared(const plan_report *r)
{
    const attention_layout *l = layout_of(r);
    printf("\nshared memory, bytes\n  %7s %7s\n", "from", "bytes");
    print_place(l->smem_q, l->smem_k - l->smem_q, "Q, later O\n");
    for (int i = 0; i < l->stages; i++) {
        print_place(l->smem_k + i * l->stage_bytes, l->stage_bytes, "K");
        printf(", stage %d\n", i);
    }
    for (int i = 0; i < l->stages; i++) {
        print_place(l->smem_v + i * l->stage_bytes, l->stage_bytes, "V");
        printf(", stage %d\n", i);
    }
    printf("  %7s %7lld  a block, %lld for %d blocks\n", "", (long long)l->shared_bytes,
           (long long)(l->shared_bytes * r->row->blocks_per_sm), r->row->blocks_per_sm);
}

static void json_tiles(const plan_report *r)
{
    const attention_layout *l = layout_of(r);
    json_int("block_m", l->block_m);
    json_int("block_n", l->block_n);
    json_int("stages", l->stages);
    json_int("warps", l->warps);
    json_int("blocks", plan_tiles(r));
    json_int("blocks_per_sm", r->row->blocks_per_sm);
}

static void json_layouts(const plan_report *r)
{
    const attention_layout *l = layout_of(r);
    json_open("layouts", '{');
    plan_json_layout("q", &l->q);
    plan_json_layout("kv", &l->kv);
    json_text("atom", instruction(r));
    plan_json_layout("atoms", &l->mma.thr_layout_vmnk);
    plan_json_layout("tile", &l->mma.permutation_mnk);
    json_close();
    json_open("accesses", '[');
    for (int id = 0; id < ACCESS_COUNT; id++) {
        ptxpack_banks banks = ptxpack_attention_banks(l, (attention_access_id)id);
        json_open(NULL, '{');
        json_text("name", l->access[id].name);
        json_text("atom", l->access[id].atom);
        json_int("bytes", l->access[id].bytes);
        plan_json_layout("offsets", &l->access[id].offsets);
        json_int("phases", banks.phases);
        json_int("conflicts", banks.conflicts);
        json_close();
    }
    json_close();
    json_open("shared_memory", '{');
    json_int("q", l->smem_q);
    json_int("k", l->smem_k);
    json_int("v", l->smem_v);
    json_int("stage_bytes", l->stage_bytes);
    json_int("bytes", l->shared_bytes);
    json_close();
}

const plan_kernel plan_mma = {
    .open = open_layout,
    .print_tiles = print_tiles,
    .print_layouts = print_layouts,
    .print_shared = print_shared,
    .json_tiles = json_tiles,
    .json_layouts = json_layouts,
};
