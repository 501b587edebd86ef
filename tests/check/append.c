/* append.c - appends to caches of keys and values against double precision: every kind of rows, rotary embedding, rows
 * without a place; a second round replays the captured launch with other lengths. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "append_image.h"

/* ---- cases -------------------------------------------------------------------------------------------- */
enum {
    MAP = PTXPACK_ROW_MAP,
    PAD = PTXPACK_LEFT_PAD,
    NEW = PTXPACK_LENGTHS_NEW,
    PAIRS = PTXPACK_ROPE_PAIRS,
    AT_START = PTXPACK_ROPE_Q_AT_START
};
static const append_case cases[] = {
    /* batch, new, kv, heads, q, dim, rotary, pages, packed, options, place of q, heads first, one tensor, quick, kv_dtype */
    {3, 4, 40, 2, 0, 128, 0, 0, false, 0, Q_APART, false, false, true, (ptxpack_dtype)0},
    {7, 5, 40, 2, 4, 64, 64, 0, false, NEW | PAD, Q_APART, false, false, true, (ptxpack_dtype)0},
    {7, 5, 40, 2, 3, 80, 32, 0, false, MAP | NEW | PAIRS, Q_IN_PLACE, true, true, true, (ptxpack_dtype)0},
    {6, 9, 50, 2, 8, 128, 64, 16, true, 0, Q_IN_QKV, false, true, true, (ptxpack_dtype)0},
    {6, 9, 50, 3, 2, 96, 96, 1, true, NEW | PAIRS | PAD, Q_APART, true, false, true, (ptxpack_dtype)0},
    {6, 9, 50, 1, 2, 48, 16, 4, false, AT_START | NEW, Q_APART, true, true, true, (ptxpack_dtype)0},
    {70, 1, 30, 1, 2, 64, 64, 8, true, PAD, Q_IN_PLACE, false, true, false, (ptxpack_dtype)0},
    {70, 1, 30, 2, 0, 64, 32, 1024, false, PAIRS, Q_APART, false, false, false, (ptxpack_dtype)0},
    {5, 7, 33, 2, 0, 8, 0, 2, true, NEW, Q_APART, false, true, false, (ptxpack_dtype)0},
    {4, 3, 20, 1, 1, 1024, 512, 0, true, MAP | AT_START | PAIRS, Q_IN_QKV, true, false, false,
     (ptxpack_dtype)0},
    {41, 5, 30, 1, 2, 16, 16, 0, false, 0, Q_APART, false, false, false,
     (ptxpack_dtype)0}, /* 4 * 256 + 1 units */
    {1, 300, 400, 1, 1, 16, 16, 64, true, 0, Q_APART, false, false, false, (ptxpack_dtype)0},
    {6, 9, 50, 2, 8, 128, 64, 16, true, 0, Q_IN_QKV, false, true, true, PTXPACK_E4M3},
    {7, 5, 40, 2, 3, 80, 32, 0, false, MAP | NEW | PAIRS | PTXPACK_DESCALES_HEAD, Q_IN_PLACE, true, true, true,
     PTXPACK_INT8},
    {6, 9, 50, 3, 2, 96, 96, 1, true, NEW | PAIRS | PAD | PTXPACK_DESCALES_TENSOR, Q_APART, true, false, true,
     PTXPACK_E4M3},
    {3, 4, 40, 2, 0, 128, 0, 0, false, 0, Q_APART, false, false, true, PTXPACK_INT8},
    {5, 7, 33, 2, 0, 16, 0, 2, true, NEW | PTXPACK_DESCALES_HEAD, Q_APART, false, true, true, PTXPACK_E4M3},
    {3, 4, 40, 2, 0, 128, 0, 0, false, 0, Q_APART, false, false, true, PTXPACK_Q8_0},
    {6, 9, 50, 2, 8, 128, 128, 16, true, 0, Q_IN_QKV, false, true, true, PTXPACK_Q8_0},
    {7, 5, 40, 2, 3, 96, 48, 0, false, MAP | NEW, Q_IN_PLACE, true, true, true, PTXPACK_Q8_0},
    {7, 5, 40, 3, 3, 64, 48, 8, false, NEW | PAIRS | PAD, Q_APART, true, false, true, PTXPACK_Q8_0},
    {5, 7, 33, 3, 2, 32, 16, 2, true, NEW | AT_START, Q_APART, false, false, true, PTXPACK_Q8_0},
    {4, 3, 20, 1, 1, 1024, 512, 0, true, MAP | PAIRS, Q_IN_QKV, true, false, false, PTXPACK_Q8_0},
};
enum { CASES = sizeof cases / sizeof cases[0] };

