#!/usr/bin/env python3
"""gemm_grouped.py - ptxpack's products of groups of rows (a mixture of experts) beside PyTorch's torch._grouped_mm, and beside one
dense product of as many FLOPs by ptxpack, on one GPU.

Needs a machine with PyTorch (torch._grouped_mm: 2.8 or later, bf16, Hopper) and build/libptxpack.so (make lib).

  python3 tools/bench/grouped/gemm_grouped.py [--shape 8:16384x14336x4096,...] [--sizes balanced,random,one] [--dtype bf16]

A shape is groups:m x n x k, m being the rows of all groups together.  Sizes are balanced: m / groups each; random: as drawn
from even chances for each row; skewed: each group has half the rows of the one before, the last few none; one: all rows in one
group.  A is row-major, B of each group column-major; D is of --dtype.  The sizes lie in device memory, so that no candidate
knows them when it is captured.  TFLOP/s are those of the rows that there are; "dense" is one m x n x k product of ptxpack with one B.
GB/s are of A, D and the B of groups that have rows, once each, by ptxpack; they matter for few rows.

The method is that of gemm.py; each result is checked, and the rows of each group against its own B.
"""
import argparse
import json
import os
import random
import statistics
import sys

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import gemm  # noqa: E402

SHAPES = ("8:16384x14336x4096", "8:16384x4096x14336", "8:4096x14336x4096", "8:4096x4096x14336", "8:8192x28672x4096",
          "64:16384x2048x4096", "128:8192x1536x2048", "8:16x14336x4096", "8:128x14336x4096", "128:64x1536x2048",
          "256:256x4096x7168")
KINDS = ("balanced", "random", "skewed", "one")


def shape_of(text):
    groups, sizes = text.split(":")
    return (int(groups),) + gemm.shape_of(sizes)


