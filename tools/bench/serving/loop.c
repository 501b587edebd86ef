/* loop.c - a loop of decoding steps on one plan, as a case: one captured graph of a step is launched again and again.
 *
 * A step makes every sequence one row longer, appends the row with rotary to its pages, and attends to all rows.  The
 * lengths are only on the device (ptx/probe/advance.ptx): nothing of the host changes from step to step. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "append.h"
#include "attend.h"
#include "serving.h"

typedef struct loop_state {
    attend_state           attend;
    append_state           append;
    bool                   grows;
    int32_t                steps;
    uint64_t               first_at; /* lengths before the first step */
    struct CUgraphExec_st *graph;    /* NULL: the driver has no graphs */
} loop_state;

typedef struct step_context {
    bench_run  *run;
    bench_case *c;
} step_context;

static bool enqueue_step(void *context, size_t index)
{
    step_context *step = (step_context *)context;
    bench_run    *run = step->run;
    bench_case   *c = step->c;
    loop_state   *s = (loop_state *)c->state;
    (void)index;
    return (!s->grows || bench_memory_advance(&run->memory, s->attend.lengths_kv_at, s->first_at, s->steps,
                                              s->attend.desc.batch)) &&
           append_launch(run, &s->append, bench_at(run, c, ARENA_Q, 0), bench_at(run, c, ARENA_K, 0),
                         bench_at(run, c, ARENA_V, 0), s->attend.lengths_kv_at) &&
           attend_launch(run, c, &s->attend, 0);
}

static bool make_case(bench_run *run, bench_case *c)
{
    loop_state  *s = (loop_state *)c->state;
    step_context step = {run, c};
    return attend_make(run, c, &s->attend) && append_make(run, &s->append) &&
           bench_upload(run, &s->first_at, s->attend.keys, (size_t)s->attend.desc.batch) &&
           bench_capture(run->gpu, enqueue_step, &step, 0, &s->graph);
}

/* All steps. */
static bool launch_case(bench_run *run, bench_case *c, int set)
{
    loop_state  *s = (loop_state *)c->state;
    step_context step = {run, c};
    bool         ok = true;
    (void)set;
    for (int32_t i = 0; i < s->steps && ok; i++)
        ok = s->graph != NULL
                 ? device_try(run->gpu, run->gpu->driver->cuGraphLaunch(s->graph, run->gpu->stream),
                              "cuGraphLaunch")
                 : enqueue_step(&step, 0);
    return ok;
}

/* After all steps: the lengths, the row that the last step appended, and what it attended to. */
static bool check_case(bench_run *run, bench_case *c)
{
    loop_state   *s = (loop_state *)c->state;
    const int32_t batch = s->attend.desc.batch, last = batch - 1;
    int32_t      *lengths = (int32_t *)calloc((size_t)batch, sizeof *lengths);
    bool          ok = (lengths != NULL || bench_wrong(run, c, "no memory")) && launch_case(run, c, 0) &&
              device_download(run->gpu, lengths, s->attend.lengths_kv_at, (size_t)batch * sizeof *lengths);
    for (int32_t i = 0; i < batch && ok; i++) {
        const int32_t want = s->attend.keys[i] + (s->grows ? s->steps : 0);
        if (lengths[i] != want)
            ok = bench_wrong(run, c, "wrong: sequence %d has %d rows after the loop, not %d", (int)i,
                             (int)lengths[i], (int)want);
        s->attend.keys[i] = s->append.lengths[i] = want;
    }
    free(lengths);
    return ok && append_compare(run, c, &s->append, 0, last, 0, s->attend.desc.heads_kv - 1) &&
           attend_compare(run, c, &s->attend, 0, 0, 0, 0) &&
           attend_compare(run, c, &s->attend, 0, last, 0, s->attend.desc.heads_q - 1);
}

static void free_case(bench_run *run, bench_case *c)
{
    loop_state *s = (loop_state *)c->state;
    bench_graph_free(run->gpu, s->graph);
    device_free(run->gpu, s->first_at);
    append_free(run, &s->append);
    attend_free(run, &s->attend);
}

/* The first lengths; those of a loop that does not grow are what the other one has on average. */
static bool describe(bench_run *run, bench_case *c, const serving_sizes *sizes, int32_t page_rows)
{
    loop_state    *s = (loop_state *)c->state;
    const int32_t  batch = sizes->loop_batch;
    int32_t       *lengths = (int32_t *)malloc(2 * (size_t)batch * sizeof *lengths);
    attend_problem problem = {.batch = batch,
                              .heads_q = sizes->heads_q,
                              .heads_kv = sizes->heads_kv,
                              .head_dim = run->head_dim,
                              .dtype = run->settings->dtype,
                              .queries = lengths,
                              .keys = lengths + batch,
                              .store = STORE_PAGES,
                              .page_rows = page_rows,
                              .room = sizes->loop_keys + sizes->loop_steps};
    for (int32_t i = 0; i < batch && lengths != NULL; i++) {
        lengths[i] = 1;
        lengths[batch + i] = sizes->loop_keys + (s->grows ? 0 : (sizes->loop_steps + 1) / 2);
    }
    bool ok = lengths != NULL && attend_describe(run, c, &s->attend, &problem, false) &&
              append_describe(&s->append, &s->attend.desc, 1, s->attend.table);
    free(lengths);
    return ok || bench_wrong(run, c, "no memory");
}

int bench_add_loop(bench_run *run, const serving_sizes *sizes, int32_t page_rows, bool grows)
{
    static const bench_kind loop = {make_case, launch_case, check_case, free_case};
    int                     index = bench_add(run, &loop, "loop", sizeof(loop_state));
    if (index < 0)
        return index;
    bench_case *c = &run->cases[index];
    loop_state *s = (loop_state *)c->state;
    s->grows = grows;
    s->steps = sizes->loop_steps;
    snprintf(c->name, sizeof c->name,
             grows ? "%d steps of %d sequences that grow from %d" : "%d steps of %d of length %d",
             (int)s->steps, (int)sizes->loop_batch, (int)(sizes->loop_keys + (grows ? 0 : (s->steps + 1) / 2)));
    if (!describe(run, c, sizes, page_rows))
        return -1;
    const size_t row = (size_t)sizes->heads_kv * (size_t)run->head_dim * sizeof(uint16_t);
    const size_t rows = 2 * (size_t)sizes->loop_batch * row; /* the new ones, which share the arena with q */
    if (c->bytes[ARENA_Q] < rows)
        c->bytes[ARENA_Q] = rows;
    if (grows) /* on average */
        c->work += (double)(s->steps + 1) * (double)sizes->loop_batch * (double)row;
    c->sets = 1;
    c->launches = s->steps;
    c->live = true;
    return index;
}
