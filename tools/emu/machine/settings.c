/* settings.c - reading PTXPACK_EMU_*. */
#include "settings.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "faults.h"
#include "line.h"

/* The properties of each GPU: shared memory in KiB, threads and blocks of a multiprocessor.  Some GPUs cannot
 * be emulated, but code can be compiled for them. */
static const struct gpu {
    int      sm;
    bool     device;
    uint32_t opt_in, per_sm, reserved, threads, blocks;
} gpus[] = {
    {75, true, 64, 64, 0, 1024, 16},     {80, true, 163, 164, 1, 2048, 32},
    {86, true, 99, 100, 1, 1536, 16},    {87, false, 163, 164, 1, 1536, 16},
    {89, true, 99, 100, 1, 1536, 24},    {90, true, 227, 228, 1, 2048, 32},
    {100, true, 227, 228, 1, 2048, 32},  {103, false, 227, 228, 1, 2048, 32},
    {110, false, 227, 228, 1, 1536, 24}, {120, true, 99, 100, 1, 1536, 24},
    {121, true, 99, 100, 1, 1536, 24},
};

static const struct gpu *gpu_of(int sm)
{
    for (size_t i = 0; i < sizeof gpus / sizeof gpus[0]; i++)
        if (gpus[i].sm == sm)
            return &gpus[i];
    return NULL;
}

bool emu_settings_gpu(struct emu_settings *out, int sm)
{
    const struct gpu *gpu = gpu_of(sm);
    if (gpu == NULL)
        return false;
    out->sm = sm;
    out->shared_default = 48 << 10;
    out->shared_opt_in = gpu->opt_in << 10;
    out->shared_per_sm = gpu->per_sm << 10;
    out->shared_reserved = gpu->reserved << 10;
    out->threads_per_sm = gpu->threads;
    out->blocks_per_sm = gpu->blocks;
    return true;
}

static const char *variable(const char *word)
{
    char name[64];
    snprintf(name, sizeof name, "PTXPACK_EMU_%s", word);
    const char *value = getenv(name);
    return value != NULL && *value ? value : NULL;
}

/* A number from least to most; with `units` K, M or G may follow it.  *out keeps its value if the variable is
 * not set. */
static bool read_number(const char *word, uint64_t least, uint64_t most, bool units, uint64_t *out, char *line,
                        size_t cap)
{
    const char *value = variable(word);
    if (value == NULL)
        return true;
    char *end = NULL;
    errno = 0;
    unsigned long long n = strtoull(value, &end, 10);
    unsigned int       shift = 0;
    if (units && *end && end[1] == '\0')
        shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    bool good = errno == 0 && value[0] >= '0' && value[0] <= '9' && end[shift ? 1 : 0] == '\0' &&
                n <= UINT64_MAX >> shift;
    if (good)
        *out = (uint64_t)n << shift;
    if (good && *out >= least && *out <= most)
        return true;
    snprintf(line, cap, "PTXPACK_EMU_%s is '%.60s', not a number from %llu to %llu%s", word, value,
             (unsigned long long)least, (unsigned long long)most, units ? " (K, M or G may follow)" : "");
    return false;
}

static bool read_int(const char *word, int least, int most, int *out, char *line, size_t cap)
{
    uint64_t n = (uint64_t)*out;
    bool     good = read_number(word, (uint64_t)least, (uint64_t)most, false, &n, line, cap);
    if (good)
        *out = (int)n;
    return good;
}

static bool read_gpu(struct emu_settings *out, char *line, size_t cap)
{
    int sm = 90;
    if (!read_int("SM", 0, 999, &sm, line, cap))
        return false;
    const struct gpu *gpu = gpu_of(sm);
    if (gpu == NULL || !gpu->device) {
        snprintf(line, cap, "PTXPACK_EMU_SM is %d, not one of 75 80 86 89 90 100 120 121", sm);
        return false;
    }
    emu_settings_gpu(out, sm);
    uint64_t opt_in = out->shared_opt_in;
    if (!read_number("SHARED", 1024, 1 << 24, true, &opt_in, line, cap))
        return false;
    out->shared_opt_in = (uint32_t)opt_in;
    if (out->shared_default > out->shared_opt_in)
        out->shared_default = out->shared_opt_in;
    if (out->shared_per_sm < out->shared_opt_in + out->shared_reserved)
        out->shared_per_sm = out->shared_opt_in + out->shared_reserved;
    return true;
}

static bool read_async(struct emu_settings *out, char *line, size_t cap)
{
    static const char *const words[] = {"earliest", "latest", "random"};
    const char              *value = variable("ASYNC");
    out->async_policy = EMU_ASYNC_RANDOM;
    if (value == NULL)
        return true;
    for (int i = 0; i < 3; i++)
        if (strcmp(value, words[i]) == 0) {
            out->async_policy = (enum emu_async_policy)i;
            return true;
        }
    snprintf(line, cap, "PTXPACK_EMU_ASYNC is '%.60s', not earliest, latest or random", value);
    return false;
}

