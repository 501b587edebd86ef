/* shard.c - prefills a long prompt on several GPUs, each of which has all weights and some rows of the prompt.
 *
 *   each GPU:  x = embedding[its tokens]
 *              each layer:  q, k, v of its rows -> q, k rotated, each tensor by itself -> attention with the rows of all GPUs
 *                           k, v to the pages of the first GPU; the rest of the layer
 *   first GPU: the last row -> a token
 *
 * Shards are zigzag: of 2 n chunks GPU r of n has number r, then number 2 n - 1 - r, so that all have the same work under the
 * causal mask, and the first one has the last row.  Plans are for one number of rows: prompts of the same length share them. */
#include "llama.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNKS = 2 };

typedef struct chunk {
    int32_t                        first, rows, at; /* in the prompt; how many; in the shard */
    ptxpack_attention_append_plan *rotate;
    uint64_t                       length; /* `rows` on the device */
} chunk;

typedef struct shard {
    model            *m;
    step             *step;
    struct gpu_piece *kept; /* what is older than the plans */
    chunk             chunk[CHUNKS];
    uint64_t          q, k, v, workspace; /* q, k, v: [rows][heads][head_dim] */
} shard;

struct shards {
    int                              count, rows; /* rows: of the prompt that the plans are for; 0: there are none */
    model                           *others;      /* [count - 1] */
    shard                           *shard;
    ptxpack_parallel_group          *group;
    ptxpack_attention_parallel_plan *attention;
};

bool shards_want(const limits *l, int prompt) { return l->gpus > 1 && prompt / l->gpus >= l->share; }

/* The other GPUs have no pages. */
shards *shards_open(model *first, const weights *w)
{
    shards   *s = (shards *)allocate(1, sizeof *s);
    limits    l = first->limits;
    ptxpack **packs = (ptxpack **)allocate((size_t)l.gpus, sizeof *packs);
    l.pages = 0;
    s->count = l.gpus;
    s->others = (model *)allocate((size_t)s->count - 1, sizeof *s->others);
    s->shard = (shard *)allocate((size_t)s->count, sizeof *s->shard);
    for (int i = 0; i < s->count; i++) {
        s->shard[i].m = i == 0 ? first : &s->others[i - 1];
        try_cuda(&first->device, first->device.cuda->cuCtxSetCurrent(NULL), "cuCtxSetCurrent");
        if (i != 0)
            model_load(s->shard[i].m, &first->config, &l, w, i);
        packs[i] = s->shard[i].m->device.pack;
    }
    gpu_enter(&first->device);
    try_pack(&first->device, ptxpack_parallel_devices(packs, s->count, &s->group));
    free(packs);
    return s;
}

static void close_plans(shards *s)
{
    ptxpack_attention_parallel_plan_free(s->attention);
    for (shard *one = s->shard; one < s->shard + s->count && s->rows != 0; one++) {
        gpu_enter(&one->m->device);
        for (int i = 0; i < CHUNKS; i++)
            ptxpack_attention_append_plan_free(one->chunk[i].rotate);
        step_close(one->step);
        gpu_release(&one->m->device, one->kept);
    }
    s->attention = NULL;
    s->rows = 0;
}

void shards_close(shards *s)
{
    if (s == NULL)
        return;
    close_plans(s);
    ptxpack_parallel_free(s->group);
    for (int i = 1; i < s->count; i++) {
        gpu_enter(&s->shard[i].m->device);
        model_free(s->shard[i].m);
    }
    gpu_enter(&s->shard[0].m->device);
    free(s->others);
    free(s->shard);
    free(s);
}

/* ---- plans ------------------------------------------------------------------------------------------------------------ */
/* An append is what rotates: to a cache of the chunk's rows, whose row 0 has the position 0 of the part of cos and sin that it
 * is given. */
