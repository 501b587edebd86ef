/* step.c - a forward pass as one captured graph.
 *
 *   copy the input -> x = embedding[tokens]
 *   each layer:  h = norm(x) -> qkv = h W + b -> [q, k = norm] -> append k, v, rotate q, k, attend -> x += o W + b
 *                h = norm(x) -> gate, up = h W + b, silu(gate) up -> x += that W + b
 *     experts:   h = norm(x) -> h W -> route -> rows of h by expert -> the same two products, each expert its rows -> x += their sum
 *   h = norm(x) -> its last rows, unless all rows are -> logits -> tokens -> copy them back
 *
 * Where a kernel takes the norm of few rows into their product (ptxpack_gemm_desc.norm_a), h = norm(x) is part of h W.
 * Each kernel may begin before the one before it has ended (PTXPACK_LAUNCH_OVERLAP), and then waits for it before it reads anything
 * but weights (PTXPACK_LAUNCH_CONSTANT_B), lengths, pages and older keys (PTXPACK_LAUNCH_CONSTANT_KV).
 * The graph has addresses alone: lengths, pages and tokens are read on the device, so that it stays valid while sequences grow,
 * join and leave.  A sequence of length 0 takes no part: its row is computed and goes nowhere. */
#include "llama.h"

#include <stdlib.h>

enum { OF_WEIGHTS = PTXPACK_LAUNCH_OVERLAP | PTXPACK_LAUNCH_CONSTANT_B }; /* launches of products whose B nobody writes */
enum { NORMED_ROWS = 16 }; /* above, a kernel for the norm and a product for more rows are faster */

typedef struct product {
    ptxpack_gemm_plan       *plan;
    bool                     normed;            /* it normalises x itself */
    ptxpack_dequantise_plan *widen;             /* of a matrix of e4m3 that many rows want; otherwise NULL */
    uint64_t                 workspace, starts; /* starts: of the rows of each expert; 0: there is one matrix */
} product;

struct step {
    model                  *m;
    int                     rows, sequences, q_width, kv_width, qkv_width;
    struct step_input       host;
    size_t                  input_bytes;
    uint64_t                input; /* the same arrays on the device */
    int32_t                *tokens;
    uint64_t                x, h, qkv, o, inner, last, logits, drawn;
    uint64_t                routes, starts, sources, places, weights, sorted, route_workspace; /* of experts */
    int32_t                *choices; /* NULL, or in pinned memory: starts and places of each layer */
    ptxpack_attention_plan *attention;
    uint64_t                attention_workspace;
    ptxpack_norm_plan      *norm_x, *norm_q, *norm_k; /* norm_q, norm_k: NULL if the model has none */
    ptxpack_gather_plan    *gather_tokens, *gather_last, *gather_experts; /* gather_last: NULL if each sequence has one row */
    ptxpack_sampling_plan  *sampling;
    ptxpack_experts_route_plan   *route; /* these two and gather_experts: NULL if the model has no experts */
    ptxpack_experts_combine_plan *combine;
    product                 qkv_product, o_product, router_product, gate_up_product, down_product, head_product;
    struct CUgraphExec_st  *graph;
};

static uint64_t on_device(const step *s, const void *member)
{
    return s->input + (size_t)((const char *)member - (const char *)s->host.tokens);
}

/* RMSNorm of `heads` vectors of `columns` elements in each of so many rows, `stride` elements apart. */
static ptxpack_norm_plan *open_norm(const model *m, int rows, int heads, int columns, int stride)
{
    ptxpack_norm_plan         *plan;
    const ptxpack_norm_strides apart = {stride, columns};
    ptxpack_norm_desc          desc = {.size = sizeof desc, .dtype = m->dtype, .rows = rows, .heads = heads, .columns = columns,
                                       .eps = (float)m->config.eps, .x = apart, .y = apart};
    try_pack(&m->device, ptxpack_norm_plan_create(m->device.pack, &desc, &plan));
    return plan;
}

static void normalise(const step *s, const ptxpack_norm_plan *plan, uint64_t y, uint64_t x, uint64_t w)
{
    ptxpack_norm_buffers at = {.size = sizeof at, .x = x, .w = w, .y = y, .launch = PTXPACK_LAUNCH_OVERLAP};
    try_pack(&s->m->device, ptxpack_norm(plan, &at, s->m->device.stream));
}

