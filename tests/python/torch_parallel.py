"""torch_parallel.py - ptxpack.torch.context_parallel: processes compared with double precision, and what each rank is told when
another one differs, is missing or dies; torch_parallel.sh runs it."""
import ctypes
import functools
import multiprocessing
import os
import tempfile
import time
import traceback
import unittest

import torch
import torch.distributed as dist

import ptxpack.torch
from ptxpack import parallel
from torch_operator import BOUNDS, reference

LIMIT = 240  # seconds for all processes of a test; only a hang takes so long
SHORT = 1.5


# ---- processes ---------------------------------------------------------------------------------------------
def be_rank(work, rank, ranks, store, pipe):
    """Sends what work(rank, ranks) returns, or why it fails."""
    try:
        dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=ranks)
        pipe.send((True, work(rank, ranks)))
    except BaseException:  # pylint: disable=broad-except
        pipe.send((False, traceback.format_exc()))
    os._exit(0)  # the parent's work at the end of a process is not this one's


def run(test, ranks, work):
    """What work(rank, ranks) returns in each of so many processes.  They are forked: this one uses no device, and has torch."""
    processes = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        started = []
        for rank in range(ranks):
            ours, theirs = processes.Pipe()
            process = processes.Process(target=be_rank, args=(work, rank, ranks, folder + "/store", theirs))
            process.start()
            theirs.close()
            started.append((process, ours))
        until, results = time.monotonic() + LIMIT, []
        try:
            for rank, (process, pipe) in enumerate(started):
                if not pipe.poll(max(until - time.monotonic(), 0)):
                    test.fail("rank %d says nothing within %d s" % (rank, LIMIT))
                try:
                    good, said = pipe.recv()
                except EOFError:  # it died
                    good, said = True, None
                if not good:
                    test.fail("rank %d: %s" % (rank, said))
                results.append(said)
        finally:
            for process, _ in started:
                process.kill()
                process.join()
    return results


def line_of(call, *arguments, **options):
    """The line of the Error that a call raises."""
    try:
        call(*arguments, **options)
    except (ptxpack.Error, TypeError) as error:
        return str(error)
    raise AssertionError("no error was raised")


# ---- what ranks compute ------------------------------------------------------------------------------------
def must_be_near(o, want, dtype, what):
    assert o.shape == want.shape and o.dtype == dtype, (what, o.shape, want.shape, o.dtype)
    worst = float(((o.double() - want).abs() / (1 + want.abs())).max()) if o.numel() else 0.0
    assert worst < BOUNDS[dtype], (what, worst)


def draw(seed, shape_q, shape_kv, dtype=torch.float16):
    """q, k and v, the same on all ranks."""
    random = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=random).to(dtype) for shape in (shape_q, shape_kv, shape_kv)]


def of_sequences(q, k, v, starts, **limits):
    """The reference of packed rows, [rows, heads, dim]; o and lse [heads, rows]."""
    parts = [reference(*(x[None, a:b] for x in (q, k, v)), **limits) for a, b in zip(starts, starts[1:]) if b > a]
    return torch.cat([o[0] for o, _ in parts]), torch.cat([lse[0] for _, lse in parts], -1)


DENSE = [  # (rows, dtype, options of the call, options of the reference)
    (131, torch.float16, {"causal": True}, {"causal": True}),
    (97, torch.bfloat16, {"shards": "contiguous", "way": "steps", "scale": 0.2}, {"scale": 0.2}),
    (75, torch.float16, {"window": (30, 0), "softcap": 5.0, "way": "gather"}, {"left": 30, "right": 0, "softcap": 5.0}),
    (64, torch.float16, {"causal": True, "shards": "contiguous", "sinks": torch.tensor([0.5, -2.0, -torch.inf, 3.0])},
     {"causal": True, "sinks": torch.tensor([0.5, -2.0, -torch.inf, 3.0])}),
    (67, torch.bfloat16, {"causal": True, "way": "heads"}, {"causal": True}),  # of ranks that divide the heads
    (131, torch.float16, {"causal": True}, {"causal": True}),  # the plan of the first one, after others had its workspace
    (3, torch.float16, {"causal": True}, {"causal": True}),  # empty chunks
    (1, torch.float16, {"shards": "contiguous"}, {}),  # empty shards
]
PACKED = [
    ([0, 40, 40, 97, 101], {"causal": True}, {"causal": True}),
    ([0, 57, 61, 101, 101], {"causal": True}, {"causal": True}),  # as many sequences, as long, elsewhere
    (torch.tensor([0, 11, 90]), {"shards": "contiguous", "max_seqlen": 90}, {}),
    ([0, 60, 77], {"window": (9, 0), "seqlen": 77}, {"left": 9, "right": 0}),
]