static void name_case(const append_case *a, ptxpack_dtype dtype, const char *row, char name[200])
{
    char pages[24] = "";
    if (a->page_rows != 0)
        snprintf(pages, sizeof pages, " pages of %d", (int)a->page_rows);
    snprintf(name, 200, "append %s%s%s d%d r%d%s %d/%d %dx%dx%d%s%s%s%s%s%s%s%s %s", ptxpack_dtype_name(dtype),
             a->kv_dtype != 0 ? " to " : "", a->kv_dtype != 0 ? ptxpack_dtype_name(a->kv_dtype) : "",
             (int)a->dim, (int)a->rotary, (a->options & PAIRS) != 0 ? " pairs" : "", (int)a->heads_q,
             (int)a->heads_kv, (int)a->batch, (int)a->seqlen_new, (int)a->seqlen_kv, a->packed ? " packed" : "",
             pages, (a->options & NEW) != 0 ? " lengths" : "", (a->options & MAP) != 0 ? " row map" : "",
             (a->options & PAD) != 0 ? " left pad" : "", (a->options & AT_START) != 0 ? " q at start" : "",
             a->q_place == Q_IN_PLACE ? " in place"
             : a->q_place == Q_IN_QKV ? " qkv"
                                      : "",
             a->heads_first ? " heads first" : "", row);
}

/* ---- a launch ----------------------------------------------------------------------------------------- */
static bool enqueue(check *c, append_image *image, const ptxpack_attention_append_plan *plan)
{
    const ptxpack_attention_append_buffers b = {.size = sizeof b,
                                                .k_new = append_image_at(image, APPEND_K_NEW),
                                                .v_new = append_image_at(image, APPEND_V_NEW),
                                                .k = append_image_at(image, APPEND_K),
                                                .v = append_image_at(image, APPEND_V),
                                                .q = append_image_at(image, APPEND_Q),
                                                .q_out = append_image_at(image, APPEND_Q_OUT),
                                                .cos = check_region_at(&image->region[REGION_COS]),
                                                .sin = check_region_at(&image->region[REGION_SIN]),
                                                .lengths_kv = append_image_array(image, APPEND_LENGTHS_KV),
                                                .lengths_new = append_image_array(image, APPEND_LENGTHS_NEW),
                                                .starts_new = append_image_array(image, APPEND_STARTS_NEW),
                                                .row_map = append_image_array(image, APPEND_ROW_MAP),
                                                .left_pad = append_image_array(image, APPEND_LEFT_PAD),
                                                .page_table = append_image_array(image, APPEND_PAGE_TABLE),
                                                .k_descale = check_region_at(&image->region[REGION_K_DESCALE]),
                                                .v_descale = check_region_at(&image->region[REGION_V_DESCALE])};
    return device_status(&c->gpu, ptxpack_attention_append(plan, &b, c->gpu.stream));
}

