/* attention.c - ptxpack attention: run it on .npy files or random input, time it, verify it. */
#include <stdlib.h>
#include <string.h>

#include "host/attention/inspect.h"
#include "tools/problem/hooks/blocks.h"
#include "tools/problem/hooks/run.h"
#include "tools/problem/attention_problem.h"
#include "tools/problem/attention_run.h"
#include "tools/command.h"
#include "tools/commands/parallel/attention_devices.h"
#include "tools/problem/sharded.h"
#include "tools/progress.h"
#include "tools/device.h"
#include "tools/problem/npy.h"
#include "host/ptxpack.h"
#include "tools/problem/verify.h"

/* ---- running it --------------------------------------------------------------------------------- */
/* Computes all rows of the reference and rounds them to the element type. */
static ptxpack_status compute_rows(attention_problem *p, const attention_reference *reference)
{
    enum { CHUNK = 4096 };
    const ptxpack_attention_desc *d = &p->desc;
    ptxpack_attention_lengths     lengths = attention_lengths_of(&p->arrays);
    ptxpack_dtype                 type = attention_tensor_type(d, TENSOR_O);
    size_t                        dim = (size_t)attention_value_dim(d);
    attention_row                *rows = (attention_row *)calloc(CHUNK, sizeof *rows);
    double                       *values = (double *)calloc(CHUNK, (dim + 1) * sizeof *values);
    attention_walk                walk = {d, reference, 0, 0};
    size_t                        total = attention_walk_total(&walk);
    ptxpack_status                status = PTXPACK_OK;
    if (rows == NULL || values == NULL)
        status = ptxpack_fail(NULL, PTXPACK_E_MEMORY, "no memory for %d rows", (int)CHUNK);
    for (size_t first = 0; first < total && status == PTXPACK_OK; first += CHUNK) {
        const attention_row_results results = {values, NULL, values + CHUNK * dim};
        size_t                      count = total - first < CHUNK ? total - first : CHUNK;
        for (size_t i = 0; i < count; i++)
            rows[i] = attention_walk_to(&walk, first + i);
        status = attention_reference_rows(reference, rows, count, verify_threads(), &results);
        for (size_t i = 0; i < count && status == PTXPACK_OK; i++) {
            size_t at = attention_row_in_o(&p->geometry, &lengths, &rows[i]);
            for (size_t c = 0; c < dim; c++)
                ptxpack_set_element(type, p->tensor[TENSOR_O], at + c, (float)values[i * dim + c]);
            p->lse[attention_row_in_lse(d, &lengths, &rows[i])] = (float)results.lse[i];
        }
    }
    free(values);
    free(rows);
    return status;
}

/* The reference, on all processors. */
static int run_on_cpu(attention_problem *p)
{
    attention_reference         *reference = NULL;
    ptxpack_attention_lengths    lengths = attention_lengths_of(&p->arrays);
    double                       started = now_ms();
    const ptxpack_attention_desc whole = attention_blocks_without(
        &p->desc); /* lists leave out what is masked anyway */
    ptxpack_status status = attention_reference_open(&whole, p->tensor[TENSOR_Q], p->tensor[TENSOR_K],
                                                     p->tensor[TENSOR_V], &p->descales, &lengths, &reference);
    if (status == PTXPACK_OK)
        status = compute_rows(p, reference);
    p->ms = now_ms() - started;
    attention_reference_close(reference);
    return status == PTXPACK_OK ? COMMAND_OK : command_fail("attention", "%s", ptxpack_detail(NULL));
}

/* ---- reports ------------------------------------------------------------------------------------ */
static void report_problem(const attention_problem *p, const attention_settings *s)
{
    report r = {.items = NULL};
    report_open(&r, "problem", '{');
    attention_problem_report(&r, p);
    if (p->geometry.varlen)
        attention_lengths_report(&r, &p->desc, &p->arrays);
    if (p->fresh.given)
        attention_append_report(&r, &p->fresh);
    report_text(&r, "layout", p->bhsd ? "bhsd" : "bshd");
    report_int(&r, "seed", (int64_t)p->seed);
    report_close(&r);
    report_line(&r,
                "problem   {types}, batch {batch}, q {seqlen_q} rows x {heads_q} heads, kv {seqlen_kv} rows x "
                "{heads_kv} heads, head_dim {head_dim}, {mask_name}");
    if (p->geometry.varlen) {
        report_line(&r, "rows      {rows_kept}");
        report_line(&r, "lengths   {lengths_text}");
    }
    if (p->fresh.given)
        report_line(&r, "append    {appended}");
    if (s->q == NULL)
        report_line(&r, "input     random, seed {seed}");
    report_print(&r, "attention", s->json);
}