/* y [rows][n] = x [rows][k] w^T + bias + what y was, the last two if they are asked for, with w [n][k]; gated: of n / 2
 * columns, silu(gate) up of the n, which model.c mixes as SwiGLU wants them.  of_w: 0, or PTXPACK_E4M3, whose rows have scales:
 * for many rows it becomes 16 bits each time, exactly.  starts: of the rows of each expert, which has a w.  normed: of RMSNorm(x),
 * in this product if there is a kernel that does both, as on Hopper for few rows and a w of 16 bits. */
static product open_product(model *m, int rows, int n, int k, ptxpack_dtype of_w, bool gated, bool residual, bool bias,
                            uint64_t starts, bool normed)
{
    product           p = {.starts = starts};
    int               experts = starts != 0 ? m->config.experts : 0;
    bool              widened = of_w != 0 && (experts != 0 ? model_widens_experts(&m->config, rows / m->config.top_k) : rows > QUANTISED_ROWS);
    int64_t           stride = gated ? n / 2 : (n + 7) / 8 * 8; /* of logits: vocab_stride */
    ptxpack_gemm_desc desc = {.size = sizeof desc, .dtype = m->dtype, .m = rows, .n = n, .k = k, .order_b = PTXPACK_COLUMN_MAJOR,
                              .stride_c = residual ? stride : 0, .stride_d = stride, .has_c = residual, .has_bias = bias,
                              .activation = gated ? PTXPACK_ACTIVATION_SWIGLU : PTXPACK_ACTIVATION_NONE,
                              .groups = experts, .dtype_b = widened ? (ptxpack_dtype)0 : of_w,
                              .scales = of_w != 0 && !widened ? PTXPACK_SCALES_LINES : PTXPACK_SCALES_TENSOR,
                              .launch = widened ? PTXPACK_LAUNCH_OVERLAP : OF_WEIGHTS};
    ptxpack_quantise_desc codes = {.size = sizeof codes, .dtype = m->dtype, .rows = experts != 0 ? experts * n : n, .columns = k};
    if (widened)
        try_pack(&m->device, ptxpack_dequantise_plan_create(m->device.pack, &codes, &p.widen));
    ptxpack_gemm_desc with_norm = desc;
    with_norm.norm_a = true, with_norm.norm_eps = (float)m->config.eps;
    ptxpack_status status = normed && rows <= NORMED_ROWS ? ptxpack_gemm_plan_create(m->device.pack, &with_norm, &p.plan)
                                                          : PTXPACK_E_UNSUPPORTED;
    p.normed = status == PTXPACK_OK;
    try_pack(&m->device, status != PTXPACK_E_UNSUPPORTED ? status : ptxpack_gemm_plan_create(m->device.pack, &desc, &p.plan));
    p.workspace = gpu_memory(&m->device, ptxpack_gemm_workspace(p.plan));
    return p;
}

/* norm: 0, or the weights of the norm of x: where the product has none, a kernel before it leaves the norm in h. */
static void multiply_normed(const step *s, const product *p, uint64_t y, uint64_t x, uint64_t norm, uint64_t w, uint64_t scale,
                            uint64_t bias)
{
    if (norm != 0 && !p->normed)
        normalise(s, s->norm_x, s->h, x, norm), x = s->h;
    ptxpack_gemm_buffers at = {.size = sizeof at, .alpha = 1, .beta = 1, .a = x, .b = w, .c = y, .d = y, .bias = bias,
                               .scale_b = scale, .workspace = p->workspace, .group_starts = p->starts, .norm_w = norm,
                               .launch = OF_WEIGHTS};
    if (p->widen != NULL) {
        ptxpack_quantise_buffers codes = {.size = sizeof codes, .x = at.b = s->m->wide, .codes = w, .scales = scale,
                                          .launch = at.launch = PTXPACK_LAUNCH_OVERLAP};
        at.scale_b = 0;
        try_pack(&s->m->device, ptxpack_dequantise(p->widen, &codes, s->m->device.stream));
    }
    try_pack(&s->m->device, ptxpack_gemm_launch(p->plan, &at, s->m->device.stream));
}

static void multiply(const step *s, const product *p, uint64_t y, uint64_t x, uint64_t w, uint64_t scale, uint64_t bias)
{
    multiply_normed(s, p, y, x, 0, w, scale, bias);
}

