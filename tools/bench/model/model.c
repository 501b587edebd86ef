/* model.c - ptxpack bench model: a whole decoder, that of tools/examples/llama, with random weights of a known model's shape.
 *
 * Decoding   sequences of one length draw tokens with the example's server: its time of a step, from one token on the host to
 *            the next one.  The floor are the bytes that a step must read, its weights and the K and V of all sequences, at the
 *            speed of a reduction over memory in the same run
 * Prefill    one prompt at once, from its tokens on the host to the first token: the example's step.  The floor are the products and
 *            the attention of all layers alone, one after another in a graph.  Both are cases of the same rounds (rounds.h), some
 *            prompts on end, between which a prompt waits for its token: at its limit of power an H200 takes up to 10 % longer for
 *            the same kernels, which depends on what ran in the second before
 * Experts    a step reads the experts that its rows take.  How many of a layer these are is counted in a run of its own, as
 *            keeping them takes time; of a prompt all are the parts alone, with the same number of rows each
 * Weights    all layers have the same numbers, in memory of their own, and so have all experts.  Of e4m3 the parts of prefill alone
 *            are those of 16 bits, if the model makes these of its weights in each layer, which it takes besides; those of experts
 *            with few rows each are of e4m3, as its own */
#include "model.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench/rounds.h"
#include "tools/command.h"
#include "tools/examples/llama/llama.h"
#include "tools/problem/random.h"
#include "tools/report.h"

enum {
    PAGE_ROWS = 64,
    REST_US = 20000,
    CHUNK = 2048, /* tokens of a prompt at once, where decoding is timed */
    PRODUCTS = 5  /* of a layer */
};

