#!/usr/bin/env python3
"""attention.py - ptxpack's attention beside PyTorch's FlashAttention-2 and cuDNN backends, on one GPU.

Needs a machine with PyTorch and a CUDA device, and build/libptxpack.so (make lib).

  python3 tools/bench/attention.py [--head-dim 64,128,256] [--seqlen 512,...] [--dtype bf16] [--arch sm_80]
                                   [--data randn,x2,x4,ramp,climb] [--window 1024] [--no-fa2]

FlashAttention-3 is not run.  It was, beside cuDNN, on an H200 in bf16 on 2026-11-20; "best" is the better of the two
there over cuDNN, and the last column is ptxpack / cuDNN of this run over that: above 1 is faster than both.  fp8
is compared with FA3's fp8 of that day in the same way, and its peer here is cuDNN in bf16 on the same values.
Data: randn; q and k times 2 or 4; scores that climb by 60 in all or by 32 a block of 128 keys towards the first key.

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
BUSY_CLOCKS = 300000  # of the GPU, some 170 us
DTYPES = {"f16": (1, torch.float16), "bf16": (2, torch.bfloat16), "e4m3": (3, torch.float8_e4m3fn)}
MASK_NONE, MASK_CAUSAL_BOTTOM_RIGHT, MASK_WINDOW_BOTTOM_RIGHT = 0, 2, 4
SEQLENS = (512, 1024, 2048, 4096, 8192, 16384)
# The better of FlashAttention-3 and cuDNN over cuDNN, bf16, for SEQLENS: (head dim, causal) -> ratios.
BEST = {(64, False): (1.00, 1.00, 1.09, 1.10, 1.19, 1.19), (64, True): (1.00, 1.00, 1.08, 1.13, 1.21, 1.22),
        (128, False): (1.00, 1.05, 1.06, 1.07, 1.09, 1.09), (128, True): (1.00, 1.13, 1.19, 1.19, 1.19, 1.18),
        (256, False): (1.02, 1.08, 1.08, 1.07, 1.08, 1.08), (256, True): (1.00, 1.09, 1.16, 1.20, 1.22, 1.23)}
# FlashAttention-3 in fp8 over cuDNN in bf16, likewise.
BEST_FP8 = {(128, False): (0.820, 0.962, 1.056, 1.193, 1.295, 1.289),
            (128, True): (0.922, 1.106, 1.217, 1.334, 1.398, 1.378)}


# ---- libptxpack.so through ctypes: host/attention/attention.h, loader/loader.h --------------------------------------
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
                                                        "k_descale", "v_descale", "starts_q", "starts_kv", "lengths_q",
                                                        "lengths_kv", "row_map", "left_pad", "page_table", "append")]
                + [("launch", ctypes.c_uint32), ("reserved", ctypes.c_uint32)])


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

    def plan(self, q, k, causal, window=None):
        """A plan, and the zeros that its launches want as scratch; a window: so many keys before each row's own."""
        batch, seqlen, heads, dim = q.shape
        dtype = next(code for code, kind in DTYPES.values() if kind == q.dtype)
        desc = Description(size=ctypes.sizeof(Description), dtype=dtype, batch=batch, seqlen_q=seqlen,
                           seqlen_kv=k.shape[1], heads_q=heads, heads_kv=k.shape[2], head_dim=dim,
                           mask=MASK_CAUSAL_BOTTOM_RIGHT if causal else MASK_NONE)
        if window is not None:
            desc.mask, desc.window_left = MASK_WINDOW_BOTTOM_RIGHT, window
        plan = ctypes.c_void_p()
        self.check(self.lib.ptxpack_attention_plan_create(self.handle, ctypes.byref(desc), ctypes.byref(plan)),
                   self.handle)
        return plan, torch.zeros(self.lib.ptxpack_attention_workspace(plan), dtype=torch.uint8, device=q.device)

    def launch(self, plan, workspace, q, k, v, o, lse, bits=0):
        buffers = Buffers(size=ctypes.sizeof(Buffers), q=q.data_ptr(), k=k.data_ptr(), v=v.data_ptr(),
                          o=o.data_ptr(), lse=lse.data_ptr(), workspace=workspace.data_ptr(), launch=bits)
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self.check(self.lib.ptxpack_attention_launch(plan, ctypes.byref(buffers), stream), self.handle)


# ---- candidates ---------------------------------------------------------------------------------------------
def sdpa(backend, causal):
    def run(q, k, v, o, lse, *peers):
        q, k, v = (x.transpose(1, 2) for x in peers)
        with sdpa_kernel(backend):
            return functional.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2)
    return run


def bits16(x):
    """What the peers take, which have no fp8."""
    return x.to(torch.bfloat16) if x.dtype == torch.float8_e4m3fn else x


LAUNCH_OVERLAP, LAUNCH_CONSTANT_KV = 1, 4


