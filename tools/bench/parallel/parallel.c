/* parallel.c - ptxpack bench parallel: attention over a sequence that several GPUs share, beside one of them.
 *
 * Prefill  each length, mask and kind of shards, in every way that it can go, beside the whole on the first GPU; and what the
 *          library's model says of each way, from which a plan chooses
 * Decode   one query row, with the keys divided in equal parts, beside all of them on the first GPU
 * Link     every rank takes bytes from the next one at the same time, and nothing else runs: what link_gbps means */
#include "parallel.h"

#include <stdio.h>
#include <stdlib.h>

#include "host/parallel/inspect.h"
#include "tools/command.h"
#include "tools/problem/sharded.h"
#include "tools/report.h"

enum { REST_US = 50000, COPIED = 256 << 20, WAYS = SHARDED_WAYS };

static const char *const shard_names[] = {"contiguous", "zigzag"};

/* ---- settings ------------------------------------------------------------------------------------------ */
bool parallel_settings_known(const bench_settings *s)
{
    if (s->devices < 0 || s->devices > RANKS_MOST)
        return command_fail("bench", "--devices: %lld is not between 0 (all) and %d", (long long)s->devices,
                            (int)RANKS_MOST),
               false;
    if (s->heads.count != 2 || s->heads.value[0] % s->heads.value[1] != 0)
        return command_fail("bench", "--heads: give two numbers, of which the second divides the first"), false;
    if (s->link != 0 && !(s->link >= 1e-3 && s->link <= 1e6))
        return command_fail("bench", "--link: %g is not between 1e-3 and 1e6", s->link), false;
    if (s->masked.mask != PTXPACK_MASK_NONE || s->masked.softcap != 0)
        return command_fail("bench", "--window, --align and --softcap are not of parallel"), false;
    return true;
}

/* ---- cases --------------------------------------------------------------------------------------------- */
static size_t add(ranks_bench *b, ranks_kind kind, const ptxpack_attention_desc *desc)
{
    b->cases[b->count] = (ranks_case){.kind = kind, .desc = *desc};
    return b->count++;
}

/* Room for `rows` on the first rank, and for `shard` on each of the others. */
static void grow(ranks_bench *b, int tensor, int64_t rows, int64_t shard, int64_t row)
{
    const int64_t counts[2] = {rows, shard};
    for (int i = 0; i < 2; i++) {
        const size_t needed = ((size_t)(counts[i] * row) + 255) / 256 *
                              256; /* sets begin at multiples of that */
        if (b->bytes[i][tensor] < needed)
            b->bytes[i][tensor] = needed;
    }
}

static ptxpack_attention_desc describe(const ranks_bench *b, int32_t head_dim, int32_t rows, int32_t keys)
{
    return (ptxpack_attention_desc){.size = sizeof(ptxpack_attention_desc),
                                    .dtype = b->settings->dtype,
                                    .batch = 1,
                                    .seqlen_q = rows,
                                    .seqlen_kv = keys,
                                    .heads_q = b->settings->heads.value[0],
                                    .heads_kv = b->settings->heads.value[1],
                                    .head_dim = head_dim};
}

static bool reserve(ranks_bench *b, const ptxpack_attention_desc *d, int32_t ranks)
{
    const int64_t dim = 2 * (int64_t)d->head_dim, q = d->heads_q * dim, kv = d->heads_kv * dim;
    const int64_t keys = (int64_t)d->seqlen_kv * ranks;
    if (d->seqlen_q * q / 2 > UINT32_MAX || keys * kv / 2 > UINT32_MAX)
        return command_fail("bench", "%lld keys of head dimension %d are too many", (long long)keys,
                            (int)d->head_dim),
               false;
    /* A shard is one chunk or two, each rounded up at most once. */
    const int64_t queries = d->seqlen_q < b->ranks ? d->seqlen_q : d->seqlen_q / b->ranks + 2;
    const int64_t shard = ranks > 1 ? d->seqlen_kv : queries;
    grow(b, RANKS_Q, d->seqlen_q, queries, q);
    grow(b, RANKS_O, d->seqlen_q, queries, q);
    grow(b, RANKS_K, keys, shard, kv);
    grow(b, RANKS_V, keys, shard, kv);
    grow(b, RANKS_LSE, d->seqlen_q, queries, d->heads_q * (int64_t)sizeof(float));
    return true;
}

