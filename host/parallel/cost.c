/* cost.c - a model of the time that a rank takes: its kernels as the library's model of attention has them, copies at the
 * speed of a link, and each part of what is merged read once. */
#include <stdlib.h>

#include "host/attention/inspect.h"
#include "arrive.h"
#include "heads.h"

/* COPY_US is to begin the copies of a step, and the events before and after them: measured on two H200.  PIECE_US is what each
 * copy of rows that are apart takes beside its bytes: assumed.  For it, and for what copy engines lose with short rows,
 * the model of heads must be better by HEADS_MARGIN.  START_US is until all ranks are ready, of way `arrive`, which must be better
 * by ARRIVE_MARGIN: on two H200 its one kernel gains 5 and 6 % with 8k and 32k keys, where the model says 10 and 1 %, and loses 2 %
 * with 128k, where the model says that it gains 0.3 %. */
enum { LINK_GBPS = 370, COPY_US = 45, MERGE_US = 4, PIECE_US = 4, START_US = 10 };
static const double HEADS_MARGIN = 0.9, ARRIVE_MARGIN = 0.99;

/* The time of a kernel in microseconds. */
static ptxpack_status time_kernel(const ptxpack *handle, const ptxpack_attention_desc *desc, double *us)
{
    char                   line[PLAN_LINE];
    plan_room              geometry;
    plan_problem           problem;
    const ptxpack_variant *row;
    ptxpack_status         status = plan_resolve(&attention_op, handle, NULL, desc, &geometry, &problem, line);
    if (status != PTXPACK_OK)
        return ptxpack_fail(handle, status, "%s", line);
    status = plan_choose(&problem, &row);
    if (status == PTXPACK_OK)
        *us = plan_method_of(row)->cost(&problem, row);
    return status;
}

static double memory_gbps(const ptxpack *handle)
{
    const ptxpack_device_caps caps = plan_device_caps(handle);
    const attention_machine   machine = attention_machine_of(&caps, ptxpack_device(handle)->sm_count);
    return machine.bytes * machine.ghz * (double)machine.sms;
}

static double merge_us(const ptxpack *handle, const parallel_whole *w, const parallel_schedule *s)
{
    const double gbps = memory_gbps(handle);
    double       us = 0;
    for (int32_t c = 0; c < s->chunks; c++) {
        const int32_t parts = parallel_parts_of(s, c);
        if (parts > 1)
            us += MERGE_US +
                  1e-3 * (parts + 1) * (double)w->batch * (double)(s->chunk[c].count * w->o_row) / gbps;
    }
    return us;
}

/* Rows come from the other ranks, one kernel follows, and results come.  Every row is also made compact, or taken apart, as with
 * NCCL. */
static ptxpack_status model_heads(const ptxpack *handle, const parallel_whole *w, double gbps, int32_t rank,
                                  parallel_time *out)
{
    const ptxpack_attention_desc d = heads_desc(w);
    const double                 ranks = w->problem.ranks;
    parallel_rows                chunk[2] = {{0, 0}, {0, 0}};
    const int32_t                chunks = parallel_chunks(&w->problem, rank, chunk);
    const double                 own = (double)(w->batch * (chunk[0].count + chunk[1].count)),
                 all = (double)(w->batch * w->problem.rows);
    const double rows = (double)(w->q_row + w->k_row + w->v_row),
                 results = (double)w->o_row + 4.0 * w->desc.heads_q;
    const double   received = ((all - own) * rows + (ranks - 1) * own * results) / ranks;
    ptxpack_status status = time_kernel(handle, &d, &out->compute);
    if (w->problem.ranks > 1)
        out->copies = 2 * COPY_US + PIECE_US * HEADS_TENSORS * chunks * ranks + 1e-3 * received / gbps;
    out->copies += 2e-3 * own * (rows + results) / memory_gbps(handle);
    out->all = out->copies + out->compute;
    return status;
}

