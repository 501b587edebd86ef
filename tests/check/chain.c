/* chain.c - launches that may begin before the one before them has ended (PTXPACK_LAUNCH_OVERLAP): products, appends,
 * attention and merges in a chain, each of which reads what the one before has written, and writes what it has read.  The
 * bits must be those of normal launches, one after another and in a captured graph.  On the emulated driver the judge
 * reports a kernel that does not wait. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "host/attention/inspect.h"
#include "host/gemm/inspect.h"
#include "tools/problem/random.h"

enum {
    ROWS = 160,
    FEW = 4 /* of them are a sequence, in rows of decode.ptx */,
    HEADS = 2,
    ROUNDS_BRIEF = 2,
    ROUNDS = 40
};
/* x W1 = y, the rows of q, k and v; k and v go to the cache; o_a = attention of q, o_b = attention of o_a (fp8: of
 * constant codes), o = both merged; x = o W2 + a row of y */
enum {
    X,
    W1,
    Y,
    W2,
    K,
    V,
    O_A,
    O_B,
    O,
    LSE_A,
    LSE_B,
    LSE,
    LENGTHS,
    CODES,
    WORK_A,
    WORK_B,
    WORK_1,
    WORK_2,
    BUFFERS
};

typedef struct chain {
    check                         *c;
    const ptxpack_variant         *attention, *gemm;
    ptxpack_dtype                  dtype;      /* of all but the q, k and v of fp8 */
    bool                           fp8, codes; /* codes: the k and v of 16-bit q, which are the codes, too */
    int32_t                        dim, heads, width; /* of a head, their number, of all heads */
    int32_t                        batch; /* sequences whose queries the ROWS are, and which share the cache */
    ptxpack_gemm_plan             *first, *second;
    ptxpack_attention_append_plan *append;
    ptxpack_attention_plan        *full, *causal;
    ptxpack_attention_merge_plan  *merge;
    uint64_t                       at[BUFFERS];
    size_t                         bytes[BUFFERS];
    uint16_t                      *input;      /* of X, W1, W2 and the codes, the most that one of them has */
    unsigned char                 *want, *got; /* X, then LSE */
} chain;

/* ---- plans and memory --------------------------------------------------------------------------------- */
static bool plan_products(chain *t)
{
    const ptxpack_gemm_desc first = {.size = sizeof first,
                                     .dtype = t->dtype,
                                     .m = ROWS,
                                     .n = 3 * t->width,
                                     .k = t->width};
    ptxpack_gemm_desc       second = first;
    second.n = t->width;
    second.has_bias = true;
    return device_status(&t->c->gpu, ptxpack_gemm_plan_row(t->c->gpu.handle, &first, t->gemm, &t->first)) &&
           device_status(&t->c->gpu, ptxpack_gemm_plan_row(t->c->gpu.handle, &second, t->gemm, &t->second));
}

static bool plan_attention(chain *t)
{
    const int64_t          queries = ROWS / t->batch, row = t->fp8 ? t->width : 3 * t->width;
    const ptxpack_strides  in = {queries * row, row, t->dim}, cache = {0, t->width, t->dim};
    ptxpack_attention_desc d = {.size = sizeof d,
                                .dtype = t->fp8 ? PTXPACK_E4M3 : t->dtype,
                                .kv_dtype = t->codes ? PTXPACK_E4M3 : (ptxpack_dtype)0,
                                .batch = t->batch,
                                .seqlen_q = (int32_t)queries,
                                .seqlen_kv = ROWS,
                                .heads_q = t->heads,
                                .heads_kv = t->heads,
                                .head_dim = t->dim,
                                .q = in,
                                .k = cache,
                                .v = cache};
    if (!device_status(&t->c->gpu, ptxpack_attention_plan_row(t->c->gpu.handle, &d, t->attention, &t->full)))
        return false;
    d.mask = PTXPACK_MASK_CAUSAL_TOP_LEFT;
    d.q.row = t->width;
    d.q.batch = queries * t->width;
    if (!t->fp8)
        d.options = PTXPACK_LENGTHS_KV;
    return device_status(&t->c->gpu,
                         ptxpack_attention_plan_row(t->c->gpu.handle, &d, t->attention, &t->causal));
}

