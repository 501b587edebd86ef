/* gemm.c - ptxpack gemm: D = activation(alpha A B + beta C + bias), timed and verified. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "tools/command.h"
#include "tools/progress.h"
#include "tools/device.h"
#include "tools/problem/gemm_problem.h"
#include "host/ptxpack.h"
#include "tools/problem/verify.h"

/* ---- on the device -------------------------------------------------------------------------------- */
/* Launches until the GPU is warm, then `repeat` times between two events. */
static bool time_launches(device *gpu, const ptxpack_gemm_plan *plan, const ptxpack_gemm_buffers *b,
                          gemm_problem *p)
{
    for (int64_t i = -device_warm_up(gpu); i < p->repeat; i++) {
        if (i == 0 && (!device_sync(gpu) || !device_start(gpu)))
            return false;
        if (!device_status(gpu, ptxpack_gemm_launch(plan, b, gpu->stream)))
            return false;
    }
    if (!device_stop(gpu) || !device_elapsed(gpu, &p->ms))
        return false;
    p->ms /= (double)p->repeat;
    return true;
}

/* The emulated driver needs about two seconds for each GFLOP on a core: a user who waits at the terminal is
 * told. */
static void announce(const device *gpu, const gemm_problem *p)
{
    double gflop = gemm_problem_flops(p) * 1e-9, seconds = 2 * gflop / verify_threads();
    if (gpu->emulated && seconds > 3 && isatty(STDERR_FILENO))
        fprintf(stderr, "emulating %.1f GFLOP: about %.0f s\n", gflop, seconds);
}

static bool upload_scales(device *gpu, const gemm_problem *p, ptxpack_gemm_buffers *b)
{
    uint64_t *const address[] = {&b->scale_a, &b->scale_b};
    bool            ok = true;
    for (int i = 0; i <= GEMM_B && ok; i++)
        ok = p->scale[i] == NULL || (device_alloc(gpu, address[i], p->geometry.scale[i].bytes) &&
                                     device_upload(gpu, *address[i], p->scale[i], p->geometry.scale[i].bytes));
    return ok;
}

static bool upload_starts(device *gpu, const gemm_problem *p, uint64_t *address)
{
    const size_t bytes = ((size_t)p->desc.groups + 1) * sizeof *p->group_starts;
    return p->desc.groups == 0 ||
           (device_alloc(gpu, address, bytes) && device_upload(gpu, *address, p->group_starts, bytes));
}

static bool upload(device *gpu, const gemm_problem *p, uint64_t *const address[GEMM_MATRICES], uint64_t *bias)
{
    bool ok = true;
    for (int i = 0; i < GEMM_MATRICES && ok; i++)
        if (p->matrix[i] != NULL)
            ok = device_alloc(gpu, address[i], p->geometry.matrix[i].bytes) &&
                 (i == GEMM_D || device_upload(gpu, *address[i], p->matrix[i], p->geometry.matrix[i].bytes));
    return ok && (p->bias == NULL || (device_alloc(gpu, bias, p->geometry.bias_bytes) &&
                                      device_upload(gpu, *bias, p->bias, p->geometry.bias_bytes)));
}

static bool upload_norm(device *gpu, const gemm_problem *p, uint64_t *address)
{
    return p->norm_w == NULL || (device_alloc(gpu, address, p->geometry.norm_bytes) &&
                                 device_upload(gpu, *address, p->norm_w, p->geometry.norm_bytes));
}

static int run(device *gpu, gemm_problem *p, const gemm_settings *s)
{
    ptxpack_gemm_plan   *plan = NULL;
    ptxpack_gemm_buffers b = {.size = sizeof b, .alpha = p->alpha, .beta = p->beta, .launch = p->desc.launch};
    uint64_t *const      address[GEMM_MATRICES] = {&b.a, &b.b, &b.c, &b.d};
    double               started = now_ms();
    announce(gpu, p);
    p->emulated = gpu->emulated;
    p->repeat = device_launches(gpu, s->repeat);
    progress_begin("gemm", "compiling");
    bool   ok = device_status(gpu, ptxpack_gemm_plan_create(gpu->handle, &p->desc, &plan));
    double ready_ms = now_ms() - started;
    progress_step(0, 0, "running%s", gpu->emulated ? " on the emulated driver" : "");
    ok = ok && upload(gpu, p, address, &b.bias) && upload_scales(gpu, p, &b) &&
         upload_starts(gpu, p, &b.group_starts) && upload_norm(gpu, p, &b.norm_w) &&
         device_alloc_zeros(gpu, &b.workspace, ptxpack_gemm_workspace(plan)) &&
         time_launches(gpu, plan, &b, p) &&
         device_download(gpu, p->matrix[GEMM_D], b.d, p->geometry.matrix[GEMM_D].bytes);
    progress_end();
    if (ok) {
        report_device(gpu, s->json);
        report_kernel(ptxpack_kernel_describe(ptxpack_gemm_kernel(plan)), ready_ms, s->json);
    }
    for (int i = 0; i < GEMM_MATRICES; i++)
        device_free(gpu, *address[i]);
    device_free(gpu, b.bias);
    device_free(gpu, b.scale_a);
    device_free(gpu, b.scale_b);
    device_free(gpu, b.group_starts);
    device_free(gpu, b.norm_w);
    device_free(gpu, b.workspace);
    ptxpack_gemm_plan_free(plan);
    return ok ? COMMAND_OK : command_fail("gemm", "%s", gpu->line);
}