static void report_time(const attention_problem *p, const attention_settings *s, bool on_cpu)
{
    attention_work work = attention_lengths_work(&p->desc, &p->geometry, &p->arrays);
    double         tflops = work.flops / p->ms * 1e-9, gbs = work.bytes / p->ms * 1e-6;
    if (s->json) {
        json_text("ran_on", on_cpu ? "cpu" : p->emulated ? "emulator" : "gpu");
        json_real("ms", p->ms);
        json_real("tflops", tflops);
        json_real("gb_per_s", gbs);
        if (!on_cpu)
            json_int("repeat", p->repeat);
    } else if (on_cpu) {
        printf("time      %.1f ms on the CPU (the double-precision reference), %.4f TFLOP/s\n", p->ms, tflops);
    } else if (p->emulated) {
        printf("time      %.1f ms emulated, %.4f TFLOP/s (mean of %lld launches)\n", p->ms, tflops,
               (long long)p->repeat);
    } else {
        printf("time      %.4f ms, %.1f TFLOP/s, %.0f GB/s (mean of %lld launches)\n", p->ms, tflops, gbs,
               (long long)p->repeat);
    }
}

/* Whether a launch left q, k and v as the append in double precision does. */
static int verify_append(const attention_problem *p)
{
    for (int i = TENSOR_Q; i <= TENSOR_V && p->fresh.given; i++)
        if (memcmp(p->fresh.before[i], p->tensor[i], attention_problem_bytes(p, i)) != 0)
            return command_fail("attention", "--append: %s is wrong after it", attention_tensor_names[i]);
    return COMMAND_OK;
}

/* The rows were written to files before: they are not needed any more. */
static int run_verify(const attention_problem *p, const attention_settings *s, device *gpu)
{
    verify_result             r;
    attention_hook_runner     hooks;
    ptxpack_attention_lengths lengths = attention_lengths_of(&p->arrays);
    const bool                hooked = p->desc.score_mod != NULL || p->desc.mask_mod != NULL;
    progress_begin("attention", "verifying on the CPU");
    if (hooked && !attention_hooks_open(&hooks, gpu, &p->hooks, p->desc.seqlen_kv)) {
        progress_end();
        attention_hooks_close(&hooks);
        return command_fail("attention", "--verify: %s", gpu->line);
    }
    lengths.hooks = hooked ? &hooks.functions : NULL;
    const ptxpack_attention_desc whole = attention_blocks_without(
        &p->desc); /* lists leave out what is masked anyway */
    ptxpack_status status = verify_attention_lengths(&whole, p->tensor[TENSOR_Q], p->tensor[TENSOR_K],
                                                     p->tensor[TENSOR_V], &p->descales, &lengths,
                                                     (const uint16_t *)p->tensor[TENSOR_O], p->lse, 0, p->seed,
                                                     &r);
    progress_end();
    if (hooked)
        attention_hooks_close(&hooks);
    if (hooked && hooks.failed)
        return command_fail("attention", "--verify: %s", gpu->line);
    if (status != PTXPACK_OK)
        return command_fail("attention", "--verify: %s", ptxpack_detail(NULL));
    if (s->json) {
        json_open("verify", '{');
        json_bool("pass", r.pass);
        json_int("rows", (int64_t)r.rows);
        json_int("rows_in_all", (int64_t)r.total);
        json_real("max_error", r.out_error);
        json_real("max_error_of_input_type", r.rounded_error);
        json_real("atol", r.atol);
        json_real("lse_error", r.lse_error);
        json_close();
    } else {
        printf("verified  %s: %s%zu of %zu rows\n"
               "          o    max error %.3g, allowed %g * %.3g (the same maths in %s) + %.3g\n"
               "          lse  max error %.3g, allowed %.3g\n",
               r.pass ? "correct" : "WRONG", r.rows < r.total ? "a random sample of " : "", r.rows, r.total,
               r.out_error, verify_rtol(&p->desc), r.rounded_error, ptxpack_dtype_name(p->desc.dtype), r.atol,
               r.lse_error, r.lse_bound);
    }
    if (!r.pass)
        return command_fail("attention", "the result is wrong");
    if (p->geometry.varlen &&
        !attention_lengths_untouched(&p->desc, &p->geometry, &p->arrays, p->tensor[TENSOR_O], p->lse))
        return command_fail("attention", "a row of o or lse was written that no sequence has");
    return COMMAND_OK;
}

