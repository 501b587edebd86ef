/* plan_wgmma.c - what `ptxpack plan` says of a row of attention/wgmma.ptx. */
#include <stdio.h>
#include <stdlib.h>

#include "host/attention/wgmma_layout.h"
#include "tools/command.h"
#include "host/layout/internal.h"
#include "plan_report.h"

static const attention_wgmma_layout *layout_of(const plan_report *r)
{
    return (const attention_wgmma_layout *)r->layout;
}

static ptxpack_status open_layout(plan_report *r)
{
    attention_wgmma_layout       *own;
    const attention_wgmma_layout *l = ptxpack_attention_wgmma_layout_of(r->row, &own);
    r->layout = l;
    r->own = own;
    return l != NULL ? l->status : PTXPACK_E_MEMORY;
}

static const char *plural(int64_t count) { return count == 1 ? "" : "s"; }

static void print_tiles(const plan_report *r)
{
    const attention_wgmma_layout *l = layout_of(r);
    printf("tiles      %lld queries x %lld keys; %lld stage%s of Q%s, %lld of K, %lld of V, %lld buffer%s of "
           "P\n",
           (long long)l->block_m, (long long)l->block_n, (long long)l->q_stages, plural(l->q_stages),
           l->q_registers ? " on its way to registers" : "", (long long)l->k_stages, (long long)l->v_stages,
           (long long)l->p_buffers, plural(l->p_buffers));
    printf("           %lld warpgroup%s of 64 rows, %lld producer warp%s; %lld tiles, %d block%s an SM\n",
           (long long)l->warpgroups, plural(l->warpgroups), (long long)l->producer_warps,
           plural(l->producer_warps), (long long)plan_tiles(r), r->row->blocks_per_sm,
           plural(r->row->blocks_per_sm));
}

/* ---- descriptors, tensor maps ------------------------------------------------------------------------- */
typedef struct named_operand {
    const char                  *name;
    const ptxpack_wgmma_operand *operand;
} named_operand;

static void operands_of(const attention_wgmma_layout *l, named_operand out[3])
{
    out[0] = (named_operand){"Q", &l->q_operand};
    out[1] = (named_operand){"K", &l->k_operand};
    out[2] = (named_operand){"V", &l->v_operand}; /* with fp8 of V turned round */
}

static void print_descriptors(const attention_wgmma_layout *l)
{
    named_operand operands[3];
    operands_of(l, operands);
    printf("\ndescriptors of a tile at address 0; steps (along M or N, along K) in 16 bytes\n");
    for (int i = 0; i < 3; i++) {
        const ptxpack_wgmma_operand *op = operands[i].operand;
        printf("  %s        0x%016llx: %s-major, leading %u, stride %u bytes, swizzle %s; steps %s\n",
               operands[i].name, (unsigned long long)op->word, op->major == PTXPACK_WGMMA_K ? "K" : "MN",
               (unsigned)op->fields.leading, (unsigned)op->fields.stride,
               ptxpack_wgmma_swizzle_name(op->fields.swizzle), layout_text(&op->steps).text);
    }
}

/* The map of one tensor as the plan makes it; the tensor is one that TMA can do, or the row were refused. */
static ptxpack_tma_box map_of(const plan_report *r, int tensor)
{
    const attention_wgmma_layout *l = layout_of(r);
    ptxpack_tma_box box = tensor == TENSOR_Q ? l->q_box : tensor == TENSOR_O ? l->o_box : l->kv_box;
    box.status = ptxpack_attention_wgmma_map(r->desc, &r->geometry, tensor, &box);
    return box;
}

static const char *type_name(ptxpack_tma_type type)
{
    return type == PTXPACK_TMA_BFLOAT16 ? "bf16" : type == PTXPACK_TMA_FLOAT16 ? "f16" : "8-bit";
}

static void print_maps(const plan_report *r)
{
    printf("\ntensor maps {head_dim, sequence, head, batch}; 128B swizzle, 256B L2 promotion, zeros beyond\n");
    for (int t = 0; t < TENSOR_COUNT; t++) {
        ptxpack_tma_box b = map_of(r, t);
        printf(
            "  %s        %s {%llu, %llu, %llu, %llu}, strides {%llu, %llu, %llu} bytes; box {%u, %u, %u, %u}",
            attention_tensor_names[t], type_name(b.type), (unsigned long long)b.global_dim[0],
            (unsigned long long)b.global_dim[1], (unsigned long long)b.global_dim[2],
            (unsigned long long)b.global_dim[3], (unsigned long long)b.global_strides[0],
            (unsigned long long)b.global_strides[1], (unsigned long long)b.global_strides[2], b.box_dim[0],
            b.box_dim[1], b.box_dim[2], b.box_dim[3]);
        printf(", %lld a tile of %lld bytes\n", (long long)b.boxes, (long long)(b.boxes * b.bytes));
    }
}

