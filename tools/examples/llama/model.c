/* model.c - the checkpoint's tensors by their part in the model; weights, rotary tables and the cache on the device.  Products with
 * one input are one product: q, k and v are one matrix, of the checkpoint's matrices one after another, and so are gate and up.
 * Experts follow each other. */
#include "llama.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct part {
    const char *name;
    int         rows, columns; /* rows 0: the model has none; columns 0: a vector */
} part;

static part part_of(const config *c, int index)
{
    bool       mixtral = strcmp(c->family, "mixtral") == 0;
    int        q = c->heads * c->head_dim, k = c->heads_kv * c->head_dim, in = c->hidden, dim = c->qk_norm ? c->head_dim : 0;
    const part parts[LAYER_TENSORS] = {
        [NORM_1] = {"input_layernorm.weight", in, 0},
        [Q] = {"self_attn.q_proj.weight", q, in},
        [K] = {"self_attn.k_proj.weight", k, in},
        [V] = {"self_attn.v_proj.weight", k, in},
        [Q_BIAS] = {"self_attn.q_proj.bias", c->qkv_bias ? q : 0, 0},
        [K_BIAS] = {"self_attn.k_proj.bias", c->qkv_bias ? k : 0, 0},
        [V_BIAS] = {"self_attn.v_proj.bias", c->qkv_bias ? k : 0, 0},
        [Q_NORM] = {"self_attn.q_norm.weight", dim, 0},
        [K_NORM] = {"self_attn.k_norm.weight", dim, 0},
        [O] = {"self_attn.o_proj.weight", in, q},
        [O_BIAS] = {"self_attn.o_proj.bias", c->o_bias ? in : 0, 0},
        [NORM_2] = {"post_attention_layernorm.weight", in, 0},
        [ROUTER] = {mixtral ? "block_sparse_moe.gate.weight" : "mlp.gate.weight", c->experts, in},
        [GATE] = {"mlp.gate_proj.weight", c->inner, in},
        [UP] = {"mlp.up_proj.weight", c->inner, in},
        [DOWN] = {"mlp.down_proj.weight", in, c->inner},
        [GATE_BIAS] = {"mlp.gate_proj.bias", c->mlp_bias ? c->inner : 0, 0},
        [UP_BIAS] = {"mlp.up_proj.bias", c->mlp_bias ? c->inner : 0, 0},
        [DOWN_BIAS] = {"mlp.down_proj.bias", c->mlp_bias ? in : 0, 0},
    };
    return parts[index];
}

size_t weights_elements(const config *c, int index)
{
    part p = part_of(c, index);
    return (size_t)p.rows * (size_t)(p.columns != 0 ? p.columns : 1);
}

const void *const *weights_mlp(const config *c, const weights *w, int layer, int expert)
{
    return c->experts != 0 ? w->experts[layer * c->experts + expert] : &w->layers[layer][GATE];
}

static void take_experts(const config *c, checkpoint *from, weights *out, int layer)
{
    const bool        mixtral = strcmp(c->family, "mixtral") == 0;
    const char *const names[2][3] = {{"gate_proj", "up_proj", "down_proj"}, {"w1", "w3", "w2"}};
    char              name[128];
    for (int i = 0; i < 3 * c->experts; i++) {
        part p = part_of(c, GATE + i % 3);
        snprintf(name, sizeof name, "model.layers.%d.%s.experts.%d.%s.weight", layer, mixtral ? "block_sparse_moe" : "mlp", i / 3,
                 names[mixtral][i % 3]);
        out->experts[layer * c->experts + i / 3][i % 3] = checkpoint_take(from, name, p.rows, p.columns);
    }
}

void weights_take(const config *c, checkpoint *from, weights *out)
{
    char name[128];
    out->experts = (const void *(*)[3])allocate((size_t)c->layers * (size_t)c->experts, sizeof *out->experts);
    out->matrices = (ptxpack_dtype)0;
    out->layers = (const void *(*)[LAYER_TENSORS])allocate((size_t)c->layers, sizeof *out->layers);
    out->embedding = checkpoint_take(from, "model.embed_tokens.weight", c->vocab, c->hidden);
    out->norm = checkpoint_take(from, "model.norm.weight", c->hidden, 0);
    /* Where it is tied, a file may have a copy, which transformers does not read either. */
    bool own = !c->tied || checkpoint_has(from, "lm_head.weight");
    const void *head = own ? checkpoint_take(from, "lm_head.weight", c->vocab, c->hidden) : NULL;
    out->head = c->tied ? out->embedding : head;
    for (int i = 0; i < c->layers; i++) {
        for (int index = 0; index < LAYER_TENSORS; index++) {
            part p = part_of(c, index);
            bool one = p.rows != 0 && (c->experts == 0 || index < GATE || index > DOWN);
            snprintf(name, sizeof name, "model.layers.%d.%s", i, p.name);
            out->layers[i][index] = one ? checkpoint_take(from, name, p.rows, p.columns) : NULL;
        }
        take_experts(c, from, out, i);
    }
    checkpoint_all_taken(from);
    out->dtype = checkpoint_dtype(from);
}

