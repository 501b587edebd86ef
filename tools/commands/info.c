/* info.c - "ptxpack info": shows the driver, devices, compilers and the cache, and for every kernel variant
 * whether it would run here, and why. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/attention/inspect.h"
#include "tools/command.h"
#include "loader/inspect.h"
#include "prebuilt_report.h"
#include "host/ptxpack.h"

typedef struct settings {
    const char *arch, *ptxjit;
    int64_t     device;
    bool        json;
} settings;

/* ---- the library ---------------------------------------------------------------------------------- */
static void show_version(bool json)
{
    char        identity[96] = "";
    const char *build = ptxpack_own_identity(identity, sizeof identity) ? identity : "build-id unknown";
    if (json) {
        json_text("version", ptxpack_version());
        json_text("library", ptxpack_version_full());
        json_text("build", build);
    } else {
        printf("ptxpack   %s, %s\n", ptxpack_version_full(), build);
    }
}

/* ---- the driver and its devices ------------------------------------------------------------------- */
static void show_driver(const struct ptxpack_driver *driver, bool json)
{
    int isa = ptxpack_isa_of_cuda(driver->version);
    if (json) {
        json_open("driver", '{');
        json_text("library", driver->path);
        json_int("version", driver->version);
        json_int("isa", isa);
        json_close();
        return;
    }
    printf("driver    CUDA %d.%d, PTX ISA up to %d.%d, %s\n", driver->version / 1000,
           driver->version % 1000 / 10, isa / 10, isa % 10, driver->path);
}

static int attribute(const struct ptxpack_driver *driver, unsigned int name, int device)
{
    int value = 0;
    return driver->cuDeviceGetAttribute(&value, name, device) == PTXPACK_CU_SUCCESS ? value : 0;
}

static void show_device(const struct ptxpack_driver *driver, int ordinal, bool used, bool json)
{
    char   name[96] = "?";
    int    device = 0;
    size_t memory = 0;
    if (driver->cuDeviceGet(&device, ordinal) != PTXPACK_CU_SUCCESS)
        return;
    driver->cuDeviceGetName(name, (int)sizeof name, device);
    driver->cuDeviceTotalMem(&memory, device);
    int arch = 10 * attribute(driver, PTXPACK_CU_DEVICE_COMPUTE_MAJOR, device) +
               attribute(driver, PTXPACK_CU_DEVICE_COMPUTE_MINOR, device);
    int sms = attribute(driver, PTXPACK_CU_DEVICE_MULTIPROCESSOR_COUNT, device);
    int shared = attribute(driver, PTXPACK_CU_DEVICE_SHARED_PER_BLOCK_OPTIN, device);
    if (json) {
        json_open(NULL, '{');
        json_int("ordinal", ordinal);
        json_text("name", name);
        json_int("arch", arch);
        json_int("multiprocessors", sms);
        json_int("memory_bytes", (int64_t)memory);
        json_int("shared_bytes_per_block", shared);
        json_bool("used", used);
        json_close();
        return;
    }
    printf("device %-2d %s, sm_%d, %d multiprocessors, %.1f GiB, %d KiB of shared memory per block%s\n",
           ordinal, name, arch, sms, (double)memory / (1 << 30), shared >> 10, used ? "" : " (not used)");
}

static void show_devices(const ptxpack *handle, bool json)
{
    const struct ptxpack_driver *driver = ptxpack_driver_table(handle);
    int                          count = 0;
    show_driver(driver, json);
    driver->cuDeviceGetCount(&count);
    if (json)
        json_open("devices", '[');
    for (int i = 0; i < count; i++)
        show_device(driver, i, i == ptxpack_device(handle)->ordinal, json);
    if (json)
        json_close();
}

/* Reports that there is no device; commands that run kernels then use the emulated driver, if it is there. */
static void show_absence(const char *why, bool json)
{
    char        path[4096];
    const char *emulator = ptxpack_emulator_path(path, sizeof path);
    if (json) {
        json_text("no_device", why);
        json_text("emulator", emulator != NULL ? emulator : "");
    } else {
        printf("driver    no device to run on: %s\n", why);
        if (emulator != NULL)
            printf("emulated  kernels run on %s\n", emulator);
    }
}

/* ---- compilers and cache --------------------------------------------------------------------------- */
static void show_nvrtc(bool json)
{
    char line[640];
    ptxpack_nvrtc_describe(line, sizeof line);
    if (json)
        json_text("nvrtc", line);
    else
        printf("nvrtc     %s\n", line);
}

