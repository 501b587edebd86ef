/* plan.c - "ptxpack plan": what a kernel would do for a problem, and why: tiles, layouts, shared memory,
 * bank conflicts, registers, and the time that arithmetic and memory take at least. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/problem/attention_problem.h"
#include "tools/command.h"
#include "host/layout/internal.h"
#include "plan_report.h"

typedef struct settings {
    attention_settings problem;
    const char        *arch, *variant;
    double             tflops, gbps; /* NaN: the machine's */
    bool               no_compile;
} settings;

/* ---- the machine ------------------------------------------------------------------------------------ */
/* Dense 16-bit products with f32 sums (of 8-bit ones twice as many): operations a clock and SM of an
 * architecture, and a well-known part of it that stands in where there is no device (figures of NVIDIA's data
 * sheets). */
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

machine plan_machine(const ptxpack *handle, ptxpack_dtype type, double tflops, double gbps)
{
    enum { CLOCK_KHZ = 13, MEMORY_KHZ = 36, MEMORY_BITS = 37 }; /* CU_DEVICE_ATTRIBUTE_... */
    const ptxpack_device_info *device = ptxpack_device(handle);
    const machine_row         *row = machine_of(device->caps.arch);
    double                     per_clock = row->flops_per_clock * 2.0 / (double)ptxpack_dtype_bytes(type);
    machine                    m;
    double                     khz = attribute(handle, CLOCK_KHZ), memory_khz = attribute(handle, MEMORY_KHZ);
    if (device->sm_count > 0 && khz > 0 && memory_khz > 0) {
        m.tflops = 1e-9 * khz * per_clock * device->sm_count;
        m.gbps = 2e-6 * memory_khz * attribute(handle, MEMORY_BITS) / 8;
        snprintf(m.name, sizeof m.name, "%s, %d SMs at %.2f GHz", device->name, device->sm_count, khz * 1e-6);
    } else {
        m.tflops = 1e-3 * row->ghz * per_clock * row->sms;
        m.gbps = row->gbps;
        snprintf(m.name, sizeof m.name, "no device; of one %s", row->part);
    }
    m.tflops = isnan(tflops) ? m.tflops : tflops;
    m.gbps = isnan(gbps) ? m.gbps : gbps;
    return m;
}

/* ---- what is printed -------------------------------------------------------------------------------- */
int64_t plan_tiles(const plan_report *r)
{
    int64_t block_m = ptxpack_variant_parameter(r->row, "BLOCK_M", 1);
    int64_t tiles = (r->desc->seqlen_q + block_m - 1) / block_m;
    return tiles * r->desc->batch * r->desc->heads_q;
}

void plan_json_layout(const char *key, const ptxpack_layout *l) { json_text(key, layout_text(l).text); }

static double arithmetic_ms(const plan_report *r) { return 1e-9 * r->flops / r->where.tflops; }

static double memory_ms(const plan_report *r) { return 1e-6 * r->bytes / r->where.gbps; }

static void print_problem(const plan_report *r)
{
    const ptxpack_attention_desc *d = r->desc;
    printf("problem    %s, batch %d, %d x %d (queries x keys), %d query heads on %d, head_dim %d, %s\n",
           ptxpack_dtype_name(d->dtype), d->batch, d->seqlen_q, d->seqlen_kv, d->heads_q, d->heads_kv,
           d->head_dim, attention_mask_name(d).text);
    printf("target     %s\n", r->target);
    bool exact = (r->row->flags & PTXPACK_VARIANT_ARCH_SPECIFIC) != 0;
    printf("variant    %s: %s, %s sm_%d%s, PTX %d.%d\n", r->row->id, r->row->file, exact ? "only" : "from",
           r->row->arch, exact ? "a" : "", r->row->isa / 10, r->row->isa % 10);
}

/* Of a thread, when as many blocks as the row counts on share an SM: its four parts have 16384 registers
 * each, and the warps of a part share them, given out by eight. */
static int register_budget(const plan_report *r)
{
    int warps = r->row->threads / 32 * r->row->blocks_per_sm;
    int budget = 16384 / 32 / ((warps + 3) / 4) / 8 * 8;
    return budget < 255 ? budget : 255;
}

static void print_figures(const plan_report *r)
{
    const ptxpack_resources *c = &r->compiled.resources;
    printf("\nregisters  at most %d a thread for %d block%s an SM; ", register_budget(r), r->row->blocks_per_sm,
           r->row->blocks_per_sm == 1 ? "" : "s");
    if (c->registers > 0)
        printf("the compiler takes %d and spills %d bytes\n", c->registers, c->spill_store_bytes);
    else
        printf("not compiled: %s\n", r->not_compiled);
    printf("FLOPs      %.4g\n", r->flops);
    printf("bytes      %.4g, each input read once and each output written once: %.4g FLOPs a byte\n", r->bytes,
           r->flops / r->bytes);
    printf("roofline   %s: %.4g TFLOP/s, %.4g GB/s, ridge at %.4g FLOPs a byte\n", r->where.name,
           r->where.tflops, r->where.gbps, 1e3 * r->where.tflops / r->where.gbps);
    printf("           arithmetic %.4g ms, memory %.4g ms: bound by %s\n", arithmetic_ms(r), memory_ms(r),
           arithmetic_ms(r) >= memory_ms(r) ? "arithmetic" : "memory");
}

