"""libraries.py - the Python module with stand-ins for PyTorch, CuPy and JAX, which behave like these libraries, and
with structures that are laid out as the C compiler does."""
import ctypes
import math
import os
import random
import sys
import types
import unittest

import ptxpack
from arrays import (Array, Interface, Lender, Problem, SM, driver, new_stream, pointer, values_of)
from ptxpack.flash_attn import flash_attn_with_kvcache


class Libraries(unittest.TestCase):
    """Stand-ins for PyTorch, CuPy and JAX, as far as the module uses them; frameworks.py tests the real ones."""

    def tearDown(self):
        for name in ("torch", "cupy", "jax"):
            sys.modules.pop(name, None)
        ptxpack.frameworks._library_of.cache_clear()
        ptxpack.frameworks._adapter.cache_clear()

    def put(self, name, **members):
        module = types.ModuleType(name)
        for member, value in members.items():
            setattr(module, member, value)
        sys.modules[name] = module
        return module

    def test_torch(self):
        stream, used = new_stream(), []

        class FakeTensor(Array):
            __module__ = "torch"
            is_cuda, requires_grad, dtype = True, False, "float16"

            def __init__(self, *arguments, **options):
                super().__init__(*arguments, **options)
                self.dtype = {"f16": "float16", "f32": "float32", "s32": "int32"}[self.kind]
            device = property(lambda self: types.SimpleNamespace(index=0), lambda self, _: None)
            data_ptr = lambda self: self.address  # noqa: E731
        FakeTensor.stride = lambda self: self.strides

        def empty(shape, dtype, device):
            return FakeTensor({"float32": "f32", "int32": "s32"}.get(dtype, "f16"), shape)

        class Context:
            def __init__(self, what):
                used.append(what)
            __enter__ = __exit__ = lambda *_: None
        torch = self.put("torch", float16="float16", bfloat16="bfloat16", float32="float32", uint8="uint8", int32="int32",
                         empty=empty, is_grad_enabled=lambda: True,
                         empty_like=lambda x, dtype, requires_grad: empty(x.shape, dtype, None))
        current = types.SimpleNamespace(cuda_stream=stream)
        torch.cuda = types.SimpleNamespace(current_stream=lambda device: current, stream=Context,
                                           ExternalStream=lambda s, device: s)
        problem = Problem(form=FakeTensor)
        o, lse = ptxpack.attention(*problem.arrays, return_lse=True)
        self.assertTrue(isinstance(o, FakeTensor) and isinstance(lse, FakeTensor))
        self.assertEqual(used, [None, None])
        driver("cuStreamSynchronize", pointer(stream))
        problem.expect(self, o.values(), lse.values())
        if SM >= 80:
            self.decode(FakeTensor, stream)
        routes = ptxpack.experts_route(FakeTensor("f16", (2, 4), [0, 1, 2, 3, 3, 2, 1, 0]), 1)
        self.assertTrue(all(isinstance(array, FakeTensor) for array in routes))
        x, logits = FakeTensor("f16", (1, 8), [2] * 8), FakeTensor("f32", (1, 4), [0, 3, 1, 2])
        y, sums, token = *ptxpack.norm(x, FakeTensor("f16", (8,), [2] * 8), residual=FakeTensor("f16", (1, 8), [1] * 8)), ptxpack.sample(logits)
        driver("cuStreamSynchronize", pointer(stream))
        self.assertEqual([array.values() for array in routes[:3]], [[0, 1, 1, 1, 2], [1, 0], [1, 0]])
        self.assertTrue(isinstance(y, FakeTensor) and isinstance(token, FakeTensor))
        self.assertEqual([y.values(), sums.values(), token.values()], [[2] * 8, [3] * 8, [1]])
        used.clear()
        ptxpack.attention(*problem.arrays, stream=0)
        ptxpack.attention(*problem.arrays, stream=1)  # PyTorch calls this stream 0
        self.assertEqual(used, [0, 0])
        problem.arrays[0].requires_grad = True
        with self.assertRaisesRegex(ptxpack.ArgumentError, "q requires a gradient"):
            ptxpack.attention(*problem.arrays)
        problem.arrays[0].is_cuda = False
        torch.cuda.current_stream = None  # it would refuse a device that is not a CUDA device
        with self.assertRaisesRegex(TypeError, "q is not in the memory of a CUDA device"):
            ptxpack.attention(*problem.arrays)

    def decode(self, form, stream):
        """Half of the keys that a cache has."""
        problem = Problem(form=form, shape_q=(1, 1, 2, 16), shape_kv=(1, 30, 1, 16))
        lengths = form("s32", (1,), [15])
        for o in (flash_attn_with_kvcache(*problem.arrays, cache_seqlens=lengths),
                  flash_attn_with_kvcache(*problem.arrays, cache_seqlens=15)):
            self.assertIsInstance(o, form)
            driver("cuStreamSynchronize", pointer(stream))
            problem.expect(self, o.values(), visible=lambda i, j: j < 15)
        cache = [form("f16", (1, 30, 1, 16), x[:14 * 16] + [0] * (16 * 16)) for x in problem.inputs[1:]]
        new = [form("f16", (1, 1, 1, 16), x[14 * 16:15 * 16]) for x in problem.inputs[1:]]
        cos, sin = form("f16", (30, 8), [1] * 240), form("f16", (30, 8), [0] * 240)  # of an angle of 0
        for before in (form("s32", (1,), [14]), 14):
            o = flash_attn_with_kvcache(problem.arrays[0], *cache, *new, cos, sin, before)
            self.assertIsInstance(o, form)
            driver("cuStreamSynchronize", pointer(stream))
            problem.expect(self, o.values(), visible=lambda i, j: j < 15)
            self.assertEqual(cache[0].values()[14 * 16:15 * 16], new[0].values())

    def test_cupy(self):
        stream, used = new_stream(), []

        class FakeArray(Lender):
            __module__ = "cupy"
            dtype = property(lambda self: self.kind)

            def __init__(self, *arguments, **options):
                super().__init__(*arguments, **options)
                self.ordinal = self.device

        FakeArray.device = property(lambda self: Ordinal(0), lambda self, _: None)

        class Ordinal(int):
            id = 0

        class Context:
            def __init__(self, what):
                used.append(what)
            __enter__ = __exit__ = lambda *_: None
        cupy = self.put("cupy", float32="f32", float16="f16", uint16="u16", int32="s32", uint8="u8",
                        empty=lambda shape, dtype: FakeArray(dtype, shape),
                        empty_like=lambda x, dtype: FakeArray(dtype, x.shape))
        cupy.cuda = types.SimpleNamespace(Device=Context, ExternalStream=Context,
                                          get_current_stream=lambda: types.SimpleNamespace(ptr=stream))
        problem = Problem(form=FakeArray)
        o, lse = ptxpack.attention(*problem.arrays, return_lse=True)
        self.assertTrue(isinstance(o, FakeArray) and isinstance(lse, FakeArray))
        self.assertEqual(problem.arrays[0].asked_stream, stream)
        driver("cuStreamSynchronize", pointer(stream))
        problem.expect(self, o.values(), lse.values())
        if SM >= 80:
            self.decode(FakeArray, stream)
        logits, x = FakeArray("f16", (2, 4), [0, 1, 2, 3, 3, 2, 1, 0]), FakeArray("f16", (1, 16), [448] * 16)
        made = *ptxpack.experts_route(logits, 1), *ptxpack.quantise(x), ptxpack.sample(logits)
        self.assertTrue(all(isinstance(array, FakeArray) for array in made))
        driver("cuStreamSynchronize", pointer(stream))
        self.assertEqual([array.values() for array in made[1:3] + made[4:]], [[1, 0], [1, 0], [448] * 16, [1], [3, 0]])
        self.assertNotIn(1, used)
        ptxpack.attention(*problem.arrays, stream=1)
        self.assertIn(1, used)

    def test_jax(self):
        class FakeArray(Lender):
            __module__ = "jaxlib"

        class Tracer(FakeArray):
            pass
        self.put("jax", core=types.SimpleNamespace(Tracer=Tracer),
                 dlpack=types.SimpleNamespace(from_dlpack=lambda tensor: ("jax", tensor)))
        problem = Problem(form=FakeArray)
        name, o = ptxpack.attention(*problem.arrays)
        self.assertEqual(name, "jax")
        problem.expect(self, values_of(o))
        with self.assertRaisesRegex(ptxpack.ArgumentError, "out may not be written"):
            ptxpack.attention(*problem.arrays, out=FakeArray("f16", problem.shape_q))
        with self.assertRaisesRegex(TypeError, "q is traced by JAX"):
            ptxpack.attention(Tracer("f16", (1, 9, 2, 16)), *problem.arrays[1:])


