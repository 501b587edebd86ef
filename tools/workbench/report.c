/* report.c - the result of a run as text or JSON. */
#include "report.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "time.h"
#include "tools/profile_table.h"

/* ---- text ----------------------------------------------------------------------------------------- */
static void print_indented(const char *word, const char *lines)
{
    for (const char *at = lines; *at != '\0'; word = "") {
        size_t bytes = strcspn(at, "\n");
        printf("%-9s %.*s\n", word, (int)bytes, at);
        at += bytes + (at[bytes] == '\n');
    }
}

/* Print ", 12 bytes of WHAT", unless the number is unknown or 0. */
static void print_bytes(int bytes, const char *what, bool zero)
{
    if (bytes > 0 || (bytes == 0 && zero))
        printf(", %d bytes of %s", bytes, what);
}

static void print_figures(const program_figures *f, bool machine_code)
{
    printf("entry     %s: ", f->name);
    if (f->registers >= 0)
        printf("%d registers", f->registers);
    else
        printf("registers not known");
    print_bytes(f->spill_bytes, "spills", true);
    print_bytes(f->shared_bytes, "static shared memory", false);
    print_bytes(f->local_bytes, "local memory", false);
    if (f->instructions >= 0)
        printf(", %ld %s", f->instructions, machine_code ? "instructions" : "instructions of PTX");
    printf("\n");
    print_indented("remarks", f->remarks);
}

static void print_program(const program_settings *s, const program_result *r)
{
    const char *front = s->language == PTXPACK_LANGUAGE_PTX ? "expand" : "NVRTC";
    printf("program   %s for %s by %s, %zu bytes of machine code\n", s->path, r->program.target,
           r->program.compiler, r->program.cubin_bytes);
    printf("ready in  %.2f ms, %s: %s %.2f, cache %.2f, compile %.2f, driver load %.2f\n", r->program.ready_ms,
           r->program.from_cache ? "from the cache" : "cold", front, r->program.front_ms, r->program.cache_ms,
           r->program.compile_ms, r->program.load_ms);
    print_indented("warnings", r->program.warnings);
}

/* What was executed, or the time: on the emulated driver times say nothing. */
static void print_time(const program_settings *s, const program_result *r)
{
    const char *where = r->device.emulated ? " emulated" : "";
    printf("launch    grid %u x %u x %u, block %u x %u x %u, %lld bytes of dynamic shared memory\n", r->grid[0],
           r->grid[1], r->grid[2], r->block[0], r->block[1], r->block[2], (long long)r->smem);
    if (r->counted)
        printf("executed  %lld instructions of warps, %lld wavefronts of shared memory\n",
               (long long)r->instructions, (long long)r->wavefronts);
    if (r->launches == 0)
        printf("time      %.4f ms%s, the first and only launch\n", r->ms, where);
    else if (s->graph)
        printf("time      %.4f ms%s: median of %lld graphs of %d launches, %.4f to %.4f\n", r->ms, where,
               (long long)r->launches, PROGRAM_GRAPH, r->least_ms, r->most_ms);
    else
        printf("time      %.4f ms%s: median of %lld launch%s, %.4f to %.4f\n", r->ms, where,
               (long long)r->launches, r->launches == 1 ? "" : "es", r->least_ms, r->most_ms);
}

static void print_output(const program_output *o)
{
    printf("--arg %-3d %s (", o->argument + 1, o->type);
    for (int i = 0; i < o->rank; i++)
        printf("%s%lld", i > 0 ? ", " : "", (long long)o->shape[i]);
    printf("): ");
    for (int i = 0; i < PROGRAM_SHOWN && i < o->count; i++)
        printf("%s%s", i > 0 ? " " : "", o->first[i]);
    printf("%s\n          ", o->count > PROGRAM_SHOWN ? " ..." : "");
    if (o->nans < o->count)
        printf("from %g to %g, mean %g, ", o->least, o->most, o->mean);
    if (o->nans > 0)
        printf("%lld NaN, ", (long long)o->nans);
    printf("checksum %016llx", (unsigned long long)o->checksum);
    if (o->file[0] != '\0')
        printf(", written to %s", o->file);
    printf("\n");
}

/* Print ", registers 32 -> 34 (+2)" if both runs know the number; without the comma if *any is false. */
static void print_difference(const char *word, long now, long before, bool *any)
{
    if (now < 0 || before < 0 || now == before)
        return;
    printf("%s%s %ld -> %ld (%+ld)", *any ? ", " : "", word, before, now, now - before);
    *any = true;
}

