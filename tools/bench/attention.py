#!/usr/bin/env python3
"""attention.py - ptxpack's attention beside PyTorch's FlashAttention-2 and cuDNN backends, on one GPU.

Needs a machine with PyTorch and a CUDA device, and build/libptxpack.so (make lib).

  python3 tools/bench/attention.py [--head-dim 64,128,256] [--seqlen 512,...] [--dtype bf16] [--arch sm_80]

Convention of the FlashAttention papers: 16k tokens in all, hidden size 2048 (heads = 2048 / head dim);
FLOPs = 4 b h s^2 d, halved when causal.  Method: each result is checked before it is timed; CUDA graphs of 10
launches that alternate between two sets of inputs; the order of the candidates is shuffled in every round;
rest before each; medians.  Absolute figures move with the machine's clocks: compare ratios inside one run.
"""
import argparse
import ctypes
import datetime
import json
import os
import random
import statistics
import sys
import time

import torch
import torch.nn.functional as functional
from torch.nn.attention import SDPBackend, sdpa_kernel

TOKENS, HIDDEN, LAUNCHES = 16384, 2048, 10
DTYPES = {"f16": (1, torch.float16), "bf16": (2, torch.bfloat16)}
MASK_NONE, MASK_CAUSAL_BOTTOM_RIGHT = 0, 2


# ---- libptxpack.so through ctypes: host/attention.h, loader/loader.h --------------------------------------
class Strides(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("batch", "row", "head")]


class Description(ctypes.Structure):
    _fields_ = ([("size", ctypes.c_uint32), ("dtype", ctypes.c_int)]
                + [(name, ctypes.c_int32) for name in ("batch", "seqlen_q", "seqlen_kv", "heads_q", "heads_kv",
                                                       "head_dim")]
                + [("scale", ctypes.c_float), ("mask", ctypes.c_int), ("window_left", ctypes.c_int32),
                   ("window_right", ctypes.c_int32), ("softcap", ctypes.c_float)]
                + [(name, Strides) for name in "qkvo"])


class Buffers(ctypes.Structure):
    _fields_ = ([("size", ctypes.c_uint32)]
                + [(name, ctypes.c_uint64) for name in ("q", "k", "v", "o", "lse", "workspace", "q_descale",
                                                        "k_descale", "v_descale")])


class Options(ctypes.Structure):
    _fields_ = ([("size", ctypes.c_uint32), ("device", ctypes.c_int32)]
                + [(name, ctypes.c_char_p) for name in ("driver", "ptxjit", "ptx_dir", "arch", "cache_dir")]
                + [(name, ctypes.c_bool) for name in ("offline", "no_cache", "line_info")])


class Ptxpack:
    """The library, with its status codes turned into exceptions."""

    def __init__(self, path, arch):
        self.lib = ctypes.CDLL(path)
        self.lib.ptxpack_detail.restype = ctypes.c_char_p
        self.lib.ptxpack_attention_workspace.restype = ctypes.c_size_t
        self.handle = ctypes.c_void_p()
        options = Options(size=ctypes.sizeof(Options), arch=arch.encode() if arch else None)
        self.check(self.lib.ptxpack_open(ctypes.byref(options), ctypes.byref(self.handle)), None)

    def check(self, status, handle):
        if status != 0:
            raise RuntimeError(self.lib.ptxpack_detail(handle).decode() or f"status {status}")

    def plan(self, q, k, causal):
        """A plan, and the zeros that its launches want as scratch."""
        batch, seqlen, heads, dim = q.shape
        dtype = next(code for code, kind in DTYPES.values() if kind == q.dtype)
        desc = Description(size=ctypes.sizeof(Description), dtype=dtype, batch=batch, seqlen_q=seqlen,
                           seqlen_kv=k.shape[1], heads_q=heads, heads_kv=k.shape[2], head_dim=dim,
                           mask=MASK_CAUSAL_BOTTOM_RIGHT if causal else MASK_NONE)
        plan = ctypes.c_void_p()
        self.check(self.lib.ptxpack_attention_plan_create(self.handle, ctypes.byref(desc), ctypes.byref(plan)),
                   self.handle)
        return plan, torch.zeros(self.lib.ptxpack_attention_workspace(plan), dtype=torch.uint8, device=q.device)

    def launch(self, plan, workspace, q, k, v, o, lse):
        buffers = Buffers(size=ctypes.sizeof(Buffers), q=q.data_ptr(), k=k.data_ptr(), v=v.data_ptr(),
                          o=o.data_ptr(), lse=lse.data_ptr(), workspace=workspace.data_ptr())
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self.check(self.lib.ptxpack_attention_launch(plan, ctypes.byref(buffers), stream), self.handle)


# ---- candidates ---------------------------------------------------------------------------------------------
def sdpa(backend, causal):
    def run(q, k, v, o, lse):
        with sdpa_kernel(backend):
            return functional.scaled_dot_product_attention(
                q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=causal).transpose(1, 2)
    return run


