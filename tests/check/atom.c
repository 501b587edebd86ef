/* atom.c - checks the tables of atoms against the hardware: every mma.sync, every copy of a warp, and wgmma
 * with its descriptors is executed on experiments (probe.h) and compared with what the table says.  Each atom
 * prints one line. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "tests/support/probe.h"

enum { INPUTS = 6, REASONS = 16 };

typedef struct reason { /* why atoms were left out */
    char why[256];
    int  count;
} reason;

typedef struct runner {
    check          *c;
    ptxpack_kernel *kernel;
    check_buffer    input[INPUTS], output;
    bool            fault; /* of the GPU: gpu.line says which */
    reason          skipped[REASONS];
} runner;

/* ---- executors ------------------------------------------------------------------------------------- */
/* Copies an array to the device; returns 0 after a failure. */
static uint64_t give(runner *r, int slot, const void *from, size_t bytes)
{
    device *gpu = &r->c->gpu;
    bool    ok = check_reserve(r->c, &r->input[slot], bytes + 1) &&
              (bytes == 0 || device_upload(gpu, r->input[slot].address, from, bytes));
    r->fault = r->fault || !ok;
    return ok ? r->input[slot].address : 0;
}

/* Allocates the answer and fills it with poison. */
static uint64_t make_room(runner *r, size_t bytes)
{
    device *gpu = &r->c->gpu;
    bool    ok = check_reserve(r->c, &r->output, bytes) &&
              device_try(gpu, gpu->driver->cuMemsetD8Async(r->output.address, 0xff, bytes, gpu->stream),
                         "cuMemsetD8Async");
    r->fault = r->fault || !ok;
    return ok ? r->output.address : 0;
}

static bool launch(runner *r, size_t x, size_t y, const void *arguments, void *answer, size_t bytes)
{
    device        *gpu = &r->c->gpu;
    const uint32_t grid[3] = {(uint32_t)x, (uint32_t)y, 1};
    bool ok = !r->fault && device_status(gpu, ptxpack_kernel_launch(r->kernel, grid, arguments, gpu->stream)) &&
              device_download(gpu, answer, r->output.address, bytes);
    r->fault = r->fault || !ok;
    return ok;
}

static bool execute_mma(void *context, const probe_batch *b)
{
    runner                   *r = (runner *)context;
    const size_t              word = sizeof(uint32_t) * PROBE_LANES;
    const size_t              bytes = b->planes * b->experiments * (size_t)b->words[PROBE_C] * word;
    const probe_mma_arguments arguments = {
        .a = give(r, 0, b->operand[PROBE_A], b->planes * (size_t)b->words[PROBE_A] * word),
        .b = give(r, 1, b->operand[PROBE_B], b->planes * (size_t)b->words[PROBE_B] * word),
        .c = give(r, 2, b->operand[PROBE_C], b->planes * (size_t)b->words[PROBE_C] * word),
        .patch = give(r, 3, b->patch, b->experiments * sizeof *b->patch),
        .d = make_room(r, bytes),
    };
    return launch(r, b->experiments, b->planes, &arguments, b->d, bytes);
}

static bool execute_copy(void *context, const probe_copy_batch *b)
{
    runner                    *r = (runner *)context;
    const size_t               n = b->experiments, lanes = sizeof(uint32_t) * PROBE_LANES;
    const probe_copy_arguments arguments = {
        .image = give(r, 0, b->image, n * PROBE_IMAGE),
        .source = give(r, 1, b->source, n * PROBE_IMAGE),
        .where = give(r, 2, b->where, n * 2 * lanes),
        .words = give(r, 3, b->words, n * PROBE_COPY_WORDS * lanes),
        .after = make_room(r, n * PROBE_AFTER),
    };
    return launch(r, n, 1, &arguments, b->after, n * PROBE_AFTER);
}

static bool execute_wgmma(void *context, const probe_wgmma_batch *b)
{
    runner                     *r = (runner *)context;
    const size_t                n = b->trials, word = sizeof(uint32_t) * PROBE_WARP_GROUP;
    const size_t                bytes = n * (size_t)b->c_words * word;
    const probe_wgmma_arguments arguments = {
        .a = give(r, 0, b->a, n * b->a_bytes),
        .b = give(r, 1, b->b, n * b->b_bytes),
        .a_words = give(r, 2, b->a_words, n * PROBE_STEPS * PROBE_A_REGISTERS * word),
        .c = give(r, 3, b->c, bytes),
        .descriptors = give(r, 4, b->descriptors, n * 2 * PROBE_STEPS * sizeof *b->descriptors),
        .d = make_room(r, bytes),
    };
    return launch(r, n, 1, &arguments, b->d, bytes);
}

/* ---- a case ---------------------------------------------------------------------------------------- */
static void skip(runner *r, const char *why)
{
    for (int i = 0; i < REASONS; i++) {
        if (r->skipped[i].count == 0)
            snprintf(r->skipped[i].why, sizeof r->skipped[i].why, "%s", why);
        if (strcmp(r->skipped[i].why, why) == 0 || i == REASONS - 1) {
            r->skipped[i].count++;
            return;
        }
    }
}

/* Whether a case runs on this device. */
static bool begin(runner *r, const char *name, const probe_kernel *kernel)
{
    char why[256];
    if (atomic_load(&r->c->broken) || !check_wanted(r->c, name))
        return false;
    if (ptxpack_variant_refusal(kernel->variant, &ptxpack_device(r->c->gpu.handle)->caps, why, sizeof why) !=
        NULL) {
        skip(r, why);
        return false;
    }
    if (r->c->list)
        puts(name);
    return !r->c->list;
}

