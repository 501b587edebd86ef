"""module.py - tools/python/ptxpack on the emulated driver, with nothing but Python's own library:
arrays of memory that the driver gave, shown by __cuda_array_interface__ and by DLPack capsules that are made
here, results held to a reference in Python's doubles, and refusals.  module.sh runs it, once for each
of several GPUs.

Usage: module.py, with $PTXPACK_LAYOUTS naming what the program printed whose C text
module.py --print-c prints."""
import ctypes
import gc
import itertools
import math
import os
import pathlib
import random
import struct
import subprocess
import sys
import threading
import types
import unittest
import weakref

import ptxpack
from arrays import (Array, Interface, Lender, Managed, ManagedVersioned, OldLender, Problem, SM,
                           capsule_get, capsule_name, compact, cuda, decode,
                           driver, lent, new_stream, pointer, python_call, read,
                           size_t, u64, values_of, watched)
from biases import Biases  # noqa: F401: run from here, too
from blocks import Blocks  # noqa: F401: run from here, too
from decoder import Norms, Samples  # noqa: F401: run from here, too
from devices import Devices as ParallelDevices  # noqa: F401: run from here, too
from experts import Experts, Quantised  # noqa: F401: run from here, too
from libraries import Bytes, Libraries, Structures, print_c  # noqa: F401: run from here, too
from matrices import Matrices, Vectors  # noqa: F401: run from here, too


