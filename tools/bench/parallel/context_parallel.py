#!/usr/bin/env python3
"""context_parallel.py - attention over a sequence that the GPUs of one host share, by PyTorch's context parallelism.

The peer of `ptxpack bench parallel`.  Needs PyTorch with NCCL, and two or more CUDA devices; starts a process for each of them.

  python3 tools/bench/parallel/context_parallel.py [--gpus 2] [--seqlen 8192,32768,131072] [--heads 32,8] [--json]

One GPU    scaled_dot_product_attention of the whole sequence, by the faster of FlashAttention and cuDNN, on every GPU, of which the
           slowest counts; before the others, as context_parallel replaces that function.
All GPUs   the same call inside torch.distributed.tensor.experimental.context_parallel, whose rows are balanced under a causal
           mask; by both of its ways of rotating keys (allgather, alltoall) and by both backends.  Each rank has its shards
           before the time begins, as ptxpack's have.
Time       Median of --rounds, which are shuffled and rest between each other; each is four calls between two events, and that of
           the slowest rank counts.  Two rows of each rank are compared with double precision.  A combination that
           PyTorch refuses is left out, and named.  Where grouped heads are refused, keys and values are repeated
           before the time begins, and the row says so.
"""
import argparse
import json
import math
import os
import random
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.experimental import context_parallel
from torch.nn.attention import SDPBackend, sdpa_kernel

CALLS, REST, DIM = 4, 0.05, 128
BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}


try:  # PyTorch 2.10 and later; before that
    from torch.distributed.tensor.experimental._context_parallel import _attention as internals
except ImportError:
    from torch.distributed.tensor.experimental import _attention as internals


def attention(tensors, causal, backend):
    q, k, v = tensors
    with sdpa_kernel(BACKENDS[backend]):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])


def draw(seqlen, heads, device):
    """The whole sequence, the same on every rank: [1, heads, seqlen, DIM]."""
    make = torch.Generator(device).manual_seed(seqlen)
    return [torch.randn(1, n, seqlen, DIM, device=device, dtype=torch.bfloat16, generator=make)
            for n in (heads[0], heads[1], heads[1])]


def milliseconds(call):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in "be")
    begin.record()
    for _ in range(CALLS):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / CALLS


def slowest(value, device):
    t = torch.tensor([value], device=device, dtype=torch.float64)
    dist.all_reduce(t, op=dist.ReduceOp.MAX)
    return t.item()


def check(out, whole, rows, causal):
    """Row number i of `out` is row rows[i] of the sequence."""
    q, k, v = whole
    for at in (0, out.shape[2] - 1):
        for head in (0, q.shape[1] - 1):
            end = rows[at] + 1 if causal else k.shape[2]
            of = head * k.shape[1] // q.shape[1]
            scores = k[0, of, :end].double() @ q[0, head, rows[at]].double() / math.sqrt(DIM)
            error = (torch.softmax(scores, 0) @ v[0, of, :end].double() - out[0, head, at].double()).abs().max().item()
            if not error < 0.02:
                raise RuntimeError(f"row {rows[at]} of head {head} differs by {error:.4f}")


class Sharded:
    """One combination: its shards stay sharded while it is timed."""

    def __init__(self, mesh, whole, causal, backend, way, repeated):
        self.whole, self.causal, self.backend, self.way, self.mesh = whole, causal, backend, way, mesh
        q, k, v = (t.clone() for t in whole)
        if repeated:
            k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
        rows = torch.arange(q.shape[2], device=q.device)
        self.buffers = [q, k, v, rows]
        self.run(self.check)

    def run(self, body):
        internals.set_rotate_method(self.way)
        internals._cp_options.enable_load_balance = self.causal
        with context_parallel(self.mesh, buffers=self.buffers, buffer_seq_dims=[2, 2, 2, 0]):
            return body()

    def check(self):
        out = attention(self.buffers[:3], self.causal, self.backend)
        check(out, self.whole, self.buffers[3].tolist(), self.causal)

    def time(self):
        def body():
            dist.barrier()
            attention(self.buffers[:3], self.causal, self.backend)
            torch.cuda.synchronize()
            dist.barrier()
            return milliseconds(lambda: attention(self.buffers[:3], self.causal, self.backend))
        return self.run(body)