def ours(pack, q, k, causal, window=None, bits=0):
    """bits: LAUNCH_OVERLAP, each launch may begin before the one before it has ended; with LAUNCH_CONSTANT_KV it may load keys, too."""
    plan, workspace = pack.plan(q, k, causal, window)

    def run(q, k, v, o, lse, *peers):
        pack.launch(plan, workspace, q, k, v, o, lse, bits)
        return o
    return run


def candidates(pack, q, k, causal, fa2):
    runs = {"ptxpack": ours(pack, q, k, causal), "cuDNN": sdpa(SDPBackend.CUDNN_ATTENTION, causal)}
    if fa2:
        runs["FA2"] = sdpa(SDPBackend.FLASH_ATTENTION, causal)
    return runs


def attend(q, k, v, causal, kind):
    """One head in `kind`, its causal mask bottom right, the product reordered as FlashAttention's tests do for the lower
    precision; for fp8 in bf16 with its probabilities rounded to fp8."""
    native = torch.bfloat16 if kind == torch.float8_e4m3fn else kind
    q, k, v = (x.to(native) for x in (q, k, v))
    scale = q.shape[-1] ** -0.5
    scores = (q * scale) @ k.T if kind == torch.float32 else q @ (k * scale).T
    if causal:
        above = torch.ones(scores.shape, dtype=torch.bool, device=scores.device).triu(1 + k.shape[0] - q.shape[0])
        scores.masked_fill_(above, float("-inf"))
    chances = torch.softmax(scores, -1)
    if kind == torch.float8_e4m3fn:
        top = chances.amax(-1, keepdim=True)
        chances = (chances / top * 256).to(kind).to(native) * (top / 256)
    return (chances @ v).float()


def check_head(out, head, causal, name):
    """FlashAttention's bound: twice the error of the same maths in the input type; in fp8 four times, as ptxpack-check has
    it: the reference's largest probability is exact, a speculative softmax's is not.  head: its q, k and v."""
    kind = head[0].dtype
    exact, native = (attend(*head, causal, each) for each in (torch.float32, kind))
    factor = 4 if kind == torch.float8_e4m3fn else 2
    bound = factor * (native - exact).abs().max() + 2 * (exact + 0.3 - 0.3 - exact).abs().max()
    error = (out.float() - exact).abs().max()
    if not error <= bound:
        sys.exit(f"{name}: error {error:.3e} exceeds {bound:.3e}")


def check(run, inputs, causal, name):
    """The first head of the first batch, and the last one of the last."""
    out = run(*inputs)
    q = inputs[0]
    for b, h in ((0, 0), (q.shape[0] - 1, q.shape[2] - 1)):
        check_head(out[b, :, h], [x[b, :, h] for x in inputs[:3]], causal, f"{name}: batch {b}, head {h}")


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
    """Seconds of one launch.  The GPU is kept busy first until the graph is enqueued: after a rest that takes the host some
    40 us, which would otherwise count as 4 us of each launch."""
    time.sleep(rest)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(BUSY_CLOCKS)
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


def tensors(data, batch, seqlen, heads, dim):
    q, k, v = (torch.randn(batch, seqlen, heads, dim, device="cuda") for _ in range(3))
    if data in ("x2", "x4"):
        q, k = q * int(data[1:]), k * int(data[1:])
    if data in ("ramp", "climb"):  # on top of the rest, spread over eight channels
        back = torch.arange(seqlen - 1, -1, -1, device="cuda", dtype=torch.float32)
        height = 60 * back / seqlen if data == "ramp" else 32 * torch.floor(back / 128)
        q[..., :8] = 1
        k[..., :8] = (height * dim ** 0.5 / 8)[None, :, None, None]
    return q, k, v


def input_sets(data, seqlen, dim, kind):
    """Two: q, k, v, o, lse, and q, k, v as the peers take them."""
    batch, heads = TOKENS // seqlen, HIDDEN // dim
    sets = []
    for _ in range(2):
        qkv = [x.to(kind) for x in tensors(data, batch, seqlen, heads, dim)]
        out = torch.empty(qkv[0].shape, device="cuda", dtype=bits16(qkv[0]).dtype)
        sets.append((*qkv, out, torch.empty(batch, heads, seqlen, device="cuda"), *map(bits16, qkv)))
    return sets


def tflops(seconds, seqlen, dim, causal):
    heads = TOKENS // seqlen * (HIDDEN // dim)
    return 4 * heads * seqlen * seqlen * dim / (2 if causal else 1) / seconds * 1e-12


