"""blocks.py - lists of blocks of keys in ptxpack's Python: made by a call, and given to attention; module.sh runs it."""
import types
import unittest

import ptxpack
from arrays import Interface, Problem, values_of


class Blocks(unittest.TestCase):
    def test_blocks(self):
        problem = Problem()
        batch, rows, heads, _ = problem.shape_q
        keys = problem.shape_kv[1]
        whole = ptxpack.attention(*problem.arrays, causal=True)
        lists = ptxpack.attention_blocks(None, batch, heads, rows, keys, causal=True)
        self.assertEqual((lists.kv_indices.shape, lists.BLOCK_SIZE), ((batch, heads, 1, 1), (128, 128)))
        self.assertEqual(values_of(lists.kv_num_blocks), [0] * (batch * heads))
        self.assertEqual(values_of(lists.full_kv_num_blocks), [1] * (batch * heads))  # no mask_mod, but causal=True
        for given in (lists, lists[:4]):
            o = ptxpack.attention(*problem.arrays, causal=True, block_mask=given)
            self.assertEqual(values_of(o), values_of(whole))
        count, entry = Interface("s32", (1, 1, 1), [0]), Interface("s32", (1, 1, 1, 1), [0])
        o = ptxpack.attention(*problem.arrays, block_mask=(count, entry, None, None))
        self.assertEqual(set(values_of(o)), {0})
        odd = ".macro MASK_MOD keep, r, b, h, q, kv, c, cf\n .reg .b32 %my_x;\n and.b32 %my_x, \\kv, 1;\n setp.eq.u32 \\keep, %my_x, 1;\n.endm\n"
        lists = ptxpack.attention_blocks(odd, None, None, rows, keys, like=problem.arrays[0])
        o = ptxpack.attention(*problem.arrays, mask_mod=odd, block_mask=lists)
        self.assertEqual(values_of(o), values_of(ptxpack.attention(*problem.arrays, mask_mod=odd)))
        full = Interface("s32", (1, 1, 1), [1])
        o = ptxpack.attention(*problem.arrays, mask_mod=odd, block_mask=(count, entry, full, entry))  # full: no mask_mod
        problem.expect(self, values_of(o))
        flex = types.SimpleNamespace(**dict(zip(ptxpack.BlockLists._fields, lists)))
        with self.assertRaisesRegex(ptxpack.ArgumentError, "block_mask has a mask_mod that is a function of Python"):
            ptxpack.attention(*problem.arrays, block_mask=flex)
        with self.assertRaisesRegex(ptxpack.ArgumentError, r"kv_num_blocks is \(1, 1, 2\), and must be \[%d or 1, %d or 1, 1\]" % (batch, heads)):
            ptxpack.attention(*problem.arrays, block_mask=(Interface("s32", (1, 1, 2), [0, 0]), entry, None, None))
        with self.assertRaisesRegex(ptxpack.ArgumentError, "block_mask must be a BlockMask, or"):
            ptxpack.attention(*problem.arrays, block_mask=(count, entry))
