/* start_up.c - measures what a program waits for before its first attention: the layouts, macro expansion, the
 * compiler, a warm load from the cache; and the host time of a launch over that of a bare cuLaunchKernel. */
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/attention/inspect.h"
#include "bench.h"
#include "tools/command.h"
#include "tools/device.h"
#include "host/ptxpack.h"

enum { LAUNCHES = 200 }; /* fewer than the driver queues */

/* The figures; each is the median of the rounds. */
typedef struct figures {
    double layout_us;               /* deriving the layouts and symbols of the kernel  */
    double again_us;                /* another plan of a kernel that is loaded         */
    double expand_ms, cold_ms;      /* of the main kernel; the compiler alone          */
    double warm_ms, driver_load_ms; /* a plan from the cache; the driver's part of it  */
    double launch_us, bare_us;
} figures;

/* The main kernel: the one for head_dim 128, causal. */
static ptxpack_attention_desc main_problem(const bench_settings *s)
{
    return (ptxpack_attention_desc){
        .size = sizeof(ptxpack_attention_desc),
        .dtype = s->dtype,
        .batch = 1,
        .seqlen_q = 64,
        .seqlen_kv = 64,
        .heads_q = 1,
        .heads_kv = 1,
        .head_dim = 128,
        .mask = PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT,
    };
}

/* Measures layouts and symbols, then expansion, on an open handle.  It uses a copy of the row, which is not in
 * the table: its layouts are derived anew. */
static bool time_expansion(device *gpu, const ptxpack_variant *row, ptxpack_dtype dtype, double *us, double *ms)
{
    enum { CAUSAL = 1 };
    ptxpack_expansion    *expansion = NULL;
    const ptxpack_variant fresh = *row;
    size_t                index = CAUSAL + (dtype == PTXPACK_BF16 ? ptxpack_instance_count(row) / 2 : 0);
    double                started = now_ms();
    ptxpack_instance      instance = ptxpack_instance_get(&fresh, index);
    *us = 1e3 * (now_ms() - started);
    started = now_ms();
    bool ok = device_status(gpu, ptxpack_kernel_expand(gpu->handle, row, instance.symbols,
                                                       instance.symbol_count, &expansion));
    *ms = now_ms() - started;
    ptxpack_expansion_free(expansion);
    return ok;
}

static bool time_plan(device *gpu, const ptxpack_attention_desc *desc, ptxpack_attention_plan **plan,
                      double *ms)
{
    double started = now_ms();
    bool   ok = device_status(gpu, ptxpack_attention_plan_create(gpu->handle, desc, plan));
    *ms = now_ms() - started;
    return ok;
}

/* Makes a plan on a fresh handle, and another one; copies *info. */
static bool fresh_plan(device *gpu, const bench_settings *s, const ptxpack_options *options, double *ms,
                       double *again_ms, ptxpack_kernel_info *info)
{
    ptxpack_attention_plan      *plan = NULL, *again = NULL;
    const ptxpack_attention_desc desc = main_problem(s);
    if (!bench_open(gpu, options))
        return false;
    bool ok = time_plan(gpu, &desc, &plan, ms) && time_plan(gpu, &desc, &again, again_ms);
    ptxpack_attention_plan_free(again);
    if (ok)
        *info = *ptxpack_kernel_describe(ptxpack_attention_kernel(plan));
    ptxpack_attention_plan_free(plan);
    return ok;
}

/* Measures expansion, cold and warm start, from an empty cache folder of our own. */
static bool time_plans(const bench_settings *s, const char *folder, double *rounds, figures *f, char line[512])
{
    size_t  count = (size_t)s->rounds;
    double *expand = rounds, *cold = rounds + count, *warm = rounds + 2 * count, *load = rounds + 3 * count;
    double *layout = rounds + 4 * count, *again = rounds + 5 * count;
    ptxpack_options     uncached = {.size = sizeof uncached, .no_cache = true};
    ptxpack_options     cached = {.size = sizeof cached, .cache_dir = folder};
    ptxpack_kernel_info info;
    device              gpu;
    double              ms;
    bool                ok = fresh_plan(&gpu, s, &cached, &ms, &again[0], &info); /* fills the cache */
    device_close(&gpu);
    for (size_t i = 0; i < count && ok; i++) {
        ok = fresh_plan(&gpu, s, &uncached, &ms, &again[i], &info);
        cold[i] = info.compile_ms;
        ok = ok && time_expansion(&gpu, info.variant, s->dtype, &layout[i], &expand[i]);
        device_close(&gpu);
        ok = ok && fresh_plan(&gpu, s, &cached, &warm[i], &again[i], &info);
        device_close(&gpu);
        load[i] = info.load_ms;
        if (ok && !info.from_cache) {
            snprintf(gpu.line, sizeof gpu.line, "the second load did not come from the cache");
            ok = false;
        }
    }
    snprintf(line, 512, "%s", gpu.line);
    if (ok)
        *f = (figures){.layout_us = median(layout, count),
                       .again_us = 1e3 * median(again, count),
                       .expand_ms = median(expand, count),
                       .cold_ms = median(cold, count),
                       .warm_ms = median(warm, count),
                       .driver_load_ms = median(load, count)};
    return ok;
}

