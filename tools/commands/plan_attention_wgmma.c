/* plan_attention_wgmma.c - what `ptxpack plan` reports about a row of attention/wgmma.ptx. */
#include "host/attention/inspect.h"
#include "plan.h"

static attention_split split_of(const plan *p)
{
    return attention_split_keys(p->row, &p->attention.desc, &p->attention.geometry, &p->caps,
                                ptxpack_device(p->handle)->sm_count);
}

/* Reports a build of which tiles have rows of several heads, or that can cut their keys into parts. */
static void report_parts(plan *p, const attention_wgmma_layout *l)
{
    attention_split split = split_of(p);
    if (split.group > 1) {
        report_int(&p->out, "packed_heads", split.group);
        report_line(&p->out,
                    "packed     row r of a tile is query r / {packed_heads} of head r % {packed_heads} of "
                    "{packed_heads} that share a key head");
    }
    if (!split.used)
        return;
    report_int(&p->out, "parts", split.most);
    report_int(&p->out, "part_blocks", split.blocks);
    report_int(&p->out, "workspace",
               (long long)attention_wgmma_workspace_of(l, &split, plan_attention_tiles(p, split.group)).bytes);
    report_line(&p->out, "order      each block takes its next tile when it loads the end of one");
    if (split.most > 1)
        report_line(&p->out,
                    "           the keys of a tile in up to {parts} parts of up to {part_blocks} blocks; "
                    "{workspace} bytes of workspace");
}

static void report_tiles(plan *p, const void *layout)
{
    const attention_wgmma_layout *l = (const attention_wgmma_layout *)layout;
    report                       *r = &p->out;
    report_int(r, "block_m", l->block_m);
    report_int(r, "block_n", l->block_n);
    report_int(r, "warpgroups", l->warpgroups);
    report_int(r, "k_stages", l->k_stages);
    report_int(r, "v_stages", l->v_stages);
    if (l->fp8)
        report_int(r, "raw_stages", l->raw_stages);
    report_int(r, "q_stages", l->q_stages);
    report_bool(r, "q_registers", l->q_registers);
    report_int(r, "p_buffers", l->p_buffers);
    report_int(r, "o_buffers", l->o_buffers);
    report_int(r, "producer_warps", l->producer_warps);
    report_int(r, "warps", p->row->threads / 32);
    report_int(r, "blocks", plan_attention_tiles(p, split_of(p).group));
    report_int(r, "blocks_per_sm", p->row->blocks_per_sm);
    report_int(r, "registers_producer", l->regs_producer);
    report_int(r, "registers_consumer", l->regs_consumer);
    report_text(r, ".rows_are", split_of(p).group > 1 ? "rows" : "queries");
    report_text(r, ".q_way", l->q_registers ? " before it is in registers" : "");
    report_line(
        r, "tiles      {block_m} {rows_are} x {block_n} keys; {q_stages stage} of Q{q_way}, {k_stages} of K, "
           "{v_stages} of V, {p_buffers buffer} of P");
    report_line(r,
                "           {warpgroups warpgroup} of 64 rows, {producer_warps producer warp}; {blocks} tiles, "
                "{blocks_per_sm block} an SM");
    report_parts(p, l);
}

/* The MMA atom that the kernel issues for such inputs; the layouts of bf16 are those of f16. */
static void report_atom(plan *p, const char *name, int64_t n, const char *operands)
{
    const char *type = p->attention.desc.dtype == PTXPACK_BF16 ? "BF16" : "F16";
    if (p->attention.desc.dtype == PTXPACK_E4M3)
        report_text(&p->out, name, "SM90_64x%lldx32_F32E4M3E4M3_%s_TN", (long long)n, operands);
    else
        report_text(&p->out, name, "SM90_64x%lldx16_F32%s%s_%s", (long long)n, type, type, operands);
}

