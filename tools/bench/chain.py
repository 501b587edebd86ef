#!/usr/bin/env python3
"""chain.py - chains of launches with and without overlap=True (PTXPACK_LAUNCH_OVERLAP), on one GPU.

Needs a machine with PyTorch and a CUDA device from Hopper on, and build/libptxpack.so (make lib).

  python3 tools/bench/chain.py [--chain attention,products,layer,decode] [--rows 8,128,512,2048,8192] [--head-dim 128]
                               [--heads 16] [--launches 20] [--dtype bf16] [--eager]

Every launch of a chain reads what the one before it has written:
  attention  o of one is q of the next; causal
  products   d of one is a of the next, square weights
  layer      x W1 = q, k, v of all heads; causal attention; o W2 = x; and so on
  decode     a batch of `rows` sequences with 2048 keys: x W1; the new keys and values are appended to a cache; attention of
             one query row each; o W2 = x

Method: a chain is captured twice in a CUDA graph, with the flag for all launches and for none, or with --eager launched
from Python (then the host may be what limits).  Both results must be the same bits.  The two are timed by turns in an order
that is shuffled in every round, with a rest before each; medians.  Time per launch is that of the graph divided by
its launches: compare the two columns of one row.
"""
import argparse
import datetime
import json
import os
import random
import statistics
import sys
import time

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import ptxpack  # noqa: E402

DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16}
KEYS = 2048  # of a sequence of the chain "decode", with the row that is appended


def weights(rows, columns, kind):
    """So that a product's numbers are as large as its input's."""
    return (torch.randn(rows, columns, device="cuda") * rows ** -0.5).to(kind)


# ---- chains: each returns (run(overlap), the tensor that it ends in, the tensors to restore before it) ------------------
def attention(rows, options, kind):
    shape = (1, rows, options.heads, options.head_dim)
    q, k, v, other = (torch.randn(shape, device="cuda").to(kind) for _ in range(4))
    places = (q, other)

    def run(overlap):
        for i in range(options.launches):
            ptxpack.attention(places[i % 2], k, v, causal=True, out=places[(i + 1) % 2], overlap=overlap)
        return options.launches
    return run, places[options.launches % 2], (q,)


def products(rows, options, kind):
    width = options.heads * options.head_dim
    x, other = (torch.randn(rows, width, device="cuda").to(kind) for _ in range(2))
    w = weights(width, width, kind)
    places = (x, other)

    def run(overlap):
        for i in range(options.launches):
            ptxpack.matmul(places[i % 2], w, out=places[(i + 1) % 2], overlap=overlap)
        return options.launches
    return run, places[options.launches % 2], (x,)