static void print_entry_differences(const program_figures *f, const program_figures *g, bool same_kind,
                                    bool *any)
{
    print_difference("registers", f->registers, g->registers, any);
    print_difference("bytes of spills", f->spill_bytes, g->spill_bytes, any);
    print_difference("bytes of shared memory", f->shared_bytes, g->shared_bytes, any);
    if (same_kind)
        print_difference("instructions", f->instructions, g->instructions, any);
}

static bool same_outputs(const program_result *r, const program_result *before)
{
    bool same = r->output_count == before->output_count;
    for (size_t i = 0; i < r->output_count && same; i++)
        same = r->outputs[i].checksum == before->outputs[i].checksum;
    return same;
}

/* Compare the entries that both results have at the same place. */
static void print_differences(const program_result *r, const program_result *before)
{
    bool any = r->ran && before->ran;
    printf("changed   ");
    bool counted = r->counted && before->counted;
    if (any && !counted)
        printf("time %.4f -> %.4f ms (%+.1f %%)", before->ms, r->ms, 100 * (r->ms - before->ms) / before->ms);
    any = any && !counted;
    if (counted) {
        print_difference("executed instructions", r->instructions, before->instructions, &any);
        print_difference("wavefronts", r->wavefronts, before->wavefronts, &any);
    }
    for (size_t i = 0; i < r->entry_count && i < before->entry_count; i++)
        if (strcmp(r->entries[i].name, before->entries[i].name) == 0)
            print_entry_differences(&r->entries[i], &before->entries[i],
                                    r->machine_code == before->machine_code, &any);
    if (r->output_count > 0)
        printf("%soutputs %s", any ? ", " : "", same_outputs(r, before) ? "the same" : "differ");
    printf("%s\n", any || r->output_count > 0 ? "" : "nothing that shows here");
}

void program_report_device(const program_settings *s, const program_result *r)
{
    if (s->json) {
        json_open("device", '{');
        json_text("name", r->device.driver == 0 ? NULL : r->device.name);
        json_text("target", r->device.target);
        json_int("driver", r->device.driver);
        json_bool("emulated", r->device.emulated);
        json_close();
        return;
    }
    if (r->device.driver == 0) {
        printf("device    none: compiled for %s\n", r->program.target);
        return;
    }
    printf("device    %s, %s, CUDA driver %d.%d\n", r->device.name, r->device.target, r->device.driver / 1000,
           r->device.driver % 1000 / 10);
    if (r->device.emulated)
        printf("emulated  every instruction is executed and judged on the CPU; times say nothing of a GPU"
               "%s%s%s\n",
               *r->device.why ? " (no GPU: " : "", r->device.why, *r->device.why ? ")" : "");
}

static void print_result(const program_settings *s, const program_result *r, const program_result *before)
{
    if (before == NULL)
        program_report_device(s, r);
    print_program(s, r);
    for (size_t i = 0; i < r->entry_count; i++)
        print_figures(&r->entries[i], r->machine_code);
    if (r->entries_left_out > 0)
        printf("          and %zu more entries\n", r->entries_left_out);
    if (r->ran)
        print_time(s, r);
    for (size_t i = 0; i < r->output_count; i++)
        print_output(&r->outputs[i]);
    if (r->outputs_left_out > 0)
        printf("          and %zu more buffers\n", r->outputs_left_out);
    if (before != NULL)
        print_differences(r, before);
}

/* ---- JSON ------------------------------------------------------------------------------------------- */
static void json_known(const char *key, long value)
{
    if (value >= 0)
        json_int(key, value);
    else
        json_text(key, NULL);
}

static void json_entry(const program_figures *f, bool machine_code)
{
    json_open(NULL, '{');
    json_text("name", f->name);
    json_known("registers", f->registers);
    json_known("spill_bytes", f->spill_bytes);
    json_known("shared_bytes", f->shared_bytes);
    json_known("local_bytes", f->local_bytes);
    json_known("constant_bytes", f->constant_bytes);
    json_known(machine_code ? "instructions" : "ptx_instructions", f->instructions);
    json_text("remarks", f->remarks);
    json_close();
}

static void json_output(const program_output *o)
{
    char checksum[24];
    snprintf(checksum, sizeof checksum, "%016llx", (unsigned long long)o->checksum);
    json_open(NULL, '{');
    json_int("argument", o->argument + 1);
    json_text("type", o->type);
    json_open("shape", '[');
    for (int i = 0; i < o->rank; i++)
        json_int(NULL, o->shape[i]);
    json_close();
    json_open("first", '[');
    for (int i = 0; i < PROGRAM_SHOWN && i < o->count; i++)
        json_real(NULL, strtod(o->first[i], NULL));
    json_close();
    json_real("least", o->least);
    json_real("most", o->most);
    json_real("mean", o->mean);
    json_int("nans", o->nans);
    json_text("checksum", checksum);
    json_text("file", o->file[0] != '\0' ? o->file : NULL);
    json_close();
}