static uint64_t upload(model *m, const void *host, size_t bytes)
{
    uint64_t to = gpu_memory(&m->device, bytes);
    gpu_write(&m->device, to, host, bytes);
    return to;
}

/* Whether it is one of e4m3: all matrices but the router, which decides, and is small. */
static bool is_rounded(const model *m, int index)
{
    return m->matrices != 0 && part_of(&m->config, index).columns != 0 && index != ROUTER;
}

/* Room for so many matrices of `rows` rows: of 16 bits, or of codes and scales. */
static void make_room(model *m, model_layer *layer, int index, size_t matrices, size_t rows)
{
    const part   p = part_of(&m->config, index);
    const size_t elements = matrices * rows * (size_t)(p.columns != 0 ? p.columns : 1);
    layer->part[index] = gpu_memory(&m->device, is_rounded(m, index) ? elements : 2 * elements);
    layer->scale[index] = is_rounded(m, index) ? gpu_memory(&m->device, matrices * rows * sizeof(float)) : 0;
}

/* Makes codes and scales of the i-th matrix, which the stream has written to m->wide. */
static void quantise(model *m, const model_layer *layer, int index, size_t i, size_t rows)
{
    int                      columns = part_of(&m->config, index).columns;
    ptxpack_quantise_desc    desc = {.size = sizeof desc, .dtype = m->dtype, .rows = (int)rows, .columns = columns,
                                     .options = PTXPACK_QUANTISE_POWERS};
    ptxpack_quantise_buffers at = {.size = sizeof at, .x = m->wide, .codes = layer->part[index] + i * rows * (size_t)columns,
                                   .scales = layer->scale[index] + i * rows * sizeof(float)};
    ptxpack_quantise_plan   *plan;
    try_pack(&m->device, ptxpack_quantise_plan_create(m->device.pack, &desc, &plan));
    try_pack(&m->device, ptxpack_quantise(plan, &at, m->device.stream));
    ptxpack_quantise_plan_free(plan);
}

size_t model_bytes(const model *m, int index)
{
    part   p = part_of(&m->config, index);
    size_t elements = weights_elements(&m->config, index);
    return is_rounded(m, index) ? elements + (size_t)p.rows * sizeof(float) : elements * 2;
}

/* The parts first .. last of a layer, one after another; none if the model has none of them. */
static void upload_parts(model *m, model_layer *layer, const void *const *host, int first, int last)
{
    size_t rows = 0;
    for (int i = first; i <= last; i++)
        rows += (size_t)part_of(&m->config, i).rows;
    if (rows == 0)
        return;
    make_room(m, layer, first, 1, rows);
    uint64_t at = is_rounded(m, first) ? m->wide : layer->part[first];
    for (int i = first; i <= last; at += weights_elements(&m->config, i++) * 2)
        gpu_write(&m->device, at, host[i], weights_elements(&m->config, i) * 2);
    if (is_rounded(m, first))
        quantise(m, layer, first, 0, rows);
}

/* PTXPACK_ACTIVATION_SWIGLU wants 8 rows of the gate, then 8 of what it multiplies, which is parts[1], and so on. */
static void write_gated(model *m, uint64_t to, const void *const parts[2], int gate)
{
    size_t bytes = weights_elements(&m->config, gate) * 2;
    gpu_write_mixed(&m->device, to, parts, 2, bytes / (size_t)m->config.inner * 8, 2 * bytes);
}

/* GATE with UP, or DOWN, of every expert, or of the one that all rows have. */
static void upload_mlp_part(model *m, const weights *w, int layer, int index)
{
    const config *c = &m->config;
    model_layer  *to = &m->layers[layer];
    const size_t  experts = c->experts != 0 ? (size_t)c->experts : 1, rows = index == GATE ? 2 * (size_t)c->inner : (size_t)c->hidden;
    const size_t  bytes = rows * (size_t)part_of(c, index).columns * 2;
    make_room(m, to, index, experts, rows);
    for (size_t i = 0; i < experts; i++) {
        const void *const *from = weights_mlp(c, w, layer, (int)i);
        const uint64_t     at = is_rounded(m, index) ? m->wide : to->part[index] + i * bytes;
        if (index == GATE)
            write_gated(m, at, from, GATE);
        else
            gpu_write(&m->device, at, from[2], bytes);
        if (is_rounded(m, index))
            quantise(m, to, index, i, rows);
    }
}