def attend(rank, ranks):
    with ptxpack.torch.context_parallel() as cp:
        assert (cp.rank, cp.ranks) == (rank, ranks)
        for seed, (rows, dtype, options, limits) in enumerate(DENSE):
            if options.get("way") == "heads" and 2 % ranks != 0:
                continue
            whole = draw(seed, (2, rows, 4, 64), (2, rows, 2, 64), dtype)
            how = {"shards": options.get("shards", "zigzag")}
            own = [cp.shard(x, **how) for x in whole]
            o, logs = cp.attention(*own, seqlen=rows, return_lse=True, **options)
            check(cp, o, logs, reference(*whole, **limits), dtype, (ranks, rows, options), how, dim=1)
            assert torch.equal(o, cp.attention(*own, seqlen=rows, **options))
        for seed, (starts, options, limits) in enumerate(PACKED):
            rows = int(starts[-1])
            whole = draw(seed, (rows, 4, 64), (rows, 2, 64))
            how = {"shards": options.get("shards", "zigzag")}
            o, logs = cp.attention(*(cp.shard(x, 0, **how) for x in whole), cu_seqlens=starts, return_lse=True, **options)
            wanted = of_sequences(*whole, list(map(int, starts)), **limits)
            check(cp, o, logs, wanted, torch.float16, (ranks, starts, options), how, 0)
        turned = [cp.shard(x).transpose(1, 2).contiguous().transpose(1, 2) for x in draw(0, (2, 131, 4, 64), (2, 131, 2, 64))]
        want, _ = reference(*draw(0, (2, 131, 4, 64), (2, 131, 2, 64)), causal=True)
        must_be_near(cp.attention(*turned, seqlen=131, causal=True), cp.shard(want), torch.float16, "not contiguous")
        cp.wait()
    return [line_of(cp.attention, *turned, seqlen=131), line_of(cp.unshard, turned[0], seqlen=131)]


def check(cp, o, logs, wanted, dtype, what, how, dim):
    """The rank's part of o and lse, and the whole o."""
    want, want_lse = wanted
    must_be_near(o, cp.shard(want, dim, **how), dtype, what)
    must_be_near(cp.unshard(o, seqlen=want.shape[dim], dim=dim, **how), want, dtype, what)
    assert isinstance(logs, tuple) and len(logs) == (2 if how["shards"] == "zigzag" else 1)
    lse, want_lse = torch.cat(logs, -1), cp.shard(want_lse, -1, **how)
    assert lse.shape == want_lse.shape and lse.dtype == torch.float32, (what, lse.shape)
    assert not lse.numel() or float((lse - want_lse).abs().max()) < 2e-3 * (1 + float(want_lse.abs().max())), what


def shard(rank, ranks):
    """Whole tensors come back, of any type and dimension; each rank has other rows."""
    with ptxpack.torch.context_parallel() as cp:
        for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.int32):
            whole = torch.arange(2 * 13 * 3).reshape(2, 13, 3).to(dtype)
            for dim, shards in ((1, "zigzag"), (-2, "contiguous"), (0, "zigzag"), (2, "zigzag")):
                own = cp.shard(whole, dim, shards=shards)
                assert own.numel() < whole.numel() and own.is_contiguous()
                assert torch.equal(cp.unshard(own, seqlen=whole.shape[dim], dim=dim, shards=shards), whole), (dtype, dim, shards)
        zigzag = cp.shard(torch.arange(12)[None])
        assert zigzag[0].tolist() == ([[0, 1, 2, 9, 10, 11], [3, 4, 5, 6, 7, 8]] if ranks == 2 else
                                      [[0, 1, 10, 11], [2, 3, 8, 9], [4, 5, 6, 7]])[rank]
        return line_of(cp.unshard, zigzag, seqlen=99 + rank)