def combinations(mesh, whole, causal, refused):
    found = {}
    for backend in BACKENDS:
        for way in ("allgather", "alltoall"):
            for repeated in (False, True) if whole[0].shape[1] != whole[1].shape[1] else (False,):
                name = f"{backend}, {way}" + (", repeated keys" if repeated else "")
                try:
                    found[name] = Sharded(mesh, whole, causal, backend, way, repeated)
                    break
                except Exception as error:  # whatever PyTorch refuses with
                    refused.append(f"{name}: {str(error).splitlines()[0][:120] if str(error) else type(error).__name__}")
    return found


def medians(calls, rounds, device):
    times = {name: [] for name in calls}
    order = random.Random(1)
    for turn in range(rounds + 1):
        for name in order.sample(sorted(calls), len(calls)):
            time.sleep(REST)
            took = slowest(calls[name](), device)
            if turn > 0:
                times[name].append(took)
    return {name: statistics.median(taken) for name, taken in times.items()}


def measure_one(rank, options, seqlen, causal):
    device = torch.device("cuda", rank)
    whole = draw(seqlen, options.heads, device)
    return medians({b: (lambda b=b: milliseconds(lambda: attention(whole, causal, b))) for b in BACKENDS}, options.rounds, device)


def measure_all(rank, options, mesh, seqlen, causal):
    device, refused = torch.device("cuda", rank), []
    cases = combinations(mesh, draw(seqlen, options.heads, device), causal, refused)
    return medians({name: case.time for name, case in cases.items()}, options.rounds, device), refused


def row_of(seqlen, causal, one, shared, refused):
    row = {"mask": "causal" if causal else "full", "seqlen": seqlen, "one": min(one, key=one.get), "ms": None, "by": None,
           "each_one_ms": one, "each_ms": shared, "refused": refused}
    row["one_ms"] = one[row["one"]]
    if shared:
        row["by"] = min(shared, key=shared.get)
        row["ms"] = shared[row["by"]]
        row["of_linear"] = row["one_ms"] / row["ms"] / dist.get_world_size()
    return row


def work(rank, options):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(options.port))
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=options.gpus, device_id=torch.device("cuda", rank))
    mesh = init_device_mesh("cuda", (options.gpus,))
    rows, problems = [], [(seqlen, causal) for causal in (True, False) for seqlen in options.seqlen]
    one = {p: measure_one(rank, options, *p) for p in problems}
    for seqlen, causal in problems:
        rows.append(row_of(seqlen, causal, one[seqlen, causal], *measure_all(rank, options, mesh, seqlen, causal)))
        if rank == 0 and not options.json:
            r = rows[-1]
            shared = f"{r['ms']:.3f} ({r['by']}) | {r['of_linear']:.2f}" if r["ms"] else "refused |"
            print(f"| {r['mask']} | {seqlen} | {r['one_ms']:.3f} ({r['one']}) | {shared} |", *r["refused"], sep="\n  ",
                  flush=True)
    if rank == 0 and options.json:
        print(json.dumps({"torch": torch.__version__, "gpus": options.gpus, "heads": options.heads, "rows": rows}))
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    numbers = lambda text: [int(n) for n in text.split(",")]
    parser.add_argument("--gpus", type=int, default=torch.cuda.device_count())
    parser.add_argument("--seqlen", type=numbers, default=[8192, 32768, 131072])
    parser.add_argument("--heads", type=numbers, default=[32, 8])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--port", type=int, default=29511)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not 2 <= options.gpus <= torch.cuda.device_count():
        sys.exit(f"context_parallel.py: --gpus {options.gpus}, and there are {torch.cuda.device_count()} CUDA devices")
    if not options.json:
        print(f"torch {torch.__version__}, {options.gpus} GPUs\n| mask | s | one GPU, ms | all, ms | of N x one |\n|---|---|---|---|---|")
    mp.spawn(work, (options,), nprocs=options.gpus)


if __name__ == "__main__":
    main()
