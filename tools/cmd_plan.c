/* cmd_plan.c - "ptxpack plan": what a kernel would do for a problem, and why: tiles, layouts, shared memory,
 * bank conflicts, registers, and the time that arithmetic and memory take at least. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention_plan.h"
#include "attention_problem.h"
#include "command.h"
#include "layout_internal.h"
#include "ptxpack.h"

typedef struct settings {
    attention_settings problem;
    const char        *arch, *variant;
    double             tflops, gbps; /* NaN: the machine's */
    bool               no_compile;
} settings;

/* ---- the machine ------------------------------------------------------------------------------------ */
/* Dense 16-bit products with f32 sums: operations a clock and SM of an architecture, and a well-known part of
 * it that stands in where there is no device (figures of NVIDIA's data sheets). */
typedef struct machine_row {
    int         arch, flops_per_clock, sms;
    double      ghz, gbps;
    const char *part;
} machine_row;
static const machine_row machine_rows[] = {
    {75, 1024, 40, 1.59, 320, "T4"},         {80, 2048, 108, 1.41, 2039, "A100 80 GB"},
    {86, 1024, 84, 1.74, 696, "A40"},        {89, 1024, 142, 2.49, 864, "L40S"},
    {90, 4096, 132, 1.83, 4800, "H200"},     {100, 8192, 148, 1.85, 8000, "B200"},
    {120, 512, 170, 2.41, 1792, "RTX 5090"},
};
enum { MACHINES = sizeof machine_rows / sizeof machine_rows[0] };

typedef struct machine {
    char   name[128];
    double tflops, gbps;
} machine;

/* The last row that is not above `arch`. */
static const machine_row *machine_of(int arch)
{
    const machine_row *found = &machine_rows[0];
    for (int i = 0; i < MACHINES; i++)
        if (machine_rows[i].arch <= arch)
            found = &machine_rows[i];
    return found;
}

static int attribute(const ptxpack *handle, unsigned which)
{
    const struct ptxpack_driver *driver = ptxpack_driver_table(handle);
    int                          value = 0;
    if (driver == NULL || driver->cuDeviceGetAttribute(&value, which, ptxpack_device(handle)->ordinal) != 0)
        return 0;
    return value;
}

static machine find_machine(const ptxpack *handle, const settings *s)
{
    enum { CLOCK_KHZ = 13, MEMORY_KHZ = 36, MEMORY_BITS = 37 }; /* CU_DEVICE_ATTRIBUTE_... */
    const ptxpack_device_info *device = ptxpack_device(handle);
    const machine_row         *row = machine_of(device->caps.arch);
    machine                    m;
    double khz = attribute(handle, CLOCK_KHZ), memory_khz = attribute(handle, MEMORY_KHZ);
    if (device->sm_count > 0 && khz > 0 && memory_khz > 0) {
        m.tflops = 1e-9 * khz * row->flops_per_clock * device->sm_count;
        m.gbps = 2e-6 * memory_khz * attribute(handle, MEMORY_BITS) / 8;
        snprintf(m.name, sizeof m.name, "%s, %d SMs at %.2f GHz", device->name, device->sm_count, khz * 1e-6);
    } else {
        m.tflops = 1e-3 * row->ghz * row->flops_per_clock * row->sms;
        m.gbps = row->gbps;
        snprintf(m.name, sizeof m.name, "no device; of one %s", row->part);
    }
    m.tflops = isnan(s->tflops) ? m.tflops : s->tflops;
    m.gbps = isnan(s->gbps) ? m.gbps : s->gbps;
    return m;
}

/* ---- what is printed -------------------------------------------------------------------------------- */
typedef struct plan_report {
    const ptxpack_attention_desc *desc;
    const ptxpack_variant        *row;
    const attention_layout       *layout;
    attention_geometry            geometry;
    machine                       where;
    char                          target[128];
    ptxpack_kernel_info           compiled; /* registers > 0 when it was                      */
    char                          not_compiled[256];
    double                        flops, bytes;
} plan_report;

static double arithmetic_ms(const plan_report *r)
{
    return 1e-9 * r->flops / r->where.tflops;
}

static double memory_ms(const plan_report *r)
{
    return 1e-6 * r->bytes / r->where.gbps;
}

static const char *mask_name(ptxpack_mask mask)
{
    return mask == PTXPACK_MASK_NONE              ? "no mask"
         : mask == PTXPACK_MASK_CAUSAL_TOP_LEFT ? "causal top-left"
                                                : "causal bottom-right";
}

static int64_t blocks_of(const plan_report *r)
{
    int64_t tiles = (r->desc->seqlen_q + r->layout->block_m - 1) / r->layout->block_m;
    return tiles * r->desc->batch * r->desc->heads_q;
}

