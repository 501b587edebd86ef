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
    out->quantised = NULL;
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

/* The codes of 16-bit elements times 2^-exponent. */
static const uint8_t *codes_of(ptxpack_dtype dtype, int exponent)
{
    static uint8_t *tables[320]; /* of bf16 and f16, so many powers */
    uint8_t       **table = &tables[exponent + 160];
    if (*table == NULL) {
        *table = (uint8_t *)allocate(65536, 1);
        for (int bits = 0; bits < 65536; bits++)
            (*table)[bits] = (uint8_t)ptxpack_from_float(PTXPACK_E4M3, ldexpf(ptxpack_to_float(dtype, (uint16_t)bits), -exponent));
    }
    return *table;
}

/* The scale of a row is the least power of two with which no element exceeds the 448 of e4m3: multiplying by it is exact. */
static void quantise(const uint16_t *from, ptxpack_dtype dtype, part p, float *scales)
{
    uint8_t *to = (uint8_t *)(scales + p.rows);
    for (int i = 0; i < p.rows; i++, from += p.columns, to += p.columns) {
        int most = 0, exponent = 0;
        for (int j = 0; j < p.columns; j++)
            most = (from[j] & 0x7fff) > most ? from[j] & 0x7fff : most;
        NEED(isfinite(ptxpack_to_float(dtype, (uint16_t)most)), "a row of %s has an element that is not finite", p.name);
        frexpf(ptxpack_to_float(dtype, (uint16_t)most) / 448, &exponent);
        const uint8_t *codes = codes_of(dtype, exponent);
        for (int j = 0; j < p.columns; j++)
            to[j] = codes[from[j]];
        scales[i] = ldexpf(1, exponent);
    }
}

static size_t scale_bytes(part p) { return p.columns != 0 ? (size_t)p.rows * sizeof(float) : 0; }

void weights_quantise(const config *c, weights *w)
{
    NEED(c->experts == 0, "weights of e4m3: those of experts are not rounded");
    size_t layer = 0;
    for (int index = 0; index < LAYER_TENSORS; index++)
        layer += scale_bytes(part_of(c, index)) != 0 ? scale_bytes(part_of(c, index)) + weights_elements(c, index) : 0;
    char *at = (char *)(w->quantised = allocate((size_t)c->layers, layer));
    for (int i = 0; i < c->layers; i++)
        for (int index = 0; index < LAYER_TENSORS; index++) {
            part p = part_of(c, index);
            if (scale_bytes(p) == 0)
                continue;
            quantise((const uint16_t *)w->layers[i][index], w->dtype, p, (float *)at);
            w->layers[i][index] = at + scale_bytes(p);
            at += scale_bytes(p) + weights_elements(c, index);
        }
}

static uint64_t upload(model *m, const void *host, size_t bytes)
{
    uint64_t to = gpu_memory(&m->device, bytes);
    gpu_write(&m->device, to, host, bytes);
    return to;
}

size_t model_bytes(const model *m, int index, bool scales)
{
    size_t bytes = m->matrices != 0 ? scale_bytes(part_of(&m->config, index)) : 0;
    return scales ? bytes : weights_elements(&m->config, index) * (bytes != 0 ? 1 : 2);
}

/* The parts first .. last of a layer, or their scales, one after another; 0 if the model has none of them. */
static uint64_t upload_parts(model *m, const void *const *host, int first, int last, bool scales)
{
    size_t all = 0;
    for (int i = first; i <= last; i++)
        all += model_bytes(m, i, scales);
    uint64_t to = all != 0 ? gpu_memory(&m->device, all) : 0, at = to;
    for (int i = first; i <= last && all != 0; at += model_bytes(m, i++, scales))
        gpu_write(&m->device, at, (const char *)host[i] - (scales ? model_bytes(m, i, true) : 0), model_bytes(m, i, scales));
    return to;
}

/* PTXPACK_ACTIVATION_SWIGLU wants 8 rows of the gate, then 8 of what it multiplies, which is parts[1], and so on. */
static void write_gated(model *m, uint64_t to, const void *const parts[2], int gate, bool scales)
{
    size_t   bytes = model_bytes(m, gate, scales), piece = bytes / (size_t)m->config.inner * 8, before = scales ? bytes : 0;
    char    *both = (char *)allocate(2, bytes);
    for (size_t at = 0; at < bytes; at += piece) {
        memcpy(both + 2 * at, (const char *)parts[0] - before + at, piece);
        memcpy(both + 2 * at + piece, (const char *)parts[1] - before + at, piece);
    }
    gpu_write(&m->device, to, both, 2 * bytes);
    free(both);
}

/* The matrices of every expert, or of the one that all rows have, and their scales. */
static void upload_mlp(model *m, const weights *w, int layer)
{
    size_t experts = m->config.experts != 0 ? (size_t)m->config.experts : 1;
    for (int scales = 0; scales < (m->matrices != 0 ? 2 : 1); scales++) {
        uint64_t *at = scales != 0 ? m->layers[layer].scale : m->layers[layer].part;
        size_t    gate = model_bytes(m, GATE, scales != 0), down = model_bytes(m, DOWN, scales != 0);
        at[GATE] = gpu_memory(&m->device, experts * gate * 2);
        at[DOWN] = gpu_memory(&m->device, experts * down);
        for (size_t i = 0; i < experts; i++) {
            const void *const *mlp = weights_mlp(&m->config, w, layer, (int)i);
            write_gated(m, at[GATE] + i * gate * 2, mlp, GATE, scales != 0);
            gpu_write(&m->device, at[DOWN] + i * down, (const char *)mlp[2] - (scales != 0 ? down : 0), down);
        }
    }
    if (model_bytes(m, GATE_BIAS, false) != 0) {
        m->layers[layer].part[GATE_BIAS] = gpu_memory(&m->device, model_bytes(m, GATE_BIAS, false) * 2);
        write_gated(m, m->layers[layer].part[GATE_BIAS], &w->layers[layer][GATE_BIAS], GATE_BIAS, false);
    }
}

static uint64_t upload_angles(model *m, double (*function)(double))
{
    size_t    pairs = (size_t)m->config.head_dim / 2, count = (size_t)m->limits.length * pairs;
    uint16_t *table = (uint16_t *)allocate(count, sizeof *table);
    for (size_t i = 0; i < count; i++)
        ptxpack_set_element(m->dtype, table, i,
                            (float)function((double)(i / pairs) * config_frequency(&m->config, (int)(i % pairs))));
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
    *m = (model){.config = *c, .limits = *l, .dtype = w->dtype, .matrices = w->quantised != NULL ? PTXPACK_E4M3 : (ptxpack_dtype)0};
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
    m->layers = (model_layer *)allocate((size_t)c->layers, sizeof *m->layers);
    for (int i = 0; i < c->layers; i++) {
        for (size_t j = 0; j < sizeof groups / sizeof *groups; j++) {
            m->layers[i].part[groups[j][0]] = upload_parts(m, w->layers[i], groups[j][0], groups[j][1], false);
            m->layers[i].scale[groups[j][0]] = upload_parts(m, w->layers[i], groups[j][0], groups[j][1], true);
        }
        upload_mlp(m, w, i);
        m->layers[i].k = gpu_memory(&m->device, cache);
        m->layers[i].v = gpu_memory(&m->device, cache);
    }
}

void model_free(model *m)
{
    free(m->layers);
    gpu_close(&m->device);
}
