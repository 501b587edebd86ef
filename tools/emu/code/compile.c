/* compile.c - decoding PTX as if it were compiled: versions, targets, logs as ptxas writes them. */
#include "compile.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include "container.h"
#include "fatbin.h"
#include "spare.h"
#include "tools/emu/judge/report.h"
#include "tools/emu/machine/faults.h"

/* ---- versions and targets ------------------------------------------------------------------------------ */
int compile_isa(int cuda_version)
{
    static const struct {
        int isa, cuda;
    } releases[] = {
        {63, 10000}, {64, 10010}, {65, 10020}, {70, 11000}, {71, 11010}, {72, 11020}, {73, 11030},
        {74, 11040}, {75, 11050}, {76, 11060}, {77, 11070}, {78, 11080}, {80, 12000}, {81, 12010},
        {82, 12020}, {83, 12030}, {84, 12040}, {85, 12050}, {86, 12070}, {87, 12080}, {88, 12090},
        {90, 13000}, {91, 13010}, {92, 13020}, {93, 13030}, {94, 13040},
    };
    int isa = 63;
    for (size_t i = 0; i < sizeof releases / sizeof releases[0]; i++)
        if (releases[i].cuda <= cuda_version)
            isa = releases[i].isa;
    return isa;
}

/* The length of a name such as "sm_90a" at the start of the text; 0: there is none. */
static size_t parse_target(const char *at, const char *end, int *sm, char *suffix)
{
    const char *p = at + 3;
    *sm = 0;
    *suffix = 0;
    if (end - at < 5 || strncmp(at, "sm_", 3) != 0)
        return 0;
    while (p < end && isdigit((unsigned char)*p) && *sm < 1000)
        *sm = 10 * *sm + (*p++ - '0');
    if (p < end && (*p == 'a' || *p == 'f'))
        *suffix = *p++;
    bool ended = p == end || !(isalnum((unsigned char)*p) || *p == '_');
    return *sm >= 10 && *sm < 1000 && ended ? (size_t)(p - at) : 0;
}

bool compile_parse_target(const char *name, int *sm, char *suffix)
{
    size_t bytes = strlen(name);
    return bytes && parse_target(name, name + bytes, sm, suffix) == bytes;
}

/* ---- the head of a text -------------------------------------------------------------------------------- */
struct head {
    int  version, version_line; /* 83 for .version 8.3; 0: not given */
    int  target, target_line;
    char suffix;
};

/* Skip spaces and comments, and count lines. */
static const char *skip_blank(const char *at, const char *end, int *line)
{
    while (at < end) {
        if (*at == '\n')
            ++*line;
        if (isspace((unsigned char)*at)) {
            at++;
        } else if (end - at > 1 && at[0] == '/' && at[1] == '/') {
            while (at < end && *at != '\n')
                at++;
        } else if (end - at > 1 && at[0] == '/' && at[1] == '*') {
            at += 2;
            while (end - at > 1 && !(at[0] == '*' && at[1] == '/'))
                *line += *at++ == '\n';
            at += end - at > 1 ? 2 : end - at;
        } else {
            break;
        }
    }
    return at;
}

static bool begins(const char *at, const char *end, const char *word)
{
    size_t bytes = strlen(word);
    return (size_t)(end - at) > bytes && memcmp(at, word, bytes) == 0 && isspace((unsigned char)at[bytes]);
}

static const char *read_version(const char *at, const char *end, int line, struct head *head)
{
    int major = 0, minor = 0;
    while (at < end && isdigit((unsigned char)*at) && major < 1000)
        major = 10 * major + (*at++ - '0');
    if (at < end && *at == '.')
        at++;
    while (at < end && isdigit((unsigned char)*at) && minor < 1000)
        minor = 10 * minor + (*at++ - '0');
    head->version = minor < 10 ? 10 * major + minor : 10000;
    head->version_line = line;
    return at;
}

/* .version and .target, which come first in every module. */
static void read_head(const char *text, size_t bytes, struct head *head)
{
    const char *at = text, *end = text + bytes;
    int         line = 1;
    memset(head, 0, sizeof *head);
    at = skip_blank(at, end, &line);
    if (!begins(at, end, ".version"))
        return;
    at = skip_blank(at + strlen(".version"), end, &line);
    at = read_version(at, end, line, head);
    at = skip_blank(at, end, &line);
    if (!begins(at, end, ".target"))
        return;
    at = skip_blank(at + strlen(".target"), end, &line);
    head->target_line = line;
    if (!parse_target(at, end, &head->target, &head->suffix))
        head->target = 0;
}