/* Captures the launch; without graphs *graph stays NULL. */
static bool capture(check *c, append_image *image, const ptxpack_attention_append_plan *plan,
                    struct CUgraphExec_st **out)
{
    const struct ptxpack_driver *d = c->gpu.driver;
    struct CUgraph_st           *graph = NULL;
    if (d->cuStreamBeginCapture == NULL || d->cuStreamEndCapture == NULL || d->cuGraphLaunch == NULL ||
        d->cuGraphInstantiateWithFlags == NULL || d->cuGraphDestroy == NULL || d->cuGraphExecDestroy == NULL)
        return true;
    bool ok = device_try(&c->gpu, d->cuStreamBeginCapture(c->gpu.stream, PTXPACK_CU_CAPTURE_THREAD_LOCAL),
                         "cuStreamBeginCapture") &&
              enqueue(c, image, plan);
    ptxpack_cu_result ended = d->cuStreamEndCapture(c->gpu.stream, &graph);
    ok = ok && device_try(&c->gpu, ended, "cuStreamEndCapture") &&
         device_try(&c->gpu, d->cuGraphInstantiateWithFlags(out, graph, 0), "cuGraphInstantiate");
    if (graph != NULL)
        d->cuGraphDestroy(graph);
    return ok;
}

static bool upload(check *c, append_image *image)
{
    bool ok = true;
    for (int i = 0; i < REGIONS && ok; i++)
        ok = check_region_upload(c, &image->region[i]);
    return ok;
}

static bool download(check *c, append_image *image)
{
    bool ok = true;
    for (int i = 0; i < REGIONS && ok; i++)
        ok = check_region_download(c, &image->region[i]);
    return ok;
}

/* One round: new lengths and rows, a launch or a replay, and what is wrong with it (NULL: nothing). */
static bool run_round(check *c, append_image *image, const ptxpack_attention_append_plan *plan,
                      struct CUgraphExec_st *graph, random_state *random, const char **what)
{
    if (!append_image_draw(image, random)) {
        *what = image->line;
        return true;
    }
    bool ok = upload(c, image) &&
              (graph != NULL
                   ? device_try(&c->gpu, c->gpu.driver->cuGraphLaunch(graph, c->gpu.stream), "cuGraphLaunch")
                   : enqueue(c, image, plan)) &&
              download(c, image);
    if (ok)
        *what = append_image_judge(image);
    return ok;
}

static void run_case(check *c, const append_case *a, const ptxpack_variant *row, ptxpack_dtype dtype,
                     const char *name, random_state random)
{
    append_image                   image;
    ptxpack_attention_append_plan *plan = NULL;
    struct CUgraphExec_st         *graph = NULL;
    const char                    *what = NULL;
    if (!append_image_make(&image, a, dtype)) {
        check_broken(c, name, image.line);
    } else if (ptxpack_attention_append_plan_row(c->gpu.handle, &image.desc, row, &plan) != PTXPACK_OK) {
        check_broken(c, name, ptxpack_detail(c->gpu.handle));
    } else {
        bool ok = run_round(c, &image, plan, NULL, &random, &what);
        if (ok && what == NULL)
            ok = capture(c, &image, plan, &graph) && run_round(c, &image, plan, graph, &random, &what);
        if (!ok)
            check_broken(c, name, c->gpu.line);
        else
            check_record(c, name, what);
    }
    if (graph != NULL)
        c->gpu.driver->cuGraphExecDestroy(graph);
    append_image_free(c, &image);
    ptxpack_attention_append_plan_free(plan);
}

void check_append(check *c)
{
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    for (size_t i = 0; i < count; i++)
        for (int k = 0; k < 2 * CASES && !atomic_load(&c->broken); k++) {
            const append_case *a = &cases[k / 2];
            ptxpack_dtype      dtype = k % 2 == 0 ? PTXPACK_F16 : PTXPACK_BF16;
            char               name[200];
            name_case(a, dtype, rows[i].id, name);
            if (check_row_runs(c, &rows[i], "attention_append", dtype) &&
                attention_row_kv(&rows[i]) == (a->kv_dtype == PTXPACK_Q8_0 ? ATTENTION_KV_BLOCKS
                                               : a->kv_dtype != 0          ? ATTENTION_KV_BYTES
                                                                           : ATTENTION_KV_HALVES) &&
                check_case_runs(c, name, a->quick))
                run_case(c, a, &rows[i], dtype, name, random_start(c->seed + (uint64_t)k));
        }
}
