"""torch_operator.py - ptxpack.torch on the CPU and the emulated driver; torch.sh runs it."""
import os
import pathlib
import subprocess
import sys
import unittest

import torch

import ptxpack.torch

SHAPE_Q, SHAPE_KV = (2, 9, 4, 16), (2, 21, 2, 16)  # [batch, sequence, head, dim]
BOUNDS = {torch.float16: 2e-3, torch.bfloat16: 2e-2, torch.float8_e4m3fn: 0.15}


def inputs(dtype=torch.float16, layout="bshd", shape_q=SHAPE_Q, shape_kv=SHAPE_KV, seed=1):
    torch.manual_seed(seed)
    q, k, v = (torch.randn(shape).to(dtype) for shape in (shape_q, shape_kv, shape_kv))
    return [x.transpose(1, 2) if layout == "bhsd" else x for x in (q, k, v)]


def reference(q, k, v, causal=False, left=-1, right=-1, softcap=0.0, scale=None, layout="bshd", descale=1.0, sinks=None, slopes=None):
    """o and lse in f64."""
    if layout == "bshd":
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    q, k, v = (x.double() for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    scores = q @ k.transpose(2, 3) * (scale or q.shape[3]**-0.5)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    late = k.shape[2] - q.shape[2]
    i, j = torch.arange(q.shape[2])[:, None], torch.arange(k.shape[2])
    visible = torch.ones_like(scores[0, 0], dtype=torch.bool)
    if causal:
        visible &= j <= i + late
    if left >= 0:
        visible &= j >= i + late - left
    if right >= 0:
        visible &= j <= i + late + right
    scores = scores if slopes is None else scores - slopes.double()[:, None, None] * (i + late - j).abs()
    scores = scores.masked_fill(~visible, -torch.inf)
    lse = torch.logsumexp(scores, -1)
    lse = lse if sinks is None else torch.logaddexp(lse, sinks.double()[:, None])
    o = torch.exp(scores - lse[..., None]) @ v * descale
    return o if layout == "bhsd" else o.transpose(1, 2), lse


class Operator(unittest.TestCase):
    def near(self, o, want, dtype):
        self.assertEqual(o.shape, want.shape)
        self.assertLess(float(((o.double() - want).abs() / (1 + want.abs())).max()), BOUNDS[dtype])

    def test_blocks(self):
        q, k, v = inputs(shape_q=(2, 1, 4, 64), shape_kv=(2, 21, 2, 64))
        blocks = [torch.from_numpy(ptxpack.from_numpy(x.float().numpy(), "q8_0").numpy()) for x in (k, v)]
        whole = []
        for x in blocks:  # an f16 scale and 32 numbers
            parts = x.reshape(*x.shape[:-1], 2, 34)
            scale = parts[..., :2].contiguous().view(torch.float16)
            whole.append((scale.float() * parts[..., 2:].view(torch.int8).float()).flatten(-2))
        want, want_lse = reference(q, *whole)
        o, lse = ptxpack.torch.attention(q, *blocks, kv_dtype="q8_0", return_lse=True)
        self.near(o, want, torch.float16)
        self.assertLess(float((lse - want_lse).abs().max()), 2e-3)
        with torch._subclasses.FakeTensorMode() as mode:
            traced = torch.ops.ptxpack.attention(*map(mode.from_tensor, (q, *blocks)), kv_dtype="q8_0")
        self.assertEqual([x.shape for x in traced], [o.shape, lse.shape])
        with self.assertRaisesRegex(ptxpack.ArgumentError, "last dimension must agree"):
            ptxpack.torch.attention(q, *blocks)

    def test_chunks(self):
        q, k, v = inputs()
        o = ptxpack.torch.attention(q, k, v, causal=True, attention_chunk=8)
        late = k.shape[1] - q.shape[1]
        for row in range(q.shape[1]):  # each row alone sees the keys from its chunk's first one to its own
            place = row + late
            seen = slice(place // 8 * 8, place + 1)
            want, _ = reference(q[:, row:row + 1], k[:, seen], v[:, seen])
            self.near(o[:, row:row + 1], want, q.dtype)

    def test_block_mask(self):
        from torch.nn.attention.flex_attention import create_block_mask
        q, k, v = (torch.randn(1, 200, 2, 64, dtype=torch.float16) for _ in range(3))
        past = ".macro MASK_MOD keep, r, b, h, q, kv, c, cf\n setp.ge.s32 \\keep, \\q, \\kv;\n.endm\n"
        mask = create_block_mask(lambda b, h, q, kv: q >= kv, None, None, 200, 200, device="cpu", BLOCK_SIZE=64)
        want = ptxpack.torch.attention(q, k, v, causal=True)
        for options in ({"causal": True}, {"mask_mod": past}):
            o = ptxpack.torch.attention(q, k, v, block_mask=mask, **options)
            torch.testing.assert_close(o, want, atol=2e-3, rtol=2e-3)
        with self.assertRaisesRegex(ptxpack.ArgumentError, "block_mask has a mask_mod that is a function of Python"):
            ptxpack.torch.attention(q, k, v, block_mask=mask)
        lists = (mask.kv_num_blocks, mask.kv_indices, mask.full_kv_num_blocks, mask.full_kv_indices)
        traced = torch.compile(lambda *arrays: ptxpack.torch.attention(q, k, v, causal=True, block_mask=arrays, block_size=64),
                               fullgraph=True)
        torch.testing.assert_close(traced(*lists), o, atol=2e-3, rtol=2e-3)

    def test_hooks(self):
        """ALiBi as a hook, and as it is built in; traced, too."""
        text = (pathlib.Path(__file__).parents[2] / "tools/examples/hooks/alibi.ptx").read_text()
        q, k, v = inputs()
        slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625])

        def hooked(q, k, v):
            return ptxpack.torch.attention(q, k, v, causal=True, score_mod=text, aux=[slopes])
        want, _ = reference(q, k, v, causal=True, slopes=slopes)
        self.near(hooked(q, k, v), want, q.dtype)
        self.near(torch.compile(hooked, fullgraph=True, backend="aot_eager")(q, k, v), want, q.dtype)
        with self.assertRaisesRegex(ptxpack.ArgumentError, "score_mod, line 1: bar is not an instruction"):
            ptxpack.torch.attention(q, k, v, score_mod="bar.sync 0;")

    def test_bias(self):
        """A bias of all sequences, and bits that make a causal mask; traced, too."""
        q, k, v = inputs()
        rows, keys = q.shape[1], k.shape[1]
        i, j = torch.arange(rows)[:, None], torch.arange(keys)
        slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625])
        bias = -slopes[:, None, None] * (i + keys - rows - j).abs()
        bits = ((2 << torch.arange(rows) + keys - rows) - 1).to(torch.int32)[:, None]

        def biased(q, k, v):
            return ptxpack.torch.attention(q, k, v, bias=bias, mask_bits=bits)
        want, _ = reference(q, k, v, causal=True, slopes=slopes)
        self.near(biased(q, k, v), want, q.dtype)
        self.near(torch.compile(biased, fullgraph=True, backend="aot_eager")(q, k, v), want, q.dtype)

    def test_values(self):
        for dtype in (torch.float16, torch.bfloat16):
            for layout in ("bshd", "bhsd"):
                for options, limits in (({}, {}), ({"causal": True}, {"causal": True}),
                                        ({"window": (3, 2), "softcap": 5.0, "scale": 0.5},
                                         {"left": 3, "right": 2, "softcap": 5.0, "scale": 0.5}),
                                        ({"window": 4}, {"left": 4, "right": 4}),
                                        ({"window": (None, 0)}, {"right": 0})):
                    with self.subTest((dtype, layout, options)):
                        q, k, v = inputs(dtype, layout)
                        o, lse = ptxpack.torch.attention(q, k, v, layout=layout, return_lse=True, **options)
                        want, want_lse = reference(q, k, v, layout=layout, **limits)
                        self.assertEqual((o.dtype, o.stride(), lse.dtype), (dtype, q.stride(), torch.float32))
                        self.near(o, want, dtype)
                        self.assertLess(float((lse - want_lse).abs().max()), 2e-3 * (1 + float(want_lse.abs().max())))
                        alone = ptxpack.torch.attention(q, k, v, layout=layout, **options)
                        self.assertTrue(torch.equal(alone, o))

    def test_e4m3(self):
        q, k, v = inputs(torch.float8_e4m3fn, shape_q=(1, 9, 2, 32), shape_kv=(1, 21, 2, 32))
        o = ptxpack.torch.attention(q, k, v, v_descale=torch.full((1, 2), 2.0))
        self.assertEqual(o.dtype, torch.bfloat16)
        self.near(o, reference(q, k, v, descale=2.0)[0], torch.float8_e4m3fn)

    def test_keys_of_bytes(self):
        for kind, factor in ((torch.float8_e4m3fn, 1.0), (torch.int8, 32.0)):
            q, k, v = inputs(torch.bfloat16, shape_q=(2, 9, 4, 32), shape_kv=(2, 21, 2, 32))
            k, v = ((x.float() * factor).round(decimals=0 if kind == torch.int8 else 6).to(kind) for x in (k, v))
            scale = torch.full((1,), 1 / factor).expand(2, 2)
            o = ptxpack.torch.attention(q, k, v, causal=True, k_descale=scale, v_descale=scale)
            want, _ = reference(q, (k.float() / factor), (v.float() / factor), causal=True)
            self.assertEqual(o.dtype, torch.bfloat16)
            self.near(o, want, torch.bfloat16)

    def test_sinks_and_slopes(self):
        sinks, slopes = torch.tensor([0.5, -2.0, -torch.inf, 3.0]), torch.tensor([0.5, 0.0, 0.25, 1.0])
        for options in ({"sinks": sinks}, {"alibi_slopes": slopes}, {"sinks": sinks, "alibi_slopes": slopes}):
            for layout in ("bshd", "bhsd"):
                with self.subTest((options, layout)):
                    q, k, v = inputs(layout=layout)
                    o, lse = ptxpack.torch.attention(q, k, v, causal=True, layout=layout, return_lse=True, **options)
                    want, want_lse = reference(q, k, v, causal=True, layout=layout, sinks=options.get("sinks"),
                                               slopes=options.get("alibi_slopes"))
                    self.near(o, want, torch.float16)
                    self.assertLess(float((lse - want_lse).abs().max()), 2e-3 * (1 + float(want_lse.abs().max())))

    def test_lengths(self):
        """Sequences with lengths of their own: padded, packed, in pages, and of a cache."""
        q, k, v = inputs()
        used, pad, ints = (12, 21), (3, 8), lambda *values: torch.tensor(values, dtype=torch.int32)
        o = ptxpack.torch.attention(q, k, v, causal=True, seqused_q=ints(9, 7), seqused_k=ints(*used), leftpad_k=ints(*pad))
        wanted = [reference(q[i:i + 1, :rows], k[i:i + 1, pad[i]:used[i]], v[i:i + 1, pad[i]:used[i]], causal=True)
                  for i, rows in enumerate((9, 7))]
        for i, (want, _) in enumerate(wanted):
            self.near(o[i:i + 1, :want.shape[1]], want, torch.float16)
        q_packed, k_packed, v_packed = (torch.cat([x[0], x[1]]) for x in (q, k, v))
        o, lse = ptxpack.torch.attention(q_packed, k_packed, v_packed, causal=True, cu_seqlens_q=ints(0, 9, 18), return_lse=True,
                                         cu_seqlens_k=ints(0, 21, 42), max_seqlen_q=9, max_seqlen_k=21)
        want, want_lse = reference(q, k, v, causal=True)
        self.near(o.reshape(q.shape), want, torch.float16)
        self.assertLess(float((lse.reshape(4, 2, 9).transpose(0, 1) - want_lse).abs().max()), 1e-2)
        pages, table = torch.cat([k_packed, k_packed[:6]]).reshape(3, 16, 2, 16), ints(1, 0)[:, None]
        o = ptxpack.torch.attention(q, pages, pages, seqused_k=ints(16, 5), page_table=table)
        for i, (page, rows) in enumerate(((1, 16), (0, 5))):
            self.near(o[i:i + 1], reference(q[i:i + 1], *[pages[page:page + 1, :rows]] * 2)[0], torch.float16)
        o = ptxpack.torch.attention(q, k, v, cache_batch_idx=ints(1, 0))
        self.near(o, reference(q, k.flip(0), v.flip(0))[0], torch.float16)

    def test_checks_of_pytorch(self):
        more = dict(seqused_k=torch.tensor([20, 4], dtype=torch.int32), sinks=torch.ones(4), alibi_slopes=torch.ones(4))
        for layout, named in (("bshd", {}), ("bhsd", {}), ("bshd", more)):
            arguments = (*inputs(layout=layout), True, -1, -1, 0.0, None, "bottom-right", layout, None, None, None)
            found = torch.library.opcheck(torch.ops.ptxpack.attention.default, arguments, named, test_utils=(
                "test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"))
            self.assertEqual(set(found.values()), {"SUCCESS"})

    def test_without_data(self):
        for device, dtype in (("meta", torch.bfloat16), ("meta", torch.float8_e4m3fn)):
            q, k, v = (torch.empty(shape, dtype=dtype, device=device) for shape in (SHAPE_Q, SHAPE_KV, SHAPE_KV))
            o, lse = ptxpack.torch.attention(q, k, v, return_lse=True)
            self.assertEqual((o.shape, o.dtype, o.device.type), (SHAPE_Q, torch.bfloat16, device))
            self.assertEqual((lse.shape, lse.dtype), ((2, 4, 9), torch.float32))
        q = torch.empty(SHAPE_Q, dtype=torch.float16, device="meta").transpose(1, 2)
        o, lse = ptxpack.torch.attention(q, q, q, layout="bhsd", return_lse=True)
        self.assertEqual((o.stride(), lse.shape), (q.stride(), (2, 4, 9)))
        q, starts = torch.empty(18, 4, 16, dtype=torch.float16, device="meta"), torch.empty(3, dtype=torch.int32, device="meta")
        o, lse = ptxpack.torch.attention(q, q, q, cu_seqlens_q=starts, cu_seqlens_k=starts, max_seqlen_q=9, return_lse=True)
        self.assertEqual((o.shape, lse.shape), (q.shape, (4, 18)))

    def compiled(self, backend, **options):
        def layer(q, k, v, factor):
            o, lse = ptxpack.torch.attention(q * factor, k, v, causal=True, window=(8, 0), return_lse=True)
            return torch.relu(o) + 1, lse
        made = torch.compile(layer, fullgraph=True, backend=backend, **options)
        for rows in (9, 11):  # the second time with another length
            q, k, v = inputs(shape_q=(2, rows, 4, 16))
            for got, want in zip(made(q, k, v, 2.0), layer(q, k, v, 2.0)):
                self.assertEqual((got.shape, got.stride(), got.dtype), (want.shape, want.stride(), want.dtype))
                self.assertTrue(torch.equal(got, want))

    def test_compile(self):
        torch._dynamo.reset()
        self.compiled("aot_eager")
        torch._dynamo.reset()
        self.compiled("aot_eager", dynamic=True)

    def test_compile_with_inductor(self):
        torch._dynamo.reset()
        try:
            torch.compile(lambda x: torch.relu(x) + 1, fullgraph=True)(torch.ones(3))
        except Exception as why:  # no C++ compiler, or none that it can use
            print("SKIP: python/torch: inductor compiles nothing here: %s" % str(why).splitlines()[0])
            self.skipTest("no inductor")
        self.compiled("inductor")

    def test_export(self):
        class Layer(torch.nn.Module):
            def forward(self, q, k, v):
                return ptxpack.torch.attention(q, k, v, causal=True)
        q, k, v = inputs()
        program = torch.export.export(Layer(), (q, k, v))
        self.assertIn("ptxpack.attention", str(program.graph))
        self.assertTrue(torch.equal(program.module()(q, k, v), ptxpack.torch.attention(q, k, v, causal=True)))

    def test_refusals(self):
        q, k, v = inputs()
        q.requires_grad = True
        with self.assertRaisesRegex(ptxpack.ArgumentError, "^q requires a gradient, and there is none: use torch.no_grad"):
            ptxpack.torch.attention(q, k, v)
        with self.assertRaisesRegex(ptxpack.ArgumentError, "^sinks requires a gradient"):
            ptxpack.torch.attention(k, k, v, sinks=torch.ones(2, requires_grad=True))
        with self.assertRaisesRegex(ptxpack.ArgumentError, r"^sinks must be contiguous f32 \(4,\)"):
            ptxpack.torch.attention(q.detach(), k, v, sinks=torch.ones(3))
        with self.assertRaisesRegex(TypeError, "unexpected keyword argument 'dropout_p'"):
            ptxpack.torch.attention(v, k, v, dropout_p=0.0)
        with self.assertRaisesRegex(ptxpack.ArgumentError, "^q has 4 dimensions, and must have 3"):
            ptxpack.torch.attention(v, k, v, cu_seqlens_q=torch.zeros(3, dtype=torch.int32))
        with torch.no_grad():
            self.assertFalse(ptxpack.torch.attention(q, k, v).requires_grad)
        with self.assertRaisesRegex(ptxpack.ArgumentError, "^k has 3 dimensions, and must have 4"):
            ptxpack.torch.attention(v, k[0], v)
        with self.assertRaisesRegex(ptxpack.ArgumentError, "layout is 'sbhd'"):
            ptxpack.torch.attention(v, k, v, layout="sbhd")
        with self.assertRaisesRegex(ptxpack.ArgumentError, "q is of type torch.float64, and must be f16, bf16, e4m3 or int8"):
            ptxpack.torch.attention(v.double(), k, v)
        with self.assertRaisesRegex(ptxpack.ArgumentError, "batch and last dimension must agree"):
            ptxpack.torch.attention(v, k[:1], v[:1])

    def test_no_emulated_driver(self):
        """Nothing is computed on the CPU in silence."""
        program = ("import torch, ptxpack.torch\nq = torch.zeros(1, 8, 1, 16, dtype=torch.float16)\n"
                   "try:\n    ptxpack.torch.attention(q, q, q)\nexcept (ptxpack.Error, TypeError) as error:\n"
                   "    print(getattr(error, 'status', error))")
        fake, ptxjit = os.environ["PTXPACK_FAKE_DRIVER"], os.environ["PTXPACK_FAKE_PTXJIT"]
        for path, want in (("/no/such.so", "PTXPACK_E_NO_DRIVER"),
                           (fake, "q is not in the memory of a CUDA device (it is on cpu), and the driver is not the emulated one")):
            environment = {**os.environ, "PTXPACK_DRIVER": path, "PTXPACK_PTXJIT": ptxjit, "PTXPACK_DEVICE": "gpu"}
            run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=False)
            self.assertEqual((run.stdout, run.returncode), (want + "\n", 0), run.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=1)