static void open_rotation(const shard *s, chunk *c)
{
    const config         *m = &s->m->config;
    const int64_t         width = (int64_t)(m->heads + 2 * m->heads_kv) * m->head_dim;
    const ptxpack_strides beside = {c->rows * width, width, m->head_dim}; /* q, k, v in one row */
    ptxpack_attention_append_desc desc = {.size = sizeof desc, .dtype = s->m->dtype, .batch = 1, .seqlen_new = c->rows,
                                          .seqlen_kv = c->rows, .heads_kv = m->heads_kv, .heads_q = m->heads,
                                          .head_dim = m->head_dim, .rotary_dim = m->head_dim, .positions = c->rows,
                                          .k_new = beside, .v_new = beside, .q = beside};
    try_pack(&s->m->device, ptxpack_attention_append_plan_create(s->m->device.pack, &desc, &c->rotate));
    c->length = gpu_memory(&s->m->device, sizeof c->rows);
    gpu_write(&s->m->device, c->length, &c->rows, sizeof c->rows);
}

static void open_attention(shards *s)
{
    const config          *c = &s->shard[0].m->config;
    ptxpack_attention_desc attention = {.size = sizeof attention, .dtype = s->shard[0].m->dtype, .batch = 1, .seqlen_q = s->rows,
                                        .seqlen_kv = s->rows, .heads_q = c->heads, .heads_kv = c->heads_kv,
                                        .head_dim = c->head_dim, .mask = PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT};
    ptxpack_attention_parallel_desc desc = {.size = sizeof desc, .shards = PTXPACK_SHARDS_ZIGZAG, .attention = &attention};
    if (c->window != 0) {
        attention.mask = PTXPACK_MASK_WINDOW_BOTTOM_RIGHT;
        attention.window_left = c->window - 1; /* besides the row's own key */
    }
    try_pack(&s->shard[0].m->device, ptxpack_attention_parallel_plan_create(s->group, &desc, &s->attention));
}

static void open_shard(const shards *s, int rank)
{
    shard        *one = &s->shard[rank];
    gpu          *d = &one->m->device;
    const config *c = &one->m->config;
    int32_t       rows = 0;
    gpu_enter(d);
    one->kept = d->pieces;
    for (int i = 0; i < CHUNKS; i++) {
        chunk *part = &one->chunk[i];
        ptxpack_attention_parallel_chunk(PTXPACK_SHARDS_ZIGZAG, s->count, rank, s->rows, i, &part->first, &part->rows);
        part->at = rows;
        rows += part->rows;
        open_rotation(one, part);
    }
    one->step = step_open_parts(one->m, rows);
    one->q = gpu_memory(d, (size_t)rows * (size_t)(c->heads * c->head_dim) * 2);
    one->k = gpu_memory(d, (size_t)rows * (size_t)(c->heads_kv * c->head_dim) * 2);
    one->v = gpu_memory(d, (size_t)rows * (size_t)(c->heads_kv * c->head_dim) * 2);
    one->workspace = gpu_memory(d, ptxpack_attention_parallel_workspace(s->attention, rank));
    step_input(one->step)->last[0] = rows - 1;
    try_cuda(d, d->cuda->cuCtxSynchronize(), "uploading"); /* the stream does not wait for the default one */
}

/* ---- a prompt --------------------------------------------------------------------------------------------------------- */
static void begin(const shard *s, const int32_t *tokens, ptxpack_sampling_row draw)
{
    struct step_input *in = step_input(s->step);
    for (const chunk *c = s->chunk; c < s->chunk + CHUNKS; c++)
        memcpy(in->tokens + c->at, tokens + c->first, (size_t)c->rows * sizeof *tokens);
    in->draw[0] = draw;
    gpu_enter(&s->m->device);
    step_begin(s->step);
}

