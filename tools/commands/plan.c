/* plan.c - ptxpack plan: shows what a kernel would do for a problem, and why: tiles, layouts, shared memory,
 * bank conflicts, registers, and the least time that arithmetic and memory take. */
#include "plan.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

/* ---- the machine ------------------------------------------------------------------------------------ */
/* Floating-point operations per clock and SM of an architecture, for dense products of 16-bit elements with f32
 * sums (8-bit elements: twice as many), and a well-known GPU of that architecture, which stands in where there
 * is no device.  The figures are from NVIDIA's data sheets. */
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

int plan_sm_count(const plan *p)
{
    const ptxpack_device_info *device = ptxpack_device(p->handle);
    return device->sm_count > 0 ? device->sm_count : machine_of(device->caps.arch)->sms;
}

static int attribute(const ptxpack *handle, unsigned which)
{
    const struct ptxpack_driver *driver = ptxpack_driver_table(handle);
    int                          value = 0;
    if (driver == NULL || driver->cuDeviceGetAttribute(&value, which, ptxpack_device(handle)->ordinal) != 0)
        return 0;
    return value;
}

/* Reports the device, or a GPU of its architecture, as {machine}; the rates are the machine's unless options
 * give them. */
static void report_machine(plan *p, ptxpack_dtype type, double *tflops, double *gbps)
{
    enum { CLOCK_KHZ = 13, MEMORY_KHZ = 36, MEMORY_BITS = 37 }; /* CU_DEVICE_ATTRIBUTE_... */
    const ptxpack_device_info *device = ptxpack_device(p->handle);
    const machine_row         *row = machine_of(device->caps.arch);
    double                     per_clock = row->flops_per_clock * 2.0 / (double)ptxpack_dtype_bytes(type);
    double khz = attribute(p->handle, CLOCK_KHZ), memory_khz = attribute(p->handle, MEMORY_KHZ);
    if (device->sm_count > 0 && khz > 0 && memory_khz > 0) {
        *tflops = 1e-9 * khz * per_clock * device->sm_count;
        *gbps = 2e-6 * memory_khz * attribute(p->handle, MEMORY_BITS) / 8;
        report_text(&p->out, "machine", "%s, %d SMs at %.2f GHz", device->name, device->sm_count, khz * 1e-6);
    } else {
        *tflops = 1e-3 * row->ghz * per_clock * row->sms;
        *gbps = row->gbps;
        report_text(&p->out, "machine", "no device; assuming one %s", row->part);
    }
    if (!isnan(p->settings->tflops))
        *tflops = p->settings->tflops;
    if (!isnan(p->settings->gbps))
        *gbps = p->settings->gbps;
}

/* ---- costs ------------------------------------------------------------------------------------------ */
/* The registers that a thread may have so that as many blocks as the row counts on share an SM: each of the
 * four parts of an SM has 16384 registers, which its warps share in units of eight a thread. */
static int register_budget(const ptxpack_variant *row)
{
    int warps = row->threads / 32 * row->blocks_per_sm;
    int budget = 16384 / 32 / ((warps + 3) / 4) / 8 * 8;
    return budget < 255 ? budget : 255;
}

const char *plan_cannot_compile(const plan *p)
{
    return p->settings->no_compile                    ? "--no-compile"
           : ptxpack_device(p->handle)->caps.isa == 0 ? ptxpack_device(p->handle)->route
                                                      : NULL;
}

static void report_registers(plan *p, const plan_costs *costs)
{
    report                     *r = &p->out;
    ptxpack_kernel_info         info;
    const ptxpack_resources    *c = &info.resources;
    const ptxpack_kernel_source source = {.variant = p->row,
                                          .symbols = costs->symbols,
                                          .symbol_count = costs->symbol_count,
                                          .texts = costs->texts,
                                          .text_count = costs->text_count};
    const char                 *reason = plan_cannot_compile(p);
    if (reason == NULL && costs->symbol_count == 0)
        reason = ptxpack_detail(NULL);
    if (reason == NULL && ptxpack_kernel_compile_source(p->handle, &source, &info) != PTXPACK_OK)
        reason = ptxpack_detail(p->handle);
    report_int(r, costs->rates ? "register_budget" : ".register_budget", register_budget(p->row));
    if (reason == NULL) {
        report_int(r, "registers", c->registers);
        report_int(r, "spill_store_bytes", c->spill_store_bytes);
        report_text(r, ".compiled", "the compiler takes %d and spills %d bytes", c->registers,
                    c->spill_store_bytes);
    } else {
        report_text(r, ".compiled", "not compiled: %.200s", reason);
    }
    report_line(r,
                "\nregisters  at most {register_budget} a thread for {blocks_per_sm block} an SM; {compiled}");
}

