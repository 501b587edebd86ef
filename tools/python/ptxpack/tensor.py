"""tensor.py - Tensor: device memory for users of libraries whose arrays we cannot make, and copies from and to host memory, as
bytes and as NumPy arrays."""
from __future__ import annotations

import ctypes
import importlib
import math
import sys
from typing import TYPE_CHECKING, Any, Optional, Sequence

from .library import ArgumentError, LEGACY_STREAM
from .device import _Device, _device
from .arrays import (_CAPSULE, _CAPSULE_VERSIONED, _DLManaged, _DLManagedVersioned, _DLTensor, _DL_CODES, _DL_CUDA, _Event,
                     _ITEM_BYTES, _KINDS, _capsule_is, _capsule_new, _compact, _dense)

if TYPE_CHECKING:
    import numpy as np


# ---- capsules ----------------------------------------------------------------------------------------------
_exports: dict[int, Any] = {}  # address of a DLManagedTensor -> what it needs, and its capsule


def _forget(managed: Any, exports: dict[int, Any] = _exports) -> None:
    exports.pop(managed, None)


_end_export = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_forget)


_lasting: Any
for _lasting in (_end_export, _CAPSULE, _CAPSULE_VERSIONED):  # others use them to the very end
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_lasting))


def _end_refused() -> None:
    """Frees capsules that nobody took over, as their names show, and that only we still have.  A destructor of theirs
    cannot do it: a library that refuses a capsule drops it with an error set, and then no Python may run."""
    for address, export in list(_exports.items()):
        if sys.getrefcount(export[-1]) == 2 and any(_capsule_is(export[-1], name)
                                                    for name in (_CAPSULE, _CAPSULE_VERSIONED)):
            _exports.pop(address, None)


# ---- types of NumPy ----------------------------------------------------------------------------------------
_KIND_OF_NUMPY = {facts[3]: kind for kind, facts in _KINDS.items()}
_RAW_KINDS = {1: "u8", 2: "u16"}  # the bits of a type that NumPy may lack


def _numpy_type(kind: str) -> Any:
    """Returns the NumPy dtype of a kind, or None if ml_dtypes defines it and is not installed."""
    numpy, name = importlib.import_module("numpy"), _KINDS[kind][3]
    if kind not in ("bf16", "e4m3"):
        return numpy.dtype(name)
    try:
        return numpy.dtype(getattr(importlib.import_module("ml_dtypes"), name))
    except ImportError:
        return None


def _widened(bits: Any, kind: str) -> np.ndarray[Any, Any]:
    """Converts bits of bf16 or e4m3 to float32, which has all their numbers."""
    numpy = importlib.import_module("numpy")
    wide: np.ndarray[Any, Any]
    if kind == "bf16":
        wide = (bits.astype(numpy.uint32) << 16).view(numpy.float32)
        return wide
    codes = numpy.arange(128)
    exponents, fractions = codes >> 3, codes & 7
    values = numpy.where(exponents == 0, fractions * 2.0**-9, (8 + fractions) * 2.0**(exponents - 10.0))
    values[127] = numpy.nan
    wide = numpy.concatenate((values, -values)).astype(numpy.float32)[bits]
    return wide


def _rounded(array: Any) -> Any:
    """Rounds float32 to bits of bf16, to nearest even; NaN stays NaN."""
    numpy = importlib.import_module("numpy")
    bits = numpy.ascontiguousarray(array, numpy.float32).reshape(array.shape).view(numpy.uint32)
    nearest = (bits + 0x7fff + (bits >> 16 & 1)) >> 16
    return numpy.where(numpy.isnan(array), bits >> 16 | 0x40, nearest).astype(numpy.uint16)


