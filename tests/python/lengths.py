"""lengths.py - sequences with lengths of their own: ptxpack.attention and ptxpack.flash_attn on the emulated driver, compared with
a reference in NumPy's doubles.  What no sequence has is NaN.  numpy.sh runs it."""
import ctypes
import itertools
import unittest

import numpy

import ptxpack
from ptxpack.flash_attn import flash_attn_func, flash_attn_varlen_func, flash_attn_with_kvcache

HEADS, HEADS_K, DIM = 4, 2, 16
NO_PAGE = 0x7ffffff0


def ints(values):
    return ptxpack.from_numpy(numpy.array(values, "int32"))


def half(array):
    return ptxpack.from_numpy(array.astype("float16"))


class Lent:
    """An array that has only DLPack."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, **options):
        return self.tensor.__dlpack__(**options)


def attend(q, k, v, causal=False, window=(-1, -1), softcap=0.0, scale=None, sinks=None, slopes=None, chunk=0):
    """o [rows, heads, dim] and lse [heads, rows] of one sequence."""
    rows, keys = len(q), len(k)
    q, k, v = (x.astype("float16").astype("float64") for x in (q, k, v))
    k, v = (numpy.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    s = numpy.einsum("ihd,jhd->hij", q, k) * (scale or DIM**-0.5)
    s = softcap * numpy.tanh(s / softcap) if softcap else s
    left, right = window[0], 0 if causal else window[1]
    distance = numpy.arange(keys)[None] - numpy.arange(rows)[:, None] - (keys - rows)
    seen = ((right < 0) | (distance <= right)) & ((left < 0) | (distance >= -left))
    if chunk:
        seen &= numpy.arange(keys)[None] // chunk == (numpy.arange(rows)[:, None] + keys - rows) // chunk
    s = s if slopes is None else s - numpy.array(slopes)[:, None, None] * abs(distance)
    s = numpy.where(seen, s, -numpy.inf)
    with numpy.errstate(invalid="ignore", divide="ignore"):
        sink = numpy.full((len(s), 1, 1), -numpy.inf) if sinks is None else numpy.array(sinks)[:, None, None]
        top = numpy.maximum(s.max(axis=2, initial=-numpy.inf, keepdims=True), sink)
        p = numpy.where(seen, numpy.exp(s - top), 0)
        total = p.sum(axis=2, keepdims=True) + numpy.where(numpy.isinf(sink), 0, numpy.exp(sink - top))
        o = numpy.einsum("hij,jhd->ihd", numpy.where(total > 0, p / total, 0), v)
        lse = numpy.where(total > 0, top + numpy.log(total), -numpy.inf)
    return o, lse[..., 0]


class Batch:
    """Random sequences, in all the ways to store them."""

    def __init__(self, lengths_q, lengths_k, seed=1):
        self.random = numpy.random.default_rng(seed)
        self.lengths_q, self.lengths_k = lengths_q, lengths_k
        self.q = [self.random.standard_normal((n, HEADS, DIM)) for n in lengths_q]
        self.k = [self.random.standard_normal((n, HEADS_K, DIM)) for n in lengths_k]
        self.v = [self.random.standard_normal((n, HEADS_K, DIM)) for n in lengths_k]

    def packed(self, which):
        return half(numpy.concatenate(getattr(self, which)))

    @staticmethod
    def starts(lengths):
        return ints([0] + list(itertools.accumulate(lengths)))

    def dense(self, which, rows, places=None, sequences=None, pad=()):
        arrays = getattr(self, which)
        whole = numpy.full((sequences or len(arrays), rows) + arrays[0].shape[1:], numpy.nan)
        for i, array in enumerate(arrays):
            first = pad[i] if pad else 0
            whole[places[i] if places else i, first:first + len(array)] = array
        return half(whole)

    def paged(self, rows, width):
        """k, v and the page table."""
        pages = sum(-(-n // rows) for n in self.lengths_k) + 2
        k, v = (numpy.full((pages, rows, HEADS_K, DIM), numpy.nan) for _ in "kv")
        table, order = numpy.full((len(self.k), width), NO_PAGE), iter(self.random.permutation(pages))
        for i, n in enumerate(self.lengths_k):
            for at in range(0, n, rows):
                page = table[i, at // rows] = next(order)
                count = min(rows, n - at)
                k[page, :count], v[page, :count] = self.k[i][at:at + count], self.v[i][at:at + count]
        return half(k), half(v), ints(table)

    def expect(self, test, i, o, lse=None, **options):
        """The rows of sequence i."""
        want, want_lse = attend(self.q[i], self.k[i], self.v[i], **options)
        test.assertEqual(o.shape, want.shape)
        numpy.testing.assert_allclose(o.astype("float64"), want, rtol=4 * 2.0**-11, atol=4 * 2.0**-11)
        if lse is not None:
            numpy.testing.assert_allclose(lse.astype("float64"), want_lse, rtol=2e-3, atol=2e-3)

    def expect_packed(self, test, o, lse=None, **options):
        at = 0
        for i, n in enumerate(self.lengths_q):
            self.expect(test, i, o.numpy()[at:at + n], None if lse is None else lse.numpy()[:, at:at + n], **options)
            at += n
        test.assertEqual(o.shape, (at, HEADS, DIM))

    def expect_dense(self, test, o, lse=None, **options):
        for i, n in enumerate(self.lengths_q):
            self.expect(test, i, o.numpy()[i, :n], None if lse is None else lse.numpy()[i, :, :n], **options)


class Varlen(unittest.TestCase):
    def test_packed(self):
        batch = Batch((2, 0, 1, 3, 1), (5, 4, 0, 40, 1))
        q, k, v, n, m = (batch.packed("q"), batch.packed("k"), batch.packed("v"), batch.starts(batch.lengths_q),
                         batch.starts(batch.lengths_k))
        for options in ({}, {"causal": True}, {"window_size": (7, 2)}, {"softcap": 3.0, "softmax_scale": 0.5, "causal": True},
                        {"causal": True, "attention_chunk": 3}):
            with self.subTest(options):
                mine = {{"window_size": "window", "softmax_scale": "scale", "attention_chunk": "chunk"}.get(x, x): y for x, y in options.items()}
                o, lse, none = flash_attn_varlen_func(q, k, v, n, m, 3, 40, return_attn_probs=True, **options)
                self.assertEqual((none, lse.shape), (None, (HEADS, 7)))
                batch.expect_packed(self, o, lse, **mine)
        batch.expect_packed(self, flash_attn_varlen_func(q, k, v, n, m, 3, 40, 0.0, None, True), causal=True)
        o, lse = ptxpack.attention(*map(Lent, (q, k, v)), cu_seqlens_q=Lent(n), cu_seqlens_k=Lent(m), max_seqlen_q=3, return_lse=True)
        batch.expect_packed(self, o, lse)

    def test_heads_first(self):
        batch = Batch((2, 1), (5, 33))
        q, k, v = (half(batch.packed(x).numpy().transpose(1, 0, 2)) for x in "qkv")
        o = ptxpack.attention(q, k, v, layout="bhsd", cu_seqlens_q=batch.starts((2, 1)), cu_seqlens_k=batch.starts((5, 33)),
                              max_seqlen_q=2, max_seqlen_k=33)
        batch.expect_packed(self, half(o.numpy().transpose(1, 0, 2)))

    def test_pages(self):
        """As vLLM calls it: by keyword, with a part of a wider table."""
        batch = Batch((1, 2, 1, 1), (17, 64, 0, 3))
        for rows in (1, 4, 16, 64):
            k, v, table = batch.paged(rows, 64 // rows + 3)
            table.shape = (4, 64 // rows)
            o, lse = flash_attn_varlen_func(q=batch.packed("q"), k=k, v=v, cu_seqlens_q=batch.starts(batch.lengths_q),
                                            max_seqlen_q=2, seqused_k=ints(batch.lengths_k), max_seqlen_k=64, softmax_scale=DIM**-0.5,
                                            causal=True, alibi_slopes=None, window_size=[-1, -1], block_table=table, softcap=0.0,
                                            return_softmax_lse=True, scheduler_metadata=None, fa_version=2, q_descale=ints([1]),
                                            k_descale=ints([1]), v_descale=None, num_splits=0, s_aux=None)
            batch.expect_packed(self, o, lse, causal=True)

    def test_chunks(self):
        """In pages, and of a cache with rows before its first key."""
        batch = Batch((1, 2, 1, 1), (17, 64, 0, 3))
        k, v, table = batch.paged(16, 4)
        o = flash_attn_varlen_func(batch.packed("q"), k, v, batch.starts(batch.lengths_q), None, 2, 64, causal=True,
                                   seqused_k=ints(batch.lengths_k), block_table=table, attention_chunk=16)
        batch.expect_packed(self, o, causal=True, chunk=16)
        batch = Batch((2, 2), (11, 20))
        for chunk in (0, 4, 19):
            o = flash_attn_with_kvcache(batch.dense("q", 2), *(half(numpy.pad(batch.dense(x, 20).numpy(), ((0, 0), (3, 0), (0, 0), (0, 0))))
                                                               for x in "kv"),
                                        cache_seqlens=ints([14, 23]), cache_leftpad=ints([3, 3]), causal=True, attention_chunk=chunk)
            batch.expect_dense(self, o, causal=True, chunk=chunk)

    def test_sinks(self):
        """Packed, in pages, and of a cache, under the names of vLLM and of flash-attn 4."""
        batch = Batch((1, 2, 1, 1), (17, 64, 0, 3))
        sinks = [(-1) ** h * 0.75 * h for h in range(HEADS)]
        there = ptxpack.from_numpy(numpy.array(sinks, "float32"))
        k, v, table = batch.paged(16, 4)
        o, lse = flash_attn_varlen_func(batch.packed("q"), k, v, batch.starts(batch.lengths_q), None, 2, 64, causal=True,
                                        seqused_k=ints(batch.lengths_k), block_table=table, return_softmax_lse=True, s_aux=there)
        batch.expect_packed(self, o, lse, causal=True, sinks=sinks)
        o, lse = flash_attn_with_kvcache(batch.dense("q", 2), batch.dense("k", 64), batch.dense("v", 64), learnable_sink=there,
                                         cache_seqlens=ints(batch.lengths_k), return_softmax_lse=True)
        batch.expect(self, 1, o.numpy()[1], lse.numpy()[1], sinks=sinks)

    def test_alibi(self):
        batch = Batch((2, 0, 1, 3, 1), (5, 4, 0, 40, 1))
        slopes = [0.5**h for h in range(HEADS)]
        there = ptxpack.from_numpy(numpy.array(slopes, "float32"))
        o, lse = flash_attn_varlen_func(batch.packed("q"), batch.packed("k"), batch.packed("v"), batch.starts(batch.lengths_q),
                                        batch.starts(batch.lengths_k), 3, 40, alibi_slopes=there, return_softmax_lse=True)
        batch.expect_packed(self, o, lse, slopes=slopes)

    def test_starts_as_lengths_of_pages(self):
        """flash-attn 2's way; libraries whose arrays can be subtracted."""
        batch = Batch((1, 1), (17, 30))
        k, v, table = batch.paged(16, 2)

        class Starts(Lent):
            def __init__(self, array):
                super().__init__(ints(array))
                self.array = array

            def __getitem__(self, at):
                return Starts(self.array[at])

            def __sub__(self, other):
                return ints(self.array - other.array)
        arguments = batch.packed("q"), k, v, batch.starts((1, 1))
        o = flash_attn_varlen_func(*arguments, Starts(numpy.array([0, 17, 47])), 1, 30, block_table=table)
        batch.expect_packed(self, o)
        with self.assertRaisesRegex(ptxpack.Unsupported, "a Tensor cannot be subtracted; give seqused_k with block_table"):
            flash_attn_varlen_func(*arguments, ints([0, 17, 47]), 1, 30, block_table=table)

    def test_used_rows_of_q(self):
        """What is beyond the lengths keeps what it holds, also the lse."""
        batch = Batch((2, 0, 1), (9, 5, 20))
        out, lse = (ptxpack.from_numpy(numpy.full(shape, 7, kind)) for shape, kind in (
            ((3, 3, HEADS, DIM), "float16"), ((3, HEADS, 3), "float32")))
        got = ptxpack.attention(batch.dense("q", 3), batch.dense("k", 24), batch.dense("v", 24), causal=True, out=out, lse=lse,
                                seqused_q=ints(batch.lengths_q), seqused_k=ints(batch.lengths_k))
        self.assertTrue(got[0] is out and got[1] is lse)
        batch.expect_dense(self, out, lse, causal=True)
        for i, n in enumerate(batch.lengths_q):
            self.assertTrue(numpy.all(out.numpy()[i, n:] == 7) and numpy.all(lse.numpy()[i, :, n:] == 7))

    def test_all_alike(self):
        batch = Batch((2, 2), (9, 9))
        o, lse = flash_attn_func(batch.dense("q", 2), batch.dense("k", 9), batch.dense("v", 9), causal=True, return_softmax_lse=True)
        batch.expect_dense(self, o, lse, causal=True)