static ptxpack_gather_plan *open_gather(const model *m, int rows, int table_rows)
{
    ptxpack_gather_plan *plan;
    ptxpack_gather_desc  desc = {.size = sizeof desc, .dtype = m->dtype, .rows = rows, .table_rows = table_rows,
                                 .columns = m->config.hidden};
    try_pack(&m->device, ptxpack_gather_plan_create(m->device.pack, &desc, &plan));
    return plan;
}

static void gather(const step *s, const ptxpack_gather_plan *plan, uint64_t y, uint64_t table, uint64_t ids)
{
    ptxpack_gather_buffers at = {.size = sizeof at, .ids = ids, .table = table, .y = y,
                                 .launch = PTXPACK_LAUNCH_OVERLAP};
    try_pack(&s->m->device, ptxpack_gather(plan, &at, s->m->device.stream));
}

static void open_attention(step *s)
{
    const config                 *c = &s->m->config;
    const limits                 *l = &s->m->limits;
    int                           rows = s->rows / s->sequences;
    const ptxpack_strides         beside = {(int64_t)rows * s->qkv_width, s->qkv_width, c->head_dim}; /* q, k, v in one row */
    ptxpack_attention_append_desc append = {.size = sizeof append, .heads_q = c->heads, .rotary_dim = c->head_dim,
                                            .positions = l->length, .k_new = beside, .v_new = beside};
    ptxpack_attention_desc        desc = {
               .size = sizeof desc, .dtype = s->m->dtype, .batch = s->sequences, .seqlen_q = rows, .seqlen_kv = l->length,
               .heads_q = c->heads, .heads_kv = c->heads_kv, .head_dim = c->head_dim, .mask = PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT,
               .q = beside, .kv_rows = PTXPACK_ROWS_PAGED, .rows_kv = l->pages, .page_rows = l->page_rows,
               .table_width = s->m->table_width, .options = PTXPACK_LENGTHS_Q | PTXPACK_LENGTHS_KV, .append = &append};
    if (c->window != 0) {
        desc.mask = PTXPACK_MASK_WINDOW_BOTTOM_RIGHT;
        desc.window_left = c->window - 1; /* besides the row's own key */
    }
    try_pack(&s->m->device, ptxpack_attention_plan_create(s->m->device.pack, &desc, &s->attention));
    s->attention_workspace = gpu_memory(&s->m->device, ptxpack_attention_workspace(s->attention));
}

static void attend(const step *s, const model_layer *layer)
{
    uint64_t                         k = s->qkv + (size_t)s->q_width * 2, v = k + (size_t)s->kv_width * 2;
    ptxpack_attention_append_buffers append = {.size = sizeof append, .k_new = k, .v_new = v, .cos = s->m->cos, .sin = s->m->sin,
                                               .launch = PTXPACK_LAUNCH_OVERLAP};
    ptxpack_attention_buffers        at = {
               .size = sizeof at, .q = s->qkv, .k = layer->k, .v = layer->v, .o = s->o, .workspace = s->attention_workspace,
               .lengths_q = on_device(s, s->host.fresh), .lengths_kv = on_device(s, s->host.lengths),
               .page_table = on_device(s, s->host.table), .append = &append,
               .launch = PTXPACK_LAUNCH_OVERLAP | PTXPACK_LAUNCH_CONSTANT_KV};
    try_pack(&s->m->device, ptxpack_attention_launch(s->attention, &at, s->m->device.stream));
}

static uint64_t buffer(step *s, int rows, int columns) { return gpu_memory(&s->m->device, (size_t)rows * (size_t)columns * 2); }

static size_t choice_words(const step *s)
{
    return (size_t)s->m->config.experts + 1 + (size_t)s->rows * (size_t)s->m->config.top_k;
}

