/* run.c - one run of a caller's program: open the device, compile, load, launch. */
#include "run.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "loader/inspect.h"
#include "tools/device.h"
#include "tools/profile_table.h"
#include "buffers.h"
#include "time.h"
#include "sass.h"

struct program_runner {
    const program_settings *s;
    int                     cubin, profile;
    program_launching       launching;
    void                   *context;
    device                  gpu;
    ptxpack                *handle;        /* the device's handle, or an offline one (--arch); NULL: not open */
    bool                    as_expression; /* the entry is a C++ name, to be resolved by NVRTC */
    bool                    names_checked; /* -D and --sweep */
    program_buffers         buffers;
};

/* The state of one run. */
typedef struct run {
    program_runner    *r;
    const program_job *job;
    program_result    *result;
    ptxpack_source     source;
    ptxpack_program   *program;
    char              *text; /* the PTX; NULL: not asked for yet */
} run;

static bool fail(program_result *result, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static bool fail(program_result *result, int status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(result->line, sizeof result->line, format, arguments);
    va_end(arguments);
    result->status = status;
    return false;
}

/* Unless the status is a success, fail with the detail of the handle. */
static bool try_status(run *n, ptxpack_status status)
{
    if (status == PTXPACK_OK)
        return true;
    const char *detail = ptxpack_detail(n->r->handle);
    bool        alone = status == PTXPACK_E_ARG && *detail != '\0'; /* the detail says everything */
    return fail(n->result, COMMAND_FAILED, "%s%s%s", alone ? "" : ptxpack_status_string(status),
                alone || *detail == '\0' ? "" : ": ", detail);
}

/* ---- the device, or none -------------------------------------------------------------------------- */
program_runner *program_runner_open(const program_settings *s, int cubin, int profile,
                                    program_launching launching, void *context)
{
    program_runner *r = (program_runner *)calloc(1, sizeof *r);
    if (r != NULL)
        *r = (program_runner){.s = s,
                              .cubin = cubin,
                              .profile = profile,
                              .launching = launching,
                              .context = context};
    return r;
}

void program_runner_close(program_runner *r)
{
    if (r == NULL)
        return;
    program_buffers_free(&r->buffers);
    if (r->gpu.handle != NULL)
        device_close(&r->gpu);
    else
        ptxpack_close(r->handle);
    free(r);
}

/* --arch compiles without a device, and without the cache: only the compiler reports registers and spills. */
static bool open_handle(program_runner *r, program_result *result)
{
    const program_settings *s = r->s;
    ptxpack_options         options = {.size = sizeof options, .arch = s->arch, .line_info = s->line_info};
    if (r->handle != NULL)
        return true;
    if (s->arch != NULL) {
        options.offline = options.no_cache = true;
        ptxpack_status status = ptxpack_open(&options, &r->handle);
        return status == PTXPACK_OK ||
               fail(result, COMMAND_FAILED, "%s: %s", ptxpack_status_string(status), ptxpack_detail(NULL));
    }
    if (device_open_as(&r->gpu, s->emu ? "emu" : s->device, &options) != PTXPACK_OK)
        return fail(result, COMMAND_FAILED, "%s", r->gpu.line);
    r->handle = r->gpu.handle;
    return true;
}

static void describe_device(const program_runner *r, program_result *result)
{
    const ptxpack_device_info *info = ptxpack_device(r->handle);
    snprintf(result->device.name, sizeof result->device.name, "%s", info->name);
    snprintf(result->device.target, sizeof result->device.target, "%s", info->target);
    snprintf(result->device.why, sizeof result->device.why, "%s", r->gpu.why);
    result->device.driver = info->driver_version;
    result->device.emulated = r->gpu.emulated;
}

/* ---- what the library tells of a program and its entries ------------------------------------------ */
static void keep_program(program_result *result, const ptxpack_program_info *info, double ready_ms)
{
    snprintf(result->program.target, sizeof result->program.target, "%s", info->target);
    snprintf(result->program.compiler, sizeof result->program.compiler, "%s", info->compiler);
    result->program.from_cache = info->from_cache;
    result->program.front_ms = info->front_ms;
    result->program.compile_ms = info->compile_ms;
    result->program.cache_ms = info->cache_ms;
    result->program.load_ms = info->load_ms;
    result->program.cubin_bytes = info->cubin_bytes;
    result->program.ready_ms = ready_ms;
}

/* Keep the warnings of the compilers' log, which may be NULL. */
static void keep_warnings(program_result *result, const char *log)
{
    char  *out = result->program.warnings;
    size_t used = 0, cap = sizeof result->program.warnings;
    for (const char *at = log != NULL ? log : ""; *at != '\0';) {
        size_t bytes = strcspn(at, "\n");
        if (memmem(at, bytes, "warning", 7) != NULL && used + bytes + 2 < cap) {
            memcpy(out + used, at, bytes);
            used += bytes;
            out[used++] = '\n';
        }
        at += bytes + (at[bytes] == '\n');
    }
    out[used] = '\0';
}

/* Keep the remarks that are not among the program's warnings already. */
static void keep_remarks(const program_result *result, const char *remarks, program_figures *f)
{
    size_t used = 0;
    for (const char *at = remarks; *at != '\0';) {
        size_t bytes = strcspn(at, "\n");
        if (memmem(result->program.warnings, strlen(result->program.warnings), at, bytes) == NULL)
            used += (size_t)snprintf(f->remarks + used, sizeof f->remarks - used, "%.*s\n", (int)bytes, at);
        if (used >= sizeof f->remarks)
            return;
        at += bytes + (at[bytes] == '\n');
    }
}

/* Add an entry to the result. */
static void add_entry(program_result *result, const ptxpack_function_info *info)
{
    program_figures         *f = &result->entries[result->entry_count++];
    const ptxpack_resources *r = &info->resources;
    snprintf(f->name, sizeof f->name, "%s", info->name);
    keep_remarks(result, r->remarks, f);
    f->registers = info->registers;
    f->shared_bytes = info->shared_bytes;
    f->local_bytes = info->local_bytes;
    f->constant_bytes = info->constant_bytes;
    f->spill_bytes = r->spill_store_bytes < 0 ? -1 : r->spill_store_bytes + r->spill_load_bytes;
    f->instructions = -1;
}

/* ---- the program ---------------------------------------------------------------------------------- */
static void make_source(run *n)
{
    const program_settings *s = n->r->s;
    bool                    cuda = s->language == PTXPACK_LANGUAGE_CUDA;
    bool named = cuda && s->entry != NULL && (n->r->as_expression || strpbrk(s->entry, "<:") != NULL);
    n->source = (ptxpack_source){
        .size = sizeof n->source,
        .language = s->language,
        .path = s->path,
        .symbols = n->job->symbols.list,
        .symbol_count = n->job->symbols.count,
        .include_dirs = s->includes.words,
        .include_count = s->includes.count,
        .options = s->options.words,
        .option_count = s->options.count,
        .expressions = named ? &s->entry : NULL,
        .expression_count = named,
    };
}

/* Leave the errors of a compilation for the command to list. */
static void keep_errors(run *n)
{
    size_t count = 0;
    char  *list = ptxpack_program_errors(n->r->handle, &n->source, &count);
    size_t bytes = list != NULL ? strlen(list) : 0;
    if (count > 0 && ftruncate(n->r->cubin, 0) == 0 && pwrite(n->r->cubin, list, bytes, 0) == (ssize_t)bytes) {
        n->result->errors_size = bytes;
        n->result->error_count = count;
    }
    free(list);
}

/* As try_status, of a compilation. */
static bool try_compiling(run *n, ptxpack_status status)
{
    if (status == PTXPACK_E_COMPILE)
        keep_errors(n); /* before the detail line is read, which it makes anew */
    return try_status(n, status);
}

static bool stands_in_options(const program_settings *s, const char *name)
{
    const char *const texts[] = {s->grid, s->block, s->smem};
    bool              found = false;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        found |= texts[i] != NULL && ptxpack_text_uses(texts[i], name);
    for (size_t i = 0; i < s->args.count; i++)
        found |= ptxpack_text_uses(s->args.words[i], name);
    return found;
}

/* A misspelt -D or --sweep would change nothing. */
static bool check_names(run *n)
{
    const program_settings *s = n->r->s;
    bool                    unused[PROGRAM_SYMBOLS];
    make_source(n);
    if (n->r->names_checked || ptxpack_program_unused(n->r->handle, &n->source, unused) != PTXPACK_OK)
        return true; /* loading it says why */
    for (size_t i = 0; i < n->source.symbol_count; i++) {
        const char *name = n->source.symbols[i].name;
        bool        swept = false;
        if (!unused[i] || stands_in_options(s, name))
            continue;
        for (size_t k = 0; k < s->axis_count; k++)
            swept |= strcmp(s->axes[k].name, name) == 0;
        n->result->misnamed = true;
        return fail(n->result, COMMAND_USAGE,
                    "%s %s: %s does not use it, nor do --grid, --block, --smem and --arg%s",
                    swept ? "--sweep" : "-D", name, s->path,
                    s->language == PTXPACK_LANGUAGE_CUDA && !swept ? " (--option=-DNAME defines any macro)"
                                                                   : "");
    }
    n->r->names_checked = true;
    return true;
}

/* The PTX text; NULL on failure, which the result describes. */
static const char *text_of(run *n)
{
    size_t bytes;
    if (n->text == NULL && !try_status(n, ptxpack_program_ptx(n->r->handle, &n->source, &n->text, &bytes)))
        return NULL;
    return n->text;
}

static bool load(run *n)
{
    double started = now_ms();
    ptxpack_program_free(n->program);
    n->program = NULL;
    make_source(n);
    if (!try_compiling(n, ptxpack_program_load(n->r->handle, &n->source, &n->program)))
        return false;
    const ptxpack_program_info *info = ptxpack_program_describe(n->program);
    keep_program(n->result, info, now_ms() - started);
    keep_warnings(n->result, info->log);
    return true;
}

/* In CUDA C++ the entry may be given by its plain name, while its name in the machine code is mangled. */
static bool find_function(run *n, const ptxpack_function **function)
{
    const program_settings *s = n->r->s;
    ptxpack_status          status = ptxpack_program_function(n->program, s->entry, function);
    if (status != PTXPACK_E_ARG || s->language != PTXPACK_LANGUAGE_CUDA || n->source.expression_count > 0 ||
        s->entry == NULL)
        return try_status(n, status);
    try_status(n, status);
    program_result *first = (program_result *)malloc(sizeof *first);
    if (first == NULL)
        return false;
    *first = *n->result;
    n->r->as_expression = true;
    bool ok = load(n) && try_status(n, ptxpack_program_function(n->program, s->entry, function));
    if (!ok) {
        n->r->as_expression = false;
        *n->result = *first;
    } else {
        n->result->status = COMMAND_OK;
        n->result->line[0] = '\0';
    }
    free(first);
    return ok;
}

/* ---- figures -------------------------------------------------------------------------------------- */
/* Get the machine code, from the cache if it is there; count its instructions and write it to its file. */
static void look_at_code(run *n)
{
    void           *cubin = NULL;
    size_t          bytes = 0;
    program_result *result = n->result;
    if (ptxpack_program_compile(n->r->handle, &n->source, NULL, NULL, &cubin, &bytes) != PTXPACK_OK)
        return;
    for (size_t i = 0; i < result->entry_count; i++) {
        long count = sass_count(cubin, bytes, result->entries[i].name);
        result->machine_code = result->machine_code || count > 0;
        result->entries[i].instructions = count > 0 ? count : -1;
    }
    if (result->machine_code && n->r->cubin >= 0 && ftruncate(n->r->cubin, 0) == 0 &&
        pwrite(n->r->cubin, cubin, bytes, 0) == (ssize_t)bytes)
        result->cubin_size = bytes;
    free(cubin);
}

static void count_instructions(run *n)
{
    look_at_code(n);
    if (n->result->machine_code || text_of(n) == NULL)
        return;
    for (size_t i = 0; i < n->result->entry_count; i++)
        n->result->entries[i].instructions = program_entry_instructions(n->text, n->result->entries[i].name);
}

static bool no_entry(run *n, const char *first, size_t count)
{
    return fail(n->result, COMMAND_FAILED, "%s has no entry \"%s\"; it has %s%s", n->r->s->path, n->r->s->entry,
                first, count > 1 ? ", ..." : "");
}

/* The names of the entries to describe: the one of --entry, or all.  Also all if NVRTC has mangled that name. */
static bool all_names(run *n, char names[PROGRAM_MAX_ENTRIES][PROGRAM_NAME], size_t *count)
{
    const program_settings *s = n->r->s;
    const char             *text = text_of(n);
    *count = text != NULL ? program_entry_names(text, names, &n->result->entries_left_out) : 0;
    if (*count == 0) /* the library has found an entry */
        return text != NULL && fail(n->result, COMMAND_FAILED,
                                    "%s: no name of an entry has less than %d letters", s->path, PROGRAM_NAME);
    if (s->entry != NULL && strlen(s->entry) < PROGRAM_NAME && program_entry_exists(text, s->entry)) {
        strcpy(names[0], s->entry);
        *count = 1;
        n->result->entries_left_out = 0;
        return true;
    }
    return s->entry == NULL || s->language == PTXPACK_LANGUAGE_CUDA || no_entry(n, names[0], *count);
}

/* Describe the entries of a program that is loaded but not launched. */
static bool describe_all(run *n)
{
    char(*names)[PROGRAM_NAME] = (char(*)[PROGRAM_NAME])calloc(PROGRAM_MAX_ENTRIES, PROGRAM_NAME);
    const ptxpack_function *function;
    size_t                  count = 0;
    bool                    ok = names != NULL && all_names(n, names, &count);
    for (size_t i = 0; i < count && ok; i++) {
        ok = try_status(n, ptxpack_program_function(n->program, names[i], &function));
        if (ok)
            add_entry(n->result, ptxpack_function_describe(function));
    }
    free(names);
    return ok;
}

static bool compile_source(run *n, ptxpack_program_info *info, char **log,
                           char names[PROGRAM_MAX_ENTRIES][PROGRAM_NAME], size_t *count)
{
    free(*log);
    free(n->text); /* it belongs to another source */
    *log = n->text = NULL;
    make_source(n);
    return try_compiling(n, ptxpack_program_compile(n->r->handle, &n->source, info, log, NULL, NULL)) &&
           all_names(n, names, count);
}

/* Try the name as find_function does. */
static bool compile_entry(run *n, ptxpack_program_info *info, char **log,
                          char names[PROGRAM_MAX_ENTRIES][PROGRAM_NAME], size_t *count)
{
    const program_settings *s = n->r->s;
    if (!compile_source(n, info, log, names, count))
        return false;
    if (s->entry == NULL || n->source.expression_count > 0 || strcmp(names[0], s->entry) == 0)
        return true;
    n->r->as_expression = true;
    if (compile_source(n, info, log, names, count))
        return true;
    n->r->as_expression = false;
    return no_entry(n, names[0], *count);
}

/* Compile for a device that need not be there; the figures are the compiler's. */
static bool compile_only(run *n)
{
    ptxpack_program_info info;
    char                *log = NULL;
    char(*names)[PROGRAM_NAME] = (char(*)[PROGRAM_NAME])calloc(PROGRAM_MAX_ENTRIES, PROGRAM_NAME);
    size_t count = 0;
    double started = now_ms();
    memset(&info, 0, sizeof info);
    bool   ok = names != NULL && compile_entry(n, &info, &log, names, &count);
    double ready_ms = now_ms() - started;
    if (ok) {
        keep_program(n->result, &info, ready_ms);
        keep_warnings(n->result, log);
    }
    for (size_t i = 0; i < count && ok; i++) {
        ptxpack_function_info f = {.name = names[i], .local_bytes = -1, .constant_bytes = -1};
        ptxpack_log_resources(log != NULL ? log : "", names[i], &f.resources);
        bool known = f.resources.registers > 0;
        f.registers = known ? f.resources.registers : -1;
        f.shared_bytes = known ? f.resources.shared_bytes : -1;
        f.resources.spill_store_bytes = known ? f.resources.spill_store_bytes : -1;
        add_entry(n->result, &f);
    }
    free(log);
    free(names);
    return ok;
}

/* ---- the launch ----------------------------------------------------------------------------------- */
/* Ask the driver for the parameters; it knows only their sizes. */
static bool ask_driver(run *n, const ptxpack_function *function, program_entry *entry)
{
    ptxpack_cu_result (*info)(void *function, size_t index, size_t *offset, size_t *bytes);
    *(void **)&info = device_library_function(&n->r->gpu, "cuFuncGetParamInfo");
    if (info == NULL)
        return false;
    memset(entry, 0, sizeof *entry);
    snprintf(entry->name, sizeof entry->name, "%s", ptxpack_function_describe(function)->name);
    size_t offset;
    while (entry->count < PROGRAM_MAX_PARAMS && info(ptxpack_function_handle(function), entry->count, &offset,
                                                     &entry->params[entry->count].bytes) == PTXPACK_CU_SUCCESS)
        entry->count++;
    return true;
}

/* The PTX text names the parameters and is quick to expand again; NVRTC is slow, so the driver is asked instead. */
static bool check_arguments(run *n, const ptxpack_function *function)
{
    const program_buffers *b = &n->r->buffers;
    char                   line[PROGRAM_LINE];
    program_entry         *entry = (program_entry *)malloc(sizeof *entry);
    const char            *name = ptxpack_function_describe(function)->name;
    bool                   ptx = n->r->s->language == PTXPACK_LANGUAGE_PTX, known = false;
    if (entry == NULL)
        return fail(n->result, COMMAND_FAILED, "out of memory");
    if (!ptx)
        known = ask_driver(n, function, entry);
    if (!known && text_of(n) != NULL)
        known = program_entry_find(n->text, name, entry);
    if (!known && ptx)
        known = ask_driver(n, function, entry);
    bool good = known ? program_entry_takes(entry, b->args, b->count, line)
                      : fail(n->result, COMMAND_FAILED, "%s: this driver does not tell its parameters", name);
    free(entry);
    return good || !known ? good : fail(n->result, COMMAND_USAGE, "%s", line);
}

static bool prepare(run *n, program_launch *l)
{
    char                    line[PROGRAM_LINE];
    const program_settings *s = n->r->s;
    program_result         *result = n->result;
    const program_symbols  *symbols = &n->job->symbols;
    if (!program_extents("--grid", s->grid, symbols, result->grid, line) ||
        !program_extents("--block", s->block, symbols, result->block, line) ||
        !program_smem(s->smem, symbols, &result->smem, line) ||
        !program_buffers_parse(&n->r->buffers, s, symbols, line))
        return fail(result, COMMAND_USAGE, "%s", line);
    memcpy(l->grid, result->grid, sizeof l->grid);
    memcpy(l->block, result->block, sizeof l->block);
    l->smem = (size_t)result->smem;
    return true;
}

/* After a kernel has failed, the context is unusable. */
static bool launch_failed(run *n)
{
    n->result->lost = true;
    return fail(n->result, COMMAND_FAILED, "%.200s failed: %s", n->result->entries[0].name, n->r->gpu.line);
}

/* A ptxpack_emu_visit: what a launch executed, summed up. */
static void count_row(void *context, const struct ptxpack_emu_row *row)
{
    program_result *result = (program_result *)context;
    result->instructions += (int64_t)row->warps;
    result->wavefronts += (int64_t)row->transactions;
}

/* The first launch; on the emulated driver, whose times say nothing, it is counted. */
static bool launch_first(run *n, const program_launch *l)
{
    program_runner *r = n->r;
    profile_calls   calls;
    bool            counts = r->gpu.emulated && profile_calls_find(&r->gpu, &calls);
    if (counts)
        calls.start();
    bool ok = program_time_first(l, &n->result->ms);
    if (!counts)
        return ok;
    calls.stop();
    calls.read(count_row, n->result);
    n->result->counted = true;
    if (ok && r->s->profile) {
        profile_table table;
        profile_table_begin(&table);
        calls.read(profile_table_add, &table);
        ok = profile_table_save(&table, r->profile);
        if (!ok)
            snprintf(r->gpu.line, sizeof r->gpu.line, "no memory for the profile");
        profile_table_free(&table);
    }
    return ok;
}

static bool launch(run *n, const ptxpack_function *function)
{
    program_runner *r = n->r;
    program_result *result = n->result;
    char            line[PROGRAM_LINE];
    program_launch  l = {.gpu = &r->gpu,
                         .function = function,
                         .arguments = r->buffers.pointers,
                         .launching = r->launching,
                         .context = r->context};
    if (!prepare(n, &l) || !check_arguments(n, function))
        return false;
    if (!program_buffers_upload(&r->buffers, r->s, &r->gpu, line))
        return fail(result, COMMAND_FAILED, "%s", line);
    if (!launch_first(n, &l))
        return launch_failed(n);
    result->least_ms = result->most_ms = result->ms;
    if (!program_buffers_fetch(&r->buffers, &r->gpu, result, line))
        return fail(result, COMMAND_FAILED, "%s", line);
    bool    first_is_enough = r->s->launches == OPTION_NOT_GIVEN && r->gpu.emulated && !r->s->graph;
    int64_t more = first_is_enough ? 0 : device_launches(&r->gpu, r->s->launches);
    if (more > 0 && !program_time_many(&l, more, r->s->graph, result))
        return launch_failed(n);
    result->ran = true;
    return true;
}

/* ---- all of it ------------------------------------------------------------------------------------ */
static bool run_all(run *n)
{
    const program_settings *s = n->r->s;
    const ptxpack_function *function;
    if (!open_handle(n->r, n->result))
        return false;
    describe_device(n->r, n->result);
    if (!check_names(n))
        return false;
    if (s->arch != NULL)
        return compile_only(n);
    if (!load(n))
        return false;
    if (s->no_run && s->entry == NULL)
        return describe_all(n);
    if (!find_function(n, &function))
        return false;
    add_entry(n->result, ptxpack_function_describe(function));
    return s->no_run || launch(n, function);
}

void program_run(program_runner *r, const program_job *job, program_result *result)
{
    run n = {.r = r, .job = job, .result = result};
    memset(result, 0, sizeof *result);
    result->status = COMMAND_OK;
    if (run_all(&n) && (r->s->watch || r->s->sass || !result->ran))
        count_instructions(&n);
    if (r->handle != NULL && r->gpu.handle != NULL)
        program_buffers_release(&r->buffers, &r->gpu);
    ptxpack_program_free(n.program);
    free(n.text);
}