void plan_report_costs(plan *p, const plan_costs *costs)
{
    report *r = &p->out;
    double  tflops, gbps;
    report_registers(p, costs);
    report_real(r, "flops", costs->flops);
    report_real(r, "bytes", costs->bytes);
    report_machine(p, costs->dtype, &tflops, &gbps);
    double arithmetic = 1e-9 * costs->flops / tflops, memory = 1e-6 * costs->bytes / gbps;
    report_real(r, costs->rates ? "tflops" : ".tflops", tflops);
    report_real(r, costs->rates ? "gbps" : ".gbps", gbps);
    report_real(r, "arithmetic_ms", arithmetic);
    report_real(r, "memory_ms", memory);
    report_real(r, ".intensity", costs->flops / costs->bytes);
    report_real(r, ".ridge", 1e3 * tflops / gbps);
    report_text(r, ".bound", arithmetic >= memory ? "arithmetic" : "memory");
    report_line(r, "FLOPs      {flops}");
    report_line(
        r, "bytes      {bytes}, each input read once and each output written once: {intensity} FLOPs a byte");
    report_line(r, "roofline   {machine}: {tflops} TFLOP/s, {gbps} GB/s, ridge at {ridge} FLOPs a byte");
    report_line(r, "           arithmetic {arithmetic_ms} ms, memory {memory_ms} ms: bound by {bound}");
}

/* ---- parts of a report ------------------------------------------------------------------------------ */
void plan_report_target(plan *p)
{
    const ptxpack_device_info *device = ptxpack_device(p->handle);
    report                    *r = &p->out;
    bool                       exact = (p->row->flags & PTXPACK_VARIANT_ARCH_SPECIFIC) != 0;
    report_text(r, "target", "%s%s%s", device->target, device->name[0] ? ", " : "", device->name);
    report_text(r, "variant", "%s", p->row->id);
    report_text(r, ".needs", "%s sm_%d%s, PTX %d.%d", exact ? "only" : "from", p->row->arch, exact ? "a" : "",
                p->row->isa / 10, p->row->isa % 10);
    report_text(r, ".file", "%s", p->row->file);
    report_line(r, "target     {target}");
    report_line(r, "variant    {variant}: {file}, {needs}");
}

void plan_report_layout(plan *p, const char *name, const ptxpack_layout *layout)
{
    char text[1024];
    ptxpack_layout_print(layout, text, sizeof text);
    report_text(&p->out, name, "%s", text);
}

void plan_report_operand(plan *p, const char *name, const ptxpack_wgmma_operand *operand)
{
    report *r = &p->out;
    report_open(r, NULL, '{');
    report_text(r, "operand", "%s", name);
    report_text(r, "word", "0x%016llx", (unsigned long long)operand->word);
    report_text(r, ".major", operand->major == PTXPACK_WGMMA_K ? "K" : "MN");
    report_int(r, "leading", operand->fields.leading);
    report_int(r, "stride", operand->fields.stride);
    report_text(r, "swizzle", "%s", ptxpack_wgmma_swizzle_name(operand->fields.swizzle));
    plan_report_layout(p, "steps", &operand->steps);
    report_line(r, "  {operand:-8s} {word}: {major}-major, leading {leading}, stride {stride} bytes, "
                   "swizzle {swizzle}; steps {steps}");
    report_close(r);
}

void plan_report_map(plan *p, const ptxpack_tma_box *box, int rank)
{
    report *r = &p->out;
    report_open(r, "extents", '[');
    for (int i = 0; i < rank; i++)
        report_int(r, NULL, (int64_t)box->global_dim[i]);
    report_close(r);
    report_open(r, "stride_bytes", '[');
    for (int i = 0; i + 1 < rank; i++)
        report_int(r, NULL, (int64_t)box->global_strides[i]);
    report_close(r);
    report_open(r, "box", '[');
    for (int i = 0; i < rank; i++)
        report_int(r, NULL, box->box_dim[i]);
    report_close(r);
}

void plan_report_access(plan *p, const char *name, const char *atom, int64_t bytes,
                        const ptxpack_layout *offsets, const ptxpack_banks *banks)
{
    report *r = &p->out;
    report_open(r, NULL, '{');
    report_text(r, "name", "%s", name);
    report_text(r, "atom", "%s", atom);
    report_int(r, "bytes", bytes);
    plan_report_layout(p, "offsets", offsets);
    report_int(r, "phases", banks->phases);
    report_int(r, "conflicts", banks->conflicts);
    report_line(r, "  {name:-21s} {bytes:2d} bytes, {atom}: {offsets}");
    report_line(r, "                        {conflicts} bank conflicts in {phases} phases");
    report_close(r);
}

void plan_report_pieces(plan *p)
{
    report_line(&p->out, "\nshared memory, bytes");
    report_line(&p->out, "     from   bytes");
}

void plan_report_piece(plan *p, int64_t from, int64_t bytes, const char *format, ...)
{
    char    what[128];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    report_int(&p->out, ".from", from);
    report_int(&p->out, ".piece_bytes", bytes);
    report_text(&p->out, ".what", "%s", what);
    report_line(&p->out, "  {from:7d} {piece_bytes:7d}  {what}");
}

