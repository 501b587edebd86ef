/* vector_add.c - measures the bandwidth of z = a x + b y + c for many sizes of the vectors. */
#include <stdlib.h>
#include <unistd.h>

#include "bench.h"
#include "tools/command.h"
#include "tools/device.h"
#include "host/ptxpack.h"

enum { LAUNCHES = 10, REST_US = 50000, SMALLEST = 20, LARGEST = 28 }; /* sizes as powers of two */

/* Measures the median time of one launch. */
static bool time_size(device *gpu, const ptxpack_vector_plan *plan, const uint64_t at[3], uint64_t n,
                      const bench_settings *s, double *ms)
{
    double *rounds = (double *)calloc((size_t)s->rounds, sizeof *rounds);
    bool    ok = rounds != NULL;
    for (int64_t round = -1; round < s->rounds && ok; round++) {
        double elapsed = 0;
        usleep(REST_US);
        ok = device_start(gpu);
        for (int i = 0; i < LAUNCHES && ok; i++)
            ok = device_status(gpu, ptxpack_vector_add(plan, at[2], at[0], at[1], 2, 0.5f, 1, n, gpu->stream));
        ok = ok && device_stop(gpu) && device_elapsed(gpu, &elapsed);
        if (round >= 0 && ok)
            rounds[round] = elapsed / LAUNCHES;
    }
    if (ok)
        *ms = median(rounds, (size_t)s->rounds);
    free(rounds);
    return ok;
}

static bool run(device *gpu, const bench_settings *s, const ptxpack_vector_plan *plan, const uint64_t at[3])
{
    for (int power = SMALLEST; power <= LARGEST; power++) {
        uint64_t n = UINT64_C(1) << power;
        double   ms;
        if (!time_size(gpu, plan, at, n, s, &ms))
            return false;
        double gbs = 3.0 * sizeof(uint16_t) * (double)n / ms * 1e-6;
        if (s->json) {
            json_open(NULL, '{');
            json_int("n", (int64_t)n);
            json_real("gb_per_s", gbs);
            json_real("ms", ms);
            json_close();
        } else {
            printf("| %llu | %.0f | %.4f |\n", (unsigned long long)n, gbs, ms);
        }
    }
    return true;
}

int bench_vector_add(const bench_settings *s)
{
    device               gpu;
    ptxpack_vector_plan *plan = NULL;
    uint64_t             at[3] = {0, 0, 0}; /* x, y, z */
    size_t               bytes = sizeof(uint16_t) << LARGEST;
    bool                 ok = bench_open(&gpu, NULL);
    ok = ok && device_status(&gpu, ptxpack_vector_plan_create(gpu.handle, s->dtype, &plan));
    for (int i = 0; i < 3; i++)
        ok = ok && device_alloc(&gpu, &at[i], bytes) &&
             device_try(&gpu, gpu.driver->cuMemsetD16Async(at[i], 0x3c00, bytes / 2, gpu.stream),
                        "cuMemsetD16Async");
    if (s->json && ok)
        json_open(NULL, '{');
    bool begun = ok;
    if (ok) {
        report_device(&gpu, s->json);
        if (s->json)
            json_open("rows", '[');
        else
            printf("%s, median of %lld rounds of %d launches; read and written\n\n| n | GB/s | ms "
                   "|\n|---|---|---|\n",
                   ptxpack_dtype_name(s->dtype), (long long)s->rounds, (int)LAUNCHES);
        ok = run(&gpu, s, plan, at);
        if (s->json)
            json_close();
    }
    if (s->json && begun)
        json_close();
    for (int i = 0; i < 3; i++)
        device_free(&gpu, at[i]);
    ptxpack_vector_plan_free(plan);
    device_close(&gpu);
    return ok ? COMMAND_OK : command_fail("bench", "%s", gpu.line);
}