def decode(rank, ranks):
    """The ranks' shares differ in size, and one rank has none of a sequence."""
    batch, capacity = 2, 48
    used = torch.tensor([[7, 33], [48, 0], [1, 20]], dtype=torch.int32)[:ranks]
    sinks = torch.tensor([0.5, -2.0, 1.0, 3.0])
    with ptxpack.torch.context_parallel() as cp:
        q, k, v = draw(5, (batch, 2, 4, 64), (ranks, batch, capacity, 2, 64))
        for options, limits in (({}, {}), ({"sinks": sinks, "softcap": 4.0, "scale": 0.3},
                                           {"sinks": sinks, "softcap": 4.0, "scale": 0.3})):
            keys = [[torch.cat([x[r, i, :used[r, i]] for r in range(ranks)])[None] for x in (k, v)] for i in range(batch)]
            wanted = [reference(q[i:i + 1], *keys[i], **limits) for i in range(batch)]
            want, want_lse = (torch.cat([of[n] for of in wanted]) for n in range(2))
            table = torch.tensor([[2, 0, 1], [5, 4, 3]], dtype=torch.int32)
            pages = [torch.empty(6, 16, 2, 64, dtype=torch.float16) for _ in range(2)]
            for x, to in zip((k, v), pages):
                to[table.long()] = x[rank].reshape(batch, 3, 16, 2, 64)
            for kept, more in (((k[rank], v[rank]), {}), (pages, {"page_table": table})):
                o, lse = cp.decode(q, *kept, seqused_k=used[rank], return_lse=True, **more, **options)
                must_be_near(o, want, torch.float16, (ranks, options, more))
                assert float((lse - want_lse).abs().max()) < 1e-2
                assert torch.equal(o, cp.decode(q, *kept, seqused_k=used[rank], **more, **options))
        codes = [(x * 32).round().clamp(-127, 127) for x in (k, v)]
        scale = torch.full((1,), 1 / 32)
        o = cp.decode(q, *(x[rank].to(torch.int8) for x in codes), k_descale=scale, v_descale=scale)
        want, _ = reference(q, *(x.movedim(0, 1).flatten(1, 2) / 32 for x in codes))
        must_be_near(o, want, torch.float16, "int8")
        return [line_of(cp.decode, q, k[rank], v[rank], causal=True), line_of(cp.decode, q, k[rank], v[rank][:1])]


def evict(rank, ranks):
    """Plans are freed and made again, and one that is refused leaves nothing behind."""
    parallel._PLANS_MOST = 2
    with ptxpack.torch.context_parallel() as cp:
        for rows in (20, 31, 20, 42, 20, 31):
            whole = draw(rows, (1, rows, 2, 64), (1, rows, 2, 64))
            must_be_near(cp.attention(*map(cp.shard, whole), seqlen=rows), cp.shard(reference(*whole)[0]), torch.float16, rows)
        return [key[1][1] for key in cp._group._plans]


# ---- what ranks are told -----------------------------------------------------------------------------------
def ours(cp, rows=40, heads=4):
    """The rank's shards of q, k and v of zeros."""
    return [cp.shard(torch.zeros(1, rows, heads, 64, dtype=torch.float16)) for _ in range(3)]


def differ(rank, ranks):
    last = rank == ranks - 1
    with ptxpack.torch.context_parallel(timeout=20) as cp:
        lines = [line_of(cp.attention, *ours(cp, 40, 2 if last else 4), seqlen=40),
                 line_of(cp.attention, *ours(cp, 44 if last else 40), seqlen=44 if last else 40),
                 line_of(cp.attention, *ours(cp, 46 if last else 40), seqlen=40),
                 line_of(cp.decode, *ours(cp, 8 * ranks * (1 + last)))]
        assert cp.attention(*ours(cp), seqlen=40).eq(0).all()  # the group is as good as new
        lines.append(line_of(cp.attention, *ours(cp, 60), seqlen=40) if last else "")  # the plan is there: it asks nobody
        assert cp.attention(*ours(cp), seqlen=40).eq(0).all()
        return lines


def miss(rank, ranks):
    """The last rank makes no plan; the group is of no use then, and closing it says no more."""
    with ptxpack.torch.context_parallel(timeout=SHORT if rank < ranks - 1 else 20) as cp:
        if rank == ranks - 1:
            time.sleep(3 * SHORT)
            return ""
        return [line_of(cp.attention, *ours(cp), seqlen=40), line_of(cp.attention, *ours(cp), seqlen=40)]


def idle(rank, ranks):
    """The last rank makes the plan, and does not take part in the second launch."""
    cp = ptxpack.torch.context_parallel(timeout=SHORT if rank < ranks - 1 else 20)
    cp.attention(*ours(cp), seqlen=40, way="steps")
    if rank == ranks - 1:
        time.sleep(3 * SHORT)
        return ""
    line = line_of(cp.attention, *ours(cp), seqlen=40, way="steps")
    cp.close()
    cp.close()
    return line