static void json_report(const plan_report *r)
{
    const ptxpack_attention_desc *d = r->desc;
    json_text("dtype", ptxpack_dtype_name(d->dtype));
    json_int("batch", d->batch);
    json_int("seqlen_q", d->seqlen_q);
    json_int("seqlen_kv", d->seqlen_kv);
    json_int("heads_q", d->heads_q);
    json_int("heads_kv", d->heads_kv);
    json_int("head_dim", d->head_dim);
    attention_mask_json(d);
    json_text("target", r->target);
    json_text("variant", r->row->id);
    r->kernel->json_tiles(r);
    r->kernel->json_layouts(r);
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
}

/* ---- the choice ------------------------------------------------------------------------------------- */
/* Whether a row belongs into the list: it could be taken, or this target just misses it. */
static bool listed(const ptxpack_device_caps *caps, const attention_candidate *c)
{
    bool near = (c->row->flags & PTXPACK_VARIANT_ARCH_SPECIFIC) != 0 ? c->row->arch == caps->arch
                                                                     : c->row->arch <= caps->arch;
    return c->refused ? near : !c->behind;
}

static double fastest(const attention_survey *survey)
{
    double best = INFINITY;
    for (size_t i = 0; i < survey->count; i++)
        if (!survey->candidate[i].refused && !survey->candidate[i].behind)
            best = fmin(best, survey->candidate[i].us);
    return best;
}

/* Why this one, or why not. */
static const char *verdict(const ptxpack *handle, const ptxpack_device_caps *caps, const plan_report *r,
                           const attention_candidate *c, char line[ATTENTION_LINE])
{
    if (c->refused)
        return ptxpack_attention_row_refusal(handle, caps, r->desc, c->row, line);
    bool chosen = c->row == r->survey.chosen;
    return c->row == r->row && r->named            ? "named by --variant"
           : !chosen                               ? ""
           : c->us <= fastest(&r->survey) * 1.0001 ? "the fastest by the model"
                                                   : "about as fast as any, and first in the table";
}

static void print_candidates(const ptxpack *handle, const ptxpack_device_caps *caps, const plan_report *r)
{
    char line[ATTENTION_LINE];
    printf("choice     estimated us, and why\n");
    for (size_t i = 0; i < r->survey.count; i++) {
        const attention_candidate *c = &r->survey.candidate[i];
        if (!listed(caps, c))
            continue;
        const char *why = verdict(handle, caps, r, c, line);
        if (c->refused)
            printf("  %-37s      no  %s\n", c->row->id, why);
        else
            printf("  %-37s %7.4g%s%s\n", c->row->id, c->us, *why ? "  " : "", why);
    }
}

static void json_candidates(const ptxpack *handle, const ptxpack_device_caps *caps, const plan_report *r)
{
    char line[ATTENTION_LINE];
    json_open("candidates", '[');
    for (size_t i = 0; i < r->survey.count; i++) {
        const attention_candidate *c = &r->survey.candidate[i];
        if (!listed(caps, c))
            continue;
        json_open(NULL, '{');
        json_text("id", c->row->id);
        if (!c->refused)
            json_real("estimated_us", c->us);
        json_text("why", verdict(handle, caps, r, c, line));
        json_close();
    }
    json_close();
}

/* ---- making it -------------------------------------------------------------------------------------- */
/* Without a compiler the newest PTX ISA is assumed: a plan is no promise that this machine can compile it. */
ptxpack_device_caps plan_caps(const ptxpack *handle)
{
    ptxpack_device_caps caps = ptxpack_device(handle)->caps;
    if (caps.isa == 0)
        caps.isa = 90;
    return caps;
}

/* Whether the row that --variant names covers the problem and runs on such a device. */
static int check_row(const char *id, const ptxpack_device_caps *caps, const ptxpack *handle,
                     const plan_report *r)
{
    char    why[ATTENTION_LINE];
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
    if (ptxpack_attention_row_refusal(handle, caps, r->desc, r->row, why) != NULL)
        return command_fail("plan", "--variant: %s %s", id, why);
    return COMMAND_OK;
}

static int choose(const settings *s, ptxpack *handle, plan_report *r)
{
    ptxpack_device_caps caps = plan_caps(handle);
    if (ptxpack_attention_survey(handle, &caps, r->desc, &r->survey) != PTXPACK_OK)
        return command_fail("plan", "%s", ptxpack_detail(handle)), COMMAND_USAGE;
    if (s->variant == NULL) {
        if (ptxpack_attention_choose(handle, &caps, r->desc, &r->row) != PTXPACK_OK)
            return command_fail("plan", "%s", ptxpack_detail(handle));
        return COMMAND_OK;
    }
    r->named = true;
    r->row = ptxpack_variant_find(s->variant);
    return check_row(s->variant, &caps, handle, r);
}

