/* sweep.c - one run for each combination of symbol values. */
#include "repeat.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "tools/progress.h"

/* ---- the axes --------------------------------------------------------------------------------------- */
static bool refuse(char *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool refuse(char *line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, PROGRAM_LINE, format, arguments);
    va_end(arguments);
    return false;
}

static bool parse_values(program_axis *axis, const char *text, const char *values, char *line)
{
    for (const char *at = values;;) {
        char   word[32];
        size_t bytes = strcspn(at, ",");
        snprintf(word, sizeof word, "%.*s", (int)(bytes < sizeof word ? bytes : sizeof word - 1), at);
        if (axis->count == PROGRAM_MAX_VALUES)
            return refuse(line, "--sweep %.300s: more than %d values", text, PROGRAM_MAX_VALUES);
        if (bytes >= sizeof word || !program_integer(word, &axis->values[axis->count]))
            return refuse(line, "--sweep %.300s: \"%.*s\" is not an integer", text, (int)bytes, at);
        axis->count++;
        if (at[bytes] == '\0')
            return true;
        at += bytes + 1;
    }
}

/* A value that -D gives as well gives way to these. */
static bool is_known(const program_settings *s, const char *name)
{
    for (size_t i = 0; i < s->axis_count; i++)
        if (strcmp(s->axes[i].name, name) == 0)
            return true;
    return false;
}

static bool parse_axis(program_settings *s, const char *text, char *line)
{
    size_t bytes = strcspn(text, "=");
    char  *name = s->axis_names.text[s->axis_count];
    if (text[bytes] == '\0' || !program_is_name(text, bytes) || bytes >= sizeof s->axis_names.text[0])
        return refuse(line, "--sweep %.300s: SYMBOL=INTEGER,INTEGER,... is wanted", text);
    if (s->axis_count == PROGRAM_MAX_AXES)
        return refuse(line, "more than %d --sweep", PROGRAM_MAX_AXES);
    memcpy(name, text, bytes);
    name[bytes] = '\0';
    if (is_known(s, name))
        return refuse(line, "--sweep %.300s: %s is given twice", text, name);
    program_axis *axis = &s->axes[s->axis_count++];
    *axis = (program_axis){.name = name, .count = 0};
    return parse_values(axis, text, text + bytes + 1, line);
}

bool program_sweep_parse(program_settings *s, char line[PROGRAM_LINE])
{
    for (size_t i = 0; i < s->sweeps.count; i++)
        if (!parse_axis(s, s->sweeps.words[i], line))
            return false;
    size_t runs = 1;
    for (size_t i = 0; i < s->axis_count; i++)
        if ((runs *= s->axes[i].count) > PROGRAM_MAX_RUNS)
            return refuse(line, "--sweep: more than %d combinations", PROGRAM_MAX_RUNS);
    return true;
}

static size_t program_sweep_count(const program_settings *s)
{
    size_t runs = 1;
    for (size_t i = 0; i < s->axis_count; i++)
        runs *= s->axes[i].count;
    return runs;
}

bool program_sweep_job(const program_settings *s, size_t index, program_job *job, char line[PROGRAM_LINE])
{
    job->symbols = s->symbols;
    for (size_t i = s->axis_count; i-- > 0; index /= s->axes[i].count)
        if (!program_symbols_set(&job->symbols, s->axes[i].name, s->axes[i].values[index % s->axes[i].count],
                                 line))
            return false;
    return true;
}

/* ---- the runs ------------------------------------------------------------------------------------- */
/* A row of the table. */
typedef struct row {
    size_t          index; /* of the combination */
    program_symbols symbols;
    program_result  result;
} row;

/* Instructions of warps and wavefronts of shared memory: what the emulated driver can say of the speed on a GPU. */
static int64_t work_of(const program_result *r) { return r->instructions + r->wavefronts; }