/* The first PTX ISA * 10 that has a target; all of them have targets older than the table. */
static int isa_of_target(int sm, char suffix)
{
    static const struct {
        int sm, plain, exact, family;
    } targets[] = {
        {70, 60, 999, 999}, {72, 61, 999, 999}, {75, 63, 999, 999}, {80, 70, 999, 999}, {86, 71, 999, 999},
        {87, 74, 999, 999}, {88, 90, 999, 999}, {89, 78, 999, 999}, {90, 78, 80, 999},  {100, 86, 86, 88},
        {101, 86, 86, 88},  {103, 88, 88, 88},  {110, 90, 90, 90},  {120, 87, 87, 88},  {121, 88, 88, 88},
    };
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++)
        if (targets[i].sm == sm)
            return suffix == 'a' ? targets[i].exact : suffix == 'f' ? targets[i].family : targets[i].plain;
    return sm < 70 ? 0 : 999;
}

/* Can code of this target be compiled for that GPU?  `full`: it is the device, with its special features. */
static bool target_fits(const struct head *head, int sm, char suffix, bool full)
{
    if (head->suffix == 'a')
        return head->target == sm && (full || suffix == 'a');
    if (head->suffix == 'f')
        return head->target / 10 == sm / 10 && head->target <= sm && (full || suffix);
    return head->target <= sm;
}

/* ---- logs ---------------------------------------------------------------------------------------------- */
static const char input[] = "ptxas application ptx input",
                  aborted[] = "ptxas fatal   : Ptx assembly aborted due to errors";

void compile_logs_free(struct compile_logs *logs)
{
    free(logs->info);
    free(logs->error);
    memset(logs, 0, sizeof *logs);
}

/* "line 12 (softmax.ptx:7): unknown name" -> "ptxas ..., line 12; error   : unknown name".  False: it has no line. */
static bool write_error(FILE *log, const char *said)
{
    char         *after = NULL;
    unsigned long line = strncmp(said, "line ", 5) == 0 ? strtoul(said + 5, &after, 10) : 0;
    if (line && *after == ' ' && after[1] == '(' && strstr(after, "): ") != NULL)
        after = strstr(after, "): ") + 1;
    if (line && *after == ':')
        fprintf(log, "%s, line %lu; error   : %s\n", input, line, after + 1 + (after[1] == ' '));
    else
        fprintf(log, "ptxas fatal   : %s\n", said);
    return line && *after == ':';
}

static char *error_log(struct ptx_errors *errors)
{
    char  *log = NULL, *rest = NULL;
    size_t bytes = 0;
    bool   lines = false;
    FILE  *f = open_memstream(&log, &bytes);
    if (f == NULL)
        return NULL;
    for (char *said = strtok_r(errors->text, "\n", &rest); said != NULL; said = strtok_r(NULL, "\n", &rest))
        lines |= write_error(f, said);
    if (errors->count > errors->kept)
        fprintf(f, "ptxas error   : %u more errors\n", errors->count - errors->kept);
    if (lines)
        fprintf(f, "%s\n", aborted);
    if (fclose(f) != 0) {
        free(log);
        return NULL;
    }
    return log;
}

static char *info_log(const struct emu_module *m, const char *target)
{
    char  *log = NULL;
    size_t bytes = 0;
    FILE  *f = open_memstream(&log, &bytes);
    if (f == NULL)
        return NULL;
    uint64_t global = 0;
    for (uint32_t i = 0; i < m->global_count; i++)
        global += m->globals[i].constant ? 0 : m->globals[i].bytes;
    fprintf(f, "ptxas info    : %llu bytes gmem\n", (unsigned long long)global);
    for (uint32_t i = 0; i < m->function_count; i++) {
        const struct emu_function *e = &m->functions[i];
        if (!e->text->is_entry || !e->text->has_body)
            continue;
        fprintf(f, "ptxas info    : Compiling entry function '%s' for '%s'\n", e->name, target);
        fprintf(f, "ptxas info    : Function properties for %s\n", e->name);
        fprintf(f, "    %u bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n", e->local_bytes);
        fprintf(f, "ptxas info    : Used %d registers", emu_function_registers(e));
        if (e->shared_static)
            fprintf(f, ", %u bytes smem", e->shared_static);
        fprintf(f, ", %u bytes cmem[0]\n", e->parameter_bytes);
    }
    if (fclose(f) != 0) {
        free(log);
        return NULL;
    }
    return log;
}