void plan_report_stages(plan *p, int64_t from, int64_t bytes, int64_t count, const char *what)
{
    for (int64_t i = 0; i < count; i++)
        plan_report_piece(p, from + i * bytes, bytes, "%s, stage %lld", what, (long long)i);
}

/* ---- the command ------------------------------------------------------------------------------------ */
static const plan_operation *const operations[] = {&plan_attention, &plan_gemm, &plan_parallel};
enum { OPERATIONS = sizeof operations / sizeof operations[0], OPTIONS = 48 };

const ptxpack_variant *plan_named_row(const plan *p, const char *op)
{
    const char            *id = p->settings->variant;
    const ptxpack_variant *row = ptxpack_variant_find(id);
    if (row != NULL && strcmp(row->op, op) == 0)
        return row;
    command_fail("plan", "--variant: \"%s\" is not a kernel of %s; `ptxpack list` shows all kernels", id, op);
    return NULL;
}

/* Lists the operation's options, then those of every plan. */
static void list_options(const plan_operation *operation, plan_settings *s, option rows[OPTIONS])
{
    const option common[] = {
        {"arch", OPTION_TEXT, &s->arch, "sm_NN  plan for this target (Hopper: sm_90a); needs no GPU"},
        {"variant", OPTION_TEXT, &s->variant, "ID  this kernel instead of the one that would be chosen"},
        {"no-compile", OPTION_FLAG, &s->no_compile, "do not compile to count registers"},
        {"tflops", OPTION_REAL, &s->tflops, "X  for the roofline, in place of the device's"},
        {"gbps", OPTION_REAL, &s->gbps, "X  for the roofline, in place of the device's"},
        {"json", OPTION_FLAG, &s->json, "print JSON"},
        {NULL, OPTION_FLAG, NULL, NULL},
    };
    memcpy(rows + operation->options(s, rows), common, sizeof common);
}

static bool check_rate(const char *name, double rate)
{
    if (isnan(rate) || (rate >= 1e-6 && rate <= 1e9))
        return true;
    command_fail("plan", "--%s: %g is not between 1e-6 and 1e9", name, rate);
    return false;
}

static int report_of(const plan_operation *operation, const plan_settings *s, plan *p)
{
    ptxpack_options options = {.size = sizeof options, .offline = s->arch != NULL, .arch = s->arch};
    int             status = operation->describe(p);
    if (status != COMMAND_OK)
        return status;
    ptxpack_status opened = ptxpack_open(&options, &p->handle);
    if (opened != PTXPACK_OK) {
        command_fail("plan", "%s%s", ptxpack_detail(NULL),
                     s->arch != NULL ? "" : " (with --arch sm_NN no device is needed)");
        return s->arch != NULL && opened == PTXPACK_E_ARG ? COMMAND_USAGE : COMMAND_FAILED;
    }
    p->caps = ptxpack_device(p->handle)->caps;
    if (p->caps.isa == 0) /* no compiler: the plan assumes the newest PTX ISA */
        p->caps.isa = 90;
    status = operation->fill(p);
    if (status == COMMAND_OK && s->json)
        json_open(NULL, '{');
    if (status == COMMAND_OK)
        status = report_print(&p->out, "plan", s->json);
    if (status == COMMAND_OK && s->json)
        json_close();
    return status;
}

static int make_plan(const plan_operation *operation, const plan_settings *s)
{
    plan p = {.settings = s};
    int  status = report_of(operation, s, &p);
    report_free(&p.out);
    ptxpack_close(p.handle);
    attention_translated_free(&p.translated);
    attention_problem_free(&p.attention);
    return status;
}

int cmd_plan(int argc, char **argv)
{
    plan_settings         s = {.attention = attention_settings_of("plan"),
                               .gemm = gemm_settings_of("plan"),
                               .ranks = 8,
                               .shards = "zigzag",
                               .way = "best",
                               .link = NAN,
                               .tflops = NAN,
                               .gbps = NAN};
    option                rows[OPTIONS];
    const plan_operation *operation = operations[0];
    int                   words;
    for (int i = 0; i < OPERATIONS; i++)
        if (argc > 1 && strcmp(argv[1], operations[i]->word) == 0)
            operation = operations[i];
    list_options(operation, &s, rows);
    int status = command_options(argc, argv, "ptxpack plan attention|gemm|parallel [options]", rows, &words);
    if (status >= 0)
        return status;
    if (words != 1 || strcmp(argv[1], operation->word) != 0)
        return command_fail("plan", "expected \"attention\", \"gemm\" or \"parallel\" (try --help)"),
               COMMAND_USAGE;
    if (!check_rate("tflops", s.tflops) || !check_rate("gbps", s.gbps))
        return COMMAND_USAGE;
    return make_plan(operation, &s);
}
