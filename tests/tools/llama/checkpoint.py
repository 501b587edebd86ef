"""checkpoint.py FAMILY FOLDER [NAME=NUMBER...] - write a tiny model with random weights as a Hugging Face folder: config.json, with
these numbers instead of the family's, and safetensors; with the standard library alone.  The same numbers each time."""

import json
import os
import random
import struct
import sys

BASE = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 32, "vocab_size": 256, "hidden_act": "silu", "rms_norm_eps": 1e-5, "max_position_embeddings": 512,
        "tie_word_embeddings": False, "bos_token_id": None, "eos_token_id": None}
# What each family is here to show, beside itself.  llama and qwen2 are written as transformers 4 does, the others as 5 does.
FAMILIES = {
    # Llama 3's rotary scaling, all biases, a tensor of f32 that old checkpoints have and nobody reads
    "llama": ("BF16", {"model_type": "llama", "attention_bias": True, "mlp_bias": True, "rope_theta": 10000.0,
                       "rope_scaling": {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                        "original_max_position_embeddings": 32}}),
    # a window, one key head, two files with an index, an odd vocabulary
    "mistral": ("F16", {"model_type": "mistral", "sliding_window": 12, "num_key_value_heads": 1, "vocab_size": 251,
                        "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0}}),
    # biases of q, k and v alone; more tokens than a block has threads
    "qwen2": ("F16", {"model_type": "qwen2", "vocab_size": 1100, "use_sliding_window": False, "sliding_window": 64, "rope_theta": 10000.0}),
    # norms of q and k, heads that are wider than hidden / heads, one matrix for both ends
    "qwen3": ("BF16", {"model_type": "qwen3", "head_dim": 64, "tie_word_embeddings": True, "attention_bias": False,
                       "layer_types": ["full_attention"] * 2, "use_sliding_window": False, "sliding_window": None,
                       "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}),
    # weights of experts that sum to 1, an odd number of experts
    "mixtral": ("F16", {"model_type": "mixtral", "num_local_experts": 5, "num_experts_per_tok": 3, "sliding_window": None,
                        "rope_theta": 1e6}),
    # weights that do not, more experts, some of which no row goes to, an intermediate_size that nobody reads
    "qwen3_moe": ("BF16", {"model_type": "qwen3_moe", "num_experts": 22, "num_experts_per_tok": 4, "moe_intermediate_size": 40,
                           "intermediate_size": 192, "norm_topk_prob": False, "decoder_sparse_step": 1, "mlp_only_layers": [],
                           "attention_bias": False, "use_sliding_window": False, "sliding_window": None,
                           "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}),
}
CLASSES = {"mixtral": "MixtralForCausalLM", "qwen3_moe": "Qwen3MoeForCausalLM", "llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "qwen2": "Qwen2ForCausalLM",
           "qwen3": "Qwen3ForCausalLM"}


def config(family):
    c = dict(BASE, architectures=[CLASSES[family]])
    c.update(FAMILIES[family][1])
    if family == "qwen2":
        del c["head_dim"]
    return c


def shapes(family):
    """The tensors of a model: name, shape, and the deviation and mean of its elements."""
    c = config(family)
    hidden, inner, dim = c["hidden_size"], c.get("moe_intermediate_size", c["intermediate_size"]), c.get("head_dim", 16)
    q, k = c["num_attention_heads"] * dim, c["num_key_value_heads"] * dim
    matrices = {"self_attn.q_proj": (q, hidden), "self_attn.k_proj": (k, hidden), "self_attn.v_proj": (k, hidden),
                "self_attn.o_proj": (hidden, q)}
    experts = c.get("num_experts", c.get("num_local_experts"))
    mlp, gate, up, down = ("block_sparse_moe", "w1", "w3", "w2") if family == "mixtral" else ("mlp", "gate_proj", "up_proj", "down_proj")
    if experts is not None:
        matrices[f"{mlp}.gate"] = (experts, hidden)
    for at in [mlp] if experts is None else [f"{mlp}.experts.{i}" for i in range(experts)]:
        matrices.update({f"{at}.{gate}": (inner, hidden), f"{at}.{up}": (inner, hidden), f"{at}.{down}": (hidden, inner)})
    biased = [name for name in matrices if c.get("attention_bias") and "self_attn" in name or c.get("mlp_bias") and "mlp" in name
              or family == "qwen2" and name[10:12] in ("q_", "k_", "v_")]
    yield "model.embed_tokens.weight", (c["vocab_size"], hidden), 1.0, 0.0
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}."
        yield at + "input_layernorm.weight", (hidden,), 0.2, 1.0
        yield at + "post_attention_layernorm.weight", (hidden,), 0.2, 1.0
        if family.startswith("qwen3"):
            yield at + "self_attn.q_norm.weight", (dim,), 0.2, 1.5
            yield at + "self_attn.k_norm.weight", (dim,), 0.2, 1.5
        for name, shape in matrices.items():
            yield at + name + ".weight", shape, 1.5 / shape[1] ** 0.5, 0.0
        for name in biased:
            yield at + name + ".bias", matrices[name][:1], 0.3, 0.0
    yield "model.norm.weight", (hidden,), 0.2, 1.0
    if not c["tie_word_embeddings"]:
        yield "lm_head.weight", (c["vocab_size"], hidden), 2.0 / hidden ** 0.5, 0.0


def words(dtype, values):
    """The bytes of the elements."""
    if dtype == "F32":
        return struct.pack(f"<{len(values)}f", *values)
    if dtype == "F16":
        return struct.pack(f"<{len(values)}e", *values)
    bits = struct.unpack(f"<{len(values)}I", struct.pack(f"<{len(values)}f", *values))
    return struct.pack(f"<{len(values)}H", *(b + 0x7fff + (b >> 16 & 1) >> 16 for b in bits))


def write_safetensors(path, dtype, tensors):
    header, data, at = {"__metadata__": {"format": "pt"}}, [], 0
    for name, shape, values in tensors:
        own = "F32" if name.endswith("inv_freq") else dtype
        piece = words(own, values)
        header[name] = {"dtype": own, "shape": list(shape), "data_offsets": [at, at + len(piece)]}
        data.append(piece)
        at += len(piece)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(data))


def write(family, folder):
    dtype, _ = FAMILIES[family]
    draw = random.Random(family)
    tensors = [("model.layers.0.self_attn.rotary_emb.inv_freq", (16,), [1.0] * 16)] if family == "llama" else []
    for name, shape, deviation, mean in shapes(family):
        count = shape[0] * (shape[1] if len(shape) == 2 else 1)
        tensors.append((name, shape, [draw.gauss(mean, deviation) for _ in range(count)]))
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/config.json", "w") as file:
        json.dump(config(family), file, indent=2)
    if family != "mistral":
        return write_safetensors(f"{folder}/model.safetensors", dtype, tensors)
    parts = {"model-00001-of-00002.safetensors": tensors[:9], "model-00002-of-00002.safetensors": tensors[9:]}
    for name, part in parts.items():
        write_safetensors(f"{folder}/{name}", dtype, part)
    with open(f"{folder}/model.safetensors.index.json", "w") as file:
        json.dump({"metadata": {}, "weight_map": {t[0]: name for name, part in parts.items() for t in part}}, file)


if __name__ == "__main__":
    FAMILIES[sys.argv[1]][1].update((name, int(number)) for name, number in (word.split("=") for word in sys.argv[3:]))
    write(sys.argv[1], sys.argv[2])
