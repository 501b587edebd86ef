"""frameworks.py - PyTorch, CuPy, JAX and others: how their arrays are read, made and ordered on streams."""
from __future__ import annotations

import contextlib
import functools
import sys
from typing import Any, ContextManager, Optional

from .library import ArgumentError, LEGACY_STREAM
from .device import _Device
from .arrays import _Event, _View, _view_dlpack, _view_interface
from .tensor import Tensor


# ---- libraries: how each one's arrays are read, made and ordered -------------------------------------------
class _Other:
    """DLPack or __cuda_array_interface__, and results of our own."""
    orders_frees = False  # whether memory that is freed is used again only behind what the stream has to do

    def view(self, name: str, array: Any, stream: int) -> _View:
        if hasattr(array, "__dlpack__") and hasattr(array, "__dlpack_device__"):
            return _view_dlpack(name, array, stream)
        if hasattr(array, "__cuda_array_interface__"):
            return _view_interface(name, array, stream)
        kind = type(array).__name__
        raise TypeError("%s: a %s has neither __dlpack__ nor __cuda_array_interface__" % (name, kind))

    def stream(self, array: Any) -> int:
        return 0

    def empty(self, like: Any, view: _View, device: _Device, shape: Optional[tuple[int, ...]], kind: str,
              stream: int) -> Any:
        """A compact array of `shape`, or with None one as `like`, whose view is given."""
        return Tensor(device, shape or view.shape, kind, stream, None if shape else view.strides)

    def result(self, made: Any, done: Optional[_Event]) -> Any:
        made._done = done
        return made


class _Own(_Other):
    def view(self, name: str, array: Any, stream: int) -> _View:
        array._precede(stream)
        return _View(name, array.address, array.shape, array.strides, array.dtype, array.device, True, array)


class _Jax(_Other):
    def view(self, name: str, array: Any, stream: int) -> _View:
        jax: Any = sys.modules["jax"]
        if isinstance(array, jax.core.Tracer):
            raise TypeError("%s is traced by JAX: call ptxpack outside of jit" % name)
        view = super().view(name, array, stream)
        view.writable = False
        return view

    def result(self, made: Any, done: Optional[_Event]) -> Any:
        made._done = done
        jax: Any = sys.modules["jax"]
        return jax.dlpack.from_dlpack(made)


class _Cupy(_Other):
    orders_frees = True

    def stream(self, array: Any) -> int:
        cupy: Any = sys.modules["cupy"]
        with cupy.cuda.Device(array.device.id):
            return int(cupy.cuda.get_current_stream().ptr)

    def empty(self, like: Any, view: _View, device: _Device, shape: Optional[tuple[int, ...]], kind: str,
              stream: int) -> Any:
        cupy: Any = sys.modules["cupy"]
        kinds = {"f32": "float32", "f16": "float16", "bf16": "uint16", "s32": "int32", "e4m3": "uint8"}
        dtype = like.dtype if view.kind == kind else getattr(cupy, kinds[kind])
        with cupy.cuda.Device(view.device):
            same = (stream or LEGACY_STREAM) == (cupy.cuda.get_current_stream().ptr or LEGACY_STREAM)
            other: ContextManager[Any] = contextlib.nullcontext() if same else cupy.cuda.ExternalStream(stream)
            with other:
                return cupy.empty(shape, dtype) if shape else cupy.empty_like(like, dtype=dtype)

    def result(self, made: Any, done: Optional[_Event]) -> Any:
        return made


class _Torch(_Other):
    orders_frees = True

    def __init__(self) -> None:
        torch: Any = sys.modules["torch"]
        kinds = {"f16": "float16", "bf16": "bfloat16", "e4m3": "float8_e4m3fn", "f32": "float32",
                 "u8": "uint8", "u16": "uint16", "s32": "int32"}
        self.dtypes = {kind: getattr(torch, name) for kind, name in kinds.items() if hasattr(torch, name)}
        self.kinds = {dtype: kind for kind, dtype in self.dtypes.items()}
        self.torch = torch

    def view(self, name: str, array: Any, stream: int) -> _View:
        if not array.is_cuda:
            raise TypeError("%s is not in the memory of a CUDA device (it is on %s)" % (name, array.device))
        if array.requires_grad and self.torch.is_grad_enabled():
            raise ArgumentError("%s requires a gradient, and there is none: use torch.no_grad()" % name)
        return _View(name, array.data_ptr(), tuple(array.shape), array.stride(),
                     self.kinds.get(array.dtype, str(array.dtype)), array.device.index, True, array)

    def stream(self, array: Any) -> int:  # of what is not on a GPU none: view() refuses it
        return int(self.torch.cuda.current_stream(array.device).cuda_stream) if array.is_cuda else 0

    def empty(self, like: Any, view: _View, device: _Device, shape: Optional[tuple[int, ...]], kind: str,
              stream: int) -> Any:
        torch, dtype = self.torch, like.dtype if view.kind == kind else self.dtypes[kind]
        stream = 0 if stream == LEGACY_STREAM else stream  # it knows this one as 0 alone
        same = stream == torch.cuda.current_stream(like.device).cuda_stream
        external = None if same else torch.cuda.ExternalStream(stream, device=like.device)
        with torch.cuda.stream(external):  # None: as it is
            if shape:
                return torch.empty(shape, dtype=dtype, device=like.device)
            return torch.empty_like(like, dtype=dtype, requires_grad=False)

    def result(self, made: Any, done: Optional[_Event]) -> Any:
        return made


_own, _other = _Own(), _Other()


@functools.lru_cache(maxsize=None)
def _adapter(kind: Any) -> _Other:
    adapter: _Other = kind()
    return adapter


@functools.lru_cache(maxsize=256)
def _library_of(kind: Any) -> _Other:
    """By the type of an array: the library whose class it is or derives from, without importing any."""
    if issubclass(kind, Tensor):
        return _own
    for base in kind.__mro__:
        top = base.__module__.partition(".")[0]
        adapters: tuple[tuple[str, Any], ...] = ("torch", _Torch), ("cupy", _Cupy), ("jaxlib", _Jax), ("jax", _Jax)
        for name, adapter in adapters:
            if top == name and name.replace("lib", "") in sys.modules:
                return _adapter(adapter)
    return _other


def _library_for(array: Any) -> _Other:
    kind: Any = type(array)
    return _library_of(kind)


def _stream_handle(stream: Any) -> int:
    """Of an integer or a stream object."""
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        return int((protocol() if callable(protocol) else protocol)[1])
    for attribute in ("cuda_stream", "ptr"):  # PyTorch, CuPy
        if hasattr(stream, attribute):
            return int(getattr(stream, attribute))
    handle = getattr(stream, "handle", stream)  # Numba's is a ctypes pointer
    handle = getattr(handle, "value", handle)
    if handle is None:
        return 0
    if isinstance(handle, bool) or not isinstance(handle, int):
        raise TypeError("stream: a %s is neither an integer handle nor a stream" % type(stream).__name__)
    return int(handle)
