/* plan_parallel.c - ptxpack plan parallel: what each rank of a group copies and computes, and why in this way. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/attention/inspect.h"
#include "host/parallel/inspect.h"
#include "tools/commands/plan.h"
#include "tools/problem/sharded.h"

static size_t options(plan_settings *s, option *rows)
{
    const option own[] = {
        ATTENTION_OPTIONS(&s->attention, "1", "32768", "32"),
        {"dtype", OPTION_TEXT, &s->attention.dtype, "f16|bf16  (default f16)"},
        {"ranks", OPTION_INT, &s->ranks, "N  GPUs that share the sequence (default 8)"},
        {"shards", OPTION_TEXT, &s->shards, "contiguous|zigzag  the rows of a rank (default zigzag)"},
        {"way", OPTION_TEXT, &s->way, "gather|steps|heads|arrive  (default: what the model prefers)"},
        {"link", OPTION_REAL, &s->link, "X  GB/s that a rank receives (default 370)"},
    };
    s->attention.batch = 1;
    s->attention.seqlen_q = 32768;
    s->attention.heads_q = 32;
    memcpy(rows, own, sizeof own);
    return sizeof own / sizeof own[0];
}

static int describe(plan *p)
{
    const plan_settings *s = p->settings;
    if (s->ranks < 1 || s->ranks > 1024)
        return command_fail("plan", "--ranks: %lld is not between 1 and 1024", (long long)s->ranks),
               COMMAND_USAGE;
    if (strcmp(s->shards, "contiguous") != 0 && strcmp(s->shards, "zigzag") != 0)
        return command_fail("plan", "--shards: \"%s\" is neither contiguous nor zigzag", s->shards),
               COMMAND_USAGE;
    if (sharded_way_of(s->way) == PTXPACK_PARALLEL_BEST && strcmp(s->way, "best") != 0)
        return command_fail("plan", "--way: \"%s\" is none of gather, steps, heads and arrive", s->way),
               COMMAND_USAGE;
    if (!isnan(s->link) && !(s->link >= 1e-3 && s->link <= 1e6))
        return command_fail("plan", "--link: %g is not between 1e-3 and 1e6", s->link), COMMAND_USAGE;
    return attention_problem_describe(&s->attention, &p->attention);
}

static ptxpack_status report_way(plan *p, const parallel_whole *w, int way, double link)
{
    report        *r = &p->out;
    char           line[PLAN_LINE];
    parallel_time  time;
    const bool     taken = way == (int)w->problem.way;
    ptxpack_status status = PTXPACK_OK;
    report_text(r, "way", "%s", sharded_ways[way]);
    if (parallel_check_way(w, (ptxpack_parallel_way)way, line) != PTXPACK_OK) {
        report_text(r, "refused", "%s", line);
        report_line(r, "  {way:-8s} {refused}");
        return PTXPACK_OK;
    }
    status = parallel_slowest(p->handle, w, (ptxpack_parallel_way)way, link, &time);
    if (status == PTXPACK_E_UNSUPPORTED && way == PTXPACK_PARALLEL_ARRIVE && !taken) {
        report_text(r, "refused", "%s", ptxpack_detail(p->handle));
        report_line(r, "  {way:-8s} {refused}");
        return PTXPACK_OK;
    }
    report_real(r, "estimated_us", time.all);
    report_real(r, "kernels_us", time.compute);
    report_real(r, "copies_us", time.copies);
    report_real(r, "merges_us", time.merge);
    report_bool(r, "taken", taken);
    report_line(r,
                taken ? "  {way:-8s} {estimated_us:9.1f}  {kernels_us:9.1f} {copies_us:9.1f} "
                        "{merges_us:9.1f}  taken"
                      : "  {way:-8s} {estimated_us:9.1f}  {kernels_us:9.1f} {copies_us:9.1f} {merges_us:9.1f}");
    return status;
}

static ptxpack_status report_ways(plan *p, const parallel_whole *w, double link)
{
    report        *r = &p->out;
    ptxpack_status status = PTXPACK_OK;
    report_line(r, "\nways       estimated us of the slowest rank; its kernels, copies and merges alone");
    report_open(r, "ways", '[');
    for (int way = PTXPACK_PARALLEL_GATHER; way < SHARDED_WAYS && status == PTXPACK_OK; way++) {
        report_open(r, NULL, '{');
        status = report_way(p, w, way, link);
        report_close(r);
    }
    report_close(r);
    return status;
}

/* With `arrives` it is a part of the rank's one launch, whose keys are in the shard or come into the buffer. */
static void report_part(report *r, const parallel_schedule *s, const parallel_part *part, bool arrives)
{
    static const char *const masks[] = {"no mask", "causal, from the first row", "causal, to the last row",
                                        "a window, from the first row", "a window, to the last row"};
    const bool               window = part->mask >= PTXPACK_MASK_WINDOW_TOP_LEFT;
    report_open(r, NULL, '{');
    report_int(r, "step", part->step);
    report_int(r, "first_row", s->chunk[part->chunk].first);
    report_int(r, "rows", s->chunk[part->chunk].count);
    report_text(r, "keys_in", "%s", arrives ? "sequence" : part->step == 0 ? "shard" : "buffer");
    report_int(r, "first_key", part->row);
    report_int(r, "keys", part->rows);
    report_text(r, "mask", "%s", masks[part->mask]);
    report_int(r, "window_left", part->window_left);
    report_int(r, "window_right", part->window_right);
    report_text(r, ".when", arrives ? "launch" : "step %d", (int)part->step);
    report_line(r, window ? "  {when}   {rows row} from {first_row} attend to {keys key} of the "
                            "{keys_in}, from {first_key}: "
                            "{mask} {window_left}, {window_right}"
                          : "  {when}   {rows row} from {first_row} attend to {keys key} of the "
                            "{keys_in}, from {first_key}: {mask}");
    report_close(r);
}