STRUCTURES = {"ptxpack_options": ptxpack.library._Options, "ptxpack_device_caps": ptxpack.library._Caps,
              "ptxpack_device_info": ptxpack.library._DeviceInfo, "ptxpack_strides": ptxpack.library._Strides,
              "ptxpack_attention_desc": ptxpack.library._AttentionDesc,
              "ptxpack_attention_buffers": ptxpack.library._AttentionBuffers,
              "ptxpack_attention_append_desc": ptxpack.library._AppendDesc,
              "ptxpack_attention_append_buffers": ptxpack.library._AppendBuffers,
              "ptxpack_attention_blocks_buffers": ptxpack.library._BlocksBuffers,
              "ptxpack_attention_merge_desc": ptxpack.library._MergeDesc,
              "ptxpack_attention_merge_buffers": ptxpack.library._MergeBuffers,
              "ptxpack_attention_parallel_desc": ptxpack.library._ParallelDesc,
              "ptxpack_attention_parallel_buffers": ptxpack.library._ParallelBuffers,
              "ptxpack_parallel_decode_buffers": ptxpack.library._DecodeBuffers,
              "ptxpack_gemm_desc": ptxpack.library._GemmDesc, "ptxpack_gemm_buffers": ptxpack.library._GemmBuffers,
              "ptxpack_experts_route_desc": ptxpack.library._RouteDesc,
              "ptxpack_experts_route_buffers": ptxpack.library._RouteBuffers,
              "ptxpack_experts_combine_desc": ptxpack.library._CombineDesc,
              "ptxpack_experts_combine_buffers": ptxpack.library._CombineBuffers,
              "ptxpack_gather_desc": ptxpack.library._GatherDesc, "ptxpack_gather_buffers": ptxpack.library._GatherBuffers,
              "ptxpack_quantise_desc": ptxpack.library._QuantiseDesc,
              "ptxpack_quantise_buffers": ptxpack.library._QuantiseBuffers,
              "ptxpack_norm_strides": ptxpack.library._NormStrides, "ptxpack_norm_desc": ptxpack.library._NormDesc,
              "ptxpack_norm_buffers": ptxpack.library._NormBuffers, "ptxpack_sampling_row": ptxpack.library._SamplingRow,
              "ptxpack_sampling_desc": ptxpack.library._SamplingDesc,
              "ptxpack_sampling_buffers": ptxpack.library._SamplingBuffers,
              "ptxpack_symbol": ptxpack.library._Symbol, "ptxpack_source": ptxpack.library._Source,
              "ptxpack_program_info": ptxpack.library._ProgramInfo, "ptxpack_resources": ptxpack.library._Resources,
              "ptxpack_function_info": ptxpack.library._FunctionInfo}


