/* run.c - runs cases of lengths.c: one plan, one workspace and one captured graph for all rounds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image.h"

struct lengths_run_state {
    ptxpack_attention_plan *plan;
    struct CUgraphExec_st  *graph;
    uint64_t                tensor[TENSOR_COUNT], lse, arrays[ARRAY_COUNT], workspace;
    uint64_t                slopes, documents; /* of a hook */
    uint64_t                descale[TENSOR_O];
};

bool lengths_runs_open(lengths_runs *runs)
{
    ptxpack_variants(&runs->count);
    runs->of_row = (lengths_run_state *)calloc(runs->count, sizeof *runs->of_row);
    return runs->of_row != NULL;
}

void lengths_runs_close(check *c, lengths_runs *runs)
{
    pthread_mutex_lock(&c->gpu_lock);
    for (size_t i = 0; i < runs->count; i++) {
        lengths_run_state *s = &runs->of_row[i];
        if (s->graph != NULL)
            c->gpu.driver->cuGraphExecDestroy(s->graph);
        for (int t = 0; t < TENSOR_COUNT; t++)
            device_free(&c->gpu, s->tensor[t]);
        for (int id = 0; id < ARRAY_COUNT; id++)
            device_free(&c->gpu, s->arrays[id]);
        for (int t = TENSOR_Q; t < TENSOR_O; t++)
            device_free(&c->gpu, s->descale[t]);
        device_free(&c->gpu, s->lse);
        device_free(&c->gpu, s->slopes);
        device_free(&c->gpu, s->documents);
        device_free(&c->gpu, s->workspace);
        ptxpack_attention_plan_free(s->plan);
    }
    pthread_mutex_unlock(&c->gpu_lock);
    free(runs->of_row);
}

/* ---- the first round: a plan and memory ---------------------------------------------------------------- */
static bool upload_aux(check *c, lengths_run_state *s)
{
    float   slopes[CHECK_SLOPES];
    int32_t documents[CHECK_DOCUMENTS];
    check_fill_aux(slopes, documents);
    return device_alloc(&c->gpu, &s->slopes, sizeof slopes) &&
           device_alloc(&c->gpu, &s->documents, sizeof documents) &&
           device_upload(&c->gpu, s->slopes, slopes, sizeof slopes) &&
           device_upload(&c->gpu, s->documents, documents, sizeof documents);
}

static bool allocate(check *c, const lengths_image *image, lengths_run_state *s)
{
    bool ok = device_alloc(&c->gpu, &s->lse, image->lse_bytes);
    for (int t = 0; t < TENSOR_COUNT && ok; t++)
        ok = device_alloc(&c->gpu, &s->tensor[t], image->bytes[t]);
    for (int id = 0; id < ARRAY_COUNT && ok; id++)
        if (image->arrays[id] != NULL)
            ok = device_alloc(&c->gpu, &s->arrays[id], image->geometry.array_bytes[id]);
    for (int t = TENSOR_Q; t < TENSOR_O && ok; t++)
        if (image->descale[t] != NULL)
            ok = device_alloc(&c->gpu, &s->descale[t], image->geometry.descale_bytes);
    ok = ok && (image->hook == NULL || upload_aux(c, s));
    /* NaN in the workspace, but for the counters */
    return ok && device_alloc(&c->gpu, &s->workspace, s->plan->head.workspace + 16) &&
           device_try(&c->gpu,
                      c->gpu.driver->cuMemsetD8Async(s->workspace, 0xff, s->plan->head.workspace + 16,
                                                     c->gpu.stream),
                      "cuMemsetD8Async") &&
           device_try(&c->gpu,
                      c->gpu.driver->cuMemsetD8Async(s->workspace, 0, s->plan->head.counters + 1,
                                                     c->gpu.stream),
                      "cuMemsetD8Async");
}