def layer(rows, options, kind):
    heads, dim = options.heads, options.head_dim
    x = torch.randn(rows, heads * dim, device="cuda").to(kind)
    w1, w2 = weights(heads * dim, 3 * heads * dim, kind), weights(heads * dim, heads * dim, kind)
    y = torch.empty(rows, 3 * heads * dim, device="cuda", dtype=kind)
    o = torch.empty(1, rows, heads, dim, device="cuda", dtype=kind)
    q, k, v = y.view(1, rows, 3, heads, dim).unbind(2)

    def run(overlap):
        for _ in range(max(1, options.launches // 3)):
            ptxpack.matmul(x, w1, out=y, overlap=overlap)
            ptxpack.attention(q, k, v, causal=True, out=o, overlap=overlap)
            ptxpack.matmul(o.view(rows, heads * dim), w2, out=x, overlap=overlap)
        return 3 * max(1, options.launches // 3)
    return run, x, (x,)


def decode(rows, options, kind):
    heads, dim = options.heads, options.head_dim
    x = torch.randn(rows, heads * dim, device="cuda").to(kind)
    w1, w2 = weights(heads * dim, 3 * heads * dim, kind), weights(heads * dim, heads * dim, kind)
    y = torch.empty(rows, 3 * heads * dim, device="cuda", dtype=kind)
    o = torch.empty(rows, 1, heads, dim, device="cuda", dtype=kind)
    q, k, v = y.view(rows, 1, 3, heads, dim).unbind(2)
    cache_k, cache_v = (torch.randn(rows, KEYS, heads, dim, device="cuda").to(kind) for _ in range(2))
    used = torch.full((rows,), KEYS, device="cuda", dtype=torch.int32)

    def run(overlap):
        for _ in range(max(1, options.launches // 4)):
            ptxpack.matmul(x, w1, out=y, overlap=overlap)
            ptxpack.attention_append(k, v, cache_k, cache_v, used, overlap=overlap)
            ptxpack.attention(q, cache_k, cache_v, seqused_k=used, out=o, overlap=overlap)
            ptxpack.matmul(o.view(rows, heads * dim), w2, out=x, overlap=overlap)
        return 4 * max(1, options.launches // 4)
    return run, x, (x,)


CHAINS = {"attention": attention, "products": products, "layer": layer, "decode": decode}


# ---- timing -------------------------------------------------------------------------------------------------
def replay_of(run, overlap, eager):
    """A function that enqueues the chain, and how many launches it has."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        count = run(overlap)  # plans are made here
    torch.cuda.synchronize()
    if eager:
        return lambda: run(overlap), count
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run(overlap)
    return graph.replay, count


def check(replays, result, restore, name):
    """The same bits, from the same start."""
    saved, results = [x.clone() for x in restore], []
    for replay in replays.values():
        for x, start in zip(restore, saved):
            x.copy_(start)
        replay()
        torch.cuda.synchronize()
        results.append(result.clone())
    if not torch.isfinite(results[0]).all():
        sys.exit(f"{name}: the result is not finite")
    if not torch.equal(*results):
        sys.exit(f"{name}: with overlap the result has other bits")


def time_once(replay, rest):
    time.sleep(rest)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    replay()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) * 1e3


def row(name, rows, options):
    run, result, restore = CHAINS[name](rows, options, DTYPES[options.dtype])
    replays, count = {}, 0
    for overlap in (False, True):
        replays[overlap], count = replay_of(run, overlap, options.eager)
    check(replays, result, restore, f"{name}, {rows} rows")
    times = {overlap: [] for overlap in replays}
    for _ in range(options.rounds):
        for overlap in random.sample(list(replays), len(replays)):
            times[overlap].append(time_once(replays[overlap], options.rest))
    normal, early = (statistics.median(times[overlap]) / count for overlap in (False, True))
    return {"chain": name, "rows": rows, "launches": count, "normal_us": normal, "overlap_us": early}


def numbers(text):
    return [int(word) for word in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chain", type=lambda text: text.split(","), default=list(CHAINS))
    parser.add_argument("--rows", type=numbers, default=[8, 128, 512, 2048, 8192], help="of decode only those up to 256")
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--head-dim", type=int, default=128)
    parser.add_argument("--launches", type=int, default=20, help="of a chain, about")
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    parser.add_argument("--eager", action="store_true", help="launch from Python, without a graph")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--rest", type=float, default=0.02, help="seconds before each timing (default 0.02)")
    parser.add_argument("--json", help="write the figures to this file, too")
    options = parser.parse_args()
    unknown = [name for name in options.chain if name not in CHAINS]
    if unknown:
        parser.error(f"--chain: {', '.join(unknown)}; there are {', '.join(CHAINS)}")
    torch.zeros(1, device="cuda")  # PyTorch's context is current from here on: ptxpack uses it
    torch.manual_seed(1)
    print(f"{datetime.date.today()}, {torch.cuda.get_device_name(0)}, torch {torch.__version__}, {options.dtype}, "
          f"{options.heads} heads of {options.head_dim}, {'eager' if options.eager else 'graphs'}; us per launch, "
          f"median of {options.rounds}")
    print("| chain | rows | launches | normal | overlap | saved | normal / overlap |\n|" + "---|" * 7)
    rows = []
    for name in options.chain:
        for count in options.rows:
            if name == "decode" and count > 256:
                continue
            r = row(name, count, options)
            rows.append(r)
            print(f"| {name} | {count} | {r['launches']} | {r['normal_us']:.2f} | {r['overlap_us']:.2f} "
                  f"| {r['normal_us'] - r['overlap_us']:.2f} | {r['normal_us'] / r['overlap_us']:.3f} |", flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
