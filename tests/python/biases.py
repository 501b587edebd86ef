"""biases.py - biases and bits of attention, and hooks in CUDA C++; module.py runs it."""
import pathlib
import unittest

import ptxpack
from arrays import Interface, Problem, values_of


class Biases(unittest.TestCase):
    def test_bias(self):
        """ALiBi as a bias, and a causal mask as bits, of all keys and of the last nine."""
        problem, slopes, rows, keys = Problem(), [0.25, 0.0625], 9, 21
        late = keys - rows
        values = [-slope * abs(i + late - j) for slope in slopes for i in range(rows) for j in range(keys)]
        bias = Interface("f32", (2, rows, keys), values)
        o, lse = ptxpack.attention(*problem.arrays, bias=bias, return_lse=True)
        problem.expect(self, values_of(o), values_of(lse), slopes=slopes)
        o = ptxpack.attention(*problem.arrays, bias=Interface("f32", (keys,), [2.0] * keys))  # the same for all changes nothing
        problem.expect(self, values_of(o))
        want = values_of(ptxpack.attention(*problem.arrays, causal=True))
        seen = Interface("s32", (rows, 1), [(2 << (i + late)) - 1 for i in range(rows)])
        self.assertEqual(values_of(ptxpack.attention(*problem.arrays, mask_bits=seen)), want)
        tree = Interface("s32", (1, rows, 1), [(2 << i) - 1 for i in range(rows)])
        for last in (rows, "queries"):
            self.assertEqual(values_of(ptxpack.attention(*problem.arrays, mask_bits=tree, mask_keys=last)), want)
        with self.assertRaisesRegex(ptxpack.ArgumentError, "its last dimension must be the 21 keys"):
            ptxpack.attention(*problem.arrays, bias=Interface("f32", (rows, 1), [0] * rows))
        with self.assertRaisesRegex(ptxpack.ArgumentError, "mask_bits: rows must be 4 bytes or more, and a multiple of 4 bytes apart"):
            ptxpack.attention(*problem.arrays, mask_bits=Interface("u8", (rows, 3), [0] * 27))
        with self.assertRaisesRegex(ptxpack.ArgumentError, "mask_keys needs mask_bits"):
            ptxpack.attention(*problem.arrays, mask_keys=3)

    def test_hooks_in_cuda(self):
        problem, slopes = Problem(), [0.25, 0.0625]
        text = (pathlib.Path(__file__).parents[2] / "tools/examples/hooks/alibi.cu").read_text()
        try:
            o = ptxpack.attention(*problem.arrays, causal=True, score_mod=text, aux=[Interface("f32", (2,), slopes)])
        except ptxpack.Unsupported as refusal:
            self.assertRegex(str(refusal), "needs NVRTC")
            self.skipTest(str(refusal))
        problem.expect(self, values_of(o), visible=lambda i, j: j <= i + 12, slopes=slopes)
