/* plan_gemm.c - ptxpack plan gemm: the choice of the row, and the report of it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/gemm/inspect.h"
#include "plan.h"

enum { DEFAULT_SIZE = 4096 };

static size_t options(plan_settings *s, option *rows)
{
    const option own[] = {
        GEMM_OPTIONS(&s->gemm, "4096"),
        {"c", OPTION_FLAG, &s->c, "a C is added"},
        {"bias", OPTION_FLAG, &s->bias, "a bias is added"},
        {"dtype", OPTION_TEXT, &s->gemm.dtype, "f16|bf16  (default bf16)"},
    };
    s->gemm.n = s->gemm.k = DEFAULT_SIZE;
    memcpy(rows, own, sizeof own);
    return sizeof own / sizeof own[0];
}

static int describe(plan *p)
{
    gemm_settings s = p->settings->gemm;
    s.c = p->settings->c ? "" : NULL;
    s.bias = p->settings->bias ? "" : NULL;
    if (s.m == OPTION_NOT_GIVEN && s.groups == NULL)
        s.m = DEFAULT_SIZE;
    int status = gemm_problem_describe(&s, &p->gemm);
    if (status != COMMAND_OK)
        gemm_problem_free(&p->gemm);
    return status;
}

/* ---- the choice --------------------------------------------------------------------------------------- */
static int choose(plan *p)
{
    char line[PLAN_LINE];
    if (p->settings->variant == NULL)
        return plan_row_of(&gemm_op, p->handle, NULL, &p->gemm.desc, &p->row) == PTXPACK_OK
                   ? COMMAND_OK
                   : command_fail("plan", "%s", ptxpack_detail(p->handle));
    p->row = plan_named_row(p, "gemm");
    if (p->row == NULL)
        return COMMAND_USAGE;
    if (plan_row_refusal(&gemm_op, p->handle, NULL, &p->gemm.desc, p->row, line) != NULL)
        return command_fail("plan", "--variant: %s %s", p->row->id, line);
    return COMMAND_OK;
}

/* Reports the rows of the chosen method: the cost of each in the method's own unit, or why it is refused. */
static void report_candidates(plan *p)
{
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    const plan_method     *method = plan_method_place(plan_method_of(p->row));
    report                *r = &p->out;
    r->late = true;
    report_line(r, "choice     estimated cost, of rows of one kernel");
    report_open(r, "candidates", '[');
    for (size_t i = 0; i < count; i++) {
        char line[PLAN_LINE];
        if (plan_method_place(plan_method_of(&rows[i])) != method)
            continue;
        const char *why = plan_row_refusal(&gemm_op, p->handle, NULL, &p->gemm.desc, &rows[i], line);
        report_open(r, NULL, '{');
        report_text(r, "id", "%s", rows[i].id);
        report_real(r, "cost",
                    why != NULL ? (double)NAN
                                : plan_row_cost(&gemm_op, p->handle, NULL, &p->gemm.desc, &rows[i]));
        report_text(r, "why", "%s", why != NULL ? why : "");
        report_line(r, why != NULL          ? "  {id:-37s}        no  {why}"
                       : &rows[i] == p->row ? "  {id:-37s} {cost:9.0f}  taken"
                                            : "  {id:-37s} {cost:9.0f}");
        report_close(r);
    }
    report_close(r);
    r->late = false;
}

/* ---- gemm/wgmma.ptx, wgmma_fp8.ptx, wgmma_groups.ptx ----------------------------------------------------------------------------------- */
static void report_maps(plan *p, const gemm_wgmma_layout *l, const gemm_wgmma_operand *a,
                        const gemm_wgmma_operand *b)
{
    report *r = &p->out;
    report_line(r, "\ntensor maps {{along a line, lines, batch}; 128B swizzle, zeros beyond");
    for (int i = 0; i < GEMM_MATRICES; i++) {
        ptxpack_tma_box box;
        int64_t         parts = i == GEMM_A ? a->parts : i == GEMM_B ? b->parts : 1;
        if ((i == GEMM_C && !p->gemm.desc.has_c) ||
            ptxpack_gemm_wgmma_box(&p->gemm.desc, &p->gemm.geometry, l, i, &box) != PTXPACK_OK)
            continue;
        report_text(r, "matrix", "%s", gemm_matrix_names[i]);
        plan_report_map(p, &box, (int)box.rank);
        report_int(r, "parts", parts);
        report_int(r, "l2_bytes", box.l2 == PTXPACK_TMA_L2_256B ? 256 : 128);
        report_line(r, parts > 1 ? "  {matrix:-8s} {extents}, strides {stride_bytes} bytes; box {box}, one of "
                                   "{parts} parts, each brought by another block; {l2_bytes}B L2 promotion"
                                 : "  {matrix:-8s} {extents}, strides {stride_bytes} bytes; box {box}; "
                                   "{l2_bytes}B L2 promotion");
    }
}

