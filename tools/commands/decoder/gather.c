/* gather.c - ptxpack gather: rows of a random table by random ids. */
#include <string.h>

#include "decoder.h"
#include "host/ptxpack.h"

enum { IDS, TABLE, Y };

typedef struct gather {
    decoder              d;
    int64_t              table_rows, columns;
    ptxpack_gather_desc  desc;
    ptxpack_gather_plan *plan;
} gather;

static int describe(decoder *d)
{
    enum { MOST = 1 << 24, MOST_COLUMNS = 1 << 20 };
    gather      *g = (gather *)d;
    const size_t line = (size_t)g->columns * sizeof(uint16_t);
    if (!decoder_size(d, "table-rows", g->table_rows, MOST) ||
        !decoder_size(d, "columns", g->columns, MOST_COLUMNS))
        return COMMAND_USAGE;
    g->desc = (ptxpack_gather_desc){.size = sizeof g->desc,
                                    .dtype = d->dtype,
                                    .rows = (int32_t)d->rows,
                                    .table_rows = (int32_t)g->table_rows,
                                    .columns = (int32_t)g->columns};
    d->tensor[IDS] = (decoder_tensor){.name = "ids", .bytes = (size_t)d->rows * sizeof(int32_t)};
    d->tensor[TABLE] = (decoder_tensor){.name = "table", .bytes = (size_t)g->table_rows * line};
    d->tensor[Y] = (decoder_tensor){.name = "y", .bytes = (size_t)d->rows * line, .written = true};
    d->bytes = 2 * (double)d->tensor[Y].bytes;
    return COMMAND_OK;
}

static void describe_problem(const decoder *d, report *r)
{
    const gather *g = (const gather *)d;
    report_int(r, "table_rows", g->table_rows);
    report_int(r, "columns", g->columns);
    report_line(r, "problem   {dtype}, {rows row} of {columns column} from a table of {table_rows}");
}

/* One id of 64 is beyond the table. */
static void fill(decoder *d, random_state *random)
{
    enum { BEYOND = 64 };
    const uint64_t limit = (uint64_t)((const gather *)d)->table_rows;
    int32_t       *ids = (int32_t *)d->tensor[IDS].host;
    for (int64_t i = 0; i < d->rows; i++)
        ids[i] = random_below(random, BEYOND) == 0 ? -1 : (int32_t)random_below(random, limit);
    random_normal(random, d->dtype, d->tensor[TABLE].host, d->tensor[TABLE].bytes / sizeof(uint16_t));
}

static ptxpack_status plan(decoder *d)
{
    gather              *g = (gather *)d;
    const ptxpack_status status = ptxpack_gather_plan_create(d->gpu.handle, &g->desc, &g->plan);
    d->kernel[0] = status == PTXPACK_OK ? ptxpack_gather_kernel(g->plan) : NULL;
    return status;
}

static ptxpack_status launch(decoder *d)
{
    const decoder_tensor        *t = d->tensor;
    const ptxpack_gather_buffers b = {.size = sizeof b, .ids = t[IDS].at, .table = t[TABLE].at, .y = t[Y].at};
    return ptxpack_gather(((gather *)d)->plan, &b, d->gpu.stream);
}

static void end(decoder *d) { ptxpack_gather_plan_free(((gather *)d)->plan); }

/* Beyond the table there are zeros. */
static ptxpack_status verify(const decoder *d, decoder_verdict *v)
{
    const size_t    columns = (size_t)((const gather *)d)->columns;
    const int32_t  *ids = (const int32_t *)d->tensor[IDS].host;
    const uint16_t *table = (const uint16_t *)d->tensor[TABLE].host;
    const uint16_t *y = (const uint16_t *)d->tensor[Y].result;
    for (size_t i = 0; i < (size_t)d->rows * columns; i++) {
        const int32_t  id = ids[i / columns];
        const uint16_t want = id < 0 ? 0 : table[(size_t)id * columns + i % columns];
        decoder_count(v, "y", i, y[i] == want, 0);
    }
    return PTXPACK_OK;
}

static const decoder_op op = {"gather", describe, describe_problem, fill, plan, launch, end, verify};

int cmd_gather(int argc, char **argv)
{
    enum { ROWS = 1024, TABLE_ROWS = 4096, COLUMNS = 4096 };
    gather       g = {.d = decoder_of(&op, ROWS), .table_rows = TABLE_ROWS, .columns = COLUMNS};
    const option rows[] = {
        {"table-rows", OPTION_INT, &g.table_rows, "N  rows of the table (default 4096)"},
        {"columns", OPTION_INT, &g.columns, "N  of a row (default 4096)"},
        DECODER_OPTIONS(&g.d, "1024"),
    };
    return decoder_run(argc, argv, "ptxpack gather [options]", rows, &g.d);
}
