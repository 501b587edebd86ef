"""decoder.py - norm and sample, against Python's doubles and whole numbers; module.py runs it."""
import ctypes
import itertools
import math
import random
import struct
import unittest

import ptxpack
from arrays import SM, Interface, Lender, cuda, driver, new_stream, pointer, u64, values_of


def rows_of(values, width):
    return [values[at:at + width] for at in range(0, len(values), width)]


def normalised(x, w, eps):
    """Of the vectors of x."""
    found = []
    for row in rows_of(x, len(w)):
        factor = 1 / math.sqrt(sum(value * value for value in row) / len(row) + eps)
        found += [value * factor * weight for value, weight in zip(row, w)]
    return found


class View:
    """Memory of an array with another shape."""

    def __init__(self, array, shape, strides, offset=0):
        self.array, found = array, dict(array.__cuda_array_interface__)
        item = 2
        found.update(shape=shape, strides=tuple(item * step for step in strides), data=(array.address + item * offset, False))
        self.__cuda_array_interface__ = found


def captured(stream, call):
    """A program of what the call enqueues on the stream."""
    graph, program = pointer(), pointer()
    driver("cuStreamBeginCapture_v2", pointer(stream), 0)
    call()
    driver("cuStreamEndCapture", pointer(stream), ctypes.byref(graph))
    driver("cuGraphInstantiateWithFlags", ctypes.byref(program), graph, u64(0))
    return program


def launch(program, stream):
    driver("cuGraphLaunch", program, pointer(stream))
    driver("cuStreamSynchronize", pointer(stream))


class Refusing(unittest.TestCase):
    def refused(self, function, pattern, *arrays, **options):
        """With one line, before a kernel runs."""
        executed = cuda.ptxpack_emu_executed
        executed.restype = u64
        before = executed()
        with self.subTest(pattern):
            with self.assertRaisesRegex(ptxpack.ArgumentError, pattern) as caught:
                function(*arrays, **options)
            self.assertNotIn("\n", str(caught.exception))
            self.assertEqual(executed(), before)


