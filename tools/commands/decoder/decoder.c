/* decoder.c - the run of an operation on random rows: options, memory, launches, times, the verdict. */
#include "decoder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/progress.h"

decoder decoder_of(const decoder_op *op, int64_t rows)
{
    return (decoder){.op = op,
                     .rows = rows,
                     .seed = OPTION_NOT_GIVEN,
                     .repeat = OPTION_NOT_GIVEN,
                     .dtype_name = "bf16"};
}

/* ---- settings ----------------------------------------------------------------------------------------- */
bool decoder_size(const decoder *d, const char *name, int64_t value, int64_t most)
{
    if (value >= 1 && value <= most)
        return true;
    command_fail(d->op->word, "--%s: %lld is not between 1 and %lld", name, (long long)value, (long long)most);
    return false;
}

static int check_settings(decoder *d)
{
    enum { MOST_ROWS = 1 << 24, MOST_LAUNCHES = 1000000 };
    const char *word = d->op->word;
    d->dtype = strcmp(d->dtype_name, "f16") == 0 ? PTXPACK_F16 : PTXPACK_BF16;
    if (d->dtype == PTXPACK_BF16 && strcmp(d->dtype_name, "bf16") != 0)
        return command_fail(word, "--dtype: \"%s\" is neither f16 nor bf16", d->dtype_name), COMMAND_USAGE;
    if (d->seed < 0 && d->seed != OPTION_NOT_GIVEN)
        return command_fail(word, "--seed: %lld is negative", (long long)d->seed), COMMAND_USAGE;
    if (!decoder_size(d, "rows", d->rows, MOST_ROWS) ||
        (d->repeat != OPTION_NOT_GIVEN && !decoder_size(d, "repeat", d->repeat, MOST_LAUNCHES)))
        return COMMAND_USAGE;
    if (d->seed == OPTION_NOT_GIVEN)
        d->seed = (int64_t)random_seed();
    return d->op->describe(d);
}

/* ---- memory ------------------------------------------------------------------------------------------- */
static bool make_host(decoder *d)
{
    for (decoder_tensor *t = d->tensor; t < d->tensor + DECODER_TENSORS; t++) {
        if (t->bytes == 0 || t->zeros)
            continue;
        t->host = calloc(t->bytes, 1);
        t->result = t->written ? calloc(t->bytes, 1) : NULL;
        if (t->host == NULL || (t->written && t->result == NULL)) {
            snprintf(d->gpu.line, sizeof d->gpu.line, "no memory for %zu bytes of %s", t->bytes, t->name);
            return false;
        }
    }
    return true;
}

static bool make_device(decoder *d)
{
    bool ok = true;
    for (decoder_tensor *t = d->tensor; t < d->tensor + DECODER_TENSORS && ok; t++)
        if (t->bytes != 0)
            ok = t->zeros ? device_alloc_zeros(&d->gpu, &t->at, t->bytes)
                          : device_alloc(&d->gpu, &t->at, t->bytes);
    return ok;
}

static bool upload(decoder *d)
{
    bool ok = true;
    for (decoder_tensor *t = d->tensor; t < d->tensor + DECODER_TENSORS && ok; t++)
        ok = t->host == NULL || device_upload(&d->gpu, t->at, t->host, t->bytes);
    return ok;
}

static bool download(decoder *d)
{
    bool ok = true;
    for (decoder_tensor *t = d->tensor; t < d->tensor + DECODER_TENSORS && ok; t++)
        ok = t->result == NULL || device_download(&d->gpu, t->result, t->at, t->bytes);
    return ok;
}

static void free_memory(decoder *d)
{
    for (decoder_tensor *t = d->tensor; t < d->tensor + DECODER_TENSORS; t++) {
        device_free(&d->gpu, t->at);
        free(t->host);
        free(t->result);
    }
}

/* ---- launches ----------------------------------------------------------------------------------------- */
static bool time_launches(decoder *d, double *ms)
{
    const int64_t repeat = device_launches(&d->gpu, d->repeat);
    for (int64_t i = -device_warm_up(&d->gpu); i < repeat; i++) {
        if (i == 0 && (!device_sync(&d->gpu) || !device_start(&d->gpu)))
            return false;
        if (!device_status(&d->gpu, d->op->launch(d)))
            return false;
    }
    if (!device_stop(&d->gpu) || !device_elapsed(&d->gpu, ms))
        return false;
    *ms /= (double)repeat;
    return true;
}

static void report_time(const decoder *d, double ms)
{
    const int64_t repeat = device_launches(&d->gpu, d->repeat);
    const double  gbs = d->bytes / ms * 1e-6;
    if (d->json) {
        json_text("ran_on", d->gpu.emulated ? "emulator" : "gpu");
        json_real("ms", ms);
        json_real("gb_per_s", gbs);
        json_int("repeat", repeat);
    } else if (d->gpu.emulated) {
        printf("time      %.1f ms emulated (mean of %lld launches)\n", ms, (long long)repeat);
    } else {
        printf("time      %.4f ms, %.0f GB/s (mean of %lld launches)\n", ms, gbs, (long long)repeat);
    }
}

/* What a kernel but the first took: the plans are made one after another, and all of them are timed together. */
static double stages_of(const ptxpack_kernel *kernel)
{
    const ptxpack_kernel_info *info = ptxpack_kernel_describe(kernel);
    return info->expand_ms + info->cache_ms + info->compile_ms + info->load_ms;
}

