/* config.c - config.json of the families that README.md names, as transformers 4 and 5 write it.  What is absent has
 * the default of the family's class there.  What would change the numbers and is not computed here is refused by name. */
#include "llama.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef struct source {
    const char *path;
    const json *root;
} source;

static bool same(const char *a, const char *b) { return strcmp(a, b) == 0; }

static bool flag(const source *s, const char *name)
{
    const json *value = json_member(s->root, name);
    NEED(value == NULL || value->kind == JSON_TRUE || value->kind == JSON_FALSE, "%s: %s is neither true nor false", s->path, name);
    return value != NULL && value->kind == JSON_TRUE;
}

/* A whole number from 1 to 2^24; fallback 0: it must be there. */
static int whole(const source *s, const char *name, int fallback)
{
    const json *value = json_member(s->root, name);
    uint64_t    number = (uint64_t)fallback;
    NEED((value == NULL || json_whole(value, &number)) && number >= 1 && number <= 1 << 24,
         "%s: %s is not a whole number from 1 to 2^24", s->path, name);
    return (int)number;
}

static double positive(const source *s, const json *object, const char *name, double fallback)
{
    const json *value = json_member(object, name);
    double      number = value == NULL ? fallback : value->kind == JSON_NUMBER ? value->number : 0;
    NEED(number > 0 && number < INFINITY, "%s: %s is not a number above 0", s->path, name);
    return number;
}

static const char *word(const source *s, const json *object, const char *name, const char *fallback)
{
    const json *value = json_member(object, name);
    NEED(value == NULL ? fallback != NULL : value->kind == JSON_STRING, "%s: %s is missing, or no string", s->path, name);
    return value != NULL ? value->text : fallback;
}

/* Two places and two names: rope_theta and rope_scaling with "type" before transformers 5, rope_parameters since. */
static void read_rotary(const source *s, config *c)
{
    const json *scaling = json_member(s->root, "rope_parameters");
    scaling = scaling != NULL ? scaling : json_member(s->root, "rope_scaling");
    for (const json *member = scaling != NULL ? scaling->first : NULL; member != NULL; member = member->next)
        NEED(member->kind != JSON_OBJECT, "%s: rotary parameters of layers of a kind, %s, are not supported", s->path, member->name);
    c->theta = positive(s, json_member(scaling, "rope_theta") != NULL ? scaling : s->root, "rope_theta", same(c->family, "mixtral") ? 1e6 : 10000);
    const char *type = word(s, scaling, "rope_type", word(s, scaling, "type", "default"));
    NEED(positive(s, scaling, "partial_rotary_factor", 1) == 1 && positive(s, s->root, "partial_rotary_factor", 1) == 1,
         "%s: a partial_rotary_factor other than 1 is not supported", s->path);
    c->scaled = same(type, "llama3");
    NEED(c->scaled || same(type, "default"), "%s: rope_type %s is not supported, default and llama3 are", s->path, type);
    if (!c->scaled)
        return;
    c->factor = positive(s, scaling, "factor", 0);
    c->low = positive(s, scaling, "low_freq_factor", 0);
    c->high = positive(s, scaling, "high_freq_factor", 0);
    c->original = positive(s, scaling, "original_max_position_embeddings", 0);
    NEED(c->high > c->low, "%s: high_freq_factor is not above low_freq_factor", s->path);
}

/* Mistral's window is of all layers, and Mixtral's.  Qwen's is of some, if use_sliding_window says so. */
static void read_window(const source *s, config *c)
{
    const json *types = json_member(s->root, "layer_types"), *window = s->root->first;
    bool        mistral = same(c->family, "mistral"), all_layers = mistral || same(c->family, "mixtral");
    while (window != NULL && !same(window->name, "sliding_window"))
        window = window->next;
    NEED(!flag(s, "use_sliding_window"), "%s: use_sliding_window is not supported", s->path);
    NEED(!mistral || window != NULL, "%s: sliding_window is missing; null is none", s->path);
    bool windowed = window != NULL && window->kind != JSON_NULL;
    NEED(!windowed || !same(c->family, "llama"), "%s: sliding_window is not supported in llama", s->path);
    c->window = all_layers && windowed ? whole(s, "sliding_window", 0) : 0;
    const char *all = c->window != 0 ? "sliding_attention" : "full_attention";
    for (const json *type = types != NULL ? types->first : NULL; type != NULL; type = type->next)
        NEED(type->kind == JSON_STRING && same(type->text, all), "%s: layer_types other than %s are not supported here", s->path, all);
}

static void read_stops(const source *s, config *c)
{
    const json *stop = json_member(s->root, "eos_token_id");
    bool        many = stop != NULL && stop->kind == JSON_ARRAY;
    uint64_t    token;
    for (stop = many ? stop->first : stop; stop != NULL; stop = many ? stop->next : NULL) {
        NEED(json_whole(stop, &token) && token <= INT32_MAX && c->stops < (int)(sizeof c->stop / sizeof *c->stop),
             "%s: eos_token_id is not up to 8 tokens", s->path);
        c->stop[c->stops++] = (int)token;
    }
}