def sizes_of(kind, groups, m):
    """Rows of each group, m together."""
    if kind == "one":
        sizes = [0] * groups
        sizes[groups // 2] = m
        return sizes
    if kind == "skewed":
        sizes, left = [], m
        for _ in range(groups):
            sizes.append(-(-left // 2))
            left -= sizes[-1]
        sizes[0] += left
        return sizes
    if kind == "random":
        sizes = [0] * groups
        for _ in range(m):
            sizes[random.randrange(groups)] += 1
        return sizes
    return [m // groups + (i < m % groups) for i in range(groups)]


def input_sets(shape, sizes, options):
    """a, b [groups, n, k], d, starts, ends; and a dense b and d."""
    groups, m, n, k = shape
    kind = gemm.DTYPES[options.dtype][1]
    ends = torch.tensor(sizes, device="cuda").cumsum(0).to(torch.int32)
    starts = torch.cat((torch.zeros(1, dtype=torch.int32, device="cuda"), ends))
    some = sum(size > 0 for size in sizes)
    sets = []
    for _ in range(max(2, min(8, -(-gemm.L2_BYTES // (2 * (m * k + some * k * n + m * n)))))):
        b = torch.empty(groups, n, k, device="cuda", dtype=kind)
        b.zero_() if options.data == "zero" else b.normal_()
        sets.append((gemm.matrix(m, k, "r", kind, options.data), b, torch.empty(m, n, device="cuda", dtype=kind), starts, ends))
    return sets


def ours(pack, plan, scratch):
    def run(a, b, d, starts, _):
        pack.launch(plan, scratch, a, b, None, d, None, group_starts=starts)
        return d
    return run


def dense(pack, plan, scratch):
    def run(a, b, d, *_):
        pack.launch(plan, scratch, a, b, None, d, None)  # the first group's B
        return d
    return run


def pytorch(a, b, _d, _starts, ends):
    return torch._grouped_mm(a, b.transpose(1, 2), offs=ends)


def description(shape, options, groups):
    _, m, n, k = shape
    return gemm.Description(size=gemm.ctypes.sizeof(gemm.Description), dtype=gemm.DTYPES[options.dtype][0], m=m, n=n, k=k,
                            order_b=1, groups=groups)


def candidates(pack, shape, sets, options):
    plan, used, scratch = pack.plan(description(shape, options, shape[0]))
    dense_plan, dense_used, dense_scratch = pack.plan(description(shape, options, 0))
    runs = {"ptxpack": ours(pack, plan, scratch), "dense": dense(pack, dense_plan, dense_scratch)}
    try:
        pytorch(*sets[0])
        torch.cuda.synchronize()
        runs["PyTorch"] = pytorch
    except (AttributeError, RuntimeError, ValueError) as why:
        print(f"# torch._grouped_mm: {str(why).splitlines()[0][:150]}")
    return runs, used, dense_used


def check(run, inputs, sizes, name):
    """Some rows of each group against double precision: half a unit of the type, and sums in f32."""
    a, b, d = inputs[:3]
    d.fill_(float("nan"))
    out = run(*inputs)
    slack, first = 2.0 ** -8 if out.dtype == torch.bfloat16 else 2.0 ** -11, 0
    for group, size in enumerate(sizes):
        for row in sorted({first, first + size - 1, first + random.randrange(size)} if size else ()):
            x, y = a[row].double(), b[0 if name == "dense" else group].double()
            exact, terms = y @ x, y.abs() @ x.abs()
            error, bound = (out[row].double() - exact).abs(), exact.abs() * slack * 1.01 + 1e-6 * terms
            if not bool((error <= bound).all()):
                raise SystemExit(f"{name}: group {group}, row {row - first} of {size}: error {float((error - bound).max()):.3e} "
                                 "beyond what is allowed")
        first += size


def problem(pack, shape, kind, options):
    groups, m, n, k = shape
    sizes = sizes_of(kind, groups, m)
    sets = input_sets(shape, sizes, options)
    runs, used, dense_used = candidates(pack, shape, sets, options)
    for name, run in runs.items():
        check(run, sets[0], sizes, name)
    flops = 2.0 * m * n * k
    some = sum(size > 0 for size in sizes)
    seconds = max(flops / 700e12, 2.0 * some * n * k / 4e12)
    launches = int(max(10, min(200, 8e-3 / seconds)))
    launches = -(-launches // len(sets)) * len(sets)
    times = gemm.measure(runs, sets, launches, options)
    return {"shape": shape, "sizes": kind, "row": used, "dense_row": dense_used,
            "tflops": {name: flops / seconds * 1e-12 for name, seconds in times.items()},
            "gb_per_s": 2e-9 * (m * k + some * n * k + m * n) / times["ptxpack"]}


def table(pack, options):
    print("| groups | m | n | k | sizes | row | ptxpack | dense | PyTorch | ptxpack/dense | ptxpack/PyTorch | GB/s |\n|"
          + "---|" * 12)
    results = []
    for text in options.shape:
        for kind in options.sizes:
            r = problem(pack, shape_of(text), kind, options)
            speed = r["tflops"]
            ratio = f"{speed['ptxpack'] / speed['PyTorch']:.3f}" if "PyTorch" in speed else "-"
            cells = [f"{speed[name]:.1f}" if name in speed else "-" for name in ("ptxpack", "dense", "PyTorch")]
            groups, m, n, k = r["shape"]
            print(f"| {groups} | {m} | {n} | {k} | {kind} | {r['row'].removeprefix('gemm_')} | {' | '.join(cells)} "
                  f"| {speed['ptxpack'] / speed['dense']:.3f} | {ratio} | {r['gb_per_s']:.0f} |", flush=True)
            results.append(r)
    for other in ("dense", "PyTorch"):
        ratios = [r["tflops"]["ptxpack"] / r["tflops"][other] for r in results if other in r["tflops"]]
        if ratios:
            print(f"ptxpack / {other}: geometric mean {statistics.geometric_mean(ratios):.3f}, least {min(ratios):.3f}")
    return results


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", type=gemm.words, default=list(SHAPES))
    parser.add_argument("--sizes", type=gemm.words, default=["balanced", "random"], help=", ".join(KINDS))
    parser.add_argument("--dtype", choices=gemm.DTYPES, default="bf16")
    parser.add_argument("--data", choices=("randn", "zero"), default="randn", help="zeros draw less power")
    parser.add_argument("--arch", help="force a lower kernel variant, e.g. sm_80")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--rest", type=float, default=0.05, help="seconds before each timing (default 0.05)")
    parser.add_argument("--library", default=os.path.join(here, "..", "..", "..", "build", "libptxpack.so"))
    parser.add_argument("--json", help="write the figures to this file, too")
    options = parser.parse_args()
    for kind in options.sizes:
        if kind not in KINDS:
            parser.error(f"--sizes: {kind} is none of {', '.join(KINDS)}")
    torch.zeros(1, device="cuda")  # PyTorch's context is current from here on: ptxpack uses it
    pack = gemm.Ptxpack(options.library, options.arch)
    print(f"{gemm.datetime.date.today()}, {torch.cuda.get_device_properties(0).name}, torch {torch.__version__}, {options.dtype}, "
          f"{options.data}; TFLOP/s, median of {options.rounds}")
    results = table(pack, options)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