static void report_kernels(const decoder *d, double ready_ms)
{
    for (int i = 1; i < DECODER_KERNELS && d->kernel[i] != NULL; i++)
        ready_ms -= stages_of(d->kernel[i]);
    if (d->json)
        json_open("kernels", '[');
    for (int i = 0; i < DECODER_KERNELS && d->kernel[i] != NULL; i++) {
        if (d->json)
            json_open(NULL, '{');
        report_kernel(ptxpack_kernel_describe(d->kernel[i]), i == 0 ? ready_ms : stages_of(d->kernel[i]),
                      d->json);
        if (d->json)
            json_close();
    }
    if (d->json)
        json_close();
}

/* Of the launches that are timed, those that change what they read make other results each time: what is verified is one more
 * launch with the inputs as they were. */
static int compute(decoder *d)
{
    random_state random = random_start((uint64_t)d->seed);
    double       ms = 0, started = now_ms();
    progress_begin(d->op->word, "compiling");
    const ptxpack_status planned = d->op->plan(d);
    const double         ready_ms = now_ms() - started;
    bool                 ok = device_status(&d->gpu, planned) && make_host(d);
    progress_step(0, 0, "running%s", d->gpu.emulated ? " on the emulated driver" : "");
    if (ok)
        d->op->fill(d, &random);
    ok = ok && make_device(d) && upload(d) && time_launches(d, &ms) && upload(d) &&
         device_status(&d->gpu, d->op->launch(d)) && download(d);
    progress_end();
    if (!ok)
        return command_fail(d->op->word, "%s", d->gpu.line),
               planned == PTXPACK_E_ARG ? COMMAND_USAGE : COMMAND_FAILED;
    report_device(&d->gpu, d->json);
    report_kernels(d, ready_ms);
    report_time(d, ms);
    return COMMAND_OK;
}

/* ---- the verdict -------------------------------------------------------------------------------------- */
void decoder_count(decoder_verdict *v, const char *name, size_t place, bool right, double error)
{
    v->count++;
    if (!(error <= v->max_error) && !isnan(v->max_error))
        v->max_error = error;
    if (right)
        return;
    if (v->wrong++ == 0) {
        v->name = name;
        v->first = place;
    }
}

void decoder_bits(const decoder *d, decoder_verdict *v, int tensor, const void *want, size_t element_bytes)
{
    const decoder_tensor *t = &d->tensor[tensor];
    for (size_t at = 0; at < t->bytes; at += element_bytes)
        decoder_count(v, t->name, at / element_bytes,
                      memcmp((const char *)t->result + at, (const char *)want + at, element_bytes) == 0, 0);
}

void decoder_rounded(const decoder *d, decoder_verdict *v, int tensor, const double *want, double relative,
                     double absolute)
{
    const decoder_tensor *t = &d->tensor[tensor];
    const double          unit = d->dtype == PTXPACK_F16 ? 0x1p-11 : 0x1p-8;
    for (size_t i = 0; i < t->bytes / sizeof(uint16_t); i++) {
        const double error = fabs((double)ptxpack_element(d->dtype, t->result, i) - want[i]);
        decoder_count(v, t->name, i, error <= (unit + relative) * fabs(want[i]) + absolute, error);
    }
}

static int verify(const decoder *d)
{
    decoder_verdict v = {0};
    progress_begin(d->op->word, "verifying on the CPU");
    const ptxpack_status status = d->op->verify(d, &v);
    progress_end();
    if (status != PTXPACK_OK)
        return command_fail(d->op->word, "--verify: %s", ptxpack_detail(NULL));
    if (d->json) {
        json_open("verify", '{');
        json_bool("pass", v.wrong == 0);
        json_int("elements", (int64_t)v.count);
        json_int("wrong", (int64_t)v.wrong);
        json_real("max_error", v.max_error);
        json_close();
    } else {
        printf("verified  %s: %zu elements, max error %.3g\n", v.wrong == 0 ? "correct" : "WRONG", v.count,
               v.max_error);
    }
    if (v.wrong == 0)
        return COMMAND_OK;
    return command_fail(d->op->word, "%zu of %zu elements are wrong, the first of them number %zu of %s",
                        v.wrong, v.count, v.first, v.name);
}

/* ---- the command -------------------------------------------------------------------------------------- */
static int report_problem(const decoder *d)
{
    report r = {0};
    report_open(&r, "problem", '{');
    report_text(&r, "dtype", "%s", d->dtype_name);
    report_int(&r, "rows", d->rows);
    d->op->problem(d, &r);
    report_int(&r, "seed", d->seed);
    report_line(&r, "input     random, seed {seed}");
    report_close(&r);
    return report_print(&r, d->op->word, d->json);
}

static int run(decoder *d)
{
    int status = report_problem(d);
    if (status == COMMAND_OK)
        status = compute(d);
    if (status == COMMAND_OK && d->verify)
        status = verify(d);
    free_memory(d);
    d->op->end(d);
    return status;
}

int decoder_run(int argc, char **argv, const char *synopsis, const option *rows, decoder *d)
{
    int status = command_options(argc, argv, synopsis, rows, NULL);
    if (status >= 0)
        return status;
    status = check_settings(d);
    if (status != COMMAND_OK)
        return status;
    if (device_open_as(&d->gpu, d->device_name, NULL) != PTXPACK_OK)
        return command_fail(d->op->word, "%s", d->gpu.line),
               device_choice(d->device_name) ? COMMAND_FAILED : COMMAND_USAGE;
    if (d->json)
        json_open(NULL, '{');
    status = run(d);
    if (d->json)
        json_close();
    device_close(&d->gpu);
    return status;
}