static void read_family(const source *s, config *c)
{
    static const char *const families[] = {"llama", "mistral", "qwen2", "qwen3", "mixtral", "qwen3_moe"};
    const char              *type = word(s, s->root, "model_type", NULL);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        c->family = same(type, families[i]) ? families[i] : c->family;
    NEED(c->family != NULL, "%s: model_type %s is not supported, llama, mistral, qwen2, qwen3, mixtral and qwen3_moe are", s->path, type);
    bool biased = !same(type, "mistral") && !same(type, "mixtral") && !same(type, "qwen2") && flag(s, "attention_bias");
    c->qk_norm = same(type, "qwen3") || same(type, "qwen3_moe");
    c->qkv_bias = biased || same(type, "qwen2");
    c->o_bias = biased;
    c->mlp_bias = same(type, "llama") && flag(s, "mlp_bias");
}

/* c->inner is that of an expert. */
static void read_experts(const source *s, config *c)
{
    const json *dense = json_member(s->root, "mlp_only_layers");
    bool        qwen = same(c->family, "qwen3_moe");
    c->inner = whole(s, qwen ? "moe_intermediate_size" : "intermediate_size", qwen ? 768 : 0);
    if (!qwen && !same(c->family, "mixtral"))
        return;
    c->experts = whole(s, qwen ? "num_experts" : "num_local_experts", qwen ? 128 : 8);
    c->top_k = whole(s, "num_experts_per_tok", qwen ? 8 : 2);
    c->normalise = !qwen || flag(s, "norm_topk_prob");
    NEED(c->experts <= 512 && c->top_k <= 16 && c->top_k <= c->experts, "%s: %d of %d experts are not supported, 16 of 512 are", s->path,
         c->top_k, c->experts);
    NEED(!qwen || ((dense == NULL || dense->first == NULL) && whole(s, "decoder_sparse_step", 1) == 1),
         "%s: layers without experts (mlp_only_layers, decoder_sparse_step) are not supported", s->path);
}

void config_read(const char *folder, config *c)
{
    char   path[4096];
    size_t bytes;
    NEED(snprintf(path, sizeof path, "%s/config.json", folder) < (int)sizeof path, "%s: the path is too long", folder);
    const char  *text = map_file(path, &bytes);
    json        *root = json_read(text, bytes, path);
    const source s = {path, root};
    *c = (config){0};
    NEED(root->kind == JSON_OBJECT, "%s: no object", path);
    read_family(&s, c);
    NEED(json_member(root, "quantization_config") == NULL, "%s: quantization_config is not supported", path);
    const char *activation = word(&s, root, "hidden_act", "silu");
    NEED(same(activation, "silu"), "%s: hidden_act %s is not supported, silu is", path, activation);
    c->layers = whole(&s, "num_hidden_layers", 0);
    c->hidden = whole(&s, "hidden_size", 0);
    read_experts(&s, c);
    c->vocab = whole(&s, "vocab_size", 0);
    c->positions = whole(&s, "max_position_embeddings", 1 << 24);
    c->heads = whole(&s, "num_attention_heads", 0);
    c->heads_kv = whole(&s, "num_key_value_heads", same(c->family, "llama") ? c->heads : 0);
    c->head_dim = whole(&s, "head_dim", same(c->family, "qwen3") ? 128 : c->hidden / c->heads);
    c->tied = flag(&s, "tie_word_embeddings");
    c->eps = positive(&s, root, "rms_norm_eps", same(c->family, "mixtral") ? 1e-5 : 1e-6);
    NEED(c->heads % c->heads_kv == 0, "%s: num_attention_heads is no multiple of num_key_value_heads", path);
    NEED(c->hidden % 8 == 0 && c->inner % 8 == 0 && c->head_dim % 16 == 0 && c->heads <= 4096 && c->head_dim <= 1024,
         "%s: hidden_size or an intermediate_size is no multiple of 8, or head_dim none of 16, or there are too many heads", path);
    read_rotary(&s, c);
    read_window(&s, c);
    read_stops(&s, c);
    free(root);
    munmap((void *)(uintptr_t)text, bytes);
}

double config_frequency(const config *c, int pair)
{
    double frequency = pow(c->theta, -2.0 * pair / c->head_dim);
    double turns = c->original * frequency / 6.283185307179586; /* within the context of the first training */
    double keep = c->scaled ? fmin(fmax((turns - c->low) / (c->high - c->low), 0), 1) : 1;
    return keep * frequency + (c->scaled ? (1 - keep) * frequency / c->factor : 0);
}