/* What the model says of a way in microseconds; 0: it is not one for the problem, the ranks or the device. */
static double predict(const ranks_bench *b, const ptxpack_attention_desc *d, ptxpack_shards shards, int way)
{
    const ptxpack_attention_parallel_desc desc = {.size = sizeof desc,
                                                  .shards = shards,
                                                  .attention = d,
                                                  .way = (ptxpack_parallel_way)way};
    char                                  line[PLAN_LINE];
    parallel_whole                        whole;
    parallel_time                         time;
    return parallel_resolve(&desc, b->ranks, &whole, line) == PTXPACK_OK &&
                   parallel_slowest(b->rank[0].gpu.handle, &whole, desc.way, b->settings->link, &time) ==
                       PTXPACK_OK
               ? time.all
               : 0;
}

/* One GPU, then for each kind of shards all ways. */
static bool add_prefill(ranks_bench *b, int32_t head_dim, int32_t rows, bool causal)
{
    ptxpack_attention_desc d = describe(b, head_dim, rows, rows);
    if (causal)
        d.mask = PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT;
    add(b, RANKS_ALONE, &d);
    for (int shards = PTXPACK_SHARDS_CONTIGUOUS; shards <= PTXPACK_SHARDS_ZIGZAG; shards++)
        for (int way = PTXPACK_PARALLEL_GATHER; way < WAYS; way++)
            if (predict(b, &d, (ptxpack_shards)shards, way) > 0) {
                ranks_case *c = &b->cases[add(b, RANKS_PREFILL, &d)];
                c->shards = (ptxpack_shards)shards;
                c->way = (ptxpack_parallel_way)way;
            }
    return reserve(b, &d, 1);
}

static bool add_decode(ranks_bench *b, int32_t head_dim, int32_t keys)
{
    const ptxpack_attention_desc shared = describe(b, head_dim, 1, keys / b->ranks);
    const ptxpack_attention_desc whole = describe(b, head_dim, 1, keys / b->ranks * b->ranks);
    if (keys < b->ranks)
        return command_fail("bench", "--keys: %d are fewer than the %d ranks", (int)keys, (int)b->ranks), false;
    add(b, RANKS_ALONE, &whole);
    add(b, RANKS_DECODE, &shared);
    return reserve(b, &shared, b->ranks);
}

enum { OF_PREFILL = 9, OF_DECODE = 2 }; /* most cases of a row, or of two rows that share their first case */

static bool add_cases(ranks_bench *b)
{
    const bench_settings *s = b->settings;
    const int             dims = s->head_dims.count, masks = (int)s->full + (int)s->causal;
    b->cases = (ranks_case *)
        calloc((size_t)(dims * (s->lengths.count * masks * OF_PREFILL + s->keys.count * OF_DECODE) + 1),
               sizeof *b->cases);
    if (b->cases == NULL)
        return command_fail("bench", "no memory"), false;
    for (int d = 0; d < dims; d++) {
        for (int causal = !s->full; causal <= (int)s->causal; causal++)
            for (int i = 0; i < s->lengths.count; i++)
                if (!add_prefill(b, s->head_dims.value[d], s->lengths.value[i], causal))
                    return false;
        for (int i = 0; i < s->keys.count; i++)
            if (!add_decode(b, s->head_dims.value[d], s->keys.value[i]))
                return false;
    }
    if (b->ranks > 1) {
        ranks_case *c = &b->cases[add(b, RANKS_COPY, &b->cases[0].desc)];
        c->copied = ranks_bytes(b, 1, RANKS_Q) < COPIED ? ranks_bytes(b, 1, RANKS_Q) : COPIED;
    }
    return true;
}