/* ---- compiling ----------------------------------------------------------------------------------------- */
/* Errors that do not depend on the code; 0: none. */
static unsigned int check_head(const struct head *head, const struct emu_settings *s, int sm, char suffix,
                               bool full, struct compile_logs *logs)
{
    int   isa = compile_isa(s->driver_version);
    char *log = NULL, letter[2] = {head->suffix, 0}, ours[2] = {full ? '\0' : suffix, 0};
    if (head->version > isa) {
        if (asprintf(&log, "%s, line %d; fatal   : Unsupported .version %d.%d; current version is '%d.%d'\n",
                     input, head->version_line, head->version / 10, head->version % 10, isa / 10,
                     isa % 10) >= 0)
            logs->error = log;
        return API_UNSUPPORTED_PTX_VERSION;
    }
    if (head->target && isa_of_target(head->target, head->suffix) > head->version) {
        if (asprintf(&log, "%s, line %d; error   : PTX .version %d.%d does not support .target sm_%d%s\n%s\n",
                     input, head->target_line, head->version / 10, head->version % 10, head->target, letter,
                     aborted) >= 0)
            logs->error = log;
        return API_INVALID_PTX;
    }
    if (head->target && !target_fits(head, sm, suffix, full)) {
        if (asprintf(&log, "%s, line %d; error   : PTX of .target sm_%d%s cannot be compiled for sm_%d%s\n%s\n",
                     input, head->target_line, head->target, letter, sm, ours, aborted) >= 0)
            logs->error = log;
        return API_INVALID_PTX;
    }
    return API_OK;
}

static void target_name(const struct emu_settings *s, const struct head *head, const char *target,
                        char name[24])
{
    const char letter[2] = {head->suffix, 0};
    if (target != NULL)
        snprintf(name, 24, "%s", target);
    else
        snprintf(name, 24, "sm_%d%s", s->sm, letter);
}

struct emu_module *compile_ptx(const struct emu_settings *settings, const char *target, const char *text,
                               size_t bytes, bool allocate, void *context, unsigned int *result,
                               struct compile_logs *logs)
{
    struct head       head;
    struct ptx_errors errors = {.cap = 64 << 10, .most = PTX_ERRORS};
    char              suffix = 0, name[24];
    int               sm = settings->sm;
    memset(logs, 0, sizeof *logs);
    if (target != NULL)
        compile_parse_target(target, &sm, &suffix);
    read_head(text, bytes, &head);
    *result = check_head(&head, settings, sm, suffix, target == NULL, logs);
    if (*result != API_OK)
        return NULL;
    errors.text = (char *)calloc(1, errors.cap);
    if (errors.text == NULL) {
        *result = API_OUT_OF_MEMORY;
        return NULL;
    }
    struct emu_module *module = spare_take(settings, text, bytes);
    if (module == NULL) {
        module = emu_module_load(settings, text, bytes, allocate, context, result, &errors);
        if (module != NULL)
            spare_note(module, settings, text, bytes);
    }
    if (module == NULL)
        logs->error = error_log(&errors);
    free(errors.text);
    if (module == NULL)
        return NULL;
    target_name(settings, &head, target, name);
    logs->info = info_log(module, name);
    *result = API_OK;
    return module;
}

void *compile_container(const struct emu_settings *settings, const char *target, const char *text, size_t bytes,
                        size_t *size)
{
    struct head head;
    char        name[24];
    read_head(text, bytes, &head);
    target_name(settings, &head, target, name);
    return container_make(text, bytes, name, size);
}

/* ---- images -------------------------------------------------------------------------------------------- */
/* Machine code runs on GPUs of its generation that are not older; with a suffix only on exactly that GPU. */
static bool binary_fits(const char *target, int sm)
{
    int  made = 0;
    char suffix = 0;
    if (!compile_parse_target(target, &made, &suffix))
        return false;
    return suffix == 'a' ? made == sm : made / 10 == sm / 10 && made <= sm;
}

static const char remedy[] =
    "give it PTX: nvcc -gencode arch=compute_75,code=compute_75, nvrtcGetPTX instead of nvrtcGetCUBIN, "
    "numba-cuda without nvJitLink, CuPy with CUPY_COMPILE_WITH_PTX=1";

static api_result open_text(const void *image, size_t bytes, struct compile_image *out)
{
    const char *faults = api_settings()->faults;
    struct head head;
    out->text = (const char *)image;
    out->bytes = bytes ? strnlen(out->text, bytes) : strlen(out->text);
    read_head(out->text, out->bytes, &head);
    API_WANT(head.version, API_INVALID_IMAGE); /* nonsense */
    API_WANT(!faults_now(faults, FAULT_NO_JIT), API_JIT_COMPILER_NOT_FOUND);
    API_WANT(!faults_now(faults, FAULT_JIT_DISABLED), API_JIT_COMPILATION_DISABLED);
    return API_OK;
}