static void compile(const settings *s, ptxpack *handle, plan_report *r)
{
    ptxpack_symbol symbols[PTXPACK_INSTANCE_SYMBOLS];
    size_t         count = attention_kernel_of(r->row)->symbols(r->row, r->desc, &r->geometry, symbols);
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
    const ptxpack_device_caps  caps = plan_caps(handle);
    snprintf(r->target, sizeof r->target, "%s%s%s", device->target, device->name[0] ? ", " : "", device->name);
    r->where = plan_machine(handle, r->desc->dtype, s->tflops, s->gbps);
    r->flops = ptxpack_attention_flops(r->desc);
    r->bytes = ptxpack_attention_bytes(r->desc);
    if (s->problem.json) {
        json_open(NULL, '{');
        json_report(r);
        json_candidates(handle, &caps, r);
        json_close();
        return;
    }
    print_problem(r);
    r->kernel->print_tiles(r);
    print_candidates(handle, &caps, r);
    r->kernel->print_layouts(r);
    r->kernel->print_shared(r);
    print_figures(r);
}

static int plan_on(const settings *s, ptxpack *handle, plan_report *r)
{
    char line[ATTENTION_LINE];
    int  status = choose(s, handle, r);
    if (status != COMMAND_OK)
        return status;
    if (ptxpack_attention_resolve(r->desc, &r->geometry, line) != PTXPACK_OK)
        return command_fail("plan", "%s", line), COMMAND_USAGE;
    r->kernel = attention_kernel_of(r->row) == &attention_wgmma ? &plan_wgmma : &plan_mma;
    if (r->kernel->open(r) != PTXPACK_OK) {
        status = command_fail("plan", "%s", ptxpack_detail(NULL));
    } else {
        compile(s, handle, r);
        report(s, handle, r);
    }
    free(r->own);
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
                     s->arch != NULL ? "" : " (with --arch sm_NN no device is needed)");
        return s->arch != NULL && opened == PTXPACK_E_ARG ? COMMAND_USAGE : COMMAND_FAILED;
    }
    status = plan_on(s, handle, &r);
    ptxpack_close(handle);
    return status;
}

/* What stands in for a machine is positive and within reason. */
bool plan_check_rate(const char *name, double rate)
{
    if (isnan(rate) || (rate >= 1e-6 && rate <= 1e9))
        return true;
    command_fail("plan", "--%s: %g is not between 1e-6 and 1e9", name, rate);
    return false;
}

int cmd_plan(int argc, char **argv)
{
    settings s = {
        .problem =
            {.subcommand = "plan", .layout = "bshd", .dtype = "f16", .repeat = 1, .seed = OPTION_NOT_GIVEN},
        .tflops = NAN,
        .gbps = NAN,
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
        {"head-dim", OPTION_INT, &p->head_dim, "N  multiple of 8 (e4m3: 16) up to 256 (default 128)"},
        {"causal", OPTION_MAYBE, &p->mask.causal, "[top-left|bottom-right]  alone: bottom-right"},
        {"window", OPTION_TEXT, &p->mask.window, WINDOW_OPTION_HELP},
        {"align", OPTION_TEXT, &p->mask.align, ALIGN_OPTION_HELP},
        {"softcap", OPTION_REAL, &p->softcap, SOFTCAP_OPTION_HELP},
        {"dtype", OPTION_TEXT, &p->dtype, "f16|bf16|e4m3  (default f16)"},
        {"arch", OPTION_TEXT, &s.arch, "sm_NN  plan for this target (Hopper: sm_90a); needs no GPU"},
        {"variant", OPTION_TEXT, &s.variant, "ID  this kernel, not the one that would be chosen"},
        {"no-compile", OPTION_FLAG, &s.no_compile, "do not ask the compiler for registers"},
        {"tflops", OPTION_REAL, &s.tflops, "X  of the roofline, in place of the device's"},
        {"gbps", OPTION_REAL, &s.gbps, "X  of the roofline, in place of the device's"},
        {"json", OPTION_FLAG, &p->json, "print JSON"},
        {NULL, OPTION_FLAG, NULL, NULL},
    };
    if (argc > 1 && strcmp(argv[1], "gemm") == 0)
        return plan_gemm(argc - 1, argv + 1);
    int status = command_options(argc, argv, "ptxpack plan attention|gemm [options]", rows, &words);
    if (status >= 0)
        return status;
    if (words != 1 || strcmp(argv[1], "attention") != 0)
        return command_fail("plan", "expected \"attention\" or \"gemm\" (try --help)"), COMMAND_USAGE;
    if (!plan_check_rate("tflops", s.tflops) || !plan_check_rate("gbps", s.gbps))
        return COMMAND_USAGE;
    return plan_attention(&s);
}