def candidates(pack, q, k, causal):
    plan, workspace = pack.plan(q, k, causal)

    def ours(q, k, v, o, lse):
        pack.launch(plan, workspace, q, k, v, o, lse)
        return o
    return {"ptxpack": ours, "FA2": sdpa(SDPBackend.FLASH_ATTENTION, causal),
            "cuDNN": sdpa(SDPBackend.CUDNN_ATTENTION, causal)}


def attend(q, k, v, causal, kind):
    """One head in `kind`, the product reordered as FlashAttention's tests do for the lower precision."""
    q, k, v = (x.to(kind) for x in (q, k, v))
    scale = q.shape[-1] ** -0.5
    scores = (q * scale) @ k.T if kind == torch.float32 else q @ (k * scale).T
    if causal:
        above = torch.ones(scores.shape, dtype=torch.bool, device=scores.device).triu(1)
        scores.masked_fill_(above, float("-inf"))
    return (torch.softmax(scores, -1) @ v).float()


def check(run, inputs, causal, name):
    """FlashAttention's bound on the first and the last head: twice the error of the same maths in the input type."""
    out = run(*inputs)
    q, k, v = inputs[:3]
    for b, h in ((0, 0), (q.shape[0] - 1, q.shape[2] - 1)):
        head = [x[b, :, h] for x in (q, k, v)]
        exact, native = (attend(*head, causal, kind) for kind in (torch.float32, q.dtype))
        bound = 2 * (native - exact).abs().max() + 2 * (exact + 0.3 - 0.3 - exact).abs().max()
        error = (out[b, :, h].float() - exact).abs().max()
        if not error <= bound:
            sys.exit(f"{name}: batch {b}, head {h}: error {error:.3e} exceeds {bound:.3e}")


# ---- timing -------------------------------------------------------------------------------------------------
def capture(run, sets):
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for inputs in sets:
            run(*inputs)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(LAUNCHES):
            run(*sets[i % len(sets)])
    graph.replay()
    torch.cuda.synchronize()
    return graph


def time_graph(graph, rest):
    time.sleep(rest)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    graph.replay()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / LAUNCHES * 1e-3


def measure(runs, sets, rounds, rest):
    graphs = {name: capture(run, sets) for name, run in runs.items()}
    times = {name: [] for name in runs}
    for _ in range(rounds):
        for name in random.sample(list(graphs), len(graphs)):
            times[name].append(time_graph(graphs[name], rest))
    return {name: statistics.median(values) for name, values in times.items()}


def row(pack, dim, causal, seqlen, kind, rounds, rest):
    batch, heads = TOKENS // seqlen, HIDDEN // dim
    sets = []
    for _ in range(2):
        q, k, v = (torch.randn(batch, seqlen, heads, dim, device="cuda", dtype=kind) for _ in range(3))
        sets.append((q, k, v, torch.empty_like(q), torch.empty(batch, heads, seqlen, device="cuda")))
    runs = candidates(pack, sets[0][0], sets[0][1], causal)
    for name, run in runs.items():
        check(run, sets[0], causal, f"{name} d={dim} s={seqlen} causal={causal}")
    flops = 4 * batch * heads * seqlen * seqlen * dim / (2 if causal else 1)
    return {name: flops / seconds * 1e-12 for name, seconds in measure(runs, sets, rounds, rest).items()}


def numbers(text):
    return [int(word) for word in text.split(",")]


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--head-dim", type=numbers, default=[64, 128, 256])
    parser.add_argument("--seqlen", type=numbers, default=[512, 1024, 2048, 4096, 8192, 16384])
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
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
          f"{version.value % 1000 // 10}, torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, "
          f"{options.dtype}; TFLOP/s, median of {options.rounds}")
    print("| d | causal | s | ptxpack | FA2 | cuDNN | ptxpack/FA2 | ptxpack/cuDNN |\n|---|---|---|---|---|---|---|---|")
    rows = []
    for dim in options.head_dim:
        for causal in (False, True):
            for seqlen in options.seqlen:
                speed = row(pack, dim, causal, seqlen, DTYPES[options.dtype][1], options.rounds, options.rest)
                rows.append({"d": dim, "causal": causal, "s": seqlen, **speed})
                print(f"| {dim} | {'yes' if causal else 'no'} | {seqlen} | {speed['ptxpack']:.0f} | {speed['FA2']:.0f} "
                      f"| {speed['cuDNN']:.0f} | {speed['ptxpack'] / speed['FA2']:.3f} "
                      f"| {speed['ptxpack'] / speed['cuDNN']:.3f} |", flush=True)
    ratios = [r["ptxpack"] / r["FA2"] for r in rows]
    print(f"ptxpack/FA2: geometric mean {statistics.geometric_mean(ratios):.3f}, least {min(ratios):.3f}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