class Norms(Refusing):
    def setUp(self):
        self.rng = random.Random(6)

    def numbers(self, count):
        return [self.rng.gauss(0, 1) for _ in range(count)]

    def close(self, got, want, unit=2.0**-10):
        self.assertEqual(len(got), len(want))
        for value, right in zip(got, want):
            self.assertLessEqual(abs(value - right), unit * abs(right) + 2.0**-20)

    def test_rows(self):
        """Of any number of dimensions, with gaps, and of all types."""
        kinds = (("f16", Interface, {}, 2.0**-10),) if SM < 80 else (
            ("f16", Interface, {}, 2.0**-10), ("bf16", Lender, {}, 2.0**-7), ("u16", Interface, {"dtype": "bf16"}, 2.0**-7))
        for (kind, form, more, unit), (shape, strides) in itertools.product(kinds, (
                ((24,), None), ((3, 40), (48, 1)), ((2, 3, 16), None), ((2, 3, 16), (72, 24, 1)), ((2, 3, 4, 8), None),
                ((2, 3, 4, 8), (480, 160, 8, 1)), ((2, 1, 3, 8), (0, 8, 24, 1)), ((2, 3, 8), (0, 0, 1)))):
            x = form(kind, shape, self.numbers(math.prod(shape)), strides)
            w = form(kind, shape[-1:], self.numbers(shape[-1]))
            y = ptxpack.norm(x, w, 1e-5, **more)
            self.assertEqual((y.shape, y.dtype), (shape, kind))
            self.close(values_of(y), normalised(x.values(), w.values(), 1e-5), unit)

    def test_options(self):
        x, w = Interface("f16", (5, 64), self.numbers(320)), Interface("f16", (64,), self.numbers(64))
        self.close(values_of(ptxpack.norm(x, w)), normalised(x.values(), w.values(), 1e-6))
        large = ptxpack.norm(x, w, eps=4.0, one_plus_weight=True, overlap=True)
        self.close(values_of(large), normalised(x.values(), [1 + value for value in w.values()], 4.0))
        want, out = normalised(x.values(), w.values(), 1e-6), Interface("f16", (5, 64))
        for array in (out, x):  # in place, too
            self.assertIs(ptxpack.norm(x, w, out=array), array)
            driver("cuCtxSynchronize")
            self.close(array.values(), want)

    def test_heads(self):
        """Of q, a part of what a projection of batches makes."""
        whole, w = Interface("f16", (2, 3, 4 * 16), self.numbers(384)), Interface("f16", (16,), self.numbers(16))
        q = View(whole, (2, 3, 2, 16), (192, 64, 16, 1), 16)
        x = [value for row in rows_of(whole.values(), 64) for value in row[16:48]]
        y = ptxpack.norm(q, w)
        self.assertEqual(y.shape, (2, 3, 2, 16))
        self.close(values_of(y), normalised(x, w.values(), 1e-6))

    def test_residual(self):
        """It is rounded before it is normalised, and written."""
        shape = (2, 3, 32)
        x, r = (Interface("f16", shape, self.numbers(192), strides) for strides in (None, (192, 64, 1)))
        w = Interface("f16", (32,), self.numbers(32))
        sums = [struct.unpack("<e", struct.pack("<e", a + b))[0] for a, b in zip(x.values(), r.values())]
        y, new = ptxpack.norm(x, w, residual=r)
        self.assertIs(new, r)
        self.close(values_of(y), normalised(sums, w.values(), 1e-6))
        driver("cuCtxSynchronize")
        self.assertEqual(r.values(), sums)

    def test_captured(self):
        stream, x, r, out = new_stream(), *(Interface("f16", (2, 16)) for _ in range(3))
        w = Interface("f16", (16,), self.numbers(16))
        program = captured(stream, lambda: ptxpack.norm(x, w, residual=r, out=out, stream=stream))
        for _ in range(2):
            for array in (x, r):
                array.write(struct.pack("<32e", *(self.rng.randint(-8, 8) / 8 for _ in range(32))))
            sums = [a + b for a, b in zip(x.values(), r.values())]
            launch(program, stream)
            self.assertEqual(r.values(), sums)
            self.close(out.values(), normalised(sums, w.values(), 1e-6))

    def test_refusals(self):
        x, w = Interface("f16", (2, 16)), Interface("f16", (16,))
        for pattern, arrays, options in (
                ("x is of type f32, and must be f16, bf16", (Interface("f32", (2, 16)), w), {}),
                ("x, weight are f16, bf16: they must be of one type", (x, Interface("bf16", (16,))), {}),
                ("x is of type u16, and must be .*; dtype= must say", (Interface("u16", (2, 16)),) * 2, {}),
                ("x is e4m3, and must be f16 or bf16", (Lender("e4m3", (2, 16)), Lender("e4m3", (16,))), {}),
                ("weight is f16 .8,., and must be contiguous f16 .16,.", (x, Interface("f16", (8,))), {}),
                ("weight is on device 1, x on device 0", (x, Interface("f16", (16,), device=1)), {}),
                ("columns", (Interface("f16", (2, 12)), Interface("f16", (12,))), {}),
                ("eps", (x, w, 0), {}),
                ("x is .., and must have 1 dimension", (Interface("f16", ()), w), {}),
                ("x is .0, 16., and must have 1 dimension or more, each 1 or more", (Interface("f16", (0, 16)), w), {}),
                ("x: its last dimension has a stride of 2", (Interface("f16", (2, 16), strides=(32, 2)), w), {}),
                ("x is one row repeated along every dimension", (Interface("f16", (2, 3, 16), strides=(0, 0, 1)), w), {
                    "out": Interface("f16", (2, 3, 16), strides=(96, 16, 1))}),
                ("the dimensions before the last one must lie as 1 or 2 in x and out", (
                    Interface("f16", (2, 2, 2, 16), strides=(256, 96, 32, 1)), w), {}),
                ("residual is f16 .16,., and must be f16 .2, 16.", (x, w, 1e-6, w), {}),
                ("residual may not be written to", (x, w, 1e-6, Interface("f16", (2, 16), writable=False)), {}),
                ("out is f16 .16,., and must be f16 .2, 16.", (x, w), {"out": w}),
                ("r overlaps x", (x, w, 1e-6, x), {})):
            self.refused(ptxpack.norm, pattern, *arrays, **options)
        with self.assertRaisesRegex(TypeError, "weight: a list has neither"):
            ptxpack.norm(x, [1.0] * 16)


# ---- sampling ----------------------------------------------------------------------------------------------
def philox(seed, counter):
    """The first two words of Philox4x32-10, low word first."""
    key = [seed & 0xffffffff, seed >> 32]
    words = [counter & 0xffffffff, counter >> 32, 0, 0]
    for _ in range(10):
        first, second = words[0] * 0xD2511F53, words[2] * 0xCD9E8D57
        words = [second >> 32 ^ words[1] ^ key[0], second & 0xffffffff, first >> 32 ^ words[3] ^ key[1], first & 0xffffffff]
        key = [(key[0] + 0x9E3779B9) % 2**32, (key[1] + 0xBB67AE85) % 2**32]
    return words[0] + 2**32 * words[1]