static bool plan_rest(chain *t)
{
    const ptxpack_strides               new_rows = {0, 3 * t->width, t->dim};
    const ptxpack_attention_append_desc append = {.size = sizeof append,
                                                  .dtype = t->dtype,
                                                  .batch = 1,
                                                  .seqlen_new = ROWS,
                                                  .seqlen_kv = ROWS,
                                                  .heads_kv = t->heads,
                                                  .head_dim = t->dim,
                                                  .k_new = new_rows,
                                                  .v_new = new_rows};
    const ptxpack_attention_merge_desc  merge = {.size = sizeof merge,
                                                 .dtype = t->dtype,
                                                 .batch = t->batch,
                                                 .seqlen_q = ROWS / t->batch,
                                                 .heads_q = t->heads,
                                                 .head_dim = t->dim};
    ptxpack                            *handle = t->c->gpu.handle;
    return device_status(&t->c->gpu, ptxpack_attention_append_plan_create(handle, &append, &t->append)) &&
           device_status(&t->c->gpu, ptxpack_attention_merge_plan_create(handle, &merge, &t->merge));
}

static bool make_buffers(chain *t)
{
    const size_t row = (size_t)t->width * sizeof(uint16_t), rows = ROWS * row;
    const size_t lse = (size_t)ROWS * (size_t)t->heads * sizeof(float);
    const size_t bytes[BUFFERS] = {[X] = rows,
                                   [W1] = 3 * row * (size_t)t->width,
                                   [Y] = 3 * rows,
                                   [W2] = row * (size_t)t->width,
                                   [K] = rows,
                                   [V] = rows,
                                   [O_A] = rows,
                                   [O_B] = rows,
                                   [O] = rows,
                                   [LSE_A] = lse,
                                   [LSE_B] = lse,
                                   [LSE] = lse,
                                   [LENGTHS] = ROWS * sizeof(int32_t),
                                   [CODES] = rows,
                                   [WORK_A] = ptxpack_attention_workspace(t->full),
                                   [WORK_B] = ptxpack_attention_workspace(t->causal),
                                   [WORK_1] = ptxpack_gemm_workspace(t->first),
                                   [WORK_2] = ptxpack_gemm_workspace(t->second)};
    bool         ok = true;
    for (int i = 0; i < BUFFERS && ok; i++)
        ok = device_alloc_zeros(&t->c->gpu, &t->at[i], t->bytes[i] = bytes[i]);
    t->input = (uint16_t *)malloc(bytes[W1] > rows ? bytes[W1] : rows);
    t->want = (unsigned char *)malloc(rows + lse);
    t->got = (unsigned char *)malloc(rows + lse);
    return ok && t->input != NULL && t->want != NULL && t->got != NULL;
}

static bool fill(chain *t)
{
    random_state random = random_start(t->c->seed);
    int32_t      lengths[ROWS];
    for (int i = 0; i < ROWS; i++)
        lengths[i] = ROWS;
    bool ok = device_upload(&t->c->gpu, t->at[LENGTHS], lengths, sizeof lengths);
    for (int i = X; i <= CODES && ok; i++) {
        if (i != X && i != W1 && i != W2 && i != CODES)
            continue;
        random_normal(&random, i == CODES ? PTXPACK_E4M3 : t->dtype, t->input,
                      i == CODES ? t->bytes[i] : t->bytes[i] / sizeof(uint16_t));
        ok = device_upload(&t->c->gpu, t->at[i], t->input, t->bytes[i]);
    }
    return ok;
}

/* ---- launches ----------------------------------------------------------------------------------------- */
static bool product(chain *t, const ptxpack_gemm_plan *plan, int a, int b, int d, int workspace, uint32_t bits)
{
    const ptxpack_gemm_buffers buffers = {.size = sizeof buffers,
                                          .alpha = 0.0625f, /* keeps numbers near 1 */
                                          .a = t->at[a],
                                          .b = t->at[b],
                                          .d = t->at[d],
                                          .bias = t->at[Y],
                                          .workspace = t->at[workspace],
                                          .launch = bits};
    return device_status(&t->c->gpu, ptxpack_gemm_launch(plan, &buffers, t->c->gpu.stream));
}

static bool attend(chain *t, const ptxpack_attention_plan *plan, int q, int o, int lse, int workspace,
                   uint32_t bits)
{
    const ptxpack_attention_buffers buffers = {.size = sizeof buffers,
                                               .q = t->at[t->fp8 ? CODES : q],
                                               .k = t->at[t->fp8 || t->codes ? CODES : K],
                                               .v = t->at[t->fp8 || t->codes ? CODES : V],
                                               .o = t->at[o],
                                               .lse = t->at[lse],
                                               .workspace = t->at[workspace],
                                               .lengths_kv = t->at[LENGTHS],
                                               .launch = bits};
    return device_status(&t->c->gpu, ptxpack_attention_launch(plan, &buffers, t->c->gpu.stream));
}

