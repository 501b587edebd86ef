"""matrices.py - products of matrices and sums of arrays; module.py runs it."""
import itertools
import math
import random
import unittest

import ptxpack
from arrays import SM, Array, Interface, Lender, OldLender, Problem, decode, driver, read, values_of


class Matrices(unittest.TestCase):
    M, N, K = 20, 24, 16

    def setUp(self):
        self.rng = random.Random(1)

    def random(self, *shape, kind="f16", strides=None):
        """Uses numbers that every type has; `listed` keeps the originals."""
        values = [self.rng.randint(-4, 4) / 4 for _ in range(math.prod(shape))]
        array = Interface(kind, shape, values, strides)
        array.listed = values
        return array

    @staticmethod
    def element(array, b, i, j):
        matrix = 0 if len(array.shape) == 2 or array.shape[0] == 1 else b
        rows, columns = array.shape[-2:]
        return array.listed[(matrix * rows + i) * columns + j]

    def judge(self, d, a, b, c=None, bias=None, alpha=1.0, beta=1.0, function=lambda x: x):
        batch, (m, n) = d.shape[0] if len(d.shape) == 3 else 1, d.shape[-2:]
        got = iter(d.values() if isinstance(d, Array) else values_of(d))
        for at, i, j in itertools.product(range(batch), range(m), range(n)):
            total = alpha * sum(self.element(a, at, i, k) * self.element(b, at, k, j)
                                for k in range(a.shape[-1]))
            total += beta * self.element(c, at, i, j) if c is not None else 0
            want, value = function(total + (bias.listed[j] if bias is not None else 0)), next(got)
            self.assertLessEqual(abs(value - want), 4e-3 * (1 + abs(want)), (at, i, j))

    def test_orders(self):
        m, n, k = self.M, self.N, self.K
        for strides_a, strides_b in itertools.product(((k, 1), (1, m + 4), (k + 8, 1)), ((n, 1), (1, k))):
            with self.subTest((strides_a, strides_b)):
                a, b = self.random(m, k, strides=strides_a), self.random(k, n, strides=strides_b)
                d = ptxpack.matmul(a, b)
                self.assertEqual((d.shape, d.strides, d.dtype), ((m, n), (n, 1), "f16"))
                self.judge(d, a, b)

    def test_epilogue(self):
        a, b = self.random(self.M, self.K), self.random(self.K, self.N)
        c, bias = self.random(self.M, self.N), self.random(self.N)
        functions = {"relu": lambda x: max(x, 0), "silu": lambda x: x / (1 + math.exp(-x)),
                     "gelu": lambda x: x / 2 * (1 + math.tanh((2 / math.pi)**0.5 * (x + 0.044715 * x**3)))}
        for name, function in functions.items():
            self.judge(ptxpack.matmul(a, b, bias=bias, activation=name), a, b, bias=bias, function=function)
        self.judge(ptxpack.matmul(a, b, alpha=0.5, beta=-2.0, c=c), a, b, c, alpha=0.5, beta=-2.0)
        self.judge(ptxpack.matmul(a, b, overlap=True), a, b)
        self.assertIs(ptxpack.matmul(a, b, c=c, bias=bias, out=c), c)
        self.judge(c, a, b, c, bias)

    def test_batches(self):
        for shapes in (((3, self.M, self.K), (3, self.K, self.N)), ((3, self.M, self.K), (self.K, self.N)),
                       ((self.M, self.K), (3, self.K, self.N)), ((1, self.M, self.K), (1, self.K, self.N))):
            with self.subTest(shapes):
                a, b = self.random(*shapes[0]), self.random(*shapes[1])
                d = ptxpack.matmul(a, b)
                self.assertEqual(d.shape, (max(s[0] if len(s) == 3 else 1 for s in shapes), self.M, self.N))
                self.judge(d, a, b)

    @unittest.skipIf(SM < 80, "no bf16")
    def test_bf16(self):
        a, b = self.random(self.M, self.K, kind="u16"), self.random(self.K, self.N, kind="u16")
        d = ptxpack.matmul(a, b, dtype="bf16")
        self.assertEqual(d.dtype, "u16")
        for (i, j), value in zip(itertools.product(range(self.M), range(self.N)), values_of(d)):
            want = sum(self.element(a, 0, i, k) * self.element(b, 0, k, j) for k in range(self.K))
            self.assertLessEqual(abs(value - want), 2.0**-8 * abs(want))

    def test_one_line(self):
        a, b = self.random(1, self.K, strides=(3, 1)), self.random(self.K, self.N)
        self.judge(ptxpack.matmul(a, b), a, b)
        column, row = self.random(self.M, 1), self.random(1, self.N)
        self.judge(ptxpack.matmul(column, row), column, row)

    def test_narrow_results(self):
        a, b = self.random(self.M, self.K), self.random(self.K, 5, strides=(8, 1))
        out = Interface("f16", (self.M, 5), strides=(8, 1))
        self.judge(ptxpack.matmul(a, b, out=out), a, b)
        self.assertTrue(all(map(math.isnan, decode("f16", read(out.address + 10, 6)))))

    def test_norm(self):
        m, n, k = 3, 16, 128
        a, b, weight = self.random(m, k), self.random(k, n, strides=(1, k)), self.random(k)
        if SM < 90:
            with self.assertRaisesRegex(ptxpack.Unsupported, "norm_a"):
                ptxpack.matmul(a, b, norm_weight=weight)
            return
        d = ptxpack.matmul(a, b, norm_weight=weight, norm_eps=0.5)
        for (i, j), value in zip(itertools.product(range(m), range(n)), values_of(d)):
            row = a.listed[i * k:(i + 1) * k]
            want = sum(x * w * b.listed[l * n + j] for l, (x, w) in enumerate(zip(row, weight.listed)))
            want /= (sum(x * x for x in row) / k + 0.5)**0.5
            self.assertLessEqual(abs(value - want), 1e-3 * (1 + abs(want)), (i, j))

    def test_refusals(self):
        a, b = self.random(self.M, self.K), self.random(self.K, self.N)
        for pattern, arrays, options in (
                ("b is .15, 24., and must be", (a, self.random(15, self.N)), {}),
                ("must have 2 or 3 dimensions", (a, self.random(self.K)), {}),
                ("a: its strides are", (self.random(self.M, self.K, strides=(32, 2)), b), {}),
                ("b is .2, .*, and must be", (self.random(3, 8, 8), self.random(2, 8, 8)), {}),
                ("activation is 'tanh'", (a, b), {"activation": "tanh"}),
                ("bias is .16,., and must be", (a, b), {"bias": self.random(16)}),
                ("norm_weight is .15,., and must be", (a, b), {"norm_weight": self.random(15)}),
                ("out: its strides are", (a, b), {"out": self.random(self.M, self.N, strides=(1, self.M))}),
                ("stride_a: 12 is not a multiple", (self.random(self.M, 12), self.random(12, self.N)), {}),
                ("a, b are f16, bf16", (a, Interface("bf16", (self.K, self.N))), {})):
            with self.subTest(pattern), self.assertRaisesRegex(ptxpack.ArgumentError, pattern):
                ptxpack.matmul(*arrays, **options)


