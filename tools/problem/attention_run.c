/* attention_run.c - runs an attention problem on the device: plan, copies, timed launches. */
#include "attention_run.h"
#include <stdio.h>
#include <unistd.h>
#include "hooks/blocks.h"
#include "hooks/run.h"
#include "tools/command.h"
#include "tools/progress.h"
#include "verify.h"

/* Launches until the GPU is warm, then `repeat` times between two events. */
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

/* Lengths, starts and their like, sinks and others; and zeros in the rows of o and lse that no sequence has. */
static bool upload_arrays(device *gpu, const attention_problem *p, ptxpack_attention_buffers *b)
{
    uint64_t *addresses[ARRAY_COUNT] = {&b->starts_q,   &b->starts_kv,  &b->lengths_q,  &b->lengths_kv,
                                        &b->row_map,    &b->left_pad,   &b->page_table, &b->sinks,
                                        &b->slopes,     &b->bias,       &b->mask_bits,  &b->block_count,
                                        &b->full_count, &b->block_list, &b->full_list};
    bool      ok = !p->geometry.varlen ||
              (device_upload(gpu, b->o, p->tensor[TENSOR_O], attention_problem_bytes(p, TENSOR_O)) &&
               device_upload(gpu, b->lse, p->lse, p->lse_count * sizeof(float)));
    for (int i = 0; i < ARRAY_COUNT && ok; i++)
        ok = p->arrays.array[i] == NULL ||
             (device_alloc(gpu, addresses[i], p->geometry.array_bytes[i]) &&
              device_upload(gpu, *addresses[i], p->arrays.array[i], p->geometry.array_bytes[i]));
    return ok;
}

/* Frees all that the buffers name. */
static void free_buffers(device *gpu, const ptxpack_attention_buffers *b)
{
    const uint64_t addresses[] = {b->q,           b->k,          b->v,          b->o,         b->lse,
                                  b->workspace,   b->q_descale,  b->k_descale,  b->v_descale, b->starts_q,
                                  b->starts_kv,   b->lengths_q,  b->lengths_kv, b->row_map,   b->left_pad,
                                  b->page_table,  b->sinks,      b->slopes,     b->bias,      b->mask_bits,
                                  b->block_count, b->full_count, b->block_list, b->full_list};
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++)
        device_free(gpu, addresses[i]);
    for (int i = 0; i < HOOK_ARRAYS; i++)
        device_free(gpu, b->aux[i]);
}

/* The emulated driver needs about two seconds for each GFLOP on a core: a user who waits at the terminal is
 * told. */
static void announce(const device *gpu, const attention_problem *p)
{
    double gflop = attention_lengths_work(&p->desc, &p->geometry, &p->arrays).flops * 1e-9,
           seconds = 2 * gflop / verify_threads();
    if (gpu->emulated && seconds > 3 && isatty(STDERR_FILENO))
        fprintf(stderr, "emulating %.1f GFLOP: about %.0f s\n", gflop, seconds);
}

/* An input, as it is before the launch. */
static bool upload_input(device *gpu, const attention_problem *p, int tensor, uint64_t *address)
{
    if (tensor == TENSOR_V && p->geometry.values_in_keys)
        return true;
    const void *before = p->fresh.given ? p->fresh.before[tensor] : p->tensor[tensor];
    return device_alloc(gpu, address, attention_problem_bytes(p, tensor)) &&
           device_upload(gpu, *address, before, attention_problem_bytes(p, tensor));
}

/* The outputs; and q, k and v, if the launch wrote to them. */
static bool download(device *gpu, attention_problem *p, const ptxpack_attention_buffers *b)
{
    const uint64_t inputs[TENSOR_O] = {b->q, b->k, b->v};
    bool           ok = device_download(gpu, p->tensor[TENSOR_O], b->o, attention_problem_bytes(p, TENSOR_O)) &&
              device_download(gpu, p->lse, b->lse, p->lse_count * sizeof(float));
    for (int i = TENSOR_Q; i <= TENSOR_V && ok && p->fresh.given; i++)
        ok = device_download(gpu, p->fresh.before[i], inputs[i], attention_problem_bytes(p, i));
    return ok;
}

int attention_run(device *gpu, attention_problem *p, const attention_settings *s)
{
    return attention_run_row(gpu, p, s, NULL);
}

int attention_run_row(device *gpu, attention_problem *p, const attention_settings *s,
                      const ptxpack_variant *row)
{
    ptxpack_attention_plan          *plan = NULL;
    ptxpack_attention_buffers        b = {.size = sizeof b};
    ptxpack_attention_append_buffers append;
    uint64_t                        *addresses[TENSOR_O] = {&b.q, &b.k, &b.v};
    uint64_t                        *scales[TENSOR_O] = {&b.q_descale, &b.k_descale, &b.v_descale};
    attention_list_counts            lists = {0, 0, 0, 0};
    double                           started = now_ms();
    announce(gpu, p);
    p->emulated = gpu->emulated;
    p->repeat = device_launches(gpu, s->repeat);
    progress_begin(s->subcommand, "compiling");
    bool   ok = device_status(gpu, ptxpack_attention_plan_row(gpu->handle, &p->desc, row, &plan));
    double ready_ms = now_ms() - started;
    progress_step(0, 0, "running%s", gpu->emulated ? " on the emulated driver" : "");
    for (int i = TENSOR_Q; i < TENSOR_O && ok; i++)
        ok = upload_input(gpu, p, i, addresses[i]);
    if (p->fresh.given && ok) {
        ok = attention_append_upload(gpu, &p->fresh, &append);
        b.append = &append;
    }
    for (int i = TENSOR_Q; i < TENSOR_O && ok; i++)
        ok = p->descale[i] == NULL ||
             (device_alloc(gpu, scales[i], p->descale_count[i] * sizeof(float)) &&
              device_upload(gpu, *scales[i], p->descale[i], p->descale_count[i] * sizeof(float)));
    ok = ok && device_alloc(gpu, &b.o, attention_problem_bytes(p, TENSOR_O)) &&
         device_alloc(gpu, &b.lse, p->lse_count * sizeof(float)) && upload_arrays(gpu, p, &b) &&
         attention_hooks_upload(gpu, &p->hooks, b.aux) &&
         attention_blocks_make(gpu, &p->desc, &p->geometry, &b, &lists) &&
         device_alloc_zeros(gpu, &b.workspace, ptxpack_attention_workspace(plan)) &&
         time_launches(gpu, plan, &b, p->repeat, &p->ms) && download(gpu, p, &b);
    progress_end();
    if (ok) {
        report_device(gpu, s->json);
        report_kernel(ptxpack_kernel_describe(ptxpack_attention_kernel(plan)), ready_ms, s->json);
        attention_blocks_report(&lists, &p->desc, s->json);
    }
    free_buffers(gpu, &b);
    attention_append_release(gpu, &p->fresh);
    ptxpack_attention_plan_free(plan);
    return ok ? COMMAND_OK : command_fail(s->subcommand, "%s", gpu->line);
}
