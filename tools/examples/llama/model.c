/* model.c - weights, rotary tables and the cache on the device.  Products with one input are one product: q, k and v, and gate
 * and up, are one matrix each, whose rows are those of the checkpoint's matrices one after another. */
#include "llama.h"

#include <math.h>
#include <stdlib.h>

static uint64_t upload(model *m, const void *host, size_t elements)
{
    uint64_t to = device_memory(&m->device, elements * 2);
    device_write(&m->device, to, host, elements * 2);
    return to;
}

/* The parts first .. last of a layer, one after another; 0 if the model has none of them. */
static uint64_t upload_parts(model *m, const void *const *host, int first, int last)
{
    size_t all = 0;
    for (int part = first; part <= last; part++)
        all += layer_elements(&m->config, part);
    uint64_t to = all != 0 ? device_memory(&m->device, all * 2) : 0, at = to;
    for (int part = first; part <= last && all != 0; at += layer_elements(&m->config, part++) * 2)
        device_write(&m->device, at, host[part], layer_elements(&m->config, part) * 2);
    return to;
}

static uint64_t upload_angles(model *m, double (*function)(double))
{
    size_t    pairs = (size_t)m->config.head_dim / 2, count = (size_t)m->limits.length * pairs;
    uint16_t *table = (uint16_t *)allocate(count, sizeof *table);
    for (size_t i = 0; i < count; i++)
        ptxpack_set_element(m->dtype, table, i,
                            (float)function((double)(i / pairs) * config_frequency(&m->config, (int)(i % pairs))));
    uint64_t to = upload(m, table, count);
    free(table);
    return to;
}

void model_load(model *m, const config *c, const limits *l, const weights *w)
{
    size_t hidden = (size_t)c->hidden, matrix = (size_t)c->vocab * hidden;
    size_t cache = (size_t)l->pages * (size_t)l->page_rows * (size_t)c->heads_kv * (size_t)c->head_dim * 2;
    *m = (model){.config = *c, .limits = *l, .dtype = w->dtype};
    device_open(&m->device, m->dtype);
    m->table_width = (l->length + l->page_rows - 1) / l->page_rows;
    m->vocab_stride = (c->vocab + 7) / 8 * 8;
    m->embedding = upload(m, w->embedding, matrix);
    m->head = c->tied ? m->embedding : upload(m, w->head, matrix);
    m->norm = upload(m, w->norm, hidden);
    m->cos = upload_angles(m, cos);
    m->sin = upload_angles(m, sin);
    m->layers = (model_layer *)allocate((size_t)c->layers, sizeof *m->layers);
    for (int i = 0; i < c->layers; i++) {
        const void *const *host = w->layers[i];
        m->layers[i] = (model_layer){.norm_1 = upload_parts(m, host, NORM_1, NORM_1),
                                     .qkv = upload_parts(m, host, Q, V),
                                     .qkv_bias = upload_parts(m, host, Q_BIAS, V_BIAS),
                                     .q_norm = upload_parts(m, host, Q_NORM, Q_NORM),
                                     .k_norm = upload_parts(m, host, K_NORM, K_NORM),
                                     .o = upload_parts(m, host, O, O),
                                     .o_bias = upload_parts(m, host, O_BIAS, O_BIAS),
                                     .norm_2 = upload_parts(m, host, NORM_2, NORM_2),
                                     .gate_up = upload_parts(m, host, GATE, UP),
                                     .gate_up_bias = upload_parts(m, host, GATE_BIAS, UP_BIAS),
                                     .down = upload_parts(m, host, DOWN, DOWN),
                                     .down_bias = upload_parts(m, host, DOWN_BIAS, DOWN_BIAS),
                                     .k = device_memory(&m->device, cache),
                                     .v = device_memory(&m->device, cache)};
    }
}

void model_free(model *m)
{
    free(m->layers);
    device_close(&m->device);
}