static void upload_mlp(model *m, const weights *w, int index)
{
    const config *c = &m->config;
    upload_mlp_part(m, w, index, GATE);
    upload_mlp_part(m, w, index, DOWN);
    if (c->mlp_bias) {
        m->layers[index].part[GATE_BIAS] = gpu_memory(&m->device, weights_elements(c, GATE_BIAS) * 4);
        write_gated(m, m->layers[index].part[GATE_BIAS], &w->layers[index][GATE_BIAS], GATE_BIAS);
    }
}

bool model_widens_experts(const config *c, int tokens)
{
    return c->experts != 0 && (int64_t)tokens * c->top_k > (int64_t)EXPERT_ROWS * c->experts;
}

/* Of the largest of a layer's matrices in 16 bits; of experts of all of them, if a step can have so many rows. */
static size_t wide_bytes(const config *c, const limits *l)
{
    const int rows = l->gpus > 1 ? l->length : l->chunk > l->slots ? l->chunk : l->slots;
    size_t    qkv = weights_elements(c, Q) + 2 * weights_elements(c, K), mlp = 2 * weights_elements(c, GATE);
    mlp *= model_widens_experts(c, rows) ? (size_t)c->experts : 1;
    return 2 * (qkv > mlp ? qkv : mlp); /* O is no larger than Q, and DOWN than GATE */
}

static uint64_t upload_angles(model *m, double (*function)(double))
{
    size_t    pairs = (size_t)m->config.head_dim / 2, count = (size_t)m->limits.length * pairs;
    uint16_t *table = (uint16_t *)allocate(count, sizeof *table);
    for (size_t pair = 0; pair < pairs; pair++) {
        const double frequency = config_frequency(&m->config, (int)pair);
        for (size_t i = pair; i < count; i += pairs)
            ptxpack_set_element(m->dtype, table, i, (float)function((double)(i / pairs) * frequency));
    }
    uint64_t to = upload(m, table, count * sizeof *table);
    free(table);
    return to;
}

void model_load(model *m, const config *c, const limits *l, const weights *w, int device)
{
    static const int groups[][2] = {{NORM_1, NORM_1}, {Q, V}, {Q_BIAS, V_BIAS}, {Q_NORM, Q_NORM}, {K_NORM, K_NORM}, {O, O},
                                    {O_BIAS, O_BIAS}, {NORM_2, NORM_2}, {ROUTER, ROUTER}, {DOWN_BIAS, DOWN_BIAS}};
    size_t hidden = (size_t)c->hidden * 2, matrix = (size_t)c->vocab * hidden; /* bytes */
    size_t cache = (size_t)l->pages * (size_t)l->page_rows * (size_t)c->heads_kv * (size_t)c->head_dim * 2;
    *m = (model){.config = *c, .limits = *l, .dtype = w->dtype, .matrices = w->matrices};
    gpu_open(&m->device, device);
    if (device == 0 && l->gpus > 1)
        gpu_need(&m->device, l->gpus);
    m->table_width = (l->length + l->page_rows - 1) / l->page_rows;
    m->vocab_stride = (c->vocab + 7) / 8 * 8;
    m->embedding = upload(m, w->embedding, matrix);
    m->head = c->tied ? m->embedding : upload(m, w->head, matrix);
    m->norm = upload(m, w->norm, hidden);
    m->cos = upload_angles(m, cos);
    m->sin = upload_angles(m, sin);
    m->wide = m->matrices != 0 ? gpu_memory(&m->device, wide_bytes(c, l)) : 0;
    m->layers = (model_layer *)allocate((size_t)c->layers, sizeof *m->layers);
    for (int i = 0; i < c->layers; i++) {
        for (size_t j = 0; j < sizeof groups / sizeof *groups; j++)
            upload_parts(m, &m->layers[i], w->layers[i], groups[j][0], groups[j][1]);
        upload_mlp(m, w, i);
        m->layers[i].k = gpu_memory(&m->device, cache);
        m->layers[i].v = gpu_memory(&m->device, cache);
    }
    try_cuda(&m->device, m->device.cuda->cuStreamSynchronize(m->device.stream), "uploading");
}

void model_free(model *m)
{
    free(m->layers);
    gpu_close(&m->device);
}
