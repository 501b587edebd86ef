#!/usr/bin/env python3
"""bias.py - what an additive bias costs: the time of attention with PTXPACK_BIAS less that without it, over what its bytes take.

Prompts: 2048 / head_dim heads, bf16, one sequence of 8192 positions whose heads have a bias each, and four sequences of 4096 that share
it; f32 and bf16.  Of a causal mask half of the bias counts.  One head of each is compared with PyTorch's own sums in f32.  Needs ptxpack
built (make), PyTorch and a GPU; the times are those of launches in CUDA graphs, in shuffled order, with inputs that rotate.

    python3 tools/bench/scores/bias.py --head-dim 64,128
"""
import argparse
import datetime
import os
import sys

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
import attention as prefill  # noqa: E402

GBPS = 4575  # what a reduction over memory reads on one H200
PROBLEMS = [(1, 8192), (4, 4096)]  # sequences, positions
HEAD = 1  # that is compared


def reference(q, k, v, bias, causal):
    scores = q.float() @ k.float().T * q.shape[1] ** -0.5 + bias.float()
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores).tril() == 0, float("-inf"))
    return torch.softmax(scores, -1) @ v.float()


def row(pack, dim, batch, seqlen, causal, options):
    heads, sets = prefill.HIDDEN // dim, []
    for _ in range(2):
        q, k, v = (torch.randn(batch, seqlen, heads, dim, device="cuda").bfloat16() for _ in range(3))
        sets.append((q, k, v, torch.empty_like(q)))
    wide = torch.randn(heads, seqlen, seqlen, device="cuda")
    narrow = wide.bfloat16()
    runs = {name: lambda q, k, v, out, bias=bias: pack.attention(q, k, v, out=out, causal=causal, bias=bias)
            for name, bias in (("without", None), ("f32", wide), ("bf16", narrow))}
    want = reference(*(x[0, :, HEAD] for x in sets[0][:3]), narrow[HEAD], causal)
    error = (runs["bf16"](*sets[0])[0, :, HEAD].float() - want).abs().max().item()
    if not error < 0.02:
        sys.exit(f"d {dim}, {batch} x {seqlen}: error {error:.3g}")
    times = prefill.measure(runs, sets, options.rounds, options.rest)
    took = {name: wide.numel() * size / (2 if causal else 1) / GBPS * 1e-9 for name, size in (("f32", 4), ("bf16", 2))}
    print(f"| {dim}, {batch} x {seqlen}{', causal' if causal else ''} | " + " | ".join(f"{x * 1e6:.0f}" for x in times.values()) + " | "
          + " | ".join(f"{(times[name] - times['without']) / took[name]:.2f}" for name in took) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--head-dim", type=prefill.numbers, default=[64, 128])
    parser.add_argument("--seed", type=int, default=1)
    prefill.add_options(parser)
    options = parser.parse_args()
    ptxpack = prefill.open_module(options)
    print(f"{datetime.date.today()}, {torch.cuda.get_device_properties(0).name}, median of {options.rounds}\n")
    print("| head_dim, sequences x positions | without, us | f32, us | bf16, us | f32 added / bytes | bf16 added / bytes |\n" + 6 * "|---" + "|")
    for dim in options.head_dim:
        for batch, seqlen in PROBLEMS:
            for causal in (False, True):
                row(ptxpack, dim, batch, seqlen, causal, options)
                torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
