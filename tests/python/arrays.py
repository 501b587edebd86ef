"""arrays.py - arrays in memory of the driver, as __cuda_array_interface__ and DLPack show them, and
references in Python's doubles: what the tests of the Python module share."""
import contextlib
import ctypes
import functools
import itertools
import math
import os
import random
import struct

import ptxpack

SM = int(os.environ["PTXPACK_EMU_SM"])
cuda = ctypes.CDLL(os.environ["PTXPACK_DRIVER"])
u64, size_t, pointer = ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p


def driver(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    if result:
        raise AssertionError("%s: %d" % (name, result))


def new_stream():
    stream = pointer()
    driver("cuStreamCreate", ctypes.byref(stream), 1)
    return stream.value


# ---- element types -----------------------------------------------------------------------------------------
def e4m3_value(code):
    sign, exponent, fraction = -1 if code & 128 else 1, code >> 3 & 15, code & 7
    if code & 127 == 127:
        return math.nan
    return sign * (fraction * 2.0**-9 if exponent == 0 else (8 + fraction) * 2.0**(exponent - 10))


E4M3 = [e4m3_value(code) for code in range(256)]


@functools.lru_cache(maxsize=4096)
def nearest_e4m3(size):
    return min(range(127), key=lambda code: (abs(E4M3[code] - size), code & 1))


def bf16_bits(value):
    bits, = struct.unpack("<I", struct.pack("<f", value))
    return bits >> 16 if value != value else (bits + 0x7fff + (bits >> 16 & 1)) >> 16


def bf16_value(bits):
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]


def encode(kind, values):
    if kind in ("bf16", "u16"):
        return struct.pack("<%dH" % len(values), *map(bf16_bits, values))
    if kind in ("e4m3", "u8"):
        nearest = [nearest_e4m3(abs(x)) for x in values]
        return bytes(code | (128 if x < 0 else 0) for code, x in zip(nearest, values))
    return struct.pack("<%d%s" % (len(values), {"f16": "e", "f32": "f", "f64": "d", "s32": "i", "s8": "b"}[kind]), *values)