/* ---- reports -------------------------------------------------------------------------------------- */
static void report_problem(const gemm_problem *p, const gemm_settings *s)
{
    const ptxpack_gemm_desc *d = &p->desc;
    if (!s->json) {
        printf("problem   %s", ptxpack_dtype_name(d->dtype));
        if (gemm_type(d, GEMM_B) == PTXPACK_E4M3)
            printf(", %s e4m3 (scales: %s)", gemm_b_alone(d) ? "B" : "A and B", gemm_scales_name(d->scales));
        printf(", m %d, n %d, k %d, batch %d, A %s-major, B %s-major", (int)d->m, (int)d->n, (int)d->k,
               (int)p->geometry.batch, gemm_order_name(d->order_a), gemm_order_name(d->order_b));
        if (d->groups > 0)
            printf(", %d groups", (int)d->groups);
        printf("%s%s%s%s%s%s\n", d->norm_a ? ", RMSNorm(A)" : "", s->constant_b ? ", constant B" : "",
               d->has_c ? ", C" : "", d->has_bias ? ", bias" : "",
               d->activation != PTXPACK_ACTIVATION_NONE ? ", " : "",
               d->activation != PTXPACK_ACTIVATION_NONE ? gemm_activation_name(d->activation) : "");
        if (s->a == NULL)
            printf("input     random, seed %llu\n", (unsigned long long)p->seed);
        return;
    }
    json_open("problem", '{');
    json_text("dtype", ptxpack_dtype_name(d->dtype));
    if (gemm_type(d, GEMM_B) == PTXPACK_E4M3) {
        json_text(gemm_b_alone(d) ? "dtype_b" : "dtype_ab", ptxpack_dtype_name(PTXPACK_E4M3));
        json_text("scales", gemm_scales_name(d->scales));
    }
    json_int("m", d->m);
    json_int("n", d->n);
    json_int("k", d->k);
    json_int("batch", p->geometry.batch);
    if (d->groups > 0)
        json_int("groups", d->groups);
    if (d->norm_a)
        json_real("norm_eps", (double)d->norm_eps);
    if (s->constant_b)
        json_bool("constant_b", true);
    json_text("order_a", gemm_order_name(d->order_a));
    json_text("order_b", gemm_order_name(d->order_b));
    json_real("alpha", p->alpha);
    json_bool("has_c", d->has_c);
    json_real("beta", p->beta);
    json_bool("has_bias", d->has_bias);
    json_text("activation", gemm_activation_name(d->activation));
    json_int("seed", (int64_t)p->seed);
    json_close();
}

static void report_time(const gemm_problem *p, const gemm_settings *s)
{
    double tflops = gemm_problem_flops(p) / p->ms * 1e-9, gbs = gemm_problem_bytes(p) / p->ms * 1e-6;
    if (s->json) {
        json_text("ran_on", p->emulated ? "emulator" : "gpu");
        json_real("ms", p->ms);
        json_real("tflops", tflops);
        json_real("gb_per_s", gbs);
        json_int("repeat", p->repeat);
    } else if (p->emulated) {
        printf("time      %.1f ms emulated, %.4f TFLOP/s (mean of %lld launches)\n", p->ms, tflops,
               (long long)p->repeat);
    } else {
        printf("time      %.4f ms, %.1f TFLOP/s, %.0f GB/s (mean of %lld launches)\n", p->ms, tflops, gbs,
               (long long)p->repeat);
    }
}

