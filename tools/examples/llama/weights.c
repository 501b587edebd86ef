/* weights.c - the checkpoint's tensors by their part in the model. */
#include "llama.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct part {
    const char *name;
    int         rows, columns; /* rows 0: the model has none; columns 0: a vector */
} part;

static part part_of(const config *c, int index)
{
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
        [GATE] = {"mlp.gate_proj.weight", c->inner, in},
        [UP] = {"mlp.up_proj.weight", c->inner, in},
        [GATE_BIAS] = {"mlp.gate_proj.bias", c->mlp_bias ? c->inner : 0, 0},
        [UP_BIAS] = {"mlp.up_proj.bias", c->mlp_bias ? c->inner : 0, 0},
        [DOWN] = {"mlp.down_proj.weight", in, c->inner},
        [DOWN_BIAS] = {"mlp.down_proj.bias", c->mlp_bias ? in : 0, 0},
    };
    return parts[index];
}

size_t layer_elements(const config *c, int index)
{
    part p = part_of(c, index);
    return (size_t)p.rows * (size_t)(p.columns != 0 ? p.columns : 1);
}

void weights_take(const config *c, checkpoint *from, weights *out)
{
    char name[128];
    out->dtype = checkpoint_dtype(from);
    out->layers = (const void *(*)[LAYER_TENSORS])allocate((size_t)c->layers, sizeof *out->layers);
    out->embedding = checkpoint_take(from, "model.embed_tokens.weight", c->vocab, c->hidden);
    out->norm = checkpoint_take(from, "model.norm.weight", c->hidden, 0);
    /* Where it is tied, a file may have a copy, which transformers does not read either. */
    bool own = !c->tied || checkpoint_has(from, "lm_head.weight");
    const void *head = own ? checkpoint_take(from, "lm_head.weight", c->vocab, c->hidden) : NULL;
    out->head = c->tied ? out->embedding : head;
    for (int i = 0; i < c->layers; i++)
        for (int index = 0; index < LAYER_TENSORS; index++) {
            part p = part_of(c, index);
            snprintf(name, sizeof name, "model.layers.%d.%s", i, p.name);
            out->layers[i][index] = p.rows != 0 ? checkpoint_take(from, name, p.rows, p.columns) : NULL;
        }
    checkpoint_all_taken(from);
}
