"""tensor.py - Tensor: results for arrays whose library has no arrays that we can make."""
import ctypes
import math
import sys

from .library import LEGACY_STREAM
from .arrays import (_CAPSULE, _CAPSULE_VERSIONED, _DLManaged, _DLManagedVersioned, _DLTensor, _DL_CODES, _DL_CUDA,
                     _ITEM_BYTES, _TYPESTRS, _capsule_is, _capsule_new, _compact, _dense)


# ---- arrays of our own -------------------------------------------------------------------------------------
_exports = {}  # address of a DLManagedTensor -> what it needs, and its capsule


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _end_export(managed, exports=_exports):
    exports.pop(managed, None)


for _lasting in (_end_export, _CAPSULE, _CAPSULE_VERSIONED):  # others use them to the very end
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_lasting))


def _end_refused():
    """Of capsules that nobody took over, as their names show, and that only we still have.  A destructor of
    theirs cannot do it: who refuses a capsule drops it with an error set, and then no Python may run."""
    for address, export in list(_exports.items()):
        if sys.getrefcount(export[-1]) == 2 and any(_capsule_is(export[-1], name)
                                                    for name in (_CAPSULE, _CAPSULE_VERSIONED)):
            _exports.pop(address, None)


class Tensor:
    """Device memory with a shape: .shape, .strides (in elements), .dtype ("f16", "bf16", "e4m3", "f32", "u8",
    "u16"), .device (its ordinal), .address.  Any library that takes DLPack or __cuda_array_interface__ takes
    it: cupy.from_dlpack(tensor)."""

    def __init__(self, device, shape, dtype, stream=0, strides=None):
        self._owner, self._stream, self._done = device, stream or LEGACY_STREAM, None
        self.address = 0
        self.shape, self.dtype, self.device = tuple(shape), dtype, device.ordinal
        self.strides = tuple(strides) if strides and _dense(shape, strides) else _compact(shape)
        _end_refused()
        self.address = device.allocate(max(self._size(), 1))

    def __del__(self):
        if self.address:
            if self._done is not None:
                self._done.wait()
            self._owner.free(self.address)

    def __repr__(self):
        return "ptxpack.Tensor(shape=%s, dtype=%s, device=%d)" % (self.shape, self.dtype, self.device)

    def _size(self):
        return math.prod(self.shape) * _ITEM_BYTES[self.dtype]

    def _precede(self, stream):
        """What writes it is done before what follows on `stream`."""
        if self._done is not None and (stream or LEGACY_STREAM) != self._stream:
            self._done.precede(stream or LEGACY_STREAM)

    def to_host(self):
        """Its bytes, in the order of memory, when the work that writes them is done."""
        data = ctypes.create_string_buffer(max(self._size(), 1))
        if self._done is not None:
            self._done.wait()
        with self._owner.entered() as call:
            call("cuMemcpyDtoH_v2", data, ctypes.c_uint64(self.address), ctypes.c_size_t(self._size()))
        return data.raw[:self._size()]

    @property
    def __cuda_array_interface__(self):
        item = _ITEM_BYTES[self.dtype]
        typestr = next(text for text, kind in _TYPESTRS.items() if kind == self.dtype)
        return {"version": 3, "shape": self.shape, "strides": tuple(step * item for step in self.strides),
                "typestr": typestr, "data": (self.address, False), "stream": self._stream}

    def __dlpack_device__(self):
        return _DL_CUDA, self.device

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
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