static void report_copy(report *r, const parallel_copy *copy)
{
    report_open(r, NULL, '{');
    report_int(r, "step", copy->step);
    report_int(r, "rank", copy->rank);
    report_int(r, "first", copy->first);
    report_int(r, "rows", copy->count);
    report_int(r, "to", copy->to);
    report_line(
        r, "  copy {step}   {rows row} of rank {rank}, from {first} of the sequence, to {to} of the buffer");
    report_close(r);
}

/* Way `heads`: all rows of the rank's heads come into a buffer, in their order. */
static void report_heads(plan *p, const parallel_whole *w, int32_t rank)
{
    report                 *r = &p->out;
    const parallel_problem *problem = &w->problem;
    const int32_t           q = w->desc.heads_q / problem->ranks, kv = w->desc.heads_kv / problem->ranks;
    const parallel_schedule whole = {.chunk = {{0, problem->rows}}};
    const parallel_part     part = {.step = 1,
                                    .rows = problem->rows,
                                    .mask = w->desc.mask,
                                    .window_left = w->desc.window_left,
                                    .window_right = w->desc.window_right};
    parallel_rows           chunk[2] = {{0, 0}, {0, 0}};
    (void)parallel_chunks(problem, rank, chunk);
    report_int(r, "rank", rank);
    report_int(r, "shard_rows", chunk[0].count + chunk[1].count);
    report_int(r, "buffer_rows", problem->rows);
    report_int(r, "first_head_q", rank * q);
    report_int(r, "heads_q", q);
    report_int(r, "first_head_kv", rank * kv);
    report_int(r, "heads_kv", kv);
    report_real(r, "buffer_mb",
                1e-6 * w->desc.batch *
                    (double)(problem->rows * (w->q_row + w->k_row + w->v_row) / problem->ranks));
    report_line(
        r, "\nrank {rank}     holds {shard_rows row}, takes {buffer_rows row} of {heads_q query head} from "
           "{first_head_q} and {heads_kv key head} from {first_head_kv}: {buffer_mb} MB");
    report_open(r, "copies", '[');
    for (int32_t from = 0; from < problem->ranks; from++) {
        const int32_t chunks = parallel_chunks(problem, from, chunk);
        for (int32_t c = 0; c < chunks; c++) {
            const parallel_copy copy = {.rank = from,
                                        .step = 1,
                                        .first = chunk[c].first,
                                        .count = chunk[c].count,
                                        .to = chunk[c].first};
            report_copy(r, &copy);
        }
    }
    report_close(r);
    report_open(r, "parts", '[');
    report_part(r, &whole, &part, false);
    report_close(r);
    report_line(r, "  copy 2   the results of {shard_rows row}, from all ranks");
}