/* ---- layouts ------------------------------------------------------------------------------------------ */
/* The MMA atom that the kernel issues for such inputs; the layouts of bf16 are those of f16. */
typedef struct atom_name {
    char text[64];
} atom_name;
static atom_name atom_of(const plan_report *r, int64_t n, const char *operands)
{
    const char *type = r->desc->dtype == PTXPACK_BF16 ? "BF16" : "F16";
    atom_name   name;
    if (r->desc->dtype == PTXPACK_E4M3)
        snprintf(name.text, sizeof name.text, "SM90_64x%lldx32_F32E4M3E4M3_%s_TN", (long long)n, operands);
    else
        snprintf(name.text, sizeof name.text, "SM90_64x%lldx16_F32%s%s_%s", (long long)n, type, type, operands);
    return name;
}

static const char *q_from(const attention_wgmma_layout *l) { return l->q_registers ? "RS" : "SS"; }

static void print_mma(const char *name, atom_name atom, const ptxpack_tiled_mma *mma, const char *what)
{
    printf("  %s       %s, ", name, atom.text);
    printf("atoms %s: %s\n", layout_text(&mma->thr_layout_vmnk).text, what);
}

static void print_layouts(const plan_report *r)
{
    const attention_wgmma_layout *l = layout_of(r);
    printf("\nlayouts    (row, column) -> element\n");
    printf("  Q        %s\n", layout_text(&l->q).text);
    printf("  K, V     %s\n", layout_text(&l->kv).text);
    if (l->fp8)
        printf("  V turned %s: (column, slot), slot -> key %s\n", layout_text(&l->v).text,
               layout_text(&l->turned.key_of).text);
    printf("  O        %s, one box of each warp\n", layout_text(&l->o).text);
    print_mma("QK", atom_of(r, l->block_n, q_from(l)), &l->qk,
              l->q_registers ? "Q from registers, K from shared memory" : "Q and K from shared memory");
    print_mma("PV", atom_of(r, l->head_dim, "RS"), &l->pv, "P from registers, V from shared memory");
    printf("  S        (thread, row half, 8 columns) -> (row, column): %s\n", layout_text(&l->c_place).text);
    print_descriptors(l);
    print_maps(r);
    printf("\naccesses   (thread, 16 columns) -> element%s before the swizzle\n", l->fp8 ? " of 16 bits" : "");
    for (int id = 0; id < WGMMA_ACCESSES; id++) {
        const attention_wgmma_access *a = &l->access[id];
        ptxpack_banks                 banks = ptxpack_attention_wgmma_banks(l, (attention_wgmma_access_id)id);
        if (a->used)
            printf("  %-21s 16 bytes, %s: %s\n  %21s %lld bank conflicts in %lld phases\n", a->name, a->atom,
                   layout_text(&a->offsets).text, "", (long long)banks.conflicts, (long long)banks.phases);
    }
}

static void print_place(int64_t from, int64_t bytes, const char *what)
{
    printf("  %7lld %7lld  %s", (long long)from, (long long)bytes, what);
}

static void print_stages(int64_t from, int64_t bytes, int64_t count, const char *what)
{
    for (int64_t i = 0; i < count; i++) {
        print_place(from + i * bytes, bytes, what);
        printf(", stage %lld\n", (long long)i);
    }
}

static void print_shared(const plan_report *r)
{
    const attention_wgmma_layout *l = layout_of(r);
    printf("\nshared memory, bytes\n  %7s %7s\n", "from", "bytes");
    print_stages(l->smem_q, l->q_stage_bytes, l->q_stages, "Q");
    print_stages(l->smem_k, l->kv_stage_bytes, l->k_stages, "K");
    print_stages(l->smem_raw, l->kv_stage_bytes, l->raw_stages, "V as it comes");
    print_stages(l->smem_v, l->v_stage_bytes, l->v_stages, l->fp8 ? "V turned round" : "V");
    print_place(l->smem_o, l->smem_barriers - l->smem_o, "O");
    printf(", %lld box%s of %lld bytes a warp\n", (long long)l->o_buffers, l->o_buffers == 1 ? "" : "es",
           (long long)l->o_box_bytes);
    for (int i = 0; i < WGMMA_BARRIERS; i++) {
        if (l->barrier_count[i] == 0)
            continue;
        print_place(l->barrier[i], 8 * l->barrier_count[i], "mbarrier");
        printf("%s %s\n", plural(l->barrier_count[i]), attention_wgmma_barrier_names[i]);
    }
    print_place(l->smem_message, l->shared_bytes - l->smem_message,
                "messages: the next tiles; the list of tiles to do again\n");
    printf("  %7s %7lld  a block\n", "", (long long)l->shared_bytes);
    if (l->regs_consumer != 0)
        printf("\nsetmaxnreg %lld registers a thread of the producer, %lld of the %lld consumer warpgroup%s: "
               "%lld of "
               "65536\n",
               (long long)l->regs_producer, (long long)l->regs_consumer, (long long)l->warpgroups,
               plural(l->warpgroups),
               (long long)(WGMMA_WARPGROUP * (l->regs_producer + l->warpgroups * l->regs_consumer)));
}