static void report_mma(plan *p, const attention_wgmma_layout *l)
{
    report *r = &p->out;
    report_open(r, "layouts", '{');
    plan_report_layout(p, "q", &l->q);
    const bool same = l->v_boxes == l->boxes || l->values_in_keys; /* tiles of K and V */
    plan_report_layout(p, same ? "kv" : "k", &l->k);
    if (!same)
        plan_report_layout(p, "v", &l->v);
    if (l->fp8) {
        plan_report_layout(p, "v_turned", &l->v);
        plan_report_layout(p, ".key_of", &l->transposed.key_of);
    }
    plan_report_layout(p, "o", &l->o);
    report_atom(p, "atom", l->block_n, l->q_registers ? "RS" : "SS");
    report_atom(p, "atom_pv", l->o_dim, "RS");
    plan_report_layout(p, "atoms", &l->qk.thr_layout_vmnk);
    plan_report_layout(p, ".atoms_pv", &l->pv.thr_layout_vmnk);
    plan_report_layout(p, "s", &l->c_place);
    report_close(r);
    report_line(r, "\nlayouts    (row, column) -> element");
    report_line(r, "  Q        {q}");
    report_line(r, same ? "  K, V     {kv}" : "  K        {k}");
    if (!same)
        report_line(r, "  V        {v}: (column, key)");
    if (l->fp8)
        report_line(r, "  V transposed {v_turned}: (column, slot), slot -> key {key_of}");
    report_line(r, "  O        {o}, one box of each warp");
    report_line(r, l->q_registers ? "  QK       {atom}, atoms {atoms}: Q from registers, K from shared memory"
                                  : "  QK       {atom}, atoms {atoms}: Q and K from shared memory");
    report_line(r, l->exchange
                       ? "  PV       {atom_pv}, atoms {atoms_pv}: P from registers, the other warpgroup's and "
                         "V from shared memory"
                       : "  PV       {atom_pv}, atoms {atoms_pv}: P from registers, V from shared memory");
    report_line(r, "  S        (thread, row half, 8 columns) -> (row, column): {s}");
}

static void report_descriptors(plan *p, const attention_wgmma_layout *l)
{
    report_line(&p->out, "\ndescriptors of a tile at address 0; steps (along M or N, along K) in 16 bytes");
    report_open(&p->out, "descriptors", '[');
    plan_report_operand(p, "Q", &l->q_operand);
    plan_report_operand(p, "K", &l->k_operand);
    plan_report_operand(p, "V", &l->v_operand); /* fp8: this is the transposed V */
    report_close(&p->out);
}

/* Reports the tensor maps as the plan makes them.  TMA supports each: the row would be refused otherwise. */
static void report_maps(plan *p, const attention_wgmma_layout *l)
{
    report *r = &p->out;
    report_line(
        r, "\ntensor maps {{head_dim, sequence, head, batch}; 128B swizzle, 128B L2 promotion, zeros beyond");
    report_open(r, "tensor_maps", '[');
    const ptxpack_attention_desc *d = &p->attention.desc;
    const bool                    wide = attention_wgmma_has_wide_boxes(d, &p->attention.geometry, p->row);
    int32_t                       group = split_of(p).group;
    if (group > 1)
        report_line(r, "            of q and o {{head_dim, head, sequence, batch}");
    if (wide)
        report_line(r, "            of k and v {{64 columns, sequence, chunk of such, batch}");
    for (int t = 0; t < TENSOR_COUNT; t++) {
        ptxpack_tma_box box = t == TENSOR_Q   ? l->q_box
                              : t == TENSOR_O ? l->o_box
                              : t == TENSOR_K ? l->k_box
                                              : l->v_box;
        box.status = ptxpack_attention_wgmma_map(&p->attention.desc, &p->attention.geometry, t, &box);
        if (group > 1 && (t == TENSOR_Q || t == TENSOR_O))
            attention_wgmma_pack_box(&box, group);
        if (wide && (t == TENSOR_K || t == TENSOR_V))
            attention_wgmma_widen_box(&box, l, attention_columns(d, t), d->heads_kv,
                                      attention_wgmma_head_chunks(d, &p->attention.geometry));
        report_open(r, NULL, '{');
        report_text(r, "tensor", "%s", attention_tensor_names[t]);
        report_text(r, "type",
                    box.type == PTXPACK_TMA_BFLOAT16  ? "bf16"
                    : box.type == PTXPACK_TMA_FLOAT16 ? "f16"
                                                      : "8-bit");
        plan_report_map(p, &box, 4);
        report_int(r, "boxes", box.boxes);
        report_int(r, ".tile_bytes", box.boxes * box.bytes);
        report_line(
            r, "  {tensor:-8s} {type} {extents}, strides {stride_bytes} bytes; box {box}, {boxes} a tile of "
               "{tile_bytes} bytes");
        report_close(r);
    }
    report_close(r);
}

