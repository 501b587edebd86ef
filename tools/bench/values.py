#!/usr/bin/env python3
"""values.py - attention whose values have other columns than its keys, beside what PyTorch offers for them.

Prompts: head_dim 192 with 128 columns of V (DeepSeek's prefill) and 512 (Gemma's global layers), 16384 positions in all, bf16, beside
cuDNN and PyTorch's memory-efficient attention, which are what takes them.  Decoding: MLA, head_dim 576 and V the first 512 columns of K,
in pages of 64 that are shuffled over their pool, with lengths in memory; GB/s of K.  Every result is compared: with the peers', and of
MLA the first sequence with PyTorch's own sums in f32.

    python3 tools/bench/values.py
"""
import argparse
import datetime
import sys

import torch
from torch.nn.attention import SDPBackend

import attention as prefill

PROMPTS = [(192, 128, 16, 2048), (192, 128, 16, 4096), (192, 128, 16, 16384), (512, 512, 4, 4096), (512, 512, 4, 16384)]  # d, dv, heads, s
MLA = [(128, 128, 4096, 1), (128, 16, 4096, 1), (64, 32, 4096, 1), (32, 128, 8192, 1), (128, 128, 4096, 2), (8, 16, 8192, 1),
       (1, 16, 8192, 1), (1, 16, 131072, 1)]  # batch, heads, keys, queries
PAGE, SCALE = 64, 192**-0.5


def peers_of(causal, inputs, want):
    """Those that take the problem; their results are compared."""
    runs = {}
    for name, backend in (("cuDNN", SDPBackend.CUDNN_ATTENTION), ("efficient", SDPBackend.EFFICIENT_ATTENTION)):
        def run(q, k, v, out, backend=backend):
            with torch.nn.attention.sdpa_kernel(backend):
                return torch.nn.functional.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)), is_causal=causal).transpose(1, 2)
        try:
            error = (run(*inputs).float() - want).abs().max().item()
        except RuntimeError:  # it does not take the problem
            continue
        if not error < 0.03:
            sys.exit(f"{name} differs by {error:.3g}")
        runs[name] = run
    return runs


def prompts(pack, dim, columns, heads, seqlen, causal, options):
    batch, sets = prefill.TOKENS // seqlen, []
    for _ in range(2):
        q, k, v = (torch.randn(batch, seqlen, heads, d, device="cuda").bfloat16() for d in (dim, dim, columns))
        sets.append((q, k, v, q.new_empty(batch, seqlen, heads, columns)))
    runs = {"ptxpack": lambda q, k, v, out: pack.attention(q, k, v, causal=causal, out=out)}
    runs.update(peers_of(causal, sets[0], runs["ptxpack"](*sets[0]).float()))
    times = prefill.measure(runs, sets, options.rounds, options.rest)
    flops = 2 * (dim + columns) * batch * heads * seqlen**2 / (2 if causal else 1)
    speed = {name: f"{flops / seconds * 1e-12:.0f}" for name, seconds in times.items()}
    best = min(seconds for name, seconds in times.items() if name != "ptxpack")
    print(f"| {dim}/{columns}, {heads} heads, {seqlen}{', causal' if causal else ''} | {speed['ptxpack']} | {speed.get('cuDNN', '-')} | "
          f"{speed.get('efficient', '-')} | {best / times['ptxpack']:.2f} |", flush=True)


def decode(pack, batch, heads, keys, queries, options):
    pages, sets = keys // PAGE, []
    lengths = torch.full((batch,), keys, device="cuda", dtype=torch.int32)
    for _ in range(3 if batch * keys < 600000 else 2):
        pool = torch.randn(batch * pages, PAGE, 1, 576, device="cuda").bfloat16()
        table = torch.randperm(batch * pages, device="cuda").int().view(batch, pages)
        q = torch.randn(batch, queries, heads, 576, device="cuda").bfloat16()
        sets.append((q, pool, table, q.new_empty(batch, queries, heads, 512)))

    def run(q, pool, table, out):
        return pack.attention(q, pool, pool[..., :512], page_table=table, seqused_k=lengths, scale=SCALE, out=out)

    q, pool, table, _ = sets[0]
    whole = pool[table[0].long()].reshape(keys, 576).float()
    want = torch.softmax(q[0, 0].float() @ whole.T * SCALE, -1) @ whole[:, :512]
    error = (run(*sets[0])[0, 0].float() - want).abs().max().item()
    if not error < 0.02:
        sys.exit(f"MLA, batch {batch}, {heads} heads: error {error:.3g}")
    seconds = prefill.measure({"ptxpack": run}, sets, options.rounds, options.rest)["ptxpack"]
    print(f"| {batch}, {heads}, {keys}, {queries} | {seconds * 1e6:.1f} | {batch * keys * 576 * 2 / seconds * 1e-9:.0f} | "
          f"{2 * 1088 * batch * heads * queries * keys / seconds * 1e-12:.0f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    prefill.add_options(parser)
    options = parser.parse_args()
    ptxpack = prefill.open_module(options)
    print(f"{datetime.date.today()}, {torch.cuda.get_device_properties(0).name}, bf16, median of {options.rounds}\n")
    print("| prompts, TFLOP/s | ptxpack | cuDNN | efficient | best peer / ptxpack |\n" + 5 * "|---" + "|")
    for dim, columns, heads, seqlen in PROMPTS:
        for causal in (True, False):
            prompts(ptxpack, dim, columns, heads, seqlen, causal, options)
    print("\n| MLA: batch, heads, keys, queries | us | GB/s | TFLOP/s |\n" + 4 * "|---" + "|")
    for shape in MLA:
        decode(ptxpack, *shape, options)


if __name__ == "__main__":
    main()