/* ---- the tables ---------------------------------------------------------------------------------------- */
/* Which way a plan takes. */
static bool choose(ranks_bench *b, const ranks_case *c, int *chosen)
{
    const ptxpack_attention_parallel_desc desc = {.size = sizeof desc,
                                                  .shards = c->shards,
                                                  .attention = &c->desc};
    const ptxpack                        *handle = b->rank[0].gpu.handle;
    char                                  line[PLAN_LINE];
    parallel_whole                        whole;
    ptxpack_status                        status = parallel_resolve(&desc, b->ranks, &whole, line);
    if (status == PTXPACK_OK)
        status = parallel_choose(handle, &whole, b->settings->link, b->gpus == b->ranks);
    *chosen = (int)whole.problem.way;
    return device_status(&b->rank[0].gpu, status);
}

/* The times of a way, measured and by the model; no time: it is not one for the problem. */
static void report_timed(report *r, int way, double ms, double model_ms)
{
    static const char *const names[WAYS][3] = {{NULL},
                                               {"gather_ms", "gather_model_ms", ".gather"},
                                               {"steps_ms", "steps_model_ms", ".steps"},
                                               {"heads_ms", "heads_model_ms", ".heads"},
                                               {"arrive_ms", "arrive_model_ms", ".arrive"}};
    if (ms > 0) {
        report_real(r, names[way][0], ms);
        report_real(r, names[way][1], model_ms);
        report_text(r, names[way][2], "%.4f (%.4f)", ms, model_ms);
    } else {
        report_text(r, names[way][2], "none");
    }
}

/* The cases of a kind of shards begin with `first`; *next is the one behind them. */
static bool report_prefill(report *r, ranks_bench *b, size_t alone, size_t first, size_t *next)
{
    const ranks_case *c = &b->cases[first];
    double            ms[WAYS] = {0};
    int               chosen, faster = PTXPACK_PARALLEL_GATHER;
    if (!choose(b, c, &chosen))
        return false;
    for (*next = first;
         *next < b->count && b->cases[*next].kind == RANKS_PREFILL && b->cases[*next].shards == c->shards;
         (*next)++) {
        const int way = (int)b->cases[*next].way;
        ms[way] = bench_rounds_ms(&b->timing, *next);
        faster = ms[way] < ms[faster] ? way : faster;
    }
    const double one = bench_rounds_ms(&b->timing, alone);
    report_open(r, NULL, '{');
    report_int(r, "head_dim", c->desc.head_dim);
    report_bool(r, "causal", c->desc.mask != PTXPACK_MASK_NONE);
    report_text(r, ".mask", "%s", c->desc.mask != PTXPACK_MASK_NONE ? "causal" : "full");
    report_int(r, "seqlen", c->desc.seqlen_q);
    report_text(r, "shards", "%s", shard_names[c->shards]);
    report_real(r, "one_ms", one);
    report_real(r, "ms", ms[chosen]);
    report_real(r, "of_linear", one / ms[chosen] / b->gpus);
    report_text(r, "chosen", "%s", sharded_ways[chosen]);
    report_text(r, "faster", "%s", sharded_ways[faster]);
    for (int way = PTXPACK_PARALLEL_GATHER; way < WAYS; way++)
        report_timed(r, way, ms[way], 1e-3 * predict(b, &c->desc, c->shards, way));
    report_line(
        r,
        "| {head_dim} | {mask} | {seqlen} | {shards} | {one_ms:.4f} | {ms:.4f} | {of_linear:.2f} | {chosen} | "
        "{faster} | {gather} | {steps} | {heads} | {arrive} |");
    report_close(r);
    return true;
}

static void report_decode(report *r, ranks_bench *b, size_t alone)
{
    const ptxpack_attention_desc *d = &b->cases[alone].desc;
    const double one = bench_rounds_ms(&b->timing, alone), all = bench_rounds_ms(&b->timing, alone + 1);
    const double bytes = 4.0 * d->seqlen_kv * d->heads_kv * d->head_dim;
    report_open(r, NULL, '{');
    report_int(r, "head_dim", d->head_dim);
    report_int(r, "keys", d->seqlen_kv);
    report_real(r, "one_us", 1e3 * one);
    report_real(r, "us", 1e3 * all);
    report_real(r, "of_linear", one / all / b->gpus);
    report_real(r, "one_gb_per_s", 1e-6 * bytes / one);
    report_real(r, "gb_per_s", 1e-6 * bytes / all);
    report_line(r, "| {head_dim} | {keys} | {one_us:.1f} ({one_gb_per_s:.0f}) | {us:.1f} ({gb_per_s:.0f}) | "
                   "{of_linear:.2f} |");
    report_close(r);
}