static bool enqueue(check *c, const lengths_image *image, const lengths_run_state *s)
{
    ptxpack_attention_append_buffers append;
    ptxpack_attention_buffers        b = {.size = sizeof b,
                                          .q = s->tensor[TENSOR_Q] + CHECK_GUARD,
                                          .k = s->tensor[TENSOR_K] + CHECK_GUARD,
                                          .v = image->geometry.values_in_keys ? 0 : s->tensor[TENSOR_V] + CHECK_GUARD,
                                          .o = s->tensor[TENSOR_O] + CHECK_GUARD,
                                          .lse = s->lse + CHECK_GUARD,
                                          .workspace = s->workspace,
                                          .k_descale = s->descale[TENSOR_K],
                                          .v_descale = s->descale[TENSOR_V],
                                          .starts_q = s->arrays[ARRAY_STARTS_Q],
                                          .starts_kv = s->arrays[ARRAY_STARTS_KV],
                                          .lengths_q = s->arrays[ARRAY_LENGTHS_Q],
                                          .lengths_kv = s->arrays[ARRAY_LENGTHS_KV],
                                          .row_map = s->arrays[ARRAY_ROW_MAP],
                                          .left_pad = s->arrays[ARRAY_LEFT_PAD],
                                          .page_table = s->arrays[ARRAY_PAGE_TABLE],
                                          .sinks = s->arrays[ARRAY_SINKS],
                                          .slopes = s->arrays[ARRAY_SLOPES],
                                          .bias = s->arrays[ARRAY_BIAS],
                                          .mask_bits = s->arrays[ARRAY_BITS],
                                          .block_count = s->arrays[ARRAY_BLOCK_COUNT],
                                          .full_count = s->arrays[ARRAY_FULL_COUNT],
                                          .block_list = s->arrays[ARRAY_BLOCK_LIST],
                                          .full_list = s->arrays[ARRAY_FULL_LIST],
                                          .aux = {s->slopes, s->documents + sizeof(int32_t) * CHECK_POSITIONS}};
    if (image->fresh.kind != NULL) {
        append = lengths_append_buffers(image, &b);
        b.append = &append;
        b.launch = PTXPACK_LAUNCH_OVERLAP | PTXPACK_LAUNCH_CONSTANT_KV; /* all but the new rows is there */
    }
    return device_status(&c->gpu, ptxpack_attention_launch(s->plan, &b, c->gpu.stream));
}

/* Captures the launch; without graphs s->graph stays NULL. */
static bool capture(check *c, const lengths_image *image, lengths_run_state *s)
{
    const struct ptxpack_driver *d = c->gpu.driver;
    struct CUgraph_st           *graph = NULL;
    if (d->cuStreamBeginCapture == NULL || d->cuStreamEndCapture == NULL || d->cuGraphLaunch == NULL ||
        d->cuGraphInstantiateWithFlags == NULL || d->cuGraphDestroy == NULL || d->cuGraphExecDestroy == NULL)
        return true;
    bool ok = device_try(&c->gpu, d->cuStreamBeginCapture(c->gpu.stream, PTXPACK_CU_CAPTURE_THREAD_LOCAL),
                         "cuStreamBeginCapture") &&
              enqueue(c, image, s);
    ptxpack_cu_result ended = d->cuStreamEndCapture(c->gpu.stream, &graph);
    ok = ok && device_try(&c->gpu, ended, "cuStreamEndCapture") &&
         device_try(&c->gpu, d->cuGraphInstantiateWithFlags(&s->graph, graph, 0), "cuGraphInstantiate");
    if (graph != NULL)
        d->cuGraphDestroy(graph);
    return ok;
}

/* ---- every round --------------------------------------------------------------------------------------- */
static bool upload(check *c, lengths_image *image, const lengths_run_state *s)
{
    bool ok = lengths_append_upload(c, image);
    for (int t = TENSOR_Q; t <= TENSOR_V && ok; t++)
        ok = device_upload(&c->gpu, s->tensor[t], image->host[t], image->bytes[t]);
    for (int id = 0; id < ARRAY_COUNT && ok; id++)
        if (image->arrays[id] != NULL)
            ok = device_upload(&c->gpu, s->arrays[id], image->arrays[id], image->geometry.array_bytes[id]);
    for (int t = TENSOR_Q; t < TENSOR_O && ok; t++)
        if (image->descale[t] != NULL)
            ok = device_upload(&c->gpu, s->descale[t], image->descale[t], image->geometry.descale_bytes);
    return ok;
}