static ptxpack_status report_rank(plan *p, const parallel_whole *w, int32_t rank)
{
    report    *r = &p->out;
    const bool arrives = w->problem.way == PTXPACK_PARALLEL_ARRIVE;
    if (w->problem.way == PTXPACK_PARALLEL_HEADS) {
        report_open(r, NULL, '{');
        report_heads(p, w, rank);
        report_close(r);
        return PTXPACK_OK;
    }
    parallel_schedule *s = parallel_schedule_make(&w->problem, rank);
    if (s == NULL)
        return ptxpack_fail(p->handle, PTXPACK_E_MEMORY, "out of memory for a schedule");
    report_open(r, NULL, '{');
    report_int(r, "rank", rank);
    report_int(r, "shard_rows", s->chunk[0].count + s->chunk[1].count);
    report_int(r, "buffer_rows", s->buffer_rows);
    report_real(r, "buffer_mb", 1e-6 * w->desc.batch * (double)(s->buffer_rows * (w->k_row + w->v_row)));
    report_line(
        r, arrives ? "\nrank {rank}     holds {shard_rows row}, has a buffer for {buffer_rows row} of keys and "
                     "values: {buffer_mb} MB"
                   : "\nrank {rank}     holds {shard_rows row}, takes {buffer_rows row} of keys and values: "
                     "{buffer_mb} MB");
    report_open(r, "copies", '[');
    for (int32_t i = 0; i < s->copy_count; i++)
        report_copy(r, &s->copies[i]);
    report_close(r);
    report_open(r, "parts", '[');
    for (int32_t i = 0; i < s->part_count; i++)
        report_part(r, s, &s->parts[i], arrives);
    report_close(r);
    for (int32_t c = 0; c < s->chunks; c++)
        if (parallel_parts_of(s, c) > 1) {
            report_int(r, ".merged", parallel_parts_of(s, c));
            report_int(r, ".from", s->chunk[c].first);
            report_line(r, "  merge    {merged} parts of the rows from {from}");
        }
    report_close(r);
    free(s);
    return PTXPACK_OK;
}

static int fill(plan *p)
{
    const plan_settings                  *s = p->settings;
    const double                          link = isnan(s->link) ? 0 : s->link;
    const ptxpack_attention_parallel_desc desc = {.size = sizeof desc,
                                                  .attention = &p->attention.desc,
                                                  .shards = strcmp(s->shards, "zigzag") == 0
                                                                ? PTXPACK_SHARDS_ZIGZAG
                                                                : PTXPACK_SHARDS_CONTIGUOUS,
                                                  .way = sharded_way_of(s->way)};
    char                                  line[PLAN_LINE];
    parallel_whole                        whole;
    if (parallel_resolve(&desc, (int32_t)s->ranks, &whole, line) != PTXPACK_OK)
        return command_fail("plan", "%s", line), COMMAND_USAGE;
    ptxpack_status status = parallel_choose(p->handle, &whole, link, true);
    attention_problem_report(&p->out, &p->attention);
    report_int(&p->out, "ranks", whole.problem.ranks);
    report_text(&p->out, "shards", "%s", s->shards);
    report_line(&p->out, "problem    {types}, batch {batch}, {seqlen_q} x {seqlen_kv} (queries x keys), "
                         "{heads_q} query heads on {heads_kv}, head_dim {head_dim}, {mask_name}");
    report_line(&p->out, "group      {ranks rank}, {shards} shards");
    if (status == PTXPACK_OK)
        status = report_ways(p, &whole, link);
    report_open(&p->out, "ranks_do", '[');
    for (int32_t rank = 0; rank < whole.problem.ranks && status == PTXPACK_OK; rank++)
        status = report_rank(p, &whole, rank);
    report_close(&p->out);
    return status == PTXPACK_OK ? COMMAND_OK : command_fail("plan", "%s", ptxpack_detail(p->handle));
}

const plan_operation plan_parallel = {"parallel", options, describe, fill};