static void report_wgmma(plan *p, const gemm_wgmma_layout *l)
{
    const gemm_wgmma_operand *a = &l->a[p->gemm.desc.order_a == PTXPACK_COLUMN_MAJOR];
    const gemm_wgmma_operand *b = &l->b[p->gemm.desc.order_b == PTXPACK_COLUMN_MAJOR];
    report                   *r = &p->out;
    plan_report_layout(p, "a", &a->tile);
    plan_report_layout(p, "b", &b->tile);
    plan_report_layout(p, "d", &l->d);
    report_int(r, "d_buffers", l->d_buffers);
    plan_report_layout(p, "sums", &l->c_place);
    report_line(r, "  A        {a}");
    report_line(r, "  B        {b}");
    report_line(r, "  D        {d}, {d_buffers box} of each warp");
    report_line(r, "  sums     (thread, row half, 8 columns) -> (row, column): {sums}");
    report_line(r, "\ndescriptors of a stage at address 0; steps (along M or N, along K) in 16 bytes");
    plan_report_operand(p, "A", &a->read);
    plan_report_operand(p, "B", &b->read);
    report_maps(p, l, a, b);
    plan_report_pieces(p);
    plan_report_piece(p, l->smem_a, l->smem_b - l->smem_a, "stages of A");
    plan_report_piece(p, l->smem_b, l->smem_d - l->smem_b, "stages of B");
    plan_report_piece(p, l->smem_d, l->smem_bias - l->smem_d, "D before it is stored");
    plan_report_piece(p, l->smem_bias, l->smem_barriers - l->smem_bias,
                      "the bias of a tile, for each warpgroup");
    plan_report_piece(p, l->smem_barriers, l->shared_bytes - l->smem_barriers, "mbarriers FULL, EMPTY");
    report_line(r, "          {shared_bytes:7d}  a block");
    report_int(r, "producer", l->regs_producer);
    report_int(r, "consumer", l->regs_consumer);
    report_int(r, "warpgroups", l->warpgroups);
    report_line(r, "\nsetmaxnreg {producer} registers a thread of the producer, {consumer} of the "
                   "{warpgroups consumer warpgroup}");
}

/* ---- gemm/mma.ptx ------------------------------------------------------------------------------------- */
static void report_mma(plan *p, const gemm_mma_layout *l)
{
    const bool k_last_a = p->gemm.desc.order_a == PTXPACK_COLUMN_MAJOR;
    const bool k_last_b = p->gemm.desc.order_b != PTXPACK_COLUMN_MAJOR;
    report    *r = &p->out;
    plan_report_layout(p, "a",
                       &l->operand[GEMM_MMA_A][k_last_a ? GEMM_MMA_K_LAST : GEMM_MMA_K_FIRST].tile.swizzled);
    plan_report_layout(p, "b",
                       &l->operand[!GEMM_MMA_A][k_last_b ? GEMM_MMA_K_LAST : GEMM_MMA_K_FIRST].tile.swizzled);
    plan_report_layout(p, "d", &l->d.swizzled);
    report_text(r, "atom", "%s", tile_mma_instruction(l->mma_k, p->gemm.desc.dtype));
    plan_report_layout(p, "atoms", &l->mma.thr_layout_vmnk);
    report_int(r, "stages", l->stages);
    report_int(r, "stage_bytes", l->stage_bytes);
    report_int(r, "smem_b", l->smem_b);
    report_line(r, "  A        {a}");
    report_line(r, "  B        {b}");
    report_line(r, "  D        {d}");
    report_line(r, "  MMA      {atom}, atoms {atoms}");
    report_line(r,
                "\nshared memory, bytes: {stages} stages of {stage_bytes}, B from {smem_b} on; {shared_bytes} "
                "a block");
}

