/* vector_add.c - ptxpack vector-add: z = a x + b y + c on random input, timed and verified. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/command.h"
#include "tools/progress.h"
#include "tools/device.h"
#include "host/ptxpack.h"
#include "tools/problem/random.h"
#include "host/scalars.h"

typedef struct settings {
    int64_t       n, seed, repeat;
    double        a, b, c;
    const char   *dtype_name, *device;
    bool          verify, json;
    ptxpack_dtype dtype; /* from dtype_name */
} settings;

/* Host copies of the vectors. */
typedef struct vectors {
    uint16_t *x, *y, *z;
} vectors;

static double exact(ptxpack_dtype type, double value)
{
    return ptxpack_to_float(type, ptxpack_from_float(type, (float)value));
}

/* Counts the elements that differ from fma(a, x, fma(b, y, c)) rounded twice; *first is the first of them. */
static size_t count_wrong(const settings *s, const vectors *host, size_t *first)
{
    double a = exact(s->dtype, s->a), b = exact(s->dtype, s->b), c = exact(s->dtype, s->c);
    size_t wrong = 0;
    for (size_t i = (size_t)s->n; i-- > 0;) {
        double   x = ptxpack_to_float(s->dtype, host->x[i]), y = ptxpack_to_float(s->dtype, host->y[i]);
        double   u = ptxpack_to_float(s->dtype, reference_round(s->dtype, b * y + c));
        uint16_t z = reference_round(s->dtype, a * x + u);
        if (z != host->z[i] && ptxpack_to_float(s->dtype, z) != ptxpack_to_float(s->dtype, host->z[i])) {
            wrong++;
            *first = i;
        }
    }
    return wrong;
}

static bool time_launches(device *gpu, const ptxpack_vector_plan *plan, const settings *s, const uint64_t at[3],
                          double *ms)
{
    int64_t repeat = device_launches(gpu, s->repeat);
    for (int64_t i = -device_warm_up(gpu); i < repeat; i++) {
        if (i == 0 && (!device_sync(gpu) || !device_start(gpu)))
            return false;
        if (!device_status(gpu, ptxpack_vector_add(plan, at[2], at[0], at[1], (float)s->a, (float)s->b,
                                                   (float)s->c, (uint64_t)s->n, gpu->stream)))
            return false;
    }
    if (!device_stop(gpu) || !device_elapsed(gpu, ms))
        return false;
    *ms /= (double)repeat;
    return true;
}

static int run(device *gpu, const settings *s, const vectors *host)
{
    ptxpack_vector_plan *plan = NULL;
    uint64_t             at[3] = {0, 0, 0}; /* x, y, z */
    size_t               bytes = (size_t)s->n * sizeof(uint16_t);
    double               started = now_ms(), ms = 0;
    bool                 ok = device_status(gpu, ptxpack_vector_plan_create(gpu->handle, s->dtype, &plan));
    double               ready_ms = now_ms() - started;
    for (int i = 0; i < 3 && ok; i++)
        ok = device_alloc(gpu, &at[i], bytes);
    ok = ok && device_upload(gpu, at[0], host->x, bytes) && device_upload(gpu, at[1], host->y, bytes) &&
         time_launches(gpu, plan, s, at, &ms) && device_download(gpu, host->z, at[2], bytes);
    if (ok) {
        double gbs = 3.0 * (double)bytes / ms * 1e-6;
        report_device(gpu, s->json);
        report_kernel(ptxpack_kernel_describe(ptxpack_vector_kernel(plan)), ready_ms, s->json);
        if (s->json) {
            json_text("dtype", s->dtype_name);
            json_int("n", s->n);
            json_int("seed", s->seed);
            json_real("ms", ms);
            json_real("gb_per_s", gbs);
        } else {
            printf("input     %lld elements of %s, random, seed %lld\n", (long long)s->n, s->dtype_name,
                   (long long)s->seed);
            printf("time      %.4f ms, %.0f GB/s (mean of %lld launches)\n", ms, gbs,
                   (long long)device_launches(gpu, s->repeat));
        }
    }
    for (int i = 0; i < 3; i++)
        device_free(gpu, at[i]);
    ptxpack_vector_plan_free(plan);
    return ok ? COMMAND_OK : command_fail("vector-add", "%s", gpu->line);
}

static int verify(const settings *s, const vectors *host)
{
    size_t first = 0, wrong = count_wrong(s, host, &first);
    if (s->json)
        json_int("wrong", (int64_t)wrong);
    else if (wrong == 0)
        printf("verified  all %lld elements are exact\n", (long long)s->n);
    if (wrong == 0)
        return COMMAND_OK;
    return command_fail("vector-add", "%zu of %lld elements are wrong, the first at %zu", wrong,
                        (long long)s->n, first);
}