static void rotate(const shard *s)
{
    const config   *c = &s->m->config;
    const uint64_t  head = (uint64_t)c->head_dim * 2, q = (uint64_t)c->heads * head, kv = (uint64_t)c->heads_kv * head;
    for (const chunk *part = s->chunk; part < s->chunk + CHUNKS; part++) {
        const uint64_t at = (uint64_t)part->at, angles = (uint64_t)part->first * head / 2;
        const uint64_t from = step_rows(s->step).qkv + at * (q + 2 * kv);
        ptxpack_attention_append_buffers buffers = {.size = sizeof buffers, .q = from, .k_new = from + q, .v_new = from + q + kv,
                                                    .q_out = s->q + at * q, .k = s->k + at * kv, .v = s->v + at * kv,
                                                    .cos = s->m->cos + angles, .sin = s->m->sin + angles,
                                                    .lengths_kv = part->length, .launch = PTXPACK_LAUNCH_OVERLAP};
        try_pack(&s->m->device, ptxpack_attention_append(part->rotate, &buffers, s->m->device.stream));
    }
}

static void attend(const shards *s)
{
    ptxpack_attention_parallel_buffers at[MOST_GPUS];
    for (int i = 0; i < s->count; i++) {
        const shard *one = &s->shard[i];
        at[i] = (ptxpack_attention_parallel_buffers){.size = sizeof *at, .q = one->q, .k = one->k, .v = one->v,
                                                     .o = step_rows(one->step).o, .workspace = one->workspace,
                                                     .stream = one->m->device.stream};
    }
    try_pack(&s->shard[0].m->device, ptxpack_attention_parallel_launch(s->attention, at));
}

/* Rows of k or v go to their pages; pages that follow each other take one copy. */
static void keep(const shard *from, const model *to, uint64_t rows, uint64_t cache, const int32_t *pages)
{
    const int      page = to->limits.page_rows;
    const uint64_t row = (uint64_t)(to->config.heads_kv * to->config.head_dim) * 2;
    for (const chunk *c = from->chunk; c < from->chunk + CHUNKS; c++)
        for (int i = c->first, end = i + c->rows, next; i < end; i = next) {
            for (next = (i / page + 1) * page; next < end && pages[next / page] == pages[next / page - 1] + 1;)
                next += page;
            next = next < end ? next : end;
            gpu_send(&from->m->device, rows + (uint64_t)(c->at + i - c->first) * row, &to->device,
                     cache + ((uint64_t)pages[i / page] * (uint64_t)page + (uint64_t)(i % page)) * row, (uint64_t)(next - i) * row);
        }
}

static void keep_choices(const shard *from, int32_t *experts)
{
    const size_t each = (size_t)(from->m->config.layers * from->m->config.top_k);
    for (const chunk *c = from->chunk; c < from->chunk + CHUNKS; c++)
        for (int i = 0; i < c->rows; i++)
            step_choices(from->step, c->at + i, experts + (size_t)(c->first + i) * each);
}

int32_t shards_prefill(shards *s, const int32_t *tokens, int count, const int32_t *pages, ptxpack_sampling_row draw, step **from,
                       int32_t *experts)
{
    const model        *first = s->shard[0].m;
    struct CUstream_st *streams[MOST_GPUS];
    if (s->rows != count) {
        close_plans(s);
        s->rows = count;
        open_attention(s);
        for (int i = 0; i < s->count; i++)
            open_shard(s, i);
    }
    for (int i = 0; i < s->count; i++) {
        begin(&s->shard[i], tokens, draw);
        streams[i] = s->shard[i].m->device.stream;
    }
    for (int layer = 0; layer < first->config.layers; layer++) {
        for (const shard *one = s->shard; one < s->shard + s->count; one++) {
            step_before(one->step, &one->m->layers[layer]);
            rotate(one);
        }
        attend(s);
        for (const shard *one = s->shard; one < s->shard + s->count; one++) {
            gpu_enter(&one->m->device);
            keep(one, first, one->k, first->layers[layer].k, pages);
            keep(one, first, one->v, first->layers[layer].v, pages);
            step_after(one->step, &one->m->layers[layer]);
        }
    }
    gpu_enter(&first->device);
    const int32_t *token = step_end(s->shard[0].step);
    try_pack(&first->device, ptxpack_parallel_wait(s->group, streams));
    for (int i = 0; i < s->count && experts != NULL; i++)
        keep_choices(&s->shard[i], experts);
    *from = s->shard[0].step;
    return token[0];
}