class Vectors(unittest.TestCase):
    def test_sums(self):
        values = [0.25 * n - 20 for n in range(200)]
        for form in (Interface, Lender, OldLender):
            x, y = form("f16", (10, 20), values), form("f16", (10, 20), values[::-1])
            z = ptxpack.vector_add(x, y, 2.0, -1.0, 3.0)
            self.assertEqual(values_of(z), [2 * a - b + 3 for a, b in zip(values, values[::-1])])
        self.assertIs(ptxpack.vector_add(x, y, out=x), x)
        driver("cuCtxSynchronize")
        self.assertEqual(x.values(), [a + b for a, b in zip(values, values[::-1])])

    def test_strides(self):
        x = Interface("f16", (4, 8), range(32), (1, 4))
        z = ptxpack.vector_add(x, x)
        self.assertEqual((z.strides, values_of(z)), ((1, 4), [2 * n for n in range(32)]))
        with self.assertRaisesRegex(ptxpack.ArgumentError, "y is .* must lie as x"):
            ptxpack.vector_add(x, Interface("f16", (4, 8), range(32)))
        gaps = Interface("f16", (4, 8), range(32), (16, 1))
        with self.assertRaisesRegex(ptxpack.ArgumentError, "without gaps"):
            ptxpack.vector_add(gaps, gaps)