def decode(kind, data):
    if kind in ("bf16", "u16"):
        return [bf16_value(bits) for bits in struct.unpack("<%dH" % (len(data) // 2), data)]
    if kind in ("e4m3", "u8"):
        return [E4M3[code] for code in data]
    return list(struct.unpack("<%d%s" % (len(data) // ITEM[kind], {"f16": "e", "f32": "f", "s8": "b", "s32": "i"}[kind]), data))


ITEM = {"f16": 2, "bf16": 2, "u16": 2, "e4m3": 1, "u8": 1, "s8": 1, "f32": 4, "f64": 8, "s32": 4}
TYPESTR = {"f16": "<f2", "bf16": "|V2", "u16": "<u2", "e4m3": "|V1", "u8": "|u1", "f32": "<f4", "f64": "<f8",
           "s32": "<i4", "s8": "|i1"}
DL_TYPE = {"f16": (2, 16), "bf16": (4, 16), "u16": (1, 16), "e4m3": (10, 8), "u8": (1, 8), "f32": (2, 32),
           "f64": (2, 64), "s32": (0, 32), "s8": (0, 8)}
UNIT = {"f16": 2.0**-11, "bf16": 2.0**-8, "u16": 2.0**-8, "e4m3": 2.0**-8, "u8": 2.0**-8}  # for a result


# ---- arrays ------------------------------------------------------------------------------------------------
class Array:
    """An array in memory of the driver, with shape and strides; `live` counts such arrays."""
    live = 0

    def __init__(self, kind, shape, values=None, strides=None, device=0, offset=0, writable=True):
        self.kind, self.shape, self.device = kind, tuple(shape), device
        self.offset, self.writable = offset, writable
        self.strides = tuple(strides or compact(shape))
        self.count = max(1, 1 + sum((extent - 1) * step for extent, step in zip(self.shape, self.strides)))
        self.base, context = u64(), pointer()
        driver("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        driver("cuCtxPushCurrent_v2", context)
        driver("cuMemAlloc_v2", ctypes.byref(self.base), size_t(offset + self.count * ITEM[kind]))
        self.address = self.base.value + offset
        blank = [math.nan if kind in ("f16", "bf16", "f32") else 0 if kind in ("s32", "s8") else 0.0] * self.count  # in gaps
        for place, value in zip(self.places(), values if values is not None else []):
            blank[place] = value
        self.write(encode(kind, blank))
        driver("cuCtxPopCurrent_v2", ctypes.byref(pointer()))
        Array.live += 1

    def places(self):
        for index in itertools.product(*map(range, self.shape)):
            yield sum(i * step for i, step in zip(index, self.strides))

    def write(self, data):
        driver("cuMemcpyHtoD_v2", u64(self.address), data, size_t(len(data)))

    def values(self):
        flat = decode(self.kind, read(self.address, self.count * ITEM[self.kind]))
        return [flat[place] for place in self.places()]

    def __del__(self):
        cuda.cuMemFree_v2(self.base)
        Array.live -= 1


class Interface(Array):
    """An array that has only __cuda_array_interface__."""
    version, stream, with_strides = 3, None, True

    @property
    def __cuda_array_interface__(self):
        item = ITEM[self.kind]
        found = {"version": self.version, "shape": self.shape, "typestr": TYPESTR[self.kind],
                 "data": (self.address, not self.writable)}
        if self.strides != compact(self.shape) or self.with_strides:
            found["strides"] = tuple(step * item for step in self.strides)
        if self.version >= 3:
            found["stream"] = self.stream
        return found


class DLTensor(ctypes.Structure):
    _fields_ = [("data", pointer), ("device_type", ctypes.c_int), ("device_id", ctypes.c_int),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", u64)]


DELETER = ctypes.CFUNCTYPE(None, pointer)


class Managed(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", pointer), ("deleter", DELETER)]


class ManagedVersioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", pointer),
                ("deleter", DELETER), ("flags", u64), ("tensor", DLTensor)]


def python_call(name, result, *arguments):
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


capsule_new = python_call("PyCapsule_New", ctypes.py_object, pointer, ctypes.c_char_p, pointer)
capsule_get = python_call("PyCapsule_GetPointer", pointer, ctypes.py_object, ctypes.c_char_p)
capsule_name = python_call("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
dying_is = python_call("PyCapsule_IsValid", ctypes.c_int, pointer, ctypes.c_char_p)
lent = {}  # address of a managed tensor -> what it needs


@DELETER
def give_back(managed):
    del lent[managed]


@DELETER
def capsule_ends(capsule):
    for name in (b"dltensor", b"dltensor_versioned"):
        if dying_is(capsule, name):
            get = python_call("PyCapsule_GetPointer", pointer, pointer, ctypes.c_char_p)
            give_back(get(capsule, name))


class Lender(Array):
    """An array that has only DLPack 1.0."""
    place, major, with_strides, lanes = 2, 1, True, 1

    def __dlpack_device__(self):
        return self.place, self.device

    def __dlpack__(self, *, stream=None, max_version=None):
        self.asked_stream, self.asked_version = stream, max_version
        managed = ManagedVersioned(major=self.major, minor=1, flags=0 if self.writable else 1)
        return self.lend(managed, b"dltensor_versioned")

    def lend(self, managed, name):
        sizes = (ctypes.c_int64 * len(self.shape))(*self.shape)
        steps = (ctypes.c_int64 * len(self.shape))(*self.strides)
        code, bits = DL_TYPE[self.kind]
        managed.tensor = DLTensor(self.base.value, self.place, self.device, len(self.shape), code, bits,
                                  self.lanes, sizes, steps if self.with_strides else None, self.offset)
        managed.deleter = give_back
        lent[ctypes.addressof(managed)] = (self, managed, sizes, steps)
        return capsule_new(ctypes.addressof(managed), name, ctypes.cast(capsule_ends, pointer))


class OldLender(Lender):
    """An array with DLPack before 1.0, which has no max_version."""

    def __dlpack__(self, *, stream=None):
        self.asked_stream = stream
        return self.lend(Managed(), b"dltensor")


def compact(shape):
    return tuple(math.prod(shape[i + 1:]) for i in range(len(shape)))


def read(address, count):
    data = ctypes.create_string_buffer(count)
    driver("cuMemcpyDtoH_v2", data, u64(address), size_t(count))
    return data.raw


def values_of(tensor):
    """The values of a ptxpack.Tensor, in the order of its indices."""
    context = pointer()
    driver("cuDevicePrimaryCtxRetain", ctypes.byref(context), tensor.device)
    driver("cuCtxPushCurrent_v2", context)
    driver("cuCtxSynchronize")
    count = 1 + sum((extent - 1) * step for extent, step in zip(tensor.shape, tensor.strides))
    flat = decode(tensor.dtype, read(tensor.address, count * ITEM[tensor.dtype]))
    driver("cuCtxPopCurrent_v2", ctypes.byref(pointer()))
    return [flat[sum(i * step for i, step in zip(index, tensor.strides))]
            for index in itertools.product(*map(range, tensor.shape))]


# ---- the reference -----------------------------------------------------------------------------------------
def attend(q, k, v, shape_q, shape_kv, visible=lambda i, j: True, softcap=0.0, scale=None,
           descales=(1, 1, 1), sinks=None, slopes=None):
    """Returns o and lse of lists of values, [batch][sequence][head][dim]."""
    (batch, rows, heads, dim), (_, keys, heads_kv, _) = shape_q, shape_kv
    scale = (scale or dim**-0.5) * descales[0] * descales[1]
    o, lse = [0.0] * len(q), [0.0] * (batch * heads * rows)
    for b, h, i in itertools.product(range(batch), range(heads), range(rows)):
        mine = ((b * rows + i) * heads + h) * dim
        seen = [j for j in range(keys) if visible(i, j)]
        theirs = [((b * keys + j) * heads_kv + h * heads_kv // heads) * dim for j in seen]
        scores = [scale * sum(q[mine + d] * k[at + d] for d in range(dim)) for at in theirs]
        if softcap:
            scores = [softcap * math.tanh(s / softcap) for s in scores]
        if slopes:
            scores = [s - slopes[h] * abs(i + keys - rows - j) for s, j in zip(scores, seen)]
        sink = -math.inf if sinks is None else sinks[h]
        top = max(scores + [sink])
        weights = [math.exp(s - top) for s in scores]
        total = sum(weights) + (math.exp(sink - top) if sink > -math.inf else 0)
        lse[(b * heads + h) * rows + i] = top + math.log(total) if scores else sink
        for d in range(dim) if scores else ():
            o[mine + d] = descales[2] * sum(w * v[at + d] for w, at in zip(weights, theirs)) / total
    return o, lse


class Problem:
    """Random q, k and v as arrays of a kind, and the right result."""

    def __init__(self, kind="f16", shape_q=(1, 9, 2, 16), shape_kv=(1, 21, 1, 16), form=Interface, seed=1,
                 **more):
        rng = random.Random(seed)
        self.kind, self.shape_q, self.shape_kv = kind, shape_q, shape_kv
        self.arrays = [form(kind, shape, [rng.gauss(0, 1) for _ in range(math.prod(shape))], **more)
                       for shape in (shape_q, shape_kv, shape_kv)]
        self.inputs = [array.values() for array in self.arrays]

    def expect(self, test, o, lse=None, unit=None, **options):
        want, want_lse = attend(*self.inputs, self.shape_q, self.shape_kv, **options)
        test.assertEqual(len(o), len(want))
        bound = 4 * (unit or UNIT[self.kind])
        for got, right in zip(o, want):
            test.assertLessEqual(abs(got - right), bound * (1 + abs(right)))
        for got, right in zip(lse or [], want_lse):
            test.assertTrue(got == right or abs(got - right) <= 2e-3 * (1 + abs(right)), (got, right))


@contextlib.contextmanager
def watched():
    """Records the module's calls of the driver, in order: (name, values of the arguments)."""
    calls, plain = [], ptxpack.device._Driver.call

    def call(of, name, *arguments):
        calls.append((name,) + tuple(getattr(argument, "value", None) for argument in arguments))
        return plain(of, name, *arguments)
    ptxpack.device._Driver.call = call
    try:
        yield calls
    finally:
        ptxpack.device._Driver.call = plain