static void show_loader(const ptxpack *handle, bool json)
{
    const ptxpack_device_info *info = ptxpack_device(handle);
    ptxpack_cache             *cache = ptxpack_cache_of(handle);
    if (json) {
        json_text("compiler", info->route);
        json_bool("compiling_forbidden", ptxpack_cache_env_flag("PTXPACK_FORBID_COMPILE"));
        show_nvrtc(true);
        json_open("cache", '{');
        json_text("path", ptxpack_cache_path(cache));
        json_bool("enabled", ptxpack_cache_enabled(cache));
        json_text("detail", ptxpack_cache_detail(cache));
        prebuilt_report(cache, "", true, true);
        json_close();
        return;
    }
    printf("compiler  %s%s\n", info->route,
           ptxpack_cache_env_flag("PTXPACK_FORBID_COMPILE") ? "; forbidden: PTXPACK_FORBID_COMPILE" : "");
    show_nvrtc(false);
    const char *line = ptxpack_cache_detail(cache); /* "cache disabled: ..." needs nothing more */
    if (ptxpack_cache_enabled(cache))
        printf("cache     %s%s%s\n", ptxpack_cache_path(cache), *line ? "; " : "", line);
    else
        printf("%s\n", line);
    prebuilt_report(cache, "prebuilt  ", true, false);
}

/* ---- kernels -------------------------------------------------------------------------------------- */
/* What becomes of a row: "no", "could" (another one comes first) or "yes", and why. */
typedef struct fate {
    const char *verdict;
    char        text[320];
} fate;

/* The row before `v` that would be taken in its place: it has the same op and head size, and it runs. */
static const ptxpack_variant *better_row(const ptxpack_variant *v, const ptxpack_device_caps *caps)
{
    char                   why[256];
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    int64_t                head_dim = ptxpack_variant_parameter(v, "HEAD_DIM", 0);
    for (const ptxpack_variant *row = rows; row < v; row++)
        if (strcmp(row->file, v->file) == 0 && ptxpack_variant_parameter(row, "HEAD_DIM", 0) == head_dim &&
            ptxpack_variant_refusal(row, caps, why, sizeof why) == NULL)
            return row;
    return NULL;
}

/* Rows of attention are chosen for each problem; here a plain problem stands for all. */
static fate fate_of_attention(const ptxpack *handle, const ptxpack_variant *v)
{
    const ptxpack_device_caps *caps = &ptxpack_device(handle)->caps;
    fate                       f = {.verdict = "yes"};
    char                       why[PLAN_LINE];
    /* clang-format off */
    const ptxpack_attention_desc desc = {
        .size = sizeof desc, .batch = 1, .seqlen_q = 1024, .seqlen_kv = 1024, .heads_q = 1, .heads_kv = 1,
        .dtype = ptxpack_variant_parameter(v, "FP8", 0) != 0 ? PTXPACK_E4M3 : PTXPACK_F16,
        .head_dim = (int32_t)ptxpack_variant_parameter(v, "HEAD_DIM", 0), .head_dim_v = (int32_t)attention_row_values(v),
        .options = ptxpack_variant_parameter(v, "VALUES_IN_KEYS", 0) != 0 ? PTXPACK_VALUES_IN_KEYS : 0,
    };
    /* clang-format on */
    const ptxpack_variant *better = plan_method_of(v)->ordered ? better_row(v, caps) : NULL;
    if (plan_row_refusal(&attention_op, handle, caps, &desc, v, why) != NULL) {
        f.verdict = "no";
        snprintf(f.text, sizeof f.text, "%s", why);
    } else if (better != NULL) {
        f.verdict = "could";
        snprintf(f.text, sizeof f.text, "could run, %s comes first", better->id);
    } else {
        snprintf(f.text, sizeof f.text,
                 plan_method_of(v)->ordered ? "the first of its kind that this device can run"
                                            : "can run; `ptxpack plan attention` says for which problems");
    }
    return f;
}

static fate fate_of(const ptxpack *handle, const ptxpack_variant *v)
{
    const ptxpack_device_caps *caps = &ptxpack_device(handle)->caps;
    const ptxpack_variant     *better = better_row(v, caps);
    fate                       f = {.verdict = "yes"};
    char                       why[256];
    if (strcmp(v->op, "attention") == 0)
        return fate_of_attention(handle, v);
    if (ptxpack_variant_refusal(v, caps, why, sizeof why) != NULL) {
        f.verdict = "no";
        snprintf(f.text, sizeof f.text, "%s", why);
    } else if (better != NULL) {
        f.verdict = "could";
        snprintf(f.text, sizeof f.text, "could run, %s comes first", better->id);
    } else {
        snprintf(f.text, sizeof f.text, "the first of its kind that this device can run");
    }
    return f;
}

