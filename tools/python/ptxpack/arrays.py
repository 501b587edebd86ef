"""arrays.py - the arrays of other libraries on a CUDA device: DLPack and __cuda_array_interface__; events."""
from __future__ import annotations

import contextlib
import ctypes
from typing import Any, Sequence

from .library import ArgumentError, Error, LEGACY_STREAM, _structure
from .device import _Device, _device, _driver


# ---- arrays of others --------------------------------------------------------------------------------------
class _View:
    """A description of an array: `kind` is "f16", "u8", ...; strides count elements; `keep` holds its memory."""
    __slots__ = ("name", "address", "shape", "strides", "kind", "device", "writable", "keep")

    def __init__(self, name: str, address: int, shape: tuple[int, ...], strides: tuple[int, ...], kind: str,
                 device: int, writable: bool = True, keep: Any = None) -> None:
        self.name, self.address, self.shape, self.strides = name, address, shape, strides
        self.kind, self.device, self.writable, self.keep = kind, device, writable, keep


def _compact(shape: Sequence[int]) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.insert(0, step)
        step *= max(extent, 1)
    return tuple(strides)


def _is_compact(view: _View) -> bool:
    return all(stride == step for stride, step, extent in zip(view.strides, _compact(view.shape), view.shape)
               if extent != 1)