static void report_head(report *r, const ranks_bench *b)
{
    const bench_settings *s = b->settings;
    report_text(r, "dtype", "%s", ptxpack_dtype_name(s->dtype));
    report_int(r, "ranks", b->ranks);
    report_int(r, "gpus", b->gpus);
    report_int(r, "heads_q", s->heads.value[0]);
    report_int(r, "heads_kv", s->heads.value[1]);
    report_int(r, "rounds", s->rounds);
    report_int(r, "seed", s->seed);
    report_line(r,
                "{dtype}, {ranks rank} on {gpus GPU}, {heads_q} query heads on {heads_kv}, median of {rounds} "
                "rounds, seed {seed}");
    if (b->gpus < b->ranks)
        report_line(r, "ranks share GPUs: the model, which gives each rank its own, does not apply");
}

static void report_link(report *r, ranks_bench *b)
{
    if (b->ranks == 1)
        return;
    const double bytes = (double)b->cases[b->count - 1].copied;
    report_real(r, "link_bytes", bytes);
    report_real(r, "link_gb_per_s", 1e-6 * bytes / bench_rounds_ms(&b->timing, b->count - 1));
    report_text(r, ".within", "%s", b->gpus < b->ranks ? " (within a GPU where ranks share it)" : "");
    report_line(
        r, "link: each rank receives {link_gb_per_s:.1f} GB/s while all do, {link_bytes:.0f} bytes{within}");
}

static bool report_rows(report *r, ranks_bench *b)
{
    report_line(
        r, "\n| d | mask | s | shards | one GPU, ms | ms | of N x one | chosen | faster | gather (model) | "
           "steps (model) | heads (model) | arrive (model) "
           "|\n|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    report_open(r, "prefill", '[');
    for (size_t i = 0, next; i + 1 < b->count; i = next) {
        const size_t alone = i;
        next = i + 1;
        while (b->cases[alone].kind == RANKS_ALONE && next < b->count && b->cases[next].kind == RANKS_PREFILL)
            if (!report_prefill(r, b, alone, next, &next))
                return false;
    }
    report_close(r);
    report_line(r, "\n| d | keys | one GPU, us (GB/s) | us (GB/s) | of N x one |\n|---|---|---|---|---|");
    report_open(r, "decode", '[');
    for (size_t i = 0; i < b->count; i++)
        if (b->cases[i].kind == RANKS_DECODE)
            report_decode(r, b, i - 1);
    report_close(r);
    return true;
}

static int print_tables(ranks_bench *b)
{
    report r = {.items = NULL};
    report_head(&r, b);
    report_link(&r, b);
    if (!report_rows(&r, b)) {
        report_free(&r);
        return command_fail("bench", "%s", b->rank[0].gpu.line);
    }
    if (b->settings->json)
        json_open(NULL, '{');
    report_device(&b->rank[0].gpu, b->settings->json);
    int status = report_print(&r, "bench", b->settings->json);
    if (b->settings->json)
        json_close();
    return status;
}

int parallel_bench_run(ranks_bench *b)
{
    if (!ranks_open(b))
        return command_fail("bench", "%s", b->rank[0].gpu.line);
    if (!add_cases(b))
        return COMMAND_USAGE;
    return ranks_run(b) ? print_tables(b) : command_fail("bench", "%s", b->rank[0].gpu.line);
}

int bench_parallel(const bench_settings *settings)
{
    int status = COMMAND_USAGE;
    if (!parallel_settings_known(settings))
        return status;
    ranks_bench *b = (ranks_bench *)calloc(1, sizeof *b);
    if (b == NULL)
        return command_fail("bench", "no memory");
    b->settings = settings;
    b->rest_us = REST_US;
    if (bench_open_either(&b->rank[0].gpu, NULL, settings->lengths_given)) {
        b->opened = 1;
        status = parallel_bench_run(b);
        ranks_close(b);
    } else {
        status = command_fail("bench", "%s", b->rank[0].gpu.line);
    }
    free(b);
    return status;
}
