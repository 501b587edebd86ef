"""devices.py - parallel.DeviceGroup on two emulated devices, also captured in a graph of both, and what NCCL's group refuses;
module.py runs it."""
import contextlib
import ctypes
import gc
import itertools
import os
import random
import unittest

import ptxpack
import ptxpack.parallel
from arrays import SM, Interface, attend, driver, encode, pointer, u64, values_of

RANKS = 2
ROWS, HEADS, DIM = 21, 2, 16


@contextlib.contextmanager
def on(device):
    """In the primary context of a device."""
    context = pointer()
    driver("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    driver("cuCtxPushCurrent_v2", context)
    try:
        yield
    finally:
        driver("cuCtxPopCurrent_v2", ctypes.byref(pointer()))


def streams_of_all():
    found = []
    for rank in range(RANKS):
        with on(rank):
            stream = pointer()
            driver("cuStreamCreate", ctypes.byref(stream), 1)
        found.append(stream.value)
    return found


class Graph:
    """What `call` enqueues on a stream of each device, as one graph."""

    def __init__(self, streams, call):
        self.streams, self.program, graph = streams, pointer(), pointer()
        with on(0):
            driver("cuStreamBeginCapture_v2", pointer(streams[0]), 2)
        self.follow(1, 0)
        try:
            self.results = call()
        finally:
            self.follow(0, 1)
            with on(0):
                driver("cuStreamEndCapture", pointer(streams[0]), ctypes.byref(graph))
        with on(0):
            driver("cuGraphInstantiateWithFlags", ctypes.byref(self.program), graph, u64(0))

    def follow(self, waiting, before):
        event = pointer()
        with on(before):
            driver("cuEventCreate", ctypes.byref(event), 2)
            driver("cuEventRecord", event, pointer(self.streams[before]))
        with on(waiting):
            driver("cuStreamWaitEvent", pointer(self.streams[waiting]), event, 0)

    def launch(self):
        with on(0):
            driver("cuGraphLaunch", self.program, pointer(self.streams[0]))
            driver("cuStreamSynchronize", pointer(self.streams[0]))


def rewrite(array, values):
    with on(array.device):
        array.write(encode(array.kind, values))


def shard(values, heads, rank, shards):
    """The rank's rows of [ROWS, heads, DIM]."""
    width = heads * DIM
    return [value for first, count in ptxpack.parallel.chunks_of(ROWS, shards, RANKS, rank)
            for value in values[first * width:(first + count) * width]]


class Devices(unittest.TestCase):
    def setUp(self):
        self.rng = random.Random(8)
        self.group = ptxpack.parallel.DeviceGroup(range(RANKS))
        self.addCleanup(self.group.close)

    def draw(self, count):
        return [self.rng.gauss(0, 1) for _ in range(count)]

    def sharded(self, shards, packed=False):
        """Whole q, k and v, and for each of them an array on each device."""
        lead = () if packed else (1,)
        wholes = [Interface("f16", (ROWS * HEADS * DIM,), self.draw(ROWS * HEADS * DIM)).values() for _ in "qkv"]
        rows = [sum(count for _, count in ptxpack.parallel.chunks_of(ROWS, shards, RANKS, rank)) for rank in range(RANKS)]
        return wholes, [[Interface("f16", (*lead, rows[rank], HEADS, DIM), shard(whole, HEADS, rank, shards), device=rank)
                         for rank in range(RANKS)] for whole in wholes]

    def near(self, got, want):
        self.assertEqual(len(got), len(want))
        for value, right in zip(got, want):
            self.assertLessEqual(abs(value - right), 2.0**-8 * (1 + abs(right)))

    def expect(self, results, wholes, shards, **options):
        shape = (1, ROWS, HEADS, DIM)
        o, _ = attend(*wholes, shape, shape, **options)
        for rank, result in enumerate(results):
            self.assertEqual(result.device, rank)
            self.near(values_of(result), shard(o, HEADS, rank, shards))

    def test_attention(self):
        for shards, way in itertools.product(("zigzag", "contiguous"), (None, "gather", "steps", "heads")):
            with self.subTest(shards=shards, way=way):
                wholes, arrays = self.sharded(shards)
                for causal in (False, True):
                    o = self.group.attention(*arrays, seqlen=ROWS, causal=causal, shards=shards, way=way)
                    self.expect(o, wholes, shards, visible=(lambda i, j: j <= i) if causal else (lambda i, j: True))

    def test_sinks_and_lse(self):
        wholes, arrays = self.sharded("contiguous")
        sinks = [Interface("f32", (HEADS,), [1.5, -0.5], device=rank) for rank in range(RANKS)]
        results = self.group.attention(*arrays, seqlen=ROWS, shards="contiguous", sinks=sinks, return_lse=True)
        self.expect([o for o, _ in results], wholes, "contiguous", sinks=[1.5, -0.5])
        _, lse = attend(*wholes, *[(1, ROWS, HEADS, DIM)] * 2, sinks=[1.5, -0.5])
        for rank, (_, logs) in enumerate(results):
            (first, count), = ptxpack.parallel.chunks_of(ROWS, "contiguous", RANKS, rank)
            self.near(values_of(logs), [lse[h * ROWS + row] for h in range(HEADS) for row in range(first, first + count)])

    def test_alibi_and_chunks(self):
        slopes = [0.25, 0.0625]
        for way in (None, "heads"):
            for chunk in (0, 8):
                wholes, arrays = self.sharded("zigzag")
                of_ranks = [Interface("f32", (HEADS,), slopes, device=rank) for rank in range(RANKS)]
                o = self.group.attention(*arrays, seqlen=ROWS, causal=True, alibi_slopes=of_ranks, attention_chunk=chunk, way=way)
                self.expect(o, wholes, "zigzag", slopes=slopes,
                            visible=lambda i, j: j <= i and (not chunk or j >= i - i % chunk))
        with self.assertRaisesRegex(ptxpack.Error, "PTXPACK_PARALLEL_STEPS is not possible with chunks"):
            self.group.attention(*arrays, seqlen=ROWS, causal=True, attention_chunk=8, way="steps")

    def captured(self, shards="zigzag", close=False, **options):
        """Replayed twice with changed inputs, after and between calls that are not captured."""
        group, streams, packed = self.group, streams_of_all(), "cu_seqlens" in options
        wholes, arrays = self.sharded(shards, packed)
        call = {"shards": shards, "streams": streams, **options}
        group.attention(*arrays, **call)
        graph = Graph(streams, lambda: group.attention(*arrays, **call))
        if close:
            group.close()
            gc.collect()
        for _ in range(2):
            wholes = [Interface("f16", (ROWS * HEADS * DIM,), self.draw(ROWS * HEADS * DIM)).values() for _ in "qkv"]
            for whole, ranks in zip(wholes, arrays):
                for rank, array in enumerate(ranks):
                    rewrite(array, shard(whole, HEADS, rank, shards))
            graph.launch()
            begin = options["cu_seqlens"][1] if packed else 0  # of the second sequence, if there is one
            self.expect(graph.results, wholes, shards, visible=lambda i, j: j <= i and (i < begin or j >= begin))
            if not close:
                _, others = self.sharded(shards, packed)
                group.attention(*others, **call)
                group.wait(streams)

    def test_captured(self):
        for way in ("gather", "steps", "heads"):
            with self.subTest(way):
                self.captured(seqlen=ROWS, causal=True, way=way)

    def test_captured_and_closed(self):
        """The graph copies where packed sequences begin from the memory of the plan, which stays."""
        self.captured("contiguous", close=True, cu_seqlens=[0, 8, ROWS], causal=True)

    def test_captured_has_a_workspace_of_its_own(self):
        streams = streams_of_all()
        _, arrays = self.sharded("zigzag")
        call = {"seqlen": ROWS, "way": "gather", "streams": streams}
        self.group.attention(*arrays, **call)
        kept = [dict(space.kept) for space in self.group._spaces]
        self.assertTrue(all(kept))
        found = []
        plain = ptxpack.device._Device.allocate_zeros

        def allocate(device, size):
            found.append((device.ordinal, plain(device, size)))
            return found[-1][1]
        ptxpack.device._Device.allocate_zeros = allocate
        try:
            graph = Graph(streams, lambda: self.group.attention(*arrays, **call))
        finally:
            ptxpack.device._Device.allocate_zeros = plain
        self.assertEqual([ordinal for ordinal, _ in found], [0, 1])
        self.assertEqual([dict(space.kept) for space in self.group._spaces], kept)
        plan, = self.group._captured
        most, ptxpack.parallel._PLANS_MOST = ptxpack.parallel._PLANS_MOST, 1
        try:
            self.group.attention(*arrays, **{**call, "causal": True})  # in place of the plan of the graph
        finally:
            ptxpack.parallel._PLANS_MOST = most
        self.assertTrue(plan.pointer and plan not in self.group._plans.values())
        self.assertIn(plan, self.group.device.captured)
        self.group.wait(streams)
        graph.launch()

    # ---- decoding ----
    def cache(self, lengths):
        """q, and caches of both ranks with so many keys."""
        q = Interface("f16", (HEADS * DIM,), self.draw(HEADS * DIM)).values()
        caches = [[Interface("f16", (24 * HEADS * DIM,), self.draw(24 * HEADS * DIM)).values() for _ in "kv"] for _ in range(RANKS)]
        keys = [[value for rank in range(RANKS) for value in caches[rank][t][:lengths[rank] * HEADS * DIM]] for t in range(2)]
        o, _ = attend(q, *keys, (1, 1, HEADS, DIM), (1, sum(lengths), HEADS, DIM))
        return q, caches, o

    @unittest.skipIf(SM < 80, "lengths of caches want sm_80")
    def test_decoding(self):
        """Eager, then captured and replayed with other keys and lengths."""
        streams = streams_of_all()
        arrays = [[Interface("f16", shape, device=rank) for rank in range(RANKS)] for shape in (
            (1, 1, HEADS, DIM), (1, 24, HEADS, DIM), (1, 24, HEADS, DIM))]
        used = [Interface("s32", (1,), [0], device=rank) for rank in range(RANKS)]
        out = [Interface("f16", (1, 1, HEADS, DIM), device=rank) for rank in range(RANKS)]

        def fill(*lengths):
            q, caches, want = self.cache(lengths)
            for rank in range(RANKS):
                for array, values in zip((arrays[0][rank], arrays[1][rank], arrays[2][rank]), (q, *caches[rank])):
                    rewrite(array, values)
                with on(rank):
                    used[rank].write(encode("s32", [lengths[rank]]))
            return want
        want = fill(20, 7)
        for got in self.group.decode(*arrays, seqused_k=used, streams=streams):
            self.near(values_of(got), want)
        graph = Graph(streams, lambda: self.group.decode(*arrays, seqused_k=used, out=out, streams=streams))
        self.assertTrue(all(result is given for result, given in zip(graph.results, out)))
        for lengths in ((24, 3), (1, 0)):
            want = fill(*lengths)
            graph.launch()
            for rank in range(RANKS):
                with on(rank):
                    self.near(out[rank].values(), want)
        want = fill(9, 9)
        for got in self.group.decode(*arrays, seqused_k=9, streams=streams):
            self.near(values_of(got), want)

    # ---- refusals ----
    def refused(self, pattern, function, *arrays, kind=ptxpack.ArgumentError, **options):
        with self.subTest(pattern):
            with self.assertRaisesRegex(kind, pattern) as caught:
                function(*arrays, **options)
            self.assertNotIn("\n", str(caught.exception))

    def test_refusals(self):
        _, (q, k, v) = self.sharded("zigzag")
        attention, decode = self.group.attention, self.group.decode
        for pattern, arrays, options in (
                ("seqlen is missing", (q, k, v), {}),
                ("q must be a list of 2, one for each rank", (q[0], k, v), {"seqlen": ROWS}),
                ("v must be a list of 2, one for each rank", (q, k, v[:1]), {"seqlen": ROWS}),
                ("streams must be a list of 2", (q, k, v), {"seqlen": ROWS, "streams": [0]}),
                ("k.0. is on device 1, q.0. on device 0", (q, k[::-1], v), {"seqlen": ROWS}),
                ("q.0. of rank 0 is on device 1 or in a context of it, and the rank's device is 0", (q[::-1], k[::-1], v[::-1]), {
                    "seqlen": ROWS}),
                (r"q.0. has 11 rows, and the zigzag shard of rank 0 of 2 has 15 of 30 rows", (q, k, v), {"seqlen": 30}),
                ("q.1., k.1., v.1. are f16, bf16, f16: they must be of one type", (q, [k[0], Interface(
                    "bf16", k[1].shape, device=1)], v), {"seqlen": ROWS}),
                ("q.0. is .* and q.1. is .*: all but the rows must agree", tuple(
                    [array[0], Interface("f16", (1, *array[1].shape[1:2], 4, DIM), device=1)] for array in (q, k, v)), {
                        "seqlen": ROWS}),
                ("way is 'ring'", (q, k, v), {"seqlen": ROWS, "way": "ring"})):
            self.refused(pattern, attention, *arrays, **options)
        self.refused("q must be a list of 2", decode, q[0], k, v)
        with self.assertRaisesRegex(TypeError, "unexpected keyword argument 'causal'"):
            decode(q, k, v, causal=True)
        self.refused("there is no device 9", ptxpack.parallel.DeviceGroup, [0, 9])
        self.refused("devices is empty", ptxpack.parallel.DeviceGroup, [])
        self.group.close()
        self.refused("the group is closed", attention, q, k, v, seqlen=ROWS)

    def test_a_stream_that_is_not_captured(self):
        streams, other, (_, arrays) = streams_of_all(), streams_of_all(), self.sharded("zigzag")
        call = {"seqlen": ROWS, "way": "gather"}
        self.group.attention(*arrays, **call)
        Graph(streams, lambda: self.refused("the stream of rank 0 is captured and that of rank 1 is not: let it wait for an event",
                                            self.group.attention, *arrays, streams=[streams[0], other[1]], **call))

    @unittest.skipUnless(os.path.exists(os.environ.get("PTXPACK_NCCL", "")), "no emulated NCCL: make emulated-libcuda")
    def test_ranks_by_nccl(self):
        group = ptxpack.parallel.Group(ptxpack.parallel.unique_id(), 1, 0)
        self.addCleanup(group.close)
        array, stream, graph = Interface("f16", (1, ROWS, HEADS, DIM), self.draw(ROWS * HEADS * DIM)), pointer(), pointer()
        values = array.values()
        want, _ = attend(values, values, values, *[(1, ROWS, HEADS, DIM)] * 2)
        driver("cuStreamCreate", ctypes.byref(stream), 1)
        driver("cuStreamBeginCapture_v2", stream, 2)
        for function, options in ((group.attention, {"seqlen": ROWS}), (group.decode, {})):
            self.refused("what the ranks of a group do together cannot be captured in a graph where NCCL connects them",
                         function, *[array] * 3, kind=ptxpack.Unsupported, stream=stream, **options)
        driver("cuStreamEndCapture", stream, ctypes.byref(graph))
        self.near(values_of(group.attention(*[array] * 3, seqlen=ROWS)), want)