static void show_kernel(const ptxpack *handle, const ptxpack_variant *v, bool json)
{
    const fate f = fate_of(handle, v);
    if (json) {
        json_open(NULL, '{');
        json_text("variant", v->id);
        json_text("op", v->op);
        json_text("runs", f.verdict);
        json_text("why", f.text);
        json_close();
        return;
    }
    printf("  %-5s %-37s %s\n", f.verdict, v->id, f.text);
}

static void show_kernels(const ptxpack *handle, bool json)
{
    size_t                     count;
    const ptxpack_variant     *rows = ptxpack_variants(&count);
    const ptxpack_device_caps *caps = &ptxpack_device(handle)->caps;
    if (json) {
        json_open("choice", '{');
        json_int("arch", caps->arch);
        json_int("isa", caps->isa);
        json_open("kernels", '[');
    } else {
        printf("kernels   chosen for %s, PTX ISA up to %d.%d, %d KiB of shared memory per block\n",
               ptxpack_device(handle)->target, caps->isa / 10, caps->isa % 10, caps->shared_per_block >> 10);
    }
    for (size_t i = 0; i < count; i++)
        show_kernel(handle, &rows[i], json);
    if (json) {
        json_close();
        json_close();
    }
}

/* ---- the command ---------------------------------------------------------------------------------- */
/* The exit status for a target, device or compiler that was named but is not there. */
static int refused(ptxpack_status status)
{
    command_fail("info", "%s", ptxpack_detail(NULL));
    return status == PTXPACK_E_ARG ? COMMAND_USAGE : COMMAND_FAILED;
}

/* Without a device: shows what is known for an architecture by name; sm_80 stands in when none was named. */
static int run_offline(const settings *s, const char *why)
{
    ptxpack        *handle;
    ptxpack_options options = {.size = sizeof options, .offline = true};
    const char     *arch = s->arch != NULL ? s->arch : getenv("PTXPACK_ARCH");
    bool            named = arch != NULL && *arch != '\0';
    options.arch = named ? arch : "sm_80";
    options.ptxjit = s->ptxjit;
    ptxpack_status status = ptxpack_open(&options, &handle);
    if (status != PTXPACK_OK)
        return refused(status);
    show_version(s->json);
    show_absence(why, s->json);
    show_loader(handle, s->json);
    if (named)
        show_kernels(handle, s->json);
    else if (!s->json)
        printf("kernels   name an architecture (--arch sm_80) to see which would run on it\n");
    ptxpack_close(handle);
    return COMMAND_OK;
}

static int run(const settings *s)
{
    ptxpack        *handle;
    ptxpack_options options = {.size = sizeof options, .device = (int32_t)s->device};
    options.arch = s->arch;
    options.ptxjit = s->ptxjit;
    ptxpack_status status = ptxpack_open(&options, &handle);
    if (status == PTXPACK_E_ARG || status == PTXPACK_E_NO_JIT)
        return refused(status);
    if (status != PTXPACK_OK) {
        char why[512];
        snprintf(why, sizeof why, "%s: %s", ptxpack_status_string(status), ptxpack_detail(NULL));
        return run_offline(s, why);
    }
    show_version(s->json);
    show_devices(handle, s->json);
    show_loader(handle, s->json);
    show_kernels(handle, s->json);
    ptxpack_close(handle);
    return COMMAND_OK;
}

int cmd_info(int argc, char **argv)
{
    settings     s = {.json = false};
    const option rows[] = {
        {"device", OPTION_INT, &s.device, "N  device to choose kernels for (default 0)"},
        {"arch", OPTION_TEXT, &s.arch, "sm_NN  choose as for this architecture"},
        {"ptxjit", OPTION_TEXT, &s.ptxjit, "FILE  in place of libnvidia-ptxjitcompiler.so.1"},
        {"json", OPTION_FLAG, &s.json, "print JSON"},
        {NULL, OPTION_FLAG, NULL, NULL},
    };
    int status = command_options(argc, argv, "ptxpack info [options]", rows, NULL);
    if (status >= 0)
        return status;
    if (s.device < 0 || s.device > INT32_MAX)
        return command_fail("info", "--device %lld is out of range", (long long)s.device), COMMAND_USAGE;
    if (s.json)
        json_open(NULL, '{');
    status = run(&s);
    if (s.json)
        json_close();
    return status;
}
