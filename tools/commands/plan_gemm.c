/* plan_gemm.c - "ptxpack plan gemm": which row a product takes and why, its tiles, descriptors, tensor
 * maps, shared memory, registers, and the time that arithmetic and memory take at least. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/command.h"
#include "host/gemm/kernel.h"
#include "host/gemm/mma_layout.h"
#include "host/gemm/wgmma_layout.h"
#include "host/layout/internal.h"
#include "plan_report.h"

typedef struct settings {
    int64_t     m, n, k, batch;
    const char *dtype, *order_a, *order_b, *arch, *variant;
    double      tflops, gbps; /* NaN: the machine's */
    bool        c, bias, no_compile, json;
} settings;

typedef struct gemm_report {
    ptxpack_gemm_desc      desc;
    gemm_geometry          geometry;
    const ptxpack_variant *row;
    char                   target[128];
    machine                where;
    ptxpack_kernel_info    compiled; /* registers > 0 when it was */
    char                   not_compiled[256];
} gemm_report;

/* ---- figures ------------------------------------------------------------------------------------------ */
static double flops_of(const gemm_report *r)
{
    return 2.0 * r->desc.m * r->desc.n * r->desc.k * r->geometry.batch;
}

/* Each matrix once; one that is the same for all counts once. */
static double bytes_of(const gemm_report *r)
{
    double bytes = (double)r->geometry.bias_bytes;
    for (int i = 0; i < GEMM_MATRICES; i++) {
        const gemm_matrix *x = &r->geometry.matrix[i];
        bytes += 2.0 * (double)x->lines * (double)x->length * (x->batch > 0 ? r->geometry.batch : 1);
    }
    return bytes;
}

static double arithmetic_ms(const gemm_report *r) { return 1e-9 * flops_of(r) / r->where.tflops; }

static double memory_ms(const gemm_report *r) { return 1e-6 * bytes_of(r) / r->where.gbps; }

static int64_t tiles_of(const gemm_report *r)
{
    int64_t m = ptxpack_variant_parameter(r->row, "BLOCK_M", 1);
    int64_t n = ptxpack_variant_parameter(r->row, "BLOCK_N", 1);
    return (r->desc.m + m - 1) / m * ((r->desc.n + n - 1) / n) * r->geometry.batch;
}

/* ---- the choice --------------------------------------------------------------------------------------- */
/* Rows of the kernel that was chosen: the cost of each by its own measure, or why it is out of question. */
static const char *candidate(const ptxpack *handle, const gemm_report *r, const ptxpack_variant *row,
                             double *cost, char line[GEMM_WHY])
{
    const char *why = ptxpack_gemm_row_refusal(handle, &r->desc, row, line);
    if (why == NULL)
        *cost = gemm_kernel_of(row)->cost(row, &r->desc, &r->geometry, ptxpack_device(handle)->sm_count);
    return why;
}

static void report_candidates(const ptxpack *handle, const gemm_report *r, bool json)
{
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    if (json)
        json_open("candidates", '[');
    else
        printf("choice     estimated cost, of rows of one kernel\n");
    for (size_t i = 0; i < count; i++) {
        char   line[GEMM_WHY];
        double cost = NAN;
        if (gemm_kernel_of(&rows[i]) != gemm_kernel_of(r->row))
            continue;
        const char *why = candidate(handle, r, &rows[i], &cost, line);
        if (json) {
            json_open(NULL, '{');
            json_text("id", rows[i].id);
            json_real("cost", cost);
            json_text("why", why != NULL ? why : "");
            json_close();
        } else {
            printf("  %-37s ", rows[i].id);
            why != NULL ? printf("      no  %s\n", why)
                        : printf("%9.0f%s\n", cost, &rows[i] == r->row ? "  taken" : "");
        }
    }
    if (json)
        json_close();
}

/* ---- gemm_wgmma --------------------------------------------------------------------------------------- */
static void print_operand(const char *name, const gemm_wgmma_operand *o)
{
    printf("  %s        0x%016llx: %s-major, leading %u, stride %u bytes, swizzle %s; steps %s\n", name,
           (unsigned long long)o->read.word, o->read.major == PTXPACK_WGMMA_K ? "K" : "MN",
           (unsigned)o->read.fields.leading, (unsigned)o->read.fields.stride,
           ptxpack_wgmma_swizzle_name(o->read.fields.swizzle), layout_text(&o->read.steps).text);
}

