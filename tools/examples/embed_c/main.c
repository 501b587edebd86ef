/* main.c - attention in a C program that knows nothing else of CUDA: open, plan, memory, launch, errors.
 *
 *   make PKG_CONFIG_PATH=PREFIX/lib/pkgconfig LDFLAGS=-Wl,-rpath,PREFIX/lib && ./attention
 *
 * Without a GPU: PTXPACK_DEVICE=emu ./attention. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <ptxpack/ptxpack.h>

enum { BATCH = 1, QUERIES = 100, KEYS = 120, HEADS = 4, HEADS_KV = 2, DIM = 64 };
enum { Q_COUNT = BATCH * QUERIES * HEADS * DIM, KV_COUNT = BATCH * KEYS * HEADS_KV * DIM };

static const ptxpack_attention_desc problem = {.size = sizeof problem, .dtype = PTXPACK_F16, .batch = BATCH,
                                               .seqlen_q = QUERIES, .seqlen_kv = KEYS, .heads_q = HEADS,
                                               .heads_kv = HEADS_KV, .head_dim = DIM,
                                               .mask = PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT};

/* What lives as long as the program does; threads may share all of it. */
struct app {
    ptxpack                     *pack;
    const struct ptxpack_driver *cuda;   /* the driver's functions: no link with libcuda, no cuda.h */
    ptxpack_attention_plan      *plan;
    struct CUstream_st          *stream; /* as would do a CUstream or cudaStream_t of your own */
};

struct tensors {
    uint16_t q[Q_COUNT], k[KV_COUNT], v[KV_COUNT], o[Q_COUNT];
};

/* Every call of the library returns a status, and leaves one line that names the culprit. */
static bool done(ptxpack_status status, const ptxpack *pack)
{
    if (status != PTXPACK_OK)
        fprintf(stderr, "%s: %s\n", ptxpack_status_name(status), ptxpack_detail(pack));
    return status == PTXPACK_OK;
}

static bool driver_done(const struct app *app, ptxpack_cu_result result, const char *call)
{
    char text[256];
    if (result != PTXPACK_CU_SUCCESS)
        fprintf(stderr, "%s: %s\n", call, ptxpack_driver_error(app->cuda, result, text, sizeof text));
    return result == PTXPACK_CU_SUCCESS;
}

/* Uses your context if one is current, otherwise the first device's own.  All slow calls are here. */
static bool start(struct app *app)
{
    if (!done(ptxpack_open(NULL, &app->pack), NULL))
        return false;
    app->cuda = ptxpack_driver_table(app->pack);
    return driver_done(app, app->cuda->cuCtxSetCurrent(ptxpack_context(app->pack)), "cuCtxSetCurrent") &&
           driver_done(app, app->cuda->cuStreamCreate(&app->stream, PTXPACK_CU_STREAM_NON_BLOCKING),
                       "cuStreamCreate") &&
           done(ptxpack_attention_plan_create(app->pack, &problem, &app->plan), app->pack);
}

static void stop(struct app *app)
{
    ptxpack_attention_plan_free(app->plan);
    if (app->stream != NULL)
        app->cuda->cuStreamDestroy(app->stream);
    ptxpack_close(app->pack);
}

/* Runs in one piece of device memory: q, k, v, o, and the workspace, which must be zero before its first
 * use. */
static bool run(const struct app *app, struct tensors *t, ptxpack_deviceptr memory)
{
    const struct ptxpack_driver *cuda = app->cuda;
    struct CUstream_st          *stream = app->stream;
    size_t                       q_bytes = sizeof t->q, kv_bytes = sizeof t->k;
    ptxpack_attention_buffers    at = {.size = sizeof at};
    at.q = memory;
    at.k = at.q + q_bytes;
    at.v = at.k + kv_bytes;
    at.o = at.v + kv_bytes;
    at.workspace = at.o + q_bytes;
    size_t work_bytes = ptxpack_attention_workspace(app->plan);
    return driver_done(app, cuda->cuMemcpyHtoDAsync(at.q, t->q, q_bytes, stream), "copying q") &&
           driver_done(app, cuda->cuMemcpyHtoDAsync(at.k, t->k, kv_bytes, stream), "copying k") &&
           driver_done(app, cuda->cuMemcpyHtoDAsync(at.v, t->v, kv_bytes, stream), "copying v") &&
           (work_bytes == 0 ||
            driver_done(app, cuda->cuMemsetD8Async(at.workspace, 0, work_bytes, stream), "the workspace")) &&
           done(ptxpack_attention_launch(app->plan, &at, stream), app->pack) &&
           driver_done(app, cuda->cuMemcpyDtoHAsync(t->o, at.o, q_bytes, stream), "copying o") &&
           driver_done(app, cuda->cuStreamSynchronize(stream), "running");
}

static bool allocate_and_run(const struct app *app, struct tensors *t)
{
    size_t bytes = 2 * sizeof t->q + 2 * sizeof t->k + ptxpack_attention_workspace(app->plan);
    ptxpack_deviceptr memory;
    if (!driver_done(app, app->cuda->cuMemAlloc(&memory, bytes), "cuMemAlloc"))
        return false;
    bool ok = run(app, t, memory);
    return driver_done(app, app->cuda->cuMemFree(memory), "cuMemFree") && ok;
}

/* Compares with the same computation on the CPU, in doubles. */
static bool verify(const struct app *app, const struct tensors *t)
{
    static double want[Q_COUNT];
    double        worst = 0;
    if (!done(ptxpack_attention_reference(&problem, t->q, t->k, t->v, NULL, want, NULL), NULL))
        return false;
    for (size_t i = 0; i < Q_COUNT; i++)
        worst = fmax(worst, fabs(want[i] - ptxpack_element(PTXPACK_F16, t->o, i)));
    printf("%s on %s: largest error %.1e\n",
           ptxpack_kernel_describe(ptxpack_attention_kernel(app->plan))->variant->id,
           ptxpack_device(app->pack)->name, worst);
    return worst < 2e-3;
}

static void fill(uint16_t *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        ptxpack_set_element(PTXPACK_F16, values, i, 2 * (float)rand() / (float)RAND_MAX - 1);
}

int main(void)
{
    static struct tensors t;
    struct app            app = {0};
    fill(t.q, Q_COUNT);
    fill(t.k, KV_COUNT);
    fill(t.v, KV_COUNT);
    bool ok = start(&app) && allocate_and_run(&app, &t) && verify(&app, &t);
    stop(&app);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