static int run_random(device *gpu, const settings *s)
{
    size_t       n = (size_t)s->n;
    random_state random = random_start((uint64_t)s->seed);
    vectors      host = {
             .x = (uint16_t *)calloc(n, sizeof *host.x),
             .y = (uint16_t *)calloc(n, sizeof *host.y),
             .z = (uint16_t *)calloc(n, sizeof *host.z),
    };
    int status = COMMAND_FAILED;
    if (host.x == NULL || host.y == NULL || host.z == NULL) {
        command_fail("vector-add", "no memory for 3 * %zu elements", n);
    } else {
        random_normal(&random, s->dtype, host.x, n);
        random_normal(&random, s->dtype, host.y, n);
        progress_begin("vector-add", "compiling and running");
        status = run(gpu, s, &host);
        progress_end();
        if (status == COMMAND_OK && s->verify)
            status = verify(s, &host);
    }
    free(host.x);
    free(host.y);
    free(host.z);
    return status;
}

static int check_settings(settings *s)
{
    s->dtype = strcmp(s->dtype_name, "bf16") == 0 ? PTXPACK_BF16 : PTXPACK_F16;
    if (s->dtype == PTXPACK_F16 && strcmp(s->dtype_name, "f16") != 0)
        command_fail("vector-add", "--dtype: \"%s\" is neither f16 nor bf16", s->dtype_name);
    else if (s->n < 1 || s->n > INT64_C(1) << 40)
        command_fail("vector-add", "--n: %lld is not between 1 and 2^40", (long long)s->n);
    else if (s->repeat != OPTION_NOT_GIVEN && (s->repeat < 1 || s->repeat > 1000000))
        command_fail("vector-add", "--repeat: %lld is not between 1 and 1000000", (long long)s->repeat);
    else if (fabs(s->a) > FLT_MAX || fabs(s->b) > FLT_MAX || fabs(s->c) > FLT_MAX)
        command_fail("vector-add", "--a %g, --b %g, --c %g: one is beyond the range of float", s->a, s->b,
                     s->c);
    else if (s->seed < 0 && s->seed != OPTION_NOT_GIVEN)
        command_fail("vector-add", "--seed: %lld is negative", (long long)s->seed);
    else {
        if (s->seed == OPTION_NOT_GIVEN)
            s->seed = (int64_t)random_seed();
        return COMMAND_OK;
    }
    return COMMAND_USAGE;
}

int cmd_vector_add(int argc, char **argv)
{
    settings     s = {.n = 1 << 24,
                      .seed = OPTION_NOT_GIVEN,
                      .repeat = OPTION_NOT_GIVEN,
                      .a = 2,
                      .b = 0.5,
                      .c = 1,
                      .dtype_name = "f16"};
    const option rows[] = {
        {"n", OPTION_INT, &s.n, "N  elements (default 16777216)"},
        {"dtype", OPTION_TEXT, &s.dtype_name, "f16|bf16  (default f16)"},
        {"a", OPTION_REAL, &s.a, "X  multiplies x (default 2)"},
        {"b", OPTION_REAL, &s.b, "X  multiplies y (default 0.5)"},
        {"c", OPTION_REAL, &s.c, "X  is added (default 1)"},
        {"verify", OPTION_FLAG, &s.verify, "compare every element with the exact result"},
        {"seed", OPTION_INT, &s.seed, "N  of the random input"},
        {"repeat", OPTION_INT, &s.repeat, "N  launches timed (default 20; emulated: 1)"},
        {"device", OPTION_TEXT, &s.device, DEVICE_OPTION_HELP},
        {"json", OPTION_FLAG, &s.json, "print JSON"},
        {NULL, OPTION_FLAG, NULL, NULL},
    };
    int status = command_options(argc, argv, "ptxpack vector-add [options]", rows, NULL);
    if (status >= 0)
        return status;
    status = check_settings(&s);
    if (status != COMMAND_OK)
        return status;
    device         gpu;
    ptxpack_status opened = device_open_as(&gpu, s.device, NULL);
    if (opened != PTXPACK_OK)
        return command_fail("vector-add", "%s", gpu.line),
               device_choice(s.device) ? COMMAND_FAILED : COMMAND_USAGE;
    if (s.json)
        json_open(NULL, '{');
    status = run_random(&gpu, &s);
    if (s.json)
        json_close();
    device_close(&gpu);
    return status;
}