/* One launch, or one replay, into poisoned outputs. */
static bool launch(check *c, const lengths_image *image, const lengths_run_state *s, bool replay, void *o,
                   void *lse)
{
    const struct ptxpack_driver *d = c->gpu.driver;
    return device_try(&c->gpu,
                      d->cuMemsetD8Async(s->tensor[TENSOR_O], 0xff, image->bytes[TENSOR_O], c->gpu.stream),
                      "cuMemsetD8Async") &&
           device_try(&c->gpu, d->cuMemsetD8Async(s->lse, 0xff, image->lse_bytes, c->gpu.stream),
                      "cuMemsetD8Async") &&
           (replay ? device_try(&c->gpu, d->cuGraphLaunch(s->graph, c->gpu.stream), "cuGraphLaunch")
                   : enqueue(c, image, s)) &&
           device_download(&c->gpu, o, s->tensor[TENSOR_O], image->bytes[TENSOR_O]) &&
           device_download(&c->gpu, lse, s->lse, image->lse_bytes);
}

/* Whether q, k and v are as an append must leave them. */
static bool compare(check *c, const lengths_image *image, const lengths_run_state *s, char *what, size_t cap)
{
    bool ok = true;
    for (int t = TENSOR_Q; t <= TENSOR_V && ok && image->fresh.kind != NULL; t++) {
        void *got = malloc(image->bytes[t]);
        ok = got != NULL && device_download(&c->gpu, got, s->tensor[t], image->bytes[t]);
        if (ok)
            lengths_append_compare(image, t, got, what, cap);
        free(got);
    }
    return ok;
}

/* False, with `what`, unless the counters are zero. */
static bool counters_are_zero(check *c, const lengths_run_state *s, char *what, size_t cap)
{
    size_t   bytes = (size_t)s->plan->head.counters;
    uint8_t *left = (uint8_t *)calloc(bytes + 1, 1);
    bool     ok = left != NULL && (bytes == 0 || device_download(&c->gpu, left, s->workspace, bytes));
    for (size_t i = 0; ok && i < bytes && what[0] == '\0'; i++)
        if (left[i] != 0)
            snprintf(what, cap, "the workspace's counters are not zero after the launches");
    free(left);
    return ok;
}

static bool run_twice(check *c, lengths_image *image, lengths_run_state *s, bool replay, char *what, size_t cap)
{
    void *o = malloc(image->bytes[TENSOR_O]), *lse = malloc(image->lse_bytes);
    bool  ok = o != NULL && lse != NULL;
    if (ok) {
        ok = upload(c, image, s) && launch(c, image, s, replay, o, lse) &&
             (image->fresh.kind == NULL || upload(c, image, s));
        if (ok && !replay && image->fresh.kind == NULL && !check_repeats(c, s->plan->head.workspace)) {
            memcpy(image->host[TENSOR_O], o, image->bytes[TENSOR_O]);
            memcpy(image->lse, lse, image->lse_bytes);
        } else {
            ok = ok && launch(c, image, s, replay, image->host[TENSOR_O], image->lse);
        }
        if (ok && (memcmp(o, image->host[TENSOR_O], image->bytes[TENSOR_O]) != 0 ||
                   memcmp(lse, image->lse, image->lse_bytes) != 0))
            snprintf(what, cap, "a second run gave other bits");
        ok = ok && compare(c, image, s, what, cap) && counters_are_zero(c, s, what, cap);
    } else {
        snprintf(c->gpu.line, sizeof c->gpu.line, "no memory");
    }
    free(o);
    free(lse);
    return ok;
}

bool lengths_run(check *c, lengths_image *image, lengths_runs *runs, size_t index, const ptxpack_variant *row,
                 char *what, size_t cap)
{
    lengths_run_state *s = &runs->of_row[index];
    bool               first = s->plan == NULL;
    what[0] = '\0';
    if (first && ptxpack_attention_plan_row(c->gpu.handle, &image->desc, row, &s->plan) != PTXPACK_OK) {
        snprintf(what, cap, "%s", ptxpack_detail(c->gpu.handle));
        return false;
    }
    pthread_mutex_lock(&c->gpu_lock);
    bool ok = (!first || allocate(c, image, s)) &&
              run_twice(c, image, s, !first && s->graph != NULL, what, cap) && (!first || capture(c, image, s));
    if (!ok)
        snprintf(what, cap, "%s", c->gpu.line);
    pthread_mutex_unlock(&c->gpu_lock);
    return ok;
}
