/* gather.c - gathers of rows against a copy: ids in and out of range, strides, rows beyond a block. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/gather/inspect.h"
#include "tests/check/region.h"
#include "tools/problem/random.h"

typedef struct gather_case {
    int32_t rows, table_rows, columns;
    int64_t gap; /* elements between rows of the table, and twice as many between those of y */
    bool    quick;
} gather_case;

static const gather_case cases[] = {
    {1, 5, 8, 0, true},
    {37, 11, 136, 0, false},
    {9, 300, 520, 24, true},
    {300, 1, 16, 8, false},
};
enum { CASES = sizeof cases / sizeof cases[0], IDS = 0, TABLE, Y, REGIONS };

typedef struct gather_run {
    ptxpack_gather_desc  desc;
    gather_geometry      geometry;
    ptxpack_gather_plan *plan;
    check_region         region[REGIONS];
    char                 line[256];
} gather_run;

static bool make_run(gather_run *r, const gather_case *m, random_state random)
{
    static const int32_t odd[] = {-1, INT32_MIN, INT32_MAX};
    r->desc = (ptxpack_gather_desc){.size = sizeof r->desc,
                                    .dtype = PTXPACK_F16,
                                    .rows = m->rows,
                                    .table_rows = m->table_rows,
                                    .columns = m->columns,
                                    .stride_table = m->gap != 0 ? m->columns + m->gap : 0,
                                    .stride_y = m->gap != 0 ? m->columns + 2 * m->gap : 0};
    if (gather_resolve(&r->desc, &r->geometry, r->line) != PTXPACK_OK)
        return false;
    snprintf(r->line, sizeof r->line, "no memory");
    if (!check_region_make(&r->region[IDS], (size_t)r->geometry.ids_bytes, true) ||
        !check_region_make(&r->region[TABLE], (size_t)r->geometry.table.bytes, true) ||
        !check_region_make(&r->region[Y], (size_t)r->geometry.y.bytes, false))
        return false;
    int32_t *ids = (int32_t *)check_region_fill(&r->region[IDS]);
    for (int32_t i = 0; i < m->rows; i++)
        ids[i] = i % 5 == 3   ? odd[i / 5 % 3]
                 : i % 7 == 6 ? m->table_rows
                              : (int32_t)random_below(&random, (uint32_t)m->table_rows);
    random_normal(&random, PTXPACK_F16, check_region_fill(&r->region[TABLE]), r->region[TABLE].bytes / 2);
    return true;
}

static bool launch(check *c, gather_run *r)
{
    bool ok = true;
    for (int i = 0; i < REGIONS && ok; i++)
        ok = check_region_upload(c, &r->region[i]);
    const ptxpack_gather_buffers b = {.size = sizeof b,
                                      .ids = check_region_at(&r->region[IDS]),
                                      .table = check_region_at(&r->region[TABLE]),
                                      .y = check_region_at(&r->region[Y])};
    return ok && device_status(&c->gpu, ptxpack_gather(r->plan, &b, c->gpu.stream)) &&
           check_region_download(c, &r->region[Y]);
}

/* Puts what is expected in place of what was before the launch: then nothing may have changed. */
static const char *judge(gather_run *r)
{
    const size_t   bytes = (size_t)r->desc.columns * sizeof(uint16_t);
    const int32_t *ids = (const int32_t *)check_region_fill(&r->region[IDS]);
    const uint8_t *table = (const uint8_t *)check_region_fill(&r->region[TABLE]);
    uint8_t       *y = (uint8_t *)check_region_fill(&r->region[Y]);
    int64_t        place;
    for (int32_t i = 0; i < r->desc.rows; i++) {
        uint8_t *to = y + i * r->geometry.y.stride[MEMORY_ROW];
        if (ids[i] < 0 || ids[i] >= r->desc.table_rows)
            memset(to, 0, bytes);
        else
            memcpy(to, table + ids[i] * r->geometry.table.stride[MEMORY_ROW], bytes);
    }
    if (!check_region_changed(&r->region[Y], NULL, &place))
        return NULL;
    snprintf(r->line, sizeof r->line, "byte %lld of y is not what it must be", (long long)place);
    return r->line;
}

static void run_case(check *c, const gather_case *m, const ptxpack_variant *row, const char *name,
                     random_state random)
{
    gather_run r = {.plan = NULL};
    if (!make_run(&r, m, random))
        check_broken(c, name, r.line);
    else if (ptxpack_gather_plan_row(c->gpu.handle, &r.desc, row, &r.plan) != PTXPACK_OK)
        check_broken(c, name, ptxpack_detail(c->gpu.handle));
    else if (!launch(c, &r))
        check_broken(c, name, c->gpu.line);
    else
        check_record(c, name, judge(&r));
    for (int i = 0; i < REGIONS; i++)
        check_region_free(c, &r.region[i]);
    ptxpack_gather_plan_free(r.plan);
}

void check_gather(check *c)
{
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    char                   name[160];
    for (size_t i = 0; i < count; i++)
        for (int k = 0; k < CASES && !atomic_load(&c->broken); k++) {
            const gather_case *m = &cases[k];
            snprintf(name, sizeof name, "gather %dx%d of %d%s %s", (int)m->rows, (int)m->columns,
                     (int)m->table_rows, m->gap != 0 ? " gaps" : "", rows[i].id);
            if (check_row_runs(c, &rows[i], "gather", PTXPACK_F16) && check_case_runs(c, name, m->quick))
                run_case(c, m, &rows[i], name, random_start(c->seed + (uint64_t)k));
        }
}