class Cache(unittest.TestCase):
    def test_lengths(self):
        batch = Batch((2, 2, 2), (30, 2, 41))
        q, k, v = batch.dense("q", 2), batch.dense("k", 41), batch.dense("v", 41)
        o, lse = flash_attn_with_kvcache(q, k, v, cache_seqlens=ints(batch.lengths_k), causal=True, return_softmax_lse=True)
        batch.expect_dense(self, o, lse, causal=True)
        batch = Batch((1, 1), (11, 11))
        q, k, v = batch.dense("q", 1), batch.dense("k", 20), batch.dense("v", 20)
        for number in (11, numpy.int64(11)):
            batch.expect_dense(self, flash_attn_with_kvcache(q, k, v, cache_seqlens=number, window_size=(4, 4)), window=(4, 4))
        whole = Batch((1, 1), (11, 11))
        batch.expect_dense(self, flash_attn_with_kvcache(q, whole.dense("k", 11), whole.dense("v", 11)))

    def test_map_and_padding(self):
        batch, places, pad = Batch((1, 1, 1), (10, 1, 25)), (4, 0, 2), (3, 0, 7)
        k, v = (batch.dense(x, 32, places, 6, pad) for x in "kv")
        ends = ints([n + p for n, p in zip(batch.lengths_k, pad)])
        o, lse = flash_attn_with_kvcache(batch.dense("q", 1), k, v, cache_seqlens=ends, cache_batch_idx=ints(places),
                                         cache_leftpad=ints(pad), causal=True, return_softmax_lse=True)
        batch.expect_dense(self, o, lse, causal=True)

    def test_pages(self):
        batch = Batch((1, 1, 1), (50, 0, 16))
        k, v, table = batch.paged(16, 4)
        for name in ("block_table", "page_table"):
            o = ptxpack.attention_with_kvcache(batch.dense("q", 1), k, v, cache_seqlens=ints(batch.lengths_k), **{name: table})
            batch.expect_dense(self, o)
        packed = batch.packed("q")
        o = flash_attn_with_kvcache(packed, k, v, cache_seqlens=ints(batch.lengths_k), page_table=table, cu_seqlens_q=ints([0, 1, 2, 3]),
                                    max_seqlen_q=1)
        batch.expect_packed(self, o)

    def test_one_graph_for_all_lengths(self):
        """Lengths and pages are read when a captured graph is replayed; a number stays as it was."""
        cuda, stream, graph, program = ptxpack.device._driver().call, ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        cuda("cuCtxSetCurrent", ctypes.c_void_p(ptxpack.device._device(0).context))
        cuda("cuStreamCreate", ctypes.byref(stream), 1)
        batch, most = Batch((1, 1), (64, 64)), ints([64, 64])
        k, v, table = batch.paged(16, 4)
        q, out, fixed = batch.dense("q", 1), batch.dense("q", 1), batch.dense("q", 1)
        for captured in (False, True):  # first the plan is made
            if captured:
                cuda("cuStreamBeginCapture_v2", stream, 0)
            flash_attn_with_kvcache(q, k, v, cache_seqlens=most, block_table=table, out=out, stream=stream.value)
            flash_attn_with_kvcache(q, k, v, cache_seqlens=7, block_table=table, out=fixed, stream=stream.value)
        cuda("cuStreamEndCapture", stream, ctypes.byref(graph))
        cuda("cuGraphInstantiateWithFlags", ctypes.byref(program), graph, ctypes.c_uint64(0))
        for lengths in ((3, 60), (0, 17), (64, 1)):
            now = numpy.array(lengths, "int32")
            most._upload(ctypes.c_void_p(now.ctypes.data))
            cuda("cuGraphLaunch", program, stream)
            cuda("cuStreamSynchronize", stream)
            for i, n in enumerate(lengths):
                for got, keys in ((out, n), (fixed, 7)):
                    want, _ = attend(batch.q[i], batch.k[i][:keys], batch.v[i][:keys])
                    numpy.testing.assert_allclose(got.numpy()[i].astype("float64"), want, rtol=4 * 2.0**-11, atol=4 * 2.0**-11)

    def test_a_decoding_loop_has_one_plan(self):
        device, misses = ptxpack.device._device(0), []
        for n in range(1, 30):
            batch = Batch((1, 1), (n, 2 * n))
            k, v, table = batch.paged(16, 4)
            k, v = (half(numpy.concatenate((x.numpy(), numpy.zeros((8 - x.shape[0], 16, HEADS_K, DIM))))) for x in (k, v))
            o = flash_attn_varlen_func(batch.packed("q"), k, v, ints([0, 1, 2]), None, 1, 2 * n, seqused_k=ints(batch.lengths_k),
                                       block_table=table)
            batch.expect_packed(self, o)
            o = flash_attn_with_kvcache(batch.dense("q", 1), batch.dense("k", 60), batch.dense("v", 60), cache_seqlens=n)
            self.assertEqual(o.shape, (2, 1, HEADS, DIM))
            misses.append(device.attention_plan.cache_info().misses)
        self.assertEqual(misses[0], misses[-1])