static void report_accesses(plan *p, const attention_wgmma_layout *l)
{
    report *r = &p->out;
    report_line(r, l->fp8 ? "\naccesses   (thread, 16 columns) -> element of 16 bits before the swizzle"
                          : "\naccesses   (thread, 16 columns) -> element before the swizzle");
    report_open(r, "accesses", '[');
    for (int id = 0; id < WGMMA_ACCESSES; id++) {
        const attention_wgmma_access *a = &l->access[id];
        ptxpack_banks                 banks = ptxpack_attention_wgmma_banks(l, (attention_wgmma_access_id)id);
        if (a->used)
            plan_report_access(p, a->name, a->atom, 16, &a->offsets, &banks);
    }
    report_close(r);
}

static void report_shared(plan *p, const attention_wgmma_layout *l)
{
    report *r = &p->out;
    report_open(r, "shared_memory", '{');
    report_int(r, "q", l->smem_q);
    report_int(r, "q_stage_bytes", l->q_stage_bytes);
    report_int(r, "k", l->smem_k);
    report_int(r, "v", l->smem_v);
    report_int(r, "o", l->smem_o);
    report_int(r, "o_box_bytes", l->o_box_bytes);
    report_int(r, "stage_bytes", l->k_stage_bytes);
    if (l->fp8)
        report_int(r, "raw", l->smem_raw);
    if (l->fp8 || l->v_stage_bytes != l->k_stage_bytes)
        report_int(r, "v_stage_bytes", l->v_stage_bytes);
    report_open(r, "barriers", '{');
    for (int i = 0; i < WGMMA_BARRIERS; i++)
        if (l->barrier_count[i] != 0)
            report_int(r, attention_wgmma_barrier_names[i], l->barrier[i]);
    report_close(r);
    report_int(r, "message", l->smem_message);
    report_int(r, "bytes", l->shared_bytes);
    report_close(r);
}

static void report_pieces(plan *p, const attention_wgmma_layout *l)
{
    plan_report_pieces(p);
    plan_report_stages(p, l->smem_q, l->q_stage_bytes, l->q_stages, "Q");
    plan_report_stages(p, l->smem_k, l->k_stage_bytes, l->k_stages, l->values_in_keys ? "K, V" : "K");
    plan_report_stages(p, l->smem_raw, l->k_stage_bytes, l->raw_stages, "V as it is loaded");
    if (!l->values_in_keys)
        plan_report_stages(p, l->smem_v, l->v_stage_bytes, l->v_stages, l->fp8 ? "V turned round" : "V");
    plan_report_piece(p, l->smem_o, 4 * l->warpgroups * l->o_buffers * l->o_box_bytes,
                      "O, %lld box%s of %lld bytes a warp%s", (long long)l->o_buffers,
                      l->o_buffers == 1 ? "" : "es", (long long)l->o_box_bytes,
                      l->o_in_q ? ", in the stage of Q" : "");
    if (l->exchange)
        plan_report_piece(p, l->smem_exchange, l->smem_barriers - l->smem_exchange,
                          "P and references of a block, from one warpgroup to the other");
    for (int i = 0; i < WGMMA_BARRIERS; i++)
        if (l->barrier_count[i] != 0)
            plan_report_piece(p, l->barrier[i], 8 * l->barrier_count[i], "mbarrier%s %s",
                              l->barrier_count[i] == 1 ? "" : "s", attention_wgmma_barrier_names[i]);
    plan_report_piece(p, l->smem_message, l->shared_bytes - l->smem_message,
                      "messages: the next tiles; the list of tiles to compute again");
    report_line(&p->out, "          {bytes:7d}  a block");
    if (l->regs_consumer == 0)
        return;
    report_int(&p->out, ".set_registers",
               TILE_WARPGROUP * (l->regs_producer + l->warpgroups * l->regs_consumer));
    report_line(&p->out,
                "\nsetmaxnreg {registers_producer} registers a thread of the producer, "
                "{registers_consumer} of the {warpgroups consumer warpgroup}: {set_registers} of 65536");
}

static void report_layouts(plan *p, const void *layout)
{
    const attention_wgmma_layout *l = (const attention_wgmma_layout *)layout;
    report_mma(p, l);
    report_descriptors(p, l);
    report_maps(p, l);
    report_accesses(p, l);
    report_shared(p, l);
    report_pieces(p, l);
}

const plan_kernel plan_attention_wgmma = {report_tiles, report_layouts};