static void print_problem(const plan_report *r)
{
    const ptxpack_attention_desc *d = r->desc;
    const attention_layout       *l = r->layout;
    printf("problem    %s, batch %d, %d x %d (queries x keys), %d query heads on %d, head_dim %d, %s\n",
           ptxpack_dtype_name(d->dtype), d->batch, d->seqlen_q, d->seqlen_kv, d->heads_q, d->heads_kv,
           d->head_dim, mask_name(d->mask));
    printf("target     %s\n", r->target);
    printf("variant    %s: %s, from sm_%d, PTX %d.%d\n", r->row->id, r->row->file, r->row->arch,
           r->row->isa / 10, r->row->isa % 10);
    printf("tiles      %lld queries x %lld keys, %lld stage%s; ", (long long)l->block_m,
           (long long)l->block_n, (long long)l->stages, l->stages == 1 ? "" : "s");
    printf("%lld warps of %lld rows; %lld blocks, %d an SM\n", (long long)l->warps,
           (long long)(l->block_m / l->warps), (long long)blocks_of(r), r->row->blocks_per_sm);
}

/* The MMA atom of the kernel that runs. */
static const char *instruction(const plan_report *r)
{
    return ptxpack_attention_instruction(r->layout, r->desc->dtype);
}

static void print_layouts(const plan_report *r)
{
    const attention_layout *l = r->layout;
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
               a->atom, layout_text(&a->offsets).text, "", (long long)banks.conflicts,
               (long long)banks.phases);
    }
}

static void print_place(int64_t from, int64_t bytes, const char *what)
{
    printf("  %7lld %7lld  %s", (long long)from, (long long)bytes, what);
}