class Parts(unittest.TestCase):
    def test_the_batch_does_not_matter(self):
        numbers = numpy.random.default_rng(5)
        q, k, v = (numbers.standard_normal((3, rows, heads, DIM)) for rows, heads in ((1, HEADS), (700, HEADS_K), (700, HEADS_K)))
        every = numpy.asarray(ptxpack.attention(half(q), half(k), half(v), split_rows=256))
        for i in range(3):
            alone = ptxpack.attention(half(q[i:i + 1]), half(k[i:i + 1]), half(v[i:i + 1]), split_rows=256)
            numpy.testing.assert_array_equal(numpy.asarray(alone)[0], every[i])
            exact, _ = attend(q[i], k[i], v[i])
            numpy.testing.assert_allclose(every[i].astype("float64"), exact, atol=2e-3)
        used = ptxpack.attention(half(q), half(k), half(v), split_rows=512, seqused_k=ints([700, 0, 513]))
        numpy.testing.assert_allclose(numpy.asarray(used)[2].astype("float64"), attend(q[2], k[2][:513], v[2][:513])[0], atol=2e-3)
        with self.assertRaisesRegex(ptxpack.ArgumentError, "split_rows 100 is not 0 or a multiple of 256"):
            ptxpack.attention(half(q), half(k), half(v), split_rows=100)


