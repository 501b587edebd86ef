#!/usr/bin/env python3
"""gemm.py - ptxpack's matrix product beside PyTorch's (cuBLAS), on one GPU.

Needs a machine with PyTorch and a CUDA device, and build/libptxpack.so (make lib).

  python3 tools/bench/gemm.py [--shape 4096,4096x4096x1024,sixty,...] [--order rr,rc,cr,cc] [--dtype bf16]
                              [--epilogue none|bias_gelu|c] [--arch sm_80] [--data randn|zero] [--overlap]

A shape is m x n x k, or one number for all three; sixty, few, middle and random are sets of them.  An order is A's and B's: r row-major, c column-major (rc is what
torch.nn.functional.linear multiplies).  FLOPs = 2 m n k; GB/s are of A, B and D, once each, by ptxpack.
cuBLAS is torch.matmul into a given output; with bias_gelu torch.addmm and then gelu, with c torch.addmm.  Every kernel that can take
a problem is timed by `ptxpack bench gemm --kernel all`.  With --overlap ptxpack's launches are those of a decoding step: each may begin,
and read its B, before the one before has ended (PTXPACK_LAUNCH_OVERLAP, PTXPACK_LAUNCH_CONSTANT_B); cuBLAS's do not overlap.

Method: each result is checked before it is timed; CUDA graphs of launches that alternate between sets of inputs
which together exceed the L2 cache; the order of the candidates is shuffled in every round; rest before each;
medians.  Absolute figures move with the machine's clocks, and with the data: compare ratios inside one run.
"""
import argparse
import ctypes
import datetime
import json
import math
import os
import random
import statistics
import sys
import time

import torch
import torch.nn.functional as functional

DTYPES = {"f16": (1, torch.float16), "bf16": (2, torch.bfloat16)}
SHAPES = ("4096", "8192", "2048", "1024", "4096x14336x4096", "4096x4096x14336", "16384x2048x2048", "8192x8192x1024",
          "512x8192x8192")
# Squares, those of Llama 3 8B and 70B, thin k, odd sizes, few tiles of long k: written down before anything was tuned to them.
SIXTY = tuple("""
256 512 768 1024 1536 2048 2560 3072 4096 5120 6144 8192 10240 12288 16384
128x6144x4096 128x4096x4096 128x28672x4096 128x4096x14336 512x6144x4096 512x4096x4096 512x28672x4096 512x4096x14336
2048x6144x4096 2048x4096x4096 2048x28672x4096 2048x4096x14336 8192x6144x4096 8192x4096x4096 8192x28672x4096 8192x4096x14336
512x10240x8192 512x8192x8192 512x57344x8192 512x8192x28672 4096x10240x8192 4096x8192x8192 4096x57344x8192 4096x8192x28672
4096x4096x64 4096x4096x128 4096x4096x256 4096x4096x512 8192x8192x64 8192x8192x256 16384x4096x128
1000 3000 5000 7000x3000x2000 4104 1032x5128x3080 1288x2568x5128
512x512x16384 1024x1024x16384 256x4096x16384 128x8192x8192 2048x512x8192 512x2048x8192 256x256x65536
""".split())
MODELS = "6144x4096 4096x4096 28672x4096 4096x14336 10240x8192 8192x8192 57344x8192 8192x28672".split()  # n x k of 8B and 70B


def random_shapes(count=100, least=2e8, most=2e12, seed=2026):
    """Extents whose logarithms are evenly spread, in units of 8, 64 or 128; no choice of a kernel was fitted to these."""
    draw = random.Random(seed)
    shapes = []
    while len(shapes) < count:
        unit = draw.choice((8, 64, 64, 128))
        m, n, k = (max(1, round(math.exp(draw.uniform(math.log(low), math.log(high))) / unit)) * unit
                   for low, high in ((96, 8192), (128, 16384), (256, 16384)))
        if least <= 2 * m * n * k <= most:
            shapes.append(f"{m}x{n}x{k}")
    return shapes


SETS = {"sixty": SIXTY,
        "few": [f"{m}x{matrix}" for m in (1, 8, 16, 32, 64) for matrix in MODELS],
        "middle": [f"{m}x{matrix}" for m in (80, 96, 128, 192, 256, 512) for matrix in MODELS],
        "random": random_shapes()}