static bool load(runner *r, const char *name, const probe_kernel *kernel)
{
    r->fault = false;
    bool ok = device_status(&r->c->gpu, ptxpack_kernel_load(r->c->gpu.handle, kernel->variant, kernel->symbols,
                                                            kernel->symbol_count, &r->kernel));
    if (!ok)
        check_record(r->c, name, r->c->gpu.line);
    return ok;
}

static void report(runner *r, const char *name, probe_verdict verdict, const char *line)
{
    if (r->fault) {
        check_broken(r->c, name, r->c->gpu.line);
        return;
    }
    check_record(r->c, name, verdict == PROBE_PROVEN ? NULL : line);
    if (!r->c->quiet && verdict == PROBE_PROVEN)
        printf("proven   %s\n", name);
}

static void run_mma(runner *r, const ptxpack_mma_atom *atom, const probe_mma *mma)
{
    char         name[128], line[PROBE_LINE] = "";
    probe_kernel kernel;
    snprintf(name, sizeof name, "atom %s", atom->name);
    probe_mma_kernel(atom, ptxpack_device(r->c->gpu.handle)->caps.arch, &kernel);
    if (begin(r, name, &kernel) && load(r, name, &kernel))
        report(r, name, probe_mma_prove(mma, execute_mma, r, r->c->seed, line), line);
}

static void run_wgmma(runner *r, const ptxpack_mma_atom *atom, ptxpack_wgmma_major a, ptxpack_wgmma_major b)
{
    char         name[128], line[PROBE_LINE] = "";
    probe_kernel kernel;
    snprintf(name, sizeof name, "atom %s %c%c", atom->name, a == PTXPACK_WGMMA_K ? 'K' : 'M',
             b == PTXPACK_WGMMA_K ? 'K' : 'N');
    probe_wgmma_kernel(atom, a, b, &kernel);
    if (begin(r, name, &kernel) && load(r, name, &kernel))
        report(r, name, probe_wgmma_prove(atom, a, b, execute_wgmma, r, r->c->seed, line), line);
}

static void run_copy(runner *r, const ptxpack_copy_atom *atom)
{
    char         name[128], line[PROBE_LINE] = "";
    probe_copy   copy;
    probe_kernel kernel;
    snprintf(name, sizeof name, "atom %s", atom->name);
    probe_copy_kernel(atom, ptxpack_device(r->c->gpu.handle)->caps.arch, &kernel);
    if (!begin(r, name, &kernel))
        return;
    if (!probe_copy_of(atom, &copy, line))
        check_record(r->c, name, line);
    else if (load(r, name, &kernel))
        report(r, name, probe_copy_prove(&copy, execute_copy, r, r->c->seed, line), line);
}

/* ---- which cases ----------------------------------------------------------------------------------- */
/* All widths take too long: only these are run, and those that a filter names. */
static bool width_wanted(const check *c, int n)
{
    char text[16];
    snprintf(text, sizeof text, "64x%dx", n);
    if (c->filter != NULL && strstr(c->filter, text) != NULL)
        return true;
    return c->quick ? n == 64 : n == 8 || n == 64 || n == 128 || n == 256;
}

static void run_majors(runner *r, const ptxpack_mma_atom *atom)
{
    for (int a = PTXPACK_WGMMA_K; a <= (atom->a_major == '*' ? PTXPACK_WGMMA_MN : PTXPACK_WGMMA_K); a++)
        for (int b = PTXPACK_WGMMA_K; b <= (atom->b_major == '*' ? PTXPACK_WGMMA_MN : PTXPACK_WGMMA_K); b++)
            run_wgmma(r, atom, (ptxpack_wgmma_major)a, (ptxpack_wgmma_major)b);
}

static void run_mma_atom(runner *r, const ptxpack_mma_atom *atom)
{
    probe_mma mma;
    char      line[PROBE_LINE], name[128];
    bool      wgmma = strncmp(atom->ptx, "wgmma.", 6) == 0;
    snprintf(name, sizeof name, "atom %s", atom->name);
    if (probe_mma_of(atom, &mma, line)) {
        run_mma(r, atom, &mma);
    } else if (wgmma && width_wanted(r->c, atom->n)) {
        run_majors(r, atom);
    } else if (check_wanted(r->c, name)) {
        snprintf(name, sizeof name, "needs exactly sm_%da, for which there is no probe", atom->arch);
        skip(r, wgmma ? "wgmma of this width is only run when a filter names it (64x24x)"
                : atom->instructions > 1
                    ? "this is several instructions, with the layouts of one that has its own line"
                    : name);
    }
}

static void run_copy_atom(runner *r, const ptxpack_copy_atom *atom)
{
    char name[128];
    snprintf(name, sizeof name, "atom %s", atom->name);
    if (probe_copy_known(atom))
        run_copy(r, atom);
    else if (check_wanted(r->c, name))
        skip(r, "these are ordinary loads and stores, TMA and bulk copies");
}

void check_atom(check *c)
{
    runner            r = {.c = c};
    ptxpack_mma_atom  mma;
    ptxpack_copy_atom copy;
    for (size_t i = 0; ptxpack_mma_atom_at(i, &mma); i++)
        run_mma_atom(&r, &mma);
    for (size_t i = 0; ptxpack_copy_atom_at(i, &copy); i++)
        run_copy_atom(&r, &copy);
    for (int i = 0; i < INPUTS; i++)
        device_free(&c->gpu, r.input[i].address);
    device_free(&c->gpu, r.output.address);
    for (int i = 0; i < REASONS && !c->quiet && !c->list; i++)
        if (r.skipped[i].count > 0)
            printf("%s: %d atoms: %s\n", c->brief ? "left out" : "SKIP", r.skipped[i].count, r.skipped[i].why);
}