static void open_experts(step *s)
{
    model                       *m = s->m;
    const config                *c = &m->config;
    int                          all = s->rows * c->top_k;
    ptxpack_experts_route_desc   route = {.size = sizeof route, .dtype = m->dtype, .rows = s->rows, .experts = c->experts,
                                          .top_k = c->top_k, .stride = (c->experts + 7) / 8 * 8,
                                          .options = c->normalise ? PTXPACK_EXPERTS_NORMALISE : 0};
    ptxpack_experts_combine_desc combine = {.size = sizeof combine, .dtype = m->dtype, .rows = s->rows, .top_k = c->top_k,
                                            .columns = c->hidden, .options = PTXPACK_EXPERTS_RESIDUAL};
    try_pack(&m->device, ptxpack_experts_route_plan_create(m->device.pack, &route, &s->route));
    try_pack(&m->device, ptxpack_experts_combine_plan_create(m->device.pack, &combine, &s->combine));
    s->router_product = open_product(m, s->rows, c->experts, c->hidden, (ptxpack_dtype)0, false, false, false, 0, false);
    s->gather_experts = open_gather(m, all, s->rows);
    s->routes = buffer(s, s->rows, (int)route.stride);
    s->starts = buffer(s, c->experts + 1, 2), s->sources = buffer(s, all, 2), s->places = buffer(s, all, 2);
    s->weights = buffer(s, all, 2);
    s->sorted = buffer(s, all, c->hidden);
    s->route_workspace = gpu_memory(&m->device, ptxpack_experts_route_workspace(s->route));
    if (m->limits.choices)
        s->choices = (int32_t *)gpu_pinned(&m->device, (size_t)c->layers * choice_words(s) * sizeof *s->choices);
}

static void keep_choices(const step *s, int layer)
{
    const gpu *d = &s->m->device;
    int32_t   *to = s->choices + (size_t)layer * choice_words(s);
    size_t     starts = (size_t)s->m->config.experts + 1, places = choice_words(s) - starts;
    try_cuda(d, d->cuda->cuMemcpyDtoHAsync(to, s->starts, starts * sizeof *to, d->stream), "copying choices");
    try_cuda(d, d->cuda->cuMemcpyDtoHAsync(to + starts, s->places, places * sizeof *to, d->stream), "copying choices");
}

void step_choices(const step *s, int row, int32_t *experts)
{
    const config *c = &s->m->config;
    for (int layer = 0; layer < c->layers; layer++) {
        const int32_t *starts = s->choices + (size_t)layer * choice_words(s), *places = starts + c->experts + 1 + row * c->top_k;
        for (int j = 0; j < c->top_k; j++) {
            int expert = 0;
            while (expert < c->experts && starts[expert + 1] <= places[j])
                expert++;
            *experts++ = expert;
        }
    }
}

static void enqueue_experts(const step *s, const model_layer *layer)
{
    const uint64_t                 *part = layer->part, *scale = layer->scale;
    ptxpack_experts_route_buffers   route = {.size = sizeof route, .logits = s->routes, .starts = s->starts, .sources = s->sources,
                                             .places = s->places, .weights = s->weights, .workspace = s->route_workspace,
                                             .launch = PTXPACK_LAUNCH_OVERLAP};
    ptxpack_experts_combine_buffers combine = {.size = sizeof combine, .y = s->sorted, .places = s->places, .weights = s->weights,
                                               .residual = s->x, .out = s->x, .launch = PTXPACK_LAUNCH_OVERLAP};
    multiply(s, &s->router_product, s->routes, s->h, part[ROUTER], 0, 0);
    try_pack(&s->m->device, ptxpack_experts_route(s->route, &route, s->m->device.stream));
    if (s->choices != NULL)
        keep_choices(s, (int)(layer - s->m->layers));
    gather(s, s->gather_experts, s->sorted, s->h, s->sources);
    multiply(s, &s->gate_up_product, s->inner, s->sorted, part[GATE], scale[GATE], 0);
    multiply(s, &s->down_product, s->sorted, s->inner, part[DOWN], scale[DOWN], 0);
    try_pack(&s->m->device, ptxpack_experts_combine(s->combine, &combine, s->m->device.stream));
}

void step_before(const step *s, const model_layer *layer)
{
    const uint64_t *part = layer->part, *scale = layer->scale, k = s->qkv + (size_t)s->q_width * 2;
    multiply_normed(s, &s->qkv_product, s->qkv, s->x, part[NORM_1], part[Q], scale[Q], part[Q_BIAS]);
    if (s->norm_q != NULL) {
        normalise(s, s->norm_q, s->qkv, s->qkv, part[Q_NORM]);
        normalise(s, s->norm_k, k, k, part[K_NORM]);
    }
}