/* ---- the whole report --------------------------------------------------------------------------------- */
static void report_problem(plan *p)
{
    const ptxpack_gemm_desc *d = &p->gemm.desc;
    report                  *r = &p->out;
    report_text(r, "dtype", "%s", ptxpack_dtype_name(d->dtype));
    report_text(r, ".operands", "%s", "");
    if (gemm_type(d, GEMM_B) == PTXPACK_E4M3) {
        report_text(r, gemm_b_alone(d) ? "dtype_b" : "dtype_ab", "%s", ptxpack_dtype_name(PTXPACK_E4M3));
        report_text(r, "scales", "%s", gemm_scales_name(d->scales));
        report_text(r, ".operands", ", %s e4m3 (scales: %s)", gemm_b_alone(d) ? "B" : "A and B",
                    gemm_scales_name(d->scales));
    }
    report_int(r, "m", d->m);
    report_int(r, "n", d->n);
    report_int(r, "k", d->k);
    report_int(r, "batch", p->gemm.geometry.batch);
    report_text(r, ".groups", "%s", "");
    if (d->groups > 0) {
        report_int(r, "groups", d->groups);
        report_text(r, ".groups", ", %d groups", (int)d->groups);
    }
    report_text(r, ".order_a", "%s", gemm_order_name(d->order_a));
    report_text(r, ".order_b", "%s", gemm_order_name(d->order_b));
    if (d->norm_a)
        report_real(r, "norm_eps", (double)d->norm_eps);
    const bool constant_b = (d->launch & PTXPACK_LAUNCH_CONSTANT_B) != 0;
    if (constant_b)
        report_bool(r, "constant_b", true);
    report_text(r, ".added", "%s%s%s%s", d->norm_a ? ", RMSNorm(A)" : "", constant_b ? ", constant B" : "",
                d->has_c ? ", C" : "", d->has_bias ? ", bias" : "");
    report_line(
        r,
        "problem    {dtype}{operands}, m {m}, n {n}, k {k}, batch {batch}, A {order_a}-major, B {order_b}-major"
        "{groups}{added}");
}

/* The k of a box, 128 bytes of a column, and that of a stage, a block of k. */
static int64_t rows_tma_box_k(const ptxpack_variant *row)
{
    return plan_method_of(row) == &gemm_rows_e4m3 ? 128 : 64;
}

static int64_t rows_tma_block_k(const ptxpack_variant *row)
{
    return rows_tma_box_k(row) * ptxpack_variant_parameter(row, "K_BOXES", 1) *
           (ptxpack_variant_parameter(row, "WARPS", 1) / ptxpack_variant_parameter(row, "WARPS_N", 1));
}

static bool is_rows_by_tma(const ptxpack_variant *row)
{
    const plan_method *method = plan_method_of(row);
    return method == &gemm_rows_tma || method == &gemm_rows_norm || method == &gemm_rows_e4m3;
}

static bool is_straight_to_registers(const ptxpack_variant *row)
{
    return plan_method_of(row) == &gemm_rows || plan_method_of(row) == &gemm_rows_groups;
}

static void report_tiles(plan *p)
{
    const ptxpack_gemm_desc *d = &p->gemm.desc;
    report                  *r = &p->out;
    int64_t                  block_m = ptxpack_variant_parameter(p->row, "BLOCK_M",
                                                                 ptxpack_variant_parameter(p->row, "ROWS", 1));
    int64_t                  block_n = ptxpack_variant_parameter(p->row, "BLOCK_N",
                                                                 16 * ptxpack_variant_parameter(p->row, "TILES", 1));
    int64_t                  rows = d->groups > 0 ? (int64_t)gemm_groups_most_tiles(d->groups, d->m, block_m)
                                                  : (d->m + block_m - 1) / block_m;
    report_int(r, "tiles", rows * ((d->n + block_n - 1) / block_n) * p->gemm.geometry.batch);
    report_int(r, ".CLUSTER_M", 1); /* a row without clusters has 1 */
    report_int(r, ".CLUSTER_N", 1);
    report_int(r, ".CLUSTER_K", 1);
    for (int i = 0; i < p->row->parameter_count; i++)
        report_int(r, p->row->parameters[i].name, p->row->parameters[i].value);
    report_int(r, "shared_bytes", p->row->shared_bytes);
    report_int(r, ".threads", p->row->threads);
    report_int(r, ".blocks_per_sm", p->row->blocks_per_sm);
    if (is_straight_to_registers(p->row)) {
        report_int(r, ".block_k", plan_method_of(p->row) == &gemm_rows_groups ? 64 : 32);
        report_line(r, "tiles      up to {ROWS} rows, 16 x {TILES} columns; {UNROLL} blocks of {block_k} k in "
                       "flight a warp; "
                       "{threads} threads, {blocks_per_sm block} an SM");
        return;
    }
    if (is_rows_by_tma(p->row)) {
        report_int(r, ".box_k", rows_tma_box_k(p->row));
        report_line(r,
                    "tiles      up to {A_LINES row}, 16 x {TILES} columns, {STAGES} stages; {WARPS} warps and "
                    "the producer, "
                    "{WARPS_N} side by side, each with {K_BOXES} x {box_k} k of a stage; {threads} threads");
        return;
    }
    report_line(r, "tiles      {BLOCK_M} x {BLOCK_N}, {tiles} of them, {STAGES} stages; {threads} threads, "
                   "{blocks_per_sm block} an SM; clusters of {CLUSTER_M} x {CLUSTER_N} x {CLUSTER_K} blocks "
                   "(down, across, parts of k)");
}