static int write_outputs(const attention_problem *p, const attention_settings *s)
{
    const ptxpack_attention_desc *d = &p->desc;
    char                          line[NPY_LINE];
    npy_array                     o = {
                            .type = d->dtype == PTXPACK_F16 ? NPY_F16 : NPY_U16,
                            .rank = 4,
                            .shape = {d->batch, d->seqlen_q, d->heads_q, attention_value_dim(d)},
                            .count = p->elements[TENSOR_O],
                            .data = p->tensor[TENSOR_O],
    };
    npy_array lse = {
        .type = NPY_F32,
        .rank = 3,
        .shape = {d->batch, d->heads_q, d->seqlen_q},
        .count = p->lse_count,
        .data = p->lse,
    };
    if (p->bhsd) {
        o.shape[1] = d->heads_q;
        o.shape[2] = d->seqlen_q;
    }
    if (d->q_rows == PTXPACK_ROWS_PACKED) {
        o.rank = 3;
        o.shape[0] = p->bhsd ? d->heads_q : d->rows_q;
        o.shape[1] = p->bhsd ? d->rows_q : d->heads_q;
        o.shape[2] = attention_value_dim(d);
        lse.rank = 2;
        lse.shape[0] = d->heads_q;
        lse.shape[1] = d->rows_q;
    }
    if ((s->o != NULL && !npy_write(s->o, &o, line)) || (s->lse != NULL && !npy_write(s->lse, &lse, line)))
        return command_fail("attention", "%s", line);
    return COMMAND_OK;
}

/* Runs the problem, reports, writes and verifies the result; the JSON object is open. */
static int run_problem(attention_problem *p, const attention_settings *s)
{
    device         gpu = {.handle = NULL};
    bool           always = s->cpu != NULL && strcmp(s->cpu, "always") == 0;
    const char    *choice = s->cpu != NULL && s->device == NULL ? "gpu" : s->device;
    ptxpack_status opened = always ? PTXPACK_OK : device_open_as(&gpu, choice, NULL);
    bool           on_cpu = always || (s->cpu != NULL && device_absent(opened));
    if (!on_cpu && opened != PTXPACK_OK)
        return command_fail("attention", "%s", gpu.line),
               device_choice(choice) ? COMMAND_FAILED : COMMAND_USAGE;
    if (on_cpu && (p->desc.score_mod != NULL || p->desc.mask_mod != NULL)) {
        device_close(&gpu);
        return command_fail("attention", "--cpu: a CPU cannot run hooks; --device emu emulates a GPU");
    }
    report_problem(p, s);
    if (on_cpu) {
        const char *why = always ? "as asked for" : gpu.line;
        if (s->json)
            json_text("no_gpu", why);
        else
            printf("no GPU: %s; computing on the CPU\n", why);
    }
    progress_begin("attention", "computing on the CPU");
    int status = on_cpu ? run_on_cpu(p) : COMMAND_OK;
    progress_end();
    if (!on_cpu)
        status = s->devices == OPTION_NOT_GIVEN
                     ? attention_run(&gpu, p, s)
                     : attention_on_devices(p, &gpu, s->devices, s->way != NULL ? s->way : sharded_ways[0]);
    if (status == COMMAND_OK)
        report_time(p, s, on_cpu);
    if (status == COMMAND_OK)
        status = write_outputs(p, s);
    if (status == COMMAND_OK && s->verify && !on_cpu)
        status = verify_append(p);
    if (status == COMMAND_OK && s->verify)
        status = run_verify(p, s, &gpu);
    device_close(&gpu);
    return status;
}