def wait_for_the_lost(rank, ranks, error=None):
    """A launch that nobody has waited for: the end of `with` does, and says what was lost, unless an error is on its way."""
    cp = ptxpack.torch.context_parallel(timeout=SHORT if rank < ranks - 1 else 20)
    shards = [ptxpack.from_numpy(x.numpy()) for x in ours(cp)]
    cp._group.attention(*shards, seqlen=40, way="steps")
    cp.wait()
    if rank == ranks - 1:
        time.sleep(3 * SHORT)
        return ""

    def enter():
        with cp:
            kept.append(cp._group.attention(*shards, seqlen=40, way="steps"))
            if error is not None:
                raise error
    kept = []  # to free it would wait, too
    return line_of(enter)


def die(rank, ranks):
    cp = ptxpack.torch.context_parallel(timeout=20)
    cp.attention(*ours(cp), seqlen=40)
    if rank == ranks - 1:
        os._exit(1)
    return line_of(cp.attention, *ours(cp), seqlen=40)


def not_join(rank, ranks):
    if rank == ranks - 1:
        dist.broadcast_object_list([None, None], src=0)
        time.sleep(3 * SHORT)
        return ""
    return line_of(ptxpack.torch.context_parallel, timeout=SHORT)


def no_nccl(rank, ranks):
    os.environ["PTXPACK_NCCL"] = "/no/such/libnccl.so.2"
    return line_of(ptxpack.torch.context_parallel)


class Turned:
    """A tensor whose rows and heads change places."""

    def __init__(self, tensor):
        batch, rows, heads, dim = tensor.shape
        item = tensor.__cuda_array_interface__
        self.keep, self.__cuda_array_interface__ = tensor, {
            **item, "shape": (batch, rows, heads, dim), "strides": (2 * heads * rows * dim, 2 * dim, 2 * rows * dim, 2)}


def misuse(rank, ranks):
    """What a rank may say wrong, alone: no other one is asked."""
    with ptxpack.torch.context_parallel() as cp:
        q, k, v = ours(cp)
        cp.attention(q, k, v, seqlen=40)
        longer, leaf = torch.zeros(1, 41, 4, 64).half(), q.clone().requires_grad_()
        lines = [line_of(cp.attention, *arrays, **options) for arrays, options in (
            ((q, k, v), {}), ((q, k, v), {"seqlen": -1}), ((q, k, v), {"seqlen": 40, "shards": "striped"}),
            ((q, k, v), {"seqlen": 40, "way": "ring"}), ((q[0], k, v), {"seqlen": 40}), ((q[0], k[0], v[0]), {"cu_seqlens": [40]}),
            ((q[0], k[0], v[0]), {"cu_seqlens": [0, 40], "seqlen": 41}), ((q, k, v), {"seqlen": 40, "scale": -1.0}),
            ((q, k, v[:, :, :2]), {"seqlen": 40}), ((q, k[..., :32], v), {"seqlen": 40}),
            ((longer, longer, longer), {"seqlen": 40}), ((leaf, k, v), {"seqlen": 40}),
            ((q, k.bfloat16(), v), {"seqlen": 40}))]
        there, here = ptxpack.empty(tuple(q.shape), device=1), ptxpack.from_numpy(q.numpy())
        starts, stream, cuda = ptxpack.empty((3,), "s32"), ctypes.c_void_p(), cp._group.device
        with cuda.entered() as call:
            call("cuStreamCreate", ctypes.byref(stream), 1)
            call("cuStreamBeginCapture_v2", stream, 2)
        lines += [line_of(cp._group.attention, *[there] * 3, seqlen=40), line_of(cp._group.decode, *[there] * 3),
                  line_of(cp._group.attention, here, Turned(here), here, seqlen=40),
                  line_of(cp._group.attention, *[here] * 3, cu_seqlens=starts)]
        with cuda.entered() as call:
            lines.append(line_of(cp._group.attention, *[here] * 3, seqlen=40, stream=stream))
            call("cuStreamEndCapture", stream, ctypes.byref(ctypes.c_void_p()))
        return lines + [line_of(parallel.Group, b"id", 1, 0)] + [
            line_of(ptxpack.torch.context_parallel, timeout=timeout) for timeout in (0, None)]


def of_some(rank, ranks):
    """A group without this program's first process."""
    group = dist.new_group([1, 2])
    if rank == 0:
        return line_of(ptxpack.torch.context_parallel, group)
    with ptxpack.torch.context_parallel(group, timeout=float("inf")) as cp:
        assert (cp.rank, cp.ranks) == (rank - 1, 2)
        whole = draw(1, (1, 33, 2, 64), (1, 33, 2, 64))
        o = cp.attention(*map(cp.shard, whole), seqlen=33)
        must_be_near(cp.unshard(o, seqlen=33), reference(*whole)[0], torch.float16, "a group of some")