/* Measures the host time of LAUNCHES launches, in microseconds for each launch. */
static bool time_launches(device *gpu, const ptxpack_attention_plan *plan, const ptxpack_attention_buffers *b,
                          bool bare, double *us)
{
    attention_arguments        a;
    uint32_t                   grid[3];
    void                      *parameters[] = {&a};
    const ptxpack_kernel_info *info = ptxpack_kernel_describe(ptxpack_attention_kernel(plan));
    struct CUfunc_st *function = (struct CUfunc_st *)ptxpack_kernel_function(ptxpack_attention_kernel(plan));
    bool              ok = device_sync(gpu);
    ok = ok && device_status(gpu, plan_arguments((const plan_head *)plan, b, &a, grid));
    double started = now_ms();
    for (int i = 0; i < LAUNCHES && ok; i++)
        ok = bare ? device_try(gpu,
                               gpu->driver->cuLaunchKernel(function, grid[0], grid[1], grid[2],
                                                           (unsigned)info->variant->threads, 1, 1,
                                                           (unsigned)info->variant->shared_bytes, gpu->stream,
                                                           parameters, NULL),
                               "cuLaunchKernel")
                  : device_status(gpu, ptxpack_attention_launch(plan, b, gpu->stream));
    *us = (now_ms() - started) * 1e3 / LAUNCHES;
    return ok && device_sync(gpu);
}

static bool time_both(const bench_settings *s, double *rounds, figures *f, char line[512])
{
    size_t                       count = (size_t)s->rounds, bytes = 64 * 128 * sizeof(uint16_t);
    const ptxpack_attention_desc desc = main_problem(s);
    ptxpack_attention_plan      *plan = NULL;
    ptxpack_attention_buffers    b = {.size = sizeof b};
    uint64_t                    *addresses[] = {&b.q, &b.k, &b.v, &b.o};
    device                       gpu;
    bool                         ok = bench_open(&gpu, NULL) &&
              device_status(&gpu, ptxpack_attention_plan_create(gpu.handle, &desc, &plan));
    for (int i = 0; i < 4; i++)
        ok = ok && device_alloc(&gpu, addresses[i], bytes) &&
             device_try(&gpu, gpu.driver->cuMemsetD8Async(*addresses[i], 0, bytes, gpu.stream),
                        "cuMemsetD8Async");
    double discarded;
    ok = ok && device_alloc_zeros(&gpu, &b.workspace, ptxpack_attention_workspace(plan)) &&
         time_launches(&gpu, plan, &b, true, &discarded) && time_launches(&gpu, plan, &b, false, &discarded);
    for (size_t i = 0; i < count && ok; i++)
        ok = time_launches(&gpu, plan, &b, true, &rounds[i]) &&
             time_launches(&gpu, plan, &b, false, &rounds[count + i]);
    if (ok) {
        f->bare_us = median(rounds, count);
        f->launch_us = median(rounds + count, count);
    }
    for (int i = 0; i < 4; i++)
        device_free(&gpu, *addresses[i]);
    device_free(&gpu, b.workspace);
    ptxpack_attention_plan_free(plan);
    device_close(&gpu);
    snprintf(line, 512, "%s", gpu.line);
    return ok;
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info, (void)type, (void)where;
    return remove(path);
}

static void print_figures(const figures *f, const bench_settings *s)
{
    if (s->json) {
        json_open(NULL, '{');
        json_int("rounds", s->rounds);
        json_real("layout_us", f->layout_us);
        json_real("plan_again_us", f->again_us);
        json_real("expand_ms", f->expand_ms);
        json_real("cold_compile_ms", f->cold_ms);
        json_real("warm_plan_ms", f->warm_ms);
        json_real("driver_load_ms", f->driver_load_ms);
        json_real("warm_beyond_driver_ms", f->warm_ms - f->driver_load_ms);
        json_real("launch_us", f->launch_us);
        json_real("bare_launch_us", f->bare_us);
        json_real("launch_beyond_bare_us", f->launch_us - f->bare_us);
        json_close();
        return;
    }
    printf("main kernel (head_dim 128, causal, %s), median of %lld rounds\n", ptxpack_dtype_name(s->dtype),
           (long long)s->rounds);
    printf("  layouts, symbols   %8.3f us\n", f->layout_us);
    printf("  expansion          %8.3f ms\n", f->expand_ms);
    printf("  cold compile       %8.3f ms\n", f->cold_ms);
    printf("  warm plan          %8.3f ms, %.3f beyond the driver's own load\n", f->warm_ms,
           f->warm_ms - f->driver_load_ms);
    printf("  another plan       %8.3f us, of a kernel that is loaded\n", f->again_us);
    printf("  launch             %8.3f us, %.3f beyond a bare cuLaunchKernel\n", f->launch_us,
           f->launch_us - f->bare_us);
}

int bench_start_up(const bench_settings *s)
{
    const char *base = getenv("TMPDIR");
    char        folder[PATH_MAX], line[512];
    figures     f;
    int         length = snprintf(folder, sizeof folder, "%s/ptxpack-bench-XXXXXX",
                          base != NULL && *base ? base : "/tmp");
    if (length >= (int)sizeof folder)
        errno = ENAMETOOLONG;
    if (length >= (int)sizeof folder || mkdtemp(folder) == NULL)
        return command_fail("bench", "a folder for caches cannot be made in %s (TMPDIR): %s",
                            base != NULL && *base ? base : "/tmp", strerror(errno));
    double *rounds = (double *)calloc((size_t)s->rounds, 6 * sizeof *rounds);
    bool    ok = rounds != NULL;
    if (!ok)
        snprintf(line, sizeof line, "no memory");
    ok = ok && time_plans(s, folder, rounds, &f, line) && time_both(s, rounds, &f, line);
    nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    free(rounds);
    if (!ok)
        return command_fail("bench", "%s", line);
    print_figures(&f, s);
    return COMMAND_OK;
}
