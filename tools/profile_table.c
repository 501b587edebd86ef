/* profile_table.c - gathers and prints counters of the emulated driver. */
#include "profile_table.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "command.h"

struct profile_row {
    struct ptxpack_emu_row r;
    char                  *kernel, *file, *instruction, *kind;
};

bool profile_calls_find(device *d, profile_calls *calls)
{
    *(void **)&calls->start = device_library_function(d, "ptxpack_emu_profile_start");
    *(void **)&calls->stop = device_library_function(d, "ptxpack_emu_profile_stop");
    *(void **)&calls->read = device_library_function(d, "ptxpack_emu_profile_read");
    if (calls->start != NULL && calls->stop != NULL && calls->read != NULL)
        return true;
    snprintf(d->line, sizeof d->line, "%.300s is no emulated driver: it counts nothing",
             ptxpack_driver_path(d->driver));
    return false;
}

void profile_table_begin(profile_table *table) { memset(table, 0, sizeof *table); }

static char *copy(const char *text) { return strdup(text != NULL ? text : ""); }

void profile_table_add(void *context, const struct ptxpack_emu_row *row)
{
    profile_table *table = (profile_table *)context;
    if (table->failed)
        return;
    if (table->count == table->cap) {
        size_t              cap = table->cap ? 2 * table->cap : 256;
        struct profile_row *grown = (struct profile_row *)realloc(table->rows, cap * sizeof *grown);
        if (grown == NULL) {
            table->failed = true;
            return;
        }
        table->rows = grown;
        table->cap = cap;
    }
    struct profile_row *made = &table->rows[table->count++];
    made->r = *row;
    made->kernel = copy(row->kernel);
    made->file = copy(row->file);
    made->instruction = copy(row->instruction);
    made->kind = copy(row->kind);
    table->failed = made->kernel == NULL || made->file == NULL || made->instruction == NULL ||
                    made->kind == NULL;
}

void profile_table_free(profile_table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        free(table->rows[i].kernel);
        free(table->rows[i].file);
        free(table->rows[i].instruction);
        free(table->rows[i].kind);
    }
    free(table->rows);
}

/* ---- in a file ------------------------------------------------------------------------------------- */
static bool save_text(FILE *to, const char *text)
{
    size_t bytes = strlen(text) + 1;
    return fwrite(text, 1, bytes, to) == bytes;
}

bool profile_table_save(const profile_table *t, int fd)
{
    int   copy_of = dup(fd);
    FILE *to = copy_of >= 0 ? fdopen(copy_of, "wb") : NULL;
    bool  good = to != NULL && !t->failed && ftruncate(fd, 0) == 0 && fseek(to, 0, SEEK_SET) == 0;
    for (size_t i = 0; i < t->count && good; i++)
        good = fwrite(&t->rows[i].r, sizeof t->rows[i].r, 1, to) == 1 && save_text(to, t->rows[i].kernel) &&
               save_text(to, t->rows[i].file) && save_text(to, t->rows[i].instruction) &&
               save_text(to, t->rows[i].kind);
    return to != NULL && fclose(to) == 0 && good;
}

/* The pointers of a row were those of the other process. */
static bool load_row(profile_table *t, FILE *from, struct ptxpack_emu_row *row)
{
    enum { TEXTS = 4 };
    char  *text[TEXTS] = {NULL};
    size_t cap[TEXTS] = {0};
    bool   good = true;
    for (int i = 0; i < TEXTS && good; i++)
        good = getdelim(&text[i], &cap[i], '\0', from) > 0;
    row->kernel = text[0];
    row->file = text[1];
    row->instruction = text[2];
    row->kind = text[3];
    if (good)
        profile_table_add(t, row);
    for (int i = 0; i < TEXTS; i++)
        free(text[i]);
    return good;
}

bool profile_table_load(profile_table *t, int fd)
{
    struct ptxpack_emu_row row;
    int                    copy_of = dup(fd);
    FILE                  *from = copy_of >= 0 ? fdopen(copy_of, "rb") : NULL;
    bool                   good = from != NULL && fseek(from, 0, SEEK_SET) == 0;
    while (good && fread(&row, sizeof row, 1, from) == 1)
        good = load_row(t, from, &row);
    if (from != NULL)
        fclose(from);
    return good && !t->failed;
}

static void add(struct ptxpack_emu_row *sum, const struct ptxpack_emu_row *row)
{
    sum->warps += row->warps;
    sum->lanes += row->lanes;
    sum->bytes += row->bytes;
    sum->transactions += row->transactions;
    sum->conflicts += row->conflicts;
    sum->tensor_ops += row->tensor_ops;
}