void step_after(const step *s, const model_layer *layer)
{
    const uint64_t *part = layer->part, *scale = layer->scale;
    multiply(s, &s->o_product, s->x, s->o, part[O], scale[O], part[O_BIAS]);
    if (s->route != NULL) {
        normalise(s, s->norm_x, s->h, s->x, part[NORM_2]);
        enqueue_experts(s, layer);
        return;
    }
    multiply_normed(s, &s->gate_up_product, s->inner, s->x, part[NORM_2], part[GATE], scale[GATE], part[GATE_BIAS]);
    multiply(s, &s->down_product, s->x, s->inner, part[DOWN], scale[DOWN], part[DOWN_BIAS]);
}

void step_begin(const step *s)
{
    const gpu *d = &s->m->device;
    try_cuda(d, d->cuda->cuMemcpyHtoDAsync(s->input, s->host.tokens, s->input_bytes, d->stream), "copying the input");
    gather(s, s->gather_tokens, s->x, s->m->embedding, on_device(s, s->host.tokens));
}

const int32_t *step_end(const step *s)
{
    const model  *m = s->m;
    const gpu *d = &m->device;
    size_t        bytes = (size_t)s->sequences * sizeof *s->tokens;
    ptxpack_sampling_buffers at = {.size = sizeof at, .logits = s->logits, .parameters = on_device(s, s->host.draw),
                                   .tokens = s->drawn, .launch = PTXPACK_LAUNCH_OVERLAP};
    if (s->gather_last != NULL) {
        normalise(s, s->norm_x, s->h, s->x, m->norm);
        gather(s, s->gather_last, s->last, s->h, on_device(s, s->host.last));
        multiply(s, &s->head_product, s->logits, s->last, m->head, 0, 0);
    } else
        multiply_normed(s, &s->head_product, s->logits, s->x, m->norm, m->head, 0, 0);
    try_pack(d, ptxpack_sampling(s->sampling, &at, d->stream));
    try_cuda(d, d->cuda->cuMemcpyDtoHAsync(s->tokens, s->drawn, bytes, d->stream), "copying the tokens");
    return s->tokens;
}

static void capture(step *s)
{
    const gpu      *d = &s->m->device;
    struct CUgraph_st *graph;
    try_cuda(d, d->cuda->cuStreamBeginCapture(d->stream, PTXPACK_CU_CAPTURE_THREAD_LOCAL), "cuStreamBeginCapture");
    step_begin(s);
    for (int i = 0; i < s->m->config.layers; i++) {
        step_before(s, &s->m->layers[i]);
        attend(s, &s->m->layers[i]);
        step_after(s, &s->m->layers[i]);
    }
    step_end(s);
    try_cuda(d, d->cuda->cuStreamEndCapture(d->stream, &graph), "cuStreamEndCapture");
    try_cuda(d, d->cuda->cuGraphInstantiateWithFlags(&s->graph, graph, 0), "cuGraphInstantiateWithFlags");
    try_cuda(d, d->cuda->cuGraphDestroy(graph), "cuGraphDestroy");
}

/* Lays out the arrays of the input, each at a multiple of 16 bytes. */
static void open_input(step *s)
{
    size_t       n = (size_t)s->sequences, at[7] = {0};
    const size_t sizes[6] = {(size_t)s->rows * 4, n * 4, n * 4, n * 4, n * sizeof *s->host.draw, n * (size_t)s->m->table_width * 4};
    for (int i = 0; i < 6; i++)
        at[i + 1] = at[i] + (sizes[i] + 15) / 16 * 16;
    char *host = (char *)gpu_pinned(&s->m->device, at[6]);
    s->host = (struct step_input){(int32_t *)host, (int32_t *)(host + at[1]), (int32_t *)(host + at[2]), (int32_t *)(host + at[3]),
                                  (ptxpack_sampling_row *)(host + at[4]), (int32_t *)(host + at[5])};
    s->input = gpu_memory(&s->m->device, s->input_bytes = at[6]);
    s->tokens = (int32_t *)gpu_pinned(&s->m->device, n * sizeof *s->tokens);
}