def row(pack, dim, causal, seqlen, data, options):
    sets = input_sets(data, seqlen, dim, DTYPES[options.dtype][1])
    runs = candidates(pack, sets[0][0], sets[0][1], causal, not options.no_fa2)
    for name, run in runs.items():
        if name == "ptxpack" or data == "randn":
            check(run, sets[0], causal, f"{name} d={dim} s={seqlen} causal={causal} {data}")
    times = measure(runs, sets, options.rounds, options.rest)
    speed = {name: tflops(seconds, seqlen, dim, causal) for name, seconds in times.items()}
    best = (BEST_FP8 if options.dtype == "e4m3" else BEST).get((dim, causal))
    result = {"d": dim, "causal": causal, "s": seqlen, "data": data, **speed}
    if best and seqlen in SEQLENS:
        result["vs_best"] = speed["ptxpack"] / speed["cuDNN"] / best[SEQLENS.index(seqlen)]
    return result


def window_row(pack, dim, seqlen, options):
    """Causal with and without a limit on the left: the seconds of each."""
    sets = input_sets("randn", seqlen, dim, DTYPES[options.dtype][1])
    q, k = sets[0][:2]
    runs = {"causal": ours(pack, q, k, True), "window": ours(pack, q, k, True, options.window)}
    return measure(runs, sets, options.rounds, options.rest)


def numbers(text):
    return [int(word) for word in text.split(",")]


def show(value, digits=3):
    return "" if value is None else f"{value:.{digits}f}"


def table(pack, options):
    print("| d | causal | s | data | ptxpack | FA2 | cuDNN | ptxpack/cuDNN | over best |\n|" + "---|" * 9)
    rows = []
    for dim in options.head_dim:
        for causal in {"no": (False,), "yes": (True,), "both": (False, True)}[options.causal]:
            for seqlen in options.seqlen:
                for data in options.data:
                    r = row(pack, dim, causal, seqlen, data, options)
                    rows.append(r)
                    print(f"| {dim} | {'yes' if causal else 'no'} | {seqlen} | {data} | {r['ptxpack']:.0f} "
                          f"| {show(r.get('FA2'), 0)} | {r['cuDNN']:.0f} | {r['ptxpack'] / r['cuDNN']:.3f} "
                          f"| {show(r.get('vs_best'))} |", flush=True)
    for title, ratios in (("ptxpack / FA2", [r["ptxpack"] / r["FA2"] for r in rows if "FA2" in r]),
                          ("ptxpack / cuDNN over best", [r["vs_best"] for r in rows if "vs_best" in r])):
        if ratios:
            print(f"{title}: geometric mean {statistics.geometric_mean(ratios):.3f}, least {min(ratios):.3f}")
    return rows


def windows(pack, options):
    print(f"| d | s | causal, us | window {options.window}, us | ratio |\n|" + "---|" * 5)
    rows = []
    for dim in options.head_dim:
        for seqlen in options.seqlen:
            times = window_row(pack, dim, seqlen, options)
            rows.append({"d": dim, "s": seqlen, **times})
            print(f"| {dim} | {seqlen} | {times['causal'] * 1e6:.0f} | {times['window'] * 1e6:.0f} "
                  f"| {times['causal'] / times['window']:.2f} |", flush=True)
    return rows


def add_options(parser):
    """The options that decode.py has, too."""
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument("--no-fa2", action="store_true", help="leave FlashAttention-2 out")
    parser.add_argument("--arch", help="force a lower kernel variant, e.g. sm_80")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--rest", type=float, default=0.05, help="seconds before each timing (default 0.05)")
    parser.add_argument("--library", default=os.path.join(here, "..", "..", "build", "libptxpack.so"))
    parser.add_argument("--json", help="write the figures to this file, too")


def open_module(options):
    """ptxpack's Python module with --library; random numbers begin with --seed."""
    torch.manual_seed(options.seed)
    torch.zeros(1, device="cuda")  # PyTorch's context is current from here on: ptxpack uses it
    os.environ["PTXPACK_LIBRARY"] = os.path.abspath(options.library)
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
    import ptxpack
    return ptxpack


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--head-dim", type=numbers, default=[64, 128, 256])
    parser.add_argument("--seqlen", type=numbers, default=list(SEQLENS))
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    parser.add_argument("--data", type=lambda text: text.split(","), default=["randn"])
    parser.add_argument("--causal", choices=("no", "yes", "both"), default="both")
    parser.add_argument("--window", type=int, help="instead: causal beside causal with so many keys before each row")
    add_options(parser)
    options = parser.parse_args()
    torch.zeros(1, device="cuda")  # PyTorch's context is current from here on: ptxpack uses it
    pack = Ptxpack(options.library, options.arch)
    properties = torch.cuda.get_device_properties(0)
    version = ctypes.c_int()
    ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    print(f"{datetime.date.today()}, {properties.name}, driver of CUDA {version.value // 1000}."
          f"{version.value % 1000 // 10}, torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, "
          f"{options.dtype}; TFLOP/s, median of {options.rounds}")
    rows = windows(pack, options) if options.window is not None else table(pack, options)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