ptxpack_status parallel_model(const ptxpack *handle, const parallel_whole *w, double link_gbps, int32_t rank,
                              parallel_time *out)
{
    const double   gbps = link_gbps > 0 ? link_gbps : LINK_GBPS;
    ptxpack_status status = PTXPACK_OK;
    *out = (parallel_time){0, 0, 0, 0};
    if (w->problem.way == PTXPACK_PARALLEL_HEADS)
        return model_heads(handle, w, gbps, rank, out);
    parallel_schedule *s = parallel_schedule_make(&w->problem, rank);
    if (s == NULL)
        return ptxpack_fail(handle, PTXPACK_E_MEMORY, "out of memory for a schedule of %d ranks",
                            (int)w->problem.ranks);
    const bool arrives = w->problem.way == PTXPACK_PARALLEL_ARRIVE;
    if (arrives) { /* whether there is a kernel; what it takes the parts say, whose rows see different keys */
        const ptxpack_attention_desc d = arrive_desc(w, rank);
        double                       us;
        status = time_kernel(handle, &d, &us);
    }
    out->merge = merge_us(handle, w, s);
    for (int32_t step = 0, copy = 0, part = 0; step <= s->steps; step++) {
        double bytes = 0, us = 0;
        for (; copy < s->copy_count && s->copies[copy].step == step; copy++)
            if (s->copies[copy].rank != rank)
                bytes += (double)w->batch * (double)(s->copies[copy].count * (w->k_row + w->v_row));
        out->copies += bytes > 0 ? COPY_US + 1e-3 * bytes / gbps : 0;
        for (; status == PTXPACK_OK && part < s->part_count && s->parts[part].step == step; part++) {
            const ptxpack_attention_desc d = parallel_part_desc(w, s, part);
            status = time_kernel(handle, &d, &us);
            if (out->all < out->copies && step > 0 && !arrives)
                out->all = out->copies;
            out->all += us;
            out->compute += us;
        }
    }
    if (arrives)
        out->all = START_US + (out->all > out->copies ? out->all : out->copies);
    out->all += out->merge;
    free(s);
    return status;
}

/* Of many ranks the model looks at some: 0, this number, twice this number, .. */
static int32_t looked_at(const parallel_whole *w) { return (w->problem.ranks + 15) / 16; }

/* Of the ranks 0, every, 2 every, .. */
static ptxpack_status slowest_of(const ptxpack *handle, const parallel_whole *w, ptxpack_parallel_way way,
                                 double link_gbps, int32_t every, parallel_time *out)
{
    parallel_whole of_way = *w;
    ptxpack_status status = PTXPACK_OK;
    of_way.problem.way = way;
    *out = (parallel_time){0, 0, 0, 0};
    for (int32_t rank = 0; rank < w->problem.ranks && status == PTXPACK_OK; rank += every) {
        parallel_time time;
        status = parallel_model(handle, &of_way, link_gbps, rank, &time);
        if (status == PTXPACK_OK && time.all > out->all)
            *out = time;
    }
    return status;
}

ptxpack_status parallel_slowest(const ptxpack *handle, const parallel_whole *w, ptxpack_parallel_way way,
                                double link_gbps, parallel_time *out)
{
    return slowest_of(handle, w, way, link_gbps, 1, out);
}

/* Takes `way`, if the problem can go it and a kernel can, where that is expected to take less than `margin` of *us. */
static void prefer(const ptxpack *handle, parallel_whole *w, ptxpack_parallel_way way, double link_gbps,
                   double margin, double *us)
{
    char          line[PLAN_LINE];
    parallel_time time;
    if (parallel_check_way(w, way, line) == PTXPACK_OK &&
        slowest_of(handle, w, way, link_gbps, looked_at(w), &time) == PTXPACK_OK && time.all < margin * *us) {
        w->problem.way = way;
        *us = time.all;
    }
}

ptxpack_status parallel_choose(const ptxpack *handle, parallel_whole *w, double link_gbps, bool early)
{
    const struct ptxpack_driver *driver = ptxpack_driver_table(handle);
    const int32_t                every = looked_at(w);
    parallel_time                gather, steps;
    ptxpack_status               status = PTXPACK_OK;
    if (w->problem.way != PTXPACK_PARALLEL_BEST)
        return PTXPACK_OK;
    status = slowest_of(handle, w, PTXPACK_PARALLEL_GATHER, link_gbps, every, &gather);
    steps = gather;
    if (status == PTXPACK_OK && !parallel_has_places(w))
        status = slowest_of(handle, w, PTXPACK_PARALLEL_STEPS, link_gbps, every, &steps);
    if (status != PTXPACK_OK)
        return status;
    double us = steps.all < gather.all ? steps.all : gather.all;
    w->problem.way = steps.all < gather.all ? PTXPACK_PARALLEL_STEPS : PTXPACK_PARALLEL_GATHER;
    if (early && w->problem.ranks > 1)
        prefer(handle, w, PTXPACK_PARALLEL_ARRIVE, link_gbps, ARRIVE_MARGIN, &us);
    if (driver == NULL || driver->cuMemcpy3DPeerAsync != NULL)
        prefer(handle, w, PTXPACK_PARALLEL_HEADS, link_gbps, HEADS_MARGIN, &us);
    return PTXPACK_OK;
}