class ContextParallel(unittest.TestCase):
    def test_attention(self):
        for ranks in (2, 3):
            self.assertEqual(run(self, ranks, attend), [["the group is closed"] * 2] * ranks)

    def test_shards(self):
        for ranks in (2, 3):
            self.assertEqual(run(self, ranks, shard)[0], (
                "x has %d rows in dimension 1, and the zigzag shard of rank 0 of %d has %d of 99 rows" % (
                    12 // ranks, ranks, {2: 49, 3: 33}[ranks])))

    def test_decode(self):
        for ranks in (2, 3):
            for causal, shapes in run(self, ranks, decode):
                self.assertEqual(causal, "decode() got an unexpected keyword argument 'causal'")
                self.assertTrue(shapes.startswith("k is (2, 48, 2, 64) and v is (1, 48, 2, 64)"), shapes)

    def test_a_group_of_some(self):
        self.assertEqual(run(self, 3, of_some), ["group: this process is not one of it", None, None])

    def test_plans_are_freed(self):
        self.assertEqual(run(self, 2, evict), [[20, 31]] * 2)

    def test_another_shape(self):
        for rank, (heads, rows, shard_rows, keys, later) in enumerate(run(self, 3, differ)):
            self.assertEqual(heads, "rank 2 has heads_q 2, and rank 0 has 4")
            self.assertEqual(rows, "rank 2 has seqlen_q 44, and rank 0 has 40")
            want = "q has 15 rows, and the zigzag shard" if rank == 2 else "rank 2 cannot make its plan: an argument is out of its"
            self.assertTrue(shard_rows.startswith(want), shard_rows)
            self.assertEqual(keys, "rank 2 has seqlen_q 16, and rank 0 has 8")
            self.assertEqual(later, "q has 20 rows, and the zigzag shard of rank 2 of 3 has 13 of 40 rows" if rank == 2 else "")

    def test_a_missing_rank(self):
        first, second, _ = run(self, 3, miss)
        for rank, lines in enumerate((first, second)):
            self.assertTrue(lines[0].startswith("rank %d of 3: " % rank), lines)
            self.assertEqual(lines[0], lines[1])
            self.assertIn("making a plan: ", lines[0])
            self.assertIn("rank 2 was not seen on this machine", lines[0])
        self.assertIn("within 1500 ms", first[0] + second[0])  # the other one may be told by NCCL that the first gave up
        self.assertEqual(run(self, 2, idle)[0], "rank 0 of 2: data of rank 1 (step 1): not there after 1500 ms")
        self.assertEqual(run(self, 2, wait_for_the_lost)[0], "rank 0 of 2: data of rank 1 (step 1): not there after 1500 ms")
        self.assertEqual(run(self, 2, functools.partial(wait_for_the_lost, error=TypeError("its own")))[0], "its own")
        self.assertRegex(run(self, 2, not_join)[0], "^rank 0 of 2: joining the group: rank 1 was not seen on this machine within 1500 ms$")

    def test_a_rank_that_dies(self):
        self.assertRegex(run(self, 2, die)[0], r"^rank 0 of 2: .*NCCL: .*rank 1 \(process \d+\)")

    def test_no_nccl(self):
        for line in run(self, 2, no_nccl):
            self.assertRegex(line, "^rank 0: .*/no/such/libnccl.so.2")

    def test_misuse(self):
        found = run(self, 1, misuse)[0]
        wanted = ["seqlen is missing: ", "seqlen is -1, and must be a number", "shards is 'striped', and may be",
                  "way is 'ring', and may be", "q has 3 dimensions, and must have 4", "cu_seqlens has 1 number(s), and must have 2",
                  "seqlen is 41, and cu_seqlens ends at 40", "scale is -1.0, and must be above 0", "k is (1, 40, 4, 64) and v is",
                  "q is (1, 40, 4, 64) and k is", "q has 41 rows, and the zigzag shard of rank 0 of 1 has 40 of 40 rows",
                  "q requires a gradient", "q, k, v are f16, bf16, f16", "q is on device 1 or in a context of it, and the group's",
                  "q is on device 1 or in a context of it, and the group's", "k must be contiguous", "cu_seqlens is on a device",
                  "what the ranks of a group do together cannot be captured", "unique has 2 bytes, and must be the 128",
                  "timeout is 0, and must be", "timeout is None, and must be"]
        for line, want in zip(found, wanted, strict=True):
            self.assertTrue(line.startswith(want), (line, want))
        self.assertEqual(line_of(ptxpack.torch.context_parallel),
                         "torch.distributed has no process group: call torch.distributed.init_process_group first")


if __name__ == "__main__":
    unittest.main(verbosity=1)