/* What is cut along k, and into what: its tiles, of clusters. */
typedef struct cut {
    int64_t whole, tiles, parts, blocks, block_k, cluster;
} cut;

static cut cut_of(const ptxpack_variant *row, const ptxpack_gemm_plan *made)
{
    enum { WGMMA_K = 64, WARP_K = 32 };
    const gemm_arguments *a = &made->arguments;
    const plan_method    *method = plan_method_of(row);
    cut                   c = {.cluster = 1};
    if (method == &gemm_wgmma_parts) {
        c = (cut){.whole = a->wgmma_parts.whole_tiles,
                  .tiles = a->wgmma_parts.cut_tiles,
                  .parts = a->wgmma_parts.tile_parts,
                  .blocks = a->wgmma_parts.part_blocks,
                  .block_k = WGMMA_K};
        c.cluster = ptxpack_variant_parameter(row, "CLUSTER_M", 1) *
                    ptxpack_variant_parameter(row, "CLUSTER_N", 1);
    } else if (method == &gemm_rows && a->rows.splits > 1) {
        c.tiles = made->head.grid[0] / a->rows.splits;
        c.parts = a->rows.splits;
        c.blocks = a->rows.blocks;
        c.block_k = WARP_K;
    } else if (is_rows_by_tma(row) && a->rows_tma.splits > 1) {
        c.tiles = a->rows_tma.items / a->rows_tma.splits;
        c.parts = a->rows_tma.splits;
        c.blocks = a->rows_tma.part_blocks;
        c.block_k = rows_tma_block_k(row);
    }
    return c;
}

/* Reports what a plan would cut for the GPU; nothing where all tiles are whole. */
static int report_cut(plan *p)
{
    ptxpack_gemm_plan made = {0};
    report           *r = &p->out;
    if (plan_row_fill(&gemm_op, &p->caps, plan_sm_count(p), &p->gemm.desc, p->row, &made) != PTXPACK_OK)
        return command_fail("plan", "%s", ptxpack_detail(NULL));
    const cut c = cut_of(p->row, &made);
    if (c.tiles == 0)
        return COMMAND_OK;
    report_open(r, "cut", '{');
    report_int(r, "whole_tiles", c.whole * c.cluster);
    report_int(r, "cut_tiles", c.tiles * c.cluster);
    report_int(r, "parts", c.parts);
    report_int(r, "part_blocks", c.blocks);
    report_int(r, "block_k", c.block_k);
    report_int(r, "workspace_bytes", (int64_t)made.head.workspace);
    report_line(r, "cut        {whole_tiles tile} whole, {cut_tiles tile} cut into {parts} parts of up to "
                   "{part_blocks block} of {block_k} k; workspace {workspace_bytes} bytes");
    report_close(r);
    return COMMAND_OK;
}

/* Reports the layouts of the row; JSON omits them. */
static int report_layouts(plan *p)
{
    const void *layout;
    void       *own;
    if (is_straight_to_registers(p->row) || is_rows_by_tma(p->row))
        return COMMAND_OK; /* a lane loads what it multiplies, or TMA does, rows of 128 bytes: there are none */
    bool ok = plan_layout(p->row, &layout, &own) == PTXPACK_OK;
    report_open(&p->out, ".layouts", '{');
    report_line(&p->out, "\nlayouts    (row of A or column of B, k) -> element of a stage; (row, column) of D");
    if (ok && ptxpack_variant_parameter(p->row, "WARPGROUPS", 0) != 0)
        report_wgmma(p, (const gemm_wgmma_layout *)layout);
    else if (ok)
        report_mma(p, (const gemm_mma_layout *)layout);
    report_close(&p->out);
    free(own);
    return ok ? COMMAND_OK : command_fail("plan", "%s", ptxpack_detail(NULL));
}

static int report_plan(plan *p)
{
    ptxpack_symbol symbols[PTXPACK_INSTANCE_SYMBOLS];
    int            status = choose(p);
    if (status != COMMAND_OK) {
        gemm_problem_free(&p->gemm);
        return status;
    }
    report_problem(p);
    plan_report_target(p);
    report_tiles(p);
    status = report_cut(p);
    report_candidates(p);
    if (status == COMMAND_OK)
        status = report_layouts(p);
    plan_report_costs(p, &(plan_costs){.flops = gemm_problem_flops(&p->gemm),
                                       .bytes = gemm_problem_bytes(&p->gemm),
                                       .dtype = gemm_type(&p->gemm.desc, GEMM_A),
                                       .symbols = symbols,
                                       .symbol_count = plan_row_symbols(p->row, &p->gemm.desc, symbols)});
    gemm_problem_free(&p->gemm);
    return status;
}

const plan_operation plan_gemm = {"gemm", options, describe, report_plan};