static step *open_parts(model *m, int sequences, int rows_each)
{
    const config *c = &m->config;
    step         *s = (step *)allocate(1, sizeof *s);
    int           rows = sequences * rows_each, q = c->heads * c->head_dim, kv = c->heads_kv * c->head_dim, qkv = q + 2 * kv;
    *s = (step){.m = m, .rows = rows, .sequences = sequences, .q_width = q, .kv_width = kv, .qkv_width = qkv};
    open_input(s);
    if (c->experts != 0)
        open_experts(s);
    int mlp_rows = c->experts != 0 ? rows * c->top_k : rows;
    s->x = buffer(s, rows, c->hidden);
    s->h = buffer(s, rows, c->hidden);
    s->qkv = buffer(s, rows, qkv);
    s->o = buffer(s, rows, q);
    s->inner = buffer(s, mlp_rows, c->inner);
    s->logits = buffer(s, sequences, m->vocab_stride);
    s->drawn = buffer(s, sequences, 2);
    const ptxpack_dtype full = (ptxpack_dtype)0;
    s->qkv_product = open_product(m, rows, qkv, c->hidden, m->matrices, false, false, c->qkv_bias, 0, true);
    s->o_product = open_product(m, rows, c->hidden, q, m->matrices, false, true, c->o_bias, 0, false);
    s->gate_up_product = open_product(m, mlp_rows, 2 * c->inner, c->hidden, m->matrices, true, false, c->mlp_bias, s->starts,
                                      c->experts == 0);
    s->down_product = open_product(m, mlp_rows, c->hidden, c->inner, m->matrices, false, c->experts == 0, c->mlp_bias, s->starts, false);
    s->head_product = open_product(m, sequences, c->vocab, c->hidden, full, false, false, false, 0, rows_each == 1);
    s->norm_x = open_norm(m, rows, 1, c->hidden, c->hidden);
    s->norm_q = c->qk_norm ? open_norm(m, rows, c->heads, c->head_dim, qkv) : NULL;
    s->norm_k = c->qk_norm ? open_norm(m, rows, c->heads_kv, c->head_dim, qkv) : NULL;
    s->gather_tokens = open_gather(m, rows, c->vocab);
    if (rows_each > 1)
        s->gather_last = open_gather(m, sequences, rows), s->last = buffer(s, sequences, c->hidden);
    ptxpack_sampling_desc sampling = {.size = sizeof sampling, .dtype = m->dtype, .rows = sequences, .vocabulary = c->vocab,
                                      .stride = m->vocab_stride};
    try_pack(&m->device, ptxpack_sampling_plan_create(m->device.pack, &sampling, &s->sampling));
    return s;
}

step *step_open_parts(model *m, int rows) { return open_parts(m, 1, rows); }

step *step_open(model *m, int sequences, int rows)
{
    step *s = open_parts(m, sequences, rows);
    open_attention(s);
    capture(s);
    try_cuda(&m->device, m->device.cuda->cuCtxSynchronize(), "uploading"); /* the stream does not wait for the default one */
    return s;
}

void step_close(step *s)
{
    if (s->graph != NULL)
        s->m->device.cuda->cuGraphExecDestroy(s->graph);
    ptxpack_attention_plan_free(s->attention);
    ptxpack_norm_plan_free(s->norm_x);
    ptxpack_norm_plan_free(s->norm_q);
    ptxpack_norm_plan_free(s->norm_k);
    ptxpack_gather_plan_free(s->gather_tokens);
    ptxpack_gather_plan_free(s->gather_last);
    ptxpack_gather_plan_free(s->gather_experts);
    ptxpack_experts_route_plan_free(s->route);
    ptxpack_experts_combine_plan_free(s->combine);
    ptxpack_sampling_plan_free(s->sampling);
    const product *const products[] = {&s->qkv_product, &s->o_product, &s->router_product, &s->gate_up_product, &s->down_product,
                                       &s->head_product};
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        ptxpack_gemm_plan_free(products[i]->plan);
        ptxpack_dequantise_plan_free(products[i]->widen);
    }
    free(s);
}

struct step_input *step_input(step *s) { return &s->host; }

struct step_rows step_rows(const step *s) { return (struct step_rows){s->qkv, s->o}; }

const int32_t *step_run(step *s)
{
    const gpu *d = &s->m->device;
    try_cuda(d, d->cuda->cuGraphLaunch(s->graph, d->stream), "cuGraphLaunch");
    try_cuda(d, d->cuda->cuStreamSynchronize(d->stream), "the step");
    return s->tokens;
}

void step_logits(const step *s, int sequence, uint16_t *row)
{
    uint64_t from = s->logits + (size_t)sequence * (size_t)s->m->vocab_stride * sizeof *row;
    try_cuda(&s->m->device, s->m->device.cuda->cuMemcpyDtoH(row, from, (size_t)s->m->config.vocab * sizeof *row), "cuMemcpyDtoH");
}
