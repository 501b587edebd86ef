"""experts.py - products of groups of rows, what a mixture of experts needs around them, and e4m3 with scales; module.py runs it."""
import itertools
import math
import random
import struct
import unittest

import ptxpack
from arrays import E4M3, SM, Interface, Lender, driver, encode, values_of


def single(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def numbers(rng, *shape):
    return [rng.randint(-8, 8) / 8 for _ in range(math.prod(shape))]


def rows_of(values, width):
    return [values[at:at + width] for at in range(0, len(values), width)]


def routed(logits, top_k, normalise):
    """starts, sources, places and weights of rows of logits."""
    chosen = [sorted(range(len(row)), key=lambda e: (-row[e], e))[:top_k] for row in logits]
    order = sorted((e, r) for r, experts in enumerate(chosen) for e in experts)
    starts = [sum(e < expert for e, _ in order) for expert in range(len(logits[0]) + 1)]
    places = [order.index((e, r)) for r, experts in enumerate(chosen) for e in experts]
    weights = []
    for row, experts in zip(logits, chosen):
        p = [math.exp(z - max(row)) for z in row]
        total = sum(p[e] for e in experts) if normalise else sum(p)
        weights += [p[e] / total for e in experts]
    return starts, [r for _, r in order], places, weights


def multiplied(x, w):
    """Of rows of both."""
    return [[sum(a * b for a, b in zip(row, line)) for line in w] for row in x]


def meaning(codes, k, scales, kind, rows, height):
    """Codes times scales, as rows; `rows` of them are a matrix, and `height` of them share scales of blocks."""
    found = []
    for r, row in enumerate(rows_of(codes, k)):
        matrix, line = divmod(r, rows)
        per = {"tensor": 0, "lines": rows, "blocks": -(-rows // height) * (k // 128)}[kind]
        at = {"tensor": lambda i: 0, "lines": lambda i: line, "blocks": lambda i: line // height * (k // 128) + i // 128}[kind]
        found.append([x * scales[matrix * per + at(i)] for i, x in enumerate(row)])
    return found


class Transposed:
    """A view of an array with its last two dimensions exchanged."""

    def __init__(self, array):
        self.array, found = array, dict(array.__cuda_array_interface__)
        for name in ("shape", "strides"):
            whole = tuple(found.get(name) or [step for step in array.strides])
            found[name] = (*whole[:-2], whole[-1], whole[-2])
        self.__cuda_array_interface__ = found


class Experts(unittest.TestCase):
    def setUp(self):
        self.rng = random.Random(2)

    def close(self, got, want, unit=2.0**-9):
        self.assertEqual(len(got), len(want))
        for value, right in zip(got, want):
            self.assertLessEqual(abs(value - right), unit * (1 + abs(right)))

    def refused(self, function, pattern, *arrays, **options):
        with self.assertRaisesRegex(ptxpack.ArgumentError, pattern):
            function(*arrays, **options)

    def test_route(self):
        for kind, rows, experts, top_k, normalise in (("f16", 70, 5, 2, True), ("f32", 9, 40, 8, False), ("f16", 1, 3, 3, False)):
            logits = numbers(self.rng, rows, experts)
            starts, sources, places, weights = routed(rows_of(logits, experts), top_k, normalise)
            apart = Interface(kind, (rows, experts), logits, (experts + 3, 1))
            found = ptxpack.experts_route(apart, top_k, normalise=normalise)
            for got, want in zip(found[:3], (starts, sources, places)):
                self.assertEqual((got.dtype, values_of(got)), ("s32", want))
            self.assertEqual((found.places.shape, found.weights.shape, found.weights.dtype), ((rows, top_k), (rows, top_k), "f32"))
            self.close(values_of(found.weights), weights, 2.0**-20)
        given = ptxpack.Routes(*(Interface(kind, shape) for kind, shape in (
            ("s32", (4,)), ("s32", (3,)), ("s32", (1, 3)), ("f32", (1, 3)))))
        self.assertIs(ptxpack.experts_route(apart, 3, out=given, overlap=True).weights, given.weights)
        driver("cuCtxSynchronize")
        self.assertEqual([given.starts.values(), given.sources.values(), given.places.values()], [starts, sources, places])

    def test_a_mixture(self):
        """Of its parts, the result of every row as if it had its own matrices."""
        rows, columns, inner, experts, top_k = 11, 16, 24, 4, 2
        x, logits, residual = (numbers(self.rng, rows, width) for width in (columns, experts, columns))
        gated, down = numbers(self.rng, experts, 2 * inner, columns), numbers(self.rng, experts, columns, inner)
        w_gated = Lender("f16", (experts, columns, 2 * inner), strides=(2 * inner * columns, 1, columns))
        w_down = Lender("f16", (experts, inner, columns), strides=(columns * inner, 1, inner))
        for array, values in ((w_gated, gated), (w_down, down)):
            array.write(encode("f16", values))
        routes = ptxpack.experts_route(Interface("f16", (rows, experts), logits), top_k, normalise=True)
        ordered = ptxpack.gather(Interface("f16", (rows, columns), x), routes.sources)
        hidden = ptxpack.matmul(ordered, w_gated, group_starts=routes.starts, activation="swiglu")
        self.assertEqual(hidden.shape, (rows * top_k, inner))
        y = ptxpack.matmul(hidden, w_down, group_starts=routes.starts, overlap=True)
        begin = Interface("f16", (rows, columns), residual)
        o = ptxpack.experts_combine(y, routes.places, routes.weights, residual=begin)
        self.assertIs(ptxpack.experts_combine(y, routes.places, routes.weights, residual=begin, out=begin), begin)
        want = []
        for r, row in enumerate(rows_of(x, columns)):
            sums = residual[r * columns:(r + 1) * columns]
            mine = logits[r * experts:(r + 1) * experts]
            _, _, _, weights = routed([mine], top_k, True)
            for e, weight in zip(sorted(range(experts), key=lambda e: (-mine[e], e)), weights):
                parts = multiplied([row], rows_of(gated, columns)[e * 2 * inner:(e + 1) * 2 * inner])[0]
                gates = [parts[16 * (j // 8) + j % 8] for j in range(inner)]
                h = [g / (1 + math.exp(-g)) * parts[16 * (j // 8) + 8 + j % 8] for j, g in enumerate(gates)]
                sums = [total + weight * part for total, part in zip(sums, multiplied([h], rows_of(down, inner)[
                    e * columns:(e + 1) * columns])[0])]
            want += sums
        self.close(values_of(o), want, 2.0**-7)
        driver("cuCtxSynchronize")
        self.assertEqual(begin.values(), values_of(o))

    def test_groups(self):
        """With a bias; a group without rows; rows from the last start on stay as they are."""
        starts, n, k = [0, 3, 3, 8], 24, 16
        a, b, bias = numbers(self.rng, 10, k), numbers(self.rng, 3, n, k), numbers(self.rng, 3, n)
        there = Interface("f16", (3, k, n), strides=(n * k, 1, k))
        there.write(encode("f16", b))
        out = Interface("f16", (10, n))
        d = ptxpack.matmul(Interface("f16", (10, k), a), there, bias=Interface("f16", (3, n), bias), activation="relu", out=out,
                           group_starts=Interface("s32", (4,), starts))
        self.assertIs(d, out)
        driver("cuCtxSynchronize")
        want = []
        for r, row in enumerate(rows_of(a, k)[:8]):
            g = 0 if r < 3 else 2
            want += [max(x + bias[g * n + j], 0) for j, x in enumerate(multiplied([row], rows_of(b, k)[g * n:(g + 1) * n])[0])]
        self.close(out.values()[:8 * n], want)
        self.assertTrue(all(map(math.isnan, out.values()[8 * n:])))

    def test_gather(self):
        table, ids = numbers(self.rng, 7, 8), [6, 0, -1, 3, 7, 3]
        apart = Interface("u16", (7, 8), table, (16, 1))
        y = ptxpack.gather(apart, Interface("s32", (6,), ids))
        self.assertEqual((y.shape, y.dtype), ((6, 8), "u16"))
        want = [table[8 * i:8 * i + 8] if 0 <= i < 7 else [0.0] * 8 for i in ids]
        self.assertEqual(values_of(y), list(itertools.chain(*want)))

    def test_refusals(self):
        a, b, starts = Interface("f16", (10, 16)), Interface("f16", (3, 16, 24), strides=(384, 1, 16)), Interface("s32", (4,))
        for pattern, arrays, options in (
                ("with group_starts they must have 2 and 3 dimensions", (a, Interface("f16", (16, 24))), {"group_starts": starts}),
                ("group_starts is s32 .3,., and must be contiguous s32 .4,.", (a, b), {"group_starts": Interface("s32", (3,))}),
                ("bias is .24,., and must be contiguous .3, 24.", (a, b), {"group_starts": starts, "bias": Interface("f16", (24,))}),
                ("order_b: groups of rows want a column-major B", (a, Interface("f16", (3, 16, 24))), {"group_starts": starts}),
                ("there is no C with groups of rows", (a, b), {"group_starts": starts, "c": Interface("f16", (10, 24))})):
            self.refused(ptxpack.matmul, pattern, *arrays, **options)
        logits = Interface("f16", (5, 8))
        for pattern, array, top_k, options in (
                ("top_k is 9, and must be from 1 to 16, at most the 8 experts", logits, 9, {}),
                ("logits is .8,., and must have 2 dimensions", Interface("f16", (8,)), 2, {}),
                ("logits: its strides are .1, 5.", Interface("f16", (5, 8), strides=(1, 5)), 2, {}),
                ("logits: its strides are .0, 1.", Interface("f16", (5, 8), strides=(0, 1)), 2, {}),
                ("logits is of type s32", Interface("s32", (5, 8)), 2, {}),
                ("out must be four arrays", logits, 2, {"out": [starts]}),
                ("starts is s32 .4,., and must be s32 .9,.", logits, 2, {"out": [starts] * 4})):
            self.refused(ptxpack.experts_route, pattern, array, top_k, **options)
        y, places, weights = Interface("f16", (10, 8)), Interface("s32", (5, 2)), Interface("f32", (5, 2))
        for pattern, arrays, options in (
                ("places is .5, 3., and must be .rows, top_k. for the 10 rows", (y, Interface("s32", (5, 3)), weights), {}),
                ("weights is f32 .10,., and must be contiguous f32 .5, 2.", (y, places, Interface("f32", (10,))), {}),
                ("residual is .10, 8., and must be .5, 8.", (y, places, weights), {"residual": y}),
                ("y, residual are f16, bf16: they must be of one type", (y, places, weights), {"residual": Interface("bf16", (5, 8))}),
                ("out is bf16 .5, 8., and must be f16 .5, 8.", (y, places, weights), {"out": Interface("bf16", (5, 8))})):
            self.refused(ptxpack.experts_combine, pattern, *arrays, **options)
        self.refused(ptxpack.gather, "ids is .2, 2., and must have 1 dimension", y, Interface("s32", (2, 2)))
        self.refused(ptxpack.gather, "ids is f32 .2,., and must be contiguous s32", y, Interface("f32", (2,)))


class Quantised(unittest.TestCase):
    def setUp(self):
        rng = random.Random(3)
        self.rows, self.columns = 5, 272
        self.array = Interface("f16", (self.rows, self.columns), [rng.gauss(0, 1) * 2.0**rng.randint(-3, 3) for _ in range(
            self.rows * self.columns)], (self.columns + 8, 1))
        self.x = self.array.values()

    def parts(self, blocks):
        """The elements of each scale."""
        for row in rows_of(self.x, self.columns):
            yield from rows_of(row, 128 if blocks else self.columns)

    def test_powers(self):
        """Codes and scales are exact, and so is the way back."""
        for blocks in (False, True):
            codes, scales = ptxpack.quantise(self.array, blocks=blocks, powers=True)
            self.assertEqual((codes.dtype, codes.shape), ("e4m3", (self.rows, self.columns)))
            self.assertEqual(scales.shape, (self.rows, 3) if blocks else (self.rows,))
            want = [2.0**math.ceil(math.log2(max(map(abs, part)) / 448)) for part in self.parts(blocks)]
            self.assertEqual(values_of(scales), want)
            nearest = [E4M3[code] * s for part, s in zip(self.parts(blocks), want) for code in encode("e4m3", [x / s for x in part])]
            self.assertEqual([code * s for code, s in zip(values_of(codes), itertools.chain(*(
                [s] * len(part) for part, s in zip(self.parts(blocks), want))))], nearest)
            back = ptxpack.dequantise(codes, scales, dtype="f16")
            self.assertEqual((back.dtype, values_of(back)), ("f16", nearest))

    def test_largest(self):
        """The largest element has the largest code; into arrays of the caller."""
        out, scales = Interface("u8", (self.rows, self.columns)), Interface("f32", (self.rows,))
        self.assertEqual(ptxpack.quantise(self.array, out=out, scales=scales, overlap=True), (out, scales))
        driver("cuCtxSynchronize")
        self.assertEqual(scales.values(), [single(max(map(abs, part)) / 448) for part in self.parts(False)])
        for part, codes, s in zip(self.parts(False), rows_of(out.values(), self.columns), scales.values()):
            self.assertEqual(max(map(abs, codes)), 448)
            for x, code in zip(part, codes):
                self.assertLessEqual(abs(code * s - x), 2.0**-3.99 * abs(x) + s * 2.0**-9.99)
        there = Interface("f16", (self.rows, self.columns))
        self.assertIs(ptxpack.dequantise(out, scales, out=there), there)
        if SM >= 80:
            wide = Interface("u16", (self.rows, self.columns))
            ptxpack.dequantise(out, scales, out=wide, dtype="bf16")
            driver("cuCtxSynchronize")
            for x, y in zip(there.values(), wide.values()):
                self.assertLessEqual(abs(x - y), 2.0**-8 * abs(x) + 2.0**-20)

    @unittest.skipIf(SM < 90, "no products of e4m3")
    def test_products(self):
        """Of codes: with scales of every kind, in a batch, and with a of 16 bits; the result is that of what they mean."""
        rng, k = random.Random(4), 256
        for m, n, batch, kind in ((20, 24, 0, "lines"), (1, 16, 0, "lines"), (20, 24, 0, "tensor"), (20, 24, 0, ""), (3, 136, 0, "blocks"),
                                  (5, 16, 2, "lines"), (5, 16, 2, "tensor"), (2, 136, 2, "blocks")):
            lead = (batch,) if batch else ()
            blocks = -(-n // 128)
            a, b = (Interface("u8", (*lead, rows, k)) for rows in (m, n))
            for array in (a, b):  # numbers from 1/4 to 4, of both signs
                array.write(bytes(rng.randrange(0x28, 0x48) | rng.choice((0, 128)) for _ in range(array.count)))
            shapes = {"lines": ((*lead, m), (*lead, n)), "tensor": ((), (1,)), "": ((0,),) * 2,
                      "blocks": ((*lead, m, 2), (*lead, blocks, 2))}[kind]
            scales = [Interface("f32", shape, [2.0**rng.randint(-2, 2) for _ in range(math.prod(shape))]) if kind else None for shape in shapes]
            d = ptxpack.matmul(a, Transposed(b), scale_a=scales[0], scale_b=scales[1], dtype="bf16")
            self.assertEqual((d.dtype, d.shape), ("bf16", (*lead, m, n)))
            meant = [meaning(x.values(), k, scale.values() if scale else [1.0], kind or "tensor", rows, height)
                     for x, scale, rows, height in zip((a, b), scales, (m, n), (1, 128))]
            want = [x for i in range(max(batch, 1)) for x in itertools.chain(*multiplied(
                meant[0][i * m:(i + 1) * m], meant[1][i * n:(i + 1) * n]))]
            size = max(map(abs, want))
            for got, right in zip(values_of(d), want):
                self.assertLessEqual(abs(got - right), 2.0**-8 * abs(right) + 2.0**-10 * size)
        x = Interface("f16", (3, k), [rng.randint(-4, 4) / 4 for _ in range(3 * k)])
        w, scale = Lender("e4m3", (24, k), [rng.gauss(0, 1) for _ in range(24 * k)]), Interface("f32", (24,), [0.5, 2, 1] * 8)
        d = ptxpack.matmul(x, Transposed(Interface("u8", (24, k), w.values())), scale_b=scale, bias=Interface("f16", (24,), [1] * 24))
        meant = multiplied(rows_of(x.values(), k), meaning(w.values(), k, scale.values(), "lines", 24, 1))
        for got, right in zip(values_of(d), itertools.chain(*meant)):
            self.assertLessEqual(abs(got - (right + 1)), 2.0**-9 * (1 + abs(right)))

    def test_refused_products(self):
        a, b, wide = Interface("u8", (4, 256)), Transposed(Interface("u8", (16, 256))), Interface("f16", (4, 256))
        one, lines = Interface("f32", (1,)), Interface("f32", (16,))
        for pattern, arrays, options in (
                ("dtype must say of which type the result is", (a, b), {}),
                ("a is u8 and b is f16: with an a of e4m3", (a, Transposed(Interface("f16", (16, 256)))), {"dtype": "f16"}),
                ("scale_b is for e4m3, and b is f16", (wide, Transposed(Interface("f16", (16, 256)))), {"scale_b": one}),
                ("scale_a is for e4m3, and a is f16", (wide, b), {"scale_a": one}),
                ("must both be of a matrix, of lines, or of blocks", (a, b), {"scale_a": one, "scale_b": lines, "dtype": "f16"}),
                ("scale_b is f32 .4,., and must be contiguous f32 .1,., .16,. or .1, 2.", (a, b), {
                    "scale_b": Interface("f32", (4,)), "dtype": "f16"})):
            with self.subTest(pattern), self.assertRaisesRegex(ptxpack.ArgumentError, pattern):
                ptxpack.matmul(*arrays, **options)
        if SM < 90:
            with self.assertRaises(ptxpack.Unsupported):
                ptxpack.matmul(a, b, dtype="f16")

    def test_refusals(self):
        codes, scales = Interface("u8", (4, 16)), Interface("f32", (4,))
        for pattern, function, arrays, options in (
                ("x is of type f32", ptxpack.quantise, (Interface("f32", (4, 16)),), {}),
                ("x is .16,., and must have 2 dimensions", ptxpack.quantise, (Interface("f16", (16,)),), {}),
                ("columns 24 is not a multiple of 16", ptxpack.quantise, (Interface("f16", (4, 24)),), {}),
                ("scales is f32 .4,., and must be f32 .4, 1.", ptxpack.quantise, (Interface("f16", (4, 16)),), {
                    "scales": scales, "blocks": True}),
                ("out is f16 .4, 16., and must be e4m3", ptxpack.quantise, (Interface("f16", (4, 16)),), {
                    "out": Interface("f16", (4, 16))}),
                ("codes is f16, and must be e4m3", ptxpack.dequantise, (Interface("f16", (4, 16)), scales), {"dtype": "f16"}),
                ("dtype is None, and must say of which type", ptxpack.dequantise, (codes, scales), {}),
                ("scales is f32 .5,., and must be contiguous f32 .4,. or .4, 1.", ptxpack.dequantise, (
                    codes, Interface("f32", (5,))), {"dtype": "f16"})):
            with self.subTest(pattern), self.assertRaisesRegex(ptxpack.ArgumentError, pattern):
                function(*arrays, **options)