def layouts():
    """Yields (C expression, the module's value for it)."""
    for name, structure in STRUCTURES.items():
        if structure is not ptxpack.library._Options:  # it may end early, where its size says
            yield "sizeof(%s)" % name, ctypes.sizeof(structure)
        for field, _ in structure._fields_:
            yield "offsetof(%s, %s)" % (name, field), getattr(structure, field).offset
            yield "sizeof(((%s *)0)->%s)" % (name, field), getattr(structure, field).size


def print_c():
    print("#include <stddef.h>\n#include <stdio.h>\n#include <ptxpack.h>\nint main(void)\n{")
    for expression, _ in layouts():
        print('    printf("%%zu\\n", %s);' % expression)
    print("}")


class Bytes(unittest.TestCase):
    """k and v of e4m3 and int8 with q of 16 bits."""

    def refused(self, pattern, *arrays, **options):
        with self.assertRaisesRegex(ptxpack.ArgumentError, pattern):
            ptxpack.attention(*arrays, **options)

    def test_values(self):
        """With descales of all shapes, also expanded."""
        shape, keys, heads = (1, 9, 2, 32), (1, 21, 2, 32), (1, 2)
        q = Problem("f16", shape, keys)
        for kind, form, more in (("e4m3", Lender, {}), ("s8", Interface, {}), ("u8", Interface, {"kv_dtype": "e4m3"})):
            codes = [max(-128, min(127, round(40 * x))) if kind == "s8" else x for x in q.inputs[1]], [
                max(-128, min(127, round(40 * x))) if kind == "s8" else x for x in q.inputs[2]]
            unit = 0.025 if kind == "s8" else 1.0
            k, v = (form(kind, keys, values) for values in codes)
            q.inputs[1:] = k.values(), v.values()
            for of, steps in ((heads, None), (heads, (0, 0)), (heads, (0, 1)), ((2,), None), ((1,), None)):
                scales = [Interface("f32", of, [factor * unit] * math.prod(of), steps) for factor in (2.0, 3.0)]
                o = ptxpack.attention(q.arrays[0], k, v, k_descale=scales[0], v_descale=scales[1], **more)
                self.assertEqual(o.dtype, "f16")
                q.expect(self, values_of(o), descales=(1.0, 2.0 * unit, 3.0 * unit), unit=2.0**-9)
            q = Problem("f16", shape, keys)

    def test_append(self):
        """A new row becomes codes of the cache, and a part of the attention."""
        keys, scale = (1, 21, 2, 32), 1 / 32
        problem = Problem("f16", (1, 1, 2, 32), keys)
        codes = [[max(-128, min(127, round(x / scale))) for x in values] for values in problem.inputs[1:]]
        caches = [Interface("s8", keys, values) for values in codes]
        new = [Interface("f16", (1, 1, 2, 32), values[:64]) for values in problem.inputs[1:]]
        descale = Interface("f32", (1,), [scale])
        o = flash_attn_with_kvcache(problem.arrays[0], *caches, *new, cache_seqlens=20, k_descale=descale, v_descale=descale)
        for cache, values, row in zip(caches, codes, new):
            want = values[:20 * 64] + [max(-128, min(127, round(x / scale))) for x in row.values()]
            driver("cuCtxSynchronize")
            self.assertEqual(cache.values(), want)
        problem.inputs[1:] = [cache.values() for cache in caches]
        problem.expect(self, values_of(o), descales=(1.0, scale, scale), unit=2.0**-9)

    def test_append_alone(self):
        """The codes nearest to x / descale, with descales of all shapes; all other rows stay."""
        rng = random.Random(5)
        new = [Interface("f16", (1, 2, 2, 32), [rng.gauss(0, 1) for _ in range(128)]) for _ in "kv"]
        for kind, form, more in (("s8", Interface, {}), ("e4m3", Lender, {}), ("u8", Interface, {"kv_dtype": "e4m3"})):
            for of, factors in (((1,), [1 / 32]), ((2,), [1 / 32, 1 / 64]), ((1, 2), [1 / 16, 1 / 32])):
                caches, descale = [form(kind, (1, 9, 2, 32)) for _ in "kv"], Interface("f32", of, factors)
                ptxpack.attention_append(*new, *caches, 7, k_descale=descale, v_descale=descale, **more)
                driver("cuCtxSynchronize")
                for cache, rows in zip(caches, new):
                    numbers = [x / factors[at // 32 % 2 % len(factors)] for at, x in enumerate(rows.values())]
                    codes = Interface(kind, (128,), [max(-128, min(127, round(x))) for x in numbers] if kind == "s8" else numbers)
                    self.assertEqual(cache.values(), [0] * 320 + codes.values() + [0] * 128)

    def test_refusals(self):
        keys, heads = (1, 21, 2, 32), (1, 2)
        arrays, k = Problem("f16", (1, 9, 2, 32), keys).arrays, Interface("s8", keys)
        self.refused("k and v are of types s8 and f16", arrays[0], k, arrays[2])
        self.refused("must say what u8 stands for", arrays[0], *[Interface("u8", keys)] * 2)
        self.refused("kv_dtype is 'f16', and may be", *arrays, kv_dtype="f16")
        self.refused("kv_dtype is 'int8', but q", *arrays, kv_dtype="int8")
        self.refused("q_descale is for q of e4m3", arrays[0], k, k, q_descale=Interface("f32", heads))
        self.refused("k_descale must be f32", arrays[0], k, k, k_descale=Interface("f32", (3,)))
        self.refused("must be as many", arrays[0], k, k, k_descale=Interface("f32", (2,)), v_descale=Interface("f32", (1,)))
        new, one = [Interface("f16", (1, 2, 2, 32))] * 2, Interface("f32", (1,))
        for pattern, caches, options in (
                ("k_descale and v_descale are for k and v of e4m3 or int8, and k is f16", arrays[1:], {"k_descale": one}),
                ("k_descale must be f32", [Interface("s8", keys) for _ in "kv"], {"k_descale": Interface("f32", (3,))}),
                ("must be as many", [Interface("s8", keys) for _ in "kv"], {"k_descale": one, "v_descale": Interface("f32", (2,))}),
                ("k and v are of types s8 and f16", [Interface("s8", keys), arrays[2]], {})):
            with self.assertRaisesRegex(ptxpack.ArgumentError, pattern):
                ptxpack.attention_append(*new, *caches, 7, **options)


class Structures(unittest.TestCase):
    def test_layouts(self):
        """The structures are laid out as the C compiler does."""
        with open(os.environ["PTXPACK_LAYOUTS"], encoding="ascii") as file:
            theirs = [int(line) for line in file]
        mine = list(layouts())
        self.assertEqual(len(mine), len(theirs))
        self.assertEqual(mine, [(expression, number) for (expression, _), number in zip(mine, theirs)])
