#!/usr/bin/env python3
"""decode.py - ptxpack's attention for one query row and many keys beside PyTorch's FlashAttention-2 and cuDNN.

Needs a machine with PyTorch and a CUDA device, and build/libptxpack.so (make lib).

  python3 tools/bench/decode.py [--rows 0,1,5] [--dtype bf16] [--head-dim 128] [--queries 1] [--no-fa2]

overlap: ptxpack's launches may each begin before the one before has ended (PTXPACK_LAUNCH_OVERLAP); constant: and load keys before
that (PTXPACK_LAUNCH_CONSTANT_KV).  The peers' cannot.
Keys and values rotate between so many inputs that none of them is found in the L2 cache.  What a plain reduction of as
many bytes takes (a sum by PyTorch) is the roof.  Otherwise the method is that of attention.py.
"""
import argparse
import datetime
import json
import statistics

import torch
import torch.nn.functional as functional
from torch.nn.attention import SDPBackend, sdpa_kernel

import attention as prefill

# batch, query heads, key heads, keys
SHAPES = ((1, 64, 8, 1024), (1, 64, 8, 8192), (1, 32, 8, 8192), (1, 32, 8, 131072), (4, 32, 8, 4096), (8, 64, 8, 8192),
          (16, 32, 8, 1024), (32, 32, 8, 2048), (32, 64, 8, 8192), (64, 32, 8, 4096), (128, 32, 8, 4096),
          (16, 32, 32, 4096), (128, 32, 8, 512), (8, 16, 1, 8192))
OURS = {"ptxpack": 0, "overlap": prefill.LAUNCH_OVERLAP, "constant": prefill.LAUNCH_OVERLAP | prefill.LAUNCH_CONSTANT_KV}
ROTATED = 300e6  # bytes of K and V of all inputs together


def sdpa(backend):
    def run(q, k, v, o, lse):
        with sdpa_kernel(backend):
            return functional.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)),
                                                           enable_gqa=True).transpose(1, 2)
    return run


def check(run, inputs, name):
    """The first head of the first batch, and the last one of the last."""
    out = run(*inputs)
    q, k, v = inputs[:3]
    group = q.shape[2] // k.shape[2]
    for b, h in ((0, 0), (q.shape[0] - 1, q.shape[2] - 1)):
        head = [q[b, :, h], k[b, :, h // group], v[b, :, h // group]]
        prefill.check_head(out[b, :, h], head, False, f"{name}: batch {b}, head {h}")


def row(pack, shape, options):
    batch, heads, keys_heads, keys = shape
    kind, dim = prefill.DTYPES[options.dtype][1], options.head_dim
    size = 4 * batch * keys * keys_heads * dim
    sets = []
    for _ in range(max(2, min(prefill.LAUNCHES, int(ROTATED // size) + 1))):
        q = torch.randn(batch, options.queries, heads, dim, device="cuda").to(kind)
        k, v = (torch.randn(batch, keys, keys_heads, dim, device="cuda", dtype=kind) for _ in range(2))
        sets.append((q, k, v, torch.empty_like(q), torch.empty(batch, heads, options.queries, device="cuda")))
    q, k = sets[0][:2]
    runs = {**{name: prefill.ours(pack, q, k, False, bits=bits) for name, bits in OURS.items()},
            "cuDNN": sdpa(SDPBackend.CUDNN_ATTENTION)}
    if not options.no_fa2:
        runs["FA2"] = sdpa(SDPBackend.FLASH_ATTENTION)
    for name, run in runs.items():
        check(run, sets[0], f"{name} {shape}")
    flat = torch.empty(size // 4, device="cuda")
    runs["reduction"] = lambda *inputs: torch.sum(flat)
    times = prefill.measure(runs, sets, options.rounds, options.rest)
    return {"shape": shape, "bytes": size, **times}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=prefill.numbers, default=list(range(len(SHAPES))))
    parser.add_argument("--head-dim", type=int, default=128)
    parser.add_argument("--queries", type=int, default=1)
    parser.add_argument("--dtype", choices=("f16", "bf16"), default="bf16")
    prefill.add_options(parser)
    options = parser.parse_args()
    torch.zeros(1, device="cuda")  # PyTorch's context is current from here on: ptxpack uses it
    pack = prefill.Ptxpack(options.library, options.arch)
    print(f"{datetime.date.today()}, {torch.cuda.get_device_properties(0).name}, torch {torch.__version__}, cuDNN "
          f"{torch.backends.cudnn.version()}, {options.dtype}, head_dim {options.head_dim}, {options.queries} query row(s); "
          f"us (GB/s of K and V), median of {options.rounds}")
    columns = (*OURS, "cuDNN", "FA2", "reduction", "best peer / " + ", ".join(OURS))
    print(f"| batch, heads, key heads, keys | {' | '.join(columns)} |\n|" + "---|" * (len(columns) + 1))
    rows, ratios = [], []
    for i in options.rows:
        r = row(pack, SHAPES[i], options)
        rows.append(r)
        best = min(r[name] for name in ("cuDNN", "FA2") if name in r)
        ratios.append([best / r[name] for name in OURS])
        cells = [f"{r[n] * 1e6:.1f} ({r['bytes'] / r[n] * 1e-9:.0f})" if n in r else ""
                 for n in columns[:-1]]
        print(f"| {', '.join(map(str, r['shape']))} | {' | '.join(cells)} | {', '.join(f'{x:.2f}' for x in ratios[-1])} |", flush=True)
    for which, each in zip(OURS, zip(*ratios)):
        print(f"best peer / {which}: geometric mean {statistics.geometric_mean(each):.3f}, least {min(each):.3f}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