static void print_map(const gemm_report *r, const gemm_wgmma_layout *l, int matrix)
{
    const gemm_wgmma_operand *a = &l->a[r->desc.order_a == PTXPACK_COLUMN_MAJOR];
    const gemm_wgmma_operand *b = &l->b[r->desc.order_b == PTXPACK_COLUMN_MAJOR];
    ptxpack_tma_box           box = matrix == GEMM_A   ? a->box
                                    : matrix == GEMM_B ? b->box
                                    : matrix == GEMM_C ? l->c_box
                                                       : l->d_box;
    int64_t                   parts = matrix == GEMM_A ? a->parts : matrix == GEMM_B ? b->parts : 1;
    if (ptxpack_gemm_wgmma_map(&r->desc, &r->geometry, matrix, &box) != PTXPACK_OK)
        return; /* the row were refused */
    printf("  %s        {%llu, %llu, %llu}, strides {%llu, %llu} bytes; box {%u, %u, %u}",
           gemm_matrix_names[matrix], (unsigned long long)box.global_dim[0],
           (unsigned long long)box.global_dim[1], (unsigned long long)box.global_dim[2],
           (unsigned long long)box.global_strides[0], (unsigned long long)box.global_strides[1], box.box_dim[0],
           box.box_dim[1], box.box_dim[2]);
    if (parts > 1)
        printf(", one of %lld parts, each brought by another block", (long long)parts);
    printf("\n");
}

static void print_place(int64_t from, int64_t to, const char *what)
{
    printf("  %7lld %7lld  %s\n", (long long)from, (long long)(to - from), what);
}

static void print_wgmma(const gemm_report *r, const gemm_wgmma_layout *l)
{
    const gemm_wgmma_operand *a = &l->a[r->desc.order_a == PTXPACK_COLUMN_MAJOR];
    const gemm_wgmma_operand *b = &l->b[r->desc.order_b == PTXPACK_COLUMN_MAJOR];
    printf("\nlayouts    (row of A or column of B, k) -> element of a stage; (row, column) of D\n");
    printf("  A        %s\n  B        %s\n", layout_text(&a->tile).text, layout_text(&b->tile).text);
    printf("  D        %s, %lld box%s of each warp\n", layout_text(&l->d).text, (long long)l->d_buffers,
           l->d_buffers == 1 ? "" : "es");
    printf("  sums     (thread, row half, 8 columns) -> (row, column): %s\n", layout_text(&l->c_place).text);
    printf("\ndescriptors of a stage at address 0; steps (along M or N, along K) in 16 bytes\n");
    print_operand("A", a);
    print_operand("B", b);
    printf("\ntensor maps {along a line, lines, batch}; 128B swizzle, 256B L2 promotion, zeros beyond\n");
    for (int i = 0; i < GEMM_MATRICES; i++)
        if (i != GEMM_C || r->desc.has_c)
            print_map(r, l, i);
    printf("\nshared memory, bytes\n  %7s %7s\n", "from", "bytes");
    print_place(l->smem_a, l->smem_b, "stages of A");
    print_place(l->smem_b, l->smem_d, "stages of B");
    print_place(l->smem_d, l->smem_bias, "D on its way out");
    print_place(l->smem_bias, l->smem_barriers, "the bias of a tile, for each warpgroup");
    print_place(l->smem_barriers, l->shared_bytes, "mbarriers FULL, EMPTY");
    printf("  %7s %7lld  a block\n", "", (long long)l->shared_bytes);
    printf("\nsetmaxnreg %lld registers a thread of the producer, %lld of the %lld consumer warpgroup%s\n",
           (long long)l->regs_producer, (long long)l->regs_consumer, (long long)l->warpgroups,
           l->warpgroups == 1 ? "" : "s");
}

/* ---- gemm_mma ----------------------------------------------------------------------------------------- */
static void print_mma(const gemm_report *r, const gemm_mma_layout *l)
{
    const ptxpack_order order[GEMM_MMA_OPERANDS] = {r->desc.order_a, r->desc.order_b};
    printf("\nlayouts    (row of A or column of B, k) -> element of a stage; (row, column) of D\n");
    for (int i = 0; i < GEMM_MMA_OPERANDS; i++) {
        bool last = (order[i] == PTXPACK_COLUMN_MAJOR) == (i == GEMM_MMA_A);
        printf("  %c        %s\n", "AB"[i],
               layout_text(&l->operand[i][last ? GEMM_MMA_K_LAST : GEMM_MMA_K_FIRST].tile.swizzled).text);
    }
    printf("  D        %s\n", layout_text(&l->d.swizzled).text);
    printf("  MMA      %s, atoms %s\n", ptxpack_gemm_mma_instruction(l, r->desc.dtype),
           layout_text(&l->mma.thr_layout_vmnk).text);
    printf("\nshared memory, bytes: %lld stages of %lld, B from %lld on; %lld a block\n", (long long)l->stages,
           (long long)l->stage_bytes, (long long)l->smem_b, (long long)l->shared_bytes);
}