def _blocks(array: Any) -> Any:
    """Quantises float32 to ggml's blocks of q8_0, 34 bytes for 32 elements of the last dimension, as ptxpack_set_elements does."""
    numpy = importlib.import_module("numpy")
    if array.ndim < 1 or array.shape[-1] % 32:
        raise ArgumentError("an array of shape %s has no whole blocks of 32 elements in its last dimension" % (array.shape,))
    values = numpy.ascontiguousarray(array, numpy.float32).reshape(-1, 32)
    with numpy.errstate(divide="ignore", invalid="ignore", over="ignore"):
        scale = numpy.abs(values).max(axis=1, keepdims=True) / numpy.float32(127)
        values = values * numpy.where(scale != 0, numpy.float32(1) / scale, numpy.float32(0))
    whole = numpy.trunc(values)
    whole += (numpy.abs(values - whole) >= 0.5) * numpy.sign(values)  # halves away from zero
    with numpy.errstate(over="ignore"):
        blocks = numpy.concatenate((scale.astype("<f2").view(numpy.uint8), whole.astype(numpy.int8).view(numpy.uint8)), axis=1)
    return blocks.reshape(*array.shape[:-1], array.shape[-1] // 32 * 34)


class Tensor:
    """Device memory with a shape: .shape, .strides (in elements), .dtype ("f16", "bf16", "e4m3", "f32", "f64", "bool",
    "u8" to "u64", "s8" to "s64"), .device (its ordinal), .address.  from_numpy(), from_host(), empty() and the operations
    make it.  Any library that takes DLPack or __cuda_array_interface__ takes it: cupy.from_dlpack(tensor).  numpy() and
    numpy.asarray(tensor) copy it to the host."""

    address: int = 0
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    device: int

    def __init__(self, device: _Device, shape: Sequence[int], dtype: str, stream: int = 0,
                 strides: Optional[Sequence[int]] = None) -> None:
        self._owner, self._stream = device, stream or LEGACY_STREAM
        self._done: Optional[_Event] = None
        self.shape, self.dtype, self.device = tuple(shape), dtype, device.ordinal
        self.strides = tuple(strides) if strides and _dense(shape, strides) else _compact(shape)
        _end_refused()
        self.address = device.allocate(max(self._size(), 1))

    def __del__(self) -> None:
        if self.address:
            if self._done is not None:
                self._done.wait()
            self._owner.free(self.address)

    def __repr__(self) -> str:
        return "ptxpack.Tensor(shape=%s, dtype=%s, device=%d)" % (self.shape, self.dtype, self.device)

    def _size(self) -> int:
        return math.prod(self.shape) * _ITEM_BYTES[self.dtype]

    def _used(self, stream: int, done: Optional[_Event]) -> None:
        """Remembers that work on `stream` uses the tensor until the event `done`."""
        self._stream, self._done = stream or LEGACY_STREAM, done

    def _precede(self, stream: Optional[int]) -> None:
        """What writes it is done before what follows on `stream`."""
        if self._done is not None and (stream or LEGACY_STREAM) != self._stream:
            self._done.precede(stream or LEGACY_STREAM)

    # ---- the memory of the host ----
    def _download(self, to: Any) -> None:
        if self._done is not None:
            self._done.wait()
        with self._owner.entered() as call:
            call("cuMemcpyDtoH_v2", to, ctypes.c_uint64(self.address), ctypes.c_size_t(self._size()))

    def _upload(self, data: Any) -> None:
        with self._owner.entered() as call:
            call("cuMemcpyHtoD_v2", ctypes.c_uint64(self.address), data, ctypes.c_size_t(self._size()))
            call("cuStreamSynchronize", ctypes.c_void_p(LEGACY_STREAM))  # other streams do not wait for its end

    def to_host(self) -> bytes:
        """Its bytes, in the order of memory, when the work that writes them is done."""
        data = ctypes.create_string_buffer(max(self._size(), 1))
        self._download(data)
        return data.raw[:self._size()]

    def numpy(self, dtype: Optional[str] = None) -> np.ndarray[Any, Any]:
        """Waits for the work that writes the tensor, and returns a copy as a NumPy array.

        dtype  None keeps the type; bf16 and e4m3 are those of the package ml_dtypes, and raise a TypeError without it.
               "f32" converts f16, bf16 and e4m3 to float32, which has all their numbers.
               "u16" and "u8" return the bits of a type of 2 bytes and of 1 byte
        """
        item = _ITEM_BYTES[self.dtype]
        raw = _RAW_KINDS.get(item)
        if dtype not in (None, self.dtype, raw, "f32" if self.dtype in ("f16", "bf16", "e4m3") else None):
            raise ArgumentError("a tensor of %s gives no array of %r" % (self.dtype, dtype))
        own = _numpy_type(self.dtype)
        if own is None and dtype in (None, self.dtype):
            raise TypeError('NumPy has no %s without the package ml_dtypes: install it, or call numpy("f32") or '
                            'numpy("%s")' % (self.dtype, raw))
        stored = _numpy_type(raw if raw is not None and (own is None or dtype == raw) else self.dtype)
        numpy = importlib.import_module("numpy")
        flat = numpy.empty(math.prod(self.shape), stored)
        self._download(ctypes.c_void_p(flat.ctypes.data))
        array: np.ndarray[Any, Any] = numpy.ndarray(self.shape, stored, flat, 0, [step * item for step in self.strides])
        if dtype == "f32":
            return _widened(array, self.dtype) if own is None else array.astype(numpy.float32)
        return array

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError("a ptxpack.Tensor is in the memory of a device: its array is a copy")
        if dtype is None:
            return self.numpy()
        array = self.numpy("f32" if _numpy_type(self.dtype) is None else None)
        return array.astype(dtype, copy=False)

    # ---- other libraries ----
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        item, _, typestr, _ = _KINDS[self.dtype]
        return {"version": 3, "shape": self.shape, "strides": tuple(step * item for step in self.strides),
                "typestr": typestr, "data": (self.address, False), "stream": self._stream}

    def __dlpack_device__(self) -> tuple[int, int]:
        return _DL_CUDA, self.device

    def __dlpack__(self, *, stream: Optional[int] = None, max_version: Optional[tuple[int, int]] = None,
                   dl_device: Any = None, copy: Optional[bool] = None) -> Any:
        if copy or dl_device not in (None, self.__dlpack_device__()):
            raise BufferError("ptxpack.Tensor gives its own memory, without a copy")
        _end_refused()
        if stream != -1:
            self._precede(stream)
        versioned = max_version is not None and max_version[0] >= 1
        managed = _DLManagedVersioned(major=1, minor=0) if versioned else _DLManaged()
        sizes = (ctypes.c_int64 * (2 * len(self.shape) or 1))(*self.shape, *self.strides)
        code, bits = _DL_CODES[self.dtype]
        steps = ctypes.byref(sizes, 8 * len(self.shape))
        managed.tensor = _DLTensor(self.address, _DL_CUDA, self.device, len(self.shape), code, bits, 1,
                                   ctypes.cast(sizes, ctypes.POINTER(ctypes.c_int64)),
                                   ctypes.cast(steps, ctypes.POINTER(ctypes.c_int64)), 0)
        managed.deleter = ctypes.cast(_end_export, ctypes.c_void_p)
        address = ctypes.addressof(managed)
        capsule = _capsule_new(address, _CAPSULE_VERSIONED if versioned else _CAPSULE, None)
        _exports[address] = (self, managed, sizes, capsule)
        return capsule


# ---- making them -------------------------------------------------------------------------------------------
def empty(shape: Sequence[int], dtype: str = "f16", device: int = 0) -> Tensor:
    """Makes a Tensor whose elements are undefined: write them before you read them."""
    if dtype not in _ITEM_BYTES:
        raise ArgumentError("dtype is %r, and may be %s" % (dtype, ", ".join(map(repr, _ITEM_BYTES))))
    if any(extent < 0 for extent in shape):
        raise ArgumentError("shape is %s, and no extent may be below 0" % (tuple(shape),))
    return Tensor(_device(device), shape, dtype)


def from_host(data: Any, shape: Sequence[int], dtype: str = "f16", device: int = 0) -> Tensor:
    """Makes a Tensor and copies bytes to it; `data` has the buffer protocol and no gaps."""
    tensor, view = empty(shape, dtype, device), memoryview(data).cast("B")
    if view.nbytes != tensor._size():
        raise ArgumentError("data has %d bytes, and %s of %s have %d" % (view.nbytes, tensor.shape, dtype,
                                                                         tensor._size()))
    tensor._upload(view.tobytes())
    return tensor


def from_numpy(array: Any, dtype: Optional[str] = None, device: int = 0) -> Tensor:
    """Makes a Tensor of the shape of a NumPy array, or of anything that numpy.asarray takes, and copies its elements in C order.

    dtype  None keeps the type, also bfloat16 and float8_e4m3fn of ml_dtypes.
           "bf16" and "f16" say what the bits of an array of uint16 mean, "e4m3" those of uint8.
           "bf16", "f16", "f32" and "f64" convert an array of float16, float32 or float64: they round to nearest even (float64
           to bf16 by way of float32)
           "q8_0" makes blocks of ggml of an array of float16, float32 or float64: the tensor is of "u8", with 34 bytes for 32
           elements of the last dimension
    """
    numpy = importlib.import_module("numpy")
    array = numpy.asarray(array)
    kind = _KIND_OF_NUMPY.get(array.dtype.name)
    if kind is None:
        raise TypeError("an array of %s has no counterpart on a device" % array.dtype)
    if dtype == "q8_0" and kind in ("f16", "f32", "f64"):
        array, kind, dtype = _blocks(array), "u8", None
    wanted = kind if dtype is None else dtype
    if wanted not in (kind,) + {"u8": ("e4m3",), "u16": ("bf16", "f16"), "f16": ("bf16", "f32", "f64"),
                                "f32": ("bf16", "f16", "f64"), "f64": ("bf16", "f16", "f32")}.get(kind, ()):
        raise ArgumentError("an array of %s cannot become a tensor of %r" % (array.dtype, dtype))
    if wanted != kind and kind not in ("u8", "u16"):
        with numpy.errstate(over="ignore", invalid="ignore"):
            array = _rounded(array.astype(numpy.float32)) if wanted == "bf16" else array.astype(_numpy_type(wanted))
    tensor = empty(array.shape, wanted, device)
    array = numpy.ascontiguousarray(array, array.dtype.newbyteorder("="))
    tensor._upload(ctypes.c_void_p(array.ctypes.data))
    return tensor