def kept(row, temperature, top_p, top_k):
    """The weights of the tokens that may be drawn."""
    top = max(row)
    limit = sorted(row, reverse=True)[top_k - 1] if 0 < top_k < len(row) else -math.inf
    weights = [math.exp((z - top) / temperature) if z >= limit else 0.0 for z in row]
    total, above = sum(weights), 0.0
    for z in sorted(set(row), reverse=True):
        if above >= top_p * total:
            weights = [weight if other > z else 0.0 for weight, other in zip(weights, row)]
        above += sum(weight for weight, other in zip(weights, row) if other == z)
    return weights


class Samples(Refusing):
    def setUp(self):
        self.rng = random.Random(7)

    def draw(self, kind, rows, vocabulary, strides=None):
        return Interface(kind, (rows, vocabulary), [self.rng.gauss(0, 2) for _ in range(rows * vocabulary)], strides)

    def drawn(self, tokens, rows, temperatures, top_p, top_k, seeds, counters):
        """The tokens are those that the random numbers say; but for one so near to two that rounding may choose."""
        for n, (token, row) in enumerate(zip(tokens, rows)):
            if temperatures[n] == 0:
                self.assertEqual(token, row.index(max(row)))
                continue
            weights = kept(row, temperatures[n], top_p[n], top_k[n])
            self.assertGreater(weights[token], 0)
            u = philox(seeds[n], counters[n]) / 2.0**64 * sum(weights)
            before = sum(weights[:token])
            self.assertTrue(before - 1e-5 * sum(weights) <= u <= before + weights[token] + 1e-5 * sum(weights), (n, token))

    def test_philox(self):
        """The known answers of Random123."""
        self.assertEqual(philox(0, 0), 0xe169c58d6627e8d5)

    def test_greedy(self):
        kinds = ("f16", "f32") if SM < 80 else ("f16", "f32", "bf16")
        for kind in kinds:
            logits = self.draw(kind, 4, 300, (312, 1))
            tokens = ptxpack.sample(logits)
            self.assertEqual((tokens.shape, tokens.dtype), ((4,), "s32"))
            self.assertEqual(values_of(tokens), [row.index(max(row)) for row in rows_of(logits.values(), 300)])
        there = Interface("s32", (4,))
        self.assertIs(ptxpack.sample(logits, out=there, overlap=True), there)
        driver("cuCtxSynchronize")
        self.assertEqual(there.values(), values_of(tokens))

    def test_drawn(self):
        rows, vocabulary = 6, 200
        for kind, (t, p, k) in itertools.product(("f16", "f32"), ((1.0, 1.0, 0), (0.7, 0.9, 0), (1.5, 1.0, 5), (2.0, 0.8, 40))):
            logits = self.draw(kind, rows, vocabulary)
            for counter in range(3):
                tokens = values_of(ptxpack.sample(logits, t, p, k, seed=2**64 - 3, counter=counter))
                self.drawn(tokens, rows_of(logits.values(), vocabulary), [t] * rows, [p] * rows, [k] * rows,
                           [(2**64 - 3 + r) % 2**64 for r in range(rows)], [counter] * rows)

    def test_numbers_of_rows(self):
        """Some rows are greedy; and many draws of one row are as likely as they should be."""
        logits = self.draw("f32", 4, 50)
        numbers = [0.0, 1.0, 0.5, 2.0], (1.0, 0.9, 1.0, 0.5), [0, 0, 3, 0]
        seeds, counters = [1, 2, 3, 4], [9, 8, 7, 6]
        tokens = values_of(ptxpack.sample(logits, *numbers, seed=seeds, counter=counters))
        self.drawn(tokens, rows_of(logits.values(), 50), *numbers, seeds, counters)
        many = Interface("f32", (400, 4), [math.log(w) for w in (1, 2, 3, 4)] * 400)
        tokens = values_of(ptxpack.sample(many, 1.0, seed=5))
        for token, share in enumerate((0.1, 0.2, 0.3, 0.4)):
            self.assertAlmostEqual(tokens.count(token) / 400, share, delta=0.08)

    def test_the_host_may_go_on(self):
        """Calls that follow each other in a stream do not change what the earlier ones draw with."""
        stream, logits = new_stream(), self.draw("f32", 2, 100)
        found = [ptxpack.sample(logits, 1.0, seed=1, counter=c, stream=stream) for c in range(8)]
        for counter, tokens in enumerate(found):
            self.drawn(values_of(tokens), rows_of(logits.values(), 100), [1.0] * 2, [1.0] * 2, [0] * 2, [1, 2], [counter] * 2)

    def test_the_host_keeps_what_is_copied(self):
        happened, ptxpack.arrays._Event.happened = ptxpack.arrays._Event.happened, lambda event: False
        try:
            ptxpack.sample(self.draw("f32", 2, 100), 1.0, seed=1)
            self.assertTrue(any(isinstance(thing, bytes) and len(thing) == 64 for thing in ptxpack.operations._held[-1][1]))
        finally:
            ptxpack.arrays._Event.happened = happened

    def test_parameters(self):
        logits = self.draw("f16", 3, 100)
        parameters = ptxpack.sampling_parameters(3, 0.9, [1.0, 0.8, 1.0], 0, seed=11, counter=2**32 - 1)
        for step in range(3):
            tokens = values_of(ptxpack.sample(logits, parameters=parameters))
            counters = [2**32 - 1 + step] * 3
            self.drawn(tokens, rows_of(logits.values(), 100), [0.9] * 3, [1.0, 0.8, 1.0], [0] * 3, [11, 12, 13], counters)
        rows = list(struct.iter_unpack("<ffiIQQ", parameters.to_host()))
        self.assertEqual([row[2:] for row in rows], [(0, 0, 11 + r, 2**32 + 2) for r in range(3)])
        greedy = ptxpack.sampling_parameters(3, 0.0)
        self.assertEqual(values_of(ptxpack.sample(logits, parameters=greedy)), values_of(ptxpack.sample(logits)))

    def test_captured(self):
        """Each launch draws again, from what the logits are then; other calls of the stream do not disturb it."""
        for parameters in (None, ptxpack.sampling_parameters(2, 1.0, seed=3, counter=4)):
            stream, logits, out = new_stream(), Interface("f32", (2, 64)), Interface("s32", (2,))
            more = {"temperature": 1.0, "seed": 3, "counter": 4} if parameters is None else {"parameters": parameters}
            program = captured(stream, lambda: ptxpack.sample(logits, out=out, stream=stream, **more))
            for step in range(3):
                logits.write(struct.pack("<128f", *(self.rng.gauss(0, 1) for _ in range(128))))
                ptxpack.sample(logits, 0.1, seed=99, stream=stream)
                launch(program, stream)
                self.drawn(out.values(), rows_of(logits.values(), 64), [1.0] * 2, [1.0] * 2, [0] * 2, [3, 4], [4 + step] * 2)

    def test_refusals(self):
        logits = Interface("f32", (2, 8), [0.0] * 16)
        for pattern, array, options in (
                ("logits is .8,., and must have 2 dimensions", Interface("f32", (8,)), {}),
                ("logits is of type s32", Interface("s32", (2, 8)), {}),
                ("logits is of type u16, and must be .*; dtype= must say", Interface("u16", (2, 8)), {}),
                ("logits: its strides are .1, 2.", Interface("f32", (2, 8), strides=(1, 2)), {}),
                ("out is f32 .2,., and must be s32 .2,.", logits, {"out": Interface("f32", (2,))}),
                ("out is on device 1, logits on device 0", logits, {"out": Interface("s32", (2,), device=1)}),
                ("seed is missing: a temperature above 0 wants one", logits, {"temperature": 1.0}),
                ("temperature is -1.0, and must be a number from 0", logits, {"temperature": -1.0}),
                ("temperature is nan, and must be", logits, {"temperature": math.nan}),
                ("temperature is 'warm', and must be", logits, {"temperature": "warm"}),
                ("temperature has 3 numbers, and must have one for each of the 2 rows", logits, {"temperature": [1, 2, 3]}),
                ("temperature is on a device, and must be in host memory", logits, {"temperature": Interface("f32", (2,))}),
                ("top_p is 0, and must be a number above 0, at most 1", logits, {"top_p": 0}),
                ("top_p is 1.5, and must be", logits, {"top_p": [1.0, 1.5]}),
                ("top_k is -1, and must be a whole number from 0 on, below 2.31", logits, {"top_k": -1}),
                ("top_k is 2.0, and must be a whole number", logits, {"top_k": 2.0}),
                ("seed is 18446744073709551616, and must be a whole number from 0 on, below 2.64", logits, {"seed": 2**64}),
                ("counter is -1, and must be a whole number", logits, {"counter": -1}),
                ("parameters has temperature, .*: they cannot be given, too", logits, {
                    "parameters": Interface("u8", (2, 32)), "temperature": [1.0, 1.0]}),
                ("parameters is u8 .3, 32., and must be u8 .2, 32.", logits, {"parameters": Interface("u8", (3, 32))}),
                ("parameters may not be written to", logits, {"parameters": Interface("u8", (2, 32), writable=False)}),
                ("parameters is u8 .2, 32., and must be contiguous", logits, {
                    "parameters": Interface("u8", (2, 32), strides=(64, 1))})):
            self.refused(ptxpack.sample, pattern, array, **options)
        self.refused(ptxpack.sampling_parameters, "rows is 0, and must be 1 or more", 0)
        self.refused(ptxpack.sampling_parameters, "seed is missing", 2)
        with self.assertRaisesRegex(TypeError, "logits: a list has neither"):
            ptxpack.sample([[1.0, 2.0]])