/* ---- all of it ---------------------------------------------------------------------------------------- */
static void print_report(const ptxpack *handle, const gemm_report *r)
{
    const ptxpack_gemm_desc *d = &r->desc;
    int64_t                  cluster[3] = {ptxpack_variant_parameter(r->row, "CLUSTER_M", 1),
                                           ptxpack_variant_parameter(r->row, "CLUSTER_N", 1),
                                           ptxpack_variant_parameter(r->row, "CLUSTER_K", 1)};
    printf("problem    %s, m %d, n %d, k %d, batch %d, A %s-major, B %s-major%s%s\n",
           ptxpack_dtype_name(d->dtype), d->m, d->n, d->k, r->geometry.batch,
           d->order_a == PTXPACK_ROW_MAJOR ? "row" : "column",
           d->order_b == PTXPACK_ROW_MAJOR ? "row" : "column", d->has_c ? ", C" : "",
           d->has_bias ? ", bias" : "");
    printf("target     %s\n", r->target);
    printf("variant    %s: %s, %s sm_%d%s, PTX %d.%d\n", r->row->id, r->row->file,
           (r->row->flags & PTXPACK_VARIANT_ARCH_SPECIFIC) != 0 ? "only" : "from", r->row->arch,
           (r->row->flags & PTXPACK_VARIANT_ARCH_SPECIFIC) != 0 ? "a" : "", r->row->isa / 10, r->row->isa % 10);
    printf("tiles      %lld x %lld, %lld of them, %lld stages; ",
           (long long)ptxpack_variant_parameter(r->row, "BLOCK_M", 0),
           (long long)ptxpack_variant_parameter(r->row, "BLOCK_N", 0), (long long)tiles_of(r),
           (long long)ptxpack_variant_parameter(r->row, "STAGES", 0));
    printf("%d threads, %d block%s an SM; clusters of %lld x %lld x %lld blocks (down, across, parts of k)\n",
           r->row->threads, r->row->blocks_per_sm, r->row->blocks_per_sm == 1 ? "" : "s", (long long)cluster[0],
           (long long)cluster[1], (long long)cluster[2]);
    report_candidates(handle, r, false);
}

static void print_figures(const gemm_report *r)
{
    if (r->compiled.resources.registers > 0)
        printf("\nregisters  the compiler takes %d and spills %d bytes\n", r->compiled.resources.registers,
               r->compiled.resources.spill_store_bytes);
    else
        printf("\nregisters  not compiled: %s\n", r->not_compiled);
    printf("FLOPs      %.4g\n", flops_of(r));
    printf("bytes      %.4g, each input read once and the output written once: %.4g FLOPs a byte\n",
           bytes_of(r), flops_of(r) / bytes_of(r));
    printf("roofline   %s: %.4g TFLOP/s, %.4g GB/s\n", r->where.name, r->where.tflops, r->where.gbps);
    printf("           arithmetic %.4g ms, memory %.4g ms: bound by %s\n", arithmetic_ms(r), memory_ms(r),
           arithmetic_ms(r) >= memory_ms(r) ? "arithmetic" : "memory");
}

static void json_report(const ptxpack *handle, const gemm_report *r)
{
    json_open(NULL, '{');
    json_text("dtype", ptxpack_dtype_name(r->desc.dtype));
    json_int("m", r->desc.m);
    json_int("n", r->desc.n);
    json_int("k", r->desc.k);
    json_int("batch", r->geometry.batch);
    json_text("target", r->target);
    json_text("variant", r->row->id);
    json_int("tiles", tiles_of(r));
    for (int i = 0; i < r->row->parameter_count; i++)
        json_int(r->row->parameters[i].name, r->row->parameters[i].value);
    json_int("shared_bytes", r->row->shared_bytes);
    if (r->compiled.resources.registers > 0) {
        json_int("registers", r->compiled.resources.registers);
        json_int("spill_store_bytes", r->compiled.resources.spill_store_bytes);
    }
    json_real("flops", flops_of(r));
    json_real("bytes", bytes_of(r));
    json_text("machine", r->where.name);
    json_real("arithmetic_ms", arithmetic_ms(r));
    json_real("memory_ms", memory_ms(r));
    report_candidates(handle, r, true);
    json_close();
}