# ---- tests -------------------------------------------------------------------------------------------------
class Attention(unittest.TestCase):
    def test_overlap(self):
        problem = Problem()
        for _ in range(2):  # the second one begins while the first one ends, as far as the device can
            o = ptxpack.attention(*problem.arrays, overlap=True, constant_kv=True)
            problem.expect(self, values_of(o))

    def test_values_with_columns_of_their_own(self):
        problem = Problem(shape_q=(1, 9, 2, 24), shape_kv=(1, 21, 1, 24))
        q, k, v = problem.arrays
        whole = values_of(ptxpack.attention(q, k, v, causal=True))
        columns = [value for at, value in enumerate(v.values()) if at % 24 < 16]
        o = ptxpack.attention(q, k, Interface("f16", (1, 21, 1, 16), columns), causal=True)
        self.assertEqual(o.shape, (1, 9, 2, 16))
        self.assertEqual(values_of(o), [value for at, value in enumerate(whole) if at % 24 < 16])

        class FirstColumns:
            __cuda_array_interface__ = dict(k.__cuda_array_interface__, shape=(1, 21, 1, 16), strides=(1008, 48, 48, 2))
        keys = [value for at, value in enumerate(k.values()) if at % 24 < 16]
        want = ptxpack.attention(q, k, Interface("f16", (1, 21, 1, 16), keys), return_lse=True)
        for got, right in zip(ptxpack.attention(q, k, FirstColumns(), return_lse=True), want):
            self.assertEqual(values_of(got), values_of(right))

    def test_sinks(self):
        problem, sinks = Problem(), [1.5, -math.inf]
        o, lse = ptxpack.attention(*problem.arrays, sinks=Interface("f32", (2,), sinks), return_lse=True)
        problem.expect(self, values_of(o), values_of(lse), sinks=sinks)
        for kind, shape in (("f16", (2,)), ("f32", (1,)), ("f32", (2, 1))):
            with self.assertRaisesRegex(ptxpack.ArgumentError, r"sinks must be contiguous f32 \(2,\)"):
                ptxpack.attention(*problem.arrays, sinks=Interface(kind, shape, [0] * math.prod(shape)))

    def test_alibi(self):
        problem, slopes = Problem(), [0.25, 0.0625]
        there = Interface("f32", (2,), slopes)
        o, lse = ptxpack.attention(*problem.arrays, alibi_slopes=there, softcap=3.0, return_lse=True)
        problem.expect(self, values_of(o), values_of(lse), slopes=slopes, softcap=3.0, unit=2.0**-9)
        o = ptxpack.attention(*problem.arrays, alibi_slopes=there, sinks=Interface("f32", (2,), [1, 2]))
        problem.expect(self, values_of(o), slopes=slopes, sinks=[1, 2])
        with self.assertRaisesRegex(ptxpack.ArgumentError, r"alibi_slopes must be contiguous f32 \(2,\)"):
            ptxpack.attention(*problem.arrays, alibi_slopes=Interface("f16", (2,), slopes))

    def test_hooks(self):
        problem, slopes = Problem(), [0.25, 0.0625]
        there = Interface("f32", (2,), slopes)
        text = (pathlib.Path(__file__).parents[2] / "tools/examples/hooks/alibi.ptx").read_text()
        o, lse = ptxpack.attention(*problem.arrays, causal=True, score_mod=text, aux=[there], return_lse=True)
        problem.expect(self, values_of(o), values_of(lse), visible=lambda i, j: j <= i + 12, slopes=slopes)
        (rows, heads, dim), lse = problem.shape_q[1:], values_of(lse)
        sums, logs = ptxpack.attention(*problem.arrays, causal=True, score_mod=text, aux=[there], return_lse=True, normalized=False)
        self.assertEqual(values_of(logs), lse)
        for at, (total, mean) in enumerate(zip(values_of(sums), values_of(o))):
            weight = math.exp(lse[at // dim % heads * rows + at // dim // heads])
            self.assertAlmostEqual(total, weight * mean, delta=0.004 * weight)
        with self.assertRaisesRegex(ptxpack.ArgumentError, "PTXPACK_SINKS is not taken with PTXPACK_UNNORMALIZED"):
            ptxpack.attention(*problem.arrays, sinks=there, normalized=False)
        none = ".macro MASK_MOD keep, r, b, h, q, kv, c, cf\n setp.lt.s32 \\keep, \\kv, 0;\n.endm\n"
        self.assertEqual(set(values_of(ptxpack.attention(*problem.arrays, mask_mod=none))), {0})
        with self.assertRaisesRegex(ptxpack.ArgumentError, "mask_mod, line 2: ret is not an instruction"):
            ptxpack.attention(*problem.arrays, mask_mod="\nret;\n")
        with self.assertRaisesRegex(ptxpack.ArgumentError, "aux has 1 arrays, and may have up to 8 with score_mod or mask_mod"):
            ptxpack.attention(*problem.arrays, aux=[there])
        with self.assertRaisesRegex(ptxpack.ArgumentError, "score_mod must be a text, with a macro SCORE_MOD"):
            ptxpack.attention(*problem.arrays, score_mod=b"")

    def test_interfaces(self):
        problem = Problem()
        for version, with_strides in itertools.product((2, 3), (False, True)):
            for array in problem.arrays:
                array.version, array.with_strides = version, with_strides
            o = ptxpack.attention(*problem.arrays)
            self.assertIsInstance(o, ptxpack.Tensor)
            self.assertEqual((o.shape, o.dtype, o.device), (problem.shape_q, "f16", 0))
            problem.expect(self, values_of(o))

    def test_dlpack(self):
        kinds = ("f16",) if SM < 80 else ("f16", "bf16")
        for form, kind, with_strides in itertools.product((Lender, OldLender), kinds, (False, True)):
            problem = Problem(kind, form=form, offset=64)
            for array in problem.arrays:
                array.with_strides = with_strides
            problem.expect(self, values_of(ptxpack.attention(*problem.arrays)))
            self.assertEqual(problem.arrays[2].asked_stream, 1)

    def give_all_back(self):
        driver("cuCtxSynchronize")
        ptxpack.attention(*Problem().arrays)  # a call gives back what earlier ones have read
        gc.collect()
        self.assertFalse(lent)

    def test_dlpack_is_given_back(self):
        self.give_all_back()  # those of the test before may still be lent
        happened = ptxpack.arrays._Event.happened
        ptxpack.arrays._Event.happened = lambda event: False
        try:
            o = ptxpack.attention(*Problem(form=Lender).arrays)
            gc.collect()
            self.assertEqual(len(lent), 3)  # the kernel may still read the inputs
        finally:
            ptxpack.arrays._Event.happened = happened
        self.give_all_back()
        del o

    @unittest.skipIf(SM < 80, "no bf16")
    def test_integers_that_stand_for_bf16(self):
        problem = Problem("u16")
        o = ptxpack.attention(*problem.arrays, dtype="bf16")
        self.assertEqual(o.dtype, "u16")
        problem.expect(self, values_of(o))
        out = Interface("bf16", problem.shape_q)
        self.assertIs(ptxpack.attention(*Problem("bf16").arrays, out=out), out)
        problem.expect(self, out.values())

    def test_masks(self):
        problem, (rows, keys) = Problem(), (9, 21)
        late = keys - rows
        for options, visible in (
                ({"causal": True}, lambda i, j: j <= i + late),
                ({"causal": True, "align": "top-left"}, lambda i, j: j <= i),
                ({"window": (3, 2)}, lambda i, j: i + late - 3 <= j <= i + late + 2),
                ({"window": 2}, lambda i, j: i + late - 2 <= j <= i + late + 2),
                ({"window": (None, 0)}, lambda i, j: j <= i + late),
                ({"window": (-1, -1)}, lambda i, j: True),
                ({"window": (2, None), "align": "top-left"}, lambda i, j: i - 2 <= j),
                ({"window": (4, 4), "causal": True}, lambda i, j: i + late - 4 <= j <= i + late),
                ({"causal": True, "attention_chunk": 5}, lambda i, j: (i + late) // 5 * 5 <= j <= i + late),
                ({"causal": True, "attention_chunk": 1, "softcap": 2.0}, lambda i, j: j == i + late),
                ({"causal": True, "attention_chunk": 2**31 - 1}, lambda i, j: j <= i + late),
                ({"window": (2**40, 1), "softcap": 2.0, "scale": 0.5}, lambda i, j: j <= i + late + 1)):
            with self.subTest(options):
                o, lse = ptxpack.attention(*problem.arrays, return_lse=True, **options)
                self.assertEqual((lse.shape, lse.dtype), ((1, 2, 9), "f32"))
                problem.expect(self, values_of(o), values_of(lse), visible=visible,
                               **{name: options[name] for name in ("softcap", "scale") if name in options})

    def test_a_row_that_sees_nothing(self):
        problem = Problem(shape_q=(1, 9, 1, 16), shape_kv=(1, 4, 1, 16))
        o, lse = ptxpack.attention(*problem.arrays, causal=True, return_lse=True)
        problem.expect(self, values_of(o), values_of(lse), visible=lambda i, j: j <= i - 5)

    def test_layouts_and_strides(self):
        shape_q, shape_kv = (2, 5, 4, 24), (2, 7, 2, 24)
        problem = Problem(shape_q=shape_q, shape_kv=shape_kv)
        want = values_of(ptxpack.attention(*problem.arrays))
        problem.expect(self, want)
        gaps = [Interface("f16", array.shape, values, [rows * heads * 40 + 80, heads * 40, 40, 1])
                for array, values in zip(problem.arrays, problem.inputs)
                for _, rows, heads, _ in [array.shape]]
        self.assertEqual(values_of(ptxpack.attention(*gaps)), want)
        turned = []  # [batch, head, sequence, dim] in the same memory
        for array in problem.arrays:
            view = Interface("f16", [array.shape[at] for at in (0, 2, 1, 3)], None,
                             [array.strides[at] for at in (0, 2, 1, 3)])
            view.address, view.other = array.address, array
            turned.append(view)
        o = ptxpack.attention(*turned, layout="bhsd")
        self.assertEqual((o.shape, o.strides), (turned[0].shape, turned[0].strides))
        got = dict(zip(itertools.product(*map(range, o.shape)), values_of(o)))
        self.assertEqual([got[b, h, s, d] for b, s, h, d in itertools.product(*map(range, shape_q))], want)

    def test_an_input_that_is_repeated(self):
        problem = Problem(shape_q=(2, 5, 2, 16), shape_kv=(1, 7, 1, 16))
        q, k, v = problem.arrays
        for array in (k, v):
            array.shape, array.strides = (2, 7, 2, 16), (0, 16, 0, 1)
        problem.inputs, problem.shape_kv = [array.values() for array in (q, k, v)], k.shape
        problem.expect(self, values_of(ptxpack.attention(q, k, v)))

    def test_given_results(self):
        problem = Problem()
        out, lse = Interface("f16", problem.shape_q), Interface("f32", (1, 2, 9))
        got = ptxpack.attention(*problem.arrays, out=out, lse=lse)
        self.assertTrue(got[0] is out and got[1] is lse)
        driver("cuCtxSynchronize")
        problem.expect(self, out.values(), lse.values())

    @unittest.skipIf(SM != 90, "fp8 is Hopper's")
    def test_fp8(self):
        for kind, dtype, form in (("u8", "e4m3", Interface), ("e4m3", None, Lender)):
            problem = Problem(kind, (1, 9, 2, 32), (1, 21, 2, 32), form)
            factors = (0.5, 2.0, 3.0)
            descales = [Interface("f32", (1, 2), [factor] * 2) for factor in factors]
            o = ptxpack.attention(*problem.arrays, dtype=dtype,
                                  **dict(zip(("q_descale", "k_descale", "v_descale"), descales)))
            self.assertEqual(o.dtype, "bf16")
            problem.expect(self, values_of(o), descales=factors, unit=2.0**-4)

    def test_plans_and_workspaces_are_kept(self):
        problem = Problem("f16", (1, 64, 2, 64), (1, 64, 2, 64))
        first, second = new_stream(), new_stream()
        plans = ptxpack.device._device(0).attention_plan
        for stream in (first, second, first):
            problem.expect(self, values_of(ptxpack.attention(*problem.arrays, stream=stream)))
            before = plans.cache_info().misses
        self.assertEqual(plans.cache_info().misses, before)
        plan = self.plan_of(problem)
        if SM == 90:
            self.assertGreater(plan.workspace_bytes, 0)
            self.assertEqual(len({plan.workspaces[first], plan.workspaces[second]}), 2)

    @staticmethod
    def plan_of(problem):
        """The plan of a compact problem without a mask, from the cache."""
        (batch, rows, heads, dim), (_, keys, heads_kv, _) = problem.shape_q, problem.shape_kv
        strides = tuple(compact(shape)[:3] if shape[0] != 1 else (dim,) + compact(shape)[1:3]
                        for shape in (problem.shape_q, problem.shape_kv, problem.shape_kv, problem.shape_q))
        sizes = (batch, rows, keys, heads, heads_kv, dim)
        return ptxpack.device._device(0).attention_plan(1, sizes, 0.0, 0, 0, 0, 0.0, strides)

    def test_capture(self):
        problem = Problem("f16", (1, 64, 2, 64), (1, 64, 2, 64))
        stream, graph, program = new_stream(), pointer(), pointer()
        before = len(self.plan_of(problem).workspaces)
        out = Interface("f16", problem.shape_q)
        driver("cuStreamBeginCapture_v2", pointer(stream), 0)
        with watched() as calls:
            ptxpack.attention(*problem.arrays, out=out, stream=stream)
        driver("cuStreamEndCapture", pointer(stream), ctypes.byref(graph))
        relaxed = False
        for name, *_ in calls:  # calls that a capture forbids are made in its relaxed mode
            relaxed ^= name == "cuThreadExchangeStreamCaptureMode"
            self.assertTrue(relaxed or not name.startswith(("cuMem", "cuStream", "cuEvent")), name)
        self.assertFalse(relaxed)
        self.assertTrue(all(map(math.isnan, out.values())))
        driver("cuGraphInstantiateWithFlags", ctypes.byref(program), graph, u64(0))
        for _ in range(2):
            driver("cuGraphLaunch", program, pointer(stream))
            driver("cuStreamSynchronize", pointer(stream))
            problem.expect(self, out.values())
        self.assertEqual(len(self.plan_of(problem).workspaces), before)

    def test_threads(self):
        problems = [Problem(shape_q=(1, 3 + n % 3, 2, 16), seed=n) for n in range(6)]
        results, failures = [None] * len(problems), []

        def work(n):
            try:
                for _ in range(4):
                    results[n] = ptxpack.attention(*problems[n].arrays, causal=True)
            except Exception as error:  # reported below
                failures.append(error)
        threads = [threading.Thread(target=work, args=(n,)) for n in range(len(problems))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertFalse(failures)
        for problem, o in zip(problems, results):
            late = 21 - problem.shape_q[1]
            problem.expect(self, values_of(o), visible=lambda i, j: j <= i + late)


class Streams(unittest.TestCase):
    def setUp(self):
        ptxpack.attention(*Problem().arrays)  # plans and workspaces exist now
        watch = watched()
        self.calls = watch.__enter__()
        self.addCleanup(watch.__exit__, None, None, None)

    def waits(self):
        """(stream that waits, stream that is waited for)"""
        recorded, waits = {}, []
        for name, first, *others in self.calls:
            if name == "cuEventRecord":
                recorded[first] = others[0] or 1
            elif name == "cuStreamWaitEvent":
                waits.append((first, recorded[others[0]]))
        return waits

    def test_a_producer_with_a_stream(self):
        producer, mine, problem = new_stream(), new_stream(), Problem()
        problem.arrays[1].stream = producer
        problem.expect(self, values_of(ptxpack.attention(*problem.arrays, stream=mine)))
        self.assertEqual(self.waits(), [(mine, producer)])

    def test_the_same_stream(self):
        for given, shown in ((None, 1), (0, 1), (1, 1)):
            self.calls.clear()
            problem = Problem()
            for array in problem.arrays:
                array.stream = shown
            ptxpack.attention(*problem.arrays, stream=given)
            self.assertEqual(self.waits(), [])

    def test_stream_objects(self):
        stream = new_stream()
        for thing in (stream, types.SimpleNamespace(cuda_stream=stream), types.SimpleNamespace(ptr=stream),
                      types.SimpleNamespace(__cuda_stream__=lambda: (0, stream)),
                      types.SimpleNamespace(handle=pointer(stream))):
            problem = Problem(form=Lender)
            o = ptxpack.attention(*problem.arrays, stream=thing)
            self.assertEqual(problem.arrays[0].asked_stream, stream)
            self.assertEqual(o.__cuda_array_interface__["stream"], stream)
        with self.assertRaisesRegex(TypeError, "stream: a str"):
            ptxpack.attention(*problem.arrays, stream="0")

    def test_the_host_waits(self):
        o = ptxpack.attention(*Problem().arrays, stream=new_stream())
        self.calls.clear()
        o.to_host()
        names = [name for name, *_ in self.calls]
        self.assertLess(names.index("cuEventSynchronize"), names.index("cuMemcpyDtoH_v2"))

    def test_a_consumer_waits(self):
        mine, theirs = new_stream(), new_stream()
        o = ptxpack.attention(*Problem().arrays, stream=mine)
        self.calls.clear()
        recorded = o._done.event.value
        for stream, waits in ((mine, []), (-1, []), (theirs, [theirs]), (None, [1])):
            self.calls.clear()
            o.__dlpack__(stream=stream)
            self.assertEqual([call[1] for call in self.calls if call[0] == "cuStreamWaitEvent"], waits)
            self.assertTrue(all(call[2] == recorded for call in self.calls if call[0] == "cuStreamWaitEvent"))


class Results(unittest.TestCase):
    def test_capsules(self):
        tensor = ptxpack.attention(*Problem().arrays)
        for version, name in ((None, b"dltensor"), ((0, 8), b"dltensor"), ((1, 0), b"dltensor_versioned")):
            capsule = tensor.__dlpack__(max_version=version)
            structure = ManagedVersioned if b"v" in name else Managed
            managed = structure.from_address(capsule_get(capsule, name))
            shown = managed.tensor
            self.assertEqual((shown.data, shown.device_type, shown.device_id, shown.ndim, shown.code,
                              shown.bits, shown.lanes, tuple(shown.shape[:4]), tuple(shown.strides[:4])),
                             (tensor.address, 2, 0, 4, 2, 16, 1, tensor.shape, compact(tensor.shape)))
            self.assertEqual(len(ptxpack.tensor._exports), 1)
            capsule_name(capsule, b"used_dltensor")
            del capsule  # the tensor took it over: only the deleter ends the loan
            self.assertEqual(len(ptxpack.tensor._exports), 1)
            managed.deleter(ctypes.addressof(managed))
            self.assertEqual(len(ptxpack.tensor._exports), 0)
        for _ in range(2):
            tensor.__dlpack__()  # nobody takes the capsule over
            self.assertEqual(len(ptxpack.tensor._exports), 1)
        kept = tensor.__dlpack__()
        ptxpack.from_host(bytes(16), (8,))
        self.assertEqual(len(ptxpack.tensor._exports), 1)  # that of `kept`
        del kept
        ptxpack.from_host(bytes(16), (8,))
        self.assertEqual(len(ptxpack.tensor._exports), 0)
        with self.assertRaises(BufferError):
            tensor.__dlpack__(copy=True)

    def test_a_consumer_refuses(self):
        """A library's error is passed on, although it drops the capsule while the error is set."""
        tensor = ptxpack.from_host(bytes(16), (8,))
        destructor = python_call("PyCapsule_GetDestructor", pointer, ctypes.py_object)
        self.assertIsNone(destructor(tensor.__dlpack__()))
        try:
            import numpy
        except ImportError:
            return
        with self.assertRaisesRegex((BufferError, RuntimeError), "[Dd]evice"):  # which one depends on the version
            numpy.from_dlpack(tensor)

    def test_bytes(self):
        data = struct.pack("<24e", *range(24))
        with watched() as calls:
            tensor = ptxpack.from_host(data, (2, 12), "f16", device=1)
        self.assertIn(("cuStreamSynchronize", 1), calls)
        self.assertEqual((tensor.device, tensor.shape, tensor.strides), (1, (2, 12), (12, 1)))
        self.assertEqual(tensor.to_host(), data)
        double = ptxpack.vector_add(tensor, tensor)
        self.assertEqual(struct.unpack("<24e", double.to_host()), tuple(range(0, 48, 2)))
        with self.assertRaisesRegex(ptxpack.ArgumentError, "data has 48 bytes, and .2, 11. of f16 have 44"):
            ptxpack.from_host(data, (2, 11))
        with self.assertRaisesRegex(ptxpack.ArgumentError, "dtype is 'f63'"):
            ptxpack.from_host(data, (2, 12), "f63")

    def test_results_are_inputs(self):
        problem = Problem()
        o = ptxpack.attention(*problem.arrays)
        again = ptxpack.attention(o, *problem.arrays[1:])
        problem.inputs[0] = values_of(o)
        problem.expect(self, values_of(again))

    def test_memory_is_freed(self):
        free, total = size_t(), size_t()
        q = Problem(shape_q=(1, 512, 2, 64), shape_kv=(1, 16, 2, 64))

        def left():
            gc.collect()
            driver("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
            return free.value
        for _ in range(2):
            ptxpack.attention(*q.arrays)
        before = left()
        for _ in range(4):
            ptxpack.attention(*q.arrays)
        driver("cuCtxSynchronize")
        self.assertEqual(left(), before)

    def test_plans_are_freed(self):
        ptxpack.attention(*Problem("f16", (1, 64, 2, 64), (1, 64, 2, 64)).arrays)
        driver("cuCtxSynchronize")
        plan = Attention.plan_of(Problem("f16", (1, 64, 2, 64), (1, 64, 2, 64)))
        workspaces, ended = list(plan.workspaces.values()), weakref.ref(plan)
        del plan
        ptxpack.device._device(0).attention_plan.cache_clear()
        gc.collect()
        self.assertIsNone(ended())
        self.assertEqual(len(workspaces) > 0, SM == 90)
        for address in workspaces:
            self.assertNotEqual(cuda.cuPointerGetAttribute(ctypes.byref(u64()), 2, u64(address)), 0)
        self.test_results_are_inputs()


class Devices(unittest.TestCase):
    def test_info(self):
        found = ptxpack.info()
        self.assertEqual(found["ordinal"], 0)
        self.assertTrue(found["target"].startswith("sm_%d" % SM))
        self.assertEqual(ptxpack.info(1)["ordinal"], 1)
        with self.assertRaises(ptxpack.ArgumentError):
            ptxpack.info(7)

    def test_the_device_of_the_arrays(self):
        here, there = Problem(seed=3), Problem(seed=4, device=1)
        for form in (Interface, Lender):
            there = Problem(seed=4, device=1, form=form)
            o = ptxpack.attention(*there.arrays)
            self.assertEqual(o.device, 1)
            there.expect(self, values_of(o))
        with self.assertRaisesRegex(ptxpack.ArgumentError, "k is on device 1, q on device 0"):
            ptxpack.attention(here.arrays[0], there.arrays[1], there.arrays[2])

    def test_contexts_stay_as_they_are(self):
        problem, found, own = Problem(), pointer(), pointer()

        def current():
            driver("cuCtxGetCurrent", ctypes.byref(found))
            return found.value
        before = current()
        ptxpack.attention(*problem.arrays)
        self.assertEqual(current(), before)
        driver("cuCtxCreate_v2", ctypes.byref(own), 0, 0)
        try:
            o = ptxpack.attention(*problem.arrays)
            self.assertEqual(current(), own.value)
            self.assertEqual(o._owner.context, own.value)
            driver("cuCtxSynchronize")
            problem.expect(self, values_of(o))
        finally:
            driver("cuCtxPopCurrent_v2", ctypes.byref(pointer()))
        self.assertEqual(current(), before)
        happened, ptxpack.arrays._Event.happened = ptxpack.arrays._Event.happened, lambda event: False
        driver("cuCtxPushCurrent_v2", own)
        try:
            o = ptxpack.attention(*problem.arrays)  # its end is only seen at the end of the context
        finally:
            ptxpack.arrays._Event.happened = happened
            driver("cuCtxDestroy_v2", own)
        problem.expect(self, values_of(ptxpack.attention(*problem.arrays)))
        del o
        for _ in range(4):  # a context may have the address of an earlier one
            driver("cuCtxCreate_v2", ctypes.byref(own), 0, 0)
            o = ptxpack.attention(*problem.arrays)
            driver("cuCtxSynchronize")
            problem.expect(self, values_of(o))
            driver("cuCtxDestroy_v2", own)
        for _ in range(2):
            values_of(ptxpack.attention(*problem.arrays))
        self.assertLessEqual(len(ptxpack.operations._held), 1)


class Refusals(unittest.TestCase):
    def refused(self, kind, pattern, *arrays, **options):
        findings = cuda.ptxpack_emu_executed
        findings.restype = u64
        before = findings()
        with self.assertRaisesRegex(kind, pattern) as caught:
            ptxpack.attention(*arrays, **options)
        self.assertNotIn("\n", str(caught.exception))
        self.assertEqual(findings(), before)
        return caught.exception

    def test_what_is_no_array(self):
        q, k, v = Problem().arrays
        self.refused(TypeError, "k: a list has neither __dlpack__ nor", q, [1.0], v)
        self.refused(TypeError, "q: a NoneType", None, k, v)
        host = Lender("f16", (1, 9, 2, 16))
        host.place = 1
        self.refused(TypeError, "q is not in the memory of a CUDA device", host, k, v)
        newer = Lender("f16", (1, 9, 2, 16))
        newer.major = 2
        self.refused(TypeError, "q: DLPack 2.1 is not known", newer, k, v)
        lanes = Lender("f16", (1, 9, 2, 16))
        lanes.lanes = 2
        self.refused(ptxpack.ArgumentError, "q is of type DLPack type .2, 16, 2.", lanes, k, v)
        gc.collect()
        self.assertFalse([lender for lender, *_ in lent.values() if lender in (host, newer, lanes)])

    def test_shapes(self):
        q, k, v = Problem().arrays

        def other(*shape, kind="f16", **more):
            return Interface(kind, shape, **more)
        wrong = ptxpack.ArgumentError
        self.refused(wrong, "q has 3 dimensions", other(9, 2, 16), k, v)
        self.refused(wrong, "k is .* and v is .*: they must have the same shape, the last dimension aside", q, k, other(1, 20, 1, 16))
        self.refused(wrong, "batch and last dimension must agree", other(2, 9, 2, 16), k, v)
        self.refused(wrong, "batch and last dimension must agree", other(1, 9, 2, 24), k, v)
        self.refused(wrong, "heads_q", other(1, 9, 3, 16), other(1, 21, 2, 16), other(1, 21, 2, 16))
        self.refused(wrong, "head_dim", other(1, 9, 2, 12), other(1, 21, 1, 12), other(1, 21, 1, 12))
        self.refused(wrong, "seqlen_kv", q, other(1, 0, 1, 16), other(1, 0, 1, 16))
        self.refused(wrong, "last dimension has a stride of 2",
                     other(1, 9, 2, 16, strides=(640, 64, 32, 2)), k, v)
        pairs = [other(2, 21, 2, 16) for _ in "kv"]
        self.refused(wrong, "q is one row repeated", other(2, 9, 2, 16, strides=(0, 0, 0, 1)), *pairs)
        self.refused(wrong, "q.* 16 ?bytes|align", other(1, 9, 2, 16, offset=2), k, v)
        self.refused(wrong, "of one type", q, k, other(1, 21, 1, 16, kind="bf16"))
        self.refused(wrong, "q is of type f64", other(1, 9, 2, 16, kind="f64"), k, v)
        self.refused(wrong, "dtype= must say", other(1, 9, 2, 16, kind="u16"), k, v)
        self.refused(wrong, "q is of type f16, dtype says bf16", q, k, v, dtype="bf16")
        self.refused(wrong, "dtype is 'int8'", q, k, v, dtype="int8")

    def test_options(self):
        arrays, wrong = Problem().arrays, ptxpack.ArgumentError
        self.refused(wrong, "scale is 0", *arrays, scale=0)
        self.refused(wrong, "softcap", *arrays, softcap=-1.0)
        self.refused(wrong, "layout is 'sbhd'", *arrays, layout="sbhd")
        self.refused(wrong, "align is 'left'", *arrays, align="left")
        for window in ((1, 2, 3), "ab", 1.5, (1.5, 2)):
            self.refused(wrong, "window is", *arrays, window=window)
        for chunk in (-1, 2**31, 1.5, "ab"):
            self.refused(wrong, "attention_chunk is", *arrays, causal=True, attention_chunk=chunk)
        for other in ({}, {"causal": True, "window": 3}, {"causal": True, "align": "top-left"}):
            self.refused(ptxpack.Unsupported, "attention_chunk needs causal=True", *arrays, attention_chunk=8, **other)
        self.refused(wrong, "out is f16 .*, and must be", *arrays, out=Interface("f16", (1, 9, 2, 8)))
        self.refused(wrong, "out is f32", *arrays, out=Interface("f32", (1, 9, 2, 16)))
        for form in (Interface, Lender):
            self.refused(wrong, "out may not be written", *arrays,
                         out=form("f16", (1, 9, 2, 16), writable=False))
        self.refused(wrong, "lse is f32", *arrays, lse=Interface("f32", (1, 9, 2)))
        self.refused(wrong, "lse must be contiguous", *arrays,
                     lse=Interface("f32", (1, 2, 9), strides=(36, 18, 2)))
        for kind, shape in (("f32", (2, 1)), ("f16", (1, 1))):
            self.refused(wrong, "q_descale must be contiguous f32", *arrays, q_descale=Interface(kind, shape))
        self.assertEqual(self.refused(wrong, "overlap", *arrays, out=arrays[0]).status, "PTXPACK_E_ARG")

    @unittest.skipIf(SM == 90, "Hopper has fp8")
    def test_what_the_device_lacks(self):
        problem = Problem("e4m3", (1, 9, 1, 32), (1, 21, 1, 32), Lender)
        error = self.refused(ptxpack.Unsupported, "fp8|e4m3|sm_90", *problem.arrays)
        self.assertEqual(error.status, "PTXPACK_E_UNSUPPORTED")
        self.assertIsInstance(error, NotImplementedError)

    def test_no_library_and_no_driver(self):
        for variable, want in (("PTXPACK_LIBRARY", "/no/such.so.*PTXPACK_LIBRARY may name"),
                               ("PTXPACK_DRIVER", "/no/such.so")):
            run = subprocess.run([sys.executable, "-m", "ptxpack"], capture_output=True, text=True,
                                 env={**os.environ, variable: "/no/such.so"}, check=False)
            self.assertEqual((run.returncode, run.stdout), (1, ""))
            self.assertRegex(run.stderr, want)
            self.assertEqual(run.stderr.count("\n"), 1)

    def test_the_emulated_driver_by_the_environment(self):
        run = subprocess.run([sys.executable, "-m", "ptxpack"], capture_output=True, text=True, check=False,
                             env={**os.environ, "PTXPACK_DRIVER": "/no/such.so", "PTXPACK_PTXJIT": "none",
                                  "PTXPACK_DEVICE": "emu"})
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertRegex(run.stdout, "emulated")


if __name__ == "__main__":
    if sys.argv[1:] == ["--print-c"]:
        print_c()
        sys.exit()
    driver("cuInit", 0)
    first = pointer()
    driver("cuDevicePrimaryCtxRetain", ctypes.byref(first), 0)
    driver("cuCtxPushCurrent_v2", first)
    unittest.main(argv=sys.argv[:1], verbosity=1)