class Refusals(unittest.TestCase):
    def test_lines(self):
        batch = Batch((1, 1), (5, 9))
        q, k, v, n, m = batch.packed("q"), batch.packed("k"), batch.packed("v"), ints([0, 1, 2]), ints([0, 5, 14])
        dense_q, dense_k = batch.dense("q", 1), batch.dense("k", 9)
        pages, _, table = batch.paged(16, 2)
        odd = half(numpy.zeros((4, 12, HEADS_K, DIM)))
        for line, call in (
                ("q has 3 dimensions, and must have 4$", lambda: ptxpack.attention(q, k, v)),
                ("q has 4 dimensions, and must have 3 with cu_seqlens_q", lambda: ptxpack.attention(dense_q, k, k, cu_seqlens_q=n)),
                ("k has 4 dimensions, and must have 3 with cu_seqlens_k",
                 lambda: ptxpack.attention(q, dense_k, dense_k, cu_seqlens_q=n, cu_seqlens_k=m)),
                ("cu_seqlens_q is s64", lambda: flash_attn_varlen_func(q, k, v, ptxpack.from_numpy(numpy.arange(3)), m, 1, 9)),
                (r"seqused_k is s32 \(1, 2\), and must be s32 of 1 dimension$",
                 lambda: ptxpack.attention(dense_q, dense_k, dense_k, seqused_k=ints([[5, 9]]))),
                (r"page_table is s32 \(2,\), and must be s32 of 2 dimensions",
                 lambda: ptxpack.attention(dense_q, pages, pages, page_table=ints([1, 2]))),
                ("cu_seqlens_q is of 2 sequences, and cu_seqlens_k of 1",
                 lambda: flash_attn_varlen_func(q, k, v, n, ints([0, 14]), 1, 14)),
                ("q is of 2 sequences, and seqused_k of 3", lambda: ptxpack.attention(dense_q, dense_k, dense_k, seqused_k=ints([1, 2, 3]))),
                ("q is of 2 sequences, and k of 4", lambda: ptxpack.attention(dense_q, odd, odd, seqused_k=ints([1, 2]))),
                ("cu_seqlens_k is for packed k and v, and page_table for paged",
                 lambda: ptxpack.attention(q, pages, pages, cu_seqlens_q=n, cu_seqlens_k=m, page_table=table)),
                ("seqused_k is -1, and must be 0 or more", lambda: flash_attn_with_kvcache(dense_q, dense_k, dense_k, cache_seqlens=-1)),
                ("page_rows 12 is not a power of two", lambda: ptxpack.attention(dense_q, odd, odd, page_table=table)),
                ("cache_batch_idx is for dense k and v, not with page_table",
                 lambda: ptxpack.attention(dense_q, pages, pages, page_table=table, cache_batch_idx=ints([0, 1]))),
                ("page_table: its last dimension must be contiguous",
                 lambda: ptxpack.attention(dense_q, pages, pages, page_table=transposed(ints([[0, 1], [2, 3]]))))):
            with self.subTest(line), self.assertRaisesRegex(ptxpack.ArgumentError, line):
                call()

    def test_what_is_not_supported(self):
        batch = Batch((1, 1), (5, 5))
        q, k = batch.dense("q", 1), batch.dense("k", 5)
        for name, value in (("dropout_p", 0.1), ("cp_rank", 1), ("qv", q)):
            with self.assertRaisesRegex(NotImplementedError, "flash_attn_func: %s is not supported" % name):
                flash_attn_func(q, k, k, **{name: value})
        with self.assertRaisesRegex(NotImplementedError, "attention_chunk needs causal=True"):
            flash_attn_func(q, k, k, attention_chunk=8)
        for name in ("rotary_seqlens", "qv"):
            with self.assertRaisesRegex(NotImplementedError, "flash_attn_with_kvcache: %s is not supported" % name):
                flash_attn_with_kvcache(q, k, k, **{name: k})
        with self.assertRaisesRegex(NotImplementedError, "flash_attn_varlen_func: cp_world_size is not supported"):
            flash_attn_varlen_func(q, k, k, cp_world_size=2)
        for neutral in ({"deterministic": True}, {"num_splits": 3, "pack_gqa": True, "sm_margin": 2}, {"dropout_p": 0, "qv": None}):
            batch.expect_dense(self, flash_attn_func(q, k, batch.dense("v", 5), **neutral))
        with self.assertRaisesRegex(TypeError, "unexpected keyword argument 'soft_cap'"):
            flash_attn_func(q, k, k, soft_cap=1)
        with self.assertRaisesRegex(NotImplementedError, "alibi_slopes of each sequence are not supported"):
            flash_attn_func(q, k, k, alibi_slopes=k)
        with self.assertRaisesRegex(TypeError, "takes one of s_aux, learnable_sink, sinks"):
            flash_attn_func(q, k, k, s_aux=k, learnable_sink=k)
        with self.assertRaisesRegex(TypeError, "takes block_table or page_table, not both"):
            flash_attn_with_kvcache(q, k, k, block_table=k, page_table=k)