/* The layouts are the row's; E_UNSUPPORTED where it contradicts itself. */
static int print_layouts(const gemm_report *r)
{
    ptxpack_status status = PTXPACK_E_MEMORY;
    void          *own;
    if (gemm_kernel_of(r->row) == &gemm_wgmma) {
        gemm_wgmma_layout       *made;
        const gemm_wgmma_layout *l = ptxpack_gemm_wgmma_layout_of(r->row, &made);
        own = made;
        status = l != NULL ? l->status : status;
        if (status == PTXPACK_OK)
            print_wgmma(r, l);
    } else {
        gemm_mma_layout       *made;
        const gemm_mma_layout *l = ptxpack_gemm_mma_layout_of(r->row, &made);
        own = made;
        status = l != NULL ? l->status : status;
        if (status == PTXPACK_OK)
            print_mma(r, l);
    }
    free(own);
    return status == PTXPACK_OK ? COMMAND_OK : command_fail("plan", "%s", ptxpack_detail(NULL));
}

static void compile(const settings *s, ptxpack *handle, gemm_report *r)
{
    ptxpack_symbol symbols[PTXPACK_INSTANCE_SYMBOLS];
    size_t         count = gemm_kernel_of(r->row)->symbols(r->row, ptxpack_gemm_build(&r->desc), symbols);
    if (s->no_compile)
        snprintf(r->not_compiled, sizeof r->not_compiled, "--no-compile");
    else if (count == 0)
        snprintf(r->not_compiled, sizeof r->not_compiled, "%.200s", ptxpack_detail(NULL));
    else if (ptxpack_device(handle)->caps.isa == 0)
        snprintf(r->not_compiled, sizeof r->not_compiled, "%.200s", ptxpack_device(handle)->route);
    else if (ptxpack_kernel_compile(handle, r->row, symbols, count, &r->compiled, NULL, NULL) != PTXPACK_OK)
        snprintf(r->not_compiled, sizeof r->not_compiled, "%.200s", ptxpack_detail(handle));
}

static int choose(const settings *s, ptxpack *handle, gemm_report *r)
{
    char line[GEMM_WHY];
    if (s->variant == NULL)
        return ptxpack_gemm_choose(handle, &r->desc, &r->row) == PTXPACK_OK
                   ? COMMAND_OK
                   : command_fail("plan", "%s", ptxpack_detail(handle));
    r->row = ptxpack_variant_find(s->variant);
    if (r->row == NULL || gemm_kernel_of(r->row) == NULL) {
        command_fail("plan", "--variant: \"%s\" is no gemm kernel; `ptxpack list` has them all", s->variant);
        return COMMAND_USAGE;
    }
    if (ptxpack_gemm_row_refusal(handle, &r->desc, r->row, line) != NULL)
        return command_fail("plan", "--variant: %s %s", s->variant, line);
    return COMMAND_OK;
}

static int plan_on(const settings *s, ptxpack *handle, gemm_report *r)
{
    const ptxpack_device_info *device = ptxpack_device(handle);
    int                        status = choose(s, handle, r);
    if (status != COMMAND_OK)
        return status;
    snprintf(r->target, sizeof r->target, "%s%s%s", device->target, device->name[0] ? ", " : "", device->name);
    r->where = plan_machine(handle, r->desc.dtype, s->tflops, s->gbps);
    compile(s, handle, r);
    if (s->json) {
        json_report(handle, r);
        return COMMAND_OK;
    }
    print_report(handle, r);
    status = print_layouts(r);
    if (status == COMMAND_OK)
        print_figures(r);
    return status;
}

/* ---- options ------------------------------------------------------------------------------------------ */
static int take_order(const char *name, const char *text, ptxpack_order *order)
{
    *order = strcmp(text, "column") == 0 ? PTXPACK_COLUMN_MAJOR : PTXPACK_ROW_MAJOR;
    if (*order == PTXPACK_COLUMN_MAJOR || strcmp(text, "row") == 0)
        return COMMAND_OK;
    return command_fail("plan", "--%s: \"%s\" is neither row nor column", name, text), COMMAND_USAGE;
}

static int take_extent(const char *name, int64_t value, int32_t *out)
{
    *out = (int32_t)value;
    return value >= 0 && value <= INT32_MAX
               ? COMMAND_OK
               : (command_fail("plan", "%s: %lld is not in 0..%d", name, (long long)value, INT32_MAX),
                  COMMAND_USAGE);
}