static api_result open_fatbin(const struct fatbin *fatbin, enum fatbin_state state, char *said, size_t cap,
                              struct compile_image *out)
{
    switch (state) {
    case FATBIN_NO_PTX:
        snprintf(said, cap, "the fat binary holds %s, but no PTX that sm_%d could run; %s",
                 fatbin->holds[0] ? fatbin->holds : "nothing", api_settings()->sm, remedy);
        return API_NO_BINARY_FOR_GPU;
    case FATBIN_PACKED:
        snprintf(said, cap,
                 "the PTX of the fat binary is compressed by zstd, and libzstd.so.1 is not installed; "
                 "install it, or build with nvcc --no-compress");
        return API_INVALID_IMAGE;
    case FATBIN_DAMAGED:
        snprintf(said, cap, "the fat binary is damaged");
        return API_INVALID_IMAGE;
    case FATBIN_NO_MEMORY:
        return API_OUT_OF_MEMORY;
    default:
        break;
    }
    api_result result = open_text(fatbin->ptx, fatbin->bytes, out);
    if (result != API_OK)
        free(fatbin->ptx);
    else
        out->unpacked = fatbin->ptx;
    return result;
}

static api_result open_image(const void *image, size_t bytes, char *said, size_t cap, struct compile_image *out)
{
    const struct emu_settings *s = api_settings();
    struct container           container;
    struct fatbin              fatbin;
    API_WANT(image, API_INVALID_VALUE);
    enum fatbin_state fat = fatbin_open(image, bytes, s->sm, &fatbin);
    if (fat != FATBIN_NONE)
        return open_fatbin(&fatbin, fat, said, cap, out);
    enum container_state state = container_open(image, bytes, &container);
    if (state == CONTAINER_NONE)
        return open_text(image, bytes, out);
    API_WANT(state != CONTAINER_DAMAGED, API_INVALID_IMAGE);
    if (state == CONTAINER_FOREIGN) {
        snprintf(said, cap, "the image is a GPU's machine code (a cubin), which cannot be executed here; %s",
                 remedy);
        return API_NO_BINARY_FOR_GPU;
    }
    API_WANT(!faults_now(s->faults, FAULT_CUBIN_REJECTED), API_NO_BINARY_FOR_GPU);
    API_WANT(!faults_now(s->faults, FAULT_CUBIN_INVALID), API_INVALID_IMAGE);
    API_WANT(binary_fits(container.target, s->sm), API_NO_BINARY_FOR_GPU);
    out->text = container.ptx;
    out->bytes = container.bytes;
    return API_OK;
}

api_result compile_image_open(const void *image, size_t bytes, const struct api_jit *jit,
                              struct compile_image *out)
{
    char said[640] = "the image is neither PTX, nor a fat binary, nor machine code for this device";
    char line[sizeof said + 32];
    memset(out, 0, sizeof *out);
    api_result result = open_image(image, bytes, said, sizeof said, out);
    if (result != API_INVALID_IMAGE && result != API_NO_BINARY_FOR_GPU)
        return result;
    struct compile_logs logs = {NULL, line};
    snprintf(line, sizeof line, "error   : %s", said);
    api_jit_write(jit, &logs);
    if (jit->error == NULL)
        report_line(api_settings(), "%s", said);
    return result;
}

void compile_image_close(struct compile_image *image)
{
    free(image->unpacked);
    image->unpacked = NULL;
}

/* ---- CUjit_option -------------------------------------------------------------------------------------- */
enum { INFO_LOG = 3, INFO_SIZE = 4, ERROR_LOG = 5, ERROR_SIZE = 6, OPTIONS = 35 };

api_result api_jit_read(unsigned int count, const unsigned int *options, void **values, struct api_jit *out)
{
    memset(out, 0, sizeof *out);
    API_WANT(count <= OPTIONS && (count == 0 || (options && values)), API_INVALID_VALUE);
    for (unsigned int i = 0; i < count; i++) {
        API_WANT(options[i] < OPTIONS, API_INVALID_VALUE);
        if (options[i] == INFO_LOG)
            out->info = (char *)values[i];
        if (options[i] == ERROR_LOG)
            out->error = (char *)values[i];
        if (options[i] == INFO_SIZE) {
            out->info_cap = (uint32_t)(uintptr_t)values[i];
            out->info_size = &values[i];
        }
        if (options[i] == ERROR_SIZE) {
            out->error_cap = (uint32_t)(uintptr_t)values[i];
            out->error_size = &values[i];
        }
    }
    return API_OK;
}

static void write_log(char *to, size_t cap, void **size, const char *log)
{
    if (to != NULL && cap)
        snprintf(to, cap, "%s", log != NULL ? log : "");
    if (size != NULL)
        *size = (void *)(uintptr_t)(to != NULL && cap ? strlen(to)
                                                      : 0); /* the Driver API passes numbers as pointers */
}

void api_jit_write(const struct api_jit *jit, const struct compile_logs *logs)
{
    write_log(jit->info, jit->info_cap, jit->info_size, logs->info);
    write_log(jit->error, jit->error_cap, jit->error_size, logs->error);
}