NONE, GELU = 0, 2
OVERLAP, CONSTANT_B = 1, 2  # PTXPACK_LAUNCH_*
L2_BYTES = 128 << 20  # sets of inputs together: more than any L2 cache


# ---- libptxpack.so through ctypes: host/gemm/gemm.h, loader/loader.h ---------------------------------------------
class Description(ctypes.Structure):
    _fields_ = ([("size", ctypes.c_uint32), ("dtype", ctypes.c_int)]
                + [(name, ctypes.c_int32) for name in ("m", "n", "k", "batch", "order_a", "order_b")]
                + [(f"{what}_{name}", ctypes.c_int64) for what in ("stride", "batch") for name in "abcd"]
                + [("has_c", ctypes.c_bool), ("has_bias", ctypes.c_bool)]
                + [(name, ctypes.c_int) for name in ("activation", "dtype_ab", "scales")]
                + [("groups", ctypes.c_int32), ("dtype_b", ctypes.c_int), ("norm_a", ctypes.c_bool),
                   ("norm_eps", ctypes.c_float), ("launch", ctypes.c_uint32), ("reserved", ctypes.c_uint32)])


class Buffers(ctypes.Structure):
    _fields_ = ([("size", ctypes.c_uint32), ("alpha", ctypes.c_float), ("beta", ctypes.c_float)]
                + [(name, ctypes.c_uint64) for name in ("a", "b", "c", "d", "bias", "workspace")]
                + [("launch", ctypes.c_uint32), ("reserved", ctypes.c_uint32), ("scale_a", ctypes.c_uint64),
                   ("scale_b", ctypes.c_uint64), ("group_starts", ctypes.c_uint64)])


class Options(ctypes.Structure):
    _fields_ = ([("size", ctypes.c_uint32), ("device", ctypes.c_int32)]
                + [(name, ctypes.c_char_p) for name in ("driver", "ptxjit", "ptx_dir", "arch", "cache_dir")]
                + [(name, ctypes.c_bool) for name in ("offline", "no_cache", "line_info")])


class Symbol(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_int64)]


class Variant(ctypes.Structure):  # loader/registry.h
    _fields_ = ([(name, ctypes.c_char_p) for name in ("id", "op", "file", "entry")]
                + [(name, ctypes.c_int) for name in ("arch", "isa", "threads", "shared_bytes", "blocks_per_sm",
                                                     "flags")]
                + [("parameters", Symbol * 16), ("parameter_count", ctypes.c_int)])


class Ptxpack:
    """The library, with its status codes turned into exceptions."""

    def __init__(self, path, arch):
        self.lib = ctypes.CDLL(path)
        self.lib.ptxpack_detail.restype = ctypes.c_char_p
        self.lib.ptxpack_gemm_workspace.restype = ctypes.c_size_t
        self.lib.ptxpack_gemm_kernel.restype = ctypes.c_void_p
        self.lib.ptxpack_kernel_describe.restype = ctypes.POINTER(ctypes.POINTER(Variant))
        self.lib.ptxpack_kernel_describe.argtypes = [ctypes.c_void_p]
        self.handle = ctypes.c_void_p()
        options = Options(size=ctypes.sizeof(Options), arch=arch.encode() if arch else None)
        self.check(self.lib.ptxpack_open(ctypes.byref(options), ctypes.byref(self.handle)), None)

    def check(self, status, handle):
        if status != 0:
            raise RuntimeError(self.lib.ptxpack_detail(handle).decode() or f"status {status}")

    def plan(self, desc):
        """A plan, its row, and the zeros that its launches want as scratch."""
        plan = ctypes.c_void_p()
        self.check(self.lib.ptxpack_gemm_plan_create(self.handle, ctypes.byref(desc), ctypes.byref(plan)), self.handle)
        used = self.lib.ptxpack_kernel_describe(self.lib.ptxpack_gemm_kernel(plan)).contents.contents.id.decode()
        scratch = torch.zeros(self.lib.ptxpack_gemm_workspace(plan), dtype=torch.uint8, device="cuda")
        return plan, used, scratch

    def launch(self, plan, scratch, a, b, c, d, bias, scale_a=None, scale_b=None, group_starts=None, bits=0):
        buffers = Buffers(size=ctypes.sizeof(Buffers), alpha=1, beta=1, a=a.data_ptr(), b=b.data_ptr(),
                          c=c.data_ptr() if c is not None else 0, d=d.data_ptr(),
                          bias=bias.data_ptr() if bias is not None else 0, workspace=scratch.data_ptr(), launch=bits,
                          scale_a=scale_a.data_ptr() if scale_a is not None else 0,
                          scale_b=scale_b.data_ptr() if scale_b is not None else 0,
                          group_starts=group_starts.data_ptr() if group_starts is not None else 0)
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self.check(self.lib.ptxpack_gemm_launch(plan, ctypes.byref(buffers), stream), self.handle)


