"""arrays.py - the arrays of other libraries on a CUDA device: DLPack and __cuda_array_interface__; events."""
import contextlib
import ctypes

from .library import ArgumentError, Error, LEGACY_STREAM, _structure
from .device import _device, _driver


# ---- arrays of others --------------------------------------------------------------------------------------
class _View:
    """What an array is: `kind` is "f16", "u8", ...; strides count elements; `keep` holds its memory."""
    __slots__ = ("name", "address", "shape", "strides", "kind", "device", "writable", "keep")

    def __init__(self, name, address, shape, strides, kind, device, writable=True, keep=None):
        self.name, self.address, self.shape, self.strides = name, address, shape, strides
        self.kind, self.device, self.writable, self.keep = kind, device, writable, keep


def _compact(shape):
    strides, step = [], 1
    for extent in reversed(shape):
        strides.insert(0, step)
        step *= max(extent, 1)
    return tuple(strides)


def _is_compact(view):
    return all(stride == step for stride, step, extent in zip(view.strides, _compact(view.shape), view.shape)
               if extent != 1)


def _dense(shape, strides):
    """Whether the elements lie side by side, in any order of the dimensions."""
    step = 1
    for stride, extent in sorted((s, e) for s, e in zip(strides, shape) if e != 1):
        if stride != step:
            return False
        step *= extent
    return True


_ITEM_BYTES = {"f16": 2, "bf16": 2, "e4m3": 1, "u8": 1, "u16": 2, "f32": 4}


# DLPack, as dlpack.h declares it
_DLTensor = _structure(
    "_DLTensor", (ctypes.c_void_p, "data"), (ctypes.c_int32, "device_type device_id ndim"),
    (ctypes.c_uint8, "code bits"), (ctypes.c_uint16, "lanes"),
    (ctypes.POINTER(ctypes.c_int64), "shape strides"), (ctypes.c_uint64, "byte_offset"))
_DLManaged = _structure("_DLManaged", (_DLTensor, "tensor"), (ctypes.c_void_p, "context deleter"))
_DLManagedVersioned = _structure("_DLManagedVersioned", (ctypes.c_uint32, "major minor"),
                                 (ctypes.c_void_p, "context deleter"), (ctypes.c_uint64, "flags"),
                                 (_DLTensor, "tensor"))
_DL_CUDA, _DL_CUDA_MANAGED, _DL_READ_ONLY = 2, 13, 1
_DL_KINDS = {(2, 16): "f16", (4, 16): "bf16", (10, 8): "e4m3", (2, 32): "f32", (1, 8): "u8", (1, 16): "u16"}
_DL_CODES = {kind: code for code, kind in _DL_KINDS.items()}
_CAPSULE, _CAPSULE_VERSIONED = b"dltensor", b"dltensor_versioned"


def _python(name, result, *arguments):
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_capsule_new = _python("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_capsule_is = _python("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_capsule_get = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)


def _capsule_of(name, array, stream):
    """Its capsule, with the array's work done before what follows on `stream`."""
    place = int(array.__dlpack_device__()[0])
    if place not in (_DL_CUDA, _DL_CUDA_MANAGED):
        raise TypeError("%s is not in the memory of a CUDA device (DLPack's device type %d)" % (name, place))
    try:
        return array.__dlpack__(stream=stream or LEGACY_STREAM, max_version=(1, 1))
    except TypeError:  # of a producer before DLPack 1.0
        return array.__dlpack__(stream=stream or LEGACY_STREAM)


def _view_dlpack(name, array, stream):
    """The capsule is looked into, not taken over: its end is the end of the loan."""
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


_TYPESTRS = {"<f2": "f16", "<f4": "f32", "|u1": "u8", "<u1": "u8", "<u2": "u16", "|V2": "bf16", "<V2": "bf16",
             "|V1": "e4m3", "<V1": "e4m3", "bfloat16": "bf16"}


def _view_interface(name, array, stream):
    """By __cuda_array_interface__; what its stream has to do is done before what follows on `stream`."""
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
        raise ArgumentError("%s: 0x%x is no address of device memory (%s)" % (name, address, error)) from None
    producer = interface.get("stream") if interface.get("version", 2) >= 3 else None
    if producer is not None and producer != (stream or LEGACY_STREAM):
        event = _Event(_device(device), producer)
        event.precede(stream)
    return _View(name, address, shape, strides, kind, device, not read_only, array)


class _Event:
    """All that was enqueued on a stream so far."""

    def __init__(self, device, stream):
        self.device, self.event = device, ctypes.c_void_p()
        with device.entered() as call:
            call("cuEventCreate", ctypes.byref(self.event), 2)  # CU_EVENT_DISABLE_TIMING
            call("cuEventRecord", self.event, ctypes.c_void_p(stream))

    def precede(self, stream):
        with self.device.entered() as call:
            call("cuStreamWaitEvent", ctypes.c_void_p(stream), self.event, 0)

    def happened(self):
        with contextlib.suppress(Error), self.device.entered():
            return self.device.driver.cuda.cuEventQuery(self.event) != 600  # CUDA_ERROR_NOT_READY
        return True  # the context is gone, and all that ran in it

    def wait(self):
        with contextlib.suppress(Error), self.device.entered() as call:
            call("cuEventSynchronize", self.event)

    def __del__(self):
        if self.event:
            with contextlib.suppress(Error), self.device.entered() as call:
                call("cuEventDestroy_v2", self.event)