def transposed(tensor):
    tensor.strides = tensor.strides[::-1]
    return tensor


def blocks_values(blocks):
    """What blocks of q8_0 mean, as float64."""
    rows = blocks.reshape(-1, 34)
    values = numpy.ascontiguousarray(rows[:, :2]).view("<f2").astype("float64") * rows[:, 2:].view("int8")
    return values.reshape(*blocks.shape[:-1], -1)


class Blocks(unittest.TestCase):
    """k and v of ggml's q8_0."""

    def test_quantise(self):
        values = numpy.zeros((2, 64), "float32")
        values[0, :8] = 127, 0.5, -0.5, 2.5, -3.5, 1.4999999, 0.49999997, -126.5  # the scale is 1
        values[1, 32:] = numpy.linspace(-3, 3, 32)
        blocks = ptxpack.from_numpy(values, "q8_0").numpy()
        self.assertEqual((blocks.shape, blocks.dtype), ((2, 68), numpy.uint8))
        self.assertEqual(list(blocks[0, :10].view("int8")), [0, 60, 127, 1, -1, 3, -4, 1, 0, -127])
        self.assertLessEqual(abs(blocks_values(blocks)[1, 32:] - values[1, 32:]).max(), 3 / 127 / 2 * 1.01 + 3 * 2**-11)
        self.assertEqual(set(blocks[1, :34]), {0})
        with self.assertRaisesRegex(ptxpack.ArgumentError, "no whole blocks of 32"):
            ptxpack.from_numpy(values[:, :40], "q8_0")

    def test_attention(self):
        random = numpy.random.default_rng(3)
        q = random.standard_normal((2, 3, 4, 64)).astype("float16")
        k, v = (ptxpack.from_numpy(random.standard_normal((2, 70, 2, 64)), "q8_0") for _ in "kv")
        o, lse = ptxpack.attention(half(q), k, v, kv_dtype="q8_0", causal=True, seqused_k=ints([70, 33]), return_lse=True)
        for at, keys in enumerate((70, 33)):
            want, logs = attend(q[at], *(blocks_values(x.numpy()[at, :keys]) for x in (k, v)), causal=True, scale=0.125)
            self.assertLessEqual(abs(o.numpy()[at] - want).max(), 4e-3)
            self.assertLessEqual(abs(lse.numpy()[at] - logs).max(), 2e-3)

    def test_refusals(self):
        q, k = half(numpy.zeros((1, 1, 2, 64))), ptxpack.from_numpy(numpy.zeros((1, 5, 2, 64)), "q8_0")
        wide, scale = ptxpack.from_numpy(numpy.zeros((1, 5, 2, 70), "uint8")), ptxpack.from_numpy(numpy.ones(1, "float32"))
        for line, arrays, more in (("k is u8 .* must be u8 with rows of contiguous blocks of 34 bytes", (wide, k), {}),
                                   ("v is f16 .* must be u8", (k, half(numpy.zeros((1, 5, 2, 64)))), {}),
                                   ("k_descale and v_descale are not for", (k, k), {"k_descale": scale})):
            with self.assertRaisesRegex(ptxpack.ArgumentError, line):
                ptxpack.attention(q, *arrays, kv_dtype="q8_0", **more)


if __name__ == "__main__":
    unittest.main(verbosity=1)