# ---- problems -----------------------------------------------------------------------------------------------
def matrix(rows, columns, order, kind, data):
    make = torch.randn if data == "randn" else torch.zeros
    if order == "r":
        return make(rows, columns, device="cuda").to(kind)
    return make(columns, rows, device="cuda").to(kind).T


def input_sets(shape, order, kind, options):
    """a, b, c, d, bias."""
    m, n, k = shape
    one = 2 * (m * k + k * n + m * n)
    sets = []
    for _ in range(max(2, min(16, -(-L2_BYTES // one)))):
        sets.append((matrix(m, k, order[0], kind, options.data), matrix(k, n, order[1], kind, options.data),
                     matrix(m, n, "r", kind, options.data) if options.epilogue == "c" else None,
                     torch.empty(m, n, device="cuda", dtype=kind),
                     torch.randn(n, device="cuda").to(kind) if options.epilogue == "bias_gelu" else None))
    return sets


def description(shape, order, dtype, epilogue, launch=0):
    m, n, k = shape
    return Description(size=ctypes.sizeof(Description), dtype=DTYPES[dtype][0], m=m, n=n, k=k,
                       order_a=order[0] == "c", order_b=order[1] == "c", has_c=epilogue == "c",
                       has_bias=epilogue == "bias_gelu", activation=GELU if epilogue == "bias_gelu" else NONE,
                       launch=launch)


def cublas(a, b, c, d, bias):
    if bias is not None:
        torch.addmm(bias, a, b, out=d)
        return d.copy_(functional.gelu(d, approximate="tanh"))
    return torch.matmul(a, b, out=d) if c is None else torch.addmm(c, a, b, out=d)


def ours(pack, plan, scratch, launch=0):
    def run(*inputs):
        pack.launch(plan, scratch, *inputs, bits=launch)
        return inputs[3]
    return run


def candidates(pack, shape, order, options):
    """Name -> run; the library's own choice is called ptxpack."""
    launch = OVERLAP | CONSTANT_B if options.overlap else 0
    desc = description(shape, order, options.dtype, options.epilogue, launch)
    plan, used, scratch = pack.plan(desc)
    runs = {"ptxpack": ours(pack, plan, scratch, launch)}
    runs["cuBLAS"] = cublas
    return runs, used


def check(run, inputs, name):
    """A few rows against the same in double precision: half a unit of the type, and sums in f32."""
    a, b, c, d, bias = inputs
    d.fill_(float("nan"))
    out = run(*inputs)
    rows = torch.randint(0, a.shape[0], (64,), device="cuda")
    rows[0], rows[1] = 0, a.shape[0] - 1
    x, y = a[rows].double(), b.double()
    exact, size = x @ y, x.abs() @ y.abs()
    if c is not None:
        exact, size = exact + c[rows].double(), size + c[rows].double().abs()
    if bias is not None:
        exact = functional.gelu(exact + bias.double(), approximate="tanh")
    slack = 2.0 ** -8 if out.dtype == torch.bfloat16 else 2.0 ** -11
    if bias is not None and name == "cuBLAS":
        slack *= 3  # rounded before gelu, too
    bound = exact.abs() * slack * 1.01 + 1e-6 * size + (2e-3 if bias is not None else 0)
    error = (out[rows].double() - exact).abs()
    if not bool((error <= bound).all()):
        worst = (error - bound).argmax()
        sys.exit(f"{name}: error {error.flatten()[worst]:.3e} exceeds {bound.flatten()[worst]:.3e}")


# ---- timing -------------------------------------------------------------------------------------------------
def capture(run, sets, launches):
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for inputs in sets:
            run(*inputs)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(launches):
            run(*sets[i % len(sets)])
    graph.replay()
    torch.cuda.synchronize()
    return graph


def time_graph(graph, launches, rest):
    time.sleep(rest)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    graph.replay()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / launches * 1e-3


def measure(runs, sets, launches, options):
    graphs = {name: capture(run, sets, launches) for name, run in runs.items()}
    times = {name: [] for name in runs}
    for _ in range(options.rounds):
        for name in random.sample(list(graphs), len(graphs)):
            times[name].append(time_graph(graphs[name], launches, options.rest))
    return {name: statistics.median(values) for name, values in times.items()}


def problem(pack, shape, order, options):
    sets = input_sets(shape, order, DTYPES[options.dtype][1], options)
    runs, used = candidates(pack, shape, order, options)
    for name, run in runs.items():
        check(run, sets[0], name)
    flops = 2.0 * shape[0] * shape[1] * shape[2]
    launches = int(max(10, min(200, 8e-3 / (flops / 700e12))))
    launches = -(-launches // len(sets)) * len(sets)
    times = measure(runs, sets, launches, options)
    return {"shape": shape, "order": order, "row": used,
            "tflops": {name: flops / seconds * 1e-12 for name, seconds in times.items()}}


def shape_of(text):
    numbers = [int(word) for word in text.split("x")]
    return tuple(numbers * 3 if len(numbers) == 1 else numbers)


def table(pack, options):
    print("| m | n | k | order | row | ptxpack | cuBLAS | ptxpack/cuBLAS | GB/s |\n|" + "---|" * 9)
    results = []
    for text in (shape for name in options.shape for shape in SETS.get(name, [name])):
        for order in options.order:
            shape = shape_of(text)
            r = problem(pack, shape, order, options)
            speed = r["tflops"]
            m, n, k = shape
            r["gb_per_s"] = speed["ptxpack"] * 1e3 * (m * k + k * n + m * n) / (m * n * k)
            print(f"| {shape[0]} | {shape[1]} | {shape[2]} | {order} | {r['row'].removeprefix('gemm_')} "
                  f"| {speed['ptxpack']:.0f} | {speed['cuBLAS']:.0f} | {speed['ptxpack'] / speed['cuBLAS']:.3f} "
                  f"| {r['gb_per_s']:.0f} |", flush=True)
            results.append(r)
    ratios = [r["tflops"]["ptxpack"] / r["tflops"]["cuBLAS"] for r in results]
    print(f"ptxpack / cuBLAS: geometric mean {statistics.geometric_mean(ratios):.3f}, least {min(ratios):.3f}")
    return results


def words(text):
    return text.split(",")


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", type=words, default=list(SHAPES),
                        help="m = n = k, MxNxK or one of these sets: " + ", ".join(SETS))
    parser.add_argument("--order", type=words, default=["rr"])
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    parser.add_argument("--epilogue", choices=("none", "bias_gelu", "c"), default="none")
    parser.add_argument("--data", choices=("randn", "zero"), default="randn", help="zeros draw less power")
    parser.add_argument("--overlap", action="store_true", help="launches as a decoding step has them")
    parser.add_argument("--arch", help="force a lower kernel variant, e.g. sm_80")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--rest", type=float, default=0.05, help="seconds before each timing (default 0.05)")
    parser.add_argument("--library", default=os.path.join(here, "..", "..", "build", "libptxpack.so"))
    parser.add_argument("--json", help="write the figures to this file, too")
    options = parser.parse_args()
    torch.zeros(1, device="cuda")  # PyTorch's context is current from here on: ptxpack uses it
    pack = Ptxpack(options.library, options.arch)
    properties = torch.cuda.get_device_properties(0)
    version = ctypes.c_int()
    ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    print(f"{datetime.date.today()}, {properties.name}, driver of CUDA {version.value // 1000}."
          f"{version.value % 1000 // 10}, torch {torch.__version__}, {options.dtype}, {options.data}, epilogue "
          f"{options.epilogue}{', launches overlap' if options.overlap else ''}; TFLOP/s, median of {options.rounds}")
    results = table(pack, options)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
