/* plan_attention_mma.c - what `ptxpack plan` reports about a row of attention/mma.ptx or attention/decode.ptx. */
#include "host/attention/inspect.h"
#include "plan.h"

static void report_tiles(plan *p, const void *layout)
{
    const attention_mma_layout *l = (const attention_mma_layout *)layout;
    report                     *r = &p->out;
    report_int(r, "block_m", l->block_m);
    report_int(r, "block_n", l->block_n);
    report_int(r, "stages", l->stages);
    report_int(r, "warps", l->warps);
    report_int(r, "blocks", plan_attention_tiles(p, 1));
    report_int(r, "blocks_per_sm", p->row->blocks_per_sm);
    report_int(r, ".warp_rows", l->block_m / l->warps);
    report_line(r,
                "tiles      {block_m} queries x {block_n} keys, {stages stage}; {warps} warps of {warp_rows} "
                "rows; {blocks} blocks, {blocks_per_sm} an SM");
}

static void report_accesses(plan *p, const attention_mma_layout *l)
{
    report *r = &p->out;
    report_line(r, "\naccesses   (thread, step along rows, along columns) -> element before the swizzle");
    report_open(r, "accesses", '[');
    for (int id = 0; id < MMA_ACCESS_COUNT; id++) {
        const attention_mma_access *a = &l->access[id];
        if ((id == MMA_ACCESS_LOAD_KV && l->blocks) || (!a->of_q && l->slot > 0))
            continue; /* ptx/attention/bytes: q8_0.ptx and q8_fragments.ptx say how blocks are copied and read */
        ptxpack_banks banks = ptxpack_attention_mma_banks(l, (attention_mma_access_id)id);
        plan_report_access(p, a->name, a->atom, a->bytes, &a->offsets, &banks);
    }
    report_close(r);
}

static void report_shared(plan *p, const attention_mma_layout *l)
{
    report *r = &p->out;
    report_open(r, "shared_memory", '{');
    report_int(r, "q", l->smem_q);
    report_int(r, "k", l->smem_k);
    report_int(r, "v", l->smem_v);
    if (l->blocks) {
        report_int(r, "raw_k", l->smem_raw_k);
        report_int(r, "raw_v", l->smem_raw_v);
    }
    report_int(r, "stage_bytes", l->stage_bytes);
    report_int(r, "bytes", l->shared_bytes);
    report_int(r, ".all_bytes", l->shared_bytes * p->row->blocks_per_sm);
    report_close(r);
    plan_report_pieces(p);
    const int64_t k = l->blocks ? l->smem_raw_k : l->smem_k, v = l->blocks ? l->smem_raw_v : l->smem_v;
    plan_report_piece(p, l->smem_q, k - l->smem_q, "Q, later O");
    plan_report_stages(p, k, l->stage_bytes, l->stages, "K");
    plan_report_stages(p, v, l->stage_bytes, l->stages, "V");
    if (l->blocks) {
        plan_report_piece(p, l->smem_k, l->smem_v - l->smem_k, "K in f16");
        plan_report_piece(p, l->smem_v, l->smem_v - l->smem_k, "V in f16");
    }
    report_line(r, "          {bytes:7d}  a block, {all_bytes} for {blocks_per_sm} blocks");
}

static void report_layouts(plan *p, const void *layout)
{
    const attention_mma_layout *l = (const attention_mma_layout *)layout;
    report                     *r = &p->out;
    report_open(r, "layouts", '{');
    plan_report_layout(p, "q", &l->q);
    if (l->slot == 0)
        plan_report_layout(p, "kv", &l->kv);
    else
        report_int(r, "slot", l->slot);
    report_text(r, "atom", "%s", tile_mma_instruction(l->mma_k, p->attention.desc.dtype));
    plan_report_layout(p, "atoms", &l->mma.thr_layout_vmnk);
    plan_report_layout(p, "tile", &l->mma.permutation_mnk);
    report_close(r);
    report_line(r, "\nlayouts    (row, column) -> element");
    report_line(r, "  Q, O     {q}");
    report_line(r, l->slot == 0
                       ? "  K, V     {kv}"
                       : "  K, V     rows of blocks, {slot} bytes apart: ptx/attention/bytes/q8_fragments.ptx");
    report_line(r, l->mma_k == 8 ? "  MMA      {atom}, two for 16 k, atoms {atoms}, tile {tile}"
                                 : "  MMA      {atom}, atoms {atoms}, tile {tile}");
    report_accesses(p, l);
    report_shared(p, l);
}

const plan_kernel plan_attention_mma = {report_tiles, report_layouts};

/* ---- attention/decode.ptx: the layouts of one of its warps ------------------------------------------- */
static void report_ranges(plan *p, const void *layout)
{
    const attention_mma_layout *l = (const attention_mma_layout *)layout;
    attention_ranges s = attention_decode_ranges(&p->attention.desc, &p->attention.geometry, p->row, &p->caps,
                                                 ptxpack_device(p->handle)->sm_count);
    report          *r = &p->out;
    report_int(r, "rows", s.row_tiles > 1 ? l->rows : s.rows);
    report_int(r, "row_tiles", s.row_tiles);
    report_int(r, "block_n", l->block_n);
    report_int(r, "stages", l->stages);
    report_int(r, "warps", p->row->threads / 32);
    report_int(r, "tiles", s.tiles);
    report_int(r, "tile_blocks", s.tile_blocks);
    report_int(r, "blocks", s.grid);
    report_int(r, "blocks_per_sm", p->row->blocks_per_sm);
    report_int(r, "range", s.range);
    report_int(r, "parts", s.range % s.tile_blocks == 0 ? 1 : (s.tile_blocks + s.range - 1) / s.range);
    report_line(
        r,
        "tiles      {tiles} of {rows} query rows, each {tile_blocks} blocks of {block_n} keys; {warps} warps, "
        "{stages stage} each");
    report_line(
        r,
        "ranges     {range} key blocks for each of {blocks} blocks, {blocks_per_sm} an SM; a tile is made of "
        "{parts part}");
}

const plan_kernel plan_attention_decode = {report_ranges, report_layouts};