static bool append(chain *t, uint32_t bits)
{
    const uint64_t                         width = (uint64_t)t->width * sizeof(uint16_t);
    const ptxpack_attention_append_buffers buffers = {.size = sizeof buffers,
                                                      .k_new = t->at[Y] + width,
                                                      .v_new = t->at[Y] + 2 * width,
                                                      .k = t->at[K],
                                                      .v = t->at[V],
                                                      .lengths_kv = t->at[LENGTHS],
                                                      .launch = bits};
    return device_status(&t->c->gpu, ptxpack_attention_append(t->append, &buffers, t->c->gpu.stream));
}

static bool merge(chain *t, uint32_t bits)
{
    const ptxpack_attention_merge_buffers buffers = {.size = sizeof buffers,
                                                     .o_a = t->at[O_A],
                                                     .lse_a = t->at[LSE_A],
                                                     .o_b = t->at[O_B],
                                                     .lse_b = t->at[LSE_B],
                                                     .o = t->at[O],
                                                     .lse = t->at[LSE],
                                                     .launch = bits};
    return device_status(&t->c->gpu, ptxpack_attention_merge(t->merge, &buffers, t->c->gpu.stream));
}

/* The products' B is constant. */
static bool enqueue(chain *t, uint32_t bits)
{
    const uint32_t others = bits & ~(uint32_t)PTXPACK_LAUNCH_CONSTANT_B;
    bool           ok = true;
    for (int i = 0; i < (t->c->brief ? ROUNDS_BRIEF : ROUNDS) && ok; i++)
        ok = product(t, t->first, X, W1, Y, WORK_1, bits) && append(t, others) &&
             attend(t, t->full, Y, O_A, LSE_A, WORK_A, others) &&
             attend(t, t->causal, O_A, O_B, LSE_B, WORK_B, others) && merge(t, others) &&
             product(t, t->second, O, W2, X, WORK_2, bits);
    return ok;
}

/* The same through a graph. */
static bool enqueue_graph(chain *t, uint32_t bits)
{
    device                      *gpu = &t->c->gpu;
    const struct ptxpack_driver *d = gpu->driver;
    struct CUgraph_st           *graph = NULL;
    struct CUgraphExec_st       *exec = NULL;
    if (!device_try(gpu, d->cuStreamBeginCapture(gpu->stream, PTXPACK_CU_CAPTURE_THREAD_LOCAL),
                    "cuStreamBeginCapture"))
        return false;
    bool              ok = enqueue(t, bits);
    ptxpack_cu_result ended = d->cuStreamEndCapture(gpu->stream, &graph);
    ok = ok && device_try(gpu, ended, "cuStreamEndCapture") &&
         device_try(gpu, d->cuGraphInstantiateWithFlags(&exec, graph, 0), "cuGraphInstantiateWithFlags") &&
         device_try(gpu, d->cuGraphLaunch(exec, gpu->stream), "cuGraphLaunch") && device_sync(gpu);
    if (exec != NULL)
        d->cuGraphExecDestroy(exec);
    if (graph != NULL)
        d->cuGraphDestroy(graph);
    return ok;
}

static bool results(chain *t, unsigned char *out)
{
    return device_download(&t->c->gpu, out, t->at[X], t->bytes[X]) &&
           device_download(&t->c->gpu, out + t->bytes[X], t->at[LSE], t->bytes[LSE]);
}

/* ---- cases -------------------------------------------------------------------------------------------- */
static void compare(chain *t, const char *name, const char *how)
{
    char what[80];
    snprintf(what, sizeof what, "%s gave other bits than normal launches", how);
    check_record(t->c, name, memcmp(t->want, t->got, t->bytes[X] + t->bytes[LSE]) != 0 ? what : NULL);
}

static bool run_all(chain *t, const char *name)
{
    const struct ptxpack_driver *d = t->c->gpu.driver;
    if (!fill(t) || !enqueue(t, 0) || !results(t, t->want))
        return false;
    if (!fill(t) || !enqueue(t, PTXPACK_LAUNCH_OVERLAP) || !results(t, t->got))
        return false;
    compare(t, name, "launches that may begin early");
    if (d->cuStreamBeginCapture == NULL || d->cuGraphInstantiateWithFlags == NULL)
        return true;
    if (!fill(t) || !enqueue_graph(t, PTXPACK_LAUNCH_OVERLAP | PTXPACK_LAUNCH_CONSTANT_B) ||
        !results(t, t->got))
        return false;
    compare(t, name, "a graph of launches that may begin early, and read B");
    return true;
}

