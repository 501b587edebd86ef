/* corners.c - the choice among corner builds: greedy, the same in every run. */
#include "corners.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "host/ptxpack.h"
#include "loader/registry.h"

enum { FEATURES = 64, FAMILY = 2, LOW = 0, HIGH = 1, ENDS = 2 };

typedef struct corner {
    size_t   row;
    uint64_t at[ENDS]; /* which features of the family are at their lowest value, at their highest one */
    bool    *chosen;
} corner;

typedef struct family { /* of rows that follow each other */
    const char *names[FEATURES];
    int         name_count;
    corner     *corners;
    size_t      count;
    uint64_t    met[FEATURES][ENDS][ENDS]; /* with this end of a feature: these ends of the others */
} family;

/* ---- features ----------------------------------------------------------------------------------------- */
static int64_t value_of(const ptxpack_instance *build, const char *name)
{
    for (size_t i = 0; i < build->symbol_count; i++)
        if (strcmp(build->symbols[i].name, name) == 0)
            return build->symbols[i].value;
    return 0;
}

/* The number of a name in the family; FEATURES: there are too many. */
static int number_of(family *f, const char *name)
{
    int i = 0;
    while (i < f->name_count && strcmp(f->names[i], name) != 0)
        i++;
    if (i == f->name_count && i < FEATURES)
        f->names[f->name_count++] = name;
    return i;
}

/* Notes at which end a symbol is in each build, if it differs between them. */
static bool add_feature(family *f, const ptxpack_instance *builds, size_t count, const char *name, corner *out)
{
    int64_t lowest = INT64_MAX, highest = INT64_MIN;
    for (size_t i = 0; i < count; i++) {
        const int64_t value = value_of(&builds[i], name);
        lowest = value < lowest ? value : lowest;
        highest = value > highest ? value : highest;
    }
    const int number = lowest == highest ? 0 : number_of(f, name);
    for (size_t i = 0; i < count && lowest != highest && number < FEATURES; i++) {
        const int64_t value = value_of(&builds[i], name);
        out[i].at[LOW] |= (uint64_t)(value == lowest) << number;
        out[i].at[HIGH] |= (uint64_t)(value == highest) << number;
    }
    return number < FEATURES;
}

static bool add_row(family *f, const ptxpack_variant *row, size_t number, bool *chosen)
{
    const size_t      count = ptxpack_instance_count(row);
    ptxpack_instance *builds = (ptxpack_instance *)calloc(count + 1, sizeof *builds);
    corner           *larger = (corner *)realloc(f->corners, (f->count + count + 1) * sizeof *larger);
    bool              good = builds != NULL && larger != NULL;
    if (larger != NULL)
        f->corners = larger;
    for (size_t i = 0; good && i < count; i++) {
        builds[i] = ptxpack_instance_get(row, i);
        larger[f->count + i] = (corner){.row = number, .chosen = &chosen[i]};
    }
    for (size_t s = 0; good && count > 0 && s < builds[0].symbol_count; s++)
        good = add_feature(f, builds, count, builds[0].symbols[s].name, larger + f->count);
    f->count += good ? count : 0;
    free(builds);
    return good;
}

/* ---- the choice --------------------------------------------------------------------------------------- */
static int bits(const uint64_t x[ENDS]) { return __builtin_popcountll(x[LOW]) + __builtin_popcountll(x[HIGH]); }

/* How many pairs of ends of the build are in no chosen one. */
static int new_pairs(const family *f, const corner *c)
{
    int pairs = 0;
    for (int end = LOW; end <= HIGH; end++)
        for (uint64_t left = c->at[end]; left != 0; left &= left - 1) {
            const uint64_t *met = f->met[__builtin_ctzll(left)][end];
            pairs += bits((const uint64_t[ENDS]){c->at[LOW] & ~met[LOW], c->at[HIGH] & ~met[HIGH]});
        }
    return pairs;
}

static void choose(family *f, const corner *c)
{
    *c->chosen = true;
    for (int end = LOW; end <= HIGH; end++)
        for (uint64_t left = c->at[end]; left != 0; left &= left - 1)
            for (int other = LOW; other <= HIGH; other++)
                f->met[__builtin_ctzll(left)][end][other] |= c->at[other];
}

/* The builds of one row, `count` of them. */
static void choose_of_row(family *f, const corner *row, size_t count)
{
    uint64_t      seen[ENDS] = {0, 0};
    const corner *best = row;
    for (size_t i = 1; i < count; i++)
        if (__builtin_popcountll(row[i].at[HIGH]) > __builtin_popcountll(best->at[HIGH]))
            best = &row[i];
    while (best != NULL) {
        int most = 0, pairs = 0;
        choose(f, best);
        seen[LOW] |= best->at[LOW];
        seen[HIGH] |= best->at[HIGH];
        best = NULL;
        for (size_t i = 0; i < count; i++) {
            const uint64_t ends[ENDS] = {row[i].at[LOW] & ~seen[LOW], row[i].at[HIGH] & ~seen[HIGH]};
            if (bits(ends) < most || bits(ends) == 0 || (bits(ends) == most && new_pairs(f, &row[i]) <= pairs))
                continue;
            best = &row[i];
            most = bits(ends);
            pairs = new_pairs(f, best);
        }
    }
}

static void choose_of_family(family *f)
{
    for (size_t i = 0, end; i < f->count; i = end) {
        for (end = i + 1; end < f->count && f->corners[end].row == f->corners[i].row;)
            end++;
        choose_of_row(f, &f->corners[i], end - i);
    }
    for (const corner *best = f->corners; best != NULL;) {
        int most = 0;
        best = NULL;
        for (size_t i = 0; i < f->count; i++)
            if (new_pairs(f, &f->corners[i]) > most) {
                best = &f->corners[i];
                most = new_pairs(f, best);
            }
        if (best != NULL)
            choose(f, best);
    }
}

/* The end of the family that begins with a row: up to FAMILY rows of one file and architecture that follow each other. */
static size_t family_end(const ptxpack_variant *rows, size_t count, size_t first)
{
    size_t end = first + 1;
    while (end < count && end - first < FAMILY && strcmp(rows[end].file, rows[first].file) == 0 &&
           rows[end].arch == rows[first].arch)
        end++;
    return end;
}

bool *corners_choose(void)
{
    size_t                 count, builds = 0, at = 0;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    for (size_t i = 0; i < count; i++)
        builds += ptxpack_instance_count(&rows[i]);
    bool *chosen = (bool *)calloc(builds + 1, sizeof *chosen), good = chosen != NULL;
    for (size_t r = 0, end; good && r < count; r = end) {
        family *f = (family *)calloc(1, sizeof *f);
        end = family_end(rows, count, r);
        good = f != NULL;
        for (size_t i = r; good && i < end; i++) {
            good = add_row(f, &rows[i], i, chosen + at);
            at += ptxpack_instance_count(&rows[i]);
        }
        if (good)
            choose_of_family(f);
        if (f != NULL)
            free(f->corners);
        free(f);
    }
    if (!good)
        free(chosen);
    return good ? chosen : NULL;
}