static void print_shared(const plan_report *r)
{
    const attention_layout *l = r->layout;
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

/* Of a thread, when as many blocks as the row counts on share the registers of an SM, given out by eight. */
static int register_budget(const plan_report *r)
{
    int budget = 65536 / (r->row->threads * r->row->blocks_per_sm) / 8 * 8;
    return budget < 255 ? budget : 255;
}

static void print_figures(const plan_report *r)
{
    const ptxpack_resources *c = &r->compiled.resources;
    printf("\nregisters  at most %d a thread for %d blocks an SM; ", register_budget(r),
           r->row->blocks_per_sm);
    if (c->registers > 0)
        printf("the compiler takes %d and spills %d bytes\n", c->registers, c->spill_store_bytes);
    else
        printf("not compiled: %s\n", r->not_compiled);
    printf("FLOPs      %.4g\n", r->flops);
    printf("bytes      %.4g, each input read once and each output written once: %.4g FLOPs a byte\n",
           r->bytes, r->flops / r->bytes);
    printf("roofline   %s: %.4g TFLOP/s, %.4g GB/s, ridge at %.4g FLOPs a byte\n", r->where.name,
           r->where.tflops, r->where.gbps, 1e3 * r->where.tflops / r->where.gbps);
    printf("           arithmetic %.4g ms, memory %.4g ms: bound by %s\n", arithmetic_ms(r), memory_ms(r),
           arithmetic_ms(r) >= memory_ms(r) ? "arithmetic" : "memory");
}

static void json_layout(const char *key, const ptxpack_layout *l)
{
    json_text(key, layout_text(l).text);
}

static void json_layouts(const plan_report *r)
{
    const attention_layout *l = r->layout;
    json_open("layouts", '{');
    json_layout("q", &l->q);
    json_layout("kv", &l->kv);
    json_text("atom", instruction(r));
    json_layout("atoms", &l->mma.thr_layout_vmnk);
    json_layout("tile", &l->mma.permutation_mnk);
    json_close();
    json_open("accesses", '[');
    for (int id = 0; id < ACCESS_COUNT; id++) {
        ptxpack_banks banks = ptxpack_attention_banks(l, (attention_access_id)id);
        json_open(NULL, '{');
        json_text("name", l->access[id].name);
        json_text("atom", l->access[id].atom);
        json_int("bytes", l->access[id].bytes);
        json_layout("offsets", &l->access[id].offsets);
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

static void json_report(const plan_report *r)
{
    const ptxpack_attention_desc *d = r->desc;
    const attention_layout       *l = r->layout;
    json_open(NULL, '{');
    json_text("dtype", ptxpack_dtype_name(d->dtype));
    json_int("batch", d->batch);
    json_int("seqlen_q", d->seqlen_q);
    json_int("seqlen_kv", d->seqlen_kv);
    json_int("heads_q", d->heads_q);
    json_int("heads_kv", d->heads_kv);
    json_int("head_dim", d->head_dim);
    json_text("mask", mask_name(d->mask));
    json_text("target", r->target);
    json_text("variant", r->row->id);
    json_int("block_m", l->block_m);
    json_int("block_n", l->block_n);
    json_int("stages", l->stages);
    json_int("warps", l->warps);
    json_int("blocks", blocks_of(r));
    json_int("blocks_per_sm", r->row->blocks_per_sm);
    json_layouts(r);
    json_int("register_budget", register_budget(r));
    if (r->compiled.resources.registers > 0) {
        json_int("registers", r->compiled.resources.registers);
        json_int("spill_store_bytes", r->compiled.resources.spill_store_bytes);
    }
    json_real("flops", r->flops);
    json_real("bytes", r->bytes);
    json_text("machine", r->where.name);
    json_real("tflops", r->where.tflops);
    json_real("gbps", r->where.gbps);
    json_real("arithmetic_ms", arithmetic_ms(r));
    json_real("memory_ms", memory_ms(r));
    json_close();
}

/* ---- making it -------------------------------------------------------------------------------------- */
/* Without a compiler the newest PTX ISA is assumed: a plan is no promise that this machine can compile it. */
static ptxpack_device_caps assumed_caps(const ptxpack *handle)
{
    ptxpack_device_caps caps = ptxpack_device(handle)->caps;
    if (caps.isa == 0)
        caps.isa = 90;
    return caps;
}

/* Whether the row that --variant names covers the problem and runs on such a device. */
static int check_row(const char *id, const ptxpack_device_caps *caps, const plan_report *r)
{
    char    why[256];
    int64_t head_dim;
    if (r->row == NULL || strcmp(r->row->op, "attention") != 0) {
        command_fail("plan", "--variant: \"%s\" is no attention kernel; `ptxpack list` has them all", id);
        return COMMAND_USAGE;
    }
    head_dim = ptxpack_variant_parameter(r->row, "HEAD_DIM", 0);
    if (head_dim < r->desc->head_dim) {
        command_fail("plan", "--variant: %s is for head_dim up to %lld", id, (long long)head_dim);
        return COMMAND_USAGE;
    }
    if (r->desc->dtype == PTXPACK_BF16 && (r->row->flags & PTXPACK_VARIANT_NO_BF16) != 0) {
        command_fail("plan", "--variant: the instructions of %s have no bf16 form", id);
        return COMMAND_USAGE;
    }
    if (ptxpack_variant_refusal(r->row, caps, why, sizeof why) != NULL)
        return command_fail("plan", "--variant: %s %s", id, why);
    return COMMAND_OK;
}

static int choose(const settings *s, ptxpack *handle, plan_report *r)
{
    ptxpack_device_caps caps = assumed_caps(handle);
    if (s->variant == NULL) {
        if (ptxpack_attention_choose(handle, &caps, r->desc, &r->row) != PTXPACK_OK)
            return command_fail("plan", "%s", ptxpack_detail(handle));
        return COMMAND_OK;
    }
    r->row = ptxpack_variant_find(s->variant);
    return check_row(s->variant, &caps, r);
}

static void compile(const settings *s, ptxpack *handle, plan_report *r)
{
    ptxpack_symbol  symbols[PTXPACK_INSTANCE_SYMBOLS];
    attention_build build = {r->desc->dtype, r->geometry.causal, r->desc->head_dim < r->layout->head_dim};
    size_t          count = ptxpack_attention_symbols(r->layout, build, symbols);
    if (s->no_compile)
        snprintf(r->not_compiled, sizeof r->not_compiled, "--no-compile");
    else if (count == 0)
        snprintf(r->not_compiled, sizeof r->not_compiled, "%.200s", ptxpack_detail(NULL));
    else if (ptxpack_device(handle)->caps.isa == 0)
        snprintf(r->not_compiled, sizeof r->not_compiled, "%.200s", ptxpack_device(handle)->route);
    else if (ptxpack_kernel_compile(handle, r->row, symbols, count, &r->compiled, NULL, NULL) != PTXPACK_OK)
        snprintf(r->not_compiled, sizeof r->not_compiled, "%.200s", ptxpack_detail(handle));
}

static void report(const settings *s, ptxpack *handle, plan_report *r)
{
    const ptxpack_device_info *device = ptxpack_device(handle);
    snprintf(r->target, sizeof r->target, "%s%s%s", device->target, device->name[0] ? ", " : "",
             device->name);
    r->where = find_machine(handle, s);
    r->flops = ptxpack_attention_flops(r->desc);
    r->bytes = ptxpack_attention_bytes(r->desc);
    if (s->problem.json) {
        json_report(r);
        return;
    }
    print_problem(r);
    print_layouts(r);
    print_shared(r);
    print_figures(r);
}

static int plan_on(const settings *s, ptxpack *handle, plan_report *r)
{
    attention_layout *own = NULL;
    char              line[ATTENTION_LINE];
    int               status = choose(s, handle, r);
    if (status != COMMAND_OK)
        return status;
    if (ptxpack_attention_resolve(r->desc, &r->geometry, line) != PTXPACK_OK)
        return command_fail("plan", "%s", line), COMMAND_USAGE;
    r->layout = ptxpack_attention_layout_of(r->row, &own);
    if (r->layout == NULL || r->layout->status != PTXPACK_OK) {
        status = command_fail("plan", "%s", ptxpack_detail(NULL));
    } else {
        compile(s, handle, r);
        report(s, handle, r);
    }
    free(own);
    return status;
}

static int plan_attention(const settings *s)
{
    attention_problem p = {.ms = 0};
    plan_report       r = {.desc = &p.desc};
    ptxpack          *handle;
    ptxpack_options   options = {.size = sizeof options, .offline = s->arch != NULL, .arch = s->arch};
    int               status = attention_problem_describe(&s->problem, &p);
    if (status != COMMAND_OK)
        return status;
    ptxpack_status opened = ptxpack_open(&options, &handle);
    if (opened != PTXPACK_OK) {
        command_fail("plan", "%s%s", ptxpack_detail(NULL),
                     s->arch ? "" : " (with --arch sm_NN no device is needed)");
        return s->arch != NULL && opened == PTXPACK_E_ARG ? COMMAND_USAGE : COMMAND_FAILED;
    }
    status = plan_on(s, handle, &r);
    ptxpack_close(handle);
    return status;
}

/* What stands in for a machine is positive and within reason. */
static bool check_rate(const char *name, double rate)
{
    if (isnan(rate) || (rate >= 1e-6 && rate <= 1e9))
        return true;
    command_fail("plan", "--%s: %g is not between 1e-6 and 1e9", name, rate);
    return false;
}

int cmd_plan(int argc, char **argv)
{
    settings s = {
        .problem = {.subcommand = "plan", .layout = "bshd", .dtype = "f16", .repeat = 1,
                    .seed = OPTION_NOT_GIVEN},
        .tflops = NAN, .gbps = NAN,
    };
    attention_settings *p = &s.problem;
    int                 words;
    p->batch = p->seqlen_q = p->seqlen_kv = p->heads_q = p->heads_kv = p->head_dim = OPTION_NOT_GIVEN;
    const option rows[] = {
        {"batch", OPTION_INT, &p->batch, "N  (default 2)"},
        {"seqlen-q", OPTION_INT, &p->seqlen_q, "N  query rows (default 2048)"},
        {"seqlen-kv", OPTION_INT, &p->seqlen_kv, "N  keys (default: as seqlen-q)"},
        {"heads-q", OPTION_INT, &p->heads_q, "N  query heads (default 16)"},
        {"heads-kv", OPTION_INT, &p->heads_kv, "N  key heads (default: as heads-q)"},
        {"head-dim", OPTION_INT, &p->head_dim, "N  multiple of 8 up to 256 (default 128)"},
        {"causal", OPTION_MAYBE, &p->causal, "[top-left|bottom-right]  alone: bottom-right"},
        {"dtype", OPTION_TEXT, &p->dtype, "f16|bf16  (default f16)"},
        {"arch", OPTION_TEXT, &s.arch, "sm_NN  plan for this target; needs no GPU"},
        {"variant", OPTION_TEXT, &s.variant, "ID  this kernel, not the one that would be chosen"},
        {"no-compile", OPTION_FLAG, &s.no_compile, "do not ask the compiler for registers"},
        {"tflops", OPTION_REAL, &s.tflops, "X  of the roofline, in place of the device's"},
        {"gbps", OPTION_REAL, &s.gbps, "X  of the roofline, in place of the device's"},
        {"json", OPTION_FLAG, &p->json, "print JSON"},
        {NULL, OPTION_FLAG, NULL, NULL},
    };
    int status = command_options(argc, argv, "ptxpack plan attention [options]", rows, &words);
    if (status >= 0)
        return status;
    if (words != 1 || strcmp(argv[1], "attention") != 0)
        return command_fail("plan", "expected \"attention\" (try --help)"), COMMAND_USAGE;
    if (!check_rate("tflops", s.tflops) || !check_rate("gbps", s.gbps))
        return COMMAND_USAGE;
    return plan_attention(&s);
}
