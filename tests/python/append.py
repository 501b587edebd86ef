"""append.py - appends to a cache with rotary embedding, decoding with them, and merges: ptxpack.attention_append, attention_merge
and ptxpack.flash_attn on the emulated driver, compared with NumPy's doubles.  numpy.sh runs it."""
import ctypes
import unittest

import numpy

import ptxpack
from lengths import Lent, attend, half, ints
from ptxpack.flash_attn import flash_attn_with_kvcache, merge_attn_states

HEADS, HEADS_K, DIM, POSITIONS = 4, 2, 32, 64
UNIT = 2.0**-11
KINDS = ((DIM, False), (DIM, True), (16, False), (16, True))  # rotary_dim, pairs


def rounded(array):
    return numpy.asarray(array).astype("float16").astype("float64")


def rotated(x, positions, tables, pairs):
    """x [rows, heads, dim] at these positions, one for each row."""
    if tables is None:
        return x
    cos, sin = (table[numpy.asarray(positions, int)][:, None] for table in tables)
    width, y = 2 * cos.shape[-1], x.copy()
    first, second = (slice(0, width, 2), slice(1, width, 2)) if pairs else (slice(0, width // 2), slice(width // 2, width))
    y[..., first] = x[..., first] * cos - x[..., second] * sin
    y[..., second] = x[..., second] * cos + x[..., first] * sin
    return y


class Blocks(unittest.TestCase):
    """Caches of ggml's q8_0: byte for byte what from_numpy makes of the same rows."""

    def setUp(self):
        random = numpy.random.default_rng(4)
        self.q, self.new = random.standard_normal((2, 2, 4, 64)), random.standard_normal((2, 2, 2, 2, 64)).astype("float16")
        self.whole = random.standard_normal((2, 2, 9, 2, 64)).astype("float16")
        self.cache = [ptxpack.from_numpy(x, "q8_0") for x in self.whole]
        for x, new in zip(self.whole, self.new):
            x[0, 5:7], x[1, 1:3] = new
        self.want = [ptxpack.from_numpy(x, "q8_0") for x in self.whole]

    def check(self):
        for x, want in zip(self.cache, self.want):
            numpy.testing.assert_array_equal(x.numpy(), want.numpy())

    def test_alone(self):
        ptxpack.attention_append(*map(half, self.new), *self.cache, ints([7, 3]), kv_dtype="q8_0")
        self.check()

    def test_attending(self):
        q = half(self.q)
        o = flash_attn_with_kvcache(q, *self.cache, *map(half, self.new), cache_seqlens=ints([5, 1]), causal=True, kv_dtype="q8_0")
        self.check()
        want = ptxpack.attention(q, *self.want, kv_dtype="q8_0", causal=True, seqused_k=ints([7, 3]))
        numpy.testing.assert_array_equal(o.numpy(), want.numpy())

    def test_refusals(self):
        for cache, kind, line in ((self.cache, None, "must say what u8 stands for"), (self.cache, "int4", "kv_dtype is 'int4'"),
                                  (map(half, self.whole), "q8_0", "with kv_dtype 'q8_0' must be u8")):
            with self.assertRaisesRegex(ptxpack.ArgumentError, line):
                ptxpack.attention_append(*map(half, self.new), *cache, ints([7, 3]), kv_dtype=kind)


class Cached:
    """Sequences in a cache, and what the cache has to hold; where no row was written it holds a NaN."""

    def __init__(self, lengths, rotary_dim=DIM, pairs=False, page=0, places=None, pad=None, capacity=48, seed=3):
        self.random, self.lengths, self.pairs, self.page = numpy.random.default_rng(seed), list(lengths), pairs, page
        self.places, self.pad, self.capacity = places, pad or [0] * len(lengths), capacity
        angles = self.random.uniform(0, 6, (POSITIONS, rotary_dim // 2))
        self.tables = (rounded(numpy.cos(angles)), rounded(numpy.sin(angles))) if rotary_dim else None
        count = len(lengths)
        if page:
            width = capacity // page
            self.table = self.random.permutation(count * width + 3)[:count * width].reshape(count, width)
            shape = (count * width + 3, page)
        else:
            shape = (count if places is None else 6, capacity)
        self.k, self.v = (numpy.full(shape + (HEADS_K, DIM), numpy.nan) for _ in "kv")
        for i, length in enumerate(lengths):
            for row in range(self.pad[i], length):
                for cache in (self.k, self.v):
                    cache[self.at(i, row)] = rounded(self.random.standard_normal((HEADS_K, DIM)))
        self.device = [half(self.k), half(self.v)]
        self.cos, self.sin = map(half, self.tables) if self.tables else (None, None)
        self.where = {}
        if page:
            self.where["page_table"] = ints(self.table)
        if places:
            self.where["cache_batch_idx"] = ints(places)

    def at(self, i, row):
        if self.page:
            return self.table[i, row // self.page], row % self.page
        return i if self.places is None else self.places[i], row

    def draw(self, counts, heads):
        return [rounded(self.random.standard_normal((count, heads, DIM))) for count in counts]

    def put(self, k_new, v_new, less=None):
        """Appends rows of each sequence to what the cache has to hold; positions are `less` than rows."""
        for i, (k, v) in enumerate(zip(k_new, v_new)):
            rows = range(self.lengths[i], self.lengths[i] + len(k))
            turned = rotated(k, [row - (less[i] if less else 0) for row in rows], self.tables, self.pairs)
            for row, one, other in zip(rows, turned, v):
                self.k[self.at(i, row)], self.v[self.at(i, row)] = one, other
            self.lengths[i] += len(k)

    def expect(self, test):
        for array, want in zip(self.device, (self.k, self.v)):
            numpy.testing.assert_allclose(array.numpy().astype("float64"), want, rtol=2 * UNIT, atol=2 * UNIT)
        copied = self.device[1].numpy().astype("float64")  # v is not rotated, and what is not new stays as it is
        test.assertTrue(numpy.array_equal(copied, self.v, equal_nan=True))

    def attend(self, i, q, positions=None, **options):
        """q [rows, heads, dim] on sequence i, rotated at these positions."""
        rows = [self.at(i, row) for row in range(self.pad[i], self.lengths[i])]
        k, v = (numpy.array([cache[row] for row in rows]).reshape(-1, HEADS_K, DIM) for cache in (self.k, self.v))
        return attend(q if positions is None else rotated(q, positions, self.tables, self.pairs), k, v, scale=DIM**-0.5, **options)


def close(got, want):
    numpy.testing.assert_allclose(got.astype("float64"), want, rtol=8 * UNIT, atol=8 * UNIT)


def forms(**more):
    """Caches of all kinds."""
    yield Cached((0, 7, 20), **more)
    yield Cached((0, 7, 20), page=4, **more)
    yield Cached((3, 16, 30), page=16, **more)
    yield Cached((0, 7, 20), places=(4, 0, 3), **more)


class Append(unittest.TestCase):
    def test_rotary(self):
        for rotary_dim, pairs in KINDS:
            for cache in forms(rotary_dim=rotary_dim, pairs=pairs):
                with self.subTest(rotary_dim=rotary_dim, pairs=pairs, page=cache.page, places=cache.places):
                    before, q = list(cache.lengths), cache.draw((3, 3, 3), HEADS)
                    k, v = (cache.draw((3, 3, 3), HEADS_K) for _ in "kv")
                    cache.put(k, v)
                    options = dict(cos=cache.cos, sin=cache.sin, rope_pairs=pairs, **cache.where)
                    for at_start in (False, True):
                        turned = ptxpack.attention_append(half(numpy.array(k)), half(numpy.array(v)), *cache.device,
                                                          ints(cache.lengths), q=half(numpy.array(q)), rope_q_at_start=at_start,
                                                          **options)
                        for i, rows in enumerate(q):
                            positions = before[i] + numpy.arange(3) * (not at_start)
                            close(turned.numpy()[i], rotated(rows, positions, cache.tables, pairs))
                    cache.expect(self)

    def test_copy(self):
        """Without a rotary embedding; bits stay as they are, also of bf16."""
        for cache in forms(rotary_dim=0):
            k, v = (cache.draw((2, 2, 2), HEADS_K) for _ in "kv")
            cache.put(k, v)
            self.assertIsNone(ptxpack.attention_append(Lent(half(numpy.array(k))), half(numpy.array(v)), *map(Lent, cache.device),
                                                       Lent(ints(cache.lengths)), **cache.where))
            cache.expect(self)
            self.assertTrue(numpy.array_equal(cache.device[0].numpy().astype("float64"), cache.k, equal_nan=True))
        bits = numpy.arange(4 * HEADS_K * DIM, dtype="uint16").reshape(1, 4, HEADS_K, DIM)
        k, v = (ptxpack.from_numpy(numpy.zeros((1, 9, HEADS_K, DIM), "uint16")) for _ in "kv")
        ptxpack.attention_append(ptxpack.from_numpy(bits), ptxpack.from_numpy(bits + 1), k, v, 6, dtype="bf16")
        self.assertTrue((k.numpy()[:, 2:6] == bits).all() and (v.numpy()[:, 2:6] == bits + 1).all())
        self.assertFalse(k.numpy()[:, :2].any() or k.numpy()[:, 6:].any())

    def test_padding(self):
        """Positions are less than rows by leftpad_k; q is rotated in place."""
        cache = Cached((5, 17), pad=(5, 4))
        (k, v), q = (cache.draw((2, 2), HEADS_K) for _ in "kv"), cache.draw((2, 2), HEADS)
        cache.put(k, v, less=cache.pad)
        q_there = half(numpy.array(q))
        got = ptxpack.attention_append(half(numpy.array(k)), half(numpy.array(v)), *cache.device, ints(cache.lengths), q=q_there,
                                       cos=cache.cos, sin=cache.sin, leftpad_k=ints(cache.pad), out=q_there)
        self.assertIs(got, q_there)
        cache.expect(self)
        for i, rows in enumerate(q):
            close(q_there.numpy()[i], rotated(rows, cache.lengths[i] - 2 - cache.pad[i] + numpy.arange(2), cache.tables, False))

    def test_packed(self):
        for page in (0, 8):
            cache = Cached((5, 0, 11, 2), page=page)
            counts, starts = (2, 5, 0, 1), ints([0, 2, 7, 7, 8])
            (k, v), q, before = (cache.draw(counts, HEADS_K) for _ in "kv"), cache.draw(counts, HEADS), list(cache.lengths)
            cache.put(k, v)
            got = ptxpack.attention_append(*(half(numpy.concatenate(x)) for x in (k, v)), *cache.device, ints(cache.lengths),
                                           q=half(numpy.concatenate(q)), cos=cache.cos, sin=cache.sin, cu_seqlens_new=starts,
                                           max_seqlen_new=5, **cache.where)
            cache.expect(self)
            at = 0
            for i, rows in enumerate(q):
                close(got.numpy()[at:at + len(rows)], rotated(rows, before[i] + numpy.arange(len(rows)), cache.tables, False))
                at += len(rows)

    def test_fewer_rows_and_heads_first(self):
        cache = Cached((5, 9))
        k, v = (cache.draw((4, 4), HEADS_K) for _ in "kv")
        cache.put([x[:n] for x, n in zip(k, (1, 3))], [x[:n] for x, n in zip(v, (1, 3))])
        turn = lambda array: half(numpy.asarray(array).swapaxes(1, 2))  # noqa: E731
        device = [turn(array.numpy()) for array in cache.device]
        ptxpack.attention_append(turn(k), turn(v), *device, ints(cache.lengths), seqused_new=ints((1, 3)), cos=cache.cos,
                                 sin=cache.sin, layout="bhsd", max_seqlen_new=9)  # of packed rows only
        cache.device = [turn(array.numpy()) for array in device]
        cache.expect(self)


class Decode(unittest.TestCase):
    def test_steps(self):
        """flash-attn's way, with a prompt and then a row at a time; the lengths are those before the step."""
        for rotary_dim, pairs in KINDS + ((0, False),):
            for cache in (*forms(rotary_dim=rotary_dim, pairs=pairs), Cached((9, 4), rotary_dim, pairs, pad=(2, 4))):
                for rows in (5, 1, 1):
                    with self.subTest(rotary_dim=rotary_dim, pairs=pairs, page=cache.page, places=cache.places, rows=rows):
                        self.step(cache, rows)

    def step(self, cache, rows):
        before, counts = list(cache.lengths), [rows] * len(cache.lengths)
        (k, v), q = (cache.draw(counts, HEADS_K) for _ in "kv"), cache.draw(counts, HEADS)
        where = {{"page_table": "block_table"}.get(name, name): array for name, array in cache.where.items()}
        if any(cache.pad):
            where["cache_leftpad"] = ints(cache.pad)
        o, lse = flash_attn_with_kvcache(half(numpy.array(q)), *cache.device, half(numpy.array(k)), half(numpy.array(v)), cache.cos,
                                         cache.sin, ints(before), causal=True, rotary_interleaved=cache.pairs,
                                         return_softmax_lse=True, **where)
        cache.put(k, v)
        cache.expect(self)
        for i, mine in enumerate(q):
            want, want_lse = cache.attend(i, mine, before[i] + numpy.arange(rows), causal=True)
            close(o.numpy()[i], want)
            numpy.testing.assert_allclose(lse.numpy()[i], want_lse, rtol=4e-3, atol=4e-3)

    def test_positions_of_q(self):
        """Without a causal mask or a window all rows of q have the position of the first; a number of keys is that of all."""
        for window, own in (((-1, -1), False), ((4, 6), True), ((-1, 3), True), ((60, -1), False), ((60, 2), True)):
            for length in (11, ints([11, 11])):
                cache = Cached((11, 11), 16)
                (k, v), q = (cache.draw((3, 3), HEADS_K) for _ in "kv"), cache.draw((3, 3), HEADS)
                q_there, k_there, v_there = (half(numpy.array(x)) for x in (q, k, v))
                o = flash_attn_with_kvcache(q_there, *cache.device, k_there, v_there, cache.cos, cache.sin, length,
                                            window_size=window, rotary_interleaved=False)
                cache.put(k, v)
                cache.expect(self)
                for i, mine in enumerate(q):
                    close(o.numpy()[i], cache.attend(i, mine, 11 + numpy.arange(3) * own, window=window)[0])

    def test_packed(self):
        """As flash-attn 3 has it, with numbers of new rows of their own; the lengths before are an array or a number."""
        for length in (None, 6):
            cache = Cached((6, 6, 6) if length else (0, 12, 5), page=16)
            before, counts, starts = list(cache.lengths), (1, 4, 0), ints([0, 1, 5, 5])
            (k, v), q = (cache.draw(counts, HEADS_K) for _ in "kv"), cache.draw(counts, HEADS)
            o = flash_attn_with_kvcache(half(numpy.concatenate(q)), *cache.device, *(half(numpy.concatenate(x)) for x in (k, v)),
                                        rotary_cos=cache.cos, rotary_sin=cache.sin, cache_seqlens=length or ints(before),
                                        causal=True, rotary_interleaved=False, cu_seqlens_q=starts, max_seqlen_q=4,
                                        cu_seqlens_k_new=starts, page_table=cache.where["page_table"])
            cache.put(k, v)
            cache.expect(self)
            for i, at in ((0, 0), (1, 1)):
                close(o.numpy()[at:at + counts[i]], cache.attend(i, q[i], before[i] + numpy.arange(counts[i]), causal=True)[0])

    def test_one_graph_for_all_steps(self):
        """A captured step is replayed; its lengths and rows are read then."""
        cuda, stream, graph, program = ptxpack.device._driver().call, ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        cuda("cuCtxSetCurrent", ctypes.c_void_p(ptxpack.device._device(0).context))
        cuda("cuStreamCreate", ctypes.byref(stream), 1)
        cache = Cached((3, 30), page=16, pairs=True)
        lengths, new = ints(cache.lengths), [half(numpy.zeros((2, 1, heads, DIM))) for heads in (HEADS, HEADS_K, HEADS_K)]
        out = half(numpy.zeros((2, 1, HEADS, DIM)))
        for captured in (False, True):  # first the plans are made; what that appends is the place of the first step
            if captured:
                cuda("cuStreamBeginCapture_v2", stream, 0)
            flash_attn_with_kvcache(new[0], *cache.device, *new[1:], cache.cos, cache.sin, lengths, causal=True,
                                    block_table=cache.where["page_table"], out=out, stream=stream.value)
        cuda("cuStreamEndCapture", stream, ctypes.byref(graph))
        cuda("cuGraphInstantiateWithFlags", ctypes.byref(program), graph, ctypes.c_uint64(0))
        for _ in range(4):
            before = list(cache.lengths)
            q, k, v = (cache.draw((1, 1), heads) for heads in (HEADS, HEADS_K, HEADS_K))
            for tensor, values in zip(new, (q, k, v)):
                bits = numpy.array(values).astype("float16")
                tensor._upload(ctypes.c_void_p(bits.ctypes.data))
            now = numpy.array(before, "int32")
            lengths._upload(ctypes.c_void_p(now.ctypes.data))
            cuda("cuGraphLaunch", program, stream)
            cuda("cuStreamSynchronize", stream)
            cache.put(k, v)
            cache.expect(self)
            for i, mine in enumerate(q):
                close(out.numpy()[i], cache.attend(i, mine, [before[i]], causal=True)[0])

    def test_a_loop_has_one_plan(self):
        device, cache, misses = ptxpack.device._device(0), Cached((1, 2), page=16), []
        alone = device.append_plan.cache_info().misses
        for _ in range(20):
            self.step(cache, 1)
            misses.append(device.attention_plan.cache_info().misses)
        self.assertEqual(misses[0], misses[-1])
        self.assertEqual(device.append_plan.cache_info().misses, alone)  # the attention's plan appends

    def test_rows_of_q_of_their_own(self):
        """Without a rotary embedding q may have other rows than the new keys, stored in another way."""
        for packed_q in (False, True):
            cache = Cached((5, 9), 0, page=8)
            counts, rows = ((1, 3), (2, 2)) if not packed_q else ((2, 2), (1, 4))
            (k, v), q = (cache.draw(counts, HEADS_K) for _ in "kv"), cache.draw(rows, HEADS)
            of_q = dict(cu_seqlens_q=ints((0, 1, 5)), max_seqlen_q=4) if packed_q else {}
            of_k = {} if packed_q else dict(cu_seqlens_k_new=ints((0, 1, 4)))
            q_there = half(numpy.concatenate(q) if packed_q else numpy.array(q))
            o = flash_attn_with_kvcache(q_there, *cache.device, *(half(numpy.array(x) if packed_q else numpy.concatenate(x))
                                                                  for x in (k, v)),
                                        cache_seqlens=ints(cache.lengths), block_table=cache.where["page_table"], causal=True,
                                        **of_q, **of_k)
            cache.put(k, v)
            cache.expect(self)
            got = numpy.split(o.numpy(), (1,)) if packed_q else o.numpy()
            for i, mine in enumerate(q):
                close(got[i], cache.attend(i, mine, causal=True)[0])

    def test_the_result_where_q_was(self):
        cache = Cached((5, 9))
        (k, v), q, before = (cache.draw((2, 2), HEADS_K) for _ in "kv"), cache.draw((2, 2), HEADS), list(cache.lengths)
        q_there = half(numpy.array(q))
        o = flash_attn_with_kvcache(q_there, *cache.device, half(numpy.array(k)), half(numpy.array(v)), cache.cos, cache.sin,
                                    ints(before), causal=True, rotary_interleaved=False, out=q_there)
        self.assertIs(o, q_there)
        cache.put(k, v)
        cache.expect(self)
        for i, mine in enumerate(q):
            close(o.numpy()[i], cache.attend(i, mine, before[i] + numpy.arange(2), causal=True)[0])


class Merge(unittest.TestCase):
    def setUp(self):
        random = numpy.random.default_rng(5)
        self.q, self.k, self.v = (rounded(random.standard_normal((2, rows, heads, DIM)))
                                  for rows, heads in ((5, HEADS), (40, HEADS_K), (40, HEADS_K)))
        whole = [attend(q, k, v, scale=DIM**-0.5) for q, k, v in zip(self.q, self.k, self.v)]
        self.want, self.want_lse = map(numpy.array, zip(*whole))
        self.parts = []
        for keys in (slice(0, 13), slice(13, 40)):
            self.parts += ptxpack.attention(half(self.q), half(self.k[:, keys]), half(self.v[:, keys]), return_lse=True)

    def expect(self, o, lse=None):
        close(o.numpy("f32"), self.want)
        if lse is not None:
            numpy.testing.assert_allclose(lse.numpy(), self.want_lse, rtol=4e-3, atol=4e-3)

    def test_halves_are_the_whole(self):
        self.expect(*ptxpack.attention_merge(*self.parts, return_lse=True))
        self.expect(*ptxpack.attention_merge(*self.parts, return_lse=True, overlap=True))
        self.expect(ptxpack.attention_merge(*map(Lent, self.parts)))
        o_a, lse_a, o_b, lse_b = self.parts
        got = ptxpack.attention_merge(o_a, lse_a, o_b, lse_b, out=o_b, lse=lse_a)
        self.assertTrue(got[0] is o_b and got[1] is lse_a)
        self.expect(o_b, lse_a)

    def test_heads_first(self):
        o_a, o_b = (half(self.parts[at].numpy().swapaxes(1, 2)) for at in (0, 2))
        o, lse = ptxpack.attention_merge(o_a, self.parts[1], o_b, self.parts[3], layout="bhsd", return_lse=True)
        self.expect(half(o.numpy().swapaxes(1, 2)), lse)

    def test_wide_parts(self):
        o_a, o_b = (ptxpack.from_numpy(self.parts[at].numpy(), "f32") for at in (0, 2))
        o = ptxpack.attention_merge(o_a, self.parts[1], o_b, self.parts[3], dtype="f16")
        self.assertEqual(o.dtype, "f16")
        self.expect(o)
        out = half(numpy.zeros(o.shape))
        self.assertIs(ptxpack.attention_merge(o_a, self.parts[1], o_b, self.parts[3], out=out), out)
        self.expect(out)
        o = ptxpack.attention_merge(o_a, self.parts[1], o_b, self.parts[3], dtype="bf16").numpy("f32")
        numpy.testing.assert_allclose(o, self.want, rtol=2.0**-6, atol=2.0**-6)

    def test_as_vllm(self):
        """Packed rows, and an LSE [heads, rows]; a prefix of no keys counts nothing."""
        flat = [half(x.numpy().reshape(10, HEADS, DIM)) if len(x.shape) == 4 and x.dtype == "f16" else
                ptxpack.from_numpy(numpy.ascontiguousarray(x.numpy().transpose(1, 0, 2).reshape(HEADS, 10))) for x in self.parts]
        out, lse = half(numpy.zeros((10, HEADS, DIM))), ptxpack.from_numpy(numpy.zeros((HEADS, 10), "float32"))
        self.assertIsNone(merge_attn_states(out, *flat, output_lse=lse))
        close(out.numpy().reshape(2, 5, HEADS, DIM), self.want)
        numpy.testing.assert_allclose(lse.numpy().reshape(HEADS, 2, 5).transpose(1, 0, 2), self.want_lse, rtol=4e-3, atol=4e-3)
        nothing = half(numpy.full((10, HEADS, DIM), numpy.nan)), ptxpack.from_numpy(numpy.full((HEADS, 10), -numpy.inf, "float32"))
        merge_attn_states(out, *nothing, *flat[2:])
        self.assertTrue(numpy.array_equal(out.numpy(), flat[2].numpy()))
        with self.assertRaisesRegex(ptxpack.Unsupported, "merge_attn_states: output_scale is not supported"):
            merge_attn_states(out, *flat, output_scale=lse)

    def test_refusals(self):
        o_a, lse_a, o_b, lse_b = self.parts
        wide, apart = ptxpack.from_numpy(o_a.numpy(), "f32"), ptxpack.from_numpy(numpy.zeros((2, HEADS, 5), "float32"))
        apart.strides = (20, 1, 4)
        for line, call in (
                ("o_a is .* and o_b is .*: they must have the same shape",
                 lambda: ptxpack.attention_merge(o_a, lse_a, half(self.k), lse_b)),
                (r"lse_b is f16 .*, and must be contiguous f32 \(2, 4, 5\)", lambda: ptxpack.attention_merge(o_a, lse_a, o_b, o_a)),
                ("lse_a is f32 .*, and must be contiguous f32", lambda: ptxpack.attention_merge(o_a, apart, o_b, lse_b)),
                ("o_a and o_b are f32: dtype must say", lambda: ptxpack.attention_merge(wide, lse_a, wide, lse_b)),
                ("the result is e4m3, and must be f16 or bf16",
                 lambda: ptxpack.attention_merge(wide, lse_a, wide, lse_b, dtype="e4m3")),
                ("o_b is of type f32, and must be f16", lambda: ptxpack.attention_merge(o_a, lse_a, wide, lse_b))):
            with self.subTest(line), self.assertRaisesRegex(ptxpack.ArgumentError, line):
                call()


class ReadOnly:
    def __init__(self, tensor):
        self.__cuda_array_interface__ = {**tensor.__cuda_array_interface__, "data": (tensor.address, True)}


class Refusals(unittest.TestCase):
    def test_lines(self):
        cache = Cached((4, 4))
        q, k, v = (half(numpy.ones((2, 1, heads, DIM))) for heads in (HEADS, HEADS_K, HEADS_K))
        one, two = (half(numpy.ones((2, 2, heads, DIM))) for heads in (HEADS, HEADS_K))
        new, n, cos, sin = (k, v, *cache.device), ints((5, 5)), cache.cos, cache.sin
        append, decode = ptxpack.attention_append, flash_attn_with_kvcache
        for line, call in (
                ("flash_attn_with_kvcache: v needs k", lambda: decode(q, *cache.device, v=v, cache_seqlens=n)),
                ("flash_attn_with_kvcache: k needs v", lambda: decode(q, *cache.device, k, cache_seqlens=n)),
                ("flash_attn_with_kvcache: k needs cache_seqlens", lambda: decode(q, *cache.device, k, v)),
                ("flash_attn_with_kvcache: rotary_cos needs k", lambda: decode(q, *cache.device, rotary_cos=cos, cache_seqlens=n)),
                ("cos without sin", lambda: decode(q, *cache.device, k, v, rotary_cos=cos, cache_seqlens=n)),
                ("q without cos and sin", lambda: append(*new, n, q=q)),
                ("q is .* and k_new is .*: they may differ in heads alone", lambda: append(*new, n, q=one, cos=cos, sin=sin)),
                ("k_new is .* and v_new is .*: they must have the same shape", lambda: append(k, two, *cache.device, n)),
                (r"k_new has heads and dim \(4, 32\), and k \(2, 32\)", lambda: append(q, q, *cache.device, n)),
                ("k_new is of 2 sequences, and seqused_k of 3", lambda: append(*new, ints((5, 5, 5)))),
                ("seqused_k is s64", lambda: append(*new, ptxpack.from_numpy(numpy.arange(2)))),
                ("v may not be written to", lambda: append(k, v, cache.device[0], ReadOnly(cache.device[1]), n)),
                ("left_pad and the kinds of rotary embedding need a rotary_dim", lambda: append(*new, n, leftpad_k=n)),
                ("sin is .*, and must be contiguous", lambda: append(*new, n, cos=cos, sin=k)),
                ("an append needs the lengths", lambda: append(*new, None)),
                ("k_new has 4 dimensions, and must have 3 with cu_seqlens_new",
                 lambda: append(*new, n, cu_seqlens_new=ints((0, 1, 2))))):
            with self.subTest(line), self.assertRaisesRegex(ptxpack.ArgumentError, line):
                call()
        with self.assertRaisesRegex(ptxpack.Unsupported, "rotary_cos with packed q needs packed k"):
            decode(half(numpy.ones((2, HEADS, DIM))), *cache.device, k, v, cos, sin, n, cu_seqlens_q=ints((0, 1, 2)))
        cache.expect(self)


if __name__ == "__main__":
    unittest.main(verbosity=1)