/* The best first: by time, or on the emulated driver by work; then the failures. */
static int by_rank(const void *a, const void *b)
{
    const row *x = *(const row *const *)a, *y = *(const row *const *)b;
    bool       failed = x->result.status != COMMAND_OK, other = y->result.status != COMMAND_OK;
    if (failed != other)
        return failed - other;
    if (!failed && x->result.counted && work_of(&x->result) != work_of(&y->result))
        return work_of(&x->result) < work_of(&y->result) ? -1 : 1;
    if (!failed && !x->result.counted && x->result.ms != y->result.ms)
        return x->result.ms < y->result.ms ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

static void print_head(const program_settings *s, const program_result *best)
{
    const char *columns = !best->ran      ? ""
                          : best->counted ? "  instructions  wavefronts  over best"
                                          : "          ms  over best";
    for (size_t i = 0; i < s->axis_count; i++)
        printf("%10s  ", s->axes[i].name);
    printf("registers  spills%s%s\n", columns, best->output_count > 0 ? "  checksum" : "");
}

/* One checksum of all outputs, to compare the results of runs. */
static uint64_t checksum_of(const program_result *r)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < r->output_count; i++)
        sum = sum * 0x9e3779b97f4a7c15u + r->outputs[i].checksum;
    return sum;
}

static void print_known(int width, int value)
{
    if (value >= 0)
        printf("%*d", width, value);
    else
        printf("%*s", width, "?");
}

static void print_row(const program_settings *s, const row *at, const program_result *best)
{
    const program_result  *r = &at->result;
    const program_figures *f = &r->entries[0];
    for (size_t i = 0; i < s->axis_count; i++) {
        size_t below = 1;
        for (size_t k = i + 1; k < s->axis_count; k++)
            below *= s->axes[k].count;
        printf("%10lld  ", (long long)s->axes[i].values[at->index / below % s->axes[i].count]);
    }
    if (r->status != COMMAND_OK) {
        printf("failed: %s\n", r->line);
        return;
    }
    print_known(9, f->registers);
    print_known(8, f->spill_bytes);
    if (r->ran && r->counted)
        printf("  %12lld  %10lld  %9.3f", (long long)r->instructions, (long long)r->wavefronts,
               (double)work_of(r) / (double)work_of(best));
    else if (r->ran)
        printf("  %10.4f  %9.3f", r->ms, r->ms / best->ms);
    if (r->output_count > 0)
        printf("  %08x", (unsigned int)(checksum_of(r) >> 32));
    printf("\n");
}

static void print_table(const program_settings *s, row *const *rows, size_t count)
{
    const program_result *best = &rows[0]->result;
    if (best->status == COMMAND_OK)
        program_report_device(s, best);
    print_head(s, best);
    for (size_t i = 0; i < count; i++)
        print_row(s, rows[i], best);
}

static void json_table(const program_settings *s, row *const *rows, size_t count)
{
    json_open(NULL, '{');
    json_text("file", s->path);
    if (rows[0]->result.status == COMMAND_OK)
        program_report_device(s, &rows[0]->result);
    json_int("seed", s->seed);
    json_open("runs", '[');
    for (size_t i = 0; i < count; i++) {
        json_open(NULL, '{');
        program_json_symbols(&rows[i]->symbols);
        json_text("error", rows[i]->result.status == COMMAND_OK ? NULL : rows[i]->result.line);
        if (rows[i]->result.status == COMMAND_OK)
            program_json_run(&rows[i]->result);
        json_close();
    }
    json_close();
    json_close();
}

/* An exit status, after a line unless all of them ran. */
static int run_all(program_worker *w, const program_settings *s, row **rows, size_t count)
{
    char        line[PROGRAM_LINE];
    program_job job;
    for (size_t i = 0; i < count; i++) {
        rows[i] = (row *)malloc(sizeof **rows);
        if (rows[i] == NULL || !program_sweep_job(s, i, &job, line))
            return command_fail(s->subcommand, "out of memory");
        progress_step(i + 1, count, "combinations");
        rows[i]->index = i;
        rows[i]->symbols = job.symbols;
        rows[i]->result = *program_worker_run(w, &job);
        if (rows[i]->result.misnamed)
            return program_report_failure(w, s, &rows[i]->result);
    }
    return COMMAND_OK;
}

int program_sweep(program_worker *w, const program_settings *s)
{
    size_t count = program_sweep_count(s);
    row  **rows = (row **)calloc(count, sizeof *rows);
    progress_begin(s->subcommand, "combinations");
    int status = rows != NULL ? run_all(w, s, rows, count) : command_fail(s->subcommand, "out of memory");
    progress_end();
    if (status == COMMAND_OK) {
        qsort(rows, count, sizeof *rows, by_rank);
        if (s->json)
            json_table(s, rows, count);
        else
            print_table(s, rows, count);
        if (rows[0]->result.status != COMMAND_OK)
            status = command_fail(s->subcommand, "no combination of --sweep succeeded");
    }
    for (size_t i = 0; i < count && rows != NULL; i++)
        free(rows[i]);
    free(rows);
    return status;
}