static void json_extents(const char *key, const uint32_t extents[3])
{
    json_open(key, '[');
    for (int i = 0; i < 3; i++)
        json_int(NULL, extents[i]);
    json_close();
}

void program_json_symbols(const program_symbols *symbols)
{
    json_open("symbols", '{');
    for (size_t i = 0; i < symbols->count; i++)
        json_int(symbols->list[i].name, symbols->list[i].value);
    json_close();
}

static void json_program(const program_result *r)
{
    json_open("program", '{');
    json_text("target", r->program.target);
    json_text("compiler", r->program.compiler);
    json_bool("from_cache", r->program.from_cache);
    json_real("ready_ms", r->program.ready_ms);
    json_real("front_ms", r->program.front_ms);
    json_real("cache_ms", r->program.cache_ms);
    json_real("compile_ms", r->program.compile_ms);
    json_real("load_ms", r->program.load_ms);
    json_int("cubin_bytes", (int64_t)r->program.cubin_bytes);
    json_text("warnings", r->program.warnings);
    json_close();
}

void program_json_run(const program_result *r)
{
    json_program(r);
    json_open("entries", '[');
    for (size_t i = 0; i < r->entry_count; i++)
        json_entry(&r->entries[i], r->machine_code);
    json_close();
    if (!r->ran)
        return;
    json_extents("grid", r->grid);
    json_extents("block", r->block);
    json_int("smem", r->smem);
    if (r->counted) {
        json_int("executed_instructions", r->instructions);
        json_int("wavefronts", r->wavefronts);
    }
    json_real("ms", r->ms);
    json_real("least_ms", r->least_ms);
    json_real("most_ms", r->most_ms);
    json_int("launches", r->launches);
    json_open("outputs", '[');
    for (size_t i = 0; i < r->output_count; i++)
        json_output(&r->outputs[i]);
    json_close();
}

void program_report(const program_settings *s, const program_result *r, const program_result *before)
{
    if (!s->json) {
        print_result(s, r, before);
        return;
    }
    json_text("file", s->path);
    program_report_device(s, r);
    if (r->ran)
        json_int("seed", s->seed);
    program_json_run(r);
}

int program_report_profile(program_worker *w, const program_settings *s)
{
    profile_table table;
    profile_table_begin(&table);
    int status = COMMAND_OK;
    if (!profile_table_load(&table, program_worker_profile(w)))
        status = command_fail(s->subcommand, "the profile cannot be read");
    else if (s->json)
        profile_table_json(&table);
    else
        profile_table_print(&table, (size_t)s->lines);
    profile_table_free(&table);
    return status;
}

/* ---- failures ------------------------------------------------------------------------------------------ */
/* The errors of the compiler, one a line; NULL: there are none, or memory is out. */
static char *read_errors(program_worker *w, const program_result *r)
{
    char   *text = r->errors_size > 0 ? (char *)calloc(r->errors_size + 1, 1) : NULL;
    ssize_t got = text != NULL ? pread(program_worker_cubin(w), text, r->errors_size, 0) : 0;
    if (text != NULL && got != (ssize_t)r->errors_size)
        text[0] = '\0';
    return text;
}

static void json_failure(const program_settings *s, const program_result *r, const char *errors)
{
    char *copy = strdup(errors), *rest = copy, *line;
    json_open(NULL, '{');
    json_text("file", s->path);
    json_text("error", r->line);
    json_open("errors", '[');
    while (copy != NULL && (line = strsep(&rest, "\n")) != NULL)
        if (*line != '\0')
            json_text(NULL, line);
    json_close();
    json_close();
    free(copy);
}

int program_report_failure(program_worker *w, const program_settings *s, const program_result *r)
{
    char       *errors = read_errors(w, r);
    const char *at = errors != NULL ? errors : "", *more = strstr(r->line, " (and ");
    size_t      left = r->error_count, first = strcspn(at, "\n");
    if (s->json)
        json_failure(s, r, at);
    /* The line names the first of them. */
    command_fail(s->subcommand, "%.*s", left > 1 && more != NULL ? (int)(more - r->line) : (int)strlen(r->line),
                 r->line);
    for (int64_t i = 1; (i < s->errors || s->errors == 0) && left > 1; i++, left--) {
        at += first + 1;
        first = strcspn(at, "\n");
        command_fail(s->subcommand, "%.*s", (int)first, at);
    }
    if (left > 1)
        command_fail(s->subcommand, "and %zu more error%s%s", left - 1, left > 2 ? "s" : "",
                     s->json ? "" : "; --errors 0 shows all");
    free(errors);
    return r->status;
}