static void release(chain *t)
{
    ptxpack_gemm_plan_free(t->first);
    ptxpack_gemm_plan_free(t->second);
    ptxpack_attention_append_plan_free(t->append);
    ptxpack_attention_plan_free(t->full);
    ptxpack_attention_plan_free(t->causal);
    ptxpack_attention_merge_plan_free(t->merge);
    for (int i = 0; i < BUFFERS; i++)
        device_free(&t->c->gpu, t->at[i]);
    free(t->input);
    free(t->want);
    free(t->got);
}

static void run_chain(check *c, const ptxpack_variant *attention, const ptxpack_variant *gemm,
                      ptxpack_dtype dtype)
{
    chain t = {.c = c,
               .attention = attention,
               .gemm = gemm,
               .dtype = dtype,
               .fp8 = ptxpack_variant_parameter(attention, "FP8", 0) != 0,
               .codes = ptxpack_variant_parameter(attention, "KV_BYTES", 2) == 1,
               .dim = (int32_t)ptxpack_variant_parameter(attention, "HEAD_DIM", 0),
               .batch = strcmp(attention->file, "attention/decode.ptx") == 0 ? ROWS / FEW : 1};
    char  name[128];
    t.heads = c->brief && t.dim >= 128 ? 1 : HEADS; /* products of them take a quarter of the time */
    t.width = t.heads * t.dim;
    snprintf(name, sizeof name, "chain %s %s %s", attention->id, gemm->id, ptxpack_dtype_name(dtype));
    if (atomic_load(&c->broken) || !check_wanted(c, name) ||
        !(check_row_wanted(c, attention) || check_row_wanted(c, gemm)))
        return;
    if (c->list) {
        puts(name);
        return;
    }
    if (!plan_products(&t) || !plan_attention(&t) || !plan_rest(&t) || !make_buffers(&t) || !run_all(&t, name))
        check_broken(c, name, c->gpu.line);
    release(&t);
}

/* Whether the row takes a row-major B: not tiles of gemm/wgmma_fit.ptx, nor parts of such (host/gemm/wgmma.c). */
static bool takes_rows_of_b(const ptxpack_variant *row)
{
    enum { BOX = 64 };
    return strcmp(row->file, "gemm/wgmma_fit.ptx") != 0 &&
           (strcmp(row->file, "gemm/wgmma_parts.ptx") != 0 ||
            ptxpack_variant_parameter(row, "BLOCK_N", BOX) % BOX == 0);
}

/* The rows of an operation that may begin early on this device; not those of products of few rows, of which the chain has
 * more, nor of e4m3: the buffers of the chain are of 16 bits, nor of groups of rows, nor of tiles that want a column-major B. */
static size_t find_rows(const check *c, const char *op, const ptxpack_variant **out, size_t room)
{
    size_t                 count, found = 0;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    const char            *few = "gemm/rows";
    char                   why[256];
    for (size_t i = 0; i < count && found < room; i++)
        if (strcmp(rows[i].op, op) == 0 && strncmp(rows[i].file, few, strlen(few)) != 0 &&
            strcmp(rows[i].file, "gemm/wgmma_fp8.ptx") != 0 &&
            strcmp(rows[i].file, "gemm/wgmma_groups.ptx") != 0 && takes_rows_of_b(&rows[i]) &&
            (rows[i].flags & PTXPACK_VARIANT_OVERLAPS) != 0 &&
            ptxpack_variant_refusal(&rows[i], &ptxpack_device(c->gpu.handle)->caps, why, sizeof why) == NULL)
            out[found++] = &rows[i];
    return found;
}

/* Each row of attention with one of products, and each of products with one of attention. */
void check_chain(check *c)
{
    enum { ROOM = 64 };
    const ptxpack_variant *attention[ROOM], *gemm[ROOM];
    size_t                 heads = find_rows(c, "attention", attention, ROOM);
    size_t                 products = find_rows(c, "gemm", gemm, ROOM);
    if (heads == 0 || products == 0)
        return;
    for (size_t i = 0; i < (heads > products ? heads : products); i++) {
        const ptxpack_variant *a = attention[i % heads], *g = gemm[i % products];
        if (c->quick && i % 4 != 0 && c->filter == NULL)
            continue;
        if (attention_row_values(a) != ptxpack_variant_parameter(a, "HEAD_DIM", 0))
            continue; /* its o is no input of a product of that width */
        if (attention_row_kv(a) == ATTENTION_KV_BLOCKS)
            continue; /* appends do not make blocks */
        if (ptxpack_variant_parameter(a, "FP8", 0) == 0 && (!c->brief || i % 2 == 0))
            run_chain(c, a, g, PTXPACK_F16);
        if (ptxpack_variant_parameter(a, "FP8", 0) != 0 || !c->brief || i % 2 == 1)
            run_chain(c, a, g, PTXPACK_BF16);
    }
}