static bool read_errors(struct emu_settings *out, char *line, size_t cap)
{
    const char *value = variable("ERRORS");
    out->errors_of_launches = value != NULL && strcmp(value, "launch") == 0;
    if (value == NULL || out->errors_of_launches || strcmp(value, "sticky") == 0)
        return true;
    snprintf(line, cap, "PTXPACK_EMU_ERRORS is '%.60s', not sticky or launch", value);
    return false;
}

/* One word of PTXPACK_EMU_JUDGE; `negated` removes it. */
static bool judge_word(struct emu_settings *out, const char *word, size_t bytes, bool negated)
{
    static const struct {
        const char  *word;
        unsigned int bits;
    } words[] = {
        {"all", EMU_JUDGE_ALL},           {"uninitialised", EMU_JUDGE_UNINITIALISED},
        {"race", EMU_JUDGE_RACE},         {"proxy", EMU_JUDGE_PROXY},
        {"async", EMU_JUDGE_ASYNC},       {"mbarrier", EMU_JUDGE_MBARRIER},
        {"conflict", EMU_JUDGE_CONFLICT}, {"overread", EMU_JUDGE_OVERREAD},
    };
    if (bytes == 6 && strncmp(word, "report", bytes) == 0) {
        out->judge_reports_only = !negated;
        return true;
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strlen(words[i].word) == bytes && strncmp(words[i].word, word, bytes) == 0) {
            out->judge = negated ? out->judge & ~words[i].bits : out->judge | words[i].bits;
            return true;
        }
    return bytes == 4 && strncmp(word, "none", bytes) == 0 && !negated;
}

/* A list whose first word adds a kind starts empty; "report" and "-race" start from all. */
static bool read_judge(struct emu_settings *out, char *line, size_t cap)
{
    const char *value = variable("JUDGE");
    out->judge = EMU_JUDGE_ALL;
    if (value == NULL)
        return true;
    if (value[0] != '-' && strncmp(value, "report", strcspn(value, ",")) != 0)
        out->judge = 0;
    for (const char *at = value; *at;) {
        size_t bytes = strcspn(at, ",");
        bool   negated = *at == '-';
        if (!judge_word(out, at + negated, bytes - negated, negated)) {
            snprintf(line, cap, "PTXPACK_EMU_JUDGE has the unknown word '%.*s'", (int)(bytes < 60 ? bytes : 60),
                     at);
            return false;
        }
        at += bytes + (at[bytes] == ',');
    }
    return true;
}

static bool read_faults(struct emu_settings *out, char *line, size_t cap)
{
    long old = 0;
    out->faults = variable("FAULT");
    if (!faults_check(out->faults, line, cap))
        return false;
    if (faults_value(out->faults, FAULT_OLD_DRIVER, &old))
        out->driver_version = old ? (int)old : 11040;
    return true;
}

/* If reports could not be written, a run with findings would look clean. */
static bool read_log(struct emu_settings *out, char *line, size_t cap)
{
    out->log_path = variable("LOG");
    if (out->log_path == NULL)
        return true;
    int fd = open(out->log_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) {
        snprintf(line, cap, "PTXPACK_EMU_LOG is '%.120s', which cannot be written: %s", out->log_path,
                 strerror(errno));
        return false;
    }
    close(fd);
    return true;
}

bool emu_settings_read(struct emu_settings *out, char *line, size_t cap)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    memset(out, 0, sizeof *out);
    line[0] = '\0';
    out->sm_count = 4;
    out->memory_bytes = 4ull << 30;
    out->driver_version = 13000;
    out->device_count = 1;
    out->host_threads = processors > 0 && processors < 256 ? (int)processors : 1;
    out->seed = 1;
    out->budget = 1ull << 33;
    out->patience = 10;
    return read_gpu(out, line, cap) && read_int("SMS", 1, 1024, &out->sm_count, line, cap) &&
           read_number("MEMORY", 1 << 20, 1ull << 40, true, &out->memory_bytes, line, cap) &&
           read_int("DRIVER", 10000, 99990, &out->driver_version, line, cap) &&
           read_int("DEVICES", 0, 16, &out->device_count, line, cap) &&
           read_int("THREADS", 1, 256, &out->host_threads, line, cap) &&
           read_number("SEED", 0, UINT64_MAX, false, &out->seed, line, cap) &&
           read_number("BUDGET", 1, UINT64_MAX, true, &out->budget, line, cap) &&
           read_number("PATIENCE", 0, 86400, false, &out->patience, line, cap) && read_async(out, line, cap) &&
           read_errors(out, line, cap) && read_judge(out, line, cap) && read_faults(out, line, cap) &&
           read_log(out, line, cap);
}

static struct emu_settings settings;
static bool                settings_good;

static void read_once(void)
{
    char text[256], line[1024];
    settings_good = emu_settings_read(&settings, text, sizeof text);
    if (!settings_good && emu_line_of(text, line, sizeof line) > 0)
        fprintf(stderr, "ptxpack-emu: %s\n", line);
}

const struct emu_settings *emu_settings(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_once);
    return settings_good ? &settings : NULL;
}
