#!/usr/bin/env python3
"""model.py - `ptxpack bench model` beside Hugging Face transformers with a static cache and torch.compile, on one GPU.

Needs a machine with PyTorch, transformers 5 and a CUDA device, and build/ptxpack (make).

  python3 tools/bench/model/model.py [--model llama3-8b|llama3.2-1b] [--batch 1,32] [--seqlen 2048] [--size 8192] [--ptxpack PATH]

Both have random weights of the model's shape in bf16.  transformers decodes greedily: LlamaForCausalLM with StaticCache, whose forward pass
is compiled with mode="reduce-overhead" (CUDA graphs) and fullgraph=True; a step is timed from one token to the next one, the mean of
64 steps after the cache has --seqlen tokens, as ptxpack's server is.  Prefill is one prompt of --size tokens, not compiled, as its shape
differs from prompt to prompt, with the attention that transformers chooses (sdpa), median of 5.
"""
import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import time

import torch
import transformers

SHAPES = {"llama3-8b": dict(num_hidden_layers=32, hidden_size=4096, intermediate_size=14336, vocab_size=128256, num_attention_heads=32,
                            num_key_value_heads=8, head_dim=128, tie_word_embeddings=False),
          "llama3.2-1b": dict(num_hidden_layers=16, hidden_size=2048, intermediate_size=8192, vocab_size=128256, num_attention_heads=32,
                              num_key_value_heads=8, head_dim=64, tie_word_embeddings=True)}
STEPS = 64


def make_model(name, positions):
    config = transformers.LlamaConfig(**SHAPES[name], max_position_embeddings=positions,
                                      rope_parameters={"rope_type": "default", "rope_theta": 500000.0})
    torch.manual_seed(1)
    with torch.device("cuda"):
        torch.set_default_dtype(torch.bfloat16)
        model = transformers.LlamaForCausalLM(config).eval()
        torch.set_default_dtype(torch.float32)
    return model


def decode_ms(model, batch, context):
    """Milliseconds of a step."""
    cache = transformers.StaticCache(config=model.config, max_cache_len=context + STEPS + 8)
    step = torch.compile(model.forward, mode="reduce-overhead", fullgraph=True)
    tokens = torch.randint(0, model.config.vocab_size, (batch, context), device="cuda")
    for row in tokens.split(2048, dim=1):  # the cache is filled in pieces, as ptxpack's
        logits = model(input_ids=row, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
    token = logits[:, -1:].argmax(-1)

    def run(count):
        nonlocal token
        for _ in range(count):
            logits = step(input_ids=token, past_key_values=cache, use_cache=True).logits
            token = logits[:, -1:].argmax(-1).clone()
            token.cpu()

    run(4)
    torch.cuda.synchronize()
    start = time.perf_counter()
    run(STEPS)
    return (time.perf_counter() - start) / STEPS * 1e3


def prefill_ms(model, tokens):
    ids = torch.randint(0, model.config.vocab_size, (1, tokens), device="cuda")
    times = []
    for _ in range(6):
        torch.cuda.synchronize()
        start = time.perf_counter()
        cache = transformers.DynamicCache(config=model.config)
        model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1).logits.argmax(-1).cpu()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times[1:])


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=SHAPES, default="llama3-8b")
    parser.add_argument("--batch", default="1,32")
    parser.add_argument("--seqlen", default="2048")
    parser.add_argument("--size", default="8192")
    parser.add_argument("--ptxpack", default=os.path.join(here, "..", "..", "..", "build", "ptxpack"))
    options = parser.parse_args()
    command = [options.ptxpack, "bench", "model", "--json"]
    for name in ("model", "batch", "seqlen", "size"):
        command += [f"--{name}", getattr(options, name)]
    ours = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    print(f"{datetime.date.today()}, {torch.cuda.get_device_name()}, driver of CUDA {ours['device']['driver'] // 1000}."
          f"{ours['device']['driver'] % 1000 // 10}, torch {torch.__version__}, transformers {transformers.__version__}, {options.model}")
    print("| | sequences | tokens of each | ptxpack ms | of the floor | transformers ms | transformers/ptxpack |\n|---|---|---|---|---|---|---|")
    with torch.no_grad():
        longest = max(row["tokens"] for row in ours["rows"])
        model = make_model(options.model, longest + 2 * STEPS)
        for row in ours["rows"]:
            torch.compiler.reset()
            theirs = (decode_ms(model, row["sequences"], row["tokens"]) if row["what"] == "decode"
                      else prefill_ms(model, row["tokens"]))
            print(f"| {row['what']} | {row['sequences']} | {row['tokens']} | {row['ms']:.3f} | {row['floor_ms'] / row['ms']:.3f} "
                  f"| {theirs:.3f} | {theirs / row['ms']:.2f} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