/* ---- JSON --------------------------------------------------------------------------------------------- */
static void json_tiles(const plan_report *r)
{
    const attention_wgmma_layout *l = layout_of(r);
    json_int("block_m", l->block_m);
    json_int("block_n", l->block_n);
    json_int("warpgroups", l->warpgroups);
    json_int("k_stages", l->k_stages);
    json_int("v_stages", l->v_stages);
    if (l->fp8)
        json_int("raw_stages", l->raw_stages);
    json_int("q_stages", l->q_stages);
    json_bool("q_registers", l->q_registers);
    json_int("p_buffers", l->p_buffers);
    json_int("o_buffers", l->o_buffers);
    json_int("producer_warps", l->producer_warps);
    json_int("warps", r->row->threads / 32);
    json_int("blocks", plan_tiles(r));
    json_int("blocks_per_sm", r->row->blocks_per_sm);
    json_int("registers_producer", l->regs_producer);
    json_int("registers_consumer", l->regs_consumer);
}

static void json_descriptors(const attention_wgmma_layout *l)
{
    named_operand operands[3];
    char          word[24];
    operands_of(l, operands);
    json_open("descriptors", '[');
    for (int i = 0; i < 3; i++) {
        const ptxpack_wgmma_operand *op = operands[i].operand;
        snprintf(word, sizeof word, "0x%016llx", (unsigned long long)op->word);
        json_open(NULL, '{');
        json_text("operand", operands[i].name);
        json_text("word", word);
        json_int("leading", op->fields.leading);
        json_int("stride", op->fields.stride);
        json_text("swizzle", ptxpack_wgmma_swizzle_name(op->fields.swizzle));
        plan_json_layout("steps", &op->steps);
        json_close();
    }
    json_close();
}

static void json_maps(const plan_report *r)
{
    json_open("tensor_maps", '[');
    for (int t = 0; t < TENSOR_COUNT; t++) {
        ptxpack_tma_box b = map_of(r, t);
        json_open(NULL, '{');
        json_text("tensor", attention_tensor_names[t]);
        json_text("type", type_name(b.type));
        json_open("extents", '[');
        for (int d = 0; d < 4; d++)
            json_int(NULL, (int64_t)b.global_dim[d]);
        json_close();
        json_open("stride_bytes", '[');
        for (int d = 0; d < 3; d++)
            json_int(NULL, (int64_t)b.global_strides[d]);
        json_close();
        json_open("box", '[');
        for (int d = 0; d < 4; d++)
            json_int(NULL, b.box_dim[d]);
        json_close();
        json_int("boxes", b.boxes);
        json_close();
    }
    json_close();
}

static void json_shared(const attention_wgmma_layout *l)
{
    json_open("shared_memory", '{');
    json_int("q", l->smem_q);
    json_int("q_stage_bytes", l->q_stage_bytes);
    json_int("k", l->smem_k);
    json_int("v", l->smem_v);
    json_int("o", l->smem_o);
    json_int("o_box_bytes", l->o_box_bytes);
    json_int("stage_bytes", l->kv_stage_bytes);
    if (l->fp8) {
        json_int("raw", l->smem_raw);
        json_int("v_stage_bytes", l->v_stage_bytes);
    }
    json_open("barriers", '{');
    for (int i = 0; i < WGMMA_BARRIERS; i++)
        if (l->barrier_count[i] != 0)
            json_int(attention_wgmma_barrier_names[i], l->barrier[i]);
    json_close();
    json_int("message", l->smem_message);
    json_int("bytes", l->shared_bytes);
    json_close();
}

static void json_access(const attention_wgmma_layout *l, attention_wgmma_access_id id)
{
    ptxpack_banks banks = ptxpack_attention_wgmma_banks(l, id);
    json_open(NULL, '{');
    json_text("name", l->access[id].name);
    json_text("atom", l->access[id].atom);
    json_int("bytes", 16);
    plan_json_layout("offsets", &l->access[id].offsets);
    json_int("phases", banks.phases);
    json_int("conflicts", banks.conflicts);
    json_close();
}

static void json_layouts(const plan_report *r)
{
    const attention_wgmma_layout *l = layout_of(r);
    json_open("layouts", '{');
    plan_json_layout("q", &l->q);
    plan_json_layout("kv", &l->kv);
    if (l->fp8)
        plan_json_layout("v_turned", &l->v);
    plan_json_layout("o", &l->o);
    json_text("atom", atom_of(r, l->block_n, q_from(l)).text);
    json_text("atom_pv", atom_of(r, l->head_dim, "RS").text);
    plan_json_layout("atoms", &l->qk.thr_layout_vmnk);
    plan_json_layout("s", &l->c_place);
    json_close();
    json_descriptors(l);
    json_maps(r);
    json_open("accesses", '[');
    for (int id = 0; id < WGMMA_ACCESSES; id++)
        if (l->access[id].used)
            json_access(l, (attention_wgmma_access_id)id);
    json_close();
    json_shared(l);
}

const plan_kernel plan_wgmma = {
    .open = open_layout,
    .print_tiles = print_tiles,
    .print_layouts = print_layouts,
    .print_shared = print_shared,
    .json_tiles = json_tiles,
    .json_layouts = json_layouts,
};