def _dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether the elements are contiguous, in any order of the dimensions."""
    step = 1
    for stride, extent in sorted((s, e) for s, e in zip(strides, shape) if e != 1):
        if stride != step:
            return False
        step *= extent
    return True


# ---- element types: bytes, DLPack's type code, the type of __cuda_array_interface__, NumPy's or ml_dtypes' name
_KINDS = {
    "f16": (2, 2, "<f2", "float16"), "f32": (4, 2, "<f4", "float32"), "f64": (8, 2, "<f8", "float64"),
    "bf16": (2, 4, "|V2", "bfloat16"), "e4m3": (1, 10, "|V1", "float8_e4m3fn"), "bool": (1, 6, "|b1", "bool"),
    "u8": (1, 1, "|u1", "uint8"), "u16": (2, 1, "<u2", "uint16"), "u32": (4, 1, "<u4", "uint32"),
    "u64": (8, 1, "<u8", "uint64"), "s8": (1, 0, "|i1", "int8"), "s16": (2, 0, "<i2", "int16"),
    "s32": (4, 0, "<i4", "int32"), "s64": (8, 0, "<i8", "int64"),
}
_ITEM_BYTES = {kind: facts[0] for kind, facts in _KINDS.items()}


# DLPack, as dlpack.h declares it
_DLTensor = _structure(
    "_DLTensor", (ctypes.c_void_p, "data"), (ctypes.c_int32, "device_type device_id ndim"),
    (ctypes.c_uint8, "code bits"), (ctypes.c_uint16, "lanes"),
    (ctypes.POINTER(ctypes.c_int64), "shape strides"), (ctypes.c_uint64, "byte_offset"))
_DLManaged = _structure("_DLManaged", (_DLTensor, "tensor"), (ctypes.c_void_p, "context deleter"))
_DLManagedVersioned = _structure("_DLManagedVersioned", (ctypes.c_uint32, "major minor"),
                                 (ctypes.c_void_p, "context deleter"), (ctypes.c_uint64, "flags"),
                                 (_DLTensor, "tensor"))
_DL_CPU, _DL_CUDA, _DL_CUDA_MANAGED, _DL_READ_ONLY = 1, 2, 13, 1
_DL_CODES = {kind: (code, 8 * item) for kind, (item, code, _, _) in _KINDS.items()}
_DL_KINDS = {code: kind for kind, code in _DL_CODES.items()}
_CAPSULE, _CAPSULE_VERSIONED = b"dltensor", b"dltensor_versioned"


def _python(name: str, result: Any, *arguments: Any) -> Any:
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_capsule_new = _python("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_capsule_is = _python("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_capsule_get = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)


def _capsule_of(name: str, array: Any, stream: int) -> Any:
    """Returns the array's capsule; the array's work is done before what follows on `stream`."""
    place = int(array.__dlpack_device__()[0])
    if place not in (_DL_CUDA, _DL_CUDA_MANAGED):
        hint = "; ptxpack.from_numpy copies an array there" if place == _DL_CPU else ""
        raise TypeError("%s is not in the memory of a CUDA device (DLPack's device type %d)%s" % (name, place, hint))
    try:
        return array.__dlpack__(stream=stream or LEGACY_STREAM, max_version=(1, 1))
    except TypeError:  # of a producer before DLPack 1.0
        return array.__dlpack__(stream=stream or LEGACY_STREAM)


def _view_dlpack(name: str, array: Any, stream: int) -> _View:
    """Reads the capsule without taking it over: the loan ends with the capsule."""
    capsule, writable = _capsule_of(name, array, stream), True
    if _capsule_is(capsule, _CAPSULE_VERSIONED):
        managed = _DLManagedVersioned.from_address(_capsule_get(capsule, _CAPSULE_VERSIONED))
        if managed.major != 1:
            raise TypeError("%s: DLPack %d.%d is not known" % (name, managed.major, managed.minor))
        writable = not managed.flags & _DL_READ_ONLY
    elif _capsule_is(capsule, _CAPSULE):
        managed = _DLManaged.from_address(_capsule_get(capsule, _CAPSULE))
    else:
        raise TypeError("%s: its __dlpack__ gives no DLPack capsule" % name)
    tensor = managed.tensor
    shape = tuple(tensor.shape[:tensor.ndim])
    strides = tuple(tensor.strides[:tensor.ndim]) if tensor.strides else _compact(shape)
    kind = _DL_KINDS.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    kind = kind or "DLPack type (%d, %d, %d)" % (tensor.code, tensor.bits, tensor.lanes)
    address = (tensor.data or 0) + tensor.byte_offset
    return _View(name, address, shape, strides, kind, tensor.device_id, writable, (array, capsule))


_TYPESTRS = {typestr: kind for kind, (_, _, typestr, _) in _KINDS.items()}
_TYPESTRS.update({"<V2": "bf16", "bfloat16": "bf16", "<V1": "e4m3", "<u1": "u8", "<i1": "s8", "<b1": "bool"})


def _view_interface(name: str, array: Any, stream: int) -> _View:
    """Reads an array by __cuda_array_interface__; the work of its stream is done before what follows on `stream`."""
    interface, driver = array.__cuda_array_interface__, _driver()
    address, read_only = interface["data"]
    shape, kind = tuple(interface["shape"]), _TYPESTRS.get(interface["typestr"], interface["typestr"])
    if interface.get("mask") is not None:
        raise TypeError("%s has a mask" % name)
    steps, item = interface.get("strides"), _ITEM_BYTES.get(kind, 1)
    if steps is not None and any(step % item for step in steps):
        raise ArgumentError("%s: its strides of %s bytes are not of whole elements" % (name, tuple(steps)))
    strides = _compact(shape) if steps is None else tuple(step // item for step in steps)
    try:
        device = driver.get(ctypes.c_int, "cuPointerGetAttribute", 9, ctypes.c_uint64(address))  # its ordinal
    except Error as error:
        raise ArgumentError("%s: 0x%x is not an address of device memory (%s)" % (name, address, error)) from None
    producer = interface.get("stream") if interface.get("version", 2) >= 3 else None
    if producer is not None and producer != (stream or LEGACY_STREAM):
        event = _Event(_device(device), producer)
        event.precede(stream)
    return _View(name, address, shape, strides, kind, device, not read_only, array)


class _Event:
    """An event after everything that was enqueued on a stream so far."""

    def __init__(self, device: _Device, stream: int) -> None:
        self.device, self.event = device, ctypes.c_void_p()
        with device.entered() as call:
            call("cuEventCreate", ctypes.byref(self.event), 2)  # CU_EVENT_DISABLE_TIMING
            call("cuEventRecord", self.event, ctypes.c_void_p(stream))

    def precede(self, stream: int) -> None:
        with self.device.entered() as call:
            call("cuStreamWaitEvent", ctypes.c_void_p(stream), self.event, 0)

    def happened(self) -> bool:
        with contextlib.suppress(Error), self.device.entered():
            return bool(self.device.driver.cuda.cuEventQuery(self.event) != 600)  # CUDA_ERROR_NOT_READY
        return True  # the context has ended, and everything that ran in it

    def wait(self) -> None:
        with contextlib.suppress(Error), self.device.entered() as call:
            call("cuEventSynchronize", self.event)

    def __del__(self) -> None:
        if self.event:
            with contextlib.suppress(Error), self.device.entered() as call:
                call("cuEventDestroy_v2", self.event)