int cmd_attention(int argc, char **argv)
{
    attention_settings s = attention_settings_of("attention");
    const option       rows[] = {
              {"q", OPTION_TEXT, &s.q, "FILE  queries, .npy of 4 dimensions (see --layout)"},
              {"k", OPTION_TEXT, &s.k, "FILE  keys"},
              {"v", OPTION_TEXT, &s.v, "FILE  values"},
              {"o", OPTION_TEXT, &s.o, "FILE  write the output"},
              {"lse", OPTION_TEXT, &s.lse,
               "FILE  write the log-sum-exp, float32 [batch, heads, rows]; of packed q [heads, rows]"},
              ATTENTION_OPTIONS(&s, "2", "2048", "16"),
              {"append", OPTION_INT, &s.append.rows, APPEND_OPTION_HELP},
              {"rotary", OPTION_INT, &s.append.rotary, ROTARY_OPTION_HELP},
              {"rotary-pairs", OPTION_FLAG, &s.append.pairs, ROTARY_PAIRS_OPTION_HELP},
              {"score-mod", OPTION_TEXT, &s.hooks.mod[HOOK_SCORE], SCORE_MOD_OPTION_HELP},
              {"mask-mod", OPTION_TEXT, &s.hooks.mod[HOOK_MASK], MASK_MOD_OPTION_HELP},
              {"blocks", OPTION_INT, &s.blocks, BLOCKS_OPTION_HELP},
              {"aux", OPTION_TEXT, &s.hooks.aux, AUX_OPTION_HELP},
              {"bias", OPTION_TEXT, &s.bias.bias, BIAS_OPTION_HELP},
              {"mask-bits", OPTION_TEXT, &s.bias.bits, MASK_BITS_OPTION_HELP},
              {"mask-keys", OPTION_TEXT, &s.bias.keys, MASK_KEYS_OPTION_HELP},
              {"layout", OPTION_TEXT, &s.layout, "bshd|bhsd  order of batch, sequence, head, dim (default bshd)"},
              {"scale", OPTION_REAL, &s.scale, "X  multiplies q.k (default 1/sqrt(head-dim))"},
              {"dtype", OPTION_TEXT, &s.dtype, "f16|bf16|e4m3  (default f16); bf16 files hold uint16, e4m3 uint8"},
              {"verify", OPTION_FLAG, &s.verify, "compare with the double-precision reference"},
              {"seed", OPTION_INT, &s.seed, "N  of random input and of the rows verified"},
              {"repeat", OPTION_INT, &s.repeat, "N  launches timed (default 20; emulated: 1)"},
              {"cpu", OPTION_MAYBE, &s.cpu, "[always]  compute on the CPU when there is no GPU, or always"},
              {"device", OPTION_TEXT, &s.device, DEVICE_OPTION_HELP},
              {"devices", OPTION_INT, &s.devices, DEVICES_OPTION_HELP},
              {"way", OPTION_TEXT, &s.way, WAY_OPTION_HELP},
              {"json", OPTION_FLAG, &s.json, "print JSON"},
              {NULL, OPTION_FLAG, NULL, NULL},
    };
    int status = command_options(argc, argv, "ptxpack attention [--q FILE --k FILE --v FILE] [options]", rows,
                                 NULL);
    if (status >= 0)
        return status;
    if (s.way != NULL && s.devices == OPTION_NOT_GIVEN)
        return command_fail("attention", "--way: without --devices there is nothing to divide"), COMMAND_USAGE;
    attention_problem p = {.ms = 0};
    status = attention_problem_make(&s, &p);
    if (status == COMMAND_OK) {
        if (s.json)
            json_open(NULL, '{');
        status = run_problem(&p, &s);
        if (s.json)
            json_close();
    }
    attention_problem_free(&p);
    return status;
}