static void print_counts(const struct ptxpack_emu_row *r)
{
    printf(" %10llu %12llu %12llu %10llu %9llu %14llu", (unsigned long long)r->warps,
           (unsigned long long)r->lanes, (unsigned long long)r->bytes, (unsigned long long)r->transactions,
           (unsigned long long)r->conflicts, (unsigned long long)r->tensor_ops);
}

static void print_heads(const char *first, const char *second, int width)
{
    printf("\n%-*s %-4s %10s %12s %12s %10s %9s %14s\n", width, first, second, "warp-ops", "thread-ops",
           "bytes", "wavefronts", "conflicts", "multiply-adds");
}

/* ---- by kind and role ------------------------------------------------------------------------------- */
static bool seen_before(const profile_table *t, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (t->rows[i].r.role == t->rows[at].r.role && strcmp(t->rows[i].kind, t->rows[at].kind) == 0)
            return true;
    return false;
}

static void print_kinds(const profile_table *t)
{
    uint32_t roles = 0;
    for (size_t i = 0; i < t->count; i++)
        roles = t->rows[i].r.role >= roles ? t->rows[i].r.role + 1 : roles;
    print_heads("kind", "warp", 14);
    for (uint32_t role = 0; role < roles; role++)
        for (size_t i = 0; i < t->count; i++) {
            struct ptxpack_emu_row sum = {.role = role};
            if (t->rows[i].r.role != role || seen_before(t, i))
                continue;
            for (size_t k = i; k < t->count; k++)
                if (t->rows[k].r.role == role && strcmp(t->rows[k].kind, t->rows[i].kind) == 0)
                    add(&sum, &t->rows[k].r);
            printf("%-14s %4u", t->rows[i].kind, role);
            print_counts(&sum);
            printf("\n");
        }
}

/* ---- by line ---------------------------------------------------------------------------------------- */
typedef struct line_sum {
    const struct profile_row *first;
    struct ptxpack_emu_row    sum;
    bool                      shown;
} line_sum;

static bool same_line(const struct profile_row *a, const struct profile_row *b)
{
    return a->r.line == b->r.line && strcmp(a->file, b->file) == 0;
}

static size_t sum_lines(const profile_table *t, line_sum *lines)
{
    size_t count = 0;
    for (size_t i = 0; i < t->count; i++) {
        size_t k = 0;
        while (k < count && !same_line(lines[k].first, &t->rows[i]))
            k++;
        if (k == count)
            lines[count++] = (line_sum){.first = &t->rows[i]};
        add(&lines[k].sum, &t->rows[i].r);
    }
    return count;
}

/* The line that is executed most, among those not yet chosen. */
static line_sum *heaviest(line_sum *lines, size_t count)
{
    line_sum *best = NULL;
    for (size_t i = 0; i < count; i++)
        if (!lines[i].shown && (best == NULL || lines[i].sum.warps > best->sum.warps))
            best = &lines[i];
    return best;
}

static void print_lines(const profile_table *t, size_t wanted)
{
    line_sum *lines = (line_sum *)calloc(t->count + 1, sizeof *lines);
    if (lines == NULL)
        return;
    size_t count = sum_lines(t, lines);
    if (wanted == 0 || wanted > count)
        wanted = count;
    for (size_t i = 0; i < wanted; i++)
        heaviest(lines, count)->shown = true;
    print_heads("line", "", 34);
    for (size_t i = 0; i < count; i++) {
        char place[256];
        if (!lines[i].shown)
            continue;
        snprintf(place, sizeof place, "%s:%u", *lines[i].first->file ? lines[i].first->file : "PTX",
                 lines[i].first->r.line);
        printf("%-34s     ", place);
        print_counts(&lines[i].sum);
        printf("  %.40s\n", lines[i].first->instruction);
    }
    if (wanted < count)
        printf("the %zu of %zu lines that are executed most\n", wanted, count);
    free(lines);
}

void profile_table_print(const profile_table *table, size_t lines)
{
    print_kinds(table);
    print_lines(table, lines);
}

void profile_table_json(const profile_table *table)
{
    json_open("rows", '[');
    for (size_t i = 0; i < table->count; i++) {
        const struct profile_row *row = &table->rows[i];
        json_open(NULL, '{');
        json_text("kernel", row->kernel);
        json_text("file", row->file);
        json_int("line", row->r.line);
        json_int("ptx_line", row->r.ptx_line);
        json_int("warp", row->r.role);
        json_text("instruction", row->instruction);
        json_text("kind", row->kind);
        json_int("warp_ops", (int64_t)row->r.warps);
        json_int("thread_ops", (int64_t)row->r.lanes);
        json_int("bytes", (int64_t)row->r.bytes);
        json_int("wavefronts", (int64_t)row->r.transactions);
        json_int("conflicts", (int64_t)row->r.conflicts);
        json_int("multiply_adds", (int64_t)row->r.tensor_ops);
        json_close();
    }
    json_close();
}