static int verify(const gemm_problem *p, const gemm_settings *s)
{
    gemm_verdict v;
    progress_begin("gemm", "verifying on the CPU");
    ptxpack_status status = gemm_problem_verify(p, 0, &v);
    progress_end();
    if (status != PTXPACK_OK)
        return command_fail("gemm", "--verify: %s", ptxpack_detail(NULL));
    if (s->json) {
        json_open("verify", '{');
        json_bool("pass", v.wrong == 0);
        json_int("rows", (int64_t)v.rows);
        json_int("rows_in_all", (int64_t)v.total);
        json_int("wrong", (int64_t)v.wrong);
        json_real("max_error", v.max_error);
        json_real("max_allowed_before_rounding", v.max_allowed);
        json_close();
    } else {
        printf("verified  %s: %s%zu of %zu rows\n"
               "          max error %.3g; allowed: rounding to %s, and before that at most %.3g\n",
               v.wrong == 0 ? "correct" : "WRONG", v.rows < v.total ? "a random sample of " : "", v.rows,
               v.total, v.max_error, ptxpack_dtype_name(p->desc.dtype), v.max_allowed);
    }
    if (v.wrong == 0)
        return COMMAND_OK;
    return command_fail("gemm", "%zu elements are wrong, the first of matrix %d in row %d, column %d", v.wrong,
                        (int)v.first.batch, (int)v.first.row, (int)v.first_column);
}

/* Runs the problem, reports, writes and verifies the result; the JSON object is open. */
static int run_problem(gemm_problem *p, const gemm_settings *s)
{
    device gpu = {.handle = NULL};
    if (device_open_as(&gpu, s->device, NULL) != PTXPACK_OK)
        return command_fail("gemm", "%s", gpu.line), device_choice(s->device) ? COMMAND_FAILED : COMMAND_USAGE;
    report_problem(p, s);
    int status = run(&gpu, p, s);
    if (status == COMMAND_OK) {
        report_time(p, s);
        status = gemm_problem_write(s, p);
    }
    if (status == COMMAND_OK && s->verify)
        status = verify(p, s);
    device_close(&gpu);
    return status;
}

int cmd_gemm(int argc, char **argv)
{
    gemm_settings s = gemm_settings_of("gemm");
    const option  rows[] = {
         {"a", OPTION_TEXT, &s.a, "FILE  A, .npy of m x k or batch x m x k; k x m with --order-a column"},
         {"b", OPTION_TEXT, &s.b, "FILE  B, k x n; n x k with --order-b column"},
         {"c", OPTION_MAYBE, &s.c, "[FILE]  C, m x n; alone, or with --beta: random"},
         {"bias", OPTION_MAYBE, &s.bias, "[FILE]  n values, one a column; alone: random"},
         {"o", OPTION_TEXT, &s.d, "FILE  write D"},
         GEMM_OPTIONS(&s, "1024"),
         {"alpha", OPTION_REAL, &s.alpha, "X  multiplies A B (default 1)"},
         {"beta", OPTION_REAL, &s.beta, "X  multiplies C (default 1)"},
         {"activation", OPTION_TEXT, &s.activation, "none|relu|gelu|silu|swiglu  (default none)"},
         {"dtype", OPTION_TEXT, &s.dtype, "f16|bf16  (default bf16); bf16 files hold uint16, e4m3 files uint8"},
         {"scale-a", OPTION_TEXT, &s.scale_a, "FILE  scales of e4m3, float32 (default: random)"},
         {"scale-b", OPTION_TEXT, &s.scale_b, "FILE  the same of B"},
         {"verify", OPTION_FLAG, &s.verify, "compare with a double-precision reference"},
         {"seed", OPTION_INT, &s.seed, "N  of random input and of the rows verified"},
         {"repeat", OPTION_INT, &s.repeat, "N  launches timed (default 20; emulated: 1)"},
         {"device", OPTION_TEXT, &s.device, DEVICE_OPTION_HELP},
         {"json", OPTION_FLAG, &s.json, "print JSON"},
         {NULL, OPTION_FLAG, NULL, NULL},
    };
    int status = command_options(argc, argv, "ptxpack gemm [--a FILE --b FILE] [options]", rows, NULL);
    if (status >= 0)
        return status;
    gemm_problem p = {.ms = 0};
    status = gemm_problem_make(&s, &p);
    if (status == COMMAND_OK) {
        if (s.json)
            json_open(NULL, '{');
        status = run_problem(&p, &s);
        if (s.json)
            json_close();
    }
    gemm_problem_free(&p);
    return status;
}
