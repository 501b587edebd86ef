/* attention_run.c - an attention problem on the device: plan, copies, timed launches. */
#include "attention_run.h"
#include <stdio.h>
#include <unistd.h>
#include "command.h"
#include "verify.h"

/* Launch until warm, then `repeat` times between two events. */
static bool time_launches(device *gpu, const ptxpack_attention_plan *plan, const ptxpack_attention_buffers *b,
                          int64_t repeat, double *ms)
{
    for (int i = device_warm_up(gpu); i > 0; i--)
        if (!device_status(gpu, ptxpack_attention_launch(plan, b, gpu->stream)))
            return false;
    if (!device_sync(gpu) || !device_start(gpu))
        return false;
    for (int64_t i = 0; i < repeat; i++)
        if (!device_status(gpu, ptxpack_attention_launch(plan, b, gpu->stream)))
            return false;
    if (!device_stop(gpu) || !device_elapsed(gpu, ms))
        return false;
    *ms /= (double)repeat;
    return true;
}

/* The emulated driver takes about two seconds a GFLOP and core: somebody who sits before it is told. */
static void announce(const device *gpu, const attention_problem *p)
{
    double seconds = ptxpack_attention_flops(&p->desc) * 2e-9 / verify_threads();
    if (gpu->emulated && seconds > 3 && isatty(STDERR_FILENO))
        fprintf(stderr, "emulating %.1f GFLOP: about %.0f s\n", ptxpack_attention_flops(&p->desc) * 1e-9, seconds);
}

int attention_run(device *gpu, attention_problem *p, const attention_settings *s)
{
    ptxpack_attention_plan   *plan = NULL;
    ptxpack_attention_buffers b = {.size = sizeof b};
    uint64_t                 *addresses[TENSOR_COUNT] = {&b.q, &b.k, &b.v, &b.o};
    double                    started = now_ms();
    announce(gpu, p);
    p->emulated = gpu->emulated;
    p->repeat = device_launches(gpu, s->repeat);
    bool ok = device_status(gpu, ptxpack_attention_plan_create(gpu->handle, &p->desc, &plan));
    double                    ready_ms = now_ms() - started;
    for (int i = 0; i < TENSOR_COUNT && ok; i++)
        ok = device_alloc(gpu, addresses[i], p->elements[i] * sizeof(uint16_t)) &&
             (i == TENSOR_O ||
              device_upload(gpu, *addresses[i], p->tensor[i], p->elements[i] * sizeof(uint16_t)));
    ok = ok && device_alloc(gpu, &b.lse, p->lse_count * sizeof(float)) &&
         (ptxpack_attention_workspace(plan) == 0 ||
          device_alloc(gpu, &b.workspace, ptxpack_attention_workspace(plan))) &&
         time_launches(gpu, plan, &b, p->repeat, &p->ms) &&
         device_download(gpu, p->tensor[TENSOR_O], b.o, p->elements[TENSOR_O] * sizeof(uint16_t)) &&
         device_download(gpu, p->lse, b.lse, p->lse_count * sizeof(float));
    if (ok) {
        report_device(gpu, s->json);
        report_kernel(ptxpack_kernel_describe(ptxpack_attention_kernel(plan)), ready_ms, s->json);
    }
    for (int i = 0; i < TENSOR_COUNT; i++)
        device_free(gpu, *addresses[i]);
    device_free(gpu, b.lse);
    device_free(gpu, b.workspace);
    ptxpack_attention_plan_free(plan);
    return ok ? COMMAND_OK : command_fail(s->subcommand, "%s", gpu->line);
}