/* Lines that are no multiple of 8 elements are taken to be padded. */
static void pad(ptxpack_gemm_desc *d)
{
    const bool a_column = d->order_a == PTXPACK_COLUMN_MAJOR, b_column = d->order_b == PTXPACK_COLUMN_MAJOR;
    d->stride_a = ((int64_t)(a_column ? d->m : d->k) + 7) / 8 * 8;
    d->stride_b = ((int64_t)(b_column ? d->k : d->n) + 7) / 8 * 8;
    d->stride_c = d->stride_d = ((int64_t)d->n + 7) / 8 * 8;
    d->batch_a = d->stride_a * (a_column ? d->k : d->m);
    d->batch_b = d->stride_b * (b_column ? d->n : d->k);
    d->batch_c = d->batch_d = d->stride_d * d->m;
}

static int describe(const settings *s, gemm_report *r)
{
    char               line[GEMM_LINE];
    ptxpack_gemm_desc *d = &r->desc;
    *d = (ptxpack_gemm_desc){.size = sizeof *d,
                             .dtype = ptxpack_dtype_of(s->dtype),
                             .has_c = s->c,
                             .has_bias = s->bias};
    const int each[] = {take_extent("-m", s->m, &d->m),
                        take_extent("-n", s->n, &d->n),
                        take_extent("-k", s->k, &d->k),
                        take_extent("--batch", s->batch, &d->batch),
                        take_order("order-a", s->order_a, &d->order_a),
                        take_order("order-b", s->order_b, &d->order_b)};
    for (size_t i = 0; i < sizeof each / sizeof each[0]; i++)
        if (each[i] != COMMAND_OK)
            return each[i];
    if (d->dtype != PTXPACK_F16 && d->dtype != PTXPACK_BF16)
        return command_fail("plan", "--dtype: \"%s\" is neither f16 nor bf16", s->dtype), COMMAND_USAGE;
    pad(d);
    if (ptxpack_gemm_resolve(d, &r->geometry, line) != PTXPACK_OK)
        return command_fail("plan", "%s", line), COMMAND_USAGE;
    return COMMAND_OK;
}

int plan_gemm(int argc, char **argv)
{
    settings     s = {.m = 4096,
                      .n = 4096,
                      .k = 4096,
                      .batch = 1,
                      .dtype = "bf16",
                      .order_a = "row",
                      .order_b = "row",
                      .tflops = NAN,
                      .gbps = NAN};
    const option rows[] = {
        {"m", OPTION_INT, &s.m, "N  rows (default 4096)"},
        {"n", OPTION_INT, &s.n, "N  columns (default 4096)"},
        {"k", OPTION_INT, &s.k, "N  what is summed over (default 4096)"},
        {"batch", OPTION_INT, &s.batch, "N  matrices (default 1)"},
        {"order-a", OPTION_TEXT, &s.order_a, "row|column  what of A lies side by side (default row)"},
        {"order-b", OPTION_TEXT, &s.order_b, "row|column  (default row)"},
        {"c", OPTION_FLAG, &s.c, "a C is added"},
        {"bias", OPTION_FLAG, &s.bias, "a bias is added"},
        {"dtype", OPTION_TEXT, &s.dtype, "f16|bf16  (default bf16)"},
        {"arch", OPTION_TEXT, &s.arch, "sm_NN  plan for this target (Hopper: sm_90a); needs no GPU"},
        {"variant", OPTION_TEXT, &s.variant, "ID  this kernel, not the one that would be chosen"},
        {"no-compile", OPTION_FLAG, &s.no_compile, "do not ask the compiler for registers"},
        {"tflops", OPTION_REAL, &s.tflops, "X  of the roofline, in place of the device's"},
        {"gbps", OPTION_REAL, &s.gbps, "X  of the roofline, in place of the device's"},
        {"json", OPTION_FLAG, &s.json, "print JSON"},
        {NULL, OPTION_FLAG, NULL, NULL},
    };
    gemm_report r = {.row = NULL};
    ptxpack    *handle;
    int         status = command_options(argc, argv, "ptxpack plan gemm [options]", rows, NULL);
    if (status >= 0)
        return status;
    if (!plan_check_rate("tflops", s.tflops) || !plan_check_rate("gbps", s.gbps))
        return COMMAND_USAGE;
    status = describe(&s, &r);
    if (status != COMMAND_OK)
        return status;
    ptxpack_options options = {.size = sizeof options, .offline = s.arch != NULL, .arch = s.arch};
    ptxpack_status  opened = ptxpack_open(&options, &handle);
    if (opened != PTXPACK_OK) {
        command_fail("plan", "%s%s", ptxpack_detail(NULL),
                     s.arch != NULL ? "" : " (with --arch sm_NN no device is needed)");
        return s.arch != NULL && opened == PTXPACK_E_ARG ? COMMAND_USAGE : COMMAND_FAILED;
    }
    status = plan_on(&s, handle, &r);
    ptxpack_close(handle);
    return status;
}