static const model_shape shapes[] = {
    {"llama3-8b", 32, 4096, 14336, 128256, 32, 8, 128, 500000, false, false, 0, 0, false},
    {"llama3.2-1b", 16, 2048, 8192, 128256, 32, 8, 64, 500000, false, true, 0, 0, false},
    {"mistral-7b", 32, 4096, 14336, 32768, 32, 8, 128, 1000000, false, false, 0, 0, false},
    {"qwen3-8b", 36, 4096, 12288, 151936, 32, 8, 128, 1000000, true, false, 0, 0, false},
    {"mixtral-8x7b", 32, 4096, 14336, 32000, 32, 8, 128, 1000000, false, false, 8, 2, true},
    {"qwen3-30b-a3b", 48, 2048, 768, 151936, 32, 4, 128, 1000000, true, false, 128, 8, true},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/* ---- what the example wants of its program --------------------------------------------------------------- */
_Noreturn void die(const char *format, ...)
{
    char    line[512];
    va_list rest;
    va_start(rest, format);
    vsnprintf(line, sizeof line, format, rest);
    va_end(rest);
    exit(command_fail("bench", "%s", line));
}

void *allocate(size_t count, size_t bytes)
{
    void *memory = calloc(count != 0 ? count : 1, bytes != 0 ? bytes : 1);
    NEED(memory != NULL, "no memory for %zu times %zu bytes", count, bytes);
    return memory;
}

void *enlarge(void *memory, size_t count, size_t bytes)
{
    memory = realloc(memory, count * bytes);
    NEED(memory != NULL, "no memory for %zu times %zu bytes", count, bytes);
    return memory;
}

/* ---- the model -------------------------------------------------------------------------------------------- */
typedef struct bench {
    device               *gpu;
    const bench_settings *settings;
    const model_work     *work;
    config                config;
    weights               weights;
    const void           *layer[LAYER_TENSORS]; /* of every layer */
    model                 model;
} bench;

static config config_of(const model_shape *s, int positions)
{
    return (config){.family = s->name,
                    .layers = s->layers,
                    .hidden = s->hidden,
                    .inner = s->inner,
                    .experts = s->experts,
                    .top_k = s->top_k,
                    .normalise = s->normalise,
                    .vocab = s->vocab,
                    .positions = positions,
                    .heads = s->heads,
                    .heads_kv = s->heads_kv,
                    .head_dim = s->head_dim,
                    .tied = s->tied,
                    .qk_norm = s->qk_norm,
                    .theta = s->theta,
                    .eps = 1e-5};
}

/* Numbers of deviation 1/64 around `mean`: some million, again and again. */
static const void *numbers(bench *b, random_state *random, size_t count, float mean)
{
    enum { PART = 1 << 20 };
    ptxpack_dtype type = b->settings->dtype;
    size_t        part = count < PART ? count : PART;
    uint16_t     *out = (uint16_t *)allocate(count, sizeof *out);
    random_normal(random, type, out, part);
    for (size_t i = 0; i < part; i++)
        out[i] = ptxpack_from_float(type, mean + ptxpack_to_float(type, out[i]) / 64);
    for (size_t done = part; done < count; done += part) {
        part = part < count - done ? part : count - done;
        memcpy(out + done, out, part * sizeof *out);
    }
    return out;
}

static void make_weights(bench *b)
{
    random_state  random = random_start((uint64_t)b->settings->seed);
    const config *c = &b->config;
    size_t        matrix = (size_t)c->vocab * (size_t)c->hidden;
    for (int i = 0; i < LAYER_TENSORS; i++) {
        size_t count = weights_elements(c, i);
        bool   norm = i == NORM_1 || i == NORM_2 || i == Q_NORM || i == K_NORM;
        b->layer[i] = count != 0 ? numbers(b, &random, count, norm ? 1 : 0) : NULL;
    }
    b->weights = (weights){.dtype = b->settings->dtype,
                           .matrices = b->settings->weights,
                           .embedding = numbers(b, &random, matrix, 0),
                           .norm = numbers(b, &random, (size_t)c->hidden, 1),
                           .layers = (const void *(*)[LAYER_TENSORS])allocate((size_t)c->layers,
                                                                              sizeof b->layer)};
    b->weights.head = c->tied ? b->weights.embedding : numbers(b, &random, matrix, 0);
    b->weights.experts = (const void *(*)[3])allocate((size_t)c->layers * (size_t)c->experts,
                                                      sizeof *b->weights.experts);
    for (int i = 0; i < c->layers; i++)
        memcpy(b->weights.layers[i], b->layer, sizeof b->layer);
    for (int i = 0; i < c->layers * c->experts; i++)
        memcpy(b->weights.experts[i], &b->layer[GATE], sizeof *b->weights.experts);
}

static void free_weights(bench *b)
{
    if (b->weights.head != b->weights.embedding)
        free((void *)(uintptr_t)b->weights.head);
    free((void *)(uintptr_t)b->weights.embedding);
    free((void *)(uintptr_t)b->weights.norm);
    free(b->weights.layers);
    free(b->weights.experts);
    for (int i = 0; i < LAYER_TENSORS; i++)
        free((void *)(uintptr_t)b->layer[i]);
}

static int most_of(const bench_list *list)
{
    int most = 0;
    for (int i = 0; i < list->count; i++)
        most = list->value[i] > most ? list->value[i] : most;
    return most;
}

/* Pages for the largest row. */
static void load(bench *b)
{
    const model_work *w = b->work;
    int               length = most_of(&w->contexts) + w->steps, prompt = most_of(&w->prompts);
    const int         chunk = length < CHUNK ? length : CHUNK;
    length = length > prompt ? length : prompt + 1;
    int width = (length + PAGE_ROWS - 1) / PAGE_ROWS, batch = w->batches.count != 0 ? most_of(&w->batches) : 1;
    limits room = {.slots = batch,
                   .chunk = chunk > prompt ? chunk : prompt,
                   .page_rows = PAGE_ROWS,
                   .pages = batch * width,
                   .length = length};
    b->config = config_of(w->shape, length);
    make_weights(b);
    model_load(&b->model, &b->config, &room, &b->weights, 0);
}

/* The mean number of experts of a layer that the rows of a step took, which are those of `position` on. */
static double count_experts(const config *c, const request *all, int count, int position, int steps)
{
    const size_t each = (size_t)c->top_k;
    bool        *taken = (bool *)allocate((size_t)c->experts, sizeof *taken);
    int64_t      sum = 0;
    for (int i = 0; i < steps * c->layers; i++) {
        memset(taken, 0, (size_t)c->experts);
        for (int j = 0; j < count; j++)
            for (size_t k = 0; k < each; k++)
                taken[all[j].experts[((size_t)position * (size_t)c->layers + (size_t)i) * each + k]] = true;
        for (int e = 0; e < c->experts; e++)
            sum += taken[e];
    }
    free(taken);
    return (double)sum / (double)(steps * c->layers);
}

/* experts: NULL, or the mean number of them that a layer reads in a step, which makes it slower. */
static timing serve_random(bench *b, int slots, int chunk, int count, int prompt, int drawn, double *experts)
{
    const config *c = &b->config;
    random_state  random = random_start((uint64_t)b->settings->seed);
    request      *all = (request *)allocate((size_t)count, sizeof *all);
    const size_t  tokens = (size_t)(prompt + drawn);
    timing        t;
    for (int i = 0; i < count; i++) {
        all[i] = (request){.tokens = (int32_t *)allocate(tokens, sizeof(int32_t)),
                           .prompt = prompt,
                           .count = prompt,
                           .most = drawn};
        if (experts != NULL)
            all[i].experts = (int32_t *)allocate(tokens * (size_t)(c->layers * c->top_k), sizeof(int32_t));
        for (int j = 0; j < prompt; j++)
            all[i].tokens[j] = (int32_t)random_below(&random, (uint64_t)c->vocab);
    }
    b->model.limits.slots = slots;
    b->model.limits.chunk = chunk;
    b->model.limits.choices = experts != NULL;
    serve(&b->model, all, count, (ptxpack_sampling_row){.top_p = 1}, false, &t);
    if (experts != NULL)
        *experts = count_experts(c, all, count, prompt, drawn - 1);
    for (int i = 0; i < count; i++) {
        free(all[i].tokens);
        free(all[i].experts);
    }
    free(all);
    return t;
}

/* ---- the floors -------------------------------------------------------------------------------------------- */
enum { REDUCTION, PARTS, PROMPT, CASES };
/* PARTS has the products of all layers and their attention, for each repeat of a prompt. */
typedef struct parts {
    bench                  *b;
    bench_rounds            timing;
    bench_memory            memory;
    ptxpack_gemm_plan      *product[PRODUCTS];
    ptxpack_attention_plan *attention;
    uint64_t                in, out, roof, workspace[PRODUCTS + 1]; /* the last one is the attention's */
    uint64_t                starts;                                 /* of each expert's rows */
    bool                    codes;  /* their matrices are read as they are, of e4m3 */
    step                   *prompt; /* the whole */
} parts;

static const int weight_of_product[PRODUCTS] = {Q, O, ROUTER, GATE, DOWN};

typedef struct product_shape {
    int  n, k; /* n 0: the model has none */
    bool gated, residual;
    int  experts, top_k; /* of which each row takes so many; experts 0: there is one matrix */
} product_shape;

static product_shape product_of(const config *c, int index)
{
    const int           q = c->heads * c->head_dim, kv = c->heads_kv * c->head_dim, e = c->experts;
    const int           top_k = e != 0 ? c->top_k : 1;
    const product_shape all[PRODUCTS] = {{q + 2 * kv, c->hidden, false, false, 0, 1},
                                         {c->hidden, q, false, true, 0, 1},
                                         {e, c->hidden, false, false, 0, 1},
                                         {2 * c->inner, c->hidden, true, false, e, top_k},
                                         {c->hidden, c->inner, false, e == 0, e, top_k}};
    return all[index];
}

static void open_products(parts *p, int tokens)
{
    const model *m = &p->b->model;
    p->codes = m->matrices != 0 && m->config.experts != 0 && !model_widens_experts(&m->config, tokens);
    for (int i = 0; i < PRODUCTS; i++) {
        product_shape     s = product_of(&m->config, i);
        ptxpack_gemm_desc desc = {.size = sizeof desc,
                                  .dtype = m->dtype,
                                  .m = tokens * s.top_k,
                                  .n = s.n,
                                  .k = s.k,
                                  .order_b = PTXPACK_COLUMN_MAJOR,
                                  .stride_d = ((s.gated ? s.n / 2 : s.n) + 7) / 8 * 8,
                                  .has_c = s.residual,
                                  .activation = s.gated ? PTXPACK_ACTIVATION_SWIGLU : PTXPACK_ACTIVATION_NONE,
                                  .groups = s.experts,
                                  .dtype_b = s.experts != 0 && p->codes ? m->matrices : (ptxpack_dtype)0,
                                  .scales = s.experts != 0 && p->codes ? PTXPACK_SCALES_LINES
                                                                       : PTXPACK_SCALES_TENSOR};
        if (s.n == 0)
            continue;
        try_pack(&m->device, ptxpack_gemm_plan_create(m->device.pack, &desc, &p->product[i]));
        p->workspace[i] = gpu_memory(&p->b->model.device, ptxpack_gemm_workspace(p->product[i]));
    }
}

/* So that all experts have the same number of rows. */
static void make_starts(parts *p, int tokens)
{
    const config *c = &p->b->config;
    const size_t  count = (size_t)c->experts + 1;
    int32_t      *starts = (int32_t *)allocate(count, sizeof *starts);
    for (int e = 0; e <= c->experts && c->experts != 0; e++)
        starts[e] = (int32_t)((int64_t)tokens * c->top_k * e / c->experts);
    p->starts = gpu_memory(&p->b->model.device, count * sizeof *starts);
    gpu_write(&p->b->model.device, p->starts, starts, count * sizeof *starts);
    free(starts);
}

static void open_attention(parts *p, int tokens)
{
    const model           *m = &p->b->model;
    const config          *c = &m->config;
    const int64_t          row = (c->heads + 2 * c->heads_kv) * c->head_dim;
    ptxpack_attention_desc desc = {.size = sizeof desc,
                                   .dtype = m->dtype,
                                   .batch = 1,
                                   .seqlen_q = tokens,
                                   .seqlen_kv = tokens,
                                   .heads_q = c->heads,
                                   .heads_kv = c->heads_kv,
                                   .head_dim = c->head_dim,
                                   .mask = PTXPACK_MASK_CAUSAL_TOP_LEFT};
    desc.q = desc.k = desc.v = (ptxpack_strides){0, row, c->head_dim};
    try_pack(&m->device, ptxpack_attention_plan_create(m->device.pack, &desc, &p->attention));
    p->workspace[PRODUCTS] = gpu_memory(&p->b->model.device, ptxpack_attention_workspace(p->attention));
}

/* A matrix of e4m3 is one of 16 bits by then. */
static void enqueue_product(const parts *p, size_t index, int layer)
{
    const model         *m = &p->b->model;
    const bool           grouped = product_of(&m->config, (int)index).experts != 0;
    const bool           wide = m->wide != 0 && weight_of_product[index] != ROUTER && !(grouped && p->codes);
    const model_layer   *from = &m->layers[layer];
    ptxpack_gemm_buffers at = {.size = sizeof at,
                               .alpha = 1,
                               .beta = 1,
                               .a = p->in,
                               .b = wide ? m->wide : from->part[weight_of_product[index]],
                               .c = p->out,
                               .d = p->out,
                               .workspace = p->workspace[index],
                               .scale_b = grouped && p->codes ? from->scale[weight_of_product[index]] : 0,
                               .group_starts = grouped ? p->starts : 0};
    if (p->product[index] == NULL)
        return;
    try_pack(&m->device, ptxpack_gemm_launch(p->product[index], &at, p->b->gpu->stream));
}

static void enqueue_attention(const parts *p)
{
    const config             *c = &p->b->config;
    const uint64_t            k = p->in + (uint64_t)(c->heads * c->head_dim) * 2;
    ptxpack_attention_buffers at = {.size = sizeof at,
                                    .q = p->in,
                                    .k = k,
                                    .v = k + (uint64_t)(c->heads_kv * c->head_dim) * 2,
                                    .o = p->out,
                                    .workspace = p->workspace[PRODUCTS]};
    try_pack(&p->b->model.device, ptxpack_attention_launch(p->attention, &at, p->b->gpu->stream));
}

static void enqueue_layers(const parts *p)
{
    for (int layer = 0; layer < p->b->config.layers; layer++) {
        enqueue_product(p, 0, layer);
        enqueue_attention(p);
        for (size_t i = 1; i < PRODUCTS; i++)
            enqueue_product(p, i, layer);
    }
}

static bool enqueue(void *context, size_t index)
{
    parts *p = (parts *)context;
    if (index == REDUCTION)
        return bench_memory_reduce(&p->memory, p->roof, p->roof + p->b->work->roof_bytes,
                                   p->b->work->roof_bytes);
    for (int i = 0; i < p->b->work->repeats; i++)
        if (index == PROMPT)
            step_run(p->prompt);
        else
            enqueue_layers(p);
    return true;
}

/* Random numbers for the widest matrices of so many tokens, and for the reduction. */
static bool make_inputs(parts *p, int tokens)
{
    const config *c = &p->b->config;
    const int     q = (c->heads + 2 * c->heads_kv) * c->head_dim;
    const int     mlp = (c->inner > c->hidden ? c->inner : c->hidden) * (c->experts != 0 ? c->top_k : 1);
    const size_t  bytes = (size_t)tokens * (size_t)(mlp > q ? mlp : q) * 2;
    uint64_t     *at[] = {&p->in, &p->out, &p->roof};
    bool          ok = bench_memory_open(&p->memory, p->b->gpu, p->b->settings->dtype);
    for (uint32_t i = 0; i < 3 && ok; i++) {
        size_t all = i == 2 ? 2 * p->b->work->roof_bytes : bytes;
        ok = device_alloc(p->b->gpu, at[i], all) && bench_memory_fill(&p->memory, *at[i], all, i);
    }
    return ok && device_sync(p->b->gpu);
}

/* A prompt of random tokens, with the first pages of the cache. */
static void open_prompt(parts *p, int tokens)
{
    model       *m = &p->b->model;
    random_state random = random_start((uint64_t)p->b->settings->seed);
    p->prompt = step_open(m, 1, tokens);
    struct step_input *in = step_input(p->prompt);
    for (int i = 0; i < tokens; i++)
        in->tokens[i] = (int32_t)random_below(&random, (uint64_t)m->config.vocab);
    for (int i = 0; i < m->table_width; i++)
        in->table[i] = i;
    in->lengths[0] = in->fresh[0] = tokens;
    in->last[0] = tokens - 1;
    in->draw[0] = (ptxpack_sampling_row){.top_p = 1};
}

static void open_parts(parts *p, int tokens)
{
    open_products(p, tokens);
    make_starts(p, tokens);
    open_attention(p, tokens);
    open_prompt(p, tokens);
}

static void close_parts(parts *p)
{
    if (p->prompt != NULL)
        step_close(p->prompt);
    for (int i = 0; i < PRODUCTS; i++)
        ptxpack_gemm_plan_free(p->product[i]);
    ptxpack_attention_plan_free(p->attention);
}

/* Times the reduction, and for `tokens` above 0 the other cases: into ms of each. */
static bool time_cases(bench *b, int tokens, double ms[CASES])
{
    parts               p = {.b = b};
    gpu                *d = &b->model.device;
    struct CUstream_st *own = d->stream;
    const int           launches_of[CASES] = {1, b->work->repeats, b->work->repeats};
    const bool          live[CASES] = {[PROMPT] = true}; /* it launches a graph, and waits */
    d->stream = b->gpu->stream;                          /* that of the rounds */
    if (tokens > 0)
        open_parts(&p, tokens);
    p.timing = (bench_rounds){.gpu = b->gpu,
                              .count = tokens > 0 ? CASES : 1,
                              .rounds = b->settings->rounds,
                              .seed = (uint64_t)b->settings->seed,
                              .launches_of = launches_of,
                              .live = live,
                              .rest_us = REST_US,
                              .enqueue = enqueue,
                              .context = &p};
    bool ok = make_inputs(&p, tokens > 0 ? tokens : 1) && bench_rounds_run(&p.timing);
    for (size_t i = 0; i < p.timing.count && ok; i++)
        ms[i] = bench_rounds_ms(&p.timing, i);
    bench_rounds_free(&p.timing);
    bench_memory_close(&p.memory);
    device_free(b->gpu, p.in);
    device_free(b->gpu, p.out);
    device_free(b->gpu, p.roof);
    close_parts(&p);
    d->stream = own;
    return ok;
}

/* The bytes that a step of decoding must read: all weights but the embedding, so many experts of a layer, and the cache. */
static double bytes_of_step(const model *m, int batch, int context, double experts)
{
    const config *c = &m->config;
    double        bytes = 2.0 * c->hidden * (c->vocab + 1);
    for (int i = 0; i < LAYER_TENSORS; i++)
        bytes += (double)c->layers * (double)model_bytes(m, i) *
                 (i == GATE || i == UP || i == DOWN ? experts : 1);
    return bytes + 4 * (double)c->layers * batch * context * c->heads_kv * c->head_dim;
}

/* ---- the table ----------------------------------------------------------------------------------------------- */
static void open_table(const bench *b)
{
    report_device(b->gpu, b->settings->json);
    if (b->settings->json) {
        json_text("model", b->work->shape->name);
        json_text("dtype", ptxpack_dtype_name(b->settings->dtype));
        if (b->settings->weights != 0)
            json_text("weights", ptxpack_dtype_name(b->settings->weights));
        json_int("seed", b->settings->seed);
        json_open("rows", '[');
    } else {
        printf("%s, %s, %spages of %d, seed %lld\n\n| | sequences | tokens of each | ms | tokens/s | of the "
               "floor |%s\n"
               "|---|---|---|---|---|---|%s\n",
               b->work->shape->name, ptxpack_dtype_name(b->settings->dtype),
               b->settings->weights != 0 ? "weights of layers e4m3, " : "", (int)PAGE_ROWS,
               (long long)b->settings->seed, b->config.experts != 0 ? " experts of a layer |" : "",
               b->config.experts != 0 ? "---|" : "");
    }
}

/* experts: those that a layer reads, of a model that has any. */
static void print_row(const bench *b, const char *what, int batch, int tokens, double ms, double floor_ms,
                      double experts)
{
    double a_second = 1e3 / ms * (strcmp(what, "decode") == 0 ? batch : tokens);
    if (b->settings->json) {
        json_open(NULL, '{');
        json_text("what", what);
        json_int("sequences", batch);
        json_int("tokens", tokens);
        json_real("ms", ms);
        json_real("tokens_per_second", a_second);
        json_real("floor_ms", floor_ms);
        if (b->config.experts != 0)
            json_real("experts", experts);
        json_close();
    } else {
        printf("| %s | %d | %d | %.3f | %.0f | %.3f |", what, batch, tokens, ms, a_second, floor_ms / ms);
        if (b->config.experts != 0)
            printf(" %.1f |", experts);
        printf("\n");
        fflush(stdout);
    }
}

static bool decode_rows(bench *b)
{
    const model_work *w = b->work;
    double            ms[CASES];
    if (!time_cases(b, 0, ms))
        return false;
    for (int i = 0; i < w->batches.count; i++)
        for (int j = 0; j < w->contexts.count; j++) {
            const int batch = w->batches.value[i], context = w->contexts.value[j],
                      prompt = context - w->steps / 2;
            const int chunk = prompt < CHUNK ? prompt : CHUNK;
            double    experts = 1;
            if (b->config.experts != 0)
                serve_random(b, batch, chunk, batch, prompt, w->steps + 1, &experts);
            timing t = serve_random(b, batch, chunk, batch, prompt, w->steps + 1, NULL);
            double bytes = bytes_of_step(&b->model, batch, context, experts);
            print_row(b, "decode", batch, context, t.decode_ms / t.decode_steps,
                      bytes / (2 * (double)w->roof_bytes) * ms[REDUCTION], experts);
        }
    return true;
}

static bool prefill_rows(bench *b)
{
    double ms[CASES];
    for (int i = 0; i < b->work->prompts.count; i++) {
        const int tokens = b->work->prompts.value[i];
        if (!time_cases(b, tokens, ms))
            return false;
        print_row(b, "prefill", 1, tokens, ms[PROMPT], ms[PARTS], b->config.experts);
    }
    return true;
}

int bench_model_run(device *target, const bench_settings *settings, const model_work *work)
{
    bench b = {.gpu = target, .settings = settings, .work = work};
    load(&b);
    if (settings->json)
        json_open(NULL, '{');
    open_table(&b);
    bool ok = decode_rows(&b) && prefill_rows(&b);
    if (settings->json) {
        json_close();
        json_close();
    }
    model_free(&b.model);
    free_weights(&b);
    return ok ? COMMAND_OK : command_fail("bench", "%s", target->line);
}

/* ---- the benchmark -------------------------------------------------------------------------------------------- */
static const model_shape *find_shape(const char *name)
{
    for (int i = 0; i < SHAPES; i++)
        if (strcmp(shapes[i].name, name) == 0)
            return &shapes[i];
    command_fail("bench",
                 "--model: \"%s\" is not llama3-8b, llama3.2-1b, mistral-7b, qwen3-8b, mixtral-8x7b or "
                 "qwen3-30b-a3b",
                 name);
    return NULL;
}

int bench_model(const bench_settings *s)
{
    enum { STEPS = 128, REPEATS = 4, ROOF_BYTES = 1 << 29 };
    device     target = {0};
    model_work work = {.shape = find_shape(s->model),
                       .batches = s->batches,
                       .contexts = s->lengths,
                       .prompts = s->sizes,
                       .steps = STEPS,
                       .repeats = REPEATS,
                       .roof_bytes = ROOF_BYTES};
    if (work.shape == NULL)
        return COMMAND_USAGE;
    for (int i = 0; i < s->lengths.count; i++)
        if (s->lengths.value[i] <= STEPS / 2) {
            command_fail("bench", "--seqlen: %d is not above %d", (int)s->lengths.value[i], STEPS / 2);
            return COMMAND_USAGE;
        }
    if (work.prompts.count == 0)
        work.prompts = (bench_list){.count = 1, .value = {8192}};
    int status = bench_open(&target, NULL) ? bench_model_run(&target, s, &work)
                                           : command_fail("bench", "%s", target.line);
    device_close(&target);
    return status;
}
